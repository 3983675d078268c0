/*
 * Look-up tables: resources of a session that map keys to values.
 *
 * A table that is filled once (HashTable) never changes afterwards, so it is read without its
 * lock; a mutable one is read and written under it.
 */
#include "kernels/cpu/hash_set.h"
#include "kernels/cpu/list.h"
#include "kernels/cpu/parse.h"
#include "kernels/entry.h"
#include "runtime/base/bytes.h"
#include "runtime/base/regular_file.h"
#include "runtime/base/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { TABLE_MAX = 1 << 28 };

struct table {
    struct rt_object o;
    enum rt_dtype key_type, value_type;
    struct rt_shape value_shape; /* of one value: a scalar but for ...OfTensors */
    int64_t n_value;             /* elements of one value */
    bool is_mutable;
    atomic_bool filled; /* not mutable: set once, after the last write */
    struct rt_mutex mu;
    /* guarded by mu (see above) */
    int64_t n, room, n_live, n_slots;
    char *keys, *values;
    bool *live;
    int64_t *slot; /* item + 1; 0: free */
};

static void drop(enum rt_dtype dtype, void *p, int64_t n)
{
    if (dtype == RT_STRING)
        for (int64_t i = 0; i < n; i++)
            rt_str_clear((struct rt_str *)p + i);
}

static void table_empty(struct table *t)
{
    drop(t->key_type, t->keys, t->n);
    drop(t->value_type, t->values, t->n * t->n_value);
    free(t->keys);
    free(t->values);
    free(t->live);
    free(t->slot);
    t->keys = t->values = NULL;
    t->live = NULL;
    t->slot = NULL;
    t->n = t->room = t->n_live = t->n_slots = 0;
}

static void table_free(struct rt_object *o)
{
    struct table *t = (struct table *)o;

    table_empty(t);
    rt_mutex_clear(&t->mu);
    free(t);
}

static const struct rt_object_type table_type = {"hash table", table_free};

static enum rt_status make(const struct rt_node *n, bool is_mutable, struct rt_object **out,
                           struct rt_error *err)
{
    struct table *t = calloc(1, sizeof *t);

    if (!t)
        return rt_fail_memory(err, n->name, sizeof *t);
    rt_object_init(&t->o, &table_type);
    rt_mutex_init(&t->mu);
    t->key_type = rt_attr_dtype(n, "key_dtype");
    t->value_type = rt_attr_dtype(n, "value_dtype");
    t->is_mutable = is_mutable;
    if (rt_attr(n, "value_shape"))
        t->value_shape = *rt_attr_shape(n, "value_shape");
    t->n_value = t->value_shape.rank < 0 ? -1 : kn_shape_total(&t->value_shape);
    enum rt_status st = RT_OK;
    if (t->n_value < 0 || t->value_shape.rank == RT_MAX_RANK)
        st = rt_fail(err, RT_INVALID_ARGUMENT, "%s: value_shape must be fully defined", n->name);
    else if (t->key_type == RT_RESOURCE || t->key_type == RT_VARIANT ||
             t->value_type == RT_RESOURCE || t->value_type == RT_VARIANT)
        st = rt_fail(err, RT_UNIMPLEMENTED, "%s: no table from %s to %s", n->name,
                     rt_dtype_name(t->key_type), rt_dtype_name(t->value_type));
    if (st)
        rt_object_unref(&t->o);
    else
        *out = &t->o;
    return st;
}

static enum rt_status make_fixed(const struct rt_node *n, struct rt_object **out,
                                 struct rt_error *err)
{
    return make(n, false, out, err);
}

static enum rt_status make_mutable(const struct rt_node *n, struct rt_object **out,
                                   struct rt_error *err)
{
    return make(n, true, out, err);
}

#define TABLE(symbol, op_, kind_, make_)                                                           \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = kn_infer_scalars, .slot_kind = (kind_), .make = (make_)},   \
    };
TABLE(hash_table, "HashTable", "hash table", make_fixed)
TABLE(hash_table_v2, "HashTableV2", "hash table", make_fixed)
TABLE(mutable_hash_table, "MutableHashTable", "mutable hash table", make_mutable)
TABLE(mutable_hash_table_v2, "MutableHashTableV2", "mutable hash table", make_mutable)
TABLE(mutable_hash_table_of_tensors, "MutableHashTableOfTensors", "mutable hash table of tensors",
      make_mutable)
