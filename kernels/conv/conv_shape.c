#include "kernels/conv/conv_shape.h"
#include "runtime/base/checked.h"

#include <string.h>

/* ---- attributes ---- */

static bool op_is(const struct rt_node *n, const char *name)
{
    return strcmp(n->schema->name, name) == 0;
}

bool kn_conv_is_transposed(const struct rt_node *n)
{
    return op_is(n, "Conv2DBackpropInput") || op_is(n, "Conv3DBackpropInputV2");
}

bool kn_conv_is_depthwise(const struct rt_node *n)
{
    return op_is(n, "DepthwiseConv2dNative");
}

static bool is_general(const struct rt_node *n)
{
    return op_is(n, "Conv");
}

int kn_conv_n_spatial(const struct rt_node *n)
{
    const int64_t *v;

    if (is_general(n))
        return rt_attr_ints(n, "strides", &v) == 5 ? 3 : 2;
    return op_is(n, "Conv3D") || op_is(n, "Conv3DBackpropInputV2") ||
                   op_is(n, "Conv3DBackpropFilterV2")
               ? 3
               : 2;
}

/* Checks the attribute `attr` ("strides" or "dilations"), which has one value for each dimension of
 * the data format. `field` is the attribute's name in TensorFlow's error messages. `zero` is the
 * message for a value out of range. */
static enum rt_status check_windows(const struct rt_node *n, const char *attr, const char *field,
                                    const char *zero, struct rt_error *err)
{
    const int sp = kn_conv_n_spatial(n), ch = kn_channel_axis(kn_channels_first(n), sp);
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

enum rt_status kn_conv_check_paddings(const struct rt_node *n, struct rt_error *err)
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
    const enum rt_status st = kn_check_paddings(n, err);
    if (st)
        return st;
    if (v[0] || v[1] || v[2 * ch] || v[2 * ch + 1])
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Nonzero explicit padding in the batch or depth dimensions is not "
                       "supported");
    return RT_OK;
}

enum rt_status kn_conv_check(const struct rt_node *n, struct rt_error *err)
{
    enum rt_status st =
        check_windows(n, "strides", "strides",
                      kn_conv_n_spatial(n) == 3 ? "Spatial strides should be larger than 0."
                                                : "Row and column strides should be larger than 0.",
                      err);
    if (!st)
        st = check_windows(n, "dilations", "dilations", "Dilated rates should be larger than 0.",
                           err);
    if (!st)
        st = kn_conv_check_paddings(n, err);
    return st;
}

void kn_conv_read_windows(const struct rt_node *n, struct kn_conv_shape *g)
{
    const bool first = kn_channels_first(n);
    const int64_t *strides, *dilations, *pads = NULL;
    const size_t n_dilations = rt_attr_ints(n, "dilations", &dilations);

    rt_attr_ints(n, "strides", &strides);
    if (kn_padding(n) == KN_EXPLICIT)
        rt_attr_ints(n, "explicit_paddings", &pads);
    for (int i = 0; i < g->n_spatial; i++) {
        const int at = kn_spatial_axis(first, i);
        g->axis[i].stride = strides[at];
        g->axis[i].dilation = n_dilations ? dilations[at] : 1; /* Conv may have none. */
        if (pads) {
            g->axis[i].lo = pads[2 * at];
            g->axis[i].hi = pads[2 * at + 1];
        }
    }
}

/* ---- shapes ---- */

/* Returns the name of TensorFlow's kernel, as it appears in TensorFlow's error messages. */
static const char *kernel_name(const struct rt_node *n)
{
    return kn_conv_n_spatial(n) == 3 ? "Conv3DBackpropInputOpV2" : "Conv2DCustomBackpropInput";
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
    const int rank = kn_conv_n_spatial(n) + 2;
    const bool flat = rank == 4, dw = kn_conv_is_depthwise(n);

    if (kn_conv_is_transposed(n) && in->rank != rank)
        return rt_fail(err, RT_INVALID_ARGUMENT, "input_sizes must be %d-dimensional, got: %d",
                       rank, in->rank);
    if (kn_conv_is_transposed(n) && filter->rank != rank)
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

/* Computes the numbers of groups and channels from the filter's last two dimensions. All dimensions
 * must be known. */
static enum rt_status solve_channels(struct kn_conv_shape *g, const struct rt_node *n,
                                     int64_t filter_in, int64_t filter_out, struct rt_error *err)
{
    if (g->depthwise) {
        if (filter_in != g->ci)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "input and filter must have the same depth: %lld vs %lld",
                           (long long)g->ci, (long long)filter_in);
        g->groups = g->ci;
        if (!rt_mul(g->ci, filter_out, &g->co))
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
    if (g->n_spatial == 3 && !g->transposed && g->ci == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "input and filter must have the same depth: 0 vs %lld",
                       (long long)filter_in);
    if (g->n_spatial == 3 && !g->transposed && filter_out == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "filter must not have zero elements (i.e. all dimensions must be non-zero)");
    if (g->n_spatial == 3 && g->transposed && g->ci == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "input and filter_sizes must have the same number of channels. Got 0 for "
                       "input and %lld for filter_sizes",
                       (long long)filter_in);
    g->groups = g->ci / filter_in;
    g->co = filter_out;
    if (g->groups && g->co % g->groups)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "output depth must be evenly divisible by number of groups: %lld vs %lld",
                       (long long)g->co, (long long)g->groups);
    return RT_OK;
}

