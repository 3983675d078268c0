/*
 * Functions shared by the incomplete gamma and beta functions: Gauss-Legendre quadrature of a
 * density's tail, and accurate logarithms near 1.
 *
 * Threads: all functions are pure.
 */
#ifndef KN_MATH_INCOMPLETE_H
#define KN_MATH_INCOMPLETE_H

#include <math.h>

enum { KN_GAUSS = 10 }; /* the number of nodes in each half of an interval */

/* The positive nodes of Gauss-Legendre quadrature with 20 points on [-1, 1], and their weights. */
extern const double kn_gauss_node[KN_GAUSS], kn_gauss_weight[KN_GAUSS];

/* Returns log(1 + d) - d for d > -1. Near 0, the two terms cancel. There, the function uses the
 * series of the inverse hyperbolic tangent of d / (2 + d). */
double kn_log1p_minus(double d);
/* Returns the remainder of Stirling's approximation, log gamma(a) - ((a - 1/2) log(a) - a + log(2
 * pi) / 2), for a >= 100 (DLMF 5.11.1). */
static inline double kn_stirling_rest(double a)
{
    const double q = 1 / (a * a);
    return (1 - q * (1. / 30 - q * (1. / 105 - q / 140))) / (12 * a);
}

#endif
