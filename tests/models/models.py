#!/usr/bin/env python3
"""Serves whole models and compares all answers with TensorFlow's: models.py [NAME|MODULE]...

Each model of the catalogue is exported, by a process of its own, into build/models, where it stays until the script of
its module changes. TensorFlow then answers the model's requests in one session: each request twice in a row, and all of
them in turn, three times. The server, in its default configuration, answers the same sequence over gRPC. Each answer is compared, so a plan that is compiled after the first
request, and one that holds what another signature wrote, must give the same answers as before. A refusal must have
TensorFlow's code. Needs tensorflow, tensorflow-text, tf_keras and tensorflow-serving-api (PyPI).
"""
import argparse
import hashlib
import importlib
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import catalogue

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "conformance"))
np = catalogue.np
PAUSE_S = 1.0  # time for the server to compile a plan after the first requests


def sequence(requests):
    """Returns the indices of the requests in the order in which they are sent."""
    n = range(len(requests))
    return [i for i in n for _ in range(2)] + list(n) * 3


# ---- TensorFlow's side, in a process of its own ----


def answer(session, meta, request):
    """Returns TensorFlow's outputs by alias, or its refusal as (code, text)."""
    import tensorflow as tf

    signature = meta.signature_def[request.signature]
    try:
        feeds = {signature.inputs[k].name: v for k, v in request.inputs.items()}
        return session.run({k: v.name for k, v in signature.outputs.items()}, feeds)
    except tf.errors.OpError as refused:
        return refused.error_code, refused.message[:300]


def export(name, folder):
    """Makes the model NAME, and writes its requests and TensorFlow's answers beside it."""
    import tensorflow as tf

    made = catalogue.MODELS[name]
    version = folder / name / "1"
    version.parent.mkdir(parents=True)
    requests = made.make(str(version))
    tf.keras.backend.clear_session()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], str(version))
        answers = [answer(session, meta, requests[i]) for i in sequence(requests)]
    with open(folder / "answers.pickle", "wb") as file:
        pickle.dump(([tuple(r) for r in requests], answers), file)


def prepared(name, module, out):
    """Returns the folder of the exported model, or None if it cannot be made. Its process's output is printed then."""
    source = hashlib.sha256((HERE / f"{module}.py").read_bytes() + (HERE / "catalogue.py").read_bytes()).hexdigest()[:16]
    folder = out / f"{name}-{source}"
    if folder.exists():
        return folder
    for old in out.glob(f"{name}-*"):
        if old.name[len(name) + 1:].isalnum():
            shutil.rmtree(old)
    with tempfile.TemporaryDirectory(dir=out) as half:
        made = subprocess.run([sys.executable, __file__, "--export", name, "--module", module, "--out", half], capture_output=True, text=True)
        if made.returncode:
            print(made.stdout[-2000:] + made.stderr[-4000:])
            return None
        shutil.copytree(half, folder, symlinks=True)
    return folder


# ---- the comparison ----


def difference(want, got, rtol):
    """Returns in what two arrays differ, or None."""
    if want.shape != got.shape:
        return f"the shape is {got.shape}, not {want.shape}"
    if want.dtype.kind in "OSU":
        return None if want.tolist() == got.tolist() else f"{got.ravel()[:8]}, not {want.ravel()[:8]}"
    if want.dtype != got.dtype:
        return f"the type is {got.dtype}, not {want.dtype}"
    if want.dtype.kind not in "fcV":
        return None if (want == got).all() else f"{(want != got).sum()} of {want.size} values differ"
    want, got = (a.astype(np.complex128 if want.dtype.kind == "c" else np.float64) for a in (want, got))
    finite = np.isfinite(want)
    if not np.array_equal(want[~finite], got[~finite], equal_nan=True):
        return "numbers that are not finite differ"
    worst = np.abs(want - got)[finite].max(initial=0) / max(np.abs(want[finite]).max(initial=0), 1e-30)
    return None if worst <= rtol else f"off by {worst:.1e} of the largest"


def compare(want, got, rtol):
    """Compares two answers: dictionaries of arrays, or refusals as (code, text)."""
    if isinstance(want, tuple) or isinstance(got, tuple):
        if isinstance(want, tuple) and isinstance(got, tuple):
            return None if want[0] == got[0] else f"refused with {got}, not {want}"
        return f"refused: {got}" if isinstance(got, tuple) else f"answered, where TensorFlow refuses: {want}"
    if set(want) != set(got):
        return f"the outputs are {sorted(got)}, not {sorted(want)}"
    found = ((k, difference(np.asarray(want[k]), got[k], rtol)) for k in sorted(want))
    return next((f"{k}: {what}" for k, what in found if what), None)


# ---- the server's side ----


