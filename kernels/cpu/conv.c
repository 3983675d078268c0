/*
 * Convolutions over two or three spatial axes: Conv2D, Conv3D, DepthwiseConv2dNative, and their
 * transposes Conv2DBackpropInput and Conv3DBackpropInputV2.
 *
 * One geometry serves all. Activations are [batch, spatial..., channels]; weights are
 * [spatial..., ci / groups, co]. A depthwise filter [h, w, ci, m] is, byte for byte, the weights
 * [h, w, 1, ci * m] of a convolution in ci groups. In a transpose the roles of input and output
 * are swapped; ci, co and the axes always speak of the convolution that is transposed.
 */
#include <string.h>

#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/tail.h"
#include "kernels/cpu/window.h"
#include "kernels/entry.h"

struct geometry {
    bool transposed, depthwise;
    int n_spatial;
    int64_t batch, ci, co, groups;
    struct kn_axis axis[KN_MAX_SPATIAL];
};

/* ---- attributes ---- */

static bool op_is(const struct rt_node *n, const char *name)
{
    return strcmp(n->schema->name, name) == 0;
}

static bool is_transposed(const struct rt_node *n)
{
    return op_is(n, "Conv2DBackpropInput") || op_is(n, "Conv3DBackpropInputV2");
}

static bool is_depthwise(const struct rt_node *n)
{
    return op_is(n, "DepthwiseConv2dNative");
}

static int n_spatial(const struct rt_node *n)
{
    return op_is(n, "Conv3D") || op_is(n, "Conv3DBackpropInputV2") ? 3 : 2;
}

/* Window attributes by data format; `what` are TensorFlow's words for them. */
static enum rt_status check_windows(const struct rt_node *n, const char *attr, const char *field,
                                    const char *zero, struct rt_error *err)
{
    const int sp = n_spatial(n), ch = kn_channel_axis(kn_channels_first(n), sp);
    const int64_t *v;
    const size_t len = rt_attr_ints(n, attr, &v);

    if (len != (size_t)sp + 2)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Sliding window %s field must specify %d dimensions", field, sp + 2);
    if (v[0] != 1 || v[ch] != 1)
        return rt_fail(err, sp == 3 ? RT_INVALID_ARGUMENT : RT_UNIMPLEMENTED,
                       "Current implementation does not yet support %s in the batch and depth "
                       "dimensions.",
                       field);
    for (int i = 0; i < sp + 2; i++)
        if (v[i] <= 0 || v[i] > INT32_MAX)
            return rt_fail(err, RT_INVALID_ARGUMENT, "%s", zero);
    return RT_OK;
}

static enum rt_status check_paddings(const struct rt_node *n, struct rt_error *err)
{
    const int ch = kn_channel_axis(kn_channels_first(n), 2);
    const int64_t *v;

    if (!rt_attr(n, "explicit_paddings"))
        return RT_OK;
    const size_t len = rt_attr_ints(n, "explicit_paddings", &v);
    if (kn_padding(n) != KN_EXPLICIT)
        return len ? rt_fail(err, RT_INVALID_ARGUMENT,
                             "explicit_paddings attribute must be empty if the padding attribute "
                             "is not EXPLICIT")
                   : RT_OK;
    if (len != 8)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "explicit_paddings attribute must contain 8 values, but got: %zu", len);
    for (int i = 0; i < 8; i++)
        if (v[i] < 0 || v[i] > INT32_MAX)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "All elements of explicit_paddings must be nonnegative");
    if (v[0] || v[1] || v[2 * ch] || v[2 * ch + 1])
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Nonzero explicit padding in the batch or depth dimensions is not "
                       "supported");
    return RT_OK;
}

static enum rt_status check(const struct rt_node *n, struct rt_error *err)
{
    enum rt_status st =
        check_windows(n, "strides", "strides",
                      n_spatial(n) == 3 ? "Spatial strides should be larger than 0."
                                        : "Row and column strides should be larger than 0.",
                      err);
    if (!st)
        st = check_windows(n, "dilations", "dilations", "Dilated rates should be larger than 0.",
                           err);
    if (!st)
        st = check_paddings(n, err);
    return st;
}

/* Strides, dilations and explicit paddings of the spatial axes. */
static void read_windows(const struct rt_node *n, struct geometry *g)
{
    const bool first = kn_channels_first(n);
    const int64_t *strides, *dilations, *pads = NULL;

    rt_attr_ints(n, "strides", &strides);
    rt_attr_ints(n, "dilations", &dilations);
    if (kn_padding(n) == KN_EXPLICIT)
        rt_attr_ints(n, "explicit_paddings", &pads);
    for (int i = 0; i < g->n_spatial; i++) {
        const int at = kn_spatial_axis(first, i);
        g->axis[i].stride = strides[at];
        g->axis[i].dilation = dilations[at];
        if (pads) {
            g->axis[i].lo = pads[2 * at];
            g->axis[i].hi = pads[2 * at + 1];
        }
    }
}

/* ---- shapes ---- */

