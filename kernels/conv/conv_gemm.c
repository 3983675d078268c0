#include "kernels/conv/conv_gemm.h"

#include <string.h>

#include "kernels/conv/conv_shape.h"
#include "kernels/conv/im2col.h"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/parallel.h"
#include "kernels/matmul/fused_gemm.h"
#include "kernels/conv/winograd_conv.h"
#include "runtime/exec/parallel.h"

enum {
    /* im2col copies at most MOST_TERMS terms of each sum and at most IM2COL_FLOATS floats at a
     * time. These floats fill at most half of a core's own cache. */
    MOST_TERMS = 512,
    IM2COL_FLOATS = 1 << 16,
    MOST_ROWS = 336,
    LEAST_ROWS = 28,
    /* At most WEIGHTS_CACHED weights stay in a core's own cache, together with the im2col copies. A
     * convolution with so few weights has blocks of at most OUTPUTS outputs, because the first
     * writes to a block's outputs are not contiguous. */
    WEIGHTS_CACHED = 1 << 18,
    OUTPUTS = 1 << 15,
    /* cost of reading or writing one element, in multiplications */
    MACS_PER_ELEMENT = 32,
    /* Number of floats in a cache line. If the distance between rows of the im2col copies were a
     * power of two, the rows would share cache sets, so a cache line of padding separates them. */
    LINE = 16,
};
enum { LONG_SUM = 128, LEAST_CHANNELS = 16, SHORT_ROW = 10 };

struct state {
    struct kn_conv_shape g;
    struct kn_fused_gemm node;
    /* whether the GEMM's left operand is the input itself, with one row per pixel */
    bool in_place;
    struct kn_im2col im2col;
    int64_t pixels; /* number of output pixels, which are the rows of the GEMM */
    /* `rows` is the number of pixels per block, and `blocks` is the number of blocks. im2col copies
     * `terms` terms at a time. */
    int64_t rows, blocks, terms;
    int64_t ld;             /* number of floats from one row of the im2col copies to the next */
    int64_t panels, groups; /* a shard has `panels` panels; a block has `groups` shards */
    int n_slots;            /* number of shards that run concurrently */
    /* Each core has slot_bytes bytes of scratch memory for its im2col copies. If a broadcast
     * residual is added, the output without the residual is stored in scratch memory at offset
     * broadcast_at. */
    size_t slot_bytes, broadcast_at;
};

/* Returns whether the GEMM can read the input in place, one row per pixel, without im2col. */
static bool is_in_place(const struct kn_conv_shape *g)
{
    for (int i = 0; i < 2; i++)
        if (g->axis[i].size != 1 || g->axis[i].stride != 1 || g->axis[i].in != g->axis[i].out)
            return false;
    return true;
}

/*
 * Returns whether this kernel may be the fastest.
 *
 * If the input is read in place, one of three conditions must hold: the sums are long, the input
 * has many more channels than the output, or the output has one pixel.
 *
 * If im2col is needed, there must be enough channels, because copying would otherwise take as long
 * as multiplying. In addition, the rows must be short or the stride greater than 1; otherwise
 * oneDNN, which computes a row of outputs at a time, is faster.
 */
static bool may_pay(const struct kn_conv_shape *g)
{
    const struct kn_axis *y = &g->axis[0], *x = &g->axis[1];

    if (is_in_place(g))
        return g->ci >= LONG_SUM || g->ci >= 2 * g->co || (y->out == 1 && x->out == 1);
    return g->ci >= LEAST_CHANNELS && g->co >= 2 * LEAST_CHANNELS &&
           (x->out <= SHORT_ROW || x->stride > 1);
}

int kn_conv_gemm_can(const struct rt_prep *p)
{
    struct rt_error ignored = {.arena = NULL};
    struct rt_prep quiet = *p;
    struct kn_conv_shape g;

    quiet.err = &ignored;
    if (!p->in[1].value || p->out[0].dtype != RT_F32 || kn_channels_first(p->node) ||
        kn_conv_prepare(&quiet, &g) || g.groups != 1 || g.n_spatial != 2 || g.ci < 1 || g.co < 1 ||
        !may_pay(&g) || kn_winograd2_can(p))
        return 0;
    return p->tuning->bf16 && kn_bf16_multiplies() ? 1 : 3;
}

