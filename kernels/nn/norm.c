/*
 * Ops that process each channel: BiasAdd, FusedBatchNorm (all versions),
 * BatchNormWithGlobalNormalization, LRN.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/math/elementwise.h"
#include "kernels/matmul/gemm.h"
#include "kernels/cpu/types.h"
#include "kernels/nn/window.h"
#include "kernels/entry.h"

static enum rt_status fail_shape(struct rt_error *err, const char *words, const struct rt_shape *s)
{
    char text[160];
    return rt_fail(err, RT_INVALID_ARGUMENT, "%s%s", words,
                   rt_shape_text(text, sizeof text, s->rank, s->dim));
}

/* The shape of a tensor viewed as [outer, channels, inner]. */
struct channels {
    int64_t outer, n, inner;
};

static struct channels channels_of(const struct rt_shape *s, int axis)
{
    struct channels c = {1, s->dim[axis], 1};
    for (int i = 0; i < axis; i++)
        c.outer *= s->dim[i];
    for (int i = axis + 1; i < s->rank; i++)
        c.inner *= s->dim[i];
    return c;
}

/* A contiguous part of a tensor viewed by channels: its shape, its first element, and the channel
 * of its first element. */
struct chunk {
    struct channels c;
    int64_t at, channel;
};

/*
 * Sets *p to the chunk that begins at element `at` and has at most KN_CHUNK elements. The chunk
 * consists of complete rows, of channels of one row, or of a part of one channel. Returns false if
 * no elements are left.
 */
static bool next_chunk(const struct channels *c, int64_t at, struct chunk *p)
{
    const int64_t row = c->n * c->inner;

    if (at >= c->outer * row)
        return false;
    const int64_t rest = at % row, i = rest / c->inner, j = rest % c->inner;
    p->at = at;
    p->channel = i;
    if (rest == 0 && row <= KN_CHUNK) {
        const int64_t left = c->outer - at / row, most = KN_CHUNK / row;
        p->c = (struct channels){left < most ? left : most, c->n, c->inner};
    } else if (j == 0 && c->inner <= KN_CHUNK) {
        const int64_t left = c->n - i, most = KN_CHUNK / c->inner;
        p->c = (struct channels){1, left < most ? left : most, c->inner};
    } else {
        const int64_t left = c->inner - j;
        p->c = (struct channels){1, 1, left < KN_CHUNK ? left : KN_CHUNK};
    }
    return true;
}

/* Cost per element, in units of rt_run_spend. An element of a half-precision type takes a few
 * nanoseconds. */
enum { COST = 4 };

/* Advances p to the next chunk. Returns false if there is none or, with a failure in *st, if the
 * run must end. */
static bool go_on(struct rt_run *r, const struct channels *c, int64_t *left, struct chunk *p,
                  enum rt_status *st)
{
    const int64_t done = p->c.outer * p->c.n * p->c.inner;

    *st = rt_run_spend(r, left, COST * done);
    return !*st && next_chunk(c, p->at + done, p);
}

/* ---- BiasAdd ---- */

enum rt_status kn_bias_shapes(const struct rt_shape *v, const struct rt_shape *b, int axis,
                              struct rt_error *err)
{
    if (v->rank >= 0 && v->rank < 2)
        return fail_shape(err, "Input tensor must be at least 2D: ", v);
    if (b->rank >= 0 && b->rank != 1)
        return fail_shape(err, "Biases must be 1D: ", b);
    if (v->rank < 0 || b->rank < 0)
        return RT_OK;
    const int64_t c = v->dim[axis < 0 ? v->rank - 1 : axis];
    if (c >= 0 && b->dim[0] >= 0 && c != b->dim[0]) {
        char tb[160], tv[160];
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Must provide as many biases as the last dimension of the input tensor: %s "
                       "vs. %s",
                       rt_shape_text(tb, sizeof tb, b->rank, b->dim),
                       rt_shape_text(tv, sizeof tv, v->rank, v->dim));
    }
    return RT_OK;
}

