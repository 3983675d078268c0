/*
 * The scheduler's decisions, pure: no clock, no threads, no memory of its own, no knowledge of
 * tensors. Everything is told the time, in nanoseconds, so that tests step it with integers.
 *
 * A bucket holds jobs that may be merged with each other. A lane is a model's version: lanes share
 * the workers fairly, by virtual time. A job waits in its bucket ordered by when it is due: its
 * deadline, or `patience` after it came, whichever is earlier, so that jobs with deadlines go first
 * without starving the others.
 *
 * Owner: the caller's structs, linked here while they are queued.
 * Threads: the caller locks.
 */
#ifndef SRV_SCHEDULER_CORE_H
#define SRV_SCHEDULER_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SRV_MAX_BATCH_SIZES = 1024 };

struct srv_core_bucket;
struct srv_core_model_queue;

struct srv_core_job {
    struct srv_core_job *next, *prev;
    struct srv_core_bucket *bucket;
    int64_t rows; /* 0: never merged */
    size_t bytes;
    int64_t deadline_ns; /* RT_NEVER: none */
    int64_t queued_ns;   /* set by submit */
    int64_t due_ns;
};

/* What a run of n rows costs: a + b n, learned from runs, the old ones fading. */
struct srv_cost {
    double w, x, y, xx, xy; /* weighted sums */
    int64_t runs;
    double fastest; /* of the recent runs, ns */
};
void srv_cost_learn(struct srv_cost *c, int64_t rows, int64_t ns);
int64_t srv_cost_of(const struct srv_cost *c, int64_t rows); /* 0: nothing is known yet */

/* How the jobs of a lane are merged. */
struct srv_core_policy {
    int64_t max_rows;          /* of a merged batch; at least 1 */
    int64_t timeout_ns;        /* how long a batch that is not full waits for more; 0: not at all */
    int64_t max_queue_batches; /* waiting, per queue; 0: no limit of their own */
    bool fixed;  /* batches are as large as they can be: not shared among idle workers, not smaller
                    for a member's deadline; jobs wait until their deadline itself has come */
    int n_sizes; /* allowed batch sizes, ascending: a merged batch is padded to one */
    int64_t sizes[SRV_MAX_BATCH_SIZES];
};

/* Buckets whose waiting batches count against one limit: of the same call. */
struct srv_core_queue {
    int64_t n_batches; /* that the queued jobs make; the last may still take more */
};

struct srv_core_bucket {
    struct srv_core_model_queue *model_queue;
    struct srv_core_queue *queue; /* NULL: no limit of batches */
    struct srv_core_bucket *next; /* of the lane */
    struct srv_core_job *head, *tail;
    int64_t n_rows;               /* queued */
    int64_t n_batches, open_rows; /* that they make, and the rows in the last of them */
    int n_jobs, running;
    bool merges;   /* its jobs may run together */
    bool is_small; /* so are its jobs: see srv_core_next_small */
    bool alone;    /* nothing else of the lane runs beside one of its jobs; in order of arrival */
    int64_t max_rows; /* 0: the policy's */
    int64_t used_ns;  /* when a job last came */
    struct srv_cost cost;
    /* Whether runs of so many rows are the faster ones; NULL: all are alike. */
    bool (*prefers)(const void *of, int64_t rows);
    const void *of;
};

struct srv_core_model_queue {
    const struct srv_core_policy *policy;
    struct srv_core_model_queue *next, *prev; /* among those with jobs */
    struct srv_core_bucket *buckets;
    int64_t virtual_ns; /* time used, for fairness */
    int running, n_jobs;
    size_t n_bytes;
    bool alone_running;
};

struct srv_core_settings {
    int64_t patience_ns; /* see above */
    int64_t max_model_queue_jobs, max_jobs;
    size_t max_model_queue_bytes, max_bytes;
    int max_running; /* batches at a time; 0: as many as there are workers */
};

