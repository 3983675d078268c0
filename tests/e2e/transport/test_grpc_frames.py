"""Tests that gRPC clients that flood the server with frames or headers are cut off after using a bounded amount of
memory, while other clients get responses. Clients that send many legitimate requests are not cut off."""
import contextlib
import os
import re
import shutil
import socket
import struct
import subprocess
import threading
import time
import unittest

import grpc
import http2
import rekeying
import tls_records
from grpc_support import by_tls
from http2 import field, integer
from inference import grpc_service_pb2 as oip
from inference import grpc_service_pb2_grpc as oip_grpc
from support import MODELS, SLOW, Case, Server, wait_for
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
from test_grpc_stall import PREDICT, fill, half_plus_two, save

MEBI = 1 << 20
CONTINUATION, PRIORITY, UNKNOWN = 9, 2, 0x77
ONE = [("grpc.use_local_subchannel_pool", 1)]
MUCH = 64 * MEBI  # more bytes than any flood can send before it is cut off
BEGUN = b"".join(field(*f) for f in (
    (":method", "POST"), (":scheme", "http"), (":path", PREDICT), (":authority", "t"),
    ("content-type", "application/grpc"), ("te", "trailers")))


def streams(c, n):
    first, c.next_stream = c.next_stream, c.next_stream + 2 * n
    return range(first, c.next_stream, 2)


class Flood:
    """Each method implements one kind of flood and returns the next bytes to send, about 10 KiB or more."""

    def __init__(self, c):
        self.c, self.stream = c, 0

    def first(self, frame):
        """Returns `frame` for a new stream at the first call, and an empty string at later calls."""
        if self.stream:
            return b""
        self.stream, = streams(self.c, 1)
        return frame(self.stream)

    def block(self, fields):
        return self.first(lambda s: self.c.frame(http2.HEADERS, 0, s, BEGUN + fields))

    def continuations(self):
        """Returns the next CONTINUATION frames of a header whose value is 256 MiB long."""
        begun = self.block(b"\0\1a" + integer(1 << 28, 7))
        return begun + self.c.frame(CONTINUATION, 0, self.stream, b"y" * 16384)

    def empty_continuations(self):
        begun = self.block(b"")
        return begun + self.c.frame(CONTINUATION, 0, self.stream) * 2000

    def lengths_without_end(self):
        begun = self.block(b"\0\x7f")
        return begun + self.c.frame(CONTINUATION, 0, self.stream, b"\x80" * 100) * 100

    def lists(self):
        """Returns lists of headers, each of 100 KB."""
        stream, = streams(self.c, 1)
        return (self.c.frame(http2.HEADERS, 0, stream, BEGUN + b"\0\1a" + integer(6 << 14, 7)) +
                self.c.frame(CONTINUATION, 0, stream, b"y" * 16384) * 6 +
                self.c.frame(CONTINUATION, http2.END_HEADERS, stream))

    def settings(self):
        return self.c.frame(http2.SETTINGS, 0, 0) * 1000

    def acknowledgements(self):
        return self.c.frame(http2.SETTINGS, http2.ACK, 0) * 1000

    def pings(self):
        return self.c.frame(http2.PING, http2.ACK, 0, b"12345678") * 1000

    def priorities(self):
        return self.c.frame(PRIORITY, 0, 1, b"\0\0\0\0\1") * 1000

    def windows(self):
        return self.c.frame(http2.WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)) * 1000

    def unknown_frames(self):
        return self.c.frame(UNKNOWN, 0, 0) * 1000

    def empty_data(self):
        begun = self.first(lambda s: self.c.headers_of(PREDICT, s))
        return begun + self.c.frame(http2.DATA, 0, self.stream) * 1000

    def resets(self):
        return b"".join(self.c.headers_of(PREDICT, s) +
                        self.c.frame(http2.RST_STREAM, 0, s, struct.pack(">I", 8))
                        for s in streams(self.c, 100))


