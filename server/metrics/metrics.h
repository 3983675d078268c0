/*
 * Counters and histograms, per network thread and per worker so that nobody shares a cache line on
 * the way of a request; summed when somebody asks for the page.
 *
 * Threads: srv_metrics_* with a net: its loop thread. The page: any thread.
 */
#ifndef SRV_METRICS_H
#define SRV_METRICS_H

#include "runtime/base/bytes.h"
#include "server/batching/io_loop.h"

struct srv_metrics;
/* n_workers: those that run batches, the spare one too. */
struct srv_metrics *srv_metrics_new(int n_io_loops, int n_workers);
void srv_metrics_free(struct srv_metrics *m);

/* A version's own cells, indexed at admit time, never hashed on the way. NULL: out of memory. */
struct srv_version_metrics *srv_metrics_version(struct srv_metrics *m, const char *model,
                                                int64_t version, int n_signatures,
                                                const char *const *signatures);
void srv_metrics_drop_version(struct srv_metrics *m, struct srv_version_metrics *v);

/* One finished request. `job` NULL: it never became one (unknown model, bad request): counted
 * under `model` when that is a model there is, else under one shared label, and as TensorFlow
 * Serving does under its name, as long as there are few of them. */
void srv_metrics_request(struct srv_io_loop *io_loop, const struct srv_job *job,
                         struct rt_span model, enum srv_api api, enum rt_status code,
                         int64_t total_ns);
/* A batch that ran, from a worker (worker -1 - net->index: inline on a network thread), before its
 * jobs are answered. run_rows: rows, and what was padded. */
void srv_metrics_batch(struct srv_metrics *m, int worker, const struct srv_job *first, int n_jobs,
                       int64_t rows, int64_t run_rows, int64_t run_ns);

/* What is rare; any thread. `dir`: the version's. */
void srv_metrics_load(struct srv_metrics *m, const char *model, const char *dir, bool ok,
                      int64_t ns);
/* A version's warm-up has ended. */
void srv_metrics_warmup(struct srv_metrics *m, const char *dir, enum rt_status code,
                        int64_t records, int64_t ns);
/* A request of the model was written to its request log, or could not be. */
void srv_metrics_logged(struct srv_metrics *m, const char *model, enum rt_status code);
/* Counts of things that happen rarely: "overwritten_while_serving", "smuggling_refused",
 * "slow_request_cut_off", "slow_answer_cut_off", ... */
void srv_metrics_event(struct srv_metrics *m, const char *name);

#endif
