/*
 * Pooling ops over two or three spatial axes: MaxPool, MaxPoolV2, MaxPool3D, AvgPool, AvgPool3D,
 * MaxPoolWithArgmax. Channels are innermost, so a window is reduced one complete pixel at a time.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/types.h"
#include "kernels/nn/pool.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

struct pool {
    int n_spatial;
    /* `depth` is the number of channels in a window: 1, except for depthwise MaxPool. */
    int64_t batch, channels, depth;
    struct kn_axis a[KN_MAX_SPATIAL]; /* missing leading axes have length 1 */
    bool count_batch; /* whether argmax indexes the complete input instead of one image */
    enum rt_dtype dtype;
    bool average;
    bool zeros; /* whether the padding of a MaxPool has the value 0 (runtime/fusion/fuse_pad.c) */
};

/* ---- attributes ---- */

static bool op_is(const struct rt_node *n, const char *name)
{
    return strcmp(n->schema->name, name) == 0;
}

static bool has_zeros(const struct rt_node *n)
{
    for (int i = 0; i < n->n_extra; i++)
        if (strcmp(n->extra[i].name, "_zeros") == 0)
            return op_is(n, "MaxPool");
    return false;
}

static int n_spatial(const struct rt_node *n)
{
    return op_is(n, "MaxPool3D") || op_is(n, "AvgPool3D") ? 3 : 2;
}

static bool is_average(const struct rt_node *n)
{
    return op_is(n, "AvgPool") || op_is(n, "AvgPool3D");
}

static enum rt_status check_window(const struct rt_node *n, const int64_t *k, const int64_t *s,
                                   struct rt_error *err)
{
    for (int i = 0; i < n_spatial(n) + 2; i++) {
        if (k[i] <= 0 || k[i] > INT32_MAX) {
            if (n_spatial(n) == 3)
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "Sliding window ksize field must have non-negative dimensions");
            if (is_average(n))
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "ksize must be a positive int32 value, got:%lld", (long long)k[i]);
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Sliding window ksize must be positive. The specified or inferred ksize "
                           "is: %lld,%lld,%lld,%lld",
                           (long long)k[0], (long long)k[1], (long long)k[2], (long long)k[3]);
        }
    }
    if (k[0] != 1 || s[0] != 1)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "Pooling is not yet supported on the batch dimension.");
    for (int i = 0; i < n_spatial(n); i++) {
        const int64_t stride = s[kn_spatial_axis(kn_channels_first(n), i)];
        if (stride <= 0 || stride > INT32_MAX)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Stride must be > 0, but got %lld",
                           (long long)stride);
    }
    return RT_OK;
}

/* Checks the window size and the stride along the channel axis. As in TensorFlow, a 2D pooling
 * ignores this stride unless the window contains several channels. */
static enum rt_status check_depth(const struct rt_node *n, int64_t k, int64_t s, int64_t flat,
                                  int64_t channels, struct rt_error *err)
{
    if (k == 1 && (n_spatial(n) == 2 || s == 1))
        return RT_OK;
    if (n_spatial(n) == 3)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "Pooling is not yet supported on the depth dimension.");
    if (flat != 1)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "MaxPooling supports exactly one of pooling across depth or pooling across "
                       "width/height.");
    if (channels >= 0 && channels % k)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "Depthwise max pooling requires the depth window to evenly divide the input "
                       "depth");
    if (k != s)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "Depthwise max pooling requires the depth window to equal the depth stride");
    if (is_average(n))
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "Non-spatial pooling is not yet supported. Volunteers? :)");
    return RT_OK;
}

static enum rt_status pool_check(const struct rt_node *n, struct rt_error *err)
{
    const int64_t *k, *s;
    const size_t want = (size_t)n_spatial(n) + 2;