static enum rt_status infer_bias(struct rt_infer *x)
{
    x->alias[0] = 0;
    x->out[0].shape = x->in[0].shape;
    return kn_bias_shapes(&x->in[0].shape, &x->in[1].shape, kn_channels_first(x->node) ? 1 : -1,
                          x->err);
}

#define AS_IS(v) (v)
#define BIAS(dt, T, GET, PUT)                                                                      \
    KN_CLONES static void bias_##dt(const struct channels *c, const T *x, const T *b, T *y)        \
    {                                                                                              \
        for (int64_t o = 0; o < c->outer; o++) {                                                   \
            if (c->inner == 1) {                                                                   \
                const T *xr = x + o * c->n;                                                        \
                T *yr = y + o * c->n;                                                              \
                for (int64_t i = 0; i < c->n; i++)                                                 \
                    yr[i] = PUT(GET(xr[i]) + GET(b[i]));                                           \
                continue;                                                                          \
            }                                                                                      \
            for (int64_t i = 0; i < c->n; i++) {                                                   \
                const T *xr = x + (o * c->n + i) * c->inner;                                       \
                T *yr = y + (o * c->n + i) * c->inner;                                             \
                const T v = b[i];                                                                  \
                for (int64_t j = 0; j < c->inner; j++)                                             \
                    yr[j] = PUT(GET(xr[j]) + GET(v));                                              \
            }                                                                                      \
        }                                                                                          \
    }
/* Integers are added in unsigned types, so that they wrap around. The bits of the sum are the same
 * as in signed types. */
#define BIAS_AS_IS(dt, T) BIAS(dt, T, AS_IS, AS_IS)
KN_UNSIGNED(BIAS_AS_IS)
KN_FLOATS(BIAS_AS_IS)
KN_COMPLEX(BIAS_AS_IS)
BIAS(RT_F16, struct kn_half, kn_from_f16, kn_to_f16)
BIAS(RT_BF16, struct kn_bfloat, kn_from_bf16, kn_to_bf16)

static enum rt_dtype unsigned_of(enum rt_dtype d)
{
    return d == RT_I8    ? RT_U8
           : d == RT_I16 ? RT_U16
           : d == RT_I32 ? RT_U32
           : d == RT_I64 ? RT_U64
                         : d;
}

static enum rt_status run_bias(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    const struct rt_shape s = {
        t->rank,
        {t->dim[0], t->dim[1], t->dim[2], t->dim[3], t->dim[4], t->dim[5], t->dim[6], t->dim[7]}};
    const struct channels c = channels_of(&s, kn_channels_first(r->node) ? 1 : s.rank - 1);
    const void *x = t->data, *b = r->in[1].data;
    void *y = r->out[0].data;
    struct chunk p;
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;

    if (!rt_tensor_count(t) || !next_chunk(&c, 0, &p))
        return RT_OK;
    switch (unsigned_of((enum rt_dtype)t->dtype)) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        do                                                                                         \
            bias_##dt(&p.c, (const T *)x + p.at, (const T *)b + p.channel, (T *)y + p.at);         \
        while (go_on(r, &c, &left, &p, &st));                                                      \
        break;
        KN_UNSIGNED(X)
        KN_FLOATS(X)
        KN_HALFS(X)
        KN_COMPLEX(X)
#undef X
    default:
        break;
    }
    return st;
}

/* ---- batch normalisation ---- */

static enum rt_status check_vector(struct rt_infer *x, int k, const char *name, int64_t c,
                                   const char *when)
{
    const struct rt_shape *s = &x->in[k].shape;
    char words[64];

    if (s->rank >= 0 && s->rank != 1) {
        snprintf(words, sizeof words, "%s must be 1-dimensional", name);
        return fail_shape(x->err, words, s);
    }
    if (s->rank == 1 && s->dim[0] >= 0 && c >= 0 && s->dim[0] != c && when)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "%s%s must have the same number of elements as the channels of x, got %lld "
                       "and %lld",
                       when, name, (long long)s->dim[0], (long long)c);
    return RT_OK;
}

