/*
 * The tables of rows that elementwise.h's macros make for each op, of those ops that are steps of
 * what is fused: its results are the single kernels' own, bit for bit.
 */
#ifndef KN_CPU_OP_ROWS_H
#define KN_CPU_OP_ROWS_H

#include "kernels/math/elementwise.h"
#include "runtime/fusion/elementwise.h"

#define X(op, kernel) extern const struct kn_map kn_map_##kernel;
RT_ELEMENTWISE_UNARY(X)
#undef X
#define X(op, kernel) extern const struct kn_binary kn_binary_##kernel;
RT_ELEMENTWISE_BINARY(X)
#undef X

#endif
