/* Convolutions by plain nested loops, for every shape and direction, on one core. */
#ifndef KN_CONV_CONV_PLAIN_H
#define KN_CONV_CONV_PLAIN_H

#include "kernels/conv/conv_shape.h"

/* Computes dst, of n_dst elements, from src and the filter in TensorFlow's layout. `dtype` is
 * RT_F64, RT_I32, or any other type, whose tensors must be float here. */
enum rt_status kn_conv_plain(const struct kn_conv_shape *g, enum rt_dtype dtype, const void *src,
                             const void *filter, void *dst, int64_t n_dst, struct rt_run *r);

#endif
