/*
 * Systems of equations whose matrix consists of a few diagonals: TridiagonalSolve,
 * TridiagonalMatMul and BandedTriangularSolve.
 */
#include <complex.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/linalg/linalg.h"
#include "kernels/math/elementwise.h"

/* ---- TridiagonalSolve: the rows of `diagonals` are the upper, main and lower diagonal ---- */

static enum rt_status solve_infer(struct rt_infer *x)
{
    const struct rt_shape *d = &x->in[0].shape, *b = &x->in[1].shape;
    const enum rt_status st = kn_same_batch(x, 2);

    if (rt_attr_bool(x->node, "perturb_singular") && !rt_attr_bool(x->node, "partial_pivoting"))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Setting perturb_singular requires also setting partial_pivoting.");
    if (st || d->rank < 0 || b->rank < 0)
        return st;
    const int64_t rows = d->dim[d->rank - 2], n = d->dim[d->rank - 1], m = b->dim[b->rank - 2];
    if (rows >= 0 && rows != 3)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Expected diagonals to be provided as a matrix with 3 rows, got %lld rows.",
                       (long long)rows);
    if (n >= 0 && m >= 0 && n != m)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Expected the same number of left-hand sides and right-hand sides, got %lld "
                       "and %lld.",
                       (long long)n, (long long)m);
    x->out[0].shape = *b;
    return RT_OK;
}

static enum rt_status solve_prepare(struct rt_prep *p, void **state)
{
    const struct rt_shape *d = &p->in[0].shape;
    struct kn_space space = {0};
    (void)state;
    if (rt_shape_elements(&p->out[0].shape)) {
        kn_space_take(&space, 3 * d->dim[d->rank - 1], rt_dtype_size(p->in[0].dtype));
        p->scratch_bytes = space.used;
    }
    return RT_OK;
}

/*
 * Gaussian elimination. u [3,n] receives the pivots and the two diagonals above them.
 * tridiagonal_<type> returns false if a pivot is zero.
 *
 * With `pivot`, two rows are swapped if the second one has the larger element in the column. As in
 * LAPACK's dlagtf, the elements are compared relative to the sums of their rows. With `perturb`,
 * pivots that are zero or subnormal are moved away from zero by the rounding error of the largest
 * element.
 */
