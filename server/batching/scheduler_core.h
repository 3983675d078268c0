/*
 * The scheduler's decisions as pure functions: no clock, no threads, no allocation, no knowledge of
 * tensors. The caller passes the time in nanoseconds, so that tests step it with integers.
 *
 * A bucket holds jobs that may be merged with each other. A model queue belongs to one version of a
 * model; model queues share the workers fairly, by virtual time. Jobs wait in their bucket in the
 * order of their due times. A job is due at its deadline, or `patience_ns` after its arrival if
 * that is earlier: jobs with deadlines go first without starving the others.
 *
 * Owner: the caller owns the structs; they are linked here while they are queued.
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
    int64_t queued_ns;   /* set by srv_core_submit */
    int64_t due_ns;
};

/* Cost model of a run of n rows: a + b n nanoseconds, fitted to measured runs; older runs weigh
 * less. */
struct srv_cost {
    double w, x, y, xx, xy; /* weighted sums of the least-squares fit */
    int64_t runs;
    double fastest; /* the fastest recent run, ns */
};
void srv_cost_learn(struct srv_cost *c, int64_t rows, int64_t ns);
int64_t srv_cost_of(const struct srv_cost *c, int64_t rows); /* 0: nothing was measured yet */

/* How the jobs of a model queue are merged. */
struct srv_core_policy {
    int64_t max_rows;          /* row limit of a merged batch; at least 1 */
    int64_t timeout_ns;        /* how long an incomplete batch waits for more jobs; 0: not at all */
    int64_t max_queue_batches; /* limit of waiting batches per srv_core_queue; 0: none */
    /* TensorFlow Serving's rule: batches are as large as possible. They are not shared among idle
     * workers and not made smaller for a member's deadline, and a job is dropped only when its
     * deadline itself has come. */
    bool fixed;
    /* number of allowed batch sizes, ascending: a merged batch is padded to one of them */
    int n_sizes;
    int64_t sizes[SRV_MAX_BATCH_SIZES];
};

/* The buckets of one call, whose waiting batches count against one limit. */
struct srv_core_queue {
    /* batches that the queued jobs make; the last one may still take more rows */
    int64_t n_batches;
};

struct srv_core_bucket {
    struct srv_core_model_queue *model_queue;
    struct srv_core_queue *queue; /* NULL: no limit of batches */
    struct srv_core_bucket *next; /* next bucket of the model queue */
    struct srv_core_job *head, *tail;
    int64_t n_rows; /* queued rows */
    /* batches that the queued jobs make, and the rows in the last of them */
    int64_t n_batches, open_rows;
    int n_jobs, running;
    bool merges;   /* jobs of this bucket may run together */
    bool is_small; /* the requests of this bucket are small: see srv_core_next_small */
    /* a job of this bucket runs without any other job of the model queue, in order of arrival */
    bool alone;
    int64_t max_rows; /* row limit of this bucket; 0: the policy's */
    int64_t used_ns;  /* arrival of the last job */
    struct srv_cost cost;
    /* Returns whether a batch of `rows` rows is one of the faster sizes (its specialisation is
     * compiled). NULL: all sizes are alike. */
    bool (*prefers)(const void *of, int64_t rows);
    const void *of;
};

struct srv_core_model_queue {
    const struct srv_core_policy *policy;
    struct srv_core_model_queue *next, *prev; /* linked while it has jobs */
    struct srv_core_bucket *buckets;
    int64_t virtual_ns; /* worker time used, for fairness */
    int running, n_jobs;
    size_t n_bytes;
    bool alone_running;
};

struct srv_core_settings {
    int64_t patience_ns; /* a job is due at the latest this long after its arrival */
    int64_t max_model_queue_jobs, max_jobs;
    size_t max_model_queue_bytes, max_bytes;
    int max_running; /* limit of batches at a time; 0: as many as there are workers */
};

