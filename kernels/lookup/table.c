/* Look-up tables and the ops on them, but for those that fill a HashTable. */
#include "kernels/lookup/table.h"

#include "kernels/array/hash_set.h"
#include "kernels/list/list.h"
#include "runtime/session/state.h"

#include <stdio.h>
#include <stdlib.h>

void kn_table_drop(enum rt_dtype dtype, void *p, int64_t n)
{
    if (dtype == RT_STRING)
        for (int64_t i = 0; i < n; i++)
            rt_str_clear((struct rt_str *)p + i);
}

/* Nothing is in it any more, and its memory is given back. */
static void clear(struct kn_table *t)
{
    kn_table_drop(t->key_type, t->keys, t->n * t->n_key);
    kn_table_drop(t->value_type, t->values, t->n * t->n_value);
    free(t->keys);
    free(t->values);
    free(t->live);
    free(t->slot);
    t->keys = t->values = NULL;
    t->live = NULL;
    t->slot = NULL;
    t->n = t->room = t->n_live = t->n_slots = 0;
    if (t->pool)
        rt_pool_release(t->pool, t->counted);
    t->counted = 0;
}

void kn_table_count_in(struct rt_run *r, struct kn_table *t)
{
    if (!t->pool)
        t->pool = rt_pool_ref(rt_run_state(r)->pool);
}

void kn_table_fresh(struct rt_run *r, struct kn_table *t, struct kn_table *fresh)
{
    *fresh = (struct kn_table){.key_type = t->key_type,
                               .value_type = t->value_type,
                               .key_shape = t->key_shape,
                               .value_shape = t->value_shape,
                               .n_key = t->n_key,
                               .n_value = t->n_value,
                               .is_mutable = t->is_mutable,
                               .is_dense = t->is_dense,
                               .dense = {.max_load = t->dense.max_load,
                                         .empty = t->dense.empty,
                                         .deleted = t->dense.deleted}};
    kn_table_count_in(r, fresh);
    if (!t->is_mutable) /* nothing was in it */
        return;
    kn_table_lock(t);
    fresh->credit = t->counted;
    if (t->key_type == RT_STRING)
        fresh->credit +=
            rt_state_strings(t->pool, (struct rt_str *)(void *)t->keys, t->n * t->n_key);
    if (t->value_type == RT_STRING)
        fresh->credit +=
            rt_state_strings(t->pool, (struct rt_str *)(void *)t->values, t->n * t->n_value);
    kn_table_unlock(t, RT_OK);
}

void kn_table_replace(struct kn_table *t, struct kn_table *fresh)
{
    clear(t);
    t->n = fresh->n;
    t->room = fresh->room;
    t->n_live = fresh->n_live;
    t->n_slots = fresh->n_slots;
    t->keys = fresh->keys;
    t->values = fresh->values;
    t->live = fresh->live;
    t->slot = fresh->slot;
    t->counted = fresh->counted;
    t->dense.n_buckets = fresh->dense.n_buckets;
    if (!t->pool)
        t->pool = rt_pool_ref(fresh->pool);
    fresh->keys = fresh->values = NULL;
    fresh->live = NULL;
    fresh->slot = NULL;
    fresh->n = fresh->room = fresh->n_live = fresh->n_slots = 0;
    fresh->counted = 0;
}

void kn_table_fresh_end(struct kn_table *fresh)
{
    clear(fresh);
    rt_pool_unref(fresh->pool);
}

static void table_free(struct rt_object *o)
{
    struct kn_table *t = (struct kn_table *)o;

    clear(t);
    kn_table_drop(t->key_type, t->dense.empty, t->dense.empty ? t->n_key : 0);
    kn_table_drop(t->key_type, t->dense.deleted, t->dense.deleted ? t->n_key : 0);
    free(t->dense.empty);
    free(t->dense.deleted);
    rt_pool_unref(t->pool);
    rt_mutex_clear(&t->mu);
    free(t);
}

static const struct rt_object_type table_type = {"hash table", table_free};

enum rt_status kn_table_new(const struct rt_node *n, bool is_mutable, struct kn_table **out,
                            struct rt_error *err)
{
    struct kn_table *t = calloc(1, sizeof *t);

