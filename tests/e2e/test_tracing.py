"""Tests tracing: the headers of W3C Trace Context over REST and gRPC, the spans that a collector receives, and collectors
that are slow, dead or wrong."""
import concurrent.futures
import http.client
import itertools
import json
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
import unittest

import collector
import grpc
from grpc_support import CODE, WAIT, GrpcCase
from inference import grpc_service_pb2, grpc_service_pb2_grpc
from opentelemetry import traces_pb2
from support import MODELS, SLOW, command, wait_for

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
HOSTILE = ("", "-", "00", PARENT[:-1], PARENT + "0", PARENT + "-more", PARENT.upper(), "ff" + PARENT[2:],
           f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE}-{SPAN}-0g", "00-" + "%n" * 26, "a" * 4000,
           PARENT.replace("-", "_"), "00-" + "'; drop" * 8)
PREDICT = "/v1/models/half_plus_two:predict"
REQUESTS = ((PREDICT, {"instances": [1.0]}),
            ("/v2/models/half_plus_two/infer",
             {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1.0]}]}))


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
        x = oip.inputs.add(name="x", datatype="FP32", shape=[1, 1])
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
        oip.inputs.add(name="x", datatype="FP32", shape=[1, 1]).contents.fp32_contents.append(1.0)
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


class Collector(collector.Collector):
    """A collector that decodes the requests it has received."""

    def messages(self):
        with self.lock:
            return [traces_pb2.ExportTraceServiceRequest.FromString(body) for _, _, body in self.requests]

    def spans(self):
        return [s for m in self.messages() for r in m.resource_spans for p in r.scope_spans for s in p.spans]


def attributes(message):
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in message.attributes}


class ExportCase(TracingCase):
    def collector(self, answer=None, tls=None):
        started = Collector(answer, tls)
        self.addCleanup(started.close)
        return started

    def traced(self, collector, *flags, **kw):
        return self.serve(f"--models={MODELS}", f"--otlp_endpoint={collector.url}", "--otlp_interval_seconds=0.05", *flags,
                          **kw)

    def request(self, collector, trace=TRACE, n=1):
        """Waits for the spans of n requests of a trace. Returns a list of pairs: the span of the request, and the spans
        of its phases by name."""
        def found():
            spans = [s for s in collector.spans() if s.trace_id.hex() == trace]
            roots = [s for s in spans if s.kind == 2]
            return len(roots) >= n and [
                (r, {s.name: s for s in spans if s.parent_span_id == r.span_id}) for r in roots]
        return wait_for(found, "the spans of a request")

    def ok(self, server, n=1, headers=()):
        for _ in range(n):
            self.assertEqual(self.ask(server, *REQUESTS[0], headers)[0], 200)


