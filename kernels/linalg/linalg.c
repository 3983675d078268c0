/*
 * Textbook algorithms for batches of small square matrices: LU factorisation with partial pivoting
 * (MatrixSolve, MatrixInverse, MatrixDeterminant, LogMatrixDeterminant), Cholesky factorisation
 * (Cholesky) and substitution (MatrixTriangularSolve). This file also contains the op Cross.
 */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "kernels/linalg/linalg.h"
#include "kernels/matmul/gemm.h"
#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"

/* ---- shapes ---- */

static enum rt_status infer_square(struct rt_infer *x)
{
    const enum rt_status st = kn_square_matrices(x, "Input matrix must be square.");
    x->out[0].shape = x->in[0].shape;
    return st;
}

static enum rt_status infer_determinant(struct rt_infer *x)
{
    const enum rt_status st = kn_square_matrices(x, "Input matrix must be square.");
    for (int k = 0; k < x->n_out; k++) {
        x->out[k].shape = x->in[0].shape;
        if (x->out[k].shape.rank >= 2)
            x->out[k].shape.rank -= 2;
    }
    return st;
}

static enum rt_status infer_solve(struct rt_infer *x)
{
    const struct rt_shape *a = &x->in[0].shape, *b = &x->in[1].shape;

    if (a->rank < 0 || b->rank < 0)
        return RT_OK;
    if (a->rank != b->rank)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "All input tensors must have the same rank.");
    const enum rt_status st = kn_square_matrices(x, "First input (lhs) must be a square matrix.");
    if (st)
        return st;
    for (int i = 0; i < a->rank - 2; i++)
        if (a->dim[i] >= 0 && b->dim[i] >= 0 && a->dim[i] != b->dim[i])
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "All input tensors must have the same outer dimensions.");
    if (a->dim[a->rank - 2] >= 0 && b->dim[b->rank - 2] >= 0 &&
        a->dim[a->rank - 2] != b->dim[b->rank - 2])
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Input matrix and rhs are incompatible.");
    x->out[0].shape = *b;
    return RT_OK;
}

enum rt_status kn_fail_pair(struct rt_error *err, const char *words, const struct rt_shape *a,
                            const struct rt_shape *b, const char *after)
{
    char ta[160], tb[160];
    return rt_fail(err, RT_INVALID_ARGUMENT, "%s%s vs. %s%s", words,
                   rt_shape_text(ta, sizeof ta, a->rank, a->dim),
                   rt_shape_text(tb, sizeof tb, b->rank, b->dim), after);
}

enum rt_status kn_infer_triangular(struct rt_infer *x, bool banded)
{
    const struct rt_shape *a = &x->in[0].shape, *b = &x->in[1].shape;
    struct rt_shape *o = &x->out[0].shape;
    char ta[160], tb[160];

    if (a->rank < 0 || b->rank < 0)
        return RT_OK;
    for (int k = 0; k < 2; k++)
        if (x->in[k].shape.rank < 2)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "In[%d] ndims must be >= 2: %d", k,
                           x->in[k].shape.rank);
    const int64_t n = a->dim[a->rank - 1], rows = a->dim[a->rank - 2], rhs = b->dim[b->rank - 2];
    if (!banded && n >= 0 && rows >= 0 && n != rows)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "In[0] matrices in the last dimensions must be square (%lld =/= %lld)",
                       (long long)n, (long long)rows);
    if (n >= 0 && rhs >= 0 && n != rhs)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "In[0] mismatch In[1] shape: %lld vs. %lld: %s %s %d %d", (long long)n,
                       (long long)rhs, rt_shape_text(ta, sizeof ta, a->rank, a->dim),
                       rt_shape_text(tb, sizeof tb, b->rank, b->dim),
                       rt_attr_bool(x->node, "lower"), rt_attr_bool(x->node, "adjoint"));
    o->rank = a->rank > b->rank ? a->rank : b->rank;
    for (int i = 0; i < o->rank - 2; i++) {
        const int ia = i - (o->rank - a->rank), ib = i - (o->rank - b->rank);
        const int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
        if (da >= 0 && db >= 0 && da != db && da != 1 && db != 1)
            return kn_fail_pair(
                x->err, "In[0] and In[1] must have compatible batch dimensions: ", a, b, "");
        o->dim[i] = da == 1 ? db : db == 1 ? da : da < 0 ? db : da;
    }
    o->dim[o->rank - 2] = rhs;
    o->dim[o->rank - 1] = b->dim[b->rank - 1];
    return RT_OK;
}

