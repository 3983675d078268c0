/* Runs batches. Implements the threads of the workers and of the timer (scheduler_internal.h). */
#include "server/batching/scheduler_internal.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/core/run.h"
#include "server/base/send_group.h"
#include "server/batching/io_loop.h"
#include "server/metrics/metrics.h"
#include "server/tracing/profile.h"
#include "server/tracing/tracer.h"

enum {
    /* An inline run that takes longer is stopped and repeated on a worker. The duration of a run
     * may depend on the values of its inputs. */
    INLINE_RUN_NS = 5000000,
    RUNS_BEFORE_LARGER = 256,
    START_AGAIN_NS = 1000000000, /* time between two attempts to start a spare worker */
};

/* ---- responses: never under the lock ---- */

/* Names --default_deadline_seconds in the error message of a job whose deadline ended it, if the
 * flag set the deadline. */
static void name_default_deadline(struct srv_job *job)
{
    if (job->status == RT_DEADLINE_EXCEEDED && job->has_default_deadline)
        rt_fail(&job->err, job->status,
                "the request had no deadline, and --default_deadline_seconds=%g have passed",
                (double)job->io_loop->server->options.default_deadline_ms / 1000);
}

void srv_scheduler_complete(struct srv_scheduler *s, struct srv_job *job)
{
    if (!job->finished_ns)
        job->finished_ns = rt_now_ns();
    /* An op may fail with the same status before the deadline, for example Unbatch with its own
     * timeout. */
    if (job->finished_ns >= job->deadline_ns)
        name_default_deadline(job);
    if (job->status)
        srv_feed_reclaimer_take(&s->reclaimer, job);
    srv_scheduler_end_job(job);
    atomic_fetch_sub_explicit(&s->n_jobs, 1, memory_order_release);
}

void srv_scheduler_complete_expired(struct srv_scheduler *s, struct srv_core_job *list)
{
    for (struct srv_core_job *next; list; list = next) {
        struct srv_job *job = srv_job_of(list);
        next = list->next;
        job->status = srv_job_is_as_tensorflow(job)
                          ? rt_fail(&job->err, RT_RESOURCE_EXHAUSTED,
                                    "Run() timeout exceeded while waiting in batching queue")
                          : rt_fail(&job->err, RT_DEADLINE_EXCEEDED,
                                    "Timed out waiting for notification: the deadline came while "
                                    "the request was queued");
        /* The job may have been dropped before its deadline, because it would have missed it. An
         * earlier deadline of the scheduler is the end of the time that a job may be queued. */
        if (job->sched.deadline_ns == job->deadline_ns)
            name_default_deadline(job);
        srv_scheduler_complete(s, job);
    }
}

/* ---- running ---- */

void srv_scheduler_log_never_merged(const struct srv_job *job)
{
    RT_LOG(
        RT_LOG_WARNING,
        "signature %s of model %s version %lld is not batched any more: its outputs do not follow "
        "the rows of its inputs",
        job->signature->def->name, job->version->model, (long long)job->version->version);
}

void srv_scheduler_end_batch(struct srv_scheduler *s, const struct srv_core_batch *batch,
                             int64_t run_ns, const struct srv_batch_verdict *v)
{
    struct srv_bucket *b = (struct srv_bucket *)batch->bucket;
    struct srv_model_queue *mq = (struct srv_model_queue *)b->core.model_queue;

    (void)s; /* `s` is used only by RT_REQUIRES */
    srv_core_done(mq->scheduler_core, batch, run_ns, v->learn);
    if (v->learn)
        b->core.has_large_outputs = v->has_large_outputs;
    if (v->halve_limit) {
        b->core.max_rows = batch->rows / 2 > 1 ? batch->rows / 2 : 1;
        b->since_halved = 0;
    } else if (b->core.max_rows && v->learn && ++b->since_halved >= RUNS_BEFORE_LARGER) {
        /* The memory shortage may have been temporary, so the limit is doubled again after
         * RUNS_BEFORE_LARGER successful runs. */
        b->since_halved = 0;
        b->core.max_rows = b->core.max_rows > INT64_MAX / 2 ? 0 : b->core.max_rows * 2;
    }
    if (v->never_merge)
        srv_buckets_stop_merging(mq, b->queue);
}

