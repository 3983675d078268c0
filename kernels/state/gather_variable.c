/*
 * ResourceGather and ResourceGatherNd gather rows of a variable, such as an embedding table. If a
 * plan has frozen the variable, input 0 is the variable's value instead of its handle.
 */
#include "kernels/array/array.h"
#include "kernels/array/gather_rows.h"
#include "kernels/entry.h"
#include "runtime/core/copy.h"
#include "runtime/session/resource.h"

/* Sets *t to input 0 or, if input 0 is a handle, to the value of its variable. The caller must
 * clear *t. */
static enum rt_status params_of(struct rt_run *r, struct rt_tensor *t)
{
    const struct rt_tensor *in = &r->in[0];
    struct rt_variable *v;
    enum rt_status st;

    if (in->dtype != RT_RESOURCE) {
        rt_tensor_ref(t, in);
        return RT_OK;
    }
    v = rt_variable_of(in);
    if (!v)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "input 0 of %s is not the handle of a variable",
                       r->node->schema->name);
    const struct rt_check check = rt_run_as_check(r);
    st = rt_variable_read(v, false, t, &check, r->err);
    if (st)
        return st;
    st = rt_run_load(r, t);
    if (!st && t->dtype != r->node->out_dtype[0])
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "Trying to read variable with wrong dtype. Expected %s got %s",
                     rt_dtype_name((enum rt_dtype)r->node->out_dtype[0]),
                     rt_dtype_name(kn_dtype(t)));
    if (st)
        rt_tensor_clear(t);
    return st;
}

/* ---- ResourceGather ---- */

static enum rt_status gather_shape(const struct rt_node *n, int params_rank, const int64_t *params,
                                   int index_rank, const int64_t *index, struct rt_shape *out,
                                   int *batch_dims, struct rt_error *err)
{
    int64_t batch = rt_attr_int(n, "batch_dims");

    if (params_rank < 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "params must be at least 1 dimensional");
    if (batch < 0)
        batch += index_rank;
    if (batch < 0 || batch > index_rank || batch >= params_rank)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "batch_dims (%lld) does not fit params of %d and indices of %d dimensions",
                       (long long)rt_attr_int(n, "batch_dims"), params_rank, index_rank);
    for (int i = 0; i < batch; i++)
        if (params[i] != index[i])
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "params.shape[%d]: %lld should be equal to indices.shape[%d]: %lld", i,
                           (long long)params[i], i, (long long)index[i]);
    if (index_rank + params_rank - 1 - batch > RT_MAX_RANK)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "ResourceGather: more than %d dimensions are not supported", RT_MAX_RANK);
    out->rank = 0;
    for (int i = 0; i < index_rank; i++)
        out->dim[out->rank++] = index[i];
    for (int i = (int)batch + 1; i < params_rank; i++)
        out->dim[out->rank++] = params[i];
    *batch_dims = (int)batch;
    return RT_OK;
}

static enum rt_status gather_infer(struct rt_infer *x)
{
    int batch;
    const struct rt_info *p = &x->in[0], *i = &x->in[1];

    if (p->dtype == RT_RESOURCE || !kn_known(x, 0))
        return RT_OK;
    return gather_shape(x->node, p->shape.rank, p->shape.dim, i->shape.rank, i->shape.dim,
                        &x->out[0].shape, &batch, x->err);
}

static enum rt_status gather_rows_of(struct rt_run *r, const struct rt_tensor *params)
{
    const struct rt_tensor *index = &r->in[1];
    const enum rt_dtype dt = kn_dtype(params);
    struct rt_shape shape = {.rank = 0};
    int64_t n_batch = 1, n_index = 1, inner = 1;
    int batch;
    enum rt_status st = gather_shape(r->node, params->rank, params->dim, index->rank, index->dim,
                                     &shape, &batch, r->err);
    if (st)
        return st;
    const int64_t limit = params->dim[batch];
    for (int i = 0; i < batch; i++)
        n_batch *= index->dim[i];
    for (int i = batch; i < index->rank; i++)
        n_index *= index->dim[i];
    for (int i = batch + 1; i < params->rank; i++)
        inner *= params->dim[i];
    char *out = kn_out(r, 0, shape.rank, shape.dim);
    if (!out)
        return r->err->code;
    const size_t bytes = (size_t)inner * rt_dtype_size(dt);
    const char *src = params->data;
    const int64_t outside = kn_first_outside(index, limit);
    if (outside >= 0) {
        char buf[RT_MAX_RANK * 22];
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "indices%s = %lld is not in [0, %lld)",
                       kn_place_text(buf, sizeof buf, index, outside),
                       (long long)kn_int_at(index, outside), (long long)limit);
    }
    int64_t left = RT_WORK;
    /* Nothing is copied if rows have 0 bytes, because params and the output may then have NULL
     * data. */
    for (int64_t b = 0; b < n_batch && bytes; b++) {
        const char *from = src + (size_t)(b * limit) * bytes;
        char *to = out + (size_t)(b * n_index) * bytes;
        if (rt_dtype_is_plain(dt)) {
            if (kn_gather_rows(r, index, b * n_index, n_index, from, bytes, to, &left))
                return r->err->code;
            continue;
        }
        for (int64_t i = 0; i < n_index; i++) {
            const int64_t v = kn_int_at(index, b * n_index + i);
            st = kn_copy_run(r, dt, to + (size_t)i * bytes, from + (size_t)v * bytes, inner);
            if (!st)
                st = rt_run_spend(r, &left, 8 * inner);
            if (st)
                return st;
        }
    }
    return RT_OK;
}

