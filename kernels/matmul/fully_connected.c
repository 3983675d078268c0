#include "kernels/matmul/fully_connected.h"

#include <stdatomic.h>
#include <string.h>

#include "kernels/cpu/parallel.h"
#include "runtime/exec/parallel.h"

enum {
    LEAST_COLUMNS = 64,
    /* number of GEMM blocks per core. With several blocks per core, a slow core can compute fewer
     * than the others. */
    BLOCKS_PER_CORE = 2,
    READ = 16 /* the time of reading one weight from memory, in multiply-adds */
};

/* With fewer than PACK_MIN weights, packing saves no time. With more than PACK_MAX, a GEMM with few
 * rows mainly reads the weights from memory, which OpenBLAS does faster. */
enum { PACK_MIN = 4096, PACK_MAX = 8 << 20 };

/* The key of packed weights. It contains everything that the packed bytes depend on. */
struct format {
    dnnl_memory_desc_t md;
    bool transposed; /* whether the source matrix is [n, k] */
    /* The number of scale factors that follow this struct in memory: n, or 0 if the columns are not
     * scaled. */
    int64_t n_scale;
};

/* Returns whether the matrix is packed into bfloat16 panels. The session must enable bfloat16, and
 * the matrix must be so large that every run reads it from memory. */
static bool in_panels(const struct rt_prep *p, const struct kn_gemm *g)
{
    return p->tuning->bf16 && g->dtype == RT_F32 && !g->ta && g->k > 0 && g->n > PACK_MAX / g->k;
}

bool kn_fully_connected_likely(const struct rt_info *matrix)
{
    const struct rt_shape *s = &matrix->shape;
    return matrix->dtype == RT_F32 && s->rank == 2 && rt_count(2, s->dim) >= PACK_MIN;
}

bool kn_fully_connected_pays(const struct rt_prep *p, int input, const struct kn_gemm *g)
{
    const int64_t weights = g->k * g->n;
    return p->in[input].value && g->m > 0 && weights >= PACK_MIN &&
           (weights <= PACK_MAX || in_panels(p, g)) && g->ldb == (g->tb ? g->k : g->n) &&
           g->ldc == g->n && g->lda == (g->ta ? g->m : g->k) &&
           (RT_T(g->dtype) & (RT_T(RT_F32) | KN_SET(KN_HALFS)));
}

static void scale_columns(const struct format *f, const float *src, float *dst)
{
    const float *scale = (const void *)(f + 1);
    const int64_t k = f->md.dims[0], n = f->md.dims[1];

    if (!f->transposed)
        kn_epilogue_scale(dst, src, scale, k, n);
    for (int64_t i = 0; f->transposed && i < n; i++)
        for (int64_t j = 0; j < k; j++)
            dst[i * k + j] = src[i * k + j] * scale[i];
}

static enum rt_status fully_connected_pack(const struct rt_tensor *src, void *dst, const void *fmt,
                                           struct rt_error *err)
{
    const struct format *f = fmt;
    const dnnl_dim_t k = f->md.dims[0], n = f->md.dims[1];
    const dnnl_dims_t dims = {k, n}, strides = {f->transposed ? 1 : n, f->transposed ? k : 1};
    dnnl_memory_desc_t from;
    struct rt_buffer *wide = NULL;
    const void *bytes = src->data;

    const dnnl_status_t s = dnnl_memory_desc_init_by_strides(&from, 2, dims, dnnl_f32, strides);
    if (s)
        return kn_dnnl_fail(err, s, "packing");
    if (src->dtype != RT_F32 || f->n_scale) {
        wide = rt_buffer_new(NULL, RT_F32, (size_t)(k * n) * sizeof(float), err);
        if (!wide)
            return RT_RESOURCE_EXHAUSTED;
        bytes = atomic_load(&wide->data);
    }
    if (src->dtype != RT_F32)
        kn_to_float((enum rt_dtype)src->dtype, src->data, atomic_load(&wide->data), k * n);
    else if (f->n_scale)
        scale_columns(f, src->data, atomic_load(&wide->data));
    const enum rt_status st = kn_dnnl_reorder(&from, bytes, &f->md, dst, err);
    rt_buffer_unref(wide);
    return st;
}

struct panels_format {
    char name[8];
    struct kn_bf16_panels panels;
    bool transposed;
};

