/*
 * The table of loops that packed_gemm.c has for each instruction set (see vector_sets.h). Only
 * packed_gemm.c and its unit test include this header.
 */
#ifndef KN_MATMUL_PACKED_GEMM_INTERNAL_H
#define KN_MATMUL_PACKED_GEMM_INTERNAL_H

#include "kernels/matmul/packed_gemm.h"

struct kn_packed_gemm_block; /* packed_gemm.c */

struct kn_packed_gemm_loops {
    int lanes; /* floats in a vector */
    int rows;  /* the most rows of a micro-kernel */
    int gemv;  /* the most rows of a GEMV, which computes several panels at once */
    void (*panel_block)(const struct kn_packed_gemm_block *s);
};

/* The loops of one of the instruction sets that this processor has: 0 is the best set, which
 * kn_packed_gemm_init uses. NULL: the processor has no more sets. */
const struct kn_packed_gemm_loops *kn_packed_gemm_loops_of(int which);
/* kn_packed_gemm_init with these loops. */
bool kn_packed_gemm_init_with(struct kn_packed_gemm *p, const struct kn_packed_gemm_loops *loops);

#endif
