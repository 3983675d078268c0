/*
 * Ops that resize images: ResizeBilinear, ResizeNearestNeighbor, ResizeBicubic, ResizeArea,
 * CropAndResize. Images are [batch, height, width, channels] of any real type. All methods but
 * nearest neighbour compute in float. Coordinates are computed in float, in TensorFlow's order of
 * operations, because the choice of the nearest pixel depends on the last bit.
 */
#include <math.h>
#include <string.h>

#include "kernels/matmul/gemm.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/image/image.h"
#include "kernels/image/resize_taps.h"
#include "runtime/base/checked.h"

static enum rt_status fail_shape(struct rt_error *err, const char *words, const struct rt_shape *s)
{
    char text[160];
    return rt_fail(err, RT_INVALID_ARGUMENT, "%s%s", words,
                   rt_shape_text(text, sizeof text, s->rank, s->dim));
}

static bool op_is(const struct rt_node *n, const char *name)
{
    return strcmp(n->schema->name, name) == 0;
}

/* ---- the four resizes: shapes ---- */

static enum rt_status check_resize(const struct rt_node *n, struct rt_error *err)
{
    if (rt_attr(n, "half_pixel_centers") && rt_attr_bool(n, "half_pixel_centers") &&
        rt_attr_bool(n, "align_corners"))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "If half_pixel_centers is True, align_corners must be False.");
    return RT_OK;
}

/* Reads a "size" input, which must be two positive int32 values. */
static enum rt_status read_size(const struct rt_tensor *t, const char *name, const char *positive,
                                int64_t *size, struct rt_error *err)
{
    struct rt_shape s = {.rank = t->rank};
    char words[64] = "";

    memcpy(s.dim, t->dim, sizeof s.dim);
    strncat(words, name, 20);
    if (t->rank != 1)
        return fail_shape(err, strncat(words, " must be 1-dimensional", 30), &s);
    if (t->dim[0] != 2)
        return fail_shape(err, strncat(words, " must have two elements", 30), &s);
    for (int i = 0; i < 2; i++) {
        size[i] = ((const int32_t *)t->data)[i];
        if (size[i] <= 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "%s", positive);
    }
    return RT_OK;
}

enum rt_status kn_resize_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    struct rt_shape *o = &x->out[0].shape;
    int64_t size[2] = {-1, -1};

    if (in->rank >= 0 && in->rank != 4)
        return fail_shape(x->err, "input must be 4-dimensional", in);
    *o = (struct rt_shape){.rank = 4, .dim = {-1, -1, -1, -1}};
    if (in->rank == 4) {
        o->dim[0] = in->dim[0];
        o->dim[3] = in->dim[3];
    }
    if (!x->in[1].value)
        return RT_OK;
    const enum rt_status st =
        read_size(x->in[1].value, "shape_t", "output dimensions must be positive", size, x->err);
    if (st)
        return st;
    o->dim[1] = size[0];
    o->dim[2] = size[1];
    if (in->rank == 4 && in->dim[3] == 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "image must have at least one channel");
    if (in->rank == 4 && (in->dim[1] == 0 || in->dim[2] == 0))
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "input image must be of non-zero size");
    return RT_OK;
}

static void rows_resize(struct rt_rows *r)
{
    rt_rows_first(r);
}

/* ---- coordinates ---- */

enum method { NEAREST, BILINEAR, BICUBIC, AREA };

struct resize {
    enum method method;
    enum rt_dtype dtype;
    int64_t batch, in_h, in_w, out_h, out_w, channels;
    float scale_h, scale_w;
    bool align, half;
    /* The taps of the output's columns. NULL if the method needs no taps. Also NULL if the image
     * has more than MOST_TAPS columns: then the taps are computed for one chunk at a time during
     * the run. The taps of a row are always computed during the run. */
    struct kn_tap *col;
    /* offsets in scratch memory: of the line that bicubic_line writes, and of the taps of one
     * chunk */
    size_t line_at, taps_at;
};