static enum rt_status pack_panels(const struct rt_tensor *src, void *dst, const void *fmt,
                                  struct rt_error *err)
{
    const struct panels_format *f = fmt;
    (void)err;
    kn_bf16_pack(&f->panels, src->data, f->transposed, dst);
    return RT_OK;
}

static enum rt_status prepare_panels(struct kn_fully_connected *s, struct rt_prep *p, int input,
                                     const struct kn_gemm *g)
{
    struct panels_format f;

    /* clears the struct's padding too, because keys are compared as bytes */
    memset(&f, 0, sizeof f);
    memcpy(f.name, "bf16", 4);
    kn_bf16_panels(&f.panels, g->k, g->n);
    f.transposed = g->tb != KN_AS_IS;
    s->panels = f.panels;
    return rt_prep_pack(p, input, &f, sizeof f, kn_bf16_panels_bytes(&f.panels), pack_panels,
                        &s->b);
}

/* Returns the number of rows that are computed between two deadline checks. */
static int64_t rows_of_block(const struct kn_gemm *g)
{
    const double most = KN_CHECK_MACS, row = (double)g->n * (double)g->k;
    if ((double)g->m * row <= 2 * most)
        return g->m;
    const int64_t rows = (int64_t)(most / row) / 16 * 16;
    return rows < 64 ? (g->m < 64 ? g->m : 64) : rows < g->m ? rows : g->m;
}

/* Makes a primitive. `packed` is the memory layout of the weights, or NULL if oneDNN chooses the
 * layout. */
static dnnl_status_t make(const struct kn_fully_connected *s, int64_t rows, int64_t n,
                          const dnnl_memory_desc_t *packed, struct kn_dnnl *d)
{
    const struct kn_gemm *g = &s->g;
    dnnl_primitive_attr_t attr = NULL;
    const dnnl_data_type_t in = s->bf16 ? dnnl_bf16 : dnnl_f32;
    const dnnl_dims_t a = {rows, g->k}, b = {g->k, n}, c = {rows, n}, v = {1, n};
    const dnnl_dims_t strides = {g->ta ? 1 : g->k, g->ta ? g->m : 1};
    dnnl_memory_desc_t ma, mb, mc, mv;
    dnnl_matmul_desc_t desc;

    dnnl_status_t st = dnnl_memory_desc_init_by_strides(&ma, 2, a, in, strides);
    if (packed)
        mb = *packed;
    else if (!st)
        st = dnnl_memory_desc_init_by_tag(&mb, 2, b, in, dnnl_format_tag_any);
    if (!st)
        st = dnnl_memory_desc_init_by_tag(&mc, 2, c, dnnl_f32, dnnl_ab);
    if (!st)
        st = dnnl_memory_desc_init_by_tag(&mv, 2, v, dnnl_f32, dnnl_ab);
    if (!st)
        st = dnnl_matmul_desc_init(&desc, &ma, &mb, s->bias ? &mv : NULL, &mc);
    if (!st && s->activates) {
        st = kn_dnnl_attr(&attr);
        if (!st)
            st = kn_epilogue_dnnl_post_op(&s->epilogue, attr);
    }
    if (!st)
        st = kn_dnnl_make(d, &desc, attr);
    dnnl_primitive_attr_destroy(attr);
    if (st)
        return st;
    d->n = s->bias ? 4 : 3;
    d->arg[0] = DNNL_ARG_SRC;
    d->arg[1] = DNNL_ARG_WEIGHTS;
    d->arg[2] = DNNL_ARG_DST;
    d->arg[3] = DNNL_ARG_BIAS;
    d->md[0] = ma;
    d->md[1] = kn_dnnl_md(d, DNNL_ARG_WEIGHTS);
    d->md[2] = mc;
    d->md[3] = mv;
    return st;
}

static enum rt_status pack_weights(struct kn_fully_connected *s, struct rt_prep *p, int input,
                                   const float *scale)
{
    struct format f;

    /* clears the struct's padding too, because keys are compared as bytes */
    memset(&f, 0, sizeof f);
    f.md = s->dnnl.md[1];
    f.transposed = s->g.tb != KN_AS_IS;
    f.n_scale = scale ? s->g.n : 0;
    return kn_epilogue_pack(p, input, &f, sizeof f, scale, s->g.n, dnnl_memory_desc_get_size(&f.md),
                            fully_connected_pack, &s->b);
}

