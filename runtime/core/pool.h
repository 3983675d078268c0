/*
 * Memory pools: what allocates the memory of runs, recycles it, and counts it against limits. The
 * memory that models leave in variables and tables is counted by pools too.
 *
 * Owner: counted by references; a pool lives until its last block has returned.
 * Threads: blocks may be freed on any thread. Each function says from how many threads it may be
 * called.
 */
#ifndef RT_POOL_H
#define RT_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

/* A bound on the bytes that many pools hold together. A budget outlives its pools. Its owner sets
 * `limit`, and the other members to zero. */
struct rt_budget {
    atomic_size_t used;
    size_t limit;
    struct rt_pool *sharing; /* the pools of this budget; used by pool.c only, as has_surplus */
    /* A pool may have reserved more than it uses. False: none has, so none can give any back. */
    atomic_bool has_surplus;
};
/* Takes n bytes of the budget, or (false) none. A NULL budget has no bound. */
bool rt_budget_take(struct rt_budget *b, size_t n);
void rt_budget_give(struct rt_budget *b, size_t n);

/*
 * A pool allocates the tensors of a run: it recycles freed blocks and counts blocks against a
 * limit. Blocks may be freed on any thread and return to their pool, which lives until the last one
 * has returned.
 */
struct rt_pool *rt_pool_new(size_t limit_bytes); /* NULL: out of memory */
/* The pool's blocks count against the budget too. Called before the first allocation. */
void rt_pool_share(struct rt_pool *p, struct rt_budget *budget);
struct rt_pool *rt_pool_ref(struct rt_pool *p); /* NULL is fine */
void rt_pool_unref(struct rt_pool *p);
void rt_pool_trim(struct rt_pool *p, size_t keep_bytes); /* frees idle blocks beyond keep_bytes */
/*
 * Tell the pool that a run begins, or ends. Between runs the pool keeps idle blocks for the next
 * run: up to twice the peak of the second largest of the last 4 runs, but at least `least` bytes
 * and at most 256 MiB. Recurring shapes so find their memory, also in blocks of other sizes, while
 * the memory of a single huge answer is freed. rt_pool_end returns the most bytes that the pool
 * will keep. Not from two threads at a time. rt_pool_reserved: a number that the pool's owner may
 * use, 0 at first.
 */
size_t *rt_pool_reserved(struct rt_pool *p);
void rt_pool_begin(struct rt_pool *p);
size_t rt_pool_end(struct rt_pool *p, size_t least);
/* Counts memory that a run holds besides tensors against the limit and the budget.
 * RT_RESOURCE_EXHAUSTED: `err` names `what` (with its article, "a list"), the sizes and the flag.
 * One thread at a time. */
enum rt_status rt_pool_charge(struct rt_pool *p, size_t bytes, const char *what,
                              struct rt_error *err);
void rt_pool_discharge(struct rt_pool *p, size_t bytes);
/* As rt_pool_charge and rt_pool_discharge, from any thread, for memory that belongs to no run.
 * `credit`: bytes by which the limit may be exceeded. */
enum rt_status rt_pool_hold(struct rt_pool *p, size_t bytes, size_t credit, const char *what,
                            struct rt_error *err);
void rt_pool_release(struct rt_pool *p, size_t bytes);
/* Allocates n zeroed bytes outside tensors, which count in the pool until rt_pool_free. Any thread
 * may free them. NULL: err names `what` (with its article), the sizes and the flag. */
void *rt_pool_alloc(struct rt_pool *p, size_t n, const char *what, struct rt_error *err);
void rt_pool_free(void *p); /* NULL is fine */
/*
 * A plain pool counts but does not recycle: blocks that return are freed. Its limit, named by
 * `flag` (a string literal) in errors, may be set again while nothing allocates, and raised at any
 * time.
 */
struct rt_pool *rt_pool_new_plain(size_t limit_bytes, const char *flag); /* NULL: out of memory */
void rt_pool_set_limit(struct rt_pool *p, size_t limit_bytes, const char *flag);
void rt_pool_raise_limit(struct rt_pool *p, size_t bytes);
bool rt_pool_has_capacity(const struct rt_pool *p, size_t bytes); /* within the limit */
size_t rt_pool_in_use(struct rt_pool *p);

#endif
