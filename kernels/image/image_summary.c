/* ImageSummary writes images as PNG files into a Summary message. */
#include <math.h>
#include <stdio.h>

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/image/image.h"
#include "kernels/string/summary_bytes.h"
#include "kernels/string/text.h"

/* Fields of Summary.Value and Summary.Image, as tags of the wire format: number * 8 + wire type. */
enum { IMAGE = 0x22, HEIGHT = 0x08, WIDTH = 0x10, CHANNELS = 0x18, ENCODED = 0x22 };

enum { PIXEL_WORK = 8 };

/* ---- floats to bytes ---- */

/*
 * Makes the function that converts n pixels to bytes. The finite pixels are scaled so that the
 * largest value becomes 255, or, if there are negative values, so that 0 becomes 128 and the
 * largest magnitude 127. Other pixels get the colour `bad`. As in TensorFlow, the scale is a float,
 * and every step is rounded to the type of the image.
 */
#define CONVERT(dt, T, ...)                                                                        \
    static bool is_finite_##dt(const T *pixel, int channels)                                       \
    {                                                                                              \
        bool yes = true;                                                                           \
        for (int c = 0; c < channels; c++)                                                         \
            yes &= isfinite(KN_GET(dt, pixel[c])) != 0;                                            \
        return yes;                                                                                \
    }                                                                                              \
    static enum rt_status convert_##dt(struct rt_run *r, const T *x, int64_t n, int channels,      \
                                       const uint8_t *bad, uint8_t *y)                             \
    {                                                                                              \
        float min = INFINITY, max = -INFINITY, scale, offset = 0;                                  \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T *pixel = x + i * channels;                                                     \
            for (int c = 0; is_finite_##dt(pixel, channels) && c < channels; c++) {                \
                const float v = (float)KN_GET(dt, pixel[c]);                                       \
                min = v < min ? v : min;                                                           \
                max = v > max ? v : max;                                                           \
            }                                                                                      \
            if (rt_run_spend(r, &r->left, PIXEL_WORK))                                             \
                return r->err->code;                                                               \
        }                                                                                          \
        if (min < 0) {                                                                             \
            const float most = -min > max ? -min : max;                                            \
            scale = most < LEAST ? 0 : 127 / most;                                                 \
            offset = 128;                                                                          \
        } else {                                                                                   \
            scale = max < LEAST ? 0 : 255 / max;                                                   \
        }                                                                                          \
        const KN_C(dt) factor = KN_ROUND(dt, (KN_C(dt))scale);                                     \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T *pixel = x + i * channels;                                                     \
            const bool is_good = is_finite_##dt(pixel, channels);                                  \
            for (int c = 0; c < channels; c++) {                                                   \
                const KN_C(dt) scaled = KN_ROUND(dt, KN_GET(dt, pixel[c]) * factor);               \
                y[i * channels + c] =                                                              \
                    is_good ? (uint8_t)(int)KN_ROUND(dt, scaled + offset) : bad[c];                \
            }                                                                                      \
            if (rt_run_spend(r, &r->left, PIXEL_WORK))                                             \
                return r->err->code;                                                               \
        }                                                                                          \
        return RT_OK;                                                                              \
    }
/* Below this largest value, all pixels become 0 or 128. */
#define LEAST                1e-6f
#define IMAGE_FLOATS(M, ...) M(RT_F16, struct kn_half, __VA_ARGS__) KN_FOR_WIDE(M, __VA_ARGS__)
IMAGE_FLOATS(CONVERT, 0)

/* What the values of a Summary are made of. */
struct source {
    struct rt_span tag;
    const struct rt_tensor *images, *bad_color;
    bool is_only;    /* whether only one image may be written, whose tag has no number */
    uint8_t *buffer; /* memory for the bytes of an image of floats */
};

/* Returns the bytes of image i, or NULL if the run must end. */
static const uint8_t *bytes_of(struct rt_run *r, const struct source *s, int64_t i)
{
    const struct rt_tensor *x = s->images;
    const int64_t n = x->dim[1] * x->dim[2];
    const int channels = (int)x->dim[3];
    const uint8_t *bad = s->bad_color->data;
    const void *pixels = kn_at(x, i * n * channels);

    switch (kn_dtype(x)) {
#define X(dt, T, ...)                                                                              \
    case dt:                                                                                       \
        return convert_##dt(r, pixels, n, channels, bad, s->buffer) ? NULL : s->buffer;
        IMAGE_FLOATS(X, 0)
#undef X
    default:
        return pixels;
    }
}

/* ---- ImageSummary ---- */

enum rt_status kn_check_bad_color(const struct rt_tensor *bad_color, struct rt_error *err)
{
    if (bad_color->rank == 1)
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT, "bad_color must be a vector, got shape %s",
                   KN_TEXT(bad_color));
}

