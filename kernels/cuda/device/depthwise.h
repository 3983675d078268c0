/* The parameter of the device kernel for depthwise convolutions with an epilogue. */
#ifndef KC_DEPTHWISE_H
#define KC_DEPTHWISE_H

#include "kernels/cuda/device/epilogue.h"
#include "kernels/cuda/device/pool.h"

enum { KC_DEPTHWISE_STRIP = 4 }; /* number of neighbouring output columns that a thread computes */

/* The input is [batch, rows, columns, channels / multiplier], the filter [rows, columns, channels],
 * and the output [batch, rows, columns, channels]. */
struct kc_depthwise {
    float *out;
    const float *in, *filter;
    int64_t batch, channels, multiplier;
    struct kc_axis axis[2]; /* rows, columns */
    /* number of neighbouring channels that a thread computes: 4, or 1. It divides `channels`, and
     * is 1 if `multiplier` is not 1. */
    int32_t width, unused;
    struct kc_epilogue epilogue;
};

#endif