/* What TensorFlow's kernel calls itself in its refusals. */
static const char *kernel_name(const struct rt_node *n)
{
    return n_spatial(n) == 3 ? "Conv3DBackpropInputOpV2" : "Conv2DCustomBackpropInput";
}

static enum rt_status fail_rank(struct rt_error *err, const char *words, const struct rt_shape *s)
{
    char text[160];
    return rt_fail(err, RT_INVALID_ARGUMENT, "%s%s", words,
                   rt_shape_text(text, sizeof text, s->rank, s->dim));
}

static enum rt_status check_ranks(const struct rt_node *n, const struct rt_shape *in,
                                  const struct rt_shape *filter, struct rt_error *err)
{
    const int rank = n_spatial(n) + 2;
    const bool flat = rank == 4, dw = is_depthwise(n);

    if (is_transposed(n) && in->rank != rank)
        return rt_fail(err, RT_INVALID_ARGUMENT, "input_sizes must be %d-dimensional, got: %d",
                       rank, in->rank);
    if (is_transposed(n) && filter->rank != rank)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: filter must be %d-dimensional",
                       kernel_name(n), rank);
    if (!flat && in->rank != rank)
        return rt_fail(err, RT_INVALID_ARGUMENT, "input must be 5-dimensional");
    if (!flat && filter->rank != rank)
        return rt_fail(err, RT_INVALID_ARGUMENT, "filter must be 5-dimensional");
    if (in->rank != rank)
        return fail_rank(
            err,
            dw ? "input must be 4-dimensional" : "convolution input must be 4-dimensional: ", in);
    if (filter->rank != rank)
        return fail_rank(err,
                         dw ? "filter must be 4-dimensional: "
                            : "convolution filter must be 4-dimensional: ",
                         filter);
    return RT_OK;
}

/* Groups and channels from the filter's last two dimensions; all dims are known. */
static enum rt_status solve_channels(struct geometry *g, const struct rt_node *n, int64_t filter_in,
                                     int64_t filter_out, struct rt_error *err)
{
    if (g->depthwise) {
        if (filter_in != g->ci)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "input and filter must have the same depth: %lld vs %lld",
                           (long long)g->ci, (long long)filter_in);
        g->groups = g->ci;
        if (__builtin_mul_overflow(g->ci, filter_out, &g->co))
            return rt_fail(err, RT_INVALID_ARGUMENT, "too many output channels");
        return RT_OK;
    }
    if (filter_in <= 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "filter depth must be stricly positive, got %lld",
                       (long long)filter_in);
    if (g->ci % filter_in && g->transposed)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "%s: input depth must be evenly divisible by filter depth", kernel_name(n));
    if (g->ci % filter_in)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "%s depth must be evenly divisible by filter depth: %lld vs %lld",
                       g->n_spatial == 3 ? "Input" : "input", (long long)g->ci,
                       (long long)filter_in);
    g->groups = g->ci / filter_in;
    g->co = filter_out;
    if (g->groups && g->co % g->groups)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "output depth must be evenly divisible by number of groups: %lld vs %lld",
                       (long long)g->co, (long long)g->groups);
    return RT_OK;
}

/* -1 among the shapes is fine; then the results are -1 too. */
static enum rt_status solve(struct geometry *g, const struct rt_node *n, const struct rt_shape *in,
                            const struct rt_shape *filter, struct rt_error *err)
{
    const bool first = kn_channels_first(n);
    const int sp = n_spatial(n);

    memset(g, 0, sizeof *g);
    g->n_spatial = sp;
    g->depthwise = is_depthwise(n);
    g->transposed = is_transposed(n);
    read_windows(n, g);
    g->batch = in->dim[0];
    g->ci = in->dim[kn_channel_axis(first, sp)];
    const int64_t filter_in = filter->dim[sp], filter_out = filter->dim[sp + 1];
    if (g->ci >= 0 && filter_in >= 0 && filter_out >= 0) {
        const enum rt_status st = solve_channels(g, n, filter_in, filter_out, err);
        if (st)
            return st;
    } else {
        g->co = g->depthwise ? -1 : filter_out;
        g->groups = -1;
    }
    for (int i = 0; i < sp; i++) {
        struct kn_axis *a = &g->axis[i];
        a->in = in->dim[kn_spatial_axis(first, i)];
        a->size = filter->dim[i];
        if (a->size == 0)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "filter must not have zero elements (i.e. all dimensions must be "
                           "non-zero)");
        const enum rt_status st = kn_axis_solve(a, kn_padding(n), err);
        if (st)
            return st;
    }
    return RT_OK;
}

static void out_shape(const struct geometry *g, bool first, struct rt_shape *o)
{
    o->rank = g->n_spatial + 2;
    o->dim[0] = g->batch;
    o->dim[kn_channel_axis(first, g->n_spatial)] = g->co;
    for (int i = 0; i < g->n_spatial; i++)
        o->dim[kn_spatial_axis(first, i)] = g->axis[i].out;
}

