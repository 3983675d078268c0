#include "kernels/conv/conv_internal.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/conv/conv_kernel.h"
#include "kernels/cpu/bf16.h"
#include "kernels/matmul/gemm.h"
#include "runtime/exec/parallel.h"

/* ---- primitives ---- */

/* Describes the filter in TensorFlow's memory layout or, if `any` is set, in the layout that oneDNN
 * chooses. The axes are in oneDNN's logical order: [groups,] output channels, input channels,
 * spatial axes. */
static dnnl_status_t filter_md(const struct kn_conv_filter *f, dnnl_memory_desc_t *md, bool any)
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

static void filter_format(const struct kn_conv_shape *g, struct kn_conv_filter *f)
{
    /* clears the struct's padding too, because keys are compared as bytes */
    memset(f, 0, sizeof *f);
    f->groups = g->groups;
    f->ci = g->ci;
    f->co = g->co;
    f->n_spatial = g->n_spatial;
    f->transposed = g->transposed;
    for (int i = 0; i < g->n_spatial; i++)
        f->size[i] = g->axis[i].size;
}

dnnl_status_t kn_conv_make_primitive(const struct kn_conv *c, struct kn_dnnl *d,
                                     const struct kn_conv_shape *g,
                                     const dnnl_memory_desc_t *filter, bool activates)
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

/* Returns whether bfloat16 pays off. With few channels, or in a depthwise convolution, moving data
 * costs more than multiplying. */
static bool pays_in_bf16(const struct kn_conv_shape *g, enum rt_dtype dtype)
{
    return dtype == RT_F32 && !g->transposed && g->groups == 1 && g->ci >= 16 &&
           kn_bf16_multiplies();
}

static enum rt_status pack_filter(const struct rt_tensor *src, void *dst, const void *fmt,
                                  struct rt_error *err)
{
    const struct kn_conv_filter *f = fmt;
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

static void clear_split(struct kn_conv_onednn_split *split)
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
    struct kn_conv *c = state;
    for (int i = 0; i < KN_CONV_SPLITS; i++)
        clear_split(&c->split[i]);
    kn_dnnl_clear(&c->reorder);
}

/* Makes the primitives of a split. `filter` is the memory layout of the filter for the first slice,
 * as in kn_conv_make_primitive. The other slices use the layout that the first slice's primitive
 * uses. */
static dnnl_status_t make_split(const struct kn_conv *c, struct kn_conv_onednn_split *split,
                                const dnnl_memory_desc_t *filter)
{
    dnnl_status_t s = dnnl_success;

    for (int i = 0; i < KN_CONV_SLICES && !s; i++) {
        struct kn_conv_onednn_slice *p = &split->slice[i];
        if (kn_conv_split_shape(&c->g, &split->by, (enum kn_conv_slice)i, &p->g))
            s = kn_conv_make_primitive(c, &p->dnnl, &p->g,
                                       i == KN_CONV_FIRST ? filter
                                                          : &split->slice[KN_CONV_FIRST].dnnl.md[1],
                                       c->activates);
    }
    return s;
}

static dnnl_status_t make_serial(struct kn_conv *c)
{
    kn_conv_split_serial(&c->g, kn_epilogue_any(&c->epilogue) && !c->activates,
                         &c->split[KN_CONV_SERIAL].by);
    const dnnl_status_t s = make_split(c, &c->split[KN_CONV_SERIAL], NULL);
    if (!s)
        c->format.md = c->split[KN_CONV_SERIAL].slice[KN_CONV_FIRST].dnnl.md[1];
    return s;
}

enum { LEAST_CHANNELS = 64 };

/* Splits the output channels evenly among `width` cores. Returns false if this split is not
 * possible or does not pay off. */
