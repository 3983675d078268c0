/*
 * The gradients of depthwise convolutions: DepthwiseConv2dNativeBackpropFilter and
 * DepthwiseConv2dNativeBackpropInput. TensorFlow ignores the attribute "dilations" of both.
 */
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/conv/conv_plain.h"
#include "kernels/conv/conv_shape.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/matmul/gemm.h"
#include "runtime/base/checked.h"

enum { BACK = 2 };

static bool is_filter(const struct rt_node *n)
{
    return strcmp(n->schema->name, "DepthwiseConv2dNativeBackpropFilter") == 0;
}

/* Returns the name of the op in TensorFlow's error messages. */
static const char *label(const struct rt_node *n)
{
    return is_filter(n) ? "DepthwiseConv2DBackpropFilter" : "DepthwiseConv2DBackpropInput";
}

/* Returns the index of the input that contains the output's shape: 1 for the gradient of the
 * filter, and 0 for the gradient of the input. */
static int sizes_of(const struct rt_node *n)
{
    return is_filter(n) ? 1 : 0;
}

/* ---- shapes ---- */

static enum rt_status check_attributes(const struct rt_node *n, struct rt_error *err)
{
    const bool first = kn_channels_first(n);
    const int h = kn_spatial_axis(first, 0), c = kn_channel_axis(first, 2);
    const int64_t *s;

    if (rt_attr_ints(n, "strides", &s) != 4)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Sliding window strides field must specify 4 dimensions");
    if (s[h] != s[h + 1])
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Current implementation only supports equal length strides in the row and "
                       "column dimensions.");
    if (s[0] != 1 || s[c] != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Current implementation does not yet support strides in the batch and depth "
                       "dimensions.");
    if (s[h] <= 0 || s[h] > INT32_MAX)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Row and column strides should be larger than 0.");
    return kn_conv_check_paddings(n, err);
}

static enum rt_status check_rank(const struct rt_node *n, const struct rt_shape *s,
                                 const char *name, struct rt_error *err)
{
    if (s->rank < 0 || s->rank == 4)
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT, "%s: %s must be 4-dimensional", label(n), name);
}

static enum rt_status read_sizes(const struct rt_node *n, const struct rt_tensor *sizes,
                                 struct rt_shape *o, struct rt_error *err)
{
    const char *const what = is_filter(n) ? "filter" : "input";

    if (sizes->rank != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: %s_sizes input must be 1-dim, not %d",
                       is_filter(n) ? "Conv2DBackpropFilter" : "Conv2DBackpropInput", what,
                       sizes->rank);
    for (int i = 0; i < sizes->dim[0] && i < RT_MAX_RANK; i++)
        if (kn_int_at(sizes, i) < 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Dimension %d of %s_sizes must be >= 0", i,
                           what);
    if (sizes->dim[0] != 4)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: %s must be 4-dimensional", label(n), what);
    for (int i = 0; i < 4; i++)
        o->dim[i] = kn_int_at(sizes, i);
    return RT_OK;
}

/* Sets *g from the shapes of the input, the filter and the gradient, which must be known. The
 * channels must be the last axis. */
static enum rt_status solve(struct kn_conv_shape *g, const struct rt_node *n,
                            const struct rt_shape *in, const struct rt_shape *filter,
                            const struct rt_shape *back, struct rt_error *err)
{
    const char *const op = label(n);
    const int64_t *strides, *pads = NULL;

    *g = (struct kn_conv_shape){.transposed = true,
                                .depthwise = true,
                                .n_spatial = 2,
                                .batch = in->dim[0],
                                .ci = in->dim[3],
                                .groups = in->dim[3]};
    if (back->dim[0] != g->batch)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "%s: input and out_backprop must have the same batch size", op);
    if (filter->dim[2] != g->ci)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: input and filter must have the same in_depth",
                       op);
    if (!rt_mul(g->ci, filter->dim[3], &g->co) || g->co != back->dim[3])
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "%s: depth_multiplier * in_depth not equal to out_depth", op);
    rt_attr_ints(n, "strides", &strides);
    if (kn_padding(n) == KN_EXPLICIT)
        rt_attr_ints(n, "explicit_paddings", &pads);
    for (int i = 0; i < 2; i++) {
        struct kn_axis *a = &g->axis[i];
        *a = (struct kn_axis){
            .in = in->dim[1 + i], .size = filter->dim[i], .stride = strides[1 + i], .dilation = 1};
        if (pads) {
            a->lo = pads[2 * (1 + i)];
            a->hi = pads[2 * (1 + i) + 1];
        }
        const enum rt_status st = kn_axis_solve(a, kn_padding(n), err);
        if (st)
            return st;
        if (a->out != back->dim[1 + i])
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "%s: Number of %s of out_backprop doesn't match computed: actual = "
                           "%lld, computed = %lld",
                           op, i ? "cols" : "rows", (long long)back->dim[1 + i], (long long)a->out);
    }
    return RT_OK;
}

