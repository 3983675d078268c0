/*
 * What there is to say of nodes and plans, for tools that print it: what was fused into a node, how
 * much arithmetic it is.
 */
#ifndef RT_DESCRIBE_H
#define RT_DESCRIBE_H

#include "runtime/base/arena.h"
#include "runtime/trace.h"

/* The steps that a node does besides, or instead of, what its op says, with blanks between: "mul
 * add relu", "Sigmoid Mul"; "" if there are none, NULL: out of memory. */
const char *rt_node_fused(const struct rt_node *n, struct rt_arena *arena);

/* Floating-point operations of convolutions, products and what is made of them, a multiplication
 * and an addition being two; 0: of no account, or not known. Inputs and outputs as in a trace. */
double rt_node_flops(const struct rt_node *n, const struct rt_trace_output *in, int n_in,
                     const struct rt_trace_output *out, int n_out);

/* Bytes of a tensor; 0: of a type or shape that does not say. */
int64_t rt_trace_bytes(const struct rt_trace_output *t);

#endif
