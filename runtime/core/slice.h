/*
 * Slices of tensors. A checkpoint stores a partitioned variable as slices. A slice has, for each
 * dimension, a start and a length, or covers the whole dimension.
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
 * Parses a slice as TensorFlow writes it. For example, "4 8 0,2:-" is the slice "0,2:-" of a tensor
 * of shape [4,8]. Stores the shape in *rank and dim, and the slice in *out. Refuses a slice that is
 * not inside the tensor.
 */
enum rt_status rt_slice_parse(struct rt_span text, int *rank, int64_t dim[RT_MAX_RANK],
                              struct rt_slice *out, struct rt_error *err);
/* Converts a TensorSliceProto to a slice. Returns false if the message does not have `rank`
 * dimensions. */
bool rt_slice_from_proto(struct rt_slice *out, int rank, const Tensorflow__TensorSliceProto *p);
/* Writes the slice to `buffer`, in the format "0,2:-". `buffer` has n bytes. Returns `buffer`. */
const char *rt_slice_text(char *buffer, size_t n, const struct rt_slice *s);
/* Replaces each length of -1 with the full tensor's dimension. Returns false if the slice does not
 * fit the tensor's shape. */
bool rt_slice_resolve(struct rt_slice *s, int rank, const int64_t *dim);

/*
 * Appends the key of a slice in a checkpoint's index. `name` is the name of the tensor. The key is
 * an order-preserving encoding of the number 0, the name, the rank, and the start and length of
 * each dimension (-1 for the full dimension).
 */
void rt_slice_key(struct rt_bytes *out, struct rt_span name, const struct rt_slice *s);

/* Returns the number of elements in the intersection of two resolved slices of one tensor. */
int64_t rt_slice_overlap(const struct rt_slice *a, const struct rt_slice *b);

/*
 * Copies the intersection of two resolved slices of one tensor from `src`, the elements of slice
 * `have`, to `dst`, the elements of slice `want`. Sets *n_copied to the number of elements copied.
 * Supports plain types only. Calls `check` after each megabyte, and returns its status if it fails.
 * `check` may be NULL.
 */
enum rt_status rt_slice_copy(void *dst, const struct rt_slice *want, const void *src,
                             const struct rt_slice *have, size_t elem_size,
                             const struct rt_check *check, int64_t *n_copied, struct rt_error *err);
/* Exchanges the elements of the intersection of two resolved slices instead of copying them. Used
 * to move strings. If `check` fails, some elements have been exchanged, and no element is lost. */
enum rt_status rt_slice_swap(void *dst, const struct rt_slice *want, void *src,
                             const struct rt_slice *have, size_t elem_size,
                             const struct rt_check *check, int64_t *n_swapped,
                             struct rt_error *err);

#endif