static enum rt_status depthwise_grad_infer(struct rt_infer *x)
{
    const bool filter = is_filter(x->node);
    const int sizes = sizes_of(x->node);
    const struct rt_shape *given = &x->in[1 - sizes].shape, *back = &x->in[BACK].shape;
    struct rt_shape *o = &x->out[0].shape;
    struct kn_conv_shape g;

    *o = (struct rt_shape){.rank = 4, .dim = {-1, -1, -1, -1}};
    enum rt_status st = check_attributes(x->node, x->err);
    if (!st && x->in[sizes].value)
        st = read_sizes(x->node, x->in[sizes].value, o, x->err);
    if (!st)
        st = check_rank(x->node, given, filter ? "input" : "filter", x->err);
    if (!st)
        st = check_rank(x->node, back, "out_backprop", x->err);
    if (st || !x->in[sizes].value || !kn_shape_known(given) || !kn_shape_known(back) ||
        kn_channels_first(x->node))
        return st;
    return solve(&g, x->node, filter ? given : o, filter ? o : given, back, x->err);
}

static double depthwise_grad_flops(const struct rt_node *n, const struct rt_shape *in, int n_in,
                                   const struct rt_shape *out)
{
    if (n_in <= BACK)
        return 0;
    const struct rt_shape *filter = is_filter(n) ? out : &in[1];
    return filter->rank == 4
               ? 2 * rt_shape_elements(&in[BACK]) * (double)(filter->dim[0] * filter->dim[1])
               : 0;
}

/* ---- preparing ---- */

struct depthwise_grad {
    struct kn_conv_shape g;
    enum rt_dtype dtype, compute;
    int64_t n_given, n_back, n_out;
    /* offsets in scratch memory of float copies of half-precision tensors */
    size_t back_at, out_at;
};

static enum rt_status depthwise_grad_prepare(struct rt_prep *p, void **state)
{
    struct depthwise_grad *s = rt_prep_alloc(p, sizeof *s);
    const bool filter = is_filter(p->node);
    const struct rt_shape *given = &p->in[1 - sizes_of(p->node)].shape, *out = &p->out[0].shape;

    if (!s)
        return p->err->code;
    *state = s;
    if (kn_channels_first(p->node))
        return rt_fail(p->err, RT_UNIMPLEMENTED,
                       "Depthwise convolution on CPU is only supported for NHWC format");
    const enum rt_status st = solve(&s->g, p->node, filter ? given : out, filter ? out : given,
                                    &p->in[BACK].shape, p->err);
    if (st)
        return st;
    s->dtype = p->out[0].dtype;
    s->n_given = kn_shape_total(given);
    s->n_back = kn_shape_total(&p->in[BACK].shape);
    s->n_out = kn_shape_total(out);
    s->compute = s->dtype == RT_F64 ? RT_F64 : RT_F32;
    if (s->dtype != s->compute) {
        s->back_at = kn_padded((size_t)s->n_given * sizeof(float));
        s->out_at = s->back_at + kn_padded((size_t)s->n_back * sizeof(float));
        p->scratch_bytes = s->out_at + kn_padded((size_t)s->n_out * sizeof(float));
    }
    return RT_OK;
}

/* ---- the run ---- */

enum { TAP_WORK = 16 }; /* the cost of locating one tap, in units of rt_run_spend */

