/* Conditional accumulators of sparse gradients (accumulator.h). */
#include "kernels/queue/accumulator.h"

/* The inputs of SparseAccumulatorApplyGradient that follow the step. */
enum { INDICES = 2, VALUES, SHAPE };

#define MISMATCH "Shape mismatch: expected "

/* Checks the input gradient_shape against the shape of the accumulator. */
static enum rt_status check_known_shape(struct rt_run *r, const struct kn_accumulator *a)
{
    const struct rt_tensor *t = &r->in[SHAPE];

    if (a->shape.rank > rt_tensor_count(t))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, MISMATCH "shape rank at least %d, got %lld",
                       a->shape.rank, (long long)rt_tensor_count(t));
    for (int d = 0; d < a->shape.rank; d++)
        if (a->shape.dim[d] >= 0 && a->shape.dim[d] != kn_int_at(t, d))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           MISMATCH "shape dim %d to be %lld, got %lld", d,
                           (long long)a->shape.dim[d], (long long)kn_int_at(t, d));
    return RT_OK;
}

/* Checks the shape of the gradient's values against the shape of the sum or, if there is no sum
 * yet, against the shape of the accumulator. */
static enum rt_status check_values(struct rt_run *r, const struct kn_accumulator *a)
{
    const struct rt_tensor *t = &r->in[VALUES], *sum = &a->part[KN_SUM];
    const int rank = a->n ? sum->rank : a->shape.rank;
    const int64_t *dim = a->n ? sum->dim : a->shape.dim;

    if (a->n ? rank != t->rank : rank > t->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, MISMATCH "values rank %s%d, got %d",
                       a->n ? "" : "at least ", rank, t->rank);
    for (int d = 1; d < rank; d++)
        if (dim[d] >= 0 && dim[d] != t->dim[d])
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           MISMATCH "values dim %d to be %lld, got %lld", d, (long long)dim[d],
                           (long long)t->dim[d]);
    return RT_OK;
}

static enum rt_status check_gradient(struct rt_run *r, const struct kn_accumulator *a)
{
    const struct rt_tensor *indices = &r->in[INDICES], *values = &r->in[VALUES];
    const int64_t limit = a->shape.rank > 0 ? a->shape.dim[0] : -1;
    struct rt_shape shape;
    enum rt_status st = RT_OK;

    kn_shape_get(indices, &shape);
    if (shape.rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input indices should be vector but received shape: %s", KN_TEXT(&shape));
    if (values->rank < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Values cannot be 0-dimensional.");
    if (values->dim[0] != shape.dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected %lld non-empty input values, got %lld", (long long)shape.dim[0],
                       (long long)values->dim[0]);
    if (rt_attr_bool(r->node, "has_known_shape"))
        st = check_known_shape(r, a);
    for (int64_t i = 0; i < shape.dim[0] && limit >= 0 && !st; i++) {
        if (kn_int_at(indices, i) >= limit)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Shape mismatch: index of slice %lld exceeded limits of shape; index is "
                           "%lld exceeded %lld",
                           (long long)i, (long long)kn_int_at(indices, i), (long long)limit);
        st = rt_run_tick(r, i);
    }
    return st ? st : check_values(r, a);
}

/* ---- the sum ---- */

/* A merge of the slices of the sum with the slices of a gradient. Slices are merged as sorted lists
 * are, although TensorFlow does not require the indices to be sorted. */
struct merge {
    const int64_t *a, *b;
    int64_t n_a, n_b;
    int64_t at_a, at_b;
};

/* Advances to the next merged slice. Sets *in_a to whether the sum has this slice, and *in_b to
 * whether the gradient has it. Returns false if no slices are left. */
static bool merge_next(struct merge *m, bool *in_a, bool *in_b)
{
    const bool more_a = m->at_a < m->n_a, more_b = m->at_b < m->n_b;

    *in_a = more_a && (!more_b || m->a[m->at_a] <= m->b[m->at_b]);
    *in_b = more_b && (!more_a || m->b[m->at_b] <= m->a[m->at_a]);
    m->at_a += *in_a;
    m->at_b += *in_b;
    return *in_a || *in_b;
}

static enum rt_status merged_count(struct rt_run *r, struct merge m, int64_t *n)
{
    bool in_a, in_b;
    enum rt_status st = RT_OK;

    for (*n = 0; !st && merge_next(&m, &in_a, &in_b); ++*n)
        st = rt_run_spend(r, &r->left, 4);
    return st;
}

/* Writes the merged slices to the tensors at `t`, which have space for them. */
static enum rt_status merge_into(struct rt_run *r, const struct kn_accumulator *a, struct merge m,
                                 struct rt_tensor *t)
{
    const struct rt_tensor *sum = &a->part[KN_SUM], *values = &r->in[VALUES];
    const int64_t *counts = a->part[KN_COUNTS].data;
    int64_t *indices_out = t[KN_INDICES].data, *counts_out = t[KN_COUNTS].data;
    int64_t inner = 1;
    bool in_a, in_b;
    enum rt_status st = RT_OK;

