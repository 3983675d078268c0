"""Tests that Classify, Regress, MultiInference and SessionRun over gRPC, and their REST forms, give the same results
and errors as TensorFlow Serving."""
import base64
import concurrent.futures
import itertools
import json
import os
import shutil
import tempfile
import time
import unittest

import grpc
import small_models
from support import MODELS, ROOT, SLOW, Server
from tensorflow.core.example import example_pb2
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (classification_pb2, inference_pb2, predict_pb2,
                                     prediction_service_pb2_grpc, regression_pb2,
                                     session_service_pb2, session_service_pb2_grpc)

CODE = grpc.StatusCode
WAIT = 20 * SLOW
GOLDENS = os.path.join(ROOT, "tests", "goldens", "classifier")
CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"


def long_loop(g):
    """Adds a loop of two billion iterations. The node `exit` outputs the loop's result."""
    i = {"T": "int32"}
    for name, value in (("from", 0), ("to", 2**31 - 1), ("step", 1)):
        g.const(name, "int32", [], int_val=[value])
        enter = g.node("enter_" + name, "Enter", name, **i)
        enter.attr["frame_name"].s = b"rounds"
        enter.attr["is_constant"].b = name != "from"
        enter.attr["parallel_iterations"].i = 10
    g.node("merge", "Merge", "enter_from", "next", **i).attr["N"].i = 2
    g.node("less", "Less", "merge", "enter_to", **i)
    g.node("go_on", "LoopCond", "less")
    g.node("switch", "Switch", "merge", "go_on", **i)
    g.node("sum", "Add", "switch:1", "enter_step", **i)
    g.node("next", "NextIteration", "sum", **i)
    g.node("exit", "Exit", "switch", **i)


def write_scores(folder):
    """Writes a model that takes Examples with the features x and x2. The default value of both features is 0. The model
    computes y = 0.5 x + 2, y2 = 0.5 x + 3, and y3 = 0.5 x2 + 3. Its other outputs are refused by Classify and Regress."""
    def build(g):
        f = {"T": "float"}
        g.placeholder("tf_example", "string")
        g.const("names", "string", [0])
        for name in ("x", "x2"):
            g.const("key_" + name, "string", [], string_val=[name.encode()])
        g.const("no_default", "float", [0])
        g.const("zero", "float", [1], float_val=[0])
        g.const("half", "float", [], float_val=[0.5])
        g.const("two", "float", [], float_val=[2])
        g.const("three", "float", [], float_val=[3])
        n = g.node("Parse", "ParseExample", "tf_example", "names", "key_x", "key_x2", "no_default",
                   "zero")
        n.attr["Nsparse"].i = 0
        n.attr["Ndense"].i = 2
        n.attr["sparse_types"].list.SetInParent()
        n.attr["Tdense"].list.type.extend([1, 1])
        for _ in range(2):
            n.attr["dense_shapes"].list.shape.add().dim.add(size=1)
        g.node("x", "Identity", "Parse", **f)
        g.node("x2", "Identity", "Parse:1", **f)
        for out, x, b in (("y", "x", "two"), ("y2", "x", "three"), ("y3", "x2", "three")):
            g.node("half_" + out, "Mul", x, "half", **f)
            g.node(out, "Add", "half_" + out, b, **f)
        g.const("last", "int32", [], int_val=[1])
        g.node("pair", "ConcatV2", "y", "y2", "last", T="float", Tidx="int32").attr["N"].i = 2
        g.node("labels", "AsString", "pair", T="float")
        g.node("label", "AsString", "y", T="float")
        g.const("minus_one", "int32", [1], int_val=[-1])
        g.node("flat", "Reshape", "y", "minus_one", T="float", Tshape="int32")
        g.node("double", "Cast", "y", SrcT="float", DstT="double")
        g.const("column", "int32", [], int_val=[1])
        g.node("echo", "ExpandDims", "tf_example", "column", T="string", Tdim="int32")
        g.node("log", "Log", "y", **f)
        long_loop(g)
        g.const("one_row", "float", [1, 1], float_val=[1])
        g.const("one_label", "string", [1, 1], string_val=[b"one"])
    e = {"inputs": ("tf_example", "string")}
    y, x2 = ("y", "float"), {"inputs": ("x2", "float")}
    small_models.write(folder, {
        "serving_default": ({"x": ("x", "float")}, {"y": y}),
        "regress_x_to_y": (e, {"outputs": y}, "regress"),
        "regress_x_to_y2": (e, {"outputs": ("y2", "float")}, "regress"),
        "regress_x2_to_y3": (x2, {"outputs": ("y3", "float")}, "regress"),
        "regress_flat": (e, {"outputs": ("flat", "float")}, "regress"),
        "classify_x_to_y": (e, {"scores": y}, "classify"),
        "classify_x2_to_y3": (x2, {"scores": ("y3", "float")}, "classify"),
        "classify_both": (e, {"classes": ("labels", "string"), "scores": ("pair", "float")},
                          "classify"),
        "classify_labels": (e, {"classes": ("labels", "string")}, "classify"),
        "echo": (e, {"classes": ("echo", "string")}, "classify"),
        "log_values": (e, {"outputs": ("log", "float")}, "regress"),
        "with_default": ({"x": ("x", "float"), "x2": ("x2", "float")},
                         {"y": y, "y3": ("y3", "float")}),
        "odd_method": ({"x": ("x", "float")}, {"y": y}, "odd"),
        # Classify and Regress refuse the signatures that follow.
        "two_inputs": ({"inputs": ("tf_example", "string"), "x": ("x", "float")}, {"outputs": y}),
        "other_input": ({"examples": ("tf_example", "string")}, {"outputs": y}),
        "other_input_classify": ({"examples": ("tf_example", "string")}, {"scores": y}),
        "two_outputs": (e, {"outputs": y, "more": y}),
        "three_outputs": (e, {"classes": ("label", "string"), "scores": y, "more": y}),
        "other_output": (e, {"values": y}),
        "flat_scores": (e, {"scores": ("flat", "float")}, "classify"),
        "double_scores": (e, {"scores": ("double", "double")}, "classify"),
        "float_classes": (e, {"classes": y}, "classify"),
        "one_score": (e, {"scores": ("one_row", "float")}, "classify"),
        "one_label": (e, {"classes": ("one_label", "string")}, "classify"),
        "unequal": (e, {"classes": ("label", "string"), "scores": ("pair", "float")}, "classify"),
        "pair_values": (e, {"outputs": ("pair", "float")}, "regress"),
        "double_values": (e, {"outputs": ("double", "double")}, "regress"),
        "one_value": (e, {"outputs": ("one_row", "float")}, "regress"),
    }, build, {"with_default": {"x": 8}})


