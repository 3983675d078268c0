/* Converts the windows of kernels/nn/window.h to parameters of device kernels. */
#ifndef KC_AXIS_H
#define KC_AXIS_H

#include "kernels/cuda/device/pool.h"
#include "kernels/nn/window.h"

static inline struct kc_axis kc_axis_of(const struct kn_axis *a)
{
    return (struct kc_axis){.in = a->in,
                            .out = a->out,
                            .size = a->size,
                            .stride = a->stride,
                            .dilation = a->dilation,
                            .lo = a->lo};
}

#endif
