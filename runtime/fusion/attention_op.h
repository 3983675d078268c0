/*
 * The steps that "_Attention" (attention.h) applies to its scores. Device code (kernels/cuda)
 * includes this header too, so it contains nothing else.
 */
#ifndef RT_ATTENTION_OP_H
#define RT_ATTENTION_OP_H

enum rt_attention_op {
    RT_ATTENTION_MUL,
    RT_ATTENTION_DIV,
    RT_ATTENTION_ADD,
    RT_ATTENTION_SUB,
    /* keeps the score where the bool operand a is true, and replaces it with the scalar b
     * elsewhere */
    RT_ATTENTION_KEEP,
    RT_ATTENTION_REPLACE /* replaces the score with the scalar b where the bool operand a is true */
};

#endif
