/*
 * The ops SparseAdd, SparseSparseMaximum and SparseSparseMinimum merge the values of two sparse
 * tensors by their indices, which should be sorted. As in TensorFlow, unsorted indices are merged
 * as if they were sorted, so that the result may contain an index twice.
 */
#include "kernels/sparse/coo.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

#include <complex.h>
#include <math.h>

/* The positions of an output value in both operands. A position is -1 if the operand lacks the
 * index. */
struct pair {
    int64_t a, b;
};

/* Merges the indices of both operands into `pair`, which has space for all of them. Returns the
 * number of pairs, or -1 if the run has been cancelled or its deadline has passed. */
static int64_t merge(struct rt_run *r, const struct kn_coo *a, const struct kn_coo *b,
                     struct pair *pair)
{
    int64_t i = 0, j = 0, n = 0, left = RT_WORK;

    while (i < a->n || j < b->n) {
        const int order = i == a->n ? 1
                          : j == b->n
                              ? -1
                              : kn_coo_compare(a->at + i * a->rank, b->at + j * b->rank, a->rank);
        pair[n++] = (struct pair){order <= 0 ? i++ : -1, order >= 0 ? j++ : -1};
        if (rt_run_spend(r, &left, 8 + a->rank))
            return -1;
    }
    return n;
}

static struct pair *pairs_of(struct rt_run *r, const struct kn_coo *a, const struct kn_coo *b,
                             int64_t *n)
{
    struct pair *pair = rt_scratch(r, ((size_t)a->n + (size_t)b->n + 1) * sizeof *pair);

    *n = pair ? merge(r, a, b, pair) : -1;
    return *n < 0 ? NULL : pair;
}