static int64_t clamp(int64_t v, int64_t hi)
{
    return v < 0 ? 0 : v > hi ? hi : v;
}

static void tap_nearest(struct kn_tap *t, int64_t i, int64_t in, float scale, bool align, bool half)
{
    const float x = half ? ((float)i + 0.5f) * scale : (float)i * scale;
    t->at[0] = clamp(rt_int64_of((double)(align ? roundf(x) : floorf(x))), in - 1);
}

/* ---- prepare ---- */

enum {
    /* number of elements that are processed between two calls of rt_run_spend */
    CHUNK = RT_WORK / 8,
    /* Maximum number of columns whose taps are prepared. The number is limited because a request
     * may choose the width of the image, and `prepare` cannot be interrupted. */
    MOST_TAPS = 1 << 16,
};

static enum method method_of(const struct rt_node *n)
{
    return op_is(n, "ResizeBilinear")  ? BILINEAR
           : op_is(n, "ResizeBicubic") ? BICUBIC
           : op_is(n, "ResizeArea")    ? AREA
                                       : NEAREST;
}

static void fill_tap(const struct resize *z, struct kn_tap *t, int64_t i, int64_t in, float scale)
{
    if (z->method == NEAREST)
        tap_nearest(t, i, in, scale, z->align, z->half);
    else if (z->method == BILINEAR)
        kn_tap_bilinear(t, i, in, scale, z->half);
    else if (z->method == BICUBIC)
        kn_tap_bicubic(t, i, in, scale, z->half);
}

static struct kn_tap row_tap(const struct resize *z, int64_t y)
{
    struct kn_tap t = {{0}, {0}};
    fill_tap(z, &t, y, z->in_h, z->scale_h);
    return t;
}

static size_t padded(int64_t floats)
{
    return ((size_t)floats * sizeof(float) + 63) / 64 * 64;
}

/* Returns the maximum number of columns in a chunk. */
static int64_t chunk_columns(int64_t channels)
{
    const int64_t n = CHUNK / (channels + 16);
    return n < 1 ? 1 : n;
}

static enum rt_status prepare_resize(struct rt_prep *p, void **state)
{
    const struct rt_shape *in = &p->in[0].shape, *out = &p->out[0].shape;
    const bool align = rt_attr_bool(p->node, "align_corners");
    const bool half =
        rt_attr(p->node, "half_pixel_centers") && rt_attr_bool(p->node, "half_pixel_centers");
    struct resize *z = rt_prep_alloc(p, sizeof *z);
    if (!z)
        return p->err->code;

    *z = (struct resize){.method = method_of(p->node),
                         .dtype = p->in[0].dtype,
                         .batch = in->dim[0],
                         .in_h = in->dim[1],
                         .in_w = in->dim[2],
                         .out_h = out->dim[1],
                         .out_w = out->dim[2],
                         .channels = in->dim[3],
                         .align = align,
                         .half = half};
    z->scale_h = kn_resize_scale(z->in_h, z->out_h, align);
    z->scale_w = kn_resize_scale(z->in_w, z->out_w, align);
    *state = z;
    /* The width of an empty output may be so large that `col` could not be allocated. */
    if (rt_count(out->rank, out->dim) <= 0)
        return RT_OK;
    const bool is_wide = z->out_w > MOST_TAPS, has_taps = z->method != AREA;
    if (has_taps && !is_wide) {
        z->col = rt_prep_alloc(p, (size_t)z->out_w * sizeof *z->col);
        if (!z->col)
            return p->err->code;
        for (int64_t i = 0; i < z->out_w; i++)
            fill_tap(z, &z->col[i], i, z->in_w, z->scale_w);
    }
    if (z->method != NEAREST) {
        if (z->dtype != RT_F32)
            p->scratch_bytes = padded(z->in_h * z->in_w * z->channels);
        z->line_at = p->scratch_bytes;
        p->scratch_bytes += padded(z->in_w * z->channels);
    }
    z->taps_at = p->scratch_bytes;
    if (has_taps && is_wide)
        p->scratch_bytes += (size_t)chunk_columns(z->channels) * sizeof(struct kn_tap);
    return RT_OK;
}

