/*
 * The steps of fused element-wise ops (elementwise.h), as lists and as an enumeration. Device code
 * (kernels/cuda) includes this header too, so it contains nothing else. GPUs run each op of these
 * lists by a case in kernels/cuda/device/elementwise.cu.
 */
#ifndef RT_ELEMENTWISE_STEPS_H
#define RT_ELEMENTWISE_STEPS_H

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

/* Comparisons of two numbers, and logical ops on two booleans: X(op, expression in x and y) */
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
    /* Adds a bias along the last axis. Used only for NHWC. */
    RT_ELEMENTWISE_BiasAdd,
    RT_ELEMENTWISE_TRUTH(X) RT_ELEMENTWISE_LOGICAL(X) RT_ELEMENTWISE_LogicalNot,
    RT_ELEMENTWISE_Cast,
    RT_ELEMENTWISE_LeakyRelu, /* operand c is alpha, encoded by rt_elementwise_number */
    RT_ELEMENTWISE_SelectV2,  /* selects b where a is true, and c elsewhere */
    RT_ELEMENTWISE_OPS
#undef X
};

#endif
