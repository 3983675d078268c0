"""Test cases for scatters, partitions, rolls, space-to-batch, bounds, counts and diagonals."""

from spec import *

I32, I64 = np.int32, np.int64


@spec("DynamicPartition")
def partition(g, op):
    for dtype in PLAIN + ["string"]:
        yield Case(g.values(dtype, (5, 3)), I32([0, 2, 1, 0, 2]), num_partitions=4)
    x = g.values("float32", (3,))
    for p in ([0, 1, 2], [0, 1], [0, -1, 1], [[0], [1], [1]]):
        yield Case(x, np.array(p, I32), num_partitions=2)
    yield Case(g.values("float32", (2, 2, 3)), I32([[0, 1], [1, 1]]), num_partitions=2)
    yield Case(g.values("float32", (3, 2)), I32(1), num_partitions=2)
    yield Case(g.values("float32", (0, 2)), I32([]), num_partitions=2)


@spec("DynamicStitch", "ParallelDynamicStitch")
def stitch(g, op):
    for dtype in PLAIN + ["string"]:
        yield Case([I32([0, 2]), I32([[1], [3]])], [g.values(dtype, (2, 3)), g.values(dtype, (2, 1, 3))])
    f = np.float32
    for i, d in (([[0, 1], [2]], [[1, 2], [3, 4]]), ([[0, -1], [2]], [[1, 2], [3]]), ([[0, 1], [2]], [[[1], [2]], [3]]),
                 ([[0, 1], [2]], [[[1], [2]], [[3, 4]]]), ([[0, 1], 2], [[1, 2], 3])):
        yield Case([np.array(v, I32) for v in i], [np.array(v, f) for v in d])
    yield Case([I32([]), I32([])], [f([]), f([])])
    if op == "DynamicStitch":
        yield Case([I32([0, 1]), I32([1, 0])], [f([1, 2]), f([3, 4])])


@spec("ScatterNd")
def scatter_nd(g, op):
    for dtype in NUMBERS + ["bool", "string"]:
        u = g.values(dtype, (3, 4), special=False) if dtype != "string" else g.values(dtype, (3, 4))
        yield Case(I32([[0], [2], [0]]), u, I32([5, 4]))
    for i, u, s in (([[5]], [1], [4]), ([[1]], [1, 2], [4]), ([[1], [1]], [1, 2], [4]), ([[1, 1]], [1], [4]), ([[-1]], [1], [4]),
                    ([[1]], [1], [0]), ([[1]], [1], [[4]]), (1, 1, [4]), ([[1, 2], [0, 0]], [1, 2], [3, 4]), ([[1]], [[1, 2, 3]], [3, 4])):
        for t in (I32, I64):
            yield Case(np.array(i, t), np.float32(u), np.array(s, t))
    yield Case(I32([[1], [9]]), np.float32([1, 2]), I32([4]), bad_indices_policy="IGNORE")
    yield Case(np.zeros((0, 1), I32), np.zeros((0,), np.float32), I32([0]))
    yield Case(np.zeros((2, 0), I32), np.ones((2, 3), np.float32), I32([3]))


@spec("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMin", "TensorScatterMax")
def tensor_scatter(g, op):
    types = NUMBERS if op in ("TensorScatterAdd", "TensorScatterSub") else REALS if op[-1] in "nx" else NUMBERS + ["bool", "string"]
    for dtype in types:
        a, u = (g.values(dtype, s, special=False) if dtype != "string" else g.values(dtype, s) for s in ((5, 4), (2, 4)))
        yield Case(a, I32([[3], [0]]), u)
        yield Case(a, I64([[3, 1], [0, 0], [3, 2]]), a[0, :3])
    if op[-1] in "nx":
        for dtype in FLOATS:
            a, u = g.values(dtype, (5, 40)), g.values(dtype, (64, 40))  # These include NaN.
            yield Case(a, I32(g.rng.integers(0, 5, (64, 1))), u)
    x = np.float32([1, 2])
    for i, u in (([[5]], [1]), ([[0], [0]], [1]), ([[0], [0]], [1, 5]), ([[-1]], [1]), ([[0, 0]], [1])):
        yield Case(x, I32(i), np.float32(u))
    yield Case(np.float32([]), I32([[0]]), np.float32([1]))
    # indices without elements: each would name the whole tensor
    for shape, i, u in (((2,), (0,), (2,)), ((2,), (2, 0), (2, 2)), ((2, 3), (1, 0), (1, 2, 3)), ((), (0,), ()), ((0,), (0,), (0,)), ((2,), (0, 1), (0,))):
        yield Case(np.ones(shape, np.float32), I32(np.zeros(i)), np.ones(u, np.float32), texts=True)


