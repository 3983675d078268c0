#include "kernels/cpu/packed.h"

#include <string.h>

/* Below this many weights packing gains nothing; above, a product with few rows only streams them
 * from memory, which OpenBLAS does better. */
enum { PACK_MIN = 4096, PACK_MAX = 8 << 20 };

/* What packed bytes depend on. */
struct format {
    dnnl_memory_desc_t md;
    bool turned; /* the source is [n, k] */
};

/* A matrix of so many weights is read from memory in every product. */
static bool in_panels(const struct rt_prep *p, const struct kn_gemm *g)
{
    return p->tuning->bf16 && g->dtype == RT_F32 && !g->ta && g->k > 0 && g->n > PACK_MAX / g->k;
}

bool kn_packed_pays(const struct rt_prep *p, int input, const struct kn_gemm *g)
{
    const int64_t weights = g->k * g->n;
    return p->in[input].value && g->m > 0 && weights >= PACK_MIN &&
           (weights <= PACK_MAX || in_panels(p, g)) && g->ldb == (g->tb ? g->k : g->n) &&
           g->ldc == g->n && g->lda == (g->ta ? g->m : g->k) &&
           (RT_T(g->dtype) & (RT_T(RT_F32) | KN_SET(KN_HALFS)));
}

static enum rt_status pack(const struct rt_tensor *src, void *dst, const void *fmt,
                           struct rt_error *err)
{
    const struct format *f = fmt;
    const dnnl_dim_t k = f->md.dims[0], n = f->md.dims[1];
    const dnnl_dims_t dims = {k, n}, strides = {f->turned ? 1 : n, f->turned ? k : 1};
    dnnl_memory_desc_t from;
    struct rt_buffer *wide = NULL;
    const void *bytes = src->data;

    const dnnl_status_t s = dnnl_memory_desc_init_by_strides(&from, 2, dims, dnnl_f32, strides);
    if (s)
        return kn_dnnl_fail(err, s, "packing");
    if (src->dtype != RT_F32) {
        wide = rt_buffer_new(NULL, RT_F32, (size_t)(k * n) * sizeof(float), err);
        if (!wide)
            return RT_RESOURCE_EXHAUSTED;
        kn_to_float((enum rt_dtype)src->dtype, src->data, atomic_load(&wide->data), k * n);
        bytes = atomic_load(&wide->data);
    }
    const enum rt_status st = kn_dnnl_reorder(&from, bytes, &f->md, dst, err);
    rt_buffer_unref(wide);
    return st;
}

struct panels_format {
    char name[8];
    struct kn_bf16_panels panels;
    bool turned;
};

static enum rt_status pack_panels(const struct rt_tensor *src, void *dst, const void *fmt,
                                  struct rt_error *err)
{
    const struct panels_format *f = fmt;
    (void)err;
    kn_bf16_pack(&f->panels, src->data, f->turned, dst);
    return RT_OK;
}

static enum rt_status prepare_panels(struct kn_packed *s, struct rt_prep *p, int input,
                                     const struct kn_gemm *g)
{
    struct panels_format f;

    memset(&f, 0, sizeof f); /* compared as bytes */
    memcpy(f.name, "bf16", 4);
    kn_bf16_panels(&f.panels, g->k, g->n);
    f.turned = g->tb != KN_AS_IS;
    s->panels = f.panels;
    s->tail_after = s->tail.n > 0;
    return rt_prep_pack(p, input, &f, sizeof f, kn_bf16_panels_bytes(&f.panels), pack_panels,
                        &s->b);
}

/* Rows whose product takes some ten milliseconds. */
static int64_t rows_of_block(const struct kn_gemm *g)
{
    const double most = 4e8, row = (double)g->n * (double)g->k;
    if ((double)g->m * row <= 2 * most)
        return g->m;
    const int64_t rows = (int64_t)(most / row) / 16 * 16;
    return rows < 64 ? (g->m < 64 ? g->m : 64) : rows < g->m ? rows : g->m;
}

static dnnl_status_t make(struct kn_dnnl *d, const struct kn_gemm *g, int64_t rows,
                          const struct kn_tail *tail, bool bf16)
{
    dnnl_primitive_attr_t attr = NULL;
    const dnnl_data_type_t in = bf16 ? dnnl_bf16 : dnnl_f32;
    const dnnl_dims_t a = {rows, g->k}, b = {g->k, g->n}, c = {rows, g->n};
    const dnnl_dims_t strides = {g->ta ? 1 : g->k, g->ta ? g->m : 1};
    dnnl_memory_desc_t ma, mb, mc;
    dnnl_matmul_desc_t desc;

    dnnl_status_t s = dnnl_memory_desc_init_by_strides(&ma, 2, a, in, strides);
    if (!s)
        s = dnnl_memory_desc_init_by_tag(&mb, 2, b, in, dnnl_format_tag_any);
    if (!s)
        s = dnnl_memory_desc_init_by_tag(&mc, 2, c, dnnl_f32, dnnl_ab);
    if (!s)
        s = dnnl_matmul_desc_init(&desc, &ma, &mb, NULL, &mc);
    if (!s && tail->n)
        s = kn_tail_attr(tail, 2, g->n, &attr);
    if (!s)
        s = kn_dnnl_make(d, &desc, attr);
    dnnl_primitive_attr_destroy(attr);
    if (s)
        return s;
    d->n = 3;
    d->arg[0] = DNNL_ARG_SRC;
    d->arg[1] = DNNL_ARG_WEIGHTS;
    d->arg[2] = DNNL_ARG_DST;
    d->md[0] = ma;
    d->md[1] = kn_dnnl_md(d, DNNL_ARG_WEIGHTS);
    d->md[2] = mc;
    kn_tail_args(tail, 2, g->n, d);
    return s;
}

