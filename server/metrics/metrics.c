#include "server/metrics/metrics.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/arena.h"
#include "server/metrics/metrics_cells.h"
#include "server/server.h"

enum { MAX_STRANGERS_NAME = 256 };

const struct srv_scale srv_scale_time = {10, 1.8, SRV_N_TIMES - 1};
const struct srv_scale srv_scale_queuing = {100, 1.2, 52};
const struct srv_scale srv_scale_graph = {1000, 2, 20};
const struct srv_scale srv_scale_bytes = {1, 4, 14};
const struct srv_scale srv_scale_rows = {1, 2, SRV_N_SIZES - 1};
const struct srv_scale srv_scale_examples = {1, 2, 15};

/* Returns the index of the bucket that counts `value`. The linear search ends early for fast
 * requests, and its cost is negligible for slow ones. */
static int bucket_of(const struct srv_scale *scale, double value)
{
    double bound = scale->first;
    int i = 0;
    while (i < scale->n && value >= bound) {
        bound *= scale->factor;
        i++;
    }
    return i;
}

static void count_time(struct srv_times *t, int64_t ns)
{
    srv_count_add(&t->n[bucket_of(&srv_scale_time, (double)ns / 1e3)], 1);
    srv_count_add(&t->sum_ns, ns > 0 ? (uint64_t)ns : 0);
}

static void count_value(struct srv_histogram *h, const struct srv_scale *scale, uint64_t value)
{
    srv_count_add(&h->n[bucket_of(scale, (double)value)], 1);
    srv_count_add(&h->sum, value);
}

static bool init_model(struct srv_metrics *m, struct srv_model_metrics *model, const char *name)
{
    model->name = rt_arena_strdup(m->arena, name);
    model->io_loops = rt_arena_array(m->arena, (size_t)m->n_io_loops + 1, sizeof *model->io_loops);
    return model->name && model->io_loops;
}

struct srv_metrics *srv_metrics_new(int n_io_loops, int n_workers)
{
    struct srv_metrics *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    m->n_io_loops = n_io_loops;
    m->n_workers = n_workers;
    m->started_s = time(NULL);
    rt_mutex_init(&m->mu);
    rt_mutex_init(&m->strangers_mu);
    rt_map_init(&m->events);
    m->arena = rt_arena_new(SIZE_MAX);
    m->threads = calloc((size_t)(n_workers + n_io_loops) + 1, sizeof *m->threads);
    if (m->arena && m->threads && init_model(m, &m->unknown, ""))
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
    for (int i = 0; i < SRV_MAX_PATHS && m->paths[i]; i++) {
        free(m->paths[i]->path);
        free(m->paths[i]);
    }
    for (int i = 0; i < SRV_MAX_STRANGERS; i++)
        free(m->strangers[i].name);
    rt_map_clear(&m->events);
    rt_arena_free(m->arena);
    rt_mutex_clear(&m->strangers_mu);
    rt_mutex_clear(&m->mu);
    free(m->threads);
    free(m);
}

/* Returns the model's metrics and creates them if they do not exist. Returns NULL if memory runs
 * out. */
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
        v->requests = rt_arena_array(
            arena, (size_t)(n_signatures + 1) * (size_t)(m->n_io_loops + 1), sizeof *v->requests);
        v->runs =
            rt_arena_array(arena, (size_t)(m->n_workers + m->n_io_loops) + 1, sizeof *v->runs);
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

void srv_metrics_drop_version(struct srv_metrics *m, struct srv_version_metrics *v)
{
    if (!v)
        return;
    rt_mutex_lock(&m->mu);
    struct srv_version_metrics **at = &m->versions;
    while (*at != v)
        at = &(*at)->next;
    *at = v->next;
    /* Adds the counts of a version to those of its model, because a model's totals must never
     * decrease. */
    for (int io_loop = 0; io_loop < m->n_io_loops; io_loop++)
        for (int s = 0; s <= v->n_signatures; s++) {
            const struct srv_request_cells *from =
                &v->requests[io_loop * (v->n_signatures + 1) + s];
            struct srv_request_cells *to = &v->model->io_loops[io_loop].gone;
            for (int api = 0; api < SRV_N_JOB_APIS; api++) {
                for (int c = 0; c < SRV_N_CODES; c++)
                    srv_count_add(&to->codes[api][c], srv_count_of(&from->codes[api][c]));
                srv_times_add(&to->latency[api], &from->latency[api]);
            }
        }
    rt_mutex_unlock(&m->mu);
    rt_arena_free(v->arena);
}

static bool counts_examples(enum srv_api api)
{
    return api == SRV_CLASSIFY || api == SRV_REGRESS || api == SRV_MULTI_INFERENCE;
}

static void count_job(const struct srv_io_loop *io_loop, const struct srv_job *job,
                      enum srv_api api, int code, int64_t total_ns)
{
    const struct srv_version *v = job->version;
    struct srv_version_metrics *vm = v->metrics;
    struct srv_model_io_loop *model = &vm->model->io_loops[io_loop->index];
    int64_t s = vm->n_signatures; /* the last element counts requests for dynamic callables */

