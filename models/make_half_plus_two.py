#!/usr/bin/env python3
"""Writes models/half_plus_two, which computes y = a * x + b, with a = 0.5 and b in a checkpoint. In version 2, which is
served by default, b is 2. In version 1, b is 3, so that the two versions have different outputs. TensorFlow is not
needed: protoc generates the messages from proto/, and the checkpoint is written by hand.

The graph has the form of a TensorFlow 1 graph, in which the Identity nodes x and x2 read the outputs of a ParseExample
node. Some signatures (regress_x_to_y, regress_x_to_y2, classify_x_to_y) take serialized Examples as input. The others
(serving_default, regress_x2_to_y3, classify_x2_to_y3) take x or x2. The outputs y2 and y3 are a * x + 3 and a * x2 + 3.

usage: make_half_plus_two.py [FOLDER]
"""
import glob
import os
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def messages():
    """Generates Python modules for Slipway's .proto files and adds them to Python's path. The protobuf package already
    has modules for protobuf's own messages."""
    out = tempfile.mkdtemp()
    protos = [p for p in glob.glob(f"{ROOT}/proto/tensorflow/**/*.proto", recursive=True)]
    subprocess.run(["protoc", "-I", f"{ROOT}/proto", "--python_out", out, *protos], check=True)
    sys.path.insert(0, out)


messages()
# pylint: disable=wrong-import-position,import-error
from tensorflow.core.framework import types_pb2  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2, tensor_bundle_pb2  # noqa: E402

FLOAT, STRING = types_pb2.DT_FLOAT, types_pb2.DT_STRING


# ---- the checkpoint: a sorted-string table and the bytes ----

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(crc):
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def varint(n):
    out = b""
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def block(entries):
    """Returns an sstable block of the entries, and the same block with its trailer. Keys share no prefixes, and there
    is one restart point."""
    body = b"".join(varint(0) + varint(len(k)) + varint(len(v)) + k + v for k, v in entries)
    body += struct.pack("<II", 0, 1)
    return body, body + b"\0" + struct.pack("<I", masked(crc32c(body + b"\0")))


def write_checkpoint(prefix, values):
    header = tensor_bundle_pb2.BundleHeaderProto(num_shards=1)
    header.version.producer = 1
    entries, data = [(b"", header.SerializeToString())], b""
    for name in sorted(values):
        packed = struct.pack("<f", values[name])
        entry = tensor_bundle_pb2.BundleEntryProto(dtype=FLOAT, offset=len(data), size=len(packed),
                                                   crc32c=masked(crc32c(packed)))
        entry.shape.SetInParent()
        entries.append((name.encode(), entry.SerializeToString()))
        data += packed
    table = b""
    handles = []
    for content in (entries, []):  # writes the data block, then the empty metaindex block
        body, stored = block(content)
        handles.append(varint(len(table)) + varint(len(body)))
        table += stored
    body, stored = block([(max(k for k, _ in entries) + b"\xff", handles[0])])
    footer = handles[1] + varint(len(table)) + varint(len(body))
    table += stored + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    os.makedirs(os.path.dirname(prefix), exist_ok=True)
    with open(f"{prefix}.index", "wb") as file:
        file.write(table)
    with open(f"{prefix}.data-00000-of-00001", "wb") as file:
        file.write(data)


# ---- the graph ----

class Graph:
    def __init__(self, graph_def):
        self.graph_def = graph_def

    def node(self, name, op, *inputs, **attrs):
        n = self.graph_def.node.add(name=name, op=op, input=inputs)
        for key, value in attrs.items():
            set_attr(n.attr[key], value)
        return name

    def const(self, name, dtype, shape, values):
        n = self.graph_def.node.add(name=name, op="Const")
        n.attr["dtype"].type = dtype
        t = n.attr["value"].tensor
        t.dtype = dtype
        set_shape(t.tensor_shape, shape)
        (t.float_val if dtype == FLOAT else t.string_val).extend(values)
        return name


def set_shape(proto, dims):
    proto.SetInParent()
    for d in dims:
        proto.dim.add(size=d)


def set_attr(attr, value):
    if isinstance(value, bool):
        attr.b = value
    elif isinstance(value, int):
        attr.i = value
    elif isinstance(value, str):
        attr.s = value.encode()
    elif isinstance(value, tuple) and value[0] == "type":
        attr.type = value[1]
    elif isinstance(value, tuple) and value[0] == "types":
        attr.list.SetInParent()
        attr.list.type.extend(value[1])
    elif isinstance(value, tuple) and value[0] == "shape":
        set_shape(attr.shape, value[1])
    elif isinstance(value, tuple) and value[0] == "shapes":
        for dims in value[1]:
            set_shape(attr.list.shape.add(), dims)


