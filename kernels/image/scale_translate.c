/*
 * ScaleAndTranslate resamples images with a kernel of a given radius. Along each axis, output
 * position i lies at `(i + 0.5 - translation) / scale` in the input. An output element is the
 * weighted average of the inputs around its position, or 0 if the position is outside the image.
 * Rows are combined first, then columns.
 *
 * The kernels are Lanczos, Keys (1981), Mitchell and Netravali (1988, B = C = 1/3), a Gaussian, a
 * triangle and a box.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/image/image.h"
#include "kernels/matmul/gemm.h"
#include "runtime/base/checked.h"

/* ---- kernels ---- */

static float lanczos(float x, float radius)
{
    const float pi = 3.14159265f;
    if (x > radius)
        return 0;
    if (x <= 1e-3f)
        return 1;
    return radius * sinf(pi * x) * sinf(pi * x / radius) / (pi * pi * x * x);
}

/* The standard deviation is a third of the radius. */
static float gaussian(float x, float radius)
{
    const float sigma = radius / 3;
    return x >= radius ? 0 : expf(-x * x / (2 * sigma * sigma));
}

static float box(float x, float radius)
{
    (void)radius;
    return x < 0.5f ? 1.0f : x == 0.5f ? 0.5f : 0.0f;
}

static float triangle(float x, float radius)
{
    (void)radius;
    return x < 1 ? 1 - x : 0;
}

static float keys_cubic(float x, float radius)
{
    if (x >= radius)
        return 0;
    return x >= 1 ? ((-0.5f * x + 2.5f) * x - 4) * x + 2 : (1.5f * x - 2.5f) * x * x + 1;
}

static float mitchell_cubic(float x, float radius)
{
    if (x >= radius)
        return 0;
    return x >= 1 ? ((-7.0f / 18 * x + 2) * x - 10.0f / 3) * x + 16.0f / 9
                  : (7.0f / 6 * x - 2) * x * x + 8.0f / 9;
}

struct kernel {
    const char *name;
    float (*at)(float distance, float radius);
    float radius;
};

static const struct kernel kernels[] = {
    {"lanczos1", lanczos, 1},
    {"lanczos3", lanczos, 3},
    {"lanczos5", lanczos, 5},
    {"gaussian", gaussian, 1.5f},
    {"box", box, 1},
    {"triangle", triangle, 1},
    {"keyscubic", keys_cubic, 2},
    {"mitchellcubic", mitchell_cubic, 2},
};

/* Returns the kernel that the attribute "kernel_type" names, in upper or lower case, or NULL if
 * there is none. */
static const struct kernel *kernel_of(const struct rt_node *n)
{
    const struct rt_span s = rt_attr_str(n, "kernel_type");

    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (s.n == strlen(kernels[i].name) &&
            strncasecmp((const char *)s.p, kernels[i].name, s.n) == 0)
            return &kernels[i];
    return NULL;
}

/* ---- weights ---- */

enum {
    CHUNK = RT_WORK / 64, /* number of elements between two calls of rt_run_spend */
    TAP_COST = 32,        /* work per weight, in units of rt_run_spend */
    /* Maximum number of column weights that are computed once per run. If there are more, they are
     * computed again for every row. */
    MOST_WEIGHTS = 1 << 22,
};

struct axis {
    const struct kernel *kernel;
    int64_t in, out;
    int64_t span; /* maximum number of inputs that contribute to an output */
    float inverse, shift, kernel_scale;
};

/* The inputs [start, start + n) that contribute to one output position, and their weights. */
struct taps {
    int64_t start, n;
    float *weight;
};

static struct axis axis_of(const struct kernel *k, int64_t in, int64_t out, float scale,
                           float translation, bool antialias)
{
    struct axis a = {.kernel = k, .in = in, .out = out, .inverse = 1 / scale};

    a.shift = -a.inverse * translation;
    a.kernel_scale = antialias && a.inverse > 1 ? a.inverse : 1;
    const double reach = ceil((double)(k->radius * a.kernel_scale));
    a.span = 2 * reach + 1 < (double)in ? 2 * (int64_t)reach + 1 : in;
    return a;
}

static int64_t clamp(int64_t v, int64_t hi)
{
    return v < 0 ? 0 : v > hi ? hi : v;
}

/* Computes the taps of output i. The taps include inputs that the kernel does not cover, and whose
 * weight is 0. As in TensorFlow, an infinity or NaN in such an input makes the output NaN. */
static enum rt_status fill_taps(struct rt_run *r, int64_t *left, const struct axis *a, int64_t i,
                                struct taps *t)
{
    const float at = ((float)i + 0.5f) * a->inverse + a->shift;
    const float reach = a->kernel->radius * a->kernel_scale, unit = 1 / a->kernel_scale;
    float sum = 0;

