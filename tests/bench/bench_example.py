#!/usr/bin/env python3
"""Measures how fast 100 tf.Examples with 20 features each are parsed, by Slipway and by TensorFlow on one thread (./run
bench example).

Slipway and TensorFlow run the same ParseExampleV2 in a session that contains the same strings, so nothing is converted
from or to Python. Rounds alternate. The script prints the medians of CPU time.
"""
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OURS = ROOT / "build/release/tests/parse_example"
N_EXAMPLES, ROUNDS, SECONDS = 100, 15, 0.15


def specs():
    fixed = tf.io.FixedLenFeature
    numbers = {f"price_{i}": fixed([], tf.float32) for i in range(10)}
    ids = {f"category_{i}": fixed([], tf.int64, 0) for i in range(5)}
    words = {f"country_{i}": fixed([], tf.string, "") for i in range(5)}
    yield "20 dense features", {**numbers, **ids, **words}
    yield "20 dense features, in any order", {**numbers, **ids, **words}
    yield "20 dense floats", {f"price_{i}": fixed([], tf.float32) for i in range(20)}
    lists = {f"category_{i}": tf.io.VarLenFeature(tf.int64) for i in range(5)}
    tags = {f"country_{i}": tf.io.VarLenFeature(tf.string) for i in range(5)}
    yield "10 dense floats, 10 sparse lists", {**numbers, **lists, **tags}


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def example(rng, spec, any_order):
    def feature(name, s):
        n = 1 if isinstance(s, tf.io.FixedLenFeature) else rng.randint(0, 3)
        if s.dtype == tf.float32:
            return tf.train.Feature(float_list=tf.train.FloatList(value=[rng.random() for _ in range(n)]))
        if s.dtype == tf.int64:
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[rng.randint(0, 100000) for _ in range(n)]))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"country %d" % rng.randint(0, 99) for _ in range(n)]))

    names = list(spec)
    if any_order:
        rng.shuffle(names)
    entries = b"".join(tf.train.Features(feature={n: feature(n, spec[n])}).SerializeToString() for n in names)
    return b"\x0a" + varint(len(entries)) + entries


def measure(title, spec, folder):
    rng = random.Random(1)
    data = [example(rng, spec, "any order" in title) for _ in range(N_EXAMPLES)]
    graph = tf.Graph()
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    with graph.as_default():
        placeholder = tf.compat.v1.placeholder(tf.string, [None], name="examples")
        tf.io.parse_example(placeholder, spec)
        graph_def = graph.as_graph_def()
        op = next(o for o in graph.get_operations() if o.type == "ParseExampleV2")
        # The op reads its input from a variable, because TensorFlow would convert a fed Python value in each run.
        held = tf.compat.v1.get_variable("held", initializer=tf.constant(data), use_resource=False)
        op._update_input(0, held._variable if hasattr(held, "_variable") else held)
        session = tf.compat.v1.Session(graph=graph, config=config)
        session.run(tf.compat.v1.global_variables_initializer())
    run = session.make_callable([op])

    (folder / "graph").write_bytes(graph_def.SerializeToString())
    (folder / "examples").write_bytes(b"".join(struct.pack("<I", len(d)) + d for d in data))
    child = subprocess.Popen([OURS, folder / "graph", "examples", folder / "examples", op.name, str(len(op.outputs))],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ours(n):
        child.stdin.write(f"{n}\n")
        child.stdin.flush()
        return float(child.stdout.readline()) / n

    def theirs(n):
        start = time.process_time()
        for _ in range(n):
            run()
        return (time.process_time() - start) / n

    def runs(side):
        side(3)
        return max(int(SECONDS / side(5)), 1)

    n_ours, n_theirs = runs(ours), runs(theirs)
    rounds = [(ours(n_ours), theirs(n_theirs)) for _ in range(ROUNDS)]
    child.stdin.close()
    child.wait()
    mine, other = (statistics.median(r[k] for r in rounds) * 1e6 for k in (0, 1))
    print(f"{title}: {mine:.1f} us, {other / mine:.2f} times as fast as TensorFlow's {other:.1f} us "
          f"({mine * 1000 / N_EXAMPLES / len(spec):.0f} ns a feature)", flush=True)
    return other / mine


def main():
    tf.compat.v1.disable_eager_execution()
    with tempfile.TemporaryDirectory() as folder:
        ratios = [measure(title, spec, pathlib.Path(folder)) for title, spec in specs()]
    return 0 if min(ratios) >= 3 else 1


if __name__ == "__main__":
    sys.exit(main())
