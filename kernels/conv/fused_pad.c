/*
 * FusedPadConv2D and FusedResizeAndPadConv2D: a convolution of images whose height and width have
 * been padded by reflection, and before that resized by bilinear interpolation. By a mistake of
 * TensorFlow's kernels, all outputs of a batch are those of its first image. This is followed here.
 */
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/conv/conv_plain.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/image/image.h"
#include "kernels/image/resize_taps.h"
#include "kernels/matmul/gemm.h"
#include "runtime/base/checked.h"

/* One spatial axis: `in` pixels are resized to `resized` ones, which are padded to `padded` ones.
 * `border` is 1 if the pixel at the border is not repeated. */
struct side {
    int64_t in, resized, padded, before;
    int border;
    float scale;
};

struct job {
    bool resizes;
    struct side side[2];
    struct kn_conv_shape conv;
};

static bool resizes(const struct rt_node *n)
{
    return n->n_in == 4;
}

/* ---- shapes ---- */

static enum rt_status check_strides(const struct rt_node *n, struct rt_error *err)
{
    const int64_t *s;

    if (rt_attr_ints(n, "strides", &s) != 4)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Sliding window strides field must specify 4 dimensions");
    if (s[0] != 1 || s[3] != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Current implementation does not yet support strides in the batch and depth "
                       "dimensions.");
    for (int i = 1; i < 3; i++) {
        if (kn_check_i32("strides", s[i], err))
            return err->code;
        if (s[i] <= 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Stride must be > 0, but got %lld",
                           (long long)s[i]);
    }
    return RT_OK;
}

/* Refuses paddings that are too large for a dimension of n elements. */
static enum rt_status check_padding(int64_t before, int64_t after, int64_t n, int border,
                                    struct rt_error *err)
{
    if (before < 0 || after < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "paddings must be non-negative: %lld %lld",
                       (long long)before, (long long)after);
    if (border && (before >= n || after >= n))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "paddings must be less than the dimension size: %lld, %lld not less than "
                       "%lld",
                       (long long)before, (long long)after, (long long)n);
    if (before > n || after > n)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "paddings must be no greater than the dimension size: %lld, %lld greater "
                       "than %lld",
                       (long long)before, (long long)after, (long long)n);
    return RT_OK;
}

/* Sets both sides from the shape of the images, their size after resizing, and the paddings. */
static enum rt_status read_sides(const struct rt_node *n, const struct rt_shape *in,
                                 const struct rt_tensor *size, const struct rt_tensor *pads,
                                 struct job *j, struct rt_error *err)
{
    const int border = rt_span_is(rt_attr_str(n, "mode"), "REFLECT") ? 1 : 0;
    const bool align = size && rt_attr_bool(n, "resize_align_corners");

    for (int d = 0; d < 4; d++) {
        const int64_t before = kn_int_at(pads, 2 * d), after = kn_int_at(pads, 2 * d + 1);
        struct side s = {
            .in = in->dim[d], .resized = in->dim[d], .before = before, .border = border};
        if (size && (d == 1 || d == 2))
            s.resized = kn_int_at(size, d - 1);
        if (s.resized <= 0 && size && (d == 1 || d == 2))
            return rt_fail(err, RT_INVALID_ARGUMENT, "output dimensions must be positive");
        if (check_padding(before, after, s.resized, border, err))
            return err->code;
        if (before + after != 0 && d != 1 && d != 2)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Fused mirror padding only support spatial padding, not %s: %s",
                           d == 0 ? "batches" : "channels", KN_TEXT(pads));
        s.padded = before + s.resized + after;
        s.scale = align && s.resized > 1 ? (float)(s.in - 1) / (float)(s.resized - 1)
                                         : (float)s.in / (float)s.resized;
        if (d == 1 || d == 2)
            j->side[d - 1] = s;
    }
    return RT_OK;
}

static enum rt_status read_conv(const struct rt_node *n, const struct rt_shape *in,
                                const struct rt_shape *filter, struct job *j, struct rt_error *err)
{
    struct kn_conv_shape *c = &j->conv;
    const int64_t *s;

    if (in->dim[3] != filter->dim[2])
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "input and filter must have the same depth: %lld vs %lld",
                       (long long)in->dim[3], (long long)filter->dim[2]);
    *c = (struct kn_conv_shape){
        .n_spatial = 2, .batch = in->dim[0], .ci = in->dim[3], .co = filter->dim[3], .groups = 1};
    rt_attr_ints(n, "strides", &s);
    for (int i = 0; i < 2; i++) {
        c->axis[i] = (struct kn_axis){.in = j->side[i].padded,
                                      .size = filter->dim[i],
                                      .stride = s[1 + i],
                                      .dilation = 1,
                                      .out = -1};
        if (kn_axis_solve(&c->axis[i], kn_padding(n), err))
            return err->code;
    }
    if (c->co == 0 || c->axis[0].out == 0 || c->axis[1].out == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Output tensor can't be empty");
    return RT_OK;
}

