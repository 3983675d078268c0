/*
 * The gradients of ops that resize images. ResizeNearestNeighborGrad adds each element of the
 * gradient to the input pixel that ResizeNearestNeighbor copied. ResizeBilinearGrad and
 * ResizeBicubicGrad add each element, multiplied by weights, to all input pixels from which the
 * resized pixel was computed. Coordinates are computed in float, in TensorFlow's order of
 * operations.
 */
#include <math.h>
#include <string.h>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/image/image.h"
#include "kernels/image/resize_taps.h"
#include "runtime/base/checked.h"

enum { CHUNK = RT_WORK / 64 };

static enum rt_status infer_nearest_grad(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape, *size = &x->in[1].shape;
    struct rt_shape *o = &x->out[0].shape;

    if (kn_image_rank_differs(in, 4))
        return kn_image_fail_shape(x->err, "input must be 4-dimensional", in);
    if (kn_image_rank_differs(size, 1))
        return kn_image_fail_shape(x->err, "shape_t must be 1-dimensional", size);
    if (size->rank == 1 && size->dim[0] >= 0 && size->dim[0] != 2)
        return kn_image_fail_shape(x->err, "shape_t must have two elements", size);
    *o = kn_image_unknown(4);
    if (in->rank == 4) {
        o->dim[0] = in->dim[0];
        o->dim[3] = in->dim[3];
    }
    for (int i = 0; i < 2 && x->in[1].value; i++) {
        o->dim[1 + i] = ((const int32_t *)x->in[1].value->data)[i];
        if (o->dim[1 + i] <= 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "shape_t's elements must be positive");
    }
    return RT_OK;
}

/* One axis of the images: the gradient has `in` pixels, and the output has `out` pixels. */
struct axis {
    int64_t in, out;
    float scale;
    bool align, half;
};

static struct axis axis_of(const struct rt_node *n, int64_t in, int64_t out)
{
    const bool align = rt_attr_bool(n, "align_corners");
    const float scale =
        align && in > 1 ? (float)(out - 1) / (float)(in - 1) : (float)out / (float)in;
    return (struct axis){in, out, scale, align, rt_attr_bool(n, "half_pixel_centers")};
}

/* Returns the pixel of the output to which pixel i of the gradient is added. */
static int64_t target(const struct axis *a, int64_t i)
{
    const float at = a->half ? ((float)i + 0.5f) * a->scale : (float)i * a->scale;
    const int64_t k = rt_int64_of((double)(a->align ? roundf(at) : floorf(at)));
    return k < 0 ? 0 : k < a->out ? k : a->out - 1;
}

typedef void add_fn(void *dst, const void *src, int64_t n);

#define ADD(dt, T)                                                                                 \
    static void add_##dt(void *dst, const void *src, int64_t n)                                    \
    {                                                                                              \
        const T *x = src;                                                                          \
        T *y = dst;                                                                                \
        for (int64_t k = 0; k < n; k++)                                                            \
            y[k] = KN_PUT(dt, (KN_U(dt))KN_GET(dt, y[k]) + (KN_U(dt))KN_GET(dt, x[k]));            \
    }
KN_REALS(ADD)

#define ROW(dt, T) [dt] = add_##dt,
static add_fn *const adds[RT_N_DTYPES] = {KN_REALS(ROW)};

static enum rt_status clear(struct rt_run *r, int64_t *left)
{
    const int64_t n = (int64_t)rt_tensor_bytes(&r->out[0]), most = 64 * CHUNK;

