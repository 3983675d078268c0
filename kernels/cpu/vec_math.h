/*
 * float32 functions without branches or calls, so that a loop over them vectorises. Each is within
 * 3 units in the last place of the exact value (6 units for erfc; see kn_gelu_f32 for gelu), with
 * and without fused multiply-adds. NaN stays NaN, and infinite arguments and overflow yield the
 * correct limits. Results below the smallest normal number may be rounded to zero.
 *
 * The polynomials were fitted to their intervals by reweighted least squares; the error of the fit
 * is far below the precision of float.
 */
#ifndef KN_CPU_VEC_MATH_H
#define KN_CPU_VEC_MATH_H

#include <math.h>

#include "kernels/cpu/half.h"

/* Returns `yes ? a : b`. Without the bit operations, a compiler would use a branch. */
static inline float kn_select(int yes, float a, float b)
{
    const uint32_t mask = 0 - (uint32_t)(yes != 0);
    return kn_bits_float((kn_float_bits(a) & mask) | (kn_float_bits(b) & ~mask));
}

static inline float kn_copysign(float size, float sign)
{
    return kn_bits_float((kn_float_bits(size) & 0x7fffffff) | (kn_float_bits(sign) & 0x80000000));
}

static inline float kn_absf(float x)
{
    return kn_bits_float(kn_float_bits(x) & 0x7fffffff);
}

/* Adding KN_ROUNDER to a float of magnitude below 2^22 and then subtracting KN_ROUNDER rounds the
 * float to an integer. The low bits of the sum are this integer. */
#define KN_ROUNDER 0x1.8p23f

/* Polynomials for floats and for vectors of floats. Each macro sets its first argument to the value
 * of the polynomial at its second argument. */
#define KN_EXP_POLYNOMIAL(p, r)                                                                    \
    do {                                                                                           \
        p = r * 1.381443348e-03f + 8.368796669e-03f;                                               \
        p = p * r + 4.166839644e-02f;                                                              \
        p = p * r + 1.666651964e-01f;                                                              \
        p = p * r + 4.999999404e-01f;                                                              \
    } while (0)
#define KN_TANH_POLYNOMIAL(p, z)                                                                   \
    do {                                                                                           \
        p = z * -5.603875917e-03f + 2.055168036e-02f;                                              \
        p = p * z - 5.371409340e-02f;                                                              \
        p = p * z + 1.333115261e-01f;                                                              \
        p = p * z - 3.333327207e-01f;                                                              \
    } while (0)
#define KN_ERFC_POLYNOMIAL(q, s)                                                                   \
    do {                                                                                           \
        q = s * 1.66259226e-02f - 7.06296696e-02f;                                                 \
        q = q * s + 4.54439009e-02f;                                                               \
        q = q * s + 9.81223540e-02f;                                                               \
        q = q * s - 1.02884886e-01f;                                                               \
        q = q * s - 1.72083988e-01f;                                                               \
        q = q * s + 1.45741042e-01f;                                                               \
        q = q * s + 5.58944664e-01f;                                                               \
        q = q * s + 6.87160958e-01f;                                                               \
        q = q * s + 5.10791350e-01f;                                                               \
    } while (0)
/* exp(x) = 2^k exp(r), where k is x * KN_LOG2_E rounded and r = (x - k * KN_LN2_HIGH) - k *
 * KN_LN2_LOW. The constant ln 2 is split into KN_LN2_HIGH and KN_LN2_LOW. KN_LN2_HIGH has so few
 * bits that k * KN_LN2_HIGH is exact. */
#define KN_LOG2_E   0x1.715476p0f
#define KN_LN2      0x1.62e430p-1f
#define KN_LN2_HIGH 0x1.62e4p-1f
#define KN_LN2_LOW  0x1.7f7d1cp-20f
/* Below KN_EXP_LEAST, exp is below the smallest normal number. At and above KN_EXP_MOST, it is
 * infinite. */
#define KN_EXP_LEAST (-0x1.5d58a0p6f)
#define KN_EXP_MOST  0x1.62e430p6f

