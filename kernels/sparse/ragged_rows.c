/*
 * The ops RaggedRange and RaggedGather. The row splits of a ragged dimension have one more element
 * than there are rows. Row i consists of the values from splits[i] up to splits[i + 1].
 */
#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

#include <math.h>

/* Returns the largest number that row splits of this type can hold. */
static int64_t splits_limit(enum rt_dtype dtype)
{
    return dtype == RT_I32 ? INT32_MAX : INT64_MAX;
}

/* ---- RaggedRange ---- */

/* Returns the length of a range of integers, saturated. */
static int64_t count_ints(int64_t start, int64_t limit, int64_t delta)
{
    const uint64_t step = delta < 0 ? 0 - (uint64_t)delta : (uint64_t)delta;
    const uint64_t span =
        delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;

    if (delta > 0 ? limit < start : limit > start)
        return 0;
    const uint64_t n = span / step + (span % step != 0);
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

/* Defines the functions for one type. length_<type> sets *n to the length of a range, and returns
 * false if the length is NaN or above `most`. range_<type> writes the next n numbers of a range. */
#define RANGES(dt, T, FITS, COUNT)                                                                 \
    static bool length_##dt(T start, T limit, T delta, int64_t most, int64_t *n)                   \
    {                                                                                              \
        FITS(T, COUNT)                                                                             \
    }                                                                                              \
    static void range_##dt(T *dst, int64_t n, T *at, T delta)                                      \
    {                                                                                              \
        T v = *at;                                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                          \
            dst[i] = v;                                                                            \
            v = (T)((KN_U(dt))v + (KN_U(dt))delta);                                                \
        }                                                                                          \
        *at = v;                                                                                   \
    }
#define INTS(T, COUNT)                                                                             \
    *n = COUNT(start, limit, delta);                                                               \
    return *n <= most && *n < INT64_MAX;
#define FLOATS(T, COUNT)                                                                           \
    T count = 0;                                                                                   \
    if (delta > 0 ? !(limit < start) : delta < 0 ? !(limit > start) : true)                        \
        count = COUNT((limit - start) / delta);                                                    \
    *n = rt_int64_of((double)count);                                                               \
    return count <= (T)most && *n >= 0 && *n <= most;
#define CEIL_ABS(v)  ceil(fabs(v))
#define CEIL_ABSF(v) ceilf(fabsf(v))
RANGES(RT_I32, int32_t, INTS, count_ints)
RANGES(RT_I64, int64_t, INTS, count_ints)
RANGES(RT_F32, float, FLOATS, CEIL_ABSF)
RANGES(RT_F64, double, FLOATS, CEIL_ABS)
#define RANGE_TYPES(X) X(RT_I32, int32_t) X(RT_I64, int64_t) X(RT_F32, float) X(RT_F64, double)

/* Computes the length of row i. Returns false if the length exceeds `most`. If delta is 0, sets
 * *zero and returns false. */
static bool row_length(struct rt_run *r, int64_t i, int64_t most, int64_t *n, bool *zero)
{
    const int64_t at[3] = {r->in[0].rank ? i : 0, r->in[1].rank ? i : 0, r->in[2].rank ? i : 0};

    switch (kn_dtype(&r->in[0])) {
#define ROW(dt, T)                                                                                 \
    case dt: {                                                                                     \
        const T delta = ((const T *)r->in[2].data)[at[2]];                                         \
        *zero = delta == 0;                                                                        \
        return !*zero && length_##dt(((const T *)r->in[0].data)[at[0]],                            \
                                     ((const T *)r->in[1].data)[at[1]], delta, most, n);           \
    }
        RANGE_TYPES(ROW)
#undef ROW
    default:
        return false;
    }
}

