"""The budget of bytes in flight covers all memory that requests hold: tensors whose values are repeated, identifiers,
strings in shared memory, and classes. Each test measures the peak of the server's resident memory."""
import collections
import json
import os
import re
import shutil
import struct
import time
import unittest

import grpc

import records
import small_models
from inference import grpc_service_pb2, grpc_service_pb2_grpc
from grpc_support import WAIT
from support import MODELS, SLOW, Case, Server, wait_for
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

MIB = 1 << 20
CODE = grpc.StatusCode


def peak(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) << 10


@unittest.skipIf(SLOW != 1, "a sanitizer's own memory hides the server's")
class RequestMemory(Case):
    def serve(self, *flags):
        server = self.enterContext(Server(f"--models={self.folder}", "--max_bytes_in_flight=64M", *flags))
        self.channel = self.enterContext(grpc.insecure_channel(
            f"127.0.0.1:{server.grpc_port}", [("grpc.max_receive_message_length", -1)]))
        self.oip = grpc_service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        self.before = peak(server)
        return server

    def codes(self, calls):
        """Returns how many calls ended with each status, and the messages of the errors."""
        codes = collections.Counter(call.code() for call in calls)
        return codes, {call.details() for call in calls if call.code() != CODE.OK}

    def test_tensors_are_charged_before_their_value_is_repeated(self):
        small_models.write_types(self.path("types", "1"))
        server = self.serve()
        stub = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        for signature, dtype, field, value, size in (("float", 1, "float_val", 1.5, 120 * MIB),
                                                     ("string", 7, "string_val", b"x" * 40, 21 * MIB)):
            request = predict_pb2.PredictRequest()
            request.model_spec.name, request.model_spec.signature_name = "types", signature
            request.inputs["x"].dtype = dtype
            request.inputs["x"].tensor_shape.dim.add(size=size)
            getattr(request.inputs["x"], field).append(value)
            self.assertLess(request.ByteSize(), 100)
            codes, texts = self.codes([stub.Predict.future(request, timeout=WAIT) for _ in range(8)])
            self.assertEqual(codes, {CODE.RESOURCE_EXHAUSTED: 8})
            for text in texts:
                self.assertIn("the request as tensors is larger than --max_bytes_in_flight", text)
        self.assertLess(peak(server) - self.before, 64 * MIB)
        wait_for(lambda: server.metric("slipway_bytes_in_flight") == 0, "the requests to go")

    def test_an_identifier_is_charged_until_the_call_ends(self):
        small_models.write_queue(self.path("queue", "1"), 100)
        server = self.serve()
        request = grpc_service_pb2.ModelInferRequest(model_name="queue@take", id="i" * (10 * MIB))
        request.inputs.add(name="x", datatype="FP32")
        request.raw_input_contents.append(struct.pack("<f", 1))
        calls = self.wait_or_be_refused(server, request, 30)
        # The runs that fit wait for an element of the queue, which never comes.
        wait_for(lambda: server.metric("slipway_bytes_in_flight") >= 10 * MIB * server.metric("slipway_jobs"),
                 "the runs that wait to hold only their identifiers")
        self.assertLess(peak(server) - self.before, 200 * MIB)
        self.end(server, calls)

    def wait_or_be_refused(self, server, request, n):
        """Sends a request that holds at least 10 MiB n times at once. Returns the calls when all those that do not
        fit have been refused."""
        calls = [self.oip.ModelInfer.future(request, timeout=10 * WAIT) for _ in range(n)]

        def refused():
            return [call for call in calls if call.done()]
        wait_for(lambda: len(refused()) >= n - 6 and len(refused()) + server.metric("slipway_jobs") == n,
                 "the calls that do not fit to be refused")
        codes, texts = self.codes(refused())
        self.assertEqual(set(codes), {CODE.UNAVAILABLE})
        for text in texts:
            self.assertIn("does not fit beside the requests in flight", text)
        return calls

    def end(self, server, calls):
        for call in calls:
            call.cancel()
        wait_for(lambda: server.metric("slipway_bytes_in_flight") == 0, "the calls to give back their bytes")

    def test_strings_in_shared_memory_are_charged(self):
        def build(g):
            g.placeholder("x", "string")
            queue = g.node("queue", "FIFOQueueV2")
            queue.attr["component_types"].list.type.append(1)
            queue.attr["shapes"].list.shape.add()
            taken = g.node("taken", "QueueDequeueV2", "queue", "^x")
            taken.attr["component_types"].list.type.append(1)
            g.node("y", "Identity", "taken", T="float")

        small_models.write(self.path("waits", "1"),
                           {"serving_default": ({"x": ("x", "string")}, {"y": ("y", "float")})}, build)
        size, key = 20 * MIB, f"/slipway-{os.getpid()}-request-memory"
        self.addCleanup(os.unlink, "/dev/shm" + key)
        with open("/dev/shm" + key, "wb") as file:
            file.write(struct.pack("<I", size - 4))
            file.truncate(size)
        server = self.serve("--system_shared_memory_bytes=32M")
        body = {"key": key, "offset": 0, "byte_size": size}
        self.assertEqual(server.post("/v2/systemsharedmemory/region/r/register", body)[0], 200)
        request = grpc_service_pb2.ModelInferRequest(model_name="waits")
        x = request.inputs.add(name="x", datatype="BYTES", shape=[1])
        x.parameters["shared_memory_region"].string_param = "r"
        x.parameters["shared_memory_byte_size"].int64_param = size
        calls = self.wait_or_be_refused(server, request, 20)
        wait_for(lambda: server.metric("slipway_bytes_in_flight") >= size * server.metric("slipway_jobs"),
                 "the runs that wait to hold their strings")
        self.assertLess(peak(server) - self.before, 200 * MIB)
        self.end(server, calls)

    def test_classes_are_charged(self):
        def build(g):
            g.const("value", "double", [], double_val=[-1.7976931348623157e308])
            g.placeholder("shape", "int32")
            g.node("y", "Fill", "shape", "value", T="double", index_type="int32")

        small_models.write(self.path("fill", "1"),
                           {"serving_default": ({"shape": ("shape", "int32")}, {"y": ("y", "double")})}, build)
        server = self.serve()
        body = {"inputs": [{"name": "shape", "shape": [1], "datatype": "INT32", "data": [1000000]}],
                "outputs": [{"name": "y", "parameters": {"classification": 1000000}}]}
        status, answer = server.post("/v2/models/fill/infer", body)
        self.assertIn("the response as classes is larger than --max_bytes_in_flight", answer.decode())
        self.assertEqual(status, 429)
        request = grpc_service_pb2.ModelInferRequest(model_name="fill")
        request.inputs.add(name="shape", datatype="INT32", shape=[1]).contents.int_contents.append(1000000)
        request.outputs.add(name="y").parameters["classification"].int64_param = 1000000
        codes, texts = self.codes([self.oip.ModelInfer.future(request, timeout=WAIT)])
        self.assertEqual(codes, {CODE.RESOURCE_EXHAUSTED: 1})
        self.assertIn("the response as classes is larger than --max_bytes_in_flight", "".join(texts))
        self.assertLess(peak(server) - self.before, 200 * MIB)
        body["inputs"][0]["data"] = [1000]
        self.assertEqual(server.post("/v2/models/fill/infer", body)[0], 200)
        wait_for(lambda: server.metric("slipway_bytes_in_flight") == 0, "the answers to go")

    def test_names_beyond_the_memory_of_a_call_are_told_the_limit(self):
        shutil.copytree(os.path.join(MODELS, "half_plus_two", "2"), self.path("half_plus_two", "1"))
        server = self.serve()
        words = "for names and other fields, than the 16 MiB that a gRPC request may take"
        request = grpc_service_pb2.ModelInferRequest(model_name="half_plus_two", id="i" * (17 * MIB))
        request.inputs.add(name="x", datatype="FP32", shape=[1, 1])
        request.raw_input_contents.append(struct.pack("<f", 1))
        codes, texts = self.codes([self.oip.ModelInfer.future(request, timeout=WAIT)])
        self.assertEqual(codes, {CODE.RESOURCE_EXHAUSTED: 1})
        self.assertIn(words, "".join(texts))
        answer, = self.oip.ModelStreamInfer(iter([request]), timeout=WAIT)
        self.assertIn(words, answer.error_message)
        request.id = ""
        self.assertEqual(self.oip.ModelInfer(request, timeout=WAIT).raw_output_contents[0], struct.pack("<f", 2.5))
        wait_for(lambda: server.metric("slipway_bytes_in_flight") == 0, "the requests to go")

    def test_requests_of_warm_ups_are_charged(self):
        """Four models each whose request takes 40 MiB wait for each other, and a request of 160 MiB is refused."""
        for name, size in (*((f"fits{i}", 10 * MIB) for i in range(4)), *((f"large{i}", 40 * MIB) for i in range(4))):
            record = records.predict([1.5])
            record.predict_log.request.inputs["x"].tensor_shape.dim[0].size = size
            shutil.copytree(os.path.join(MODELS, "half_plus_two", "2"), self.path("file_" + name, "1"))
            records.write(self.path("file_" + name, "1", "assets.extra", "tf_serving_warmup_requests"), [record])
            shutil.copytree(os.path.join(MODELS, "half_plus_two", "2"), self.path("triton_" + name, "1", "model.savedmodel"))
            with open(self.path("triton_" + name, "config.pbtxt"), "w", encoding="ascii") as file:
                file.write('model_warmup { name: "w" inputs { key: "x" value { data_type: TYPE_FP32 zero_data: true '
                           f"dims: [ {size // 2}, 1 ] }} }} }}")
        server = self.serve("--run_memory_total_bytes=512M")
        for kind, words in (("file", "the request as tensors is larger than --max_bytes_in_flight"),
                            ("triton", 'config.pbtxt: model_warmup "w": the request is larger than --max_bytes_in_flight')):
            for i in range(4):
                wait_for(lambda m=f"{kind}_fits{i}": server.state(m, 1) == "AVAILABLE", f"{kind}_fits{i}")
                wait_for(lambda m=f"{kind}_large{i}": server.state(m, 1) == "END", f"{kind}_large{i}")
                self.assertIn(words, server.states(f"{kind}_large{i}")[1][1])

    def test_a_warm_up_that_waits_holds_no_budget(self):
        """The requests of the warm-ups take 40 MiB each. Those of two models wait for an element of a queue."""
        size = 10 * MIB
        record = records.predict([1.5])
        record.predict_log.request.model_spec.signature_name = "take"
        record.predict_log.request.inputs["x"].tensor_shape.dim[0].size = size
        small_models.write_queue(self.path("file", "1"), 100)
        records.write(self.path("file", "1", "assets.extra", "tf_serving_warmup_requests"), [record])
        small_models.write_queue(self.path("triton", "1", "model.savedmodel"), 100)
        with open(self.path("triton", "config.pbtxt"), "w", encoding="ascii") as file:
            file.write('parameters { key: "TF_SIGNATURE_DEF" value { string_value: "take" } }\n'
                       'model_warmup { name: "w" inputs { key: "x" value { data_type: TYPE_FP32 zero_data: true '
                       f"dims: {size // 2} }} }} }}")
        shutil.copytree(os.path.join(MODELS, "half_plus_two", "2"), self.path("good", "1"))
        server = self.serve("--run_memory_total_bytes=512M", "--model_wait_seconds=1")
        for waiting in ("file", "triton"):
            wait_for(lambda name=waiting: server.state(name, 1) == "LOADING", "the model whose warm-up waits")
        time.sleep(1)  # gives the warm-ups time to take their part of the budget
        shutil.copytree(os.path.join(MODELS, "half_plus_two", "2"), self.path("other", "1"))
        record.predict_log.request.model_spec.signature_name = ""
        records.write(self.path("other", "1", "assets.extra", "tf_serving_warmup_requests"), [record])
        wait_for(lambda: server.state("other", 1) == "AVAILABLE", "the model whose warm-up does not wait")
        self.assertEqual([server.state(name, 1) for name in ("file", "triton")], ["LOADING"] * 2)

    def test_a_warm_up_that_does_not_end_holds_no_budget_for_long(self):
        """The requests of the warm-ups have 40 MiB, and that of a model loops for ever."""
        record = records.predict([1.5])
        tensor = record.predict_log.request.inputs["x"]
        tensor.ClearField("float_val")
        tensor.tensor_shape.dim[0].size = 10 * MIB
        tensor.tensor_content = bytes(40 * MIB)
        small_models.write_endless(self.path("endless", "1"))
        shutil.copytree(os.path.join(MODELS, "half_plus_two", "2"), self.path(".other", "1"))
        for name in ("endless", ".other"):
            records.write(self.path(name, "1", "assets.extra", "tf_serving_warmup_requests"), [record])
        shutil.copytree(os.path.join(MODELS, "half_plus_two", "2"), self.path("good", "1"))
        server = self.serve("--run_memory_total_bytes=512M", "--model_wait_seconds=1")
        wait_for(lambda: server.state("endless", 1) == "LOADING", "the model whose warm-up does not end")
        time.sleep(1)  # gives the warm-up time to take its part of the budget
        os.rename(self.path(".other"), self.path("other"))
        wait_for(lambda: server.state("other", 1) == "AVAILABLE", "the model whose warm-up ends", 240)
        self.assertEqual(server.state("endless", 1), "LOADING")

    def test_loads_leave_half_of_the_memory_of_runs_to_requests(self):
        """The init ops of three models hold 40 MB each while they loop for ever."""
        def held(g):
            g.placeholder("x", "float")
            g.const("shape", "int32", [1], int_val=[10 * MIB])
            g.node("big", "RandomUniform", "shape", T="int32", dtype="float")
            g.const("most", "int64", [], int64_val=[1 << 60])
            g.node("later", "Identity", "most", "^big", T="int64")
            g.const("axis", "int32", [1], int_val=[0])
            g.node("sum", "AddV2", "big", small_models.count(g, "later", "loop_"), T="float")
            g.node("one", "Max", "sum", "axis", T="float", Tidx="int32")
            g.node("v", "VarHandleOp", dtype="float").attr["shape"].shape.SetInParent()
            g.node("init", "AssignVariableOp", "v", "one", dtype="float")
            g.node("value", "ReadVariableOp", "v", dtype="float")
            g.node("y", "AddV2", "x", "value", T="float")

        def build(g):
            g.placeholder("shape", "int32")
            g.const("value", "float", [], float_val=[1.5])
            g.const("axis", "int32", [1], int_val=[0])
            g.node("big", "Fill", "shape", "value", T="float", index_type="int32")
            g.node("y", "Max", "big", "axis", T="float", Tidx="int32")

        small_models.write(self.path("good", "1"),
                           {"serving_default": ({"shape": ("shape", "int32")}, {"y": ("y", "float")})}, build)
        for i in range(3):
            small_models.write(self.path(f"held{i}", "1"),
                               {"serving_default": ({"x": ("x", "float")}, {"y": ("y", "float")})}, held, init="init")
        server = self.serve("--run_memory_total_bytes=128M", "--model_wait_seconds=1", "--max_num_load_retries=0")

        def states():
            return [server.states(f"held{i}").get(1, ("", "")) for i in range(3)]
        wait_for(lambda: sum(s[0] == "END" for s in states()) == 2, lambda: f"two loads to be refused: {states()}")
        for state, text in states():
            self.assertIn("of which loads may use half" if state == "END" else "", text)
        status, answer = server.post("/v1/models/good:predict", {"inputs": {"shape": [12 * MIB]}})
        self.assertEqual((status, json.loads(answer)), (200, {"outputs": 1.5}))

    def test_a_load_beside_no_other_version_may_use_all_memory_of_runs(self):
        """The init op of the model holds 80 MB."""
        def build(g):
            g.placeholder("x", "float")
            g.const("shape", "int32", [1], int_val=[20 * MIB])
            g.node("big", "RandomUniform", "shape", T="int32", dtype="float")
            g.const("axis", "int32", [1], int_val=[0])
            g.node("one", "Max", "big", "axis", T="float", Tidx="int32")
            g.node("v", "VarHandleOp", dtype="float").attr["shape"].shape.SetInParent()
            g.node("init", "AssignVariableOp", "v", "one", dtype="float")
            g.node("value", "ReadVariableOp", "v", dtype="float")
            g.node("y", "AddV2", "x", "value", T="float")

        small_models.write(self.path("large", "1"),
                           {"serving_default": ({"x": ("x", "float")}, {"y": ("y", "float")})}, build, init="init")
        server = self.serve("--run_memory_total_bytes=128M", "--max_num_load_retries=0")
        wait_for(lambda: server.state("large", 1) == "AVAILABLE", lambda: f"the model: {server.states('large')}")
