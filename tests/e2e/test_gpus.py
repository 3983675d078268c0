"""Tests servers with GPUs. The fake driver of tests/gpu stands in for the NVIDIA driver, so no GPU is needed."""
import concurrent.futures
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import unittest
from unittest import mock

import small_models
from support import MODELS, ROOT, SLOW, Case, Server, binary, wait_for
from test_models import held_out

DIGITS = (f"--model_base_path={MODELS}/digits", "--model_name=digits")
UUID = "10101010-1010-1010-1010-101010101010"  # UUID of the fake driver's first GPU


class GpuCase(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(os.path.dirname(binary()), "fake_cuda"))
        done = subprocess.run([binary(), "inspect", f"{MODELS}/digits", "--plan", "--device=gpu"], capture_output=True,
                              text=True, timeout=60 * SLOW, check=False, env=environment)
        if "built without nvcc" in done.stderr:
            raise unittest.SkipTest("the build has no code for GPUs, because it found no nvcc")

    def serve(self, *flags, library=None, wait=True, **fake):
        """Starts a server that loads the driver from the folder `library`, by default the fake driver. `fake` contains
        settings of the fake driver, named as in fake_driver.h but without the prefix FAKE_CUDA_."""
        library = library or os.path.join(os.path.dirname(binary()), "fake_cuda")
        environment = {f"FAKE_CUDA_{name}": str(value) for name, value in fake.items()}
        environment.update(LD_LIBRARY_PATH=library, FAKE_CUDA_COUNTS=self.path("counts"))
        # The server is ready when all models serve, also on a slow machine. Loads run regions, which tests count.
        return Server("--model_wait_seconds=0", *flags, wait=wait, environment=environment)

    def counts(self):
        """Returns the counts that the fake driver wrote when the server ended."""
        with open(self.path("counts"), encoding="ascii") as file:
            return {name: int(n) for name, n in (line.split() for line in file)}

    def counts_of_load(self):
        """Returns the counts of a server that loads digits and answers no request."""
        with self.serve("--gpus=all", *DIGITS):
            pass
        return self.counts()

    def metrics(self, server):
        """Returns the metrics page as {name with labels: value}."""
        text = server.get("/monitoring/prometheus/metrics")[1].decode()
        lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    def model_bytes(self, server, model, gpu=0, version=1):
        """Returns how many bytes of the GPU's memory the model's version holds."""
        return self.metrics(server).get(f'slipway_model_gpu_bytes{{model="{model}",version="{version}",gpu="{gpu}"}}', 0)

    def refused(self, *words, **settings):
        """Checks that a server that requires a GPU exits with an error message that contains all of `words`."""
        flag = settings.pop("gpus", "all")
        with self.serve(f"--gpus={flag}", *DIGITS, wait=False, **settings) as server:
            self.assertEqual(server.process.wait(20 * SLOW), 255)
            for word in words:
                self.assertIn(word, server.out())

    def passed_over(self, *words, **settings):
        """Checks that a server with --gpus=auto logs all of `words` and serves on the CPU."""
        with self.serve("--gpus=auto", *DIGITS, **settings) as server:
            for word in words:
                self.assertIn(word, server.log())
            self.assertEqual(server.post("/v1/models/digits:predict", held_out()[0][0])[0], 200)


def read_digits(server):
    rows = []
    for body in held_out()[0]:
        status, answer = server.post("/v1/models/digits:predict", body)
        if status != 200:
            raise AssertionError(answer)
        rows.append(json.loads(answer)["predictions"][0])
    return rows


