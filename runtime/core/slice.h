/*
 * Slices of tensors. A checkpoint stores a partitioned variable as slices. In each dimension, a
 * slice has a start and a length, or covers the full dimension.
 */
#ifndef RT_SLICE_H
#define RT_SLICE_H

#include "runtime/base/bytes.h"
#include "runtime/core/tensor.h"
#include "tensorflow/core/framework/tensor_slice.pb-c.h"

struct rt_slice {
    int rank;
    int64_t start[RT_MAX_RANK];
    /* length in each dimension; -1 means the full dimension (start is then 0) */
    int64_t length[RT_MAX_RANK];
};

/*
 * Parses TensorFlow's text of a slice. "4 8 0,2:-" is the slice "0,2:-" of a tensor of shape [4,8].
 * Stores the dimensions in *rank and dim. Refuses a slice that is not inside the tensor.
 */
enum rt_status rt_slice_parse(struct rt_span text, int *rank, int64_t dim[RT_MAX_RANK],
                              struct rt_slice *out, struct rt_error *err);
/* Reads a slice from a checkpoint's message. Returns false if the slice does not have `rank`
 * dimensions. */
bool rt_slice_from_proto(struct rt_slice *out, int rank, const Tensorflow__TensorSliceProto *p);
/* Writes the slice as text, like "0,2:-", into the buffer of n bytes. Returns the buffer. */
const char *rt_slice_text(char *buffer, size_t n, const struct rt_slice *s);
/* Replaces lengths of -1 with the dimensions of the full tensor. Returns false if the slice does
 * not fit the tensor's shape. */
bool rt_slice_resolve(struct rt_slice *s, int rank, const int64_t *dim);

/*
 * Appends the key that a slice of tensor `name` has in a checkpoint's index. The key is an
 * order-preserving encoding of 0, the name, the rank, and the start and length of each dimension
 * (-1 for the full dimension).
 */
void rt_slice_key(struct rt_bytes *out, struct rt_span name, const struct rt_slice *s);

/* Returns the number of elements in the intersection of two resolved slices of one tensor. */
int64_t rt_slice_overlap(const struct rt_slice *a, const struct rt_slice *b);

/*
 * Copies the intersection of two resolved slices of one tensor from `src`, which holds slice
 * `have`, to `dst`, which holds slice `want`. Returns the number of elements copied. Supports plain
 * types only.
 */
int64_t rt_slice_copy(void *dst, const struct rt_slice *want, const void *src,
                      const struct rt_slice *have, size_t elem_size);

#endif
