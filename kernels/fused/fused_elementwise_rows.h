/*
 * Loops for steps of a fused chain. A step uses one of these loops if it cannot use the loop of its
 * op's own kernel. For example, truth values in a chain are the floats 0 and 1
 * (runtime/fusion/elementwise.h), but the kernel of a comparison writes bools.
 */
#ifndef KN_FUSED_ELEMENTWISE_ROWS_H
#define KN_FUSED_ELEMENTWISE_ROWS_H

#include "kernels/math/elementwise.h"

/* Returns the loop of a comparison or a logical op with two operands, or NULL for any other
 * step. */
kn_binary_row *kn_fused_logical(int64_t op);

/* Sets d[i] to b[i * sb] where a[i * sa] is true, else to c[i * sc]. */
typedef void kn_select_row(float *d, const float *a, const float *b, const float *c, int64_t n,
                           int64_t sa, int64_t sb, int64_t sc);
void kn_fused_select(float *d, const float *a, const float *b, const float *c, int64_t n,
                     int64_t sa, int64_t sb, int64_t sc);
void kn_fused_not(void *d, const void *s, int64_t n);
void kn_fused_copy(void *d, const void *s, int64_t n);
void kn_fused_leaky_relu(float *d, const float *s, int64_t n, float alpha);

/* Converts n values of type d, which must be a type that rt_elementwise_input accepts. */
void kn_fused_to_float(enum rt_dtype d, float *to, const void *from, int64_t n);

#endif
