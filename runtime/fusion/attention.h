/*
 * Attention as one fused op, "_Attention". fuse_attention.c puts it into a graph;
 * kernels/fused/fused_attention.c runs it.
 *
 * Inputs: queries [B,T,N,H], keys [B,S,N,H] and values [B,S,N,D] of N heads, then the operands of
 * the steps. Output: context [B,T,N,D]. For each head, the scores [B,N,T,S] are the matrix product
 * of queries and keys. The steps are applied to the scores one after another, each with an operand
 * that is broadcast. A softmax along S follows, and a matrix product with the values.
 */
#ifndef RT_ATTENTION_H
#define RT_ATTENTION_H

#include "runtime/core/fused_op.h"

enum { RT_ATTENTION_MOST = 6 }; /* maximum number of steps of an "_Attention" */
/* Bits of the attribute `broadcasts`. */
enum { RT_ATTENTION_SCORES = 1, RT_ATTENTION_CONTEXT = 2 };

enum rt_attention_op {
    RT_ATTENTION_MUL, /* multiplies the score by a float operand */
    RT_ATTENTION_DIV, /* divides the score by a float operand */
    RT_ATTENTION_ADD, /* adds a float operand to the score */
    RT_ATTENTION_SUB, /* subtracts a float operand from the score */
    /* keeps the score where the bool operand a is true, and sets it to the scalar b elsewhere */
    RT_ATTENTION_KEEP,
    RT_ATTENTION_REPLACE /* sets the score to the scalar b where the bool operand a is true */
};

struct rt_attention_step {
    /* `op` is an enum rt_attention_op. `a` and `b` are the indexes of the node's inputs that are
     * the operands; b is -1 for an op with one operand. */
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
    /* bit k is set if input k, or the output for RT_ATTENTION_OUT, has the dimensions             \
     * [B,N,T,H] */                                                                                \
    ATTR(INT, heads_first)                                                                         \
    /* the matrix products (RT_ATTENTION_SCORES, RT_ATTENTION_CONTEXT) in which B and N may be 1   \
     * for one operand and larger for the other, as in BatchMatMulV2 but not in Einsum */          \
    ATTR(INT, broadcasts)
RT_FUSED_OP(RT_ATTENTION, rt_attention, "_Attention");

/* bit of heads_first that stands for the output */
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