class Answers(GpuCase):
    def test_a_gpu_gives_the_results_of_the_cpu_and_gets_all_its_memory_back(self):
        with self.serve("--gpus=none", *DIGITS) as server:
            want = read_digits(server)
        self.assertFalse(os.path.exists(self.path("counts")), "the driver was loaded")
        with self.serve("--gpus=all", *DIGITS) as server:
            got = read_digits(server)
            self.assertIn(f"GPU 0: Fake GPU (GPU-{UUID}), compute capability 9.0", server.log())
        for one, other in zip(want, got):
            for a, b in zip(one, other):
                self.assertAlmostEqual(a, b, delta=1e-5)
        counts = self.counts()
        # The first request on each stream launches the region's kernels one by one. The kernels are launched once more
        # to record a graph, and later requests launch that graph.
        self.assertLess(counts["LaunchKernel"], 2 * len(want))
        self.assertGreaterEqual(counts["GraphLaunch"], len(want) - 4)
        self.assertLessEqual(counts["GraphInstantiateWithFlags"], 2)
        self.assertEqual(counts["GraphExecDestroy"], counts["GraphInstantiateWithFlags"])
        self.assertEqual(counts["bytes_in_use"], 0)
        self.assertEqual(counts["contexts_in_use"], 0)

    def test_a_batch_of_any_size_runs_on_the_gpu_at_once(self):
        images = [image for body in held_out()[0][:7] for image in json.loads(body)["instances"]]
        name = 'slipway_gpu_regions_total{gpu="0"}'
        with self.serve("--gpus=all", *DIGITS) as server:
            for rows in (5, 3, 7):  # padded to 8 and 4, which are compiled while the version is loaded
                before = self.metrics(server)[name]
                got = server.predict("digits", images[:rows])
                self.assertEqual(self.metrics(server)[name], before + 1, f"{rows} rows")
                self.assertEqual(len(got), rows)

    def test_a_plan_whose_activations_do_not_fit_runs_on_the_cpu(self):
        images = [image for body in held_out()[0][:8] for image in json.loads(body)["instances"]] * 16
        with self.serve("--gpus=none", *DIGITS) as server:
            want = server.predict("digits", images[:120])
        name = 'slipway_gpu_regions_total{gpu="0"}'
        with self.serve("--gpus=all", "--per_process_gpu_memory_fraction=0.001", *DIGITS) as server:
            server.predict("digits", images[:1])
            before = self.metrics(server)[name]
            self.assertGreater(before, 0)
            got = server.predict("digits", images[:120])
            self.assertEqual(self.metrics(server)[name], before)
        for one, other in zip(want, got):
            for a, b in zip(one, other):
                self.assertAlmostEqual(a, b, delta=1e-5)

    def test_versions_are_swapped_under_load_and_every_byte_comes_back(self):
        self.put("digits/1", "digits/1")
        bodies = held_out()[0][:4]
        with self.serve("--gpus=all", "--model_name=digits", f"--model_base_path={self.path('digits')}") as server:
            want = [server.predict("digits", json.loads(body)["instances"]) for body in bodies]

            def ask(k):
                got = server.predict("digits", json.loads(bodies[k % 4])["instances"])
                for a, b in zip(want[k % 4][0], got[0]):
                    self.assertAlmostEqual(a, b, delta=1e-5)

            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                for version in range(2, 5):
                    asked = [pool.submit(ask, k) for k in range(24)]
                    self.put(f"digits/{version}", "digits/1")
                    shutil.rmtree(self.path(f"digits/{version - 1}"))
                    wait_for(lambda v=version: server.state("digits", v) == "AVAILABLE", "the swap")
                    for each in asked:
                        each.result()
        self.assertEqual(self.counts()["bytes_in_use"], 0)

    def test_a_new_version_moves_to_a_gpu_without_room_for_two(self):
        self.put("digits/1", "digits/1")
        image = json.loads(held_out()[0][0])["instances"]
        flags = ("--gpus=all", "--gpu_slots=1", "--model_name=digits", f"--model_base_path={self.path('digits')}")
        with self.serve(*flags) as server:
            want = server.predict("digits", image)[0]
            held = int(self.model_bytes(server, "digits"))
            page = self.metrics(server)
            total, free = (page[f'slipway_gpu_device_memory_bytes{{gpu="0",state="{s}"}}'] for s in ("total", "free"))
        # One version has room, and leaves half of what it holds.
        with self.serve(*flags, BYTES=int(total - free) + held // 2) as server:
            def runs_on_the_gpu():
                before = self.metrics(server)['slipway_gpu_regions_total{gpu="0"}']
                for a, b in zip(want, server.predict("digits", image)[0]):
                    self.assertAlmostEqual(a, b, delta=1e-5)
                return self.metrics(server)['slipway_gpu_regions_total{gpu="0"}'] > before

            self.assertTrue(runs_on_the_gpu())
            self.put("digits/2", "digits/1")
            shutil.rmtree(self.path("digits/1"))
            wait_for(lambda: server.state("digits", 2) == "AVAILABLE" and server.state("digits", 1) in ("", "END"), "the swap")
            self.assertIn("the processor runs the model until the version that it replaces has freed its memory", server.log())
            wait_for(runs_on_the_gpu, lambda: "the move to the GPU: " + server.log())
            wait_for(lambda: self.model_bytes(server, "digits", version=2) == held, "all sizes on the GPU")
        self.assertEqual(self.counts()["bytes_in_use"], 0)

    def test_an_index_out_of_range_is_told_as_by_the_cpu(self):
        def build(graph):
            graph.placeholder("i", "int32")
            graph.const("table", "float", [6], float_val=[0, 1, 2, 3, 4, 5])
            graph.const("axis", "int32", [], int_val=[0])
            graph.node("row", "GatherV2", "table", "i", "axis", Tparams="float", Tindices="int32", Taxis="int32")
            graph.node("y", "Exp", "row", T="float")

        small_models.write(self.path("m/1"), {"serving_default": ({"i": ("i", "int32")}, {"y": ("y", "float")})}, build)
        answers = {}
        for gpus in ("none", "all"):
            with self.serve(f"--gpus={gpus}", f"--model_base_path={self.path('m')}", "--model_name=m") as server:
                asked = ([[0, 5]], [[1, 2]], [[0, 6]], [[4, 5], [-1, 9]], [[3, 3]], [[2147483647, 0]], [[5, 0]])
                answers[gpus] = [server.post("/v1/models/m:predict", {"instances": rows}) for rows in asked]
        self.assertEqual([status for status, _ in answers["all"]], [200, 200, 400, 400, 200, 400, 200],
                         answers)
        for (status, want), (_, got) in zip(answers["none"], answers["all"]):
            if status == 200:
                for a, b in zip(sum(json.loads(want)["predictions"], []), sum(json.loads(got)["predictions"], [])):
                    self.assertAlmostEqual(a, b, delta=1e-4)
            else:
                self.assertEqual(got, want)
        counts = self.counts()
        self.assertGreater(counts["LaunchKernel"], 0)
        self.assertEqual(counts["bytes_in_use"], 0)

    def test_a_model_that_does_not_fit_the_gpu_is_served_by_the_cpu(self):
        with self.serve("--gpus=none", *DIGITS) as server:
            want = read_digits(server)
        with self.serve("--gpus=all", *DIGITS, BYTES=16384) as server:
            for one, other in zip(want, read_digits(server)):
                for a, b in zip(one, other):
                    self.assertAlmostEqual(a, b, delta=1e-5)
        self.assertEqual(self.counts()["bytes_in_use"], 0)

    def test_a_failed_call_of_the_driver_fails_one_request_and_is_named(self):
        loaded = self.counts_of_load()
        for call in ("GraphLaunch", "MemcpyHtoDAsync", "MemcpyDtoHAsync", "StreamSynchronize"):
            with self.serve("--gpus=all", *DIGITS, FAIL=f"{call}:{loaded[call] + 20}:999") as server:
                answers = [server.post("/v1/models/digits:predict", body) for body in held_out()[0]]
            failed = [json.loads(body)["error"] for status, body in answers if status != 200]
            self.assertEqual(len(failed), 1, failed)
            self.assertIn("CUDA_ERROR_FAKE (999)", failed[0])
            self.assertEqual(self.counts()["bytes_in_use"], 0)

    def test_a_region_that_cannot_be_recorded_is_launched_kernel_by_kernel(self):
        with self.serve("--gpus=none", *DIGITS) as server:
            want = read_digits(server)
        for call in ("StreamBeginCapture", "StreamEndCapture", "GraphInstantiateWithFlags"):
            with self.serve("--gpus=all", *DIGITS, FAIL=f"{call}:1:999") as server:
                for one, other in zip(want, read_digits(server)):
                    for a, b in zip(one, other):
                        self.assertAlmostEqual(a, b, delta=1e-5)
                self.assertIn("recording a region: CUDA_ERROR_FAKE (999)", server.log())
            counts = self.counts()
            self.assertGreater(counts["LaunchKernel"], 6 * 20)
            self.assertEqual(counts["bytes_in_use"], 0)


class LongRuns(GpuCase):
    def test_long_runs_of_a_model_keep_no_other_model_of_the_gpu_waiting(self):
        """The runs of `slow` count without end. They take long on the processor, and occupy all workers of the GPU."""
        def build(graph, is_slow):
            graph.placeholder("x", "float")
            graph.node("exp", "Exp", "x", T="float")
            graph.node("most", "Cast", "x", SrcT="float", DstT="int64")
            graph.node("y", "AddV2", "exp", small_models.count(graph, "most") if is_slow else "exp", T="float")

        for name in "slow", "fast":
            small_models.write(self.path("models", name, "1"),
                               {"serving_default": ({"x": ("x", "float")}, {"y": ("y", "float")})},
                               lambda graph, n=name: build(graph, n == "slow"))
        ask = b"POST /v1/models/slow:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n" b'{"inputs": 1e18}'
        with self.serve("--gpus=all", f"--models={self.path('models')}") as server:
            self.assertEqual(server.post("/v1/models/slow:predict", {"inputs": 0.0})[0], 200)
            clients = [socket.create_connection(("127.0.0.1", server.rest_port)) for _ in range(4)]
            for client in clients:
                client.sendall(ask)
            wait_for(lambda: server.metric("slipway_jobs") == 4, "the long runs")
            for _ in range(3):
                status, body = server.post("/v1/models/fast:predict", {"inputs": 0.0})
                self.assertEqual((status, json.loads(body)), (200, {"outputs": 2.0}))
            self.assertEqual(select.select(clients, [], [], 0)[0], [], "no long run has ended")
            for client in clients:
                client.close()
            wait_for(lambda: server.metric("slipway_jobs") == 0, "the end of the runs whose clients have gone")


class Faults(GpuCase):
    """A GPU fails permanently. Each call returns the error 719, or a batch never ends."""

    def ask_all(self, server):
        """Sends a request for each digit. Returns the predictions and the error messages. A failed request has the
        prediction None."""
        rows, errors = [], []
        for body in held_out()[0]:
            try:
                status, answer = server.post("/v1/models/digits:predict", body)
            except OSError:
                break
            answer = json.loads(answer)
            rows.append(answer["predictions"][0] if status == 200 else None)
            if status != 200:
                errors.append((status, answer["error"]))
        return rows, errors

    def expect(self, want, rows):
        for one, other in zip(want, rows):
            for a, b in zip(one, other or one):
                self.assertAlmostEqual(a, b, delta=1e-5)

    def digits_of_the_cpu(self):
        with self.serve("--gpus=none", *DIGITS) as server:
            return read_digits(server)

    def test_the_process_ends_and_is_not_ready_when_a_gpu_has_failed(self):
        want = self.digits_of_the_cpu()
        loaded = self.counts_of_load()
        for call in ("GraphLaunch", "StreamSynchronize", "MemcpyHtoDAsync"):
            with self.serve("--gpus=all", *DIGITS, FAIL=f"{call}:{loaded[call] + 20}:719") as server:
                rows, errors = self.ask_all(server)
                self.assertEqual(server.process.wait(30 * SLOW), 70)
                log = server.log()
            self.expect(want, rows)
            self.assertGreaterEqual(len(rows), 10)
            self.assertEqual(len(errors), 1, errors)
            self.assertEqual(errors[0][0], 503)
            self.assertIn("GPU:0 has failed: ", errors[0][1])
            self.assertIn("CUDA_ERROR_FAKE (719)", errors[0][1])
            self.assertIn("the process ends (--gpu_on_fault=exit)", log)
            self.assertIn("draining: not ready any more", log)

    def test_models_go_on_with_the_processor_if_the_process_is_not_to_end(self):
        want = self.digits_of_the_cpu()
        self.put("digits/1", "digits/1")
        with self.serve("--gpus=all", "--gpu_on_fault=stop", "--model_name=digits",
                        f"--model_base_path={self.path('digits')}", FAIL="GraphLaunch:20:700") as server:
            rows, errors = self.ask_all(server)
            self.assertEqual(len(rows), len(want))
            self.expect(want, rows)
            self.assertEqual([status for status, _ in errors], [503], errors)
            self.assertIn("other GPUs and the processor run its models", server.log())
            self.assertEqual(server.get("/readyz")[0], 200)
            self.put("digits/2", "digits/1")  # a version that is loaded later does not use the GPU
            wait_for(lambda: server.state("digits", 2) == "AVAILABLE", "the second version")
            again, errors = self.ask_all(server)
            self.assertFalse(errors)
            self.expect(want, again)

    def test_the_other_gpu_goes_on(self):
        want = self.digits_of_the_cpu()
        self.put("digits/1", "digits/1")
        self.put("digits/2", "digits/1")
        config = self.write("config", f'''model_config_list {{ config {{ name: "digits" base_path: "{self.path("digits")}"
            model_platform: "tensorflow" model_version_policy {{ all {{}} }} }} }}''')
        with self.serve("--gpus=all", "--gpu_on_fault=stop", f"--model_config_file={config}", DEVICES=2,
                        FAIL="GraphLaunch:30:719") as server:
            for version in (1, 2):
                wait_for(lambda v=version: server.state("digits", v) == "AVAILABLE", "both versions")
            failed = []
            for k, body in enumerate(held_out()[0]):
                for version in (1, 2):
                    status, answer = server.post(f"/v1/models/digits/versions/{version}:predict", body)
                    failed += [answer] if status != 200 else []
                    if status == 200:
                        self.expect([want[k]], json.loads(answer)["predictions"])
            self.assertEqual(len(failed), 1, failed)
            self.assertEqual(server.log().count("has failed:"), 1)

    def expect_hang(self, errors):
        self.assertEqual([status for status, _ in errors], [503], errors)
        self.assertIn("GPU:0 has failed: it hangs", errors[0][1])

    def test_the_process_ends_when_a_batch_never_ends(self):
        with self.serve("--gpus=all", "--gpu_hang_seconds=8", "--drain_timeout=2", *DIGITS, HANG=200) as server:
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                asked = pool.submit(self.ask_all, server)
                self.assertEqual(server.process.wait(120 * SLOW), 70)
                rows, errors = asked.result()
            self.assertIn("GPU:0 has failed: a batch has been running for", server.log())
            self.assertNotIn("were not answered", server.log())
        self.assertGreater(len(rows), 4)
        self.expect_hang(errors)

    def test_a_batch_that_never_ends_is_answered(self):
        want = self.digits_of_the_cpu()
        with self.serve("--gpus=all", "--gpu_hang_seconds=8", "--gpu_on_fault=stop", *DIGITS, HANG=200) as server:
            rows, errors = self.ask_all(server)
            self.expect_hang(errors)
            self.assertEqual(len(rows), len(want))
            self.expect(want, rows)
            wait_for(lambda: not self.metrics(server)["slipway_jobs"], "the end of all jobs")
            self.assertEqual(self.metrics(server)['slipway_gpu_up{gpu="0"}'], 0)


class Metrics(GpuCase):
    def test_the_page_tells_what_the_gpus_hold_and_do(self):
        with self.serve("--gpus=all", "--per_process_gpu_memory_fraction=0.5", *DIGITS, DEVICES=2) as server:
            read_digits(server)
            m = self.metrics(server)
            self.assertEqual(m[f'slipway_gpu_info{{gpu="0",model="Fake GPU",uuid="GPU-{UUID}"}}'], 1)
            self.assertEqual((m['slipway_gpu_up{gpu="0"}'], m['slipway_gpu_up{gpu="1"}']), (1, 1))
            self.assertEqual(m['slipway_gpu_memory_limit_bytes{gpu="1"}'], 128 << 20)
            self.assertEqual(m['slipway_gpu_device_memory_bytes{gpu="1",state="total"}'], 256 << 20)
            self.assertEqual(m['slipway_gpu_utilisation_ratio{gpu="1"}'], 0.5)
            self.assertEqual(m['slipway_gpu_temperature_celsius{gpu="0"}'], 40)
            for gpu in "01":
                held = m[f'slipway_model_gpu_bytes{{model="digits",version="1",gpu="{gpu}"}}']
                self.assertGreater(held, 10000)
                self.assertEqual(m[f'slipway_gpu_memory_bytes{{gpu="{gpu}",use="weights"}}'], held)
            busy = max("01", key=lambda gpu: m[f'slipway_gpu_regions_total{{gpu="{gpu}"}}'])
            self.assertGreater(m[f'slipway_gpu_memory_bytes{{gpu="{busy}",use="activations"}}'], 1000)
            self.assertGreaterEqual(m[f'slipway_gpu_graphs_total{{gpu="{busy}"}}'], 1)
            self.assertGreater(m[f'slipway_gpu_busy_seconds_total{{gpu="{busy}"}}'], 0)
            for name, least in (("regions_total", len(held_out()[0])),
                                ("copied_bytes_total", len(held_out()[0]) * 64 * 4)):
                labels = ',direction="in"' if name == "copied_bytes_total" else ""
                self.assertGreaterEqual(sum(m[f'slipway_gpu_{name}{{gpu="{gpu}"{labels}}}'] for gpu in "01"), least)

    def test_the_dashboards_names_are_on_the_page(self):
        with open(os.path.join(ROOT, "docker", "grafana-dashboard.json"), encoding="utf-8") as file:
            names = set(re.findall(r"slipway_\w*gpu_\w+", file.read()))
        self.assertGreater(len(names), 6)
        with self.serve("--gpus=all", *DIGITS) as server:
            there = {name.split("{")[0] for name in self.metrics(server)}
        self.assertLessEqual(names, there)

    def test_a_gpu_that_has_failed_is_down(self):
        with self.serve("--gpus=all", "--gpu_on_fault=stop", *DIGITS, FAIL="GraphLaunch:5:700") as server:
            for body in held_out()[0]:
                server.post("/v1/models/digits:predict", body)
            m = self.metrics(server)
            self.assertEqual(m['slipway_gpu_up{gpu="0"}'], 0)
            self.assertNotIn('slipway_gpu_device_memory_bytes{gpu="0",state="free"}', m)

    def test_a_server_without_gpus_has_no_metrics_of_them(self):
        with self.serve("--gpus=none", *DIGITS) as server:
            self.assertFalse([name for name in self.metrics(server) if name.startswith("slipway_gpu")])


class Commands(GpuCase):
    def slipway(self, *args, **fake):
        """Runs a command on the fake driver. Returns its exit status and output."""
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(os.path.dirname(binary()), "fake_cuda"))
        environment.update({f"FAKE_CUDA_{name}": str(value) for name, value in fake.items()})
        done = subprocess.run([binary(), *args], capture_output=True, text=True, timeout=60 * SLOW, check=False,
                              env=environment)
        return done.returncode, done.stdout, done.stderr

    def test_a_plan_says_what_runs_on_the_gpu_and_why_the_rest_does_not(self):
        code, out, _ = self.slipway("inspect", f"{MODELS}/digits", "--plan", "--device=gpu")
        self.assertEqual(code, 0)
        self.assertIn("7 of 7 steps on the GPU, with 100.0 % of the FLOP", out)
        self.assertIn("kernel conv.cuda", out)
        code, out, _ = self.slipway("inspect", f"{MODELS}/half_plus_two", "--plan", "--device=gpu:0", "--json")
        self.assertEqual(code, 0)
        steps = [node for node in json.loads(out)["nodes"] if node["runs"]]
        self.assertTrue(all(node["on_gpu"] or node["why_on_cpu"] for node in steps), steps)
        code, out, _ = self.slipway("inspect", f"{MODELS}/half_plus_two", "--plan", "--json")
        self.assertFalse([node for node in json.loads(out)["nodes"] if node["on_gpu"] or node["why_on_cpu"]])

    def test_a_plan_as_json_names_device_and_precision(self):
        gpu = {"name": "GPU:0", "model": "Fake GPU", "uuid": f"GPU-{UUID}"}
        cpu = {"name": "CPU", "model": None, "uuid": None}
        for flags, device, precision in ((("--device=gpu",), gpu, "tf32"),
                                         (("--device=gpu", "--gpu_precision=float32"), gpu, "float32"),
                                         ((), cpu, "float32")):
            code, out, _ = self.slipway("inspect", f"{MODELS}/digits", "--plan", "--json", *flags)
            self.assertEqual(code, 0)
            plan = json.loads(out)
            self.assertEqual((plan["device"], plan["precision"]), (device, precision))
            self.assertEqual((plan["steps"], plan["gpu_steps"]), (7, 7 if device is gpu else 0))
            self.assertEqual(plan["gpu_flops"], plan["flops"] if device is gpu else 0)
            self.assertGreater(plan["flops"], 1000)

    def test_a_model_is_run_compared_and_profiled_on_a_gpu(self):
        code, out, _ = self.slipway("run", f"{MODELS}/digits", "--compare", "--device=gpu", "--json")
        self.assertEqual(code, 0)
        self.assertLess(json.loads(out)[0]["max_rel"], 1e-5)
        code, out, _ = self.slipway("run", f"{MODELS}/digits", "--profile", "--runs=3", "--device=gpu")
        self.assertEqual(code, 0)
        self.assertIn("softmax.cuda", out)

    def test_a_gpu_that_is_not_there_is_an_error(self):
        for device, code, words in (("gpu:1", 1, "there is no GPU 1; 1 GPU is visible"),
                                    ("gpu:0,1", 2, "--device cannot be gpu:0,1"), ("tpu", 2, "cpu, gpu, gpu:N or GPU-UUID")):
            got, _, error = self.slipway("run", f"{MODELS}/digits", "--bench", f"--device={device}")
            self.assertEqual(got, code, error)
            self.assertIn(words, error)


