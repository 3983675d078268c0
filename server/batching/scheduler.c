#include "server/batching/scheduler.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "server/batching/batch.h"
#include "server/batching/buckets.h"
#include "server/config/batching.h"
#include "server/metrics/metrics.h"
#include "server/batching/io_loop.h"
#include "server/batching/sub_requests.h"

enum {
    /* maximum time spent on inline jobs per turn, because the network thread also serves other
     * connections */
    INLINE_PER_TURN_NS = 500000,
    /* An inline run that takes longer than INLINE_RUN_NS is stopped and repeated on a worker. The
     * time of a run may depend on the values of its inputs, so that earlier runs do not bound it.
     */
    INLINE_RUN_NS = 5000000,
    TINY_NS = 10000, /* merging gains nothing for jobs that cost less than TINY_NS */
    PATIENCE_NS = 1000000000,
    /* total capacity of all model queues, as a multiple of the capacity of one model queue */
    TOTAL_FACTOR = 4,
    /* The spare worker takes a small batch if no worker has taken any batch for SPARE_AFTER_NS. */
    SPARE_AFTER_NS = 20000000,
    /* Time after which workers count as stalled if none of them has taken a batch. In this state a
     * few models may occupy all workers indefinitely. */
    STALLED_AFTER_NS = 1000000000,
    MAX_COMPILED_SIZES = 32,
    RUNS_BEFORE_LARGER = 256,
};

struct worker {
    struct srv_scheduler *s;
    int index;
    pthread_t thread;
    struct rt_arena *arena; /* memory for the batch that the worker runs */
};

struct srv_scheduler {
    struct srv_server *server;
    struct srv_batching batching; /* read-only after the server has started */
    struct rt_mutex mu;
    struct rt_cond work, time, spare;
    struct srv_core core; /* guarded by mu, like all members down to `stopping` */
    int n_idle;           /* number of waiting workers */
    int n_woken;          /* number of waiting workers that have been signalled */
    int64_t timer_ns;     /* time at which the timer thread will wake */
    int64_t taken_ns;     /* time at which a worker last took a batch */
    int64_t spare_ns;     /* time at which the spare worker will wake, or 0 if it is running */
    bool stopping;
    struct rt_pool *pool;
    _Atomic int n_jobs; /* number of queued and running jobs of all versions */
    /* number of workers other than the spare worker, which is the last element of worker[] */
    int n_workers;
    pthread_t timer;
    struct worker worker[];
};

static struct srv_job *job_of(struct srv_core_job *j)
{
    return (struct srv_job *)((char *)j - offsetof(struct srv_job, sched));
}

/* ---- responses: never under the lock ---- */

/* If the deadline that has passed was set by --default_deadline_seconds and not by the client,
 * replaces the error text with one that names the flag. */
static void name_default_deadline(struct srv_job *job)
{
    if (job->status == RT_DEADLINE_EXCEEDED && job->has_default_deadline)
        rt_fail(&job->err, job->status,
                "the request had no deadline, and --default_deadline_seconds=%g have passed",
                (double)job->io_loop->server->options.default_deadline_ms / 1000);
}

/* Completes a job. Afterwards the caller must not access the job's version, because the release of
 * its last handle may have freed it. */
static void complete(struct srv_scheduler *s, struct srv_job *job)
{
    if (!job->finished_ns)
        job->finished_ns = rt_now_ns();
    name_default_deadline(job);
    job->done(job);
    atomic_fetch_sub_explicit(&s->n_jobs, 1, memory_order_release);
}

static bool is_as_tensorflow(const struct srv_job *job)
{
    return job->version->model_queue->batching.mode == SRV_BATCHING_ALL && !job->signature->writes;
}

