/*
 * Declares the table of loops that winograd_1d.c has for each instruction set (see vector_sets.h).
 * Only winograd_1d.c and its unit test include this header; the test sets kn_winograd_1d.loops.
 */
#ifndef KN_CONV_WINOGRAD_1D_INTERNAL_H
#define KN_CONV_WINOGRAD_1D_INTERNAL_H

#include "kernels/conv/winograd_1d.h"

struct kn_winograd_1d_loops {
    /* Transforms the inputs of a tile, which are `pixel` floats apart. Only inputs [from, to) lie
     * in the image. `v` receives one vector of ci channels per position of the transform domain,
     * `step` floats apart. */
    void (*input)(int taps, const float *src, int64_t pixel, int64_t from, int64_t to, int64_t ci,
                  float *v, int64_t step);
    /* Transforms the sums of a tile back into `count` outputs, which are `pixel` floats apart, and
     * applies `post_ops` except its member `then`. `p` contains one vector of co channels per
     * position of the transform domain, `step` floats apart. */
    void (*output)(int taps, const float *p, int64_t step, int64_t co, float *y, int64_t pixel,
                   int64_t count, const struct kn_winograd_1d_post_ops *post_ops);
};

/* Returns the loops for instruction set number `which` of the processor, or NULL if the processor
 * has no set with this number. winograd_1d.c uses set 0, which is the best set. */
const struct kn_winograd_1d_loops *kn_winograd_1d_loops_of(int which);

#endif
