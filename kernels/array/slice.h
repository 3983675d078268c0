/* Strided slices with resolved parameters, for Slice, StridedSlice and assignments to slices. */
#ifndef KN_ARRAY_SLICE_H
#define KN_ARRAY_SLICE_H

#include "kernels/array/array.h"

struct kn_slice {
    int rank;
    int64_t begin[RT_MAX_RANK];  /* the first index in each dimension */
    int64_t stride[RT_MAX_RANK]; /* strides, none of which is 0 */
    int64_t count[RT_MAX_RANK];  /* the number of indices in each dimension */
    /* the shape of the result, with the new axes and without the shrunk axes */
    struct rt_shape shape;
    /* the result's axis for dimension i of the input, or -1 if that dimension is shrunk */
    int8_t out_axis[RT_MAX_RANK];
};

/* Resolves a strided slice. `begin`, `end` and `strides` are integer vectors, and the masks are
 * attributes of the node. Errors have TensorFlow's messages. */
enum rt_status kn_slice_of(const struct rt_node *n, int rank, const int64_t *dim,
                           const struct rt_tensor *begin, const struct rt_tensor *end,
                           const struct rt_tensor *strides, struct kn_slice *out,
                           struct rt_error *err);
/* Describes the strided copy that extracts the slice from a tensor with dimensions `dim`, in
 * row-major order. *first is the offset of the slice's first element. With dst and src swapped, the
 * copy writes to the slice. */
void kn_slice_walk(const struct kn_slice *s, const int64_t *dim, struct kn_walk *w, int64_t *first);
/* For a tensor `t` that is written to the slice, sets src[i] to the stride in `t` that corresponds
 * to dimension i of the input, or to 0 if `t` is broadcast along it. `t` may have additional
 * leading dimensions of 1. Returns false if `t` cannot be broadcast to the slice's shape. */
bool kn_slice_source(const struct kn_slice *s, const struct rt_tensor *t, int64_t *src);

#endif
