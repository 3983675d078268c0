#include "server/telemetry/request_log.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/prediction_log.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "server/inference/inference.h"
#include "server/metrics/metrics.h"
#include "server/protocol/tfs/model_spec.h"
#include "server/telemetry/request_file.h"

/* Minimum time between two messages in the server's log about outages of a request log. Only the
 * first failure of an outage is logged. */
enum { OUTAGE_LOG_S = 60 };

struct srv_model_log {
    struct srv_model_log *next;
    struct srv_request_log *all;
    char *model;
    _Atomic uint64_t threshold; /* sampling threshold; 0 means that no request is logged */
    /* all->mu guards the three members below. */
    double rate;
    char *prefix;        /* prefix of the file names, or NULL if logging is off */
    uint64_t generation; /* number of changes of `prefix` */
    /* Only the thread that writes the files uses the members below. */
    struct srv_request_file file;
    uint64_t file_generation;
    /* whether the server's log has reported the beginning of an outage, but not its end */
    bool outage_logged;
    int64_t outage_logged_ns;
};

struct record {
    struct record *next;
    struct srv_model_log *log;
    uint64_t generation; /* the log's `generation` when the record was queued */
    char *bytes;
    size_t n;
};

struct srv_request_log {
    struct srv_request_log_limits limits;
    struct srv_metrics *metrics;
    pthread_t thread;
    struct rt_mutex mu;
    struct rt_cond wake;
    struct srv_model_log *models; /* mu guards this member and all members below */
    struct record *first, **end;
    /* total size in bytes of the records that are not completely written */
    size_t queued;
    bool stopping;
};

/* ---- sampling ---- */

uint64_t srv_request_log_threshold(double rate)
{
    return rate > 0 ? (uint64_t)(rate * 0x1p32) : 0;
}

bool srv_request_log_samples(uint64_t threshold, uint64_t seed)
{
    seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
    seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebu;
    return (seed >> 32) < threshold;
}

bool srv_request_log_wants(const struct srv_job *job)
{
    const struct srv_model_log *log = job->version->log;
    uint64_t threshold = log ? atomic_load_explicit(&log->threshold, memory_order_relaxed) : 0;

    /* The job's arrival time and memory address serve as a random seed. */
    return threshold &&
           srv_request_log_samples(threshold, (uint64_t)job->received_ns * 0x9e3779b97f4a7c15u +
                                                  (uintptr_t)job);
}

/* ---- a record ---- */

static enum pb_log_type type_of(enum srv_api api)
{
    switch (api) {
    case SRV_CLASSIFY:
        return PB_LOG_CLASSIFY;
    case SRV_REGRESS:
        return PB_LOG_REGRESS;
    case SRV_MULTI_INFERENCE:
        return PB_LOG_MULTI_INFERENCE;
    case SRV_SESSION_RUN:
        return PB_LOG_SESSION_RUN;
    default:
        return PB_LOG_PREDICT;
    }
}

/* Writes a LogMetadata message: model_spec (1), sampling_config (2) with its sampling_rate (1),
 * saved_model_tags (3) and timestamp_secs (4). */
static void write_metadata(const struct srv_job *job, double rate, struct rt_bytes *out)
{
    const struct srv_version *v = job->version;
    const struct rt_meta_graph *g = v->loaded->meta_graph;
    const struct srv_model_echo echo = {v->model, job->signature->def->name, v->version};
    char sampling[9] = {SRV_FIXED64 | 1 << 3};

    /* the message format and all supported machines store a double in little-endian order */
    memcpy(sampling + 1, &rate, sizeof rate);
    srv_model_echo_put(out, &echo, 1);
    srv_put_bytes(out, 2, sampling, sizeof sampling);
    for (int i = 0; i < g->n_tags; i++)
        srv_put_bytes(out, 3, g->tags[i], strlen(g->tags[i]));
    srv_put_int(out, 4, (uint64_t)(rt_wall_ns() / 1000000000));
}

