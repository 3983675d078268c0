"""Test cases for gradients of ops on sparse tensors in coordinate format and of embedding bags."""

from spec import *

SHAPES = ((5,), (3, 4), (2, 3, 4), (0, 3), (40, 3))
ROW = np.int64([[0, 1], [1, 0], [1, 2]])
NONE = np.zeros((0, 2), np.int64)


def indices(g, shape, fill=0.4):
    return np.argwhere(g.rng.random(shape) < fill).astype(np.int64)


@spec("SparseAddGrad")
def add(g, op):
    for dtype in ("int8", "int16", "int32", "int64", "float32", "float64", "complex64", "complex128"):
        for shape in SHAPES:
            for kept in (1, 0.7):
                a, b = indices(g, shape), indices(g, shape)
                both = np.unique(np.concatenate([a, b]), axis=0).astype(np.int64)
                both = both[g.rng.random(len(both)) <= kept]
                yield Case(g.values(dtype, (len(both),)), a, b, both)
    one = np.float32([1, 2, 3])
    for grad, a, b, both in ((one, ROW[:2], ROW[1:], ROW), (one, ROW[[1, 0]], ROW[1:], ROW), (one, ROW[:2], ROW[1:], ROW[::-1].copy()), (one, ROW[[0, 0, 1]], ROW[[1, 1]], ROW),
                             (one, ROW[:2], ROW, ROW[[0, 0, 1]]), (one[:0], ROW, ROW, NONE), (one, NONE, ROW, ROW), (one, ROW, NONE, ROW), (one, NONE, NONE, ROW),
                             (one[:1], ROW, ROW, ROW[:1] + 7), (one[:1], ROW, ROW, ROW[:1] - 7)):
        yield Case(grad, a, b, both)
    for bad in ((one[None], ROW, ROW, ROW), (one, ROW[0], ROW, ROW), (one, ROW, ROW[0], ROW), (one, ROW, ROW, ROW[0]), (one, ROW[:, :1], ROW, ROW), (one, ROW, ROW[:, :1], ROW),
                (one, ROW, ROW, ROW[:, :1]), (one[:2], ROW, ROW, ROW), (one[None], ROW[0], ROW, ROW), (one[:2], ROW[:, :1], ROW, ROW), (one[0], ROW, ROW, ROW)):
        yield Case(*bad, texts=True)


@spec("SparseSliceGrad")
def slice_(g, op):
    for dtype in NUMBERS:
        for shape in SHAPES:
            a, start = indices(g, shape), np.int64([g.rng.integers(0, d + 1) for d in shape])
            inside = a[(a >= start).all(axis=1)]
            yield Case(g.values(dtype, (len(inside),)), a, start, inside - start)
    two, start = np.float32([1, 2]), np.int64([1, 0])
    yield Case(two, ROW[[1, 1, 2]], start, ROW[[1, 2]] - start)
    yield Case(two[:0], ROW, start, NONE)
    yield Case(two[:0], NONE, start, NONE)
    yield Case(two[:1], np.int64([[-(2**63), 0]]), np.int64([1, 0]), np.int64([[2**63 - 1, 0]]))
    out = ROW[1:] - start
    for bad in ((two, ROW, start, ROW[[2, 1]] - start), (two, ROW, start, out + 9), (two[[0, 1, 1]], ROW, start, np.concatenate([out, out[:1]])), (two[None], ROW, start, out),
                (two[0], ROW, start, out), (two, ROW[0], start, out), (two, ROW, start, out[0]), (two, ROW, start, out[:, :1]), (two, ROW[:, :1], start, out), (two, ROW[:1], start, out),
                (two[:1], ROW, start, out), (two, ROW, start[0], out), (two, ROW, start[None], out), (two, ROW, start[:1], out), (two, ROW, start[[0, 1, 1]], out),
                (two[:1], ROW[:1], start, out), (two[:1], ROW, start[0], out), (two[None], ROW[0], start, out)):
        yield Case(*bad, texts=True)


