/*
 * Implements contexts. While a run uses a context, the run's pool counts the context's scratch
 * memory. A plan retains an idle context for its next run, if the idle cache has enough free
 * capacity (idle_cache.h).
 */
#include <stdlib.h>

#include "runtime/exec/context.h"
#include "runtime/plan/specialisation.h"
#include "runtime/session/session_internal.h"

enum { MAX_IDLE_CONTEXTS = 8 };

/* ---- a context's memory ---- */

static void context_free(struct rt_context *c)
{
    free(c->value);
    free(c->key);
    rt_instances_free(c);
    rt_context_drop_scratch(c);
    rt_idle_cache_release(c->plan->session->idle_cache, c->reserved);
    free(c);
}

static struct rt_context *context_new(const struct rt_plan *p)
{
    struct rt_context *c = calloc(1, sizeof *c);
    const size_t ends = 2 * (size_t)p->max_in + (size_t)p->max_out;
    const size_t n = (size_t)p->n_values + (p->loops ? 2 : 1) * ends + 1;
    if (!c)
        return NULL;
    c->plan = p;
    c->value = calloc(n, sizeof *c->value);
    if (!c->value) {
        free(c);
        return NULL;
    }
    c->in = c->value + p->n_values;
    c->handle = c->in + p->max_in;
    c->out = c->handle + p->max_in;
    c->loop = p->loops ? c->out + p->max_out : NULL;
    return c;
}

/* ---- between runs ---- */

struct rt_context *rt_context_take(struct rt_plan *p, struct rt_run_shared *shared)
{
    rt_mutex_lock(&p->mu);
    struct rt_context *c = p->idle;
    if (c) {
        p->idle = c->next;
        rt_cache_owner_count(&p->cache_owner, -1, -(int64_t)c->reserved);
    }
    rt_mutex_unlock(&p->mu);
    if (!c) {
        c = context_new(p);
        if (c)
            c->shared = shared;
        return c;
    }
    rt_idle_cache_use(p->session->idle_cache, &c->reserved);
    if (rt_pool_charge(shared->pool, rt_context_held(c), "a run", NULL))
        /* If the scratch memory exceeds a limit, the context frees it. A node that needs scratch
         * memory allocates it again. */
        rt_context_drop_scratch(c);
    c->shared = shared;
    return c;
}

struct rt_device *rt_context_accelerator(const struct rt_context *c)
{
    return c->shared->session->options.accelerators.device[c->shared->accelerator];
}

/* Reserves capacity in the idle cache for the context's scratch memory and execution instances. If
 * the capacity does not suffice, drops the scratch memory and reserves capacity only for the
 * instances. Returns false if even the instances do not fit. */
static bool reserve_idle(struct rt_plan *p, struct rt_context *c)
{
    struct rt_idle_cache *idle_cache = p->session->idle_cache;
    if (rt_idle_cache_reserve(idle_cache, &p->cache_owner, &c->reserved,
                              rt_context_held(c) + c->instance_bytes))
        return true;
    if (!rt_context_held(c))
        return false;
    rt_context_drop_scratch(c);
    return rt_idle_cache_reserve(idle_cache, &p->cache_owner, &c->reserved, c->instance_bytes);
}

void rt_context_give(struct rt_context *c)
{
    struct rt_plan *p = (struct rt_plan *)(uintptr_t)c->plan;
    const int retirements = atomic_load_explicit(&p->session->retirements, memory_order_relaxed);
    if (c->retirements != retirements) {
        c->retirements = retirements;
        struct rt_instance *retired = NULL;
        rt_instances_take_retired(c, &retired);
        rt_instances_free_list(retired);
    }
    rt_pool_discharge(c->shared->pool, rt_context_held(c));
    c->shared = NULL;
    if (atomic_load_explicit(&p->cache_owner.n, memory_order_relaxed) >= MAX_IDLE_CONTEXTS ||
        !reserve_idle(p, c)) {
        context_free(c);
        return;
    }
    rt_mutex_lock(&p->mu);
    c->next = p->idle;
    p->idle = c;
    rt_cache_owner_count(&p->cache_owner, 1, (int64_t)c->reserved);
    rt_mutex_unlock(&p->mu);
}

/* Evicts the last idle context of the list, because runs take the first context. */
static void drop_last(struct rt_cache_owner *k)
{
    struct rt_plan *p = k->owner;
    rt_mutex_lock(&p->mu);
    struct rt_context **at = &p->idle, *c;
    while (*at && (*at)->next)
        at = &(*at)->next;
    c = *at;
    if (c) {
        *at = NULL;
        rt_cache_owner_count(k, -1, -(int64_t)c->reserved);
    }
    rt_mutex_unlock(&p->mu);
    if (c)
        context_free(c);
}

void rt_contexts_begin(struct rt_plan *p)
{
    rt_mutex_init(&p->mu);
    p->cache_owner = (struct rt_cache_owner){
        .owner = p, .of_session = &p->session->cache_owner, .drop = drop_last};
    rt_idle_cache_add_owner(p->session->idle_cache, &p->cache_owner);
}

void rt_contexts_end(struct rt_plan *p)
{
    rt_idle_cache_remove_owner(p->session->idle_cache, &p->cache_owner);
    /* Other threads may search the idle contexts for retired instances until rt_segments_free
     * returns. */
    rt_mutex_lock(&p->mu);
    struct rt_context *idle = p->idle;
    p->idle = NULL;
    rt_mutex_unlock(&p->mu);
    for (struct rt_context *c = idle, *next; c; c = next) {
        next = c->next;
        context_free(c);
    }
}

void rt_contexts_take_retired(struct rt_plan *p, struct rt_instance **list)
{
    size_t less = 0;
    rt_mutex_lock(&p->mu);
    for (struct rt_context *c = p->idle; c; c = c->next) {
        const size_t before = c->instance_bytes;
        rt_instances_take_retired(c, list);
        c->reserved -= before - c->instance_bytes;
        less += before - c->instance_bytes;
    }
    rt_cache_owner_count(&p->cache_owner, 0, -(int64_t)less);
    rt_mutex_unlock(&p->mu);
    rt_idle_cache_release(p->session->idle_cache, less);
}

unsigned rt_flush_subnormals(void)
{
#if defined(__x86_64__)
    unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x8040u);
    return before;
#else
    return 0;
#endif
}

void rt_restore_subnormals(unsigned before)
{
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(before);
#else
    (void)before;
#endif
}
