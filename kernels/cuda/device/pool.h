/* The parameter of the device kernel for MaxPool, MaxPool3D, AvgPool and AvgPool3D. */
#ifndef KC_POOL_H
#define KC_POOL_H

#include <stdint.h>

/* One spatial axis (kernels/nn/window.h). */
struct kc_axis {
    int64_t in, out, size, stride, dilation, lo;
};

struct kc_pool {
    float *out;
    const float *in;
    int64_t n; /* number of elements of the output */
    int64_t channels;
    struct kc_axis axis[3];
    int32_t average;
    int32_t zeros; /* whether the padding of a MaxPool is 0 */
    /* Whether the maximum of a window without padding may be -infinity, as in MaxPool3D. Otherwise,
     * the maximum is at least the lowest finite number. */
    int32_t may_be_infinite;
    int32_t width; /* number of neighbouring channels that a thread computes: 4, or 1 */
};

#endif
