/*
 * Chains: many element-wise steps on float32 as one op, "_Chain", which goes over memory once.
 *
 * fuse_chain.c finds them, kernels/fused/fused_elementwise.c runs them; this is the language
 * between the two. An operand of a step that is below the node's n_in is that input; n_in + j is
 * the result of step j, which stands before. The last step's result is the output.
 *
 * Truths are numbers in a chain, 0 or 1, and inputs of other types (rt_elementwise_input) are read
 * as the float32 that a Cast makes of them.
 */
#ifndef RT_ELEMENTWISE_H
#define RT_ELEMENTWISE_H

#include "runtime/core/fused_op.h"

enum {
    RT_ELEMENTWISE_MOST = 32,
    RT_ELEMENTWISE_MOST_IN = 60
}; /* steps; what is read last has 64 bits */

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

/* Truths of two numbers, and of two truths. X(op, of x and y) */
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
        RT_ELEMENTWISE_BiasAdd, /* NHWC: over the last axis, the bias as long as that */
    RT_ELEMENTWISE_TRUTH(X) RT_ELEMENTWISE_LOGICAL(X) RT_ELEMENTWISE_LogicalNot,
    RT_ELEMENTWISE_Cast,      /* of a truth or another type */
    RT_ELEMENTWISE_LeakyRelu, /* c: rt_elementwise_number of its alpha */
    RT_ELEMENTWISE_SelectV2,  /* b where a, else c */
    RT_ELEMENTWISE_OPS
#undef X
};

struct rt_elementwise_step {
    int64_t op, a, b, c; /* enum rt_elementwise_op, and its operands; -1: it has not so many */
};

#define RT_ELEMENTWISE_INPUTS(IN, op) IN(op, OPERANDS, operands, LIST)
#define RT_ELEMENTWISE_OUTPUTS(OUT)   OUT(y)
#define RT_ELEMENTWISE_ATTRS(ATTR)                                                                 \
    ATTR(INTS, steps) /* struct rt_elementwise_step, one after another */                          \
    ATTR(INT, pieces) /* unless 0: operand 0 is that many inputs, the first ones, concatenated */  \
    ATTR(INT, axis)   /* along this axis, and the others of them are no operands */
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

/* A number where an operand would be, which is never below 0. */
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

/* Types that inputs may have. */
static inline bool rt_elementwise_input(enum rt_dtype d)
{
    return d == RT_F32 || d == RT_BOOL || d == RT_U8 || d == RT_I32 || d == RT_I64;
}

#endif
