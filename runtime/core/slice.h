/*
 * Parts of tensors, as checkpoints name them: per dimension a start and a length, or all of it.
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
 * TensorFlow's text of a part: the whole tensor's dims, then the part: "4 8 0,2:-". *rank and dim
 * get the whole tensor's shape; the slice lies inside it.
 */
enum rt_status rt_slice_parse(struct rt_span text, int *rank, int64_t dim[RT_MAX_RANK],
                              struct rt_slice *out, struct rt_error *err);
/* As stored in a checkpoint. False: it has not `rank` dimensions. */
bool rt_slice_from_proto(struct rt_slice *out, int rank, const Tensorflow__TensorSliceProto *p);
/* "0,2:-" */
const char *rt_slice_text(char *buffer, size_t n, const struct rt_slice *s);
/* Lengths with -1 replaced by the dimension's. False: the slice does not fit the shape. */
bool rt_slice_resolve(struct rt_slice *s, int rank, const int64_t *dim);

/*
 * The key under which a part of `name` stands in a checkpoint's index: an order-preserving code of
 * 0, the name, the rank, and start and length per dimension (-1: whole).
 */
void rt_slice_key(struct rt_bytes *out, struct rt_span name, const struct rt_slice *s);

/* How many elements two parts (resolved, of one tensor) have in common. */
int64_t rt_slice_overlap(const struct rt_slice *a, const struct rt_slice *b);

/*
 * Copies what `have` and `want` (both resolved) share of one tensor, from the elements of `have` to
 * those of `want`. Returns how many elements. Plain types only.
 */
int64_t rt_slice_copy(void *dst, const struct rt_slice *want, const void *src,
                      const struct rt_slice *have, size_t elem_size);

#endif
