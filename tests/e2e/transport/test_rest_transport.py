"""Tests HTTP with well-behaved and misbehaving clients, including limits, unusual requests, compression, CORS and slow
clients."""
import contextlib
import ctypes
import gzip
import json
import os
import re
import resource
import select
import socket
import time
import unittest
import zlib

from support import SLOW, in_some_attempt, wait_for
from test_rest import METRICS, MODEL, PREDICT, Server, answer, head, is_closed
import test_rest_reference

BODY = b'{"inputs": 1}'
PIDFD_GETFD = 438
syscall = ctypes.CDLL(None, use_errno=True).syscall
MEBI = 1 << 20
CHUNKED = f"POST {PREDICT} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n".encode()


def everything(s):
    data = b""
    try:
        while piece := s.recv(1 << 16):
            data += piece
    except ConnectionError:
        pass
    return data


def chunked(pieces):
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


class Transport(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())

    def raw(self, data):
        """Sends `data` and returns everything that it receives until the server closes the connection. The server may
        close before it has read all of `data`."""
        with self.server.connect() as s:
            with contextlib.suppress(ConnectionError):
                s.sendall(data)
            return everything(s)

    def refused(self, code, words, data):
        """Checks that the server refuses `data` with one complete response and closes the connection."""
        got = self.raw(data)
        top, body = got.split(b"\r\n\r\n", 1)
        self.assertTrue(top.startswith(b"HTTP/1.1 %d " % code), got)
        self.assertIn(b"\r\nConnection: close", top)
        self.assertEqual(int(re.search(rb"Content-Length: (\d+)", top)[1]), len(body), got)
        self.assertIn(words, json.loads(body)["error"])

    def post(self, *lines, body=BODY):
        return "\r\n".join([f"POST {PREDICT} HTTP/1.1", *lines, "", ""]).encode("latin-1") + body

    def test_lengths_that_two_readers_would_read_differently(self):
        length = f"Content-Length: {len(BODY)}"
        for words, *lines in (
                ("Content-Length is given twice", length, length),
                ("Content-Length is given twice", length, "Content-Length: 5"),
                ("do not go together", length, "Transfer-Encoding: chunked"),
                ("do not go together", "Transfer-Encoding: chunked", length),
                ("Transfer-Encoding is given twice", "Transfer-Encoding: chunked",
                 "Transfer-Encoding: chunked"),
                ("a header is folded", "Transfer-Encoding:", " chunked"),
                ("a header is folded", "Content-Length:", f"\t{len(BODY)}"),
                ("a header is folded", "X: a", " Content-Length: 5", length),
                ("a header is folded", f"Content-Length : {len(BODY)}"),
                ("a header is folded", "X: y\rTransfer-Encoding: chunked"),
                ("a header is folded", "X: \x01", length)):
            with self.subTest(lines=lines):
                self.refused(400, words, self.post("Host: t", *lines))
        self.refused(501, "the only Transfer-Encoding is chunked",
                     self.post("Host: t", "Transfer-Encoding: gzip, chunked"))

    def test_lengths_that_are_no_numbers(self):
        # libmicrohttpd itself refuses an invalid Content-Length before it calls a callback, and sends the response
        # headers twice. The test checks only the first header block and the end of the connection.
        for value in ("-13", "+13", "13, 13", "0x10", "99999999999999999999", "1 3"):
            got = self.raw(self.post("Host: t", "Content-Length: " + value))
            self.assertRegex(got, rb"\AHTTP/1.1 4(00|13) .*\r\nConnection: close\r\n")

    def test_a_host_is_wanted_once(self):
        length = f"Content-Length: {len(BODY)}"
        self.refused(400, "HTTP/1.1 wants a Host", self.post(length))
        self.refused(400, "Host is given twice", self.post("Host: a", "Host: b", length))
        old = self.post(length).replace(b"HTTP/1.1", b"HTTP/1.0")
        self.assertTrue(self.raw(old).startswith(b"HTTP/1.1 200 OK\r\n"))

    def test_request_lines_of_bad_form(self):
        for words, line in (("holds a NUL", b"GET /v1/models/half_plus_two\0x HTTP/1.1"),
                            ("holds a NUL", b"GE\0T /v1/models/half_plus_two HTTP/1.1"),
                            ("holds a NUL", b"GET /v1\0/ /models/half_plus_two HTTP/1.1"),
                            ("holds a blank", b"GET /v1/models/half_plus_two x HTTP/1.1"),
                            ("holds a blank", b"GET /v1/models/half\tplus HTTP/1.1")):
            with self.subTest(line=line):
                self.refused(400, words, line + b"\r\nHost: t\r\n\r\n")
        for code, line in ((505, b"GET / HTTP/2.0"), (505, b"PRI * HTTP/2.0"), (400, b"GET /"),
                           (400, b"GET / HTTQ/1.1"), (414, b"GET /" + b"a" * 40000 + b" HTTP/1.1"),
                           (414, b"G" * 40000 + b" / HTTP/1.1"),
                           (431, b"GET / HTTP/1.1\r\nX: " + b"a" * 40000),
                           (431, b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 10000)):
            with self.subTest(line=line[:30]):
                got = self.raw(line + b"\r\nHost: t\r\n\r\n")
                self.assertTrue(got.startswith(b"HTTP/1.1 %d " % code), got[:200])
                top, body = got.split(b"\r\n\r\n", 1)
                self.assertEqual(int(re.search(rb"Content-Length: (\d+)", top)[1]), len(body))
        self.refused(400, "no HTTP request", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n")

    def test_methods_of_bad_form_are_malformed_requests(self):
        for method in ("get", "F(O", "FOO", "M-SEARCH", "%"):
            status, _, body = self.server.ask(method, MODEL)
            self.assertEqual(status, 400)
            self.assertEqual(json.loads(body)["error"], f"Malformed request: {method} {MODEL}")

    def test_chunked_requests(self):
        top = self.post("Host: t", "Transfer-Encoding: chunked", body=b"")
        for rest in (chunked([BODY]), chunked([bytes([b]) for b in BODY]),
                     b"D;a=b\r\n" + BODY + b"\r\n0\r\nTrailer: x\r\n\r\n",
                     b"00000d\r\n" + BODY + b"\r\n000\r\n\r\n"):
            with self.server.connect() as s:
                s.sendall(top + rest)
                self.assertEqual(answer(s)[0], 200)
                s.sendall(head("GET", "/healthz"))
                self.assertEqual(answer(s)[0], 200)
        for code, rest in ((400, b"zz\r\n"), (400, b"-1\r\n"), (413, b"f" * 17 + b"\r\n"),
                           (400, b"d\r\n" + BODY + b"xx0\r\n\r\n"), (400, b"\r\n\r\n")):
            got = self.raw(top + rest)
            self.assertTrue(got.startswith(b"HTTP/1.1 %d " % code), (rest, got))

    def test_blanks_around_values_are_none_of_them(self):
        for body, lines in ((BODY, ("Transfer-Encoding: chunked \t",)), (BODY, (f"Content-Length:\t {len(BODY)} ",)),
                            (BODY, ("Expect: 100-continue ", f"Content-Length: {len(BODY)}"))):
            with self.subTest(lines), self.server.connect() as s:
                sent = chunked([body]) if "chunked" in lines[0] else body
                s.sendall(self.post("Host: h ", *lines, "Connection: close ", body=sent))
                got = everything(s)
                if "Expect" in lines[0]:
                    self.assertTrue(got.startswith(b"HTTP/1.1 100 "), got)
                    got = got.split(b"\r\n\r\n", 1)[1]
                self.assertTrue(got.startswith(b"HTTP/1.1 200 "), got)
                self.assertEqual(got.count(b"HTTP/1.1"), 1)

    def test_chunks_that_two_readers_would_read_differently(self):
        top = self.post("Host: t", "Transfer-Encoding: chunked", body=b"")
        size = b"%x" % len(BODY)
        end = b"\r\n" + BODY + b"\r\n0\r\n\r\n"
        for words, rest in (
                ("size is no number", b"+" + size + end), ("size is no number", b"-" + size + end),
                ("size is no number", b"0x" + size + end), ("size is no number", b" " + size + end),
                ("size is no number", size + b" " + end), ("size is no number", b"d,d" + end),
                ("size is no number", b"\r\n"), ("a line ends without CR", size + b"\n" + BODY),
                ("extension holds a control", size + b";a\0" + end),
                ("extension holds a control", size + b";a\rb" + end),
                ("a line ends without CR", size + b";a\nb" + end),
                ("no end of line behind a chunk", size + b"\r\n" + BODY + b"x\r\n0\r\n\r\n"),
                ("a line ends without CR", size + b"\r\n" + BODY + b"\n0\r\n\r\n"),
                ("longer than 256 bytes", size + b";" + b"a" * 300 + end),
                ("a trailer is folded", size + b"\r\n" + BODY + b"\r\n0\r\nA\0: b\r\n\r\n"),
                ("a trailer is folded", size + b"\r\n" + BODY + b"\r\n0\r\nA: b\0\r\n\r\n"),
                ("a trailer is folded", size + b"\r\n" + BODY + b"\r\n0\r\n a: b\r\n\r\n"),
                ("a line ends without CR", size + b"\r\n" + BODY + b"\r\n0\r\nA: b\n\r\n")):
            with self.subTest(rest=rest[:40]):
                self.refused(400, words, top + rest)
        for digits in (b"8000000000000000", b"ffffffffffffffff", b"1" + b"0" * 16, b"0" * 17):
            self.refused(413, "a chunk's size", top + digits + end)
        self.refused(431, "trailers are larger than --max_header_bytes, 16384 bytes", top + b"0\r\n" + b"A: b\r\n" * 5000)

    def test_heads_that_two_readers_would_read_differently(self):
        for words, data in (
                ("a line ends without CR", b"GET / HTTP/1.1\nHost: t\n\n"),
                ("a line ends without CR", b"GET / HTTP/1.1\r\nHost: t\nX: y\r\n\r\n"),
                ("a header is folded", b"GET / HTTP/1.1\r\nHost: t\r\nX: a\0b\r\n\r\n"),
                ("a header is folded", b"GET / HTTP/1.1\r\nHost: t\r\nX\0: a\r\n\r\n"),
                ("a header is folded", b"GET / HTTP/1.1\r\nHost: t\r\nX: a\rb\r\n\r\n"),
                ("a header is folded", b"GET / HTTP/1.1\r\nHost: t\r\nno colon\r\n\r\n"),
                ("a header is folded", b"GET / HTTP/1.1\r\nHost: t\r\n: no name\r\n\r\n"),
                ("HTTP/1.0 has no", b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n")):
            with self.subTest(data=data):
                self.refused(400, words, data)
        self.refused(501, "the only Transfer-Encoding is chunked",
                     self.post("Host: t", "Transfer-Encoding: xchunked"))
        self.refused(431, "too many headers", self.post("Host: t", *["Connection: a"] * 40))
        self.refused(414, "arguments", b"GET /?" + b"a&" * 1000 + b" HTTP/1.1\r\nHost: t\r\n\r\n")

    def test_what_is_refused_behind_other_requests_is_answered_in_its_place(self):
        with self.server.connect() as s:
            s.sendall(head("GET", "/healthz") * 3 + b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"
                      + head("GET", "/healthz"))
            got = everything(s)
        self.assertEqual(re.findall(rb"HTTP/1.1 (\d+)", got), [b"200"] * 3 + [b"400"])
        self.assertIn(b"Host is given twice", got)

    def test_a_large_head_comes_through_whole(self):
        path = "/v1/models/" + "m" * 12000
        status, _, body = self.server.ask("GET", path, b"", ["Cookie: " + "a=b; " * 600])
        self.assertEqual(status, 404)
        self.assertIn("m" * 12000, json.loads(body)["error"])

    def cpu_s(self):
        with open(f"/proc/{self.server.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_a_chunk_line_without_end_costs_nothing(self):
        top = self.post("Host: t", "Transfer-Encoding: chunked", body=b"")
        with self.server.connect() as s:
            start = self.cpu_s()
            with contextlib.suppress(ConnectionError):
                s.sendall(top + b"1;" + b"a" * 100_000)
            self.assertTrue(everything(s).startswith(b"HTTP/1.1 400 "))
            time.sleep(1)
        with self.server.connect() as s:  # An incomplete line must not use CPU time while the server waits for its end.
            s.sendall(top + b"1;" + b"a" * 200)
            time.sleep(1)
        self.assertLess(self.cpu_s() - start, 0.5 * SLOW)

    def test_very_many_tiny_chunks_are_refused(self):
        top = self.post("Host: t", "Transfer-Encoding: chunked", body=b"")
        spaces = [b" "] * 65536
        self.refused(413, "more than 65536 chunks", top + chunked(spaces + [BODY]))
        with self.server.connect() as s:  # 65,537 chunks are accepted if each has 16 bytes or more.
            s.sendall(top + chunked([b" " * 16] * 65536 + [BODY]))
            self.assertEqual(answer(s)[0], 200)
        with self.server.connect() as s:
            s.sendall(top + chunked(spaces[:60000] + [BODY]))
            self.assertEqual(answer(s)[0], 200)

    def test_continue_is_said_before_the_body_comes(self):
        with self.server.connect() as s:
            s.sendall(head("POST", PREDICT, len(BODY), ["Expect: 100-continue"]))
            self.assertEqual(s.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
            s.sendall(BODY)
            self.assertEqual(answer(s)[0], 200)
            # A request that is refused because of its headers gets an error instead of 100 Continue.
            s.sendall(head("POST", "/v1/models/m:x", len(BODY), ["Expect: 100-continue"]))
            self.assertEqual(answer(s)[0], 400)
            self.assertTrue(is_closed(s))

    def test_connections_are_kept_and_closed_as_the_client_wants(self):
        with self.server.connect() as s:
            for _ in range(3):
                s.sendall(head("POST", PREDICT, len(BODY)) + BODY)
                status, headers, _ = answer(s)
                self.assertEqual((status, headers.get("connection")), (200, None))
            for path, body in (("/v1/models/x:predict", BODY), ("/nowhere", b"x" * 1000)):
                s.sendall(head("POST", path, len(body)) + body)
                self.assertEqual(answer(s)[0], 404)
            s.sendall(head("GET", "/healthz", 0, ["Connection: close"]))
            self.assertEqual(answer(s)[1]["connection"], "close")
            self.assertTrue(is_closed(s))
        with self.server.connect() as s:
            s.sendall(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            self.assertEqual(answer(s)[0], 200)
            s.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            self.assertEqual(answer(s)[0], 200)
            self.assertTrue(is_closed(s))

    def test_head_has_the_headers_alone(self):
        for path, status in (("/healthz", 200), (METRICS, 200), (MODEL, 400), ("/nowhere", 404)):
            with self.server.connect() as s:
                s.sendall(head("HEAD", path) + head("GET", "/healthz", 0, ["Connection: close"]))
                got, headers, _ = answer(s, no_body=True)
                self.assertEqual(got, status)
                self.assertGreater(int(headers["content-length"]), 0)

    def test_headers_may_come_byte_by_byte(self):
        request = head("POST", PREDICT, len(BODY), ["X-A: b", "X-Request-Id: slow-one"]) + BODY
        with self.server.connect() as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(len(request)):
                s.sendall(request[i:i + 1])
            status, headers, _ = answer(s)
            self.assertEqual((status, headers["x-request-id"]), (200, "slow-one"))

    # ---- compression ----

    def test_bodies_that_do_not_inflate_are_empty_ones(self):
        good = gzip.compress(BODY)
        for encoding in ("gzip", "x-gzip", "gzip, identity"):
            status, _, _ = self.server.ask("POST", PREDICT, good, ["Content-Encoding: " + encoding])
            self.assertEqual(status, 200)
        self.assertEqual(self.server.ask("POST", PREDICT, zlib.compress(BODY),
                                         ["Content-Encoding: gzip"])[0], 200)
        for bad in (BODY, good[:-9], good[:10] + b"\xff" * 20, b"\x1f\x8b"):
            status, _, body = self.server.ask("POST", PREDICT, bad, ["Content-Encoding: gzip"])
            self.assertEqual((status, json.loads(body)["error"]),
                             (400, "JSON Parse error: The document is empty"))
        self.assertEqual(self.server.ask("POST", PREDICT, BODY, ["Content-Encoding: br"])[0], 200)

    def test_a_bomb_takes_no_more_than_the_limit(self):
        for size in (100 * MEBI + 1, 257 * MEBI):
            bomb = gzip.compress(BODY + b" " * (size - len(BODY)), 1)
            status, _, body = self.server.ask("POST", PREDICT, bomb, ["Content-Encoding: gzip"])
            self.assertEqual((status, json.loads(body)["error"]),
                             (400, "JSON Parse error: The document is empty"))
            self.server.come_to_rest()
        whole = gzip.compress(BODY + b" " * (100 * MEBI - len(BODY)), 1)
        self.assertEqual(self.server.ask("POST", PREDICT, whole, ["Content-Encoding: gzip"])[0],
                         200)

    def test_large_answers_are_compressed_for_those_who_take_it(self):
        numbers = b'{"inputs": [' + b", ".join(b"%d" % i for i in range(1000)) + b"]}"
        plain = self.server.ask("POST", PREDICT, numbers)[2]
        for value, wanted in (("gzip", True), ("deflate, gzip;q=0.5", True), ("GZIP", True),
                              ("gzip;q=0", False), ("gzip; q=0.000", False), ("*", True),
                              ("*;q=0", False), ("gzip;q=0, *", False), ("*;q=0, gzip", True),
                              ("identity", False), ("br, deflate", False), ("", False),
                              ("x-gzip", True), ("gzipped", False), ("gzip;q=0.001", True)):
            with self.subTest(value=value):
                status, headers, body = self.server.ask("POST", PREDICT, numbers,
                                                        ["Accept-Encoding: " + value])
                self.assertEqual(status, 200)
                self.assertEqual(headers.get("content-encoding"), "gzip" if wanted else None)
                self.assertEqual(gzip.decompress(body) if wanted else body, plain)
        headers = self.server.ask("GET", METRICS, b"", ["Accept-Encoding: gzip"])[1]
        self.assertEqual((headers["content-encoding"], headers["vary"]), ("gzip", "Accept-Encoding"))
        headers = self.server.ask("POST", PREDICT, BODY, ["Accept-Encoding: gzip"])[1]
        self.assertNotIn("content-encoding", headers)


class Flags(unittest.TestCase):
    def with_server(self, *flags):
        return self.enterContext(Server(*flags))

    def test_compression_can_be_switched_off(self):
        server = self.with_server("--rest_api_enable_compression=false")
        headers = server.ask("GET", METRICS, b"", ["Accept-Encoding: gzip"])[1]
        self.assertNotIn("content-encoding", headers)

    def test_cors_headers_are_on_every_answer(self):
        server = self.with_server("--rest_api_enable_cors_support")
        for method, path, origin, code in (
                ("OPTIONS", PREDICT, "Origin: http://a", 200), ("OPTIONS", PREDICT, "X: y", 400),
                ("POST", PREDICT, "X: y", 400), ("GET", MODEL, "Origin: https://a", 200),
                ("PUT", MODEL, "X: y", 400), ("GET", "/v1/models/nope/metadata", "X: y", 404)):
            status, headers, _ = server.ask(method, path, b"", [origin])
            self.assertEqual(status, code)
            self.assertEqual({k: v for k, v in headers.items() if k.startswith("access-")}, {
                "access-control-allow-origin": "*", "access-control-allow-methods": "POST, GET",
                "access-control-allow-headers": "Content-Type"})

    def refused_in_the_middle(self, server, code, size):
        """Sends a complete body before it reads the response, and returns the headers of the response."""
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        with server.connect() as s:
            s.sendall(CHUNKED)
            for _ in range(size >> 16):
                s.sendall(chunk)
            s.sendall(b"0\r\n\r\n")
            status, headers, body = answer(s)
            self.assertEqual((status, headers["connection"]), (code, "close"), body)
            self.assertIn("error", json.loads(body))
            self.assertTrue(is_closed(s))
        return headers

    def test_a_body_refused_while_it_comes_is_answered(self):
        server = self.with_server("--max_body_bytes=1M", "--access_log")
        for size in (2, 4, 20):
            self.refused_in_the_middle(server, 413, size * MEBI)
        wait_for(lambda: server.log().count("status=413") == 3, "the access log")
        page = server.ask("GET", METRICS)[2].decode()
        self.assertRegex(page, r':request_count\{model_name="half_plus_two",status="INVALID_ARGUMENT"\} 3\n')
        self.assertNotIn("refused_body_cut_off", page)
        with server.connect() as s:
            s.sendall(head("POST", PREDICT, 20 * MEBI))
            s.sendall(b" " * (20 * MEBI))
            self.assertEqual(answer(s)[0], 413)

    def test_a_body_that_does_not_fit_beside_others_is_answered_while_it_comes(self):
        server = self.with_server("--max_bytes_in_flight=7M", "--max_body_bytes=6M")
        with server.connect() as other:
            other.sendall(head("POST", PREDICT, 6 * MEBI) + b" " * (7 * MEBI // 2))
            wait_for(lambda: server.bytes_in_flight() >= 4 * MEBI, "the other's body")
            headers = self.refused_in_the_middle(server, 503, 6 * MEBI)
            self.assertEqual(headers["retry-after"], "1")

    def test_who_goes_on_sending_what_is_refused_is_cut_off(self):
        server = self.with_server("--max_body_bytes=1M")
        with server.connect() as s:
            s.sendall(CHUNKED)
            with self.assertRaises(OSError):
                while True:
                    s.sendall(b"100000\r\n" + b" " * MEBI + b"\r\n")
        wait_for(lambda: 'slipway_events_total{event="refused_body_cut_off"} 1' in
                 server.ask("GET", METRICS)[2].decode(), "the event")

    def test_the_end_does_not_wait_for_bodies_that_were_refused(self):
        server = self.with_server("--max_body_bytes=1M")
        with server.connect() as s:
            s.sendall(CHUNKED + b"200000\r\n" + b" " * 2 * MEBI)
            self.assertEqual(answer(s)[0], 413)
            self.assertEqual(server.stop(), 0)

    def trickle(self, server, first, piece):
        """Sends `first` and then `piece` repeatedly. The server must close the connection."""
        with server.connect() as s:
            s.sendall(first)
            end = time.monotonic() + 60 * SLOW
            with self.assertRaises(OSError):
                while time.monotonic() < end:
                    s.sendall(piece)
                    time.sleep(0.02)

    def test_headers_and_bodies_that_trickle_are_cut_off(self):
        server = self.with_server("--request_read_timeout_ms=400")
        for first, piece in ((b"", b"\r\n"), (b"GET /", b"a"), (b"GET / HTTP/1.1\r\n", b"X: y\r\n"),
                             (b"GET / HTTP/1.1\r\nX: ", b"y"),
                             (head("POST", PREDICT, 100000), b" "),
                             (head("POST", PREDICT, 0, ["Transfer-Encoding: chunked"]).replace(
                                 b"Content-Length: 0\r\n", b""), b"1\r\n \r\n")):
            with self.subTest(first=first):
                self.trickle(server, first, piece)
        with server.connect() as s:
            self.assertTrue(is_closed(s))
        wait_for(lambda: server.ask("POST", PREDICT, BODY)[0] == 200, "an answer")


class Memory(unittest.TestCase):
    """Responses share a memory budget with requests."""

    def setUp(self):
        self.server = self.enterContext(test_rest_reference.Server("--max_bytes_in_flight=20M"))

    def fill(self, n, **kw):
        body = json.dumps({"signature_name": "fill", "inputs": [n]}).encode()
        return self.server.ask("POST", "/v1/models/shapes:predict", body, **kw)

    def resident(self):
        with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) << 10

    def test_an_answer_beyond_the_budget_is_refused_by_name(self):
        self.assertEqual(self.fill(2 * MEBI)[0], 200)  # 12 MB of text
        # Each response exceeds the budget. The server may refuse a response before or while it writes the response.
        for n in (4 * MEBI - 700000, 20 * MEBI):
            self.server.come_to_rest()
            status, _, body = self.fill(n)
            self.assertEqual(status, 429)
            self.assertRegex(json.loads(body)["error"], "the response is larger than .*bytes")
        self.server.come_to_rest()
        self.assertEqual(self.fill(3)[0], 200)
        self.server.come_to_rest()

    def test_answers_that_nobody_reads_hold_up_no_more_than_the_budget(self):
        body = json.dumps({"signature_name": "fill", "inputs": [2 * MEBI]}).encode()
        request = head("POST", "/v1/models/shapes:predict", len(body)) + body
        with self.server.connect() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.sendall(request)
            wait_for(lambda: self.server.bytes_in_flight() > 12 * MEBI, "the answer")
            status, headers, text = self.fill(2 * MEBI)
            self.assertEqual((status, headers["retry-after"]), (503, "1"), text)
            self.assertIn("the response does not fit beside the requests in flight",
                          json.loads(text)["error"])
        self.server.come_to_rest()

    def test_who_hardly_reads_an_answer_is_cut_off(self):
        server = self.enterContext(test_rest_reference.Server("--request_read_timeout_ms=3000"))
        body = json.dumps({"signature_name": "fill", "inputs": [4 * MEBI]}).encode()
        with server.connect() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.sendall(head("POST", "/v1/models/shapes:predict", len(body)) + body)
            wait_for(lambda: server.bytes_in_flight() > 24 * MEBI, "the answer")
            # The kernel still delivers the bytes that it has buffered, but the server has released the memory of the
            # response.
            wait_for(lambda: s.recv(100) and server.bytes_in_flight() == 0, "the hang-up")
        with server.connect() as s:
            s.sendall(head("POST", "/v1/models/shapes:predict", len(body)) + body)
            got = 0
            while got < 6 * 4 * MEBI:
                piece = s.recv(1 << 18)
                self.assertTrue(piece)
                got += len(piece)
                time.sleep(0.01)

    def test_connections_are_accepted_again_once_there_are_descriptors(self):
        """A connection that is already open and in use stays open and gets responses. One that was idle for half a second
        might be closed for the new one, which a stop of the machine may look like."""
        in_some_attempt(self.check_descriptors)

    def check_descriptors(self):
        with Server() as server, server.connect() as kept:
            def is_well(s):
                try:
                    s.sendall(head("GET", "/healthz"))
                    return answer(s)[0] == 200
                except ConnectionError:
                    return False
            self.assertTrue(is_well(kept))
            pid = server.process.pid
            limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (4, limit[1]))
            with server.connect() as early, server.connect() as late:
                early.sendall(head("GET", "/healthz"))
                for _ in range(20):
                    self.assertEqual(select.select([early], [], [], 0.03)[0], [])
                    self.assertTrue(is_well(kept))
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
                early.settimeout(20 * SLOW)
                self.assertEqual(answer(early)[0], 200)
                late.settimeout(20 * SLOW)
                self.assertTrue(is_well(late))
            self.assertIn("cannot accept a connection: the limit of open files leaves no more", server.log())

    def test_a_connection_whose_file_outlives_it(self):
        """Another process also has a descriptor of the socket, as a forked child would. Closing the server's
        descriptor therefore does not end the connection. Later events on the socket must not affect the server."""
        with Server() as server:
            process = os.pidfd_open(server.process.pid)
            descriptors = f"/proc/{server.process.pid}/fd"
            before = set(os.listdir(descriptors))
            copies = []
            with server.connect() as s:
                s.sendall(head("GET", "/healthz"))
                self.assertEqual(answer(s)[0], 200)
                for name in set(os.listdir(descriptors)) - before:
                    copies.append(syscall(PIDFD_GETFD, process, int(name), 0))
                if min(copies, default=-1) < 0:
                    self.skipTest("another process's descriptors cannot be had here")
                s.sendall(head("GET", "/healthz", headers=["Connection: close"]))
                self.assertEqual(answer(s)[0], 200)
                wait_for(lambda: not set(os.listdir(descriptors)) - before, "the end of the connection")
            # Waits until the end of the connection is reported for a socket that the server no longer uses.
            time.sleep(0.2 * SLOW)
            for _ in range(20):
                self.assertEqual(server.ask("GET", "/healthz")[0], 200)
            for descriptor in (*copies, process):
                os.close(descriptor)

    @unittest.skipIf(SLOW > 1, "a sanitizer keeps memory")
    def test_memory_comes_back_after_a_large_answer(self):
        self.fill(3)
        before = self.resident()
        self.assertEqual(self.fill(2 * MEBI)[0], 200)
        wait_for(lambda: self.resident() < before + 5 * MEBI, "the memory of an answer")

    @unittest.skipIf(SLOW > 1, "a sanitizer keeps memory")
    def test_memory_comes_back_after_many_connections(self):
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        n = 5000 if files == resource.RLIM_INFINITY else min(5000, (files - 500) // 2)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        self.fill(3)
        before = self.resident()
        body = json.dumps({"signature_name": "fill", "inputs": [3]}).encode()
        with contextlib.ExitStack() as all_of_them:
            sockets = [all_of_them.enter_context(self.server.connect()) for _ in range(n)]
            for s in sockets:
                s.sendall(head("POST", "/v1/models/shapes:predict", len(body)) + body)
            for s in sockets:
                self.assertEqual(answer(s)[0], 200)
            # If the connections took no memory, the next check would prove nothing.
            self.assertGreater(self.resident(), before + n * 8 * 1024)
        wait_for(lambda: self.resident() < before + 12 * MEBI, "the memory of connections")


if __name__ == "__main__":
    unittest.main()
