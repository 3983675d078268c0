"""Test cases for ops on sparse tensors in coordinate format: merging, slicing, concatenation, splitting, reductions,
serialisation, and maps that stay in a session."""

import itertools

from spec import *

NUMBER = itertools.count()
SHAPES = ((5,), (3, 4), (2, 3, 4), (1, 1, 1, 1), (0, 3), (40, 3), (2, 1, 2, 1, 2, 1, 2, 2))


def sparse(g, shape, dtype="int64", fill=0.4, ordered=True, special=False):
    """Returns the indices, values and shape of a random sparse tensor."""
    indices = np.argwhere(g.rng.random(shape) < fill).astype(np.int64)
    if not ordered:
        g.rng.shuffle(indices)
    return indices, g.values(dtype, (len(indices),), special=special), np.int64(shape)


def malformed(g, rank=2):
    """Yields sparse tensors whose three parts are inconsistent, or that have indices out of bounds."""
    i, v, s = np.int64([[0, 1], [1, 0], [1, 2], [2, 1]]), np.float32([1, 2, 3, 4]), np.int64([3, 4])
    yield from ((i[0], v, s), (i, v[:2], s), (i, v.reshape(2, 2), s), (i, v, s.reshape(1, 2)), (i, v, np.int64([3, 4, 5])), (i, v, np.int64([3])), (i[:, :1], v, s))
    yield from ((i, v, np.int64([-3, 4])), (i, v, np.int64([2**62, 2**62])), (i, v, np.int64([2, 4])), (i, v, np.int64([3, 2])), (i, v, np.int64([0, 4])), (i - 1, v, s))
    yield from ((i[::-1].copy(), v, s), (i[:0], v[:0], s), (i[:0], v[:0], np.int64([-3, 4])), (i[:0], v[:0], np.int64([0, 4])), (i[[0, 0, 1, 1]], v, s))
    yield from ((np.zeros((2, 0), np.int64), v[:2], s[:0]), (np.zeros((0, 0), np.int64), v[:0], s[:0]), (np.int64(1), v[:1], s), (i, np.float32(1), s), (i, v, np.int64(3)))


TWO = np.int64([[0, 1], [1, 1], [2, 1]]), np.float32([5, -6, 7]), np.int64([3, 4])
ADDABLE = {"int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "float32": "float32", "float64": "float64", "complex64": "float32",
           "complex128": "float64"}


@spec("SparseAdd", ulps=1)
def add(g, op):
    for dtype, real in ADDABLE.items():
        for shape in SHAPES:
            for limit in (0, 3, -1):
                for ordered in (True, False):
                    yield Case(*sparse(g, shape, dtype, ordered=ordered), *sparse(g, shape, dtype, ordered=ordered), np.array(limit, real))
        if not dtype.startswith("complex"):
            yield Case(*sparse(g, (9, 9), dtype, special=True), *sparse(g, (9, 9), dtype, special=True), np.array(1, real))
            lowest = np.array([np.iinfo(dtype).min if dtype.startswith("int") else -np.inf], dtype)
            yield Case(np.int64([[1]]), lowest, np.int64([2]), np.int64([[1]]), np.zeros(1, dtype), np.int64([2]), np.array(1, real))
    for bad in malformed(g):
        yield Case(*bad, *TWO, np.float32(0))
        yield Case(*TWO, *bad, np.float32(0))
        yield Case(*bad, *bad, np.float32(0))
    yield Case(*TWO, *TWO, np.float32([0]), texts=True)
    yield Case(*TWO, *TWO, np.float32(np.nan))


# Whether TensorFlow treats 0 or -0 as the larger number depends on the number of values.
@spec("SparseSparseMaximum", "SparseSparseMinimum", signs=False)
def extreme(g, op):
    for dtype in REALS:
        for shape in SHAPES:
            for ordered in (True, False):
                yield Case(*sparse(g, shape, dtype, ordered=ordered, special=True), *sparse(g, shape, dtype, ordered=ordered, special=True))
    for bad in malformed(g):
        yield Case(*bad, *TWO)
        yield Case(*TWO, *bad)
        yield Case(*bad, *bad)


