/*
 * Replays recorded requests against a version that is not published yet: its warm-up file, and its
 * goldens (golden.h), which also check the responses.
 *
 * A file is a TFRecord of PredictionLogs. The model and version that a request names do not matter,
 * but its signature does. A record without a request is skipped. The first failure fails the whole
 * replay, with a text that names the record.
 *
 * Threads: called on a load thread; may start a few more of the same low priority until it returns.
 */
#ifndef SRV_WARMUP_H
#define SRV_WARMUP_H

#include "server/inference/inference.h"
#include "server/server.h"

#define SRV_WARMUP_FILE "assets.extra/tf_serving_warmup_requests"
enum { SRV_MAX_WARMUP_RECORDS = 1000, SRV_MAX_WARMUP_THREADS = 64 };

struct srv_recorded {
    int64_t index; /* index in the file, from 0 */
    enum srv_api api;
    struct rt_span request, response; /* p is NULL when the record has none */
};

struct srv_replay {
    const char *path;
    const char *what;            /* the word for the records in texts, as "warmup" */
    struct srv_version *version; /* model, version and loaded are read */
    const struct srv_options *options;
    const _Atomic bool *cancelled; /* true ends the replay with RT_CANCELLED */
    int64_t n_threads;             /* less than 1 means 1 */
    int64_t n_iterations;          /* number of times that each request is replayed; at least 1 */
    /* NULL, or called after each request on any of the threads. `response` is as in
     * srv_inference_write. */
    enum rt_status (*check)(void *arg, const struct srv_recorded *record, struct rt_span response,
                            struct rt_error *err);
    void *arg;
};

/*
 * Replays the whole file within ten minutes. *n_records receives how many records were read.
 *
 * INVALID_ARGUMENT: "Failed to parse warmup record...", or more than SRV_MAX_WARMUP_RECORDS;
 * DATA_LOSS: "...Please verify your warmup data is in TFRecord format."; UNIMPLEMENTED: streamed
 * requests; otherwise the status of the request that failed.
 */
enum rt_status srv_replay_run(const struct srv_replay *p, int64_t *n_records, struct rt_error *err);

/* Returns whether a version's directory holds a warm-up file, or may hold one that cannot be
 * seen. */
bool srv_warmup_is_there(const char *dir);
/* Replays the version's warm-up file as the flags say, and reports it to metrics and log. Does
 * nothing when there is no file. */
enum rt_status srv_warmup_run(struct srv_server *s, struct srv_version *v, const char *dir,
                              const _Atomic bool *cancelled, struct rt_error *err);

/* *path receives `dir`/`name`, for free(), when the file exists; NULL when it does not. */
enum rt_status srv_replay_find(const char *dir, const char *name, char **path,
                               struct rt_error *err);

#endif