TABLE(mutable_hash_table_of_tensors_v2, "MutableHashTableOfTensorsV2",
      "mutable hash table of tensors", make_mutable)

/* Its inputs, the keys that mark empty and deleted buckets, matter to TensorFlow's layout only. */
TABLE(mutable_dense_hash_table_v2, "MutableDenseHashTableV2", "mutable dense hash table",
      make_mutable)

/* ---- items ---- */

static const void *key_at(const struct table *t, int64_t i)
{
    return t->keys + (size_t)i * rt_dtype_size(t->key_type);
}

static size_t value_bytes(const struct table *t)
{
    return (size_t)t->n_value * rt_dtype_size(t->value_type);
}

static void *value_at(const struct table *t, int64_t i)
{
    return t->values + (size_t)i * value_bytes(t);
}

/* The slot of `key`: one that holds it, or the free one where it belongs. */
static int64_t slot_of(const struct table *t, const void *key)
{
    int64_t s = (int64_t)(kn_hash_element(t->key_type, key) & (uint64_t)(t->n_slots - 1));

    while (t->slot[s] && !kn_same_element(t->key_type, key_at(t, t->slot[s] - 1), key))
        s = (s + 1) & (t->n_slots - 1);
    return s;
}

static int64_t find(const struct table *t, const void *key) /* item or -1 */
{
    if (t->n_live == 0)
        return -1;
    const int64_t i = t->slot[slot_of(t, key)] - 1;
    return i >= 0 && t->live[i] ? i : -1;
}

static bool grow(void **p, int64_t room, int64_t more, size_t each)
{
    char *q = realloc(*p, (size_t)more * each + 1);

    if (!q)
        return false;
    memset(q + (size_t)room * each, 0, (size_t)(more - room) * each);
    *p = q;
    return true;
}

static enum rt_status reserve(struct table *t, int64_t n, struct rt_error *err)
{
    if (n > t->room) {
        const int64_t room = n > 2 * t->room ? n : 2 * t->room;
        void *k = t->keys, *v = t->values, *l = t->live;
        bool ok = room <= TABLE_MAX && (t->n_value == 0 || room <= INT64_MAX / 64 / t->n_value);
        ok = ok && grow(&k, t->room, room, rt_dtype_size(t->key_type));
        t->keys = k;
        ok = ok && grow(&v, t->room, room, value_bytes(t));
        t->values = v;
        ok = ok && grow(&l, t->room, room, sizeof *t->live);
        t->live = l;
        if (!ok)
            return rt_fail_memory(err, "a hash table", (size_t)room);
        t->room = room;
    }
    if (2 * n > t->n_slots) {
        const int64_t n_slots = kn_hash_slots(2 * n);
        int64_t *slot = calloc((size_t)n_slots, sizeof *slot);
        if (!slot)
            return rt_fail_memory(err, "a hash table", (size_t)n_slots * sizeof *slot);
        free(t->slot);
        t->slot = slot;
        t->n_slots = n_slots;
        for (int64_t i = 0; i < t->n; i++)
            t->slot[slot_of(t, key_at(t, i))] = i + 1;
    }
    return RT_OK;
}

/* Adds or replaces. *was: the item was there; then, unless `replace`, nothing changes. */
static enum rt_status put(struct table *t, const void *key, const void *value, bool replace,
                          int64_t *item, bool *was, struct rt_error *err)
{
    enum rt_status st = reserve(t, t->n + 1, err);

    if (st)
        return st;
    const int64_t s = slot_of(t, key);
    int64_t i = t->slot[s] - 1;
    *was = i >= 0 && t->live[i];
    if (i < 0) {
        i = t->n;
        void *k = t->keys + (size_t)i * rt_dtype_size(t->key_type);
        if ((st = kn_copy(t->key_type, k, key, 1, err)))
            return st;
        t->n++;
        t->slot[s] = i + 1;
    }
    *item = i;
    if (*was && !replace)
        return RT_OK;
    t->n_live += !*was;
    t->live[i] = true;
    return kn_copy(t->value_type, value_at(t, i), value, t->n_value, err);
}

/* ---- what the ops begin with ---- */

static struct table *table_of(struct rt_run *r)
{
    struct rt_object *o = rt_tensor_count(&r->in[0]) == 1 ? rt_tensor_handle(&r->in[0]) : NULL;

