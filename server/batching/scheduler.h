/*
 * Batches and schedules jobs. scheduler_core.h makes the decisions, without a clock or threads.
 * batch.h merges, runs and splits a batch. sub_requests.h splits a request that is too large for
 * one batch. buckets.h decides which jobs may be merged. The scheduler combines these modules. It
 * owns the model queues of the versions, the workers and one lock.
 *
 * Threads: network threads submit jobs by srv_job_submit. The manager creates and frees model
 * queues.
 */
#ifndef SRV_SCHEDULER_H
#define SRV_SCHEDULER_H

#include "server/batching/job.h"
#include "server/server.h"

/* Returns the number of worker indexes in the metrics. Each CPU worker (--num_workers) and each GPU
 * stream has its own index. The spare workers and the runs that have waited share one index. */
int srv_scheduler_n_workers(const struct srv_server *server);
/* Creates the scheduler and its workers. Reads the server's batching parameters. */
enum rt_status srv_scheduler_new(struct srv_server *server, struct srv_scheduler **out,
                                 struct rt_error *err);
/* Completes all queued jobs with UNAVAILABLE, and joins the workers. */
void srv_scheduler_free(struct srv_scheduler *s);

/* Sets v->batching, from the server's parameters and from the files of the version, whose
 * SavedModel is in `dir`. Called on the loader's thread, after the version is loaded and before the
 * functions below. Fails if the version's own parameters are invalid. */
enum rt_status srv_scheduler_read_parameters(struct srv_scheduler *s, struct srv_version *v,
                                             const char *dir, struct rt_error *err);
/* Compiles the version's signatures for the batch sizes to which the batches of a GPU are padded.
 * Called on the loader's thread, before the version is published. Does nothing for a version on the
 * CPU. Fails with RT_CANCELLED, or if memory runs out. Sizes that cannot be compiled, or not within
 * a minute, are left to the background compiler. */
enum rt_status srv_scheduler_compile(struct srv_scheduler *s, const struct srv_version *v,
                                     const _Atomic bool *cancelled, struct rt_error *err);
/* Creates the model queue of a version before the version is published. Reads no files, because it
 * is called on the manager's thread. Fails only if memory runs out. */
enum rt_status srv_model_queue_new(struct srv_scheduler *s, struct srv_version *v,
                                   struct srv_model_queue **out, struct rt_error *err);
/* Frees a version's model queue. The last handle to the version must have been released, and no job
 * of the version may be queued or running. */
void srv_model_queue_free(struct srv_model_queue *mq);

/* Prepares a job for queuing after its signature and feeds were set: sets the number of rows,
 * allocates the fetches, and checks admission. */
enum rt_status srv_scheduler_make_ready(struct srv_job *job);
/* Checks whether --enable_batching=true accepts a request. The error messages are TensorFlow
 * Serving's. */
enum rt_status srv_scheduler_admit(struct srv_scheduler *s, struct srv_job *job);
/* Runs a job on the network thread if its cost is known to be small, its bucket is empty and a
 * worker is free. Calls `done` before returning. Returns false if the job did not run. Also returns
 * false if a worker must repeat the run, because it took too long or its outputs are too large to
 * encode on the network thread. In both cases, the caller still owns the job. */
bool srv_scheduler_run_inline(struct srv_scheduler *s, struct srv_job *job);
/* Submits the jobs of a turn, linked by `next`. Takes the lock once and wakes at most one
 * worker. */
void srv_scheduler_submit(struct srv_scheduler *s, struct srv_job *first);
/* Lets batches run without waiting for more jobs: those of all versions when the server stops, or
 * those of one version that is being unloaded. Called when no more requests will arrive. */
void srv_scheduler_flush(struct srv_scheduler *s);
void srv_model_queue_flush(struct srv_model_queue *mq);
/* Completes all queued jobs with the given status and error message, at the end of a drain. Returns
 * the number of these jobs. */
int srv_scheduler_refuse_all(struct srv_scheduler *s, enum rt_status code, const char *text);
/* returns the number of queued and running jobs of all versions */
int srv_scheduler_jobs(struct srv_scheduler *s);
/* returns the number of queued jobs of the model queue */
int srv_model_queue_jobs(struct srv_model_queue *mq);

#endif
