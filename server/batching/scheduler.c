/* Admits, queues and refuses jobs, and runs jobs inline (scheduler.h). */
#include "server/batching/scheduler.h"

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "server/batching/io_loop.h"
#include "server/batching/scheduler_internal.h"
#include "server/batching/sub_requests.h"
#include "server/metrics/metrics.h"
#include "server/tracing/request_span.h"

enum {
    /* Maximum time for inline jobs per turn. The network thread must also serve other
     * connections. */
    INLINE_PER_TURN_NS = 500000,
    /* Jobs of a lower cost run inline even if they could be merged, because merging costs more
     * than it saves. */
    TINY_NS = 10000,
};

static enum rt_status fail_full(struct srv_job *job)
{
    const struct srv_options *o = &job->io_loop->server->options;
    const struct srv_core_model_queue *mq = &job->version->model_queue->core;
    const long long version = job->version->version;
    char limits[160];
    snprintf(
        limits, sizeof limits,
        "%lld requests, %zu bytes (--max_queue_jobs=%lld, --max_queue_bytes=%lld, all versions "
        "together %d times as much)",
        (long long)mq->n_jobs, mq->n_bytes, (long long)o->max_queue_jobs,
        (long long)o->max_queue_bytes, SRV_QUEUES_FACTOR);
    return srv_job_is_as_tensorflow(job)
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
    /* TensorFlow Serving's error message reports at least one batch, even if no batch is queued. */
    long long n = b->queue->core.n_batches ? b->queue->core.n_batches : 1;
    const struct srv_batching *p = job->version->model_queue->batching;
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

static void describe(struct srv_job *job)
{
    job->sched = (struct srv_core_job){.rows = job->n_rows,
                                       .bytes = job->body_bytes,
                                       .deadline_ns = job->deadline_ns,
                                       .level = job->level};
}

bool srv_scheduler_run_inline(struct srv_scheduler *s, struct srv_job *job)
{
    int64_t max_ns = s->server->options.inline_max_us * 1000;
    struct srv_io_loop *io_loop = job->io_loop;
    struct srv_core_batch batch;
    struct srv_bucket *b;
    bool may;

    /* An inline run may be repeated. Therefore a job with a trace does not run inline, because a
     * repeated run would add its nodes to the trace a second time. Neither does a job that draws
     * random numbers, because its generators would advance twice. */
    if (max_ns <= 0 || job->trace || srv_queued_signature(job)->draws ||
        io_loop->inline_ns >= INLINE_PER_TURN_NS || job->deadline_ns <= job->queued_ns)
        return false;
    describe(job);
    rt_mutex_lock(&s->mu);
    b = srv_bucket_of(job);
    /* If a job has already run inline in this turn, more jobs probably follow. Merging them costs
     * less than running each of them inline. */
    if (b && b->core.merges && io_loop->inline_ns > 0)
        max_ns = max_ns < TINY_NS ? max_ns : TINY_NS;
    may = b && job->version->model_queue->scheduler_core == &s->cpu &&
          (!b->core.merges || job->n_rows <= srv_core_row_limit(&b->core)) &&
          srv_core_begin_inline(&s->cpu, &b->core, &job->sched, s->group[0].n_workers, max_ns,
                                &batch);
    rt_mutex_unlock(&s->mu);
    if (!may)
        return false;
    atomic_fetch_add_explicit(&s->n_jobs, 1, memory_order_relaxed);
    int64_t start = job->queued_ns;
    const bool is_complete =
        srv_scheduler_run_batch(s, NULL, -1 - io_loop->index, &batch) == SRV_RUN_COMPLETE;
    io_loop->inline_ns += rt_now_ns() - start;
    if (!is_complete)
        atomic_fetch_sub_explicit(&s->n_jobs, 1, memory_order_release);
    return is_complete;
}

enum rt_status srv_scheduler_admit(struct srv_scheduler *s, struct srv_job *job)
{
    const struct srv_batching *b = job->version->model_queue->batching;

