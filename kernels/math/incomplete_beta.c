/*
 * The regularised incomplete beta function (Betainc). Each of its three inputs has the shape of the
 * output or is a scalar.
 */
#include "kernels/math/incomplete.h"

#include <float.h>

#include "kernels/cpu/parallel.h"
#include "kernels/math/special.h"

enum {
    MOST = 2000, /* maximum number of terms of the continued fraction */
    /* from this parameter on, the density is nearly normal and is integrated numerically */
    LARGE = 200,
    WORK = 4000, /* cost of one element in units of rt_run_spend */
};

/* Evaluates the continued fraction DLMF 8.17.22 by Lentz's method. It converges fast for x below
 * the mean. */
static double beta_fraction(double a, double b, double x)
{
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (d == 0 ? DBL_MIN : d);
    double h = d;
    for (int m = 1; m < MOST; m++) {
        const double m2 = 2. * m;
        const double even = m * (b - m) * x / ((a + m2 - 1) * (a + m2));
        const double odd = -(a + m) * (a + b + m) * x / ((a + m2) * (a + m2 + 1));
        double factor = 1;
        for (int k = 0; k < 2; k++) {
            const double num = k ? odd : even;
            d = 1 + num * d;
            c = 1 + num / c;
            d = 1 / (d == 0 ? DBL_MIN : d);
            c = c == 0 ? DBL_MIN : c;
            factor = c * d;
            h *= factor;
        }
        if (fabs(factor - 1) < 2e-16)
            break;
    }
    return h;
}

/* Returns log(x^a (1 - x)^b / B(a, b)). For large a and b, all terms are computed relative to the
 * mean, where they nearly cancel. */
static double log_front(double a, double b, double x)
{
    const double n = a + b, mean = a / n, off = x - mean;
    if (a < LARGE || b < LARGE)
        return a * log(x) + b * log1p(-x) + kn_log_gamma(n) - kn_log_gamma(a) - kn_log_gamma(b);
    return a * kn_log1p_minus(off / mean) + b * kn_log1p_minus(-off / (b / n)) +
           0.5 * log(a / n * b / (2 * M_PI)) + kn_stirling_rest(n) - kn_stirling_rest(a) -
           kn_stirling_rest(b);
}

/* Returns the integral of the density below x, divided by x^a (1 - x)^b / B(a, b), for x below the
 * mean. The integral extends over ten standard deviations. */
static double integrate(double a, double b, double x)
{
    enum { PANELS = 4 };
    const double n = a + b, width = 10 * sqrt(a / n * (b / n) / n);
    const double half = (x > width ? width : x) / (2 * PANELS), rest = 1 - x;
    double sum = 0;
    for (int i = 0; i < PANELS * 2 * KN_GAUSS; i++) {
        const int panel = i / (2 * KN_GAUSS), k = i % KN_GAUSS;
        const double node = i / KN_GAUSS % 2 ? kn_gauss_node[k] : -kn_gauss_node[k];
        const double off = -half * (2 * panel + 1 + node);
        /* the logarithm of density(x + off) / density(x) */
        const double log_ratio = (a - 1) * log1p(off / x) + (b - 1) * log1p(-off / rest);
        sum += kn_gauss_weight[k] * exp(log_ratio);
    }
    return sum * half / (x * rest);
}

static double betainc(double a, double b, double x)
{
    if (a <= 0 || b <= 0 || isnan(x))
        return NAN;
    if (x == 0 || x == 1)
        return x;
    if (!(x > 0 && x < 1) || !isfinite(a) || !isfinite(b))
        return NAN;
    const bool flip = x > (a + 1) / (a + b + 2);
    const double p = flip ? b : a, q = flip ? a : b, y = flip ? 1 - x : x;
    /* log_front receives x instead of y, because the subtraction 1 - x may have lost bits of x. */
    const double front = exp(log_front(a, b, x));
    const bool near_normal = p >= LARGE && q >= LARGE && y > 0.5 * p / (p + q);
    const double tail = front * (near_normal ? integrate(p, q, y) : beta_fraction(p, q, y) / p);
    return flip ? 1 - tail : tail;
}

static enum rt_status betainc_infer(struct rt_infer *x)
{
    static const char pair[3][2] = {{0, 1}, {0, 2}, {1, 2}};
    const char *const name = "abx";
    const struct rt_shape *whole = &x->in[0].shape;
    bool known = true;

    for (int i = 0; i < 3; i++) {
        const struct rt_shape *s = &x->in[(int)pair[i][0]].shape,
                              *t = &x->in[(int)pair[i][1]].shape;
        char ts[160], tt[160];
        if (!kn_shape_known(s) || !kn_shape_known(t) || !s->rank || !t->rank || kn_shape_eq(s, t))
            continue;
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Shapes of %c and %c are inconsistent: %s vs. %s", name[(int)pair[i][0]],
                       name[(int)pair[i][1]], rt_shape_text(ts, sizeof ts, s->rank, s->dim),
                       rt_shape_text(tt, sizeof tt, t->rank, t->dim));
    }
    for (int k = 0; k < 3; k++) {
        known = known && kn_shape_known(&x->in[k].shape);
        if (x->in[k].shape.rank > 0)
            whole = &x->in[k].shape;
    }
    if (known || whole->rank > 0)
        x->out[0].shape = *whole;
    return RT_OK;
}

#define BETAINC(dt, T)                                                                             \
    case dt:                                                                                       \
        for (int64_t i = from; i < to; i++) {                                                      \
            const T a = ((const T *)r->in[0].data)[r->in[0].rank ? i : 0];                         \
            const T b = ((const T *)r->in[1].data)[r->in[1].rank ? i : 0];                         \
            const T x = ((const T *)r->in[2].data)[r->in[2].rank ? i : 0];                         \
            ((T *)r->out[0].data)[i] = (T)betainc((double)a, (double)b, (double)x);                \
            if (rt_run_spend(r, &r->left, WORK))                                                   \
                return r->err->code;                                                               \
        }                                                                                          \
        break;

static enum rt_status betainc_rows(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    (void)arg;
    switch (r->in[0].dtype) {
        KN_FLOATS(BETAINC)
    default:
        break;
    }
    return RT_OK;
}

static enum rt_status betainc_run(struct rt_run *r)
{
    return kn_parallel_rows(r, rt_tensor_count(&r->out[0]), WORK, 1, betainc_rows, NULL);
}

const struct kn_entry kn_betainc = {
    .op = {.name = "Betainc", .infer = betainc_infer, .rows = rt_rows_each},
    .kernels = KN_CPU("Betainc", "betainc", KN_SET(KN_FLOATS), NULL, betainc_run),
};
