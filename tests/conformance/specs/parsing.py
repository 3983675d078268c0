"""Test cases for parsing of serialized Examples and SequenceExamples, with TensorFlow's error messages."""

import struct

from spec import *

# ---- messages, written by hand: TensorFlow's reader must see odd ones too -------------------


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def floats(*v, packed=True):
    if packed:
        return field(2, field(1, struct.pack(f"<{len(v)}f", *v)) if v else b"")
    return field(2, b"".join(b"\x0d" + struct.pack("<f", x) for x in v))


def ints(*v, packed=True):
    if packed:
        return field(3, field(1, b"".join(map(varint, v))) if v else b"")
    return field(3, b"".join(b"\x08" + varint(x) for x in v))


def strs(*v):
    return field(1, b"".join(field(1, x) for x in v))


def entry(name, feature):
    return field(1, field(1, name.encode()) + field(2, feature))


def features(*pairs):
    return b"".join(entry(k, v) for k, v in pairs)


def example(*pairs, **named):
    return field(1, features(*pairs, *named.items()))


def s(*v):
    return np.array(list(v) + [None], object)[:-1]


def scalar(v):
    return s(v).reshape(())


EMPTY = {"float32": np.float32([]), "int64": np.int64([]), "string": np.array([], object)}
LISTS = {"float32": floats, "int64": ints, "string": strs}

# ---- one specification of features for the three ops ----------------------------------------


class Spec:
    """The features to parse: `dense` is {name: (dtype, shape, default)}, `sparse` is {name: dtype}, and `ragged` is
    {name: (dtype, splits)}."""

    def __init__(self, dense=None, sparse=None, ragged=None):
        self.dense, self.sparse, self.ragged = dense or {}, sparse or {}, ragged or {}

    def shapes(self):
        return [TensorShape(shape) for _, shape, _ in self.dense.values()]

    def defaults(self, wrap):
        return [wrap(EMPTY[t] if d is None else d) for t, _, d in self.dense.values()]

    def case(self, op, serialized, names=None, fed=False):
        wrap = np.asarray if fed else Const
        common = dict(sparse_types=list(self.sparse.values()), dense_shapes=self.shapes(), texts=True)
        names = wrap(np.array([], object) if names is None else names)
        if op == "ParseSingleExample":
            return Case(serialized, self.defaults(wrap), num_sparse=len(self.sparse), sparse_keys=list(self.sparse),
                        dense_keys=list(self.dense), **common)
        if op == "ParseExample":
            return Case(serialized, names, [wrap(scalar(k.encode())) for k in self.sparse],
                        [wrap(scalar(k.encode())) for k in self.dense], self.defaults(wrap), **common)
        keys = lambda d: wrap(s(*[k.encode() for k in d]))
        return Case(serialized, names, keys(self.sparse), keys(self.dense), keys(self.ragged), self.defaults(wrap),
                    num_sparse=len(self.sparse), ragged_value_types=[t for t, _ in self.ragged.values()],
                    ragged_split_types=[t for _, t in self.ragged.values()], **common)


def TensorShape(dims):
    """Returns the message of a shape attribute. TensorFlow is imported only when this function is called."""
    import tensorflow as tf

    return tf.TensorShape(dims)


PLAIN_SPEC = Spec(dense={"f": ("float32", [2], None), "i": ("int64", [], np.int64(7)), "s": ("string", [1, 2], s(b"d", b"default " * 4).reshape(1, 2))})
LIST_SPEC = Spec(dense={"f": ("float32", [None], np.float32(-1)), "i": ("int64", [None, 2], np.int64(9)), "s": ("string", [None], scalar(b"pad"))},
                 sparse={"sf": "float32", "si": "int64", "ss": "string"},
                 ragged={"rf": ("float32", "int32"), "ri": ("int64", "int64"), "rs": ("string", "int32")})
SPARSE_SPEC = Spec(sparse=LIST_SPEC.sparse, dense=LIST_SPEC.dense)

GOOD = example(f=floats(1, 2), i=ints(5), s=strs(b"a", b"bc"))

