#!/usr/bin/env python3
"""Tests the server with TensorFlow Serving's own client, unmodified: official_clients.py [BUILD_DIR].

Needs tensorflow-cpu and tensorflow-serving-api (PyPI). The responses are compared with those of TensorFlow itself for
the same SavedModel and the same inputs."""
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ["SLIPWAY"] = str(pathlib.Path(
    sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build" / "release").resolve() / "slipway")
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import grpc  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow_serving.apis import (  # noqa: E402
    classification_pb2, get_model_metadata_pb2, get_model_status_pb2, inference_pb2,
    model_management_pb2, model_service_pb2_grpc, predict_pb2, prediction_log_pb2,
    prediction_service_pb2_grpc, regression_pb2, session_service_pb2)

import support  # noqa: E402

tf.get_logger().setLevel("ERROR")
CODE = grpc.StatusCode
WAIT = 60
CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"
TYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
         "uint16", "uint32", "uint64", "bool", "complex64", "complex128", "string")


# ---- models ---------------------------------------------------------------------------------


class Net(tf.Module):
    """A small network with two inputs and two outputs, and an embedding of words."""

    def __init__(self):
        super().__init__()
        random = np.random.default_rng(7)
        weights = lambda *shape: tf.Variable(random.standard_normal(shape).astype(np.float32))
        self.kernel, self.dense, self.bias = weights(3, 3, 1, 8), weights(10, 4), weights(4)
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["red", "green"], tf.constant([1, 2], tf.int64)), 0)
        self.embedding = weights(3, 2)

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 1], tf.float32, "image"),
                                  tf.TensorSpec([None, 2], tf.float32, "extra")])
    def net(self, image, extra):
        x = tf.nn.relu(tf.nn.conv2d(image, self.kernel, 1, "SAME"))
        x = tf.concat([tf.reduce_mean(x, [1, 2]), extra], 1)
        logits = x @ self.dense + self.bias
        return {"probabilities": tf.nn.softmax(logits), "logits": logits}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "words")])
    def embed(self, words):
        return {"vectors": tf.gather(self.embedding, self.table.lookup(words)),
                "upper_bytes": tf.strings.upper(words)}


def write_identities(folder):
    """Writes a model with one signature per type. Each signature returns its input x as y."""
    v1 = tf.compat.v1
    info = v1.saved_model.build_tensor_info
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        signatures = {}
        for name in TYPES:
            x = v1.placeholder(name, None)
            signatures[name] = v1.saved_model.build_signature_def(
                {"x": info(x)}, {"y": info(tf.identity(x))}, "tensorflow/serving/predict")
        builder = v1.saved_model.Builder(folder)
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()


def example(**features):
    made = tf.train.Example()
    for name, value in features.items():
        made.features.feature[name].float_list.value.append(value)
    return made


class Reference:
    """A TensorFlow session that computes the expected outputs of a SavedModel."""

    def __init__(self, folder):
        self.session = tf.compat.v1.Session(graph=tf.Graph())
        with self.session.graph.as_default():
            self.signatures = tf.compat.v1.saved_model.load(
                self.session, ["serve"], folder).signature_def

    def run(self, signature, **inputs):
        made = self.signatures[signature]
        return self.session.run({alias: o.name for alias, o in made.outputs.items()},
                                {made.inputs[alias].name: x for alias, x in inputs.items()})


