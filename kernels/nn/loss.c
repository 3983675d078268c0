/*
 * Ops that compare predictions with labels, row by row: SoftmaxCrossEntropyWithLogits,
 * SparseSoftmaxCrossEntropyWithLogits, InTopK, InTopKV2.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"

/* Marks the op as row-wise: row i of every output depends on row i of every input. An input that
 * does not depend on the batch must have one row, which is broadcast. */
static void rows_paired(struct rt_rows *r)
{
    bool any = false, sized = false, still_rows = false;

    for (int k = 0; k < r->n_in; k++) {
        const struct rt_dep *d = &r->in_dep[k];
        const struct rt_shape *s = &r->in[k].shape;
        if (d->kind == RT_DEP_MIXED || s->rank < 0)
            return;
        if (d->kind == RT_DEP_ROWS) {
            if (d->axis != 0 || s->dim[0] != r->out[0].shape.dim[0])
                return;
            any = true;
        } else if (s->rank == 2 || (s->rank == 1 && k == 1 && r->in[0].shape.rank == 2)) {
            still_rows = still_rows || s->dim[0] != 1;
        }
        sized = sized || d->kind == RT_DEP_SIZE;
    }
    if (any && still_rows)
        return;
    for (int k = 0; k < r->n_out; k++)
        r->out_dep[k] = any ? (struct rt_dep){RT_DEP_ROWS, 0}
                            : (struct rt_dep){sized ? RT_DEP_SIZE : RT_DEP_NONE, 0};
}

/* ---- softmax cross entropy ---- */

static enum rt_status infer_dense(struct rt_infer *x)
{
    const struct rt_shape *a = &x->in[0].shape, *b = &x->in[1].shape;
    char ta[160], tb[160];
    int64_t dim[2];

    x->out[0].shape = (struct rt_shape){.rank = 1, .dim = {-1}};
    x->out[1].shape = (struct rt_shape){.rank = 2, .dim = {-1, -1}};
    if (a->rank < 0 || b->rank < 0)
        return RT_OK;
    if ((a->rank != 2 && b->rank != 2) || a->rank > 2 || b->rank > 2)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "logits and labels must be either 2-dimensional, or broadcasted to be "
                       "2-dimensional");
    for (int i = 0; i < 2; i++) {
        const int ia = i - (2 - a->rank), ib = i - (2 - b->rank);
        const int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
        if (da >= 0 && db >= 0 && da != db && da != 1 && db != 1)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "logits and labels must be broadcastable: logits_size=%s labels_size=%s",
                           rt_shape_text(ta, sizeof ta, a->rank, a->dim),
                           rt_shape_text(tb, sizeof tb, b->rank, b->dim));
        dim[i] = da == 1 ? db : db == 1 ? da : da < 0 ? db : da;
    }
    x->out[0].shape.dim[0] = dim[0];
    x->out[1].shape.dim[0] = dim[0];
    x->out[1].shape.dim[1] = dim[1];
    return RT_OK;
}

/* Two matrices that are broadcast to a common shape. Strides are 0 along broadcast axes. */
struct pair {
    int64_t rows, cols, a_row, a_col, b_row, b_col;
};

static void steps(const struct rt_tensor *t, const struct pair *p, int64_t *row, int64_t *col)
{
    const int64_t cols = t->rank ? t->dim[t->rank - 1] : 1, rows = t->rank == 2 ? t->dim[0] : 1;
    *row = rows == 1 && p->rows != 1 ? 0 : cols;
    *col = cols == 1 && p->cols != 1 ? 0 : 1;
}

/* cost per class, in units of rt_run_spend: three passes over the data and two exponentials */
enum { ROW_WORK = 32 };

