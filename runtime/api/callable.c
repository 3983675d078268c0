/*
 * Implements callables. A callable is a set of feeds and fetches of a session's graph, with the
 * plan that computes the fetches.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/bytes.h"
#include "runtime/base/checked.h"
#include "runtime/base/clock.h"
#include "runtime/api/describe.h"
#include "runtime/exec/parallel.h"
#include "runtime/passes/pipeline.h"
#include "runtime/api/callable.h"
#include "runtime/exec/executor.h"
#include "runtime/plan/specialisation.h"
#include "runtime/select/choose.h"
#include "runtime/select/prepared.h"
#include "runtime/session/session_internal.h"
#include "runtime/session/resource.h"
#include "runtime/files/saved_model.h"
#include "runtime/exec/trace.h"

/* maximum number of callables per session, including dynamic callables and the callables of
 * signatures, restore ops and init ops */
enum { MAX_CALLABLES = RT_MAX_SIGNATURES + 2 * RT_MAX_DYNAMIC_CALLABLES + 8 };
/* delay in milliseconds before a row-wise analysis that ran out of memory is repeated */
enum { ANALYSE_AGAIN_MS = 100 };
/* A loading session reports its memory after each run. A serving session reports its memory after
 * each run that may write state, and after every FOLLOWED_RUNS-th run. It does not report after
 * every run, because a report takes several nanoseconds. */
enum { FOLLOWED_RUNS = 64 };

struct rt_callable {
    struct rt_session *session;
    struct rt_edge *feeds, *fetches;
    int *targets;
    int n_feeds, n_fetches, n_targets;
    bool is_load;
    uint8_t *feed_dtype, *fetch_dtype;
    struct rt_mutex mu;
    struct rt_cond built;
    struct rt_plan_box *box; /* reference to the plan; guarded by mu, like all fields below */
    /* whether a thread is building the plan; the thread signals `built` when it has finished */
    bool is_building;
    /* Feed shapes for which row-wise analysis has succeeded, or NULL until it succeeds. Plans that
     * replace the current plan are analysed with these shapes. Set once, under mu. */
    struct rt_shape *row_shapes;
    _Atomic uint64_t compiled[RT_COMPILED_ROWS / 64];
};

void rt_callable_free(struct rt_callable *c)
{
    if (!c)
        return;
    rt_plan_box_unref(c->box);
    rt_mutex_clear(&c->mu);
    rt_cond_clear(&c->built);
    free(c->feeds);
    free(c->fetches);
    free(c->targets);
    free(c->feed_dtype);
    free(c->fetch_dtype);
    free(c->row_shapes);
    free(c);
}

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
    struct rt_map fed; /* set of the edges that are fed, to find an edge that is fed twice */
    enum rt_status st = RT_OK;
    if (!c)
        return rt_fail_memory(err, "a callable", sizeof *c);
    rt_mutex_init(&c->mu);
    rt_cond_init(&c->built);
    c->session = s;
    c->is_load = spec->is_load;
    c->n_feeds = spec->n_feeds;
    c->n_fetches = spec->n_fetches;
    c->feeds = calloc((size_t)spec->n_feeds + 1, sizeof *c->feeds);
    c->fetches = calloc((size_t)spec->n_fetches + 1, sizeof *c->fetches);
    c->targets = calloc((size_t)spec->n_targets + 1, sizeof *c->targets);
    c->feed_dtype = calloc((size_t)spec->n_feeds + 1, 1);
    c->fetch_dtype = calloc((size_t)spec->n_fetches + 1, 1);
    rt_map_init(&fed);
    if (!c->feeds || !c->fetches || !c->targets || !c->feed_dtype || !c->fetch_dtype)
        st = rt_fail_memory(err, "a callable", 0);
    for (int i = 0; i < spec->n_feeds && !st; i++) {
        st = rt_graph_tensor(g, spec->feeds[i], &c->feeds[i], err);
        if (!st && c->feeds[i].out < 0)
            st = rt_fail(err, RT_INVALID_ARGUMENT, "'%s' is no tensor to feed", spec->feeds[i]);
        const char *edge = (const char *)&c->feeds[i];
        if (!st && rt_map_getn(&fed, edge, sizeof c->feeds[i]))
            st = rt_fail(err, RT_INVALID_ARGUMENT, "Tensor %s is fed more than once",
                         spec->feeds[i]);
        if (!st && !rt_map_putn(&fed, edge, sizeof c->feeds[i], c))
            st = rt_fail_memory(err, "a callable", sizeof c->feeds[i]);
        if (!st)
            c->feed_dtype[i] = g->node[c->feeds[i].node].out_dtype[c->feeds[i].out];
    }
    rt_map_clear(&fed);
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
        rt_callable_free(c);
        return st;
    }
    *out = c;
    return RT_OK;
}