static bool write_record(const struct srv_inference *inf, double rate, struct rt_span response,
                         size_t limit, struct rt_bytes *out)
{
    struct rt_bytes metadata, request;

    rt_bytes_init(&metadata, 1 << 16);
    rt_bytes_init(&request, limit);
    rt_bytes_init(out, limit);
    write_metadata(inf->job, rate, &metadata);
    srv_inference_log_request(inf, &request);
    const struct pb_prediction_log log = {
        .type = type_of(srv_inference_api(inf)),
        .request = rt_span_of(request.p ? request.p : "", request.n),
        .response = rt_span_of(response.p ? (const char *)response.p : "", response.n),
    };
    if (!metadata.failed && !request.failed)
        pb_prediction_log_write(&log, rt_span_of(metadata.p, metadata.n), out);
    bool ok = !metadata.failed && !request.failed && !out->failed;
    rt_bytes_clear(&metadata);
    rt_bytes_clear(&request);
    return ok;
}

static void count(const struct srv_model_log *log, enum rt_status code)
{
    if (log->all->metrics)
        srv_metrics_logged(log->all->metrics, log->model, code);
}

/* Reserves n bytes of the queue. Returns false if fewer than n bytes are left. */
static bool reserve(struct srv_request_log *l, size_t n)
{
    rt_mutex_lock(&l->mu);
    bool fits = n <= l->limits.queue_bytes - l->queued;
    if (fits)
        l->queued += n;
    rt_mutex_unlock(&l->mu);
    return fits;
}

static void give_back(struct srv_request_log *l, size_t n)
{
    rt_mutex_lock(&l->mu);
    l->queued -= n;
    rt_mutex_unlock(&l->mu);
}

static void submit(struct srv_request_log *l, struct record *r)
{
    rt_mutex_lock(&l->mu);
    bool was_empty = !l->first;
    r->generation = r->log->generation;
    *l->end = r;
    l->end = &r->next;
    if (was_empty)
        rt_cond_signal(&l->wake);
    rt_mutex_unlock(&l->mu);
}

/* Logs a request with the serialized response. */
static void add(const struct srv_inference *inf, struct rt_span response)
{
    struct srv_model_log *log = inf->job->version->log;
    struct srv_request_log *l = log->all;
    /* Reserves the record's estimated size in the queue before serializing the record. */
    size_t about = srv_inference_feed_bytes(inf) + response.n + 1024;
    struct record *r = NULL;
    struct rt_bytes bytes;

    if (!reserve(l, about)) {
        count(log, RT_RESOURCE_EXHAUSTED);
        return;
    }
    rt_mutex_lock(&l->mu);
    double rate = log->rate;
    rt_mutex_unlock(&l->mu);
    bool ok = write_record(inf, rate, response, l->limits.queue_bytes, &bytes);
    give_back(l, about);
    if (ok && reserve(l, bytes.n)) {
        r = malloc(sizeof *r);
        if (!r)
            give_back(l, bytes.n);
    }
    if (!r) {
        count(log, RT_RESOURCE_EXHAUSTED);
        rt_bytes_clear(&bytes);
        return;
    }
    *r = (struct record){.log = log};
    r->bytes = rt_bytes_take(&bytes, &r->n);
    submit(l, r);
}

void srv_request_log_add(struct srv_inference *inf, const struct rt_bytes *encoded)
{
    struct rt_error err = {0};
    struct rt_bytes response;

    if (srv_inference_logs_response(inf)) {
        add(inf, rt_span_of(encoded->p, encoded->n));
        return;
    }
    rt_bytes_init(&response, SRV_MESSAGE_MOST);
    if (srv_inference_log_response(inf, &response, &err))
        count(inf->job->version->log, RT_INTERNAL);
    else
        add(inf, rt_span_of(response.p, response.n));
    rt_bytes_clear(&response);
}

/* ---- writing ---- */

static void log_outage(struct srv_model_log *log, const struct rt_error *err)
{
    int64_t now = rt_now_ns();

    if (log->outage_logged ||
        (log->outage_logged_ns && now - log->outage_logged_ns < OUTAGE_LOG_S * INT64_C(1000000000)))
        return;
    log->outage_logged = true;
    log->outage_logged_ns = now;
    RT_LOG(RT_LOG_WARNING, "model %s: requests are not logged: %s", log->model, rt_error_text(err));
}

