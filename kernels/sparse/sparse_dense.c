/*
 * Ops on a sparse and a dense tensor, and SparseSoftmax. SparseDenseCwiseAdd, SparseDenseCwiseMul
 * and SparseDenseCwiseDiv return the values of a sparse tensor. SparseTensorDenseAdd returns a
 * dense tensor.
 */
#include "kernels/sparse/coo.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

#include <math.h>

/* TensorFlow's kernels handle ranks up to 5. */
enum { MOST_DIMENSIONS = 5 };

static enum rt_status check_dimensions(struct rt_run *r, int64_t rank)
{
    if (rank >= 1 && rank <= MOST_DIMENSIONS)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "Only tensors with ranks between 1 and 5 are currently supported.  Tensor rank: "
                   "%lld",
                   (long long)rank);
}

/* ---- SparseDenseCwiseAdd, SparseDenseCwiseMul, SparseDenseCwiseDiv ---- */

enum operation { PLUS, TIMES, OVER };

static enum rt_status check_parts(struct rt_run *r, const struct kn_coo *s)
{
    if (s->indices->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input sp_indices should be a matrix but received shape: %s",
                       KN_TEXT(s->indices));
    if (s->values->rank != 1 || s->shape->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Inputs sp_values and sp_shape should be vectors but received shapes: %s "
                       "and %s",
                       KN_TEXT(s->values), KN_TEXT(s->shape));
    return RT_OK;
}

static enum rt_status each_checks(struct rt_run *r, const struct kn_coo *s)
{
    const struct rt_tensor *dense = &r->in[3];
    enum rt_status st = check_parts(r, s);

    if (st)
        return st;
    if (s->shape->dim[0] == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The shape argument requires at least one element.");
    if (s->rank != s->shape->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Number of dimensions must match second dimension of indices. Got %lld "
                       "dimensions, indices shape: %s",
                       (long long)s->shape->dim[0], KN_TEXT(s->indices));
    if (s->n != s->values->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The first dimension of values and indices should match. (%lld vs. %lld)",
                       (long long)s->values->dim[0], (long long)s->n);
    st = kn_coo_check_shape(r, s->dim, s->rank);
    bool fits = dense->rank <= s->rank;
    for (int d = 1; d <= dense->rank && fits && !st; d++) {
        const int64_t n = dense->dim[dense->rank - d];
        fits = n == 1 || n == s->dim[s->rank - d];
    }
    if (!st && !fits)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "SparseDenseBinaryOpShared broadcasts dense to sparse only; got "
                       "incompatible shapes: a sparse tensor of rank %lld vs. %s",
                       (long long)s->rank, KN_TEXT(dense));
    return st ? st : check_dimensions(r, s->rank);
}

/* Sets from[i] to the position of the dense tensor's element that belongs to value i. */
static enum rt_status dense_positions(struct rt_run *r, const struct kn_coo *s, int64_t *from)
{
    const struct rt_tensor *dense = &r->in[3];
    int64_t stride[RT_MAX_RANK], left = RT_WORK;

    kn_strides(dense->rank, dense->dim, stride);
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t *row = s->at + i * s->rank;
        from[i] = 0;
        for (int64_t d = 0; d < s->rank; d++) {
            const int64_t k = d - (s->rank - dense->rank);
            if (row[d] < 0 || row[d] >= s->dim[d])
                return rt_fail(r->err, RT_INVALID_ARGUMENT,
                               "Provided indices are out-of-bounds w.r.t. dense side with "
                               "broadcasted shape");
            from[i] += k >= 0 && dense->dim[k] != 1 ? row[d] * stride[k] : 0;
        }
        if (rt_run_spend(r, &left, 8 * s->rank))
            return r->err->code;
    }
    return RT_OK;
}

/* As in Div, the smallest integer divided by -1 is itself. Returns false on a division by 0, which
 * TensorFlow refuses for floats as well. */
#define DIVIDE(dt, T, QUOTIENT)                                                                    \
    static bool divide_##dt(T a, T b, T *out)                                                      \
    {                                                                                              \
        *out = b == 0 ? 0 : (T)(QUOTIENT);                                                         \
        return b != 0;                                                                             \
    }
#define SIGNED(dt, T)   DIVIDE(dt, T, b == -1 ? (T)(0 - (KN_U(dt))a) : a / b)
#define UNSIGNED(dt, T) DIVIDE(dt, T, a / b)
#define FLOATS(dt, T)                                                                              \
    static bool divide_##dt(T a, T b, T *out)                                                      \
    {                                                                                              \
        *out = KN_PUT(dt, KN_GET(dt, a) / KN_GET(dt, b));                                          \
        return KN_GET(dt, b) != 0;                                                                 \
    }
KN_SIGNED(SIGNED)
KN_UNSIGNED(UNSIGNED)
KN_FLOATS(FLOATS)
KN_HALFS(FLOATS)

