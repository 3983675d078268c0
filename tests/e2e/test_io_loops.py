"""An I/O loop serves all connections of its thread, so it leaves long work to the workers. Each test compares the
processor time of the I/O loops with that of the whole process, which does not depend on other programs."""
import contextlib
import glob
import json
import os
import unittest

import grpc

import small_models
from inference import grpc_service_pb2, grpc_service_pb2_grpc
from grpc_support import WAIT
from support import SLOW, Case, Server, wait_for


def processor_ns(server, name):
    """Returns the processor time of the server's threads whose names begin with `name`."""
    total = 0
    for task in glob.glob(f"/proc/{server.process.pid}/task/*"):
        with contextlib.suppress(OSError):  # a thread may end meanwhile
            with open(f"{task}/comm", encoding="ascii") as comm, open(f"{task}/schedstat", encoding="ascii") as stat:
                total += int(stat.read().split()[0]) if comm.read().startswith(name) else 0
    return total


@unittest.skipIf(SLOW != 1, "sanitizers change what costs time")
class IoLoops(Case):
    def serve(self, *flags):
        return self.enterContext(Server(f"--models={self.folder}", *flags))

    def check_work_is_elsewhere(self, server, loop, request, n):
        """Asserts that the I/O loop used less than a quarter of the processor time of n requests."""
        request()
        loop_before, all_before = processor_ns(server, loop), processor_ns(server, "")
        for _ in range(n):
            request()
        used, total = processor_ns(server, loop) - loop_before, processor_ns(server, "") - all_before
        self.assertGreater(total, 20e6)
        self.assertLess(used, total / 4)

    def test_strings_in_shared_memory(self):
        small_models.write_types(self.path("types", "1"))
        n, key = 1 << 20, f"/slipway-{os.getpid()}-io-loops"
        self.addCleanup(os.unlink, "/dev/shm" + key)
        with open("/dev/shm" + key, "wb") as file:
            file.truncate(4 * n)
        server = self.serve("--system_shared_memory_bytes=32M")
        region = {"key": key, "offset": 0, "byte_size": 4 * n}
        self.assertEqual(server.post("/v2/systemsharedmemory/region/r/register", region)[0], 200)
        x = {"name": "x", "shape": [n], "datatype": "BYTES",
             "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 4 * n}}
        body = {"inputs": [x], "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}

        def request():
            status, answer = server.post("/v2/models/types@string/infer", body)
            self.assertEqual((status, len(answer) > 4 * n), (200, True))
        self.check_work_is_elsewhere(server, "rest ", request, 10)

    def test_examples_with_a_long_context(self):
        def build(g):
            g.placeholder("s", "string")
            g.const("score", "float", [1, 2], float_val=[.5, .5])
            g.node("classes", "Identity", "s", T="string")

        small_models.write(self.path("classify", "1"), {"serving_default": (
            {"inputs": ("s", "string")}, {"classes": ("classes", "string")}, "classify")}, build)
        server = self.serve()
        body = {"context": {"c": "x" * 15000}, "examples": [{}] * 2000}

        def request():
            # The classes must have a dimension for the classes of an example, which these lack.
            self.assertEqual(server.post("/v1/models/classify:classify", body)[0], 400)
        self.check_work_is_elsewhere(server, "rest ", request, 20)

    def test_classes(self):
        def build(g):
            g.const("value", "double", [], double_val=[-1.7976931348623157e308])
            g.placeholder("shape", "int32")
            g.node("y", "Fill", "shape", "value", T="double", index_type="int32")

        small_models.write(self.path("fill", "1"),
                           {"serving_default": ({"shape": ("shape", "int32")}, {"y": ("y", "double")})}, build)
        server = self.serve()
        n = 8000
        body = {"inputs": [{"name": "shape", "shape": [1], "datatype": "INT32", "data": [n]}],
                "outputs": [{"name": "y", "parameters": {"classification": n, "binary_data": True}}]}

        def by_rest():
            self.assertEqual(server.post("/v2/models/fill/infer", body)[0], 200)
        self.check_work_is_elsewhere(server, "rest ", by_rest, 20)
        channel = self.enterContext(grpc.insecure_channel(
            f"127.0.0.1:{server.grpc_port}", [("grpc.max_receive_message_length", -1)]))
        stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
        message = grpc_service_pb2.ModelInferRequest(model_name="fill")
        message.inputs.add(name="shape", datatype="INT32", shape=[1]).contents.int_contents.append(n)
        message.outputs.add(name="y").parameters["classification"].int64_param = n
        self.check_work_is_elsewhere(server, "grpc-loop", lambda: stub.ModelInfer(message, timeout=WAIT), 20)

    def test_statistics_of_many_models(self):
        for i in range(300):
            small_models.write_types(self.path(f"types-{i}", "1"))
        server = self.serve()
        wait_for(lambda: server.get("/v2/models/stats")[1].count(b'"name"') == 300, "300 models")
        stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(
            self.enterContext(grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")))

        def by_rest():
            status, answer = server.get("/v2/models/stats")
            names = [row["name"] for row in json.loads(answer)["model_stats"]]
            self.assertEqual((status, names), (200, sorted(f"types-{i}" for i in range(300))))
        self.check_work_is_elsewhere(server, "rest ", by_rest, 40)

        def by_grpc():
            answer = stub.ModelStatistics(grpc_service_pb2.ModelStatisticsRequest(), timeout=WAIT)
            self.assertEqual(len(answer.model_stats), 300)
        self.check_work_is_elsewhere(server, "grpc-loop", by_grpc, 40)

    def test_index_of_many_models(self):
        small_models.write_types(self.path("types", "1"))
        for i in range(1000):
            os.makedirs(self.path(f"a-model-without-versions-{i}"))
        server = self.serve("--model_wait_seconds=1")

        def by_rest():
            status, answer = server.post("/v2/repository/index", {})
            self.assertEqual((status, answer.count(b'"name"')), (200, 1001))
        self.check_work_is_elsewhere(server, "rest ", by_rest, 40)
        stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(
            self.enterContext(grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")))

        def by_grpc():
            answer = stub.RepositoryIndex(grpc_service_pb2.RepositoryIndexRequest(), timeout=WAIT)
            self.assertEqual(len(answer.models), 1001)
        self.check_work_is_elsewhere(server, "grpc-loop", by_grpc, 40)
