#include "server/metrics/metrics.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/arena.h"
#include "server/metrics/metrics_cells.h"

enum { MAX_UNKNOWN_NAME = 256 };

const struct srv_scale srv_scale_time = {10, 1.8, SRV_N_TIMES - 1};
const struct srv_scale srv_scale_queuing = {100, 1.2, 52};
const struct srv_scale srv_scale_graph = {1000, 2, 20};
const struct srv_scale srv_scale_bytes = {1, 4, 14};
const struct srv_scale srv_scale_rows = {1, 2, SRV_N_SIZES - 1};
const struct srv_scale srv_scale_examples = {1, 2, 15};

/* Returns the index of the bucket that counts `value`. The linear search ends early for fast
 * requests. For slow requests, its cost is negligible. */
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

/* Returns the index of the bucket that counts the time. */
static int count_time(struct srv_times *t, int64_t ns)
{
    const int bucket = bucket_of(&srv_scale_time, (double)ns / 1e3);

    srv_count_add(&t->n[bucket], 1);
    srv_count_add(&t->sum_ns, ns > 0 ? (uint64_t)ns : 0);
    return bucket;
}

/* Counts a time of a request with the span `s`, which may be NULL. */
static void count_traced(struct srv_times *t, _Atomic(struct srv_exemplars *) *exemplars,
                         int64_t ns, const struct srv_request_span *s)
{
    const int bucket = count_time(t, ns);

    if (srv_exemplars_wants(s))
        srv_exemplars_set(exemplars, SRV_N_TIMES, bucket, ns, s);
}

static void count_value(struct srv_histogram *h, const struct srv_scale *scale, uint64_t value)
{
    srv_count_add(&h->n[bucket_of(scale, (double)value)], 1);
    srv_count_add(&h->sum, value);
}

struct srv_metrics *srv_metrics_new(int n_io_loops, int n_workers)
{
    struct srv_metrics *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    m->n_io_loops = n_io_loops;
    m->n_workers = n_workers;
    m->max_page = SRV_MAX_METRICS_PAGE;
    m->started_s = time(NULL);
    rt_mutex_init(&m->mu);
    rt_mutex_init(&m->brief_mu);
    srv_list_init(&m->gone);
    rt_map_init(&m->events);
    m->arena = rt_arena_new(SIZE_MAX);
    m->threads = calloc((size_t)(n_workers + n_io_loops) + 1, sizeof *m->threads);
    m->unknown = srv_metrics_model_new(m, "");
    if (m->arena && m->threads && m->unknown)
        return m;
    srv_metrics_free(m);
    return NULL;
}

static void free_path(struct srv_path_metrics *p)
{
    free(p->path);
    free(p->model);
    free(p);
}

void srv_metrics_free(struct srv_metrics *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->n_models; i++)
        srv_metrics_model_free(m, m->models[i]);
    free(m->models);
    srv_metrics_model_free(m, m->unknown);
    for (int i = 0; i < SRV_MAX_PATHS && m->paths[i]; i++)
        free_path(m->paths[i]);
    for (int i = 0; i < SRV_MAX_UNKNOWN_MODELS; i++)
        free(m->unknown_models[i].name);
    rt_map_clear(&m->events);
    rt_arena_free(m->arena);
    rt_mutex_clear(&m->brief_mu);
    rt_mutex_clear(&m->mu);
    free(m->threads);
    free(m);
}

/* Returns a signature's array of cells, indexed by I/O loop. The array is allocated at the first
 * request. If memory runs out, or if SRV_MAX_CALLED signatures already have arrays, returns the
 * array that all other signatures share. */
static struct srv_request_cells *cells_of(const struct srv_metrics *m,
                                          struct srv_version_metrics *v, int64_t signature)
{
    _Atomic(struct srv_request_cells *) *at = &v->requests[signature];
    struct srv_request_cells *cells = atomic_load_explicit(at, memory_order_acquire);

    if (cells)
        return cells;
    if (atomic_load(&v->n_called) < SRV_MAX_CALLED)
        cells = calloc((size_t)m->n_io_loops, sizeof *cells);
    if (!cells)
        return atomic_load_explicit(&v->requests[v->n_signatures], memory_order_relaxed);
    struct srv_request_cells *other = NULL;
    if (!atomic_compare_exchange_strong(at, &other, cells)) {
        free(cells); /* another network thread has already allocated the array */
        return other;
    }
    atomic_fetch_add(&v->n_called, 1);
    return cells;
}

