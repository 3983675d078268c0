#!/usr/bin/env python3
"""Compares op_runner's results with TensorFlow's results in recorded/, which recording.py wrote. Needs only numpy.

Each case runs node by node and compiled. Both runs must give the same bits. With --gpu, only the ops with kernels for
GPUs run, on the fake driver of tests/gpu or, in the named precision, on the first GPU of the machine. Both results
are then compared with TensorFlow's, because a GPU may round differently. The last line is "N passed, M failed"."""

import argparse
import base64
import collections
import io
import json
import lzma
import os
import pathlib
import re
import struct
import subprocess
import sys

import numpy as np

from child import Child, Refusal, decode, enter_own_directory, packed, same_bits
from comparing import compare_arrays

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BF16 = np.dtype([("bfloat16", "u2")])  # numpy has no bfloat16
# numpy's types by the numbers of TensorFlow's types
TYPES = {1: "f4", 2: "f8", 3: "i4", 4: "u1", 5: "i2", 6: "i1", 8: "c8", 9: "i8", 10: "?", 11: "i1", 12: "u1", 13: "i4", 14: BF16,
         15: "i2", 16: "u2", 17: "u2", 18: "c16", 19: "f2", 22: "u4", 23: "u8"}
TIERS = (("no_autotune", "no_specialise"), ("no_autotune",))
UNIMPLEMENTED = 12
# With tf32, the inputs of these ops are rounded to 11 significant bits. The pattern finds them in a serialised GraphDef,
# where a line feed and the length stand before a name.
PRODUCTS = re.compile(rb"[\x12\n].(Batch)?(MatMul|Conv2D|Conv3D|Einsum)", re.S)
TF32 = 2.0**-8  # tolerance, relative to the largest element of the output
NOT_RUN = 77  # Exit status if the build has no code for GPUs. It is automake's status for a skipped test.


class Runner(Child):
    def dtype(self, number):
        return TYPES[number]


def expected(result):
    """Returns the recorded result of a step, which is a list of arrays or a Refusal."""
    if isinstance(result, dict):
        return Refusal(result["code"], result["text"])
    return [decode(io.BytesIO(base64.b64decode(x)).read, TYPES.get) for x in result]


def compare_tensors(theirs, ours, tolerance):
    if theirs.dtype == BF16 and ours.dtype == BF16:
        wide = [np.left_shift(x["bfloat16"], np.uint32(16), dtype=np.uint32) for x in (theirs, ours)]
        wide = [np.frombuffer(x.tobytes(), np.float32).reshape(x.shape) for x in wide]
        return compare_arrays(*wide, is_bf16=True, **tolerance)
    return compare_arrays(theirs, ours, **tolerance)


def compare(case, theirs, ours):
    """Compares Slipway's results of a case with TensorFlow's by the rules of run.py. Returns a description of the first
    difference, or None."""
    for k, (a, b) in enumerate(zip(theirs, ours)):
        if isinstance(a, Refusal) and a.code == UNIMPLEMENTED:
            continue
        if isinstance(a, Refusal) != isinstance(b, Refusal):
            return f"step {k}: we {b}" if isinstance(b, Refusal) else f"step {k}: we accept; TensorFlow {a}"
        if isinstance(a, Refusal):
            if a.code not in (None, b.code) or (case["texts"] and a.text not in b.text):
                return f"step {k}: we {b}; TensorFlow {a}"
            continue
        for i, (x, y) in enumerate(zip(a, b)):
            problem = compare_tensors(x, y, case["tolerance"])
            if problem:
                return f"step {k}, output {i}: {problem}"
    return None


def n_fetches(command):
    return struct.unpack("<i", command[5:9])[0]


def run_case(runner, commands):
    return runner.guarded([lambda c=c: runner.command(c, n_fetches(c)) for c in commands])


def check_case(runners, case, on_gpu):
    commands = [base64.b64decode(step["run"]) for step in case["steps"]]
    theirs = [expected(step["result"]) for step in case["steps"]]
    ours, compiled = (run_case(runner, commands) for runner in runners)
    problem = compare(case, theirs, ours)
    if problem:
        return problem
    if on_gpu:
        problem = compare(case, theirs, compiled)
    elif not all(map(same_bits, ours, compiled)):
        problem = compare(case, theirs, compiled) or "other bits"
    return problem and f"compiled: {problem}"


