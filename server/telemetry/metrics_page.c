/* Writes the metrics page in Prometheus' text format or OpenMetrics'. Slipway's own metric families
 * come first, with histograms in seconds. TensorFlow Serving's families (metrics_serving.c) follow,
 * with histograms in microseconds. */
#include "server/telemetry/metrics_page.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/machine.h"
#include "server/base/precision.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_cells.h"
#include "server/telemetry/figures.h"
#include "server/telemetry/metrics_gpus.h"
#include "server/telemetry/metrics_serving.h"
#include "server/telemetry/metrics_text.h"
#include "server/batching/scheduler.h"
#include "server/tracing/tracer.h"
#include "server/versions/manager.h"

struct page {
    struct srv_server *server;
    struct srv_metrics *m;
    struct srv_text text;
    struct rt_bytes *out;
    struct rt_bytes labels;
    int first[SRV_MAX_IO_LOOPS]; /* set by srv_metrics_entrypoints */
};

static const char *labels_of(const struct page *p)
{
    return srv_text_labels(&p->labels, p->out);
}

static void times(struct page *p, const char *name, const struct srv_times *t,
                  const struct srv_exemplar *exemplars)
{
    srv_text_histogram(&p->text, name, labels_of(p), &srv_scale_time, 1e-6, t->n,
                       (double)srv_count_of(&t->sum_ns) / 1e3, exemplars);
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
    srv_text_label(&p->labels, false, "signature", s < v->n_signatures ? v->signatures[s] : "");
    srv_text_label(&p->labels, false, "api", srv_api_name((enum srv_api)api));
    srv_text_label(&p->labels, false, "entrypoint", srv_metrics_entrypoint(p->server, io_loop));
}

static void requests_of_version(struct page *p, const struct srv_version_metrics *v)
{
    for (int io_loop = 0; io_loop < p->m->n_io_loops; io_loop++)
        for (int s = 0; p->first[io_loop] == io_loop && s <= v->n_signatures; s++) {
            struct srv_request_cells sum = {0};
            if (!srv_metrics_add_requests(p->m, p->first, v, s, io_loop, &sum))
                continue;
            for (int api = 0; api < SRV_N_JOB_APIS; api++)
                for (int c = 0; c < SRV_N_CODES; c++) {
                    if (!srv_count_of(&sum.codes[api][c]))
                        continue;
                    request_labels(p, v, s, api, io_loop);
                    srv_text_label(&p->labels, false, "code", rt_status_name((enum rt_status)c));
                    rt_bytes_addf(p->out, "slipway_requests_total{%s} %" PRIu64 "\n", labels_of(p),
                                  srv_count_of(&sum.codes[api][c]));
                }
        }
}

