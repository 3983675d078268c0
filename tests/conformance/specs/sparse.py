"""Test cases for sparse tensors (conversion to dense, reshaping, filling, crossing) and embedding bags."""

from spec import *


def s(*v):
    return np.array(list(v) + [None], object)[:-1]


def sparse(g, shape, dtype="int64", fill=0.4, ordered=True):
    """Returns the indices, values and shape of a random sparse tensor."""
    mask = g.rng.random(shape) < fill
    indices = np.argwhere(mask).astype(np.int64)
    if not ordered:
        g.rng.shuffle(indices)
    return indices, g.values(dtype, (len(indices),), special=False), np.int64(shape)


@spec("SparseToDense")
def to_dense(g, op):
    for dtype in ("float32", "int64", "string", "bool", "bfloat16", "complex64"):
        for shape in ((5,), (3, 4), (2, 3, 4), (0, 3)):
            indices, values, dense = sparse(g, shape, dtype)
            default = g.values(dtype, (), special=False)
            yield Case(indices, dense, values, default)
            yield Case(indices.astype(np.int32), dense.astype(np.int32), values, default, validate_indices=False)
            yield Case(indices, dense, g.values(dtype, (), special=False), default)
    one = np.int64([7])
    yield Case(np.int64(2), np.int64([5]), np.int64(3), np.int64(0))
    yield Case(np.int64([0, 2]), np.int64([5]), np.int64([3, 4]), np.int64(9))
    bad = [([[0], [0]], [5]), ([[1], [0]], [5]), ([[5]], [5]), ([[-1]], [5]), ([[0, 1]], [5]), ([[[0]]], [5]), ([[0, 5]], [2, 3]), ([[1, 0], [0, 2]], [2, 3]),
           ([[0]], [[5]]), ([[0]], [-5])]
    for indices, shape in bad:
        indices = np.int64(indices)
        values = np.int64([1] * (indices.shape[0]))
        for check in (True, False):
            yield Case(indices, np.int64(shape), values, np.int64(0), validate_indices=check)
    yield Case(np.int64([[0]]), np.int64([5]), np.int64([1, 2]), np.int64(0))
    yield Case(np.int64([[0]]), np.int64([5]), one, one)
    yield Case(np.int64([[0]]), np.int64([5]), np.int64([[1]]), np.int64(0))


@spec("SparseReshape")
def reshape(g, op):
    indices, _, shape = sparse(g, (2, 3, 4))
    for to in ([24], [4, 6], [6, -1], [-1], [2, 3, 4], [1, 24, 1], [-1, 2, 2, 2], [5], [-1, 5], [-1, -1], [0, -1], [-2, 12], [24, 1, 1, 1, 1, 1, 1]):
        yield Case(indices, shape, np.int64(to))
    yield Case(np.zeros((0, 2), np.int64), np.int64([0, 3]), np.int64([3, 0]))
    yield Case(np.zeros((0, 2), np.int64), np.int64([0, 3]), np.int64([-1, 3]))
    yield Case(np.zeros((0, 2), np.int64), np.int64([0, 3]), np.int64([0, -1]))
    yield Case(np.zeros((0, 2), np.int64), np.int64([4, 3]), np.int64([12]))
    yield Case(indices, np.int64([2, 3]), np.int64([6]))
    yield Case(indices[0], shape, np.int64([24]))
    yield Case(indices, np.int64([[2, 3, 4]]), np.int64([24]))
    yield Case(indices, shape, np.int64([[24]]))


@spec("SparseFillEmptyRows")
def fill(g, op):
    for dtype in ("float32", "int64", "string", "bool"):
        default = g.values(dtype, (), special=False)
        for shape in ((5, 3), (1, 4), (7, 2), (6,), (3, 2, 2), (4, 0), (0, 3)):
            for density in (0.15, 0.6, 1.0):
                yield Case(*sparse(g, shape, dtype, density), default)
        indices, values, dense = sparse(g, (6, 3), dtype, ordered=False)
        yield Case(indices, values, dense, default)
    v = np.int64([1])
    for indices, values, shape, default in (
            ([[5, 0]], v, [5, 5], 0), ([[-1, 0]], v, [5, 5], 0), ([[0, 0]], v, [0, 5], 0), ([0, 0], v, [2, 5], 0), ([[0, 0]], v, [[2, 5]], 0),
            ([[0, 0]], [1, 2], [2, 5], 0), ([[0, 0]], 1, [2, 5], 0), ([[0, 0]], v, [2, 5], [0]), (np.zeros((0, 0)), [], [], 0)):
        yield Case(np.int64(indices), np.int64(values), np.int64(shape), np.int64(default))


