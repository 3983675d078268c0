/* Creates and destroys look-up tables, and stores their pairs. */
#include "kernels/lookup/table.h"

#include "kernels/array/hash_set.h"
#include "kernels/list/list.h"
#include "runtime/core/copy.h"
#include "runtime/session/state.h"
#include "runtime/session/resource.h"

#include <stdio.h>
#include <stdlib.h>

void kn_table_drop(enum rt_dtype dtype, void *p, int64_t n)
{
    if (dtype == RT_STRING)
        for (int64_t i = 0; i < n; i++)
            rt_str_clear((struct rt_str *)p + i);
}

static void free_arrays(struct kn_table *t)
{
    free(t->keys);
    free(t->values);
    free(t->live);
    free(t->slot);
}

static void clear(struct kn_table *t)
{
    kn_table_drop(t->key_type, t->keys, t->n * t->n_key);
    kn_table_drop(t->value_type, t->values, t->n * t->n_value);
    free_arrays(t);
    t->keys = t->values = NULL;
    t->live = NULL;
    t->slot = NULL;
    t->n = t->capacity = t->n_live = t->n_slots = 0;
    rt_pool_release(t->pool, t->counted);
    t->counted = 0;
}

void kn_table_count_in(struct rt_run *r, struct kn_table *t)
{
    if (!t->pool)
        t->pool = rt_pool_ref(rt_run_state(r)->pool);
}

enum rt_status kn_table_fresh(struct rt_run *r, struct kn_table *t, struct kn_table *fresh)
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
    if (!t->is_mutable) /* a table that is filled only once never has pairs to replace */
        return RT_OK;
    if (kn_table_lock(r, t))
        return r->err->code;
    fresh->credit = t->counted;
    if (t->key_type == RT_STRING)
        fresh->credit +=
            rt_state_strings(t->pool, (struct rt_str *)(void *)t->keys, t->n * t->n_key);
    if (t->value_type == RT_STRING)
        fresh->credit +=
            rt_state_strings(t->pool, (struct rt_str *)(void *)t->values, t->n * t->n_value);
    return kn_table_unlock(t, RT_OK);
}