static enum rt_status infer_norm(struct rt_infer *x)
{
    static const char *const name[] = {"x", "scale", "offset", "mean", "variance"};
    const struct rt_shape *s = &x->in[0].shape;
    const bool train = rt_attr_bool(x->node, "is_training");
    const bool blend = rt_attr_float(x->node, "exponential_avg_factor") != 1;
    int64_t c = -1;

    x->alias[0] = 0;
    if (s->rank >= 0) {
        if (s->rank != 4 && s->rank != 5)
            return fail_shape(x->err, "input must be 4 or 5-dimensional", s);
        c = s->dim[kn_channels_first(x->node) ? 1 : s->rank - 1];
    }
    for (int k = 1; k < 5; k++) {
        const char *when = k < 3    ? ""
                           : !train ? "When is_training=false, "
                           : blend  ? "When exponential_avg_factor != 1, "
                                    : NULL;
        const enum rt_status st = check_vector(x, k, name[k], c, when);
        if (st)
            return st;
    }
    x->out[0].shape = *s;
    for (int k = 1; k < x->n_out; k++)
        x->out[k].shape =
            k == 5 ? (struct rt_shape){.rank = 0} : (struct rt_shape){.rank = 1, .dim = {c}};
    return RT_OK;
}

static void rows_norm(struct rt_rows *r)
{
    if (rt_attr_bool(r->node, "is_training"))
        return;
    rt_rows_first(r);
    for (int k = 1; k < r->n_out; k++) /* the output statistics are copies of the inputs */
        r->out_dep[k].kind = RT_DEP_NONE;
    for (int k = 1; k < r->n_in; k++)
        if (r->in_dep[k].kind != RT_DEP_NONE)
            for (int j = 0; j < r->n_out; j++)
                r->out_dep[j].kind = RT_DEP_MIXED;
}

static enum rt_status prepare_norm(struct rt_prep *p, void **state)
{
    struct channels *c = rt_prep_alloc(p, sizeof *c);
    const struct rt_shape *s = &p->in[0].shape;

    if (!c)
        return p->err->code;
    *c = channels_of(s, kn_channels_first(p->node) ? 1 : s->rank - 1);
    /* Scratch memory holds a float factor per channel and, in training, a mean and a variance in
     * double per channel. */
    p->scratch_bytes = (size_t)c->n * 3 * sizeof(double);
    *state = c;
    return RT_OK;
}

