/* Ops that write checkpoints, merge them, and form the names of their files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/io/text.h"
#include "runtime/files/checkpoint.h"

static enum rt_status infer_scalar(struct rt_infer *x)
{
    x->out[0].shape.rank = 0;
    return RT_OK;
}

/* ---- SaveV2(prefix, tensor_names, shape_and_slices, tensors...) ---- */

static enum rt_status run_save(struct rt_run *r)
{
    const int n = r->n_in - 3;
    const char *prefix, **names;
    struct rt_span *slices;

    if (rt_tensor_count(&r->in[0]) != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input prefix should have a single element, got %lld instead.",
                       (long long)rt_tensor_count(&r->in[0]));
    enum rt_status st = kn_io_text(r, rt_strs(&r->in[0]), "prefix", &prefix);
    if (st)
        return st;
    for (int k = 1; k < 3; k++) {
        const char *what = k == 1 ? "tensor_names" : "shape_and_slices";
        if (r->in[k].rank != 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Input %s should be an 1-D tensor, got %d instead.", what,
                           r->in[k].rank);
        if (r->in[k].dim[0] != n)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Got %d tensors but %lld %s.", n,
                           (long long)r->in[k].dim[0], what);
    }
    /* The arrays of slices and of names share one allocation, because a kernel has only one block
     * of scratch memory. */
    slices = rt_scratch(r, ((size_t)n + 1) * (sizeof *slices + sizeof *names));
    if (!slices)
        return r->err->code;
    names = (const char **)(void *)(slices + n + 1);
    for (int k = 0; k < n; k++) {
        const struct rt_str *slice = &rt_strs(&r->in[2])[k];
        st = kn_io_text(r, &rt_strs(&r->in[1])[k], "tensor_names", &names[k]);
        if (st)
            return st;
        slices[k] = rt_span_of(rt_str_data(slice), slice->n);
    }
    return rt_checkpoint_write(prefix, n, names, r->in + 3, slices, r->err);
}

const struct kn_entry kn_save_v2 = {
    .op = {.name = "SaveV2", .effect = RT_IO},
    .kernels = KN_KERNELS({.op = "SaveV2",
                           .device = "CPU",
                           .name = "save",
                           .type_attr = "dtypes",
                           .flags = RT_K_LAZY,
                           .run = run_save}),
};

/* ---- MergeV2Checkpoints(checkpoint_prefixes, destination_prefix) ---- */

static enum rt_status run_merge(struct rt_run *r)
{
    const struct rt_tensor *from = &r->in[0];
    const bool may_miss = rt_attr_bool(r->node, "allow_missing_files");
    const char *to, **prefixes;
    int n = 0;

    if (from->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input checkpoint_prefixes should be an 1-D tensor, got %d instead.",
                       from->rank);
    if (r->in[1].rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input destination_prefix should be a scalar tensor, got %s instead.",
                       KN_TEXT(&r->in[1]));
    enum rt_status st = kn_io_text(r, rt_strs(&r->in[1]), "destination_prefix", &to);
    if (st)
        return st;
    prefixes = rt_scratch(r, ((size_t)from->dim[0] + 1) * sizeof *prefixes);
    if (!prefixes)
        return r->err->code;
    for (int64_t i = 0; i < from->dim[0]; i++) {
        char path[4200];
        const char *prefix;
        st = kn_io_text(r, &rt_strs(from)[i], "checkpoint_prefixes", &prefix);
        if (st)
            return st;
        snprintf(path, sizeof path, "%s.index", prefix);
        if (!may_miss || access(path, F_OK) == 0)
            prefixes[n++] = prefix;
    }
    if (n == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "At least one prefix checkpoint file must exist, but none existed.");
    const struct rt_checkpoint_run run = {kn_io_check_run, r, rt_run_pool(r)};
    return rt_checkpoint_merge(prefixes, n, to, rt_attr_bool(r->node, "delete_old_dirs"), &run,
                               r->err);
}

const struct kn_entry kn_merge_v2_checkpoints = {
    .op = {.name = "MergeV2Checkpoints", .effect = RT_IO},
    .kernels = KN_KERNELS(
        {.op = "MergeV2Checkpoints", .device = "CPU", .name = "merge", .run = run_merge}),
};

/* ---- names ---- */

static enum rt_status put_name(struct rt_run *r, const char *fmt_end)
{
    struct rt_str *out = r->out[0].data;
    const struct rt_str *base = rt_strs(&r->in[0]);
    const size_t end = strlen(fmt_end);
    char *p = rt_str_resize(out, rt_run_pool(r), base->n + end, r->err);

    if (!p)
        return r->err->code;
    memcpy(p, rt_str_data(base), base->n);
    memcpy(p + base->n, fmt_end, end);
    return RT_OK;
}

/* Refuses an input that is not a scalar. */
static enum rt_status check_scalars(struct rt_run *r)
{
    for (int k = 0; k < r->n_in; k++)
        if (r->in[k].rank != 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s must be a scalar, got shape %s",
                           r->node->schema->in[k].name, KN_TEXT(&r->in[k]));
    return RT_OK;
}

static enum rt_status run_filename(struct rt_run *r)
{
    char end[64];

    if (check_scalars(r))
        return r->err->code;
    snprintf(end, sizeof end, "-%05d-of-%05d", (int)*(const int32_t *)r->in[1].data,
             (int)*(const int32_t *)r->in[2].data);
    return put_name(r, end);
}

static enum rt_status run_filespec(struct rt_run *r)
{
    char end[64];

    if (check_scalars(r))
        return r->err->code;
    snprintf(end, sizeof end, "-\?\?\?\?\?-of-%05d", (int)*(const int32_t *)r->in[1].data);
    return put_name(r, end);
}

const struct kn_entry kn_sharded_filename = {
    .op = {.name = "ShardedFilename", .infer = infer_scalar},
    .kernels = KN_KERNELS({.op = "ShardedFilename",
                           .device = "CPU",
                           .name = "sharded_filename",
                           .run = run_filename}),
};
const struct kn_entry kn_sharded_filespec = {
    .op = {.name = "ShardedFilespec", .infer = infer_scalar},
    .kernels = KN_KERNELS({.op = "ShardedFilespec",
                           .device = "CPU",
                           .name = "sharded_filespec",
                           .run = run_filespec}),
};