#define AS_IS(v) (v)
#define DENSE(dt, T, ACC, GET, PUT, EXP, LOG)                                                      \
    static enum rt_status dense_##dt(struct rt_run *r, const struct pair *p, const T *x,           \
                                     const T *y, T *loss, T *grad)                                 \
    {                                                                                              \
        int64_t left = RT_WORK;                                                                    \
        for (int64_t i = 0; i < p->rows; i++, grad += p->cols) {                                   \
            const T *xr = x + i * p->a_row, *yr = y + i * p->b_row;                                \
            ACC top = -(ACC)INFINITY, sum = 0, l = 0;                                              \
            for (int64_t j = 0; j < p->cols; j++) {                                                \
                const ACC v = GET(xr[j * p->a_col]);                                               \
                top = v > top || v != v ? v : top;                                                 \
                if (rt_run_tick(r, j))                                                             \
                    return r->err->code;                                                           \
            }                                                                                      \
            for (int64_t j = 0; j < p->cols; j++) {                                                \
                sum += EXP(GET(xr[j * p->a_col]) - top);                                           \
                if (rt_run_tick(r, j))                                                             \
                    return r->err->code;                                                           \
            }                                                                                      \
            const ACC log_sum = LOG(sum);                                                          \
            for (int64_t j = 0; j < p->cols; j++) {                                                \
                const ACC v = GET(xr[j * p->a_col]) - top, t = GET(yr[j * p->b_col]);              \
                l += t * (log_sum - v);                                                            \
                grad[j] = PUT(EXP(v) / sum - t);                                                   \
                if (rt_run_tick(r, j))                                                             \
                    return r->err->code;                                                           \
            }                                                                                      \
            loss[i] = PUT(l);                                                                      \
            if (rt_run_spend(r, &left, ROW_WORK * p->cols))                                        \
                return r->err->code;                                                               \
        }                                                                                          \
        return RT_OK;                                                                              \
    }
DENSE(RT_F32, float, float, AS_IS, AS_IS, expf, logf)
DENSE(RT_F64, double, double, AS_IS, AS_IS, exp, log)
DENSE(RT_F16, struct kn_half, float, kn_from_f16, kn_to_f16, expf, logf)
DENSE(RT_BF16, struct kn_bfloat, float, kn_from_bf16, kn_to_bf16, expf, logf)

static enum rt_status run_dense(struct rt_run *r)
{
    struct pair p = {.rows = r->out[1].dim[0], .cols = r->out[1].dim[1]};

    if (!p.cols) { /* the loss of a row without classes is 0 */
        if (p.rows)
            return kn_zero_chunks(r, r->out[0].data, rt_tensor_bytes(&r->out[0]));
        return RT_OK;
    }
    steps(&r->in[0], &p, &p.a_row, &p.a_col);
    steps(&r->in[1], &p, &p.b_row, &p.b_col);
    switch (r->in[0].dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        return dense_##dt(r, &p, r->in[0].data, r->in[1].data, r->out[0].data, r->out[1].data);
        KN_FLOATS(X)
        KN_HALFS(X)
#undef X
    default:
        break;
    }
    return RT_OK;
}

/* ---- with labels as indices ---- */

static enum rt_status infer_sparse(struct rt_infer *x)
{
    const struct rt_shape *a = &x->in[0].shape, *b = &x->in[1].shape;
    char ta[160], tb[160];

    if (a->rank >= 0 && a->rank != 2)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "logits must be 2-D, but got shape %s",
                       rt_shape_text(ta, sizeof ta, a->rank, a->dim));
    if (b->rank >= 0 && b->rank != 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "labels must be 1-D, but got shape %s",
                       rt_shape_text(tb, sizeof tb, b->rank, b->dim));
    x->out[0].shape = (struct rt_shape){.rank = 1, .dim = {-1}};
    x->out[1].shape = *a;
    if (a->rank < 0 || b->rank < 0)
        return RT_OK;
    if (a->dim[0] >= 0 && b->dim[0] >= 0 && a->dim[0] != b->dim[0])
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "logits and labels must have the same first dimension, got logits shape %s "
                       "and labels shape %s",
                       rt_shape_text(ta, sizeof ta, a->rank, a->dim),
                       rt_shape_text(tb, sizeof tb, b->rank, b->dim));
    if (a->dim[1] == 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Must have at least one class, but got logits shape %s",
                       rt_shape_text(ta, sizeof ta, a->rank, a->dim));
    x->out[0].shape.dim[0] = a->dim[0] < 0 ? b->dim[0] : a->dim[0];
    return RT_OK;
}

