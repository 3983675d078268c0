/* Ops that search and count: LowerBound, UpperBound, UnravelIndex, Bincount, DenseBincount. */
#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

/* ---- LowerBound, UpperBound (sorted_inputs, values) ---- */

/* Returns how many of n sorted values are less than v or, with `upper`, not greater than v. */
#define BOUND(dt, T, ...)                                                                          \
    static int64_t bound_##dt(const T *s, int64_t n, T v, bool upper)                              \
    {                                                                                              \
        int64_t lo = 0;                                                                            \
        while (n > 0) {                                                                            \
            const int64_t half = n / 2;                                                            \
            const bool before = upper ? !(KN_GET(dt, v) < KN_GET(dt, s[lo + half]))                \
                                      : KN_GET(dt, s[lo + half]) < KN_GET(dt, v);                  \
            if (before) {                                                                          \
                lo += half + 1;                                                                    \
                n -= half + 1;                                                                     \
            } else {                                                                               \
                n = half;                                                                          \
            }                                                                                      \
        }                                                                                          \
        return lo;                                                                                 \
    }
KN_FOR_REALS(BOUND, 0)

static enum rt_status bound_infer(struct rt_infer *x)
{
    static const char *const name[] = {"sorted_inputs", "values"};

    x->out[0].shape = x->in[1].shape;
    if (!kn_known(x, 0))
        return RT_OK;
    for (int k = 0; k < 2; k++)
        if (x->in[k].shape.rank != 2)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Shape must be rank 2 but is rank %d for `%s` argument",
                           x->in[k].shape.rank, name[k]);
    if (x->in[0].shape.dim[0] != x->in[1].shape.dim[0])
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Leading dim_size of both tensors must match.");
    return RT_OK;
}

static enum rt_status bound_run(struct rt_run *r)
{
    const bool upper = r->node->schema->name[0] == 'U';
    enum rt_status st = kn_outputs(r, bound_infer);
    struct rt_info check;

    if (st || (st = kn_infer_now(r, bound_infer, &check)))
        return st;
    const struct rt_tensor *s = &r->in[0], *v = &r->in[1];
    const int64_t n = s->dim[1], m = v->dim[1];
    if (n == 0 || rt_tensor_count(v) == 0) { /* if there are no sorted values, every result is 0 */
        if (rt_tensor_count(v))
            return kn_zero_chunks(r, r->out[0].data, rt_tensor_bytes(&r->out[0]));
        return RT_OK;
    }
    switch (kn_dtype(s)) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        for (int64_t i = 0; i < v->dim[0] * m; i++) {                                              \
            kn_put_int(                                                                            \
                &r->out[0], i,                                                                     \
                bound_##dt((const T *)s->data + i / m * n, n, ((const T *)v->data)[i], upper));    \
            if (rt_run_tick(r, i))                                                                 \
                return r->err->code;                                                               \
        }                                                                                          \
        return RT_OK;
        KN_REALS(X)
#undef X
    default:
        return rt_fail(r->err, RT_UNIMPLEMENTED, "%s: no kernel for this type",
                       r->node->schema->name);
    }
}

static void bound_rows(struct rt_rows *r)
{
    if (kn_rows_independent(r))
        return;
    const struct rt_dep s = r->in_dep[0], v = r->in_dep[1];
    if (v.kind == RT_DEP_ROWS && s.kind == RT_DEP_ROWS && v.axis == 0 && s.axis == 0)
        kn_rows_set(r, RT_DEP_ROWS, 0);
    else if (v.kind == RT_DEP_ROWS && s.kind == RT_DEP_NONE && v.axis == 1)
        kn_rows_set(r, RT_DEP_ROWS, 1);
}

#define BOUND_OP(symbol, op_)                                                                      \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = bound_infer, .rows = bound_rows},                           \
        .kernels = KN_CPU(op_, #symbol, KN_SET(KN_REALS), NULL, bound_run),                        \
    };
BOUND_OP(lower_bound, "LowerBound")
BOUND_OP(upper_bound, "UpperBound")

/* ---- UnravelIndex(indices, dims) ---- */

/* The cost of two divisions and of a write that misses the cache, in units of rt_run_spend. */
enum { DIVISION_WORK = 32 };

static enum rt_status unravel_run(struct rt_run *r)
{
    const struct rt_tensor *index = &r->in[0], *dims = &r->in[1];
    int64_t total = 1;

    if (dims->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "The indices can only be 1-D, got \"%s\"",
                       KN_TEXT(dims));
    if (index->rank > 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The indices can only be scalar or vector, got \"%s\"", KN_TEXT(index));
    const int64_t n_dims = dims->dim[0], n = rt_tensor_count(index);
    for (int64_t i = 0; i < n_dims; i++) {
        const int64_t d = kn_int_at(dims, i);
        if (d == 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Input dims cannot contain a dim of zero, but dims contains zero at "
                           "index %lld",
                           (long long)i);
        if (d < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Input dims cannot be negative. Got dim = %lld at index %lld",
                           (long long)d, (long long)i);
        if (!rt_mul(total, d, &total) || (kn_dtype(dims) == RT_I32 && total > INT32_MAX))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Input dims product is causing integer overflow");
    }
    if (n == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "received empty tensor indices: Tensor<type: %s shape: %s values: >",
                       rt_dtype_name(kn_dtype(index)), KN_TEXT(index));
    const int64_t out[2] = {n_dims, n};
    if (!rt_out(r, 0, index->rank + 1, out))
        return r->err->code;
    int64_t left = RT_WORK;
    for (int64_t k = 0; k < n; k++) {
        const int64_t v = kn_int_at(index, k);
        int64_t span = total;
        if (rt_run_spend(r, &left, DIVISION_WORK * (n_dims + 1)))
            return r->err->code;
        if (v >= total)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "index is out of bound as with dims");
        for (int64_t i = 0; i < n_dims; i++) {
            const int64_t inner = span / kn_int_at(dims, i);
            kn_put_int(&r->out[0], i * n + k, v % span / inner);
            span = inner;
        }
    }
    return RT_OK;
}

