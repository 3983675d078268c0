/*
 * Helpers for ops that compute one value from each string of a tensor. Threads: all data belongs to
 * a single run.
 */
#ifndef KN_STRING_EACH_H
#define KN_STRING_EACH_H

#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/string/text.h"

/* Counts the work on one string of `bytes` bytes (rt_run_spend). */
static inline enum rt_status kn_spend_string(struct rt_run *r, int64_t *left, size_t bytes)
{
    return rt_run_spend(r, left, KN_STRING_WORK + (int64_t)bytes);
}

/* Gives every output the shape of the first input. */
static inline enum rt_status kn_infer_each(struct rt_infer *x)
{
    for (int k = 0; k < x->n_out; k++)
        x->out[k].shape = x->in[0].shape;
    return RT_OK;
}

/* Returns the strings of an output with the shape of the first input. On failure, returns NULL and
 * sets r->err. */
static inline struct rt_str *kn_out_strs(struct rt_run *r)
{
    return kn_out(r, 0, r->in[0].rank, r->in[0].dim);
}

/* Defines the entry of an op that computes one value from each string. The output has the input's
 * shape. */
#define KN_EACH_STRING(symbol, op_, run_)                                                          \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = kn_infer_each, .rows = rt_rows_same},                       \
        .kernels = KN_KERNELS({.op = (op_), .device = "CPU", .name = #symbol, .run = (run_)}),     \
    };

#endif
