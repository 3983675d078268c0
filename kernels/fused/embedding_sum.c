/*
 * The fused op "_EmbedSum" (runtime/fusion/embedding.h).
 *
 * If every index has its own weight, or if there are no weights, the rows of each bag are added one
 * by one. All known models use this method. Otherwise, the sums are computed element by element.
 */
#include <stdio.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/math/elementwise.h"
#include "kernels/cpu/parallel.h"
#include "kernels/array/gather_rows.h"
#include "runtime/fusion/embedding.h"

enum {
    WIDTH = 64, /* number of columns whose sums are computed at the same time, in registers */
    /* the same number for the columns that remain after the last complete group of WIDTH */
    FEW = 16,
    /* number of rows per partial sum; adding partial sums reduces the rounding error of long
     * sums */
    ROWS = 64,
};

/* Reports an error under the name of a node that the fusion replaced. */
static enum rt_status fail_at(struct rt_error *err, const char *node, const char *text)
{
    return rt_fail(err, RT_INVALID_ARGUMENT, "%s\n\t [[{{node %.250s}}]]", text, node);
}

/* ---- shapes ---- */

/* Computes the shapes of the looked-up rows and of the tensor that is summed. */
static enum rt_status whole_shape(const struct rt_embedding_sum *op, const struct rt_info *in,
                                  struct rt_shape *rows, struct rt_shape *whole,
                                  struct rt_error *err)
{
    const struct rt_shape *table = &in[RT_EMBEDDING_SUM_TABLE].shape,
                          *index = &in[RT_EMBEDDING_SUM_INDICES].shape;
    const struct rt_shape scalar = {.rank = 0};
    struct rt_shape either;
    char text[700], ta[160], tb[160];

    *rows = *index;
    if (index->rank == RT_MAX_RANK) {
        snprintf(text, sizeof text, "GatherV2: more than %d dimensions are not supported",
                 RT_MAX_RANK);
        return fail_at(err, op->gather, text);
    }
    rows->dim[rows->rank++] = table->dim[1];
    *whole = *rows;
    if (op->in.by < 0)
        return RT_OK;
    const struct rt_shape *by = &in[op->in.by].shape;
    const int how = op->how;
    if (how != RT_EMBEDDING_BY_MASK) {
        const struct rt_shape *a = how == RT_EMBEDDING_BY_WEIGHTS_FIRST ? by : rows;
        const struct rt_shape *b = how == RT_EMBEDDING_BY_WEIGHTS_FIRST ? rows : by;
        if (kn_broadcast(whole, a, b, NULL) == RT_OK)
            return RT_OK;
        snprintf(text, sizeof text, "Incompatible shapes: %s vs. %s",
                 rt_shape_text(ta, sizeof ta, a->rank, a->dim),
                 rt_shape_text(tb, sizeof tb, b->rank, b->dim));
        return fail_at(err, op->scaled, text);
    }
    if (kn_broadcast(&either, rows, &scalar, NULL) == RT_OK &&
        kn_broadcast(whole, &either, by, NULL) == RT_OK)
        return RT_OK;
    snprintf(text, sizeof text, "condition %s, then %s, and else [] must be broadcastable",
             rt_shape_text(ta, sizeof ta, by->rank, by->dim),
             rt_shape_text(tb, sizeof tb, rows->rank, rows->dim));
    return fail_at(err, op->scaled, text);
}

static enum rt_status embedding_sum_infer(struct rt_infer *x)
{
    struct rt_shape rows, whole, *out = &x->out[0].shape;
    struct rt_embedding_sum op;

    rt_embedding_sum_read(x->node, &op);
    int64_t axis = op.axis;
    if (!kn_known(x, 0))
        return RT_OK;
    if (x->in[RT_EMBEDDING_SUM_TABLE].shape.rank != 2)
        return rt_fail(x->err, RT_INTERNAL, "%s: the table is no matrix", x->node->name);
    const enum rt_status st = whole_shape(&op, x->in, &rows, &whole, x->err);
    if (st)
        return st;
    if (axis < -whole.rank || axis >= whole.rank)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Invalid reduction dimension (%lld for input with %d dimension(s)",
                       (long long)axis, whole.rank);
    axis = axis < 0 ? axis + whole.rank : axis;
    out->rank = 0;
    for (int i = 0; i < whole.rank; i++)
        if (i != axis)
            out->dim[out->rank++] = whole.dim[i];
        else if (op.keep_dims)
            out->dim[out->rank++] = 1;
    if (kn_shape_total(&whole) < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Shape %s has too many elements",
                       KN_TEXT(&whole));
    return RT_OK;
}

