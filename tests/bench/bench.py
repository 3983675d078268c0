#!/usr/bin/env python3
"""Measures the server: bench.py front|start|swap|load|triton ... (./run bench). Prints ratios and medians of
alternating runs.

front   half_plus_two Predict on one core, with the load generator on another, compared with minimal echo servers built
        on libmicrohttpd and gRPC, with 1, 16 and 256 connections. Needs wrk and h2load (Debian: wrk, nghttp2-client).
triton  like `front`, but compared with Triton's own front ends (starts tests/bench/triton/start.sh).
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
BODY = '{"instances":[1,2,5]}'


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


def wrk(port, path, connections, seconds, pid):
    """Returns (requests per second, CPU microseconds of the server per request)."""
    script = tempfile.NamedTemporaryFile("w", suffix=".lua")
    script.write(f'wrk.method = "POST"\nwrk.body = [[{BODY}]]\n')
    script.flush()
    before = cpu_s(pid)
    out = subprocess.run(["taskset", "-c", "1", "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script.name,
                          f"http://127.0.0.1:{port}{path}"], capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in out:
        sys.exit(f"answers were refused: {out}")
    n = int(re.search(r"(\d+) requests in", out)[1])
    return float(re.search(r"Requests/sec:\s+(\S+)", out)[1]), (cpu_s(pid) - before) * 1e6 / max(n, 1)


def predict_message():
    shape = b"\x12\x02\x08\x03"
    tensor = b"\x08\x01" + b"\x12" + bytes([len(shape)]) + shape + b"\x22\x0c" + struct.pack("<3f", 1, 2, 5)
    entry = b"\x0a\x01x\x12" + bytes([len(tensor)]) + tensor
    spec = b"\x0a\x0dhalf_plus_two"
    message = b"\x0a" + bytes([len(spec)]) + spec + b"\x12" + bytes([len(entry)]) + entry
    return b"\0" + struct.pack(">I", len(message)) + message


def h2load(port, path, connections, streams, seconds, pid):
    with tempfile.NamedTemporaryFile("wb") as data:
        data.write(predict_message())
        data.flush()
        before = cpu_s(pid)
        out = subprocess.run(["taskset", "-c", "1", "h2load", f"-c{connections}", f"-m{streams}", "-D", str(seconds),
                              f"--data={data.name}", "-H", "content-type: application/grpc", "-H", "te: trailers",
                              f"http://127.0.0.1:{port}{path}"], capture_output=True, text=True, check=True).stdout
    n = int(re.search(r"requests: \d+ total, \d+ started, (\d+) done", out)[1])
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


def triton(args):
    """Measures Slipway and Triton alternately on core 0. Triton is started by tests/bench/triton/start.sh WORK 0."""
    with tempfile.TemporaryDirectory() as folder:
        here = os.path.join(ROOT, "tests/bench/triton")
        peer = subprocess.Popen(["sh", f"{here}/start.sh", args.work, "0"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        server = serve(0, half_plus_two(folder))
        try:
            wait_port(9000, 600)
            wait_port(9001, 60)
            time.sleep(3)
            rest, grpc = [], []
            for _ in range(args.rounds):
                out = subprocess.run(["sh", f"{here}/load.sh", "1"], capture_output=True, text=True, check=True).stdout
                peer_rest = float(re.search(r"Requests/sec:\s+(\S+)", out)[1])
                peer_grpc = float(re.search(r"finished in \S+, (\S+) req/s", out)[1])
                rest.append(wrk(18701, "/v1/models/half_plus_two:predict", 16, 5, server.pid)[0] / peer_rest)
                grpc.append(h2load(18700, PREDICT, 8, 32, 5, server.pid)[0] / peer_grpc)
                print(f"Triton REST {peer_rest:.0f}, gRPC {peer_grpc:.0f}", flush=True)
            print(f"against Triton's front ends: REST {statistics.median(rest):.2f} times, gRPC "
                  f"{statistics.median(grpc):.2f} times (wanted 1.5)")
        finally:
            server.terminate()
            peer.terminate()
            server.wait()
            peer.wait()


def main():
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["front", "start", "swap", "load", "triton"])
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
    {"front": front, "start": start, "swap": swap, "load": load, "triton": triton}[args.what](args)


if __name__ == "__main__":
    main()