    if (o && o->type == &table_type)
        return (struct table *)o;
    rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: the handle is not one of a table",
            r->node->schema->name);
    return NULL;
}

static void lock(struct table *t) RT_NO_ANALYSIS
{
    rt_mutex_lock(&t->mu);
}

static enum rt_status unlock(struct table *t, enum rt_status st) RT_NO_ANALYSIS
{
    rt_mutex_unlock(&t->mu);
    return st;
}

static const char *types_text(char *room, size_t n, const struct rt_run *r, const uint8_t *in,
                              const uint8_t *out)
{
    const char *handle = r->in[0].dtype == RT_STRING ? "string_ref" : "resource";
    int at = snprintf(room, n, "%s", handle);

    for (int k = 1; k < r->n_in && (size_t)at < n; k++)
        at += snprintf(room + at, n - (size_t)at, ", %s", rt_dtype_name((enum rt_dtype)in[k]));
    for (int k = 0; k < r->n_out && (size_t)at < n; k++)
        at += snprintf(room + at, n - (size_t)at, "%s%s", k ? ", " : "->",
                       rt_dtype_name((enum rt_dtype)out[k]));
    if (r->n_out == 0 && (size_t)at < n)
        snprintf(room + at, n - (size_t)at, "->");
    return room;
}

/* The node's types are the table's: keys at input 1, values at the rest and at outputs. */
static enum rt_status check_types(struct rt_run *r, const struct table *t)
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

/* Input k holds one value per key of input 1. */
static enum rt_status check_pair(struct rt_run *r, const struct table *t, int k)
{
    struct rt_shape want;
    enum rt_status st = check_types(r, t);

    if (st)
        return st;
    kn_shape_get(&r->in[1], &want);
    for (int i = 0; i < t->value_shape.rank && want.rank < RT_MAX_RANK; i++)
        want.dim[want.rank++] = t->value_shape.dim[i];
    struct rt_shape have;
    kn_shape_get(&r->in[k], &have);
    if (have.rank != want.rank || !kn_partial_fits(&have, &want))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected shape %s for value, got %s",
                       KN_TEXT(&want), KN_TEXT(&have));
    return RT_OK;
}

/* ---- reading ---- */

static enum rt_status find_run(struct rt_run *r)
{
    struct table *t = table_of(r);
    const struct rt_tensor *keys = &r->in[1], *other = &r->in[2];
    int64_t dim[RT_MAX_RANK];
    int rank = keys->rank;

    if (!t)
        return r->err->code;
    enum rt_status st = check_types(r, t);
    if (st)
        return st;
    const bool each = rt_tensor_count(other) != t->n_value; /* a default per key */
    if (rank + t->value_shape.rank > RT_MAX_RANK)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: more than %d dimensions are not supported",
                       r->node->schema->name, RT_MAX_RANK);
    memcpy(dim, keys->dim, (size_t)rank * sizeof dim[0]);
    for (int i = 0; i < t->value_shape.rank; i++)
        dim[rank++] = t->value_shape.dim[i];
    const int64_t n = rt_tensor_count(keys);
    if (each && (!t->is_mutable || rt_tensor_count(other) != n * t->n_value))
        return rt_fail(
            r->err, RT_INVALID_ARGUMENT, "Expected shape %s or %s for default value, got %s",
            KN_TEXT(&t->value_shape),
            rt_shape_text((char[KN_SHAPE_TEXT]){0}, KN_SHAPE_TEXT, rank, dim), KN_TEXT(other));
    if (!t->is_mutable && !atomic_load_explicit(&t->filled, memory_order_acquire))
        return rt_fail(r->err, RT_FAILED_PRECONDITION, "Table not initialized.");
    if (!kn_out(r, 0, rank, dim))
        return r->err->code;
    if (t->is_mutable)
        lock(t);
    for (int64_t i = 0; i < n && !st; i++) {
        const int64_t at = find(t, kn_at(keys, i));
        const void *v = at >= 0 ? value_at(t, at) : kn_at(other, each ? i * t->n_value : 0);
        st = kn_copy(t->value_type, kn_at_mut(&r->out[0], i * t->n_value), v, t->n_value, r->err);
    }
    return t->is_mutable ? unlock(t, st) : st;
}

/* A scalar default means scalar values, as all tables but ...OfTensors have. */
static enum rt_status find_infer(struct rt_infer *x)
{
    const struct rt_shape *d = &x->in[2].shape, *k = &x->in[1].shape;

