/*
 * The kernels "conv2d.winograd2" and "conv2d.winograd4": winograd.h with tiles of 2x2 and 4x4
 * outputs for a Conv2D whose filter is constant.
 */
#ifndef KN_CONV_WINOGRAD_CONV_H
#define KN_CONV_WINOGRAD_CONV_H

#include "runtime/core/op.h"

/* The functions of rt_kernel.can, .prepare and .run. The rule chooses the tile size by the image's
 * size, not by the batch size. prepare returns FAILED_PRECONDITION for a filter whose sums would
 * be too inexact. */
int kn_winograd2_can(const struct rt_prep *p);
int kn_winograd4_can(const struct rt_prep *p);
enum rt_status kn_winograd2_prepare(struct rt_prep *p, void **state);
enum rt_status kn_winograd4_prepare(struct rt_prep *p, void **state);
enum rt_status kn_winograd_conv(struct rt_run *r);

#endif