    (void)s;
    if (b->n_levels && job->level > b->n_levels)
        return rt_fail(&job->err, RT_INVALID_ARGUMENT,
                       "the priority %u is not between 1 and %u, the priority_levels of the model",
                       job->level, b->n_levels);
    if (b->limits_rows && job->n_rows > b->max_batch_size &&
        strcmp(b->signature, job->signature->def->name) == 0)
        return rt_fail(&job->err, RT_INVALID_ARGUMENT,
                       "the request has %lld rows, but max_batch_size of the model is %lld",
                       (long long)job->n_rows, (long long)b->max_batch_size);
    if (!srv_job_is_as_tensorflow(job))
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

/* Returns dimension 0 of the feeds if it is equal in all feeds, and otherwise 0. Also returns 0 for
 * a job with a trace, and for a dynamic callable that did not pass row-wise analysis. */
static int64_t rows_of(const struct srv_job *job)
{
    if (job->trace || (job->signature->is_dynamic && !job->signature->rowwise))
        return 0;
    if (!job->n_feeds || !job->feeds[0].rank)
        return 0;
    for (int i = 1; i < job->n_feeds; i++)
        if (!job->feeds[i].rank || job->feeds[i].dim[0] != job->feeds[0].dim[0])
            return 0;
    return job->feeds[0].dim[0];
}

enum rt_status srv_scheduler_make_ready(struct srv_job *job)
{
    job->n_rows = rows_of(job);
    if (!job->fetches) {
        job->n_fetches = job->signature->def->n_outputs;
        job->fetches = rt_arena_array(job->arena, (size_t)job->n_fetches + 1, sizeof *job->fetches);
        if (!job->fetches) {
            job->n_fetches = 0;
            return rt_fail_memory(&job->err, "a request's outputs", 0);
        }
    }
    return job->signature->is_dynamic ? RT_OK
                                      : srv_scheduler_admit(job->io_loop->server->scheduler, job);
}

/* Completes a split request after its last sub-request has ended. */
static void complete_parent(struct srv_job *parent, bool follows_rows)
{
    struct srv_scheduler *s = parent->io_loop->server->scheduler;
    struct srv_model_queue *mq = parent->version->model_queue;
    if (!follows_rows) {
        rt_mutex_lock(&s->mu);
        struct srv_call_queue *q = srv_call_queue_of(mq, parent->signature);
        if (q)
            srv_buckets_stop_merging(mq, q);
        rt_mutex_unlock(&s->mu);
        srv_scheduler_log_never_merged(parent);
    }
    srv_scheduler_complete(s, parent);
}

struct turn { /* the jobs of a turn that must be completed after the lock is released */
    struct srv_job *refused;
    struct srv_core_job *expired;
    int n_common; /* number of jobs whose client has no share of its own */
};

static void refuse(struct turn *t, struct srv_job *job, enum rt_status st)
{
    job->status = st;
    job->next = t->refused;
    t->refused = job;
}

/* Returns the client's share of the model queue of the bucket, or NULL. */
static struct srv_queue_share *share_of(struct srv_scheduler *s, const struct srv_bucket *b,
                                        const struct srv_job *job) RT_REQUIRES(s->mu)
{
    return s->shares ? srv_queue_shares_find(s->shares, &job->client, b->core.model_queue) : NULL;
}

/* Refuses the job if its client's queued jobs fill its share of the model queue. Sub-requests are
 * not checked, because all of them or none must be queued. */
static enum rt_status check_share(struct srv_scheduler *s, const struct srv_bucket *b,
                                  struct srv_job *job, struct turn *t) RT_REQUIRES(s->mu)
{
    const struct srv_queue_share *share = share_of(s, b, job);

