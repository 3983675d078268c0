/*
 * RaggedCross crosses ragged, sparse and dense columns of a batch. For each row, the output has
 * every combination of one value from each column, as strings or hashes. The output is ragged.
 */
#include <string.h>

#include "kernels/entry.h"
#include "kernels/sparse/cross.h"
#include "kernels/string/text.h"
#include "runtime/base/checked.h"

enum { RAGGED, SPARSE, DENSE, KINDS };
enum { VALUES, SPLITS, INDICES, SPARSE_VALUES, SHAPES, DENSES }; /* arguments of the schema */

static const char *const kinds[] = {"ragged tensor", "sparse tensor value", "dense tensor"};

/* ---- the columns, in the order of the attribute input_order ---- */

static const struct rt_tensor *input(const struct rt_run *r, int arg, int i)
{
    return &r->in[rt_in_arg(r->node, arg).first + i];
}

static void count_inputs(const struct rt_node *n, int count[KINDS])
{
    count[RAGGED] = rt_in_arg(n, VALUES).n;
    count[SPARSE] = rt_in_arg(n, INDICES).n;
    count[DENSE] = rt_in_arg(n, DENSES).n;
}

static enum rt_status set_columns(struct kn_cross *c)
{
    struct rt_run *const r = c->r;
    const struct rt_span order = rt_attr_str(r->node, "input_order");
    int count[KINDS], used[KINDS] = {0};

    count_inputs(r->node, count);
    if (order.n != (size_t)c->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Invalid length for input_order");
    for (int i = 0; i < c->n; i++) {
        const char letter = (char)order.p[i];
        const int kind = letter == 'R' ? RAGGED : letter == 'S' ? SPARSE : DENSE;
        struct kn_column *k = &c->column[i];
        if (letter != 'R' && letter != 'S' && letter != 'D')
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Unexpected value in input_order: %.*s",
                           (int)(order.n < 100 ? order.n : 100), (const char *)order.p);
        const int at = used[kind]++;
        if (at >= count[kind])
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "input_order \"%.*s\" specifies reading a %s at index %d from a list of "
                           "%d %s.",
                           (int)(order.n < 100 ? order.n : 100), (const char *)order.p, kinds[kind],
                           at, count[kind], kind == SPARSE ? "values" : "tensors");
        *k = (struct kn_column){0};
        k->values = input(r, kind == RAGGED ? VALUES : kind == SPARSE ? SPARSE_VALUES : DENSES, at);
        k->splits = kind == RAGGED ? input(r, SPLITS, at) : NULL;
        k->indices = kind == SPARSE ? input(r, INDICES, at) : NULL;
    }
    return RT_OK;
}

/* ---- checks ---- */

static enum rt_status fail_rank(const struct rt_run *r)
{
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "tf.ragged.cross only supports inputs with rank=2.");
}

static enum rt_status check_splits(struct rt_run *r, const struct rt_tensor *splits, int64_t values)
{
    static const char *const invalid = "Invalid ragged splits: ";
    const int64_t n = splits->dim[0];

    if (n == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "%sragged splits must have at least one splits, but is empty", invalid);
    if (kn_int_at(splits, 0) != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "%sfirst element of ragged splits  must be 0 but is %lld", invalid,
                       (long long)kn_int_at(splits, 0));
    for (int64_t i = 1; i < n; i++) {
        const int64_t before = kn_int_at(splits, i - 1), v = kn_int_at(splits, i);
        if (v < before)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "%sragged splits must be monotonically increasing, but "
                           "ragged_splits[%lld]=%lld is smaller than row_splits[%lld]=%lld",
                           invalid, (long long)i, (long long)v, (long long)(i - 1),
                           (long long)before);
        if (rt_run_spend(r, &r->left, 2))
            return r->err->code;
    }
    if (kn_int_at(splits, n - 1) != values)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "%slast element of ragged splits must be the number of ragged values(%lld) "
                       "but is %lld",
                       invalid, (long long)values, (long long)kn_int_at(splits, n - 1));
    return RT_OK;
}

