/*
 * The gradients of convolutions with respect to the filter: Conv2DBackpropFilter and
 * Conv3DBackpropFilterV2.
 *
 * The gradient is a GEMM: the transposed windows of the input times the gradient of the output.
 * im2col copies the windows of one block of pixels at a time. The product of each block is added to
 * the result. A convolution over three axes is computed as one convolution over two axes for each
 * tap along the first axis.
 */
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/conv/conv_shape.h"
#include "kernels/conv/im2col.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/matmul/gemm.h"
#include "runtime/base/checked.h"
#include "runtime/exec/parallel.h"

enum { INPUT, SIZES, BACK };

/* ---- shapes ---- */

static const char *kernel_name(const struct rt_node *n)
{
    return kn_conv_n_spatial(n) == 3 ? "Conv3DBackpropFilterOp" : "Conv2DCustomBackpropFilter";
}

static enum rt_status read_sizes(const struct rt_node *n, const struct rt_tensor *sizes,
                                 struct rt_shape *o, struct rt_error *err)
{
    const int rank = kn_conv_n_spatial(n) + 2;

    if (sizes->rank != 1)
        return rank == 5 ? rt_fail(err, RT_INVALID_ARGUMENT,
                                   "filter_sizes shape must be rank 1 but is rank %d", sizes->rank)
                         : rt_fail(err, RT_INVALID_ARGUMENT,
                                   "%s: filter_sizes input must be 1-dim, not %d", kernel_name(n),
                                   sizes->rank);
    for (int i = 0; i < sizes->dim[0] && i < RT_MAX_RANK; i++)
        if (kn_int_at(sizes, i) < 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Dimension %lld must be >= 0",
                           (long long)kn_int_at(sizes, i));
    if (sizes->dim[0] != rank)
        return rank == 5
                   ? rt_fail(err, RT_INVALID_ARGUMENT, "filter_sizes tensor must have 5 dimensions")
                   : rt_fail(err, RT_INVALID_ARGUMENT, "%s: filter must be 4-dimensional",
                             kernel_name(n));
    o->rank = rank;
    for (int i = 0; i < rank; i++)
        o->dim[i] = kn_int_at(sizes, i);
    return RT_OK;
}

static enum rt_status check_rank(const struct rt_node *n, const struct rt_shape *s,
                                 const char *name, struct rt_error *err)
{
    const int rank = kn_conv_n_spatial(n) + 2;

    if (s->rank < 0 || s->rank == rank)
        return RT_OK;
    return rank == 5 ? rt_fail(err, RT_INVALID_ARGUMENT, "%s tensor must have 5 dimensions", name)
                     : rt_fail(err, RT_INVALID_ARGUMENT, "%s: %s must be 4-dimensional",
                               kernel_name(n), name);
}

static enum rt_status check_channels(const struct kn_conv_shape *g, const struct rt_node *n,
                                     int64_t filter_in, int64_t back_out, struct rt_error *err)
{
    const char *const op = kernel_name(n);
    const bool deep = g->n_spatial == 3;

    if (deep && filter_in != g->ci)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "input and filter_sizes must have the same number of channels. Got %lld for "
                       "input and %lld for filter_sizes",
                       (long long)g->ci, (long long)filter_in);
    if (deep && back_out != g->co)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "out_backprop and filter_sizes must have the same number of channels. Got "
                       "%lld for out_backprop and %lld for filter_sizes",
                       (long long)back_out, (long long)g->co);
    if (filter_in == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "%s: filter depth must be strictly greated than zero", op);
    if (g->ci % filter_in)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "%s: input depth must be evenly divisible by filter depth", op);
    if (back_out != g->co)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "%s: filter and out_backprop must have the same out_depth", op);
    return RT_OK;
}

/* Sets *g from the shapes of the input, the filter and the gradient, which must be known. The
 * channels must be the last axis. */