# ---- the tests ------------------------------------------------------------------------------


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="slipway-official-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        net = Net()
        tf.saved_model.save(net, cls.path("net", "1"), {"serving_default": net.net,
                                                        "embed": net.embed})
        write_identities(cls.path("identities", "1"))
        for name in ("half_plus_two", "counter", "digits"):
            shutil.copytree(ROOT / "models" / name, cls.path(name),
                            ignore=lambda folder, names: {"held_out"} & set(names))
        cls.server = support.Server(f"--models={cls.folder}", "--enable_session_service",
                                    "--enable_grpc_healthcheck_service")
        cls.addClassCleanup(cls.server.__exit__)
        cls.channel = grpc.insecure_channel(f"127.0.0.1:{cls.server.grpc_port}")
        cls.addClassCleanup(cls.channel.close)
        cls.prediction = prediction_service_pb2_grpc.PredictionServiceStub(cls.channel)
        cls.model = model_service_pb2_grpc.ModelServiceStub(cls.channel)

    @classmethod
    def path(cls, *parts):
        return os.path.join(cls.folder, *parts)

    def predict(self, model, signature="", outputs=(), version=None, **inputs):
        request = predict_pb2.PredictRequest(output_filter=outputs)
        request.model_spec.name, request.model_spec.signature_name = model, signature
        if version is not None:
            request.model_spec.version.value = version
        for alias, x in inputs.items():
            # make_tensor_proto leaves x unchanged if x already is a TensorProto.
            request.inputs[alias].CopyFrom(tf.make_tensor_proto(x))
        return self.prediction.Predict(request, WAIT)

    def arrays(self, response):
        return {alias: tf.make_ndarray(t) for alias, t in response.outputs.items()}

    def same(self, ours, theirs, **tolerance):
        self.assertEqual(sorted(ours), sorted(theirs))
        for alias, x in theirs.items():
            self.assertEqual((ours[alias].dtype, ours[alias].shape), (x.dtype, x.shape), alias)
            if x.dtype == object or not tolerance:
                np.testing.assert_array_equal(ours[alias], x, alias)
            else:
                np.testing.assert_allclose(ours[alias], x, err_msg=alias, **tolerance)

    def refused(self, code, words, call, *args, **kw):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*args, **kw)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertIn(words, caught.exception.details())

    # ---- PredictionService ----

    def test_predict_answers_what_tensorflow_computes(self):
        random = np.random.default_rng(1)
        reference = Reference(self.path("net", "1"))
        for rows in (0, 1, 3, 33):
            inputs = {"image": random.standard_normal((rows, 8, 8, 1)).astype(np.float32),
                      "extra": random.standard_normal((rows, 2)).astype(np.float32)}
            response = self.predict("net", **inputs)
            self.same(self.arrays(response), reference.run("serving_default", **inputs),
                      rtol=1e-4, atol=1e-6)
            self.assertEqual((response.model_spec.name, response.model_spec.version.value,
                              response.model_spec.signature_name), ("net", 1, "serving_default"))
        words = np.array([b"green", b"blue", b"red", b"\xff\0"], object)
        self.same(self.arrays(self.predict("net", "embed", words=words)),
                  reference.run("embed", words=words))
        reference = Reference(str(ROOT / "models" / "digits" / "1"))
        pixels = random.random((5, 8, 8, 1), np.float32)
        self.same(self.arrays(self.predict("digits", pixels=pixels)),
                  reference.run("serving_default", pixels=pixels), rtol=1e-4, atol=1e-6)

    def test_every_type_comes_back_as_it_was_sent(self):
        for name in TYPES:
            dtype = tf.as_dtype(name)
            for shape in ((), (0,), (3,), (2, 0, 2), (2, 1, 3)):
                x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
                x = x.astype(str).astype(bytes).astype(object) if name == "string" else \
                    x.astype(dtype.as_numpy_dtype)
                proto = tf.make_tensor_proto(x, dtype, shape)
                with self.subTest(name, shape=shape):
                    back = self.predict("identities", name, x=proto).outputs["y"]
                    self.assertEqual(back.dtype, dtype.as_datatype_enum)
                    self.assertFalse(back.tensor_content)
                    np.testing.assert_array_equal(tf.make_ndarray(back), np.asarray(x))

    def test_an_output_filter_chooses(self):
        zeros = lambda *shape: np.zeros(shape, np.float32)
        inputs = {"image": zeros(1, 8, 8, 1), "extra": zeros(1, 2)}
        self.assertEqual(list(self.predict("net", outputs=["logits"], **inputs).outputs),
                         ["logits"])
        self.refused(CODE.INVALID_ARGUMENT, "output tensor alias not found in signature: none "
                     "Outputs expected to be in the set {logits,probabilities}.",
                     self.predict, "net", outputs=["none"], **inputs)
        self.refused(CODE.INVALID_ARGUMENT, "duplicate output tensor alias: logits",
                     self.predict, "net", outputs=["logits", "logits"], **inputs)

    def test_state_is_kept_between_calls(self):
        get = lambda name, **inputs: self.arrays(self.predict("counter", name, **inputs))["output"]
        self.assertEqual([float(get(name)) for name in ("reset", "incr", "incr", "get")],
                         [0, 1, 2, 2])
        self.assertEqual(get("incr_by", delta=np.float32(3)), 5)

    def test_what_is_wrong_has_the_code_and_the_words_that_clients_know(self):
        x, wrong = np.float32([1]), CODE.INVALID_ARGUMENT
        for code, words, model, more in (
                (CODE.NOT_FOUND, "Servable not found for request: Latest(none)", "none", {"x": x}),
                (CODE.NOT_FOUND, "Servable not found for request: Specific(half_plus_two, 9)",
                 "half_plus_two", {"x": x, "version": 9}),
                (CODE.FAILED_PRECONDITION, 'Serving signature key "none" not found.',
                 "half_plus_two", {"x": x, "signature": "none"}),
                (wrong, "input size does not match signature: 0!=1 len({}) != len({x}). Sent "
                 "extra: {}. Missing but required: {x}.", "half_plus_two", {}),
                (wrong, "Expects arg[0] to be float but string is provided", "half_plus_two",
                 {"x": "one"}),
                (wrong, "Expects arg[0] to be float but bool is provided", "half_plus_two",
                 {"x": True})):
            self.refused(code, words, self.predict, model, **more)
        self.refused(wrong, "Missing ModelSpec", self.prediction.Predict,
                     predict_pb2.PredictRequest(), WAIT)

    def examples(self, request, signature, *examples, context=None):
        request.model_spec.name, request.model_spec.signature_name = "half_plus_two", signature
        if context is None:
            request.input.example_list.examples.extend(examples)
        else:
            request.input.example_list_with_context.examples.extend(examples)
            request.input.example_list_with_context.context.CopyFrom(context)
        return request

    def test_classify_regress_and_multi_inference_answer_what_tensorflow_computes(self):
        reference = Reference(str(ROOT / "models" / "half_plus_two" / "2"))
        made = [example(x=1), example(x=-2.5), example(x=1e30)]
        serialized = np.array([e.SerializeToString() for e in made], object)
        theirs = {name: list(reference.run(name, inputs=serialized).values())[0].ravel().tolist()
                  for name in ("classify_x_to_y", "regress_x_to_y", "regress_x_to_y2")}
        a = self.prediction.Classify(self.examples(
            classification_pb2.ClassificationRequest(), "classify_x_to_y", *made), WAIT)
        self.assertEqual([c.classes[0].score for c in a.result.classifications],
                         theirs["classify_x_to_y"])
        self.assertEqual(a.model_spec.signature_name, "classify_x_to_y")
        for name in ("regress_x_to_y", "regress_x_to_y2"):
            a = self.prediction.Regress(self.examples(regression_pb2.RegressionRequest(), name,
                                                      *made), WAIT)
            self.assertEqual([r.value for r in a.result.regressions], theirs[name])
        a = self.prediction.Regress(self.examples(
            regression_pb2.RegressionRequest(), "regress_x_to_y", example(), example(x=4),
            context=example(x=2)), WAIT)
        self.assertEqual([r.value for r in a.result.regressions], [3, 4])

        request = inference_pb2.MultiInferenceRequest()
        request.input.example_list.examples.extend(made)
        for name, method in (("classify_x_to_y", CLASSIFY), ("regress_x_to_y2", REGRESS)):
            task = request.tasks.add(method_name=method)
            task.model_spec.name, task.model_spec.signature_name = "half_plus_two", name
        a = self.prediction.MultiInference(request, WAIT)
        self.assertEqual([c.classes[0].score for c in
                          a.results[0].classification_result.classifications],
                         theirs["classify_x_to_y"])
        self.assertEqual([r.value for r in a.results[1].regression_result.regressions],
                         theirs["regress_x_to_y2"])
        self.assertEqual([r.model_spec.version.value for r in a.results], [2, 2])

        self.refused(CODE.INVALID_ARGUMENT, "Input is empty.", self.prediction.Classify,
                     self.examples(classification_pb2.ClassificationRequest(), "classify_x_to_y"))
        self.refused(CODE.INVALID_ARGUMENT, "No signature was found with the name: none",
                     self.prediction.Regress,
                     self.examples(regression_pb2.RegressionRequest(), "none", *made))
        request.tasks[1].model_spec.signature_name = "classify_x_to_y"
        self.refused(CODE.INVALID_ARGUMENT, "Duplicate evaluation of signature: classify_x_to_y",
                     self.prediction.MultiInference, request)

    def test_metadata_unpacks_to_the_signatures_that_tensorflow_reads(self):
        for model, version in (("half_plus_two", 2), ("net", 1), ("counter", 1)):
            request = get_model_metadata_pb2.GetModelMetadataRequest(
                metadata_field=["signature_def"])
            request.model_spec.name = model
            a = self.prediction.GetModelMetadata(request, WAIT)
            found = get_model_metadata_pb2.SignatureDefMap()
            self.assertTrue(a.metadata["signature_def"].Unpack(found))
            theirs = Reference(self.path(model, str(version))).signatures
            self.assertEqual(dict(found.signature_def), dict(theirs), model)
            self.assertEqual(a.model_spec.version.value, version)

    # ---- SessionService, which the package has messages for, but no stub ----

    def test_session_run_fetches_any_tensor(self):
        run = self.channel.unary_unary(
            "/tensorflow.serving.SessionService/SessionRun",
            session_service_pb2.SessionRunRequest.SerializeToString,
            session_service_pb2.SessionRunResponse.FromString)
        reference = Reference(self.path("half_plus_two", "2"))
        request = session_service_pb2.SessionRunRequest(fetch=["y:0", "y2:0"])
        request.model_spec.name = "half_plus_two"
        request.feed.add(name="x:0").tensor.CopyFrom(tf.make_tensor_proto(np.float32([[3], [8]])))
        a = run(request, WAIT)
        self.assertEqual([t.name for t in a.tensor], ["y:0", "y2:0"])
        theirs = reference.session.run(["y:0", "y2:0"], {"x:0": [[3], [8]]})
        for ours, other in zip(a.tensor, theirs):
            np.testing.assert_array_equal(tf.make_ndarray(ours.tensor), other)
        request.options.trace_level = tf.compat.v1.RunOptions.FULL_TRACE
        self.assertTrue(run(request, WAIT).metadata.step_stats.dev_stats)

    # ---- ModelService, health ----

    def status(self, model, **kw):
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = model
        return [(s.version, s.State.Name(s.state), s.status.error_code)
                for s in self.model.GetModelStatus(request, WAIT).model_version_status]

    def test_status_names_versions_and_states(self):
        self.assertEqual(self.status("half_plus_two"), [(2, "AVAILABLE", 0)])
        self.refused(CODE.NOT_FOUND, "Could not find any versions of model none", self.status,
                     "none")

    def test_health(self):
        check = self.channel.unary_unary("/grpc.health.v1.Health/Check")
        serving = b"\x08\x01"  # a HealthCheckResponse with status SERVING (1)
        for name in (b"", b"half_plus_two", b"PredictionService"):
            self.assertEqual(check(b"\x0a" + bytes((len(name),)) + name, WAIT), serving)
        self.refused(CODE.NOT_FOUND, "", check, b"\x0a\x04none", WAIT)


