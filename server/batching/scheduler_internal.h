/*
 * The state of the scheduler, which the following files share:
 *
 *   scheduler.c          admits, queues and refuses jobs, and runs jobs inline
 *   scheduler_workers.c  runs batches; the threads of the workers and the timer
 *   scheduler_spares.c   the spare workers
 *   scheduler_waits.c    runs that wait for other runs
 *   scheduler_start.c    creates and frees the scheduler and the model queues
 *
 * Workers form groups. Group 0 runs on the CPU, one worker per core. Each other group belongs to
 * one GPU, and has one worker for each batch that may be on the GPU at the same time. While one
 * worker waits for the GPU, another merges the next batch or splits the last one. The model queues
 * of the CPU have one scheduler core, and those of the GPUs another, because they do not compete
 * for the same workers.
 *
 * Spare workers run batches of a group while all its workers are busy, but those of a GPU only
 * while the workers' runs are long. One of the idle spare workers, the leader, looks for such
 * batches. When the leader takes a batch, another idle spare worker becomes the leader. If no spare
 * worker is idle, the timer starts a new one.
 */
#ifndef SRV_SCHEDULER_INTERNAL_H
#define SRV_SCHEDULER_INTERNAL_H

#include "runtime/base/arena.h"
#include "runtime/base/thread.h"
#include "server/batching/batch.h"
#include "server/batching/buckets.h"
#include "server/batching/feed_reclaimer.h"
#include "server/batching/queue_shares.h"
#include "server/batching/scheduler.h"

/* The capacity of all model queues together is SRV_QUEUES_FACTOR times the capacity of one model
 * queue. */
enum {
    SRV_QUEUES_FACTOR = 4,
    SRV_MAX_GROUPS = RT_MAX_ACCELERATORS + 1,
    /* Maximum number of spare workers. A model queue with long runs takes another spare worker only
     * while fewer than SRV_MAX_SPARES / 2 spare workers are busy. The remaining spare workers are
     * reserved for idle model queues. */
    SRV_MAX_SPARES = 64,
};
_Static_assert((int)SRV_MAX_GROUPS <= (int)SRV_CORE_GROUPS,
               "each group needs a bit and an element");

struct srv_worker_group {
    struct srv_core *core; /* scheduler core of the group's model queues */
    struct rt_cond work;   /* signalled when a batch is ready for the group */
    int n_workers;         /* number of workers, excluding spare workers */
    /* Numbers of waiting workers, and of workers that were signalled and have not woken. Guarded by
     * the scheduler's mu. */
    int n_idle, n_woken;
};

struct srv_worker {
    struct srv_scheduler *s;
    int index; /* index of the thread in the metrics */
    int group; /* the worker's group, or the group of a spare worker's batch */
    const char *name;
    void *(*main)(void *worker);
    struct rt_arena *arena; /* memory for the worker's current batch */
    bool is_spare;
    /* The scheduler's mu guards the following members. */
    struct srv_worker *next;      /* next spare worker */
    struct srv_core_batch *batch; /* the worker's current batch, or NULL */
    int64_t began_ns;             /* time at which the worker took the batch */
    /* Thread id of a spare worker, and whether the thread's priority was lowered. The kernel does
     * not let a thread raise its priority again, so a thread with a lowered priority ends after its
     * batch. */
    int thread_id;
    bool is_lowered;
};

/* The run of a batch. The struct is on the stack of the worker's thread. */
struct srv_run {
    struct srv_scheduler *s;
    struct srv_worker *worker;
    int group; /* group of the batch */
    const struct srv_core_batch *batch;
    int64_t start_ns;
    /* Whether the run has waited. Another thread is then the worker, and this thread owns
     * `arena`. */
    bool waits;
    struct rt_arena *arena;
    /* Of a run that has waited, guarded by the scheduler's mu: its place in the list of these runs,
     * its thread with the clock of its CPU time, and whether the thread's priority was lowered. */
    struct srv_run *next, **link;
    int thread_id;
    clockid_t cpu_clock;
    bool is_lowered;
    _Atomic int64_t computes_since_ns; /* as in rt_wait_hook */
};

struct srv_scheduler {
    struct srv_server *server;
    struct srv_batching batching; /* read-only after the server has started */
    struct rt_mutex mu;
    struct rt_cond time;
    struct rt_cond spare,
        /* the leader waits for `spare`, and other idle spare workers wait for `follower` */
        follower;
    struct rt_cond no_threads; /* signalled when n_threads becomes 0 */
    /* guards the metrics that the spare workers and the runs that have waited share */
    struct rt_mutex shared_cells;
    /* The scheduler core of the CPU's model queues, and the scheduler core of the GPUs' model
     * queues. mu guards these and all following members up to `stopping`. */
    struct srv_core cpu, gpus;
    struct srv_queue_shares *shares; /* or NULL without --quota_queue_share */
    int64_t timer_ns;                /* time at which the timer thread will wake */
    int64_t taken_ns;                /* time at which a worker of group 0 last took a batch */
    int64_t long_run_ns; /* a run of this duration counts as long, because it may never end */
    /* a spare worker takes a small batch if no worker has taken any batch for this time */
    int64_t spare_after_ns;
    int n_busy;             /* number of busy workers of group 0, excluding spare workers */
    int n_waiting;          /* number of unfinished runs that have waited */
    struct srv_run *waited; /* these runs */
    int n_threads;          /* number of threads of workers and of runs that have waited */
    int64_t spare_ns;       /* time at which the leader will wake, or 0 if no leader sleeps */
    bool has_leader;
    int n_spares, n_idle_spares;
    struct srv_worker *spares;
    bool stopping;
    struct rt_pool *pool;
    _Atomic int n_jobs; /* number of queued and running jobs of all versions */
    int n_groups;
    struct srv_worker_group group[SRV_MAX_GROUPS];
    pthread_t timer;
    struct srv_feed_reclaimer reclaimer;
    /* number of workers of all groups, which is also the metrics index of the spare workers */
    int n_workers;
    struct srv_worker worker[];
};

