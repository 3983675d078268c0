/*
 * Convolutions over two or three spatial axes: Conv2D, Conv3D, DepthwiseConv2dNative, and the
 * transposed convolutions Conv2DBackpropInput and Conv3DBackpropInputV2. Their shapes are in
 * conv_shape.c.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cpu/bf16.h"
#include "kernels/conv/conv_split.h"
#include "kernels/conv/conv_plain.h"
#include "kernels/conv/conv_gemm.h"
#include "kernels/conv/conv_shape.h"
#include "kernels/conv/depthwise_conv.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/matmul/gemm.h"
#include "kernels/cpu/parallel.h"
#include "kernels/fused/epilogue.h"
#include "kernels/conv/winograd_conv.h"
#include "kernels/conv/winograd_1d_conv.h"
#include "kernels/entry.h"
#include "runtime/exec/parallel.h"
#include "runtime/base/checked.h"

/* ---- state ---- */

struct filter_format { /* The key of a packed filter: everything that its bytes depend on. */
    dnnl_memory_desc_t md;
    int64_t groups, ci, co;
    int n_spatial;
    bool transposed, bf16;
    int64_t size[KN_MAX_SPATIAL];
    /* co or 0: this many floats follow the struct and multiply the output channels */
    int64_t n_scale;
};

struct slice { /* Executions of one shape: see conv_split.h. */
    struct kn_conv_shape g;
    struct kn_dnnl dnnl;
    /* the primitive without the activation, made when NaN was met */
    _Atomic(struct kn_dnnl *) unfused;
};
struct split {
    struct kn_conv_split by;
    struct slice slice[KN_CONV_SLICES];
    /*
     * > 0: the split is along the output channels. Each execution computes this many channels of
     * all images (slice KN_CONV_FIRST; the last execution, KN_CONV_LAST, the channels that are
     * left). Used where the filter is larger than what it is multiplied with, so that each core
     * reads only its share of the filter.
     */
    int64_t channels;
    /* Scratch memory of one execution: oneDNN's at 0, then the input rounded to bfloat16, then
     * outputs that are computed out of place before they go to the tensor. */
    size_t bf16_at, apart_at, bytes;
};
/* SERIAL: executions one after the other on one core. SHARDED: executions that give several cores
 * equal work. */
enum { SERIAL, SHARDED, N_SPLITS };

struct conv {
    struct kn_conv_shape g;
    enum rt_dtype dtype;
    int i_src, i_filter;
    int64_t n_src, n_filter, n_dst; /* elements */
    struct kn_epilogue epilogue;    /* the steps of the epilogue that oneDNN does not compute */
    int bias;                       /* the input that oneDNN adds as bias; 0: none */
    bool activates;                 /* oneDNN computes the activation */
    atomic_int met_nan;
    bool empty; /* the sums have no terms: the output is zero */
    bool by_library;
    struct split split[N_SPLITS];
    int n_slots; /* executions that run at a time in the sharded split; 0: there is no such split */
    struct kn_dnnl reorder; /* packs a filter that is not constant */
    struct filter_format format;
    const struct rt_pack *filter; /* the packed filter if it is constant */
    /* offsets in scratch memory: float copies of half-precision tensors, the packed filter */
    size_t src_at, filter_at, packed_at, dst_at;
    size_t slots_at; /* offset in scratch memory of the executions of the sharded split */
    /* Scratch memory for the output before its broadcast residual is added; for the plain loops,
     * for a copy of the residual. */
    size_t broadcast_at, broadcast_bytes;
};

static int64_t count(const struct rt_shape *s)
{
    return rt_count(s->rank, s->dim);
}

static bool is_half(enum rt_dtype d)
{
    return d == RT_F16 || d == RT_BF16;
}

/* Whether the output may be written over the residual. A depthwise convolution has no residual
 * behind it in any known network, and its kernels do not support that. */
static bool may_lie_over(const struct rt_node *n, const struct rt_info *filter)
{
    return filter->dtype == RT_F32 && !kn_conv_is_depthwise(n);
}

static enum rt_status prepare_shape(struct rt_prep *p, struct conv **out)
{
    struct conv *c = rt_prep_alloc(p, sizeof *c);
    if (!c)
        return p->err->code;
    enum rt_status st = kn_conv_prepare(p, &c->g);
    if (st)
        return st;
    c->dtype = p->out[0].dtype;
    c->i_src = c->g.transposed ? 2 : 0;
    c->i_filter = 1;
    c->n_src = count(&p->in[c->i_src].shape);
    c->n_filter = count(&p->in[c->i_filter].shape);
    if (c->g.transposed) {
        c->n_dst = count(&p->out[0].shape);
    } else {
        struct rt_shape own;
        kn_conv_out_shape(p->node, &c->g, &own);
        if ((st = kn_epilogue_prepare(&c->epilogue, p, &c->broadcast_bytes)) != RT_OK)
            return st;
        c->n_dst = count(&own);
    }
    c->empty = !c->n_src || !c->n_filter || !c->n_dst;
    *out = c;
    return RT_OK;
}