static void log_recovery(struct srv_model_log *log)
{
    if (!log->outage_logged)
        return;
    log->outage_logged = false;
    RT_LOG(RT_LOG_INFO, "model %s: requests are logged again: %s", log->model, log->file.path);
}

/* Closes a deleted file, because records written to it would be lost. The next record opens a new
 * file. */
static void leave_removed_file(struct srv_model_log *log)
{
    struct rt_error err = {0};

    if (!srv_request_file_is_open(&log->file) || !srv_request_file_is_removed(&log->file))
        return;
    rt_fail(&err, RT_UNAVAILABLE, "%s was removed while it was written", log->file.path);
    log_outage(log, &err);
    srv_request_file_close(&log->file);
}

static enum rt_status open_file(struct srv_model_log *log, struct rt_error *err)
{
    struct srv_request_log *l = log->all;

    rt_mutex_lock(&l->mu);
    char *prefix = log->prefix ? strdup(log->prefix) : NULL;
    log->file_generation = log->generation;
    rt_mutex_unlock(&l->mu);
    if (!prefix)
        return rt_fail(err, RT_CANCELLED, "logging has been switched off");
    enum rt_status st = srv_request_file_open(&log->file, prefix, log->model, err);
    free(prefix);
    return st;
}

static void write_one(struct srv_request_log *l, struct record *r)
{
    struct srv_model_log *log = r->log;
    struct rt_error err = {0};
    enum rt_status st = RT_OK;

    if (r->generation > log->file_generation)
        srv_request_file_close(&log->file);
    leave_removed_file(log);
    if (!srv_request_file_is_open(&log->file))
        st = open_file(log, &err);
    if (!st)
        st = srv_request_file_add(&log->file, rt_span_of(r->bytes, r->n), &err);
    if (!st)
        log_recovery(log);
    else if (st != RT_CANCELLED)
        log_outage(log, &err);
    count(log, st);
    if (!st && log->file.size >= l->limits.file_bytes)
        srv_request_file_close(&log->file);
    free(r->bytes);
    give_back(l, r->n);
    free(r);
}

/* Closes files that are too old or no longer used. Returns the time at which the next file is too
 * old. */
static int64_t end_files(struct srv_request_log *l)
{
    int64_t now = rt_now_ns(), next = RT_NEVER;

    rt_mutex_lock(&l->mu);
    /* New logs are inserted only before the first log, so the list from here on does not change. */
    struct srv_model_log *log = l->models;
    rt_mutex_unlock(&l->mu);
    for (; log; log = log->next) {
        if (!srv_request_file_is_open(&log->file))
            continue;
        rt_mutex_lock(&l->mu);
        bool ended = !l->first && (log->generation != log->file_generation || l->stopping);
        rt_mutex_unlock(&l->mu);
        int64_t end = log->file.opened_ns + l->limits.file_ns;
        if (ended || end <= now)
            /* closing a file may take long, so the lock is not held */
            srv_request_file_close(&log->file);
        else if (end < next)
            next = end;
    }
    return next;
}

static void *write_thread(void *arg)
{
    struct srv_request_log *l = arg;
    bool stopping = false;

    rt_thread_low_priority();
    while (!stopping) {
        int64_t next = end_files(l);
        rt_mutex_lock(&l->mu);
        if (!l->first && !l->stopping)
            rt_cond_wait_until(&l->wake, &l->mu, next);
        struct record *r = l->first;
        l->first = NULL;
        l->end = &l->first;
        stopping = l->stopping; /* no records are queued after l->stopping is set */
        rt_mutex_unlock(&l->mu);
        while (r) {
            struct record *following = r->next;
            write_one(l, r);
            r = following;
        }
    }
    end_files(l);
    return NULL;
}

/* ---- models ---- */

