"""Test cases for matrix multiplication and factorisations (kernels/matmul, kernels/linalg)."""

from spec import *

PRODUCTS = FLOATS + COMPLEX + ["int16", "int32", "int64"]
SOLVED = WIDE_FLOATS + COMPLEX
# The reciprocal of the second pivot is subnormal.
FAR = np.float32([[1, 0.5], [0, 3e38]])


def num(g, dtype, *shape):
    return g.values(dtype, shape, special=False) if dtype not in INTS else g.values(dtype, shape)


def tolerance(dtype):
    return {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "complex64": 1e-4}.get(dtype, 1e-12)


# ---- products ----


@spec("MatMul")
def mat_mul(g, op):
    for dtype in (t for t in PRODUCTS if t != "int16"):
        how = dict(rtol=tolerance(dtype))
        for m, k, n in [(1, 1, 1), (2, 3, 4), (1, 7, 5), (9, 4, 1), (0, 3, 2), (2, 0, 3), (2, 3, 0), (17, 33, 65), (1, 100, 130)]:
            for ta in (False, True):
                for tb in (False, True):
                    a = num(g, dtype, *((k, m) if ta else (m, k)))
                    b = num(g, dtype, *((n, k) if tb else (k, n)))
                    yield Case(a, b, transpose_a=ta, transpose_b=tb, **how)
                    if dtype in FLOATS and m != 9:
                        yield Case(a, Const(b), transpose_a=ta, transpose_b=tb, **how)
    for shapes in [((3,), (3, 4)), ((2, 3), (3,)), ((2, 2, 3), (2, 3, 4)), ((2, 3), (4, 4))]:
        yield Case(*[num(g, "float32", *s) for s in shapes])


