/* The parameter of the device kernel for reductions: Sum, Mean, Prod, Max and Min. */
#ifndef KC_REDUCE_H
#define KC_REDUCE_H

#include <stdint.h>

enum { KC_REDUCE_MOST_RANK = 8, KC_REDUCE_THREADS = 256 };

enum kc_reduction { KC_SUM, KC_MEAN, KC_PROD, KC_MAX, KC_MIN };

/* `kept` contains the lengths of the axes that remain, and `reduced` contains the lengths of the
 * reduced axes. The strides are in elements of the input. */
struct kc_reduce {
    float *out;
    const float *in;
    int64_t n_out;  /* number of elements of the output */
    int64_t n_each; /* number of input elements per output element */
    int32_t op;     /* an enum kc_reduction */
    int32_t n_kept, n_reduced;
    /* number of threads that reduce the input elements of one output element: a power of two, at
     * most KC_REDUCE_THREADS */
    int32_t slices;
    int32_t along_outputs; /* whether neighbouring threads compute neighbouring output elements */
    int32_t unused;
    int64_t kept[KC_REDUCE_MOST_RANK], kept_stride[KC_REDUCE_MOST_RANK];
    int64_t reduced[KC_REDUCE_MOST_RANK], reduced_stride[KC_REDUCE_MOST_RANK];
};

#endif
