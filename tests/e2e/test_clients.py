"""Tests the clients: the subcommands that talk to a server, the example of the C library, and the Python package."""
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from support import MODELS, ROOT, SLOW, Server, binary, command

sys.path.insert(0, os.path.join(ROOT, "clients", "python"))
import slipway_client  # noqa: E402

try:
    import numpy as np
except ImportError:
    np = None

NEEDS_NUMPY = unittest.skipUnless(np, "numpy is not there")


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(*values):
    return (b"\x08\x01" + field(2, field(2, b"\x08" + varint(len(values))))
            + field(5, struct.pack(f"<{len(values)}f", *values)))


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)


def record(data):
    size = struct.pack("<Q", len(data))
    return size + masked(size) + data + masked(data)


def predict_log(x, y):
    """Returns a PredictionLog in which half_plus_two received x and returned y."""
    request = field(1, field(1, b"half_plus_two")) + field(2, field(1, b"x") + field(2, tensor(x)))
    return field(6, field(1, request)
                 + field(2, field(1, field(1, b"y") + field(2, tensor(y)))))


class Asked(unittest.TestCase):
    """Tests that share one server."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="slipway-clients-")
        cls.unix = "unix:" + os.path.join(cls.folder, "socket")
        cls.server = Server(f"--models={MODELS}", "--grpc_socket_path=" + cls.unix[5:])
        cls.grpc = f"grpc://127.0.0.1:{cls.server.grpc_port}"
        cls.rest = f"http://127.0.0.1:{cls.server.rest_port}"

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)
        cls.server.__exit__()

    def path(self, name):
        return os.path.join(self.folder, name)

    def good(self, *args, text_in=None):
        code, out, err = command(*args, text_in=text_in)
        self.assertEqual(code, 0, out + err)
        return out

    def bad(self, words, *args, text_in=None, status=1):
        code, out, err = command(*args, text_in=text_in)
        self.assertEqual(code, status, out + err)
        self.assertIn(words, err)
        return out


class Commands(Asked):
    def test_predict_asks_by_rest_and_by_grpc_and_says_the_same(self):
        for server in (self.rest, self.grpc, self.unix):
            ask = ["predict", "half_plus_two", "--server", server]
            self.assertEqual(json.loads(self.good(*ask, "[1, 2, 5]")),
                             {"predictions": [2.5, 3.0, 4.5]})
            self.assertEqual(json.loads(self.good(*ask, '{"x": [1, 2]}')), {"outputs": [2.5, 3.0]})
            body = '{"instances": [NaN, -Infinity]}'
            self.assertEqual(str(json.loads(self.good(*ask, text_in=body))),
                             "{'predictions': [nan, -inf]}")
            self.assertEqual(json.loads(self.good(*ask, "--signature=regress_x2_to_y3",
                                                  '{"inputs": [[2]]}')), {"outputs": [[4.0]]})
            with open(self.path("b.json"), "w", encoding="utf-8") as file:
                file.write(body)
            self.assertIn("NaN", self.good(*ask, self.path("b.json")))

    def test_refusals_come_with_the_server_s_words(self):
        for server in (self.rest, self.grpc):
            self.bad("NOT_FOUND: Servable not found for request: Latest(nobody)",
                     "predict", "nobody", "[1]", "--server", server)
            self.bad("NOT_FOUND: Could not find any versions of model nobody",
                     "status", "nobody", "--server", server)
            self.bad("NOT_FOUND", "predict", "half_plus_two", "[1]", "--model_version=77",
                     "--server", server)
        self.bad("UNAVAILABLE", "predict", "half_plus_two", "[1]", "--server=http://127.0.0.1:1")
        self.bad("UNAVAILABLE", "predict", "half_plus_two", "[1]", "--server=grpc://127.0.0.1:1")
        self.assertEqual(command("predict")[0], 2)
        self.assertEqual(command("predict", "m", "--colour=red")[0], 2)

    def test_a_server_that_says_nothing_is_not_waited_for(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            port = silent.getsockname()[1]
            for scheme in ("http", "grpc"):
                self.bad("DEADLINE_EXCEEDED", "status", "m", "--timeout=0.3",
                         f"--server={scheme}://127.0.0.1:{port}")

    def test_names_and_versions_that_do_not_fit_are_refused_by_name(self):
        grpc, rest = (["--server", self.grpc], ["--server", self.rest])
        self.bad('INVALID_ARGUMENT: the signature has no "z", but "x"',
                 "predict", "half_plus_two", '{"z": [1]}', *grpc)
        self.bad('--shape z=3: the signature has no "z", but "x"',
                 "bench", "half_plus_two", "--shape=z=3", *grpc)
        self.bad("--shape z: ALIAS=2x3", "bench", "half_plus_two", "--shape=z", *grpc, status=2)
        self.bad("--model_version 7 and --label x: only one of them",
                 "predict", "half_plus_two", "[1]", "--model_version=7", "--label=x", *grpc,
                 status=2)
        for server in (grpc, rest):
            self.assertNotIn("AVAILABLE",
                             self.bad("nosuch", "status", "half_plus_two", "--label=nosuch", *server))

    def test_an_input_is_json_or_a_file_and_nothing_else(self):
        for server in (self.rest, self.grpc):
            ask = ["predict", "half_plus_two", "--server", server]
            self.assertEqual(json.loads(self.good(*ask, "4")), {"outputs": 4.0})
            self.assertEqual(json.loads(self.good(*ask, "-2")), {"outputs": 1.0})
            self.bad("[1]: JSON is given alone", *ask, "[1]", "[2]")
            self.bad("nothing.jpg: neither a file nor JSON", *ask, "nothing.jpg")
            self.bad("3x: neither a file nor JSON", *ask, "3x")

    def test_examples_are_classified_and_regressed(self):
        by_signature = '{"signature_name": "classify_x_to_y", "examples": [{"x": 20.0}, {"x": [1.5]}]}'
        context = '{"context": {"x": 2.0}, "examples": [{}, {"name": ["a", {"b64": "/w=="}], "n": [1, true]}]}'
        for server in (self.rest, self.grpc):
            ask = ["predict", "half_plus_two", "--server", server]
            regress = "--signature=regress_x_to_y"
            self.assertEqual(json.loads(self.good(*ask, '{"examples": [{"x": 80.0}, {"x": 1.5}]}', regress)),
                             {"results": [42.0, 2.75]})
            self.assertEqual(json.loads(self.good(*ask, by_signature)),
                             {"results": [[["", 12.0]], [["", 2.75]]]})
            self.assertEqual(json.loads(self.good(*ask, "-", "--signature=classify_x_to_y",
                                                  text_in='{"examples": [{"x": 3.0}]}')), {"results": [[["", 3.5]]]})
            self.assertEqual(json.loads(self.good(*ask, context, regress)), {"results": [3.0, 3.0]})
            self.bad("Unexpected element type in feature: x expecting type: float", *ask,
                     '{"examples": [{"x": [1.0, 2]}]}', regress)
            self.bad("Feature: x has element with unexpected JSON type: Object", *ask,
                     '{"examples": [{"x": {"y": 1}}]}', regress)
            self.bad("Example must be JSON object but got JSON", *ask, '{"examples": [[1]]}', regress)
            self.bad("Unable to base64 decode", *ask, '{"examples": [{"x": {"b64": "?"}}]}', regress)
            self.bad("--out and --output are not for examples", *ask, '{"examples": [{"x": 1.0}]}', regress, "--output=y")
            self.bad("", *ask, '{"examples": []}', regress)
            self.bad('no signature "none"', *ask, '{"examples": [{"x": 1.0}]}', "--signature=none")
        self.bad('"serving_default" does neither', "predict", "half_plus_two", '{"examples": [{"x": 1.0}]}',
                 "--server", self.grpc)
        self.bad("NaN is understood over REST only", "predict", "half_plus_two", '{"examples": [{"x": NaN}]}',
                 "--signature=regress_x_to_y", "--server", self.grpc)

    def test_classified_examples_are_recorded_and_replayed(self):
        log = self.path("examples.tfrecord")
        for signature in ("classify_x_to_y", "regress_x_to_y"):
            self.good("predict", "half_plus_two", '{"examples": [{"x": 7.0}]}', "--signature", signature,
                      "--record", log, "--server", self.grpc)
        out = self.good("bench", "--replay", log, "--requests=4", "--server", self.grpc)
        self.assertNotIn("wrong answer", out)

    def test_the_wrong_port_is_guessed_and_a_missing_one_is_known(self):
        for scheme, port in (("http", self.server.grpc_port), ("grpc", self.server.rest_port)):
            server = f"--server={scheme}://127.0.0.1:{port}"
            code, _, err = command("predict", "half_plus_two", "[1]", server, "--timeout=3")
            self.assertEqual((code, err.count("\n")), (1, 1), err)
            self.assertRegex(err, "spoken at this port|not HTTP|DEADLINE|UNAVAILABLE")
        code, _, err = command("status", "m", "--server=grpc://127.0.0.2", "--timeout=2")
        self.assertEqual(code, 1)
        self.assertIn(":8500", err)
        code, _, err = command("status", "m", "--server=http://127.0.0.2", "--timeout=2")
        self.assertEqual(code, 1)
        self.assertIn("8501", err)

    def test_what_is_no_http_is_refused(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()

            def greet():
                peer, _ = other.accept()
                with peer:
                    peer.recv(4096)
                    peer.sendall(b"220 mail.example ready\r\n")

            thread = threading.Thread(target=greet)
            thread.start()
            self.bad("DATA_LOSS", "status", "m",
                     f"--server=http://127.0.0.1:{other.getsockname()[1]}")
            thread.join()

    @NEEDS_NUMPY
    def test_numpy_files_go_in_and_come_out(self):
        np.save(self.path("x.npy"), np.array([1.0, 2.0, 5.0]))
        np.savez(self.path("s.npz"), x=np.array([1, 2, 5], np.int16))
        np.savez_compressed(self.path("d.npz"), x=np.array([1, 2, 5], ">f8"))
        for server in (self.rest, self.grpc):
            for name in ("x.npy", "s.npz", "d.npz"):
                self.good("predict", "half_plus_two", self.path(name), "--out", self.path("y.npy"),
                          "--server", server)
                y = np.load(self.path("y.npy"))
                self.assertEqual(y.dtype, np.float32)
                self.assertEqual(y.tolist(), [2.5, 3.0, 4.5])
            self.good("predict", "half_plus_two", "--input", "x=" + self.path("x.npy"),
                      "--output=y", "--server", server)
            self.bad('has no "z"', "predict", "half_plus_two", "--input",
                     "z=" + self.path("x.npy"), "--server", server)

    def test_other_files_are_strings(self):
        # The Example lacks x, and the signature takes serialized Examples.
        with open(self.path("example.bin"), "wb") as file:
            file.write(field(1, field(1, field(1, b"x") + field(2, field(2, field(
                1, struct.pack("<f", 2)))))))
        for server in (self.rest, self.grpc):
            out = self.good("predict", "half_plus_two", self.path("example.bin"), "--signature",
                            "regress_x_to_y", "--server", server)
            self.assertEqual(json.loads(out), {"outputs": [[3.0]]})

    def test_status_of_one_or_all_and_metadata(self):
        self.assertIn("AVAILABLE", self.good("status", "half_plus_two", "--server", self.grpc))
        every = self.good("status", "--server", self.rest)
        for name in ("half_plus_two", "counter", "digits"):
            self.assertIn(name, every)
        self.bad("gRPC has no list of models", "status", "--server", self.grpc, status=2)
        by_rest = json.loads(self.good("metadata", "digits", "--json", "--server", self.rest))
        by_grpc = json.loads(self.good("metadata", "digits", "--json", "--server", self.grpc))
        self.assertEqual(by_rest, by_grpc)
        self.assertEqual(by_rest["signatures"]["serving_default"]["inputs"]["pixels"]["shape"],
                         [-1, 8, 8, 1])
        self.assertIn("DT_FLOAT", self.good("metadata", "digits", "--server", self.grpc))

    def test_status_of_all_lists_a_model_without_a_version(self):
        folder = tempfile.mkdtemp(prefix="slipway-models-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        os.mkdir(os.path.join(folder, "coming"))
        shutil.copytree(os.path.join(MODELS, "half_plus_two"), os.path.join(folder, "there"))
        with Server(f"--models={folder}", "--model_wait_seconds=1") as server:
            status, out, err = command("status", "--server", server.url)
            self.assertEqual((status, err), (1, ""))
            self.assertRegex(out, r"coming +-  has no versions\n")
            self.assertRegex(out, r"there +2  AVAILABLE\n")
            self.assertEqual(json.loads(command("status", "--json", "--server", server.url)[1])["coming"], [])

    def bench(self, *args, code=0):
        got, out, err = command("bench", *args, "--json")
        self.assertEqual(got, code, out + err)
        return json.loads(out)

    def test_bench_counts_right_answers(self):
        for server in (self.rest, self.grpc):
            r = self.bench("half_plus_two", "--requests=200", "--concurrency=4", "--server", server)
            self.assertEqual((r["answered"], r["failed"], r["wrong"], r["loop"]),
                             (200, 0, 0, "closed"))
            times = r["latency_ms"]
            self.assertTrue(0 < times["p50"] <= times["p99"] <= times["max"])
        r = self.bench("digits", "--rate=100", "--seconds=0.5", "--warmup=0", "--server", self.grpc)
        self.assertEqual((r["loop"], r["answered"], r["wrong"]), ("open", 50, 0))
        self.assertGreaterEqual(r["latency_ms"]["mean"], r["service_ms"]["mean"])

    def test_bench_reports_a_wrong_answer_and_a_failure(self):
        # Each call increments the counter, so no later response equals the first one.
        r = self.bench("counter", "--signature=incr", "--requests=10", "--server", self.grpc, code=1)
        self.assertEqual((r["answered"], r["wrong"]), (10, 10))
        self.assertIn("element 0 is", r["first_wrong"])
        r = self.bench("counter", '{"inputs": 1}', "--signature=incr_by", "--requests=10",
                       "--server", self.rest, code=1)
        self.assertEqual(r["wrong"], 10)
        self.bad("NOT_FOUND", "bench", "nobody", "--server", self.grpc)

    def test_a_stall_shows_in_an_open_loop(self):
        """A client with a fixed request rate measures latencies while the server stalls temporarily. The latencies of
        delayed requests must include the time for which these requests waited."""
        with socket.socket() as slow:
            slow.bind(("127.0.0.1", 0))
            slow.listen()

            def serve():
                peer, _ = slow.accept()
                peer.settimeout(5)
                answer = b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{\"outputs\": [1.0]}"
                for i in range(60):
                    try:
                        if not peer.recv(4096):
                            peer.close()
                            peer, _ = slow.accept()
                            peer.recv(4096)
                        if i == 10:
                            stalled.wait(0.5)
                        peer.sendall(answer)
                    except OSError:
                        break
                peer.close()

            stalled = threading.Event()
            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            r = self.bench("m", '{"inputs": [1]}', "--rate=50", "--seconds=1", "--warmup=0",
                           "--concurrency=1",
                           f"--server=http://127.0.0.1:{slow.getsockname()[1]}")
        self.assertEqual(r["answered"], 50)
        # About two dozen requests must have waited, not only the stalled request.
        self.assertGreater(r["latency_ms"]["p90"], 200)
        self.assertLess(r["service_ms"]["p90"], r["latency_ms"]["p90"] / 2)

    def test_a_log_is_replayed_and_wrong_answers_are_found(self):
        with open(self.path("log"), "wb") as file:
            for i in range(20):
                file.write(record(predict_log(i, i / 2 + 2)))
        r = self.bench("--replay", self.path("log"), "--server", self.grpc)
        self.assertEqual((r["answered"], r["wrong"]), (20, 0))
        with open(self.path("log"), "ab") as file:
            file.write(record(b"\x0a\x00"))  # writes a log record that has no request
            file.write(record(predict_log(4, 4.01)))
        r = self.bench("--replay", self.path("log"), "--server", self.grpc, code=1)
        self.assertEqual((r["answered"], r["wrong"], r["skipped"]), (21, 1, 1))
        self.assertIn('output "y": element 0 is 4, not 4.01', r["first_wrong"])
        self.bench("--replay", self.path("log"), "--server", self.grpc, "--tolerance=0.01")
        with open(self.path("log"), "ab") as file:
            file.write(b"torn")
        self.bad("truncated record at", "bench", "--replay", self.path("log"), "--server", self.grpc)

    def test_what_is_asked_can_be_recorded_and_replayed(self):
        log = self.path("recorded")
        for x in ("[1]", "[2, 3]"):
            self.good("predict", "half_plus_two", x, "--record", log, "--server", self.grpc)
        self.bad("over gRPC", "predict", "half_plus_two", "[1]", "--record", log, "--server", self.rest,
                 status=2)
        r = self.bench("--replay", log, "--server", self.grpc)
        self.assertEqual((r["answered"], r["wrong"], r["skipped"]), (2, 0, 0))
        # The copy of the log serves as the version's goldens. The version's outputs equal the logged outputs, so the server
        # accepts the version.
        version = self.path("models/half_plus_two/2")
        shutil.copytree(os.path.join(MODELS, "half_plus_two", "2"), version)
        os.makedirs(os.path.join(version, "assets.extra"), exist_ok=True)
        shutil.copy(log, os.path.join(version, "assets.extra", "slipway_golden_requests"))
        with Server(f"--models={self.path('models')}") as server:
            self.assertEqual(server.predict("half_plus_two", [1.0]), [2.5])

    def test_the_c_library_s_example_asks(self):
        example = os.path.join(os.path.dirname(binary()), "slipway_example")
        done = subprocess.run([example, f"127.0.0.1:{self.server.grpc_port}", "1", "2", "5"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=30 * SLOW, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = done.stdout.splitlines()
        self.assertEqual((said[0], said[-1]), ("version 2 is AVAILABLE", "version 2 says 2.5 3 4.5"))
        self.assertIn("serving_default takes x: DT_FLOAT", said)
        done = subprocess.run([example, "127.0.0.1:1"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=30 * SLOW, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("UNAVAILABLE", done.stderr)


class Reload(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="slipway-clients-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.config = os.path.join(self.folder, "config")
        with open(self.config, "w", encoding="utf-8") as file:
            file.write("model_config_list { config { name: 'again' model_platform: 'tensorflow' "
                       f"base_path: '{MODELS}/half_plus_two' }} }}")

    def test_reload_replaces_what_is_served(self):
        with Server(f"--models={MODELS}") as server:
            grpc = f"grpc://127.0.0.1:{server.grpc_port}"
            code, out, err = command("reload", self.config, "--server", grpc)
            self.assertEqual((code, out), (0, "reloaded: 1 model\n"), err)
            self.assertEqual(server.predict("again", [1.0]), [2.5])
            code, _, err = command("reload", "-", "--server", grpc, text_in="model_config_list { x }")
            self.assertEqual(code, 1)
            # As in protobuf's own error message, the reported position is that of the token after the unknown name.
            self.assertIn("1:23", err)

    def test_a_token_is_sent(self):
        token = os.path.join(self.folder, "token")
        with open(token, "w", encoding="utf-8") as file:
            file.write("open-sesame\n")
        with Server(f"--models={MODELS}", f"--admin_token_file={token}") as server:
            ask = ["reload", self.config, "--server", f"grpc://127.0.0.1:{server.grpc_port}"]
            self.assertEqual(command(*ask)[0], 1)
            code, out, err = command(*ask, "--token_file", token)
            self.assertEqual(code, 0, out + err)


@unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="slipway-tls-")
        cls.cert, cls.key = (os.path.join(cls.folder, n) for n in ("cert.pem", "key.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                        "-keyout", cls.key, "-out", cls.cert],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ssl = os.path.join(cls.folder, "ssl.config")
        with open(cls.key, encoding="utf-8") as key, open(cls.cert, encoding="utf-8") as cert, \
                open(ssl, "w", encoding="utf-8") as file:
            text = cert.read()
            file.write(f"server_key: {json.dumps(key.read())}\nserver_cert: {json.dumps(text)}\n"
                       f"custom_ca: {json.dumps(text)}\nclient_verify: true\n")
        cls.server = Server(f"--models={MODELS}", f"--ssl_config_file={ssl}",
                            f"--rest_tls_cert_file={cls.cert}", f"--rest_tls_key_file={cls.key}",
                            f"--rest_tls_client_ca_file={cls.cert}", wait=False)
        # The server accepts only clients that present its own certificate.
        cls.us = ["--ca", cls.cert, "--cert", cls.cert, "--key", cls.key]
        for _ in range(int(300 * SLOW)):
            if command("status", "half_plus_two", *cls.us,
                       f"--server=grpcs://localhost:{cls.server.grpc_port}")[0] == 0:
                return
        raise AssertionError(cls.server.log())

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def urls(self, host="localhost"):
        return (f"https://{host}:{self.server.rest_port}", f"grpcs://{host}:{self.server.grpc_port}")

    def test_commands_ask_by_tls_and_only_whom_they_trust(self):
        for url in self.urls() + self.urls("127.0.0.1"):
            code, out, err = command("predict", "half_plus_two", "[1]", "--server", url, *self.us)
            self.assertEqual((code, json.loads(out or "0")), (0, {"predictions": [2.5]}), url + err)
        for url in self.urls():
            for wrong in (self.us[2:], self.us[:2], [*self.us, "--server_name=other.example"]):
                code, _, err = command("predict", "half_plus_two", "[1]", "--server", url,
                                       "--timeout=3", *wrong)
                self.assertEqual(code, 1, url)
                self.assertRegex(err, "certificate|handshake|UNAVAILABLE")
        for url in self.urls():
            code, _, err = command("predict", "half_plus_two", "[1]", "--timeout=5",
                                   "--server", url.replace("s://", "://"))
            self.assertEqual((code, err.count("\n")), (1, 1), err)
            self.assertIn("spoken at this port?)", err)
        self.assertNotRegex(self.server.log(), r"(?m)^[EI]\d{4} ")
        code, out, err = command("bench", "half_plus_two", "--requests=50", "--concurrency=2",
                                 "--server", self.urls()[0], *self.us)
        self.assertEqual(code, 0, out + err)

    @NEEDS_NUMPY
    def test_python_asks_by_tls(self):
        rest, grpc = self.urls()
        us = {"ca": self.cert, "cert": self.cert, "key": self.key}
        with slipway_client.connect(rest, **us) as client:
            self.assertEqual(client.predict("half_plus_two", [1.0]), [2.5])
        with slipway_client.connect(grpc, **us) as client:
            self.assertEqual(client.predict("half_plus_two", [1.0])["y"].tolist(), [2.5])
        with slipway_client.connect(rest) as client, self.assertRaises(slipway_client.Error) as no:
            client.predict("half_plus_two", [1.0])
        self.assertEqual(no.exception.code, "UNAVAILABLE")
        with slipway_client.connect(rest.replace("localhost", "127.0.0.1"), **us,
                                    server_name="localhost") as client:
            self.assertEqual(client.predict("half_plus_two", [1.0]), [2.5])


class Python(Asked):
    def both(self):
        for url in (self.rest, self.grpc) if np else (self.rest,):
            with slipway_client.connect(url) as client:
                yield client

    def test_rest_needs_nothing_but_python(self):
        with slipway_client.connect(self.rest) as client:
            self.assertEqual(client.predict("half_plus_two", [1.0, 2.0, 5.0]), [2.5, 3.0, 4.5])
            self.assertEqual(client.predict("half_plus_two", inputs={"x": [1.0]}), [2.5])
            if np:
                self.assertEqual(client.predict("half_plus_two", np.array([1.0], np.float32)), [2.5])

    def test_status_metadata_and_errors_are_alike(self):
        metadata = []
        for client in self.both():
            versions = client.status("half_plus_two")
            self.assertEqual([(v.version, v.state, v.code) for v in versions], [(2, "AVAILABLE", "OK")])
            metadata.append(client.metadata("half_plus_two"))
            with self.assertRaises(slipway_client.Error) as no:
                client.status("nobody")
            self.assertEqual((no.exception.code, no.exception.message),
                             ("NOT_FOUND", "Could not find any versions of model nobody"))
            self.assertEqual(client.regress("half_plus_two", [{"x": 80.0}, {"x": [2.0]}],
                                            signature="regress_x_to_y"), [42.0, 3.0])
            self.assertEqual(client.classify("half_plus_two", [{}], context={"x": 20.0},
                                             signature="classify_x_to_y"), [[("", 12.0)]])
        self.assertEqual(metadata[0], metadata[-1])
        self.assertEqual(metadata[0].signatures["serving_default"].inputs["x"].dtype, "DT_FLOAT")

    @NEEDS_NUMPY
    def test_arrays_go_and_come_by_grpc(self):
        with slipway_client.connect(self.grpc) as client:
            answer = client.predict("half_plus_two", {"x": np.array([1, 2, 5], np.float32)})
            self.assertEqual((answer.model, answer.version, answer.signature),
                             ("half_plus_two", 2, "serving_default"))
            self.assertEqual(answer["y"].tolist(), [2.5, 3.0, 4.5])
            self.assertEqual(answer["y"].dtype, np.float32)
            self.assertEqual(client.predict("half_plus_two", 1)["y"].shape, ())
            with slipway_client.connect(self.unix) as same:
                self.assertEqual(same.predict("half_plus_two", [1])["y"].tolist(), [2.5])
            with self.assertRaises(slipway_client.Error) as no:
                client.predict("half_plus_two", np.array(["a"]))
            self.assertIn("to be float but string is provided", no.exception.message)
            self.assertEqual(list(client.predict("half_plus_two", [1], outputs=["y"])), ["y"])
            self.assertIn("get", client.metadata("counter").signatures)
            client.predict("counter", {}, signature="get")

    def test_a_mapping_is_taken_as_inputs(self):
        with slipway_client.connect(self.rest) as client:
            self.assertEqual(client.predict("half_plus_two", {"x": [1.0]}), [2.5])
            with self.assertRaises(slipway_client.InputError):
                client.predict("half_plus_two", [object()])
        with self.assertRaises(ValueError) as no:
            slipway_client.connect("127.0.0.1:8500")
        self.assertIn("grpc://127.0.0.1:8500 or http://127.0.0.1:8500", str(no.exception))

    @NEEDS_NUMPY
    def test_arrays_become_the_model_s_types_or_are_refused(self):
        from slipway_client import _messages
        with slipway_client.connect(self.grpc) as client:
            for array in (np.array([1.0, 2.0]), np.array([1, 2])):
                self.assertEqual(client.predict("half_plus_two", {"x": array})["y"].tolist(), [2.5, 3])
            for wrong in ([1, "a"], np.array([object()]), [[1], [2, 3]]):
                with self.assertRaises(slipway_client.Error) as no:
                    client.predict("half_plus_two", {"x": wrong})
                self.assertIsInstance(no.exception, ValueError)
        self.assertEqual(_messages.as_array(np.array([3.0]), "DT_INT32").dtype, np.int32)
        self.assertEqual(_messages.as_array([1, 0], "DT_BOOL").tolist(), [True, False])
        for array, dtype in (([0.5], "DT_INT32"), (np.array([-1]), "DT_UINT64"),
                             (np.array([300]), "DT_UINT8"), (np.array([1e19]), "DT_INT64")):
            with self.assertRaises(ValueError):
                _messages.as_array(array, dtype)

    @NEEDS_NUMPY
    def test_the_official_client_s_messages_are_taken(self):
        from tensorflow_serving.apis import get_model_status_pb2, predict_pb2
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "half_plus_two"
        request.inputs["x"].ParseFromString(tensor(1, 2))
        with slipway_client.connect(self.grpc) as client:
            answer = client.predict(request)
            self.assertIsInstance(answer, predict_pb2.PredictResponse)
            self.assertEqual(list(answer.outputs["y"].float_val), [2.5, 3.0])
            asked = get_model_status_pb2.GetModelStatusRequest()
            asked.model_spec.name = "half_plus_two"
            self.assertEqual(client.status(asked).model_version_status[0].version, 2)
            with self.assertRaises(TypeError):
                client.predict(asked)

    @NEEDS_NUMPY
    def test_tensors_of_each_type_come_back_as_they_were(self):
        from slipway_client import _messages
        from tensorflow.core.framework import tensor_pb2
        for code in ("f4", "f8", "i4", "u1", "i2", "i1", "c8", "i8", "?", "u2", "c16", "f2", "u4", "u8"):
            array = np.arange(6).reshape(2, 3).astype(code)
            back = _messages.read_tensor(_messages.write_tensor(array))
            self.assertEqual((back.dtype, back.tolist()), (array.dtype, array.tolist()))
        strings = np.array([b"a", b"\x00\xff"], object)
        self.assertEqual(_messages.read_tensor(_messages.write_tensor(strings)).tolist(),
                         [b"a", b"\x00\xff"])
        # The last int8 value in the typed field int_val is repeated for all remaining elements.
        proto = tensor_pb2.TensorProto(dtype=6)
        proto.tensor_shape.dim.add().size = 3
        proto.int_val.extend([1, -2])
        self.assertEqual(_messages.read_tensor(proto.SerializeToString()).tolist(), [1, -2, -2])
        numbers = [0, 1, 127, 128, -1, 2**63 - 1, -2**63]
        proto = tensor_pb2.TensorProto(dtype=9, int64_val=numbers)
        proto.tensor_shape.dim.add().size = len(numbers)
        self.assertEqual(_messages.read_tensor(proto.SerializeToString()).tolist(), numbers)
        # Parsing a truncated message must raise no exception other than ValueError.
        for cut in range(1, len(proto.SerializeToString())):
            try:
                _messages.read_tensor(proto.SerializeToString()[:cut])
            except ValueError:
                pass

    def test_a_server_that_says_nothing_is_not_waited_for(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            for scheme in ("http", "grpc") if np else ("http",):
                url = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}"
                with slipway_client.connect(url, timeout=0.3) as client, \
                        self.assertRaises(slipway_client.Error) as no:
                    client.status("m")
                self.assertEqual(no.exception.code, "DEADLINE_EXCEEDED")

    def test_the_package_asks_from_the_shell(self):
        environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "clients", "python"))
        for url in (self.rest, self.grpc) if np else (self.rest,):
            out = subprocess.run([sys.executable, "-m", "slipway_client", url, "half_plus_two",
                                  "[1, 2]"], env=environment, stdout=subprocess.PIPE, text=True,
                                 timeout=60 * SLOW, check=True).stdout
            self.assertIn("2.5, 3.0", out)

    @NEEDS_NUMPY
    def test_reload_by_base_paths(self):
        with Server(f"--models={MODELS}") as server, \
                slipway_client.connect(f"grpc://127.0.0.1:{server.grpc_port}") as client:
            client.reload({"mine": os.path.join(MODELS, "half_plus_two")})
            self.assertEqual(client.predict("mine", [1])["y"].tolist(), [2.5])
            one = slipway_client.ModelConfig("mine", os.path.join(MODELS, "half_plus_two"),
                                             versions=[1, 2], labels={"stable": 2})
            client.reload([one])
            self.assertEqual(client.predict("mine", [1], label="stable").version, 2)


del Asked  # The base class is deleted, so that unittest does not run it as a separate test.

if __name__ == "__main__":
    unittest.main()