def gpu_ops():
    text = (ROOT / "kernels" / "cuda" / "table.c").read_text()
    ops = set(re.findall(r'^\s+(?:FLOAT|FLOAT_HOST|GATHER|ROW)\("(\w+)"', text, re.M)) | {"Cast"}
    steps = (ROOT / "runtime" / "fusion" / "elementwise_steps.h").read_text()
    for name in re.findall(r"RT_ELEMENTWISE_\w+(?=\(X\))", text):
        body = re.search(rf"#define {name}\(X\)((?:.*\\\n)*.*)", steps).group(1)
        ops |= set(re.findall(r"X\((\w+),", body))
    return ops


def no_gpu(runner, environment):
    """Returns why op_runner cannot use a GPU in this build, or None if it can."""
    graph = b""
    done = subprocess.run([runner], input=b"G" + packed(graph), capture_output=True, env=environment, check=False)
    return "the build has no code for GPUs, because it found no nvcc" if b"built without nvcc" in done.stdout else None


class Report:
    def __init__(self, most):
        self.most, self.passed, self.failed = most, 0, collections.Counter()

    def add(self, case, problem):
        if not problem:
            self.passed += 1
            return
        self.failed[case["op"]] += 1
        if self.failed[case["op"]] <= self.most:
            print(f"FAIL {case['case']}: {problem}", flush=True)


def check_graph(runners, graph, cases, on_gpu, report):
    data = base64.b64decode(graph["graph"])
    refusals = [runner.load(data) for runner in runners]
    for case in cases:
        report.add(case, f"graph: {refusals[0]}" if refusals[0] else check_case(runners, case, on_gpu))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runner", default=str(ROOT / "build" / "release" / "tests" / "op_runner"))
    parser.add_argument("--only", default=".*", help="ops whose name matches this expression as a whole")
    parser.add_argument("--gpu", nargs="?", const="fake", choices=("fake", "float32", "tf32"),
                        help="on the fake GPU (the default), or on a GPU with this precision of products")
    parser.add_argument("--most", type=int, default=3, help="failing cases shown per op")
    options = parser.parse_args()
    options.runner = os.path.abspath(options.runner)
    enter_own_directory()
    environment = dict(os.environ)
    if options.gpu:
        environment["SLIPWAY_TEST_ACCELERATOR"] = "gpu_tf32" if options.gpu == "tf32" else "gpu"
        if options.gpu == "fake":
            environment["LD_LIBRARY_PATH"] = str(pathlib.Path(options.runner).parent.parent / "fake_cuda")
        why = no_gpu(options.runner, environment)
        if why:
            print(why)
            return NOT_RUN
    ops = gpu_ops() if options.gpu else None
    runners = []
    for k, tuning in enumerate(TIERS):  # each with a directory of its own, in which graphs may write files
        os.mkdir(f"tier{k}")
        runners.append(Runner(options.runner, tuning, environment, f"tier{k}"))
    report, n_ops = Report(options.most), set()
    for path in sorted((HERE / "recorded").rglob("*.json.xz")):
        for graph in json.loads(lzma.decompress(path.read_bytes()))["graphs"]:
            cases = [c for c in graph["cases"] if re.fullmatch(options.only, c["op"]) and (not ops or c["op"] in ops)]
            if options.gpu == "tf32" and PRODUCTS.search(base64.b64decode(graph["graph"])):
                for case in cases:
                    case["tolerance"] = {**case["tolerance"], "rtol": max(case["tolerance"].get("rtol", 0), TF32)}
            if cases:
                n_ops |= {c["op"] for c in cases}
                check_graph(runners, graph, cases, options.gpu, report)
    for runner in runners:
        if runner.child and runner.end() != 0:
            report.add({"op": "op_runner", "case": "op_runner"}, "op_runner ended with an error")
    failed = sum(report.failed.values())
    print(f"{len(n_ops)} ops")
    print(f"{report.passed} passed, {failed} failed")
    return 1 if failed or not report.passed else 0


if __name__ == "__main__":
    sys.exit(main())