#define TRIDIAGONAL(dt, T, ABS, TINY, EPSILON)                                                     \
    static void eliminate_##dt(struct kn_ask *ask, const T *d, int64_t n, T *x, int64_t m, T *u,   \
                               bool pivot)                                                         \
    {                                                                                              \
        const T *const above = d, *const main = d + n, *const below = d + 2 * n;                   \
        double scale = ABS(main[0]) + (n > 1 ? ABS(above[0]) : 0);                                 \
        u[0] = main[0];                                                                            \
        u[n] = n > 1 ? above[0] : 0;                                                               \
        u[2 * n] = 0;                                                                              \
        for (int64_t i = 0; i + 1 < n && !kn_ends(ask, 4 * m + 16); i++) {                         \
            const T low = below[i + 1], next = main[i + 1], far = i + 2 < n ? above[i + 1] : 0;    \
            const double scale2 = ABS(low) + ABS(next) + ABS(far);                                 \
            const double own = u[i] == 0 ? 0 : ABS(u[i]) / scale;                                  \
            const bool swap = pivot && low != 0 && !(ABS(low) / scale2 <= own);                    \
            const T factor = swap ? u[i] / low : low == 0 ? 0 : low / u[i];                        \
            u[i + 1] = swap ? u[n + i] - factor * next : next - factor * u[n + i];                 \
            u[n + i + 1] = swap ? -factor * far : far;                                             \
            u[2 * n + i + 1] = 0;                                                                  \
            if (swap) {                                                                            \
                u[i] = low;                                                                        \
                u[n + i] = next;                                                                   \
                u[2 * n + i] = far;                                                                \
            } else {                                                                               \
                scale = scale2;                                                                    \
            }                                                                                      \
            for (int64_t k = 0; k < m; k++) {                                                      \
                T *const one = x + i * m + k, *const two = one + m, held = *one;                   \
                *one = swap ? *two : *one;                                                         \
                *two = swap ? held - factor * *two : *two - factor * held;                         \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void perturb_##dt(T *u, int64_t n)                                                      \
    {                                                                                              \
        double most = 0;                                                                           \
        for (int64_t i = 0; i < 3 * n; i++)                                                        \
            if (i % n + i / n < n && ABS(u[i]) > most)                                             \
                most = ABS(u[i]);                                                                  \
        const double by = most * (EPSILON) > (TINY) ? most * (EPSILON) : (TINY);                   \
        for (int64_t i = 0; i < n; i++)                                                            \
            if (ABS(u[i]) < (TINY))                                                                \
                u[i] += (T)(creal(u[i]) >= 0 ? by : -by);                                          \
    }                                                                                              \
    static bool tridiagonal_##dt(struct kn_ask *ask, const T *d, int64_t n, T *x, int64_t m, T *u, \
                                 bool pivot, bool perturb)                                         \
    {                                                                                              \
        bool fine = true;                                                                          \
        eliminate_##dt(ask, d, n, x, m, u, pivot);                                                 \
        if (perturb && !kn_ends(ask, 4 * n))                                                       \
            perturb_##dt(u, n);                                                                    \
        for (int64_t i = 0; i < n && fine; i++)                                                    \
            fine = u[i] != 0;                                                                      \
        for (int64_t i = n - 1; fine && i >= 0 && !kn_ends(ask, 4 * m); i--)                       \
            for (int64_t k = 0; k < m; k++) {                                                      \
                T v = x[i * m + k];                                                                \
                if (i + 1 < n)                                                                     \
                    v -= u[n + i] * x[(i + 1) * m + k];                                            \
                if (i + 2 < n && pivot)                                                            \
                    v -= u[2 * n + i] * x[(i + 2) * m + k];                                        \
                x[i * m + k] = v / u[i];                                                           \
            }                                                                                      \
        return fine;                                                                               \
    }
TRIDIAGONAL(RT_F32, float, fabsf, FLT_MIN, FLT_EPSILON)
TRIDIAGONAL(RT_F64, double, fabs, DBL_MIN, DBL_EPSILON)
TRIDIAGONAL(RT_C64, float _Complex, cabsf, FLT_MIN, FLT_EPSILON)
TRIDIAGONAL(RT_C128, double _Complex, cabs, DBL_MIN, DBL_EPSILON)

/* As in TensorFlow, all elements of the solution of a singular system are NaN in real types and 0
 * in complex types. */
#define FILL_RT_F32  NAN
#define FILL_RT_F64  NAN
#define FILL_RT_C64  0
#define FILL_RT_C128 0
static enum rt_status solve_run(struct rt_run *r)
{
    const struct rt_tensor *d = &r->in[0], *b = &r->in[1];
    const int64_t n = b->dim[b->rank - 2], m = b->dim[b->rank - 1], all = rt_tensor_count(b);
    const bool pivot = rt_attr_bool(r->node, "partial_pivoting");
    const bool perturb = rt_attr_bool(r->node, "perturb_singular");
    struct kn_ask ask = {.r = r, .left = RT_WORK};

    if (!all)
        return RT_OK;
    if (kn_copy_chunks(r, kn_dtype(b), r->out[0].data, b->data, all))
        return r->err->code;
    for (int64_t i = 0; i < all / (n * m) && !kn_ends(&ask, 64); i++) {
        switch (b->dtype) {
#define X(dt, T)                                                                                   \
    case dt: {                                                                                     \
        T *const x = (T *)r->out[0].data + i * n * m;                                              \
        if (!tridiagonal_##dt(&ask, (const T *)d->data + i * 3 * n, n, x, m, r->scratch, pivot,    \
                              perturb))                                                            \
            for (int64_t k = 0; k < n * m && !kn_ends(&ask, 1); k++)                               \
                x[k] = FILL_##dt;                                                                  \
        break;                                                                                     \
    }
            KN_LINALG(X)
#undef X
        default:
            break;
        }
    }
    return ask.ended ? r->err->code : RT_OK;
}

const struct kn_entry kn_tridiagonal_solve = {
    .op = {.name = "TridiagonalSolve", .infer = solve_infer, .rows = kn_rows_matrices},
    .kernels =
        KN_CPU("TridiagonalSolve", "tridiagonal_solve", KN_LINALG_TYPES, solve_prepare, solve_run),
};

/* ---- TridiagonalMatMul ---- */

static enum rt_status product_infer(struct rt_infer *x)
{
    static const char *const name[] = {"superdiagonal", "main diagonal", "subdiagonal"};
    const struct rt_shape *b = &x->in[3].shape;
    const enum rt_status st = kn_same_batch(x, 4);

    if (st || b->rank < 0)
        return st;
    const int64_t n = b->dim[b->rank - 2];
    for (int k = 0; k < 3; k++) {
        const struct rt_shape *d = &x->in[k].shape;
        if (d->rank < 0)
            continue;
        const int64_t rows = d->dim[d->rank - 2], cols = d->dim[d->rank - 1];
        if ((rows >= 0 && rows != 1) || (cols >= 0 && n >= 0 && cols != n))
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "Invalid %s shape.", name[k]);
    }
    x->out[0].shape = *b;
    return RT_OK;
}