static enum rt_status write_row(struct rt_run *r, int64_t i, void *out, int64_t from, int64_t n,
                                int64_t *left)
{
    enum { SOME = 1 << 18 };
    const int64_t first = r->in[0].rank ? i : 0, step = r->in[2].rank ? i : 0;

    switch (kn_dtype(&r->in[0])) {
#define ROW(dt, T)                                                                                 \
    case dt: {                                                                                     \
        T at = ((const T *)r->in[0].data)[first];                                                  \
        for (int64_t k = 0; k < n; k += SOME) {                                                    \
            const int64_t some = n - k < SOME ? n - k : SOME;                                      \
            range_##dt((T *)out + from + k, some, &at, ((const T *)r->in[2].data)[step]);          \
            if (rt_run_spend(r, left, 4 * some))                                                   \
                return r->err->code;                                                               \
        }                                                                                          \
        break;                                                                                     \
    }
        RANGE_TYPES(ROW)
#undef ROW
    default:
        break;
    }
    return rt_run_spend(r, left, 16);
}

/* Determines the number of rows. All inputs that are vectors must have the same length. */
static enum rt_status range_rows(struct rt_run *r, int64_t *rows)
{
    static const char *const name[] = {"starts", "limits", "deltas"};
    int64_t n = -1;

    for (int k = 0; k < 3; k++)
        if (r->in[k].rank > 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s must be a scalar or vector", name[k]);
    for (int k = 0; k < 3; k++) {
        if (r->in[k].rank == 0)
            continue;
        if (n >= 0 && n != r->in[k].dim[0])
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "starts, limits, and deltas must have the same shape");
        n = r->in[k].dim[0];
    }
    *rows = n < 0 ? 1 : n;
    return RT_OK;
}

static enum rt_status range_run(struct rt_run *r)
{
    const int64_t most = splits_limit(rt_attr_dtype(r->node, "Tsplits"));
    int64_t rows = 0, total = 0, n = 0, left = RT_WORK;
    bool zero = false;
    enum rt_status st = range_rows(r, &rows);
    void *splits = st ? NULL : rt_out(r, 0, 1, (int64_t[]){rows + 1});

    if (!splits)
        return r->err->code;
    kn_put_int(&r->out[0], 0, 0);
    for (int64_t i = 0; i < rows; i++) {
        if (!row_length(r, i, most, &n, &zero))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           zero ? "Requires delta != 0"
                                : "Requires ((limit - start) / delta) <= %lld",
                           (long long)most);
        if (n > most - total)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "The total range size overflowed. Consider using int64 instead of int32 "
                           "for row_splits_dtype.");
        total += n;
        kn_put_int(&r->out[0], i + 1, total);
        if (rt_run_spend(r, &left, 32))
            return r->err->code;
    }
    void *out = rt_out(r, 1, 1, &total);
    for (int64_t i = 0, from = 0; i < rows && out && !st; i++, from += n) {
        n = kn_int_at(&r->out[0], i + 1) - kn_int_at(&r->out[0], i);
        st = write_row(r, i, out, from, n, &left);
    }
    return out ? st : r->err->code;
}

const struct kn_entry kn_ragged_range = {
    .op = {.name = "RaggedRange"},
    .kernels = KN_CPU("RaggedRange", "ragged_range", KN_SET(RANGE_TYPES), NULL, range_run),
};

/* ---- RaggedGather ---- */

struct gather {
    struct rt_run *r;
    const struct rt_tensor *values, *indices;
    /* number of ragged dimensions of params, and number of dimensions that the indices add */
    int levels, outer;
    int64_t n, limit; /* number of indices, and the largest number that a split may hold */
    /* The range of rows or values that each index selects in the current dimension. */
    int64_t *from, *to;
    int64_t left;
};

/* Checks the row splits of one dimension. `n_values` is the number of values in all rows. */
static enum rt_status check_level(struct gather *g, const struct rt_tensor *t, int64_t n_values)
{
    const int64_t n = rt_tensor_count(t);