def example(**features):
    e = example_pb2.Example()
    for key, value in features.items():
        e.features.feature[key].float_list.value.append(value)
    return e


class InferenceCase(unittest.TestCase):
    flags = ()
    models = {"half_plus_two": os.path.join(MODELS, "half_plus_two"),
              "counter": os.path.join(MODELS, "counter"),
              "changing": os.path.join(MODELS, "half_plus_two")}

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="slipway-inference-")
        for name in ("scores", "many_sets"):
            write_scores(os.path.join(cls.folder, name, "7"))
        for name, path in cls.models.items():
            os.symlink(path, os.path.join(cls.folder, name))
        cls.server = Server(f"--models={cls.folder}", *cls.flags)
        cls.channel = grpc.insecure_channel(f"127.0.0.1:{cls.server.grpc_port}")
        cls.stub = prediction_service_pb2_grpc.PredictionServiceStub(cls.channel)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        code = cls.server.stop()
        log = cls.server.log()
        shutil.rmtree(cls.folder, ignore_errors=True)
        assert code == 0 and "Sanitizer" not in log, log

    def refused(self, code, text, call, *args):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*args)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertIn(text, caught.exception.details())

    def fill(self, r, signature, examples, model="scores", context=None):
        r.model_spec.name = model
        r.model_spec.signature_name = signature
        if context is not None:
            r.input.example_list_with_context.context.CopyFrom(context)
            r.input.example_list_with_context.examples.extend(examples)
        elif examples is not None:
            r.input.example_list.examples.extend(examples)
        return r

    def classify(self, signature, examples, **kw):
        r = self.fill(classification_pb2.ClassificationRequest(), signature, examples, **kw)
        return self.stub.Classify(r, timeout=WAIT)

    def regress(self, signature, examples, **kw):
        r = self.fill(regression_pb2.RegressionRequest(), signature, examples, **kw)
        return self.stub.Regress(r, timeout=WAIT)

    def scores(self, answer):
        return [[(c.label, c.score) for c in one.classes] for one in answer.result.classifications]

    def values(self, answer):
        return [one.value for one in answer.result.regressions]


