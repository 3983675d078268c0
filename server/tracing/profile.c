#include "server/tracing/profile.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/arena.h"
#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "runtime/files/saved_model.h"
#include "server/base/serving_map.h"
#include "server/batching/job.h"
#include "server/tracing/access.h"
#include "server/tracing/own_times.h"
#include "server/tracing/tracer.h"

/* The times of the nodes of one signature of one version. */
struct node_times {
    const char *signature; /* allocated in srv_profile.arena */
    int64_t version, all_ns;
    int n_runs;
    struct rt_map ns; /* maps the name of a node to a pointer to its time, an int64_t */
};

struct srv_profile {
    _Atomic bool is_running; /* whether requests are to be marked; written under mu */
    struct rt_mutex mu;      /* guards all members below */
    char *model;             /* allocated by malloc; NULL before the first profile */
    size_t n_model;
    int n, n_wanted;
    int64_t until_ns;
    struct srv_profiled of[SRV_PROFILE_MOST];
    struct rt_arena *arena; /* NULL before the first run of a profile */
    int n_signatures, n_nodes;
    struct node_times nodes[SRV_PROFILE_SIGNATURES];
};

struct srv_profile *srv_profile_new(void)
{
    struct srv_profile *p = calloc(1, sizeof *p);

    if (p)
        rt_mutex_init(&p->mu);
    return p;
}

static void forget_nodes(struct srv_profile *p) RT_REQUIRES(p->mu)
{
    for (int i = 0; i < p->n_signatures; i++)
        rt_map_clear(&p->nodes[i].ns);
    p->n_signatures = p->n_nodes = 0;
    rt_arena_free(p->arena);
    p->arena = NULL;
}

void srv_profile_free(struct srv_profile *p)
{
    if (!p)
        return;
    rt_mutex_lock(&p->mu);
    forget_nodes(p);
    rt_mutex_unlock(&p->mu);
    rt_mutex_clear(&p->mu);
    free(p->model);
    free(p);
}

static bool is_of(const struct srv_profile *p, struct rt_span model) RT_REQUIRES(p->mu)
{
    return p->model && model.n == p->n_model && memcmp(p->model, model.p, model.n) == 0;
}

/* Ends a profile whose time is over. Returns whether one runs. */
static bool runs(struct srv_profile *p, int64_t now_ns) RT_REQUIRES(p->mu)
{
    if (now_ns >= p->until_ns || p->n >= p->n_wanted)
        atomic_store_explicit(&p->is_running, false, memory_order_relaxed);
    return atomic_load_explicit(&p->is_running, memory_order_relaxed);
}

enum rt_status srv_profile_start(struct srv_profile *p, struct rt_span model, int n, int64_t now_ns,
                                 struct rt_error *err)
{
    char *copy = malloc(model.n + 1);

    if (!copy)
        return rt_fail_memory(err, "a profile", model.n);
    memcpy(copy, model.p, model.n);
    rt_mutex_lock(&p->mu);
    const bool may = !runs(p, now_ns);
    if (may) {
        forget_nodes(p);
        free(p->model);
        p->model = copy;
        p->n_model = model.n;
        p->n = 0;
        p->n_wanted = n;
        p->until_ns = now_ns + SRV_PROFILE_SECONDS * INT64_C(1000000000);
        atomic_store_explicit(&p->is_running, true, memory_order_relaxed);
    }
    rt_mutex_unlock(&p->mu);
    if (may)
        return RT_OK;
    free(copy);
    return rt_fail(err, RT_UNAVAILABLE, "another profile runs, for %d seconds at most",
                   SRV_PROFILE_SECONDS);
}

int srv_profile_copy(struct srv_profile *p, struct rt_span model, int64_t now_ns,
                     struct srv_profiled out[SRV_PROFILE_MOST], bool *is_running)
{
    int n = 0;

    *is_running = false;
    rt_mutex_lock(&p->mu);
    if (is_of(p, model)) {
        n = p->n;
        memcpy(out, p->of, (size_t)n * sizeof *out);
        *is_running = runs(p, now_ns);
    }
    rt_mutex_unlock(&p->mu);
    return n;
}

void srv_profile_begin(struct srv_profile *p, struct srv_request_span *s)
{
    s->is_profiled = p && atomic_load_explicit(&p->is_running, memory_order_relaxed);
    if (s->is_profiled && !s->is_recorded)
        srv_request_span_clear_times(s);
}

void srv_profile_request(struct srv_profile *p, const struct srv_access *a,
                         const struct srv_job *job)
{
    struct srv_profiled x = {
        .times = {a->begin_ns, a->end_ns}, .entry = a->entry, .api = a->api, .code = a->code};

    if (!p || !a->span->is_profiled)
        return;
    if (job) {
        srv_tracer_phases(a, job, x.phase);
        x.rows = job->n_rows;
    }
    if (a->version) {
        x.has_version = true;
        x.version = a->version->version;
    }
    rt_mutex_lock(&p->mu);
    if (runs(p, a->end_ns) && is_of(p, a->version ? rt_span_str(a->version->model) : a->model))
        p->of[p->n++] = x;
    runs(p, a->end_ns);
    rt_mutex_unlock(&p->mu);
}