static void complete_expired(struct srv_scheduler *s, struct srv_core_job *list)
{
    for (struct srv_core_job *next; list; list = next) {
        struct srv_job *job = job_of(list);
        next = list->next;
        job->status = is_as_tensorflow(job)
                          ? rt_fail(&job->err, RT_RESOURCE_EXHAUSTED,
                                    "Run() timeout exceeded while waiting in batching queue")
                          : rt_fail(&job->err, RT_DEADLINE_EXCEEDED,
                                    "Timed out waiting for notification: the deadline came while "
                                    "the request was queued");
        complete(s, job);
    }
}

static enum rt_status fail_full(struct srv_job *job)
{
    const struct srv_options *o = &job->io_loop->server->options;
    const struct srv_core_model_queue *l = &job->version->model_queue->core;
    const long long version = job->version->version;
    char limits[160];
    snprintf(
        limits, sizeof limits,
        "%lld requests, %zu bytes (--max_queue_jobs=%lld, --max_queue_bytes=%lld, all versions "
        "together %d times as much)",
        (long long)l->n_jobs, l->n_bytes, (long long)o->max_queue_jobs,
        (long long)o->max_queue_bytes, TOTAL_FACTOR);
    return is_as_tensorflow(job)
               ? rt_fail(&job->err, RT_UNAVAILABLE,
                         "The batch scheduling queue to which this task was submitted is full; "
                         "queued for model %s version %lld are %s",
                         job->version->model, version, limits)
               : rt_fail(&job->err, RT_UNAVAILABLE,
                         "the server is overloaded: the queue of model %s version %lld is full "
                         "with %s",
                         job->version->model, version, limits);
}

static enum rt_status fail_full_batches(struct srv_job *job, const struct srv_bucket *b)
{
    /* In its error text, TensorFlow Serving counts at least one batch, even if that batch is
     * empty. */
    long long n = b->queue->core.n_batches ? b->queue->core.n_batches : 1;
    const struct srv_batching *p = &job->version->model_queue->batching;
    if (!p->splits_large)
        return rt_fail(&job->err, RT_UNAVAILABLE,
                       "The batch scheduling queue to which this task was submitted is full; "
                       "currently %lld batches enqueued and max_enqueued_batches is %lld",
                       n, (long long)p->max_enqueued_batches);
    return rt_fail(&job->err, RT_UNAVAILABLE,
                   "The batch scheduling queue to which this task was submitted is full; task size "
                   "is %lld but scheduling capacity is only %lld (num_enqueued_batches=%lld, "
                   "max_enqueued_batches=%lld, open_batch_size=%lld, "
                   "max_execution_batch_size=%lld)",
                   (long long)job->n_rows, (long long)srv_core_free_rows(&b->core), n,
                   (long long)p->max_enqueued_batches, (long long)b->core.open_rows,
                   (long long)p->max_execution_batch_size);
}

/* ---- running ---- */

static void log_never_merged(const struct srv_job *job)
{
    RT_LOG(
        RT_LOG_WARNING,
        "signature %s of model %s version %lld is not batched any more: its outputs do not follow "
        "the rows of its inputs",
        job->signature->def->name, job->version->model, (long long)job->version->version);
}

/* Ends a batch in the scheduler core. Must be called with the lock held, and before any job of the
 * batch is completed, because completing a job may free its model queue. */
static void end_batch(struct srv_scheduler *s, const struct srv_core_batch *batch, int64_t run_ns,
                      const struct srv_batch_verdict *v) RT_REQUIRES(s->mu)
{
    struct srv_bucket *b = (struct srv_bucket *)batch->bucket;

    srv_core_done(&s->core, batch, run_ns, v->learn);
    if (v->halve_limit) {
        b->core.max_rows = batch->rows / 2 > 1 ? batch->rows / 2 : 1;
        b->since_halved = 0;
    } else if (b->core.max_rows && v->learn && ++b->since_halved >= RUNS_BEFORE_LARGER) {
        /* The limit is doubled after RUNS_BEFORE_LARGER successful runs, because memory may have
         * been short only temporarily when the limit was halved. */
        b->since_halved = 0;
        b->core.max_rows = b->core.max_rows > INT64_MAX / 2 ? 0 : b->core.max_rows * 2;
    }
    if (v->never_merge)
        srv_buckets_stop_merging((struct srv_model_queue *)b->core.model_queue, b->queue);
}

