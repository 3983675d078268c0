/* DynamicPartition distributes slices over its outputs by partition number, and DynamicStitch
 * merges slices by index. */
#include "kernels/array/array.h"
#include "kernels/entry.h"

/* ---- DynamicPartition(data, partitions) ---- */

static enum rt_status partition_run(struct rt_run *r)
{
    const struct rt_tensor *data = &r->in[0], *parts = &r->in[1];
    const enum rt_dtype dt = kn_dtype(data);
    const int64_t n = rt_tensor_count(parts);
    int64_t dim[RT_MAX_RANK], each = 1;
    int rank = 1;

    if (data->rank < parts->rank ||
        memcmp(data->dim, parts->dim, (size_t)parts->rank * sizeof data->dim[0]) != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "data.shape must start with partitions.shape, got data.shape = %s, "
                       "partitions.shape = %s",
                       KN_TEXT(data), KN_TEXT(parts));
    for (int i = parts->rank; i < data->rank; i++) {
        if (rank == RT_MAX_RANK)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "DynamicPartition: more than %d dimensions are not supported",
                           RT_MAX_RANK);
        dim[rank++] = data->dim[i];
        each *= data->dim[i];
    }
    int64_t *count = rt_scratch(r, (size_t)r->n_out * sizeof *count);
    if (!count)
        return r->err->code;
    memset(count, 0, (size_t)r->n_out * sizeof *count);
    for (int64_t i = 0; i < n; i++) {
        const int64_t p = kn_int_at(parts, i);
        if (p < 0 || p >= r->n_out) {
            char where[RT_MAX_RANK * 22] = "";
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "partitions%s = %lld is not in [0, %d)",
                           kn_place_text(where, sizeof where, parts, i), (long long)p, r->n_out);
        }
        count[p]++;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    for (int k = 0; k < r->n_out; k++) {
        dim[0] = count[k];
        if (!rt_out(r, k, rank, dim))
            return r->err->code;
        count[k] = 0;
    }
    enum rt_status st = RT_OK;
    int64_t left = RT_WORK;
    for (int64_t i = 0; i < n && !st && each; i++) {
        const int64_t p = kn_int_at(parts, i);
        st = kn_copy_run(r, dt, kn_at_mut(&r->out[p], count[p]++ * each), kn_at(data, i * each),
                         each);
        if (!st)
            st = rt_run_spend(r, &left, each + 8);
    }
    return st;
}

const struct kn_entry kn_dynamic_partition = {
    .op = {.name = "DynamicPartition"},
    .kernels = KN_CPU("DynamicPartition", "dynamic_partition", 0, NULL, partition_run),
};

/* ---- DynamicStitch(indices..., data...) ---- */

static bool starts_with(const struct rt_tensor *data, const struct rt_tensor *index)
{
    return data->rank >= index->rank &&
           memcmp(data->dim, index->dim, (size_t)index->rank * sizeof data->dim[0]) == 0;
}

static enum rt_status stitch_run(struct rt_run *r)
{
    const int n = r->n_in / 2;
    const struct rt_tensor *index = r->in, *data = r->in + n;
    const enum rt_dtype dt = kn_dtype(data);
    int64_t dim[RT_MAX_RANK] = {0}, top = -1;

    for (int k = 0; k < n; k++) {
        if (!starts_with(&data[k], &index[k]))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "data[%d].shape = %s does not start with indices[%d].shape = %s", k,
                           KN_TEXT(&data[k]), k, KN_TEXT(&index[k]));
        const int rest = data[0].rank - index[0].rank;
        if (data[k].rank - index[k].rank != rest ||
            memcmp(data[k].dim + index[k].rank, data[0].dim + index[0].rank,
                   (size_t)rest * sizeof dim[0]) != 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Need data[0].shape[%d:] = data[%d].shape[%d:], got data[0].shape = %s, "
                           "data[%d].shape = %s, indices[0].shape = %s, indices[%d].shape = %s",
                           index[0].rank, k, index[k].rank, KN_TEXT(&data[0]), k, KN_TEXT(&data[k]),
                           KN_TEXT(&index[0]), k, KN_TEXT(&index[k]));
        for (int64_t i = 0; i < rt_tensor_count(&index[k]); i++) {
            const int64_t v = kn_int_at(&index[k], i);
            top = v > top ? v : top;
            if (rt_run_tick(r, i))
                return r->err->code;
        }
    }
    const int rest = data[0].rank - index[0].rank;
    if (rest + 1 > RT_MAX_RANK)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: more than %d dimensions are not supported",
                       r->node->schema->name, RT_MAX_RANK);
    dim[0] = top + 1;
    memcpy(dim + 1, data[0].dim + index[0].rank, (size_t)rest * sizeof dim[0]);
    const int64_t each = rt_count(rest, dim + 1);
    if (!rt_out(r, 0, rest + 1, dim))
        return r->err->code;
    struct rt_tensor *o = &r->out[0];
    enum rt_status st = RT_OK;
    /* an output row that no index selects is zero */
    if (rt_dtype_is_plain(dt) && rt_tensor_count(o))
        st = kn_zero_chunks(r, o->data, rt_tensor_bytes(o));
    int64_t left = RT_WORK;
    for (int k = 0; k < n; k++)
        for (int64_t i = 0; i < rt_tensor_count(&index[k]) && !st; i++) {
            const int64_t v = kn_int_at(&index[k], i);
            if (v < 0) {
                char where[RT_MAX_RANK * 22] = "";
                return rt_fail(r->err, RT_INVALID_ARGUMENT, "indices%s is out of range",
                               kn_place_text(where, sizeof where, &index[k], i));
            }
            if (each)
                st = kn_copy_run(r, dt, kn_at_mut(o, v * each), kn_at(&data[k], i * each), each);
            if (!st)
                st = rt_run_spend(r, &left, each + 8);
        }
    return st;
}

#define STITCH(symbol, op_)                                                                        \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_)},                                                                     \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, stitch_run),                                      \
    };
STITCH(dynamic_stitch, "DynamicStitch")
STITCH(parallel_dynamic_stitch, "ParallelDynamicStitch")