#define EACH(dt, T)                                                                                \
    static bool each_##dt(enum operation op, const T *a, const T *b, const int64_t *from,          \
                          int64_t n, T *out)                                                       \
    {                                                                                              \
        bool ok = true;                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const KN_U(dt) x = (KN_U(dt))KN_GET(dt, a[i]), y = (KN_U(dt))KN_GET(dt, b[from[i]]);   \
            if (op == OVER)                                                                        \
                ok &= divide_##dt(a[i], b[from[i]], &out[i]);                                      \
            else                                                                                   \
                out[i] = KN_PUT(dt, op == PLUS ? x + y : x * y);                                   \
        }                                                                                          \
        return ok;                                                                                 \
    }
KN_REALS(EACH)

static bool each(enum operation op, const struct kn_coo *s, const struct rt_tensor *dense,
                 const int64_t *from, int64_t i, int64_t n, void *out)
{
    switch (kn_dtype(dense)) {
#define CASE(dt, T)                                                                                \
    case dt:                                                                                       \
        return each_##dt(op, (const T *)s->values->data + i, dense->data, from + i, n,             \
                         (T *)out + i);
        KN_REALS(CASE)
#undef CASE
    default:
        return true;
    }
}

static enum rt_status each_run(struct rt_run *r, enum operation op)
{
    enum { SOME = 1 << 14 };
    const struct kn_coo s = kn_coo_of(&r->in[0], &r->in[1], &r->in[2]);
    enum rt_status st = each_checks(r, &s);
    int64_t *from = st ? NULL : rt_scratch(r, ((size_t)s.n + 1) * sizeof *from);
    void *out = from ? rt_out(r, 0, 1, &s.n) : NULL;

    if (!out || dense_positions(r, &s, from))
        return r->err->code;
    for (int64_t i = 0; i < s.n && !st; i += SOME) {
        if (!each(op, &s, &r->in[3], from, i, s.n - i < SOME ? s.n - i : SOME, out))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "SparseDenseCwiseDiv cannot divide by zero,but input dense tensor "
                           "contains zero ");
        st = rt_run_check(r);
    }
    return st;
}

#define EACH_OP(symbol, op_, operation_)                                                           \
    static enum rt_status symbol##_run(struct rt_run *r)                                           \
    {                                                                                              \
        return each_run(r, operation_);                                                            \
    }                                                                                              \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_)},                                                                     \
        .kernels = KN_CPU(op_, #symbol, KN_SET(KN_REALS), NULL, symbol##_run),                     \
    };
EACH_OP(sparse_dense_cwise_add, "SparseDenseCwiseAdd", PLUS)
EACH_OP(sparse_dense_cwise_mul, "SparseDenseCwiseMul", TIMES)
EACH_OP(sparse_dense_cwise_div, "SparseDenseCwiseDiv", OVER)

/* ---- SparseTensorDenseAdd ---- */

static enum rt_status dense_add_checks(struct rt_run *r)
{
    const struct rt_tensor *indices = &r->in[0], *values = &r->in[1], *shape = &r->in[2];
    const struct rt_tensor *dense = &r->in[3];

    if (indices->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input a_indices should be a matrix but received shape: %s",
                       KN_TEXT(indices));
    if (values->rank != 1 || shape->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Inputs a_values and a_shape should be vectors but received shapes: %s and "
                       "%s",
                       KN_TEXT(values), KN_TEXT(shape));
    if (shape->dim[0] != dense->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Two operands have different ranks; received: %lld and %d",
                       (long long)shape->dim[0], dense->rank);
    if (indices->dim[0] != values->dim[0] || indices->dim[1] != dense->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Dimensions %s and %s are not compatible",
                       KN_TEXT(indices), KN_TEXT(values));
    for (int d = 0; d < dense->rank; d++)
        if (kn_int_at(shape, d) != dense->dim[d])
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Dimension %d does not equal (no broadcasting is supported): sparse "
                           "side %lld vs dense side %lld",
                           d, (long long)kn_int_at(shape, d), (long long)dense->dim[d]);
    return check_dimensions(r, dense->rank);
}

static void add_one(enum rt_dtype dtype, void *out, int64_t to, const void *src, int64_t from)
{
    switch (dtype) {
#define CASE(dt, T)                                                                                \
    case dt: {                                                                                     \
        T *x = (T *)out + to;                                                                      \
        *x = KN_PUT(dt, (KN_U(dt))KN_GET(dt, *x) + (KN_U(dt))KN_GET(dt, ((const T *)src)[from]));  \
        break;                                                                                     \
    }
        KN_NUMBERS(CASE)
#undef CASE
    default:
        break;
    }
}

static enum rt_status dense_add_run(struct rt_run *r)
{
    const struct rt_tensor *indices = &r->in[0], *values = &r->in[1], *dense = &r->in[3];
    const int rank = dense->rank;
    int64_t stride[RT_MAX_RANK], left = RT_WORK;
    enum rt_status st = dense_add_checks(r);
    void *out = st ? NULL : rt_out(r, 0, rank, dense->dim);