EVERY = ("float32", "int64", "string", "bool", "bfloat16", "complex64", "uint8")


@spec("SparseSlice")
def slice_(g, op):
    for dtype in EVERY:
        for shape in SHAPES:
            for ordered in (True, False):
                start, size = (g.rng.integers(low, np.array(shape) + 2).astype(np.int64) for low in (-1, 0))
                yield Case(*sparse(g, shape, dtype, ordered=ordered), start, size)
                yield Case(*sparse(g, shape, dtype, ordered=ordered), np.int64([0] * len(shape)), np.int64(shape))
    s, top = (TWO[0], TWO[1], TWO[2]), 2**63 - 1
    for start, size in (([0, 0], [-1, 2]), ([5, 0], [2, 2]), ([0], [2]), ([0, 0, 0], [2, 2, 2]), ([[0, 0]], [2, 2]), ([0, 0], [[2, 2]]), ([0, 0], [2]),
                        ([top, 0], [1, 1]), ([1, 0], [top, top]), ([-2, 0], [top, top]), ([-top - 1, 0], [top, 4]), ([-3, 0], [5, 4]), ([3, 4], [1, 4]), ([0, 0], [0, 0])):
        yield Case(*s, np.int64(start), np.int64(size), texts=True)
    for bad in malformed(g):
        n = int(np.size(bad[2]))
        yield Case(*bad, np.int64([0] * n), np.int64([2] * n))
        yield Case(*bad, np.int64([0, 1]), np.int64([2, 9]))


@spec("SparseConcat")
def concat(g, op):
    for dtype in EVERY:
        for shape in SHAPES:
            for axis in range(-len(shape), len(shape)):
                parts = []
                for _ in range(int(g.rng.integers(2, 4))):
                    dim = list(shape)
                    dim[axis] = int(g.rng.integers(0, 4))
                    parts.append(sparse(g, dim, dtype, ordered=bool(g.rng.integers(0, 2))))
                yield Case(*([p[k] for p in parts] for k in range(3)), concat_dim=axis)
    two = lambda a, b, axis=0: Case([a[0], b[0]], [a[1], b[1]], [a[2], b[2]], concat_dim=axis)
    i, v, s = TWO
    for axis in (2, -3, 2**31, -2**40):
        yield two(TWO, TWO, axis)
    yield two(TWO, (i, v, np.int64([3, 7])), 0)
    yield two(TWO, (i, v, np.int64([3, 7])), 1)
    for big in ([2**62, 4], [3, 2**63 - 1], [2**62, 2**62], [2**62, 2], [2**61, 4]):
        yield two((i, v, np.int64(big)), (i, v, np.int64(big)), 0)
        yield two((i, v, np.int64(big)), (i, v, np.int64(big)), 1)
    for bad in malformed(g):
        for axis in (0, 1, -1):
            yield two(bad, TWO, axis)
            yield two(TWO, bad, axis)
            yield two(bad, bad, axis)


@spec("SparseSplit")
def split(g, op):
    for dtype in EVERY:
        for shape in SHAPES:
            for axis in range(-len(shape), len(shape)):
                for n in {1, 2, min(3, shape[axis]), shape[axis]} - {0}:
                    yield Case(np.int64(axis), *sparse(g, shape, dtype, ordered=bool(g.rng.integers(0, 2))), num_split=n)
    for axis in (np.int64(2), np.int64(-3), np.int64([1]), np.int64([1, 0]), np.int64(2**63 - 1), np.int64(-2**63)):
        yield Case(axis, *TWO, num_split=2)
    for n in (4, 5, 7):
        yield Case(np.int64(1), *TWO, num_split=n, texts=True)
    for bad in malformed(g):
        for axis in (0, 1):
            for n in (1, 2):
                yield Case(np.int64(axis), *bad, num_split=n)


