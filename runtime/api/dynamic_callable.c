#include "runtime/api/dynamic_callable.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "runtime/files/saved_model.h"

struct rt_dynamic_callables {
    struct rt_mutex mu;
    /* maps feeds, fetches and targets to a struct rt_model_signature; guarded by mu */
    struct rt_map by_key;
    /* Number of callables that exist or are being made, indexed by `is_client_named`. Guarded by
     * mu. */
    int n[2];
    struct rt_arena *arena; /* guarded by mu */
};

struct rt_dynamic_callables *rt_dynamic_callables_new(void)
{
    struct rt_dynamic_callables *a = calloc(1, sizeof *a);
    if (!a || !(a->arena = rt_arena_new(64 << 20))) {
        free(a);
        return NULL;
    }
    rt_mutex_init(&a->mu);
    return a;
}

void rt_dynamic_callables_free(struct rt_dynamic_callables *a)
{
    if (!a)
        return;
    rt_map_clear(&a->by_key);
    rt_mutex_clear(&a->mu);
    rt_arena_free(a->arena);
    free(a);
}

static void add_names(struct rt_bytes *key, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        rt_bytes_add(key, names[i], strlen(names[i]) + 1);
    rt_bytes_addc(key, '\1');
}

static bool make_key(struct rt_bytes *key, const struct rt_call_spec *spec)
{
    rt_bytes_init(key, 1 << 20);
    add_names(key, spec->feeds, spec->n_feeds);
    add_names(key, spec->fetches, spec->n_fetches);
    add_names(key, spec->targets, spec->n_targets);
    return !key->failed;
}

const struct rt_model_signature *rt_model_find_dynamic(const struct rt_model *m,
                                                       const struct rt_call_spec *spec)
{
    const struct rt_model_signature *found = NULL;
    struct rt_bytes key;

    if (!m->dynamic_callables)
        return NULL;
    if (make_key(&key, spec)) {
        rt_mutex_lock(&m->dynamic_callables->mu);
        found = rt_map_getn(&m->dynamic_callables->by_key, key.p, key.n);
        rt_mutex_unlock(&m->dynamic_callables->mu);
    }
    rt_bytes_clear(&key);
    return found;
}

/* Fails with TensorFlow's error message if the graph does not contain the tensor. */
static enum rt_status check_tensor(const struct rt_graph *g, const char *name, struct rt_error *err)
{
    const char *colon = strrchr(name, ':');
    size_t n = colon ? (size_t)(colon - name) : strlen(name);
    const struct rt_node *node = rt_map_getn(g->by_name, name, n);
    struct rt_edge e;

    if (rt_graph_tensor(g, name, &e, NULL) == RT_OK && e.out >= 0)
        return RT_OK;
    if (node && colon && colon[1] >= '0' && colon[1] <= '9')
        return rt_fail(err, RT_OUT_OF_RANGE,
                       "Node '%s' (type: '%s', num of outputs: %d) does not have output %s",
                       node->name, node->schema->name, node->n_out, colon + 1);
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "Tensor %s, specified in either feed_devices or fetch_devices was not found in "
                   "the Graph",
                   name);
}

/* Checks all tensor and node names of a call. Errors have TensorFlow's messages. */
static enum rt_status check_names(const struct rt_model *m, const struct rt_call_spec *spec,
                                  struct rt_error *err)
{
    const struct rt_graph *g = rt_session_graph(m->session);
    enum rt_status st = RT_OK;
    struct rt_bytes lost;

    for (int i = 0; i < spec->n_feeds && !st; i++)
        st = check_tensor(g, spec->feeds[i], err);
    for (int i = 0; i < spec->n_fetches && !st; i++)
        st = check_tensor(g, spec->fetches[i], err);
    for (int i = 0; i < spec->n_fetches && !st; i++)
        for (int k = 0; k < spec->n_feeds && !st; k++)
            if (strcmp(spec->fetches[i], spec->feeds[k]) == 0)
                st = rt_fail(err, RT_INVALID_ARGUMENT, "%s is both fed and fetched.",
                             spec->fetches[i]);
    if (st)
        return st;
    rt_bytes_init(&lost, 64 << 10);
    for (int i = 0; i < spec->n_targets; i++) {
        const char *colon = strrchr(spec->targets[i], ':');
        size_t n = colon ? (size_t)(colon - spec->targets[i]) : strlen(spec->targets[i]);
        if (!rt_map_getn(g->by_name, spec->targets[i], n))
            rt_bytes_addf(&lost, "%s ", spec->targets[i]);
    }
    if (lost.n)
        st = rt_fail(err, RT_NOT_FOUND, "PruneForTargets: Some target nodes not found: %s", lost.p);
    rt_bytes_clear(&lost);
    return st;
}

static enum rt_status check_ops(const struct rt_model *m, const struct rt_call_spec *spec,
                                struct rt_error *err)
{
    struct rt_arena *arena = rt_arena_new(16 << 20);
    struct rt_missing *missing;
    int n = 0;
    enum rt_status st = arena ? rt_session_missing(m->session, spec, arena, &missing, &n, err)
                              : rt_fail_memory(err, "a call", 0);
    if (!st && n)
        st = rt_fail(err, RT_UNIMPLEMENTED, "the call cannot run: %s (node '%s')%s",
                     missing[0].reason, missing[0].node, n > 1 ? ", and more" : "");
    rt_arena_free(arena);
    return st;
}

