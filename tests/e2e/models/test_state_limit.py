"""Tests the memory limit of a version's variables and tables. A request that would exceed the limit is refused by every
API, the server's memory stays within the limit, and the next request succeeds."""
import json
import unittest

import grpc
import small_models
from support import SLOW, Case, Server, wait_for
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (predict_pb2, prediction_service_pb2_grpc, session_service_pb2,
                                     session_service_pb2_grpc)

MB = 1 << 20
WAIT = 60 * SLOW
RUN_MB, STATE_MB = 200, 100
FLAGS = (f"--run_memory_limit_bytes={RUN_MB}M", f"--state_memory_limit_bytes={STATE_MB}M",
         "--enable_session_service")
MORE_KB = 64 << 10  # memory of the server itself, in addition to the limits for runs and for state


def save(folder):
    def build(g):
        g.placeholder("s", "string")
        g.placeholder("n", "int32")
        g.placeholder("k", "int64")
        g.placeholder("x", "float")
        g.const("one", "int32", [1], int_val=[1])
        g.const("nothing", "string", [], string_val=[b""])
        g.node("many", "BroadcastTo", "s", "n", T="string", Tidx="int32")
        g.node("many_size", "Size", "many", T="string", out_type="int32")
        for i in range(200):
            g.node(f"v{i}", "VarHandleOp", dtype="string").attr["shape"].shape.unknown_rank = True
            g.node(f"v{i}_set", "AssignVariableOp", f"v{i}", "many", dtype="string")
        g.node("v0_get", "ReadVariableOp", "v0", "^v0_set", dtype="string")
        g.node("v0_size", "Size", "v0_get", T="string", out_type="int32")
        g.node("f", "VariableV2", dtype="float").attr["shape"].shape.unknown_rank = True
        g.node("f_set", "Assign", "f", "x", T="float").attr["validate_shape"].b = False
        g.node("t", "MutableHashTableV2", key_dtype="int64", value_dtype="string")
        g.node("row", "Reshape", "s", "one", T="string", Tshape="int32")
        g.node("t_put", "LookupTableInsertV2", "t", "k", "row", Tin="int64", Tout="string")
        g.node("t_size", "LookupTableSizeV2", "t", "^t_put")
        g.node("t_find", "LookupTableFindV2", "t", "k", "nothing", Tin="int64", Tout="string")
        g.node("t_length", "StringLength", "t_find")

    one = {"s": ("s", "string"), "n": ("n", "int32")}
    pair = {"k": ("k", "int64"), "s": ("s", "string")}
    small_models.write(folder, {
        "many": (one, {"y": ("many_size", "int32")}),
        "assign": (one, {"y": ("v0_size", "int32")}),
        "insert": (pair, {"y": ("t_size", "int64")}),
        "find": ({"k": ("k", "int64")}, {"y": ("t_length", "int32")}),
    }, build)


