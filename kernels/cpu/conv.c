/*
 * Convolutions over two or three spatial axes: Conv2D, Conv3D, DepthwiseConv2dNative, and their
 * transposes Conv2DBackpropInput and Conv3DBackpropInputV2; their shapes are in conv_shape.c.
 */
#include <string.h>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/conv_shape.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/tail.h"
#include "kernels/cpu/winograd_conv.h"
#include "kernels/entry.h"

/* ---- the obvious loops ---- */

/* Positions are counted over three axes; a missing one has length 1. */
struct walk {
    int64_t batch, ci, co, cig, cog, groups;
    struct kn_axis a[3];
};

static struct walk walk_of(const struct kn_conv_shape *g)
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

static int64_t window_work(const struct walk *w)
{
    const double work = (double)w->a[0].size * (double)w->a[1].size * (double)w->a[2].size *
                            (double)w->cig * (double)w->co +
                        64;
    return work < RT_WORK ? (int64_t)work : RT_WORK;
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
    static enum rt_status plain_##dt(const struct walk *w, T *x, const T *f, T *y, bool back,      \
                                     struct rt_run *r)                                             \
    {                                                                                              \
        int64_t at[3], left = RT_WORK;                                                             \
        const int64_t in = w->a[0].in * w->a[1].in * w->a[2].in * w->ci;                           \
        for (int64_t n = 0; n < w->batch; n++, x += in)                                            \
            for (at[0] = 0; at[0] < w->a[0].out; at[0]++)                                          \
                for (at[1] = 0; at[1] < w->a[1].out; at[1]++)                                      \
                    for (at[2] = 0; at[2] < w->a[2].out; at[2]++, y += w->co) {                    \
                        window_##dt(w, at, x, f, y, back);                                         \
                        if (rt_run_spend(r, &left, window_work(w)))                                \
                            return r->err->code;                                                   \
                    }                                                                              \
        return RT_OK;                                                                              \
    }
PLAIN(RT_F32, float, float)
PLAIN(RT_F64, double, double)
PLAIN(RT_I32, int32_t, uint32_t)
#undef PLAIN

/* ---- state ---- */

struct conv {
    struct kn_conv_shape g;
    enum rt_dtype dtype;
    int i_src, i_filter;
    int64_t n_src, n_filter, n_dst; /* elements */
    struct kn_tail tail;
    bool tail_after;              /* by our own loop: not as post-ops */
    bool empty;                   /* nothing to sum: the output is zero */
    int64_t images;               /* of one execution of dnnl: a large batch runs in blocks */
    int64_t rows;                 /* > 0: of one execution, outputs along the first axis */
    struct kn_conv_shape part;    /* what dnnl was made for: g, or such a block */
    size_t rows_at;               /* in scratch: a block's input with its padding */
    struct kn_dnnl dnnl, reorder; /* prim NULL: loops; reorder: filter that is no constant */
    const struct rt_pack *filter; /* packed constant */
    size_t src_at, filter_at, packed_at, dst_at; /* in scratch: float copies, packed filter */
    bool bf16;                                   /* dnnl multiplies bfloat16 */
    size_t bf16_at; /* in scratch: the input of one execution, rounded */
};

static int64_t count(const struct rt_shape *s)
{
    return rt_count(s->rank, s->dim);
}

static bool is_half(enum rt_dtype d)
{
    return d == RT_F16 || d == RT_BF16;
}

static enum rt_status prepare_shape(struct rt_prep *p, struct conv **out)
{
    struct conv *c = rt_prep_alloc(p, sizeof *c);
    if (!c)
        return p->err->code;
    const enum rt_status st = kn_conv_prepare(p, &c->g);
    if (st)
        return st;
    c->dtype = p->out[0].dtype;
    c->i_src = c->g.transposed ? 2 : 0;
    c->i_filter = 1;
    kn_tail_read(&c->tail, p->node);
    c->tail_after = c->tail.n > 0;
    c->n_src = count(&p->in[c->i_src].shape);
    c->n_filter = count(&p->in[c->i_filter].shape);
    c->n_dst = count(&p->out[0].shape);
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
    const enum rt_status st = prepare_shape(p, &c);
    if (st)
        return st;
    p->scratch_bytes = place_floats(c, 0, true);
    *state = c;
    return RT_OK;
}