static struct rt_tensor_spec *specs_of(struct rt_arena *arena, const char *const *names, int n)
{
    struct rt_tensor_spec *specs = rt_arena_array(arena, (size_t)n + 1, sizeof *specs);
    for (int i = 0; specs && i < n; i++) {
        specs[i].name = specs[i].alias = rt_arena_strdup(arena, names[i]);
        specs[i].shape.rank = -1;
        if (!specs[i].name)
            return NULL;
    }
    return specs;
}

/* Makes the signature of a prepared call. Called under mu. Returns NULL if out of memory. */
static struct rt_model_signature *describe(struct rt_dynamic_callables *a,
                                           const struct rt_call_spec *spec,
                                           struct rt_callable *call, bool rowwise)
{
    struct rt_model_signature *s = rt_arena_alloc(a->arena, sizeof *s);
    struct rt_signature *def = rt_arena_alloc(a->arena, sizeof *def);
    struct rt_tensor_spec *in = specs_of(a->arena, spec->feeds, spec->n_feeds);
    struct rt_tensor_spec *out = specs_of(a->arena, spec->fetches, spec->n_fetches);

    if (!s || !def || !in || !out)
        return NULL;
    for (int i = 0; i < spec->n_feeds; i++)
        in[i].dtype = rt_callable_feed_dtype(call, i);
    for (int i = 0; i < spec->n_fetches; i++)
        out[i].dtype = rt_callable_fetch_dtype(call, i);
    *def = (struct rt_signature){.name = "",
                                 .method_name = "",
                                 .n_inputs = spec->n_feeds,
                                 .n_outputs = spec->n_fetches,
                                 .inputs = in,
                                 .outputs = out};
    *s = (struct rt_model_signature){.def = def,
                                     .call = call,
                                     .writes = rt_callable_writes(call),
                                     .draws = rt_callable_draws(call),
                                     .rowwise = rowwise,
                                     .why_not = rowwise ? NULL : "it is called by tensor names",
                                     .is_dynamic = true,
                                     .index = (int)a->by_key.n};
    return s;
}

/* Prepares the call. Sets *rowwise to whether the rows are independent for these shapes of the
 * feeds. Runs without the lock, because I/O threads take the lock to look up calls. */
static enum rt_status prepare(struct rt_model *m, const struct rt_call_spec *spec,
                              const struct rt_shape *shapes, struct rt_callable **call,
                              bool *rowwise, struct rt_error *err)
{
    struct rt_error why = {.arena = NULL};
    enum rt_status st = rt_session_prepare(m->session, spec, call, err);

    *rowwise = !st && shapes && spec->n_feeds && rt_callable_is_rowwise(*call, shapes, &why);
    return st;
}

/* Counts a callable that is about to be made. Fails if RT_MAX_DYNAMIC_CALLABLES have been counted
 * already. */
static enum rt_status reserve(struct rt_dynamic_callables *a, const struct rt_call_spec *spec,
                              struct rt_error *err)
{
    rt_mutex_lock(&a->mu);
    bool is_full = a->n[spec->is_client_named] >= RT_MAX_DYNAMIC_CALLABLES;
    a->n[spec->is_client_named] += !is_full;
    rt_mutex_unlock(&a->mu);
    return is_full ? rt_fail(err, RT_RESOURCE_EXHAUSTED,
                             "more than %d different sets of feeds and fetches of one model",
                             RT_MAX_DYNAMIC_CALLABLES)
                   : RT_OK;
}

enum rt_status rt_model_make_dynamic(struct rt_model *m, const struct rt_call_spec *spec,
                                     const struct rt_shape *shapes,
                                     const struct rt_model_signature **out, struct rt_error *err)
{
    struct rt_dynamic_callables *a = m->dynamic_callables;
    struct rt_model_signature *made = NULL, *other = NULL;
    struct rt_callable *call;
    struct rt_bytes key;
    bool rowwise = false;
    enum rt_status st;

    *out = rt_model_find_dynamic(m, spec);
    if (*out)
        return RT_OK;
    if (!spec->n_fetches && !spec->n_targets)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Must specify at least one target to fetch or execute.");
    st = check_names(m, spec, err);
    if (!st)
        st = check_ops(m, spec, err);
    if (!st)
        st = reserve(a, spec, err);
    if (st)
        return st;
    if (!make_key(&key, spec))
        st = rt_fail(err, RT_INVALID_ARGUMENT, "too many feeds and fetches");
    if (!st)
        st = prepare(m, spec, shapes, &call, &rowwise, err);
    rt_mutex_lock(&a->mu);
    /* another thread may have made the callable in the meantime */
    if (!st)
        other = rt_map_getn(&a->by_key, key.p, key.n);
    if (!st && !other) {
        made = describe(a, spec, call, rowwise);
        if (!made || !rt_map_putn(&a->by_key, key.p, key.n, made))
            st = rt_fail_memory(err, "a call", key.n);
    }
    if (st || other)
        a->n[spec->is_client_named]--;
    rt_mutex_unlock(&a->mu);
    rt_bytes_clear(&key);
    if (!st)
        *out = other ? other : made;
    return st;
}
