#!/usr/bin/env python3
"""Tests and measures Slipway on a GPU: visit.py [--part PART] [--driver fake] [--out FILE] [--models NAME,...]

Parts, all of which run if none is named:
  self     checks what Slipway relies on in the driver, and compares each op that has a GPU kernel with TensorFlow's
           recorded results
  models   compares each model with the CPU in float32, and measures the time per batch on the GPU and on the CPU
  server   serves models on the GPU: checks responses, swaps of versions under load, and the release of memory
  peers    measures PyTorch on the same models (peers.py), and compares its times with those of the part `models`

Needs Python 3 with numpy and, for a real GPU, the NVIDIA driver, cuBLASLt and cuDNN. The part `peers` also needs torch,
torchvision and transformers. Runs in a checkout after `./run
build`, or in the folder that bundle.py makes. With --driver=fake, the fake driver of the tests takes the place of a GPU,
only small models run, and nothing is timed.

The results are written to FILE (gpu.json) after each step. A part skips the steps whose results are in FILE. A
part that a time limit has ended can therefore be run again. The last line is "N passed, M failed".
"""
import argparse
import concurrent.futures
import ctypes
import json
import math
import os
import pathlib
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build" / "release"
GRAPHS = ROOT / "tests" / "gpu" / "models"
# models whose device code also runs in reasonable time on the fake driver
SMALL = ("tiny", "widedeep")
BATCHES = (1, 8, 32, 128)
# limit on the difference between an output on the GPU and on the CPU, relative to the output's largest magnitude
BOUND = {"tf32": 2e-2, "float32": 1e-3}
PRECISIONS = tuple(BOUND)
WEIGHTS = 2  # version of the weights that fill_weights makes; a change makes those of earlier versions again
COMPILED = ("resnet50", "efficientnetb0", "bert")  # models that PyTorch also compiles, which takes up to a minute each
NOT_RUN = 77  # Exit status if the build has no code for GPUs. It is automake's status for a skipped test.


class Failure(Exception):
    pass


class Visit:
    def __init__(self, options):
        self.out = pathlib.Path(options.out)
        self.is_fake = options.driver == "fake"
        self.only = options.models.split(",") if options.models else None
        known = self.out.read_text() if self.out.exists() else ""
        self.results = json.loads(known) if known else {}
        self.passed = self.failed = 0
        self.environment = dict(os.environ)
        libraries = [str(BUILD / "fake_cuda")] if self.is_fake else []
        if (ROOT / "lib").is_dir():
            libraries.append(str(ROOT / "lib"))
        if libraries:
            self.environment["LD_LIBRARY_PATH"] = ":".join(libraries + [os.environ.get("LD_LIBRARY_PATH", "")])
        if not self.is_fake:
            self.environment["SLIPWAY_REAL_DRIVER"] = "1"

    def step(self, part, name, call):
        """Returns the result `name` from the file. If the file has no such result, calls `call` and stores its result.
        If `call` raises a Failure, reports the Failure and returns None."""
        known = self.results.setdefault(part, {})
        if name not in known:
            begun = time.monotonic()
            try:
                known[name] = call()
            except Failure as failure:
                self.failed += 1
                print(f"FAILED {part}: {name}: {failure}", flush=True)
                return None
            self.out.write_text(json.dumps(self.results, indent=1) + "\n")
            print(f"  ok   {part}: {name}: {json.dumps(known[name])} ({time.monotonic() - begun:.0f} s)", flush=True)
        self.passed += 1
        return known[name]

    def run(self, *command, input=None, **environment):
        """Runs a command and returns its standard output. Raises Failure if the command fails."""
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, input=input,
                              env={**self.environment, **environment})
        if done.returncode:
            lines = (done.stdout + done.stderr).strip().splitlines()
            raise Failure(f"exit status {done.returncode}: " + "\n".join(lines[-12:]))
        return done.stdout

    def slipway(self, *arguments, input=None):
        return self.run(BUILD / "slipway", *arguments, input=input)


# ---- self ----

def self_test(visit):
    visit.step("self", "driver", lambda: check_driver(visit))
    if not visit.is_fake:
        visit.step("self", "cuDNN's description of the GPU", describe)
    for precision in ("fake",) if visit.is_fake else PRECISIONS:
        visit.step("self", f"recorded answers, {precision}", lambda p=precision: replay(visit, p))


