#include "kernels/matmul/fused_gemm.h"

#include <stdatomic.h>

#include "kernels/matmul/gemm.h"

/* The key of packed weights. It contains everything that the packed bytes depend on. */
struct format {
    char name[8];
    int64_t k, n, panel;
    int64_t transposed;
    /* The number of scale factors that follow this struct in memory: n, or 0 if the columns are not
     * scaled. */
    int64_t n_scale;
};

static enum rt_status fused_gemm_pack(const struct rt_tensor *src, void *dst, const void *fmt,
                                      struct rt_error *err)
{
    const struct format *f = fmt;
    struct kn_packed_gemm p = {.k = f->k, .n = f->n};
    struct rt_buffer *wide = NULL;
    const float *b = src->data;

    if (!kn_packed_gemm_init(&p) || p.panel != f->panel)
        return rt_fail(err, RT_INTERNAL, "a matrix's form is not known any more");
    if (src->dtype != RT_F32) {
        wide = rt_buffer_new(NULL, RT_F32, (size_t)(p.k * p.n) * sizeof(float), err);
        if (!wide)
            return RT_RESOURCE_EXHAUSTED;
        b = atomic_load(&wide->data);
        kn_to_float((enum rt_dtype)src->dtype, src->data, atomic_load(&wide->data), p.k * p.n);
    }
    kn_packed_gemm_pack(&p, b, f->transposed ? p.k : p.n, f->transposed,
                        f->n_scale ? (const float *)(const void *)(f + 1) : NULL, dst);
    rt_buffer_unref(wide);
    return RT_OK;
}

enum rt_status kn_fused_gemm_pack(struct kn_fused_gemm *node, struct rt_prep *p, int input,
                                  bool transposed)
{
    const struct kn_packed_gemm *gemm = &node->gemm;
    const float *scale = kn_epilogue_constant(p, node->epilogue.scale);
    const struct format f = {.name = "product",
                             .k = gemm->k,
                             .n = gemm->n,
                             .panel = gemm->panel,
                             .transposed = transposed,
                             .n_scale = scale ? gemm->n : 0};
    const enum rt_status st =
        kn_epilogue_pack(p, input, &f, sizeof f, scale, gemm->n, kn_packed_gemm_pack_bytes(gemm),
                         fused_gemm_pack, &node->b);
    if (!st && node->b && scale)
        node->epilogue.scale = 0;
    return st;
}

static void activate(const void *arg, float *at, int64_t row, int64_t rows, int64_t col,
                     int64_t cols)
{
    const struct kn_fused_gemm *node = arg;
    (void)row;
    (void)col;
    kn_epilogue_activate(&node->epilogue, at, rows, cols, node->gemm.n);
}

struct kn_gemm_post_ops kn_fused_gemm_post_ops(const struct kn_fused_gemm *node,
                                               const struct rt_run *r)
{
    const struct kn_epilogue *t = &node->epilogue;
    struct kn_gemm_post_ops e = {.bias = t->shift ? r->in[t->shift].data : NULL};

    if (t->broadcast_residual)
        return e;
    if (t->residual) {
        e.residual = r->in[t->residual].data;
        e.ld_residual = node->gemm.n;
    }
    e.clips = kn_epilogue_clips(t, &e.most);
    e.finish = t->act && !e.clips ? activate : NULL;
    e.arg = node;
    return e;
}