class Models(GpuCase):
    """Settings of GPUs that models have in the configuration."""

    def config(self, **models):
        """Writes a configuration in which each model serves digits with the given fields. Returns its path."""
        text = "".join(f'config {{ name: "{name}" base_path: "{MODELS}/digits" model_platform: "tensorflow" {fields} }}\n'
                       for name, fields in models.items())
        return self.write("config", f"model_config_list {{ {text} }}")

    def digits_of(self, server, model):
        image = json.loads(held_out()[0][0])["instances"][0]
        return server.predict(model, [image])[0]

    def check(self, want, got):
        for a, b in zip(want, got):
            self.assertAlmostEqual(a, b, delta=1e-5)

    def gpus_that_ran(self, server, model, want):
        """Checks an answer of the model, and returns which of two GPUs have run a part of it."""
        before = self.metrics(server)
        self.check(want, self.digits_of(server, model))
        now = self.metrics(server)
        return tuple(g for g in "01" if now[f'slipway_gpu_regions_total{{gpu="{g}"}}'] >
                     before[f'slipway_gpu_regions_total{{gpu="{g}"}}'])

    def test_a_model_uses_the_gpus_that_it_names(self):
        config = self.config(none='gpus: "none"', first='gpus: "0"', second='gpus: "GPU-2020"')
        with self.serve("--gpus=all", f"--model_config_file={config}", DEVICES=2) as server:
            want = self.digits_of(server, "none")
            for model, names in (("none", ()), ("first", ("0",)), ("second", ("1",))):
                self.assertEqual(self.gpus_that_ran(server, model, want), names)
        self.assertEqual(self.counts()["bytes_in_use"], 0)

    def test_what_a_gpu_cannot_give_is_refused_with_model_and_value(self):
        for fields, words in (
                ('gpus: "2"', 'model m: gpus is "2": the server uses no GPU 2; it uses 2 GPUs, numbered from 0'),
                ('gpus: "0,GPU-77"', 'model m: gpus is "0,GPU-77": the server uses no GPU GPU-77'),
                ('gpus: "first"', 'model m: gpus is "first", but must be none, all, or the numbers or UUIDs of GPUs'),
                ('gpus: "0,GPU-1010"', 'model m: gpus is "0,GPU-1010", which names GPU 0 twice'),
                ('gpus: ",0"', 'model m: gpus is ",0", but must be none, all, or the numbers or UUIDs of GPUs'),
                ('gpu_precision: "fp16"', 'model m: gpu_precision is "tf32" or "float32", not "fp16"'),
                ('gpu_memory_bytes: 268435457',
                 'model m: gpu_memory_bytes is 268435457, but the server may use 268435456 bytes of GPU 0'),
                ('gpu_instances: 3', 'model m: gpu_instances is 3, but --gpu_slots is 2')):
            with self.serve("--gpus=all", f"--model_config_file={self.config(m=fields)}", wait=False,
                            DEVICES=2) as server:
                self.assertEqual(server.process.wait(20 * SLOW), 255)
                self.assertIn(words, server.out())
                self.assertIn("/config:1:", server.out())

    def test_check_config_shows_the_settings(self):
        config = self.config(m='gpus: "0" gpu_precision: "float32" gpu_memory_bytes: 4096 gpu_instances: 1')
        done = subprocess.run([binary(), "check-config", config], capture_output=True, text=True, timeout=60 * SLOW,
                              check=True)
        for line in ("  gpus      0\n", "  on a GPU  precision float32\n", "  on a GPU  at most 4096 bytes of memory\n",
                     "  on a GPU  at most 1 batch at a time\n"):
            self.assertIn(line, done.stdout)

    def test_a_reload_that_names_an_unknown_gpu_changes_nothing(self):
        config = self.config(m='gpus: "0"')
        with self.serve("--gpus=all", f"--model_config_file={config}") as server:
            self.config(m='gpus: "1"')
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "the server uses no GPU 1; it uses 1 GPU, numbered from 0" in server.log(), "the refusal")
            self.digits_of(server, "m")

    def test_a_configuration_with_gpus_suits_a_machine_without(self):
        config = self.config(m='gpus: "1" gpu_instances: 4')
        with self.serve("--gpus=none", f"--model_config_file={config}") as server:
            self.assertIn('model m: gpus is "1", but the server uses no GPU', server.log())
            self.digits_of(server, "m")

    def test_a_model_keeps_to_its_bytes(self):
        with self.serve("--gpus=all", f"--model_config_file={self.config(m='')}") as server:
            want = self.digits_of(server, "m")
            held = int(self.model_bytes(server, "m"))
        config = self.config(few=f"gpu_memory_bytes: {held - 1}", many=f"gpu_memory_bytes: {held + (1 << 20)}")
        with self.serve("--gpus=all", f"--model_config_file={config}") as server:
            regions = [self.metrics(server)['slipway_gpu_regions_total{gpu="0"}']]
            for model in ("few", "many"):
                self.check(want, self.digits_of(server, model))
                regions.append(self.metrics(server)['slipway_gpu_regions_total{gpu="0"}'])
            self.assertEqual(regions[0], regions[1])
            self.assertGreater(regions[2], regions[1])
            self.assertLess(self.model_bytes(server, "few"), held)
            self.assertEqual(self.model_bytes(server, "many"), held)
        self.assertEqual(self.counts()["bytes_in_use"], 0)

    def test_the_activations_of_all_batches_that_may_run_count(self):
        images = [image for body in held_out()[0][:16] for image in json.loads(body)["instances"]][:16]
        with self.serve("--gpus=all", "--gpu_slots=1", f"--model_config_file={self.config(m='')}") as server:
            server.predict("m", images)
            held = int(self.model_bytes(server, "m"))
            block = int(self.metrics(server)['slipway_gpu_memory_bytes{gpu="0",use="activations"}'])
        fields = f"gpu_memory_bytes: {held + block + block // 2}"
        config = self.config(one=f"{fields} gpu_instances: 1", two=f"{fields} gpu_instances: 2", all=fields)
        ran = {}
        with self.serve("--gpus=all", f"--model_config_file={config}") as server:
            for model in ("one", "two", "all"):
                before = self.metrics(server)['slipway_gpu_regions_total{gpu="0"}']
                server.predict(model, images)
                ran[model] = self.metrics(server)['slipway_gpu_regions_total{gpu="0"}'] - before
        self.assertEqual(ran, {"one": 1, "two": 0, "all": 0})

    def test_instance_groups_of_triton_choose_gpus_and_batches(self):
        groups = {"second": "instance_group { kind: KIND_GPU count: 1 gpus: [1] }",
                  "cpu": "instance_group { kind: KIND_CPU count: 1 }",
                  "many": "instance_group { kind: KIND_GPU count: 5 gpus: 0 } instance_group { kind: KIND_CPU }",
                  "wrong": "instance_group { kind: KIND_GPU gpus: [0, 2] }"}
        for model, group in groups.items():
            self.put(f"models/{model}/1/model.savedmodel", "digits/1")
            self.write(f"models/{model}/config.pbtxt", group)
        with self.serve("--gpus=all", f"--models={self.path('models')}", DEVICES=2) as server:
            want = self.digits_of(server, "cpu")
            for model, names in (("cpu", ()), ("second", ("1",)), ("many", ("0",))):
                self.assertEqual(self.gpus_that_ran(server, model, want), names, model)
            self.assertIn("model many: instance_group has 5 instances on a GPU, but --gpu_slots is 2", server.log())
            self.assertIn("model many: its groups of KIND_CPU have no effect", server.log())
            wait_for(lambda: server.states("wrong").get(1, ("",))[0] == "END", "the refusal")
            self.assertIn("config.pbtxt:1:33: gpus: the server uses no GPU 2; it uses 2 GPUs", server.states("wrong")[1][1])
        # The configuration's own settings win.
        config = self.write("config", f"""model_config_list {{ config {{ name: "second" model_platform: "tensorflow"
            base_path: "{self.path('models/second')}" gpus: "0" }} }}""")
        with self.serve("--gpus=all", f"--model_config_file={config}", DEVICES=2) as server:
            self.check(want, self.digits_of(server, "second"))
            self.assertGreater(self.model_bytes(server, "second", 0), 0)
            self.assertEqual(self.model_bytes(server, "second", 1), 0)

    def test_a_model_has_a_precision_of_its_own(self):
        folder = os.path.dirname(binary())
        program = os.path.join(folder, "tests", "slipway_accelerated")
        config = self.config(cpu='gpus: "none"', full='gpu_precision: "float32"', flag="", tf32='gpu_precision: "tf32"')
        for flag in ("tf32", "float32"):
            with mock.patch.dict(os.environ, SLIPWAY=program, SLIPWAY_TEST_DNN="none", SLIPWAY_TEST_BLAS="tf32"):
                with self.serve("--gpus=all", f"--gpu_precision={flag}", f"--model_config_file={config}",
                                library=os.path.join(folder, "fake_cuda")) as server:
                    got = {m: self.digits_of(server, m) for m in ("cpu", "full", "flag", "tf32")}
                    page = self.metrics(server)
            rounds = {m for m in got if max(abs(a - b) / b for a, b in zip(got[m], got["cpu"])) > 1e-4}
            self.assertEqual(rounds, {"flag", "tf32"} if flag == "tf32" else {"tf32"}, got)
            for model, precision in (("full", "float32"), ("flag", flag), ("tf32", "tf32")):
                self.assertEqual(page[f'slipway_model_gpu_info{{model="{model}",version="1",gpu="0",'
                                      f'precision="{precision}"}}'], 1)


