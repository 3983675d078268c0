/*
 * Linear least squares with an optional penalty (MatrixSolveLs).
 */
#include <complex.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/linalg/lapack.h"
#include "kernels/matmul/gemm.h"

/* ---- shapes and scratch memory ---- */

static enum rt_status least_squares_infer(struct rt_infer *x)
{
    const struct rt_shape *a = &x->in[0].shape, *b = &x->in[1].shape, *l2 = &x->in[2].shape;
    const enum rt_status st = kn_same_batch(x, 2);
    char text[160];

    if (st || a->rank < 0 || b->rank < 0)
        return st;
    if (l2->rank > 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "l2_regularizer must be scalar, got shape %s",
                       rt_shape_text(text, sizeof text, l2->rank, l2->dim));
    const int64_t m = a->dim[a->rank - 2], rows = b->dim[b->rank - 2];
    if (m >= 0 && rows >= 0 && m != rows)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Input matrix and rhs are incompatible.");
    x->out[0].shape = *b;
    x->out[0].shape.dim[b->rank - 2] = a->dim[a->rank - 1];
    return RT_OK;
}

/*
 * With `fast`, the Cholesky factor of the normal matrix solves the normal equations. The normal
 * matrix is A^H A for a tall matrix A [m,n], and A A^H for a wide one. Without `fast`, LAPACK's
 * complete orthogonal decomposition finds the solution of least norm and, as in TensorFlow, the
 * penalty is ignored.
 */
struct job {
    int64_t m, n, k;
    bool fast;
    struct kn_gemm gram, right, back; /* the GEMMs of the fast method */
    void *normal, *rhs, *scratch;
    int rows, cols, sides, ldb, rank, lwork, info;
    void *a, *b, *work, *rwork;
    int *order;
};

static size_t layout(struct job *j, const struct rt_node *node, enum rt_dtype dtype, void *base)
{
    struct kn_space space = {.base = base};
    const size_t size = rt_dtype_size(dtype);
    const int64_t m = j->m, n = j->n, k = j->k, least = m < n ? m : n, most = m < n ? n : m;

    j->fast = rt_attr_bool(node, "fast");
    if (j->fast) {
        const enum kn_trans adjoint = KN_ADJOINT;
        j->gram = m >= n ? (struct kn_gemm){dtype, adjoint, KN_AS_IS, n, n, m, n, n, n}
                         : (struct kn_gemm){dtype, KN_AS_IS, adjoint, m, m, n, n, n, m};
        /* the product with A^H, which is computed before the equations are solved if A is tall, and
         * afterwards if A is wide */
        j->right = j->back = (struct kn_gemm){dtype, adjoint, KN_AS_IS, n, k, m, n, k, k};
        const int64_t s1 = kn_gemm_scratch(&j->gram), s2 = kn_gemm_scratch(&j->right);
        j->normal = kn_space_take(&space, least * least, size);
        j->rhs = kn_space_take(&space, m * k, size);
        j->scratch = kn_space_take(&space, s1 < 0 || s2 < 0 ? -1 : s1 > s2 ? s1 : s2, 1);
        return space.used;
    }
    /* The size of `work` is the larger one of LAPACK's documented minima for real and complex
     * types, plus space for blocks of columns. */
    j->rows = (int)m;
    j->cols = (int)n;
    j->sides = (int)k;
    j->ldb = (int)most;
    j->lwork = (int)(2 * least + 4 * n + KN_LAPACK_BLOCK * (n + 1 + k));
    j->a = kn_space_take(&space, m * n, size);
    j->b = kn_space_take(&space, most * k, size);
    j->work = kn_space_take(&space, j->lwork, size);
    j->rwork = kn_space_take(&space, 2 * n, size);
    j->order = kn_space_take(&space, n, sizeof(int));
    return space.used;
}

static enum rt_status least_squares_prepare(struct rt_prep *p, void **state)
{
    const struct rt_shape *a = &p->in[0].shape, *b = &p->in[1].shape;
    struct job j = {.m = a->dim[a->rank - 2], .n = a->dim[a->rank - 1], .k = b->dim[b->rank - 1]};
    enum rt_status st = RT_OK;
    (void)state;
    if (!rt_shape_elements(a) || !rt_shape_elements(b))
        return RT_OK;
    if (!rt_attr_bool(p->node, "fast"))
        st = kn_lapack_size(j.m > j.k ? j.m : j.k, j.n, p->err);
    if (!st)
        p->scratch_bytes = layout(&j, p->node, p->in[0].dtype, NULL);
    return st;
}

/* ---- one matrix ---- */