@spec("SparseReorder")
def reorder(g, op):
    for dtype in ("float32", "string", "int64", "bool"):
        for shape in ((7,), (3, 4), (2, 3, 2), (0, 3)):
            yield Case(*sparse(g, shape, dtype, ordered=False))
            yield Case(*sparse(g, shape, dtype))
    yield Case(np.int64([1]), np.int64([1]), np.int64([3]))
    yield Case(np.int64([[1]]), np.int64([[1]]), np.int64([3]))
    yield Case(np.int64([[1]]), np.int64([1]), np.int64([[3]]))


def bags(g, op, types):
    numbered = op.endswith("NumSegments")
    for dtype in types:
        for index in ("int32", "int64"):
            for shape in ((6, 3), (4,), (5, 2, 3), (10, 300), (3, 0)):
                data = g.values(dtype, shape, lo=-10, hi=10, special=False)
                n = int(g.rng.integers(1, 40))
                indices = g.rng.integers(0, shape[0], n).astype(index)
                ids = np.sort(g.rng.integers(0, 8, n)).astype(index)
                yield Case(data, indices, ids, *([np.int32(11)] if numbered else []), rtol=1e-6 if dtype == "float32" else 1e-2 if dtype in HALFS else 1e-12)
    x = np.arange(12, dtype=types[0]).reshape(4, 3)
    i = lambda *v: np.int32(v)
    for indices, ids in ((i(), i()), (i(0, 1), i(0, 0)), (i(0, 1), i(2, 5)), (i(0, 1), i(1, 0)), (i(0, 1), i(-1, 0)), (i(0, 1), i(-2, -1)), (i(4), i(0)), (i(-1), i(0)),
                         (i(0, 1), i(0)), (np.int32([[0]]), i(0)), (i(0), np.int32([[0]])), (i(0, 1, 2), i(0, 2, 1)), (i(0, 1, 2), i(0, 3, 2))):
        for num in ([np.int32(4)], [np.int32(0)], [np.int32([4])], [np.int32(-1)]) if numbered else [[]]:
            yield Case(x, indices, ids, *num)
    yield Case(np.array(1, types[0]), i(0), i(0), *([np.int32(2)] if numbered else []))


@spec("SparseSegmentSum", "SparseSegmentSumWithNumSegments")
def segment_sum(g, op):
    yield from bags(g, op, ["float32", "float64", "int32", "int64", "uint8", "float16", "bfloat16"])


@spec("SparseSegmentMean", "SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtN", "SparseSegmentSqrtNWithNumSegments", ulps=2)
def segment_mean(g, op):
    yield from bags(g, op, ["float32", "float64", "float16", "bfloat16"])


def columns(g, rows, kinds, wide=3):
    """Returns (indices, values, shapes, dense). `kinds` has one letter per column: s or i for a sparse column of
    strings or integers, S or I for a dense column."""
    indices, values, shapes, dense = [], [], [], []
    for kind in kinds:
        dtype = "string" if kind in "sS" else "int64"
        if kind.islower():
            i, v, d = sparse(g, (rows, wide), dtype, 0.6)
            indices.append(i), values.append(v), shapes.append(d)
        else:
            dense.append(g.values(dtype, (rows, 2), special=False))
    return indices, values, shapes, dense


KINDS = ["s", "ss", "si", "is", "iii", "S", "SI", "sS", "iS", "sI", "ssSI"]


@spec("SparseCross")
def cross(g, op):
    for kinds in KINDS:
        for rows in (1, 5):
            both = columns(g, rows, kinds)
            for buckets, key in ((0, 0xDECAFCAFFE), (100, 7), (1, -3)):
                yield Case(*both, hashed_output=True, num_buckets=buckets, hash_key=key, out_type="int64", internal_type="int64")
            internal = "string"
            yield Case(*both, hashed_output=False, num_buckets=0, hash_key=0, out_type="string", internal_type=internal)
    # The type of the output decides whether values are hashed, and hashed_output is ignored.
    both = columns(g, 4, "si")
    for hashed in (True, False):
        for out in ("int64", "string"):
            for buckets in (0, 100):
                yield Case(*both, hashed_output=hashed, num_buckets=buckets, hash_key=7, out_type=out, internal_type="int64")
    yield Case(*columns(g, 0, "ss"), hashed_output=True, num_buckets=9, hash_key=1, out_type="int64", internal_type="int64")