/* Places the float copies of half-precision tensors in scratch memory behind `used` bytes. */
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

static void place_rest(struct conv *c, struct rt_prep *p, size_t used, bool filter_too)
{
    c->broadcast_at = place_floats(c, used, filter_too);
    p->scratch_bytes = c->broadcast_at + (c->by_library ? c->broadcast_bytes
                                                        : kn_epilogue_residual_bytes(&c->epilogue));
}

static enum rt_status prepare_plain(struct rt_prep *p, void **state)
{
    struct conv *c = NULL;
    const enum rt_status st = prepare_shape(p, &c);
    if (st)
        return st;
    place_rest(c, p, 0, true);
    *state = c;
    return RT_OK;
}

/* The memory that an execution reads and writes. */
struct work {
    const float *src, *filter;
    float *dst;
    char *workspace; /* scratch memory for the executions of one core */
    /* Set when a sharded run meets NaN: the run then starts again on one core. NULL in serial
     * runs. */
    atomic_bool *met_nan;
};

static dnnl_status_t make_primitive(const struct conv *c, struct kn_dnnl *d,
                                    const struct kn_conv_shape *g, const dnnl_memory_desc_t *filter,
                                    bool activates);

/* Makes the primitive of a slice without its activation, after oneDNN's activation met a NaN
 * (which it turns into 0), and keeps it for the next time. */
static enum rt_status make_unfused(const struct conv *c, struct slice *p,
                                   const struct kn_dnnl **out, struct rt_run *r)
{
    struct kn_dnnl *d = atomic_load(&p->unfused), *other = NULL;

    *out = d;
    if (d)
        return RT_OK;
    d = calloc(1, sizeof *d);
    if (!d)
        return rt_fail_memory(r->err, r->node->name, sizeof *d);
    const dnnl_status_t s = make_primitive(c, d, &p->g, &c->format.md, false);
    if (s) {
        free(d);
        return kn_dnnl_fail(r->err, s, r->node->name);
    }
    if (!atomic_compare_exchange_strong(&p->unfused, &other, d)) {
        kn_dnnl_clear(d);
        free(d);
        d = other;
    }
    *out = d;
    return RT_OK;
}

/* After this many runs that met NaN, the fused activation is no longer tried. */
enum { MOST_NAN = 8 };

/* Elements of the input that one execution reads. */
static int64_t slice_input(const struct slice *p)
{
    return p->g.batch * kn_conv_image_in(&p->g);
}

/* Runs one execution for the `n` outputs that begin at `at`, and the steps of the epilogue that
 * oneDNN does not do. */
static enum rt_status run_primitive(struct rt_run *r, const struct work *w,
                                    const struct split *split, struct slice *p, const float *src,
                                    int64_t at, int64_t n)
{
    struct conv *c = r->state;
    const float *bias = c->bias ? r->in[c->bias].data : NULL;
    const bool out_of_place = kn_epilogue_is_out_of_place(&c->epilogue);
    float *dst = out_of_place ? (void *)(w->workspace + split->apart_at) : w->dst + at;
    const void *data[KN_DNNL_ARGS] = {src, w->filter, dst, bias};
    const bool activates =
        c->activates &&
        (w->met_nan || atomic_load_explicit(&c->met_nan, memory_order_relaxed) < MOST_NAN);
    const struct kn_dnnl *d = &p->dnnl;
    enum rt_status st = RT_OK;

    if (c->format.bf16) {
        kn_bf16_round(src, (void *)(w->workspace + split->bf16_at), slice_input(p));
        data[0] = w->workspace + split->bf16_at;
    }
    if (activates)
        kn_epilogue_clear_nan_flag();
    if (activates || !c->activates)
        st = kn_dnnl_run(d, data, w->workspace, r->err, r->node->name);
    if (activates && !st && w->met_nan) {
        if (kn_epilogue_nan_flag())
            atomic_store(w->met_nan, true);
        return st;
    }
    if (c->activates && !st && (!activates || kn_epilogue_nan_flag())) {
        atomic_fetch_add_explicit(&c->met_nan, activates, memory_order_relaxed);
        st = make_unfused(c, p, &d, r);
        void *workspace = w->workspace;
        if (!st && d->scratch_bytes > p->dnnl.scratch_bytes)
            workspace = rt_scratch(r, d->scratch_bytes);
        if (!st && !workspace && d->scratch_bytes)
            st = r->err->code;
        if (!st)
            st = kn_dnnl_run(d, data, workspace, r->err, r->node->name);
    } else if (activates) {
        return st;
    }
    if (!st && out_of_place)
        kn_epilogue_apply_out_of_place(&c->epilogue, r, dst, at, n / c->g.co, c->g.co);
    else if (!st)
        kn_epilogue_apply(&c->epilogue, r, KN_EPILOGUE_ALL, dst, at, n / c->g.co, c->g.co);
    return st;
}

