/*
 * QuantizedResizeBilinear resizes images of quantised integers, or of floats, by bilinear
 * interpolation. Integers are interpolated in fixed-point arithmetic, whatever their range is. The
 * weights have as many fractional bits as the integers of the computation permit: 7 for quint8, and
 * 30 for qint32. Each division rounds towards zero, as in TensorFlow.
 */
#include "kernels/quant/quant.h"

#include <string.h>

#include "kernels/image/image.h"
#include "kernels/image/resize_taps.h"

enum { IMAGES, SIZE, MIN, MAX };
enum { U8_BITS = 7, I32_BITS = 30 };
enum { CHUNK = 4096 }; /* number of channels between two deadline checks */

struct resize {
    int64_t in_h, in_w, out_h, out_w, channels;
    float scale_h, scale_w;
    bool half;
};

/* The elements of the four pixels around an output pixel. */
struct corners {
    int64_t top_left, top_right, bottom_left, bottom_right;
};

static float weighted_float(const float *x, const struct corners *at, float wx, float wy)
{
    const float top = x[at->top_left] + (x[at->top_right] - x[at->top_left]) * wx;
    const float bottom = x[at->bottom_left] + (x[at->bottom_right] - x[at->bottom_left]) * wx;

    return top + (bottom - top) * wy;
}

/* Interpolates integers that 64 bits can hold after they are multiplied by 2^bits. */
static inline int64_t weighted(int64_t top_left, int64_t top_right, int64_t bottom_left,
                               int64_t bottom_right, int64_t wx, int64_t wy, int bits)
{
    const int64_t one = INT64_C(1) << bits;
    const int64_t top = top_left * one + (top_right - top_left) * wx;
    const int64_t bottom = bottom_left * one + (bottom_right - bottom_left) * wx;

    return (top + (bottom - top) / one * wy + one / 2) / one;
}

/* TensorFlow's conversion of a qint32 to an integer of 64 bits rounds it to a float. */
static inline int64_t in_float(int32_t q)
{
    return (int64_t)(float)q;
}

/* Computes n channels of a pixel. */
static void pixel(const struct rt_tensor *in, struct corners at, float wx, float wy,
                  struct rt_tensor *out, int64_t to, int64_t n)
{
    const int bits = in->dtype == RT_QU8 ? U8_BITS : I32_BITS;
    const int64_t x = (int64_t)(wx * (float)(1 << bits)), y = (int64_t)(wy * (float)(1 << bits));
    const uint8_t *u = in->data;
    const int32_t *i = in->data;

    for (int64_t k = to; k < to + n; k++) {
        if (in->dtype == RT_F32)
            ((float *)out->data)[k] = weighted_float(in->data, &at, wx, wy);
        else if (in->dtype == RT_QU8)
            ((uint8_t *)out->data)[k] =
                (uint8_t)weighted(u[at.top_left], u[at.top_right], u[at.bottom_left],
                                  u[at.bottom_right], x, y, U8_BITS);
        else
            ((int32_t *)out->data)[k] = (int32_t)weighted(
                in_float(i[at.top_left]), in_float(i[at.top_right]), in_float(i[at.bottom_left]),
                in_float(i[at.bottom_right]), x, y, I32_BITS);
        at.top_left++, at.top_right++, at.bottom_left++, at.bottom_right++;
    }
}

/* Computes rows [from, to) of all images. */
static enum rt_status resize_rows(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct resize *z = arg;
    const int64_t line = z->in_w * z->channels;

    for (int64_t row = from; row < to; row++) {
        const int64_t image = row / z->out_h * z->in_h * line;
        struct kn_tap y, x;
        kn_tap_bilinear(&y, row % z->out_h, z->in_h, z->scale_h, z->half);
        const int64_t top = image + y.at[0] * line, bottom = image + y.at[1] * line;
        for (int64_t j = 0; j < z->out_w; j++) {
            kn_tap_bilinear(&x, j, z->in_w, z->scale_w, z->half);
            const int64_t left = x.at[0] * z->channels, right = x.at[1] * z->channels;
            for (int64_t c = 0, n; c < z->channels; c += n) {
                n = kn_min_i64(z->channels - c, CHUNK);
                const struct corners at = {top + left + c, top + right + c, bottom + left + c,
                                           bottom + right + c};
                pixel(&r->in[IMAGES], at, x.weight[0], y.weight[0], &r->out[0],
                      (row * z->out_w + j) * z->channels + c, n);
                if (rt_run_spend(r, &r->left, 8 * n + 16))
                    return r->err->code;
            }
        }
    }
    return RT_OK;
}

/* ---- the op ---- */

static enum rt_status infer(struct rt_infer *x)
{
    for (int k = MIN; k <= MAX; k++) {
        x->out[k - 1].shape.rank = 0;
        if (x->in[k].shape.rank > 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "%s must be a scalar",
                           k == MIN ? "min" : "max");
    }
    return kn_resize_infer(x);
}

static void rows(struct rt_rows *r)
{
    rt_rows_first(r);
    for (int k = 1; k < r->n_out; k++)
        if (r->out_dep[0].kind != RT_DEP_MIXED)
            r->out_dep[k].kind = RT_DEP_NONE;
}

static enum rt_status run(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[IMAGES], *out;
    const bool align = rt_attr_bool(r->node, "align_corners");

    if (kn_outputs(r, infer))
        return r->err->code;
    out = &r->out[0];
    /* TensorFlow's kernel leaves the range unset, which its executor refuses. */
    if (rt_tensor_count(out) == 0)
        return rt_fail(r->err, RT_INTERNAL, "Missing 1-th output from {{node %s}}", r->node->name);
    kn_q_put_range(r, kn_q_range_of(r, MIN, MAX));
    if (out->dim[1] == in->dim[1] && out->dim[2] == in->dim[2])
        return kn_copy_run(r, kn_dtype(in), out->data, in->data, rt_tensor_count(in));
    struct resize z = {.in_h = in->dim[1],
                       .in_w = in->dim[2],
                       .out_h = out->dim[1],
                       .out_w = out->dim[2],
                       .channels = in->dim[3],
                       .half = rt_attr_bool(r->node, "half_pixel_centers")};
    z.scale_h = kn_resize_scale(z.in_h, z.out_h, align);
    z.scale_w = kn_resize_scale(z.in_w, z.out_w, align);
    return kn_parallel_rows(r, out->dim[0] * z.out_h, z.out_w * (z.channels + 4), 1, resize_rows,
                            &z);
}

const struct kn_entry kn_quantized_resize_bilinear = {
    .op = {.name = "QuantizedResizeBilinear", .shape_in = 1 << SIZE, .infer = infer, .rows = rows},
    .kernels = KN_KERNELS({.op = "QuantizedResizeBilinear",
                           .device = "CPU",
                           .name = "quantized_resize",
                           .types = RT_T(RT_F32) | RT_T(RT_QU8) | RT_T(RT_QI32),
                           .run = run}),
};
