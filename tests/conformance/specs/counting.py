"""Test cases for ops that count values. The results are dense bins, sparse counts, or a histogram."""

from spec import *

WEIGHTS = ("float32", "float64", "int32", "int64")
BASE = np.int64([[0, 0], [0, 1], [1, 0]]), [1, 1, 2], np.int64([2, 3])


def sparse_input(g, shape, kind):
    indices = np.argwhere(g.rng.random(shape) < 0.5).astype(np.int64)
    return indices, g.rng.integers(0, 8, len(indices)).astype(kind), np.int64(shape)


def ragged_input(g, kind):
    splits = np.concatenate([[0], np.cumsum(g.rng.integers(0, 4, int(g.rng.integers(1, 6))))]).astype(np.int64)
    return splits, g.rng.integers(0, 8, int(splits[-1])).astype(kind)


def weights(g, dtype, shape, how):
    return g.values(dtype, shape, lo=-4, hi=4, special=False) if how else np.zeros(0, dtype)


def bad_sparse():
    """Yields sparse tensors with inconsistent parts."""
    i, v, s = BASE
    yield from ((i[0], v, s), (i, v[:2], s), (i, [v], s), (i, v, s.reshape(1, 2)), (i, v, s[:1]), (i, v, np.int64([2, 3, 4])), (i + [[1, 0]], v, s), (i + [[0, 2]], v, s), (i - [[1, 0]], v, s))
    yield from ((i, v, np.int64([-2, 3])), (i, v, np.int64([1, 3])), (i, [1, -1, 2], s), (i[:0], [], s), (i[:, :1].copy(), v, np.int64([9])), (i[::-1].copy(), v, s), (i[[0, 0, 0]], v, s))


RAGGED = (([0, 2, 3], [1, -1, 2]), ([], [1]), ([0], []), ([0], [1]), ([1, 3], [1, 1, 2]), ([0, 2], [1, 1, 2]), ([0, 5], [1, 1, 2]), ([0, 2, 1, 3], [1, 1, 2]), ([0, -2, 3], [1, 1, 2]),
          ([0, 3], [[1, 1, 2]]), ([[0, 3]], [1, 1, 2]), ([0, 0, 0], []))


def other_weights():
    """Yields (rank, values, weights, binary_output) whose numbers of values and weights differ. TensorFlow reads beyond the
    weights if a value to be counted has none, so the last values are too large to be counted."""
    for rank in (1, 2):
        for values in ((1, 2, 3, 4), (1, 2, 9, 9), (6, 5, 5, 5), (1, -1, 2)):
            for w in ((3, 4), (3, 4, 5, 6, 7), 5, ((1, 2, 3, 4),)):
                for binary in (True, False):
                    n = np.size(w)
                    if binary or rank == 1 or all(v >= 5 or v < 0 for v in values[n:]):
                        yield rank, values, w, binary


@spec("SparseBincount", rtol=1e-6)
def sparse_bincount(g, op):
    for dtype in WEIGHTS:
        for kind in (np.int32, np.int64):
            for binary in (True, False):
                for how in (True, False):
                    for shape in ((6,), (3, 5), (2, 0), (1, 9), (4, 2, 3)):
                        i, v, s = sparse_input(g, shape, kind)
                        yield Case(i, v, s, kind(5), weights(g, dtype, v.shape, how), binary_output=binary)
                        yield Case(i, v, s, kind(12), weights(g, dtype, v.shape, how), binary_output=binary)
    for i, v, s in bad_sparse():
        yield Case(i, np.int64(v), s, np.int64(4), np.float32([]), texts=True)
    for size in (-1, [4], [], 0):
        yield Case(BASE[0], np.int64(BASE[1]), BASE[2], np.int64(size), np.float32([]), texts=True)
    for rank, values, w, binary in other_weights():
        i = np.zeros((len(values), rank), np.int64)
        i[:, -1] = np.arange(len(values))
        yield Case(i, np.int64(values), np.int64([1, 9][-rank:]), np.int64(5), np.float32(w), binary_output=binary, texts=True)


@spec("RaggedBincount", rtol=1e-6)
def ragged_bincount(g, op):
    for dtype in WEIGHTS:
        for kind in (np.int32, np.int64):
            for binary in (True, False):
                for how in (True, False):
                    for size in (0, 5, 12):
                        splits, v = ragged_input(g, kind)
                        yield Case(splits, v, kind(size), weights(g, dtype, v.shape, how), binary_output=binary)
    for splits, v in RAGGED:
        yield Case(np.int64(splits), np.int64(v), np.int64(4), np.float32([]), texts=True)
    for size in (-1, [4], []):
        yield Case(np.int64([0, 2]), np.int64([1, 2]), np.int64(size), np.float32([]), texts=True)
    for rank, values, w, binary in other_weights():
        if rank == 2 and min(values) >= 0:
            yield Case(np.int64([0, 1, len(values)]), np.int64(values), np.int64(5), np.float32(w), binary_output=binary)


