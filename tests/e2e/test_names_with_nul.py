"""Tests requests whose names contain a NUL. Responses contain the complete names, and no name is mistaken for the part
before its NUL."""
import json
import os
import unittest

import grpc
import small_models
from support import Case, Server
from tensorflow_serving.apis import (classification_pb2, get_model_metadata_pb2,
                                     get_model_status_pb2, inference_pb2, model_service_pb2_grpc,
                                     predict_pb2, prediction_service_pb2_grpc, session_service_pb2,
                                     session_service_pb2_grpc)

CODE = grpc.StatusCode


class NamesWithNul(Case):
    def setUp(self):
        super().setUp()
        self.put("m/half/1", "half_plus_two/1")
        self.server = Server(f"--models={self.path('m')}")
        self.addCleanup(self.server.stop)
        channel = grpc.insecure_channel(f"127.0.0.1:{self.server.grpc_port}")
        self.addCleanup(channel.close)
        self.predict = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self.status = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus

    def refused(self, call, request, code, text):
        with self.assertRaises(grpc.RpcError) as caught:
            call(request, timeout=30)
        self.assertEqual((caught.exception.code(), caught.exception.details()), (code, text))

    def request(self, **fields):
        r = predict_pb2.PredictRequest()
        r.model_spec.name = fields.get("name", "half")
        r.model_spec.signature_name = fields.get("signature", "")
        if "label" in fields:
            r.model_spec.version_label = fields["label"]
        if "version" in fields:
            r.model_spec.version.value = fields["version"]
        for alias in fields.get("inputs", ["x"]):
            r.inputs[alias].dtype = 1
            r.inputs[alias].tensor_shape.dim.add(size=1)
            r.inputs[alias].float_val.append(2)
        r.output_filter.extend(fields.get("filter", []))
        return r

    def test_by_grpc_predict(self):
        for code, text, fields in (
                (CODE.NOT_FOUND, "Servable not found for request: Latest(half\0a)",
                 {"name": "half\0a"}),
                (CODE.NOT_FOUND, "Servable not found for request: Latest(\0)", {"name": "\0"}),
                (CODE.NOT_FOUND, "Servable not found for request: Specific(half\0\0, 7)",
                 {"name": "half\0\0", "version": 7}),
                (CODE.INVALID_ARGUMENT, "Unrecognized servable version label: a\0b",
                 {"label": "a\0b"}),
                (CODE.FAILED_PRECONDITION, 'Serving signature key "serving_default\0z" not found.',
                 {"signature": "serving_default\0z"}),
                (CODE.INVALID_ARGUMENT,
                 "input size does not match signature: 2!=1 len({x\0y,x}) != len({x}). Sent extra: "
                 "{x\0y}. Missing but required: {}.", {"inputs": ["x\0y", "x"]}),
                (CODE.INVALID_ARGUMENT,
                 "output tensor alias not found in signature: y\0z Outputs expected to be in the set "
                 "{y}.", {"filter": ["y\0z"]})):
            with self.subTest(text):
                r = self.request(**fields)
                # A protobuf map has no order, so the message may name the inputs in either order.
                if len(r.inputs) == 2:
                    with self.assertRaises(grpc.RpcError) as caught:
                        self.predict.Predict(r, timeout=30)
                    self.assertIn(caught.exception.details(),
                                  (text, text.replace("x\0y,x}", "x,x\0y}")))
                    continue
                self.refused(self.predict.Predict, r, code, text)

    def test_a_long_text_is_cut_where_its_own_bytes_end(self):
        name = "a\0" * 1000
        text = f"Servable not found for request: Latest({name})"[:1024] + "...TRUNCATED"
        self.refused(self.predict.Predict, self.request(name=name), CODE.NOT_FOUND, text)

    def test_by_other_calls_of_grpc(self):
        r = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def\0"])
        r.model_spec.name = "half"
        self.refused(self.predict.GetModelMetadata, r, CODE.INVALID_ARGUMENT,
                     "Metadata field signature_def\0 is not supported")
        s = get_model_status_pb2.GetModelStatusRequest()
        s.model_spec.name = "half\0a"
        self.refused(self.status, s, CODE.NOT_FOUND,
                     "Could not find any versions of model half\0a")
        s.model_spec.version.value = 3
        self.refused(self.status, s, CODE.NOT_FOUND,
                     "Could not find version 3 of model half\0a")
        c = classification_pb2.ClassificationRequest()
        c.model_spec.name = "half"
        c.model_spec.signature_name = "a\0b"
        c.input.example_list.examples.add()
        self.refused(self.predict.Classify, c, CODE.INVALID_ARGUMENT,
                     "No signature was found with the name: a\0b")
        m = inference_pb2.MultiInferenceRequest()
        m.input.example_list.examples.add()
        t = m.tasks.add(method_name="tensorflow/serving/regress\0")
        t.model_spec.name = "half"
        t.model_spec.signature_name = "a\0b"
        self.refused(self.predict.MultiInference, m, CODE.INVALID_ARGUMENT,
                     "Requested signature not found in model graph: a\0b")
        t.model_spec.signature_name = "serving_default"
        self.refused(self.predict.MultiInference, m, CODE.UNIMPLEMENTED,
                     "Unsupported signature method_name: tensorflow/serving/regress\0")

    def test_by_rest(self):
        def error(status, text, path, body=None):
            code, answer = self.server.request(path, body)
            self.assertEqual((code, json.loads(answer)["error"]), (status, text))
            self.assertIn(b"\\u0000", answer)
            self.assertNotIn(b"\0", answer)

        one = {"instances": [1]}
        error(404, "Servable not found for request: Latest(half\0a)",
              "/v1/models/half%00a:predict", one)
        error(404, "Servable not found for request: Specific(half\0a, 5)",
              "/v1/models/half%00a/versions/5:predict", one)
        error(400, "Unrecognized servable version label: b\0",
              "/v1/models/half/labels/b%00:predict", one)
        error(404, "Could not find any versions of model half\0", "/v1/models/half%00")
        error(404, "Could not find version 2 of model half\0", "/v1/models/half%00/versions/2")
        error(404, "Servable not found for request: Latest(half\0)",
              "/v1/models/half%00/metadata")
        error(503, "model half\0 is not ready", "/readyz/half%00")
        error(400, 'Serving signature name: "serving_default\0z" not found in signature def',
              "/v1/models/half:predict", {"signature_name": "serving_default\0z", **one})
        error(400, "No signature was found with the name: a\0", "/v1/models/half:classify",
              {"signature_name": "a\0", "examples": [{"x": 1.0}]})

    def test_inputs_by_rest(self):
        for body, answer in (
                ({"inputs": {"x\0y": [1.0]}}, None),
                # An input whose name the signature lacks is ignored.
                ({"inputs": {"x": [2.0], "x\0": [1.0]}}, {"outputs": [4.0]}),
                ({"inputs": {"x\0": [1.0], "x": [2.0]}}, {"outputs": [4.0]}),
                ({"instances": [{"x\0y": 1.0}]}, None),
                ({"instances\0": [1.0]}, None)):
            with self.subTest(body):
                code, text = self.server.request("/v1/models/half:predict", body)
                self.assertEqual(code, 200 if answer else 400, text)
                if answer:
                    self.assertEqual(json.loads(text), answer)


