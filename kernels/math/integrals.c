/*
 * Special functions that are integrals of elementary functions: Dawson's integral, the exponential
 * integral Ei, Fresnel's integrals and Spence's function (the dilogarithm of 1 - x). All are
 * computed in double.
 */
#include <math.h>

#include "kernels/math/special.h"

/*
 * Dawson's integral by the sampling theorem (Rybicki 1989; DLMF 7.22(i) lists the method). With a
 * step of 1/4, the error is about exp(-(2 pi)^2), which is less than the rounding error. As in
 * TensorFlow, the result for a huge negative number is positive.
 */
static double dawsn(double x)
{
    enum { N = 13 };
    const double a = fabs(x), h = 0.25;
    if (!(a < 1e9)) /* also NaN */
        return 0.5 / a;
    if (a > 20) { /* the asymptotic series, DLMF 7.12.1 */
        const double u = 0.5 / (a * a);
        const double y =
            (1 + u * (1 + u * (3 + u * (15 + u * (105 + u * (945 + u * 10395)))))) / (2 * a);
        return copysign(y, x);
    }
    if (a < 0.2) { /* the power series, DLMF 7.6.3 for real arguments */
        const double u = -2 * a * a;
        double term = 1, sum = 1;
        for (int k = 1; k < 10; k++)
            sum += term *= u / (2 * k + 1);
        return x == 0 ? 0 : x * sum;
    }
    const int n0 = 2 * (int)(0.5 * a / h + 0.5);
    const double off = a - n0 * h;
    double up = exp(2 * off * h), sum = 0;
    const double ratio = up * up;
    for (int k = 0; k < N; k++) { /* adds the terms of n0 + odd and n0 - odd */
        const int odd = 2 * k + 1;
        const double weight = exp(-odd * odd * h * h);
        sum += weight * (up / (n0 + odd) + 1 / (up * (n0 - odd)));
        up *= ratio;
    }
    return copysign(sum * exp(-off * off) * 0.56418958354775629, x);
}

/* Ei(x) for positive x, by its power series (DLMF 6.6.1) and its asymptotic series (DLMF
 * 6.12.2). At x = 40, the smallest term of the asymptotic series is about exp(-40). exp
 * overflows at `end`. */
static double expint(double x, double end)
{
    double term = 1, sum = 0;
    if (!(x >= 0) || isinf(x))
        return NAN;
    if (x == 0)
        return -INFINITY;
    if (x > end)
        return INFINITY;
    if (x <= 40) {
        for (int k = 1; k < 200 && (k < 2 || term / k > sum * 1e-18); k++) {
            term *= x / k;
            sum += term / k;
        }
        return 0.57721566490153286061 + log(x) + sum;
    }
    for (int k = 1; k <= 40 && term > 1e-18; k++) {
        sum += term;
        term *= k / x;
    }
    return exp(x) / x * sum;
}

/*
 * The Chebyshev coefficients of Fresnel's auxiliary functions f and g (DLMF 7.2.10) for x >= 1.6,
 * in the variable 2 (1.6 / x)^2 - 1. f is multiplied by pi x, and g by pi^2 x^3. The coefficients
 * were computed to 60 digits by interpolation at 80 Chebyshev nodes. Coefficients below 2^-56 are
 * left out.
 */
static const double fresnel_f[] = {
    1.9726726402881785,      -0.017434711935667773,   -0.0032843323295990833,
    0.00047917600017883834,  -1.8619619802379466e-5,  -8.1509185400324025e-6,
    2.5877267890134153e-6,   -3.9252934992232016e-7,  -2.1512431919364245e-9,
    2.2836876754584742e-8,   -8.4997267632910145e-9,  1.8421518768732278e-9,
    -1.4095081681722628e-10, -8.8829619051906718e-11, 5.4765892555348866e-11,
    -1.8743019440517344e-11, 4.1638179593038521e-12,  -2.414655884484344e-13,
    -3.2780274095794559e-13, 2.1341331333863225e-13,  -8.459062549380565e-14,
    2.372763092932497e-14,   -3.5165353565159446e-15, -9.8325911708086964e-16,
    1.1098183669411221e-15,  -5.789936116299722e-16,  2.1963730743766773e-16,
    -6.0479700048354603e-17,
};
static const double fresnel_g[] = {
    1.8819999133928573,      -0.073238014959653415,   -0.011080882163852846,
    0.0029448994832483785,   -0.00027899517938683357, -3.8060334305126759e-5,
    2.3134774956082101e-5,   -5.4027917521021354e-6,  5.1741714461171338e-7,
    1.6576137404669198e-7,   -1.0664447578788885e-7,  3.3164596826884672e-8,
    -5.9630275544033642e-9,  -2.1851665767503923e-10, 7.0120395773202277e-10,
    -3.4345936259809138e-10, 1.0849588331952686e-10,  -2.0941744918701921e-11,
    -1.0173533894786215e-12, 3.2150554324359719e-12,  -1.8090293935122656e-12,
    6.8635338363144225e-13,  -1.8272372599934586e-13, 1.9767025312510779e-14,
    1.3818740569078912e-14,  -1.2191672441167435e-14, 6.1354990726400924e-15,
    -2.2998541189935035e-15, 6.1616176018204679e-16,  -5.7032661152139696e-17,
    -6.2902204305656586e-17, 5.5592084837534405e-17,  -2.9938932522527484e-17,
};