def build(graph_def, variables):
    g = Graph(graph_def)
    f = ("type", FLOAT)
    g.node("tf_example", "Placeholder", dtype=("type", STRING), shape=("shape", [-1]))
    g.const("ParseExample/names", STRING, [0], [])
    g.const("ParseExample/key_x", STRING, [], [b"x"])
    g.const("ParseExample/key_x2", STRING, [], [b"x2"])
    g.const("ParseExample/default_x", FLOAT, [0], [])
    g.const("ParseExample/default_x2", FLOAT, [1], [0.0])
    g.node("ParseExample", "ParseExample", "tf_example", "ParseExample/names", "ParseExample/key_x",
           "ParseExample/key_x2", "ParseExample/default_x", "ParseExample/default_x2", Nsparse=0,
           Ndense=2, sparse_types=("types", []), Tdense=("types", [FLOAT, FLOAT]),
           dense_shapes=("shapes", [[1], [1]]))
    g.node("x", "Identity", "ParseExample", T=f)
    g.node("x2", "Identity", "ParseExample:1", T=f)
    for name, value in variables.items():
        g.const(f"{name}/initial_value", FLOAT, [], [value])
        g.node(name, "VariableV2", dtype=f, shape=("shape", []), container="", shared_name="")
        g.node(f"{name}/Assign", "Assign", name, f"{name}/initial_value", T=f, use_locking=True,
               validate_shape=True)
        g.node(f"{name}/read", "Identity", name, T=f)
    g.node("Mul", "Mul", "a/read", "x", T=f)
    g.node("y", "Add", "Mul", "b/read", T=f)
    g.const("c", FLOAT, [], [3.0])
    g.node("y2", "Add", "Mul", "c", T=f)
    g.node("Mul_x2", "Mul", "a/read", "x2", T=f)
    g.node("y3", "Add", "Mul_x2", "c", T=f)

    names = sorted(variables)
    g.const("save/filename/input", STRING, [], [b"model"])
    g.node("save/filename", "PlaceholderWithDefault", "save/filename/input", dtype=("type", STRING),
           shape=("shape", []))
    g.node("save/Const", "PlaceholderWithDefault", "save/filename", dtype=("type", STRING),
           shape=("shape", []))
    g.const("save/names", STRING, [len(names)], [n.encode() for n in names])
    g.const("save/slices", STRING, [len(names)], [b""] * len(names))
    g.node("save/SaveV2", "SaveV2", "save/Const", "save/names", "save/slices", *names,
           dtypes=("types", [FLOAT] * len(names)))
    g.node("save/control_dependency", "Identity", "save/Const", "^save/SaveV2",
           T=("type", STRING))
    g.node("save/RestoreV2", "RestoreV2", "save/Const", "save/names", "save/slices",
           dtypes=("types", [FLOAT] * len(names)))
    for i, name in enumerate(names):
        g.node(f"save/Assign_{name}", "Assign", name,
               f"save/RestoreV2:{i}" if i else "save/RestoreV2", T=f, use_locking=True,
               validate_shape=True)
    g.node("save/restore_all", "NoOp", *[f"^save/Assign_{name}" for name in names])


def add_signature(meta_graph, name, method, inputs, outputs):
    s = meta_graph.signature_def[name]
    s.method_name = f"tensorflow/serving/{method}"
    for where, infos in ((s.inputs, inputs), (s.outputs, outputs)):
        for alias, (tensor, dtype, shape) in infos.items():
            where[alias].name = tensor
            where[alias].dtype = dtype
            set_shape(where[alias].tensor_shape, shape)


def write(folder, b):
    variables = {"a": 0.5, "b": b}
    saved = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    m = saved.meta_graphs.add()
    m.meta_info_def.tags.append("serve")
    m.meta_info_def.tensorflow_version = "1.15.0"
    m.graph_def.versions.producer = 134
    build(m.graph_def, variables)
    m.saver_def.filename_tensor_name = "save/Const:0"
    m.saver_def.save_tensor_name = "save/control_dependency:0"
    m.saver_def.restore_op_name = "save/restore_all"
    m.saver_def.version = 2  # V2
    x, x2, y, y2, y3 = ((f"{name}:0", FLOAT, [-1, 1]) for name in ("x", "x2", "y", "y2", "y3"))
    examples = ("tf_example:0", STRING, [-1])
    add_signature(m, "serving_default", "predict", {"x": x}, {"y": y})
    add_signature(m, "regress_x_to_y", "regress", {"inputs": examples}, {"outputs": y})
    add_signature(m, "regress_x_to_y2", "regress", {"inputs": examples}, {"outputs": y2})
    add_signature(m, "regress_x2_to_y3", "regress", {"inputs": x2}, {"outputs": y3})
    add_signature(m, "classify_x_to_y", "classify", {"inputs": examples}, {"scores": y})
    add_signature(m, "classify_x2_to_y3", "classify", {"inputs": x2}, {"scores": y3})
    os.makedirs(folder, exist_ok=True)
    write_checkpoint(f"{folder}/variables/variables", variables)
    with open(f"{folder}/saved_model.pb", "wb") as file:
        file.write(saved.SerializeToString(deterministic=True))


def main():
    folder = sys.argv[1] if sys.argv[1:] else f"{ROOT}/models/half_plus_two"
    for version, b in ((1, 3.0), (2, 2.0)):
        write(f"{folder}/{version}", b)


if __name__ == "__main__":
    main()
