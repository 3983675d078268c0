/*
 * Batches and schedules jobs. scheduler_core.h makes the decisions, without a clock or threads;
 * batch.h merges, runs and splits a batch; sub_requests.h splits a request that is too large for
 * one batch; and buckets.h decides which jobs may be merged. The scheduler combines these modules.
 * It owns the model queues of the versions, the workers and one lock.
 *
 * Threads: network threads submit jobs (through srv_job_submit); the manager creates and frees
 * model queues.
 */
#ifndef SRV_SCHEDULER_H
#define SRV_SCHEDULER_H

#include "server/batching/job.h"
#include "server/server.h"

/* Returns the number of the workers' indexes in the metrics: --num_workers for the CPU, one for
 * each stream of a GPU, and one that the spare workers and the runs that have waited share. */
int srv_scheduler_n_workers(const struct srv_server *server);
/* Creates the scheduler and its workers, and reads the batching parameters from the sources that
 * the options specify. */
enum rt_status srv_scheduler_new(struct srv_server *server, struct srv_scheduler **out,
                                 struct rt_error *err);
/* Completes with UNAVAILABLE the jobs that are still queued, and joins the workers. */
void srv_scheduler_free(struct srv_scheduler *s);

/* Creates the model queue of a version before the version is published. Fails if the version's own
 * batching parameters are invalid. */
enum rt_status srv_model_queue_new(struct srv_scheduler *s, struct srv_version *v,
                                   struct srv_model_queue **out, struct rt_error *err);
/* Frees the model queue of a version. The last handle to the version must have been released, and
 * none of its jobs may be queued or running. */
void srv_model_queue_free(struct srv_model_queue *l);

/* Checks a request by the rules of --enable_batching=true, with TensorFlow Serving's error
 * messages. */
enum rt_status srv_scheduler_admit(struct srv_scheduler *s, struct srv_job *job);
/* Runs a job immediately on the network thread if its cost is known to be small, its bucket is
 * empty and a worker is free. `done` is called before the function returns. Returns false if the
 * job did not run, or if a worker must repeat the run because it took too long or its outputs are
 * too large to be encoded on the network thread. In both cases, the caller still owns the job. */
bool srv_scheduler_run_inline(struct srv_scheduler *s, struct srv_job *job);
/* Submits a list of jobs, linked by `next`, such as the jobs of a turn. Takes the lock once and
 * wakes at most one worker. */
void srv_scheduler_submit(struct srv_scheduler *s, struct srv_job *first);
/* Makes batches run without waiting for more jobs. Called when no more requests will arrive. */
void srv_scheduler_hurry(struct srv_scheduler *s);
/* Completes all queued jobs with the status `code` and the error message `text`. Called at the end
 * of a drain. Returns the number of these jobs. */
int srv_scheduler_refuse_all(struct srv_scheduler *s, enum rt_status code, const char *text);
/* returns the number of queued and running jobs of all versions */
int srv_scheduler_jobs(struct srv_scheduler *s);
/* returns the number of queued jobs of the model queue */
int srv_model_queue_jobs(struct srv_model_queue *l);

#endif
