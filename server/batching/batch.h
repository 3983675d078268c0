/*
 * A batch is a list of jobs that run as one. The inputs of the jobs are merged along dimension 0
 * and padded if the batching parameters require it; every job receives its own rows of the outputs.
 * A batch that fails because of its data is run again in halves, so that only the jobs that cause
 * the failure fail.
 *
 * Threads: all functions are called on the worker thread that runs the batch.
 */
#ifndef SRV_BATCH_H
#define SRV_BATCH_H

#include "server/batching/job.h"

struct srv_batch {
    /* the batch's jobs, linked by `next`; all have the same callable, data types and ranks */
    struct srv_job *first;
    int n_jobs;
    int64_t rows; /* total number of rows of the batch's jobs */
    /* number of rows including the padding rows, which are copies of the first row of the last
     * job */
    int64_t run_rows;
    /* whether the jobs may be merged only if row-wise analysis permits it; the merged run repeats
     * the analysis for its own shapes */
    bool needs_row_wise;
    /* arena of the worker, or NULL if the batch has only one job and nothing is merged */
    struct rt_arena *arena;
    struct rt_pool *pool; /* pool from which the merged inputs are allocated */
    /* Time at which the run of a single job is stopped even if the job's deadline is later. 0 means
     * that only the deadline applies. */
    int64_t end_ns;
    /* hook that is called when the run of a single job waits for another run, or NULL */
    const struct rt_wait_hook *on_wait;
};

struct srv_batch_verdict {
    /* the run succeeded, and the outputs of the batch's first job are larger than the job's
     * max_inline_bytes */
    bool has_large_outputs;
    bool learn; /* whether the duration of the run may be added to the cost model */
    /* an output does not have one row per input row, or the analysis found that rows depend on each
     * other */
    bool never_merge;
    /* the run failed for lack of memory, so the bucket's row limit should be halved */
    bool halve_limit;
};

/* Runs the batch. Afterwards every job has its status and, if that is RT_OK, its outputs. */
struct srv_batch_verdict srv_batch_run(struct srv_batch *b);
/* Runs one job by itself, without merging it with others. If end_ns is not 0 and is earlier than
 * the job's deadline, the run fails with DEADLINE_EXCEEDED at end_ns. `on_wait` may be NULL. */
void srv_batch_run_job(struct srv_job *job, int64_t end_ns, const struct rt_wait_hook *on_wait);

/* Returns whether the outputs of a completed run are larger than max_inline_bytes. Strings that
 * share memory are counted separately, because the job's `done` encodes each of them. */
bool srv_batch_has_large_outputs(const struct srv_job *job);

/*
 * Returns whether `t` can be padded, and so merged with tensors that differ from it only in
 * dimensions >= 1. Padding extends every dimension to the largest in the batch, and fills the new
 * elements with the tensor's first element. As in TensorFlow Serving, the rank is limited.
 */
bool srv_batch_can_pad(const struct rt_tensor *t);

#endif
