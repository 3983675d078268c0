"""Tests SIGTERM while clients of both transports keep sending. Requests that were sent before the signal get responses,
later requests get responses or are refused so that a client can try again, and the process ends with status 0."""
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.request

import grpc
import http2
import small_models
from support import MODELS, SLOW, Case, Server, binary, free_ports, in_some_attempt, wait_for
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

ROWS = 8000  # number of images per request, large enough that a request takes some time
WAIT = 60 * SLOW
# A request may not have reached the server if it was sent shortly before the order to stop, that is, within JUST_SENT_S
# seconds or JUST_SENT_TRIPS round trips, whichever is longer. The duration of a round trip is measured with small
# requests, so it includes the delays of busy clients.
JUST_SENT_S = 0.4 * SLOW
JUST_SENT_TRIPS = 3
# The number of requests that must have reached the server before the order to stop, so that the test is meaningful on a
# machine of any speed.
ENOUGH = 20


class Load:
    """Threads that send requests until they are stopped. For each request, `asked` contains the time when it was sent,
    the method that sent it, and the outcome ("OK" for a correct response)."""

    def just_sent_s(self):
        """Returns the longest time that a request is assumed to take to reach the server."""
        return max(JUST_SENT_S, JUST_SENT_TRIPS * self.slowest_small_s)

    def come_by_now(self):
        """Returns the requests that were sent early enough to have reached the server by now."""
        now = time.monotonic()
        return [a for a in self.asked if a[0] < now - self.just_sent_s()]

    def every_kind_answered(self):
        return {name for _, name, outcome in self.asked if outcome == "OK"} == {
            "rest_small", "rest_large", "grpc_small", "grpc_large"}

    def __init__(self, server, threads=3):
        self.server, self.over, self.asked = server, threading.Event(), []
        self.slowest_small_s = 0
        self.pictures = [[[[0.25]] * 8] * 8] * ROWS
        asks = [self.rest_small, self.rest_large, self.grpc_small, self.grpc_large] * threads
        self.threads = [threading.Thread(target=self.run, args=(ask,)) for ask in asks]
        for t in self.threads:
            t.start()

    def run(self, ask):
        state = {}
        while not self.over.is_set():
            state["sent"] = time.monotonic()
            outcome = ask(state)
            self.asked.append((state["sent"], ask.__name__, outcome))
            if ask.__name__.endswith("_small") and outcome == "OK":
                self.slowest_small_s = max(self.slowest_small_s, time.monotonic() - state["sent"])
            if outcome != "OK":
                time.sleep(0.01)

    def rest(self, state, path, body, check):
        connection = state.setdefault("connection", http.client.HTTPConnection(
            "127.0.0.1", self.server.rest_port, timeout=WAIT))
        try:
            try:
                connection.request("POST", f"/v1/models/{path}:predict", body)
            finally:
                state["sent"] = time.monotonic()
            answer = connection.getresponse()
            text = answer.read()
            right = answer.status == 200 and check(json.loads(text)["predictions"])
            return "OK" if right else f"{answer.status} {text[:200]!r}"
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return type(error).__name__

    def rest_small(self, state):
        return self.rest(state, "half_plus_two", '{"instances": [1.0, 2.0]}', [2.5, 3.0].__eq__)

    def rest_large(self, state):
        body = state.setdefault("body", json.dumps({"instances": self.pictures}))
        return self.rest(state, "digits", body, lambda rows: len(rows) == ROWS)

    def predict(self, state, model, alias, dims, content, check):
        if "stub" not in state:
            request = predict_pb2.PredictRequest()
            request.model_spec.name = model
            tensor = request.inputs[alias]
            tensor.dtype, tensor.tensor_content = 1, content
            for size in dims:
                tensor.tensor_shape.dim.add(size=size)
            channel = grpc.insecure_channel(f"127.0.0.1:{self.server.grpc_port}",
                                            [("grpc.use_local_subchannel_pool", 1)])
            state.update(channel=channel, request=request,
                         stub=prediction_service_pb2_grpc.PredictionServiceStub(channel))
        try:
            answer = state["stub"].Predict(state["request"], timeout=WAIT)
            return "OK" if check(answer.outputs) else str(answer)
        except grpc.RpcError as error:
            return error.code().name

    def grpc_small(self, state):
        return self.predict(state, "half_plus_two", "x", (1,), b"\0\0\x80\x3f",
                            lambda outputs: list(outputs["y"].float_val) == [2.5])

    def grpc_large(self, state):
        return self.predict(state, "digits", "pixels", (ROWS, 8, 8, 1), b"\0\0\x80\x3e" * 64 * ROWS,
                            lambda outputs: len(outputs["output_0"].float_val) == 10 * ROWS)

    def stop(self):
        self.over.set()
        for t in self.threads:
            t.join(3 * WAIT)