#define NORMALISE(dt, T, GET, PUT)                                                                 \
    KN_CLONES static void normalise_##dt(const struct channels *c, const T *x, const float *mean,  \
                                         const float *factor, const float *offset, T *y)           \
    {                                                                                              \
        for (int64_t o = 0; o < c->outer; o++) {                                                   \
            if (c->inner == 1) {                                                                   \
                const T *xr = x + o * c->n;                                                        \
                T *yr = y + o * c->n;                                                              \
                for (int64_t i = 0; i < c->n; i++)                                                 \
                    yr[i] = PUT((GET(xr[i]) - mean[i]) * factor[i] + offset[i]);                   \
                continue;                                                                          \
            }                                                                                      \
            for (int64_t i = 0; i < c->n; i++) {                                                   \
                const T *xr = x + (o * c->n + i) * c->inner;                                       \
                T *yr = y + (o * c->n + i) * c->inner;                                             \
                const float m = mean[i], f = factor[i], b = offset[i];                             \
                for (int64_t j = 0; j < c->inner; j++)                                             \
                    yr[j] = PUT((GET(xr[j]) - m) * f + b);                                         \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    /* Adds up each channel's values or, given a mean, their squared distances from the mean. */   \
    static void add_up_##dt(const struct channels *c, const T *x, const double *mean, double *sum) \
    {                                                                                              \
        for (int64_t o = 0; o < c->outer; o++)                                                     \
            for (int64_t i = 0; i < c->n; i++)                                                     \
                for (int64_t j = 0; j < c->inner; j++) {                                           \
                    const double v = GET(x[(o * c->n + i) * c->inner + j]);                        \
                    sum[i] += mean ? (v - mean[i]) * (v - mean[i]) : v;                            \
                }                                                                                  \
    }
NORMALISE(RT_F32, float, AS_IS, AS_IS)
NORMALISE(RT_F16, struct kn_half, kn_from_f16, kn_to_f16)
NORMALISE(RT_BF16, struct kn_bfloat, kn_from_bf16, kn_to_bf16)

static enum rt_status normalise(struct rt_run *r, const struct channels *c, const float *mean,
                                const float *factor, const float *offset)
{
    const void *x = r->in[0].data;
    void *y = r->out[0].data;
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;
    struct chunk p;

    if (!next_chunk(c, 0, &p))
        return RT_OK;
    switch (r->in[0].dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        do                                                                                         \
            normalise_##dt(&p.c, (const T *)x + p.at, mean + p.channel, factor + p.channel,        \
                           offset + p.channel, (T *)y + p.at);                                     \
        while (go_on(r, c, &left, &p, &st));                                                       \
        break;
        X(RT_F32, float)
        KN_HALFS(X)
#undef X
    default:
        break;
    }
    return st;
}

/* Computes mean and variance of each channel, in two passes with sums in double. */
static enum rt_status moments(struct rt_run *r, const struct channels *c, double *mean, double *var)
{
    const double n = (double)(c->outer * c->inner);
    const void *x = r->in[0].data;
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;

    for (int pass = 0; pass < 2 && !st; pass++) {
        double *sum = pass ? var : mean;
        struct chunk p;
        for (int64_t i = 0; i < c->n; i++)
            sum[i] = 0;
        if (!next_chunk(c, 0, &p))
            continue;
        switch (r->in[0].dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        do                                                                                         \
            add_up_##dt(&p.c, (const T *)x + p.at, pass ? mean + p.channel : NULL,                 \
                        sum + p.channel);                                                          \
        while (go_on(r, c, &left, &p, &st));                                                       \
        break;
            X(RT_F32, float)
            KN_HALFS(X)
#undef X
        default:
            break;
        }
        for (int64_t i = 0; i < c->n; i++)
            sum[i] /= n;
    }
    return st;
}

static void copy_floats(float *dst, const float *src, int64_t n)
{
    if (n > 0)
        memcpy(dst, src, (size_t)n * sizeof *dst);
}

/* Computes outputs 1 to 4 of a training step, which are the running statistics and the batch
 * statistics. */
static enum rt_status train(struct rt_run *r, const struct channels *c)
{
    const float keep = rt_attr_float(r->node, "exponential_avg_factor");
    const double n = (double)(c->outer * c->inner), unbias = n > 1 ? n / (n - 1) : 1;
    double *mean = r->scratch, *var = mean + c->n;
    float *out[5] = {NULL};

    for (int k = 1; k < 5; k++)
        out[k] = r->out[k].data;
    const enum rt_status st = moments(r, c, mean, var);
    if (st)
        return st;
    for (int64_t i = 0; i < c->n; i++) {
        out[3][i] = (float)mean[i];
        out[4][i] = (float)var[i];
        out[1][i] = out[3][i];
        out[2][i] = (float)(var[i] * unbias);
        if (keep != 1) {
            const float *m = r->in[3].data, *v = r->in[4].data;
            out[1][i] = (1 - keep) * m[i] + keep * out[1][i];
            out[2][i] = (1 - keep) * v[i] + keep * out[2][i];
        }
    }
    return RT_OK;
}

static enum rt_status run_norm(struct rt_run *r)
{
    const struct channels *c = r->state;
    const bool training = rt_attr_bool(r->node, "is_training");
    const float epsilon = rt_attr_float(r->node, "epsilon");
    const float *scale = r->in[1].data, *offset = r->in[2].data;
    const float *mean = r->in[3].data, *var = r->in[4].data;
    /* In scratch memory, the factors follow the two rows of doubles that train() uses. */
    float *factor = r->scratch ? (float *)r->scratch + 4 * c->n : NULL;

    /* Without data, the statistics are NaN, even if the inputs hold statistics. The reserved
     * outputs 3 and 4 have the values that TensorFlow returns with oneDNN; without oneDNN,
     * TensorFlow leaves them uninitialised. */
    if (c->outer * c->n * c->inner == 0) {
        for (int64_t i = 0; i < c->n; i++) {
            ((float *)r->out[1].data)[i] = ((float *)r->out[2].data)[i] = NAN;
            ((float *)r->out[3].data)[i] = ((float *)r->out[4].data)[i] = 0;
        }
    } else if (training) {
        const enum rt_status st = train(r, c);
        if (st)
            return st;
        mean = r->out[3].data;
        var = r->out[4].data;
    } else {
        for (int k = 1; k < 5; k++)
            copy_floats(r->out[k].data, k % 2 ? mean : var, c->n);
    }
    if (r->n_out == 6)
        *(float *)r->out[5].data = 0;
    if (c->outer * c->n * c->inner == 0)
        return RT_OK;
    for (int64_t i = 0; i < c->n; i++)
        factor[i] = scale[i] / sqrtf(var[i] + epsilon);
    return normalise(r, c, mean, factor, offset);
}

/* ---- BatchNormWithGlobalNormalization: inputs t, mean, variance, beta, gamma ---- */

static enum rt_status infer_global(struct rt_infer *x)
{
    static const char *const name[] = {"t", "mean", "var", "beta", "gamma"};
    const struct rt_shape *s = &x->in[0].shape;
    char words[64];

    if (s->rank >= 0 && s->rank != 4)
        return fail_shape(x->err, "input must be 4-dimensional", s);
    for (int k = 1; k < 5; k++)
        if (x->in[k].shape.rank >= 0 && x->in[k].shape.rank != 1) {
            snprintf(words, sizeof words, "%s must be 1-dimensional", name[k]);
            return fail_shape(x->err, words, &x->in[k].shape);
        }
    x->alias[0] = 0;
    x->out[0].shape = *s;
    for (int k = 1; s->rank == 4 && k < 5; k++) {
        const struct rt_shape *v = &x->in[k].shape;
        if (v->rank == 1 && v->dim[0] >= 0 && s->dim[3] >= 0 && v->dim[0] != s->dim[3])
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "%s must have as many elements as the input has channels, got %lld and "
                           "%lld",
                           name[k], (long long)v->dim[0], (long long)s->dim[3]);
    }
    return RT_OK;
}