/* Returns the axis of the summed tensor along which input k's rows lie, -1 if input k does not
 * depend on the batch, or -2 if input k is not row-wise. */
static int axis_of(const struct rt_rows *r, int k, const struct rt_shape *whole)
{
    const struct rt_dep *d = &r->in_dep[k];
    /* number of axes of the summed tensor that follow the axes of the input */
    const int behind = k == RT_EMBEDDING_SUM_INDICES ? 1 : 0;

    if (d->kind == RT_DEP_NONE)
        return -1;
    if (d->kind != RT_DEP_ROWS || d->axis >= r->in[k].shape.rank)
        return -2;
    const int axis = whole->rank - behind - r->in[k].shape.rank + d->axis;
    return axis >= 0 && axis < whole->rank - 1 && r->in[k].shape.dim[d->axis] == whole->dim[axis]
               ? axis
               : -2;
}

/* Returns whether input k lacks this axis of the summed tensor, or has length 1 along it. */
static bool is_broadcast(const struct rt_rows *r, int k, const struct rt_shape *whole, int axis)
{
    const struct rt_shape *s = &r->in[k].shape;
    const int own = axis - (whole->rank - (k == RT_EMBEDDING_SUM_INDICES ? 1 : 0) - s->rank);
    return own < 0 || s->dim[own] == 1;
}

static void rows(struct rt_rows *r)
{
    struct rt_shape rows_shape, whole;
    struct rt_embedding_sum op;

    rt_embedding_sum_read(r->node, &op);
    int64_t axis = op.axis;
    if (kn_rows_independent(r) || r->in_dep[RT_EMBEDDING_SUM_TABLE].kind != RT_DEP_NONE ||
        r->in[RT_EMBEDDING_SUM_TABLE].shape.rank != 2)
        return;
    for (int k = 0; k < r->n_in; k++)
        if (!kn_shape_known(&r->in[k].shape))
            return;
    if (whole_shape(&op, r->in, &rows_shape, &whole, NULL))
        return;
    int at = axis_of(r, RT_EMBEDDING_SUM_INDICES, &whole);
    if (op.in.by >= 0) {
        const int other = axis_of(r, RT_EMBEDDING_SUM_BY, &whole);
        if (at == -2 || other == -2 || (at >= 0 && other >= 0 && at != other) ||
            (other < 0 && !is_broadcast(r, RT_EMBEDDING_SUM_BY, &whole, at)) ||
            (at < 0 && !is_broadcast(r, RT_EMBEDDING_SUM_INDICES, &whole, other)))
            return;
        at = at < 0 ? other : at;
    }
    axis = axis < 0 ? axis + whole.rank : axis;
    if (at < 0 || at == axis)
        return;
    kn_rows_set(r, RT_DEP_ROWS, at - (at > axis && !op.keep_dims));
}

/* ---- prepare ---- */

struct embedding {
    struct rt_embedding_sum op;
    bool in_bags;
    int64_t limit, width;
    /* number of indices before, along and after the summed axis */
    int64_t outer, along, inner;
    /*
     * Members that only the element-wise method uses. dim[] contains the lengths of the summed
     * tensor's axes, without the summed axis. For each of these axes, step[] contains the strides
     * of three tensors: the indices, the table's columns, and the weights (or mask). sum_step
     * contains their strides along the summed axis.
     */
    int rank;
    int64_t dim[RT_MAX_RANK];
    struct steps {
        int64_t index, column, by;
    } step[RT_MAX_RANK], sum_step;
};

static int64_t step_of(const struct rt_shape *s, int axis)
{
    int64_t stride[RT_MAX_RANK];
    if (axis < 0 || axis >= s->rank || s->dim[axis] == 1)
        return 0;
    kn_strides(s->rank, s->dim, stride);
    return stride[axis];
}

static enum rt_status embedding_sum_prepare(struct rt_prep *p, void **state)
{
    struct embedding *e = rt_prep_alloc(p, sizeof *e);
    const struct rt_shape *index = &p->in[RT_EMBEDDING_SUM_INDICES].shape;
    const struct rt_shape none = {.rank = 0};
    struct rt_shape rows_shape, whole;

