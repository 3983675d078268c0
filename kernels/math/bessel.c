/*
 * Bessel functions of orders 0 and 1. I and K, and their versions scaled by the exponential
 * function (I0e and so on), are computed here. J and Y are functions of the C library.
 *
 * For small arguments, I and K are computed by power series (DLMF 10.25.2 and 10.31.1). For large
 * arguments, they are computed by Chebyshev expansions in the reciprocal of the argument. The
 * coefficients of the expansions were computed to 40 digits by interpolation at 80 Chebyshev nodes.
 * Coefficients below 2^-56 are left out.
 */
#include <math.h>

#include "kernels/math/special.h"

/* The coefficients of the Chebyshev expansion of sqrt(x) exp(-x) I(x) in the variable 16 / x - 1,
 * for x >= 8. */
static const double large_i0[] = {
    0.80449041101410883,     0.0033691164782556941,   6.889758346916824e-5,
    2.8913705208347565e-6,   2.0489185894690637e-7,   2.2666689904981781e-8,
    3.3962320257083863e-9,   4.9406023882249696e-10,  1.1889147107846438e-11,
    -3.1499165279632414e-11, -1.3215811840447713e-11, -1.7941785315068061e-12,
    7.1801244513836662e-13,  3.8527783827421427e-13,  1.5400862175214098e-14,
    -4.1505693472872221e-14, -9.5548466988283076e-15, 3.8116806693526224e-15,
    1.7725601330565264e-15,  -3.4254856196772191e-16, -2.8276239805165835e-16,
    3.4612228676974611e-17,  4.46562142029676e-17,
};
static const double large_i1[] = {
    0.77857623501828012,     -0.0097610974913614684,  -0.00011058893876262372,
    -3.8825648088776904e-6,  -2.5122362378702089e-7,  -2.6314688468895195e-8,
    -3.835380385964237e-9,   -5.5897434621965838e-10, -1.8974958123505412e-11,
    3.2526035830154882e-11,  1.4125807436613781e-11,  2.0356285441470895e-12,
    -7.1985517762459085e-13, -4.0835511110921973e-13, -2.1015418427726643e-14,
    4.2724400167119514e-14,  1.0420276984128803e-14,  -3.8144030724370078e-15,
    -1.8803547755107824e-15, 3.3082023109209283e-16,  2.9626289976459501e-16,
    -3.209525921993424e-17,  -4.6503053684893583e-17,
};
/* The coefficients of the Chebyshev expansion of sqrt(x) exp(x) K(x) in the variable 4 / x - 1, for
 * x >= 2. */
static const double large_k0[] = {
    2.4403030820659555,      -0.031448101311964501,   0.0015698838857300534,
    -0.00012849549581627803, 1.3949813718876499e-5,   -1.8317555227191195e-6,
    2.7668136394450151e-7,   -4.6604898976879477e-8,  8.5740340174142261e-9,
    -1.6975345093890615e-9,  3.5773972814003284e-10,  -7.957489244477397e-11,
    1.8559491149549266e-11,  -4.5145978833745192e-12, 1.1403405882073442e-12,
    -2.9800969231481784e-13, 8.0328907750683744e-14,  -2.2275133267462964e-14,
    6.340076476276646e-15,   -1.8485933779209072e-15, 5.5120559994043334e-16,
    -1.6782311257549006e-16, 5.2103917776435541e-17,
};
static const double large_k1[] = {
    2.7206261904844427,      0.10392373657681724,     -0.0028578168596227794,
    0.00019521551847135163,  -1.936197974166083e-5,   2.4064849478372171e-6,
    -3.5019606030878125e-7,  5.7410841254500493e-8,   -1.0345762465678097e-8,
    2.0150497551970346e-9,   -4.1903547593419256e-10, 9.2183151876053141e-11,
    -2.129967838427791e-11,  5.1396396734823435e-12,  -1.2891739609498229e-12,
    3.3484196660522431e-13,  -8.9767051820101461e-14, 2.4771544242195987e-14,
    -7.0198370892147689e-15, 2.0387031662398609e-15,  -6.0570472706430178e-16,
    1.8380935752430454e-16,  -5.6894628491936484e-17,
};

/* Returns the power series of I of order n (0 or 1), divided by (x / 2)^n. */
static double series_i(int n, double x)
{
    const double q = x * x / 4;
    double term = 1, sum = 1;
    for (int k = 1; term > sum * 1e-17; k++) {
        term *= q / ((double)k * (k + n));
        sum += term;
    }
    return sum;
}

static double bessel_i0e(double x)
{
    const double a = fabs(x);
    if (a <= 8)
        return exp(-a) * series_i(0, a);
    return KN_CHEBYSHEV(large_i0, 16 / a - 1) / sqrt(a);
}

