"""Tests the web page: its headers and files, its events, its viewers, and what strangers may not."""
import contextlib
import gzip
import http.client
import json
import os
import re
import select
import signal
import socket
import ssl
import threading
import time
import unittest

import grpc

import grpc_support
import small_models
import support
from support import MODELS, SLOW, wait_for

EVENTS = "/page/events"
FILES = {"/": "text/html; charset=utf-8", "/page/page.css": "text/css; charset=utf-8",
         "/page/page.js": "text/javascript; charset=utf-8", "/page/icon.svg": "image/svg+xml"}
HOSTILE = ['<img src=x onerror="document.title=1">', 'a"]}\\', "x\n\ndata: {}\n\nevent: y", "\u2028<script>alert(1)</script>",
           "${1}`'&lt;", "../..%2f"]
MOST_BYTES = 150_000
VIEWERS = 256  # SRV_REST_MAX_VIEWERS
PHASES = ["receive", "decode", "queue", "run", "encode"]


def events_request(port, extra=""):
    return (f"GET {EVENTS} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\nConnection: close\r\n"
            f"{extra}\r\n").encode()


def read_all(connection):
    parts = []
    while True:
        part = connection.recv(1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)


def event_of(body):
    """Checks that the body is one event, and returns its JSON."""
    match = re.fullmatch(rb"retry: 250\ndata: ([^\n\r]*)\n\n", body)
    if not match:
        raise AssertionError(body)
    return json.loads(match[1])


class PageCase(support.Case):
    def serve(self, *flags, **how):
        server = support.Server(*flags, **how)
        self.addCleanup(server.__exit__)
        return server

    def ask(self, server, path, method="GET", body=None, **headers):
        """Returns (status, headers, body)."""
        connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=30 * SLOW)
        if path == EVENTS:
            headers = {"Accept": "text/event-stream", **headers}
        with_dashes = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, headers=with_dashes)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, answer.headers, body

    def event(self, server):
        status, headers, body = self.ask(server, EVENTS)
        self.assertEqual((status, headers["Content-Type"]), (200, "text/event-stream"), body)
        return event_of(body)

    def hostile_models(self):
        """Writes a model whose signature and tensors have hostile names, and a config that serves it under such
        names."""
        def build(g):
            g.placeholder("x", "float")
            g.node("y", "Identity", "x", T="float")

        inputs, outputs = {HOSTILE[0]: ("x", "float", [2])}, {HOSTILE[3]: ("y", "float", [2])}
        small_models.write(self.path("hostile", "1"),
                           {name: (inputs, outputs) for name in HOSTILE}, build)
        lines = []
        for name in HOSTILE:
            quoted = "".join(f"\\{b:03o}" for b in name.encode())
            lines.append(f'config {{ name: "{quoted}" base_path: "{self.path("hostile")}" '
                         f'model_platform: "tensorflow" }}')
        return self.write("models.config", "model_config_list {" + "\n".join(lines) + "}")


