/* Convolutions by the obvious loops: every shape and direction, on one core. */
#ifndef KN_CPU_CONV_PLAIN_H
#define KN_CPU_CONV_PLAIN_H

#include "kernels/conv/conv_shape.h"

/* dst, of n_dst elements, from src and the filter as TensorFlow keeps it. `dtype`: double, int32,
 * or another, whose tensors are floats here. */
enum rt_status kn_conv_plain(const struct kn_conv_shape *g, enum rt_dtype dtype, const void *src,
                             const void *filter, void *dst, int64_t n_dst, struct rt_run *r);

#endif
