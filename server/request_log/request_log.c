#include "server/request_log/request_log.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/prediction_log.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "server/base/list.h"
#include "server/inference/inference.h"
#include "server/metrics/metrics.h"
#include "server/protocol/tfs/model_spec.h"
#include "server/request_log/request_file.h"

/* Minimum time between two messages in the server's log about outages of a request log. Only the
 * first failure of an outage is logged. */
enum { OUTAGE_LOG_S = 60 };

/* Maximum number of descriptors of log files. The files of further models are suspended, so that
 * logs of many models leave descriptors to connections and to model loads. */
enum { MOST_DESCRIPTORS = 16 };

struct srv_model_log {
    /* in the list `open_files` while the file is open; used only by the thread that writes the
     * files; must be the first member */
    struct srv_link open_file;
    struct srv_request_log *all;
    char *model;
    _Atomic uint64_t threshold; /* sampling threshold; 0 means that no request is logged */
    /* all->mu guards the five members below. */
    /* The number of references to this log. Each version of the model, each queued record, a prefix
     * and an open file count as one reference. The log is freed when no reference is left. */
    int64_t n_references;
    uint64_t configured; /* value of all->n_configured when the model was last configured */
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
    /* Only the thread that writes the files uses the three members below. open_files contains the
     * logs with an open or suspended file, with_fd those whose file has a descriptor, least
     * recently used first. */
    struct srv_link open_files;
    struct srv_model_log *with_fd[MOST_DESCRIPTORS];
    int n_with_fd;
    struct rt_map models;  /* logs by model name; mu guards this member and all members below */
    uint64_t n_configured; /* number of calls of srv_request_log_configure */
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

/* ---- references ---- */

static struct srv_model_log *acquire_locked(struct srv_request_log *l, const char *model)
    RT_REQUIRES(l->mu)
{
    struct srv_model_log *log = rt_map_get(&l->models, model);

    if (!log) {
        log = calloc(1, sizeof *log);
        if (!log)
            return NULL;
        log->model = strdup(model);
        if (!log->model || !rt_map_put(&l->models, model, log)) {
            free(log->model);
            free(log);
            return NULL;
        }
        log->all = l;
        srv_request_file_init(&log->file);
    }
    log->n_references++;
    return log;
}

static void free_log(struct srv_model_log *log)
{
    free(log->prefix);
    free(log->model);
    free(log);
}

static void release_locked(struct srv_request_log *l, struct srv_model_log *log) RT_REQUIRES(l->mu)
{
    if (--log->n_references)
        return;
    rt_map_remove(&l->models, log->model);
    free_log(log);
}

struct srv_model_log *srv_request_log_acquire(struct srv_request_log *l, const char *model)
{
    rt_mutex_lock(&l->mu);
    struct srv_model_log *log = acquire_locked(l, model);
    rt_mutex_unlock(&l->mu);
    return log;
}

void srv_request_log_release(struct srv_model_log *log)
{
    struct srv_request_log *l = log->all;

    rt_mutex_lock(&l->mu);
    release_locked(l, log);
    rt_mutex_unlock(&l->mu);
}

size_t srv_request_log_models(struct srv_request_log *l)
{
    rt_mutex_lock(&l->mu);
    const size_t n = l->models.n_live;
    rt_mutex_unlock(&l->mu);
    return n;
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
    r->log->n_references++;
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

static void remove_with_fd(struct srv_request_log *l, const struct srv_model_log *log)
{
    int n = 0;

    for (int i = 0; i < l->n_with_fd; i++)
        if (l->with_fd[i] != log)
            l->with_fd[n++] = l->with_fd[i];
    l->n_with_fd = n;
}

/* Suspends the least recently used file if the log's file needs a descriptor and none is left. */
static void make_room(struct srv_request_log *l, const struct srv_model_log *log)
{
    if (log->file.fd >= 0)
        return;
    remove_with_fd(l, log);
    if (l->n_with_fd < MOST_DESCRIPTORS)
        return;
    struct srv_model_log *oldest = l->with_fd[0];
    remove_with_fd(l, oldest);
    srv_request_file_suspend(&oldest->file);
}

/* Updates with_fd after the log's file has been used. */
static void file_used(struct srv_request_log *l, struct srv_model_log *log)
{
    remove_with_fd(l, log);
    if (log->file.fd >= 0)
        l->with_fd[l->n_with_fd++] = log;
}

/* Resumes the file if it is suspended. Closes a deleted file, because records written to it would
 * be lost. The caller then opens a new file. */
static enum rt_status resume_file(struct srv_model_log *log, struct rt_error *err)
{
    struct rt_error removed = {0};

    if (!srv_request_file_is_open(&log->file))
        return RT_OK;
    enum rt_status st = srv_request_file_resume(&log->file, &removed);
    if (st && st != RT_NOT_FOUND) {
        rt_error_copy(err, &removed);
        return st;
    }
    if (!st && !srv_request_file_is_removed(&log->file))
        return RT_OK;
    rt_fail(&removed, RT_UNAVAILABLE, "%s was removed while it was written", log->file.path);
    log_outage(log, &removed);
    srv_request_file_close(&log->file);
    return RT_OK;
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

    if (r->generation > log->file_generation)
        srv_request_file_close(&log->file);
    make_room(l, log);
    enum rt_status st = resume_file(log, &err);
    if (!st && !srv_request_file_is_open(&log->file))
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
    file_used(l, log);
    free(r->bytes);
    give_back(l, r->n);
    free(r);
    if (srv_request_file_is_open(&log->file) && !log->open_file.next)
        /* the open file takes over the record's reference */
        srv_list_append(&l->open_files, &log->open_file);
    else
        srv_request_log_release(log);
}

/* Closes files that are too old or no longer used. Returns the time at which the next file is too
 * old. */
static int64_t end_files(struct srv_request_log *l)
{
    int64_t now = rt_now_ns(), next = RT_NEVER;

    for (struct srv_link *at = l->open_files.next, *following; at != &l->open_files;
         at = following) {
        struct srv_model_log *log = (struct srv_model_log *)(void *)at;
        following = at->next;
        rt_mutex_lock(&l->mu);
        bool ended = !l->first && (log->generation != log->file_generation || l->stopping);
        rt_mutex_unlock(&l->mu);
        int64_t end = log->file.opened_ns + l->limits.file_ns;
        if (srv_request_file_is_open(&log->file) && !ended && end > now) {
            next = end < next ? end : next;
            continue;
        }
        /* closing a file may take long, so the lock is not held */
        srv_request_file_close(&log->file);
        remove_with_fd(l, log);
        srv_list_remove(at);
        srv_request_log_release(log);
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

/* Installs a configuration, or switches the log off if `c` is NULL. The caller must hold a
 * reference to the log in addition to that of the log's prefix. */
static void configure_locked(struct srv_request_log *l, struct srv_model_log *log,
                             const struct srv_logging_config *c) RT_REQUIRES(l->mu)
{
    bool same = c ? log->prefix && strcmp(log->prefix, c->filename_prefix) == 0 : !log->prefix;

    if (!same) {
        const bool had_prefix = log->prefix;
        free(log->prefix);
        log->prefix = c ? strdup(c->filename_prefix) : NULL;
        log->n_references += (log->prefix != NULL) - had_prefix;
        log->generation++;
    }
    log->configured = l->n_configured;
    log->rate = c ? c->sampling_rate : 0;
    atomic_store_explicit(&log->threshold,
                          c && log->prefix ? srv_request_log_threshold(log->rate) : 0,
                          memory_order_relaxed);
}

/* The lock is held for one model at a time, because requests that are logged wait for it. */
static void configure_model(struct srv_request_log *l, const char *model,
                            const struct srv_logging_config *c)
{
    rt_mutex_lock(&l->mu);
    if (c || rt_map_get(&l->models, model)) {
        struct srv_model_log *log = acquire_locked(l, model);
        if (log) {
            configure_locked(l, log, c);
            release_locked(l, log);
        }
    }
    rt_mutex_unlock(&l->mu);
}

void srv_request_log_configure(struct srv_request_log *l, const struct srv_config *config)
{
    if (!l)
        return;
    rt_mutex_lock(&l->mu);
    l->n_configured++;
    rt_mutex_unlock(&l->mu);
    for (int i = 0; i < config->n_models; i++)
        configure_model(l, config->models[i].name,
                        usable(config->models[i].name, config->models[i].logging));
    rt_mutex_lock(&l->mu);
    for (size_t i = 0; i < l->models.n; i++) {
        struct srv_model_log *log = l->models.entry[i].value;
        if (!log || log->configured == l->n_configured)
            continue;
        log->n_references++;
        configure_locked(l, log, NULL);
        release_locked(l, log);
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
    srv_list_init(&l->open_files);
    rt_map_init(&l->models);
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
    for (size_t i = 0; i < l->models.n; i++)
        if (l->models.entry[i].value)
            free_log(l->models.entry[i].value);
    rt_map_clear(&l->models);
    rt_cond_clear(&l->wake);
    rt_mutex_clear(&l->mu);
    free(l);
}