    if (n == 0)
        return rt_fail(g->r->err, RT_INVALID_ARGUMENT, "Ragged splits may not be empty");
    if (kn_int_at(t, 0) < 0)
        return rt_fail(g->r->err, RT_INVALID_ARGUMENT, "Ragged splits must be non-negative");
    if (kn_int_at(t, n - 1) > n_values)
        return rt_fail(g->r->err, RT_INVALID_ARGUMENT, "Ragged splits must not point past values");
    for (int64_t i = 1; i < n; i++) {
        if (kn_int_at(t, i - 1) > kn_int_at(t, i))
            return rt_fail(g->r->err, RT_INVALID_ARGUMENT, "Ragged splits must be sorted");
        if (rt_run_spend(g->r, &g->left, 4))
            return g->r->err->code;
    }
    return RT_OK;
}

static enum rt_status check_indices(struct gather *g)
{
    const int64_t rows = g->r->in[0].dim[0] - 1;
    char place[KN_SHAPE_TEXT];

    for (int64_t i = 0; i < g->n; i++) {
        const int64_t v = kn_int_at(g->indices, i);
        if (v < 0 || v >= rows)
            return rt_fail(g->r->err, RT_INVALID_ARGUMENT, "indices%s = %lld is not in [0, %lld)",
                           kn_place_text(place, sizeof place, g->indices, i), (long long)v,
                           (long long)rows);
        if (rt_run_spend(g->r, &g->left, 4))
            return g->r->err->code;
    }
    return RT_OK;
}

static enum rt_status gather_checks(struct gather *g)
{
    struct rt_run *r = g->r;
    enum rt_status st = RT_OK;

    if (r->in[0].rank == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Split tensors must not be scalars");
    if (g->levels + g->indices->rank - 1 != rt_attr_int(r->node, "OUTPUT_RAGGED_RANK"))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "OUTPUT_RAGGED_RANK must be PARAMS_RAGGED_RANK + indices.rank - 1 = %d",
                       g->levels + g->indices->rank - 1);
    st = check_indices(g);
    if (!st && g->values->rank == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "params.rank must be nonzero");
    for (int k = 0; k < g->levels && !st; k++) {
        const int64_t next = k + 1 < g->levels ? rt_tensor_count(&r->in[k + 1]) : 0;
        st = check_level(g, &r->in[k],
                         k + 1 == g->levels ? g->values->dim[0]
                         : next             ? next - 1
                                            : 0);
    }
    return st;
}

static enum rt_status fail_count(struct gather *g)
{
    return rt_fail(g->r->err, RT_INVALID_ARGUMENT, "the number of gathered values is too large");
}

/* Writes the row splits of the dimensions that the indices add. All rows of such a dimension have
 * the same length. */
static enum rt_status write_outer(struct gather *g)
{
    int64_t rows = 1;

    for (int d = 0; d < g->outer; d++) {
        const int64_t length = g->indices->dim[d + 1];
        rows *= g->indices->dim[d];
        if (!rt_out(g->r, d, 1, (int64_t[]){rows + 1}))
            return g->r->err->code;
        if (rows > 0 && length > g->limit / rows)
            return fail_count(g);
        for (int64_t i = 0; i <= rows; i++) {
            kn_put_int(&g->r->out[d], i, i * length);
            if (rt_run_spend(g->r, &g->left, 4))
                return g->r->err->code;
        }
    }
    return RT_OK;
}

/* Returns the number of rows or values that the indices select in the current dimension, or -1 if
 * the number is too large for row splits. */
static int64_t count_selected(const struct gather *g)
{
    int64_t n = 0;

    for (int64_t i = 0; i < g->n; i++)
        if (!rt_add(n, g->to[i] - g->from[i], &n))
            return -1;
    return n <= g->limit ? n : -1;
}

/* Writes the row splits of output k for the selected rows of dimension `level`. */
static enum rt_status write_splits(struct gather *g, int k, int level)
{
    const struct rt_tensor *splits = &g->r->in[level];
    const int64_t rows = count_selected(g);
    int64_t end = 0, at = 0;

