/*
 * The regularised incomplete gamma functions P (Igamma) and Q (Igammac), the derivative of P with
 * respect to its parameter (IgammaGradA), and the derivative of a gamma sample with respect to its
 * parameter (RandomGammaGrad).
 *
 * Let G = x^a exp(-x) / gamma(a). Each method computes two numbers for one tail of the
 * distribution. `sum` is the tail's probability divided by G. `slope` is the derivative of the
 * probability with respect to a, also divided by G. The density at x is G / x. By the implicit
 * function theorem, the derivative of a sample x is `-dP/da / density`, in which G cancels.
 */
#include "kernels/math/incomplete.h"

#include <float.h>

#include "kernels/math/special.h"

const double kn_gauss_node[KN_GAUSS] = {
    0.076526521133497334, 0.22778585114164508, 0.37370608871541956, 0.5108670019508271,
    0.63605368072651503,  0.74633190646015079, 0.83911697182221882, 0.91223442825132591,
    0.96397192727791379,  0.99312859918509492,
};
const double kn_gauss_weight[KN_GAUSS] = {
    0.15275338713072585,  0.14917298647260375,  0.14209610931838205,  0.13168863844917663,
    0.11819453196151842,  0.10193011981724044,  0.083276741576704749, 0.062672048334109064,
    0.040601429800386941, 0.017614007139152118,
};

double kn_log1p_minus(double d)
{
    if (fabs(d) > 0.3)
        return log1p(d) - d;
    const double s = d / (2 + d), q = s * s;
    double sum = 0;
    for (int k = 25; k >= 3; k -= 2)
        sum = sum * q + 1. / k;
    return 2 * s * q * sum - s * d;
}

struct tail {
    double sum, slope;
    bool upper; /* whether the tail is the one above x */
};

enum {
    MOST = 2000, /* maximum number of terms; the methods below need fewer */
    LARGE = 200, /* from this parameter on, the tail near the mode is integrated numerically */
};

/* Sums the power series of P (DLMF 8.11.4). */
static struct tail lower_series(double a, double x)
{
    double term = 1, d_log = 0, sum = 1, slope = 0;
    for (int k = 1; k < MOST; k++) {
        term *= x / (a + k);
        d_log -= 1 / (a + k); /* the derivative of log(term) */
        sum += term;
        slope += term * d_log;
        if (term < sum * 1e-17 && -term * d_log <= -slope * 1e-17)
            break;
    }
    return (struct tail){sum / a, ((log(x) - kn_psi(a + 1)) * sum + slope) / a, false};
}

/* Evaluates the continued fraction of Q (DLMF 8.9.2) and its derivative with respect to a, by
 * Lentz's method. */
static struct tail upper_fraction(double a, double x)
{
    double b = x + 1 - a, c = 1e300, dc = 0, d = 1 / b, dd = d * d, h = d, dh = dd;
    for (int i = 1; i < MOST; i++) {
        const double num = -i * (i - a);
        b += 2;
        const double den = num * d + b, d_den = i * d + num * dd - 1;
        const double next = b + num / c, d_next = i / c - num * dc / (c * c) - 1;
        d = 1 / (den == 0 ? DBL_MIN : den);
        dd = -d_den * d * d;
        c = next == 0 ? DBL_MIN : next;
        dc = d_next;
        const double factor = c * d, d_factor = dc * d + c * dd;
        dh = dh * factor + h * d_factor;
        h *= factor;
        if (fabs(factor - 1) < 2e-16 && fabs(h * d_factor) <= 2e-16 * fabs(dh))
            break;
    }
    return (struct tail){h, (log(x) - kn_psi(a)) * h + dh, true};
}

/* Integrates the density, divided by the density at x. The interval extends from x away from
 * the mode, for at least ten standard deviations or down to 0. The parameter must be at least
 * LARGE. */