static enum rt_status infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape, *filter = &x->in[1].shape;
    struct rt_shape *o = &x->out[0].shape;
    struct geometry g;

    if (in->rank < 0 || filter->rank < 0) {
        o->rank = n_spatial(x->node) + 2;
        for (int i = 0; i < o->rank; i++)
            o->dim[i] = -1;
        return RT_OK;
    }
    enum rt_status st = check_ranks(x->node, in, filter, x->err);
    if (!st)
        st = solve(&g, x->node, in, filter, x->err);
    if (!st)
        out_shape(&g, kn_channels_first(x->node), o);
    return st;
}

/* ---- shapes of the transposes ---- */

/* The shape that "input_sizes" asks for: all of it, or only the spatial part. */
static enum rt_status wanted_shape(const struct rt_node *n, const struct rt_tensor *sizes,
                                   const struct rt_shape *filter, const struct rt_shape *back,
                                   struct rt_shape *o, struct rt_error *err)
{
    const int sp = n_spatial(n);
    const bool first = kn_channels_first(n);
    int64_t v[KN_MAX_SPATIAL + 2];
    const int64_t len = sizes->rank == 1 ? sizes->dim[0] : -1;

    if (sizes->rank != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: input_sizes input must be 1-dim, not %d",
                       n->schema->name, sizes->rank);
    if (len != sp + 2 && len != sp)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "%s requires input_sizes to contain %d values or "
                       "%d values, but got: %lld",
                       n->schema->name, sp + 2, sp, (long long)len);
    for (int64_t i = 0; i < len; i++)
        v[i] = sizes->dtype == RT_I32 ? ((const int32_t *)sizes->data)[i]
                                      : ((const int64_t *)sizes->data)[i];
    o->rank = sp + 2;
    if (len == sp) {
        o->dim[0] = back->dim[0];
        o->dim[kn_channel_axis(first, sp)] = filter->dim[sp];
        for (int i = 0; i < sp; i++)
            o->dim[kn_spatial_axis(first, i)] = v[i];
    } else {
        memcpy(o->dim, v, (size_t)len * sizeof *v);
    }
    for (int i = 0; i < o->rank; i++)
        if (o->dim[i] < 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Dimension %lld must be >= 0",
                           (long long)o->dim[i]);
    return RT_OK;
}

static enum rt_status match_back(const struct geometry *g, const struct rt_node *n,
                                 const struct rt_shape *back, struct rt_error *err)
{
    const bool first = kn_channels_first(n);
    const char *op = kernel_name(n);

    if (back->dim[0] != g->batch)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "%s: input and out_backprop must have the same batch size. Input batch: "
                       "%lld, outbackprop batch: %lld, batch_dim: 0",
                       op, (long long)g->batch, (long long)back->dim[0]);
    if (back->dim[kn_channel_axis(first, g->n_spatial)] != g->co)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "%s: filter and out_backprop must have the same out_depth", op);
    for (int i = 0; i < g->n_spatial; i++) {
        const struct kn_axis *a = &g->axis[i];
        const int64_t got = back->dim[kn_spatial_axis(first, i)];
        if (got != a->out)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "%s: Size of out_backprop doesn't match computed: actual = %lld, "
                           "computed = %lld spatial_dim: %d input: %lld filter: %lld output: %lld "
                           "stride: %lld dilation: %lld",
                           op, (long long)got, (long long)a->out, kn_spatial_axis(first, i),
                           (long long)a->in, (long long)a->size, (long long)got,
                           (long long)a->stride, (long long)a->dilation);
    }
    return RT_OK;
}

static bool is_exact(const struct rt_shape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 0)
            return false;
    return s->rank >= 0;
}

static enum rt_status infer_transposed(struct rt_infer *x)
{
    const struct rt_shape *filter = &x->in[1].shape, *back = &x->in[2].shape;
    struct rt_shape *o = &x->out[0].shape;
    struct geometry g;

    o->rank = n_spatial(x->node) + 2;
    for (int i = 0; i < o->rank; i++)
        o->dim[i] = -1;
    if (!x->in[0].value || !is_exact(filter) || !is_exact(back))
        return RT_OK;
    enum rt_status st = check_ranks(x->node, back, filter, x->err);
    if (!st)
        st = wanted_shape(x->node, x->in[0].value, filter, back, o, x->err);
    if (!st)
        st = solve(&g, x->node, o, filter, x->err);
    if (!st)
        st = match_back(&g, x->node, back, x->err);
    return st;
}

static void rows_transposed(struct rt_rows *r)
{
    /* Row i from row i of out_backprop; input_sizes may tell the batch size, no more. */
    if (r->in_dep[2].kind == RT_DEP_ROWS && r->in_dep[2].axis == 0 &&
        r->in_dep[1].kind == RT_DEP_NONE &&
        (r->in_dep[0].kind == RT_DEP_NONE || r->in_dep[0].kind == RT_DEP_SIZE))
        r->out_dep[0] = (struct rt_dep){RT_DEP_ROWS, 0};
    else if (r->in_dep[0].kind == RT_DEP_NONE && r->in_dep[1].kind == RT_DEP_NONE &&
             r->in_dep[2].kind == RT_DEP_NONE)
        r->out_dep[0].kind = RT_DEP_NONE;
}