/* ---- sharding ---- */

/* Divides the pixels into blocks, and the work into shards for `width` cores. Shards divide the
 * pixels or, where there are few pixels and many weights, the output channels. */
static void set_shards(struct state *s, int width)
{
    const struct kn_packed_gemm *p = &s->node.gemm;
    const double all = (double)s->pixels * (double)p->k * (double)p->n;
    int64_t most = all / KN_SHARD_MACS < (double)width ? (int64_t)(all / KN_SHARD_MACS) : width;

    s->terms = s->in_place ? p->k : kn_even_size(p->k, MOST_TERMS, 1);
    int64_t rows = IM2COL_FLOATS / kn_min_i64(s->terms, MOST_TERMS);
    if (p->n * p->k <= WEIGHTS_CACHED)
        rows = kn_min_i64(rows, OUTPUTS / p->n);
    rows = rows < LEAST_ROWS ? LEAST_ROWS : kn_min_i64(rows, MOST_ROWS);
    s->panels = p->panels;
    s->n_slots = most > 1 ? (int)most : 1;
    if (s->n_slots > 1) {
        if (s->pixels < p->n && s->pixels < most * KN_SHARD_ROWS)
            s->panels = kn_even_size(p->panels, kn_div_up(p->panels, most), most);
        else
            rows = kn_min_i64(rows, kn_div_up(s->pixels, most));
    }
    s->rows = kn_even_size(s->pixels, rows, s->panels == p->panels ? most : 1);
    s->blocks = kn_div_up(s->pixels, s->rows);
    s->groups = kn_div_up(p->panels, s->panels);
    s->ld = s->terms % (4 * LINE) ? s->terms : s->terms + LINE;
    s->slot_bytes = s->in_place ? 0 : kn_padded((size_t)(s->rows * s->ld) * sizeof(float));
}

enum rt_status kn_conv_gemm_prepare(struct rt_prep *p, void **state)
{
    struct state *s = rt_prep_alloc(p, sizeof *s);
    size_t broadcast_bytes;

    if (!s)
        return p->err->code;
    *state = s;
    enum rt_status st = kn_conv_prepare(p, &s->g);
    if (st || (st = kn_epilogue_prepare(&s->node.epilogue, p, &broadcast_bytes)) != RT_OK)
        return st;
    const struct kn_axis *y = &s->g.axis[0], *x = &s->g.axis[1];
    s->pixels = s->g.batch * y->out * x->out;
    s->node.gemm = (struct kn_packed_gemm){.k = y->size * x->size * s->g.ci, .n = s->g.co};
    if (!kn_packed_gemm_init(&s->node.gemm))
        return rt_fail(p->err, RT_RESOURCE_EXHAUSTED, "%s: the filter is too large", p->node->name);
    s->in_place = is_in_place(&s->g);
    s->im2col = kn_im2col_of(y, x, s->g.ci, sizeof(float));
    st = kn_fused_gemm_pack(&s->node, p, 1, false);
    if (!st && (!s->node.b || s->node.epilogue.scale))
        st = rt_fail(p->err, RT_INTERNAL, "%s: the filter is no constant", p->node->name);
    if (st)
        return st;
    set_shards(s, rt_prep_width(p));
    s->broadcast_at = (size_t)s->n_slots * s->slot_bytes;
    p->scratch_bytes = s->broadcast_at + broadcast_bytes;
    return RT_OK;
}

/* ---- im2col ---- */

/* Copies terms [from, to) of the windows of `rows` pixels, starting at pixel `pixel`, as rows of
 * s->ld floats. */
