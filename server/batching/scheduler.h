/*
 * Batching and scheduling. scheduler_core.h contains the pure decisions, which use no clock and no
 * threads; batch.h merges, runs and splits a batch; sub_requests.h splits a request that is too
 * large for one batch; and buckets.h decides which jobs may be merged. The scheduler combines these
 * modules with threads, and has the model queues of the versions, the workers and one lock.
 *
 * Threads: network threads submit jobs (through srv_job_submit); the manager creates and frees
 * model queues.
 */
#ifndef SRV_SCHEDULER_H
#define SRV_SCHEDULER_H

#include "server/batching/job.h"
#include "server/server.h"

/* Creates the scheduler and its workers, and reads the batching parameters that the options
 * name. */
enum rt_status srv_scheduler_new(struct srv_server *server, int n_workers,
                                 struct srv_scheduler **out, struct rt_error *err);
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
 * texts. */
enum rt_status srv_scheduler_admit(struct srv_scheduler *s, struct srv_job *job);
/* Runs a job immediately on the network thread if its cost is known to be small, its bucket is
 * empty and a core is free; `done` is called before the function returns. If the job did not run,
 * or its run was stopped because it took too long for the network thread, returns false, and the
 * caller still owns the job. */
bool srv_scheduler_run_inline(struct srv_scheduler *s, struct srv_job *job);
/* Submits the jobs of a turn on behalf of srv_io_loop_end_turn. Takes the lock once and wakes at
 * most one worker. */
void srv_scheduler_submit(struct srv_scheduler *s, struct srv_job *first);
/* Makes batches run without waiting for more jobs. Called when no more requests will arrive. */
void srv_scheduler_hurry(struct srv_scheduler *s);
/* Completes all queued jobs with `code` and `text` at the end of a drain. Returns the number of
 * jobs. */
int srv_scheduler_refuse_all(struct srv_scheduler *s, enum rt_status code, const char *text);
/* returns the number of queued and running jobs of all versions */
int srv_scheduler_jobs(struct srv_scheduler *s);
/* returns the number of queued jobs of the model queue */
int srv_model_queue_jobs(struct srv_model_queue *l);

#endif
