/*
 * A batch is a list of jobs that run together. The jobs' inputs are merged along dimension 0, and
 * padded if the batching parameters require it. Each job receives its own rows of the outputs. If a
 * batch fails because of its data, its halves run separately, so that only the jobs that cause the
 * failure fail.
 *
 * Threads: all functions are called on the worker thread that runs the batch.
 */
#ifndef SRV_BATCH_H
#define SRV_BATCH_H

#include "server/batching/job.h"

struct srv_batch {
    /* linked by `next`; all jobs have the same callable, data types and ranks */
    struct srv_job *first;
    int n_jobs;
    int64_t rows;
    /* number of rows including padding, which repeats the first row of the last job */
    int64_t run_rows;
    /* Whether the jobs may be merged only if row-wise analysis permits it. The merged run repeats
     * the analysis for its own shapes. */
    bool needs_row_wise;
    /* the worker's arena, or NULL if the batch has only one job */
    struct rt_arena *arena;
    struct rt_pool *pool; /* allocates the merged inputs */
    size_t input_limit;   /* limit on the bytes of all merged inputs; 0 means no limit */
    /* Time at which the run of a single job is stopped even if the job's deadline is later. 0 means
     * that only the deadline applies. */
    int64_t end_ns;
    /* hook for a run of a single job that waits for another run, or NULL */
    const struct rt_wait_hook *on_wait;
    struct rt_trace *trace; /* trace of a merged run, or NULL */
};

struct srv_batch_verdict {
    /* the run succeeded, but the outputs of the first job exceed its max_inline_bytes */
    bool has_large_outputs;
    bool learn; /* whether the duration of the run may be added to the cost model */
    /* An output does not have one row per input row, or the analysis found that rows depend on each
     * other. */
    bool never_merge;
    /* the run failed for lack of memory, so the bucket's row limit should be halved */
    bool halve_limit;
};

/* Runs the batch, and sets the status of every job. If the status is RT_OK, the outputs of the job
 * are also set. */
struct srv_batch_verdict srv_batch_run(struct srv_batch *b);
/* Runs one job without merging. If end_ns is not 0, the run fails with DEADLINE_EXCEEDED at end_ns
 * or at the job's deadline, whichever is earlier. `on_wait` may be NULL. */
void srv_batch_run_job(struct srv_job *job, int64_t end_ns, const struct rt_wait_hook *on_wait);

/* Returns whether the outputs of a completed run exceed max_inline_bytes. Strings that share memory
 * are counted separately, because the job's `done` encodes each of them. */
bool srv_batch_has_large_outputs(const struct srv_job *job);

/*
 * Returns whether `t` can be padded, and thus merged with tensors that differ from `t` only in
 * inner dimensions. Padding extends each inner dimension to its maximum in the batch, and fills the
 * new elements with the tensor's first element. The rank is limited, as in TensorFlow Serving.
 */
bool srv_batch_can_pad(const struct rt_tensor *t);

#endif