static enum rt_status solve(struct kn_conv_shape *g, const struct rt_node *n,
                            const struct rt_shape *in, const struct rt_shape *filter,
                            const struct rt_shape *back, struct rt_error *err)
{
    const int sp = kn_conv_n_spatial(n);
    const char *const op = kernel_name(n);

    *g = (struct kn_conv_shape){
        .n_spatial = sp, .batch = in->dim[0], .ci = in->dim[sp + 1], .co = filter->dim[sp + 1]};
    kn_conv_read_windows(n, g);
    if (back->dim[0] != g->batch)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "%s: input and out_backprop must have the same batch size. Input batch: "
                       "%lld, outbackprop batch: %lld, batch_dim: 0",
                       op, (long long)g->batch, (long long)back->dim[0]);
    enum rt_status st = check_channels(g, n, filter->dim[sp], back->dim[sp + 1], err);
    for (int i = 0; i < sp && !st; i++) {
        struct kn_axis *a = &g->axis[i];
        a->in = in->dim[1 + i];
        a->size = filter->dim[i];
        st = kn_axis_solve(a, kn_padding(n), err);
        if (!st && a->out != back->dim[1 + i])
            st = rt_fail(err, RT_INVALID_ARGUMENT,
                         "%s: Size of out_backprop doesn't match computed: actual = %lld, "
                         "computed = %lld spatial_dim: %d input: %lld filter: %lld output: %lld "
                         "stride: %lld dilation: %lld",
                         op, (long long)back->dim[1 + i], (long long)a->out, 1 + i,
                         (long long)a->in, (long long)a->size, (long long)back->dim[1 + i],
                         (long long)a->stride, (long long)a->dilation);
        if (!st && a->dilation != 1)
            st = rt_fail(err, RT_INVALID_ARGUMENT,
                         "Current CPU implementation%s not yet support dilation rates larger than "
                         "1.",
                         sp == 3 ? " does" : "s do");
    }
    return st;
}

static enum rt_status filter_grad_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[INPUT].shape, *back = &x->in[BACK].shape;
    struct rt_shape *o = &x->out[0].shape;
    struct kn_conv_shape g;

    o->rank = kn_conv_n_spatial(x->node) + 2;
    for (int i = 0; i < o->rank; i++)
        o->dim[i] = -1;
    enum rt_status st = check_rank(x->node, in, "input", x->err);
    if (!st)
        st = check_rank(x->node, back, "out_backprop", x->err);
    if (st || !x->in[SIZES].value)
        return st;
    st = read_sizes(x->node, x->in[SIZES].value, o, x->err);
    if (st || !kn_shape_known(in) || !kn_shape_known(back) || kn_channels_first(x->node))
        return st;
    return solve(&g, x->node, in, o, back, x->err);
}

static double filter_grad_flops(const struct rt_node *n, const struct rt_shape *in, int n_in,
                                const struct rt_shape *out)
{
    (void)n;
    return n_in > 2 && out->rank > 1 && out->dim[out->rank - 1] > 0
               ? 2 * rt_shape_elements(&in[BACK]) * rt_shape_elements(out) /
                     (double)out->dim[out->rank - 1]
               : 0;
}

/* ---- preparing ---- */

enum {
    ROWS = 512,  /* number of pixels in a block */
    TERMS = 512, /* number of terms per window in one call of im2col */
    /* cost of reading or writing one element, in multiplications */
    MACS_PER_ELEMENT = 32,
};

struct filter_grad {
    struct kn_conv_shape g;
    struct kn_im2col im2col;
    struct kn_axis deep; /* the first axis of a convolution over three axes */
    enum rt_dtype dtype, compute;
    bool in_place;  /* whether the GEMM reads the windows from the input itself */
    int64_t pixels; /* number of pixels of the output */
    /* A window over two axes has `terms` terms, which are divided into `groups` groups of at most
     * TERMS terms. */
    int64_t terms, groups;
    int64_t n_in, n_back, n_out;
    int n_slots; /* number of shards that run concurrently */
    size_t slot_bytes;
    /* offsets in scratch memory of float copies of half-precision tensors */
    size_t in_at, back_at, out_at;
};

static bool is_half(enum rt_dtype d)
{
    return d == RT_F16 || d == RT_BF16;
}

static enum rt_status filter_grad_prepare(struct rt_prep *p, void **state)
{
    struct filter_grad *s = rt_prep_alloc(p, sizeof *s);
    const struct rt_shape *out = &p->out[0].shape;
    const int sp = kn_conv_n_spatial(p->node);