    if (rt_attr_ints(n, "ksize", &k) != want)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Sliding window ksize field must specify %zu dimensions", want);
    if (rt_attr_ints(n, "strides", &s) != want)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Sliding window stride field must specify %zu dimensions", want);
    if (rt_attr(n, "explicit_paddings") && kn_padding(n) == KN_EXPLICIT) {
        const enum rt_status st = kn_check_paddings(n, err);
        if (st)
            return st;
    }
    return check_window(n, k, s, err);
}

/* ---- shapes ---- */

/* Sets *p from the node and the shape of its input. Dimensions of `in` may be -1 (unknown). */
static enum rt_status solve(struct pool *p, const struct rt_node *n, const struct rt_shape *in,
                            const int64_t *k, const int64_t *s, struct rt_error *err)
{
    const int sp = n_spatial(n), lead = KN_MAX_SPATIAL - sp;
    const bool first = kn_channels_first(n);
    const int ch = kn_channel_axis(first, sp);
    const enum kn_padding padding = kn_padding(n);
    const int64_t *pads = NULL;

    memset(p, 0, sizeof *p);
    p->n_spatial = sp;
    p->average = is_average(n);
    p->zeros = has_zeros(n);
    p->batch = in->dim[0];
    p->channels = in->dim[ch];
    p->depth = k[ch];
    if (padding == KN_EXPLICIT)
        rt_attr_ints(n, "explicit_paddings", &pads);
    int64_t flat = 1;
    for (int i = 0; i < KN_MAX_SPATIAL; i++) {
        struct kn_axis *a = &p->a[i];
        const int at = kn_spatial_axis(first, i - lead);
        *a = (struct kn_axis){.in = 1, .out = 1, .size = 1, .stride = 1, .dilation = 1};
        if (i < lead)
            continue;
        a->in = in->dim[at];
        a->size = k[at];
        a->stride = s[at];
        if (a->size != 1)
            flat = 0;
        if (pads) {
            a->lo = pads[2 * at];
            a->hi = pads[2 * at + 1];
            const enum rt_status st = kn_axis_check_padding(a, i - lead, err);
            if (st)
                return st;
        }
        const enum rt_status st = kn_axis_solve(a, padding, err);
        if (st)
            return st;
    }
    /* MaxPoolWithArgmax pools over spatial axes only, and ignores the channel axis of `ksize`. */
    if (op_is(n, "MaxPoolWithArgmax")) {
        p->depth = 1;
        return RT_OK;
    }
    return check_depth(n, p->depth, s[ch], flat, p->channels, err);
}

static enum rt_status infer_window(struct rt_infer *x, const int64_t *k, const int64_t *s)
{
    const struct rt_shape *in = &x->in[0].shape;
    struct rt_shape *o = &x->out[0].shape;
    const int sp = n_spatial(x->node);
    const bool first = kn_channels_first(x->node);
    struct pool p;

    const enum rt_status st = solve(&p, x->node, in, k, s, x->err);
    if (st)
        return st;
    o->dim[0] = p.batch;
    o->dim[kn_channel_axis(first, sp)] = p.channels < 0 ? -1 : p.channels / p.depth;
    for (int i = 0; i < sp; i++)
        o->dim[kn_spatial_axis(first, i)] = p.a[KN_MAX_SPATIAL - sp + i].out;
    return RT_OK;
}

/* Sets the output's rank, and *known to whether the input's rank is known. */
static enum rt_status infer_rank(struct rt_infer *x, bool *known)
{
    const struct rt_shape *in = &x->in[0].shape;
    struct rt_shape *o = &x->out[0].shape;
    const int sp = n_spatial(x->node);

    o->rank = sp + 2;
    for (int i = 0; i < o->rank; i++)
        o->dim[i] = -1;
    *known = in->rank >= 0;
    if (*known && in->rank != sp + 2) {
        if (op_is(x->node, "MaxPoolWithArgmax"))
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "tensor_in must be 4-dimensional (2)");
        if (sp == 3)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "tensor_in must be 5-dimensional");
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "tensor_in_shape must have 2 spatial dimensions. %d %d", in->rank,
                       kn_channels_first(x->node) ? 1 : 0);
    }
    return RT_OK;
}

