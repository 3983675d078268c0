/*
 * Which jobs may be merged with each other: a job goes to the bucket of those that run the same
 * call on inputs of the same types and of the same shapes behind the batch dimension. Jobs whose
 * signatures write variables share one bucket, in which none is merged.
 *
 * All that a lane holds is guarded by its scheduler's lock, which the caller of every function here
 * holds. A bucket without jobs is forgotten when its lane has many of them.
 */
#ifndef SRV_BUCKETS_H
#define SRV_BUCKETS_H

#include "server/batching/scheduler.h"
#include "server/config/batching.h"

struct srv_feed_key { /* of one feed: what must be the same in all jobs of a bucket */
    uint8_t dtype;
    int8_t rank;
    int64_t inner[RT_MAX_RANK];
};

/* Of one call, under whatever names signatures know it. */
struct srv_call_queue {
    struct srv_core_queue core;
    struct srv_call_queue *next; /* of the lane */
    const struct rt_callable *call;
    bool rowwise;
    bool never_merge; /* its outputs turned out not to follow the rows, or are not proved to */
};

struct srv_bucket {
    struct srv_core_bucket core; /* first */
    uint64_t hash;
    struct srv_call_queue *queue; /* NULL: of the lane's writers */
    bool has_rows;
    int since_halved; /* runs that went well since core.max_rows was set */
    int n_feeds;
    struct srv_feed_key feeds[];
};

struct srv_model_queue {
    struct srv_core_model_queue core;
    struct srv_scheduler *scheduler;
    struct srv_version *version;
    int n_buckets;                 /* guarded by mu */
    struct srv_call_queue *queues; /* likewise */
    struct srv_batching batching;
    struct srv_core_policy policy;
};

/* The job's bucket, made if there is none yet. NULL: out of memory. */
struct srv_bucket *srv_bucket_of(const struct srv_job *job);
/* The queue of the signature's call, made if there is none yet. NULL: out of memory. */
struct srv_call_queue *srv_call_queue_of(struct srv_model_queue *l,
                                         const struct rt_model_signature *sig);
/* No jobs of the queue's call are merged any more. */
void srv_buckets_stop_merging(struct srv_model_queue *l, struct srv_call_queue *q);
/* Frees the buckets and queues of a lane that has no jobs. */
void srv_buckets_clear(struct srv_model_queue *l);

#endif
