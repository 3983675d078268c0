/*
 * Ops that count: SparseBincount and RaggedBincount, whose results are dense, and
 * DenseCountSparseOutput, SparseCountSparseOutput and RaggedCountSparseOutput, whose results are
 * sparse. Each row of the result counts the values of one row of the input.
 */
#include <stdio.h>

#include "kernels/array/sort.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/sparse/coo.h"
#include "runtime/base/checked.h"

#define KN_FOR_COUNTS(M, ...)                                                                      \
    M(RT_F32, float, __VA_ARGS__)                                                                  \
    M(RT_F64, double, __VA_ARGS__)                                                                 \
    M(RT_I32, int32_t, __VA_ARGS__)                                                                \
    M(RT_I64, int64_t, __VA_ARGS__)
#define COUNTS(X) KN_FOR_COUNTS(KN_ROW_X, X)

/* Adds a weight, or 1 if there is none, to a count. A binary count needs no weight, so there may be
 * fewer weights than values. */
#define ADD(dt, T)                                                                                 \
    static void add_##dt(void *count, const void *weight, int64_t i, bool binary)                  \
    {                                                                                              \
        T *c = count;                                                                              \
        if (binary)                                                                                \
            *c = 1;                                                                                \
        else                                                                                       \
            *c = (T)((KN_U(dt)) * c + (KN_U(dt))(weight ? ((const T *)weight)[i] : 1));            \
    }
COUNTS(ADD)

typedef void add_fn(void *count, const void *weight, int64_t i, bool binary);

static add_fn *add_of(enum rt_dtype dtype)
{
    switch (dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        return add_##dt;
        COUNTS(X)
#undef X
    default:
        return NULL;
    }
}

static const void *weights_of(const struct rt_tensor *t)
{
    return rt_tensor_count(t) ? t->data : NULL;
}

/* ---- the row of a value ---- */

enum form { DENSE, SPARSE, RAGGED };

/* The rows of the input. `splits` is set for RAGGED. `at`, the indices of a sparse tensor, is
 * set for SPARSE. */
struct rows {
    enum form form;
    const int64_t *splits, *at;
    int64_t rank; /* rank of the sparse tensor */
    int64_t each; /* number of values in a row of a dense tensor */
    int64_t now;
};

/* Returns the row of value i. Values are visited in order. As in TensorFlow, splits need not
 * increase. */
static int64_t row_at(struct rows *s, int64_t i)
{
    if (s->form == DENSE)
        return s->each ? i / s->each : 0;
    if (s->form == SPARSE)
        return s->rank > 1 ? s->at[i * s->rank] : 0;
    while (i >= s->splits[s->now])
        s->now++;
    return s->now - 1;
}

/* Checks that the splits of ragged rows begin with 0 and end with the number of values, so that
 * row_at finds a row for each value. */
static enum rt_status check_splits(struct rt_run *r, const struct rt_tensor *splits, int64_t n)
{
    const int64_t *at = splits->data, last = rt_tensor_count(splits) - 1;

    if (at[0] != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Splits must start with 0, not with %lld",
                       (long long)at[0]);
    if (at[last] != n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Splits must end with the number of values, got %lld instead of %lld",
                       (long long)at[last], (long long)n);
    return RT_OK;
}

/* ---- dense results ---- */

static enum rt_status bins_of(struct rt_run *r, int k, int64_t *bins)
{
    if (r->in[k].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Shape must be rank 0 but is rank %d",
                       r->in[k].rank);
    *bins = kn_int_at(&r->in[k], 0);
    if (*bins < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "size (%lld) must be non-negative",
                       (long long)*bins);
    return RT_OK;
}