# Serialized Examples, each with one fault or peculiarity, for the features of PLAIN_SPEC.
ODD = [
    GOOD,
    b"",
    example(),
    example(f=floats(1, 2)),
    example(i=ints(5)),
    example(f=floats(1, 2), i=ints(-1), s=strs(b"", b"x" * 40)),
    example(f=floats(1, 2, packed=False), i=ints(-(2**63), packed=False)),
    example(f=floats(1)), example(f=floats(1, 2, 3)), example(f=floats()), example(f=floats(1, packed=False)),
    example(f=floats(1, 2), i=ints()), example(f=floats(1, 2), i=ints(1, 2)), example(f=floats(1, 2), i=ints(1, 2, packed=False)),
    example(f=floats(1, 2), s=strs(b"a")), example(f=floats(1, 2), s=strs(b"a", b"b", b"c")), example(f=floats(1, 2), s=strs()),
    example(f=ints(1, 2)), example(f=strs(b"a")), example(f=floats(1, 2), i=floats(1)), example(f=floats(1, 2), s=ints(1)),
    example(f=floats(1, 2), i=b""), example(f=b""), example(("f", floats(3, 4)), ("f", b"")), example(("f", b""), ("f", floats(3, 4))),
    example(("f", floats(3, 4)), ("f", floats(5, 6))), example(("f", floats(3)), ("f", floats(5, 6))), example(("f", floats(3, 4)), ("f", floats(5))),
    example(("f", floats(3)), ("i", strs(b"x"))), example(("i", strs(b"x")), ("f", floats(3))),
    example(f=floats(1, 2)) + example(f=floats(3, 4)), example(f=floats(1, 2)) + example(i=ints(3)),
    example(zz=ints(1), f=floats(1, 2)), example(("zz", b"\xff\xff"), ("f", floats(1, 2))),
    example(f=field(4, b"\x01")), example(f=b"\x08\x01"), example(f=floats(1, 2) + ints(3)),
    GOOD + field(2, b"unknown"), GOOD + b"\x10\x05", GOOD + b"\x15abcd", GOOD + b"\x11abcdefgh", GOOD + b"\x15abc", GOOD + b"\x13", GOOD + b"\x12\x7fshort",
    GOOD + b"\x12\xff\xff\xff\xff\x0f", GOOD + b"\x00", GOOD + b"\x00\x01", GOOD + b"\x80", b"\x07", b"\x0a", b"\x0a\x05", b"\x0a\x01\x10", b"not an example at all",
    field(1, entry("f", floats(1, 2)) + field(2, b"more")), field(1, field(1, field(1, b"f"))), field(1, field(1, field(2, floats(1, 2)) + field(1, b"f"))),
    field(1, field(1, field(1, b"f") + field(2, floats(1, 2)) + field(3, b"x"))), field(1, field(1, field(1, b"f") + field(1, b"i"))),
    field(1, field(1, field(1, b"f") + b"\x12\x30" + floats(1, 2))), field(1, field(1, b"\x8a\x00\x01f" + field(2, floats(1, 2)))),
    field(1, field(1, field(1, b"") + field(2, floats(1, 2)))),
    # value lists whose length prefix disagrees with the data
    example(f=b"\x12\x7f" + field(1, struct.pack("<2f", 1, 2))), example(f=b"\x12\x0a\x0a\x09" + struct.pack("<2f", 1, 2) + b"x"),
    example(f=b"\x12\x0a\x0a\x7f" + struct.pack("<2f", 1, 2)), example(f=b"\x12\x06\x0a\x08" + struct.pack("<2f", 1, 2)),
    example(f=b"\x12\x0a\x0a\x07" + struct.pack("<2f", 1, 2)), example(f=b"\x12"), example(f=b"\x12\x01\x0a"), example(f=b"\x12\x02\x10\x01"),
    example(f=b"\x12\x03\x0d\x01\x02"), example(f=field(2, field(1, struct.pack("<f", 1)) + field(1, struct.pack("<f", 2)))),
    example(f=field(2, field(1, struct.pack("<2f", 1, 2)) + b"junk")), example(f=field(2, b"\x0d" + struct.pack("<f", 1) + field(1, struct.pack("<f", 2)))),
    example(f=floats(1, 2), i=field(3, field(1, b"\x80"))), example(f=floats(1, 2), i=field(3, field(1, b"\xff" * 9 + b"\x01"))),
    example(f=floats(1, 2), i=field(3, field(1, b"\xff" * 10 + b"\x01"))), example(f=floats(1, 2), i=field(3, field(1, b"\x81\x00"))),
    example(f=floats(1, 2), i=field(3, field(1, b"\x05") + field(1, b"\x06"))), example(f=floats(1, 2), i=field(3, b"\x10\x05")),
    example(f=floats(1, 2), i=b"\x1a\x02\x0a\x05\x07"), example(f=floats(1, 2), i=field(3, b"\x08\x05\x09")),
    example(f=floats(1, 2), s=field(1, field(1, b"a") + b"\x0a\x05b")), example(f=floats(1, 2), s=field(1, field(2, b"a"))),
    example(f=floats(1, 2), s=b"\x0a\x09" + field(1, b"a") + field(1, b"b")),
]

