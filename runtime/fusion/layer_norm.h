/*
 * Layer normalisation as one op: fuse_norm.c puts it into a graph, kernels/fused/fused_norm.c
 * computes it.
 *
 *     y = (x - mean(x)) / sqrt(variance(x) + epsilon) * scale + offset
 *
 * Mean and variance are taken along one axis, or with `joins` along that axis and all axes behind
 * it together. Scale and offset are vectors over the last axis. With `no_mean` the mean counts as
 * 0, which is RMS normalisation.
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
    ATTR(INT, rank) /* number of axes of x, trailing axes of length 1 not counted; 0: any */       \
    ATTR(BOOL, no_mean)
RT_FUSED_OP(RT_LAYER_NORM, rt_layer_norm, "_LayerNorm");

#endif
