/*
 * QuantizedMatMul and QuantizedConv2D compute sums of products of quint8 integers. The sums are
 * qint32. From each factor, the quantised value of 0 in the factor's range is subtracted, so
 * padding contributes nothing to a sum.
 */
#include "kernels/quant/quant.h"

#include <string.h>

#include "kernels/nn/window.h"

static enum rt_status check_ranges(struct rt_run *r, const char *const *name)
{
    for (int k = 0; k < 4; k++)
        if (r->in[2 + k].rank != 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s must be rank 0 but is rank %d", name[k],
                           r->in[2 + k].rank);
    return RT_OK;
}

/* Sets zero[k] to the quantised value of 0 in the range of input k, and writes the range of the
 * sums. */
static void set_zeros(struct rt_run *r, int32_t *zero)
{
    const struct kn_q_range a = kn_q_range_of(r, 2, 3), b = kn_q_range_of(r, 4, 5);

    zero[0] = (int32_t)kn_q_unclamped(RT_QU8, 0, a);
    zero[1] = (int32_t)kn_q_unclamped(RT_QU8, 0, b);
    kn_q_put_range(r, kn_q_product_range(RT_QU8, a, RT_QU8, b, RT_QI32));
}

/* Adds n products of one number `a` and the numbers at b to the sums. Sums wrap around. */
static void add_products(uint32_t *sum, uint32_t a, const uint8_t *b, uint32_t zero, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += a * (b[i] - zero);
}

/* ---- matrices ---- */

static enum rt_status matmul_infer(struct rt_infer *x)
{
    const struct rt_shape *a = &x->in[0].shape, *b = &x->in[1].shape;
    const int ta = rt_attr_bool(x->node, "transpose_a"), tb = rt_attr_bool(x->node, "transpose_b");
    struct rt_shape *o = &x->out[0].shape;

    for (int k = 0; k < 2; k++)
        if (x->in[k].shape.rank >= 0 && x->in[k].shape.rank != 2)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "In[%d] is not a matrix", k);
    for (int k = 1; k < 3; k++)
        x->out[k].shape.rank = 0;
    if (a->rank == 2 && b->rank == 2 && a->dim[1 - ta] >= 0 && b->dim[tb] >= 0 &&
        a->dim[1 - ta] != b->dim[tb])
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Matrix size-incompatible: In[0]: %s, In[1]: %s", KN_TEXT(a), KN_TEXT(b));
    o->rank = 2;
    o->dim[0] = a->rank == 2 ? a->dim[ta] : -1;
    o->dim[1] = b->rank == 2 ? b->dim[1 - tb] : -1;
    return RT_OK;
}

static enum rt_status matmul_run(struct rt_run *r)
{
    static const char *const names[] = {"min_a", "max_a", "min_b", "max_b"};
    const bool ta = rt_attr_bool(r->node, "transpose_a"), tb = rt_attr_bool(r->node, "transpose_b");
    const int64_t m = r->out[0].dim[0], n = r->out[0].dim[1], k = r->in[0].dim[ta ? 0 : 1];
    const uint8_t *a = r->in[0].data, *b = r->in[1].data;
    uint32_t *y = r->out[0].data;
    int32_t zero[2];

    for (int i = 0; i < 4; i++)
        if (i ? rt_tensor_count(&r->in[2 + i]) != 1 : r->in[2].rank != 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s must be a scalar, but got shape%s",
                           names[i], KN_TEXT(&r->in[2 + i]));
    for (int i = 0; i < 4; i += 2)
        if (!(kn_q_float(r, 3 + i) > kn_q_float(r, 2 + i)))
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s must be larger than %s.", names[i + 1],
                           names[i]);
    set_zeros(r, zero);
    memset(y, 0, rt_tensor_bytes(&r->out[0]));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < k; j++) {
            const uint32_t v = (uint32_t)a[ta ? j * m + i : i * k + j] - (uint32_t)zero[0];
            if (!tb)
                add_products(y + i * n, v, b + j * n, (uint32_t)zero[1], n);
            for (int64_t c = 0; tb && c < n; c++)
                y[i * n + c] += v * (b[c * k + j] - (uint32_t)zero[1]);
            if (rt_run_spend(r, &r->left, 2 * n))
                return r->err->code;
        }
    return RT_OK;
}

/* ---- images ---- */

static enum rt_status conv_axes(const struct rt_node *n, const struct rt_shape *x,
                                const struct rt_shape *f, struct kn_axis *axis,
                                struct rt_error *err)
{
    const int64_t *strides, *dilations;

    if (rt_attr_ints(n, "strides", &strides) != 4)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Sliding window strides field must specify 4 dimensions");
    if (strides[1] != strides[2])
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Current implementation only supports equal length strides in the row and "
                       "column dimensions.");
    if (strides[0] != 1 || strides[3] != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Current implementation does not yet support strides in the batch and depth "
                       "dimensions.");
    if (rt_attr_ints(n, "dilations", &dilations) != 4)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Dilations field must specify 4 dimensions");
    for (int i = 0; i < 4; i++)
        if (dilations[i] != 1)
            return rt_fail(
                err, RT_INVALID_ARGUMENT,
                i == 1 || i == 2
                    ? "Current implementation only supports dilated rate as 1 in the row "
                      "and column dimensions."
                    : "Current implementation does not yet support dilations in the "
                      "batch and depth dimensions.");
    for (int i = 0; i < 2; i++) {
        if (kn_check_i32("strides", strides[1 + i], err))
            return err->code;
        axis[i] = (struct kn_axis){.in = x->dim[1 + i],
                                   .size = f->dim[i],
                                   .stride = strides[1 + i],
                                   .dilation = 1,
                                   .out = -1};
        const enum rt_status st = kn_axis_solve(&axis[i], kn_padding(n), err);
        if (st)
            return st;
        /* TensorFlow's kernel centres the windows. If a filter is smaller than its stride, the
         * first window may begin after the first position. */
        const int64_t spare = kn_padding(n) == KN_VALID ? 1 : 0;
        if (axis[i].in >= 0 && axis[i].size >= 0 && axis[i].out >= 0)
            axis[i].lo =
                ((axis[i].out - 1) * axis[i].stride + axis[i].size - axis[i].in + spare) / 2;
    }
    return RT_OK;
}

