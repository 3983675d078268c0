/* The windows of the pooling ops, for kernels on accelerators. */
#ifndef KN_NN_POOL_H
#define KN_NN_POOL_H

#include "kernels/nn/window.h"

struct kn_pool_windows {
    int64_t batch, channels;
    struct kn_axis axis[KN_MAX_SPATIAL]; /* missing leading axes have length 1 */
    int n_spatial;
    bool average;
    bool zeros; /* the padding of a MaxPool has the value 0 (runtime/fusion/fuse_pad.c) */
};

/* Computes the windows of MaxPool, MaxPool3D, AvgPool or AvgPool3D while a kernel is prepared.
 * Returns false if channels precede the spatial axes, or if a window spans several channels. */
bool kn_pool_windows(const struct rt_prep *p, struct kn_pool_windows *out);

#endif