    if (job->signature && job->signature >= v->loaded->signatures &&
        job->signature < v->loaded->signatures + v->loaded->n_signatures)
        s = job->signature - v->loaded->signatures;
    if (s > vm->n_signatures)
        s = vm->n_signatures;
    struct srv_request_cells *cells = &vm->requests[io_loop->index * (vm->n_signatures + 1) + s];
    srv_count_add(&cells->codes[api][code], 1);
    if (code != RT_OK)
        return;
    count_time(&cells->latency[api], total_ns);
    if (job->queued_ns && job->finished_ns >= job->queued_ns)
        count_time(&model->runtime[api], job->finished_ns - job->queued_ns);
    if (counts_examples(api) && job->n_rows > 0)
        count_value(&model->examples, &srv_scale_examples, (uint64_t)job->n_rows);
}

/* Counts a request for an unknown model under the requested name, unless there
 * are too many different names. */
static void count_stranger(struct srv_metrics *m, struct rt_span name, int code)
{
    if (!name.n || name.n > MAX_STRANGERS_NAME || memchr(name.p, '\0', name.n))
        return;
    rt_mutex_lock(&m->strangers_mu);
    int i = 0;
    while (i < SRV_MAX_STRANGERS && m->strangers[i].name && !rt_span_is(name, m->strangers[i].name))
        i++;
    if (i < SRV_MAX_STRANGERS) {
        char *copy = m->strangers[i].name ? NULL : calloc(1, name.n + 1);
        if (copy)
            m->strangers[i].name = memcpy(copy, name.p, name.n);
        if (m->strangers[i].name)
            m->strangers[i].codes[code]++;
    }
    rt_mutex_unlock(&m->strangers_mu);
}

const char *srv_metrics_entrypoint(const struct srv_server *server, int io_loop)
{
    return server->io_loops[io_loop] ? server->io_loops[io_loop]->entrypoint : "";
}

bool srv_metrics_same_entrypoint(const struct srv_server *server, int io_loop, int other)
{
    return strcmp(srv_metrics_entrypoint(server, io_loop), srv_metrics_entrypoint(server, other)) ==
           0;
}

bool srv_metrics_is_first(const struct srv_server *server, int io_loop)
{
    int i = 0;
    while (i < io_loop && !srv_metrics_same_entrypoint(server, i, io_loop))
        i++;
    return i == io_loop;
}

bool srv_metrics_serving_counts(const struct srv_io_loop *io_loop, enum srv_api api)
{
    return api == SRV_PREDICT || api == SRV_CLASSIFY || api == SRV_REGRESS ||
           strcmp(io_loop->entrypoint, "REST") == 0;
}

void srv_metrics_request(struct srv_io_loop *io_loop, const struct srv_job *job,
                         struct rt_span model, enum srv_api api, enum rt_status code,
                         int64_t total_ns)
{
    struct srv_metrics *m = io_loop->server->metrics;
    int c = (unsigned)code < SRV_N_CODES ? (int)code : RT_UNKNOWN;

    if (!m || io_loop->index < 0 || io_loop->index >= m->n_io_loops || (unsigned)api >= SRV_N_APIS)
        return;
    if (job && job->version && job->version->metrics && (int)api < SRV_N_JOB_APIS) {
        count_job(io_loop, job, api, c, total_ns);
        return;
    }
    const struct srv_map_model *known = io_loop->map ? srv_map_model(io_loop->map, model) : NULL;
    struct srv_model_metrics *cells = &m->unknown;
    if (known && known->n_versions && known->versions[0]->metrics)
        cells = known->versions[0]->metrics->model;
    else if (srv_metrics_serving_counts(io_loop, api))
        count_stranger(m, model, c);
    srv_count_add(&cells->io_loops[io_loop->index].unmade[api][c], 1);
    if (code == RT_OK && (int)api >= SRV_N_JOB_APIS && strcmp(io_loop->entrypoint, "REST") == 0)
        count_time(&cells->io_loops[io_loop->index].gets, total_ns);
}

static void count_padding(struct srv_thread_cells *t, int64_t run_rows, int64_t rows)
{
    int i = 0;
    while (i < SRV_MAX_PADDINGS - 1) {
        int64_t size = atomic_load_explicit(&t->padding[i].size, memory_order_relaxed);
        if (!size)
            atomic_store_explicit(&t->padding[i].size, run_rows, memory_order_relaxed);
        if (!size || size == run_rows)
            break;
        i++;
    }
    count_value(&t->padding[i].rows, &srv_scale_rows, (uint64_t)(run_rows - rows));
}

static uint64_t bytes_of(int n, const struct rt_tensor *tensors)
{
    uint64_t bytes = 0;
    for (int i = 0; tensors && i < n; i++)
        bytes += (uint64_t)rt_tensor_bytes(&tensors[i]);
    return bytes;
}