class Classify(InferenceCase):
    def test_scores_without_labels(self):
        answer = self.classify("classify_x_to_y", [example(x=20), example(x=2)])
        self.assertEqual(self.scores(answer), [[("", 12)], [("", 3)]])
        self.assertEqual(answer.model_spec.name, "scores")
        self.assertEqual(answer.model_spec.version.value, 7)
        self.assertEqual(answer.model_spec.signature_name, "classify_x_to_y")

    def test_labels_with_scores_and_labels_alone(self):
        answer = self.classify("classify_both", [example(x=2), example(x=4)])
        self.assertEqual(self.scores(answer), [[("3.000000", 3), ("4.000000", 4)],
                                               [("4.000000", 4), ("5.000000", 5)]])
        answer = self.classify("classify_labels", [example(x=2)])
        self.assertEqual(self.scores(answer), [[("3.000000", 0), ("4.000000", 0)]])

    def test_a_context_is_merged_into_each_example_which_goes_before_it(self):
        answer = self.regress("regress_x_to_y", [example(), example(x=4)], context=example(x=2))
        self.assertEqual(self.values(answer), [3, 4])

    def test_the_model_that_comes_along(self):
        answer = self.classify("classify_x_to_y", [example(x=20)], model="half_plus_two")
        self.assertEqual(self.scores(answer), [[("", 12)]])
        self.assertEqual(answer.model_spec.version.value, 2)
        answer = self.regress("regress_x_to_y", [example(x=80)], model="half_plus_two")
        self.assertEqual(self.values(answer), [42])

    def test_a_version_that_is_named(self):
        r = self.fill(regression_pb2.RegressionRequest(), "regress_x_to_y", [example(x=2)])
        r.model_spec.version.value = 7
        self.assertEqual(self.values(self.stub.Regress(r)), [3])
        r.model_spec.version.value = 8
        self.refused(CODE.NOT_FOUND, "Servable not found for request: Specific(scores, 8)",
                     self.stub.Regress, r)

    def test_regressions_of_rank_1_and_2(self):
        for signature, want in (("regress_x_to_y", [3, 2]), ("regress_x_to_y2", [4, 3]),
                                ("regress_flat", [3, 2])):
            answer = self.regress(signature, [example(x=2), example(x=0)])
            self.assertEqual(self.values(answer), want)
            self.assertEqual(answer.model_spec.signature_name, signature)

    def test_predict_on_their_signatures(self):
        for signature, alias in (("regress_x2_to_y3", "outputs"), ("classify_x2_to_y3", "scores")):
            r = predict_pb2.PredictRequest()
            r.model_spec.name = "scores"
            r.model_spec.signature_name = signature
            t = r.inputs["inputs"]
            t.dtype = types_pb2.DT_FLOAT
            t.tensor_shape.dim.add(size=1)
            t.float_val.append(2)
            answer = self.stub.Predict(r)
            self.assertEqual(list(answer.outputs[alias].float_val), [4])
            self.assertEqual(answer.model_spec.signature_name, signature)

    def test_what_is_wrong_with_the_request(self):
        spec = "Missing ModelSpec"
        for call, request in ((self.stub.Classify, classification_pb2.ClassificationRequest()),
                              (self.stub.Regress, regression_pb2.RegressionRequest())):
            self.refused(CODE.INVALID_ARGUMENT, spec, call, request)
            request.model_spec.SetInParent()
            self.refused(CODE.INVALID_ARGUMENT, "ModelSpec has no name specified.", call, request)
            request.model_spec.name = "nobody"
            self.refused(CODE.NOT_FOUND, "Servable not found for request: Latest(nobody)", call,
                         request)
            request.model_spec.name = "scores"
            request.model_spec.version_label = "new"
            self.refused(CODE.INVALID_ARGUMENT, "Unrecognized servable version label: new", call,
                         request)
        for call in (self.classify, self.regress):
            self.refused(CODE.INVALID_ARGUMENT, "No signature was found with the name: none", call,
                         "none", [example(x=1)])
            name = "classify_x_to_y" if call == self.classify else "regress_x_to_y"
            self.refused(CODE.INVALID_ARGUMENT, "Input is empty.", call, name, [])
            self.refused(CODE.INVALID_ARGUMENT, "Input is empty.", call, name, None)
        self.refused(CODE.INVALID_ARGUMENT, "Input is empty.",
                     lambda: self.regress("regress_x_to_y", [], context=example(x=1)))
        self.refused(CODE.INVALID_ARGUMENT, "x", self.regress, "regress_x_to_y", [example()])
        self.refused(CODE.INVALID_ARGUMENT,
                     "Expects arg[0] to be float but string is provided", self.regress,
                     "regress_x2_to_y3", [example(x=1)])

    def test_what_is_wrong_with_the_signature(self):
        one = [example(x=1)]
        bad = CODE.INVALID_ARGUMENT
        for call in (self.classify, self.regress):
            self.refused(bad, "Expected one input Tensor.", call, "two_inputs", one)
        self.refused(bad, 'No regression inputs found in SignatureDef: inputs {\n  key: '
                     '"examples"\n  value {\n    name: "tf_example:0"\n    dtype: DT_STRING\n',
                     self.regress, "other_input", one)
        self.refused(bad, "No classification inputs found in SignatureDef: inputs {",
                     self.classify, "other_input_classify", one)
        self.refused(bad, "Expected one output Tensor.", self.regress, "two_outputs", one)
        self.refused(bad, "Expected one or two output Tensors, found 3", self.classify,
                     "three_outputs", one)
        self.refused(bad, "No regression outputs found in SignatureDef: ", self.regress,
                     "other_output", one)
        self.refused(bad, "Expected classification signature outputs to contain at least one of "
                     '"classes" or "scores". Signature was: inputs {', self.classify,
                     "other_output", one)

    def test_what_is_wrong_with_the_outputs(self):
        two = [example(x=1), example(x=2)]
        for call, signature, text in (
                (self.classify, "flat_scores",
                 "Expected Tensor shape: [batch_size num_classes] but got [2]"),
                (self.classify, "double_scores",
                 "Expected scores Tensor of DT_FLOAT. Got: DT_DOUBLE"),
                (self.classify, "float_classes",
                 "Expected classes Tensor of DT_STRING. Got: DT_FLOAT"),
                (self.classify, "one_score", "Expected scores output batch size of 2. Got: 1"),
                (self.classify, "one_label", "Expected classes output batch size of 2. Got: 1"),
                (self.classify, "unequal",
                 "Tensors class and score should match in dim_size(1). Got 1 vs. 2"),
                (self.regress, "pair_values", "Expected output Tensor shape to be either "
                 "[batch_size] or [batch_size, 1] but got [2,2]"),
                (self.regress, "double_values",
                 "Expected output Tensor of DT_FLOAT.  Got: DT_DOUBLE"),
                (self.regress, "one_value",
                 "Input batch size did not match output batch size: 2 vs. 1")):
            with self.subTest(signature):
                self.refused(CODE.INVALID_ARGUMENT, text, call, signature, two)


