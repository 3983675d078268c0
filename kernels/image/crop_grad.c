/*
 * The gradients of CropAndResize. CropAndResizeGradImage adds each element of the gradient, with
 * the weights of the interpolation, to the pixels of the image from which the element was computed.
 * CropAndResizeGradBoxes computes how the crops change when an edge of a box moves.
 */
#include <math.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/image/image.h"
#include "kernels/image/resize_taps.h"

/* The gradient is [boxes, out_h, out_w, channels], and the images are [batch, h, w, channels]. */
struct crops {
    int64_t n, out_h, out_w, batch, h, w, channels;
    bool nearest;
};

/* Checks the shapes of the gradient, the boxes and their indices, which are inputs 0, `boxes` and
 * `boxes` + 1. */
static enum rt_status check_inputs(struct rt_infer *x, int boxes, int64_t *n)
{
    const struct rt_shape *grads = &x->in[0].shape, *b = &x->in[boxes].shape;
    const struct rt_shape *index = &x->in[boxes + 1].shape;

    if (kn_image_rank_differs(b, 2))
        return kn_image_fail_shape(x->err, "boxes must be 2-D", b);
    if (kn_image_rank_differs(index, 1))
        return kn_image_fail_shape(x->err, "box_index must be 1-D", index);
    if (kn_image_match_boxes(b, index, n, x->err))
        return x->err->code;
    if (grads->rank == 4 && *n >= 0 && grads->dim[0] >= 0 && grads->dim[0] != *n)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "boxes and grads have incompatible shape");
    return RT_OK;
}

static enum rt_status check_grads(struct rt_infer *x)
{
    const struct rt_shape *grads = &x->in[0].shape;

    if (kn_image_rank_differs(grads, 4))
        return kn_image_fail_shape(x->err, "grads image must be 4-D", grads);
    if (grads->rank == 4 && (grads->dim[1] == 0 || grads->dim[2] == 0))
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "grads dimensions must be positive");
    return RT_OK;
}

static enum rt_status infer_image(struct rt_infer *x)
{
    const struct rt_shape *grads = &x->in[0].shape, *size = &x->in[3].shape;
    struct rt_shape *o = &x->out[0].shape;
    int64_t n;

    *o = kn_image_unknown(4);
    if (check_grads(x) || check_inputs(x, 1, &n))
        return x->err->code;
    if (kn_image_rank_differs(size, 1))
        return kn_image_fail_shape(x->err, "image_size must be 1-D", size);
    if (size->rank == 1 && size->dim[0] >= 0 && size->dim[0] != 4)
        return kn_image_fail_shape(x->err, "image_size must have 4 elements", size);
    if (!x->in[3].value)
        return RT_OK;
    for (int d = 0; d < 4; d++)
        o->dim[d] = ((const int32_t *)x->in[3].value->data)[d];
    if (o->dim[1] <= 0 || o->dim[2] <= 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "image dimensions must be positive");
    if (grads->rank == 4 && grads->dim[3] >= 0 && grads->dim[3] != o->dim[3])
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "image_size and grads are incompatible");
    if (o->dim[0] < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Expected a non-negative size, got %lld",
                       (long long)o->dim[0]);
    return RT_OK;
}

static enum rt_status infer_boxes(struct rt_infer *x)
{
    const struct rt_shape *grads = &x->in[0].shape, *image = &x->in[1].shape;
    struct rt_shape *o = &x->out[0].shape;
    int64_t n;

    *o = (struct rt_shape){.rank = 2, .dim = {-1, 4}};
    if (check_grads(x))
        return x->err->code;
    if (kn_image_rank_differs(image, 4))
        return kn_image_fail_shape(x->err, "input image must be 4-D", image);
    if (image->rank == 4 && (image->dim[1] == 0 || image->dim[2] == 0))
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "image dimensions must be positive");
    if (image->rank == 4 && grads->rank == 4 && image->dim[3] >= 0 && grads->dim[3] >= 0 &&
        image->dim[3] != grads->dim[3])
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "image, grads depth differ");
    if (check_inputs(x, 2, &n))
        return x->err->code;
    o->dim[0] = n;
    return RT_OK;
}

static struct crops crops_of(const struct rt_run *r, const struct rt_tensor *image)
{
    const struct rt_tensor *grads = &r->in[0];