#define PRODUCT(dt, T)                                                                             \
    static void product_##dt(struct kn_ask *ask, const T *above, const T *main, const T *below,    \
                             const T *b, int64_t n, int64_t m, T *out)                             \
    {                                                                                              \
        for (int64_t i = 0; i < n && !kn_ends(ask, 4 * m); i++)                                    \
            for (int64_t k = 0; k < m; k++) {                                                      \
                T v = main[i] * b[i * m + k];                                                      \
                if (i + 1 < n)                                                                     \
                    v += above[i] * b[(i + 1) * m + k];                                            \
                if (i)                                                                             \
                    v += below[i] * b[(i - 1) * m + k];                                            \
                out[i * m + k] = v;                                                                \
            }                                                                                      \
    }
KN_LINALG(PRODUCT)

static enum rt_status product_run(struct rt_run *r)
{
    const struct rt_tensor *b = &r->in[3];
    const int64_t n = b->dim[b->rank - 2], m = b->dim[b->rank - 1], all = rt_tensor_count(b);
    struct kn_ask ask = {.r = r, .left = RT_WORK};

    for (int64_t i = 0; all && i < all / (n * m) && !kn_ends(&ask, 64); i++) {
        switch (b->dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        product_##dt(&ask, (const T *)r->in[0].data + i * n, (const T *)r->in[1].data + i * n,     \
                     (const T *)r->in[2].data + i * n, (const T *)b->data + i * n * m, n, m,       \
                     (T *)r->out[0].data + i * n * m);                                             \
        break;
            KN_LINALG(X)
#undef X
        default:
            break;
        }
    }
    return ask.ended ? r->err->code : RT_OK;
}

const struct kn_entry kn_tridiagonal_mat_mul = {
    .op = {.name = "TridiagonalMatMul", .infer = product_infer, .rows = kn_rows_matrices},
    .kernels =
        KN_CPU("TridiagonalMatMul", "tridiagonal_matmul", KN_LINALG_TYPES, NULL, product_run),
};

/* ---- BandedTriangularSolve ---- */

/* Row k of a lower matrix's bands holds the elements [i, i - k]. Row `last - k` of an upper
 * matrix's bands holds the elements [i, i + k]. In both cases, the element of matrix row i is in
 * column i. */
static enum rt_status banded_infer(struct rt_infer *x)
{
    for (int k = 0; k < 2; k++) {
        const struct rt_shape *s = &x->in[k].shape;
        char text[160];
        if (s->rank < 2 || !kn_shape_known(s) || rt_shape_elements(s) > 0)
            continue;
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "In[%d] must not be an empty tensor: Tensor<type: %s shape: %s values: >", k,
                       rt_dtype_name(x->in[k].dtype),
                       rt_shape_text(text, sizeof text, s->rank, s->dim));
    }
    return kn_infer_triangular(x, true);
}