void srv_metrics_batch(struct srv_metrics *m, int worker, const struct srv_job *first, int n_jobs,
                       int64_t rows, int64_t run_rows, int64_t run_ns)
{
    struct srv_version_metrics *v = first->version->metrics;
    int at = worker >= 0 ? worker : m ? m->n_workers - 1 - worker : 0, size = 0;
    uint64_t in = 0, out = 0;

    if (!m || !v || at >= m->n_workers + m->n_io_loops)
        return;
    struct srv_run_cells *cells = &v->runs[at];
    struct srv_thread_cells *thread = &m->threads[at];
    for (const struct srv_job *j = first; j; j = j->next) {
        int64_t waited = j->started_ns > j->queued_ns ? j->started_ns - j->queued_ns : 0;
        count_time(&cells->queue, waited);
        count_value(&thread->queuing, &srv_scale_queuing, (uint64_t)waited / 1000);
        if (j->n_rows > 0)
            count_value(&thread->request_rows, &srv_scale_rows, (uint64_t)j->n_rows);
        in += bytes_of(j->n_feeds, j->feeds);
        if (!j->status)
            out += bytes_of(j->n_fetches, j->fetches);
    }
    count_time(&cells->run, run_ns);
    while (size < SRV_N_SIZES - 1 && rows > INT64_C(1) << size)
        size++;
    srv_count_add(&cells->sizes[size], 1);
    srv_count_add(&cells->rows, rows > 0 ? (uint64_t)rows : 0);
    srv_count_add(&cells->jobs, (uint64_t)n_jobs);

    srv_count_add(&thread->run_ns, run_ns > 0 ? (uint64_t)run_ns : 0);
    count_value(&thread->runs, &srv_scale_graph, run_ns > 0 ? (uint64_t)run_ns / 1000 : 0);
    count_value(&thread->in_bytes, &srv_scale_bytes, in);
    count_value(&thread->out_bytes, &srv_scale_bytes, out);
    if (run_rows >= rows && rows > 0) {
        count_value(&thread->batch_rows, &srv_scale_rows, (uint64_t)run_rows);
        count_padding(thread, run_rows, rows);
    }
}

/* Returns the directory's counters and creates them if they do not exist; if the table is full,
 * the new counters replace the oldest entry. Returns NULL if memory runs out. */
static struct srv_path_metrics *path_of(struct srv_metrics *m, const char *path) RT_REQUIRES(m->mu)
{
    int i = 0;
    while (i < SRV_MAX_PATHS && m->paths[i] && strcmp(m->paths[i]->path, path) != 0)
        i++;
    if (i < SRV_MAX_PATHS && m->paths[i])
        return m->paths[i];
    struct srv_path_metrics *p = calloc(1, sizeof *p);
    if (p)
        p->path = strdup(path);
    if (!p || !p->path) {
        free(p);
        return NULL;
    }
    if (i == SRV_MAX_PATHS) {
        i = m->next_path++ % SRV_MAX_PATHS;
        free(m->paths[i]->path);
        free(m->paths[i]);
    }
    return m->paths[i] = p;
}

static bool has_mlmd_uuid(const char *dir)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/assets.extra/mlmd_uuid", dir);

    return n > 0 && n < (int)sizeof path && access(path, R_OK) == 0;
}

void srv_metrics_load(struct srv_metrics *m, const char *model, const char *dir, bool ok,
                      int64_t ns)
{
    bool has_uuid = ok && has_mlmd_uuid(dir);

    rt_mutex_lock(&m->mu);
    struct srv_model_metrics *cells = model_of(m, model);
    struct srv_path_metrics *path = path_of(m, dir);
    if (cells) {
        srv_count_add(ok ? &cells->loads_ok : &cells->loads_failed, 1);
        if (ok)
            count_time(&cells->load, ns);
    }
    if (path && ok) {
        path->model = has_uuid && cells ? cells->name : NULL;
        path->loads_ok++;
        path->load_us += ns > 0 ? (uint64_t)ns / 1000 : 0;
    } else if (path) {
        path->loads_failed++;
    }
    rt_mutex_unlock(&m->mu);
}

void srv_metrics_warmup(struct srv_metrics *m, const char *dir, enum rt_status code,
                        int64_t records, int64_t ns)
{
    int c = (unsigned)code < SRV_N_CODES ? (int)code : RT_UNKNOWN;

    rt_mutex_lock(&m->mu);
    struct srv_path_metrics *path = path_of(m, dir);
    if (path) {
        path->warmed[c]++;
        path->warm_records[c] += records > 0 ? (uint64_t)records : 0;
        count_time(&path->warming[c], ns);
    }
    rt_mutex_unlock(&m->mu);
}

void srv_metrics_logged(struct srv_metrics *m, const char *model, enum rt_status code)
{
    int c = (unsigned)code < SRV_N_CODES ? (int)code : RT_UNKNOWN;

    rt_mutex_lock(&m->mu);
    struct srv_model_metrics *cells = model_of(m, model);
    if (cells)
        srv_count_add(&cells->logged[c], 1);
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
