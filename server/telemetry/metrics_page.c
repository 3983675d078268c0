/* Writes the metrics page in Prometheus' text format. Slipway's own metric families come first
 * and have histograms in seconds; those of TensorFlow Serving (metrics_serving.c) follow and
 * have histograms in microseconds. */
#include "server/telemetry/metrics_page.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/machine.h"
#include "server/metrics/metrics_cells.h"
#include "server/telemetry/metrics_text.h"
#include "server/batching/scheduler.h"
#include "server/versions/status.h"

struct page {
    struct srv_server *server;
    const struct srv_map *map;
    struct srv_metrics *m;
    struct rt_bytes *out;
    struct rt_bytes labels; /* labels of the sample that is being written */
};

static const char *labels_of(const struct page *p)
{
    return srv_text_labels(&p->labels, p->out);
}

/* Writes a histogram of durations in seconds. */
static void times(struct page *p, const char *name, const struct srv_times *t)
{
    srv_text_histogram(p->out, name, labels_of(p), &srv_scale_time, 1e-6, t->n,
                       (double)srv_count_of(&t->sum_ns) / 1e3);
}

static const struct srv_request_cells *cells_of(const struct srv_version_metrics *v, int io_loop,
                                                int s)
{
    return &v->requests[io_loop * (v->n_signatures + 1) + s];
}

static void start_labels(struct page *p, const char *model)
{
    srv_text_begin_labels(&p->labels);
    srv_text_label(&p->labels, true, "model", model);
}

static void request_labels(struct page *p, const struct srv_version_metrics *v, int s, int api,
                           int io_loop)
{
    start_labels(p, v->model->name);
    srv_text_label_int(&p->labels, "version", v->version);
    srv_text_label(&p->labels, false, "signature", v->signatures[s]);
    srv_text_label(&p->labels, false, "api", srv_api_name((enum srv_api)api));
    srv_text_label(&p->labels, false, "entrypoint", srv_metrics_entrypoint(p->server, io_loop));
}

static void requests_of_version(struct page *p, const struct srv_version_metrics *v)
{
    for (int io_loop = 0; io_loop < p->m->n_io_loops; io_loop++)
        for (int s = 0; srv_metrics_is_first(p->server, io_loop) && s <= v->n_signatures; s++)
            for (int api = 0; api < SRV_N_JOB_APIS; api++)
                for (int c = 0; c < SRV_N_CODES; c++) {
                    uint64_t n = 0;
                    for (int k = io_loop; k < p->m->n_io_loops; k++)
                        if (srv_metrics_same_entrypoint(p->server, k, io_loop))
                            n += srv_count_of(&cells_of(v, k, s)->codes[api][c]);
                    if (!n)
                        continue;
                    request_labels(p, v, s, api, io_loop);
                    srv_text_label(&p->labels, false, "code", rt_status_name((enum rt_status)c));
                    rt_bytes_addf(p->out, "slipway_requests_total{%s} %" PRIu64 "\n", labels_of(p),
                                  n);
                }
}

static void unmade_of_model(struct page *p, const struct srv_model_metrics *model)
{
    for (int io_loop = 0; io_loop < p->m->n_io_loops; io_loop++)
        for (int api = 0; srv_metrics_is_first(p->server, io_loop) && api < SRV_N_APIS; api++)
            for (int c = 0; c < SRV_N_CODES; c++) {
                uint64_t n = 0;
                for (int k = io_loop; k < p->m->n_io_loops; k++)
                    if (srv_metrics_same_entrypoint(p->server, k, io_loop))
                        n += srv_count_of(&model->io_loops[k].unmade[api][c]);
                if (!n)
                    continue;
                start_labels(p, model->name);
                rt_bytes_adds(&p->labels, ",version=\"\",signature=\"\"");
                srv_text_label(&p->labels, false, "api", srv_api_name((enum srv_api)api));
                srv_text_label(&p->labels, false, "entrypoint",
                               srv_metrics_entrypoint(p->server, io_loop));
                srv_text_label(&p->labels, false, "code", rt_status_name((enum rt_status)c));
                rt_bytes_addf(p->out, "slipway_requests_total{%s} %" PRIu64 "\n", labels_of(p), n);
            }
}

