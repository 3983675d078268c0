/* SparseMatMul multiplies dense matrices, one of which may be declared to have many zeros. As in
 * TensorFlow, the zeros of such a matrix are left out, even if the other factor is NaN or
 * infinite. */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/matmul/gemm.h"
#include "runtime/base/checked.h"

/* The product C [m,n] = A [m,k] B [k,n], in floats. */
struct product {
    int64_t m, n, k;
    bool skips_a, skips_b; /* whether zeros of A or B are left out; at most one is set */
    float *a, *b, *c;
};

static enum rt_status check(const struct rt_node *node, const struct rt_shape *a,
                            const struct rt_shape *b, struct rt_error *err)
{
    const bool ta = rt_attr_bool(node, "transpose_a"), tb = rt_attr_bool(node, "transpose_b");

    if (a->rank >= 0 && a->rank != 2)
        return rt_fail(err, RT_INVALID_ARGUMENT, "a is not a matrix");
    if (b->rank >= 0 && b->rank != 2)
        return rt_fail(err, RT_INVALID_ARGUMENT, "b is not a matrix");
    if (a->rank < 0 || b->rank < 0 || a->dim[!ta] < 0 || b->dim[tb] < 0 ||
        a->dim[!ta] == b->dim[tb])
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT, "Matrix size incompatible: a: %s, b: %s", KN_TEXT(a),
                   KN_TEXT(b));
}

static enum rt_status infer(struct rt_infer *x)
{
    const struct rt_shape *a = &x->in[0].shape, *b = &x->in[1].shape;
    int64_t dim[2];

    if (check(x->node, a, b, x->err))
        return x->err->code;
    dim[0] = a->rank < 0 ? -1 : a->dim[rt_attr_bool(x->node, "transpose_a")];
    dim[1] = b->rank < 0 ? -1 : b->dim[!rt_attr_bool(x->node, "transpose_b")];
    kn_set_shape(&x->out[0], 2, dim);
    return RT_OK;
}

/* Writes a matrix to `dst` as floats, and transposes it if `transposes` is set. */
static enum rt_status load(struct rt_run *r, const struct rt_tensor *t, bool transposes, float *dst)
{
    const int64_t rows = t->dim[0], cols = t->dim[1];
    enum { COST = 4 };

    if (!transposes)
        return kn_to_float_rows(r, kn_dtype(t), t->data, cols, dst, rows, cols);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < cols; k++) {
            dst[k * rows + i] =
                t->dtype == RT_F32
                    ? ((const float *)t->data)[i * cols + k]
                    : kn_from_bf16(((const struct kn_bfloat *)t->data)[i * cols + k]);
            if (rt_run_spend(r, &r->left, COST))
                return r->err->code;
        }
    return RT_OK;
}

KN_CLONES static void add_row(float *c, const float *b, float a, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        c[j] += a * b[j];
}

KN_CLONES static void add_row_without_zeros(float *c, const float *b, float a, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        c[j] += b[j] != 0 ? a * b[j] : 0;
}

static enum rt_status multiply_sparse(struct rt_run *r, const struct product *p)
{
    enum { COLUMNS = 1 << 16 }; /* the number of columns between two deadline checks */

    for (int64_t i = 0; i < p->m; i++)
        for (int64_t k = 0; k < p->k; k++) {
            const float a = p->a[i * p->k + k];
            if (p->skips_a && a == 0) {
                if (rt_run_spend(r, &r->left, 1))
                    return r->err->code;
                continue;
            }
            for (int64_t j = 0; j < p->n; j += COLUMNS) {
                const int64_t some = p->n - j < COLUMNS ? p->n - j : COLUMNS;
                (p->skips_b ? add_row_without_zeros : add_row)(p->c + i * p->n + j,
                                                               p->b + k * p->n + j, a, some);
                if (rt_run_spend(r, &r->left, some))
                    return r->err->code;
            }
        }
    return RT_OK;
}

static enum rt_status multiply(struct rt_run *r, const struct product *p, void *scratch)
{
    const struct kn_gemm g = {
        .dtype = RT_F32, .m = p->m, .n = p->n, .k = p->k, .lda = p->k, .ldb = p->n, .ldc = p->n};

    if (p->skips_a || p->skips_b)
        return multiply_sparse(r, p);
    return kn_gemm_blocks(&g, false, p->a, p->b, p->c, scratch, r);
}

static enum rt_status run(struct rt_run *r)
{
    const struct rt_tensor *a = &r->in[0], *b = &r->in[1];
    const bool ta = rt_attr_bool(r->node, "transpose_a"), tb = rt_attr_bool(r->node, "transpose_b");
    struct rt_info out[1];
    size_t n_a = (size_t)rt_tensor_count(a), n_b = (size_t)rt_tensor_count(b), bytes;

    if (kn_infer_now(r, infer, out))
        return r->err->code;
    struct product p = {.m = a->dim[ta], .n = b->dim[!tb], .k = a->dim[!ta]};
    p.skips_a = rt_attr_bool(r->node, "a_is_sparse");
    p.skips_b = !p.skips_a && rt_attr_bool(r->node, "b_is_sparse");
    p.c = kn_out(r, 0, 2, (int64_t[]){p.m, p.n});
    if (!p.c)
        return r->err->code;
    const size_t n_c = (size_t)(p.m * p.n);
    if (n_c == 0 || p.k == 0 || p.skips_a || p.skips_b) {
        if (kn_zero_chunks(r, p.c, n_c * sizeof *p.c))
            return r->err->code;
        if (n_c == 0 || p.k == 0)
            return RT_OK;
    }
    const struct kn_gemm g = {.dtype = RT_F32, .m = p.m, .n = p.n, .k = p.k};
    const int64_t extra = p.skips_a || p.skips_b ? 0 : kn_gemm_scratch(&g);
    if (extra < 0 || !rt_add_size(n_a, n_b, &bytes) || !rt_mul_size(bytes, sizeof(float), &bytes) ||
        !rt_add_size(bytes, (size_t)extra, &bytes))
        return rt_fail_memory(r->err, r->node->name, 0);
    p.a = rt_scratch(r, bytes);
    if (!p.a)
        return r->err->code;
    p.b = p.a + n_a;
    enum rt_status st = load(r, a, ta, p.a);
    if (!st)
        st = load(r, b, tb, p.b);
    return st ? st : multiply(r, &p, p.b + n_b);
}

const struct kn_entry kn_sparse_mat_mul = {
    .op = {.name = "SparseMatMul", .infer = infer},
    .kernels = KN_KERNELS({.op = "SparseMatMul",
                           .device = "CPU",
                           .name = "sparse_mat_mul",
                           .type_attr = "Ta",
                           .types = RT_T(RT_F32) | RT_T(RT_BF16),
                           .run = run}),
};
