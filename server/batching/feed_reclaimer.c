#include "server/batching/feed_reclaimer.h"

#include <stdlib.h>
#include <string.h>

#include "server/base/budget.h"

/* Smaller feeds are freed where they are. Freeing them takes a few microseconds, hardly longer than
 * passing them to the thread. */
enum { SMALL_FEED_BYTES = 4 << 10 };

struct srv_reclaimed_feeds {
    struct srv_reclaimed_feeds *next;
    struct srv_budget *budget; /* NULL if the feeds are not charged to a budget */
    size_t charged;
    int n;
    struct rt_tensor feeds[];
};

static void free_list(struct srv_reclaimed_feeds *first)
{
    for (struct srv_reclaimed_feeds *f = first, *next; f; f = next) {
        next = f->next;
        for (int i = 0; i < f->n; i++)
            rt_tensor_clear(&f->feeds[i]);
        if (f->budget)
            srv_budget_give(f->budget, &f->charged, f->charged);
        free(f);
    }
}

static void *reclaim(void *arg)
{
    struct srv_feed_reclaimer *r = arg;

    rt_mutex_lock(&r->mu);
    while (!r->stopping || r->first) {
        struct srv_reclaimed_feeds *first = r->first;
        if (!first) {
            rt_cond_wait(&r->more, &r->mu);
            continue;
        }
        r->first = NULL;
        rt_mutex_unlock(&r->mu);
        free_list(first);
        rt_mutex_lock(&r->mu);
    }
    rt_mutex_unlock(&r->mu);
    return NULL;
}

bool srv_feed_reclaimer_start(struct srv_feed_reclaimer *r)
{
    rt_mutex_init(&r->mu);
    rt_cond_init(&r->more);
    r->is_running = rt_thread_start(&r->thread, "slip-reclaim", reclaim, r) == 0;
    return r->is_running;
}

void srv_feed_reclaimer_stop(struct srv_feed_reclaimer *r)
{
    rt_mutex_lock(&r->mu);
    r->stopping = true;
    rt_cond_signal(&r->more);
    rt_mutex_unlock(&r->mu);
    if (r->is_running)
        pthread_join(r->thread, NULL);
    rt_cond_clear(&r->more);
    rt_mutex_clear(&r->mu);
}

void srv_feed_reclaimer_take(struct srv_feed_reclaimer *r, struct srv_job *job)
{
    struct srv_allowance *a = job->allowance;
    const size_t n = (size_t)job->n_feeds;

    if (!a || !n || a->charged < SMALL_FEED_BYTES)
        return;
    struct srv_reclaimed_feeds *f = malloc(sizeof *f + n * sizeof f->feeds[0]);
    if (!f)
        return;
    *f = (struct srv_reclaimed_feeds){.budget = a->budget, .charged = a->charged, .n = (int)n};
    memcpy(f->feeds, job->feeds, n * sizeof f->feeds[0]);
    memset(job->feeds, 0, n * sizeof f->feeds[0]);
    if (a->budget)
        *a->own -= a->charged;
    a->taken = a->charged = 0;
    rt_mutex_lock(&r->mu);
    f->next = r->first;
    r->first = f;
    rt_cond_signal(&r->more);
    rt_mutex_unlock(&r->mu);
}