static enum rt_status run_loops(const struct conv *c, const void *src, const void *filter,
                                void *dst, struct rt_run *r)
{
    const struct walk w = walk_of(&c->g);
    const bool back = c->g.transposed;
    void *from = (void *)(uintptr_t)src; /* only read: x forward, y back */
    void *x = back ? dst : from, *y = back ? from : dst;

    if (c->dtype == RT_F64) {
        memset(dst, 0, (size_t)c->n_dst * sizeof(double));
        return plain_RT_F64(&w, x, filter, y, back, r);
    }
    if (c->dtype == RT_I32) {
        memset(dst, 0, (size_t)c->n_dst * sizeof(int32_t));
        return plain_RT_I32(&w, x, filter, y, back, r);
    }
    memset(dst, 0, (size_t)c->n_dst * sizeof(float));
    return plain_RT_F32(&w, x, filter, y, back, r);
}

static int64_t row_of(const struct conv *c) /* elements of the input, along the first axis */
{
    return c->n_src / c->g.batch / c->g.axis[0].in;
}

/* n elements of input as dnnl wants them. */
static const void *rounded(const struct conv *c, const float *x, int64_t n, char *room)
{
    if (!c->bf16)
        return x;
    kn_bf16_round(x, (void *)(room + c->bf16_at), n);
    return room + c->bf16_at;
}

/* The input of `rows` outputs from `first` on, zeros where it lies outside. */
static void copy_rows(const struct conv *c, const float *image, int64_t first, float *to)
{
    const struct kn_axis *a = &c->g.axis[0];
    const int64_t row = row_of(c), n = c->part.axis[0].in;
    const int64_t at = first * a->stride - a->lo;
    const int64_t from = at < 0 ? (-at < n ? -at : n) : 0;
    const int64_t inside = a->in - at < n ? a->in - at : n, end = inside > from ? inside : from;

    memset(to, 0, (size_t)(from * row) * sizeof *to);
    if (end > from)
        memcpy(to + from * row, image + (at + from) * row,
               (size_t)((end - from) * row) * sizeof *to);
    memset(to + end * row, 0, (size_t)((n - end) * row) * sizeof *to);
}

static enum rt_status run_rows(const struct conv *c, const void **data, char *room,
                               struct rt_run *r)
{
    const float *src = data[0], *dst = data[2];
    const int64_t out = c->g.axis[0].out, line = c->n_dst / c->g.batch / out;
    float *block = (void *)(room + c->rows_at);
    enum rt_status st = RT_OK;

    for (int64_t n = 0; n < c->g.batch && !st; n++)
        for (int64_t done = 0; done < out && !st; done += c->rows) {
            /* The last block may overlap the one before it. */
            const int64_t first = done < out - c->rows ? done : out - c->rows;
            copy_rows(c, src + n * (c->n_src / c->g.batch), first, block);
            data[2] = dst + (n * out + first) * line;
            data[0] = rounded(c, block, c->part.axis[0].in * row_of(c), room);
            st = kn_dnnl_run(&c->dnnl, data, room, r->err, r->node->name);
            if (!st)
                st = rt_run_check(r);
        }
    data[0] = src;
    data[2] = dst;
    return st;
}

static enum rt_status run_blocks(const struct conv *c, const void **data, char *room,
                                 struct rt_run *r)
{
    const float *src = data[0], *dst = data[2];
    const int64_t src_size = c->n_src / c->g.batch, dst_size = c->n_dst / c->g.batch;
    enum rt_status st = RT_OK;

    for (int64_t done = 0; done < c->g.batch && !st; done += c->images) {
        /* The last block may overlap the one before it. */
        const int64_t i = done < c->g.batch - c->images ? done : c->g.batch - c->images;
        data[0] = rounded(c, src + i * src_size, c->images * src_size, room);
        data[2] = dst + i * dst_size;
        st = kn_dnnl_run(&c->dnnl, data, room, r->err, r->node->name);
        if (!st && done + c->images < c->g.batch)
            st = rt_run_check(r);
    }
    data[0] = src;
    data[2] = dst;
    return st;
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
        st = run_loops(c, src, filter, dst, r);
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
            st = c->rows ? run_rows(c, data, room, r) : run_blocks(c, data, room, r);
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
    bool transposed, bf16;
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
    return any ? dnnl_memory_desc_init_by_tag(md, n, dim, f->bf16 ? dnnl_bf16 : dnnl_f32,
                                              dnnl_format_tag_any)
               : dnnl_memory_desc_init_by_strides(md, n, dim, dnnl_f32, stride);
}

