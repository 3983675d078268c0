"""Tests which requests run first and which run at all: the parameter `priority` of the Open Inference Protocol orders the
queue of a version, and quotas limit clients by a header, a metadata key or a TLS certificate."""
import concurrent.futures
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import struct
import tempfile
import threading
import time
import unittest

import grpc
import small_models
import test_oip
from grpc_support import certificate
from inference import grpc_service_pb2, grpc_service_pb2_grpc
from support import MODELS, SLOW, Server, command, wait_for
from test_oip import WAIT, tensor

BODY = json.dumps({"inputs": [tensor("x", "FP32", [1, 1], [1])]}).encode()
PATHS = ("/v2/models/half_plus_two/infer", "/v1/models/half_plus_two:predict")
SLOW_RATE = "--quota_requests_per_second=0.01"  # one request, and the next one after 100 s
# A run that counts up to COUNT takes tens of milliseconds, because a spare worker would start a run of less than 20 ms beside
# the run that holds the worker. Sanitizers make each step some 100 times as long.
COUNT = 2e5 if SLOW == 1 else 3e3
ENDLESS = 1e18


class Quota(unittest.TestCase):
    def serve(self, *flags):
        self.server = Server(f"--models={MODELS}", *flags)
        self.addCleanup(self.server.stop)

    def ask(self, client=None, path=PATHS[0], body=BODY, context=None, headers=()):
        """Returns (status, seconds in Retry-After, body)."""
        kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
        c = kind("localhost", self.server.rest_port, timeout=WAIT, **({"context": context} if context else {}))
        try:
            c.request("POST", path, body, {**dict(headers), **({"X-Client": client} if client is not None else {})})
            answer = c.getresponse()
            return answer.status, answer.getheader("Retry-After"), answer.read()
        finally:
            c.close()

    def channel(self, credentials=None):
        target = f"localhost:{self.server.grpc_port}"
        channel = grpc.secure_channel(target, credentials) if credentials else grpc.insecure_channel(target)
        self.addCleanup(channel.close)
        return grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)

    def request(self, n=1):
        r = grpc_service_pb2.ModelInferRequest(model_name="half_plus_two")
        r.inputs.add(name="x", datatype="FP32", shape=[n, 1])
        r.raw_input_contents.append(struct.pack("<f", 1) * n)
        return r

    def refused(self, call, *args, **kw):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*args, timeout=WAIT, **kw)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("per_second); retry after", caught.exception.details())
        return int(dict(caught.exception.trailing_metadata())["retry-after"])

    def accesses(self, n):
        """Returns the client of each of n lines of the access log."""
        def lines():
            found = [x for x in self.server.log().splitlines() if " api=infer " in x]
            return found if len(found) >= n else None

        return [(re.search(r" client=(\S+)", x) or (None, None))[1] for x in wait_for(lines, "the access log")]

    def test_the_access_log_has_the_client(self):
        self.serve("--quota_client=x-client", SLOW_RATE, "--access_log")
        self.assertEqual(self.ask("a\xe9 b" + "c" * 100)[0], 200)
        self.assertEqual(self.ask()[0], 200)
        self.channel().ModelInfer(self.request(), timeout=WAIT, metadata=(("x-client", "g"),))
        self.assertEqual(self.accesses(3), ["a??b" + "c" * 60, None, "g"])

    def test_a_secret_is_in_no_message_and_no_log(self):
        self.serve("--quota_client=authorization", SLOW_RATE, "--access_log")
        answers = [self.ask(headers={"Authorization": f"Bearer hush-{i // 2}"}.items()) for i in range(4)]
        self.assertEqual([a[0] for a in answers], [200, 429, 200, 429])
        clients = self.accesses(4)
        self.assertEqual((clients[0], clients[2]), (clients[1], clients[3]))
        self.assertNotEqual(clients[0], clients[2])
        self.assertRegex(clients[0], "^#[0-9a-f]{8}$")
        self.assertIn(f'the client "{clients[0]}" has used up'.encode(), answers[1][2].replace(b'\\"', b'"'))
        self.assertNotIn("hush", self.server.log() + str(answers))

    def test_requests_by_a_header_and_a_metadata_key(self):
        self.serve("--quota_client=x-client", SLOW_RATE)
        predict = json.dumps({"instances": [1.0]}).encode()
        start = time.monotonic()
        self.assertEqual(self.ask("a")[0], 200)
        for path, body in zip(PATHS, (BODY, predict)):  # all protocols and transports share the quota
            status, retry, answer = self.ask("a", path, body)
            self.assertEqual(status, 429)
            self.assertIn('the client "a" has used up its quota (--quota_requests_per_second); ', json.loads(answer)["error"])
            self.assertTrue(99 - (time.monotonic() - start) <= int(retry) <= 100, retry)
        stub = self.channel()
        retry = self.refused(stub.ModelInfer, self.request(), metadata=(("x-client", "a"),))
        self.assertTrue(99 - (time.monotonic() - start) <= retry <= 100, retry)
        stub.ModelInfer(self.request(), timeout=WAIT, metadata=(("x-client", "b"),))
        self.assertEqual(self.ask("b")[0], 429)
        # Clients without the header share one quota.
        self.assertEqual([self.ask()[0], self.ask()[0], self.ask("")[0]], [200, 429, 429])
        # Only inferences count.
        self.assertEqual(self.server.get("/v2/models/half_plus_two")[0], 200)
        self.assertEqual(self.server.metric('slipway_events_total{event="quota_refused"}'), 6)

    def test_long_and_repeated_keys(self):
        self.serve("--quota_client=x-client", SLOW_RATE)
        prefix = "a" * 2000
        self.assertEqual([self.ask(prefix + end)[0] for end in ("b", "c", "b")], [200, 200, 429])
        stub = self.channel()
        for keys in (("d", "e"), ("d", "d")):
            with socket.create_connection(("127.0.0.1", self.server.rest_port), timeout=WAIT) as s:
                lines = "".join(f"X-Client: {k}\r\n" for k in keys)
                s.sendall(f"POST {PATHS[1]} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 19\r\n{lines}\r\n"
                          '{"instances":[1.0]}'.encode())
                answer = b"".join(iter(lambda s=s: s.recv(65536), b""))
            self.assertIn(b" 400 ", answer.split(b"\r\n")[0])
            self.assertIn(b"names the client for its quota (--quota_client), more than once", answer)
            with self.assertRaises(grpc.RpcError) as caught:
                stub.ModelInfer(self.request(), timeout=WAIT, metadata=[("x-client", k) for k in keys])
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("more than once", caught.exception.details())
        self.assertEqual(self.ask("d")[0], 200)

    def test_a_quota_refills(self):
        self.serve("--quota_client=x-client", "--quota_requests_per_second=0.3")
        wait_for(lambda: self.ask("a")[0] == 429, "a refusal")
        wait_for(lambda: self.ask("a")[0] == 200, "the next request that is admitted")

    def test_bytes(self):
        self.serve("--quota_client=x-client", "--quota_bytes_per_second=1000")
        large = json.dumps({"inputs": [tensor("x", "FP32", [50000, 1], [1] * 50000)]}).encode()
        self.assertEqual(self.ask("a", body=large)[0], 200)
        status, retry, answer = self.ask("a")
        self.assertEqual(status, 429)
        self.assertIn("has used up its quota (--quota_bytes_per_second); ", json.loads(answer)["error"])
        self.assertGreaterEqual(int(retry), 100)
        self.assertEqual(self.ask("b", body=iter([large[:70000], large[70000:]]))[0], 200)  # chunked
        self.assertEqual(self.ask("b")[0], 429)
        with socket.create_connection(("127.0.0.1", self.server.rest_port), WAIT) as s:
            s.sendall(f"POST {PATHS[0]} HTTP/1.1\r\nHost: x\r\nX-Client: d\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "11170\r\n".encode() + large[:70000])
            wait_for(lambda: self.server.metric("slipway_bytes_in_flight") > 0, "the body to arrive")
        wait_for(lambda: self.server.metric("slipway_bytes_in_flight") == 0, "the server to forget the body")
        self.assertEqual(self.ask("d")[0], 429)  # it did not end, but has arrived
        with socket.create_connection(("127.0.0.1", self.server.rest_port), WAIT) as s:
            s.sendall(f"POST {PATHS[0]} HTTP/1.1\r\nHost: x\r\nX-Client: f\r\nContent-Length: {9 * 10**18}\r\n\r\n".encode())
            self.assertIn(b" 413 ", s.recv(65536))
        self.assertEqual(self.ask("f")[0], 200)  # a body that was refused for its length costs nothing
        with socket.create_connection(("127.0.0.1", self.server.rest_port), WAIT) as s:
            s.sendall(f"POST {PATHS[0]} HTTP/1.1\r\nHost: x\r\nX-Client: e\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "11170\r\n".encode() + large[:70000] + b"\r\nno size\r\n")
            self.assertIn(b" 400 ", s.recv(100))
        self.assertEqual(self.ask("e")[0], 429)  # it is malformed after what has arrived
        stub = self.channel()
        stub.ModelInfer(self.request(50000), timeout=WAIT, metadata=(("x-client", "c"),))
        self.assertGreaterEqual(self.refused(stub.ModelInfer, self.request(), metadata=(("x-client", "c"),)), 100)

    def test_each_request_of_a_stream_counts(self):
        self.serve("--quota_client=x-client", "--quota_requests_per_second=3")
        got = list(self.channel().ModelStreamInfer(iter([self.request()] * 20), timeout=WAIT,
                                                   metadata=(("x-client", "a"),)))
        refused = [g.error_message for g in got if g.error_message]
        self.assertEqual(len(got), 20)
        self.assertTrue(0 < len(refused) <= 17)
        self.assertIn('the client "a" has used up its quota', refused[0])

    def test_many_clients_share_what_is_left(self):
        self.serve("--quota_client=x-client", SLOW_RATE, "--quota_max_clients=8")
        got = [self.ask(f"c{i}")[0] for i in range(30)]
        self.assertEqual(got, [200] * 9 + [429] * 21)
        self.assertEqual(self.ask("c0")[0], 429)

    def test_flags_that_do_not_fit(self):
        for flags, words in ((["--quota_client=x-client"], "--quota_client=x-client needs a limit: --quota_requests_per_second"),
                             ([SLOW_RATE], "--quota_requests_per_second needs --quota_client"),
                             (["--quota_bytes_per_second=5"], "--quota_bytes_per_second needs --quota_client"),
                             (["--quota_queue_share=0.5"], "--quota_queue_share needs --quota_client"),
                             (["--quota_client=x-client", "--quota_queue_share=1.5"], "--quota_queue_share takes a number from 0 to 1"),
                             (["--quota_client=X-Client", SLOW_RATE], "lower-case name of a header"),
                             (["--quota_client=a b", SLOW_RATE], "lower-case name of a header"),
                             (["--quota_client=tls", SLOW_RATE], "needs the certificates of clients"),
                             (["--quota_client=tls", SLOW_RATE, "--rest_tls_client_ca_file=x", "--rest_api_port=0"],
                              "needs the certificates of clients")):
            with self.subTest(flags):
                server = Server(f"--models={MODELS}", *flags, wait=False)
                self.assertNotEqual(server.process.wait(WAIT), 0)
                self.assertIn(words, server.out() + server.log())
                shutil.rmtree(server.folder, ignore_errors=True)

    def keys(self, *names):
        """Returns a folder with keys, and with certificates that the CA `ca` has signed."""
        keys = tempfile.mkdtemp(prefix="slipway-keys-")
        self.addCleanup(shutil.rmtree, keys, ignore_errors=True)
        certificate(keys, "ca")
        for name in names:
            certificate(keys, name, "ca")
        return keys

    @staticmethod
    def rest_tls(keys):
        """Returns the flags of a REST port that asks for certificates."""
        return [f"--rest_tls_{flag}_file={os.path.join(keys, name)}" for flag, name in (
            ("cert", "server.crt"), ("key", "server.key"), ("client_ca", "ca.crt"))]

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
    def test_certificates(self):
        one, two = 'one, "1"', "two"  # GnuTLS escapes commas and quotation marks, and gRPC does not
        keys = self.keys("server", one, two)
        pem = {}
        for name in ("ca.crt", "server.key", "server.crt", one + ".key", one + ".crt", two + ".key", two + ".crt"):
            with open(os.path.join(keys, name), "rb") as file:
                pem[name] = file.read()
        config = os.path.join(keys, "ssl")
        with open(config, "w", encoding="ascii") as file:
            file.write("".join(f"{field}: {json.dumps(pem[name].decode())}\n" for field, name in (
                ("server_key", "server.key"), ("server_cert", "server.crt"), ("custom_ca", "ca.crt"))) +
                       "client_verify: true\n")
        server_only = os.path.join(keys, "server_only")
        with open(config, encoding="ascii") as file, open(server_only, "w", encoding="ascii") as other:
            other.write(file.read().replace("client_verify: true", ""))
        code, _, err = command("check-config", f"--models={MODELS}", f"--ssl_config_file={server_only}",
                               "--quota_client=tls", SLOW_RATE)
        self.assertEqual((code, "needs the certificates of clients" in err), (1, True), err)
        self.server = Server(f"--models={MODELS}", f"--ssl_config_file={config}",
                             *self.rest_tls(keys), "--quota_client=tls", SLOW_RATE, wait=False)
        self.addCleanup(self.server.stop)
        stubs = {name: self.channel(grpc.ssl_channel_credentials(pem["ca.crt"], pem[name + ".key"], pem[name + ".crt"]))
                 for name in (one, two)}
        context = ssl.create_default_context(cafile=os.path.join(keys, "ca.crt"))
        context.load_cert_chain(os.path.join(keys, one + ".crt"), os.path.join(keys, one + ".key"))
        stubs[one].ModelInfer(self.request(), timeout=WAIT, wait_for_ready=True)
        self.assertEqual(self.ask(context=context, client="other")[0], 429)
        self.refused(stubs[one].ModelInfer, self.request())
        stubs[two].ModelInfer(self.request(), timeout=WAIT)
        self.refused(stubs[two].ModelInfer, self.request())

    def serve_with_queue(self):
        """Serves with a queue of 8 requests, of which a client may have 2. Requests wait until they are 4."""
        folder = tempfile.mkdtemp(prefix="slipway-batching-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        path = os.path.join(folder, "batching")
        with open(path, "w", encoding="ascii") as file:
            file.write("max_batch_size { value: 4 } batch_timeout_micros { value: 3600000000 } "
                       "max_enqueued_batches { value: 100 }")
        self.serve("--quota_client=x-client", "--quota_queue_share=0.25", "--max_queue_jobs=8", "--enable_batching=true",
                   f"--batching_parameters_file={path}")
        self.pool = concurrent.futures.ThreadPoolExecutor(8)
        self.addCleanup(self.pool.shutdown)

    def wait_for_queue(self, n):
        wait_for(lambda: self.server.metric("slipway_queue_requests") == n, f"{n} queued requests")

    def refused_for_share(self, call, *args, **kw):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*args, timeout=WAIT, **kw)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("fill its share of the queue of model half_plus_two version ", caught.exception.details())
        self.assertEqual(dict(caught.exception.trailing_metadata())["retry-after"], "1")

    def test_share_of_the_queue(self):
        self.serve_with_queue()
        stub, a = self.channel(), {"metadata": (("x-client", "a"),)}
        waiting = [self.pool.submit(self.ask, "a") for _ in range(2)]
        self.wait_for_queue(2)
        for path, body in zip(PATHS, (BODY, json.dumps({"instances": [[1.0]]}).encode())):
            status, retry, answer = self.ask("a", path, body)
            self.assertEqual((status, retry), (429, "1"))
            self.assertIn("(--quota_queue_share=0.25); retry after 1 s", json.loads(answer)["error"])
        self.refused_for_share(stub.ModelInfer, self.request(), **a)
        for answer in stub.ModelStreamInfer(iter([self.request()] * 2), timeout=WAIT, **a):
            self.assertIn("fill its share of the queue", answer.error_message)
        self.assertEqual(self.server.metric('slipway_events_total{event="quota_refused"}'), 5)
        waiting += [self.pool.submit(self.ask, "b") for _ in range(2)]
        self.assertEqual([w.result()[0] for w in waiting], [200] * 4)
        # A stream has a share too, and answers what it could queue when the batch is full.
        stream = stub.ModelStreamInfer(iter([self.request()] * 3), timeout=WAIT, **a)
        self.wait_for_queue(2)
        wait_for(lambda: self.server.metric('slipway_events_total{event="quota_refused"}') == 6, "the third to be refused")
        waiting = [self.pool.submit(self.ask, "b") for _ in range(2)]
        self.assertEqual([bool(answer.error_message) for answer in stream], [False, False, True])
        self.assertEqual([w.result()[0] for w in waiting], [200] * 2)

    def test_places_in_the_queue_come_back(self):
        self.serve_with_queue()
        stub, a = self.channel(), {"timeout": WAIT, "metadata": (("x-client", "a"),)}
        gone = [stub.ModelInfer.future(self.request(), **a) for _ in range(2)]
        self.wait_for_queue(2)
        for call in gone:
            call.cancel()
        waiting = [self.pool.submit(self.ask, "b") for _ in range(2)]  # their batch drops what was cancelled
        self.assertEqual([w.result()[0] for w in waiting], [200] * 2)
        late = self.request()
        late.parameters["timeout"].int64_param = 1000
        for call in [stub.ModelInfer.future(late, **a) for _ in range(2)]:
            self.assertIsNotNone(call.exception())
        self.wait_for_queue(0)
        waiting = [self.pool.submit(self.ask, client) for client in "aabb"]
        self.assertEqual([w.result()[0] for w in waiting], [200] * 4)
        self.assertEqual(self.server.metric('slipway_events_total{event="quota_refused"}'), 0)

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
    def test_metadata_is_no_certificate(self):
        keys = self.keys("server")
        self.server = Server(f"--models={MODELS}", "--quota_client=tls", SLOW_RATE, *self.rest_tls(keys), wait=False)
        self.addCleanup(self.server.stop)
        stub = self.channel()
        stub.ModelInfer(self.request(), timeout=WAIT, wait_for_ready=True, metadata=(("tls", "a"),))
        self.refused(stub.ModelInfer, self.request(), metadata=(("tls", "b"),))


class Priority(test_oip.Client):
    """The model `counting` has one instance, so that no spare worker runs a batch beside another one of it, however long a
    run lasts. The order in which its runs begin is then the order of its queue."""
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="slipway-oip-")
        for name in ("counting", "free", "other"):
            small_models.write_counting(os.path.join(cls.folder.name, name, "1", "model.savedmodel"))
        with open(os.path.join(cls.folder.name, "counting", "config.pbtxt"), "w", encoding="ascii") as file:
            file.write("instance_group { count: 1 kind: KIND_CPU }")
        cls.server = Server(f"--models={cls.folder.name}", "--num_workers=1", "--inline_max_us=0",
                            "--enable_model_warmup=false")
        cls.channel = grpc.insecure_channel(f"127.0.0.1:{cls.server.grpc_port}")
        cls.stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(cls.channel)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        code = cls.server.stop()
        cls.folder.cleanup()
        if code:
            raise AssertionError(f"the server ended with {code}: {cls.server.log()}")

    def by_grpc(self, x, priority=None, model="counting@timed", timeout=None):
        """Begins a request and returns its future."""
        request = grpc_service_pb2.ModelInferRequest(model_name=model)
        request.inputs.add(name="x", datatype="FP32", shape=[])
        request.raw_input_contents.append(struct.pack("<f", x))
        if priority is not None:
            request.parameters["priority"].int64_param = priority
        if timeout is not None:
            request.parameters["timeout"].int64_param = timeout
        call = self.stub.ModelInfer.future(request, timeout=WAIT)
        self.addCleanup(call.cancel)
        return call

    def by_rest(self, x, priority):
        """Returns the time at which the run began."""
        request = {"inputs": [tensor("x", "FP32", [], [x])], "outputs": [{"name": "y_began"}]}
        if priority is not None:
            request["parameters"] = {"priority": priority}
        status, answer, _ = self.infer("counting@timed", request)
        self.assertEqual(status, 200, answer)
        return answer["outputs"][0]["data"][0]

    @staticmethod
    def began(call):
        """Returns the time at which the run of a call by gRPC began."""
        return struct.unpack("<d", call.result(WAIT).raw_output_contents[1])[0]

    def jobs(self):
        return self.server.metric("slipway_jobs")

    def hold_the_worker(self, model="counting"):
        wait_for(lambda: self.jobs() == 0, "an idle server")
        call = self.by_grpc(ENDLESS, model=model)
        wait_for(lambda: self.jobs() == 1 and not self.server.metric("slipway_queue_requests"), "the run that holds the worker")
        return call

    def order_of(self, priorities, transport):
        """Queues requests with these priorities behind a run, ends the run, and returns the priorities in the order in
        which the runs began."""
        first, runs = self.hold_the_worker(), []
        with concurrent.futures.ThreadPoolExecutor(len(priorities)) as pool:
            for n, priority in enumerate(priorities):
                if transport == "gRPC":
                    runs.append(pool.submit(self.began, self.by_grpc(1, priority)))
                else:
                    runs.append(pool.submit(self.by_rest, 1, priority))
                wait_for(lambda n=n: self.jobs() == n + 2, "a request to be queued")
            first.cancel()
            return [p for _, _, p in sorted((run.result(), n, p) for n, (run, p) in enumerate(zip(runs, priorities)))]

    def test_priorities_order_a_queue(self):
        for transport in ("gRPC", "REST"):
            with self.subTest(transport):
                # 0 and no priority are the level 2, and requests of one level keep their order of arrival.
                self.assertEqual(self.order_of([9, 3, None, 2, 0, 1, 2**32 - 1, 2], transport),
                                 [1, None, 2, 0, 2, 3, 9, 2**32 - 1])

    def test_an_earlier_deadline_is_no_priority(self):
        first, calls = self.hold_the_worker(), []
        for priority, timeout in ((3, int(WAIT * 1e6)), (1, None)):
            calls.append(self.by_grpc(1, priority, timeout=timeout))
            wait_for(lambda: self.jobs() == 1 + len(calls), "a request to be queued")
        first.cancel()
        low, high = map(self.began, calls)
        self.assertLess(high, low)

    def test_models_are_not_ordered_by_priority(self):
        """A request of low priority for another model does not wait for requests of high priority for this one."""
        first = self.hold_the_worker("free")
        waiting = [self.by_grpc(COUNT, 1, "free@timed") for _ in range(3)]
        wait_for(lambda: self.jobs() == 4, "the requests of high priority")
        other = self.began(self.by_grpc(COUNT, 9, "other@timed"))
        self.assertFalse(first.done())
        first.cancel()
        self.assertLess(other, min(map(self.began, waiting)))
