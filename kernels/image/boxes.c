/*
 * DrawBoundingBoxes and DrawBoundingBoxesV2 draw the outlines of boxes on images. The input of
 * boxes has the shape [batch, boxes, 4]. A box consists of its top, left, bottom and right edges,
 * as fractions of the image's height or width. Parts outside the image are not drawn.
 */
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/image/image.h"
#include "kernels/math/elementwise.h"
#include "runtime/base/checked.h"

enum { MOST_CHANNELS = 4, SIDES = 4, LINE = 1 << 14, BYTES = 1 << 22 };

/* The colours that DrawBoundingBoxes gives to successive boxes: yellow, blue, red, lime, purple,
 * olive, maroon, navy, aqua and fuchsia. */
static const float palette[][MOST_CHANNELS] = {
    {1, 1, 0, 1},       {0, 0, 1, 1},    {1, 0, 0, 1},    {0, 1, 0, 1}, {0.5f, 0, 0.5f, 1},
    {0.5f, 0.5f, 0, 1}, {0.5f, 0, 0, 1}, {0, 0, 0.5f, 1}, {0, 1, 1, 1}, {1, 0, 1, 1},
};
enum { N_COLORS = sizeof palette / sizeof *palette };

static enum rt_status infer_boxes(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape, *boxes = &x->in[1].shape;

    if (kn_image_rank_differs(in, 4))
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "The rank of the images should be 4");
    if (kn_image_rank_differs(boxes, 3))
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "The rank of the boxes tensor should be 3");
    if (boxes->rank == 3 && boxes->dim[2] >= 0 && boxes->dim[2] != SIDES)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "The size of the third dimension of the box must be 4. Received: %lld",
                       (long long)boxes->dim[2]);
    if (in->rank == 4 && boxes->rank == 3 && in->dim[0] >= 0 && boxes->dim[0] >= 0 &&
        in->dim[0] != boxes->dim[0])
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "The batch sizes should be the same");
    const int64_t channels = in->rank == 4 ? in->dim[3] : -1;
    if (channels >= 0 && channels != 1 && channels != 3 && channels != 4)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)");
    if (x->n_in > 2) {
        const struct rt_shape *colors = &x->in[2].shape;
        if (kn_image_rank_differs(colors, 2))
            return kn_image_fail_shape(x->err, "colors must be a 2-D matrix", colors);
        if (colors->rank == 2 && colors->dim[1] >= 0 && colors->dim[1] < channels)
            return kn_image_fail_shape(
                x->err,
                "colors must have equal or more channels than the image provided: ", colors);
    }
    return kn_infer_same(x);
}

/* Each image has boxes of its own, and all images share the colours. */
static void rows_boxes(struct rt_rows *r)
{
    for (int k = 0; k < 2; k++)
        if (r->in_dep[k].kind != RT_DEP_ROWS || r->in_dep[k].axis != 0)
            return;
    if (r->n_in == 2 || r->in_dep[2].kind == RT_DEP_NONE)
        r->out_dep[0] = r->in_dep[0];
}

struct canvas {
    char *pixels;
    int64_t h, w;
    size_t pixel; /* size of a pixel, in bytes */
    union {
        float f32[MOST_CHANNELS];
        struct kn_half f16[MOST_CHANNELS];
    } color;
};

static void set_color(struct canvas *c, enum rt_dtype dtype, const float *color, int64_t channels)
{
    for (int64_t k = 0; k < channels; k++)
        if (dtype == RT_F32)
            c->color.f32[k] = color[k];
        else
            c->color.f16[k] = kn_to_f16(color[k]);
}

/* Draws n pixels that are `step` pixels apart. */
static enum rt_status draw_line(struct rt_run *r, int64_t *left, struct canvas *c, int64_t y,
                                int64_t x, int64_t n, int64_t step)
{
    char *at = c->pixels + (size_t)(y * c->w + x) * c->pixel;

    for (int64_t i = 0; i < n; i++, at += (size_t)step * c->pixel) {
        memcpy(at, &c->color, c->pixel);
        if (i % LINE == LINE - 1 && rt_run_spend(r, left, 8 * LINE))
            return r->err->code;
    }
    return rt_run_spend(r, left, 8 * (n % LINE));
}