/* Returns whether the caller should signal a worker after releasing the lock. */
static bool should_wake(struct srv_scheduler *s, int64_t now) RT_REQUIRES(s->mu)
{
    if (s->n_idle <= s->n_woken || !srv_core_is_ready(&s->core, now))
        return false;
    s->n_woken++;
    return true;
}

/* Returns whether an inline run was stopped at `end_ns`, before the job's deadline. If so, restores
 * the job's status from before the run. */
static bool was_stopped(struct srv_job *job, int64_t end_ns)
{
    if (job->status != RT_DEADLINE_EXCEEDED || job->deadline_ns <= end_ns ||
        atomic_load_explicit(srv_job_cancelled(job), memory_order_relaxed))
        return false;
    job->status = RT_OK;
    job->err = (struct rt_error){.arena = job->arena};
    return true;
}

/* Runs the batch and completes its jobs. The caller does not hold the lock. `w` is NULL for an
 * inline run. `worker` is the index of the thread in the metrics. Returns false if an inline run
 * was stopped, so that its job is not complete. */
static bool run_batch(struct srv_scheduler *s, struct worker *w, int worker,
                      const struct srv_core_batch *batch)
{
    struct srv_job *dropped = NULL;
    struct srv_batch g = {.arena = w ? w->arena : NULL, .pool = s->pool};
    struct srv_job **end = &g.first;
    struct srv_batch_verdict verdict = {0};
    bool is_stopped = false;
    /* an inline job was queued just now, so the time at which it was queued is used as the start
     * time */
    int64_t start = w ? rt_now_ns() : job_of(batch->jobs)->queued_ns, finish;

    for (struct srv_core_job *j = batch->jobs, *next; j; j = next) {
        struct srv_job *job = job_of(j);
        next = j->next;
        job->next = NULL;
        job->started_ns = start;
        if (atomic_load_explicit(srv_job_cancelled(job), memory_order_relaxed)) {
            job->status = rt_fail(&job->err, RT_CANCELLED, "the client has gone");
            job->next = dropped;
            dropped = job;
            continue;
        }
        *end = job;
        end = &job->next;
        g.needs_row_wise = job->version->model_queue->batching.mode == SRV_BATCHING_ROW_WISE;
        g.n_jobs++;
        g.rows += job->n_rows;
    }
    g.run_rows = g.n_jobs && g.rows == batch->rows ? batch->run_rows : g.rows;
    g.end_ns = w ? 0 : start + INLINE_RUN_NS;
    if (g.n_jobs)
        verdict = srv_batch_run(&g);
    finish = rt_now_ns();
    if (!w && g.n_jobs && was_stopped(g.first, g.end_ns))
        is_stopped = verdict.learn = true; /* from now on, the bucket is known to be expensive */
    else if (g.n_jobs)
        srv_metrics_batch(s->server->metrics, worker, g.first, g.n_jobs, g.rows, g.run_rows,
                          finish - start);
    if (verdict.never_merge)
        log_never_merged(g.first);
    rt_mutex_lock(&s->mu);
    if (g.n_jobs && g.rows != batch->rows)
        /* some jobs were dropped, so the measured cost is not the cost of batch->rows rows */
        verdict.learn = false;
    end_batch(s, batch, finish - start, &verdict);
    /* The end of this run may allow a waiting batch to start. After an inline run or a run of the
     * spare worker, an idle worker must be woken for this batch. After other runs, the worker
     * itself checks for batches. */
    bool wake = (!w || w->index == s->n_workers) && s->core.n_jobs && should_wake(s, finish);
    rt_mutex_unlock(&s->mu);
    if (wake)
        rt_cond_signal(&s->work);
    if (is_stopped)
        return false;
    *end = dropped;
    for (struct srv_job *job = g.first, *next; job; job = next) {
        next = job->next;
        job->finished_ns = finish;
        complete(s, job);
    }
    if (w)
        rt_arena_reset(w->arena);
    return true;
}

