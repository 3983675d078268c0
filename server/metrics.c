#include "server/metrics.h"

#include <stdlib.h>

#include "runtime/base/arena.h"
#include "server/metrics_cells.h"
#include "server/server.h"

static void count_time(struct srv_times *t, int64_t ns)
{
    /* Walking up is short for what is fast, and nothing beside the request for what is slow. */
    double bound = 10e3;
    int i = 0;
    while (i < SRV_N_TIMES - 1 && (double)ns >= bound) {
        bound *= 1.8;
        i++;
    }
    srv_count_add(&t->n[i], 1);
    srv_count_add(&t->sum_ns, ns > 0 ? (uint64_t)ns : 0);
}

static bool init_model(struct srv_metrics *m, struct srv_model_metrics *model, const char *name)
{
    size_t n = (size_t)m->n_nets + 1;
    model->name = rt_arena_strdup(m->arena, name);
    model->unmade = rt_arena_array(m->arena, n, sizeof *model->unmade);
    model->gone = rt_arena_array(m->arena, n, sizeof *model->gone);
    return model->name && model->unmade && model->gone;
}

struct srv_metrics *srv_metrics_new(int n_nets, int n_workers)
{
    struct srv_metrics *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    m->n_nets = n_nets;
    m->n_workers = n_workers;
    rt_mutex_init(&m->mu);
    rt_map_init(&m->events);
    m->arena = rt_arena_new(SIZE_MAX);
    if (m->arena && init_model(m, &m->unknown, ""))
        return m;
    srv_metrics_free(m);
    return NULL;
}

void srv_metrics_free(struct srv_metrics *m)
{
    if (!m)
        return;
    for (struct srv_version_metrics *v = m->versions, *next; v; v = next) {
        next = v->next;
        rt_arena_free(v->arena);
    }
    rt_map_clear(&m->events);
    rt_arena_free(m->arena);
    rt_mutex_clear(&m->mu);
    free(m);
}

/* Made when it is new. NULL: out of memory. */
static struct srv_model_metrics *model_of(struct srv_metrics *m, const char *name)
    RT_REQUIRES(m->mu)
{
    struct srv_model_metrics *model;

    for (model = m->models; model; model = model->next)
        if (strcmp(model->name, name) == 0)
            return model;
    model = rt_arena_alloc(m->arena, sizeof *model);
    if (!model || !init_model(m, model, name))
        return NULL;
    model->next = m->models;
    m->models = model;
    return model;
}

struct srv_version_metrics *srv_metrics_version(struct srv_metrics *m, const char *model,
                                                int64_t version, int n_signatures,
                                                const char *const *signatures)
{
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct srv_version_metrics *v = arena ? rt_arena_alloc(arena, sizeof *v) : NULL;
    bool ok = v;

    if (ok) {
        v->arena = arena;
        v->version = version;
        v->n_signatures = n_signatures;
        v->signatures = rt_arena_array(arena, (size_t)n_signatures + 1, sizeof *v->signatures);
        v->requests = rt_arena_array(arena, (size_t)(n_signatures + 1) * (size_t)(m->n_nets + 1),
                                     sizeof *v->requests);
        v->runs = rt_arena_array(arena, (size_t)(m->n_workers + m->n_nets) + 1, sizeof *v->runs);
        ok = v->signatures && v->requests && v->runs;
    }
    for (int i = 0; ok && i < n_signatures; i++) {
        v->signatures[i] = rt_arena_strdup(arena, signatures[i]);
        ok = v->signatures[i];
    }
    if (ok) {
        v->signatures[n_signatures] = "";
        rt_mutex_lock(&m->mu);
        v->model = model_of(m, model);
        ok = v->model;
        if (ok) {
            v->next = m->versions;
            m->versions = v;
        }
        rt_mutex_unlock(&m->mu);
    }
    if (ok)
        return v;
    rt_arena_free(arena);
    return NULL;
}

static void fold_times(struct srv_times *to, const struct srv_times *from)
{
    for (int i = 0; i < SRV_N_TIMES; i++)
        srv_count_add(&to->n[i], srv_count_of(&from->n[i]));
    srv_count_add(&to->sum_ns, srv_count_of(&from->sum_ns));
}

