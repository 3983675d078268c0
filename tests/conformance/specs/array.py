"""Test cases for shapes, slices, gathers and similar ops, which move elements without computing new values."""

from spec import *

EVERY = PLAIN + ["string"]
I32, I64 = np.int32, np.int64


def ints(*v, t=I32):
    return np.array(v, t)


@spec("Identity", "StopGradient", "PreventGradient", "Snapshot", "ZerosLike", "OnesLike", "Rank", "DeepCopy")
def one_input(g, op):
    types = PLAIN if op in ("OnesLike", "Snapshot") else WIDE_FLOATS + ["int32"] if op == "DeepCopy" else EVERY
    for dtype in types:
        for x in g.tensors(dtype):
            yield Case(x)


@spec("IdentityN", "ShapeN")
def many_inputs(g, op):
    if op == "IdentityN":
        yield Case([g.values("float32", (2, 3)), g.values("string", (2,)), ints(5)])
    else:
        yield Case([g.values("float32", (2, 3)), g.values("float32", ())])
        yield Case([g.values("float32", (2, 0))], out_type="int64")
        for n in (2**31 - 2, 2**31 - 1):
            yield Case([np.zeros((n, 0), bool)], out_type="int32")


@spec("Shape", "Size")
def shape(g, op):
    for t in ("int32", "int64"):
        for dtype in ("float32", "string", "bool"):
            for x in g.tensors(dtype):
                yield Case(x, out_type=t)
        for n in (2**31 - 2, 2**31 - 1):
            yield Case(np.zeros((n, 0), bool), out_type=t)


@spec("PlaceholderWithDefault")
def with_default(g, op):
    yield Case(Const(g.values("float32", (2, 3))), shape=[2, 3])


@spec("EnsureShape")
def ensure(g, op):
    x = g.values("float32", (2, 3))
    for s in ([2, 3], [None, 3], [2, 4], [None, 3, None], None):
        yield Case(x, shape=s)


@spec("Reshape")
def reshape(g, op):
    for dtype in EVERY:
        yield Case(g.values(dtype, (2, 6)), ints(3, -1))
    x = g.values("float32", (2, 3))
    for s in (ints(6), ints(3, 2), ints(-1, 2), ints(-1), ints(4), ints(-1, 4), ints(-1, -1), ints(-2, 3), ints(0, -1),
              np.int32([[2, 3]]), np.int64([1, 6]), ints(1, 1, 2, 1, 3, 1, 1, 1), np.int32([]), np.int32(6)):
        yield Case(x, s)
        if s.ndim == 1 and s.min(initial=0) >= -1 and (s < 0).sum() < 2:
            yield Case(x, Const(s))
    e = g.values("float32", (0, 3))
    for s in (ints(-1, 0), ints(-1, 3), ints(0, -1), ints(0, 2, -1), ints(0), ints(3, 0, 5), ints(-1)):
        yield Case(e, s)
    yield Case(g.values("float32", ()), np.int32([]))
    yield Case(g.values("float32", ()), ints(-1))


@spec("ExpandDims")
def expand(g, op):
    for dtype in EVERY:
        yield Case(g.values(dtype, (2, 3)), np.int32(1))
    for s in ((), (2,), (2, 0), (2, 3, 4)):
        for a in (-5, -4, -3, -1, 0, 1, 2, 3, 4):
            yield Case(g.values("float32", s), np.int32(a))
    yield Case(g.values("float32", (2,)), ints(0, t=I64))
    yield Case(g.values("float32", (2,)), ints(0, 1))


@spec("Squeeze")
def squeeze(g, op):
    for dtype in EVERY:
        yield Case(g.values(dtype, (2, 1, 3, 1)))
    for s in ((), (1,), (1, 1), (2, 1, 3), (0, 1)):
        for d in ([], [0], [-1], [1], [0, 1], [5]):
            yield Case(g.values("float32", s), squeeze_dims=d)