static dnnl_status_t make_fitting(struct kn_fully_connected *s)
{
    s->activates = kn_epilogue_has_dnnl_post_op(&s->epilogue) && !s->epilogue.scale;
    dnnl_status_t made = make(s, s->rows, s->g.n, NULL, &s->dnnl);
    if (made == dnnl_unimplemented && s->activates) {
        s->activates = false;
        made = make(s, s->rows, s->g.n, NULL, &s->dnnl);
    }
    return made;
}

/* Splits the GEMM by columns over several cores if the weights are larger than the other matrices,
 * so that each core reads only its share of the weights. Returns false if the GEMM is not split. */
static bool shard_columns(struct kn_fully_connected *s, int width)
{
    const struct kn_gemm *g = &s->g;
    const int64_t block = kn_dnnl_block(&s->dnnl.md[1], 1);
    dnnl_memory_desc_t slice;

    if (!block || s->rows < g->m || g->k * g->n < 2 * g->m * (g->k + g->n))
        return false;
    s->columns = kn_div_up(kn_div_up(g->n, block), width) * block;
    if (s->columns < LEAST_COLUMNS)
        s->columns = kn_round_up(LEAST_COLUMNS, block);
    const int64_t n = kn_div_up(g->n, s->columns), last = (n - 1) * s->columns;
    bool ok = n > 1;
    if (ok) {
        kn_dnnl_slice(&s->dnnl.md[1], 1, 0, s->columns, &slice);
        ok = !make(s, g->m, s->columns, &slice, &s->shard[0]);
    }
    if (ok) {
        kn_dnnl_slice(&s->dnnl.md[1], 1, last, g->n - last, &slice);
        ok = !make(s, g->m, g->n - last, &slice, &s->shard[1]);
    }
    if (!ok) {
        kn_dnnl_clear(&s->shard[0]);
        s->columns = 0;
        return false;
    }
    s->n_slots = n;
    s->own_at = s->shard[0].scratch_bytes;
    if (s->shard[1].scratch_bytes > s->own_at)
        s->own_at = s->shard[1].scratch_bytes;
    s->own_at = kn_padded(s->own_at);
    s->slot_bytes = s->own_at + kn_padded((size_t)(g->m * s->columns) * sizeof(float));
    return true;
}

/* If a split pays off, splits the GEMM over several cores by columns or, if shard_columns fails, by
 * rows. A split requires a oneDNN primitive for the packed layout of the weights. */
static void make_sharded(struct kn_fully_connected *s, int width)
{
    const struct kn_gemm *g = &s->g;
    const double all = (double)g->m * (double)g->n * (double)g->k;
    const int64_t most = all / KN_SHARD_MACS < width ? (int64_t)(all / KN_SHARD_MACS) : width;

    if (most < 2 || shard_columns(s, width) || g->m < 2)
        return;
    s->shard_rows = kn_div_up(g->m, most);
    if (s->shard_rows > s->rows)
        s->shard_rows = s->rows;
    const int64_t n = kn_div_up(g->m, s->shard_rows), rest = g->m % s->shard_rows;
    if (make(s, s->shard_rows, g->n, &s->dnnl.md[1], &s->shard[0]) ||
        (rest && make(s, rest, g->n, &s->dnnl.md[1], &s->shard[1]))) {
        kn_dnnl_clear(&s->shard[0]);
        return;
    }
    s->n_slots = n < width ? n : width;
    s->slot_bytes = s->shard[0].scratch_bytes;
    if (rest && s->shard[1].scratch_bytes > s->slot_bytes)
        s->slot_bytes = s->shard[1].scratch_bytes;
    s->slot_bytes = kn_padded(s->slot_bytes);
}

/* ---- by packed_gemm.h ---- */

static bool has_loops(const struct rt_prep *p, const struct kn_gemm *g)
{
    return !g->ta && kn_packed_gemm_is_fast() &&
           !(p->tuning->bf16 && g->dtype == RT_F32 && kn_bf16_multiplies());
}

/* Chooses the blocks into which the GEMM is divided among the cores. With many rows, each core
 * computes its own rows. Otherwise each core reads only its share of the weights. */