    if (!t)
        return rt_fail_memory(err, n->name, sizeof *t);
    rt_object_init(&t->o, &table_type);
    rt_mutex_init(&t->mu);
    t->key_type = rt_attr_dtype(n, "key_dtype");
    t->value_type = rt_attr_dtype(n, "value_dtype");
    t->is_mutable = is_mutable;
    t->n_key = 1;
    if (rt_attr(n, "value_shape"))
        t->value_shape = *rt_attr_shape(n, "value_shape");
    t->n_value = t->value_shape.rank < 0 ? -1 : kn_shape_total(&t->value_shape);
    enum rt_status st = kn_check_container(n, err);
    if (!st && (t->n_value < 0 || t->value_shape.rank == RT_MAX_RANK))
        st = rt_fail(err, RT_INVALID_ARGUMENT, "%s: value_shape must be fully defined", n->name);
    if (!st && (t->key_type == RT_RESOURCE || t->key_type == RT_VARIANT ||
                t->value_type == RT_RESOURCE || t->value_type == RT_VARIANT))
        st = rt_fail(err, RT_UNIMPLEMENTED, "%s: no table from %s to %s", n->name,
                     rt_dtype_name(t->key_type), rt_dtype_name(t->value_type));
    if (st)
        rt_object_unref(&t->o);
    else
        *out = t;
    return st;
}

static enum rt_status make_object(const struct rt_node *n, bool is_mutable, struct rt_object **out,
                                  struct rt_error *err)
{
    struct kn_table *t = NULL;
    const enum rt_status st = kn_table_new(n, is_mutable, &t, err);

    if (!st)
        *out = &t->o;
    return st;
}

static enum rt_status make_fixed(const struct rt_node *n, const struct rt_tensor *in,
                                 struct rt_object **out, struct rt_error *err)
{
    (void)in;
    return make_object(n, false, out, err);
}

static enum rt_status make_mutable(const struct rt_node *n, const struct rt_tensor *in,
                                   struct rt_object **out, struct rt_error *err)
{
    (void)in;
    return make_object(n, true, out, err);
}

static enum rt_status make_of_tensors(const struct rt_node *n, const struct rt_tensor *in,
                                      struct rt_object **out, struct rt_error *err)
{
    const struct rt_shape *shape = rt_attr_shape(n, "value_shape");

    if (shape->rank >= 0 && shape->rank != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Default value must be a vector, got shape %s",
                       KN_TEXT(shape));
    return make_mutable(n, in, out, err);
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
      make_of_tensors)
TABLE(mutable_hash_table_of_tensors_v2, "MutableHashTableOfTensorsV2",
      "mutable hash table of tensors", make_of_tensors)

/* ---- items ---- */

enum { KEY_WORK = 128 }; /* of hashing a key and reading what memory holds of it, uncached */

static size_t key_bytes(const struct kn_table *t)
{
    return (size_t)t->n_key * rt_dtype_size(t->key_type);
}

const void *kn_table_key(const struct kn_table *t, int64_t i)
{
    return t->keys + (size_t)i * key_bytes(t);
}

static size_t value_bytes(const struct kn_table *t)
{
    return (size_t)t->n_value * rt_dtype_size(t->value_type);
}

void *kn_table_value(const struct kn_table *t, int64_t item)
{
    return t->values + (size_t)item * value_bytes(t);
}

int64_t kn_table_work(const struct kn_table *t)
{
    return KEY_WORK * t->n_key + 8 * t->n_value;
}

bool kn_table_same_key(const struct kn_table *t, const void *a, const void *b)
{
    const size_t each = rt_dtype_size(t->key_type);
    const char *x = a, *y = b;

    for (int64_t k = 0; k < t->n_key; k++)
        if (!kn_same_element(t->key_type, x + (size_t)k * each, y + (size_t)k * each))
            return false;
    return true;
}

static int64_t first_slot(const struct kn_table *t, const void *key, int64_t n_slots)
{
    return (int64_t)(kn_hash_elements(t->key_type, key, t->n_key) & (uint64_t)(n_slots - 1));
}

/* *at: the slot of `key`, one that holds it, or the free one where it belongs. */
static enum rt_status slot_of(struct rt_run *r, int64_t *left, const struct kn_table *t,
                              const void *key, int64_t *at)
{
    int64_t s = first_slot(t, key, t->n_slots);
    enum rt_status st = rt_run_spend(r, left, kn_table_work(t));

    for (; !st && t->slot[s] && !kn_table_same_key(t, kn_table_key(t, t->slot[s] - 1), key);
         s = (s + 1) & (t->n_slots - 1))
        st = rt_run_spend(r, left, KN_PROBE_WORK);
    *at = s;
    return st;
}

