/*
 * Ops that process each channel: BiasAdd, FusedBatchNorm (all versions),
 * BatchNormWithGlobalNormalization.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/math/elementwise.h"
#include "kernels/matmul/gemm.h"
#include "kernels/cpu/types.h"
#include "kernels/nn/channels.h"
#include "kernels/nn/window.h"
#include "kernels/entry.h"

static enum rt_status fail_shape(struct rt_error *err, const char *words, const struct rt_shape *s)
{
    char text[160];
    return rt_fail(err, RT_INVALID_ARGUMENT, "%s%s", words,
                   rt_shape_text(text, sizeof text, s->rank, s->dim));
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
    KN_CLONES static void bias_##dt(const struct kn_channels *c, const T *x, const T *b, T *y)     \
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
/* Integers are added in unsigned types, so that sums wrap around. The bits of the sum are the same
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
    const struct kn_channels c = kn_channels_of(&s, kn_channels_first(r->node) ? 1 : s.rank - 1);
    const void *x = t->data, *b = r->in[1].data;
    void *y = r->out[0].data;
    struct kn_channel_chunk p;
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;

    if (!rt_tensor_count(t) || !kn_next_chunk(&c, 0, &p))
        return RT_OK;
    switch (unsigned_of((enum rt_dtype)t->dtype)) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        do                                                                                         \
            bias_##dt(&p.c, (const T *)x + p.at, (const T *)b + p.channel, (T *)y + p.at);         \
        while (kn_chunks_go_on(r, &c, &left, &p, &st));                                            \
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
    struct kn_channels *c = rt_prep_alloc(p, sizeof *c);
    const struct rt_shape *s = &p->in[0].shape;

    if (!c)
        return p->err->code;
    *c = kn_channels_of(s, kn_channels_first(p->node) ? 1 : s->rank - 1);
    /* Scratch memory holds one float factor per channel and, in training, also the mean and the
     * variance of each channel in double. */
    p->scratch_bytes = (size_t)c->n * 3 * sizeof(double);
    *state = c;
    return RT_OK;
}

#define NORMALISE(dt, T, GET, PUT)                                                                 \
    KN_CLONES static void normalise_##dt(const struct kn_channels *c, const T *x,                  \
                                         const float *mean, const float *factor,                   \
                                         const float *offset, T *y)                                \
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
    static void add_up_##dt(const struct kn_channels *c, const T *x, const double *mean,           \
                            double *sum)                                                           \
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

static enum rt_status normalise(struct rt_run *r, const struct kn_channels *c, const float *mean,
                                const float *factor, const float *offset)
{
    const void *x = r->in[0].data;
    void *y = r->out[0].data;
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;
    struct kn_channel_chunk p;

    if (!kn_next_chunk(c, 0, &p))
        return RT_OK;
    switch (r->in[0].dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        do                                                                                         \
            normalise_##dt(&p.c, (const T *)x + p.at, mean + p.channel, factor + p.channel,        \
                           offset + p.channel, (T *)y + p.at);                                     \
        while (kn_chunks_go_on(r, c, &left, &p, &st));                                             \
        break;
        X(RT_F32, float)
        KN_HALFS(X)
#undef X
    default:
        break;
    }
    return st;
}

/* Computes the mean and the variance of each channel, in two passes with sums in double. */
static enum rt_status moments(struct rt_run *r, const struct kn_channels *c, double *mean,
                              double *var)
{
    const double n = (double)(c->outer * c->inner);
    const void *x = r->in[0].data;
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;

    for (int pass = 0; pass < 2 && !st; pass++) {
        double *sum = pass ? var : mean;
        struct kn_channel_chunk p;
        st = kn_zero_chunks(r, sum, (size_t)c->n * sizeof *sum);
        if (st || !kn_next_chunk(c, 0, &p))
            continue;
        switch (r->in[0].dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        do                                                                                         \
            add_up_##dt(&p.c, (const T *)x + p.at, pass ? mean + p.channel : NULL,                 \
                        sum + p.channel);                                                          \
        while (kn_chunks_go_on(r, c, &left, &p, &st));                                             \
        break;
            X(RT_F32, float)
            KN_HALFS(X)
#undef X
        default:
            break;
        }
        struct kn_channel_range g;
        if (st || !kn_first_range(&g, c->n))
            continue;
        do
            for (int64_t i = g.from; i < g.to; i++)
                sum[i] /= n;
        while (kn_next_range(r, &left, &g, &st));
    }
    return st;
}