/* ---- run: chunks of a row ---- */

/* Contiguous elements of a row: either columns [from, to) with all channels, or channels [c_from,
 * c_to) of a single column. `tap` points to the taps of these columns. */
struct chunk {
    int64_t from, to, c_from, c_to;
    const struct kn_tap *tap;
};

static struct chunk before_first(int64_t channels)
{
    return (struct chunk){.c_to = channels};
}

static bool next_chunk(struct chunk *p, int64_t width, int64_t channels)
{
    if (p->c_to < channels) {
        p->c_from = p->c_to;
    } else {
        const int64_t n = chunk_columns(channels);
        p->from = p->to;
        p->to = n < width - p->from ? p->from + n : width;
        p->c_from = 0;
    }
    p->c_to = channels - p->c_from > CHUNK ? p->c_from + CHUNK : channels;
    return p->from < width;
}

static int64_t chunk_start(const struct chunk *p, int64_t channels)
{
    return p->from * channels + p->c_from;
}

static int64_t chunk_count(const struct chunk *p, int64_t channels)
{
    return p->c_to - p->c_from + (p->to - p->from - 1) * channels;
}

static void nearest(const struct resize *z, const struct kn_tap *r, const struct chunk *p,
                    const char *src, char *dst)
{
    const size_t size = rt_dtype_size(z->dtype), pixel = (size_t)z->channels * size;
    const size_t line = (size_t)z->in_w * pixel, n = (size_t)(p->c_to - p->c_from) * size;

    const char *from = src + (size_t)r->at[0] * line + (size_t)p->c_from * size;

    dst += (size_t)chunk_start(p, z->channels) * size;
    for (int64_t x = p->from; x < p->to; x++, dst += pixel)
        memcpy(dst, from + (size_t)p->tap[x - p->from].at[0] * pixel, n);
}

KN_CLONES static void blend(const float *tl, const float *tr, const float *bl, const float *br,
                            float fx, float fy, float *dst, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        const float top = tl[c] + (tr[c] - tl[c]) * fx;
        const float bottom = bl[c] + (br[c] - bl[c]) * fx;
        dst[c] = top + (bottom - top) * fy;
    }
}

static void bilinear(const struct resize *z, const struct kn_tap *r, int64_t y,
                     const struct chunk *p, const float *src, float *dst)
{
    const int64_t c = z->channels, line = z->in_w * c, start = chunk_start(p, c);

    dst += start;
    if (z->in_h == z->out_h && z->in_w == z->out_w) {
        memcpy(dst, src + y * line + start, (size_t)chunk_count(p, c) * sizeof *dst);
        return;
    }
    const float *top = src + r->at[0] * line + p->c_from;
    const float *bottom = src + r->at[1] * line + p->c_from;
    for (int64_t x = p->from; x < p->to; x++, dst += c) {
        const struct kn_tap *t = &p->tap[x - p->from];
        const int64_t left = t->at[0] * c, right = t->at[1] * c;
        blend(top + left, top + right, bottom + left, bottom + right, t->weight[0], r->weight[0],
              dst, p->c_to - p->c_from);
    }
}

/* The first pass of bicubic interpolation, which combines four rows of the image into one line. The
 * second pass, bicubic(), combines elements of this line. */
KN_CLONES static void bicubic_line(const struct resize *z, const struct kn_tap *r,
                                   const struct chunk *p, const float *src, float *line)
{
    const int64_t c = z->channels, n = z->in_w * c, start = chunk_start(p, c);
    const float *a = src + r->at[0] * n, *b = src + r->at[1] * n;
    const float *d = src + r->at[2] * n, *e = src + r->at[3] * n;

    for (int64_t i = start, end = start + chunk_count(p, c); i < end; i++)
        line[i] =
            a[i] * r->weight[0] + b[i] * r->weight[1] + d[i] * r->weight[2] + e[i] * r->weight[3];
}

