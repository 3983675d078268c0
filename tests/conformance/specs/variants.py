"""Test cases for tensor maps and optionals, whose variants pass from node to node of a run. The order of a map's keys is
not specified. Cases with many keys therefore compare the sum of the keys, or no keys if the keys are floats or strings."""

import itertools

from spec import *

TYPES = PLAIN + ["string"]


class Maps:
    """The ops on maps. `dtype` is the type of the value or, in `keys`, of the keys."""

    def __init__(self, tf):
        self.R = tf.raw_ops

    def empty(self):
        return self.R.EmptyTensorMap()

    def put(self, m, key, value):
        return self.R.TensorMapInsert(input_handle=m, key=key, value=value)

    def look(self, m, key, dtype="float32"):
        return self.R.TensorMapLookup(input_handle=m, key=key, value_dtype=dtype)

    def erase(self, m, key, dtype="float32"):
        return self.R.TensorMapErase(input_handle=m, key=key, value_dtype=dtype)

    def has(self, m, key):
        return self.R.TensorMapHasKey(input_handle=m, key=key)

    def size(self, m):
        return self.R.TensorMapSize(input_handle=m)

    def keys(self, m, dtype="float32"):
        return self.R.TensorMapStackKeys(input_handle=m, key_dtype=dtype)


def graph(steps, *feeds, name):
    def build(tf, *x):
        return steps(Maps(tf), *x)
    return Graph(build, *feeds, name=name, texts=True)


@spec("EmptyTensorMap", "TensorMapInsert", "TensorMapLookup", "TensorMapErase", "TensorMapHasKey", "TensorMapSize", "TensorMapStackKeys")
def values(g, op):
    if op != "EmptyTensorMap":
        return  # the graphs for EmptyTensorMap also test the other ops in the list above
    for dtype in TYPES:
        for shape in ((), (3,), (2, 2)):
            a, b = g.values(dtype, shape), g.values(dtype, shape)
            value, text = g.values(dtype, (2, 3)), np.array([b"text", b""], object)

            def steps(o, a, b, value, text):
                one = o.put(o.empty(), a, value)
                two = o.put(one, b, text)
                again = o.put(two, b, value)
                return [[o.size(m) for m in (o.empty(), one, two, again)], [o.look(one, a, dtype)], [o.look(two, b, "string")],
                        [o.look(again, b, dtype)], [o.has(m, b) for m in (one, two)], [o.keys(one, dtype)], [o.size(o.erase(one, b))],
                        [o.size(o.erase(two, b)), o.has(o.erase(two, b), b), o.has(two, b)], [o.keys(o.erase(again, b), dtype)],
                        [o.size(o.R.ZerosLike(x=again))]]
            yield graph(steps, a, b, value, text, name=f"{dtype} {shape}")


@spec("TensorMapInsert")
def many(g, op):
    """Inserts many keys into a map, of which some are replaced and some are erased."""
    for dtype, n in (("int64", 5), ("float32", 17), ("int32", 40), ("string", 30), ("bool", 6)):
        keys = g.values(dtype, (n, 2))
        if dtype == "string":
            keys = np.array([[b"%d" % (i % 20), b"x" * i] for i in range(n)], object)

        def build(tf, x):
            o, m, sizes, found = Maps(tf), None, [], []
            for i in range(n):
                m = o.put(o.empty() if m is None else m, x[i], tf.constant(i))
                if i % 5 == 4:
                    m = o.erase(m, x[i - i % 3], "int32")
                sizes.append(o.size(m))
            found = [o.has(m, x[i]) for i in range(n)]
            rows = tf.constant([0]) if dtype == "string" else tf.reduce_sum(tf.cast(o.keys(m, dtype), "int64"), axis=0)
            return [sizes, found, [rows]] if dtype != "float32" else [sizes, found]
        yield Graph(build, keys, name=f"many {dtype} {n}", texts=True)