/* ---- the obvious loops ---- */

/* Positions are counted over three axes; a missing one has length 1. */
struct walk {
    int64_t batch, ci, co, cig, cog, groups;
    struct kn_axis a[3];
};

static struct walk walk_of(const struct geometry *g)
{
    struct walk w = {.batch = g->batch,
                     .ci = g->ci,
                     .co = g->co,
                     .cig = g->groups ? g->ci / g->groups : 0,
                     .cog = g->groups ? g->co / g->groups : 0,
                     .groups = g->groups};
    w.a[0] = (struct kn_axis){.in = 1, .out = 1, .size = 1, .stride = 1, .dilation = 1};
    for (int i = 0; i < g->n_spatial; i++)
        w.a[3 - g->n_spatial + i] = g->axis[i];
    return w;
}

#define PLAIN(dt, T, U)                                                                            \
    KN_CLONES static void tap_##dt(const struct walk *w, const T *x, const T *f, T *y)             \
    {                                                                                              \
        for (int64_t g = 0; g < w->groups; g++)                                                    \
            for (int64_t i = 0; i < w->cig; i++) {                                                 \
                const U v = (U)x[g * w->cig + i];                                                  \
                const T *restrict fr = f + i * w->co + g * w->cog;                                 \
                T *restrict yr = y + g * w->cog;                                                   \
                for (int64_t o = 0; o < w->cog; o++)                                               \
                    yr[o] = (T)((U)yr[o] + v * (U)fr[o]);                                          \
            }                                                                                      \
    }                                                                                              \
    static void tap_back_##dt(const struct walk *w, T *x, const T *f, const T *y)                  \
    {                                                                                              \
        for (int64_t g = 0; g < w->groups; g++)                                                    \
            for (int64_t i = 0; i < w->cig; i++) {                                                 \
                const T *fr = f + i * w->co + g * w->cog, *yr = y + g * w->cog;                    \
                U s = 0;                                                                           \
                for (int64_t o = 0; o < w->cog; o++)                                               \
                    s += (U)yr[o] * (U)fr[o];                                                      \
                x[g * w->cig + i] = (T)((U)x[g * w->cig + i] + s);                                 \
            }                                                                                      \
    }                                                                                              \
    /* One window: `at` is its place in the output, `x` one picture. */                            \
    static void window_##dt(const struct walk *w, const int64_t *at, T *x, const T *f, T *y,       \
                            bool back)                                                             \
    {                                                                                              \
        int64_t lo[3], hi[3];                                                                      \
        for (int i = 0; i < 3; i++)                                                                \
            kn_axis_inside(&w->a[i], at[i], &lo[i], &hi[i]);                                       \
        for (int64_t d = lo[0]; d < hi[0]; d++)                                                    \
            for (int64_t h = lo[1]; h < hi[1]; h++)                                                \
                for (int64_t c = lo[2]; c < hi[2]; c++) {                                          \
                    const int64_t j[3] = {d, h, c};                                                \
                    int64_t p = 0, q = 0;                                                          \
                    for (int i = 0; i < 3; i++) {                                                  \
                        const struct kn_axis *a = &w->a[i];                                        \
                        p = p * a->in + at[i] * a->stride - a->lo + j[i] * a->dilation;            \
                        q = q * a->size + j[i];                                                    \
                    }                                                                              \
                    if (back)                                                                      \
                        tap_back_##dt(w, x + p * w->ci, f + q * w->cig * w->co, y);                \
                    else                                                                           \
                        tap_##dt(w, x + p * w->ci, f + q * w->cig * w->co, y);                     \
                }                                                                                  \
    }                                                                                              \
    /* Forward: y from x. Back: x from y. What is made is zero at first. */                        \
    static void plain_##dt(const struct walk *w, T *x, const T *f, T *y, bool back)                \
    {                                                                                              \
        int64_t at[3];                                                                             \
        const int64_t in = w->a[0].in * w->a[1].in * w->a[2].in * w->ci;                           \
        for (int64_t n = 0; n < w->batch; n++, x += in)                                            \
            for (at[0] = 0; at[0] < w->a[0].out; at[0]++)                                          \
                for (at[1] = 0; at[1] < w->a[1].out; at[1]++)                                      \
                    for (at[2] = 0; at[2] < w->a[2].out; at[2]++, y += w->co)                      \
                        window_##dt(w, at, x, f, y, back);                                         \
    }
PLAIN(RT_F32, float, float)
PLAIN(RT_F64, double, double)
PLAIN(RT_I32, int32_t, uint32_t)
#undef PLAIN

/* ---- state ---- */