class Replicas(GpuCase):
    """A model has a replica on each GPU that it may use."""

    def ask(self, server, n):
        """Sends n requests from eight clients. Returns the predictions, in the order of the requests."""
        bodies = held_out()[0]

        def one(k):
            return server.predict("digits", json.loads(bodies[k % len(bodies)])["instances"])

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            return list(pool.map(one, range(n)))

    def expect(self, want, got):
        for k, rows in enumerate(got):
            for a, b in zip(want[k % len(want)], rows[0]):
                self.assertAlmostEqual(a, b, delta=1e-5)

    def regions(self, server):
        page = self.metrics(server)
        return [page[f'slipway_gpu_regions_total{{gpu="{gpu}"}}'] for gpu in "01"]

    def test_all_gpus_of_a_model_work_and_a_swap_moves_all_replicas(self):
        self.put("digits/1", "digits/1")
        with self.serve("--gpus=all", "--model_name=digits", f"--model_base_path={self.path('digits')}",
                        DEVICES=2) as server:
            want = read_digits(server)
            for version in range(2, 5):
                before = self.regions(server)
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    asked = pool.submit(self.ask, server, 80)
                    self.put(f"digits/{version}", "digits/1")
                    shutil.rmtree(self.path(f"digits/{version - 1}"))
                    wait_for(lambda v=version: server.state("digits", v) == "AVAILABLE", "the swap")
                    self.expect(want, asked.result())
                self.expect(want, self.ask(server, 80))
                for gpu, n in enumerate(self.regions(server)):
                    self.assertGreater(n, before[gpu], f"GPU {gpu}")
            wait_for(lambda: server.state("digits", 3) in ("END", ""), "the end of version 3")
            page = self.metrics(server)
            held = {page[f'slipway_model_gpu_bytes{{model="digits",version="4",gpu="{gpu}"}}'] for gpu in "01"}
            self.assertEqual(len(held), 1)
            self.assertEqual({page[f'slipway_gpu_memory_bytes{{gpu="{gpu}",use="weights"}}'] for gpu in "01"}, held)
        self.assertEqual(self.counts()["bytes_in_use"], 0)

    def test_the_other_replica_goes_on_when_a_gpu_fails(self):
        with self.serve("--gpus=all", "--gpu_on_fault=stop", *DIGITS, DEVICES=2, FAIL="GraphLaunch:10:719") as server:
            failed = 0
            for body in held_out()[0]:
                failed += server.post("/v1/models/digits:predict", body)[0] != 200
            self.assertEqual(failed, 1)
            up = [self.metrics(server)[f'slipway_gpu_up{{gpu="{gpu}"}}'] for gpu in "01"]
            self.assertEqual(sorted(up), [0, 1])
            before = self.regions(server)
            self.ask(server, 16)
            now = self.regions(server)
            self.assertEqual(now[up.index(0)], before[up.index(0)])
            self.assertEqual(now[up.index(1)] > before[up.index(1)], True)

    def test_replicas_share_what_requests_write(self):
        with self.serve("--gpus=all", "--model_name=counter", f"--model_base_path={MODELS}/counter",
                        DEVICES=2) as server:
            for k in range(1, 9):
                status, answer = server.post("/v1/models/counter:predict",
                                             {"signature_name": "incr_by", "inputs": {"delta": 1}})
                self.assertEqual((status, json.loads(answer)), (200, {"outputs": k}))

    def test_a_gpu_without_memory_for_the_weights_gets_no_replica(self):
        with self.serve("--gpus=all", *DIGITS, BYTES=8192) as server:
            self.assertIn("model digits: GPU:0 has no memory for", server.log())
            self.assertEqual(server.post("/v1/models/digits:predict", held_out()[0][0])[0], 200)
            self.assertNotIn('slipway_model_gpu_info{model="digits",version="1",gpu="0",precision="tf32"}',
                             self.metrics(server))


