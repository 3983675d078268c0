/*
 * The QR decomposition (Qr) and the singular value decomposition (Svd), by LAPACK. The diagonal of
 * R may be negative: TensorFlow's reflectors follow the same rule as LAPACK's. The signs of
 * singular vectors may differ from TensorFlow's.
 */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/linalg/lapack.h"
#include "kernels/matmul/gemm.h"

/* ---- shapes ---- */

struct sizes {
    int64_t m, n, least; /* rows, columns, and the smaller of the two */
    bool full;           /* attribute full_matrices */
};
static struct sizes sizes_of(const struct rt_node *node, int rank, const int64_t *dim)
{
    struct sizes s = {.m = dim[rank - 2], .n = dim[rank - 1]};

    s.least = s.m < 0 || s.n < 0 ? -1 : s.m < s.n ? s.m : s.n;
    s.full = rt_attr_bool(node, "full_matrices");
    return s;
}

static void set_matrix(struct rt_infer *x, int k, int64_t rows, int64_t cols)
{
    struct rt_shape *o = &x->out[k].shape;

    *o = x->in[0].shape;
    o->dim[o->rank - 2] = rows;
    o->dim[o->rank - 1] = cols;
}

static enum rt_status qr_infer(struct rt_infer *x)
{
    const struct rt_shape *a = &x->in[0].shape;
    const enum rt_status st = kn_matrices(x);

    if (st || a->rank < 0)
        return st;
    const struct sizes s = sizes_of(x->node, a->rank, a->dim);
    set_matrix(x, 0, s.m, s.full ? s.m : s.least);
    set_matrix(x, 1, s.full ? s.m : s.least, s.n);
    return RT_OK;
}

static enum rt_status svd_infer(struct rt_infer *x)
{
    const struct rt_shape *a = &x->in[0].shape;
    const enum rt_status st = kn_matrices(x);

    if (st || a->rank < 0)
        return st;
    const struct sizes s = sizes_of(x->node, a->rank, a->dim);
    set_matrix(x, 0, 0, s.least);
    x->out[0].shape.rank--;
    x->out[0].shape.dim[a->rank - 2] = s.least;
    if (rt_attr_bool(x->node, "compute_uv")) {
        set_matrix(x, 1, s.m, s.full ? s.m : s.least);
        set_matrix(x, 2, s.n, s.full ? s.n : s.least);
    } else {
        x->out[1].shape = x->out[2].shape = (struct rt_shape){.rank = 0};
    }
    return RT_OK;
}

#define IDENTITY(dt, T)                                                                            \
    static void identity_##dt(struct kn_ask *q, T *a, int64_t n, int64_t count)                    \
    {                                                                                              \
        for (int64_t i = 0; i < count * n && !kn_ends(q, n); i++)                                  \
            for (int64_t j = 0; j < n; j++)                                                        \
                a[i * n + j] = i % n == j;                                                         \
    }
KN_LINALG(IDENTITY)

/* Fills a factor of a matrix that has no decomposition. LAPACK's own results would depend on the
 * order of its products, some of which leave out zeros. */
#define FILL(dt, T)                                                                                \
    static void fill_##dt(struct kn_ask *ask, T *a, int64_t n, T value)                            \
    {                                                                                              \
        for (int64_t i = 0; i < n && !kn_ends(ask, 1); i++)                                        \
            a[i] = value;                                                                          \
    }
KN_LINALG(FILL)

/* ---- Qr ---- */

struct qr_job {
    int m, n, least, columns; /* columns of Q */
    int lwork, info;
    void *a, *q, *tau, *work;
    float *wide, *wide_q, *wide_r; /* a half-precision matrix and its factors, as float */
};

static size_t qr_layout(struct qr_job *j, const struct sizes *s, enum rt_dtype dtype, void *base)
{
    struct kn_space space = {.base = base};
    const size_t size = dtype == RT_F16 ? sizeof(float) : rt_dtype_size(dtype);
    const int64_t columns = s->full ? s->m : s->least;

    *j = (struct qr_job){.m = (int)s->m, .n = (int)s->n, .least = (int)s->least};
    j->columns = (int)columns;
    j->lwork = (int)((s->m > s->n ? s->m : s->n) * KN_LAPACK_BLOCK);
    j->a = kn_space_take(&space, s->m * s->n, size);
    j->q = kn_space_take(&space, s->m * columns, size);
    j->tau = kn_space_take(&space, s->least, size);
    j->work = kn_space_take(&space, j->lwork, size);
    if (dtype == RT_F16) {
        j->wide = kn_space_take(&space, s->m * s->n, size);
        j->wide_q = kn_space_take(&space, s->m * columns, size);
        j->wide_r = kn_space_take(&space, columns * s->n, size);
    }
    return space.used;
}