static enum rt_status pool_infer(struct rt_infer *x)
{
    const int64_t *k, *s;
    bool known;

    enum rt_status st = infer_rank(x, &known);
    if (st || !known)
        return st;
    rt_attr_ints(x->node, "ksize", &k);
    rt_attr_ints(x->node, "strides", &s);
    return infer_window(x, k, s);
}

static enum rt_status infer_argmax(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    const enum rt_status st = pool_infer(x);

    if (st)
        return st;
    if (rt_count(in->rank, in->dim) == 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "tensor_in must not be empty (2)");
    x->out[1].shape = x->out[0].shape;
    return RT_OK;
}

static void rows_argmax(struct rt_rows *r)
{
    if (!rt_attr_bool(r->node, "include_batch_in_index"))
        rt_rows_first(r);
}

/* Reads MaxPoolV2's window and strides from the values of inputs 1 and 2. */
static enum rt_status read_window(const struct rt_node *n, const struct rt_info *in,
                                  int64_t v[2][4], struct rt_error *err)
{
    static const char *const name[] = {"ksize", "stride"};

    for (int i = 0; i < 2; i++) {
        const struct rt_tensor *t = in[1 + i].value;
        /* As in TensorFlow, the tensor may have any shape with four elements. */
        if (rt_tensor_count(t) != 4)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Sliding window %s field must specify 4 dimensions", name[i]);
        for (int j = 0; j < 4; j++)
            v[i][j] = kn_int_at(t, j);
    }
    return check_window(n, v[0], v[1], err);
}

static enum rt_status infer_v2(struct rt_infer *x)
{
    int64_t v[2][4];
    bool known;

    enum rt_status st = infer_rank(x, &known);
    if (st || !known || !x->in[1].value || !x->in[2].value)
        return st;
    st = read_window(x->node, x->in, v, x->err);
    return st ? st : infer_window(x, v[0], v[1]);
}

/* ---- loops ---- */

/* Maxima are computed in the input's type, and averages of half-precision types in float. */
#define AS_IS(v)    (v)
#define LOW_RT_F32  -FLT_MAX
#define LOW_RT_F64  -DBL_MAX
#define LOW_RT_I8   INT8_MIN
#define LOW_RT_I16  INT16_MIN
#define LOW_RT_I32  INT32_MIN
#define LOW_RT_I64  INT64_MIN
#define LOW_RT_U8   0
#define LOW_RT_U16  0
#define LOW_RT_U32  0
#define LOW_RT_U64  0
#define LOW_RT_F16  ((struct kn_half){0xfbff})
#define LOW_RT_BF16 ((struct kn_bfloat){0xff7f})

struct place { /* the part of one window that lies inside the input */
    int64_t lo[3], hi[3], start[3];
    enum { LOWEST, MINUS_INFINITY, ZERO } least; /* lower bound of the maximum */
    int64_t from, to;                            /* the channels that this pass reduces */
};

static void place_window(const struct pool *p, const int64_t *at, struct place *w)
{
    bool is_inside = true;

    for (int i = 0; i < 3; i++) {
        kn_axis_inside(&p->a[i], at[i], &w->lo[i], &w->hi[i]);
        is_inside &= w->hi[i] - w->lo[i] == p->a[i].size;
        w->start[i] = at[i] * p->a[i].stride - p->a[i].lo;
    }
    /* As in TensorFlow, a maximum is at least the lowest finite number. Only MaxPool3D may return
     * -infinity, for a window without padding. */
    w->least = LOWEST;
    if (p->zeros && !is_inside)
        w->least = ZERO;
    else if (p->n_spatial == 3 && is_inside)
        w->least = MINUS_INFINITY;
}

