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
#ifndef RT_KEEP_H
#define RT_KEEP_H

#include "runtime/base/thread.h"
#include "runtime/core/tensor.h"

enum {
    RT_KEEP_IDLE_BYTES = 256 << 20, /* where nobody says */
    RT_KEEP_LAYOUT_BYTES = 1 << 30,
    RT_KEEP_SMALL = 64 << 10, /* so little keeps its room while it is used */
};

struct rt_keeper {
    struct rt_keeper *next, *before; /* guarded by the rt_keep's mu */
    void *owner;
    const struct rt_session *session;
    /* Gives up the thing that would be taken last, if there is one, and its bytes by rt_keep_give.
     * Under mu: nothing but rt_keep_give may be called. */
    void (*drop)(struct rt_keeper *k);
    atomic_int n;        /* things, changed under the keeper's own lock */
    atomic_size_t bytes; /* of them, likewise */
    atomic_uint uses;    /* how often something came back, likewise */
    unsigned seen_uses;  /* when room was last looked for; guarded by mu */
    int64_t seen_ns;     /* since when they are as many; guarded by mu */
};

struct rt_keep {
    struct rt_budget idle, specialisations; /* bytes */
    atomic_int n_specialisations;
    struct rt_mutex mu;
    struct rt_keeper *first; /* guarded by mu */
    int64_t (*clock)(void);  /* rt_now_ns; another one for tests */
};

struct rt_keep *rt_keep_new(size_t idle_bytes,
                            size_t specialisation_bytes); /* NULL: out of memory */
void rt_keep_free(struct rt_keep *k);                     /* NULL is fine */

void rt_keep_join(struct rt_keep *k, struct rt_keeper *who);
void rt_keep_leave(struct rt_keep *k, struct rt_keeper *who); /* it gives back what it has itself */
/* Room for a thing of a keeper's that comes back: *kept, what it still had, becomes `bytes`. False:
 * there is none, and *kept is 0. No lock is held. */
bool rt_keep_take(struct rt_keep *k, struct rt_keeper *who, size_t *kept, size_t bytes);
void rt_keep_give(struct rt_keep *k, size_t bytes);
/* A thing is used again. Threads that run what is small do not meet in this for each run. */
static inline void rt_keep_use(struct rt_keep *k, size_t *kept)
{
    if (*kept <= RT_KEEP_SMALL)
        return;
    rt_keep_give(k, *kept);
    *kept = 0;
}
/* Idle memory of one session. Walks all keepers under mu: for who looks at figures. */
size_t rt_keep_bytes_of(struct rt_keep *k, const struct rt_session *s);

/* ---- layouts ---- */

/* Whether so many bytes more are within the bound. It takes nothing: of sessions that ask at the
 * same time each may be told so. */
bool rt_keep_fits_layout(const struct rt_keep *k, size_t bytes);
int rt_keep_layouts(const struct rt_keep *k); /* of all sessions */
/* One more, whether it fits or not (a session has a little of its own); one less. */
void rt_keep_take_layout(struct rt_keep *k, size_t bytes);
void rt_keep_give_layout(struct rt_keep *k, size_t bytes);

/* ---- a keeper ---- */

/* Under the keeper's own lock: it has n things more, of so many bytes together (negative: less). */
static inline void rt_keeper_count(struct rt_keeper *k, int n, int64_t bytes)
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
