/*
 * Reads a tensor from a TensorProto, by TensorFlow's rules. tensor_content, if present, contains
 * the tensor's bytes. Otherwise, the field of typed values contains the elements, and the last
 * value is repeated for missing elements. If there is no value, all elements are zero.
 */
#ifndef RT_TENSOR_PROTO_H
#define RT_TENSOR_PROTO_H

#include "runtime/base/check.h"
#include "runtime/core/tensor.h"
#include "tensorflow/core/framework/tensor.pb-c.h"

/*
 * Makes a tensor with memory from `pool`, or from malloc if `pool` is NULL. If the message lacks
 * some of the tensor's values, the tensor may have at most `limit` bytes. Refuses resource and
 * variant tensors (unless empty), shapes with unknown dimensions, and a tensor_content of the wrong
 * length. Calls `check` regularly; if it fails, returns its status. `check` may be NULL.
 */
enum rt_status rt_tensor_from_proto(const Tensorflow__TensorProto *p, size_t limit,
                                    struct rt_tensor *out, struct rt_pool *pool,
                                    const struct rt_check *check, struct rt_error *err);
/*
 * Parses a serialized TensorProto and makes a tensor as rt_tensor_from_proto does. `pool` also
 * counts the unpacked message while it exists. Refuses a tensor whose type is not `want`. The error
 * messages are those of TensorFlow's ParseTensor, with the reason appended.
 */
enum rt_status rt_tensor_parse(struct rt_span bytes, enum rt_dtype want, size_t limit,
                               struct rt_tensor *out, struct rt_pool *pool,
                               const struct rt_check *check, struct rt_error *err);
/* Parses a serialized TensorProto of any type. The error messages are those of TensorFlow's
 * DeserializeSparse. Otherwise the same as rt_tensor_parse. */
enum rt_status rt_tensor_parse_any(struct rt_span bytes, size_t limit, struct rt_tensor *out,
                                   struct rt_pool *pool, const struct rt_check *check,
                                   struct rt_error *err);
/* Reads a shape. Rank -1 means that the rank is unknown. If `p` is NULL, the shape is that of a
 * scalar. Refuses a rank above RT_MAX_RANK and dimensions below -1. */
enum rt_status rt_shape_from_proto(const Tensorflow__TensorShapeProto *p, int *rank,
                                   int64_t dim[RT_MAX_RANK], struct rt_error *err);

#endif