    if (!e)
        return p->err->code;
    rt_embedding_sum_read(p->node, &e->op);
    const struct rt_shape *by = e->op.in.by < 0 ? &none : &p->in[e->op.in.by].shape;
    int axis = (int)e->op.axis;
    const enum rt_status st = whole_shape(&e->op, p->in, &rows_shape, &whole, p->err);
    if (st)
        return st;
    axis = axis < 0 ? axis + whole.rank : axis;
    e->limit = p->in[RT_EMBEDDING_SUM_TABLE].shape.dim[0];
    e->width = p->in[RT_EMBEDDING_SUM_TABLE].shape.dim[1];
    e->outer = e->inner = 1;
    e->along = whole.dim[axis];
    for (int i = 0; i < index->rank; i++) {
        e->outer *= i < axis ? index->dim[i] : 1;
        e->inner *= i > axis ? index->dim[i] : 1;
    }
    e->in_bags = axis < index->rank && whole.rank == index->rank + 1;
    if (e->op.how) {
        e->in_bags = e->in_bags && by->rank == whole.rank && by->dim[whole.rank - 1] == 1;
        for (int i = 0; i < index->rank && e->in_bags; i++)
            e->in_bags = by->dim[i] == index->dim[i];
    }
    for (int i = 0; i < whole.rank; i++) {
        struct steps *s = i == axis ? &e->sum_step : &e->step[e->rank];
        s->index = step_of(index, i - (whole.rank - rows_shape.rank));
        s->column = i == whole.rank - 1 && e->width > 1 ? 1 : 0;
        s->by = step_of(by, i - (whole.rank - by->rank));
        if (i != axis)
            e->dim[e->rank++] = whole.dim[i];
    }
    *state = e;
    return RT_OK;
}

/* ---- bags ---- */

struct bag {
    const float *table, *weight; /* weight is NULL if there are no weights */
    const bool *mask;
    /* The bag has n indices. The indices, and the weights or the mask, are `step` elements
     * apart. */
    int64_t width, n, step;
    float by; /* the divisor of the sum */
};

static const float zeros[WIDTH];

/* Computes columns [at, at + m) of a bag's sum. m is a compile-time constant, except at the end of
 * a row, where fewer columns are left. */
#define ADD_COLUMNS(T)                                                                             \
    static inline __attribute__((always_inline)) void add_columns_##T(                             \
        const struct bag *b, const T *index, int64_t at, const int64_t m, float *out)              \
    {                                                                                              \
        float all[WIDTH] = {0};                                                                    \
        for (int64_t first = 0; first < b->n; first += ROWS) {                                     \
            const int64_t end = b->n - first < ROWS ? b->n : first + ROWS;                         \
            float some[WIDTH] = {0};                                                               \
            for (int64_t l = first; l < end; l++) {                                                \
                const int64_t i = l * b->step;                                                     \
                const float *named = b->table + (int64_t)index[i] * b->width + at;                 \
                /* Selects the row without a branch, because masks are hard to predict. */         \
                const float *row = b->mask && !b->mask[i] ? zeros : named;                         \
                const float by = b->weight ? b->weight[i] : 1;                                     \
                for (int64_t j = 0; j < m; j++)                                                    \
                    some[j] += row[j] * by;                                                        \
            }                                                                                      \
            for (int64_t j = 0; j < m; j++)                                                        \
                all[j] += some[j];                                                                 \
        }                                                                                          \
        for (int64_t j = 0; j < m; j++)                                                            \
            out[at + j] = all[j] / b->by;                                                          \
    }
ADD_COLUMNS(int32_t)
ADD_COLUMNS(int64_t)

#define ADD_BAG(T)                                                                                 \
    KN_CLONES static void add_bag_##T(const struct bag *b, const T *index, float *out)             \
    {                                                                                              \
        int64_t at = 0;                                                                            \
        for (; at + WIDTH <= b->width; at += WIDTH)                                                \
            add_columns_##T(b, index, at, WIDTH, out);                                             \
        for (; at + FEW <= b->width; at += FEW)                                                    \
            add_columns_##T(b, index, at, FEW, out);                                               \
        if (at < b->width)                                                                         \
            add_columns_##T(b, index, at, b->width - at, out);                                     \
    }
ADD_BAG(int32_t)
ADD_BAG(int64_t)