static void set_shards(struct kn_fully_connected *s, int width)
{
    const struct kn_gemm *g = &s->g;
    const struct kn_packed_gemm *p = &s->node.gemm;
    const double rows = g->m < READ ? READ : (double)g->m;
    const double all = rows * (double)g->n * (double)g->k;
    double blocks = 1;
    int64_t cores = 1;

    if (width > 1 && all >= 2.0 * KN_SHARD_MACS) {
        blocks = all / KN_SHARD_MACS < BLOCKS_PER_CORE * width ? all / KN_SHARD_MACS
                                                               : BLOCKS_PER_CORE * width;
        cores = blocks < width ? (int64_t)blocks : width;
    }
    s->block_rows = g->m;
    s->block_panels = kn_div_up(p->panels, (int64_t)blocks);
    if (cores > 1 ? g->m >= cores * KN_SHARD_ROWS : g->m > g->n) {
        const double least = all / KN_CHECK_MACS < blocks ? blocks : all / KN_CHECK_MACS;
        const int64_t most = (int64_t)((double)g->m / least);
        s->block_rows = kn_even_size(g->m, most > KN_SHARD_ROWS ? most : KN_SHARD_ROWS, cores);
        s->block_panels = p->panels;
    }
    const double panel_work = (double)s->block_rows * (double)g->k * (double)p->panel;
    if (panel_work * (double)s->block_panels > KN_CHECK_MACS)
        s->block_panels = panel_work < KN_CHECK_MACS ? (int64_t)(KN_CHECK_MACS / panel_work) : 1;
}

struct gemm_run {
    const struct kn_fully_connected *s;
    struct kn_gemm_post_ops post_ops;
    const float *a;
    float *c;
};

static enum rt_status fully_connected_block(struct rt_run *r, void *arg, int64_t i, int64_t slot)
{
    const struct gemm_run *x = arg;
    const struct kn_fully_connected *s = x->s;
    const struct kn_packed_gemm *p = &s->node.gemm;
    const int64_t groups = kn_div_up(p->panels, s->block_panels);
    const int64_t row = i / groups * s->block_rows, left = s->g.m - row;
    const int64_t from = i % groups * s->block_panels, to = from + s->block_panels;
    struct kn_packed_gemm_args t = kn_packed_gemm_whole(
        p, rt_pack_data(s->node.b), x->a + row * p->k, x->c + row * p->n, s->block_rows);
    struct kn_gemm_post_ops post_ops = x->post_ops;
    (void)slot;

    if (i > 0 && rt_run_check(r))
        return r->err->code;
    if (left < t.rows)
        t.rows = left;
    if (post_ops.residual)
        post_ops.residual += row * post_ops.ld_residual;
    t.from = from;
    t.to = to < p->panels ? to : p->panels;
    kn_packed_gemm_run(p, &t, &post_ops);
    return RT_OK;
}

/* Returns whether the residual is the initial value of the sums, so that the output may overwrite
 * it. */
static bool starts_over(const struct kn_fully_connected *s)
{
    return s->node.b && !s->node.epilogue.scale;
}

static enum rt_status run_gemm(const struct kn_fully_connected *s, const float *a, float *c,
                               struct rt_run *r)
{
    const int64_t n =
        kn_div_up(s->g.m, s->block_rows) * kn_div_up(s->node.gemm.panels, s->block_panels);
    struct gemm_run x = {s, {.arg = NULL}, a, c};
    const struct kn_epilogue *epilogue = &s->node.epilogue;
    enum rt_status st = RT_OK;

    if (starts_over(s))
        x.post_ops = kn_fused_gemm_post_ops(&s->node, r);
    if (n > 1 && rt_run_width(r) > 1)
        st = kn_parallel_shards(r, n, rt_run_width(r), fully_connected_block, &x);
    else
        for (int64_t i = 0; i < n && !st; i++)
            st = fully_connected_block(r, &x, i, 0);
    if (!st && epilogue->scale)
        kn_epilogue_apply(epilogue, r, KN_EPILOGUE_ALL, c, 0, s->g.m, s->g.n);
    return st;
}

static enum rt_status prepare_gemm(struct kn_fully_connected *s, struct rt_prep *p, int input)
{
    s->node.gemm = (struct kn_packed_gemm){.k = s->g.k, .n = s->g.n};
    s->node.epilogue = s->epilogue;
    if (!kn_packed_gemm_init(&s->node.gemm))
        return RT_OK;
    set_shards(s, rt_prep_width(p));
    return kn_fused_gemm_pack(&s->node, p, input, s->g.tb != KN_AS_IS);
}