    if (!share)
        return RT_OK;
    t->n_common += srv_queue_shares_is_common(s->shares, share);
    if (!srv_queue_shares_is_full(s->shares, share,
                                  &job->version->model_queue->scheduler_core->settings, &b->core,
                                  job->n_rows, job->body_bytes))
        return RT_OK;
    job->retry_s = 1;
    return rt_fail(&job->err, RT_RESOURCE_EXHAUSTED,
                   "the client's requests fill its share of the queue of model %s version %lld "
                   "with %lld requests, %zu bytes (--quota_queue_share=%g); retry after 1 s",
                   job->version->model, (long long)job->version->version, (long long)share->n_jobs,
                   share->n_bytes, s->server->options.quota_queue_share);
}

static void submit_one(struct srv_scheduler *s, struct srv_bucket *b, struct srv_job *job,
                       int64_t now, struct turn *t) RT_REQUIRES(s->mu)
{
    atomic_fetch_add_explicit(&s->n_jobs, 1, memory_order_relaxed);
    describe(job);
    job->sched.share = share_of(s, b, job);
    switch (
        srv_core_submit(job->version->model_queue->scheduler_core, &b->core, &job->sched, now)) {
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

/* Splits a job with too many rows for one batch into sub-requests. Queues all of them, or refuses
 * the job. */
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
    bool wake_timer, wake_spare;

    rt_mutex_lock(&s->mu);
    for (struct srv_job *job = first; job; job = next) {
        next = job->next;
        struct srv_bucket *b = srv_bucket_of(job);
        const enum rt_status st =
            b ? check_share(s, b, job, &t) : rt_fail_memory(&job->err, "a queue", sizeof *b);
        if (st) {
            atomic_fetch_add_explicit(&s->n_jobs, 1, memory_order_relaxed);
            refuse(&t, job, st);
        } else if (b->core.merges && job->n_rows > srv_core_row_limit(&b->core) &&
                   job->version->model_queue->batching->splits_large) {
            submit_sub_requests(s, b, job, now, &t);
        } else {
            submit_one(s, b, job, now, &t);
        }
    }
    const uint32_t wake = srv_scheduler_groups_to_wake(s, now);
    wake_timer = srv_scheduler_timer_at(s, now) < s->timer_ns;
    wake_spare = srv_scheduler_spare_at(s) < s->spare_ns;
    rt_mutex_unlock(&s->mu);
    if (wake_spare)
        rt_cond_signal(&s->spare);
    srv_scheduler_wake(s, wake);
    if (wake_timer)
        rt_cond_signal(&s->time);
    srv_scheduler_complete_expired(s, t.expired);
    for (; t.n_common; t.n_common--)
        srv_metrics_event(s->server->metrics, "quota_shared");
    for (; t.refused; t.refused = next) {
        next = t.refused->next;
        if (t.refused->retry_s)
            srv_metrics_event(s->server->metrics, "quota_refused");
        srv_scheduler_complete(s, t.refused);
    }
}

void srv_scheduler_end_job(struct srv_job *job)
{
    const bool is_prepared = job->kind != SRV_JOB_RUN;

    if (is_prepared) {
        srv_request_span_decoded(job->span, job->started_ns);
        job->started_ns = 0;
        if (!job->status)
            job->status = srv_scheduler_make_ready(job);
    }
    if (!is_prepared || job->status) {
        job->done(job);
        return;
    }
    job->kind = SRV_JOB_RUN;
    job->finished_ns = 0;
    job->next = NULL;
    srv_scheduler_submit(job->io_loop->server->scheduler, job);
}

void srv_scheduler_flush(struct srv_scheduler *s)
{
    rt_mutex_lock(&s->mu);
    s->cpu.is_flushed = s->gpus.is_flushed = true;
    const uint32_t wake = srv_scheduler_groups_to_wake(s, rt_now_ns());
    rt_mutex_unlock(&s->mu);
    srv_scheduler_wake(s, wake);
}

void srv_model_queue_flush(struct srv_model_queue *mq)
{
    struct srv_scheduler *s = mq->scheduler;

    rt_mutex_lock(&s->mu);
    mq->core.is_flushed = true;
    const uint32_t wake = srv_scheduler_groups_to_wake(s, rt_now_ns());
    rt_mutex_unlock(&s->mu);
    srv_scheduler_wake(s, wake);
}

/* Completes all queued jobs of a core. Returns their number. */
static int refuse_all(struct srv_scheduler *s, struct srv_core *core, enum rt_status code,
                      const char *text)
{
    int n = 0;

    rt_mutex_lock(&s->mu);
    struct srv_core_job *all = srv_core_take_all(core);
    rt_mutex_unlock(&s->mu);
    for (struct srv_core_job *next; all; all = next) {
        struct srv_job *job = srv_job_of(all);
        next = all->next;
        job->status = rt_fail(&job->err, code, "%s", text);
        srv_scheduler_complete(s, job);
        n++;
    }
    return n;
}

int srv_scheduler_refuse_all(struct srv_scheduler *s, enum rt_status code, const char *text)
{
    return refuse_all(s, &s->cpu, code, text) + refuse_all(s, &s->gpus, code, text);
}

int srv_model_queue_jobs(struct srv_model_queue *mq)
{
    rt_mutex_lock(&mq->scheduler->mu);
    int n = mq->core.n_jobs;
    rt_mutex_unlock(&mq->scheduler->mu);
    return n;
}

int srv_scheduler_jobs(struct srv_scheduler *s)
{
    return atomic_load_explicit(&s->n_jobs, memory_order_acquire);
}