    if (!kn_shape_known(d) || !kn_shape_known(k) || d->rank != 0)
        return RT_OK;
    x->out[0].shape = *k;
    return RT_OK;
}

static void find_rows(struct rt_rows *r)
{
    if (r->in_dep[0].kind == RT_DEP_NONE && r->in_dep[2].kind == RT_DEP_NONE)
        r->out_dep[0] = r->in_dep[1];
}

#define FIND(symbol, op_)                                                                          \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_READS, .infer = find_infer, .rows = find_rows},         \
        .kernels = KN_CPU(op_, "lookup_table_find", 0, NULL, find_run),                            \
    };
FIND(lookup_table_find, "LookupTableFind")
FIND(lookup_table_find_v2, "LookupTableFindV2")

static enum rt_status size_run(struct rt_run *r)
{
    struct table *t = table_of(r);
    int64_t *o = t ? kn_out(r, 0, 0, NULL) : NULL;

    if (!o)
        return r->err->code;
    lock(t);
    *o = t->is_mutable || atomic_load(&t->filled) ? t->n_live : 0;
    return unlock(t, RT_OK);
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
    struct table *t = table_of(r);
    int64_t dim[RT_MAX_RANK], at = 0;

    if (!t)
        return r->err->code;
    if (!t->is_mutable && !atomic_load(&t->filled))
        return rt_fail(r->err, RT_FAILED_PRECONDITION, "Table not initialized.");
    lock(t);
    enum rt_status st = RT_OK;
    dim[0] = t->n_live;
    memcpy(dim + 1, t->value_shape.dim, (size_t)t->value_shape.rank * sizeof dim[0]);
    if (r->node->out_dtype[0] != t->key_type || r->node->out_dtype[1] != t->value_type)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: the table is from %s to %s",
                     r->node->schema->name, rt_dtype_name(t->key_type),
                     rt_dtype_name(t->value_type));
    else if (!rt_out(r, 0, 1, dim) || !rt_out(r, 1, 1 + t->value_shape.rank, dim))
        st = r->err->code;
    for (int64_t i = 0; i < t->n && !st; i++) {
        if (!t->live[i])
            continue;
        st = kn_copy(t->key_type, kn_at_mut(&r->out[0], at), key_at(t, i), 1, r->err);
        if (!st)
            st = kn_copy(t->value_type, kn_at_mut(&r->out[1], at * t->n_value), value_at(t, i),
                         t->n_value, r->err);
        at++;
    }
    return unlock(t, st);
}

#define EXPORT(symbol, op_)                                                                        \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_READS},                                                 \
        .kernels = KN_CPU(op_, "lookup_table_export", 0, NULL, export_run),                        \
    };
EXPORT(lookup_table_export, "LookupTableExport")
EXPORT(lookup_table_export_v2, "LookupTableExportV2")

/* ---- writing ---- */

static enum rt_status refuse_fixed(struct rt_run *r, const struct table *t, const char *what)
{
    if (t->is_mutable)
        return RT_OK;
    return rt_fail(r->err, RT_UNIMPLEMENTED,
                   "%s not supported by InitializableLookupTable implementations", what);
}

static enum rt_status fill(struct rt_run *r, struct table *t, const struct rt_tensor *keys,
                           const struct rt_tensor *values);

static enum rt_status write(struct rt_run *r, bool clear)
{
    struct table *t = table_of(r);
    int64_t item;
    bool was;

    if (!t)
        return r->err->code;
    enum rt_status st = check_pair(r, t, 2);
    if (!st && clear && !t->is_mutable)
        return fill(r, t, &r->in[1], &r->in[2]);
    if (st || (st = refuse_fixed(r, t, "Insert")))
        return st;
    const int64_t n = rt_tensor_count(&r->in[1]);
    lock(t);
    if (clear)
        table_empty(t);
    for (int64_t i = 0; i < n && !st; i++)
        st = put(t, kn_at(&r->in[1], i), kn_at(&r->in[2], i * t->n_value), true, &item, &was,
                 r->err);
    return unlock(t, st);
}

static enum rt_status insert_run(struct rt_run *r)
{
    return write(r, false);
}

static enum rt_status import_run(struct rt_run *r)
{
    return write(r, true);
}

static enum rt_status remove_run(struct rt_run *r)
{
    struct table *t = table_of(r);

