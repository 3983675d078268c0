#include "server/telemetry/page_event.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/machine.h"
#include "runtime/core/device.h"
#include "server/base/precision.h"
#include "server/batching/scheduler.h"
#include "server/json/json.h"
#include "server/metrics/metrics_cells.h"
#include "server/versions/manager.h"

enum {
    MAX_NAMES_ARENA = 64 << 20,
    MAX_STATES_ARENA = 16 << 20, /* the states of one model */
};

/* ---- writing ---- */

static void quote(struct rt_bytes *out, const char *text, size_t most)
{
    srv_json_quote(out, text, strnlen(text, most));
}

/* Writes the counts up to the last one that is not 0. */
static void write_counts(struct rt_bytes *out, const char *name, const uint64_t *counts, int n)
{
    while (n && !counts[n - 1])
        n--;
    rt_bytes_addf(out, ",\"%s\":[", name);
    for (int i = 0; i < n; i++)
        rt_bytes_addf(out, "%s%" PRIu64, i ? "," : "", counts[i]);
    rt_bytes_addc(out, ']');
}

/* Writes the bounds of a histogram. Bound i is `first * factor^i`, so two numbers describe all. */
static void write_scale(struct rt_bytes *out, const char *name, const struct srv_scale *scale)
{
    rt_bytes_addf(out, ",\"%s\":[%g,%g]", name, scale->first, scale->factor);
}

void srv_page_write_begin(struct rt_bytes *out, const struct srv_page_totals *t)
{
    rt_bytes_addf(out, "retry: %d\ndata: {\"server\":\"" SLIPWAY_VERSION "\",\"time_ms\":%" PRId64,
                  SRV_PAGE_RETRY_MS, t->time_ms);
    rt_bytes_addf(out,
                  ",\"ready\":%s,\"refused\":%" PRIu64 ",\"errors\":%" PRIu64
                  ",\"requests_in_flight\":%" PRId64 ",\"bytes_in_flight\":%" PRId64
                  ",\"jobs\":%" PRId64 ",\"resident_bytes\":%" PRId64 ",\"cpu_ms\":%" PRId64
                  ",\"cores\":%d",
                  t->is_ready ? "true" : "false", t->refused, t->errors, t->requests_in_flight,
                  t->bytes_in_flight, t->jobs, t->resident_bytes, t->cpu_ms, t->cores);
    write_scale(out, "latency_scale_us", &srv_scale_time);
    write_scale(out, "batch_scale", &srv_scale_rows);
    rt_bytes_adds(out, ",\"versions\":[");
}

static void write_device(struct rt_bytes *out, const struct srv_figures *f)
{
    const char *cpu_precision = srv_cpu_precision(f->stats.bf16);

    if (!f->gpus.n) {
        rt_bytes_addf(out, ",\"device\":\"CPU\",\"precision\":\"%s\"", cpu_precision);
        return;
    }
    rt_bytes_adds(out, ",\"device\":\"");
    for (int k = 0; k < f->gpus.n; k++)
        rt_bytes_addf(out, "%sGPU %d", k ? ", " : "", f->gpus.device[k]->index);
    rt_bytes_addf(out, "\",\"precision\":\"%s\"", srv_gpu_precision(f->gpu_full_precision));
}

static void write_figures(struct rt_bytes *out, const struct srv_figures *f)
{
    const struct srv_version_statistics *s = &f->statistics;
    int64_t gpu_bytes = 0;

    for (int k = 0; k < f->gpus.n; k++)
        gpu_bytes += f->stats.accelerator_bytes[k];
    write_device(out, f);
    rt_bytes_addf(out,
                  ",\"weight_bytes\":%" PRId64 ",\"held_bytes\":%zu,\"idle_bytes\":%zu,"
                  "\"state_bytes\":%zu,\"gpu_bytes\":%" PRId64 ",\"queued\":%" PRId64,
                  f->weight_bytes, f->stats.held_bytes, f->stats.idle_bytes, f->stats.state_bytes,
                  gpu_bytes, f->n_queued);
    rt_bytes_addf(out,
                  ",\"answered\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"rows\":%" PRIu64
                  ",\"errors\":%" PRIu64,
                  s->success.count, s->fail.count, s->rows, f->n_errors);
    write_counts(out, "latency", s->latency, SRV_N_TIMES);
    write_counts(out, "batches", s->batches, SRV_N_SIZES);
}