/* Returns the time at which the spare worker should check for a batch. */
static int64_t spare_at(const struct srv_scheduler *s) RT_REQUIRES(s->mu)
{
    return s->core.n_jobs && !s->n_idle ? s->taken_ns + SPARE_AFTER_NS : RT_NEVER;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct srv_scheduler *s = w->s;

    rt_mutex_lock(&s->mu);
    for (;;) {
        struct srv_core_batch batch;
        struct srv_core_job *expired = NULL;
        int64_t now = rt_now_ns();
        bool got = srv_core_next(&s->core, now, 1 + s->n_idle, &batch, &expired);
        if (got)
            s->taken_ns = now;
        if (!got && !expired) {
            if (s->stopping)
                break;
            s->n_idle++;
            rt_cond_wait(&s->work, &s->mu);
            s->n_idle--;
            if (s->n_woken)
                s->n_woken--;
            continue;
        }
        /* Each worker wakes another one while batches are ready to run. */
        bool wake = should_wake(s, now), wake_spare = spare_at(s) < s->spare_ns;
        rt_mutex_unlock(&s->mu);
        if (wake)
            rt_cond_signal(&s->work);
        if (wake_spare)
            rt_cond_signal(&s->spare);
        complete_expired(s, expired);
        if (got)
            run_batch(s, w, w->index, &batch);
        rt_mutex_lock(&s->mu);
    }
    rt_mutex_unlock(&s->mu);
    return NULL;
}

/*
 * Thread of the spare worker. If no worker has taken a batch for SPARE_AFTER_NS, the spare worker
 * runs small batches. After STALLED_AFTER_NS it also runs any batch of a model queue that has no
 * running batch. Without the spare worker, small requests would wait for seconds while large
 * requests or slow models occupy all workers. A model whose runs never end could also keep all
 * others from running.
 */
static void *work_spare(void *arg)
{
    struct worker *w = arg;
    struct srv_scheduler *s = w->s;

    rt_mutex_lock(&s->mu);
    while (!s->stopping) {
        struct srv_core_batch batch;
        struct srv_core_job *expired = NULL;
        int64_t now = rt_now_ns(), at = spare_at(s);
        /* A worker that has just started or ended a run is not stalled, however old taken_ns is. */
        bool is_stalled = s->core.running >= s->n_workers && now >= s->taken_ns + STALLED_AFTER_NS;
        bool got = now >= at && srv_core_next_spare(&s->core, now, is_stalled, &batch, &expired);
        if (!got && !expired) {
            s->spare_ns = now >= at ? now + SPARE_AFTER_NS : at;
            rt_cond_wait_until(&s->spare, &s->mu, s->spare_ns);
            s->spare_ns = 0;
            continue;
        }
        rt_mutex_unlock(&s->mu);
        complete_expired(s, expired);
        if (got)
            run_batch(s, w, w->index, &batch);
        rt_mutex_lock(&s->mu);
    }
    rt_mutex_unlock(&s->mu);
    return NULL;
}

/* Thread of the timer. It completes jobs that expire while all workers are busy, and starts batches
 * whose waiting time has ended. */
