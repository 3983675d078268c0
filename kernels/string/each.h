/*
 * Ops that make one value of each string of a tensor: what their files share.
 *
 * Threads: everything belongs to one run.
 */
#ifndef KN_STRING_EACH_H
#define KN_STRING_EACH_H

#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/string/text.h"

/* Counts the work on one string of `bytes` bytes, as rt_run_spend. */
static inline enum rt_status kn_spend_string(struct rt_run *r, int64_t *left, size_t bytes)
{
    return rt_run_spend(r, left, KN_STRING_WORK + (int64_t)bytes);
}

/* Infers outputs with the shape of the first input. */
static inline enum rt_status kn_infer_each(struct rt_infer *x)
{
    for (int k = 0; k < x->n_out; k++)
        x->out[k].shape = x->in[0].shape;
    return RT_OK;
}

/* The strings of an output with the shape of the first input; NULL: r->err says why. */
static inline struct rt_str *kn_out_strs(struct rt_run *r)
{
    return kn_out(r, 0, r->in[0].rank, r->in[0].dim);
}

/* Entry of an op that makes one value of each string; the output has the shape of the input. */
#define KN_EACH_STRING(symbol, op_, run_)                                                          \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = kn_infer_each, .rows = rt_rows_same},                       \
        .kernels = KN_KERNELS({.op = (op_), .device = "CPU", .name = #symbol, .run = (run_)}),     \
    };

#endif