    t->start = 0;
    if (!(at < 0 || at > (float)a->in))
        t->start = clamp(rt_int64_of((double)ceilf(at - reach - 0.5f)), a->in - 1);
    t->n = a->in - t->start < a->span ? a->in - t->start : a->span;
    memset(t->weight, 0, (size_t)t->n * sizeof *t->weight);
    if (at < 0 || at > (float)a->in)
        return rt_run_spend(r, left, t->n);
    const int64_t end = clamp(rt_int64_of((double)floorf(at + reach - 0.5f)), a->in - 1) + 1;
    const int64_t n = end - t->start < t->n ? end - t->start : t->n;
    for (int64_t k = 0; k < n; k++) {
        const float x = (float)(t->start + k) + 0.5f - at;
        t->weight[k] = a->kernel->at(fabsf(x * unit), a->kernel->radius);
        sum += t->weight[k];
        if (rt_run_spend(r, left, TAP_COST))
            return r->err->code;
    }
    /* If the position is NaN, all weights become 0. */
    const float factor = fabsf(sum) >= 1000 * FLT_MIN ? 1 / sum : 0;
    for (int64_t k = 0; k < n; k++)
        t->weight[k] = factor != 0 ? t->weight[k] * factor : 0;
    return rt_run_spend(r, left, n);
}

/* ---- run ---- */

struct job {
    struct axis h, w;
    int64_t batch, channels;
    float *line;       /* a row of the output before columns are combined */
    float *row_weight; /* memory for the weights of a row */
    float *col_weight; /* memory for the weights of all columns, or of one column */
    struct taps *col;  /* the taps of all columns, or NULL */
};

KN_CLONES static void add_scaled(float *dst, const float *src, float weight, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] += src[i] * weight;
}

/* Combines rows of an image into j->line. */
static enum rt_status combine_rows(struct rt_run *r, int64_t *left, const struct job *j,
                                   const struct taps *t, const float *image)
{
    const int64_t n = j->w.in * j->channels;

    for (int64_t from = 0; from < n; from += CHUNK) {
        const int64_t some = n - from < CHUNK ? n - from : CHUNK;
        memset(j->line + from, 0, (size_t)some * sizeof *j->line);
        for (int64_t k = 0; k < t->n; k++) {
            add_scaled(j->line + from, image + (t->start + k) * n + from, t->weight[k], some);
            if (rt_run_spend(r, left, some + 16))
                return r->err->code;
        }
    }
    return RT_OK;
}

/* Adds n weighted pixels to one pixel. A pixel has `stride` channels, of which the first `channels`
 * are added. */
static void add_pixels(float *dst, const float *src, const float *weight, int64_t n,
                       int64_t channels, int64_t stride)
{
    for (int64_t k = 0; k < n; k++, src += stride)
        for (int64_t c = 0; c < channels; c++)
            dst[c] += src[c] * weight[k];
}

/* Combines pixels of j->line into one pixel of the output. */
static enum rt_status combine_columns(struct rt_run *r, int64_t *left, const struct job *j,
                                      const struct taps *t, float *dst)
{
    const int64_t all = j->channels;

    for (int64_t c = 0; c < all; c += CHUNK) {
        const int64_t some = all - c < CHUNK ? all - c : CHUNK, most = CHUNK / some;
        memset(dst + c, 0, (size_t)some * sizeof *dst);
        for (int64_t k = 0; k < t->n; k += most) {
            const int64_t n = t->n - k < most ? t->n - k : most;
            const float *src = j->line + (t->start + k) * all + c;
            if (some == 1)
                add_pixels(dst + c, src, t->weight + k, n, 1, all);
            else if (some == 3)
                add_pixels(dst + c, src, t->weight + k, n, 3, all);
            else
                add_pixels(dst + c, src, t->weight + k, n, some, all);
            if (rt_run_spend(r, left, n * (some + 4) + 16))
                return r->err->code;
        }
    }
    return RT_OK;
}

static enum rt_status scale_image(struct rt_run *r, int64_t *left, const struct job *j,
                                  const float *image, float *dst)
{
    for (int64_t y = 0; y < j->h.out; y++) {
        struct taps row = {.weight = j->row_weight};
        if (fill_taps(r, left, &j->h, y, &row) || combine_rows(r, left, j, &row, image))
            return r->err->code;
        for (int64_t x = 0; x < j->w.out; x++, dst += j->channels) {
            struct taps one = {.weight = j->col_weight};
            if (!j->col && fill_taps(r, left, &j->w, x, &one))
                return r->err->code;
            if (combine_columns(r, left, j, j->col ? &j->col[x] : &one, dst))
                return r->err->code;
        }
    }
    return RT_OK;
}

/* Allocates and divides the scratch memory. The sizes cannot overflow, because each is limited or
 * is a multiple of an input's size. */
