/*
 * "_Attention" (runtime/fusion/attention.h).
 *
 * First, the keys and values of a head are packed. Then the scores of one block of rows at a time
 * are computed, masked, normalised and multiplied by the values, while they stay in the cache.
 * Masked scores are not skipped, because 0 times an infinite or NaN value is not 0.
 *
 * Heads are read in place. In a [B,T,N,H] tensor, the rows of a head are N * H elements apart.
 * Heads are divided among the cores. If they cannot be divided evenly, their rows may be divided as
 * well.
 */
#include <string.h>

#include "kernels/fused/attention.h"
#include "kernels/math/elementwise.h"
#include "kernels/matmul/gemm.h"
#include "kernels/math/op_rows.h"
#include "kernels/cpu/parallel.h"
#include "kernels/matmul/packed_gemm.h"
#include "kernels/nn/softmax.h"
#include "runtime/fusion/attention.h"
#include "runtime/exec/parallel.h"
#include "runtime/base/checked.h"

enum {
    BLOCK = 1 << 13, /* number of scores that are processed together */
    /* minimum number of rows of scores that are processed together, because a GEMM with fewer rows
     * is slow */
    BLOCK_ROWS = 42,
    /* With fewer than PACK_ROWS rows, kn_gemm_run computes the GEMMs, because packing does not pay
     * off. */
    PACK_ROWS = 8,
    /* With at least this many heads per core, an uneven division of the heads costs little, so the
     * rows of a head are not divided. */
    MANY_HEADS = 8,
    /* The minimum number of rows per shard when a head is divided. It bounds the work of packing
     * the head's keys and values, which each shard repeats. */
    SPAN_ROWS = 32,
    /* maximum number of scores in the scratch memory of a shard, unless a single row has more */
    SLOT_MOST = 1 << 22,
    /* maximum number of floats of scratch memory of all concurrent shards, unless a single shard
     * needs more */
    ALL_MOST = 1 << 24,
    ROUND = 1 << 28 /* number of multiplications between two deadline checks */
};

/* Marks the op as row-wise. A row's context depends on that row of queries, keys and values, and on
 * the same row of each operand that has rows. */
static void rows(struct rt_rows *r)
{
    struct rt_attention op;

    rt_attention_read(r->node, &op);
    for (int k = 0; k < r->n_in; k++) {
        /* the axis of the scores that corresponds to the operand's first axis */
        const int axis = 4 - r->in[k].shape.rank;
        const bool varies = r->in_dep[k].kind == RT_DEP_ROWS && r->in_dep[k].axis == 0;
        if (r->in[k].shape.rank < 0)
            return;
        if (varies && axis == 0)
            continue;
        if ((k < RT_ATTENTION_OPERANDS && !op.broadcasts) || r->in_dep[k].kind != RT_DEP_NONE ||
            (axis <= 0 && r->in[k].shape.dim[0] != 1))
            return;
    }
    r->out_dep[0] = (struct rt_dep){RT_DEP_ROWS, 0};
}

/* ---- prepare ---- */

struct step {
    enum rt_attention_op op;
    int a, b;          /* indices of the node's inputs that are the step's operands */
    int64_t stride[4]; /* strides of operand a along the batch, head, query and key axes */
};

struct attention {
    int64_t from[4], dim[4]; /* shapes of the scores, [B,N,T,S], before and after the steps */
    int64_t h, d;            /* lengths of a query (or key) vector and of a value vector */
    struct kn_attention_places q, k, v, out;
    bool widens;         /* whether the steps broadcast the scores to more queries or keys */
    int64_t rows;        /* number of rows of scores that are processed together */
    int64_t span, spans; /* A shard has `span` rows, and a head has `spans` shards. */
    /* whether keys and values are packed for packed_gemm.h; packing pays off only with enough
     * rows */
    bool packs;
    struct kn_packed_gemm scores, context;
    int64_t slots; /* number of shards that run concurrently */
    int64_t slot;  /* number of floats of scratch memory per concurrent shard */
    /* Offsets, in a shard's scratch memory, of the scores before the steps (used only if `widens`
     * is set), of the packed keys and of the packed values. */
    int64_t made_at, keys_at, values_at;
    int64_t ask; /* approximate number of blocks of rows between two deadline checks */
    int n_steps;
    struct step step[RT_ATTENTION_MOST];
};

static int64_t row_width(const struct attention *k)
{
    return k->dim[3] > 0 ? k->dim[3] : 1;
}

/* Returns the number of rows of scores that must be computed before the steps to obtain n rows
 * after them: 1 if the steps broadcast a single row, otherwise n. */
