/*
 * The LU factorisation (Lu) and the gradient of the Cholesky factorisation (CholeskyGrad).
 */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/linalg/linalg.h"
#include "kernels/matmul/gemm.h"

/* ---- Lu ---- */

static enum rt_status lu_infer(struct rt_infer *x)
{
    const enum rt_status st = kn_square_matrices(x, "Input matrix must be square.");

    x->out[0].shape = x->out[1].shape = x->in[0].shape;
    if (!st && x->out[1].shape.rank >= 2)
        x->out[1].shape.rank--;
    return st;
}

static enum rt_status lu_prepare(struct rt_prep *p, void **state)
{
    const struct rt_shape *s = &p->in[0].shape;
    struct kn_space space = {0};
    (void)state;
    if (rt_shape_elements(s)) {
        kn_space_take(&space, s->dim[s->rank - 1], sizeof(int64_t));
        kn_space_take(&space, s->dim[s->rank - 1], sizeof(int64_t));
        p->scratch_bytes = space.used;
    }
    return RT_OK;
}

/* As in TensorFlow, the matrix is invertible if the smallest pivot is positive. NaN is never the
 * smallest pivot, except as the first one. */
#define LU(dt, T, ABS)                                                                             \
    static bool lu_one_##dt(struct kn_ask *ask, T *a, int64_t n, int64_t *swap)                    \
    {                                                                                              \
        bool even;                                                                                 \
        kn_lu_##dt(ask, a, n, swap, &even);                                                        \
        double least = ABS(a[0]);                                                                  \
        for (int64_t i = 1; i < n; i++)                                                            \
            if (ABS(a[i * n + i]) < least)                                                         \
                least = ABS(a[i * n + i]);                                                         \
        return least > 0;                                                                          \
    }
LU(RT_F32, float, fabsf)
LU(RT_F64, double, fabs)
LU(RT_C64, float _Complex, cabsf)
LU(RT_C128, double _Complex, cabs)

static void write_order(const struct rt_tensor *out, int64_t at, const int64_t *swap,
                        int64_t *order, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = 0; i < n; i++) {
        const int64_t t = order[i];
        order[i] = order[swap[i]];
        order[swap[i]] = t;
    }
    for (int64_t i = 0; i < n; i++) {
        if (out->dtype == RT_I32)
            ((int32_t *)out->data)[at + i] = (int32_t)order[i];
        else
            ((int64_t *)out->data)[at + i] = order[i];
    }
}

static enum rt_status lu_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    const int64_t n = t->dim[t->rank - 1], all = rt_tensor_count(t);
    struct kn_ask ask = {.r = r, .left = RT_WORK};
    struct kn_space space = {.base = r->scratch};
    int64_t *const swap = kn_space_take(&space, n, sizeof *swap);
    int64_t *const order = kn_space_take(&space, n, sizeof *order);
    bool fine = true;

    if (!all)
        return RT_OK;
    if (kn_copy_chunks(r, kn_dtype(t), r->out[0].data, t->data, all))
        return r->err->code;
    for (int64_t i = 0; i < all / (n * n) && fine; i++) {
        switch (t->dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        fine = lu_one_##dt(&ask, (T *)r->out[0].data + i * n * n, n, swap);                        \
        break;
            KN_LINALG(X)
#undef X
        default:
            break;
        }
        if (kn_ends(&ask, 4 * n))
            return r->err->code;
        write_order(&r->out[1], i * n, swap, order, n);
    }
    return fine ? RT_OK : rt_fail(r->err, RT_INVALID_ARGUMENT, "Input is not invertible.");
}

const struct kn_entry kn_lu = {
    .op = {.name = "Lu", .infer = lu_infer, .rows = kn_rows_batch},
    .kernels = KN_KERNELS({.op = "Lu",
                           .device = "CPU",
                           .name = "lu",
                           .types = KN_LINALG_TYPES,
                           .and_type_attr = "output_idx_type",
                           .and_types = RT_T(RT_I32) | RT_T(RT_I64),
                           .prepare = lu_prepare,
                           .run = lu_run}),
};

/* ---- CholeskyGrad ---- */

/*
 * The gradient with respect to the matrix is the symmetric part of L^-T F(L^T G) L^-1. L is the
 * factor, and G is the gradient with respect to L. F keeps the lower triangle and halves the
 * diagonal (I. Murray, Differentiation of the Cholesky decomposition, 2016, arXiv:1602.07527). Only
 * the lower triangles of L and G are read.
 */
static enum rt_status cholesky_grad_infer(struct rt_infer *x)
{
    const struct rt_shape *l = &x->in[0].shape, *g = &x->in[1].shape;
    enum rt_status st = kn_same_batch(x, 2);