struct conv {
    struct geometry g;
    enum rt_dtype dtype;
    int i_src, i_filter;
    int64_t n_src, n_filter, n_dst; /* elements */
    struct kn_tail tail;
    bool tail_after;              /* by our own loop: not as post-ops */
    bool empty;                   /* nothing to sum: the output is zero */
    struct kn_dnnl dnnl, reorder; /* prim NULL: loops; reorder: filter that is no constant */
    const struct rt_pack *filter; /* packed constant */
    size_t src_at, filter_at, packed_at, dst_at; /* in scratch: float copies, packed filter */
};

static int64_t count(const struct rt_shape *s)
{
    return rt_count(s->rank, s->dim);
}

static bool is_half(enum rt_dtype d)
{
    return d == RT_F16 || d == RT_BF16;
}

static enum rt_status refuse_format(const struct rt_prep *p)
{
    const struct rt_node *n = p->node;
    const struct rt_span f = rt_attr_str(n, "data_format");

    if (is_depthwise(n))
        return rt_fail(p->err, RT_UNIMPLEMENTED,
                       "Depthwise convolution on CPU is only supported for NHWC format");
    if (op_is(n, "Conv2D"))
        return rt_fail(p->err, RT_UNIMPLEMENTED,
                       "The Conv2D op currently only supports the NHWC tensor format on the CPU. "
                       "The op was given the format: %.*s",
                       (int)f.n, (const char *)f.p);
    if (op_is(n, "Conv3D"))
        return rt_fail(p->err, RT_INVALID_ARGUMENT,
                       "CPU implementation of Conv3D currently only supports the NHWC tensor "
                       "format.");
    if (n_spatial(n) == 3)
        return rt_fail(p->err, RT_INVALID_ARGUMENT,
                       "Conv3DBackpropInputOpV2 only supports NDHWC on the CPU.");
    return rt_fail(p->err, RT_INVALID_ARGUMENT, "Conv2DCustomBackpropInputOp only supports NHWC.");
}

static enum rt_status refuse_depthwise(const struct rt_node *n, struct rt_error *err)
{
    const int64_t *d, *s;
    const int h = kn_spatial_axis(kn_channels_first(n), 0);

    rt_attr_ints(n, "dilations", &d);
    rt_attr_ints(n, "strides", &s);
    if (d[h] != 1 || d[h + 1] != 1)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "Current kernel implementation does not support dilations, received "
                       "[%lld %lld %lld %lld]",
                       (long long)d[0], (long long)d[1], (long long)d[2], (long long)d[3]);
    if (s[h] != s[h + 1])
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Current implementation only supports equal length strides in the row and "
                       "column dimensions.");
    return RT_OK;
}

/* What TensorFlow's CPU kernels leave out. */
static enum rt_status refuse_rest(const struct rt_prep *p, const struct geometry *g)
{
    const bool deep = g->n_spatial == 3;
    const int64_t filter_in = p->in[1].shape.dim[g->n_spatial];
    bool dilated = false;

    if (g->depthwise)
        return refuse_depthwise(p->node, p->err);
    for (int i = 0; i < g->n_spatial; i++)
        dilated = dilated || g->axis[i].dilation != 1;
    if (dilated && g->transposed)
        return rt_fail(p->err, RT_INVALID_ARGUMENT,
                       deep ? "Current CPU implementation does not yet support dilation rates "
                              "larger than 1."
                            : "Current CPU implementations do not yet support dilation rates "
                              "larger than 1.");
    if (dilated && deep)
        return rt_fail(p->err, RT_INVALID_ARGUMENT,
                       "CPU implementation of Conv3D currently only supports dilated rates of 1.");
    if (g->groups == 1 || g->ci == 0 || (!deep && !g->transposed))
        return RT_OK;
    if (deep && g->transposed)
        return rt_fail(p->err, RT_INVALID_ARGUMENT,
                       "input and filter_sizes must have the same number of channels. Got %lld for "
                       "input and %lld for filter_sizes",
                       (long long)g->ci, (long long)filter_in);
    if (deep)
        return rt_fail(p->err, RT_INVALID_ARGUMENT,
                       "Number of channels in filter (%lld) must match last dimension of input "
                       "(%lld)",
                       (long long)filter_in, (long long)g->ci);
    return rt_fail(p->err, RT_INVALID_ARGUMENT,
                   "Gradients for grouped convolutions are not supported on CPU. Please file a "
                   "feature request if you run into this issue. Computed input depth %lld doesn't "
                   "match filter input depth %lld",
                   (long long)g->ci, (long long)filter_in);
}

static enum rt_status prepare_geometry(struct rt_prep *p, struct conv **out)
{
    const bool back = is_transposed(p->node);