def bad_columns(g):
    i, v, d = sparse(g, (3, 4), "string", 0.5)
    yield [i], [v[1:]], [d], []
    yield [i[0]], [v], [d], []
    yield [i[:, :1]], [v], [d], []
    yield [i], [v.reshape(-1, 1)], [d], []
    yield [i], [v], [d.reshape(1, 2)], []
    yield [i], [v], [np.int64([3, 4, 5])], []
    yield [i, i], [v, v], [d, np.int64([4, 4])], []
    yield [i], [v], [d], [s(b"a", b"b")]
    yield [i], [v], [d], [s(b"a", b"b").reshape(2, 1)]


@spec("SparseCrossV2")
def cross_v2(g, op):
    for kinds in KINDS:
        for sep in (b"_X_", b"", b"-"):
            yield Case(*columns(g, 4, kinds), s(sep).reshape(()))
    for bad in bad_columns(g):
        yield Case(*bad, s(b"-").reshape(()))
    yield Case(*columns(g, 4, "ss"), s(b"-"))


@spec("SparseCrossHashed")
def cross_hashed(g, op):
    for kinds in KINDS:
        for strong in (False, True):
            if strong and "I" in kinds:
                continue  # TensorFlow's process crashes on strong hashes of dense integers.
            for buckets in (0, 100):
                yield Case(*columns(g, 4, kinds), np.int64(buckets), np.bool_(strong), np.int64([137, -9]))
    for bad in bad_columns(g):
        yield Case(*bad, np.int64(10), np.bool_(False), np.int64([1, 2]))
    yield Case(*columns(g, 4, "ss"), np.int64([10]), np.bool_(False), np.int64([1, 2]))
    yield Case(*columns(g, 4, "ss"), np.int64(10), np.bool_([False]), np.int64([1, 2]))
    yield Case(*columns(g, 4, "ss"), np.int64(10), np.bool_(False), np.int64([1, 2, 3]))


@spec("SparseTensorDenseMatMul", rtol=1e-5)
def matmul(g, op):
    for dtype in ("float32", "float64", "int32", "complex64", "complex128"):
        for m, k, n in ((3, 4, 5), (1, 1, 1), (0, 3, 2), (3, 0, 2), (2, 3, 0), (6, 5, 33)):
            for a in (False, True):
                for b in (False, True):
                    indices, values, shape = sparse(g, (k, m) if a else (m, k), dtype)
                    dense = g.values(dtype, (n, k) if b else (k, n), special=False)
                    yield Case(indices, values, shape, dense, adjoint_a=a, adjoint_b=b)
    one, b = np.float32([1]), np.ones((2, 2), np.float32)
    for indices, values, shape, dense in (([[0, 2]], one, [2, 2], b), ([[2, 0]], one, [2, 2], b), ([[0, -1]], one, [2, 2], b), ([[0, 0]], one, [2, 3], b),
                                          ([0, 0], one, [2, 2], b), ([[0, 0]], one[0], [2, 2], b), ([[0, 0]], one, [[2, 2]], b), ([[0, 0]], one, [2, 2, 2], b),
                                          ([[9, 0]], one, [0, 2], b), ([[9, 9]], one, [2, 0], b[:0]), ([[9, 9]], one, [2, 2], b[:, :0]), ([[9, 0]], one, [2, 2], b),
                                          ([[0, 0]], one, [2, 2], one), ([[0, 0, 0]], one, [2, 2], b), ([[0, 0]], np.float32([1, 2]), [2, 2], b)):
        yield Case(np.int64(indices), np.asarray(values, np.float32), np.int64(shape), dense)


def splits(g, rows, total=None):
    lengths = g.rng.integers(0, 4, rows)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@spec("RaggedTensorToSparse")
def to_sparse(g, op):
    for dtype in ("float32", "string", "int64"):
        for t in (np.int32, np.int64):
            for rows in (0, 1, 5):
                for inner in ((), (2,), (2, 3)):
                    one = splits(g, rows)
                    yield Case([one.astype(t)], g.values(dtype, (one[-1],) + inner, special=False))
                    two = splits(g, int(one[-1]))
                    yield Case([one.astype(t), two.astype(t)], g.values(dtype, (two[-1],) + inner, special=False))
    for bad in ([], [1, 3], [0, 2, 1, 3], [0, 2], [0, 4]):
        yield Case([np.int64(bad)], np.float32([1, 2, 3]))
    for ranks in ([[[0], [2], [3]]], [[[[0]], [[2]], [[3]]]], [[0, 1, 2], [[0, 1, 3]]], [[0, 1, 2], [[0], [1], [3]]], [[]], [[[]]]):
        yield Case([np.int64(part) for part in ranks], np.float32([1, 2, 3]))
    yield Case([np.int64([0, 0]), np.int64(0)], np.zeros([0], np.float32))


