"""Test cases for ops on diagonals and data formats, ops that change rows in place, and a few small ops such as GuaranteeConst
and Timestamp."""

from spec import *

DIAGONAL = ("float16", "float32", "float64", "int32", "int64", "complex64", "complex128")


@spec("Diag")
def diag(g, op):
    for dtype in DIAGONAL:
        for shape in ((3,), (1,), (0,), (2, 3), (1, 2, 2), (2, 1, 1, 2), (0, 2), (17,)):
            for _ in range(4):
                yield Case(g.values(dtype, shape))
    yield Case(np.float32(1), texts=True)


@spec("DiagPart")
def diag_part(g, op):
    for dtype in DIAGONAL:
        for shape in ((), (3,), (1,), (0,), (2, 3), (1, 2, 2), (2, 1, 1, 2), (0, 2)):
            for _ in range(4):
                yield Case(g.values(dtype, shape + shape))
    for shape in ((1,), (1, 1, 1), (2, 3), (2, 3, 2, 4), (3, 2, 2, 2)):
        yield Case(g.values("float32", shape), texts=True)


PAIRS = (("NHWC", "NCHW"), ("NCHW", "NHWC"), ("NHWC", "NHWC"), ("HWNC", "NHWC"), ("NDHWC", "NCDHW"), ("NCDHW", "NDHWC"), ("ABCD", "DCBA"), ("WHNC", "NHWC"))
WRONG = (("NHW", "NCH"), ("NHWC", "NCH"), ("NHWC", "NCDHW"), ("NNHC", "NCHW"), ("ABCD", "NHWC"), ("", ""), ("NHWC", "NNWC"))


@spec("DataFormatDimMap")
def dim_map(g, op):
    for dtype in ("int32", "int64"):
        for src, dst in PAIRS:
            for shape in ((), (0,), (7,), (2, 3), (1, 2, 1, 2)):
                for _ in range(3):
                    yield Case(g.values(dtype, shape, lo=-len(src), hi=2 * len(src)), src_format=src, dst_format=dst)
    for src, dst in WRONG:
        yield Case(np.int32([0, 1]), src_format=src, dst_format=dst, texts=True)


@spec("DataFormatVecPermute")
def permute(g, op):
    for dtype in ("int32", "int64"):
        for src, dst in PAIRS:
            for n in (len(src), *((len(src) - 2,) if src != "ABCD" else ())):
                for shape in ((n,), (n, 2)):
                    for _ in range(4):
                        yield Case(g.values(dtype, shape), src_format=src, dst_format=dst)
    for src, dst in WRONG:
        yield Case(np.int32([1, 2, 3, 4]), src_format=src, dst_format=dst, texts=True)
    for shape in ((), (3,), (1,), (0,), (5,), (4, 3), (3, 2), (4, 2, 1), (2, 1)):
        yield Case(g.values("int32", shape), src_format="NHWC", dst_format="NCHW", texts=True)


@spec("InplaceUpdate", "InplaceAdd", "InplaceSub")
def inplace(g, op):
    for dtype in PLAIN + ["string"] if op == "InplaceUpdate" else NUMBERS:
        for shape in ((5,), (4, 3), (2, 2, 3), (1, 40), (3, 0)):
            for n in (0, 1, 4):
                i = np.int32(g.rng.integers(-6, 6, n))
                # The copy prevents TensorFlow from changing the fed array.
                yield Graph(lambda tf, x, i, v: [getattr(tf.raw_ops, op)(x=tf.raw_ops.DeepCopy(x=x), i=i, v=v)], g.values(dtype, shape), i, g.values(dtype, (n, *shape[1:])))
    x = g.values("float32", (3, 2))
    for i, v in ((1, [[1, 2]]), (1, [1, 2]), ([[1]], [[1, 2]]), ([1, 2], [[1, 2]]), ([1], [[1, 2, 3]]), ([1], [1, 2]), ([], [[1, 2]])):
        yield Case(x, np.int32(i), np.float32(v), texts=True)
    yield Case(np.float32(1), np.int32([0]), np.float32([1]), texts=True)
    yield Case(x[:0], np.int32([1]), np.float32([[1, 2]]))
    if op != "InplaceUpdate":
        yield Case(np.array([True, False]), np.int32([1]), np.array([True]), texts=True)
        yield Case(g.values("string", (3,)), np.int32([1]), g.values("string", (1,)), texts=True)


@spec("GuaranteeConst")
def guarantee(g, op):
    for dtype in PLAIN + ["string"]:
        for x in g.tensors(dtype):
            yield Case(x)


