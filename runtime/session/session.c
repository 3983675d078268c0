/* The resources (slots) and idle pools of a session, and its change from loading to serving. */
#include "runtime/session/session_internal.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/files/checkpoint_v1.h"
#include "runtime/base/arena.h"
#include "runtime/session/account.h"
#include "runtime/session/resource.h"
#include "runtime/core/load_memory.h"
#include "runtime/core/op.h"

enum { LEAST_POOL_BYTES = 1 << 20 };
#define PLAN_ARENA_BYTES ((size_t)1 << 31)

const struct rt_graph *rt_session_graph(const struct rt_session *s)
{
    return rt_library_main(s->library);
}

size_t rt_session_held(const struct rt_session *s)
{
    return rt_library_bytes(s->library) + atomic_load(&s->model_bytes) +
           atomic_load(&s->plan_bytes) + atomic_load(&s->prepared_bytes) +
           atomic_load(&s->specialisation_bytes) + (size_t)atomic_load(&s->packed_bytes) +
           rt_pool_in_use(s->state.pool) + rt_pool_in_use(s->state.weights) +
           rt_pool_in_use(s->folded.pool);
}

void rt_session_add_model_bytes(struct rt_session *s, size_t bytes)
{
    atomic_fetch_add(&s->model_bytes, bytes);
}

struct rt_arena *rt_session_plan_arena(struct rt_session *s)
{
    struct rt_arena *a = rt_arena_new(PLAN_ARENA_BYTES);
    if (a)
        rt_arena_count(a, &s->plan_bytes);
    return a;
}

enum rt_status rt_session_follow(const struct rt_session *s, struct rt_error *err)
{
    struct rt_account *account = s->options.account;
    return account ? rt_account_follow(account, rt_session_held(s), err) : RT_OK;
}

enum rt_status rt_session_check(const struct rt_session *s, struct rt_error *err)
{
    const _Atomic bool *cancelled = s->options.cancelled;
    if (atomic_load(&s->ends) ||
        (cancelled && atomic_load_explicit(cancelled, memory_order_relaxed)))
        return rt_fail(err, RT_CANCELLED, "the model is not wanted any more");
    return rt_session_follow(s, err);
}

static enum rt_status check_session(void *arg, struct rt_error *err)
{
    return rt_session_check(arg, err);
}

struct rt_check rt_session_as_check(struct rt_session *s)
{
    return (struct rt_check){check_session, s};
}

enum rt_status rt_session_load_tensor(struct rt_session *s, struct rt_tensor *t,
                                      struct rt_error *err)
{
    const struct rt_check check = rt_session_as_check(s);
    return rt_tensor_load_checked(t, &check, err);
}

void rt_session_end(struct rt_session *s)
{
    atomic_store(&s->ends, true);
}

static void frozen_was_written(void *arg)
{
    struct rt_session *s = arg;
    atomic_fetch_add(&s->generation, 1);
}

/* Sets *out to the key of a resource, of which the caller frees the bytes. */
static enum rt_status make_key(const struct rt_node *n, enum rt_resource_key by, const char *kind,
                               char **out, size_t *out_len, struct rt_error *err)
{
    const struct rt_attr *container = by == RT_KEY_NODE ? NULL : rt_attr(n, "container");
    const struct rt_attr *shared = rt_attr(n, "shared_name");
    const struct rt_span name = by == RT_KEY_NONE     ? rt_span_of(NULL, 0)
                                : by == RT_KEY_NODE   ? rt_span_of(&n, sizeof n)
                                : shared && shared->n ? rt_span_of(shared->v.s, shared->n)
                                                      : rt_span_str(n->name);
    size_t key_len = strlen(kind) + 1 + (container ? container->n : 0) + 1 + name.n;
    char *key = malloc(key_len + 1);
    if (!key)
        return rt_fail_memory(err, n->name, key_len);
    char *at = stpcpy(key, kind) + 1;
    if (container && container->n)
        memcpy(at, container->v.s, container->n);
    at += container ? container->n : 0;
    *at++ = '\0';
    if (name.n)
        memcpy(at, name.p, name.n);
    *out = key;
    *out_len = key_len;
    return RT_OK;
}