@spec("RaggedTensorToTensor")
def to_tensor(g, op):
    ROWS, SPLITS, SIZE = b"VALUE_ROWIDS", b"ROW_SPLITS", b"FIRST_DIM_SIZE"
    for dtype in ("float32", "string", "int64"):
        for rows in (0, 1, 5):
            for inner in ((), (2,), (2, 3)):
                one = splits(g, rows)
                values = g.values(dtype, (one[-1],) + inner, special=False)
                default = g.values(dtype, (), special=False)
                anything = np.int64(-1)
                yield Case(anything, values, default, [one], row_partition_types=[SPLITS])
                rowids = np.repeat(np.arange(rows), np.diff(one)).astype(np.int64)
                yield Case(anything, values, default, [np.int64(rows), rowids], row_partition_types=[SIZE, ROWS])
                if inner:
                    yield Case(anything, values, g.values(dtype, inner[-1:], special=False), [one], row_partition_types=[SPLITS])
                for shape in ((-1, 2), (3, -1), (2, 6), (7, 1), (0, 0)):
                    yield Case(np.int64(shape + (-1,) * len(inner)), values, default, [one], row_partition_types=[SPLITS])
                two = splits(g, int(one[-1]))
                values = g.values(dtype, (two[-1],) + inner, special=False)
                for shape in ((-1, -1, -1), (-1, 2, -1), (4, 2, 1)):
                    yield Case(np.int32(shape + (-1,) * len(inner)), values, default, [one.astype(np.int32), two.astype(np.int32)],
                               row_partition_types=[SPLITS, SPLITS])
    for default, one in (((2,), (2, 1)), ((2,), (1, 2)), ((2,), (2, 2)), ((2,), (2, 1, 1)), ((2, 3), (2, 3, 1)), ((2, 2), (2, 2, 1)),
                         ((2, 1), (2, 3)), ((1, 2), (2, 1)), ((2, 1), (1, 2)), ((1,), (2, 3)), ((1, 1), (2,)), ((1, 2), (5, 2, 2))):
        yield Case(np.int64(-1), g.values("float32", (3,) + one, special=False), g.values("float32", default, special=False),
                   [np.int64([0, 1, 3])], row_partition_types=[SPLITS])
    # TensorFlow broadcasts the default value only if the output has elements.
    for shape, default, one in ((-1, (2,), (2, 0)), (-1, (3,), (2, 0)), (-1, (2, 3), (2, 3, 0)), (-1, (0,), (0, 4)), (-1, (0,), (1, 0)),
                                ([0, -1, -1, -1], (2,), (2, 3)), ([-1, 0, -1, -1], (2,), (2, 3)), ([-1, 1, -1, -1], (2,), (2, 3))):
        yield Case(np.int64(shape), g.values("float32", (3,) + one, special=False), g.values("float32", default, special=False),
                   [np.int64([0, 1, 3])], row_partition_types=[SPLITS], texts=True)
    v = np.float32([1, 2, 3])
    for shape, default, part in ((-1, 0, [0, 2, 3]), ([-1], 0, [0, 3]), ([-1, -1, -1], 0, [0, 3]), (-1, [0], [0, 3]), (-1, 0, []), (-1, 0, [0, 2, 1, 3])):
        yield Case(np.int64(shape), v, np.float32(default), [np.int64(part)], row_partition_types=[SPLITS])
    for shape, part in ((-1, [1, 1, 1]), (-1, [5, 1, 1]), ([2, 0], [0, 2, 1]), ([0, 2], [0, 2, 3]), (-1, [0, -2, -3]), (-1, [7, 7]), ([-1, 1], [7, 7]),
                        ([1, 1], [5]), ([1, 1], [0]), (-1, [5])):
        yield Case(np.int64(shape), v, np.float32(9), [np.int64(part)], row_partition_types=[SPLITS])
    for shape, parts in ((-1, ([0, 0], [])), ([1, 1, 1], ([0, 0], [])), ([1, 1, 1], ([0, 1], [0])), ([1, 1, 1], ([0, 0], [5])), ([1, 1, 1], ([0, 0], [5, 5]))):
        yield Case(np.int64(shape), v, np.float32(9), [np.int64(p) for p in parts], row_partition_types=[SPLITS, SPLITS])
    for shape, parts in (([0, 1], (2, [0, 5])), (-1, (-1, [0])), (-1, ([], [0])), (-1, ([2], [0, 0, 1])), (-1, ([[2]], [0, 0, 1])), (-1, (2, []))):
        yield Case(np.int64(shape), v, np.float32(9), [np.int64(p) for p in parts], row_partition_types=[SIZE, ROWS])
    for parts in ([[0], [2], [3]],), ([[[0]], [[3]]],), ([0, 1, 2], [[0, 1, 3]]), ([0, 1, 2], [[0], [1], [3]]), ([0, 0], 0):
        yield Case(np.int64(-1), v, np.float32(9), [np.int64(p) for p in parts], row_partition_types=[SPLITS] * len(parts))
    for parts in ((3, [[0, 0, 2]]), (3, [[0], [1], [2]]), (2, 1)):
        yield Case(np.int64(-1), v, np.float32(9), [np.int64(p) for p in parts], row_partition_types=[SIZE, ROWS])
    yield Case(np.int64([-1, -1, 3]), np.ones((3, 2), np.float32), np.float32(0), [np.int64([0, 3])], row_partition_types=[SPLITS])


