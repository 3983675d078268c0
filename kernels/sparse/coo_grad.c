/* The gradients of ops on sparse tensors: SparseAddGrad, SparseSliceGrad, SparseFillEmptyRowsGrad.
 */
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/sparse/coo.h"
#include "runtime/base/checked.h"

/* Infers the shape of an output that has one element for each row of a matrix of indices. */
static void infer_values(struct rt_infer *x, int o, int in)
{
    const struct rt_shape *indices = &x->in[in].shape;

    x->out[o].shape.rank = 1;
    x->out[o].shape.dim[0] = indices->rank == 2 ? indices->dim[0] : -1;
}

/* ---- SparseAddGrad ---- */

static enum rt_status add_grad_infer(struct rt_infer *x)
{
    infer_values(x, 0, 1);
    infer_values(x, 1, 2);
    return RT_OK;
}

static enum rt_status add_grad_checks(struct rt_run *r)
{
    const struct rt_tensor *grad = &r->in[0], *a = &r->in[1], *b = &r->in[2], *sum = &r->in[3];

    if (a->rank != 2 || b->rank != 2 || sum->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input indices should be matrices but received shapes: %s and %s and %s",
                       KN_TEXT(a), KN_TEXT(b), KN_TEXT(sum));
    if (grad->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input backprop_val_grad should be a vector but received shape: %s",
                       KN_TEXT(grad));
    if (a->dim[1] != b->dim[1] || b->dim[1] != sum->dim[1])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The densified operands should have the same ndims; for A, B, sum got: "
                       "%lld%lld%lld",
                       (long long)a->dim[1], (long long)b->dim[1], (long long)sum->dim[1]);
    if (grad->dim[0] != sum->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "# elements of backprop_val_grad and # rows of sum_indices should match "
                       "(#nnz of sum): got %lld and %lld",
                       (long long)grad->dim[0], (long long)sum->dim[0]);
    return RT_OK;
}

struct operand {
    const int64_t *at;
    int64_t n, i;
    void *grad;
};

/* Compares the operand's next row with row k of the sum. If the rows are equal, the operand's value
 * gets the gradient of the sum's value. Returns false if the operand's row precedes the sum's. */
static bool step(struct operand *p, const struct rt_run *r, int64_t k)
{
    const int64_t rank = r->in[3].dim[1];

    if (p->i == p->n)
        return true;
    const int c =
        kn_coo_compare(p->at + p->i * rank, (const int64_t *)r->in[3].data + k * rank, rank);
    if (c == 0)
        kn_coo_copy(kn_dtype(&r->in[0]), p->grad, p->i, r->in[0].data, k);
    p->i += c <= 0;
    return c >= 0;
}

static enum rt_status add_grad_run(struct rt_run *r)
{
    const size_t size = rt_dtype_size(kn_dtype(&r->in[0]));
    struct operand p[2] = {{.n = 0}};
    enum rt_status st = add_grad_checks(r);
    int64_t left = RT_WORK;

    for (int o = 0; o < 2 && !st; o++) {
        const struct rt_tensor *indices = &r->in[1 + o];
        p[o] = (struct operand){.at = indices->data, .n = indices->dim[0]};
        p[o].grad = rt_out(r, o, 1, &p[o].n);
        st = p[o].grad ? kn_zero_chunks(r, p[o].grad, (size_t)p[o].n * size) : r->err->code;
    }
    for (int64_t k = 0; !st && k < r->in[0].dim[0] && (p[0].i < p[0].n || p[1].i < p[1].n);) {
        const bool a = step(&p[0], r, k), b = step(&p[1], r, k);
        k += a && b;
        st = rt_run_spend(r, &left, 2 * r->in[3].dim[1] + 8);
    }
    return st;
}

const struct kn_entry kn_sparse_add_grad = {
    .op = {.name = "SparseAddGrad", .infer = add_grad_infer},
    .kernels =
        KN_CPU("SparseAddGrad", "sparse_add_grad",
               KN_SET(KN_SIGNED) | KN_SET(KN_FLOATS) | KN_SET(KN_COMPLEX), NULL, add_grad_run),
};

/* ---- SparseSliceGrad ---- */

static enum rt_status slice_grad_infer(struct rt_infer *x)
{
    infer_values(x, 0, 1);
    return RT_OK;
}

static enum rt_status slice_grad_checks(struct rt_run *r)
{
    const struct rt_tensor *grad = &r->in[0], *in = &r->in[1], *start = &r->in[2], *out = &r->in[3];

    if (in->rank != 2 || out->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input and output indices should be matrices but received shapes: %s and %s",
                       KN_TEXT(in), KN_TEXT(out));
    if (grad->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input backprop_val_grad should be a vector but received shape: %s",
                       KN_TEXT(grad));
    if (in->dim[1] != out->dim[1])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The input and output should have the same ndims: got: %lld and %lld",
                       (long long)in->dim[1], (long long)out->dim[1]);
    if (out->dim[0] > in->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "# rows of output_indices should be not greater than of input_indices, got "
                       "%lld and %lld",
                       (long long)out->dim[0], (long long)in->dim[0]);
    if (grad->dim[0] != out->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "# elements of backprop_val_grad and # rows of output_indices should match "
                       "(#nnz of sum): got %lld and %lld",
                       (long long)grad->dim[0], (long long)out->dim[0]);
    if (start->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The input_start should be a vector but received shape %s", KN_TEXT(start));
    if (start->dim[0] != in->dim[1])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected input_start to be a vector of length %lld but got length %lld",
                       (long long)in->dim[1], (long long)start->dim[0]);
    return RT_OK;
}

