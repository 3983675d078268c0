"""Tests Triton's extensions of the Open Inference Protocol: loads and unloads, settings of the log, and shared memory.
Errors name the extensions that Slipway does not support."""
import gzip
import http.client
import json
import os
import queue
import struct
import tempfile
import threading
import time

import grpc
import small_models
import test_oip
from inference import grpc_service_pb2, grpc_service_pb2_grpc
from support import MODELS, SLOW, Server, wait_for
from test_oip import EXTREMES, TYPES, WAIT, raw_strings, tensor

UNLOADED = {("half", "UNAVAILABLE", "unloaded by request")}


class Repository(test_oip.Client):
    """Loads and unloads models by request, over REST and gRPC."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="slipway-oip-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.symlink(os.path.join(MODELS, "half_plus_two"), os.path.join(self.folder, "half"))

    def serve(self, *flags):
        self.server = Server(f"--models={self.folder}", "--file_system_poll_wait_seconds=0", *flags)
        self.addCleanup(self.server.stop)
        channel = grpc.insecure_channel(f"127.0.0.1:{self.server.grpc_port}")
        self.addCleanup(channel.close)
        self.stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)

    def post(self, path, body=b"", headers=()):
        return self.ask("POST", "/v2/repository/" + path, body, headers)

    def switch(self, verb, model, status=200, words="", **kw):
        got, _, body = self.post(f"models/{model}/{verb}", **kw)
        self.assertIn(words, body.decode())
        self.assertEqual(got, status)

    def switch_by_grpc(self, verb, code=None, words="", **kw):
        request = getattr(grpc_service_pb2, f"RepositoryModel{verb}Request")(**kw)
        call = getattr(self.stub, f"RepositoryModel{verb}")
        if code is None:
            call(request, timeout=WAIT)
            return
        with self.assertRaises(grpc.RpcError) as caught:
            call(request, timeout=WAIT)
        self.assertIn(words, caught.exception.details())
        self.assertEqual(caught.exception.code(), code)

    def states(self):
        return {(row["name"], row["state"], row["reason"]) for row in json.loads(self.post("index")[2])}

    def is_ready(self, model):
        return self.ask("GET", f"/v2/models/{model}/ready")[0] == 200

    def test_a_model_goes_and_comes_back(self):
        self.serve()
        for unload, load in ((lambda: self.switch("unload", "half"), lambda: self.switch("load", "half")),
                             (lambda: self.switch_by_grpc("Unload", model_name="half"),
                              lambda: self.switch_by_grpc("Load", model_name="half")),
                             # in KServe's messages, the first field contains the model's name
                             (lambda: self.switch_by_grpc("Unload", repository_name="half"),
                              lambda: self.switch_by_grpc("Load", repository_name="half"))):
            self.assertTrue(self.is_ready("half"))
            unload()
            self.assertEqual(self.states(), UNLOADED)
            unload()
            self.assertFalse(self.is_ready("half"))
            status, _, body = self.ask("GET", "/v2/models/half")
            self.assertEqual(status, 404)
            self.assertIn(b"the state of version 2 is ", body)
            status, _, body = self.ask("POST", "/v1/models/half:predict", b'{"instances": [1]}')
            self.assertEqual(status, 404, body)
            self.assertEqual(self.states(), UNLOADED)
            # the server stays ready although the model is unloaded
            self.assertEqual(self.ask("GET", "/v2/health/ready")[0], 200)
            load()
            load()
            self.assertEqual(self.states(), {("half", "READY", "")})

    def test_an_unload_waits_for_requests_that_run(self):
        small_models.write_endless(os.path.join(self.folder, "endless", "1"))
        self.serve("--enable_model_warmup=false", "--default_deadline_seconds=5")
        request = grpc_service_pb2.ModelInferRequest(model_name="endless", raw_input_contents=[struct.pack("<f", 1)])
        request.inputs.add(name="x", datatype="FP32")
        call = self.stub.ModelInfer.future(request, timeout=1000 * WAIT)
        self.addCleanup(call.cancel)
        wait_for(lambda: self.server.metric("slipway_jobs") == 1, "the run")
        # the deadline of an unload ends the call, but not the unload
        with self.assertRaises(grpc.RpcError) as caught:
            self.stub.RepositoryModelUnload(
                grpc_service_pb2.RepositoryModelUnloadRequest(model_name="endless"), timeout=0.5)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertEqual({state for name, state, _ in self.states() if name == "endless"}, {"UNLOADING"})
        self.switch("unload", "endless")
        self.assertIn(("endless", "UNAVAILABLE", "unloaded by request"), self.states())
        self.assertEqual(call.exception(timeout=WAIT).code(), grpc.StatusCode.UNAVAILABLE)
        self.assertIn("the version was unloaded", call.exception().details())

    def test_a_load_finds_what_is_new(self):
        self.serve()
        self.switch("load", "other", 404, 'model \\"other\\" is not configured')
        os.symlink(os.path.join(MODELS, "half_plus_two"), os.path.join(self.folder, "other"))
        self.switch("load", "other")
        self.assertTrue(self.is_ready("other"))

    def test_a_model_that_cannot_be_loaded(self):
        os.makedirs(os.path.join(self.folder, "broken", "1"))
        with open(os.path.join(self.folder, "broken", "1", "saved_model.pb"), "wb") as file:
            file.write(b"\xff\xff")
        os.makedirs(os.path.join(self.folder, "empty"))
        self.serve()
        self.switch("load", "broken", 503, "name: broken version: 1")
        self.switch("load", "empty", 503, "No versions of servable empty found under base path ")
        self.switch_by_grpc("Load", grpc.StatusCode.UNAVAILABLE, "name: broken", model_name="broken")
        for path, status in (("", 404), ("/ready", 503), ("/config", 404), ("/versions/1/stats", 404)):
            got, _, body = self.ask("GET", f"/v2/models/broken{path}")
            self.assertEqual(got, status)
            self.assertIn("the state of version 1 is END: ", json.loads(body)["error"])
            self.assertIn("saved_model.pb: Can't parse", json.loads(body)["error"])
        self.assertTrue(self.is_ready("half"))
        # the server is ready if a model serves, although others have failed
        self.assertEqual(self.ask("GET", "/v2/health/ready")[0], 200)
        self.switch("unload", "half")
        self.assertEqual(self.ask("GET", "/v2/health/ready")[0], 503)

    def test_requests_that_are_refused(self):
        self.serve()
        self.switch("unload", "no", 404, "is not configured")
        self.switch("unload", "half@x", 400, "not one of its signatures")
        self.switch("load", "half", 501, 'the parameter \\"config\\" of a load is not supported',
                    body=b'{"parameters": {"config": "{}"}}')
        self.switch("load", "half", 501, "file:1/model.savedmodel/saved_model.pb",
                    body=b'{"parameters": {"file:1/model.savedmodel/saved_model.pb": "%s"}}' % (b"A" * 200000))
        self.switch("unload", "half", 400, "no object", body=b'{"parameters": 7}')
        self.switch("unload", "half", 400, "JSON", body=b"{")
        self.switch("load", "half", body=gzip.compress(b'{"parameters": {}}'), headers={"Content-Encoding": "gzip"})
        self.switch("load", "half", 501, "config", body=gzip.compress(b'{"parameters": {"config": ""}}'),
                    headers={"Content-Encoding": "gzip"})
        value = {"config": grpc_service_pb2.ModelRepositoryParameter(string_param="{}")}
        code = grpc.StatusCode
        self.switch_by_grpc("Load", code.UNIMPLEMENTED, '"config"', model_name="half", parameters=value)
        self.switch_by_grpc("Load", code.UNIMPLEMENTED, "repository_name", model_name="half", repository_name="r")
        self.switch_by_grpc("Unload", code.INVALID_ARGUMENT, "names no model")
        self.switch_by_grpc("Unload", code.NOT_FOUND, "is not configured", model_name="no")
        self.assertTrue(self.is_ready("half"))
        value = {"unload_dependents": grpc_service_pb2.ModelRepositoryParameter(bool_param=True)}
        self.switch_by_grpc("Unload", model_name="half", parameters=value)

    def test_what_is_refused_by_name(self):
        self.serve()
        for path, words in (("/v2/trace/setting", "trace settings"), ("/v2/models/half/trace/setting", "trace settings"),
                            ("/v2/cudasharedmemory/region/r/register", "CUDA shared memory"),
                            ("/v2/cudasharedmemory/unregister", "CUDA shared memory")):
            status, _, body = self.ask("POST", path, b"{}")
            self.assertEqual(status, 501)
            self.assertIn(words, body.decode())
        channel = grpc.insecure_channel(f"127.0.0.1:{self.server.grpc_port}")
        self.addCleanup(channel.close)
        for method, words in (("TraceSetting", "trace settings"), ("CudaSharedMemoryStatus", "CUDA shared memory"),
                              ("CudaSharedMemoryRegister", "CUDA"), ("CudaSharedMemoryUnregister", "CUDA")):
            with self.assertRaises(grpc.RpcError) as caught:
                channel.unary_unary("/inference.GRPCInferenceService/" + method)(b"", timeout=WAIT)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
            self.assertIn(words, caught.exception.details())

    def log_settings(self, **settings):
        pb = grpc_service_pb2
        request = pb.LogSettingsRequest()
        for name, value in settings.items():
            field = {bool: "bool_param", int: "uint32_param", str: "string_param"}[type(value)]
            setattr(request.settings[name], field, value)
        got = self.stub.LogSettings(request, timeout=WAIT).settings
        return {name: getattr(value, value.WhichOneof("parameter_choice")) for name, value in got.items()}

    def test_settings_of_the_log(self):
        self.serve()
        was = {"log_file": "", "log_info": True, "log_warning": True, "log_error": True, "log_verbose_level": 0,
               "log_format": "ISO8601"}

        def put(body, headers=()):
            status, _, answer = self.ask("POST", "/v2/logging", body, headers)
            return status, json.loads(answer)
        self.assertEqual(self.get("/v2/logging"), (200, was))
        self.assertEqual(self.log_settings(), was)
        self.assertEqual(put(b'{"log_info": false}'), (200, {**was, "log_info": False}))
        self.assertNotIn("is loaded by request", self.server.log())
        self.switch("load", "half")
        self.assertNotIn("is loaded by request", self.server.log())
        self.assertEqual(self.log_settings(log_info=True, log_verbose_level=2), {**was, "log_verbose_level": 2})
        self.switch("load", "half")
        wait_for(lambda: "is loaded by request" in self.server.log(), "the line")  # a thread writes the log later
        self.assertEqual(put(b'{"log_verbose_level": 0, "log_format": "ISO8601", "log_file": ""}'), (200, was))
        for body, status, words in ((b'{"log_file": "/etc/passwd"}', 501, "log_file"),
                                    (b'{"log_format": "default"}', 501, "log_format"),
                                    (b'{"log_error": false}', 501, "log_error"),
                                    (b'{"log_warning": false}', 400, "one level"),
                                    (b'{"log_info": 1}', 400, "log_info"),
                                    (b'{"log_verbose_level": -1}', 400, "log_verbose_level"),
                                    (b'{"log_file": null}', 400, "log_file"),
                                    (b'{"what": 1}', 400, 'no setting "what"'), (b"[]", 400, ""), (b"", 400, "")):
            got, answer = put(body)
            self.assertIn(words, answer["error"])
            self.assertEqual(got, status)
        self.assertEqual(put(b'{"log_info": false}', {"Origin": "http://evil.example"})[0], 403)
        with self.assertRaises(grpc.RpcError) as caught:
            self.log_settings(log_file="x")
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        self.assertEqual(self.log_settings(), was)

    def test_a_web_page_may_not(self):
        self.serve()
        for origin in ("http://evil.example", "null"):
            self.switch("unload", "half", 403, "not for web pages", headers={"Origin": origin})
        self.assertTrue(self.is_ready("half"))

    def test_the_token_is_asked_for(self):
        token = os.path.join(self.folder, ".token")
        with open(token, "w", encoding="utf-8") as file:
            file.write("s3cret\n")
        self.serve("--admin_token_file=" + token)
        for headers in ({}, {"Authorization": "Bearer no"}):
            self.switch("unload", "half", 401, "--admin_token_file", headers=headers)
        self.switch_by_grpc("Unload", grpc.StatusCode.UNAUTHENTICATED, "authorization", model_name="half")
        self.assertEqual(self.log_settings()["log_info"], True)
        with self.assertRaises(grpc.RpcError) as caught:
            self.log_settings(log_info=False)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAUTHENTICATED)
        self.assertEqual(self.ask("POST", "/v2/logging", b"{}")[0], 401)
        for path in ("/v2/logging", "/v2/repository/models/half/unload"):  # the body is not even inflated
            self.assertEqual(self.ask("POST", path, b"no gzip", {"Content-Encoding": "gzip"})[0], 401)
        self.assertTrue(self.is_ready("half"))
        self.switch("unload", "half", headers={"Authorization": "Bearer s3cret"})
        self.assertFalse(self.is_ready("half"))
        self.stub.RepositoryModelLoad(grpc_service_pb2.RepositoryModelLoadRequest(model_name="half"), timeout=WAIT,
                                      metadata=(("authorization", "Bearer s3cret"),))
        self.assertTrue(self.is_ready("half"))

    def test_admin_actions_have_their_own_address(self):
        socket = os.path.join(self.folder, ".admin")
        self.serve("--admin_socket=" + socket)
        self.switch("unload", "half", 403, "--admin_address")
        self.switch_by_grpc("Unload", grpc.StatusCode.PERMISSION_DENIED, "--admin_address", model_name="half")
        with grpc.insecure_channel("unix:" + socket) as channel:
            stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
            stub.RepositoryModelUnload(grpc_service_pb2.RepositoryModelUnloadRequest(model_name="half"), timeout=WAIT)
        self.assertFalse(self.is_ready("half"))


class Classification(test_oip.OipTest):
    def classes(self, dtype, values, n, shape=None, binary=False):
        name, form, _ = TYPES[dtype]
        raw = struct.pack(f"<{len(values)}{form}", *values)
        status, answer, rest = self.infer("types@" + dtype, {
            "inputs": [tensor("x", name, shape or [len(values)], binary_data_size=len(raw))],
            "outputs": [{"name": "y", "parameters": {"classification": n, "binary_data": binary}}]}, raw)
        self.assertEqual(status, 200, answer)
        (y,) = answer["outputs"]
        self.assertEqual(y["datatype"], "BYTES")
        return y["shape"], rest if binary else y["data"]

    def test_every_type(self):
        for dtype, (_, form, _) in TYPES.items():
            if dtype in ("bool", "half", "bfloat16"):
                continue
            values = struct.unpack(f"2{form}", struct.pack(f"2{form}", *EXTREMES[form]))
            texts = [f"{v:.6f}:{i}" if form in "fd" else f"{v}:{i}" for i, v in enumerate(values)]
            best = [t for _, t in sorted(zip(values, texts), reverse=True)]
            self.assertEqual(self.classes(dtype, values, 3), ([2], best))
            self.assertEqual(self.classes(dtype, values, 1), ([1], best[:1]))

    def test_order(self):
        nan = float("nan")
        request = {"inputs": [tensor("x", "FP32", [2, 4], [1, nan, 3, 3, -1, -2, float("inf"), 0])],
                   "outputs": [{"name": "y", "parameters": {"classification": 3}}]}
        status, answer, _ = self.infer("types@float", request)
        self.assertEqual((status, answer["outputs"]), (200, [
            tensor("y", "BYTES", [2, 3], ["3.000000:2", "3.000000:3", "1.000000:0", "inf:2", "0.000000:3",
                                          "-1.000000:0"])]))
        request["outputs"][0]["parameters"]["classification"] = 9
        self.assertEqual(self.infer("types@float", request)[1]["outputs"][0]["data"][3], "nan:1")
        request["outputs"][0]["parameters"]["classification"] = 0
        self.assertEqual(self.infer("types@float", request)[1]["outputs"][0]["datatype"], "FP32")
        request["outputs"][0]["parameters"]["classification"] = 20000
        many = {"inputs": [tensor("x", "FP32", [1, 20000], list(range(20000)))], "outputs": request["outputs"]}
        data = self.infer("types@float", many)[1]["outputs"][0]["data"]
        self.assertEqual(data, [f"{i}.000000:{i}" for i in reversed(range(20000))])

    def test_binary_and_grpc_and_refusals(self):
        self.assertEqual(self.classes("int8", [5, 7], 1, binary=True), ([1], raw_strings(b"7:1")))
        r = grpc_service_pb2.ModelInferRequest(model_name="types@int8")
        r.inputs.add(name="x", datatype="INT8", shape=[2])
        r.raw_input_contents.append(b"\5\7")
        r.outputs.add(name="y").parameters["classification"].int64_param = 2
        got = self.stub.ModelInfer(r, timeout=WAIT)
        self.assertEqual((got.outputs[0].datatype, list(got.outputs[0].shape), got.raw_output_contents[0]),
                         ("BYTES", [2], raw_strings(b"7:1", b"5:0")))
        for dtype in ("bool", "half", "string"):
            name = TYPES.get(dtype, ("BYTES",))[0]
            raw = {"bool": b"\1", "half": b"\0\0", "string": raw_strings(b"x")}[dtype]
            self.refused(400, "has no classes", "types@" + dtype, {
                "inputs": [tensor("x", name, [1], binary_data_size=len(raw))],
                "outputs": [{"name": "y", "parameters": {"classification": 1}}]}, raw)
        big = b"\0" * 1000001
        self.refused(429, "more than 1000000 classes", "types@int8", {
            "inputs": [tensor("x", "INT8", [len(big), 1], binary_data_size=len(big))],
            "outputs": [{"name": "y", "parameters": {"classification": 1}}]}, big)

    def test_classes_end_at_the_deadline(self):
        """The longest texts are those of the largest numbers."""
        n = int(100000 / SLOW)
        raw = struct.pack(f"<{n}d", *(1e308 + i * 1e300 for i in range(n)))
        request = {"inputs": [tensor("x", "FP64", [1, n], binary_data_size=len(raw))],
                   "outputs": [{"name": "y", "parameters": {"classification": n, "binary_data": True}}]}
        start = self.server.cpu_s()
        self.assertEqual(self.infer("types@double", request, raw)[0], 200)
        whole = self.server.cpu_s() - start
        request["parameters"] = {"timeout": 100000}
        start = self.server.cpu_s()
        self.assertEqual(self.infer("types@double", request, raw)[0], 504)
        wait_for(lambda: self.server.metric("slipway_jobs") == 0, "the end of the work")
        self.assertLess(self.server.cpu_s() - start, whole / 2)


class SharedMemory(test_oip.Client):
    """Inputs and outputs in shared memory, over both APIs."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="slipway-oip-")
        small_models.write_types(os.path.join(cls.folder.name, "types", "1"))
        cls.server = Server(f"--models={cls.folder.name}", "--system_shared_memory_bytes=8M")
        cls.channel = grpc.insecure_channel(f"127.0.0.1:{cls.server.grpc_port}")
        cls.stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(cls.channel)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        code = cls.server.stop()
        cls.folder.cleanup()
        if code:
            raise AssertionError(f"the server ended with {code}: {cls.server.log()}")

    def setUp(self):
        self.key = f"/slipway-{os.getpid()}-{self._testMethodName}"[:200]
        self.path = "/dev/shm" + self.key
        self.addCleanup(lambda: os.path.exists(self.path) and os.unlink(self.path))
        self.addCleanup(self.ask, "POST", "/v2/systemsharedmemory/unregister")

    def put(self, data):
        with open(self.path, "wb") as file:
            file.write(data)

    def region(self, verb, name="r", body=b"", status=200, words=""):
        got, _, answer = self.ask("POST", f"/v2/systemsharedmemory/region/{name}/{verb}",
                                  json.dumps(body).encode() if isinstance(body, dict) else body)
        self.assertIn(words, answer.decode())
        self.assertEqual(got, status)

    def register(self, name="r", offset=0, size=64, **kw):
        self.region("register", name, {"key": kw.pop("key", self.key), "offset": offset, "byte_size": size}, **kw)

    def regions(self, path=""):
        status, _, body = self.ask("GET", f"/v2/systemsharedmemory{path}/status")
        return json.loads(body) if status == 200 else status

    def test_regions_come_and_go(self):
        self.put(bytes(4096))
        self.assertIn("system_shared_memory", json.loads(self.ask("GET", "/v2")[2])["extensions"])
        self.assertEqual(self.regions(), [])
        self.register("a%20b", 16, 100)
        row = {"name": "a b", "key": self.key, "offset": 16, "byte_size": 100}
        self.assertEqual(self.regions(), [row])
        self.assertEqual(self.regions("/region/a%20b"), [row])
        self.assertEqual(self.regions("/region/x"), 404)
        self.register("a%20b", 0, 8, status=409, words="registered already")
        pb = grpc_service_pb2
        self.stub.SystemSharedMemoryRegister(
            pb.SystemSharedMemoryRegisterRequest(name="g", key=self.key, offset=1, byte_size=2), timeout=WAIT)
        got = self.stub.SystemSharedMemoryStatus(pb.SystemSharedMemoryStatusRequest(), timeout=WAIT).regions
        self.assertEqual(sorted(got), ["a b", "g"])
        self.assertEqual((got["g"].key, got["g"].offset, got["g"].byte_size), (self.key, 1, 2))
        self.region("unregister", "a%20b")
        self.stub.SystemSharedMemoryUnregister(pb.SystemSharedMemoryUnregisterRequest(name="x"), timeout=WAIT)
        self.assertEqual([r["name"] for r in self.regions()], ["g"])
        self.assertEqual(self.ask("POST", "/v2/systemsharedmemory/unregister")[0], 200)
        self.assertEqual(self.regions(), [])

    def test_regions_that_are_refused(self):
        self.put(bytes(4096))
        for key in ("", "/", "..", "/../etc/passwd", "/a/b", "/etc/passwd", "x" * 300, "a\0b"):
            self.register(key=key, status=400, words="no name of a shared memory object")
        self.register(key="/slipway-none", status=400, words="No such file")
        os.symlink("/etc/hostname", self.path + ".link")
        self.addCleanup(os.unlink, self.path + ".link")
        self.register(key=self.key + ".link", status=400, words="cannot be opened")
        os.mkfifo(self.path + ".fifo")
        self.addCleanup(os.unlink, self.path + ".fifo")
        self.register(key=self.key + ".fifo", status=400, words="no shared memory object")
        self.register(offset=4000, size=97, status=400, words="larger than its shared memory object")
        self.register(offset=2**63 - 1, size=1, status=400, words="at most 2^63")
        self.register(size=0, status=400, words="at least 1")
        self.register(size=-1, status=400, words="byte_size")
        with open(self.path, "r+b") as file:
            file.truncate(16 << 20)
        self.register(size=9 << 20, status=429, words="--system_shared_memory_bytes")
        self.register("one", size=8 << 20)
        self.register("two", size=1, status=429, words="--system_shared_memory_bytes")
        self.region("unregister", "one")
        for i in range(1024):
            self.register(str(i), size=1)
        self.register("more", size=1, status=429, words="1024 regions")
        for body in (b"", b"{", b"[]", b'{"key": 1}'):
            self.region("register", "x", body, status=400)
        status = self.ask("POST", "/v2/systemsharedmemory/region/x/register", b"{}", {"Origin": "http://evil.example"})[0]
        self.assertEqual(status, 403)

    def shared(self, size, offset=0, region="r"):
        return {"shared_memory_region": region, "shared_memory_offset": offset, "shared_memory_byte_size": size}

    def read(self, offset, size):
        with open(self.path, "rb") as file:
            file.seek(offset)
            return file.read(size)

    def test_every_type_over_rest(self):
        for dtype, (name, form, _) in TYPES.items():
            raw = struct.pack(f"<2{form}", *EXTREMES.get(form, [1, 2]))
            self.put(b"\0" * 10 + raw + b"\0" * 200)
            self.register(offset=2, size=100)
            status, answer, _ = self.infer("types@" + dtype, {
                "inputs": [tensor("x", name, [2], **self.shared(len(raw), 8))],
                "outputs": [{"name": "y", "parameters": self.shared(len(raw) + 5, 50)}]})
            self.assertEqual((status, answer["outputs"]), (200, [
                tensor("y", name, [2], shared_memory_region="r", shared_memory_offset=50,
                       shared_memory_byte_size=len(raw))]))
            self.assertEqual(self.read(52, len(raw) + 1), raw + b"\0")
            self.region("unregister")

    def grpc_request(self, dtype, shape, size, offset=0, out=None):
        r = grpc_service_pb2.ModelInferRequest(model_name="types@" + dtype)
        t = r.inputs.add(name="x", datatype=TYPES.get(dtype, ("BYTES",))[0], shape=shape)
        places = [(t, size, offset)]
        if out:
            places.append((r.outputs.add(name="y"), *out))
        for target, n, at in places:
            target.parameters["shared_memory_region"].string_param = "r"
            target.parameters["shared_memory_byte_size"].int64_param = n
            target.parameters["shared_memory_offset"].int64_param = at
        return r

    def test_strings_and_large_tensors_over_grpc(self):
        raw = raw_strings(b"", b"a\xff\0", b"x" * 1000)
        self.put(raw + bytes(5000))
        self.register(size=6000)
        got = self.stub.ModelInfer(self.grpc_request("string", [3], len(raw), out=(3000, 3000)), timeout=WAIT)
        self.assertEqual(list(got.raw_output_contents), [b""])
        self.assertEqual(got.outputs[0].parameters["shared_memory_byte_size"].int64_param, len(raw))
        self.assertEqual(self.read(3000, len(raw)), raw)
        self.region("unregister")
        raw = os.urandom(3 << 20)
        self.put(raw + bytes(3 << 20))
        self.register(size=6 << 20)
        request = self.grpc_request("uint8", [3 << 20], 3 << 20, out=(3 << 20, 3 << 20))
        self.assertEqual(list(self.stub.ModelInfer(request, timeout=WAIT).raw_output_contents), [b""])
        self.assertEqual(self.read(3 << 20, 3 << 20), raw)
        # The output's part of the region overlaps the input's part, so each output overwrites a part of the input. Requests
        # of a stream may run at the same time, so each is sent after the response to the one before.
        requests = queue.SimpleQueue()
        responses = self.stub.ModelStreamInfer(iter(requests.get, None), timeout=WAIT)
        for _ in range(3):
            requests.put(self.grpc_request("uint8", [100], 100, out=(100, 50)))
            self.assertEqual(next(responses).error_message, "")
        requests.put(None)
        self.assertEqual(list(responses), [])
        self.assertEqual(self.read(50, 100), raw[:50] * 2)
        # The input is in shared memory, and the output is in the response. An additional raw input must be refused.
        request = self.grpc_request("uint8", [3], 3)
        self.assertEqual(self.stub.ModelInfer(request, timeout=WAIT).raw_output_contents[0], raw[:3])
        request.raw_input_contents.append(b"abc")
        with self.assertRaises(grpc.RpcError) as caught:
            self.stub.ModelInfer(request, timeout=WAIT)
        self.assertIn("1 raw_input_contents for 0 inputs", caught.exception.details())

    def test_memory_that_shrinks_and_vanishes(self):
        self.put(bytes(1 << 20))
        self.register(size=1 << 20)
        request = {"inputs": [tensor("x", "UINT8", [1 << 20], **self.shared(1 << 20))],
                   "outputs": [{"name": "y", "parameters": self.shared(1 << 20)}]}
        self.assertEqual(self.infer("types@uint8", request)[0], 200)
        stop = threading.Event()

        def shrink():
            with open(self.path, "r+b") as file:
                while not stop.is_set():
                    file.truncate(0)
                    file.truncate(1 << 20)
        thread = threading.Thread(target=shrink)
        thread.start()
        for _ in range(100):
            status, answer, _ = self.infer("types@uint8", request)
            self.assertIn(status, (200, 400))
            if status == 400:
                self.assertIn('the region of shared memory "r"', answer["error"])
        stop.set()
        thread.join()
        with open(self.path, "r+b") as file:
            file.truncate(100)
        self.refused(400, "larger than its shared memory object", "types@uint8", request)
        with open(self.path, "r+b") as file:
            file.truncate(1 << 20)
        os.unlink(self.path)  # the registered region still refers to the unlinked object
        self.assertEqual(self.infer("types@uint8", request)[0], 200)
        self.region("unregister")
        self.refused(400, 'no region of shared memory "r" is registered', "types@uint8", request)

    def test_names_of_regions_are_text(self):
        for name, words in (("a%00b", "contains a NUL"), ("a%FFb", "is not UTF-8"), ("%C3", "is not UTF-8")):
            status, _, answer = self.ask("POST", f"/v2/systemsharedmemory/region/{name}/register",
                                         json.dumps({"key": "/x", "byte_size": 4}))
            self.assertEqual(status, 400)
            self.assertIn(words, json.loads(answer)["error"])
        for body, words in (({"key": "a/b", "byte_size": 4}, 'the key "a/b" of the region of shared memory "r" is no name'),
                            ({"key": "/x", "byte_size": 0}, 'the region of shared memory "r" has the byte_size 0 at the offset 0')):
            status, _, answer = self.ask("POST", "/v2/systemsharedmemory/region/r/register", json.dumps(body))
            self.assertEqual(status, 400)
            self.assertIn(words, json.loads(answer)["error"])

    def test_regions_that_overlap(self):
        self.put(struct.pack("<8f", *range(8)))
        self.register("one", size=24)
        self.register("two", offset=8, size=24)

        def request(at, to):
            return {"inputs": [tensor("x", "FP32", [4], **self.shared(16, at, "one"))],
                    "outputs": [{"name": "y", "parameters": self.shared(16, to, "two")}]}
        self.assertEqual(self.infer("types@float", request(8, 8))[0], 200)  # the output overwrites a half of the input
        self.assertEqual(struct.unpack("<8f", self.read(0, 32)), (0, 1, 2, 3, 2, 3, 4, 5))
        self.refused(400, "but a tensor names", "types@float", request(12, 8))
        self.refused(400, "but a tensor names", "types@float", request(8, 12))
        self.assertEqual(struct.unpack("<8f", self.read(0, 32)), (0, 1, 2, 3, 2, 3, 4, 5))
        self.region("unregister", "two")
        self.refused(400, 'no region of shared memory "two" is registered', "types@float", request(8, 8))
        self.assertEqual(self.regions(), [{"name": "one", "key": self.key, "offset": 0, "byte_size": 24}])

    def test_requests_that_are_refused(self):
        self.put(bytes(100))
        self.register()
        good = self.shared(8)
        for words, parameters, extra in (
                ('no region of shared memory "q"', self.shared(8, region="q"), {}),
                ("shared_memory_byte_size of 7", self.shared(7), {}),
                ("but a tensor names", self.shared(8, 60), {}),
                ("but a tensor names", self.shared(8, 2**63 - 1), {}),
                ("only one of the parameters", {"shared_memory_region": "r"}, {}),
                ("both in shared memory and in the request", good, {"data": [1, 2]}),
                ("shared_memory_offset is no integer", {**good, "shared_memory_offset": -1}, {}),
                ("shared_memory_byte_size is no integer", {**good, "shared_memory_byte_size": 1.5}, {}),
                ("no name of a region", {**good, "shared_memory_region": 7}, {})):
            self.refused(400, words, "types@float", {"inputs": [{**tensor("x", "FP32", [2]), **extra,
                                                                 "parameters": parameters}]})
        self.refused(400, "only one of the parameters", "types@float",
                     {"inputs": [tensor("x", "FP32", [1], [1], shared_memory_byte_size=4)]})
        self.refused(400, "has 8 bytes, but its shared_memory_byte_size is 7", "types@float",
                     {"inputs": [tensor("x", "FP32", [2], [1, 2])],
                      "outputs": [{"name": "y", "parameters": self.shared(7)}]})
        self.refused(400, "is registered", "types@float",
                     {"inputs": [tensor("x", "FP32", [2], [1, 2])],
                      "outputs": [{"name": "y", "parameters": self.shared(8, region="q")}]})
        self.put(b"\xff" * 100)
        for shape, size in (([2], 64), ([1], 3), ([2**40], 64)):
            self.refused(400, 'input "x"', "types@string", {"inputs": [tensor("x", "BYTES", shape, **self.shared(size))]})

    def test_it_is_off_by_default(self):
        with Server(f"--models={self.folder.name}") as server:
            connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=WAIT)
            self.addCleanup(connection.close)
            for method, path, body in (
                    ("GET", "/v2/systemsharedmemory/status", {}),
                    ("POST", "/v2/systemsharedmemory/region/r/register", {"key": self.key, "byte_size": 1}),
                    ("POST", "/v2/models/types@float/infer",
                     {"inputs": [tensor("x", "FP32", [2], **self.shared(8))]}),
                    ("POST", "/v2/models/types@float/infer",
                     {"inputs": [tensor("x", "FP32", [1], [1])],
                      "outputs": [{"name": "y", "parameters": self.shared(8)}]})):
                connection.request(method, path, json.dumps(body))
                answer = connection.getresponse()
                self.assertIn("--system_shared_memory_bytes is 0", answer.read().decode())
                self.assertEqual(answer.status, 501)


if __name__ == "__main__":
    test_oip.unittest.main()