static int64_t pixel(const struct pool *p, const struct place *w, int64_t d, int64_t h, int64_t c)
{
    return ((w->start[0] + d) * p->a[1].in + w->start[1] + h) * p->a[2].in + w->start[2] + c;
}

/*
 * The costs, in units of rt_run_spend, of locating a window, of moving to one of its pixels, and of
 * processing an element with a branch or a call. A window may be as large as the image, so the
 * deadline is checked between its pixels.
 */
enum { PLACE_WORK = 16, PIXEL_WORK = 4, BRANCH_WORK = 4 };

/* The macros below define functions that reduce channels [from, to) of a window of the image `src`
 * to the output `dst`. */
#define MAX_BODY(dt, T, GET, INF)                                                                  \
    KN_CLONES static void max_pixel_##dt(T *restrict y, const T *restrict x, int64_t n)            \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = GET(x[i]) > GET(y[i]) ? x[i] : y[i];                                            \
    }                                                                                              \
    static enum rt_status max_window_##dt(const struct pool *p, const struct place *w,             \
                                          const void *src, void *dst, struct rt_run *r,            \
                                          int64_t *left)                                           \
    {                                                                                              \
        const T *x = src;                                                                          \
        T *y = dst;                                                                                \
        const int64_t n = w->to - w->from, work = p->depth == 1 ? n : BRANCH_WORK * n;             \
        for (int64_t i = kn_div_up(w->from, p->depth); i < kn_div_up(w->to, p->depth); i++)        \
            y[i] = w->least == ZERO ? (T){0} : w->least == MINUS_INFINITY ? INF : LOW_##dt;        \
        for (int64_t d = w->lo[0]; d < w->hi[0]; d++)                                              \
            for (int64_t h = w->lo[1]; h < w->hi[1]; h++)                                          \
                for (int64_t c = w->lo[2]; c < w->hi[2]; c++) {                                    \
                    const T *px = x + pixel(p, w, d, h, c) * p->channels;                          \
                    if (p->depth == 1)                                                             \
                        max_pixel_##dt(y + w->from, px + w->from, n);                              \
                    else                                                                           \
                        for (int64_t i = w->from; i < w->to; i++)                                  \
                            max_pixel_##dt(y + i / p->depth, px + i, 1);                           \
                    if (rt_run_spend(r, left, work + PIXEL_WORK))                                  \
                        return r->err->code;                                                       \
                }                                                                                  \
        return RT_OK;                                                                              \
    }                                                                                              \
    static enum rt_status argmax_window_##dt(const struct pool *p, const struct place *w,          \
                                             const void *src, void *dst, int64_t *best,            \
                                             struct rt_run *r, int64_t *left)                      \
    {                                                                                              \
        const T *x = src;                                                                          \
        T *y = (T *)dst + w->from;                                                                 \
        const int64_t n = w->to - w->from;                                                         \
        for (int64_t i = 0; i < n; i++) {                                                          \
            best[i] = -1;                                                                          \
            y[i] = LOW_##dt;                                                                       \
        }                                                                                          \
        for (int64_t d = w->lo[0]; d < w->hi[0]; d++)                                              \
            for (int64_t h = w->lo[1]; h < w->hi[1]; h++)                                          \
                for (int64_t c = w->lo[2]; c < w->hi[2]; c++) {                                    \
                    const int64_t first = pixel(p, w, d, h, c) * p->channels + w->from;            \
                    for (int64_t i = 0; i < n; i++)                                                \
                        if (best[i] < 0 || GET(x[first + i]) > GET(y[i])) {                        \
                            best[i] = first + i;                                                   \
                            y[i] = x[first + i];                                                   \
                        }                                                                          \
                    if (rt_run_spend(r, left, BRANCH_WORK * n + PIXEL_WORK))                       \
                        return r->err->code;                                                       \
                }                                                                                  \
        return RT_OK;                                                                              \
    }
