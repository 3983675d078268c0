"""Tests state that one signature of a model writes and other signatures read. Tests every way in which the server runs
the model."""
import concurrent.futures
import json
import random
import time

import small_models
from support import SLOW, Case, Server, wait_for

SETTINGS = ((), ("--specialise=off",), ("--enable_model_warmup=false",), ("--autotune=off",))
RUNS = 60  # enough runs for tier 1, in which code is compiled for a shape that has occurred twice


class State(Case):
    def ask(self, server, signature, x=1.0):
        status, body = server.post("/v1/models/counter:predict",
                                   {"signature_name": signature, "inputs": {"x": x}})
        self.assertEqual(status, 200, body)
        return json.loads(body)["outputs"]

    def test_what_was_written_last_is_read(self):
        for is_ref in (True, False):
            kind = "ref" if is_ref else "resource"
            small_models.write_counter(self.path(f"{kind}/counter/1"), is_ref)
            for flags in SETTINGS:
                with self.subTest(kind=kind, flags=flags), \
                        Server(f"--models={self.path(kind)}", *flags) as server:
                    value, draw = 40.0, random.Random(7)
                    for _ in range(RUNS):
                        turn = draw.choice(("add", "value", "value", "sum"))
                        if turn == "add":
                            self.assertEqual(self.ask(server, "add", 3.0), 3.0)
                            value += 3
                        elif turn == "sum":
                            self.assertEqual(self.ask(server, "sum"), value + 1)
                        else:
                            self.assertEqual(self.ask(server, "value"), value)


class Draws(Case):
    """Tests the generator of a node with a seed, which every run advances once, whichever thread the run is on."""

    def draws(self, *flags):
        """Returns the first numbers of each of a sequence of runs. Large outputs are not sent by the network's thread."""
        numbers = []
        with Server(f"--models={self.path('models')}", *flags) as server:
            for n in [10] * 60 + [30000] + [10] * 3 + [30000] + [10] * 3:
                status, body = server.post("/v1/models/draws:predict", {"inputs": {"n": [n]}})
                self.assertEqual(status, 200, body)
                numbers.append(json.loads(body)["outputs"][:3])
        return numbers

    def test_a_run_that_a_worker_repeats_draws_once(self):
        def build(g):
            g.placeholder("n", "int32")
            node = g.node("u", "RandomUniform", "n", T="int32", dtype="float")
            node.attr["seed"].i, node.attr["seed2"].i = 3, 4

        small_models.write(self.path("models/draws/1"), {"serving_default": ({"n": ("n", "int32")}, {"u": ("u", "float")})}, build)
        by_workers = self.draws("--inline_max_us=0")
        self.assertEqual(self.draws(), by_workers)
        self.assertEqual(self.draws("--enable_model_warmup=false"), by_workers)


class Held(Case):
    """Tests requests that wait for state while another request holds its lock for as long as its deadline allows."""

    def infer(self, server, signature, timeout_s, **data):
        """Returns the status and the seconds until the answer."""
        inputs = [{"name": k, "shape": [], "datatype": "BYTES" if isinstance(v, str) else "INT32", "data": [v]} for k, v in data.items()]
        start = time.monotonic()
        status, body = server.post(f"/v2/models/held@{signature}/infer",
                                   {"inputs": inputs, "parameters": {"timeout": int(timeout_s * 1e6)}})
        return status, time.monotonic() - start, body

    def test_the_waiting_end_with_their_deadlines_and_delay_nobody(self):
        small_models.write_held(self.path("models/held/1"))
        small_models.write_counter(self.path("models/counter/1"), False)
        for hold, read, data in (("hold_table", "find", {"x": "k"}), ("hold_variable", "first", {})):
            with self.subTest(hold), Server(f"--models={self.path('models')}", "--num_rest_threads=1", "--num_workers=4") as server, \
                    concurrent.futures.ThreadPoolExecutor(5) as pool:
                for _ in range(30):  # so that reads run on the network thread
                    self.assertEqual(self.infer(server, read, 60 * SLOW, **data)[0], 200)
                held = pool.submit(self.infer, server, hold, 6 * SLOW, n=1000000)
                wait_for(lambda: server.metric("slipway_jobs") == 1, "the run that holds the lock")
                time.sleep(1)
                waiting = [pool.submit(self.infer, server, read, 1 * SLOW, **data) for _ in range(2)]
                longest = 0
                while not held.done():
                    start = time.monotonic()
                    self.assertEqual(server.get("/v1/models/counter")[0], 200)
                    longest = max(longest, time.monotonic() - start)
                    time.sleep(0.01)
                status, took, body = held.result()
                self.assertEqual(status, 504, body)
                self.assertLess(longest, took / 2)
                for w in waiting:
                    status, seconds, body = w.result()
                    self.assertEqual(status, 504, body)
                    self.assertLess(seconds, took / 2)
                self.assertEqual(self.infer(server, read, 60 * SLOW, **data)[0], 200)