static enum rt_status write_indices(struct rt_run *r, const struct kn_coo *a,
                                    const struct kn_coo *b, const struct pair *pair, int64_t n)
{
    int64_t *out = rt_out(r, 0, 2, (int64_t[]){n, a->rank}), left = RT_WORK;

    if (!out)
        return r->err->code;
    for (int64_t i = 0; i < n; i++, out += a->rank) {
        const int64_t *row =
            pair[i].a >= 0 ? a->at + pair[i].a * a->rank : b->at + pair[i].b * a->rank;
        memcpy(out, row, (size_t)a->rank * sizeof *out);
        if (rt_run_spend(r, &left, 8 + a->rank))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status same_shapes(struct rt_run *r, const struct kn_coo *a, const struct kn_coo *b)
{
    const int64_t rank = a->shape->dim[0];

    if (rank != b->shape->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Operands do not have the same ranks; got shapes of rank %lld and %lld",
                       (long long)rank, (long long)b->shape->dim[0]);
    for (int64_t d = 0; d < rank; d++)
        if (a->dim[d] != b->dim[d])
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Operands' shapes do not match: got %lld and %lld for dimension %lld",
                           (long long)a->dim[d], (long long)b->dim[d], (long long)d);
    return RT_OK;
}

/* The number of pairs that are processed between two deadline checks. */
enum { SOME = 1 << 14 };

/* ---- SparseAdd ---- */

static enum rt_status add_ranks(struct rt_run *r, const struct kn_coo *a, const struct kn_coo *b)
{
    if (a->indices->rank != 2 || b->indices->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input indices should be matrices but received shapes: %s and %s",
                       KN_TEXT(a->indices), KN_TEXT(b->indices));
    if (a->values->rank != 1 || b->values->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input values should be vectors but received shapes: %s and %s",
                       KN_TEXT(a->values), KN_TEXT(b->values));
    if (a->values->dim[0] != a->n || b->values->dim[0] != b->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected %lld and %lld non-empty input values, got %lld and %lld",
                       (long long)a->n, (long long)b->n, (long long)a->values->dim[0],
                       (long long)b->values->dim[0]);
    if (a->shape->rank != 1 || b->shape->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input shapes should be a vector but received shapes %s and %s",
                       KN_TEXT(a->shape), KN_TEXT(b->shape));
    return RT_OK;
}

static enum rt_status add_checks(struct rt_run *r, const struct kn_coo *a, const struct kn_coo *b)
{
    enum rt_status st = add_ranks(r, a, b);

    st = st ? st : same_shapes(r, a, b);
    if (st)
        return st;
    if (r->in[6].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The magnitude threshold must be a scalar: got shape %s",
                       KN_TEXT(&r->in[6]));
    if (a->rank != b->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input indices must have the same dimension, got %lld and %lld",
                       (long long)a->rank, (long long)b->rank);
    if (a->rank != a->shape->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Second dimension of a_indices and length of a_shape must match, got %lld "
                       "and %lld",
                       (long long)a->rank, (long long)a->shape->dim[0]);
    if (a->rank == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Tesors must not be empty");
    return RT_OK;
}

/* As in TensorFlow, the magnitude of the smallest int32 or int64 is itself. The magnitude of a
 * shorter integer is an int. */
static int32_t magnitude_int(int32_t v)
{
    return v < 0 ? (int32_t)(0 - (uint32_t)v) : v;
}
static int64_t magnitude_long(int64_t v)
{
    return v < 0 ? (int64_t)(0 - (uint64_t)v) : v;
}

/* X(dtype, C type, dtype and C type of the threshold, function for the magnitude) */
#define ADD_TYPES(X)                                                                               \
    X(RT_I8, int8_t, RT_I8, int8_t, magnitude_int)                                                 \
    X(RT_I16, int16_t, RT_I16, int16_t, magnitude_int)                                             \
    X(RT_I32, int32_t, RT_I32, int32_t, magnitude_int)                                             \
    X(RT_I64, int64_t, RT_I64, int64_t, magnitude_long)                                            \
    X(RT_F32, float, RT_F32, float, fabsf)                                                         \
    X(RT_F64, double, RT_F64, double, fabs)                                                        \
    X(RT_C64, float _Complex, RT_F32, float, cabsf)                                                \
    X(RT_C128, double _Complex, RT_F64, double, cabs)

/*
 * Defines the functions for one type. add_<type> computes the output. keep_<type> decides
 * which of the pairs from `from` up to `end` belong to the output. It moves these pairs to position
 * n, and returns the new n. Only sums are compared with the threshold. As in TensorFlow, a value
 * that only one operand has is always kept.
 */
#define ADD(dt, T, real, R, MAGNITUDE)                                                             \
    static T sum_##dt(T a, T b)                                                                    \
    {                                                                                              \
        return KN_PUT(dt, (KN_U(dt))a + (KN_U(dt))b);                                              \
    }                                                                                              \
    static int64_t keep_##dt(const T *a, const T *b, R least, struct pair *p, int64_t from,        \
                             int64_t end, int64_t n)                                               \
    {                                                                                              \
        for (int64_t i = from; i < end; i++)                                                       \
            if (p[i].a < 0 || p[i].b < 0 || least <= MAGNITUDE(sum_##dt(a[p[i].a], b[p[i].b])))    \
                p[n++] = p[i];                                                                     \
        return n;                                                                                  \
    }                                                                                              \
    static void add_##dt(const T *a, const T *b, const struct pair *p, int64_t n, T *out)          \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            out[i] = p[i].a < 0   ? b[p[i].b]                                                      \
                     : p[i].b < 0 ? a[p[i].a]                                                      \
                                  : sum_##dt(a[p[i].a], b[p[i].b]);                                \
    }
ADD_TYPES(ADD)

static int64_t keep(struct rt_run *r, struct pair *p, int64_t from, int64_t end, int64_t n)
{
    const void *a = r->in[1].data, *b = r->in[4].data, *least = r->in[6].data;

    switch (kn_dtype(&r->in[1])) {
#define KEEP(dt, T, real, R, MAGNITUDE)                                                            \
    case dt:                                                                                       \
        return keep_##dt(a, b, *(const R *)least, p, from, end, n);
        ADD_TYPES(KEEP)
    default:
        return n;
    }
}

static void add(struct rt_run *r, const struct pair *p, int64_t from, int64_t n, void *out)
{
    const void *a = r->in[1].data, *b = r->in[4].data;

    switch (kn_dtype(&r->in[1])) {
#define SUM(dt, T, real, R, MAGNITUDE)                                                             \
    case dt:                                                                                       \
        add_##dt(a, b, p + from, n, (T *)out + from);                                              \
        break;
        ADD_TYPES(SUM)
    default:
        break;
    }
}

static enum rt_status add_run(struct rt_run *r)
{
    const struct kn_coo a = kn_coo_of(&r->in[0], &r->in[1], &r->in[2]);
    const struct kn_coo b = kn_coo_of(&r->in[3], &r->in[4], &r->in[5]);
    int64_t n = 0, kept = 0;
    struct pair *pair = add_checks(r, &a, &b) ? NULL : pairs_of(r, &a, &b, &n);

    if (!pair)
        return r->err->code;
    for (int64_t i = 0; i < n; i += SOME) {
        kept = keep(r, pair, i, n - i < SOME ? n : i + SOME, kept);
        if (rt_run_check(r))
            return r->err->code;
    }
    enum rt_status st = write_indices(r, &a, &b, pair, kept);
    void *out = st ? NULL : rt_out(r, 1, 1, &kept);
    int64_t *dim = out ? rt_out(r, 2, 1, a.shape->dim) : NULL;
    if (!dim)
        return r->err->code;
    memcpy(dim, a.dim, (size_t)a.rank * sizeof *dim);
    for (int64_t i = 0; i < kept && !st; i += SOME) {
        add(r, pair, i, kept - i < SOME ? kept - i : SOME, out);
        st = rt_run_check(r);
    }
    return st;
}

#define ADD_KERNEL(dt, T, real, R, MAGNITUDE)                                                      \
    KN_CPU_PAIR("SparseAdd", "sparse_add." #dt, dt, "Treal", real, NULL, add_run),
const struct kn_entry kn_sparse_add = {
    .op = {.name = "SparseAdd"},
    .kernels = (const struct rt_kernel[]){ADD_TYPES(ADD_KERNEL){.op = NULL}},
};

/* ---- SparseSparseMaximum, SparseSparseMinimum ---- */

/* A value that only one operand has is compared with 0. If either operand is NaN, the result is
 * NaN. If the values are equal, the result is that of the first operand. */
#define EXTREME(dt, T, NAME, BEATS)                                                                \
    static void NAME##_##dt(const T *a, const T *b, const struct pair *p, int64_t n, T *out)       \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const KN_C(dt) x = p[i].a < 0 ? 0 : KN_GET(dt, a[p[i].a]);                             \
            const KN_C(dt) y = p[i].b < 0 ? 0 : KN_GET(dt, b[p[i].b]);                             \
            out[i] = KN_PUT(dt, y BEATS x || y != y ? (x != x ? x : y) : x);                       \
        }                                                                                          \
    }
#define MAXIMUM(dt, T) EXTREME(dt, T, maximum, >)
#define MINIMUM(dt, T) EXTREME(dt, T, minimum, <)
KN_REALS(MAXIMUM)
KN_REALS(MINIMUM)

static void extreme(struct rt_run *r, bool is_max, const struct pair *p, int64_t from, int64_t n,
                    void *out)
{
    const void *a = r->in[1].data, *b = r->in[4].data;

    switch (kn_dtype(&r->in[1])) {
#define CASE(dt, T)                                                                                \
    case dt:                                                                                       \
        (is_max ? maximum_##dt : minimum_##dt)(a, b, p + from, n, (T *)out + from);                \
        break;
        KN_REALS(CASE)
#undef CASE
    default:
        break;
    }
}

static enum rt_status extreme_run(struct rt_run *r, bool is_max)
{
    const struct kn_coo a = kn_coo_of(&r->in[0], &r->in[1], &r->in[2]);
    const struct kn_coo b = kn_coo_of(&r->in[3], &r->in[4], &r->in[5]);
    enum rt_status st = kn_coo_check(r, &a);
    int64_t n = 0;

    st = st ? st : kn_coo_check(r, &b);
    st = st ? st : same_shapes(r, &a, &b);
    if (!st && a.rank == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Tensors must not be empty");
    st = st ? st : kn_coo_check_inside(r, &a);
    st = st ? st : kn_coo_check_inside(r, &b);
    struct pair *pair = st ? NULL : pairs_of(r, &a, &b, &n);
    if (!pair || write_indices(r, &a, &b, pair, n))
        return r->err->code;
    void *out = rt_out(r, 1, 1, &n);
    if (!out)
        return r->err->code;
    for (int64_t i = 0; i < n && !st; i += SOME) {
        extreme(r, is_max, pair, i, n - i < SOME ? n - i : SOME, out);
        st = rt_run_check(r);
    }
    return st;
}

static enum rt_status maximum_run(struct rt_run *r)
{
    return extreme_run(r, true);
}
static enum rt_status minimum_run(struct rt_run *r)
{
    return extreme_run(r, false);
}

const struct kn_entry kn_sparse_sparse_maximum = {
    .op = {.name = "SparseSparseMaximum"},
    .kernels =
        KN_CPU("SparseSparseMaximum", "sparse_sparse_maximum", KN_SET(KN_REALS), NULL, maximum_run),
};
const struct kn_entry kn_sparse_sparse_minimum = {
    .op = {.name = "SparseSparseMinimum"},
    .kernels =
        KN_CPU("SparseSparseMinimum", "sparse_sparse_minimum", KN_SET(KN_REALS), NULL, minimum_run),
};
