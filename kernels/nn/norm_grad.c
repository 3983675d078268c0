/*
 * The gradients of batch normalisation: FusedBatchNormGrad, FusedBatchNormGradV2 and V3.
 *
 * Let x' = (x - mean) / sqrt(variance + epsilon), and let dy be the gradient of the output. For
 * each channel, the gradient of the offset is the sum of dy, and the gradient of the scale is the
 * sum of dy x'. In training, mean and variance depend on x, and the gradient of x is
 *
 *   scale / sqrt(variance + epsilon) * (dy - average(dy) - x' average(dy x'))
 *
 * (Ioffe and Szegedy, "Batch Normalization", section 3). Otherwise, the gradient of x is
 * scale / sqrt(variance + epsilon) * dy.
 */
#include <math.h>

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/nn/channels.h"
#include "kernels/nn/window.h"

/* The inputs are dy, x, the scale, the mean and the variance. V3 has one more input, which is not
 * used. */
enum { DY, X, SCALE, MEAN, VARIANCE };

static enum rt_status check_vector(struct rt_infer *x, int k, int64_t channels)
{
    static const char *const rank_name[] = {"scale", "saved mean", "saved variance"};
    static const char *const name[] = {"scale", "reserve_space_1", "reserve_space_2"};
    const struct rt_shape *s = &x->in[k].shape;

    if (s->rank >= 0 && s->rank != 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "%s must be 1-dimensional%s",
                       rank_name[k - SCALE], KN_TEXT(s));
    if (s->rank == 1 && s->dim[0] >= 0 && channels >= 0 && s->dim[0] != channels)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "%s must have the same number of elements as the channels of x, got %lld "
                       "and %lld",
                       name[k - SCALE], (long long)s->dim[0], (long long)channels);
    return RT_OK;
}

static enum rt_status norm_grad_infer(struct rt_infer *x)
{
    const struct rt_shape *dy = &x->in[DY].shape, *s = &x->in[X].shape;
    enum rt_status st = RT_OK;
    int64_t channels = -1;

    for (int k = DY; k <= X; k++)
        if (x->in[k].shape.rank >= 0 && x->in[k].shape.rank != 4 && x->in[k].shape.rank != 5)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "input must be 4 or 5-dimensional%s",
                           KN_TEXT(&x->in[k].shape));
    if (kn_shape_known(dy) && kn_shape_known(s) && !kn_shape_eq(dy, s))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "x and y_backprop must have same shape, but x has shape %s and y_backprop "
                       "has shape %s",
                       KN_TEXT(s), KN_TEXT(dy));
    if (s->rank > 0)
        channels = s->dim[kn_channels_first(x->node) ? 1 : s->rank - 1];
    for (int k = SCALE; k <= VARIANCE && !st; k++)
        st = check_vector(x, k, channels);
    x->out[0].shape = *s;
    for (int k = 1; k < 5; k++)
        x->out[k].shape = (struct rt_shape){.rank = 1, .dim = {k < 3 ? channels : 0}};
    return st;
}

struct norm_grad {
    struct kn_channels c;
    bool training;
    float epsilon;
};

/* The doubles that are computed for each channel: three sums and a factor. */
enum { SUM_DY, SUM_DY_CENTRED, SUM_DY_SCALED, INVERSE, N_DOUBLES };
/* The floats of each channel. The gradient of x is factor * (dy - shift - (x - mean) * slope) in
 * training. Otherwise it is factor * dy, and there are no shifts and slopes. */
enum { FACTOR, SHIFT, SLOPE, N_FLOATS };

static enum rt_status norm_grad_prepare(struct rt_prep *p, void **state)
{
    struct norm_grad *g = rt_prep_alloc(p, sizeof *g);
    const struct rt_shape *s = &p->in[X].shape;
    const bool first = kn_channels_first(p->node);

    if (!g)
        return p->err->code;
    g->training = rt_attr_bool(p->node, "is_training");
    g->epsilon = rt_attr_float(p->node, "epsilon");
    if (first && !g->training)
        return rt_fail(p->err, RT_INVALID_ARGUMENT,
                       "The implementation of FusedBatchNormGrad with is_training=False only "
                       "support NHWC tensor format for now.");
    g->c = kn_channels_of(s, first ? 1 : s->rank - 1);
    p->scratch_bytes = (size_t)g->c.n * (N_DOUBLES * sizeof(double) + N_FLOATS * sizeof(float));
    *state = g;
    return RT_OK;
}

