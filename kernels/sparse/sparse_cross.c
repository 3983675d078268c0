/*
 * SparseCross, SparseCrossV2 and SparseCrossHashed compute crossed features. For each row of a
 * batch, the output has every combination of one value from each column. A combination is a string
 * or a hash.
 */
#include "kernels/entry.h"
#include "kernels/sparse/cross.h"
#include "kernels/string/text.h"
#include "runtime/base/checked.h"

/* ---- checks ---- */

static enum rt_status bad_batch(struct kn_cross *c, int64_t have, const char *where, int i)
{
    return rt_fail(c->r->err, RT_INVALID_ARGUMENT, "Expected batch size %lld got %lld at %s %d",
                   (long long)c->rows, (long long)have, where, i);
}

static enum rt_status check_sparse(struct kn_cross *c, int i)
{
    struct rt_run *r = c->r;
    const struct rt_tensor *indices = &r->in[i], *values = &r->in[c->n_sparse + i];
    const struct rt_tensor *shape = &r->in[2 * c->n_sparse + i];

    if (indices->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input indices should be a matrix but received shape %s at position %d",
                       KN_TEXT(indices), i);
    if (indices->dim[1] != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected D2 of index to be 2 got %lld at position %d",
                       (long long)indices->dim[1], i);
    if (values->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input values should be a vector but received shape %s at position %d",
                       KN_TEXT(values), i);
    if (indices->dim[0] != values->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected size of values to be %lld got %lld at position %d",
                       (long long)indices->dim[0], (long long)values->dim[0], i);
    if (shape->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input shapes should be a vector but received shape %s at position %d",
                       KN_TEXT(shape), i);
    if (shape->dim[0] != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "shape should imply a 2D tensor, but got %s at position %d", KN_TEXT(shape),
                       i);
    return RT_OK;
}

static enum rt_status check_inputs(struct kn_cross *c)
{
    struct rt_run *r = c->r;
    enum rt_status st = RT_OK;

    for (int i = 0; i < c->n_sparse && !st; i++)
        st = check_sparse(c, i);
    for (int i = c->n_sparse; i < c->n && !st; i++)
        if (c->column[i].values->rank != 2)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Dense inputs should be a matrix but received shape %s at position %d",
                           KN_TEXT(c->column[i].values), i - c->n_sparse);
    if (st)
        return st;
    if (c->n_sparse)
        c->rows = kn_int_at(&r->in[2 * c->n_sparse], 0);
    else
        c->rows = c->n ? c->column[0].values->dim[0] : 0;
    for (int i = 0; i < c->n_sparse; i++)
        if (kn_int_at(&r->in[2 * c->n_sparse + i], 0) != c->rows)
            return bad_batch(c, kn_int_at(&r->in[2 * c->n_sparse + i], 0), "position", i);
    for (int i = c->n_sparse; i < c->n; i++)
        if (c->column[i].values->dim[0] != c->rows)
            return bad_batch(c, c->column[i].values->dim[0], "dense tensor", i - c->n_sparse);
    if (c->rows < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "the batch size is negative: %lld",
                       (long long)c->rows);
    return RT_OK;
}

/* ---- rows and their combinations ---- */

/* Moves each column to its first value in `row`. Returns the number of combinations of the row's
 * values, or -1 on overflow. */
static int64_t enter_row(struct kn_cross *c, int64_t row)
{
    int64_t n = 1;

    for (int i = 0; i < c->n; i++) {
        struct kn_column *k = &c->column[i];
        if (!k->indices) {
            k->n = k->values->dim[1];
            k->first = row * k->n;
        } else {
            k->first += k->n;
            for (k->n = 0; k->first + k->n < k->indices->dim[0] &&
                           kn_int_at(k->indices, 2 * (k->first + k->n)) == row;)
                k->n++;
        }
        k->at = 0;
        if (n >= 0 && !rt_mul(n, k->n, &n))
            n = -1;
    }
    return n;
}

/*
 * Returns the next row, from `row` on, that can have combinations, or c->rows if there is none.
 * Loops must skip empty rows, because the input may specify a huge number of rows.
 */
static int64_t next_row(const struct kn_cross *c, int64_t row)
{
    int64_t next = c->n_sparse ? c->rows : row;

    for (int i = 0; i < c->n; i++) {
        const struct kn_column *k = &c->column[i];
        const int64_t at = k->first + k->n;
        if (!k->indices && k->values->dim[1] == 0)
            return c->rows;
        if (!k->indices)
            continue;
        const int64_t has = at < k->indices->dim[0] ? kn_int_at(k->indices, 2 * at) : -1;
        /* the column has no values left, or the row of its next value is invalid */
        if (has < row || has >= c->rows)
            return c->rows;
        next = has < next ? has : next;
    }
    return next;
}

/* ---- a run ---- */

static enum rt_status write_all(struct kn_cross *c, int64_t total, int64_t most)
{
    struct rt_run *r = c->r;
    int64_t *index = rt_out(r, 0, 2, (int64_t[]){total, 2});
    void *value = index ? rt_out(r, 1, 1, &total) : NULL;
    int64_t *shape = value ? kn_out(r, 2, 1, (int64_t[]){2}) : NULL, at = 0;
    int64_t left = RT_WORK;