/* Builds the plan, and rebuilds it whenever a variable that the plan has frozen has been written.
 * Each rebuild makes one more variable permanently mutable, so the loop ends. */
static enum rt_status box_new(struct rt_callable *c, struct rt_plan_box **out, struct rt_error *err)
{
    struct rt_session *s = c->session;
    struct rt_plan_box *b = calloc(1, sizeof *b);
    struct pl_request q;
    enum rt_status st = RT_OK;

    if (!b)
        return rt_fail_memory(err, "a plan", sizeof *b);
    callable_request(c, &q);
    do {
        rt_plan_free(b->plan);
        b->plan = NULL;
        b->generation = atomic_load(&s->generation);
        st = rt_plan_build(s, &q, 0, &b->plan, err);
    } while (!st && b->generation != atomic_load(&s->generation));
    if (st) {
        free(b);
        return st;
    }
    atomic_init(&b->refs, 1);
    *out = b;
    return RT_OK;
}

/* Returns whether the plan is up to date. Called under c->mu. */
static bool is_current(const struct rt_callable *c)
{
    return c->box && c->box->generation == atomic_load(&c->session->generation);
}

/* Replaces the callable's plan with `b` and takes over the caller's reference to `b`. Called under
 * c->mu. */
static void set_plan(struct rt_callable *c, struct rt_plan_box *b)
{
    struct rt_plan_box *old = c->box;
    /* The replaced plan must no longer publish the row counts for which it is compiled. */
    rt_mutex_lock(&c->session->spec_mu);
    if (old)
        old->plan->compiled = NULL;
    for (int k = 0; k < RT_COMPILED_ROWS / 64; k++)
        atomic_store(&c->compiled[k], 0);
    b->plan->compiled = c->compiled;
    rt_mutex_unlock(&c->session->spec_mu);
    c->box = b;
    rt_plan_box_unref(old);
}

/*
 * Returns the callable's plan. Builds the plan if there is none, or if a variable that it has
 * frozen was written. The first thread that needs the plan builds it without holding the lock,
 * because building can take a long time. Other threads wait; if building fails, each of them tries
 * again.
 */