static enum rt_status check_inputs(struct rt_run *r)
{
    int count[KINDS];

    count_inputs(r->node, count);
    for (int i = 0; i < count[RAGGED]; i++) {
        const struct rt_tensor *values = input(r, VALUES, i), *splits = input(r, SPLITS, i);
        if (values->rank != 1 || splits->rank != 1)
            return fail_rank(r);
        if (check_splits(r, splits, values->dim[0]))
            return r->err->code;
    }
    for (int i = 0; i < count[SPARSE]; i++) {
        const struct rt_tensor *indices = input(r, INDICES, i), *shape = input(r, SHAPES, i);
        if (indices->rank != 2 || input(r, SPARSE_VALUES, i)->rank != 1 || shape->rank != 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Invalid SparseTensor %d", i);
        if (indices->dim[1] != 2 || shape->dim[0] != 2)
            return fail_rank(r);
    }
    for (int i = 0; i < count[DENSE]; i++)
        if (input(r, DENSES, i)->rank != 2)
            return fail_rank(r);
    return RT_OK;
}

/* Sets c->rows to the batch size, which all inputs must have. */
static enum rt_status set_rows(struct kn_cross *c)
{
    struct rt_run *const r = c->r;
    int count[KINDS];
    bool is_first = true;

    count_inputs(r->node, count);
    for (int kind = RAGGED; kind < KINDS; kind++)
        for (int i = 0; i < count[kind]; i++, is_first = false) {
            const int64_t rows = kind == RAGGED   ? input(r, SPLITS, i)->dim[0] - 1
                                 : kind == SPARSE ? kn_int_at(input(r, SHAPES, i), 0)
                                                  : input(r, DENSES, i)->dim[0];
            if (!is_first && rows != c->rows)
                return rt_fail(r->err, RT_INVALID_ARGUMENT,
                               "inputs must all have the same batch dimension size.");
            c->rows = rows;
        }
    if (c->rows < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "the batch size is negative: %lld",
                       (long long)c->rows);
    return RT_OK;
}

/* ---- rows ---- */

/* Moves a sparse column to its values of a row. As in TensorFlow, values that come before in the
 * tensor and have no row of their own belong to the row. */
static enum rt_status enter_sparse(struct kn_cross *c, struct kn_column *k, int64_t row)
{
    const int64_t pairs = k->indices->dim[0], values = k->values->dim[0];
    const int64_t end = pairs < values ? pairs : values;

    k->first += k->n;
    for (k->n = 0; k->first + k->n < end; k->n++) {
        if (kn_int_at(k->indices, 2 * (k->first + k->n)) > row)
            break;
        if (rt_run_spend(c->r, &c->r->left, 2))
            return c->r->err->code;
    }
    return RT_OK;
}

/* Moves all columns to their values of a row, and sets *n to the number of combinations. */
static enum rt_status enter_row(struct kn_cross *c, int64_t row, int64_t *n)
{
    bool fits = true;

    *n = 1;
    for (int i = 0; i < c->n; i++) {
        struct kn_column *k = &c->column[i];
        if (k->splits) {
            k->first = kn_int_at(k->splits, row);
            k->n = kn_int_at(k->splits, row + 1) - k->first;
        } else if (!k->indices) {
            k->n = k->values->dim[1];
            k->first = row * k->n;
        } else if (enter_sparse(c, k, row)) {
            return c->r->err->code;
        }
        k->at = 0;
        fits = fits && rt_mul(*n, k->n, n);
        if (k->n == 0) {
            *n = 0;
            fits = true;
        }
    }
    if (!fits)
        return rt_fail(c->r->err, RT_RESOURCE_EXHAUSTED, "%s: too many combinations in row %lld",
                       c->r->node->name, (long long)row);
    return rt_run_spend(c->r, &c->r->left, 8 + 4 * c->n);
}

/* Writes the row splits of the output, and sets *total to their last element. */
static enum rt_status write_splits(struct kn_cross *c, int64_t *total)
{
    struct rt_run *const r = c->r;
    const int64_t rows = c->n ? c->rows : 0,
                  most = rt_attr_dtype(r->node, "out_row_splits_type") == RT_I32 ? INT32_MAX
                                                                                 : INT64_MAX;
    int64_t n;

