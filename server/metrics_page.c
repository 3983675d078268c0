/* The Prometheus text page. Own names first, then those of TensorFlow Serving that dashboards use;
 * its histograms are in microseconds, ours in seconds. */
#include <inttypes.h>
#include <math.h>

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/machine.h"
#include "server/grpc.h"
#include "server/metrics.h"
#include "server/metrics_cells.h"
#include "server/rest.h"
#include "server/scheduler.h"
#include "server/status.h"

static const char *const api_names[SRV_N_APIS] = {"predict",         "classify",    "regress",
                                                  "multi_inference", "session_run", "metadata",
                                                  "status",          "other"};
static const char *const tfs_grpc_names[SRV_N_JOB_APIS] = {"Predict", "Classify", "Regress",
                                                           "MultiInference", "SessionRun"};

static void family(struct rt_bytes *out, const char *name, const char *type, const char *help)
{
    rt_bytes_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* key="value" with what the format wants escaped; a comma before all but the first. */
static void label(struct rt_bytes *out, bool first, const char *key, const char *value)
{
    rt_bytes_addf(out, "%s%s=\"", first ? "" : ",", key);
    for (const char *p = value; *p; p++) {
        if (*p == '\n') {
            rt_bytes_adds(out, "\\n");
            continue;
        }
        if (*p == '"' || *p == '\\')
            rt_bytes_addc(out, '\\');
        rt_bytes_addc(out, *p);
    }
    rt_bytes_addc(out, '"');
}

static void label_int(struct rt_bytes *out, const char *key, int64_t value)
{
    rt_bytes_addf(out, ",%s=\"%" PRId64 "\"", key, value);
}

static double bound_of(int i)
{
    return 10 * pow(1.8, i);
}

/* `unit`: how many of the page's unit a microsecond is. `labels` without braces. */
static void times(struct rt_bytes *out, const char *name, const char *labels,
                  const struct srv_times *t, double unit)
{
    const char *comma = *labels ? "," : "";
    uint64_t n = 0;

    for (int i = 0; i < SRV_N_TIMES; i++) {
        n += srv_count_of(&t->n[i]);
        if (i < SRV_N_TIMES - 1)
            rt_bytes_addf(out, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, labels, comma,
                          bound_of(i) * unit, n);
        else
            rt_bytes_addf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, n);
    }
    rt_bytes_addf(out, "%s_sum{%s} %.9g\n%s_count{%s} %" PRIu64 "\n", name, labels,
                  (double)srv_count_of(&t->sum_ns) / 1e3 * unit, name, labels, n);
}

static void add_times(struct srv_times *to, const struct srv_times *from)
{
    for (int i = 0; i < SRV_N_TIMES; i++)
        srv_count_add(&to->n[i], srv_count_of(&from->n[i]));
    srv_count_add(&to->sum_ns, srv_count_of(&from->sum_ns));
}

static bool any(const struct srv_times *t)
{
    for (int i = 0; i < SRV_N_TIMES; i++)
        if (srv_count_of(&t->n[i]))
            return true;
    return false;
}

struct page {
    struct srv_server *server;
    struct srv_metrics *m;
    struct rt_bytes *out;
    struct rt_bytes labels; /* of the sample being written */
};

static const char *entrypoint_of(const struct page *p, int net)
{
    return p->server->nets[net] ? p->server->nets[net]->entrypoint : "";
}

/* Network threads of one entrypoint are summed: the first of them stands for all. */
static bool is_first(const struct page *p, int net)
{
    for (int i = 0; i < net; i++)
        if (strcmp(entrypoint_of(p, i), entrypoint_of(p, net)) == 0)
            return false;
    return true;
}

static bool same_entrypoint(const struct page *p, int a, int b)
{
    return strcmp(entrypoint_of(p, a), entrypoint_of(p, b)) == 0;
}

static const struct srv_request_cells *cells_of(const struct srv_version_metrics *v, int net, int s)
{
    return &v->requests[net * (v->n_signatures + 1) + s];
}

static void start_labels(struct page *p, const char *model)
{
    p->labels.n = 0;
    label(&p->labels, true, "model", model);
}

static void request_labels(struct page *p, const struct srv_version_metrics *v, int s, int api,
                           int net)
{
    start_labels(p, v->model->name);
    label_int(&p->labels, "version", v->version);
    label(&p->labels, false, "signature", v->signatures[s]);
    label(&p->labels, false, "api", api_names[api]);
    label(&p->labels, false, "entrypoint", entrypoint_of(p, net));
}