    for (int64_t i = 0; i < n; i += most) {
        const int64_t some = kn_min_i64(n - i, most);
        memset((char *)r->out[0].data + i, 0, (size_t)some);
        if (rt_run_spend(r, left, some / 4))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status run_nearest_grad(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[0], *o = &r->out[0];
    const struct axis h = axis_of(r->node, in->dim[1], o->dim[1]);
    const struct axis w = axis_of(r->node, in->dim[2], o->dim[2]);
    const int64_t channels = in->dim[3], size = (int64_t)rt_dtype_size((enum rt_dtype)in->dtype);
    add_fn *const add = adds[in->dtype];
    const char *src = in->data;
    int64_t left = RT_WORK;

    if (!rt_tensor_count(o))
        return RT_OK;
    if (clear(r, &left))
        return r->err->code;
    if (!rt_tensor_count(in)) /* an empty `in` may have a huge dimension */
        return RT_OK;
    for (int64_t b = 0; b < in->dim[0]; b++)
        for (int64_t y = 0; y < h.in; y++) {
            const int64_t line = (b * h.out + target(&h, y)) * w.out;
            for (int64_t x = 0; x < w.in; x++) {
                char *dst = (char *)o->data + (line + target(&w, x)) * channels * size;
                for (int64_t c = 0, n; c < channels; c += n, src += n * size) {
                    n = kn_min_i64(channels - c, CHUNK);
                    add(dst + c * size, src, n);
                    if (rt_run_spend(r, &left, 4 * n + 32))
                        return r->err->code;
                }
            }
        }
    return RT_OK;
}

const struct kn_entry kn_resize_nearest_neighbor_grad = {
    .op = {.name = "ResizeNearestNeighborGrad",
           .shape_in = 2,
           .infer = infer_nearest_grad,
           .rows = rt_rows_first},
    .kernels = KN_CPU("ResizeNearestNeighborGrad", "resize_nearest_grad", KN_SET(KN_REALS), NULL,
                      run_nearest_grad),
};

/* ---- interpolation ---- */

static bool is_bicubic(const struct rt_node *n)
{
    return strcmp(n->schema->name, "ResizeBicubicGrad") == 0;
}

static enum rt_status infer_smooth_grad(struct rt_infer *x)
{
    const struct rt_shape *back = &x->in[0].shape, *image = &x->in[1].shape;
    struct rt_shape *o = &x->out[0].shape;

    *o = kn_image_unknown(4);
    if (rt_attr_bool(x->node, "half_pixel_centers") && rt_attr_bool(x->node, "align_corners"))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "If half_pixel_centers is True, align_corners must be False.");
    if (kn_image_rank_differs(back, 4))
        return kn_image_fail_shape(x->err, "input_grad must be 4-dimensional", back);
    if (kn_image_rank_differs(image, 4))
        return kn_image_fail_shape(x->err, "original_image must be 4-dimensional", image);
    if (back->rank == 4 && (back->dim[1] == 0 || back->dim[2] == 0))
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "resized dimensions must be positive");
    if (image->rank == 4 && (image->dim[1] == 0 || image->dim[2] == 0))
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "original dimensions must be positive");
    for (int i = 0; i < 4; i++) {
        const struct rt_shape *from = i == 1 || i == 2 ? image : back;
        if (from->rank == 4)
            o->dim[i] = from->dim[i];
    }
    return RT_OK;
}

/* Only the height and width of the original images matter. */
static void rows_smooth_grad(struct rt_rows *r)
{
    const struct rt_dep *image = &r->in_dep[1];

    if (r->in_dep[0].kind == RT_DEP_ROWS && r->in_dep[0].axis == 0 &&
        (image->kind == RT_DEP_NONE || (image->kind == RT_DEP_ROWS && image->axis == 0)))
        r->out_dep[0] = r->in_dep[0];
}

typedef void add_scaled_fn(void *dst, const float *src, float weight, int64_t n);

#define ADD_SCALED(dt, T)                                                                          \
    static void add_scaled_##dt(void *dst, const float *src, float weight, int64_t n)              \
    {                                                                                              \
        T *y = dst;                                                                                \
        for (int64_t k = 0; k < n; k++)                                                            \
            y[k] = KN_PUT(dt, KN_GET(dt, y[k]) + KN_ROUND(dt, src[k] * weight));                   \
    }
KN_FLOATS(ADD_SCALED)
KN_HALFS(ADD_SCALED)

