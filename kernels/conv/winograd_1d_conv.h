/*
 * The kernel "conv2d.line": 1-D Winograd (winograd_1d.h) for a Conv2D whose window is one pixel
 * wide or high and whose filter is constant.
 */
#ifndef KN_CONV_WINOGRAD_1D_CONV_H
#define KN_CONV_WINOGRAD_1D_CONV_H

#include "runtime/core/op.h"

/* The functions of rt_kernel.can, .prepare and .run. prepare returns FAILED_PRECONDITION for a
 * filter whose sums would be too inexact. */
int kn_winograd_1d_can(const struct rt_prep *p);
enum rt_status kn_winograd_1d_prepare(struct rt_prep *p, void **state);
enum rt_status kn_winograd_1d_conv(struct rt_run *r);

#endif
