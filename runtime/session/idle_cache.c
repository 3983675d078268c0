#include "runtime/session/idle_cache.h"

#include <stdlib.h>

#include "runtime/base/clock.h"

/* An owner counts as unused after 100 ms without a use. A model that runs fewer than ten times a
 * second can afford the page faults of newly allocated memory. */
enum { UNUSED_NS = 100000000 };

struct rt_idle_cache *rt_idle_cache_new(size_t idle_bytes, size_t specialisation_bytes)
{
    struct rt_idle_cache *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->idle.limit = idle_bytes;
    k->specialisations.limit = specialisation_bytes;
    k->clock = rt_now_ns;
    rt_mutex_init(&k->mu);
    return k;
}

void rt_idle_cache_free(struct rt_idle_cache *k)
{
    if (!k)
        return;
    rt_mutex_clear(&k->mu);
    free(k);
}

void rt_idle_cache_add_owner(struct rt_idle_cache *k, struct rt_cache_owner *who)
{
    rt_mutex_lock(&k->mu);
    struct rt_cache_owner *before = who->of_session == who ? NULL : who->of_session;
    struct rt_cache_owner **at = before ? &before->next : &k->first;
    who->before = before;
    who->next = *at;
    if (who->next)
        who->next->before = who;
    *at = who;
    rt_mutex_unlock(&k->mu);
}

void rt_idle_cache_remove_owner(struct rt_idle_cache *k, struct rt_cache_owner *who)
{
    rt_mutex_lock(&k->mu);
    if (who->next)
        who->next->before = who->before;
    if (who->before)
        who->before->next = who->next;
    else
        k->first = who->next;
    rt_mutex_unlock(&k->mu);
}

/* Returns the owner that must evict an item in favour of `who`, or NULL if there is none. The first
 * choice is the owner that has been unused for the longest time, at least UNUSED_NS. The second
 * choice, if `who` has no idle item, is the owner with the most bytes among those with two or more
 * items. Called under mu. */
static struct rt_cache_owner *victim_for(const struct rt_idle_cache *k,
                                         const struct rt_cache_owner *who, int64_t now_ns)
{
    struct rt_cache_owner *unused = NULL, *large = NULL;
    int64_t oldest = now_ns - UNUSED_NS;
    size_t most = 0;
    for (struct rt_cache_owner *x = k->first; x; x = x->next) {
        const int n = atomic_load_explicit(&x->n, memory_order_relaxed);
        const size_t bytes = atomic_load_explicit(&x->bytes, memory_order_relaxed);
        const unsigned uses = atomic_load_explicit(&x->uses, memory_order_relaxed);
        if (uses != x->seen_uses) {
            x->seen_uses = uses;
            x->seen_ns = now_ns;
        }
        if (x == who || !bytes)
            continue;
        if (n > 0 && x->seen_ns <= oldest) {
            oldest = x->seen_ns;
            unused = x;
        }
        if (n > 1 && bytes > most) {
            most = bytes;
            large = x;
        }
    }
    if (unused)
        return unused;
    return atomic_load_explicit(&who->n, memory_order_relaxed) > 0 ? NULL : large;
}

bool rt_idle_cache_reserve(struct rt_idle_cache *k, struct rt_cache_owner *who, size_t *reserved,
                           size_t bytes)
{
    struct rt_cache_owner *victim;
    if (*reserved == bytes)
        return true;
    if (*reserved)
        rt_idle_cache_release(k, *reserved);
    *reserved = 0;
    bool taken = rt_budget_take(&k->idle, bytes);
    if (!taken && bytes <= k->idle.limit) {
        const int64_t now_ns = k->clock();
        rt_mutex_lock(&k->mu);
        while (!(taken = rt_budget_take(&k->idle, bytes)) && (victim = victim_for(k, who, now_ns)))
            victim->drop(victim);
        rt_mutex_unlock(&k->mu);
    }
    if (taken)
        *reserved = bytes;
    return taken;
}

void rt_idle_cache_release(struct rt_idle_cache *k, size_t bytes)
{
    rt_budget_give(&k->idle, bytes);
}

size_t rt_idle_cache_bytes_of(struct rt_idle_cache *k, const struct rt_cache_owner *of_session)
{
    size_t sum = 0;
    rt_mutex_lock(&k->mu);
    for (const struct rt_cache_owner *x = of_session; x && x->of_session == of_session; x = x->next)
        sum += atomic_load_explicit(&x->bytes, memory_order_relaxed);
    rt_mutex_unlock(&k->mu);
    return sum;
}

/* ---- specialisations ---- */

bool rt_idle_cache_fits_specialisation(const struct rt_idle_cache *k, size_t bytes)
{
    const size_t used = atomic_load(&k->specialisations.used);
    return used <= k->specialisations.limit && bytes <= k->specialisations.limit - used;
}

int rt_idle_cache_specialisations(const struct rt_idle_cache *k)
{
    return atomic_load(&k->n_specialisations);
}

void rt_idle_cache_add_specialisation(struct rt_idle_cache *k, size_t bytes)
{
    atomic_fetch_add(&k->n_specialisations, 1);
    atomic_fetch_add(&k->specialisations.used, bytes);
}

void rt_idle_cache_remove_specialisation(struct rt_idle_cache *k, size_t bytes)
{
    rt_budget_give(&k->specialisations, bytes);
    atomic_fetch_sub(&k->n_specialisations, 1);
}
