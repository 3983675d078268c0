/* The parameter of the device kernel for "_LayerNorm" (runtime/fusion/layer_norm.h). */
#ifndef KC_NORM_H
#define KC_NORM_H

#include <stdint.h>

struct kc_norm {
    float *out;
    const float *in;
    const float *scale, *offset; /* vectors of `columns` elements, or NULL */
    /* Each row is normalised separately. */
    int64_t rows, columns;
    float epsilon;
    int32_t no_mean; /* whether the mean is assumed to be 0 */
};

#endif
