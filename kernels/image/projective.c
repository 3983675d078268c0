/*
 * ImageProjectiveTransformV2 and V3. With transform (a, ..., h), the output pixel (x, y) is read at
 * `((a x + b y + c) / k, (d x + e y + f) / k)` of the input, where `k = g x + h y + 1`. A position
 * outside the image has a constant value or, in the modes reflect, wrap and nearest, is mapped into
 * the image as SciPy's ndimage maps it.
 */
#include <math.h>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/image/image.h"
#include "runtime/base/checked.h"

enum { TRANSFORM = 8, COST = 64, CHUNK = RT_WORK / 64 };

enum fill { FILL_CONSTANT, FILL_REFLECT, FILL_WRAP, FILL_NEAREST, FILL_UNKNOWN };

static enum fill fill_of(const struct rt_node *n)
{
    const struct rt_span s = rt_attr_str(n, "fill_mode");
    return rt_span_is(s, "CONSTANT")  ? FILL_CONSTANT
           : rt_span_is(s, "REFLECT") ? FILL_REFLECT
           : rt_span_is(s, "WRAP")    ? FILL_WRAP
           : rt_span_is(s, "NEAREST") ? FILL_NEAREST
                                      : FILL_UNKNOWN;
}

/* ---- shapes ---- */

static enum rt_status check_attributes(const struct rt_node *n, struct rt_error *err)
{
    const struct rt_span how = rt_attr_str(n, "interpolation");

    /* TensorFlow uses uninitialised memory for any other value of "interpolation". */
    if (!rt_span_is(how, "NEAREST") && !rt_span_is(how, "BILINEAR"))
        return rt_fail(err, RT_INVALID_ARGUMENT, "interpolation must be NEAREST or BILINEAR");
    if (fill_of(n) == FILL_UNKNOWN)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "fill_mode must be CONSTANT, REFLECT, WRAP or NEAREST");
    return RT_OK;
}

static enum rt_status infer_projective(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape, *t = &x->in[1].shape, *size = &x->in[2].shape;
    struct rt_shape *o = &x->out[0].shape;

    if (check_attributes(x->node, x->err))
        return x->err->code;
    if (kn_image_rank_differs(in, 4))
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Input images must have rank 4");
    const bool has_rows = t->rank == 2 && t->dim[0] >= 0 && in->rank == 4 && in->dim[0] >= 0;
    if (kn_image_rank_differs(t, 2) || (has_rows && t->dim[0] != 1 && t->dim[0] != in->dim[0]) ||
        (t->rank == 2 && t->dim[1] >= 0 && t->dim[1] != TRANSFORM))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Input transform should be num_images x 8 or 1 x 8");
    if (kn_image_rank_differs(size, 1))
        return kn_image_fail_shape(x->err, "output shape must be 1-dimensional", size);
    if (size->rank == 1 && size->dim[0] >= 0 && size->dim[0] != 2)
        return kn_image_fail_shape(x->err, "output shape must have two elements", size);
    if (x->n_in > 3 && x->in[3].shape.rank > 0)
        return kn_image_fail_shape(x->err, "fill_value must be a scalar", &x->in[3].shape);
    *o = kn_image_unknown(4);
    if (in->rank == 4) {
        o->dim[0] = in->dim[0];
        o->dim[3] = in->dim[3];
    }
    for (int i = 0; i < 2 && x->in[2].value; i++) {
        o->dim[1 + i] = ((const int32_t *)x->in[2].value->data)[i];
        if (o->dim[1 + i] <= 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "output dimensions must be positive");
    }
    return RT_OK;
}

/* The images are row-wise if all share one transform, or if each has its own. */
static void rows_projective(struct rt_rows *r)
{
    const struct rt_dep *t = &r->in_dep[1];
    const bool is_same = t->kind == RT_DEP_NONE && r->in[1].shape.dim[0] == 1;
    const bool is_own = t->kind == RT_DEP_ROWS && t->axis == 0;

    for (int k = 2; k < r->n_in; k++)
        if (r->in_dep[k].kind != RT_DEP_NONE)
            return;
    if (r->in_dep[0].kind == RT_DEP_ROWS && r->in_dep[0].axis == 0 && r->in[1].shape.rank == 2 &&
        (is_same || is_own))
        r->out_dep[0] = r->in_dep[0];
}

/* ---- positions ---- */

/* Maps a position on an axis of n pixels into the image. As in TensorFlow, the number of periods
 * wraps around for positions beyond the range of int64_t. */