KN_CLONES static void bicubic(const struct resize *z, const struct chunk *p, const float *line,
                              float *dst)
{
    const int64_t c = z->channels, n = p->c_to - p->c_from;

    dst += chunk_start(p, c);
    line += p->c_from;
    for (int64_t x = p->from; x < p->to; x++, dst += c) {
        const struct kn_tap *t = &p->tap[x - p->from];
        for (int64_t i = 0; i < n; i++)
            dst[i] = line[t->at[0] * c + i] * t->weight[0] + line[t->at[1] * c + i] * t->weight[1] +
                     line[t->at[2] * c + i] * t->weight[2] + line[t->at[3] * c + i] * t->weight[3];
    }
}

/* Returns the length of the overlap of pixel i, which covers [i, i + 1), with the range [from, to).
 * `scale` must be `to - from`. */
static float part(int64_t i, float from, float to, float scale)
{
    const float lo = (float)i, hi = (float)(i + 1);
    return lo < from ? (hi > to ? scale : hi - from) : hi > to ? to - lo : 1.0f;
}

/* A window of the source image, which spans rows [y0, y1) and columns [x0, x1). The pixels that
 * overlap the window are in rows [top, bottom) and columns [left, right). */
struct window {
    float y0, y1, x0, x1;
    int64_t top, bottom, left, right;
};

static struct window window_of_row(const struct resize *z, int64_t y)
{
    struct window w = {.y0 = (float)y * z->scale_h, .y1 = (float)(y + 1) * z->scale_h};
    w.top = rt_int64_of((double)floorf(w.y0));
    w.bottom = rt_int64_of((double)ceilf(w.y1));
    return w;
}

static inline void move_window(const struct resize *z, struct window *w, int64_t x)
{
    w->x0 = (float)x * z->scale_w;
    w->x1 = (float)(x + 1) * z->scale_w;
    w->left = rt_int64_of((double)floorf(w->x0));
    w->right = rt_int64_of((double)ceilf(w->x1));
}

KN_CLONES static void add_channels(const float *src, float weight, float *dst, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        dst[k] += src[k] * weight;
}

/* Adds the pixels of a window to the n values at dst, weighted by their areas. With few channels, a
 * plain loop is faster than a call of the vectorised function. */
static inline void add_window(const struct resize *z, const struct window *w, const float *src,
                              float *dst, int64_t n)
{
    const int64_t c = z->channels;
    const float whole = 1.0f / (z->scale_h * z->scale_w);

    for (int64_t i = w->top; i < w->bottom; i++) {
        const float wy = part(i, w->y0, w->y1, z->scale_h);
        const float *line = src + clamp(i, z->in_h - 1) * z->in_w * c;
        for (int64_t j = w->left; j < w->right; j++) {
            const float weight = wy * part(j, w->x0, w->x1, z->scale_w) * whole;
            const float *p = line + clamp(j, z->in_w - 1) * c;
            if (n > 16)
                add_channels(p, weight, dst, n);
            else
                for (int64_t k = 0; k < n; k++)
                    dst[k] += p[k] * weight;
        }
    }
}

static void area_columns(const struct resize *z, int64_t y, const struct chunk *p, const float *src,
                         float *dst)
{
    const int64_t n = p->c_to - p->c_from;
    struct window w = window_of_row(z, y);

    for (int64_t x = p->from; x < p->to; x++, dst += z->channels) {
        move_window(z, &w, x);
        for (int64_t k = 0; k < n; k++)
            dst[k] = 0;
        add_window(z, &w, src, dst, n);
    }
}

/* Computes a pixel whose window is too large for one chunk. The window is processed row by row, and
 * each row in segments of limited length. */
