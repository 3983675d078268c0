/*
 * The scheduler's decisions, made by pure functions. They use no clock and no threads, allocate no
 * memory and access no tensors. The caller passes the time in nanoseconds, so tests can choose it.
 *
 * A bucket holds jobs that may be merged with each other. A model queue belongs to one version of a
 * model; model queues share the workers fairly, by virtual time. Jobs wait in their bucket in the
 * order of their levels, and at the same level in the order of their due times. A job is due at its
 * deadline, or `patience_ns` after its arrival if that is earlier, so that jobs with deadlines run
 * first without starving the others.
 *
 * Owner: the caller owns the structs. The scheduler core links them while they are queued.
 * Threads: the caller must guard all calls with one lock.
 */
#ifndef SRV_SCHEDULER_CORE_H
#define SRV_SCHEDULER_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/batching/cost.h"
#include "server/batching/free_worker.h"
#include "server/config/batching.h"

struct srv_core_bucket;
struct srv_core_model_queue;
struct srv_queue_share; /* queue_shares.h */

enum { SRV_CORE_LEVEL = 2 /* level of jobs without a priority */ };

struct srv_core_job {
    struct srv_core_job *next, *prev;
    struct srv_core_bucket *bucket;
    int64_t rows; /* number of rows, or 0 if the job is never merged */
    size_t bytes;
    int64_t deadline_ns; /* RT_NEVER if the job has no deadline */
    int64_t queued_ns;   /* set by srv_core_submit */
    int64_t due_ns;
    /* Jobs of a lower level run first within their model queue. srv_core_submit replaces 0, and any
     * level in a bucket whose jobs run in order of arrival, by srv_core_policy.level. */
    uint32_t level;
    struct srv_queue_share *share; /* counts the job while it is queued; may be NULL */
};

struct srv_core_policy {
    int64_t max_rows;   /* maximum number of rows of a batch, at least 1 */
    int64_t timeout_ns; /* time for which an incomplete batch waits for more jobs, or 0 */
    /* maximum number of waiting batches in each srv_core_queue; 0 means no limit */
    int64_t max_queue_batches;
    /* Whether to batch as TensorFlow Serving does. Batches are then as large as possible, even if
     * idle workers could share the rows. A job is dropped only after its deadline has passed. */
    bool fixed;
    /* Allowed batch sizes in ascending order. A merged batch is padded to one of these sizes. */
    int n_sizes;
    int64_t sizes[SRV_MAX_BATCH_SIZES];
    /* Preferred batch sizes in ascending order. When the waiting jobs make one of them exactly, the
     * batch need not wait for more jobs, and gets the largest of these sizes. */
    int n_preferred;
    int64_t preferred[SRV_MAX_PREFERRED_SIZES];
    /* Maximum numbers of queued jobs and of running batches of a model queue, and maximum time for
     * which a job may be queued. 0 means no limit besides those of srv_core_settings. */
    int64_t max_jobs, max_running, max_queued_ns;
    /* maximum number of running batches of a model queue on each group of workers, or 0 */
    int max_group_running;
    uint32_t level; /* level of jobs without a priority; 0 means SRV_CORE_LEVEL */
};
/* Sets *out to the policy that a model's batching parameters describe. */
void srv_core_policy_of(const struct srv_batching *b, struct srv_core_policy *out);

/* The queue of one callable, which may have several buckets. The limit on waiting batches applies
 * to all these buckets together. */
struct srv_core_queue {
    /* number of batches that the queued jobs will form, including incomplete batches */
    int64_t n_batches;
};

struct srv_core_bucket {
    struct srv_core_model_queue *model_queue;
    struct srv_core_queue *queue; /* NULL if the number of waiting batches is not limited */
    struct srv_core_bucket *next;
    struct srv_core_job *head, *tail;
    int64_t n_rows; /* total number of rows of the queued jobs */
    /* number of batches that the queued jobs will form, and number of rows of the last batch */
    int64_t n_batches, open_rows;
    int n_jobs, running;
    bool merges; /* whether jobs of this bucket may be merged */
    /* whether the bucket's requests are small, so that srv_core_next_spare may run them */
    bool is_small;
    /* Whether the durations of the bucket's runs say nothing about the next run, because the bucket
     * contains undecoded bodies of any size. Its jobs are dropped only after their deadlines. */
    bool is_uneven;
    /* whether the outputs of the last run were too large for an inline run */
    bool has_large_outputs;
    /* Whether the bucket's jobs run in order of arrival. While one of these jobs runs, no other job
     * of the model queue runs. */
    bool alone;
    /* maximum number of rows of a batch; 0 means srv_core_policy.max_rows */
    int64_t max_rows;
    int64_t used_ns; /* time at which a job was last queued */
    struct srv_cost cost;
    /* Returns whether a specialisation is compiled for batches of `rows` rows; may be NULL. */
    bool (*prefers)(const void *of, int64_t rows);
    const void *of;
};

