/*
 * Attention as one fused op, "_Attention". fuse_attention.c puts it into a graph;
 * kernels/fused/fused_attention.c runs it.
 *
 * Inputs: queries [B,T,N,H], keys [B,S,N,H] and values [B,S,N,D] of N heads, then the operands of
 * the steps. Output: context [B,T,N,D]. A GEMM of the queries and the keys of each head computes
 * the scores [B,N,T,S]. The steps are applied to the scores in order, each with an operand that is
 * broadcast. A softmax along S and a GEMM with the values follow.
 */
#ifndef RT_ATTENTION_H
#define RT_ATTENTION_H

#include "runtime/core/fused_op.h"
#include "runtime/fusion/attention_op.h"

enum { RT_ATTENTION_MOST = 6 };
/* Bits of the attribute `broadcasts`, one for each of the two matmuls. */
enum { RT_ATTENTION_SCORES = 1, RT_ATTENTION_CONTEXT = 2 };

struct rt_attention_step {
    /* `op` is an enum rt_attention_op. `a` and `b` are its operands, as indexes of the node's
     * inputs; `b` is -1 if the op has only one operand. */
    int64_t op, a, b;
};

#define RT_ATTENTION_INPUTS(IN, op)                                                                \
    IN(op, QUERIES, queries, ONE)                                                                  \
    IN(op, KEYS, keys, ONE)                                                                        \
    IN(op, VALUES, values, ONE)                                                                    \
    IN(op, OPERANDS, operands, LIST)
#define RT_ATTENTION_OUTPUTS(OUT) OUT(context)
#define RT_ATTENTION_ATTRS(ATTR)                                                                   \
    ATTR(INTS, steps) /* array of struct rt_attention_step */                                      \
    /* Bit k is set if the axis of heads precedes the axis of rows in input k. Bit                 \
     * RT_ATTENTION_OUT states the same for the output. */                                         \
    ATTR(INT, heads_first)                                                                         \
    /* One bit for each matmul. The bit is set if the operands may be broadcast along B and N,     \
     * as in BatchMatMulV2 but not in Einsum. */                                                   \
    ATTR(INT, broadcasts)
RT_FUSED_OP(RT_ATTENTION, rt_attention, "_Attention");

/* bit of heads_first for the output */
enum { RT_ATTENTION_OUT = RT_ATTENTION_OPERANDS };

static inline const struct rt_attention_step *rt_attention_steps(const struct rt_attention *a,
                                                                 int *n)
{
    *n = (int)(a->steps.n * sizeof *a->steps.v / sizeof(struct rt_attention_step));
    return (const struct rt_attention_step *)(const void *)a->steps.v;
}
static inline struct rt_ints rt_attention_of_steps(const struct rt_attention_step *step, int n)
{
    return (struct rt_ints){(size_t)n * (sizeof *step / sizeof(int64_t)),
                            (const int64_t *)(const void *)step};
}

#endif
