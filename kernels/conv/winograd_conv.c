#include "kernels/conv/winograd_conv.h"

#include <stdatomic.h>

#include "kernels/conv/conv_shape.h"
#include "kernels/cpu/parallel.h"
#include "kernels/fused/epilogue.h"
#include "kernels/conv/winograd.h"
#include "runtime/exec/parallel.h"

struct state {
    struct kn_winograd w;
    struct kn_epilogue epilogue;
    const struct rt_pack *filter;
    bool empty;
    /* offset in scratch memory at which the output is stored before a broadcast residual is
     * added */
    size_t broadcast_at;
    /* If by_blocks is set, each core has scratch memory for its own block. Otherwise the cores
     * share the memory of one block, and each core has its own memory for one tile's inputs
     * (kn_winograd_patch_bytes). */
    struct kn_winograd_sharding sharding;
};

enum {
    LEAST_CHANNELS = 32,
    LEAST_SIDE = 6,
    /* With at least LARGE_SIDE outputs per side, 4x4 tiles pay off even for one image. Only a small
     * share of their outputs lies outside the image, and there are enough tiles to make up for the
     * larger transformed weights. */
    LARGE_SIDE = 20,
    /* With fewer than MIN_OUTPUTS_OF_4X4 outputs per image, 4x4 tiles are slower than 2x2 tiles.
     * The time for reading the larger weights of 4x4 tiles exceeds the time saved by fewer
     * multiplications. */
    MIN_OUTPUTS_OF_4X4 = 100,
};
/* The largest error that kn_winograd_check_end may return for the node's filter. */
static const double MAX_ERROR = 1e-4;

static bool init(const struct kn_conv_shape *g, int m, int cores, struct kn_winograd *w)
{
    const struct kn_axis *y = &g->axis[0], *x = &g->axis[1];

    for (int i = 0; i < 2; i++)
        if (g->axis[i].size != 3 || g->axis[i].stride != 1 || g->axis[i].dilation != 1 ||
            g->axis[i].out < LEAST_SIDE)
            return false;
    if (g->groups != 1 || g->ci < LEAST_CHANNELS || g->co < LEAST_CHANNELS || g->batch < 0)
        return false;
    *w = (struct kn_winograd){
        .m = m,
        .in_h = y->in,
        .in_w = x->in,
        .top = y->lo,
        .left = x->lo,
        .tiles = {.batch = g->batch ? g->batch : 1,
                  .out_h = y->out,
                  .out_w = x->out,
                  .ci = g->ci,
                  .co = g->co,
                  .cores = cores},
    };
    return kn_winograd_init(w);
}

static int can(const struct rt_prep *p, int m)
{
    struct rt_error ignored = {.arena = NULL};
    struct rt_prep quiet = *p;
    struct kn_conv_shape g;
    struct kn_winograd w;

    quiet.err = &ignored;
    if (p->tuning->no_winograd || !p->in[1].value || p->out[0].dtype != RT_F32 ||
        kn_channels_first(p->node) || kn_conv_prepare(&quiet, &g) || !init(&g, m, 1, &w))
        return 0;
    if (m == 4 && (double)w.tiles.out_h * (double)w.tiles.out_w < MIN_OUTPUTS_OF_4X4)
        return 0;
    const int by_rule = w.tiles.out_h >= LARGE_SIDE && w.tiles.out_w >= LARGE_SIDE ? 4 : 2;
    return m == by_rule ? 3 : 1;
}

int kn_winograd2_can(const struct rt_prep *p)
{
    return can(p, 2);
}

int kn_winograd4_can(const struct rt_prep *p)
{
    return can(p, 4);
}

/* The key of a packed filter. It contains everything that the packed bytes depend on. */
struct format {
    char name[8];
    int m, panel;
    int64_t ci, co;
    /* Number of scale factors that follow this struct in memory. It is co, or 0 if the output
     * channels are not scaled. */
    int64_t n_scale;
};

static enum rt_status winograd_pack(const struct rt_tensor *src, void *dst, const void *fmt,
                                    struct rt_error *err)
{
    const struct format *f = fmt;
    struct kn_winograd w = {
        .m = f->m, .tiles = {.batch = 1, .out_h = 1, .out_w = 1, .ci = f->ci, .co = f->co}};