static enum rt_status run_one(struct rt_run *r, const struct work *w, struct split *split,
                              int64_t i)
{
    const struct conv *c = r->state;
    const struct kn_conv_block at = kn_conv_split_block(&c->g, &split->by, i);
    struct slice *p = &split->slice[at.slice];
    const int64_t image = p->g.transposed ? kn_conv_image_in(&p->g) : kn_conv_image_out(&p->g);

    return run_primitive(r, w, split, p, w->src + at.src_at, at.dst_at, p->g.batch * image);
}

static enum rt_status run_serial(struct rt_run *r, const struct work *w)
{
    struct conv *c = r->state;
    const int64_t n = kn_conv_split_count(&c->g, &c->split[SERIAL].by);
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st; i++) {
        st = run_one(r, w, &c->split[SERIAL], i);
        if (!st && i < n - 1)
            st = rt_run_check(r);
    }
    return st;
}

static enum rt_status conv_shard(struct rt_run *r, void *arg, int64_t i, int64_t slot)
{
    struct conv *c = r->state;
    struct work w = *(const struct work *)arg;

    if (atomic_load_explicit(w.met_nan, memory_order_relaxed) ||
        (i >= c->n_slots && rt_run_check(r)))
        return r->err->code;
    w.workspace = kn_offset(w.workspace, (size_t)slot * c->split[SHARDED].bytes);
    return run_one(r, &w, &c->split[SHARDED], i);
}

static int64_t n_slices(const struct conv *c, const struct split *split)
{
    return kn_div_up(c->g.co, split->channels);
}

static enum rt_status conv_channels_shard(struct rt_run *r, void *arg, int64_t i, int64_t slot)
{
    struct conv *c = r->state;
    const struct work *w = arg;
    struct split *split = &c->split[SHARDED];
    const int64_t at = i * split->channels, left = c->g.co - at, pixels = c->n_dst / c->g.co;
    const struct slice *p = &split->slice[left > split->channels ? KN_CONV_FIRST : KN_CONV_LAST];
    const int64_t n = p->g.co;
    dnnl_memory_desc_t ignored;
    const size_t filter_at = kn_dnnl_slice(&c->format.md, 0, at, n, &ignored);
    char *workspace = kn_offset(w->workspace, (size_t)slot * split->bytes);
    float *own = (void *)(workspace + split->apart_at);
    const void *data[KN_DNNL_ARGS] = {w->src, (const char *)w->filter + filter_at, own,
                                      c->bias ? (const float *)r->in[c->bias].data + at : NULL};

    if (c->activates)
        kn_epilogue_clear_nan_flag();
    const enum rt_status st = kn_dnnl_run(&p->dnnl, data, workspace, r->err, r->node->name);
    if (c->activates && !st && kn_epilogue_nan_flag())
        atomic_store(w->met_nan, true);
    const bool out_of_place = kn_epilogue_is_out_of_place(&c->epilogue);
    if (!out_of_place && !c->activates && !c->epilogue.broadcast_residual)
        kn_epilogue_activate(&c->epilogue, own, pixels, n, n);
    for (int64_t k = 0; k < pixels && !st; k++)
        if (out_of_place)
            kn_epilogue_apply_out_of_place(&c->epilogue, r, own + k * n, k * c->g.co + at, 1, n);
        else
            memcpy(w->dst + k * c->g.co + at, own + k * n, (size_t)n * sizeof *own);
    return st;
}

static enum rt_status run_sharded(struct rt_run *r, struct work *w)
{
    const struct conv *c = r->state;
    const struct split *split = &c->split[SHARDED];

    if (split->channels)
        return kn_parallel_shards(r, n_slices(c, split), c->n_slots, conv_channels_shard, w);
    return kn_parallel_shards(r, kn_conv_split_count(&c->g, &split->by), c->n_slots, conv_shard, w);
}

static enum rt_status run_split(struct rt_run *r, struct work *w)
{
    const struct conv *c = r->state;
    atomic_bool met_nan = false;
    char *workspace = w->workspace;