static void write_head(struct rt_bytes *out, bool is_first, const char *model)
{
    rt_bytes_adds(out, is_first ? "{\"model\":" : ",{\"model\":");
    srv_json_quote(out, model, strlen(model));
}

void srv_page_write_version(struct rt_bytes *out, bool is_first, const char *model,
                            const struct srv_version_status *status,
                            const struct srv_figures *figures)
{
    write_head(out, is_first, model);
    /* a string, because JavaScript's numbers have 53 bits */
    rt_bytes_addf(out,
                  ",\"version\":\"%" PRId64 "\",\"state\":\"%s\",\"message\":", status->version,
                  srv_state_name(status->state));
    quote(out, status->message ? status->message : "", SRV_PAGE_MESSAGE_BYTES);
    if (figures)
        write_figures(out, figures);
    rt_bytes_addc(out, '}');
}

void srv_page_write_no_version(struct rt_bytes *out, bool is_first, const char *model,
                               const char *message)
{
    write_head(out, is_first, model);
    rt_bytes_adds(out, ",\"version\":\"\",\"state\":\"NONE\",\"message\":");
    quote(out, message, SRV_PAGE_MESSAGE_BYTES);
    rt_bytes_addc(out, '}');
}

void srv_page_write_end(struct rt_bytes *out, int64_t left_off, int n_problems,
                        const char *const *problems)
{
    rt_bytes_addf(out, "],\"left_off\":%" PRId64 ",\"troubles\":[", left_off);
    for (int i = 0; i < n_problems; i++) {
        if (i)
            rt_bytes_addc(out, ',');
        quote(out, problems[i], SRV_PAGE_MESSAGE_BYTES);
    }
    rt_bytes_adds(out, "]}\n\n");
}

/* ---- reading ---- */

static void read_totals(struct srv_server *s, int n_viewers, struct srv_page_totals *out)
{
    struct timespec cpu = {0};
    /* A viewer that is being refused may end between the two counts. */
    const int64_t requests = atomic_load(&s->rest_requests) + atomic_load(&s->grpc_requests);

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    *out = (struct srv_page_totals){
        .time_ms = rt_now_ns() / 1000000,
        .is_ready = srv_is_ready(s->manager),
        .refused = s->metrics ? srv_metrics_refused(s->metrics) : 0,
        .errors = s->metrics ? srv_last_errors_count(&s->metrics->unknown->errors) : 0,
        .requests_in_flight = requests < n_viewers ? 0 : requests - n_viewers,
        .bytes_in_flight = atomic_load(&s->in_flight.held),
        .jobs = s->scheduler ? srv_scheduler_jobs(s->scheduler) : 0,
        .resident_bytes = rt_machine_resident(),
        .cpu_ms = (int64_t)cpu.tv_sec * 1000 + cpu.tv_nsec / 1000000,
        .cores = rt_machine_cores()};
}

struct writing {
    struct srv_server *server;
    struct rt_bytes *out;
    struct rt_arena *names, *states; /* `states` has those of one model at a time */
    struct srv_all_figures figures;
    int first_figures; /* index of the first figures of the current model, or of a later one */
    int n_written;
    int64_t left_off;
};

/* Returns the figures of a version of the current model. Both figures and models are in the order
 * of the models' names, so the search begins where that for the model before has ended. */
