#include "kernels/rnn/block.h"

#include "kernels/array/array.h"
#include "kernels/matmul/gemm.h"
#include "runtime/base/checked.h"

float *kn_block_floats(struct kn_block *b, int64_t n)
{
    size_t bytes;

    if (!rt_mul_size((size_t)n + 1, sizeof(float), &bytes) || b->n_memory == KN_BLOCK_MEMORY) {
        rt_fail(b->r->err, RT_RESOURCE_EXHAUSTED, "%s: the tensors are too large",
                b->r->node->schema->name);
        return NULL;
    }
    void *p = rt_run_alloc(b->r, bytes);
    if (p)
        b->memory[b->n_memory++] = p;
    return p;
}

const float *kn_block_in(struct kn_block *b, int k)
{
    const struct rt_tensor *t = &b->r->in[k];

    if (t->dtype == RT_F32)
        return t->data;
    const int64_t n = rt_tensor_count(t);
    float *p = kn_block_floats(b, n);
    if (p && kn_to_float_rows(b->r, kn_dtype(t), t->data, n, p, 1, n))
        return NULL;
    return p;
}

float *kn_block_out(struct kn_block *b, int k, int rank, const int64_t *dim)
{
    void *out = kn_out(b->r, k, rank, dim);

    if (!out || b->r->out[k].dtype != RT_F32)
        return out ? kn_block_floats(b, rt_tensor_count(&b->r->out[k])) : NULL;
    return kn_zero_chunks(b->r, out, rt_tensor_bytes(&b->r->out[k])) ? NULL : out;
}

enum rt_status kn_block_end(struct kn_block *b, float *const *out, enum rt_status st)
{
    for (int k = 0; k < b->r->n_out && !st; k++) {
        const struct rt_tensor *o = &b->r->out[k];
        const int64_t n = rt_tensor_count(o);
        if (o->dtype != RT_F32)
            st = kn_from_float_rows(b->r, kn_dtype(o), out[k], o->data, n, 1, n);
    }
    for (int i = 0; i < b->n_memory; i++)
        rt_pool_free(b->memory[i]);
    return st;
}

enum rt_status kn_block_product(struct kn_block *b, bool adds, bool ta, bool tb, int64_t m,
                                int64_t n, int64_t k, const float *x, int64_t ldx, const float *y,
                                int64_t ldy, float *out, int64_t ldout)
{
    const struct kn_gemm g = {
        .dtype = RT_F32,
        .ta = ta ? KN_TRANS : KN_AS_IS,
        .tb = tb ? KN_TRANS : KN_AS_IS,
        .m = m,
        .n = n,
        .k = k,
        .lda = ldx,
        .ldb = ldy,
        .ldc = ldout,
    };

    if (m == 0 || n == 0 || k == 0)
        return RT_OK;
    if (!adds)
        return kn_gemm_blocks(&g, false, x, y, out, NULL, b->r);
    kn_gemm_add(&g, x, y, out);
    return rt_run_spend(b->r, &b->r->left, kn_gemm_work(&g));
}

enum rt_status kn_block_dim(struct rt_run *r, int k, int d, int64_t want, const char *rule)
{
    const int64_t have = r->in[k].dim[d];

    if (have == want)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: %lld vs. %lld", rule, (long long)have,
                   (long long)want);
}

enum rt_status kn_block_ranks(struct rt_run *r, const char *ranks)
{
    for (int k = 0; k < r->n_in && ranks[k]; k++)
        if (r->in[k].rank != ranks[k] - '0')
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "input %d must be rank %c but is rank %d.",
                           k, ranks[k], r->in[k].rank);
    return RT_OK;
}
