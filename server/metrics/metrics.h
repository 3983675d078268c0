/*
 * Counters and histograms. Every network thread and every worker has its own counters, called
 * cells, so that requests on different threads share no cache line. The metrics page prints the
 * sums over all cells.
 *
 * Threads: a function with an I/O loop as its argument must be called on the thread of that loop.
 * Any thread may read the counters.
 */
#ifndef SRV_METRICS_H
#define SRV_METRICS_H

#include "runtime/base/bytes.h"
#include "server/batching/io_loop.h"
#include "server/base/api.h"

struct srv_metrics;
/* Creates metrics with all counters at 0. n_workers is the number of indexes for workers, as
 * returned by srv_scheduler_n_workers. */
struct srv_metrics *srv_metrics_new(int n_io_loops, int n_workers);
void srv_metrics_free(struct srv_metrics *m);

/* Creates the counters of a version. The index of a signature selects its counters, without a hash
 * lookup. `signatures` and the names in it must stay valid until srv_metrics_drop_version is
 * called. Returns NULL if memory runs out. */
struct srv_version_metrics *srv_metrics_version(struct srv_metrics *m, const char *model,
                                                int64_t version, int n_signatures,
                                                const char *const *signatures);
void srv_metrics_drop_version(struct srv_metrics *m, struct srv_version_metrics *v);
/* Records that a model is gone: it is no longer configured and has no versions. Its counters are
 * dropped after SRV_GONE_SECONDS, unless it is configured again by then. If more than SRV_MAX_GONE
 * models are gone, the counters of the model that has been gone longest are dropped at
 * once. */
void srv_metrics_model_gone(struct srv_metrics *m, const char *model);
/* Drops the counters of the models that have been gone for SRV_GONE_SECONDS. `now_ns` is the
 * current monotonic time. Called before a metrics page is written. */
void srv_metrics_forget_gone(struct srv_metrics *m, int64_t now_ns);

/*
 * Counts a finished request. If `job` is not NULL and has a version, an inference is counted under
 * that version. REST finds the version before it decodes the body, so it counts a malformed body
 * under the version; gRPC finds the version after it has read the message, so it counts a malformed
 * message without one. A request without a version is counted under `model` if that model serves,
 * and otherwise under one label for all unknown models. If TensorFlow Serving counts requests of
 * the API (srv_metrics_serving_counts), a request for an unknown model is also counted under the
 * requested name, for a limited number of names. `span` is the request's span, or NULL.
 */
void srv_metrics_request(struct srv_io_loop *io_loop, const struct srv_job *job,
                         const struct srv_request_span *span, struct rt_span model,
                         enum srv_api api, enum rt_status code, int64_t total_ns);
/*
 * Keeps an error with its text, for the web page; does nothing if the page is not served. The error
 * is kept under the model of `version`. May then be called on any thread while the caller has a
 * handle to the version. If `version` is NULL, the error is kept under `model` if that serves, and
 * otherwise among the errors of no model. With an empty `model`, may be called on any thread.
 */
void srv_metrics_error(const struct srv_io_loop *io_loop, const struct srv_version *version,
                       struct rt_span model, enum srv_api api, enum rt_status code,
                       const char *text);
/* Counts a batch that has run. Must be called before the batch's jobs are completed. `worker` is
 * the worker's index, or `-1 - io_loop->index` for an inline job. `run_rows` is the number of rows
 * including padding. */
void srv_metrics_batch(struct srv_metrics *m, int worker, const struct srv_job *first, int n_jobs,
                       int64_t rows, int64_t run_rows, int64_t run_ns);

/* Counts the end of a load. `dir` is the version's directory. May be called on any thread. */
void srv_metrics_load(struct srv_metrics *m, const char *model, const char *dir, bool ok,
                      int64_t ns);
/* Counts the end of a version's warm-up. `dir` is the version's directory. May be called on any
 * thread. */
void srv_metrics_warmup(struct srv_metrics *m, const char *dir, enum rt_status code,
                        int64_t records, int64_t ns);
/* Counts an attempt to write a request to the model's request log, with the result `code`. Does
 * nothing for a model without metrics. */
void srv_metrics_logged(struct srv_metrics *m, const char *model, enum rt_status code);
/* Counts a rare event by name, for example "overwritten_while_serving" or
 * "slow_request_cut_off". */
void srv_metrics_event(struct srv_metrics *m, const char *name);

/* ---- metrics_statistics.c ---- */

enum {
    SRV_N_TIMES = 34, /* number of buckets of the scale srv_scale_time */
    SRV_N_SIZES = 15, /* number of buckets of the scale srv_scale_rows */
};

struct srv_duration {
    uint64_t count, ns;
};

/* Sums over all signatures, APIs and threads of a version. */
struct srv_version_statistics {
    /* time from a request's arrival to its response, for requests answered with OK */
    struct srv_duration success;
    struct srv_duration fail; /* the same for failed requests */
    int64_t last_ns;          /* time of the last response by rt_now_ns, or 0 */
    /* `queue` is the time that requests spent in the queue, and `run` the time that batches ran. */
    struct srv_duration queue, run;
    uint64_t rows;
    uint64_t latency[SRV_N_TIMES]; /* histogram of `success`, with the scale srv_scale_time */
    uint64_t batches[SRV_N_SIZES]; /* rows of the batches that ran, with the scale srv_scale_rows */
};
/* The version must not be freed during the call. May be called on any thread. Requests that end
 * during the call may be counted in part. */
void srv_metrics_statistics(const struct srv_metrics *m, const struct srv_version_metrics *v,
                            struct srv_version_statistics *out);
/* Returns the number of inference requests of all models that failed before they had a version. It
 * decreases when the counters of a gone model are freed. May be called on any thread. */
uint64_t srv_metrics_refused(struct srv_metrics *m);

#endif
