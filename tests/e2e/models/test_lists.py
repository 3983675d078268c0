"""Serves a model that rewrites Examples from JSON, adds tensor lists and accumulates the gradients of a TensorArray.
Requests of all signatures are mixed, and their shapes change."""
import base64
import json
import random

import small_models
from support import Case, Server

SETTINGS = ((), ("--specialise=off",))
RUNS = 40  # enough runs for tier 1, in which code is compiled for a shape that has occurred twice


def build(g):
    g.placeholder("json", "string")
    g.node("examples_bytes", "DecodeJSONExample", "json")
    g.placeholder("x", "float")
    g.placeholder("y", "float")
    g.const("any", "int32", [], int_val=[-1])
    for name in "xy":
        g.node(f"list_{name}", "TensorListFromTensor", name, "any", element_dtype="float", shape_type="int32")
    g.node("sum", "AddN", "list_x", "list_y", "list_x", T="variant").attr["N"].i = 3
    g.node("sums", "TensorListStack", "sum", "any", element_dtype="float").attr["num_elements"].i = -1
    g.const("size", "int32", [], int_val=[2])
    g.const("zero", "int32", [], int_val=[0])
    g.const("one", "int32", [], int_val=[1])
    array = g.node("array", "TensorArrayV3", "size", dtype="float")
    array.attr["element_shape"].shape.unknown_rank = True
    array.attr["tensor_array_name"].s = b"array"
    g.node("forward", "TensorArrayWriteV3", "array", "zero", "x", "array:1", T="float")
    g.node("forward_2", "TensorArrayWriteV3", "array", "one", "y", "forward", T="float")
    g.node("grad", "TensorArrayGradV3", "array", "forward_2").attr["source"].s = b"gradients"
    g.node("first", "TensorArrayWriteV3", "grad", "zero", "x", "grad:1", T="float")
    g.node("again", "TensorArrayGradV3", "array", "first").attr["source"].s = b"gradients"
    g.node("second", "TensorArrayWriteV3", "again", "zero", "y", "first", T="float")
    g.node("total", "TensorArrayReadV3", "again", "zero", "second", dtype="float")
    g.node("untouched", "TensorArrayReadV3", "grad", "one", "second", dtype="float")


SIGNATURES = {
    "rewrite": ({"json": ("json", "string")}, {"examples_bytes": ("examples_bytes", "string")}),
    "add": ({"x": ("x", "float"), "y": ("y", "float")}, {"sums": ("sums", "float")}),
    "accumulate": ({"x": ("x", "float"), "y": ("y", "float")}, {"total": ("total", "float"), "untouched": ("untouched", "float")}),
}


def message(field, body):
    return bytes([field << 3 | 2, len(body)]) + body


def rewrite(draw):
    """Returns Examples in JSON, and their messages in base64. JSON has no name for a single output."""
    texts, wanted = [], []
    for _ in range(draw.randint(1, 4)):
        values = [draw.randint(0, 127) for _ in range(draw.randint(0, 5))]
        texts.append(json.dumps({"features": {"feature": {"n": {"int64List": {"value": values}}}}}))
        feature = message(3, b"".join(bytes([8, v]) for v in values))
        wanted.append({"b64": base64.b64encode(message(1, message(1, message(1, b"n") + message(2, feature)))).decode()})
    return {"json": texts}, wanted


def pair(draw):
    n, m = draw.choice(((2, 3), (1, 4), (draw.randint(1, 5), 2)))
    return [[[float(draw.randint(-9, 9)) for _ in range(m)] for _ in range(n)] for _ in range(2)]


def add(draw):
    x, y = pair(draw)
    return {"x": x, "y": y}, [[2 * a + b for a, b in zip(*rows)] for rows in zip(x, y)]


def accumulate(draw):
    x, y = pair(draw)
    return {"x": x, "y": y}, {"total": [[a + b for a, b in zip(*rows)] for rows in zip(x, y)], "untouched": [[0.0] * len(r) for r in y]}


class Lists(Case):
    def ask(self, server, signature, inputs):
        return server.post("/v1/models/lists:predict", {"signature_name": signature, "inputs": inputs})

    def test_every_answer_is_that_of_its_own_request(self):
        small_models.write(self.path("models/lists/1"), SIGNATURES, build)
        self.check_mixed_requests("lists", {"rewrite": rewrite, "add": add, "accumulate": accumulate}, SETTINGS, RUNS, seed=17)

    def test_inputs_that_do_not_fit_are_refused(self):
        small_models.write(self.path("models/lists/1"), SIGNATURES, build)
        with Server(f"--models={self.path('models')}") as server:
            for signature, inputs, reason in (
                    ("rewrite", {"json": ["{}", "{"]}, "Error while parsing JSON: unexpected EOF"),
                    ("add", {"x": [[1.0]], "y": [[1.0], [2.0]]}, "different lengths. One is 1 and the other is 2"),
                    ("add", {"x": [[1.0]], "y": [[1.0, 2.0]]}, "incompatible element shapes"),
                    ("accumulate", {"x": [1.0], "y": [1.0, 2.0]}, "the existing shape is [1] but the new input shape is [2].")):
                status, body = self.ask(server, signature, inputs)
                self.assertEqual(status, 400, body)
                self.assertIn(reason, json.loads(body)["error"])
                inputs, wanted = add(random.Random(1))
                status, body = self.ask(server, "add", inputs)
                self.assertEqual(json.loads(body)["outputs"], wanted)
