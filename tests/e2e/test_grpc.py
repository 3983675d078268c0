"""Tests the gRPC API of the server with Python's own gRPC package."""
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

import grpc
from grpc.health.v1 import health_pb2, health_pb2_grpc
from support import SLOW, free_ports, refuse_sanitizer_reports, wait_for
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (get_model_metadata_pb2,
                                     get_model_status_pb2, model_service_pb2_grpc, predict_pb2,
                                     prediction_service_pb2_grpc)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CODE = grpc.StatusCode


class Server:
    def __init__(self, *flags, models=("half_plus_two", "counter")):
        self.port, self.rest = free_ports(2)
        self.dir = tempfile.TemporaryDirectory()
        for name in models:
            os.symlink(os.path.join(ROOT, "models", name), os.path.join(self.dir.name, name))
        self.log = open(os.path.join(self.dir.name, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [os.environ["SLIPWAY"], "serve", f"--models={self.dir.name}", f"--port={self.port}",
             f"--rest_api_port={self.rest}", *flags],
            stdout=self.log, stderr=subprocess.STDOUT)
        # A gRPC client that finds the port closed waits longer after each attempt. The port must therefore be open
        # first.
        self.wait_open()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")
        self.predict = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.model = model_service_pb2_grpc.ModelServiceStub(self.channel)
        self.health = health_pb2_grpc.HealthStub(self.channel)
        if models:  # A server without models never becomes ready, so the test does not wait for readiness.
            self.wait_ready()

    def wait_open(self):
        for _ in range(int(1200 * SLOW)):
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)

    def wait_ready(self):
        until = time.monotonic() + 60 * SLOW
        while time.monotonic() < until:
            try:
                answer = self.health.Check(health_pb2.HealthCheckRequest(), timeout=1)
                if answer.status == health_pb2.HealthCheckResponse.SERVING:
                    return
            except grpc.RpcError:
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.log.seek(0)
        raise AssertionError("the server did not get ready:\n" + self.log.read())

    def stop(self):
        """Stops the server and returns its exit status. The log must not contain a sanitizer's report."""
        self.channel.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=40 * SLOW)
        self.log.seek(0)
        text = self.log.read()
        self.log.close()
        self.dir.cleanup()
        refuse_sanitizer_reports(text)
        return code


def request(values=(2.0,), model="half_plus_two", signature="", shape=None):
    r = predict_pb2.PredictRequest()
    r.model_spec.name = model
    r.model_spec.signature_name = signature
    fill(r.inputs["x"], values, shape)
    return r


def fill(t, values, shape=None):
    t.dtype = types_pb2.DT_FLOAT
    for size in shape if shape is not None else (len(values),):
        t.tensor_shape.dim.add(size=size)
    t.float_val.extend(values)