@spec("TensorMapInsert")
def refusals(g, op):
    f, texts = np.float32, np.array([b"a" * 300, b"\xff\x00b"], object)
    strange = [f(7), f([1, 2]), f([[1, 2], [3, 4]]), f([]), np.arange(200, dtype=f), np.float64([1 / 3, 1e30, np.nan]), np.float16([1 / 3]),
               np.array([True, False]), np.uint8([200, 3]), texts, np.int64(1), np.array([1 + 2j]), f(-0.0), f(np.nan)]
    for key in strange:
        def steps(o, zero, key):
            m = o.put(o.put(o.empty(), zero, zero), key * 0 if key.dtype.is_floating else zero, zero)
            return [[o.look(m, key)], [o.has(m, key)], [o.size(o.erase(m, key))], [o.size(o.put(m, key, zero))]]
        yield graph(steps, f(0), key, name=f"key {key.dtype} {key.shape}")

    def steps(o, x, y):
        one, two = o.put(o.empty(), x, y), o.put(o.put(o.empty(), x, y), y, x)
        mixed = o.put(one, o.R.Cast(x=x, DstT="int32"), x)
        return [[o.keys(o.empty())], [o.keys(two)], [o.keys(mixed)], [o.keys(mixed, "int32")], [o.keys(one, "int32")], [o.look(one, x, "int32")],
                [o.size(o.erase(one, x, "int32"))], [o.size(o.put(one, y, o.empty()))], [o.size(o.look(o.put(one, y, one), y, "variant"))]]
    yield graph(steps, f(1), f([1, 2]), name="keys")

    def build(tf, x):
        o = Maps(tf)
        some = tf.compat.v1.placeholder_with_default(o.R.Pack(values=[o.empty(), o.empty()]), None)
        return [[o.size(some)], [o.has(some, x)], [o.size(o.put(some, x, x))], [o.look(some, x)], [o.size(o.erase(some, x))], [o.keys(some)]]
    yield Graph(build, f(1), name="a vector of maps", texts=True)

    def build(tf, x):
        o = Maps(tf)
        m = o.R.EmptyTensorList(element_shape=np.int32([]), max_num_elements=3, element_dtype="float32")
        return [[o.size(m)], [o.has(m, x)], [o.size(o.put(m, x, x))], [o.look(m, x)], [o.size(o.erase(m, x))], [o.keys(m)],
                [o.R.TensorListLength(input_handle=o.empty())]]
    yield Graph(build, f(1), name="a list")


# ---- optionals ----

OPTIONALS = ["OptionalFromValue", "OptionalGetValue", "OptionalHasValue", "OptionalNone"]


class Optionals:
    """The ops on optionals. `hidden` hides what is known of a tensor from TensorFlow's checks of shapes."""

    def __init__(self, tf):
        self.tf, self.R = tf, tf.raw_ops

    def of(self, *values):
        return self.R.OptionalFromValue(components=list(values))

    def none(self):
        return self.R.OptionalNone()

    def has(self, optional):
        return self.R.OptionalHasValue(optional=optional)

    def get(self, optional, *types, shapes=None):
        shapes = [self.tf.TensorShape(s) for s in shapes or [None] * len(types)]
        return list(self.R.OptionalGetValue(optional=optional, output_types=list(types), output_shapes=shapes))

    def zeros(self, optional):
        return self.R.ZerosLike(x=optional)

    def add(self, *optionals):
        return self.R.AddN(inputs=list(optionals))

    def hidden(self, x):
        return self.tf.compat.v1.placeholder_with_default(x, None)

    def list(self, x):
        return self.R.TensorListFromTensor(tensor=x, element_shape=self.tf.constant(-1))

    def stack(self, handle, dtype="float32"):
        return self.R.TensorListStack(input_handle=handle, element_shape=self.tf.constant(-1), element_dtype=dtype)


def optionals(steps, *feeds, name):
    def build(tf, *x):
        return steps(Optionals(tf), *x)
    return Graph(build, *feeds, name=name, texts=True)


