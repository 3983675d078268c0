#include "server/batching/buckets.h"

#include <stdlib.h>
#include <string.h>

#include "server/batching/batch.h"

enum {
    SMALL_BYTES = 1 << 20,
    MAX_IDLE_BUCKETS = 64,
};

static const struct rt_signature no_signature = {.name = "", .method_name = ""};
const struct rt_model_signature srv_undecoded = {.def = &no_signature, .is_dynamic = true};

static bool may_merge(const struct srv_model_queue *mq, const struct srv_call_queue *q,
                      const struct srv_job *job)
{
    return q && !q->never_merge && job->n_rows > 0 && job->n_feeds > 0 && job->n_fetches > 0 &&
           srv_batching_merges(mq->batching, srv_queued_signature(job)->def->name, q->rowwise) &&
           (mq->policy.max_rows > 1 || mq->policy.n_sizes);
}

/* Returns whether the job is small enough to run on a spare worker. */
static bool is_small(const struct srv_job *job)
{
    return job->kind == SRV_JOB_RUN && job->body_bytes < SMALL_BYTES;
}

/* Builds the part of a bucket's key that describes one feed. If `pads` is set, the key omits the
 * lengths of dimensions that padding can equalise. */
static struct srv_feed_key key_of(const struct rt_tensor *t, bool has_rows, bool pads)
{
    struct srv_feed_key k = {.dtype = t->dtype, .rank = t->rank};
    for (int d = has_rows; d < t->rank; d++)
        k.inner[d] = has_rows && pads && srv_batch_can_pad(t) ? -1 : t->dim[d];
    return k;
}

static uint64_t hash_of(const struct srv_job *job)
{
    const struct rt_model_signature *sig = srv_queued_signature(job);
    bool has_rows = job->n_rows > 0, pads = job->version->model_queue->batching->pads;
    uint64_t h = (uintptr_t)sig->call ^ (uint64_t)has_rows;
    if (sig->writes)
        return 0;
    for (int i = 0; i < job->n_feeds; i++) {
        struct srv_feed_key k = key_of(&job->feeds[i], has_rows, pads);
        h = (h ^ k.dtype ^ ((uint64_t)k.rank << 8)) * UINT64_C(0x9e3779b97f4a7c15);
        for (int d = 0; d < k.rank; d++)
            h = ((h ^ (uint64_t)k.inner[d]) * UINT64_C(0x9e3779b97f4a7c15)) ^ (h >> 29);
    }
    return h;
}

static bool fits(const struct srv_bucket *b, const struct srv_job *job)
{
    const struct rt_model_signature *sig = srv_queued_signature(job);
    bool pads = job->version->model_queue->batching->pads;
    if (!b->queue)
        return sig->writes;
    if (sig->writes || b->core.is_small != is_small(job) ||
        b->core.is_uneven != (job->kind != SRV_JOB_RUN) || b->queue->call != sig->call ||
        b->queue->rowwise != sig->rowwise || b->has_rows != (job->n_rows > 0) ||
        b->n_feeds != job->n_feeds)
        return false;
    for (int i = 0; i < b->n_feeds; i++) {
        struct srv_feed_key k = key_of(&job->feeds[i], b->has_rows, pads);
        if (k.dtype != b->feeds[i].dtype || k.rank != b->feeds[i].rank ||
            memcmp(k.inner, b->feeds[i].inner, sizeof k.inner) != 0)
            return false;
    }
    return true;
}

struct srv_call_queue *srv_call_queue_of(struct srv_model_queue *mq,
                                         const struct rt_model_signature *sig)
{
    for (struct srv_call_queue *q = mq->queues; q; q = q->next)
        if (q->call == sig->call && q->rowwise == sig->rowwise)
            return q;
    struct srv_call_queue *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    *q = (struct srv_call_queue){.next = mq->queues, .call = sig->call, .rowwise = sig->rowwise};
    mq->queues = q;
    return q;
}

static void forget_oldest(struct srv_model_queue *mq)
{
    struct srv_core_bucket *oldest = NULL;
    for (struct srv_core_bucket *b = mq->core.buckets; b; b = b->next)
        if (!b->head && !b->running && (!oldest || b->used_ns < oldest->used_ns))
            oldest = b;
    if (!oldest)
        return;
    srv_core_bucket_remove(oldest);
    mq->n_buckets--;
    free(oldest);
}

/* Returns whether a specialisation of `call` for `rows` rows has been compiled. With several GPUs,
 * it may have been compiled for another one than the batch's. The scheduler asks only if batches
 * are not padded, and batches on GPUs are padded to sizes that are compiled for each GPU. */
static bool is_compiled(const void *call, int64_t rows)
{
    return rt_callable_is_compiled(call, rows);
}

struct srv_bucket *srv_bucket_of(const struct srv_job *job)
{
    const struct rt_model_signature *sig = srv_queued_signature(job);
    struct srv_model_queue *mq = job->version->model_queue;
    uint64_t hash = hash_of(job);
    int n_feeds = sig->writes ? 0 : job->n_feeds;

    for (struct srv_core_bucket *o = mq->core.buckets; o; o = o->next) {
        struct srv_bucket *b = (struct srv_bucket *)o;
        if (b->hash == hash && fits(b, job))
            return b;
    }
    if (mq->n_buckets >= MAX_IDLE_BUCKETS)
        forget_oldest(mq);
    struct srv_call_queue *q = sig->writes ? NULL : srv_call_queue_of(mq, sig);
    struct srv_bucket *b = calloc(1, sizeof *b + (size_t)n_feeds * sizeof b->feeds[0]);
    if (!b || (!q && !sig->writes)) {
        free(b);
        return NULL;
    }
    srv_core_bucket_init(&b->core, &mq->core, q ? &q->core : NULL, may_merge(mq, q, job),
                         sig->writes);
    b->core.is_small = q && is_small(job);
    b->core.is_uneven = job->kind != SRV_JOB_RUN;
    b->core.prefers = is_compiled;
    b->core.of = sig->call;
    b->hash = hash;
    b->queue = q;
    b->has_rows = job->n_rows > 0;
    b->n_feeds = n_feeds;
    for (int i = 0; i < n_feeds; i++)
        b->feeds[i] = key_of(&job->feeds[i], b->has_rows, mq->batching->pads);
    mq->n_buckets++;
    return b;
}

void srv_buckets_stop_merging(struct srv_model_queue *mq, struct srv_call_queue *q)
{
    q->never_merge = true;
    for (struct srv_core_bucket *o = mq->core.buckets; o; o = o->next)
        if (((struct srv_bucket *)o)->queue == q)
            o->merges = false;
}

void srv_buckets_clear(struct srv_model_queue *mq)
{
    for (struct srv_core_bucket *b = mq->core.buckets, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    for (struct srv_call_queue *q = mq->queues, *next; q; q = next) {
        next = q->next;
        free(q);
    }
    mq->core.buckets = NULL;
    mq->queues = NULL;
}