static void *run_timer(void *arg)
{
    struct srv_scheduler *s = arg;

    rt_mutex_lock(&s->mu);
    while (!s->stopping) {
        int64_t now = rt_now_ns();
        struct srv_core_job *expired = srv_core_expired(&s->core, now);
        bool wake = should_wake(s, now);
        if (expired || wake) {
            rt_mutex_unlock(&s->mu);
            if (wake)
                rt_cond_signal(&s->work);
            complete_expired(s, expired);
            rt_mutex_lock(&s->mu);
            continue;
        }
        s->timer_ns = srv_core_next_timer(&s->core);
        if (s->timer_ns <= now) /* a batch is due, but no worker is free to run it */
            s->timer_ns = now + 1000000;
        rt_cond_wait_until(&s->time, &s->mu, s->timer_ns);
    }
    rt_mutex_unlock(&s->mu);
    return NULL;
}

/* ---- submitting ---- */

static void describe(struct srv_job *job)
{
    job->sched = (struct srv_core_job){
        .rows = job->n_rows, .bytes = job->body_bytes, .deadline_ns = job->deadline_ns};
}

bool srv_scheduler_run_inline(struct srv_scheduler *s, struct srv_job *job)
{
    int64_t max_ns = s->server->options.inline_max_us * 1000;
    struct srv_io_loop *io_loop = job->io_loop;
    struct srv_core_batch batch;
    struct srv_bucket *b;
    bool may;

    /* A run that is stopped is repeated, and its trace would hold the nodes of both runs. */
    if (max_ns <= 0 || job->trace || io_loop->inline_ns >= INLINE_PER_TURN_NS ||
        job->deadline_ns <= job->queued_ns)
        return false;
    describe(job);
    rt_mutex_lock(&s->mu);
    b = srv_bucket_of(job);
    /* A second job in one turn suggests that more will follow, and running the jobs merged costs
     * less. */
    if (b && b->core.merges && io_loop->inline_ns > 0)
        max_ns = max_ns < TINY_NS ? max_ns : TINY_NS;
    may = b && (!b->core.merges || job->n_rows <= srv_core_row_limit(&b->core)) &&
          srv_core_begin_inline(&s->core, &b->core, &job->sched, s->n_workers, max_ns, &batch);
    rt_mutex_unlock(&s->mu);
    if (!may)
        return false;
    atomic_fetch_add_explicit(&s->n_jobs, 1, memory_order_relaxed);
    int64_t start = job->queued_ns;
    const bool is_complete = run_batch(s, NULL, -1 - io_loop->index, &batch);
    io_loop->inline_ns += rt_now_ns() - start;
    if (!is_complete)
        atomic_fetch_sub_explicit(&s->n_jobs, 1, memory_order_release);
    return is_complete;
}

enum rt_status srv_scheduler_admit(struct srv_scheduler *s, struct srv_job *job)
{
    const struct srv_batching *b = &job->version->model_queue->batching;

    (void)s;
    if (!is_as_tensorflow(job))
        return RT_OK;
    if (!job->n_feeds)
        return rt_fail(&job->err, RT_INVALID_ARGUMENT,
                       "Batching Run() must have at least one input tensor");
    for (int i = 0; i < job->n_feeds; i++)
        if (!job->feeds[i].rank)
            return rt_fail(&job->err, RT_INVALID_ARGUMENT,
                           "Batching Run() input tensors must have at least one dimension");
    for (int i = 1; i < job->n_feeds; i++)
        if (job->feeds[i].dim[0] != job->feeds[0].dim[0])
            return rt_fail(&job->err, RT_INVALID_ARGUMENT,
                           "Batching Run() input tensors must have equal 0th-dimension size");
    if (job->n_rows > b->max_batch_size && !b->splits_large)
        return rt_fail(&job->err, RT_INVALID_ARGUMENT,
                       "Task size %lld is larger than maximum input batch size %lld",
                       (long long)job->n_rows, (long long)b->max_batch_size);
    return RT_OK;
}

/* Completes a split request after its sub-requests have ended. */
static void complete_parent(struct srv_job *parent, bool follows_rows)
{
    struct srv_scheduler *s = parent->io_loop->server->scheduler;
    struct srv_model_queue *l = parent->version->model_queue;
    if (!follows_rows) {
        rt_mutex_lock(&s->mu);
        struct srv_call_queue *q = srv_call_queue_of(l, parent->signature);
        if (q)
            srv_buckets_stop_merging(l, q);
        rt_mutex_unlock(&s->mu);
        log_never_merged(parent);
    }
    complete(s, parent);
}

