/*
 * Dilation2D adds the filter to each window, and outputs the maximum of the sums.
 * Dilation2DBackpropFilter and Dilation2DBackpropInput are its gradients.
 */
#include <float.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/nn/window.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

static enum rt_status fail_shape(struct rt_error *err, const char *words, const struct rt_shape *s)
{
    char text[160];
    return rt_fail(err, RT_INVALID_ARGUMENT, "%s%s", words,
                   rt_shape_text(text, sizeof text, s->rank, s->dim));
}

static enum rt_status dilation_check(const struct rt_node *n, struct rt_error *err)
{
    const int64_t *s, *r;

    if (rt_attr_ints(n, "strides", &s) != 4 || rt_attr_ints(n, "rates", &r) != 4)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Dilation2D: strides and rates must have 4 elements");
    if (s[0] != 1 || s[3] != 1)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "Stride is only supported across spatial dimensions.");
    if (r[0] != 1 || r[3] != 1)
        return rt_fail(err, RT_UNIMPLEMENTED, "Rate is only supported across spatial dimensions.");
    for (int i = 1; i < 3; i++) {
        if (s[i] <= 0 || s[i] > INT32_MAX)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Stride must be > 0, but got %lld",
                           (long long)s[i]);
        if (r[i] < 0 || r[i] > INT32_MAX)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Dilation2D: a rate of %lld", (long long)r[i]);
    }
    return RT_OK;
}

static enum rt_status solve(const struct rt_node *n, const struct rt_shape *in,
                            const struct rt_shape *filter, struct kn_axis *a, struct rt_error *err)
{
    const int64_t *s, *r;

    rt_attr_ints(n, "strides", &s);
    rt_attr_ints(n, "rates", &r);
    for (int i = 0; i < 2; i++) {
        a[i] = (struct kn_axis){
            .in = in->dim[1 + i], .size = filter->dim[i], .stride = s[1 + i], .dilation = r[1 + i]};
        const enum rt_status st = kn_axis_solve(&a[i], kn_padding(n), err);
        if (st)
            return st;
    }
    return RT_OK;
}

static enum rt_status dilation_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape, *filter = &x->in[1].shape;
    struct rt_shape *o = &x->out[0].shape;
    struct kn_axis a[2];

    *o = (struct rt_shape){.rank = 4, .dim = {-1, -1, -1, -1}};
    if (in->rank >= 0 && in->rank != 4)
        return fail_shape(x->err, "input must be 4-dimensional", in);
    if (filter->rank >= 0 && filter->rank != 3)
        return fail_shape(x->err, "filter must be 3-dimensional: ", filter);
    if (in->rank < 0 || filter->rank < 0)
        return RT_OK;
    if (in->dim[3] >= 0 && filter->dim[2] >= 0 && in->dim[3] != filter->dim[2])
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "input and filter must have the same depth: %lld vs %lld",
                       (long long)in->dim[3], (long long)filter->dim[2]);
    const enum rt_status st = solve(x->node, in, filter, a, x->err);
    if (st)
        return st;
    o->dim[0] = in->dim[0];
    o->dim[1] = a[0].out;
    o->dim[2] = a[1].out;
    o->dim[3] = in->dim[3];
    return RT_OK;
}

struct dilation {
    struct kn_axis a[2];
    int64_t batch, channels;
};

static enum rt_status dilation_prepare(struct rt_prep *p, void **state)
{
    struct dilation *d = rt_prep_alloc(p, sizeof *d);
    if (!d)
        return p->err->code;
    d->batch = p->in[0].shape.dim[0];
    d->channels = p->in[0].shape.dim[3];
    *state = d;
    return solve(p->node, &p->in[0].shape, &p->in[1].shape, d->a, p->err);
}

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