/* Sets *s and *c to Fresnel's integrals. As in TensorFlow, they are constant above 36974. */
static void fresnel(double x, double *s, double *c)
{
    const double a = fabs(x), square = a * a;
    if (a > 36974) {
        *s = *c = copysign(0.5, x);
        return;
    }
    if (a < 1.6) { /* power series, DLMF 7.6.4 and 7.6.6 */
        const double t = M_PI_2 * square, u = -t * t;
        double term = 1, sum_c = 0, sum_s = 0;
        for (int k = 0; k < 20; k++) {
            sum_c += term / (4 * k + 1);
            sum_s += term / ((2 * k + 1.) * (4 * k + 3));
            term *= u / ((2 * k + 1.) * (2 * k + 2));
        }
        *c = x * sum_c;
        *s = x * t * sum_s;
        return;
    }
    /* Reduces the angle pi / 2 * a^2 exactly. a^2 is the sum of the doubles `square` and `rest`.
     * The sine and the cosine of the angle have period 4 in a^2. */
    const double rest = fma(a, a, -square), angle = M_PI_2 * (fmod(square, 4) + rest);
    const double w = 2 * (1.6 * 1.6) / square - 1, pi_x = M_PI * a;
    const double f = KN_CHEBYSHEV(fresnel_f, w) / pi_x;
    const double g = KN_CHEBYSHEV(fresnel_g, w) / (pi_x * pi_x * a);
    *c = copysign(0.5 + f * sin(angle) - g * cos(angle), x);
    *s = copysign(0.5 - f * cos(angle) - g * sin(angle), x);
}
static double fresnel_sin(double x)
{
    double s = x, c = x;
    if (!isnan(x))
        fresnel(x, &s, &c);
    return s;
}
static double fresnel_cos(double x)
{
    double s = x, c = x;
    if (!isnan(x))
        fresnel(x, &s, &c);
    return c;
}

/*
 * The dilogarithm of 1 - x for x between 1/2 and 2, as a series in -log(x). The series follows from
 * DLMF 25.12.1 and the generating function of the Bernoulli numbers. Its coefficients are
 * B(2k) / (2k + 1)!.
 */
static double spence_near_one(double x)
{
    static const double c[] = {1. / 36,
                               -1. / 3600,
                               1. / 211680,
                               -1. / 10886400,
                               1. / 526901760,
                               -691. / 16999766784000,
                               1. / 1120863744000,
                               -3617. / 181400588328960000,
                               43867. / 97072790126247936000.};
    const double u = -log(x), q = u * u;
    double sum = 0;
    for (int k = (int)(sizeof c / sizeof *c) - 1; k >= 0; k--)
        sum = sum * q + c[k];
    return u * (1 - u / 4 + q * sum);
}

/* The dilogarithm of 1 - x for x between 0 and 1/2, by reflection (DLMF 25.12.6). */
static double spence_near_zero(double x)
{
    const double zeta2 = 1.6449340668482264365; /* pi^2 / 6 */
    return x == 0 ? zeta2 : zeta2 - log(x) * log1p(-x) - spence_near_one(1 - x);
}

/* Numbers above 2 are inverted (DLMF 25.12.4). */
static double spence(double x)
{
    if (!(x >= 0) || isinf(x))
        return NAN;
    if (x < 0.5)
        return spence_near_zero(x);
    if (x <= 2)
        return spence_near_one(x);
    const double l = log(x);
    return -l * l / 2 - spence_near_zero(x < 1e300 ? 1 / x : 0);
}

#define EXP_END_RT_F32 88.7228390520683
#define EXP_END_RT_F64 709.782712893384
#define DAWSN(dt, x)   dawsn((double)(x))
#define EXPINT(dt, x)  expint((double)(x), EXP_END_##dt)
#define COS(dt, x)     fresnel_cos((double)(x))
#define SIN(dt, x)     fresnel_sin((double)(x))
#define SPENCE(dt, x)  spence((double)(x))
KN_MAP(dawsn, "Dawsn", WIDE, DAWSN)
KN_MAP(expint, "Expint", WIDE, EXPINT)
KN_MAP(fresnel_cos, "FresnelCos", WIDE, COS)
KN_MAP(fresnel_sin, "FresnelSin", WIDE, SIN)
KN_MAP(spence, "Spence", WIDE, SPENCE)
