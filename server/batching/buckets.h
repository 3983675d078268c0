/*
 * Buckets determine which jobs may be merged. The jobs of a bucket run the same callable on inputs
 * with equal data types and equal shapes apart from the batch dimension. Jobs whose signatures
 * write variables share one bucket and are never merged.
 *
 * Locking: the scheduler's lock guards everything in a model queue. The caller of every function
 * here holds this lock. A model queue with many buckets frees the least recently used bucket that
 * has no jobs.
 */
#ifndef SRV_BUCKETS_H
#define SRV_BUCKETS_H

#include "server/batching/scheduler.h"
#include "server/config/batching.h"

struct srv_feed_key { /* data type and shape of one feed in all jobs of a bucket */
    uint8_t dtype;
    int8_t rank;
    int64_t inner[RT_MAX_RANK];
};

/* The waiting batches of one callable. Signatures with the same callable share the queue. */
struct srv_call_queue {
    struct srv_core_queue core;
    struct srv_call_queue *next;
    const struct rt_callable *call;
    bool rowwise;
    /* An output did not have one row per input row, or the analysis found that rows depend on each
     * other. */
    bool never_merge;
};

struct srv_bucket {
    /* must be the first member, because its address is cast to struct srv_bucket * */
    struct srv_core_bucket core;
    uint64_t hash;
    /* NULL in the bucket for signatures that write variables */
    struct srv_call_queue *queue;
    bool has_rows;
    int since_halved; /* number of successful runs since core.max_rows was last changed */
    int n_feeds;
    struct srv_feed_key feeds[];
};

struct srv_model_queue {
    struct srv_core_model_queue core;
    struct srv_scheduler *scheduler;
    struct srv_core *scheduler_core; /* the scheduler core that contains the model queue */
    struct srv_version *version;
    /* number of core.buckets; guarded by the scheduler's mu */
    int n_buckets;
    /* one queue per callable; guarded by the scheduler's mu */
    struct srv_call_queue *queues;
    const struct srv_batching *batching;
    struct srv_core_policy policy;
    /* for each group that may run the version, the index of the group's device in the session */
    int8_t accelerator[SRV_CORE_GROUPS];
};

/* Returns the signature in whose queue the job waits. All jobs that wait to be decoded share a
 * signature without a name, so that no signature's statistics include decoding. */
extern const struct rt_model_signature srv_undecoded;
static inline const struct rt_model_signature *srv_queued_signature(const struct srv_job *job)
{
    return job->kind == SRV_JOB_DECODE ? &srv_undecoded : job->signature;
}

/* Returns the bucket for a job, and creates it if it does not exist. Returns NULL if memory runs
 * out. */
struct srv_bucket *srv_bucket_of(const struct srv_job *job);
/* Returns the queue for the callable of a signature, and creates it if it does not exist. Returns
 * NULL if memory runs out. */
struct srv_call_queue *srv_call_queue_of(struct srv_model_queue *mq,
                                         const struct rt_model_signature *sig);
/* Stops merging in all buckets of the queue `q`, now and in the future. */
void srv_buckets_stop_merging(struct srv_model_queue *mq, struct srv_call_queue *q);
/* Frees the buckets and queues of a model queue that has no jobs. */
void srv_buckets_clear(struct srv_model_queue *mq);

#endif