struct srv_core_model_queue {
    const struct srv_core_policy *policy;
    /* Bit k is set if the workers of group k may run the model queue's batches. Initially all bits
     * are set. */
    uint32_t groups;
    struct srv_core_model_queue *next, *prev;
    struct srv_core_bucket *buckets;
    int64_t virtual_ns; /* worker time that the model queue has used, for fair scheduling */
    int running, n_jobs;
    int group_running[SRV_CORE_GROUPS]; /* numbers of running batches on each group */
    int small_running; /* number of running batches that were expected to be short */
    int long_running;  /* number of running batches that srv_core_mark_long has marked */
    size_t n_bytes;
    bool alone_running;
    bool is_flushed; /* whether no more jobs will arrive, so that batches need not wait */
};

struct srv_core_settings {
    int64_t patience_ns; /* maximum time from the arrival of a job until it is due */
    int64_t max_model_queue_jobs, max_jobs;
    size_t max_model_queue_bytes, max_bytes;
    /* maximum number of batches that run at the same time; 0 means the number of workers */
    int max_running;
    /* If a batch is expected to run for longer than long_ns, it does not take the last free worker
     * of a group while another model queue has run on the group within the last second. That queue
     * need not wait for the long batch. 0 disables this rule. */
    int64_t long_ns;
};

/* A model queue and the time at which its latest batch began. The pointer is never dereferenced. */
struct srv_core_recent {
    const struct srv_core_model_queue *model_queue;
    int64_t ns;
};

struct srv_core {
    struct srv_core_settings settings;
    struct srv_core_model_queue *active; /* list of the model queues that have jobs */
    int64_t virtual_ns;                  /* virtual time of the model queue that was served last */
    int64_t soonest_ns;                  /* lower bound on the deadlines of all queued jobs */
    int64_t swept_ns;
    int n_jobs, running;
    int long_running; /* number of running batches that srv_core_mark_long has marked */
    size_t n_bytes;
    /* for each group, the two model queues whose batches began last, latest first */
    struct srv_core_recent recent[SRV_CORE_GROUPS][2];
    /* for each group, the number of running batches, the sum of their expected costs, and the time
     * at which its device began the first of them */
    int group_running[SRV_CORE_GROUPS];
    int64_t group_cost_ns[SRV_CORE_GROUPS], group_begun_ns[SRV_CORE_GROUPS];
    bool is_flushed; /* whether no more jobs will arrive in any model queue */
};

void srv_core_init(struct srv_core *c, const struct srv_core_settings *settings);
/* Initialises a model queue. `policy` must outlive the model queue. */
void srv_core_model_queue_init(struct srv_core *c, struct srv_core_model_queue *mq,
                               const struct srv_core_policy *policy);
/* Initialises a bucket of a model queue. `queue` may be NULL. */
void srv_core_bucket_init(struct srv_core_bucket *b, struct srv_core_model_queue *mq,
                          struct srv_core_queue *queue, bool merges, bool alone);
/* Removes a bucket from its model queue. The bucket must be empty and have no running batch. */
void srv_core_bucket_remove(struct srv_core_bucket *b);

enum srv_core_admission {
    SRV_CORE_QUEUED,
    SRV_CORE_EXPIRED,
    SRV_CORE_FULL,         /* the limit of queued jobs or bytes is reached */
    SRV_CORE_FULL_BATCHES, /* the limit of queued batches is reached */
};
/* Queues job `j` in bucket `b`. Its rows, bytes, deadline_ns and share must be set. */
enum srv_core_admission srv_core_submit(struct srv_core *c, struct srv_core_bucket *b,
                                        struct srv_core_job *j, int64_t now);

