/*
 * Ops that draw from gamma, Poisson and binomial distributions, whose parameters are tensors. Each
 * sample uses its own part of the generator's numbers, so that it depends on nothing but its
 * position and parameters.
 */
#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/math/elementwise.h"
#include "kernels/random/source.h"
#include "kernels/string/text.h"
#include "runtime/base/checked.h"

/* The work per attempt to draw a sample, in units of rt_run_spend. */
enum { COST = 64 };

struct sampling {
    struct rt_run *r;
    int64_t left;
    enum rt_dtype dtype;
    struct kn_philox philox;
    struct kn_doubles uniform, normal; /* numbers that have been drawn but not used */
    uint64_t n_reserved;               /* number of counter values per sample */
    /* binomial distribution: the probability and its complement, rounded to the type of the
     * input */
    double probability, complement;
    bool is_large; /* whether samples are drawn by large_binomial */
};

static double uniform(struct sampling *s)
{
    return kn_next_uniform(&s->uniform, &s->philox);
}

typedef enum rt_status sampler(struct sampling *s, double p, double *out);

/* ---- gamma distribution: Marsaglia and Tsang, "A simple method for generating gamma
 * variables", 2000. If alpha is below 1, a sample for alpha + 1 is multiplied by a power of a
 * uniform number. */

static enum rt_status gamma_sample(struct sampling *s, double alpha, double *out)
{
    const bool is_small = alpha < 1;
    const double d = alpha + (is_small ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / sqrt(d);

    if (alpha == 1) {
        *out = -log1p(-uniform(s));
        return RT_OK;
    }
    for (;;) {
        const double x = kn_next_normal(&s->normal, &s->philox);
        double v = 1 + c * x;
        if (rt_run_spend(s->r, &s->left, COST))
            return s->r->err->code;
        if (v <= 0)
            continue;
        v = v * v * v;
        const double u = uniform(s);
        if (u < 1 - 0.0331 * (x * x) * (x * x) || log(u) < 0.5 * x * x + d * (1 - v + log(v))) {
            *out = d * v;
            if (is_small)
                *out *= pow(uniform(s), 1 / alpha);
            return RT_OK;
        }
    }
}

/* ---- Poisson distribution ---- */

static double largest(enum rt_dtype dtype)
{
    return dtype == RT_F16   ? 65504
           : dtype == RT_F32 ? 3.4028234663852886e38
           : dtype == RT_I32 ? INT32_MAX
           : dtype == RT_I64 ? 0x1p63
                             : 1.7976931348623157e308;
}

/* Knuth's method: the sample is the number of uniform numbers whose product stays above
 * exp(-rate). */
static enum rt_status small_poisson(struct sampling *s, double rate, double *out)
{
    const double least = exp(-rate);
    double product = 1;

    for (*out = 0;; *out += 1) {
        product *= uniform(s);
        if (rt_run_spend(s->r, &s->left, COST))
            return s->r->err->code;
        if (product <= least)
            return RT_OK;
    }
}

/* Transformed rejection: Hormann, "The transformed rejection method for generating Poisson random
 * variables", 1993, algorithm PTRS. */
static enum rt_status large_poisson(struct sampling *s, double rate, double *out)
{
    const double log_rate = log(rate), b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), most = largest(s->dtype);

    for (;;) {
        double u = uniform(s);
        u -= 0.5;
        const double v = uniform(s), shifted = 0.5 - fabs(u);
        const double k = floor((2 * a / shifted + b) * u + rate + 0.43);
        if (rt_run_spend(s->r, &s->left, COST))
            return s->r->err->code;
        *out = k;
        if (k > most)
            continue;
        if (shifted >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2))
            return RT_OK;
        if (k < 0 || (shifted < 0.013 && v > shifted))
            continue;
        int sign;
        const double left = log(v * inverse_alpha / (a / (shifted * shifted) + b));
        if (left <= -rate + k * log_rate - lgamma_r(k + 1, &sign))
            return RT_OK;
    }
}

