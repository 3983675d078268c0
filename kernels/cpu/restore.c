/* Reading checkpoints: what comes out is lazy, so that only what is used is ever read. */
#include <string.h>

#include "kernels/entry.h"
#include "runtime/checkpoint.h"

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
    struct rt_checkpoint *c;
    enum rt_status st = rt_checkpoint_open(&c, rt_str_data(rt_strs(&r->in[0])), r->err);
    if (st)
        return st;
    for (int k = 0; k < r->n_out && !st; k++) {
        const struct rt_str *name = &rt_strs(&r->in[1])[k], *slice = &rt_strs(&r->in[2])[k];
        struct rt_tensor t;
        st = rt_checkpoint_tensor(c, rt_str_data(name), rt_span_of(rt_str_data(slice), slice->n),
                                  (enum rt_dtype)r->node->out_dtype[k], &t, r->err);
        if (!st) {
            rt_out_tensor(r, k, &t);
            rt_tensor_clear(&t);
        }
    }
    rt_checkpoint_unref(c);
    return st;
}

const struct kn_entry kn_restore_v2 = {
    .op = {.name = "RestoreV2", .effect = RT_IO},
    .kernels =
        KN_KERNELS({.op = "RestoreV2", .device = "CPU", .name = "restore", .run = run_restore}),
};
