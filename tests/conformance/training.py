#!/usr/bin/env python3
"""Trains a small model for 50 steps with every optimiser and compares all variables: training.py [NAME...]

TensorFlow, op_runner (both tiers) and the server train the same model. The model has an embedding, whose gradient is
sparse, and two dense layers. Each optimiser runs on resource variables and, where TensorFlow has the ops, on ref
variables. The server runs in its default configuration, and its training calls are interleaved with calls of a
second signature, which must see each step. Variables must agree within 1e-5 of the largest magnitude. Needs
tensorflow and tensorflow-serving-api (PyPI).
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

# imported before TensorFlow, because `run` sets environment variables that TensorFlow reads
from run import ROOT, TIERS, Refusal, Runner, np  # isort: skip
import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

v1 = tf.compat.v1
STEPS, LIMIT = 50, 1e-5
PORT = 18591


def keras_like(op, slots, scalars, sparse_op="", **attrs):
    """Returns an optimiser that applies an op which no TensorFlow 1 optimiser uses."""

    def minimize(loss, step):
        updates = []
        variables = v1.trainable_variables()
        for v, g in zip(variables, v1.gradients(loss, variables)):
            made = [v1.get_variable(f"{v.op.name}_{s}", initializer=tf.zeros(v.shape), use_resource=True, trainable=False) for s in slots]
            names = [a for a, _ in zip(["m", "v", "vhat"] if "m" in slots else ["accum"], made)]
            given = dict(zip(names, [m.handle for m in made]), **scalars)
            if sparse_op and isinstance(g, tf.IndexedSlices):
                updates.append(getattr(tf.raw_ops, sparse_op)(var=v.handle, grad=g.values, indices=g.indices, **given, **attrs))
            else:
                updates.append(getattr(tf.raw_ops, op)(var=v.handle, grad=tf.convert_to_tensor(g), **given, **attrs))
        return tf.group(*updates)

    return minimize


def classic(make):
    return lambda loss, step: make(step).minimize(loss, global_step=step)


# OPTIMISERS maps a name to (optimiser, whether it also runs on ref variables).
ADAM = dict(beta1_power=0.9, beta2_power=0.999, lr=0.01, beta1=0.9, beta2=0.999, epsilon=1e-7)
OPTIMISERS = {
    "gradient_descent": (classic(lambda s: v1.train.GradientDescentOptimizer(0.1)), True),
    "momentum": (classic(lambda s: v1.train.MomentumOptimizer(0.05, 0.9)), True),
    "nesterov": (classic(lambda s: v1.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True)), True),
    "adagrad": (classic(lambda s: v1.train.AdagradOptimizer(0.1)), True),
    "adagrad_da": (classic(lambda s: v1.train.AdagradDAOptimizer(0.1, s, l1_regularization_strength=0.001)), True),
    "adadelta": (classic(lambda s: v1.train.AdadeltaOptimizer(1.0)), True),
    "adam": (classic(lambda s: v1.train.AdamOptimizer(0.01)), True),
    "rms_prop": (classic(lambda s: v1.train.RMSPropOptimizer(0.01, momentum=0.5)), True),
    "centered_rms_prop": (classic(lambda s: v1.train.RMSPropOptimizer(0.01, centered=True)), True),
    "ftrl": (classic(lambda s: v1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.01)), True),
    "ftrl_shrinkage": (classic(lambda s: v1.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.01)), True),
    "proximal_adagrad": (classic(lambda s: v1.train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.001)), True),
    "proximal_gradient_descent": (classic(lambda s: v1.train.ProximalGradientDescentOptimizer(0.1, l2_regularization_strength=0.01)), True),
    "ada_max": (keras_like("ResourceApplyAdaMax", "mv", {k: x for k, x in ADAM.items() if k != "beta2_power"}), False),
    "amsgrad": (keras_like("ResourceApplyAdamWithAmsgrad", ["m", "v", "vhat"], ADAM), False),
    "nadam": (keras_like("ResourceApplyAdam", "mv", ADAM, use_nesterov=True), False),
    "add_sign": (keras_like("ResourceApplyAddSign", "m", dict(lr=0.02, alpha=1.0, sign_decay=0.9, beta=0.9)), False),
    "power_sign": (keras_like("ResourceApplyPowerSign", "m", dict(lr=0.02, logbase=1.0, sign_decay=0.9, beta=0.9)), False),
    "keras_momentum": (keras_like("ResourceApplyKerasMomentum", ["accum"], dict(lr=0.05, momentum=0.9), "ResourceSparseApplyKerasMomentum",
                                  use_nesterov=True), False),
}


class Model:
    """A model in its own graph. `train`, `predict` and `state` are lists of its fetches."""

    def __init__(self, optimiser, use_resource):
        self.graph = tf.Graph()
        with self.graph.as_default():
            random = np.random.default_rng(1)
            value = lambda *shape: random.normal(size=shape).astype(np.float32) * 0.3
            made = lambda name, *shape: v1.get_variable(name, initializer=value(*shape), use_resource=use_resource)
            self.x = v1.placeholder(tf.float32, [None, 5], "x")
            self.ids = v1.placeholder(tf.int32, [None], "ids")
            self.y = v1.placeholder(tf.int32, [None], "y")
            table, w1, b1 = made("table", 20, 6), made("w1", 11, 16), made("b1", 16)
            w2, b2 = made("w2", 16, 3), made("b2", 3)
            row = tf.concat([self.x, tf.nn.embedding_lookup(table, self.ids)], axis=1)
            logits = tf.nn.bias_add(tf.matmul(tf.tanh(tf.nn.bias_add(tf.matmul(row, w1), b1)), w2), b2)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.y, logits=logits))
            step = v1.get_variable("step", initializer=np.int64(0), use_resource=use_resource, trainable=False)
            with tf.control_dependencies([optimiser(loss, step)]):
                self.train = [tf.identity(loss, "loss")]
            self.predict = [tf.identity(logits, "logits")]
            self.variables = v1.global_variables()
            self.state = [tf.identity(v, f"value_{i}") for i, v in enumerate(self.variables)]
            self.init = v1.global_variables_initializer()

    def feeds(self, k):
        random = np.random.default_rng(100 + k)
        n = 8 if k % 7 else 3  # A different batch size causes another specialisation.
        return {self.x: random.normal(size=(n, 5)).astype(np.float32), self.ids: random.integers(0, 20, n).astype(np.int32),
                self.y: random.integers(0, 3, n).astype(np.int32)}

    def save(self, session, path):
        info = v1.saved_model.build_tensor_info
        signature = lambda inputs, outputs: v1.saved_model.build_signature_def(
            {t.op.name: info(t) for t in inputs}, {t.op.name: info(t) for t in outputs}, "tensorflow/serving/predict")
        builder = v1.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map={
            "train": signature([self.x, self.ids, self.y], self.train), "predict": signature([self.x, self.ids], self.predict),
            "state": signature([self.x], self.state)})
        builder.save()


def wait_loaded(log, names, server):
    """Waits until the log reports each model either as loaded or as refused."""
    for _ in range(1200):
        time.sleep(0.1)
        text = os.pread(log.fileno(), 1 << 24, 0).decode(errors="replace")
        if server.poll() is not None or all(
                re.search(rf"(loaded servable version|failed|refused).*\b{re.escape(n)}\b", text, re.I) for n in names):
            break
    if server.poll() is not None:
        print(text)


class Step:
    """One run of a graph, as run.Runner expects it."""

    def __init__(self, fetches, feeds=()):
        self.feeds, self.steps = list(dict(feeds).items()), [fetches]


def compare(names, want, got):
    for name, a, b in zip(names, want, got):
        scale = max(float(np.abs(a).max(initial=0)), 1e-30)
        worst = float(np.abs(a.astype(np.float64) - b).max(initial=0)) / scale
        if a.shape != b.shape or a.dtype != b.dtype or not worst <= LIMIT:
            return f"{name} is off by {worst:.2e} of the largest"
    return None


def in_runner(model, runner):
    """Trains in op_runner. Returns the variables, or a Refusal."""
    refusal = runner.load(model.graph.as_graph_def().SerializeToString())
    if refusal:
        return refusal
    for step in [Step([model.init]), *(Step(model.train, model.feeds(k)) for k in range(STEPS)), Step(model.state, {})]:
        result = runner.run(step)[0]
        if isinstance(result, Refusal):
            return result
    return result


def call(stub, name, signature, feeds):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = name, signature
    for t, value in feeds.items():
        request.inputs[t.op.name].CopyFrom(tf.make_tensor_proto(value))
    return {k: tf.make_ndarray(v) for k, v in stub.Predict(request, timeout=60).outputs.items()}


def in_server(model, name, stub, losses, logits):
    """Trains in the server. Returns the variables, or a description of a call that failed."""
    try:
        for k in range(STEPS):
            feeds = model.feeds(k)
            problem = compare([f"the loss of step {k}"], [losses[k]], [call(stub, name, "train", feeds)["loss"]])
            seen = call(stub, name, "predict", {model.x: feeds[model.x], model.ids: feeds[model.ids]})["logits"]
            problem = problem or compare([f"the prediction after step {k}"], [logits[k]], [seen])
            if problem:
                return problem
        state = call(stub, name, "state", {model.x: feeds[model.x]})
    except grpc.RpcError as refused:
        return f"{refused.code()} {refused.details()[:300]}"
    return [state[f"value_{i}"] for i in range(len(model.state))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--slipway", default=str(ROOT / "build/release/slipway"))
    parser.add_argument("--runner", default=str(ROOT / "build/release/tests/op_runner"))
    args = parser.parse_args()
    v1.disable_eager_execution()
    runners = [Runner(args.runner, tf, tuning) for tuning in TIERS]
    models, want, failures = {}, {}, {}
    with tempfile.TemporaryDirectory() as path, tempfile.TemporaryFile("w+") as log:
        for kind, (optimiser, has_ref) in OPTIMISERS.items():
            for use_resource in (True, False) if has_ref else (True,):
                name = f"{kind}_{'resource' if use_resource else 'ref'}"
                if args.names and name not in args.names and kind not in args.names:
                    continue
                model = models[name] = Model(optimiser, use_resource)
                with v1.Session(graph=model.graph) as session:
                    session.run(model.init)
                    model.save(session, pathlib.Path(path) / name / "1")
                    losses, logits = [], []
                    for k in range(STEPS):
                        losses.append(session.run(model.train, model.feeds(k))[0])
                        logits.append(session.run(model.predict, model.feeds(k))[0])
                    want[name] = losses, logits, session.run(model.state)
                for tier, runner in enumerate(runners):
                    got = in_runner(model, runner)
                    problem = str(got) if isinstance(got, Refusal) else compare([v.op.name for v in model.variables], want[name][2], got)
                    if problem:
                        failures.setdefault(name, []).append(f"op_runner, tier {tier}: {problem}")
        server = subprocess.Popen([args.slipway, "serve", f"--port={PORT}", "--rest_api_port=0", f"--models={path}"],
                                  stdout=log, stderr=log)
        try:
            channel = grpc.insecure_channel(f"127.0.0.1:{PORT}")
            grpc.channel_ready_future(channel).result(timeout=60)
            wait_loaded(log, list(models), server)
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            for name, model in models.items():
                losses, logits, state = want[name]
                got = in_server(model, name, stub, losses, logits)
                problem = got if isinstance(got, str) else compare([v.op.name for v in model.variables], state, got)
                if problem:
                    failures.setdefault(name, []).append(f"server: {problem}")
                print(f"{'FAIL' if name in failures else 'ok  '} {name}", flush=True)
                for text in failures.get(name, []):
                    print(f"     {text}")
        finally:
            server.terminate()
            server.wait()
    print(f"{len(models) - len(failures)} of {len(models)} models agree after {STEPS} steps")
    return 1 if failures or not models else 0


if __name__ == "__main__":
    sys.exit(main())
