/*
 * The table of loops that depthwise.c has for each instruction set (see vector_sets.h). Only
 * depthwise.c and its unit test include this header; the test puts a table into kn_depthwise.loops.
 */
#ifndef KN_CONV_DEPTHWISE_INTERNAL_H
#define KN_CONV_DEPTHWISE_INTERNAL_H

#include "kernels/conv/depthwise.h"

/* Computes channels [first, last) of one row of outputs. x: the first input row of the window that
 * lies in the image, of `rows` such rows; w: the filter's row for it. */
typedef void kn_depthwise_row_fn(const struct kn_depthwise *d, const float *x, const float *w,
                                 const float *shift, float *y, int64_t rows, int64_t first,
                                 int64_t last);

struct kn_depthwise_loops {
    int lanes;                      /* floats in a vector */
    kn_depthwise_row_fn *row[2][2]; /* 3 or 5 columns, stride 1 or 2 */
};

/* The loops of one of the instruction sets that this processor has: 0 is the best set, which
 * depthwise.c uses. NULL: the processor has no more sets. */
const struct kn_depthwise_loops *kn_depthwise_loops_of(int which);

#endif
