/*
 * The two kernels that can compute every convolution: "*.onednn" uses oneDNN's primitives, and
 * "*.plain" uses plain loops (conv_plain.h). This header declares the rt_kernel.can, .prepare and
 * .run functions of both kernels.
 */
#ifndef KN_CONV_CONV_KERNEL_H
#define KN_CONV_CONV_KERNEL_H

#include "runtime/core/op.h"

/* Returns 0 if one execution of oneDNN, which cannot be interrupted, would take too long. The plain
 * loops then compute the convolution. */
int kn_conv_onednn_can(const struct rt_prep *p);
/* Returns FAILED_PRECONDITION if oneDNN does not support the convolution. */
enum rt_status kn_conv_onednn_prepare(struct rt_prep *p, void **state);
enum rt_status kn_conv_plain_prepare(struct rt_prep *p, void **state);
/* Runs a convolution that kn_conv_onednn_prepare or kn_conv_plain_prepare has prepared. */
enum rt_status kn_conv_run(struct rt_run *r);

#endif