/* The free workers that srv_core_worker.sooner points to. */
struct sooner {
    struct srv_core_worker worker[SRV_MAX_GROUPS];
};

static bool has_failed(const struct srv_scheduler *s, int group)
{
    return group && atomic_load_explicit(&s->server->gpus.device[group - 1]->has_failed,
                                         memory_order_relaxed);
}

uint32_t srv_scheduler_avoided(const struct srv_scheduler *s, int group)
{
    uint32_t avoided = 0;
    for (int k = 1; k < s->n_groups && has_failed(s, group); k++)
        avoided |= has_failed(s, k) ? 0 : UINT32_C(1) << k;
    return avoided;
}

/* Returns the number of workers of the group whose runs are not long. */
static int n_in_service(const struct srv_scheduler *s, int group, int64_t now) RT_REQUIRES(s->mu)
{
    int n = 0;
    for (int i = 0; i < s->n_workers; i++) {
        const struct srv_worker *w = &s->worker[i];
        n += w->group == group && (!w->batch || now - w->began_ns < s->long_run_ns);
    }
    return n;
}

/* Returns srv_core_worker.is_last for a worker of the group, which has n free workers. A worker
 * whose run is long may never be free again, so a long batch must not wait for it. */
static bool is_last(const struct srv_scheduler *s, int group, int n, int64_t now) RT_REQUIRES(s->mu)
{
    return n == 1 && n_in_service(s, group, now) > 1;
}

/* Returns the next time after `now` at which the run of a GPU's worker becomes long, or RT_NEVER if
 * no jobs are queued. */
static int64_t long_run_at(const struct srv_scheduler *s, int64_t now) RT_REQUIRES(s->mu)
{
    int64_t at = RT_NEVER;
    for (int i = 0; i < s->n_workers && s->gpus.n_jobs; i++) {
        const struct srv_worker *w = &s->worker[i];
        const int64_t end = w->began_ns + s->long_run_ns;
        if (w->group && w->batch && end > now && end < at)
            at = end;
    }
    return at;
}

/* Returns a free worker of the group, which has n free workers. A batch is not divided among the
 * workers of a GPU, because a GPU runs one batch as fast as its parts. *sooner must outlive the
 * result. */
static struct srv_core_worker free_worker(const struct srv_scheduler *s, int group, int n,
                                          int64_t now, struct sooner *sooner) RT_REQUIRES(s->mu)
{
    struct srv_core_worker w = {.group = group,
                                .n_free = group ? 1 : n,
                                .is_last = group && is_last(s, group, n, now),
                                .avoided = srv_scheduler_avoided(s, group),
                                .sooner = sooner->worker};
    /* Workers that were signalled count as busy. */
    const int n_busy = s->group[group].n_workers - n + s->group[group].n_woken;
    for (int k = 1; group && !w.avoided && k < s->n_groups; k++) {
        const struct srv_worker_group *g = &s->group[k];
        const int n_free = g->n_idle - g->n_woken;
        if (k != group && n_free > 0 && !has_failed(s, k) &&
            srv_core_is_sooner(&s->gpus, k, g->n_workers - n_free, group, n_busy, now))
            sooner->worker[w.n_sooner++] = (struct srv_core_worker){
                .group = k, .n_free = 1, .is_last = is_last(s, k, g->n_idle, now)};
    }
    return w;
}

/* Returns whether to signal a worker of the group. If so, counts the worker as signalled. */
static bool should_wake(struct srv_scheduler *s, int group, int64_t now) RT_REQUIRES(s->mu)
{
    struct srv_worker_group *g = &s->group[group];
    struct sooner sooner;
    if (g->n_idle <= g->n_woken)
        return false;
    const struct srv_core_worker w = free_worker(s, group, g->n_idle, now, &sooner);
    if (!srv_core_is_ready(g->core, now, &w))
        return false;
    g->n_woken++;
    return true;
}

uint32_t srv_scheduler_groups_to_wake(struct srv_scheduler *s, int64_t now)
{
    uint32_t groups = 0;
    for (int k = 0; k < s->n_groups; k++)
        if (should_wake(s, k, now))
            groups |= UINT32_C(1) << k;
    return groups;
}