class Export(ExportCase):
    def test_every_protocol_exports_its_phases(self):
        collector = self.collector()
        server = self.traced(collector)
        wanted = []
        for i, (path, body) in enumerate(REQUESTS):
            trace = f"{i + 1:032x}"
            self.ask(server, path + "?secret=1" * i, body, [("traceparent", PARENT.replace(TRACE, trace)), ("tracestate", "a=1")])
            wanted.append((trace, {"http.request.method": "POST", "url.path": path, "http.response.status_code": 200}))
        for i, infer in enumerate(self.infer(server)):
            trace = f"{i + 11:032x}"
            infer((("traceparent", PARENT.replace(TRACE, trace)), ("tracestate", "a=1")))
            wanted.append((trace, {"rpc.system": "grpc", "rpc.grpc.status_code": 0}))
        for trace, own in wanted:
            with self.subTest(own=own):
                (root, phases), = self.request(collector, trace)
                self.assertEqual((root.parent_span_id.hex(), root.trace_state, root.status.code), (SPAN, "a=1", 0))
                self.assertIn(root.name, ("predict", "infer"))
                model = {"slipway.model": "half_plus_two", "slipway.version": 2, "slipway.signature": "serving_default"}
                self.assertEqual({**attributes(root), **model, **own}, attributes(root))
                self.assertNotIn("secret", str(root))
                self.assertEqual(set(phases), {"receive", "decode", "queue", "run", "encode", "batch"})
                batch = phases.pop("batch")
                for s in phases.values():
                    self.assertTrue(root.start_time_unix_nano <= s.start_time_unix_nano <= s.end_time_unix_nano
                                    <= root.end_time_unix_nano, s)
                self.assertLess(abs(root.end_time_unix_nano / 1e9 - time.time()), 3600)
                for s in (phases["run"], batch):
                    self.assertEqual(attributes(s), {**model, "slipway.batch.rows": 1, "slipway.batch.requests": 1,
                                                     "slipway.device": "cpu"})
                self.assertEqual([x.span_id for x in phases["run"].links], [batch.span_id])
                self.assertEqual([(x.trace_id, x.span_id) for x in batch.links], [(root.trace_id, root.span_id)])
        ids = [s.span_id for s in collector.spans()]
        self.assertEqual(len(set(ids)), len(ids))

    def test_calls_of_many_sizes(self):
        """The message of a call contains its model's name, and is freed before the call is exported."""
        collector = self.collector()
        server = self.traced(collector)
        client = self.client(server)
        for n in range(60):
            client.prediction.Predict(client.predict_request((1.0,) * (50 * n)), metadata=(("traceparent", PARENT),), timeout=WAIT)
        roots = self.request(collector, n=60)
        self.assertEqual({attributes(root)["slipway.model"] for root, _ in roots}, {"half_plus_two"})

    def test_a_batch_is_linked_to_its_members(self):
        collector = self.collector()
        parameters = self.write("batching", "max_batch_size { value: 4 } batch_timeout_micros { value: 600000000 }"
                                            "num_batch_threads { value: 1 } max_enqueued_batches { value: 9 }")
        server = self.traced(collector, "--enable_batching", f"--batching_parameters_file={parameters}")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            traces = [f"{i + 1:032x}" for i in range(4)]
            got = pool.map(lambda t: self.ask(server, *REQUESTS[0], [("traceparent", PARENT.replace(TRACE, t))])[0], traces)
            self.assertEqual(list(got), [200] * 4)
        members = {r.span_id: p for t in traces for r, p in self.request(collector, t)}
        batch, = [s for s in collector.spans() if s.name == "batch" and len(s.links) == 4]
        self.assertEqual({x.span_id for x in batch.links}, set(members))
        self.assertEqual({x.trace_id.hex() for x in batch.links}, set(traces))
        self.assertIn(batch.parent_span_id, members)
        for phases in members.values():
            self.assertEqual([(x.trace_id, x.span_id) for x in phases["run"].links], [(batch.trace_id, batch.span_id)])
            self.assertEqual(attributes(phases["run"])["slipway.batch.requests"], 4)

    def test_a_body_that_a_worker_decodes(self):
        collector = self.collector()
        server = self.traced(collector)
        status, _ = self.ask(server, PREDICT, {"instances": [1.0] * 20000}, [("traceparent", PARENT)])
        self.assertEqual(status, 200)
        (_, phases), = self.request(collector)
        self.assertEqual(set(phases), {"receive", "decode", "queue", "run", "encode", "batch"})
        order = [phases[n] for n in ("receive", "decode", "queue", "run", "encode")]
        for a, b in zip(order, order[1:]):
            self.assertLessEqual(a.end_time_unix_nano, b.start_time_unix_nano)
        self.assertEqual(attributes(phases["run"])["slipway.batch.rows"], 20000)

    def test_a_request_that_is_split(self):
        collector = self.collector()
        parameters = self.write("batching", "max_batch_size { value: 8 } max_execution_batch_size { value: 2 } "
                                            "enable_large_batch_splitting { value: true } batch_timeout_micros { value: 0 }")
        server = self.traced(collector, "--enable_batching", f"--batching_parameters_file={parameters}")
        status, _ = self.ask(server, PREDICT, {"instances": [1.0] * 6}, [("traceparent", PARENT)])
        self.assertEqual(status, 200)
        (root, phases), = self.request(collector)
        self.assertIn("run", phases)
        batches = [s for s in collector.spans() if s.name == "batch"]
        self.assertTrue(batches)
        for s in batches:
            self.assertEqual({x.span_id for x in s.links}, {root.span_id})

    def test_errors_are_exported(self):
        collector = self.collector()
        server = self.traced(collector)
        self.assertEqual(self.ask(server, PREDICT, {"instances": ["a"]}, [("traceparent", PARENT)])[0], 400)
        self.assertEqual(self.ask(server, "/v1/models/none:predict", {}, [("traceparent", PARENT)])[0], 404)
        self.assertEqual(self.ask(server, "/v1/models/%FF%00'x:predict", {}, [("traceparent", PARENT)])[0], 404)
        roots = [r for r, _ in self.request(collector, n=3)]
        self.assertEqual([attributes(r).get("error.type") for r in roots], ["INVALID_ARGUMENT", "NOT_FOUND", "NOT_FOUND"])
        self.assertEqual(attributes(roots[1])["slipway.model"], "none")
        self.assertEqual([r.status.code for r in roots], [0, 0, 0])

    def test_each_inference_of_a_stream_has_a_span(self):
        collector = self.collector()
        server = self.traced(collector)
        oip = grpc_service_pb2.ModelInferRequest(model_name="half_plus_two")
        oip.inputs.add(name="x", datatype="FP32", shape=[1, 1]).contents.fp32_contents.append(1.0)
        stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(self.client(server).channel)
        call = stub.ModelStreamInfer(iter([oip] * 3), timeout=WAIT, metadata=(("traceparent", PARENT), ("tracestate", "a=1")))
        self.assertEqual(len(list(call)), 3)
        got = self.request(collector, n=3)
        self.assertEqual(len({r.span_id for r, _ in got}), 3)
        for root, phases in got:
            self.assertEqual((root.parent_span_id.hex(), root.trace_state), (SPAN, "a=1"))
            # A batch is the child of its first member only.
            self.assertEqual(set(phases) | {"batch"}, {"receive", "decode", "queue", "run", "encode", "batch"})
            self.assertEqual(len(phases["run"].links), 1)
        self.assertTrue(any("batch" in phases for _, phases in got))
        first = min((root for root, _ in got), key=lambda root: root.start_time_unix_nano)
        self.assertEqual(dict(call.initial_metadata())["traceparent"], f"00-{TRACE}-{first.span_id.hex()}-01")

    def test_what_a_request_to_the_collector_contains(self):
        collector = self.collector()
        server = self.traced(collector, "--otlp_headers=api-key=a%20b, x=y", "--otlp_service_name=mine",
                             "--otlp_resource_attributes=deployment.environment=test%2C1,service.name=no,")
        _, headers = self.ask(server, *REQUESTS[0])
        self.request(collector, headers["traceparent"][3:35])
        path, headers, body = collector.requests[0]
        self.assertEqual((path, headers["Content-Type"], headers["api-key"], headers["x"]),
                         ("/v1/traces", "application/x-protobuf", "a b", "y"))
        resource = traces_pb2.ExportTraceServiceRequest.FromString(body).resource_spans[0].resource
        self.assertEqual({k: v for k, v in attributes(resource).items() if k != "service.version"},
                         {"service.name": "mine", "deployment.environment": "test,1"})

    def test_the_environment_sets_the_defaults(self):
        collector = self.collector()
        at = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url + "/base/", "OTEL_SERVICE_NAME": "env",
              "OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_EXPORTER_OTLP_HEADERS": "k=v", "OTEL_EXPORTER_OTLP_TIMEOUT": "x",
              "OTEL_TRACES_SAMPLER": "always_off", "OTEL_BSP_MAX_QUEUE_SIZE": "0"}
        server = self.serve(f"--models={MODELS}", "--trace_sampling_ratio=1", environment=at)
        _, headers = self.ask(server, *REQUESTS[0])
        self.request(collector, headers["traceparent"][3:35])
        path, headers, body = collector.requests[0]
        self.assertEqual((path, headers["k"]), ("/base/v1/traces", "v"))
        self.assertIn(b"env", body)
        for name in ("OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_BSP_MAX_QUEUE_SIZE"):
            self.assertIn(f"the environment variable {name} is ignored", server.log())
        server = self.serve(f"--models={MODELS}", environment={
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.url + "/own", "OTEL_BSP_SCHEDULE_DELAY": "50",
            "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"})
        self.assertNotIn("traceparent", self.ask(server, *REQUESTS[0])[1])
        self.ok(server, headers=[("traceparent", PARENT)])
        self.request(collector)
        self.assertEqual(collector.requests[-1][0], "/own")
        for off in ({"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}):
            server = self.serve(f"--models={MODELS}", environment={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **off})
            self.assertNotIn("traceparent", self.ask(server, *REQUESTS[0])[1])

    def test_parent_and_ratio_decide(self):
        collector = self.collector()
        off = PARENT[:-1] + "0"
        server = self.traced(collector, "--trace_sampling_ratio=0.25")
        self.ok(server, 400)
        self.ok(server, headers=[("traceparent", off)])
        self.ok(server, headers=[("traceparent", PARENT)])
        (root, _), = self.request(collector)
        self.assertEqual(root.parent_span_id.hex(), SPAN)
        own = [s for s in collector.spans() if s.kind == 2 and s.trace_id.hex() != TRACE]
        self.assertTrue(50 < len(own) < 150, len(own))
        self.assertEqual(len({s.trace_id for s in own}), len(own))
        server = self.traced(collector, "--trace_sampling_ratio=0.75", "--trace_sampling_by_parent=false")
        high, low = "0" * 16 + "f" * 16, "f" * 16 + "0" * 15 + "1"
        self.ok(server, headers=[("traceparent", PARENT.replace(TRACE, high))])
        self.ok(server, headers=[("traceparent", off.replace(TRACE, low))])
        self.request(collector, low)
        self.assertFalse([s for s in collector.spans() if s.trace_id.hex() == high])

    def test_urls_and_headers_that_are_refused(self):
        for flag in ("--otlp_endpoint=localhost:4318", "--otlp_endpoint=ftp://h", "--otlp_endpoint=http://",
                     "--otlp_endpoint=http://h:99999999", "--otlp_endpoint=http://h:x", "--otlp_endpoint=http://a@h",
                     "--otlp_endpoint=http://h/a b", "--otlp_endpoint=http://h:", "--otlp_endpoint=http://[::1",
                     "--otlp_headers=a=b%0D%0Ac: d", "--otlp_headers=a b=c", "--trace_sampling_ratio=1.5"):
            with self.subTest(flag=flag):
                flags = [flag] if "endpoint" in flag else [flag, "--otlp_endpoint=http://127.0.0.1:1"]
                status, out, _ = command("serve", "--port=0", "--rest_api_port=0", f"--models={MODELS}",
                                         "--grpc_socket_path=" + self.path("s"), *flags)
                self.assertEqual(status, 255)
                self.assertIn(flag.split("=")[0], out)

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
    def test_a_collector_with_tls_is_verified(self):
        own, other = self.certificate("own"), self.certificate("other")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own, self.path("own.key"))
        collector = self.collector(tls=context)
        for flags, at in ((["--otlp_certificate=" + own], {}), ([], {"OTEL_EXPORTER_OTLP_CERTIFICATE": own}),
                          (["--otlp_certificate=" + own], {"OTEL_EXPORTER_OTLP_CERTIFICATE": other})):
            collector.requests.clear()
            server = self.traced(collector, *flags, environment=at)
            _, headers = self.ask(server, *REQUESTS[0])
            self.request(collector, headers["traceparent"][3:35])
        server = self.traced(collector, "--otlp_certificate=" + other)
        self.ok(server, headers=[("traceparent", PARENT)])
        wait_for(lambda: "traces are not exported" in server.log(), "the failure in the log")
        self.assertIn("the server's certificate: ", server.log())
        for flag, words in (("--otlp_certificate=" + self.path("none"), "No such file"),
                            ("--otlp_certificate=" + self.path("own.key"), "certificates cannot be used")):
            status, out, _ = command("serve", "--port=0", "--rest_api_port=0", f"--models={MODELS}", flag,
                                     "--grpc_socket_path=" + self.path("s"), f"--otlp_endpoint={collector.url}")
            self.assertEqual(status, 255)
            self.assertIn("--otlp_certificate", out)
            self.assertIn(words, out)

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
    def test_a_collector_that_verifies_its_clients(self):
        own, client, other = self.certificate("own"), self.certificate("client"), self.certificate("other")
        key = self.path("client.key")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own, self.path("own.key"))
        context.load_verify_locations(client)
        context.verify_mode = ssl.CERT_REQUIRED
        collector = self.collector(tls=context)
        flags = ["--otlp_certificate=" + own]
        names = ("--otlp_client_certificate=" + client, "--otlp_client_key=" + key)
        of_all = {"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": client, "OTEL_EXPORTER_OTLP_CLIENT_KEY": key}
        of_traces = {"OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE": client, "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY": key}
        bad = {name: other for name in of_all}
        for more, at in ((names, {}), ((), of_all), (names, bad), ((), {**bad, **of_traces})):
            with self.subTest(flags=more, environment=at):
                collector.requests.clear()
                server = self.traced(collector, *flags, *more, environment=at)
                _, headers = self.ask(server, *REQUESTS[0])
                self.request(collector, headers["traceparent"][3:35])
        server = self.traced(collector, *flags)
        self.ok(server, headers=[("traceparent", PARENT)])
        wait_for(lambda: "traces are not exported" in server.log(), "the failure in the log")
        subprocess.run(["openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", self.path("locked.key")],
                       check=True, capture_output=True)
        cannot = "the client's certificate cannot be used"
        for cert, k, words in ((client, None, "need each other"), (None, key, "need each other"),
                               (self.path("none"), key, "--otlp_client_certificate: "), (client, self.path("none"), "--otlp_client_key: "),
                               (client, self.path("other.key"), cannot), (client, other, cannot), (key, key, cannot),
                               (client, self.path("locked.key"), cannot)):
            given = [f"--otlp_client_{flag}={value}" for flag, value in (("certificate", cert), ("key", k)) if value]
            with self.subTest(given):
                status, out, _ = command("serve", "--port=0", "--rest_api_port=0", f"--models={MODELS}", *flags, *given,
                                         "--grpc_socket_path=" + self.path("s"), f"--otlp_endpoint={collector.url}")
                self.assertEqual(status, 255)
                self.assertIn("--otlp_client_", out)
                self.assertIn(words, out)

    def certificate(self, name):
        """Makes a self-signed certificate for the loopback address. Returns its path; the key is beside it."""
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                        self.path(name + ".key"), "-out", self.path(name + ".crt")], check=True, capture_output=True)
        return self.path(name + ".crt")


