/*
 * Look-up tables: resources of a session that map keys to values.
 *
 *   table.c       the tables and their pairs
 *   table_ops.c   the ops that find, insert, remove, import and export pairs
 *   table_fill.c  the ops that fill a HashTable, once
 *   table_dense.c what a MutableDenseHashTable has of its own
 *
 * A table that is filled once (HashTable) never changes afterwards, so it is read without its
 * lock; a mutable one is read and written under it.
 *
 * A run may end in the middle of an op: by its deadline, by cancellation, or because a limit is
 * reached. An import or an initialization that ends so leaves the table as it was: the new pairs
 * are collected in a table of their own, which takes the place of the old content when it is
 * complete. An insertion or a removal leaves the pairs that it had inserted or removed until then,
 * each whole: to undo them would take a copy of what they replace, and a client that repeats the
 * request reaches the state that it wanted.
 */
#ifndef KN_CPU_TABLE_H
#define KN_CPU_TABLE_H

#include "kernels/entry.h"
#include "runtime/base/thread.h"

enum { KN_TABLE_MAX = 1 << 28 }; /* items, and buckets */

/* Of a MutableDenseHashTable: in TensorFlow its buckets are what is exported, and two keys mark
 * those that hold nothing. */
struct kn_dense {
    int64_t n_buckets; /* a power of two, 4 at least */
    float max_load;
    char *empty, *deleted; /* one key each, never in the table */
};

struct kn_table {
    struct rt_object o;
    enum rt_dtype key_type, value_type;
    struct rt_shape key_shape; /* of one key: a scalar but for dense tables, whose may be vectors */
    struct rt_shape value_shape; /* of one value: a scalar but for ...OfTensors and dense tables */
    int64_t n_key, n_value;      /* elements of one */
    bool is_mutable, is_dense;
    atomic_bool filled; /* not mutable: set once, after the last write */
    struct rt_mutex mu;
    /* guarded by mu (see above) */
    int64_t n, capacity, n_live, n_slots;
    char *keys, *values;
    bool *live;
    int64_t *slot;         /* item + 1; 0: free */
    struct rt_pool *pool;  /* of the session's state: counts what the table holds; NULL: nothing was
                              written yet */
    size_t counted;        /* bytes of the arrays above that count there; texts count themselves */
    size_t credit;         /* bytes by which its pairs may exceed the state's limit: of the content
                              that they are about to replace; 0 but for kn_table_fresh */
    struct kn_dense dense; /* n_buckets is guarded by mu, the rest never changes */
};

/* What the node's attributes say, of scalar keys; the caller's. */
enum rt_status kn_table_new(const struct rt_node *n, bool is_mutable, struct kn_table **out,
                            struct rt_error *err);

bool kn_is_table(const struct rt_object *o);
/* The table of input 0; NULL: it is none, and err is filled. */
struct kn_table *kn_table_of(struct rt_run *r);
/* The node's types are the table's: keys at input 1, values at the rest and at outputs. */
enum rt_status kn_table_types(struct rt_run *r, const struct kn_table *t);
/* Before kn_table_put: what the table holds counts in the state of r's session. Under mu, or before
 * anybody has the table. */
void kn_table_count_in(struct rt_run *r, struct kn_table *t);
/*
 * Adds a pair, or replaces the value of a key that is there. *was: it was there; then, unless
 * `replace`, nothing changes. *item: where the pair is. Under mu, or before anybody has the table.
 * What it takes is spent of *left (rt_run_spend): the run may end. A failure leaves the table as it
 * was.
 */
enum rt_status kn_table_put(struct rt_run *r, int64_t *left, struct kn_table *t, const void *key,
                            const void *value, bool replace, int64_t *item, bool *was);
/* *item: where the key's pair is, or -1. Under mu, or of a table that is filled once. */
enum rt_status kn_table_find(struct rt_run *r, int64_t *left, const struct kn_table *t,
                             const void *key, int64_t *item);
const void *kn_table_key(const struct kn_table *t, int64_t item);
void *kn_table_value(const struct kn_table *t, int64_t item);
bool kn_table_same_key(const struct kn_table *t, const void *a, const void *b);
/* Of hashing a key and of reading or writing its pair, as rt_run_spend counts. */
int64_t kn_table_work(const struct kn_table *t);
/*
 * *fresh: an empty table like `t`, which kn_table_put fills, counted in the state of r's session;
 * not locked, for this thread alone. It borrows the reserved keys of `t`. kn_table_replace: under
 * t's mu, the pairs of `fresh` become those of `t`, whose own are freed. kn_table_fresh_end frees
 * what `fresh` still holds, always.
 */
void kn_table_fresh(struct rt_run *r, struct kn_table *t, struct kn_table *fresh);
void kn_table_replace(struct kn_table *t, struct kn_table *fresh);
void kn_table_fresh_end(struct kn_table *fresh);
void kn_table_lock(struct kn_table *t);
enum rt_status kn_table_unlock(struct kn_table *t, enum rt_status st); /* returns st */
/* Drops n elements at p: what strings hold. */
void kn_table_drop(enum rt_dtype dtype, void *p, int64_t n);
/* LookupTableImport of a table that is filled once (table_fill.c). */
enum rt_status kn_table_fill(struct rt_run *r, struct kn_table *t, const struct rt_tensor *keys,
                             const struct rt_tensor *values);

/* ---- dense tables (table_dense.c); under mu, or of kn_table_fresh ---- */

/* INVALID_ARGUMENT: the key is one of the two that are reserved. Any table may be asked. */
enum rt_status kn_dense_check_key(const struct kn_table *t, const void *key, struct rt_error *err);
/* Before so many pairs are inserted, some of which may be there: there are as many buckets then as
 * TensorFlow would have. */
enum rt_status kn_dense_grow(struct kn_table *t, int64_t more, struct rt_error *err);
enum rt_status kn_dense_export(struct rt_run *r, const struct kn_table *t);
/* Fills `fresh` (kn_table_fresh) with inputs 1 and 2: what kn_dense_export has told. */
enum rt_status kn_dense_import(struct rt_run *r, struct kn_table *fresh);

#endif