/* U is the type in which sums are computed. Sums of integers wrap around. */
#define BODY(dt, T, U, GET, PUT)                                                                   \
    static enum rt_status dilate_##dt(struct rt_run *run, const struct dilation *d, const T *x,    \
                                      const T *f, T *y)                                            \
    {                                                                                              \
        const struct kn_axis *h = &d->a[0], *w = &d->a[1];                                         \
        const int64_t c = d->channels;                                                             \
        int64_t left = RT_WORK;                                                                    \
        for (int64_t b = 0; b < d->batch; b++, x += h->in * w->in * c)                             \
            for (int64_t i = 0; i < h->out; i++) {                                                 \
                for (int64_t j = 0; j < w->out; j++, y += c) {                                     \
                    for (int64_t k = 0; k < c; k++)                                                \
                        y[k] = LOW_##dt;                                                           \
                    for (int64_t m = 0; m < h->size; m++) {                                        \
                        if (rt_run_spend(run, &left, w->size * c))                                 \
                            return run->err->code;                                                 \
                        const int64_t r = i * h->stride - h->lo + m * h->dilation;                 \
                        if (r < 0 || r >= h->in)                                                   \
                            continue;                                                              \
                        for (int64_t n = 0; n < w->size; n++) {                                    \
                            const int64_t s = j * w->stride - w->lo + n * w->dilation;             \
                            if (s < 0 || s >= w->in)                                               \
                                continue;                                                          \
                            const T *px = x + (r * w->in + s) * c;                                 \
                            const T *pf = f + (m * w->size + n) * c;                               \
                            for (int64_t k = 0; k < c; k++) {                                      \
                                const T v = PUT((U)GET(px[k]) + (U)GET(pf[k]));                    \
                                y[k] = GET(v) > GET(y[k]) ? v : y[k];                              \
                            }                                                                      \
                        }                                                                          \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        return RT_OK;                                                                              \
    }
#define BODY_INT(dt, T)   BODY(dt, T, uint64_t, AS_IS, (T))
#define BODY_FLOAT(dt, T) BODY(dt, T, T, AS_IS, AS_IS)
KN_INTS(BODY_INT)
KN_FLOATS(BODY_FLOAT)
BODY(RT_F16, struct kn_half, float, kn_from_f16, kn_to_f16)
BODY(RT_BF16, struct kn_bfloat, float, kn_from_bf16, kn_to_bf16)

static enum rt_status run(struct rt_run *r)
{
    if (rt_tensor_count(&r->out[0]) == 0)
        return RT_OK;
    switch (r->in[0].dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        return dilate_##dt(r, r->state, r->in[0].data, r->in[1].data, r->out[0].data);
        KN_REALS(X)
#undef X
    default:
        break;
    }
    return RT_OK;
}

const struct kn_entry kn_dilation2d = {
    .op = {.name = "Dilation2D",
           .check = dilation_check,
           .infer = dilation_infer,
           .rows = rt_rows_first},
    .kernels = KN_CPU("Dilation2D", "dilation2d", KN_SET(KN_REALS), dilation_prepare, run),
};

/* ---- gradients ---- */

enum { BACK = 2, GRAD_WORK = 8 };

static bool is_filter_grad(const struct rt_node *n)
{
    return strcmp(n->schema->name, "Dilation2DBackpropFilter") == 0;
}

static enum rt_status grad_infer(struct rt_infer *x)
{
    const struct rt_shape *back = &x->in[BACK].shape;
    struct rt_shape *o = &x->out[0].shape, y;
    enum rt_status st = dilation_infer(x);

    y = *o;
    *o = x->in[is_filter_grad(x->node) ? 1 : 0].shape;
    if (st)
        return st;
    if (back->rank >= 0 && back->rank != 4)
        return fail_shape(x->err, "out_backprop must be 4-dimensional", back);
    for (int i = 0; i < 4 && back->rank == 4; i++)
        if (y.dim[i] >= 0 && back->dim[i] >= 0 && y.dim[i] != back->dim[i])
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "out_backprop has incompatible size.");
    return RT_OK;
}

/* Each row of the gradient belongs to a row of the input. All rows share the filter. */
static void rows_input_grad(struct rt_rows *r)
{
    if (r->in_dep[0].kind == RT_DEP_ROWS && r->in_dep[0].axis == 0 &&
        r->in_dep[1].kind == RT_DEP_NONE && r->in_dep[BACK].kind == RT_DEP_ROWS &&
        r->in_dep[BACK].axis == 0)
        r->out_dep[0] = r->in_dep[0];
}

/* The filter element and the input pixel of one tap of a window. */
struct tap {
    int64_t filter, pixel;
};

/* The gradient of an output goes to the first tap with the maximum. If no sum is greater than the
 * lowest number, because there is no tap or each sum is NaN, the gradient goes to the first pixel
 * of the window inside the image, and to the first tap of the filter. */
#define GRAD(dt, T, U, GET, PUT)                                                                   \
    /* Finds the tap of channel k. `x` points to the image. The caller has set `t` to the tap to   \
     * use if there is no maximum. */                                                              \
    static enum rt_status best_tap_##dt(struct rt_run *run, int64_t *left,                         \
                                        const struct dilation *d, const T *x, const T *f,          \
                                        int64_t top, int64_t from, int64_t k, struct tap *t)       \
    {                                                                                              \
        const struct kn_axis *h = &d->a[0], *w = &d->a[1];                                         \
        T best = LOW_##dt;                                                                         \
        for (int64_t m = 0; m < h->size; m++) {                                                    \
            if (rt_run_spend(run, left, w->size + GRAD_WORK))                                      \
                return run->err->code;                                                             \
            const int64_t r = top + m * h->dilation;                                               \
            if (r < 0 || r >= h->in)                                                               \
                continue;                                                                          \
            for (int64_t n = 0; n < w->size; n++) {                                                \
                const int64_t s = from + n * w->dilation;                                          \
                if (s < 0 || s >= w->in)                                                           \
                    continue;                                                                      \
                const struct tap at = {m * w->size + n, r * w->in + s};                            \
                const T v = PUT((U)GET(x[at.pixel * d->channels + k]) +                            \
                                (U)GET(f[at.filter * d->channels + k]));                           \
                if (GET(v) > GET(best)) {                                                          \
                    best = v;                                                                      \
                    *t = at;                                                                       \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        return RT_OK;                                                                              \
    }                                                                                              \
    static enum rt_status grad_##dt(struct rt_run *run, const struct dilation *d, const T *x,      \
                                    const T *f, const T *y, T *out)                                \
    {                                                                                              \
        const struct kn_axis *h = &d->a[0], *w = &d->a[1];                                         \
        const bool filter = is_filter_grad(run->node);                                             \
        const int64_t c = d->channels, image = h->in * w->in * c;                                  \
        int64_t left = RT_WORK;                                                                    \
        for (int64_t b = 0; b < d->batch; b++, x += image, out += filter ? 0 : image)              \
            for (int64_t i = 0; i < h->out; i++)                                                   \
                for (int64_t j = 0; j < w->out; j++, y += c) {                                     \
                    const int64_t top = i * h->stride - h->lo, from = j * w->stride - w->lo;       \
                    const int64_t r = top < 0 ? 0 : top, s = from < 0 ? 0 : from;                  \
                    const bool inside = r < h->in && s < w->in;                                    \
                    for (int64_t k = 0; k < c; k++) {                                              \
                        struct tap t = {0, inside ? r * w->in + s : -1};                           \
                        if (rt_run_spend(run, &left, GRAD_WORK) ||                                 \
                            best_tap_##dt(run, &left, d, x, f, top, from, k, &t))                  \
                            return run->err->code;                                                 \
                        if (!filter && t.pixel < 0)                                                \
                            continue;                                                              \
                        T *o = &out[(filter ? t.filter : t.pixel) * c + k];                        \
                        *o = PUT((U)GET(*o) + (U)GET(y[k]));                                       \
                    }                                                                              \
                }                                                                                  \
        return RT_OK;                                                                              \
    }
#define GRAD_INT(dt, T)   GRAD(dt, T, uint64_t, AS_IS, (T))
#define GRAD_FLOAT(dt, T) GRAD(dt, T, T, AS_IS, AS_IS)
KN_INTS(GRAD_INT)
KN_FLOATS(GRAD_FLOAT)
GRAD(RT_F16, struct kn_half, float, kn_from_f16, kn_to_f16)
GRAD(RT_BF16, struct kn_bfloat, float, kn_from_bf16, kn_to_bf16)

static enum rt_status grad_run(struct rt_run *r)
{
    const enum rt_status st = kn_zero_chunks(r, r->out[0].data, rt_tensor_bytes(&r->out[0]));

    if (st || rt_tensor_count(&r->out[0]) == 0 || rt_tensor_count(&r->in[BACK]) == 0)
        return st;
    switch (r->in[0].dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        return grad_##dt(r, r->state, r->in[0].data, r->in[1].data, r->in[BACK].data,              \
                         r->out[0].data);
        KN_REALS(X)
#undef X
    default:
        break;
    }
    return RT_OK;
}

#define GRAD_ENTRY(symbol, tf, kernel, rows_)                                                      \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (tf), .check = dilation_check, .infer = grad_infer, .rows = (rows_)},       \
        .kernels = KN_CPU(tf, kernel, KN_SET(KN_REALS), dilation_prepare, grad_run),               \
    };
GRAD_ENTRY(dilation2d_backprop_filter, "Dilation2DBackpropFilter", "dilation2d_filter_grad", NULL)
GRAD_ENTRY(dilation2d_backprop_input, "Dilation2DBackpropInput", "dilation2d_input_grad",
           rows_input_grad)