static void requests_of_version(struct page *p, const struct srv_version_metrics *v)
{
    for (int net = 0; net < p->m->n_nets; net++)
        for (int s = 0; is_first(p, net) && s <= v->n_signatures; s++)
            for (int api = 0; api < SRV_N_JOB_APIS; api++)
                for (int c = 0; c < SRV_N_CODES; c++) {
                    uint64_t n = 0;
                    for (int k = net; k < p->m->n_nets; k++)
                        if (same_entrypoint(p, k, net))
                            n += srv_count_of(&cells_of(v, k, s)->codes[api][c]);
                    if (!n)
                        continue;
                    request_labels(p, v, s, api, net);
                    label(&p->labels, false, "code", rt_status_name((enum rt_status)c));
                    rt_bytes_addf(p->out, "slipway_requests_total{%s} %" PRIu64 "\n", p->labels.p,
                                  n);
                }
}

static void unmade_of_model(struct page *p, const struct srv_model_metrics *model)
{
    for (int net = 0; net < p->m->n_nets; net++)
        for (int api = 0; is_first(p, net) && api < SRV_N_APIS; api++)
            for (int c = 0; c < SRV_N_CODES; c++) {
                uint64_t n = 0;
                for (int k = net; k < p->m->n_nets; k++)
                    if (same_entrypoint(p, k, net))
                        n += srv_count_of(&model->unmade[k][api][c]);
                if (!n)
                    continue;
                start_labels(p, model->name);
                rt_bytes_adds(&p->labels, ",version=\"\",signature=\"\"");
                label(&p->labels, false, "api", api_names[api]);
                label(&p->labels, false, "entrypoint", entrypoint_of(p, net));
                label(&p->labels, false, "code", rt_status_name((enum rt_status)c));
                rt_bytes_addf(p->out, "slipway_requests_total{%s} %" PRIu64 "\n", p->labels.p, n);
            }
}

static void latency_of_version(struct page *p, const struct srv_version_metrics *v)
{
    for (int net = 0; net < p->m->n_nets; net++)
        for (int s = 0; is_first(p, net) && s <= v->n_signatures; s++)
            for (int api = 0; api < SRV_N_JOB_APIS; api++) {
                struct srv_times sum = {0};
                for (int k = net; k < p->m->n_nets; k++)
                    if (same_entrypoint(p, k, net))
                        add_times(&sum, &cells_of(v, k, s)->latency[api]);
                if (!any(&sum))
                    continue;
                request_labels(p, v, s, api, net);
                times(p->out, "slipway_request_duration_seconds", p->labels.p, &sum, 1e-6);
            }
}

static void own_requests(struct page *p)
{
    family(p->out, "slipway_requests_total", "counter",
           "Requests answered; without a version: those that never became a run.");
    for (const struct srv_version_metrics *v = p->m->versions; v; v = v->next)
        requests_of_version(p, v);
    for (const struct srv_model_metrics *model = p->m->models; model; model = model->next)
        unmade_of_model(p, model);
    unmade_of_model(p, &p->m->unknown);
    family(p->out, "slipway_request_duration_seconds", "histogram",
           "From the first byte of a request to its answer, of those answered OK.");
    for (const struct srv_version_metrics *v = p->m->versions; v; v = v->next)
        latency_of_version(p, v);
}

static void own_runs(struct page *p)
{
    static const char *const names[2] = {"slipway_queue_duration_seconds",
                                         "slipway_run_duration_seconds"};
    int n = p->m->n_workers + p->m->n_nets;

    for (int which = 0; which < 2; which++) {
        family(p->out, names[which], "histogram",
               which ? "Time that a batch ran." : "Time that a request waited for a worker.");
        for (const struct srv_version_metrics *v = p->m->versions; v; v = v->next) {
            struct srv_times sum = {0};
            for (int w = 0; w < n; w++)
                add_times(&sum, which ? &v->runs[w].run : &v->runs[w].queue);
            start_labels(p, v->model->name);
            label_int(&p->labels, "version", v->version);
            times(p->out, names[which], p->labels.p, &sum, 1e-6);
        }
    }
    family(p->out, "slipway_batch_rows", "histogram", "Rows of the batches that ran.");
    for (const struct srv_version_metrics *v = p->m->versions; v; v = v->next) {
        uint64_t total = 0, rows = 0;
        start_labels(p, v->model->name);
        label_int(&p->labels, "version", v->version);
        for (int i = 0; i < SRV_N_SIZES; i++) {
            for (int w = 0; w < n; w++)
                total += srv_count_of(&v->runs[w].sizes[i]);
            if (i < SRV_N_SIZES - 1)
                rt_bytes_addf(p->out, "slipway_batch_rows_bucket{%s,le=\"%d\"} %" PRIu64 "\n",
                              p->labels.p, 1 << i, total);
            else
                rt_bytes_addf(p->out, "slipway_batch_rows_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n",
                              p->labels.p, total);
        }
        for (int w = 0; w < n; w++)
            rows += srv_count_of(&v->runs[w].rows);
        rt_bytes_addf(p->out,
                      "slipway_batch_rows_sum{%s} %" PRIu64
                      "\nslipway_batch_rows_count{%s} %" PRIu64 "\n",
                      p->labels.p, rows, p->labels.p, total);
    }
}

