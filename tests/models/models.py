#!/usr/bin/env python3
"""Serves whole models and compares all answers with TensorFlow's: models.py [NAME|MODULE]...

Each model of the catalogue is exported, by a process of its own, into build/models, where it stays until the script of
its module changes. TensorFlow then answers the model's requests in one session: each request twice in a row, and all of
them in turn, three times (once each, if the model is said to be stateless). The server, in its default configuration,
answers the same sequence over gRPC. Each answer is compared, so a plan that is compiled after the first request, and one
that holds what another signature wrote, must give the same answers as before. A refusal must have TensorFlow's code.
Needs tensorflow, tensorflow-text, tf_keras and tensorflow-serving-api (PyPI).
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
import traceback
import urllib.error
import urllib.request

import catalogue

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
np = catalogue.np
MODULE_OF, SOURCE_OF = {}, {}  # the module of each model, and the hash of each module, by name
PAUSE_S = 1.0  # time for the server to compile a plan after the first requests


def sequence(requests):
    """Returns the indices of the requests in the order in which they are sent."""
    n = range(len(requests))
    return [i for i in n for _ in range(2)] + list(n) * 3


# ---- TensorFlow's side, in a process of its own ----


def loaded(session, folder):
    """Loads a version into the session. Returns its MetaGraphDef."""
    import tensorflow as tf

    return tf.compat.v1.saved_model.load(session, ["serve"], str(folder))


def answer(session, meta, request):
    """Returns TensorFlow's outputs by alias, or its refusal as (code, text)."""
    import tensorflow as tf

    signature = meta.signature_def[request.signature]
    try:
        if request.call == "predict":
            feeds = {signature.inputs[k].name: v for k, v in request.inputs.items()}
        else:
            feeds = {v.name: request.inputs["examples"] for v in signature.inputs.values()}
        outputs = session.run({k: v.name for k, v in signature.outputs.items()}, feeds)
        # A regress response has one value for each Example.
        return {k: v.reshape(-1) for k, v in outputs.items()} if request.call == "regress" else outputs
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
        meta = loaded(session, version)
        if made.stateless:
            once = [answer(session, meta, r) for r in requests]
            answers = [once[i] for i in sequence(requests)]
        else:
            answers = [answer(session, meta, requests[i]) for i in sequence(requests)]
    assert not all(isinstance(a, tuple) for a in answers), f"TensorFlow refuses all requests: {answers[0]}"
    with open(folder / "answers.pickle", "wb") as file:
        pickle.dump(([tuple(r) for r in requests], answers), file)


def export_all(names, out):
    """Exports each model in a child of its own. TensorFlow is imported once, before, which starts no threads."""
    import keras  # noqa: F401
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    for name in names:
        child = os.fork()
        if not child:
            try:
                export_one(name, out)
                code = 0
            except BaseException:
                traceback.print_exc()
                code = 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        if os.waitpid(child, 0)[1]:
            print(f"{name} cannot be exported", flush=True)


def export_one(name, out):
    """Exports the model into a folder that gets its name once it is complete."""
    folder, start = folder_of(name, out), time.time()
    for old in out.glob(f"{name}-*"):
        if old.name[len(name) + 1:].isalnum():
            shutil.rmtree(old)
    with tempfile.TemporaryDirectory(dir=out) as half:
        export(name, pathlib.Path(half))
        shutil.copytree(half, folder, symlinks=True)
    print(f"exported {name} in {time.time() - start:.1f} s", flush=True)


def folder_of(name, out):
    """Returns where the exported model lies: its name has a hash of the script."""
    return out / f"{name}-{SOURCE_OF[MODULE_OF[name]]}"


