/*
 * MutableDenseHashTable stores pairs like the other tables, but has two reserved keys. It exports
 * TensorFlow's array of buckets, including the empty ones, so that TensorFlow finds every key in
 * the expected bucket after restoring a checkpoint that Slipway wrote.
 */
#include "kernels/lookup/table.h"

#include "kernels/array/array.h"
#include "kernels/string/farmhash.h"
#include "kernels/array/hash_set.h"
#include "kernels/list/list.h"
#include "runtime/base/checked.h"

#include <stdlib.h>

/* Checks a table's attributes and reserved keys, with TensorFlow's error messages. */
static enum rt_status table_dense_check(const struct rt_node *n, const struct kn_table *t,
                                        const struct rt_tensor *empty,
                                        const struct rt_tensor *deleted, struct rt_error *err)
{
    const int64_t buckets = rt_attr_int(n, "initial_num_buckets");
    const float load = rt_attr_float(n, "max_load_factor");

    if (empty->rank > 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Empty key must be a scalar or a vector, got shape %s", KN_TEXT(empty));
    if (t->value_shape.rank > 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Empty value must be a scalar or a vector, got shape %s",
                       KN_TEXT(&t->value_shape));
    if (empty->rank != deleted->rank || rt_tensor_count(empty) != rt_tensor_count(deleted))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Empty and deleted keys must have same shape, got shapes: %s and %s",
                       KN_TEXT(empty), KN_TEXT(deleted));
    if (empty->dtype != t->key_type || deleted->dtype != t->key_type || !rt_tensor_count(empty))
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: empty_key is no key of the table", n->name);
    if (kn_table_same_key(t, empty->data, deleted->data, NULL))
        return rt_fail(err, RT_INVALID_ARGUMENT, "Empty and deleted keys cannot be equal");
    if (buckets < 4 || (buckets & (buckets - 1)))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Number of buckets must be at least 4 and a power of 2, got: %lld",
                       (long long)buckets);
    if (!(load > 0 && load < 1))
        return rt_fail(err, RT_INVALID_ARGUMENT, "max_load_factor must be between 0 and 1, got: %g",
                       (double)load);
    return buckets <= KN_TABLE_MAX ? RT_OK : rt_fail_memory(err, n->name, (size_t)buckets);
}

static char *copy_key(const struct kn_table *t, const struct rt_tensor *key, struct rt_error *err)
{
    char *copy = calloc((size_t)t->n_key, rt_dtype_size(t->key_type));

    if (copy)
        kn_copy(t->key_type, copy, key->data, t->n_key);
    else
        rt_fail_memory(err, "a hash table", (size_t)t->n_key);
    return copy;
}

static enum rt_status make_dense(const struct rt_make *make, struct rt_object **out)
{
    struct kn_table *t = NULL;
    enum rt_status st = kn_table_new(make->node, true, &t, make->err);

    if (st)
        return st;
    kn_shape_get(&make->in[0], &t->key_shape);
    t->n_key = rt_tensor_count(&make->in[0]);
    st = table_dense_check(make->node, t, &make->in[0], &make->in[1], make->err);
    if (!st) {
        t->is_dense = true;
        t->dense.n_buckets = rt_attr_int(make->node, "initial_num_buckets");
        t->dense.max_load = rt_attr_float(make->node, "max_load_factor");
        t->dense.empty = copy_key(t, &make->in[0], make->err);
        t->dense.deleted = copy_key(t, &make->in[1], make->err);
        st = t->dense.empty && t->dense.deleted ? RT_OK : make->err->code;
    }
    if (st)
        rt_object_unref(&t->o);
    else
        *out = &t->o;
    return st;
}

const struct kn_entry kn_mutable_dense_hash_table_v2 = {
    .op = {.name = "MutableDenseHashTableV2",
           .infer = kn_infer_scalars,
           .slot_kind = "mutable dense hash table",
           .make = make_dense},
};

static enum rt_status anonymous_run(struct rt_run *r)
{
    return kn_table_anonymous(r, make_dense);
}

const struct kn_entry kn_anonymous_mutable_dense_hash_table = {
    .op = {.name = "AnonymousMutableDenseHashTable", .effect = RT_RANDOM},
    .kernels = KN_KERNELS({.op = "AnonymousMutableDenseHashTable",
                           .device = "CPU",
                           .name = "anonymous_mutable_dense_hash_table",
                           .type_attr = "key_dtype",
                           .run = anonymous_run}),
};

enum rt_status kn_dense_check_key(struct rt_run *r, int64_t *left, const struct kn_table *t,
                                  const void *key)
{
    struct kn_reader read = {.r = r, .left = left};
    const char *which = !t->is_dense                                         ? NULL
                        : kn_table_same_key(t, key, t->dense.empty, &read)   ? "empty_key"
                        : kn_table_same_key(t, key, t->dense.deleted, &read) ? "deleted_key"
                                                                             : NULL;
    if (read.st)
        return read.st;
    return which ? rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Using the %s as a table key is not allowed", which)
                 : RT_OK;
}

enum rt_status kn_dense_grow(struct kn_table *t, int64_t more, struct rt_error *err)
{
    int64_t n = t->dense.n_buckets;

    /* The load factor is compared in float, as in TensorFlow, because the exported array depends on
     * the number of buckets. */
    while ((float)(t->n_live + more) > (float)n * t->dense.max_load && n <= KN_TABLE_MAX)
        n *= 2;
    if (n > KN_TABLE_MAX)
        return rt_fail_memory(err, "a hash table", (size_t)n);
    t->dense.n_buckets = n;
    return RT_OK;
}

/* ---- buckets ---- */

