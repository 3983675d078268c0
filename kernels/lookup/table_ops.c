/* Ops that find, insert, remove, import and export the key-value pairs of a lookup table. */
#include "kernels/lookup/table.h"

#include "kernels/list/list.h"

#include <stdio.h>

static const char *types_text(char *buf, size_t n, const struct rt_run *r, const uint8_t *in,
                              const uint8_t *out)
{
    const char *handle = r->in[0].dtype == RT_STRING ? "string_ref" : "resource";
    int at = snprintf(buf, n, "%s", handle);

    for (int k = 1; k < r->n_in && (size_t)at < n; k++)
        at += snprintf(buf + at, n - (size_t)at, ", %s", rt_dtype_name((enum rt_dtype)in[k]));
    for (int k = 0; k < r->n_out && (size_t)at < n; k++)
        at += snprintf(buf + at, n - (size_t)at, "%s%s", k ? ", " : "->",
                       rt_dtype_name((enum rt_dtype)out[k]));
    if (r->n_out == 0 && (size_t)at < n)
        snprintf(buf + at, n - (size_t)at, "->");
    return buf;
}

enum rt_status kn_table_types(struct rt_run *r, const struct kn_table *t)
{
    uint8_t in[4] = {0, (uint8_t)t->key_type, (uint8_t)t->value_type};
    const uint8_t out = (uint8_t)t->value_type;
    char have[120], want[120];
    bool same = true;

    for (int k = 1; k < r->n_in; k++)
        same = same && r->node->in_dtype[k] == in[k];
    if (r->n_out == 1)
        same = same && r->node->out_dtype[0] == out;
    if (same)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "Signature mismatch, have: %s expected: %s",
                   types_text(have, sizeof have, r, r->node->in_dtype, r->node->out_dtype),
                   types_text(want, sizeof want, r, in, &out));
}

/* Sets *n to the number of keys in input 1, and *out to the shape of a tensor with one value for
 * each key. */
static enum rt_status keys_of(struct rt_run *r, const struct kn_table *t, int64_t *n,
                              struct rt_shape *values)
{
    const struct rt_tensor *keys = &r->in[1];
    enum rt_status st = kn_table_types(r, t);

    if (st)
        return st;
    kn_shape_get(keys, values);
    if (t->key_shape.rank) {
        values->rank = keys->rank ? keys->rank - 1 : 0;
        /* As in TensorFlow, a keys tensor of rank 1 must hold a single key of one element. If the
         * rank is higher, all dimensions between the first and the last must be 1. */
        if (!keys->rank || keys->dim[keys->rank - 1] != t->n_key ||
            kn_shape_total(values) != keys->dim[0])
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected key shape [%lld,%lld] got %s",
                           (long long)(keys->rank ? keys->dim[0] : 1), (long long)t->n_key,
                           KN_TEXT(keys));
    } else if (t->is_dense && keys->rank && rt_tensor_count(keys) != keys->dim[0]) {
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected key shape [%lld] got %s",
                       (long long)keys->dim[0], KN_TEXT(keys));
    }
    *n = kn_shape_total(values);
    if (values->rank + t->value_shape.rank > RT_MAX_RANK)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: more than %d dimensions are not supported",
                       r->node->schema->name, RT_MAX_RANK);
    for (int i = 0; i < t->value_shape.rank; i++)
        values->dim[values->rank++] = t->value_shape.dim[i];
    return RT_OK;
}

static bool has_shape(const struct rt_tensor *t, const struct rt_shape *s)
{
    struct rt_shape have;

    kn_shape_get(t, &have);
    return have.rank == s->rank && kn_partial_fits(&have, s);
}

/* ---- reading ---- */

static enum rt_status find_run(struct rt_run *r)
{
    struct kn_table *t = kn_table_of(r);
    const struct rt_tensor *keys = &r->in[1], *other = &r->in[2];
    struct rt_shape out;
    int64_t n = 0, left = RT_WORK;

    if (!t)
        return r->err->code;
    enum rt_status st = keys_of(r, t, &n, &out);
    if (st)
        return st;
    if (!has_shape(other, &t->value_shape) && !has_shape(other, &out))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected shape %s or %s for default value, got %s",
                       KN_TEXT(&t->value_shape), KN_TEXT(&out), KN_TEXT(other));
    /* Only mutable tables that are not dense accept one default value per key. All other tables use
     * the first default for every key. */
    const bool each = t->is_mutable && !t->is_dense && !has_shape(other, &t->value_shape);
    if (!t->is_mutable && !atomic_load_explicit(&t->filled, memory_order_acquire))
        return rt_fail(r->err, RT_FAILED_PRECONDITION, "Table not initialized.");
    if (!kn_out(r, 0, out.rank, out.dim))
        return r->err->code;
    if (t->is_mutable && kn_table_lock(r, t))
        return r->err->code;
    for (int64_t i = 0; i < n && !st; i++) {
        const void *key = kn_at(keys, i * t->n_key);
        int64_t at;
        if ((st = kn_dense_check_key(r, &left, t, key)) ||
            (st = kn_table_find(r, &left, t, key, &at)))
            break;
        const void *v = at >= 0 ? kn_table_value(t, at) : kn_at(other, each ? i * t->n_value : 0);
        st = kn_copy_run(r, t->value_type, kn_at_mut(&r->out[0], i * t->n_value), v, t->n_value);
    }
    return t->is_mutable ? kn_table_unlock(t, st) : st;
}