# ---- CSR sparse matrices --------------------------------------------------------------------------


CSR_TYPES = WIDE_FLOATS + COMPLEX


def sparse_values(g, dtype, shape, share=0.4):
    """Returns small whole numbers, most of them zero, so that all sums are exact."""
    x = g.rng.integers(-4, 5, shape) * (g.rng.random(shape) < share)
    return (x + 1j * g.rng.integers(-3, 4, shape) * (x != 0) if "complex" in dtype else x).astype(dtype)


def coordinates(x):
    where = np.argwhere(x)
    return where.astype(np.int64).reshape(-1, x.ndim), x[tuple(where.T)], np.array(x.shape, np.int64)


def csr_parts(tf, m, dtype):
    """Returns the coordinates of a matrix in order, and how many there are in each matrix of the batch."""
    return [*tf.raw_ops.CSRSparseMatrixToSparseTensor(sparse_matrix=m, type=dtype), tf.raw_ops.SparseMatrixNNZ(sparse_matrix=m)]


def csr_graph(make, *arrays, name="", **how):
    """Returns a graph whose inputs have known shapes, which these ops require."""

    def build(tf, *inputs):
        for x, fed in zip(inputs, arrays):
            x.set_shape(fed.shape)
        return make(tf, *inputs)

    shown = " ".join(f"{a.dtype}{list(a.shape)}" for a in arrays)
    return Graph(build, *arrays, name=f"{shown} {name}", texts=True, **how)


def csr_of(tf, indices, values, shape):
    return tf.raw_ops.SparseTensorToCSRSparseMatrix(indices=indices, values=values, dense_shape=shape)


CSR_SHAPES = [(2, 3), (1, 1), (4, 4), (0, 3), (3, 0), (3, 2, 4), (1, 3, 3), (2, 0, 3), (2, 3, 0), (7, 5), (4, 6, 6), (33, 20)]


@spec("SparseTensorToCSRSparseMatrix")
def csr_from_sparse(g, op):
    def case(indices, values, shape):
        shape = np.array(shape, np.int64)
        indices = np.array(indices, np.int64).reshape(-1, len(shape))

        def make(tf, *parts):
            m = csr_of(tf, *parts)
            return [*csr_parts(tf, m, parts[1].dtype), tf.raw_ops.CSRSparseMatrixToDense(sparse_input=m, type=parts[1].dtype)]

        return csr_graph(make, indices, values, shape, name=f"{shape.tolist()}")

    for shape in CSR_SHAPES:
        for dtype in CSR_TYPES:
            for share in (0, 0.4, 1):
                yield case(*coordinates(sparse_values(g, dtype, shape, share)))
    for indices, values, shape in (([[1, 0], [0, 1]], [1, 2], [2, 3]), ([[0, 1], [0, 1]], [1, 2], [2, 3]), ([[0, 1], [0, 0]], [1, 2], [2, 3]),
                                   ([[0, 3]], [1], [2, 3]), ([[2, 0]], [1], [2, 3]), ([[-1, 0]], [1], [2, 3]), ([[0, -1]], [1], [2, 3]),
                                   ([[3, 0, 0]], [1], [3, 2, 3]), ([[0, 0, 0], [0, 2, 1]], [1, 2], [3, 2, 3]), ([], [], [-2, 3]), ([], [], [2**31, 3]),
                                   ([], [], [2**16, 2**16, 3]), ([], [], [0, 2, 3])):
        yield case(indices, np.float32(values), shape)


