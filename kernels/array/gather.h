/*
 * Computes the shapes of Gather and GatherV2, and reports indices that are out of range, for the
 * kernels of all devices.
 * Threads: pure functions.
 */
#ifndef KN_GATHER_H
#define KN_GATHER_H

#include "runtime/core/op.h"

struct kn_gathered {
    int axis, batch;
    /* shape of params viewed as [n_batch, outer, limit, inner] */
    int64_t n_batch, outer, limit, n_index, inner;
    struct rt_shape shape;
};

/* Resolves the shapes of a gather. `axis_t` is the axis tensor, or NULL for Gather, which has no
 * axis input. */
enum rt_status kn_gathered_of(const struct rt_node *n, const struct rt_shape *params,
                              const struct rt_shape *index, const struct rt_tensor *axis_t,
                              struct kn_gathered *p, struct rt_error *err);
/* Reports that an index is out of range: "indices[1,0] = 5 is not in [0, 2)". `at` is the position
 * of the index, in row-major order, in an index tensor of the given shape. */
enum rt_status kn_gather_outside(int rank, const int64_t *dim, int64_t at, int64_t value,
                                 int64_t limit, struct rt_error *err);

#endif
