"""A case of the op fuzzer (a small graph with its feeds and fetches), and its forms as JSON and GraphDef.

Needs only Python: TensorFlow's messages are encoded by hand, so that they can be malformed.
"""

import base64
import json
import struct

# The values of enum rt_dtype (runtime/core/types.h), each with its name, bytes per element, and the code of Python's
# struct module if the type can be packed.
DTYPES = {
    1: ("float32", 4, "f"), 2: ("float64", 8, "d"), 3: ("int32", 4, "i"), 4: ("uint8", 1, "B"), 5: ("int16", 2, "h"),
    6: ("int8", 1, "b"), 7: ("string", 0, None), 8: ("complex64", 8, "ff"), 9: ("int64", 8, "q"), 10: ("bool", 1, "?"),
    11: ("qint8", 1, "b"), 12: ("quint8", 1, "B"), 13: ("qint32", 4, "i"), 14: ("bfloat16", 2, "H"), 15: ("qint16", 2, "h"),
    16: ("quint16", 2, "H"), 17: ("uint16", 2, "H"), 18: ("complex128", 16, "dd"), 19: ("half", 2, "e"),
    20: ("resource", 0, None), 21: ("variant", 0, None), 22: ("uint32", 4, "I"), 23: ("uint64", 8, "Q"),
}
NUMBERS = {name: number for number, (name, _, _) in DTYPES.items()} | {"float16": 19}
STRING = 7
MAX_RANK = 8  # RT_MAX_RANK, the highest rank of a tensor that op_runner accepts


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


class Tensor:
    """A tensor. `data` is the bytes of its elements, or a list of strings (bytes)."""

    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = dtype, tuple(shape), data

    def __str__(self):
        name = DTYPES.get(self.dtype, (str(self.dtype),))[0]
        small = len(self.data) <= 8 if self.dtype == STRING else len(self.data) <= 64
        return f"{name}{list(self.shape)}" + (str(self.values()) if small else "")

    def values(self):
        """Returns the elements as Python numbers (pairs if they are complex) or strings."""
        name, _, code = DTYPES.get(self.dtype, ("", 0, None))
        if self.dtype == STRING:
            return list(self.data)
        if code is None:
            return []
        if name == "bfloat16":
            raw = struct.unpack(f"<{len(self.data) // 2}H", self.data)
            return [struct.unpack("<f", struct.pack("<I", x << 16))[0] for x in raw]
        got = [x if len(x) > 1 else x[0] for x in struct.iter_unpack("<" + code, self.data)]
        return [bool(x) for x in got] if name == "bool" else got

    def raw(self):
        """Encodes the tensor for op_runner as its dtype, rank, dimensions and elements."""
        head = struct.pack(f"<ii{len(self.shape)}q", self.dtype, len(self.shape), *self.shape)
        if self.dtype == STRING:
            return head + b"".join(struct.pack("<q", len(s)) + s for s in self.data)
        return head + self.data


def clamp(dtype, value):
    """Converts a number to `dtype`. Integers wrap, and numbers beyond the range of a float become infinite."""
    name, size, code = DTYPES[dtype]
    if name == "bool":
        return bool(value)
    if code in ("f", "d", "e", "ff", "dd") or name == "bfloat16":
        return float(value)
    value = 0 if value != value or value in (float("inf"), float("-inf")) else int(value)
    value &= (1 << 8 * size) - 1
    return value - (1 << 8 * size) if code.islower() and value >> 8 * size - 1 else value


def pack_one(dtype, value):
    name, _, code = DTYPES[dtype]
    if isinstance(value, tuple):
        value = value[0] if len(code or "") == 1 or name == "bfloat16" else value
    if isinstance(value, (bytes, str)):
        value = len(value)
    pair = value if isinstance(value, tuple) else (value, 0)
    if code is not None and len(code) == 2:
        return b"".join(pack_one(1 if code == "ff" else 2, x) for x in pair)
    value = clamp(dtype, value)
    if name == "bfloat16":
        return pack_one(1, value)[2:]
    try:
        return struct.pack("<" + code, value)
    except OverflowError:
        return struct.pack("<" + code, float("inf") if value > 0 else float("-inf"))


def tensor(dtype, shape, values):
    """Makes a tensor from Python numbers or strings. `dtype` is a number or a name."""
    dtype = NUMBERS.get(dtype, dtype)
    if dtype == STRING:
        return Tensor(dtype, shape, [v if isinstance(v, bytes) else str(v).encode() for v in values])
    return Tensor(dtype, shape, b"".join(pack_one(dtype, v) for v in values))


class Node:
    """A node. `attrs` maps names to [kind, value]. The kinds are s, i, f, b, type, shape, tensor, func (bytes of a
    NameAttrList) and list:KIND."""

    def __init__(self, name, op, inputs=(), attrs=None):
        self.name, self.op, self.inputs, self.attrs = name, op, list(inputs), dict(attrs or {})


