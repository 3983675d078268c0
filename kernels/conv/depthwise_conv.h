/*
 * The kernel "depthwise.rows" computes a DepthwiseConv2dNative by the loops of depthwise.h. The
 * filter must be constant and have one output per channel.
 */
#ifndef KN_CONV_DEPTHWISE_CONV_H
#define KN_CONV_DEPTHWISE_CONV_H

#include "runtime/core/op.h"

/* The rt_kernel.can, .prepare and .run functions of the kernel "depthwise.rows". */
int kn_depthwise_conv_can(const struct rt_prep *p);
enum rt_status kn_depthwise_conv_prepare(struct rt_prep *p, void **state);
enum rt_status kn_depthwise_conv(struct rt_run *r);

#endif
