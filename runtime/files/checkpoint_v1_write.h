/*
 * Writes files in TensorFlow's first checkpoint format (checkpoint_v1.h), byte for byte as
 * TensorFlow's Save and SaveSlices do. protobuf-c could not pack the messages of large tensors
 * without copies of them, so the messages are encoded here, and written as they are encoded.
 *
 * Threads: any. Owner: the caller owns all memory.
 */
#ifndef RT_CHECKPOINT_V1_WRITE_H
#define RT_CHECKPOINT_V1_WRITE_H

#include "runtime/files/checkpoint.h"

/*
 * Writes n tensors to the file `path`, which gets its name when it is complete. Does not create
 * directories. `slices` is NULL or has one span for each tensor: the slice in TensorFlow's text
 * form if the tensor is a slice of a larger tensor, and otherwise an empty span. If several tensors
 * have the same name and the same slice, the first one is written, as in TensorFlow. The bytes that
 * the encoded values have beyond those of the tensors count as memory of the pool of `run` during
 * the call, because an element of one byte may be encoded as ten bytes. If the check of `run`
 * fails, returns the check's status. A failed call leaves no file. `run` may be NULL.
 */
enum rt_status rt_checkpoint_v1_write(const char *path, int n, const char *const *names,
                                      const struct rt_tensor *tensors, const struct rt_span *slices,
                                      const struct rt_checkpoint_run *run, struct rt_error *err);

#endif