@spec("BatchMatMul", "BatchMatMulV2")
def batch(g, op):
    same = [
        ((2, 3), (3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((2, 3, 4, 5), (2, 3, 5, 6)),
        ((0, 2, 3), (0, 3, 4)),
        ((2, 0, 3), (2, 3, 4)),
        ((2, 2, 0), (2, 0, 3)),
        ((3, 40, 50), (3, 50, 60)),
    ]
    wide = [
        ((2, 3), (5, 3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 1, 2, 3), (4, 3, 4)),
        ((1, 4, 2, 3), (2, 1, 3, 2)),
        ((2, 1, 30, 70), (1, 1, 70, 80)),
    ]
    for dtype in (t for t in PRODUCTS if t != "int16" or op != "BatchMatMul"):
        for a, b in same + (wide if op != "BatchMatMul" else []):
            for turn in range(4):
                x = num(g, dtype, *(a[:-2] + (a[-1], a[-2]) if turn & 1 else a))
                y = num(g, dtype, *(b[:-2] + (b[-1], b[-2]) if turn & 2 else b))
                how = dict(adj_x=bool(turn & 1), adj_y=bool(turn & 2), rtol=tolerance(dtype))
                yield Case(x, y, **how)
                if dtype in FLOATS:
                    yield Case(x, Const(y), **how)
    for shapes in [((3,), (3, 4)), ((2, 2, 3), (2, 4, 4)), ((2, 2, 3), (3, 3, 4)), ((2, 3), (3,))]:
        yield Case(*[num(g, "float32", *s) for s in shapes])


@spec("BatchMatMulV3")
def batch_v3(g, op):
    kinds = [(t, t, t) for t in PRODUCTS if t != "float16"]
    kinds += [(a, b, "int32") for a in ("int8", "uint8") for b in ("int8", "uint8")]
    kinds += [
        ("int8", "bfloat16", "bfloat16"),
        ("uint8", "bfloat16", "bfloat16"),
        ("bfloat16", "int8", "bfloat16"),
        ("bfloat16", "uint8", "bfloat16"),
    ]
    for a, b, out in kinds:
        for x, y in [((2, 3), (3, 4)), ((5, 2, 3), (1, 3, 4)), ((3, 20, 30), (30, 40))]:
            yield Case(num(g, a, *x), num(g, b, *y), Tout=out, rtol=tolerance(out))


@spec("Einsum")
def einsum(g, op):
    one = [
        ("ij->ji", (2, 3)),
        ("ij->i", (2, 3)),
        ("ijk->j", (2, 3, 4)),
        ("ii->i", (3, 3)),
        ("ii->", (3, 3)),
        ("i->ii", (3,)),
        ("ijk->kij", (2, 3, 4)),
        ("...ij->...ji", (2, 4, 3, 5)),
        ("->", ()),
        ("iij->ji", (3, 3, 2)),
        ("ij->ij", (0, 3)),
        ("ij->j", (0, 3)),
        ("ij->iji", (2, 3)),
        ("i...->...", (3, 4, 2)),
    ]
    two = [
        ("ij,jk->ik", (2, 3), (3, 4)),
        ("ij,kj->ik", (2, 3), (4, 3)),
        ("ji,jk->ik", (3, 2), (3, 4)),
        ("ij,jk->ki", (2, 3), (3, 4)),
        ("ij,jk->", (2, 3), (3, 4)),
        ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
        ("bij,bjk->ibk", (5, 2, 3), (5, 3, 4)),
        ("abc,cde->abde", (2, 3, 4), (4, 5, 6)),
        ("abcd,cde->abe", (2, 3, 4, 5), (4, 5, 6)),
        ("BTNH,BFNH->BNFT", (2, 7, 3, 5), (2, 6, 3, 5)),
        ("BNFT,BTNH->BFNH", (2, 3, 6, 7), (2, 7, 3, 5)),
        ("aecd,abcd->acbe", (2, 7, 3, 5), (2, 6, 3, 5)),
        ("acbe,aecd->abcd", (2, 3, 6, 7), (2, 7, 3, 5)),
        ("...ij,...jk->...ik", (5, 1, 2, 3), (4, 3, 6)),
        ("...ij,jk->...ik", (5, 2, 3), (3, 6)),
        ("...ij,...jk->ik...", (2, 2, 3), (2, 3, 6)),
        ("i,j->ij", (3,), (4,)),
        ("i,i->", (3,), (3,)),
        ("i,i->i", (3,), (3,)),
        (",ij->ij", (), (2, 3)),
        (",->", (), ()),
        ("ij,ij->ij", (2, 3), (2, 3)),
        ("ijk,jl->il", (2, 3, 4), (3, 5)),
        ("iij,jk->ik", (3, 3, 2), (2, 4)),
        ("ij,jk->iik", (3, 2), (2, 4)),
        ("ij,jk->ik", (2, 0), (0, 4)),
        ("ij,jk->ik", (0, 2), (2, 4)),
        ("ibh,hnd->ibnd", (3, 2, 8), (8, 2, 4)),
        ("abc,abd->cd", (2, 3, 4), (2, 3, 5)),
        ("ij,jk->ik", (40, 70), (70, 80)),
        ("abc,cd->abd", (3, 5, 70), (70, 90)),
        ("abc,cde->abde", (3, 2, 64), (64, 8, 16)),
        ("abcd,cde->abe", (3, 2, 8, 16), (8, 16, 64)),
        ("nij,kij->nk", (6, 9, 10), (7, 9, 10)),
    ]
    for dtype in FLOATS + COMPLEX + ["int32", "int64"]:
        how = dict(rtol=4 * tolerance(dtype))
        for eq, s in one:
            yield Case([num(g, dtype, *s)], equation=eq, **how)
        for eq, a, b in two:
            x, y = num(g, dtype, *a), num(g, dtype, *b)
            yield Case([x, y], equation=eq, **how)
            if dtype == "float32":
                yield Case([x, Const(y)], equation=eq, **how)
    for eq, *shapes in [
        ("ij,jk->ik", (2, 3), (4, 4)),
        ("ij,jk->ik", (2, 3), (4,)),
        ("ij,jk->ik", (2, 3, 1), (3, 4)),
        ("ii->i", (3, 2)),
        ("...ij,...jk->...ik", (5, 3, 2, 3), (4, 3, 6)),
        ("...ij->ij", (5, 2, 3)),
        ("ij,ij->ij", (1, 3), (2, 3)),
        ("...ijk->i", (2, 3)),
        # A label whose first length is 0 may have another one later, unless the result has it.
        ("ij,jk->ik", (2, 0), (3, 2)),
        ("ij,jk->ik", (2, 3), (0, 2)),
        ("ij,kj->ki", (2, 0), (3, 4)),
        ("bij,bjk->bik", (3, 2, 0), (3, 4, 2)),
        ("bij,bjk->bik", (0, 2, 3), (1, 3, 2)),
        ("bij,bjk->bik", (0, 2, 3), (4, 3, 2)),
        ("bij,bjk->ik", (0, 2, 3), (4, 3, 2)),
        ("i,i->", (0,), (3,)),
        ("i,i->i", (0,), (3,)),
        ("i,i->ii", (0,), (1,)),
        ("ii->", (0, 3)),
        ("iij,jk->jk", (0, 3, 2), (2, 2)),
        ("ii,i->", (0, 3), (0,)),
        ("...i,i->...", (2, 0), (3,)),
        ("...i,...i->...", (0, 0), (1, 3)),
        ("i...,i...->i...", (0, 2), (1, 2)),
        ("i...,i...->...", (0, 2), (3, 2)),
    ]:
        yield Case([num(g, "float32", *s) for s in shapes], equation=eq)


# ---- factorisations ----


def square(g, dtype, *shape):
    a = num(g, dtype, *shape)
    return (a + (30 * np.eye(shape[-1]) if shape[-1] else 0)).astype(a.dtype)


def sizes(rhs=False):
    return [(1, 1), (2, 2), (5, 5), (0, 0), (3, 4, 4), (2, 1, 3, 3), (0, 2, 2), (2, 0, 0), (20, 20)]


def not_numbers(g):
    """Yields matrices whose first pivot, or another element, is NaN."""
    for dtype in SOLVED:
        for n in (1, 2, 5):
            for at in {0, 1 % n, n * n - 1}:
                a = square(g, dtype, n, n)
                a.reshape(-1)[at] = np.nan
                yield a


def lower_triangle(case, a, b):
    """Compares only the lower triangles. TensorFlow leaves the upper triangle uninitialised if the matrix is not
    positive definite."""
    a, b = np.tril(a[0]), np.tril(b[0])
    return None if np.allclose(a, b, rtol=1e-3, equal_nan=True) else f"{a.tolist()}, we {b.tolist()}"


@spec("Cholesky")
def cholesky(g, op):
    for dtype in SOLVED:
        for s in sizes():
            a = square(g, dtype, *s)
            yield Case(np.matmul(a, np.conj(np.swapaxes(a, -1, -2))).astype(a.dtype), rtol=10 * tolerance(dtype))
    for dtype in SOLVED:
        for n in range(1, 6):
            yield Case(np.full((n, n), 0.5, dtype), check=lower_triangle)
        for a in ([[1, 2], [2, 1]], [[0, 0], [0, 1]], [[1, np.nan], [np.nan, 1]], [[4, 2, np.nan], [2, 5, 3], [6, 3, 4]],
                  [[np.nan, 1], [1, 1]], [[np.inf, 1], [1, 2]], [[4, 2, 1], [2, 1, 3], [1, 3, 9]]):
            yield Case(np.array(a, dtype), check=lower_triangle)
        for x in (-1, 0, np.nan, np.inf, -np.inf):
            yield Case(np.array([[[4]], [[x]]], dtype))
    yield Case(np.zeros((3, 4), "float32"))
    yield Case(np.zeros(3, "float32"))


@spec("MatrixInverse")
def inverse(g, op):
    for dtype in SOLVED + ["float16"]:
        for s in sizes():
            for adjoint in (False, True):
                yield Case(square(g, dtype, *s), adjoint=adjoint, rtol=20 * tolerance(dtype))
    yield Case(np.zeros((3, 3), "float32"))
    yield Case(np.zeros((3, 4), "float32"))
    yield from (Case(a) for a in not_numbers(g))


@spec("MatrixDeterminant", "LogMatrixDeterminant")
def determinant(g, op):
    for dtype in SOLVED:
        for s in sizes():
            yield Case((square(g, dtype, *s) / 30).astype(dtype_of(dtype)), rtol=20 * tolerance(dtype), atol=20 * tolerance(dtype))
        yield Case(num(g, dtype, 4, 4), rtol=20 * tolerance(dtype))
        yield Case(np.zeros((3, 3), dtype))
    for x in (np.inf, -np.inf, np.nan):
        for rest in ((1, 1, 1), (-2, 3, -4), (0, 0, 1), (1, 2, 0)):
            for at in range(4):
                yield Case(np.insert(np.float64(rest), at, x).reshape(2, 2))
    # The product of some of the pivots overflows or underflows, but the determinant does not.
    for dtype, far in [("float32", 1e30), ("complex64", 1e30), ("float64", 1e300), ("complex128", 1e300)]:
        yield Case(np.diag([far, -far, 1 / far]).astype(dtype), rtol=20 * tolerance(dtype))
        yield Case(np.diag([1 / far, 1 / far, -far]).astype(dtype), rtol=20 * tolerance(dtype))
    yield Case(np.diag([1e-310, 1e300]))
    yield Case(np.zeros((3, 4), "float32"))


@spec("MatrixSolve")
def solve(g, op):
    for dtype in SOLVED:
        for s in sizes():
            for m in (1, 3, 0):
                for adjoint in (False, True):
                    yield Case(square(g, dtype, *s), num(g, dtype, *s[:-1], m), adjoint=adjoint, rtol=20 * tolerance(dtype))
    for a, b in [((3, 3), (4, 1)), ((3, 3), (3,)), ((3, 4), (3, 1)), ((2, 3, 3), (3, 3, 1)), ((3, 3), (3, 1))]:
        yield Case(np.zeros(a, "float32"), np.zeros(b, "float32"))
    yield Case(FAR, np.float32([[1], [1e30]]), adjoint=False)
    yield from (Case(a, num(g, str(a.dtype), len(a), 2)) for a in not_numbers(g))


@spec("MatrixTriangularSolve")
def triangular(g, op):
    for dtype in SOLVED:
        for s in sizes():
            for m in (1, 3):
                for how in range(4):
                    yield Case(
                        square(g, dtype, *s),
                        num(g, dtype, *s[:-1], m),
                        lower=bool(how & 1),
                        adjoint=bool(how & 2),
                        rtol=20 * tolerance(dtype),
                    )
        yield Case(square(g, dtype, 3, 3), num(g, dtype, 5, 3, 2), rtol=20 * tolerance(dtype))
        yield Case(square(g, dtype, 4, 1, 3, 3), num(g, dtype, 5, 3, 2), rtol=20 * tolerance(dtype))
    for a, b in [((3, 3), (4, 1)), ((3, 4), (4, 1)), ((3,), (4, 1)), ((2, 3, 3), (3, 3, 1))]:
        yield Case(np.ones(a, "float32"), np.ones(b, "float32"))
    yield Case(FAR, np.float32([[1], [1e30]]), lower=False, adjoint=False)


@spec("Cross")
def cross(g, op):
    for dtype in REALS:
        for s in [(3,), (2, 3), (0, 3), (2, 1, 3), (7, 3)]:
            yield Case(num(g, dtype, *s), num(g, dtype, *s), rtol=0 if dtype in INTS else tolerance(dtype))
    for a, b in [((2, 2), (2, 2)), ((2, 3), (3,)), ((), ())]:
        yield Case(np.ones(a, "float32"), np.ones(b, "float32"))