@spec("ParallelConcat")
def parallel_concat(g, op):
    for dtype in PLAIN + ["string"]:
        for shape in ((), (3,), (2, 3), (0,), (1, 2, 1, 2)):
            for n in (1, 2, 5):
                def concat(tf, *parts, shape=shape):
                    return [tf.raw_ops.ParallelConcat(values=[tf.ensure_shape(p, [1, *shape]) for p in parts], shape=[len(parts), *shape])]

                yield Graph(concat, *(g.values(dtype, (1, *shape)) for _ in range(n)))


@spec("ScatterNdNonAliasingAdd", rtol=1e-2)
def non_aliasing(g, op):
    for dtype in PLAIN:
        for depth in (1, 2):
            for kind in (np.int32, np.int64):
                for n in (0, 1, 5):
                    i = np.stack([g.rng.integers(0, d, n) for d in (4, 3)[:depth]], -1).astype(kind)
                    yield Case(g.values(dtype, (4, 3), lo=-9, hi=9, special=False), i, g.values(dtype, (n, 3)[: 3 - depth], lo=-9, hi=9, special=False))
    x = g.values("float32", (4, 3))
    for i, u in (([[4]], [[1, 2, 3]]), ([[-1]], [[1, 2, 3]]), ([1], [[1, 2, 3]]), ([[1]], [[1, 2]]), ([[1, 2, 3]], [1]), (1, [1, 2, 3]), ([[0], [1]], [[1, 2, 3]])):
        yield Case(x, np.int32(i), np.float32(u))


@spec("TensorStridedSliceUpdate")
def slice_update(g, op):
    for dtype in PLAIN + ["string"]:
        for begin, end, strides, shape in (([0, 1], [3, 3], [1, 1], (3, 2)), ([0, 0], [4, 3], [2, 2], (2, 2)), ([-1, -1], [0, -4], [-1, -1], (3, 3)), ([1, 0], [1, 3], [1, 1], (0, 3)),
                                           ([1], [3], [1], (2, 3)), ([0, 1], [3, 3], [1, 1], (1, 2)), ([0, 1], [3, 3], [1, 1], ())):
            for kind in (np.int32, np.int64):
                yield Case(g.values(dtype, (4, 3)), kind(begin), kind(end), kind(strides), g.values(dtype, shape))
        yield Case(g.values(dtype, (4, 3)), np.int32([1, 0]), np.int32([2, 2]), np.int32([1, 1]), g.values(dtype, (2,)), shrink_axis_mask=1)
        yield Case(g.values(dtype, (4, 3)), np.int32([1, 0]), np.int32([2, 2]), np.int32([1, 1]), g.values(dtype, (4, 1, 2)), new_axis_mask=2, begin_mask=1, end_mask=1)
        yield Case(g.values(dtype, (2, 2, 3)), np.int32([0, 1]), np.int32([0, 2]), np.int32([1, 1]), g.values(dtype, (2, 2, 1)), ellipsis_mask=1)
    x = g.values("float32", (4, 3))
    for begin, end, strides, shape in (([0, 1], [3, 3], [0, 1], (3, 2)), ([0, 1], [3, 3], [1, 1], (3, 3)), ([0, 1, 2], [3, 3, 3], [1, 1, 1], (3, 2)), ([0], [3, 3], [1, 1], (3, 2)), ([0, 1], [3, 3], [1, 1], (2, 3, 2)),
                                       ([[0, 1]], [[3, 3]], [[1, 1]], (3, 2))):
        yield Case(x, np.int32(begin), np.int32(end), np.int32(strides), g.values("float32", shape))


@spec("ToBool")
def to_bool(g, op):
    for dtype in PLAIN + ["string"]:
        for shape in ((), (0,), (1,), (2, 3)):
            for _ in range(3):
                yield Case(g.values(dtype, shape))
        if dtype != "string":
            yield Case(np.zeros((), dtype_of(dtype)))
    yield Case(np.array(b"", object))
    yield Case(np.float32(-0.0))


def plausible(case, theirs, ours):
    return None if abs(float(np.ravel(theirs[0])[0]) - float(np.ravel(ours[0])[0])) < 60 else "another time"


@spec("Timestamp")
def timestamp(g, op):
    yield Case(check=plausible)


@spec("DeviceIndex")
def device(g, op):
    for names in (["GPU", "CPU"], ["CPU", "GPU"], ["TPU"], ["CPU"], ["GPU", "TPU"]):
        yield Case(device_names=names)


@spec("FakeParam")
def fake(g, op):
    # The values are undefined, so only their number is compared.
    for dtype in ("float32", "int64", "bool", "string"):
        for shape in ([], [3], [2, 0], [2, 3]):
            yield Graph(lambda tf, dtype=dtype, shape=shape: [tf.shape(tf.raw_ops.FakeParam(dtype=dtype, shape=shape))])