static float reflect(float at, int64_t n)
{
    const int64_t period = 2 * n;

    if (n <= 1)
        return at < 0 || at > (float)(n - 1) ? 0 : at;
    if (at < 0) {
        at += (float)rt_mul_wrapped(period, rt_int64_of((double)(-at / (float)period)));
        return at < (float)-n ? at + (float)period : -at - 1;
    }
    if (at > (float)(n - 1)) {
        at -= (float)rt_mul_wrapped(period, rt_int64_of((double)(at / (float)period)));
        return at >= (float)n ? (float)period - at - 1 : at;
    }
    return at;
}

static float wrap(float at, int64_t n)
{
    const float last = (float)(n - 1);

    if (n <= 1)
        return at < 0 || at > last ? 0 : at;
    if (at < 0)
        return at + (float)rt_mul_wrapped(n, rt_add_wrapped(rt_int64_of((double)(-at / last)), 1));
    if (at > last)
        return at - (float)rt_mul_wrapped(n, rt_int64_of((double)(at / last)));
    return at;
}

static float map_position(enum fill mode, float at, int64_t n)
{
    const float last = (float)(n - 1);

    if (mode == FILL_CONSTANT)
        return at;
    if (mode == FILL_REFLECT)
        at = reflect(at, n);
    else if (mode == FILL_WRAP)
        at = wrap(at, n);
    return at < 0 ? 0 : at > last ? last : at; /* NaN stays NaN */
}

/* ---- pixels ---- */

struct projective {
    enum fill mode;
    bool is_nearest, is_shared; /* is_shared is set if all images use transform 0 */
    int64_t h, w, channels, out_h, out_w;
    float fill_value;
};

/* The four pixels around a position. Nearest neighbour uses only at[0]. */
struct corners {
    /* offsets of the upper left, upper right, lower left and lower right pixels, in pixels from the
     * start of the image; -1 for a pixel outside the image */
    int64_t at[4];
    float x0, x1, y0, y1; /* weights of the left, right, upper and lower pixels */
};

static int64_t pixel_at(const struct projective *p, int64_t y, int64_t x)
{
    return y >= 0 && y < p->h && x >= 0 && x < p->w ? y * p->w + x : -1;
}

/* Finds the pixels that contribute to an output pixel. Returns false if the denominator is 0. */
static bool find_corners(const struct projective *p, const float *t, int64_t x, int64_t y,
                         struct corners *c)
{
    const float fx = (float)x, fy = (float)y, k = t[6] * fx + t[7] * fy + 1;

    if (k == 0)
        return false;
    const float px = map_position(p->mode, (t[0] * fx + t[1] * fy + t[2]) / k, p->w);
    const float py = map_position(p->mode, (t[3] * fx + t[4] * fy + t[5]) / k, p->h);
    if (p->is_nearest) {
        c->at[0] = pixel_at(p, rt_int64_of((double)roundf(py)), rt_int64_of((double)roundf(px)));
        return true;
    }
    const float left = floorf(px), top = floorf(py);
    const int64_t ix = rt_int64_of((double)left), iy = rt_int64_of((double)top);
    const int64_t ix1 = rt_add_saturated(ix, 1), iy1 = rt_add_saturated(iy, 1);
    *c = (struct corners){.at = {pixel_at(p, iy, ix), pixel_at(p, iy, ix1), pixel_at(p, iy1, ix),
                                 pixel_at(p, iy1, ix1)},
                          .x0 = left + 1 - px,
                          .x1 = px - left,
                          .y0 = top + 1 - py,
                          .y1 = py - top};
    return true;
}

static int64_t wide_int_of(float v)
{
    return rt_int64_of((double)v);
}

/* TensorFlow converts a float to an element as x86 does. */
#define PUT_RT_U8(v)   ((uint8_t)rt_int32_of((double)(v)))
#define PUT_RT_I32(v)  rt_int32_of((double)(v))
#define PUT_RT_I64(v)  wide_int_of(v)
#define PUT_RT_F32(v)  (v)
#define PUT_RT_F64(v)  ((double)(v))
#define PUT_RT_F16(v)  kn_to_f16(v)
#define PUT_RT_BF16(v) kn_to_bf16(v)