@spec("SparseReduceSum", "SparseReduceSumSparse", "SparseReduceMax", "SparseReduceMaxSparse", signs=False)
def reduce(g, op):
    for dtype in REALS if "Max" in op else NUMBERS:
        # TensorFlow rounds each partial sum to half precision
        how = {"rtol": 1e-2, "atol": 0.5} if dtype in HALFS else {"rtol": 1e-5}
        for shape in SHAPES:
            for keep in (False, True):
                axes = g.rng.choice(2 * len(shape), int(g.rng.integers(0, len(shape) + 1)), replace=False) - len(shape)
                yield Case(*sparse(g, shape, dtype, ordered=keep), np.int32(axes), keep_dims=keep, **how)
            yield Case(*sparse(g, shape, dtype), np.int32(range(len(shape))), **how)
        yield Case(*sparse(g, (30, 3), dtype, special=True), np.int32([1]), **how)
    for axes in ([0], 1, [0, 1, 2], [1, 1], [1, -2], [3], [-4], [[0, 1], [1, 2]], []):
        for keep in (False, True):
            yield Case(*sparse(g, (2, 3, 4), "float32"), np.int32(axes), keep_dims=keep, rtol=1e-5)
    for group in ([1, 2, np.nan], [np.nan, 1, 2], [1, np.nan, 2], [np.nan] * 3, [-np.inf] * 3, [np.inf, -np.inf, 1]):
        yield Case(np.int64([[0, 0], [0, 1], [0, 2]]), np.float32(group), np.int64([2, 3]), np.int32([1]))
    for bad in malformed(g):
        for axes in ([1], [0], [0, 1], []):
            yield Case(*bad, np.int32(axes))


@spec("SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv")
def each(g, op):
    for dtype in REALS:
        for shape in ((5,), (3, 4), (2, 3, 4), (2, 1, 2, 3), (1, 2, 1, 2, 2), (40, 3)):
            for dim in (shape, shape[-1:], (1,) * len(shape), (), shape[:-1] + (1,), (1,) + shape[1:]):
                dense = g.values(dtype, dim, lo=1, hi=9, special=False) if "Div" in op else g.values(dtype, dim)
                yield Case(*sparse(g, shape, dtype, ordered=bool(g.rng.integers(0, 2)), special="Div" not in op), dense)
    i, v, s = TWO
    for dense in (np.ones((4, 3)), np.ones((2, 4)), np.ones((3, 4, 1)), np.ones((1, 3, 4)), np.ones((0,)), np.ones((0, 4)), np.ones((1, 1, 1, 4)), np.zeros((3, 4))):
        yield Case(i, v, s, dense.astype(np.float32))
    for zero in (0, [0, 1, 1, 1], [1, 0, 1, 1]):
        yield Case(i, np.int64(v), s, np.int64(zero))
    for rank in (5, 6):
        yield Case(np.zeros((1, rank), np.int64), v[:1], np.ones(rank, np.int64), np.float32(3))
        yield Case(np.zeros((0, rank), np.int64), v[:0], np.ones(rank, np.int64), np.float32(3))
    for bad in malformed(g):
        for dense in (np.float32(3), np.ones((3, 4), np.float32), np.ones(4, np.float32)):
            yield Case(*bad, dense)


@spec("SparseTensorDenseAdd")
def dense_add(g, op):
    for dtype in NUMBERS:
        for t in (np.int32, np.int64):
            for shape in ((5,), (3, 4), (2, 3, 4), (2, 1, 2, 3), (1, 2, 1, 2, 2), (40, 3), (0, 3)):
                i, v, s = sparse(g, shape, dtype, ordered=bool(g.rng.integers(0, 2)), special=dtype not in COMPLEX)
                yield Case(i.astype(t), v, s.astype(t), g.values(dtype, shape))
    for bad in malformed(g):
        for dense in (np.float32(3), np.ones((3, 4), np.float32), np.ones(4, np.float32)):
            yield Case(*bad, dense)
    for rank in (5, 6):
        yield Case(np.zeros((1, rank), np.int64), np.float32([1]), np.ones(rank, np.int64), np.ones((1,) * rank, np.float32))


