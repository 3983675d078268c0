/*
 * Look-up tables: resources of a session that map keys to values.
 *
 *   table.c       creation, destruction, and storage of pairs
 *   table_ops.c   the ops that find, insert, remove, import and export pairs
 *   table_fill.c  the ops that fill a HashTable, which is filled only once
 *   table_dense.c reserved keys and buckets, which only a MutableDenseHashTable has
 *
 * A table that is filled once (HashTable) never changes afterwards, so its pairs are read without
 * its lock. A mutable table is read and written under its lock.
 *
 * A deadline, a cancellation or a limit may end a run in the middle of an op. An interrupted import
 * or initialization leaves the table unchanged, because new pairs are collected in a separate table
 * until all of them are read. An interrupted insertion or removal is not undone: the pairs already
 * processed stay inserted or removed. Undoing an insertion would require copies of the replaced
 * pairs, and a client that repeats the request reaches the intended state.
 */
#ifndef KN_LOOKUP_TABLE_H
#define KN_LOOKUP_TABLE_H

#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "runtime/base/thread.h"

enum { KN_TABLE_MAX = 1 << 28 }; /* maximum number of items, and maximum number of buckets */

/* Members that only a MutableDenseHashTable uses. TensorFlow exports the buckets of these tables,
 * and two reserved keys mark the buckets that hold no pair. */
struct kn_dense {
    int64_t n_buckets; /* number of buckets, a power of two that is at least 4 */
    float max_load;
    char *empty, *deleted; /* the two reserved keys, which no pair in the table may have */
};

struct kn_table {
    struct rt_object o;
    enum rt_dtype key_type, value_type;
    /* shape of one key; only dense tables have keys that are not scalars */
    struct rt_shape key_shape;
    /* shape of one value; only dense tables and MutableHashTableOfTensors have values that are not
     * scalars */
    struct rt_shape value_shape;
    int64_t n_key, n_value; /* A key has n_key elements, and a value has n_value elements. */
    bool is_mutable, is_dense;
    atomic_bool filled; /* set after the last write, in tables that are filled only once */
    struct rt_mutex mu;
    /* Guarded by mu, except for the reads that need no lock (see the top of this file). */
    int64_t n, capacity, n_live, n_slots;
    char *keys, *values;
    bool *live;
    int64_t *slot; /* 1 + the index of the slot's item, 0 if the slot is free, or -1 if the item
                    * was removed */
    /* The memory pool of the session's state, or NULL until the first write. The pool counts the
     * table's memory. */
    struct rt_pool *pool;
    /* The number of bytes that `pool` counts for the arrays above. Strings are counted
     * separately. */
    size_t counted;
    /* The number of bytes by which the table may exceed the limit of the session's state. In a
     * table made by kn_table_fresh, it is the size of the pairs to be replaced, which are still
     * counted. In all other tables it is 0. */
    size_t credit;
    struct kn_dense dense; /* n_buckets is guarded by mu; the other members never change */
};

/* Runs an op that makes an anonymous table, which lives as long as its handle. `make` is as in
 * struct rt_op. */
enum rt_status kn_table_anonymous(struct rt_run *r,
                                  enum rt_status (*make)(const struct rt_make *make,
                                                         struct rt_object **out));

/* Creates a table with scalar keys from the node's attributes. The caller owns the table. */
enum rt_status kn_table_new(const struct rt_node *n, bool is_mutable, struct kn_table **out,
                            struct rt_error *err);

bool kn_is_table(const struct rt_object *o);
/* Returns the table of input 0. If input 0 is not a table, returns NULL and sets r->err. */
struct kn_table *kn_table_of(struct rt_run *r);
/* Refuses a node whose types differ from the table's. Input 1 holds keys, and the other inputs and
 * the outputs hold values. */
enum rt_status kn_table_types(struct rt_run *r, const struct kn_table *t);
/* Makes the memory pool of r's session state count the table's memory. Must be called before
 * kn_table_put. The caller must hold mu, unless no other thread can access the table. */
void kn_table_count_in(struct rt_run *r, struct kn_table *t);
/*
 * Adds a pair, and sets *item to its index. Sets *was to whether the table already held the key. In
 * that case, the value is replaced only if `replace` is true.
 *
 * The caller must hold mu, unless no other thread can access the table. The work is charged to
 * *left (rt_run_spend), so the call fails if the run has been cancelled or its deadline has passed.
 * A failure leaves the pairs unchanged.
 */
