/*
 * The scheduler's decisions, made by pure functions that use no clock and no threads, allocate no
 * memory and access no tensors. The caller passes the current time in nanoseconds, so that tests
 * can supply arbitrary times.
 *
 * A bucket holds jobs that may be merged with each other. A model queue belongs to one version of a
 * model; model queues share the workers fairly, by virtual time. Jobs wait in their bucket in the
 * order of their due times. A job is due at its deadline, or `patience_ns` after its arrival if
 * that is earlier, so that jobs with deadlines run first without starving the others.
 *
 * Owner: the caller owns the structs; the scheduler core links them while they are queued. Threads:
 * the caller must guard all calls with one lock.
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
    int64_t rows; /* number of rows, or 0 if the job is never merged */
    size_t bytes;
    int64_t deadline_ns; /* deadline, or RT_NEVER if there is none */
    int64_t queued_ns;   /* time when the job was queued, set by srv_core_submit */
    int64_t due_ns;
};

/* Cost model in which a run of n rows takes `a + b * n` nanoseconds. The model is fitted to
 * measured runs, and older runs have less weight. */
struct srv_cost {
    double w, x, y, xx, xy; /* weighted sums for the least-squares fit of a line */
    int64_t runs;
    double fastest; /* duration of the fastest recent run, in nanoseconds */
};
void srv_cost_learn(struct srv_cost *c, int64_t rows, int64_t ns);
/* returns the expected cost of a run, or 0 if no run has been measured yet */
int64_t srv_cost_of(const struct srv_cost *c, int64_t rows);

/* The parameters for merging the jobs of a model queue. */
struct srv_core_policy {
    int64_t max_rows; /* maximum number of rows of a merged batch, at least 1 */
    /* time for which an incomplete batch waits for more jobs; 0 means that it does not wait */
    int64_t timeout_ns;
    /* Maximum number of waiting batches in each srv_core_queue; 0 means no limit. */
    int64_t max_queue_batches;
    /* whether to batch as TensorFlow Serving does: a batch is as large as possible, even if idle
     * workers could share it or a job misses its deadline, and a job is dropped only when its
     * deadline has passed */
    bool fixed;
    /* `sizes` lists the n_sizes allowed batch sizes in ascending order; a merged batch is padded to
     * one of them */
    int n_sizes;
    int64_t sizes[SRV_MAX_BATCH_SIZES];
};

/* The queue of one callable, which may have several buckets. The limit on waiting batches applies
 * to all these buckets together. */
struct srv_core_queue {
    /* number of batches that the queued jobs will form, including batches that are not full */
    int64_t n_batches;
};

struct srv_core_bucket {
    struct srv_core_model_queue *model_queue;
    /* queue of the callable, or NULL if the number of its waiting batches is not limited */
    struct srv_core_queue *queue;
    struct srv_core_bucket *next; /* next bucket of the same model queue */
    struct srv_core_job *head, *tail;
    int64_t n_rows; /* total number of rows of the queued jobs */
    /* n_batches is the number of batches that the queued jobs will form, and open_rows is the
     * number of rows in the last batch */
    int64_t n_batches, open_rows;
    int n_jobs, running;
    bool merges; /* whether jobs of this bucket may run together */
    /* whether the requests of this bucket are small, so that srv_core_next_spare may run them */
    bool is_small;
    /* whether the outputs of the last run were too large for an inline run */
    bool has_large_outputs;
    /* whether the jobs run in order of arrival, each while no other job of the model queue runs */
    bool alone;
    /* maximum number of rows per batch in this bucket; 0 means srv_core_policy.max_rows */
    int64_t max_rows;
    int64_t used_ns; /* time at which a job was last queued */
    struct srv_cost cost;
    /* Returns whether a specialisation is compiled for batches of `rows` rows, so that such batches
     * run faster. The function pointer may be NULL if all batch sizes are equally fast. */
    bool (*prefers)(const void *of, int64_t rows);
    const void *of;
};

