#include "server/telemetry/metrics_serving.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "server/metrics/metrics_cells.h"
#include "server/batching/io_loop.h"

struct page {
    const struct srv_server *server;
    struct srv_metrics *m;
    const struct srv_text *text;
    struct rt_bytes *out;
    struct rt_bytes labels;
    int n_threads;
    int first[SRV_MAX_IO_LOOPS]; /* set by srv_metrics_entrypoints */
};

static void start(struct page *p, const char *key, const char *value)
{
    srv_text_begin_labels(&p->labels);
    srv_text_label(&p->labels, true, key, value);
}

static void more(struct page *p, const char *key, const char *value)
{
    srv_text_label(&p->labels, false, key, value);
}

static const char *labels_of(const struct page *p)
{
    return srv_text_labels(&p->labels, p->out);
}

/* Writes a sample of a counter. */
static void sample(struct page *p, const char *name, uint64_t value)
{
    rt_bytes_addf(p->out, "%s%s{%s} %" PRIu64 "\n", name, srv_text_total(p->text, name),
                  labels_of(p), value);
}

static void type(struct page *p, const char *name, const char *kind)
{
    srv_text_family(p->text, name, kind, NULL);
}

static void times(struct page *p, const char *name, const struct srv_times *t)
{
    srv_text_histogram(p->text, name, labels_of(p), &srv_scale_time, 1, t->n,
                       (double)srv_count_of(&t->sum_ns) / 1e3, NULL);
}

static uint64_t add_histogram(struct srv_histogram *to, const struct srv_histogram *from)
{
    uint64_t n = 0;
    for (int i = 0; i < SRV_MAX_BUCKETS; i++) {
        n += srv_count_of(&from->n[i]);
        srv_count_add(&to->n[i], srv_count_of(&from->n[i]));
    }
    srv_count_add(&to->sum, srv_count_of(&from->sum));
    return n;
}

/* ---- by version directory ---- */

static void loads(struct page *p)
{
    static const char *const attempts = ":tensorflow:cc:saved_model:load_attempt_count";
    static const char *const latency = ":tensorflow:cc:saved_model:load_latency";

    type(p, attempts, "counter");
    for (int i = 0; i < SRV_MAX_PATHS && p->m->paths[i]; i++) {
        const struct srv_path_metrics *path = p->m->paths[i];
        for (int failed = 0; failed < 2; failed++) {
            uint64_t n = failed ? path->loads_failed : path->loads_ok;
            start(p, "model_path", path->path);
            more(p, "status", failed ? "fail" : "success");
            if (n)
                sample(p, attempts, n);
        }
    }
    type(p, latency, "counter");
    for (int i = 0; i < SRV_MAX_PATHS && p->m->paths[i]; i++) {
        start(p, "model_path", p->m->paths[i]->path);
        if (p->m->paths[i]->loads_ok)
            sample(p, latency, p->m->paths[i]->load_us);
    }
    type(p, ":tensorflow:cc:saved_model:load_latency_by_stage", "histogram");
}

/* Writes the metric mlmd_map. TensorFlow Serving prints the metric's string values as 0, so only
 * the labels carry information. */
static void mlmd_map(struct page *p)
{
    static const char *const name = ":tensorflow:serving:mlmd_map";

    type(p, name, "gauge");
    for (int i = 0; i < SRV_MAX_PATHS && p->m->paths[i]; i++) {
        const struct srv_path_metrics *path = p->m->paths[i];
        const char *slash = strrchr(path->path, '/');
        if (!path->model)
            continue;
        start(p, "model_name", path->model);
        srv_text_label_int(&p->labels, "version", slash ? strtoll(slash + 1, NULL, 10) : 0);
        rt_bytes_addf(p->out, "%s{%s} 0\n", name, labels_of(p));
    }
}

static void warmups(struct page *p)
{
    static const char *const latency = ":tensorflow:serving:model_warmup_latency";
    static const char *const records = ":tensorflow:serving:model_warmup_records_read";

    for (int which = 0; which < 2; which++) {
        type(p, which ? records : latency, which ? "counter" : "histogram");
        for (int i = 0; i < SRV_MAX_PATHS && p->m->paths[i]; i++) {
            const struct srv_path_metrics *path = p->m->paths[i];
            for (int c = 0; c < SRV_N_CODES; c++) {
                if (!path->warmed[c])
                    continue;
                start(p, "model_path", path->path);
                more(p, "status", rt_status_name((enum rt_status)c));
                if (which)
                    sample(p, records, path->warm_records[c]);
                else
                    times(p, latency, &path->warming[c]);
            }
        }
    }
}

