"""One huge operation ends soon after its deadline or its client; all runs together have a bound."""
import http.client
import json
import os
import threading
import unittest

import grpc
import small_models
from support import SLOW, Case, Server, wait_for
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

CORES = len(os.sched_getaffinity(0))
WAIT = 60 * SLOW


def save(folder):
    """n (and k) make the shapes; each signature ends in one operation that takes long."""
    def build(g):
        f = {"T": "float"}
        g.placeholder("n", "int32")
        g.const("nil", "float", [], float_val=[0.5])
        g.const("all", "int32", [2], int_val=[0, 1])
        g.const("last", "int32", [], int_val=[1])
        g.const("turn", "int32", [2], int_val=[1, 0])
        g.node("big", "Fill", "n", "nil", T="float", index_type="int32")
        g.node("square", "MatMul", "big", "big", **f)
        g.node("power", "Pow", "big", "big", **f)
        g.node("lgamma", "Lgamma", "big", **f)
        g.node("turned", "Transpose", "big", "turn", T="float", Tperm="int32")
        g.node("cumsum", "Cumsum", "big", "last", T="float", Tidx="int32")
        g.node("softmax", "Softmax", "big", **f)
        g.node("noise", "RandomStandardNormal", "n", T="int32", dtype="float")
        for name in ("square", "power", "lgamma", "turned", "cumsum", "softmax", "noise"):
            g.node("sum_" + name, "Sum", name, "all", T="float", Tidx="int32")
        g.placeholder("x", "float")
        g.node("y", "Mul", "x", "nil", **f)
        g.node("wide", "Fill", "n", "nil", T="float", index_type="int32")
        g.node("wide_sum", "Sum", "wide", "all", T="float", Tidx="int32")

    n = {"n": ("n", "int32")}
    signatures = {name: (n, {"y": ("sum_" + name, "float")})
                  for name in ("square", "power", "lgamma", "turned", "cumsum", "softmax", "noise")}
    signatures["serving_default"] = ({"x": ("x", "float")}, {"y": ("y", "float")})
    signatures["fill"] = (n, {"y": ("wide_sum", "float")})
    small_models.write(folder, signatures, build)


# Shapes for which the last operation takes a second or so, the tensors being a few hundred megabytes.
LONG = {"square": [4000, 4000], "power": [9000, 9000], "lgamma": [8000, 8000],
        "noise": [8000, 8000]}
LONGER = [14000, 14000]  # a square of a minute


class Limits(Case):
    def serve(self, *flags):
        save(self.path("m", "1"))
        return Server(f"--model_base_path={self.path('m')}", "--model_name=m", *flags)

    def ask(self, server, name, shape):
        return server.post("/v1/models/m:predict", {"signature_name": name, "inputs": shape})

    def call(self, server, name, shape, timeout=WAIT):
        """A gRPC call that is under way."""
        channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")
        self.addCleanup(channel.close)
        request = predict_pb2.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = "m", name
        request.inputs["n"].dtype = 3
        request.inputs["n"].tensor_shape.dim.add(size=2)
        request.inputs["n"].int_val.extend(shape)
        return prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict.future(
            request, timeout=timeout)

    def cpu_s(self, server):
        """What it has used of its cores: what else the machine does is not in it."""
        with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def wait_idle(self, server):
        wait_for(lambda: server.metric("slipway_jobs") == 0, "the run to end")

    def test_one_huge_operation_ends_with_its_deadline(self):
        with self.serve() as server:
            for name, shape in LONG.items():
                whole = 1  # under a sanitizer it takes too long to be measured, and only has to end
                if SLOW == 1:
                    start = self.cpu_s(server)
                    self.assertEqual(self.ask(server, name, shape)[0], 200)
                    whole = self.cpu_s(server) - start
                start = self.cpu_s(server)
                # A quarter of the work may be done by then.
                call = self.call(server, name, shape, timeout=whole / (4 * CORES))
                self.assertEqual(call.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
                self.wait_idle(server)
                if SLOW == 1:
                    self.assertLess(self.cpu_s(server) - start, whole / 2, name)

    def ends_soon(self, server, give_up):
        start = self.cpu_s(server)
        wait_for(lambda: self.cpu_s(server) - start > 1, "it to be at work")
        give_up()
        start = self.cpu_s(server)
        self.wait_idle(server)
        self.assertLess(self.cpu_s(server) - start, 10 * SLOW)

    def test_it_ends_when_the_client_hangs_up(self):
        with self.serve() as server:
            c = http.client.HTTPConnection("127.0.0.1", server.rest_port)
            c.request("POST", "/v1/models/m:predict",
                      json.dumps({"signature_name": "square", "inputs": LONGER}))
            self.ends_soon(server, lambda: (c.sock.close(), c.close()))

    def test_it_ends_when_a_grpc_call_is_cancelled(self):
        with self.serve() as server:
            self.ends_soon(server, self.call(server, "square", LONGER).cancel)

    def test_runs_together_hold_no_more_than_the_bound(self):
        with self.serve("--run_memory_total_bytes=100M") as server:
            self.assertEqual(self.ask(server, "fill", [4000, 4000])[0], 200)  # 64 MB
            status, body = self.ask(server, "fill", [6000, 6000])
            self.assertEqual(status, 429, body)
            self.assertIn(b"in use by all runs together of the limit of 104857600", body)
            codes = []
            threads = [threading.Thread(target=lambda: codes.append(
                self.ask(server, "lgamma", [3000, 3000])[0])) for _ in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertLessEqual(set(codes), {200, 429})
            self.assertIn(200, codes)
            # What was taken has come back.
            wait_for(lambda: self.ask(server, "fill", [4500, 4500])[0] == 200, "the memory")

    def test_a_model_that_has_too_little_memory_says_so_as_it_is_loaded(self):
        def build(g):
            g.placeholder("x", "float")
            g.const("w", "float", [1024, 1024], float_val=[0.5])
            g.node("y", "Mul", "x", "w", T="float")

        small_models.write(self.path("m", "7"),
                           {"serving_default": ({"x": ("x", "float")}, {"y": ("y", "float")})}, build)
        with Server(f"--model_base_path={self.path('m')}", "--model_name=m",
                    "--run_memory_limit_bytes=1M") as server:
            status, body = self.ask(server, "serving_default", [1.0])
            self.assertEqual(status, 429, body)
            self.assertIn(b"of the limit of 1048576 (--run_memory_limit_bytes)", body)
            self.assertRegex(server.log(), r'WARNING model m version 7: warm-up of signature '
                                           r'"serving_default" failed, requests may: out of memory: .* '
                                           r'\(--run_memory_limit_bytes\)\n')


if __name__ == "__main__":
    unittest.main()
