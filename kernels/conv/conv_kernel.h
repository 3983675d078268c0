/*
 * The two kernels that compute any convolution, as functions of rt_kernel.can, .prepare and .run:
 * "*.onednn" by oneDNN's primitives, "*.plain" by plain loops (conv_plain.h).
 */
#ifndef KN_CONV_CONV_KERNEL_H
#define KN_CONV_CONV_KERNEL_H

#include "runtime/core/op.h"

/* 0: the plain loops compute the convolution, because one execution of oneDNN, which cannot be
 * interrupted, would take too long. */
int kn_conv_onednn_can(const struct rt_prep *p);
/* FAILED_PRECONDITION: oneDNN does not support the convolution. */
enum rt_status kn_conv_onednn_prepare(struct rt_prep *p, void **state);
enum rt_status kn_conv_plain_prepare(struct rt_prep *p, void **state);
/* Runs a convolution that kn_conv_onednn_prepare or kn_conv_plain_prepare prepared. */
enum rt_status kn_conv_run(struct rt_run *r);

#endif
