/*
 * Hurwitz's zeta function (Zeta), and the derivatives of digamma (Polygamma), which are multiples
 * of it.
 */
#include <float.h>
#include <math.h>

#include "kernels/math/special.h"

/* Returns zeta(x, q) for x > 1 and q > 0 by the Euler-Maclaurin formula (DLMF 25.11.28), with
 * TERMS terms of the sum. The coefficients are B(2k) / (2k)!. */
static double zeta_positive(double x, double q)
{
    enum { TERMS = 10 };
    static const double c[] = {1. / 12,
                               -1. / 720,
                               1. / 30240,
                               -1. / 1209600,
                               1. / 47900160,
                               -691. / 1307674368000,
                               1. / 74724249600,
                               -3617. / 10670622842880000,
                               43867. / 5109094217170944000,
                               -174611. / 802857662698291200000.};
    double sum = 0;
    for (int k = 0; k < TERMS; k++) {
        const double term = pow(q + k, -x);
        sum += term;
        if (term < sum * (DBL_EPSILON / 64))
            return sum;
    }
    const double a = q + TERMS, power = pow(a, -x);
    sum += power * a / (x - 1) + power / 2;
    double factor = power * x / a;
    for (int k = 0; k < (int)(sizeof c / sizeof *c); k++) {
        const double term = c[k] * factor;
        sum += term;
        if (fabs(term) < sum * (DBL_EPSILON / 64))
            break;
        factor *= (x + 2 * k + 1) * (x + 2 * k + 2) / (a * a);
    }
    return sum;
}

/*
 * For negative q and an integer x, the first terms of the sum have negative bases q + k. The sum of
 * these terms is the difference of two zeta functions of positive numbers, so the time does not
 * grow with the magnitude of q.
 */
static double zeta(double x, double q)
{
    if (x == 1)
        return INFINITY;
    if (!(x > 1) || isnan(q))
        return NAN;
    if (q <= 0) {
        const double sign = fmod(x, 2) == 0 || isinf(x) || x >= 0x1p53 ? 1 : -1;
        if (q == floor(q))
            return sign > 0 && x == floor(x) ? INFINITY : NAN;
        if (x != floor(x))
            return NAN;
        if (isinf(x)) /* one of the bases q + k is between -1 and 1 */
            return INFINITY;
        const double above = q - floor(q); /* the first positive q + k */
        const double below = zeta_positive(x, 1 - above) - zeta_positive(x, 1 - q);
        return zeta_positive(x, above) + sign * below;
    }
    if (isinf(q))
        return 0;
    if (isinf(x))
        return q < 1 ? INFINITY : q == 1;
    return zeta_positive(x, q);
}

static double polygamma(double n, double x)
{
    if (!(n >= 0) || n != floor(n))
        return NAN;
    if (n == 0)
        return kn_psi(x);
    const double sign = fmod(n, 2) == 0 ? -1 : 1;
    return (isinf(n) ? 1 : sign) * exp(kn_log_gamma(n + 1)) * zeta(n + 1, x);
}

enum { WORK = 1000 }; /* cost of one element in units of rt_run_spend */
#define ZETA(dt, x, q)      zeta((double)(x), (double)(q))
#define POLYGAMMA(dt, n, x) polygamma((double)(n), (double)(x))
KN_FOR_WIDE(KN_BINARY_SAME, zeta, ZETA)
KN_BINARY_SLOW(zeta, "Zeta", WIDE, NULL, WORK)
KN_FOR_WIDE(KN_BINARY_SAME, polygamma, POLYGAMMA)
KN_BINARY_SLOW(polygamma, "Polygamma", WIDE, NULL, WORK)