class Defaults(InferenceCase):
    def ask(self, *filters, **inputs):
        r = predict_pb2.PredictRequest(output_filter=filters)
        r.model_spec.name = "scores"
        r.model_spec.signature_name = "with_default"
        for alias, value in inputs.items():
            r.inputs[alias].CopyFrom(small_models.scalar(value))
        return {k: v.float_val[0] for k, v in self.stub.Predict(r, timeout=WAIT).outputs.items()}

    def test_a_missing_input_takes_the_default_of_its_signature(self):
        self.assertEqual(self.ask(x2=2), {"y": 6, "y3": 4})
        self.assertEqual(self.ask(x=2, x2=2), {"y": 3, "y3": 4})
        self.assertEqual(self.ask("y3", x2=2), {"y3": 4})

    def test_what_defaults_do_not_help(self):
        self.refused(CODE.INVALID_ARGUMENT, "Signature input alias: x2(feed name: x2:0) not found "
                     "in request and no default value provided. Inputs expected to be in the set "
                     "{x,x2}.", self.ask)
        with self.assertRaises(grpc.RpcError) as caught:
            self.ask(x2=2, z=1)
        self.assertEqual(caught.exception.code(), CODE.INVALID_ARGUMENT)
        self.assertIn("Inputs contains invalid name. Used request inputs: x2, request "
                      "input: x2,z", caught.exception.details())


class Rest(InferenceCase):
    def ask(self, method, body, model="scores"):
        status, answer = self.server.post(f"/v1/models/{model}:{method}", body)
        return status, answer.decode("latin-1")

    def refuses(self, text, method, body, status=400, **kw):
        got, answer = self.ask(method, body, **kw)
        self.assertEqual(got, status, answer)
        self.assertIn(text, json.loads(answer)["error"])

    def echo(self, examples, **more):
        """Returns the examples as the model received them."""
        status, body = self.ask("classify", {"signature_name": "echo", "examples": examples, **more})
        self.assertEqual(status, 200, body)
        found = [example_pb2.Example.FromString(one[0][0].encode("latin-1"))
                 for one in json.loads(body)["results"]]
        return [dict(e.features.feature) for e in found]

    def test_results_are_laid_out_as_the_reference_says(self):
        self.assertEqual(self.ask("regress", {"signature_name": "regress_x_to_y",
                                              "examples": [{"x": 80.0}, {"x": 3.0}]}),
                         (200, '{\n    "results": [42.0, 3.5]\n}'))
        self.assertEqual(self.ask("classify", {"signature_name": "classify_x_to_y",
                                               "examples": [{"x": 20.0}, {"x": 2.0}]}),
                         (200, '{\n    "results": [[["", 12.0]], [["", 3.0]]\n    ]\n}'))
        self.assertEqual(self.ask("classify", {"signature_name": "classify_both",
                                               "examples": [{"x": 2.0}]}),
                         (200, '{\n    "results": [[["3.000000", 3.0], ["4.000000", 4.0]]\n    ]'
                               '\n}'))
        self.assertEqual(self.ask("regress", b'{"signature_name": "log_values", "examples": [{"x": '
                                             b'-4}, {"x": -Infinity}]}')[0], 400)
        self.assertEqual(self.ask("regress", b'{"signature_name": "log_values", "examples": [{"x": '
                                             b'-4.0}, {"x": -Inf}, {"x": NaN}, {"x": Infinity}]}'),
                         (200, '{\n    "results": [-Infinity, NaN, NaN, Infinity]\n}'))

    def test_a_token_says_the_kind(self):
        one, = self.echo([{"s": "text", "b": {"b64": "AAH/"}, "f": 2.0, "e": [1e3, -0.5], "i": 2,
                           "t": [1, True, False], "many": ["a", {"b64": "Yg=="}, ""], "none": [],
                           "big": [-9223372036854775808, 9223372036854775807]}])
        self.assertEqual(list(one["s"].bytes_list.value), [b"text"])
        self.assertEqual(list(one["b"].bytes_list.value), [b"\x00\x01\xff"])
        self.assertEqual(list(one["f"].float_list.value), [2.0])
        self.assertEqual(list(one["e"].float_list.value), [1000.0, -0.5])
        self.assertEqual(list(one["i"].int64_list.value), [2])
        self.assertEqual(list(one["t"].int64_list.value), [1, 1, 0])
        self.assertEqual(list(one["many"].bytes_list.value), [b"a", b"b", b""])
        self.assertIsNone(one["none"].WhichOneof("kind"))
        self.assertEqual(list(one["big"].int64_list.value), [-2**63, 2**63 - 1])
        self.assertEqual(self.echo([{}]), [{}])

    def test_a_context_goes_into_each_example(self):
        first, second = self.echo([{"x": 1.0}, {"y": 3.0}], context={"x": 5.0, "z": "all"})
        self.assertEqual(list(first["x"].float_list.value), [1.0])
        self.assertEqual(list(second["x"].float_list.value), [5.0])
        self.assertEqual(list(first["z"].bytes_list.value), [b"all"])
        self.assertEqual(self.ask("regress", {"signature_name": "regress_x_to_y", "context":
                                              {"x": 2.0}, "examples": [{}, {"x": 4.0}]}),
                         (200, '{\n    "results": [3.0, 4.0]\n}'))

    def test_what_is_wrong_with_the_json(self):
        sig, one = {"signature_name": "echo"}, [{"x": 1.0}]
        for method in ("classify", "regress"):
            for body, text in (
                    (b"", "JSON Parse error: The document is empty"),
                    ({"signature_name": ["a"], "examples": one},
                     "'signature_name' key must be a string value."),
                    ({**sig, "context": [1], "examples": one},
                     "Example must be JSON object but got JSON Array"),
                    ({**sig, "examples": [[1]]}, "Example must be JSON object but got JSON Array"),
                    ({**sig, "examples": {"x": 1}},
                     "Expecting 'examples' value to be an list/array"),
                    ({**sig}, "key 'examples' is expected and was not found"),
                    ({**sig, "examples": []}, "'examples' value is an empty array"),
                    ({**sig, "examples": [{"names": None}]},
                     "Feature: names has element with unexpected JSON type: Null"),
                    ({**sig, "examples": [{"names": [10, 10.0]}]},
                     "Unexpected element type in feature: names expecting type: int64"),
                    ({**sig, "examples": [{"names": [10.0, 10]}]},
                     "Unexpected element type in feature: names expecting type: float"),
                    ({**sig, "examples": [{"names": ["a", 10]}]},
                     "Unexpected element type in feature: names expecting type: bytes"),
                    ({**sig, "examples": [{"names": [10, "a"]}]},
                     "Unexpected element type in feature: names expecting type: int64"),
                    ({**sig, "examples": [{"names": [{"a": 1}]}]},
                     "Feature: names has element with unexpected JSON type: Object"),
                    ({**sig, "examples": [{"names": [[1]]}]},
                     "Feature: names has element with unexpected JSON type: Array"),
                    ({**sig, "examples": [{"names": [18446744073709551603]}]},
                     "Feature: names has uint64_t element. Only int64_t is supported."),
                    ({**sig, "examples": [{"names": {"b64": "?"}}]}, "Unable to base64 decode")):
                with self.subTest(text):
                    self.refuses(text, method, body)

    def test_what_is_wrong_with_model_and_signature(self):
        one = [{"x": 2.0}]
        self.refuses("Servable not found for request: Latest(nobody)", "classify",
                     {"examples": one}, 404, model="nobody")
        self.refuses("Servable not found for request: Specific(scores, 50)", "regress",
                     {"examples": one}, 404, model="scores/versions/50")
        self.refuses("'examples' value is an empty array", "classify", {"examples": []},
                     model="nobody")
        self.refuses("Unrecognized servable version label: new", "regress", {"examples": one},
                     model="scores/labels/new")
        self.refuses("No signature was found with the name: none", "classify",
                     {"signature_name": "none", "examples": one})
        self.refuses("Expected one input Tensor.", "regress",
                     {"signature_name": "two_inputs", "examples": one})
        self.refuses("Expected Tensor shape: [batch_size num_classes] but got [1]", "classify",
                     {"signature_name": "flat_scores", "examples": one})
        self.refuses("Data types don't match", "regress",
                     {"signature_name": "regress_x_to_y", "examples": [{"x": 2}]})

    def test_the_model_that_comes_along(self):
        self.assertEqual(self.ask("classify", {"signature_name": "classify_x_to_y",
                                               "examples": [{"x": 20.0}]}, "half_plus_two"),
                         (200, '{\n    "results": [[["", 12.0]]\n    ]\n}'))