@spec("Pack")
def pack(g, op):
    for dtype in EVERY:
        for axis in (0, 1, -1, -2):
            yield Case([g.values(dtype, (2, 3)) for _ in range(3)], axis=axis)
    yield Case([np.int32(1), np.int32(2)])
    yield Case([g.values("float32", (0,))] * 2)
    yield Case([g.values("float32", (2,)), g.values("float32", (3,))])
    yield Case([g.values("float32", (2,))] * 2, axis=4)
    yield Case([g.values("int64", (2, 1))] * 12, axis=1)


@spec("Unpack")
def unpack(g, op):
    for dtype in EVERY:
        for axis in (0, 1, -1):
            yield Case(g.values(dtype, (3, 3, 3)), num=3, axis=axis)
    yield Case(g.values("float32", (2, 3)), num=3)
    yield Case(g.values("float32", ()), num=3)
    yield Case(g.values("float32", (2, 3)), num=2, axis=5)
    yield Case(g.values("float32", (2, 0)), num=2)
    yield Case(g.values("float32", (0, 2)), num=0)


@spec("ConcatV2", "Concat")
def concat(g, op):
    def case(values, axis):
        return Case(values, axis) if op == "ConcatV2" else Case(axis, values)

    for dtype in EVERY:
        for axis in (0, 1, -1):
            shapes = [(2, 3), (2, 3)] if axis else [(1, 3), (4, 3)]
            yield case([g.values(dtype, s) for s in shapes], np.int32(axis))
    f = [g.values("float32", s) for s in ((2, 3, 4), (2, 5, 4), (2, 0, 4), (2, 1, 4))]
    yield case(f, np.int32(1))
    yield case(f, np.int32(-2))
    yield case(f, np.int32(0))
    yield case(f, np.int32(7))
    yield case(f[:2], ints(0, 1))
    yield case([g.values("float32", ())] * 2, np.int32(0))
    yield case([g.values("float32", (0,)), g.values("float32", (2, 1))], np.int32(0))
    yield case([g.values("float32", (2,))] * 20, np.int32(0))
    for shapes in ([(), ()], [(2,), ()], [(), (2,)], [(1, 2), ()], [(2,), (1, 2)]):
        for axis in (0, 1, -1, 5):
            refused = case([g.values("float32", s) for s in shapes], np.int32(axis))
            refused.texts = True
            yield refused


@spec("ConcatOffset")
def concat_offset(g, op):
    yield Case(np.int32(0), [ints(2, 3), ints(1, 3)])
    yield Case(np.int32(-1), [ints(2, 3), ints(2, 4), ints(2, 1)])
    yield Case(np.int32(0), [ints(2, 3), ints(1, 4)])
    yield Case(np.int32(3), [ints(2, 3), ints(1, 3)])


@spec("Split")
def split(g, op):
    for dtype in EVERY:
        for axis in (0, 1, -1):
            yield Case(np.int32(axis), g.values(dtype, (4, 6)), num_split=2)
    yield Case(np.int32(0), g.values("float32", (3, 2)), num_split=2)
    yield Case(np.int32(4), g.values("float32", (3, 2)), num_split=2)
    yield Case(np.int32(0), g.values("float32", (0, 2)), num_split=2)
    yield Case(ints(0, 1), g.values("float32", (4, 2)), num_split=2)


@spec("SplitV")
def split_v(g, op):
    for dtype in EVERY:
        yield Case(g.values(dtype, (5, 4)), ints(2, -1), np.int32(0), num_split=2)
    x = g.values("float32", (3, 4))
    for sizes, axis in ((ints(1, 3), 1), (ints(0, 4, t=I64), -1), (ints(1, 1), 0), (ints(-1, -1), 0), (ints(-1, 4), 0),
                        (ints(-2, 5), 0), (ints(1, 2), 3), (ints(1, 2, 3), 0), (np.int32([[1, 2]]), 0), (ints(-1, 3), 0)):
        yield Case(x, sizes, np.int32(axis), num_split=2)
    yield Case(x, ints(2), np.int32(0), num_split=1)
    yield Case(x, ints(-1), np.int32(0), num_split=1)
    yield Case(g.values("float32", ()), ints(1), np.int32(0), num_split=1)