def save_files(folder):
    """Writes a model whose signatures write and read checkpoints under names that the caller passes."""
    def build(g):
        g.placeholder("p", "string")
        g.placeholder("n", "string")
        g.placeholder("to", "string")
        g.placeholder("x", "float")
        g.const("whole", "string", [1], string_val=[b""])
        for name, op, inputs in (("save", "SaveV2", ("p", "n", "whole", "x")),
                                 ("restore", "RestoreV2", ("p", "n", "whole"))):
            g.node(name, op, *inputs).attr["dtypes"].list.type.append(1)
        g.node("restore_1", "Restore", "p", "n", dt="float")
        g.node("merge", "MergeV2Checkpoints", "p", "to").attr["delete_old_dirs"].b = False
        for name in ("save", "merge"):
            g.node(name + "d", "Identity", "p", "^" + name, T="string")

    p, n, to = ("p", "string"), ("n", "string"), ("to", "string")
    small_models.write(folder, {
        "save": ({"p": p, "n": n, "x": ("x", "float")}, {"y": ("saved", "string")}),
        "restore": ({"p": p, "n": n}, {"y": ("restore", "float")}),
        "restore_1": ({"p": p, "n": n}, {"y": ("restore_1", "float")}),
        "merge": ({"p": p, "to": to}, {"y": ("merged", "string")}),
    }, build)


