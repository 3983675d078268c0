/*
 * A tensor from a TensorProto, by TensorFlow's rules: tensor_content is the bytes as they are;
 * else the field of typed values, whose last value fills what is left; without values, zeros.
 */
#ifndef RT_TENSOR_PROTO_H
#define RT_TENSOR_PROTO_H

#include "runtime/core/tensor.h"
#include "tensorflow/core/framework/tensor.pb-c.h"

/*
 * *out: a new tensor with memory of `pool` (NULL: malloc). `limit`: the most bytes that values not
 * present in the message may stretch it to. Refuses handles and variants (unless empty), shapes
 * with unknown dimensions, contents of the wrong length.
 */
enum rt_status rt_tensor_from_proto(const Tensorflow__TensorProto *p, size_t limit,
                                    struct rt_tensor *out, struct rt_pool *pool,
                                    struct rt_error *err);
/* The shape alone; rank -1 when unknown. Refuses a rank above RT_MAX_RANK and dims below -1. `p`
 * may be NULL: a scalar. */
enum rt_status rt_shape_from_proto(const Tensorflow__TensorShapeProto *p, int *rank,
                                   int64_t dim[RT_MAX_RANK], struct rt_error *err);

#endif