@spec("CSRSparseMatrixToDense", "CSRSparseMatrixToSparseTensor", "CSRSparseMatrixComponents", "SparseMatrixNNZ")
def csr_read(g, op):
    def case(x, dtype=None, index=0):
        def make(tf, *parts):
            m, wanted = csr_of(tf, *parts), dtype or parts[1].dtype
            if op == "SparseMatrixNNZ":
                return [tf.raw_ops.SparseMatrixNNZ(sparse_matrix=m)]
            if op == "CSRSparseMatrixToDense":
                return [tf.raw_ops.CSRSparseMatrixToDense(sparse_input=m, type=wanted)]
            if op == "CSRSparseMatrixToSparseTensor":
                return list(tf.raw_ops.CSRSparseMatrixToSparseTensor(sparse_matrix=m, type=wanted))
            return list(tf.raw_ops.CSRSparseMatrixComponents(csr_sparse_matrix=m, index=index, type=wanted))

        return csr_graph(make, *coordinates(x), name=f"{list(x.shape)} {dtype} {index}")

    for shape in CSR_SHAPES:
        for dtype in CSR_TYPES:
            for share in (0, 0.3, 0.6, 1):
                yield case(sparse_values(g, dtype, shape, share), index=shape[0] - 1 if len(shape) == 3 else 0)
    for shape in ((2, 3), (3, 2, 4)):
        x = sparse_values(g, "float32", shape, 0.7)
        for index in (-1, 0, 1, 3):
            yield case(x, index=index)
        for dtype in ("float64", "complex64"):
            yield case(x, dtype)


@spec("DenseToCSRSparseMatrix")
def csr_from_dense(g, op):
    def case(x, indices):
        def make(tf, x, i):
            m = tf.raw_ops.DenseToCSRSparseMatrix(dense_input=x, indices=i)
            return csr_parts(tf, m, x.dtype)

        return csr_graph(make, x, np.array(indices, np.int64).reshape(-1, x.ndim))

    for shape in CSR_SHAPES:
        for dtype in CSR_TYPES:
            for share in (0, 0.3, 1):
                x = sparse_values(g, dtype, shape, 0.7)
                yield case(x, np.argwhere(g.rng.random(shape) < share))
    x = sparse_values(g, "float32", (2, 3))
    for indices in ([[1, 1], [0, 0]], [[2, 0]], [[0, 0], [0, 0]], [[-1, 0]], [[0, 1], [1, 3]]):
        yield case(x, indices)


@spec("SparseMatrixTranspose")
def csr_transpose(g, op):
    for shape in CSR_SHAPES:
        for dtype in CSR_TYPES:
            for flag in (False, True):
                def make(tf, *parts, flag=flag):
                    m = tf.raw_ops.SparseMatrixTranspose(input=csr_of(tf, *parts), conjugate=flag, type=parts[1].dtype)
                    return csr_parts(tf, m, parts[1].dtype)

                yield csr_graph(make, *coordinates(sparse_values(g, dtype, shape)), name=f"{flag}")


@spec("SparseMatrixMatMul", rtol=1e-5)
def csr_product(g, op):
    def case(a, b, **attrs):
        def make(tf, i, v, s, b):
            return [tf.raw_ops.SparseMatrixMatMul(a=csr_of(tf, i, v, s), b=b, **attrs)]

        return csr_graph(make, *coordinates(a), b, name=f"{list(a.shape)} {attrs}")

    flags = [{}, {"transpose_a": True}, {"adjoint_a": True}]
    flags_b = [{}, {"transpose_b": True}, {"adjoint_b": True}]
    flags_out = [{}, {"transpose_output": True}, {"conjugate_output": True}, {"transpose_output": True, "conjugate_output": True}]
    for a_flags in flags:
        for b_flags in flags_b:
            for out_flags in flags_out:
                for dtype in ("float32", "complex64") if out_flags else CSR_TYPES:
                    for batch in ((), (3,)):
                        n, k, m = (int(x) for x in g.rng.integers(1, 8, 3))
                        a = sparse_values(g, dtype, batch + ((k, n) if a_flags else (n, k)))
                        b = sparse_values(g, dtype, batch + ((m, k) if b_flags else (k, m)), 1)
                        yield case(a, b, **a_flags, **b_flags, **out_flags)
    for shape, other in (((2, 3), (2, 2)), ((3, 2, 3), (2, 3, 2)), ((3, 2, 3), (1, 3, 2)), ((2, 3), (3, 0)), ((3, 0), (0, 2)), ((40, 30), (30, 50)), ((2, 3, 0), (2, 0, 2)),
                         ((0, 2, 3), (0, 3, 2))):  # If a matrix has no rows, TensorFlow divides by zero.
        yield case(sparse_values(g, "float32", shape), sparse_values(g, "float32", other, 1))
        yield case(sparse_values(g, "float32", shape), sparse_values(g, "float32", other, 1), transpose_b=True)
        yield case(sparse_values(g, "float32", shape), sparse_values(g, "float32", other, 1), transpose_a=True)
    yield case(sparse_values(g, "float32", (2, 3)), sparse_values(g, "float64", (3, 2), 1))
    some = g.rng.uniform(-3, 3, (30, 40)).astype(np.float32) * (g.rng.random((30, 40)) < 0.3)
    yield case(some, g.rng.uniform(-3, 3, (40, 9)).astype(np.float32))