struct srv_core {
    struct srv_core_settings settings;
    struct srv_core_model_queue *active; /* with jobs queued */
    int64_t virtual_ns;                  /* of the lane served last */
    int64_t soonest_ns;                  /* no queued deadline is before this */
    int64_t swept_ns;
    int n_jobs, running;
    size_t n_bytes;
    bool hurries; /* nothing more will come: no batch waits for it */
};

void srv_core_init(struct srv_core *c, const struct srv_core_settings *settings);
/* policy: outlives the lane. */
void srv_core_model_queue_init(struct srv_core *c, struct srv_core_model_queue *l,
                               const struct srv_core_policy *policy);
/* queue: may be NULL. */
void srv_core_bucket_init(struct srv_core_bucket *b, struct srv_core_model_queue *l,
                          struct srv_core_queue *queue, bool merges, bool alone);
/* It must be empty and not running. */
void srv_core_bucket_remove(struct srv_core_bucket *b);

enum srv_core_admission {
    SRV_CORE_QUEUED,
    SRV_CORE_EXPIRED,
    SRV_CORE_FULL,         /* too many jobs or bytes wait */
    SRV_CORE_FULL_BATCHES, /* too many batches wait */
};
/* Queues `j` (rows, bytes, deadline_ns filled) in `b`. */
enum srv_core_admission srv_core_submit(struct srv_core *c, struct srv_core_bucket *b,
                                        struct srv_core_job *j, int64_t now);

/* How many more rows the queue of `b` takes when they need not stay together. */
int64_t srv_core_free_rows(const struct srv_core_bucket *b);
/* Rows that the last batch waiting in `b` still takes; 0: none waits. */
int64_t srv_core_open_batch_rows(const struct srv_core_bucket *b);

struct srv_core_batch {
    struct srv_core_bucket *bucket; /* NULL: nothing to run now */
    struct srv_core_job *jobs;      /* in order, by `next` */
    int n_jobs;
    int64_t rows;       /* of the jobs; 0: one job without rows */
    int64_t run_rows;   /* rows, padded to an allowed size */
    int64_t charged_ns; /* for srv_core_done */
};
/*
 * Takes what a free worker should run now. `free_workers` counts the asking one: a batch whose rows
 * cost more than its start is shared among them. *late: jobs that cannot make their deadline any
 * more, by `next`; they are not queued any more, whether or not there is a batch.
 */
bool srv_core_next(struct srv_core *c, int64_t now, int free_workers, struct srv_core_batch *out,
                   struct srv_core_job **expired);
/* The same of small buckets alone, whose runs are known to be short: for a worker beside those
 * that settings.max_running counts. */
bool srv_core_next_small(struct srv_core *c, int64_t now, struct srv_core_batch *out,
                         struct srv_core_job **expired);
/* The batch ran for run_ns; `learn`: the time tells something (it did not fail). */
void srv_core_done(struct srv_core *c, const struct srv_core_batch *batch, int64_t run_ns,
                   bool learn);

/* A job that costs less than max_ns, whose bucket is empty, may run where it is, now: it is counted
 * as a running batch, to be ended by srv_core_done. */
bool srv_core_begin_inline(struct srv_core *c, struct srv_core_bucket *b, struct srv_core_job *j,
                           int n_workers, int64_t max_ns, struct srv_core_batch *out);

/* There is a batch that could start now. */
bool srv_core_is_ready(const struct srv_core *c, int64_t now);
/* Unlinks the jobs whose deadline has passed; by `next`. */
struct srv_core_job *srv_core_expired(struct srv_core *c, int64_t now);
/* When to look again without being asked: RT_NEVER, or a time at which a deadline passes or a
 * waiting batch is due. */
int64_t srv_core_next_timer(const struct srv_core *c);
/* Unlinks everything that is queued; by `next`. */
struct srv_core_job *srv_core_take_all(struct srv_core *c);

#endif