/* ---- preparing and running ---- */

/* Reserves scratch memory, after the first *scratch bytes, for float copies of half-precision
 * operands, for a bfloat16 copy of operand a, and for `epilogue` bytes of the epilogue. */
static void place(struct kn_fully_connected *s, size_t epilogue, size_t *scratch)
{
    const struct kn_gemm *g = &s->g;

    if (s->bf16) {
        s->a_at = *scratch;
        *scratch += kn_padded((size_t)(g->m * g->k) * sizeof(struct kn_bfloat));
    }
    if (g->dtype != RT_F32) {
        s->a_at = *scratch;
        s->c_at = s->a_at + kn_padded((size_t)(g->m * g->k) * sizeof(float));
        *scratch = s->c_at + kn_padded((size_t)(g->m * g->n) * sizeof(float));
    }
    s->epilogue_at = *scratch;
    *scratch += epilogue;
}

enum rt_status kn_fully_connected_prepare(struct kn_fully_connected *s, struct rt_prep *p,
                                          int input, const struct kn_gemm *g, size_t *scratch)
{
    s->g = *g;
    s->rows = rows_of_block(g);
    size_t broadcast_bytes;
    enum rt_status st = kn_epilogue_prepare(&s->epilogue, p, &broadcast_bytes);
    if (st)
        return st;
    const struct kn_epilogue whole = s->epilogue;
    const float *scale = kn_epilogue_constant(p, whole.scale);
    const size_t kept = kn_epilogue_residual_bytes(&s->epilogue);
    *scratch = kept;
    if (in_panels(p, g)) {
        st = prepare_panels(s, p, input, g);
        if (st || s->b)
            return st;
        s->panels.width = 0;
    }
    if (has_loops(p, g)) {
        st = prepare_gemm(s, p, input);
        if (st)
            return st;
    }
    if (s->node.b) {
        *scratch = 0;
        place(s, starts_over(s) ? broadcast_bytes : kept, scratch);
        return RT_OK;
    }
    if (scale || !whole.scale) {
        s->bias = whole.shift;
        s->epilogue.scale = s->epilogue.shift = 0;
    }
    s->bf16 = p->tuning->bf16 && g->dtype == RT_F32 && kn_bf16_multiplies();
    dnnl_status_t made = make_fitting(s);
    if (made == dnnl_unimplemented && s->bf16) {
        s->bf16 = false;
        made = make_fitting(s);
    }
    if (made && made != dnnl_unimplemented)
        return kn_dnnl_fail(p->err, made, p->node->name);
    st = made ? RT_OK : pack_weights(s, p, input, scale);
    if (st) {
        kn_fully_connected_clear(s);
        return st;
    }
    if (!s->b) {
        kn_fully_connected_clear(s);
        s->epilogue = whole;
        s->bias = 0;
        s->activates = false;
        s->epilogue_at = kn_padded((size_t)kn_gemm_scratch(g));
        *scratch = s->epilogue_at + kept;
        return RT_OK;
    }
    make_sharded(s, rt_prep_width(p));
    s->scratch_bytes = s->dnnl.scratch_bytes;
    s->slots_at = kn_padded(s->scratch_bytes);
    *scratch = s->slots_at + (size_t)s->n_slots * s->slot_bytes;
    place(s, kept, scratch);
    return RT_OK;
}

void kn_fully_connected_clear(struct kn_fully_connected *s)
{
    kn_dnnl_clear(&s->dnnl);
    kn_dnnl_clear(&s->shard[0]);
    kn_dnnl_clear(&s->shard[1]);
}

/* Computes rows again without the activation, because oneDNN's activation may have turned a NaN
 * into a number. A NaN is rare, so the primitive is created only for this run. */
static enum rt_status run_without_activation(const struct kn_fully_connected *s,
                                             const void *const *data, struct rt_run *r)
{
    struct kn_fully_connected plain = *s;

    plain.activates = false;
    plain.dnnl = (struct kn_dnnl){.prim = NULL};
    const dnnl_status_t made = make(&plain, s->rows, s->g.n, &s->dnnl.md[1], &plain.dnnl);
    if (made)
        return kn_dnnl_fail(r->err, made, r->node->name);
    void *workspace = rt_scratch(r, plain.dnnl.scratch_bytes + 1);
    const enum rt_status st =
        workspace ? kn_dnnl_run(&plain.dnnl, data, workspace, r->err, r->node->name) : r->err->code;
    kn_dnnl_clear(&plain.dnnl);
    return st;
}

