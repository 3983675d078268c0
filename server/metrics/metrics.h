/*
 * Counters and histograms. Every network thread and every worker has its own counters, called
 * cells, so that requests on different threads share no cache line. The metrics page prints the
 * sums over all cells.
 *
 * Threads: a function with an I/O loop as its argument must be called on the thread of that loop.
 * The page may be read on any thread.
 */
#ifndef SRV_METRICS_H
#define SRV_METRICS_H

#include "runtime/base/bytes.h"
#include "server/batching/io_loop.h"

struct srv_metrics;
/* Creates empty metrics. n_workers is the number of threads that run batches, including the spare
 * worker. */
struct srv_metrics *srv_metrics_new(int n_io_loops, int n_workers);
void srv_metrics_free(struct srv_metrics *m);

/* Creates the counters of a version, which requests find by the index of their signature, without a
 * hash lookup. `signatures` and its names must stay valid until srv_metrics_drop_version. Returns
 * NULL if memory runs out. */
struct srv_version_metrics *srv_metrics_version(struct srv_metrics *m, const char *model,
                                                int64_t version, int n_signatures,
                                                const char *const *signatures);
void srv_metrics_drop_version(struct srv_metrics *m, struct srv_version_metrics *v);
/* Reports that a model is gone, that is, no longer configured and without versions. Unless the
 * model returns, its counters are dropped after SRV_GONE_SECONDS, or earlier if SRV_MAX_GONE other
 * models have gone since. */
void srv_metrics_model_gone(struct srv_metrics *m, const char *model);
/* Drops the counters of the models that have been gone for SRV_GONE_SECONDS at the time `now_ns` of
 * the monotonic clock. Called before a metrics page is written. */
void srv_metrics_forget_gone(struct srv_metrics *m, int64_t now_ns);

/* Counts one finished request. `job` is NULL if the request never became a job (unknown model,
 * bad request). Such a request is counted under `model` if that model exists. Otherwise it is
 * counted under one label shared by all unknown models and, as in TensorFlow Serving, under the
 * requested name unless there are too many such names. */
void srv_metrics_request(struct srv_io_loop *io_loop, const struct srv_job *job,
                         struct rt_span model, enum srv_api api, enum rt_status code,
                         int64_t total_ns);
/* Counts a batch that ran, before its jobs are completed. `worker` is the worker's index; for a
 * job that ran inline on a network thread, it is `-1 - io_loop->index`. `run_rows` includes
 * padding. */
void srv_metrics_batch(struct srv_metrics *m, int worker, const struct srv_job *first, int n_jobs,
                       int64_t rows, int64_t run_rows, int64_t run_ns);

/* Counts the end of a load. `dir` is the version's directory. May be called on any thread. */
void srv_metrics_load(struct srv_metrics *m, const char *model, const char *dir, bool ok,
                      int64_t ns);
/* Counts the end of a version's warm-up. `dir` is the version's directory. May be called on any
 * thread. */
void srv_metrics_warmup(struct srv_metrics *m, const char *dir, enum rt_status code,
                        int64_t records, int64_t ns);
/* Counts an attempt to write a request to the model's request log. `code` is the result of the
 * attempt. Nothing is counted for a model without metrics. */
void srv_metrics_logged(struct srv_metrics *m, const char *model, enum rt_status code);
/* Counts a rare event by name: "overwritten_while_serving", "smuggling_refused",
 * "slow_request_cut_off", "slow_answer_cut_off", ... */
void srv_metrics_event(struct srv_metrics *m, const char *name);

#endif