    if (!out)
        return r->err->code;
    st = kn_copy_run(r, kn_dtype(dense), out, dense->data, rt_tensor_count(dense));
    kn_strides(rank, dense->dim, stride);
    for (int64_t i = 0; i < indices->dim[0] && !st; i++) {
        int64_t at = 0;
        for (int d = 0; d < rank; d++) {
            const int64_t v = kn_int_at(indices, i * rank + d);
            if (v < 0 || v >= dense->dim[d])
                return rt_fail(r->err, RT_INVALID_ARGUMENT,
                               "Sparse tensor has an invalid index on dimension %d: "
                               "a_indices(%lld,%d) = %lld, dense tensor shape: %s",
                               d, (long long)i, d, (long long)v, KN_TEXT(dense));
            at += v * stride[d];
        }
        add_one(kn_dtype(dense), out, at, values->data, i);
        st = rt_run_spend(r, &left, 16 * rank);
    }
    return st;
}

const struct kn_entry kn_sparse_tensor_dense_add = {
    .op = {.name = "SparseTensorDenseAdd"},
    .kernels = KN_CPU("SparseTensorDenseAdd", "sparse_tensor_dense_add", KN_SET(KN_NUMBERS), NULL,
                      dense_add_run),
};

/* ---- SparseSoftmax ---- */

#define EXP_RT_F16 expf
#define EXP_RT_F32 expf
#define EXP_RT_F64 exp
/* Writes the softmax of n values. Half-precision results are rounded after each operation. */
#define SOFTMAX(dt, T)                                                                             \
    static void softmax_##dt(const struct kn_coo_place *p, int64_t n, const T *src, T *dst)        \
    {                                                                                              \
        KN_C(dt) most = KN_GET(dt, src[p[0].at]), sum = 0;                                         \
        for (int64_t i = 1; i < n; i++) {                                                          \
            const KN_C(dt) v = KN_GET(dt, src[p[i].at]);                                           \
            most = v > most ? v : most;                                                            \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            dst[i] = KN_PUT(dt, EXP_##dt(KN_ROUND(dt, KN_GET(dt, src[p[i].at]) - most)));          \
            sum = KN_ROUND(dt, sum + KN_GET(dt, dst[i]));                                          \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            dst[i] = KN_PUT(dt, KN_GET(dt, dst[i]) / sum);                                         \
    }
#define SOFTMAX_TYPES(X) X(RT_F16, struct kn_half) X(RT_F32, float) X(RT_F64, double)
SOFTMAX_TYPES(SOFTMAX)

static void softmax(enum rt_dtype dtype, const struct kn_coo_place *p, int64_t n, const void *src,
                    void *dst, int64_t to)
{
    switch (dtype) {
#define CASE(dt, T)                                                                                \
    case dt:                                                                                       \
        softmax_##dt(p, n, src, (T *)dst + to);                                                    \
        break;
        SOFTMAX_TYPES(CASE)
#undef CASE
    default:
        break;
    }
}

static enum rt_status softmax_run(struct rt_run *r)
{
    const struct kn_coo s = kn_coo_of(&r->in[0], &r->in[1], &r->in[2]);
    int64_t left = RT_WORK;
    enum rt_status st = check_parts(r, &s);

    if (!st && s.shape->dim[0] < 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input should have rank >= 2, but received rank: %lld",
                       (long long)s.shape->dim[0]);
    if (!st && s.n != s.values->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "indices and values rows (indexing dimension) must match. (indices = %lld, "
                       "values = %lld)",
                       (long long)s.n, (long long)s.values->dim[0]);
    if (!st && s.rank != s.shape->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Order length must be SparseTensor rank.");
    st = st ? st : kn_coo_check_shape(r, s.dim, s.rank);
    struct kn_coo_place *place = st ? NULL : kn_coo_sort(r, s.at, s.n, s.rank, NULL);
    void *out = place ? rt_out(r, 0, 1, &s.n) : NULL;
    if (!out)
        return r->err->code;
    for (int64_t i = 0, end = 0; i < s.n && !st; i = end) {
        for (end = i + 1; end < s.n && !st; end++) {
            if (kn_coo_compare(place[i].row, place[end].row, s.rank - 1))
                break;
            st = rt_run_spend(r, &left, 8 * s.rank);
        }
        softmax(kn_dtype(s.values), place + i, end - i, s.values->data, out, i);
        st = st ? st : rt_run_spend(r, &left, 64 * (end - i));
    }
    return st;
}

const struct kn_entry kn_sparse_softmax = {
    .op = {.name = "SparseSoftmax"},
    .kernels = KN_CPU("SparseSoftmax", "sparse_softmax", KN_SET(SOFTMAX_TYPES), NULL, softmax_run),
};