static enum rt_status poisson_sample(struct sampling *s, double rate, double *out)
{
    if (rate < 10)
        return small_poisson(s, rate, out);
    if (isinf(rate)) {
        *out = s->dtype == RT_I32 || s->dtype == RT_I64 ? 0 : rate;
        return RT_OK;
    }
    /* For these rates, TensorFlow's algorithm does not terminate. */
    if (!(rate < 2 * largest(s->dtype)))
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "a Poisson distribution of rate %g has no samples of type %s", rate,
                       rt_dtype_name(s->dtype));
    return large_poisson(s, rate, out);
}

/* ---- binomial distribution ---- */

/* The sample is the number of geometrically distributed gaps between successes that fit into
 * `count` trials. */
static enum rt_status small_binomial(struct sampling *s, double count, double p, double *out)
{
    double sum = 0;

    for (*out = 0;; *out += 1) {
        sum += ceil(log(uniform(s)) / log1p(-p));
        if (rt_run_spend(s->r, &s->left, COST))
            return s->r->err->code;
        if (sum > count)
            return RT_OK;
    }
}

/* The difference between log(k!) and its approximation by Stirling's formula. */
static double stirling_tail(double k)
{
    static const double tail[] = {
        0.0810614667953272,  0.0413406959554092,  0.0276779256849983, 0.02079067210376509,
        0.0166446911898211,  0.0138761288230707,  0.0118967099458917, 0.0104112652619720,
        0.00925546218271273, 0.00833056343336287,
    };
    if (k <= 9)
        return tail[k > 0 ? (int)k : 0];
    const double square = (k + 1) * (k + 1);
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

/* Transformed rejection: Hormann, "The generation of binomial random variates", 1993, algorithm
 * BTRS. */
static enum rt_status large_binomial(struct sampling *s, double count, double p, double *out)
{
    const double stddev = sqrt(count * p * (1 - p)), b = 1.15 + 2.53 * stddev;
    const double a = -0.0873 + 0.0248 * b + 0.01 * p, c = count * p + 0.5, v_r = 0.92 - 4.2 / b;
    const double r = p / (1 - p), alpha = (2.83 + 5.1 / b) * stddev, m = floor((count + 1) * p);

    for (;;) {
        double u = uniform(s), v = uniform(s);
        u -= 0.5;
        const double us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + c);
        if (rt_run_spend(s->r, &s->left, COST))
            return s->r->err->code;
        *out = k;
        if (us >= 0.07 && v <= v_r)
            return RT_OK;
        if (k < 0 || k > count)
            continue;
        v = log(v * alpha / (a / (us * us) + b));
        const double most = (m + 0.5) * log((m + 1) / (r * (count - m + 1))) +
                            (count + 1) * log((count - m + 1) / (count - k + 1)) +
                            (k + 0.5) * log(r * (count - k + 1) / (k + 1)) + stirling_tail(m) +
                            stirling_tail(count - m) - stirling_tail(k) - stirling_tail(count - k);
        if (v <= most)
            return RT_OK;
    }
}

/* Returns the probability of the less likely outcome of a trial. */
static double least_probability(const struct sampling *s)
{
    return s->probability > 0.5 ? s->complement : s->probability;
}

static enum rt_status binomial_sample(struct sampling *s, double count, double *out)
{
    const bool is_likely = s->probability > 0.5;
    const double p = least_probability(s);

    if (isnan(s->probability)) {
        *out = count <= 0 ? 0 : s->probability;
        return RT_OK;
    }
    if (count <= 0 || p <= 0) {
        *out = count <= 0 || !is_likely ? 0 : count;
        return RT_OK;
    }
    if (isnan(count)) /* TensorFlow never ends */
        return rt_fail(s->r->err, RT_INVALID_ARGUMENT,
                       "the count of a binomial distribution is "
                       "NaN");
    const enum rt_status st =
        s->is_large ? large_binomial(s, count, p, out) : small_binomial(s, count, p, out);
    if (is_likely)
        *out = count - *out;
    return st;
}

/* ---- all samples ---- */