static enum rt_status make_scratch(struct rt_run *r, int64_t *left, struct job *j, float **image)
{
    const int64_t picture = j->h.in * j->w.in * j->channels;
    const bool keep = j->w.out <= MOST_WEIGHTS / j->w.span;
    const int64_t columns = keep ? j->w.out : 1;
    const size_t n_image = r->in[0].dtype == RT_F32 ? 0 : (size_t)picture;
    const size_t floats = (size_t)(j->w.in * j->channels + j->h.span + columns * j->w.span);
    struct taps *taps =
        rt_scratch(r, (size_t)columns * sizeof *taps + (n_image + floats) * sizeof(float));

    if (!taps)
        return r->err->code;
    j->line = (float *)(taps + columns);
    j->row_weight = j->line + j->w.in * j->channels;
    j->col_weight = j->row_weight + j->h.span;
    *image = n_image ? j->col_weight + columns * j->w.span : NULL;
    j->col = keep ? taps : NULL;
    for (int64_t x = 0; keep && x < columns; x++) {
        taps[x] = (struct taps){.weight = j->col_weight + x * j->w.span};
        if (fill_taps(r, left, &j->w, x, &taps[x]))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status run_scale(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[0], *o = &r->out[0];
    const float *scale = r->in[2].data, *shift = r->in[3].data;
    const bool antialias = rt_attr_bool(r->node, "antialias");
    const struct kernel *k = kernel_of(r->node);
    const size_t size = rt_dtype_size((enum rt_dtype)in->dtype);
    int64_t left = RT_WORK;
    float *converted = NULL;

    if (!(scale[0] > 0) || !(scale[1] > 0))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Scale must be greater than zero.");
    if (!rt_tensor_count(o))
        return RT_OK;
    struct job j = {.h = axis_of(k, in->dim[1], o->dim[1], scale[0], shift[0], antialias),
                    .w = axis_of(k, in->dim[2], o->dim[2], scale[1], shift[1], antialias),
                    .batch = in->dim[0],
                    .channels = in->dim[3]};
    const int64_t picture = j.h.in * j.w.in * j.channels;
    if (make_scratch(r, &left, &j, &converted))
        return r->err->code;
    for (int64_t b = 0; b < j.batch; b++) {
        const char *src = (const char *)in->data + (size_t)(b * picture) * size;
        float *dst = (float *)o->data + b * j.h.out * j.w.out * j.channels;
        if (converted &&
            kn_to_float_rows(r, (enum rt_dtype)in->dtype, src, picture, converted, 1, picture))
            return r->err->code;
        if (scale_image(r, &left, &j, converted ? converted : (const float *)src, dst))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- shapes ---- */

/* Refuses an input that is known not to be a vector of two elements. */
static enum rt_status check_two(struct rt_infer *x, int input, const char *name)
{
    const struct rt_shape *s = &x->in[input].shape;
    char words[64];

    if (kn_image_rank_differs(s, 1)) {
        snprintf(words, sizeof words, "%s must be 1-dimensional", name);
        return kn_image_fail_shape(x->err, words, s);
    }
    if (s->rank == 1 && s->dim[0] >= 0 && s->dim[0] != 2) {
        snprintf(words, sizeof words, "%s must have two elements", name);
        return kn_image_fail_shape(x->err, words, s);
    }
    return RT_OK;
}

static enum rt_status check_kernel(const struct rt_infer *x)
{
    const struct rt_span s = rt_attr_str(x->node, "kernel_type");

    if (kernel_of(x->node))
        return RT_OK;
    return rt_fail(x->err, RT_INVALID_ARGUMENT, "Unrecognized kernel type: %.*s",
                   (int)(s.n < 100 ? s.n : 100), (const char *)s.p);
}

static enum rt_status infer_scale(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    struct rt_shape *o = &x->out[0].shape;

    if (check_kernel(x))
        return x->err->code;
    if (kn_image_rank_differs(in, 4))
        return kn_image_fail_shape(x->err, "input must be 4-dimensional", in);
    if (check_two(x, 1, "output_shape_t"))
        return x->err->code;
    *o = kn_image_unknown(4);
    if (in->rank == 4) {
        o->dim[0] = in->dim[0];
        o->dim[3] = in->dim[3];
    }
    for (int i = 0; i < 2 && x->in[1].value; i++) {
        o->dim[1 + i] = ((const int32_t *)x->in[1].value->data)[i];
        if (o->dim[1 + i] <= 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "output dimensions must be positive");
    }
    if (in->rank == 4 && in->dim[3] == 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "image must have at least one channel");
    if (in->rank == 4 && (in->dim[1] == 0 || in->dim[2] == 0))
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "input image must be of non-zero size");
    return check_two(x, 2, "t") ? x->err->code : check_two(x, 3, "t");
}

const struct kn_entry kn_scale_and_translate = {
    .op = {.name = "ScaleAndTranslate", .shape_in = 2, .infer = infer_scale, .rows = rt_rows_first},
    .kernels = KN_CPU("ScaleAndTranslate", "scale_translate", KN_SET(KN_REALS), NULL, run_scale),
};

/* ---- gradient: gradient of the output, original images, scale, translation ---- */

static enum rt_status infer_grad(struct rt_infer *x)
{
    const struct rt_shape *back = &x->in[0].shape, *image = &x->in[1].shape;
    struct rt_shape *o = &x->out[0].shape;

    if (check_kernel(x))
        return x->err->code;
    if (kn_image_rank_differs(back, 4))
        return kn_image_fail_shape(x->err, "input_grad must be 4-dimensional", back);
    if (kn_image_rank_differs(image, 4))
        return kn_image_fail_shape(x->err, "original_image must be 4-dimensional", image);
    *o = kn_image_unknown(4);
    for (int i = 0; i < 4; i++) {
        const struct rt_shape *from = i == 1 || i == 2 ? image : back;
        if (from->rank == 4)
            o->dim[i] = from->dim[i];
    }
    return check_two(x, 2, "t") ? x->err->code : check_two(x, 3, "t");
}

/* Adds a row of the gradient to the line of pixels from which the row was combined. */
static enum rt_status spread_columns(struct rt_run *r, int64_t *left, const struct job *j,
                                     const float *src)
{
    const int64_t channels = j->channels;

    memset(j->line, 0, (size_t)(j->w.in * channels) * sizeof *j->line);
    if (rt_run_spend(r, left, j->w.in * channels / 8))
        return r->err->code;
    for (int64_t x = 0; x < j->w.out; x++, src += channels) {
        struct taps one = {.weight = j->col_weight};
        if (!j->col && fill_taps(r, left, &j->w, x, &one))
            return r->err->code;
        const struct taps *t = j->col ? &j->col[x] : &one;
        for (int64_t k = 0; k < t->n; k++) {
            if (t->weight[k] != 0)
                add_scaled(j->line + (t->start + k) * channels, src, t->weight[k], channels);
            if (rt_run_spend(r, left, channels + 8))
                return r->err->code;
        }
    }
    return RT_OK;
}

/* Adds the gradient of one image to the pixels of the original image, first along rows. */
static enum rt_status spread_image(struct rt_run *r, int64_t *left, const struct job *j,
                                   const float *src, float *dst)
{
    const int64_t n = j->w.in * j->channels;

    for (int64_t y = 0; y < j->h.out; y++, src += j->w.out * j->channels) {
        struct taps row = {.weight = j->row_weight};
        if (fill_taps(r, left, &j->h, y, &row) || spread_columns(r, left, j, src))
            return r->err->code;
        for (int64_t k = 0; k < row.n; k++) {
            if (row.weight[k] != 0)
                add_scaled(dst + (row.start + k) * n, j->line, row.weight[k], n);
            if (rt_run_spend(r, left, n + 8))
                return r->err->code;
        }
    }
    return RT_OK;
}

static enum rt_status run_grad(struct rt_run *r)
{
    const struct rt_tensor *back = &r->in[0], *o = &r->out[0];
    const float *scale = r->in[2].data, *shift = r->in[3].data;
    const bool antialias = rt_attr_bool(r->node, "antialias");
    const struct kernel *k = kernel_of(r->node);
    int64_t left = RT_WORK;
    float *unused;

    if (!(scale[0] > 0) || !(scale[1] > 0))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Scale must be greater than zero.");
    if (!rt_tensor_count(o))
        return RT_OK;
    memset(o->data, 0, rt_tensor_bytes(o));
    if (!rt_tensor_count(back))
        return RT_OK;
    struct job j = {.h = axis_of(k, o->dim[1], back->dim[1], scale[0], shift[0], antialias),
                    .w = axis_of(k, o->dim[2], back->dim[2], scale[1], shift[1], antialias),
                    .batch = back->dim[0],
                    .channels = back->dim[3]};
    if (make_scratch(r, &left, &j, &unused))
        return r->err->code;
    for (int64_t b = 0; b < j.batch; b++) {
        const float *src = (const float *)back->data + b * j.h.out * j.w.out * j.channels;
        float *dst = (float *)o->data + b * j.h.in * j.w.in * j.channels;
        if (spread_image(r, &left, &j, src, dst))
            return r->err->code;
    }
    return RT_OK;
}

const struct kn_entry kn_scale_and_translate_grad = {
    .op = {.name = "ScaleAndTranslateGrad", .infer = infer_grad},
    .kernels =
        KN_CPU("ScaleAndTranslateGrad", "scale_translate_grad", RT_T(RT_F32), NULL, run_grad),
};
