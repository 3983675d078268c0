"""Test cases for tensor maps, whose variants pass from node to node of a run. The order of a map's keys is not
specified. Cases with many keys therefore compare the sum of the keys, or no keys if the keys are floats or strings."""

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