void srv_scheduler_wake(struct srv_scheduler *s, uint32_t groups)
{
    for (int k = 0; groups; k++, groups >>= 1)
        if (groups & 1)
            rt_cond_signal(&s->group[k].work);
}

/* Returns whether a worker must repeat an inline run. This is the case if the run was stopped at
 * `end_ns` before the job's deadline, or if encoding its outputs would take long. If so, restores
 * the job's status and outputs from before the run. */
static bool must_repeat(struct srv_job *job, int64_t end_ns, struct srv_batch_verdict *v)
{
    if (v->has_large_outputs) {
        for (int i = 0; i < job->n_fetches; i++)
            rt_tensor_clear(&job->fetches[i]);
        return true;
    }
    if (job->status != RT_DEADLINE_EXCEEDED || job->deadline_ns <= end_ns ||
        atomic_load_explicit(srv_job_cancelled(job), memory_order_relaxed))
        return false;
    job->status = RT_OK;
    job->err = (struct rt_error){.arena = job->arena};
    v->learn = true; /* adds the duration of the stopped run to the cost model */
    return true;
}

/* Adds the batch to the metrics and the traces. Only one thread at a time may write the counters of
 * an index. The spare workers and the runs that have waited share an index, so they take a lock. */
static void count_batch(struct srv_scheduler *s, int worker, const struct srv_batch *g,
                        const struct srv_run *run, int64_t run_ns)
{
    struct srv_metrics *metrics = s->server->metrics;

    srv_tracer_batch(s->server->tracer, g->first, g->n_jobs, g->rows, run->start_ns,
                     run->start_ns + run_ns, run->group - 1);
    if (!run->waits && !(run->worker && run->worker->is_spare)) {
        srv_metrics_batch(metrics, worker, g->first, g->n_jobs, g->rows, g->run_rows, run_ns);
        return;
    }
    rt_mutex_lock(&s->shared_cells);
    srv_metrics_batch(metrics, s->n_workers, g->first, g->n_jobs, g->rows, g->run_rows, run_ns);
    rt_mutex_unlock(&s->shared_cells);
}

static void complete_all(struct srv_scheduler *s, struct srv_job *first, int64_t finish)
{
    srv_send_group_begin();
    for (struct srv_job *job = first, *next; job; job = next) {
        next = job->next;
        job->finished_ns = finish;
        srv_scheduler_complete(s, job);
    }
    srv_send_group_end();
}

/* Records that the worker's batch has ended. From now on, further spare workers may take batches. A
 * spare worker therefore encodes large outputs with low priority. Other requests then keep most of
 * the processor time, even if many spare workers encode outputs. */
static void release_worker(struct srv_scheduler *s, struct srv_worker *w,
                           const struct srv_batch_verdict *v) RT_REQUIRES(s->mu)
{
    srv_scheduler_set_batch(s, w, NULL, 0);
    if (v->has_large_outputs && w->is_spare)
        srv_scheduler_lower(w);
}

/* Runs the batch, and records the times of its nodes if a profile wants them. */
static struct srv_batch_verdict run_jobs(struct srv_scheduler *s, struct srv_batch *g)
{
    struct srv_profile *profile = s->server->profile;
    struct srv_job *first = g->first;
    struct rt_trace trace;

    if (first->trace || !srv_profile_begin_run(profile, first, &trace))
        return srv_batch_run(g);
    g->trace = &trace;
    first->trace = g->n_jobs == 1 ? &trace : NULL;
    struct srv_batch_verdict verdict = srv_batch_run(g);
    first->trace = NULL;
    /* An inline run that is stopped, or whose outputs are large, is repeated. */
    srv_profile_end_run(profile, first, &trace,
                        !first->status && !(g->end_ns && verdict.has_large_outputs));
    verdict.learn = false; /* a run with a trace takes longer */
    return verdict;
}