# Outcomes that a client may see from a server that is stopping. The client may then send the request to another server.
# gRPC core reports CANCELLED for a call that crosses the server's own GOAWAY.
GOING = {"ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError", "RemoteDisconnected",
         "UNAVAILABLE", "CANCELLED"}


class Drain(Case):
    def end_under_load(self, *flags):
        """Stops the server under load. Returns the time when the server was told to stop, the result of
        just_sent_s() at that time, and the list of all requests."""
        # Requests may take as long as a busy machine needs.
        with Server(f"--models={MODELS}", "--rest_api_timeout_in_ms=600000", "--drain_timeout=600",
                    *flags) as server:
            load = Load(server)
            try:
                wait_for(lambda: load.every_kind_answered() and len(load.come_by_now()) > ENOUGH,
                         "requests of every kind, most of which came a while ago")
                just_sent = load.just_sent_s()
                told = time.monotonic()
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(server.process.wait(WAIT), 0, server.log())
                time.sleep(0.1)
            finally:
                load.stop()
            self.assertNotIn("Sanitizer", server.log())
            return told, just_sent, load.asked

    def test_nothing_that_was_asked_before_fails(self):
        told, just_sent, asked = self.end_under_load()
        before = [a for a in asked if a[0] < told - just_sent]
        self.assertEqual([a for a in before if a[2] != "OK"], [])
        self.assertGreater(len(before), 0)
        after = {outcome.split(" ")[0] for start, _, outcome in asked if start >= told - just_sent}
        self.assertEqual(after - GOING - {"OK", "503"}, set())

    def test_with_a_delay_nothing_fails_while_it_lasts(self):
        delay = 1.5 * SLOW
        told, just_sent, asked = self.end_under_load(f"--drain_delay_ms={int(1000 * delay)}")
        self.assertEqual([a for a in asked if a[0] < told + delay - just_sent and a[2] != "OK"], [])
        self.assertGreater(len([a for a in asked if told < a[0] and a[2] == "OK"]), 0)
        after = {outcome.split(" ")[0] for start, _, outcome in asked if start >= told + delay}
        self.assertEqual(after - GOING - {"OK", "503"}, set())


PREDICT = "/tensorflow.serving.PredictionService/Predict"


def half_plus_two(n):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "half_plus_two"
    tensor = request.inputs["x"]
    tensor.dtype, tensor.tensor_content = 1, b"\0\0\x80\x3f" * n
    tensor.tensor_shape.dim.add(size=n)
    return request.SerializeToString()


class Frozen(Case):
    """The server is suspended while requests arrive and the order to stop is sent. All requests that are in its sockets
    at that time count as sent before the order to stop, no matter how late the server reads them."""

    def serve(self):
        self.server = self.enterContext(Server(f"--models={MODELS}"))

    def connect(self):
        return self.enterContext(http2.Connection(self.server.grpc_port))

    def told_while_frozen(self, ask):
        os.kill(self.server.process.pid, signal.SIGSTOP)
        try:
            ask()
            self.server.process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
        finally:
            os.kill(self.server.process.pid, signal.SIGCONT)

    def test_more_calls_than_the_server_had_asked_for(self):
        self.serve()
        met, asked = self.connect(), []
        met.read(0.3)

        def ask():
            new = self.connect()  # The server has not yet accepted this new connection.
            asked.extend((c, c.ask(PREDICT, half_plus_two(1))) for c in (met, new)
                         for _ in range(60))

        self.told_while_frozen(ask)
        self.assertEqual([c.status(stream, WAIT) for c, stream in asked], [0] * 120)
        self.assertEqual(self.server.process.wait(WAIT), 0)

    def test_a_request_that_is_on_its_way(self):
        in_some_attempt(self.check_a_request_that_is_on_its_way)  # the server cuts off what comes too slowly

    def check_a_request_that_is_on_its_way(self):
        self.serve()
        c = self.enterContext(http2.Connection(self.server.grpc_port, window=8 << 20))
        c.read(0.3)
        whole = http2.message(half_plus_two(200000))
        streams = []
        c.send(c.frame(http2.WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 20)))
        self.told_while_frozen(lambda: streams.append(c.begin(PREDICT, whole[:20000])))
        # The body is sent slowly, so that the server has time to extend the flow-control window.
        for at in range(20000, len(whole), 20000):
            c.send(c.data_of(streams[0], whole[at:at + 20000], end=at + 20000 >= len(whole)))
            c.read(0.02)
        self.assertEqual(c.status(streams[0], WAIT), 0)
        self.assertEqual(self.server.process.wait(WAIT), 0)