/* Each channel of the input belongs to m channels of the gradient. */
#define FILTER_GRAD(dt, T)                                                                         \
    KN_CLONES static void filter_tap_##dt(const T *x, const T *y, T *restrict f, int64_t n,        \
                                          int64_t m)                                               \
    {                                                                                              \
        if (m == 1)                                                                                \
            for (int64_t c = 0; c < n; c++)                                                        \
                f[c] += x[c] * y[c];                                                               \
        else                                                                                       \
            for (int64_t c = 0; c < n; c++)                                                        \
                for (int64_t k = 0; k < m; k++)                                                    \
                    f[c * m + k] += x[c] * y[c * m + k];                                           \
    }                                                                                              \
    /* Adds to `f` the products of pixel (i, j) of the gradient and the inputs in the pixel's      \
     * window. `x` points to the input image. */                                                   \
    static enum rt_status filter_pixel_##dt(const struct kn_conv_shape *g, int64_t i, int64_t j,   \
                                            const T *x, const T *y, T *f, struct rt_run *r,        \
                                            int64_t *left)                                         \
    {                                                                                              \
        const struct kn_axis *h = &g->axis[0], *w = &g->axis[1];                                   \
        const int64_t m = g->co / g->ci, most = RT_WORK / 4 / m + 1;                               \
        int64_t top, bottom, from, to;                                                             \
        kn_axis_inside(h, i, &top, &bottom);                                                       \
        kn_axis_inside(w, j, &from, &to);                                                          \
        for (int64_t a = top; a < bottom; a++)                                                     \
            for (int64_t b = from; b < to; b++) {                                                  \
                const int64_t row = i * h->stride - h->lo + a, col = j * w->stride - w->lo + b;    \
                const T *px = x + (row * w->in + col) * g->ci;                                     \
                T *pf = f + (a * w->size + b) * g->co;                                             \
                for (int64_t c = 0; c < g->ci; c += most) {                                        \
                    const int64_t n = kn_min_i64(most, g->ci - c);                                 \
                    filter_tap_##dt(px + c, y + c * m, pf + c * m, n, m);                          \
                    if (rt_run_spend(r, left, n * m + TAP_WORK))                                   \
                        return r->err->code;                                                       \
                }                                                                                  \
            }                                                                                      \
        return rt_run_spend(r, left, TAP_WORK);                                                    \
    }                                                                                              \
    static enum rt_status filter_grad_##dt(const struct kn_conv_shape *g, const T *x, const T *y,  \
                                           T *f, struct rt_run *r)                                 \
    {                                                                                              \
        const struct kn_axis *h = &g->axis[0], *w = &g->axis[1];                                   \
        int64_t left = RT_WORK;                                                                    \
        for (int64_t b = 0; b < g->batch; b++, x += h->in * w->in * g->ci)                         \
            for (int64_t i = 0; i < h->out; i++)                                                   \
                for (int64_t j = 0; j < w->out; j++, y += g->co)                                   \
                    if (filter_pixel_##dt(g, i, j, x, y, f, r, &left))                             \
                        return r->err->code;                                                       \
        return RT_OK;                                                                              \
    }
KN_FLOATS(FILTER_GRAD)

static enum rt_status compute(const struct depthwise_grad *s, const void *given, const void *back,
                              void *out, struct rt_run *r)
{
    const size_t size = rt_dtype_size(s->compute);
    enum rt_status st;

    if (!s->n_given || !s->n_back)
        return kn_zero_chunks(r, out, (size_t)s->n_out * size);
    if (!is_filter(r->node))
        return kn_conv_plain(&s->g, s->compute, back, given, out, s->n_out, r);
    st = kn_zero_chunks(r, out, (size_t)s->n_out * size);
    if (st)
        return st;
    return s->compute == RT_F64 ? filter_grad_RT_F64(&s->g, given, back, out, r)
                                : filter_grad_RT_F32(&s->g, given, back, out, r);
}

static enum rt_status depthwise_grad_run(struct rt_run *r)
{
    const struct depthwise_grad *s = r->state;
    const struct rt_tensor *given = &r->in[1 - sizes_of(r->node)], *back = &r->in[BACK];

    if (!s->n_out)
        return RT_OK;
    if (s->dtype == s->compute)
        return compute(s, given->data, back->data, r->out[0].data, r);
    float *x = r->scratch;
    float *y = (void *)((char *)r->scratch + s->back_at);
    float *out = (void *)((char *)r->scratch + s->out_at);
    enum rt_status st = kn_to_float_rows(r, s->dtype, given->data, s->n_given, x, 1, s->n_given);
    if (!st)
        st = kn_to_float_rows(r, s->dtype, back->data, s->n_back, y, 1, s->n_back);
    if (!st)
        st = compute(s, x, y, out, r);
    if (!st)
        st = kn_from_float_rows(r, s->dtype, out, r->out[0].data, s->n_out, 1, s->n_out);
    return st;
}

#define ENTRY(symbol, tf, kernel, sizes, rows_)                                                    \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (tf),                                                                       \
               .shape_in = 1 << (sizes),                                                           \
               .infer = depthwise_grad_infer,                                                      \
               .rows = (rows_),                                                                    \
               .flops = depthwise_grad_flops},                                                     \
        .kernels = KN_CPU(tf, kernel, KN_SET(KN_FLOATS) | KN_SET(KN_HALFS),                        \
                          depthwise_grad_prepare, depthwise_grad_run),                             \
    };
ENTRY(depthwise_conv2d_native_backprop_filter, "DepthwiseConv2dNativeBackpropFilter",
      "depthwise_filter_grad", 1, NULL)
ENTRY(depthwise_conv2d_native_backprop_input, "DepthwiseConv2dNativeBackpropInput",
      "depthwise_input_grad", 0, kn_conv_rows_transposed)
