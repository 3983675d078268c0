"""Tests that the listeners of gRPC and REST keep accepting connections after descriptors have run out or accept4 has
failed, and that the server closes idle connections to accept new connections. Every test of gRPC runs without TLS and with TLS."""
import concurrent.futures
import contextlib
import os
import resource
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import grpc
import http2
from grpc_support import WAIT, GrpcCase, by_tls
from support import MODELS, wait_for
from tensorflow_serving.apis import get_model_status_pb2

KEPT = 64  # number of descriptors that server/base/sockets.c reserves for models and, after that, for REST


GRPC_SHARE = (300 - KEPT) // 2  # maximum number of gRPC connections when the server may open 300 files and serves REST


def n_files(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


class Plain(GrpcCase):
    flags, context, credentials = (), None, None

    def serve(self, *flags, **kw):
        return super().serve(f"--models={MODELS}", *self.flags, *flags, **kw)

    def client(self, server, *args, **kw):
        return super().client(f"localhost:{server.grpc_port}", *args, credentials=self.credentials, **kw)

    def connect(self, server):
        return self.enterContext(http2.Connection(server.grpc_port, tls=self.context))

    def silent(self, server, n):
        """Opens n connections that send nothing, or only the beginning of a TLS handshake."""
        connections, hello = [], http2.client_hello()
        for _ in range(n):
            connections.append(self.enterContext(socket.create_connection(("127.0.0.1", server.grpc_port))))
            if self.context:
                connections[-1].sendall(hello)
        return connections

    def serves(self, server):
        client = self.client(server)
        self.assertEqual(client.predict(wait_for_ready=True), [3.0])

    def test_no_descriptors_left_is_not_the_end(self):
        server = self.serve()
        self.client(server).predict()
        n, limits = n_files(server), resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (n + 10, limits[1]))
        held = self.silent(server, 40)
        wait_for(lambda: "too many connections" in server.log(), "the log's word")
        for s in held:
            s.close()
        self.serves(server)
        # With a limit of 0 descriptors, poll fails too.
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (0, limits[1]))
        held = self.silent(server, 1)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, limits)
        self.serves(server)

    def test_connections_that_end_while_their_frames_wait_harm_no_others(self):
        """Each connection sends many small frames in two parts, closes its sending side, and is closed soon afterwards."""
        server = self.serve()
        update = http2.Connection.frame(8, 0, 0, b"\0\0\0\1")  # WINDOW_UPDATE
        hello = http2.PREFACE + http2.Connection.frame(4, 0, 0, b"") + http2.Connection.frame(4, 1, 0, b"")

        def connect_often(_):
            end = time.monotonic() + 2
            while time.monotonic() < end:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.grpc_port)) as plain:
                    s = plain
                    if self.context:
                        s = self.context.wrap_socket(plain, server_hostname="localhost")
                    s.sendall(hello + 300 * update)
                    time.sleep(0.005)
                    s.sendall(300 * update)
                    s.shutdown(socket.SHUT_WR)
                    time.sleep(0.02)
                    s.close()

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(connect_often, range(8)))
        self.assertIsNone(server.process.poll())
        self.serves(server)

    def test_connections_that_end_at_once_leave_descriptors_to_others(self):
        server = self.serve(open_files=300)
        for _ in range(10):
            for s in self.silent(server, 100):
                s.close()
        self.serves(server)
        wait_for(lambda: n_files(server) < 100, "the end of the connections")
        self.assertNotIn("Too many open files", server.log())

    def test_idle_connections_make_room_for_new_ones(self):
        server = self.serve(open_files=300)
        watcher = self.connect(server)
        watch = watcher.ask("/grpc.health.v1.Health/Watch", b"")
        for _ in range(250):
            with contextlib.suppress(OSError):  # while no connection is idle, the server closes new connections
                self.connect(server)
        wait_for(lambda: n_files(server) > GRPC_SHARE, "the connections")
        for _ in range(20):
            self.serves(server)
        closed = server.metric('slipway_events_total{event="grpc_idle_connection_closed"}')
        self.assertGreaterEqual(closed, 20)
        watcher.read(0.1)  # a connection with a call is not idle
        self.assertFalse(watcher.is_over(watch))
        self.assertTrue(watcher.bodies[watch])
        wait_for(lambda: n_files(server) < 200, "the end of idle connections")

    def test_grpc_connections_leave_descriptors_to_rest(self):
        server = self.serve(open_files=300)
        self.silent(server, 400)
        wait_for(lambda: "too many connections" in server.log(), "the log's word")
        # A connection that will be closed may be open for a moment.
        wait_for(lambda: n_files(server) <= 300 - 2 * KEPT, "the end of the connections beyond the limit")
        self.assertEqual(server.get("/healthz")[0], 200)

    def test_rest_keeps_its_share_beside_grpc_connections(self):
        """gRPC connections hold their share first. REST connections with incomplete requests then take what is left, which
        is less than REST's share because the server itself has files open. Each new REST connection is still served."""
        server = self.serve(open_files=300)
        self.silent(server, 300)
        wait_for(lambda: "too many connections" in server.log(), "the log's word")
        wait_for(lambda: n_files(server) < 2 * GRPC_SHARE - 50, "the end of the connections beyond the share")
        held = []
        for _ in range(GRPC_SHARE):
            held.append(self.enterContext(socket.create_connection(("127.0.0.1", server.rest_port))))
            held[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        wait_for(lambda: n_files(server) >= 300 - KEPT, "REST's connections")
        for _ in range(10):
            self.assertEqual(server.get("/healthz")[0], 200)
        self.assertGreaterEqual(server.metric('slipway_events_total{event="incomplete_request_closed"}'), 5)
        self.assertLess(server.metric('slipway_events_total{event="incomplete_request_closed"}'), 40)
        self.assertLessEqual(n_files(server), 300 - KEPT + 4)

    @unittest.skipUnless(shutil.which("strace"), "strace is not there")
    def test_no_error_ends_a_listener(self):
        server = self.serve()
        for error in ("EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "ECONNABORTED", "EPERM", "EPROTO", "EHOSTUNREACH"):
            with self.subTest(error):
                tracer = subprocess.Popen(
                    ["strace", "-f", "-e", "trace=accept4", "-e", f"inject=accept4:error={error}", "-o",
                     self.path("trace"), "-p", str(server.process.pid)], stderr=subprocess.PIPE, text=True)
                try:
                    if "attached" not in tracer.stderr.readline():
                        self.skipTest("strace cannot attach to a process")
                    for port in (server.grpc_port, server.rest_port):
                        self.enterContext(socket.create_connection(("127.0.0.1", port)))
                    with open(self.path("trace"), encoding="ascii") as trace:
                        wait_for(lambda: trace.read().count(error) > 1, "failures")
                finally:
                    tracer.terminate()
                    tracer.communicate()
                self.serves(server)
                self.assertEqual(server.get("/healthz")[0], 200)


@unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
class Tls(Plain):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        flag, cls.context = by_tls(folder)
        cls.flags = (flag,)
        with open(os.path.join(folder, "server.crt"), "rb") as file:
            cls.credentials = grpc.ssl_channel_credentials(file.read())


class Rest(GrpcCase):
    def test_a_limit_of_open_files_that_suffices_is_not_reported(self):
        """4,096 files leave more than a thousand connections, but less than a given number."""
        self.assertNotIn("is too many", self.serve(f"--models={MODELS}", open_files=4096).log())
        self.assertIn("--max_connections=5000 is too many for the limit of open files (4096): REST has at most 2016 ",
                      self.serve(f"--models={MODELS}", "--max_connections=5000", open_files=4096).log())

    def test_rest_connections_leave_descriptors_to_grpc_and_to_models(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        model = os.path.join(folder, "half_plus_two")
        shutil.copytree(os.path.join(MODELS, "half_plus_two", "2"), os.path.join(model, "2"))
        server = self.serve(f"--models={folder}", "--file_system_poll_wait_seconds=1", open_files=300)
        self.assertIn("--max_connections=10000 is too many for the limit of open files (300): REST has at most 118 "
                      "connections at a time; raise the limit to 20064 ", server.log())
        for _ in range(300):
            self.enterContext(socket.create_connection(("127.0.0.1", server.rest_port)))
        wait_for(lambda: n_files(server) > 118, "the connections")
        for _ in range(100):
            self.enterContext(socket.create_connection(("127.0.0.1", server.rest_port)))
        client = self.client(server)
        self.assertEqual(client.predict(), [3.0])
        shutil.copytree(os.path.join(model, "2"), os.path.join(folder, ".next"))
        os.rename(os.path.join(folder, ".next"), os.path.join(model, "3"))
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = "half_plus_two"
        wait_for(lambda: any(v.version == 3 and v.state == v.AVAILABLE for v in
                             client.model.GetModelStatus(request, timeout=WAIT).model_version_status), "the new version")
        self.assertLess(n_files(server), 300 - KEPT)