static enum rt_status gather_run(struct rt_run *r)
{
    struct rt_tensor params;
    enum rt_status st = params_of(r, &params);
    if (st)
        return st;
    st = gather_rows_of(r, &params);
    rt_tensor_clear(&params);
    return st;
}

static void gather_rows(struct rt_rows *r)
{
    const int64_t batch = rt_attr_int(r->node, "batch_dims");

    if (r->in_dep[0].kind == RT_DEP_NONE && batch == 0)
        for (int k = 0; k < r->n_out; k++)
            r->out_dep[k] = r->in_dep[1];
}

const struct kn_entry kn_resource_gather = {
    .op = {.name = "ResourceGather",
           .effect = RT_READS,
           .infer = gather_infer,
           .rows = gather_rows,
           .is_gather = true},
    .kernels = KN_KERNELS({.op = "ResourceGather",
                           .device = "CPU",
                           .name = "resource_gather",
                           .type_attr = "dtype",
                           .run = gather_run}),
};

/* ---- ResourceGatherNd ---- */

static enum rt_status nd_shape(int params_rank, const int64_t *params, int index_rank,
                               const int64_t *index, struct rt_shape *out, struct rt_error *err)
{
    if (params_rank < 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "params must be at least a vector");
    if (index_rank < 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "indices must be at least a vector");
    const int64_t depth = index[index_rank - 1];
    if (depth > params_rank)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "index innermost dimension length must be <= params rank; saw: %lld vs. %d",
                       (long long)depth, params_rank);
    if (index_rank - 1 + params_rank - depth > RT_MAX_RANK)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "ResourceGatherNd: more than %d dimensions are not supported", RT_MAX_RANK);
    out->rank = 0;
    for (int i = 0; i < index_rank - 1; i++)
        out->dim[out->rank++] = index[i];
    const int64_t n = rt_count(out->rank, out->dim);
    if (n > 0 && rt_count(params_rank, params) == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Requested more than 0 entries, but params is empty.");
    for (int i = (int)depth; i < params_rank; i++)
        out->dim[out->rank++] = params[i];
    return RT_OK;
}

static enum rt_status nd_infer(struct rt_infer *x)
{
    const struct rt_info *p = &x->in[0], *i = &x->in[1];

    if (p->dtype == RT_RESOURCE || !kn_known(x, 0))
        return RT_OK;
    return nd_shape(p->shape.rank, p->shape.dim, i->shape.rank, i->shape.dim, &x->out[0].shape,
                    x->err);
}

static enum rt_status nd_gather(struct rt_run *r, const struct rt_tensor *params)
{
    const struct rt_tensor *index = &r->in[1];
    const enum rt_dtype dt = kn_dtype(params);
    struct rt_shape shape = {.rank = 0};
    int64_t stride[RT_MAX_RANK], inner = 1;
    enum rt_status st =
        nd_shape(params->rank, params->dim, index->rank, index->dim, &shape, r->err);

    if (st)
        return st;
    char *out = kn_out(r, 0, shape.rank, shape.dim);
    if (!out)
        return r->err->code;
    const int depth = (int)index->dim[index->rank - 1];
    const int64_t n = rt_count(index->rank - 1, index->dim);
    for (int i = depth; i < params->rank; i++)
        inner *= params->dim[i];
    kn_strides(params->rank, params->dim, stride);
    const size_t bytes = (size_t)inner * rt_dtype_size(dt);
    int64_t left = RT_WORK;
    if (bytes == 0 && depth == 0)
        return RT_OK;
    for (int64_t i = 0; i < n; i++, out += bytes) {
        int64_t from = 0;
        if (rt_run_spend(r, &left, inner + 8 * depth))
            return r->err->code;
        for (int k = 0; k < depth; k++) {
            const int64_t v = kn_int_at(index, i * depth + k);
            if (v < 0 || v >= params->dim[k])
                return kn_fail_outside(r->err, index, index->rank - 1, depth, i, params, r->node);
            from += v * stride[k];
        }
        if (bytes && (st = kn_copy_run(r, dt, out, kn_at(params, from), inner)))
            return st;
    }
    return RT_OK;
}

static enum rt_status nd_run(struct rt_run *r)
{
    struct rt_tensor params;
    enum rt_status st = params_of(r, &params);
    if (st)
        return st;
    st = nd_gather(r, &params);
    rt_tensor_clear(&params);
    return st;
}

static void nd_rows(struct rt_rows *r)
{
    if (r->in_dep[0].kind == RT_DEP_NONE &&
        (r->in_dep[1].kind != RT_DEP_ROWS || r->in_dep[1].axis < r->in[1].shape.rank - 1))
        r->out_dep[0] = r->in_dep[1];
}

const struct kn_entry kn_resource_gather_nd = {
    .op = {.name = "ResourceGatherNd",
           .effect = RT_READS,
           .infer = nd_infer,
           .rows = nd_rows,
           .is_gather = true},
    .kernels = KN_KERNELS({.op = "ResourceGatherNd",
                           .device = "CPU",
                           .name = "resource_gather_nd",
                           .type_attr = "dtype",
                           .run = nd_run}),
};