# Serialized Examples, each with one fault or peculiarity, for the features of LIST_SPEC.
ODD_LISTS = [
    example(f=floats(1, 2, 3), i=ints(1, 2, 3, 4), s=strs(b"a"), sf=floats(1), si=ints(1, 2), ss=strs(b"x", b"y" * 30), rf=floats(1, 2), ri=ints(), rs=strs(b"r")),
    b"", example(), example(f=floats(), sf=floats(), si=ints(), ss=strs(), rf=floats(), rs=strs()), example(f=b"", sf=b"", rf=b""),
    example(i=ints(1)), example(i=ints(1, 2, 3)), example(i=floats(1, 2)), example(f=ints(1)), example(s=ints(1)),
    example(sf=ints(1)), example(si=strs(b"a")), example(ss=floats(1)), example(rf=ints(1)), example(ri=strs(b"a")), example(rs=floats(1)),
    example(("sf", floats(1)), ("sf", floats(2, 3))), example(("sf", floats(1)), ("sf", b"")), example(("sf", b""), ("sf", floats(1))),
    example(("f", floats(1)), ("f", b"")), example(("rf", floats(1)), ("rf", b"")), example(sf=floats(1, 2)) + example(sf=floats(3)),
    example(sf=floats(1, 2, packed=False), si=ints(1, -2, packed=False), f=floats(7, packed=False)),
    example(si=field(3, field(1, b"\x80"))), example(sf=b"\x12\x0a\x0a\x7f" + struct.pack("<2f", 1, 2)), example(sf=b"\x12\x0a\x0a\x07" + struct.pack("<2f", 1, 2)),
    example(ss=field(1, b"\x0a\x05b")), example(rf=b"\x12\x03\x0d\x01\x02"), example(ri=field(3, b"\x10\x05")), example(rs=field(1, field(2, b"a"))),
    example(sf=b"\x08\x01"), example(f=field(2, b"\x0b")), example(i=field(3, field(1, b"\x80"))), example(s=field(1, b"\x0a")),
]


def random_examples(g, spec, n):
    """Returns Examples with the features of `spec` in random order, some missing, some repeated, some of a different
    type."""
    wanted = [(k, v[0] if isinstance(v, tuple) else v) for kind in (spec.dense, spec.sparse, spec.ragged) for k, v in kind.items()]
    for _ in range(n):
        pairs = []
        for name, dtype in wanted:
            size = spec.dense.get(name, (0, [None]))[1]
            count = int(g.rng.integers(0, 4)) * (size[1] if len(size) > 1 else 1) if None in size else int(np.prod(size, dtype=int))
            values = {"float32": lambda: np.round(g.rng.normal(size=count), 2).tolist(), "int64": lambda: g.rng.integers(-300, 300, count).tolist(),
                      "string": lambda: [bytes(g.rng.integers(97, 123, int(k), np.uint8)) for k in g.rng.integers(0, 20, count)]}[dtype]()
            if g.rng.random() < 0.9 or (name in spec.dense and spec.dense[name][2] is None):
                pairs.append((name, LISTS[dtype](*values)))
            if g.rng.random() < 0.2:
                pairs.append((f"other_{name}", LISTS[dtype](*values)))
        if g.rng.random() < 0.5:
            g.rng.shuffle(pairs)
        yield example(*pairs)


def damaged(g, data):
    """Returns `data` with one byte changed, removed or repeated, or with the end cut off."""
    data = bytearray(data)
    at = int(g.rng.integers(0, max(len(data), 1)))
    how = g.rng.integers(0, 4)
    if not data:
        return b"\x0a"
    if how == 0:
        data[at] = int(g.rng.integers(0, 128))
    elif how == 1:
        del data[at]
    elif how == 2:
        data.insert(at, data[at])
    else:
        del data[at:]
    return bytes(data)