    if (!st)
        st = kn_square_matrices(x, "Inputs must be a square matrices.");
    x->out[0].shape = *l;
    if (st || l->rank < 0 || g->rank < 0)
        return st;
    for (int i = l->rank - 2; i < l->rank; i++)
        if (l->dim[i] >= 0 && g->dim[i] >= 0 && l->dim[i] != g->dim[i])
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Inputs (L and grad) must have the same shape.");
    return RT_OK;
}

struct cholesky_grad {
    void *l, *g, *s; /* the lower triangles of the inputs, and an intermediate matrix */
    void *product;   /* scratch memory of the GEMM */
    struct kn_gemm gemm;
};

static size_t cholesky_grad_layout(struct cholesky_grad *c, int64_t n, enum rt_dtype dtype,
                                   void *base)
{
    struct kn_space space = {.base = base};
    const size_t size = rt_dtype_size(dtype);

    c->gemm = (struct kn_gemm){dtype, KN_TRANS, KN_AS_IS, n, n, n, n, n, n};
    c->l = kn_space_take(&space, n * n, size);
    c->g = kn_space_take(&space, n * n, size);
    c->s = kn_space_take(&space, n * n, size);
    c->product = kn_space_take(&space, kn_gemm_scratch(&c->gemm), 1);
    return space.used;
}

static enum rt_status cholesky_grad_prepare(struct rt_prep *p, void **state)
{
    const struct rt_shape *s = &p->in[0].shape;
    struct cholesky_grad c;
    (void)state;
    if (rt_shape_elements(s))
        p->scratch_bytes = cholesky_grad_layout(&c, s->dim[s->rank - 1], p->in[0].dtype, NULL);
    return RT_OK;
}

/* Solving equations with L^T twice, with a transposition in between, multiplies by L^-T from the
 * left and by L^-1 from the right. */
#define CHOLESKY_GRAD(dt, T)                                                                       \
    static void lower_##dt(struct kn_ask *ask, const T *a, T *out, int64_t n)                      \
    {                                                                                              \
        for (int64_t i = 0; i < n && !kn_ends(ask, n); i++)                                        \
            for (int64_t k = 0; k < n; k++)                                                        \
                out[i * n + k] = k > i ? 0 : a[i * n + k];                                         \
    }                                                                                              \
    static void cholesky_grad_##dt(struct kn_ask *ask, const struct cholesky_grad *c, const T *l,  \
                                   const T *g, T *out)                                             \
    {                                                                                              \
        const int64_t n = c->gemm.n;                                                               \
        T *s = c->s;                                                                               \
        lower_##dt(ask, l, c->l, n);                                                               \
        lower_##dt(ask, g, c->g, n);                                                               \
        if (ask->ended || kn_gemm_blocks(&c->gemm, false, c->l, c->g, s, c->product, ask->r)) {    \
            ask->ended = true;                                                                     \
            return;                                                                                \
        }                                                                                          \
        lower_##dt(ask, s, c->g, n);                                                               \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((T *)c->g)[i * n + i] /= 2;                                                           \
        kn_triangular_##dt(ask, c->l, n, c->g, n, true, true);                                     \
        kn_turn_##dt(ask, c->g, n, n, s, false);                                                   \
        kn_triangular_##dt(ask, c->l, n, s, n, true, true);                                        \
        for (int64_t i = 0; i < n && !kn_ends(ask, 8 * n); i++)                                    \
            for (int64_t k = 0; k < n; k++)                                                        \
                out[i * n + k] = (s[i * n + k] + s[k * n + i]) / 2;                                \
    }
KN_FLOATS(CHOLESKY_GRAD)

static enum rt_status cholesky_grad_run(struct rt_run *r)
{
    const struct rt_tensor *l = &r->in[0];
    const int64_t n = l->dim[l->rank - 1], all = rt_tensor_count(l);
    struct kn_ask ask = {.r = r, .left = RT_WORK};
    struct cholesky_grad c;

    if (!all)
        return RT_OK;
    cholesky_grad_layout(&c, n, kn_dtype(l), r->scratch);
    for (int64_t i = 0; i < all && !kn_ends(&ask, 64); i += n * n) {
        switch (l->dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        cholesky_grad_##dt(&ask, &c, (const T *)l->data + i, (const T *)r->in[1].data + i,         \
                           (T *)r->out[0].data + i);                                               \
        break;
            KN_FLOATS(X)
#undef X
        default:
            break;
        }
    }
    return ask.ended ? r->err->code : RT_OK;
}

const struct kn_entry kn_cholesky_grad = {
    .op = {.name = "CholeskyGrad", .infer = cholesky_grad_infer, .rows = kn_rows_matrices},
    .kernels = KN_CPU("CholeskyGrad", "cholesky_grad", KN_SET(KN_FLOATS), cholesky_grad_prepare,
                      cholesky_grad_run),
};
KN_OLDER_LINALG(batch_cholesky_grad, "BatchCholeskyGrad", cholesky_grad_infer, kn_rows_matrices,
                KN_SET(KN_FLOATS), cholesky_grad_prepare, cholesky_grad_run)