static void latency_of_version(struct page *p, const struct srv_version_metrics *v)
{
    for (int io_loop = 0; io_loop < p->m->n_io_loops; io_loop++)
        for (int s = 0; srv_metrics_is_first(p->server, io_loop) && s <= v->n_signatures; s++)
            for (int api = 0; api < SRV_N_JOB_APIS; api++) {
                struct srv_times sum = {0};
                for (int k = io_loop; k < p->m->n_io_loops; k++)
                    if (srv_metrics_same_entrypoint(p->server, k, io_loop))
                        srv_times_add(&sum, &cells_of(v, k, s)->latency[api]);
                if (!srv_times_any(&sum))
                    continue;
                request_labels(p, v, s, api, io_loop);
                times(p, "slipway_request_duration_seconds", &sum);
            }
}

static void own_requests(struct page *p)
{
    srv_text_family(p->out, "slipway_requests_total", "counter",
                    "Requests answered; without a version: those that never became a run.");
    for (const struct srv_version_metrics *v = p->m->versions; v; v = v->next)
        requests_of_version(p, v);
    for (const struct srv_model_metrics *model = p->m->models; model; model = model->next)
        unmade_of_model(p, model);
    unmade_of_model(p, &p->m->unknown);
    srv_text_family(p->out, "slipway_request_duration_seconds", "histogram",
                    "From the first byte of a request to its answer, of those answered OK.");
    for (const struct srv_version_metrics *v = p->m->versions; v; v = v->next)
        latency_of_version(p, v);
}

static void own_runs(struct page *p)
{
    static const char *const names[2] = {"slipway_queue_duration_seconds",
                                         "slipway_run_duration_seconds"};
    int n = p->m->n_workers + p->m->n_io_loops;

    for (int which = 0; which < 2; which++) {
        srv_text_family(p->out, names[which], "histogram",
                        which ? "Time that a batch ran."
                              : "Time that a request waited for a worker.");
        for (const struct srv_version_metrics *v = p->m->versions; v; v = v->next) {
            struct srv_times sum = {0};
            for (int w = 0; w < n; w++)
                srv_times_add(&sum, which ? &v->runs[w].run : &v->runs[w].queue);
            start_labels(p, v->model->name);
            srv_text_label_int(&p->labels, "version", v->version);
            times(p, names[which], &sum);
        }
    }
    srv_text_family(p->out, "slipway_batch_rows", "histogram", "Rows of the batches that ran.");
    for (const struct srv_version_metrics *v = p->m->versions; v; v = v->next) {
        uint64_t total = 0, rows = 0;
        start_labels(p, v->model->name);
        srv_text_label_int(&p->labels, "version", v->version);
        for (int i = 0; i < SRV_N_SIZES; i++) {
            for (int w = 0; w < n; w++)
                total += srv_count_of(&v->runs[w].sizes[i]);
            if (i < SRV_N_SIZES - 1)
                rt_bytes_addf(p->out, "slipway_batch_rows_bucket{%s,le=\"%d\"} %" PRIu64 "\n",
                              labels_of(p), 1 << i, total);
            else
                rt_bytes_addf(p->out, "slipway_batch_rows_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n",
                              labels_of(p), total);
        }
        for (int w = 0; w < n; w++)
            rows += srv_count_of(&v->runs[w].rows);
        rt_bytes_addf(p->out,
                      "slipway_batch_rows_sum{%s} %" PRIu64
                      "\nslipway_batch_rows_count{%s} %" PRIu64 "\n",
                      labels_of(p), rows, labels_of(p), total);
    }
}

static void loads(struct page *p)
{
    srv_text_family(p->out, "slipway_model_loads_total", "counter",
                    "Versions that were loaded, or failed.");
    for (const struct srv_model_metrics *model = p->m->models; model; model = model->next) {
        start_labels(p, model->name);
        rt_bytes_addf(p->out,
                      "slipway_model_loads_total{%s,result=\"ok\"} %" PRIu64
                      "\nslipway_model_loads_total{%s,result=\"failed\"} %" PRIu64 "\n",
                      labels_of(p), srv_count_of(&model->loads_ok), labels_of(p),
                      srv_count_of(&model->loads_failed));
    }
    srv_text_family(p->out, "slipway_model_load_duration_seconds", "histogram",
                    "Time that loading took.");
    for (const struct srv_model_metrics *model = p->m->models; model; model = model->next) {
        start_labels(p, model->name);
        times(p, "slipway_model_load_duration_seconds", &model->load);
    }
}