static struct srv_model_log *model_locked(struct srv_request_log *l, const char *model)
    RT_REQUIRES(l->mu)
{
    struct srv_model_log *log = l->models;

    while (log && strcmp(log->model, model) != 0)
        log = log->next;
    if (log)
        return log;
    log = calloc(1, sizeof *log);
    if (log && !(log->model = strdup(model))) {
        free(log);
        log = NULL;
    }
    if (!log)
        return NULL;
    log->all = l;
    srv_request_file_init(&log->file);
    log->next = l->models;
    l->models = log;
    return log;
}

struct srv_model_log *srv_request_log_model(struct srv_request_log *l, const char *model)
{
    rt_mutex_lock(&l->mu);
    struct srv_model_log *log = model_locked(l, model);
    rt_mutex_unlock(&l->mu);
    return log;
}

/* Returns `wanted` if it enables request logging in a supported form. Otherwise returns NULL, which
 * disables the model's log. */
static const struct srv_logging_config *usable(const char *model,
                                               const struct srv_logging_config *wanted)
{
    if (!wanted || !(wanted->sampling_rate > 0))
        return NULL;
    if (*wanted->type && strcmp(wanted->type, "file") != 0 &&
        strcmp(wanted->type, "tfrecord") != 0) {
        RT_LOG(RT_LOG_WARNING,
               "model %s: requests are not logged: there is no log collector of type \"%s\" here, "
               "only \"file\"",
               model, wanted->type);
        return NULL;
    }
    if (!*wanted->filename_prefix) {
        RT_LOG(RT_LOG_WARNING, "model %s: requests are not logged: filename_prefix is empty",
               model);
        return NULL;
    }
    return wanted;
}

static void configure_locked(struct srv_request_log *l, struct srv_model_log *log,
                             const struct srv_logging_config *c) RT_REQUIRES(l->mu)
{
    bool same = c ? log->prefix && strcmp(log->prefix, c->filename_prefix) == 0 : !log->prefix;

    if (!same) {
        free(log->prefix);
        log->prefix = c ? strdup(c->filename_prefix) : NULL;
        log->generation++;
    }
    (void)l; /* only the annotation RT_REQUIRES uses `l` */
    log->rate = c ? c->sampling_rate : 0;
    atomic_store_explicit(&log->threshold,
                          c && log->prefix ? srv_request_log_threshold(log->rate) : 0,
                          memory_order_relaxed);
}

void srv_request_log_configure(struct srv_request_log *l, const struct srv_config *config)
{
    if (!l)
        return;
    rt_mutex_lock(&l->mu);
    for (struct srv_model_log *log = l->models; log; log = log->next)
        if (!srv_config_find(config, log->model))
            configure_locked(l, log, NULL);
    for (int i = 0; i < config->n_models; i++) {
        const struct srv_model_config *m = &config->models[i];
        struct srv_model_log *log = model_locked(l, m->name);
        if (log)
            configure_locked(l, log, usable(m->name, m->logging));
    }
    rt_cond_signal(&l->wake);
    rt_mutex_unlock(&l->mu);
}

/* ---- the whole log ---- */

struct srv_request_log *srv_request_log_new(const struct srv_request_log_limits *limits,
                                            struct srv_metrics *metrics)
{
    struct srv_request_log *l = calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->limits = *limits;
    l->metrics = metrics;
    l->end = &l->first;
    rt_mutex_init(&l->mu);
    rt_cond_init(&l->wake);
    if (rt_thread_start(&l->thread, "request_log", write_thread, l)) {
        rt_cond_clear(&l->wake);
        rt_mutex_clear(&l->mu);
        free(l);
        return NULL;
    }
    return l;
}

void srv_request_log_free(struct srv_request_log *l)
{
    if (!l)
        return;
    rt_mutex_lock(&l->mu);
    l->stopping = true;
    rt_cond_signal(&l->wake);
    rt_mutex_unlock(&l->mu);
    pthread_join(l->thread, NULL);
    while (l->models) {
        struct srv_model_log *log = l->models;
        l->models = log->next;
        free(log->prefix);
        free(log->model);
        free(log);
    }
    rt_cond_clear(&l->wake);
    rt_mutex_clear(&l->mu);
    free(l);
}