static int64_t label_at(const struct rt_tensor *t, int64_t i)
{
    return t->dtype == RT_I64 ? ((const int64_t *)t->data)[i] : ((const int32_t *)t->data)[i];
}

static enum rt_status check_labels(struct rt_run *r)
{
    const int64_t n = r->in[0].dim[0], classes = r->in[0].dim[1];
    char all[256] = "";
    size_t used = 0;

    for (int64_t i = 0; i < n; i++) {
        const int64_t v = label_at(&r->in[1], i);
        if (rt_run_tick(r, i))
            return r->err->code;
        if (v >= 0 && v < classes)
            continue;
        for (int64_t j = 0; j < n && used + 24 < sizeof all; j++)
            used += (size_t)snprintf(all + used, sizeof all - used, " %lld",
                                     (long long)label_at(&r->in[1], j));
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Received a label value of %lld which is outside the valid range of [0, "
                       "%lld).  Label values:%s",
                       (long long)v, (long long)classes, all);
    }
    return RT_OK;
}

#define SPARSE(dt, T, ACC, GET, PUT, EXP, LOG)                                                     \
    static enum rt_status sparse_##dt(struct rt_run *r, const struct rt_tensor *logits,            \
                                      const struct rt_tensor *labels, T *loss, T *grad)            \
    {                                                                                              \
        int64_t left = RT_WORK;                                                                    \
        const int64_t rows = logits->dim[0], cols = logits->dim[1];                                \
        const T *x = logits->data;                                                                 \
        for (int64_t i = 0; i < rows; i++, x += cols, grad += cols) {                              \
            const int64_t label = label_at(labels, i);                                             \
            ACC top = -(ACC)INFINITY, sum = 0;                                                     \
            for (int64_t j = 0; j < cols; j++) {                                                   \
                const ACC v = GET(x[j]);                                                           \
                top = v > top || v != v ? v : top;                                                 \
                if (rt_run_tick(r, j))                                                             \
                    return r->err->code;                                                           \
            }                                                                                      \
            for (int64_t j = 0; j < cols; j++) {                                                   \
                sum += EXP(GET(x[j]) - top);                                                       \
                if (rt_run_tick(r, j))                                                             \
                    return r->err->code;                                                           \
            }                                                                                      \
            loss[i] = PUT(LOG(sum) - (GET(x[label]) - top));                                       \
            for (int64_t j = 0; j < cols; j++) {                                                   \
                grad[j] = PUT(EXP(GET(x[j]) - top) / sum - (j == label ? 1 : 0));                  \
                if (rt_run_tick(r, j))                                                             \
                    return r->err->code;                                                           \
            }                                                                                      \
            if (rt_run_spend(r, &left, ROW_WORK * cols))                                           \
                return r->err->code;                                                               \
        }                                                                                          \
        return RT_OK;                                                                              \
    }
SPARSE(RT_F32, float, float, AS_IS, AS_IS, expf, logf)
SPARSE(RT_F64, double, double, AS_IS, AS_IS, exp, log)
SPARSE(RT_F16, struct kn_half, float, kn_from_f16, kn_to_f16, expf, logf)
SPARSE(RT_BF16, struct kn_bfloat, float, kn_from_bf16, kn_to_bf16, expf, logf)

