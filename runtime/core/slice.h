/*
 * Slices of tensors, as checkpoints store partitioned variables: for each dimension a start and a
 * length, or the whole dimension.
 */
#ifndef RT_SLICE_H
#define RT_SLICE_H

#include "runtime/base/bytes.h"
#include "runtime/core/tensor.h"
#include "tensorflow/core/framework/tensor_slice.pb-c.h"

struct rt_slice {
    int rank;
    int64_t start[RT_MAX_RANK];
    int64_t length[RT_MAX_RANK]; /* -1: the whole dimension (start is 0) */
};

/*
 * Parses TensorFlow's text of a slice, "4 8 0,2:-": the whole tensor's dimensions, then the slice.
 * *rank and dim get the whole tensor's shape. A slice that is not inside that shape is refused.
 */
enum rt_status rt_slice_parse(struct rt_span text, int *rank, int64_t dim[RT_MAX_RANK],
                              struct rt_slice *out, struct rt_error *err);
/* Reads a slice as stored in a checkpoint. False: it does not have `rank` dimensions. */
bool rt_slice_from_proto(struct rt_slice *out, int rank, const Tensorflow__TensorSliceProto *p);
/* Writes the slice as "0,2:-" into the buffer of n bytes, and returns the buffer. */
const char *rt_slice_text(char *buffer, size_t n, const struct rt_slice *s);
/* Replaces lengths of -1 by the dimensions' own. False: the slice does not fit the shape. */
bool rt_slice_resolve(struct rt_slice *s, int rank, const int64_t *dim);

/*
 * Appends the key of a slice of tensor `name` in a checkpoint's index: an order-preserving encoding
 * of 0, the name, the rank, and the start and length of each dimension (-1: the whole dimension).
 */
void rt_slice_key(struct rt_bytes *out, struct rt_span name, const struct rt_slice *s);

/* The number of elements that two resolved slices of one tensor have in common. */
int64_t rt_slice_overlap(const struct rt_slice *a, const struct rt_slice *b);

/*
 * Copies the elements that two resolved slices of one tensor have in common: from `src`, which
 * holds slice `have`, to `dst`, which holds slice `want`. Returns their number. For plain types
 * only.
 */
int64_t rt_slice_copy(void *dst, const struct rt_slice *want, const void *src,
                      const struct rt_slice *have, size_t elem_size);

#endif
