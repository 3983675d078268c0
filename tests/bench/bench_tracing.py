#!/usr/bin/env python3
"""Measures what traces cost half_plus_two (./run bench tracing [OLD_BINARY]): build/release/slipway with a collector and
--trace_sampling_ratio=0.01, against the same binary without a collector. OLD_BINARY, a build from before there were
traces, is compared with the binary without a collector too.

As `./run bench paired`, which has the details: pairs of measurements whose order alternates, of CPU time per request,
with the median of the ratios and the 95 % interval of their geometric mean. The end of an interval must reach --wanted.

--count counts the instructions of a request outside of the kernel instead, by valgrind. Other programs on the machine do
not change their number.
"""
import argparse
import glob
import http.server
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import bench
import bench_paired

PORT = 18741


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes every export, and counts their bytes."""
    protocol_version = "HTTP/1.1"
    taken = 0

    def do_POST(self):
        Collector.taken += len(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):  # the base class writes a line for each request
        pass


def start_collector():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Counted:
    """A server under valgrind, which counts its instructions."""

    def __init__(self, binary, folder, flags):
        self.out = os.path.join(tempfile.mkdtemp(dir=folder), "out")
        self.process = subprocess.Popen(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self.out}", binary, "serve", "--port=18700",
             "--rest_api_port=18701", f"--models={folder}/models", "--autotune=off", *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        bench.wait_port(18701, 120)
        while bench.get(18701, "/readyz")[0] != 200:
            time.sleep(0.1)

    def send(self, n, transport):
        with tempfile.NamedTemporaryFile("wb") as data:
            data.write(bench.predict_message() if transport == "gRPC" else bench.BODY.encode())
            data.flush()
            url = ["-H", "content-type: application/grpc", "-H", "te: trailers", "http://127.0.0.1:18700" + bench.PREDICT]
            if transport == "REST":
                url = ["--h1", "http://127.0.0.1:18701/v1/models/half_plus_two:predict"]
            out = subprocess.run(["h2load", "-n", str(n), "-c1", "-m1", f"--data={data.name}", *url], capture_output=True, text=True,
                                 check=True).stdout
        if f"{n} succeeded" not in out:
            sys.exit(f"calls failed: {out}")

    def control(self, what):
        subprocess.run(["callgrind_control", what, str(self.process.pid)], check=True, capture_output=True)

    def count(self, transport, n):
        """Returns the instructions of a request."""
        self.send(n // 4, transport)
        self.control("--zero")
        self.send(n, transport)
        time.sleep(2)  # for the export of the last traces
        before = set(glob.glob(self.out + ".*"))
        self.control("--dump")
        (dump,) = set(glob.glob(self.out + ".*")) - before
        with open(dump, encoding="utf-8") as file:
            return int(re.search(r"^totals: (\d+)", file.read(), re.M)[1]) / n

    def stop(self):
        self.process.terminate()
        self.process.wait()


def count_all(args, folder, cases):
    """Counts each case, a name with a binary and its flags, several times in turn. The first one is what others are compared
    with."""
    os.makedirs(os.path.join(folder, "models"))
    bench.half_plus_two(os.path.join(folder, "models"))
    counts = {}
    for i in range(args.rounds):
        for name, (binary, flags) in sorted(cases.items(), reverse=i % 2 == 1):
            server = Counted(binary, folder, flags)
            try:
                for transport in ("REST", "gRPC"):
                    counts.setdefault((transport, name), []).append(server.count(transport, args.requests))
            finally:
                server.stop()
    good = True
    for (transport, name), values in sorted(counts.items()):
        base = statistics.median(counts[transport, "off"])
        median = statistics.median(values)
        good &= name != "on" or base / median >= args.wanted
        print(f"{transport}, {name}: {median:.0f} instructions a request ({min(values):.0f} to {max(values):.0f} in {args.rounds} "
              f"rounds), {median / base - 1:+.2%} against off", flush=True)
    return good


def compare(name, args, old, new):
    """Compares two servers, given as pairs of their process and their REST and gRPC ports."""
    good = True
    path = "/v1/models/half_plus_two:predict"
    rest = lambda s: bench.wrk(s[1], path, 16, args.seconds, s[0].pid)[1]
    grpc = lambda s: bench.h2load(s[2], bench.PREDICT, 16, 4, args.seconds, s[0].pid)[1]
    for transport, load in (("REST", rest), ("gRPC", grpc)):
        pairs = bench_paired.measure_pairs(args.pairs, lambda load=load: load(old), lambda load=load: load(new))
        good &= bench_paired.report(f"{name}, {transport}, us a request", pairs, args.wanted)
    return good


def main():
    parser = argparse.ArgumentParser(prog="./run bench tracing", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", nargs="?", help="a binary without traces")
    parser.add_argument("--ratio", default="0.01", help="the part of the traces that is exported")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--seconds", type=int, default=2, help="how long each measurement takes")
    parser.add_argument("--wanted", type=float, default=0.98, help="what the end of the interval must reach")
    parser.add_argument("--count", action="store_true", help="count instructions; needs valgrind")
    parser.add_argument("--rounds", type=int, default=3, help="--count: measurements of each kind")
    parser.add_argument("--requests", type=int, default=5000, help="--count: requests of a measurement")
    args = parser.parse_args()
    if args.pairs < 5:
        parser.error("--pairs: an interval needs at least 5")
    collector, good, ours = start_collector(), True, bench.SLIPWAY
    flags = [f"--otlp_endpoint=http://127.0.0.1:{PORT}", f"--trace_sampling_ratio={args.ratio}", "--otlp_interval_seconds=1"]
    with tempfile.TemporaryDirectory() as folder:
        if args.count:
            cases = {"off": (ours, []), "on": (ours, flags), **({"before": (args.old, [])} if args.old else {})}
            return 0 if count_all(args, folder, cases) and Collector.taken else 1
        bench.half_plus_two(folder)
        servers = []

        def serve(binary, rest, *more):
            bench.SLIPWAY = binary
            servers.append(bench.serve(0, folder, *more, rest=rest, grpc=rest - 1))
            return servers[-1], rest, rest - 1

        try:
            off = serve(ours, 18731)
            good &= compare(f"sampled {args.ratio}", args, off, serve(ours, 18721, *flags))
            print(f"the collector took {Collector.taken} bytes", flush=True)
            good &= Collector.taken > 0
            if args.old:
                good &= compare("without a collector", args, serve(args.old, 18711), off)
        finally:
            for server in servers:
                server.terminate()
                server.wait()
            collector.shutdown()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