@spec("SparseFillEmptyRowsGrad", "RaggedFillEmptyRowsGrad", ulps=2)
def fill(g, op):
    for dtype in NUMBERS:
        how = {"rtol": 1e-2, "atol": 0.1} if dtype in HALFS else {"rtol": 1e-5, "atol": 1e-5}
        for n, total in ((0, 0), (0, 3), (2, 5), (5, 5), (9, 4), (20, 60)):
            yield Case(g.rng.integers(0, max(total, 1), n).astype(np.int64), g.values(dtype, (total,), lo=-9, hi=9, special=False), **how)
    one = np.float32([1, 2, 3])
    for bad in (([0, 3], one), ([0, -1], one), ([0, -1, 3], one), ([2**63 - 1], one), ([0], one[:0]), (0, one), ([[0]], one), ([0], one[0]), ([0], one[None]), (0, one[0])):
        yield Case(np.int64(bad[0]), bad[1], texts=True)


@spec("SparseSegmentSumGrad", "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad", "SparseSegmentSumGradV2", "SparseSegmentMeanGradV2", "SparseSegmentSqrtNGradV2", ulps=1)
def segments(g, op):
    for dtype in ("float32", "float64", "float16", "bfloat16"):
        for index, ids in (("int32", "int32"), ("int64", "int32"), ("int32", "int64"), ("int64", "int64")):
            for shape in ((6, 3), (4,), (5, 2, 3), (10, 300), (3, 0)):
                for rows in (1, 4, 50):
                    n = int(g.rng.integers(1, 20))
                    segment = np.sort(g.rng.integers(0, shape[0], n))
                    yield Case(g.values(dtype, shape, lo=-9, hi=9, special=False), g.rng.integers(0, rows, n).astype(index), segment.astype(ids), np.int32(rows))
        yield Case(g.values(dtype, (6, 3), special=True), np.int64([0, 1, 2, 1, 7]), np.int64([0, 1, 2, 3, 5]), np.int32(8))
        yield Case(np.array([-0.0, 0.0], dtype), np.int64([0, 0, 2, 3, 3]), np.int64([0, 0, 0, 0, 1]), np.int32(8))
    x, i, s, rows = np.float32([[1, 2], [3, 4], [5, 6]]), np.int64([0, 2, 0]), np.int64([0, 0, 2]), np.int32(4)
    top = 2**31 - 1
    for case in ((x, i, np.int64([2, 0, 0]), rows), (x, i + 9, s, np.int32(0)), (x, i, s - 9, np.int32(0)), (x, i, s + 9, np.int32(0)), (x, i[:0], s[:0], np.int32(0)),
                 (x[:, :0], i[:0], s[:0], rows), (x, i, s, rows[None]), (x, i, s, np.int32([4, 4])), (x, i, s, np.int32(-1)), (x, i[None], s, rows), (x, i, s[None], rows), (x, i, s[:2], rows),
                 (x[0, 0], i, s, rows), (x[0, 0], i, s, np.int32(-1)), (x, i[:2], s, rows[None]), (x, i[None], s[None], rows), (x, i, s, np.int32(2)), (x, i - 1, s, rows), (x, i, s - 1, rows),
                 (x, i, s + 1, rows), (x[:0], i, s, rows), (x, i + 9, s + 9, rows), (x, i - 1, s - 1, rows), (x, np.int64([5, 2, 0]), np.int64([0, 0, -4]), rows),
                 (x, np.int64([0, 2, 9]), np.int64([-4, 0, 0]), rows), (x, np.int64([9, -1, 0]), s, rows), (x, i, np.int64([0, 7, 0]), rows), (x, i, np.int32([0, 0, top]), rows),
                 (x, i, np.int64([0, 0, 2**63 - 1]), rows), (x, i, np.int32([0, 0, -top - 1]), rows), (x[:, 0], i[:0], s[:2], rows)):
        yield Case(*case, texts=True)
    if op.endswith("V2"):
        yield Case(x, i[:0], s[:0], rows)