/* Computes n channels of a pixel. `c` is NULL if all of them have the fill value. */
#define READ(dt, i) (c->at[i] < 0 ? outside : (float)KN_GET(dt, src[c->at[i] * all + k]))
#define PIXEL(dt, T)                                                                               \
    static void pixel_##dt(const struct projective *p, const struct corners *c, const void *image, \
                           void *pixel, int64_t n)                                                 \
    {                                                                                              \
        const T *src = image, fill = PUT_##dt(p->fill_value);                                      \
        const int64_t all = p->channels;                                                           \
        const float outside = (float)KN_GET(dt, fill);                                             \
        T *dst = pixel;                                                                            \
        if (!c || p->is_nearest) {                                                                 \
            for (int64_t k = 0; k < n; k++)                                                        \
                dst[k] = !c || c->at[0] < 0 ? fill : src[c->at[0] * all + k];                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t k = 0; k < n; k++) {                                                          \
            const float top = c->x0 * READ(dt, 0) + c->x1 * READ(dt, 1);                           \
            const float bottom = c->x0 * READ(dt, 2) + c->x1 * READ(dt, 3);                        \
            const float value = c->y0 * top + c->y1 * bottom;                                      \
            dst[k] = PUT_##dt(value);                                                              \
        }                                                                                          \
    }
#define TYPES(X)                                                                                   \
    X(RT_U8, uint8_t)                                                                              \
    X(RT_I32, int32_t)                                                                             \
    X(RT_I64, int64_t)                                                                             \
    KN_FLOATS(X)                                                                                   \
    KN_HALFS(X)
TYPES(PIXEL)

typedef void pixel_fn(const struct projective *p, const struct corners *c, const void *image,
                      void *pixel, int64_t n);

#define ROW(dt, T) [dt] = pixel_##dt,
static pixel_fn *const pixel_fns[RT_N_DTYPES] = {TYPES(ROW)};

/* ---- run ---- */

static enum rt_status run_lines(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct projective *p = arg;
    const size_t size = rt_dtype_size((enum rt_dtype)r->in[0].dtype);
    const int64_t picture = p->h * p->w * p->channels;
    pixel_fn *const fn = pixel_fns[r->in[0].dtype];
    char *dst = (char *)r->out[0].data + (size_t)(from * p->out_w * p->channels) * size;
    int64_t left = RT_WORK;

    for (int64_t i = from; i < to; i++) {
        const int64_t b = i / p->out_h;
        const char *image = (const char *)r->in[0].data + (size_t)(b * picture) * size;
        const float *t = (const float *)r->in[1].data + (p->is_shared ? 0 : b * TRANSFORM);
        for (int64_t x = 0; x < p->out_w; x++) {
            struct corners corners;
            const bool is_finite = find_corners(p, t, x, i % p->out_h, &corners);
            for (int64_t c = 0; c < p->channels; c += CHUNK) {
                const int64_t n = kn_min_i64(p->channels - c, CHUNK);
                fn(p, is_finite ? &corners : NULL, image + (size_t)c * size, dst, n);
                dst += (size_t)n * size;
                if (rt_run_spend(r, &left, 8 * n + COST))
                    return r->err->code;
            }
        }
    }
    return RT_OK;
}

static enum rt_status run_projective(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[0], *o = &r->out[0];
    struct projective p = {
        .mode = fill_of(r->node),
        .is_nearest = rt_span_is(rt_attr_str(r->node, "interpolation"), "NEAREST"),
        .is_shared = r->in[1].dim[0] == 1,
        .h = in->dim[1],
        .w = in->dim[2],
        .channels = in->dim[3],
        .out_h = o->dim[1],
        .out_w = o->dim[2],
        .fill_value = r->n_in > 3 ? *(const float *)r->in[3].data : 0,
    };

    if (!rt_tensor_count(o))
        return RT_OK;
    const int64_t work = rt_mul_saturated(p.out_w, rt_mul_saturated(8, p.channels) + COST);
    return kn_parallel_rows(r, o->dim[0] * p.out_h, work, 1, run_lines, &p);
}

#define PROJECTIVE(symbol, op_, name_)                                                             \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = op_, .shape_in = 4, .infer = infer_projective, .rows = rows_projective},    \
        .kernels = KN_KERNELS({.op = op_,                                                          \
                               .device = "CPU",                                                    \
                               .name = name_,                                                      \
                               .type_attr = "dtype",                                               \
                               .types = 0 TYPES(KN_SET_ROW),                                       \
                               .run = run_projective}),                                            \
    }
PROJECTIVE(image_projective_transform_v2, "ImageProjectiveTransformV2", "projective_v2");
PROJECTIVE(image_projective_transform_v3, "ImageProjectiveTransformV3", "projective_v3");