#define INT_BODY(dt, T)   MAX_BODY(dt, T, AS_IS, LOW_##dt)
#define FLOAT_BODY(dt, T) MAX_BODY(dt, T, AS_IS, (T)-INFINITY)
KN_INTS(INT_BODY)
KN_FLOATS(FLOAT_BODY)
MAX_BODY(RT_F16, struct kn_half, kn_from_f16, (struct kn_half){0xfc00})
MAX_BODY(RT_BF16, struct kn_bfloat, kn_from_bf16, (struct kn_bfloat){0xff80})

#define AVG_BODY(dt, T, ACC, GET, PUT)                                                             \
    KN_CLONES static void add_pixel_##dt(ACC *restrict y, const T *restrict x, int64_t n)          \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] += GET(x[i]);                                                                     \
    }                                                                                              \
    static enum rt_status avg_window_##dt(const struct pool *p, const struct place *w,             \
                                          const void *src, void *dst, void *workspace,             \
                                          struct rt_run *r, int64_t *left)                         \
    {                                                                                              \
        const T *x = (const T *)src + w->from;                                                     \
        T *y = (T *)dst + w->from;                                                                 \
        ACC *sum = workspace;                                                                      \
        const int64_t channels = w->to - w->from;                                                  \
        int64_t n = 1;                                                                             \
        for (int i = 0; i < 3; i++)                                                                \
            n *= w->hi[i] - w->lo[i];                                                              \
        for (int64_t i = 0; i < channels; i++)                                                     \
            sum[i] = 0;                                                                            \
        for (int64_t d = w->lo[0]; d < w->hi[0]; d++)                                              \
            for (int64_t h = w->lo[1]; h < w->hi[1]; h++)                                          \
                for (int64_t c = w->lo[2]; c < w->hi[2]; c++) {                                    \
                    add_pixel_##dt(sum, x + pixel(p, w, d, h, c) * p->channels, channels);         \
                    if (rt_run_spend(r, left, channels + PIXEL_WORK))                              \
                        return r->err->code;                                                       \
                }                                                                                  \
        for (int64_t i = 0; i < channels; i++)                                                     \
            y[i] = PUT(sum[i] / (ACC)n);                                                           \
        return RT_OK;                                                                              \
    }
AVG_BODY(RT_F32, float, float, AS_IS, AS_IS)
AVG_BODY(RT_F64, double, double, AS_IS, AS_IS)
AVG_BODY(RT_F16, struct kn_half, float, kn_from_f16, kn_to_f16)
AVG_BODY(RT_BF16, struct kn_bfloat, float, kn_from_bf16, kn_to_bf16)

/*
 * The loops for rows of float outputs keep the results of a window in registers, for several
 * channels at a time. They add the same terms in the same order as the generic loops.
 */
enum { LANES = 16, WIDE = 4 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4)));
typedef int32_t lane_bits __attribute__((vector_size(LANES * sizeof(float))));

/* Reduces `wide * LANES` channels of one window of `nd x nh x nw` pixels. */
static inline __attribute__((always_inline)) void float_window(const struct pool *p,
                                                               const float *from, int64_t nd,
                                                               int64_t nh, int64_t nw, float start,
                                                               float *y, const int wide)
{
    const int64_t channels = p->channels, line = p->a[2].in * channels, plane = p->a[1].in * line;
    const float n = (float)(nd * nh * nw);
    lanes sum[WIDE];

    for (int w = 0; w < wide; w++)
        sum[w] = (lanes){0} + start;
    for (int64_t i = 0; i < nd; i++)
        for (int64_t j = 0; j < nh; j++) {
            const lanes *px = (const lanes *)(from + i * plane + j * line);
            for (int64_t k = 0; k < nw; k++) {
                for (int w = 0; w < wide; w++)
                    if (p->average) {
                        sum[w] += px[w];
                    } else {
                        /* a NaN does not compare greater, so it is ignored */
                        const lane_bits mask = px[w] > sum[w];
                        sum[w] = (lanes)(((lane_bits)px[w] & mask) | ((lane_bits)sum[w] & ~mask));
                    }
                px = (const lanes *)((const float *)px + channels);
            }
        }
    for (int w = 0; w < wide; w++)
        ((lanes *)y)[w] = p->average ? sum[w] / n : sum[w];
}

