#include "runtime/session.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "runtime/base/bytes.h"
#include "runtime/compiler.h"
#include "runtime/describe.h"
#include "runtime/layout.h"
#include "runtime/parallel.h"
#include "runtime/resource.h"
#include "runtime/trace.h"

enum {
    MAX_CALLABLES = 256, /* kept per session; a client may ask for any set of fetches */
    MAX_IDLE_CONTEXTS = 8,
    LEAST_POOL_BYTES = 1 << 20,
    LARGE_PAGE = 2 << 20,
    KEEP_SCRATCH_BYTES = 64 << 20,
    KEEP_SCRATCH_MOST = 256 << 20,
};

struct rt_callable {
    struct rt_session *session;
    struct rt_edge *feeds, *fetches;
    int *targets;
    int n_feeds, n_fetches, n_targets;
    bool is_load;
    uint8_t *feed_dtype, *fetch_dtype;
    struct rt_mutex mu;
    struct rt_plan_box *box; /* guarded by mu */
    _Atomic uint64_t compiled[RT_COMPILED_ROWS / 64];
};

/* ---- contexts and running a plan ---- */

static size_t held(const struct rt_context *c)
{
    return c->scratch_room + c->extra_room + c->block_room;
}

void rt_context_drop_scratch(struct rt_context *c)
{
    if (!c->is_idle)
        rt_budget_give(c->plan->session->options.budget, held(c));
    free(c->scratch);
    free(c->extra);
    free(c->block);
    c->scratch = c->extra = c->block = NULL;
    c->scratch_room = c->extra_room = c->block_room = 0;
}

