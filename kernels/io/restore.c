/* Ops that read checkpoints. The restored tensors are lazy, so only the data that is used is read
 * from the files. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "kernels/entry.h"
#include "kernels/io/text.h"
#include "runtime/base/regular_file.h"
#include "runtime/core/copy.h"
#include "runtime/files/checkpoint.h"
#include "runtime/files/checkpoint_v1.h"
#include "runtime/session/state.h"

/* An open checkpoint of format version 1 or 2. */
struct source {
    struct rt_checkpoint *checkpoint;
    struct rt_checkpoint_v1 *v1; /* the checkpoint if it is of version 1, else NULL */
};

/* Opens a version 1 checkpoint. While a model is being loaded, keeps the checkpoint open for later
 * nodes. */
static enum rt_status open_v1(struct rt_run *r, struct rt_checkpoint_v1 **out, const char *pattern,
                              const struct rt_checkpoint_run *run)
{
    const enum rt_status st = rt_checkpoint_v1_open(out, pattern, run, r->err);

    if (!st && !rt_run_state(r)->is_serving)
        rt_checkpoint_v1_keep(*out);
    return st;
}

/* Opens a checkpoint as TensorFlow does. If there is no file PREFIX.index, `prefix` is the name or
 * glob pattern of the files of a version 1 checkpoint. */
static enum rt_status source_open(struct rt_run *r, struct source *s, const char *prefix,
                                  const struct rt_checkpoint_run *run)
{
    char path[4200];

    *s = (struct source){NULL, NULL};
    if (snprintf(path, sizeof path, "%s.index", prefix) >= (int)sizeof path ||
        access(path, F_OK) == 0 ||
        !rt_errno_is_absence(errno)) /* rt_checkpoint_open reports the error */
        return rt_checkpoint_open(&s->checkpoint, prefix, run, r->err);
    return open_v1(r, &s->v1, prefix, run);
}

static void source_close(struct source *s)
{
    rt_checkpoint_unref(s->checkpoint);
    rt_checkpoint_v1_close(s->v1);
}

/* Returns the arguments for reading a checkpoint during run `r`. While the model is being loaded,
 * the restored tensors count as weights. */
static struct rt_checkpoint_run restore_run(struct rt_run *r)
{
    const struct rt_state *state = rt_run_state(r);

    return (struct rt_checkpoint_run){rt_run_check_of, r,
                                      state->is_serving ? rt_run_pool(r) : state->weights};
}

static enum rt_status restore_one(struct rt_run *r, const struct source *s,
                                  const struct rt_checkpoint_run *run, int k,
                                  const struct rt_str *given, struct rt_span slice)
{
    const enum rt_dtype want = (enum rt_dtype)r->node->out_dtype[k];
    struct rt_tensor t;
    const char *name;
    enum rt_status st = rt_run_check(r);

    if (!st)
        st = kn_io_text(r, given, s->v1 ? "tensor_name" : "tensor_names", &name);
    if (st)
        return st;
    st = s->v1 ? rt_checkpoint_v1_tensor(s->v1, name, slice, want, run, &t, r->err)
               : rt_checkpoint_tensor(s->checkpoint, name, slice, want, run, &t, r->err);
    if (st)
        return st;
    rt_out_tensor(r, k, &t);
    rt_tensor_clear(&t);
    return RT_OK;
}

static enum rt_status run_restore(struct rt_run *r)
{
    int64_t n = rt_tensor_count(&r->in[1]);
    if (r->in[0].rank != 0 && rt_tensor_count(&r->in[0]) != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input prefix should be a scalar tensor, got %d dimensions", r->in[0].rank);
    if (r->in[1].rank != 1 || r->in[2].rank != 1 || n != rt_tensor_count(&r->in[2]) ||
        n != r->n_out)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "tensor_names, shape_and_slices and dtypes must be lists of equal length, "
                       "got %lld, %lld and %d",
                       (long long)n, (long long)rt_tensor_count(&r->in[2]), r->n_out);
    const struct rt_checkpoint_run run = restore_run(r);
    struct source s = {NULL, NULL};
    const char *prefix;
    enum rt_status st = kn_io_text(r, rt_strs(&r->in[0]), "prefix", &prefix);
    if (!st)
        st = source_open(r, &s, prefix, &run);
    for (int k = 0; k < r->n_out && !st; k++) {
        const struct rt_str *slice = &rt_strs(&r->in[2])[k];
        st = restore_one(r, &s, &run, k, &rt_strs(&r->in[1])[k],
                         rt_span_of(rt_str_data(slice), slice->n));
    }
    source_close(&s);
    return st;
}

/* Runs the ops Restore and RestoreSlice, which read only version 1 checkpoints. The third input of
 * RestoreSlice is the slice. */
static enum rt_status run_restore_v1(struct rt_run *r)
{
    const struct rt_checkpoint_run run = restore_run(r);
    struct rt_span slice = {NULL, 0};
    struct source s = {NULL, NULL};

    if (rt_attr_int(r->node, "preferred_shard") < -1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Attribute 'preferred_shard' must be greater or equal to -1");
    if (rt_tensor_count(&r->in[0]) != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input 0 (file_pattern) must be a string scalar; got a tensor of %lld "
                       "elements",
                       (long long)rt_tensor_count(&r->in[0]));
    /* An input with several elements is accepted, as in TensorFlow, and its first element is
     * used. */
    for (int i = 1; i < r->n_in; i++)
        if (rt_tensor_count(&r->in[i]) == 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input %d (%s) must have an element", i,
                           i == 1 ? "tensor_name" : "shape_and_slice");
    if (r->n_in == 3)
        slice = rt_span_of(rt_str_data(rt_strs(&r->in[2])), rt_strs(&r->in[2])->n);
    const char *pattern;
    enum rt_status st = kn_io_text(r, rt_strs(&r->in[0]), "file_pattern", &pattern);
    if (!st)
        st = open_v1(r, &s.v1, pattern, &run);
    if (!st)
        st = restore_one(r, &s, &run, 0, rt_strs(&r->in[1]), slice);
    source_close(&s);
    return st;
}

const struct kn_entry kn_restore = {
    .op = {.name = "Restore", .effect = RT_IO},
    .kernels =
        KN_KERNELS({.op = "Restore", .device = "CPU", .name = "restore", .run = run_restore_v1}),
};
const struct kn_entry kn_restore_slice = {
    .op = {.name = "RestoreSlice", .effect = RT_IO},
    .kernels = KN_KERNELS(
        {.op = "RestoreSlice", .device = "CPU", .name = "restore", .run = run_restore_v1}),
};
const struct kn_entry kn_restore_v2 = {
    .op = {.name = "RestoreV2", .effect = RT_IO},
    .kernels =
        KN_KERNELS({.op = "RestoreV2", .device = "CPU", .name = "restore", .run = run_restore}),
};