class FilesWithNul(Case):
    def setUp(self):
        super().setUp()
        save_files(self.path("m", "1"))
        self.server = Server(f"--model_base_path={self.path('m')}", "--model_name=m",
                             "--enable_session_service")
        self.addCleanup(self.server.stop)

    def ask(self, signature, **inputs):
        status, body = self.server.post("/v1/models/m:predict",
                                        {"signature_name": signature, "inputs": inputs})
        answer = json.loads(body)
        return (status, answer.get("outputs", answer.get("error")))

    def refused(self, name, signature, **inputs):
        status, text = self.ask(signature, **inputs)
        self.assertEqual(status, 400, text)
        self.assertIn(f"Input {name} holds a NUL", text)

    def test_no_checkpoint_or_tensor_is_taken_for_another(self):
        a, b = self.path("a"), self.path("b")
        self.assertEqual(self.ask("save", p=a, n=["x"], x=[1.0])[0], 200)
        self.assertEqual(self.ask("save", p=b, n=["y"], x=[2.0])[0], 200)
        self.assertEqual(self.ask("restore", p=a, n=["x"]), (200, [1.0]))
        before = sorted(os.listdir(self.folder))
        self.refused("prefix", "save", p=a + "\0c", n=["x"], x=[3.0])
        self.refused("tensor_names", "save", p=a, n=["x\0y"], x=[3.0])
        self.refused("prefix", "restore", p=a + "\0c", n=["x"])
        self.refused("tensor_names", "restore", p=a, n=["x\0y"])
        self.refused("file_pattern", "restore_1", p=a + "\0c", n="x")
        self.refused("checkpoint_prefixes", "merge", p=[a + "\0c", b], to=self.path("c"))
        self.refused("destination_prefix", "merge", p=[a, b], to=self.path("c\0d"))
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        self.assertEqual(self.ask("restore", p=a, n=["x"]), (200, [1.0]))

    def test_no_tensor_of_a_session_is_taken_for_another(self):
        with grpc.insecure_channel(f"127.0.0.1:{self.server.grpc_port}") as channel:
            run = session_service_pb2_grpc.SessionServiceStub(channel).SessionRun
            for where in ("feed", "fetch", "target"):
                with self.subTest(where):
                    r = session_service_pb2.SessionRunRequest()
                    r.model_spec.name = "m"
                    f = r.feed.add(name="x\0y:0" if where == "feed" else "x:0")
                    f.tensor.CopyFrom(small_models.scalar(1))
                    r.fetch.append("x\0y:0" if where == "fetch" else "x:0")
                    if where == "target":
                        r.target.append("x\0y")
                    with self.assertRaises(grpc.RpcError) as caught:
                        run(r, timeout=30)
                    self.assertEqual(caught.exception.code(), CODE.INVALID_ARGUMENT)
                    self.assertIn("holds a NUL", caught.exception.details())


if __name__ == "__main__":
    unittest.main()
