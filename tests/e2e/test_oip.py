"""Tests the Open Inference Protocol, version 2, over REST and gRPC: every datatype in every form, metadata, readiness,
and requests that are refused."""
import gzip
import http.client
import json
import os
import struct
import tempfile
import threading
import time
import unittest

import grpc
import small_models
from inference import grpc_service_pb2, grpc_service_pb2_grpc, model_config_pb2
from support import MODELS, SLOW, Server, command

WAIT = 20 * SLOW
HEADER = "Inference-Header-Content-Length"
# Maps a type to its name in the protocol, its format character in Python's struct module, and its field in
# InferTensorContents.
TYPES = {"float": ("FP32", "f", "fp32_contents"), "double": ("FP64", "d", "fp64_contents"),
         "int8": ("INT8", "b", "int_contents"), "int16": ("INT16", "h", "int_contents"),
         "int32": ("INT32", "i", "int_contents"), "int64": ("INT64", "q", "int64_contents"),
         "uint8": ("UINT8", "B", "uint_contents"), "uint16": ("UINT16", "H", "uint_contents"),
         "uint32": ("UINT32", "I", "uint_contents"), "uint64": ("UINT64", "Q", "uint64_contents"),
         "bool": ("BOOL", "?", "bool_contents"), "half": ("FP16", "H", None), "bfloat16": ("BF16", "H", None)}
EXTREMES = {"b": [-128, 127], "h": [-32768, 32767], "i": [-2**31, 2**31 - 1], "q": [-2**63, 2**63 - 1],
            "B": [0, 255], "H": [0, 65535], "I": [0, 2**32 - 1], "Q": [0, 2**64 - 1], "f": [0.1, -1e30],
            "d": [0.1, -1e300], "?": [True, False]}


def raw_strings(*values):
    return b"".join(struct.pack("<I", len(v)) + v for v in values)


def tensor(name, datatype, shape, data=None, **parameters):
    t = {"name": name, "datatype": datatype, "shape": shape}
    if data is not None:
        t["data"] = data
    return {**t, "parameters": parameters} if parameters else t


class Client(unittest.TestCase):
    """Sends requests to self.server."""

    def ask(self, method, path, body=None, headers=()):
        """Returns (status, headers, body)."""
        c = http.client.HTTPConnection("127.0.0.1", self.server.rest_port, timeout=WAIT)
        try:
            c.request(method, path, body, dict(headers))
            answer = c.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            c.close()

    def get(self, path):
        status, _, body = self.ask("GET", path)
        return status, json.loads(body)

    def infer(self, model, request, binary=None, length=None, headers=()):
        """Returns (status, the JSON of the response, the bytes after the JSON)."""
        text = json.dumps(request).encode() if isinstance(request, dict) else request
        headers = dict(headers)
        if binary is not None or length is not None:
            headers[HEADER] = str(len(text) if length is None else length)
        status, got, body = self.ask("POST", f"/v2/models/{model}/infer", text + (binary or b""), headers)
        n = int(got.get(HEADER.lower(), len(body)))
        return status, json.loads(body[:n]), body[n:]

    def refused(self, status, words, *args, **kw):
        got, answer, _ = self.infer(*args, **kw)
        self.assertEqual(list(answer), ["error"])
        self.assertIn(words, answer["error"])
        self.assertEqual(got, status)


class OipTest(Client):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="slipway-oip-")
        small_models.write_types(os.path.join(cls.folder.name, "types", "1"))
        small_models.write_handles(os.path.join(cls.folder.name, "handles", "1"))
        # This model has the folder structure of Triton's model repositories.
        small_models.write_shapes(os.path.join(cls.folder.name, "shapes", "3", "model.savedmodel"))
        with open(os.path.join(cls.folder.name, "shapes", "config.pbtxt"), "w", encoding="utf-8") as file:
            file.write('platform: "tensorflow_savedmodel"')
        os.symlink(os.path.join(MODELS, "half_plus_two"), os.path.join(cls.folder.name, "half_plus_two"))
        cls.server = Server(f"--models={cls.folder.name}")
        cls.channel = grpc.insecure_channel(f"127.0.0.1:{cls.server.grpc_port}")
        cls.stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(cls.channel)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        code = cls.server.stop()
        cls.folder.cleanup()
        if code:
            raise AssertionError(f"the server ended with {code}: {cls.server.log()}")