    if (c->n_slots &&
        (!c->activates || atomic_load_explicit(&c->met_nan, memory_order_relaxed) < MOST_NAN) &&
        rt_run_width(r) > 1) {
        w->workspace = kn_offset(workspace, c->slots_at);
        w->met_nan = &met_nan;
        const enum rt_status st = run_sharded(r, w);
        if (st || !atomic_load(&met_nan))
            return st;
    }
    w->workspace = workspace;
    w->met_nan = NULL;
    return run_serial(r, w);
}

static enum rt_status conv_run(struct rt_run *whole)
{
    const struct conv *c = whole->state;
    struct kn_epilogue_residual_copy kept;
    struct rt_run *r = whole;
    if (!c->by_library && c->epilogue.residual)
        r = kn_epilogue_copy_residual(&c->epilogue, whole,
                                      kn_offset(whole->scratch, c->broadcast_at), &kept);
    const void *src = r->in[c->i_src].data, *filter = r->in[c->i_filter].data;
    char *workspace = r->scratch;
    void *dst = kn_epilogue_output(
        &c->epilogue, r, c->epilogue.broadcast_residual ? workspace + c->broadcast_at : NULL);
    enum rt_status st = RT_OK;

    if (is_half(c->dtype) && !c->empty) {
        float *wide = (void *)(workspace + c->src_at);
        st = kn_to_float_rows(r, c->dtype, src, c->n_src, wide, 1, c->n_src);
        src = wide;
        if (!st && !c->filter) {
            wide = (void *)(workspace + c->filter_at);
            st = kn_to_float_rows(r, c->dtype, filter, c->n_filter, wide, 1, c->n_filter);
            filter = wide;
        }
        dst = workspace + c->dst_at;
    }
    if (st)
        return st;
    if (c->empty && c->n_dst) {
        st = kn_zero_chunks(r, dst, (size_t)c->n_dst * rt_dtype_size(c->dtype));
    } else if (!c->empty && !c->by_library) {
        const enum rt_dtype compute = is_half(c->dtype) ? RT_F32 : c->dtype;
        st = kn_conv_plain(&c->g, compute, src, filter, dst, c->n_dst, r);
    } else if (!c->empty) {
        struct work w = {.src = src,
                         .filter = c->filter ? rt_pack_data(c->filter)
                                             : (void *)(workspace + c->packed_at),
                         .dst = dst,
                         .workspace = workspace};
        if (!c->filter) {
            const void *move[] = {filter, w.filter};
            st = kn_dnnl_run(&c->reorder, move, workspace, r->err, r->node->name);
        }
        if (!st)
            st = run_split(r, &w);
    }
    if (!st && !c->by_library && c->n_dst)
        kn_epilogue_apply(&c->epilogue, r, KN_EPILOGUE_ALL, dst, 0, c->n_dst / c->g.co, c->g.co);
    if (!st && is_half(c->dtype) && !c->empty)
        st = kn_from_float_rows(r, c->dtype, dst, r->out[0].data, c->n_dst, 1, c->n_dst);
    return st ? st : kn_epilogue_broadcast(&c->epilogue, r, dst);
}

/* ---- oneDNN ---- */

/* The filter in TensorFlow's layout, described in oneDNN's logical order [groups,] output
 * channels, input channels, spatial. */
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

static dnnl_status_t image_md(const struct kn_conv_shape *g, bool wide, dnnl_data_type_t type,
                              dnnl_memory_desc_t *md)
{
    dnnl_dims_t dim = {g->batch, wide ? g->ci : g->co};
    for (int i = 0; i < g->n_spatial; i++)
        dim[2 + i] = wide ? g->axis[i].in : g->axis[i].out;
    return dnnl_memory_desc_init_by_tag(md, g->n_spatial + 2, dim, type,
                                        g->n_spatial == 3 ? dnnl_ndhwc : dnnl_nhwc);
}

static void filter_format(const struct kn_conv_shape *g, struct filter_format *f)
{
    memset(f, 0, sizeof *f); /* keys are compared as bytes */
    f->groups = g->groups;
    f->ci = g->ci;
    f->co = g->co;
    f->n_spatial = g->n_spatial;
    f->transposed = g->transposed;
    for (int i = 0; i < g->n_spatial; i++)
        f->size[i] = g->axis[i].size;
}