@spec("Slice")
def slice_(g, op):
    for dtype in EVERY:
        yield Case(g.values(dtype, (4, 5, 3)), ints(1, 0, 2), ints(2, -1, 1))
    x = g.values("float32", (3, 2))
    for b, s in ((ints(0, 0), ints(4, 1)), (ints(0), ints(4)), (ints(-1, 0), ints(1, 1)), (ints(4, 0), ints(-1, 1)),
                 (ints(0, 0), ints(-2, 1)), (ints(3, 2), ints(0, 0)), (ints(1, 0, t=I64), ints(-1, -1, t=I64))):
        yield Case(x, b, s)
    yield Case(g.values("float32", (0, 2)), ints(0, 0), ints(-1, 1))
    yield Case(g.values("float32", (0, 2)), ints(0, 0), ints(1, 1))
    yield Case(g.values("float32", ()), np.int32([]), np.int32([]))
    yield Case(g.values("float32", (100, 100)), ints(10, 0), ints(50, 100))


@spec("StridedSlice")
def strided(g, op):
    x = g.values("float32", (5, 6, 4))
    for dtype in EVERY:
        yield Case(g.values(dtype, (5, 6, 4)), ints(1, -2), ints(4, 0), ints(2, -1))
    for _ in range(200):
        n = int(g.rng.integers(0, 5))
        b, e = g.rng.integers(-8, 8, (2, n)).astype(I32)
        s = g.rng.choice(np.int32([1, 1, 1, 2, -1, -2, 3]), n)
        m = {k: int(g.rng.integers(0, 2**n)) if g.rng.random() < 0.6 else 0
             for k in ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask")}
        m["ellipsis_mask"] = int(1 << g.rng.integers(0, n)) if n and g.rng.random() < 0.4 else 0
        yield Case(x, b, e, s, **m)
    yield Case(x, ints(0), ints(1), ints(0))
    yield Case(x, ints(0, 0), ints(1, 1), ints(1, 1), ellipsis_mask=3)
    yield Case(x, ints(0, 0), ints(1), ints(1, 1))
    yield Case(x, ints(7), ints(1), ints(1), shrink_axis_mask=1)
    yield Case(x, ints(0, t=I64), ints(1, t=I64), ints(1, t=I64), shrink_axis_mask=1)
    yield Case(g.values("float32", (0, 3)), ints(0), ints(5), ints(1))
    yield Case(g.values("float32", ()), np.int32([]), np.int32([]), np.int32([]))
    yield Case(g.values("float32", (200, 30)), ints(10), ints(150), ints(1))


@spec("StridedSliceGrad")
def strided_grad(g, op):
    shape = ints(5, 6, 4)
    for dtype in PLAIN:
        yield Case(shape, ints(1, -2), ints(4, 0), ints(2, -1), g.values(dtype, (2, 4, 4)))
    yield Case(shape, ints(2), ints(3), ints(1), g.values("float32", (6, 4)), shrink_axis_mask=1)
    yield Case(shape, ints(2), ints(3), ints(1), g.values("float32", (6, 5)), shrink_axis_mask=1)


@spec("Transpose", "ConjugateTranspose")
def transpose(g, op):
    for dtype in EVERY:
        yield Case(g.values(dtype, (3, 4)), ints(1, 0))
        yield Case(g.values(dtype, (2, 3, 4, 5)), ints(0, 2, 3, 1))
    for _ in range(40):
        rank = int(g.rng.integers(0, 9))
        shape = g.rng.integers(1, 4, rank)
        yield Case(g.values("int32", tuple(shape)), g.rng.permutation(rank).astype(I32))
    yield Case(g.values("float32", (70, 45)), ints(1, 0))
    yield Case(g.values("float32", (1, 70, 1)), ints(2, 1, 0))
    yield Case(g.values("complex64", (1, 7)), ints(1, 0))
    x = g.values("float32", (3, 2))
    for p in (ints(0), ints(0, 2), ints(0, 0), np.int32([[0, 1]]), ints(-1, 0), ints(1, 0, t=I64)):
        yield Case(x, p)
    yield Case(g.values("float32", (0, 2)), ints(1, 0))


@spec("InvertPermutation")
def invert(g, op):
    for t in (I32, I64):
        yield Case(g.rng.permutation(9).astype(t))
        for v in ([], [0, 2, 2], [0, 2, 5], [[0, 1]], [0, -1]):
            yield Case(np.array(v, t))


@spec("Tile")
def tile(g, op):
    for dtype in EVERY:
        if dtype != "uint16":  # TensorFlow has no Tile kernel for uint16.
            yield Case(g.values(dtype, (2, 3)), ints(2, 3))
    x = g.values("float32", (2, 3))
    for m in (ints(1, 1), ints(0, 2), ints(1), ints(-1, 1), np.int32([[1, 1]]), ints(3, 1, t=I64), ints(1, 4)):
        yield Case(x, m)
    yield Case(g.values("float32", ()), np.int32([]))
    yield Case(g.values("float32", (0, 2)), ints(2, 2))
    yield Case(g.values("int32", (2, 1, 2, 1, 2, 1)), ints(1, 2, 1, 2, 2, 2))


@spec("BroadcastTo")
def broadcast(g, op):
    for dtype in EVERY:
        yield Case(g.values(dtype, (2, 1)), ints(4, 2, 3))
    for s, t in (((2,), [3]), ((2, 3), [3]), ((2, 1), [2, -1]), ((1,), [0]), ((), [2, 2]), ((), []), ((3,), [3]),
                 ((1, 3), [2, 0]), ((1, 3), [2, 3]), ((2, 1, 3), [2, 2, 2, 3])):
        yield Case(g.values("float32", s), np.array(t, I32))
    yield Case(g.values("float32", (2,)), np.int32([[3]]))


@spec("BroadcastArgs", "BroadcastGradientArgs")
def broadcast_args(g, op):
    for t in (I32, I64):
        for a, b in (([2, 3], [3, 3]), ([2, 3], [2, 1, 3]), ([2, 3], [2, 3]), ([1, 3], [1, 1]), ([], [1, 2]),
                     ([2, 1, 0], [1, 2, 1]), ([1], [1, 1]), ([], []), ([5], [5, 5]), ([1, 1, 4], [3, 1, 1])):
            yield Case(np.array(a, t), np.array(b, t))


@spec("Fill")
def fill(g, op):
    for dtype in EVERY:
        yield Case(ints(2, 3), g.values(dtype, ()))
    v = np.float32(1.5)
    for d in (ints(-1), np.int32([]), ints(0, 3), np.int32([[2]]), ints(4, t=I64), np.int32(2)):
        yield Case(d, v)
    yield Case(ints(2), np.float32([1]))
    yield Case(ints(2), np.float32([1, 2]))


@spec("Empty")
def empty(g, op):
    for d in (ints(2, 3), ints(0), np.int32([])):
        yield Case(d, dtype="float32", init=True)
    yield Case(ints(2, -1), dtype="float32", init=True)
    yield Case(ints(2), dtype="string")


@spec("Range")
def range_(g, op):
    for t in ("int32", "int64", "float32", "float64", "bfloat16", "float16"):
        d = dtype_of(t)
        for a, b, c in ((0, 10, 1), (3, 3, 1), (10, 0, -3), (0, 7, 2), (0, 3, 0), (3, 0, 1), (0, 3, -1)):
            yield Case(d.type(a), d.type(b), d.type(c))
    for t in (np.float32, np.float64):
        for a, b, c in ((0, 1, .3), (0, 1, .1), (1, 0, -.1), (.1, 100, .7)):
            yield Case(t(a), t(b), t(c))
    yield Case(ints(0, 1), np.int32(3), np.int32(1))


@spec("LinSpace", ulps=1)
def lin_space(g, op):
    for t in (np.float32, np.float64):
        for n in (1, 2, 5, 100, 0, -1):
            yield Case(t(-1.5), t(7), np.int32(n))
        for a, b in ((1, np.nan), (np.nan, 1), (1, np.inf), (-np.inf, 1), (-np.inf, np.inf), (1e38, -3e38)):
            for n in (1, 2, 4):
                yield Case(t(a), t(b), np.int32(n))
    yield Case(np.float32([0]), np.float32(1), np.int32(3))


@spec("GatherV2")
def gather_v2(g, op):
    for dtype in EVERY:
        for axis in (0, 1, -1):
            yield Case(g.values(dtype, (4, 4, 4)), ints(1, 0, 3, 3), np.int32(axis))
    x = g.values("float32", (3, 2, 4))
    for i, a, b in ((ints(3), 0, 0), (np.int32([[0, -1]]), 0, 0), (ints(0), 3, 0), (np.int32(2), 0, 0),
                    (np.int32([[0], [1], [0]]), 1, 1), (np.int32([[0], [5], [0]]), 1, 1), (np.int32([[0], [1]]), 1, 1),
                    (np.int32([[0], [1], [0]]), 2, 1), (np.int32([[0], [1], [0]]), 0, 1), (np.int32([[0]]), 1, 3),
                    (np.int32([[0, 1], [1, 1], [0, 0]]), 2, 2), (np.int32([[0, 1], [1, 1], [0, 0]]), -1, -1),
                    (np.int64([]), 0, 0), (np.int64([[2, 1]]), 0, 0)):
        yield Case(x, i, np.int32(a), batch_dims=b)
    yield Case(x, ints(0), ints(0, 1))
    yield Case(g.values("float32", ()), ints(0), np.int32(0))
    yield Case(g.values("float32", (0, 2)), ints(0), np.int32(0))
    yield Case(g.values("float32", (2, 0)), ints(0, 1, 1), np.int32(0))
    yield Case(g.values("float32", (2, 0)), ints(5), np.int32(0))


@spec("Gather")
def gather(g, op):
    for dtype in EVERY:
        yield Case(g.values(dtype, (4, 3)), np.int64([[1, 0], [3, 3]]))
    yield Case(g.values("float32", (3, 2)), ints(3))
    yield Case(g.values("float32", ()), ints(3))


@spec("GatherNd")
def gather_nd(g, op):
    for dtype in EVERY:
        yield Case(g.values(dtype, (3, 4, 2)), np.int32([[0, 1], [2, 3], [1, 1]]))
    x = g.values("float32", (3, 2))
    for i in ([[3, 0]], [[[2, 0], [1, 2]]], [[1, 1, 1]], 1, [1], [2, 1], [[[0]], [[2]]]):
        yield Case(x, np.array(i, I32))
        yield Case(x, np.array(i, I64))
    yield Case(g.values("float32", ()), np.int32([[1]]))
    yield Case(g.values("float32", (0, 2)), np.int32([[0]]))
    yield Case(x, np.zeros((0, 2), I32))
    yield Case(x, np.zeros((2, 0), I32))
    yield Case(g.values("float32", (0, 2)), np.zeros((0, 1), I32))


@spec("OneHot")
def one_hot(g, op):
    for dtype in EVERY:
        yield Case(ints(0, 2, -1, 5, 1), np.int32(3), g.values(dtype, ()), g.values(dtype, ()))
    one, zero = np.float32(1), np.float32(0)
    for t in (np.uint8, np.int8, I32, I64):
        for axis in (-1, 0, 1, 2):
            yield Case(np.array([[0, 1], [2, 3]], t), np.int32(3), one, zero, axis=axis)
    yield Case(ints(0), np.int32(-1), one, zero)
    yield Case(ints(0), ints(1), one, zero)
    yield Case(ints(0), np.int32(1), np.float32([1]), zero)
    yield Case(ints(0), np.int32(1), one, np.float32([0]))
    yield Case(ints(0), np.int32(1), one, zero, axis=3)
    yield Case(np.int32(1), np.int32(3), one, zero)
    yield Case(np.int32([]), np.int32(3), one, zero)
    yield Case(ints(1), np.int32(0), one, zero)


@spec("Pad", "PadV2")
def pad(g, op):
    def case(x, p, v=None):
        return Case(x, p) if op == "Pad" else Case(x, p, x.dtype.type(3) if v is None else v)

    for dtype in PLAIN:
        yield case(g.values(dtype, (2, 3)), np.int32([[1, 2], [0, 1]]), g.values(dtype, ()))
    x = g.values("float32", (2, 3))
    for p in ([[0, 0], [0, 0]], [[0, 0], [2, 0]], [[1, -1], [0, 0]], [[1, 1]], [1, 1], [[1, 1], [1, 1], [1, 1]]):
        yield case(x, np.array(p, I32))
        yield case(x, np.array(p, I64))
    yield case(g.values("float32", (0, 2)), np.int32([[1, 1], [1, 1]]))
    yield case(g.values("float32", (2, 1, 2, 1, 2)), np.int32([[1, 1], [0, 1], [0, 0], [2, 0], [0, 1]]))
    yield case(g.values("float32", ()), np.zeros((0, 2), I32))
    yield case(g.values("float32", (0, 6)), np.int32([[0, 0], [1, 2]]))
    yield case(g.values("float32", (2, 0)), np.int32([[1, 0], [0, 0]]))
    if op == "PadV2":
        yield Case(x, np.int32([[1, 2], [0, 1]]), np.float32([1]))


@spec("MirrorPad")
def mirror(g, op):
    for mode in ("REFLECT", "SYMMETRIC"):
        for dtype in PLAIN + ["string"]:
            yield Case(g.values(dtype, (3, 4)), np.int32([[1, 2], [2, 1]]), mode=mode)
        for s, p in (((2,), [[1, 2]]), ((2,), [[1, 3]]), ((2,), [[1, -1]]), ((3, 2, 2), [[0, 0], [1, 1], [0, 1]]), ((3, 2), [[0, 0], [0, 0]])):
            yield Case(g.values("float32", s), np.array(p, I32), mode=mode)


@spec("ReverseV2")
def reverse_v2(g, op):
    for dtype in EVERY:
        for a in ([0], [1], [0, 1], [-1], []):
            yield Case(g.values(dtype, (3, 4)), np.array(a, I32))
    x = g.values("float32", (2, 3))
    for a in ([2], [0, -2], [[0]], 1):
        yield Case(x, np.array(a, I32))
    yield Case(g.values("float32", (2, 3, 4, 2)), ints(1, 3, t=I64))
    for a in ([], [0], [-1], [2, 2], [[0]], 1):
        yield Case(g.values("float32", ()), np.array(a, I32))
    for s in ((0, 2), (2, 0)):
        for a in ([0], [1, 1], [2], [-9], [[0]], 0):
            yield Case(g.values("float32", s), np.array(a, I32))


@spec("Reverse")
def reverse(g, op):
    yield Case(g.values("float32", (2, 3)), np.array([True, False]))
    yield Case(g.values("float32", (2, 3)), np.array([True]))
    yield Case(g.values("float32", ()), np.array([True]))
    for d in ([True, False], [True], [[True, False]], True):
        yield Case(g.values("float32", (2, 0)), np.array(d))
    yield Case(g.values("float32", (0, 2)), np.array([True, False]))


@spec("Where")
def where(g, op):
    for dtype in PLAIN:
        if dtype == "float16":  # TensorFlow has no Where kernel for float16.
            continue
        for s in ((7,), (3, 4), (2, 0), (2, 3, 2)):
            x = g.values(dtype, s)
            if dtype != "bool":
                x = np.where(g.rng.random(s) < 0.5, x, x.dtype.type(0))
            yield Case(x)
    yield Case(np.array(True))