@spec("ParseExample", "ParseExampleV2", "ParseSingleExample")
def parse_example(g, op):
    lists = LIST_SPEC if op == "ParseExampleV2" else SPARSE_SPEC
    alone = op == "ParseSingleExample"
    for spec, odd in ((PLAIN_SPEC, ODD), (lists, ODD_LISTS)):
        for data in odd:
            yield spec.case(op, scalar(data) if alone else s(data))
            if op == "ParseExampleV2":
                yield spec.case(op, scalar(data))
            if not alone:
                yield spec.case(op, s(odd[0], data, odd[0]), fed=True)
        for data in random_examples(g, spec, 40):
            yield spec.case(op, scalar(data) if alone else s(data))
        for data in list(random_examples(g, spec, 150)):
            data = damaged(g, data)
            yield spec.case(op, scalar(data) if alone else s(odd[0], data))
        if not alone:
            for n in (0, 1, 7, 100):
                yield spec.case(op, s(*random_examples(g, spec, n)))
            yield spec.case(op, s(odd[0], b"\x07"), names=s(b"first", b"second"))
            yield spec.case(op, s(odd[0], example(f=ints(1))), names=s(b"first", b"second"))
            yield spec.case(op, s(odd[0], b""), names=s(b"first", b"second"))
            yield spec.case(op, s(odd[0], b""), names=s(b"first"))
        yield spec.case(op, s(odd[0]) if alone else scalar(odd[0]))
        yield spec.case(op, s(odd[0]).reshape(1, 1))
    for d in (np.float32([1, 2, 3]), np.float32(1), np.float32([[1, 2]])):
        bad = Spec(dense={"f": ("float32", [2], d)})
        yield bad.case(op, scalar(GOOD) if alone else s(GOOD))
        bad = Spec(dense={"f": ("float32", [None, 2], d)})
        yield bad.case(op, scalar(GOOD) if alone else s(GOOD))
    many = Spec(dense={f"feature_number_{i}": ("float32", [1], np.float32([i])) for i in range(90)}, sparse={f"s{i}": "int64" for i in range(40)})
    for data in random_examples(g, many, 4):
        yield many.case(op, scalar(data) if alone else s(data, b""))
    for empty in (Spec(), Spec(dense={"f": ("float32", [0], None)})):
        yield empty.case(op, scalar(GOOD) if alone else s(GOOD))
    if op == "ParseExampleV2":
        # The op needs as many keys as types, so a list that is one key shorter must be refused.
        for k in range(2, 5):
            case = LIST_SPEC.case(op, s(GOOD), fed=True)
            inputs = list(case.inputs)
            inputs[k] = inputs[k][:-1]
            yield Case(*inputs, texts=True, **case.attrs)


# ---- SequenceExamples -----------------------------------------------------------------------


def feature_list(*rows):
    return b"".join(field(1, r) for r in rows)


def sequence(context=(), lists=()):
    return (field(1, features(*context)) if context is not None else b"") + (field(2, features(*lists)) if lists is not None else b"")


class Sequence:
    """The context and sequence features to parse, as two Specs. Dense features of a sequence are {name: (dtype, shape,
    whether it may be missing)}."""

    def __init__(self, context=None, lists=None):
        self.context, self.lists = context or Spec(), lists or Spec()

    def case(self, op, serialized, names=None, **more):
        c, l = self.context, self.lists
        keys = lambda d: Const(s(*[k.encode() for k in d]))
        missing = [k for k, v in l.dense.items() if v[2]]
        attrs = dict(Ncontext_sparse=len(c.sparse), Nfeature_list_sparse=len(l.sparse), Nfeature_list_dense=len(l.dense),
                     context_sparse_types=list(c.sparse.values()), context_dense_shapes=c.shapes(), feature_list_sparse_types=list(l.sparse.values()),
                     feature_list_dense_types=[v[0] for v in l.dense.values()], feature_list_dense_shapes=l.shapes(), texts=True, **more)
        names = np.array([], object) if names is None else names
        if op == "ParseSequenceExample":
            return Case(serialized, names, c.defaults(Const), feature_list_dense_missing_assumed_empty=missing, Ncontext_dense=len(c.dense),
                        context_sparse_keys=list(c.sparse), context_dense_keys=list(c.dense), feature_list_sparse_keys=list(l.sparse),
                        feature_list_dense_keys=list(l.dense), **attrs)
        if op == "ParseSingleSequenceExample":
            each = lambda d: [Const(scalar(k.encode())) for k in d]
            for name in ("Ncontext_sparse", "Nfeature_list_sparse", "Nfeature_list_dense"):
                del attrs[name]
            return Case(serialized, Const(s(*[k.encode() for k in missing])), each(c.sparse), each(c.dense), each(l.sparse), each(l.dense),
                        c.defaults(Const), scalar(b"") if names.size == 0 else names.reshape(()), **attrs)
        return Case(serialized, names, keys(c.sparse), keys(c.dense), keys(c.ragged), keys(l.sparse), keys(l.dense), keys(l.ragged),
                    Const(np.array([bool(v[2]) for v in l.dense.values()], bool)), c.defaults(Const),
                    context_ragged_value_types=[t for t, _ in c.ragged.values()], context_ragged_split_types=[t for _, t in c.ragged.values()],
                    feature_list_ragged_value_types=[t for t, _ in l.ragged.values()],
                    feature_list_ragged_split_types=[t for _, t in l.ragged.values()], **attrs)