    return (struct crops){.n = grads->dim[0],
                          .out_h = grads->dim[1],
                          .out_w = grads->dim[2],
                          .batch = image->dim[0],
                          .h = image->dim[1],
                          .w = image->dim[2],
                          .channels = grads->dim[3],
                          .nearest = rt_span_is(rt_attr_str(r->node, "method"), "nearest")};
}

static enum rt_status check_indices(struct rt_run *r, const struct crops *c, int input)
{
    const int32_t *index = r->in[input].data;

    for (int64_t i = 0; i < c->n; i++) {
        if (index[i] < 0 || index[i] >= c->batch)
            return rt_fail(r->err, RT_OUT_OF_RANGE, "box_index has values outside [0, batch_size)");
        if (rt_run_spend(r, &r->left, 1))
            return r->err->code;
    }
    return RT_OK;
}

/* The four pixels around a position of the image, as offsets of their first channels, and how far
 * the position lies from the top and from the left pixels. With method "nearest", `top_left` is the
 * nearest pixel. */
struct corners {
    int64_t top_left, top_right, bottom_left, bottom_right;
    float down, right;
};

static struct corners corners_of(const struct crops *c, int64_t image, float y, float x)
{
    const int64_t rows = image * c->h;
    const int64_t top = rows + kn_crop_pixel(c->nearest ? roundf(y) : floorf(y), c->h);
    const int64_t bottom = rows + kn_crop_pixel(ceilf(y), c->h);
    const int64_t left = kn_crop_pixel(c->nearest ? roundf(x) : floorf(x), c->w);
    const int64_t right = kn_crop_pixel(ceilf(x), c->w);

    return (struct corners){.top_left = (top * c->w + left) * c->channels,
                            .top_right = (top * c->w + right) * c->channels,
                            .bottom_left = (bottom * c->w + left) * c->channels,
                            .bottom_right = (bottom * c->w + right) * c->channels,
                            .down = y - floorf(y),
                            .right = x - floorf(x)};
}

/* ---- the gradient of the image ---- */

typedef void spread_fn(void *image, const struct corners *k, bool nearest, const float *grad,
                       int64_t n);

#define ADD_AT(dt, p, v) (*(p) = KN_PUT(dt, KN_GET(dt, *(p)) + KN_ROUND(dt, (v))))
#define SPREAD(dt, T)                                                                              \
    static void spread_##dt(void *image, const struct corners *k, bool nearest, const float *grad, \
                            int64_t n)                                                             \
    {                                                                                              \
        T *const y = image;                                                                        \
        for (int64_t d = 0; d < n; d++) {                                                          \
            if (nearest) {                                                                         \
                ADD_AT(dt, y + k->top_left + d, grad[d]);                                          \
                continue;                                                                          \
            }                                                                                      \
            const float top = (1 - k->down) * grad[d], bottom = k->down * grad[d];                 \
            ADD_AT(dt, y + k->top_left + d, (1 - k->right) * top);                                 \
            ADD_AT(dt, y + k->top_right + d, k->right * top);                                      \
            ADD_AT(dt, y + k->bottom_left + d, (1 - k->right) * bottom);                           \
            ADD_AT(dt, y + k->bottom_right + d, k->right * bottom);                                \
        }                                                                                          \
    }
KN_FLOATS(SPREAD)
SPREAD(RT_F16, struct kn_half)

static enum rt_status clear(struct rt_run *r)
{
    char *y = r->out[0].data;
    const size_t n = rt_tensor_bytes(&r->out[0]), most = 1 << 20;