class Libraries(GpuCase):
    """Servers with a reference implementation in place of NVIDIA's libraries (tests/gpu/reference_dnn.h,
    reference_blas.h), and servers that cannot use these libraries."""

    def serve_reference(self, mode, *flags, **fake):
        folder = os.path.dirname(binary())
        program = os.path.join(folder, "tests", "slipway_accelerated")
        with mock.patch.dict(os.environ, SLIPWAY=program, SLIPWAY_TEST_DNN=mode, SLIPWAY_TEST_BLAS=mode):
            return self.serve("--gpus=all", *flags, library=os.path.join(folder, "fake_cuda"), **fake)

    def check(self, want, got):
        for one, other in zip(want, got):
            for a, b in zip(one, other):
                self.assertAlmostEqual(a, b, delta=1e-5)

    def test_a_library_gives_the_results_of_the_cpu_and_gets_all_its_memory_back(self):
        with self.serve("--gpus=none", *DIGITS) as server:
            want = read_digits(server)
        for mode in ("all", "no_relu", "none"):
            with self.serve_reference(mode, *DIGITS) as server:
                self.check(want, read_digits(server))
            self.assertEqual(self.counts()["bytes_in_use"], 0)

    def test_a_failed_call_in_a_library_fails_one_request(self):
        with self.serve_reference("no_relu", *DIGITS, FAIL="GraphLaunch:20:999") as server:
            answers = [server.post("/v1/models/digits:predict", body) for body in held_out()[0]]
        self.assertEqual([status for status, _ in answers].count(200), len(answers) - 1)
        self.assertEqual(self.counts()["bytes_in_use"], 0)

    def test_a_library_that_cannot_be_used_is_named_once(self):
        with self.serve("--gpus=all", *DIGITS) as server:
            read_digits(server)
            self.assertEqual(server.log().count("convolutions run on plain kernels"), 1, server.log())
            self.assertIn("libcudnn.so.9", server.log())
            self.assertEqual(server.log().count("multiplications run on plain kernels"), 1, server.log())
            self.assertIn("libcublasLt.so.13", server.log())


