/* A strided slice, worked out: what Slice, StridedSlice and assignments to slices share. */
#ifndef KN_CPU_SLICE_H
#define KN_CPU_SLICE_H

#include "kernels/array/array.h"

struct kn_slice {
    int rank;                     /* of the sliced tensor */
    int64_t begin[RT_MAX_RANK];   /* first index taken, per dimension */
    int64_t stride[RT_MAX_RANK];  /* never 0 */
    int64_t count[RT_MAX_RANK];   /* how many are taken */
    struct rt_shape shape;        /* of the result: without shrunk axes, with new ones */
    int8_t out_axis[RT_MAX_RANK]; /* where dimension i went in the result, -1: shrunk */
};

/* begin, end, strides: integer vectors; masks from the node. TensorFlow's refusals. */
enum rt_status kn_slice_of(const struct rt_node *n, int rank, const int64_t *dim,
                           const struct rt_tensor *begin, const struct rt_tensor *end,
                           const struct rt_tensor *strides, struct kn_slice *out,
                           struct rt_error *err);
/* The walk that reads the slice out of a tensor with these dims into row-major order; *first is
 * the offset of its first element. Swap dst and src to write it. */
void kn_slice_walk(const struct kn_slice *s, const int64_t *dim, struct kn_walk *w, int64_t *first);

#endif
