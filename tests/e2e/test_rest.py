"""Tests the REST API of a running server, including TensorFlow Serving's responses and the requests of malicious
clients."""
import gzip
import json
import os
import re
import signal
import socket
import tempfile
import time
import unittest

import small_models
import support
from support import SLOW, in_some_attempt, wait_for

MODEL = "/v1/models/half_plus_two"
PREDICT = MODEL + ":predict"
METRICS = "/monitoring/prometheus/metrics"


class Server(support.Server):
    """A server that serves models/half_plus_two, with flags that the test passes."""

    def __init__(self, *flags):
        super().__init__("--model_name=half_plus_two", "--port=0",
                         "--model_base_path=" + os.path.join(support.MODELS, "half_plus_two"),
                         *flags)

    def __exit__(self, *error):
        code, log = self.stop(), self.log()
        super().__exit__(*error)
        if code != 0:
            raise AssertionError(f"the server ended with {code}: {log}")

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.rest_port))
        s.settimeout(60 * SLOW)
        return s

    def ask(self, method, path, body=b"", headers=()):
        """Sends a request on its own connection and returns (status, headers, body)."""
        with self.connect() as s:
            s.sendall(head(method, path, len(body), headers) + body)
            return answer(s, method == "HEAD")

    def send_at_once(self, sent):
        """Sends each (socket, data) pair on an idle connection, so that an I/O loop finds the data of all its
        connections in one turn."""
        self.process.send_signal(signal.SIGSTOP)
        for s, data in sent:
            s.sendall(data)
        self.process.send_signal(signal.SIGCONT)

    def bytes_in_flight(self):
        page = self.ask("GET", METRICS)[2].decode()
        return int(re.search(r"^slipway_bytes_in_flight (\d+)", page, re.M)[1])

    def come_to_rest(self):
        """The memory of a response may be released shortly after the response has arrived."""
        wait_for(lambda: self.bytes_in_flight() == 0, "the bytes in flight to come back")


def head(method, path, length=0, headers=()):
    lines = [f"{method} {path} HTTP/1.1", "Host: test"]
    if length or method == "POST":
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, *headers, "", ""]).encode()


def answer(s, no_body=False):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = s.recv(65536)
        if not piece:
            raise ConnectionError("closed before an answer")
        data += piece
    top, body = data.split(b"\r\n\r\n", 1)
    lines = top.decode().split("\r\n")
    headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
    length = 0 if no_body else int(headers.get("content-length", 0))
    while len(body) < length:
        piece = s.recv(65536)
        if not piece:
            raise ConnectionError("closed in an answer")
        body += piece
    return int(lines[0].split()[1]), headers, body


def is_closed(s):
    try:
        return s.recv(1) == b""
    except ConnectionError:
        return True


class RestTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())

    def error(self, code, words, method, path, body=b"", headers=()):
        status, _, text = self.server.ask(method, path, body, headers)
        self.assertEqual(status, code, text)
        self.assertIn(words, json.loads(text)["error"])

    def predict(self, body, **kw):
        status, _, text = self.server.ask("POST", PREDICT, body, **kw)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def test_rows_and_columns_are_answered_in_kind(self):
        self.assertEqual(self.predict(b'{"instances": [1.0, 2.0, 5.0]}'),
                         {"predictions": [2.5, 3.0, 4.5]})
        self.assertEqual(self.predict(b'{"instances": [[1, 2], [3, 4]]}'),
                         {"predictions": [[2.5, 3.0], [3.5, 4.0]]})
        self.assertEqual(self.predict(b'{"instances": [{"x": 1}, {"x": 2}]}'),
                         {"predictions": [2.5, 3.0]})
        self.assertEqual(self.predict(b'{"inputs": [3, 4]}'), {"outputs": [3.5, 4.0]})
        self.assertEqual(self.predict(b'{"inputs": {"x": 3}}'), {"outputs": 3.5})
        self.assertEqual(self.predict(b'{"signature_name": "serving_default", "inputs": 3}'),
                         {"outputs": 3.5})

    def test_the_layout_of_a_plain_answer_is_tensorflow_servings(self):
        _, headers, body = self.server.ask("POST", PREDICT, b'{"instances": [1.0, 2.0, 5.0]}')
        self.assertEqual(body, b'{\n    "predictions": [2.5, 3.0, 4.5\n    ]\n}')
        self.assertEqual(headers["content-type"], "application/json")
        self.assertEqual(set(headers), {"content-type", "content-length"})

    def test_faults_have_tensorflow_servings_codes_and_words(self):
        one = b'{"instances": [1]}'
        for code, words, path, body in (
                (400, "JSON Parse error: The document is empty", PREDICT, b""),
                (400, "JSON Parse error: Invalid value. at offset: 0", PREDICT, b"instances = []"),
                (400, "Is not object", PREDICT, b"[]"),
                (400, "not formatted correctly. 'signature_name' key must be a string value.",
                 PREDICT, b'{"signature_name": 100}'),
                (404, "Servable not found for request: Latest(nope)", "/v1/models/nope:predict",
                 one),
                (404, "Servable not found for request: Specific(half_plus_two, 99)",
                 MODEL + "/versions/99:predict", one),
                (400, "Unrecognized servable version label: nope", MODEL + "/labels/nope:predict",
                 one),
                (400, 'Serving signature name: "s" not found in signature def', PREDICT,
                 b'{"signature_name": "s", "instances": [1]}'),
                (400, "Not formatted correctly expecting only one of 'inputs' or 'instances' keys",
                 PREDICT, b'{"instances": [1], "inputs": [1]}'),
                (400, "Missing 'inputs' or 'instances' key", PREDICT, b"{}"),
                (400, "Expecting 'instances' to be an list/array", PREDICT, b'{"instances": 1}'),
                (400, "No values in 'instances' array", PREDICT, b'{"instances": []}'),
                (400, 'Failed to process element: 1 of \'instances\' list. Error: '
                 'INVALID_ARGUMENT: JSON Value: "x" Type: String is not of expected type: float',
                 PREDICT, b'{"instances": [1, "x"]}'),
                (400, "Expecting tensor size: 2 but got: 3", PREDICT,
                 b'{"instances": [[1, 2], [1, 2, 3]]}'),
                (400, "Malformed request: POST /v1/models", "/v1/models", one),
                (400, "Malformed request: POST " + MODEL + ":PREDICT", MODEL + ":PREDICT", one),
                (404, "Nothing is served at /", "/", b"")):
            with self.subTest(path=path, body=body):
                self.error(code, words, "POST", path, body)
        self.error(400, "Missing model name in request.", "GET", "/v1/models")
        self.error(400, "Failed to convert version: 99999999999999999999 to numeric.", "GET",
                   MODEL + "/versions/99999999999999999999")
        self.error(404, "Could not find any versions of model nope", "GET", "/v1/models/nope")
        self.error(404, "Could not find version 99 of model half_plus_two", "GET",
                   MODEL + "/versions/99")
        self.error(400, "Malformed request: PUT " + MODEL, "PUT", MODEL)

    def test_status_and_metadata_are_protobufs_json(self):
        _, _, body = self.server.ask("GET", MODEL)
        version = json.loads(body)["model_version_status"][0]["version"]
        self.assertEqual(body.decode(), """{
 "model_version_status": [
  {
   "version": "%s",
   "state": "AVAILABLE",
   "status": {
    "error_code": "OK",
    "error_message": ""
   }
  }
 ]
}
""" % version)
        _, _, body = self.server.ask("GET", MODEL + "/metadata")
        found = json.loads(body)
        self.assertEqual(found["model_spec"], {"name": "half_plus_two", "signature_name": "",
                                               "version": version})
        signature = found["metadata"]["signature_def"]["signature_def"]["serving_default"]
        self.assertEqual(list(signature), ["inputs", "outputs", "method_name", "defaults"])
        self.assertEqual(signature["inputs"]["x"]["dtype"], "DT_FLOAT")
        self.assertTrue(body.startswith(b'{\n"model_spec":{\n "name": "half_plus_two",\n'))

    def test_a_request_keeps_its_id(self):
        _, headers, _ = self.server.ask("GET", MODEL, headers=["X-Request-Id: mine-1"])
        self.assertEqual(headers["x-request-id"], "mine-1")
        _, headers, _ = self.server.ask("GET", MODEL, headers=["X-Request-Id: " + "a" * 129])
        self.assertRegex(headers["x-request-id"], r"^[0-9a-f]{16}$")

    def test_options_asks_for_an_origin(self):
        self.assertEqual(self.server.ask("OPTIONS", PREDICT, headers=["Origin: http://a"])[0], 200)
        self.assertEqual(self.server.ask("OPTIONS", PREDICT)[0], 400)

    def test_health_answers(self):
        self.assertEqual(self.server.ask("GET", "/healthz")[0], 200)
        self.assertEqual(self.server.ask("HEAD", "/healthz")[0], 200)
        self.assertEqual(self.server.ask("GET", "/readyz/half_plus_two")[0], 200)
        status, headers, _ = self.server.ask("GET", "/readyz/nope")
        self.assertEqual((status, headers["retry-after"]), (503, "1"))

    def test_errors_are_utf_8_whatever_a_client_sends(self):
        for method, path, body in (
                ("GET", "/v1/models/%ff%fe", b""), ("POST", "/v1/models/%ff:predict", b'{"inputs": 1}'),
                ("POST", PREDICT, b'{"signature_name": "\xff\xfe", "instances": [1]}'),
                ("POST", PREDICT, b'{"instances": ["\xff"]}')):
            status, _, got = self.server.ask(method, path, body)
            self.assertIn(status, (400, 404))
            self.assertIn("\ufffd", json.loads(got.decode())["error"])

    def test_compressed_bodies(self):
        body = b'{"instances": [1]}'
        self.assertEqual(self.predict(gzip.compress(body), headers=["Content-Encoding: gzip"]),
                         {"predictions": [2.5]})
        self.error(400, "The document is empty", "POST", PREDICT, body,
                   ["Content-Encoding: gzip"])

    def test_only_bodies_that_take_long_to_decode_are_decoded_by_workers(self):
        short = b'{"instances": [1.0]}'
        long = b'{"instances": [' + b"1.0, " * 20000 + b"1.0]}"
        with Server() as server:
            for body, passes in ((short, 1), (long, 2)):
                for data, headers in ((body, ()), (gzip.compress(body), ["Content-Encoding: gzip"])):
                    # If a worker decodes the body, the request is queued for a worker twice, and both times are
                    # counted.
                    before = server.metric("slipway_queue_duration_seconds_count")
                    self.assertEqual(server.ask("POST", PREDICT, data, headers)[0], 200)
                    now = server.metric("slipway_queue_duration_seconds_count")
                    self.assertEqual(now - before, passes, (len(body), headers))

    def test_many_bodies_that_arrive_at_once_are_decoded_by_workers(self):
        # A request that arrives alone is decoded by the I/O loop.
        body = b'{"instances": [' + b"1.0, " * 6000 + b"1.0]}"
        n = 64
        with Server("--num_rest_threads=1") as server:
            open_ones = [self.enterContext(server.connect()) for _ in range(n)]
            for s in open_ones:
                s.sendall(head("GET", "/healthz"))
                answer(s)
            before = server.metric("slipway_queue_duration_seconds_count")
            server.send_at_once((s, head("POST", PREDICT, len(body)) + body) for s in open_ones)
            for s in open_ones:
                self.assertEqual(answer(s)[0], 200)
            jobs = server.metric("slipway_queue_duration_seconds_count") - before
        self.assertGreater(jobs - n, n // 2)

    def test_long_bodies_are_read_by_workers_and_answered_as_short_ones_are(self):
        n = 60000  # more than 300 KB
        rows = [float(i % 100) for i in range(n)]
        body = json.dumps({"instances": rows}).encode()
        want = [x / 2 + 2 for x in rows]
        columns = json.dumps({"inputs": rows}).encode()
        packed = gzip.compress(os.urandom(4096).hex().encode())
        with Server() as server:
            def ask(path, data, *headers):
                status, _, got = server.ask("POST", path, data, headers)
                return status, json.loads(got)
            zipped = gzip.compress(json.dumps({"instances": [1.0] * 100000, "x": os.urandom(
                4096).hex()}).encode())
            for _ in range(3):
                self.assertEqual(ask(PREDICT, body), (200, {"predictions": want}))
                self.assertEqual(ask(PREDICT, columns), (200, {"outputs": want}))
                self.assertEqual(ask(PREDICT, zipped, "Content-Encoding: gzip"),
                                 (200, {"predictions": [2.5] * 100000}))
            status, got = ask(PREDICT, body[:-1])
            self.assertEqual(status, 400)
            self.assertIn("JSON Parse error", got["error"])
            self.assertEqual(ask(PREDICT, packed, "Content-Encoding: gzip")[0], 400)
            wrong = json.dumps({"signature_name": "none", "instances": rows}).encode()
            self.assertEqual(ask(PREDICT, wrong),
                             ask(PREDICT, b'{"signature_name": "none", "instances": [1]}'))
            status, got = ask("/v1/models/nobody:predict", body)
            self.assertEqual((status, "nobody" in got["error"]), (404, True))
            status, got = ask(MODEL + ":regress", json.dumps(
                {"examples": [{"x": v} for v in rows]}).encode())
            self.assertEqual(status, 400)
            for _ in range(5):
                with server.connect() as s:
                    s.sendall(head("POST", PREDICT, len(body)) + body)
            self.assertEqual(ask(PREDICT, body), (200, {"predictions": want}))
            server.come_to_rest()

    def test_pipelined_requests_are_answered_in_order(self):
        with self.server.connect() as s:
            sent = b""
            for x in range(20):
                body = b'{"inputs": %d}' % x
                sent += head("POST", PREDICT, len(body)) + body
            s.sendall(sent)
            # A client that closes only its sending side still gets the responses.
            s.shutdown(socket.SHUT_WR)
            data = b""
            while data.count(b'"outputs"') < 20:
                piece = s.recv(65536)
                self.assertTrue(piece)
                data += piece
        got = [float(x) for x in re.findall(rb'"outputs": ([0-9.]+)', data)]
        self.assertEqual(got, [x / 2 + 2 for x in range(20)])

    def test_a_body_too_large_is_refused_before_it_is_sent(self):
        for more in ([], ["Expect: 100-continue"]):
            with self.server.connect() as s:
                s.sendall(head("POST", PREDICT, 1 << 30, more))
                status, _, body = answer(s)
                self.assertEqual(status, 413)
                self.assertIn("max_body_bytes", json.loads(body)["error"])
                self.assertTrue(is_closed(s))

    def test_requests_of_doubtful_length_are_refused(self):
        body = b'{"inputs": 1}'
        for lines in ([f"Content-Length: {len(body)}", "Content-Length: 5"],
                      [f"Content-Length: {len(body)}", "Transfer-Encoding: chunked"],
                      [f"Content-Length : {len(body)}"],
                      [f"X: y\rContent-Length: {len(body)}"],
                      ["Transfer-Encoding : chunked"]):
            with self.subTest(lines=lines), self.server.connect() as s:
                s.sendall("\r\n".join([f"POST {PREDICT} HTTP/1.1", "Host: t", *lines, "",
                                       ""]).encode() + body)
                self.assertEqual(answer(s)[0], 400)
                self.assertTrue(is_closed(s))

    def test_a_client_that_hangs_up_leaves_nothing(self):
        for _ in range(20):
            with self.server.connect() as s:
                s.sendall(head("POST", PREDICT, 100000) + b"x" * 50000)
        self.server.come_to_rest()

    def test_half_a_million_brackets_do_no_harm(self):
        deep = b"[" * 500000 + b"]" * 500000
        self.assertEqual(self.predict(b'{"unused": ' + deep + b', "instances": [1]}'),
                         {"predictions": [2.5]})
        self.error(400, "nested deeper", "POST", PREDICT, b'{"inputs": ' + deep + b"}")

    def test_many_connections_at_once(self):
        body = b'{"inputs": 1}'
        open_ones = [self.server.connect() for _ in range(300)]
        for _ in range(3):
            for s in open_ones:
                s.sendall(head("POST", PREDICT, len(body)) + body)
            for s in open_ones:
                self.assertEqual(answer(s)[0], 200)
        for s in open_ones:
            s.close()


class LimitsTest(unittest.TestCase):
    def with_server(self, *flags):
        return self.enterContext(Server(*flags))

    def test_requests_for_metrics_that_arrive_at_once_share_a_page(self):
        n = 64
        with Server("--num_rest_threads=1") as server:
            open_ones = [self.enterContext(server.connect()) for _ in range(n)]
            for s in open_ones:
                s.sendall(head("GET", "/healthz"))
                answer(s)

            def pages(encoding):
                """Requests n metrics pages at once and returns the set of CPU times that they contain. Each page that the
                server writes contains a different CPU time, so the size of the set is the number of pages written."""
                request = head("GET", METRICS, 0, ["Accept-Encoding: " + encoding])
                server.send_at_once((s, request) for s in open_ones)
                times = set()
                for s in open_ones:
                    status, headers, body = answer(s)
                    self.assertEqual((status, headers.get("content-encoding", "identity")),
                                     (200, encoding))
                    page = gzip.decompress(body) if encoding == "gzip" else body
                    times.add(re.search(rb"^process_cpu_seconds_total (\S+)$", page, re.M)[1])
                return times

            plain, packed = pages("identity"), pages("gzip")
        for times in (plain, packed):
            self.assertLess(len(times), n // 4)
        # Pages that were written for the first requests are not reused for later requests.
        self.assertFalse(plain & packed)

    def test_requests_about_large_models_do_not_hold_up_others(self):
        # The I/O loop itself describes the model with 40 signatures. Another thread describes the model with 200.
        for n_signatures in (40, 200):
            with self.subTest(n_signatures=n_signatures):
                self.requests_about_a_model_do_not_hold_up_others(n_signatures)

    def requests_about_a_model_do_not_hold_up_others(self, n_signatures):
        n = 40
        with tempfile.TemporaryDirectory() as folder:
            def build(g):
                g.placeholder("x", "float")
                g.node("y", "Identity", "x", T="float")
            signatures = {f"signature_{i}": ({"x": ("x", "float")}, {f"y{k}": ("y", "float") for k in range(4)})
                          for i in range(n_signatures)}
            small_models.write(os.path.join(folder, "1"), signatures, build)
            server = self.with_server("--model_name=large", "--model_base_path=" + folder,
                                      "--num_rest_threads=1", "--access_log")
            open_ones = [self.enterContext(server.connect()) for _ in range(n + 1)]
            for s in open_ones:
                s.sendall(head("GET", "/healthz"))
                answer(s)
            server.send_at_once([(s, head("GET", "/v1/models/large/metadata", 0,
                                          ["Accept-Encoding: gzip", "X-Request-Id: long"]))
                                 for s in open_ones[:n]]
                                + [(open_ones[n], head("GET", "/healthz", 0, ["X-Request-Id: short"]))])
            self.assertEqual({answer(s)[0] for s in open_ones}, {200})
            ids = wait_for(lambda: (lambda found: len(found) > n and found)(
                re.findall(r" id=(long|short)\b", server.log())), "the access log")
        self.assertLess(ids.index("short"), n // 2)

    def test_large_outputs_of_a_fast_model_do_not_hold_up_others(self):
        in_some_attempt(self.check_large_outputs)

    def check_large_outputs(self):
        text = os.urandom(8192).hex()

        def build(g):
            g.placeholder("n", "int32")
            g.const("text", "string", [], string_val=[text.encode()])
            g.node("y", "Fill", "n", "text", T="string", index_type="int32")
        folder = self.enterContext(tempfile.TemporaryDirectory())
        small_models.write(os.path.join(folder, "1"),
                           {"serving_default": ({"n": ("n", "int32")}, {"y": ("y", "string")})}, build)
        server = self.with_server("--model_name=fill", "--model_base_path=" + folder, "--num_rest_threads=1", "--access_log")
        small, large = (json.dumps({"inputs": [n]}).encode() for n in (1, 500))
        with server.connect() as s, server.connect() as other:
            for encoding in ("identity", "gzip"):
                def ask(body, name):
                    return head("POST", "/v1/models/fill:predict", len(body),
                                ["Accept-Encoding: " + encoding, "X-Request-Id: " + name]) + body
                for _ in range(30):  # the scheduler learns that runs are short, and runs them on the network thread
                    s.sendall(ask(small, "small"))
                    self.assertEqual(answer(s)[0], 200)
                server.send_at_once([(s, ask(large, "large")),
                                     (other, head("GET", "/healthz", 0, ["X-Request-Id: health"]))])
                self.assertEqual(answer(other)[0], 200)
                status, headers, body = answer(s)
                self.assertEqual((status, headers.get("content-encoding", "identity")), (200, encoding))
                body = gzip.decompress(body) if encoding == "gzip" else body
                self.assertEqual(json.loads(body), {"outputs": [text] * 500})
        ids = wait_for(lambda: (lambda found: len(found) == 4 and found)(
            re.findall(r" id=(large|health)\b", server.log())), "the access log")
        self.assertEqual(ids, ["health", "large"] * 2)

    def test_chunked_bodies_meet_the_limit_too(self):
        server = self.with_server("--max_body_bytes=100000")
        piece = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
        with server.connect() as s:
            s.sendall("\r\n".join([f"POST {PREDICT} HTTP/1.1", "Host: t",
                                   "Transfer-Encoding: chunked", "", ""]).encode())
            s.sendall(piece * 10 + b"0\r\n\r\n")
            self.assertEqual(answer(s)[0], 413)
        bomb = gzip.compress(b" " * 10000000)
        status, _, body = server.ask("POST", PREDICT, bomb, ["Content-Encoding: gzip"])
        self.assertEqual(status, 400)
        self.assertIn("The document is empty", body.decode())

    def test_requests_beyond_the_budget_are_refused(self):
        server = self.with_server("--max_bytes_in_flight=1000000")
        status, _, body = server.ask("POST", PREDICT, b" " * 1000001)
        self.assertEqual(status, 429)
        self.assertIn("larger than --max_bytes_in_flight", body.decode())
        # The tensors of the first request exceed the limit, and so does the JSON text of the second request.
        for n in (200000, 400000):
            server.come_to_rest()
            status, _, body = server.ask("POST", PREDICT, b'{"inputs": [' + b"1," * n + b"1]}")
            self.assertEqual(status, 429)
            self.assertIn("--max_bytes_in_flight", body.decode())
        server.come_to_rest()
        half = b'{"inputs": [' + b"1," * 200000
        # Together, the two requests exceed the limit. The second request may fit once the first has ended.
        with server.connect() as s:
            s.sendall(head("POST", PREDICT, 600000) + half)
            wait_for(lambda: server.bytes_in_flight() >= 400000, "the other's body")
            status, headers, body = server.ask("POST", PREDICT, b" " * 700000)
            self.assertEqual((status, headers["retry-after"]), (503, "1"))
            self.assertIn("does not fit beside", body.decode())
        server.come_to_rest()
        self.assertEqual(server.ask("POST", PREDICT, b'{"inputs": 1}')[0], 200)
        server.come_to_rest()

    def test_a_slow_body_is_cut_off(self):
        server = self.with_server("--request_read_timeout_ms=500")
        with server.connect() as s:
            s.sendall(head("POST", PREDICT, 1000))
            began = time.monotonic()
            with self.assertRaises(OSError):
                while time.monotonic() < began + 60 * SLOW:
                    s.sendall(b"x")
                    time.sleep(0.05)

    def test_a_connection_beyond_the_limit_waits_for_requests_in_progress(self):
        server = self.with_server("--max_connections=2")
        body = b'{"instances": [' + b"1," * 1200000 + b"1]}"
        open_ones = [socket.socket() for _ in range(2)]
        for s in open_ones:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(60 * SLOW)
            s.connect(("127.0.0.1", server.rest_port))
            s.sendall(head("POST", PREDICT, len(body)) + body)
            s.recv(1)
        with server.connect() as late:
            late.sendall(head("GET", METRICS))
            late.settimeout(2)
            with self.assertRaises(socket.timeout):
                late.recv(1)
            open_ones.pop().close()
            late.settimeout(60 * SLOW)
            page = answer(late)[2].decode()
        open_ones.pop().close()
        self.assertIn('slipway_events_total{event="connections_full"} 1\n', page)
        self.assertNotRegex(page, 'event="(idle_connection|incomplete_request)_closed"')

    def makes_room(self, server, gone, stays, rest):
        """Connects while the number of connections is at its limit, requests the metrics page, and returns that page.
        The server must close the connection `gone` to make room. The bytes `rest` complete the request on the
        connection `stays`, which must get a response."""
        with server.connect() as late:
            late.sendall(head("GET", METRICS))
            page = answer(late)[2].decode()
            self.assertTrue(is_closed(gone))
            stays.sendall(rest)
            self.assertEqual(answer(stays)[0], 200)
        return page

    def test_the_oldest_unfinished_request_makes_room_for_who_waits(self):
        server = self.with_server("--max_connections=2", "--num_rest_threads=1")
        first, second = [self.enterContext(server.connect()) for _ in range(2)]
        for s in (first, second):
            s.sendall(head("POST", PREDICT, 13) + b'{"inputs"')
            time.sleep(0.5)
        page = self.makes_room(server, first, second, b': 1}')
        self.assertIn('slipway_events_total{event="incomplete_request_closed"} 1\n', page)
        self.assertNotIn("idle_connection_closed", page)

    def test_connections_that_never_say_anything_make_room_before_unfinished_requests(self):
        server = self.with_server("--max_connections=2", "--num_rest_threads=1")
        unfinished = self.enterContext(server.connect())
        unfinished.sendall(head("POST", PREDICT, 13))
        wait_for(lambda: server.ask("GET", "/healthz")[0] == 200, "a free connection")
        silent = self.enterContext(server.connect())
        page = self.makes_room(server, silent, unfinished, b'{"inputs": 1}')
        self.assertIn('slipway_events_total{event="idle_connection_closed"} 1\n', page)
        self.assertNotIn("incomplete_request_closed", page)

    def test_who_says_nothing_for_longest_makes_room_for_who_waits(self):
        server = self.with_server("--max_connections=3", "--num_rest_threads=1")
        first, busy, last = [self.enterContext(server.connect()) for _ in range(3)]
        busy.sendall(head("POST", PREDICT, 13))
        for s in (first, last):
            s.sendall(head("GET", "/healthz"))
            self.assertEqual(answer(s)[0], 200)
        with server.connect() as late:
            late.sendall(head("GET", "/healthz"))
            self.assertEqual(answer(late)[0], 200)
            self.assertTrue(is_closed(first))
            busy.sendall(b'{"inputs": 1}')
            self.assertEqual(answer(busy)[0], 200)
            last.sendall(head("GET", METRICS))
            page = answer(last)[2].decode()
        self.assertIn('slipway_events_total{event="connections_full"} 1\n', page)
        self.assertIn('slipway_events_total{event="idle_connection_closed"} 1\n', page)
        self.assertIn("3 connections are open, and others wait: --max_connections", server.log())

    def test_a_request_that_comes_too_late_is_told_so(self):
        server = self.with_server("--rest_api_timeout_in_ms=1")
        status, _, body = server.ask("POST", PREDICT,
                                     b'{"inputs": [' + b"1," * 1000000 + b"1]}")
        self.assertEqual(status, 504)
        self.assertIn("Timed out waiting for notification", json.loads(body)["error"])
        self.assertIn("(--rest_api_timeout_in_ms=1)", json.loads(body)["error"])

    def test_browsers_get_their_headers_when_asked_for(self):
        server = self.with_server("--rest_api_enable_cors_support")
        for path, status in ((MODEL, 200), ("/v1/models/nope", 404)):
            got, headers, _ = server.ask("GET", path)
            self.assertEqual(got, status)
            self.assertEqual(headers["access-control-allow-origin"], "*")
            self.assertEqual(headers["access-control-allow-methods"], "POST, GET")
            self.assertEqual(headers["access-control-allow-headers"], "Content-Type")

    def test_the_access_log_tells_each_request(self):
        server = self.with_server("--access_log")
        server.ask("POST", PREDICT, b'{"inputs": 1}', ["X-Request-Id: find-me"])
        line = wait_for(lambda: next((x for x in server.log().splitlines() if "id=find-me" in x),
                                     None), "the log line")
        for word in ("api=predict", "method=POST", "path=" + PREDICT, "status=200",
                     "model=half_plus_two"):
            self.assertIn(word, line)
        server.ask("GET", "/v1/models/a%0Ab", headers=["X-Request-Id: find-me-too"])
        wait_for(lambda: "model=a?b" in server.log(), "the log line")


if __name__ == "__main__":
    unittest.main()
