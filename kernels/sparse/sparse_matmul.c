/* SparseTensorDenseMatMul multiplies a sparse matrix and a dense matrix, either of which may be
 * replaced by its adjoint. */
#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"

struct product {
    const struct rt_tensor *indices, *values, *b;
    bool adjoint_a, adjoint_b;
    /* After transposition, a is [rows, inner], and b is [inner, columns]. */
    int64_t rows, inner, columns;
};

static enum rt_status bad_index(struct rt_run *r, const char *what, int64_t v, int64_t i,
                                int64_t limit)
{
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "%s (%lld) from index[%lld,%d] out of bounds (>=%lld)", what, (long long)v,
                   (long long)i, what[0] == 'k', (long long)limit);
}

#define SAME(x) (x)
/* Computes each row of the output as a weighted sum of rows of b. If b is transposed, its columns
 * are summed instead. */
#define MULTIPLY(dt, T, CONJ)                                                                      \
    static enum rt_status multiply_##dt(struct rt_run *r, const struct product *p, void *out)      \
    {                                                                                              \
        const T *values = p->values->data, *b = p->b->data;                                        \
        T *dst = out;                                                                              \
        int64_t left = RT_WORK;                                                                    \
        for (int64_t i = 0; i < p->values->dim[0]; i++) {                                          \
            const int64_t m = kn_int_at(p->indices, 2 * i + p->adjoint_a);                         \
            const int64_t k = kn_int_at(p->indices, 2 * i + !p->adjoint_a);                        \
            const T v = p->adjoint_a ? (T)CONJ(values[i]) : values[i];                             \
            if (k < 0 || k >= p->inner)                                                            \
                return bad_index(r, "k", k, i, p->inner);                                          \
            if (m < 0 || m >= p->rows)                                                             \
                return bad_index(r, "m", m, i, p->rows);                                           \
            if (rt_run_spend(r, &left, 2 * p->columns + 8))                                        \
                return r->err->code;                                                               \
            for (int64_t j = 0; j < p->columns; j++) {                                             \
                const T w = p->adjoint_b ? (T)CONJ(b[j * p->inner + k]) : b[k * p->columns + j];   \
                dst[m * p->columns + j] = (T)(dst[m * p->columns + j] + v * w);                    \
            }                                                                                      \
        }                                                                                          \
        return RT_OK;                                                                              \
    }
MULTIPLY(RT_F32, float, SAME)
MULTIPLY(RT_F64, double, SAME)
MULTIPLY(RT_I32, uint32_t, SAME) /* int32 sums wrap around */
MULTIPLY(RT_C64, float _Complex, conjf)
MULTIPLY(RT_C128, double _Complex, conj)

static enum rt_status sparse_matmul_check(struct rt_run *r)
{
    const struct rt_tensor *indices = &r->in[0], *values = &r->in[1], *shape = &r->in[2];

    if (r->in[3].rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Tensor 'b' is not a matrix");
    if (shape->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Tensor 'a_shape' is not a vector");
    if (shape->dim[0] != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Tensor 'a_shape' must have 2 elements");
    if (values->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Tensor 'a_values' is not a vector");
    if (indices->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Tensor 'a_indices' is not a matrix");
    if (values->dim[0] != indices->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Number of rows of a_indices does not match number of entries in a_values");
    if (indices->dim[1] != 2)
        return rt_fail(
            r->err, RT_INVALID_ARGUMENT,
            "Number of columns of a_indices does not match number of entries in a_shape");
    return RT_OK;
}

static enum rt_status sparse_matmul_run(struct rt_run *r)
{
    struct product p = {.indices = &r->in[0],
                        .values = &r->in[1],
                        .b = &r->in[3],
                        .adjoint_a = rt_attr_bool(r->node, "adjoint_a"),
                        .adjoint_b = rt_attr_bool(r->node, "adjoint_b")};
    enum rt_status st = sparse_matmul_check(r);

    if (st)
        return st;
    p.rows = kn_int_at(&r->in[2], p.adjoint_a);
    p.inner = kn_int_at(&r->in[2], !p.adjoint_a);
    p.columns = p.b->dim[!p.adjoint_b];
    if (p.rows < 0 || p.inner < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "a_shape must not be negative: [%lld,%lld]",
                       (long long)kn_int_at(&r->in[2], 0), (long long)kn_int_at(&r->in[2], 1));
    if (p.b->dim[p.adjoint_b] != p.inner)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Cannot multiply A and B because inner dimension does not match: %lld vs. "
                       "%lld.  Did you forget a transpose?  Dimensions of A: [%lld, %lld).  "
                       "Dimensions of B: %s",
                       (long long)p.inner, (long long)p.b->dim[p.adjoint_b],
                       (long long)kn_int_at(&r->in[2], 0), (long long)kn_int_at(&r->in[2], 1),
                       KN_TEXT(p.b));
    void *out = rt_out(r, 0, 2, (int64_t[]){p.rows, p.columns});
    if (!out)
        return r->err->code;
    /* As in TensorFlow, indices are not checked if the output is empty or `inner` is 0. */
    if (rt_tensor_count(&r->out[0]) == 0)
        return RT_OK;
    if (kn_zero_chunks(r, out, rt_tensor_bytes(&r->out[0])))
        return r->err->code;
    if (p.inner == 0)
        return RT_OK;
    switch (kn_dtype(p.b)) {
    case RT_F32:
        return multiply_RT_F32(r, &p, out);
    case RT_F64:
        return multiply_RT_F64(r, &p, out);
    case RT_I32:
        return multiply_RT_I32(r, &p, out);
    case RT_C64:
        return multiply_RT_C64(r, &p, out);
    default:
        return multiply_RT_C128(r, &p, out);
    }
}

const struct kn_entry kn_sparse_tensor_dense_mat_mul = {
    .op = {.name = "SparseTensorDenseMatMul"},
    .kernels = KN_CPU("SparseTensorDenseMatMul", "sparse_tensor_dense_mat_mul",
                      RT_T(RT_F32) | RT_T(RT_F64) | RT_T(RT_I32) | RT_T(RT_C64) | RT_T(RT_C128),
                      NULL, sparse_matmul_run),
};
