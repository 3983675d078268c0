/*
 * Shares of model queues (--quota_queue_share): what waits in a model queue for one client, and
 * whether another job of the client may join it. A client may take a part of each limit on the
 * queued jobs of a model queue. A client without a queued job may always queue one.
 *
 * The number of shares is fixed, so that clients with many keys need no memory. A share without
 * queued jobs may be taken over. A client that finds none uses one together with all other clients
 * that found none.
 *
 * Owner: the scheduler. Threads: the scheduler's lock guards all calls.
 */
#ifndef SRV_QUEUE_SHARES_H
#define SRV_QUEUE_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/quota.h"

struct srv_core_bucket;
struct srv_core_model_queue;
struct srv_core_settings;

/* The queued jobs of a client in a model queue. The scheduler core counts them (scheduler_core.h).
 */
struct srv_queue_share {
    int64_t n_jobs, n_rows;
    size_t n_bytes;
    struct srv_quota_client client;
    const struct srv_core_model_queue *queue;
};

struct srv_queue_shares;
/* `part` is the part of each limit that a client may take, from 0 to 1. Returns NULL if memory runs
 * out. */
struct srv_queue_shares *srv_queue_shares_new(double part, int64_t n_clients);
void srv_queue_shares_free(struct srv_queue_shares *s); /* `s` may be NULL */

/* Returns the client's share of the model queue. The caller must queue a job with this share, or
 * forget the share, before the next call. */
struct srv_queue_share *srv_queue_shares_find(struct srv_queue_shares *s,
                                              const struct srv_quota_client *client,
                                              const struct srv_core_model_queue *queue);
/* Returns whether the share is the one that clients without a share of their own use. */
bool srv_queue_shares_is_common(const struct srv_queue_shares *s,
                                const struct srv_queue_share *share);
/* Returns whether the share is too small for another job with `rows` rows and `bytes` bytes in the
 * bucket. */
bool srv_queue_shares_is_full(const struct srv_queue_shares *s, const struct srv_queue_share *share,
                              const struct srv_core_settings *settings,
                              const struct srv_core_bucket *b, int64_t rows, size_t bytes);

#endif
