"""Writes SavedModels with TensorFlow 2.21 as text, and computes their outputs (answers.json). Must be run in this folder.

The texts are compressed, because the fields that a server does not read make up most of them.
"""
import gzip
import json
import os
import shutil
import tempfile
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2

tf1 = tf.compat.v1
INPUT = [[1.0, 2.0, 3.0], [5.0, -6.0, 7.0]]
ODD = "a\n\t\r\"'\\\x01\x7f\u00e9?"


class Functions(tf.Module):
    """Has a while loop, Shape, a conditional, a table, and constants that text writes in a special form."""
    def __init__(self):
        super().__init__()
        self.v = tf.Variable([1.5, 2.0, -0.5])
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant([ODD, "b"]), tf.constant([1, 2], tf.int64)), -1)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
    def f(self, x):
        _, y = tf.while_loop(lambda i, _: i < tf.shape(x)[1], lambda i, y: (i + 1, y * 2.0 + self.v[0]), [0, x])
        y = tf.cond(tf.reduce_sum(y) > 0, lambda: y * self.v, lambda: -y)
        limits = tf.constant([float("inf"), float("-inf"), 1e-40, 3.4e38, -0.0])
        nan = tf.math.is_nan(tf.constant([float("nan"), 0.0]))
        return {"y": y, "shape": tf.shape(y), "above": y[:, :1] > limits, "nan": nan,
                "words": tf.constant([ODD, "\u20ac"]), "found": self.table.lookup(tf.constant(["b", ODD, "c"]))}


def with_rare_fields(model):
    """Adds the fields that TensorFlow writes only on request."""
    debug = model.meta_graphs[0].graph_def.debug_info
    debug.files.append("a.py")
    debug.frames_by_id[5].line = 3
    debug.traces_by_id[7].frame_id.append(5)
    debug.name_to_trace_id["n"] = 7
    debug.traces["n"].file_line_cols.add(func="f", code="x = \"y\"\n")


def write(source, name):
    """Writes the text of the SavedModel at `source`, and copies its variables."""
    model = saved_model_pb2.SavedModel()
    text = os.path.join(source, "saved_model.pbtxt")
    if os.path.exists(text):
        text_format.Parse(open(text).read(), model)
    else:
        model = model.FromString(open(os.path.join(source, "saved_model.pb"), "rb").read())
    if name == "keras":
        with_rare_fields(model)
    to = os.path.join("text", name, "1")
    shutil.rmtree(to, ignore_errors=True)
    os.makedirs(to)
    with gzip.GzipFile(os.path.join(to, "saved_model.pbtxt.gz"), "wb", mtime=0) as f:
        f.write(text_format.MessageToString(model).encode())
    shutil.copytree(os.path.join(source, "variables"), os.path.join(to, "variables"))
    loaded = tf.saved_model.load(source).signatures["serving_default"]
    key, = loaded.structured_input_signature[1]
    return {k: v.numpy().tolist() for k, v in loaded(**{key: tf.constant(INPUT)}).items()}


def decode(value):
    return [decode(v) for v in value] if isinstance(value, list) else value.decode() if isinstance(value, bytes) else value


answers = {}
with tempfile.TemporaryDirectory() as temp:
    functions = Functions()
    tf.saved_model.save(functions, os.path.join(temp, "functions"), signatures=functions.f)
    keras = tf.keras.Sequential([tf.keras.layers.Input([3]), tf.keras.layers.Dense(3, activation="relu"),
                                 tf.keras.layers.BatchNormalization(), tf.keras.layers.Dense(2)])
    keras.export(os.path.join(temp, "keras"), verbose=False)
    builder = tf1.saved_model.Builder(os.path.join(temp, "sessions"))
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [None, 3], name="x")
        y = tf1.while_loop(lambda i: tf.reduce_sum(i) < 100, lambda i: i * 2.0, [x])
        y = tf.reshape(y * tf1.get_variable("v", initializer=[1.0, 2.0, 3.0]), [tf.shape(x)[0], 3])
        session.run(tf1.global_variables_initializer())
        signature = tf1.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
    builder.save(as_text=True)
    for name in ("functions", "keras", "sessions"):
        answers[name] = {k: decode(v) for k, v in write(os.path.join(temp, name), name).items()}
with open("text/answers.json", "w") as f:
    json.dump({"input": INPUT, "outputs": answers}, f)
    f.write("\n")