class StateLimit(Case):
    def setUp(self):
        super().setUp()
        save(self.path("m", "1"))
        self.server = Server(f"--model_base_path={self.path('m')}", "--model_name=m", *FLAGS)
        self.addCleanup(self.server.stop)
        self.channel = grpc.insecure_channel(
            f"127.0.0.1:{self.server.grpc_port}",
            options=[("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)])
        self.addCleanup(self.channel.close)
        self.predict = prediction_service_pb2_grpc.PredictionServiceStub(self.channel).Predict
        self.session = session_service_pb2_grpc.SessionServiceStub(self.channel).SessionRun
        self.before_kb = self.resident_kb()

    def resident_kb(self):
        with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
        self.fail("no VmRSS")

    def stays_within(self):
        if SLOW == 1:  # a sanitizer retains freed memory, so memory use is checked only without a sanitizer
            self.assertLess(self.resident_kb() - self.before_kb,
                            ((RUN_MB + STATE_MB) << 10) + MORE_KB)
        self.assertLess(self.server.metric("slipway_model_state_bytes"), STATE_MB * MB + 1)

    def state_falls_below(self, n_bytes):
        """Waits, because the memory of a request is released after its response has been sent."""
        wait_for(lambda: self.server.metric("slipway_model_state_bytes") < n_bytes, "less state")

    def ask(self, signature, s=None, **ints):
        r = predict_pb2.PredictRequest()
        r.model_spec.name, r.model_spec.signature_name = "m", signature
        if s is not None:
            r.inputs["s"].dtype = types_pb2.DT_STRING
            r.inputs["s"].tensor_shape.SetInParent()
            r.inputs["s"].string_val.append(s)
        for name, value in ints.items():
            t = r.inputs[name]
            t.tensor_shape.dim.add(size=1)
            t.dtype = types_pb2.DT_INT64 if name == "k" else types_pb2.DT_INT32
            (t.int64_val if name == "k" else t.int_val).append(value)
        y = self.predict(r, timeout=WAIT).outputs["y"]
        return (list(y.int64_val) + list(y.int_val))[0]

    def assign(self, target, s=None, n=None, floats=None):
        r = session_service_pb2.SessionRunRequest(target=[target])
        r.model_spec.name = "m"
        if floats is not None:
            t = r.feed.add(name="x:0").tensor
            t.dtype, t.tensor_content = types_pb2.DT_FLOAT, bytes(4 * floats)
            t.tensor_shape.dim.add(size=floats)
        else:
            t = r.feed.add(name="s:0").tensor
            t.dtype = types_pb2.DT_STRING
            t.tensor_shape.SetInParent()
            t.string_val.append(s)
            t = r.feed.add(name="n:0").tensor
            t.dtype = types_pb2.DT_INT32
            t.tensor_shape.dim.add(size=1)
            t.int_val.append(n)
        self.session(r, timeout=WAIT)

    def refused(self, call, *args, **kwargs):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*args, **kwargs)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertRegex(caught.exception.details(),
                         r"out of memory: \d+ bytes for .*, with \d+ in use of the limit of "
                         rf"{STATE_MB * MB} \(--state_memory_limit_bytes\)")
        self.stays_within()

    def test_a_string_that_is_broadcast_is_held_once(self):
        for _ in range(20):
            self.assertEqual(self.ask("many", b"a" * MB, n=3000), 3000)
            self.assertEqual(self.ask("assign", b"a" * MB, n=3000), 3000)
        self.stays_within()
        self.state_falls_below(2 * MB)

    def test_string_variables_by_session_run(self):
        n = 0
        with self.assertRaises(grpc.RpcError) as caught:
            for n in range(200):
                self.assign(f"v{n}_set", b"a" * MB, 10)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("--state_memory_limit_bytes", caught.exception.details())
        self.assertTrue(90 <= n < 100, n)
        for i in range(n, n + 50):
            self.refused(self.assign, f"v{i}_set", b"a" * MB, 10)
        for i in range(200):  # The memory of a value that is replaced is available to the new value.
            self.assign(f"v{i % n}_set", b"b" * MB, 10)
        self.stays_within()
        self.assign("v0_set", b"c", 1)
        self.assign("v199_set", b"a" * MB, 10)
        self.assertEqual(self.ask("many", b"a" * MB, n=3000), 3000)

    def test_fed_numbers_by_session_run(self):
        self.assign("f_set", floats=20 * MB)
        self.refused(self.assign, "f_set", floats=30 * MB)
        self.assertGreater(self.server.metric("slipway_model_state_bytes"), 80 * MB - 1)
        for _ in range(5):
            self.assign("f_set", floats=20 * MB)
        self.stays_within()
        self.assign("f_set", floats=1)
        self.state_falls_below(MB)

    def test_table_inserts_in_a_loop(self):
        n = 0
        with self.assertRaises(grpc.RpcError) as caught:
            for n in range(200):
                self.assertEqual(self.ask("insert", b"a" * MB, k=n), n + 1)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("0 of 1 pairs were inserted before", caught.exception.details())
        self.assertTrue(90 <= n < 100, n)
        for k in range(200, 250):
            self.refused(self.ask, "insert", b"a" * MB, k=k)
        self.assertEqual(self.ask("find", k=n - 1), MB)
        self.assertEqual(self.ask("find", k=200), 0)
        self.assertEqual(self.ask("insert", b"b", k=0), n)

    def test_an_unloaded_version_holds_nothing(self):
        for i in range(50):
            self.assign(f"v{i}_set", b"a" * MB, 10)
        self.assertGreater(self.server.metric("slipway_model_state_bytes"), 50 * MB)
        save(self.path("m", "2"))
        wait_for(lambda: self.server.state("m", 1) == "END", "the first version to go")
        self.state_falls_below(MB)
        if SLOW == 1:
            wait_for(lambda: self.resident_kb() - self.before_kb < MORE_KB, "the memory")


def write_restoring(folder, prefix, how):
    """Writes a model that restores one tensor of 32 MB ten times. `how` ("loads", "reads" or "runs") selects when the
    tensor is read."""
    n, times = 8 << 20, 10

    def build(g):
        g.const("prefix", "string", [], string_val=[prefix.encode()])
        g.const("names", "string", [times], string_val=[b"w"] * times)
        part = b"" if how == "reads" else f"{n} 0,{n}".encode()
        g.const("parts", "string", [times], string_val=[part] * times)
        g.placeholder("i", "int32")
        g.const("one", "int32", [1], int_val=[1])
        g.node("all", "RestoreV2", "prefix", "names", "parts").attr["dtypes"].list.type.extend(
            [types_pb2.DT_FLOAT] * times)
        values = []
        for k in range(times):
            g.node(f"v{k}", "VarHandleOp", dtype="float").attr["shape"].shape.unknown_rank = True
            g.node(f"v{k}_set", "AssignVariableOp", f"v{k}", f"all:{k}", dtype="float")
            g.node(f"v{k}_get", "ReadVariableOp", f"v{k}", dtype="float")
            values.append(f"all:{k}" if how == "runs" else f"v{k}_get")
        g.node("init", "NoOp", *(f"^v{k}_set" for k in range(times) if how != "runs"))
        # The signature takes an index, and returns the sum of the elements with this index over all tensors in `values`.
        for k, value in enumerate(values):
            g.node(f"at{k}", "Slice", value, "i", "one", T="float", Index="int32")
        g.node("sum", "AddN", *(f"at{k}" for k in range(times)), T="float").attr["N"].i = times
    small_models.write(folder, {"serving_default": ({"i": ("i", "int32")}, {"y": ("sum", "float")})},
                       build, init="init")


def write_saving(folder, prefix):
    """Writes a model that saves "w", 32 MB of ones, when it is loaded."""
    def build(g):
        g.placeholder("x", "float")
        g.node("y", "Identity", "x", T="float")
        g.const("dims", "int32", [1], int_val=[8 << 20])
        g.const("one", "float", [], float_val=[1])
        g.node("ones", "Fill", "dims", "one", T="float", index_type="int32")
        g.const("prefix", "string", [], string_val=[prefix.encode()])
        g.const("names", "string", [1], string_val=[b"w"])
        g.const("parts", "string", [1], string_val=[b""])
        g.node("save", "SaveV2", "prefix", "names", "parts", "ones").attr["dtypes"].list.type.append(
            types_pb2.DT_FLOAT)
        g.node("init", "NoOp", "^save")
    small_models.write(folder, {"serving_default": ({"x": ("x", "float")}, {"y": ("y", "float")})},
                       build, init="init")


class RestoredAgain(Case):
    """Tests that a checkpoint entry that is restored several times is counted once for each copy in memory."""

    def serve(self, how):
        write_saving(self.path("saves", "1"), self.path("w"))
        Server(f"--model_base_path={self.path('saves')}", "--model_name=saves").stop()
        write_restoring(self.path("m", how, "1"), self.path("w"), how)
        self.put("m/good/1")
        server = Server(f"--models={self.path('m')}", "--model_wait_seconds=1", *FLAGS)
        self.addCleanup(server.stop)
        wait_for(lambda: server.state(how, 1) in ("AVAILABLE", "END"), "the end of the load")
        return server

    def test_by_slices_while_a_model_is_loaded(self):
        state, why = self.serve("loads").states("loads")[1]
        self.assertEqual(state, "END")
        self.assertRegex(why, r"limit of 209715200 \(the checkpoint's size and "
                              r"--run_memory_limit_bytes\)")

    def test_by_variables_that_are_read_when_they_are_used(self):
        state, why = self.serve("reads").states("reads")[1]
        self.assertEqual(state, "END")
        self.assertIn("(the checkpoint's size and --run_memory_limit_bytes)", why)

    def test_by_a_request(self):
        server = self.serve("runs")
        self.assertEqual(server.states("runs")[1][0], "AVAILABLE")
        for _ in range(3):
            status, body = server.request("/v1/models/runs:predict", {"inputs": [5]})
            self.assertEqual(status, 429, body)
            self.assertRegex(json.loads(body)["error"],
                             r"limit of 209715200 \(--run_memory_limit_bytes\)")


if __name__ == "__main__":
    unittest.main()