class HalfSent(Case):
    """REST requests that have not arrived completely get 2 more seconds once the server drains."""

    def test_what_is_half_sent_does_not_hold_up_the_end(self):
        in_some_attempt(self.check_the_two_seconds)

    def check_the_two_seconds(self):
        whole = (b"POST /v1/models/half_plus_two:predict HTTP/1.1\r\nHost: test\r\n"
                 b"Content-Length: 20\r\n\r\n" + b'{"instances": [1.0]}')
        with Server(f"--models={MODELS}") as server:
            def send(data):
                s = self.enterContext(socket.create_connection(("127.0.0.1", server.rest_port)))
                s.settimeout(WAIT)
                s.sendall(data)
                return s

            late = [send(whole[:-n]) for n in (19, 1)]
            soon = send(whole[:-10])
            time.sleep(0.3 * SLOW)
            start = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: "draining" in server.log(), "the drain")
            time.sleep(0.5)
            soon.sendall(whole[-10:])
            self.assertTrue(soon.recv(1000).startswith(b"HTTP/1.1 200 "))
            for s in late:
                try:
                    self.assertEqual(s.recv(1000), b"")
                except ConnectionError:
                    pass
            self.assertGreater(time.monotonic() - start, 1.5)
            self.assertEqual(server.process.wait(WAIT), 0)
            self.assertLess(time.monotonic() - start, 10 * SLOW)  # --drain_timeout is 20 s
            self.assertIn("2 requests that did not arrive whole were cut off", server.log())


class WholeTime(Case):
    """A drain that reaches its time limit ends and abandons the remaining requests."""

    def test_who_never_ends_is_given_up_at_the_limit(self):
        limit = 3
        with Server(f"--models={MODELS}", f"--drain_timeout={limit}") as server, \
                http2.Connection(server.grpc_port, window=0) as c:
            # The client never reads the response to this request.
            c.ask(PREDICT, half_plus_two(1000))
            wait_for(lambda: c.read(0.1) and server.metric(
                'slipway_requests_in_flight{entrypoint="GRPC"}') == 1, "the call")
            start = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(WAIT), 0)
            self.assertGreater(time.monotonic() - start, limit - 0.1)
            self.assertLess(time.monotonic() - start, limit + 20 * SLOW)
            self.assertIn("1 requests were not answered in 3000 ms", server.log())

    def test_runs_that_never_end_are_cancelled_at_the_limit(self):
        small_models.write_counting(self.path("counting/1"))
        small_models.write_queue(self.path("queue/1"), 1)
        endless, waiting = {"inputs": 1e18}, {"inputs": 1.0, "signature_name": "take"}
        with Server(f"--models={self.folder}", "--drain_timeout=1") as server:
            answers = []
            asked = [threading.Thread(target=lambda m=model, b=body: answers.append(
                server.request(f"/v1/models/{m}:predict", json.dumps(b).encode())))
                for model, body in (("counting", endless), ("queue", waiting)) for _ in range(2)]
            for thread in asked:
                thread.start()
            wait_for(lambda: server.metric(
                'slipway_requests_in_flight{entrypoint="REST"}') == 1 + len(asked), "the requests")
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(WAIT), 0)
            for thread in asked:
                thread.join(WAIT)
            self.assertNotIn("something did not end in time", server.log())
            self.assertIn("4 requests were not answered in 1000 ms", server.log())
            self.assertEqual({(code, json.loads(body)["error"]) for code, body in answers},
                             {(503, "the server is stopping")})


class BlockedLog(Case):
    """Tests a server whose standard error is a pipe that nobody reads, as of a collector of logs that has stopped."""

    def test_it_serves_and_stops(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(writer, True)
        grpc_port, rest_port = free_ports(2)
        process = subprocess.Popen([binary(), "serve", f"--models={MODELS}", f"--port={grpc_port}", f"--rest_api_port={rest_port}",
                                    "--access_log"], stdout=subprocess.DEVNULL, stderr=writer)
        self.addCleanup(process.kill)
        os.close(writer)

        def is_ready():
            with urllib.request.urlopen(f"http://127.0.0.1:{rest_port}/readyz", timeout=WAIT) as answer:
                return answer.status == 200

        wait_for(is_ready, "the server")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(WAIT), 0)