static const struct srv_figures *figures_of(struct writing *w, const char *model, int64_t version)
{
    const struct srv_all_figures *all = &w->figures;
    int *first = &w->first_figures;

    while (*first < all->n && strcmp(all->of[*first].model, model) < 0)
        ++*first;
    for (int i = *first; i < all->n && strcmp(all->of[i].model, model) == 0; i++)
        if (all->of[i].version == version)
            return &all->of[i];
    return NULL;
}

/* Returns whether the event has a place for a further version, whose name may be long. */
static bool may_write(struct writing *w)
{
    const bool fits = w->n_written < SRV_PAGE_MAX_VERSIONS && w->out->n < SRV_PAGE_MAX_EVENT / 2;

    w->n_written += fits;
    w->left_off += !fits;
    return fits;
}

/* Writes the problem of a model's base path, unless a version that serves has it as its message. */
static void write_problem(struct writing *w, const char *model, const struct srv_version_status *v,
                          int n)
{
    const char *problem = NULL;

    for (int k = 0; k < n; k++)
        if (v[k].state == SRV_AVAILABLE)
            return;
    if (n && srv_status_problem(w->server->manager, rt_span_str(model), w->states, &problem))
        rt_bytes_no_memory(w->out);
    if (problem && may_write(w))
        srv_page_write_no_version(w->out, false, model, problem);
}

static void write_model(struct writing *w, const char *model)
{
    struct rt_error err = {.arena = w->states};
    struct srv_version_status *v = NULL;
    int n = 0;
    const enum rt_status st =
        srv_status_of(w->server->manager, rt_span_str(model), false, 0, w->states, &v, &n, &err);

    if (st == RT_RESOURCE_EXHAUSTED)
        rt_bytes_no_memory(w->out);
    if (st == RT_NOT_FOUND && may_write(w))
        srv_page_write_no_version(w->out, w->n_written == 1, model, rt_error_text(&err));
    for (int k = 0; k < n && !st; k++)
        if (may_write(w))
            srv_page_write_version(w->out, w->n_written == 1, model, &v[k],
                                   figures_of(w, model, v[k].version));
    write_problem(w, model, v, st ? 0 : n);
    rt_arena_reset(w->states);
}

static void write_models(struct writing *w)
{
    const char *const *models;
    int n = 0;

    if (!w->names || !w->states ||
        srv_status_models(w->server->manager, false, w->names, &models, &n)) {
        rt_bytes_no_memory(w->out);
        return;
    }
    for (int i = 0; i < n; i++)
        write_model(w, models[i]);
}

void srv_page_event(struct srv_server *server, int n_viewers, struct rt_bytes *out)
{
    struct writing w = {.server = server,
                        .out = out,
                        .names = rt_arena_new(MAX_NAMES_ARENA),
                        .states = rt_arena_new(MAX_STATES_ARENA)};
    struct srv_page_totals totals;
    const char *problems[SRV_MAX_CONFIG_PROBLEMS];
    int n_problems = 0;

    rt_bytes_init(out, SRV_PAGE_MAX_EVENT);
    read_totals(server, n_viewers, &totals);
    /* The figures are in the order in which the event lists its versions, at most
     * SRV_PAGE_MAX_VERSIONS, so the event needs no further figures. */
    srv_figures_read(server, true, SRV_PAGE_MAX_VERSIONS, &w.figures);
    if (w.figures.no_memory)
        rt_bytes_no_memory(out);
    srv_page_write_begin(out, &totals);
    if (server->manager)
        write_models(&w);
    if (server->manager &&
        (!w.states || srv_status_config_problems(server->manager, w.states, problems, &n_problems)))
        rt_bytes_no_memory(out);
    srv_page_write_end(out, w.left_off, n_problems, problems);
    srv_figures_clear(&w.figures);
    rt_arena_free(w.names);
    rt_arena_free(w.states);
}

enum rt_status srv_page_event_fail(const struct rt_bytes *event, struct rt_error *err)
{
    return rt_bytes_fail(event, "an event of the page", err, RT_RESOURCE_EXHAUSTED,
                         "an event of the page has more than %zu bytes", event->limit);
}