/* ---- for the process ---- */

static void of_threads(struct page *p, const char *name, size_t member,
                       const struct srv_scale *scale, const char *label)
{
    struct srv_histogram sum = {0};
    uint64_t n = 0;

    for (int i = 0; i < p->n_threads; i++)
        n += add_histogram(&sum, (const void *)((const char *)&p->m->threads[i] + member));
    type(p, name, "histogram");
    srv_text_begin_labels(&p->labels);
    if (label)
        srv_text_label(&p->labels, true, label, "");
    if (n)
        srv_text_histogram(p->text, name, labels_of(p), scale, 1, sum.n,
                           (double)srv_count_of(&sum.sum), NULL);
}

static uint64_t n_runs(const struct page *p)
{
    uint64_t n = 0;
    for (int i = 0; i < p->n_threads; i++)
        for (int k = 0; k < SRV_MAX_BUCKETS; k++)
            n += srv_count_of(&p->m->threads[i].runs.n[k]);
    return n;
}

static void count_of_process(struct page *p, const char *name, uint64_t value)
{
    type(p, name, "counter");
    srv_text_begin_labels(&p->labels);
    sample(p, name, value);
}

static void graph(struct page *p)
{
    uint64_t ns = 0;

    for (int i = 0; i < p->n_threads; i++)
        ns += srv_count_of(&p->m->threads[i].run_ns);
    count_of_process(p, ":tensorflow:core:direct_session_runs", n_runs(p));
    type(p, ":tensorflow:core:graph_optimization_usecs", "counter");
    type(p, ":tensorflow:core:graph_pending_queue_length_histogram", "histogram");
    of_threads(p, ":tensorflow:core:graph_run_input_tensor_bytes",
               offsetof(struct srv_thread_cells, in_bytes), &srv_scale_bytes, NULL);
    of_threads(p, ":tensorflow:core:graph_run_output_tensor_bytes",
               offsetof(struct srv_thread_cells, out_bytes), &srv_scale_bytes, NULL);
    count_of_process(p, ":tensorflow:core:graph_run_time_usecs", ns / 1000);
    of_threads(p, ":tensorflow:core:graph_run_time_usecs_histogram",
               offsetof(struct srv_thread_cells, runs), &srv_scale_graph, NULL);
    count_of_process(p, ":tensorflow:core:graph_runs", n_runs(p));
}

static void padding(struct page *p)
{
    static const char *const name = ":tensorflow:serving:batching_session:padding_size";
    int64_t done[SRV_MAX_PADDINGS * 2];
    int n_done = 0;

    type(p, name, "histogram");
    for (int i = 0; i < p->n_threads; i++)
        for (int k = 0; k < SRV_MAX_PADDINGS; k++) {
            bool is_rest = k == SRV_MAX_PADDINGS - 1;
            int64_t size = is_rest ? -1 : atomic_load(&p->m->threads[i].padding[k].size);
            struct srv_histogram sum = {0};
            char text[24] = "other";
            uint64_t n = 0;
            int d = 0;
            while (d < n_done && done[d] != size)
                d++;
            if (!size || d < n_done || n_done == SRV_MAX_PADDINGS * 2)
                continue;
            done[n_done++] = size;
            for (int t = 0; t < p->n_threads; t++)
                for (int l = 0; l < SRV_MAX_PADDINGS; l++) {
                    const struct srv_padding *from = &p->m->threads[t].padding[l];
                    if (is_rest ? l == SRV_MAX_PADDINGS - 1 : atomic_load(&from->size) == size)
                        n += add_histogram(&sum, &from->rows);
                }
            if (!n)
                continue;
            if (!is_rest)
                snprintf(text, sizeof text, "%" PRId64, size);
            start(p, "execution_batch_size", text);
            srv_text_histogram(p->text, name, labels_of(p), &srv_scale_rows, 1, sum.n,
                               (double)srv_count_of(&sum.sum), NULL);
        }
}