    if (kn_channels_first(p->node))
        return refuse_format(p);
    struct conv *c = rt_prep_alloc(p, sizeof *c);
    if (!c)
        return p->err->code;
    const struct rt_shape *wide = back ? &p->out[0].shape : &p->in[0].shape;
    enum rt_status st = solve(&c->g, p->node, wide, &p->in[1].shape, p->err);
    if (!st)
        st = refuse_rest(p, &c->g);
    if (st)
        return st;
    c->dtype = p->out[0].dtype;
    c->i_src = back ? 2 : 0;
    c->i_filter = 1;
    kn_tail_read(&c->tail, p->node);
    c->tail_after = c->tail.n > 0;
    c->n_src = count(&p->in[c->i_src].shape);
    c->n_filter = count(&p->in[c->i_filter].shape);
    c->n_dst = count(&p->out[0].shape);
    if (c->n_src < 0 || c->n_filter < 0 || c->n_dst < 0)
        return rt_fail(p->err, RT_INVALID_ARGUMENT, "%s: a shape is not known", p->node->name);
    c->empty = !c->n_src || !c->n_filter || !c->n_dst;
    *out = c;
    return RT_OK;
}

/* Lays out float copies of halves after `used` bytes. */
static size_t place_floats(struct conv *c, size_t used, bool filter_too)
{
    if (!is_half(c->dtype))
        return used;
    const size_t size[] = {(size_t)c->n_src, filter_too ? (size_t)c->n_filter : 0,
                           (size_t)c->n_dst};
    size_t *at[] = {&c->src_at, &c->filter_at, &c->dst_at};
    for (int i = 0; i < 3; i++) {
        *at[i] = used;
        used += (size[i] * sizeof(float) + 63) / 64 * 64;
    }
    return used;
}

static enum rt_status prepare_plain(struct rt_prep *p, void **state)
{
    struct conv *c = NULL;
    const enum rt_status st = prepare_geometry(p, &c);
    if (st)
        return st;
    p->scratch_bytes = place_floats(c, 0, true);
    *state = c;
    return RT_OK;
}

static void run_loops(const struct conv *c, const void *src, const void *filter, void *dst)
{
    const struct walk w = walk_of(&c->g);
    const bool back = c->g.transposed;
    void *from = (void *)(uintptr_t)src; /* only read: x forward, y back */
    void *x = back ? dst : from, *y = back ? from : dst;

    if (c->dtype == RT_F64) {
        memset(dst, 0, (size_t)c->n_dst * sizeof(double));
        plain_RT_F64(&w, x, filter, y, back);
    } else if (c->dtype == RT_I32) {
        memset(dst, 0, (size_t)c->n_dst * sizeof(int32_t));
        plain_RT_I32(&w, x, filter, y, back);
    } else {
        memset(dst, 0, (size_t)c->n_dst * sizeof(float));
        plain_RT_F32(&w, x, filter, y, back);
    }
}

static enum rt_status run(struct rt_run *r)
{
    const struct conv *c = r->state;
    const void *src = r->in[c->i_src].data, *filter = r->in[c->i_filter].data;
    void *dst = r->out[0].data;
    char *room = r->scratch;
    enum rt_status st = RT_OK;

    if (c->empty) {
        if (c->n_dst) {
            memset(dst, 0, rt_tensor_bytes(&r->out[0]));
            kn_tail_apply(&c->tail, r, dst, c->n_dst / c->g.co, c->g.co);
        }
        return RT_OK;
    }
    if (is_half(c->dtype)) {
        kn_to_float(c->dtype, src, (void *)(room + c->src_at), c->n_src);
        src = room + c->src_at;
        if (!c->filter) {
            kn_to_float(c->dtype, filter, (void *)(room + c->filter_at), c->n_filter);
            filter = room + c->filter_at;
        }
        dst = room + c->dst_at;
    }
    if (!c->dnnl.prim) {
        run_loops(c, src, filter, dst);
    } else {
        const void *data[KN_DNNL_ARGS] = {
            src, c->filter ? rt_pack_data(c->filter) : room + c->packed_at, dst};
        if (!c->tail_after)
            kn_tail_data(&c->tail, r, data + 3);
        if (!c->filter) {
            const void *move[] = {filter, data[1]};
            st = kn_dnnl_run(&c->reorder, move, room, r->err, r->node->name);
        }
        if (!st)
            st = kn_dnnl_run(&c->dnnl, data, room, r->err, r->node->name);
    }
    if (!st && c->tail_after)
        kn_tail_apply(&c->tail, r, dst, c->n_dst / c->g.co, c->g.co);
    else if (!st)
        kn_tail_finish(&c->tail, dst, c->n_dst);
    if (!st && is_half(c->dtype))
        kn_from_float(c->dtype, dst, r->out[0].data, c->n_dst);
    return st;
}

/* ---- oneDNN ---- */

struct filter_format { /* what the bytes of a packed filter depend on */
    dnnl_memory_desc_t md;
    int64_t groups, ci, co;
    int n_spatial;
    bool transposed;
    int64_t size[KN_MAX_SPATIAL];
};

/* The filter as TensorFlow keeps it, under oneDNN's logical order
 * [groups,] output channels, input channels, spatial. */