CONTEXT = Spec(dense={"f": ("float32", [2], None), "i": ("int64", [], np.int64(7)), "s": ("string", [1], s(b"dflt"))},
               sparse={"sf": "float32", "ss": "string"})
LISTS_SPEC = Spec(dense={"F": ("float32", [2], False), "I": ("int64", [], True), "S": ("string", [1], True)}, sparse={"SI": "int64", "SS": "string"})
BOTH = Sequence(CONTEXT, LISTS_SPEC)
RAGGED = Sequence(Spec(CONTEXT.dense, CONTEXT.sparse, {"rf": ("float32", "int32"), "rs": ("string", "int64")}),
                  Spec(LISTS_SPEC.dense, LISTS_SPEC.sparse, {"RI": ("int64", "int32"), "RS": ("string", "int64")}))
ONE_DENSE = Sequence(Spec(dense={"f": ("float32", [2], None)}))
ONE_LIST = Sequence(lists=Spec(dense={"F": ("float32", [2], False)}))
ONE_SPARSE = Sequence(Spec(sparse={"sf": "float32"}), Spec(sparse={"SI": "int64"}))

WHOLE = sequence([("f", floats(1, 2)), ("i", ints(3)), ("s", strs(b"x")), ("sf", floats(1, 2, 3)), ("ss", strs(b"a", b"b"))],
                 [("F", feature_list(floats(1, 2), floats(3, 4))), ("I", feature_list(ints(1), ints(-2), ints(3))), ("S", feature_list(strs(b"q"))),
                  ("SI", feature_list(ints(1, 2), ints(), ints(3))), ("SS", feature_list(strs(), strs(b"x" * 20)))])

# Each entry is (specification, bytes). The bytes have one fault or peculiarity.
ODD_SEQUENCES = [(BOTH, WHOLE), (BOTH, b""), (BOTH, sequence([("f", floats(1, 2))], [("F", b"")])), (BOTH, WHOLE + field(3, b"x")), (BOTH, WHOLE + b"\x18\x05")]
ODD_SEQUENCES += [(ONE_DENSE, sequence([("f", v)])) for v in (floats(1, 2), floats(1), floats(1, 2, 3), floats(), b"", ints(1, 2), floats(1, 2, packed=False))]
ODD_SEQUENCES += [(ONE_DENSE, d) for d in (b"", b"\x07", b"\x0a\x05\x0a", sequence([("f", floats(1, 2)), ("f", floats(3, 4))]), sequence([("g", floats(1))]))]
ODD_SEQUENCES += [(ONE_LIST, sequence([], [("F", feature_list(*rows))])) for rows in (
    (), (floats(1, 2),), (floats(1, 2), floats(3, 4)), (floats(1),), (floats(1, 2), floats(3)), (floats(1, 2), b""), (ints(1, 2),), (floats(1, 2), ints(1)),
    (floats(1, 2, packed=False),), (floats(1, 2), floats()))]
ODD_SEQUENCES += [(ONE_LIST, d) for d in (b"", sequence([("F", floats(1, 2))], None))]
ODD_SEQUENCES += [(ONE_SPARSE, sequence([("sf", v)], [("SI", w)])) for v, w in (
    (floats(), b""), (b"", feature_list(ints())), (floats(1, 2), feature_list(ints(1, 2), b"", ints(3))), (ints(1), b""), (floats(1), feature_list(floats(1))),
    (floats(1), feature_list(floats())), (floats(1), feature_list(ints(1, -5, packed=False), ints(2))))]