struct turn { /* jobs of a turn that must be completed after the lock is released */
    struct srv_job *refused;
    struct srv_core_job *expired;
};

static void refuse(struct turn *t, struct srv_job *job, enum rt_status st)
{
    job->status = st;
    job->next = t->refused;
    t->refused = job;
}

static void submit_one(struct srv_scheduler *s, struct srv_bucket *b, struct srv_job *job,
                       int64_t now, struct turn *t) RT_REQUIRES(s->mu)
{
    atomic_fetch_add_explicit(&s->n_jobs, 1, memory_order_relaxed);
    describe(job);
    switch (srv_core_submit(&s->core, &b->core, &job->sched, now)) {
    case SRV_CORE_QUEUED:
        break;
    case SRV_CORE_EXPIRED:
        job->sched.next = t->expired;
        t->expired = &job->sched;
        break;
    case SRV_CORE_FULL:
        refuse(t, job, fail_full(job));
        break;
    case SRV_CORE_FULL_BATCHES:
        refuse(t, job, fail_full_batches(job, b));
        break;
    }
}

/* Splits a job that is too large for one batch into sub-requests, and queues either all of the
 * sub-requests or none. */
static void submit_sub_requests(struct srv_scheduler *s, struct srv_bucket *b, struct srv_job *job,
                                int64_t now, struct turn *t) RT_REQUIRES(s->mu)
{
    int64_t most = srv_core_row_limit(&b->core), open_rows = srv_core_open_batch_rows(&b->core);
    struct srv_job *sub_request = NULL, *next;
    enum rt_status st = RT_OK;

    atomic_fetch_add_explicit(&s->n_jobs, 1, memory_order_relaxed);
    if (job->n_rows > srv_core_free_rows(&b->core))
        st = fail_full_batches(job, b);
    if (!st)
        st = srv_sub_requests_split(job, open_rows, most, s->pool, complete_parent, &sub_request);
    if (st) {
        refuse(t, job, st);
        return;
    }
    for (; sub_request; sub_request = next) {
        next = sub_request->next;
        submit_one(s, b, sub_request, now, t);
    }
}

void srv_scheduler_submit(struct srv_scheduler *s, struct srv_job *first)
{
    struct turn t = {0};
    struct srv_job *next;
    int64_t now = rt_now_ns();
    bool wake, wake_timer, wake_spare;

    rt_mutex_lock(&s->mu);
    for (struct srv_job *job = first; job; job = next) {
        next = job->next;
        struct srv_bucket *b = srv_bucket_of(job);
        if (!b) {
            atomic_fetch_add_explicit(&s->n_jobs, 1, memory_order_relaxed);
            refuse(&t, job, rt_fail_memory(&job->err, "a queue", sizeof *b));
        } else if (b->core.merges && job->n_rows > srv_core_row_limit(&b->core) &&
                   job->version->model_queue->batching.splits_large) {
            submit_sub_requests(s, b, job, now, &t);
        } else {
            submit_one(s, b, job, now, &t);
        }
    }
    wake = should_wake(s, now);
    wake_timer = srv_core_next_timer(&s->core) < s->timer_ns;
    wake_spare = spare_at(s) < s->spare_ns;
    rt_mutex_unlock(&s->mu);
    if (wake_spare)
        rt_cond_signal(&s->spare);
    if (wake)
        rt_cond_signal(&s->work);
    if (wake_timer)
        rt_cond_signal(&s->time);
    complete_expired(s, t.expired);
    for (; t.refused; t.refused = next) {
        next = t.refused->next;
        complete(s, t.refused);
    }
}

