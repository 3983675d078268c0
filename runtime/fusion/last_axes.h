/*
 * The fused op that reshapes the last axes of its input x. fuse_einsum.c puts this op before or
 * after a matmul, and kernels/fused/fused_axes.c runs it. The output is a view of x.
 */
#ifndef RT_LAST_AXES_HEADER
#define RT_LAST_AXES_HEADER

#include "runtime/core/fused_op.h"

#define RT_LAST_AXES_INPUTS(IN, op) IN(op, X, x, ONE)
#define RT_LAST_AXES_OUTPUTS(OUT)   OUT(y)
#define RT_LAST_AXES_ATTRS(ATTR)                                                                   \
    ATTR(INT, rank)  /* number of axes of x */                                                     \
    ATTR(INTS, from) /* lengths of the last axes of x */                                           \
    ATTR(INTS, to)   /* new lengths of the last axes, with the same product as `from` */
RT_FUSED_OP(RT_LAST_AXES, rt_last_axes, "_LastAxes");

#endif