/* *item: that of the key, or -1. */
static enum rt_status find(struct rt_run *r, int64_t *left, const struct kn_table *t,
                           const void *key, int64_t *item)
{
    int64_t s;

    *item = -1;
    if (t->n_live == 0)
        return rt_run_spend(r, left, 1);
    const enum rt_status st = slot_of(r, left, t, key, &s);
    if (!st && t->slot[s] && t->live[t->slot[s] - 1])
        *item = t->slot[s] - 1;
    return st;
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

/* *out: slots for the items as they are, or as they will be numbered when only those that live are
 * left. Nothing of the table changes. */
static enum rt_status index_items(struct rt_run *r, int64_t *left, const struct kn_table *t,
                                  bool only_live, int64_t n_slots, int64_t **out)
{
    int64_t *slot = calloc((size_t)n_slots, sizeof *slot), n = 0;
    enum rt_status st = RT_OK;

    if (!slot)
        return rt_fail_memory(r->err, "a hash table", (size_t)n_slots * sizeof *slot);
    for (int64_t i = 0; i < t->n && !st; i++) {
        if (only_live && !t->live[i])
            continue;
        int64_t s = first_slot(t, kn_table_key(t, i), n_slots);
        for (; slot[s] && !st; s = (s + 1) & (n_slots - 1))
            st = rt_run_spend(r, left, KN_PROBE_WORK);
        slot[s] = ++n;
        st = st ? st : rt_run_spend(r, left, kn_table_work(t));
    }
    if (st)
        free(slot);
    else
        *out = slot;
    return st;
}

static void take_slots(struct kn_table *t, int64_t *slot, int64_t n_slots)
{
    free(t->slot);
    t->slot = slot;
    t->n_slots = n_slots;
}

/* Items that were removed keep their place until there is no room left: then they go if they are
 * the most, so that a table whose keys come and go does not grow. */
static enum rt_status compact(struct rt_run *r, int64_t *left, struct kn_table *t)
{
    const size_t bytes = (size_t)t->n_slots * sizeof *t->slot;
    int64_t n = 0, *slot;
    /* There are two arrays of slots for a while: the second is the run's, for a table that is at
     * its limit must be able to do this. */
    enum rt_status st = rt_pool_hold(rt_run_pool(r), bytes, 0, "a hash table", r->err);

    if (st)
        return st;
    st = index_items(r, left, t, true, t->n_slots, &slot);
    rt_pool_release(rt_run_pool(r), bytes);
    if (st)
        return st;
    for (int64_t i = 0; i < t->n; i++) {
        char *key = t->keys + (size_t)i * key_bytes(t);
        if (!t->live[i]) {
            kn_table_drop(t->key_type, key, t->n_key);
            continue;
        }
        if (i != n) {
            memcpy(t->keys + (size_t)n * key_bytes(t), key, key_bytes(t));
            memcpy(kn_table_value(t, n), kn_table_value(t, i), value_bytes(t));
        }
        t->live[n++] = true;
    }
    memset(t->keys + (size_t)n * key_bytes(t), 0, (size_t)(t->n - n) * key_bytes(t));
    memset(kn_table_value(t, n), 0, (size_t)(t->n - n) * value_bytes(t));
    memset(t->live + n, 0, (size_t)(t->n - n) * sizeof *t->live);
    t->n = n;
    take_slots(t, slot, t->n_slots);
    return RT_OK;
}

/* Bytes more of the table's arrays. */
static enum rt_status count(struct kn_table *t, size_t bytes, struct rt_error *err)
{
    const enum rt_status st = rt_pool_hold(t->pool, bytes, t->credit, "a hash table", err);
    t->counted += st ? 0 : bytes;
    return st;
}

static void count_less(struct kn_table *t, size_t bytes)
{
    rt_pool_release(t->pool, bytes);
    t->counted -= bytes;
}

static enum rt_status reserve_items(struct kn_table *t, int64_t n, struct rt_error *err)
{
    const int64_t room = n > 2 * t->room ? n : 2 * t->room;
    const size_t each = key_bytes(t) + value_bytes(t) + sizeof *t->live;
    void *k = t->keys, *v = t->values, *l = t->live;

    if (room > KN_TABLE_MAX || room > INT64_MAX / 64 / t->n_key ||
        (t->n_value && room > INT64_MAX / 64 / t->n_value))
        return rt_fail_memory(err, "a hash table", (size_t)room);
    const size_t more = (size_t)(room - t->room) * each;
    const enum rt_status st = count(t, more, err);
    if (st)
        return st;
    bool ok = grow(&k, t->room, room, key_bytes(t));
    t->keys = k;
    ok = ok && grow(&v, t->room, room, value_bytes(t));
    t->values = v;
    ok = ok && grow(&l, t->room, room, sizeof *t->live);
    t->live = l;
    if (!ok) {
        count_less(t, more);
        return rt_fail_memory(err, "a hash table", (size_t)room);
    }
    t->room = room;
    return RT_OK;
}

static enum rt_status reserve_slots(struct rt_run *r, int64_t *left, struct kn_table *t, int64_t n)
{
    const int64_t n_slots = kn_hash_slots(2 * n);
    const size_t bytes = (size_t)n_slots * sizeof *t->slot;
    enum rt_status st = count(t, bytes, r->err);
    int64_t *slot;

    if (st)
        return st;
    st = index_items(r, left, t, false, n_slots, &slot);
    if (st) {
        count_less(t, bytes);
        return st;
    }
    count_less(t, (size_t)t->n_slots * sizeof *slot);
    take_slots(t, slot, n_slots);
    return RT_OK;
}

static enum rt_status reserve(struct rt_run *r, int64_t *left, struct kn_table *t)
{
    enum rt_status st = RT_OK;

    if (t->n == t->room && t->n > 2 * t->n_live)
        st = compact(r, left, t);
    const int64_t n = t->n + 1;
    if (!st && n > t->room)
        st = reserve_items(t, n, r->err);
    if (!st && 2 * n > t->n_slots)
        st = reserve_slots(r, left, t, n);
    return st;
}

/* Strings that the table is about to share with whoever brought them. */
static enum rt_status keep_strings(const struct kn_table *t, enum rt_dtype dtype, const void *p,
                                   int64_t n, const void *old, struct rt_error *err)
{
    return dtype == RT_STRING ? rt_state_keep_strings(t->pool, p, n, old, t->credit, err) : RT_OK;
}

enum rt_status kn_table_put(struct rt_run *r, int64_t *left, struct kn_table *t, const void *key,
                            const void *value, bool replace, int64_t *item, bool *was)
{
    int64_t s;
    enum rt_status st = reserve(r, left, t);

    if (!st)
        st = slot_of(r, left, t, key, &s);
    if (st)
        return st;
    int64_t i = t->slot[s] - 1;
    *was = i >= 0 && t->live[i];
    if (i < 0)
        st = keep_strings(t, t->key_type, key, t->n_key, NULL, r->err);
    if (!st && (!*was || replace))
        st = keep_strings(t, t->value_type, value, t->n_value, *was ? kn_table_value(t, i) : NULL,
                          r->err);
    if (st)
        return st;
    if (i < 0) {
        i = t->n;
        kn_copy(t->key_type, t->keys + (size_t)i * key_bytes(t), key, t->n_key);
        t->n++;
        t->slot[s] = i + 1;
    }
    *item = i;
    if (*was && !replace)
        return RT_OK;
    t->n_live += !*was;
    t->live[i] = true;
    kn_copy(t->value_type, kn_table_value(t, i), value, t->n_value);
    return RT_OK;
}

/* ---- what the ops begin with ---- */

struct kn_table *kn_table_of(struct rt_run *r)
{
    struct rt_object *o = rt_tensor_count(&r->in[0]) == 1 ? rt_tensor_handle(&r->in[0]) : NULL;

    if (o && o->type == &table_type)
        return (struct kn_table *)o;
    rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: the handle is not one of a table",
            r->node->schema->name);
    return NULL;
}

