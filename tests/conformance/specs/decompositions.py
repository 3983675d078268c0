"""Test cases for decompositions of matrices (kernels/linalg). If signs or bases are not unique, the product of the factors,
their orthogonality and the order of the values are compared."""

import itertools

from spec import *

SOLVED = WIDE_FLOATS + COMPLEX
SHAPES = [(1, 1), (2, 2), (3, 2), (2, 3), (5, 5), (7, 4), (4, 7), (1, 6), (6, 1), (2, 3, 3), (2, 1, 4, 2), (2, 1, 1, 1, 1, 1, 2, 3), (33, 20), (20, 33), (70, 70)]
EMPTY = [(0, 0), (0, 3), (3, 0), (2, 0, 0), (0, 2, 2), (2, 0, 3), (2, 3, 0)]
SQUARES = [(1, 1), (2, 2), (3, 3), (5, 5), (8, 8), (2, 3, 3), (3, 2, 2, 2), (2, 1, 1, 1, 1, 1, 3, 3), (20, 20), (65, 65)]
NO_SQUARES = [(0, 0), (2, 0, 0), (0, 2, 2)]


def near(dtype):
    return {"float16": 5e-3, "float32": 2e-5, "complex64": 2e-5}.get(str(dtype), 1e-12)


def num(g, dtype, *shape):
    return g.values(dtype, shape, special=False)


def refused(g):
    yield from (Case(num(g, "float32", *s)) for s in [(), (3,), (2, 3), (3, 2), (0, 3), (2, 3, 2)])


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