#define AS_IS(v) (v)
#define LOOPS(dt, T, GET, PUT)                                                                     \
    KN_CLONES static void sums_##dt(const struct kn_channels *c, const T *dy, const T *x,          \
                                    const float *mean, double *restrict *sum)                      \
    {                                                                                              \
        for (int64_t o = 0; o < c->outer; o++)                                                     \
            for (int64_t i = 0; i < c->n; i++, dy += c->inner, x += c->inner) {                    \
                double a = 0, b = 0, s = 0;                                                        \
                for (int64_t j = 0; j < c->inner; j++) {                                           \
                    const double d = GET(dy[j]), v = (double)GET(x[j]) - (double)mean[i];          \
                    a += d;                                                                        \
                    b += d * v;                                                                    \
                    s += d * (v * sum[INVERSE][i]);                                                \
                }                                                                                  \
                sum[SUM_DY][i] += a;                                                               \
                sum[SUM_DY_CENTRED][i] += b;                                                       \
                sum[SUM_DY_SCALED][i] += s;                                                        \
            }                                                                                      \
    }                                                                                              \
    KN_CLONES static void sums_rows_##dt(const struct kn_channels *c, const T *dy, const T *x,     \
                                         const float *mean, double *restrict *sum)                 \
    {                                                                                              \
        double *restrict a = sum[SUM_DY], *restrict b = sum[SUM_DY_CENTRED];                       \
        double *restrict s = sum[SUM_DY_SCALED];                                                   \
        const double *restrict inverse = sum[INVERSE];                                             \
        for (int64_t o = 0; o < c->outer; o++, dy += c->n, x += c->n)                              \
            for (int64_t i = 0; i < c->n; i++) {                                                   \
                const double d = GET(dy[i]), v = (double)GET(x[i]) - (double)mean[i];              \
                a[i] += d;                                                                         \
                b[i] += d * v;                                                                     \
                s[i] += d * (v * inverse[i]);                                                      \
            }                                                                                      \
    }                                                                                              \
    static inline float gradient_##dt(T dy, T x, float mean, float *const *f, int64_t i)           \
    {                                                                                              \
        return f[FACTOR][i] *                                                                      \
               (f[SLOPE] ? GET(dy) - f[SHIFT][i] - (GET(x) - mean) * f[SLOPE][i] : GET(dy));       \
    }                                                                                              \
    KN_CLONES static void apply_##dt(const struct kn_channels *c, const T *dy, const T *x,         \
                                     const float *mean, float *const *f, T *restrict dx)           \
    {                                                                                              \
        for (int64_t o = 0; o < c->outer; o++) {                                                   \
            for (int64_t i = 0; i < c->n && c->inner == 1; i++)                                    \
                dx[i] = PUT(gradient_##dt(dy[i], x[i], mean[i], f, i));                            \
            for (int64_t i = 0; i < c->n && c->inner != 1; i++)                                    \
                for (int64_t j = i * c->inner; j < (i + 1) * c->inner; j++)                        \
                    dx[j] = PUT(gradient_##dt(dy[j], x[j], mean[i], f, i));                        \
            dy += c->n * c->inner;                                                                 \
            x += c->n * c->inner;                                                                  \
            dx += c->n * c->inner;                                                                 \
        }                                                                                          \
    }
LOOPS(RT_F32, float, AS_IS, AS_IS)
LOOPS(RT_F16, struct kn_half, kn_from_f16, kn_to_f16)
LOOPS(RT_BF16, struct kn_bfloat, kn_from_bf16, kn_to_bf16)

/* Adds the elements of a chunk to the sums of their channels. If f is not NULL, computes the
 * gradients of the elements instead. */
static void norm_grad_chunk(const struct rt_run *r, const struct kn_channel_chunk *p,
                            double *const *sum, float *const *f)
{
    const float *mean = (const float *)r->in[MEAN].data + p->channel;
    double *sums[N_DOUBLES];
    float *floats[N_FLOATS];

    for (int i = 0; i < N_DOUBLES; i++)
        sums[i] = sum[i] + p->channel;
    for (int i = 0; i < N_FLOATS; i++)
        floats[i] = f && f[i] ? f[i] + p->channel : NULL;
    switch (r->in[X].dtype) {
#define CASE(dt, T)                                                                                \
    case dt: {                                                                                     \
        const T *dy = (const T *)r->in[DY].data + p->at, *x = (const T *)r->in[X].data + p->at;    \
        if (f)                                                                                     \
            apply_##dt(&p->c, dy, x, mean, floats, (T *)r->out[0].data + p->at);                   \
        else if (p->c.inner == 1)                                                                  \
            sums_rows_##dt(&p->c, dy, x, mean, sums);                                              \
        else                                                                                       \
            sums_##dt(&p->c, dy, x, mean, sums);                                                   \
        break;                                                                                     \
    }
        CASE(RT_F32, float)
        KN_HALFS(CASE)
#undef CASE
    default:
        break;
    }
}

static enum rt_status norm_grad_chunks(struct rt_run *r, double *const *sum, float *const *f)
{
    const struct norm_grad *g = r->state;
    enum rt_status st = RT_OK;
    int64_t left = RT_WORK;
    struct kn_channel_chunk p;

    if (!kn_next_chunk(&g->c, 0, &p))
        return RT_OK;
    do
        norm_grad_chunk(r, &p, sum, f);
    while (kn_chunks_go_on(r, &g->c, &left, &p, &st));
    return st;
}

/* Computes the gradients of the scale and the offset for channels [from, to), and sets the members
 * of f from which apply_<type> computes the gradient of x. */
static void finish_channels(struct rt_run *r, const struct norm_grad *g, double *const *sum,
                            float *const *f, int64_t from, int64_t to)
{
    const float *scale = r->in[SCALE].data;
    float *d_scale = r->out[1].data, *d_offset = r->out[2].data;
    const double n = (double)(g->c.outer * g->c.inner);

    for (int64_t i = from; i < to; i++) {
        const double inverse = sum[INVERSE][i], centred = sum[SUM_DY_CENTRED][i];
        d_offset[i] = (float)sum[SUM_DY][i];
        d_scale[i] = n == 0        ? 0
                     : g->training ? (float)sum[SUM_DY_SCALED][i]
                                   : (float)(centred * inverse);
        f[FACTOR][i] = scale[i] * (float)inverse;
        if (g->training) {
            f[SHIFT][i] = (float)(sum[SUM_DY][i] / n);
            f[SLOPE][i] = (float)(centred / n * inverse * inverse);
        }
    }
}

static enum rt_status norm_grad_run(struct rt_run *r)
{
    const struct norm_grad *g = r->state;
    const float *variance = r->in[VARIANCE].data;
    double *sum[N_DOUBLES];
    float *f[N_FLOATS];
    struct kn_channel_range range;
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;

    if (!kn_first_range(&range, g->c.n))
        return RT_OK;
    for (int i = 0; i < N_DOUBLES; i++)
        sum[i] = (double *)r->scratch + i * g->c.n;
    for (int i = 0; i < N_FLOATS; i++)
        f[i] =
            g->training || i == FACTOR ? (float *)(sum[N_DOUBLES - 1] + g->c.n) + i * g->c.n : NULL;
    do
        for (int64_t i = range.from; i < range.to; i++) {
            sum[SUM_DY][i] = sum[SUM_DY_CENTRED][i] = sum[SUM_DY_SCALED][i] = 0;
            sum[INVERSE][i] = 1 / sqrtf(variance[i] + g->epsilon);
        }
    while (kn_next_range(r, &left, &range, &st));
    if (!st)
        st = norm_grad_chunks(r, sum, NULL);
    if (st || !kn_first_range(&range, g->c.n))
        return st;
    do
        finish_channels(r, g, sum, f, range.from, range.to);
    while (kn_next_range(r, &left, &range, &st));
    return st ? st : norm_grad_chunks(r, sum, f);
}

#define ENTRY(symbol, tf)                                                                          \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (tf), .infer = norm_grad_infer},                                            \
        .kernels = KN_CPU(tf, "batch_norm_grad", RT_T(RT_F32) | KN_SET(KN_HALFS),                  \
                          norm_grad_prepare, norm_grad_run),                                       \
    };
ENTRY(fused_batch_norm_grad, "FusedBatchNormGrad")
ENTRY(fused_batch_norm_grad_v2, "FusedBatchNormGradV2")
ENTRY(fused_batch_norm_grad_v3, "FusedBatchNormGradV3")
