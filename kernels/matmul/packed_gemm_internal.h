/*
 * Declares the table of loops that packed_gemm.c defines for each instruction set (see
 * vector_sets.h). Only packed_gemm.c and its unit test include this header.
 */
#ifndef KN_MATMUL_PACKED_GEMM_INTERNAL_H
#define KN_MATMUL_PACKED_GEMM_INTERNAL_H

#include "kernels/matmul/packed_gemm.h"

struct kn_packed_gemm_block; /* defined in packed_gemm.c */

struct kn_packed_gemm_loops {
    int lanes;
    int rows; /* maximum number of rows that a micro-kernel computes */
    /* maximum number of rows of a GEMV, which computes several panels together */
    int gemv;
    void (*panel_block)(const struct kn_packed_gemm_block *s);
};

/* Returns the loops for the instruction set with index `which` among those that the processor has,
 * or NULL if the index is too large. Set 0 is the best one, which kn_packed_gemm_init uses. */
const struct kn_packed_gemm_loops *kn_packed_gemm_loops_of(int which);
/* Initialises *p as kn_packed_gemm_init does, but with the given loops. */
bool kn_packed_gemm_init_with(struct kn_packed_gemm *p, const struct kn_packed_gemm_loops *loops);

#endif