def check_driver(visit):
    text = visit.run(BUILD / "tests" / "test_driver_contract", CMOCKA_MESSAGE_OUTPUT="TAP")
    return {"tests": len(re.findall(r"^ok ", text, re.M))}


def describe():
    """Returns cuDNN's description of the GPU, from which tests/unit/gpu/test_dnn_plan.c makes plans without a GPU."""
    device_kind, handle_of, description = 38, 2701, 2702  # of cudnnBackendDescriptorType_t and ...AttributeName_t
    handle_type, text_type = 0, 24  # of cudnnBackendAttributeType_t
    try:
        cudnn = ctypes.CDLL("libcudnn.so.9")
    except OSError as error:
        raise Failure(f"cuDNN is not on LD_LIBRARY_PATH: {error}") from error
    handle, device, n = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int64()
    text = ctypes.create_string_buffer(1 << 16)
    calls = (lambda: cudnn.cudnnCreate(ctypes.byref(handle)),
             lambda: cudnn.cudnnBackendCreateDescriptor(device_kind, ctypes.byref(device)),
             lambda: cudnn.cudnnBackendSetAttribute(device, handle_of, handle_type, ctypes.c_int64(1), ctypes.byref(handle)),
             lambda: cudnn.cudnnBackendFinalize(device),
             lambda: cudnn.cudnnBackendGetAttribute(device, description, text_type, ctypes.c_int64(len(text)),
                                                    ctypes.byref(n), text))
    for call in calls:
        status = call()
        if status:
            raise Failure(f"cuDNN: status {status}")
    return json.loads(text.raw[:n.value].rstrip(b"\0"))


def replay(visit, driver):
    text = visit.run(sys.executable, ROOT / "tests" / "conformance" / "replay.py", f"--gpu={driver}")
    ops, passed = re.search(r"(\d+) ops\n(\d+) passed, 0 failed", text).groups()
    return {"ops": int(ops), "cases": int(passed)}


# ---- models ----

def model_folder(name):
    """Returns the folder of a model's version. The first call for a model makes its weights."""
    folder = BUILD / "gpu-models" / name / "1"
    ready = folder / f"ready-{WEIGHTS}"
    if not ready.exists():
        shutil.rmtree(folder.parent, ignore_errors=True)
        with tarfile.open(GRAPHS / f"{name}.tar.xz") as archive:
            archive.extractall(folder.parent.parent)
        subprocess.run([BUILD / "tests" / "fill_weights", folder], check=True)
        ready.touch()
    return folder


def model_names(visit):
    every = sorted(p.name.removesuffix(".tar.xz") for p in GRAPHS.glob("*.tar.xz"))
    return [n for n in every if (n in visit.only if visit.only else n in SMALL or not visit.is_fake)]


def compare(visit, folder, precision):
    """Returns the largest difference between an output on the GPU and on the CPU, relative to the output's largest
    magnitude."""
    answer = json.loads(visit.slipway("run", folder, "--compare", "--device=gpu", f"--gpu_precision={precision}",
                                      "--batch=2", "--json"))
    worst = max(o["max_abs"] / max(o["largest"], 1e-30) for o in answer)
    if not worst <= BOUND[precision]:
        raise Failure(f"the relative difference is {worst:.3g}")
    return worst


def random_inputs(signature, rows):
    """Returns random inputs of a signature of `slipway inspect --json`, as a body of a REST request."""
    source = random.Random(1)

    def fill(shape, one):
        return [fill(shape[1:], one) for _ in range(shape[0])] if shape else one()

    inputs = {}
    for name, tensor in signature["inputs"].items():
        one = (lambda: 1) if "mask" in name else source.random if tensor["dtype"] == "DT_FLOAT" else (
            lambda: source.randrange(1000))
        inputs[name] = fill([rows if n < 0 else n for n in tensor["shape"]], one)
    return json.dumps({"inputs": inputs})


