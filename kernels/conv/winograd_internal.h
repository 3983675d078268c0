/*
 * Declares the table of loops that winograd.c has for each instruction set (see vector_sets.h).
 * Only winograd.c and its unit test include this header; the test sets kn_winograd.loops.
 */
#ifndef KN_CONV_WINOGRAD_INTERNAL_H
#define KN_CONV_WINOGRAD_INTERNAL_H

#include "kernels/conv/winograd.h"

struct kn_winograd_loops {
    /* Transforms the `(m + 2) x (m + 2)` inputs of a tile, whose rows are `row` floats apart. `v`
     * receives one vector of ci channels per position of the transform domain, `step` floats
     * apart. */
    void (*input)(int m, const float *src, int64_t row, int64_t ci, float *v, int64_t step);
    /* Transforms the sums of a tile back into m x m outputs, whose rows are `row` floats apart. `p`
     * contains one vector of co channels per position of the transform domain, `step` floats apart.
     */
    void (*output)(int m, const float *p, int64_t step, int64_t co, float *y, int64_t row);
};

/* Returns the loops for instruction set number `which` of the processor, or NULL if the processor
 * has no set with this number. winograd.c uses set 0, which is the best set. */
const struct kn_winograd_loops *kn_winograd_loops_of(int which);

#endif