@spec("SparseMatrixSparseMatMul", rtol=1e-5)
def csr_sparse_product(g, op):
    def case(a, b, dtype=None, **attrs):
        def make(tf, *x):
            dtype_ = dtype or x[1].dtype
            m = tf.raw_ops.SparseMatrixSparseMatMul(a=csr_of(tf, *x[:3]), b=csr_of(tf, *x[3:]), type=dtype_, **attrs)
            return csr_parts(tf, m, dtype_)

        return csr_graph(make, *coordinates(a), *coordinates(b), name=f"{list(a.shape)} {list(b.shape)} {dtype} {attrs}")

    for a_flags in ({}, {"transpose_a": True}, {"adjoint_a": True}):
        for b_flags in ({}, {"transpose_b": True}, {"adjoint_b": True}):
            for dtype in CSR_TYPES:
                for batch in ((), (3,)):
                    for most in (3, 9):
                        n, k, m = (int(x) for x in g.rng.integers(1, most, 3))
                        yield case(sparse_values(g, dtype, batch + ((k, n) if a_flags else (n, k))),
                                   sparse_values(g, dtype, batch + ((m, k) if b_flags else (k, m))), **a_flags, **b_flags)
    for shape, other in (((2, 3), (2, 3)), ((3, 2, 3), (2, 3, 2)), ((2, 3), (3, 0)), ((0, 3), (3, 2)), ((3, 0), (0, 2)), ((40, 30), (30, 50)), ((2, 0, 3), (2, 3, 1))):
        yield case(sparse_values(g, "float32", shape), sparse_values(g, "float32", other))
        yield case(sparse_values(g, "float32", shape), sparse_values(g, "float32", other), transpose_b=True)
    yield case(np.float32([[1, 1]]), np.float32([[1], [-1]]))
    yield case(sparse_values(g, "float32", (2, 3)), sparse_values(g, "float32", (3, 2)), dtype="float64")
    yield case(sparse_values(g, "float32", (2, 3), 1), sparse_values(g, "float64", (3, 2), 1), dtype="float32")


@spec("SparseMatrixSparseCholesky", rtol=1e-4)
def csr_cholesky(g, op):
    def case(a, permutation, dtype=None):
        def make(tf, i, v, s, p):
            dtype_ = dtype or v.dtype
            m = tf.raw_ops.SparseMatrixSparseCholesky(input=csr_of(tf, i, v, s), permutation=p, type=dtype_)
            return csr_parts(tf, m, dtype_)

        return csr_graph(make, *coordinates(a), np.array(permutation, np.int32), name=f"{list(a.shape)} {dtype}")

    def definite(dtype, shape, share=0.2):
        x = sparse_values(g, dtype, shape, share)
        x = x + np.conj(np.swapaxes(x, -1, -2))
        return (x * (1 - np.eye(shape[-1])) + np.eye(shape[-1]) * (np.abs(x).sum(-1) + 1)[..., None]).astype(dtype)

    for dtype in CSR_TYPES:
        for n in (1, 2, 3, 5, 8, 13, 30):
            for share in (0, 0.1, 0.3, 1):
                yield case(definite(dtype, (n, n), share), g.rng.permutation(n))
                yield case(definite(dtype, (3, n, n), share), [g.rng.permutation(n) for _ in range(3)])
    good = definite("float32", (4, 4), 0.5)
    yield case(good, np.arange(4))
    yield case(np.tril(good), np.arange(4))
    yield case(np.tril(good), [2, 1, 0, 3])
    yield case(np.triu(good), np.arange(4))
    yield case(np.triu(good), [2, 1, 0, 3])
    for dtype in CSR_TYPES:  # Only the lower triangle is read, and only the real part of the diagonal.
        x = definite(dtype, (6, 6), 0.5)
        yield case(np.tril(x) + np.triu(sparse_values(g, dtype, (6, 6)), 1), g.rng.permutation(6))
        yield case(np.tril(x), g.rng.permutation(6))
    yield case(good, np.arange(3))
    yield case(good, [np.arange(4)])
    yield case(good, np.arange(4), dtype="float64")
    yield case(-good, np.arange(4))
    yield case(np.diag(np.float32([1, 2, -1, 3])), np.arange(4))
    yield case(np.diag(np.float32([1, 2, 0, 3])), np.arange(4))
    yield case(np.float32([[0, 1], [1, 1]]), np.arange(2))
    yield case(sparse_values(g, "float32", (2, 3)), np.arange(2))
    yield case(definite("float32", (2, 3, 3)), [np.arange(3)] * 3)


