/*
 * Decodes the message of a stored slice of a version 1 checkpoint (checkpoint_v1.h). The message is
 * a SavedTensorSlices with the values in a TensorProto. A message may have 2 GB. protobuf-c would
 * need up to a minute and many times 2 GB of memory to unpack it. This decoder reads the values
 * from the serialized message instead, and regularly calls the run's check.
 *
 * Threads: any. Owner: the caller owns all memory.
 */
#ifndef RT_CHECKPOINT_V1_SLICE_H
#define RT_CHECKPOINT_V1_SLICE_H

#include "runtime/base/span.h"
#include "runtime/core/types.h"
#include "runtime/files/checkpoint.h"

/*
 * Decodes n elements to `dst`, which has space for them. String elements must be initialised, and
 * are replaced. The message's dtype and shape are ignored, because the list of tensors has both.
 * Values in tensor_content take precedence over typed values; typed values after the first n are
 * ignored. Returns RT_DATA_LOSS if the message is malformed or has too few values. The pool of
 * `run` counts the memory of long strings. If the check of `run` fails, returns the check's status.
 * `run` may be NULL.
 */
enum rt_status rt_checkpoint_v1_decode(struct rt_span message, enum rt_dtype dtype, int64_t n,
                                       void *dst, const struct rt_checkpoint_run *run,
                                       struct rt_error *err);

#endif