class Management(unittest.TestCase):
    """Tests of reloads, and of warm-up files as TensorFlow writes them. Each test starts its own server."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="slipway-official-")
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(ROOT / "models" / "half_plus_two", self.path("a"))

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def serve(self, *flags):
        server = support.Server("--model_name=a", f"--model_base_path={self.path('a')}", *flags)
        self.addCleanup(server.__exit__)
        channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")
        self.addCleanup(channel.close)
        return server, model_service_pb2_grpc.ModelServiceStub(channel)

    def test_a_reload_brings_models_versions_and_labels(self):
        server, stub = self.serve()
        request = model_management_pb2.ReloadConfigRequest(
            metric_names=["/tensorflow/serving/model_warmup_latency"])
        models = request.config.model_config_list.config
        models.add(name="b", base_path=self.path("a"), model_platform="tensorflow")
        models[0].model_version_policy.specific.versions.extend([1, 2])
        a = stub.HandleReloadConfigRequest(request, WAIT)
        self.assertEqual((a.status.error_code, a.metric[0].name),
                         (0, "/tensorflow/serving/model_warmup_latency"))
        support.wait_for(lambda: server.state("b", 1) == server.state("b", 2) == "AVAILABLE", 20,
                         "both versions")
        models[0].version_labels["stable"] = 1
        stub.HandleReloadConfigRequest(request, WAIT)
        self.assertEqual(server.predict("b", [1.0], "/labels/stable"), [3.5])
        self.assertEqual(server.predict("b", [1.0]), [2.5])
        support.wait_for(lambda: server.state("a", 2) == "END", 20, "the absent model to go")
        models[0].version_labels["stable"] = 7
        with self.assertRaises(grpc.RpcError) as caught:
            stub.HandleReloadConfigRequest(request, WAIT)
        self.assertEqual(caught.exception.code(), CODE.FAILED_PRECONDITION)

    def test_warm_up_files_that_tensorflow_wrote_are_played(self):
        x = tf.make_tensor_proto(np.float32([1]))
        log = prediction_log_pb2.PredictionLog
        predict, classify, regress, multi, session = (log() for _ in range(5))
        predict.predict_log.request.model_spec.name = "a"
        predict.predict_log.request.inputs["x"].CopyFrom(x)
        for request, signature in ((classify.classify_log.request, "classify_x_to_y"),
                                   (regress.regress_log.request, "regress_x_to_y")):
            request.model_spec.name, request.model_spec.signature_name = "a", signature
            request.input.example_list.examples.append(example(x=1))
        request = multi.multi_inference_log.request
        request.input.example_list.examples.append(example(x=1))
        task = request.tasks.add(method_name=REGRESS)
        task.model_spec.name, task.model_spec.signature_name = "a", "regress_x_to_y"
        request = session.session_run_log.request
        request.model_spec.name = "a"
        request.fetch.append("y:0")
        request.feed.add(name="x:0").tensor.CopyFrom(x)
        os.makedirs(self.path("a", "2", "assets.extra"))
        with tf.io.TFRecordWriter(
                self.path("a", "2", "assets.extra", "tf_serving_warmup_requests")) as file:
            for record in (predict, classify, regress, multi, session):
                file.write(record.SerializeToString())
        server, _ = self.serve()
        self.assertEqual(server.predict("a", [1.0]), [2.5])
        self.assertIn("warmed up with 5 records", server.log())


if __name__ == "__main__":
    unittest.main(verbosity=2)
