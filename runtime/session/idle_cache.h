/*
 * What is kept from one run to the next has one bound over all sessions that share it: the memory
 * of idle contexts and pools, which would only be asked of the system again, page by page, and the
 * layouts (layout.h).
 *
 * Idle memory belongs to keepers: a plan keeps contexts, a session pools. What comes back to one
 * asks for room, which it gives back when it is used again. Where there is none, those that were
 * not used for a while give up what they keep, the longest unused first. A keeper that has nothing
 * yet takes the place of another's second thing, so that whoever is in use keeps one, as long as
 * one of each fits. Else what came back is freed: runs are right without, and slower.
 *
 * Layouts are only counted here: which of them go is for their sessions to say (layout_cache.c),
 * under the lock of each (spec_mu).
 *
 * Owner: whoever made it; it outlives the sessions.
 * Threads: any. Locks: mu is taken before the lock of a keeper, never after. The counts of layouts
 * are atomic and take none.
 */
#ifndef RT_IDLE_CACHE_H
#define RT_IDLE_CACHE_H

#include "runtime/base/thread.h"
#include "runtime/core/tensor.h"

enum {
    RT_IDLE_CACHE_BYTES = 256 << 20, /* where nobody says */
    RT_IDLE_CACHE_SPECIALISATION_BYTES = 1 << 30,
    RT_IDLE_CACHE_SMALL = 64 << 10, /* so little keeps its room while it is used */
};

struct rt_cache_owner {
    struct rt_cache_owner *next, *before; /* guarded by the rt_idle_cache's mu */
    void *owner;
    const struct rt_session *session;
    /* Gives up the thing that would be taken last, if there is one, and its bytes by
     * rt_idle_cache_release. Under mu: nothing but rt_idle_cache_release may be called. */
    void (*drop)(struct rt_cache_owner *k);
    atomic_int n;        /* things, changed under the keeper's own lock */
    atomic_size_t bytes; /* of them, likewise */
    atomic_uint uses;    /* how often something came back, likewise */
    unsigned seen_uses;  /* when room was last looked for; guarded by mu */
    int64_t seen_ns;     /* since when they are as many; guarded by mu */
};

struct rt_idle_cache {
    struct rt_budget idle, specialisations; /* bytes */
    atomic_int n_specialisations;
    struct rt_mutex mu;
    struct rt_cache_owner *first; /* guarded by mu */
    int64_t (*clock)(void);       /* rt_now_ns; another one for tests */
};

struct rt_idle_cache *rt_idle_cache_new(size_t idle_bytes,
                                        size_t specialisation_bytes); /* NULL: out of memory */
void rt_idle_cache_free(struct rt_idle_cache *k);                     /* NULL is fine */

void rt_idle_cache_add_owner(struct rt_idle_cache *k, struct rt_cache_owner *who);
void rt_idle_cache_remove_owner(struct rt_idle_cache *k,
                                struct rt_cache_owner *who); /* it gives back what it has itself */
/* Room for a thing of a keeper's that comes back: *kept, what it still had, becomes `bytes`. False:
 * there is none, and *kept is 0. No lock is held. */
bool rt_idle_cache_reserve(struct rt_idle_cache *k, struct rt_cache_owner *who, size_t *reserved,
                           size_t bytes);
void rt_idle_cache_release(struct rt_idle_cache *k, size_t bytes);
/* A thing is used again. Threads that run what is small do not meet in this for each run. */
static inline void rt_idle_cache_use(struct rt_idle_cache *k, size_t *reserved)
{
    if (*reserved <= RT_IDLE_CACHE_SMALL)
        return;
    rt_idle_cache_release(k, *reserved);
    *reserved = 0;
}
/* Idle memory of one session. Walks all keepers under mu: for who looks at figures. */
size_t rt_idle_cache_bytes_of(struct rt_idle_cache *k, const struct rt_session *s);

/* ---- layouts ---- */

/* Whether so many bytes more are within the bound. It takes nothing: of sessions that ask at the
 * same time each may be told so. */
bool rt_idle_cache_fits_specialisation(const struct rt_idle_cache *k, size_t bytes);
int rt_idle_cache_specialisations(const struct rt_idle_cache *k); /* of all sessions */
/* One more, whether it fits or not (a session has a little of its own); one less. */
void rt_idle_cache_add_specialisation(struct rt_idle_cache *k, size_t bytes);
void rt_idle_cache_remove_specialisation(struct rt_idle_cache *k, size_t bytes);

/* ---- a keeper ---- */

/* Under the keeper's own lock: it has n things more, of so many bytes together (negative: less). */
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
