/*
 * The parameter of the device kernel for Gather and GatherV2. Each op launches the kernel twice.
 * The first launch, which has a single block, looks for the first index that is out of range and
 * reports it as a fault. The second launch copies the slices, and writes 0 where an index is out of
 * range.
 */
#ifndef KC_GATHER_H
#define KC_GATHER_H

#include "kernels/cuda/device/fault.h"

struct kc_gather {
    float *out;          /* [n_batch, outer, n_index, inner] */
    const float *params; /* [n_batch, outer, limit, inner] */
    const void *index;   /* [n_batch, n_index], of int32 or int64 */
    struct kc_fault *fault;
    int64_t n_batch, outer, limit, n_index, inner;
    int64_t step;    /* number to be written to fault->step; 0 in the second launch */
    int32_t is_long; /* whether the index has the type int64 */
    int32_t unused;
};

#endif
