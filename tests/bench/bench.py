#!/usr/bin/env python3
"""Measures the server: bench.py front|start|swap|load|triton|image ... (./run bench). Prints ratios and medians of
alternating runs.

front   half_plus_two Predict on one core, with the load generator on another, compared with minimal echo servers built
        on libmicrohttpd and gRPC, with 1, 16 and 256 connections. Needs wrk and h2load (Debian: wrk, nghttp2-client).
triton  half_plus_two on one core, compared with Triton's own front ends (starts tests/bench/triton/start.sh), by
        TensorFlow Serving's protocol and by Triton's.
image   a model that averages a float image of 224 x 224 x 3: binary inferences of the Open Inference Protocol, compared
        with Predict over gRPC.
start   the time from process start to the first correct response of half_plus_two.
load    --model DIR (for example resnet50, which make_models.py writes): the time from when a version is judged complete
        and stable until it is AVAILABLE, and until its plans are compiled; also the resident memory relative to the
        packed weights, with and without Winograd.
swap    --model DIR: the failed requests, the resident memory, and the p99 relative to the steady state, for 20 swaps
        under constant load.
"""
import argparse
import datetime
import http.client
import json
import os
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SLIPWAY = os.path.join(ROOT, "build/release/slipway")
ECHO_HTTP = os.path.join(ROOT, "build/release/tests/echo_http")
ECHO_GRPC = os.path.join(ROOT, "build/release/tests/echo_grpc")
PREDICT = "/tensorflow.serving.PredictionService/Predict"
INFER = "/inference.GRPCInferenceService/ModelInfer"
BODY = '{"instances":[1,2,5]}'
INFER_BODY = '{"inputs":[{"name":"x","shape":[3,1],"datatype":"FP32","data":[1,2,5]}]}'


def pinned(core, *command, **kw):
    return subprocess.Popen(["taskset", "-c", str(core), *command], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, **kw)