static inline float kn_exp_f32(float x)
{
    /* `x = k ln 2 + r`, where |r| <= ln(2) / 2 */
    const float t = x * KN_LOG2_E + KN_ROUNDER;
    const float k = t - KN_ROUNDER;
    const float r = (x - k * KN_LN2_HIGH) - k * KN_LN2_LOW;
    float p;
    KN_EXP_POLYNOMIAL(p, r);
    const float e = 1.0f + (r + r * r * p);
    /* Multiplies e by 2^k, by adding k to the exponent bits. If the sum is not a valid exponent,
     * the result is below the smallest normal number, infinite or NaN, and the kn_select calls
     * below set it. */
    const float y = kn_bits_float(kn_float_bits(e) + (kn_float_bits(t) << 23));
    const float not_tiny = kn_select(x < KN_EXP_LEAST, 0.0f, y);
    return kn_select(x < KN_EXP_MOST, not_tiny, x + INFINITY);
}

static inline float kn_expm1_f32(float x)
{
    float p = 2.497023198e-05f;
    p = p * x + 1.997402157e-04f;
    p = p * x + 1.388854353e-03f;
    p = p * x + 8.333140744e-03f;
    p = p * x + 4.166666927e-02f;
    p = p * x + 1.666666746e-01f;
    p = p * x + 5.000000000e-01f;
    const float near_zero = x + x * x * p, far = kn_exp_f32(x) - 1.0f;
    const float y = kn_select(kn_absf(x) < 0.5f, near_zero, far);
    return kn_select(x == 0, x, y); /* a zero is returned unchanged, with the sign of -0.0 */
}

static inline float kn_log_f32(float x)
{
    const int is_small = x < 0x1p-126f; /* subnormal numbers are scaled up first */
    const float s = kn_select(is_small, x * 0x1p25f, x);
    const uint32_t u = kn_float_bits(s);
    /* `s = 2^k (1 + m)`, where 1 + m is in [sqrt(1/2), sqrt(2)) */
    const uint32_t up = u - 0x3f3504f3;
    const float k = (float)((int32_t)up >> 23) - kn_select(is_small, 25.0f, 0.0f);
    const float m = kn_bits_float((up & 0x007fffff) + 0x3f3504f3) - 1.0f;
    float q = 6.915164607e-02f;
    q = q * m - 1.178970477e-01f;
    q = q * m + 1.187301320e-01f;
    q = q * m - 1.238436852e-01f;
    q = q * m + 1.421865562e-01f;
    q = q * m - 1.666924957e-01f;
    q = q * m + 2.000222670e-01f;
    q = q * m - 2.499998662e-01f;
    q = q * m + 3.333331044e-01f;
    const float m2 = m * m;
    /* Adding zero rounds t separately. In a sum of two products, a compiler may fuse either product
     * with the addition, and may choose differently in a vectorised loop and in its remainder. */
    const float t = m2 * m * q + 0.0f;
    float y = k * KN_LN2_LOW + t;
    y = (y - 0.5f * m2) + m + k * KN_LN2_HIGH;
    y = kn_select(x == 0, -INFINITY, y);
    y = kn_select(x < 0, NAN, y);
    return kn_select(x < INFINITY, y, x); /* if x is +infinity or NaN, its logarithm is x itself */
}

static inline float kn_log1p_f32(float x)
{
    /* log1p(x) is the logarithm of u, with a correction for the rounding error of u, where u is 1 +
     * x rounded. */
    const float u = 1.0f + x;
    const float y = kn_log_f32(u) * (x / (u - 1.0f));
    return kn_select(u == 1.0f, x, kn_select(x < INFINITY, y, x));
}

static inline float kn_tanh_f32(float x)
{
    const float a = kn_absf(x), z = x * x;
    float p;
    KN_TANH_POLYNOMIAL(p, z);
    const float near_zero = x + x * (z * p);
    const float far = 1.0f - 2.0f / (kn_exp_f32(2.0f * a) + 1.0f);
    /* kn_copysign restores the sign of x, even of -0.0 */
    return kn_copysign(kn_select(a < 0.625f, near_zero, far), x);
}

static inline float kn_sigmoid_f32(float x)
{
    return 1.0f / (1.0f + kn_exp_f32(-x));
}