static uint64_t hash_element(enum rt_dtype dtype, const void *p, struct kn_reader *read)
{
    const struct rt_tensor t = {.dtype = (uint8_t)dtype, .data = (void *)(uintptr_t)p};

    switch (dtype) {
    case RT_STRING:
        return kn_murmur64(rt_str_data(p), ((const struct rt_str *)p)->n, UINT64_C(0xDECAFCAFFE),
                           read);
    case RT_F32:
        return (uint64_t)rt_int64_of((double)*(const float *)p);
    case RT_F64:
        return (uint64_t)rt_int64_of(*(const double *)p);
    default:
        return (uint64_t)kn_int_at(&t, 0);
    }
}

static uint64_t bucket_hash(const struct kn_table *t, const void *key, struct kn_reader *read)
{
    const char *p = key;
    uint64_t h = 0;

    if (t->n_key == 1)
        return hash_element(t->key_type, key, read);
    for (int64_t k = 0; k < t->n_key; k++, p += rt_dtype_size(t->key_type))
        h ^= hash_element(t->key_type, p, read) + UINT64_C(0x9e3779b97f4a7800) + (h << 10) +
             (h >> 4);
    return h;
}

/*
 * Sets bucket[b] to the item in bucket b of TensorFlow's bucket array, or to -1 if the bucket is
 * empty. There are more buckets than items, so every probe sequence ends. Every probe is counted as
 * work, because TensorFlow's hash has no secret seed: a client may choose keys that probe all used
 * buckets.
 */
static enum rt_status place(struct rt_run *r, const struct kn_table *t, int64_t *bucket)
{
    const uint64_t mask = (uint64_t)t->dense.n_buckets - 1;
    const int64_t none = -1;
    int64_t left = RT_WORK;
    struct kn_reader read = {.r = r, .left = &left};
    enum rt_status st = kn_repeat(RT_I64, bucket, &none, t->dense.n_buckets, r);

    for (int64_t i = 0; i < t->n && !st; i++) {
        if (!t->live[i])
            continue;
        uint64_t at = bucket_hash(t, kn_table_key(t, i), &read) & mask;
        st = read.st ? read.st : rt_run_spend(r, &left, kn_table_work(t, kn_table_key(t, i)));
        for (uint64_t probes = 1; bucket[at] >= 0 && !st; probes++) {
            at = (at + probes) & mask;
            st = rt_run_spend(r, &left, KN_PROBE_WORK);
        }
        bucket[at] = i;
    }
    return st;
}

enum rt_status kn_dense_export(struct rt_run *r, const struct kn_table *t)
{
    const int64_t n = t->dense.n_buckets;
    const int64_t key_dim[2] = {n, t->n_key}, value_dim[2] = {n, t->n_value};
    const size_t value_bytes = (size_t)t->n_value * rt_dtype_size(t->value_type);
    int64_t left = RT_WORK, *bucket = rt_scratch(r, (size_t)n * sizeof *bucket);

    if (!bucket || !rt_out(r, 0, 2, key_dim) || !rt_out(r, 1, 2, value_dim))
        return r->err->code;
    enum rt_status st = place(r, t, bucket);
    for (int64_t b = 0; b < n && !st; b++) {
        const void *key = bucket[b] < 0 ? t->dense.empty : kn_table_key(t, bucket[b]);
        void *value = kn_at_mut(&r->out[1], b * t->n_value);
        kn_copy(t->key_type, kn_at_mut(&r->out[0], b * t->n_key), key, t->n_key);
        if (bucket[b] >= 0)
            kn_copy(t->value_type, value, kn_table_value(t, bucket[b]), t->n_value);
        else if (t->value_type != RT_STRING)
            memset(value, 0, value_bytes);
        st = rt_run_spend(r, &left, kn_table_work(t, key));
    }
    return st;
}

enum rt_status kn_dense_import(struct rt_run *r, struct kn_table *fresh)
{
    const struct rt_tensor *keys = &r->in[1], *values = &r->in[2];
    struct rt_shape have, want;
    int64_t item, n_buckets = 4, left = RT_WORK;
    bool was;
    struct kn_reader read = {.r = r, .left = &left};
    enum rt_status st = RT_OK;

    kn_shape_get(keys, &want);
    kn_shape_get(values, &have);
    want.rank = want.rank ? want.rank : 1;
    want.dim[want.rank - 1] = fresh->n_value;
    if (have.rank != want.rank || !kn_partial_fits(&have, &want))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected shape %s for value, got %s",
                       KN_TEXT(&want), KN_TEXT(&have));
    if (keys->rank != 2 || keys->dim[1] != fresh->n_key)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected key shape [%lld] got %s",
                       (long long)fresh->n_key, KN_TEXT(keys));
    const int64_t n = keys->dim[0];
    while (n_buckets < n && n_buckets <= KN_TABLE_MAX)
        n_buckets *= 2;
    if (n_buckets > KN_TABLE_MAX)
        return rt_fail_memory(r->err, "a hash table", (size_t)n);
    fresh->dense.n_buckets = n_buckets;
    for (int64_t i = 0; i < n && !st; i++) {
        const void *key = kn_at(keys, i * fresh->n_key);
        const bool is_reserved = kn_table_same_key(fresh, key, fresh->dense.empty, &read) ||
                                 kn_table_same_key(fresh, key, fresh->dense.deleted, &read);
        if (read.st)
            st = read.st;
        else if (!is_reserved)
            st = kn_table_put(r, &left, fresh, key, kn_at(values, i * fresh->n_value), true, &item,
                              &was);
        else
            st = rt_run_spend(r, &left, kn_table_work(fresh, key));
    }
    return st;
}