static void rows_from(const struct kn_fully_connected *s, const void *const *data, int64_t first,
                      const void **out)
{
    const struct kn_gemm *g = &s->g;
    const size_t size = s->bf16 ? sizeof(struct kn_bfloat) : sizeof(float);

    memcpy(out, data, KN_DNNL_ARGS * sizeof *out);
    out[0] = (const char *)data[0] + (size_t)(g->ta ? first : first * g->k) * size;
    out[2] = (const float *)data[2] + first * g->n;
}

static enum rt_status run_blocks(const struct kn_fully_connected *s, const void *const *data,
                                 void *workspace, struct rt_run *r)
{
    const struct kn_gemm *g = &s->g;
    enum rt_status st = RT_OK;

    for (int64_t done = 0; done < g->m && !st; done += s->rows) {
        /* The last block may overlap the block before it. */
        const int64_t i = done < g->m - s->rows ? done : g->m - s->rows;
        const void *block[KN_DNNL_ARGS];
        rows_from(s, data, i, block);
        if (s->activates)
            kn_epilogue_clear_nan_flag();
        st = kn_dnnl_run(&s->dnnl, block, workspace, r->err, r->node->name);
        const bool reuse = s->activates && !st && kn_epilogue_nan_flag();
        if (reuse)
            st = run_without_activation(s, block, r);
        if (!st && (reuse || !s->activates))
            kn_epilogue_apply(&s->epilogue, r, KN_EPILOGUE_ALL, (float *)(uintptr_t)block[2],
                              i * g->n, s->rows, g->n);
        if (!st && done + s->rows < g->m)
            st = rt_run_check(r);
    }
    return st;
}

struct sharded {
    const struct kn_fully_connected *s;
    const void *const *data;
    char *workspace;
    /* Set if a shard encountered a NaN. One core then computes the GEMM again. */
    atomic_bool met_nan;
};

static enum rt_status fully_connected_rows_shard(struct rt_run *r, void *arg, int64_t i,
                                                 int64_t slot)
{
    struct sharded *x = arg;
    const struct kn_fully_connected *s = x->s;
    const struct kn_gemm *g = &s->g;
    const int64_t first = i * s->shard_rows, left = g->m - first;
    const struct kn_dnnl *d = &s->shard[left < s->shard_rows];
    const void *block[KN_DNNL_ARGS];

    if (atomic_load_explicit(&x->met_nan, memory_order_relaxed) ||
        (i >= s->n_slots && rt_run_check(r)))
        return r->err->code;
    rows_from(s, x->data, first, block);
    if (s->activates)
        kn_epilogue_clear_nan_flag();
    const enum rt_status st = kn_dnnl_run(
        d, block, kn_offset(x->workspace, (size_t)slot * s->slot_bytes), r->err, r->node->name);
    if (s->activates && !st && kn_epilogue_nan_flag())
        atomic_store(&x->met_nan, true);
    else if (!s->activates && !st)
        kn_epilogue_apply(&s->epilogue, r, KN_EPILOGUE_ALL, (float *)(uintptr_t)block[2],
                          first * g->n, left < s->shard_rows ? left : s->shard_rows, g->n);
    return st;
}

static enum rt_status fully_connected_columns_shard(struct rt_run *r, void *arg, int64_t i,
                                                    int64_t slot)
{
    struct sharded *x = arg;
    const struct kn_fully_connected *s = x->s;
    const struct kn_gemm *g = &s->g;
    const int64_t at = i * s->columns, left = g->n - at;
    const int64_t n = left < s->columns ? left : s->columns;
    char *workspace = kn_offset(x->workspace, (size_t)slot * s->slot_bytes);
    float *own = (void *)(workspace + s->own_at), *to = (float *)(uintptr_t)x->data[2] + at;
    const void *block[KN_DNNL_ARGS];
    dnnl_memory_desc_t ignored;

    memcpy(block, x->data, sizeof block);
    block[1] = (const char *)x->data[1] + kn_dnnl_slice(&s->dnnl.md[1], 1, at, n, &ignored);
    block[2] = own;
    if (s->bias)
        block[3] = (const float *)x->data[3] + at;
    if (s->activates)
        kn_epilogue_clear_nan_flag();
    const enum rt_status st =
        kn_dnnl_run(&s->shard[i == s->n_slots - 1], block, workspace, r->err, r->node->name);
    if (s->activates && !st && kn_epilogue_nan_flag())
        atomic_store(&x->met_nan, true);
    for (int64_t k = 0; k < g->m; k++)
        memcpy(to + k * g->n, own + k * n, (size_t)n * sizeof *own);
    return st;
}

