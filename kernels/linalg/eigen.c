/*
 * Eigenvalues and eigenvectors of self-adjoint matrices (SelfAdjointEig, SelfAdjointEigV2) and of
 * general ones (Eig), by LAPACK. Eigenvectors have length 1 and an arbitrary sign. As in
 * TensorFlow, only the lower triangle of a self-adjoint matrix is read, and its eigenvalues are in
 * ascending order.
 */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/linalg/lapack.h"

struct eig_job {
    const char *job; /* "N" without vectors, "V" with vectors */
    int n, lwork, lrwork, liwork, info;
    void *a, *values, *imaginary, *vectors, *work, *rwork;
    int *iwork;
};

static bool has_vectors(const struct rt_node *n)
{
    if (!strcmp(n->op->name, "SelfAdjointEig") || !strcmp(n->op->name, "BatchSelfAdjointEig"))
        return true;
    return rt_attr_bool(n, "compute_v");
}

static size_t eig_layout(struct eig_job *j, int64_t n, bool vectors, enum rt_dtype dtype,
                         void *base)
{
    struct kn_space space = {.base = base};
    const bool is_complex = dtype == RT_C64 || dtype == RT_C128;
    const size_t size = rt_dtype_size(dtype), real = is_complex ? size / 2 : size;

    /* Each size is the largest of the documented minima of the LAPACK routines that this file
     * calls. lwork also includes space for blocks of columns. */
    *j = (struct eig_job){.job = vectors ? "V" : "N", .n = (int)n};
    j->lwork = (int)(1 + (6 + KN_LAPACK_BLOCK) * n + (vectors ? 2 * n * n : 0));
    j->lrwork = (int)(1 + 5 * n + (vectors ? 2 * n * n : 0));
    j->liwork = (int)(3 + 5 * n);
    j->a = kn_space_take(&space, n * n, size);
    j->values = kn_space_take(&space, n, size);
    j->imaginary = kn_space_take(&space, n, size);
    j->vectors = kn_space_take(&space, vectors ? n * n : 1, size);
    j->work = kn_space_take(&space, j->lwork, size);
    j->rwork = kn_space_take(&space, is_complex ? j->lrwork : 1, real);
    j->iwork = kn_space_take(&space, j->liwork, sizeof(int));
    return space.used;
}

static enum rt_status eig_prepare(struct rt_prep *p, void **state)
{
    const struct rt_shape *a = &p->in[0].shape;
    const int64_t n = a->dim[a->rank - 1];
    struct eig_job j;
    (void)state;
    if (!rt_shape_elements(a))
        return RT_OK;
    const enum rt_status st = kn_lapack_size(n, n, p->err);
    if (!st)
        p->scratch_bytes = eig_layout(&j, n, has_vectors(p->node), p->in[0].dtype, NULL);
    return st;
}

static enum rt_status eig_infer(struct rt_infer *x)
{
    const struct rt_shape *a = &x->in[0].shape;
    const enum rt_status st = kn_square_matrices(x, "Input matrix must be square.");

    if (st || a->rank < 0)
        return st;
    x->out[0].shape = *a;
    x->out[0].shape.rank--;
    x->out[1].shape = *a;
    if (!has_vectors(x->node))
        x->out[1].shape.rank = 0;
    return RT_OK;
}

/* ---- SelfAdjointEigV2, SelfAdjointEig ---- */

static void step_real(struct eig_job *j, bool wide)
{
    if (wide)
        dsyevd_(j->job, "U", &j->n, j->a, &j->n, j->values, j->work, &j->lwork, j->iwork,
                &j->liwork, &j->info, 1, 1);
    else
        ssyevd_(j->job, "U", &j->n, j->a, &j->n, j->values, j->work, &j->lwork, j->iwork,
                &j->liwork, &j->info, 1, 1);
}
static void step_complex(struct eig_job *j, bool wide)
{
    if (wide)
        zheevd_(j->job, "U", &j->n, j->a, &j->n, j->values, j->work, &j->lwork, j->rwork,
                &j->lrwork, j->iwork, &j->liwork, &j->info, 1, 1);
    else
        cheevd_(j->job, "U", &j->n, j->a, &j->n, j->values, j->work, &j->lwork, j->rwork,
                &j->lrwork, j->iwork, &j->liwork, &j->info, 1, 1);
}