static dnnl_status_t filter_md(const struct filter_format *f, dnnl_memory_desc_t *md, bool any)
{
    const int64_t cog = f->co / f->groups, cig = f->ci / f->groups;
    dnnl_dims_t dim, stride;
    int n = 0;

    if (f->groups > 1) {
        dim[n] = f->groups;
        stride[n++] = cog;
    }
    dim[n] = f->transposed ? cig : cog;
    stride[n++] = f->transposed ? f->co : 1;
    dim[n] = f->transposed ? cog : cig;
    stride[n++] = f->transposed ? 1 : f->co;
    int64_t step = cig * f->co;
    for (int i = f->n_spatial - 1; i >= 0; i--) {
        dim[n + i] = f->size[i];
        stride[n + i] = step;
        step *= f->size[i];
    }
    n += f->n_spatial;
    return any ? dnnl_memory_desc_init_by_tag(md, n, dim, dnnl_f32, dnnl_format_tag_any)
               : dnnl_memory_desc_init_by_strides(md, n, dim, dnnl_f32, stride);
}

static dnnl_status_t image_md(const struct geometry *g, bool wide, dnnl_memory_desc_t *md)
{
    dnnl_dims_t dim = {g->batch, wide ? g->ci : g->co};
    for (int i = 0; i < g->n_spatial; i++)
        dim[2 + i] = wide ? g->axis[i].in : g->axis[i].out;
    return dnnl_memory_desc_init_by_tag(md, g->n_spatial + 2, dim, dnnl_f32,
                                        g->n_spatial == 3 ? dnnl_ndhwc : dnnl_nhwc);
}

static void filter_format(const struct geometry *g, struct filter_format *f)
{
    memset(f, 0, sizeof *f); /* compared as bytes */
    f->groups = g->groups;
    f->ci = g->ci;
    f->co = g->co;
    f->n_spatial = g->n_spatial;
    f->transposed = g->transposed;
    for (int i = 0; i < g->n_spatial; i++)
        f->size[i] = g->axis[i].size;
}

static dnnl_status_t make_conv(struct conv *c, struct filter_format *f, bool with_tail)
{
    dnnl_primitive_attr_t attr = NULL;
    const struct geometry *g = &c->g;
    struct kn_dnnl *d = &c->dnnl;
    dnnl_dims_t stride, dilation, lo, hi;
    dnnl_memory_desc_t src, filter, dst;
    union {
        dnnl_convolution_desc_t forward;
        dnnl_deconvolution_desc_t back;
    } desc;

    for (int i = 0; i < g->n_spatial; i++) {
        const struct kn_axis *a = &g->axis[i];
        stride[i] = a->stride;
        dilation[i] = a->dilation - 1;
        lo[i] = a->lo;
        hi[i] = a->hi;
    }
    dnnl_status_t s = image_md(g, !g->transposed, &src);
    if (!s)
        s = image_md(g, g->transposed, &dst);
    if (!s)
        s = filter_md(f, &filter, true);
    if (!s && g->transposed)
        s = dnnl_dilated_deconvolution_forward_desc_init(&desc.back, dnnl_forward_inference,
                                                         dnnl_deconvolution_direct, &src, &filter,
                                                         NULL, &dst, stride, dilation, lo, hi);
    else if (!s)
        s = dnnl_dilated_convolution_forward_desc_init(&desc.forward, dnnl_forward_inference,
                                                       dnnl_convolution_direct, &src, &filter, NULL,
                                                       &dst, stride, dilation, lo, hi);
    if (!s && with_tail)
        s = kn_tail_attr(&c->tail, g->n_spatial + 2, g->co, &attr);
    if (!s)
        s = kn_dnnl_make(d, &desc, attr);
    dnnl_primitive_attr_destroy(attr);
    if (s)
        return s;
    d->n = 3;
    d->arg[0] = DNNL_ARG_SRC;
    d->arg[1] = DNNL_ARG_WEIGHTS;
    d->arg[2] = DNNL_ARG_DST;
    d->md[0] = src;
    d->md[1] = f->md = kn_dnnl_md(d, DNNL_ARG_WEIGHTS);
    d->md[2] = dst;
    if (with_tail)
        kn_tail_args(&c->tail, g->n_spatial + 2, g->co, d);
    return s;
}

static enum rt_status pack_filter(const struct rt_tensor *src, void *dst, const void *fmt,
                                  struct rt_error *err)
{
    const struct filter_format *f = fmt;
    const int64_t n = rt_tensor_count(src);
    struct rt_buffer *wide = NULL;
    const void *bytes = src->data;
    dnnl_memory_desc_t from;

    const dnnl_status_t s = filter_md(f, &from, false);
    if (s)
        return kn_dnnl_fail(err, s, "filter");
    if (src->dtype != RT_F32) {
        wide = rt_buffer_new(NULL, RT_F32, (size_t)n * sizeof(float), err);
        if (!wide)
            return RT_RESOURCE_EXHAUSTED;
        kn_to_float((enum rt_dtype)src->dtype, src->data, atomic_load(&wide->data), n);
        bytes = atomic_load(&wide->data);
    }
    const enum rt_status st = kn_dnnl_reorder(&from, bytes, &f->md, dst, err);
    rt_buffer_unref(wide);
    return st;
}

