"""Test cases for ops on sets. The last dimension contains the elements of a set, and the other dimensions select the set."""

from spec import *

TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "string")
OPERATIONS = ("intersection", "union", "a-b", "b-a")
GROUPS = ((3,), (1,), (2, 3), (2, 1, 2), (0,), (1, 2, 1, 2, 1, 2))


def members(g, dtype, shape):
    return g.values(dtype, shape) if dtype == "string" else g.values(dtype, shape, lo=0, hi=6)


def sparse(g, dtype, shape, fill=0.5):
    """Returns the indices, values and shape of random sets."""
    indices = np.argwhere(g.rng.random(shape) < fill).astype(np.int64)
    return indices, members(g, dtype, (len(indices),)), np.int64(shape)


def malformed(groups=(2,)):
    """Yields sparse tensors with inconsistent parts or unordered indices."""
    i, v, s = np.int64([[0, 0], [0, 1], [1, 0]]), np.int32([2, 7, 4]), np.int64([2, 3])
    yield from ((i, v[:2], s), (i[0], v[:2], s), (i, v.reshape(3, 1), s), (i, v, s.reshape(1, 2)), (i, v, s[:1]), (i, v, np.int64([2, 3, 4])), (i[:, :1].copy(), v, np.int64([3])))
    yield from ((i, v, np.int64([2, -3])), (i, v, np.int64([2**62, 2**40])), (i, v, np.int64([2**62, 3])), (i, v, np.int64([3, 3])), (np.zeros((3, 0), np.int64), v, s[:0]))
    yield from ((i[::-1].copy(), v, s), (i[[0, 0, 2]], v, s), (i + [[1, 0]], v, s), (i + [[0, 2]], v, s), (i - [[1, 0]], v, s), (i[[1, 0, 2]], v, s), (i[[0, 2, 1]], v, s))


@spec("DenseToDenseSetOperation")
def dense(g, op):
    for dtype in TYPES:
        for how in OPERATIONS:
            for group in GROUPS:
                yield Case(members(g, dtype, (*group, 5)), members(g, dtype, (*group, 3)), set_operation=how)
        yield Case(members(g, dtype, (2, 0)), members(g, dtype, (2, 3)), set_operation="union", validate_indices=False)
        yield Case(members(g, dtype, (2, 40)), members(g, dtype, (2, 0)), set_operation="A-B")
    for a, b in (((2, 3), (3,)), ((3,), (3,)), ((3,), (2, 3)), ((), (2, 3)), ((2, 3), (3, 3)), ((2, 3), (2, 3, 1)), ((0, 2), (0, 2)), ((3, 0), (3, 0))):
        yield Case(members(g, "int32", a), members(g, "int32", b), set_operation="union", texts=True)
    yield Case(members(g, "int32", (2, 3)), members(g, "int32", (2, 3)), set_operation="xor", texts=True)


@spec("DenseToSparseSetOperation")
def dense_sparse(g, op):
    for dtype in TYPES:
        for how in OPERATIONS:
            for group in GROUPS:
                for valid in (True, False):
                    yield Case(members(g, dtype, (*group, 5)), *sparse(g, dtype, (*group, 4)), set_operation=how, validate_indices=valid)
        yield Case(members(g, dtype, (3, 0)), *sparse(g, dtype, (3, 4)), set_operation="union")
        yield Case(members(g, dtype, (3, 4)), *sparse(g, dtype, (3, 0)), set_operation="union")
    for bad in malformed():
        for valid in (True, False):
            yield Case(members(g, "int32", (2, 4)), *bad, set_operation="union", validate_indices=valid, texts=True)
            yield Case(members(g, "int32", (2, 0)), *bad, set_operation="union", validate_indices=valid)
    yield Case(members(g, "int32", (2,)), *sparse(g, "int32", (2, 3)), set_operation="union", texts=True)
    yield Case(members(g, "int32", (2, 2)), *sparse(g, "int32", (2, 3)), set_operation="", texts=True)


@spec("SparseToSparseSetOperation")
def sparse_sparse(g, op):
    for dtype in TYPES:
        for how in OPERATIONS:
            for group in GROUPS:
                for valid in (True, False):
                    yield Case(*sparse(g, dtype, (*group, 5)), *sparse(g, dtype, (*group, 3), 0.3), set_operation=how, validate_indices=valid)
    good = np.int64([[0, 1], [1, 1]]), np.int32([2, 9]), np.int64([2, 2])
    for bad in malformed():
        for valid in (True, False):
            yield Case(*good, *bad, set_operation="union", validate_indices=valid, texts=True)
            yield Case(*bad, *good, set_operation="union", validate_indices=valid, texts=True)
            yield Case(*bad, *bad, set_operation="a-b", validate_indices=valid)
    yield Case(*good, *good, set_operation="a", texts=True)


@spec("SetSize")
def size(g, op):
    for dtype in TYPES:
        for group in GROUPS:
            for valid in (True, False):
                for fill in (0.2, 0.5, 1):
                    yield Case(*sparse(g, dtype, (*group, 6), fill), validate_indices=valid)
    for bad in malformed():
        yield Case(*bad, texts=True)
        if np.size(bad[0]) and np.min(bad[0]) >= 0 and np.max(bad[2]) < 2**30:
            yield Case(*bad, validate_indices=False, texts=True)