    if (rows < 0)
        return fail_count(g);
    if (!rt_out(g->r, k, 1, (int64_t[]){rows + 1}))
        return g->r->err->code;
    kn_put_int(&g->r->out[k], 0, 0);
    for (int64_t i = 0; i < g->n; i++) {
        for (int64_t j = g->from[i]; j < g->to[i]; j++) {
            if (!rt_add(end, kn_int_at(splits, j + 1) - kn_int_at(splits, j), &end) ||
                end > g->limit)
                return fail_count(g);
            kn_put_int(&g->r->out[k], ++at, end);
            if (rt_run_spend(g->r, &g->left, 8))
                return g->r->err->code;
        }
        if (rt_run_spend(g->r, &g->left, 4))
            return g->r->err->code;
    }
    return RT_OK;
}

static enum rt_status write_values(struct gather *g)
{
    const enum rt_dtype dtype = kn_dtype(g->values);
    const int64_t block = rt_count(g->values->rank - 1, g->values->dim + 1);
    const int64_t work = rt_dtype_is_plain(dtype) ? 1 : 128;
    int64_t dim[RT_MAX_RANK], to = 0;

    memcpy(dim, g->values->dim, sizeof dim);
    dim[0] = count_selected(g);
    if (dim[0] < 0)
        return fail_count(g);
    void *out = rt_out(g->r, g->r->n_out - 1, g->values->rank, dim);
    if (!out)
        return g->r->err->code;
    for (int64_t i = 0; i < g->n; i++) {
        const int64_t n = (g->to[i] - g->from[i]) * block;
        if (n && kn_copy_run(g->r, dtype, (char *)out + (size_t)to * rt_dtype_size(dtype),
                             kn_at(g->values, g->from[i] * block), n))
            return g->r->err->code;
        to += n;
        if (rt_run_spend(g->r, &g->left, rt_add_saturated(16, rt_mul_saturated(work, n))))
            return g->r->err->code;
    }
    return RT_OK;
}

static enum rt_status gather_run(struct rt_run *r)
{
    struct gather g = {.r = r, .left = RT_WORK};

    g.levels = (int)rt_attr_int(r->node, "PARAMS_RAGGED_RANK");
    g.values = &r->in[g.levels];
    g.indices = &r->in[g.levels + 1];
    g.outer = g.indices->rank > 0 ? g.indices->rank - 1 : 0;
    g.n = rt_tensor_count(g.indices);
    g.limit = splits_limit(kn_dtype(&r->in[0]));
    enum rt_status st = gather_checks(&g);
    g.from = st ? NULL : rt_scratch(r, ((size_t)g.n + 1) * 2 * sizeof *g.from);
    if (!g.from)
        return r->err->code;
    g.to = g.from + g.n;
    for (int64_t i = 0; i < g.n; i++) {
        g.from[i] = kn_int_at(g.indices, i);
        g.to[i] = g.from[i] + 1;
    }
    st = write_outer(&g);
    for (int k = 0; k < g.levels && !st; k++) {
        /* A scalar index selects the values of one row, so the first dimension disappears. */
        const int out = g.outer + k - (g.indices->rank == 0);
        st = out >= 0 ? write_splits(&g, out, k) : RT_OK;
        for (int64_t i = 0; i < g.n && !st; i++) {
            g.from[i] = kn_int_at(&r->in[k], g.from[i]);
            g.to[i] = kn_int_at(&r->in[k], g.to[i]);
            st = rt_run_tick(r, i);
        }
    }
    return st ? st : write_values(&g);
}

const struct kn_entry kn_ragged_gather = {
    .op = {.name = "RaggedGather"},
    .kernels = KN_CPU("RaggedGather", "ragged_gather", 0, NULL, gather_run),
};
