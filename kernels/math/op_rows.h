/*
 * Declares the tables of loops of the ops that may be steps of a fused op. The macros of
 * elementwise.h define the tables. A fused op runs the same loops as the separate kernels, so its
 * results are bitwise equal to theirs.
 */
#ifndef KN_MATH_OP_ROWS_H
#define KN_MATH_OP_ROWS_H

#include "kernels/math/elementwise.h"
#include "runtime/fusion/elementwise.h"

#define X(op, kernel) extern const struct kn_map kn_map_##kernel;
RT_ELEMENTWISE_UNARY(X)
#undef X
#define X(op, kernel) extern const struct kn_binary kn_binary_##kernel;
RT_ELEMENTWISE_BINARY(X)
#undef X

#endif