class Grpc(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def fails(self, code, words, call, *args, **kw):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*args, timeout=10 * SLOW, **kw)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertIn(words, caught.exception.details())

    def test_predict_answers_with_the_version_and_signature_used(self):
        r = self.server.predict.Predict(request([1.0, 4.0]), timeout=10 * SLOW)
        self.assertEqual(list(r.outputs["y"].float_val), [2.5, 4.0])
        self.assertEqual(r.model_spec.signature_name, "serving_default")
        self.assertEqual(r.model_spec.version.value, 2)
        self.assertEqual(r.outputs["y"].tensor_content, b"")

    def test_tensor_content_and_typed_values_are_the_same_to_predict(self):
        r = request([])
        t = r.inputs["x"]
        del t.tensor_shape.dim[:]
        t.tensor_shape.dim.add(size=3)
        t.tensor_content = b"\0\0\x80\x3f" * 3
        a = self.server.predict.Predict(r, timeout=10 * SLOW)
        self.assertEqual(list(a.outputs["y"].float_val), [2.5] * 3)

    def test_a_scalar_is_answered_with_a_scalar(self):
        a = self.server.predict.Predict(request([2.0], shape=()), timeout=10 * SLOW)
        self.assertEqual(len(a.outputs["y"].tensor_shape.dim), 0)
        self.assertEqual(list(a.outputs["y"].float_val), [3.0])

    def test_a_large_tensor_in_many_slices(self):
        n = 500000
        a = grpc.insecure_channel(f"127.0.0.1:{self.server.port}",
                                  options=[("grpc.max_receive_message_length", -1)])
        stub = prediction_service_pb2_grpc.PredictionServiceStub(a)
        r = stub.Predict(request([float(i % 1000) for i in range(n)]), timeout=30 * SLOW)
        values = r.outputs["y"].float_val
        self.assertEqual(len(values), n)
        self.assertEqual(values[n - 1], (n - 1) % 1000 / 2 + 2)
        a.close()

    def test_compressed_requests_are_inflated(self):
        for how in (grpc.Compression.Gzip, grpc.Compression.Deflate):
            r = self.server.predict.Predict(request([1.0] * 5000), compression=how,
                                            timeout=10 * SLOW)
            self.assertEqual(list(r.outputs["y"].float_val), [2.5] * 5000)

    def test_what_is_missing_or_wrong_is_named_as_tensorflow_serving_names_it(self):
        p = self.server.predict.Predict
        empty = predict_pb2.PredictRequest()
        self.fails(CODE.INVALID_ARGUMENT, "Missing ModelSpec", p, empty)
        empty.model_spec.signature_name = "x"
        self.fails(CODE.INVALID_ARGUMENT, "ModelSpec has no name specified.", p, empty)
        self.fails(CODE.NOT_FOUND, "Servable not found for request: Latest(nobody)", p,
                   request(model="nobody"))
        r = request()
        r.model_spec.version.value = 99
        self.fails(CODE.NOT_FOUND, "Servable not found for request: Specific(half_plus_two, 99)",
                   p, r)
        r = request()
        r.model_spec.version_label = "stable"
        self.fails(CODE.INVALID_ARGUMENT, "Unrecognized servable version label: stable", p, r)
        self.fails(CODE.FAILED_PRECONDITION, 'Serving signature key "none" not found.', p,
                   request(signature="none"))
        r = request()
        del r.inputs["x"]
        self.fails(CODE.INVALID_ARGUMENT,
                   "input size does not match signature: 0!=1 len({}) != len({x}). Sent extra: {}."
                   " Missing but required: {x}.", p, r)
        fill(r.inputs["b"], [1])
        fill(r.inputs["a"], [1])
        self.fails(CODE.INVALID_ARGUMENT,
                   "2!=1 len({a,b}) != len({x}). Sent extra: {a,b}. Missing but required: {x}.",
                   p, r)
        r = request()
        r.output_filter.append("z")
        self.fails(CODE.INVALID_ARGUMENT, "output tensor alias not found in signature: z Outputs "
                   "expected to be in the set {y}.", p, r)
        r = request()
        r.output_filter.extend(["y", "y"])
        self.fails(CODE.INVALID_ARGUMENT, "duplicate output tensor alias: y", p, r)
        r = request()
        r.inputs["x"].tensor_content = b"abc"
        self.fails(CODE.INVALID_ARGUMENT, "tensor parsing error: x", p, r)
        r = request()
        r.inputs["x"].dtype = types_pb2.DT_BOOL
        self.fails(CODE.INVALID_ARGUMENT, "to be float but bool is provided", p, r)

    def test_long_errors_are_cut(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.server.predict.Predict(request(model="m" * 3000), timeout=10 * SLOW)
        self.assertTrue(caught.exception.details().endswith("...TRUNCATED"))
        self.assertEqual(len(caught.exception.details()), 1024 + len("...TRUNCATED"))

    def test_bytes_that_are_no_message_are_refused(self):
        call = self.server.channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        self.fails(CODE.INVALID_ARGUMENT, "protobuf", call, b"\xff\xff\xff")
        call = self.server.channel.unary_unary("/tensorflow.serving.ModelService/GetModelStatus")
        self.fails(CODE.INVALID_ARGUMENT, "protobuf", call, b"\xff\xff\xff")

    def test_a_stream_without_a_message_is_refused(self):
        call = self.server.channel.stream_unary("/tensorflow.serving.PredictionService/Predict")
        self.fails(CODE.INVALID_ARGUMENT, "without a message", call, iter(()))

    def test_signatures_without_inputs_work_and_state_stays(self):
        def call(signature):
            r = predict_pb2.PredictRequest()
            r.model_spec.name = "counter"
            r.model_spec.signature_name = signature
            return self.server.predict.Predict(r, timeout=10 * SLOW).outputs["output"].float_val[0]
        call("reset")
        self.assertEqual(call("get"), 0)
        self.assertEqual(call("incr"), 1)
        self.assertEqual(call("incr"), 2)
        self.assertEqual(call("get"), 2)

    def test_status_and_metadata(self):
        spec = request().model_spec
        spec.signature_name = ""
        a = self.server.model.GetModelStatus(
            get_model_status_pb2.GetModelStatusRequest(model_spec=spec), timeout=10 * SLOW)
        self.assertEqual([(v.version, v.state) for v in a.model_version_status], [(2, 30)])
        a = self.server.predict.GetModelMetadata(
            get_model_metadata_pb2.GetModelMetadataRequest(
                model_spec=spec, metadata_field=["signature_def"]), timeout=10 * SLOW)
        self.assertEqual(a.model_spec.version.value, 2)
        found = get_model_metadata_pb2.SignatureDefMap()
        self.assertTrue(a.metadata["signature_def"].Unpack(found))
        sig = found.signature_def["serving_default"]
        self.assertEqual(sig.method_name, "tensorflow/serving/predict")
        self.assertEqual(sig.inputs["x"].name, "x:0")
        self.assertEqual([d.size for d in sig.inputs["x"].tensor_shape.dim], [-1, 1])
        metadata = self.server.predict.GetModelMetadata
        none = get_model_metadata_pb2.GetModelMetadataRequest(model_spec=spec)
        self.fails(CODE.INVALID_ARGUMENT, "must specify at least one metadata_field", metadata,
                   none)
        none.metadata_field.append("graph")
        self.fails(CODE.INVALID_ARGUMENT, "Metadata field graph is not supported", metadata, none)
        spec.version_label = "none"  # GetModelStatus ignores labels, as TensorFlow Serving does.
        a = self.server.model.GetModelStatus(
            get_model_status_pb2.GetModelStatusRequest(model_spec=spec), timeout=10 * SLOW)
        self.assertEqual([v.version for v in a.model_version_status], [2])
        for spec.name in ("nobody", ""):
            self.fails(CODE.NOT_FOUND, f"Could not find any versions of model {spec.name}",
                       self.server.model.GetModelStatus,
                       get_model_status_pb2.GetModelStatusRequest(model_spec=spec))

    def test_metadata_tells_of_the_signature_that_starts_a_model(self):
        ask = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        ask.model_spec.name = "counter"
        a = self.server.predict.GetModelMetadata(ask, timeout=10 * SLOW)
        found = get_model_metadata_pb2.SignatureDefMap()
        self.assertTrue(a.metadata["signature_def"].Unpack(found))
        self.assertEqual(sorted(found.signature_def),
                         ["__saved_model_init_op", "get", "incr", "incr_by", "reset"])
        init = found.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"]
        self.assertEqual((init.name, init.dtype, init.tensor_shape.unknown_rank), ("NoOp", 0, True))
        url = f"http://127.0.0.1:{self.server.rest}/v1/models/counter/metadata"
        with urllib.request.urlopen(url, timeout=10 * SLOW) as page:
            signatures = json.load(page)["metadata"]["signature_def"]["signature_def"]
        self.assertEqual(signatures["__saved_model_init_op"], {
            "inputs": {}, "method_name": "", "defaults": {}, "outputs": {"__saved_model_init_op": {
                "dtype": "DT_INVALID", "name": "NoOp",
                "tensor_shape": {"dim": [], "unknown_rank": True}}}})
        r = request(model="counter", signature="__saved_model_init_op")
        self.fails(CODE.FAILED_PRECONDITION, "", self.server.predict.Predict, r)

    def test_of_a_shape_of_unknown_rank_the_dimensions_count_that_are_there(self):
        r = request([2.0, 4.0])
        r.inputs["x"].tensor_shape.unknown_rank = True
        a = self.server.predict.Predict(r, timeout=10 * SLOW)
        self.assertEqual(list(a.outputs["y"].float_val), [3.0, 4.0])

    def test_what_is_not_implemented_is_named(self):
        call = self.server.channel.unary_unary("/no.such.Service/Method")
        self.fails(CODE.UNIMPLEMENTED, "/no.such.Service/Method", call, b"")

    def test_health_tells_the_state_of_the_server_and_of_models(self):
        serving = health_pb2.HealthCheckResponse.SERVING
        for name in ("", "half_plus_two", "PredictionService",
                     "tensorflow.serving.PredictionService"):
            a = self.server.health.Check(health_pb2.HealthCheckRequest(service=name),
                                         timeout=10 * SLOW)
            self.assertEqual(a.status, serving, name)
        self.fails(CODE.NOT_FOUND, "", self.server.health.Check,
                   health_pb2.HealthCheckRequest(service="nobody"))

    def test_many_at_once_are_each_answered_with_their_own(self):
        wrong = []

        def work(k):
            for i in range(int(100 / SLOW)):
                value = float(k * 1000 + i)
                a = self.server.predict.Predict(request([value, -value]), timeout=30 * SLOW)
                if list(a.outputs["y"].float_val) != [value / 2 + 2, -value / 2 + 2]:
                    wrong.append(value)
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_calls_that_are_given_up_do_no_harm(self):
        calls = [self.server.predict.Predict.future(request([1.0] * 1000)) for _ in range(50)]
        for c in calls:
            c.cancel()
        for timeout in (0.0001, 0.001):
            try:
                self.server.predict.Predict(request(), timeout=timeout)
            except grpc.RpcError as e:
                self.assertEqual(e.code(), CODE.DEADLINE_EXCEEDED)
        self.server.predict.Predict(request(), timeout=10 * SLOW)


class Swap(unittest.TestCase):
    def test_no_call_fails_while_versions_come_and_go(self):
        server = Server(models=())
        model = os.path.join(server.dir.name, "m")
        source = os.path.join(ROOT, "models", "half_plus_two", "1")
        failed, seen, stop = [], set(), threading.Event()

        def put(version):
            beside = os.path.join(server.dir.name, f".{version}")
            shutil.copytree(source, beside)
            os.makedirs(model, exist_ok=True)
            os.rename(beside, os.path.join(model, str(version)))

        def work():
            while not stop.is_set():
                try:
                    a = server.predict.Predict(request([2.0], model="m"), timeout=10 * SLOW)
                    seen.add(a.model_spec.version.value)
                except grpc.RpcError as e:
                    failed.append(e.details())
        try:
            put(1)
            self.wait_state(server, 1, 30)
            threads = [threading.Thread(target=work) for _ in range(4)]
            for t in threads:
                t.start()
            for version in (2, 3):
                put(version)
                self.wait_state(server, version, 30)
                self.wait_state(server, version - 1, 50)
            wait_for(lambda: failed or 3 in seen, "an answer of the last version")
            stop.set()
            for t in threads:
                t.join()
            self.assertEqual(failed, [])
            self.assertEqual(seen, {1, 2, 3})
        finally:
            stop.set()
            self.assertEqual(server.stop(), 0)

    def wait_state(self, server, version, state):
        ask = get_model_status_pb2.GetModelStatusRequest()
        ask.model_spec.name = "m"
        ask.model_spec.version.value = version
        until = time.monotonic() + 30 * SLOW
        now = None
        while time.monotonic() < until and now != state:
            try:
                a = server.model.GetModelStatus(ask, timeout=10 * SLOW)
                now = a.model_version_status[0].state
            except grpc.RpcError:
                pass
            time.sleep(0.02)
        self.assertEqual(now, state)


class Limits(unittest.TestCase):
    def test_what_is_too_large_is_refused_also_when_it_was_compressed(self):
        server = Server("--max_body_bytes=100000")
        try:
            for how in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
                with self.assertRaises(grpc.RpcError) as caught:
                    server.predict.Predict(request([1.0] * 100000), compression=how,
                                           timeout=10 * SLOW)
                self.assertEqual(caught.exception.code(), CODE.RESOURCE_EXHAUSTED)
            r = request([1.0], shape=(1 << 30,))
            with self.assertRaises(grpc.RpcError) as caught:
                server.predict.Predict(r, timeout=10 * SLOW)
            self.assertEqual(caught.exception.code(), CODE.RESOURCE_EXHAUSTED)
            server.predict.Predict(request(), timeout=10 * SLOW)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_tensor_content_is_answered_when_asked_for(self):
        server = Server("--enable_serialization_as_tensor_content")
        try:
            a = server.predict.Predict(request([2.0]), timeout=10 * SLOW)
            self.assertEqual(a.outputs["y"].tensor_content, b"\0\0\x40\x40")
        finally:
            self.assertEqual(server.stop(), 0)

    def test_a_second_server_on_the_port_does_not_start(self):
        server = Server()
        try:
            done = subprocess.run(
                [os.environ["SLIPWAY"], "serve", f"--models={server.dir.name}",
                 f"--port={server.port}", f"--rest_api_port={free_ports(1)[0]}"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30 * SLOW, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(str(server.port).encode(), done.stdout)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_a_unix_socket_is_served_and_removed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "socket")
            server = Server(f"--grpc_socket_path={path}")
            try:
                with grpc.insecure_channel(f"unix:{path}") as channel:
                    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
                    a = stub.Predict(request([2.0]), timeout=10 * SLOW)
                    self.assertEqual(list(a.outputs["y"].float_val), [3.0])
            finally:
                self.assertEqual(server.stop(), 0)
            self.assertEqual(os.listdir(folder), [])

    def test_a_watch_hears_that_the_server_stops_and_does_not_hold_it_up(self):
        server = Server("--drain_delay_ms=300")
        states, failed = [], []

        def watch():
            try:
                for a in server.health.Watch(health_pb2.HealthCheckRequest(service="")):
                    states.append(a.status)
            except grpc.RpcError as e:
                failed.append(e.code())
        thread = threading.Thread(target=watch)
        thread.start()
        wait_for(lambda: states, "the first state")
        server.process.send_signal(signal.SIGTERM)
        thread.join(timeout=20 * SLOW)
        # stop() would send a second signal, which ends the server immediately.
        server.process.wait(timeout=40 * SLOW)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(states, [1, 2])
        self.assertEqual(failed, [CODE.UNAVAILABLE])


if __name__ == "__main__":
    unittest.main()