    if (!t)
        return r->err->code;
    enum rt_status st = check_types(r, t);
    if (st || (st = refuse_fixed(r, t, "Remove")))
        return st;
    lock(t);
    for (int64_t k = 0; k < rt_tensor_count(&r->in[1]); k++) {
        const int64_t i = find(t, kn_at(&r->in[1], k));
        if (i < 0)
            continue;
        drop(t->value_type, value_at(t, i), t->n_value);
        t->live[i] = false; /* the key keeps its slot */
        t->n_live--;
    }
    return unlock(t, RT_OK);
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

/* ---- filling a HashTable ---- */

static void value_text(char *room, size_t n, enum rt_dtype dtype, const void *p)
{
    switch (dtype) {
    case RT_STRING:
        snprintf(room, n, "%.*s", (int)((const struct rt_str *)p)->n, rt_str_data(p));
        break;
    case RT_F32:
        snprintf(room, n, "%g", (double)*(const float *)p);
        break;
    case RT_F64:
        snprintf(room, n, "%g", *(const double *)p);
        break;
    default: {
        const struct rt_tensor t = {.dtype = (uint8_t)dtype, .data = (void *)(uintptr_t)p};
        snprintf(room, n, "%lld", (long long)kn_int_at(&t, 0));
    }
    }
}

/* Adds one pair while filling: the same pair twice is fine, another value is not. */
static enum rt_status fill_one(struct table *t, const void *key, const void *value,
                               struct rt_error *err)
{
    int64_t item = 0;
    bool was = false;
    char k[80], a[80], b[80];
    enum rt_status st = put(t, key, value, false, &item, &was, err);

    if (st || !was || kn_same_element(t->value_type, value_at(t, item), value))
        return st;
    value_text(k, sizeof k, t->key_type, key);
    value_text(a, sizeof a, t->value_type, value_at(t, item));
    value_text(b, sizeof b, t->value_type, value);
    return rt_fail(err, RT_FAILED_PRECONDITION,
                   "HashTable has different value for same key. Key %s has %s and trying to add "
                   "value %s",
                   k, a, b);
}

/* What was filled apart becomes the table. One that is filled stays as it is, as TensorFlow's
 * does, whatever a second initialisation brings. */
static void publish(struct table *t, struct table *fresh)
{
    lock(t);
    if (atomic_load(&t->filled)) {
        unlock(t, RT_OK);
        return;
    }
    t->n = fresh->n;
    t->room = fresh->room;
    t->n_live = fresh->n_live;
    t->n_slots = fresh->n_slots;
    t->keys = fresh->keys;
    t->values = fresh->values;
    t->live = fresh->live;
    t->slot = fresh->slot;
    fresh->keys = fresh->values = NULL;
    fresh->live = NULL;
    fresh->slot = NULL;
    fresh->n = fresh->room = fresh->n_live = fresh->n_slots = 0;
    atomic_store_explicit(&t->filled, true, memory_order_release);
    unlock(t, RT_OK);
}

static struct table fresh_like(const struct table *t)
{
    return (struct table){.key_type = t->key_type,
                          .value_type = t->value_type,
                          .value_shape = t->value_shape,
                          .n_value = t->n_value};
}

static struct table *fixed_table_of(struct rt_run *r)
{
    struct table *t = table_of(r);

    if (t && t->is_mutable) {
        rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: the table is not one that is initialized",
                r->node->schema->name);
        return NULL;
    }
    return t;
}

static enum rt_status fill(struct rt_run *r, struct table *t, const struct rt_tensor *keys,
                           const struct rt_tensor *values)
{
    struct table fresh = fresh_like(t);
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < rt_tensor_count(keys) && !st; i++)
        st = fill_one(&fresh, kn_at(keys, i), kn_at(values, i), r->err);
    if (!st)
        publish(t, &fresh);
    table_empty(&fresh);
    return st;
}

static enum rt_status init_run(struct rt_run *r)
{
    struct table *t = fixed_table_of(r);
    const struct rt_tensor *keys = &r->in[1], *values = &r->in[2];

    if (!t)
        return r->err->code;
    enum rt_status st = check_types(r, t);
    if (st)
        return st;
    if (keys->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Keys must be a vector, but received shape%s",
                       KN_TEXT(keys));
    if (values->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Values must be a vector, but received shape%s",
                       KN_TEXT(values));
    if (keys->dim[0] != values->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Keys and values must have the same size %lld vs %lld",
                       (long long)keys->dim[0], (long long)values->dim[0]);
    return atomic_load(&t->filled) ? RT_OK : fill(r, t, keys, values);
}