const struct kn_entry kn_unravel_index = {
    .op = {.name = "UnravelIndex"},
    .kernels = KN_KERNELS({.op = "UnravelIndex",
                           .device = "CPU",
                           .name = "unravel_index",
                           .type_attr = "Tidx",
                           .run = unravel_run}),
};

/* ---- Bincount(arr, size, weights), DenseBincount(input, size, weights) ---- */

static bool is_dense(const struct rt_node *n)
{
    return n->schema->name[0] == 'D';
}

static enum rt_status bins_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape, *w = &x->in[2].shape;
    const bool dense = is_dense(x->node);

    if (!kn_known(x, 2))
        return RT_OK;
    if (x->in[1].value->rank != 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Shape must be rank 0 but is rank %d",
                       x->in[1].value->rank);
    const int64_t size = kn_int_at(x->in[1].value, 0);
    if (size < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "size (%lld) must be non-negative",
                       (long long)size);
    if (dense && in->rank > 2)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Shape must be at most rank 2 but is rank %d",
                       in->rank);
    const int64_t n_w = kn_shape_total(w);
    if (!dense && n_w != 0 && n_w != kn_shape_total(in))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Input indices and weights must have the same size.");
    bool fits = !dense || n_w == 0 || w->rank == in->rank;
    for (int i = 0; dense && fits && n_w && i < in->rank; i++)
        fits = w->dim[i] == in->dim[i];
    if (!fits)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in "
                       "which case it acts as all weights equal to 1. Received %s",
                       KN_TEXT(w));
    if (dense && in->rank == 2) {
        const int64_t dim[2] = {in->dim[0], size};
        kn_set_shape(&x->out[0], 2, dim);
    } else {
        kn_set_vector(&x->out[0], size);
    }
    return RT_OK;
}

static enum rt_status bins_run(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[0], *w = &r->in[2];
    const bool dense = is_dense(r->node);
    const bool binary = dense && rt_attr_bool(r->node, "binary_output");
    enum rt_status st = kn_outputs(r, bins_infer);
    struct rt_tensor *o = &r->out[0];

    if (st)
        return st;
    const int64_t size = kn_int_at(&r->in[1], 0), n = rt_tensor_count(in);
    const int64_t rows = o->rank == 2 ? o->dim[0] : 1, each = rows ? n / rows : 0;
    const bool weighted = rt_tensor_count(w) > 0;
    if (rt_tensor_count(o) && kn_zero_chunks(r, o->data, rt_tensor_bytes(o)))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        const int64_t v = kn_int_at(in, i);
        if (rt_run_tick(r, i))
            return r->err->code;
        if (v < 0 && dense)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Input 'in' must be non-negative! Negative input value found: %lld",
                           (long long)v);
        if (v < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input arr must be non-negative!");
        if (v >= size)
            continue;
        const int64_t at = (o->rank == 2 ? i / each * size : 0) + v;
        switch (kn_dtype(o)) {
#define X(dt, T, SUM)                                                                              \
    case dt: {                                                                                     \
        T *p = (T *)o->data + at;                                                                  \
        *p = binary ? 1 : (T)SUM(*p, weighted ? ((const T *)w->data)[i] : 1);                      \
        break;                                                                                     \
    }
#define PLAIN_SUM(a, b) ((a) + (b))
            X(RT_F32, float, PLAIN_SUM)
            X(RT_F64, double, PLAIN_SUM)
            X(RT_I32, int32_t, rt_add_wrapped)
            X(RT_I64, int64_t, rt_add_wrapped)
#undef PLAIN_SUM
#undef X
        default:
            return rt_fail(r->err, RT_UNIMPLEMENTED, "%s: no kernel for this type",
                           r->node->schema->name);
        }
    }
    return RT_OK;
}

static void bins_rows(struct rt_rows *r)
{
    if (kn_rows_independent(r) || !is_dense(r->node) || r->in_dep[1].kind != RT_DEP_NONE)
        return;
    const struct rt_dep v = r->in_dep[0], w = r->in_dep[2];
    if (v.kind == RT_DEP_ROWS && v.axis == 0 && r->in[0].shape.rank == 2 &&
        (w.kind == RT_DEP_NONE || (w.kind == RT_DEP_ROWS && w.axis == 0)))
        kn_rows_set(r, RT_DEP_ROWS, 0);
}

#define BINS(symbol, op_)                                                                          \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .shape_in = 2, .infer = bins_infer, .rows = bins_rows},              \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, bins_run),                                        \
    };
BINS(bincount, "Bincount")
BINS(dense_bincount, "DenseBincount")