static void release(void *state)
{
    struct conv *c = state;
    kn_dnnl_clear(&c->dnnl);
    kn_dnnl_clear(&c->reorder);
}

static enum rt_status prepare_dnnl(struct rt_prep *p, void **state)
{
    struct filter_format f;
    struct conv *c = NULL;
    enum rt_status st = prepare_geometry(p, &c);

    if (st)
        return st;
    *state = c;
    if (c->empty)
        return RT_OK;
    filter_format(&c->g, &f);
    dnnl_status_t s = dnnl_unimplemented;
    if (c->tail.n) {
        s = make_conv(c, &f, true);
        c->tail_after = s != dnnl_success;
    }
    if (s)
        s = make_conv(c, &f, false);
    if (s == dnnl_unimplemented || s == dnnl_invalid_arguments) {
        p->scratch_bytes = place_floats(c, 0, true); /* the loops can */
        return RT_OK;
    }
    if (s)
        return kn_dnnl_fail(p->err, s, p->node->name);
    p->release = release;

    const size_t packed = dnnl_memory_desc_get_size(&f.md);
    st = rt_prep_pack(p, c->i_filter, &f, sizeof f, packed, pack_filter, &c->filter);
    if (st)
        return st;
    size_t used = c->dnnl.scratch_bytes;
    if (!c->filter) {
        dnnl_memory_desc_t from;
        dnnl_status_t made = filter_md(&f, &from, false);
        if (!made)
            made = kn_dnnl_make_reorder(&c->reorder, &from, &f.md);
        if (made)
            return kn_dnnl_fail(p->err, made, p->node->name);
        if (c->reorder.scratch_bytes > used)
            used = c->reorder.scratch_bytes;
        used = (used + 63) / 64 * 64;
        c->packed_at = used;
        used += packed;
    }
    p->scratch_bytes = place_floats(c, (used + 63) / 64 * 64, !c->filter);
    return RT_OK;
}

static int can_dnnl(const struct rt_prep *p)
{
    (void)p;
    return 2;
}

/* ---- rows of the table ---- */

#define DNNL_TYPES  (RT_T(RT_F32) | KN_SET(KN_HALFS))
#define PLAIN_TYPES (DNNL_TYPES | RT_T(RT_F64) | RT_T(RT_I32))

static int64_t tail(const struct rt_node *n, const struct rt_info *in, int *rank)
{
    const struct rt_shape *f = &in[1].shape;
    *rank = n_spatial(n) + 2;
    if (f->rank != *rank || kn_channels_first(n))
        return 0;
    if (!is_depthwise(n))
        return f->dim[*rank - 1];
    int64_t channels;
    return __builtin_mul_overflow(f->dim[2], f->dim[3], &channels) ? 0 : channels;
}

#define KERNELS(op_, name_, plain)                                                                 \
    KN_KERNELS({.op = op_,                                                                         \
                .device = "CPU",                                                                   \
                .name = name_ ".onednn",                                                           \
                .types = DNNL_TYPES,                                                               \
                .can = can_dnnl,                                                                   \
                .prepare = prepare_dnnl,                                                           \
                .run = run},                                                                       \
               {.op = op_,                                                                         \
                .device = "CPU",                                                                   \
                .name = name_ ".plain",                                                            \
                .types = plain,                                                                    \
                .prepare = prepare_plain,                                                          \
                .run = run})

const struct kn_entry kn_conv2d = {
    .op = {.name = "Conv2D", .check = check, .infer = infer, .rows = rt_rows_first, .tail = tail},
    .kernels = KERNELS("Conv2D", "conv2d", PLAIN_TYPES),
};
const struct kn_entry kn_conv3d = {
    .op = {.name = "Conv3D", .check = check, .infer = infer, .rows = rt_rows_first, .tail = tail},
    .kernels = KERNELS("Conv3D", "conv3d", PLAIN_TYPES & ~RT_T(RT_I32)),
};
const struct kn_entry kn_depthwise_conv2d_native = {
    .op = {.name = "DepthwiseConv2dNative",
           .check = check,
           .infer = infer,
           .rows = rt_rows_first,
           .tail = tail},
    .kernels = KERNELS("DepthwiseConv2dNative", "depthwise", PLAIN_TYPES & ~RT_T(RT_I32)),
};
const struct kn_entry kn_conv2d_backprop_input = {
    .op = {.name = "Conv2DBackpropInput",
           .shape_in = 1,
           .check = check,
           .infer = infer_transposed,
           .rows = rows_transposed},
    .kernels = KERNELS("Conv2DBackpropInput", "conv2d_transpose", PLAIN_TYPES),
};
const struct kn_entry kn_conv3d_backprop_input_v2 = {
    .op = {.name = "Conv3DBackpropInputV2",
           .shape_in = 1,
           .check = check,
           .infer = infer_transposed,
           .rows = rows_transposed},
    .kernels = KERNELS("Conv3DBackpropInputV2", "conv3d_transpose", PLAIN_TYPES & ~RT_T(RT_I32)),
};
