"""Tests a model that takes image files over REST and gRPC. The responses are compared with TensorFlow's results, which
tests/goldens/images/make.py has recorded."""
import base64
import json
import pathlib
import random

import grpc
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from support import Case, Server

TESTS = pathlib.Path(__file__).resolve().parents[2]
FOLDER = TESTS / "goldens" / "images"
CORPUS = TESTS / "fuzz" / "corpus"
STRING = 7


def b64(data):
    return {"b64": base64.b64encode(data).decode()}


class Images(Case):
    def setUp(self):
        self.answers = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))
        self.server = self.enterContext(Server("--model_name=images", f"--model_base_path={FOLDER}/model"))
        self.stub = prediction_service_pb2_grpc.PredictionServiceStub(
            self.enterContext(grpc.insecure_channel(f"127.0.0.1:{self.server.grpc_port}")))

    def post(self, body):
        return self.server.post("/v1/models/images:predict", body)

    def call(self, signature, shape, strings):
        request = predict_pb2.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = "images", signature
        tensor = request.inputs["image_bytes"]
        tensor.dtype = STRING
        for size in shape:
            tensor.tensor_shape.dim.add(size=size)
        tensor.tensor_shape.SetInParent()
        tensor.string_val.extend(strings)
        return self.stub.Predict(request, timeout=60).outputs

    def check_scores(self, names, over_grpc):
        files = [(CORPUS / "jpeg" / n).read_bytes() for n in names]
        if over_grpc:
            flat = list(self.call("serving_default", [len(files)], files)["scores"].float_val)
            rows = [flat[4 * i:4 * i + 4] for i in range(len(files))]
        else:
            status, body = self.post({"instances": [{"image_bytes": b64(f)} for f in files]})
            self.assertEqual(status, 200, body)
            rows = json.loads(body)["predictions"]
        for name, row in zip(names, rows, strict=True):
            for got, want in zip(row, self.answers["scores"][name], strict=True):
                self.assertAlmostEqual(got, want, delta=2e-6, msg=name)

    def check_thumbnail(self, name, over_grpc):
        data = (CORPUS / name).read_bytes()
        if over_grpc:
            png = self.call("thumbnail", [], [data])["png_bytes"].string_val[0]
        else:
            status, body = self.post({"signature_name": "thumbnail", "inputs": {"image_bytes": b64(data)}})
            self.assertEqual(status, 200, body)
            png = base64.b64decode(json.loads(body)["outputs"]["b64"])
        self.assertEqual(base64.b64encode(png).decode(), self.answers["thumbnails"][name], name)

    def test_image_files_give_tensorflows_answers_over_both_apis(self):
        rng = random.Random(3)
        names = list(self.answers["scores"])
        thumbnails = list(self.answers["thumbnails"])
        for turn in range(2):
            for over_grpc in (False, True):
                self.check_scores(names, over_grpc)
                for name in thumbnails:
                    self.check_thumbnail(name, over_grpc)
                    self.check_scores(rng.sample(names, 1 + turn), over_grpc)

    def test_damaged_files_are_refused_with_tensorflows_words(self):
        whole = (CORPUS / "jpeg" / "rgb420_37x29.jpg").read_bytes()
        for data, words in ((whole[:-200], "jpeg::Uncompress failed. Invalid JPEG data or crop window."),
                            (b"", "Input is empty."), (b"no image", "Unknown image file format.")):
            status, body = self.post({"instances": [{"image_bytes": b64(whole)}, {"image_bytes": b64(data)}]})
            self.assertEqual(status, 400, body)
            self.assertIn(words, json.loads(body)["error"])
            with self.assertRaises(grpc.RpcError) as caught:
                self.call("serving_default", [1], [data])
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn(words, caught.exception.details())
        self.check_scores(["rgb420_37x29.jpg"], over_grpc=False)
