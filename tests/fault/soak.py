#!/usr/bin/env python3
"""Implements `./run soak`: the clients of tests/e2e/test_stress.py, and misbehaving clients, send requests to one
server for an hour (--seconds) while versions, labels and models are added and removed. The hour
consists of laps of equal length. At the end of each lap, the gauges must be those of an idle server.

After the first third of the laps, the number of descriptors and the number of threads must not grow. Resident memory
must not grow by more than MAY_GROW_KB from the middle third to the last third. Every response must have a code that
ALLOWED of test_stress.py permits in its situation, and every required code must occur. The last line is "N passed, M
failed", counting laps."""
import argparse
import collections
import gzip
import importlib.util
import json
import os
import random
import socket
import struct
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MAY_GROW_KB = 8 << 10
MOST_LAPS = 12


def make_importable():
    spec = importlib.util.spec_from_file_location(
        "end_to_end", os.path.join(ROOT, "tests", "e2e", "run.py"))
    end_to_end = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(end_to_end)
    out = os.path.join(ROOT, "build", "python")
    end_to_end.generate(out)
    end_to_end.make_importable(out)


def gauges(server):
    """Returns the gauges whose values differ from those of an idle server."""
    rest = 'slipway_requests_in_flight{entrypoint="REST"}'
    wrong = {}
    for name in ("slipway_bytes_in_flight", "slipway_jobs", "slipway_queue_requests", rest,
                 'slipway_requests_in_flight{entrypoint="GRPC"}'):
        value = server.metric(name)
        if value != (1 if name == rest else 0):
            wrong[name] = value
    return wrong