/* Computes the sums of bags [from, to). */
static enum rt_status embedding_bag_shard(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct embedding *e = r->state;
    const struct rt_tensor *index = &r->in[RT_EMBEDDING_SUM_INDICES];
    const float *weight =
        e->op.how && e->op.how != RT_EMBEDDING_BY_MASK ? r->in[RT_EMBEDDING_SUM_BY].data : NULL;
    const bool *mask = e->op.how == RT_EMBEDDING_BY_MASK ? r->in[RT_EMBEDDING_SUM_BY].data : NULL;
    struct bag b = {.table = r->in[RT_EMBEDDING_SUM_TABLE].data,
                    .width = e->width,
                    .n = e->along,
                    .step = e->inner,
                    .by = e->op.mean ? (float)e->along : 1};
    float *out = (float *)arg + from * e->width;
    int64_t left = RT_WORK;

    for (int64_t i = from; i < to; i++, out += e->width) {
        const int64_t at = i / e->inner * e->along * e->inner + i % e->inner;
        if (e->along && weight)
            b.weight = weight + at;
        if (e->along && mask)
            b.mask = mask + at;
        /* An empty tensor of indices may have a NULL data pointer. */
        if (index->dtype == RT_I32)
            add_bag_int32_t(&b, e->along ? (const int32_t *)index->data + at : NULL, out);
        else
            add_bag_int64_t(&b, e->along ? (const int64_t *)index->data + at : NULL, out);
        if (rt_run_spend(r, &left, e->along * e->width))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- any shapes ---- */

static float element(const struct rt_run *r, const struct embedding *e, const struct steps *at)
{
    const int64_t row = kn_int_at(&r->in[RT_EMBEDDING_SUM_INDICES], at->index);
    const float x =
        ((const float *)r->in[RT_EMBEDDING_SUM_TABLE].data)[row * e->width + at->column];

    switch (e->op.how) {
    case RT_EMBEDDING_BY_WEIGHTS:
    case RT_EMBEDDING_BY_WEIGHTS_FIRST:
        return x * ((const float *)r->in[RT_EMBEDDING_SUM_BY].data)[at->by];
    case RT_EMBEDDING_BY_MASK:
        return ((const bool *)r->in[RT_EMBEDDING_SUM_BY].data)[at->by] ? x : 0;
    default:
        return x;
    }
}

static enum rt_status one_by_one(struct rt_run *r, const struct embedding *e, float *out)
{
    const int64_t n = rt_tensor_count(&r->out[0]);
    int64_t left = RT_WORK;

    for (int64_t i = 0; i < n; i++) {
        struct steps at = {0};
        int64_t place = i;
        double sum = 0;
        for (int k = e->rank - 1; k >= 0; k--) {
            const int64_t own = place % e->dim[k];
            place /= e->dim[k];
            at.index += own * e->step[k].index;
            at.column += own * e->step[k].column;
            at.by += own * e->step[k].by;
        }
        for (int64_t l = 0; l < e->along; l++) {
            sum += (double)element(r, e, &at);
            at.index += e->sum_step.index;
            at.column += e->sum_step.column;
            at.by += e->sum_step.by;
            if (rt_run_spend(r, &left, 8))
                return r->err->code;
        }
        out[i] = (float)(e->op.mean ? sum / (double)e->along : sum);
        if (rt_run_spend(r, &left, 16))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- the run ---- */

/* Checks all indices, including those that a mask leaves out, as the replaced lookup did. */
static enum rt_status check_indices(struct rt_run *r, const struct embedding *e)
{
    const struct rt_tensor *index = &r->in[RT_EMBEDDING_SUM_INDICES];
    char text[300], buf[RT_MAX_RANK * 22];
    const int64_t i = kn_first_outside(index, e->limit);

    if (i < 0)
        return RT_OK;
    snprintf(text, sizeof text, "indices%s = %lld is not in [0, %lld)",
             kn_place_text(buf, sizeof buf, index, i), (long long)kn_int_at(index, i),
             (long long)e->limit);
    return fail_at(r->err, e->op.gather, text);
}

static enum rt_status embedding_sum_run(struct rt_run *r)
{
    const struct embedding *e = r->state;
    float *out = r->out[0].data;
    const enum rt_status st = check_indices(r, e);

    if (st || !rt_tensor_count(&r->out[0]))
        return st;
    if (!e->in_bags)
        return one_by_one(r, e, out);
    return kn_parallel_rows(r, e->outer * e->inner, e->along * e->width + 8, 1, embedding_bag_shard,
                            out);
}

const struct kn_entry kn_embedding_sum = {
    .op = {.name = "_EmbedSum",
           .infer = embedding_sum_infer,
           .rows = rows,
           .internal_schema = &rt_embedding_sum_schema},
    .kernels = KN_CPU("_EmbedSum", "embed_sum", 0, embedding_sum_prepare, embedding_sum_run),
};