class MadeByTensorflow(InferenceCase):
    """The model of tests/goldens/classifier, whose expected outputs TensorFlow computed."""
    models = {"classifier": GOLDENS}

    def setUp(self):
        with open(os.path.join(GOLDENS, "answers.json"), encoding="utf-8") as file:
            self.answers = json.load(file)

    def requests(self, signature, kind):
        for a in self.answers:
            r = kind()
            r.model_spec.name = "classifier"
            r.model_spec.signature_name = signature
            examples = [example_pb2.Example.FromString(base64.b64decode(e)) for e in a["examples"]]
            if a["context"]:
                listed = r.input.example_list_with_context
                listed.context.ParseFromString(base64.b64decode(a["context"]))
            else:
                listed = r.input.example_list
            listed.examples.extend(examples)
            yield r, a

    def check_scores(self, found, a, labels=True, scores=True):
        self.assertEqual([[c.label for c in one.classes] for one in found.classifications],
                         [[k if labels else "" for k in row] for row in a["classes"]])
        for one, want in zip(found.classifications, a["scores"]):
            for c, score in zip(one.classes, want):
                self.assertAlmostEqual(c.score, score if scores else 0, delta=1e-6)

    def check_values(self, found, a):
        self.assertEqual(len(found.regressions), len(a["values"]))
        for one, want in zip(found.regressions, a["values"]):
            self.assertAlmostEqual(one.value, want, delta=2e-5)

    def test_classify(self):
        for signature, labels, scores in (("", True, True), ("labels", True, False),
                                          ("scores", False, True)):
            for r, a in self.requests(signature, classification_pb2.ClassificationRequest):
                answer = self.stub.Classify(r, timeout=WAIT)
                self.check_scores(answer.result, a, labels, scores)
                self.assertEqual(answer.model_spec.signature_name, signature or "serving_default")

    def test_regress(self):
        for r, a in self.requests("value", regression_pb2.RegressionRequest):
            self.check_values(self.stub.Regress(r, timeout=WAIT).result, a)

    def test_both_in_one_run(self):
        for one, a in self.requests("value", regression_pb2.RegressionRequest):
            r = inference_pb2.MultiInferenceRequest(input=one.input)
            for signature, method in (("value", REGRESS), ("serving_default", CLASSIFY)):
                t = r.tasks.add(method_name=method)
                t.model_spec.name, t.model_spec.signature_name = "classifier", signature
            value, scores = self.stub.MultiInference(r, timeout=WAIT).results
            self.check_values(value.regression_result, a)
            self.check_scores(scores.classification_result, a)

    def test_over_rest(self):
        a = self.answers[2]
        status, body = self.server.post("/v1/models/classifier:classify", {
            "context": {"visits": [10, 20], "cities": "rome"},
            "examples": [{"age": 5.0}, {"age": 6.0, "cities": ["paris", {"b64": "b3Nsbw=="}]},
                         {"age": 7.0, "visits": [0, -1]}]})
        self.assertEqual(status, 200, body)
        found = json.loads(body)["results"]
        self.assertEqual([[k for k, _ in row] for row in found], a["classes"])
        for row, want in zip(found, a["scores"]):
            for (_, score), s in zip(row, want):
                self.assertAlmostEqual(score, s, delta=1e-6)