class Quantised(Case):
    def ask(self, server, signature, x):
        status, body = server.post("/v1/models/quantised:predict", {"signature_name": signature, "inputs": {"x": x}})
        self.assertEqual(status, 200, body)
        return json.loads(body)["outputs"]

    def test_ranges_that_change_and_products_of_integers(self):
        small_models.write_quantised(self.path("models/quantised/1"))
        for flags in SETTINGS:
            with self.subTest(flags=flags), Server(f"--models={self.path('models')}", *flags) as server:
                top, draw = 255, random.Random(3)
                for _ in range(RUNS):
                    turn = draw.choice(("set", "fake", "fake", "product"))
                    if turn == "set":
                        top = draw.choice((255, 510, 1020))
                        self.assertEqual(self.ask(server, "set", float(top)), top)
                    elif turn == "fake":
                        x = [draw.randrange(-100, 1200) for _ in range(5)]
                        step = top // 255
                        want = [(min(max(v, 0), top) * 2 + step) // (2 * step) * step for v in x]
                        self.assertEqual(self.ask(server, "fake", [float(v) for v in x]), want)
                    else:
                        x = [[float(draw.randrange(256))], [255.0]]
                        for (found,), (v,) in zip(self.ask(server, "product", x), x):
                            # The quantised result has 255 steps of 2, so rounding may change it by up to 1.
                            self.assertAlmostEqual(found, 2 * v, delta=1.01)


class Kept(Case):
    """Tests tensors that a session keeps between requests, and variables that live during one request."""

    def ask(self, server, signature, **inputs):
        status, body = server.post("/v1/models/kept:predict", {"signature_name": signature, "inputs": inputs})
        answer = json.loads(body)
        return status, answer.get("outputs", answer.get("error"))

    def test_the_state_counts_handles(self):
        small_models.write_kept(self.path("models/kept/1"), "a" * 100000)
        with Server(f"--models={self.path('models')}", "--state_memory_limit_bytes=2M") as server:
            kept = []
            while len(kept) < 21:
                status, handle = self.ask(server, "keep", x=[1.0])
                if status != 200:
                    break
                kept.append(handle)
            self.assertEqual((status, len(kept)), (429, 20), handle)
            self.assertIn("--state_memory_limit_bytes", handle)
            self.assertEqual(self.ask(server, "drop", h=kept[7]), (200, 1))
            self.assertEqual(self.ask(server, "keep", x=[1.0])[0], 200)
            self.assertEqual(self.ask(server, "read", h=kept[8]), (200, [1.0]))

    def test_a_run_that_fails_keeps_nothing(self):
        small_models.write_kept(self.path("models/kept/1"))
        big = [1.0] * 65536
        for flags in SETTINGS:
            with self.subTest(flags=flags), \
                    Server(f"--models={self.path('models')}", "--state_memory_limit_bytes=1M", *flags) as server:
                for _ in range(8):
                    status, text = self.ask(server, "keep_log", x=[-1.0] + big[1:])
                    self.assertEqual(status, 400, text)
                    self.assertIn("no logarithm", text)
                status, out = self.ask(server, "keep_log", x=big)
                self.assertEqual((status, out["y"]), (200, [0.0] * len(big)))
                # As in TensorFlow, the failed run's handle has the number before.
                name, number, device = out["h"].split(";")
                status, text = self.ask(server, "read", h=f"{name};{int(number) - 1};{device}")
                self.assertEqual(status, 400, text)
                self.assertIn("is not in the session store", text)
                self.assertEqual(self.ask(server, "read", h=out["h"]), (200, big))

    def test_tensors_are_read_until_they_are_dropped(self):
        small_models.write_kept(self.path("models/kept/1"))
        for flags in SETTINGS:
            with self.subTest(flags=flags), Server(f"--models={self.path('models')}", *flags) as server:
                kept, draw = {}, random.Random(5)
                for k in range(RUNS):
                    turn = draw.choice(("keep", "read", "read", "drop", "double"))
                    x = [float(k), draw.randrange(100) / 4, -1.0]
                    if turn == "double":
                        self.assertEqual(self.ask(server, "double", x=x), (200, [2 * v for v in x]))
                    elif turn == "keep" or not kept:
                        status, handle = self.ask(server, "keep", x=x)
                        self.assertEqual(status, 200, handle)
                        self.assertNotIn(handle, kept)
                        kept[handle] = x
                    elif turn == "read":
                        handle = draw.choice(sorted(kept))
                        self.assertEqual(self.ask(server, "read", h=handle), (200, kept[handle]))
                    else:
                        handle = draw.choice(sorted(kept))
                        self.assertEqual(self.ask(server, "drop", h=handle), (200, 1))
                        del kept[handle]
                        for refused in ("read", "drop"):
                            status, text = self.ask(server, refused, h=handle)
                            self.assertEqual(status, 400, text)
                            self.assertIn(handle, text)
