/* Gather, GatherV2 and GatherNd select slices by index. */
#include "kernels/array/array.h"
#include "kernels/array/gather.h"
#include "kernels/array/gather_rows.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

#include <stdio.h>

enum { SMALL = 4096 }; /* maximum number of bytes that copy_small copies */

/* Copies one slice of `bytes` bytes. A slice of 4 or 8 bytes takes a single load and store. */
static void copy_small(void *dst, const void *src, size_t bytes)
{
    if (bytes == 4)
        memcpy(dst, src, 4);
    else if (bytes == 8)
        memcpy(dst, src, 8);
    else
        memcpy(dst, src, bytes);
}

enum rt_status kn_gathered_of(const struct rt_node *n, const struct rt_shape *params,
                              const struct rt_shape *index, const struct rt_tensor *axis_t,
                              struct kn_gathered *p, struct rt_error *err)
{
    int64_t axis = 0, batch = 0;

    if (params->rank < 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "params must be at least 1 dimensional");
    if (axis_t) {
        if (axis_t->rank != 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "axis must be scalar");
        axis = kn_int_at(axis_t, 0);
        batch = rt_attr_int(n, "batch_dims");
    }
    const int64_t need = axis < 0 ? rt_sub_wrapped(0, axis) : rt_add_saturated(axis, 1);
    if (rt_axis_of(axis, params->rank) < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Shape must be at least rank %lld but is rank %d",
                       (long long)need, params->rank);
    if (axis < 0)
        axis += params->rank;
    if (batch < -index->rank || batch > index->rank)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Expected batch_dims in the range [%d, %d], but got %lld", -index->rank,
                       index->rank, (long long)batch);
    if (batch < 0)
        batch += index->rank;
    if (batch >= params->rank)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "batch_dims (%lld) must be less than rank(params) "
                       "(%d).",
                       (long long)batch, params->rank);
    if (axis < batch)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "batch_dims (%lld) must be less than or equal to axis (%lld).",
                       (long long)batch, (long long)axis);
    for (int64_t i = 0; i < batch; i++)
        if (params->dim[i] != index->dim[i])
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "params.shape[%lld]: %lld should be equal to indices.shape[%lld]: %lld",
                           (long long)i, (long long)params->dim[i], (long long)i,
                           (long long)index->dim[i]);
    const int64_t rank = params->rank - 1 + index->rank - batch;
    if (rank > RT_MAX_RANK)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: more than %d dimensions are not supported",
                       n->schema->name, RT_MAX_RANK);
    p->axis = (int)axis;
    p->batch = (int)batch;
    p->n_batch = p->outer = p->n_index = p->inner = 1;
    p->limit = params->dim[axis];
    p->shape.rank = 0;
    for (int i = 0; i < axis; i++) {
        *(i < batch ? &p->n_batch : &p->outer) *= params->dim[i];
        p->shape.dim[p->shape.rank++] = params->dim[i];
    }
    for (int i = (int)batch; i < index->rank; i++) {
        p->n_index *= index->dim[i];
        p->shape.dim[p->shape.rank++] = index->dim[i];
    }
    for (int i = (int)axis + 1; i < params->rank; i++) {
        p->inner *= params->dim[i];
        p->shape.dim[p->shape.rank++] = params->dim[i];
    }
    if (kn_shape_total(&p->shape) < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Shape %s has too many elements",
                       KN_TEXT(&p->shape));
    return RT_OK;
}

static enum rt_status gather_infer(struct rt_infer *x)
{
    struct kn_gathered p;

    if (!kn_known(x, x->n_in > 2 ? 4 : 0))
        return RT_OK;
    enum rt_status st = kn_gathered_of(x->node, &x->in[0].shape, &x->in[1].shape,
                                       x->n_in > 2 ? x->in[2].value : NULL, &p, x->err);
    if (!st)
        x->out[0].shape = p.shape;
    return st;
}

static void shape_of(const struct rt_tensor *t, struct rt_shape *s)
{
    s->rank = t->rank;
    memcpy(s->dim, t->dim, sizeof s->dim);
}