static enum rt_status infer_triangular(struct rt_infer *x)
{
    return kn_infer_triangular(x, false);
}

void kn_rows_matrices(struct rt_rows *r)
{
    /* `cut` is 2 if the output lacks the two matrix dimensions. `base` is the rank of the operands
     * after broadcasting, including their matrix dimensions. */
    const int out_rank = r->out[0].shape.rank, cut = r->in[0].shape.rank - out_rank;
    const int base = cut == 2 ? out_rank + 2 : out_rank;
    int axis = -1;
    bool sized = false;

    for (int k = 0; k < r->n_in; k++) {
        const struct rt_dep *d = &r->in_dep[k];
        const int rank = r->in[k].shape.rank;
        if (d->kind == RT_DEP_MIXED || rank < 2)
            return;
        sized = sized || d->kind == RT_DEP_SIZE;
        if (d->kind != RT_DEP_ROWS)
            continue;
        const int own = d->axis + base - rank;
        if (d->axis >= rank - 2 || (axis >= 0 && own != axis))
            return;
        axis = own;
    }
    for (int k = 0; axis >= 0 && k < r->n_in; k++) {
        const int i = axis - (base - r->in[k].shape.rank);
        if (r->in_dep[k].kind != RT_DEP_ROWS && i >= 0 && r->in[k].shape.dim[i] != 1)
            return;
        if (r->in_dep[k].kind == RT_DEP_ROWS && r->in[k].shape.dim[i] != r->out[0].shape.dim[axis])
            return;
    }
    for (int k = 0; k < r->n_out; k++)
        r->out_dep[k] = axis >= 0 ? (struct rt_dep){RT_DEP_ROWS, axis}
                                  : (struct rt_dep){sized ? RT_DEP_SIZE : RT_DEP_NONE, 0};
}

/* ---- operations on one matrix, for each type ---- */

enum {
    /* The work of reading one element of a column, in units of rt_run_spend. Adjacent elements of a
     * column are in different cache lines and mostly in different pages. */
    STRIDED_WORK = 8,
    LINE = 16, /* number of columns that are transposed together, about a cache line of floats */
};

/* Divides steps [from, to) into parts of about RT_WORK units of work, between which the run is
 * checked. Returns the end of the part that begins at `from`. A step takes `work` units, and a part
 * has at least one step. Returns `to` if the run was cancelled or is past its deadline. */
static int64_t part(struct kn_ask *q, int64_t from, int64_t to, int64_t work)
{
    const int64_t most = RT_WORK / (work + 1) + 1, n = to - from < most ? to - from : most;
    return kn_ends(q, n * work) ? to : from + n;
}

/* Defines the functions of linalg.h for each type, and the static functions adjoint_<type> and
 * identity_<type>. */