static void batching(struct page *p)
{
    of_threads(p, ":tensorflow:serving:batching_session:input_batch_size",
               offsetof(struct srv_thread_cells, request_rows), &srv_scale_rows, NULL);
    padding(p);
    of_threads(p, ":tensorflow:serving:batching_session:processed_batch_size",
               offsetof(struct srv_thread_cells, batch_rows), &srv_scale_rows, NULL);
    of_threads(
        p, ":tensorflow:serving:batching_session:queuing_latency",
        offsetof(struct srv_thread_cells, queuing), &srv_scale_queuing,
        /* the label is always "", regardless of the batching parameters (config/batching.h) */
        "thread_pool_name");
    count_of_process(p, ":tensorflow:serving:batching_session:wrapped_run_count", n_runs(p));
}

/* ---- by model ---- */

/* Counts the requests for a model that arrived at one entrypoint and became jobs, and adds the
 * counts to *sum. `io_loop` is the index of the entrypoint's first I/O loop. */
static void add_requests(const struct page *p, const struct srv_model_metrics *model, int io_loop,
                         struct srv_request_cells *sum)
{
    for (int k = io_loop; k < p->m->n_io_loops; k++)
        if (p->first[k] == io_loop)
            srv_request_cells_add(sum, &model->io_loops[k].gone);
    for (const struct srv_link *at = model->versions.next; at != &model->versions; at = at->next) {
        const struct srv_version_metrics *v = (const void *)at;
        for (int s = 0; s <= v->n_signatures; s++)
            srv_metrics_add_requests(p->m, p->first, v, s, io_loop, sum);
    }
}

/* Sets n[c] to the number of the model's requests with the status code c. */
static void requests_of(const struct page *p, const struct srv_model_metrics *model,
                        uint64_t n[SRV_N_CODES])
{
    memset(n, 0, SRV_N_CODES * sizeof *n);
    for (int io_loop = 0; io_loop < p->m->n_io_loops; io_loop++) {
        struct srv_request_cells sum = {0};
        if (!p->server->io_loops[io_loop])
            continue;
        if (p->first[io_loop] == io_loop)
            add_requests(p, model, io_loop, &sum);
        for (int api = 0; api < SRV_N_APIS; api++) {
            if (!srv_metrics_serving_counts(p->server->io_loops[io_loop], (enum srv_api)api))
                continue;
            for (int c = 0; c < SRV_N_CODES; c++) {
                n[c] += srv_count_of(&model->io_loops[io_loop].unversioned[api][c]);
                n[c] += api < SRV_N_JOB_APIS ? srv_count_of(&sum.codes[api][c]) : 0;
            }
        }
    }
}

static void request_count(struct page *p)
{
    static const char *const name = ":tensorflow:serving:request_count";
    uint64_t n[SRV_N_CODES], unknown[SRV_N_CODES];

    type(p, name, "counter");
    for (int i = 0; i < p->m->n_models; i++) {
        requests_of(p, p->m->models[i], n);
        for (int c = 0; c < SRV_N_CODES; c++) {
            start(p, "model_name", p->m->models[i]->name);
            more(p, "status", rt_status_name((enum rt_status)c));
            if (n[c])
                sample(p, name, n[c]);
        }
    }
    rt_mutex_lock(&p->m->brief_mu);
    /* The total of all unknown models is read before the counts by name, under the same lock. A
     * request that is counted at the same time may be missing from the total, but the page never
     * counts a request twice. */
    requests_of(p, p->m->unknown, unknown);
    for (int i = 0; i < SRV_MAX_UNKNOWN_MODELS && p->m->unknown_models[i].name; i++) {
        const struct srv_unknown_model *s = &p->m->unknown_models[i];
        /* whether the model, unknown when the request arrived, has been loaded since then */
        const bool is_known = srv_metrics_find(p->m, s->name) != NULL;
        for (int c = 0; c < SRV_N_CODES && !is_known; c++) {
            start(p, "model_name", s->name);
            more(p, "status", rt_status_name((enum rt_status)c));
            if (s->codes[c])
                sample(p, name, s->codes[c]);
            unknown[c] -= s->codes[c] < unknown[c] ? s->codes[c] : unknown[c];
        }
    }
    rt_mutex_unlock(&p->m->brief_mu);
    for (int c = 0; c < SRV_N_CODES; c++) {
        start(p, "model_name", "");
        more(p, "status", rt_status_name((enum rt_status)c));
        if (unknown[c])
            sample(p, name, unknown[c]);
    }
}

