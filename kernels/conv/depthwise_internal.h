/*
 * Declares the table of loops that depthwise.c has for each instruction set (see vector_sets.h).
 * Only depthwise.c and its unit test include this header; the test sets kn_depthwise.loops.
 */
#ifndef KN_CONV_DEPTHWISE_INTERNAL_H
#define KN_CONV_DEPTHWISE_INTERNAL_H

#include "kernels/conv/depthwise.h"

/* Computes channels [first, last) of one row of outputs. `rows` is the number of rows of the window
 * that lie in the image. `x` points to the first of these rows in the input, and `w` points to the
 * corresponding row of the filter. */
typedef void kn_depthwise_row_fn(const struct kn_depthwise *d, const float *x, const float *w,
                                 const float *shift, float *y, int64_t rows, int64_t first,
                                 int64_t last);

struct kn_depthwise_loops {
    int lanes;
    /* indexed by the window's width (3 or 5 columns) and by the stride (1 or 2) */
    kn_depthwise_row_fn *row[2][2];
};

/* Returns the loops for instruction set number `which` of the processor, or NULL if the processor
 * has no set with this number. depthwise.c uses set 0, which is the best set. */
const struct kn_depthwise_loops *kn_depthwise_loops_of(int which);

#endif