/* Sets *j from the exact shapes of the images and the filter, and the values of the other inputs.
 */
static enum rt_status read_job(const struct rt_node *n, const struct rt_shape *in,
                               const struct rt_shape *filter, const struct rt_tensor *size,
                               const struct rt_tensor *pads, struct job *j, struct rt_error *err)
{
    *j = (struct job){.resizes = size != NULL};
    if (in->dim[0] == 0 || in->dim[1] == 0 || in->dim[2] == 0 || in->dim[3] == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Input tensor can't be empty");
    return read_sides(n, in, size, pads, j, err) ? err->code : read_conv(n, in, filter, j, err);
}

static enum rt_status check_shapes(struct rt_infer *x)
{
    const int pads = resizes(x->node) ? 2 : 1;
    const struct rt_shape *in = &x->in[0].shape, *p = &x->in[pads].shape;
    const struct rt_shape *filter = &x->in[pads + 1].shape;

    if (kn_image_rank_differs(in, 4))
        return kn_image_fail_shape(x->err, "input must be 4-dimensional", in);
    if (pads == 2) {
        const struct rt_shape *size = &x->in[1].shape;
        if (kn_image_rank_differs(size, 1))
            return kn_image_fail_shape(x->err, "shape_t must be 1-dimensional", size);
        if (size->rank == 1 && size->dim[0] >= 0 && size->dim[0] != 2)
            return kn_image_fail_shape(x->err, "shape_t must have two elements", size);
    }
    if (kn_image_rank_differs(p, 2) || (p->rank == 2 && p->dim[1] >= 0 && p->dim[1] != 2))
        return kn_image_fail_shape(x->err, "paddings must be a matrix with 2 columns: ", p);
    if (p->rank == 2 && p->dim[0] >= 0 && p->dim[0] != 4)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "The first dimension of paddings must be the rank of inputs%s%s", KN_TEXT(p),
                       KN_TEXT(in));
    if (kn_image_rank_differs(filter, 4))
        return kn_image_fail_shape(x->err, "filter must be 4-dimensional: ", filter);
    return check_strides(x->node, x->err);
}

static enum rt_status infer(struct rt_infer *x)
{
    const int pads = resizes(x->node) ? 2 : 1;
    const struct rt_shape *in = &x->in[0].shape, *filter = &x->in[pads + 1].shape;
    struct rt_shape *o = &x->out[0].shape;
    struct job j;

    if (check_shapes(x))
        return x->err->code;
    *o = kn_image_unknown(4);
    if (in->rank == 4)
        o->dim[0] = in->dim[0];
    if (filter->rank == 4)
        o->dim[3] = filter->dim[3];
    if (!kn_known(x, pads == 2 ? 6 : 2))
        return RT_OK;
    if (read_job(x->node, in, filter, pads == 2 ? x->in[1].value : NULL, x->in[pads].value, &j,
                 x->err))
        return x->err->code;
    o->dim[1] = j.conv.axis[0].out;
    o->dim[2] = j.conv.axis[1].out;
    return RT_OK;
}

/* ---- the padded images ---- */

/* Sets *t to the pixels of the image, and their weights, from which padded pixel i is made. */
static void taps_of(const struct job *j, const struct side *s, int64_t i, struct kn_tap *t)
{
    int64_t k = i - s->before;

    if (k < 0)
        k = -k - 1 + s->border;
    else if (k >= s->resized)
        k = 2 * s->resized - 1 - k - s->border;
    if (j->resizes)
        kn_tap_bilinear(t, k, s->in, s->scale, false);
    else
        *t = (struct kn_tap){.at = {k, k}, .weight = {0}};
}

#define PAD(T)                                                                                     \
    static void pad_##T(T *dst, const T *top, const T *bottom, const struct kn_tap *x, float down, \
                        int64_t n)                                                                 \
    {                                                                                              \
        const T *const tl = top + x->at[0] * n, *const tr = top + x->at[1] * n;                    \
        const T *const bl = bottom + x->at[0] * n, *const br = bottom + x->at[1] * n;              \
        for (int64_t c = 0; c < n; c++) {                                                          \
            const T a = tl[c] + (tr[c] - tl[c]) * (T)x->weight[0];                                 \
            const T b = bl[c] + (br[c] - bl[c]) * (T)x->weight[0];                                 \
            dst[c] = a + (b - a) * (T)down;                                                        \
        }                                                                                          \
    }
PAD(float)
PAD(double)