static bool is_moved(const int64_t *in, const int64_t *start, const int64_t *out, int64_t rank)
{
    for (int64_t d = 0; d < rank; d++)
        if (in[d] != rt_add_wrapped(out[d], start[d]))
            return false;
    return true;
}

static enum rt_status slice_grad_run(struct rt_run *r)
{
    const int64_t *in = r->in[1].data, *start = r->in[2].data, *out = r->in[3].data;
    const enum rt_dtype dtype = kn_dtype(&r->in[0]);
    enum rt_status st = slice_grad_checks(r);

    if (st)
        return st;
    const int64_t n = r->in[1].dim[0], rank = r->in[1].dim[1], n_out = r->in[3].dim[0];
    int64_t used = 0, left = RT_WORK;
    void *grad = rt_out(r, 0, 1, &n);
    if (!grad || kn_zero_chunks(r, grad, (size_t)n * rt_dtype_size(dtype)))
        return r->err->code;
    for (int64_t i = 0; i < n && used < n_out; i++) {
        if (is_moved(in + i * rank, start, out + used * rank, rank))
            kn_coo_copy(dtype, grad, i, r->in[0].data, used++);
        if (rt_run_spend(r, &left, rank + 8))
            return r->err->code;
    }
    if (used < n_out)
        return rt_fail(r->err, RT_INTERNAL,
                       "Elements of backprop_val_grad aren't all propagated. Num elements:%lld, "
                       "used: %lld",
                       (long long)n_out, (long long)used);
    return RT_OK;
}

const struct kn_entry kn_sparse_slice_grad = {
    .op = {.name = "SparseSliceGrad", .infer = slice_grad_infer},
    .kernels =
        KN_CPU("SparseSliceGrad", "sparse_slice_grad", KN_SET(KN_NUMBERS), NULL, slice_grad_run),
};

/* ---- SparseFillEmptyRowsGrad, RaggedFillEmptyRowsGrad ---- */

static enum rt_status fill_grad_infer(struct rt_infer *x)
{
    x->out[0].shape = x->in[0].shape;
    x->out[1].shape.rank = 0;
    return RT_OK;
}

/* Returns the sum of the gradients that belong to no value. The sum is the gradient of the default
 * value. */
#define REST(dt, T)                                                                                \
    static enum rt_status rest_##dt(struct rt_run *r, const bool *is_used, T *out)                 \
    {                                                                                              \
        const T *grad = r->in[1].data;                                                             \
        KN_U(dt) sum = 0;                                                                          \
        for (int64_t i = 0; i < r->in[1].dim[0]; i++) {                                            \
            if (!is_used[i])                                                                       \
                sum = (KN_U(dt))KN_ROUND(dt, sum + (KN_U(dt))KN_GET(dt, grad[i]));                 \
            if (rt_run_tick(r, i))                                                                 \
                return r->err->code;                                                               \
        }                                                                                          \
        *out = KN_PUT(dt, sum);                                                                    \
        return RT_OK;                                                                              \
    }
KN_NUMBERS(REST)

static enum rt_status rest(struct rt_run *r, const bool *is_used, void *out)
{
    switch (kn_dtype(&r->in[1])) {
#define CASE(dt, T)                                                                                \
    case dt:                                                                                       \
        return rest_##dt(r, is_used, out);
        KN_NUMBERS(CASE)
#undef CASE
    default:
        return RT_OK;
    }
}

static enum rt_status fill_grad_run(struct rt_run *r)
{
    const struct rt_tensor *map = &r->in[0], *grad = &r->in[1];
    const int64_t *from = map->data;

    if (map->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "reverse_index_map must be a vector, saw: %s",
                       KN_TEXT(map));
    if (grad->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "grad_values must be a vector, saw: %s",
                       KN_TEXT(grad));
    const int64_t n = map->dim[0], n_grad = grad->dim[0];
    void *out = rt_out(r, 0, 1, &n), *of_default = out ? rt_out(r, 1, 0, NULL) : NULL;
    bool *is_used = of_default ? rt_scratch(r, (size_t)n_grad + 1) : NULL;
    if (!is_used || kn_zero_chunks(r, is_used, (size_t)n_grad))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        if (from[i] < 0 || from[i] >= n_grad)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Elements in reverse index must be in [0, %lld) but got %lld",
                           (long long)n_grad, (long long)from[i]);
        kn_coo_copy(kn_dtype(grad), out, i, grad->data, from[i]);
        is_used[from[i]] = true;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return rest(r, is_used, of_default);
}

const struct kn_entry kn_sparse_fill_empty_rows_grad = {
    .op = {.name = "SparseFillEmptyRowsGrad", .infer = fill_grad_infer},
    .kernels = KN_CPU("SparseFillEmptyRowsGrad", "sparse_fill_empty_rows_grad", KN_SET(KN_NUMBERS),
                      NULL, fill_grad_run),
};

const struct kn_entry kn_ragged_fill_empty_rows_grad = {
    .op = {.name = "RaggedFillEmptyRowsGrad", .infer = fill_grad_infer},
    .kernels = KN_CPU("RaggedFillEmptyRowsGrad", "ragged_fill_empty_rows_grad", KN_SET(KN_NUMBERS),
                      NULL, fill_grad_run),
};