LISTS = ("continuations", "lengths_without_end", "lists")
# Under a sanitizer, cancelling a call takes so long that the budget regains the cost of the call in the meantime, so
# the flood "resets" is not cut off.
OTHERS = ("first", "block") + (("resets",) if SLOW > 1 else ())
KINDS = [name for name in vars(Flood) if name not in OTHERS and name[0] != "_"]


class Upload(http2.Paced):
    """A connection on which only the first half of each request is sent."""
    pings = 0  # number of answered pings

    def half(self, n):
        """Opens a stream and sends `n` bytes, the first half of a message. Returns the stream, or None if the stream
        was cut off."""
        stream = None
        try:
            self.read(0.01)
            stream = self.begin(PREDICT)
            self.put(stream, struct.pack(">BI", 0, 2 * n) + bytes(n), 60 * SLOW)
        except OSError:
            self.gone = True
        return None if self.gone or self.is_over(stream) else stream

    def is_kept(self):
        """Returns whether the connection is open after the server has read everything that was sent on it, which the
        answer to a PING shows."""
        try:
            self.send(self.frame(http2.PING, 0, 0, bytes(8)))
        except OSError:
            self.gone = True
        wait_for(lambda: not self.read(0.05) or self.pings, "the answer to a PING")
        return not self.gone

    def on_frame(self, kind, flags, stream, body):
        self.pings += kind == http2.PING and flags & http2.ACK
        super().on_frame(kind, flags, stream, body)


class Beside(contextlib.AbstractContextManager):
    """A steady client on another connection. It measures the most processor time that the server used during one of its
    calls, which shows how much work a call waited for, and does not depend on other programs."""

    def __init__(self, channel, server):
        self.server, self.most_work = server, 0
        self.stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self.request = predict_pb2.PredictRequest.FromString(half_plus_two())
        self.n, self.error = 0, None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.stub.Predict(self.request, timeout=60 * SLOW)

    def run(self):
        while not self.over.is_set() and not self.error:
            used = self.server.cpu_s()
            try:
                self.stub.Predict(self.request, timeout=60 * SLOW)
            except grpc.RpcError as error:
                self.error = error
            self.most_work = max(self.most_work, self.server.cpu_s() - used)
            self.n += 1
            time.sleep(0.002)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def memory(server, what="VmHWM"):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return int(re.search(what + r":\s+(\d+)", file.read())[1]) << 10