static bool counts_examples(enum srv_api api)
{
    return api == SRV_CLASSIFY || api == SRV_REGRESS || api == SRV_MULTI_INFERENCE;
}

static void count_job(const struct srv_io_loop *io_loop, const struct srv_job *job,
                      const struct srv_request_span *span, enum srv_api api, int code,
                      int64_t total_ns)
{
    const struct srv_version *v = job->version;
    const struct rt_model_signature *sig = srv_job_signature(job);
    struct srv_version_metrics *vm = v->metrics;
    struct srv_model_io_loop *model = &vm->model->io_loops[io_loop->index];
    /* index of the signature's counters; dynamic callables share the last index */
    int64_t s = vm->n_signatures;

    if (sig && sig >= v->loaded->signatures &&
        sig < v->loaded->signatures + v->loaded->n_signatures)
        s = sig - v->loaded->signatures;
    if (s > vm->n_signatures)
        s = vm->n_signatures;
    struct srv_request_cells *cells = &cells_of(io_loop->server->metrics, vm, s)[io_loop->index];
    srv_count_add(&cells->codes[api][code], 1);
    atomic_store_explicit(&cells->last_ns, job->received_ns + total_ns, memory_order_relaxed);
    if (code != RT_OK) {
        srv_count_add(&cells->failed_ns, total_ns > 0 ? (uint64_t)total_ns : 0);
        return;
    }
    count_traced(&cells->latency[api], &cells->exemplars[api], total_ns, span);
    if (job->queued_ns && job->finished_ns >= job->queued_ns)
        count_time(&model->runtime[api], job->finished_ns - job->queued_ns);
    if (counts_examples(api) && job->n_rows > 0)
        count_value(&model->examples, &srv_scale_examples, (uint64_t)job->n_rows);
}

/* Counts a request for an unknown model under the requested name. Counts at most
 * SRV_MAX_UNKNOWN_MODELS different names. */
static void count_unknown_model(struct srv_metrics *m, struct rt_span name, int code)
{
    if (!name.n || name.n > MAX_UNKNOWN_NAME || memchr(name.p, '\0', name.n))
        return;
    rt_mutex_lock(&m->brief_mu);
    int i = 0;
    while (i < SRV_MAX_UNKNOWN_MODELS && m->unknown_models[i].name &&
           !rt_span_is(name, m->unknown_models[i].name))
        i++;
    if (i < SRV_MAX_UNKNOWN_MODELS) {
        char *copy = m->unknown_models[i].name ? NULL : calloc(1, name.n + 1);
        if (copy)
            m->unknown_models[i].name = memcpy(copy, name.p, name.n);
        if (m->unknown_models[i].name)
            m->unknown_models[i].codes[code]++;
    }
    rt_mutex_unlock(&m->brief_mu);
}

const char *srv_metrics_entrypoint(const struct srv_server *server, int io_loop)
{
    return server->io_loops[io_loop] ? server->io_loops[io_loop]->entrypoint : "";
}

void srv_metrics_entrypoints(const struct srv_server *server, int first[SRV_MAX_IO_LOOPS])
{
    for (int i = 0; i < SRV_MAX_IO_LOOPS; i++) {
        const char *entrypoint = srv_metrics_entrypoint(server, i);
        first[i] = 0;
        while (strcmp(srv_metrics_entrypoint(server, first[i]), entrypoint) != 0)
            first[i]++;
    }
}

bool srv_metrics_serving_counts(const struct srv_io_loop *io_loop, enum srv_api api)
{
    return api == SRV_PREDICT || api == SRV_CLASSIFY || api == SRV_REGRESS ||
           strcmp(io_loop->entrypoint, "REST") == 0;
}

void srv_metrics_request(struct srv_io_loop *io_loop, const struct srv_job *job,
                         const struct srv_request_span *span, struct rt_span model,
                         enum srv_api api, enum rt_status code, int64_t total_ns)
{
    struct srv_metrics *m = io_loop->server->metrics;
    int c = (unsigned)code < SRV_N_CODES ? (int)code : RT_UNKNOWN;

