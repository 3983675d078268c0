/*
 * Declares the table of loops that softmax.c defines for each instruction set (see vector_sets.h).
 * Only softmax.c and its unit test include this header.
 */
#ifndef KN_NN_SOFTMAX_INTERNAL_H
#define KN_NN_SOFTMAX_INTERNAL_H

#include "kernels/nn/softmax.h"

/* Both functions compute n_rows rows of n values, where n > 0. d may be s. */
struct kn_softmax_loops {
    void (*rows)(float *d, const float *s, int64_t n_rows, int64_t n);
    /* computes the log-softmax */
    void (*log_rows)(float *d, const float *s, int64_t n_rows, int64_t n);
};

/* Returns the loops for the instruction set with index `which` among those that the processor has,
 * or NULL if the index is too large. Set 0 is the best one, which softmax.c uses. */
const struct kn_softmax_loops *kn_softmax_loops_of(int which);

#endif