KN_CLONES static void float_row(const struct pool *p, int64_t d, int64_t h, const float *x,
                                float *y)
{
    const int64_t channels = p->channels, line = p->a[2].in * channels, plane = p->a[1].in * line;
    struct place w;

    for (int64_t at = 0; at < p->a[2].out; at++, y += channels) {
        place_window(p, (int64_t[]){d, h, at}, &w);
        const int64_t nd = w.hi[0] - w.lo[0], nh = w.hi[1] - w.lo[1], nw = w.hi[2] - w.lo[2];
        const float *from = x + pixel(p, &w, w.lo[0], w.lo[1], w.lo[2]) * channels;
        const float start = p->average || w.least == ZERO ? 0
                            : w.least == MINUS_INFINITY   ? -INFINITY
                                                          : LOW_RT_F32;
        int64_t c = 0;
        for (; c + WIDE * LANES <= channels; c += WIDE * LANES)
            float_window(p, from + c, nd, nh, nw, start, y + c, WIDE);
        for (; c + LANES <= channels; c += LANES)
            float_window(p, from + c, nd, nh, nw, start, y + c, 1);
        for (; c < channels; c++) {
            float one = start;
            for (int64_t i = 0; i < nd; i++)
                for (int64_t j = 0; j < nh; j++)
                    for (int64_t k = 0; k < nw; k++) {
                        const float v = from[i * plane + j * line + k * channels + c];
                        one = p->average ? one + v : v > one ? v : one;
                    }
            y[c] = p->average ? one / (float)(nd * nh * nw) : one;
        }
    }
}

/* Returns the cost of a window in units of rt_run_spend. The multiplications saturate, because a
 * window may be far larger than the image. */
static int64_t window_work(const struct pool *p)
{
    int64_t work = rt_mul_saturated(2, p->channels);
    for (int i = 0; i < KN_MAX_SPATIAL; i++)
        work = rt_mul_saturated(work, p->a[i].size);
    return work < RT_WORK ? work + PLACE_WORK : RT_WORK;
}