static struct tail integrate(double a, double x)
{
    enum { PANELS = 4 };
    const bool upper = x > a - 1;
    const double psi = kn_psi(a), width = 10 * sqrt(a) + (upper ? 30 : 0);
    double end = upper ? x + width : x - width, sum = 0, slope = 0;
    if (end < 0)
        end = 0;
    const double half = (end - x) / (2 * PANELS);
    for (int i = 0; i < PANELS * 2 * KN_GAUSS; i++) {
        const int panel = i / (2 * KN_GAUSS), k = i % KN_GAUSS;
        const double node = i / KN_GAUSS % 2 ? kn_gauss_node[k] : -kn_gauss_node[k];
        const double off = half * (2 * panel + 1 + node), d = off / x;
        /* the logarithm of density(x + off) / density(x) */
        const double log_ratio = (a - 1) * kn_log1p_minus(d) + (a - 1 - x) * d;
        const double part = kn_gauss_weight[k] * exp(log_ratio);
        sum += part;
        slope += part * (log(x) + log1p(d) - psi);
    }
    const double scale = fabs(half) / x;
    return (struct tail){sum * scale, slope * scale, upper};
}

/* Returns the logarithm of G. */
static double log_front(double a, double x)
{
    const double d = (x - a) / a;
    if (a < LARGE)
        return a * log(x) - x - kn_log_gamma(a);
    return a * kn_log1p_minus(d) + 0.5 * log(a / (2 * M_PI)) - kn_stirling_rest(a);
}

static struct tail tail_of(double a, double x)
{
    if (a >= LARGE && fabs(x - a) < 0.3 * a)
        return integrate(a, x);
    return x > 1 && x > a ? upper_fraction(a, x) : lower_series(a, x);
}

/* Returns P or Q. As in TensorFlow, a tail is 0 if G underflows in the op's type. `least` is
 * approximately the logarithm of the type's smallest normal number. */
static double igamma(double a, double x, bool complement, double least)
{
    if (!complement && x == 0)
        return 0;
    if (!(a > 0) || !(x >= 0))
        return NAN;
    if (x == 0 || (complement && isinf(x)) || isinf(a))
        return complement ? !isinf(x) : 0;
    if (isinf(x))
        return 1;
    const double front = log_front(a, x);
    const struct tail t = front < least ? (struct tail){0, 0, x > 1 && x > a} : tail_of(a, x);
    const double p = exp(front) * t.sum;
    return t.upper == complement ? p : 1 - p;
}

static double igamma_slope(double a, double x, bool of_sample, double least)
{
    if (x == 0)
        return 0;
    if (!(a > 0) || !(x >= 0))
        return NAN;
    if (isinf(a) || isinf(x))
        return 0;
    const double front = log_front(a, x);
    if (front < least)
        return 0;
    const struct tail t = tail_of(a, x);
    const double of_lower = t.upper ? -t.slope : t.slope;
    return of_sample ? -of_lower * x : of_lower * exp(front);
}

enum { WORK = 4000 }; /* cost of one element in units of rt_run_spend */
#define LEAST_RT_F32          -88.7228390520683
#define LEAST_RT_F64          -709.782712893384
#define IGAMMA(dt, a, x)      igamma((double)(a), (double)(x), false, LEAST_##dt)
#define IGAMMAC(dt, a, x)     igamma((double)(a), (double)(x), true, LEAST_##dt)
#define GRAD_A(dt, a, x)      igamma_slope((double)(a), (double)(x), false, LEAST_##dt)
#define GRAD_SAMPLE(dt, a, x) igamma_slope((double)(a), (double)(x), true, LEAST_##dt)
KN_FOR_WIDE(KN_BINARY_SAME, igamma, IGAMMA)
KN_BINARY_SLOW(igamma, "Igamma", WIDE, NULL, WORK)
KN_FOR_WIDE(KN_BINARY_SAME, igammac, IGAMMAC)
KN_BINARY_SLOW(igammac, "Igammac", WIDE, NULL, WORK)
KN_FOR_WIDE(KN_BINARY_SAME, igamma_grad_a, GRAD_A)
KN_BINARY_SLOW(igamma_grad_a, "IgammaGradA", WIDE, NULL, WORK)
KN_FOR_WIDE(KN_BINARY_SAME, random_gamma_grad, GRAD_SAMPLE)
KN_BINARY_SLOW(random_gamma_grad, "RandomGammaGrad", WIDE, NULL, WORK)