    if (!s)
        return p->err->code;
    *state = s;
    if (kn_channels_first(p->node))
        return rt_fail(p->err, RT_INVALID_ARGUMENT,
                       sp == 3 ? "Conv3DBackpropFilterOpV2 only supports NDHWC on the CPU."
                               : "Conv2DCustomBackpropFilterOp only supports NHWC.");
    const enum rt_status st =
        solve(&s->g, p->node, &p->in[INPUT].shape, out, &p->in[BACK].shape, p->err);
    if (st)
        return st;
    const struct kn_axis *y = &s->g.axis[sp - 2], *x = &s->g.axis[sp - 1];
    s->dtype = p->out[0].dtype;
    s->compute = is_half(s->dtype) ? RT_F32 : s->dtype;
    s->im2col = kn_im2col_of(y, x, s->g.ci, rt_dtype_size(s->compute));
    s->deep = sp == 3 ? s->g.axis[0] : kn_axis_none();
    s->n_in = kn_shape_total(&p->in[INPUT].shape);
    s->n_back = kn_shape_total(&p->in[BACK].shape);
    s->n_out = kn_shape_total(out);
    if (s->g.batch && s->n_back && s->n_out && out->dim[sp] != s->g.ci)
        return rt_fail(p->err, RT_INVALID_ARGUMENT,
                       "filter_size does not have enough elements, requested %lld, got %lld",
                       (long long)(s->n_out / out->dim[sp] * s->g.ci), (long long)s->n_out);
    s->pixels = s->g.co ? s->n_back / s->g.co : 0;
    if (!rt_mul(y->size * x->size, s->g.ci, &s->terms) || s->terms > INT32_MAX ||
        s->g.co > INT32_MAX)
        return rt_fail(p->err, RT_RESOURCE_EXHAUSTED, "%s: the filter is too large", p->node->name);
    s->in_place = s->deep.size == 1 && s->deep.stride == 1 && s->deep.in == s->deep.out &&
                  y->size == 1 && x->size == 1 && y->stride == 1 && x->stride == 1 &&
                  y->in == y->out && x->in == x->out;
    s->groups = kn_div_up(s->terms, TERMS);
    const double macs = (double)s->pixels * (double)s->n_out;
    const int64_t most = macs / KN_SHARD_MACS < (double)rt_prep_width(p)
                             ? (int64_t)(macs / KN_SHARD_MACS)
                             : rt_prep_width(p);
    s->n_slots = (int)(most < 1 ? 1 : kn_min_i64(most, s->groups * s->deep.size));
    s->slot_bytes =
        s->in_place ? 0 : kn_padded((size_t)(ROWS * kn_min_i64(TERMS, s->terms)) * s->im2col.size);
    size_t used = (size_t)s->n_slots * s->slot_bytes;
    if (is_half(s->dtype)) {
        s->in_at = used;
        s->back_at = s->in_at + kn_padded((size_t)s->n_in * sizeof(float));
        s->out_at = s->back_at + kn_padded((size_t)s->n_back * sizeof(float));
        used = s->out_at + kn_padded((size_t)s->n_out * sizeof(float));
    }
    p->scratch_bytes = used;
    return RT_OK;
}

/* ---- the run ---- */

struct work {
    const char *in, *back;
    char *out, *slots;
};

/* Copies terms [from, to) of the windows of `rows` pixels. A row of `dst` has (to - from) elements.
 * `tap` is the tap along the first of three axes. */
static void filter_grad_im2col(const struct filter_grad *s, const char *in, int64_t tap,
                               int64_t pixel, int64_t rows, int64_t from, int64_t to, char *dst)
{
    const struct kn_axis *ay = &s->im2col.y, *ax = &s->im2col.x, *ad = &s->deep;
    const int64_t plane = ay->in * ax->in * s->g.ci * (int64_t)s->im2col.size;
    const size_t bytes = (size_t)(to - from) * s->im2col.size;

    for (int64_t i = pixel; i < pixel + rows; i++, dst += bytes) {
        const int64_t x = i % ax->out, y = i / ax->out % ay->out, z = i / ax->out / ay->out;
        const int64_t depth = z % ad->out * ad->stride - ad->lo + tap;
        if (depth < 0 || depth >= ad->in)
            memset(dst, 0, bytes);
        else
            kn_im2col_row(&s->im2col, in + (z / ad->out * ad->in + depth) * plane,
                          y * ay->stride - ay->lo, x * ax->stride - ax->lo, from, to, dst);
    }
}