    if (!kn_winograd_init(&w))
        return rt_fail(err, RT_INTERNAL, "a filter's form is not known any more");
    struct rt_buffer *scaled = NULL;
    const float *filter = src->data;
    if (f->n_scale) {
        scaled =
            rt_buffer_new(NULL, RT_F32, (size_t)(9 * w.tiles.ci * w.tiles.co) * sizeof(float), err);
        if (!scaled)
            return RT_RESOURCE_EXHAUSTED;
        kn_epilogue_scale(atomic_load(&scaled->data), filter, (const void *)(f + 1), 9 * w.tiles.ci,
                          w.tiles.co);
        filter = atomic_load(&scaled->data);
    }
    kn_winograd_pack(&w, filter, dst);
    const double apart = kn_winograd_error(&w, filter, dst);
    rt_buffer_unref(scaled);
    if (!(apart <= MAX_ERROR))
        return rt_fail(err, RT_FAILED_PRECONDITION, "sums by tiles would be %g apart", apart);
    return RT_OK;
}

static enum rt_status pack_filter(struct state *s, struct rt_prep *p, const float *scale)
{
    const struct format f = {.name = "wino",
                             .m = s->w.m,
                             .panel = (int)s->w.tiles.gemm.panel,
                             .ci = s->w.tiles.ci,
                             .co = s->w.tiles.co,
                             .n_scale = scale ? s->w.tiles.co : 0};

    return kn_epilogue_pack(p, 1, &f, sizeof f, scale, s->w.tiles.co,
                            kn_winograd_tiles_pack_bytes(&s->w.tiles), winograd_pack, &s->filter);
}

static size_t scratch_of(const struct state *s)
{
    const size_t slots = (size_t)s->sharding.slots;

    return s->sharding.by_blocks ? slots * kn_winograd_scratch_bytes(&s->w)
                                 : kn_winograd_tiles_workspace_bytes(&s->w.tiles) +
                                       slots * kn_winograd_patch_bytes(&s->w);
}

static enum rt_status winograd_prepare(struct rt_prep *p, int m, void **state)
{
    struct state *s = rt_prep_alloc(p, sizeof *s);
    struct kn_conv_shape g;

    if (!s)
        return p->err->code;
    enum rt_status st = kn_conv_prepare(p, &g);
    if (st)
        return st;
    if (!init(&g, m, rt_prep_width(p), &s->w))
        return rt_fail(p->err, RT_INTERNAL, "%s: no tiles for this shape", p->node->name);
    s->empty = g.batch == 0;
    size_t broadcast_bytes;
    if ((st = kn_epilogue_prepare(&s->epilogue, p, &broadcast_bytes)) != RT_OK)
        return st;
    const float *scale = kn_epilogue_constant(p, s->epilogue.scale);
    st = pack_filter(s, p, scale);
    if (scale)
        s->epilogue.scale = 0;
    if (!st && !s->filter)
        st = rt_fail(p->err, RT_INTERNAL, "%s: the filter is no constant", p->node->name);
    s->sharding = kn_winograd_sharding(&s->w.tiles, rt_prep_width(p));
    s->broadcast_at = kn_padded(scratch_of(s));
    p->scratch_bytes = s->broadcast_at + broadcast_bytes;
    *state = s;
    return st;
}

enum rt_status kn_winograd2_prepare(struct rt_prep *p, void **state)
{
    return winograd_prepare(p, 2, state);
}

enum rt_status kn_winograd4_prepare(struct rt_prep *p, void **state)
{
    return winograd_prepare(p, 4, state);
}

struct finish {
    const struct state *s;
    struct rt_run *r;
    const float *dst;
};

static void finish(void *arg, float *y, float *sums, int64_t pixels)
{
    const struct finish *f = arg;
    const struct kn_epilogue *t = &f->s->epilogue;

    if (sums != y)
        kn_epilogue_apply_out_of_place(t, f->r, sums, y - f->dst, pixels, f->s->w.tiles.co);
    else
        kn_epilogue_apply(t, f->r, KN_EPILOGUE_ALL, y, y - f->dst, pixels, f->s->w.tiles.co);
}

static struct kn_winograd_post_ops post_ops_of(struct finish *f)
{
    const struct kn_epilogue *t = &f->s->epilogue;

    return (struct kn_winograd_post_ops){.finish = kn_epilogue_any(t) ? finish : NULL,
                                         .arg = f,
                                         .apart = kn_epilogue_is_out_of_place(t)};
}

/* ---- on several cores ---- */

struct job {
    const struct state *s;
    const float *src, *packed;
    float *dst;
    char *scratch;
    int64_t block, tiles; /* all cores share block number `block`, which has `tiles` tiles */
    int64_t step;         /* number of tiles, or of positions of the transform domain, per shard */
};

