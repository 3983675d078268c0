/*
 * Special functions: the error function, normal quantiles, gamma functions.
 */
#include "kernels/math/special.h"
#include "kernels/cpu/vec_math.h"

#include <math.h>

#define KN_FOR_F32_HALFS(M, ...) M(RT_F32, float, __VA_ARGS__) KN_FOR_HALFS(M, __VA_ARGS__)

#define ERF_VEC(dt, x) kn_erf_f32(x)
#define ERF(dt, x)     erf(x)
KN_FOR_F32_HALFS(KN_MAP_SAME, erf, ERF_VEC)
KN_MAP_SAME(RT_F64, double, erf, ERF)
KN_MAP_OP(erf, "Erf", FLOATS)

#define ERFC_F(dt, x) kn_erfc_f32(x)
#define ERFC(dt, x)   erfc(x)
KN_FOR_F32_HALFS(KN_MAP_SAME, erfc, ERFC_F)
KN_MAP_SAME(RT_F64, double, erfc, ERFC)
KN_MAP_OP(erfc, "Erfc", FLOATS)

/*
 * Returns the z at which the upper tail probability of the normal distribution is q <= 1/2. The
 * initial value is the leading term of the tail's expansion. Halley's method then solves `log
 * tail(z) = log q`. Four steps reach the precision of double, because log tail(z) is nearly
 * quadratic in z.
 */
static double upper_quantile(double q)
{
    const double t = sqrt(-2 * log(q));
    double z = q > 0.4 ? (0.5 - q) * 2.5066282746310002 : t - log(t * 2.5066282746310002) / t;
    if (!(z > 0))
        z = 0;
    for (int i = 0; i < 6; i++) {
        double ratio, off; /* `ratio` is `-d(log tail)/dz`, and `off` is `log(tail / q)` */
        if (z < 36) {
            const double tail = erfc(z * M_SQRT1_2) / 2;
            const double density = exp(-z * z / 2) * 0.39894228040143268;
            ratio = density / tail;
            off = log(tail / q);
        } else {
            /* The tail probability may be subnormal or zero, so its logarithm is computed
             * directly. */
            const double u = 1 / (z * z);
            const double series = 1 - u * (1 - u * (3 - u * (15 - u * (105 - u * 945))));
            ratio = z / series;
            off = log(series) - z * z / 2 - log(z * 2.5066282746310002) - log(q);
        }
        const double f = off / ratio; /* the step that Newton's method would take */
        /* the second derivative of log(tail), divided by the first derivative */
        const double curve = ratio - z;
        const double step = f / (1 + f * curve / 2);
        z += step;
        if (fabs(step) < 1e-16 * z)
            break;
    }
    return z;
}

static double ndtri(double p)
{
    if (!(p >= 0 && p <= 1))
        return NAN;
    if (p == 0 || p == 1)
        return p == 0 ? -INFINITY : INFINITY;
    if (p == 0.5)
        return 0;
    return p < 0.5 ? -upper_quantile(p) : upper_quantile(1 - p);
}

static double erfinv(double x)
{
    const double a = fabs(x);
    if (!(a <= 1))
        return NAN;
    if (a == 1)
        return copysign(INFINITY, x);
    double z = upper_quantile((1 - a) / 2) * M_SQRT1_2;
    if (a < 0.5) /* computing 1 - a loses low-order bits of a */
        z -= (erf(z) - a) * exp(z * z) * 0.88622692545275801;
    return copysign(z, x);
}

#define NDTRI(dt, x)  ndtri((double)(x))
#define ERFINV(dt, x) erfinv((double)(x))
KN_MAP(ndtri, "Ndtri", WIDE, NDTRI)
KN_MAP(erfinv, "Erfinv", WIDE, ERFINV)

/* ---- gamma ---- */

double kn_log_gamma(double x)
{
    int sign; /* lgamma(), unlike lgamma_r(), writes a global variable */
    return lgamma_r(x, &sign);
}

/* The asymptotic series is accurate only for large x, so x is
 * first reflected if it is not positive, and then increased. */
double kn_psi(double x)
{
    double y = 0;
    if (x <= 0) {
        if (x == floor(x))
            return NAN;
        /* subtracting round(x) keeps the result accurate near a pole */
        y = -M_PI / tan(M_PI * (x - round(x)));
        x = 1 - x;
    }
    for (; x < 10; x++)
        y -= 1 / x;
    const double z = 1 / (x * x);
    const double series =
        z * (1. / 12 -
             z * (1. / 120 -
                  z * (1. / 252 - z * (1. / 240 - z * (1. / 132 - z * (691. / 32760 - z / 12))))));
    return y + log(x) - 0.5 / x - series;
}

#define LGAMMA(dt, x)  kn_log_gamma((double)(x))
#define DIGAMMA(dt, x) kn_psi((double)(x))
KN_MAP(lgamma, "Lgamma", WIDE_F16, LGAMMA)
KN_MAP(digamma, "Digamma", WIDE_F16, DIGAMMA)
