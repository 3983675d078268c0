#include "server/tracing/profile.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/thread.h"
#include "server/base/serving_map.h"
#include "server/telemetry/access_log.h"
#include "server/tracing/tracer.h"

struct srv_profile {
    _Atomic bool is_running; /* whether requests are to be marked; written under mu */
    struct rt_mutex mu;      /* guards all members below */
    char *model;             /* allocated by malloc; NULL before the first profile */
    size_t n_model;
    int n, n_wanted;
    int64_t until_ns;
    struct srv_profiled of[SRV_PROFILE_MOST];
};

struct srv_profile *srv_profile_new(void)
{
    struct srv_profile *p = calloc(1, sizeof *p);

    if (p)
        rt_mutex_init(&p->mu);
    return p;
}

void srv_profile_free(struct srv_profile *p)
{
    if (!p)
        return;
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