/* LAPACK receives the transposed matrix, which for a self-adjoint matrix is the conjugated matrix.
 * `v` is NULL if no vectors are needed. Returns false if the matrix has no decomposition. */
#define SELF_ADJOINT(dt, T, R, STEP, WIDE)                                                         \
    static void self_adjoint_call_##dt(void *arg)                                                  \
    {                                                                                              \
        STEP(arg, WIDE);                                                                           \
    }                                                                                              \
    static bool self_adjoint_##dt(struct kn_ask *ask, struct eig_job *j, const T *a, T *e, T *v)   \
    {                                                                                              \
        const int64_t n = j->n;                                                                    \
        T *copy = j->a;                                                                            \
        bool fine = true;                                                                          \
        if (n == 1) { /* a single number need not be finite, as in TensorFlow */                   \
            e[0] = (R)a[0];                                                                        \
            if (v)                                                                                 \
                v[0] = 1;                                                                          \
            return true;                                                                           \
        }                                                                                          \
        for (int64_t i = 0; i < n && fine && !kn_ends(ask, 4 * n); i++) {                          \
            memset(copy + i * n, 0, (size_t)n * sizeof(T));                                        \
            memcpy(copy + i * n, a + i * n, (size_t)(i + 1) * sizeof(T));                          \
            fine = kn_finite_##dt(ask, copy + i * n, i + 1);                                       \
        }                                                                                          \
        if (!fine)                                                                                 \
            return false;                                                                          \
        kn_lapack_call(ask, self_adjoint_call_##dt, j);                                            \
        if (ask->ended || j->info)                                                                 \
            return false;                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            e[i] = ((const R *)j->values)[i];                                                      \
        if (v)                                                                                     \
            kn_turn_##dt(ask, copy, n, n, v, true);                                                \
        return true;                                                                               \
    }
SELF_ADJOINT(RT_F32, float, float, step_real, false)
SELF_ADJOINT(RT_F64, double, double, step_real, true)
SELF_ADJOINT(RT_C64, float _Complex, float, step_complex, false)
SELF_ADJOINT(RT_C128, double _Complex, double, step_complex, true)

/* Decomposes all matrices. The values of matrix i begin at element i * value_step of output 0, and
 * its vectors at element i * vector_step of `vectors`. */
static enum rt_status self_adjoint_all(struct rt_run *r, int64_t value_step, void *vectors,
                                       int64_t vector_step)
{
    const struct rt_tensor *a = &r->in[0];
    const int64_t n = a->dim[a->rank - 1], count = kn_matrix_count(a);
    struct kn_ask ask = {.r = r, .left = RT_WORK};
    struct eig_job j;
    bool fine = true;

    if (!rt_tensor_count(a))
        return RT_OK;
    eig_layout(&j, n, vectors != NULL, kn_dtype(a), r->scratch);
    for (int64_t i = 0; i < count && fine && !kn_ends(&ask, 64); i++) {
        switch (a->dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        fine = self_adjoint_##dt(&ask, &j, (const T *)a->data + i * n * n,                         \
                                 (T *)r->out[0].data + i * value_step,                             \
                                 vectors ? (T *)vectors + i * vector_step : NULL);                 \
        break;
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
                          "Self-adjoint eigen decomposition was not successful. "
                          "The input might not be valid.");
}

static enum rt_status self_adjoint_run(struct rt_run *r)
{
    const int64_t n = r->in[0].dim[r->in[0].rank - 1];

    if (has_vectors(r->node))
        return self_adjoint_all(r, n, r->out[1].data, n * n);
    memset(r->out[1].data, 0,
           rt_tensor_bytes(&r->out[1])); /* TensorFlow returns a scalar of arbitrary value */
    return self_adjoint_all(r, n, NULL, 0);
}

/* In the output of the older op, the first row of each matrix holds the eigenvalues, and the other
 * rows hold the eigenvectors. */
static enum rt_status older_infer(struct rt_infer *x)
{
    const struct rt_shape *a = &x->in[0].shape;
    const enum rt_status st = kn_square_matrices(x, "Input matrix must be square.");

    if (st || a->rank < 0)
        return st;
    x->out[0].shape = *a;
    if (a->dim[a->rank - 1] >= 0)
        x->out[0].shape.dim[a->rank - 2] = a->dim[a->rank - 1] + 1;
    return RT_OK;
}
static enum rt_status older_run(struct rt_run *r)
{
    const int64_t n = r->in[0].dim[r->in[0].rank - 1], step = (n + 1) * n;

    if (!rt_tensor_count(&r->in[0]))
        return RT_OK;
    char *rows = (char *)r->out[0].data + (size_t)n * rt_dtype_size(kn_dtype(&r->in[0]));
    return self_adjoint_all(r, step, rows, step);
}

/* ---- Eig ---- */

/* Writes the eigenvalues and eigenvectors of a real matrix. LAPACK stores a pair of conjugate
 * eigenvectors in two columns: the real part, then the imaginary part. */
#define EIG_REAL(dt, T, C, p, MAKE)                                                                \
    static void eig_call_##dt(void *arg)                                                           \
    {                                                                                              \
        struct eig_job *j = arg;                                                                   \
        T none;                                                                                    \
        const int one = 1;                                                                         \
        p##geev_("N", j->job, &j->n, j->a, &j->n, j->values, j->imaginary, &none, &one,            \
                 j->vectors, &j->n, j->work, &j->lwork, &j->info, 1, 1);                           \
    }                                                                                              \
    static void eig_write_##dt(struct kn_ask *ask, const struct eig_job *j, C *e, C *v)            \
    {                                                                                              \
        const int64_t n = j->n;                                                                    \
        const T *re = j->values, *im = j->imaginary, *w = j->vectors;                              \
        for (int64_t k = 0; k < n; k++)                                                            \
            e[k] = MAKE(re[k], im[k]);                                                             \
        for (int64_t i = 0; v && i < n && !kn_ends(ask, 8 * n); i++)                               \
            for (int64_t k = 0; k < n; k++) {                                                      \
                if (im[k] == 0) {                                                                  \
                    v[i * n + k] = w[k * n + i];                                                   \
                } else { /* the first eigenvalue of a pair has the positive imaginary part */      \
                    const int64_t first = im[k] > 0 ? k : k - 1;                                   \
                    const T part = w[(first + 1) * n + i];                                         \
                    v[i * n + k] = MAKE(w[first * n + i], first == k ? part : -part);              \
                }                                                                                  \
            }                                                                                      \
    }