/* `filter`: the filter's memory layout; NULL lets oneDNN choose one. */
static dnnl_status_t make_primitive(const struct conv *c, struct kn_dnnl *d,
                                    const struct kn_conv_shape *g, const dnnl_memory_desc_t *filter,
                                    bool activates)
{
    dnnl_primitive_attr_t attr = NULL;
    const dnnl_dims_t channels = {g->co};
    dnnl_dims_t stride, dilation, lo, hi;
    dnnl_memory_desc_t src, any, dst, bias;
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
    dnnl_status_t s = image_md(g, !g->transposed, c->format.bf16 ? dnnl_bf16 : dnnl_f32, &src);
    if (!s)
        s = image_md(g, g->transposed, dnnl_f32, &dst);
    if (!s && !filter)
        s = filter_md(&c->format, &any, true);
    if (!s)
        s = dnnl_memory_desc_init_by_tag(&bias, 1, channels, dnnl_f32, dnnl_a);
    if (!s && g->transposed)
        s = dnnl_dilated_deconvolution_forward_desc_init(
            &desc.back, dnnl_forward_inference, dnnl_deconvolution_direct, &src,
            filter ? filter : &any, NULL, &dst, stride, dilation, lo, hi);
    else if (!s)
        s = dnnl_dilated_convolution_forward_desc_init(
            &desc.forward, dnnl_forward_inference, dnnl_convolution_direct, &src,
            filter ? filter : &any, c->bias ? &bias : NULL, &dst, stride, dilation, lo, hi);
    if (!s && activates) {
        s = kn_dnnl_attr(&attr);
        if (!s)
            s = kn_epilogue_dnnl_post_op(&c->epilogue, attr);
    }
    if (!s)
        s = kn_dnnl_make(d, &desc, attr);
    dnnl_primitive_attr_destroy(attr);
    if (s)
        return s;
    d->n = c->bias ? 4 : 3;
    d->arg[0] = DNNL_ARG_SRC;
    d->arg[1] = DNNL_ARG_WEIGHTS;
    d->arg[2] = DNNL_ARG_DST;
    d->arg[3] = DNNL_ARG_BIAS;
    d->md[0] = src;
    d->md[1] = kn_dnnl_md(d, DNNL_ARG_WEIGHTS);
    d->md[2] = dst;
    d->md[3] = bias;
    return s;
}

/* With few channels, or in a depthwise convolution, moving data costs more than multiplying, so
 * bfloat16 does not pay. */
static bool pays_in_bf16(const struct kn_conv_shape *g, enum rt_dtype dtype)
{
    return dtype == RT_F32 && !g->transposed && g->groups == 1 && g->ci >= 16 &&
           kn_bf16_multiplies();
}

static enum rt_status pack_filter(const struct rt_tensor *src, void *dst, const void *fmt,
                                  struct rt_error *err)
{
    const struct filter_format *f = fmt;
    const float *scale = (const void *)(f + 1);
    const int64_t n = rt_tensor_count(src);
    struct rt_buffer *wide = NULL;
    const void *bytes = src->data;
    dnnl_memory_desc_t from;

    const dnnl_status_t s = filter_md(f, &from, false);
    if (s)
        return kn_dnnl_fail(err, s, "filter");
    if (src->dtype != RT_F32 || f->n_scale) {
        wide = rt_buffer_new(NULL, RT_F32, (size_t)n * sizeof(float), err);
        if (!wide)
            return RT_RESOURCE_EXHAUSTED;
        bytes = atomic_load(&wide->data);
    }
    if (src->dtype != RT_F32)
        kn_to_float((enum rt_dtype)src->dtype, src->data, atomic_load(&wide->data), n);
    else if (f->n_scale)
        kn_epilogue_scale(atomic_load(&wide->data), src->data, scale, n / f->co, f->co);
    const enum rt_status st = kn_dnnl_reorder(&from, bytes, &f->md, dst, err);
    rt_buffer_unref(wide);
    return st;
}

static void clear_split(struct split *split)
{
    for (int i = 0; i < KN_CONV_SLICES; i++) {
        struct kn_dnnl *d = atomic_exchange(&split->slice[i].unfused, NULL);
        kn_dnnl_clear(&split->slice[i].dnnl);
        if (d)
            kn_dnnl_clear(d);
        free(d);
    }
}

static void release(void *state)
{
    struct conv *c = state;
    for (int i = 0; i < N_SPLITS; i++)
        clear_split(&c->split[i]);
    kn_dnnl_clear(&c->reorder);
}

/* `filter`: as for make_primitive. The slices after the first use the filter layout of the
 * first. */
static dnnl_status_t make_split(const struct conv *c, struct split *split,
                                const dnnl_memory_desc_t *filter)
{
    dnnl_status_t s = dnnl_success;

    for (int i = 0; i < KN_CONV_SLICES && !s; i++) {
        struct slice *p = &split->slice[i];
        if (kn_conv_split_shape(&c->g, &split->by, (enum kn_conv_slice)i, &p->g))
            s = make_primitive(c, &p->dnnl, &p->g,
                               i == KN_CONV_FIRST ? filter
                                                  : &split->slice[KN_CONV_FIRST].dnnl.md[1],
                               c->activates);
    }
    return s;
}