void kn_table_lock(struct kn_table *t) RT_NO_ANALYSIS
{
    rt_mutex_lock(&t->mu);
}

enum rt_status kn_table_unlock(struct kn_table *t, enum rt_status st) RT_NO_ANALYSIS
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

/* How many keys input 1 holds, and the shape of one value for each. */
static enum rt_status keys_of(struct rt_run *r, const struct kn_table *t, int64_t *n,
                              struct rt_shape *values)
{
    const struct rt_tensor *keys = &r->in[1];
    enum rt_status st = kn_table_types(r, t);

    if (st)
        return st;
    kn_shape_get(keys, values);
    if (t->key_shape.rank) {
        if (keys->rank != 2 || keys->dim[1] != t->n_key)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected key shape [%lld,%lld] got %s",
                           (long long)(keys->rank ? keys->dim[0] : 1), (long long)t->n_key,
                           KN_TEXT(keys));
        values->rank = 1;
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
    /* A default for each key is taken for that by some tables only; the others take the first. */
    const bool each = t->is_mutable && !t->is_dense && !has_shape(other, &t->value_shape);
    if (!t->is_mutable && !atomic_load_explicit(&t->filled, memory_order_acquire))
        return rt_fail(r->err, RT_FAILED_PRECONDITION, "Table not initialized.");
    if (!kn_out(r, 0, out.rank, out.dim))
        return r->err->code;
    if (t->is_mutable)
        kn_table_lock(t);
    for (int64_t i = 0; i < n && !st; i++) {
        const void *key = kn_at(keys, i * t->n_key);
        int64_t at;
        if ((st = kn_dense_check_key(t, key, r->err)) || (st = find(r, &left, t, key, &at)))
            break;
        const void *v = at >= 0 ? kn_table_value(t, at) : kn_at(other, each ? i * t->n_value : 0);
        st = kn_copy_run(r, t->value_type, kn_at_mut(&r->out[0], i * t->n_value), v, t->n_value);
    }
    return t->is_mutable ? kn_table_unlock(t, st) : st;
}

