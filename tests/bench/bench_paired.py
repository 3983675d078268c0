#!/usr/bin/env python3
"""Compares two builds of the server (./run bench paired OLD_BINARY ...): build/release/slipway against an older
binary.

Each case is measured in pairs whose order alternates. Both builds are pinned to the same core, and the load to
another core. The script prints the median of the ratios old time / new time, which is above 1 where the new build is
faster, and the 95 % confidence interval of their geometric mean. Times are CPU time per request or run, so that other
programs on the core matter little.

REST and gRPC: half_plus_two Predict, with 16 connections and 16 x 4 streams. Models: each --model DIR, a version's
directory, with random inputs.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

import bench

# Two-sided 95 % points of Student's t distribution by degrees of freedom. If a number of degrees of freedom is missing,
# the largest number below it is used.
STUDENT = {4: 2.776, 6: 2.447, 8: 2.306, 10: 2.228, 12: 2.179, 14: 2.145, 16: 2.120, 19: 2.093, 24: 2.064, 29: 2.045}


def interval(ratios):
    """Returns (median, low, high), where low and high are the bounds of the 95 % confidence interval of the geometric
    mean."""
    logs = [math.log(r) for r in ratios]
    mean, spread = statistics.mean(logs), statistics.stdev(logs)
    freedom = max((f for f in STUDENT if f <= len(logs) - 1), default=4)
    half = STUDENT[freedom] * spread / math.sqrt(len(logs))
    return statistics.median(ratios), math.exp(mean - half), math.exp(mean + half)


def report(name, pairs, wanted):
    median, low, high = interval([old / new for old, new in pairs])
    old, new = (statistics.median(p[k] for p in pairs) for k in (0, 1))
    verdict = "ok" if high >= wanted else "SLOWER"
    print(f"{name}: old {old:.4g}, new {new:.4g}; old / new {median:.3f}, 95 % interval {low:.3f} to {high:.3f} of {len(pairs)} "
          f"pairs (its end must reach {wanted}): {verdict}", flush=True)
    return high >= wanted


def measure_pairs(n, old, new):
    """Measures n pairs (old, new). The order alternates: old new, new old, ..."""
    pairs = []
    for i in range(n):
        first, second = (old, new) if i % 2 == 0 else (new, old)
        a, b = first(), second()
        pairs.append((a, b) if i % 2 == 0 else (b, a))
    return pairs


def server(binary, folder, rest, grpc):
    bench.SLIPWAY = binary
    return bench.serve(0, folder, rest=rest, grpc=grpc)


def front(args):
    good = True
    with tempfile.TemporaryDirectory() as folder:
        bench.half_plus_two(folder)
        old, new = server(args.old, folder, 18721, 18720), server(args.new, folder, 18731, 18730)
        try:
            path = "/v1/models/half_plus_two:predict"
            good &= report("REST, us a request",
                           measure_pairs(args.pairs, lambda: bench.wrk(18721, path, 16, args.seconds, old.pid)[1],
                                         lambda: bench.wrk(18731, path, 16, args.seconds, new.pid)[1]), args.wanted)
            good &= report("gRPC, us a request",
                           measure_pairs(args.pairs, lambda: bench.h2load(18720, bench.PREDICT, 16, 4, args.seconds, old.pid)[1],
                                         lambda: bench.h2load(18730, bench.PREDICT, 16, 4, args.seconds, new.pid)[1]), args.wanted)
        finally:
            for process in (old, new):
                process.terminate()
                process.wait()
    return good


class Model:
    """A `slipway run --bench` process that makes one measurement for each line of its input. The model stays loaded
    between the lines."""

    def __init__(self, binary, directory, batch):
        self.process = subprocess.Popen(
            ["taskset", "-c", "0", binary, "run", directory, "--bench", "--json", "--on_line", f"--batch={batch}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, seconds):
        self.process.stdin.write(f"{int(seconds * 1000)}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("slipway run ended early")
        return json.loads(line)["cpu_ms"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure_fresh(binary, directory, batch, seconds):
    """Measures in a new process. Within one process, autotuning's choices and the memory layout do not change, so they
    could favour one build in all pairs."""
    one = Model(binary, directory, batch)
    try:
        one.measure(1)  # a first run, which compiles the model and fills the caches, is not counted
        return one.measure(seconds)
    finally:
        one.close()


def model(args, directory, batch):
    name = os.path.basename(os.path.dirname(os.path.abspath(directory)))
    return report(f"{name}, batch {batch}, ms a run",
                  measure_pairs(args.pairs, lambda: measure_fresh(args.old, directory, batch, args.seconds),
                                lambda: measure_fresh(args.new, directory, batch, args.seconds)), args.wanted)


def main():
    parser = argparse.ArgumentParser(prog="./run bench paired", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="the binary to compare with")
    parser.add_argument("--new", default=bench.SLIPWAY)
    parser.add_argument("--model", action="append", default=[], help="a version's directory; may be repeated")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--seconds", type=int, default=2, help="how long each measurement takes")
    parser.add_argument("--wanted", type=float, default=0.98, help="what the end of the interval must reach")
    parser.add_argument("--no_front", action="store_true", help="models only")
    args = parser.parse_args()
    if args.pairs < 5:
        parser.error("--pairs: an interval needs at least 5")
    args.old, args.new = os.path.abspath(args.old), os.path.abspath(args.new)
    for binary in (args.old, args.new):
        if not os.access(binary, os.X_OK):
            parser.error(f"{binary} is no program")
    good = True
    for directory in args.model:
        good &= model(args, directory, args.batch)
    if not args.no_front:
        good &= front(args)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
