/* The kernel "conv2d.winograd": winograd.h behind a Conv2D whose filter is a constant. */
#ifndef KN_CPU_WINOGRAD_CONV_H
#define KN_CPU_WINOGRAD_CONV_H

#include "runtime/op.h"

/* rt_kernel.can, .prepare and .run. The answer does not depend on the batch, so that a filter is
 * packed in one form. */
int kn_winograd_can(const struct rt_prep *p);
enum rt_status kn_winograd_prepare(struct rt_prep *p, void **state);
enum rt_status kn_winograd_conv(struct rt_run *r);

#endif