#define MATRICES(dt, T, ABS, CONJ, REAL, SQRT)                                                     \
    enum kn_lu kn_lu_##dt(struct kn_ask *q, T *a, int64_t n, int64_t *swap, bool *even)            \
    {                                                                                              \
        enum kn_lu result = KN_LU_FINE;                                                            \
        *even = true;                                                                              \
        for (int64_t k = 0; k < n; k++) {                                                          \
            int64_t best = k;                                                                      \
            for (int64_t i = k + 1; i < n; i++)                                                    \
                if (ABS(a[i * n + k]) > ABS(a[best * n + k]))                                      \
                    best = i;                                                                      \
            swap[k] = best;                                                                        \
            if (best != k) {                                                                       \
                *even = !*even;                                                                    \
                for (int64_t j = 0; j < n; j++) {                                                  \
                    const T t = a[k * n + j];                                                      \
                    a[k * n + j] = a[best * n + j];                                                \
                    a[best * n + j] = t;                                                           \
                }                                                                                  \
            }                                                                                      \
            /* Below a zero pivot, the column is 0 or NaN. Elimination continues with pivot 1. */  \
            if (a[k * n + k] == 0)                                                                 \
                result = KN_LU_SINGULAR;                                                           \
            const T pivot = a[k * n + k] == 0 ? 1 : a[k * n + k];                                  \
            for (int64_t at = k + 1, end; at < n; at = end) {                                      \
                end = part(q, at, n, n - k);                                                       \
                for (int64_t i = at; i < end; i++) {                                               \
                    const T f = a[i * n + k] / pivot;                                              \
                    a[i * n + k] = f;                                                              \
                    for (int64_t j = k + 1; j < n; j++)                                            \
                        a[i * n + j] -= f * a[k * n + j];                                          \
                }                                                                                  \
            }                                                                                      \
            if (q->ended)                                                                          \
                return result;                                                                     \
        }                                                                                          \
        return result;                                                                             \
    }                                                                                              \
    void kn_solve_##dt(struct kn_ask *q, const T *a, int64_t n, const int64_t *swap, T *b,         \
                       int64_t m)                                                                  \
    {                                                                                              \
        if (q->ended)                                                                              \
            return;                                                                                \
        for (int64_t i = 0; i < n && !kn_ends(q, m); i++)                                          \
            for (int64_t j = 0; swap[i] != i && j < m; j++) {                                      \
                const T t = b[i * m + j];                                                          \
                b[i * m + j] = b[swap[i] * m + j];                                                 \
                b[swap[i] * m + j] = t;                                                            \
            }                                                                                      \
        for (int64_t i = 0; i < n && !q->ended; i++)                                               \
            for (int64_t at = 0, end; at < i; at = end) {                                          \
                end = part(q, at, i, m);                                                           \
                for (int64_t k = at; k < end; k++)                                                 \
                    for (int64_t j = 0; j < m; j++)                                                \
                        b[i * m + j] -= a[i * n + k] * b[k * m + j];                               \
            }                                                                                      \
        for (int64_t i = n - 1; i >= 0 && !q->ended; i--) {                                        \
            for (int64_t at = i + 1, end; at < n; at = end) {                                      \
                end = part(q, at, n, m);                                                           \
                for (int64_t k = at; k < end; k++)                                                 \
                    for (int64_t j = 0; j < m; j++)                                                \
                        b[i * m + j] -= a[i * n + k] * b[k * m + j];                               \
            }                                                                                      \
            const T inverse = 1 / a[i * n + i];                                                    \
            for (int64_t j = 0; j < m; j++)                                                        \
                b[i * m + j] *= inverse;                                                           \
        }                                                                                          \
    }                                                                                              \
    bool kn_cholesky_##dt(struct kn_ask *q, T *a, int64_t n)                                       \
    {                                                                                              \
        for (int64_t j = 0; j < n && !q->ended; j++) {                                             \
            T sum = 0;                                                                             \
            for (int64_t k = 0; k < j; k++)                                                        \
                sum += a[j * n + k] * CONJ(a[j * n + k]);                                          \
            T d = REAL(a[j * n + j]) - sum;                                                        \
            if (REAL(d) <= 0)                                                                      \
                return false;                                                                      \
            d = SQRT(REAL(d));                                                                     \
            a[j * n + j] = d;                                                                      \
            for (int64_t at = j + 1, end; at < n; at = end) {                                      \
                end = part(q, at, n, j);                                                           \
                for (int64_t i = at; i < end; i++) {                                               \
                    sum = 0;                                                                       \
                    for (int64_t k = 0; k < j; k++)                                                \
                        sum += a[i * n + k] * CONJ(a[j * n + k]);                                  \
                    a[i * n + j] = (a[i * n + j] - sum) / d;                                       \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        return true;                                                                               \
    }                                                                                              \
    void kn_triangular_##dt(struct kn_ask *q, const T *a, int64_t n, T *b, int64_t m, bool lower,  \
                            bool adjoint)                                                          \
    {                                                                                              \
        const bool forward = lower != adjoint;                                                     \
        for (int64_t s = 0; s < n && !q->ended; s++) {                                             \
            const int64_t i = forward ? s : n - 1 - s;                                             \
            const int64_t from = forward ? 0 : i + 1, to = forward ? i : n;                        \
            for (int64_t at = from, end; at < to; at = end) {                                      \
                end = part(q, at, to, m + (adjoint ? STRIDED_WORK : 0));                           \
                for (int64_t k = at; k < end; k++) {                                               \
                    const T f = adjoint ? CONJ(a[k * n + i]) : a[i * n + k];                       \
                    for (int64_t j = 0; j < m; j++)                                                \
                        b[i * m + j] -= f * b[k * m + j];                                          \
                }                                                                                  \
            }                                                                                      \
            const T inverse = 1 / (adjoint ? CONJ(a[i * n + i]) : a[i * n + i]);                   \
            for (int64_t j = 0; j < m; j++)                                                        \
                b[i * m + j] *= inverse;                                                           \
        }                                                                                          \
    }                                                                                              \
    static void adjoint_##dt(struct kn_ask *q, const T *a, T *out, int64_t n, bool turn)           \
    {                                                                                              \
        for (int64_t i = 0, end; i < n && !kn_ends(q, LINE * 4 * n); i = end) {                    \
            end = i + LINE < n ? i + LINE : n;                                                     \
            if (!turn)                                                                             \
                memcpy(out + i * n, a + i * n, (size_t)((end - i) * n) * sizeof(T));               \
            for (int64_t j = 0; turn && j < n; j++)                                                \
                for (int64_t k = i; k < end; k++)                                                  \
                    out[k * n + j] = CONJ(a[j * n + k]);                                           \
        }                                                                                          \
    }                                                                                              \
    static void identity_##dt(struct kn_ask *q, T *a, int64_t n)                                   \
    {                                                                                              \
        for (int64_t i = 0; i < n && !kn_ends(q, 4 * n); i++)                                      \
            for (int64_t j = 0; j < n; j++)                                                        \
                a[i * n + j] = i == j;                                                             \
    }
#define AS_IS(v) (v)
MATRICES(RT_F32, float, fabsf, AS_IS, AS_IS, sqrtf)
MATRICES(RT_F64, double, fabs, AS_IS, AS_IS, sqrt)
MATRICES(RT_C64, float _Complex, cabsf, conjf, crealf, sqrtf)
MATRICES(RT_C128, double _Complex, cabs, conj, creal, sqrt)

/* ---- prepare: workspace for two matrices and the swaps ---- */

static enum rt_status linalg_prepare(struct rt_prep *p, void **state)
{
    const struct rt_shape *s = &p->in[0].shape;
    const int64_t n = s->dim[s->rank - 1];
    (void)state;
    /* 16 bytes per element suffice for the widest type, complex128. */
    p->scratch_bytes = (size_t)n * sizeof(int64_t) + 64 + 2 * (size_t)n * (size_t)n * 16;
    return RT_OK;
}

/* Computes the address of element `off` of p. If a matrix has no elements, p may be NULL, and C
 * does not allow even 0 to be added to NULL. */
#define AT(T, p, off) ((off) != 0 ? (T *)(p) + (off) : (T *)(p))

struct batch {
    int64_t n, m, count;
    struct kn_ask *ask;
    int64_t *swap;
    void *workspace, *workspace2; /* two buffers, each for one matrix */
};

static struct batch batch_of(struct rt_run *r, struct kn_ask *ask)
{
    const struct rt_tensor *t = &r->in[0];
    struct batch b = {.n = t->dim[t->rank - 1], .count = 1, .ask = ask};
    *ask = (struct kn_ask){.r = r, .left = RT_WORK};
    char *workspace = r->scratch;

    b.m = b.n;
    for (int i = 0; i < t->rank - 2; i++)
        b.count *= t->dim[i];
    b.swap = r->scratch;
    b.workspace = workspace + ((size_t)b.n * sizeof(int64_t) + 63) / 64 * 64;
    b.workspace2 = (char *)b.workspace + (size_t)b.n * (size_t)b.n * 16;
    return b;
}

/* ---- MatrixSolve, MatrixInverse ---- */

/* Returns false if the matrix is singular. As in TensorFlow, a NaN in the first pivot is treated as
 * a zero pivot, while a NaN in a later pivot does not stop the computation. */
#define SOLVE(dt, T)                                                                               \
    static bool solve_one_##dt(const struct batch *b, const T *a, T *x, bool adjoint)              \
    {                                                                                              \
        bool even;                                                                                 \
        adjoint_##dt(b->ask, a, b->workspace, b->n, adjoint);                                      \
        if (kn_lu_##dt(b->ask, b->workspace, b->n, b->swap, &even) == KN_LU_SINGULAR)              \
            return false;                                                                          \
        if (b->n && *(const T *)b->workspace != *(const T *)b->workspace)                          \
            return false;                                                                          \
        kn_solve_##dt(b->ask, b->workspace, b->n, b->swap, x, b->m);                               \
        return true;                                                                               \
    }
KN_LINALG(SOLVE)

static enum rt_status run_solve(struct rt_run *r)
{
    struct kn_ask ask;
    struct batch b = batch_of(r, &ask);
    const bool adjoint = rt_attr_bool(r->node, "adjoint");
    const size_t bytes = rt_tensor_bytes(&r->out[0]);

    b.m = r->in[1].dim[r->in[1].rank - 1];
    if (!bytes)
        return RT_OK;
    if (kn_copy_chunks(r, kn_dtype(&r->in[1]), r->out[0].data, r->in[1].data,
                       rt_tensor_count(&r->in[1])))
        return r->err->code;
    for (int64_t i = 0; i < b.count; i++) {
        bool fine = true;
        switch (r->in[0].dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        fine = solve_one_##dt(&b, (const T *)r->in[0].data + i * b.n * b.n,                        \
                              (T *)r->out[0].data + i * b.n * b.m, adjoint);                       \
        break;
            KN_LINALG(X)
#undef X
        default:
            break;
        }
        if (kn_ends(&ask, 64))
            return r->err->code;
        if (!fine)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input matrix is not invertible.");
    }
    return RT_OK;
}

#define INVERT(dt, T)                                                                              \
    static bool invert_##dt(const struct batch *b, const T *a, T *x, bool adjoint)                 \
    {                                                                                              \
        identity_##dt(b->ask, x, b->n);                                                            \
        return solve_one_##dt(b, a, x, adjoint);                                                   \
    }
KN_LINALG(INVERT)

static bool invert_half(const struct batch *b, const struct kn_half *a, struct kn_half *x,
                        bool adjoint)
{
    float *wide = b->workspace2, *result = wide + b->n * b->n;
    struct rt_run *r = b->ask->r;
    b->ask->ended = kn_to_float_rows(r, RT_F16, a, b->n, wide, b->n, b->n) != RT_OK;
    const bool fine = invert_RT_F32(b, wide, result, adjoint);
    if (!b->ask->ended)
        b->ask->ended = kn_from_float_rows(r, RT_F16, result, x, b->n, b->n, b->n) != RT_OK;
    return fine;
}

static enum rt_status run_inverse(struct rt_run *r)
{
    struct kn_ask ask;
    const struct batch b = batch_of(r, &ask);
    const bool adjoint = rt_attr_bool(r->node, "adjoint");

    for (int64_t i = 0; b.n && i < b.count; i++) {
        bool fine = true;
        const int64_t at = i * b.n * b.n;
        switch (r->in[0].dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        fine = invert_##dt(&b, (const T *)r->in[0].data + at, (T *)r->out[0].data + at, adjoint);  \
        break;
            KN_LINALG(X)
#undef X
        case RT_F16:
            fine = invert_half(&b, (const struct kn_half *)r->in[0].data + at,
                               (struct kn_half *)r->out[0].data + at, adjoint);
            break;
        default:
            break;
        }
        if (kn_ends(&ask, 64))
            return r->err->code;
        if (!fine)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input is not invertible.");
    }
    return RT_OK;
}

/* ---- determinants ---- */

/*
 * The logarithm of a determinant is the sum of the logarithms of the diagonal elements of U,
 * because their product may overflow or underflow. The sign of a determinant is the product of the
 * signs of these elements.
 *
 * A real infinity has the sign 1 or -1. The sign of 0 or NaN is the element itself.
 */
#define SIGN(d, ABS)      ((d) > 0 ? 1 : (d) < 0 ? -1 : (d))
#define DIRECTION(d, ABS) ((d) == 0 ? 0 : (d) / ABS(d))
/*
 * Defines these functions for each type:
 *
 *   log_det_      computes the sign and the logarithm of a determinant.
 *   determinant_  computes a determinant as a product or, if the product is not a normal number,
 *                 from its logarithm. A partial product may have overflowed or underflowed even if
 *                 T can represent the determinant.
 */
#define LOG_DET(dt, T, ABS, REAL, LOG, EXP, SIGN_OF)                                               \
    static void log_det_##dt(const struct batch *b, const T *a, T *sign, T *log_abs)               \
    {                                                                                              \
        bool even;                                                                                 \
        adjoint_##dt(b->ask, a, b->workspace, b->n, false);                                        \
        kn_lu_##dt(b->ask, b->workspace, b->n, b->swap, &even);                                    \
        const T *u = b->workspace;                                                                 \
        T s = even ? 1 : -1, l = 0;                                                                \
        for (int64_t i = 0; i < b->n; i++) {                                                       \
            const T d = u[i * b->n + i];                                                           \
            s *= SIGN_OF(d, ABS);                                                                  \
            l += d == 0 ? -INFINITY : LOG(ABS(d)); /* d == 0 also holds for subnormals. */         \
        }                                                                                          \
        *sign = s;                                                                                 \
        *log_abs = l;                                                                              \
    }                                                                                              \
    static T determinant_##dt(const struct batch *b, const T *a)                                   \
    {                                                                                              \
        T sign, log_abs, product = 1;                                                              \
        log_det_##dt(b, a, &sign, &log_abs);                                                       \
        const T *u = b->workspace;                                                                 \
        for (int64_t i = 0; i < b->n; i++)                                                         \
            product *= b->swap[i] == i ? u[i * b->n + i] : -u[i * b->n + i];                       \
        return isnormal(ABS(product)) ? product : sign * EXP(REAL(log_abs));                       \
    }
LOG_DET(RT_F32, float, fabsf, AS_IS, logf, expf, SIGN)
LOG_DET(RT_F64, double, fabs, AS_IS, log, exp, SIGN)
LOG_DET(RT_C64, float _Complex, cabsf, crealf, logf, expf, DIRECTION)
LOG_DET(RT_C128, double _Complex, cabs, creal, log, exp, DIRECTION)

static enum rt_status run_determinant(struct rt_run *r)
{
    struct kn_ask ask;
    const struct batch b = batch_of(r, &ask);

    for (int64_t i = 0; i < b.count; i++) {
        switch (r->in[0].dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        ((T *)r->out[0].data)[i] =                                                                 \
            determinant_##dt(&b, AT(const T, r->in[0].data, (i * b.n * b.n)));                     \
        break;
            KN_LINALG(X)
#undef X
        default:
            break;
        }
        if (kn_ends(&ask, 64))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status run_log_determinant(struct rt_run *r)
{
    struct kn_ask ask;
    const struct batch b = batch_of(r, &ask);

    for (int64_t i = 0; i < b.count; i++) {
        switch (r->in[0].dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        log_det_##dt(&b, AT(const T, r->in[0].data, (i * b.n * b.n)), (T *)r->out[0].data + i,     \
                     (T *)r->out[1].data + i);                                                     \
        break;
            KN_LINALG(X)
#undef X
        default:
            break;
        }
        if (kn_ends(&ask, 64))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- Cholesky ---- */

#define CHOLESKY(dt, T)                                                                            \
    static void cholesky_one_##dt(struct kn_ask *q, T *a, int64_t n)                               \
    {                                                                                              \
        const bool fine = kn_cholesky_##dt(q, a, n);                                               \
        for (int64_t i = 0; i < n && !kn_ends(q, n); i++)                                          \
            for (int64_t j = 0; j < n; j++)                                                        \
                if (j > i)                                                                         \
                    a[i * n + j] = 0;                                                              \
                else if (!fine)                                                                    \
                    a[i * n + j] = KN_NO_RESULT_##dt;                                              \
    }
KN_LINALG(CHOLESKY)

static enum rt_status run_cholesky(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    const int64_t n = t->dim[t->rank - 1], all = rt_tensor_count(t);
    struct kn_ask ask = {.r = r, .left = RT_WORK};

    if (!all)
        return RT_OK;
    if (kn_copy_chunks(r, kn_dtype(t), r->out[0].data, t->data, all))
        return r->err->code;
    for (int64_t i = 0; i < all; i += n * n) {
        switch (t->dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        cholesky_one_##dt(&ask, (T *)r->out[0].data + i, n);                                       \
        break;
            KN_LINALG(X)
#undef X
        default:
            break;
        }
        if (kn_ends(&ask, 64))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- MatrixTriangularSolve: batch axes broadcast ---- */

int64_t kn_batch_offset(const struct rt_tensor *t, const struct rt_tensor *out, int64_t i)
{
    int64_t off = 0, step = t->dim[t->rank - 1] * t->dim[t->rank - 2];

    for (int k = out->rank - 3; k >= 0; k--) {
        const int own = k - (out->rank - t->rank);
        const int64_t at = i % out->dim[k];
        i /= out->dim[k];
        if (own < 0)
            continue;
        if (t->dim[own] != 1)
            off += at * step;
        step *= t->dim[own];
    }
    return off;
}

static enum rt_status run_triangular(struct rt_run *r)
{
    const struct rt_tensor *a = &r->in[0], *b = &r->in[1], *o = &r->out[0];
    const bool lower = rt_attr_bool(r->node, "lower"), adjoint = rt_attr_bool(r->node, "adjoint");
    const int64_t n = o->dim[o->rank - 2], m = o->dim[o->rank - 1], all = rt_tensor_count(o);
    struct kn_ask ask = {.r = r, .left = RT_WORK};

    for (int64_t i = 0; all && i < all / (n * m); i++) {
        const int64_t at_a = kn_batch_offset(a, o, i), at_b = kn_batch_offset(b, o, i);
        switch (a->dtype) {
#define X(dt, T)                                                                                   \
    case dt: {                                                                                     \
        T *x = (T *)o->data + i * n * m;                                                           \
        if (kn_copy_chunks(r, dt, x, (const T *)b->data + at_b, n * m))                            \
            return r->err->code;                                                                   \
        kn_triangular_##dt(&ask, (const T *)a->data + at_a, n, x, m, lower, adjoint);              \
        break;                                                                                     \
    }
            KN_LINALG(X)
#undef X
        default:
            break;
        }
        if (kn_ends(&ask, 64))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- Cross ---- */

static enum rt_status infer_cross(struct rt_infer *x)
{
    const struct rt_shape *a = &x->in[0].shape, *b = &x->in[1].shape;
    char text[160];

    x->out[0].shape = a->rank >= 0 ? *a : *b;
    if (a->rank < 0 || b->rank < 0)
        return RT_OK;
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->dim[i] < 0 || b->dim[i] < 0 || a->dim[i] == b->dim[i];
    if (!same)
        return kn_fail_pair(x->err, "Both inputs must be of same shape: ", a, b, "");
    if (a->rank < 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Input must be at least 1D%s",
                       rt_shape_text(text, sizeof text, a->rank, a->dim));
    if (a->dim[a->rank - 1] >= 0 && a->dim[a->rank - 1] != 3)
        return rt_fail(x->err, RT_FAILED_PRECONDITION,
                       "Cross-products are only defined for 3-element vectors.");
    return RT_OK;
}

static void rows_cross(struct rt_rows *r)
{
    const int rank = r->out[0].shape.rank;
    for (int k = 0; k < 2; k++)
        if (r->in_dep[k].kind == RT_DEP_ROWS && r->in_dep[k].axis == rank - 1)
            return;
    rt_rows_each(r);
}

/* Integer arithmetic is unsigned, so that overflow wraps around. */
#define CROSS(dt, T, U, GET, PUT)                                                                  \
    static void cross_##dt(const T *a, const T *b, T *c, int64_t n)                                \
    {                                                                                              \
        for (int64_t i = 0; i < n; i += 3)                                                         \
            for (int k = 0; k < 3; k++) {                                                          \
                const int64_t p = i + (k + 1) % 3, q = i + (k + 2) % 3;                            \
                const U v = (U)GET(a[p]) * (U)GET(b[q]) - (U)GET(a[q]) * (U)GET(b[p]);             \
                c[i + k] = (T)PUT(v);                                                              \
            }                                                                                      \
    }
#define CROSS_INT(dt, T)   CROSS(dt, T, uint64_t, AS_IS, AS_IS)
#define CROSS_FLOAT(dt, T) CROSS(dt, T, T, AS_IS, AS_IS)
KN_INTS(CROSS_INT)
KN_FLOATS(CROSS_FLOAT)
#define ROUND_F16(v)  kn_from_f16(kn_to_f16(v))
#define ROUND_BF16(v) kn_from_bf16(kn_to_bf16(v))
/* As in TensorFlow, each product of half-precision numbers is rounded to their type. */
#define CROSS_HALF(dt, T, GET, PUT, ROUND)                                                         \
    static void cross_##dt(const T *a, const T *b, T *c, int64_t n)                                \
    {                                                                                              \
        for (int64_t i = 0; i < n; i += 3)                                                         \
            for (int k = 0; k < 3; k++) {                                                          \
                const int64_t p = i + (k + 1) % 3, q = i + (k + 2) % 3;                            \
                const float x = ROUND(GET(a[p]) * GET(b[q]));                                      \
                const float y = ROUND(GET(a[q]) * GET(b[p]));                                      \
                c[i + k] = PUT(x - y);                                                             \
            }                                                                                      \
    }
CROSS_HALF(RT_F16, struct kn_half, kn_from_f16, kn_to_f16, ROUND_F16)
CROSS_HALF(RT_BF16, struct kn_bfloat, kn_from_bf16, kn_to_bf16, ROUND_BF16)

static enum rt_status run_cross(struct rt_run *r)
{
    enum { PART = 3 << 16 };
    const int64_t n = rt_tensor_count(&r->out[0]);
    int64_t left = RT_WORK;

    for (int64_t i = 0; i < n; i += PART) {
        const int64_t some = n - i < PART ? n - i : PART;
        switch (r->in[0].dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        cross_##dt(AT(const T, r->in[0].data, i), AT(const T, r->in[1].data, i),                   \
                   AT(T, r->out[0].data, i), some);                                                \
        break;
            KN_REALS(X)
#undef X
        default:
            break;
        }
        if (rt_run_spend(r, &left, 4 * some))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- registry entries ---- */

const struct kn_entry kn_cholesky = {
    .op = {.name = "Cholesky", .infer = infer_square, .rows = kn_rows_matrices},
    .kernels = KN_CPU("Cholesky", "cholesky", KN_LINALG_TYPES, NULL, run_cholesky),
};
const struct kn_entry kn_cross = {
    .op = {.name = "Cross", .infer = infer_cross, .rows = rows_cross},
    .kernels = KN_CPU("Cross", "cross", KN_SET(KN_REALS), NULL, run_cross),
};
const struct kn_entry kn_log_matrix_determinant = {
    .op = {.name = "LogMatrixDeterminant", .infer = infer_determinant, .rows = kn_rows_matrices},
    .kernels = KN_CPU("LogMatrixDeterminant", "log_determinant", KN_LINALG_TYPES, linalg_prepare,
                      run_log_determinant),
};
const struct kn_entry kn_matrix_determinant = {
    .op = {.name = "MatrixDeterminant", .infer = infer_determinant, .rows = kn_rows_matrices},
    .kernels = KN_CPU("MatrixDeterminant", "determinant", KN_LINALG_TYPES, linalg_prepare,
                      run_determinant),
};
const struct kn_entry kn_matrix_inverse = {
    .op = {.name = "MatrixInverse", .infer = infer_square, .rows = kn_rows_matrices},
    .kernels = KN_CPU("MatrixInverse", "inverse", KN_LINALG_TYPES | RT_T(RT_F16), linalg_prepare,
                      run_inverse),
};
const struct kn_entry kn_matrix_solve = {
    .op = {.name = "MatrixSolve", .infer = infer_solve, .rows = kn_rows_matrices},
    .kernels = KN_CPU("MatrixSolve", "solve", KN_LINALG_TYPES, linalg_prepare, run_solve),
};
const struct kn_entry kn_matrix_triangular_solve = {
    .op = {.name = "MatrixTriangularSolve", .infer = infer_triangular, .rows = kn_rows_matrices},
    .kernels =
        KN_CPU("MatrixTriangularSolve", "triangular_solve", KN_LINALG_TYPES, NULL, run_triangular),
};
KN_OLDER_LINALG(batch_cholesky, "BatchCholesky", infer_square, kn_rows_matrices, KN_SET(KN_FLOATS),
                NULL, run_cholesky)
KN_OLDER_LINALG(batch_matrix_determinant, "BatchMatrixDeterminant", infer_determinant,
                kn_rows_matrices, KN_LINALG_TYPES, linalg_prepare, run_determinant)
KN_OLDER_LINALG(batch_matrix_inverse, "BatchMatrixInverse", infer_square, kn_rows_matrices,
                KN_SET(KN_FLOATS) | RT_T(RT_F16), linalg_prepare, run_inverse)
KN_OLDER_LINALG(batch_matrix_solve, "BatchMatrixSolve", infer_solve, kn_rows_matrices,
                KN_LINALG_TYPES, linalg_prepare, run_solve)
KN_OLDER_LINALG(batch_matrix_triangular_solve, "BatchMatrixTriangularSolve", infer_triangular,
                kn_rows_matrices, KN_LINALG_TYPES, NULL, run_triangular)