@spec("SparseSoftmax", ulps=8)
def softmax(g, op):
    for dtype in ("float16", "float32", "float64"):
        for shape in SHAPES[1:] + ((3, 30),):
            for ordered in (True, False):
                for fill in (0.2, 0.5, 1):
                    yield Case(*sparse(g, shape, dtype, fill, ordered))
        yield Case(*sparse(g, (12, 4), dtype, special=True))
    for bad in malformed(g):
        yield Case(*bad)


SERIALISED = PLAIN + ["string"]


def strings(*parts):
    """Returns the serialised form of the tensors, as DeserializeSparse reads it."""
    import tensorflow as tf

    return np.array([tf.make_tensor_proto(p).SerializeToString() for p in parts] + [None], object)[:-1]


def words(*v):
    return np.array([w.encode() for w in v] + [None], object)[:-1]


@spec("SerializeSparse")
def serialise(g, op):
    for dtype in SERIALISED:
        for shape in SHAPES:
            yield Case(*sparse(g, shape, dtype, ordered=False), out_type="string")
    for bad in malformed(g):
        yield Case(*bad, out_type="string", texts=True)


@spec("SerializeManySparse")
def serialise_many(g, op):
    for dtype in SERIALISED:
        for shape in SHAPES:
            yield Case(*sparse(g, shape, dtype), out_type="string")
    for bad in malformed(g):
        if bad[2].size < 1 or bad[2].flat[0] < 2**40:
            yield Case(*bad, out_type="string", texts=True)


@spec("DeserializeSparse", "DeserializeManySparse")
def deserialise(g, op):
    i = np.int64
    for dtype in SERIALISED:
        for shape in SHAPES:
            parts = strings(*sparse(g, shape, dtype, ordered=False))
            more = strings(*sparse(g, tuple(n + 1 for n in shape), dtype))
            yield Case(parts, dtype=dtype)
            yield Case(parts[None], dtype=dtype)
            yield Case(np.stack([parts, more]), dtype=dtype)
            yield Case(np.stack([np.stack([parts, more, parts]), np.stack([more, more, parts])]), dtype=dtype)
    v, at, size = np.float32([1, 2]), i([[0, 1], [2, 0]]), i([3, 4])
    good, tags = strings(at, v, size), dict(dtype="float32", texts=True)
    yield Case(good[0], **tags)
    for wrong in (good[:2], good[:0], np.stack([good, good])[:, :2], np.zeros((0, 3), object), np.zeros((2, 0, 3), object), good[:0].reshape(3, 0)):
        yield Case(wrong.reshape(wrong.shape), **tags)
    bad = [strings(at[0], v, size), strings(at, v[None], size), strings(at, v, size[None]), strings(at, v[:1], size), strings(at, v, i([3, 4, 5])),
           strings(at, np.int32([1, 2]), size), strings(at, words("a", "b"), size), strings(np.zeros((2, 0), i), v, i([])), strings(at - 5, v, size),
           strings(at[::-1].copy(), v, size), words("", "", ""), words("abc", "x", "y"), np.array([good[0], b"\xff", good[2]], object),
           np.array([good[0], good[1], b"\xff"], object), strings(at[0], v[None], size[None]), strings(at, v[None][:, :1], size[None]),
           strings(at, np.int32([[1]]), size), strings(at, np.int32([1]), size), strings(at, np.int32([1, 2]), i([3])), strings(at[:, :1], v, i([3]))]
    for b in bad:
        yield Case(b, **tags)
        yield Case(b[None], **tags)
        yield Case(np.stack([good, b]), **tags)
        yield Case(np.stack([b, good]), **tags)
    yield Case(strings(at, v, i([-3, 4])), **tags)
    yield Case(strings(np.int32(at), v, size), **tags)
    yield Case(strings(at, v, np.int32(size)), **tags)