enum srv_run_end srv_scheduler_run_batch(struct srv_scheduler *s, struct srv_worker *w, int worker,
                                         const struct srv_core_batch *batch)
{
    struct srv_job *dropped = NULL;
    struct srv_run run = {.s = s, .worker = w, .group = w ? w->group : 0, .batch = batch};
    const struct rt_wait_hook on_wait = {.begin = srv_scheduler_begin_waiting,
                                         .arg = &run,
                                         .computes_since_ns = &run.computes_since_ns};
    struct srv_batch g = {.arena = w ? w->arena : NULL,
                          .pool = s->pool,
                          .input_limit = (size_t)s->server->options.run_memory_limit_bytes,
                          .on_wait = w ? &on_wait : NULL};
    struct srv_job **end = &g.first;
    struct srv_batch_verdict verdict = {0};
    bool repeats = false;
    /* An inline run starts immediately after queuing, so the queuing time is its start time. */
    int64_t start = w ? rt_now_ns() : srv_job_of(batch->jobs)->queued_ns, finish;

    for (struct srv_core_job *j = batch->jobs, *next; j; j = next) {
        struct srv_job *job = srv_job_of(j);
        next = j->next;
        job->next = NULL;
        job->started_ns = start;
        job->accelerator = job->version->model_queue->accelerator[run.group];
        if (atomic_load_explicit(srv_job_cancelled(job), memory_order_relaxed)) {
            job->status = rt_fail(&job->err, RT_CANCELLED, "the client has gone");
            job->next = dropped;
            dropped = job;
            continue;
        }
        *end = job;
        end = &job->next;
        g.needs_row_wise = !srv_batching_is_for_all(job->version->model_queue->batching,
                                                    srv_queued_signature(job)->def->name);
        g.n_jobs++;
        g.rows += job->n_rows;
    }
    g.run_rows = g.n_jobs && g.rows == batch->rows ? batch->run_rows : g.rows;
    g.end_ns = w ? 0 : start + INLINE_RUN_NS;
    run.start_ns = start;
    if (g.n_jobs)
        verdict = run_jobs(s, &g);
    finish = rt_now_ns();
    if (!w && g.n_jobs && must_repeat(g.first, g.end_ns, &verdict))
        repeats = true;
    else if (g.n_jobs)
        count_batch(s, worker, &g, &run, finish - start);
    if (verdict.never_merge)
        srv_scheduler_log_never_merged(g.first);
    if (run.waits) {
        *end = dropped;
        complete_all(s, g.first, finish);
        rt_arena_free(run.arena);
        srv_scheduler_end_waited(s, &run);
        return SRV_RUN_WAITED;
    }
    rt_mutex_lock(&s->mu);
    if (g.n_jobs && g.rows != batch->rows)
        /* some jobs were dropped before the run, so its duration is not that of batch->rows rows */
        verdict.learn = false;
    srv_scheduler_end_batch(s, batch, finish - start, &verdict);
    if (w)
        release_worker(s, w, &verdict);
    /* After this run, a waiting batch may start. A regular worker takes that batch itself. After an
     * inline run or a spare worker's run, an idle worker must be woken. */
    const bool is_worker = w && !w->is_spare;
    const bool has_jobs = s->cpu.n_jobs || s->gpus.n_jobs;
    const uint32_t wake = is_worker || !has_jobs ? 0 : srv_scheduler_groups_to_wake(s, finish);
    rt_mutex_unlock(&s->mu);
    srv_scheduler_wake(s, wake);
    if (repeats)
        return SRV_RUN_REPEATS;
    *end = dropped;
    complete_all(s, g.first, finish);
    if (w)
        rt_arena_reset(w->arena);
    return SRV_RUN_COMPLETE;
}

int64_t srv_scheduler_timer_at(const struct srv_scheduler *s, int64_t now)
{
    const int64_t cpu = srv_core_next_timer(&s->cpu);
    const int64_t allowed = srv_core_long_at(&s->gpus, now), long_run = long_run_at(s, now);
    const int64_t at = allowed < long_run ? allowed : long_run;
    int64_t gpus = srv_core_next_timer(&s->gpus);
    bool is_idle = false;
    for (int k = 1; k < s->n_groups; k++)
        is_idle |= s->group[k].n_idle > s->group[k].n_woken;
    if (is_idle && at < gpus)
        gpus = at;
    return cpu < gpus ? cpu : gpus;
}