static dnnl_status_t make_serial(struct conv *c)
{
    kn_conv_split_serial(&c->g, kn_epilogue_any(&c->epilogue) && !c->activates,
                         &c->split[SERIAL].by);
    const dnnl_status_t s = make_split(c, &c->split[SERIAL], NULL);
    if (!s)
        c->format.md = c->split[SERIAL].slice[KN_CONV_FIRST].dnnl.md[1];
    return s;
}

enum { LEAST_CHANNELS = 64 };

/* Splits the output channels evenly over `width` cores, where that pays. */
static bool shard_channels(const struct conv *c, int width, struct split *split)
{
    const struct kn_conv_shape *g = &c->g;
    const int64_t block = kn_dnnl_block(&c->format.md, 0);

    if (g->transposed || g->groups > 1 || c->format.bf16 || c->epilogue.scale ||
        c->epilogue.shift || !block || kn_conv_split_count(&c->g, &c->split[SERIAL].by) > 1 ||
        c->n_filter < 2 * (c->n_src + c->n_dst) ||
        (double)c->n_filter * (double)(c->n_dst / g->co) < 2.0 * KN_SHARD_MACS)
        return false;
    split->channels = kn_div_up(kn_div_up(g->co, block), width) * block;
    if (split->channels < LEAST_CHANNELS)
        split->channels = kn_round_up(LEAST_CHANNELS, block);
    const int64_t slices = kn_div_up(g->co, split->channels);
    dnnl_status_t s = slices > 1 ? dnnl_success : dnnl_unimplemented;
    for (int i = KN_CONV_FIRST; i <= KN_CONV_LAST && !s; i += KN_CONV_LAST - KN_CONV_FIRST) {
        struct slice *p = &split->slice[i];
        const int64_t from = i == KN_CONV_FIRST ? 0 : (slices - 1) * split->channels;
        dnnl_memory_desc_t filter;
        p->g = *g;
        p->g.co = i == KN_CONV_FIRST ? split->channels : g->co - from;
        kn_dnnl_slice(&c->format.md, 0, from, p->g.co, &filter);
        s = make_primitive(c, &p->dnnl, &p->g, &filter, c->activates);
    }
    if (s) {
        clear_split(split);
        split->channels = 0;
    }
    return !s;
}

/* Makes the split for several cores, if it pays and oneDNN supports it with this layout of the
 * filter. */
static void make_sharded(struct conv *c, int width)
{
    struct split *split = &c->split[SHARDED];

    if (width < 2)
        return;
    if (shard_channels(c, width, split)) {
        c->n_slots = (int)n_slices(c, split);
        return;
    }
    if (!kn_conv_split_sharded(&c->g, kn_epilogue_any(&c->epilogue) && !c->activates, width,
                               &split->by))
        return;
    if (make_split(c, split, &c->format.md)) {
        clear_split(split);
        return;
    }
    const int64_t n = kn_conv_split_count(&c->g, &split->by);
    c->n_slots = n < width ? (int)n : width;
}

/* Computes the scratch memory that one execution of a split needs. */
static void place_split(const struct conv *c, struct split *split)
{
    size_t scratch = 0, in = 0, out = 0;

    for (int i = 0; i < KN_CONV_SLICES; i++) {
        const struct slice *p = &split->slice[i];
        if (!p->dnnl.prim)
            continue;
        const size_t n_in = (size_t)slice_input(p);
        const size_t n_out = (size_t)(p->g.batch * kn_conv_image_out(&p->g));
        scratch = p->dnnl.scratch_bytes > scratch ? p->dnnl.scratch_bytes : scratch;
        in = n_in > in ? n_in : in;
        out = n_out > out ? n_out : out;
    }
    split->bf16_at = kn_padded(scratch);
    split->apart_at =
        split->bf16_at + (c->format.bf16 ? kn_padded(in * sizeof(struct kn_bfloat)) : 0);
    split->bytes = split->apart_at;
    if (split->channels || kn_epilogue_is_out_of_place(&c->epilogue))
        split->bytes += kn_padded(out * sizeof(float));
}

/* Packs the filter if it is constant. Its key is c->format, followed by the scale. */
static enum rt_status conv_pack(struct conv *c, struct rt_prep *p, const float *scale)
{
    const size_t n = scale ? (size_t)c->g.co * sizeof *scale : 0;
    struct filter_format *f = malloc(sizeof *f + n);

