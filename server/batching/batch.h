/*
 * Jobs that run as one: their inputs are merged along dimension 0, padded where the batching
 * parameters want it, and every job gets its rows of the outputs. A batch that fails because of its
 * data is run again in halves, so that only the jobs at fault fail.
 *
 * Threads: the worker's that runs the batch.
 */
#ifndef SRV_BATCH_H
#define SRV_BATCH_H

#include "server/batching/job.h"

struct srv_batch {
    struct srv_job *first; /* by `next`; of one call, the same types and ranks */
    int n_jobs;
    int64_t rows;           /* of the jobs together */
    int64_t run_rows;       /* padded: copies of the last job's first row are run with them */
    bool needs_row_wise;    /* merged because of the proof, which must still hold when it runs */
    struct rt_arena *arena; /* of the worker; NULL: a batch of one, as it is */
    struct rt_pool *pool;   /* where merged inputs live */
};

struct srv_batch_verdict {
    bool learn;       /* the time says something about the cost */
    bool never_merge; /* the outputs do not follow the rows, or are not proved to any more */
    bool halve_limit; /* memory was too small for so many rows */
};

/* Every job has its status, and its outputs when that is RT_OK. */
struct srv_batch_verdict srv_batch_run(struct srv_batch *b);
/* One job by itself. */
void srv_batch_run_job(struct srv_job *job);

/*
 * Whether tensors that differ in dimensions >= 1 alone can be merged by padding: every dimension to
 * the largest, with the tensor's own first element. TensorFlow Serving's limits.
 */
bool srv_batch_can_pad(const struct rt_tensor *t);

#endif
