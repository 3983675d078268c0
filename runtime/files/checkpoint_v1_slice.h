/*
 * Reads the slices of a tensor from a version 1 checkpoint (checkpoint_v1.h): from the list of
 * tensors, where each slice lies in the tensor, and from the message of a slice, its values. The
 * message is a SavedTensorSlices with the values in a TensorProto. A message may have 2 GB.
 * protobuf-c would need up to a minute and many times 2 GB of memory to unpack it. This decoder
 * reads the values from the serialized message instead, and regularly calls the run's check.
 *
 * Threads: any. Owner: the caller owns all memory.
 */
#ifndef RT_CHECKPOINT_V1_SLICE_H
#define RT_CHECKPOINT_V1_SLICE_H

#include "runtime/base/span.h"
#include "runtime/core/slice.h"
#include "runtime/core/types.h"
#include "runtime/files/checkpoint.h"
#include "tensorflow/core/util/saved_tensor_slice.pb-c.h"

/*
 * Decodes n elements to `dst`, which has space for them. String elements must be initialised, and
 * are replaced. The message's dtype and shape are ignored, because the list of tensors has both.
 * The values are those of the typed field; tensor_content is ignored, as in TensorFlow. Returns
 * RT_DATA_LOSS if the message is malformed or does not have n values. The pool of `run` counts the
 * memory of long strings. If the check of `run` fails, returns the check's status. `run` may be
 * NULL.
 */
enum rt_status rt_checkpoint_v1_decode(struct rt_span message, enum rt_dtype dtype, int64_t n,
                                       void *dst, const struct rt_checkpoint_run *run,
                                       struct rt_error *err);

/* The slices of a tensor, as the list of tensors describes them. */
struct rt_checkpoint_v1_slices {
    struct rt_slice *all;
    size_t n;
};
/*
 * Appends the slices of the entry `m` of a list. `name` and `rank` are those of the tensor. Fails
 * if a slice has another rank or is empty, as TensorFlow does. The pool of `run` counts the slices'
 * memory until rt_checkpoint_v1_free_slices, which must also be called if an append has failed.
 */
enum rt_status rt_checkpoint_v1_add_slices(struct rt_checkpoint_v1_slices *to, const char *name,
                                           int rank, const Tensorflow__SavedSliceMeta *m,
                                           const struct rt_checkpoint_run *run,
                                           struct rt_error *err);
void rt_checkpoint_v1_free_slices(struct rt_checkpoint_v1_slices *s,
                                  const struct rt_checkpoint_run *run);

#endif
