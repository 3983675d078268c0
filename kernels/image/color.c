/*
 * Ops on the colours of images: RGBToHSV, HSVToRGB, AdjustHue, AdjustSaturation and
 * AdjustContrastv2. The formulas are those of the HSV colour model, where the hue is the position
 * on a circle of six sectors. Operations and comparisons have TensorFlow's order, because
 * comparisons with NaN decide which formula applies.
 */
#include <float.h>
#include <math.h>

#include "kernels/array/array.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/image/image.h"
#include "kernels/math/elementwise.h"

enum {
    COLORS = 3,
    COST = 64,    /* work per pixel, in units of rt_run_spend */
    BLOCK = 4096, /* number of pixels between two calls of rt_run_spend */
};

/* ---- pixel by pixel ---- */

/* Computes n pixels of y from x. y may be x. `by` is the op's second input. */
typedef void pixels_fn(void *y, const void *x, int64_t n, float by);

struct pixels {
    pixels_fn *fn;
    float by;
};

static enum rt_status run_pixels(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct pixels *p = arg;
    int64_t left = RT_WORK;

    for (int64_t i = from; i < to; i += BLOCK) {
        const int64_t n = kn_min_i64(to - i, BLOCK);
        p->fn(kn_at_mut(&r->out[0], i * COLORS), kn_at(&r->in[0], i * COLORS), n, p->by);
        if (rt_run_spend(r, &left, COST * n))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status map_pixels(struct rt_run *r, pixels_fn *fn, float by)
{
    struct pixels p = {fn, by};
    return kn_parallel_rows(r, rt_tensor_count(&r->out[0]) / COLORS, COST, BLOCK, run_pixels, &p);
}

/* ---- RGBToHSV and HSVToRGB: [..., 3] of any float type ---- */

#define MAX(a, b)      ((a) > (b) ? (a) : (b))
#define MIN(a, b)      ((a) < (b) ? (a) : (b))
#define CLAMP_01(a)    ((a) < 0 ? 0 : (a) > 1 ? 1 : (a))
#define ROUND(dt, v)   ((KN_C(dt))KN_ROUND(dt, v))
#define PART(dt, n, d) ROUND(dt, (KN_C(dt))(n) / (d))

#define TO_HSV(dt, T)                                                                              \
    KN_CLONES static void to_hsv_##dt(void *dst, const void *src, int64_t n, float by)             \
    {                                                                                              \
        typedef KN_C(dt) C;                                                                        \
        const C sixth = PART(dt, 1, 6), third = PART(dt, 2, 6), two_thirds = PART(dt, 4, 6);       \
        const T *x = src;                                                                          \
        T *y = dst;                                                                                \
        (void)by;                                                                                  \
        for (int64_t i = 0; i < n; i++, x += COLORS, y += COLORS) {                                \
            const C r = KN_GET(dt, x[0]), g = KN_GET(dt, x[1]), b = KN_GET(dt, x[2]);              \
            const C rg_max = MAX(r, g), rg_min = MIN(r, g);                                        \
            const C v = MAX(rg_max, b), low = MIN(rg_min, b);                                      \
            const C range = ROUND(dt, v - low);                                                    \
            const C s = v > 0 ? range / v : 0;                                                     \
            const C norm = ROUND(dt, ROUND(dt, 1 / range) * sixth);                                \
            const C up = r == v ? g - b : g == v ? b - r : r - g;                                  \
            const C h0 = r == v ? 0 : g == v ? third : two_thirds;                                 \
            const C part = ROUND(dt, norm * ROUND(dt, up));                                        \
            const C at = r == v ? part : ROUND(dt, part + h0);                                     \
            const C h = range > 0 ? at : 0;                                                        \
            y[0] = KN_PUT(dt, h < 0 ? h + 1 : h);                                                  \
            y[1] = KN_PUT(dt, s);                                                                  \
            y[2] = KN_PUT(dt, v);                                                                  \
        }                                                                                          \
    }

#define HSV_COLOR(dt, at) KN_PUT(dt, ROUND(dt, gray + ROUND(dt, s * (at))) * v)
#define TO_RGB(dt, T)                                                                              \
    KN_CLONES static void to_rgb_##dt(void *dst, const void *src, int64_t n, float by)             \
    {                                                                                              \
        typedef KN_C(dt) C;                                                                        \
        const T *x = src;                                                                          \
        T *y = dst;                                                                                \
        (void)by;                                                                                  \
        for (int64_t i = 0; i < n; i++, x += COLORS, y += COLORS) {                                \
            const C h = KN_GET(dt, x[0]), s = KN_GET(dt, x[1]), v = KN_GET(dt, x[2]);              \
            const C at = ROUND(dt, h * 6), gray = ROUND(dt, 1 - s);                                \
            const C r = ROUND(dt, fabs(ROUND(dt, at - 3)) - 1);                                    \
            const C g = ROUND(dt, 2 - fabs(ROUND(dt, at - 2)));                                    \
            const C b = ROUND(dt, 2 - fabs(ROUND(dt, at - 4)));                                    \
            y[0] = HSV_COLOR(dt, CLAMP_01(r));                                                     \
            y[1] = HSV_COLOR(dt, CLAMP_01(g));                                                     \
            y[2] = HSV_COLOR(dt, CLAMP_01(b));                                                     \
        }                                                                                          \
    }
#define BOTH(dt, T) TO_HSV(dt, T) TO_RGB(dt, T)
KN_FLOATS(BOTH)
KN_HALFS(BOTH)

static enum rt_status infer_hsv(struct rt_infer *x)
{
    const struct rt_shape *s = &x->in[0].shape;

    if (s->rank == 0)
        return kn_image_fail_shape(x->err, "input must be at least 1D", s);
    if (s->rank > 0 && s->dim[s->rank - 1] >= 0 && s->dim[s->rank - 1] != COLORS)
        return rt_fail(x->err, RT_FAILED_PRECONDITION,
                       "input must have 3 channels but input only has %lld channels.",
                       (long long)s->dim[s->rank - 1]);
    return kn_infer_same(x);
}

static void rows_pixels(struct rt_rows *r)
{
    kn_image_rows_outer(r, 1);
}

#define RUN_HSV(symbol)                                                                            \
    static enum rt_status run_##symbol(struct rt_run *r)                                           \
    {                                                                                              \
        static pixels_fn *const fns[RT_N_DTYPES] = {                                               \
            [RT_F32] = symbol##_RT_F32,                                                            \
            [RT_F64] = symbol##_RT_F64,                                                            \
            [RT_F16] = symbol##_RT_F16,                                                            \
            [RT_BF16] = symbol##_RT_BF16,                                                          \
        };                                                                                         \
        return map_pixels(r, fns[r->in[0].dtype], 0);                                              \
    }
RUN_HSV(to_hsv)
RUN_HSV(to_rgb)

/* ---- AdjustHue and AdjustSaturation: float32 [..., 3] of rank 3 and more ---- */

/*
 * Changes the hue of a pixel by `turn` sectors. The hue is split into a sector and the position of
 * the middle colour between the lowest and the highest colour. In sectors of even numbers, the hue
 * increases with the middle colour. In sectors of odd numbers, it decreases.
 */
static void turn_hue(float *y, const float *x, float turn)
{
    const float r = x[0], g = x[1], b = x[2];
    float high, low, mid;
    int sector;

    if (r < g) {
        sector = b < r ? 1 : b > g ? 3 : 2;
        low = sector == 1 ? b : r;
        high = sector == 3 ? b : g;
        mid = sector == 1 ? r : sector == 3 ? g : b;
    } else {
        sector = b > r ? 4 : b < g ? 0 : 5;
        low = sector == 0 ? b : g;
        high = sector == 4 ? b : r;
        mid = sector == 4 ? r : sector == 0 ? g : b;
    }
    const float ratio = (mid - low) / (high - low);
    float h = high == low ? 0 : (float)sector + (sector & 1 ? 1 - ratio : ratio);
    h = fmodf(h + turn, 6);
    h = h < 0 ? h + 6 : h;
    h = h >= 6 ? h - 6 : h;
    /* A hue of NaN is treated as a hue in sector 5. */
    const int to = h >= 0 && h < 6 ? (int)h : 5;
    const float part = h - (float)to;
    const float between = low + (to & 1 ? 1 - part : part) * (high - low);
    y[0] = to == 0 || to == 5 ? high : to == 1 || to == 4 ? between : low;
    y[1] = to == 1 || to == 2 ? high : to == 0 || to == 3 ? between : low;
    y[2] = to == 3 || to == 4 ? high : to == 2 || to == 5 ? between : low;
}

static void hue_pixels(void *dst, const void *src, int64_t n, float delta)
{
    const float *x = src;
    float *y = dst;

    for (int64_t i = 0; i < n; i++, x += COLORS, y += COLORS)
        turn_hue(y, x, delta * 6);
}

/* Returns the maximum as std::max does: `a` if either is NaN. */
static float first_max(float a, float b)
{
    return a < b ? b : a;
}

static float first_min(float a, float b)
{
    return b < a ? b : a;
}

static void scale_saturation(float *y, const float *x, float scale)
{
    const float r = x[0], g = x[1], b = x[2];
    const float v = first_max(r, first_max(g, b)), range = v - first_min(r, first_min(g, b));
    const float norm = 1 / (6 * range);
    float h = r == v   ? norm * (g - b)
              : g == v ? norm * (b - r) + 2.0f / 6
                       : norm * (r - g) + 4.0f / 6;
    const float s = first_min(1, first_max(0, (v > 0 ? range / v : 0) * scale));

    h = range <= 0 ? 0 : h;
    h = h < 0 ? h + 1 : h;
    const float color = s * v, gray = v - color, at = h * 6;
    /* A hue of NaN, or of 1 after rounding, belongs to no sector and makes the pixel gray. */
    const int sector = at >= 0 && at < 6 ? (int)at : 6;
    const float mid = color * (1 - fabsf(at - (float)(sector & 6) - 1));
    y[0] = (sector == 0 || sector == 5 ? color : sector == 1 || sector == 4 ? mid : 0) + gray;
    y[1] = (sector == 1 || sector == 2 ? color : sector == 0 || sector == 3 ? mid : 0) + gray;
    y[2] = (sector == 3 || sector == 4 ? color : sector == 2 || sector == 5 ? mid : 0) + gray;
}

static void saturation_pixels(void *dst, const void *src, int64_t n, float scale)
{
    const float *x = src;
    float *y = dst;

    for (int64_t i = 0; i < n; i++, x += COLORS, y += COLORS)
        scale_saturation(y, x, scale);
}

/* Refuses images of rank below 3, and a second input that is not a scalar. */
static enum rt_status infer_adjust(struct rt_infer *x, const char *name)
{
    const struct rt_shape *s = &x->in[0].shape, *by = &x->in[1].shape;

    if (s->rank >= 0 && s->rank < 3)
        return kn_image_fail_shape(x->err, "input must be at least 3-D, got shape", s);
    if (by->rank > 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "%s must be scalar: %s", name, KN_TEXT(by));
    return kn_infer_same(x);
}

static enum rt_status infer_colors(struct rt_infer *x, const char *name)
{
    const struct rt_shape *s = &x->in[0].shape;
    const enum rt_status st = infer_adjust(x, name);

    if (!st && s->rank > 0 && s->dim[s->rank - 1] >= 0 && s->dim[s->rank - 1] != COLORS)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "input must have 3 channels but instead has %lld channels.",
                       (long long)s->dim[s->rank - 1]);
    return st;
}

static enum rt_status infer_hue(struct rt_infer *x)
{
    return infer_colors(x, "delta");
}

static enum rt_status infer_saturation(struct rt_infer *x)
{
    return infer_colors(x, "scale");
}

static enum rt_status run_hue(struct rt_run *r)
{
    return map_pixels(r, hue_pixels, *(const float *)r->in[1].data);
}

static enum rt_status run_saturation(struct rt_run *r)
{
    return map_pixels(r, saturation_pixels, *(const float *)r->in[1].data);
}

/* ---- AdjustContrastv2: float32 [..., height, width, channels] ---- */

/*
 * Channels are processed in groups of at most LANES. If an image has few channels, several pixels
 * are processed at once. Then `lanes` sums are in use, and lane k belongs to channel `k %
 * channels`.
 */
enum { LANES = 64 };

struct contrast {
    int64_t pixels, channels; /* of an image */
    float factor;
};

/* Adds n lines of `lanes` elements. The lines begin `stride` elements apart. */
KN_CLONES static void add_lines(const float *x, int64_t n, int64_t stride, int64_t lanes,
                                double *sum)
{
    for (int64_t i = 0; i < n; i++, x += stride)
        for (int64_t k = 0; k < lanes; k++)
            sum[k] += (double)x[k];
}

KN_CLONES static void spread_lines(float *y, const float *x, int64_t n, int64_t stride,
                                   int64_t lanes, const float *mean, float factor)
{
    for (int64_t i = 0; i < n; i++, x += stride, y += stride)
        for (int64_t k = 0; k < lanes; k++)
            y[k] = (x[k] - mean[k]) * factor + mean[k];
}

/* Adjusts channels [0, width) of an image in which each pixel has c->channels channels. */
static enum rt_status contrast_channels(struct rt_run *r, int64_t *left, const struct contrast *c,
                                        const float *x, float *y, int64_t width)
{
    const int64_t at_once = c->channels == width && width <= LANES ? LANES / width : 1;
    const int64_t lines = c->pixels / at_once, rest = c->pixels % at_once, done = lines * at_once;
    const int64_t stride = at_once * c->channels, lanes = at_once * width;
    const int64_t block = BLOCK * 8 / (lanes + 8);
    double sum[LANES] = {0};
    float mean[LANES];

    for (int64_t i = 0; i < lines; i += block) {
        const int64_t n = kn_min_i64(lines - i, block);
        add_lines(x + i * stride, n, stride, lanes, sum);
        if (rt_run_spend(r, left, n * (lanes + 8)))
            return r->err->code;
    }
    add_lines(x + done * c->channels, 1, 0, rest * width, sum);
    for (int64_t k = width; k < lanes; k++)
        sum[k % width] += sum[k];
    /* The sum is rounded to float first. As in TensorFlow, it may overflow to infinity. */
    for (int64_t k = 0; k < lanes; k++)
        mean[k] = k < width ? (float)sum[k] / (float)c->pixels : mean[k % width];
    for (int64_t i = 0; i < lines; i += block) {
        const int64_t n = kn_min_i64(lines - i, block);
        spread_lines(y + i * stride, x + i * stride, n, stride, lanes, mean, c->factor);
        if (rt_run_spend(r, left, n * (lanes + 8)))
            return r->err->code;
    }
    spread_lines(y + done * c->channels, x + done * c->channels, 1, 0, rest * width, mean,
                 c->factor);
    return RT_OK;
}

static enum rt_status contrast_images(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct contrast *c = arg;
    const int64_t picture = c->pixels * c->channels;
    int64_t left = RT_WORK;

    for (int64_t b = from; b < to; b++)
        for (int64_t k = 0; k < c->channels; k += LANES) {
            const int64_t at = b * picture + k;
            const enum rt_status st =
                contrast_channels(r, &left, c, (const float *)r->in[0].data + at,
                                  (float *)r->out[0].data + at, kn_min_i64(c->channels - k, LANES));
            if (st)
                return st;
        }
    return RT_OK;
}

static enum rt_status run_contrast(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    struct contrast c = {.pixels = t->dim[t->rank - 3] * t->dim[t->rank - 2],
                         .channels = t->dim[t->rank - 1],
                         .factor = *(const float *)r->in[1].data};
    const int64_t picture = c.pixels * c.channels;

    if (rt_tensor_count(t) == 0)
        return RT_OK;
    return kn_parallel_rows(r, rt_tensor_count(t) / picture, picture, 1, contrast_images, &c);
}

static enum rt_status infer_contrast(struct rt_infer *x)
{
    return infer_adjust(x, "contrast_factor");
}

static void rows_contrast(struct rt_rows *r)
{
    kn_image_rows_outer(r, 3);
}

/* ---- registry entries ---- */

#define COLOR(symbol, op_, name_, types_, infer_, rows_, run_)                                     \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = op_, .infer = infer_, .rows = rows_},                                       \
        .kernels = KN_CPU(op_, name_, types_, NULL, run_),                                         \
    }
#define ANY_FLOAT (KN_SET(KN_FLOATS) | KN_SET(KN_HALFS))
COLOR(rgb_to_hsv, "RGBToHSV", "rgb_to_hsv", ANY_FLOAT, infer_hsv, rows_pixels, run_to_hsv);
COLOR(hsv_to_rgb, "HSVToRGB", "hsv_to_rgb", ANY_FLOAT, infer_hsv, rows_pixels, run_to_rgb);
COLOR(adjust_hue, "AdjustHue", "adjust_hue", RT_T(RT_F32), infer_hue, rows_pixels, run_hue);
COLOR(adjust_saturation, "AdjustSaturation", "adjust_saturation", RT_T(RT_F32), infer_saturation,
      rows_pixels, run_saturation);
COLOR(adjust_contrastv2, "AdjustContrastv2", "adjust_contrast", RT_T(RT_F32), infer_contrast,
      rows_contrast, run_contrast);
