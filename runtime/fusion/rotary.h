/*
 * The fused op for rotary position embedding. fuse_rotary.c puts it into a graph and
 * kernels/fused/rotary.c computes it:
 *
 *     y = x * cos + rotate(x) * sin
 *
 * where cos and sin are broadcast. Along the last axis, of length n, rotate(x) is
 *     by halves     -x[half], .. -x[n - 1], x[0], .. x[half - 1]
 *     interleaved   -x[1], x[0], -x[3], x[2], ..
 */
#ifndef RT_ROTARY_HEADER
#define RT_ROTARY_HEADER

#include "runtime/core/fused_op.h"

#define RT_ROTARY_INPUTS(IN, op)                                                                   \
    IN(op, X, x, ONE)                                                                              \
    IN(op, COS, cos, ONE)                                                                          \
    IN(op, SIN, sin, ONE)
#define RT_ROTARY_OUTPUTS(OUT) OUT(y)
#define RT_ROTARY_ATTRS(ATTR)                                                                      \
    ATTR(BOOL, interleaved)                                                                        \
    /* Index in x's last axis at which the second half begins. 0 means the middle of an axis of    \
     * even length. */                                                                             \
    ATTR(INT, half)                                                                                \
    /* Required length of each axis of x, or -1 for any length. An empty array allows any x. */    \
    ATTR(INTS, dims)
RT_FUSED_OP(RT_ROTARY, rt_rotary, "_Rotary");

#endif
