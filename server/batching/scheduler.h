/*
 * Batching and scheduling. scheduler_core.h holds the pure decisions (no clock, no threads),
 * batch.h merges, runs and splits a batch, pieces.h cuts a request that is too large for one,
 * buckets.h tells which jobs may be merged; here is the shell around them: queues of versions,
 * workers, one lock.
 *
 * Threads: submit from network threads (through srv_job_submit); lanes are made and ended by the
 * manager.
 */
#ifndef SRV_SCHEDULER_H
#define SRV_SCHEDULER_H

#include "server/batching/job.h"
#include "server/server.h"

/* Reads the batching parameters that the options name. */
enum rt_status srv_scheduler_new(struct srv_server *server, int n_workers,
                                 struct srv_scheduler **out, struct rt_error *err);
/* Jobs still queued are answered UNAVAILABLE; joins the workers. */
void srv_scheduler_free(struct srv_scheduler *s);

/* A version's queues, made before it is published; refused for batching parameters of its own that
 * are wrong. */
enum rt_status srv_model_queue_new(struct srv_scheduler *s, struct srv_version *v,
                                   struct srv_model_queue **out, struct rt_error *err);
/* After its last handle is gone: nothing of it is queued or runs any more. */
void srv_model_queue_free(struct srv_model_queue *l);

/* What --enable_batching=true asks of a request, with TensorFlow Serving's texts. */
enum rt_status srv_scheduler_admit(struct srv_scheduler *s, struct srv_job *job);
/* Network thread: runs the job here and now (done is called before this returns) when it is known
 * to be tiny, nothing waits before it and a core is free. False: it is the caller's still. */
bool srv_scheduler_run_inline(struct srv_scheduler *s, struct srv_job *job);
/* What srv_io_loop_end_turn does with the turn's jobs: one lock, at most one wake per idle worker.
 */
void srv_scheduler_submit(struct srv_scheduler *s, struct srv_job *first);
/* No more requests come: batches that wait for some start at once. */
void srv_scheduler_hurry(struct srv_scheduler *s);
/* Answers everything still queued with `code` and `text` (end of the drain): how many jobs. */
int srv_scheduler_refuse_all(struct srv_scheduler *s, enum rt_status code, const char *text);
int srv_scheduler_jobs(struct srv_scheduler *s);     /* queued and running */
int srv_model_queue_jobs(struct srv_model_queue *l); /* queued */

#endif