static double parameter(const struct rt_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case RT_F16:
        return (double)kn_from_f16(((const struct kn_half *)t->data)[i]);
    case RT_F32:
        return (double)((const float *)t->data)[i];
    case RT_F64:
        return ((const double *)t->data)[i];
    default:
        return (double)kn_int_at(t, i);
    }
}

static void put_sample(const struct rt_tensor *t, int64_t i, double v)
{
    switch (t->dtype) {
    case RT_F16:
        ((struct kn_half *)t->data)[i] = kn_to_f16((float)v);
        break;
    case RT_F32:
        ((float *)t->data)[i] = (float)v;
        break;
    case RT_F64:
        ((double *)t->data)[i] = v;
        break;
    case RT_I32:
        ((int32_t *)t->data)[i] = rt_int32_of(v);
        break;
    default:
        ((int64_t *)t->data)[i] = rt_int64_of(v);
    }
}

/* Draws a sample for position i of the output, with parameter p. */
static enum rt_status sample_at(struct sampling *s, sampler *draw, const struct kn_philox *first,
                                int64_t number, double p, int64_t i)
{
    double v = 0;

    s->philox = *first;
    kn_philox_skip(&s->philox, (uint64_t)number * s->n_reserved);
    s->uniform.n_left = s->normal.n_left = 0;
    if (draw(s, p, &v) || rt_run_spend(s->r, &s->left, COST))
        return s->r->err->code;
    put_sample(&s->r->out[0], i, v);
    return RT_OK;
}

/* Fills the output with samples. The last axes of the output are the axes of the parameters. Sample
 * i of parameter k uses part k * n_samples + i of the generator's numbers. */
static enum rt_status sample_all(struct sampling *s, sampler *draw, const struct rt_tensor *of)
{
    const int64_t n_of = rt_tensor_count(of);
    const int64_t n_samples = n_of ? rt_tensor_count(&s->r->out[0]) / n_of : 0;
    const struct kn_philox first = s->philox;

    for (int64_t k = 0; k < n_of; k++)
        for (int64_t i = 0; i < n_samples; i++)
            if (sample_at(s, draw, &first, k * n_samples + i, parameter(of, k), i * n_of + k))
                return s->r->err->code;
    return RT_OK;
}

/* Appends the shape of the parameters to *shape. Called only for ops with the source KN_FROM_NODE;
 * the shape input of other ops already ends with the shape of the parameters. */
static enum rt_status append_shape(struct rt_shape *shape, int rank, const int64_t *dim,
                                   struct rt_error *err)
{
    if (shape->rank + rank > RT_MAX_RANK)
        return rt_fail(err, RT_UNIMPLEMENTED, "rank %d is above %d", shape->rank + rank,
                       RT_MAX_RANK);
    for (int d = 0; d < rank; d++)
        shape->dim[shape->rank++] = dim[d];
    return RT_OK;
}

static enum rt_status check_end(const struct rt_shape *shape, int rank, const int64_t *dim,
                                struct rt_error *err)
{
    bool ends = shape->rank >= rank;

    for (int d = 0; d < rank && ends; d++)
        ends = shape->dim[shape->rank - rank + d] == dim[d];
    return ends ? RT_OK
                : rt_fail(err, RT_INVALID_ARGUMENT,
                          "Shape passed in must end with broadcasted shape.");
}

static enum rt_status run(struct rt_run *r, enum kn_source source, sampler *draw)
{
    const struct rt_tensor *of = &r->in[r->n_in - 1];
    struct sampling s = {.r = r, .left = RT_WORK, .n_reserved = KN_RESERVED};
    struct rt_shape shape;
    enum rt_status st = kn_source_check(r, source);

    if (!st)
        st = kn_read_shape(&r->in[0], &shape, r->err);
    if (!st && source == KN_FROM_NODE)
        st = append_shape(&shape, of->rank, of->dim, r->err);
    else if (!st)
        st = check_end(&shape, of->rank, of->dim, r->err);
    if (st)
        return st;
    if (!kn_out(r, 0, shape.rank, shape.dim))
        return r->err->code;
    s.dtype = kn_dtype(&r->out[0]);
    const int64_t n = rt_tensor_count(&r->out[0]);
    if (n == 0)
        return RT_OK;
    st = kn_source_take(r, source, (uint64_t)n * KN_RESERVED, &s.philox);
    return st ? st : sample_all(&s, draw, of);
}