static inline float kn_erf_f32(float x)
{
    const float a = kn_absf(x), z = x * x;
    float p = -9.680124216e-06f;
    p = p * z + 1.127054025e-04f;
    p = p * z - 8.484710870e-04f;
    p = p * z + 5.221074839e-03f;
    p = p * z - 2.686544581e-02f;
    p = p * z + 1.128378275e-01f;
    p = p * z - 3.761263848e-01f;
    p = p * z + 1.128379167e+00f;
    /* For a >= 1, a polynomial gives -log(1 - erf(a)). For a >= 4, erf(a) rounds to 1. */
    /* gcc would compile `?:` with the constant 4 to a branch instead of a conditional selection. */
    const float c = kn_select(a > 4.0f, 4.0f, a);
    float q = 2.168710718e-05f;
    q = q * c - 4.413395306e-04f;
    q = q * c + 4.204578095e-03f;
    q = q * c - 2.520830214e-02f;
    q = q * c + 1.084186520e-01f;
    q = q * c + 6.332198208e-01f;
    q = q * c + 1.129578462e+00f;
    q = q * c - 1.880486712e-04f;
    return kn_select(a < 1.0f, x * p, kn_copysign(1.0f - kn_exp_f32(-q), x));
}

/* Computes `erfc(a) = exp(-a * a) t q(t)` with `t = 1 / (1 + a / 2)`, where the polynomial q is
 * fitted to within 4e-8. The square of a is split into two parts so that its rounding error does
 * not grow in the exponential. */
static inline float kn_erfc_f32(float x)
{
    const float b = kn_absf(x);
    /* erfc underflows to 0 for arguments of 10.1 and above */
    const float a = kn_select(b > 11.0f, 11.0f, b);
    const float t = 1.0f / (1.0f + 0.5f * a);
    const float s = t - 0.5f;
    float q;
    KN_ERFC_POLYNOMIAL(q, s);
    /* `high` is a without the lower half of its mantissa. */
    const float high = kn_bits_float(kn_float_bits(a) & 0xfffff000);
    const float low = (a - high) * (a + high);
    float rest = 1.0f - low * 0.25f; /* `rest` is exp(-low), which is at least 0.94. */
    rest = 1.0f - low * (1.0f / 3) * rest;
    rest = 1.0f - low * 0.5f * rest;
    rest = 1.0f - low * rest;
    const float y = kn_exp_f32(-(high * high)) * (rest * (t * q));
    return kn_select(x < 0.0f, 2.0f - y, y);
}

/*
 * Returns x times the cumulative normal distribution of x, which is x / 2 * erfc(-x / sqrt(2)). The
 * tail probability beyond |x| is approximated by exp(-x * x / 2) times a polynomial in 1 / (1 + 0.3
 * |x|).
 *
 * The relative error is below 5e-6, or below 1e-6 if the value is above 1e-6. Without fused
 * multiply-adds, these bounds are twice as large.
 */
static inline float kn_gelu_f32(float x)
{
    const uint32_t bits = kn_float_bits(x), zero = 0x80000000; /* `zero` has the bits of -0.0 */
    const float below = kn_bits_float(bits | zero);
    /* the normal distribution's tail probability below -13.25 is treated as 0 */
    const float b = -13.25f > below ? -13.25f : below;
    const float t = 1.0f / (1.0f - 0.3f * b);
    float q = t * 3.608882024e-02f - 1.589336622e-01f;
    q = q * t + 2.093462892e-01f;
    q = q * t - 5.645001820e-02f;
    q = q * t + 1.300325853e-01f;
    q = q * t + 9.946507135e-02f;
    q = q * t + 1.208263138e-01f;
    q = q * t + 1.196245410e-01f;
    /* exp(-b * b / 2) is 2^k 2^f. The low bits of u are k + 127, the exponent of the float 2^k. */
    const float rounder = KN_ROUNDER + 127, z = b * b;
    const float u = z * (-0.5f * KN_LOG2_E) + rounder;
    const float k = u - rounder;
    const float f = z * (-0.5f * KN_LOG2_E) - k;
    float p = f * 1.326464535e-03f + 9.671576446e-03f;
    p = p * f + 5.550734516e-02f;
    p = p * f + 2.402224111e-01f;
    p = p * f + 6.931469769e-01f;
    const float size = kn_bits_float(kn_float_bits(u) << 23);
    const float share = (size + size * (f * p)) * (t * q);
    /* The result is `x - x * share` for positive x and `x * share` (NaN for -inf) for negative x.
     * The first term, x or -0.0, is chosen by a comparison of unsigned integers, in which all
     * negative numbers are above -0.0. A float comparison could choose either of 0.0 and -0.0. */
    return kn_bits_float(bits < zero ? bits : zero) + (x < b ? x : b) * share;
}

#endif