static enum rt_status bincount(struct rt_run *r, struct rows *rows, const struct rt_tensor *values,
                               int64_t bins)
{
    const struct rt_tensor *weights = &r->in[r->n_in - 1];
    const bool binary = rt_attr_bool(r->node, "binary_output");
    const size_t size = rt_dtype_size(kn_dtype(&r->out[0]));
    const int64_t n = rt_tensor_count(values), n_weights = rt_tensor_count(weights);
    const int64_t end = binary || !n_weights ? n : n_weights; /* the first value without a weight */
    add_fn *const add = add_of(kn_dtype(&r->out[0]));

    if (kn_zero_chunks(r, r->out[0].data, rt_tensor_bytes(&r->out[0])))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        const int64_t v = kn_int_at(values, i), row = row_at(rows, i);
        if (v < 0 && rows->form == RAGGED)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input must be non-negative");
        if (v >= 0 && v < bins) {
            if (i >= end)
                return rt_fail(r->err, RT_INVALID_ARGUMENT,
                               "%s: there are %lld weights for %lld values", r->node->schema->name,
                               (long long)n_weights, (long long)n);
            add((char *)r->out[0].data + (size_t)(row * bins + v) * size, weights_of(weights), i,
                binary);
        }
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

/* Checks what TensorFlow checks for sparse vectors alone. */
static enum rt_status check_vector(struct rt_run *r)
{
    const struct rt_tensor *values = &r->in[1], *weights = &r->in[4];
    const int64_t n = rt_tensor_count(values), n_weights = rt_tensor_count(weights);

    for (int64_t i = 0; i < n; i++) {
        if (kn_int_at(values, i) < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input arr must be non-negative!");
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    if (n_weights && n_weights != n && !rt_attr_bool(r->node, "binary_output"))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input indices and weights must have the same size.");
    return RT_OK;
}

static enum rt_status sparse_bincount_run(struct rt_run *r)
{
    const struct kn_coo c = kn_coo_of(&r->in[0], &r->in[1], &r->in[2]);
    struct rows rows = {.form = SPARSE, .at = c.at, .rank = c.rank};
    int64_t bins = 0;
    enum rt_status st = bins_of(r, 3, &bins);

    st = st ? st : kn_coo_check(r, &c);
    st = st ? st : kn_coo_check_inside(r, &c);
    st = st ? st : kn_coo_check_shape(r, c.dim, c.rank);
    st = st || c.rank > 1 ? st : check_vector(r);
    if (st)
        return st;
    const int64_t dim[2] = {c.rank > 1 ? c.dim[0] : bins, bins};
    return rt_out(r, 0, c.rank > 1 ? 2 : 1, dim) ? bincount(r, &rows, &r->in[1], bins)
                                                 : r->err->code;
}

static enum rt_status ragged_bincount_run(struct rt_run *r)
{
    const int64_t n_splits = rt_tensor_count(&r->in[0]);
    struct rows rows = {.form = RAGGED, .splits = r->in[0].data};
    int64_t bins = 0;
    enum rt_status st = bins_of(r, 2, &bins);

    if (!st && n_splits == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Splits must be non-empty");
    st = st ? st : check_splits(r, &r->in[0], rt_tensor_count(&r->in[1]));
    if (st)
        return st;
    return rt_out(r, 0, 2, (int64_t[]){n_splits - 1, bins}) ? bincount(r, &rows, &r->in[1], bins)
                                                            : r->err->code;
}

/* ---- sparse results ---- */

/* A value to be counted, its row, and its position in the input. */
struct found {
    int64_t row, value, at;
};

static int by_row_and_value(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static bool is_same_bin(const struct found *a, const struct found *b)
{
    return a->row == b->row && a->value == b->value;
}

/* Writes one count for each distinct pair of row and value in the sorted list. */
static enum rt_status write_counts(struct rt_run *r, const struct found *f, int64_t n, int64_t rank,
                                   const int64_t *dim)
{
    const void *weights = weights_of(&r->in[r->n_in - 1]);
    const bool binary = rt_attr_bool(r->node, "binary_output");
    add_fn *const add = add_of(rt_attr_dtype(r->node, "output_type"));
    int64_t kept = 0, left = RT_WORK;

    for (int64_t i = 0; i < n; i++) {
        kept += i == 0 || !is_same_bin(&f[i - 1], &f[i]);
        if (rt_run_spend(r, &left, 4))
            return r->err->code;
    }
    int64_t *at = rt_out(r, 0, 2, (int64_t[]){kept, rank});
    char *count = at ? rt_out(r, 1, 1, &kept) : NULL;
    int64_t *shape = count ? rt_out(r, 2, 1, &rank) : NULL;
    if (!shape)
        return r->err->code;
    const size_t size = rt_dtype_size(kn_dtype(&r->out[1]));
    for (int64_t d = 0; d < rank; d++)
        shape[d] = dim[2 - rank + d];
    if (kn_zero_chunks(r, count, rt_tensor_bytes(&r->out[1])))
        return r->err->code;
    for (int64_t i = 0, k = -1; i < n; i++) {
        if (i == 0 || !is_same_bin(&f[i - 1], &f[i])) {
            k++;
            at[k * rank] = f[i].row;
            at[k * rank + rank - 1] = f[i].value;
        }
        add(count + (size_t)k * size, weights, f[i].at, binary);
        if (rt_run_spend(r, &left, 8))
            return r->err->code;
    }
    return RT_OK;
}

/* Counts the values of n_rows rows. The result has rank 1 or 2. */
static enum rt_status count_values(struct rt_run *r, struct rows *rows,
                                   const struct rt_tensor *values, int64_t n_rows, int64_t rank)
{
    const int64_t most = rt_attr_int(r->node, "maxlength");
    const int64_t least = rt_attr_int(r->node, "minlength"), n = rt_tensor_count(values);
    struct found *f = rt_scratch(r, ((size_t)n + 1) * sizeof *f);
    int64_t kept = 0, largest = 0, left = RT_WORK;

    if (!f)
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        const int64_t v = kn_int_at(values, i);
        if (v < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input values must all be non-negative");
        const int64_t row = row_at(rows, i);
        if (most < 0 || v < most)
            f[kept++] = (struct found){row, v, i};
        largest = v > largest ? v : largest;
        if (rt_run_spend(r, &left, 8))
            return r->err->code;
    }
    if (kn_sort(r, f, kept, sizeof *f, by_row_and_value))
        return r->err->code;
    const int64_t length = rt_add_wrapped(largest, 1);
    const int64_t dim[2] = {n_rows, most >= 0 ? most : length < least ? least : length};
    return write_counts(r, f, kept, rank, dim);
}

/* Checks that the weights have the shape of the values. Error messages call the values `name`. */
static enum rt_status check_weights(struct rt_run *r, const struct rt_tensor *values,
                                    const char *name, const char *what)
{
    const struct rt_tensor *w = &r->in[r->n_in - 1];
    bool same = w->rank == values->rank;

    for (int d = 0; d < w->rank && same; d++)
        same = w->dim[d] == values->dim[d];
    if (same || rt_tensor_count(w) == 0)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "Weights and %s must have the same shape. Weight shape: %s; %s shape: %s", name,
                   KN_TEXT(w), what, KN_TEXT(values));
}

static enum rt_status dense_count_run(struct rt_run *r)
{
    const struct rt_tensor *v = &r->in[0];
    struct rows rows = {.form = DENSE};

    if (v->rank != 1 && v->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input must be a 1 or 2-dimensional tensor. Got: %s", KN_TEXT(v));
    enum rt_status st = check_weights(r, v, "data", "data");
    if (st)
        return st;
    if (v->rank == 2 && v->dim[0] == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Invalid input: Shapes dimension cannot be 0.");
    rows.each = v->rank == 2 ? v->dim[1] : 0;
    return count_values(r, &rows, v, v->dim[0], v->rank);
}

static enum rt_status check_sparse(struct rt_run *r)
{
    const struct rt_tensor *at = &r->in[0], *v = &r->in[1], *shape = &r->in[2];
    enum rt_status st;

    if (at->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input indices must be a 2-dimensional tensor. Got: %s", KN_TEXT(at));
    if (v->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input values must be a vector. Got: %s",
                       KN_TEXT(v));
    if (shape->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input shape must be a vector. Got: %s",
                       KN_TEXT(shape));
    if (v->dim[0] != at->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Number of values must match first dimension of indices.Got %lld values, "
                       "indices shape: %s",
                       (long long)v->dim[0], KN_TEXT(at));
    if (shape->dim[0] != at->dim[1])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Number of dimensions must match second dimension of indices.Got %lld "
                       "dimensions, indices shape: %s",
                       (long long)shape->dim[0], KN_TEXT(at));
    if (shape->dim[0] == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The shape argument requires at least one element.");
    st = check_weights(r, v, "values", "values");
    return st;
}

/* Formats the dense shape for error messages in TensorFlow's format. */
static const char *shape_text(char *buf, size_t n, const struct kn_coo *c)
{
    size_t len =
        (size_t)snprintf(buf, n, "Tensor<type: int64 shape: [%lld] values: ", (long long)c->rank);

    for (int64_t d = 0; d < c->rank && d < 3 && len < n; d++)
        len += (size_t)snprintf(buf + len, n - len, "%s%lld", d ? " " : "", (long long)c->dim[d]);
    if (len < n)
        snprintf(buf + len, n - len, "%s>", c->rank > 3 ? "..." : "");
    return buf;
}

static enum rt_status sparse_count_run(struct rt_run *r)
{
    enum rt_status st = check_sparse(r);
    char text[KN_SHAPE_TEXT];

    if (st)
        return st;
    const struct kn_coo c = kn_coo_of(&r->in[0], &r->in[1], &r->in[2]);
    struct rows rows = {.form = SPARSE, .at = c.at, .rank = c.rank};
    for (int64_t i = 0; i < c.n; i++) {
        const int64_t *row = c.at + i * c.rank;
        for (int64_t d = 0; d < c.rank; d++)
            if (row[d] < 0 || row[d] >= c.dim[d])
                return rt_fail(r->err, RT_INVALID_ARGUMENT,
                               "Invalid index value at %lld: dimension %lld has value %lld which "
                               "is not in [0, %lld) (as given by dense shape %s",
                               (long long)i, (long long)d, (long long)row[d], (long long)c.dim[d],
                               shape_text(text, sizeof text, &c));
        if (rt_run_spend(r, &r->left, c.rank))
            return r->err->code;
    }
    if (c.rank > 1 && (c.dim[0] <= 0 || c.dim[0] > INT32_MAX))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Cannot allocate %d batches, is the dense shape too wide?",
                       (int)(uint32_t)c.dim[0]);
    return count_values(r, &rows, &r->in[1], c.dim[0], c.rank > 1 ? 2 : 1);
}

static enum rt_status ragged_count_run(struct rt_run *r)
{
    const int64_t n_splits = rt_tensor_count(&r->in[0]);
    struct rows rows = {.form = RAGGED, .splits = r->in[0].data};
    enum rt_status st = check_weights(r, &r->in[1], "values", "values");

    if (!st && n_splits < 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Must provide at least 2 elements for the splits argument");
    st = st ? st : check_splits(r, &r->in[0], rt_tensor_count(&r->in[1]));
    return st ? st : count_values(r, &rows, &r->in[1], n_splits - 1, 2);
}

#define COUNT(symbol, op_, type_attr_, types_, run_)                                               \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_)},                                                                     \
        .kernels = KN_KERNELS({.op = (op_),                                                        \
                               .device = "CPU",                                                    \
                               .name = #symbol,                                                    \
                               .type_attr = (type_attr_),                                          \
                               .types = (types_),                                                  \
                               .run = (run_)}),                                                    \
    };
COUNT(dense_count_sparse_output, "DenseCountSparseOutput", "output_type", KN_SET(COUNTS),
      dense_count_run)
COUNT(ragged_bincount, "RaggedBincount", "T", KN_SET(COUNTS), ragged_bincount_run)
COUNT(ragged_count_sparse_output, "RaggedCountSparseOutput", "output_type", KN_SET(COUNTS),
      ragged_count_run)
COUNT(sparse_bincount, "SparseBincount", "T", KN_SET(COUNTS), sparse_bincount_run)
COUNT(sparse_count_sparse_output, "SparseCountSparseOutput", "output_type", KN_SET(COUNTS),
      sparse_count_run)
