"""Tests rules of the Open Inference Protocol that TensorFlow Serving does not have: codings of bodies, headers that a
request repeats, shapes of inputs, signatures that a model does not have, and the marks of final responses."""
import gzip
import json
import os
import socket
import struct
import time
import zlib

import grpc
import test_oip
from inference import grpc_service_pb2
from test_oip import HEADER, WAIT, tensor

MODEL = "half_plus_two"


def body(*values):
    return json.dumps({"inputs": [tensor("x", "FP32", [len(values), 1], list(values))]}).encode()


class Codings(test_oip.OipTest):
    def post(self, data, coding, path="/v2/models/half_plus_two/infer", **headers):
        status, _, answer = self.ask("POST", path, data, {"Content-Encoding": coding, **headers})
        return status, json.loads(answer)

    def test_gzip_and_deflate_in_any_case(self):
        for coding, pack in (("gzip", gzip.compress), ("GZIP", gzip.compress), ("X-Gzip", gzip.compress),
                             ("deflate", zlib.compress), ("Deflate", zlib.compress), ("identity", bytes), ("", bytes)):
            with self.subTest(coding):
                status, answer = self.post(pack(body(1, 2)), coding)
                self.assertEqual((status, answer["outputs"][0]["data"]), (200, [2.5, 3]))

    def test_other_codings_are_refused_by_name(self):
        for coding in ("br", "gzip, gzip", "gzip,deflate", "zstd", "x", "gzip;q=1"):
            with self.subTest(coding):
                status, answer = self.post(gzip.compress(body(1)), coding)
                self.assertEqual(status, 415)
                self.assertIn(f'the Content-Encoding "{coding}" is not supported', answer["error"])
        packed = gzip.compress(body(1))
        head = (f"POST /v2/models/{MODEL}/infer HTTP/1.1\r\nHost: a\r\nContent-Length: {len(packed)}\r\nConnection: close\r\n"
                "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n\r\n").encode()
        self.assertIn(b"given twice", self.raw(head + packed))

    def test_a_body_that_does_not_inflate(self):
        packed = gzip.compress(body(1))
        broken = packed[:12] + b"\xff" * 8 + packed[20:]
        for data, words in ((packed[:-9], "does not inflate: it ends too early"), (b"", "does not inflate"),
                            (body(1), "does not inflate: it is malformed"), (broken, "does not inflate"),
                            (packed + b"x", "1 bytes after the end of its compressed data"),
                            (packed + packed, "bytes after the end of its compressed data")):
            for headers in ({}, {HEADER: "0"}, {HEADER: str(len(body(1)))}):
                with self.subTest(words, headers=headers):
                    status, answer = self.post(data, "gzip", **headers)
                    self.assertEqual(status, 400)
                    self.assertIn(words, answer["error"])
        # A worker inflates a long body.
        status, answer = self.post(gzip.compress(os.urandom(100000))[:-9], "gzip")
        self.assertIn("does not inflate", answer["error"])

    def test_the_index_reads_a_compressed_body(self):
        path = "/v2/repository/index"
        self.assertEqual(self.post(gzip.compress(b'{"ready": true}'), "gzip", path)[0], 200)
        status, answer = self.post(gzip.compress(b" " * 100000), "gzip", path)
        self.assertEqual((status, "when it is inflated" in answer["error"]), (400, True))

    def test_tensorflow_servings_rule_stays(self):
        path = f"/v1/models/{MODEL}:predict"
        packed = gzip.compress(b'{"instances": [[1]]}')
        for coding in ("gzip", "x-gzip", "gzip, gzip"):
            self.assertEqual(self.post(packed, coding, path), (200, {"predictions": [[2.5]]}))
        for coding in ("GZIP", "br"):
            self.assertEqual(self.post(packed, coding, path)[0], 400)
        self.assertIn("empty", self.post(packed[:-9], "gzip", path)[1]["error"])

    def raw(self, data):
        with socket.create_connection(("127.0.0.1", self.server.rest_port), timeout=WAIT) as s:
            s.sendall(data)
            return b"".join(iter(lambda: s.recv(65536), b""))

    def test_a_repeated_length_of_the_json(self):
        def ask(*lengths):
            lines = "".join(f"{HEADER}: {n}\r\n" for n in lengths)
            return self.raw(f"POST /v2/models/{MODEL}/infer HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                            f"Content-Length: {len(body(1))}\r\n{lines}\r\n".encode() + body(1))
        n = len(body(1))
        self.assertIn(b" 200 ", ask(n).split(b"\r\n")[0])
        self.assertIn(b" 200 ", ask(n, n).split(b"\r\n")[0])
        for lengths in ((5, n), (n, 0)):
            answer = ask(*lengths)
            self.assertIn(b" 400 ", answer.split(b"\r\n")[0])
            self.assertIn(f"the header {HEADER} more than once, with different values".encode(), answer)


class Shapes(test_oip.OipTest):
    def grpc_error(self, request, stream=False):
        if stream:
            return next(self.stub.ModelStreamInfer(iter([request]), timeout=WAIT)).error_message
        with self.assertRaises(grpc.RpcError) as caught:
            self.stub.ModelInfer(request, timeout=WAIT)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        return caught.exception.details()

    def test_an_input_has_the_rank_and_the_fixed_dimensions_of_the_signature(self):
        for shape in ([1, 3], [3], [], [1, 1, 1], [3, 1, 1], [1, 0]):
            n = 1
            for d in shape:
                n *= d
            text = "[" + ",".join(map(str, shape)) + "]"
            words = f"unexpected shape for input 'x' for model '{MODEL}'. Expected [-1,1], got {text}"
            raw = struct.pack(f"<{n}f", *range(n))
            with self.subTest(text):
                self.refused(400, words, MODEL, {"inputs": [tensor("x", "FP32", shape, list(range(n)))]})
                self.refused(400, words, MODEL, {"inputs": [tensor("x", "FP32", shape, binary_data_size=len(raw))]}, raw)
                request = grpc_service_pb2.ModelInferRequest(model_name=MODEL)
                request.inputs.add(name="x", datatype="FP32", shape=shape)
                request.raw_input_contents.append(raw)
                self.assertEqual(self.grpc_error(request), words)
                self.assertEqual(self.grpc_error(request, stream=True), words)
        self.assertEqual(self.infer(MODEL, {"inputs": [tensor("x", "FP32", [0, 1], [])]})[0], 200)
        status, _, answer = self.ask("POST", f"/v1/models/{MODEL}:predict", b'{"instances": [1, 2]}')
        self.assertEqual((status, json.loads(answer)), (200, {"predictions": [2.5, 3.0]}))

    def test_signatures_that_a_model_does_not_have(self):
        for path in ("", "/ready", "/stats", "/config", "/versions/2/ready", "/versions/2/stats"):
            version, _, end = path.rpartition("/")
            status, answer = self.get(f"/v2/models/{MODEL}@no{version}/{end}".rstrip("/"))
            self.assertEqual(status, 404, path)
            self.assertIn('the model has no signature "no"; it has ', answer["error"])
        self.assertEqual(self.get(f"/v2/models/{MODEL}@serving_default/ready")[1]["ready"], True)
        self.assertEqual(self.get("/v2/models/types/ready")[1]["ready"], True)
        for call, request in ((self.stub.ModelReady, grpc_service_pb2.ModelReadyRequest),
                              (self.stub.ModelStatistics, grpc_service_pb2.ModelStatisticsRequest)):
            with self.assertRaises(grpc.RpcError) as caught:
                call(request(name=MODEL + "@no"), timeout=WAIT)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
            self.assertIn('no signature "no"', caught.exception.details())

    def request(self, **parameters):
        r = grpc_service_pb2.ModelInferRequest(model_name=MODEL, id="a")
        r.inputs.add(name="x", datatype="FP32", shape=[1, 1])
        r.raw_input_contents.append(struct.pack("<f", 1))
        for name, value in parameters.items():
            setattr(r.parameters["triton_enable_empty_final_response"], name, value)
        return r

    def test_final_responses_of_a_stream_are_marked_on_request(self):
        bad = self.request(bool_param=True)
        bad.inputs[0].datatype = "INT32"
        requests = [self.request(bool_param=True), self.request(bool_param=False), self.request(), bad]
        got = list(self.stub.ModelStreamInfer(iter(requests), timeout=WAIT))
        self.assertEqual([dict(g.infer_response.parameters).keys() == {"triton_final_response"} for g in got],
                         [True, False, False, True])
        for g in (got[0], got[3]):
            self.assertEqual(g.infer_response.parameters["triton_final_response"].bool_param, True)
            self.assertEqual(g.infer_response.id, "a")
        self.assertEqual(got[0].infer_response.raw_output_contents[0], struct.pack("<f", 2.5))
        self.assertIn("is neither true nor false", self.grpc_error(self.request(int64_param=1)))
        self.assertEqual(dict(self.stub.ModelInfer(requests[0], timeout=WAIT).parameters), {})

    def test_statistics_of_failures_and_of_the_last_inference(self):
        def read():
            return self.get(f"/v2/models/{MODEL}/stats")[1]["model_stats"][0]
        before = read()
        begin = time.time() * 1000
        self.infer(MODEL, {"inputs": [tensor("x", "INT32", [1, 1], [1])]})
        after = read()
        fail = after["inference_stats"]["fail"]
        self.assertEqual(fail["count"] - before["inference_stats"]["fail"]["count"], 1)
        self.assertGreater(fail["ns"], before["inference_stats"]["fail"]["ns"])
        self.assertTrue(begin - 50 <= after["last_inference"] <= time.time() * 1000 + 50, after["last_inference"])
        got = self.stub.ModelStatistics(grpc_service_pb2.ModelStatisticsRequest(name=MODEL), timeout=WAIT).model_stats[0]
        self.assertEqual(got.inference_stats.fail.ns, fail["ns"])
        self.assertLess(abs(got.last_inference - after["last_inference"]), 50)


class Sentences(test_oip.OipTest):
    def test_errors_name_the_input_or_output(self):
        one = tensor("x", "FP32", [1, 1], [1])
        late = {"shape": [1, 1], "datatype": "FP32", "parameters": {"binary_data_size": -1}, "name": "x"}
        for words, request in (
                ('input "x": the parameter binary_data_size is no integer', {"inputs": [late]}),
                ("input 0: a dimension of a shape is no integer", {"inputs": [{"shape": [-1]}]}),
                ('input "x": a dimension of a shape is no integer', {"inputs": [{**one, "shape": [-1]}]}),
                ('input "x": there is no datatype "FLOAT", only BOOL, UINT8, ', {"inputs": [{**one, "datatype": "FLOAT"}]}),
                ("BF16 and BYTES", {"inputs": [{**one, "datatype": "FLOAT"}]}),
                ('output "y": the parameter classification is no integer',
                 {"inputs": [one], "outputs": [{"parameters": {"classification": -1}, "name": "y"}]}),
                ('has only one of the parameters shared_memory_region and shared_memory_byte_size',
                 {"inputs": [tensor("x", "FP32", [1, 1], shared_memory_byte_size=4)]}),
                ('input "X" is none of the signature "serving_default"; it has "x"', {"inputs": [{**one, "name": "X"}]}),
                ('output "q" is none of the signature "serving_default"; it has "y"', {"inputs": [one], "outputs": [{"name": "q"}]})):
            with self.subTest(words):
                self.refused(400, words, MODEL, request)
        self.refused(400, "the dimensions of [0,9223372036854775807] that are not 0 make more than 2^63 - 1 bytes of FP32",
                     "shapes@unequal", {"inputs": [tensor("a", "FP32", [0, 2**63 - 1], [])]})

    def test_errors_over_grpc_name_the_input_and_refuse_an_id_that_is_not_utf_8(self):
        r = grpc_service_pb2.ModelInferRequest(model_name=MODEL)
        r.inputs.add(name="x", datatype="FLOAT", shape=[1, 1])
        r.raw_input_contents.append(b"\0" * 4)
        call = self.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer", bytes)
        for data, words in ((r.SerializeToString(), 'input "x": there is no datatype "FLOAT", only BOOL'),
                            (b"\x1a\x02a\xff" + r.SerializeToString(), "the request's id is not UTF-8")):
            with self.assertRaises(grpc.RpcError) as caught:
                call(data, timeout=WAIT)
            self.assertIn(words, caught.exception.details())

    def test_unknown_paths_name_those_that_there_are(self):
        for path, words in (("/v2/health", "there are /v2/health/live and /v2/health/ready"),
                            ("/v2/models", "there are /v2/models/MODEL and /v2/models/stats"),
                            ("/v2/models/m/predict", "behind it /infer, /ready, /config and /stats"),
                            ("/v2/repository", "/v2/repository/index"), ("/v2/x", "see the Open Inference Protocol")):
            status, answer = self.get(path)
            self.assertEqual(status, 404)
            self.assertIn(words, answer["error"])


if __name__ == "__main__":
    test_oip.unittest.main()