    if (!shape)
        return r->err->code;
    shape[0] = c->rows;
    shape[1] = most;
    c->read = (struct kn_reader){.r = r, .left = &left};
    kn_cross_rewind(c);
    for (int64_t row = next_row(c, 0); row < c->rows && at < total; row = next_row(c, row + 1)) {
        const int64_t n = enter_row(c, row);
        for (int64_t i = 0; i < n; i++, at++, kn_cross_next(c)) {
            if (rt_run_spend(r, &left, kn_cross_work(c)))
                return r->err->code;
            index[2 * at] = row;
            index[2 * at + 1] = i;
            if (kn_cross_put(c, value, at, &left))
                return r->err->code;
        }
    }
    return RT_OK;
}

static enum rt_status cross(struct kn_cross *c)
{
    struct rt_run *r = c->r;
    int64_t total = 0, most = 0, left = RT_WORK;

    c->n_sparse = (int)rt_attr_int(r->node, "N");
    c->n = c->n_sparse + (int)rt_attr(r->node, "dense_types")->n;
    c->column = rt_scratch(r, ((size_t)c->n + 1) * sizeof *c->column);
    if (!c->column)
        return r->err->code;
    for (int i = 0; i < c->n; i++)
        c->column[i] = (struct kn_column){
            .values = &r->in[i < c->n_sparse ? c->n_sparse + i : 2 * c->n_sparse + i],
            .indices = i < c->n_sparse ? &r->in[i] : NULL};
    enum rt_status st = check_inputs(c);
    if (st)
        return st;
    kn_cross_rewind(c);
    for (int64_t row = next_row(c, 0); row < c->rows && c->n; row = next_row(c, row + 1)) {
        const int64_t n = enter_row(c, row);
        if (rt_run_spend(r, &left, c->n * KN_STRING_WORK))
            return r->err->code;
        if (n < 0 || !rt_add(total, n, &total))
            return rt_fail(r->err, RT_RESOURCE_EXHAUSTED, "%s: too many combinations in row %lld",
                           r->node->name, (long long)row);
        most = n > most ? n : most;
    }
    return write_all(c, total, most);
}

static enum rt_status check_count(const struct rt_node *n, struct rt_error *err)
{
    const size_t have = rt_attr(n, "sparse_types")->n;

    if ((int64_t)have != rt_attr_int(n, "N"))
        return rt_fail(err, RT_INVALID_ARGUMENT, "Expected %lld input values, got %zu",
                       (long long)rt_attr_int(n, "N"), have);
    return RT_OK;
}

/* As in TensorFlow, the output's type decides whether the output is hashed, and the attribute
 * hashed_output is ignored. */
static enum rt_status v1_run(struct rt_run *r)
{
    const bool hashes = rt_attr_dtype(r->node, "out_type") == RT_I64;
    struct kn_cross c = {.r = r,
                         .how = hashes ? KN_CROSS_HASHED : KN_CROSS_TEXT,
                         .buckets = rt_attr_int(r->node, "num_buckets"),
                         .key = (uint64_t)rt_attr_int(r->node, "hash_key"),
                         .between = rt_span_str("_X_")};

    const int n = (int)rt_attr_int(r->node, "N");
    const bool wants_text = rt_attr_dtype(r->node, "internal_type") == RT_STRING;

    for (int k = n; k < r->n_in && wants_text; k = k + 1 == 2 * n ? 3 * n : k + 1)
        if (kn_dtype(&r->in[k]) == RT_I64)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "%s should be of internal type 7 but received 9",
                           k < 2 * n ? "Input values" : "Dense inputs");
    return cross(&c);
}

static enum rt_status v2_run(struct rt_run *r)
{
    const struct rt_tensor *sep = &r->in[r->n_in - 1];
    struct kn_cross c = {.r = r, .how = KN_CROSS_TEXT};

    if (sep->rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input separator should be a scalar. Received: %s", KN_TEXT(sep));
    c.between = rt_span_of(rt_str_data(rt_strs(sep)), rt_strs(sep)->n);
    return cross(&c);
}

static enum rt_status hashed_run(struct rt_run *r)
{
    const struct rt_tensor *buckets = &r->in[r->n_in - 3], *strong = &r->in[r->n_in - 2];
    const struct rt_tensor *salt = &r->in[r->n_in - 1];
    struct kn_cross c = {.r = r, .how = KN_CROSS_KEYED};

    if (rt_tensor_count(buckets) < 1 || rt_tensor_count(strong) < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "num_buckets %s and strong_hash %s should be scalars", KN_TEXT(buckets),
                       KN_TEXT(strong));
    if (rt_tensor_count(salt) != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input \"salt\" must have length 2 but has length %lld",
                       (long long)rt_tensor_count(salt));
    c.buckets = kn_int_at(buckets, 0);
    c.is_strong = kn_int_at(strong, 0) != 0;
    c.salt[0] = (uint64_t)kn_int_at(salt, 0);
    c.salt[1] = (uint64_t)kn_int_at(salt, 1);
    return cross(&c);
}

#define CROSS(symbol, op_, check_, run_)                                                           \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .check = (check_)},                                                  \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, run_),                                            \
    };
CROSS(sparse_cross, "SparseCross", check_count, v1_run)
CROSS(sparse_cross_v2, "SparseCrossV2", check_count, v2_run)
CROSS(sparse_cross_hashed, "SparseCrossHashed", check_count, hashed_run)