/* ---- binomial samples: StatelessRandomBinomial and StatefulRandomBinomial ---- */

/* Rounds v to the type of t. TensorFlow computes the parameters in this type. */
static double rounded(const struct rt_tensor *t, double v)
{
    if (t->dtype == RT_F16)
        return (double)KN_ROUND(RT_F16, (float)v);
    return t->dtype == RT_F32 ? (double)(float)v : v;
}

/* Prepares to draw binomial samples. A sample is the number of successes in `count` trials, each of
 * which succeeds with probability p. */
static void begin_binomial(struct sampling *s, const struct rt_tensor *probs, double count,
                           double p)
{
    /* The number of counter values that TensorFlow reserves per sample. It was found by comparing
     * TensorFlow's samples with its uniformly distributed numbers. */
    enum { RESERVED_IF_SMALL = 42 };

    s->probability = p;
    s->complement = rounded(probs, 1 - p);
    s->is_large = rounded(probs, count * least_probability(s)) >= 10;
    s->n_reserved = s->is_large ? KN_RESERVED : RESERVED_IF_SMALL;
}

/* Unlike the other ops on a variable, StatefulRandomBinomial refuses the algorithm KN_ALG_AUTO. */
static enum rt_status check_philox(struct rt_run *r)
{
    int64_t algorithm;

    if (kn_scalar(&r->in[1], &algorithm) && algorithm == KN_ALG_AUTO)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Unsupported algorithm id: %d", KN_ALG_AUTO);
    return kn_check_algorithm(r, 1, NULL);
}

static enum rt_status binomial(struct rt_run *r, enum kn_source source)
{
    const struct rt_tensor *counts = &r->in[r->n_in - 2], *probs = &r->in[r->n_in - 1];
    struct sampling s = {.r = r, .left = RT_WORK};
    struct rt_shape shape, of = {0}, c = {counts->rank, {0}}, p = {probs->rank, {0}};
    struct kn_philox first;
    enum rt_status st = source == KN_FROM_VARIABLE ? check_philox(r) : kn_source_check(r, source);

    memcpy(c.dim, counts->dim, sizeof c.dim);
    memcpy(p.dim, probs->dim, sizeof p.dim);
    if (!st)
        st = kn_read_shape(&r->in[kn_shape_input(source)], &shape, r->err);
    if (!st && kn_broadcast(&of, &c, &p, r->err))
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "counts and probs must have compatible batch dimensions: %s vs. %s",
                     KN_TEXT(counts), KN_TEXT(probs));
    if (!st)
        st = check_end(&shape, of.rank, of.dim, r->err);
    if (st)
        return st;
    if (!kn_out(r, 0, shape.rank, shape.dim))
        return r->err->code;
    s.dtype = kn_dtype(&r->out[0]);
    const int64_t n = rt_tensor_count(&r->out[0]), n_of = kn_shape_total(&of);
    if (n_of <= 0)
        return RT_OK;
    /* As in TensorFlow, a generator in a variable skips 200 outputs for about four samples. */
    const uint64_t n_skipped = (uint64_t)n_of * 200 * (uint64_t)(n / n_of + 3) / 4;
    st = kn_source_take(r, source, n_skipped * KN_RESERVED, &first);
    if (st)
        return st;
    struct rt_tensor grid = {.rank = (int8_t)of.rank};
    struct kn_pairs at;
    memcpy(grid.dim, of.dim, sizeof grid.dim);
    kn_pairs_begin(&at, &grid, counts, probs);
    for (int64_t k = 0; k < n_of; k++, kn_pairs_next(&at)) {
        begin_binomial(&s, probs, parameter(counts, at.a), parameter(probs, at.b));
        for (int64_t i = 0; i < n / n_of; i++)
            if (sample_at(&s, binomial_sample, &first, k * (n / n_of) + i, parameter(counts, at.a),
                          i * n_of + k))
                return r->err->code;
    }
    return RT_OK;
}