def wait_port(port, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    sys.exit(f"nobody listens on {port}")


def serve(core, models, *flags, rest=18701, grpc=18700):
    process = pinned(core, SLIPWAY, "serve", f"--port={grpc}", f"--rest_api_port={rest}", f"--models={models}", *flags)
    wait_port(rest)
    for _ in range(600):
        if get(rest, "/readyz")[0] == 200:
            return process
        time.sleep(0.05)
    sys.exit("the server is not ready")


def get(port, path, body=None, timeout=60):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST" if body else "GET", path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def stop(process):
    process.send_signal(signal.SIGTERM)
    process.wait(30)


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wrk(port, path, connections, seconds, pid, body=BODY.encode(), headers=()):
    """Returns (requests per second, CPU microseconds of the server per request)."""
    script, data = tempfile.NamedTemporaryFile("w", suffix=".lua"), tempfile.NamedTemporaryFile("wb")
    data.write(body)
    data.flush()
    script.write(f'wrk.method = "POST"\nwrk.body = io.open("{data.name}", "rb"):read("*a")\n' +
                 "".join(f'wrk.headers["{name}"] = "{value}"\n' for name, value in headers))
    script.flush()
    before = cpu_s(pid)
    out = subprocess.run(["taskset", "-c", "1", "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script.name,
                          f"http://127.0.0.1:{port}{path}"], capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in out:
        sys.exit(f"answers were refused: {out}")
    n = int(re.search(r"(\d+) requests in", out)[1])
    return float(re.search(r"Requests/sec:\s+(\S+)", out)[1]), (cpu_s(pid) - before) * 1e6 / max(n, 1)


def varint(n):
    return bytes([n & 0x7f | 0x80]) + varint(n >> 7) if n > 0x7f else bytes([n])


def field(number, value):
    """Returns a field of a protobuf message, whose value is bytes or a number."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def framed(message):
    return b"\0" + struct.pack(">I", len(message)) + message


def predict_message(model=b"half_plus_two", shape=(3, 1), content=struct.pack("<3f", 1, 2, 5)):
    """Returns a PredictRequest with the float tensor x."""
    tensor = field(1, 1) + field(2, b"".join(field(2, field(1, n)) for n in shape)) + field(4, content)
    return framed(field(1, field(1, model)) + field(2, field(1, b"x") + field(2, tensor)))


def infer_message(model=b"half_plus_two", shape=(3, 1), content=struct.pack("<3f", 1, 2, 5)):
    """Returns a ModelInferRequest with the raw contents of the float tensor x."""
    tensor = field(1, b"x") + field(2, b"FP32") + field(3, b"".join(varint(n) for n in shape))
    return framed(field(1, model) + field(5, tensor) + field(7, content))


def h2load(port, path, connections, streams, seconds, pid, message=predict_message()):
    with tempfile.NamedTemporaryFile("wb") as data:
        data.write(message)
        data.flush()
        before = cpu_s(pid)
        out = subprocess.run(["taskset", "-c", "1", "h2load", f"-c{connections}", f"-m{streams}", "-D", str(seconds),
                              f"--data={data.name}", "-H", "content-type: application/grpc", "-H", "te: trailers",
                              f"http://127.0.0.1:{port}{path}"], capture_output=True, text=True, check=True).stdout
    n = int(re.search(r"requests: \d+ total, \d+ started, (\d+) done", out)[1])
    if not n or int(re.search(r"(\d+) succeeded", out)[1]) < n:
        sys.exit(f"calls failed: {out}")
    return float(re.search(r"finished in \S+, (\S+) req/s", out)[1]), (cpu_s(pid) - before) * 1e6 / max(n, 1)


def half_plus_two(folder):
    os.symlink(os.path.join(ROOT, "models/half_plus_two"), os.path.join(folder, "half_plus_two"))
    return folder


def front(args):
    with tempfile.TemporaryDirectory() as folder:
        server = serve(0, half_plus_two(folder))
        echo_http, echo_grpc = pinned(0, ECHO_HTTP, "18711", stdin=subprocess.PIPE), pinned(0, ECHO_GRPC, "18710",
                                                                                            stdin=subprocess.PIPE)
        try:
            wait_port(18711)
            wait_port(18710)
            path = "/v1/models/half_plus_two:predict"
            status, answer = get(18701, path, BODY)
            assert status == 200 and json.loads(answer) == {"predictions": [2.5, 3.0, 4.5]}, answer
            cases = [(f"REST, {c} connections", lambda p, u, pid, c=c: wrk(p, u, c, args.seconds, pid),
                      (18701, path, server.pid), (18711, "/", echo_http.pid)) for c in (1, 16, 256)]
            cases += [(f"gRPC, {c} x {m}", lambda p, u, pid, c=c, m=m: h2load(p, u, c, m, args.seconds, pid),
                       (18700, PREDICT, server.pid), (18710, PREDICT, echo_grpc.pid))
                      for c, m in ((1, 1), (1, 16), (16, 4), (256, 1))]
            for name, load, ours, bare in cases:
                runs = [(load(*ours), load(*bare)) for _ in range(args.rounds)]
                mine, cpu = (statistics.median(r[0][k] for r in runs) for k in (0, 1))
                other, other_cpu = (statistics.median(r[1][k] for r in runs) for k in (0, 1))
                print(f"{name}: {mine:.0f} requests/s, {mine / other:.2f} of the bare echo's {other:.0f}; CPU "
                      f"{cpu:.1f} us a request, {other_cpu / cpu:.2f} of the echo's {other_cpu:.1f}", flush=True)
        finally:
            for process in (server, echo_http, echo_grpc):
                process.terminate()
                process.wait()


def start(args):
    times = []
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(ROOT, "models/half_plus_two"), os.path.join(folder, "half_plus_two"))
        time.sleep(3.2)  # The server loads a version only when its newest file is at least three seconds old.
        for _ in range(args.rounds * 3):
            begin = time.monotonic()
            process = subprocess.Popen([SLIPWAY, "serve", "--port=18700", "--rest_api_port=18701", f"--models={folder}"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while True:
                try:
                    if get(18701, "/v1/models/half_plus_two:predict", BODY)[0] == 200:
                        break
                except OSError:
                    pass
                time.sleep(0.001)
            times.append(time.monotonic() - begin)
            stop(process)
    print(f"start to first answer: median {statistics.median(times) * 1e3:.0f} ms, worst {max(times) * 1e3:.0f} ms "
          f"(limit 100)")


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) / 1024


def swap(args):
    """Sends requests at a constant rate while new versions appear. When a new version is served, its predecessor is
    removed."""
    source = os.path.abspath(args.model)
    with tempfile.TemporaryDirectory(dir=args.work) as folder:
        base = os.path.join(folder, "m")
        os.makedirs(base)
        shutil.copytree(source, os.path.join(base, "1"))
        process = subprocess.Popen([SLIPWAY, "serve", "--port=0", "--rest_api_port=18701", f"--models={folder}"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_port(18701)
        for _ in range(1200):
            if get(18701, "/readyz")[0] == 200:
                break
            time.sleep(0.05)
        body = open(args.body, "rb").read() if args.body else args.data.encode()
        samples, failed, done = [], [], threading.Event()

        def load():
            connection = http.client.HTTPConnection("127.0.0.1", 18701, timeout=60)
            while not done.is_set():
                begin = time.monotonic()
                try:
                    connection.request("POST", "/v1/models/m:predict", body)
                    answer = connection.getresponse()
                    answer.read()
                    if answer.status != 200:
                        failed.append(answer.status)
                except (OSError, http.client.HTTPException) as error:
                    failed.append(repr(error))
                    connection.close()
                samples.append((begin, time.monotonic() - begin))
                time.sleep(max(0, args.interval - (time.monotonic() - begin)))

        threads = [threading.Thread(target=load) for _ in range(args.clients)]
        for t in threads:
            t.start()
        time.sleep(args.steady)
        swaps_begin, memory = time.monotonic(), []
        for version in range(2, args.swaps + 2):
            staging = os.path.join(folder, ".coming")
            shutil.copytree(source, staging)
            os.rename(staging, os.path.join(base, str(version)))
            while f'"{version}"' not in available(base):
                time.sleep(0.05)
            shutil.rmtree(os.path.join(base, str(version - 1)))
            time.sleep(args.pause)
            memory.append(resident(process.pid))
        swaps_end = time.monotonic()
        done.set()
        for t in threads:
            t.join()
        stop(process)
    steady = sorted(d for b, d in samples if b < swaps_begin)
    during = sorted(d for b, d in samples if swaps_begin <= b < swaps_end)
    p99 = [s[int(len(s) * 0.99)] * 1e3 for s in (steady, during)]
    print(f"{args.swaps} swaps: {len(failed)} of {len(samples)} requests failed {failed[:3]}; resident after the first "
          f"{memory[0]:.0f} MB, after the last {memory[-1]:.0f} MB ({memory[-1] / memory[0] - 1:+.1%}); p99 steady {p99[0]:.1f} ms, "
          f"during {p99[1]:.1f} ms ({p99[1] / p99[0]:.2f} times)")


def gauge(page, name):
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", page, re.M))


def moment(log, text):
    """Returns the time of the log line that begins with `text`, in seconds, or None if the log has no line of this kind
    yet."""
    with open(log, encoding="utf-8") as file:
        found = re.search(rf"^(\S+)Z INFO {text}", file.read(), re.M)
    return datetime.datetime.fromisoformat(found[1]).timestamp() if found else None


def why_not(log):
    """Returns the reason that the log gives for a version that could not be loaded, or None if the log does not give a
    reason yet."""
    with open(log, encoding="utf-8") as file:
        found = re.search(r"^\S+Z ERROR (Loading servable: .*)", file.read(), re.M)
    return found and found[1]


def load_once(args, folder, flags):
    """Returns (seconds to AVAILABLE, seconds until a plan is compiled, CPU seconds, resident MB, packed MB, weights
    MB)."""
    base, log = os.path.join(folder, "m"), os.path.join(folder, "log")
    shutil.rmtree(base, ignore_errors=True)
    os.makedirs(base)
    with open(log, "wb") as file:
        process = subprocess.Popen([SLIPWAY, "serve", "--port=0", "--rest_api_port=18701", f"--models={folder}", *flags],
                                   stdout=subprocess.DEVNULL, stderr=file)
    try:
        wait_port(18701)
        shutil.copytree(args.model, os.path.join(folder, ".coming"))
        before = cpu_s(process.pid)
        os.rename(os.path.join(folder, ".coming"), os.path.join(base, "1"))
        begin = end = compiled = None
        limit = time.monotonic() + 60
        while not (begin and end and compiled):
            why = why_not(log)
            if why or process.poll() is not None or time.monotonic() > limit:
                sys.exit(why or "not loaded: " + open(log, encoding="utf-8").read())
            time.sleep(0.005)
            begin = begin or moment(log, "Loading servable version")
            end = end or moment(log, "Successfully loaded servable version")
            page = get(18701, "/monitoring/prometheus/metrics")[1].decode() if end else ""
            compiled = time.time() if gauge(page, "slipway_model_specialisations") else None
        mb = [gauge(page, f"slipway_model_{what}_bytes") / 1e6 for what in ("packed", "weight")]
        return end - begin, max(compiled - end, 0), cpu_s(process.pid) - before, resident(process.pid) * 1.048576, *mb
    finally:
        stop(process)


def load(args):
    args.model = os.path.abspath(args.model or os.path.join(ROOT, "build/bench-models/resnet50/1"))
    if not os.path.isfile(os.path.join(args.model, "saved_model.pb")):
        sys.exit(f"{args.model} is no version's directory: it has no saved_model.pb")
    for flags in ([], ["--winograd=off"]):
        with tempfile.TemporaryDirectory(dir=args.work) as folder:
            runs = [load_once(args, folder, flags) for _ in range(args.rounds)]
        ready, compiled, cpu, memory, packed, weights = (statistics.median(r[k] for r in runs) for k in range(6))
        # Without Winograd, the packed weights take as much memory as the weights that the signatures use.
        limit = 1.3 * packed + 100
        print(f"{' '.join(flags) or 'as it is'}: AVAILABLE after {ready:.2f} s (limit 1.0), compiled {compiled:.2f} s later (limit "
              f"2), CPU time {cpu:.2f} s; resident {memory:.0f} MB (limit {limit:.0f}: packed {packed:.0f}, in "
              f"the files {weights:.0f})", flush=True)


def available(base):
    try:
        states = json.loads(get(18701, f"/v1/models/{os.path.basename(base)}")[1])["model_version_status"]
        return {f'"{s["version"]}"' for s in states if s["state"] == "AVAILABLE"}
    except (OSError, KeyError, ValueError):
        return set()


def spread(ratios):
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds)"


def compare(rounds, sides):
    """Measures the sides, a dictionary of functions that return (requests/s, CPU us a request), in each round, in an order
    that alternates. Returns the results of each side."""
    results = {name: [] for name in sides}
    for i in range(rounds):
        for name in sorted(sides, reverse=i % 2 == 1):
            results[name].append(sides[name]())
    return results


def print_comparison(results, peer):
    """Prints each side against the peer: the ratio of the rates, and the ratio of the CPU times of a request."""
    for name, ours in results.items():
        rates, cpu = ([r[k] for r in ours] for k in (0, 1))
        line = f"{name}: {statistics.median(rates):.0f} requests/s, CPU {statistics.median(cpu):.1f} us a request"
        if name != peer:
            pairs = list(zip(ours, results[peer]))
            line += (f"; rate / {peer}'s {spread([a[0] / b[0] for a, b in pairs])}, {peer}'s CPU time / this "
                     f"{spread([b[1] / a[1] for a, b in pairs])}")
        print(line, flush=True)


def triton(args):
    """Measures Slipway and Triton on core 0. Triton is started by tests/bench/triton/start.sh WORK 0, and has the requests of
    tests/bench/triton/load.sh."""
    here = os.path.join(ROOT, "tests/bench/triton")
    with tempfile.TemporaryDirectory() as folder:
        peer = subprocess.Popen(["sh", f"{here}/start.sh", args.work or folder, "0"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        server = serve(0, half_plus_two(folder))
        try:
            wait_port(9000, 600)
            wait_port(9001, 60)
            time.sleep(3)
            body, json_type = INFER_BODY.encode(), [("Content-Type", "application/json")]
            rest = lambda port, path, pid, body: wrk(port, path, 16, args.seconds, pid, body, json_type)
            grpc = lambda port, path, pid, message: h2load(port, path, 8, 32, args.seconds, pid, message)
            print_comparison(compare(args.rounds, {
                "Triton, REST": lambda: rest(9000, "/v2/models/hpt/infer", peer.pid, body.replace(b"[3,1]", b"[3]")),
                "v2, REST": lambda: rest(18701, "/v2/models/half_plus_two/infer", server.pid, body),
                "v1, REST": lambda: rest(18701, "/v1/models/half_plus_two:predict", server.pid, BODY.encode()),
            }), "Triton, REST")
            print_comparison(compare(args.rounds, {
                "Triton, gRPC": lambda: grpc(9001, INFER, peer.pid, infer_message(b"hpt", (3,))),
                "v2, gRPC": lambda: grpc(18700, INFER, server.pid, infer_message()),
                "Predict, gRPC": lambda: grpc(18700, PREDICT, server.pid, predict_message()),
            }), "Triton, gRPC")
        finally:
            server.terminate()
            peer.terminate()
            server.wait()
            peer.wait()


def image(args):
    """Measures a model of one cheap op, so that the time is that of the protocols."""
    sys.path[:0] = [os.path.join(ROOT, "tests/e2e"), os.path.join(ROOT, "build/python")]
    import small_models  # pylint: disable=import-outside-toplevel

    def build(g):
        g.placeholder("x", "float")
        g.const("axes", "int32", [3], int_val=[1, 2, 3])
        g.node("y", "Mean", "x", "axes", T="float", Tidx="int32")

    shape = (1, 224, 224, 3)
    pixels = struct.pack("<f", 0.5) * (224 * 224 * 3)
    head = json.dumps({"inputs": [{"name": "x", "shape": shape, "datatype": "FP32",
                                   "parameters": {"binary_data_size": len(pixels)}}],
                       "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}).encode()
    with tempfile.TemporaryDirectory() as folder:
        small_models.write(os.path.join(folder, "image", "1"),
                           {"serving_default": ({"x": ("x", "float", [-1, 224, 224, 3])}, {"y": ("y", "float", [-1])})}, build)
        server = serve(0, folder)
        try:
            grpc = lambda path, message: h2load(18700, path, 4, 2, args.seconds, server.pid, message)
            print_comparison(compare(args.rounds, {
                "Predict, gRPC": lambda: grpc(PREDICT, predict_message(b"image", shape, pixels)),
                "v2, gRPC": lambda: grpc(INFER, infer_message(b"image", shape, pixels)),
                "v2, REST": lambda: wrk(18701, "/v2/models/image/infer", 8, args.seconds, server.pid, head + pixels,
                                        [("Inference-Header-Content-Length", len(head))]),
            }), "Predict, gRPC")
        finally:
            server.terminate()
            server.wait()


def main():
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["front", "start", "swap", "load", "triton", "image"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--model", help="swap, load: a version's directory")
    parser.add_argument("--body", help="swap: file with the request body")
    parser.add_argument("--data", default=BODY, help="swap: the request body")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--interval", type=float, default=0.25, help="swap: seconds between a client's requests")
    parser.add_argument("--swaps", type=int, default=20)
    parser.add_argument("--steady", type=float, default=20)
    parser.add_argument("--pause", type=float, default=2)
    parser.add_argument("--work", help="swap, load, triton: folder for what they make")
    args = parser.parse_args()
    {"front": front, "start": start, "swap": swap, "load": load, "triton": triton, "image": image}[args.what](args)


if __name__ == "__main__":
    main()