/* Which shapes keys and values have is known by the table alone, so infer reads the handle. */
static enum rt_status find_infer(struct rt_infer *x)
{
    const struct rt_tensor *handle = x->in[0].value;
    const struct rt_object *o =
        handle && rt_tensor_count(handle) == 1 && handle->data ? rt_tensor_handle(handle) : NULL;
    const struct rt_shape *k = &x->in[1].shape;

    if (!o || o->type != &table_type || !kn_shape_known(k))
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

/* A default for each key fits one number of rows only. */
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
    kn_table_lock(t);
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
    kn_table_lock(t);
    enum rt_status st = RT_OK;
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
        if ((st = rt_run_spend(r, &left, kn_table_work(t))) || !t->live[i])
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

/* What was inserted before the refusal stays in the table, as in TensorFlow. */
static void say_how_many(struct rt_error *err, int64_t done, int64_t n)
{
    struct rt_error why = {0};
    rt_error_copy(&why, err);
    rt_fail(err, why.code, "%s; %lld of %lld pairs were inserted before", rt_error_text(&why),
            (long long)done, (long long)n);
}

/* The pairs of inputs 1 and 2, in order. *done: how many are in the table by then. */
static enum rt_status put_pairs(struct rt_run *r, struct kn_table *t, int64_t n, int64_t *done)
{
    int64_t item, left = RT_WORK;
    enum rt_status st = RT_OK;
    bool was;

    for (*done = 0; *done < n; ++*done) {
        const void *key = kn_at(&r->in[1], *done * t->n_key);
        if ((st = kn_dense_check_key(t, key, r->err)) ||
            (st = kn_table_put(r, &left, t, key, kn_at(&r->in[2], *done * t->n_value), true, &item,
                               &was)))
            break;
    }
    return st;
}

/* *n: how many pairs inputs 1 and 2 are. */
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
    if (st || (st = refuse_fixed(r, t, "Insert")))
        return st;
    kn_table_lock(t);
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
    kn_table_fresh(r, t, &fresh);
    st = t->is_dense ? kn_dense_import(r, &fresh) : put_pairs(r, &fresh, n, &done);
    if (!st) {
        kn_table_lock(t);
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
    if (st || (st = refuse_fixed(r, t, "Remove")))
        return st;
    kn_table_lock(t);
    for (int64_t k = 0; k < n && !st; k++) {
        const void *key = kn_at(&r->in[1], k * t->n_key);
        int64_t i;
        if ((st = kn_dense_check_key(t, key, r->err)) || (st = find(r, &left, t, key, &i)))
            break;
        if (i < 0)
            continue;
        kn_table_drop(t->value_type, kn_table_value(t, i), t->n_value);
        t->live[i] = false; /* the key keeps its slot */
        t->n_live--;
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