struct srv_core_model_queue {
    const struct srv_core_policy *policy;
    /* Bit k is set if the workers of group k may run the batches of the model queue. By default all
     * bits are set. */
    uint32_t groups;
    struct srv_core_model_queue *next, *prev; /* links in the list of model queues that have jobs */
    struct srv_core_bucket *buckets;
    int64_t virtual_ns; /* worker time used by the model queue, for fair scheduling */
    int running, n_jobs;
    int small_running; /* number of running batches that were expected to be short */
    int long_running;  /* number of running batches that srv_core_mark_long has marked */
    size_t n_bytes;
    bool alone_running;
};

struct srv_core_settings {
    int64_t patience_ns; /* maximum time from the arrival of a job until it is due */
    int64_t max_model_queue_jobs, max_jobs;
    size_t max_model_queue_bytes, max_bytes;
    /* Maximum number of batches that run at the same time; 0 means the number of workers. */
    int max_running;
    /* A batch that is expected to run for longer than long_ns does not take the last free worker of
     * a group if another model queue has run on that group within the last second. That queue then
     * need not wait until a long batch ends. 0 disables this rule. */
    int64_t long_ns;
};

enum { SRV_CORE_GROUPS = 32 };

/* The worker for which a batch is chosen. */
struct srv_core_worker {
    int group; /* less than SRV_CORE_GROUPS */
    /* number of free workers of the group among which a batch may be divided, including this one */
    int n_free;
    bool is_last; /* whether the group has other workers and all of them are busy */
};

/* A model queue and the time at which its latest batch began. The pointer is only compared. */
struct srv_core_recent {
    const struct srv_core_model_queue *model_queue;
    int64_t ns;
};

struct srv_core {
    struct srv_core_settings settings;
    struct srv_core_model_queue *active; /* list of the model queues that contain jobs */
    int64_t virtual_ns;                  /* virtual time of the model queue that was served last */
    int64_t soonest_ns;                  /* lower bound on the deadlines of all queued jobs */
    int64_t swept_ns;
    int n_jobs, running;
    int long_running; /* number of running batches that srv_core_mark_long has marked */
    size_t n_bytes;
    /* for each group, the two model queues whose batches began last, the latest first */
    struct srv_core_recent recent[SRV_CORE_GROUPS][2];
    bool hurries; /* whether no more jobs will arrive, so that batches need not wait for them */
};

void srv_core_init(struct srv_core *c, const struct srv_core_settings *settings);
/* Initialises a model queue. `policy` must outlive the model queue. */
void srv_core_model_queue_init(struct srv_core *c, struct srv_core_model_queue *l,
                               const struct srv_core_policy *policy);
/* Initialises a bucket of a model queue. `queue` may be NULL. */
void srv_core_bucket_init(struct srv_core_bucket *b, struct srv_core_model_queue *l,
                          struct srv_core_queue *queue, bool merges, bool alone);
/* Removes a bucket from its model queue. The bucket must be empty and have no running batch. */
void srv_core_bucket_remove(struct srv_core_bucket *b);

enum srv_core_admission {
    SRV_CORE_QUEUED,
    SRV_CORE_EXPIRED,
    SRV_CORE_FULL,         /* the limit of queued jobs or bytes is reached */
    SRV_CORE_FULL_BATCHES, /* the limit of queued batches is reached */
};
/* Queues job `j` in bucket `b`. The rows, bytes and deadline_ns of `j` must be set. */
enum srv_core_admission srv_core_submit(struct srv_core *c, struct srv_core_bucket *b,
                                        struct srv_core_job *j, int64_t now);

/* Returns the maximum number of rows of a merged batch of bucket `b`. */
int64_t srv_core_row_limit(const struct srv_core_bucket *b);
/* Returns how many more rows the queue of bucket `b` accepts if the rows may be split among
 * batches. */
int64_t srv_core_free_rows(const struct srv_core_bucket *b);
/* Returns how many more rows the last waiting batch of `b` accepts, or 0 if no batch is waiting. */
int64_t srv_core_open_batch_rows(const struct srv_core_bucket *b);

