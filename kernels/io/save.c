/* Ops that write checkpoints, merge them, and form the names of their files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/io/text.h"
#include "runtime/base/checked.h"
#include "runtime/core/copy.h"
#include "runtime/files/checkpoint.h"
#include "runtime/files/checkpoint_v1_write.h"

static enum rt_status infer_scalar(struct rt_infer *x)
{
    x->out[0].shape.rank = 0;
    return RT_OK;
}

/* ---- SaveV2(prefix, tensor_names, shape_and_slices, tensors...) ---- */

/* The memory of one of the tensors to save. */
struct memory {
    uintptr_t at;
    size_t bytes;
};

static int by_address(const void *a, const void *b)
{
    const struct memory *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/*
 * Adds to *bytes the number of bytes that a save of n tensors may write more than once. Memory that
 * several tensors share is one part of this number, for example when one tensor is saved under many
 * names. The bytes of all strings are the other part, because millions of strings may share their
 * bytes. Everything else that a save writes is bounded by the memory of the run and of the model.
 * `m` has space for n elements.
 */
static enum rt_status add_repeated(struct rt_run *r, const struct rt_tensor *t, int n,
                                   struct memory *m, size_t *bytes)
{
    enum rt_status st = RT_OK;
    uintptr_t end = 0;
    bool fits = true;

    for (int k = 0; k < n; k++) {
        m[k] = (struct memory){(uintptr_t)(t[k].data ? t[k].data : (const void *)t[k].buf),
                               rt_tensor_bytes(&t[k])};
        for (int64_t i = 0; kn_dtype(&t[k]) == RT_STRING && i < rt_tensor_count(&t[k]); i++) {
            fits = fits && rt_add_size(*bytes, rt_strs(&t[k])[i].n, bytes);
            if ((st = rt_run_tick(r, i)))
                return st;
        }
    }
    qsort(m, (size_t)n, sizeof *m, by_address);
    for (int k = 0; k < n; k++) {
        const uintptr_t to = m[k].at + m[k].bytes, shared_to = to < end ? to : end;
        fits = fits && rt_add_size(*bytes, shared_to > m[k].at ? shared_to - m[k].at : 0, bytes);
        end = to > end ? to : end;
    }
    *bytes = fits ? *bytes : SIZE_MAX / 2;
    return RT_OK;
}

/* Rejects a save of the n tensors `t` for which add_repeated counts more bytes than the run's
 * memory limit, because one request could otherwise fill a disk. */
static enum rt_status check_size(struct rt_run *r, const struct rt_tensor *t, int n,
                                 struct memory *m)
{
    size_t bytes = 0;
    enum rt_status st = add_repeated(r, t, n, m, &bytes);

    st = st ? st
            : rt_pool_hold(rt_run_pool(r), bytes, 0, "what a checkpoint repeats or has as texts",
                           r->err);
    if (!st)
        rt_pool_release(rt_run_pool(r), bytes); /* no memory is allocated for the bytes */
    return st;
}

/* The arguments of a save as the functions that write checkpoints take them. */
struct names {
    const char *file; /* name of the file, or prefix of the names of the files */
    const char **names;
    struct rt_span *slices; /* NULL if the op has no slices */
};

/* Reads the first inputs of an op, and checks the size of the n tensors that follow them. */
static enum rt_status read_names(struct rt_run *r, int n, struct names *out)
{
    const int n_fixed = r->n_in - n;
    struct memory *memory;
    enum rt_status st = kn_io_text(r, rt_strs(&r->in[0]), r->node->schema->in[0].name, &out->file);

    if (st)
        return st;
    /* The arrays share one allocation, because a kernel has only one block of scratch memory. */
    out->slices = rt_scratch(r, ((size_t)n + 1) *
                                    (sizeof *out->slices + sizeof *out->names + sizeof *memory));
    if (!out->slices)
        return r->err->code;
    memory = (struct memory *)(void *)(out->slices + n + 1);
    out->names = (const char **)(void *)(memory + n + 1);
    for (int k = 0; k < n; k++) {
        st = kn_io_text(r, &rt_strs(&r->in[1])[k], "tensor_names", &out->names[k]);
        if (st)
            return st;
        if (n_fixed == 2)
            continue;
        const struct rt_str *slice = &rt_strs(&r->in[2])[k];
        out->slices[k] = rt_span_of(rt_str_data(slice), slice->n);
    }
    if (n_fixed == 2)
        out->slices = NULL;
    return check_size(r, r->in + n_fixed, n, memory);
}

static enum rt_status run_save(struct rt_run *r)
{
    const int n = r->n_in - 3;
    struct names names;

    if (rt_tensor_count(&r->in[0]) != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input prefix should have a single element, got %lld instead.",
                       (long long)rt_tensor_count(&r->in[0]));
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
    const enum rt_status st = read_names(r, n, &names);
    const struct rt_checkpoint_run run = {rt_run_check_of, r, rt_run_pool(r)};
    return st ? st
              : rt_checkpoint_write(names.file, n, names.names, r->in + 3, names.slices, &run,
                                    r->err);
}

/* ---- Save(filename, tensor_names, tensors...) and SaveSlices, with shapes_and_slices ---- */

/* Names, and slices, may have any shape. */
static enum rt_status check_v1(struct rt_run *r, int n_fixed)
{
    const long long n_files = (long long)rt_tensor_count(&r->in[0]);
    const long long n_names = (long long)rt_tensor_count(&r->in[1]);

    if (n_files != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input 0 (filename) must be a string scalar; got a tensor of %lldelements",
                       n_files);
    if (n_fixed == 3 && (long long)rt_tensor_count(&r->in[2]) != n_names)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected %lld elements for the tensor shapes and slices but got %lld",
                       n_names, (long long)rt_tensor_count(&r->in[2]));
    if (r->n_in != n_names + n_fixed)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected totally %lld inputs as input #1 (which is a string tensor of "
                       "saved names) contains %lld names, but received %d inputs",
                       n_names + n_fixed, n_names, r->n_in);
    return RT_OK;
}

static enum rt_status save_v1(struct rt_run *r, int n_fixed)
{
    const int n = r->n_in - n_fixed;
    struct names names;
    enum rt_status st = check_v1(r, n_fixed);

    if (!st)
        st = read_names(r, n, &names);
    const struct rt_checkpoint_run run = {rt_run_check_of, r, rt_run_pool(r)};
    return st ? st
              : rt_checkpoint_v1_write(names.file, n, names.names, r->in + n_fixed, names.slices,
                                       &run, r->err);
}

static enum rt_status run_save_v1(struct rt_run *r)
{
    return save_v1(r, 2);
}

static enum rt_status run_save_slices(struct rt_run *r)
{
    return save_v1(r, 3);
}

#define SAVE_V1(symbol, op_, run_)                                                                 \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_IO},                                                    \
        .kernels = KN_KERNELS({.op = (op_),                                                        \
                               .device = "CPU",                                                    \
                               .name = #symbol,                                                    \
                               .type_attr = "T",                                                   \
                               .flags = RT_K_LAZY,                                                 \
                               .run = (run_)}),                                                    \
    };
SAVE_V1(save, "Save", run_save_v1)
SAVE_V1(save_slices, "SaveSlices", run_save_slices)

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
        /* The run is checked for each prefix, because a call of access may wait for a network file
         * system. */
        st = rt_run_check(r);
        if (!st)
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
    const struct rt_checkpoint_run run = {rt_run_check_of, r, rt_run_pool(r)};
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
    memcpy(p + base->n, fmt_end, end);
    return kn_copy_text(r, &r->left, p, rt_str_data(base), base->n);
}

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