static bool shard_channels(const struct kn_conv *c, int width, struct kn_conv_onednn_split *split)
{
    const struct kn_conv_shape *g = &c->g;
    const int64_t block = kn_dnnl_block(&c->format.md, 0);

    if (g->transposed || g->groups > 1 || c->format.bf16 || c->epilogue.scale ||
        c->epilogue.shift || !block ||
        kn_conv_split_count(&c->g, &c->split[KN_CONV_SERIAL].by) > 1 ||
        c->n_filter < 2 * (c->n_src + c->n_dst) ||
        (double)c->n_filter * (double)(c->n_dst / g->co) < 2.0 * KN_SHARD_MACS)
        return false;
    split->channels = kn_div_up(kn_div_up(g->co, block), width) * block;
    if (split->channels < LEAST_CHANNELS)
        split->channels = kn_round_up(LEAST_CHANNELS, block);
    const int64_t slices = kn_div_up(g->co, split->channels);
    dnnl_status_t s = slices > 1 ? dnnl_success : dnnl_unimplemented;
    for (int i = KN_CONV_FIRST; i <= KN_CONV_LAST && !s; i += KN_CONV_LAST - KN_CONV_FIRST) {
        struct kn_conv_onednn_slice *p = &split->slice[i];
        const int64_t from = i == KN_CONV_FIRST ? 0 : (slices - 1) * split->channels;
        dnnl_memory_desc_t filter;
        p->g = *g;
        p->g.co = i == KN_CONV_FIRST ? split->channels : g->co - from;
        kn_dnnl_slice(&c->format.md, 0, from, p->g.co, &filter);
        s = kn_conv_make_primitive(c, &p->dnnl, &p->g, &filter, c->activates);
    }
    if (s) {
        clear_split(split);
        split->channels = 0;
    }
    return !s;
}

/* Makes the split for several cores if it pays off and oneDNN supports it with the layout of the
 * packed filter. */
static void make_sharded(struct kn_conv *c, int width)
{
    struct kn_conv_onednn_split *split = &c->split[KN_CONV_SHARDED];

    if (width < 2)
        return;
    if (shard_channels(c, width, split)) {
        c->n_slots = (int)kn_conv_n_slices(c, split);
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

/* Lays out the scratch memory that one execution of a split needs. */
static void place_split(const struct kn_conv *c, struct kn_conv_onednn_split *split)
{
    size_t scratch = 0, in = 0, out = 0;

    for (int i = 0; i < KN_CONV_SLICES; i++) {
        const struct kn_conv_onednn_slice *p = &split->slice[i];
        if (!p->dnnl.prim)
            continue;
        const size_t n_in = (size_t)kn_conv_slice_input(p);
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

/* Packs the filter if it is constant. The key of the packed filter is c->format, followed by the
 * scale factors. */
static enum rt_status conv_pack(struct kn_conv *c, struct rt_prep *p, const float *scale)
{
    const size_t n = scale ? (size_t)c->g.co * sizeof *scale : 0;
    struct kn_conv_filter *f = malloc(sizeof *f + n);

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

/* Divides the epilogue into two parts. oneDNN computes one part as a bias and a post-op, and
 * Slipway's loops compute the other part. */
static void split_epilogue(struct kn_conv *c, bool folds)
{
    if (c->epilogue.scale && !folds)
        return;
    c->bias = c->epilogue.shift;
    c->epilogue.scale = c->epilogue.shift = 0;
    c->activates = kn_epilogue_has_dnnl_post_op(&c->epilogue);
}

static dnnl_status_t try_serial(struct kn_conv *c)
{
    dnnl_status_t s = make_serial(c);
    if (s && c->activates) {
        clear_split(&c->split[KN_CONV_SERIAL]);
        c->activates = false;
        s = make_serial(c);
    }
    return s;
}

enum rt_status kn_conv_onednn_prepare(struct rt_prep *p, void **state)
{
    struct kn_conv *c = NULL;
    enum rt_status st = kn_conv_prepare_state(p, &c);

    if (st)
        return st;
    *state = c;
    kn_conv_place_rest(c, p, 0, true);
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
        clear_split(&c->split[KN_CONV_SERIAL]);
        c->format.bf16 = false;
        c->activates = kn_epilogue_has_dnnl_post_op(&c->epilogue) && !c->epilogue.scale;
        s = try_serial(c);
    }
    if (s) {
        clear_split(&c->split[KN_CONV_SERIAL]);
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
    place_split(c, &c->split[KN_CONV_SERIAL]);
    place_split(c, &c->split[KN_CONV_SHARDED]);
    size_t used = c->split[KN_CONV_SERIAL].bytes;
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
    used += (size_t)c->n_slots * c->split[KN_CONV_SHARDED].bytes;
    kn_conv_place_rest(c, p, used, !c->filter);
    return RT_OK;
}

int kn_conv_onednn_can(const struct rt_prep *p)
{
    struct rt_error ignored = {.arena = NULL};
    struct rt_prep quiet = *p;
    struct kn_conv_shape g;

    quiet.err = &ignored;
    if (kn_conv_prepare(&quiet, &g) || !kn_conv_image_in(&g) || !kn_conv_image_out(&g) || !g.batch)
        return 2; /* `prepare` reports the error, or a tensor has no elements */
    return kn_conv_split_is_interruptible(&g) ? 2 : 0;
}