LENGTHS = ((-1, -1), (9, -1), (-1, 4), (5, 3), (0, 0), (3, 20))


@spec("DenseCountSparseOutput", rtol=1e-6)
def dense_count(g, op):
    for dtype in WEIGHTS:
        for kind in (np.int32, np.int64):
            for least, most in LENGTHS:
                for binary in (True, False):
                    for shape in ((7,), (3, 4), (0,), (2, 0), (1, 1)):
                        v = g.rng.integers(0, 8, shape).astype(kind)
                        yield Case(v, weights(g, dtype, shape, binary == (least < 0)), minlength=least, maxlength=most, binary_output=binary)
    for v, w in ((1, []), ([[[1]]], []), ([1, -1], []), ([1, 1, 5], [1, 2]), ([[1, 1, 5]], [1, 2, 3]), (np.zeros((0, 2)), [])):
        yield Case(np.int64(v), np.float32(w), minlength=-1, maxlength=-1, binary_output=False, texts=True)


@spec("SparseCountSparseOutput", rtol=1e-6)
def sparse_count(g, op):
    for dtype in WEIGHTS:
        for kind in (np.int32, np.int64):
            for least, most in LENGTHS:
                for binary in (True, False):
                    for shape in ((7,), (3, 4), (2, 0), (2, 3, 4)):
                        i, v, s = sparse_input(g, shape, kind)
                        yield Case(i, v, s, weights(g, dtype, v.shape, binary == (least < 0)), minlength=least, maxlength=most, binary_output=binary)
    for i, v, s in bad_sparse():
        yield Case(i, np.int64(v), s, np.float32([]), binary_output=False, texts=True)
        yield Case(i, np.int64(v), s, np.float32([1, 2]), binary_output=False)
    yield Case(np.zeros((2, 0), np.int64), np.int64([1, 1]), np.int64([]), np.float32([]), binary_output=False, texts=True)
    for s in ([0, 3], [2**40, 4], [2**31, 4]):
        yield Case(np.zeros((0, 2), np.int64), np.int64([]), np.int64(s), np.float32([]), binary_output=False, texts=True)
    yield Case(*(BASE[0], np.int64(BASE[1]), BASE[2]), np.float32([[1, 2, 3]]), binary_output=False, texts=True)


@spec("RaggedCountSparseOutput", rtol=1e-6)
def ragged_count(g, op):
    for dtype in WEIGHTS:
        for kind in (np.int32, np.int64):
            for least, most in LENGTHS:
                for binary in (True, False):
                    splits, v = ragged_input(g, kind)
                    yield Case(splits, v, weights(g, dtype, v.shape, binary == (least < 0)), minlength=least, maxlength=most, binary_output=binary)
                    splits, v = ragged_input(g, kind)
                    yield Case(splits, v, weights(g, dtype, v.shape, True), minlength=least, maxlength=most, binary_output=binary)
    for splits, v in RAGGED:
        yield Case(np.int64(splits), np.int64(v), np.float32([]), binary_output=False, texts=True)
        yield Case(np.int64(splits), np.int64(v), np.float32([1, 2]), binary_output=False)


@spec("HistogramFixedWidth")
def histogram(g, op):
    for dtype in ("int32", "int64", "float32", "float64"):
        for out in ("int32", "int64"):
            for shape in ((), (0,), (50,), (3, 5), (2, 1, 2, 1, 2, 1, 2, 2)):
                for bins in (1, 2, 7, 100):
                    for low, high in ((0, 5), (-3, 4), (-20, 20)):
                        yield Case(g.values(dtype, shape, lo=-9, hi=9), np.array([low, high], dtype), np.int32(bins), dtype=out)
    yield Case(np.float32([np.inf, -np.inf, 1]), np.float32([0, 5]), np.int32(4), dtype="int32")
    for v, r, n in (([np.nan], [0, 5], 4), ([1], [5, 0], 4), ([1], [5, 5], 4), ([1], [0, 5], 0), ([1], [0, 5], -3), ([1], [0, 5], [3]), ([1], [0, 5, 6], 3), ([1], [[0, 5]], 3), ([1], [np.nan, 5], 3),
                    ([1, 2], [0, np.inf], 3), ([1], [5], 3), ([1], [1.5, 0.25], -3)):
        yield Case(np.float32(v), np.float32(r), np.int32(n), dtype="int32", texts=True)
    yield Case(np.int32([2**31 - 1, -(2**31), 0]), np.int32([-(2**31), 2**31 - 1]), np.int32(4), dtype="int32")