static enum rt_status float_rows(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct pool *p = r->state;
    const int64_t picture = p->a[0].in * p->a[1].in * p->a[2].in * p->channels;
    const int64_t work = window_work(p);
    const float *x = r->in[0].data;
    float *y = r->out[0].data;
    int64_t left = RT_WORK;

    (void)arg;
    for (int64_t i = from; i < to; i++) {
        const int64_t h = i % p->a[1].out, d = i / p->a[1].out % p->a[0].out;
        float_row(p, d, h, x + i / p->a[1].out / p->a[0].out * picture,
                  y + i * p->a[2].out * p->channels);
        if (rt_run_spend(r, &left, work * p->a[2].out))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status window(const struct pool *p, const struct place *w, const void *x, void *y,
                             void *workspace, struct rt_run *r, int64_t *left)
{
    if (p->average) {
        switch (p->dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        return avg_window_##dt(p, w, x, y, workspace, r, left);
            KN_FLOATS(X)
            KN_HALFS(X)
#undef X
        default:
            return RT_OK;
        }
    }
    switch (p->dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        return max_window_##dt(p, w, x, y, r, left);
        KN_REALS(X)
#undef X
    default:
        return RT_OK;
    }
}

static enum rt_status argmax_window(const struct pool *p, const struct place *w, const void *x,
                                    void *y, int64_t *best, struct rt_run *r, int64_t *left)
{
    switch (p->dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        return argmax_window_##dt(p, w, x, y, best, r, left);
        KN_REALS(X)
#undef X
    default:
        return RT_OK;
    }
}

/* ---- prepare and run ---- */

/* The number of channels of a window that are reduced together, with their sums or indices in
 * scratch memory. */
enum { CHANNELS = 1 << 16 };

static enum rt_status prepare_window(struct rt_prep *p, void **state, const int64_t *k,
                                     const int64_t *s)
{
    if (kn_channels_first(p->node)) {
        if (n_spatial(p->node) == 3 || op_is(p->node, "MaxPoolV2")) {
            const struct rt_span f = rt_attr_str(p->node, "data_format");
            if (n_spatial(p->node) == 3)
                return rt_fail(p->err, RT_INVALID_ARGUMENT,
                               "Default Pooling3DOp only supports NDHWC on device type CPU");
            return rt_fail(p->err, RT_INVALID_ARGUMENT,
                           "MaxPoolingV2Op only supports NHWC or NCHW_VECT_C. Got: %.*s", (int)f.n,
                           (const char *)f.p);
        }
        return rt_fail(p->err, RT_INVALID_ARGUMENT,
                       "Default %sPoolingOp only supports NHWC on device type CPU",
                       is_average(p->node) ? "Avg" : "Max");
    }
    struct pool *t = rt_prep_alloc(p, sizeof *t);
    if (!t)
        return p->err->code;
    const enum rt_status st = solve(t, p->node, &p->in[0].shape, k, s, p->err);
    if (st)
        return st;
    t->dtype = p->in[0].dtype;
    t->count_batch =
        op_is(p->node, "MaxPoolWithArgmax") && rt_attr_bool(p->node, "include_batch_in_index");
    p->scratch_bytes = (size_t)kn_min_i64(t->channels, CHANNELS) * sizeof(int64_t);
    *state = t;
    return RT_OK;
}

bool kn_pool_windows(const struct rt_prep *p, struct kn_pool_windows *out)
{
    const int64_t *k, *s;
    struct pool t;
    rt_attr_ints(p->node, "ksize", &k);
    rt_attr_ints(p->node, "strides", &s);
    if (kn_channels_first(p->node) || solve(&t, p->node, &p->in[0].shape, k, s, p->err) ||
        t.depth != 1)
        return false;
    *out = (struct kn_pool_windows){.batch = t.batch,
                                    .channels = t.channels,
                                    .n_spatial = t.n_spatial,
                                    .average = t.average,
                                    .zeros = t.zeros};
    memcpy(out->axis, t.a, sizeof t.a);
    return true;
}

static enum rt_status pool_prepare(struct rt_prep *p, void **state)
{
    const int64_t *k, *s;
    rt_attr_ints(p->node, "ksize", &k);
    rt_attr_ints(p->node, "strides", &s);
    return prepare_window(p, state, k, s);
}

static enum rt_status prepare_v2(struct rt_prep *p, void **state)
{
    int64_t v[2][4];
    const enum rt_status st = read_window(p->node, p->in, v, p->err);
    return st ? st : prepare_window(p, state, v[0], v[1]);
}

static void put_indices(const int64_t *best, int64_t n, int64_t add, struct rt_tensor *out,
                        int64_t at)
{
    for (int64_t i = 0; i < n; i++) {
        if (out->dtype == RT_I64)
            ((int64_t *)out->data)[at + i] = best[i] + add;
        else
            ((int32_t *)out->data)[at + i] = (int32_t)(best[i] + add);
    }
}

/* Computes one window of image x for all channels. y is the window's output, and i is its index
 * among all windows. */
static enum rt_status whole_window(struct rt_run *r, struct place *w, const char *x, char *y,
                                   int64_t i, int64_t add, int64_t *left)
{
    const struct pool *p = r->state;
    enum rt_status st = rt_run_spend(r, left, PLACE_WORK);

    for (int64_t c = 0; c < p->channels && !st; c += CHANNELS) {
        w->from = c;
        w->to = kn_min_i64(c + CHANNELS, p->channels);
        const int64_t n = w->to - w->from;
        if (r->n_out == 1) {
            st = window(p, w, x, y, r->scratch, r, left);
        } else {
            st = argmax_window(p, w, x, y, r->scratch, r, left);
            put_indices(r->scratch, n, add, &r->out[1], i * p->channels + c);
        }
        st = st ? st : rt_run_spend(r, left, 2 * n);
    }
    return st;
}

static enum rt_status pool_run(struct rt_run *r)
{
    const struct pool *p = r->state;
    const int64_t size = (int64_t)rt_dtype_size(p->dtype), c_out = p->channels / p->depth;
    const int64_t picture = p->a[0].in * p->a[1].in * p->a[2].in * p->channels;
    const char *x = r->in[0].data;
    char *y = r->out[0].data;
    struct place w;
    int64_t at[3], n_done = 0, left = RT_WORK;

    if (!rt_tensor_count(&r->out[0]))
        return RT_OK;
    const double row = (double)window_work(p) * (double)p->a[2].out;
    if (p->dtype == RT_F32 && r->n_out == 1 && p->depth == 1 && row < RT_WORK && r->in[0].data)
        return kn_parallel_rows(r, p->batch * p->a[0].out * p->a[1].out, (int64_t)row, 1,
                                float_rows, NULL);
    for (int64_t n = 0; n < p->batch; n++, x += picture * size)
        for (at[0] = 0; at[0] < p->a[0].out; at[0]++)
            for (at[1] = 0; at[1] < p->a[1].out; at[1]++)
                for (at[2] = 0; at[2] < p->a[2].out; at[2]++, y += c_out * size) {
                    place_window(p, at, &w);
                    if (whole_window(r, &w, x, y, n_done++, p->count_batch ? n * picture : 0,
                                     &left))
                        return r->err->code;
                }
    return RT_OK;
}

/* ---- registration ---- */

#define AVG_TYPES (KN_SET(KN_FLOATS) | KN_SET(KN_HALFS))

const struct kn_entry kn_max_pool = {
    .op = {.name = "MaxPool", .check = pool_check, .infer = pool_infer, .rows = rt_rows_first},
    .kernels = KN_CPU("MaxPool", "max_pool", KN_SET(KN_REALS), pool_prepare, pool_run),
};
const struct kn_entry kn_max_pool3d = {
    .op = {.name = "MaxPool3D", .check = pool_check, .infer = pool_infer, .rows = rt_rows_first},
    .kernels = KN_CPU("MaxPool3D", "max_pool3d", KN_SET(KN_REALS), pool_prepare, pool_run),
};
const struct kn_entry kn_max_pool_v2 = {
    .op = {.name = "MaxPoolV2", .shape_in = 6, .infer = infer_v2, .rows = rt_rows_first},
    .kernels = KN_CPU("MaxPoolV2", "max_pool_v2", KN_SET(KN_REALS), prepare_v2, pool_run),
};
const struct kn_entry kn_max_pool_with_argmax = {
    .op = {.name = "MaxPoolWithArgmax",
           .check = pool_check,
           .infer = infer_argmax,
           .rows = rows_argmax},
    .kernels =
        KN_CPU("MaxPoolWithArgmax", "max_pool_argmax", KN_SET(KN_REALS), pool_prepare, pool_run),
};
const struct kn_entry kn_avg_pool = {
    .op = {.name = "AvgPool", .check = pool_check, .infer = pool_infer, .rows = rt_rows_first},
    .kernels = KN_CPU("AvgPool", "avg_pool", AVG_TYPES, pool_prepare, pool_run),
};
const struct kn_entry kn_avg_pool3d = {
    .op = {.name = "AvgPool3D", .check = pool_check, .infer = pool_infer, .rows = rt_rows_first},
    .kernels = KN_CPU("AvgPool3D", "avg_pool3d", AVG_TYPES, pool_prepare, pool_run),
};