class Rest(OipTest):
    def test_health_and_metadata(self):
        self.assertEqual(self.get("/v2/health/live"), (200, {"live": True}))
        self.assertEqual(self.get("/v2/health/ready"), (200, {"ready": True}))
        self.assertEqual(self.get("/v2")[1]["name"], "slipway")
        self.assertEqual(self.get("/v2/")[1]["extensions"], ["binary_tensor_data", "classification", "parameters", "model_configuration",
                                                              "model_repository", "statistics", "logging"])
        for path in ("half_plus_two", "half_plus_two/versions/2"):
            self.assertEqual(self.get(f"/v2/models/{path}/ready"), (200, {"name": "half_plus_two", "ready": True}))
            self.assertEqual(self.get(f"/v2/models/{path}"), (200, {
                "name": "half_plus_two", "versions": ["2"], "platform": "tensorflow_savedmodel",
                "inputs": [tensor("x", "FP32", [-1, 1])], "outputs": [tensor("y", "FP32", [-1, 1])]}))
        for dtype, (name, _, _) in TYPES.items():
            status, answer = self.get(f"/v2/models/types@{dtype}")
            self.assertEqual((status, answer["name"]), (200, "types@" + dtype))
            self.assertEqual(answer["inputs"], [tensor("x", name, [-1])])

    def test_commands_read_repositories_of_triton(self):
        model = os.path.join(self.folder.name, "shapes")
        for directory in (model, f"{model}/3", f"{model}/3/model.savedmodel"):
            code, out, _ = command("inspect", directory)
            self.assertEqual((code, out.split("\n")[0]), (0, f"SavedModel {model}/3/model.savedmodel"))

    def test_index_and_configuration(self):
        rows = [{"name": name, "version": version, "state": "READY", "reason": ""}
                for name, version in (("half_plus_two", "2"), ("handles", "1"), ("shapes", "3"), ("types", "1"))]
        for body in (b"", b"{}", b'{"ready": true}'):
            status, _, answer = self.ask("POST", "/v2/repository/index", body)
            self.assertEqual((status, sorted(json.loads(answer), key=lambda r: r["name"])), (200, rows))
        for body in (b"{", b'{"ready": true, "x": "%s"}' % (b"x" * (1 << 16))):
            self.assertEqual(self.ask("POST", "/v2/repository/index", body)[0], 400)
        self.assertEqual(self.get("/v2/models/half_plus_two/config"), (200, {
            "name": "half_plus_two", "platform": "tensorflow_savedmodel", "backend": "tensorflow", "max_batch_size": 0,
            "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 1]}],
            "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [-1, 1]}]}))
        self.assertEqual(self.get("/v2/models/types@string/config")[1]["input"][0]["data_type"], "TYPE_STRING")
        self.assertEqual(self.get("/v2/models/no/config")[0], 404)

    def test_statistics(self):
        def read():
            status, answer = self.get("/v2/models/types/versions/1/stats")
            self.assertEqual(status, 200)
            (row,) = answer["model_stats"]
            self.assertEqual((row["name"], row["version"]), ("types", "1"))
            got = grpc_service_pb2.ModelStatisticsRequest(name="types")
            got = self.stub.ModelStatistics(got, timeout=WAIT).model_stats[0]
            self.assertEqual((got.inference_count, got.inference_stats.fail.count),
                             (row["inference_count"], row["inference_stats"]["fail"]["count"]))
            return row
        before = read()
        for _ in range(3):
            self.infer("types@float", {"inputs": [tensor("x", "FP32", [4], [1, 2, 3, 4])]})
        self.infer("types@float", {"inputs": [tensor("x", "FP32", [4], [1])]})
        after = read()
        for name, count in (("success", 3), ("fail", 1), ("queue", 3), ("compute_infer", 3)):
            x, y = (row["inference_stats"][name] for row in (before, after))
            self.assertEqual(y["count"] - x["count"], count, name)
            if name in ("success", "compute_infer"):
                self.assertGreater(y["ns"], x["ns"], name)
        self.assertEqual(after["execution_count"] - before["execution_count"], 3)
        self.assertEqual(after["inference_count"] - before["inference_count"], 12)
        names = {row["name"] for row in self.get("/v2/models/stats")[1]["model_stats"]}
        self.assertEqual(names, {"types", "shapes", "half_plus_two", "handles"})
        self.assertEqual(self.get("/v2/models/no/stats")[0], 404)

    def test_what_is_not_there(self):
        for path, status, words in (
                ("/v2/models/no", 404, 'model "no" is not served'),
                ("/v2/models/no/ready", 404, 'model "no" is not served'),
                ("/v2/models/half_plus_two/versions/7", 404, "has no version 7"),
                ("/v2/models/half_plus_two/versions/7/ready", 503, "has no version 7"),
                ("/v2/models/half_plus_two/versions/7x", 400, 'the version "7x" is no number'),
                ("/v2/models/half_plus_two@no", 404, 'no signature "no"'),
                ("/v2/models/types", 404, 'no signature "serving_default"; it has "bfloat16", "bool", '),
                ("/v2/models/types@complex64", 501, 'input "x" is of type complex64'),
                ("/v2/models/half_plus_two/trace/setting", 501, "does not have trace settings"),
                ("/v2/trace/setting", 501, "does not have trace settings"),
                ("/v2/cudasharedmemory/status", 501, "does not have CUDA shared memory"),
                ("/v2/models/half_plus_two/trace", 404, "nothing is served at /v2/models/half_plus_two/trace"),
                ("/v2/models/half_plus_two/infer", 400, "takes the method POST, not GET"),
                ("/v2/models/@x", 400, "names no model"), ("/v2x", 404, "/v2x")):
            with self.subTest(path):
                got, answer = self.get(path)
                self.assertIn(words, answer["error"])
                self.assertEqual(got, status)

    def test_an_unknown_signature_names_a_few_of_many(self):
        def build(g):
            g.placeholder("x", "float")
            g.node("y", "Identity", "x", T="float")

        with tempfile.TemporaryDirectory(prefix="slipway-oip-") as folder:
            small_models.write(os.path.join(folder, "1"), {f"{i:0100}": ({"x": ("x", "float")}, {"y": ("y", "float")})
                                                           for i in range(9)}, build)
            with Server(f"--model_base_path={folder}", "--model_name=many") as server:
                status, body = server.get("/v2/models/many")
        self.assertEqual(status, 404)
        self.assertEqual(json.loads(body)["error"], 'the model has no signature "serving_default"; it has '
                         + ", ".join(f'"{i:0100}"' for i in range(4)) + f" and 5 more; many@{0:0100} asks for one of them")

    def test_every_type_in_json_and_as_binary_data(self):
        for dtype, (name, form, _) in TYPES.items():
            values = EXTREMES[form]
            raw = struct.pack("<2" + form, *values)
            binary_in = tensor("x", name, [2], binary_data_size=len(raw))
            with self.subTest(dtype):
                status, answer, data = self.infer(
                    "types@" + dtype, {"inputs": [binary_in], "parameters": {"binary_data_output": True}}, raw)
                self.assertEqual((status, data), (200, raw))
                self.assertEqual(answer["outputs"], [tensor("y", name, [2], binary_data_size=len(raw))])
                if name in ("FP16", "BF16"):
                    self.refused(400, "only binary data", "types@" + dtype,
                                 {"inputs": [tensor("x", name, [2], [1, 2])]})
                    self.refused(400, 'output "y" is of a datatype that JSON', "types@" + dtype,
                                 {"inputs": [binary_in]}, raw)
                    continue
                status, answer, data = self.infer("types@" + dtype, {"inputs": [tensor("x", name, [2], values)]})
                self.assertEqual((status, data), (200, b""))
                got = answer["outputs"][0]
                self.assertEqual(struct.pack("<2" + form, *got["data"]), raw)
                self.assertEqual((got["datatype"], got["shape"]), (name, [2]))

    def test_bytes(self):
        texts = ["", "a", "grüße", "x" * 100]
        raw = raw_strings(*(t.encode() for t in texts))
        status, answer, _ = self.infer("types@string", {"inputs": [tensor("x", "BYTES", [2, 2], texts)]})
        self.assertEqual((status, answer["outputs"][0]["data"]), (200, texts))
        binary_in = tensor("x", "BYTES", [4], binary_data_size=len(raw))
        status, answer, data = self.infer("types@string", {
            "inputs": [binary_in], "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}, raw)
        self.assertEqual((status, data), (200, raw))
        self.refused(400, "has an element that is not UTF-8", "types@string",
                     {"inputs": [tensor("x", "BYTES", [1], binary_data_size=5)]}, raw_strings(b"\xff"))

    def test_forms_are_mixed_and_ordered(self):
        a, c = struct.pack("<2f", 1, 2), raw_strings(b"p", b"q")
        status, answer, data = self.infer("shapes", {
            "id": "né", "inputs": [tensor("c", "BYTES", [2], binary_data_size=len(c)),
                                   tensor("b", "INT64", [1, 2], [[3, 4]]),
                                   tensor("a", "FP32", [2], binary_data_size=len(a))],
            "parameters": {"binary_data_output": True},
            "outputs": [{"name": "c_bytes"}, {"name": "b", "parameters": {"binary_data": False}},
                        {"name": "a"}]}, c + a)
        self.assertEqual((status, answer["id"], answer["model_name"], answer["model_version"]),
                         (200, "né", "shapes", "3"))
        self.assertEqual(data, c + a)
        self.assertEqual([o["name"] for o in answer["outputs"]], ["c_bytes", "b", "a"])
        self.assertEqual(answer["outputs"][1]["data"], [3, 4])

    def test_a_body_without_json(self):
        raw = struct.pack("<3f", 1, 2, 5.5)
        status, answer, data = self.infer("half_plus_two", b"", raw, 0)
        self.assertEqual((status, data), (200, struct.pack("<3f", 2.5, 3, 4.75)))
        self.assertEqual(answer["outputs"], [tensor("y", "FP32", [3, 1], binary_data_size=12)])
        self.assertEqual(self.infer("half_plus_two", b"", b"", 0)[0], 200)
        self.refused(400, "which is not the size of FP32 of the shape [2,1]", "half_plus_two", b"", raw[:11], 0)
        self.refused(400, "a shape that the size of the body does not determine", "types@float", b"", raw, 0)
        self.refused(400, 'is one input, but the signature "serving_default" has 3', "shapes", b"", raw, 0)

    def test_a_body_without_json_makes_no_handles(self):
        for signature in ("resource", "variant"):
            for raw in (b"", b"A" * 8, b"A" * 16, b"A" * 64):
                self.refused(501, f'input "x" is of type {signature}', "handles@" + signature, b"", raw, 0)
        self.refused(501, 'output "y" is of type resource', "handles@lies", b"", b"", 0)

    def test_a_compressed_body_with_binary_data(self):
        raw = struct.pack("<20000f", *range(20000))
        request = json.dumps({"inputs": [tensor("x", "FP32", [20000], binary_data_size=len(raw))],
                              "parameters": {"binary_data_output": True}}).encode()
        status, _, data = self.infer("types@float", gzip.compress(request + raw), length=len(request),
                                     headers={"Content-Encoding": "gzip"})
        self.assertEqual((status, data), (200, raw))

    def test_binary_data_that_does_not_fit(self):
        raw = struct.pack("<2f", 1, 2)

        def request(shape=(2,), size=8, datatype="FP32"):
            return {"inputs": [tensor("x", datatype, list(shape), binary_data_size=size)]}
        for words, args in (
                ("has 8 bytes of binary data, which is not the size of FP32 of the shape [3]",
                 (request((3,)), raw)),
                ("has a binary_data_size of 9, but only 8 bytes are left", (request(size=9), raw)),
                ("8 bytes follow the JSON text, but the binary inputs have 4", (request((1,), 4), raw)),
                ("is no integer of at least 0", (request(size=-1), raw)),
                ("is no integer of at least 0", (request(size="8"), raw)),
                ("which is no length", (request(), raw, "-1")), ("which is no length", (request(), raw, "9" * 30)),
                (f"{HEADER} is 5000, but the body has only", (request(), raw, 5000)),
                ("has a shape that is refused", (request((2**62, 2**62)), raw)),
                ("the dimensions of [4611686018427387904] that are not 0 make more than 2^63 - 1 bytes", (request((2**62,)), raw)),
                ("is no integer of at least 0", (request((-1,)), raw)),
                ('"shape" of an input has more than', (request([1] * 20), raw))):
            with self.subTest(words):
                self.refused(400, words, "types@float", *args)
        for data, words in ((b"\x05\0\0\0abc", "has an element of 5 bytes, but only 3 bytes"),
                            (raw_strings(b"a", b"b"), "has 10 bytes of binary data"),
                            (b"\x01\0", "has 2 bytes of binary data")):
            self.refused(400, words, "types@string", request((1,), len(data), "BYTES"), data)

    def test_requests_that_are_refused(self):
        one = tensor("x", "FP32", [1], [1])
        for status, words, request in (
                (400, "JSON Parse error", b"{"), (400, "Is not object", b"[1]"),
                (400, 'the request has no "inputs"', {}), (400, '"inputs" is no array', {"inputs": {}}),
                (400, 'input "x" is missing', {"inputs": []}),
                (400, 'input "z" is none of the signature "float"', {"inputs": [tensor("z", "FP32", [1], [1])]}),
                (400, 'input "x" is given twice', {"inputs": [one, one]}),
                (400, "an input has no \"name\"", {"inputs": [{"datatype": "FP32", "shape": [1], "data": [1]}]}),
                (400, 'input "x" has no "shape"', {"inputs": [{"name": "x", "datatype": "FP32", "data": [1]}]}),
                (400, 'there is no datatype "FP8"', {"inputs": [tensor("x", "FP8", [1], [1])]}),
                (400, "has the datatype INT32, but the model takes FP32", {"inputs": [tensor("x", "INT32", [1], [1])]}),
                (400, 'neither "data" nor binary data', {"inputs": [tensor("x", "FP32", [1])]}),
                (400, 'both "data" and binary data', {"inputs": [tensor("x", "FP32", [1], [1], binary_data_size=4)]}),
                (400, 'data that is not of its shape [2]', {"inputs": [tensor("x", "FP32", [2], [1])]}),
                (400, 'data that is not of its shape [2,2]', {"inputs": [tensor("x", "FP32", [2, 2], [[1, 2, 3], [4]])]}),
                (400, 'has the element "a"', {"inputs": [tensor("x", "FP32", [1], ["a"])]}),
                (400, "fewer values than its shape", {"inputs": [tensor("x", "FP32", [2**40], [1])]}),
                (400, 'output "q" is none of the signature', {"inputs": [one], "outputs": [{"name": "q"}]}),
                (400, 'output "y" is requested twice', {"inputs": [one], "outputs": [{"name": "y"}] * 2}),
                (400, '"id" is no string', {"inputs": [one], "id": 5}),
                (400, "timeout is no integer", {"inputs": [one], "parameters": {"timeout": "soon"}}),
                (400, "neither true nor false", {"inputs": [one], "parameters": {"binary_data_output": 1}}),
                (400, "has more than 1024 elements", {"inputs": [one] * 1025}),
                (501, "asks for sequences", {"inputs": [one], "parameters": {"sequence_id": 3}}),
                (400, "both in shared memory and in the request",
                 {"inputs": [tensor("x", "FP32", [1], [1], shared_memory_region="r")]}),
                (501, "asks for a classification of something that is not an output",
                 {"inputs": [{**one, "parameters": {"classification": 3}}]}),
                (400, "priority is no integer", {"inputs": [one], "parameters": {"priority": "high"}}),
                (400, "classification is no integer",
                 {"inputs": [one], "outputs": [{"name": "y", "parameters": {"classification": -3}}]})):
            with self.subTest(words):
                self.refused(status, words, "types@float", request)
        self.refused(404, 'no signature "no"; it has "bfloat16", "bool", ', "types@no", {"inputs": [one]})
        self.refused(404, 'model "types@float" is not served', "types@float@float", {"inputs": [one]})
        for dtype, bad in (("INT8", 128), ("UINT8", -1), ("INT32", 1.5), ("UINT64", 2**64), ("BOOL", 2),
                           ("INT64", True), ("BYTES", 1), ("FP32", 1e300)):
            signature = {"BYTES": "string"}.get(dtype) or next(k for k, v in TYPES.items() if v[0] == dtype)
            with self.subTest(dtype):
                self.refused(400, "which is no value of the datatype " + dtype, "types@" + signature,
                             {"inputs": [tensor("x", dtype, [1], [bad])]})

    def test_a_timeout_is_kept(self):
        before = time.monotonic()
        self.refused(504, "deadline", "types@float",
                     {"inputs": [tensor("x", "FP32", [1], [1])], "parameters": {"timeout": 1}})
        self.assertLess(time.monotonic() - before, WAIT)
        self.assertEqual(self.infer("types@float", {"inputs": [tensor("x", "FP32", [1], [1])],
                                                    "parameters": {"timeout": 10**9, "priority": 1}})[0], 200)


class Grpc(OipTest):
    def request(self, dtype, shape=(2,), raw=None, version="", **contents):
        r = grpc_service_pb2.ModelInferRequest(model_name="types@" + dtype, model_version=version, id="i7")
        t = r.inputs.add(name="x", datatype=TYPES.get(dtype, ("BYTES",))[0], shape=shape)
        for field, values in contents.items():
            getattr(t.contents, field).extend(values)
        if raw is not None:
            r.raw_input_contents.append(raw)
        return r

    def refused(self, code, words, request):
        with self.assertRaises(grpc.RpcError) as caught:
            self.stub.ModelInfer(request, timeout=WAIT)
        self.assertIn(words, caught.exception.details())
        self.assertEqual(caught.exception.code(), code)

    def test_health_and_metadata(self):
        pb = grpc_service_pb2
        self.assertTrue(self.stub.ServerLive(pb.ServerLiveRequest(), timeout=WAIT).live)
        self.assertTrue(self.stub.ServerReady(pb.ServerReadyRequest(), timeout=WAIT).ready)
        self.assertEqual(self.stub.ServerMetadata(pb.ServerMetadataRequest(), timeout=WAIT).name, "slipway")
        for name, version, ready in (("types", "", True), ("types", "1", True), ("types", "2", False), ("no", "", False)):
            request = pb.ModelReadyRequest(name=name, version=version)
            self.assertEqual(self.stub.ModelReady(request, timeout=WAIT).ready, ready)
        got = self.stub.ModelMetadata(pb.ModelMetadataRequest(name="half_plus_two"), timeout=WAIT)
        self.assertEqual((got.name, got.versions, got.platform), ("half_plus_two", ["2"], "tensorflow_savedmodel"))
        self.assertEqual((got.inputs[0].name, got.inputs[0].datatype, got.inputs[0].shape), ("x", "FP32", [-1, 1]))
        with self.assertRaises(grpc.RpcError) as caught:
            self.stub.ModelMetadata(pb.ModelMetadataRequest(name="no"), timeout=WAIT)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_index_and_configuration(self):
        pb = grpc_service_pb2
        got = self.stub.RepositoryIndex(pb.RepositoryIndexRequest(ready=True), timeout=WAIT).models
        self.assertEqual(sorted((m.name, m.version, m.state) for m in got),
                         [("half_plus_two", "2", "READY"), ("handles", "1", "READY"), ("shapes", "3", "READY"),
                          ("types", "1", "READY")])
        for dtype, (name, _, _) in TYPES.items():
            config = self.stub.ModelConfig(pb.ModelConfigRequest(name="types@" + dtype), timeout=WAIT).config
            self.assertEqual((config.name, config.platform), ("types@" + dtype, "tensorflow_savedmodel"))
            self.assertEqual((config.input[0].data_type, config.output[0].dims), (model_config_pb2.DataType.Value("TYPE_" + name), [-1]))

    def test_every_type_raw_and_typed(self):
        for dtype, (name, form, field) in TYPES.items():
            raw = struct.pack("<2" + form, *EXTREMES[form])
            requests = [self.request(dtype, raw=raw)]
            if field:
                requests.append(self.request(dtype, **{field: EXTREMES[form]}))
            for request in requests:
                with self.subTest(dtype):
                    got = self.stub.ModelInfer(request, timeout=WAIT)
                    self.assertEqual((got.model_name, got.model_version, got.id), ("types@" + dtype, "1", "i7"))
                    self.assertEqual((got.outputs[0].name, got.outputs[0].datatype, got.outputs[0].shape),
                                     ("y", name, [2]))
                    self.assertEqual(list(got.raw_output_contents), [raw])
        raw = raw_strings(b"", b"\xff\0")
        for request in (self.request("string", raw=raw), self.request("string", bytes_contents=[b"", b"\xff\0"])):
            self.assertEqual(list(self.stub.ModelInfer(request, timeout=WAIT).raw_output_contents), [raw])

    def test_a_response_repeats_names_after_the_message_is_freed(self):
        raw = os.urandom(224 * 224 * 3 * 4)
        request = self.request("float", (1, 224, 224, 3), raw)
        request.id = "an id " * 20
        for _ in range(30):
            got = self.stub.ModelInfer(request, timeout=WAIT)
            self.assertEqual((got.model_name, got.id), ("types@float", request.id))
            self.assertEqual(list(got.raw_output_contents), [raw])

    def test_large_tensors(self):
        raw = os.urandom(3 << 20)
        got = self.stub.ModelInfer(self.request("uint8", (3 << 20,), raw), timeout=WAIT)
        self.assertEqual(got.raw_output_contents[0], raw)

    def test_requests_that_are_refused(self):
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        no_model = self.request("float", raw=b"\0" * 8)
        no_model.model_name = ""
        twice = self.request("float", raw=b"\0" * 8)
        twice.raw_input_contents.append(b"")
        output = self.request("float", raw=b"\0" * 8)
        output.outputs.add(name="q")
        timeout = self.request("float", raw=b"\0" * 8)
        timeout.parameters["timeout"].string_param = "x"
        sequence = self.request("float", raw=b"\0" * 8)
        sequence.parameters["sequence_id"].int64_param = 1
        for code, words, request in (
                (invalid, "has 7 bytes of binary data", self.request("float", raw=b"\0" * 7)),
                (invalid, "has 1 values, but its shape takes 2", self.request("float", fp32_contents=[1])),
                (invalid, "has more values than its shape", self.request("float", fp32_contents=[1] * 3)),
                (invalid, "those of FP32 are in field 6", self.request("float", int_contents=[1, 2])),
                (invalid, "has the value 300, which is none of UINT8", self.request("uint8", uint_contents=[300, 1])),
                (invalid, "only raw contents", self.request("half", fp32_contents=[1, 2])),
                (invalid, "must not stand beside", self.request("float", raw=b"\0" * 8, fp32_contents=[1, 2])),
                (invalid, "has a shape that is refused", self.request("float", (-1,), b"")),
                (invalid, "is no number", self.request("float", raw=b"\0" * 8, version="x")),
                (invalid, "names no model", no_model), (invalid, "2 raw_input_contents for 1 inputs", twice),
                (invalid, 'output "q" is none', output), (invalid, "timeout is no integer", timeout),
                (grpc.StatusCode.UNIMPLEMENTED, "asks for sequences", sequence),
                (grpc.StatusCode.NOT_FOUND, "has no version 9", self.request("float", raw=b"\0" * 8, version="9")),
                (grpc.StatusCode.NOT_FOUND, 'no signature "no"', self.request("no", raw=b"\0" * 8))):
            with self.subTest(words):
                self.refused(code, words, request)

    def test_a_timeout_is_kept(self):
        request = self.request("float", raw=b"\0" * 8)
        request.parameters["timeout"].int64_param = 1
        self.refused(grpc.StatusCode.DEADLINE_EXCEEDED, "deadline", request)

    def test_a_stream_answers_in_order(self):
        def requests():
            for i in range(200):
                if i % 3 == 2:
                    r = self.request("float", raw=b"\0" * 7)
                elif i % 3:
                    r = self.request("int64", raw=struct.pack("<2q", i, -i))
                else:  # a worker handles a request of this size
                    r = self.request("float", (100000,), raw=b"\0" * 400000)
                r.id = str(i)
                yield r
        got = list(self.stub.ModelStreamInfer(requests(), timeout=WAIT))
        self.assertEqual([g.infer_response.id for g in got], [str(i) for i in range(200)])
        for i, g in enumerate(got):
            if i % 3 == 2:
                self.assertIn("has 7 bytes of binary data", g.error_message)
                self.assertEqual(len(g.infer_response.outputs), 0)
                continue
            self.assertEqual((g.error_message, g.infer_response.model_name),
                             ("", "types@" + ("int64" if i % 3 else "float")))
            self.assertEqual(g.infer_response.raw_output_contents[0],
                             struct.pack("<2q", i, -i) if i % 3 else b"\0" * 400000)

    def test_errors_of_a_stream_end_only_their_request(self):
        bad = []
        for change in (lambda r: setattr(r, "model_name", "no"), lambda r: setattr(r, "model_name", "types@no"),
                       lambda r: r.parameters["sequence_id"].__setattr__("int64_param", 3),
                       lambda r: r.parameters["timeout"].__setattr__("int64_param", 1)):
            r = self.request("float", raw=b"\0" * 8)
            change(r)
            bad.append(r)
        words = ("is not served", "no signature", "asks for sequences", "deadline")
        good = self.request("float", raw=b"\0" * 8)
        got = list(self.stub.ModelStreamInfer(iter([r for b in bad for r in (b, good)]), timeout=WAIT))
        self.assertEqual(len(got), 8)
        for i, word in enumerate(words):
            self.assertIn(word, got[2 * i].error_message)
            self.assertEqual(got[2 * i + 1].error_message, "")

    def test_an_empty_stream_and_one_without_a_message_that_can_be_read(self):
        self.assertEqual(list(self.stub.ModelStreamInfer(iter([]), timeout=WAIT)), [])
        call = self.channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer",
                                          response_deserializer=grpc_service_pb2.ModelStreamInferResponse.FromString)
        good = self.request("float", raw=b"\0" * 8).SerializeToString()
        got = list(call(iter([b"\xff\xff", good]), timeout=WAIT))
        self.assertIn("not well formed", got[0].error_message)
        self.assertEqual(got[1].error_message, "")

    def test_streams_that_end_early(self):
        good = self.request("float", (100000,), raw=b"\0" * 400000)

        def forever():
            while True:
                yield good
        calls = [self.stub.ModelStreamInfer(forever(), timeout=WAIT) for _ in range(4)]
        for call in calls:
            next(call)
        for call in calls:
            call.cancel()
        late = self.stub.ModelStreamInfer(forever(), timeout=0.3)
        with self.assertRaises(grpc.RpcError) as caught:
            for _ in late:
                pass
        self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertEqual(len(list(self.stub.ModelStreamInfer(iter([good]), timeout=WAIT))), 1)
        until = time.monotonic() + WAIT
        while self.in_flight() and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(self.in_flight(), 0)

    def in_flight(self):
        page = self.ask("GET", "/monitoring/prometheus/metrics")[2].decode()
        (value,) = [line.split()[-1] for line in page.splitlines() if line.startswith("slipway_bytes_in_flight ")]
        return int(float(value))

    def test_a_stopping_server_ends_its_streams(self):
        server = Server(f"--models={self.folder.name}")
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            good = self.request("float", raw=b"\0" * 8)
            more = threading.Event()

            def requests():
                yield good
                more.wait(WAIT)
            call = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(requests(), timeout=WAIT)
            next(call)
            self.assertEqual(server.stop(), 0)
            with self.assertRaises(grpc.RpcError) as caught:
                next(call)
            more.set()
            self.assertIn(caught.exception.code(), (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED))


class StreamBatches(unittest.TestCase):
    def test_requests_that_are_sent_without_waiting_form_a_batch(self):
        # The batch begins when it has 4 rows. A stream with one inference at a time would never fill it.
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("max_batch_size { value: 4 } batch_timeout_micros { value: 600000000 } "
                       "num_batch_threads { value: 1 }")
            file.flush()
            with Server(f"--models={MODELS}", "--enable_batching", f"--batching_parameters_file={file.name}") as server, \
                    grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
                requests = []
                for i in range(8):
                    r = grpc_service_pb2.ModelInferRequest(model_name="half_plus_two", id=str(i))
                    r.inputs.add(name="x", datatype="FP32", shape=[1, 1])
                    r.raw_input_contents.append(struct.pack("<f", i))
                    requests.append(r)
                stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
                got = [g.infer_response for g in stub.ModelStreamInfer(iter(requests), timeout=WAIT)]
                self.assertEqual([g.id for g in got], [r.id for r in requests])
                self.assertEqual([struct.unpack("<f", g.raw_output_contents[0])[0] for g in got],
                                 [i / 2 + 2 for i in range(8)])
                page = server.get("/monitoring/prometheus/metrics")[1].decode()
                self.assertIn('slipway_batch_rows_count{model="half_plus_two",version="2"} 2\n', page)


if __name__ == "__main__":
    unittest.main()