static enum rt_status fully_connected_epilogue_shard(struct rt_run *r, void *arg, int64_t from,
                                                     int64_t to)
{
    const struct sharded *x = arg;
    const int64_t n = x->s->g.n;
    kn_epilogue_apply(&x->s->epilogue, r, KN_EPILOGUE_ALL,
                      (float *)(uintptr_t)x->data[2] + from * n, from * n, to - from, n);
    return RT_OK;
}

static enum rt_status run_sharded(struct sharded *x, struct rt_run *r)
{
    const struct kn_fully_connected *s = x->s;

    if (!s->columns)
        return kn_parallel_shards(r, kn_div_up(s->g.m, s->shard_rows), s->n_slots,
                                  fully_connected_rows_shard, x);
    const enum rt_status st =
        kn_parallel_shards(r, s->n_slots, s->n_slots, fully_connected_columns_shard, x);
    if (st || s->activates || !kn_epilogue_any(&s->epilogue))
        return st;
    return kn_parallel_rows(r, s->g.m, 2 * s->g.n, 1, fully_connected_epilogue_shard, x);
}

/* Runs the GEMM with oneDNN. If the GEMM is split and several cores are idle, they share it.
 * Otherwise the calling thread computes it alone. */
static enum rt_status run_rows(const struct kn_fully_connected *s, const void *const *data,
                               char *workspace, struct rt_run *r)
{
    struct sharded x = {.s = s, .data = data, .workspace = kn_offset(workspace, s->slots_at)};

    if (s->n_slots && rt_run_width(r) > 1) {
        const enum rt_status st = run_sharded(&x, r);
        if (st || !atomic_load(&x.met_nan))
            return st;
    }
    return run_blocks(s, data, workspace, r);
}

enum rt_status kn_fully_connected_run(const struct kn_fully_connected *s, const void *a,
                                      const void *b, void *c, void *scratch, struct rt_run *whole)
{
    const struct kn_gemm *g = &s->g;
    char *workspace = scratch;
    struct kn_epilogue_residual_copy kept;
    struct rt_run *r = whole;
    enum rt_status st = RT_OK;

    if (!starts_over(s) && s->epilogue.residual)
        r = kn_epilogue_copy_residual(&s->epilogue, whole, kn_offset(workspace, s->epilogue_at),
                                      &kept);
    if (s->epilogue.broadcast_residual)
        c = workspace + s->epilogue_at;
    if (!s->node.b && (!s->b || s->panels.width)) {
        st = s->b ? kn_bf16_gemm(&s->panels, g->m, a, rt_pack_data(s->b), c, r)
                  : kn_gemm_blocks(g, false, a, b, c, scratch, r);
        if (!st && kn_epilogue_any(&s->epilogue))
            kn_epilogue_apply(&s->epilogue, r, KN_EPILOGUE_ALL, c, 0, g->m, g->n);
        return st ? st : kn_epilogue_broadcast(&s->epilogue, r, c);
    }
    const bool wide = g->dtype != RT_F32;
    const void *data[KN_DNNL_ARGS] = {a, s->b ? rt_pack_data(s->b) : NULL, c};
    if (s->bias)
        data[3] = r->in[s->bias].data;
    if (wide) {
        st = kn_to_float_rows(r, g->dtype, a, g->k, (void *)(workspace + s->a_at), g->m, g->k);
        data[0] = workspace + s->a_at;
        data[2] = workspace + s->c_at;
    }
    if (s->bf16) {
        kn_bf16_round(a, (void *)(workspace + s->a_at), g->m * g->k);
        data[0] = workspace + s->a_at;
    }
    if (!st)
        st = s->node.b ? run_gemm(s, data[0], (float *)(uintptr_t)data[2], r)
                       : run_rows(s, data, workspace, r);
    if (!st && wide)
        st = kn_from_float_rows(r, g->dtype, data[2], c, g->n, g->m, g->n);
    return st ? st : kn_epilogue_broadcast(&s->epilogue, r, c);
}