    for (size_t i = 0; i < n; i += most) {
        const size_t some = n - i < most ? n - i : most;
        memset(y + i, 0, some);
        if (rt_run_spend(r, &r->left, (int64_t)some / 8))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status run_image(struct rt_run *r)
{
    const struct crops c = crops_of(r, &r->out[0]);
    spread_fn *const spread = r->out[0].dtype == RT_F32   ? spread_RT_F32
                              : r->out[0].dtype == RT_F64 ? spread_RT_F64
                                                          : spread_RT_F16;
    const float *grad = r->in[0].data, *box = r->in[1].data;
    const int32_t *index = r->in[2].data;
    float y, x;

    if (check_indices(r, &c, 2) || clear(r))
        return r->err->code;
    if (rt_tensor_count(&r->out[0]) == 0)
        return RT_OK;
    for (int64_t b = 0; b < c.n; b++, box += 4)
        for (int64_t i = 0; i < c.out_h; i++) {
            const bool inside = kn_crop_at(box[0], box[2], c.h, c.out_h, i, &y);
            for (int64_t j = 0; j < c.out_w; j++, grad += c.channels) {
                if (inside && kn_crop_at(box[1], box[3], c.w, c.out_w, j, &x)) {
                    const struct corners k = corners_of(&c, index[b], y, x);
                    spread(r->out[0].data, &k, c.nearest, grad, c.channels);
                }
                if (rt_run_spend(r, &r->left, 8 * c.channels + 32))
                    return r->err->code;
            }
        }
    return RT_OK;
}

/* ---- the gradient of the boxes ---- */

/* Sets *dy and *dx to the change of all channels when the position moves down or right. */
typedef void slope_fn(const void *image, const struct corners *k, const float *grad, int64_t n,
                      float *dy, float *dx);

#define SLOPE(dt, T)                                                                               \
    static void slope_##dt(const void *image, const struct corners *k, const float *grad,          \
                           int64_t n, float *dy, float *dx)                                        \
    {                                                                                              \
        const T *const im = image;                                                                 \
        for (int64_t d = 0; d < n; d++) {                                                          \
            const float tl = (float)KN_GET(dt, im[k->top_left + d]);                               \
            const float tr = (float)KN_GET(dt, im[k->top_right + d]);                              \
            const float bl = (float)KN_GET(dt, im[k->bottom_left + d]);                            \
            const float br = (float)KN_GET(dt, im[k->bottom_right + d]);                           \
            *dy += grad[d] * ((1 - k->right) * (bl - tl) + k->right * (br - tr));                  \
            *dx += grad[d] * ((1 - k->down) * (tr - tl) + k->down * (br - bl));                    \
        }                                                                                          \
    }
KN_REALS(SLOPE)
#define SLOPE_ROW(dt, T) [dt] = slope_##dt,
static slope_fn *const slopes[RT_N_DTYPES] = {KN_REALS(SLOPE_ROW)};

/* Adds the slope at pixel i of a crop to both edges of its box along one axis. */
static void add_edges(float *first, float *last, float slope, int64_t in, int64_t out, int64_t i)
{
    const float ratio = out > 1 ? (float)(in - 1) / (float)(out - 1) : 0;

    if (out > 1) {
        *first += slope * ((float)(in - 1) - (float)i * ratio);
        *last += slope * ((float)i * ratio);
    } else {
        *first += slope * 0.5f * (float)(in - 1);
        *last += slope * 0.5f * (float)(in - 1);
    }
}

static enum rt_status run_boxes(struct rt_run *r)
{
    const struct crops c = crops_of(r, &r->in[1]);
    const float *grad = r->in[0].data, *box = r->in[2].data;
    const int32_t *index = r->in[3].data;
    float *out = r->out[0].data, y, x;

    if (check_indices(r, &c, 3))
        return r->err->code;
    memset(out, 0, rt_tensor_bytes(&r->out[0]));
    for (int64_t b = 0; b < c.n; b++, box += 4, out += 4)
        for (int64_t i = 0; i < c.out_h; i++) {
            const bool inside = kn_crop_at(box[0], box[2], c.h, c.out_h, i, &y);
            for (int64_t j = 0; j < c.out_w; j++, grad += c.channels) {
                float dy = 0, dx = 0;
                if (inside && kn_crop_at(box[1], box[3], c.w, c.out_w, j, &x)) {
                    const struct corners k = corners_of(&c, index[b], y, x);
                    slopes[r->in[1].dtype](r->in[1].data, &k, grad, c.channels, &dy, &dx);
                    add_edges(&out[0], &out[2], dy, c.h, c.out_h, i);
                    add_edges(&out[1], &out[3], dx, c.w, c.out_w, j);
                }
                if (rt_run_spend(r, &r->left, 8 * c.channels + 32))
                    return r->err->code;
            }
        }
    return RT_OK;
}

/* ---- registry entries ---- */

const struct kn_entry kn_crop_and_resize_grad_image = {
    .op = {.name = "CropAndResizeGradImage", .shape_in = 8, .infer = infer_image},
    .kernels = KN_CPU("CropAndResizeGradImage", "crop_grad_image",
                      RT_T(RT_F16) | RT_T(RT_F32) | RT_T(RT_F64), NULL, run_image),
};
const struct kn_entry kn_crop_and_resize_grad_boxes = {
    .op = {.name = "CropAndResizeGradBoxes", .infer = infer_boxes},
    .kernels =
        KN_CPU("CropAndResizeGradBoxes", "crop_grad_boxes", KN_SET(KN_REALS), NULL, run_boxes),
};
