/*
 * Scalar functions in double precision that several files of special functions share.
 *
 * Threads: all functions are pure.
 */
#ifndef KN_MATH_SPECIAL_H
#define KN_MATH_SPECIAL_H

#include "kernels/math/elementwise.h"

/* Returns log |gamma(x)|. */
double kn_log_gamma(double x);
/* Returns the derivative of log gamma(x), or NaN at a pole. */
double kn_psi(double x);

/* Returns half of c[0] plus the sum of c[k] times Chebyshev's polynomial T_k(w), by Clenshaw's
 * recurrence. w is between -1 and 1. */
static inline double kn_chebyshev(const double *c, int n, double w)
{
    double b0 = 0, b1 = 0, b2 = 0;
    for (int k = n - 1; k >= 0; k--) {
        b2 = b1;
        b1 = b0;
        b0 = 2 * w * b1 - b2 + c[k];
    }
    return (b0 - b2) / 2;
}
#define KN_CHEBYSHEV(c, w) kn_chebyshev((c), (int)(sizeof(c) / sizeof *(c)), (w))

/* Expands M for each type of a function that TensorFlow has in float, double and float16, but not
 * in bfloat16. */
#define KN_FOR_WIDE_F16(M, ...) KN_FOR_WIDE(M, __VA_ARGS__) M(RT_F16, struct kn_half, __VA_ARGS__)

#endif