@spec("ReverseSequence")
def reverse_sequence(g, op):
    for dtype in PLAIN + ["string"]:
        yield Case(g.values(dtype, (3, 5, 2)), I32([2, 5, 0]), seq_dim=1)
        yield Case(g.values(dtype, (5, 3, 2)), I64([2, 5, 1]), seq_dim=0, batch_dim=1)
    x = g.values("float32", (2, 3))
    for n, s, b in (([2, 5], 1, 0), ([2, -1], 1, 0), ([2], 1, 0), ([2, 2], 0, 0), ([2, 2], 3, 0), ([2, 2], 1, 3), ([[2, 2]], 1, 0)):
        yield Case(x, np.array(n, I32), seq_dim=s, batch_dim=b)
    yield Case(np.zeros((0, 3), np.float32), I32([]), seq_dim=1)


@spec("Roll")
def roll(g, op):
    for dtype in PLAIN + ["string"]:
        yield Case(g.values(dtype, (3, 5)), I32([1, -7]), I32([0, 1]))
    x = g.values("float32", (4, 3, 2))
    for s, a in ((1, 0), (1, 3), ([1, 2], [0]), ([[1]], [[0]]), ([1, 2, 3], [0, 0, 2]), (100, -1), ([0], [1]), ([2, 1, 1], [0, 1, 2])):
        yield Case(x, np.array(s, I32), np.array(a, I64))
    yield Case(np.float32(5), I32([1]), I32([0]))
    yield Case(np.zeros((0, 3), np.float32), I32(1), I32(0))


@spec("SpaceToBatchND", "BatchToSpaceND")
def blocks(g, op):
    down = op == "SpaceToBatchND"
    for dtype in REALS:
        x = g.values(dtype, (2, 4, 6, 3) if down else (12, 2, 2, 3))
        yield Case(x, Const(I32([2, 3])), I32([[0, 0], [0, 0]]))
        yield Case(x, Const(I32([2, 3])), I32([[1, 1], [2, 1]]))
    x = g.values("float32", (2, 4, 6, 3) if down else (12, 2, 2, 3))
    for b, p in (([2, 2], [[0, 0], [1, 0]]), ([2, 2], [[0, -1], [0, 0]]), ([2, 2], [[0, 1]]), 
                 ([2], [[3, 1]]), ([1, 1], [[0, 0], [0, 0]]), ([2, 3, 1], [[0, 0], [3, 0], [0, 0]]), ([4], [[4, 4]]), ([5, 2], [[0, 0], [0, 0]]),
                 ([2, 2, 1, 1], [[0, 0]] * 4)):
        yield Case(x, Const(I32(b)), I32(p))
        yield Case(x, Const(I64(b)), I64(p))


@spec("SpaceToBatch", "BatchToSpace")
def old_blocks(g, op):
    x = g.values("float32", (4, 4, 6, 3))
    for p in ([[0, 0], [0, 0]], [[1, 1], [0, 2]], [[1, 0], [0, 0]]):
        yield Case(x, I32(p), block_size=2)
    yield Case(x[0], I32([[0, 0], [0, 0]]), block_size=2)
    yield Case(x[:3], I32([[0, 0], [0, 0]]), block_size=2)


@spec("SpaceToDepth", "DepthToSpace")
def depth(g, op):
    for dtype in PLAIN:
        yield Case(g.values(dtype, (2, 4, 6, 8)), block_size=2)
    yield Case(g.values("float32", (1, 3, 4, 3)), block_size=2)
    yield Case(g.values("float32", (3, 3, 4)), block_size=2)
    yield Case(g.values("float32", (1, 6, 3, 9)), block_size=3)
    yield Case(g.values("float32", (0, 4, 4, 4)), block_size=2)


@spec("LowerBound", "UpperBound")
def bounds(g, op):
    for dtype in REALS:
        s = np.sort(g.values(dtype, (3, 20), special=False), axis=1)
        for t in ("int32", "int64"):
            yield Case(s, g.values(dtype, (3, 9), special=False), out_type=t)
            yield Case(s, s[:, ::3], out_type=t)
    yield Case(np.float32([[1, 2]]), np.float32([[1], [2]]))
    yield Case(np.float32([1, 2]), np.float32([1]))
    yield Case(np.zeros((2, 0), np.float32), np.zeros((2, 3), np.float32))


@spec("UnravelIndex")
def unravel(g, op):
    for t in (I32, I64):
        for i, d in (([5, 2], [2, 3]), (5, [2, 3]), ([6], [2, 3]), ([-1], [2, 3]), ([1], [2, 0]), ([1], 3), ([[1]], [3]), ([1], [[3]]), ([], [3])):
            yield Case(np.array(i, t), np.array(d, t))


@spec("Bincount")
def bincount(g, op):
    x = I32([[1, 2], [2, 5]])
    for t in (np.float32, np.float64, I32, I64):
        yield Case(x, I32(4), np.array([], t))
        yield Case(x, I32(4), np.array([[1, 2], [3, 4]], t))
    yield Case(I32([1, -2]), I32(4), np.float32([]))
    yield Case(x, I32(-4), np.float32([]))
    yield Case(x, I32([4]), np.float32([]))