/* Returns a new reference to the resource with a key, or NULL if there is none. */
static struct rt_object *find_slot(struct rt_session *s, const char *key, size_t key_len)
{
    rt_mutex_lock(&s->mu);
    struct rt_object *o = rt_object_ref(rt_map_getn(&s->slots, key, key_len));
    rt_mutex_unlock(&s->mu);
    return o;
}

/* Adds a new resource to the session, which takes it, and sets *o to a new reference to it. If
 * another thread has added a resource with this key meanwhile, drops the new one, and sets *o to a
 * reference to the other one. */
static enum rt_status add_slot(struct rt_session *s, const struct rt_node *n, const char *key,
                               size_t key_len, struct rt_object **o, struct rt_error *err)
{
    struct rt_object *made = *o;
    enum rt_status st = RT_OK;
    rt_mutex_lock(&s->mu);
    struct rt_object *present = rt_map_getn(&s->slots, key, key_len);
    if (!present && rt_map_putn(&s->slots, key, key_len, made)) {
        present = made;
        made = NULL;
        if (present->type == &rt_variable_type)
            rt_variable_on_write((struct rt_variable *)present, frozen_was_written, s);
    }
    if (present)
        *o = rt_object_ref(present);
    else
        st = rt_fail_memory(err, n->name, key_len);
    rt_mutex_unlock(&s->mu);
    rt_object_unref(made);
    return st;
}

/* Sets *out to the resource with a key. If the session has no such resource, `make` makes it. The
 * lock is not held meanwhile, because a large resource takes seconds to make, and runs on network
 * threads take the lock. */
static enum rt_status find_or_make(struct rt_session *s, const struct rt_node *n,
                                   enum rt_resource_key by, const struct rt_tensor *in,
                                   const char *kind, rt_resource_make *make, struct rt_object **out,
                                   struct rt_error *err)
{
    const struct rt_check check = rt_session_as_check(s);
    const struct rt_make arguments = {
        .node = n, .in = in, .pool = s->state.pool, .check = &check, .err = err};
    char *key = NULL;
    size_t key_len = 0;
    enum rt_status st = make_key(n, by, kind, &key, &key_len, err);
    if (st)
        return st;
    struct rt_object *o = find_slot(s, key, key_len);
    if (!o) {
        st = make(&arguments, &o);
        if (!st)
            st = add_slot(s, n, key, key_len, &o, err);
    }
    if (!st)
        *out = o;
    free(key);
    return st;
}

enum rt_status rt_session_slot(struct rt_session *s, const struct rt_node *n,
                               const struct rt_tensor *in, struct rt_object **out,
                               struct rt_error *err)
{
    struct rt_object *o = NULL;
    enum rt_status st = find_or_make(s, n, RT_KEY_NAME, in, n->op->slot_kind, n->op->make, &o, err);
    if (!st && n->op->matches && (st = n->op->matches(n, o, err)) != RT_OK)
        rt_object_unref(o);
    if (!st)
        *out = o;
    return st;
}

enum rt_status rt_session_resource(struct rt_session *s, const struct rt_node *n, const char *kind,
                                   enum rt_resource_key by, rt_resource_make *make,
                                   struct rt_object **out, struct rt_error *err)
{
    return find_or_make(s, n, by, NULL, kind, make, out, err);
}

/* ---- idle pools ---- */

struct rt_pool *rt_session_pool(struct rt_session *s)
{
    rt_mutex_lock(&s->pool_mu);
    struct rt_pool *p = s->n_pools ? s->pools[--s->n_pools] : NULL;
    if (p)
        rt_cache_owner_count(&s->cache_owner, -1, -(int64_t)*rt_pool_reserved(p));
    rt_mutex_unlock(&s->pool_mu);
    if (p) {
        rt_idle_cache_use(s->idle_cache, rt_pool_reserved(p));
        rt_pool_begin(p);
        return p;
    }
    p = rt_pool_new(s->options.run_memory_limit ? s->options.run_memory_limit : SIZE_MAX);
    if (p)
        rt_session_share_budget(s, p);
    return p;
}