void kn_table_replace(struct kn_table *t, struct kn_table *fresh)
{
    clear(t);
    t->n = fresh->n;
    t->capacity = fresh->capacity;
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
    fresh->n = fresh->capacity = fresh->n_live = fresh->n_slots = 0;
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
    if (t->value_shape.rank < 0) /* TensorFlow treats an unknown shape as []. */
        t->value_shape.rank = 0;
    t->n_value = kn_shape_total(&t->value_shape);
    enum rt_status st = rt_attr(n, "container") ? kn_check_container(n, err) : RT_OK;
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

static enum rt_status make_fixed(const struct rt_make *make, struct rt_object **out)
{
    return make_object(make->node, false, out, make->err);
}

static enum rt_status make_mutable(const struct rt_make *make, struct rt_object **out)
{
    return make_object(make->node, true, out, make->err);
}

static enum rt_status make_of_tensors(const struct rt_make *make, struct rt_object **out)
{
    struct rt_shape shape = *rt_attr_shape(make->node, "value_shape");

    if (shape.rank < 0)
        shape.rank = 0; /* as in kn_table_new */
    if (shape.rank != 1)
        return rt_fail(make->err, RT_INVALID_ARGUMENT,
                       "Default value must be a vector, got shape %s", KN_TEXT(&shape));
    return make_mutable(make, out);
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

/* ---- anonymous tables ---- */

enum rt_status kn_table_anonymous(struct rt_run *r,
                                  enum rt_status (*make)(const struct rt_make *make,
                                                         struct rt_object **out))
{
    const struct rt_check check = rt_run_as_check(r);
    const struct rt_make arguments = {.node = r->node,
                                      .in = r->in,
                                      .pool = rt_run_state(r)->pool,
                                      .check = &check,
                                      .err = r->err};
    struct rt_object *o = NULL;
    const enum rt_status st = make(&arguments, &o);

    return st ? st : rt_out_object(r, 0, o);
}

#define ANONYMOUS(symbol, op_, make_)                                                              \
    static enum rt_status symbol##_run(struct rt_run *r)                                           \
    {                                                                                              \
        return kn_table_anonymous(r, make_);                                                       \
    }                                                                                              \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_RANDOM},                                                \
        .kernels = KN_KERNELS({.op = (op_),                                                        \
                               .device = "CPU",                                                    \
                               .name = #symbol,                                                    \
                               .type_attr = "key_dtype",                                           \
                               .run = symbol##_run}),                                              \
    };
ANONYMOUS(anonymous_hash_table, "AnonymousHashTable", make_fixed)
ANONYMOUS(anonymous_mutable_hash_table, "AnonymousMutableHashTable", make_mutable)
ANONYMOUS(anonymous_mutable_hash_table_of_tensors, "AnonymousMutableHashTableOfTensors",
          make_of_tensors)

/* ---- items ---- */

/* The value of a slot whose pair has been removed. The item of the pair is no longer live. */
enum { REMOVED = -1 };
/* the cost of hashing a key and reading its pair from uncached memory, in units of rt_run_spend */
enum { KEY_WORK = 128 };
/* The cost of the first write to a page of new memory, in units of rt_run_spend. 4,096 such writes
 * take as long as RT_WORK units (runtime/core/run.h). */
enum { FAULT_WORK = RT_WORK / 4096 };

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

int64_t kn_table_work(const struct kn_table *t, const void *key)
{
    return KEY_WORK * t->n_key + 8 * t->n_value + kn_text_work(t->key_type, key, t->n_key);
}

bool kn_table_same_key(const struct kn_table *t, const void *a, const void *b,
                       struct kn_reader *read)
{
    const size_t each = rt_dtype_size(t->key_type);
    const char *x = a, *y = b;

    for (int64_t k = 0; k < t->n_key; k++)
        if (!kn_same_element(t->key_type, x + (size_t)k * each, y + (size_t)k * each, read))
            return false;
    return true;
}

static int64_t first_slot(const struct kn_table *t, const void *key, int64_t n_slots,
                          struct kn_reader *read)
{
    return (int64_t)(kn_hash_elements(t->key_type, key, t->n_key, read) & (uint64_t)(n_slots - 1));
}

/* Sets *at to the slot that holds `key`, or to the free slot for it. */
static enum rt_status slot_of(struct rt_run *r, int64_t *left, const struct kn_table *t,
                              const void *key, int64_t *at)
{
    const int64_t probe = KN_PROBE_WORK + kn_text_work(t->key_type, key, t->n_key);
    struct kn_reader read = {.r = r, .left = left};
    int64_t s = first_slot(t, key, t->n_slots, &read);
    enum rt_status st = read.st ? read.st : rt_run_spend(r, left, kn_table_work(t, key));

    while (!st && t->slot[s]) {
        if (t->slot[s] != REMOVED &&
            kn_table_same_key(t, kn_table_key(t, t->slot[s] - 1), key, &read))
            break;
        s = (s + 1) & (t->n_slots - 1);
        st = read.st ? read.st : rt_run_spend(r, left, probe);
    }
    *at = s;
    return st ? st : read.st;
}

enum rt_status kn_table_find(struct rt_run *r, int64_t *left, const struct kn_table *t,
                             const void *key, int64_t *item)
{
    int64_t s;

    *item = -1;
    /* counts the work of kn_dense_check_key, which may have compared the complete key */
    if (t->n_live == 0)
        return rt_run_spend(r, left, 1 + kn_text_work(t->key_type, key, t->n_key));
    const enum rt_status st = slot_of(r, left, t, key, &s);
    if (!st)
        *item = t->slot[s] - 1;
    return st;
}

enum rt_status kn_table_remove(struct rt_run *r, int64_t *left, struct kn_table *t, const void *key)
{
    int64_t s;

    if (t->n_live == 0)
        return rt_run_spend(r, left, 1 + kn_text_work(t->key_type, key, t->n_key));
    const enum rt_status st = slot_of(r, left, t, key, &s);
    if (st || !t->slot[s])
        return st;
    const int64_t i = t->slot[s] - 1;
    kn_table_drop(t->key_type, t->keys + (size_t)i * key_bytes(t), t->n_key);
    kn_table_drop(t->value_type, kn_table_value(t, i), t->n_value);
    t->live[i] = false;
    t->slot[s] = REMOVED;
    t->n_live--;
    return RT_OK;
}

static bool grow(void **p, int64_t capacity, size_t each)
{
    void *q = realloc(*p, (size_t)capacity * each + 1);

    if (q)
        *p = q;
    return q;
}

/*
 * Sets *out to a new array of n_slots slots for the live items. If `renumbers` is set, the slots
 * hold the indices that compact() will give the items. Does not change the table.
 *
 * Hashes choose the slots, so any item may be the first to write to its page. If page faults were
 * not counted as work, 16,384 items would be indexed between two checks of the run. Indexing that
 * many items took 24 to 37 ms.
 */
static enum rt_status index_items(struct rt_run *r, int64_t *left, const struct kn_table *t,
                                  bool renumbers, int64_t n_slots, int64_t **out)
{
    int64_t *slot = calloc((size_t)n_slots, sizeof *slot), n = 0;
    struct kn_reader read = {.r = r, .left = left};
    enum rt_status st = RT_OK;

    if (!slot)
        return rt_fail_memory(r->err, "a hash table", (size_t)n_slots * sizeof *slot);
    for (int64_t i = 0; i < t->n && !st; i++) {
        if (!t->live[i]) {
            st = rt_run_spend(r, left, 1);
            continue;
        }
        int64_t s = first_slot(t, kn_table_key(t, i), n_slots, &read);
        for (st = read.st; slot[s] && !st; s = (s + 1) & (n_slots - 1))
            st = rt_run_spend(r, left, KN_PROBE_WORK);
        slot[s] = 1 + (renumbers ? n++ : i);
        st = st ? st : rt_run_spend(r, left, FAULT_WORK + kn_table_work(t, kn_table_key(t, i)));
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

/* Appends the live items of `t` to `c`, whose arrays must be large enough, but does not fill c's
 * slots. The copies do not own the items' strings. */
static enum rt_status copy_live(struct rt_run *r, int64_t *left, const struct kn_table *t,
                                struct kn_table *c)
{
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < t->n && !st; i++) {
        if (t->live[i]) {
            memcpy(c->keys + (size_t)c->n * key_bytes(t), kn_table_key(t, i), key_bytes(t));
            memcpy(kn_table_value(c, c->n), kn_table_value(t, i), value_bytes(t));
            c->live[c->n++] = true;
        }
        st = rt_run_spend(r, left, 4 + 8 * (t->n_key + t->n_value));
    }
    return st;
}

/*
 * Removes dead items, whose strings have already been freed. A dead item keeps its position until
 * the arrays are full. If more than half of the items are then dead, the table is compacted instead
 * of enlarged. The size of a table whose keys change constantly thus stays bounded.
 *
 * The live items are copied to new arrays, so that the table is unchanged if the run ends before
 * all are copied.
 */
static enum rt_status compact(struct rt_run *r, int64_t *left, struct kn_table *t)
{
    const size_t each = key_bytes(t) + value_bytes(t) + sizeof *t->live;
    const size_t bytes = (size_t)t->n_slots * sizeof *t->slot + (size_t)t->n_live * each;
    struct kn_table c = {.key_type = t->key_type,
                         .value_type = t->value_type,
                         .n_key = t->n_key,
                         .n_value = t->n_value};
    /* The old and the new arrays exist at the same time. The new arrays are counted in the run's
     * memory, not in the table's, so that a table at its limit can still be compacted. */
    enum rt_status st = rt_pool_hold(rt_run_pool(r), bytes, 0, "a hash table", r->err);

    if (st)
        return st;
    c.keys = malloc((size_t)t->capacity * key_bytes(t) + 1);
    c.values = malloc((size_t)t->capacity * value_bytes(t) + 1);
    c.live = malloc((size_t)t->capacity * sizeof *c.live + 1);
    if (!c.keys || !c.values || !c.live)
        st = rt_fail_memory(r->err, "a hash table", bytes);
    st = st ? st : index_items(r, left, t, true, t->n_slots, &c.slot);
    st = st ? st : copy_live(r, left, t, &c);
    rt_pool_release(rt_run_pool(r), bytes);
    if (st) {
        free_arrays(&c);
        return st;
    }
    free_arrays(t);
    t->keys = c.keys;
    t->values = c.values;
    t->live = c.live;
    t->slot = c.slot;
    t->n = c.n;
    return RT_OK;
}

/* Counts `bytes` bytes of the table's arrays in the table's memory pool. */
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
    const int64_t capacity = n > 2 * t->capacity ? n : 2 * t->capacity;
    const size_t each = key_bytes(t) + value_bytes(t) + sizeof *t->live;
    void *k = t->keys, *v = t->values, *l = t->live;

    if (capacity > KN_TABLE_MAX || capacity > INT64_MAX / 64 / t->n_key ||
        (t->n_value && capacity > INT64_MAX / 64 / t->n_value))
        return rt_fail_memory(err, "a hash table", (size_t)capacity);
    const size_t more = (size_t)(capacity - t->capacity) * each;
    const enum rt_status st = count(t, more, err);
    if (st)
        return st;
    bool ok = grow(&k, capacity, key_bytes(t));
    t->keys = k;
    ok = ok && grow(&v, capacity, value_bytes(t));
    t->values = v;
    ok = ok && grow(&l, capacity, sizeof *t->live);
    t->live = l;
    if (!ok) {
        count_less(t, more);
        return rt_fail_memory(err, "a hash table", (size_t)capacity);
    }
    t->capacity = capacity;
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

    if (t->n == t->capacity && t->n > 2 * t->n_live)
        st = compact(r, left, t);
    int64_t n = t->n + 1;
    if (!st && n > t->capacity) {
        st = reserve_items(t, n, r->err);
        /* If pairs have been removed, compaction frees memory in a table at its memory limit. */
        if (st == RT_RESOURCE_EXHAUSTED && t->n > t->n_live)
            st = compact(r, left, t);
    }
    n = t->n + 1;
    if (!st && 2 * n > t->n_slots)
        st = reserve_slots(r, left, t, n);
    return st;
}

/* Charges n strings, which the table will share with an input tensor, to the table's memory
 * pool. */
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
    *was = i >= 0;
    if (!*was)
        st = keep_strings(t, t->key_type, key, t->n_key, NULL, r->err);
    if (!st && (!*was || replace))
        st = keep_strings(t, t->value_type, value, t->n_value, *was ? kn_table_value(t, i) : NULL,
                          r->err);
    if (st)
        return st;
    if (!*was) {
        i = t->n;
        memset(t->keys + (size_t)i * key_bytes(t), 0, key_bytes(t));
        memset(kn_table_value(t, i), 0, value_bytes(t));
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

/* ---- checks that every table op begins with ---- */

bool kn_is_table(const struct rt_object *o)
{
    return o->type == &table_type;
}

struct kn_table *kn_table_of(struct rt_run *r)
{
    struct rt_object *o = rt_tensor_count(&r->in[0]) == 1 ? rt_tensor_handle(&r->in[0]) : NULL;

    if (o && kn_is_table(o))
        return (struct kn_table *)o;
    rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: the handle is not one of a table",
            r->node->schema->name);
    return NULL;
}

enum rt_status kn_table_lock(struct rt_run *r, struct kn_table *t) RT_NO_ANALYSIS
{
    return rt_run_lock(r, &t->mu);
}

enum rt_status kn_table_unlock(struct kn_table *t, enum rt_status st) RT_NO_ANALYSIS
{
    rt_mutex_unlock(&t->mu);
    return st;
}