/* ---- the times of nodes ---- */

bool srv_profile_begin_run(struct srv_profile *p, const struct srv_job *first,
                           struct rt_trace *trace)
{
    bool wants = false;

    if (!p || !atomic_load_explicit(&p->is_running, memory_order_relaxed) ||
        first->signature->is_dynamic)
        return false;
    for (const struct srv_job *job = first; job && !wants; job = job->next)
        wants = job->span && job->span->is_profiled;
    if (!wants)
        return false;
    rt_mutex_lock(&p->mu);
    wants = is_of(p, rt_span_str(first->version->model));
    rt_mutex_unlock(&p->mu);
    if (wants)
        *trace = (struct rt_trace){.arena = rt_arena_new(SRV_PROFILE_TRACE), .wants_times = true};
    return wants && trace->arena;
}

/* Returns the times of the signature, which are new after the first run, or NULL if the profile has
 * no place or no memory for them. */
static struct node_times *times_of(struct srv_profile *p, const struct srv_job *job)
    RT_REQUIRES(p->mu)
{
    const char *signature = job->signature->def->name;

    for (int i = 0; i < p->n_signatures; i++)
        if (p->nodes[i].version == job->version->version &&
            strcmp(p->nodes[i].signature, signature) == 0)
            return &p->nodes[i];
    if (!p->arena)
        p->arena = rt_arena_new(SRV_PROFILE_BYTES);
    const char *copy = p->arena && p->n_signatures < SRV_PROFILE_SIGNATURES
                           ? rt_arena_strdup(p->arena, signature)
                           : NULL;
    if (!copy)
        return NULL;
    struct node_times *t = &p->nodes[p->n_signatures++];
    *t = (struct node_times){.signature = copy, .version = job->version->version};
    rt_map_init(&t->ns);
    return t;
}

static void add_time(struct srv_profile *p, struct node_times *t, const char *name, int64_t ns)
    RT_REQUIRES(p->mu)
{
    int64_t *sum = rt_map_get(&t->ns, name);

    t->all_ns += ns;
    if (!sum && p->n_nodes < SRV_PROFILE_NODES) {
        sum = rt_arena_alloc(p->arena, sizeof *sum);
        if (!sum || !rt_map_put(&t->ns, name, sum))
            return;
        *sum = 0;
        p->n_nodes++;
    }
    if (sum)
        *sum += ns;
}

struct adding {
    struct srv_profile *profile;
    struct node_times *times;
};

/* add_run holds the lock, which the analysis cannot see through srv_own_times. */
static bool add_node(void *arg, const struct rt_trace_node *n, int64_t own_ns) RT_NO_ANALYSIS
{
    const struct adding *a = arg;

    add_time(a->profile, a->times, n->name, own_ns > 0 ? own_ns : 0);
    return true;
}

/* Adds the times of a run. */
static void add_run(struct srv_profile *p, struct node_times *t, const struct rt_trace *trace)
    RT_REQUIRES(p->mu)
{
    struct adding a = {p, t};

    if (srv_own_times(trace, add_node, &a))
        t->n_runs++;
}

void srv_profile_end_run(struct srv_profile *p, const struct srv_job *first, struct rt_trace *trace,
                         bool keep)
{
    if (keep && !trace->is_truncated && trace->n_nodes) {
        rt_mutex_lock(&p->mu);
        /* Another profile may have begun during the run. */
        struct node_times *t =
            is_of(p, rt_span_str(first->version->model)) ? times_of(p, first) : NULL;
        if (t)
            add_run(p, t, trace);
        rt_mutex_unlock(&p->mu);
    }
    rt_arena_free(trace->arena);
}

int srv_profile_node_times(struct srv_profile *p, const struct srv_version *version,
                           const char *signature, int n, const char *const *names, int64_t *ns,
                           int64_t *all_ns)
{
    const struct node_times *t = NULL;
    int n_runs = 0;

    if (!p)
        return 0;
    rt_mutex_lock(&p->mu);
    for (int i = 0; i < p->n_signatures && is_of(p, rt_span_str(version->model)); i++)
        if (p->nodes[i].version == version->version &&
            strcmp(p->nodes[i].signature, signature) == 0)
            t = &p->nodes[i];
    if (t) {
        for (int i = 0; i < n; i++) {
            const int64_t *sum = rt_map_get(&t->ns, names[i]);
            ns[i] = sum ? *sum : 0;
        }
        n_runs = t->n_runs;
        *all_ns = t->all_ns;
    }
    rt_mutex_unlock(&p->mu);
    return n_runs;
}