void srv_scheduler_hurry(struct srv_scheduler *s)
{
    rt_mutex_lock(&s->mu);
    s->core.hurries = true;
    bool wake = should_wake(s, rt_now_ns());
    rt_mutex_unlock(&s->mu);
    if (wake)
        rt_cond_signal(&s->work);
}

int srv_scheduler_refuse_all(struct srv_scheduler *s, enum rt_status code, const char *text)
{
    int n = 0;

    rt_mutex_lock(&s->mu);
    struct srv_core_job *all = srv_core_take_all(&s->core);
    rt_mutex_unlock(&s->mu);
    for (struct srv_core_job *next; all; all = next) {
        struct srv_job *job = job_of(all);
        next = all->next;
        job->status = rt_fail(&job->err, code, "%s", text);
        complete(s, job);
        n++;
    }
    return n;
}

int srv_model_queue_jobs(struct srv_model_queue *l)
{
    rt_mutex_lock(&l->scheduler->mu);
    int n = l->core.n_jobs;
    rt_mutex_unlock(&l->scheduler->mu);
    return n;
}

int srv_scheduler_jobs(struct srv_scheduler *s)
{
    return atomic_load_explicit(&s->n_jobs, memory_order_acquire);
}

/* ---- start and stop ---- */

static struct srv_core_settings settings_of(const struct srv_options *o,
                                            const struct srv_batching *b)
{
    return (struct srv_core_settings){
        .max_running = b->num_batch_threads < INT_MAX ? (int)b->num_batch_threads : INT_MAX,
        .patience_ns = PATIENCE_NS,
        .max_model_queue_jobs = o->max_queue_jobs,
        .max_jobs = o->max_queue_jobs > INT64_MAX / TOTAL_FACTOR ? INT64_MAX
                                                                 : o->max_queue_jobs * TOTAL_FACTOR,
        .max_model_queue_bytes = (size_t)o->max_queue_bytes,
        .max_bytes = o->max_queue_bytes > INT64_MAX / TOTAL_FACTOR
                         ? SIZE_MAX
                         : (size_t)o->max_queue_bytes * TOTAL_FACTOR,
    };
}

static void stop(struct srv_scheduler *s, int n_started, bool has_timer)
{
    rt_mutex_lock(&s->mu);
    s->stopping = true;
    rt_mutex_unlock(&s->mu);
    rt_cond_broadcast(&s->work);
    rt_cond_broadcast(&s->time);
    rt_cond_broadcast(&s->spare);
    for (int i = 0; i < n_started; i++)
        pthread_join(s->worker[i].thread, NULL);
    if (has_timer)
        pthread_join(s->timer, NULL);
    for (int i = 0; i <= s->n_workers; i++)
        rt_arena_free(s->worker[i].arena);
    if (s->pool)
        rt_pool_unref(s->pool);
    rt_cond_clear(&s->work);
    rt_cond_clear(&s->time);
    rt_cond_clear(&s->spare);
    rt_mutex_clear(&s->mu);
    free(s);
}

enum rt_status srv_scheduler_new(struct srv_server *server, int n_workers,
                                 struct srv_scheduler **out, struct rt_error *err)
{
    struct srv_scheduler *s;
    bool ok;
    int n = 0;

