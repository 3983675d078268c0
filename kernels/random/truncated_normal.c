/*
 * ParameterizedTruncatedNormal and StatelessParameterizedTruncatedNormal draw normally distributed
 * numbers between bounds. Mean, standard deviation and bounds are tensors; all samples with the
 * same parameters form a batch.
 *
 * The samples of a batch are drawn by rejection (Robert: "Simulation of truncated normal
 * variables", 1995) from a normal, a uniform or an exponential distribution, whichever accepts
 * most. Every step is rounded to the type of the samples, as in TensorFlow.
 */
#include <math.h>

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/math/elementwise.h"
#include "kernels/random/source.h"

enum {
    SAMPLE_WORK = 64,      /* work per attempt, in units of rt_run_spend */
    MAX_REJECTIONS = 1000, /* in a row */
    SHARED_BATCH = 100,    /* TensorFlow's size of batches that share all parameters */
};
/* The parameters, in the order of the inputs. */
enum { MEAN, STDDEV, MIN, MAX, PARAMETERS };
static const char *const names[PARAMETERS] = {"means", "stddevs", "minvals", "maxvals"};

struct sampler {
    struct rt_run *r;
    struct kn_philox philox;
    /* Sample i of the current batch is element first + i * step of the output. */
    int64_t first, step, n;
    int64_t i;          /* index of the sample that is drawn next */
    int64_t n_rejected; /* number of attempts in a row that were rejected */
};

/* Counts an attempt. Fails if more than `most` attempts in a row were rejected. */
static enum rt_status end_attempt(struct sampler *s, bool accepts, int64_t most, const char *name)
{
    s->i += accepts;
    s->n_rejected = accepts ? 0 : s->n_rejected + 1;
    if (s->n_rejected <= most)
        return RT_OK;
    return rt_fail(s->r->err, RT_INTERNAL,
                   "TruncatedNormal %s rejection sampler failed to accept a sample.", name);
}

/* ---- groups of random numbers ---- */

/* sizes of the groups */
enum { GROUP_RT_F16 = 4, GROUP_RT_F32 = 4, GROUP_RT_F64 = 2 };