def describe_outputs(slipway, folder, rows=2):
    """Runs a model on the CPU on random inputs. Returns for each output the entropy of its rows relative to that of equal
    probabilities, or None if the rows are no probabilities, the standard deviation of its elements, and the largest
    difference between its rows, both relative to its largest magnitude. slipway(*arguments, input=text) runs a command
    and returns its output."""
    signature = json.loads(slipway("inspect", folder, "--json"))["signatures"]["serving_default"]
    answer = json.loads(slipway("run", folder, "--inputs", "-", input=random_inputs(signature, rows)))["outputs"]
    described = {}
    for name, values in (answer if isinstance(answer, dict) else {"": answer}).items():
        every = sum(values, [])
        largest = max(map(abs, every))
        entropies = None
        if len(values[0]) > 1 and min(every) >= 0 and all(abs(sum(row) - 1) < 1e-3 for row in values):
            entropies = [-sum(p * math.log(p) for p in row if p) / math.log(len(row)) for row in values]
        change = max(abs(a - b) for row in values[1:] for a, b in zip(values[0], row))
        described[name] = {"entropies": entropies, "deviation": statistics.pstdev(every) / largest,
                           "change": change / largest}
    return described


def check_outputs(slipway, folder):
    """Checks that the model's outputs say something about its computations: they depend on the inputs, they differ from
    each other, and probabilities are neither 0 or 1 nor all equal. Returns what describe_outputs returns."""
    described = describe_outputs(slipway, folder)
    for name, output in described.items():
        if not all(0.2 < e < 0.995 for e in output["entropies"] or ()) or output["deviation"] < 1e-2 or output["change"] < 1e-5:
            raise Failure(f"output {name} of {folder} says little: {output}")
    return described


def measure(visit, folder, *flags):
    """Returns the median time of a run in milliseconds for each batch size."""
    times = {}
    for batch in BATCHES:
        text = visit.slipway("run", folder, "--bench", "--json", f"--batch={batch}", "--seconds=1", *flags)
        times[str(batch)] = json.loads(text)["median_ms"]
    return times


def test_models(visit):
    for name in model_names(visit):
        folder = model_folder(name)
        visit.step("models", f"{name} outputs", lambda f=folder: check_outputs(visit.slipway, f))
        for precision in PRECISIONS:
            visit.step("models", f"{name} {precision}", lambda f=folder, p=precision: compare(visit, f, p))
        if visit.is_fake:
            continue
        gpu = visit.step("models", f"{name} GPU ms", lambda f=folder: measure(visit, f, "--device=gpu"))
        cpu = visit.step("models", f"{name} CPU ms",
                         lambda f=folder: measure(visit, f, f"--threads={min(os.cpu_count() or 1, 16)}"))
        for batch in gpu or () if cpu else ():
            print(f"       {name:15} batch {batch:>4}: GPU {gpu[batch]:9.3f} ms, CPU {cpu[batch]:9.3f} ms", flush=True)