static void loads(struct page *p)
{
    family(p->out, "slipway_model_loads_total", "counter", "Versions that were loaded, or failed.");
    for (const struct srv_model_metrics *model = p->m->models; model; model = model->next) {
        start_labels(p, model->name);
        rt_bytes_addf(p->out,
                      "slipway_model_loads_total{%s,result=\"ok\"} %" PRIu64
                      "\nslipway_model_loads_total{%s,result=\"failed\"} %" PRIu64 "\n",
                      p->labels.p, srv_count_of(&model->loads_ok), p->labels.p,
                      srv_count_of(&model->loads_failed));
    }
    family(p->out, "slipway_model_load_duration_seconds", "histogram", "Time that loading took.");
    for (const struct srv_model_metrics *model = p->m->models; model; model = model->next) {
        start_labels(p, model->name);
        times(p->out, "slipway_model_load_duration_seconds", p->labels.p, &model->load, 1e-6);
    }
}

static void events(struct page *p)
{
    family(p->out, "slipway_events_total", "counter", "Things that happen rarely.");
    for (size_t i = 0; i < p->m->events.n; i++) {
        const struct rt_map_entry *e = &p->m->events.entry[i];
        if (!e->key)
            continue;
        p->labels.n = 0;
        label(&p->labels, true, "event", e->key);
        rt_bytes_addf(p->out, "slipway_events_total{%s} %" PRIu64 "\n", p->labels.p,
                      *(const uint64_t *)e->value);
    }
}

static void states(struct page *p)
{
    struct rt_arena *arena = rt_arena_new(64 << 20);
    const char *const *models;
    int n_models = 0;

    family(p->out, "slipway_model_state", "gauge",
           "1 for the state that a version is in: START, LOADING, AVAILABLE, UNLOADING, END.");
    if (!arena || !p->server->manager ||
        srv_status_models(p->server->manager, arena, &models, &n_models))
        n_models = 0;
    for (int i = 0; i < n_models; i++) {
        struct srv_version_status *v;
        int n = 0;
        if (srv_status_of(p->server->manager, rt_span_str(models[i]), false, 0, arena, &v, &n,
                          NULL))
            continue;
        for (int k = 0; k < n; k++) {
            start_labels(p, models[i]);
            label_int(&p->labels, "version", v[k].version);
            label(&p->labels, false, "state", srv_state_name(v[k].state));
            rt_bytes_addf(p->out, "slipway_model_state{%s} 1\n", p->labels.p);
        }
    }
    rt_arena_free(arena);
}

static void gauge(struct page *p, const char *name, const char *help, int64_t value)
{
    family(p->out, name, "gauge", help);
    rt_bytes_addf(p->out, "%s %" PRId64 "\n", name, value);
}

static void gauges(struct page *p)
{
    struct srv_server *s = p->server;

    gauge(p, "slipway_ready", "1: ready to serve and not draining.",
          s->manager && srv_is_ready(s->manager) && !atomic_load(&s->draining));
    gauge(p, "slipway_bytes_in_flight", "Bytes of request bodies held.",
          atomic_load(&s->bytes_in_flight));
    gauge(p, "slipway_jobs", "Requests queued and running.",
          s->scheduler ? srv_scheduler_jobs(s->scheduler) : 0);
    family(p->out, "slipway_requests_in_flight", "gauge", "Requests read and not answered yet.");
    rt_bytes_addf(p->out,
                  "slipway_requests_in_flight{entrypoint=\"REST\"} %d\n"
                  "slipway_requests_in_flight{entrypoint=\"GRPC\"} %d\n",
                  s->rest ? srv_rest_in_flight(s->rest) : 0,
                  s->grpc ? srv_grpc_in_flight(s->grpc) : 0);
    gauge(p, "process_resident_memory_bytes", "Resident memory.", rt_machine_resident());
    family(p->out, "slipway_build_info", "gauge", "The version of this server.");
    rt_bytes_adds(p->out, "slipway_build_info{version=\"" SLIPWAY_VERSION "\"} 1\n");
}

/* ---- TensorFlow Serving's names ---- */