    if (n_workers < 1)
        n_workers = 1;
    s = calloc(1, sizeof *s + ((size_t)n_workers + 1) * sizeof s->worker[0]);
    if (!s)
        return rt_fail_memory(err, "the scheduler", sizeof *s);
    enum rt_status st = srv_batching_of_server(&s->batching, &server->options, err);
    if (st) {
        free(s);
        return st;
    }
    struct srv_core_settings settings = settings_of(&server->options, &s->batching);
    s->server = server;
    s->n_workers = n_workers;
    s->timer_ns = RT_NEVER;
    rt_mutex_init(&s->mu);
    rt_cond_init(&s->work);
    rt_cond_init(&s->time);
    rt_cond_init(&s->spare);
    srv_core_init(&s->core, &settings);
    s->pool = rt_pool_new(0);
    ok = s->pool;
    if (ok && server->run_memory.limit)
        rt_pool_share(s->pool, &server->run_memory);
    for (; ok && n <= n_workers; n++) {
        struct worker *w = &s->worker[n];
        *w = (struct worker){.s = s, .index = n, .arena = rt_arena_new(SIZE_MAX)};
        if (!w->arena || rt_thread_start(&w->thread, n < n_workers ? "slip-worker" : "slip-spare",
                                         n < n_workers ? work : work_spare, w) != 0) {
            ok = false;
            break;
        }
    }
    if (s->batching.num_batch_threads > n_workers)
        RT_LOG(RT_LOG_INFO,
               "num_batch_threads is %lld, but %d batches run at a time: one per worker "
               "(--num_workers)",
               (long long)s->batching.num_batch_threads, n_workers);
    if (!ok || rt_thread_start(&s->timer, "slip-timer", run_timer, s) != 0) {
        stop(s, n, false);
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "the workers could not be started");
    }
    *out = s;
    return RT_OK;
}

void srv_scheduler_free(struct srv_scheduler *s)
{
    if (!s)
        return;
    srv_scheduler_refuse_all(s, RT_UNAVAILABLE, "the server is stopping");
    stop(s, s->n_workers + 1, true);
}

/* Requests compilation of specialisations for the allowed batch sizes. Batches are padded to
 * these sizes, so their shapes are known in advance. */
static void request_compilation(const struct srv_model_queue *l, const struct rt_model *m)
{
    for (int i = 0; i < m->n_signatures; i++) {
        const struct rt_model_signature *sig = &m->signatures[i];
        const bool merges = l->batching.mode == SRV_BATCHING_ALL ||
                            (l->batching.mode == SRV_BATCHING_ROW_WISE && sig->rowwise);
        struct rt_shape *shapes = sig->call && merges && l->policy.n_sizes
                                      ? calloc((size_t)sig->def->n_inputs + 1, sizeof *shapes)
                                      : NULL;
        bool known = shapes != NULL;
        for (int k = 0; known && k < sig->def->n_inputs; k++) {
            shapes[k] = sig->def->inputs[k].shape;
            known = shapes[k].rank >= 1;
            for (int d = 1; d < shapes[k].rank; d++)
                known = known && shapes[k].dim[d] >= 0;
        }
        for (int n = 0; known && n < l->policy.n_sizes && n < MAX_COMPILED_SIZES; n++) {
            for (int k = 0; k < sig->def->n_inputs; k++)
                shapes[k].dim[0] = l->policy.sizes[n];
            rt_callable_request_compilation(sig->call, shapes);
        }
        free(shapes);
    }
}

enum rt_status srv_model_queue_new(struct srv_scheduler *s, struct srv_version *v,
                                   struct srv_model_queue **out, struct rt_error *err)
{
    const struct rt_saved_model *files = v->loaded->saved_model;
    struct srv_model_queue *l = calloc(1, sizeof *l);

    if (!l)
        return rt_fail_memory(err, "a version's queue", sizeof *l);
    enum rt_status st = srv_batching_of_version(&l->batching, &s->batching, &s->server->options,
                                                files ? files->dir : "", err);
    if (st) {
        free(l);
        return st;
    }
    srv_batching_policy(&l->batching, &l->policy);
    request_compilation(l, v->loaded);
    l->scheduler = s;
    l->version = v;
    rt_mutex_lock(&s->mu);
    srv_core_model_queue_init(&s->core, &l->core, &l->policy);
    rt_mutex_unlock(&s->mu);
    *out = l;
    return RT_OK;
}

void srv_model_queue_free(struct srv_model_queue *l)
{
    if (!l)
        return;
    srv_buckets_clear(l);
    free(l);
}