    *total = 0;
    if (!rt_out(r, 1, 1, (int64_t[]){rows + 1}))
        return r->err->code;
    kn_put_int(&r->out[1], 0, 0);
    kn_cross_rewind(c);
    for (int64_t row = 0; row < rows; row++) {
        if (enter_row(c, row, &n))
            return r->err->code;
        if (!rt_add(*total, n, total) || *total > most)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "%s: the row splits of the output do not fit their type", r->node->name);
        kn_put_int(&r->out[1], row + 1, *total);
    }
    return RT_OK;
}

static enum rt_status write_values(struct kn_cross *c, int64_t total)
{
    struct rt_run *const r = c->r;
    int64_t left = RT_WORK, at = 0, n;
    void *value = rt_out(r, 0, 1, &total);

    if (!value)
        return r->err->code;
    c->read = (struct kn_reader){.r = r, .left = &left};
    kn_cross_rewind(c);
    for (int64_t row = 0; row < c->rows && at < total; row++) {
        if (enter_row(c, row, &n))
            return r->err->code;
        for (int64_t i = 0; i < n; i++, at++, kn_cross_next(c))
            if (rt_run_spend(r, &left, kn_cross_work(c)) || kn_cross_put(c, value, at, &left))
                return r->err->code;
    }
    return RT_OK;
}

static enum rt_status run(struct rt_run *r)
{
    /* As in TensorFlow, the type of the output decides whether it is hashed, and the attribute
     * hashed_output is ignored. */
    const bool hashes = rt_attr_dtype(r->node, "out_values_type") == RT_I64;
    struct kn_cross c = {.r = r,
                         .how = hashes ? KN_CROSS_HASHED : KN_CROSS_TEXT,
                         .buckets = rt_attr_int(r->node, "num_buckets"),
                         .key = (uint64_t)rt_attr_int(r->node, "hash_key"),
                         .between = rt_span_str("_X_")};
    int count[KINDS];
    int64_t total;

    count_inputs(r->node, count);
    c.n = count[RAGGED] + count[SPARSE] + count[DENSE];
    c.column = rt_scratch(r, ((size_t)c.n + 1) * sizeof *c.column);
    if (!c.column || check_inputs(r) || set_rows(&c) || set_columns(&c) || write_splits(&c, &total))
        return r->err->code;
    return write_values(&c, total);
}

static enum rt_status check(const struct rt_node *n, struct rt_error *err)
{
    int count[KINDS];

    count_inputs(n, count);
    if (count[RAGGED] != rt_in_arg(n, SPLITS).n)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "ragged values and splits must have the same length");
    if (count[SPARSE] != rt_in_arg(n, SPARSE_VALUES).n || count[SPARSE] != rt_in_arg(n, SHAPES).n)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "sparse indices, values, and shapes must all have the same length");
    return RT_OK;
}

static enum rt_status infer(struct rt_infer *x)
{
    x->out[0].shape = (struct rt_shape){.rank = 1, .dim = {-1}};
    x->out[1].shape = (struct rt_shape){.rank = 1, .dim = {-1}};
    return RT_OK;
}

const struct kn_entry kn_ragged_cross = {
    .op = {.name = "RaggedCross", .check = check, .infer = infer},
    .kernels =
        KN_KERNELS({.op = "RaggedCross", .device = "CPU", .name = "ragged_cross", .run = run}),
};