static void unmade_of_model(struct page *p, const struct srv_model_metrics *model)
{
    for (int io_loop = 0; io_loop < p->m->n_io_loops; io_loop++)
        for (int api = 0; p->first[io_loop] == io_loop && api < SRV_N_APIS; api++)
            for (int c = 0; c < SRV_N_CODES; c++) {
                uint64_t n = 0;
                for (int k = io_loop; k < p->m->n_io_loops; k++)
                    if (p->first[k] == io_loop)
                        n += srv_count_of(&model->io_loops[k].unversioned[api][c]);
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
        for (int s = 0; p->first[io_loop] == io_loop && s <= v->n_signatures; s++) {
            struct srv_request_cells sum = {0};
            if (!srv_metrics_add_requests(p->m, p->first, v, s, io_loop, &sum))
                continue;
            for (int api = 0; api < SRV_N_JOB_APIS; api++) {
                if (!srv_times_any(&sum.latency[api]))
                    continue;
                request_labels(p, v, s, api, io_loop);
                const struct srv_request_cells *cells = srv_metrics_cells(v, s);
                struct srv_exemplar exemplars[SRV_N_TIMES] = {0};
                for (int k = io_loop; k < p->m->n_io_loops; k++)
                    if (p->first[k] == io_loop)
                        srv_exemplars_add(exemplars, SRV_N_TIMES, &cells[k].exemplars[api]);
                times(p, "slipway_request_duration_seconds", &sum.latency[api], exemplars);
            }
        }
}

static void each_version(struct page *p,
                         void (*write)(struct page *p, const struct srv_version_metrics *v))
{
    for (int i = 0; i < p->m->n_models; i++) {
        const struct srv_link *head = &p->m->models[i]->versions;
        for (const struct srv_link *at = head->next; at != head; at = at->next)
            write(p, (const struct srv_version_metrics *)(const void *)at);
    }
}

static void own_requests(struct page *p)
{
    srv_text_family(&p->text, "slipway_requests_total", "counter",
                    "Requests answered; without a version: those refused before one was found, and "
                    "requests other than inferences.");
    each_version(p, requests_of_version);
    for (int i = 0; i < p->m->n_models; i++)
        unmade_of_model(p, p->m->models[i]);
    unmade_of_model(p, p->m->unknown);
    srv_text_family(&p->text, "slipway_request_duration_seconds", "histogram",
                    "From the first byte of a request to its answer, of those answered OK.");
    each_version(p, latency_of_version);
}

static void version_labels(struct page *p, const struct srv_version_metrics *v)
{
    start_labels(p, v->model->name);
    srv_text_label_int(&p->labels, "version", v->version);
}

static void queued_of_version(struct page *p, const struct srv_version_metrics *v)
{
    struct srv_exemplar exemplars[SRV_N_TIMES] = {0};
    struct srv_times sum = {0};

    for (int w = 0; w < p->m->n_workers + p->m->n_io_loops; w++) {
        srv_times_add(&sum, &v->runs[w].queue);
        srv_exemplars_add(exemplars, SRV_N_TIMES, &v->runs[w].queue_exemplars);
    }
    version_labels(p, v);
    times(p, "slipway_queue_duration_seconds", &sum, exemplars);
}

static void runs_of_version(struct page *p, const struct srv_version_metrics *v)
{
    struct srv_exemplar exemplars[SRV_N_TIMES] = {0};
    struct srv_times sum = {0};

    for (int w = 0; w < p->m->n_workers + p->m->n_io_loops; w++) {
        srv_times_add(&sum, &v->runs[w].run);
        srv_exemplars_add(exemplars, SRV_N_TIMES, &v->runs[w].run_exemplars);
    }
    version_labels(p, v);
    times(p, "slipway_run_duration_seconds", &sum, exemplars);
}

static void rows_of_version(struct page *p, const struct srv_version_metrics *v)
{
    _Atomic uint64_t sizes[SRV_N_SIZES] = {0};
    uint64_t rows = 0;

    for (int w = 0; w < p->m->n_workers + p->m->n_io_loops; w++) {
        for (int i = 0; i < SRV_N_SIZES; i++)
            srv_count_add(&sizes[i], srv_count_of(&v->runs[w].sizes[i]));
        rows += srv_count_of(&v->runs[w].rows);
    }
    version_labels(p, v);
    srv_text_histogram(&p->text, "slipway_batch_rows", labels_of(p), &srv_scale_rows, 1, sizes,
                       (double)rows, NULL);
}

static void own_runs(struct page *p)
{
    srv_text_family(&p->text, "slipway_queue_duration_seconds", "histogram",
                    "Time that a request waited for a worker.");
    each_version(p, queued_of_version);
    srv_text_family(&p->text, "slipway_run_duration_seconds", "histogram",
                    "Time that a batch ran.");
    each_version(p, runs_of_version);
    srv_text_family(&p->text, "slipway_batch_rows", "histogram", "Rows of the batches that ran.");
    each_version(p, rows_of_version);
}

static void loads(struct page *p)
{
    srv_text_family(&p->text, "slipway_model_loads_total", "counter",
                    "Versions that were loaded, or failed.");
    for (int i = 0; i < p->m->n_models; i++) {
        const struct srv_model_metrics *model = p->m->models[i];
        start_labels(p, model->name);
        rt_bytes_addf(p->out,
                      "slipway_model_loads_total{%s,result=\"ok\"} %" PRIu64
                      "\nslipway_model_loads_total{%s,result=\"failed\"} %" PRIu64 "\n",
                      labels_of(p), srv_count_of(&model->loads_ok), labels_of(p),
                      srv_count_of(&model->loads_failed));
    }
    srv_text_family(&p->text, "slipway_model_load_duration_seconds", "histogram",
                    "Time that loading took.");
    for (int i = 0; i < p->m->n_models; i++) {
        start_labels(p, p->m->models[i]->name);
        times(p, "slipway_model_load_duration_seconds", &p->m->models[i]->load, NULL);
    }
}

static void events(struct page *p)
{
    srv_text_family(&p->text, "slipway_events_total", "counter", "Things that happen rarely.");
    rt_mutex_lock(&p->m->brief_mu);
    for (size_t i = 0; i < p->m->events.n; i++) {
        const struct rt_map_entry *e = &p->m->events.entry[i];
        if (!e->key)
            continue;
        srv_text_begin_labels(&p->labels);
        srv_text_label(&p->labels, true, "event", e->key);
        rt_bytes_addf(p->out, "slipway_events_total{%s} %" PRIu64 "\n", labels_of(p),
                      *(const uint64_t *)e->value);
    }
    rt_mutex_unlock(&p->m->brief_mu);
}

static void states(struct page *p)
{
    struct rt_arena *arena = rt_arena_new(64 << 20);
    const char *const *models;
    int n_models = 0;

    srv_text_family(
        &p->text, "slipway_model_state", "gauge",
        "1 for the state that a version is in: START, LOADING, AVAILABLE, UNLOADING, END; NONE: "
        "the model has no version.");
    if (!arena || (p->server->manager &&
                   srv_status_models(p->server->manager, false, arena, &models, &n_models))) {
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

static int64_t of_version(const struct srv_figures *f, enum of_version what)
{
    switch (what) {
    case QUEUED:
        return f->n_queued;
    case WEIGHT_BYTES:
        return f->weight_bytes;
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

static void versions(struct page *p, const char *name, const char *help,
                     const struct srv_all_figures *all, enum of_version what)
{
    srv_text_family(&p->text, name, "gauge", help);
    for (int i = 0; i < all->n; i++) {
        start_labels(p, all->of[i].model);
        srv_text_label_int(&p->labels, "version", all->of[i].version);
        rt_bytes_addf(p->out, "%s{%s} %" PRId64 "\n", name, labels_of(p),
                      of_version(&all->of[i], what));
    }
}

/* Writes the labels of a version and of its GPU k. */
static void gpu_labels(struct page *p, const struct srv_figures *f, int k)
{
    char index[12];
    snprintf(index, sizeof index, "%d", f->gpus.device[k]->index);
    start_labels(p, f->model);
    srv_text_label_int(&p->labels, "version", f->version);
    srv_text_label(&p->labels, false, "gpu", index);
}

static void versions_gpus(struct page *p, const struct srv_all_figures *all)
{
    srv_text_family(&p->text, "slipway_model_gpu_info", "gauge",
                    "The GPUs of a version, and the precision that is set for it.");
    for (int i = 0; i < all->n; i++)
        for (int k = 0; k < all->of[i].gpus.n; k++) {
            gpu_labels(p, &all->of[i], k);
            srv_text_label(&p->labels, false, "precision",
                           srv_gpu_precision(all->of[i].gpu_full_precision));
            rt_bytes_addf(p->out, "slipway_model_gpu_info{%s} 1\n", labels_of(p));
        }
    srv_text_family(&p->text, "slipway_model_gpu_bytes", "gauge",
                    "Bytes of a version's constants in the memory of a GPU.");
    for (int i = 0; i < all->n; i++)
        for (int k = 0; k < all->of[i].gpus.n; k++) {
            gpu_labels(p, &all->of[i], k);
            rt_bytes_addf(p->out, "slipway_model_gpu_bytes{%s} %" PRId64 "\n", labels_of(p),
                          all->of[i].stats.accelerator_bytes[k]);
        }
}

static void gauge(struct page *p, const char *name, const char *help, int64_t value)
{
    srv_text_family(&p->text, name, "gauge", help);
    rt_bytes_addf(p->out, "%s %" PRId64 "\n", name, value);
}

static void versions_gauges(struct page *p)
{
    struct srv_all_figures all;

    srv_figures_read(p->server, false, INT_MAX, &all);
    if (all.no_memory)
        /* If memory runs out, the page fails, because an empty list would mean no versions. */
        rt_bytes_no_memory(p->out);
    gauge(p, "slipway_models_loaded", "Models of which a version answers.", all.n_models);
    gauge(p, "slipway_versions_loaded", "Versions that answer.", all.n);
    versions(p, "slipway_queue_requests", "Requests that wait for a worker.", &all, QUEUED);
    versions(p, "slipway_model_weight_bytes",
             "Bytes of a version's weights in its files, and 24 more for each string.", &all,
             WEIGHT_BYTES);
    versions(p, "slipway_model_packed_bytes",
             "Bytes of a version's constants in the forms that kernels read.", &all, PACKED_BYTES);
    versions(p, "slipway_model_specialisations",
             "Compiled specialisations of a version, one for each segment of a plan or loop body "
             "and each set of shapes; at most 256.",
             &all, SPECIALISATIONS);
    versions(p, "slipway_model_specialisation_bytes",
             "Bytes of a version's specialisations, as far as they are known.", &all,
             SPECIALISATION_BYTES);
    versions(p, "slipway_model_layouts",
             "The name of slipway_model_specialisations until release 0.2; gone after it.", &all,
             SPECIALISATIONS);
    versions(p, "slipway_model_layout_bytes",
             "The name of slipway_model_specialisation_bytes until release 0.2; gone after it.",
             &all, SPECIALISATION_BYTES);
    versions(p, "slipway_model_idle_bytes",
             "Bytes that a version's runs left for the next ones, of --run_memory_idle_bytes.",
             &all, IDLE_BYTES);
    versions(
        p, "slipway_model_state_bytes",
        "Bytes that a version's tables and tokenizers hold, and its variables but for weights in "
        "files; what requests added of them is bounded by --state_memory_limit_bytes.",
        &all, STATE_BYTES);
    if (p->server->gpus.n)
        versions_gpus(p, &all);
    srv_figures_clear(&all);
}

static void traces(struct page *p)
{
    static const char name[] = "slipway_trace_spans_dropped_total";
    struct srv_exporter_counts n;

    srv_tracer_count(p->server->tracer, &n);
    srv_text_family(&p->text, "slipway_trace_spans_exported_total", "counter",
                    "Spans that the OpenTelemetry collector has taken.");
    rt_bytes_addf(p->out, "slipway_trace_spans_exported_total %" PRIu64 "\n", n.exported);
    srv_text_family(&p->text, name, "counter", "Spans that were not exported, by reason.");
    rt_bytes_addf(p->out, "%s{reason=\"queue_full\"} %" PRIu64 "\n", name, n.queue_full);
    rt_bytes_addf(p->out, "%s{reason=\"failed\"} %" PRIu64 "\n", name, n.failed);
    rt_bytes_addf(p->out, "%s{reason=\"rejected\"} %" PRIu64 "\n", name, n.rejected);
}

static void gauges(struct page *p)
{
    struct srv_server *s = p->server;

    gauge(p, "slipway_ready", "1: ready to serve and not draining.", srv_is_ready(s->manager));
    gauge(p, "slipway_bytes_in_flight",
          "Bytes that requests hold: bodies, tensors, REST's answers.",
          atomic_load(&s->in_flight.held));
    gauge(p, "slipway_jobs", "Requests queued and running.",
          s->scheduler ? srv_scheduler_jobs(s->scheduler) : 0);
    srv_text_family(&p->text, "slipway_requests_in_flight", "gauge",
                    "Requests read and not answered yet.");
    rt_bytes_addf(p->out,
                  "slipway_requests_in_flight{entrypoint=\"REST\"} %d\n"
                  "slipway_requests_in_flight{entrypoint=\"GRPC\"} %d\n",
                  atomic_load(&s->rest_requests), atomic_load(&s->grpc_requests));
    versions_gauges(p);
    if (s->tracer)
        traces(p);
    gauge(p, "process_resident_memory_bytes", "Resident memory.", rt_machine_resident());
    gauge(p, "process_start_time_seconds", "Start of the process since 1970.", p->m->started_s);
    struct timespec cpu = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    srv_text_family(&p->text, "process_cpu_seconds_total", "counter", "Processor time used.");
    rt_bytes_addf(p->out, "process_cpu_seconds_total %lld.%06ld\n", (long long)cpu.tv_sec,
                  cpu.tv_nsec / 1000);
    srv_text_family(&p->text, "slipway_build_info", "gauge", "The version of this server.");
    rt_bytes_adds(p->out, "slipway_build_info{version=\"" SLIPWAY_VERSION "\"} 1\n");
}

void srv_metrics_page(struct srv_server *server, enum srv_text_format format, struct rt_bytes *out)
{
    struct page p = {.server = server, .m = server->metrics, .text = {out, format}, .out = out};

    rt_bytes_init(out, p.m->max_page);
    rt_bytes_init(&p.labels, 64 << 10);
    srv_metrics_entrypoints(server, p.first);
    srv_metrics_forget_gone(p.m, rt_now_ns());
    gauges(&p);
    srv_metrics_gpus(server, &p.text);
    states(&p);
    rt_mutex_lock(&p.m->mu);
    own_requests(&p);
    own_runs(&p);
    loads(&p);
    events(&p);
    srv_metrics_serving(server, &p.text);
    rt_mutex_unlock(&p.m->mu);
    if (format == SRV_TEXT_OPENMETRICS)
        rt_bytes_adds(out, "# EOF\n");
    rt_bytes_clear(&p.labels);
}

enum rt_status srv_metrics_page_fail(const struct rt_bytes *page, struct rt_error *err)
{
    return rt_bytes_fail(page, "the metrics page", err, RT_RESOURCE_EXHAUSTED,
                         "the metrics page has more than %zu bytes", page->limit);
}
