/*
 * SparseCross, SparseCrossV2 and SparseCrossHashed compute crossed features. For each row of a
 * batch, the output has every combination of one value from each column. A combination is a string
 * or a hash.
 */
#include "kernels/array/array.h"
#include "kernels/string/farmhash.h"
#include "kernels/string/text.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

#include <stdio.h>
#include <stdlib.h>

enum how { TEXT, HASHED, KEYED }; /* KEYED is used only by SparseCrossHashed */

struct column {
    const struct rt_tensor *values;
    const struct rt_tensor *indices; /* NULL if the column is dense; then `values` is a matrix */
    /* `first` is the index of the column's first value in the current row, and `n` the number of
     * the column's values in this row */
    int64_t first, n;
    int64_t at; /* index of the column's value in the current combination */
};

struct cross {
    struct rt_run *r;
    enum how how;
    int n, n_sparse;
    int64_t rows, buckets;
    uint64_t key, salt[2];
    bool is_strong;
    struct rt_span between;
    struct column *column;
    struct kn_reader read; /* checks the deadline while a long string is hashed */
};

/* ---- checks ---- */

static enum rt_status bad_batch(struct cross *c, int64_t have, const char *where, int i)
{
    return rt_fail(c->r->err, RT_INVALID_ARGUMENT, "Expected batch size %lld got %lld at %s %d",
                   (long long)c->rows, (long long)have, where, i);
}

static enum rt_status check_sparse(struct cross *c, int i)
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

static enum rt_status check_inputs(struct cross *c)
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

static void rewind_columns(struct cross *c)
{
    for (int i = 0; i < c->n; i++)
        c->column[i].first = c->column[i].n = 0;
}

/* Moves each column to its first value in `row`. Returns the number of combinations of the row's
 * values, or -1 on overflow. */