@spec("DenseBincount")
def dense_bincount(g, op):
    for t in (np.float32, np.float64, I32, I64):
        for i in (I32, I64):
            for x in ([1, 2, 2, 5], [[1, 2], [2, 5]], []):
                for binary in (False, True):
                    x = np.array(x, i)
                    yield Case(x, i(4), np.array([], t), binary_output=binary)
                    if x.size:
                        yield Case(x, i(4), np.arange(x.size).reshape(x.shape).astype(t), binary_output=binary)
    none = np.float32([])
    for x, n, w in (([[1], [-2]], 4, none), ([[[1]]], 4, none), ([1], -1, none), ([1], [1], none), ([1, 2], 3, np.float32([1])), (3, 5, none)):
        yield Case(np.array(x, I32), np.array(n, I32), w)


ALIGNS = ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT")


@spec("MatrixDiagV3")
def diag(g, op):
    for dtype in PLAIN:
        yield Case(g.values(dtype, (2, 3, 4)), I32([-1, 1]), I32(-1), I32(-1), g.values(dtype, ()))
    for align in ALIGNS:
        for shape, k in (((3, 4), [-1, 1]), ((4,), [0]), ((4,), [2]), ((4,), [-2]), ((2, 3), [0, 1]), ((2, 3), [-1, 0]), ((2, 3), [0, -1]),
                         ((), [0]), ((3,), [0, 1, 2]), ((3,), [0, 1])):
            for r, c in ((-1, -1), (4, 5), (5, -1), (-1, 3), (3, 9)):
                yield Case(g.values("int32", shape), I32(k), I32(r), I32(c), I32(77), align=align)


@spec("MatrixDiagV2")
def diag_v2(g, op):
    for shape, k in (((3, 4), [-1, 1]), ((4,), [0]), ((4,), [2]), ((2, 3), [0, 1])):
        yield Case(g.values("int32", shape), I32(k), I32(-1), I32(-1), I32(77))


@spec("MatrixDiag")
def diag_v1(g, op):
    for dtype in PLAIN:
        yield Case(g.values(dtype, (2, 3)))
    yield Case(np.float32(1))
    yield Case(np.float32([]))


@spec("MatrixDiagPartV3")
def part(g, op):
    for dtype in PLAIN:
        yield Case(g.values(dtype, (2, 3, 4)), I32([-1, 1]), g.values(dtype, ()))
    for align in ALIGNS:
        for shape in ((3, 4), (4, 3), (1, 1), (2, 3, 3), (3,)):
            for k in (0, 1, -1, 2, [0, 1], [-2, 2], [-1, 0], [1, 0], 5, -5, [0, 9]):
                yield Case(g.values("int32", shape), np.array(k, I32), I32(77), align=align)


@spec("MatrixDiagPartV2")
def part_v2(g, op):
    for k in (0, 1, -1, [0, 1], [-2, 2]):
        yield Case(g.values("int32", (3, 4)), np.array(k, I32), I32(77))


@spec("MatrixDiagPart")
def part_v1(g, op):
    for dtype in PLAIN:
        yield Case(g.values(dtype, (2, 3, 4)))
    yield Case(np.float32([1]))


@spec("MatrixSetDiagV3", "MatrixSetDiagV2")
def set_diag(g, op):
    for dtype in PLAIN:
        yield Case(g.values(dtype, (2, 3, 4)), g.values(dtype, (2, 3, 3)), I32([-1, 1]))
    for align in ALIGNS if op[-1] == "3" else (None,):
        for d, k in (((3,), 0), ((3,), 1), ((2,), -1), ((2, 3), [0, 1]), ((2, 3), [-1, 0]), ((5, 3), [-2, 2]), ((4,), 0), ((3,), 9), ((3,), [0, 1]), ((), 0)):
            yield Case(g.values("int32", (3, 4)), g.values("int32", d), np.array(k, I32), **({"align": align} if align else {}))
    yield Case(g.values("int32", (3,)), g.values("int32", (3,)), I32(0))


@spec("MatrixSetDiag")
def set_diag_v1(g, op):
    for dtype in PLAIN:
        yield Case(g.values(dtype, (2, 3, 4)), g.values(dtype, (2, 3)))
    yield Case(g.values("float32", (2, 3)), g.values("float32", (3,)))


@spec("MatrixBandPart")
def band(g, op):
    for dtype in PLAIN:
        yield Case(g.values(dtype, (2, 3, 4)), I64(1), I64(0))
    for shape in ((3, 4), (4, 2), (0, 3), (3,)):
        for a in (-1, 0, 1, 2, 5):
            for b in (-1, 0, 1, 2, 5):
                yield Case(g.values("float32", shape), I32(a), I32(b))