/* Writes the padded first image to dst, in the type of src, which is float or double. */
static enum rt_status pad(struct rt_run *r, const struct job *j, const char *src, char *dst,
                          bool is_double)
{
    const struct side *h = &j->side[0], *w = &j->side[1];
    const int64_t n = j->conv.ci, size = is_double ? sizeof(double) : sizeof(float);
    const int64_t row = w->in * n * size;
    struct kn_tap ty, tx;

    for (int64_t y = 0; y < h->padded; y++) {
        taps_of(j, h, y, &ty);
        const char *top = src + ty.at[0] * row, *bottom = src + ty.at[1] * row;
        for (int64_t x = 0; x < w->padded; x++, dst += n * size) {
            taps_of(j, w, x, &tx);
            if (!j->resizes)
                memcpy(dst, top + tx.at[0] * n * size, (size_t)(n * size));
            else if (is_double)
                pad_double((double *)dst, (const double *)top, (const double *)bottom, &tx,
                           ty.weight[0], n);
            else
                pad_float((float *)dst, (const float *)top, (const float *)bottom, &tx,
                          ty.weight[0], n);
            if (rt_run_spend(r, &r->left, 16 + 4 * n))
                return r->err->code;
        }
    }
    return RT_OK;
}

/* ---- run ---- */

/* Returns the number of elements of a padded image, or -1 if it is too large. */
static int64_t padded_count(const struct job *j)
{
    int64_t n;

    if (!rt_mul(j->side[0].padded, j->side[1].padded, &n) || !rt_mul(n, j->conv.ci, &n) ||
        n > INT64_MAX / 64)
        return -1;
    return n;
}

/* Computes the output of the first image. */
static enum rt_status run_first(struct rt_run *r, struct job *j, const struct rt_tensor *filter)
{
    const struct rt_tensor *o = &r->out[0];
    const enum rt_dtype dtype = kn_dtype(o);
    const bool is_double = dtype == RT_F64, is_half = dtype != RT_F64 && dtype != RT_F32;
    const int64_t n_in = rt_tensor_count(&r->in[0]) / r->in[0].dim[0];
    const int64_t n_filter = rt_tensor_count(filter), n_out = rt_tensor_count(o) / o->dim[0];
    const int64_t n = padded_count(j);

    if (n < 0)
        return rt_fail(r->err, RT_RESOURCE_EXHAUSTED, "%s: the padded image is too large",
                       r->node->name);
    /* Tensors of half precision are converted to floats. */
    const size_t extra = is_half ? (size_t)(n_in + n_filter + n_out) * sizeof(float) : 0;
    char *padded = rt_scratch(r, (size_t)n * (is_double ? sizeof(double) : sizeof(float)) + extra);
    if (!padded)
        return r->err->code;
    if (!is_half) {
        if (pad(r, j, r->in[0].data, padded, is_double))
            return r->err->code;
        return kn_conv_plain(&j->conv, dtype, padded, filter->data, o->data, n_out, r);
    }
    float *image = (float *)padded + n, *f = image + n_in, *y = f + n_filter;
    if (kn_to_float_rows(r, dtype, r->in[0].data, n_in, image, 1, n_in) ||
        kn_to_float_rows(r, dtype, filter->data, n_filter, f, 1, n_filter) ||
        pad(r, j, (const char *)image, padded, false) ||
        kn_conv_plain(&j->conv, RT_F32, padded, f, y, n_out, r))
        return r->err->code;
    return kn_from_float_rows(r, dtype, y, o->data, n_out, 1, n_out);
}

static enum rt_status run(struct rt_run *r)
{
    const int pads = resizes(r->node) ? 2 : 1;
    const struct rt_tensor *filter = &r->in[pads + 1];
    const struct rt_shape in = kn_image_shape_of(&r->in[0]), weights = kn_image_shape_of(filter);
    struct job j;

    if (read_job(r->node, &in, &weights, pads == 2 ? &r->in[1] : NULL, &r->in[pads], &j, r->err))
        return r->err->code;
    j.conv.batch = 1;
    if (run_first(r, &j, filter))
        return r->err->code;
    const size_t size = rt_tensor_bytes(&r->out[0]) / (size_t)in.dim[0];
    for (int64_t b = 1; b < in.dim[0]; b++) {
        memcpy((char *)r->out[0].data + (size_t)b * size, r->out[0].data, size);
        if (rt_run_spend(r, &r->left, (int64_t)size / 8))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- registry entries ---- */

const struct kn_entry kn_fused_pad_conv2d = {
    .op = {.name = "FusedPadConv2D", .shape_in = 2, .infer = infer},
    .kernels =
        KN_CPU("FusedPadConv2D", "fused_pad_conv", KN_SET(KN_FLOATS) | KN_SET(KN_HALFS), NULL, run),
};
const struct kn_entry kn_fused_resize_and_pad_conv2d = {
    .op = {.name = "FusedResizeAndPadConv2D", .shape_in = 6, .infer = infer},
    .kernels = KN_CPU("FusedResizeAndPadConv2D", "fused_resize_pad_conv",
                      KN_SET(KN_FLOATS) | RT_T(RT_F16), NULL, run),
};