/* Draws a box of pixels [y0, y1] x [x0, x1]. */
static enum rt_status draw_box(struct rt_run *r, int64_t *left, struct canvas *c, const float *box)
{
    const float last_y = (float)(c->h - 1), last_x = (float)(c->w - 1);
    const int64_t y0 = rt_int64_of((double)(box[0] * last_y));
    const int64_t x0 = rt_int64_of((double)(box[1] * last_x));
    const int64_t y1 = rt_int64_of((double)(box[2] * last_y));
    const int64_t x1 = rt_int64_of((double)(box[3] * last_x));

    if (y0 > y1 || x0 > x1 || y0 >= c->h || y1 < 0 || x0 >= c->w || x1 < 0)
        return rt_run_spend(r, left, 16);
    const int64_t top = y0 < 0 ? 0 : y0, bottom = y1 < c->h ? y1 : c->h - 1;
    const int64_t first = x0 < 0 ? 0 : x0, last = x1 < c->w ? x1 : c->w - 1;
    const int64_t rows = bottom - top + 1, columns = last - first + 1;
    if ((y0 >= 0 && draw_line(r, left, c, y0, first, columns, 1)) ||
        (y1 < c->h && draw_line(r, left, c, y1, first, columns, 1)) ||
        (x0 >= 0 && draw_line(r, left, c, top, x0, rows, c->w)) ||
        (x1 < c->w && draw_line(r, left, c, top, x1, rows, c->w)))
        return r->err->code;
    return RT_OK;
}

static enum rt_status copy_images(struct rt_run *r, int64_t *left)
{
    const size_t n = rt_tensor_bytes(&r->out[0]);

    if (r->out[0].data == r->in[0].data)
        return RT_OK;
    for (size_t i = 0; i < n; i += BYTES) {
        const size_t some = n - i < BYTES ? n - i : BYTES;
        memcpy((char *)r->out[0].data + i, (const char *)r->in[0].data + i, some);
        if (rt_run_spend(r, left, (int64_t)some / 4))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status run_boxes(struct rt_run *r)
{
    const struct rt_tensor *o = &r->out[0];
    const bool has_colors = r->n_in > 2 && r->in[2].dim[0] > 0;
    const int64_t n = r->in[1].dim[1], channels = o->dim[3];
    const float *box = r->in[1].data;
    struct canvas c = {.pixels = o->data,
                       .h = o->dim[1],
                       .w = o->dim[2],
                       .pixel = (size_t)channels * rt_dtype_size((enum rt_dtype)o->dtype)};
    int64_t left = RT_WORK;

    if (!rt_tensor_count(o))
        return RT_OK;
    if (copy_images(r, &left))
        return r->err->code;
    for (int64_t b = 0; b < o->dim[0]; b++, c.pixels += (size_t)(c.h * c.w) * c.pixel)
        for (int64_t i = 0; i < n; i++, box += SIDES) {
            const float *color = palette[i % N_COLORS];
            if (has_colors)
                color = (const float *)r->in[2].data + i % r->in[2].dim[0] * r->in[2].dim[1];
            /* In gray images, the outlines of DrawBoundingBoxes are white. */
            set_color(&c, (enum rt_dtype)o->dtype,
                      !has_colors && channels == 1 ? palette[0] : color, channels);
            if (draw_box(r, &left, &c, box))
                return r->err->code;
        }
    return RT_OK;
}

#define BOXES(symbol, op_, name_)                                                                  \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = op_, .infer = infer_boxes, .rows = rows_boxes},                             \
        .kernels = KN_CPU(op_, name_, RT_T(RT_F32) | RT_T(RT_F16), NULL, run_boxes),               \
    }
BOXES(draw_bounding_boxes, "DrawBoundingBoxes", "draw_boxes");
BOXES(draw_bounding_boxes_v2, "DrawBoundingBoxesV2", "draw_boxes_v2");