def random_sequences(g, spec, n):
    def list_of(dtype, count):
        return {"float32": lambda: floats(*np.round(g.rng.normal(size=count), 2)), "int64": lambda: ints(*g.rng.integers(-300, 300, count).tolist()),
                "string": lambda: strs(*[bytes(g.rng.integers(97, 123, int(k), np.uint8)) for k in g.rng.integers(0, 20, count)])}[dtype]()

    def of(half, rows):
        pairs = []
        for name, v in {**half.dense, **half.sparse, **half.ragged}.items():
            dtype = v if isinstance(v, str) else v[0]
            fixed = name in half.dense
            count = lambda: int(np.prod(v[1], dtype=int)) if fixed else int(g.rng.integers(0, 4))
            if g.rng.random() < 0.85 or (fixed and not rows and v[2] is None) or (fixed and rows and not v[2]):
                pairs.append((name, feature_list(*[list_of(dtype, count()) for _ in range(g.rng.integers(0, 4))]) if rows else list_of(dtype, count())))
        return pairs

    for _ in range(n):
        yield sequence(of(spec.context, False), of(spec.lists, True))


class Twin(str):
    """A name that may occur several times as a key of one dictionary."""

    __hash__, __eq__ = object.__hash__, object.__eq__


def twin_sequences(op):
    """Yields specifications in which two features have the same name. Their types or kinds may be equal or
    different."""
    two = lambda name, what: {Twin(name): what, Twin(name): what}
    yield Sequence(Spec(dense=two("f", ("float32", [2], np.float32([5, 6])))), Spec(dense=two("F", ("float32", [2], True))))
    yield Sequence(Spec(sparse=two("sf", "float32")), Spec(sparse=two("SI", "int64")))
    if op.endswith("V2"):
        yield Sequence(Spec(ragged=two("rf", ("float32", "int32"))), Spec(ragged=two("RI", ("int64", "int32"))))
    if op == "ParseSingleSequenceExample":
        yield Sequence(Spec(sparse={Twin("sf"): "float32", Twin("sf"): "string"}))
        yield Sequence(Spec(dense={Twin("f"): ("float32", [2], None)}, sparse={Twin("f"): "float32"}))


@spec("ParseSequenceExample", "ParseSequenceExampleV2")
def parse_sequence(g, op):
    for spec, data in ODD_SEQUENCES:
        yield spec.case(op, scalar(data))
        yield spec.case(op, s(data))
        yield spec.case(op, s(data, data), names=s(b"one", b"two"))
    most = RAGGED if op.endswith("V2") else BOTH
    for n in (0, 1, 2, 7):
        for _ in range(15):
            yield most.case(op, s(*random_sequences(g, most, n)))
    for data in random_sequences(g, BOTH, 15):
        yield BOTH.case(op, scalar(data))
    # Each case has only one feature, because the order in which TensorFlow checks several features is not defined.
    for which in (ONE_DENSE, ONE_LIST, ONE_SPARSE):
        for data in list(random_sequences(g, which, 60)):
            yield which.case(op, s(damaged(g, data)))
    yield BOTH.case(op, s(WHOLE).reshape(1, 1))
    yield BOTH.case(op, s(WHOLE), names=s(b"a", b"b"))
    for d in (np.float32([1]), np.float32(1), np.float32([[1, 2]])):
        yield Sequence(Spec(dense={"f": ("float32", [2], d)})).case(op, s(b""))
    yield Sequence(Spec(dense={"f": ("float32", [2], np.float32([5, 6]))})).case(op, s(b"", sequence([("f", floats(1, 2))])))
    yield Sequence(Spec(dense={"f": ("float32", [2], None)}, sparse={"f": "float32"})).case(op, s(b""))
    yield Sequence(None, Spec(dense={"F": ("float32", [2], True)}, sparse={"F": "float32"})).case(op, s(b""))
    data = WHOLE + sequence([("rf", floats(1, 2))], [("RI", feature_list(ints(1), ints(2, 3)))])
    for which in twin_sequences(op):
        yield which.case(op, s(data, b""))
        if not which.context.ragged:  # TensorFlow leaves the row splits of a single example uninitialised.
            yield which.case(op, scalar(data))


