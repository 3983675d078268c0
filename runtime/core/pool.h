/*
 * Memory pools allocate the memory of runs, recycle it, and count it against limits. Pools also
 * count the memory that models retain in variables and tables.
 *
 * Owner: a pool has a reference count and lives until its last block has been returned. Threads:
 * blocks may be freed on any thread. If only one thread at a time may call a function, its comment
 * states this.
 */
#ifndef RT_POOL_H
#define RT_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

/* A limit on the total number of bytes that several pools have reserved. A budget outlives its
 * pools. Its owner sets `limit` and zeroes the other members. */
struct rt_budget {
    atomic_size_t used;
    size_t limit;
    atomic_int n_sessions; /* number of sessions whose runs take from the budget */
    /* list of the budget's pools; only pool.c uses `sharing` and has_surplus */
    struct rt_pool *sharing;
    /* Whether a pool may have reserved more than it uses. If false, no pool can return bytes to the
     * budget. */
    atomic_bool has_surplus;
};
/* Takes n bytes from the budget, or returns false and takes none. A NULL budget has no limit. */
bool rt_budget_take(struct rt_budget *b, size_t n);
void rt_budget_give(struct rt_budget *b, size_t n);

/*
 * Creates a pool for the tensors that runs allocate. The pool recycles freed blocks and counts
 * blocks against a limit.
 */
struct rt_pool *rt_pool_new(size_t limit_bytes); /* returns NULL if out of memory */
/* Makes the pool's blocks count against the budget too. Must be called before the first
 * allocation. */
void rt_pool_share(struct rt_pool *p, struct rt_budget *budget);
struct rt_pool *rt_pool_ref(struct rt_pool *p); /* returns NULL if `p` is NULL */
void rt_pool_unref(struct rt_pool *p);
/* Frees idle blocks until they have at most keep_bytes bytes in total. */
void rt_pool_trim(struct rt_pool *p, size_t keep_bytes);
/*
 * rt_pool_begin and rt_pool_end tell the pool that a run begins or ends. Two threads must not call
 * them at the same time. Between runs, the pool keeps idle blocks for the next run: up to twice the
 * second largest peak of the last 4 runs, but at least `least` bytes and at most 256 MiB. Runs with
 * recurring shapes can thus reuse memory, while the memory of a single huge response is freed.
 * rt_pool_end returns the maximum number of bytes that the pool will keep.
 *
 * rt_pool_reserved returns the address of a number of bytes that only the pool's owner reads and
 * writes, such as the size of its reservation in an idle cache. The number is initially 0.
 */
size_t *rt_pool_reserved(struct rt_pool *p);
void rt_pool_begin(struct rt_pool *p);
size_t rt_pool_end(struct rt_pool *p, size_t least);
/* Sets the limit on the idle bytes of a pool for which rt_pool_begin and rt_pool_end are never
 * called. */
void rt_pool_set_keep(struct rt_pool *p, size_t bytes);
/* Counts memory that a run uses outside tensors. If the limit or the budget is exceeded, fails with
 * RT_RESOURCE_EXHAUSTED; `err` then names `what` (including an article: "a list"), the sizes and
 * the flag that sets the limit. Called by one thread at a time. */
enum rt_status rt_pool_charge(struct rt_pool *p, size_t bytes, const char *what,
                              struct rt_error *err);
void rt_pool_discharge(struct rt_pool *p, size_t bytes);
/* rt_pool_hold and rt_pool_release count memory that belongs to no run. They may be called on any
 * thread. The limit may be exceeded by `credit` bytes. If `p` is NULL, nothing is counted. */
enum rt_status rt_pool_hold(struct rt_pool *p, size_t bytes, size_t credit, const char *what,
                            struct rt_error *err);
void rt_pool_release(struct rt_pool *p, size_t bytes);
/* Allocates n zeroed bytes outside tensors. The pool counts these bytes until rt_pool_free. Any
 * thread may free the bytes. Returns NULL on failure; err then names `what` (including an article),
 * the sizes and the flag that sets the limit. */
void *rt_pool_alloc(struct rt_pool *p, size_t n, const char *what, struct rt_error *err);
void rt_pool_free(void *p); /* does nothing if `p` is NULL */
/*
 * Makes a plain pool, which counts blocks but frees returned blocks instead of recycling them.
 * Errors about its limit name `flag`, a string literal. The limit may be set while no thread
 * allocates, and may be raised at any time.
 */
/* makes a plain pool; returns NULL if out of memory */
struct rt_pool *rt_pool_new_plain(size_t limit_bytes, const char *flag);
void rt_pool_set_limit(struct rt_pool *p, size_t limit_bytes, const char *flag);
void rt_pool_raise_limit(struct rt_pool *p, size_t bytes);
/* returns whether allocating another `bytes` bytes would stay within the limit */
bool rt_pool_has_capacity(const struct rt_pool *p, size_t bytes);
size_t rt_pool_in_use(struct rt_pool *p);

#endif
