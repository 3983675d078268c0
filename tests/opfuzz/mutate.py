"""Mutates a case with a random.Random. A mutation changes types, ranks, dimensions, values, attributes, lengths of
lists, or edges."""

import re

from case import DTYPES, MAX_RANK, NUMBERS, STRING, Node, Tensor, count, pack_one, tensor

MOST = 4096  # largest number of elements of a new tensor
DIMS = [0, 0, 0, 1, 1, 2, 3, 5, 8, 17]
HUGE = [1 << 31, (1 << 31) - 1, 1 << 32, 1 << 40, 1 << 61, 1 << 62, (1 << 63) - 1]
INTS = [0, 0, 1, 1, -1, -1, 2, 3, 4, -2, -3, 5, 7, 8, 9, 16, 100, -100, 1000, 127, 128, 255, 256, 65535, 1 << 20, 1 << 30, (1 << 31) - 1,
        1 << 31, -(1 << 31), 1 << 32, 1 << 33, 1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63), 1 - (1 << 63), -(1 << 62), 1 << 61]
NUMBERS_OF_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-3, 100.0, -7.25, 1e9, 1e19, -1e19, 3e38, 1e300, -1e300, 1e-310, 1e-40, 2147483648.0,
                     -2147483649.0, 9.3e18, -9.3e18, float("inf"), float("-inf"), float("nan")]
STRINGS = [b"", b"a", b"ab,cd", b"0", b"-1", b"1e400", b"nan", b"9223372036854775808", b" 12 ", b"\0", b"\xff\xfe", "ü€😀".encode(),
           b"\xe2\x82", b"%s%d{}", b"x" * 70, b"[1,2]", b"\x0a\x03abc", b"2,3 0,1:-", b"-", b"0,2:2,1", b"(a|b)*", b"[", b"\\1\\9",
           b"(((((((((x)*)*)*)*)*)*)*)*)*", b"a//b", b"AAAA", b"=", b"QUJD", b"utf-8", b"UTF-16-BE", b"1 2 3\n4"]
# Ops that may wait for another run, which each case does once only.
WAITING = re.compile("Barrier|.*Queue|Map(?!Defun)|OrderedMap|Stage|Unstage|.*Accumulator|.*Reader")
INTEGERS = [3, 4, 5, 6, 9, 17, 22, 23]


def one_of(rng, dtype, shape=()):
    """Returns an element of type `dtype` that is likely to reveal a fault. `shape` is the shape of a related tensor.
    Some integers are close to a dimension of this tensor, because they may be indices."""
    if dtype == STRING:
        return rng.choice(STRINGS) if rng.random() < 0.9 else rng.randbytes(rng.randrange(40))
    if dtype in INTEGERS:
        near = [d + e for d in shape[:MAX_RANK] for e in (-1, 0, 1)] + [-d - 1 for d in shape[:MAX_RANK]]
        return rng.choice(near) if near and rng.random() < 0.3 else rng.choice(INTS)
    return rng.choice(NUMBERS_OF_FLOATS)


def elements(rng, dtype, n, shape=()):
    """Returns `n` elements that are all equal, that are likely to reveal faults, or that are small numbers."""
    how = rng.random()
    if how < 0.3:
        return [one_of(rng, dtype, shape)] * n
    if dtype == STRING or how < 0.6:
        return [one_of(rng, dtype, shape) for _ in range(n)]
    return [rng.randrange(-2, 9) for _ in range(n)]