void srv_scheduler_set_batch(struct srv_scheduler *s, struct srv_worker *w,
                             struct srv_core_batch *batch, int64_t now)
{
    if (!w->group && !w->is_spare) {
        s->n_busy += (batch != NULL) - (w->batch != NULL);
        s->taken_ns = batch ? now : s->taken_ns;
    }
    w->batch = batch;
    w->began_ns = now;
}

void *srv_worker_main(void *arg)
{
    struct srv_worker *w = arg;
    struct srv_scheduler *s = w->s;
    struct srv_worker_group *g = &s->group[w->group];

    rt_mutex_lock(&s->mu);
    for (;;) {
        struct srv_core_batch batch;
        struct srv_core_job *expired = NULL;
        int64_t now = rt_now_ns();
        struct sooner sooner;
        const struct srv_core_worker free_one =
            free_worker(s, w->group, 1 + g->n_idle, now, &sooner);
        bool got = srv_core_next(g->core, now, &free_one, &batch, &expired);
        if (got)
            srv_scheduler_set_batch(s, w, &batch, now);
        if (!got && !expired) {
            if (s->stopping)
                break;
            if (g->core->n_jobs) /* a worker of another group may take what this one leaves */
                srv_scheduler_wake(s, srv_scheduler_groups_to_wake(s, now));
            g->n_idle++;
            if (g->core->n_jobs && srv_scheduler_timer_at(s, now) < s->timer_ns)
                rt_cond_signal(&s->time);
            rt_cond_wait(&g->work, &s->mu);
            g->n_idle--;
            if (g->n_woken)
                g->n_woken--;
            continue;
        }
        /* Each worker wakes one idle worker of each group that has another batch to run. The batch
         * that this worker took may have made another group the one that is free first. */
        const uint32_t wake = srv_scheduler_groups_to_wake(s, now);
        const bool wake_spare = srv_scheduler_spare_at(s) < s->spare_ns;
        rt_mutex_unlock(&s->mu);
        srv_scheduler_wake(s, wake);
        if (wake_spare)
            rt_cond_signal(&s->spare);
        srv_scheduler_complete_expired(s, expired);
        if (got && srv_scheduler_run_batch(s, w, w->index, &batch) == SRV_RUN_WAITED)
            return NULL;
        rt_mutex_lock(&s->mu);
    }
    srv_scheduler_end_thread(s);
    rt_mutex_unlock(&s->mu);
    return NULL;
}

/* The timer completes jobs whose deadlines pass while all workers are busy, wakes a worker when a
 * batch has waited long enough, and starts spare workers. */
void *srv_timer_main(void *arg)
{
    struct srv_scheduler *s = arg;
    int64_t start_ns = 0; /* time from which a spare worker may be started */

    rt_mutex_lock(&s->mu);
    while (!s->stopping) {
        int64_t now = rt_now_ns();
        if (srv_scheduler_lacks_spare(s) && now >= start_ns) {
            rt_mutex_unlock(&s->mu);
            if (!srv_scheduler_start_spare(s))
                start_ns = now + START_AGAIN_NS;
            rt_mutex_lock(&s->mu);
            continue;
        }
        struct srv_core_job *expired = srv_core_expired(&s->cpu, now);
        struct srv_core_job *of_gpus = srv_core_expired(&s->gpus, now);
        const uint32_t wake = srv_scheduler_groups_to_wake(s, now);
        if (expired || of_gpus || wake) {
            rt_mutex_unlock(&s->mu);
            srv_scheduler_wake(s, wake);
            srv_scheduler_complete_expired(s, expired);
            srv_scheduler_complete_expired(s, of_gpus);
            rt_mutex_lock(&s->mu);
            continue;
        }
        s->timer_ns = srv_scheduler_timer_at(s, now);
        if (s->timer_ns <= now) /* a batch is due, but no worker is free */
            s->timer_ns = now + 1000000;
        if (srv_scheduler_lacks_spare(s) && s->timer_ns > start_ns)
            s->timer_ns = start_ns;
        const int64_t look_ns = srv_scheduler_lower_waited(s, now);
        if (look_ns < s->timer_ns)
            s->timer_ns = look_ns;
        rt_cond_wait_until(&s->time, &s->mu, s->timer_ns);
    }
    rt_mutex_unlock(&s->mu);
    return NULL;
}