struct srv_core_batch {
    struct srv_core_bucket *bucket; /* bucket of the batch, or NULL if no batch can run now */
    struct srv_core_job *jobs;      /* the batch's jobs, linked by `next` */
    int n_jobs;
    /* total number of rows of the jobs, or 0 if the batch is a job that is never merged */
    int64_t rows;
    int64_t run_rows; /* `rows` rounded up to an allowed batch size */
    /* Expected cost of the run in nanoseconds. It is charged to the model queue until srv_core_done
     * charges the measured cost instead. */
    int64_t charged_ns;
    bool is_short; /* whether the bucket is small and the run is expected to be short */
    bool is_long;  /* whether srv_core_mark_long has marked the running batch */
};
/*
 * Takes the batch that a free worker should run now. If the rows of a batch are expected to cost
 * more than the fixed cost of a run, the batch is divided among the free workers. *expired receives
 * a list (linked by `next`) of jobs that cannot meet their deadlines. These jobs have been removed
 * from the queue even if the function returns false.
 */
bool srv_core_next(struct srv_core *c, int64_t now, const struct srv_core_worker *worker,
                   struct srv_core_batch *out, struct srv_core_job **expired);
/* Marks a running batch as long. A long batch does not occupy a place: other batches may run on
 * spare workers instead. */
void srv_core_mark_long(struct srv_core *c, struct srv_core_batch *batch);
/* Returns whether fewer batches run, apart from long ones, than group 0 has workers and
 * settings.max_running permits. */
bool srv_core_has_place(const struct srv_core *c, int n_workers);
/* Like srv_core_next, but for a spare worker of group 0, which has n_workers workers. Takes a batch
 * from a small bucket whose runs are expected to be short, if the model queue has no other short
 * run in progress. If srv_core_has_place, also takes a batch of any model queue that has no running
 * batch or, if `is_ample`, no long one. A model whose runs are long thus takes one spare worker,
 * and several only while spare workers are ample. */
bool srv_core_next_spare(struct srv_core *c, int64_t now, int n_workers, bool is_ample,
                         struct srv_core_batch *out, struct srv_core_job **expired);
/* Ends a batch that ran for run_ns. If `learn` is true, adds the measured time to the cost model.
 * `learn` must be false if the time is not representative, for example because the run failed. */
void srv_core_done(struct srv_core *c, const struct srv_core_batch *batch, int64_t run_ns,
                   bool learn);

/* Starts a job immediately on the calling thread if its bucket is empty and its cost is at most
 * max_ns, unless the outputs of the bucket's last run were too large. Jobs that write variables
 * never start in this way, because an inline run that takes too long is repeated. Returns false if
 * the job must be queued. Otherwise the job counts as a running batch until srv_core_done is
 * called. */
bool srv_core_begin_inline(struct srv_core *c, struct srv_core_bucket *b, struct srv_core_job *j,
                           int n_workers, int64_t max_ns, struct srv_core_batch *out);

/* Returns whether any batch that the worker may run can start now. */
bool srv_core_is_ready(const struct srv_core *c, int64_t now, const struct srv_core_worker *worker);
/* Returns the next time at which a batch that settings.long_ns keeps from the last free worker may
 * start on it, or RT_NEVER if no jobs are queued or the rule does not apply. */
int64_t srv_core_long_at(const struct srv_core *c);
/* Unlinks all queued jobs whose deadlines have passed, and returns them linked by `next`. */
struct srv_core_job *srv_core_expired(struct srv_core *c, int64_t now);
/* Returns the next time at which the timer must check the queues: the time at which a deadline
 * passes or a waiting batch becomes ready. Returns RT_NEVER if there is no such time. */
int64_t srv_core_next_timer(const struct srv_core *c);
/* Unlinks all queued jobs, and returns them linked by `next`. */
struct srv_core_job *srv_core_take_all(struct srv_core *c);

#endif