static enum rt_status check_images(struct rt_run *r, const struct rt_tensor *x,
                                   const struct rt_tensor *bad)
{
    const int64_t channels = x->rank == 4 ? x->dim[3] : 0;

    if (channels != 1 && channels != 3 && channels != 4)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tensor must be 4-D with last dim 1, 3, or 4, not %s", KN_TEXT(x));
    if (x->dim[1] == 0 || x->dim[2] == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "input tensor must have non-zero dims. Found: [%lld, %lld, %lld, %lld].",
                       (long long)x->dim[0], (long long)x->dim[1], (long long)x->dim[2],
                       (long long)channels);
    if (x->dim[1] > INT32_MAX / x->dim[2] / channels)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Tensor too large for summary %s", KN_TEXT(x));
    if (x->dtype != RT_U8 && bad->dim[0] < channels)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "expected depth <= bad_color.size, got depth = %lld, bad_color.size = %lld",
                       (long long)channels, (long long)bad->dim[0]);
    return RT_OK;
}

/* Appends image i as a value of the Summary. */
static enum rt_status put_value(struct rt_run *r, struct rt_bytes *b, const struct source *s,
                                int64_t i)
{
    const struct rt_tensor *x = s->images;
    const struct kn_png png = {
        .pixels = bytes_of(r, s, i),
        .height = x->dim[1],
        .width = x->dim[2],
        .channels = (int)x->dim[3],
        .depth_bytes = 1,
        .compression = -1,
    };
    struct rt_bytes file, image;
    char suffix[40];

    if (!png.pixels)
        return r->err->code;
    enum rt_status st = RT_OK;
    const size_t n = s->is_only
                         ? (size_t)snprintf(suffix, sizeof suffix, "/image")
                         : (size_t)snprintf(suffix, sizeof suffix, "/image/%lld", (long long)i);
    kn_text_begin(&file, r);
    kn_text_begin(&image, r);
    if (kn_png_write(r, &png, &file)) {
        const int64_t sizes[] = {png.height, png.width, png.channels};
        static const char tags[] = {HEIGHT, WIDTH, CHANNELS};
        for (size_t k = 0; k < sizeof tags; k++) {
            rt_bytes_addc(&image, tags[k]);
            kn_put_varint(&image, (uint64_t)sizes[k]);
        }
        st = kn_put_bytes(r, &image, ENCODED, file.p, file.n);
    } else {
        st = r->err->code ? r->err->code : rt_fail(r->err, RT_INTERNAL, "PNG encoding failed");
    }
    if (!st) {
        kn_put_length(b, KN_SUMMARY_VALUE, kn_field_size(s->tag.n + n) + kn_field_size(image.n));
        kn_put_length(b, KN_SUMMARY_TAG, s->tag.n + n);
        rt_bytes_add(b, s->tag.p, s->tag.n);
        rt_bytes_add(b, suffix, n);
        st = kn_put_bytes(r, b, IMAGE, image.p, image.n);
    }
    kn_text_end(&file);
    kn_text_end(&image);
    return st;
}

enum rt_status kn_put_image_values(struct rt_run *r, struct rt_bytes *b, struct rt_span tag,
                                   const struct rt_tensor *images,
                                   const struct rt_tensor *bad_color, int64_t most)
{
    struct source s = {tag, images, bad_color, most == 1, NULL};
    enum rt_status st = check_images(r, images, bad_color);

    if (st)
        return st;
    const int64_t n = images->dim[0] < most ? images->dim[0] : most;
    if (images->dtype != RT_U8 && n) {
        s.buffer = rt_scratch(r, (size_t)(images->dim[1] * images->dim[2] * images->dim[3]));
        if (!s.buffer)
            return r->err->code;
    }
    for (int64_t i = 0; i < n && !st && !b->failed; i++)
        st = put_value(r, b, &s, i);
    return st;
}

static enum rt_status run(struct rt_run *r)
{
    const struct rt_tensor *bad = rt_attr(r->node, "bad_color")->v.tensor;
    const struct rt_str *tag = rt_strs(&r->in[0]);
    struct rt_bytes b;

    if (bad->dtype != RT_U8)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "bad_color must be uint8, got %s",
                       rt_dtype_name(kn_dtype(bad)));
    enum rt_status st = kn_check_bad_color(bad, r->err);
    if (!st && r->in[0].rank != 0)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "Tags must be a scalar");
    if (st)
        return st;
    kn_text_begin(&b, r);
    st = kn_put_image_values(r, &b, rt_span_of(rt_str_data(tag), tag->n), &r->in[1], bad,
                             rt_attr_int(r->node, "max_images"));
    if (!st)
        return kn_put_summary(r, &b);
    kn_text_end(&b);
    return st;
}

const struct kn_entry kn_image_summary = {
    .op = {.name = "ImageSummary", .infer = kn_infer_scalars},
    .kernels = KN_CPU("ImageSummary", "image_summary",
                      RT_T(RT_U8) | RT_T(RT_F16) | RT_T(RT_F32) | RT_T(RT_F64), NULL, run),
};
