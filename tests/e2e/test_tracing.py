"""Tests tracing: the headers of W3C Trace Context over REST and gRPC."""
import http.client
import json
import unittest

import grpc
from grpc_support import CODE, WAIT, GrpcCase
from inference import grpc_service_pb2, grpc_service_pb2_grpc
from support import MODELS, SLOW, wait_for

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
HOSTILE = ("", "-", "00", PARENT[:-1], PARENT + "0", PARENT + "-more", PARENT.upper(), "ff" + PARENT[2:],
           f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE}-{SPAN}-0g", "00-" + "%n" * 26, "a" * 4000,
           PARENT.replace("-", "_"), "00-" + "'; drop" * 8)
PREDICT = "/v1/models/half_plus_two:predict"
REQUESTS = ((PREDICT, {"instances": [1.0]}),
            ("/v2/models/half_plus_two/infer",
             {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}]}))


class TracingCase(GrpcCase):
    def ask(self, server, path, body=None, headers=()):
        """Sends a POST request with the given (name, value) pairs as headers. Returns (status, headers)."""
        c = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=60 * SLOW)
        data = json.dumps(body).encode()
        try:
            c.putrequest("POST", path)
            c.putheader("Content-Length", str(len(data)))
            for name, value in headers:
                c.putheader(name, value)
            c.endheaders(data)
            answer = c.getresponse()
            answer.read()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}
        finally:
            c.close()

    def infer(self, server):
        """Returns an inference over gRPC for each protocol, as functions that return the call of the inference."""
        channel = self.client(server).channel
        oip = grpc_service_pb2.ModelInferRequest(model_name="half_plus_two")
        x = oip.inputs.add(name="x", datatype="FP32", shape=[1])
        x.contents.fp32_contents.append(1.0)
        stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
        client = self.client(server)
        r = {"timeout": WAIT}

        def predict(metadata):
            request = client.predict_request((1.0,))
            return client.prediction.Predict.with_call(request, metadata=metadata, **r)[1]
        return (predict, lambda metadata: stub.ModelInfer.with_call(oip, metadata=metadata, **r)[1])

    def access(self, server, words):
        return wait_for(lambda: next((x for x in server.log().splitlines() if words in x and "access" in x), None),
                        words)


class Headers(TracingCase):
    def test_a_trace_is_logged_and_answered_by_every_protocol(self):
        server = self.serve(f"--models={MODELS}", "--access_log")
        for i, (path, body) in enumerate(REQUESTS):
            status, headers = self.ask(server, path, body, [("Traceparent", PARENT), ("X-Request-Id", f"r{i}")])
            self.assertEqual((status, headers.get("traceparent")), (200, PARENT))
            self.assertIn(f"trace={TRACE} ", self.access(server, f"id=r{i} "))
        for i, infer in enumerate(self.infer(server)):
            call = infer((("traceparent", PARENT), ("tracestate", "a=1"), ("x-request-id", f"g{i}")))
            self.assertEqual(dict(call.initial_metadata()).get("traceparent"), PARENT)
            self.assertIn(f"trace={TRACE} ", self.access(server, f"id=g{i} "))

    def test_a_refused_request_carries_its_trace(self):
        server = self.serve(f"--models={MODELS}", "--access_log", "--log_format=json")
        status, headers = self.ask(server, PREDICT, {"instances": ["a"]}, [("traceparent", PARENT)])
        self.assertEqual((status, headers.get("traceparent")), (400, PARENT))
        record = json.loads(self.access(server, TRACE))
        self.assertEqual((record["trace"], record["code"]), (TRACE, "INVALID_ARGUMENT"))
        client = self.client(server)
        with self.assertRaises(grpc.RpcError) as caught:
            client.predict(model="none", metadata=(("traceparent", PARENT),))
        self.assertEqual(caught.exception.code(), CODE.NOT_FOUND)
        self.assertEqual(dict(caught.exception.initial_metadata()).get("traceparent"), PARENT)

    def test_a_stream_answers_with_its_trace(self):
        server = self.serve(f"--models={MODELS}", "--access_log")
        oip = grpc_service_pb2.ModelInferRequest(model_name="half_plus_two")
        oip.inputs.add(name="x", datatype="FP32", shape=[1]).contents.fp32_contents.append(1.0)
        stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(self.client(server).channel)
        call = stub.ModelStreamInfer(iter([oip] * 3), timeout=WAIT, metadata=(("traceparent", PARENT), ("tracestate", "a=1")))
        self.assertEqual(len(list(call)), 3)
        self.assertEqual(dict(call.initial_metadata()).get("traceparent"), PARENT)

    def test_headers_that_are_not_valid_are_ignored(self):
        server = self.serve(f"--models={MODELS}", "--access_log")
        predict, _ = self.infer(server)
        for i, value in enumerate(HOSTILE):
            with self.subTest(value=value):
                for path, body in REQUESTS:
                    headers = [("traceparent", value), ("tracestate", value), ("X-Request-Id", f"r{i}")]
                    status, got = self.ask(server, path, body, headers)
                    self.assertEqual((status, got.get("traceparent")), (200, None))
                    self.assertNotIn("trace=", self.access(server, f"id=r{i} "))
                call = predict((("traceparent", value), ("tracestate", value), ("x-request-id", f"g{i}")))
                self.assertNotIn("traceparent", dict(call.initial_metadata()))
                self.assertNotIn("trace=", self.access(server, f"id=g{i} "))

    def test_several_parents_are_no_parent(self):
        server = self.serve(f"--models={MODELS}", "--access_log")
        predict, _ = self.infer(server)
        for n in (2, 3):
            status, headers = self.ask(server, *REQUESTS[0], [("traceparent", PARENT)] * n)
            self.assertEqual((status, headers.get("traceparent")), (200, None))
            call = predict((("traceparent", PARENT),) * n)
            self.assertNotIn("traceparent", dict(call.initial_metadata()))
        many = [("tracestate", "a=1"), ("tracestate", "b=2"), ("traceparent", PARENT)]
        self.assertEqual(self.ask(server, *REQUESTS[0], many)[1].get("traceparent"), PARENT)
        self.assertIn("traceparent", dict(predict(tuple(many)).initial_metadata()))


if __name__ == "__main__":
    unittest.main()
