/*
 * A thread that frees the feeds of failed jobs. Many jobs may fail at the same time, for example
 * when their deadlines pass while they are queued. Freeing millions of strings takes about a
 * second. The thread that completes the jobs passes their feeds to this thread, so that no response
 * waits until the feeds of other jobs are freed.
 *
 * Owner: the scheduler. The feeds stay charged to the budget until they are freed, so the budget
 * limits how much memory waits for the thread.
 */
#ifndef SRV_FEED_RECLAIMER_H
#define SRV_FEED_RECLAIMER_H

#include "runtime/base/thread.h"
#include "server/batching/job.h"

struct srv_reclaimed_feeds;

struct srv_feed_reclaimer {
    struct rt_mutex mu;
    struct rt_cond more;
    struct srv_reclaimed_feeds *first; /* guarded by mu, as is `stopping` */
    bool stopping;
    bool is_running;
    pthread_t thread;
};

/* Initialises *r and starts its thread. Returns false if the thread could not be started. In both
 * cases, srv_feed_reclaimer_stop must be called. */
bool srv_feed_reclaimer_start(struct srv_feed_reclaimer *r);
/* Frees all feeds that the thread has received, and ends the thread. */
void srv_feed_reclaimer_stop(struct srv_feed_reclaimer *r);
/* Passes the feeds of a failed job and their charge to the thread. The job then has no feeds. Does
 * nothing if the feeds are small, or if memory runs out. May be called on any thread. */
void srv_feed_reclaimer_take(struct srv_feed_reclaimer *r, struct srv_job *job);

#endif