@spec("SerializeSparse", "SerializeManySparse", "DeserializeSparse")
def serialised_variants(g, op):
    if op != "SerializeSparse":
        return  # the graphs for SerializeSparse also test the other ops in the list above
    for dtype in SERIALISED:
        for shape in ((3, 4), (2, 3, 4), (0, 3)):
            def build(tf, *s):
                R, parts = tf.raw_ops, dict(zip(("sparse_indices", "sparse_values", "sparse_shape"), s))
                a, b = R.SerializeSparse(**parts, out_type=tf.variant), R.SerializeManySparse(**parts, out_type=tf.variant)
                return [y for x in (a, tf.stack([a, a]), b) for y in R.DeserializeSparse(serialized_sparse=x, dtype=dtype)] if shape[0] else \
                    list(R.DeserializeSparse(serialized_sparse=a, dtype=dtype))
            yield Graph(build, *sparse(g, shape, dtype), name=f"variants {dtype} {shape}")


def program(steps, *feeds, name):
    """A graph whose steps use one map. `steps` receives three functions, which add one sparse tensor, add the rows of
    one, and take sparse tensors by their handles."""
    shared = f"map{next(NUMBER)}"

    def build(tf, *x):
        R, where = tf.raw_ops, dict(shared_name=shared)
        parts = lambda s: dict(zip(("sparse_indices", "sparse_values", "sparse_shape"), s))
        return steps(lambda s: [R.AddSparseToTensorsMap(**parts(s), **where)], lambda s: [R.AddManySparseToTensorsMap(**parts(s), **where)],
                     lambda h, dtype: list(R.TakeManySparseFromTensorsMap(sparse_handles=tf.constant(h, tf.int64), dtype=dtype, **where)), x)

    return Graph(build, *feeds, name=name)


@spec("AddSparseToTensorsMap", "AddManySparseToTensorsMap", "TakeManySparseFromTensorsMap")
def maps(g, op):
    if op != "AddSparseToTensorsMap":
        return  # the graphs for AddSparseToTensorsMap also test the other ops in the list above
    for dtype in SERIALISED:
        def steps(add, many, take, x):
            return [add(x[:3]), add(x[3:]), take([1, 0], dtype), many(x[:3]), take([2], dtype), many(x[3:]), add(x[:3]), take([5, 3, 4], dtype),
                    take([5], dtype), many(x[:3])]
        yield program(steps, *sparse(g, (3, 4), dtype), *sparse(g, (4, 3), dtype, fill=0.2), name=f"map {dtype}")
    for shape in SHAPES:
        def steps(add, many, take, x):
            return [add(x), add(x), take([1, 0], "int64"), many(x), many(x), take([2], "int64")]
        yield program(steps, *sparse(g, shape), name=f"map {shape}")
    for k, bad in enumerate(malformed(g)):
        def steps(add, many, take, x):
            return [add(x), add(TWO), take([0], "float32"), take([1], "float32")]
        yield program(steps, *bad, name=f"malformed {k}")
        if bad[2].size < 1 or bad[2].flat[0] < 2**40:
            def steps(add, many, take, x):
                return [many(x), add(TWO), take([0], "float32")]
            yield program(steps, *bad, name=f"malformed rows {k}")

    def steps(add, many, take, x):
        cube = np.zeros((1, 3), np.int64), np.float32([4]), np.int64([1, 1, 1])
        return [add(x), take([5], "float32"), take([0, 5], "float32"), take([0], "float32"), add(x), take([1, 1], "float32"), take([], "float32"),
                add(x), take([2], "int32"), take([2], "float32"), take([-1], "float32"), add(x), add(cube), take([3, 4], "float32"), take([4], "float32")]
    yield program(steps, *TWO, name="refusals")


def sequences(g, dtype, shape, n):
    """Returns `n` values at different, sorted indices, without special values so that many of them are equal."""
    total = int(np.prod(shape))
    at = np.sort(g.rng.choice(total, min(n, total), replace=False))
    return (np.stack(np.unravel_index(at, shape), 1).astype(np.int64).reshape(-1, len(shape)),
            g.values(dtype, (len(at),), lo=0, hi=3, special=False) if dtype not in FLOATS + COMPLEX
            else g.values("int32", (len(at),), lo=0, hi=3).astype(dtype_of(dtype)), np.array(shape, np.int64))


