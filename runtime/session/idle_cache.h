/*
 * The idle cache limits the memory that sessions keep between runs. Any number of sessions may
 * share it. The memory consists of idle contexts, idle pools, and specialisations
 * (runtime/plan/specialisation.h). A run that reuses an idle context or pool avoids the page faults
 * of newly allocated memory.
 *
 * Idle contexts and pools belong to cache owners: each plan owns its contexts, and each session
 * owns its pools. The bytes of an item are reserved in the idle cache from the time when a run
 * returns the item until its next use. If the bytes would exceed the limit, unused owners evict
 * items, beginning with the owner that has been unused for the longest time. If that is not enough,
 * and the returned item is the only idle item of its owner, an owner with two or more idle items
 * evicts one. Every owner in use thus keeps one item, as long as the limit allows one item for
 * each. If nothing can be evicted, the returned item is freed, which only makes the next run
 * slower.
 *
 * Specialisations are only counted in the idle cache. Each session decides which of its
 * specialisations to evict (runtime/exec/specialisation_cache.c), under its own lock (spec_mu).
 *
 * Owner: the caller of rt_idle_cache_new. A cache outlives the sessions that use it. Threads: any.
 * Locks: mu is acquired before the lock of a cache owner, never after it. The counts of
 * specialisations are atomic and need no lock.
 */
#ifndef RT_IDLE_CACHE_H
#define RT_IDLE_CACHE_H

#include "runtime/base/thread.h"
#include "runtime/core/pool.h"

enum {
    /* Default limit on the total size of idle contexts and pools, in bytes. */
    RT_IDLE_CACHE_BYTES = 256 << 20,
    /* default limit on the total size of specialisations, in bytes */
    RT_IDLE_CACHE_SPECIALISATION_BYTES = 1 << 30,
    /* Maximum size, in bytes, of a small item. A small item keeps its reservation while it is
     * used. */
    RT_IDLE_CACHE_SMALL = 64 << 10,
};

struct rt_cache_owner {
    struct rt_cache_owner *next, *before; /* guarded by the rt_idle_cache's mu */
    void *owner;
    /* The session's own cache owner. It is added before the session's other owners and removed
     * after them. The owners of a session are adjacent in the list. */
    struct rt_cache_owner *of_session;
    /* Evicts the idle item that would be reused last, if there is one. Releases its bytes with
     * rt_idle_cache_release. Called under mu, so it must call no other rt_idle_cache_ function. */
    void (*drop)(struct rt_cache_owner *k);
    atomic_int n; /* number of idle items; changed under the owner's own lock */
    /* total size of the idle items in bytes; changed under the owner's own lock */
    atomic_size_t bytes;
    /* Number of times that a run has returned an item. Changed under the owner's own lock. */
    atomic_uint uses;
    unsigned seen_uses; /* value of `uses` at the last search for a victim; guarded by mu */
    /* Time of the first search that found the current value of seen_uses. Guarded by mu. */
    int64_t seen_ns;
};

struct rt_idle_cache {
    /* Budgets in bytes. `idle` is the budget for idle contexts and pools. */
    struct rt_budget idle, specialisations;
    atomic_int n_specialisations;
    struct rt_mutex mu;
    struct rt_cache_owner *first; /* list of all owners; guarded by mu */
    /* the clock; always rt_now_ns except in tests */
    int64_t (*clock)(void);
};

/* Makes an idle cache. Returns NULL if memory runs out. */
struct rt_idle_cache *rt_idle_cache_new(size_t idle_bytes, size_t specialisation_bytes);
void rt_idle_cache_free(struct rt_idle_cache *k); /* does nothing if `k` is NULL */

void rt_idle_cache_add_owner(struct rt_idle_cache *k, struct rt_cache_owner *who);
/* Removes `who` from the list of owners. Does not release the reservations of its items. */
void rt_idle_cache_remove_owner(struct rt_idle_cache *k, struct rt_cache_owner *who);
/* Reserves `bytes` for an item that a run returns to owner `who`. Evicts other owners' items if
 * necessary. *reserved is the number of bytes still reserved for the item; the call sets it to
 * `bytes`. If the limit does not admit the bytes, returns false and sets *reserved to 0. The caller
 * must hold no lock. */
bool rt_idle_cache_reserve(struct rt_idle_cache *k, struct rt_cache_owner *who, size_t *reserved,
                           size_t bytes);
void rt_idle_cache_release(struct rt_idle_cache *k, size_t bytes);
/* Releases the reservation of an idle item that is used again. A small item keeps its reservation,
 * so that the threads of small models do not contend for the counter in each run. */
static inline void rt_idle_cache_use(struct rt_idle_cache *k, size_t *reserved)
{
    if (*reserved <= RT_IDLE_CACHE_SMALL)
        return;
    rt_idle_cache_release(k, *reserved);
    *reserved = 0;
}
/* Returns the total size in bytes of a session's idle contexts and pools. `of_session` is the
 * session's own cache owner. Locks mu, and visits only the cache owners of the session. */
size_t rt_idle_cache_bytes_of(struct rt_idle_cache *k, const struct rt_cache_owner *of_session);

/* ---- specialisations ---- */

/* Returns whether `bytes` more bytes would stay within the limit on specialisations. Reserves
 * nothing, so concurrent calls may all return true. */
bool rt_idle_cache_fits_specialisation(const struct rt_idle_cache *k, size_t bytes);
int rt_idle_cache_specialisations(const struct rt_idle_cache *k);
/* The first function adds a specialisation to the counts, and the second removes it from them.
 * Adding never fails, so all sessions together may slightly exceed the limit. */
void rt_idle_cache_add_specialisation(struct rt_idle_cache *k, size_t bytes);
void rt_idle_cache_remove_specialisation(struct rt_idle_cache *k, size_t bytes);

/* ---- a cache owner ---- */

/* Adds n idle items, with a total size of `bytes`, to the owner's counts. If both numbers are
 * negative, removes items. Called under the owner's own lock. */
static inline void rt_cache_owner_count(struct rt_cache_owner *k, int n, int64_t bytes)
{
    atomic_store_explicit(&k->n, atomic_load_explicit(&k->n, memory_order_relaxed) + n,
                          memory_order_relaxed);
    if (n > 0)
        atomic_store_explicit(&k->uses, atomic_load_explicit(&k->uses, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    atomic_store_explicit(&k->bytes,
                          atomic_load_explicit(&k->bytes, memory_order_relaxed) + (size_t)bytes,
                          memory_order_relaxed);
}

#endif