#define SCALED_ROW(dt, T) [dt] = add_scaled_##dt,
static add_scaled_fn *const add_scaled[RT_N_DTYPES] = {KN_FLOATS(SCALED_ROW) KN_HALFS(SCALED_ROW)};

/* One axis of the images: the original has `in` pixels, and the gradient has `out` pixels. */
struct smooth_axis {
    int64_t in, out;
    float scale;
    bool bicubic, half;
};

static struct smooth_axis smooth_axis_of(const struct rt_node *n, int64_t in, int64_t out)
{
    const float scale = rt_attr_bool(n, "align_corners") && out > 1
                            ? (float)(in - 1) / (float)(out - 1)
                            : (float)in / (float)out;
    return (struct smooth_axis){in, out, scale, is_bicubic(n),
                                rt_attr_bool(n, "half_pixel_centers")};
}

/* Sets the positions and the weights for pixel i of the gradient, and returns their number. */
static int smooth_taps(const struct smooth_axis *a, int64_t i, struct kn_tap *t)
{
    if (a->bicubic) {
        kn_tap_bicubic(t, i, a->in, a->scale, a->half);
        return 4;
    }
    kn_tap_bilinear(t, i, a->in, a->scale, a->half);
    t->weight[1] = t->weight[0];
    t->weight[0] = 1 - t->weight[1];
    return 2;
}

/* Adds n channels of one pixel of the gradient, weighted, to one image. */
static void spread(add_scaled_fn *add, const struct kn_tap *y, const struct kn_tap *x, int taps,
                   char *image, int64_t line, int64_t pixel, const float *src, int64_t n)
{
    for (int i = 0; i < taps; i++)
        for (int j = 0; j < taps; j++)
            add(image + y->at[i] * line + x->at[j] * pixel, src, y->weight[i] * x->weight[j], n);
}

static enum rt_status run_smooth_grad(struct rt_run *r)
{
    const struct rt_tensor *back = &r->in[0], *o = &r->out[0];
    const struct smooth_axis h = smooth_axis_of(r->node, o->dim[1], back->dim[1]);
    const struct smooth_axis w = smooth_axis_of(r->node, o->dim[2], back->dim[2]);
    const int64_t channels = back->dim[3], size = (int64_t)rt_dtype_size((enum rt_dtype)o->dtype);
    const int64_t pixel = channels * size, line = w.in * pixel;
    const float *src = back->data;
    char *image = o->data;
    int64_t left = RT_WORK;
    struct kn_tap ty, tx;

    if (!rt_tensor_count(o))
        return RT_OK;
    if (clear(r, &left))
        return r->err->code;
    for (int64_t b = 0; b < back->dim[0]; b++, image += h.in * line)
        for (int64_t y = 0; y < h.out; y++) {
            smooth_taps(&h, y, &ty);
            for (int64_t x = 0; x < w.out; x++) {
                const int taps = smooth_taps(&w, x, &tx);
                for (int64_t c = 0, n; c < channels; c += n, src += n) {
                    n = kn_min_i64(channels - c, CHUNK / 4);
                    spread(add_scaled[o->dtype], &ty, &tx, taps, image + c * size, line, pixel, src,
                           n);
                    if (rt_run_spend(r, &left, (4 * n + 16) * taps * taps))
                        return r->err->code;
                }
            }
        }
    return RT_OK;
}

#define SMOOTH_GRAD(symbol, tf, kernel, types)                                                     \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (tf), .infer = infer_smooth_grad, .rows = rows_smooth_grad},                \
        .kernels = KN_CPU(tf, kernel, types, NULL, run_smooth_grad),                               \
    };
SMOOTH_GRAD(resize_bicubic_grad, "ResizeBicubicGrad", "resize_bicubic_grad", KN_SET(KN_FLOATS))
SMOOTH_GRAD(resize_bilinear_grad, "ResizeBilinearGrad", "resize_bilinear_grad",
            KN_SET(KN_FLOATS) | KN_SET(KN_HALFS))