def prepared(names, out):
    """Exports the models that are not there yet. Returns the folder of each, or None if it cannot be exported."""
    folders = {name: folder_of(name, out) for name in names}
    missing = [name for name, folder in folders.items() if not folder.exists()]
    if missing:
        subprocess.run([sys.executable, __file__, "--export", "--out", out, *missing])
    return {name: folder if folder.exists() else None for name, folder in folders.items()}


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
        self.binary, self.port = binary, port
        self.snapshots = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen([binary, "serve", f"--port={port}", f"--rest_api_port={port + 1}", f"--models={models}",
                                         f"--model_write_directories={self.snapshots.name}", *flags], stdout=self.log, stderr=self.log)
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

    def examples(self, name, request):
        """Sends a classify or regress request. Returns the outputs as the signature would give them."""
        from tensorflow_serving.apis import classification_pb2, regression_pb2
        import tensorflow as tf

        classify = request.call == "classify"
        message = classification_pb2.ClassificationRequest() if classify else regression_pb2.RegressionRequest()
        message.model_spec.name, message.model_spec.signature_name = name, request.signature
        for example in request.inputs["examples"]:
            message.input.example_list.examples.append(tf.train.Example.FromString(example))
        if not classify:
            values = [r.value for r in self.stub.Regress(message, timeout=600).result.regressions]
            return {"outputs": np.array(values, np.float32)}
        found = [c.classes for c in self.stub.Classify(message, timeout=600).result.classifications]
        return {"classes": np.array([[c.label.encode() for c in row] for row in found], object),
                "scores": np.array([[c.score for c in row] for row in found], np.float32)}

    def predict(self, name, request):
        from tensorflow_serving.apis import predict_pb2
        import grpc
        import tensorflow as tf

        message = predict_pb2.PredictRequest()
        message.model_spec.name, message.model_spec.signature_name = name, request.signature
        for k, v in request.inputs.items() if request.call == "predict" else ():
            message.inputs[k].CopyFrom(tf.make_tensor_proto(v))
        try:
            if request.call != "predict":
                return self.examples(name, request)
            outputs = self.stub.Predict(message, timeout=600).outputs
        except grpc.RpcError as refused:
            return refused.code().value[0], refused.details()[:300]
        return {k: tf.make_ndarray(v) for k, v in outputs.items()}

    def snapshot(self, name):
        """Writes a snapshot of the model. Returns its directory, or None and why there is none."""
        done = subprocess.run([self.binary, "snapshot", name, f"--output={self.snapshots.name}/{name}", "--json",
                               f"--server=grpc://127.0.0.1:{self.port}"], capture_output=True, text=True, check=False)
        return (None, done.stderr) if done.returncode else (json.loads(done.stdout)["path"], "")

    def stop(self):
        self.process.terminate()
        code = self.process.wait()
        self.snapshots.cleanup()
        return code


def check_snapshot(server, made, requests):
    """Compares what TensorFlow finds in a snapshot of the model with what the server shows. Returns the failures, and the
    number of calls."""
    import tensorflow as tf

    path, why = server.snapshot(made.name)
    if not path:
        return [f"no snapshot: {why}"], 0
    failures, n = [], 0
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = loaded(session, path)
        for request in (r for r in requests if r.signature in made.shows):
            n += 1
            problem = compare(answer(session, meta, request), server.predict(made.name, request), made.rtol)
            if problem:
                failures.append(f"in a snapshot, {request.signature}: {problem}")
    return failures, n


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
    more, n = check_snapshot(server, made, requests) if made.shows else ([], 0)
    return failures + more, len(answers) + n


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models, or modules of models")
    parser.add_argument("--slipway", default=str(ROOT / "build/release/slipway"))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/models", help="where exported models are kept")
    parser.add_argument("--port", type=int, default=18592, help="of gRPC; REST gets the next one")
    parser.add_argument("--flag", action="append", default=[], help="a flag for the server, for example --flag=--specialise=off")
    parser.add_argument("--list", action="store_true", help="print the models by module")
    parser.add_argument("--export", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    for module in catalogue.MODULES:
        importlib.import_module(module)
        SOURCE_OF[module] = hashlib.sha256((HERE / f"{module}.py").read_bytes()).hexdigest()[:16]
        MODULE_OF.update((name, module) for name in catalogue.MODELS if name not in MODULE_OF)
    if args.export:
        return export_all(args.names, args.out)
    if args.list:
        for module in catalogue.MODULES:
            print(f"{module}: {' '.join(name for name, m in MODULE_OF.items() if m == module)}")
        return 0
    unknown = set(args.names) - set(MODULE_OF) - set(catalogue.MODULES)
    if unknown:
        parser.error(f"no model or module: {' '.join(sorted(unknown))}")
    args.out.mkdir(parents=True, exist_ok=True)
    passed = failed = calls = 0
    for module in catalogue.MODULES:
        names = [n for n, m in MODULE_OF.items() if m == module and (not args.names or n in args.names or m in args.names)]
        if not names:
            continue
        folders = prepared(names, args.out)
        with tempfile.TemporaryDirectory() as chosen:
            for name, folder in folders.items():
                if folder:
                    os.symlink(folder.resolve() / name, f"{chosen}/{name}")
            server = Server(args.slipway, chosen, args.port, args.flag)
            try:
                for name, folder in folders.items():
                    start = time.time()
                    failures, n = check(server, catalogue.MODELS[name], folder) if folder else (["it cannot be exported"], 0)
                    took = time.time() - start
                    print(f"{'FAIL' if failures else 'ok  '} {module} {name}: {n} calls in {took:.1f} s", flush=True)
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