#define QR(dt, T, p, make_q)                                                                       \
    static void qr_factor_##dt(void *arg)                                                          \
    {                                                                                              \
        struct qr_job *j = arg;                                                                    \
        p##geqrf_(&j->m, &j->n, j->a, &j->m, j->tau, j->work, &j->lwork, &j->info);                \
    }                                                                                              \
    static void qr_make_##dt(void *arg)                                                            \
    {                                                                                              \
        struct qr_job *j = arg;                                                                    \
        make_q(&j->m, &j->columns, &j->least, j->q, &j->m, j->tau, j->work, &j->lwork, &j->info);  \
    }                                                                                              \
    static void qr_one_##dt(struct kn_ask *ask, struct qr_job *j, const T *a, T *q, T *r)          \
    {                                                                                              \
        const int64_t m = j->m, n = j->n, copied = j->least * m;                                   \
        T *f = j->a;                                                                               \
        kn_turn_##dt(ask, a, m, n, f, false);                                                      \
        kn_lapack_call(ask, qr_factor_##dt, j);                                                    \
        for (int64_t i = 0; i < j->columns && !kn_ends(ask, 4 * n); i++)                           \
            for (int64_t k = 0; k < n; k++)                                                        \
                r[i * n + k] = k >= i ? f[k * m + i] : 0;                                          \
        for (int64_t i = 0; i < copied && !kn_ends(ask, 4 * m); i += m)                            \
            memcpy((T *)j->q + i, f + i, (size_t)m * sizeof(T));                                   \
        kn_lapack_call(ask, qr_make_##dt, j);                                                      \
        kn_turn_##dt(ask, j->q, j->columns, m, q, false);                                          \
        if (!kn_finite_##dt(ask, a, m * n))                                                        \
            fill_##dt(ask, q, m * j->columns, NAN);                                                \
    }
QR(RT_F32, float, s, sorgqr_)
QR(RT_F64, double, d, dorgqr_)
QR(RT_C64, float _Complex, c, cungqr_)
QR(RT_C128, double _Complex, z, zungqr_)

/* TensorFlow factorises half-precision matrices in half precision. Here, only the results are
 * rounded. */
static void qr_half(struct kn_ask *ask, struct qr_job *j, const struct kn_half *a,
                    struct kn_half *q, struct kn_half *r)
{
    const int64_t m = j->m, n = j->n, c = j->columns;

    ask->ended = ask->ended || kn_to_float_rows(ask->r, RT_F16, a, n, j->wide, m, n) != RT_OK;
    qr_one_RT_F32(ask, j, j->wide, j->wide_q, j->wide_r);
    ask->ended = ask->ended || kn_from_float_rows(ask->r, RT_F16, j->wide_q, q, c, m, c) != RT_OK ||
                 kn_from_float_rows(ask->r, RT_F16, j->wide_r, r, n, c, n) != RT_OK;
}

static enum rt_status qr_prepare(struct rt_prep *p, void **state)
{
    const struct rt_shape *a = &p->in[0].shape;
    const struct sizes s = sizes_of(p->node, a->rank, a->dim);
    struct qr_job j;
    (void)state;
    if (!rt_shape_elements(a))
        return RT_OK;
    const enum rt_status st = kn_lapack_size(s.m, s.n, p->err);
    if (!st)
        p->scratch_bytes = qr_layout(&j, &s, p->in[0].dtype, NULL);
    return st;
}

/* A matrix without columns has an empty R. Its full Q is the identity. */
static enum rt_status qr_empty(struct rt_run *r, const struct sizes *s)
{
    struct kn_ask ask = {.r = r, .left = RT_WORK};
    const int64_t count = rt_tensor_count(&r->out[0]) ? kn_matrix_count(&r->in[0]) : 0;

    switch (r->in[0].dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        identity_##dt(&ask, r->out[0].data, s->m, count);                                          \
        break;
        KN_LINALG(X)
#undef X
    default: /* float16 */
        for (int64_t i = 0; i < count * s->m && !kn_ends(&ask, s->m); i++)
            for (int64_t k = 0; k < s->m; k++)
                ((struct kn_half *)r->out[0].data)[i * s->m + k] = kn_to_f16(i % s->m == k);
    }
    return ask.ended ? r->err->code : RT_OK;
}

static enum rt_status qr_run(struct rt_run *r)
{
    const struct rt_tensor *a = &r->in[0];
    const struct sizes s = sizes_of(r->node, a->rank, a->dim);
    struct kn_ask ask = {.r = r, .left = RT_WORK};
    const int64_t count = kn_matrix_count(a);
    struct qr_job j;

    if (!rt_tensor_count(a))
        return qr_empty(r, &s);
    qr_layout(&j, &s, kn_dtype(a), r->scratch);
    const int64_t in = s.m * s.n, q = s.m * j.columns, rest = j.columns * s.n;
    for (int64_t i = 0; i < count && !kn_ends(&ask, 64); i++) {
        switch (a->dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        qr_one_##dt(&ask, &j, (const T *)a->data + i * in, (T *)r->out[0].data + i * q,            \
                    (T *)r->out[1].data + i * rest);                                               \
        break;
            KN_LINALG(X)
#undef X
        case RT_F16:
            qr_half(&ask, &j, (const struct kn_half *)a->data + i * in,
                    (struct kn_half *)r->out[0].data + i * q,
                    (struct kn_half *)r->out[1].data + i * rest);
            break;
        default:
            break;
        }
    }
    return ask.ended ? r->err->code : RT_OK;
}

/* ---- Svd ---- */

/*
 * LAPACK receives the transposed matrix. The left singular vectors of the transposed matrix are the
 * conjugates of the right singular vectors of the matrix. Therefore LAPACK's `u` is conj(V).
 * LAPACK's `vt` is the transposed U, which is U in row-major order.
 */
struct svd_job {
    /* "N" for no vectors, "S" for the vectors of singular values, "A" for all vectors */
    const char *job;
    int m, n, least, u_columns, v_columns;
    int lwork, info;
    void *a, *s, *v, *u, *work, *rwork;
    int *iwork;
};

static size_t svd_layout(struct svd_job *j, const struct sizes *s, const struct rt_node *node,
                         enum rt_dtype dtype, void *base)
{
    struct kn_space space = {.base = base};
    const bool is_complex = dtype == RT_C64 || dtype == RT_C128;
    const size_t size = rt_dtype_size(dtype), real = is_complex ? size / 2 : size;
    const int64_t least = s->least, most = s->m > s->n ? s->m : s->n;
    const bool vectors = rt_attr_bool(node, "compute_uv");

    *j = (struct svd_job){.m = (int)s->m, .n = (int)s->n, .least = (int)least};
    j->job = !vectors ? "N" : s->full ? "A" : "S";
    j->u_columns = (int)(s->full ? s->m : least);
    j->v_columns = (int)(s->full ? s->n : least);
    /* The size of `work` is LAPACK's documented minimum plus space for blocks of columns. */
    j->lwork = (int)(4 * least * least + 7 * least + (most + least) * KN_LAPACK_BLOCK);
    j->a = kn_space_take(&space, s->m * s->n, size);
    j->s = kn_space_take(&space, least, real);
    j->v = kn_space_take(&space, vectors ? s->n * j->v_columns : 1, size);
    j->work = kn_space_take(&space, j->lwork, size);
    j->iwork = kn_space_take(&space, 8 * least, sizeof(int));
    if (is_complex)
        j->rwork = kn_space_take(
            &space, vectors ? 7 * least + 7 * least * least + 2 * most * least : 7 * least, real);
    return space.used;
}

#define RWORK(j) (j)->rwork,
#define NONE(j)
#define SVD(dt, T, R, p, REAL_WORK)                                                                \
    static void svd_factor_##dt(void *arg)                                                         \
    {                                                                                              \
        struct svd_job *j = arg;                                                                   \
        const int ldu = *j->job == 'N' ? 1 : j->u_columns;                                         \
        p##gesdd_(j->job, &j->n, &j->m, j->a, &j->n, j->s, j->v, &j->n, j->u, &ldu, j->work,       \
                  &j->lwork, REAL_WORK(j) j->iwork, &j->info, 1);                                  \
    }                                                                                              \
    static void svd_one_##dt(struct kn_ask *ask, struct svd_job *j, const T *a, T *s, T *u, T *v)  \
    {                                                                                              \
        const int64_t m = j->m, n = j->n, row = n;                                                 \
        const bool vectors = *j->job != 'N';                                                       \
        T none;                                                                                    \
        j->u = vectors ? u : &none;                                                                \
        j->info = 0;                                                                               \
        const bool fine = kn_finite_##dt(ask, a, m * n);                                           \
        for (int64_t i = 0; fine && i < m && !kn_ends(ask, 4 * n); i++)                            \
            memcpy((T *)j->a + i * row, a + i * row, (size_t)n * sizeof(T));                       \
        if (fine)                                                                                  \
            kn_lapack_call(ask, svd_factor_##dt, j);                                               \
        if (!fine || j->info) {                                                                    \
            fill_##dt(ask, s, j->least, KN_NO_RESULT_##dt);                                        \
            if (vectors) {                                                                         \
                fill_##dt(ask, u, m * j->u_columns, KN_NO_RESULT_##dt);                            \
                fill_##dt(ask, v, n * j->v_columns, KN_NO_RESULT_##dt);                            \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < j->least && !ask->ended; i++)                                      \
            s[i] = ((const R *)j->s)[i];                                                           \
        if (vectors)                                                                               \
            kn_turn_##dt(ask, j->v, j->v_columns, n, v, true);                                     \
    }
SVD(RT_F32, float, float, s, NONE)
SVD(RT_F64, double, double, d, NONE)
SVD(RT_C64, float _Complex, float, c, RWORK)
SVD(RT_C128, double _Complex, double, z, RWORK)

static enum rt_status svd_prepare(struct rt_prep *p, void **state)
{
    const struct rt_shape *a = &p->in[0].shape;
    const struct sizes s = sizes_of(p->node, a->rank, a->dim);
    struct svd_job j;
    (void)state;
    if (!rt_shape_elements(a))
        return RT_OK;
    const enum rt_status st = kn_lapack_size(s.m, s.n, p->err);
    if (!st)
        p->scratch_bytes = svd_layout(&j, &s, p->node, p->in[0].dtype, NULL);
    return st;
}

static enum rt_status svd_run(struct rt_run *r)
{
    const struct rt_tensor *a = &r->in[0];
    const struct sizes s = sizes_of(r->node, a->rank, a->dim);
    const bool vectors = rt_attr_bool(r->node, "compute_uv"), empty = !rt_tensor_count(a);
    struct kn_ask ask = {.r = r, .left = RT_WORK};
    const int64_t count = kn_matrix_count(a);
    struct svd_job j = {0};

    for (int k = 1; !vectors && k < 3; k++) /* TensorFlow returns scalars of arbitrary value */
        memset(r->out[k].data, 0, rt_tensor_bytes(&r->out[k]));
    if (!empty)
        svd_layout(&j, &s, r->node, kn_dtype(a), r->scratch);
    const int64_t in = s.m * s.n, u = s.m * j.u_columns, v = s.n * j.v_columns;
    switch (a->dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        for (int64_t i = 0; !empty && i < count && !kn_ends(&ask, 64); i++)                        \
            svd_one_##dt(&ask, &j, (const T *)a->data + i * in, (T *)r->out[0].data + i * s.least, \
                         vectors ? (T *)r->out[1].data + i * u : NULL,                             \
                         vectors ? (T *)r->out[2].data + i * v : NULL);                            \
        if (empty && vectors && rt_tensor_count(&r->out[1]))                                       \
            identity_##dt(&ask, r->out[1].data, s.m, count);                                       \
        if (empty && vectors && rt_tensor_count(&r->out[2]))                                       \
            identity_##dt(&ask, r->out[2].data, s.n, count);                                       \
        break;
        KN_LINALG(X)
#undef X
    default:
        break;
    }
    return ask.ended ? r->err->code : RT_OK;
}

const struct kn_entry kn_qr = {
    .op = {.name = "Qr", .infer = qr_infer, .rows = kn_rows_batch},
    .kernels = KN_CPU("Qr", "qr", KN_LINALG_TYPES | RT_T(RT_F16), qr_prepare, qr_run),
};
const struct kn_entry kn_svd = {
    .op = {.name = "Svd", .infer = svd_infer, .rows = kn_rows_batch},
    .kernels = KN_CPU("Svd", "svd", KN_LINALG_TYPES, svd_prepare, svd_run),
};
KN_OLDER_LINALG(batch_svd, "BatchSvd", svd_infer, kn_rows_batch, KN_LINALG_TYPES, svd_prepare,
                svd_run)