WRITE(initialize_table, "InitializeTable", init_run)
WRITE(initialize_table_v2, "InitializeTableV2", init_run)

/* ---- from a text file ---- */

enum { WHOLE_LINE = -2, LINE_NUMBER = -1 };

/* A field of a line as an element of this type. */
/* offset: added to line numbers */
static enum rt_status field_value(enum rt_dtype dtype, int64_t index, int64_t line_no,
                                  int64_t offset, struct rt_span field, struct rt_tensor *elem,
                                  struct rt_error *err)
{
    int64_t i = line_no + offset;
    const char *p = (const char *)field.p;

    if (dtype == RT_STRING) {
        if (index == LINE_NUMBER)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Type of the table must be int64 for the line number");
        return rt_str_set(elem->data, NULL, p, field.n, err) ? RT_OK : err->code;
    }
    if (dtype == RT_F32 || dtype == RT_F64) {
        double d = 0;
        float f = 0;
        const bool ok =
            dtype == RT_F32 ? kn_parse_float(p, field.n, &f) : kn_parse_double(p, field.n, &d);
        if (!ok)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Field %.*s in line %lld is not a valid %s.",
                           (int)field.n, p, (long long)line_no, rt_dtype_name(dtype));
        if (dtype == RT_F32)
            *(float *)elem->data = f;
        else
            *(double *)elem->data = d;
        return RT_OK;
    }
    if (index != LINE_NUMBER &&
        (!kn_parse_i64(p, field.n, &i) || (dtype == RT_I32 && i != (int32_t)i)))
        return rt_fail(err, RT_INVALID_ARGUMENT, "Field %.*s in line %lld is not a valid %s.",
                       (int)field.n, p, (long long)line_no, rt_dtype_name(dtype));
    kn_put_int(elem, 0, i);
    return RT_OK;
}

/* Field `index` of a line; false: it has fewer. */
static bool field_of(const char *line, size_t n, char delimiter, int64_t index, struct rt_span *out)
{
    const char *p = line, *end = line + n;

    if (index < 0) {
        *out = rt_span_of(line, n);
        return true;
    }
    for (int64_t k = 0;; k++) {
        const char *d = memchr(p, delimiter, (size_t)(end - p));
        if (k == index) {
            *out = rt_span_of(p, (size_t)((d ? d : end) - p));
            return true;
        }
        if (!d)
            return false;
        p = d + 1;
    }
}

static int64_t columns(const char *line, size_t n, char delimiter)
{
    int64_t k = 1;

    for (size_t i = 0; i < n; i++)
        k += line[i] == delimiter;
    return k;
}

struct text_file {
    int64_t key_index, value_index, vocab_size, offset;
    char delimiter;
};

static enum rt_status one_line(struct table *fresh, const struct text_file *f, const char *path,
                               const char *line, size_t n, int64_t line_no, struct rt_error *err)
{
    uint64_t room[2][4] = {{0}}; /* an element of any type each, a string too */
    struct rt_tensor elem[2];
    const enum rt_dtype type[2] = {fresh->key_type, fresh->value_type};
    const int64_t index[2] = {f->key_index, f->value_index};
    enum rt_status st = RT_OK;

    _Static_assert(sizeof(struct rt_str) <= sizeof room[0], "an element fits");
    for (int i = 0; i < 2 && !st; i++) {
        struct rt_span field;
        elem[i] = (struct rt_tensor){.dtype = (uint8_t)type[i], .data = room[i]};
        if (!field_of(line, n, f->delimiter, index[i], &field))
            st = rt_fail(err, RT_INVALID_ARGUMENT,
                         "Invalid number of columns in %s line %lld (%.*s) : expected at least "
                         "%lld got %lld",
                         path, (long long)line_no, (int)n, line,
                         (long long)((index[0] > index[1] ? index[0] : index[1]) + 1),
                         (long long)columns(line, n, f->delimiter));
        else
            st = field_value(type[i], index[i], line_no, f->offset, field, &elem[i], err);
    }
    if (!st)
        st = fill_one(fresh, room[0], room[1], err);
    for (int i = 0; i < 2; i++)
        drop(type[i], room[i], 1);
    return st;
}

