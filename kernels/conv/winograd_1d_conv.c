#include "kernels/conv/winograd_1d_conv.h"

#include "kernels/conv/conv_shape.h"
#include "kernels/cpu/parallel.h"
#include "kernels/fused/epilogue.h"
#include "kernels/conv/winograd_1d.h"
#include "runtime/exec/parallel.h"

struct state {
    struct kn_winograd_1d l;
    struct kn_epilogue epilogue; /* the epilogue steps that follow the output transform */
    struct kn_winograd_1d_post_ops post_ops;
    int shift; /* index of the input that the output transform adds, or 0 if there is none */
    const struct rt_pack *filter;
    bool empty;
    int64_t slots; /* number of shards that run concurrently */
    /* A shard computes `panels` panels of output channels, and a block has `groups` shards. */
    int64_t panels, groups;
    /* offset in scratch memory at which the output is stored before a broadcast residual is
     * added */
    size_t broadcast_at;
};

enum { LEAST_CHANNELS = 32, LEAST_LENGTH = 6 };
/* The largest error that kn_winograd_check_end may return for the node's filter. */
static const double MAX_ERROR = 1e-4;

static bool init(const struct kn_conv_shape *g, int cores, struct kn_winograd_1d *l)
{
    const struct kn_axis *y = &g->axis[0], *x = &g->axis[1];
    const bool vertical = x->size == 1;
    const struct kn_axis *along = vertical ? y : x, *across = vertical ? x : y;

    if (g->n_spatial != 2 || g->groups != 1 || g->ci < LEAST_CHANNELS || g->co < LEAST_CHANNELS ||
        across->size != 1 || across->stride != 1 || across->lo || across->hi ||
        along->stride != 1 || along->dilation != 1 || along->out < LEAST_LENGTH || g->batch < 0 ||
        along->size > 7)
        return false;
    *l = (struct kn_winograd_1d){.taps = (int)along->size,
                                 .vertical = vertical,
                                 .in_h = y->in,
                                 .in_w = x->in,
                                 .before = along->lo,
                                 .tiles = {.batch = g->batch ? g->batch : 1,
                                           .out_h = y->out,
                                           .out_w = x->out,
                                           .ci = g->ci,
                                           .co = g->co,
                                           .cores = cores}};
    return kn_winograd_1d_init(l);
}

int kn_winograd_1d_can(const struct rt_prep *p)
{
    struct rt_error ignored = {.arena = NULL};
    struct rt_prep quiet = *p;
    struct kn_conv_shape g;
    struct kn_winograd_1d l;

    quiet.err = &ignored;
    return !p->tuning->no_winograd && p->in[1].value && p->out[0].dtype == RT_F32 &&
                   !kn_channels_first(p->node) && kn_conv_prepare(&quiet, &g) == RT_OK &&
                   init(&g, 1, &l)
               ? 3
               : 0;
}

/* The key of a packed filter. It contains everything that the packed bytes depend on. */
struct format {
    char name[8];
    int64_t taps, panel, ci, co;
    /* Number of scale factors that follow this struct in memory. It is co, or 0 if the output
     * channels are not scaled. */
    int64_t n_scale;
};

static enum rt_status winograd_1d_pack(const struct rt_tensor *src, void *dst, const void *fmt,
                                       struct rt_error *err)
{
    const struct format *f = fmt;
    const float *scale = f->n_scale ? (const void *)(f + 1) : NULL;
    struct kn_winograd_1d l = {
        .taps = (int)f->taps,
        .in_h = 1,
        .in_w = 1,
        .tiles = {.batch = 1, .out_h = 1, .out_w = 1, .ci = f->ci, .co = f->co}};

    if (!kn_winograd_1d_init(&l))
        return rt_fail(err, RT_INTERNAL, "a filter's form is not known any more");
    struct rt_buffer *workspace =
        rt_buffer_new(NULL, RT_F32, (size_t)(l.tiles.ci * l.tiles.co) * sizeof(float), err);
    if (!workspace)
        return RT_RESOURCE_EXHAUSTED;
    kn_winograd_1d_pack(&l, src->data, scale, atomic_load(&workspace->data), dst);
    rt_buffer_unref(workspace);
    const double apart = kn_winograd_1d_error(&l, src->data, scale, dst);
    if (!(apart <= MAX_ERROR))
        return rt_fail(err, RT_FAILED_PRECONDITION, "sums by tiles would be %g apart", apart);
    return RT_OK;
}

static enum rt_status pack_filter(struct state *s, struct rt_prep *p, const float *scale)
{
    const struct format f = {.name = "line",
                             .taps = s->l.taps,
                             .panel = s->l.tiles.gemm.panel,
                             .ci = s->l.tiles.ci,
                             .co = s->l.tiles.co,
                             .n_scale = scale ? s->l.tiles.co : 0};
    const enum rt_status st =
        kn_epilogue_pack(p, 1, &f, sizeof f, scale, s->l.tiles.co,
                         kn_winograd_tiles_pack_bytes(&s->l.tiles), winograd_1d_pack, &s->filter);