    for (int d = 1; d < values->rank; d++)
        inner *= values->dim[d];
    for (int64_t i = 0; !st && merge_next(&m, &in_a, &in_b); i++) {
        void *dst = kn_at_mut(&t[KN_SUM], i * inner);
        const int64_t from_a = m.at_a - 1, from_b = m.at_b - 1;
        indices_out[i] = in_a ? m.a[from_a] : m.b[from_b];
        counts_out[i] = (in_a ? counts[from_a] : 0) + in_b;
        if (in_a && in_b)
            kn_add_gradients(a->dtype, dst, kn_at(sum, from_a * inner),
                             kn_at(values, from_b * inner), inner);
        else
            kn_copy(a->dtype, dst,
                    in_a ? kn_at(sum, from_a * inner) : kn_at(values, from_b * inner), inner);
        st = rt_run_spend(r, &r->left, 3 * inner + 8);
    }
    return st;
}

static enum rt_status sparse_add(struct rt_run *r, struct kn_accumulator *a)
{
    const struct rt_tensor *indices = &r->in[INDICES], *values = &r->in[VALUES];
    struct rt_tensor t[KN_ACCUMULATED] = {{0}};
    struct rt_pool *pool = rt_run_pool(r);
    enum rt_status st = check_gradient(r, a);
    int64_t dim[RT_MAX_RANK], n = 0;

    if (st)
        return st;
    struct merge m = {.b = indices->data, .n_b = indices->dim[0]};
    if (a->n) {
        m.a = a->part[KN_INDICES].data;
        m.n_a = a->part[KN_INDICES].dim[0];
    }
    st = merged_count(r, m, &n);
    memcpy(dim, values->dim, (size_t)values->rank * sizeof *dim);
    dim[0] = n;
    if (!st)
        st = rt_tensor_new(&t[KN_SUM], pool, a->dtype, values->rank, dim, r->err);
    if (!st)
        st = rt_tensor_new(&t[KN_INDICES], pool, RT_I64, 1, &n, r->err);
    if (!st)
        st = rt_tensor_new(&t[KN_COUNTS], pool, RT_I64, 1, &n, r->err);
    if (!st)
        st = merge_into(r, a, m, t);
    if (!st)
        return kn_accumulator_set(r, a, t, KN_ACCUMULATED);
    for (int k = 0; k < KN_ACCUMULATED; k++)
        rt_tensor_clear(&t[k]);
    return st;
}

static enum rt_status sparse_give(struct rt_run *r, struct kn_accumulator *a)
{
    const struct rt_tensor *sum = &a->part[KN_SUM];
    const int64_t *counts = a->part[KN_COUNTS].data;
    const int64_t rank = sum->rank, n = sum->dim[0];
    int64_t inner = 1;
    enum rt_status st = RT_OK;

    int64_t *shape = rt_out(r, 2, 1, &rank);
    if (!shape)
        return r->err->code;
    shape[0] = a->shape.rank > 0 ? a->shape.dim[0] : -1;
    for (int d = 1; d < rank; d++) {
        shape[d] = sum->dim[d];
        inner *= sum->dim[d];
    }
    rt_out_tensor(r, 0, &a->part[KN_INDICES]);
    if (!a->takes_mean) {
        rt_out_tensor(r, 1, sum);
        return RT_OK;
    }
    if (!rt_out(r, 1, sum->rank, sum->dim))
        return r->err->code;
    for (int64_t i = 0; i < n && !st; i++) {
        kn_divide_gradients(a->dtype, kn_at_mut(&r->out[1], i * inner), kn_at(sum, i * inner),
                            counts[i], inner);
        st = rt_run_spend(r, &r->left, 3 * inner + 8);
    }
    return st;
}

/* ---- the ops ---- */

static enum rt_status sparse_apply_run(struct rt_run *r)
{
    return kn_accumulator_apply(r, true, sparse_add);
}

static enum rt_status sparse_take_run(struct rt_run *r)
{
    return kn_accumulator_take(r, true, sparse_give);
}

const struct kn_entry kn_sparse_accumulator_apply_gradient = {
    .op = {.name = "SparseAccumulatorApplyGradient", .effect = RT_BLOCKS},
    .kernels = KN_CPU("SparseAccumulatorApplyGradient", "sparse_accumulator_apply_gradient", 0,
                      NULL, sparse_apply_run),
};
const struct kn_entry kn_sparse_accumulator_take_gradient = {
    .op = {.name = "SparseAccumulatorTakeGradient", .effect = RT_BLOCKS},
    .kernels = KN_CPU("SparseAccumulatorTakeGradient", "sparse_accumulator_take_gradient", 0, NULL,
                      sparse_take_run),
};