/* Images whose products take some ten milliseconds. */
static int64_t images_of_block(const struct kn_conv_shape *g)
{
    const double most = 4e8;
    double image = (double)g->co * (double)g->ci / (double)g->groups;
    for (int i = 0; i < g->n_spatial; i++)
        image *= (double)g->axis[i].size * (double)(g->transposed ? g->axis[i].in : g->axis[i].out);
    if (image * (double)g->batch <= 2 * most)
        return g->batch;
    const int64_t n = (int64_t)(most / image);
    return n < 1 ? 1 : n < g->batch ? n : g->batch;
}

/* Whether one image alone is too much for one execution: it is then done so many outputs of the
 * first axis at a time. Their input is copied with its padding, so that all blocks are alike. */
static int64_t rows_of_block(const struct kn_conv_shape *g)
{
    const double most = 4e8;
    double row = (double)g->co * (double)g->ci / (double)g->groups * (double)g->axis[0].size;
    for (int i = 1; i < g->n_spatial; i++)
        row *= (double)g->axis[i].size * (double)g->axis[i].out;
    if (g->transposed || row * (double)g->axis[0].out <= 2 * most)
        return 0;
    const int64_t n = (int64_t)(most / row);
    return n < 4 ? (g->axis[0].out < 4 ? 0 : 4) : n;
}

static dnnl_status_t image_md(const struct kn_conv_shape *g, int64_t images, bool wide,
                              dnnl_data_type_t type, dnnl_memory_desc_t *md)
{
    dnnl_dims_t dim = {images, wide ? g->ci : g->co};
    for (int i = 0; i < g->n_spatial; i++)
        dim[2 + i] = wide ? g->axis[i].in : g->axis[i].out;
    return dnnl_memory_desc_init_by_tag(md, g->n_spatial + 2, dim, type,
                                        g->n_spatial == 3 ? dnnl_ndhwc : dnnl_nhwc);
}

static void filter_format(const struct kn_conv_shape *g, struct filter_format *f)
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
    const struct kn_conv_shape *g = &c->part;
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
    dnnl_status_t s = image_md(g, c->images, !g->transposed, f->bf16 ? dnnl_bf16 : dnnl_f32, &src);
    if (!s)
        s = image_md(g, c->images, g->transposed, dnnl_f32, &dst);
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

static dnnl_status_t make_fitting(struct conv *c, struct filter_format *f)
{
    dnnl_status_t s = dnnl_unimplemented;
    if (c->tail.n) {
        s = make_conv(c, f, true);
        c->tail_after = s != dnnl_success;
    }
    return s ? make_conv(c, f, false) : s;
}

/* Few channels, and those of a depthwise convolution, are moved more than multiplied. */
static bool pays_in_bf16(const struct kn_conv_shape *g, enum rt_dtype dtype)
{
    return dtype == RT_F32 && !g->transposed && g->groups == 1 && g->ci >= 16 &&
           kn_bf16_multiplies();
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
    enum rt_status st = prepare_shape(p, &c);

    if (st)
        return st;
    *state = c;
    if (c->empty)
        return RT_OK;
    c->images = images_of_block(&c->g);
    c->rows = c->images == 1 ? rows_of_block(&c->g) : 0;
    c->part = c->g;
    if (c->rows) {
        struct kn_axis *a = &c->part.axis[0];
        a->out = c->rows;
        a->in = (c->rows - 1) * a->stride + (a->size - 1) * a->dilation + 1;
        a->lo = a->hi = 0;
    }
    filter_format(&c->g, &f);
    f.bf16 = p->tuning->bf16 && pays_in_bf16(&c->g, c->dtype);
    dnnl_status_t s = make_fitting(c, &f);
    if (s && f.bf16) {
        f.bf16 = false;
        s = make_fitting(c, &f);
    }
    c->bf16 = f.bf16;
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
    used = (used + 63) / 64 * 64;
    if (c->rows) {
        c->rows_at = used;
        used += ((size_t)(c->part.axis[0].in * row_of(c)) * sizeof(float) + 63) / 64 * 64;
    }
    if (c->bf16) {
        const int64_t n =
            c->rows ? c->part.axis[0].in * row_of(c) : c->n_src / c->g.batch * c->images;
        c->bf16_at = used;
        used += ((size_t)n * sizeof(struct kn_bfloat) + 63) / 64 * 64;
    }
    p->scratch_bytes = place_floats(c, used, !c->filter);
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
    *rank = kn_conv_n_spatial(n) + 2;
    if (f->rank != *rank || kn_channels_first(n))
        return 0;
    if (!kn_conv_is_depthwise(n))
        return f->dim[*rank - 1];
    int64_t channels;
    return __builtin_mul_overflow(f->dim[2], f->dim[3], &channels) ? 0 : channels;
}

