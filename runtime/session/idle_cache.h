/*
 * The idle cache: one bound, shared by any number of sessions, on the memory that they keep between
 * runs: idle contexts, idle pools, and specialisations (runtime/plan/specialisation.h). An idle
 * context or pool spares the next run the page faults of fresh memory.
 *
 * Idle contexts and pools belong to cache owners: each plan is the owner of its contexts, each
 * session the owner of its pools. An item that comes back from a run reserves its bytes here, and
 * releases them when it is used again. If the bound does not admit the bytes, owners that have not
 * been used for a while evict items, the owner that has been unused longest first. After these,
 * an owner without an idle item evicts from an owner that has two or more, so that every owner in
 * use keeps one item as long as one of each fits. If nothing can be evicted, the item that came
 * back is freed: the next run is slower, not wrong.
 *
 * Specialisations are only counted here. Their sessions decide which of them to evict
 * (runtime/exec/specialisation_cache.c), each under its own lock (spec_mu).
 *
 * Owner: the caller of rt_idle_cache_new. A cache outlives the sessions that use it.
 * Threads: any. Locks: mu is taken before the lock of a cache owner, never after it. The counts of
 * specialisations are atomic and need no lock.
 */
#ifndef RT_IDLE_CACHE_H
#define RT_IDLE_CACHE_H

#include "runtime/base/thread.h"
#include "runtime/core/pool.h"

enum {
    RT_IDLE_CACHE_BYTES = 256 << 20,              /* default bound on contexts and pools */
    RT_IDLE_CACHE_SPECIALISATION_BYTES = 1 << 30, /* default bound on specialisations */
    RT_IDLE_CACHE_SMALL = 64 << 10, /* an item up to this size stays reserved while it is used */
};

struct rt_cache_owner {
    struct rt_cache_owner *next, *before; /* guarded by the rt_idle_cache's mu */
    void *owner;
    const struct rt_session *session;
    /* Evicts the idle item that would be reused last, if there is one, and releases its bytes by
     * rt_idle_cache_release. Called under mu: no other rt_idle_cache_ function may be called. */
    void (*drop)(struct rt_cache_owner *k);
    atomic_int n;        /* number of idle items; changed under the owner's own lock */
    atomic_size_t bytes; /* total bytes of the idle items; changed under the owner's own lock */
    atomic_uint uses;    /* times that an item came back; changed under the owner's own lock */
    unsigned seen_uses;  /* `uses` at the last search for a victim; guarded by mu */
    int64_t seen_ns;     /* time of the search that first saw seen_uses; guarded by mu */
};

struct rt_idle_cache {
    struct rt_budget idle, specialisations; /* budgets in bytes; idle: contexts and pools */
    atomic_int n_specialisations;
    struct rt_mutex mu;
    struct rt_cache_owner *first; /* guarded by mu */
    int64_t (*clock)(void);       /* rt_now_ns, except in tests that set another clock */
};

struct rt_idle_cache *rt_idle_cache_new(size_t idle_bytes,
                                        size_t specialisation_bytes); /* NULL: out of memory */
void rt_idle_cache_free(struct rt_idle_cache *k);                     /* NULL is fine */

void rt_idle_cache_add_owner(struct rt_idle_cache *k, struct rt_cache_owner *who);
/* Takes `who` off the list. The owner releases its items itself. */
void rt_idle_cache_remove_owner(struct rt_idle_cache *k, struct rt_cache_owner *who);
/* Reserves `bytes` for an item of owner `who` that comes back from a run, and evicts other owners'
 * items if it must. *reserved: what the item still had reserved; becomes `bytes`. False: the bound
 * does not admit it, and *reserved is 0. The caller holds no lock. */
bool rt_idle_cache_reserve(struct rt_idle_cache *k, struct rt_cache_owner *who, size_t *reserved,
                           size_t bytes);
void rt_idle_cache_release(struct rt_idle_cache *k, size_t bytes);
/* An idle item is used again: releases its reservation. A small item keeps it, so that the threads
 * of small models do not contend for the counter in each run. */
static inline void rt_idle_cache_use(struct rt_idle_cache *k, size_t *reserved)
{
    if (*reserved <= RT_IDLE_CACHE_SMALL)
        return;
    rt_idle_cache_release(k, *reserved);
    *reserved = 0;
}
/* Bytes of idle contexts and pools of one session. Walks the list of all owners under mu: for
 * statistics, not for runs. */
size_t rt_idle_cache_bytes_of(struct rt_idle_cache *k, const struct rt_session *s);

/* ---- specialisations ---- */

/* Whether `bytes` more are within the bound on specialisations. Nothing is reserved: sessions that
 * ask at the same time may all get true. */
bool rt_idle_cache_fits_specialisation(const struct rt_idle_cache *k, size_t bytes);
int rt_idle_cache_specialisations(const struct rt_idle_cache *k); /* of all sessions */
/* Count one specialisation more, or one less. Adding never fails: each session may exceed the bound
 * by a little. */
void rt_idle_cache_add_specialisation(struct rt_idle_cache *k, size_t bytes);
void rt_idle_cache_remove_specialisation(struct rt_idle_cache *k, size_t bytes);

/* ---- a cache owner ---- */

/* Adds n idle items of `bytes` altogether to the owner's counts (negative: takes them off). Called
 * under the owner's own lock. */
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
