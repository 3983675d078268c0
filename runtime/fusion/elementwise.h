/*
 * Element-wise fusion: runs many element-wise steps on float32 as one op, "_Chain", in one pass
 * over memory.
 *
 * fuse_elementwise.c puts the op into a graph; kernels/fused/fused_elementwise.c runs it; this
 * header defines the steps. An operand below the node's n_in is the index of an input. Operand n_in
 * + j is the result of step j, which must precede the step that reads it. The last step's result is
 * the output.
 *
 * To let an op join, add a row for it to RT_ELEMENTWISE_UNARY or RT_ELEMENTWISE_BINARY; the step
 * runs the loop of the op's own float32 kernel. An activation or a per-channel product that no
 * epilogue could include also ends up in such a node, so `slipway inspect --plan` shows what a
 * specialised fused op could replace.
 *
 * Between steps, booleans are the numbers 0 and 1. Inputs of other types (rt_elementwise_input) are
 * converted to float32 as by Cast.
 */
#ifndef RT_ELEMENTWISE_H
#define RT_ELEMENTWISE_H

#include "runtime/core/fused_op.h"

enum {
    RT_ELEMENTWISE_MOST = 32,
    RT_ELEMENTWISE_MOST_IN = 60
}; /* MOST: steps; MOST_IN: inputs, because rt_plan_step.last_use has 64 bits */

/* X(TensorFlow's op, the kernel whose loop the step runs) */
#define RT_ELEMENTWISE_UNARY(X)                                                                    \
    X(Abs, abs)                                                                                    \
    X(Ceil, ceil)                                                                                  \
    X(Elu, elu)                                                                                    \
    X(Erf, erf)                                                                                    \
    X(Erfc, erfc)                                                                                  \
    X(Exp, exp)                                                                                    \
    X(Expm1, expm1)                                                                                \
    X(Floor, floor)                                                                                \
    X(Inv, reciprocal)                                                                             \
    X(Log, log)                                                                                    \
    X(Log1p, log1p)                                                                                \
    X(Neg, neg)                                                                                    \
    X(Reciprocal, reciprocal)                                                                      \
    X(Relu, relu)                                                                                  \
    X(Relu6, relu6)                                                                                \
    X(Rint, rint)                                                                                  \
    X(Round, round)                                                                                \
    X(Rsqrt, rsqrt)                                                                                \
    X(Selu, selu)                                                                                  \
    X(Sigmoid, sigmoid)                                                                            \
    X(Sign, sign)                                                                                  \
    X(Softplus, softplus)                                                                          \
    X(Softsign, softsign)                                                                          \
    X(Sqrt, sqrt)                                                                                  \
    X(Square, square)                                                                              \
    X(Tanh, tanh)
#define RT_ELEMENTWISE_BINARY(X)                                                                   \
    X(Add, add_v2)                                                                                 \
    X(AddV2, add_v2)                                                                               \
    X(Div, div)                                                                                    \
    X(DivNoNan, div_no_nan)                                                                        \
    X(Maximum, maximum)                                                                            \
    X(Minimum, minimum)                                                                            \
    X(Mul, mul)                                                                                    \
    X(MulNoNan, mul_no_nan)                                                                        \
    X(Pow, pow)                                                                                    \
    X(RealDiv, div)                                                                                \
    X(SquaredDifference, squared_difference)                                                       \
    X(Sub, sub)

/* Comparisons of two numbers, and logical ops of two booleans. X(op, expression of x and y) */
#define RT_ELEMENTWISE_TRUTH(X)                                                                    \
    X(Equal, x == y)                                                                               \
    X(Greater, x > y)                                                                              \
    X(GreaterEqual, x >= y)                                                                        \
    X(Less, x < y)                                                                                 \
    X(LessEqual, x <= y)                                                                           \
    X(NotEqual, x != y)
#define RT_ELEMENTWISE_LOGICAL(X)                                                                  \
    X(LogicalAnd, x != 0 && y != 0)                                                                \
    X(LogicalOr, x != 0 || y != 0)

enum rt_elementwise_op {
#define X(op, kernel) RT_ELEMENTWISE_##op,
    RT_ELEMENTWISE_UNARY(X) RT_ELEMENTWISE_FIRST_BINARY,
    RT_ELEMENTWISE_BEFORE_BINARY = RT_ELEMENTWISE_FIRST_BINARY - 1,
    RT_ELEMENTWISE_BINARY(X)
        RT_ELEMENTWISE_BiasAdd, /* NHWC: the bias is as long as the last axis */
    RT_ELEMENTWISE_TRUTH(X) RT_ELEMENTWISE_LOGICAL(X) RT_ELEMENTWISE_LogicalNot,
    RT_ELEMENTWISE_Cast,      /* conversion to float32 from bool or another type */
    RT_ELEMENTWISE_LeakyRelu, /* c: rt_elementwise_number of its alpha */
    RT_ELEMENTWISE_SelectV2,  /* b where a is true, else c */
    RT_ELEMENTWISE_OPS
#undef X
};

struct rt_elementwise_step {
    /* enum rt_elementwise_op, and its operands; -1: the op has fewer operands. */
    int64_t op, a, b, c;
};

#define RT_ELEMENTWISE_INPUTS(IN, op) IN(op, OPERANDS, operands, LIST)
#define RT_ELEMENTWISE_OUTPUTS(OUT)   OUT(y)
#define RT_ELEMENTWISE_ATTRS(ATTR)                                                                 \
    ATTR(INTS, steps) /* struct rt_elementwise_step, one after another */                          \
    ATTR(INT, pieces) /* unless 0: operand 0 is the concatenation of the first `pieces` inputs */  \
    ATTR(INT, axis)   /* the axis of the concatenation; only input 0 of them is an operand */
RT_FUSED_OP(RT_ELEMENTWISE, rt_elementwise, "_Chain");

static inline const struct rt_elementwise_step *rt_elementwise_steps(const struct rt_elementwise *c,
                                                                     int *n)
{
    *n = (int)(c->steps.n * sizeof *c->steps.v / sizeof(struct rt_elementwise_step));
    return (const struct rt_elementwise_step *)(const void *)c->steps.v;
}
static inline struct rt_ints rt_elementwise_of_steps(const struct rt_elementwise_step *step, int n)
{
    return (struct rt_ints){(size_t)n * (sizeof *step / sizeof(int64_t)),
                            (const int64_t *)(const void *)step};
}

/* Encodes a number in the place of an operand, which is never below 0. */
static inline int64_t rt_elementwise_number(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return -2 - (int64_t)bits;
}
static inline float rt_elementwise_number_of(int64_t operand)
{
    const uint32_t bits = (uint32_t)(-2 - operand);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* True for the types that inputs may have. */
static inline bool rt_elementwise_input(enum rt_dtype d)
{
    return d == RT_F32 || d == RT_BOOL || d == RT_U8 || d == RT_I32 || d == RT_I64;
}

#endif
