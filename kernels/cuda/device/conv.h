/* The parameter of the device kernel for convolutions with an epilogue. */
#ifndef KC_CONV_H
#define KC_CONV_H

#include "kernels/cuda/device/epilogue.h"
#include "kernels/cuda/device/pool.h"

/* The input is [batch, spatial..., ci], the filter [spatial..., ci / groups, co], and the output
 * [batch, spatial..., co]. */
struct kc_conv {
    float *out;
    const float *in, *filter;
    int64_t n; /* number of elements of the output */
    int64_t ci, co, groups;
    struct kc_axis axis[3];
    struct kc_epilogue epilogue;
};

#endif