class Page(PageCase):
    @classmethod
    def setUpClass(cls):
        cls.server = support.Server(f"--models={MODELS}", "--page_hosts=models.lan,gpu-1")
        cls.addClassCleanup(cls.server.__exit__)

    def test_files_are_small_and_strict(self):
        total = 0
        for path, content_type in FILES.items():
            status, headers, body = self.ask(self.server, path)
            self.assertEqual((status, headers["Content-Type"]), (200, content_type))
            self.check_headers(headers)
            total += len(body)
            with open(os.path.join(support.ROOT, "server", "page", path.rsplit("/", 1)[1] or "page.html"), "rb") as file:
                self.assertEqual(body, file.read())
            self.assertNotRegex(body, rb"(src|href)=\"(?!/page/|#)|https://|<style|<script>| on[a-z]+=")
            _, packed_headers, packed = self.ask(self.server, path, Accept_Encoding="gzip")
            if packed_headers["Content-Encoding"] == "gzip":
                self.assertLess(len(packed), len(body))
                self.assertEqual(gzip.decompress(packed), body)
        self.assertLess(total, MOST_BYTES)
        self.assertEqual(self.ask(self.server, "/", method="HEAD")[0], 200)
        self.assertEqual(self.ask(self.server, "/", method="POST")[0], 404)

    def check_headers(self, headers):
        policy = headers["Content-Security-Policy"]
        self.assertIn("default-src 'none'", policy)
        self.assertIn("require-trusted-types-for 'script'", policy)
        self.assertIn("frame-ancestors 'none'", policy)
        self.assertNotIn("unsafe", policy)
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        self.assertEqual(headers["Cross-Origin-Resource-Policy"], "same-origin")
        self.assertEqual(headers["Cache-Control"], "no-store")
        self.assertIsNone(headers["Access-Control-Allow-Origin"])

    def test_an_event_has_the_states_and_the_counts(self):
        before = {v["model"]: v for v in self.event(self.server)["versions"]}
        self.server.predict("half_plus_two", [1, 2, 5])
        self.assertEqual(self.server.post("/v1/models/half_plus_two:predict", {"instances": ["x"]})[0], 400)
        event = self.event(self.server)
        after = {v["model"]: v for v in event["versions"]}
        self.assertEqual(sorted(after), sorted(m for m in os.listdir(MODELS)
                                               if os.path.isdir(os.path.join(MODELS, m)) and self.server.states(m)))
        old, new = before["half_plus_two"], after["half_plus_two"]
        self.assertEqual((new["version"], new["state"], new["device"], new["precision"]), ("2", "AVAILABLE", "CPU", "float32"))
        self.assertEqual(new["weight_bytes"], 8)
        self.assertGreater(new["held_bytes"], new["weight_bytes"])
        self.assertEqual(new["answered"] - old["answered"], 1)
        self.assertEqual(new["rows"] - old["rows"], 3)
        self.assertEqual(sum(new["latency"]) - sum(old["latency"]), 1)
        self.assertEqual(sum(new["batches"]) - sum(old["batches"]), 1)
        self.assertEqual(event["ready"], True)
        wait_for(lambda: self.event(self.server)["requests_in_flight"] == 0, "the connections of the requests to close")
        self.assertGreater(event["resident_bytes"], 1 << 20)
        self.check_headers(self.ask(self.server, EVENTS)[1])

    def errors(self, model):
        status, headers, body = self.ask(self.server, "/page/errors/" + model)
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"), body)
        self.check_headers(headers)
        return json.loads(body)["errors"]

    def count_of_errors(self, model):
        return next(v["errors"] for v in self.event(self.server)["versions"] if v["model"] == model)

    def test_the_last_errors_of_a_model_are_kept(self):
        server, path = self.server, "/v1/models/digits"
        before = self.count_of_errors("digits")
        self.assertEqual(server.post(path + ":predict", {"signature_name": "<b>", "instances": [1]})[0], 400)
        self.assertEqual(server.request(path + ":predict", b"{")[0], 400)
        self.assertEqual(server.get(path + "/versions/77/metadata")[0], 404)
        with grpc_support.Client(f"127.0.0.1:{server.grpc_port}") as client, self.assertRaises(grpc.RpcError):
            client.predict(model="digits")
        wait_for(lambda: self.count_of_errors("digits") == before + 4, "the errors")
        rpc, version, json_error, name = self.errors("digits")[:4]
        self.assertEqual([e["code"] for e in (rpc, json_error, name)], ["INVALID_ARGUMENT"] * 3)
        self.assertEqual([e["api"] for e in (rpc, version, json_error, name)], ["predict", "metadata", "predict", "predict"])
        self.assertEqual((version["code"], version["version"], rpc["version"]), ("NOT_FOUND", "", "1"))
        self.assertIn("<b>", name["text"])
        self.assertIn("JSON", json_error["text"])
        self.assertLess(abs(rpc["at_ms"] / 1000 - time.time()), 3600)
        for i in range(20):
            server.post(path + ":predict", {"signature_name": f"{i}" + "x" * 1000, "instances": [1]})
        last = self.errors("digits")
        self.assertEqual(len(last), 16)
        self.assertRegex(last[0]["text"], r"19x+\.\.\.$")
        self.assertLess(len(last[0]["text"]), 300)

    def test_errors_of_no_model_are_kept_together(self):
        """Errors of unknown models, and of gRPC calls that name no model."""
        server, before = self.server, self.event(self.server)["errors"]
        with grpc_support.Client(f"127.0.0.1:{server.grpc_port}") as client:
            def call(method, message):
                with self.assertRaises(grpc.RpcError):
                    client.channel.unary_unary(method, request_serializer=None, response_deserializer=None)(
                        message, timeout=grpc_support.WAIT)

            call("/no.<b>Service/NoMethod", b"")
            call("/tensorflow.serving.PredictionService/Predict", b"\x0a\xff")
            call("/tensorflow.serving.PredictionService/Predict", b"\x0a\x06\x0a\x04none")
            call("/tensorflow.serving.ModelService/HandleReloadConfigRequest", b"\x0a\xff")
            call("/inference.GRPCInferenceService/RepositoryModelLoad", b"\x12\x04none")
        self.assertEqual(server.post("/v1/models/gone:predict", {"instances": [1]})[0], 404)
        wait_for(lambda: self.event(server)["errors"] >= before + 6, "the errors")
        errors = self.errors("")
        rest, _, _, unknown, malformed, method = errors[:6]
        self.assertEqual((rest["code"], rest["api"]), ("NOT_FOUND", "predict"))
        self.assertIn("gone", rest["text"])
        self.assertEqual((unknown["code"], unknown["api"], unknown["version"]), ("NOT_FOUND", "predict", ""))
        self.assertIn("none", unknown["text"])
        self.assertEqual((malformed["code"], malformed["api"]), ("INVALID_ARGUMENT", "predict"))
        self.assertEqual((method["code"], method["api"]), ("UNIMPLEMENTED", "other"))
        self.assertIn("/no.<b>Service/NoMethod", method["text"])
        self.assertEqual([e for e in errors if "digits" in e["text"]], [])
        status, _, body = self.ask(self.server, "/page/errors/no%22ne")
        self.assertEqual(status, 404)
        self.assertIn('no errors of model no\\"ne: it does not serve', body.decode())

    def test_the_plan_of_a_signature(self):
        status, headers, body = self.ask(self.server, "/page/plan/digits/serving_default")
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"), body)
        self.check_headers(headers)
        plan = json.loads(body)
        self.assertEqual((plan["version"], plan["left_off"]), ("1", 0))
        self.assertEqual(self.ask(self.server, "/page/plan/digits")[0], 200)
        steps = [node for node in plan["nodes"] if node["runs"]]
        fused = [node for node in steps if "relu" in node["fused"].lower()]
        self.assertTrue(fused, plan)
        self.assertGreater(fused[0]["flops"], 0)
        self.assertTrue(all(node.get("kernel") for node in steps), plan)
        names = {node["name"] for node in plan["nodes"]}
        inner = [pair[0] for node in steps for pair in node["in"] if pair[0]]
        self.assertTrue(inner)
        self.assertLessEqual({name.split(":")[0] for name in inner}, names)
        for path, words in (("digits/no%22ne", 'has no signature no\\"ne'), ("none/x", "Servable not found")):
            status, _, body = self.ask(self.server, "/page/plan/" + path)
            self.assertEqual(status, 404)
            self.assertIn(words, body.decode())

    def test_plans_are_read_while_the_model_runs(self):
        def run():
            for rows in range(1, 9):
                pixels = [[[[0.0]] * 8] * 8] * rows
                self.assertEqual(len(self.server.predict("digits", pixels)), rows)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            status, _, body = self.ask(self.server, "/page/plan/digits")
            self.assertEqual(status, 200)
            self.assertTrue(json.loads(body)["nodes"])
        for thread in threads:
            thread.join()

    def begin_profile(self, path, **headers):
        """Returns (status, body)."""
        status, answered, body = self.ask(self.server, "/page/profile/" + path, method="POST", **headers)
        self.check_headers(answered)
        return status, body.decode()

    def profile(self, path):
        status, headers, body = self.ask(self.server, "/page/profile/" + path)
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"), body)
        self.check_headers(headers)
        return json.loads(body)

    def take_profile(self):
        """Returns a profile of three requests for half_plus_two, between others. A profile ends after a minute, so that a
        slow machine may need a further attempt."""
        server = self.server
        while True:
            wait_for(lambda: self.begin_profile("half_plus_two/3", Origin=server.url)[0] == 200, "the last profile to end", 120)
            status, body = self.begin_profile("digits/3")
            self.assertTrue(status == 200 or "another profile runs" in body, body)
            server.predict("digits", [[[[0.0]] * 8] * 8])
            server.predict("half_plus_two", [1, 2])
            self.assertEqual(server.request("/v1/models/half_plus_two:predict", b"{")[0], 400)
            with grpc_support.Client(f"127.0.0.1:{server.grpc_port}") as client:
                client.predict((1.0, 2.0, 5.0))
            wait_for(lambda: not self.profile("half_plus_two")["running"], "the end of the profile", 120)
            server.predict("half_plus_two", [1])
            requests = self.profile("half_plus_two")["requests"]
            if len(requests) == 3:
                return requests

    def test_a_profile_has_the_phases_of_the_next_requests(self):
        self.assertEqual(self.profile("half_plus_two"), {"running": False, "phases": PHASES, "requests": []})
        rest, bad, rpc = self.take_profile()
        self.assertEqual([(r["entry"], r["api"], r["code"]) for r in (rest, bad, rpc)],
                         [("REST", "predict", "OK"), ("REST", "predict", "INVALID_ARGUMENT"), ("GRPC", "predict", "OK")])
        self.assertEqual((rest["rows"], rpc["rows"], rest["version"]), (2, 3, "2"))
        for r in (rest, rpc):
            self.assertTrue(all(r["phases"]), r)
            times = [time for phase in r["phases"] for time in phase]
            self.assertEqual(times, sorted(times))
            self.assertGreaterEqual(times[0], r["begin_us"])
            self.assertLessEqual(times[-1], r["end_us"])
        self.assertEqual(rest["begin_us"], 0)
        self.assertEqual(self.profile("digits"), {"running": False, "phases": PHASES, "requests": []})
        self.assertEqual(self.ask(self.server, "/page/profile/none")[0], 404)
        self.assertEqual(self.begin_profile("digits/201")[0], 400)

    def test_a_plan_has_the_times_of_the_last_profile(self):
        def plan():
            return json.loads(self.ask(self.server, "/page/plan/digits/serving_default")[2])

        pixels = [[[0.0]] * 8] * 8
        self.server.predict("digits", [pixels])
        while True:
            wait_for(lambda: self.begin_profile("digits/8", Origin=self.server.url)[0] == 200, "the last profile to end", 120)
            self.assertEqual(plan()["profiled_runs"], 0)  # a new profile forgets the times of the last one
            for rows in (1, 2, 3, 4) * 2:
                self.server.predict("digits", [pixels] * rows)
            wait_for(lambda: not self.profile("digits")["running"], "the end of the profile", 120)
            measured = plan()
            if len(self.profile("digits")["requests"]) == 8:
                break
        self.assertTrue(1 <= measured["profiled_runs"] <= 8, measured)
        steps = [node for node in measured["nodes"] if node["runs"]]
        self.assertTrue(all(node["us"] > 0 for node in steps if node["flops"]), measured)
        total = sum(node.get("us", 0) for node in measured["nodes"])
        self.assertGreater(total, 0)
        self.assertLessEqual(total, measured["profiled_us"] * 1.001 + 0.01)
        self.server.predict("digits", [pixels])
        self.assertEqual(plan()["profiled_runs"], measured["profiled_runs"])
        other = json.loads(self.ask(self.server, "/page/plan/half_plus_two/serving_default")[2])
        self.assertEqual((other["profiled_runs"], [node for node in other["nodes"] if "us" in node]), (0, []))

    def test_viewers_share_the_bytes_of_an_event(self):
        """Events are a second apart, so that there are few for many viewers."""
        answers, seconds = self.watch(40)
        bodies = {answer.split(b"\r\n\r\n", 1)[1] for answer in answers}
        self.assertLessEqual(len(bodies), int(seconds) + 2)
        for body in bodies:
            event_of(body)
        packed = self.ask(self.server, EVENTS, Accept_Encoding="gzip")[2]
        event_of(gzip.decompress(packed))

    def watch(self, n):
        """Returns the answers to n viewers that ask at once, and the seconds that they took."""
        self.event(self.server)
        connections = []
        try:
            for _ in range(n):
                connections.append(socket.create_connection(("127.0.0.1", self.server.rest_port), timeout=60 * SLOW))
            start = time.monotonic()
            for connection in connections:
                connection.sendall(events_request(self.server.rest_port))
            self.assertEqual(self.server.predict("half_plus_two", [2]), [3.0])
            answers = [read_all(connection) for connection in connections]
            return answers, time.monotonic() - start
        finally:
            for connection in connections:
                connection.close()

    def test_nothing_is_computed_when_nobody_looks(self):
        folder = f"/proc/{self.server.process.pid}/task"
        for task in os.listdir(folder):
            with contextlib.suppress(OSError), open(f"{folder}/{task}/comm", encoding="ascii") as file:
                if file.read().strip() == "page-events":
                    break
        else:
            self.fail("there is no thread page-events")

        def switches():
            with open(f"{folder}/{task}/status", encoding="ascii") as file:
                return re.findall(r"ctxt_switches:\t(\d+)", file.read())

        def rest():
            before = switches()
            time.sleep(0.3)
            return before if switches() == before else None

        self.event(self.server)
        before = wait_for(rest, "the thread to rest")
        time.sleep(2.5)
        self.assertEqual(switches(), before)
        self.event(self.server)
        self.assertNotEqual(switches(), before)

    def test_foreign_hosts_and_origins_are_refused(self):
        def ask(path, **headers):
            return self.ask(self.server, path, "POST" if path.endswith("/1") else "GET", **headers)

        for path in (*FILES, EVENTS, "/page/errors/half_plus_two", "/page/plan/half_plus_two",
                     "/page/profile/half_plus_two", "/page/profile/half_plus_two/1"):
            for host in ("evil.example", f"evil.example:{self.server.rest_port}", "localhost.evil.example", "127.0.0.1.evil"):
                status, headers, body = ask(path, Host=host)
                self.assertEqual(status, 403)
                self.assertIn(f'is not served as \\"{host}\\"', body.decode())
                self.assertIsNone(headers["Access-Control-Allow-Origin"])
            for origin in ("http://evil.example", "null", f"http://127.0.0.1:{self.server.rest_port + 1}"):
                status, _, body = ask(path, Origin=origin)
                self.assertEqual(status, 403)
                self.assertIn("the request has the foreign Origin", body.decode())
            for site in ("cross-site", "same-site"):
                status, _, body = ask(path, Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors")
                self.assertEqual(status, 403)
                self.assertIn("Sec-Fetch-Site is neither same-origin nor none", body.decode())
            if path not in FILES:
                self.assertEqual(ask(path, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0], 403)
        self.assertEqual(self.ask(self.server, "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0], 200)
        self.assertEqual(self.ask(self.server, "/", Origin="https://models.lan", Host="models.lan")[0], 200)
        self.assertEqual(self.ask(self.server, "/", Origin="https://proxy", Sec_Fetch_Site="same-origin")[0], 200)
        for host in ("localhost", "models.lan", "GPU-1:80", "[::1]:8501"):
            self.assertEqual(self.ask(self.server, "/", Host=host)[0], 200)
        # The APIs answer as before, under any name.
        self.assertEqual(self.ask(self.server, "/v1/models/half_plus_two", Host="evil.example")[0], 200)

    def test_images_and_scripts_take_no_places_of_viewers(self):
        """By plain HTTP to an address, browsers send neither Origin nor Sec-Fetch headers for them."""
        for accept in ("image/avif,image/webp,image/svg+xml,image/*,*/*;q=0.8", "*/*", "text/html,*/*;q=0.8", "text/css,*/*",
                       "text/event-stream;q=0", ""):
            status, _, body = self.ask(self.server, EVENTS, Accept=accept)
            self.assertEqual((status, b"whose Accept names text/event-stream" in body), (403, True), body)
        self.event(self.server)

    def test_a_thousand_viewers(self):
        """VIEWERS of them get events. The others are refused, and requests are answered meanwhile."""
        answers, seconds = self.watch(1000)
        served = [a for a in answers if a.startswith(b"HTTP/1.1 200 ")]
        refused = [a for a in answers if a.startswith(b"HTTP/1.1 503 ")]
        self.assertEqual(len(served) + len(refused), 1000)
        self.assertGreaterEqual(len(served), VIEWERS)
        self.assertLessEqual(len(served), VIEWERS * (int(seconds) + 2))
        for answer in refused:
            self.assertIn(b"the page has 256 viewers, its fixed limit", answer)
            self.assertIn(b"Retry-After: ", answer)
        for answer in served:
            event_of(answer.split(b"\r\n\r\n", 1)[1])
        self.event(self.server)  # the places are free again


class PageOptions(PageCase):
    def test_off(self):
        for how in ({"as_tensorflow": True}, {}):
            flags = [f"--model_base_path={MODELS}/half_plus_two"] if how else [f"--models={MODELS}", "--page=false"]
            server = self.serve(*flags, **how)
            for path in (*FILES, EVENTS):
                status, _, body = self.ask(server, path)
                self.assertEqual((status, "Nothing is served at " + path in body.decode()), (404, True))

    def test_viewers_do_not_hold_up_the_end_of_the_server(self):
        server = self.serve(f"--models={MODELS}")
        self.event(server)
        viewers = [socket.create_connection(("127.0.0.1", server.rest_port), timeout=60 * SLOW) for _ in range(20)]
        for viewer in viewers:
            viewer.sendall(events_request(server.rest_port))
        start = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - start, 10 * SLOW)
        for viewer in viewers:
            event_of(read_all(viewer).split(b"\r\n\r\n", 1)[1])
            viewer.close()

    def test_plans_count_against_the_budget(self):
        names = [f"{i}{'n' * 3000}" for i in range(60)]

        def build(g):
            g.placeholder("x", "float")
            for before, name in zip(["x", *names], names):
                g.node(name, "Softmax", before, T="float")

        small_models.write(self.path("long", "1"), {"serving_default": ({"x": ("x", "float", [2])},
                                                                        {"y": (names[-1], "float", [2])})}, build)
        most = 4 << 20
        server = self.serve(f"--model_base_path={self.path('long')}", "--model_name=long", f"--max_bytes_in_flight={most}",
                            f"--max_body_bytes={most - 300_000}")
        self.assertGreater(len(self.ask(server, "/page/plan/long")[2]), 200_000)
        with socket.create_connection(("127.0.0.1", server.rest_port)) as other:
            other.sendall(f"POST /v1/models/long:predict HTTP/1.1\r\nHost: x\r\nContent-Length: {most - 300_000}\r\n\r\n"
                          .encode() + b" " * (most - 300_001))
            wait_for(lambda: server.metric("slipway_bytes_in_flight") >= most - 300_001, "the body of another request")
            status, _, body = self.ask(server, "/page/plan/long")
            self.assertEqual((status, b"does not fit beside the requests in flight" in body), (503, True), body[:200])

    def test_descriptions_of_models_do_not_wait_for_plans(self):
        n_nodes, n_plans = 10_000, 100

        def build(g):
            g.placeholder("x", "float")
            for i in range(n_nodes):
                g.node(f"n{i}", "Softmax", f"n{i - 1}" if i else "x", T="float")

        last = {"serving_default": n_nodes - 1, **{str(i) * 3000: 0 for i in range(9)}}
        small_models.write(self.path("long", "1"), {name: ({"x": ("x", "float", [2])}, {"y": (f"n{i}", "float", [2])})
                                                    for name, i in last.items()}, build)
        server = self.serve(f"--model_base_path={self.path('long')}", "--model_name=long", "--num_rest_threads=1")
        plans = []
        try:
            for _ in range(n_plans):
                plans.append(socket.create_connection(("127.0.0.1", server.rest_port), timeout=60 * SLOW))
                plans[-1].sendall(b"GET /page/plan/long HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            status, body = server.get("/v1/models/long/metadata")  # which is long enough for a thread of its own
            answered = select.select(plans, [], [], 0)[0]
        finally:
            for plan in plans:
                plan.close()
        self.assertEqual((status, len(body) > 9 * 3000), (200, True))
        self.assertLess(len(answered), n_plans * 0.9)

    def test_a_version_that_fails_has_its_reason(self):
        self.put("m/half_plus_two/1")
        server = self.serve(f"--models={self.path('m')}")
        os.makedirs(self.path("m/half_plus_two/3"))
        self.write("m/half_plus_two/3/saved_model.pb", "nonsense")
        bad = wait_for(lambda: [v for v in self.event(server)["versions"] if v["version"] == "3" and v["message"]],
                       "the failure of version 3")
        self.assertNotEqual(bad[0]["state"], "AVAILABLE")
        self.assertIn("saved_model.pb", bad[0]["message"])

    def test_problems_that_concern_no_version_are_shown(self):
        def problems(model):
            return [v["message"] for v in self.event(server)["versions"] if (v["model"], v["version"]) == (model, "")]

        def config(*lines):
            self.write("models.config", "model_config_list {" + "".join(
                f'config {{ name: "{name}" base_path: "{path}" model_platform: "{platform}" }}\n'
                for name, path, platform in lines) + "}")

        self.put("good/1")
        os.makedirs(self.path("empty/no_number"))
        os.makedirs(self.path("bad/3"))
        self.write("bad/3/saved_model.pb", "nonsense")
        good = ("good", self.path("good"), "tensorflow")
        config(good, ("away", self.path("no such path"), "tensorflow"), ("empty", self.path("empty"), "tensorflow"),
               ("bad", self.path("bad"), "tensorflow"))
        server = self.serve(f"--model_config_file={self.path('models.config')}",
                            "--model_config_file_poll_wait_seconds=1", "--file_system_poll_wait_seconds=1", wait=False)
        wait_for(lambda: server.get("/healthz")[0] == 200, "the server")
        (away,) = wait_for(lambda: problems("away"), "the missing base path")
        self.assertIn("no such path", away)
        (empty,) = wait_for(lambda: problems("empty"), "the empty base path")
        self.assertIn("No versions of servable empty found", empty)
        self.assertEqual(problems("good"), [])
        wait_for(lambda: [v for v in self.event(server)["versions"] if v["model"] == "bad" and v["state"] == "END"],
                 "the failure of the version")
        self.assertEqual(problems("bad"), [])
        os.rename(self.path("bad"), self.path("moved"))
        (bad,) = wait_for(lambda: problems("bad"), "the base path that went")
        self.assertIn(self.path("bad"), bad)
        self.assertEqual(self.event(server)["troubles"], [])
        config(good, ("other", self.path("good"), "caffe<b>"))
        (trouble,) = wait_for(lambda: self.event(server)["troubles"], "the config that is ignored")
        self.assertRegex(trouble, r"models\.config is ignored: .*caffe<b>")
        config(good)
        wait_for(lambda: not self.event(server)["troubles"], "the end of the problem")

    def test_hostile_names_stay_in_their_strings(self):
        server = self.serve(f"--model_config_file={self.hostile_models()}")
        event = self.event(server)
        self.assertEqual(sorted(v["model"] for v in event["versions"]), sorted(HOSTILE))
        self.assertEqual({v["state"] for v in event["versions"]}, {"AVAILABLE"})

    def test_many_models_are_cut_and_a_viewer_that_does_not_read_is_cut_off(self):
        lines = [f'config {{ name: "{i}{"n" * 3000}" base_path: "{self.path("none")}/{"x" * 200}" '
                 f'model_platform: "tensorflow" }}' for i in range(300)]
        config = self.write("models.config", "model_config_list {" + "\n".join(lines) + "}")
        server = self.serve(f"--model_config_file={config}", "--request_read_timeout_ms=1000", wait=False)
        wait_for(lambda: server.get("/healthz")[0] == 200, "the server")
        event = wait_for(lambda: self.event(server)["left_off"] and self.event(server), "300 models")
        self.assertEqual((len(event["versions"]), event["left_off"]), (256, 44))
        self.assertEqual({v["state"] for v in event["versions"]}, {"NONE"})
        self.assertIn("Could not find any versions of model", event["versions"][0]["message"])
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", server.rest_port))
            slow.sendall(events_request(server.rest_port))
            wait_for(lambda: server.metric('slipway_events_total{event="slow_answer_cut_off"}'), "the viewer to be cut off")
        self.event(server)


class PageAddress(PageCase):
    """The page at an address of its own. A PagePort stands for a server where only the port of its address matters."""
    class PagePort:
        def __init__(self, port):
            self.rest_port = port

    def serve_at(self, *flags):
        """Returns a server and its page's port, which the kernel has chosen."""
        server = self.serve("--page_address=127.0.0.1:0", *flags)
        port = re.search(r"^page  http://127\.0\.0\.1:(\d+)/$", server.out(), re.MULTILINE)
        self.assertTrue(port, server.out())
        return server, self.PagePort(int(port[1]))

    def test_the_page_and_what_its_form_needs_are_there_and_nothing_else(self):
        server, page = self.serve_at(f"--models={MODELS}", "--rest_api_enable_cors_support", "--page_hosts=models.lan")
        predict, body = "/v1/models/half_plus_two:predict", b'{"instances": [2]}'
        reads = (*FILES, EVENTS, "/page/errors/half_plus_two", "/page/plan/half_plus_two", "/page/profile/half_plus_two",
                 "/v1/models/half_plus_two/metadata")
        for path in reads:
            status, headers, _ = self.ask(page, path)
            self.assertEqual((status, headers["X-Frame-Options"]), (200, "DENY"), path)
        own = f"http://127.0.0.1:{page.rest_port}"
        self.assertEqual(self.ask(page, "/page/profile/half_plus_two/1", "POST", Origin=own)[0], 200)
        status, headers, answer = self.ask(page, predict, "POST", body, Origin=own)
        self.assertEqual((status, json.loads(answer)), (200, {"predictions": [3.0]}))
        self.assertIsNone(headers["Access-Control-Allow-Origin"])
        for method, path in (("GET", "/v1/models/half_plus_two"), ("POST", "/v1/models/half_plus_two:classify"),
                             ("OPTIONS", predict), ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/v2"),
                             ("GET", "/monitoring/prometheus/metrics"), ("POST", "/v2/models/half_plus_two/infer"),
                             ("POST", "/v2/repository/models/half_plus_two/unload")):
            status, _, answer = self.ask(page, path, method, body if method == "POST" else None)
            self.assertEqual((status, f"{path} is not served at --page_address" in answer.decode()), (404, True), answer)
        for path in (*FILES, EVENTS, "/page/errors/half_plus_two"):
            status, _, answer = self.ask(server, path)
            self.assertEqual((status, "Nothing is served at " + path in answer.decode()), (404, True), answer)
        for path, method in ((predict, "POST"), ("/v1/models/half_plus_two/metadata", "GET"), ("/", "GET")):
            sent = body if method == "POST" else None
            for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": server.url},
                            {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"}):
                status, answered, _ = self.ask(page, path, method, sent, **headers)
                self.assertEqual((status, answered["Access-Control-Allow-Origin"]), (403, None), (path, headers))
            self.assertEqual(self.ask(page, path, method, sent, Host="models.lan")[0], 200)
        self.assertEqual(self.ask(server, predict, "POST", body, Host="evil.example", Origin="http://evil.example")[0], 200)

    def test_a_swap_and_the_end_of_the_server_are_seen(self):
        self.put("m/half_plus_two/1")
        server, page = self.serve_at(f"--models={self.path('m')}")
        self.put("m/half_plus_two/7")
        wait_for(lambda: {v["version"] for v in self.event(page)["versions"] if v["state"] == "AVAILABLE"} == {"7"},
                 "the new version")
        viewers = [socket.create_connection(("127.0.0.1", page.rest_port), timeout=60 * SLOW) for _ in range(20)]
        for viewer in viewers:
            viewer.sendall(events_request(page.rest_port))
        # Connections that still wait to be accepted when the server begins to end are served too.
        self.assertEqual(server.stop(), 0)
        for viewer in viewers:
            event_of(read_all(viewer).split(b"\r\n\r\n", 1)[1])
            viewer.close()
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", page.rest_port), timeout=1)

    def test_both_addresses_share_the_limit_of_connections(self):
        server, page = self.serve_at(f"--models={MODELS}", "--max_connections=4")
        fresh = [socket.create_connection(("127.0.0.1", port), timeout=60 * SLOW)
                 for port in (page.rest_port, server.rest_port) * 8]
        for port in (page, server):
            self.assertEqual(self.ask(port, "/v1/models/half_plus_two:predict", "POST", b'{"instances": [2]}')[0], 200)
        for connection in fresh:
            connection.close()
        self.assertGreater(server.metric('slipway_events_total{event="connections_full"}'), 0)

    def test_connections_that_come_at_once_are_told_apart(self):
        """The server accepts connections of both addresses in one turn of its I/O loop."""
        server, page = self.serve_at(f"--models={MODELS}", "--num_rest_threads=1")
        server.process.send_signal(signal.SIGSTOP)
        connections = [(port, socket.create_connection(("127.0.0.1", port), timeout=60 * SLOW))
                       for port in (page.rest_port, server.rest_port) * 6]
        for port, connection in connections:
            connection.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
        server.process.send_signal(signal.SIGCONT)
        for port, connection in connections:
            status = read_all(connection).split(b" ", 2)[1]
            self.assertEqual(status, b"200" if port == page.rest_port else b"404")
            connection.close()

    def test_it_needs_no_rest_port(self):
        server = self.serve("--page_address=[::1]:0", f"--models={MODELS}", "--rest_api_port=0", wait=False)
        port = wait_for(lambda: re.search(r"^page  http://\[::1\]:(\d+)/$", server.out(), re.MULTILINE), "the page's port")
        self.assertNotIn("REST", server.out())
        with socket.create_connection(("::1", int(port[1])), timeout=60 * SLOW) as viewer:
            viewer.sendall(events_request(int(port[1])))
            event_of(read_all(viewer).split(b"\r\n\r\n", 1)[1])

    def test_it_speaks_tls_if_rest_does(self):
        grpc_support.certificate(self.folder, "server")
        key, cert = self.path("server.key"), self.path("server.crt")
        server = self.serve("--page_address=127.0.0.1:0", f"--models={MODELS}", f"--rest_tls_key_file={key}",
                            f"--rest_tls_cert_file={cert}", wait=False)
        port = wait_for(lambda: re.search(r"^page  https://127\.0\.0\.1:(\d+)/$", server.out(), re.MULTILINE),
                        "the page's port")
        context = ssl.create_default_context(cafile=cert)
        context.check_hostname = False
        connection = http.client.HTTPSConnection("127.0.0.1", int(port[1]), timeout=30 * SLOW, context=context)
        connection.request("GET", "/")
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()

    def test_an_address_that_cannot_be_had_refuses_the_start(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            for address, words in ((f"127.0.0.1:{port}", f"cannot listen for the page at 127.0.0.1:{port}: Address already in use"),
                                   ("nowhere.invalid:0", "cannot listen for the page at nowhere.invalid:0: "),
                                   ("192.0.2.1:0", "cannot listen for the page at 192.0.2.1:0: Cannot assign")):
                for how in ({}, {"as_tensorflow": True}):
                    flags = [f"--model_base_path={MODELS}/half_plus_two", "--page"] if how else [f"--models={MODELS}"]
                    server = self.serve(*flags, f"--page_address={address}", wait=False, **how)
                    self.assertEqual(server.process.wait(60 * SLOW), 255)
                    self.assertIn(words, server.out())


if __name__ == "__main__":
    unittest.main()
