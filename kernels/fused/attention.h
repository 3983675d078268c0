/*
 * Computes the shapes of an "_Attention" (runtime/fusion/attention.h), for the kernels of all
 * devices. Threads: pure functions.
 */
#ifndef KN_ATTENTION_H
#define KN_ATTENTION_H

#include "runtime/core/infer.h"
#include "runtime/fusion/attention.h"

/* Strides, in elements, of a tensor of queries, keys, values or contexts. The stride of an axis is
 * 0 if the tensor is broadcast along the axis. */
struct kn_attention_places {
    int64_t batch, head, row;
};

/* Returns the axis of the heads, 1 or 2, in input k, or in the output for k = RT_ATTENTION_OUT. The
 * rows lie along the other of the two axes. */
int kn_attention_heads(const struct rt_attention *op, int k);
/* Returns the strides of input k, or of the output if k is RT_ATTENTION_OUT. *s is the shape of
 * this tensor. */
struct kn_attention_places kn_attention_places(const struct rt_attention *op, int k,
                                               const struct rt_shape *s);
/* Sets the strides of a step's operand of shape *s along the axes of batches, heads, queries and
 * keys. Strides are in elements, and are 0 along an axis that is broadcast. The operand has at most
 * 4 axes. */
void kn_attention_strides(const struct rt_shape *s, int64_t stride[4]);
/* Computes the shapes of the scores, [B,N,T,S], before and after the node's steps (struct
 * rt_attention_step). A step may broadcast axes of length 1 of the scores to the shape of its
 * operand. */
enum rt_status kn_attention_scores(const struct rt_attention *op, const struct rt_info *in,
                                   struct rt_shape *before, struct rt_shape *behind,
                                   struct rt_error *err);
enum rt_status kn_attention_infer(struct rt_infer *x);

#endif