static size_t padded(size_t n)
{
    return (n + 63) / 64 * 64;
}

static dnnl_status_t make_fitting(struct kn_packed *s)
{
    s->tail_after = false;
    dnnl_status_t made = make(&s->dnnl, &s->g, s->rows, &s->tail, s->bf16);
    if (made == dnnl_unimplemented && s->tail.n) {
        const struct kn_tail none = {.n = 0};
        made = make(&s->dnnl, &s->g, s->rows, &none, s->bf16);
        s->tail_after = true;
    }
    return made;
}

enum rt_status kn_packed_prepare(struct kn_packed *s, struct rt_prep *p, int input,
                                 const struct kn_gemm *g, size_t *scratch)
{
    struct format f;
    enum rt_status st = RT_OK;

    s->g = *g;
    kn_tail_read(&s->tail, p->node);
    s->rows = rows_of_block(g);
    *scratch = 0;
    if (in_panels(p, g)) {
        st = prepare_panels(s, p, input, g);
        if (st || s->b)
            return st;
        s->panels.width = 0;
    }
    s->bf16 = p->tuning->bf16 && g->dtype == RT_F32 && kn_bf16_multiplies();
    dnnl_status_t made = make_fitting(s);
    if (made == dnnl_unimplemented && s->bf16) {
        s->bf16 = false;
        made = make_fitting(s);
    }
    if (made && made != dnnl_unimplemented)
        return kn_dnnl_fail(p->err, made, p->node->name);
    if (!made) {
        memset(&f, 0, sizeof f); /* compared as bytes */
        f.md = s->dnnl.md[1];
        f.turned = g->tb != KN_AS_IS;
        st = rt_prep_pack(p, input, &f, sizeof f, dnnl_memory_desc_get_size(&f.md), pack, &s->b);
        if (st) {
            kn_packed_clear(s);
            return st;
        }
    }
    if (!s->b) {
        kn_packed_clear(s);
        *scratch = (size_t)kn_gemm_scratch(g);
        return RT_OK;
    }
    *scratch = padded(s->dnnl.scratch_bytes);
    if (s->bf16) {
        s->a_at = *scratch;
        *scratch += padded((size_t)(g->m * g->k) * sizeof(struct kn_bfloat));
    }
    if (g->dtype != RT_F32) {
        s->a_at = *scratch;
        s->c_at = s->a_at + padded((size_t)(g->m * g->k) * sizeof(float));
        *scratch = s->c_at + padded((size_t)(g->m * g->n) * sizeof(float));
    }
    return RT_OK;
}

void kn_packed_clear(struct kn_packed *s)
{
    kn_dnnl_clear(&s->dnnl);
}

enum rt_status kn_packed_run(const struct kn_packed *s, const void *a, const void *b, void *c,
                             void *scratch, struct rt_run *r)
{
    const struct kn_gemm *g = &s->g;
    char *room = scratch;

    if (!s->b) {
        if (kn_gemm_blocks(g, false, a, b, c, scratch, r))
            return r->err->code;
        kn_tail_apply(&s->tail, r, c, g->m, g->n);
        return RT_OK;
    }
    if (s->panels.width) {
        if (kn_bf16_product(&s->panels, g->m, a, rt_pack_data(s->b), c, r))
            return r->err->code;
        kn_tail_apply(&s->tail, r, c, g->m, g->n);
        return RT_OK;
    }
    const bool wide = g->dtype != RT_F32;
    const void *data[KN_DNNL_ARGS] = {a, rt_pack_data(s->b), c};
    if (!s->tail_after)
        kn_tail_data(&s->tail, r, data + 3);
    if (wide) {
        kn_to_float(g->dtype, a, (void *)(room + s->a_at), g->m * g->k);
        data[0] = room + s->a_at;
        data[2] = room + s->c_at;
    }
    if (s->bf16) {
        kn_bf16_round(a, (void *)(room + s->a_at), g->m * g->k);
        data[0] = room + s->a_at;
    }
    const size_t size = s->bf16 ? sizeof(struct kn_bfloat) : sizeof(float);
    const char *from = data[0];
    float *to = (float *)(uintptr_t)data[2];
    enum rt_status st = RT_OK;
    for (int64_t done = 0; done < g->m && !st; done += s->rows) {
        /* The last block may overlap the one before it. */
        const int64_t i = done < g->m - s->rows ? done : g->m - s->rows;
        data[0] = from + (size_t)(g->ta ? i : i * g->k) * size;
        data[2] = to + i * g->n;
        st = kn_dnnl_run(&s->dnnl, data, room, r->err, r->node->name);
        if (!st && done + s->rows < g->m)
            st = rt_run_check(r);
    }
    data[2] = to;
    if (!st && s->tail_after)
        kn_tail_apply(&s->tail, r, c, g->m, g->n);
    else if (!st)
        kn_tail_finish(&s->tail, c, g->m * g->n);
    if (!st && wide)
        kn_from_float(g->dtype, data[2], c, g->m * g->n);
    return st;
}