class Case:
    """A graph with `feeds` {node: Tensor} and `steps`, which list what each run fetches ("x:0") or only runs ("x").

    `loose` means that the fetched values are random numbers, so they may differ from TensorFlow's and from tier to
    tier. `tolerance` has the form of a tolerance in tests/conformance/spec.py. `more` lists other feeds with which the
    same session runs all steps again.
    """

    def __init__(self, op, nodes, feeds, steps, library=b"", loose=False, tolerance=None, more=()):
        self.op, self.nodes, self.feeds, self.steps, self.library = op, nodes, feeds, steps, library
        self.loose, self.tolerance, self.more = loose, tolerance or {}, list(more)

    def runs(self):
        """Yields the feeds and the fetches of each run."""
        for feeds in [self.feeds, *self.more]:
            for step in self.steps:
                yield feeds, step

    def copy(self):
        nodes = [Node(n.name, n.op, n.inputs, {k: list(v) for k, v in n.attrs.items()}) for n in self.nodes]
        return Case(self.op, nodes, dict(self.feeds), [list(s) for s in self.steps], self.library, self.loose, self.tolerance,
                    [dict(feeds) for feeds in self.more])

    def __str__(self):
        lines = []
        for n in self.nodes:
            attrs = ", ".join(f"{k}={show(v)}" for k, v in sorted(n.attrs.items()))
            fed = f" = {self.feeds[n.name]}" if n.name in self.feeds else ""
            lines.append(f"  {n.name}: {n.op}({', '.join(n.inputs)}){{{attrs}}}{fed}")
        lines += [f"  run {self.steps}"]
        lines += [f"  again with {', '.join(f'{name} = {t}' for name, t in feeds.items())}" for feeds in self.more]
        return "\n".join([self.op, *lines])


def show(attr):
    kind, value = attr
    return str([show([kind[5:], v]) for v in value]) if kind.startswith("list:") else str(value)


# ---- JSON: a line per case -------------------------------------------------------------------


def to_json(x):
    if isinstance(x, Tensor):
        if x.dtype == STRING:
            return {"t": x.dtype, "d": list(x.shape), "s": [base64.b64encode(s).decode() for s in x.data]}
        return {"t": x.dtype, "d": list(x.shape), "b": base64.b64encode(x.data).decode()}
    if isinstance(x, bytes):
        return {"x": base64.b64encode(x).decode()}
    if isinstance(x, Node):
        return [x.name, x.op, x.inputs, {k: to_json(v) for k, v in x.attrs.items()}]
    if isinstance(x, Case):
        out = {"op": x.op, "nodes": [to_json(n) for n in x.nodes], "feeds": {k: to_json(v) for k, v in x.feeds.items()}, "steps": x.steps}
        if x.library:
            out["library"] = to_json(x.library)
        if x.loose:
            out["loose"] = True
        if x.more:
            out["more"] = [{k: to_json(v) for k, v in feeds.items()} for feeds in x.more]
        return out | ({"tolerance": x.tolerance} if x.tolerance else {})
    return [to_json(v) for v in x] if isinstance(x, (list, tuple)) else x


def from_json(x):
    if isinstance(x, list):
        return [from_json(v) for v in x]
    if isinstance(x, dict):
        if "x" in x:
            return base64.b64decode(x["x"])
        if "s" in x:
            return Tensor(x["t"], x["d"], [base64.b64decode(s) for s in x["s"]])
        return Tensor(x["t"], x["d"], base64.b64decode(x["b"]))
    return x


def case_from_json(x):
    nodes = [Node(name, op, inputs, {k: from_json(v) for k, v in attrs.items()}) for name, op, inputs, attrs in x["nodes"]]
    feeds = {k: from_json(v) for k, v in x["feeds"].items()}
    library = from_json(x["library"]) if "library" in x else b""
    more = [{k: from_json(v) for k, v in other.items()} for other in x.get("more", ())]
    return Case(x["op"], nodes, feeds, x["steps"], library, x.get("loose", False), x.get("tolerance"), more)


def dump(case):
    return json.dumps(to_json(case), separators=(",", ":"))


def load(line):
    return case_from_json(json.loads(line))


# ---- GraphDef --------------------------------------------------------------------------------


BYTES = [bytes([n]) for n in range(0x80)]


def varint(n):
    if 0 <= n <= 0x7F:
        return BYTES[n]
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number, data):
    if isinstance(data, int):
        return BYTES[number << 3] + varint(int(data))
    data = data.encode() if isinstance(data, str) else data
    return BYTES[number << 3 | 2] + varint(len(data)) + data


def shape_proto(shape):
    if shape is None:
        return field(3, 1)
    return b"".join(field(2, field(1, d) if d else b"") for d in shape)


def tensor_proto(t):
    head = field(1, t.dtype) + field(2, shape_proto(t.shape))
    if t.dtype == STRING:
        return head + b"".join(field(8, s) for s in t.data)
    return head + field(4, t.data)


# The field numbers of AttrValue and of AttrValue.ListValue are the same for each kind of value, except for func.
KINDS = {"s": 2, "i": 3, "f": 4, "b": 5, "type": 6, "shape": 7, "tensor": 8, "func": 10}


def attr_value(kind, value):
    if kind.startswith("list:"):
        kind = kind[5:]
        number = 9 if kind == "func" else KINDS[kind]
        return field(1, b"".join(one_value(number, kind, v) for v in value))
    return one_value(KINDS[kind], kind, value)


def one_value(number, kind, value):
    if kind == "f":
        return varint(number << 3 | 5) + pack_one(1, value)
    if kind == "shape":
        value = shape_proto(value)
    elif kind == "tensor":
        value = tensor_proto(value)
    return field(number, value)


def graph_def(case):
    out = []
    for n in case.nodes:
        attrs = b"".join(field(5, field(1, k) + field(2, attr_value(*v))) for k, v in n.attrs.items())
        out.append(field(1, field(1, n.name) + field(2, n.op) + b"".join(field(3, i) for i in n.inputs) + attrs))
    if case.library:
        out.append(field(2, case.library))
    return b"".join(out) + field(4, field(1, 2381))
