/*
 * Declares the table of loops that bf16.c has for each instruction set (see vector_sets.h). Only
 * bf16.c and its unit test include this header.
 */
#ifndef KN_CPU_BF16_INTERNAL_H
#define KN_CPU_BF16_INTERNAL_H

#include "kernels/cpu/bf16.h"

enum { KN_BF16_MOST_WIDTH = 64 };

struct kn_bf16_loops {
    int64_t width; /* number of columns per panel */
    /* Computes `c [m, one panel] = a [m, k] b`, where b is one packed panel, and rows of c have the
     * panel's full width. */
    void (*panel)(int64_t m, const float *a, int64_t lda, const uint32_t *b, float *c, int64_t ldc,
                  int64_t k);
};

/* Returns the loops for instruction set number `which` of the processor, or NULL if the processor
 * has no set with this number. bf16.c uses set 0, which is the best set. */
const struct kn_bf16_loops *kn_bf16_loops_of(int which);

#endif
