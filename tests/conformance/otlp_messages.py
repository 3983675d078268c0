#!/usr/bin/env python3
"""Decodes exported traces with OpenTelemetry's own messages: otlp_messages.py [BUILD_DIR].

Needs opentelemetry-proto (PyPI)."""
import http.client
import json
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
os.environ["SLIPWAY"] = str(pathlib.Path(
    sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build" / "release").resolve() / "slipway")
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import collector  # noqa: E402
import support  # noqa: E402
from google.protobuf import unknown_fields  # noqa: E402
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2  # noqa: E402
from opentelemetry.proto.trace.v1 import trace_pb2  # noqa: E402

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ACCEPTED = trace_service_pb2.ExportTraceServiceResponse()
PARTLY = trace_service_pb2.ExportTraceServiceResponse(
    partial_success=trace_service_pb2.ExportTracePartialSuccess(rejected_spans=2, error_message="too many"))


def messages_in(message):
    """Yields a message and all messages in it."""
    yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for m in (value if field.is_repeated else [value]):
                yield from messages_in(m)


class OtlpMessages(unittest.TestCase):
    def export(self, response, bodies):
        """Sends the bodies as Predict requests to a server. Returns the exported messages and the metrics page."""
        collected = collector.Collector(lambda handler: handler.accept(response.SerializeToString()))
        self.addCleanup(collected.close)
        with support.Server(f"--models={support.MODELS}", f"--otlp_endpoint={collected.url}",
                            "--otlp_interval_seconds=0.05") as server:
            for body in bodies:
                c = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=60)
                c.request("POST", "/v1/models/half_plus_two:predict", json.dumps(body),
                          {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "a=1,b=2"})
                c.getresponse().read()
                c.close()
            support.wait_for(lambda: server.metric("slipway_trace_spans_exported_total") > 0, "exported spans")
            page = server.get("/monitoring/prometheus/metrics")[1].decode()
        return [trace_service_pb2.ExportTraceServiceRequest.FromString(b) for _, _, b in collected.requests], page

    def test_a_request_and_its_phases(self):
        messages, _ = self.export(ACCEPTED, [{"instances": [1.0]}])
        for message in messages:
            for m in messages_in(message):
                self.assertEqual(len(unknown_fields.UnknownFieldSet(m)), 0, m)
        resource = messages[0].resource_spans[0].resource
        self.assertEqual({a.key: a.value.string_value for a in resource.attributes}["service.name"], "slipway")
        scopes = [s for m in messages for r in m.resource_spans for s in r.scope_spans]
        self.assertEqual({s.scope.name for s in scopes}, {"slipway"})
        spans = {s.name: s for scope in scopes for s in scope.spans}
        self.assertEqual(set(spans), {"predict", "receive", "decode", "queue", "run", "encode", "batch"})
        root = spans["predict"]
        self.assertEqual((root.trace_id.hex(), root.parent_span_id.hex(), root.trace_state), (TRACE, SPAN, "a=1,b=2"))
        self.assertEqual(root.status.code, trace_pb2.Status.STATUS_CODE_UNSET)
        for name, s in spans.items():
            self.assertEqual(s.kind, trace_pb2.Span.SPAN_KIND_SERVER if s is root else trace_pb2.Span.SPAN_KIND_INTERNAL, name)
            self.assertEqual(s.parent_span_id, root.parent_span_id if s is root else root.span_id, name)
            self.assertLessEqual(s.start_time_unix_nano, s.end_time_unix_nano, name)
        self.assertEqual([x.span_id for x in spans["run"].links], [spans["batch"].span_id])
        run = {a.key: a.value.string_value or a.value.int_value for a in spans["run"].attributes}
        self.assertEqual(run, {"slipway.model": "half_plus_two", "slipway.version": 2, "slipway.signature": "serving_default",
                               "slipway.batch.rows": 1, "slipway.batch.requests": 1, "slipway.device": "cpu"})

    def test_a_response_that_rejects_spans(self):
        _, page = self.export(PARTLY, [{"instances": [1.0]}])
        self.assertIn('slipway_trace_spans_dropped_total{reason="rejected"} 2\n', page)


if __name__ == "__main__":
    unittest.main()
