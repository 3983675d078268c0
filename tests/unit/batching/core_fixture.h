/*
 * A scheduler core with three model queues of two buckets each, for tests of its decisions.
 */
#ifndef TESTS_UNIT_BATCHING_CORE_FIXTURE_H
#define TESTS_UNIT_BATCHING_CORE_FIXTURE_H

#include "tests/support/test.h"

#include "server/batching/scheduler_core.h"

enum { N = 64 };

struct world {
    struct srv_core core;
    struct srv_core_policy policy;
    struct srv_core_queue queue[3]; /* queue[i] belongs to the callable of model_queue[i] */
    struct srv_core_model_queue model_queue[3];
    struct srv_core_bucket bucket[6]; /* model_queue[i] has the buckets 2 * i and 2 * i + 1 */
    struct srv_core_job job[N];
    int n;
};

static inline struct srv_core_settings usual(void)
{
    return (struct srv_core_settings){.patience_ns = 1000,
                                      .max_model_queue_jobs = 20,
                                      .max_jobs = 40,
                                      .max_model_queue_bytes = 1000,
                                      .max_bytes = 1500};
}

static inline void begin(struct world *w, struct srv_core_settings s)
{
    memset(w, 0, sizeof *w);
    srv_core_init(&w->core, &s);
    w->policy.max_rows = 8;
    for (int i = 0; i < 3; i++)
        srv_core_model_queue_init(&w->core, &w->model_queue[i], &w->policy);
    for (int i = 0; i < 6; i++)
        srv_core_bucket_init(&w->bucket[i], &w->model_queue[i / 2], &w->queue[i / 2], true, false);
}

static inline enum srv_core_admission put(struct world *w, int bucket, int64_t rows,
                                          int64_t deadline, int64_t now)
{
    struct srv_core_job *j = &w->job[w->n++];
    *j = (struct srv_core_job){.rows = rows, .bytes = 10, .deadline_ns = deadline};
    return srv_core_submit(&w->core, &w->bucket[bucket], j, now);
}

static inline int at(const struct world *w, const struct srv_core_job *j)
{
    return j ? (int)(j - w->job) : -1;
}

/* Returns a worker of `group`, which has n free workers. */
static inline const struct srv_core_worker *worker(int group, int n)
{
    static struct srv_core_worker w;
    w = (struct srv_core_worker){.group = group, .n_free = n};
    return &w;
}

/* Takes one batch from the scheduler core and asserts that it comes from `bucket` and has `n_jobs`
 * jobs. */
static inline struct srv_core_batch take(struct world *w, int64_t now, int bucket, int n_jobs)
{
    struct srv_core_batch b;
    struct srv_core_job *expired = NULL;
    assert_true(srv_core_next(&w->core, now, worker(0, 1), &b, &expired));
    assert_null(expired);
    assert_int_equal(b.bucket - w->bucket, bucket);
    assert_int_equal(b.n_jobs, n_jobs);
    return b;
}

#endif
