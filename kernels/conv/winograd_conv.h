/*
 * The kernels "conv2d.winograd2" and "conv2d.winograd4" compute a Conv2D with a constant filter by
 * the functions of winograd.h, with tiles of 2x2 and of 4x4 outputs.
 */
#ifndef KN_CONV_WINOGRAD_CONV_H
#define KN_CONV_WINOGRAD_CONV_H

#include "runtime/core/op.h"

/* The rt_kernel.can, .prepare and .run functions of the two kernels. `can` chooses the tile size
 * according to the image size, not the batch size. `prepare` returns FAILED_PRECONDITION for a
 * filter with which the sums would not be accurate enough. */
int kn_winograd2_can(const struct rt_prep *p);
int kn_winograd4_can(const struct rt_prep *p);
enum rt_status kn_winograd2_prepare(struct rt_prep *p, void **state);
enum rt_status kn_winograd4_prepare(struct rt_prep *p, void **state);
enum rt_status kn_winograd_conv(struct rt_run *r);

#endif