/* Computes the shape of a convolution. Unknown dimensions are -1, and dimensions that depend on
 * them become -1 too. */
static enum rt_status solve(struct kn_conv_shape *g, const struct rt_node *n,
                            const struct rt_shape *in, const struct rt_shape *filter,
                            struct rt_error *err)
{
    const bool first = kn_channels_first(n);
    const int sp = kn_conv_n_spatial(n);

    memset(g, 0, sizeof *g);
    g->n_spatial = sp;
    g->depthwise = kn_conv_is_depthwise(n);
    g->transposed = kn_conv_is_transposed(n);
    kn_conv_read_windows(n, g);
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
        /* If the window of a depthwise convolution has no taps, TensorFlow (with oneDNN off) does
         * not fail, and the outputs are 0. */
        if (a->size == 0 && !g->depthwise)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "filter must not have zero elements (i.e. all dimensions must be "
                           "non-zero)");
        const enum rt_status st = kn_axis_solve(a, kn_padding(n), err);
        if (st)
            return st;
    }
    return RT_OK;
}

/* Returns the shape of a Conv's input with all batch dimensions in one. Returns the shape of
 * another op's input as it is. */
static struct rt_shape flattened(const struct rt_node *n, const struct rt_shape *in)
{
    const int outer = is_general(n) ? in->rank - kn_conv_n_spatial(n) - 1 : 1;
    struct rt_shape flat = {.rank = in->rank - outer + 1, .dim = {1}};

    if (outer == 1)
        return *in;
    for (int i = 0; i < outer; i++)
        if (in->dim[i] < 0 || flat.dim[0] < 0 || !rt_mul(flat.dim[0], in->dim[i], &flat.dim[0]))
            flat.dim[0] = -1;
    memcpy(flat.dim + 1, in->dim + outer, (size_t)(in->rank - outer) * sizeof *in->dim);
    return flat;
}

/* Replaces the single batch dimension of a Conv's output by those of its input. */
static void unflatten(const struct rt_node *n, const struct rt_shape *in, struct rt_shape *o)
{
    const int outer = is_general(n) ? in->rank - kn_conv_n_spatial(n) - 1 : 1;
    const struct rt_shape flat = *o;

    if (outer == 1)
        return;
    o->rank = flat.rank - 1 + outer;
    memcpy(o->dim, in->dim, (size_t)outer * sizeof *o->dim);
    memcpy(o->dim + outer, flat.dim + 1, (size_t)(flat.rank - 1) * sizeof *o->dim);
}

void kn_conv_out_shape(const struct rt_node *n, const struct kn_conv_shape *g, struct rt_shape *o)
{
    const bool first = kn_channels_first(n);

    o->rank = g->n_spatial + 2;
    o->dim[0] = g->batch;
    o->dim[kn_channel_axis(first, g->n_spatial)] = g->co;
    for (int i = 0; i < g->n_spatial; i++)
        o->dim[kn_spatial_axis(first, i)] = g->axis[i].out;
}

enum rt_status kn_conv_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape, *filter = &x->in[1].shape;
    struct rt_shape *o = &x->out[0].shape;
    struct kn_conv_shape g;

    if (in->rank < 0 || filter->rank < 0) {
        o->rank = is_general(x->node) ? in->rank : kn_conv_n_spatial(x->node) + 2;
        for (int i = 0; i < o->rank; i++)
            o->dim[i] = -1;
        return RT_OK;
    }
    const struct rt_shape flat = flattened(x->node, in);
    enum rt_status st = check_ranks(x->node, &flat, filter, x->err);
    if (!st)
        st = solve(&g, x->node, &flat, filter, x->err);
    if (st)
        return st;
    kn_conv_out_shape(x->node, &g, o);
    unflatten(x->node, in, o);
    return RT_OK;
}

/* ---- shapes of transposed convolutions ---- */

/* Reads the output shape that "input_sizes" requests. "input_sizes" contains either all
 * dimensions or only the spatial dimensions. */
