#include "server/batching/queue_shares.h"

#include <stdlib.h>
#include <string.h>

#include "server/batching/scheduler_core.h"

enum { WAYS = 8 }; /* number of shares among which a client's share is searched for */

struct srv_queue_shares {
    double part;
    size_t n_sets;
    struct srv_queue_share common;
    struct srv_queue_share share[]; /* n_sets * WAYS shares */
};

struct srv_queue_shares *srv_queue_shares_new(double part, int64_t n_clients)
{
    const size_t n_sets = ((size_t)n_clients + WAYS - 1) / WAYS;
    struct srv_queue_shares *s = NULL;

    if (n_sets < (SIZE_MAX - sizeof *s) / (WAYS * sizeof s->share[0]))
        s = calloc(1, sizeof *s + n_sets * WAYS * sizeof s->share[0]);
    if (s) {
        s->part = part;
        s->n_sets = n_sets;
    }
    return s;
}

void srv_queue_shares_free(struct srv_queue_shares *s)
{
    free(s);
}

struct srv_queue_share *srv_queue_shares_find(struct srv_queue_shares *s,
                                              const struct srv_quota_client *client,
                                              const struct srv_core_model_queue *queue)
{
    struct srv_queue_share *unused = NULL;
    uint64_t set;

    memcpy(&set, client->tag, sizeof set);
    set += (uintptr_t)queue / sizeof *queue; /* a client's shares of several queues are apart */
    struct srv_queue_share *first = &s->share[set % s->n_sets * WAYS];
    for (struct srv_queue_share *at = first; at < first + WAYS; at++) {
        if (at->n_jobs && at->queue == queue &&
            memcmp(at->client.tag, client->tag, sizeof client->tag) == 0)
            return at;
        if (!at->n_jobs && !unused)
            unused = at;
    }
    if (!unused)
        return &s->common;
    unused->client = *client;
    unused->queue = queue;
    return unused;
}

bool srv_queue_shares_is_common(const struct srv_queue_shares *s,
                                const struct srv_queue_share *share)
{
    return share == &s->common;
}

bool srv_queue_shares_is_full(const struct srv_queue_shares *s, const struct srv_queue_share *share,
                              const struct srv_core_settings *settings,
                              const struct srv_core_bucket *b, int64_t rows, size_t bytes)
{
    const struct srv_core_policy *p = b->model_queue->policy;
    double jobs = (double)settings->max_model_queue_jobs;

    if (!share->n_jobs)
        return false;
    if (p->max_jobs && (double)p->max_jobs < jobs)
        jobs = (double)p->max_jobs;
    if ((double)share->n_jobs + 1 > s->part * jobs ||
        (double)share->n_bytes + (double)bytes > s->part * (double)settings->max_model_queue_bytes)
        return true;
    return p->max_queue_batches && b->queue && b->merges &&
           (double)share->n_rows + (double)rows >
               s->part * (double)p->max_queue_batches * (double)srv_core_row_limit(b);
}