/* Returns false if the normal matrix is not positive definite. */
#define FAST(dt, T)                                                                                \
    static bool fast_##dt(struct kn_ask *ask, struct job *j, const T *a, const T *b, T *x,         \
                          double l2)                                                               \
    {                                                                                              \
        const bool tall = j->m >= j->n;                                                            \
        const int64_t n = tall ? j->n : j->m;                                                      \
        T *const normal = j->normal, *const side = tall ? x : j->rhs;                              \
        if (kn_gemm_blocks(&j->gram, false, a, a, normal, j->scratch, ask->r) ||                   \
            (tall && kn_gemm_blocks(&j->right, false, a, b, x, j->scratch, ask->r)) ||             \
            (!tall && kn_copy_chunks(ask->r, dt, side, b, j->m * j->k))) {                         \
            ask->ended = true;                                                                     \
            return false;                                                                          \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            normal[i * n + i] += (T)l2;                                                            \
        if (!kn_cholesky_##dt(ask, normal, n))                                                     \
            return false;                                                                          \
        kn_triangular_##dt(ask, normal, n, side, j->k, true, false);                               \
        kn_triangular_##dt(ask, normal, n, side, j->k, true, true);                                \
        if (!tall && !ask->ended)                                                                  \
            ask->ended = kn_gemm_blocks(&j->back, false, a, side, x, j->scratch, ask->r) != RT_OK; \
        return true;                                                                               \
    }
KN_LINALG(FAST)

/* As in TensorFlow, the solution is 0 if the matrix has an element that is not finite. */
#define RWORK(j) (j)->rwork,
#define NONE(j)
#define ORTHOGONAL(dt, T, R, p, REAL_WORK, EPSILON)                                                \
    static void orthogonal_call_##dt(void *arg)                                                    \
    {                                                                                              \
        struct job *j = arg;                                                                       \
        const R least = (EPSILON) * (R)(j->rows < j->cols ? j->rows : j->cols);                    \
        p##gelsy_(&j->rows, &j->cols, &j->sides, j->a, &j->rows, j->b, &j->ldb, j->order, &least,  \
                  &j->rank, j->work, &j->lwork, REAL_WORK(j) & j->info);                           \
    }                                                                                              \
    static void orthogonal_##dt(struct kn_ask *ask, struct job *j, const T *a, const T *b, T *x)   \
    {                                                                                              \
        T *const sides = j->b;                                                                     \
        if (!kn_finite_##dt(ask, a, j->m * j->n)) {                                                \
            if (kn_zero_chunks(ask->r, x, (size_t)(j->n * j->k) * sizeof(T)))                      \
                ask->ended = true;                                                                 \
            return;                                                                                \
        }                                                                                          \
        kn_turn_##dt(ask, a, j->m, j->n, j->a, false);                                             \
        if (kn_zero_chunks(ask->r, sides, (size_t)(j->ldb * j->k) * sizeof(T)))                    \
            ask->ended = true;                                                                     \
        memset(j->order, 0, (size_t)j->n * sizeof(int));                                           \
        for (int64_t i = 0; i < j->m && !kn_ends(ask, 32 * j->k); i++)                             \
            for (int64_t c = 0; c < j->k; c++)                                                     \
                sides[c * j->ldb + i] = b[i * j->k + c];                                           \
        kn_lapack_call(ask, orthogonal_call_##dt, j);                                              \
        for (int64_t i = 0; i < j->n && !kn_ends(ask, 32 * j->k); i++)                             \
            for (int64_t c = 0; c < j->k; c++)                                                     \
                x[i * j->k + c] = sides[c * j->ldb + i];                                           \
    }
ORTHOGONAL(RT_F32, float, float, s, NONE, FLT_EPSILON)
ORTHOGONAL(RT_F64, double, double, d, NONE, DBL_EPSILON)
ORTHOGONAL(RT_C64, float _Complex, float, c, RWORK, FLT_EPSILON)
ORTHOGONAL(RT_C128, double _Complex, double, z, RWORK, DBL_EPSILON)

static enum rt_status least_squares_run(struct rt_run *r)
{
    const struct rt_tensor *a = &r->in[0], *b = &r->in[1];
    struct job j = {.m = a->dim[a->rank - 2], .n = a->dim[a->rank - 1], .k = b->dim[b->rank - 1]};
    double l2 = 0;
    struct kn_ask ask = {.r = r, .left = RT_WORK};
    bool fine = true;

    if (!kn_scalar_float(&r->in[2], &l2) || !(l2 >= 0))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "l2_regularizer must be >= 0.");
    if (!rt_tensor_count(a) || !rt_tensor_count(b)) {
        if (rt_tensor_count(&r->out[0]))
            return kn_zero_chunks(r, r->out[0].data, rt_tensor_bytes(&r->out[0]));
        return RT_OK;
    }
    layout(&j, r->node, kn_dtype(a), r->scratch);
    for (int64_t i = 0; i < kn_matrix_count(a) && fine && !kn_ends(&ask, 64); i++) {
        switch (a->dtype) {
#define X(dt, T)                                                                                   \
    case dt: {                                                                                     \
        const T *const at_a = (const T *)a->data + i * j.m * j.n;                                  \
        const T *const at_b = (const T *)b->data + i * j.m * j.k;                                  \
        T *const x = (T *)r->out[0].data + i * j.n * j.k;                                          \
        if (j.fast)                                                                                \
            fine = fast_##dt(&ask, &j, at_a, at_b, x, l2);                                         \
        else                                                                                       \
            orthogonal_##dt(&ask, &j, at_a, at_b, x);                                              \
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
    return fine ? RT_OK
                : rt_fail(r->err, RT_INVALID_ARGUMENT,
                          "Input matrix was rank deficient or ill-conditioned. Try setting "
                          "fast=False or provide a larger l2_regularizer > 0.");
}

const struct kn_entry kn_matrix_solve_ls = {
    .op = {.name = "MatrixSolveLs", .infer = least_squares_infer},
    .kernels = KN_CPU("MatrixSolveLs", "least_squares", KN_LINALG_TYPES, least_squares_prepare,
                      least_squares_run),
};
KN_OLDER_LINALG(batch_matrix_solve_ls, "BatchMatrixSolveLs", least_squares_infer, NULL,
                KN_SET(KN_FLOATS), least_squares_prepare, least_squares_run)