static enum rt_status area_pixel(struct rt_run *r, int64_t *left, const struct resize *z,
                                 const struct window *whole, const float *src, float *dst,
                                 int64_t n)
{
    const int64_t most = CHUNK / (n + 16) + 1;
    struct window w = *whole;

    memset(dst, 0, (size_t)n * sizeof *dst);
    for (w.top = whole->top; w.top < whole->bottom; w.top++) {
        w.bottom = w.top + 1;
        for (w.left = whole->left; w.left < whole->right; w.left += most) {
            w.right = whole->right - w.left < most ? whole->right : w.left + most;
            add_window(z, &w, src, dst, n);
            if (rt_run_spend(r, left, (w.right - w.left) * (n + 16)))
                return r->err->code;
        }
    }
    return RT_OK;
}

/* Computes a chunk of a row by area interpolation. A window may be as large as the image, so the
 * chunk is divided further according to the window size. */
static enum rt_status area(struct rt_run *r, int64_t *left, const struct resize *z, int64_t y,
                           const struct chunk *p, const float *src, float *dst)
{
    const int64_t c = z->channels, n = p->c_to - p->c_from;
    const int64_t lines = rt_int64_of((double)z->scale_h) + 2;
    const int64_t columns = rt_int64_of((double)z->scale_w) + 2;
    const int64_t work = rt_mul_saturated(rt_mul_saturated(lines, columns), n + 16);
    const int64_t some = work < CHUNK ? CHUNK / work : 1;
    struct window w = window_of_row(z, y);
    struct chunk q = *p;

    src += p->c_from;
    dst += p->c_from;
    for (q.from = p->from; q.from < p->to; q.from = q.to) {
        q.to = p->to - q.from < some ? p->to : q.from + some;
        move_window(z, &w, q.from);
        if (work >= CHUNK && area_pixel(r, left, z, &w, src, dst + q.from * c, n))
            return r->err->code;
        if (work < CHUNK)
            area_columns(z, y, &q, src, dst + q.from * c);
        if (rt_run_spend(r, left, work < CHUNK ? some * work : 0))
            return r->err->code;
    }
    return RT_OK;
}

/* Returns the taps of the columns of a chunk. Taps that were not prepared are computed in
 * `workspace`. */
static const struct kn_tap *taps_of(const struct resize *z, const struct chunk *p,
                                    struct kn_tap *workspace)
{
    if (z->col)
        return z->col + p->from;
    for (int64_t x = p->from; x < p->to; x++)
        fill_tap(z, &workspace[x - p->from], x, z->in_w, z->scale_w);
    return workspace;
}