/* Only the table knows the shapes of its keys and values, so shape inference finds the table
 * through its handle. */
static enum rt_status find_infer(struct rt_infer *x)
{
    const struct rt_tensor *handle = x->in[0].value;
    const struct rt_object *o =
        handle && rt_tensor_count(handle) == 1 && handle->data ? rt_tensor_handle(handle) : NULL;
    const struct rt_shape *k = &x->in[1].shape;

    if (!o || !kn_is_table(o) || !kn_shape_known(k))
        return RT_OK;
    const struct kn_table *t = (const struct kn_table *)o;
    struct rt_shape out = *k;
    if (k->rank < t->key_shape.rank ||
        k->rank - t->key_shape.rank + t->value_shape.rank > RT_MAX_RANK)
        return RT_OK;
    out.rank = k->rank - t->key_shape.rank;
    for (int i = 0; i < t->value_shape.rank; i++)
        out.dim[out.rank++] = t->value_shape.dim[i];
    x->out[0].shape = out;
    return RT_OK;
}

/* Marks the op as row-wise only if all keys share a single default value, because a constant tensor
 * with one default value per key fits only one batch size. */
static void find_rows(struct rt_rows *r)
{
    if (r->in_dep[0].kind == RT_DEP_NONE && r->in_dep[2].kind == RT_DEP_NONE &&
        r->in[2].shape.rank < r->out[0].shape.rank)
        r->out_dep[0] = r->in_dep[1];
}

#define FIND(symbol, op_)                                                                          \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_),                                                                      \
               .effect = RT_READS,                                                                 \
               .shape_in = 1,                                                                      \
               .infer = find_infer,                                                                \
               .rows = find_rows},                                                                 \
        .kernels = KN_CPU(op_, "lookup_table_find", 0, NULL, find_run),                            \
    };
FIND(lookup_table_find, "LookupTableFind")
FIND(lookup_table_find_v2, "LookupTableFindV2")

static enum rt_status size_run(struct rt_run *r)
{
    struct kn_table *t = kn_table_of(r);
    int64_t *o = t ? kn_out(r, 0, 0, NULL) : NULL;

    if (!o)
        return r->err->code;
    if (kn_table_lock(r, t))
        return r->err->code;
    *o = t->is_mutable || atomic_load(&t->filled) ? t->n_live : 0;
    return kn_table_unlock(t, RT_OK);
}

#define SIZE(symbol, op_)                                                                          \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_READS, .infer = kn_infer_scalars},                      \
        .kernels = KN_CPU(op_, "lookup_table_size", 0, NULL, size_run),                            \
    };
SIZE(lookup_table_size, "LookupTableSize")
SIZE(lookup_table_size_v2, "LookupTableSizeV2")

static enum rt_status export_run(struct rt_run *r)
{
    struct kn_table *t = kn_table_of(r);
    int64_t dim[RT_MAX_RANK], at = 0, left = RT_WORK;

    if (!t)
        return r->err->code;
    if (!t->is_mutable && !atomic_load(&t->filled))
        return rt_fail(r->err, RT_FAILED_PRECONDITION, "Table not initialized.");
    enum rt_status st = kn_table_lock(r, t);
    if (st)
        return st;
    dim[0] = t->n_live;
    memcpy(dim + 1, t->value_shape.dim, (size_t)t->value_shape.rank * sizeof dim[0]);
    if (r->node->out_dtype[0] != t->key_type || r->node->out_dtype[1] != t->value_type)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: the table is from %s to %s",
                     r->node->schema->name, rt_dtype_name(t->key_type),
                     rt_dtype_name(t->value_type));
    else if (t->is_dense)
        return kn_table_unlock(t, kn_dense_export(r, t));
    else if (!rt_out(r, 0, 1, dim) || !rt_out(r, 1, 1 + t->value_shape.rank, dim))
        st = r->err->code;
    for (int64_t i = 0; i < t->n && !st; i++) {
        if ((st = rt_run_spend(r, &left, kn_table_work(t, kn_table_key(t, i)))) || !t->live[i])
            continue;
        kn_copy(t->key_type, kn_at_mut(&r->out[0], at), kn_table_key(t, i), 1);
        kn_copy(t->value_type, kn_at_mut(&r->out[1], at * t->n_value), kn_table_value(t, i),
                t->n_value);
        at++;
    }
    return kn_table_unlock(t, st);
}