class Frames(Case):
    @staticmethod
    def serve(*flags):
        return Server(f"--models={MODELS}", "--num_grpc_threads=1", *flags)

    @staticmethod
    def cut(server):
        """Returns {kind: number of connections that were cut off}."""
        return {kind: n for kind in ("headers", "flood", "unsettled", "unfinished") if (n := int(server.metric(
            f'slipway_events_total{{event="grpc_{kind}_cut_off"}}')))}

    @staticmethod
    def settle(c):
        # On a busy machine, tens of thousands of calls that wait before this one take minutes.
        wait_for(lambda: c.read(0.1) and c.status(c.ask(PREDICT, half_plus_two()), 300 * SLOW) == 0,
                 "the first answer", 300)

    def flood(self, c, kind):
        """Sends a flood of the given kind until the connection is cut off. Returns the number of bytes sent, or None if
        the connection was not cut off."""
        flood, sent, end = Flood(c), 0, time.monotonic() + 30 * SLOW
        while sent < MUCH and time.monotonic() < end:
            data = getattr(flood, kind)()
            try:
                c.send(data)
                if not c.read(0.0001):
                    return sent
            except OSError:
                return sent
            sent += len(data)
        return None

    def floods_are_cut_off(self, context, channel_of, *flags):
        with self.serve(*flags) as server, channel_of(server) as channel:
            for kind in KINDS:
                with self.subTest(kind), http2.Connection(server.grpc_port, tls=context) as c, \
                        Beside(channel, server) as beside:
                    self.settle(c)
                    before, peak, start = self.cut(server), memory(server), time.monotonic()
                    sent = self.flood(c, kind)
                    if kind == "resets" and sent is None:
                        # On a busy machine, the calls may come so slowly that time refills the budget for them.
                        self.assertLess(c.next_stream / 2, 1250 * (time.monotonic() - start))
                        continue
                    what = "headers" if kind in LISTS else "flood"
                    self.assertIsNotNone(sent, (kind, beside.most_work, memory(server) - peak))
                    self.assertEqual(self.cut(server), before | {what: before.get(what, 0) + 1})
                    if SLOW == 1:  # a sanitizer retains freed memory, so memory use is checked only without a sanitizer
                        self.assertLess(memory(server), peak + 64 * MEBI)
                self.assertIsNone(beside.error)
                self.assertLess(beside.most_work, 2 * SLOW)
            self.assertIn("gRPC: cut off a connection that", server.log())
            self.assertEqual(server.stop(), 0)

    def test_floods_are_cut_off(self):
        self.floods_are_cut_off(None, lambda server: grpc.insecure_channel(
            f"127.0.0.1:{server.grpc_port}", ONE))

    @staticmethod
    def half_closed(port):
        """Returns the number of sockets with this local port that have sent their FIN and wait for the peer's FIN."""
        with open("/proc/net/tcp", encoding="ascii") as file:
            entries = [line.split() for line in file]
        return sum(e[1].endswith(f":{port:04X}") and e[3] in ("04", "05") for e in entries[1:])

    def test_connections_that_are_cut_off_leave_no_socket_behind(self):
        with self.serve() as server, http2.Connection(server.grpc_port) as c:
            self.settle(c)
            # The client sends little at a time, so that the server reads everything. If bytes were left unread, the
            # kernel would reset the connection.
            end = time.monotonic() + 30 * SLOW
            with contextlib.suppress(OSError):
                while c.read(0.01) and time.monotonic() < end:
                    c.send(c.frame(UNKNOWN, 0, 0) * 400)
            self.assertEqual(self.cut(server), {"flood": 1})
            # The client keeps its end open. A socket that waited for the client to close would remain for a minute.
            wait_for(lambda: self.half_closed(server.grpc_port) == 0, "the end of the socket", 20)

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
    def test_floods_by_tls_are_cut_off(self):
        self.floods_are_cut_off(*self.tls())

    def many_are_read_in_turn(self, context, channel_of, *flags):
        """Sends calls and cancels each immediately. Each connection has too few calls to be a flood, but all calls
        together take seconds. A client that sends few calls must not wait for them."""
        n, calls = (40, 1500) if SLOW == 1 else (20, 500)
        with self.serve(*flags) as server, channel_of(server) as channel, contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(http2.Connection(server.grpc_port, tls=context)) for _ in range(n)]
            for c in crowd:
                self.settle(c)
            with Beside(channel, server) as beside:
                start = server.cpu_s()
                for _ in range(0, calls, 100):
                    for c in crowd:
                        c.send(b"".join(c.headers_of(PREDICT, s) +
                                        c.frame(http2.RST_STREAM, 0, s, struct.pack(">I", 8)) for s in streams(c, 100)))
                # The response to a request shows that the server has read everything that the client sent before that
                # request.
                for c in crowd:
                    self.settle(c)
                whole = server.cpu_s() - start
            self.assertIsNone(beside.error)
            if SLOW == 1:  # a sanitizer slows the threads down unevenly, so only other builds check times
                self.assertLess(beside.most_work, max(whole / 3, 0.5))
            self.assertEqual(self.cut(server), {})

    def test_many_are_read_in_turn(self):
        self.many_are_read_in_turn(None, lambda server: grpc.insecure_channel(
            f"127.0.0.1:{server.grpc_port}", ONE))

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
    def test_many_by_tls_are_read_in_turn(self):
        self.many_are_read_in_turn(*self.tls())

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
    def test_many_handshakes_leave_time_for_open_connections(self):
        # Signing with this key takes about 3 ms.
        _, channel_of, flag = self.tls(bits=4096)
        hello, n = http2.client_hello(), 300
        with self.serve(flag) as server, channel_of(server) as channel, contextlib.ExitStack() as stack:
            clients = [stack.enter_context(socket.create_connection(("127.0.0.1", server.grpc_port)))
                       for _ in range(n)]
            with Beside(channel, server) as beside:
                start, used = time.monotonic(), server.cpu_s()
                for c in clients:
                    c.send(hello)
                for c in clients:
                    c.settimeout(60 * SLOW)
                    # Either a handshake record has come, or the time limit of the handshake has passed on a busy machine.
                    self.assertIn(c.recv(1), (b"\x16", b"") if time.monotonic() - start > 9 else (b"\x16",))
                whole = server.cpu_s() - used
            self.assertIsNone(beside.error)
            if SLOW == 1:  # a sanitizer slows the threads down unevenly, so only other builds check times
                self.assertLess(beside.most_work, max(whole / 3, 0.5))

    def test_a_rest_request_at_the_grpc_port_is_told_apart_from_an_attack(self):
        with self.serve() as server:
            with socket.create_connection(("127.0.0.1", server.grpc_port), timeout=20 * SLOW) as c:
                c.sendall(b"GET /v1/models/half_plus_two HTTP/1.1\r\nHost: localhost\r\n\r\n")
                while c.recv(4096):
                    pass
            self.assertEqual(server.metric('slipway_events_total{event="grpc_preface_cut_off"}'), 1)
            self.assertIn("a connection that does not use HTTP/2. REST requests belong to the REST port", server.log())

    @unittest.skipUnless(shutil.which("openssl") and rekeying.LIBRARY, "OpenSSL is not there")
    def test_changes_of_keys_by_tls_are_cut_off(self):
        _, channel_of, flag = self.tls()
        with self.serve(flag) as server, channel_of(server) as channel:
            with contextlib.ExitStack() as stack, Beside(channel, server) as beside:
                crowd = [stack.enter_context(rekeying.Connection(server.grpc_port))
                         for _ in range(4)]
                for i, c in enumerate(crowd):
                    c.send(http2.PREFACE + http2.Connection.frame(http2.SETTINGS, 0, 0) +
                           http2.Connection.frame(http2.SETTINGS, http2.ACK, 0))
                    c.rekey(15, both=i % 2)  # a client may make some key updates, even if they are unnecessary
                time.sleep(0.3)
                self.assertEqual(self.cut(server), {})
                for i, c in enumerate(crowd):
                    c.rekey(100, both=i % 2)
                wait_for(lambda: self.cut(server) == {"flood": len(crowd)}, "the end of the floods", 30)
            self.assertIsNone(beside.error)
            self.assertLess(beside.most_work, 2 * SLOW)

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
    def test_small_records_by_tls_are_read_in_turn(self):
        context, channel_of, flag = self.tls()
        n, frames = (8, 2) if SLOW == 1 else (4, 1)
        with self.serve(flag) as server, channel_of(server) as channel, contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(tls_records.Connection(server.grpc_port, context)) for _ in range(n)]
            begin = (http2.PREFACE + http2.Connection.frame(http2.SETTINGS, 0, 0) +
                     http2.Connection.frame(http2.SETTINGS, http2.ACK, 0))
            for c in crowd:
                c.socket.sendall(c.records(begin, len(begin)))
            data = http2.Connection.frame(UNKNOWN, 0, 0, b"x" * 16384) * frames
            ping = http2.Connection.frame(http2.PING, 0, 0, b"the end.")
            records = [c.records(data) + c.records(ping, 100) for c in crowd]
            answers = []

            def send(c, data):
                c.socket.settimeout(60 * SLOW)
                c.socket.sendall(data)
                answers.append(c.read_until(b"the end."))

            with Beside(channel, server) as beside:
                start = server.cpu_s()
                threads = [threading.Thread(target=send, args=pair) for pair in zip(crowd, records)]
                for t in threads:
                    t.start()
                for t in threads:
                    t.join()
                whole = server.cpu_s() - start
            self.assertIsNone(beside.error)
            self.assertEqual([b"the end." in a for a in answers], [True] * n)
            if SLOW == 1:  # a sanitizer slows the threads down unevenly, so only other builds check times
                self.assertLess(beside.most_work, whole / 4, whole)
            self.assertEqual(self.cut(server), {})

    def unfinished_requests_have_a_limit(self, context, channel_of, *flags):
        n, limit = 12, 16 * MEBI
        with self.serve(*flags, "--max_bytes_in_flight=16M", "--max_body_bytes=8M") as server, \
                channel_of(server) as channel, contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(Upload(server.grpc_port, tls=context)) for _ in range(n)]
            with Beside(channel, server) as beside:
                held = [c for c in crowd if c.half(3 * MEBI) and c.is_kept()]
                self.assertLessEqual(3 * MEBI * len(held), limit)
                # The memory limit permits three requests of this size, but not four. At least three must therefore be
                # in memory.
                self.assertGreater(len(held), 2)
                self.assertEqual(self.cut(server), {"unfinished": n - len(held)})
                with http2.Connection(server.grpc_port, tls=context) as c:
                    self.settle(c)
                for c in held:
                    self.assertTrue(c.read(0.01))
            self.assertIsNone(beside.error)
            self.assertLess(beside.most_work, 2 * SLOW)
            self.assertIn("sent more of requests without an end", server.log())
            for c in held:
                c.close()
            for _ in range(4):
                with Upload(server.grpc_port, tls=context) as c:
                    self.assertIsNotNone(c.half(3 * MEBI))
            self.assertEqual(self.cut(server), {"unfinished": n - len(held)})

    def test_unfinished_requests_have_a_limit(self):
        self.unfinished_requests_have_a_limit(None, lambda server: grpc.insecure_channel(
            f"127.0.0.1:{server.grpc_port}", ONE))

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
    def test_unfinished_requests_by_tls_have_a_limit(self):
        self.unfinished_requests_have_a_limit(*self.tls())

    def test_unfinished_requests_that_end_are_forgotten(self):
        """Sends requests that end in various ways. If the memory of ended requests were not released, the requests
        would exceed the limit."""
        flags = "--max_bytes_in_flight=16M", "--max_body_bytes=8M"
        reset, broken = struct.pack(">I", 8), http2.Connection.frame(http2.PING, 0, 0, b"short")
        with self.serve(*flags, "--request_read_timeout_ms=600000") as server:
            with Upload(server.grpc_port) as c:
                for _ in range(4):
                    stream = c.half(3 * MEBI)
                    self.assertIsNotNone(stream)
                    c.send(c.frame(http2.RST_STREAM, 0, stream, reset))
            for _ in range(8):  # in each round, gRPC core closes the connection because of an invalid frame
                with Upload(server.grpc_port) as c:
                    self.assertIsNotNone(c.half(3 * MEBI))
                    c.send(broken)
                    wait_for(lambda c=c: not c.read(0.1), "the end of the connection")
            self.assertEqual(self.cut(server), {})
        with self.serve(*flags, "--request_read_timeout_ms=3000") as server, Upload(server.grpc_port) as c:
            for _ in range(4):  # the server's time limit ends these requests, on a busy machine before they are sent
                stream = c.next_stream
                c.half(3 * MEBI)
                self.assertEqual(c.status(stream, 60 * SLOW), 4)
            self.assertEqual(self.cut(server), {})

    def test_a_request_in_tiny_frames_counts_as_what_it_holds(self):
        """gRPC core uses 48 bytes of memory for each frame of a request, even after the request has arrived completely."""
        body = http2.message(half_plus_two(1000))
        with self.serve("--max_bytes_in_flight=64K") as server, http2.Connection(server.grpc_port) as c:
            self.settle(c)
            self.assertEqual(c.status(c.ask(PREDICT, half_plus_two(1000)), 30 * SLOW), 0)
            stream = c.begin(PREDICT)
            c.send(b"".join(c.frame(http2.DATA, 0, stream, body[i:i + 1]) for i in range(len(body))))
            c.send(c.frame(http2.DATA, http2.END_STREAM, stream))
            self.assertEqual(c.status(stream, 30 * SLOW), 8)  # RESOURCE_EXHAUSTED
            self.assertEqual(c.status(c.ask(PREDICT, half_plus_two(1000)), 30 * SLOW), 0)
            self.assertEqual(self.cut(server), {})

    def taken_messages_do_not_count(self, channel_of, *flags):
        """Sends three times the limit by streams that stay open, one message at a time. All of them are answered."""
        n = 12
        request = oip.ModelInferRequest(model_name="half_plus_two", raw_input_contents=[bytes(MEBI)])
        request.inputs.add(name="x", datatype="FP32", shape=[MEBI // 4, 1])
        with self.serve("--max_bytes_in_flight=16M", "--max_body_bytes=8M", *flags) as server, \
                contextlib.ExitStack() as stack:
            ends, calls = [threading.Event() for _ in range(n)], []
            for end in ends:
                stack.callback(end.set)
                channel = stack.enter_context(channel_of(server))
                turns = threading.Semaphore(1)

                def requests(turns=turns, end=end):
                    for _ in range(4):
                        turns.acquire()
                        yield request
                    end.wait()

                # A call that is no longer referenced is cancelled.
                calls.append(oip_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(
                    requests(), timeout=300 * SLOW))
                for _ in range(4):
                    self.assertEqual(next(calls[-1]).error_message, "")
                    turns.release()
            # The streams are open and idle, and leave the room to others.
            self.assertTrue(all(call.is_active() for call in calls))
            with channel_of(server) as channel:
                self.assertTrue(channel.unary_unary(PREDICT)(half_plus_two(3 * MEBI // 4), timeout=60 * SLOW))
            self.assertEqual(self.cut(server), {})

    def test_messages_of_streams_that_were_taken_do_not_count(self):
        self.taken_messages_do_not_count(lambda server: grpc.insecure_channel(
            f"127.0.0.1:{server.grpc_port}", ONE))

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
    def test_messages_of_streams_by_tls_that_were_taken_do_not_count(self):
        _, channel_of, flag = self.tls()
        self.taken_messages_do_not_count(channel_of, flag)

    def test_small_messages_of_a_stream_are_no_flood(self):
        """Sends as many frames for each message as grpc-go: the prefix, the rest, pings and windows."""
        n, at_once = 10000, 50
        body = oip.ModelInferRequest(model_name="half_plus_two", raw_input_contents=[bytes(4)])
        body.inputs.add(name="x", datatype="FP32", shape=[1, 1])
        body = http2.message(body.SerializeToString())
        with self.serve() as server, http2.Connection(server.grpc_port) as c:
            self.settle(c)
            stream = c.begin("/inference.GRPCInferenceService/ModelStreamInfer")
            c.bodies[stream] = b""
            window = struct.pack(">I", 100)
            frames = b"".join((
                c.frame(http2.DATA, 0, stream, body[:5]), c.frame(http2.DATA, 0, stream, body[5:]),
                c.frame(http2.PING, http2.ACK, 0, bytes(8)), c.frame(http2.PING, http2.ACK, 0, bytes(8)),
                c.frame(http2.WINDOW_UPDATE, 0, 0, window), c.frame(http2.WINDOW_UPDATE, 0, stream, window)))
            c.send(frames)
            wait_for(lambda: not c.read(0.01) or c.bodies[stream], "the first response")
            size = len(c.bodies[stream])
            for sent in range(1 + at_once, n, at_once):
                c.send(frames * at_once)
                wait_for(lambda sent=sent: not c.read(0.001) or len(c.bodies[stream]) >= (sent - 4 * at_once) * size,
                         "the responses")
                self.assertEqual((c.gone, self.cut(server) if c.gone else {}), (False, {}))
            c.send(c.frame(http2.DATA, http2.END_STREAM, stream))
            self.assertEqual(c.status(stream, 60 * SLOW), 0)
            self.assertEqual(len(c.bodies[stream]), sent * size)
            self.assertEqual(self.cut(server), {})

    def tls(self, bits=2048):
        """Returns (SSL context, function that creates a channel, flag) for a server with a certificate."""
        flag, context = by_tls(self.folder, bits)
        with open(self.path("server.crt"), "rb") as file:
            credentials = grpc.ssl_channel_credentials(file.read())
        return context, lambda server: grpc.secure_channel(
            f"localhost:{server.grpc_port}", credentials, ONE), flag

    @contextlib.contextmanager
    def by_both(self):
        """Yields a server and two connections, one over a UNIX socket without TLS and one with TLS."""
        flag, context = by_tls(self.folder)
        save(self.path("models", "m", "1"))
        self.put("models/half_plus_two/1")
        with Server(f"--models={self.path('models')}", flag,
                    "--grpc_socket_path=" + self.path("s")) as server, \
                http2.Connection(self.path("s")) as plain, \
                http2.Connection(server.grpc_port, tls=context) as tls:
            self.settle(plain)
            self.settle(tls)
            yield server, (plain, tls)
            self.assertEqual(self.cut(server), {})

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
    def test_who_gives_many_windows_for_large_answers_is_not_cut_off(self):
        """Sends 24 window updates per 32 KiB of a response. The part of the budget that grows with time would not cover
        them."""
        def on_frame(c, kind, flags, stream, body):
            if kind == http2.DATA and body:
                c.taken += len(body)
                if c.taken >= 32768:
                    granted = struct.pack(">I", c.taken // 12 + 1)
                    c.send(b"".join(c.frame(http2.WINDOW_UPDATE, 0, s, granted)
                                    for s in (0, stream)) * 12)
                    c.windows, c.taken = c.windows + 24, 0
            else:
                http2.Connection.on_frame(c, kind, flags, stream, body)

        with self.by_both() as (_, connections):
            for c in connections:
                c.windows, c.taken = 0, 0
                c.on_frame = lambda *frame, c=c: on_frame(c, *frame)
                while c.windows < 60000 / SLOW:
                    self.assertEqual(c.status(c.ask(PREDICT, fill(8 * MEBI)), 60 * SLOW), 0)

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
    def test_who_cancels_many_calls_is_not_cut_off(self):
        with self.by_both() as (server, connections):
            for _ in range(100):  # sends 10,000 calls in total, at 500 calls per second on each connection
                for c in connections:
                    c.send(b"".join(c.headers_of(PREDICT, s) +
                                    c.data_of(s, http2.message(half_plus_two())) +
                                    c.frame(http2.RST_STREAM, 0, s, struct.pack(">I", 8))
                                    for s in streams(c, 50)))
                    self.assertTrue(c.read(0.05))
            for c in connections:
                self.settle(c)
            wait_for(lambda: server.metric('slipway_requests_in_flight{entrypoint="GRPC"}') == 0,
                     "the calls")

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
    def test_records_of_tls_are_no_frames(self):
        """The server must not parse TLS records as frames, not even on a descriptor that a connection without TLS used
        before."""
        flag, context = by_tls(self.folder)
        with Server(f"--models={MODELS}", flag, "--grpc_socket_path=" + self.path("s")) as server:
            with contextlib.ExitStack() as stack:
                for _ in range(20):
                    self.settle(stack.enter_context(http2.Connection(self.path("s"))))
            files = f"/proc/{server.process.pid}/fd"
            wait_for(lambda: len(os.listdir(files)) < 40, "the end of the connections")
            with contextlib.ExitStack() as stack:
                for _ in range(20):
                    c = stack.enter_context(http2.Connection(server.grpc_port, tls=context))
                    self.settle(c)
            self.assertEqual(self.cut(server), {})

    @unittest.skipUnless(shutil.which("h2load"), "h2load is not there")
    def test_who_asks_much_is_not_cut_off(self):
        self.put("models/half_plus_two/1")
        with open(self.path("body"), "wb") as file:
            file.write(http2.message(half_plus_two()))
        with Server(f"--models={self.path('models')}") as server:
            said = subprocess.run(
                ["h2load", "-c16", "-m100", "-D3", "-d", self.path("body"),
                 "-H", "content-type: application/grpc", "-H", "te: trailers",
                 f"http://127.0.0.1:{server.grpc_port}{PREDICT}"],
                check=True, capture_output=True, text=True, timeout=60 * SLOW).stdout
            self.assertRegex(said, r"[1-9]\d* succeeded, 0 failed, 0 errored")
            self.assertEqual(self.cut(server), {})


if __name__ == "__main__":
    unittest.main()