@spec("OptionalFromValue", "OptionalGetValue", "OptionalHasValue")
def components(g, op):
    shapes = ((), (1,), (0,), (3,), (2, 2), (2, 0, 3), (1, 2, 1, 2, 1, 2, 1, 2))
    for dtype, shape in itertools.product(TYPES, shapes):
        x = g.values(dtype, shape)
        if op == "OptionalHasValue":
            yield optionals(lambda o, x: [o.has(o.of(x)), o.has(o.of(x, x)), o.has(o.none())], x, name=f"{dtype} {shape}")
            continue
        y = g.values("float32", (2,))
        partial = [None] + list(shape[1:]) if shape else []

        def steps(o, x, y, dtype=dtype, partial=partial):
            both = o.of(y, x)
            return [o.get(o.of(x), dtype), o.get(both, "float32", dtype), o.get(both, "float32", dtype, shapes=[[None], partial])]
        yield optionals(steps, x, y, name=f"{dtype} {shape}")
    for n in (1, 2, 7, 40):
        values = [g.values("float32", (k % 3,)) for k in range(n)]
        yield optionals(lambda o, *x: [*o.get(o.of(*x), *["float32"] * len(x)), o.has(o.of(*x))], *values, name=f"{n} components")


@spec("OptionalGetValue")
def mismatches(g, op):
    kept = {"float32": np.float32([1, 2]), "int32": np.int32([[3], [4]]), "string": np.array([b"a", b"b"], object), "bool": np.bool_(True)}
    asked = ((None,), ([],), ([2],), ([3],), ([None],), ([None, None],), ([2, 1],), ([None, 1],), ([None, 2],))
    for (dtype, x), want, (shape,) in itertools.product(kept.items(), ("float32", "int32", "string", "bool", "float64"), asked):
        yield optionals(lambda o, x: [[*o.get(o.hidden(o.of(x)), want, shapes=[shape])]], x, name=f"{dtype} as {want} {shape}")
    x, y = kept["float32"], kept["int32"]
    for types in (["float32"], ["int32"], ["float32", "int32"], ["int32", "float32"], ["float32", "float64"], ["float32", "int32", "bool"]):
        yield optionals(lambda o, x, y: [[*o.get(o.hidden(o.of(x, y)), *types)]], x, y, name=f"two as {types}")
        yield optionals(lambda o: [[*o.get(o.hidden(o.none()), *types)]], name=f"none as {types}")
    for shapes in ([[3], None], [[2], [2]], [[None], [None, 1]], [[None, 1], [None]]):
        yield optionals(lambda o, x, y: [[*o.get(o.hidden(o.of(x, y)), "float32", "float32", shapes=shapes)]], x, y, name=f"order {shapes}")


@spec("OptionalNone")
def absent(g, op):
    for n in range(1, 20):
        yield optionals(lambda o: [[o.has(o.none()) for _ in range(n)], [*o.get(o.hidden(o.none()), *["float32"] * n)]], name=f"none {n}")
    for dtype, yes in itertools.product(TYPES, (True, False)):
        def steps(o, x, yes):
            made = o.tf.cond(yes, lambda: o.of(x), lambda: o.none())
            return [[o.has(made)], [*o.get(made, dtype)], [o.has(o.zeros(made))], [o.has(o.add(made, o.none()))]]
        x = g.values(dtype, (3,), special=False) if dtype != "string" else g.values(dtype, (3,))
        yield optionals(steps, x, np.bool_(yes), name=f"{dtype} {yes}")