static enum rt_status resize_row(struct rt_run *r, int64_t *left, const struct resize *z, int64_t y,
                                 const void *image, char *dst)
{
    const struct kn_tap t = row_tap(z, y);
    const int64_t c = z->channels;
    /* `workspace` is NULL if the method needs no scratch memory. */
    char *workspace = r->scratch;
    void *line = workspace ? workspace + z->line_at : NULL;
    void *taps = workspace ? workspace + z->taps_at : NULL;
    struct chunk p = before_first(c);

    while (z->method == BICUBIC && next_chunk(&p, z->in_w, c)) {
        bicubic_line(z, &t, &p, image, line);
        if (rt_run_spend(r, left, 4 * chunk_count(&p, c)))
            return r->err->code;
    }
    p = before_first(c);
    while (next_chunk(&p, z->out_w, c)) {
        if (z->method != AREA)
            p.tap = taps_of(z, &p, taps);
        if (z->method == NEAREST)
            nearest(z, &t, &p, image, dst);
        else if (z->method == BILINEAR)
            bilinear(z, &t, y, &p, image, (void *)dst);
        else if (z->method == BICUBIC)
            bicubic(z, &p, line, (void *)dst);
        else if (area(r, left, z, y, &p, image, (void *)dst))
            return r->err->code;
        if (rt_run_spend(r, left, 4 * (chunk_count(&p, c) + 16 * (p.to - p.from))))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status run_resize(struct rt_run *r)
{
    const struct resize *z = r->state;
    const int64_t n_in = z->in_h * z->in_w * z->channels;
    const size_t size = rt_dtype_size(z->dtype);
    const size_t row = (size_t)(z->out_w * z->channels) * (z->method == NEAREST ? size : 4);
    const char *src = r->in[0].data;
    char *dst = r->out[0].data;
    int64_t left = RT_WORK;

    if (!rt_tensor_count(&r->out[0]))
        return RT_OK;
    for (int64_t b = 0; b < z->batch; b++, src += (size_t)n_in * size) {
        const void *image = src;
        if (z->method != NEAREST && z->dtype != RT_F32) {
            if (kn_to_float_rows(r, z->dtype, src, n_in, r->scratch, 1, n_in))
                return r->err->code;
            image = r->scratch;
        }
        for (int64_t y = 0; y < z->out_h; y++, dst += row)
            if (resize_row(r, &left, z, y, image, dst))
                return r->err->code;
    }
    return RT_OK;
}

/* ---- CropAndResize: image, boxes [n, 4], box_ind [n], crop_size ---- */

static enum rt_status infer_crop(struct rt_infer *x)
{
    const struct rt_shape *im = &x->in[0].shape, *bx = &x->in[1].shape, *ix = &x->in[2].shape;
    struct rt_shape *o = &x->out[0].shape;
    int64_t size[2] = {-1, -1};

    if (im->rank >= 0 && im->rank != 4)
        return fail_shape(x->err, "input image must be 4-D", im);
    if (im->rank == 4 && (im->dim[1] == 0 || im->dim[2] == 0))
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "image dimensions must be positive");
    if (bx->rank >= 0 && bx->rank != 2)
        return fail_shape(x->err, "boxes must be 2-D, got: ", bx);
    if (ix->rank >= 0 && ix->rank != 1)
        return fail_shape(x->err, "box_indices must be rank 1 but is shape ", ix);
    *o = (struct rt_shape){.rank = 4, .dim = {-1, -1, -1, -1}};
    const enum rt_status fit = kn_image_match_boxes(bx, ix, &o->dim[0], x->err);
    if (fit)
        return fit;
    if (im->rank == 4)
        o->dim[3] = im->dim[3];
    if (!x->in[3].value)
        return RT_OK;
    const enum rt_status st =
        read_size(x->in[3].value, "crop_size", "crop dimensions must be positive", size, x->err);
    o->dim[1] = size[0];
    o->dim[2] = size[1];
    return st;
}

struct crop {
    int64_t h, w, channels; /* height, width and number of channels of the image */
    int64_t out_h, out_w;
    bool nearest;
    float outside;
};

static void fill(float *dst, int64_t n, float v)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = v;
}

/* Computes a chunk of one row of a crop. `y` is the row's position in the image. If `is_inside` is
 * false, fills the chunk with the extrapolation value. */
static void crop_chunk(const struct crop *s, const struct chunk *p, const float *image,
                       const float *box, float y, bool is_inside, float *dst)
{
    const int64_t c = s->channels, n = p->c_to - p->c_from;
    float x;

    dst += chunk_start(p, c);
    if (!is_inside) {
        fill(dst, chunk_count(p, c), s->outside);
        return;
    }
    image += p->c_from;
    const float *top = image + kn_crop_pixel(floorf(y), s->h) * s->w * c;
    const float *bottom = image + kn_crop_pixel(ceilf(y), s->h) * s->w * c;
    const float *middle = image + kn_crop_pixel(roundf(y), s->h) * s->w * c;
    for (int64_t j = p->from; j < p->to; j++, dst += c) {
        if (!kn_crop_at(box[1], box[3], s->w, s->out_w, j, &x)) {
            fill(dst, n, s->outside);
            continue;
        }
        if (s->nearest) {
            memcpy(dst, middle + kn_crop_pixel(roundf(x), s->w) * c, (size_t)n * sizeof *dst);
            continue;
        }
        const int64_t left = kn_crop_pixel(floorf(x), s->w) * c;
        const int64_t right = kn_crop_pixel(ceilf(x), s->w) * c;
        blend(top + left, top + right, bottom + left, bottom + right, x - floorf(x), y - floorf(y),
              dst, n);
    }
}

