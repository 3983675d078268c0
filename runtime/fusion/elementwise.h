/*
 * Element-wise fusion runs many element-wise float32 steps as one op, "_Chain", in a single pass
 * over memory.
 *
 * fuse_elementwise.c puts the op into a graph and kernels/fused/fused_elementwise.c runs it; this
 * header defines the steps. An operand of a step is a number: `k < n_in` is input k of the node,
 * and `n_in + j` is the result of the earlier step j. The result of the last step is the output.
 *
 * To add an op, add a row to RT_ELEMENTWISE_UNARY or RT_ELEMENTWISE_BINARY below. The step runs the
 * loop of the op's own float32 kernel. Activations and per-channel multiplications that are not
 * fused into an epilogue become part of a "_Chain" too.
 *
 * Between steps, booleans are represented as 0 and 1. Inputs of types other than float32
 * (rt_elementwise_input) are converted to float32 as Cast does.
 */
#ifndef RT_ELEMENTWISE_H
#define RT_ELEMENTWISE_H

#include "runtime/core/fused_op.h"

enum {
    RT_ELEMENTWISE_MOST = 32, /* maximum number of steps of a "_Chain" */
    /* maximum number of inputs of a "_Chain", limited by the 64 bits of rt_plan_step.last_use */
    RT_ELEMENTWISE_MOST_IN = 60
};

/* X(TensorFlow op, kernel whose loop computes the step) */
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

/* Comparisons of two numbers, and logical ops on two booleans. X(op, expression in x and y) */
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
    /* adds a bias along the last axis, so it is used only for NHWC */
    RT_ELEMENTWISE_BiasAdd,
    RT_ELEMENTWISE_TRUTH(X) RT_ELEMENTWISE_LOGICAL(X) RT_ELEMENTWISE_LogicalNot,
    RT_ELEMENTWISE_Cast,      /* converts bool or another type to float32 */
    RT_ELEMENTWISE_LeakyRelu, /* operand c is alpha, encoded by rt_elementwise_number */
    RT_ELEMENTWISE_SelectV2,  /* selects b where a is true, and c elsewhere */
    RT_ELEMENTWISE_OPS
#undef X
};

struct rt_elementwise_step {
    /* `op` is an enum rt_elementwise_op; `a`, `b` and `c` are its operands, where -1 means that the
     * op lacks the operand. */
    int64_t op, a, b, c;
};

#define RT_ELEMENTWISE_INPUTS(IN, op) IN(op, OPERANDS, operands, LIST)
#define RT_ELEMENTWISE_OUTPUTS(OUT)   OUT(y)
#define RT_ELEMENTWISE_ATTRS(ATTR)                                                                 \
    ATTR(INTS, steps) /* the steps, as consecutive struct rt_elementwise_step values */            \
    /* if `pieces` is not 0, operand 0 is the concatenation of the first `pieces` inputs */        \
    ATTR(INT, pieces)                                                                              \
    ATTR(INT, axis) /* axis along which the first `pieces` inputs are concatenated */
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

/* Encodes a number as an operand below -1, to distinguish the number from the index of a value and
 * from a missing operand. */
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

/* Returns whether an input of a fused element-wise op may have this type. */
static inline bool rt_elementwise_input(enum rt_dtype d)
{
    return d == RT_F32 || d == RT_BOOL || d == RT_U8 || d == RT_I32 || d == RT_I64;
}

#endif
