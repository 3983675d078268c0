#include "runtime/session/session.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "runtime/files/checkpoint_v1.h"
#include "runtime/session/compiler.h"
#include "runtime/plan/layout.h"
#include "runtime/session/resource.h"

enum { LEAST_POOL_BYTES = 1 << 20 };
enum { FOLDED_BYTES = 1 << 30 }; /* that folding may leave in the plans of a session */
#define FOLDS_NS (3 * INT64_C(1000000000))

static void end_pool(struct rt_session *s, struct rt_pool *p);
static void drop_pool(struct rt_keeper *k);

/* What loads a model is a run, and leaves no more behind than a run may hold, or than runs may
 * leave. */
static bool init_state(struct rt_state *state, const struct rt_session_options *o)
{
    const size_t a = o->run_memory_limit, b = o->state_memory_limit, most = a > b ? a : b;
    const size_t limit = a && b ? most : 0;
    return rt_state_init(state, limit,
                         a > b ? "--run_memory_limit_bytes" : "--state_memory_limit_bytes") &&
           rt_state_init_weights(state, limit,
                                 a > b ? "the checkpoint's size and --run_memory_limit_bytes"
                                       : "the checkpoint's size and --state_memory_limit_bytes");
}

/* Weights that pass through folding stay where they count. */
static bool init_folded(struct rt_state *folded, const struct rt_session *s)
{
    const size_t limit = s->options.run_memory_limit;
    if (!rt_state_init(folded, limit && limit < FOLDED_BYTES ? limit : FOLDED_BYTES,
                       "folded constants"))
        return false;
    folded->weights = rt_pool_ref(s->state.weights);
    return true;
}

enum rt_status rt_session_new(struct rt_session **out, struct rt_library *library,
                              const struct rt_session_options *options, struct rt_error *err)
{
    struct rt_session *s = calloc(1, sizeof *s);
    if (!s)
        return rt_fail_memory(err, "a session", sizeof *s);
    s->options = *options;
    s->n_devices = options->n_devices + 1;
    struct rt_device **devices = calloc((size_t)s->n_devices, sizeof *devices);
    s->chooser = pl_chooser_new();
    const bool has_state = init_state(&s->state, options) && init_folded(&s->folded, s);
    s->keep = options->keep ? options->keep : rt_keep_new(RT_KEEP_IDLE_BYTES, RT_KEEP_LAYOUT_BYTES);
    if (!devices || !s->chooser || !s->keep || !has_state) {
        pl_chooser_free(s->chooser);
        rt_state_clear(&s->state);
        rt_state_clear(&s->folded);
        if (!options->keep)
            rt_keep_free(s->keep);
        free(devices);
        free(s);
        return rt_fail_memory(err, "a session", sizeof *devices);
    }
    devices[0] = &rt_cpu;
    for (int i = 0; i < options->n_devices; i++)
        devices[i + 1] = options->devices[i];
    s->devices = devices;
    s->library = library;
    rt_mutex_init(&s->mu);
    rt_mutex_init(&s->pool_mu);
    rt_mutex_init(&s->layout_mu);
    s->wanted_end = &s->wanted;
    s->is_loading = options->compiles_inline;
    atomic_init(&s->fold_ns, FOLDS_NS);
    s->keeper = (struct rt_keeper){.owner = s, .session = s, .drop = drop_pool};
    rt_keep_join(s->keep, &s->keeper);
    if (getrandom(&s->entropy, sizeof s->entropy, GRND_NONBLOCK) != sizeof s->entropy)
        s->entropy = (uint64_t)(uintptr_t)s;
    *out = s;
    return RT_OK;
}

static void free_states(struct rt_map *states)
{
    for (size_t i = 0; i < states->n; i++)
        free(states->entry[i].value);
    rt_map_clear(states);
}

void rt_session_free(struct rt_session *s)
{
    if (!s)
        return;
    atomic_store(&s->ends, true);
    rt_checkpoint_v1_forget();
    if (s->options.compiler)
        rt_compiler_leave(s->options.compiler, s);
    rt_wants_free(s);
    for (size_t i = 0; i < s->callables.n; i++)
        rt_callable_free(s->callables.entry[i].value);
    rt_map_clear(&s->callables);
    pl_chooser_free(s->chooser);
    rt_packs_clear(&s->packs);
    for (size_t i = 0; i < s->slots.n; i++)
        rt_object_unref(s->slots.entry[i].value);
    rt_map_clear(&s->slots);
    free_states(&s->node_states);
    free_states(&s->aside);
    rt_state_clear(&s->state);
    rt_state_clear(&s->folded);
    rt_keep_leave(s->keep, &s->keeper);
    for (int i = 0; i < s->n_pools; i++)
        end_pool(s, s->pools[i]);
    if (!s->options.keep)
        rt_keep_free(s->keep);
    rt_library_free(s->library);
    rt_mutex_clear(&s->mu);
    rt_mutex_clear(&s->pool_mu);
    rt_mutex_clear(&s->layout_mu);
    free((void *)(uintptr_t)s->devices);
    free(s);
}

const struct rt_graph *rt_session_graph(const struct rt_session *s)
{
    return rt_library_main(s->library);
}

enum rt_status rt_session_check(const struct rt_session *s, struct rt_error *err)
{
    const _Atomic bool *cancelled = s->options.cancelled;
    if (atomic_load(&s->ends) ||
        (cancelled && atomic_load_explicit(cancelled, memory_order_relaxed)))
        return rt_fail(err, RT_CANCELLED, "the model is not wanted any more");
    return RT_OK;
}