enum rt_status kn_gather_outside(int rank, const int64_t *dim, int64_t at, int64_t value,
                                 int64_t limit, struct rt_error *err)
{
    char text[RT_MAX_RANK * 22] = "";
    int64_t stride[RT_MAX_RANK], left = at;
    size_t n = 0;

    kn_strides(rank, dim, stride);
    for (int i = 0; i < rank; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld", i ? "," : "",
                              (long long)(left / stride[i]));
        left %= stride[i];
    }
    return rt_fail(err, RT_INVALID_ARGUMENT, "indices%s%s%s = %lld is not in [0, %lld)",
                   rank ? "[" : "", text, rank ? "]" : "", (long long)value, (long long)limit);
}

static enum rt_status gather_run(struct rt_run *r)
{
    const struct rt_tensor *params = &r->in[0], *index = &r->in[1];
    const enum rt_dtype dt = kn_dtype(params);
    struct rt_shape ps, is;
    struct kn_gathered p;

    shape_of(params, &ps);
    shape_of(index, &is);
    enum rt_status st =
        kn_gathered_of(r->node, &ps, &is, r->n_in > 2 ? &r->in[2] : NULL, &p, r->err);
    if (st)
        return st;
    char *o = kn_out(r, 0, p.shape.rank, p.shape.dim);
    if (!o)
        return r->err->code;
    if (rt_tensor_count(&r->out[0]) == 0)
        return RT_OK;
    const int64_t outside = kn_first_outside(index, p.limit);
    if (outside >= 0)
        return kn_gather_outside(index->rank, index->dim, outside, kn_int_at(index, outside),
                                 p.limit, r->err);
    const size_t bytes = (size_t)p.inner * rt_dtype_size(dt);
    const char *src = params->data;
    const int64_t work = 4 + p.inner;
    int64_t left = RT_WORK;
    for (int64_t b = 0; b < p.n_batch; b++)
        for (int64_t a = 0; a < p.outer; a++, src += (size_t)p.limit * bytes) {
            if (rt_dtype_is_plain(dt)) {
                if (kn_gather_rows(r, index, b * p.n_index, p.n_index, src, bytes, o, &left))
                    return r->err->code;
                o += (size_t)p.n_index * bytes;
                continue;
            }
            for (int64_t i = 0; i < p.n_index; i++, o += bytes) {
                const int64_t v = kn_int_at(index, b * p.n_index + i);
                if (rt_run_spend(r, &left, work))
                    return r->err->code;
                if ((st = kn_copy_run(r, dt, o, src + (size_t)v * bytes, p.inner)))
                    return st;
            }
        }
    return RT_OK;
}

static void gather_rows(struct rt_rows *r)
{
    struct kn_gathered p;
    const struct rt_dep d = r->in_dep[0], i = r->in_dep[1];

    if (kn_rows_independent(r))
        return;
    if (!kn_shape_known(&r->in[0].shape) || !kn_shape_known(&r->in[1].shape) ||
        (r->n_in > 2 && (r->in_dep[2].kind != RT_DEP_NONE || !r->in[2].value)) ||
        kn_gathered_of(r->node, &r->in[0].shape, &r->in[1].shape,
                       r->n_in > 2 ? r->in[2].value : NULL, &p, NULL))
        return;
    if (d.kind == RT_DEP_ROWS && i.kind == RT_DEP_ROWS) {
        if (d.axis == i.axis && d.axis < p.batch)
            kn_rows_set(r, RT_DEP_ROWS, d.axis);
    } else if (d.kind == RT_DEP_ROWS && i.kind == RT_DEP_NONE) {
        if (d.axis < p.axis)
            kn_rows_set(r, RT_DEP_ROWS, d.axis);
        else if (d.axis > p.axis)
            kn_rows_set(r, RT_DEP_ROWS, d.axis - 1 + r->in[1].shape.rank - p.batch);
    } else if (d.kind == RT_DEP_NONE && i.kind == RT_DEP_ROWS && i.axis >= p.batch) {
        kn_rows_set(r, RT_DEP_ROWS, p.axis + i.axis - p.batch);
    }
}

const struct kn_entry kn_gather_v2 = {
    .op = {.name = "GatherV2",
           .shape_in = 4,
           .infer = gather_infer,
           .rows = gather_rows,
           .is_gather = true},
    .kernels = KN_CPU("GatherV2", "gather_v2", 0, NULL, gather_run),
};
const struct kn_entry kn_gather = {
    .op = {.name = "Gather", .infer = gather_infer, .rows = gather_rows, .is_gather = true},
    .kernels = KN_CPU("Gather", "gather", 0, NULL, gather_run),
};

