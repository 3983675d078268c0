"""Reads the ops from the C tables kernels/table.inc (Slipway's ops) and runtime/core/schema/table.inc (TensorFlow's
registry)."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KINDS = ["none", "s", "i", "f", "b", "type", "shape", "tensor", "func"]


class Attr:
    def __init__(self, name, kind, has_default=0, has_minimum=0, minimum=0, types=0, n_strings=0, strings=None, value=None):
        self.name, self.kind = name, ("list:" if kind & 16 else "") + KINDS[kind & 15]
        self.has_default, self.minimum = bool(has_default), minimum if has_minimum else None
        self.types = [t for t in range(33) if types >> t & 1]
        self.strings = (strings or "").split("\0")[:-1] if n_strings else []


class Arg:
    def __init__(self, name, dtype, type_attr=-1, number_attr=-1, list_attr=-1, is_ref=0):
        self.name, self.dtype, self.is_ref = name, dtype, bool(is_ref)
        self.type_attr, self.number_attr, self.list_attr = type_attr, number_attr, list_attr


class Schema:
    def __init__(self, name, inputs, outputs, attrs):
        self.name, self.inputs, self.outputs, self.attrs = name, inputs or (), outputs or (), attrs or ()


def registry():
    """Returns the schemas of TensorFlow's ops by name. The rows of table.inc are valid Python calls once its comments
    are removed."""
    found = {}

    def row(name, n_in, n_out, n_attr, inputs, outputs, attrs):
        found[name] = Schema(name, inputs, outputs, attrs)

    words = {
        "IS": lambda name, dtype: Arg(name, dtype), "OF": lambda name, attr: Arg(name, 0, attr), "ARG": Arg,
        "MUST": lambda name, kind: Attr(name, kind), "HAS": lambda name, kind, value: Attr(name, kind, 1, value=value), "ATTR": Attr,
        "NONE": None, "ARGS": lambda *x: x, "ATTRS": lambda *x: x, "OP": row,
    }
    text = (ROOT / "runtime/core/schema/table.inc").read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    # `text` comes from a file of this repository, so it is safe to execute.
    exec(compile(text, "table.inc", "exec"), {"__builtins__": {}}, words)
    return found


# Ops that the runtime itself implements (runtime/core/control.c) and that compute something besides the functions that
# they call.
CALLERS = ["BatchFunction", "For", "MapDefun"]


def ours(known):
    """Returns the TensorFlow names of the ops that kernels/table.inc lists in snake case, and CALLERS."""
    rows = re.findall(r"^KN_OP\((\w+)\)", (ROOT / "kernels" / "table.inc").read_text(), re.M)
    by_letters = {re.sub(r"\W", "", name).lower(): name for name in known}
    return [by_letters[r.replace("_", "")] for r in rows if r.replace("_", "") in by_letters] + CALLERS