    if (!m || io_loop->index < 0 || io_loop->index >= m->n_io_loops || (unsigned)api >= SRV_N_APIS)
        return;
    if (job && job->version && job->version->metrics && (int)api < SRV_N_JOB_APIS) {
        count_job(io_loop, job, span, api, c, total_ns);
        return;
    }
    const struct srv_map_model *known = io_loop->map ? srv_map_model(io_loop->map, model) : NULL;
    struct srv_model_metrics *cells = m->unknown;
    if (known && known->n_versions && known->versions[0]->metrics)
        cells = known->versions[0]->metrics->model;
    else if (srv_metrics_serving_counts(io_loop, api))
        count_unknown_model(m, model, c);
    srv_count_add(&cells->io_loops[io_loop->index].unversioned[api][c], 1);
    if (code == RT_OK && (int)api >= SRV_N_JOB_APIS && strcmp(io_loop->entrypoint, "REST") == 0)
        count_time(&cells->io_loops[io_loop->index].gets, total_ns);
}

void srv_metrics_error(const struct srv_io_loop *io_loop, const struct srv_version *version,
                       struct rt_span model, enum srv_api api, enum rt_status code,
                       const char *text)
{
    const struct srv_server *server = io_loop->server;
    struct srv_last_error e = {.at_ms = rt_wall_ns() / 1000000,
                               .version = version ? version->version : 0,
                               .has_version = version != NULL,
                               .code = code,
                               .api = api};
    const struct srv_version *of = version;

    if (!server->options.page || !server->metrics)
        return;
    if (!of && model.n) {
        const struct srv_map_model *known =
            io_loop->map ? srv_map_model(io_loop->map, model) : NULL;
        of = known && known->n_versions ? known->versions[0] : NULL;
    }
    struct srv_model_metrics *cells =
        of && of->metrics ? of->metrics->model : server->metrics->unknown;
    srv_last_errors_add(&cells->errors, &server->metrics->error_bytes, &e, text);
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
    const struct srv_request_span *span = NULL; /* of any request of the batch */
    uint64_t in = 0, out = 0;

    if (!m || !v || at >= m->n_workers + m->n_io_loops)
        return;
    struct srv_run_cells *cells = &v->runs[at];
    struct srv_thread_cells *thread = &m->threads[at];
    for (const struct srv_job *j = first; j; j = j->next) {
        int64_t waited = j->started_ns > j->queued_ns ? j->started_ns - j->queued_ns : 0;
        count_traced(&cells->queue, &cells->queue_exemplars, waited, j->span);
        span = j->span ? j->span : span;
        count_value(&thread->queuing, &srv_scale_queuing, (uint64_t)waited / 1000);
        if (j->n_rows > 0)
            count_value(&thread->request_rows, &srv_scale_rows, (uint64_t)j->n_rows);
        in += bytes_of(j->n_feeds, j->feeds);
        if (!j->status)
            out += bytes_of(j->n_fetches, j->fetches);
    }
    count_traced(&cells->run, &cells->run_exemplars, run_ns, span);
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

/* Returns the counters of the version directory `path`, and creates them if necessary. If the table
 * is full, replaces the oldest counters. Returns NULL if memory runs out. */
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
        free_path(m->paths[i]);
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
    struct srv_model_metrics *cells = srv_metrics_model(m, model);
    struct srv_path_metrics *path = path_of(m, dir);
    if (cells) {
        srv_count_add(ok ? &cells->loads_ok : &cells->loads_failed, 1);
        if (ok)
            count_time(&cells->load, ns);
    }
    if (path && ok) {
        free(path->model);
        path->model = has_uuid ? strdup(model) : NULL;
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
    struct srv_model_metrics *cells = srv_metrics_find(m, model);
    if (cells)
        srv_count_add(&cells->logged[c], 1);
    rt_mutex_unlock(&m->mu);
}

void srv_metrics_event(struct srv_metrics *m, const char *name)
{
    rt_mutex_lock(&m->brief_mu);
    uint64_t *n = rt_map_get(&m->events, name);
    if (!n) {
        n = rt_arena_alloc(m->arena, sizeof *n);
        if (n && !rt_map_put(&m->events, name, n))
            n = NULL;
    }
    if (n)
        ++*n;
    rt_mutex_unlock(&m->brief_mu);
}