/* A line without its end, and without carriage returns anywhere. False: there is none left. */
static bool next_line(FILE *file, struct rt_bytes *line)
{
    int c = getc_unlocked(file);
    bool any = c != EOF;

    line->n = 0;
    for (; c != EOF && c != '\n' && !line->failed; c = getc_unlocked(file))
        if (c != '\r')
            rt_bytes_addc(line, (char)c);
    return any;
}

enum { MAX_LINE = 64 << 20 };

static enum rt_status read_lines(struct rt_run *r, struct table *fresh, const struct text_file *f,
                                 const char *path)
{
    FILE *file;
    struct rt_bytes line;
    enum rt_status st = rt_open_regular_stream(path, &file, r->err);

    if (st)
        return st;
    int64_t n = 0; /* lines taken */
    rt_bytes_init(&line, MAX_LINE);
    while (!st && (f->vocab_size < 0 || n < f->vocab_size)) {
        if (!next_line(file, &line))
            break;
        if (line.failed)
            st = rt_fail(r->err, RT_RESOURCE_EXHAUSTED, "%s: line %lld has more than %d bytes",
                         path, (long long)n + 1, (int)MAX_LINE);
        else if (line.n == 0)
            st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                         "Invalid content in %s: empty line found at position %lld.", path,
                         (long long)ftell(file));
        else
            st = one_line(fresh, f, path, line.p, line.n, n++, r->err);
        if (!st && n % 4096 == 0)
            st = rt_run_check(r);
    }
    if (!st && n == 0 && f->vocab_size != 0 && !ferror(file))
        st = rt_fail(r->err, RT_OUT_OF_RANGE, "Read less bytes than requested");
    if (!st && ferror(file))
        st = rt_fail(r->err, RT_DATA_LOSS, "%s: reading failed", path);
    if (!st && f->vocab_size >= 0 && n < f->vocab_size)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "Invalid vocab_size in %s: expected %lld but got %lld", path,
                     (long long)f->vocab_size, (long long)n);
    rt_bytes_clear(&line);
    fclose(file);
    return st;
}

static enum rt_status init_file_run(struct rt_run *r)
{
    struct table *t = fixed_table_of(r);
    const struct rt_tensor *name = &r->in[1];
    const struct rt_span delimiter = rt_attr_str(r->node, "delimiter");
    struct text_file f = {.key_index = rt_attr_int(r->node, "key_index"),
                          .value_index = rt_attr_int(r->node, "value_index"),
                          .vocab_size = rt_attr_int(r->node, "vocab_size")};
    char path[4096];

    if (!t)
        return r->err->code;
    f.offset = rt_attr(r->node, "offset") ? rt_attr_int(r->node, "offset") : 0;
    if (rt_tensor_count(name) != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "filename should be a single string, but got %s", KN_TEXT(name));
    if (delimiter.n != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "delimiter should be only 1 char");
    f.delimiter = (char)delimiter.p[0];
    const struct rt_str *s = rt_strs(name);
    if (s->n == 0 || s->n >= sizeof path || memchr(rt_str_data(s), 0, s->n))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Can't open a vocabulary under this name");
    memcpy(path, rt_str_data(s), s->n);
    path[s->n] = '\0';
    if (f.key_index == LINE_NUMBER && t->key_type != RT_I64)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Key index for line number requires table key dtype of int64, got %s",
                       rt_dtype_name(t->key_type));
    if (f.value_index == LINE_NUMBER && t->value_type != RT_I64)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Value index for line number requires table value dtype of int64, got %s",
                       rt_dtype_name(t->value_type));
    if (f.key_index == WHOLE_LINE && t->key_type != RT_STRING)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Key index for whole line requires string or integer table key, got %s",
                       rt_dtype_name(t->key_type));
    if (f.value_index == WHOLE_LINE && t->value_type != RT_STRING)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Value index for whole line requires table value dtype of string, got %s",
                       rt_dtype_name(t->value_type));
    if (atomic_load(&t->filled))
        return RT_OK;
    struct table fresh = fresh_like(t);
    enum rt_status st = read_lines(r, &fresh, &f, path);
    if (!st)
        publish(t, &fresh);
    table_empty(&fresh);
    return st;
}

WRITE(initialize_table_from_text_file, "InitializeTableFromTextFile", init_file_run)
WRITE(initialize_table_from_text_file_v2, "InitializeTableFromTextFileV2", init_file_run)
