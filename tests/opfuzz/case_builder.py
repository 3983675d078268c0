"""Helpers for writing cases by hand. They make tensors from numbers, and graphs of one or more nodes whose types follow
from the inputs."""

from case import Case, Node, Tensor, count, tensor
from mutate import constant, placeholder
from schema import registry

BIG, TOP = 1 << 40, (1 << 63) - 1
REGISTRY = registry()
FIXED = {"s": lambda v: v.encode() if isinstance(v, str) else v, "type": lambda v: tensor(v, [0], []).dtype if isinstance(v, str) else v}


def t(dtype, shape, values=0):
    """Makes a tensor with the given values, or with one value everywhere."""
    return tensor(dtype, shape, values if isinstance(values, (list, tuple)) else [values] * count(shape))


def vector(dtype, values):
    return t(dtype, [len(values)], list(values))


def f32(shape, values=0.5):
    return t("float32", shape, values)


def i32(*values):
    return vector("int32", values)


def i64(*values):
    return vector("int64", values)


def s(*values):
    return vector("string", values)


def scalar(dtype, value):
    return t(dtype, [], value)


def attributes(schema, attrs):
    """Converts attributes to the form that the nodes of a case have: {name: [kind, value]}."""
    out = {}
    for attr in schema.attrs:
        if attr.name in attrs:
            fix = FIXED.get(attr.kind.split(":")[-1], lambda v: v)
            value = attrs[attr.name]
            out[attr.name] = [attr.kind, [fix(v) for v in value] if attr.kind.startswith("list:") else fix(value)]
    return out


def node(name, op, inputs, tensors, attrs):
    """Makes a node whose type and count attributes follow from `tensors`. `tensors` has one item per argument. The item
    is a list if the argument takes several tensors."""
    schema, out = REGISTRY[op], {}
    names = [a.name for a in schema.attrs]
    for arg, value in zip(schema.inputs, tensors):
        if arg.number_attr >= 0:
            out[names[arg.number_attr]] = ["i", len(value)]
        if arg.list_attr >= 0:
            out[names[arg.list_attr]] = ["list:type", [v.dtype for v in value]]
        first = value[0] if isinstance(value, list) and value else value
        if arg.type_attr >= 0 and isinstance(first, Tensor):
            out.setdefault(names[arg.type_attr], ["type", first.dtype])
    return Node(name, op, inputs, out | attributes(schema, attrs))


def outputs(op, made):
    n = 0
    for arg in REGISTRY[op].outputs:
        attrs = REGISTRY[op].attrs
        if arg.number_attr >= 0:
            n += made.attrs.get(attrs[arg.number_attr].name, ["i", 1])[1]
        elif arg.list_attr >= 0:
            n += len(made.attrs.get(attrs[arg.list_attr].name, ["", []])[1])
        else:
            n += 1
    return n


def one_node(op, *tensors, loose=False, **attrs):
    """Returns two cases of a single node, one with fed inputs and one with constants."""
    flat = [v for value in tensors for v in (value if isinstance(value, list) else [value])]
    cases = []
    for make in (placeholder, constant):
        names = [f"n{i}" for i in range(len(flat))]
        made = node("op", op, names, tensors, attrs)
        plain = all(o.dtype not in (20, 21) for o in REGISTRY[op].outputs)
        fetch = [f"op:{i}" for i in range(max(0, min(outputs(op, made), 8)))] if plain else ["op"]
        feeds = dict(zip(names, flat)) if make is placeholder else {}
        cases.append(Case(op, [make(n, v) for n, v in zip(names, flat)] + [made], feeds, [fetch or ["op"]], loose=loose))
    return cases


def several_nodes(op, *lines, steps, loose=False):
    """Returns a case of several nodes, each given as (name, op, inputs, attrs). An input is a name or a tensor. A
    tensor becomes a constant node."""
    nodes = []
    for name, kind, inputs, attrs in lines:
        names = []
        for i, x in enumerate(inputs):
            if isinstance(x, Tensor):
                nodes.append(constant(f"{name}_{i}", x))
            names.append(f"{name}_{i}" if isinstance(x, Tensor) else x)
        nodes.append(Node(name, kind, names, attributes(REGISTRY[kind], attrs)))
    return Case(op, nodes, {}, steps, loose=loose)