static enum rt_status wanted_shape(const struct rt_node *n, const struct rt_tensor *sizes,
                                   const struct rt_shape *filter, const struct rt_shape *back,
                                   struct rt_shape *o, struct rt_error *err)
{
    const int sp = kn_conv_n_spatial(n);
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

static enum rt_status match_back(const struct kn_conv_shape *g, const struct rt_node *n,
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

enum rt_status kn_conv_infer_transposed(struct rt_infer *x)
{
    const struct rt_shape *filter = &x->in[1].shape, *back = &x->in[2].shape;
    struct rt_shape *o = &x->out[0].shape;
    struct kn_conv_shape g;

    o->rank = kn_conv_n_spatial(x->node) + 2;
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

void kn_conv_rows_transposed(struct rt_rows *r)
{
    /* Row i of the output depends on row i of out_backprop. input_sizes may depend on the batch
     * size, but not on the rows. */
    if (r->in_dep[2].kind == RT_DEP_ROWS && r->in_dep[2].axis == 0 &&
        r->in_dep[1].kind == RT_DEP_NONE &&
        (r->in_dep[0].kind == RT_DEP_NONE || r->in_dep[0].kind == RT_DEP_SIZE))
        r->out_dep[0] = (struct rt_dep){RT_DEP_ROWS, 0};
    else if (r->in_dep[0].kind == RT_DEP_NONE && r->in_dep[1].kind == RT_DEP_NONE &&
             r->in_dep[2].kind == RT_DEP_NONE)
        r->out_dep[0].kind = RT_DEP_NONE;
}

/* ---- what TensorFlow's CPU kernels do not implement ---- */

static enum rt_status refuse_format(const struct rt_prep *p)
{
    const struct rt_node *n = p->node;
    const struct rt_span f = is_general(n) ? rt_span_str("NCHW") : rt_attr_str(n, "data_format");

    if (kn_conv_is_depthwise(n))
        return rt_fail(p->err, RT_UNIMPLEMENTED,
                       "Depthwise convolution on CPU is only supported for NHWC format");
    if (op_is(n, "Conv2D") || (is_general(n) && kn_conv_n_spatial(n) == 2))
        return rt_fail(p->err, RT_UNIMPLEMENTED,
                       "The Conv2D op currently only supports the NHWC tensor format on the CPU. "
                       "The op was given the format: %.*s",
                       (int)f.n, (const char *)f.p);
    if (op_is(n, "Conv3D") || is_general(n))
        return rt_fail(p->err, RT_INVALID_ARGUMENT,
                       "CPU implementation of Conv3D currently only supports the NHWC tensor "
                       "format.");
    if (kn_conv_n_spatial(n) == 3)
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

/* Refuses attribute values that TensorFlow's CPU kernels do not implement, except data formats. */
static enum rt_status refuse_rest(const struct rt_prep *p, const struct kn_conv_shape *g)
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
    if (g->groups == 1 || (!deep && !g->transposed))
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

static bool is_known(const struct rt_shape *s)
{
    return s->rank >= 0 && rt_count(s->rank, s->dim) >= 0;
}

enum rt_status kn_conv_prepare(const struct rt_prep *p, struct kn_conv_shape *out)
{
    const bool back = kn_conv_is_transposed(p->node);

    if (kn_channels_first(p->node))
        return refuse_format(p);
    const struct rt_shape in = flattened(p->node, back ? &p->out[0].shape : &p->in[0].shape);
    enum rt_status st = solve(out, p->node, &in, &p->in[1].shape, p->err);
    if (!st)
        st = refuse_rest(p, out);
    if (!st && !(is_known(&p->in[back ? 2 : 0].shape) && is_known(&p->in[1].shape) &&
                 is_known(&p->out[0].shape)))
        st = rt_fail(p->err, RT_INVALID_ARGUMENT, "%s: a shape is not known", p->node->name);
    return st;
}

/* ---- arithmetic ---- */

/* Returns the FLOPs of a convolution that multiplies each element of a tensor of shape `of` by the
 * filter elements of its channel. The last dimension of the filter is the tensor's number of
 * channels. */
static double flops(const struct rt_shape *of, const struct rt_shape *filter)
{
    if (filter->rank < 2 || filter->dim[filter->rank - 1] <= 0)
        return 0;
    return 2 * rt_shape_elements(of) * rt_shape_elements(filter) /
           (double)filter->dim[filter->rank - 1];
}

double kn_conv_flops(const struct rt_node *n, const struct rt_shape *in, int n_in,
                     const struct rt_shape *out)
{
    (void)n, (void)n_in;
    return flops(out, &in[1]);
}

double kn_conv_flops_depthwise(const struct rt_node *n, const struct rt_shape *in, int n_in,
                               const struct rt_shape *out)
{
    (void)n, (void)n_in;
    const struct rt_shape *filter = &in[1];
    return filter->rank == 4
               ? 2 * rt_shape_elements(out) * (double)(filter->dim[0] * filter->dim[1])
               : 0;
}

double kn_conv_flops_transposed(const struct rt_node *n, const struct rt_shape *in, int n_in,
                                const struct rt_shape *out)
{
    (void)n, (void)out;
    return n_in > 2 ? flops(&in[2], &in[1]) : 0;
}