static enum rt_status conv_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape, *f = &x->in[1].shape;
    struct kn_axis axis[2];

    for (int k = 1; k < 3; k++)
        x->out[k].shape.rank = 0;
    if (in->rank >= 0 && in->rank != 4)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "input must be rank 4 but is rank %d",
                       in->rank);
    if (f->rank >= 0 && f->rank != 4)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "filter must be rank 4 but is rank %d",
                       f->rank);
    if (in->rank < 0 || f->rank < 0)
        return RT_OK;
    for (int d = 0; d < 4; d++)
        if (in->dim[d] == 0 || f->dim[d] == 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Invalid input: Shapes dimension cannot be 0.");
    if (in->dim[3] >= 0 && f->dim[2] >= 0 && in->dim[3] != f->dim[2])
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "input and filter must have the same depth: %lld vs %lld",
                       (long long)in->dim[3], (long long)f->dim[2]);
    const enum rt_status st = conv_axes(x->node, in, f, axis, x->err);
    if (st)
        return st;
    x->out[0].shape =
        (struct rt_shape){.rank = 4, .dim = {in->dim[0], axis[0].out, axis[1].out, f->dim[3]}};
    return RT_OK;
}

struct conv {
    struct kn_axis axis[2];
    int64_t depth, channels;
    int32_t zero[2];
};

/* Computes all channels of one output pixel from the image at `x`. */
static enum rt_status conv_pixel(struct rt_run *r, const struct conv *c, const uint8_t *x,
                                 int64_t row, int64_t column, uint32_t *sum)
{
    const uint8_t *f = r->in[1].data;
    int64_t top, bottom, left, right;

    memset(sum, 0, (size_t)c->channels * sizeof *sum);
    kn_axis_inside(&c->axis[0], row, &top, &bottom);
    kn_axis_inside(&c->axis[1], column, &left, &right);
    for (int64_t i = top; i < bottom; i++)
        for (int64_t j = left; j < right; j++) {
            const int64_t at = (row * c->axis[0].stride - c->axis[0].lo + i) * c->axis[1].in +
                               column * c->axis[1].stride - c->axis[1].lo + j;
            for (int64_t d = 0; d < c->depth; d++)
                add_products(sum, (uint32_t)x[at * c->depth + d] - (uint32_t)c->zero[0],
                             f + ((i * c->axis[1].size + j) * c->depth + d) * c->channels,
                             (uint32_t)c->zero[1], c->channels);
            if (rt_run_spend(r, &r->left, 2 * c->depth * c->channels))
                return r->err->code;
        }
    return RT_OK;
}

static enum rt_status conv_run(struct rt_run *r)
{
    static const char *const names[] = {"min_input", "max_input", "min_filter", "max_filter"};
    const struct rt_tensor *t = &r->in[0], *o = &r->out[0];
    const struct rt_shape in = {.rank = 4, .dim = {t->dim[0], t->dim[1], t->dim[2], t->dim[3]}};
    const struct rt_tensor *w = &r->in[1];
    const struct rt_shape filter = {.rank = 4, .dim = {w->dim[0], w->dim[1], w->dim[2], w->dim[3]}};
    struct conv c = {.depth = t->dim[3], .channels = o->dim[3]};
    enum rt_status st = check_ranges(r, names);
    uint32_t *y = o->data;

    if (!st)
        st = conv_axes(r->node, &in, &filter, c.axis, r->err);
    if (st)
        return st;
    set_zeros(r, c.zero);
    if (rt_tensor_count(o) == 0)
        return RT_OK;
    for (int64_t b = 0; b < o->dim[0]; b++)
        for (int64_t i = 0; i < o->dim[1]; i++)
            for (int64_t j = 0; j < o->dim[2]; j++, y += c.channels) {
                const uint8_t *x = (const uint8_t *)t->data + b * t->dim[1] * t->dim[2] * c.depth;
                if (conv_pixel(r, &c, x, i, j, y))
                    return r->err->code;
            }
    return RT_OK;
}

/* ---- registry entries ---- */

static bool takes_conv(const struct rt_node *n)
{
    return n->in_dtype[0] == RT_QU8 && n->in_dtype[1] == RT_QU8 && n->out_dtype[0] == RT_QI32;
}

const struct kn_entry kn_quantized_mat_mul = {
    .op = {.name = "QuantizedMatMul", .infer = matmul_infer, .rows = NULL},
    .kernels = KN_KERNELS({.op = "QuantizedMatMul",
                           .device = "CPU",
                           .name = "quantized_matmul",
                           .type_attr = "T1",
                           .types = RT_T(RT_QU8),
                           .takes = takes_conv,
                           .run = matmul_run}),
};
const struct kn_entry kn_quantized_conv2_d = {
    .op = {.name = "QuantizedConv2D", .infer = conv_infer, .rows = NULL},
    .kernels = KN_KERNELS({.op = "QuantizedConv2D",
                           .device = "CPU",
                           .name = "quantized_conv",
                           .type_attr = "Tinput",
                           .types = RT_T(RT_QU8),
                           .takes = takes_conv,
                           .run = conv_run}),
};
