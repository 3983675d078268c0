/*
 * Replays recorded requests against a version that is not published yet. The requests are in the
 * version's warm-up file and in its goldens (golden.h). The responses to the goldens are checked.
 *
 * A warm-up file is a TFRecord file of PredictionLogs. The model and the version that a request
 * names are ignored, but the signature is not. A record without a request is skipped. The first
 * failure makes the entire replay fail, with an error message that names the record.
 *
 * Threads: the functions are called on a load thread. A replay may start a few more threads of the
 * same low priority. These threads end before the replay returns.
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
    /* the serialized messages; p is NULL if the record lacks the message */
    struct rt_span request, response;
};

struct srv_replay {
    const char *path;
    const char *what; /* the name of the records in error messages, for example "warmup" */
    /* the version to replay against; only `model`, `version` and `loaded` are read */
    struct srv_version *version;
    const struct srv_options *options;
    /* the flag that ends the replay with RT_CANCELLED when it becomes true */
    const _Atomic bool *cancelled;
    struct srv_budget *budget; /* as in srv_replay_target */
    /* The budget of the records of all replays that run at the same time. It is apart from
     * `budget`, because a thread holds its record while it waits for the feeds to fit in `budget`.
     */
    struct srv_budget *records;
    int64_t n_threads;    /* number of threads; values below 1 mean 1 */
    int64_t n_iterations; /* number of times that each request is sent; at least 1 */
    /* Called after each request, on any of the replay's threads. NULL means that responses are not
     * checked. `response` is a message from srv_inference_encode. The memory that the check needs
     * is charged to `growth`. */
    enum rt_status (*check)(void *arg, const struct srv_recorded *record, struct rt_span response,
                            struct srv_growth *growth, struct rt_error *err);
    void *arg;
};

/*
 * Replays a complete file, and sets *n_records to the number of records.
 *
 * Fails with INVALID_ARGUMENT if a record is malformed ("Failed to parse warmup record...") or if
 * the file has more than SRV_MAX_WARMUP_RECORDS records. Fails with DATA_LOSS if the file is not a
 * valid TFRecord file ("...Please verify your warmup data is in TFRecord format."), with
 * UNIMPLEMENTED if a request is streamed, and with DEADLINE_EXCEEDED if the replay takes more than
 * ten minutes. If a request fails, the replay fails with the request's status. A record, feeds or
 * a response that do not fit in the budget beside those of other requests wait. If they are larger
 * than the budget, the replay fails with RESOURCE_EXHAUSTED.
 */
enum rt_status srv_replay_run(const struct srv_replay *p, int64_t *n_records, struct rt_error *err);

/* Returns whether a version's directory contains a warm-up file. Returns true if the directory
 * cannot be examined. */
bool srv_warmup_is_there(const char *dir);
/* Replays the version's warm-up file as the flags specify. Records the result in the metrics, and
 * logs a success. Does nothing if there is no warm-up file. */
enum rt_status srv_warmup_run(struct srv_server *s, struct srv_version *v, const char *dir,
                              const _Atomic bool *cancelled, struct rt_error *err);

/* Sets *path to the path of the file `name` in `dir`, or to NULL if there is no such file. The
 * caller must free *path. */
enum rt_status srv_replay_find(const char *dir, const char *name, char **path,
                               struct rt_error *err);

#endif
