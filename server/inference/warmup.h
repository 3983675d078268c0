/*
 * Recorded requests played against a version that nobody has published yet: a version's own warm-up
 * file, and goldens (golden.h), which also look at the answers.
 *
 * A file is a TFRecord of PredictionLogs. The model and version that a request names do not matter,
 * its signature does; a record without a request of any kind is passed over. Whatever fails fails
 * the whole, with a sentence that names the record.
 *
 * Threads: called on a load thread; may start a few more, of the same low priority, for its time.
 */
#ifndef SRV_WARMUP_H
#define SRV_WARMUP_H

#include "server/inference/inference.h"
#include "server/server.h"

#define SRV_WARMUP_FILE "assets.extra/tf_serving_warmup_requests"
enum { SRV_MAX_WARMUP_RECORDS = 1000, SRV_MAX_WARMUP_THREADS = 64 };

struct srv_recorded {
    int64_t index; /* in the file, from 0 */
    enum srv_api api;
    struct rt_span request, response; /* p NULL: not there */
};

struct srv_replay {
    const char *path;
    const char *what;            /* "warmup": as texts name the records */
    struct srv_version *version; /* model, version and loaded are looked at */
    const struct srv_options *options;
    const _Atomic bool *cancelled; /* true ends it with RT_CANCELLED */
    int64_t n_threads;             /* less than 1: one */
    int64_t n_iterations;          /* of each request; at least 1 */
    /* NULL, or asked after each request; on any of the threads. `answer` as of
     * srv_inference_write. */
    enum rt_status (*check)(void *arg, const struct srv_recorded *record, struct rt_span response,
                            struct rt_error *err);
    void *arg;
};

/*
 * Plays the whole file, within ten minutes. *n_records: how many were read.
 *
 * INVALID_ARGUMENT: "Failed to parse warmup record...", or more than SRV_MAX_WARMUP_RECORDS;
 * DATA_LOSS: "...Please verify your warmup data is in TFRecord format."; UNIMPLEMENTED: streamed
 * requests; else what the request was answered.
 */
enum rt_status srv_replay_run(const struct srv_replay *p, int64_t *n_records, struct rt_error *err);

/* A version's directory holds a warm-up file. */
bool srv_warmup_is_there(const char *dir);
/* Plays it, as the flags say, counts and tells it; nothing where there is none. */
enum rt_status srv_warmup_run(struct srv_server *s, struct srv_version *v, const char *dir,
                              const _Atomic bool *cancelled, struct rt_error *err);

/* *path: `dir`/`name`, for free(), when that exists; NULL when there is none. */
enum rt_status srv_replay_find(const char *dir, const char *name, char **path,
                               struct rt_error *err);

#endif