static int64_t made_rows(const struct attention *k, int64_t n)
{
    return k->from[2] == 1 ? 1 : n;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Sets the number of concurrent shards, and divides the work evenly among them. The rows of a head
 * are divided only if packed_gemm.h computes the products: the results of a library's GEMM may
 * depend on the number of rows per call. */
static void set_shards(struct attention *k, int width)
{
    const int64_t t = k->dim[2];
    const double head = (double)t * (double)k->dim[3] * (double)(k->h + k->d);
    const double heads = (double)k->dim[0] * (double)k->dim[1], most = heads * head / KN_SHARD_MACS;

    k->slots = most >= width ? width : most > 1 ? (int64_t)most : 1;
    k->span = t;
    if (k->packs && heads < (double)k->slots * MANY_HEADS) {
        const int64_t spans = k->slots / gcd(k->dim[0] * k->dim[1], k->slots);
        k->span = kn_even_size(t, (t - 1) / spans + 1, 1);
        if (k->span < SPAN_ROWS)
            k->span = t < SPAN_ROWS ? t : SPAN_ROWS;
    }
    k->spans = (t - 1) / k->span + 1;
}

/* Lays out the scratch memory of a shard. Returns false if it would be too large. */
static bool lay_out(struct attention *k)
{
    k->made_at = k->rows * row_width(k);
    k->keys_at = k->made_at;
    if (k->widens)
        k->keys_at += made_rows(k, k->rows) * k->from[3];
    k->keys_at = (k->keys_at + 15) & ~INT64_C(15);
    k->values_at = k->slot = k->keys_at;
    if (!k->packs)
        return true;
    const size_t keys = kn_packed_gemm_pack_bytes(&k->scores) / sizeof(float);
    const size_t values = kn_packed_gemm_pack_bytes(&k->context) / sizeof(float);
    return rt_add(k->keys_at, (int64_t)keys, &k->values_at) &&
           rt_add(k->values_at, (int64_t)values, &k->slot);
}

static void read_steps(struct attention *k, const struct rt_attention *op, const struct rt_prep *p)
{
    const struct rt_attention_step *s = rt_attention_steps(op, &k->n_steps);

    for (int j = 0; j < k->n_steps; j++) {
        k->step[j] =
            (struct step){.op = (enum rt_attention_op)s[j].op, .a = (int)s[j].a, .b = (int)s[j].b};
        kn_attention_strides(&p->in[s[j].a].shape, k->step[j].stride);
    }
}

/* Sets the number of heads, and the strides of the heads in each tensor. */
static void place_heads(struct attention *k, const struct rt_attention *op, const struct rt_prep *p)
{
    const struct rt_shape *out = &p->out[0].shape;

    /* The values may have a larger batch or more heads than the scores. */
    k->dim[0] = out->dim[0];
    k->dim[1] = out->dim[kn_attention_heads(op, RT_ATTENTION_OUT)];
    k->q = kn_attention_places(op, RT_ATTENTION_QUERIES, &p->in[RT_ATTENTION_QUERIES].shape);
    k->k = kn_attention_places(op, RT_ATTENTION_KEYS, &p->in[RT_ATTENTION_KEYS].shape);
    k->v = kn_attention_places(op, RT_ATTENTION_VALUES, &p->in[RT_ATTENTION_VALUES].shape);
    k->out = kn_attention_places(op, RT_ATTENTION_OUT, out);
}

/* Sets the number of rows that are processed together, and the number of blocks of rows between two
 * deadline checks. */
static void size_blocks(struct attention *k)
{
    const int64_t width = row_width(k), most = SLOT_MOST / width;

    k->rows = BLOCK / width > BLOCK_ROWS ? BLOCK / width : BLOCK_ROWS;
    if (k->rows > most)
        k->rows = most > 1 ? most : 1;
    k->rows = kn_even_size(k->span, k->rows, 1);
    k->ask = (int64_t)(ROUND / ((double)k->rows * (double)width * (double)(k->h + k->d) + 1)) + 1;
}

static void choose_products(struct attention *k)
{
    k->scores = (struct kn_packed_gemm){.k = k->h, .n = k->from[3], .reuse = true};
    k->context = (struct kn_packed_gemm){.k = k->dim[3], .n = k->d, .reuse = true};
    k->packs = kn_packed_gemm_is_fast() && made_rows(k, k->dim[2]) >= PACK_ROWS &&
               kn_packed_gemm_init(&k->scores) && kn_packed_gemm_init(&k->context);
}

static void limit_slots(struct attention *k)
{
    const int64_t most = ALL_MOST / k->slot;
    if (k->slots > most)
        k->slots = most > 1 ? most : 1;
}

static enum rt_status attention_prepare(struct rt_prep *p, void **state)
{
    struct attention *k = rt_prep_alloc(p, sizeof *k);
    struct rt_shape before, behind;
    struct rt_attention op;

    if (!k)
        return p->err->code;
    rt_attention_read(p->node, &op);
    const enum rt_status st = kn_attention_scores(&op, p->in, &before, &behind, p->err);
    if (st)
        return st;
    memcpy(k->from, before.dim, sizeof k->from);
    memcpy(k->dim, behind.dim, sizeof k->dim);
    k->widens = k->from[2] != k->dim[2] || k->from[3] != k->dim[3];
    k->h = p->in[RT_ATTENTION_QUERIES].shape.dim[3];
    k->d = p->in[RT_ATTENTION_VALUES].shape.dim[3];
    *state = k;
    if (rt_count(p->out[0].shape.rank, p->out[0].shape.dim) <= 0)
        return RT_OK;
    read_steps(k, &op, p);
    place_heads(k, &op, p);
    if (row_width(k) > INT64_MAX / 64)
        return rt_fail(p->err, RT_RESOURCE_EXHAUSTED, "attention scores of too many elements");
    choose_products(k);
    set_shards(k, rt_prep_width(p));
    size_blocks(k);
    if (!lay_out(k))
        return rt_fail(p->err, RT_RESOURCE_EXHAUSTED, "attention of too many elements");
    limit_slots(k);
    p->scratch_bytes = (size_t)(k->slot * k->slots) * sizeof(float);
    return RT_OK;
}

/* ---- run ---- */

KN_CLONES static void choose(float *d, const bool *c, int64_t n, float other, bool keep)
{
    for (int64_t i = 0; i < n; i++) {
        const float x = d[i];
        d[i] = c[i] == keep ? x : other;
    }
}

/* Applies one step to rows [t, t + n_rows) of a head's scores. */
static void run_step(const struct rt_run *r, const struct attention *k, const struct step *s,
                     int64_t b, int64_t head, int64_t t, int64_t n_rows, float *score)
{
    const int64_t offset = b * s->stride[0] + head * s->stride[1] + t * s->stride[2];
    /* whether a single operand value applies to all rows and keys */
    const bool alike = !s->stride[2] && !s->stride[3];
    const int64_t n = alike ? n_rows * k->dim[3] : k->dim[3], step = s->stride[3] != 0;

    if (s->op == RT_ATTENTION_KEEP || s->op == RT_ATTENTION_REPLACE) {
        const bool *c = (const bool *)r->in[s->a].data + offset;
        const bool keep = s->op == RT_ATTENTION_KEEP;
        const float other = *(const float *)r->in[s->b].data;
        for (int64_t i = 0; i < (alike ? 1 : n_rows); i++, c += s->stride[2], score += n) {
            if (step)
                choose(score, c, n, other, keep);
            else if (*c != keep)
                for (int64_t j = 0; j < n; j++)
                    score[j] = other;
        }
        return;
    }
    const struct kn_binary *const op = s->op == RT_ATTENTION_MUL   ? &kn_binary_mul
                                       : s->op == RT_ATTENTION_DIV ? &kn_binary_div
                                       : s->op == RT_ATTENTION_SUB ? &kn_binary_sub
                                                                   : &kn_binary_add_v2;
    const float *v = (const float *)r->in[s->a].data + offset;
    for (int64_t i = 0; i < (alike ? 1 : n_rows); i++, v += s->stride[2], score += n)
        op->row[RT_F32](score, score, v, n, 1, step);
}

/* Multiplies a by the packed matrix `packed` or, if it is NULL, by b. */
static void attention_gemm(const struct kn_gemm *g, const struct kn_packed_gemm *p, const float *a,
                           const float *b, const float *packed, float *c)
{
    if (packed) {
        struct kn_packed_gemm_args t = kn_packed_gemm_whole(p, packed, a, c, g->m);
        t.lda = g->lda;
        t.ldc = g->ldc;
        kn_packed_gemm_run(p, &t, NULL);
    } else if (g->k) {
        kn_gemm_run(g, a, b, c, NULL);
    } else {
        for (int64_t i = 0; i < g->m; i++)
            memset(c + i * g->ldc, 0, (size_t)g->n * sizeof *c);
    }
}

/* Broadcasts scores of shape [made_rows(n_rows), from[3]] to shape [n_rows, dim[3]]. */
static void widen(const struct attention *k, const float *from, float *to, int64_t n_rows)
{
    const int64_t row = k->from[2] == 1 ? 0 : k->from[3], col = k->from[3] == 1 ? 0 : 1;
    for (int64_t t = 0; t < n_rows; t++)
        for (int64_t s = 0; s < k->dim[3]; s++)
            *to++ = from[t * row + s * col];
}

/* Returns the address of the element of input i at `offset`, or NULL for a tensor without
 * elements. */
static const float *at(const struct rt_run *r, int i, int64_t offset)
{
    return r->in[i].data ? (const float *)r->in[i].data + offset : NULL;
}

/* One head of one batch entry, with the scratch memory of its shard. */
struct head {
    int64_t b, head;
    const float *q, *k, *v;
    float *out;
    float *score, *made;
    float *keys, *values; /* packed keys and values, or NULL if they are not packed */
};

static void run_rows(const struct rt_run *r, const struct attention *k, const struct head *h,
                     int64_t first, int64_t n_rows)
{
    const struct kn_gemm scores = {.dtype = RT_F32,
                                   .tb = KN_TRANS,
                                   .m = made_rows(k, n_rows),
                                   .n = k->from[3],
                                   .k = k->h,
                                   .lda = k->q.row,
                                   .ldb = k->k.row,
                                   .ldc = k->from[3]};
    const struct kn_gemm context = {.dtype = RT_F32,
                                    .m = n_rows,
                                    .n = k->d,
                                    .k = k->dim[3],
                                    .lda = k->dim[3],
                                    .ldb = k->v.row,
                                    .ldc = k->out.row};

    if (k->dim[3]) {
        const float *q = h->q ? h->q + (k->from[2] == 1 ? 0 : first) * k->q.row : NULL;
        attention_gemm(&scores, &k->scores, q, h->k, h->keys, h->made);
        if (k->widens)
            widen(k, h->made, h->score, n_rows);
        for (int j = 0; j < k->n_steps; j++)
            run_step(r, k, &k->step[j], h->b, h->head, first, n_rows, h->score);
        kn_softmax_f32(h->score, h->score, n_rows, k->dim[3], false);
    }
    attention_gemm(&context, &k->context, h->score, h->v, h->values, h->out + first * k->out.row);
}

/* Computes one shard, a range of rows of a head. */
static enum rt_status attention_shard(struct rt_run *r, void *arg, int64_t part, int64_t slot)
{
    const struct attention *k = arg;
    const int64_t head = part / k->spans % k->dim[1], b = part / k->spans / k->dim[1];
    const int64_t from = part % k->spans * k->span, left = k->dim[2] - from;
    const int64_t to = from + (left < k->span ? left : k->span);
    float *const own = (float *)r->scratch + slot * k->slot;
    const struct head h = {
        .b = b,
        .head = head,
        .q = at(r, RT_ATTENTION_QUERIES, b * k->q.batch + head * k->q.head),
        .k = at(r, RT_ATTENTION_KEYS, b * k->k.batch + head * k->k.head),
        .v = at(r, RT_ATTENTION_VALUES, b * k->v.batch + head * k->v.head),
        .out = (float *)r->out[0].data + b * k->out.batch + head * k->out.head,
        .score = own,
        .made = k->widens ? own + k->made_at : own,
        .keys = k->packs ? own + k->keys_at : NULL,
        .values = k->packs ? own + k->values_at : NULL,
    };

    if (k->packs) {
        kn_packed_gemm_pack(&k->scores, h.k, k->k.row, true, NULL, h.keys);
        kn_packed_gemm_pack(&k->context, h.v, k->v.row, false, NULL, h.values);
    }
    for (int64_t row = from; row < to; row += k->rows) {
        run_rows(r, k, &h, row, to - row < k->rows ? to - row : k->rows);
        if ((part + row / k->rows) % k->ask == 0 && rt_run_check(r))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status attention_run(struct rt_run *r)
{
    const struct attention *k = r->state;

    if (!rt_tensor_count(&r->out[0]))
        return RT_OK;
    return kn_parallel_shards(r, k->dim[0] * k->dim[1] * k->spans,
                              rt_run_width(r) == 1 ? 1 : k->slots, attention_shard,
                              (void *)(uintptr_t)k);
}

/* Counts the FLOPs of the two GEMMs, for inputs [B,T,N,H]. One GEMM computes the scores, and the
 * other multiplies the scores by the values. */
static double attention_flops(const struct rt_node *n, const struct rt_shape *in, int n_in,
                              const struct rt_shape *out)
{
    (void)n, (void)out;
    if (n_in < 3 || in[0].rank != 4 || in[1].rank != 4)
        return 0;
    return 4 * rt_shape_elements(&in[0]) * (double)in[1].dim[1];
}

const struct kn_entry kn_attention = {
    .op = {.name = "_Attention",
           .infer = kn_attention_infer,
           .rows = rows,
           .flops = attention_flops,
           .internal_schema = &rt_attention_schema},
    .kernels = KN_CPU("_Attention", "attention", 0, attention_prepare, attention_run),
};