#define ROWS(op_, name_, plain)                                                                    \
    {.op = op_,                                                                                    \
     .device = "CPU",                                                                              \
     .name = name_ ".onednn",                                                                      \
     .types = DNNL_TYPES,                                                                          \
     .flags = RT_K_TIMED,                                                                          \
     .can = can_dnnl,                                                                              \
     .prepare = prepare_dnnl,                                                                      \
     .run = run},                                                                                  \
    {                                                                                              \
        .op = op_, .device = "CPU", .name = name_ ".plain", .types = plain,                        \
        .prepare = prepare_plain, .run = run                                                       \
    }
#define KERNELS(op_, name_, plain) KN_KERNELS(ROWS(op_, name_, plain))

const struct kn_entry kn_conv2d = {
    .op = {.name = "Conv2D",
           .check = kn_conv_check,
           .infer = kn_conv_infer,
           .rows = rt_rows_first,
           .tail = tail},
    .kernels = KN_KERNELS({.op = "Conv2D",
                           .device = "CPU",
                           .name = "conv2d.winograd4",
                           .types = RT_T(RT_F32),
                           .flags = RT_K_TIMED,
                           .can = kn_winograd4_can,
                           .prepare = kn_winograd4_prepare,
                           .run = kn_winograd_conv},
                          {.op = "Conv2D",
                           .device = "CPU",
                           .name = "conv2d.winograd2",
                           .types = RT_T(RT_F32),
                           .flags = RT_K_TIMED,
                           .can = kn_winograd2_can,
                           .prepare = kn_winograd2_prepare,
                           .run = kn_winograd_conv},
                          ROWS("Conv2D", "conv2d", PLAIN_TYPES)),
};
const struct kn_entry kn_conv3d = {
    .op = {.name = "Conv3D",
           .check = kn_conv_check,
           .infer = kn_conv_infer,
           .rows = rt_rows_first,
           .tail = tail},
    .kernels = KERNELS("Conv3D", "conv3d", PLAIN_TYPES & ~RT_T(RT_I32)),
};
const struct kn_entry kn_depthwise_conv2d_native = {
    .op = {.name = "DepthwiseConv2dNative",
           .check = kn_conv_check,
           .infer = kn_conv_infer,
           .rows = rt_rows_first,
           .tail = tail},
    .kernels = KERNELS("DepthwiseConv2dNative", "depthwise", PLAIN_TYPES & ~RT_T(RT_I32)),
};
const struct kn_entry kn_conv2d_backprop_input = {
    .op = {.name = "Conv2DBackpropInput",
           .shape_in = 1,
           .check = kn_conv_check,
           .infer = kn_conv_infer_transposed,
           .rows = kn_conv_rows_transposed},
    .kernels = KERNELS("Conv2DBackpropInput", "conv2d_transpose", PLAIN_TYPES),
};
const struct kn_entry kn_conv3d_backprop_input_v2 = {
    .op = {.name = "Conv3DBackpropInputV2",
           .shape_in = 1,
           .check = kn_conv_check,
           .infer = kn_conv_infer_transposed,
           .rows = kn_conv_rows_transposed},
    .kernels = KERNELS("Conv3DBackpropInputV2", "conv3d_transpose", PLAIN_TYPES & ~RT_T(RT_I32)),
};