class Choice(GpuCase):
    def test_a_machine_without_a_driver_is_served_by_the_cpu_unless_a_gpu_is_required(self):
        empty = self.path("empty")
        os.mkdir(empty)
        self.passed_over("no GPU is used: the NVIDIA driver is not there: libcuda.so.1", library=empty)
        self.refused("NOT_FOUND: the NVIDIA driver is not there: libcuda.so.1", library=empty)
        self.refused("NOT_FOUND: the NVIDIA driver is not there", library=empty, gpus="0")

    def test_a_broken_library_is_named(self):
        os.mkdir(self.path("broken"))
        library = self.write("broken/libcuda.so.1", "this is no library")
        self.passed_over("no GPU is used", library, library=self.path("broken"))
        self.refused("FAILED_PRECONDITION", library, library=self.path("broken"))

    def test_an_old_driver_is_named_with_both_versions(self):
        words = ("CUDA 12.8", "CUDA 13.0")
        self.passed_over("no GPU is used", *words, VERSION=12080)
        self.refused("FAILED_PRECONDITION", *words, VERSION=12080)

    def test_a_gpu_that_cannot_be_used_is_passed_over_or_refused_with_the_reason(self):
        self.passed_over("GPU 0 is not used: Fake GPU has compute capability 7.0", CAPABILITY=70)
        self.refused("GPU 0: Fake GPU has compute capability 7.0, but 7.5 or later is needed", CAPABILITY=70)
        self.refused("compute mode of Fake GPU is 'prohibited'", MODE=2)
        self.refused("finds no GPU", DEVICES=0)
        self.refused("in exclusive mode", FAIL="DevicePrimaryCtxRetain:1:46")
        self.refused("no code for the GPU's architecture", FAIL="ModuleLoadData:1:209")
        self.refused("RESOURCE_EXHAUSTED: GPU 0: cuStreamCreate: CUDA_ERROR_OUT_OF_MEMORY", FAIL="StreamCreate:2:2")

    def test_gpus_are_named_by_number_or_uuid(self):
        with self.serve("--gpus=1,0", *DIGITS, DEVICES=2) as server:
            self.assertIn("GPU 0: Fake GPU (GPU-20202020", server.log())
            self.assertIn("GPU 1: Fake GPU (GPU-10101010", server.log())
        with self.serve("--gpus=GPU-2020", *DIGITS, DEVICES=2) as server:
            self.assertIn("GPU 0: Fake GPU (GPU-20202020", server.log())
            self.assertNotIn("GPU 1", server.log())
        self.refused("there is no GPU 1; 1 GPU is visible", gpus="0,1")
        self.refused("there is no GPU GPU-33", gpus="GPU-33")
        self.refused("several GPUs have a UUID that begins with GPU-", gpus="GPU-", DEVICES=2)
        self.refused("names GPU 0 twice", gpus="0,GPU-1010")
        self.refused("names GPU 1 twice", gpus="1,0,1", DEVICES=2)
        for wrong in ("", "0,", ",0", "0,,1"):
            self.refused("neither none, auto, all, nor a list of GPUs", f"'{wrong}' has an empty item", gpus=wrong)
        for wrong in ("-1", "first", "0x1", "0 1", "0,auto"):
            self.refused(f"'{wrong[-4:] if ',' in wrong else wrong}' is neither the number nor the UUID of a GPU",
                         gpus=wrong)