class MultiInference(InferenceCase):
    def ask(self, tasks, examples=(example(x=2),), **kw):
        r = inference_pb2.MultiInferenceRequest()
        for signature, method, *model in tasks:
            t = r.tasks.add(method_name=method)
            t.model_spec.name = model[0] if model else "scores"
            t.model_spec.signature_name = signature
        r.input.example_list.examples.extend(examples)
        return self.stub.MultiInference(r, timeout=WAIT, **kw)

    def test_one_run_answers_all_tasks(self):
        tasks = [("regress_x_to_y", REGRESS), ("classify_both", CLASSIFY),
                 ("regress_x_to_y2", REGRESS)]
        for _ in range(3):
            answer = self.ask(tasks, [example(x=2), example(x=4)])
            first, second, third = answer.results
            self.assertEqual([v.value for v in first.regression_result.regressions], [3, 4])
            self.assertEqual([v.value for v in third.regression_result.regressions], [4, 5])
            self.assertEqual([[(c.label, c.score) for c in k.classes]
                              for k in second.classification_result.classifications],
                             [[("3.000000", 3), ("4.000000", 4)],
                              [("4.000000", 4), ("5.000000", 5)]])
            self.assertEqual([r.model_spec.signature_name for r in answer.results],
                             [t[0] for t in tasks])
            self.assertEqual({(r.model_spec.name, r.model_spec.version.value)
                              for r in answer.results}, {("scores", 7)})

    def test_tasks_in_any_order_are_one_call(self):
        values = {"regress_x_to_y": 3, "regress_x_to_y2": 4, "regress_flat": None,
                  "classify_x_to_y": None, "classify_both": None, "classify_labels": None}
        n = 0
        # Tests 300 permutations of the tasks, more than RT_MAX_DYNAMIC_CALLABLES.
        for names in itertools.permutations(values):
            if n == 300:
                break
            n += 1
            answer = self.ask([(s, REGRESS if s[0] == "r" else CLASSIFY) for s in names])
            for name, result in zip(names, answer.results):
                self.assertEqual(result.model_spec.signature_name, name)
                if values[name]:
                    self.assertEqual(result.regression_result.regressions[0].value, values[name])
            both = answer.results[names.index("classify_both")].classification_result
            self.assertEqual([c.score for c in both.classifications[0].classes], [3, 4])

    def test_what_is_refused(self):
        bad, one = CODE.INVALID_ARGUMENT, ("regress_x_to_y", REGRESS)
        self.refused(bad, "ModelSpec has no name specified.", self.ask, [])
        self.refused(CODE.NOT_FOUND, "Servable not found for request: Latest(nobody)", self.ask,
                     [("s", REGRESS, "nobody")])
        self.refused(bad, "Found ModelSpec with an empty model name.", self.ask,
                     [one, ("regress_x_to_y2", REGRESS, "")])
        self.refused(bad, "All ModelSpecs in a MultiInferenceRequest must access the same model "
                     "name.", self.ask, [one, ("regress_x_to_y", REGRESS, "half_plus_two")])
        self.refused(bad, "Duplicate evaluation of signature: regress_x_to_y", self.ask, [one, one])
        self.refused(bad, "Requested signature not found in model graph: none", self.ask,
                     [one, ("none", REGRESS)])
        self.refused(CODE.UNIMPLEMENTED, "Unsupported signature method_name: "
                     "tensorflow/serving/predict", self.ask,
                     [("regress_x_to_y", "tensorflow/serving/predict")])
        self.refused(bad, "Expected one input Tensor.", self.ask, [("two_inputs", REGRESS)])
        self.refused(bad, "Input is empty.", self.ask, [one], [])
        self.refused(bad, "the request has 1001 tasks, at most 1000", self.ask, [one] * 1001)
        self.refused(bad, "Expected Tensor shape: [batch_size num_classes] but got [1]", self.ask,
                     [one, ("flat_scores", CLASSIFY)])