@spec("EditDistance")
def edit_distance(g, op):
    for dtype in NUMBERS + ["bool", "string"]:
        for normalize in (True, False):
            yield Case(*sequences(g, dtype, (4, 9), 20), *sequences(g, dtype, (5, 7), 20), normalize=normalize)
    for a, b in (((2, 2, 5), (2, 3, 6)), ((1, 40), (1, 50)), ((3, 2, 2, 1, 2, 3), (3, 2, 2, 1, 2, 3))):
        for n in (0, 12, 60):
            yield Case(*sequences(g, "int64", a, n), *sequences(g, "int64", b, 30))
            yield Case(*sequences(g, "int64", b, 30), *sequences(g, "int64", a, n), normalize=False)
    one = ([[0, 0]], [1], [2, 2])
    none = (np.zeros((0, 2)), [], [2, 2])
    two = ([[0, 0], [1, 0]], [1, 2], [2, 2])
    hostile = [
        (one, none), (none, one), (none, none), (one, (one[0], [1], [3, 2])), (([[5, 0]], [1], [2, 2]), one), (one, ([[5, 0]], [1], [2, 2])),
        (([[-1, 0]], [1], [2, 2]), one), (one, ([[-1, 0]], [1], [2, 2])), (([[1, 0], [0, 0], [0, 1]], [1, 2, 3], [2, 2]), two),
        (([[0, 0], [0, 0]], [1, 2], [2, 2]), two), (([[0, 7]], [1], [2, 2]), ([[0, 9]], [1], [2, 2])), (([[0]], [1], [2]), ([[0]], [1], [2])),
        ((np.zeros((1, 0)), [1], []), (np.zeros((1, 0)), [1], [])), (([[0, 0, 0]], [1], [2, 2, 2]), one), (([0, 0], [1], [2, 2]), one),
        (one, ([0, 0], [1], [2, 2])), ((one[0], [[1]], [2, 2]), one), (one, (one[0], [[1]], [2, 2])), ((one[0], [1], [[2, 2]]), one),
        (one, (one[0], [1], [[2, 2]])), ((one[0], [1, 2], [2, 2]), one), (one, (one[0], [1, 2], [2, 2])), ((one[0], [1], [2, 2, 2]), one),
        (one, (one[0], [1], [2, 2, 2])), ((one[0], [1], [-2, 2]), one), (one, (one[0], [1], [-2, 2])), ((one[0], [1], [2, -2]), (one[0], [1], [2, -2])),
        ((none[0], [], [0, 2]), (none[0], [], [0, 2])), ((one[0], [1], [0, 2]), (none[0], [], [0, 2])), ((one[0], [1], [2**62, 2]), one),
        ((one[0], [1], [2, 0]), (one[0], [1], [2, 0])), (([[0, 0, 0]], [1], [2**40, 1, 1]), ([[0, 0, 0]], [1], [1, 2**40, 1])),
        ((one[0], [[1]], [[2, 2]]), ([0], [[1]], [[2]])), ((one[0], [1, 2], [2, 2, 2]), (one[0], [1, 2], [2])),
        (([[0]], [1], [2]), (one[0], [1, 2], [2, 2])), ((one[0], [1], [2, 2]), ([[0]], [1], [-2])), ((one[0], [1], [-2, 2]), ([[0, 0, 0]], [1], [2, 2, 2])),
        (([[0, 0, 5]], [1], [2, 2, 9]), ([[0, 3, 0]], [1], [2, 2, 2])),
    ]
    for hypothesis, truth in hostile:
        at, values, shape = (np.array(v, np.int64) for v in hypothesis)
        yield Case(at, values, shape, *(np.array(v, np.int64) for v in truth), texts=True)
    nan, zeros = np.float32([np.nan, 0.0]), np.float32([np.nan, -0.0])
    at, shape = np.int64([[0, 0], [0, 1]]), np.int64([1, 2])
    yield Case(at, nan, shape, at, zeros, shape)