static enum rt_status infer_appended(struct rt_infer *x)
{
    struct rt_shape shape;

    if (!x->in[0].value || !kn_shape_known(&x->in[1].shape))
        return RT_OK;
    enum rt_status st = kn_read_shape(x->in[0].value, &shape, x->err);
    if (!st)
        st = append_shape(&shape, x->in[1].shape.rank, x->in[1].shape.dim, x->err);
    if (!st)
        x->out[0].shape = shape;
    return st;
}

static enum rt_status infer_given(struct rt_infer *x)
{
    return kn_random_infer(x, 0);
}

static enum rt_status infer_third(struct rt_infer *x)
{
    return kn_random_infer(x, 2);
}

/* ---- entries ---- */

#define FLOATS  (RT_T(RT_F16) | RT_T(RT_F32) | RT_T(RT_F64))
#define NUMBERS (FLOATS | RT_T(RT_I32) | RT_T(RT_I64))
#define SAMPLER(symbol, op_, attr_, types_, and_attr_, source_, draw_, effect_, infer_)            \
    static enum rt_status symbol##_run(struct rt_run *r)                                           \
    {                                                                                              \
        return run(r, source_, draw_);                                                             \
    }                                                                                              \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = (effect_), .shape_in = 1, .infer = (infer_)},              \
        .kernels = KN_KERNELS({.op = (op_),                                                        \
                               .device = "CPU",                                                    \
                               .name = #symbol,                                                    \
                               .type_attr = (attr_),                                               \
                               .types = (types_),                                                  \
                               .and_type_attr = (and_attr_),                                       \
                               .and_types = (types_),                                              \
                               .run = symbol##_run}),                                              \
    };
#define BINOMIAL(symbol, op_, source_, effect_, infer_)                                            \
    static enum rt_status symbol##_run(struct rt_run *r)                                           \
    {                                                                                              \
        return binomial(r, source_);                                                               \
    }                                                                                              \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_),                                                                      \
               .effect = (effect_),                                                                \
               .shape_in = (source_) == KN_FROM_VARIABLE ? 4 : 1,                                  \
               .infer = (infer_)},                                                                 \
        .kernels = KN_KERNELS({.op = (op_),                                                        \
                               .device = "CPU",                                                    \
                               .name = #symbol,                                                    \
                               .types = FLOATS,                                                    \
                               .and_type_attr = "dtype",                                           \
                               .and_types = NUMBERS,                                               \
                               .run = symbol##_run}),                                              \
    };
BINOMIAL(stateless_random_binomial, "StatelessRandomBinomial", KN_FROM_SEED, RT_PURE, infer_given)
BINOMIAL(stateful_random_binomial, "StatefulRandomBinomial", KN_FROM_VARIABLE, RT_WRITES,
         infer_third)
SAMPLER(random_gamma, "RandomGamma", "T", FLOATS, NULL, KN_FROM_NODE, gamma_sample, RT_RANDOM,
        infer_appended)
SAMPLER(stateless_random_gamma_v2, "StatelessRandomGammaV2", "dtype", FLOATS, NULL, KN_FROM_SEED,
        gamma_sample, RT_PURE, infer_given)
SAMPLER(stateless_random_gamma_v3, "StatelessRandomGammaV3", "dtype", FLOATS, NULL, KN_FROM_KEY,
        gamma_sample, RT_PURE, infer_given)
SAMPLER(random_poisson_v2, "RandomPoissonV2", "dtype", NUMBERS, "R", KN_FROM_NODE, poisson_sample,
        RT_RANDOM, infer_appended)
SAMPLER(stateless_random_poisson, "StatelessRandomPoisson", "dtype", NUMBERS, "Rtype", KN_FROM_SEED,
        poisson_sample, RT_PURE, infer_given)