#define GLOBAL(dt, T, ACC, GET, PUT, SQRT)                                                         \
    static void global_##dt(const struct channels *c, const T *const *in, T *y, ACC eps,           \
                            bool scaled)                                                           \
    {                                                                                              \
        for (int64_t o = 0; o < c->outer; o++)                                                     \
            for (int64_t i = 0; i < c->n; i++) {                                                   \
                ACC f = 1 / SQRT(GET(in[2][i]) + eps);                                             \
                if (scaled)                                                                        \
                    f *= GET(in[4][i]);                                                            \
                const ACC v = (GET(in[0][o * c->n + i]) - GET(in[1][i])) * f + GET(in[3][i]);      \
                y[o * c->n + i] = PUT(v);                                                          \
            }                                                                                      \
    }
GLOBAL(RT_F32, float, float, AS_IS, AS_IS, sqrtf)
GLOBAL(RT_F64, double, double, AS_IS, AS_IS, sqrt)
GLOBAL(RT_F16, struct kn_half, float, kn_from_f16, kn_to_f16, sqrtf)

static enum rt_status run_global(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    const struct channels c = {t->dim[0] * t->dim[1] * t->dim[2], t->dim[3], 1};
    const float eps = rt_attr_float(r->node, "variance_epsilon");
    const bool scaled = rt_attr_bool(r->node, "scale_after_normalization");

    struct chunk p;
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;

    if (!next_chunk(&c, 0, &p))
        return RT_OK;
    switch (t->dtype) {
#define X(dt, T)                                                                                   \
    case dt: {                                                                                     \
        const T *in[5];                                                                            \
        for (int k = 0; k < 5; k++)                                                                \
            in[k] = r->in[k].data;                                                                 \
        do {                                                                                       \
            const T *part[5] = {in[0] + p.at};                                                     \
            for (int k = 1; k < 5; k++)                                                            \
                part[k] = in[k] + p.channel;                                                       \
            global_##dt(&p.c, part, (T *)r->out[0].data + p.at, eps, scaled);                      \
        } while (go_on(r, &c, &left, &p, &st));                                                    \
        break;                                                                                     \
    }
        KN_FLOATS(X)
        X(RT_F16, struct kn_half)
#undef X
    default:
        break;
    }
    return st;
}