@spec("ParseSingleSequenceExample")
def parse_single_sequence(g, op):
    for spec, data in ODD_SEQUENCES:
        yield spec.case(op, scalar(data))
        yield spec.case(op, scalar(data), names=s(b"name"))
    for data in random_sequences(g, BOTH, 60):
        yield BOTH.case(op, scalar(data))
    for data in list(random_sequences(g, BOTH, 150)):
        yield BOTH.case(op, scalar(damaged(g, data)))
    wrong = [floats(1.5, 1e30, 0.1, 3, 16777217), strs(b"a\n\"'\\", b"\x01\xff~"), ints(-1, 2**40), b"", floats(), floats(1) + ints(2), ints(2) + floats(1, 2),
             floats(1) + floats(2), field(2, field(1, struct.pack("<f", 1)) + b"\x0d" + struct.pack("<f", 2)), field(2, field(1, b"abc")), field(2, b"\x08\x05"),
             field(9, b"x") + floats(1, 2)]
    for i, v in enumerate(wrong):
        for which, data in ((ONE_DENSE, sequence([("f", v)])), (ONE_LIST, sequence([], [("F", feature_list(floats(1, 2), v))])),
                            (ONE_SPARSE, sequence([("sf", v)], [("SI", feature_list(v))])),
                            (ONE_SPARSE, sequence([("sf", floats(1))], [("SI", feature_list(v, ints(3)))]))):
            case = which.case(op, scalar(data))
            # The messages of the last two cases are not compared, because only protobuf prints unknown fields.
            case.texts = i < len(wrong) - 2
            yield case
    yield ONE_DENSE.case(op, scalar(field(1, field(1, field(2, floats(1, 2)) + field(1, b"f")))))
    yield ONE_DENSE.case(op, scalar(field(1, field(1, field(1, b"\xff") + field(2, floats(1, 2))) + features(("f", floats(1, 2))))))
    yield ONE_DENSE.case(op, scalar(sequence([("f", floats(1, 2))]) + sequence([("f", floats(3, 4))])))
    yield BOTH.case(op, s(WHOLE))
    for which in twin_sequences(op):
        yield which.case(op, scalar(WHOLE))
        yield which.case(op, scalar(b""))
    for d in (np.float32([1]), np.float32(1), np.float32([[1, 2]]), np.float32([5, 6])):
        yield Sequence(Spec(dense={"f": ("float32", [2], d)})).case(op, scalar(b""))


