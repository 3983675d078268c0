/*
 * Batching and scheduling. scheduler_core.h holds the pure decisions (no clock, no threads),
 * batch.h merges, runs and splits a batch, sub_requests.h splits a request that is too large for
 * one batch, buckets.h decides which jobs may be merged. The scheduler is the shell around them:
 * the model queues of the versions, the workers and one lock.
 *
 * Threads: network threads submit (through srv_job_submit); the manager makes and frees model
 * queues.
 */
#ifndef SRV_SCHEDULER_H
#define SRV_SCHEDULER_H

#include "server/batching/job.h"
#include "server/server.h"

/* Creates the scheduler and its workers; reads the batching parameters that the options name. */
enum rt_status srv_scheduler_new(struct srv_server *server, int n_workers,
                                 struct srv_scheduler **out, struct rt_error *err);
/* Answers the jobs that are still queued with UNAVAILABLE and joins the workers. */
void srv_scheduler_free(struct srv_scheduler *s);

/* Creates the model queue of a version before the version is published. Fails when the version's
 * own batching parameters are invalid. */
enum rt_status srv_model_queue_new(struct srv_scheduler *s, struct srv_version *v,
                                   struct srv_model_queue **out, struct rt_error *err);
/* Call after the last handle of the version is gone, when none of its jobs is queued or running. */
void srv_model_queue_free(struct srv_model_queue *l);

/* Checks a request as --enable_batching=true demands, with TensorFlow Serving's error texts. */
enum rt_status srv_scheduler_admit(struct srv_scheduler *s, struct srv_job *job);
/* Network thread: runs the job at once when its cost is known to be small, its bucket is empty and
 * a core is free; `done` is called before the function returns. False: the caller still owns the
 * job. */
bool srv_scheduler_run_inline(struct srv_scheduler *s, struct srv_job *job);
/* Submits the jobs of a turn for srv_io_loop_end_turn: takes the lock once and wakes at most one
 * worker. */
void srv_scheduler_submit(struct srv_scheduler *s, struct srv_job *first);
/* Tells the scheduler that no more requests come: batches stop waiting for more jobs. */
void srv_scheduler_hurry(struct srv_scheduler *s);
/* Answers all queued jobs with `code` and `text` at the end of a drain. Returns their number. */
int srv_scheduler_refuse_all(struct srv_scheduler *s, enum rt_status code, const char *text);
int srv_scheduler_jobs(struct srv_scheduler *s);     /* queued and running jobs */
int srv_model_queue_jobs(struct srv_model_queue *l); /* queued jobs */

#endif
