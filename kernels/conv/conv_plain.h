/* Computes convolutions of any shape, including transposed ones, by plain nested loops on one
 * core. */
#ifndef KN_CONV_CONV_PLAIN_H
#define KN_CONV_CONV_PLAIN_H

#include "kernels/conv/conv_shape.h"

/* Computes the n_dst elements of dst from src and the filter, which is in TensorFlow's layout. If
 * `dtype` is neither RT_F64 nor RT_I32, the caller must have converted the tensors to float. */
enum rt_status kn_conv_plain(const struct kn_conv_shape *g, enum rt_dtype dtype, const void *src,
                             const void *filter, void *dst, int64_t n_dst, struct rt_run *r);

#endif
