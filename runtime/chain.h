/*
 * Chains: many element-wise steps on float32 as one op, "_Chain", which goes over memory once.
 *
 * fuse_chain.c finds them, kernels/cpu/fused_chain.c runs them; this is the language between the
 * two. The attribute "steps" is a list of ints, three for each step: which one, and its operands.
 * An operand below the node's n_in is that input; n_in + j is the result of step j, which stands
 * before. The last step's result is the output.
 *
 * If the attribute "pieces" is not 0, operand 0 is that many inputs, the first ones, joined along
 * "axis", and the others of them are no operands.
 */
#ifndef RT_CHAIN_H
#define RT_CHAIN_H

#include <stdint.h>

enum { RT_CHAIN_MOST = 32 }; /* steps */

/* X(TensorFlow's op, the kernel whose loop the step runs) */
#define RT_CHAIN_UNARY(X)                                                                          \
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
#define RT_CHAIN_BINARY(X)                                                                         \
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

enum rt_chain_op {
#define X(op, kernel) RT_CHAIN_##op,
    RT_CHAIN_UNARY(X) RT_CHAIN_FIRST_BINARY,
    RT_CHAIN_BEFORE_BINARY = RT_CHAIN_FIRST_BINARY - 1,
    RT_CHAIN_BINARY(X) RT_CHAIN_BiasAdd, /* NHWC: over the last axis, the bias as long as that */
    RT_CHAIN_OPS
#undef X
};

struct rt_chain_step { /* as in the attribute */
    int64_t op, a, b;  /* b of a unary step: -1 */
};

#endif
