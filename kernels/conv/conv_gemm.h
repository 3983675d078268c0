/*
 * The kernel "conv2d.product" computes a Conv2D with a constant filter as a GEMM (packed_gemm.h).
 * If the window is 1x1, the stride is 1 and there is no padding, the GEMM reads the input in place.
 * Otherwise, im2col copies the windows of a block of pixels into scratch memory that fits in a
 * core's own cache, and all output channels are then computed from the copies.
 */
#ifndef KN_CONV_GEMM_H
#define KN_CONV_GEMM_H

#include "runtime/core/op.h"

/* The rt_kernel.can, .prepare and .run functions of the kernel "conv2d.product". */
int kn_conv_gemm_can(const struct rt_prep *p);
enum rt_status kn_conv_gemm_prepare(struct rt_prep *p, void **state);
enum rt_status kn_conv_gemm(struct rt_run *r);

#endif