/* ---- LRN ---- */

static enum rt_status infer_lrn(struct rt_infer *x)
{
    const struct rt_shape *s = &x->in[0].shape;
    if (s->rank >= 0 && s->rank != 4)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "in must be 4-dimensional");
    x->out[0].shape = *s;
    return RT_OK;
}

static enum rt_status prepare_lrn(struct rt_prep *p, void **state)
{
    (void)state;
    p->scratch_bytes = (size_t)p->in[0].shape.dim[3] * 2 * sizeof(float);
    return RT_OK;
}

struct lrn {
    int64_t radius;
    float bias, alpha, beta;
    bool rounds; /* whether the tensor is float16 */
};

/* Computes a power. For ordinary numbers uses powf, which is more exact than TensorFlow's
 * exp(log(base) * by). For other numbers computes TensorFlow's formula, whose result is NaN if the
 * base is negative or the product is 0 * infinity. */
static float lrn_power(float base, float by)
{
    const bool ordinary = base > 0 && isfinite(base) && isfinite(by);
    return ordinary ? powf(base, by) : expf(logf(base) * by);
}

static enum rt_status lrn_pixel(struct rt_run *r, int64_t *left, const struct lrn *l,
                                const float *x, float *y, int64_t n)
{
    /* TensorFlow multiplies the squares by a band matrix. The zeros of the matrix turn infinite and
     * NaN squares into NaN, so that even channels whose window contains no such square become
     * NaN. */
    int64_t first_odd = n, last_odd = -1;

    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i] * x[i])) {
            first_odd = first_odd < i ? first_odd : i;
            last_odd = i;
        }
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = i > l->radius ? i - l->radius : 0;
        const int64_t to = n - 1 - i > l->radius ? i + l->radius : n - 1;
        float sum = first_odd < from || last_odd > to ? NAN : 0;
        for (int64_t j = from; j <= to; j++)
            sum += x[j] * x[j];
        float base = l->bias + l->alpha * sum;
        if (l->rounds) /* a base too large for float16 becomes an infinity, as in TensorFlow */
            base = kn_from_f16(kn_to_f16(base));
        /* As in TensorFlow, the factor of a base beyond 2^126 is subnormal and is treated as 0. */
        y[i] = x[i] * (l->beta == 1      ? 1 / base
                       : l->beta == 0.5f ? 1 / sqrtf(base)
                                         : lrn_power(base, -l->beta));
        if (rt_run_spend(r, left, 16 + to - from))
            return r->err->code;
    }
    return RT_OK;
}

/* Returns an attribute of LRN, rounded to the type of the tensor as in TensorFlow. */
static float lrn_attr(const struct rt_run *r, const char *name)
{
    const float value = rt_attr_float(r->node, name);
    return r->in[0].dtype == RT_F16 ? kn_from_f16(kn_to_f16(value)) : value;
}