class SessionRun(InferenceCase):
    flags = ("--enable_session_service",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.session = session_service_pb2_grpc.SessionServiceStub(cls.channel)

    def ask(self, feeds, fetches, targets=(), model="half_plus_two", **options):
        r = session_service_pb2.SessionRunRequest(fetch=fetches, target=targets)
        r.model_spec.name = model
        for name, values in feeds:
            t = r.feed.add(name=name).tensor
            t.dtype = types_pb2.DT_FLOAT
            t.tensor_shape.SetInParent()
            if isinstance(values, list):
                t.tensor_shape.dim.add(size=len(values))
            t.float_val.extend(values if isinstance(values, list) else [values])
        for key, value in options.items():
            setattr(r if key == "tensor_name_is_alias" else r.options, key, value)
        return self.session.SessionRun(r, timeout=WAIT)

    def test_one_tensor_many_times_is_an_answer_with_a_bound(self):
        answer = self.ask([("x:0", [2, 4])], ["y:0"] * 1000)
        self.assertEqual(self.found(answer), [("y:0", [3, 4])] * 1000)
        with self.assertRaises(grpc.RpcError) as caught:
            self.ask([("x:0", [1.0] * 50000)], ["y:0"] * 10000)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("the response is larger than --max_bytes_in_flight",
                      caught.exception.details())

    def test_many_sets_of_fetches_leave_calls_for_other_services(self):
        constants = ["names", "key_x", "key_x2", "no_default", "zero", "half", "two", "three",
                     "last", "minus_one", "column", "one_row", "one_label"]
        statuses = []
        # There are more combinations of fetches than a model may have callables.
        for fetches in itertools.islice(itertools.combinations(constants, 5), 1000):
            try:
                self.ask([], fetches, model="many_sets")
                statuses.append(CODE.OK)
            except grpc.RpcError as e:
                self.assertIn("256 different sets of feeds and fetches", e.details())
                statuses.append(e.code())
        self.assertEqual(statuses, [CODE.OK] * 256 + [CODE.RESOURCE_EXHAUSTED] * 744)
        r = inference_pb2.MultiInferenceRequest()
        r.input.example_list.examples.append(example(x=2))
        for signature in ("regress_x_to_y", "regress_x_to_y2"):
            t = r.tasks.add(method_name=REGRESS)
            t.model_spec.name, t.model_spec.signature_name = "many_sets", signature
        first, second = self.stub.MultiInference(r, timeout=WAIT).results
        self.assertEqual(first.regression_result.regressions[0].value, 3)
        self.assertEqual(second.regression_result.regressions[0].value, 4)

    def test_what_is_too_many_is_told_with_the_limit(self):
        self.refused(CODE.INVALID_ARGUMENT, "the request has 0 feeds, 10001 fetches and 0 targets, at most 10000 of each",
                     self.ask, [], ["y:0"] * 10001)
        r = predict_pb2.PredictRequest(output_filter=["y"] * 10001)
        r.model_spec.name = "half_plus_two"
        self.refused(CODE.INVALID_ARGUMENT, "the request has 0 inputs and 10001 output filters, at most 10000 of each",
                     self.stub.Predict, r, WAIT)

    def found(self, answer):
        return [(t.name, list(t.tensor.float_val)) for t in answer.tensor]

    def test_tensors_by_name_in_the_order_asked_for(self):
        for _ in range(3):
            answer = self.ask([("x:0", [2, 4])], ["y:0", "Mul:0", "b/read", "y"])
            self.assertEqual(self.found(answer), [("y:0", [3, 4]), ("Mul:0", [1, 2]),
                                                  ("b/read", [2]), ("y", [3, 4])])
        self.assertEqual(answer.model_spec.name, "half_plus_two")
        self.assertEqual(answer.model_spec.version.value, 2)
        self.assertEqual(answer.model_spec.signature_name, "")
        self.assertFalse(answer.HasField("metadata"))
        # SessionRun may feed and fetch tensors in the middle of the graph.
        answer = self.ask([("Mul", [10]), ("b/read", [1])], ["y:0"])
        self.assertEqual(self.found(answer), [("y:0", [11])])

    def test_targets_run_for_their_effect(self):
        """Signatures that run after a write read the written value."""
        answer = self.ask([("b/initial_value", 7)], [], ["b/Assign"], "changing")
        self.assertEqual(self.found(answer), [])
        self.assertEqual(self.server.predict("changing", [2.0]), [8.0])
        self.ask([("b/initial_value", 2)], [], ["b/Assign"], "changing")
        self.assertEqual(self.server.predict("changing", [2.0]), [3.0])

    def test_aliases_of_a_signature(self):
        answer = self.ask([("x", [2])], ["y"], tensor_name_is_alias=True)
        self.assertEqual(self.found(answer), [("y", [3])])
        self.refused(CODE.INVALID_ARGUMENT, 'signature "serving_default" has no input "z"',
                     lambda: self.ask([("z", [2])], ["y"], tensor_name_is_alias=True))

    def test_times_and_the_graph_when_asked_for(self):
        answer = self.ask([("x", [2])], ["y"], trace_level=3)
        self.assertEqual(len(answer.metadata.partition_graphs), 0)
        device, = answer.metadata.step_stats.dev_stats
        self.assertEqual(device.device, "/job:localhost/replica:0/task:0/device:CPU:0")
        self.assertIn("y", [n.node_name for n in device.node_stats])
        for n in device.node_stats:
            self.assertGreater(n.all_start_micros, 1_600_000_000_000_000)
            self.assertGreaterEqual(n.all_end_rel_nanos, n.op_start_rel_nanos)
            self.assertIn(f"{n.node_name} = ", n.timeline_label)
            self.assertEqual(n.output[0].tensor_description.dtype, types_pb2.DT_FLOAT)
        answer = self.ask([("x", [2])], ["y"], output_partition_graphs=True)
        self.assertEqual(len(answer.metadata.step_stats.dev_stats), 0)
        graph, = answer.metadata.partition_graphs
        y, = [n for n in graph.node if n.name == "y"]
        self.assertEqual(y.op, "_Chain")
        self.assertEqual(set(y.input), {"a", "x", "b"})

    def test_its_own_time_limit_is_kept(self):
        before = time.monotonic()
        self.refused(CODE.DEADLINE_EXCEEDED, "", lambda: self.ask([], ["exit"], (), "scores",
                                                                  timeout_in_ms=200))
        # The loop is endless, so the call returned because of the time limit.
        self.assertLess(time.monotonic() - before, 60 * SLOW)

    def test_what_is_refused(self):
        bad, x = CODE.INVALID_ARGUMENT, [("x:0", [1])]
        self.refused(bad, "Missing ModelSpec", self.session.SessionRun,
                     session_service_pb2.SessionRunRequest())
        self.refused(CODE.NOT_FOUND, "Servable not found for request: Latest(nobody)", self.ask, x,
                     ["y:0"], (), "nobody")
        self.refused(bad, "Must specify at least one target to fetch or execute.", self.ask, x, [])
        lost = "specified in either feed_devices or fetch_devices was not found in the Graph"
        self.refused(bad, f"Tensor z:0, {lost}", self.ask, [("z", [1])], ["y:0"])
        self.refused(bad, f"Tensor z:0, {lost}", self.ask, x, ["z"])
        self.refused(CODE.OUT_OF_RANGE, "Node 'y' (type: 'Add', num of outputs: 1) does not have "
                     "output 1", self.ask, x, ["y:1"])
        self.refused(bad, "x:0 is both fed and fetched.", self.ask, x, ["x"])
        self.refused(CODE.NOT_FOUND, "PruneForTargets: Some target nodes not found: q z ", self.ask,
                     x, ["y"], ["z", "q"])
        self.refused(bad, 'Endpoint "x:0" fed more than once.', self.ask, [*x, ("x", [2])], ["y"])
        self.refused(bad, "Expects arg[0] to be string but float is provided", self.ask,
                     [("tf_example", [1])], ["y"])

    def test_many_at_once_while_plans_are_made(self):
        """Several clients simultaneously send calls for which the server has no plan yet."""
        stub = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        signatures = ["regress_x_to_y", "regress_x_to_y2", "regress_flat"]
        wanted = {"regress_x_to_y": 3, "regress_x_to_y2": 4, "regress_flat": 3}

        def multi(i):
            chosen = [s for k, s in enumerate(signatures) if (i % 7 + 1) >> k & 1]
            r = inference_pb2.MultiInferenceRequest()
            for s in chosen:
                t = r.tasks.add(method_name=REGRESS)
                t.model_spec.name, t.model_spec.signature_name = "scores", s
            r.input.example_list.examples.append(example(x=2))
            got = stub.MultiInference(r, timeout=WAIT)
            return [x.regression_result.regressions[0].value for x in got.results], \
                [wanted[s] for s in chosen]

        def run(i):
            names = [n for k, n in enumerate(["y", "y2", "flat", "double"]) if (i % 13 + 1) >> k & 1]
            r = session_service_pb2.SessionRunRequest(fetch=names)
            r.model_spec.name = "scores"
            t = r.feed.add(name="x")
            t.tensor.CopyFrom(small_models.scalar(2))
            got = self.session.SessionRun(r, timeout=WAIT)
            return [len(x.tensor.float_val) + len(x.tensor.double_val) for x in got.tensor], \
                [1] * len(names)

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = [pool.submit(multi if i % 2 else run, i // 2) for i in range(400)]
            for one in answers:
                got, want = one.result()
                self.assertEqual(got, want)


class Off(InferenceCase):
    def test_the_session_service_is_off_unless_asked_for(self):
        stub = session_service_pb2_grpc.SessionServiceStub(self.channel)
        self.refused(CODE.UNIMPLEMENTED, "SessionService/SessionRun: the service lets a client run "
                     "any node of a model, so it is off unless --enable_session_service",
                     stub.SessionRun, session_service_pb2.SessionRunRequest())


class MethodNames(InferenceCase):
    flags = ("--enable_signature_method_name_check",)

    def test_they_are_checked_when_asked_for(self):
        one, bad = [example(x=2)], CODE.INVALID_ARGUMENT
        self.assertEqual(self.values(self.regress("regress_x_to_y", one)), [3])
        self.assertEqual(self.scores(self.classify("classify_x_to_y", one)), [[("", 3)]])
        self.refused(bad, "Expected classification signature method_name to be "
                     "tensorflow/serving/classify. Was: tensorflow/serving/regress", self.classify,
                     "regress_x_to_y", one)
        self.refused(bad, "Expected regression signature method_name to be "
                     "tensorflow/serving/regress. Was: tensorflow/serving/classify", self.regress,
                     "classify_x_to_y", one)
        r = predict_pb2.PredictRequest()
        r.model_spec.name = "scores"
        r.inputs["x"].CopyFrom(small_models.scalar(2))
        for signature in ("serving_default", "odd_method"):
            r.model_spec.signature_name = signature
            if signature == "serving_default":
                self.assertEqual(list(self.stub.Predict(r).outputs["y"].float_val), [3])
        self.refused(CODE.INTERNAL, "Expected prediction signature method_name to be one of "
                     "{tensorflow/serving/predict, tensorflow/serving/classify, "
                     "tensorflow/serving/regress}. Was: tensorflow/serving/odd", self.stub.Predict,
                     r)


if __name__ == "__main__":
    unittest.main()