    if (!f)
        return rt_fail_memory(p->err, p->node->name, sizeof *f + n);
    memcpy(f, &c->format, sizeof *f);
    f->n_scale = scale ? c->g.co : 0;
    if (scale)
        memcpy(f + 1, scale, n);
    const enum rt_status st =
        rt_prep_pack(p, c->i_filter, f, sizeof *f + n, dnnl_memory_desc_get_size(&f->md),
                     pack_filter, &c->filter);
    free(f);
    return st;
}

/* Divides the epilogue: what oneDNN computes as bias and post-op, and what remains for Slipway's
 * loops. */
static void split_epilogue(struct conv *c, bool folds)
{
    if (c->epilogue.scale && !folds)
        return;
    c->bias = c->epilogue.shift;
    c->epilogue.scale = c->epilogue.shift = 0;
    c->activates = kn_epilogue_has_dnnl_post_op(&c->epilogue);
}

static dnnl_status_t try_serial(struct conv *c)
{
    dnnl_status_t s = make_serial(c);
    if (s && c->activates) {
        clear_split(&c->split[SERIAL]);
        c->activates = false;
        s = make_serial(c);
    }
    return s;
}

static enum rt_status prepare_dnnl(struct rt_prep *p, void **state)
{
    struct conv *c = NULL;
    enum rt_status st = prepare_shape(p, &c);

    if (st)
        return st;
    *state = c;
    place_rest(c, p, 0, true);
    if (c->empty)
        return RT_OK;
    const struct kn_epilogue whole = c->epilogue;
    const float *scale = kn_epilogue_constant(p, whole.scale);
    const bool folds = scale && p->in[c->i_filter].value;
    split_epilogue(c, folds);
    filter_format(&c->g, &c->format);
    c->format.bf16 = p->tuning->bf16 && pays_in_bf16(&c->g, c->dtype);
    dnnl_status_t s = try_serial(c);
    if (s && c->format.bf16) {
        clear_split(&c->split[SERIAL]);
        c->format.bf16 = false;
        c->activates = kn_epilogue_has_dnnl_post_op(&c->epilogue) && !c->epilogue.scale;
        s = try_serial(c);
    }
    if (s) {
        clear_split(&c->split[SERIAL]);
        if (s == dnnl_unimplemented || s == dnnl_invalid_arguments)
            return rt_fail(p->err, RT_FAILED_PRECONDITION, "%s: oneDNN does not have it",
                           p->node->name);
        return kn_dnnl_fail(p->err, s, p->node->name);
    }
    p->release = release;
    c->by_library = true;
    st = conv_pack(c, p, folds ? scale : NULL);
    if (st)
        return st;
    if (!c->filter && folds)
        return rt_fail(p->err, RT_INTERNAL, "%s: the filter is no constant", p->node->name);
    make_sharded(c, rt_prep_width(p));
    place_split(c, &c->split[SERIAL]);
    place_split(c, &c->split[SHARDED]);
    size_t used = c->split[SERIAL].bytes;
    if (!c->filter) {
        dnnl_memory_desc_t from;
        dnnl_status_t made = filter_md(&c->format, &from, false);
        if (!made)
            made = kn_dnnl_make_reorder(&c->reorder, &from, &c->format.md);
        if (made)
            return kn_dnnl_fail(p->err, made, p->node->name);
        if (c->reorder.scratch_bytes > used)
            used = c->reorder.scratch_bytes;
        used = kn_padded(used);
        c->packed_at = used;
        used += kn_padded(dnnl_memory_desc_get_size(&c->format.md));
    }
    c->slots_at = used;
    used += (size_t)c->n_slots * c->split[SHARDED].bytes;
    place_rest(c, p, used, !c->filter);
    return RT_OK;
}

static int can_dnnl(const struct rt_prep *p)
{
    struct rt_error ignored = {.arena = NULL};
    struct rt_prep quiet = *p;
    struct kn_conv_shape g;

    quiet.err = &ignored;
    if (kn_conv_prepare(&quiet, &g) || !kn_conv_image_in(&g) || !kn_conv_image_out(&g) || !g.batch)
        return 2; /* prepare refuses the node, or there is nothing to compute */
    return kn_conv_split_is_interruptible(&g) ? 2 : 0;
}

/* ---- registration ---- */

#define DNNL_TYPES  (RT_T(RT_F32) | KN_SET(KN_HALFS))
#define PLAIN_TYPES (DNNL_TYPES | RT_T(RT_F64) | RT_T(RT_I32))

/* Errors of the convolution come before errors of its epilogue, as they would from separate
 * nodes. */