def soak(seconds, n_laps, seed):
    import test_stress  # pylint: disable=import-outside-toplevel
    from support import Server, wait_for  # pylint: disable=import-outside-toplevel

    class RudeClients(test_stress.Clients):
        """The clients of test_stress.py, and clients that send compressed or large bodies, abandon requests or
        responses, send bytes that are not a request, or cancel calls."""

        def asks(self):
            return super().asks() + [self.compressed, self.large, self.large_grpc, self.half_a_request,
                                     self.half_an_answer, self.noise, self.short_watch]

        def numbers(self, client, n):
            return [float(client.random.randrange(1000)) for _ in range(n)]

        def compressed(self, client):
            import http.client  # pylint: disable=import-outside-toplevel
            x = self.numbers(client, 3000)
            connection = http.client.HTTPConnection("127.0.0.1", self.server.rest_port, timeout=60)
            try:
                connection.request("POST", "/v1/models/still:predict",
                                   gzip.compress(json.dumps({"instances": x}).encode()),
                                   {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"})
                answer = connection.getresponse()
                text = answer.read()
            finally:
                connection.close()
            self.seen.code("REST gzip", "still", {200: "OK"}.get(answer.status, str(answer.status)), text[:200])
            if answer.status == 200:
                got = json.loads(gzip.decompress(text))["predictions"]
                self.seen.check("REST gzip", "still", got, [v / 2 + 1 for v in x])

        def large(self, client):
            x = self.numbers(client, 50000)
            status, text = self.http("POST", "/v1/models/still:predict", {"instances": x})
            self.seen.code("REST large", "still", {200: "OK"}.get(status, str(status)), text[:200])
            if status == 200:
                self.seen.check("REST large", "still", json.loads(text)["predictions"],
                                [v / 2 + 1 for v in x])

        def large_grpc(self, client):
            request = test_stress.predict_pb2.PredictRequest()
            test_stress.fill(request.model_spec, model="still")
            x = self.numbers(client, 50000)
            t = request.inputs["x"]
            t.dtype, t.tensor_content = 1, struct.pack(f"{len(x)}f", *x)
            t.tensor_shape.dim.add(size=len(x))

            def check(answer):
                y = answer.outputs["y"]
                got = list(y.float_val) or list(memoryview(y.tensor_content).cast("f"))
                self.seen.check("Predict, large", "still", got, [v / 2 + 1 for v in x])
            self.call("Predict, large", "still", self.prediction.Predict, request, check)

        def left(self, client, data, read, port=None):
            """Sends `data`, reads a part of the response, and closes the connection. Half of the connections are closed
            by a reset."""
            with socket.create_connection(("127.0.0.1", port or self.server.rest_port), 60) as s:
                s.settimeout(60)
                if client.random.random() < 0.5:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                try:
                    s.sendall(data)
                    if read:
                        s.recv(read)
                except OSError:
                    pass

        @staticmethod
        def message(body, length=None):
            return (f"POST /v1/models/still:predict HTTP/1.1\r\nHost: x\r\n"
                    f"Content-Length: {length or len(body)}\r\n\r\n").encode() + body

        def half_a_request(self, client):
            body = json.dumps({"instances": self.numbers(client, 20000)}).encode()
            whole = self.message(body)
            self.left(client, whole[:client.random.randrange(1, len(whole))], 0)

        def half_an_answer(self, client):
            body = json.dumps({"instances": self.numbers(client, 50000)}).encode()
            self.left(client, self.message(body), client.random.choice([0, 1, 1000]))

        def noise(self, client):
            port = client.random.choice([self.server.rest_port, self.server.grpc_port])
            self.left(client, client.random.randbytes(client.random.randrange(1, 3000)), 0, port)

        def short_watch(self, client):
            watch = self.health.Watch(
                test_stress.health_pb2.HealthCheckRequest(service="still"), timeout=60)
            self.seen.check("Watch", "still", next(watch).status, 1)
            time.sleep(client.random.uniform(0, 0.01))
            watch.cancel()

    class Soak(test_stress.Stress):
        def until(self, end):
            i = 0
            while time.monotonic() < end:
                yield i
                i += 1

        def quiet(self):
            """Waits until the server is idle. Returns its number of descriptors, number of threads, and resident memory
            in kilobytes."""
            wait_for(lambda: not gauges(self.server), lambda: f"gauges: {gauges(self.server)}", 20)
            time.sleep(2.5)  # the server returns memory to the system at most every two seconds
            return self.resources()

        def runTest(self):
            dice = random.Random(seed)
            laps, all_seen, wrong = [], test_stress.Seen(), []
            file = self.write("models.config", str(self.config([1], {}, False).config))
            with Server(f"--model_config_file={file}", "--enable_session_service",
                        "--allow_version_labels_for_unavailable_models=false",
                        "--max_num_load_retries=0") as server:
                self.server = server
                begun = time.monotonic()
                for lap in range(n_laps):
                    end = time.monotonic() + seconds / n_laps
                    clients = self.everything(self.until(end), dice, RudeClients)
                    all_seen.codes.update(clients.seen.codes)
                    wrong += clients.seen.wrong
                    laps.append(self.quiet())
                    print(f"lap {lap + 1}: {sum(clients.seen.codes.values())} answers, {laps[-1][0]} "
                          f"descriptors, {laps[-1][1]} threads, {laps[-1][2]} KiB", flush=True)
                    if wrong:
                        break
                self.assertEqual(wrong[:20], [])
                if seconds >= 300:
                    self.assertEqual(list(all_seen.missing()), [])
                files, threads, _ = laps[n_laps // 3]
                for lap in laps[n_laps // 3:]:  # gRPC core starts its own timer threads.
                    self.assertLessEqual(lap[0], files)
                    self.assertLessEqual(lap[1], threads + 2)
                middle = max(kb for _, _, kb in laps[n_laps // 3:2 * n_laps // 3])
                last = max(kb for _, _, kb in laps[2 * n_laps // 3:])
                codes = collections.Counter()
                for (_, _, code), n in all_seen.codes.items():
                    codes[code] += n
                print("came: " + ", ".join(f"{n} {code}" for code, n in codes.most_common()))
                print(f"{sum(all_seen.codes.values())} answers in {time.monotonic() - begun:.0f} s; resident "
                      f"{middle} KiB in the middle third, {last} in the last", flush=True)
                self.assertLess(last, middle + MAY_GROW_KB)
                self.assertEqual(server.stop(), 0)
                self.assertNotIn("Sanitizer", server.log())
    return Soak()


def main():
    parser = argparse.ArgumentParser(prog="./run soak", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    os.environ["SLIPWAY"] = os.path.abspath(os.path.join(args.build, "slipway"))
    make_importable()
    n_laps = max(3, min(MOST_LAPS, int(args.seconds / 30) // 3 * 3))
    test = soak(args.seconds, n_laps, args.seed)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=0).run(test)
    failed = len(result.failures) + len(result.errors)
    print(f"{0 if failed else n_laps} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