static inline struct srv_job *srv_job_of(struct srv_core_job *j)
{
    return (struct srv_job *)((char *)j - offsetof(struct srv_job, sched));
}
/* Returns whether a job is batched as in TensorFlow Serving (--enable_batching=true). */
static inline bool srv_job_is_as_tensorflow(const struct srv_job *job)
{
    const struct rt_model_signature *sig = srv_queued_signature(job);

    return srv_batching_is_for_all(job->version->model_queue->batching, sig->def->name) &&
           !sig->writes;
}

/* Completes a job. Must not be called under the lock. Afterwards the caller must not access the
 * job's version, which may have been freed. */
void srv_scheduler_complete(struct srv_scheduler *s, struct srv_job *job);
/* Calls the job's `done`, or queues a job that is prepared for its run. Must not be called under
 * the lock. */
void srv_scheduler_end_job(struct srv_job *job);
/* Completes jobs that have missed their deadlines, linked by `next`. Must not be called under the
 * lock. */
void srv_scheduler_complete_expired(struct srv_scheduler *s, struct srv_core_job *list);
/* Logs that the job's signature is no longer batched. */
void srv_scheduler_log_never_merged(const struct srv_job *job);

enum srv_run_end {
    SRV_RUN_COMPLETE,
    SRV_RUN_REPEATS, /* an inline run must be repeated, and its job is not completed */
    SRV_RUN_WAITED,  /* the jobs are completed, and another thread has become the worker */
};
/* Runs the batch and completes its jobs. The caller must not hold the lock. `w` is NULL for an
 * inline run. `worker` is the thread's index in the metrics. If the result is SRV_RUN_WAITED, the
 * calling thread must end without accessing the scheduler. */
enum srv_run_end srv_scheduler_run_batch(struct srv_scheduler *s, struct srv_worker *w, int worker,
                                         const struct srv_core_batch *batch);
/* Chooses one worker per group to signal after the lock is released, and counts these workers as
 * signalled. Returns a bit mask of the groups. */
uint32_t srv_scheduler_groups_to_wake(struct srv_scheduler *s, int64_t now) RT_REQUIRES(s->mu);
void srv_scheduler_wake(struct srv_scheduler *s, uint32_t groups);
/* Returns srv_core_worker.avoided for the workers of the group. */
uint32_t srv_scheduler_avoided(const struct srv_scheduler *s, int group);
/* Returns the time from which a spare worker may take a batch. Returns RT_NEVER if no jobs are
 * queued or if a regular worker may take them. */
int64_t srv_scheduler_spare_at(const struct srv_scheduler *s) RT_REQUIRES(s->mu);
/* Returns the next time at which the timer must check the queues, or RT_NEVER. `now` is the current
 * time. */
int64_t srv_scheduler_timer_at(const struct srv_scheduler *s, int64_t now) RT_REQUIRES(s->mu);

/* Starts a spare worker. The caller must have normal priority, because the new thread inherits
 * it. */
bool srv_scheduler_start_spare(struct srv_scheduler *s);
/* Lowers the priority of a spare worker until it has completed its batch. The thread ends
 * afterwards. */
void srv_scheduler_lower(struct srv_worker *w);
/* Returns whether no spare worker is idle and another may be started. */
bool srv_scheduler_lacks_spare(const struct srv_scheduler *s) RT_REQUIRES(s->mu);

/* Ends a batch in the scheduler core. Must be called before any job of the batch is completed,
 * because completing a job may free its model queue. */
void srv_scheduler_end_batch(struct srv_scheduler *s, const struct srv_core_batch *batch,
                             int64_t run_ns, const struct srv_batch_verdict *v) RT_REQUIRES(s->mu);

/* ---- runs that wait ---- */

/* The hook function of runs (rt_wait_hook). `run` is a struct srv_run. */
enum rt_status srv_scheduler_begin_waiting(void *run, struct rt_error *err);
/* Ends a run that has waited, and its thread. */
void srv_scheduler_end_waited(struct srv_scheduler *s, struct srv_run *run);
/* Lowers the priority of runs that compute after they have waited, because no worker counts them:
 * of all that have used much CPU time, and of the others that are not short if there are more of
 * them than workers. Returns the
 * time of the next call, or RT_NEVER if no run has waited. */
int64_t srv_scheduler_lower_waited(struct srv_scheduler *s, int64_t now) RT_REQUIRES(s->mu);
/* Starts a new thread for the worker `w`, and counts it in n_threads. */
bool srv_scheduler_start_thread(struct srv_scheduler *s, struct srv_worker *w) RT_REQUIRES(s->mu);
/* Sets the worker's current batch. NULL means that the worker runs no batch. */
void srv_scheduler_set_batch(struct srv_scheduler *s, struct srv_worker *w,
                             struct srv_core_batch *batch, int64_t now) RT_REQUIRES(s->mu);
/* Must be called at the end of each worker thread. Afterwards the thread must not access the
 * scheduler. */
void srv_scheduler_end_thread(struct srv_scheduler *s) RT_REQUIRES(s->mu);

/* The main functions of the threads. The argument is the worker or, for the timer, the
 * scheduler. */
void *srv_worker_main(void *arg);
void *srv_timer_main(void *arg);

#endif