#define SHORT_GROUPS(dt, T)                                                                        \
    static void normals_##dt(struct kn_philox *p, KN_C(dt) * out)                                  \
    {                                                                                              \
        uint32_t x[4];                                                                             \
        float v[GROUP_##dt];                                                                       \
        kn_philox_draw(p, x);                                                                      \
        kn_normal_floats(x[0], x[1], v);                                                           \
        kn_normal_floats(x[2], x[3], v + 2);                                                       \
        for (int i = 0; i < GROUP_##dt; i++)                                                       \
            out[i] = KN_ROUND(dt, v[i]);                                                           \
    }                                                                                              \
    static void uniforms_##dt(struct kn_philox *p, KN_C(dt) * out)                                 \
    {                                                                                              \
        uint32_t x[4];                                                                             \
        kn_philox_draw(p, x);                                                                      \
        for (int i = 0; i < GROUP_##dt; i++)                                                       \
            out[i] = UNIT_##dt(x[i]);                                                              \
    }
#define UNIT_RT_F32(x) kn_unit_float(x)
#define UNIT_RT_F16(x) unit_half(x)
static float unit_half(uint32_t x)
{
    const struct kn_half one = {(uint16_t)(15u << 10 | (x & 0x3ffu))};
    return kn_from_f16(one) - 1.0f;
}
SHORT_GROUPS(RT_F32, float)
SHORT_GROUPS(RT_F16, struct kn_half)

static void normals_RT_F64(struct kn_philox *p, double *out)
{
    uint32_t x[4];
    kn_philox_draw(p, x);
    kn_normal_doubles(x, out);
}
static void uniforms_RT_F64(struct kn_philox *p, double *out)
{
    uint32_t x[4];
    kn_philox_draw(p, x);
    out[0] = kn_unit_double(x[0], x[1]);
    out[1] = kn_unit_double(x[2], x[3]);
}

/* ---- a batch ---- */

#define MATHS(dt, suffix)                                                                          \
    static KN_C(dt) root_##dt(KN_C(dt) v)                                                          \
    {                                                                                              \
        return KN_ROUND(dt, sqrt##suffix(v));                                                      \
    }                                                                                              \
    static KN_C(dt) power_##dt(KN_C(dt) v)                                                         \
    {                                                                                              \
        return KN_ROUND(dt, exp##suffix(v));                                                       \
    }                                                                                              \
    static KN_C(dt) natural_##dt(KN_C(dt) v)                                                       \
    {                                                                                              \
        return KN_ROUND(dt, log##suffix(v));                                                       \
    }
MATHS(RT_F32, f)
MATHS(RT_F64, )
MATHS(RT_F16, f)

/* lo and hi are the bounds of the standard normal distribution, of which v * stddev + mean is a
 * sample. */
#define BATCH(dt, T)                                                                               \
    struct normal_##dt {                                                                           \
        KN_C(dt) mean, stddev, lo, hi;                                                             \
    };                                                                                             \
    static void put_##dt(const struct sampler *s, const struct normal_##dt *d, KN_C(dt) v)         \
    {                                                                                              \
        T *out = s->r->out[0].data;                                                                \
        out[s->first + s->i * s->step] = KN_PUT(dt, KN_ROUND(dt, v * d->stddev) + d->mean);        \
    }                                                                                              \
    static enum rt_status by_normal_##dt(struct sampler *s, const struct normal_##dt *d)           \
    {                                                                                              \
        KN_C(dt) v[GROUP_##dt];                                                                    \
        for (s->i = s->n_rejected = 0; s->i < s->n;) {                                             \
            normals_##dt(&s->philox, v);                                                           \
            for (int k = 0; k < GROUP_##dt && s->i < s->n; k++) {                                  \
                const bool accepts = v[k] >= d->lo && v[k] <= d->hi;                               \
                if (accepts)                                                                       \
                    put_##dt(s, d, v[k]);                                                          \
                if (end_attempt(s, accepts, MAX_REJECTIONS, "randn"))                              \
                    return s->r->err->code;                                                        \
            }                                                                                      \
            if (rt_run_spend(s->r, &s->r->left, SAMPLE_WORK))                                      \
                return s->r->err->code;                                                            \
        }                                                                                          \
        return RT_OK;                                                                              \
    }                                                                                              \
    static enum rt_status by_uniform_##dt(struct sampler *s, const struct normal_##dt *d)          \
    {                                                                                              \
        KN_C(dt) v[GROUP_##dt], u[GROUP_##dt];                                                     \
        const KN_C(dt) range = KN_ROUND(dt, d->hi - d->lo);                                        \
        const KN_C(dt) most = d->lo < 0 ? 0 : KN_ROUND(dt, d->lo * d->lo);                         \
        for (s->i = s->n_rejected = 0; s->i < s->n;) {                                             \
            uniforms_##dt(&s->philox, v);                                                          \
            uniforms_##dt(&s->philox, u);                                                          \
            for (int k = 0; k < GROUP_##dt && s->i < s->n; k++) {                                  \
                const KN_C(dt) x = KN_ROUND(dt, KN_ROUND(dt, v[k] * range) + d->lo);               \
                const KN_C(dt) g = KN_ROUND(dt, most - KN_ROUND(dt, x * x)) / 2;                   \
                const bool accepts = u[k] <= power_##dt(KN_ROUND(dt, g));                          \
                if (accepts)                                                                       \
                    put_##dt(s, d, x);                                                             \
                if (end_attempt(s, accepts, MAX_REJECTIONS - 1, "uniform"))                        \
                    return s->r->err->code;                                                        \
            }                                                                                      \
            if (rt_run_spend(s->r, &s->r->left, SAMPLE_WORK))                                      \
                return s->r->err->code;                                                            \
        }                                                                                          \
        return RT_OK;                                                                              \
    }                                                                                              \
    static enum rt_status by_exponential_##dt(struct sampler *s, const struct normal_##dt *d)      \
    {                                                                                              \
        KN_C(dt) v[GROUP_##dt];                                                                    \
        const KN_C(dt) square = KN_ROUND(dt, KN_ROUND(dt, d->lo * d->lo) + 4);                     \
        const KN_C(dt) alpha = KN_ROUND(dt, KN_ROUND(dt, d->lo + root_##dt(square)) / 2);          \
        for (s->i = s->n_rejected = 0; s->i < s->n;) {                                             \
            uniforms_##dt(&s->philox, v);                                                          \
            for (int k = 0; k < GROUP_##dt && s->i < s->n; k += 2) {                               \
                const KN_C(dt) z =                                                                 \
                    KN_ROUND(dt, KN_ROUND(dt, -natural_##dt(v[k]) / alpha) + d->lo);               \
                const KN_C(dt) x = KN_ROUND(dt, d->lo < alpha ? alpha - z : d->lo - alpha);        \
                const KN_C(dt) g = KN_ROUND(dt, KN_ROUND(dt, -x * x) / 2);                         \
                const bool accepts = v[k + 1] <= power_##dt(g) && z < d->hi;                       \
                if (accepts)                                                                       \
                    put_##dt(s, d, z);                                                             \
                if (end_attempt(s, accepts, MAX_REJECTIONS - 1, "exponential distribution"))       \
                    return s->r->err->code;                                                        \
            }                                                                                      \
            if (rt_run_spend(s->r, &s->r->left, SAMPLE_WORK))                                      \
                return s->r->err->code;                                                            \
        }                                                                                          \
        return RT_OK;                                                                              \
    }                                                                                              \
    static enum rt_status batch_##dt(struct sampler *s, const struct rt_tensor *in,                \
                                     const int64_t at[PARAMETERS])                                 \
    {                                                                                              \
        KN_C(dt) p[PARAMETERS];                                                                    \
        for (int k = 0; k < PARAMETERS; k++)                                                       \
            p[k] = KN_GET(dt, ((const T *)in[k].data)[at[k]]);                                     \
        struct normal_##dt d = {.mean = p[MEAN], .stddev = p[STDDEV]};                             \
        KN_C(dt) lo = p[MIN], hi = p[MAX];                                                         \
        if (!(d.stddev > 0) || !(lo < hi) || !(isfinite(lo) || isfinite(hi)))                      \
            return rt_fail(s->r->err, RT_INVALID_ARGUMENT, "Invalid parameters");                  \
        /* If one bound is infinite, it becomes the upper bound. If both bounds are on the same */ \
        /* side of the mean, they become positive. */                                              \
        if (isinf(lo) || hi < d.mean) {                                                            \
            lo = p[MAX];                                                                           \
            hi = p[MIN];                                                                           \
            d.stddev = -d.stddev;                                                                  \
        }                                                                                          \
        d.lo = KN_ROUND(dt, KN_ROUND(dt, lo - d.mean) / d.stddev);                                 \
        d.hi = KN_ROUND(dt, KN_ROUND(dt, hi - d.mean) / d.stddev);                                 \
        const KN_C(dt) root = root_##dt(KN_ROUND(dt, KN_ROUND(dt, d.lo * d.lo) + 4));              \
        const KN_C(dt) power = KN_ROUND(dt, d.lo * KN_ROUND(dt, d.lo - root)) / 4;                 \
        const KN_C(dt) top = 2 * power_##dt(KN_ROUND(dt, KN_ROUND(dt, power) + (KN_C(dt))0.5));    \
        const KN_C(dt) cutoff = KN_ROUND(dt, KN_ROUND(dt, top) / KN_ROUND(dt, d.lo + root));       \
        const KN_C(dt) inside = KN_ROUND(dt, (KN_C(dt))1.3); /* TensorFlow's limit */              \
        if ((d.lo < -inside && d.hi >= 0) || (d.hi > inside && d.lo <= 0))                         \
            return by_normal_##dt(s, &d);                                                          \
        if (KN_ROUND(dt, d.hi - d.lo) < cutoff)                                                    \
            return by_uniform_##dt(s, &d);                                                         \
        return by_exponential_##dt(s, &d);                                                         \
    }
BATCH(RT_F32, float)
BATCH(RT_F64, double)
BATCH(RT_F16, struct kn_half)

/* Draws the samples of a batch whose parameters are elements at[0], ..., at[3] of the inputs. */
static enum rt_status draw_batch(struct sampler *s, const struct rt_tensor *in,
                                 const int64_t at[PARAMETERS])
{
    if (rt_run_spend(s->r, &s->r->left, SAMPLE_WORK))
        return s->r->err->code;
    switch (kn_dtype(in)) {
    case RT_F16:
        return batch_RT_F16(s, in, at);
    case RT_F32:
        return batch_RT_F32(s, in, at);
    default:
        return batch_RT_F64(s, in, at);
    }
}

/* ---- ParameterizedTruncatedNormal: a batch is a row of the output ---- */

static enum rt_status check_parameters(struct rt_run *r, int64_t n_rows, bool *is_shared)
{
    const struct rt_tensor *in = &r->in[1];

    *is_shared = true;
    for (int k = 0; k < PARAMETERS; k++) {
        if (in[k].rank > 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Input %s should be a scalar or vector, got shape: %s", names[k],
                           KN_TEXT(&in[k]));
        *is_shared &= in[k].rank == 0;
    }
    for (int k = 0; k < PARAMETERS && !*is_shared; k++)
        if (in[k].rank == 1 && in[k].dim[0] != 1 && in[k].dim[0] != n_rows)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Input %s should have length 1 or shape[0], got shape: %s", names[k],
                           KN_TEXT(&in[k]));
    return RT_OK;
}

/* Like kn_read_shape, with the message of the ops in this file. */
static enum rt_status read_shape(const struct rt_tensor *t, struct rt_shape *shape,
                                 struct rt_error *err)
{
    if (t->rank != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Input shape should be a vector, got shape: %s",
                       KN_TEXT(t));
    return kn_read_shape(t, shape, err);
}

static enum rt_status stateful_run(struct rt_run *r)
{
    struct rt_shape shape;
    bool is_shared;
    enum rt_status st = read_shape(&r->in[0], &shape, r->err);

    if (!st && shape.rank == 0)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "Shape tensor must not be empty, got Tensor<type: %s shape: [0] values: >",
                     rt_dtype_name(kn_dtype(&r->in[0])));
    if (st || !kn_out(r, 0, shape.rank, shape.dim) || check_parameters(r, shape.dim[0], &is_shared))
        return r->err->code;
    const int64_t n = rt_tensor_count(&r->out[0]);
    int64_t n_batches = shape.dim[0], size = 1;
    for (int d = 1; d < shape.rank; d++)
        size *= shape.dim[d];
    if (is_shared) {
        size = SHARED_BATCH;
        n_batches = n / size + (n % size != 0);
    }
    struct sampler s = {.r = r, .step = 1};
    /* As in TensorFlow, which reserves the numbers of MAX_REJECTIONS attempts for each sample. */
    const uint64_t n_skipped = (uint64_t)n_batches * 2 * MAX_REJECTIONS * ((uint64_t)size + 3) / 4;
    st = kn_source_take(r, KN_FROM_NODE, n_skipped, &s.philox);
    for (int64_t b = 0; b < n_batches && !st; b++) {
        int64_t at[PARAMETERS];
        for (int k = 0; k < PARAMETERS; k++)
            at[k] = rt_tensor_count(&r->in[1 + k]) == 1 ? 0 : b;
        s.first = b * size;
        s.n = size < n - s.first ? size : n - s.first;
        st = draw_batch(&s, &r->in[1], at);
    }
    return st;
}

/* ---- StatelessParameterizedTruncatedNormal: a batch has one sample in each of the leading
 * dimensions of the output ---- */

/* Sets *of to the shape to which the parameters are broadcast, and checks that the shape of the
 * output ends with it. */
static enum rt_status broadcast_parameters(struct rt_run *r, const struct rt_shape *shape,
                                           struct rt_shape *of)
{
    const struct rt_tensor *in = &r->in[2];
    struct rt_shape next;

    *of = (struct rt_shape){0};
    for (int k = 0; k < PARAMETERS; k++) {
        const struct rt_shape before = *of;
        next = (struct rt_shape){.rank = in[k].rank};
        memcpy(next.dim, in[k].dim, (size_t)in[k].rank * sizeof next.dim[0]);
        if (kn_broadcast(of, &before, &next, r->err))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "means, stddevs, minvals, maxvals must have compatible batch "
                           "dimensions: %s vs. %s vs. %s vs. %s",
                           KN_TEXT(&in[MEAN]), KN_TEXT(&in[STDDEV]), KN_TEXT(&in[MIN]),
                           KN_TEXT(&in[MAX]));
    }
    bool ends = shape->rank >= of->rank;
    for (int d = 0; d < of->rank && ends; d++)
        ends = shape->dim[shape->rank - of->rank + d] == of->dim[d];
    return ends ? RT_OK
                : rt_fail(r->err, RT_INVALID_ARGUMENT,
                          "Shape passed in must end with broadcasted shape.");
}

/* Returns the element of t that is broadcast to element i of a tensor with shape *of. */
static int64_t element_of(const struct rt_tensor *t, const struct rt_shape *of, int64_t i)
{
    int64_t at = 0, stride = 1;

    for (int d = of->rank - 1, k = t->rank - 1; k >= 0; d--, k--) {
        at += t->dim[k] == 1 ? 0 : i % of->dim[d] * stride;
        i /= of->dim[d];
        stride *= t->dim[k];
    }
    return at;
}

static enum rt_status stateless_run(struct rt_run *r)
{
    struct rt_shape shape, of;
    enum rt_status st = kn_source_check(r, KN_FROM_SEED);
    struct sampler s = {.r = r};

    if (!st)
        st = read_shape(&r->in[0], &shape, r->err);
    if (!st)
        st = broadcast_parameters(r, &shape, &of);
    if (!st)
        st = kn_source_take(r, KN_FROM_SEED, 0, &s.philox);
    if (st || !kn_out(r, 0, shape.rank, shape.dim))
        return r->err->code;
    s.step = rt_count(of.rank, of.dim);
    s.n = s.step ? rt_tensor_count(&r->out[0]) / s.step : 0;
    for (s.first = 0; s.first < s.step && rt_tensor_count(&r->out[0]) > 0 && !st; s.first++) {
        int64_t at[PARAMETERS];
        for (int k = 0; k < PARAMETERS; k++)
            at[k] = element_of(&r->in[2 + k], &of, s.first);
        st = draw_batch(&s, &r->in[2], at);
    }
    return st;
}

static enum rt_status infer(struct rt_infer *x)
{
    if (x->in[0].value && x->in[0].value->rank == 1)
        return kn_random_infer(x, 0);
    return RT_OK;
}

#define FLOATS (RT_T(RT_F16) | RT_T(RT_F32) | RT_T(RT_F64))
#define TRUNCATED(symbol, op_, effect_, run_)                                                      \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = (effect_), .shape_in = 1, .infer = infer},                 \
        .kernels = KN_KERNELS({.op = (op_),                                                        \
                               .device = "CPU",                                                    \
                               .name = #symbol,                                                    \
                               .type_attr = "dtype",                                               \
                               .types = FLOATS,                                                    \
                               .run = (run_)}),                                                    \
    };
TRUNCATED(parameterized_truncated_normal, "ParameterizedTruncatedNormal", RT_RANDOM, stateful_run)
TRUNCATED(stateless_parameterized_truncated_normal, "StatelessParameterizedTruncatedNormal",
          RT_PURE, stateless_run)