/* Computes outputs 1 to 4 of a training step, the running statistics and the batch statistics, for
 * the channels in `g`. `mean` and `var` hold the statistics of the batch. */
static void train_range(const struct rt_run *r, const struct kn_channel_range *g, float keep,
                        double unbias, const double *mean, const double *var)
{
    float *out[5] = {NULL};

    for (int k = 1; k < 5; k++)
        out[k] = r->out[k].data;
    for (int64_t i = g->from; i < g->to; i++) {
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
}

static enum rt_status train(struct rt_run *r, const struct kn_channels *c)
{
    const float keep = rt_attr_float(r->node, "exponential_avg_factor");
    const double n = (double)(c->outer * c->inner), unbias = n > 1 ? n / (n - 1) : 1;
    double *mean = r->scratch, *var = mean + c->n;
    int64_t left = RT_WORK;
    enum rt_status st = moments(r, c, mean, var);
    struct kn_channel_range g;

    if (st || !kn_first_range(&g, c->n))
        return st;
    do
        train_range(r, &g, keep, unbias, mean, var);
    while (kn_next_range(r, &left, &g, &st));
    return st;
}

/* Computes the statistics of a tensor without data. They are NaN, even if the inputs hold
 * statistics. The reserved outputs 3 and 4 have the values that TensorFlow returns with oneDNN;
 * without oneDNN, TensorFlow leaves them uninitialised. */
static enum rt_status no_statistics(struct rt_run *r, int64_t n)
{
    const float nan = NAN, zero = 0;
    enum rt_status st = RT_OK;

    for (int k = 1; k < 5 && !st; k++)
        st = kn_repeat(RT_F32, r->out[k].data, k < 3 ? &nan : &zero, n, r);
    return st;
}

static enum rt_status run_norm(struct rt_run *r)
{
    const struct kn_channels *c = r->state;
    const bool training = rt_attr_bool(r->node, "is_training");
    const bool is_empty = c->outer * c->n * c->inner == 0;
    const float epsilon = rt_attr_float(r->node, "epsilon");
    const float *scale = r->in[1].data, *offset = r->in[2].data;
    const float *mean = r->in[3].data, *var = r->in[4].data;
    /* The first 2 * c->n doubles of scratch memory are used by train(). The factors follow them. */
    float *factor = r->scratch ? (float *)r->scratch + 4 * c->n : NULL;
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;
    struct kn_channel_range g;

    if (is_empty) {
        st = no_statistics(r, c->n);
    } else if (training) {
        st = train(r, c);
        mean = r->out[3].data;
        var = r->out[4].data;
    } else {
        for (int k = 1; k < 5 && !st; k++)
            st = kn_copy_run(r, RT_F32, r->out[k].data, k % 2 ? mean : var, c->n);
    }
    if (st)
        return st;
    if (r->n_out == 6)
        *(float *)r->out[5].data = 0;
    if (is_empty || !kn_first_range(&g, c->n))
        return RT_OK;
    do
        for (int64_t i = g.from; i < g.to; i++)
            factor[i] = scale[i] / sqrtf(var[i] + epsilon);
    while (kn_next_range(r, &left, &g, &st));
    return st ? st : normalise(r, c, mean, factor, offset);
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
    static void global_##dt(const struct kn_channels *c, const T *const *in, T *y, ACC eps,        \
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
    const struct kn_channels c = {t->dim[0] * t->dim[1] * t->dim[2], t->dim[3], 1};
    const float eps = rt_attr_float(r->node, "variance_epsilon");
    const bool scaled = rt_attr_bool(r->node, "scale_after_normalization");

    struct kn_channel_chunk p;
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;

    if (!kn_next_chunk(&c, 0, &p))
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
        } while (kn_chunks_go_on(r, &c, &left, &p, &st));                                          \
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