# ---- server ----

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server on free ports of this machine, stopped at the end of a `with` block."""

    def __init__(self, visit, *flags):
        self.port = free_port()
        self.log = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(
            [BUILD / "slipway", "serve", f"--rest_api_port={self.port}", f"--port={free_port()}", *flags],
            env=visit.environment, stdout=self.log, stderr=subprocess.STDOUT)

    def ask(self, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=body and json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()

    def wait(self, what, seconds=300):
        end = time.monotonic() + seconds
        while True:
            try:
                if what():
                    return
            except (OSError, ValueError):
                pass
            if time.monotonic() > end or self.process.poll() is not None:
                self.log.seek(0)
                raise Failure("the server did not become ready: " + "".join(self.log.readlines()[-12:]))
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


def predictions(server, rows):
    return [json.loads(server.ask("/v1/models/digits:predict", {"instances": [row]}))["predictions"][0] for row in rows]


def digits_rows():
    files = sorted((ROOT / "models" / "digits" / "held_out").glob("[0-9]*.json"))
    return [json.loads(file.read_text())["instances"][0] for file in files]


def memory_in_use(server):
    """Returns the number of bytes that sessions hold on GPUs."""
    page = server.ask("/monitoring/prometheus/metrics")
    values = re.findall(r'^slipway_gpu_memory_bytes{.*use="(?:weights|tensors)"} (\S+)$', page, re.M)
    if not values:
        raise Failure("the metrics page does not tell the memory of GPUs")
    return sum(map(float, values))


def test_server(visit):
    visit.step("server", "digits", lambda: serve_digits(visit))


def serve_digits(visit):
    """Serves digits on the CPU and the GPU, compares the responses, and swaps versions while clients send requests. At
    the end, no memory of the GPU is in use."""
    rows = digits_rows()
    base = pathlib.Path(tempfile.mkdtemp())
    config = base / "models.config"
    try:
        (base / "digits").mkdir()
        shutil.copytree(ROOT / "models" / "digits" / "1", base / "digits" / "1")
        config.write_text(f'model_config_list {{ config {{ name: "digits" base_path: "{base}/digits" '
                          'model_platform: "tensorflow" } }\n')
        flags = (f"--model_config_file={config}", "--file_system_poll_wait_seconds=1",
                 "--model_config_file_poll_wait_seconds=1")
        answers = []
        for gpus in ("none", "all"):
            with Server(visit, f"--gpus={gpus}", *flags) as server:
                server.wait(lambda s=server: s.ask("/readyz"))
                answers.append(predictions(server, rows))
                swaps = swap_under_load(server, base / "digits", rows) if gpus == "all" else 0
                if gpus == "all":
                    config.write_text("model_config_list { }\n")
                    server.wait(lambda s=server: memory_in_use(s) == 0, 30)
        worst = max(abs(a - b) for one, other in zip(*answers) for a, b in zip(one, other))
        if worst > 1e-2:
            raise Failure(f"a probability differs by {worst}")
        return {"largest difference": worst, **swaps}
    finally:
        shutil.rmtree(base)


def swap_under_load(server, folder, rows, n=10):
    """Adds n versions, one after the other, while four clients send requests. Returns the numbers of versions
    and of requests."""
    stop = []

    def ask():
        n_asked = 0
        while not stop:
            predictions(server, rows[:1])
            n_asked += 1
        return n_asked

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(ask) for _ in range(4)]
        try:
            for version in range(2, n + 2):
                shutil.copytree(ROOT / "models" / "digits" / "1", folder / f".{version}")
                (folder / f".{version}").rename(folder / str(version))
                server.wait(lambda v=version: f'"{v}"' in server.ask("/v1/models/digits") and "AVAILABLE" in
                            server.ask(f"/v1/models/digits/versions/{v}"), 60)
        finally:
            stop.append(True)
        try:
            return {"swaps": n, "requests": sum(c.result() for c in clients), "failed": 0}
        except (OSError, urllib.error.HTTPError) as error:
            raise Failure(f"a request failed while versions were swapped: {error}") from error


# ---- peers ----

def test_peers(visit):
    for name in model_names(visit):
        if not visit.is_fake and name != "tiny":
            visit.step("peers", name, lambda n=name: measure_peer(n))
            print_ratios(visit, name)


def measure_peer(name):
    """Returns the times of PyTorch as {"eager" or "compiled": {batch size: {"gpu" or "whole": ms}}}."""
    command = [sys.executable, ROOT / "tests" / "gpu" / "peers.py", "--models", name]
    if name in COMPILED:
        command += ["--compiled", name]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure("\n".join(done.stderr.strip().splitlines()[-3:]))
    results = [json.loads(line) for line in done.stdout.splitlines()]
    return {result["kind"]: result["ms"] for result in results}


def print_ratios(visit, name):
    ours = visit.results.get("models", {}).get(f"{name} GPU ms", {})
    for kind, times in visit.results["peers"].get(name, {}).items():
        for batch, ms in times.items():
            if batch in ours:
                print(f"       {name:15} batch {batch:>4}: {ours[batch]:9.3f} ms, PyTorch {kind} {ms['whole']:9.3f} ms, "
                      f"{ms['whole'] / ours[batch]:.2f} times as long", flush=True)


PARTS = {"self": self_test, "models": test_models, "server": test_server, "peers": test_peers}


def main():
    parser = argparse.ArgumentParser(prog="./run gpu" if (ROOT / "run").exists() else None, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--driver", choices=("real", "fake"), default="real")
    parser.add_argument("--out", default="gpu.json")
    parser.add_argument("--models", help="names of models, separated by commas")
    options = parser.parse_args()
    visit = Visit(options)
    done = subprocess.run([BUILD / "slipway", "inspect", ROOT / "models" / "digits", "--plan", "--device=gpu"],
                          env=visit.environment, capture_output=True, text=True, check=False)
    if "built without nvcc" in done.stderr:
        print("the build has no code for GPUs, because it found no nvcc")
        return NOT_RUN
    for name, part in PARTS.items():
        if options.part in (None, name):
            part(visit)
    print(f"{visit.passed} passed, {visit.failed} failed")
    return 1 if visit.failed or not visit.passed else 0


if __name__ == "__main__":
    sys.exit(main())