    if (!st && !s->filter)
        return rt_fail(p->err, RT_INTERNAL, "%s: the filter is no constant", p->node->name);
    return st;
}

/* Divides the epilogue between the output transform and s->epilogue. If a scale has not been folded
 * into the filter, s->epilogue does everything. Otherwise, the output transform adds the shift, and
 * also applies a clipping activation if there is no residual. */
static void split_epilogue(struct state *s)
{
    struct kn_epilogue *t = &s->epilogue;

    if (t->scale)
        return;
    s->shift = t->shift;
    t->shift = 0;
    if (t->residual || !kn_epilogue_clips(t, &s->post_ops.most))
        return;
    s->post_ops.clips = true;
    t->act = RT_ACT_NONE;
}

/* Sets how blocks are sharded. Each core that shares a block computes some of the output channels
 * and reads only their weights. If epilogue steps follow the output transform, shards are complete
 * blocks, because these steps need complete pixels. */
static void sharding(struct state *s, int width)
{
    const struct kn_winograd_sharding sharding = kn_winograd_sharding(&s->l.tiles, width);
    const int64_t panels = s->l.tiles.gemm.panels, blocks = kn_winograd_tiles_blocks(&s->l.tiles);

    s->panels = panels;
    if (!sharding.by_blocks && !kn_epilogue_any(&s->epilogue))
        s->panels = kn_even_size(panels, (panels - 1) / sharding.slots + 1, sharding.slots);
    s->groups = (panels - 1) / s->panels + 1;
    s->slots = blocks * s->groups < sharding.slots ? blocks * s->groups : sharding.slots;
}

enum rt_status kn_winograd_1d_prepare(struct rt_prep *p, void **state)
{
    struct state *s = rt_prep_alloc(p, sizeof *s);
    struct kn_conv_shape g;
    size_t broadcast_bytes;

    if (!s)
        return p->err->code;
    enum rt_status st = kn_conv_prepare(p, &g);
    if (st)
        return st;
    if (!init(&g, rt_prep_width(p), &s->l))
        return rt_fail(p->err, RT_INTERNAL, "%s: no tiles for this shape", p->node->name);
    s->empty = g.batch == 0;
    if ((st = kn_epilogue_prepare(&s->epilogue, p, &broadcast_bytes)) != RT_OK)
        return st;
    const float *scale = kn_epilogue_constant(p, s->epilogue.scale);
    if ((st = pack_filter(s, p, scale)) != RT_OK)
        return st;
    s->epilogue.scale = scale ? 0 : s->epilogue.scale;
    split_epilogue(s);
    sharding(s, rt_prep_width(p));
    s->broadcast_at = (size_t)s->slots * kn_padded(kn_winograd_1d_scratch_bytes(&s->l));
    p->scratch_bytes = s->broadcast_at + broadcast_bytes;
    *state = s;
    return RT_OK;
}

struct finish {
    const struct state *s;
    const struct rt_run *r;
    const float *dst;
};

static void finish(void *arg, float *y, float *sums, int64_t pixels)
{
    const struct finish *f = arg;
    const struct kn_epilogue *t = &f->s->epilogue;

    if (sums != y)
        kn_epilogue_apply_out_of_place(t, f->r, sums, y - f->dst, pixels, f->s->l.tiles.co);
    else
        kn_epilogue_apply(t, f->r, KN_EPILOGUE_ALL, y, y - f->dst, pixels, f->s->l.tiles.co);
}

static enum rt_status winograd_1d_shard(struct rt_run *r, void *arg, int64_t i, int64_t slot)
{
    const struct state *s = r->state;
    struct finish f = {s, r, arg};
    struct kn_winograd_1d_post_ops post_ops = s->post_ops;
    const int64_t from = i % s->groups * s->panels, left = s->l.tiles.gemm.panels - from;

    if (i >= s->slots && rt_run_check(r))
        return r->err->code;
    post_ops.shift = s->shift ? r->in[s->shift].data : NULL;
    post_ops.then =
        (struct kn_winograd_post_ops){.finish = kn_epilogue_any(&s->epilogue) ? finish : NULL,
                                      .arg = &f,
                                      .apart = kn_epilogue_is_out_of_place(&s->epilogue)};
    kn_winograd_1d_run_block(&s->l, r->in[0].data, rt_pack_data(s->filter), arg, i / s->groups,
                             from, from + (left < s->panels ? left : s->panels),
                             (char *)r->scratch +
                                 (size_t)slot * kn_padded(kn_winograd_1d_scratch_bytes(&s->l)),
                             &post_ops);
    return RT_OK;
}

enum rt_status kn_winograd_1d_conv(struct rt_run *r)
{
    const struct state *s = r->state;
    float *dst = kn_epilogue_output(&s->epilogue, r, (char *)r->scratch + s->broadcast_at);

    if (s->empty)
        return RT_OK;
    const enum rt_status st = kn_parallel_shards(
        r, kn_winograd_tiles_blocks(&s->l.tiles) * s->groups, s->slots, winograd_1d_shard, dst);
    return st ? st : kn_epilogue_broadcast(&s->epilogue, r, dst);
}