void srv_metrics_drop_version(struct srv_metrics *m, struct srv_version_metrics *v)
{
    if (!v)
        return;
    rt_mutex_lock(&m->mu);
    struct srv_version_metrics **at = &m->versions;
    while (*at != v)
        at = &(*at)->next;
    *at = v->next;
    /* A model's totals never go back. */
    for (int net = 0; net < m->n_nets; net++)
        for (int s = 0; s <= v->n_signatures; s++) {
            const struct srv_request_cells *from = &v->requests[net * (v->n_signatures + 1) + s];
            struct srv_request_cells *to = &v->model->gone[net];
            for (int api = 0; api < SRV_N_JOB_APIS; api++) {
                for (int c = 0; c < SRV_N_CODES; c++)
                    srv_count_add(&to->codes[api][c], srv_count_of(&from->codes[api][c]));
                fold_times(&to->latency[api], &from->latency[api]);
            }
        }
    struct srv_run_cells *to = &v->model->gone_runs;
    for (int w = 0; w < m->n_workers + m->n_nets; w++) {
        fold_times(&to->queue, &v->runs[w].queue);
        fold_times(&to->run, &v->runs[w].run);
        for (int i = 0; i < SRV_N_SIZES; i++)
            srv_count_add(&to->sizes[i], srv_count_of(&v->runs[w].sizes[i]));
        srv_count_add(&to->rows, srv_count_of(&v->runs[w].rows));
        srv_count_add(&to->jobs, srv_count_of(&v->runs[w].jobs));
    }
    rt_mutex_unlock(&m->mu);
    rt_arena_free(v->arena);
}

void srv_metrics_request(struct srv_net *net, const struct srv_job *job, struct rt_span model,
                         enum srv_api api, enum rt_status code, int64_t total_ns)
{
    struct srv_metrics *m = net->server->metrics;
    int c = (unsigned)code < SRV_N_CODES ? (int)code : RT_UNKNOWN;

    if (!m || net->index < 0 || net->index >= m->n_nets)
        return;
    if (job && job->version && job->version->metrics && (int)api < SRV_N_JOB_APIS) {
        const struct srv_version *v = job->version;
        struct srv_version_metrics *vm = v->metrics;
        int64_t s = job->signature ? job->signature - v->loaded->signatures : vm->n_signatures;
        if (s < 0 || s > vm->n_signatures)
            s = vm->n_signatures;
        struct srv_request_cells *cells = &vm->requests[net->index * (vm->n_signatures + 1) + s];
        srv_count_add(&cells->codes[api][c], 1);
        if (code == RT_OK)
            count_time(&cells->latency[api], total_ns);
        return;
    }
    const struct srv_map_model *known = net->map ? srv_map_model(net->map, model) : NULL;
    struct srv_model_metrics *cells = &m->unknown;
    if (known && known->n_versions && known->versions[0]->metrics)
        cells = known->versions[0]->metrics->model;
    srv_count_add(&cells->unmade[net->index][api][c], 1);
}

void srv_metrics_batch(struct srv_metrics *m, int worker, const struct srv_job *first, int n_jobs,
                       int64_t rows, int64_t run_ns)
{
    struct srv_version_metrics *v = first->version->metrics;
    int at = worker >= 0 ? worker : m ? m->n_workers - 1 - worker : 0, size = 0;

    if (!m || !v || at >= m->n_workers + m->n_nets)
        return;
    struct srv_run_cells *cells = &v->runs[at];
    for (const struct srv_job *j = first; j; j = j->next)
        count_time(&cells->queue, j->started_ns - j->queued_ns);
    count_time(&cells->run, run_ns);
    while (size < SRV_N_SIZES - 1 && rows > INT64_C(1) << size)
        size++;
    srv_count_add(&cells->sizes[size], 1);
    srv_count_add(&cells->rows, rows > 0 ? (uint64_t)rows : 0);
    srv_count_add(&cells->jobs, (uint64_t)n_jobs);
}

void srv_metrics_load(struct srv_metrics *m, const char *model, int64_t version, bool ok,
                      int64_t ns)
{
    (void)version; /* a label per version ever tried would grow without end */
    rt_mutex_lock(&m->mu);
    struct srv_model_metrics *cells = model_of(m, model);
    if (cells) {
        srv_count_add(ok ? &cells->loads_ok : &cells->loads_failed, 1);
        if (ok)
            count_time(&cells->load, ns);
    }
    rt_mutex_unlock(&m->mu);
}

void srv_metrics_event(struct srv_metrics *m, const char *name)
{
    rt_mutex_lock(&m->mu);
    uint64_t *n = rt_map_get(&m->events, name);
    if (!n) {
        n = rt_arena_alloc(m->arena, sizeof *n);
        if (n && !rt_map_put(&m->events, name, n))
            n = NULL;
    }
    if (n)
        ++*n;
    rt_mutex_unlock(&m->mu);
}