int64_t srv_core_row_limit(const struct srv_core_bucket *b);
/* Returns how many more rows the queue of bucket `b` accepts if they may be split among batches. */
int64_t srv_core_free_rows(const struct srv_core_bucket *b);
/* Returns how many more rows the last waiting batch of `b` accepts, or 0 if no batch is waiting. */
int64_t srv_core_open_batch_rows(const struct srv_core_bucket *b);

struct srv_core_batch {
    struct srv_core_bucket *bucket; /* NULL if no batch can run now */
    struct srv_core_job *jobs;      /* linked by `next` */
    int n_jobs;
    int64_t rows;     /* total number of rows, or 0 for a job that is never merged */
    int64_t run_rows; /* `rows` rounded up to an allowed batch size */
    /* Expected cost of the run in nanoseconds. The model queue is charged for it until
     * srv_core_done charges the measured cost. */
    int64_t charged_ns;
    int64_t begun_ns; /* time at which the batch was taken */
    int group;        /* group of the worker that runs the batch */
    bool is_short;
    bool is_long;
};
/*
 * Takes the batch that a free worker should run now. A batch whose rows cost more than the fixed
 * cost of a run is divided among the free workers. *expired is a list, linked by `next`, of jobs
 * that cannot meet their deadlines. These jobs are removed from the queue even if the function
 * returns false.
 */
bool srv_core_next(struct srv_core *c, int64_t now, const struct srv_core_worker *worker,
                   struct srv_core_batch *out, struct srv_core_job **expired);
/* Marks a running batch as long. srv_core_has_place does not count long batches, so that spare
 * workers may run other batches. */
void srv_core_mark_long(struct srv_core *c, struct srv_core_batch *batch);
/* Returns whether another batch may run. The number of running batches, not counting long batches,
 * must be less than n_workers (the number of workers of group 0) and less than
 * settings.max_running. */
bool srv_core_has_place(const struct srv_core *c, int n_workers);
/* Like srv_core_next, but for a spare worker. Group 0 has n_workers workers. A spare worker may
 * take a batch from a small bucket if the run is expected to be short and the bucket's model queue
 * has no other short run in progress. If srv_core_has_place returns true, a spare worker may also
 * take a batch of a model queue that has no running batch or, if `is_ample` is set, no long running
 * batch. A model with long runs thus occupies one spare worker, or several if `is_ample` is set. */
bool srv_core_next_spare(struct srv_core *c, int64_t now, int n_workers, bool is_ample,
                         struct srv_core_batch *out, struct srv_core_job **expired);
/* Like srv_core_next_spare, but for another group than 0, when long batches occupy its workers. */
bool srv_core_next_beside_long(struct srv_core *c, int64_t now, const struct srv_core_worker *spare,
                               bool is_ample, struct srv_core_batch *out,
                               struct srv_core_job **expired);
/* Ends a batch that ran for run_ns. If `learn` is set, adds the duration to the cost model. `learn`
 * must be false if the duration is not representative, for example after a failure. */
void srv_core_done(struct srv_core *c, const struct srv_core_batch *batch, int64_t run_ns,
                   bool learn);

/* Starts a job on the calling thread. The bucket must be empty, the cost at most max_ns, and the
 * outputs of the bucket's last run not too large. Jobs that write variables never run inline,
 * because an inline run that takes too long is repeated. Returns false if the job must be queued.
 * Otherwise the job counts as a running batch until srv_core_done is called. */
bool srv_core_begin_inline(struct srv_core *c, struct srv_core_bucket *b, struct srv_core_job *j,
                           int n_workers, int64_t max_ns, struct srv_core_batch *out);

/* Returns whether the worker can start a batch now. */
bool srv_core_is_ready(const struct srv_core *c, int64_t now, const struct srv_core_worker *worker);
/* Returns the next time after `now` at which settings.long_ns may let a long batch start on the
 * last free worker. Returns RT_NEVER if no jobs are queued or settings.long_ns forbids no batch. */
int64_t srv_core_long_at(const struct srv_core *c, int64_t now);
/* Unlinks all queued jobs whose deadlines have passed, and returns them linked by `next`. */
struct srv_core_job *srv_core_expired(struct srv_core *c, int64_t now);
/* Returns the next time at which the timer must check the queues, because a deadline passes or a
 * waiting batch becomes ready. Returns RT_NEVER if there is no such time. */
int64_t srv_core_next_timer(const struct srv_core *c);
/* Unlinks all queued jobs, and returns them linked by `next`. */
struct srv_core_job *srv_core_take_all(struct srv_core *c);

#endif