static enum rt_status conv_infer(struct rt_infer *x)
{
    enum rt_status st = kn_conv_infer(x);
    const struct rt_shape own = x->out[0].shape;
    struct kn_conv_shape ignored;

    if (st)
        return st;
    if ((st = kn_epilogue_infer(x)) == RT_OK) {
        if (may_lie_over(x->node, &x->in[1]))
            kn_epilogue_infer_in_place(x, &own);
        return st;
    }
    x->out[0].shape = own;
    const struct rt_prep p = {.node = x->node,
                              .n_in = x->n_in,
                              .n_out = x->n_out,
                              .in = x->in,
                              .out = x->out,
                              .err = x->err};
    st = kn_conv_prepare(&p, &ignored);
    return st ? st : kn_epilogue_infer(x);
}

static void rows(struct rt_rows *r)
{
    kn_epilogue_rows(r, rt_rows_first);
}

static int64_t epilogue(const struct rt_node *n, const struct rt_info *in, int *rank)
{
    const struct rt_shape *f = &in[1].shape;
    *rank = kn_conv_n_spatial(n) + 2;
    if (f->rank != *rank || kn_channels_first(n))
        return 0;
    if (!kn_conv_is_depthwise(n))
        return f->dim[*rank - 1];
    int64_t channels;
    return rt_mul(f->dim[2], f->dim[3], &channels) ? channels : 0;
}

#define ROWS(op_, name_, plain)                                                                    \
    {.op = op_,                                                                                    \
     .device = "CPU",                                                                              \
     .name = name_ ".onednn",                                                                      \
     .types = DNNL_TYPES,                                                                          \
     .flags = RT_K_TIMED,                                                                          \
     .can = can_dnnl,                                                                              \
     .prepare = prepare_dnnl,                                                                      \
     .run = conv_run},                                                                             \
    {                                                                                              \
        .op = op_, .device = "CPU", .name = name_ ".plain", .types = plain,                        \
        .prepare = prepare_plain, .run = conv_run                                                  \
    }
#define KERNELS(op_, name_, plain) KN_KERNELS(ROWS(op_, name_, plain))

const struct kn_entry kn_conv2d = {
    .op = {.name = "Conv2D",
           .check = kn_conv_check,
           .infer = conv_infer,
           .rows = rows,
           .epilogue = epilogue,
           .flops = kn_conv_flops},
    .kernels = KN_KERNELS({.op = "Conv2D",
                           .device = "CPU",
                           .name = "conv2d.line",
                           .types = RT_T(RT_F32),
                           .flags = RT_K_TIMED,
                           .can = kn_winograd_1d_can,
                           .prepare = kn_winograd_1d_prepare,
                           .run = kn_winograd_1d_conv},
                          {.op = "Conv2D",
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
                          {.op = "Conv2D",
                           .device = "CPU",
                           .name = "conv2d.product",
                           .types = RT_T(RT_F32),
                           .flags = RT_K_TIMED,
                           .can = kn_conv_gemm_can,
                           .prepare = kn_conv_gemm_prepare,
                           .run = kn_conv_gemm},
                          ROWS("Conv2D", "conv2d", PLAIN_TYPES)),
};
const struct kn_entry kn_conv3d = {
    .op = {.name = "Conv3D",
           .check = kn_conv_check,
           .infer = conv_infer,
           .rows = rows,
           .epilogue = epilogue,
           .flops = kn_conv_flops},
    .kernels = KERNELS("Conv3D", "conv3d", PLAIN_TYPES & ~RT_T(RT_I32)),
};
const struct kn_entry kn_depthwise_conv2d_native = {
    .op = {.name = "DepthwiseConv2dNative",
           .check = kn_conv_check,
           .infer = conv_infer,
           .rows = rows,
           .epilogue = epilogue,
           .flops = kn_conv_flops_depthwise},
    .kernels = KN_KERNELS({.op = "DepthwiseConv2dNative",
                           .device = "CPU",
                           .name = "depthwise.rows",
                           .types = RT_T(RT_F32),
                           .can = kn_depthwise_conv_can,
                           .prepare = kn_depthwise_conv_prepare,
                           .run = kn_depthwise_conv},
                          ROWS("DepthwiseConv2dNative", "depthwise", PLAIN_TYPES & ~RT_T(RT_I32))),
};
const struct kn_entry kn_conv2d_backprop_input = {
    .op = {.name = "Conv2DBackpropInput",
           .shape_in = 1,
           .check = kn_conv_check,
           .infer = kn_conv_infer_transposed,
           .rows = kn_conv_rows_transposed,
           .flops = kn_conv_flops_transposed},
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
