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

#include "proto/wire.h"
#include "runtime/base/span.h"
#include "runtime/core/slice.h"
#include "runtime/core/types.h"
#include "runtime/files/checkpoint.h"

/* The field of a TensorProto that contains the values of a dtype. */
struct rt_checkpoint_v1_field {
    uint32_t number;
    enum pb_wire_type wire; /* wire type of a value that is not packed */
};
struct rt_checkpoint_v1_field rt_checkpoint_v1_field(enum rt_dtype dtype);

/* Returns RT_DATA_LOSS unless the message can be parsed as a SavedTensorSlices, including the
 * fields that are not used. TensorFlow refuses such a message as a whole. `what` names the message
 * in errors. If the check of `run` fails, returns the check's status. `run` may be NULL. */
enum rt_status rt_checkpoint_v1_validate(struct rt_span message, const char *what,
                                         const struct rt_checkpoint_run *run, struct rt_error *err);
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

/* A tensor as its entries in the lists of tensors describe it. */
struct rt_checkpoint_v1_description {
    bool is_described; /* whether the fields below have been read from an entry */
    int wire_type;     /* the tensorflow.DataType */
    int rank;          /* rank and dimensions of the full tensor */
    int64_t dim[RT_MAX_RANK];
    struct rt_slice *slices;
    size_t n_slices;
};
/*
 * Reads a tensor's type and shape from a serialized SavedSliceMeta, and appends its slices. `to`
 * is zero at first. Fails, as TensorFlow does, if the shape is
 * invalid, if the type or the shape is not that of an earlier entry, or if a slice has another rank
 * or is empty. Returns RT_UNIMPLEMENTED if the rank is unknown or above RT_MAX_RANK, in which case
 * TensorFlow reads the other tensors. The pool of `run` counts the slices' memory until
 * rt_checkpoint_v1_free_description, which must also be called after a failure.
 */
enum rt_status rt_checkpoint_v1_describe(struct rt_checkpoint_v1_description *to,
                                         struct rt_span entry, const struct rt_checkpoint_run *run,
                                         struct rt_error *err);
void rt_checkpoint_v1_free_description(struct rt_checkpoint_v1_description *d,
                                       const struct rt_checkpoint_run *run);

#endif