#define EXPORT(symbol, op_)                                                                        \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_READS},                                                 \
        .kernels = KN_CPU(op_, "lookup_table_export", 0, NULL, export_run),                        \
    };
EXPORT(lookup_table_export, "LookupTableExport")
EXPORT(lookup_table_export_v2, "LookupTableExportV2")

/* ---- writing ---- */

static enum rt_status refuse_fixed(struct rt_run *r, const struct kn_table *t, const char *what)
{
    if (t->is_mutable)
        return RT_OK;
    return rt_fail(r->err, RT_UNIMPLEMENTED,
                   "%s not supported by InitializableLookupTable implementations", what);
}

/* Adds to an error message the number of pairs that were inserted before the failure. These pairs
 * stay in the table, as in TensorFlow. */
static void say_how_many(struct rt_error *err, int64_t done, int64_t n)
{
    struct rt_error why = {0};
    rt_error_copy(&why, err);
    rt_fail(err, why.code, "%s; %lld of %lld pairs were inserted before", rt_error_text(&why),
            (long long)done, (long long)n);
}

/* Inserts the pairs of inputs 1 and 2 in order. Sets *done to the number of inserted pairs, even on
 * failure. */
static enum rt_status put_pairs(struct rt_run *r, struct kn_table *t, int64_t n, int64_t *done)
{
    int64_t item, left = RT_WORK;
    enum rt_status st = RT_OK;
    bool was;

    for (*done = 0; *done < n; ++*done) {
        const void *key = kn_at(&r->in[1], *done * t->n_key);
        if ((st = kn_dense_check_key(r, &left, t, key)) ||
            (st = kn_table_put(r, &left, t, key, kn_at(&r->in[2], *done * t->n_value), true, &item,
                               &was)))
            break;
    }
    return st;
}

/* Sets *n to the number of pairs in inputs 1 and 2. */
static enum rt_status pairs_of(struct rt_run *r, const struct kn_table *t, int64_t *n)
{
    struct rt_shape want;
    const enum rt_status st = keys_of(r, t, n, &want);

    if (!st && !has_shape(&r->in[2], &want))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected shape %s for value, got %s",
                       KN_TEXT(&want), KN_TEXT(&r->in[2]));
    return st;
}

static enum rt_status insert_run(struct rt_run *r)
{
    struct kn_table *t = kn_table_of(r);
    int64_t n = 0, done = 0;

    if (!t)
        return r->err->code;
    enum rt_status st = pairs_of(r, t, &n);
    if (st || (st = refuse_fixed(r, t, "Insert")) || (st = kn_table_lock(r, t)))
        return st;
    kn_table_count_in(r, t);
    if (t->is_dense)
        st = kn_dense_grow(t, n, r->err);
    if (!st)
        st = put_pairs(r, t, n, &done);
    if (st == RT_RESOURCE_EXHAUSTED)
        say_how_many(r->err, done, n);
    return kn_table_unlock(t, st);
}

static enum rt_status import_run(struct rt_run *r)
{
    struct kn_table *t = kn_table_of(r), fresh;
    int64_t n = 0, done;

    if (!t)
        return r->err->code;
    enum rt_status st = t->is_dense ? kn_table_types(r, t) : pairs_of(r, t, &n);
    if (st)
        return st;
    if (!t->is_mutable)
        return kn_table_fill(r, t, &r->in[1], &r->in[2]);
    st = kn_table_fresh(r, t, &fresh);
    if (!st)
        st = t->is_dense ? kn_dense_import(r, &fresh) : put_pairs(r, &fresh, n, &done);
    if (!st)
        st = kn_table_lock(r, t);
    if (!st) {
        kn_table_replace(t, &fresh);
        kn_table_unlock(t, RT_OK);
    }
    kn_table_fresh_end(&fresh);
    return st;
}

static enum rt_status remove_run(struct rt_run *r)
{
    struct kn_table *t = kn_table_of(r);

    if (!t)
        return r->err->code;
    struct rt_shape values;
    int64_t n = 0, left = RT_WORK;
    enum rt_status st = keys_of(r, t, &n, &values);
    if (st || (st = refuse_fixed(r, t, "Remove")) || (st = kn_table_lock(r, t)))
        return st;
    for (int64_t k = 0; k < n && !st; k++) {
        const void *key = kn_at(&r->in[1], k * t->n_key);
        st = kn_dense_check_key(r, &left, t, key);
        st = st ? st : kn_table_remove(r, &left, t, key);
    }
    return kn_table_unlock(t, st);
}

#define WRITE(symbol, op_, run_)                                                                   \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_WRITES},                                                \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, run_),                                            \
    };
WRITE(lookup_table_insert, "LookupTableInsert", insert_run)
WRITE(lookup_table_insert_v2, "LookupTableInsertV2", insert_run)
WRITE(lookup_table_import, "LookupTableImport", import_run)
WRITE(lookup_table_import_v2, "LookupTableImportV2", import_run)
WRITE(lookup_table_remove_v2, "LookupTableRemoveV2", remove_run)
