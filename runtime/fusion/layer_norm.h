/*
 * The fused op for layer normalisation. fuse_norm.c puts it into a graph and
 * kernels/fused/fused_norm.c computes it:
 *
 *     y = (x - mean(x)) / sqrt(variance(x) + epsilon) * scale + offset
 *
 * The mean and the variance are taken over one axis or, with `joins`, over that axis and all later
 * axes together. The scale and the offset are vectors along the last axis. With `no_mean` the mean
 * is taken to be 0, which gives RMS normalisation.
 */
#ifndef RT_LAYER_NORM_HEADER
#define RT_LAYER_NORM_HEADER

#include "runtime/core/fused_op.h"

#define RT_LAYER_NORM_INPUTS(IN, op)                                                               \
    IN(op, X, x, ONE)                                                                              \
    IN(op, SCALE, scale, OPTIONAL)                                                                 \
    IN(op, OFFSET, offset, OPTIONAL)
#define RT_LAYER_NORM_OUTPUTS(OUT) OUT(y)
#define RT_LAYER_NORM_ATTRS(ATTR)                                                                  \
    ATTR(INT, axis)                                                                                \
    ATTR(FLOAT, epsilon)                                                                           \
    ATTR(BOOL, joins)                                                                              \
    /* Number of axes that x must have, not counting trailing axes of length 1. 0 allows any       \
     * number of axes. */                                                                          \
    ATTR(INT, rank)                                                                                \
    ATTR(BOOL, no_mean)
RT_FUSED_OP(RT_LAYER_NORM, rt_layer_norm, "_LayerNorm");

#endif
