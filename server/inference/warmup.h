/*
 * Replays recorded requests against a version that is not published yet. These are the requests of
 * its warm-up file, and those of its goldens (golden.h), whose responses are also checked.
 *
 * A warm-up file is a TFRecord file of PredictionLogs. The model and version that a request names
 * do not matter, but its signature does. A record without a request is skipped. The first failure
 * fails the entire replay, with a text that names the record.
 *
 * Threads: the functions are called on a load thread. A replay may start a few more threads of the
 * same low priority. They end before the replay returns.
 */
#ifndef SRV_WARMUP_H
#define SRV_WARMUP_H

#include "server/inference/inference.h"
#include "server/server.h"

#define SRV_WARMUP_FILE "assets.extra/tf_serving_warmup_requests"
enum { SRV_MAX_WARMUP_RECORDS = 1000, SRV_MAX_WARMUP_THREADS = 64 };

struct srv_recorded {
    int64_t index; /* index of the record in the file, from 0 */
    enum srv_api api;
    /* serialized messages; p is NULL when the record lacks the message */
    struct rt_span request, response;
};

struct srv_replay {
    const char *path;
    const char *what; /* name of the records in error texts, for example "warmup" */
    /* the version to replay against; only its model, version and loaded members are read */
    struct srv_version *version;
    const struct srv_options *options;
    const _Atomic bool *cancelled; /* when this becomes true, the replay ends with RT_CANCELLED */
    int64_t n_threads;             /* number of threads; values below 1 mean 1 */
    int64_t n_iterations;          /* number of times that each request is sent; at least 1 */
    /* Called after each request, on any of the replaying threads. The pointer may be NULL.
     * `response` is as in srv_inference_write. */
    enum rt_status (*check)(void *arg, const struct srv_recorded *record, struct rt_span response,
                            struct rt_error *err);
    void *arg;
};

/*
 * Replays a complete file within ten minutes. *n_records receives the number of records read.
 *
 * Fails with INVALID_ARGUMENT if a record is malformed ("Failed to parse warmup record...") or the
 * file has more than SRV_MAX_WARMUP_RECORDS records, with DATA_LOSS if the file is not a valid
 * TFRecord file ("...Please verify your warmup data is in TFRecord format."), and with
 * UNIMPLEMENTED if a request is streamed. If a request fails, the replay fails with the status of
 * that request.
 */
enum rt_status srv_replay_run(const struct srv_replay *p, int64_t *n_records, struct rt_error *err);

/* Returns whether a version's directory contains a warm-up file, or may contain one that cannot be
 * seen. */
bool srv_warmup_is_there(const char *dir);
/* Replays the version's warm-up file as the flags specify, and reports the result to the metrics
 * and the log. Does nothing when there is no warm-up file. */
enum rt_status srv_warmup_run(struct srv_server *s, struct srv_version *v, const char *dir,
                              const _Atomic bool *cancelled, struct rt_error *err);

/* Sets *path to `dir`/`name` if that file exists, otherwise to NULL. The caller must free *path. */
enum rt_status srv_replay_find(const char *dir, const char *name, char **path,
                               struct rt_error *err);

#endif