static void events(struct page *p)
{
    srv_text_family(p->out, "slipway_events_total", "counter", "Things that happen rarely.");
    for (size_t i = 0; i < p->m->events.n; i++) {
        const struct rt_map_entry *e = &p->m->events.entry[i];
        if (!e->key)
            continue;
        srv_text_begin_labels(&p->labels);
        srv_text_label(&p->labels, true, "event", e->key);
        rt_bytes_addf(p->out, "slipway_events_total{%s} %" PRIu64 "\n", labels_of(p),
                      *(const uint64_t *)e->value);
    }
}

static void states(struct page *p)
{
    struct rt_arena *arena = rt_arena_new(64 << 20);
    const char *const *models;
    int n_models = 0;

    srv_text_family(
        p->out, "slipway_model_state", "gauge",
        "1 for the state that a version is in: START, LOADING, AVAILABLE, UNLOADING, END; NONE: "
        "the model has no version.");
    if (!arena ||
        (p->server->manager && srv_status_models(p->server->manager, arena, &models, &n_models))) {
        rt_bytes_no_memory(p->out);
        n_models = 0;
    }
    for (int i = 0; i < n_models; i++) {
        struct srv_version_status *v;
        int n = 0;
        enum rt_status st = srv_status_of(p->server->manager, rt_span_str(models[i]), false, 0,
                                          arena, &v, &n, NULL);
        if (st == RT_RESOURCE_EXHAUSTED)
            rt_bytes_no_memory(p->out);
        if (st == RT_NOT_FOUND) {
            start_labels(p, models[i]);
            srv_text_label(&p->labels, false, "version", "");
            srv_text_label(&p->labels, false, "state", "NONE");
            rt_bytes_addf(p->out, "slipway_model_state{%s} 1\n", labels_of(p));
        }
        for (int k = 0; k < n && !st; k++) {
            start_labels(p, models[i]);
            srv_text_label_int(&p->labels, "version", v[k].version);
            srv_text_label(&p->labels, false, "state", srv_state_name(v[k].state));
            rt_bytes_addf(p->out, "slipway_model_state{%s} 1\n", labels_of(p));
        }
    }
    rt_arena_free(arena);
}

enum of_version {
    QUEUED,
    WEIGHT_BYTES,
    PACKED_BYTES,
    SPECIALISATIONS,
    SPECIALISATION_BYTES,
    IDLE_BYTES,
    STATE_BYTES
};

/* Statistics of one version, used by several metric families. They are read once per page, because
 * the session computes them under locks. */
struct figures {
    const char *model;
    const struct srv_version *v;
    struct rt_session_stats stats;
};

static int64_t of_version(const struct figures *f, enum of_version what)
{
    switch (what) {
    case QUEUED:
        return f->v->model_queue ? srv_model_queue_jobs(f->v->model_queue) : 0;
    case WEIGHT_BYTES:
        return f->v->loaded->weight_bytes;
    case PACKED_BYTES:
        return f->stats.packed_bytes;
    case SPECIALISATIONS:
        return f->stats.n_specialisations;
    case SPECIALISATION_BYTES:
        return (int64_t)f->stats.specialisation_bytes;
    case IDLE_BYTES:
        return (int64_t)f->stats.idle_bytes;
    case STATE_BYTES:
        return (int64_t)f->stats.state_bytes;
    }
    return 0;
}

/* Reads the statistics of all versions, in the map's order. Returns NULL if memory runs out. */
static struct figures *figures_of(const struct srv_map *map, int n)
{
    struct figures *all = calloc((size_t)n + 1, sizeof *all), *f = all;
    for (int i = 0; all && map && i < map->n_models; i++)
        for (int k = 0; k < map->models[i].n_versions; k++, f++) {
            f->model = map->models[i].name;
            f->v = map->models[i].versions[k];
            rt_session_stats(f->v->loaded->session, &f->stats);
        }
    return all;
}

static void versions(struct page *p, const char *name, const char *help, const struct figures *all,
                     int n, enum of_version what)
{
    srv_text_family(p->out, name, "gauge", help);
    for (int i = 0; all && i < n; i++) {
        start_labels(p, all[i].model);
        srv_text_label_int(&p->labels, "version", all[i].v->version);
        rt_bytes_addf(p->out, "%s{%s} %" PRId64 "\n", name, labels_of(p),
                      of_version(&all[i], what));
    }
}

static void gauge(struct page *p, const char *name, const char *help, int64_t value)
{
    srv_text_family(p->out, name, "gauge", help);
    rt_bytes_addf(p->out, "%s %" PRId64 "\n", name, value);
}