static uint64_t made(const struct page *p, const struct srv_model_metrics *model, int net, int api,
                     int c)
{
    uint64_t n = srv_count_of(&model->gone[net].codes[api][c]);
    for (const struct srv_version_metrics *v = p->m->versions; v; v = v->next)
        for (int s = 0; v->model == model && s <= v->n_signatures; s++)
            n += srv_count_of(&cells_of(v, net, s)->codes[api][c]);
    return n;
}

static void tfs_count(struct page *p, const struct srv_model_metrics *model)
{
    for (int c = 0; c < SRV_N_CODES; c++) {
        uint64_t n = 0;
        for (int net = 0; net < p->m->n_nets; net++) {
            bool rest = strcmp(entrypoint_of(p, net), "REST") == 0;
            for (int api = 0; api < SRV_N_APIS; api++) {
                if (api < SRV_N_JOB_APIS)
                    n += made(p, model, net, api, c);
                if (api < SRV_N_JOB_APIS || rest)
                    n += srv_count_of(&model->unmade[net][api][c]);
            }
        }
        if (!n)
            continue;
        p->labels.n = 0;
        label(&p->labels, true, "model_name", model->name);
        label(&p->labels, false, "status", rt_status_name((enum rt_status)c));
        rt_bytes_addf(p->out, ":tensorflow:serving:request_count{%s} %" PRIu64 "\n", p->labels.p,
                      n);
    }
}

static void tfs_latency(struct page *p, const struct srv_model_metrics *model)
{
    for (int net = 0; net < p->m->n_nets; net++) {
        const char *entrypoint = entrypoint_of(p, net);
        for (int api = 0; is_first(p, net) && api < SRV_N_JOB_APIS; api++) {
            struct srv_times sum = {0};
            for (int k = net; k < p->m->n_nets; k++) {
                if (!same_entrypoint(p, k, net))
                    continue;
                add_times(&sum, &model->gone[k].latency[api]);
                for (const struct srv_version_metrics *v = p->m->versions; v; v = v->next)
                    for (int s = 0; v->model == model && s <= v->n_signatures; s++)
                        add_times(&sum, &cells_of(v, k, s)->latency[api]);
            }
            if (!any(&sum))
                continue;
            p->labels.n = 0;
            label(&p->labels, true, "model_name", model->name);
            label(&p->labels, false, "API",
                  strcmp(entrypoint, "GRPC") == 0 ? tfs_grpc_names[api] : api_names[api]);
            label(&p->labels, false, "entrypoint", entrypoint);
            times(p->out, ":tensorflow:serving:request_latency", p->labels.p, &sum, 1);
        }
    }
}

static void tfs_runtime(struct page *p, const struct srv_model_metrics *model)
{
    struct srv_times sum = {0};

    add_times(&sum, &model->gone_runs.run);
    for (const struct srv_version_metrics *v = p->m->versions; v; v = v->next)
        for (int w = 0; v->model == model && w < p->m->n_workers + p->m->n_nets; w++)
            add_times(&sum, &v->runs[w].run);
    if (!any(&sum))
        return;
    p->labels.n = 0;
    label(&p->labels, true, "model_name", model->name);
    rt_bytes_adds(&p->labels, ",API=\"Predict\",runtime=\"TF1\"");
    times(p->out, ":tensorflow:serving:runtime_latency", p->labels.p, &sum, 1);
}

static void tfs_names(struct page *p)
{
    rt_bytes_adds(p->out, "# TYPE :tensorflow:serving:request_count counter\n");
    for (const struct srv_model_metrics *model = p->m->models; model; model = model->next)
        tfs_count(p, model);
    tfs_count(p, &p->m->unknown);
    rt_bytes_adds(p->out, "# TYPE :tensorflow:serving:request_latency histogram\n");
    for (const struct srv_model_metrics *model = p->m->models; model; model = model->next)
        tfs_latency(p, model);
    rt_bytes_adds(p->out, "# TYPE :tensorflow:serving:runtime_latency histogram\n");
    for (const struct srv_model_metrics *model = p->m->models; model; model = model->next)
        tfs_runtime(p, model);
}

void srv_metrics_page(struct srv_server *server, struct rt_bytes *out)
{
    struct page p = {.server = server, .m = server->metrics, .out = out};

    rt_bytes_init(&p.labels, 64 << 10);
    gauges(&p);
    states(&p);
    rt_mutex_lock(&p.m->mu);
    own_requests(&p);
    own_runs(&p);
    loads(&p);
    events(&p);
    tfs_names(&p);
    rt_mutex_unlock(&p.m->mu);
    rt_bytes_clear(&p.labels);
}
