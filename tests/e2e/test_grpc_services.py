"""What the gRPC side serves beside inference: configuration, reflection, health, TLS, its limits
and its access log."""
import json
import os
import unittest

import grpc
from grpc.health.v1 import health_pb2, health_pb2_grpc
from support import MODELS, SLOW, Case, Server, wait_for
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (get_model_status_pb2, model_management_pb2,
                                     model_service_pb2_grpc, predict_pb2,
                                     prediction_service_pb2_grpc)

CODE = grpc.StatusCode
WAIT = 20 * SLOW
PREDICT = "/tensorflow.serving.PredictionService/Predict"


class Client:
    """Stubs on one channel."""

    def __init__(self, target, credentials=None, options=None):
        self.channel = grpc.secure_channel(target, credentials, options) if credentials \
            else grpc.insecure_channel(target, options)
        self.prediction = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.model = model_service_pb2_grpc.ModelServiceStub(self.channel)
        self.health = health_pb2_grpc.HealthStub(self.channel)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def predict(self, values=(2.0,), model="half_plus_two", **kw):
        r = predict_pb2.PredictRequest()
        r.model_spec.name = model
        t = r.inputs["x"]
        t.dtype = types_pb2.DT_FLOAT
        t.tensor_shape.dim.add(size=len(values))
        t.float_val.extend(values)
        kw.setdefault("timeout", WAIT)
        return list(self.prediction.Predict(r, **kw).outputs["y"].float_val)


class GrpcCase(Case):
    def serve(self, *flags, **kw):
        server = Server(*flags, **kw)
        self.addCleanup(self.end, server)
        return server

    def end(self, server):
        code = server.stop()
        self.assertNotIn("Sanitizer", server.log())
        self.assertEqual(code, 0)

    def client(self, server_or_target, *args, **kw):
        target = server_or_target if isinstance(server_or_target, str) \
            else f"127.0.0.1:{server_or_target.grpc_port}"
        client = Client(target, *args, **kw)
        self.addCleanup(client.channel.close)
        return client

    def fails(self, code, words, call, *args, **kw):
        kw.setdefault("timeout", WAIT)
        with self.assertRaises(grpc.RpcError) as caught:
            call(*args, **kw)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertIn(words, caught.exception.details())
        return caught.exception.details()


class AccessLog(GrpcCase):
    def record_of(self, server, words):
        return wait_for(lambda: next((x for x in server.log().splitlines()
                                      if words in x and "access" in x), None), 5, words)

    def test_calls_are_told_with_model_code_and_peer(self):
        server = self.serve(f"--models={MODELS}", "--access_log")
        client = self.client(server)
        client.predict(metadata=(("x-request-id", "find-me"),))
        line = self.record_of(server, "id=find-me")
        for word in ("entry=GRPC", "api=predict", "path=" + PREDICT, "code=OK", "peer=ipv4:127",
                     "model=half_plus_two", "version="):
            self.assertIn(word, line)
        self.fails(CODE.NOT_FOUND, "Servable", client.predict, model="no such\nmodel")
        line = self.record_of(server, "code=NOT_FOUND")
        self.assertIn("model=no?such?model", line)
        nonsense = client.channel.unary_unary("/a.B/C\x7f")
        self.fails(CODE.UNIMPLEMENTED, "/a.B/C", nonsense, b"")
        self.assertIn("code=UNIMPLEMENTED", self.record_of(server, "path=/a.B/C?"))

    def test_in_json_every_part_is_a_field(self):
        server = self.serve(f"--models={MODELS}", "--access_log", "--log_format=json")
        self.client(server).predict(metadata=(("x-request-id", 'find"\\me'),))
        record = json.loads(self.record_of(server, "find"))
        self.assertEqual(record["msg"], "access")
        self.assertEqual(record["id"], 'find"\\me')
        self.assertEqual(record["entry"], "GRPC")
        self.assertEqual(record["code"], "OK")
        self.assertEqual(record["model"], "half_plus_two")
        self.assertIsInstance(record["version"], int)
        self.assertGreater(record["bytes"], 0)
        self.assertGreaterEqual(record["us"], 0)
        server.get("/v1/models/nope?%22")
        record = json.loads(self.record_of(server, "nope"))
        self.assertEqual((record["entry"], record["method"], record["status"], record["code"]),
                         ("REST", "GET", 404, "NOT_FOUND"))


if __name__ == "__main__":
    unittest.main()
