/*
 * Attention as one op, "_Attention": what fuse_attention.c puts into a plan and
 * kernels/fused/fused_attention.c runs.
 *
 * Inputs: queries [B,T,N,H], keys [B,S,N,H], values [B,S,N,D] of N heads, then the operands of the
 * steps. Output: context [B,T,N,D]. Scores [B,N,T,S] are the heads' products of queries with keys;
 * the steps go over them one after another, each with an operand that is broadcast; softmax along
 * S; and the products with the values.
 *
 * The attribute "steps" is a list of ints, three for each step: which one, and the inputs it reads
 * (-1: one less). Bit k of "heads_first": input k, or for 3 the output, has its heads before its
 * rows, [B,N,T,H]. "broadcasts": in which of the two products B and N may be 1 for one operand and
 * more for the other, as in BatchMatMulV2 but not in Einsum.
 */
#ifndef RT_ATTENTION_H
#define RT_ATTENTION_H

#include <stdint.h>

enum { RT_ATTENTION_MOST = 6 }; /* steps */
enum { RT_ATTENTION_OUT = 3 };  /* its bit in heads_first */
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

struct rt_attention_step { /* as in the attribute */
    int64_t op, a, b;
};

#endif
