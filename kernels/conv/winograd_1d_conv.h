/*
 * The kernel "conv2d.line" computes a Conv2D by 1-D Winograd (winograd_1d.h). The filter must be
 * constant, and its window must be one pixel wide or one pixel high.
 */
#ifndef KN_CONV_WINOGRAD_1D_CONV_H
#define KN_CONV_WINOGRAD_1D_CONV_H

#include "runtime/core/op.h"

/* The rt_kernel.can, .prepare and .run functions of the kernel "conv2d.line". `prepare` returns
 * FAILED_PRECONDITION for a filter with which the sums would not be accurate enough. */
int kn_winograd_1d_can(const struct rt_prep *p);
enum rt_status kn_winograd_1d_prepare(struct rt_prep *p, void **state);
enum rt_status kn_winograd_1d_conv(struct rt_run *r);

#endif
