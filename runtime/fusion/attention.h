/*
 * Attention as one op, "_Attention": fuse_attention.c puts it into a graph,
 * kernels/fused/fused_attention.c runs it.
 *
 * Inputs: queries [B,T,N,H], keys [B,S,N,H] and values [B,S,N,D] of N heads, then the operands of
 * the steps. Output: context [B,T,N,D]. The scores [B,N,T,S] are, per head, the matrix product of
 * queries and keys; the steps apply to the scores one after another, each with an operand that is
 * broadcast; then comes softmax along S, and the matrix product with the values.
 */
#ifndef RT_ATTENTION_H
#define RT_ATTENTION_H

#include "runtime/core/fused_op.h"

enum { RT_ATTENTION_MOST = 6 }; /* number of steps */
/* Bits of the attribute `broadcasts`. */
enum { RT_ATTENTION_SCORES = 1, RT_ATTENTION_CONTEXT = 2 };

enum rt_attention_op {
    RT_ATTENTION_MUL,    /* times a float operand */
    RT_ATTENTION_DIV,    /* divided by a float operand */
    RT_ATTENTION_ADD,    /* plus a float operand */
    RT_ATTENTION_SUB,    /* minus a float operand */
    RT_ATTENTION_KEEP,   /* the score where the bool operand a is true; elsewhere b, a scalar */
    RT_ATTENTION_REPLACE /* b, a scalar, where the bool operand a is true */
};

struct rt_attention_step {
    /* enum rt_attention_op, and the inputs of the node that are the operands; b is -1 for an op
     * with one operand. */
    int64_t op, a, b;
};

#define RT_ATTENTION_INPUTS(IN, op)                                                                \
    IN(op, QUERIES, queries, ONE)                                                                  \
    IN(op, KEYS, keys, ONE)                                                                        \
    IN(op, VALUES, values, ONE)                                                                    \
    IN(op, OPERANDS, operands, LIST)
#define RT_ATTENTION_OUTPUTS(OUT) OUT(context)
#define RT_ATTENTION_ATTRS(ATTR)                                                                   \
    ATTR(INTS, steps) /* struct rt_attention_step, one after another */                            \
    /* bit k: input k, or RT_ATTENTION_OUT, is [B,N,T,H]: heads before rows */                     \
    ATTR(INT, heads_first)                                                                         \
    /* in which of the two matrix products B and N may be 1 for one operand and larger for the     \
     * other, as in BatchMatMulV2 but not in Einsum */                                             \
    ATTR(INT, broadcasts)
RT_FUSED_OP(RT_ATTENTION, rt_attention, "_Attention");

enum { RT_ATTENTION_OUT = RT_ATTENTION_OPERANDS }; /* the output's bit in heads_first */

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