/* Computes the gradients of one group of terms of one tap along the first axis. */
static enum rt_status filter_grad_shard(struct rt_run *r, void *arg, int64_t i, int64_t slot)
{
    const struct filter_grad *s = r->state;
    const struct work *w = arg;
    const int64_t tap = i / s->groups, from = i % s->groups * TERMS;
    const int64_t to = kn_min_i64(from + TERMS, s->terms), size = (int64_t)s->im2col.size;
    char *copies = s->in_place ? NULL : w->slots + (size_t)slot * s->slot_bytes;
    char *out = w->out + (tap * s->terms + from) * s->g.co * size;
    struct kn_gemm gemm = {.dtype = s->compute,
                           .ta = KN_TRANS,
                           .m = to - from,
                           .lda = s->in_place ? s->terms : to - from,
                           .ldb = s->g.co,
                           .ldc = s->g.co};
    const int64_t cols = kn_min_i64(s->g.co, KN_CHECK_MACS / (ROWS * gemm.m));
    int64_t left = RT_WORK;

    for (int64_t pixel = 0; pixel < s->pixels; pixel += ROWS) {
        const char *a = s->in_place ? w->in + (pixel * s->terms + from) * size : copies;
        gemm.k = kn_min_i64(ROWS, s->pixels - pixel);
        if (!s->in_place)
            filter_grad_im2col(s, w->in, tap, pixel, gemm.k, from, to, copies);
        for (int64_t col = 0; col < s->g.co; col += cols) {
            gemm.n = kn_min_i64(cols, s->g.co - col);
            kn_gemm_add(&gemm, a, w->back + (pixel * s->g.co + col) * size, out + col * size);
            if (rt_run_spend(r, &left, gemm.k * gemm.m * (gemm.n / MACS_PER_ELEMENT + 1)))
                return r->err->code;
        }
    }
    return RT_OK;
}

static enum rt_status filter_grad_run(struct rt_run *r)
{
    const struct filter_grad *s = r->state;
    char *scratch = r->scratch;
    struct work w = {r->in[INPUT].data, r->in[BACK].data, r->out[0].data, scratch};
    enum rt_status st = RT_OK;

    if (!s->n_out)
        return RT_OK;
    if (!s->n_in || !s->n_back)
        return kn_zero_chunks(r, w.out, rt_tensor_bytes(&r->out[0]));
    if (is_half(s->dtype)) {
        float *in = (void *)(scratch + s->in_at), *back = (void *)(scratch + s->back_at);
        st = kn_to_float_rows(r, s->dtype, w.in, s->n_in, in, 1, s->n_in);
        if (!st)
            st = kn_to_float_rows(r, s->dtype, w.back, s->n_back, back, 1, s->n_back);
        w = (struct work){(char *)in, (char *)back, scratch + s->out_at, scratch};
    }
    if (!st)
        st = kn_zero_chunks(r, w.out, (size_t)s->n_out * s->im2col.size);
    const int64_t n = s->groups * s->deep.size;
    if (!st && s->n_slots > 1 && rt_run_width(r) > 1)
        st = kn_parallel_shards(r, n, s->n_slots, filter_grad_shard, &w);
    else
        for (int64_t i = 0; i < n && !st; i++)
            st = filter_grad_shard(r, &w, i, 0);
    if (!st && is_half(s->dtype))
        st = kn_from_float_rows(r, s->dtype, (const float *)(const void *)w.out, r->out[0].data,
                                s->n_out, 1, s->n_out);
    return st;
}

#define ENTRY(symbol, tf, kernel)                                                                  \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (tf),                                                                       \
               .shape_in = 1 << SIZES,                                                             \
               .check = kn_conv_check,                                                             \
               .infer = filter_grad_infer,                                                         \
               .flops = filter_grad_flops},                                                        \
        .kernels = KN_CPU(tf, kernel, KN_SET(KN_FLOATS) | KN_SET(KN_HALFS), filter_grad_prepare,   \
                          filter_grad_run),                                                        \
    };
ENTRY(conv2d_backprop_filter, "Conv2DBackpropFilter", "conv2d_filter")
ENTRY(conv3d_backprop_filter_v2, "Conv3DBackpropFilterV2", "conv3d_filter")