struct srv_core {
    struct srv_core_settings settings;
    struct srv_core_model_queue *active; /* model queues that have jobs */
    int64_t virtual_ns;                  /* virtual time of the model queue served last */
    int64_t soonest_ns;                  /* no queued deadline is before this time */
    int64_t swept_ns;
    int n_jobs, running;
    size_t n_bytes;
    bool hurries; /* no more jobs will come: no batch waits for more */
};

void srv_core_init(struct srv_core *c, const struct srv_core_settings *settings);
/* `policy` must outlive the model queue. */
void srv_core_model_queue_init(struct srv_core *c, struct srv_core_model_queue *l,
                               const struct srv_core_policy *policy);
/* `queue` may be NULL. */
void srv_core_bucket_init(struct srv_core_bucket *b, struct srv_core_model_queue *l,
                          struct srv_core_queue *queue, bool merges, bool alone);
/* The bucket must be empty and have no running batch. */
void srv_core_bucket_remove(struct srv_core_bucket *b);

enum srv_core_admission {
    SRV_CORE_QUEUED,
    SRV_CORE_EXPIRED,
    SRV_CORE_FULL,         /* too many jobs or bytes are queued */
    SRV_CORE_FULL_BATCHES, /* too many batches are queued */
};
/* Queues `j`, whose rows, bytes and deadline_ns are set, in `b`. */
enum srv_core_admission srv_core_submit(struct srv_core *c, struct srv_core_bucket *b,
                                        struct srv_core_job *j, int64_t now);

/* Returns how many more rows the queue of `b` takes when the rows need not stay together. */
int64_t srv_core_free_rows(const struct srv_core_bucket *b);
/* Returns how many rows the last waiting batch of `b` still takes; 0: no batch waits. */
int64_t srv_core_open_batch_rows(const struct srv_core_bucket *b);

struct srv_core_batch {
    struct srv_core_bucket *bucket; /* NULL: there is nothing to run now */
    struct srv_core_job *jobs;      /* the jobs in order, linked by `next` */
    int n_jobs;
    int64_t rows;       /* rows of all jobs; 0: one job without rows */
    int64_t run_rows;   /* `rows` padded to an allowed size */
    int64_t charged_ns; /* expected cost, which srv_core_done replaces by the measured one */
};
/*
 * Takes the batch that a free worker should run now. `free_workers` includes the calling worker: a
 * batch whose rows cost more than its start is shared among the free workers. *expired receives, by
 * `next`, the jobs that cannot meet their deadlines any more. They have left the queue even when
 * the function returns false.
 */
bool srv_core_next(struct srv_core *c, int64_t now, int free_workers, struct srv_core_batch *out,
                   struct srv_core_job **expired);
/* Like srv_core_next, but only for small buckets whose runs are known to be short. The spare worker
 * calls this function; settings.max_running does not limit it. */
bool srv_core_next_small(struct srv_core *c, int64_t now, struct srv_core_batch *out,
                         struct srv_core_job **expired);
/* Ends a batch that ran for run_ns. `learn`: the cost model takes the measured time, because the
 * run did not fail. */
void srv_core_done(struct srv_core *c, const struct srv_core_batch *batch, int64_t run_ns,
                   bool learn);

/* Lets a job whose bucket is empty and whose cost is at most max_ns run at once on the calling
 * thread. The job counts as a running batch until srv_core_done. */
bool srv_core_begin_inline(struct srv_core *c, struct srv_core_bucket *b, struct srv_core_job *j,
                           int n_workers, int64_t max_ns, struct srv_core_batch *out);

/* Returns whether a batch could start now. */
bool srv_core_is_ready(const struct srv_core *c, int64_t now);
/* Unlinks the jobs whose deadlines have passed and returns them, linked by `next`. */
struct srv_core_job *srv_core_expired(struct srv_core *c, int64_t now);
/* Returns when the timer must look at the queues: the time of a deadline or of a waiting batch that
 * becomes due; RT_NEVER: not at all. */
int64_t srv_core_next_timer(const struct srv_core *c);
/* Unlinks all queued jobs and returns them, linked by `next`. */
struct srv_core_job *srv_core_take_all(struct srv_core *c);

#endif