static void gauges(struct page *p)
{
    struct srv_server *s = p->server;

    gauge(p, "slipway_ready", "1: ready to serve and not draining.",
          s->manager && srv_is_ready(s->manager) && !atomic_load(&s->draining));
    gauge(p, "slipway_bytes_in_flight",
          "Bytes that requests hold: bodies, tensors, REST's answers.",
          atomic_load(&s->in_flight.held));
    gauge(p, "slipway_jobs", "Requests queued and running.",
          s->scheduler ? srv_scheduler_jobs(s->scheduler) : 0);
    srv_text_family(p->out, "slipway_requests_in_flight", "gauge",
                    "Requests read and not answered yet.");
    rt_bytes_addf(p->out,
                  "slipway_requests_in_flight{entrypoint=\"REST\"} %d\n"
                  "slipway_requests_in_flight{entrypoint=\"GRPC\"} %d\n",
                  atomic_load(&s->rest_requests), atomic_load(&s->grpc_requests));
    int n_models = 0, n_versions = 0;
    for (int i = 0; p->map && i < p->map->n_models; i++) {
        n_models += p->map->models[i].n_versions > 0;
        n_versions += p->map->models[i].n_versions;
    }
    gauge(p, "slipway_models_loaded", "Models of which a version answers.", n_models);
    gauge(p, "slipway_versions_loaded", "Versions that answer.", n_versions);
    struct figures *all = figures_of(p->map, n_versions);
    if (!all)
        /* If memory runs out, writing the page fails, because the page would otherwise claim that
         * there are no versions. */
        rt_bytes_no_memory(p->out);
    versions(p, "slipway_queue_requests", "Requests that wait for a worker.", all, n_versions,
             QUEUED);
    versions(p, "slipway_model_weight_bytes",
             "Bytes of a version's weights in its files, and 24 more for each string.", all,
             n_versions, WEIGHT_BYTES);
    versions(p, "slipway_model_packed_bytes",
             "Bytes of a version's constants in the forms that kernels read.", all, n_versions,
             PACKED_BYTES);
    versions(p, "slipway_model_specialisations",
             "Compiled specialisations of a version, one for each segment of a plan or loop body "
             "and each set of shapes; at most 256.",
             all, n_versions, SPECIALISATIONS);
    versions(p, "slipway_model_specialisation_bytes",
             "Bytes of a version's specialisations, as far as they are known.", all, n_versions,
             SPECIALISATION_BYTES);
    versions(p, "slipway_model_layouts",
             "The name of slipway_model_specialisations until release 0.2; gone after it.", all,
             n_versions, SPECIALISATIONS);
    versions(p, "slipway_model_layout_bytes",
             "The name of slipway_model_specialisation_bytes until release 0.2; gone after it.",
             all, n_versions, SPECIALISATION_BYTES);
    versions(p, "slipway_model_idle_bytes",
             "Bytes that a version's runs left for the next ones, of --run_memory_idle_bytes.", all,
             n_versions, IDLE_BYTES);
    versions(p, "slipway_model_state_bytes",
             "Bytes that a version's tables hold, and its variables but for weights in files; what "
             "requests added of them is bounded by --state_memory_limit_bytes.",
             all, n_versions, STATE_BYTES);
    free(all);
    gauge(p, "process_resident_memory_bytes", "Resident memory.", rt_machine_resident());
    gauge(p, "process_start_time_seconds", "Start of the process since 1970.", p->m->started_s);
    struct timespec cpu = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    srv_text_family(p->out, "process_cpu_seconds_total", "counter", "Processor time used.");
    rt_bytes_addf(p->out, "process_cpu_seconds_total %lld.%06ld\n", (long long)cpu.tv_sec,
                  cpu.tv_nsec / 1000);
    srv_text_family(p->out, "slipway_build_info", "gauge", "The version of this server.");
    rt_bytes_adds(p->out, "slipway_build_info{version=\"" SLIPWAY_VERSION "\"} 1\n");
}

void srv_metrics_page(struct srv_server *server, const struct srv_map *map, struct rt_bytes *out)
{
    struct page p = {.server = server, .map = map, .m = server->metrics, .out = out};

    rt_bytes_init(&p.labels, 64 << 10);
    gauges(&p);
    states(&p);
    rt_mutex_lock(&p.m->mu);
    own_requests(&p);
    own_runs(&p);
    loads(&p);
    events(&p);
    srv_metrics_serving(server, out);
    rt_mutex_unlock(&p.m->mu);
    rt_bytes_clear(&p.labels);
}
