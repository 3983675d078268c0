"""Serves a model that batches rows and gives them back (Batch, Unbatch), whose runs wait for rows of other runs, and that runs a
loop with an index (For)."""
import json
import threading

import small_models
from small_models import number
from support import Case, Server

SETTINGS = ((), ("--specialise=off",))
RUNS = 20  # enough runs for tier 1, in which code is compiled for a shape that has occurred twice
WAITING = 12  # more runs than there are workers
IN = {"x": ("x", "float"), "index": ("index", "int64"), "id": ("id", "int64")}
ALLOWED = (4, 10)


def build(g):
    for name, dtype in (("x", "float"), ("index", "int64"), ("id", "int64"), ("n", "int32")):
        g.placeholder(name, dtype)
    batch = g.node("batch", "Batch", "x")
    batch.attr["T"].list.type.append(number("float"))
    for key, value in (("num_batch_threads", 1), ("max_batch_size", 10), ("batch_timeout_micros", 1000), ("grad_timeout_micros", 1000)):
        batch.attr[key].i = value
    batch.attr["allowed_batch_sizes"].list.i.extend(ALLOWED)
    g.node("twice", "Add", "batch", "batch", T="float")
    g.node("back", "Unbatch", "twice", "batch:1", "batch:2", T="float").attr["timeout_micros"].i = 1000000
    g.node("exchange", "Unbatch", "x", "index", "id", T="float").attr["timeout_micros"].i = 60000000
    g.node("brief", "Unbatch", "x", "index", "id", T="float").attr["timeout_micros"].i = 1000
    # Two exchanges of gradients with one name and different types
    g.placeholder("wide", "double")
    for name, grad, dtype in (("floats", "x", "float"), ("wides", "wide", "double")):
        g.node(name, "UnbatchGrad", grad, "index", grad, "id", T=dtype).attr["shared_name"].s = b"gradients"

    # One iteration: x = x * 2 + i
    f = g.graph_def.library.function.add()
    f.signature.name = "body"
    f.signature.input_arg.add(name="i", type=number("int32"))
    f.signature.input_arg.add(name="x", type=number("float"))
    f.signature.output_arg.add(name="out", type=number("float"))
    f.ret["out"] = "sum:z:0"
    for name, op, inputs, types in (("two", "Add", ("x", "x"), {"T": "float"}),
                                    ("float", "Cast", ("i",), {"SrcT": "int32", "DstT": "float"}),
                                    ("sum", "Add", ("two:z:0", "float:y:0"), {"T": "float"})):
        n = f.node_def.add(name=name, op=op, input=inputs)
        for key, dtype in types.items():
            n.attr[key].type = number(dtype)
    for name, value in (("start", 0), ("delta", 1)):
        g.const(name, "int32", [], int_val=[value])
    loop = g.node("loop", "For", "start", "n", "delta", "x")
    loop.attr["T"].list.type.append(number("float"))
    loop.attr["body"].func.name = "body"


SIGNATURES = {"back": ({"x": ("x", "float")}, {"y": ("back", "float")}), "exchange": (IN, {"y": ("exchange", "float")}),
              "brief": (IN, {"y": ("brief", "float")}), "floats": (IN, {"y": ("floats", "float")}),
              "wides": ({**IN, "x": ("wide", "double")}, {"y": ("wides", "double")}),
              "loop": ({"x": ("x", "float"), "n": ("n", "int32")}, {"y": ("loop", "float")})}


class Exchanges(Case):
    def ask(self, server, signature, **inputs):
        return server.post("/v1/models/exchanges:predict", {"signature_name": signature, "inputs": inputs})

    def answer(self, server, signature, **inputs):
        status, body = self.ask(server, signature, **inputs)
        self.assertEqual(status, 200, body)
        return json.loads(body)["outputs"]

    def test_runs_exchange_rows(self):
        folder = self.path("exchanges")
        small_models.write(f"{folder}/1", SIGNATURES, build)
        for flags in SETTINGS:
            with self.subTest(flags=flags), Server("--model_name=exchanges", f"--model_base_path={folder}", *flags) as server:
                for k in range(RUNS):
                    x = [[float(k), float(row)] for row in range(1 + k % 10)]
                    for _ in range(2):
                        self.assertEqual(self.answer(server, "back", x=x), [[2 * v for v in row] for row in x])
                    want = x
                    for i in range(k % 5):
                        want = [[2 * v + i for v in row] for row in want]
                    self.assertEqual(self.answer(server, "loop", x=x, n=k % 5), want)
                self.wait_for_each_other(server)

    def test_an_exchange_holds_one_type(self):
        folder = self.path("types")
        small_models.write(f"{folder}/1", SIGNATURES, build)
        empty = {"x": [], "index": []}
        with Server("--model_name=exchanges", f"--model_base_path={folder}") as server:
            self.assertEqual(self.answer(server, "floats", id=1, **empty), [])
            status, body = self.ask(server, "wides", id=2, **empty)
            self.assertEqual(status, 400, body)
            self.assertIn("wides: its shared_name belongs to nodes of the type float, not double", json.loads(body)["error"])
            self.assertEqual(self.answer(server, "floats", id=3, **empty), [])

    def test_the_timeout_of_an_op_is_not_that_of_a_flag(self):
        folder = self.path("brief")
        small_models.write(f"{folder}/1", SIGNATURES, build)
        # The deadline of a request is that of the first flag, or, without it, that of the second.
        for timeout_ms in (60000, 0):
            with self.subTest(timeout_ms=timeout_ms), Server(
                    "--model_name=exchanges", f"--model_base_path={folder}", f"--rest_api_timeout_in_ms={timeout_ms}",
                    "--default_deadline_seconds=60") as server:
                status, body = self.ask(server, "brief", x=[[1.0]], index=[[5, 0, 1]], id=6)
                self.assertEqual(status, 504, body)
                self.assertIn("Batched data did not arrive within timeout window", json.loads(body)["error"])
                self.assertNotIn("--", json.loads(body)["error"])

    def wait_for_each_other(self, server):
        got = {}

        def take(k):
            # The run gives a row to key 1000 + k and waits for the row of key k.
            got[k] = self.ask(server, "exchange", x=[[float(-k)]], index=[[1000 + k, 0, 1]], id=k)
        threads = [threading.Thread(target=take, args=(k,)) for k in range(1, WAITING + 1)]
        for t in threads:
            t.start()
        # While these runs wait, others are answered.
        for _ in range(WAITING):
            self.assertEqual(self.answer(server, "back", x=[[3.0]]), [[6.0]])
        self.assertEqual(got, {})
        rows = [[float(k)] for k in range(WAITING + 1)]
        index = [[k, k, k + 1] for k in range(WAITING + 1)]
        self.assertEqual(self.answer(server, "exchange", x=rows, index=index, id=0), [[0.0]])
        for t in threads:
            t.join()
        for k, (status, body) in got.items():
            self.assertEqual((status, json.loads(body)), (200, {"outputs": [[float(k)]]}))
        # The rows that the runs left are still there.
        for k in got:
            self.assertEqual(self.answer(server, "exchange", x=[[5.0]], index=[[5000 + k, 0, 1]], id=1000 + k), [[float(-k)]])
        status, body = self.ask(server, "exchange", x=[[1.0]], index=[[1, 0]], id=1)
        self.assertEqual(status, 400, body)
        self.assertIn("Expected 1st dimension size to be 3 ; Got: 2.", json.loads(body)["error"])