def factor_size(pattern, order):
    """Returns how many values the Cholesky factor of a permuted matrix has at most."""
    x = (pattern | pattern.T)[np.ix_(order, order)]
    for k in range(len(x)):
        below = np.flatnonzero(x[:, k])
        below = below[below > k]
        x[np.ix_(below, below)] = True
    return np.tril(x, -1).sum()


def orders_agree(case, theirs, ours):
    """An order must be a permutation, and not lead to many more values than TensorFlow's, which breaks ties in another way."""
    theirs, ours = theirs[0], ours[0]
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.dtype}{ours.shape}, not {theirs.dtype}{theirs.shape}"
    for pattern, a, b in zip(case.patterns, np.atleast_2d(theirs), np.atleast_2d(ours)):
        if sorted(b) != list(range(len(b))):
            return "not a permutation"
        if factor_size(pattern, b) > 1.1 * factor_size(pattern, a) + 6:
            return f"{factor_size(pattern, b)} values, not {factor_size(pattern, a)}"
    return None


@spec("SparseMatrixOrderingAMD")
def csr_order(g, op):
    def case(a, how=orders_agree):
        made = csr_graph(lambda tf, *parts: [tf.raw_ops.SparseMatrixOrderingAMD(input=csr_of(tf, *parts))], *coordinates(a), name=f"{list(a.shape)}", check=how)
        made.patterns = np.tril(a if a.ndim == 3 else a[None]) != 0
        return made

    for dtype in CSR_TYPES:
        for n in (1, 2, 3, 5, 8, 20):
            for share in (0, 0.1, 0.3, 1):
                yield case(sparse_values(g, dtype, (n, n), share))
                yield case(sparse_values(g, dtype, (2, n, n), share))
    grid = np.zeros((144, 144), np.float32)
    for k in range(144):
        grid[k, k] = 4
        for other in [k - 12] * (k >= 12) + [k - 1] * (k % 12 > 0):
            grid[k, other] = grid[other, k] = -1
    yield case(grid)
    yield case(grid[np.ix_(g.rng.permutation(144), g.rng.permutation(144))])
    arrow = np.eye(60, dtype=np.float32)
    arrow[:, 0] = 1
    yield case(arrow)
    for n, share in ((60, 0.03), (60, 0.06), (100, 0.03), (100, 0.01), (150, 0.02)):
        yield case(sparse_values(g, "float64", (n, n), share) + np.eye(n))
    for n in (0, 3, 6):  # These orders are TensorFlow's.
        yield case(np.eye(n, dtype=np.float32), None)
        yield case(np.ones((n, n), np.float32), None)
    for shape in ((2, 3), (3, 2, 3), (0, 2, 2)):
        yield case(sparse_values(g, "float32", shape), None)


@spec("SparseMatMul", rtol=1e-5)
def sparse_mat_mul(g, op):
    def matrix(dtype, shape, kept, **how):
        x = g.values("float32", shape, **how)
        return np.where(g.rng.random(shape) < kept, x, np.float32(0)).astype(dtype_of(dtype))

    for ta in ("float32", "bfloat16"):
        for tb in ("float32", "bfloat16"):
            for turns in range(4):
                for flags in range(4):
                    how = dict(transpose_a=bool(turns & 1), transpose_b=bool(turns & 2), a_is_sparse=bool(flags & 1), b_is_sparse=bool(flags & 2))
                    for m, k, n in ((4, 5, 3), (33, 70, 21), (1, 9, 1), (5, 1, 300), (3, 0, 2), (0, 3, 2), (2, 3, 0)):
                        a = matrix(ta, (k, m) if turns & 1 else (m, k), 0.3, special=False, lo=-4, hi=4)
                        b = matrix(tb, (n, k) if turns & 2 else (k, n), 0.6, special=False, lo=-4, hi=4)
                        yield Case(a, b, **how)
    for flags in range(4):
        for bad in (np.nan, np.inf):
            for a, b in (([[0, 1]], [[bad], [2]]), ([[bad, 1]], [[0], [2]]), ([[0, bad]], [[1], [2]])):
                yield Case(np.float32(a), np.float32(b), a_is_sparse=bool(flags & 1), b_is_sparse=bool(flags & 2))
    one = np.ones((2, 3), np.float32)
    for a, b in ((one, one), (one[None], one), (one, one[None]), (one[0], one), (one, one[0]), (np.float32(1), one)):
        yield Case(a, b, texts=True)
        yield Case(a, b, transpose_a=True, texts=True)
