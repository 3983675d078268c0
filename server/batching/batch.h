/*
 * A batch is a list of jobs that run as one. The inputs of the jobs are merged along dimension 0
 * and padded where the batching parameters say so; every job gets its own rows of the outputs. A
 * batch that fails because of its data runs again in halves, so that only the jobs at fault fail.
 *
 * Threads: every function runs on the worker that runs the batch.
 */
#ifndef SRV_BATCH_H
#define SRV_BATCH_H

#include "server/batching/job.h"

struct srv_batch {
    struct srv_job *first; /* linked by `next`: the same call, types and ranks */
    int n_jobs;
    int64_t rows; /* rows of all jobs together */
    /* `rows` with padding: the padding rows repeat the first row of the last job */
    int64_t run_rows;
    /* merged because row-wise analysis allows it; the run checks the analysis for its own shapes */
    bool needs_row_wise;
    struct rt_arena *arena; /* the worker's; NULL: the batch is one job and is not merged */
    struct rt_pool *pool;   /* memory for the merged inputs */
};

struct srv_batch_verdict {
    bool learn; /* the duration of the run may enter the cost model */
    /* an output does not have one row per input row, or the call is no longer row-wise */
    bool never_merge;
    bool halve_limit; /* the run failed for lack of memory: halve the bucket's row limit */
};

/* Runs the batch. Afterwards every job has its status, and its outputs when the status is RT_OK. */
struct srv_batch_verdict srv_batch_run(struct srv_batch *b);
/* Runs one job that is not merged with others. */
void srv_batch_run_job(struct srv_job *job);

/*
 * Returns whether tensors that differ only in dimensions >= 1 can be merged by padding. Padding
 * extends every dimension to the largest of the batch and fills it with the tensor's own first
 * element. The limits are TensorFlow Serving's.
 */
bool srv_batch_can_pad(const struct rt_tensor *t);

#endif