static enum rt_status crop_box(struct rt_run *r, int64_t *left, const struct crop *s,
                               const float *image, const float *box, float *dst)
{
    const int64_t c = s->channels;
    float y;

    for (int64_t i = 0; i < s->out_h; i++, dst += s->out_w * c) {
        const bool is_inside = kn_crop_at(box[0], box[2], s->h, s->out_h, i, &y);
        struct chunk p = before_first(c);
        while (next_chunk(&p, s->out_w, c)) {
            crop_chunk(s, &p, image, box, y, is_inside, dst);
            if (rt_run_spend(r, left, 4 * (chunk_count(&p, c) + 16 * (p.to - p.from))))
                return r->err->code;
        }
    }
    return RT_OK;
}

static enum rt_status prepare_crop(struct rt_prep *p, void **state)
{
    const struct rt_shape *s = &p->in[0].shape;
    (void)state;
    if (p->in[0].dtype != RT_F32)
        p->scratch_bytes = (size_t)rt_count(s->rank, s->dim) * sizeof(float);
    return RT_OK;
}

static enum rt_status run_crop(struct rt_run *r)
{
    const struct rt_tensor *im = &r->in[0], *o = &r->out[0];
    const struct crop s = {.h = im->dim[1],
                           .w = im->dim[2],
                           .channels = im->dim[3],
                           .out_h = o->dim[1],
                           .out_w = o->dim[2],
                           .nearest = rt_span_is(rt_attr_str(r->node, "method"), "nearest"),
                           .outside = rt_attr_float(r->node, "extrapolation_value")};
    const int64_t n = o->dim[0], picture = s.h * s.w * s.channels;
    const float *boxes = r->in[1].data, *image = im->data;
    const int32_t *index = r->in[2].data;

    for (int64_t i = 0; i < n; i++) {
        if (rt_run_tick(r, i))
            return r->err->code;
        if (index[i] < 0 || index[i] >= im->dim[0])
            return rt_fail(r->err, RT_OUT_OF_RANGE, "box_index has values outside [0, batch_size)");
    }
    for (int64_t i = 0; i < 4 * n; i++) {
        if (rt_run_tick(r, i))
            return r->err->code;
        if (!isfinite(boxes[i]))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Boxes contains at least one element that is not finite");
    }
    if (!rt_tensor_count(o))
        return RT_OK;
    if (im->dtype != RT_F32) {
        const int64_t all = rt_tensor_count(im);
        if (kn_to_float_rows(r, (enum rt_dtype)im->dtype, im->data, all, r->scratch, 1, all))
            return r->err->code;
        image = r->scratch;
    }
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;
    for (int64_t i = 0; i < n && !st; i++)
        st = crop_box(r, &left, &s, image + index[i] * picture, boxes + 4 * i,
                      (float *)o->data + i * s.out_h * s.out_w * s.channels);
    return st;
}

/* ---- registry entries ---- */

#define RESIZE(symbol, op_, name_)                                                                 \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = op_,                                                                        \
               .shape_in = 2,                                                                      \
               .check = check_resize,                                                              \
               .infer = kn_resize_infer,                                                           \
               .rows = rows_resize},                                                               \
        .kernels = KN_CPU(op_, name_, KN_SET(KN_REALS), prepare_resize, run_resize),               \
    }
RESIZE(resize_area, "ResizeArea", "resize_area");
RESIZE(resize_bicubic, "ResizeBicubic", "resize_bicubic");
RESIZE(resize_bilinear, "ResizeBilinear", "resize_bilinear");
RESIZE(resize_nearest_neighbor, "ResizeNearestNeighbor", "resize_nearest");

const struct kn_entry kn_crop_and_resize = {
    .op = {.name = "CropAndResize", .shape_in = 8, .infer = infer_crop},
    .kernels = KN_CPU("CropAndResize", "crop_and_resize", KN_SET(KN_REALS), prepare_crop, run_crop),
};