static void examples(struct page *p)
{
    static const char *const total = ":tensorflow:serving:request_example_count_total";
    static const char *const counts = ":tensorflow:serving:request_example_counts";

    for (int which = 0; which < 2; which++) {
        type(p, which ? counts : total, which ? "histogram" : "counter");
        for (int i = 0; i < p->m->n_models; i++) {
            const struct srv_model_metrics *model = p->m->models[i];
            struct srv_histogram sum = {0};
            uint64_t n = 0;
            for (int io_loop = 0; io_loop < p->m->n_io_loops; io_loop++)
                n += add_histogram(&sum, &model->io_loops[io_loop].examples);
            start(p, "model", model->name);
            if (n && which)
                srv_text_histogram(p->text, counts, labels_of(p), &srv_scale_examples, 1, sum.n,
                                   (double)srv_count_of(&sum.sum), NULL);
            else if (n)
                sample(p, total, srv_count_of(&sum.sum));
        }
    }
}

static void latency_of(struct page *p, const char *name, const struct srv_model_metrics *model,
                       int io_loop)
{
    const char *entrypoint = srv_metrics_entrypoint(p->server, io_loop);
    struct srv_request_cells sum = {0};

    add_requests(p, model, io_loop, &sum);
    for (int api = 0; api < SRV_N_JOB_APIS; api++) {
        if (!srv_times_any(&sum.latency[api]))
            continue;
        start(p, "model_name", model->name);
        more(p, "API",
             strcmp(entrypoint, "REST") == 0 ? srv_api_verb((enum srv_api)api)
                                             : srv_api_method((enum srv_api)api));
        more(p, "entrypoint", entrypoint);
        times(p, name, &sum.latency[api]);
    }
}

/* Writes the latency of a model's GET requests. The API label of these requests is empty. */
static void latency_of_gets(struct page *p, const char *name, const struct srv_model_metrics *model)
{
    struct srv_times sum = {0};

    for (int io_loop = 0; io_loop < p->m->n_io_loops; io_loop++)
        srv_times_add(&sum, &model->io_loops[io_loop].gets);
    if (!srv_times_any(&sum))
        return;
    start(p, "model_name", model->name);
    more(p, "API", "");
    more(p, "entrypoint", "REST");
    times(p, name, &sum);
}

static void request_latency(struct page *p)
{
    static const char *const name = ":tensorflow:serving:request_latency";

    type(p, name, "histogram");
    for (int i = 0; i < p->m->n_models; i++) {
        latency_of_gets(p, name, p->m->models[i]);
        for (int io_loop = 0; io_loop < p->m->n_io_loops; io_loop++)
            if (p->first[io_loop] == io_loop)
                latency_of(p, name, p->m->models[i], io_loop);
    }
}

static void request_log_count(struct page *p)
{
    static const char *const name = ":tensorflow:serving:request_log_count";

    type(p, name, "counter");
    for (int i = 0; i < p->m->n_models; i++)
        for (int c = 0; c < SRV_N_CODES; c++) {
            const struct srv_model_metrics *model = p->m->models[i];
            start(p, "model_name", model->name);
            more(p, "status_code", rt_status_name((enum rt_status)c));
            if (srv_count_of(&model->logged[c]))
                sample(p, name, srv_count_of(&model->logged[c]));
        }
}

static void runtime_latency(struct page *p)
{
    static const char *const name = ":tensorflow:serving:runtime_latency";

    type(p, name, "histogram");
    for (int i = 0; i < p->m->n_models; i++)
        for (int api = 0; api < SRV_N_JOB_APIS; api++) {
            const struct srv_model_metrics *model = p->m->models[i];
            struct srv_times sum = {0};
            for (int io_loop = 0; io_loop < p->m->n_io_loops; io_loop++)
                srv_times_add(&sum, &model->io_loops[io_loop].runtime[api]);
            if (!srv_times_any(&sum))
                continue;
            start(p, "model_name", model->name);
            more(p, "API", srv_api_method((enum srv_api)api));
            more(p, "runtime", "TF1");
            times(p, name, &sum);
        }
}

void srv_metrics_serving(struct srv_server *server, const struct srv_text *text)
{
    struct page p = {.server = server,
                     .m = server->metrics,
                     .text = text,
                     .out = text->out,
                     .n_threads = server->metrics->n_workers + server->metrics->n_io_loops};

    rt_bytes_init(&p.labels, 64 << 10);
    srv_metrics_entrypoints(server, p.first);
    loads(&p);
    graph(&p);
    batching(&p);
    mlmd_map(&p);
    warmups(&p);
    request_count(&p);
    examples(&p);
    request_latency(&p);
    request_log_count(&p);
    runtime_latency(&p);
    rt_bytes_clear(&p.labels);
}
