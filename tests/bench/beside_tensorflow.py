"""Measures signatures of a SavedModel by Slipway and by TensorFlow on one thread, in turns."""
import json
import os
import pathlib
import re
import statistics
import subprocess
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OURS = ROOT / "build/release/slipway"
ROUNDS = 5


def ours(model, signature, inputs, seconds):
    """Returns the CPU time of a run in ms."""
    out = subprocess.run([OURS, "run", model, "--signature", signature, "--inputs", inputs, "--bench", "--seconds", str(seconds)],
                         capture_output=True, text=True, check=True).stdout
    return float(re.search(r"CPU time ([0-9.]+) ms", out)[1])


def theirs(call, feeds, seconds):
    """Returns the CPU time of a run in ms."""
    runs, start, end = 0, time.process_time(), time.monotonic() + seconds
    while time.monotonic() < end:
        call(*feeds)
        runs += 1
    return (time.process_time() - start) / runs * 1000


def callable_of(model, name):
    """Returns a function that runs a signature without returning its outputs, and the aliases of its inputs in order."""
    graph = tf.Graph()
    with graph.as_default():
        session = tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1))
        signature = tf.compat.v1.saved_model.load(session, ["serve"], str(model)).signature_def[name]
        inputs = sorted(signature.inputs)
        return session.make_callable([graph.get_tensor_by_name(o.name).op for o in signature.outputs.values()],
                                     feed_list=[graph.get_tensor_by_name(signature.inputs[i].name) for i in inputs]), inputs


def compare(model, name, feeds, folder, seconds):
    """Runs a signature on `feeds`, a dictionary of arrays. Returns the medians of Slipway's and TensorFlow's CPU time in ms."""
    inputs = folder / f"{name}.json"
    inputs.write_text(json.dumps({"inputs": {k: v.tolist() for k, v in feeds.items()}}), encoding="utf-8")
    call, order = callable_of(model, name)
    given = [feeds[i] for i in order]
    call(*given)
    rounds = [(ours(model, name, inputs, seconds), theirs(call, given, seconds)) for _ in range(ROUNDS)]
    return tuple(statistics.median(r[k] for r in rounds) for k in (0, 1))
