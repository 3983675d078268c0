/*
 * The kernel "conv2d.product": product.h behind a Conv2D whose filter is a constant. A filter of
 * one pixel multiplies the input where it lies; for any other the windows of some pixels at a time
 * are copied together, which stay in a core's own cache while all output channels pass over them.
 */
#ifndef KN_CONV_GEMM_H
#define KN_CONV_GEMM_H

#include "runtime/core/op.h"

/* rt_kernel.can, .prepare and .run. */
int kn_conv_gemm_can(const struct rt_prep *p);
enum rt_status kn_conv_gemm_prepare(struct rt_prep *p, void **state);
enum rt_status kn_conv_gemm(struct rt_run *r);

#endif
