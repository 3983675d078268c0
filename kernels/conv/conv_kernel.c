#include "kernels/conv/conv_internal.h"

#include "kernels/array/array.h"
#include "kernels/conv/conv_kernel.h"
#include "kernels/conv/conv_plain.h"
#include "kernels/matmul/gemm.h"

static int64_t count(const struct rt_shape *s)
{
    return rt_count(s->rank, s->dim);
}

static bool is_half(enum rt_dtype d)
{
    return d == RT_F16 || d == RT_BF16;
}

enum rt_status kn_conv_prepare_state(struct rt_prep *p, struct kn_conv **out)
{
    struct kn_conv *c = rt_prep_alloc(p, sizeof *c);
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

/* Lays out the float copies of half-precision tensors in scratch memory, starting at offset `used`.
 * Returns the offset of the end of the copies. */
static size_t place_floats(struct kn_conv *c, size_t used, bool filter_too)
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

void kn_conv_place_rest(struct kn_conv *c, struct rt_prep *p, size_t used, bool filter_too)
{
    c->broadcast_at = place_floats(c, used, filter_too);
    p->scratch_bytes = c->broadcast_at + (c->by_library ? c->broadcast_bytes
                                                        : kn_epilogue_residual_bytes(&c->epilogue));
}

enum rt_status kn_conv_plain_prepare(struct rt_prep *p, void **state)
{
    struct kn_conv *c = NULL;
    const enum rt_status st = kn_conv_prepare_state(p, &c);
    if (st)
        return st;
    kn_conv_place_rest(c, p, 0, true);
    *state = c;
    return RT_OK;
}

enum rt_status kn_conv_run(struct rt_run *whole)
{
    const struct kn_conv *c = whole->state;
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
        struct kn_conv_work w = {.src = src,
                                 .filter = c->filter ? rt_pack_data(c->filter)
                                                     : (void *)(workspace + c->packed_at),
                                 .dst = dst,
                                 .workspace = workspace};
        if (!c->filter) {
            const void *move[] = {filter, w.filter};
            st = kn_dnnl_run(&c->reorder, move, workspace, r->err, r->node->name);
        }
        if (!st)
            st = kn_conv_onednn_run(r, &w);
    }
    if (!st && !c->by_library && c->n_dst)
        kn_epilogue_apply(&c->epilogue, r, KN_EPILOGUE_ALL, dst, 0, c->n_dst / c->g.co, c->g.co);
    if (!st && is_half(c->dtype) && !c->empty)
        st = kn_from_float_rows(r, c->dtype, dst, r->out[0].data, c->n_dst, 1, c->n_dst);
    return st ? st : kn_epilogue_broadcast(&c->epilogue, r, dst);
}