class BadCollectors(ExportCase):
    def dropped(self, server, reason):
        return server.metric('slipway_trace_spans_dropped_total{reason="%s"}' % reason)

    def test_nobody_listens(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{s.getsockname()[1]}"
            server = self.serve(f"--models={MODELS}", f"--otlp_endpoint={url}", "--otlp_interval_seconds=0.05",
                                "--otlp_queue_length=8")
            wait_for(lambda: self.ok(server, 10) or self.dropped(server, "queue_full") > 0, "dropped spans")
            wait_for(lambda: "traces are not exported to" in server.log(), "the warning", 60)
            self.assertEqual(server.stop(20), 0)
        self.assertEqual(server.log().count("traces are not exported to"), 1)

    def test_a_collector_that_refuses_every_second_request(self):
        """The exports begin and cease to fail with each request. At most 20 log lines per second say so."""
        numbers = itertools.count()
        collector = self.collector(lambda handler: handler.accept(status=(200, 400)[next(numbers) % 2]))
        began = time.monotonic()
        server = self.serve(f"--models={MODELS}", f"--otlp_endpoint={collector.url}", "--otlp_interval_seconds=0.001")
        while len(collector.requests) < 300:
            self.ok(server)
        self.assertEqual(server.stop(), 0)
        lines = re.findall("traces are (?:not )?exported to", server.log())
        self.assertGreater(len(lines), 0)
        self.assertLessEqual(len(lines), 20 * (time.monotonic() - began + 2))

    def test_a_collector_that_never_answers(self):
        release = threading.Event()
        self.addCleanup(release.set)
        collector = self.collector(lambda handler: release.wait(60))
        server = self.traced(collector, "--otlp_queue_length=4", f"--otlp_timeout_seconds={30 * SLOW:.0f}")
        self.ok(server)
        wait_for(lambda: collector.requests, "a request to the collector")
        wait_for(lambda: self.ok(server, 10) or self.dropped(server, "queue_full") > 0, "dropped spans")
        self.assertEqual(server.stop(20), 0)  # less than the time limit of the collector

    def test_a_slow_collector_is_cut_off_and_asked_again(self):
        n = []

        def slow(handler):
            n.append(1)
            if len(n) == 1:
                time.sleep(2)
            handler.accept()
        collector = self.collector(slow)
        server = self.traced(collector, "--otlp_timeout_seconds=0.3")
        wait_for(lambda: self.ok(server) or server.metric("slipway_trace_spans_exported_total") > 0, "exported spans", 60)
        self.assertGreaterEqual(len(n), 2)

    def test_answers_that_are_not_otlp(self):
        for raw in (b"\x00\xff" * 1000, b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 2000, b"HTTP/1.1 100 Continue\r\n\r\n" * 5000,
                    b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n" + b"x" * 200000, b"HTTP/1.1 999 X\r\n\r\n",
                    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b""):
            with self.subTest(raw=raw[:60]):
                def answer(handler, raw=raw):
                    handler.wfile.write(raw)
                    handler.close_connection = True
                collector = self.collector(answer)
                server = self.traced(collector, "--otlp_timeout_seconds=0.5")
                self.ok(server)
                wait_for(lambda c=collector: c.requests, "a request to the collector")
                self.ok(server, 5)
                self.assertEqual(server.metric("slipway_trace_spans_exported_total"), 0)
                self.assertEqual(server.stop(), 0)

    def test_a_body_that_is_garbage_is_no_error(self):
        for body, rejected in ((b"\xff" * 300, 0), (b"<html>", 0), (b"\x0a\x02\x08\x03", 3), (b"\x0a\x06\x08\xff\xff\xff\xff\x7f", 7),
                               (b"\x0a\x0b\x08" + b"\xff" * 9 + b"\x01", 0)):
            with self.subTest(body=body):
                collector = self.collector(lambda handler, body=body: handler.accept(body))
                server = self.traced(collector)
                self.ok(server)
                wait_for(lambda: server.metric("slipway_trace_spans_exported_total") + self.dropped(server, "rejected") == 7,
                         "all spans")
                self.assertEqual(self.dropped(server, "rejected"), rejected)

    def test_a_refusal_drops_and_an_overload_is_tried_again(self):
        collector = self.collector(lambda handler: handler.accept(status=400))
        server = self.traced(collector)
        self.ok(server)
        wait_for(lambda: self.dropped(server, "failed") == 7, "dropped spans")
        self.assertEqual(len(collector.spans()), 7)
        self.assertIn("it answers with HTTP status 400", server.log())
        again = len(collector.requests) + 2  # a busy machine may export the spans of a request in several parts
        collector.answer = lambda handler: handler.accept(status=503 if len(collector.requests) < again else 200)
        self.ok(server)
        wait_for(lambda: server.metric("slipway_trace_spans_exported_total") == 7, "exported spans")
        self.assertGreaterEqual(len(collector.requests), again)
        wait_for(lambda: "again" in server.log(), "the line")

    def test_queued_spans_are_sent_when_the_server_stops(self):
        collector = self.collector()
        server = self.serve(f"--models={MODELS}", f"--otlp_endpoint={collector.url}", "--otlp_interval_seconds=600")
        self.ok(server, 3)
        self.assertFalse(collector.requests)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(len([s for s in collector.spans() if s.kind == 2]), 3)


if __name__ == "__main__":
    unittest.main()
