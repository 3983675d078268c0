"""Test cases for sums, extremes and similar reductions over axes and segments, and softmax (kernels/math, kernels/nn)."""

from spec import *

# Each entry is (shape, axes). The axes are innermost, outer, mixed, all, none or negative. Some axes have length 0, and
# some are longer than a block or a vector.
AXES = [
    ((), []), ((5,), [0]), ((5,), []), ((0,), [0]), ((3, 0), [0]), ((3, 0), [1]), ((2, 3), [0]), ((2, 3), [1]),
    ((2, 3), [-1, 0]), ((2, 3), -2), ((2, 3, 4), [1]), ((2, 3, 4), [0, 2]), ((2, 1, 3, 4), [1, 2]), ((2, 3, 4, 5), [0, 2]),
    ((2, 3, 4, 5), [1, 3]), ((1000,), [0]), ((3, 700), [1]), ((700, 3), [0]), ((2, 70, 300), [1]), ((4, 17), [1]), ((4, 64), [1]),
    ((2, 2, 2, 2, 2, 2, 2, 2), [0, 2, 4, 6]), ((3, 4), [[1]]),
]
REFUSED = [((2, 3), [2]), ((2, 3), [-3]), ((2, 3), [0, 0]), ((2, 3), [1, -1]), ((), [0])]
# TensorFlow accumulates 16-bit floats in 16 bits.
NEAR = {"float32": 2e-6, "float64": 1e-14, "complex64": 2e-6, "complex128": 1e-14, "float16": 1.5e-2, "bfloat16": 5e-2}


def over_axes(g, types, **how):
    for dtype in types:
        for i, (shape, axes) in enumerate(AXES + REFUSED):
            x = g.values(dtype, shape, **how)
            axes = np.array(axes, [np.int32, np.int64][i % 2])
            yield dtype, x, Const(axes) if i % 3 and i < len(AXES) - 1 else axes, bool(i % 5 == 0)


@spec("Sum", "Mean", "EuclideanNorm")
def sums(g, op):
    for dtype, x, axes, keep in over_axes(g, NUMBERS, special=False):
        if dtype in FLOATS + COMPLEX:
            # The tolerance is relative to the sum, so all terms are made positive and cannot cancel each other.
            x = np.abs(x).astype(x.dtype)
        if op == "EuclideanNorm" and dtype in INTS:
            x = np.array(g.rng.integers(0, 3, x.shape), x.dtype)  # integers so small that their squares do not overflow
            if dtype in ("int8", "uint8") and x.size > 30:
                continue
        for keep_dims in (keep, True):
            yield Case(x, axes, keep_dims=keep_dims, rtol=NEAR.get(dtype, 0))
    if op == "EuclideanNorm":  # sums of squares that wrap around
        for dtype in INTS:
            for x in (16, 200, 255, 46341, 65535, 65536, 3037000500):
                yield Case(np.array([x]).astype(dtype), np.int32(0))
    for x in ([1, np.nan, 2], [np.inf, 1], [np.inf, -np.inf]):
        yield Case(np.float32([x] * 20).reshape(-1), np.int32(0))


@spec("Prod")
def products(g, op):
    for dtype, x, axes, keep in over_axes(g, NUMBERS, lo=1, hi=1.02, special=False):
        if dtype in INTS:
            x = g.values(dtype, x.shape)
        if dtype in COMPLEX:
            x = np.exp(1j * x).astype(x.dtype)
            x /= np.abs(x)
        yield Case(x, axes, keep_dims=keep, rtol=NEAR.get(dtype, 0) * 30)


@spec("Max", "Min", signs=False)
def extremes(g, op):
    for dtype, x, axes, keep in over_axes(g, REALS):
        yield Case(x, axes, keep_dims=keep)
    for dtype, x, axes, keep in over_axes(g, FLOATS, special=False):
        yield Case(x, axes, keep_dims=keep)


@spec("All", "Any")
def truths(g, op):
    for _, x, axes, keep in over_axes(g, ["bool"]):
        yield Case(x, axes, keep_dims=keep)
        yield Case(np.full(x.shape, op == "All"), axes, keep_dims=not keep)


@spec("ArgMax", "ArgMin")
def places(g, op):
    for dtype in REALS + ["bool"]:
        for shape in [(5,), (2, 3), (3, 0), (0, 3), (2, 3, 4), (1, 1), (3, 200), (200, 3)]:
            for axis in range(-len(shape), len(shape) + 1):
                yield Case(g.values(dtype, shape), np.int32(axis))
                yield Case(g.values(dtype, shape, special=False), np.int64(axis), output_type="int32")
    yield Case(np.float32(1), np.int32(0))
    yield Case(np.float32([1, 3, 2]), np.int32([0, 0]))
    yield Case(np.full((4,), np.nan, "float32"), np.int32(0))
    yield Case(np.full((4,), -np.inf, "float32"), np.int32(0))


@spec("L2Loss")
def l2_loss(g, op):
    for dtype in FLOATS:
        for x in g.tensors(dtype, lo=-2, hi=2, special=False):
            yield Case(x, rtol=NEAR[dtype])
        for n in (1, 3, 4, 5):  # The sum of the squares overflows, but the sum of their halves does not.
            yield Case(np.full(n, {"float64": 6.7e153, "float16": 128}.get(dtype, 9.2954e18)).astype(dtype_of(dtype)), rtol=NEAR[dtype])