static enum rt_status winograd_block_shard(struct rt_run *r, void *arg, int64_t i, int64_t slot)
{
    const struct job *j = arg;
    struct finish f = {j->s, r, j->dst};
    const struct kn_winograd_post_ops post_ops = post_ops_of(&f);
    void *scratch = j->scratch + (size_t)slot * kn_winograd_scratch_bytes(&j->s->w);

    if (i >= j->s->sharding.slots && rt_run_check(r))
        return r->err->code;
    kn_winograd_run_block(&j->s->w, j->src, j->packed, j->dst, i, scratch, &post_ops);
    return RT_OK;
}

static float *patch_of(const struct job *j, int64_t slot)
{
    return (void *)(j->scratch + kn_winograd_tiles_workspace_bytes(&j->s->w.tiles) +
                    (size_t)slot * kn_winograd_patch_bytes(&j->s->w));
}

static int64_t end_of(const struct job *j, int64_t i, int64_t n)
{
    return (i + 1) * j->step < n ? (i + 1) * j->step : n;
}

static enum rt_status winograd_inputs_shard(struct rt_run *r, void *arg, int64_t i, int64_t slot)
{
    const struct job *j = arg;
    (void)r;
    kn_winograd_inputs(&j->s->w, j->src, j->block, i * j->step, end_of(j, i, j->tiles),
                       (void *)j->scratch, patch_of(j, slot));
    return RT_OK;
}

static enum rt_status winograd_gemm_shard(struct rt_run *r, void *arg, int64_t i, int64_t slot)
{
    const struct job *j = arg;
    const struct kn_winograd_tiles *t = &j->s->w.tiles;
    (void)r;
    (void)slot;
    kn_winograd_tiles_gemm(t, j->packed, j->tiles, i * j->step, end_of(j, i, t->domain_size), 0,
                           t->gemm.panels, (void *)j->scratch);
    return RT_OK;
}

static enum rt_status winograd_outputs_shard(struct rt_run *r, void *arg, int64_t i, int64_t slot)
{
    const struct job *j = arg;
    struct finish f = {j->s, r, j->dst};
    const struct kn_winograd_post_ops post_ops = post_ops_of(&f);

    kn_winograd_outputs(&j->s->w, j->dst, j->block, i * j->step, end_of(j, i, j->tiles),
                        (void *)j->scratch, patch_of(j, slot), &post_ops);
    return RT_OK;
}

/* Runs one stage of the shared block. The stage processes n tiles or n positions of the transform
 * domain, and is split into `shards_per_core` shards per core. */
static enum rt_status winograd_stage(struct rt_run *r, struct job *j, int64_t n,
                                     int64_t shards_per_core, kn_shard_fn *shard)
{
    const int64_t shards = j->s->sharding.slots * shards_per_core;
    j->step = (n + shards - 1) / shards;
    return kn_parallel_shards(r, (n + j->step - 1) / j->step, j->s->sharding.slots, shard, j);
}

static enum rt_status winograd_run(struct rt_run *r, struct job *j)
{
    const struct kn_winograd *w = &j->s->w;
    const int64_t blocks = kn_winograd_tiles_blocks(&w->tiles);
    enum rt_status st = RT_OK;

    if (j->s->sharding.by_blocks)
        return kn_parallel_shards(r, blocks, j->s->sharding.slots, winograd_block_shard, j);
    for (j->block = 0; j->block < blocks && !st; j->block++) {
        j->tiles = kn_winograd_tiles_in_block(&w->tiles, j->block);
        st = winograd_stage(r, j, j->tiles, 1, winograd_inputs_shard);
        if (!st)
            st = winograd_stage(r, j, w->tiles.domain_size, 4, winograd_gemm_shard);
        if (!st)
            st = winograd_stage(r, j, j->tiles, 1, winograd_outputs_shard);
        if (!st)
            st = rt_run_check(r);
    }
    return st;
}

enum rt_status kn_winograd_conv(struct rt_run *r)
{
    const struct state *s = r->state;
    struct job j = {.s = s,
                    .src = r->in[0].data,
                    .packed = rt_pack_data(s->filter),
                    .dst =
                        kn_epilogue_output(&s->epilogue, r, (char *)r->scratch + s->broadcast_at),
                    .scratch = r->scratch};

    if (s->empty)
        return RT_OK;
    const enum rt_status st = winograd_run(r, &j);
    return st ? st : kn_epilogue_broadcast(&s->epilogue, r, j.dst);
}