/* ---- GatherNd(params, indices): the last dimension of indices is an index into params ---- */

static enum rt_status nd_infer(struct rt_infer *x)
{
    const struct rt_shape *p = &x->in[0].shape, *i = &x->in[1].shape;
    struct rt_shape o = {.rank = 0};

    if (!kn_known(x, 0))
        return RT_OK;
    if (p->rank < 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "params must be at least a vector");
    if (i->rank < 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "indices must be at least a vector");
    const int64_t depth = i->dim[i->rank - 1];
    if (depth > p->rank)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "index innermost dimension length must be <= params rank; saw: %lld vs. %d",
                       (long long)depth, p->rank);
    if (i->rank - 1 + p->rank - depth > RT_MAX_RANK)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "GatherNd: more than %d dimensions are not supported", RT_MAX_RANK);
    for (int k = 0; k < i->rank - 1; k++)
        o.dim[o.rank++] = i->dim[k];
    const int64_t n_index = rt_count(o.rank, o.dim);
    if (n_index > 0 && kn_shape_total(p) == 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Requested more than 0 entries, but params is empty.  Params shape: %s",
                       KN_TEXT(p));
    for (int k = (int)depth; k < p->rank; k++)
        o.dim[o.rank++] = p->dim[k];
    if (kn_shape_total(&o) < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Shape %s has too many elements", KN_TEXT(&o));
    x->out[0].shape = o;
    return RT_OK;
}

static enum rt_status nd_run(struct rt_run *r)
{
    const struct rt_tensor *params = &r->in[0], *index = &r->in[1];
    const enum rt_dtype dt = kn_dtype(params);
    int64_t stride[RT_MAX_RANK], inner = 1;
    bool skips_bad;
    enum rt_status st = kn_bad_indices(r->node, &skips_bad, r->err);

    if (!st)
        st = kn_outputs(r, nd_infer);
    if (st)
        return st;
    const int depth = (int)index->dim[index->rank - 1];
    int64_t n = 1;
    for (int i = 0; i < index->rank - 1; i++)
        n *= index->dim[i];
    for (int i = depth; i < params->rank; i++)
        inner *= params->dim[i];
    kn_strides(params->rank, params->dim, stride);
    int64_t budget = RT_WORK;
    const size_t bytes = (size_t)inner * rt_dtype_size(dt);
    char *o = r->out[0].data;
    for (int64_t i = 0; i < n; i++, o += bytes) {
        int64_t at = 0;
        if (rt_run_spend(r, &budget, 8 + inner))
            return r->err->code;
        bool is_bad = false;
        for (int k = 0; k < depth && !is_bad; k++) {
            const int64_t v = kn_int_at(index, i * depth + k);
            is_bad = v < 0 || v >= params->dim[k];
            at += is_bad ? 0 : v * stride[k];
        }
        if (is_bad && !skips_bad)
            return kn_fail_outside(r->err, index, index->rank - 1, depth, i, params, r->node);
        /* A slice with a bad index becomes zero. Strings need no change, because the strings of a
         * new output are empty. */
        if (is_bad) {
            if (rt_dtype_is_plain(dt) && (st = kn_zero_chunks(r, o, bytes)))
                return st;
            continue;
        }
        if (rt_dtype_is_plain(dt) && bytes <= SMALL)
            copy_small(o, kn_at(params, at), bytes);
        else if ((st = kn_copy_run(r, dt, o, kn_at(params, at), inner)))
            return st;
    }
    return RT_OK;
}

static void nd_rows(struct rt_rows *r)
{
    if (kn_rows_independent(r))
        return;
    if (r->in_dep[0].kind == RT_DEP_NONE && r->in_dep[1].kind == RT_DEP_ROWS &&
        r->in_dep[1].axis < r->in[1].shape.rank - 1)
        kn_rows_set(r, RT_DEP_ROWS, r->in_dep[1].axis);
}

const struct kn_entry kn_gather_nd = {
    .op = {.name = "GatherNd", .infer = nd_infer, .rows = nd_rows, .is_gather = true},
    .kernels = KN_KERNELS({.op = "GatherNd",
                           .device = "CPU",
                           .name = "gather_nd",
                           .type_attr = "Tparams",
                           .run = nd_run}),
};