enum rt_status kn_table_put(struct rt_run *r, int64_t *left, struct kn_table *t, const void *key,
                            const void *value, bool replace, int64_t *item, bool *was);
/* Sets *item to the index of the key's pair, or to -1 if the table lacks the key. Called under mu,
 * except for a table that is filled only once. */
enum rt_status kn_table_find(struct rt_run *r, int64_t *left, const struct kn_table *t,
                             const void *key, int64_t *item);
/* Removes the key's pair, if there is one. Called under mu. */
enum rt_status kn_table_remove(struct rt_run *r, int64_t *left, struct kn_table *t,
                               const void *key);
const void *kn_table_key(const struct kn_table *t, int64_t item);
void *kn_table_value(const struct kn_table *t, int64_t item);
/* Compares two keys. The deadline is checked through `read` while long strings are compared. If
 * `read` is NULL, the deadline is not checked. */
bool kn_table_same_key(const struct kn_table *t, const void *a, const void *b,
                       struct kn_reader *read);
/* Returns the cost of hashing or comparing `key` and of reading or writing its pair, in units of
 * rt_run_spend. */
int64_t kn_table_work(const struct kn_table *t, const void *key);
/*
 * kn_table_fresh makes *fresh an empty table with the types and shapes of `t`. The caller fills it
 * by kn_table_put. The memory pool of r's session state counts the memory of `fresh`. `fresh` has
 * no lock, is used only by the calling thread, and borrows the reserved keys of `t`.
 *
 * kn_table_replace is called under t's mu. It frees the pairs of `t` and moves the pairs of `fresh`
 * into `t`. kn_table_fresh_end must always be called. It frees the pairs that `fresh` still holds.
 */
enum rt_status kn_table_fresh(struct rt_run *r, struct kn_table *t, struct kn_table *fresh);
void kn_table_replace(struct kn_table *t, struct kn_table *fresh);
void kn_table_fresh_end(struct kn_table *fresh);
/* Locks the table's mu, as rt_run_lock does. */
enum rt_status kn_table_lock(struct rt_run *r, struct kn_table *t);
/* Releases the table's mu and returns st. */
enum rt_status kn_table_unlock(struct kn_table *t, enum rt_status st);
/* Frees the memory owned by n elements at p if dtype is string. Elements of other types own no
 * memory. */
void kn_table_drop(enum rt_dtype dtype, void *p, int64_t n);
/* Runs LookupTableImport on a table that is filled only once (table_fill.c). */
enum rt_status kn_table_fill(struct rt_run *r, struct kn_table *t, const struct rt_tensor *keys,
                             const struct rt_tensor *values);
/* Fills `fresh` (made by kn_table_fresh, from strings to int64) with the lines of a text file,
 * whose values are their numbers. Reads vocab_size lines, or all if it is -1 (table_fill.c). */
enum rt_status kn_table_read_words(struct rt_run *r, struct kn_table *fresh, struct rt_span path,
                                   int64_t vocab_size);

/* ---- dense tables (table_dense.c); called under mu, or on a table of kn_table_fresh ---- */

/* Returns INVALID_ARGUMENT if the key is one of the two reserved keys. Fails if the run has been
 * cancelled or its deadline has passed. A table that is not dense has no reserved keys and accepts
 * every key. */
enum rt_status kn_dense_check_key(struct rt_run *r, int64_t *left, const struct kn_table *t,
                                  const void *key);
/* Increases the number of buckets as TensorFlow does before it inserts `more` pairs. As in
 * TensorFlow, a pair is counted even if the table already holds its key. */
enum rt_status kn_dense_grow(struct kn_table *t, int64_t more, struct rt_error *err);
enum rt_status kn_dense_export(struct rt_run *r, const struct kn_table *t);
/* Fills `fresh` (made by kn_table_fresh) from inputs 1 and 2, which hold the keys and the values of
 * all buckets, as kn_dense_export writes them. */
enum rt_status kn_dense_import(struct rt_run *r, struct kn_table *fresh);

#endif