static enum rt_status get_plan(struct rt_callable *c, struct rt_plan_box **out,
                               struct rt_error *err)
{
    struct rt_plan_box *b = NULL;
    enum rt_status st = RT_OK;
    rt_mutex_lock(&c->mu);
    while (c->is_building)
        rt_cond_wait(&c->built, &c->mu);
    if (!is_current(c)) {
        c->is_building = true;
        rt_mutex_unlock(&c->mu);
        st = box_new(c, &b, err);
        rt_mutex_lock(&c->mu);
        c->is_building = false;
        rt_cond_broadcast(&c->built);
        if (!st)
            set_plan(c, b);
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
        enum rt_status failed = rt_bytes_fail(&key, "a call's name", err, RT_INVALID_ARGUMENT,
                                              "too many feeds and fetches");
        rt_bytes_clear(&key);
        return failed;
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
            rt_callable_free(c);
            c = NULL;
        }
        rt_plan_box_unref(b);
        if (!st) {
            rt_mutex_lock(&s->mu);
            struct rt_callable *other = rt_map_getn(&s->callables, key.p, key.n);
            bool ok = other || rt_map_putn(&s->callables, key.p, key.n, c);
            rt_mutex_unlock(&s->mu);
            if (other || !ok)
                rt_callable_free(c);
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

/* Returns whether a run of the plan changes state or may block. If so, requests that run the plan
 * are not merged. */
static bool runs_alone(const struct rt_plan *p)
{
    return (p->effects & (1u << RT_WRITES | 1u << RT_BLOCKS)) != 0;
}

static bool analyse_rows(const struct rt_plan *p, const struct rt_shape *shapes,
                         struct rt_error *why)
{
    if (!runs_alone(p))
        return rt_plan_is_rowwise(p, shapes, why);
    rt_fail(why, RT_FAILED_PRECONDITION, "it changes state");
    return false;
}

/* Looks up the result of row-wise analysis (row_analyses.h). The key consists of the lengths that
 * the unknown dimensions have in `feeds`. Sets *shapes to NULL if row-wise analysis of the callable
 * has not succeeded yet. Sets *is_due to whether the plan must be analysed for these lengths. */
static enum rt_row_verdict find_rows(struct rt_callable *c, const struct rt_plan_box *b,
                                     const struct rt_tensor *feeds, const struct rt_shape **shapes,
                                     bool *is_due)
{
    enum rt_row_verdict rows = RT_ROWS_NOT_INDEPENDENT;
    rt_mutex_lock(&c->mu);
    *shapes = c->row_shapes;
    if (c->row_shapes)
        rows = rt_row_analyses_find(&b->row_analyses, c->row_shapes, feeds, c->n_feeds);
    *is_due = rows == RT_ROWS_NOT_ANALYSED &&
              (!b->analyse_again_ns || rt_now_ns() >= b->analyse_again_ns);
    rt_mutex_unlock(&c->mu);
    return rows;
}

/* Analyses the plan for the lengths that the unknown dimensions have in `feeds`. The analysis
 * traverses the plan several times, so it does not hold the callable's lock, which every run takes.
 * Concurrent runs may repeat the analysis. If memory runs out, returns RT_ROWS_NOT_ANALYSED, and a
 * later run repeats the analysis. */
static enum rt_row_verdict analyse_lengths(struct rt_callable *c, struct rt_plan_box *b,
                                           const struct rt_shape *shapes,
                                           const struct rt_tensor *feeds)
{
    /* The array of shapes is never empty, because a row-wise plan has at least one feed. */
    struct rt_shape *closed = calloc((size_t)c->n_feeds, sizeof *closed);
    struct rt_error why = {.arena = NULL};
    enum rt_row_verdict rows = RT_ROWS_NOT_ANALYSED;

    if (closed) {
        rt_close_shapes(closed, shapes, feeds, c->n_feeds);
        if (analyse_rows(b->plan, closed, &why))
            rows = RT_ROWS_INDEPENDENT;
        else if (why.code != RT_RESOURCE_EXHAUSTED)
            rows = RT_ROWS_NOT_INDEPENDENT;
        free(closed);
    }
    rt_mutex_lock(&c->mu);
    if (rows == RT_ROWS_NOT_ANALYSED ||
        !rt_row_analyses_put(&b->row_analyses, shapes, feeds, c->n_feeds,
                             rows == RT_ROWS_INDEPENDENT))
        b->analyse_again_ns = rt_now_ns() + ANALYSE_AGAIN_MS * INT64_C(1000000);
    rt_mutex_unlock(&c->mu);
    return rows;
}

/* Checks whether this plan can run merged requests whose unknown dimensions have the lengths in
 * `feeds`. The result of rt_callable_is_rowwise may be for other lengths or an earlier plan. */
static enum rt_status check_rows(struct rt_callable *c, struct rt_plan_box *b,
                                 const struct rt_tensor *feeds, struct rt_error *err)
{
    const struct rt_shape *shapes;
    bool is_due;
    enum rt_row_verdict rows = find_rows(c, b, feeds, &shapes, &is_due);

    if (shapes && !rt_feeds_have_rows(shapes, feeds, c->n_feeds))
        return rt_fail(err, RT_UNAVAILABLE, "the feeds have other shapes than were proved");
    if (is_due)
        rows = analyse_lengths(c, b, shapes, feeds);
    if (rows == RT_ROWS_INDEPENDENT)
        return RT_OK;
    if (rows == RT_ROWS_NOT_ANALYSED)
        return rt_fail(err, RT_UNAVAILABLE, "no memory for the proof that rows may be merged");
    if (shapes && rt_count_open(shapes, c->n_feeds))
        return rt_fail(err, RT_UNAVAILABLE, "rows of these lengths are not proved independent");
    return rt_fail(err, RT_ABORTED, "the rows of the call depend on each other");
}

enum rt_status rt_callable_check_feeds(const struct rt_callable *c, const struct rt_tensor *feeds,
                                       struct rt_error *err)
{
    for (int k = 0; k < c->n_feeds; k++)
        if (feeds[k].dtype != c->feed_dtype[k])
            return rt_fail(err, RT_INVALID_ARGUMENT, "Expects arg[%d] to be %s but %s is provided",
                           k, rt_dtype_name((enum rt_dtype)c->feed_dtype[k]),
                           rt_dtype_name((enum rt_dtype)feeds[k].dtype));
    return RT_OK;
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
    enum rt_status st = rt_callable_check_feeds(c, feeds, err);
    if (!st)
        st = get_plan(c, &b, err);
    if (st)
        return st;
    if (options && options->is_merged && (st = check_rows(c, b, feeds, err)) != RT_OK) {
        rt_plan_box_unref(b);
        return st;
    }
    struct rt_pool *pool = rt_session_pool(s);
    if (!pool) {
        rt_plan_box_unref(b);
        return rt_fail_memory(err, "a run", 0);
    }
    struct rt_run_shared shared = {
        .session = s,
        .box = b,
        .pool = pool,
        .deadline_ns = options ? options->deadline_ns : 0,
        .cancelled = options && options->cancelled ? options->cancelled : s->options.cancelled,
        .all_cancelled = options ? options->all_cancelled : NULL,
        .n_all_cancelled = options ? options->n_all_cancelled : 0,
        .aliases.is_needed = b->plan->effects & 1u << RT_WRITES,
        .trace = trace && trace->wants_times ? trace : NULL,
        .on_wait = options ? options->on_wait : NULL,
        .accelerator = options ? options->accelerator : 0};
    if (trace && trace->wants_graph)
        rt_trace_plan(trace, b->plan);
    rt_parallel_enter(s->options.parallel);
    unsigned before = rt_flush_subnormals();
    st = rt_plan_run(b->plan, &shared, feeds, fetches, err);
    rt_restore_subnormals(before);
    for (int k = 0; k < c->n_fetches; k++)
        fetches[k].alias_of = 0;
    rt_aliases_clear(&shared.aliases);
    for (int k = 0; k < c->n_fetches && !st; k++)
        st = rt_run_shared_load(&shared, &fetches[k], err);
    rt_parallel_leave(s->options.parallel);
    const int64_t n = atomic_fetch_add_explicit(&s->runs, 1, memory_order_relaxed);
    if (!st && (!s->serving || runs_alone(b->plan) || n % FOLLOWED_RUNS == 0))
        st = rt_session_follow(s, err);
    rt_run_shared_end(&shared, !st);
    if (st)
        for (int k = 0; k < c->n_fetches; k++)
            rt_tensor_clear(&fetches[k]);
    atomic_fetch_add_explicit(&s->nodes_run, shared.nodes_run, memory_order_relaxed);
    rt_session_pool_back(s, pool);
    rt_plan_box_unref(b);
    return st;
}

void rt_callable_request_compilation(struct rt_callable *c, const struct rt_shape *shapes)
{
    struct rt_error none = {0};
    struct rt_plan_box *b = NULL;
    if (get_plan(c, &b, &none) == RT_OK && b->plan->segment)
        rt_segment_request(b, shapes);
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
    struct rt_mutex *mu = (struct rt_mutex *)(uintptr_t)&c->mu;
    rt_mutex_lock(mu);
    bool yes = c->box && runs_alone(c->box->plan);
    rt_mutex_unlock(mu);
    return yes;
}

bool rt_callable_draws(const struct rt_callable *c)
{
    struct rt_mutex *mu = (struct rt_mutex *)(uintptr_t)&c->mu;
    rt_mutex_lock(mu);
    const bool yes = c->box && c->box->plan->effects & 1u << RT_RANDOM;
    rt_mutex_unlock(mu);
    return yes;
}

static bool is_accelerated(const struct rt_plan *p)
{
    for (int i = 0; i < p->n_nodes; i++) {
        const struct rt_plan_step *n = &p->node[i];
        if (n->on_accelerator)
            return true;
        for (int k = 0; k < n->n_sub; k++)
            if (is_accelerated(n->sub[k]))
                return true;
    }
    return false;
}

bool rt_callable_is_accelerated(const struct rt_callable *c)
{
    struct rt_mutex *mu = (struct rt_mutex *)(uintptr_t)&c->mu;
    rt_mutex_lock(mu);
    const bool yes = c->box && is_accelerated(c->box->plan);
    rt_mutex_unlock(mu);
    return yes;
}

/* The key of a constant, as of its upload (select/upload.c). */
struct constant_key {
    const struct rt_buffer *buf;
    const void *data;
};

static void add_constant(const struct rt_tensor *t, struct rt_map *seen, int64_t *bytes)
{
    const struct constant_key key = {t->buf,
                                     t->buf && t->buf->kind == RT_BUF_LAZY ? NULL : t->data};
    if (!rt_dtype_is_plain((enum rt_dtype)t->dtype) ||
        rt_map_getn(seen, (const char *)&key, sizeof key))
        return;
    /* Without memory for the key, the constant may count twice. */
    (void)rt_map_putn(seen, (const char *)&key, sizeof key, seen);
    *bytes = rt_add_saturated(*bytes, (int64_t)rt_tensor_bytes(t));
}

static void add_constants(const struct rt_plan *p, struct rt_map *seen, int64_t *bytes)
{
    for (int i = 0; i < p->n_nodes; i++) {
        const struct rt_plan_step *n = &p->node[i];
        for (int k = 0; k < n->n_sub; k++)
            add_constants(n->sub[k], seen, bytes);
        for (int k = 0; n->on_accelerator && k < n->n_in; k++) {
            const struct rt_tensor *t = p->constant[n->in_value[k]];
            if (t && !(k < 64 && n->device_kernels[0]->host_in >> k & 1))
                add_constant(t, seen, bytes);
        }
    }
}

void rt_callable_add_constants(const struct rt_callable *c, struct rt_map *seen, int64_t *bytes)
{
    struct rt_mutex *mu = (struct rt_mutex *)(uintptr_t)&c->mu;
    rt_mutex_lock(mu);
    if (c->box && !c->is_load)
        add_constants(c->box->plan, seen, bytes);
    rt_mutex_unlock(mu);
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
    bool yes = analyse_rows(b->plan, shapes, why);
    rt_mutex_lock(&c->mu);
    if (yes && !c->row_shapes) {
        /* The size of the array is never 0, because a row-wise plan has at least one feed. */
        const size_t size = (size_t)c->n_feeds * sizeof *shapes;
        c->row_shapes = malloc(size);
        if (c->row_shapes)
            memcpy(c->row_shapes, shapes, size);
        else
            yes = rt_fail_memory(why, "a proof", size) == RT_OK;
        if (yes && !rt_count_open(shapes, c->n_feeds))
            (void)rt_row_analyses_put(&b->row_analyses, shapes, NULL, c->n_feeds, true);
    }
    rt_mutex_unlock(&c->mu);
    rt_plan_box_unref(b);
    return yes;
}

/* Loads the variables that the plan reads. Also loads the constants that are fetched or that a
 * kernel reads in unpacked form. */
static enum rt_status load_constants(struct rt_plan *p, struct rt_error *err)
{
    const struct rt_check check = rt_session_as_check(p->session);
    enum rt_status st = RT_OK;
    for (int i = 0; i < p->n_nodes && !st; i++) {
        struct rt_plan_step *n = &p->node[i];
        struct rt_variable *v =
            n->kind == PL_CONST && n->value.dtype == RT_RESOURCE ? rt_variable_of(&n->value) : NULL;
        st = rt_session_check(p->session, err);
        if (v && !st)
            st = rt_variable_load(v, &check, err);
        for (int k = 0; k < n->n_sub && !st; k++)
            st = load_constants(n->sub[k], err);
        for (int k = 0; k < n->n_in && !st; k++) {
            const struct rt_plan_step *from = &p->node[n->in[k].node];
            if (from->kind != PL_CONST || !rt_tensor_is_lazy(&from->value) ||
                (n->prepared && k < 64 && rt_prepared_uses_pack(n->prepared, k)))
                continue;
            struct rt_tensor t = from->value;
            st = rt_session_load_tensor(p->session, &t, err);
        }
    }
    for (int k = 0; k < p->n_fetches && !st; k++)
        if (p->constant[p->fetch_value[k]]) {
            struct rt_tensor t = *p->constant[p->fetch_value[k]];
            st = rt_session_load_tensor(p->session, &t, err);
        }
    return st;
}

enum rt_status rt_session_seal(struct rt_session *s, struct rt_callable *const *callables, int n,
                               bool load_all, struct rt_error *err)
{
    const struct rt_check check = rt_session_as_check(s);
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
        st = rt_session_check(s, err);
        if (!st && o->type == &rt_variable_type)
            st = rt_variable_load((struct rt_variable *)o, &check, err);
    }
    pl_chooser_seal(s);
    return st;
}

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
    rt_callable_free(c);
    *out = list.items;
    *n_out = list.n;
    return st;
}