class Server:
    def __init__(self, binary, models, port, flags):
        from tensorflow_serving.apis import prediction_service_pb2_grpc
        import grpc

        self.log = tempfile.TemporaryFile("w+")
        self.port = port
        self.process = subprocess.Popen([binary, "serve", f"--port={port}", f"--rest_api_port={port + 1}", f"--models={models}", *flags],
                                        stdout=self.log, stderr=self.log)
        channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.max_receive_message_length", -1),
                                                                      ("grpc.max_send_message_length", -1)])
        try:
            grpc.channel_ready_future(channel).result(timeout=60)
        except grpc.FutureTimeoutError:
            sys.exit(f"the server does not start:\n{self.text()}")
        self.stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

    def text(self):
        return os.pread(self.log.fileno(), 1 << 24, 0).decode(errors="replace")

    def state(self, name):
        """Waits until the model is loaded or refused. Returns None, or why it was refused."""
        for _ in range(1200):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port + 1}/v1/models/{name}") as response:
                    states = json.load(response)["model_version_status"]
            except urllib.error.HTTPError as error:
                states = [{"state": "", "status": {"error_message": error.read().decode()}}]
            if states and states[0]["state"] == "AVAILABLE":
                return None
            if states and states[0]["state"] in ("END", ""):
                return states[0]["status"]["error_message"]
            if self.process.poll() is not None:
                return f"the server ended with {self.process.returncode}"
            time.sleep(0.1)
        return "it is neither loaded nor refused after two minutes"

    def predict(self, name, request):
        from tensorflow_serving.apis import predict_pb2
        import grpc
        import tensorflow as tf

        message = predict_pb2.PredictRequest()
        message.model_spec.name, message.model_spec.signature_name = name, request.signature
        for k, v in request.inputs.items():
            message.inputs[k].CopyFrom(tf.make_tensor_proto(v))
        try:
            outputs = self.stub.Predict(message, timeout=600).outputs
        except grpc.RpcError as refused:
            return refused.code().value[0], refused.details()[:300]
        return {k: tf.make_ndarray(v) for k, v in outputs.items()}

    def stop(self):
        self.process.terminate()
        return self.process.wait()


def check(server, made, folder):
    """Sends the sequence of requests. Returns the failures."""
    with open(folder / "answers.pickle", "rb") as file:
        requests, answers = pickle.load(file)
    requests = [catalogue.Request(*r) for r in requests]
    refused = server.state(made.name)
    if refused:
        return [f"not loaded: {refused}"], 0
    failures = []
    for at, (i, want) in enumerate(zip(sequence(requests), answers)):
        if at in (1, 2 * len(requests)):
            time.sleep(PAUSE_S)
        got = server.predict(made.name, requests[i])
        problem = compare(want, got, made.rtol)
        if problem:
            failures.append(f"call {at + 1} (request {i + 1} of {len(requests)}, {requests[i].signature}): {problem}")
    return failures, len(answers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models, or modules of models")
    parser.add_argument("--slipway", default=str(ROOT / "build/release/slipway"))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/models", help="where exported models are kept")
    parser.add_argument("--port", type=int, default=18592, help="of gRPC; REST gets the next one")
    parser.add_argument("--flag", action="append", default=[], help="a flag for the server, for example --flag=--specialise=off")
    parser.add_argument("--list", action="store_true", help="print the models by module")
    parser.add_argument("--export", help=argparse.SUPPRESS)
    parser.add_argument("--module", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.export:
        importlib.import_module(args.module)
        return export(args.export, args.out)
    modules = {}
    for module in catalogue.MODULES:
        known = set(catalogue.MODELS)
        importlib.import_module(module)
        modules.update((name, module) for name in catalogue.MODELS if name not in known)
    if args.list:
        for module in catalogue.MODULES:
            print(f"{module}: {' '.join(name for name, m in modules.items() if m == module)}")
        return 0
    unknown = set(args.names) - set(modules) - set(catalogue.MODULES)
    if unknown:
        parser.error(f"no model or module: {' '.join(sorted(unknown))}")
    args.out.mkdir(parents=True, exist_ok=True)
    passed = failed = calls = 0
    for module in catalogue.MODULES:
        names = [n for n, m in modules.items() if m == module and (not args.names or n in args.names or m in args.names)]
        if not names:
            continue
        folders = {name: prepared(name, module, args.out) for name in names}
        with tempfile.TemporaryDirectory() as chosen:
            for name, folder in folders.items():
                if folder:
                    os.symlink(folder.resolve() / name, f"{chosen}/{name}")
            server = Server(args.slipway, chosen, args.port, args.flag)
            try:
                for name, folder in folders.items():
                    failures, n = check(server, catalogue.MODELS[name], folder) if folder else (["it cannot be exported"], 0)
                    print(f"{'FAIL' if failures else 'ok  '} {module} {name}: {n} calls", flush=True)
                    for text in failures[:6]:
                        print(f"     {text}")
                    passed, failed, calls = passed + (not failures), failed + bool(failures), calls + n
            finally:
                code = server.stop()
            if code:
                failed += 1
                print(f"FAIL {module}: the server ended with {code}\n{server.text()[-3000:]}")
    print(f"{calls} calls of {passed + failed} models")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