def reshaped(rng, t, shape):
    """Returns `t` with a different shape. The elements are repeated or cut off to fit the shape."""
    n = count(shape)
    if n > MOST:
        return t
    if t.dtype == STRING:
        data = (list(t.data) or [b"x"]) * (n // max(1, len(t.data)) + 1)
        return Tensor(STRING, shape, data[:n])
    if t.dtype not in DTYPES or not DTYPES[t.dtype][1]:
        return t
    size = DTYPES[t.dtype][1]
    data = t.data or pack_one(t.dtype, rng.choice([0, 1]))
    return Tensor(t.dtype, shape, (data * (n * size // len(data) + 1))[: n * size])


def cast(rng, t, dtype):
    if dtype not in DTYPES or DTYPES[dtype][2] is None and dtype != STRING or t.dtype not in DTYPES:
        return t
    values = t.values()
    if len(values) != count(t.shape):
        return t
    if dtype == STRING:
        return Tensor(STRING, t.shape, [str(v).encode() for v in values])
    return tensor(dtype, t.shape, [v[0] if isinstance(v, tuple) and DTYPES[dtype][2] not in ("ff", "dd") else v for v in values])


def other_shape(rng, shape):
    shape = list(shape)
    how = rng.randrange(12)
    if how == 0 and len(shape) < MAX_RANK:
        shape.insert(rng.randrange(len(shape) + 1), rng.choice([0, 1, 1, 2]))
    elif how == 1 and shape:
        shape.pop(rng.randrange(len(shape)))
    elif how == 2:
        shape = []
    elif how == 3:
        shape = [rng.choice([0, 1, 2, 3])]
    elif how == 4:
        shape = [rng.choice(DIMS) for _ in range(rng.randrange(MAX_RANK + 1))]
    elif how == 5 and shape:
        for i in range(len(shape)):
            if rng.random() < 0.7:
                shape[i] = rng.choice(HUGE)
        shape[rng.randrange(len(shape))] = 0
    elif how == 6 and len(shape) < MAX_RANK:
        shape += [rng.choice(HUGE), 0]
    elif shape:
        shape[rng.randrange(len(shape))] = rng.choice(DIMS)
    # A dimension may be enormous if another is 0. Any other shape with too many elements is made small.
    return shape if count(shape) <= MOST else [min(d, 3) for d in shape]


def other_tensor(rng, t):
    how = rng.random()
    if how < 0.45:
        return reshaped(rng, t, other_shape(rng, t.shape))
    values = t.values()
    n = count(t.shape)
    if len(values) != n or n == 0 or n > MOST:
        return reshaped(rng, t, other_shape(rng, t.shape))
    if how < 0.8:  # changes some elements
        for _ in range(rng.choice([1, 1, 1, 2, 5])):
            values[rng.randrange(n)] = one_of(rng, t.dtype, t.shape)
    elif how < 0.85:  # changes the end, as of row splits, which may not decrease
        begin = rng.randrange(n)
        values[begin:] = [one_of(rng, t.dtype, t.shape)] * (n - begin)
    elif how < 0.9:
        values = elements(rng, t.dtype, n, t.shape)
    elif how < 0.95:
        rng.shuffle(values)
    else:
        values[rng.randrange(n)] = values[rng.randrange(n)]
    return tensor(t.dtype, t.shape, values)


# ---- attributes ------------------------------------------------------------------------------


def other_value(rng, kind, value, schema):
    if kind == "i":
        return rng.choice(INTS + [value + 1, value - 1, value * 2])
    if kind == "f":
        return rng.choice(NUMBERS_OF_FLOATS)
    if kind == "b":
        return not value
    if kind == "s":
        if schema and schema.strings and rng.random() < 0.8:
            return rng.choice(schema.strings).encode()
        return rng.choice(STRINGS)
    if kind == "type":
        if schema and schema.types and rng.random() < 0.8:
            return rng.choice(schema.types)
        return rng.randrange(0, 33) if rng.random() < 0.9 else rng.choice([-1, 33, 101, 200, 1 << 31])
    if kind == "shape":
        how = rng.random()
        if how < 0.2 or value is None:
            return rng.choice([None, [], [0], [-1], [2, -1], [rng.choice(HUGE)] * rng.randrange(1, 4)])
        if how < 0.5 and value:
            value = list(value)
            value[rng.randrange(len(value))] = rng.choice(DIMS + HUGE + [-1, -1, -2, -(1 << 63)])
            return value
        return other_shape(rng, value) if how < 0.9 else value + [1] * rng.choice([1, 8, 250, 255])
    if kind == "tensor":
        return other_tensor(rng, value)
    return value


FRESH = {"i": 1, "f": 1.0, "b": False, "s": b"", "type": 1, "shape": [2]}


def other_attr(rng, node, attr, schema):
    kind, value = node.attrs[attr]
    if not kind.startswith("list:"):
        node.attrs[attr] = [kind, other_value(rng, kind, value, schema)]
        return
    kind, value = kind[5:], list(value)
    how = rng.random()
    if how < 0.1 or kind not in FRESH:
        value = []
    elif how < 0.25 and value:
        value.pop(rng.randrange(len(value)))
    elif how < 0.4:
        value.insert(rng.randrange(len(value) + 1), rng.choice(value) if value else FRESH[kind])
    elif how < 0.45:
        value = (value or [FRESH[kind]]) * rng.choice([2, 33, 70, 300])
    elif value:
        i = rng.randrange(len(value))
        value[i] = other_value(rng, kind, value[i], schema)
    if kind == "i" and len(set(value)) <= 1 and schema and not value:
        kind = schema.kind[5:]
    node.attrs[attr] = ["list:" + kind, value]


# ---- the graph -------------------------------------------------------------------------------


class Mutator:
    def __init__(self, registry):
        self.registry = registry

    def mutate(self, rng, case):
        case = case.copy()
        if case.more:
            case.feeds, case.more = rng.choice([case.feeds, *case.more]), []
        if rng.random() < 0.35:
            self.retype(rng, case)
        for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3, 4])):
            self.change(rng, case)
        self.feed_or_hold(rng, case)
        if case.feeds and rng.random() < 0.4 and not any(WAITING.match(n.op) for n in case.nodes):
            self.feed_again(rng, case)
        return case

    def feed_again(self, rng, case):
        """Adds other feeds of the same types, with which the same session runs again."""
        for _ in range(rng.choice([1, 2, 4])):
            feeds = dict(rng.choice([case.feeds, *case.more]))
            for name in rng.choices(list(feeds), k=rng.choice([1, 1, 2])):
                t = other_tensor(rng, feeds[name])
                if len(t.shape) <= MAX_RANK:
                    feeds[name] = t
            case.more.append(feeds)

    def change(self, rng, case):
        how = rng.random()
        tensors = list(case.feeds) + [n.name for n in case.nodes if n.op == "Const" and n.attrs["value"][0] == "tensor"]
        ops = [n for n in case.nodes if n.op not in ("Const", "Placeholder")]
        if how < 0.55 and tensors:
            self.change_tensor(rng, case, rng.choice(tensors))
        elif how < 0.85 and ops:
            self.change_attr(rng, rng.choice(ops))
        elif how < 0.95 and ops:
            self.change_inputs(rng, case, rng.choice(ops))
        elif case.steps:
            step = rng.choice(case.steps)
            case.steps = case.steps + [step] if rng.random() < 0.7 else case.steps[1:] or case.steps

    def node(self, case, name):
        return next(n for n in case.nodes if n.name == name)

    def value_of(self, case, name):
        return case.feeds[name] if name in case.feeds else self.node(case, name).attrs["value"][1]

    def set_value(self, case, name, t):
        node = self.node(case, name)
        if name in case.feeds:
            if len(t.shape) > MAX_RANK:
                return
            case.feeds[name] = t
        else:
            node.attrs["value"] = ["tensor", t]
        node.attrs["dtype"] = ["type", t.dtype]

    def change_tensor(self, rng, case, name):
        t = self.value_of(case, name)
        if rng.random() < 0.06:
            t = cast(rng, t, rng.choice(sorted(DTYPES)))
        else:
            t = other_tensor(rng, t)
        self.set_value(case, name, t)

    def change_attr(self, rng, node):
        schema = self.registry.get(node.op)
        attrs = [a for a in node.attrs if node.attrs[a][0] != "func"]
        if rng.random() < 0.03 and attrs:
            node.attrs.pop(rng.choice(attrs))
        elif attrs:
            attr = rng.choice(attrs)
            found = [a for a in schema.attrs if a.name == attr] if schema else []
            other_attr(rng, node, attr, found[0] if found else None)

    def change_inputs(self, rng, case, node):
        """Removes or adds a variadic input, with or without changing the attribute that counts the inputs, or changes
        an edge."""
        how = rng.random()
        if not node.inputs:
            node.inputs.append(rng.choice(case.nodes).name)
            return
        i = rng.randrange(len(node.inputs))
        counts = [a for a in node.attrs if node.attrs[a][0] == "i" and node.attrs[a][1] in range(1, len(node.inputs) + 1)]
        if how < 0.25:
            node.inputs.pop(i)
        elif how < 0.5:
            node.inputs.insert(i, node.inputs[i])
        elif how < 0.7 and len(node.inputs) > 1:
            k = rng.randrange(len(node.inputs))
            node.inputs[i], node.inputs[k] = node.inputs[k], node.inputs[i]
        elif how < 0.9:
            node.inputs[i] = rng.choice(case.nodes).name
        elif how < 0.95:
            node.inputs[i] = node.inputs[i].split(":")[0] + rng.choice([":1", ":2", ":7"])
        else:
            node.inputs.append("^" + rng.choice(case.nodes).name)
        if how < 0.5 and counts and rng.random() < 0.8:
            node.attrs[rng.choice(counts)][1] += -1 if how < 0.25 else 1

    def retype(self, rng, case):
        """Changes one type attribute of one op, and the types of all feeds that depend on this attribute."""
        ops = [(n, self.registry[n.op]) for n in case.nodes if n.op in self.registry and n.op not in ("Const", "Placeholder")]
        choices = [(n, s, i) for n, s in ops for i, a in enumerate(s.attrs)
                   if a.kind == "type" and n.attrs.get(a.name, ["", 0])[0] == "type"]
        if not choices:
            return
        node, schema, i = rng.choice(choices)
        attr = schema.attrs[i]
        old = node.attrs[attr.name][1]
        new = rng.choice(attr.types or sorted(DTYPES))
        # Whether the types of all nodes in a graph change together, so that they stay consistent.
        everywhere = rng.random() < 0.7
        for n, s in ops if everywhere else [(node, schema)]:
            for k, a in enumerate(s.attrs):
                if a.kind != "type" or n.attrs.get(a.name, ["", None])[1] != old or (n is node and not everywhere and k != i):
                    continue
                if a.types and new not in a.types:
                    continue
                n.attrs[a.name] = ["type", new]
                self.retype_inputs(rng, case, n, s, k, old, new)

    def retype_inputs(self, rng, case, node, schema, attr, old, new):
        data = [i for i in node.inputs if not i.startswith("^")]
        at = 0
        for arg in schema.inputs:
            n = 1
            if arg.number_attr >= 0:
                n = node.attrs.get(schema.attrs[arg.number_attr].name, ["i", 1])[1]
            elif arg.list_attr >= 0:
                n = len(node.attrs.get(schema.attrs[arg.list_attr].name, ["", []])[1])
            if not 0 <= n <= len(data):
                return
            for name in data[at : at + n] if arg.type_attr == attr else []:
                if name in case.feeds or any(m.name == name and m.op == "Const" for m in case.nodes):
                    t = self.value_of(case, name)
                    if t.dtype == old:
                        self.set_value(case, name, cast(rng, t, new))
            at += n

    def feed_or_hold(self, rng, case):
        """Turns fed tensors into constants and constants into fed tensors. A placeholder may declare the shape of its
        feed."""
        for n in list(case.nodes):
            if n.op == "Placeholder" and n.name in case.feeds and rng.random() < 0.3:
                t = case.feeds.pop(n.name)
                n.op, n.attrs = "Const", {"dtype": ["type", t.dtype], "value": ["tensor", t]}
            elif n.op == "Const" and n.attrs["value"][0] == "tensor" and rng.random() < 0.3:
                t = n.attrs["value"][1]
                if len(t.shape) <= MAX_RANK and t.dtype in DTYPES and t.dtype not in (NUMBERS["resource"], NUMBERS["variant"]):
                    case.feeds[n.name] = t
                    n.op, n.attrs = "Placeholder", {"dtype": ["type", t.dtype], "shape": ["shape", None]}
            if n.op == "Placeholder" and n.name in case.feeds and rng.random() < 0.15:
                shape = [d if rng.random() < 0.7 else -1 for d in case.feeds[n.name].shape]
                n.attrs["shape"] = ["shape", shape]


def constant(name, t):
    return Node(name, "Const", (), {"dtype": ["type", t.dtype], "value": ["tensor", t]})


def placeholder(name, t):
    return Node(name, "Placeholder", (), {"dtype": ["type", t.dtype], "shape": ["shape", None]})