void rt_session_share_budget(struct rt_session *s, struct rt_pool *p)
{
    rt_pool_share(p, s->options.budget);
    rt_mutex_lock(&s->pool_mu);
    rt_pool_count_as_load(p, s->counts_as_load);
    rt_mutex_unlock(&s->pool_mu);
}

void rt_session_count_as_load(struct rt_session *s, bool yes)
{
    rt_mutex_lock(&s->pool_mu);
    s->counts_as_load = yes;
    for (int i = 0; i < s->n_pools; i++)
        rt_pool_count_as_load(s->pools[i], yes);
    rt_mutex_unlock(&s->pool_mu);
}

static void end_pool(struct rt_session *s, struct rt_pool *p)
{
    rt_idle_cache_release(s->idle_cache, *rt_pool_reserved(p));
    rt_pool_unref(p);
}

void rt_session_pool_back(struct rt_session *s, struct rt_pool *p)
{
    /* Many blocks of the run are still in use and will be returned to the pool later. `waits` is an
     * upper bound on the bytes that the pool will retain. */
    const size_t waits = rt_pool_end(p, LEAST_POOL_BYTES);
    bool fits = rt_idle_cache_reserve(s->idle_cache, &s->cache_owner, rt_pool_reserved(p), waits);
    rt_mutex_lock(&s->pool_mu);
    rt_pool_count_as_load(p, s->counts_as_load);
    fits = fits && s->n_pools < (int)(sizeof s->pools / sizeof *s->pools);
    if (fits) {
        s->pools[s->n_pools++] = p;
        rt_cache_owner_count(&s->cache_owner, 1, (int64_t)*rt_pool_reserved(p));
    }
    rt_mutex_unlock(&s->pool_mu);
    if (!fits)
        end_pool(s, p);
}

static void drop_pool(struct rt_cache_owner *k)
{
    struct rt_session *s = k->owner;
    struct rt_pool *last = NULL;
    rt_mutex_lock(&s->pool_mu);
    if (s->n_pools) {
        last = s->pools[0];
        memmove(s->pools, s->pools + 1, (size_t)--s->n_pools * sizeof(void *));
        rt_cache_owner_count(k, -1, -(int64_t)*rt_pool_reserved(last));
    }
    rt_mutex_unlock(&s->pool_mu);
    if (last)
        end_pool(s, last);
}

void rt_session_pools_begin(struct rt_session *s)
{
    rt_mutex_init(&s->pool_mu);
    if (s->options.budget)
        atomic_fetch_add(&s->options.budget->n_sessions, 1);
    s->cache_owner =
        (struct rt_cache_owner){.owner = s, .of_session = &s->cache_owner, .drop = drop_pool};
    rt_idle_cache_add_owner(s->idle_cache, &s->cache_owner);
}

void rt_session_pools_end(struct rt_session *s)
{
    rt_idle_cache_remove_owner(s->idle_cache, &s->cache_owner);
    for (int i = 0; i < s->n_pools; i++)
        end_pool(s, s->pools[i]);
    if (s->options.budget)
        atomic_fetch_sub(&s->options.budget->n_sessions, 1);
    rt_mutex_clear(&s->pool_mu);
}

/* ---- from loading to serving ---- */

void rt_session_serve(struct rt_session *s)
{
    rt_mutex_lock(&s->mu);
    if (!s->serving)
        rt_state_serve(&s->state, s->options.state_memory_limit);
    s->serving = true;
    rt_mutex_unlock(&s->mu);
    atomic_fetch_add(&s->generation, 1); /* Plans that were made during loading are rebuilt. */
    rt_checkpoint_v1_forget();
}

void rt_session_admit_weights(struct rt_session *s, int64_t bytes)
{
    rt_state_admit_weights(&s->state, bytes);
}

void rt_session_free_states(struct rt_map *states)
{
    for (size_t i = 0; i < states->n; i++)
        free(states->entry[i].value);
    rt_map_clear(states);
}

void rt_session_set_aside(struct rt_session *s, bool yes)
{
    rt_mutex_lock(&s->mu);
    struct rt_map *from = yes ? &s->node_states : &s->aside;
    struct rt_map *to = yes ? &s->aside : &s->node_states;
    rt_session_free_states(to);
    *to = *from;
    rt_map_init(from);
    rt_mutex_unlock(&s->mu);
}