static void frozen_was_written(void *arg)
{
    struct rt_session *s = arg;
    atomic_fetch_add(&s->generation, 1);
}

enum rt_status rt_session_slot(struct rt_session *s, const struct rt_node *n,
                               const struct rt_tensor *in, struct rt_object **out,
                               struct rt_error *err)
{
    const struct rt_attr *container = rt_attr(n, "container");
    const struct rt_attr *shared = rt_attr(n, "shared_name");
    const char *name = shared && shared->n ? shared->v.s : n->name;
    size_t name_len = shared && shared->n ? shared->n : strlen(n->name);
    char *key = NULL;
    size_t key_len = strlen(n->op->slot_kind) + 1 + (container ? container->n : 0) + 1 + name_len;
    key = malloc(key_len + 1);
    if (!key)
        return rt_fail_memory(err, n->name, key_len);
    char *at = stpcpy(key, n->op->slot_kind) + 1;
    if (container && container->n)
        memcpy(at, container->v.s, container->n);
    at += container ? container->n : 0;
    *at++ = '\0';
    memcpy(at, name, name_len);
    enum rt_status st = RT_OK;
    rt_mutex_lock(&s->mu);
    struct rt_object *o = rt_map_getn(&s->slots, key, key_len);
    if (!o) {
        st = n->op->make(n, in, &o, err);
        if (!st && !rt_map_putn(&s->slots, key, key_len, o)) {
            rt_object_unref(o);
            st = rt_fail_memory(err, n->name, key_len);
        }
        if (!st && o->type == &rt_variable_type)
            rt_variable_on_write((struct rt_variable *)o, frozen_was_written, s);
    }
    if (!st)
        *out = rt_object_ref(o);
    rt_mutex_unlock(&s->mu);
    free(key);
    return st;
}

/* ---- pools between runs ---- */

struct rt_pool *rt_session_pool(struct rt_session *s)
{
    rt_mutex_lock(&s->pool_mu);
    struct rt_pool *p = s->n_pools ? s->pools[--s->n_pools] : NULL;
    if (p)
        rt_keeper_count(&s->keeper, -1, -(int64_t)*rt_pool_kept(p));
    rt_mutex_unlock(&s->pool_mu);
    if (p) {
        rt_keep_use(s->keep, rt_pool_kept(p));
        rt_pool_begin(p);
        return p;
    }
    p = rt_pool_new(s->options.run_memory_limit ? s->options.run_memory_limit : SIZE_MAX);
    if (p)
        rt_pool_share(p, s->options.budget);
    return p;
}

static void end_pool(struct rt_session *s, struct rt_pool *p)
{
    rt_keep_give(s->keep, *rt_pool_kept(p));
    rt_pool_unref(p);
}

void rt_session_pool_back(struct rt_session *s, struct rt_pool *p)
{
    const size_t waits = rt_pool_end(p, LEAST_POOL_BYTES); /* much of it comes back later */
    bool keep = rt_keep_take(s->keep, &s->keeper, rt_pool_kept(p), waits);
    rt_mutex_lock(&s->pool_mu);
    keep = keep && s->n_pools < (int)(sizeof s->pools / sizeof *s->pools);
    if (keep) {
        s->pools[s->n_pools++] = p;
        rt_keeper_count(&s->keeper, 1, (int64_t)*rt_pool_kept(p));
    }
    rt_mutex_unlock(&s->pool_mu);
    if (!keep)
        end_pool(s, p);
}

static void drop_pool(struct rt_keeper *k)
{
    struct rt_session *s = k->owner;
    struct rt_pool *last = NULL;
    rt_mutex_lock(&s->pool_mu);
    if (s->n_pools) {
        last = s->pools[0];
        memmove(s->pools, s->pools + 1, (size_t)--s->n_pools * sizeof(void *));
        rt_keeper_count(k, -1, -(int64_t)*rt_pool_kept(last));
    }
    rt_mutex_unlock(&s->pool_mu);
    if (last)
        end_pool(s, last);
}

/* ---- from loading to serving ---- */

void rt_session_serve(struct rt_session *s)
{
    rt_mutex_lock(&s->mu);
    if (!s->serving)
        rt_state_serve(&s->state, s->options.state_memory_limit);
    s->serving = true;
    rt_mutex_unlock(&s->mu);
    atomic_fetch_add(&s->generation, 1); /* plans made while loading are made again */
    rt_checkpoint_v1_forget();
}

void rt_session_admit_weights(struct rt_session *s, int64_t bytes)
{
    rt_state_admit_weights(&s->state, bytes);
}

void rt_session_set_aside(struct rt_session *s, bool yes)
{
    rt_mutex_lock(&s->mu);
    struct rt_map *from = yes ? &s->node_states : &s->aside;
    struct rt_map *to = yes ? &s->aside : &s->node_states;
    free_states(to);
    *to = *from;
    rt_map_init(from);
    rt_mutex_unlock(&s->mu);
}

void rt_session_stats(struct rt_session *s, struct rt_session_stats *out)
{
    rt_mutex_lock(&s->layout_mu);
    const int n_layouts = s->n_layouts;
    const size_t layout_bytes = s->layout_bytes;
    rt_mutex_unlock(&s->layout_mu);
    *out = (struct rt_session_stats){.packed_bytes = atomic_load(&s->packed_bytes),
                                     .n_layouts = n_layouts,
                                     .layout_bytes = layout_bytes,
                                     .idle_bytes = rt_keep_bytes_of(s->keep, s),
                                     .state_bytes = rt_pool_in_use(s->state.pool),
                                     .runs = atomic_load(&s->runs),
                                     .nodes_run = atomic_load(&s->nodes_run)};
}
