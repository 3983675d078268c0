#include "kernels/conv/conv_internal.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/bf16.h"
#include "runtime/exec/parallel.h"

/* Sets *out to the slice's primitive without the activation. The first call creates the primitive,
 * and later calls return the same primitive. Called after the activation has encountered a NaN, for
 * which oneDNN returns 0. */
static enum rt_status make_unfused(const struct kn_conv *c, struct kn_conv_onednn_slice *p,
                                   const struct kn_dnnl **out, struct rt_run *r)
{
    struct kn_dnnl *d = atomic_load(&p->unfused), *other = NULL;

    *out = d;
    if (d)
        return RT_OK;
    d = calloc(1, sizeof *d);
    if (!d)
        return rt_fail_memory(r->err, r->node->name, sizeof *d);
    const dnnl_status_t s = kn_conv_make_primitive(c, d, &p->g, &c->format.md, false);
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

/* The fused activation is no longer used after MOST_NAN runs have encountered a NaN. */
enum { MOST_NAN = 8 };

/* Runs one execution for the `n` outputs that begin at `at`, and the epilogue steps that oneDNN
 * does not compute. */
static enum rt_status run_primitive(struct rt_run *r, const struct kn_conv_work *w,
                                    const struct kn_conv_onednn_split *split,
                                    struct kn_conv_onednn_slice *p, const float *src, int64_t at,
                                    int64_t n)
{
    struct kn_conv *c = r->state;
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
        kn_bf16_round(src, (void *)(w->workspace + split->bf16_at), kn_conv_slice_input(p));
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

static enum rt_status run_one(struct rt_run *r, const struct kn_conv_work *w,
                              struct kn_conv_onednn_split *split, int64_t i)
{
    const struct kn_conv *c = r->state;
    const struct kn_conv_block at = kn_conv_split_block(&c->g, &split->by, i);
    struct kn_conv_onednn_slice *p = &split->slice[at.slice];
    const int64_t image = p->g.transposed ? kn_conv_image_in(&p->g) : kn_conv_image_out(&p->g);

    return run_primitive(r, w, split, p, w->src + at.src_at, at.dst_at, p->g.batch * image);
}

static enum rt_status run_serial(struct rt_run *r, const struct kn_conv_work *w)
{
    struct kn_conv *c = r->state;
    const int64_t n = kn_conv_split_count(&c->g, &c->split[KN_CONV_SERIAL].by);
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st; i++) {
        st = run_one(r, w, &c->split[KN_CONV_SERIAL], i);
        if (!st && i < n - 1)
            st = rt_run_check(r);
    }
    return st;
}

static enum rt_status conv_shard(struct rt_run *r, void *arg, int64_t i, int64_t slot)
{
    struct kn_conv *c = r->state;
    struct kn_conv_work w = *(const struct kn_conv_work *)arg;

    if (atomic_load_explicit(w.met_nan, memory_order_relaxed) ||
        (i >= c->n_slots && rt_run_check(r)))
        return r->err->code;
    w.workspace = kn_offset(w.workspace, (size_t)slot * c->split[KN_CONV_SHARDED].bytes);
    return run_one(r, &w, &c->split[KN_CONV_SHARDED], i);
}

static enum rt_status conv_channels_shard(struct rt_run *r, void *arg, int64_t i, int64_t slot)
{
    struct kn_conv *c = r->state;
    const struct kn_conv_work *w = arg;
    struct kn_conv_onednn_split *split = &c->split[KN_CONV_SHARDED];
    const int64_t at = i * split->channels, left = c->g.co - at, pixels = c->n_dst / c->g.co;
    const struct kn_conv_onednn_slice *p =
        &split->slice[left > split->channels ? KN_CONV_FIRST : KN_CONV_LAST];
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

static enum rt_status run_sharded(struct rt_run *r, struct kn_conv_work *w)
{
    const struct kn_conv *c = r->state;
    const struct kn_conv_onednn_split *split = &c->split[KN_CONV_SHARDED];

    if (split->channels)
        return kn_parallel_shards(r, kn_conv_n_slices(c, split), c->n_slots, conv_channels_shard,
                                  w);
    return kn_parallel_shards(r, kn_conv_split_count(&c->g, &split->by), c->n_slots, conv_shard, w);
}

enum rt_status kn_conv_onednn_run(struct rt_run *r, struct kn_conv_work *w)
{
    const struct kn_conv *c = r->state;
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