static int64_t enter_row(struct cross *c, int64_t row)
{
    int64_t n = 1;

    for (int i = 0; i < c->n; i++) {
        struct column *k = &c->column[i];
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
static int64_t next_row(const struct cross *c, int64_t row)
{
    int64_t next = c->n_sparse ? c->rows : row;

    for (int i = 0; i < c->n; i++) {
        const struct column *k = &c->column[i];
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

static void next_combination(struct cross *c)
{
    for (int i = c->n - 1; i >= 0; i--) {
        if (++c->column[i].at < c->column[i].n)
            return;
        c->column[i].at = 0;
    }
}

/* ---- one combination ---- */

/* Combines two fingerprints. */
static uint64_t join(uint64_t a, uint64_t b)
{
    const uint64_t mul = UINT64_C(0xc6a4a7935bd1e995);
    uint64_t x = b * mul;

    x = (x ^ x >> 47) * mul;
    x = (a ^ mul ^ x) * mul;
    x = (x ^ x >> 47) * mul;
    return x ^ x >> 47;
}

static uint64_t hash_of(struct cross *c, const struct column *k)
{
    const int64_t i = k->first + k->at;

    if (kn_dtype(k->values) == RT_STRING) {
        const struct rt_str *s = &rt_strs(k->values)[i];
        return c->how == KEYED && c->is_strong
                   ? kn_sip_hash(c->salt, rt_str_data(s), s->n, &c->read)
                   : kn_fingerprint64(rt_str_data(s), s->n, &c->read);
    }
    const int64_t v = ((const int64_t *)k->values->data)[i];
    char bytes[sizeof v];
    memcpy(bytes, &v, sizeof v);
    /* As in TensorFlow, SparseCrossHashed hashes only the lower four bytes of an integer. Without a
     * strong hash, integers of dense columns are not hashed. */
    if (c->how == KEYED && c->is_strong)
        return kn_sip_hash(c->salt, bytes, 4, NULL);
    return c->how == KEYED && k->indices ? kn_fingerprint64(bytes, 4, NULL) : (uint64_t)v;
}

/* Returns the work on the current combination, in units of rt_run_spend. */
static int64_t combination_work(const struct cross *c)
{
    int64_t work = c->n * KN_STRING_WORK + c->n * (int64_t)c->between.n;

    for (int i = 0; i < c->n; i++) {
        const struct column *k = &c->column[i];
        work += kn_text_work(kn_dtype(k->values), kn_at(k->values, k->first + k->at), 1);
    }
    return work;
}

static int64_t hashed(struct cross *c)
{
    uint64_t h =
        c->how == KEYED ? hash_of(c, &c->column[0]) : join(c->key, hash_of(c, &c->column[0]));

    for (int i = 1; i < c->n; i++)
        h = join(h, hash_of(c, &c->column[i]));
    return (int64_t)(h % (c->buckets > 0 ? (uint64_t)c->buckets : (uint64_t)INT64_MAX));
}

static struct rt_span text_of(const struct column *k, char *buf, size_t n)
{
    const int64_t i = k->first + k->at;

    if (kn_dtype(k->values) == RT_STRING)
        return rt_span_of(rt_str_data(&rt_strs(k->values)[i]), rt_strs(k->values)[i].n);
    const long long v = ((const int64_t *)k->values->data)[i];
    return rt_span_of(buf, (size_t)snprintf(buf, n, "%lld", v));
}

static enum rt_status write_text(const struct cross *c, struct rt_str *out, int64_t *left)
{
    char number[32];
    size_t n = 0;

    for (int i = 0; i < c->n; i++)
        n += text_of(&c->column[i], number, sizeof number).n + (i ? c->between.n : 0);
    char *p = rt_str_resize(out, rt_run_pool(c->r), n, c->r->err);
    enum rt_status st = p ? RT_OK : c->r->err->code;
    for (int i = 0; i < c->n && !st; i++) {
        const struct rt_span s = text_of(&c->column[i], number, sizeof number);
        if (i) {
            st = kn_copy_text(c->r, left, p, c->between.p, c->between.n);
            p += c->between.n;
        }
        if (!st)
            st = kn_copy_text(c->r, left, p, s.p, s.n);
        p += s.n;
    }
    return st;
}

/* ---- a run ---- */

static enum rt_status write_all(struct cross *c, int64_t total, int64_t most)
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
    rewind_columns(c);
    for (int64_t row = next_row(c, 0); row < c->rows && at < total; row = next_row(c, row + 1)) {
        const int64_t n = enter_row(c, row);
        for (int64_t i = 0; i < n; i++, at++, next_combination(c)) {
            if (rt_run_spend(r, &left, combination_work(c)))
                return r->err->code;
            index[2 * at] = row;
            index[2 * at + 1] = i;
            if (c->how != TEXT)
                ((int64_t *)value)[at] = hashed(c);
            else if (write_text(c, (struct rt_str *)value + at, &left))
                return r->err->code;
            if (c->read.st)
                return c->read.st;
        }
    }
    return RT_OK;
}

static enum rt_status cross(struct cross *c)
{
    struct rt_run *r = c->r;
    int64_t total = 0, most = 0, left = RT_WORK;

    c->n_sparse = (int)rt_attr_int(r->node, "N");
    c->n = c->n_sparse + (int)rt_attr(r->node, "dense_types")->n;
    c->column = rt_scratch(r, ((size_t)c->n + 1) * sizeof *c->column);
    if (!c->column)
        return r->err->code;
    for (int i = 0; i < c->n; i++)
        c->column[i] = (struct column){
            .values = &r->in[i < c->n_sparse ? c->n_sparse + i : 2 * c->n_sparse + i],
            .indices = i < c->n_sparse ? &r->in[i] : NULL};
    enum rt_status st = check_inputs(c);
    if (st)
        return st;
    rewind_columns(c);
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
    struct cross c = {.r = r,
                      .how = hashes ? HASHED : TEXT,
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
    struct cross c = {.r = r, .how = TEXT};

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
    struct cross c = {.r = r, .how = KEYED};

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
