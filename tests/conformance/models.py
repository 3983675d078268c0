#!/usr/bin/env python3
"""Serves complete models and compares the outputs of each signature with TensorFlow's: models.py MODELS_DIR [NAME...]

Every version directory under MODELS_DIR/NAME is tested over gRPC with batches of 1, 3 and 32 random inputs of the
signature's shapes. Outputs must agree within 1e-4 of the largest magnitude, and integers and strings must be equal.
Inputs of serialized Examples are taken from the version's assets.extra/examples.tfrecord. tests/bench/make_models.py
writes the benchmark models, and make_wide_deep.py a model with feature columns. Needs tensorflow and
tensorflow-serving-api (PyPI).
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import grpc  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc  # noqa: E402


def examples(version):
    """Returns a function of (n, seed) that returns n of the Examples stored with a model, or None if the model has
    none."""
    path = version / "assets.extra" / "examples.tfrecord"
    if not path.exists():
        return None
    held = list(tf.compat.v1.io.tf_record_iterator(str(path)))
    return lambda n, seed: np.array([held[(seed + i) % len(held)] for i in range(n)], object)


def inputs_of(signature, batch, seed, strings):
    random = np.random.RandomState(seed)
    feeds = {}
    for alias, spec in signature.inputs.items():
        dtype = tf.dtypes.as_dtype(spec.dtype)
        shape = [d.size for d in spec.tensor_shape.dim]
        shape = [batch if i == 0 and d < 0 else 5 if d < 0 else d for i, d in enumerate(shape)]
        if dtype == tf.string and strings:
            value = strings(shape[0], seed)
        elif "mask" in alias:
            value = np.ones(shape, dtype.as_numpy_dtype)
        elif dtype.is_integer:
            value = random.randint(0, 1000, shape).astype(dtype.as_numpy_dtype)
        elif alias == "keep_prob":
            value = np.ones(shape, np.float32)
        else:
            value = random.rand(*shape).astype(dtype.as_numpy_dtype)
        feeds[alias] = value
    return feeds


def compare(name, want, got):
    if want.dtype.kind in "OSU":
        if want.shape != got.shape or want.tolist() != got.tolist():
            return f"{name}: {got!r}, not {want!r}"
        return None
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"{name}: {got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    if want.dtype.kind == "f":
        scale = max(np.abs(want).max(initial=0), 1e-30)
        worst = np.abs(want - got).max(initial=0) / scale
        return f"{name}: off by {worst:.2e} of the largest" if not worst <= 1e-4 else None
    return None if (want == got).all() else f"{name}: values differ"


def check_model(stub, models, name):
    version = max((d for d in (models / name).iterdir() if d.name.isdigit()), key=lambda d: int(d.name))
    failures, strings = [], examples(version)
    graph = tf.Graph()
    with graph.as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], str(version))
        for key, signature in sorted(meta.signature_def.items()):
            if key == "__saved_model_init_op" or not signature.inputs:
                continue
            for batch in (1, 3, 32):
                feeds = inputs_of(signature, batch, batch, strings)
                want = session.run({k: v.name for k, v in signature.outputs.items()},
                                   {signature.inputs[k].name: v for k, v in feeds.items()})
                request = predict_pb2.PredictRequest()
                request.model_spec.name = name
                request.model_spec.signature_name = key
                for k, v in feeds.items():
                    request.inputs[k].CopyFrom(tf.make_tensor_proto(v))
                try:
                    answer = stub.Predict(request, timeout=300)
                except grpc.RpcError as refused:
                    failures.append(f"{key} batch {batch}: {refused.code()} {refused.details()[:500]}")
                    continue
                for k, v in want.items():
                    problem = compare(k, np.asarray(v), tf.make_ndarray(answer.outputs[k]))
                    if problem:
                        failures.append(f"{key} batch {batch}: {problem}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--slipway", default=str(ROOT / "build/release/slipway"))
    args = parser.parse_args()
    names = args.names or sorted(d.name for d in args.models.iterdir() if d.is_dir())
    passed = failed = 0
    with tempfile.TemporaryDirectory() as chosen, tempfile.TemporaryFile("w+") as log:
        for name in names:
            os.symlink((args.models / name).resolve(), f"{chosen}/{name}")
        server = subprocess.Popen([args.slipway, "serve", "--port=18590", "--rest_api_port=0", f"--models={chosen}"],
                                  stdout=log, stderr=log)
        try:
            channel = grpc.insecure_channel("127.0.0.1:18590", options=[
                ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)])
            grpc.channel_ready_future(channel).result(timeout=60)
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            wait_loaded(log, names, server)
            for name in names:
                failures = check_model(stub, args.models, name)
                print(f"{'FAIL' if failures else 'ok  '} {name}", flush=True)
                for text in failures[:6]:
                    print(f"     {text}")
                passed, failed = passed + (not failures), failed + bool(failures)
        finally:
            server.terminate()
            server.wait()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def wait_loaded(log, names, server):
    """Waits until the log reports each model either as loaded or as refused."""
    import time
    for _ in range(1200):
        time.sleep(0.1)
        text = os.pread(log.fileno(), 1 << 24, 0).decode(errors="replace")
        if server.poll() is not None or all(
                re.search(rf"(loaded servable version|failed|refused).*\b{re.escape(n)}\b", text, re.I) for n in names):
            break
    if server.poll() is not None:
        print(text)


if __name__ == "__main__":
    sys.exit(main())
