/*
 * Attention as one op, "_Attention": what fuse_attention.c puts into a plan and
 * kernels/fused/fused_attention.c runs.
 *
 * Inputs: queries [B,T,N,H], keys [B,S,N,H], values [B,S,N,D] of N heads, then the operands of the
 * steps. Output: context [B,T,N,D]. Scores [B,N,T,S] are the heads' products of queries with keys;
 * the steps go over them one after another, each with an operand that is broadcast; softmax along
 * S; and the products with the values.
 */
#ifndef RT_ATTENTION_H
#define RT_ATTENTION_H

#include "runtime/core/fused_op.h"

enum { RT_ATTENTION_MOST = 6 }; /* steps */
/* Bits of broadcasts. */
enum { RT_ATTENTION_SCORES = 1, RT_ATTENTION_CONTEXT = 2 };

enum rt_attention_op {
    RT_ATTENTION_MUL,    /* a float operand */
    RT_ATTENTION_DIV,    /* by one */
    RT_ATTENTION_ADD,    /* one */
    RT_ATTENTION_SUB,    /* one is taken away */
    RT_ATTENTION_KEEP,   /* where the bool operand a is true; elsewhere b, a scalar */
    RT_ATTENTION_REPLACE /* where the bool operand a is true, by b, a scalar */
};

struct rt_attention_step {
    int64_t op, a, b; /* enum rt_attention_op, and the node's inputs that it reads; -1: one less */
};

#define RT_ATTENTION_INPUTS(IN, op)                                                                \
    IN(op, QUERIES, queries, ONE)                                                                  \
    IN(op, KEYS, keys, ONE)                                                                        \
    IN(op, VALUES, values, ONE)                                                                    \
    IN(op, OPERANDS, operands, LIST)
#define RT_ATTENTION_OUTPUTS(OUT) OUT(context)
#define RT_ATTENTION_ATTRS(ATTR)                                                                   \
    ATTR(INTS, steps) /* struct rt_attention_step, one after another */                            \
    /* bit k: input k, or RT_ATTENTION_OUT, is [B,N,T,H], with its heads before its rows */        \
    ATTR(INT, heads_first)                                                                         \
    /* in which of the two products B and N may be 1 for one operand and more for the other, as */ \
    /* in BatchMatMulV2 but not in Einsum */                                                       \
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