static double bessel_i1e(double x)
{
    const double a = fabs(x);
    const double y =
        a <= 8 ? exp(-a) * series_i(1, a) * (a / 2) : KN_CHEBYSHEV(large_i1, 16 / a - 1) / sqrt(a);
    return x < 0 ? -y : y;
}

/*
 * Returns K of order n (0 or 1) for 0 < x <= 2 (DLMF 10.31.1). The power series is that of I, with
 * term k multiplied by digamma(k + 1) + digamma(k + n + 1). The other terms are I times the
 * logarithm of x / 2 and, for order 1, 1 / x.
 */
static double series_k(int n, double x)
{
    const double q = x * x / 4, euler = 0.57721566490153286061;
    double term = 1, psi = -2 * euler + n, sum = psi;
    for (int k = 1; k < 20; k++) {
        term *= q / ((double)k * (k + n));
        psi += 1. / k + 1. / (k + n);
        sum += term * psi;
    }
    const double i = series_i(n, x);
    if (n == 0)
        return sum / 2 - log(x / 2) * i;
    return 1 / x + log(x / 2) * i * (x / 2) - sum * (x / 4);
}

/* Returns exp(x) K(x). As in TensorFlow, K is infinite for every x that is not positive. */
static double bessel_ke(int n, double x)
{
    if (x <= 0)
        return INFINITY;
    if (x <= 2)
        return exp(x) * series_k(n, x);
    return (n ? KN_CHEBYSHEV(large_k1, 4 / x - 1) : KN_CHEBYSHEV(large_k0, 4 / x - 1)) / sqrt(x);
}

static double bessel_k(int n, double x)
{
    if (x > 0 && x <= 2)
        return series_k(n, x);
    return x <= 0 ? INFINITY : exp(-x) * bessel_ke(n, x);
}

/* As in TensorFlow, J and Y of infinity are NaN. Y of a number that is not positive is minus
 * infinity, but Y1 of zero is NaN in float. */
static double bessel_j(int n, double x)
{
    return isinf(x) ? NAN : n ? j1(x) : j0(x);
}
static double bessel_y(int n, double x)
{
    if (x <= 0)
        return -INFINITY;
    return isinf(x) ? NAN : n ? y1(x) : y0(x);
}

/* In half and single precision, exp(|x|) may overflow before it is multiplied. */
#define GROWTH(dt, x)     (fabs((double)(x)) > GROWTH_END_##dt ? INFINITY : exp(fabs((double)(x))))
#define GROWTH_END_RT_F16 88.7228390520683
#define GROWTH_END_RT_F32 88.7228390520683
#define GROWTH_END_RT_F64 709.782712893384

#define I0E(dt, x) bessel_i0e((double)(x))
#define I1E(dt, x) bessel_i1e((double)(x))
#define I0(dt, x)  (GROWTH(dt, x) * I0E(dt, x))
#define I1(dt, x)  (GROWTH(dt, x) * I1E(dt, x))
#define K0E(dt, x) bessel_ke(0, (double)(x))
#define K1E(dt, x) bessel_ke(1, (double)(x))
#define K0(dt, x)  bessel_k(0, (double)(x))
#define K1(dt, x)  bessel_k(1, (double)(x))
#define J0(dt, x)  bessel_j(0, (double)(x))
#define J1(dt, x)  bessel_j(1, (double)(x))
#define Y0(dt, x)  bessel_y(0, (double)(x))
#define Y1(dt, x)  ((dt) != RT_F64 && (x) == 0 ? NAN : bessel_y(1, (double)(x)))

KN_MAP(bessel_i0, "BesselI0", WIDE_F16, I0)
KN_MAP(bessel_i0e, "BesselI0e", WIDE_F16, I0E)
KN_MAP(bessel_i1, "BesselI1", WIDE_F16, I1)
KN_MAP(bessel_i1e, "BesselI1e", WIDE_F16, I1E)
KN_MAP(bessel_j0, "BesselJ0", WIDE_F16, J0)
KN_MAP(bessel_j1, "BesselJ1", WIDE_F16, J1)
KN_MAP(bessel_k0, "BesselK0", WIDE_F16, K0)
KN_MAP(bessel_k0e, "BesselK0e", WIDE_F16, K0E)
KN_MAP(bessel_k1, "BesselK1", WIDE_F16, K1)
KN_MAP(bessel_k1e, "BesselK1e", WIDE_F16, K1E)
KN_MAP(bessel_y0, "BesselY0", WIDE_F16, Y0)
KN_MAP(bessel_y1, "BesselY1", WIDE_F16, Y1)
