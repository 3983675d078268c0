"""Serves a model whose signatures batch by themselves (BatchFunction), map a function over rows (MapDefun) and take optionals
through a branch. Requests of all signatures are mixed, and their shapes change."""
import json
import random

import small_models
from small_models import number
from support import Case, Server

SETTINGS = ((), ("--specialise=off",))
RUNS = 40  # enough runs for tier 1, in which code is compiled for a shape that has occurred twice
ALLOWED = (4, 10)


def function(g, name, args, ret):
    """Adds a function of floats that returns the argument or output `ret`. Returns its definition."""
    f = g.graph_def.library.function.add()
    f.signature.name = name
    for arg in args:
        f.signature.input_arg.add(name=arg, type=number("float"))
    f.signature.output_arg.add(name="out", type=number("float"))
    f.ret["out"] = ret
    return f


def body_node(f, name, op, *inputs, **types):
    n = f.node_def.add(name=name, op=op, input=inputs)
    for key, dtype in types.items():
        n.attr[key].type = number(dtype)
    return n


def calls(n, name, **lists):
    """Makes the node call function `name`. The other arguments are lists of types."""
    n.attr["f"].func.name = name
    for key, dtypes in lists.items():
        n.attr[key].list.SetInParent()
        n.attr[key].list.type.extend(number(d) for d in dtypes)


def build(g):
    for name in ("x", "scale"):
        g.placeholder(name, "float")
    # out = (x - the sum of all rows that the function sees) * scale
    f = function(g, "centre", ("x", "scale"), "product:z:0")
    axis = body_node(f, "axis", "Const", dtype="int32").attr["value"].tensor
    axis.dtype = number("int32")
    axis.tensor_shape.SetInParent()
    axis.int_val.append(0)
    sums = body_node(f, "sum", "Sum", "x", "axis:output:0", T="float", Tidx="int32")
    sums.attr["keep_dims"].b = False
    body_node(f, "less", "Sub", "x", "sum:output:0", T="float")
    body_node(f, "product", "Mul", "less:z:0", "scale", T="float")
    batch = g.node("batch", "BatchFunction", "x", "scale")
    calls(batch, "centre", Tin=["float"], Tcaptured=["float"], Tout=["float"])
    for key, value in (("num_batch_threads", 1), ("max_batch_size", 10), ("batch_timeout_micros", 1000), ("max_enqueued_batches", 10)):
        batch.attr[key].i = value
    batch.attr["allowed_batch_sizes"].list.i.extend(ALLOWED)

    rows = g.node("rows", "MapDefun", "x", "scale")
    calls(rows, "centre", Targuments=["float"], Tcaptured=["float"], output_types=["float"])
    rows.attr["output_shapes"].list.shape.add().unknown_rank = True

    g.node("some", "OptionalFromValue", "x", "scale").attr["Toutput_types"].list.type.extend([number("float")] * 2)
    g.node("sums", "AddN", "some", "some", T="variant").attr["N"].i = 2
    parts = g.node("parts", "OptionalGetValue", "sums")
    parts.attr["output_types"].list.type.extend([number("float")] * 2)
    for _ in range(2):
        parts.attr["output_shapes"].list.shape.add().unknown_rank = True
    g.node("y", "Mul", "parts", "parts:1", T="float")


IN = {"x": ("x", "float"), "scale": ("scale", "float")}
SIGNATURES = {"batch": (IN, {"y": ("batch", "float")}), "rows": (IN, {"y": ("rows", "float")}), "optional": (IN, {"y": ("y", "float")})}


def expected(signature, x, scale):
    if signature == "optional":
        return [[4 * v * scale for v in row] for row in x]
    if signature == "rows":
        return [[(v - sum(row)) * scale for v in row] for row in x]
    padded = x + [x[0]] * (min(n for n in ALLOWED if n >= len(x)) - len(x))
    sums = [sum(column) for column in zip(*padded)]
    return [[(v - s) * scale for v, s in zip(row, sums)] for row in x]


class Slices(Case):
    def ask(self, server, signature, x, scale=2.0):
        return server.post("/v1/models/slices:predict", {"signature_name": signature, "inputs": {"x": x, "scale": scale}})

    def check(self, server, signature, x, scale=2.0):
        status, body = self.ask(server, signature, x, scale)
        self.assertEqual(status, 200, body)
        self.assertEqual(json.loads(body)["outputs"], expected(signature, x, scale), (signature, len(x)))

    def test_signatures_are_mixed(self):
        folder = self.path("slices")
        small_models.write(f"{folder}/1", SIGNATURES, build)
        for flags in SETTINGS:
            with self.subTest(flags=flags), Server("--model_name=slices", f"--model_base_path={folder}", *flags) as server:
                draw = random.Random(7)
                for _ in range(RUNS):
                    for signature in SIGNATURES:
                        n = draw.randint(1, 10)
                        x = [[float(draw.randint(-9, 9)) for _ in range(3)] for _ in range(n)]
                        for _ in range(2):
                            self.check(server, signature, x, float(draw.randint(1, 5)))
                self.refuse(server)

    def refuse(self, server):
        for signature, x, text in (("batch", [[1.0]] * 11, "Task size 11 is larger than maximum input batch size 10"),
                                   ("batch", 1.0, "Batching input tensors must have at least one dimension"),
                                   ("rows", 1.0, "All inputs must have rank at least 1. Input 0 has a rank of 0.")):
            status, body = self.ask(server, signature, x)
            self.assertEqual(status, 400, body)
            self.assertIn(text, json.loads(body)["error"])
        for signature in SIGNATURES:
            self.check(server, signature, [[1.0, 2.0], [3.0, 5.0]])