@spec("OptionalFromValue")
def sums(g, op):
    for dtype in TYPES:
        x, y = (g.values(dtype, (2, 3)) for _ in range(2))

        def steps(o, x, y):
            one = o.of(x, y)
            return [[*o.get(o.zeros(one), dtype, dtype)], [*o.get(o.add(one, o.of(y, x)), dtype, dtype)], [*o.get(o.add(one), dtype, dtype)]]
        yield optionals(steps, x, y, name=f"sums of {dtype}")
    x, y = np.float32([1, 2]), np.float32([[1, 2], [3, 4]])

    def steps(o, x, y):
        one, two = o.hidden(o.of(x)), o.hidden(o.of(x, x))
        whole = o.hidden(o.of(o.tf.cast(x, "int32")))
        return [[o.has(o.add(one, two))], [o.has(o.add(one, o.none()))], [o.has(o.add(o.none(), one))], [o.has(o.add(o.none(), o.none()))],
                [o.has(o.add(one, whole))], [o.has(o.add(one, o.hidden(o.of(y))))], [o.get(o.add(one, one, one), "float32")[0]]]
    yield optionals(steps, x, y, name="sums that do not fit")

    def steps(o, x, y):
        nested = o.of(o.of(x, y), o.list(y))
        inner, rows = o.get(nested, "variant", "variant")
        zero, zeros = o.get(o.zeros(nested), "variant", "variant")
        twice, both = o.get(o.add(nested, nested), "variant", "variant")
        return [[*o.get(inner, "float32", "float32"), o.stack(rows)], [*o.get(zero, "float32", "float32"), o.stack(zeros)],
                [*o.get(twice, "float32", "float32"), o.stack(both)]]
    yield optionals(steps, x, y, name="nested")

    def steps(o, x, y):
        lists = o.R.TensorListReserve(element_shape=o.tf.constant(-1), num_elements=2, element_dtype="variant")
        lists = o.R.TensorListSetItem(input_handle=lists, index=0, item=o.list(y))
        lists = o.R.TensorListSetItem(input_handle=lists, index=1, item=o.of(x))

        def item(handle, k):
            return o.R.TensorListGetItem(input_handle=handle, index=k, element_shape=o.tf.constant(-1), element_dtype="variant")
        zeros = o.zeros(lists)
        return [[o.stack(item(zeros, 0))], [*o.get(item(zeros, 1), "float32")], [*o.get(item(lists, 1), "float32")]]
    yield optionals(steps, x, y, name="zeros of a list of variants")

    def steps(o, x, y):
        empty, texts = o.R.EmptyTensorMap(), o.list(o.tf.as_string(x))
        vector = o.hidden(o.R.Pack(values=[o.of(x), o.none()]))
        return [[o.has(o.list(x))], [*o.get(empty, "float32")], [o.has(vector)], [*o.get(vector, "float32")], [*o.get(vector[0], "float32")],
                [o.has(vector[1])], [o.R.TensorListLength(input_handle=o.none())], [o.R.TensorMapSize(input_handle=o.none())],
                [o.R.TensorListLength(input_handle=o.zeros(texts))]]
    yield optionals(steps, x, y, name="other variants")


# ---- composite tensors ----


def metadata(*fields):
    """Returns a CompositeTensorVariantMetadata as bytes: the class of the type, or bytes that are put after it."""
    spec = b"".join(f if isinstance(f, bytes) else b"\x08" + bytes([f]) for f in fields)
    return b"\x0a" + bytes([len(spec)]) + spec


SPARSE, RAGGED, UNKNOWN = metadata(1), metadata(3), b""


def encode(tf, components, text=RAGGED):
    return tf.raw_ops.CompositeTensorVariantFromComponents(components=list(components), metadata=text)


def decode(tf, encoded, *types, text=RAGGED):
    return list(tf.raw_ops.CompositeTensorVariantToComponents(encoded=encoded, metadata=text, Tcomponents=list(types)))


def composites(steps, *feeds, name):
    return Graph(lambda tf, *x: steps(tf, *x), *feeds, name=name, texts=True)