void *rt_large_alloc(size_t bytes)
{
    void *p = NULL;
    const bool is_large = bytes >= 2 * LARGE_PAGE;
    if (posix_memalign(&p, is_large ? LARGE_PAGE : 64, bytes ? bytes : 64) != 0)
        return NULL;
    if (is_large)
        (void)madvise(p, bytes / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
    return p;
}

enum rt_status rt_context_scratch(struct rt_context *c, void **p, size_t *room, size_t bytes,
                                  const char *what, struct rt_error *err)
{
    struct rt_session *s = c->plan->session;
    size_t limit = s->options.run_memory_limit, want = (bytes + 63) & ~(size_t)63;
    if (bytes <= *room)
        return RT_OK;
    free(*p);
    *p = NULL;
    rt_budget_give(s->options.budget, *room);
    *room = 0;
    if (bytes > SIZE_MAX - 64 || (limit && bytes > limit) ||
        !rt_budget_take(s->options.budget, want))
        return rt_fail_memory(err, what, bytes);
    *p = rt_large_alloc(want);
    if (!*p) {
        rt_budget_give(s->options.budget, want);
        return rt_fail_memory(err, what, bytes);
    }
    *room = want;
    return RT_OK;
}

void rt_context_free(struct rt_context *c)
{
    if (!c)
        return;
    if (c->stream)
        for (int d = 0; d < c->plan->session->n_devices; d++)
            if (c->stream[d])
                c->plan->session->devices[d]->stream_free(c->plan->session->devices[d],
                                                          c->stream[d]);
    free(c->stream);
    free(c->value);
    free(c->key);
    rt_frames_free(c);
    rt_context_drop_scratch(c);
    free(c);
}

static struct rt_context *context_new(const struct rt_plan *p)
{
    struct rt_context *c = calloc(1, sizeof *c);
    const struct rt_session *s = p->session;
    size_t n =
        (size_t)p->n_values + (p->loops ? 4 : 2) * (size_t)p->max_in + (size_t)p->max_out + 1;
    if (!c)
        return NULL;
    c->plan = p;
    c->value = calloc(n, sizeof *c->value);
    if (!c->value) {
        free(c);
        return NULL;
    }
    c->in = c->value + p->n_values;
    c->temp = c->in + p->max_in;
    c->out = c->temp + p->max_in;
    c->loop = p->loops ? c->out + p->max_out : NULL;
    if (s->n_devices > 1) {
        c->stream = calloc((size_t)s->n_devices, sizeof(void *));
        if (!c->stream) {
            rt_context_free(c);
            return NULL;
        }
        for (int d = 1; d < s->n_devices; d++)
            if (s->devices[d]->stream_new)
                c->stream[d] = s->devices[d]->stream_new(s->devices[d]);
    }
    return c;
}

static struct rt_context *context_take(struct rt_plan *p)
{
    rt_mutex_lock(&p->mu);
    struct rt_context *c = p->idle;
    if (c) {
        p->idle = c->next;
        p->n_idle--;
    }
    rt_mutex_unlock(&p->mu);
    if (!c)
        return context_new(p);
    if (!rt_budget_take(p->session->options.budget, held(c)))
        rt_context_drop_scratch(c); /* others use what it held: the run asks again as it goes */
    c->is_idle = false;
    return c;
}

static void context_give(struct rt_plan *p, struct rt_context *c)
{
    const int retirements = atomic_load_explicit(&p->session->retirements, memory_order_relaxed);
    for (int v = 0; v < p->n_values; v++)
        if (c->value[v].buf)
            rt_tensor_clear(&c->value[v]);
        else
            c->value[v].dtype = 0;
    if (c->retirements != retirements) {
        c->retirements = retirements;
        rt_frames_drop_retired(c);
    }
    rt_budget_give(p->session->options.budget, held(c));
    c->is_idle = true;
    rt_mutex_lock(&p->mu);
    bool keep = p->n_idle < MAX_IDLE_CONTEXTS;
    /* The first to be taken again keeps much: what costs are the page faults of fresh memory. */
    if (held(c) > (p->n_idle ? KEEP_SCRATCH_BYTES : KEEP_SCRATCH_MOST))
        rt_context_drop_scratch(c);
    if (keep) {
        c->next = p->idle;
        p->idle = c;
        p->n_idle++;
    }
    rt_mutex_unlock(&p->mu);
    if (!keep)
        rt_context_free(c);
}

static enum rt_status take_fetch(const struct rt_context *c, int k, struct rt_tensor *out,
                                 struct rt_error *err)
{
    const struct rt_plan *p = c->plan;
    int v = p->fetch_value[k];
    const struct rt_tensor *t = p->constant[v] ? p->constant[v] : &c->value[v];
    if (t->dtype == RT_RESOURCE && p->fetch_dtype[k] != RT_RESOURCE) {
        struct rt_variable *var = rt_variable_of(t);
        if (!var)
            return rt_fail(err, RT_INVALID_ARGUMENT, "fetch %d is a handle of no variable", k);
        return rt_variable_read(var, true, out, err);
    }
    if (!t->dtype)
        return rt_fail(err, RT_INTERNAL, "fetch %d has no value", k);
    rt_tensor_ref(out, t);
    return RT_OK;
}

enum rt_status rt_plan_run(struct rt_plan *p, struct rt_run_shared *shared,
                           const struct rt_tensor *feeds, struct rt_tensor *fetches,
                           struct rt_error *err)
{
    bool moving = shared->moving;
    shared->moving = false;
    struct rt_context *c = context_take(p);
    enum rt_status st = RT_OK;
    if (!c)
        return rt_fail_memory(err, "a run", (size_t)p->n_values * sizeof *c->value);
    c->shared = shared;
    if (p->n_fetches)
        memset(fetches, 0, (size_t)p->n_fetches * sizeof *fetches);
    for (int k = 0; k < p->n_feeds; k++) {
        int v = p->feed_value[k];
        if (v < 0)
            continue;
        if (moving) {
            c->value[v] = feeds[k];
            ((struct rt_tensor *)(uintptr_t)feeds)[k] = (struct rt_tensor){0};
        } else
            rt_tensor_ref(&c->value[v], &feeds[k]);
    }
    st = p->tokens ? rt_exec_token(c, err) : rt_exec_order(c, feeds, err);
    for (int k = 0; k < p->n_fetches && !st; k++)
        st = take_fetch(c, k, &fetches[k], err);
    for (int d = 1; c->stream && d < p->session->n_devices; d++)
        if (p->session->devices[d]->sync && c->stream[d]) {
            struct rt_error late = {0};
            enum rt_status sync =
                p->session->devices[d]->sync(p->session->devices[d], c->stream[d], &late);
            if (sync && !st) {
                st = sync;
                rt_error_copy(err, &late);
            }
        }
    if (st)
        for (int k = 0; k < p->n_fetches; k++)
            rt_tensor_clear(&fetches[k]);
    context_give(p, c);
    return st;
}

enum rt_status rt_plan_fold(struct rt_session *s, struct pl_node *n, const struct rt_tensor *in,
                            int k_out, struct rt_tensor *out, struct rt_error *err)
{
    /* A plan of this one node, for the time of the call. */
    struct rt_arena *arena = rt_arena_new((size_t)1 << 20);
    struct pl_graph g = {.session = s, .arena = arena, .n_fetches = 1};
    struct pl_edge fetch;
    struct rt_plan *p = NULL;
    uint8_t dtype = n->def->out_dtype[k_out];
    enum rt_status st = RT_OK;
    if (!arena)
        return rt_fail_memory(err, n->name, 0);
    int at = -1;
    for (int k = 0; k <= n->n_in; k++) {
        at = pl_add(&g, err);
        if (at < 0) {
            st = RT_RESOURCE_EXHAUSTED;
            goto end;
        }
        if (k < n->n_in) {
            g.node[at].kind = PL_CONST;
            g.node[at].n_out = 1;
            g.node[at].name = n->name;
            rt_tensor_ref(&g.node[at].value, &in[k]);
        }
    }
    struct pl_node *self = &g.node[at];
    self->kind = PL_OP;
    self->def = n->def;
    self->name = n->name;
    self->n_in = n->n_in;
    self->n_out = n->n_out;
    self->in = rt_arena_array(arena, (size_t)n->n_in + 1, sizeof *self->in);
    if (!self->in) {
        st = rt_fail_memory(err, n->name, 0);
        goto end;
    }
    for (int k = 0; k < n->n_in; k++)
        self->in[k] = (struct pl_edge){k, 0};
    fetch = (struct pl_edge){at, k_out};
    g.fetch = &fetch;
    g.fetch_dtype = &dtype;
    st = pl_finish(&g, &p, err);
    if (!st) {
        struct rt_pool *pool = rt_pool_new(256 << 20);
        struct rt_run_shared shared = {.session = s, .pool = pool};
        st = pool ? rt_plan_run(p, &shared, NULL, out, err) : rt_fail_memory(err, n->name, 0);
        rt_pool_unref(pool);
        arena = NULL; /* the plan's */
        rt_plan_free(p);
    }
end:
    for (int k = 0; k < g.n; k++)
        rt_tensor_clear(&g.node[k].value);
    free(g.node);
    free(g.target);
    rt_arena_free(arena);
    return st;
}

/* ---- the session ---- */

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
    if (!devices || !s->chooser) {
        pl_chooser_free(s->chooser);
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
    s->compiles_at_once = options->compiles_inline;
    if (getrandom(&s->entropy, sizeof s->entropy, GRND_NONBLOCK) != sizeof s->entropy)
        s->entropy = (uint64_t)(uintptr_t)s;
    *out = s;
    return RT_OK;
}

void rt_plan_box_unref(struct rt_plan_box *b)
{
    if (b && atomic_fetch_sub(&b->refs, 1) == 1) {
        rt_plan_free(b->plan);
        free(b);
    }
}

static void callable_free(struct rt_callable *c)
{
    if (!c)
        return;
    rt_plan_box_unref(c->box);
    rt_mutex_clear(&c->mu);
    free(c->feeds);
    free(c->fetches);
    free(c->targets);
    free(c->feed_dtype);
    free(c->fetch_dtype);
    free(c);
}

void rt_session_free(struct rt_session *s)
{
    if (!s)
        return;
    if (s->options.compiler)
        rt_compiler_forget(s->options.compiler, s);
    rt_wants_free(s);
    for (size_t i = 0; i < s->callables.n; i++)
        callable_free(s->callables.entry[i].value);
    rt_map_clear(&s->callables);
    pl_chooser_free(s->chooser);
    rt_packs_clear(&s->packs);
    for (size_t i = 0; i < s->slots.n; i++)
        rt_object_unref(s->slots.entry[i].value);
    rt_map_clear(&s->slots);
    for (size_t i = 0; i < s->node_states.n; i++)
        free(s->node_states.entry[i].value);
    rt_map_clear(&s->node_states);
    for (int i = 0; i < s->n_pools; i++)
        rt_pool_unref(s->pools[i]);
    rt_library_free(s->library);
    rt_mutex_clear(&s->mu);
    rt_mutex_clear(&s->pool_mu);
    rt_mutex_clear(&s->layout_mu);
    free(s->layout);
    free((void *)(uintptr_t)s->devices);
    free(s);
}

const struct rt_graph *rt_session_graph(const struct rt_session *s)
{
    return rt_library_main(s->library);
}

static void frozen_was_written(void *arg)
{
    struct rt_session *s = arg;
    atomic_fetch_add(&s->generation, 1);
}

enum rt_status rt_session_slot(struct rt_session *s, const struct rt_node *n,
                               struct rt_object **out, struct rt_error *err)
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
        st = n->op->make(n, &o, err);
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

/* ---- callables ---- */

static void callable_request(const struct rt_callable *c, struct pl_request *q)
{
    *q = (struct pl_request){.graph = rt_library_main(c->session->library),
                             .feeds = c->feeds,
                             .fetches = c->fetches,
                             .targets = c->targets,
                             .n_feeds = c->n_feeds,
                             .n_fetches = c->n_fetches,
                             .n_targets = c->n_targets,
                             .is_load = c->is_load};
}

static enum rt_status callable_new(struct rt_session *s, const struct rt_call_spec *spec,
                                   struct rt_callable **out, struct rt_error *err)
{
    const struct rt_graph *g = rt_library_main(s->library);
    struct rt_callable *c = calloc(1, sizeof *c);
    enum rt_status st = RT_OK;
    if (!c)
        return rt_fail_memory(err, "a callable", sizeof *c);
    rt_mutex_init(&c->mu);
    c->session = s;
    c->is_load = spec->is_load;
    c->n_feeds = spec->n_feeds;
    c->n_fetches = spec->n_fetches;
    c->feeds = calloc((size_t)spec->n_feeds + 1, sizeof *c->feeds);
    c->fetches = calloc((size_t)spec->n_fetches + 1, sizeof *c->fetches);
    c->targets = calloc((size_t)spec->n_targets + 1, sizeof *c->targets);
    c->feed_dtype = calloc((size_t)spec->n_feeds + 1, 1);
    c->fetch_dtype = calloc((size_t)spec->n_fetches + 1, 1);
    if (!c->feeds || !c->fetches || !c->targets || !c->feed_dtype || !c->fetch_dtype)
        st = rt_fail_memory(err, "a callable", 0);
    for (int i = 0; i < spec->n_feeds && !st; i++) {
        st = rt_graph_tensor(g, spec->feeds[i], &c->feeds[i], err);
        if (!st && c->feeds[i].out < 0)
            st = rt_fail(err, RT_INVALID_ARGUMENT, "'%s' is no tensor to feed", spec->feeds[i]);
        for (int k = 0; k < i && !st; k++)
            if (c->feeds[k].node == c->feeds[i].node && c->feeds[k].out == c->feeds[i].out)
                st = rt_fail(err, RT_INVALID_ARGUMENT, "Tensor %s is fed more than once",
                             spec->feeds[i]);
        if (!st)
            c->feed_dtype[i] = g->node[c->feeds[i].node].out_dtype[c->feeds[i].out];
    }
    for (int i = 0; i < spec->n_fetches && !st; i++) {
        st = rt_graph_tensor(g, spec->fetches[i], &c->fetches[i], err);
        if (!st && c->fetches[i].out < 0)
            st = rt_fail(err, RT_INVALID_ARGUMENT, "'%s' is no tensor to fetch", spec->fetches[i]);
        if (!st)
            c->fetch_dtype[i] = g->node[c->fetches[i].node].out_dtype[c->fetches[i].out];
    }
    for (int i = 0; i < spec->n_targets && !st; i++) {
        const char *name = spec->targets[i][0] == '^' ? spec->targets[i] + 1 : spec->targets[i];
        const struct rt_node *n = rt_graph_find(g, name);
        struct rt_edge e;
        if (n)
            c->targets[c->n_targets++] = n->id;
        else if ((st = rt_graph_tensor(g, name, &e, err)) == RT_OK)
            c->targets[c->n_targets++] = e.node;
    }
    if (st) {
        callable_free(c);
        return st;
    }
    *out = c;
    return RT_OK;
}

struct rt_plan_box *rt_plan_box_ref(struct rt_plan_box *b)
{
    atomic_fetch_add(&b->refs, 1);
    return b;
}

/* The callable's plan, made or made again when a frozen variable was written since. */
static enum rt_status get_plan(struct rt_callable *c, struct rt_plan_box **out,
                               struct rt_error *err)
{
    enum rt_status st = RT_OK;
    rt_mutex_lock(&c->mu);
    int now = atomic_load(&c->session->generation);
    if (!c->box || c->box->generation != now) {
        struct rt_plan_box *b = calloc(1, sizeof *b);
        struct pl_request q;
        callable_request(c, &q);
        st = b ? rt_plan_build(c->session, &q, 0, &b->plan, err)
               : rt_fail_memory(err, "a plan", sizeof *b);
        if (st)
            free(b);
        else {
            b->generation = now;
            rt_mutex_lock(&c->session->layout_mu); /* a retired plan tells no more of its rows */
            if (c->box)
                c->box->plan->compiled = NULL;
            for (int k = 0; k < RT_COMPILED_ROWS / 64; k++)
                atomic_store(&c->compiled[k], 0);
            b->plan->compiled = c->compiled;
            rt_mutex_unlock(&c->session->layout_mu);
            atomic_init(&b->refs, 1);
            rt_plan_box_unref(c->box);
            c->box = b;
        }
    }
    if (!st)
        *out = rt_plan_box_ref(c->box);
    rt_mutex_unlock(&c->mu);
    return st;
}

enum rt_status rt_session_prepare(struct rt_session *s, const struct rt_call_spec *spec,
                                  struct rt_callable **out, struct rt_error *err)
{
    struct rt_bytes key;
    rt_bytes_init(&key, 1 << 24);
    for (int i = 0; i < spec->n_feeds; i++)
        rt_bytes_add(&key, spec->feeds[i], strlen(spec->feeds[i]) + 1);
    rt_bytes_addc(&key, '\1');
    for (int i = 0; i < spec->n_fetches; i++)
        rt_bytes_add(&key, spec->fetches[i], strlen(spec->fetches[i]) + 1);
    rt_bytes_addc(&key, '\1');
    for (int i = 0; i < spec->n_targets; i++)
        rt_bytes_add(&key, spec->targets[i], strlen(spec->targets[i]) + 1);
    if (spec->is_load)
        rt_bytes_addc(&key, '\1');
    if (key.failed) {
        rt_bytes_clear(&key);
        return rt_fail(err, RT_INVALID_ARGUMENT, "too many feeds and fetches");
    }
    rt_mutex_lock(&s->mu);
    struct rt_callable *c = rt_map_getn(&s->callables, key.p, key.n);
    bool full = s->callables.n >= MAX_CALLABLES;
    rt_mutex_unlock(&s->mu);
    enum rt_status st = RT_OK;
    if (!c && full)
        st = rt_fail(err, RT_RESOURCE_EXHAUSTED,
                     "more than %d different sets of feeds and fetches in one session",
                     MAX_CALLABLES);
    struct rt_plan_box *b = NULL;
    if (!c && !st) {
        st = callable_new(s, spec, &c, err);
        if (!st && (st = get_plan(c, &b, err)) != RT_OK) {
            callable_free(c);
            c = NULL;
        }
        rt_plan_box_unref(b);
        if (!st) {
            rt_mutex_lock(&s->mu);
            struct rt_callable *other = rt_map_getn(&s->callables, key.p, key.n);
            bool ok = other || rt_map_putn(&s->callables, key.p, key.n, c);
            rt_mutex_unlock(&s->mu);
            if (other || !ok)
                callable_free(c);
            c = other ? other : c;
            if (!ok)
                st = rt_fail_memory(err, "a callable", key.n);
        }
    } else if (c) {
        st = get_plan(c, &b, err);
        rt_plan_box_unref(b);
    }
    rt_bytes_clear(&key);
    if (!st)
        *out = c;
    return st;
}

static struct rt_pool *pool_take(struct rt_session *s)
{
    rt_mutex_lock(&s->pool_mu);
    struct rt_pool *p = s->n_pools ? s->pools[--s->n_pools] : NULL;
    rt_mutex_unlock(&s->pool_mu);
    if (p) {
        rt_pool_begin(p);
        return p;
    }
    p = rt_pool_new(s->options.run_memory_limit ? s->options.run_memory_limit : SIZE_MAX);
    if (p)
        rt_pool_share(p, s->options.budget);
    return p;
}

static void pool_give(struct rt_session *s, struct rt_pool *p)
{
    rt_pool_end(p, LEAST_POOL_BYTES); /* what the run gave out comes back later */
    rt_mutex_lock(&s->pool_mu);
    bool keep = s->n_pools < (int)(sizeof s->pools / sizeof *s->pools);
    if (keep)
        s->pools[s->n_pools++] = p;
    rt_mutex_unlock(&s->pool_mu);
    if (!keep)
        rt_pool_unref(p);
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

enum rt_status rt_callable_run(struct rt_callable *c, const struct rt_tensor *feeds,
                               struct rt_tensor *fetches, const struct rt_run_options *options,
                               struct rt_error *err)
{
    struct rt_session *s = c->session;
    struct rt_trace *trace = options ? options->trace : NULL;
    struct rt_plan_box *b = NULL;
    if (c->n_fetches)
        memset(fetches, 0, (size_t)c->n_fetches * sizeof *fetches);
    for (int k = 0; k < c->n_feeds; k++)
        if (feeds[k].dtype != c->feed_dtype[k])
            return rt_fail(err, RT_INVALID_ARGUMENT, "Expects arg[%d] to be %s but %s is provided",
                           k, rt_dtype_name((enum rt_dtype)c->feed_dtype[k]),
                           rt_dtype_name((enum rt_dtype)feeds[k].dtype));
    enum rt_status st = get_plan(c, &b, err);
    if (st)
        return st;
    struct rt_pool *pool = pool_take(s);
    if (!pool) {
        rt_plan_box_unref(b);
        return rt_fail_memory(err, "a run", 0);
    }
    struct rt_run_shared shared = {.session = s,
                                   .box = b,
                                   .pool = pool,
                                   .deadline_ns = options ? options->deadline_ns : 0,
                                   .cancelled = options ? options->cancelled : NULL,
                                   .all_cancelled = options ? options->all_cancelled : NULL,
                                   .n_all_cancelled = options ? options->n_all_cancelled : 0,
                                   .trace = trace && trace->wants_times ? trace : NULL};
    if (trace && trace->wants_graph)
        rt_trace_plan(trace, b->plan);
    rt_parallel_enter(s->options.parallel);
    unsigned before = rt_flush_subnormals();
    st = rt_plan_run(b->plan, &shared, feeds, fetches, err);
    rt_restore_subnormals(before);
    for (int k = 0; k < c->n_fetches && !st; k++)
        st = rt_tensor_load(&fetches[k], err);
    rt_parallel_leave(s->options.parallel);
    if (st)
        for (int k = 0; k < c->n_fetches; k++)
            rt_tensor_clear(&fetches[k]);
    atomic_fetch_add_explicit(&s->runs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->nodes_run, shared.nodes_run, memory_order_relaxed);
    pool_give(s, pool);
    rt_plan_box_unref(b);
    return st;
}

enum rt_status rt_callable_compile(struct rt_callable *c, const struct rt_shape *shapes,
                                   struct rt_error *err)
{
    struct rt_plan_box *b = NULL;
    enum rt_status st = get_plan(c, &b, err);
    if (st)
        return st;
    if (b->plan->segment)
        st = rt_segment_compile(b->plan, shapes, err);
    rt_plan_box_unref(b);
    return st;
}

void rt_callable_want(struct rt_callable *c, const struct rt_shape *shapes)
{
    struct rt_error none = {0};
    struct rt_plan_box *b = NULL;
    if (get_plan(c, &b, &none) == RT_OK && b->plan->segment)
        rt_segment_want(b, shapes);
    rt_plan_box_unref(b);
}

bool rt_callable_is_compiled(const struct rt_callable *c, int64_t rows)
{
    return rows >= 0 && rows < RT_COMPILED_ROWS &&
           atomic_load_explicit(&c->compiled[rows / 64], memory_order_relaxed) >> rows % 64 & 1;
}

enum rt_status rt_callable_describe(struct rt_callable *c, struct rt_arena *arena,
                                    struct rt_described_plan *out, struct rt_error *err)
{
    struct rt_plan_box *b = NULL;
    enum rt_status st = get_plan(c, &b, err);
    if (!st)
        st = rt_plan_describe(b->plan, arena, out, err);
    rt_plan_box_unref(b);
    return st;
}

bool rt_callable_writes(const struct rt_callable *c)
{
    const unsigned alone = 1u << RT_WRITES | 1u << RT_BLOCKS;
    struct rt_mutex *mu = (struct rt_mutex *)(uintptr_t)&c->mu;
    rt_mutex_lock(mu);
    bool yes = c->box && (c->box->plan->effects & alone);
    rt_mutex_unlock(mu);
    return yes;
}

enum rt_dtype rt_callable_feed_dtype(const struct rt_callable *c, int feed)
{
    return (enum rt_dtype)c->feed_dtype[feed];
}

enum rt_dtype rt_callable_fetch_dtype(const struct rt_callable *c, int fetch)
{
    return (enum rt_dtype)c->fetch_dtype[fetch];
}

bool rt_callable_is_rowwise(struct rt_callable *c, const struct rt_shape *shapes,
                            struct rt_error *why)
{
    struct rt_plan_box *b = NULL;
    if (get_plan(c, &b, why))
        return false;
    bool yes = rt_plan_is_rowwise(b->plan, shapes, why);
    rt_plan_box_unref(b);
    return yes;
}

/* ---- from loading to serving ---- */

void rt_session_serve(struct rt_session *s)
{
    rt_mutex_lock(&s->mu);
    s->serving = true;
    rt_mutex_unlock(&s->mu);
    atomic_fetch_add(&s->generation, 1); /* plans made while loading are made again */
}

/* Constants that no kernel has in packed form, and variables that the plan reads as it runs, are
 * brought into memory. */
static enum rt_status load_constants(struct rt_plan *p, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    for (int i = 0; i < p->n_nodes && !st; i++) {
        struct pl_node *n = &p->node[i];
        struct rt_variable *v =
            n->kind == PL_CONST && n->value.dtype == RT_RESOURCE ? rt_variable_of(&n->value) : NULL;
        if (v)
            st = rt_variable_load(v, err);
        for (int k = 0; k < n->n_sub && !st; k++)
            st = load_constants(n->sub[k], err);
        for (int k = 0; k < n->n_in && !st; k++) {
            const struct pl_node *from = &p->node[n->in[k].node];
            if (from->kind != PL_CONST || !rt_tensor_is_lazy(&from->value) ||
                (n->prepared && k < 64 && rt_prepared_uses_pack(n->prepared, k)))
                continue;
            struct rt_tensor t = from->value;
            st = rt_tensor_load(&t, err);
        }
    }
    for (int k = 0; k < p->n_fetches && !st; k++)
        if (p->constant[p->fetch_value[k]]) {
            struct rt_tensor t = *p->constant[p->fetch_value[k]];
            st = rt_tensor_load(&t, err);
        }
    return st;
}

enum rt_status rt_session_seal(struct rt_session *s, struct rt_callable *const *callables, int n,
                               bool load_all, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    for (int i = 0; i < n && !st; i++) {
        struct rt_plan_box *b = NULL;
        st = get_plan(callables[i], &b, err);
        if (!st)
            st = load_constants(b->plan, err);
        rt_plan_box_unref(b);
    }
    for (size_t i = 0; i < s->slots.n && !st && load_all; i++) {
        struct rt_object *o = s->slots.entry[i].value;
        if (o->type == &rt_variable_type)
            st = rt_variable_load((struct rt_variable *)o, err);
    }
    pl_chooser_seal(s);
    return st;
}

/* ---- what could not run ---- */

enum rt_status rt_session_missing(struct rt_session *s, const struct rt_call_spec *spec,
                                  struct rt_arena *arena, struct rt_missing **out, int *n_out,
                                  struct rt_error *err)
{
    struct rt_callable *c;
    enum rt_status st = callable_new(s, spec, &c, err);
    *out = NULL;
    *n_out = 0;
    if (st)
        return st;
    struct pl_request q;
    callable_request(c, &q);
    struct rt_missing_list list = {.arena = arena};
    st = rt_missing_find(s, &q, &list, err);
    rt_map_clear(&list.seen);
    callable_free(c);
    *out = list.items;
    *n_out = list.n;
    return st;
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
                                     .runs = atomic_load(&s->runs),
                                     .nodes_run = atomic_load(&s->nodes_run)};
}