@spec("DecodeJSONExample")
def decode_json_example(g, op):
    def feature(kind, *values):
        return b'{"features":{"feature":{"a":{"%s":{"value":%s}}}}}' % (kind, b"[" + b",".join(values) + b"]")

    def case(*texts, shape=None):
        return Case(np.array([*texts, None], object)[:-1].reshape(shape or (len(texts),)))

    whole = b'{"features":{"feature":{"a":{"int64List":{"value":[1,"2"]}},"b":{"floatList":{"value":[1.5,"NaN"]}},"c":{"bytesList":{"value":["YQ=="]}}}}}'
    yield case(whole)
    yield case(whole, b"{}", whole, shape=(3, 1))
    yield case(whole, shape=())
    yield case(shape=(0,))
    yield case(shape=(2, 0))
    for texts in ((b"{}", b"{", b"["), (b"{}", b"x"), (whole, whole[:-1])):
        yield case(*texts)
    floats = ("-0 0 0.1 16777217 1e38 1e-50 3.4028235e38 3.4028236e38 3.4028235677973366e38 -3.5e38 1e39 1e400 - 1e 1e+5 1E-5 1e5.5 +1 1e-400 0e5 -01 00 1a {} true null .5 5. NaN "
              '"NaN" "nan" "inf" "Infinity" "-Infinity" "+Infinity" "1e39" "0x10" "01" "1." "-" "+1" "1e400" "true" "" \'1\' "x" [1] [] [[],[1]] [null]').split()
    integers = ("1.0 1e3 -0 1.5 9223372036854775807 -9223372036854775808 9223372036854775808 -9223372036854775809 9223372036854774784.0 1e18 1e19 9007199254740993 9007199254740993.0 "
                '12345678901234567890 -0.0 1e-1 10e-1 1.0000000000000000000001 01 - false true null 1e400 "1e2" "-5" "+5" "01" "0x1" "1.0" "1.5" "" "NaN" "x" "9223372036854775808" \'7\' '
                '"\\u0031" [1] [[2],3] {}').split()
    strings = ('"YQ" "YWI" "YWI=" "-_-_" "+/+/" "+_-/" "YQ=" "YQ===" "YR==" "YR" null \'YQ\' "Y\\u0051" "====" "=" "" "Y" "$$" 1 "YQ=a" "\\x" ["YQ",["YWI"]] {}').split()
    for kind, texts in ((b"floatList", floats + ['" 1"', '"1 "', '"1\\n"', '"1 2"', "1 2"]), (b"int64List", integers + ['"1 "', '" 1"']), (b"bytesList", strings + ['" YQ"', '"Y Q"', '"abc\n"'])):
        for t in texts:
            yield case(feature(kind, t.encode()))
            yield case(feature(kind, t.encode(), t.encode()))
            yield case(feature(kind, b"1" if kind != b"bytesList" else b'"YQ"', t.encode(), b""))
            yield case(b'{"features":{"feature":{"a":{"%s":{"value":%s}}}}}' % (kind.replace(b"L", b"_l"), t.encode()))
    for t in (b"", b" ", b"{}", b"[]", b"1", b"null", b'"x"', b" \n{ } ", b"\t\r\n{}\t", b"\x0b{}", b"{} x", b"{}{}", b"{}\x00", b"{", b"{,}", b"[{}]", b"//x\n{}", b'{"x":1}', b'{"x":null}', b'{"":1}', b'{"@type":"x"}',
              b'{"features":{}}', b'{"features":null}', b'{"features":5}', b'{"features":[]}', b'{"features":"x"}', b'{"features":}', b'{"features" {}}', b'{"features":{},}', b'{"features":{},,}',
              b'{"features":{},"features":{}}', b"{'features':{}}", b"{features:{}}", b"{\"features':{}}", b'{"fea\\u0074ures":{}}', b'{"features":nul}', b'{"features":nulls}', b'{"features":NULL}'):
        yield case(t)
    for t in (b"{}", b"null", b"[]", b"5", b'{"a":{}}', b'{"a":null}', b'{"a":{"int64List":null}}', b'{"a":{"int64List":{"value":null}}}', b'{"a":{"int64List":{"value":[]}}}', b'{"a":{"floatList":{}}}', b'{"a":{"kind":1}}',
              b'{"a":{"int64List":[1]}}', b'{"a":{"int64List":{"x":1}}}', b'{"a":{"int64List":{"value":[1],"value":[2]}}}', b'{"a":{"int64List":{},"floatList":{}}}', b'{"a":{"int64List":{},"int64List":{}}}',
              b'{"a":{"int64List":null,"int64List":{}}}', b'{"a":{"int64List":{},"floatList":null}}', b'{"a":{"int64_List":{}}}', b'{"a":{},"a":{}}', b'{"a":{},"a":null}', b'{"a":{},"b":{},"c":{},"b":{}}', b'{"b":{},"a":{}}',
              b'{"a":{}"b":{}}', b'{"a":{},}', b"{a:{}}", b"{a$:{}}", b"{$a:{}}", b"{a-b:{}}", b"{null:{}}", b"{true:{}}", b"{nulls:{}}", b"{1:{}}", b"{_1:{}}", b'{"1":{}}', b'{"":{}}', b'{"a\x00b":{}}', b'{"\n\t\x01\x7f":{}}',
              b'{"\\/\\b\\f\\n\\r\\t\\"\\\\\\\'":{}}', b"{'\"\\'':{}}", b'{"\\u12":{}}', b'{"\\u00E9\\u0000":{}}', b'{"\\ud83d\\ude00":{}}', b'{"\\udc00":{}}', b'{"\\ud83d\\u0041":{}}', b'{"\\ud83dx":{}}', b'{"\\ud800":{}}',
              "{\"\u00e9\u20ac\U0001f600\":{}}".encode(), b'{"\xed\xa0\x80":{}}', b'{"\xf4\x90\x80\x80":{}}', b'{"\xc0\x80":{}}', b'{"\xff":{}}', b'{"abc', b'{"abc\\', b'{"\\u', b'{"a":{"int64List":{"value":[1', b'{"a":{"int64List":{"value":[1}}}'):
        yield case(b'{"features":{"feature":%s}}' % t)
        yield case(b'{"features":{"feature":%s}, "features": {"feature": {"a": {}}}}' % t)
    yield case(b'{"features":{"feature":{"a":{}},"feature":{"a":{}}}}')
    for depth in (80, 95, 96, 97, 120):
        yield case(feature(b"int64List", b"[" * depth + b"1" + b"]" * depth))
        yield case(b"{" * depth)
