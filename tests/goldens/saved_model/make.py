"""Writes the SavedModels of this folder with TensorFlow 2.21. Must be run in this folder."""
import os
import shutil
import tempfile
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2

tf1 = tf.compat.v1


def small(path):
    """Returns the SavedModel at `path` without the fields that Slipway does not read."""
    model = saved_model_pb2.SavedModel.FromString(open(path, "rb").read())
    for graph in model.meta_graphs:
        graph.ClearField("object_graph_def")
        graph.meta_info_def.ClearField("stripped_op_list")
        graph.graph_def.ClearField("library")
        for node in graph.graph_def.node:
            node.ClearField("attr")
    return model


# Writes a SavedModel of TensorFlow 2 with a variable, an asset, and the functions that initialise and restore the
# variable.
class Model(tf.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.v = tf.Variable([1.0, 2.0])
        self.vocabulary = tf.saved_model.Asset(vocabulary)

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x")])
    def f(self, x):
        return {"y": x * self.v, "words": tf.io.read_file(self.vocabulary)}


with tempfile.TemporaryDirectory() as temp:
    with open(os.path.join(temp, "words.txt"), "w") as f:
        f.write("a\nb\n")
    model = Model(os.path.join(temp, "words.txt"))
    shutil.rmtree("second", ignore_errors=True)
    tf.saved_model.save(model, "second", signatures=model.f)
    proto = small("second/saved_model.pb")
    with open("second/saved_model.pb", "wb") as f:
        f.write(proto.SerializeToString(deterministic=True))
    os.remove("second/fingerprint.pb")

    # Writes a SavedModel of TensorFlow 1, as text, with two tag sets, an init op in a collection, and a default value
    # of an input.
    first = os.path.join(temp, "first")
    builder = tf1.saved_model.Builder(first)
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [None, 3], name="x")
        v = tf1.get_variable("v", initializer=[1.0, 2.0, 3.0], use_resource=False)
        y = tf.identity(x + v, name="y")
        session.run(tf1.global_variables_initializer())
        signature = tf1.saved_model.predict_signature_def({"in": x}, {"out": y})
        init = tf.group(tf.no_op(), name="main")
        builder.add_meta_graph_and_variables(session, ["serve"],
                                             {"serving_default": signature, "again": signature},
                                             main_op=init)
        builder.add_meta_graph(["serve", "gpu"], {"serving_default": signature})
    builder.save()
    proto = small(os.path.join(first, "saved_model.pb"))
    for graph in proto.meta_graphs:
        for name in list(graph.collection_def):
            if name != "saved_model_main_op":
                del graph.collection_def[name]
        graph.signature_def["serving_default"].defaults["in"].CopyFrom(
            tf.make_tensor_proto([[1.0, 2.0, 3.0]]))
    shutil.rmtree("first", ignore_errors=True)
    os.makedirs("first")
    with open("first/saved_model.pbtxt", "w") as f:
        f.write(text_format.MessageToString(proto))
    shutil.copytree(os.path.join(first, "variables"), "first/variables")