# TensorFlow treats NaN differently in complete packets of columns and in the remaining columns.
WIDTHS = [1, 3, 4, 8, 17, 300]
NAN_ROWS = [[np.nan], [np.nan, 1, 2], [np.nan, 2, 1], [1, np.nan, 2], [2, np.nan, 1], [1, 2, np.nan], [np.nan, np.nan, 1],
            [np.nan, 1, np.nan], [np.nan] * 2, [0.0, -0.0], [-0.0, 0.0], [-np.inf, np.nan], [np.inf, np.nan], [-np.inf] * 2,
            [np.inf] * 2, [9, np.nan, 3, 2, 5, 1, 4, 0, 7, 6, 2, 1] * 3, [9, 3, 2, 5, 1, 4, 3, 0, 7, 6, 2, np.nan] * 3]


def not_numbers(dtype, width):
    for rows in NAN_ROWS:
        yield np.repeat(np.array(rows, np.float32)[:, None], width, 1).astype(dtype_of(dtype))


SORTED_IDS = [[0, 0, 1], [0, 2, 2], [3, 3, 5], [0, 0, 0], [], [0, 2, 1], [-1, 0, 2], [-2, -1, -1], [0, 0], [0, 0, 7, 7, 7, 9], [1, 0, 0]]


@spec("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin")
def segments(g, op):
    for dtype in REALS if op in ("SegmentMax", "SegmentMin") else NUMBERS:
        for i, ids in enumerate(SORTED_IDS):
            for inner in [(), (2,), (2, 3), (300,), (0,)]:
                rows = 3 if len(ids) == 2 else len(ids)
                x = g.values(dtype, (rows, *inner), lo=None if dtype in INTS else -2, hi=None if dtype in INTS else 2, special=dtype in INTS)
                yield Case(x, np.array(ids, [np.int32, np.int64][i % 2]), rtol=NEAR.get(dtype, 0))
    if op in ("SegmentMax", "SegmentMin"):
        for dtype in FLOATS:
            for width in WIDTHS:
                for x in not_numbers(dtype, width):
                    yield Case(x, np.zeros(len(x), np.int32))
                yield Case(g.values(dtype, (40, width)), np.int32(sorted(g.rng.integers(0, 12, 40))))
    yield Case(np.float32(1), np.int32([0]))
    yield Case(np.float32([[1, 2]]), np.int32([[0, 0]]))


@spec("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin")
def unsorted_segments(g, op):
    for dtype in REALS if op in ("UnsortedSegmentMax", "UnsortedSegmentMin") else NUMBERS:
        for shape, ids in [((3,), [0, 2, 0]), ((3, 2), [1, -1, 1]), ((3, 2), [0, 5, 1]), ((2, 2), [[0, 1], [1, 0]]), ((2, 2, 3), [[0, 1], [1, 9]]),
                           ((3, 2), [0, 1]), ((0, 2), []), ((3, 2), 1), ((), 2), ((3, 0), [0, 5, 1]), ((3, 0), 9)]:
            for num in (3, 0, -1):
                x = g.values(dtype, shape, lo=None if dtype in INTS else -2, hi=None if dtype in INTS else 2, special=dtype in INTS)
                yield Case(x, np.int32(ids), np.int32(num), rtol=NEAR.get(dtype, 0))
    if op in ("UnsortedSegmentMax", "UnsortedSegmentMin"):
        for dtype in FLOATS:
            for width in WIDTHS:
                for x in not_numbers(dtype, width):
                    yield Case(x, np.zeros(len(x), np.int32), np.int32(1))
                    yield Case(x, np.zeros(x.shape, np.int32), np.int32(2))
                yield Case(g.values(dtype, (40, width)), np.int32(g.rng.integers(0, 12, 40)), np.int32(12))
    yield Case(np.float32([1, 2]), np.int64([0, 1]), np.int64(4))
    yield Case(np.float32([1, 2]), np.int64([0, 1]), np.int64([4, 5]))
    for row in ([np.nan, 5], [5, np.nan], [np.nan, 5, 7], [7, np.nan, 5], [np.nan], [-np.inf], [np.inf, np.nan, -np.inf]):
        for width in (1, 3, 9):
            yield Case(np.repeat(np.float32(row)[:, None], width, 1), np.int32(np.zeros(len(row))), np.int32(2))


@spec("Softmax", "LogSoftmax")
def softmax(g, op):
    for dtype in FLOATS:
        for shape in [(1,), (5,), (3, 4), (2, 3, 4), (2, 0), (0, 3), (3, 16), (3, 100), (2, 1, 2, 17), ()]:
            yield Case(g.values(dtype, shape, special=False), rtol=NEAR[dtype])
            yield Case(g.values(dtype, shape, lo=-1000, hi=1000, special=False), rtol=NEAR[dtype])
    for row in ([np.inf, 1, 2], [-np.inf, -np.inf, -np.inf], [np.nan, 1, 2], [-np.inf, 1, 2], [3e38, -3e38, 0]):
        yield Case(np.float32([row, [1, 2, 3]]), ulps=4)