EIG_REAL(RT_F32, float, float _Complex, s, CMPLXF)
EIG_REAL(RT_F64, double, double _Complex, d, CMPLX)

#define EIG_COMPLEX(dt, T, p)                                                                      \
    static void eig_call_##dt(void *arg)                                                           \
    {                                                                                              \
        struct eig_job *j = arg;                                                                   \
        T none;                                                                                    \
        const int one = 1;                                                                         \
        p##geev_("N", j->job, &j->n, j->a, &j->n, j->values, &none, &one, j->vectors, &j->n,       \
                 j->work, &j->lwork, j->rwork, &j->info, 1, 1);                                    \
    }                                                                                              \
    static void eig_write_##dt(struct kn_ask *ask, const struct eig_job *j, T *e, T *v)            \
    {                                                                                              \
        memcpy(e, j->values, (size_t)j->n * sizeof(T));                                            \
        if (v)                                                                                     \
            kn_turn_##dt(ask, j->vectors, j->n, j->n, v, false);                                   \
    }
EIG_COMPLEX(RT_C64, float _Complex, c)
EIG_COMPLEX(RT_C128, double _Complex, z)

#define EIG(dt, T, C)                                                                              \
    static bool eig_one_##dt(struct kn_ask *ask, struct eig_job *j, const void *in, void *values,  \
                             void *vectors, int64_t i)                                             \
    {                                                                                              \
        const int64_t n = j->n;                                                                    \
        const T *a = (const T *)in + i * n * n;                                                    \
        /* As in TensorFlow, a single complex number need not be finite. */                        \
        if (n == 1 && sizeof(T) == sizeof(C)) {                                                    \
            ((C *)values)[i] = a[0];                                                               \
            if (vectors)                                                                           \
                ((C *)vectors)[i] = 1;                                                             \
            return true;                                                                           \
        }                                                                                          \
        if (!kn_finite_##dt(ask, a, n * n))                                                        \
            return false;                                                                          \
        kn_turn_##dt(ask, a, n, n, j->a, false);                                                   \
        /* Writes `vectors` before LAPACK runs, because LAPACK would write to new memory without   \
         * checking the deadline. */                                                               \
        if (vectors && kn_zero_chunks(ask->r, j->vectors, (size_t)(n * n) * sizeof(T)))            \
            ask->ended = true;                                                                     \
        kn_lapack_call(ask, eig_call_##dt, j);                                                     \
        if (ask->ended || j->info)                                                                 \
            return false;                                                                          \
        eig_write_##dt(ask, j, (C *)values + i * n, vectors ? (C *)vectors + i * n * n : NULL);    \
        return true;                                                                               \
    }
EIG(RT_F32, float, float _Complex)
EIG(RT_F64, double, double _Complex)
EIG(RT_C64, float _Complex, float _Complex)
EIG(RT_C128, double _Complex, double _Complex)

static enum rt_status eig_run(struct rt_run *r)
{
    const struct rt_tensor *a = &r->in[0];
    const int64_t n = a->dim[a->rank - 1], count = kn_matrix_count(a);
    const bool vectors = has_vectors(r->node);
    struct kn_ask ask = {.r = r, .left = RT_WORK};
    struct eig_job j;
    bool fine = true;

    if (!vectors)
        memset(r->out[1].data, 0,
               rt_tensor_bytes(&r->out[1])); /* TensorFlow returns a scalar of arbitrary value */
    if (!rt_tensor_count(a))
        return RT_OK;
    eig_layout(&j, n, vectors, kn_dtype(a), r->scratch);
    for (int64_t i = 0; i < count && fine && !kn_ends(&ask, 64); i++) {
        void *const v = vectors ? r->out[1].data : NULL;
        switch (a->dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        fine = eig_one_##dt(&ask, &j, a->data, r->out[0].data, v, i);                              \
        break;
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
                          "Eigen decomposition was not successful. The input might not be valid.");
}

static enum rt_status general_infer(struct rt_infer *x)
{
    const enum rt_dtype in = x->in[0].dtype, out = x->out[0].dtype;
    const enum rt_dtype right = in == RT_F32 || in == RT_C64 ? RT_C64 : RT_C128;

    if (out != right)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Invalid output dtype %d vs %d", (int)out,
                       (int)right);
    return eig_infer(x);
}

const struct kn_entry kn_self_adjoint_eig_v2 = {
    .op = {.name = "SelfAdjointEigV2", .infer = eig_infer, .rows = kn_rows_batch},
    .kernels = KN_CPU("SelfAdjointEigV2", "self_adjoint_eig", KN_LINALG_TYPES, eig_prepare,
                      self_adjoint_run),
};
const struct kn_entry kn_self_adjoint_eig = {
    .op = {.name = "SelfAdjointEig", .infer = older_infer, .rows = kn_rows_batch},
    .kernels =
        KN_CPU("SelfAdjointEig", "self_adjoint_eig", KN_SET(KN_FLOATS), eig_prepare, older_run),
};
const struct kn_entry kn_eig = {
    .op = {.name = "Eig", .infer = general_infer, .rows = kn_rows_batch},
    .kernels = KN_CPU("Eig", "eig", KN_LINALG_TYPES, eig_prepare, eig_run),
};
KN_OLDER_LINALG(batch_self_adjoint_eig, "BatchSelfAdjointEig", older_infer, kn_rows_batch,
                KN_SET(KN_FLOATS), eig_prepare, older_run)
KN_OLDER_LINALG(batch_self_adjoint_eig_v2, "BatchSelfAdjointEigV2", eig_infer, kn_rows_batch,
                KN_LINALG_TYPES, eig_prepare, self_adjoint_run)