static void im2col(const struct state *s, const float *src, int64_t pixel, int64_t rows,
                   int64_t from, int64_t to, float *dst)
{
    const struct kn_axis *ay = &s->g.axis[0], *ax = &s->g.axis[1];
    const int64_t size = ay->in * ax->in * s->g.ci;
    int64_t x = pixel % ax->out, y = pixel / ax->out % ay->out;
    const float *image = src + pixel / ax->out / ay->out * size;

    for (int64_t i = 0; i < rows; i++, dst += s->ld) {
        kn_im2col_row(&s->im2col, image, y * ay->stride - ay->lo, x * ax->stride - ax->lo, from, to,
                      dst);
        if (++x == ax->out) {
            x = 0;
            if (++y == ay->out) {
                y = 0;
                image += size;
            }
        }
    }
}

/* ---- the run ---- */

struct work {
    const struct state *s;
    const float *src, *packed;
    float *dst;
    char *workspace;
    struct kn_gemm_post_ops post_ops; /* post_ops.residual belongs to pixel 0 */
};

static enum rt_status conv_gemm_shard(struct rt_run *r, void *arg, int64_t i, int64_t slot)
{
    const struct work *w = arg;
    const struct state *s = w->s;
    const struct kn_packed_gemm *p = &s->node.gemm;
    const int64_t pixel = i / s->groups * s->rows, group = i % s->groups * s->panels;
    float *copies = s->in_place ? NULL : (void *)(w->workspace + (size_t)slot * s->slot_bytes);
    struct kn_gemm_post_ops post_ops = w->post_ops;
    struct kn_packed_gemm_args t = {.packed = w->packed,
                                    .c = w->dst + pixel * p->n,
                                    .ldc = p->n,
                                    .rows = kn_min_i64(s->rows, s->pixels - pixel)};
    const double panel_work = (double)t.rows * (double)s->terms * (double)p->panel;
    const int64_t most =
        panel_work < KN_CHECK_MACS ? (int64_t)(KN_CHECK_MACS / (panel_work + 1)) + 1 : 1;
    const int64_t end = kn_min_i64(group + s->panels, p->panels);

    if (post_ops.residual)
        post_ops.residual += pixel * p->n;
    for (int64_t k = 0; k < p->k; k += s->terms) {
        t.k_from = k;
        t.k_to = kn_min_i64(k + s->terms, p->k);
        t.a = s->in_place ? w->src + pixel * p->k : copies;
        t.lda = s->in_place ? p->k : s->ld;
        if (!s->in_place)
            im2col(s, w->src, pixel, t.rows, t.k_from, t.k_to, copies);
        for (t.from = group; t.from < end; t.from = t.to) {
            t.to = kn_min_i64(t.from + most, end);
            kn_packed_gemm_run(p, &t, &post_ops);
            if ((t.to < end || t.k_to < p->k) && panel_work * (double)most > KN_CHECK_MACS / 8 &&
                rt_run_check(r))
                return r->err->code;
        }
    }
    return RT_OK;
}

static enum rt_status run_serial(struct rt_run *r, struct work *w, int64_t n)
{
    const struct state *s = w->s;
    const double work = (double)(s->rows * s->panels) *
                        (double)(s->node.gemm.k * s->node.gemm.panel) / MACS_PER_ELEMENT;
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st; i++) {
        st = conv_gemm_shard(r, w, i, 0);
        if (!st && i < n - 1)
            st = rt_run_spend(r, &left, work < RT_WORK ? (int64_t)work : RT_WORK);
    }
    return st;
}

enum rt_status kn_conv_gemm(struct rt_run *r)
{
    const struct state *s = r->state;
    const struct kn_epilogue *t = &s->node.epilogue;
    struct work w = {.s = s,
                     .src = r->in[0].data,
                     .packed = rt_pack_data(s->node.b),
                     .dst = kn_epilogue_output(
                         t, r, t->broadcast_residual ? (char *)r->scratch + s->broadcast_at : NULL),
                     .workspace = r->scratch,
                     .post_ops = kn_fused_gemm_post_ops(&s->node, r)};
    const int64_t n = s->blocks * s->groups;
    enum rt_status st = RT_OK;

    if (s->n_slots > 1 && rt_run_width(r) > 1)
        st = kn_parallel_shards(r, n, s->n_slots, conv_gemm_shard, &w);
    else
        st = run_serial(r, &w, n);
    return st ? st : kn_epilogue_broadcast(t, r, w.dst);
}
