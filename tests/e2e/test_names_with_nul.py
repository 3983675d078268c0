"""Names of clients that hold a NUL: answers show them whole, and no name is taken for its front."""
import json
import unittest

import grpc
from support import Case, Server
from tensorflow_serving.apis import (classification_pb2, get_model_metadata_pb2,
                                     get_model_status_pb2, inference_pb2, model_service_pb2_grpc,
                                     predict_pb2, prediction_service_pb2_grpc)

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
                if len(r.inputs) == 2:  # the order of a map is nobody's promise
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


if __name__ == "__main__":
    unittest.main()