static enum rt_status run_lrn(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    if (rt_tensor_count(t) == 0)
        /* If the tensor is empty, its other dimensions may be very large, and r->scratch may be
         * NULL. */
        return RT_OK;
    const enum rt_dtype d = (enum rt_dtype)t->dtype;
    const struct lrn l = {.radius = rt_attr_int(r->node, "depth_radius"),
                          .bias = lrn_attr(r, "bias"),
                          .alpha = lrn_attr(r, "alpha"),
                          .beta = lrn_attr(r, "beta"),
                          .rounds = d == RT_F16};
    const int64_t n = t->dim[3], pixels = t->dim[0] * t->dim[1] * t->dim[2];
    const int64_t step = n * (int64_t)rt_dtype_size(d);
    const char *src = t->data;
    char *dst = r->out[0].data;
    float *x = r->scratch, *y = x + n;
    int64_t left = RT_WORK;
    for (int64_t i = 0; i < pixels; i++, src += step, dst += step) {
        if (kn_to_float_rows(r, d, src, n, x, 1, n) || lrn_pixel(r, &left, &l, x, y, n) ||
            kn_from_float_rows(r, d, y, dst, n, 1, n))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status check_lrn(const struct rt_node *n, struct rt_error *err)
{
    const int64_t r = rt_attr_int(n, "depth_radius");
    if (r < 0 || r >= INT32_MAX)
        return rt_fail(err, RT_INVALID_ARGUMENT, "depth_radius = %lld larger than int max",
                       (long long)r);
    return RT_OK;
}

/* ---- registration ---- */

#define BIAS_TYPES (KN_SET(KN_REALS) | KN_SET(KN_COMPLEX))
#define NORM_TYPES (RT_T(RT_F32) | KN_SET(KN_HALFS))

/* Statistics are float32, whatever the type of the data is. */
#define NORM_KERNEL(op_)                                                                           \
    KN_KERNELS({.op = (op_),                                                                       \
                .device = "CPU",                                                                   \
                .name = "batch_norm",                                                              \
                .types = NORM_TYPES,                                                               \
                .and_type_attr = "U",                                                              \
                .and_types = RT_T(RT_F32),                                                         \
                .prepare = prepare_norm,                                                           \
                .run = run_norm})

const struct kn_entry kn_bias_add = {
    .op = {.name = "BiasAdd", .infer = infer_bias, .rows = rt_rows_first},
    .kernels = KN_CPU("BiasAdd", "bias_add", BIAS_TYPES, NULL, run_bias),
};
const struct kn_entry kn_bias_add_v1 = {
    .op = {.name = "BiasAddV1", .infer = infer_bias, .rows = rt_rows_first},
    .kernels = KN_CPU("BiasAddV1", "bias_add", BIAS_TYPES, NULL, run_bias),
};
const struct kn_entry kn_fused_batch_norm = {
    .op = {.name = "FusedBatchNorm", .infer = infer_norm, .rows = rows_norm},
    .kernels = KN_CPU("FusedBatchNorm", "batch_norm", RT_T(RT_F32), prepare_norm, run_norm),
};
const struct kn_entry kn_fused_batch_norm_v2 = {
    .op = {.name = "FusedBatchNormV2", .infer = infer_norm, .rows = rows_norm},
    .kernels = NORM_KERNEL("FusedBatchNormV2"),
};
const struct kn_entry kn_fused_batch_norm_v3 = {
    .op = {.name = "FusedBatchNormV3", .infer = infer_norm, .rows = rows_norm},
    .kernels = NORM_KERNEL("FusedBatchNormV3"),
};
const struct kn_entry kn_batch_norm_with_global_normalization = {
    .op = {.name = "BatchNormWithGlobalNormalization",
           .infer = infer_global,
           .rows = rt_rows_first},
    .kernels = KN_CPU("BatchNormWithGlobalNormalization", "batch_norm_global",
                      KN_SET(KN_FLOATS) | RT_T(RT_F16), NULL, run_global),
};
const struct kn_entry kn_lrn = {
    .op = {.name = "LRN", .check = check_lrn, .infer = infer_lrn, .rows = rt_rows_first},
    .kernels = KN_CPU("LRN", "lrn", RT_T(RT_F32) | RT_T(RT_F16), prepare_lrn, run_lrn),
};