@spec("CompositeTensorVariantFromComponents", "CompositeTensorVariantToComponents")
def composite_tensors(g, op):
    for dtype, shape in itertools.product(TYPES, ((), (1,), (0,), (3,), (2, 2), (2, 0, 3), (1, 2, 1, 2, 1, 2, 1, 2))):
        x, y = g.values(dtype, shape), g.values("int64", (3,))
        yield composites(lambda tf, x, y, dtype=dtype: decode(tf, encode(tf, [x, y, x]), dtype, "int64", dtype), x, y, name=f"{dtype} {shape}")
    x, y = np.float32([1, 2]), np.int32(3)
    for n in (0, 1, 2, 9, 40):
        values = [g.values("float32", (k % 3,)) for k in range(n)]
        yield composites(lambda tf, *x: [tf.constant(1), *decode(tf, encode(tf, x), *["float32"] * len(x))], *values, name=f"{n} components")
    classes = [metadata(k) for k in range(16)] + [b"", metadata(), metadata(1, 3), metadata(b"\x1a\x01x"), metadata(3, b"\x20\x02"), metadata(3, b"\x12\x02\x0a\x00"),
                                                  metadata(1) + metadata(3), metadata(3) + metadata(), metadata(3) + b"\x10\x01"]
    for a, b in itertools.chain(itertools.product(classes, (RAGGED, UNKNOWN)), itertools.product((SPARSE, UNKNOWN), classes)):
        yield composites(lambda tf, x, y, a=a, b=b: decode(tf, encode(tf, [x, y], a), "float32", "int32", text=b), x, y, name=f"classes {a} {b}")
    for text in (b"\xff", b"x", b"\x0a\x05\x08\x01", b"\x0a", b"\x00", b"\x0a\x02\x08", b"\x0a\x01\x08", b"\x08\x05", b"\x0d\x00\x00\x00\x00", metadata(b"\x0b"), metadata(b"\x08")):
        yield composites(lambda tf, x, y, text=text: decode(tf, encode(tf, [x, y], text), "float32", "int32", text=UNKNOWN), x, y, name=f"metadata {text}")
        yield composites(lambda tf, x, y, text=text: decode(tf, encode(tf, [x, y], UNKNOWN), "float32", "int32", text=text), x, y, name=f"other metadata {text}")
    for types in ((), ("float32",), ("float32", "int64"), ("int32", "float32"), ("float32", "int32", "int32"), ("string", "variant")):
        yield composites(lambda tf, x, y, types=types: decode(tf, encode(tf, [x, y]), *types), x, y, name=f"types {types}")
    several = {"two": lambda e: [e, e], "ragged first": lambda e: [e, None], "none": lambda e: []}
    for name, of in several.items():
        def stacked(tf, x, y, of=of):
            both = [encode(tf, [x, y]) if e is None else e for e in of(encode(tf, [y, x]))]
            variants = tf.stack(both) if both else tf.stack([encode(tf, [x, y])])[:0]
            return decode(tf, variants, "int32", "float32")
        yield composites(stacked, x, y, name=f"stack {name}")
    yield composites(lambda tf, x, y: decode(tf, tf.raw_ops.OptionalNone(), "float32", "int32"), x, y, name="optional")
    yield composites(lambda tf, x, y: decode(tf, decode(tf, encode(tf, [encode(tf, [x, y])]), "variant")[0], "float32", "int32"), x, y, name="nested")
    yield composites(lambda tf, x, y: decode(tf, tf.cond(y > 0, lambda: encode(tf, [x, y]), lambda: encode(tf, [x * 2, y])), "float32", "int32"), x, y, name="branch")
    yield composites(lambda tf, x, y: decode(tf, tf.while_loop(lambda e: decode(tf, e, "float32", "int32")[1] < 9, lambda e: [encode(
        tf, [v + 1 for v in decode(tf, e, "float32", "int32")])], [encode(tf, [x, y])])[0], "float32", "int32"), x, y, name="loop")
    yield composites(lambda tf, x, y: [tf.raw_ops.ZerosLike(x=encode(tf, [x, y]))], x, y, name="zeros")
    yield composites(lambda tf, x, y: [tf.raw_ops.AddN(inputs=[encode(tf, [x, y]), encode(tf, [x, y])])], x, y, name="sum")