def special(dtype):
    """Yields matrices that are special cases for decompositions."""
    for a in ([[0, 0], [0, 0]], [[1, 2], [2, 4]], [[-1, 0], [0, -1]], [[0, -1], [1, 0]], [[3, 1], [1, 2]], [[1, 1], [0, 1]],
              [[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[2, 0, 0], [0, 3, 0], [0, 0, -5]], [[1, 2, 3], [4, 5, 6], [7, 8, 9]]):
        yield np.array(a, dtype)


def differ(what, a, b, dtype, scale=1):
    """Returns a description if a and b differ by more than the rounding of `dtype` allows."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return f"{what}: shapes {a.shape} and {b.shape}"
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return f"{what}: {a.tolist()}, we {b.tolist()}"
    if not a.size:
        return None
    fine = np.isfinite(a)
    off = np.abs(np.where(fine, a, 0) - np.where(fine, b, 0)).max(initial=0)
    return f"{what}: off by {off}" if off > near(dtype) * max(scale, np.abs(a[fine]).max(initial=0)) * max(a.shape[-1], 8) else None


# ---- Qr ----


@spec("Qr")
def qr(g, op):
    for dtype in SOLVED + ["float16"]:
        for s in SHAPES + EMPTY:
            if dtype != "float16" or max(s) < 30:  # TensorFlow sums in half precision
                for full in (False, True):
                    yield Case(num(g, dtype, *s), full_matrices=full, rtol=40 * near(dtype), signs=False)
        for a in special(dtype):
            if np.linalg.matrix_rank(a.astype("complex128")) == len(a):
                yield Case(a, rtol=40 * near(dtype), atol=near(dtype), signs=False)
    yield Case(np.full((2, 2), np.nan, "float32"))
    yield Case(np.zeros((2, 3), "float32"))
    yield Case(np.zeros((3, 2), "float32"), full_matrices=True)
    yield from (Case(num(g, "float32", *s)) for s in [(), (3,)])


# ---- Svd ----


def same_svd(case, theirs, ours):
    a = case.inputs[0]
    bad = differ("values", theirs[0], ours[0], a.dtype)
    if bad or len(theirs) == 1 or not a.size:
        return bad or next(filter(None, (differ("empty", t, o, a.dtype) for t, o in zip(theirs, ours))), None)
    s, u, v = ours
    if not np.isfinite(a).all():
        return differ("vectors", theirs[1], u, a.dtype) or differ("vectors", theirs[2], v, a.dtype)
    if u.shape != theirs[1].shape or v.shape != theirs[2].shape:
        return f"shapes {u.shape} {v.shape}"
    k = s.shape[-1]
    built = np.matmul(u[..., :k] * s[..., None, :], adjoint(v[..., :k]))
    eye = lambda x: np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape[:-2] + (x.shape[-1],) * 2)
    return (differ("product", a, built, a.dtype) or differ("U", eye(u), np.matmul(adjoint(u), u), a.dtype)
            or differ("V", eye(v), np.matmul(adjoint(v), v), a.dtype))


@spec("Svd")
def svd(g, op):
    for x, full in itertools.product((np.nan, np.inf), (False, True)):
        for dtype in SOLVED:
            yield Case(np.array([[1, 2], [3, x], [4, 5]], dtype), full_matrices=full)
        yield Case(np.array([[[1, 2], [x, 3]], [[1, 2], [4, 3]]], dtype), compute_uv=False, rtol=near(dtype), outputs=[0])
    for dtype in SOLVED:
        for s in SHAPES + EMPTY:
            for full in (False, True):
                yield Case(num(g, dtype, *s), compute_uv=True, full_matrices=full, check=same_svd)
            yield Case(num(g, dtype, *s), compute_uv=False, check=same_svd, outputs=[0])
        for a in special(dtype):
            yield Case(a, check=same_svd)
    yield from (Case(num(g, "float32", *s)) for s in [(), (3,)])


# ---- eigenvalues ----


def same_eigh(case, theirs, ours):
    dtype, a = case.inputs[0].dtype, np.tril(case.inputs[0])
    a = a + adjoint(np.tril(a, -1))
    if a.dtype.kind == "c":  # the imaginary part of the diagonal is not read
        a = a - 1j * np.imag(a * np.eye(a.shape[-1]))
    bad = differ("values", theirs[0], ours[0], dtype, scale=np.abs(theirs[0]).max(initial=0))
    if bad or len(ours) == 1 or not a.size:
        return bad
    e, v = ours
    eye = np.broadcast_to(np.eye(v.shape[-1], dtype=v.dtype), v.shape)
    return differ("product", a, np.matmul(v * e[..., None, :], adjoint(v)), dtype) or differ("V", eye, np.matmul(adjoint(v), v), dtype)


@spec("SelfAdjointEigV2")
def self_adjoint(g, op):
    for dtype in SOLVED:
        for s in SQUARES + NO_SQUARES:
            for _ in range(2):
                yield Case(num(g, dtype, *s), compute_v=True, check=same_eigh)
                yield Case(num(g, dtype, *s), compute_v=False, check=same_eigh, outputs=[0])
        for a in special(dtype):
            yield Case(a, check=same_eigh)
        for x in (np.nan, np.inf):
            yield Case(np.array([[1, 2], [x, 3]], dtype), texts=True)
            yield Case(np.array([[1, x], [2, 3]], dtype), check=same_eigh)
            yield Case(np.array([[x]], dtype), compute_v=False, outputs=[0])
    yield from refused(g)


def paired(a, b):
    """Returns the indices that pair each value of a with the nearest value of b. The order of a conjugate pair could
    otherwise depend on rounding."""
    left, order = list(range(len(b))), []
    for x in a:
        best = min(left, key=lambda i: abs(b[i] - x))
        left.remove(best)
        order.append(best)
    return np.array(order, int)


def same_eig(case, theirs, ours):
    a = case.inputs[0]
    n = a.shape[-1]
    if ours[0].shape != theirs[0].shape or ours[0].dtype != theirs[0].dtype:
        return f"{ours[0].dtype} {ours[0].shape}"
    flat_t, flat_o = theirs[0].reshape(-1, n or 1), ours[0].reshape(-1, n or 1)
    for t, o in zip(flat_t, flat_o):
        bad = differ("values", t, o[paired(t, o)], a.dtype, scale=np.abs(t).max(initial=0) * 10)
        if bad:
            return bad
    if len(ours) == 1 or not a.size:
        return None
    e, v = ours
    scale = np.abs(a).max() * n
    return differ("vectors", np.matmul(a, v), v * e[..., None, :], a.dtype, scale=scale) or differ("length", np.ones(e.shape), np.linalg.norm(v, axis=-2), a.dtype)


def permuted_eig(case, theirs, ours):
    """Compares how well the eigenvectors fulfil their equation, relative to the matrix. The eigenvalues of such a matrix
    are too sensitive to be compared."""
    a = case.inputs[0].astype("complex128")
    value, vector = (x.astype("complex128") for x in ours)
    worst = np.abs(a @ vector - vector * value).max() / np.linalg.norm(a)
    return None if worst <= 20 * near(case.inputs[0].dtype) else f"the residual is {worst:.1e} of the matrix"


@spec("Eig")
def eig(g, op):
    for x in (np.nan, np.inf):
        for dtype in ("complex64", "float64"):
            yield Case(np.array([[[2]], [[x]]], dtype), Tout="complex64" if dtype == "complex64" else "complex128", texts=True)
        yield Case(np.array([[[2]], [[x]]], "complex128"), compute_v=False, Tout="complex128", outputs=[0])
    for dtype in SOLVED:
        out = "complex64" if near(dtype) > 1e-9 else "complex128"
        for s in SQUARES + NO_SQUARES:
            for _ in range(3):
                yield Case(num(g, dtype, *s), compute_v=True, Tout=out, check=same_eig)
            yield Case(num(g, dtype, *s), compute_v=False, Tout=out, check=same_eig, outputs=[0])
        for a in special(dtype):
            if a[0, 1] != 1 or a[1, 0]:  # a defective matrix has no basis of eigenvectors
                yield Case(a, Tout=out, check=same_eig)
        for k in range(6):  # permuted triangular matrices whose columns differ by orders of magnitude
            columns, order = 10.0 ** g.rng.uniform(-k, k, 10), g.rng.permutation(10)
            yield Case((np.triu(num(g, dtype, 10, 10)) * columns)[order][:, order].astype(dtype), Tout=out, check=permuted_eig)
        for x in (np.nan, np.inf):
            yield Case(np.array([[1, 2], [x, 3]], dtype), Tout=out, texts=True)
    yield Case(np.ones((2, 2), "float32"), Tout="complex128", texts=True)
    yield Case(np.ones((2, 2), "complex128"), Tout="complex64", texts=True)
    yield from (Case(num(g, "float32", *s), Tout="complex64") for s in [(), (3,), (2, 3), (0, 3)])


# ---- factorisations of one rule ----


@spec("Lu")
def lu(g, op):
    for dtype in SOLVED:
        for index in ("int32", "int64"):
            for s in SQUARES + NO_SQUARES:
                for _ in range(2):
                    yield Case(num(g, dtype, *s), output_idx_type=index, rtol=400 * near(dtype))
            for a in special(dtype):
                yield Case(a, output_idx_type=index, rtol=near(dtype), texts=True)
        yield Case(np.full((2, 2), np.nan, dtype), texts=True)
    yield from refused(g)


@spec("CholeskyGrad")
def cholesky_grad(g, op):
    for dtype in WIDE_FLOATS:
        for s in SQUARES + NO_SQUARES:
            for _ in range(10):
                l = num(g, dtype, *s) + (15 * np.eye(s[-1])).astype(dtype)
                yield Case(l, num(g, dtype, *s), rtol=40 * near(dtype))
        for a in special(dtype):
            yield Case(a, a, rtol=near(dtype))
    for a, b in [((2, 2), (2, 3)), ((2, 2), (2, 2, 2)), ((2,), (2,)), ((2, 3), (2, 3)), ((3, 3), (2, 2)), ((3, 2, 2), (2, 2, 2))]:
        yield Case(np.ones(a, "float32"), np.ones(b, "float32"))


# ---- functions of a matrix ----


def same_function(case, theirs, ours):
    """Results for a nearly singular matrix may be NaN in TensorFlow or in Slipway."""
    bad = differ("values", theirs[0], ours[0], case.inputs[0].dtype, scale=10 * np.abs(np.nan_to_num(theirs[0])).max(initial=0))
    return bad if case.inputs[0].size else differ("empty", theirs[0], ours[0], "float32")


@spec("MatrixSquareRoot", "MatrixLogarithm")
def function(g, op):
    for dtype in SOLVED if op == "MatrixSquareRoot" else COMPLEX:
        for s in SQUARES + NO_SQUARES:
            for _ in range(3 if op == "MatrixSquareRoot" else 6):
                a = num(g, dtype, *s)
                yield Case(np.matmul(a, adjoint(a)) + np.eye(s[-1], dtype=dtype), check=same_function)
                yield Case((a + 12 * s[-1] * np.eye(s[-1])).astype(dtype), check=same_function)
        for a in special(dtype):
            if np.linalg.matrix_rank(a) == len(a):
                yield Case(a, check=same_function)
        yield Case(np.zeros((2, 2), dtype), check=same_function)
        yield Case(np.array([[2, 1, 0], [0, 2, 1], [0, 0, 2]], dtype), check=same_function)
        yield Case(np.array([[-4]], dtype), check=same_function)
        for x in (np.nan, np.inf):
            yield Case(np.array([[1, 2], [x, 3]], dtype), check=same_function)
    yield from (Case(num(g, "float32" if op == "MatrixSquareRoot" else "complex64", *s)) for s in [(), (3,), (2, 3), (0, 3)])


# ---- systems of equations ----


@spec("MatrixSolveLs")
def least_squares(g, op):
    zero = np.float64(0)
    for dtype in SOLVED:
        for s in SHAPES:
            if s[-1] > 30 or s[-2] > 60:
                continue
            for k in (1, 3):
                b = num(g, dtype, *s[:-1], k)
                a = num(g, dtype, *s)
                eye = np.eye(s[-2], s[-1]) * 20
                how = dict(rtol=400 * near(dtype))
                yield Case((a + eye).astype(dtype), b, zero, fast=True, **how)
                yield Case((a + eye).astype(dtype), b, zero, fast=False, **how)
                yield Case(a, b, np.float64(3), fast=True, **how)
        for fast in (True, False):
            for a in special(dtype):
                how = dict(rtol=4000 * near(dtype), atol=100 * near(dtype))
                if np.linalg.matrix_rank(a) == len(a):
                    yield Case(a, num(g, dtype, len(a), 2), zero, fast=fast, **how)
                yield Case(a, np.ones((len(a), 1), dtype), np.float64(0.5), fast=fast, **how)
        yield Case(np.full((2, 2), np.nan, dtype), np.ones((2, 1), dtype), np.float64(0.5), fast=True)
        yield Case(np.full((2, 2), np.nan, dtype), np.ones((2, 1), dtype), zero, fast=False)
    for a, b in [((4, 2), (3, 1)), ((4, 2), (4,)), ((2, 4, 2), (3, 4, 1)), ((2, 4, 2), (4, 1)), ((2, 0), (2, 1)), ((2, 2), (2, 0)), ((3, 4, 0), (3, 4, 2))]:
        yield Case(np.ones(a, "float32"), np.ones(b, "float32"), zero)
    sing = np.float32([[1, 2], [2, 4]])
    for l2 in (np.float64([0]), np.float64(-1), np.float64(np.nan), np.float64(0.5), zero):
        yield Case(sing, np.float32([[1], [2]]), l2, fast=True, rtol=1e-5, texts=True)


@spec("TridiagonalSolve")
def tridiagonal_solve(g, op):
    kinds = [dict(partial_pivoting=False), dict(partial_pivoting=True), dict(partial_pivoting=True, perturb_singular=True)]
    for kind in kinds:
        for dtype in SOLVED:
            how = dict(rtol=1000 * near(dtype), **kind)
            for batch, n, m in [((), 1, 1), ((), 2, 3), ((), 5, 2), ((2,), 4, 1), ((2, 3), 3, 2), ((0,), 3, 1), ((), 0, 2), ((), 4, 0), ((2, 1, 1, 1, 1, 1), 3, 2), ((), 40, 3)]:
                for lift in (0, 12):
                    d = num(g, dtype, *batch, 3, n)
                    d[..., 1, :] += lift
                    if lift or kind["partial_pivoting"]:
                        yield Case(d, num(g, dtype, *batch, n, m), **how)
            for d in ([[0, 0, 0], [1, 0, 1], [0, 0, 0]], [[0, 0, 0], [100, 0, 2], [0, 0, 0]], [[0, 0, 0], [1, 1, 0], [0, 0, 0]], [[1, 1, 0], [0, 0, 1], [0, 1, 1]],
                      [[1, 1, 0], [1, 2, 1], [0, 1, 1]], [[1, 1, 0], [1, 1, 1], [0, 1, 1]], [[0, 0, 0], [0, 0, 0], [0, 0, 0]], [[1, 1, np.nan], [3, 4, 2], [np.nan, 1, 1]]):
                # For a zero matrix, TensorFlow's perturbation of a pivot grows with the right-hand side.
                sides = [[1], [1], [1]] if not np.any(d) else [[1], [2], [3]]
                yield Case(np.array(d, dtype), np.array(sides, dtype), **how)
    for d, b in [((3, 4), (5, 2)), ((2, 4), (4, 2)), ((2, 3, 4), (3, 4, 1)), ((3, 4), (4,)), ((3,), (3, 1)), ((3, 4), (2, 4, 1))]:
        yield Case(np.ones(d, "float32"), np.ones(b, "float32"), texts=True)
    yield Case(np.ones((3, 3)), np.ones((3, 1)), partial_pivoting=False, perturb_singular=True)


@spec("TridiagonalMatMul")
def tridiagonal_product(g, op):
    for dtype in SOLVED:
        for batch, n, m in [((), 1, 1), ((), 2, 3), ((), 5, 2), ((2,), 4, 1), ((2, 3), 3, 2), ((0,), 3, 1), ((), 0, 2), ((), 4, 0), ((2, 1, 1, 1, 1, 1), 3, 2), ((), 40, 3)]:
            for _ in range(5):
                yield Case(*(num(g, dtype, *batch, 1, n) for _ in range(3)), num(g, dtype, *batch, n, m), rtol=4 * near(dtype))
    for s in [[(3,), (3,), (3,), (3, 2)], [(1, 3), (1, 3), (1, 3), (4, 2)], [(1, 3), (1, 3), (1, 4), (3, 2)], [(2, 3), (2, 3), (2, 3), (3, 2)], [(2, 1, 3), (1, 3), (2, 1, 3), (2, 3, 1)], [(1, 3), (1, 4), (1, 3), (3, 2)]]:
        yield Case(*(np.ones(x, "float32") for x in s), texts=True)


@spec("BandedTriangularSolve")
def banded(g, op):
    for dtype in SOLVED:
        for how in range(4):
            for bands, s in [((1, 3), (3, 2)), ((2, 3), (3, 1)), ((3, 5), (5, 2)), ((5, 3), (3, 1)), ((2, 2, 4), (2, 4, 1)), ((2, 4), (3, 4, 1)), ((3, 1, 2, 4), (2, 4, 2)), ((4, 40), (40, 3))]:
                a = num(g, dtype, *bands)
                a[..., 0 if how & 1 else -1, :] += 25
                for _ in range(2):
                    yield Case(a, num(g, dtype, *s), lower=bool(how & 1), adjoint=bool(how & 2), rtol=40 * near(dtype))
    for a, b in [((3,), (3, 1)), ((3, 3), (4, 1)), ((2, 2, 3), (3, 3, 1)), ((0, 3), (3, 1)), ((2, 0), (0, 1)), ((2, 3), (3,)), ((2, 3), (3, 0))]:
        yield Case(np.ones(a, "float32"), np.ones(b, "float32"))
    yield Case(np.zeros((2, 3), "float32"), np.ones((3, 1), "float32"), texts=True)
    yield Case(np.float32([[np.nan, 1, 1]]), np.ones((3, 1), "float32"), texts=True)
