/*
 * The kernels "conv2d.winograd2" and "conv2d.winograd4": winograd.h with tiles of 2x2 and 4x4
 * behind a Conv2D whose filter is a constant.
 */
#ifndef KN_CPU_WINOGRAD_CONV_H
#define KN_CPU_WINOGRAD_CONV_H

#include "runtime/core/op.h"

/* rt_kernel.can, .prepare and .run. By rule the form depends on the image's size, not on the batch.
 * prepare answers FAILED_PRECONDITION for a filter whose sums would be too inexact. */
int kn_winograd2_can(const struct rt_prep *p);
int kn_winograd4_can(const struct rt_prep *p);
enum rt_status kn_winograd2_prepare(struct rt_prep *p, void **state);
enum rt_status kn_winograd4_prepare(struct rt_prep *p, void **state);
enum rt_status kn_winograd_conv(struct rt_run *r);

#endif