static enum rt_status run_sparse(struct rt_run *r)
{
    const enum rt_status st = check_labels(r);
    if (st)
        return st;
    switch (r->in[0].dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        return sparse_##dt(r, &r->in[0], &r->in[1], r->out[0].data, r->out[1].data);
        KN_FLOATS(X)
        KN_HALFS(X)
#undef X
    default:
        break;
    }
    return RT_OK;
}

/* ---- InTopK ---- */

static enum rt_status infer_top(struct rt_infer *x)
{
    const struct rt_shape *p = &x->in[0].shape, *t = &x->in[1].shape;
    char text[160];

    if (p->rank >= 0 && p->rank != 2)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "predictions must be 2-dimensional");
    if (t->rank >= 0 && t->rank != 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "targets must be 1-dimensional");
    if (x->n_in == 3 && x->in[2].shape.rank > 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "k must be 0-D, got shape %s",
                       rt_shape_text(text, sizeof text, x->in[2].shape.rank, x->in[2].shape.dim));
    x->out[0].shape = (struct rt_shape){.rank = 1, .dim = {-1}};
    if (p->rank < 0 || t->rank < 0)
        return RT_OK;
    if (p->dim[0] >= 0 && t->dim[0] >= 0 && p->dim[0] != t->dim[0])
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "First dimension of predictions %lld must match length of targets %lld",
                       (long long)p->dim[0], (long long)t->dim[0]);
    x->out[0].shape.dim[0] = p->dim[0] < 0 ? t->dim[0] : p->dim[0];
    return RT_OK;
}

static enum rt_status find_in_top(struct rt_run *r, const float *p, int64_t n, int64_t target,
                                  int64_t k, bool *is_in)
{
    int64_t better = 0;

    *is_in = false;
    if (target < 0 || target >= n || !isfinite(p[target]))
        return RT_OK;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(p[i]))
            return RT_OK; /* a row that contains infinity or NaN cannot be ranked */
        if (p[i] > p[target] && ++better > k)
            break;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    *is_in = better < k;
    return RT_OK;
}

static enum rt_status run_top(struct rt_run *r)
{
    const int64_t rows = r->in[0].dim[0], cols = r->in[0].dim[1];
    const int64_t k = r->n_in == 3 ? label_at(&r->in[2], 0) : rt_attr_int(r->node, "k");
    const float *p = r->in[0].data;
    bool *out = r->out[0].data;

    int64_t left = RT_WORK;
    for (int64_t i = 0; i < rows; i++) {
        if (find_in_top(r, cols ? p + i * cols : p, cols, label_at(&r->in[1], i), k, &out[i]) ||
            rt_run_spend(r, &left, 2 * cols))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- registration ---- */

#define LOSS_TYPES (KN_SET(KN_FLOATS) | KN_SET(KN_HALFS))

const struct kn_entry kn_softmax_cross_entropy_with_logits = {
    .op = {.name = "SoftmaxCrossEntropyWithLogits", .infer = infer_dense, .rows = rows_paired},
    .kernels =
        KN_CPU("SoftmaxCrossEntropyWithLogits", "cross_entropy", LOSS_TYPES, NULL, run_dense),
};
const struct kn_entry kn_sparse_softmax_cross_entropy_with_logits = {
    .op = {.name = "SparseSoftmaxCrossEntropyWithLogits",
           .infer = infer_sparse,
           .rows = rows_paired},
    .kernels = KN_CPU("SparseSoftmaxCrossEntropyWithLogits", "sparse_cross_entropy", LOSS_TYPES,
                      NULL, run_sparse),
};
const struct kn_entry kn_in_top_k = {
    .op = {.name = "InTopK", .infer = infer_top, .rows = rows_paired},
    .kernels = KN_CPU("InTopK", "in_top_k", 0, NULL, run_top),
};
const struct kn_entry kn_in_top_k_v2 = {
    .op = {.name = "InTopKV2", .infer = infer_top, .rows = rows_paired},
    .kernels = KN_CPU("InTopKV2", "in_top_k", 0, NULL, run_top),
};
