#!/usr/bin/env python3
"""Writes TensorFlow's op registry, with the ops of TensorFlow Text, as C initialisers, for
runtime/core/schema/table.inc.

Run by hand from the repository's root, with tensorflow-text installed:

    python3 runtime/core/schema/generate.py > runtime/core/schema/table.inc

The output is committed. The table has one OP row per op, sorted by name in byte order, for the binary search in
runtime/core/schema.c. Defaults are compact text that runtime/core/attr.c reads; `default_text` documents the grammar.
"""

import os
import re
import struct
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

KINDS = ["none", "string", "int", "float", "bool", "type", "shape", "tensor", "func"]
LIST = 16
LINE = 100


def op_list():
    import tensorflow_text  # registers its ops
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session as session

    ops = op_def_pb2.OpList()
    ops.ParseFromString(session.TF_GetBuffer(session.TF_GetAllOpList()))
    from tensorflow.python.framework import versions

    version = f"{versions.VERSION} and tensorflow-text {tensorflow_text.__version__}"
    return sorted(ops.op, key=lambda op: op.name.encode()), version


def quote(data):
    """Returns data as a C string literal. Octal escapes always have three digits, so that a following digit cannot
    become a part of them."""
    if isinstance(data, str):
        data = data.encode()
    out = ""
    for byte in data:
        char = chr(byte)
        if char in '"\\':
            out += "\\" + char
        elif 32 <= byte < 127 and char != "?":
            out += char
        elif char == "?":
            out += "?"
        else:
            out += "\\%03o" % byte
    return '"' + out.replace("??", '?""?') + '"'


def kind_number(text):
    if text.startswith("list("):
        return LIST + KINDS.index(text[5:-1])
    return KINDS.index(text)


def shape_text(shape):
    if shape.unknown_rank:
        return "?"
    return ",".join(str(dim.size) for dim in shape.dim)


def tensor_text(tensor):
    values = list(tensor.int_val)
    dims = [dim.size for dim in tensor.tensor_shape.dim]
    count = 1
    for dim in dims:
        count *= dim
    assert not tensor.tensor_content and len(values) == count, tensor
    return "%d:%s:%s" % (tensor.dtype, shape_text(tensor.tensor_shape), ",".join(map(str, values)))


def float_text(value):
    return "%08x" % struct.unpack("<I", struct.pack("<f", value))[0]


def default_text(kind, value):
    """Returns the text of a default value. A string is written as it is, an int or type in decimal, a bool as 0 or 1, a
    float as its 32 bits in hexadecimal, a shape as "?" or as its dimensions separated by commas, and a tensor as type
    ':' shape ':' integers separated by commas. In a list, each element is followed by ';'."""
    if kind.startswith("list("):
        inner = kind[5:-1]
        field = {"string": "s", "int": "i", "float": "f", "bool": "b"}.get(inner, inner)
        texts = []
        for element in getattr(value.list, field):
            text = scalar_text(inner, element)
            assert ";" not in text
            texts.append(text + ";")
        return "".join(texts)
    field = {"string": "s", "int": "i", "float": "f", "bool": "b"}.get(kind, kind)
    return scalar_text(kind, getattr(value, field))


def scalar_text(kind, value):
    if kind == "string":
        assert b"\0" not in value
        return value.decode("latin-1")
    if kind in ("int", "type"):
        return str(int(value))
    if kind == "bool":
        return "1" if value else "0"
    if kind == "float":
        return float_text(value)
    if kind == "shape":
        return shape_text(value)
    if kind == "tensor":
        return tensor_text(value)
    raise ValueError(kind)


def arg_row(arg, attrs):
    """Returns the macro call for an argument: IS for one tensor of a fixed type, OF for one tensor whose type is given
    by an attribute, and ARG for all other arguments. ARG sets all members of the schema's struct."""
    fixed = int(arg.type) % 100
    if not (arg.number_attr or arg.type_list_attr or arg.is_ref):
        if fixed:
            return "IS(%s, %d)" % (quote(arg.name), fixed)
        return "OF(%s, %d)" % (quote(arg.name), attrs.index(arg.type_attr))

    def index(name):
        return attrs.index(name) if name else -1

    return "ARG(%s, %d, %d, %d, %d, %d)" % (
        quote(arg.name),
        fixed,
        index(arg.type_attr),
        index(arg.number_attr),
        index(arg.type_list_attr),
        arg.is_ref,
    )


def attr_row(attr):
    """Returns the macro call for an attribute: MUST if it has no default and no restrictions, HAS if it has a default
    and no restrictions, and ATTR for all other attributes. ATTR sets all members of the schema's struct."""
    types = 0
    for number in attr.allowed_values.list.type:
        types |= 1 << number
    strings = attr.allowed_values.list.s
    value = "0"
    has_default = attr.HasField("default_value")
    if has_default:
        value = quote(default_text(attr.type, attr.default_value).encode("latin-1"))
    head = "%s, %d" % (quote(attr.name), kind_number(attr.type))
    if not (types or strings or attr.has_minimum):
        return "HAS(%s, %s)" % (head, value) if has_default else "MUST(%s)" % head
    return "ATTR(%s, %d, %d, %d, %s, %d, %s, %s)" % (
        head,
        has_default,
        attr.has_minimum,
        attr.minimum if attr.has_minimum else 0,
        "0x%x" % types if types else "0",
        len(strings),
        " ".join(quote(text + b"\0") for text in strings) or "0",
        value,
    )


def wrap(text, indent):
    """Breaks a row of the table into lines at the spaces between strings and arguments."""
    pieces = re.findall(r'(?:"(?:[^"\\]|\\.)*"|[^" ])+', text)
    lines, line = [], indent
    for piece in pieces:
        glue = "" if line == indent else " "
        if len(line) + len(glue) + len(piece) > LINE and line != indent:
            lines.append(line)
            line, glue = indent + "  ", ""
        line += glue + piece
    return lines + [line]


def rows(name, items):
    return "%s(%s)" % (name, ", ".join(items)) if items else "NONE"


def write_op(op, out):
    attrs = [attr.name for attr in op.attr]
    counts = (len(op.input_arg), len(op.output_arg), len(op.attr))
    head = "OP(%s, %d, %d, %d," % ((quote(op.name),) + counts)
    parts = (
        rows("ARGS", [arg_row(a, attrs) for a in op.input_arg]),
        rows("ARGS", [arg_row(a, attrs) for a in op.output_arg]),
        rows("ATTRS", [attr_row(a) for a in op.attr]),
    )
    lines = [head]
    for part, end in zip(parts, (",", ",", ")")):
        lines += wrap(part + end, "  ")
    out.write("\n".join(lines) + "\n")


def main():
    ops, version = op_list()
    out = sys.stdout
    out.write("/* Generated by runtime/core/schema/generate.py from TensorFlow %s. */\n" % version)
    out.write("/* clang-format off */\n")
    for op in ops:
        write_op(op, out)
    out.write("/* clang-format on */\n")


main()