#define BANDED(dt, T, CONJ, ABS)                                                                   \
    static bool banded_##dt(struct kn_ask *ask, const T *a, int64_t bands, int64_t n, T *x,        \
                            int64_t m, bool lower, bool adjoint)                                   \
    {                                                                                              \
        const T *const pivots = lower ? a : a + (bands - 1) * n;                                   \
        const bool forward = lower != adjoint;                                                     \
        double least = ABS(pivots[0]);                                                             \
        for (int64_t i = 1; i < n; i++)                                                            \
            if (ABS(pivots[i]) < least)                                                            \
                least = ABS(pivots[i]);                                                            \
        const bool fine = least > 0; /* as in TensorFlow, false if the first pivot is NaN */       \
        for (int64_t s = 0; fine && s < n && !ask->ended; s++) {                                   \
            const int64_t i = forward ? s : n - 1 - s;                                             \
            for (int64_t k = 1; k < bands && k <= s && !kn_ends(ask, 2 * m); k++) {                \
                const int64_t from = forward ? i - k : i + k;                                      \
                const T e = a[(lower ? k : bands - 1 - k) * n + (adjoint ? from : i)];             \
                const T f = adjoint ? CONJ(e) : e;                                                 \
                for (int64_t j = 0; j < m; j++)                                                    \
                    x[i * m + j] -= f * x[from * m + j];                                           \
            }                                                                                      \
            const T pivot = adjoint ? CONJ(pivots[i]) : pivots[i];                                 \
            for (int64_t j = 0; j < m; j++)                                                        \
                x[i * m + j] /= pivot;                                                             \
            if (kn_ends(ask, 2 * m))                                                               \
                break;                                                                             \
        }                                                                                          \
        return fine;                                                                               \
    }
#define AS_IS(v) (v)
BANDED(RT_F32, float, AS_IS, fabsf)
BANDED(RT_F64, double, AS_IS, fabs)
BANDED(RT_C64, float _Complex, conjf, cabsf)
BANDED(RT_C128, double _Complex, conj, cabs)

static enum rt_status banded_run(struct rt_run *r)
{
    const struct rt_tensor *a = &r->in[0], *b = &r->in[1], *o = &r->out[0];
    const bool lower = rt_attr_bool(r->node, "lower"), adjoint = rt_attr_bool(r->node, "adjoint");
    const int64_t bands = a->dim[a->rank - 2], n = o->dim[o->rank - 2], m = o->dim[o->rank - 1];
    const int64_t all = rt_tensor_count(o);
    struct kn_ask ask = {.r = r, .left = RT_WORK};
    bool fine = true;

    for (int64_t i = 0; all && fine && i < all / (n * m) && !kn_ends(&ask, 64 + n); i++) {
        const int64_t at_a = kn_batch_offset(a, o, i), at_b = kn_batch_offset(b, o, i);
        switch (a->dtype) {
#define X(dt, T)                                                                                   \
    case dt: {                                                                                     \
        T *const x = (T *)o->data + i * n * m;                                                     \
        if (kn_copy_chunks(r, dt, x, (const T *)b->data + at_b, n * m))                            \
            return r->err->code;                                                                   \
        fine = banded_##dt(&ask, (const T *)a->data + at_a, bands, n, x, m, lower, adjoint);       \
        break;                                                                                     \
    }
            KN_LINALG(X)
#undef X
        default:
            break;
        }
    }
    if (ask.ended)
        return r->err->code;
    return fine ? RT_OK : rt_fail(r->err, RT_INVALID_ARGUMENT, "Input matrix is not invertible.");
}

const struct kn_entry kn_banded_triangular_solve = {
    .op = {.name = "BandedTriangularSolve", .infer = banded_infer, .rows = kn_rows_matrices},
    .kernels = KN_CPU("BandedTriangularSolve", "banded_solve", KN_LINALG_TYPES, NULL, banded_run),
};
