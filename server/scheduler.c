#include "server/scheduler.h"

#include <stdlib.h>

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/map.h"
#include "runtime/base/thread.h"
#include "server/metrics.h"
#include "server/net.h"

enum {
    INLINE_PER_TURN_NS = 500000, /* a network thread has other connections to read */
    TINY_NS = 10000,             /* what costs less is not worth merging */
    PATIENCE_NS = 1000000000,
    TOTAL_FACTOR = 4, /* all queues together hold as much as this many full ones */
    MAX_IDLE_BUCKETS = 64,
};

struct feed_key { /* of one feed: what must be the same in all jobs of a bucket */
    uint8_t dtype;
    int8_t rank;
    int64_t inner[RT_MAX_RANK];
};

struct bucket {
    struct srv_core_bucket core; /* first */
    uint64_t hash;
    const struct rt_model_signature *signature; /* NULL: of the lane's writers */
    bool has_rows;
    int n_feeds;
    struct feed_key feeds[];
};

struct srv_lane {
    struct srv_core_lane core;
    struct srv_scheduler *scheduler;
    struct srv_version *version;
    int n_buckets;     /* guarded by mu */
    bool *never_merge; /* per signature: its outputs turned out not to follow the rows. By mu */
};

struct worker {
    struct srv_scheduler *s;
    int index;
    pthread_t thread;
    struct rt_arena *arena; /* of the batch that it runs */
};

struct srv_scheduler {
    struct srv_server *server;
    struct rt_mutex mu;
    struct rt_cond work, time;
    struct srv_core core; /* guarded by mu, as all that follows */
    int n_idle;           /* workers that wait */
    int n_woken;          /* of these, those that were signalled */
    int64_t timer_ns;     /* when the timer thread looks by itself */
    bool stopping;
    struct rt_pool *pool;
    _Atomic int n_jobs; /* queued and running */
    int n_workers;
    pthread_t timer;
    struct worker worker[];
};

static struct srv_job *job_of(struct srv_core_job *j)
{
    return (struct srv_job *)((char *)j - offsetof(struct srv_job, sched));
}

/* ---- answers: never under the lock ---- */

/* Nothing of the job's version may be touched afterwards: its last handle may be gone. */
static void answer(struct srv_scheduler *s, struct srv_job *job)
{
    if (!job->finished_ns)
        job->finished_ns = rt_now_ns();
    job->done(job);
    atomic_fetch_sub_explicit(&s->n_jobs, 1, memory_order_release);
}

static void answer_late(struct srv_scheduler *s, struct srv_core_job *list)
{
    for (struct srv_core_job *next; list; list = next) {
        struct srv_job *job = job_of(list);
        next = list->next;
        job->status = rt_fail(&job->err, RT_DEADLINE_EXCEEDED,
                              "Timed out waiting for notification: the deadline came while the "
                              "request was queued");
        answer(s, job);
    }
}

static void refuse(struct srv_scheduler *s, struct srv_job *job, int64_t lane_jobs)
{
    if (s->server->options.enable_batching)
        job->status =
            rt_fail(&job->err, RT_UNAVAILABLE,
                    "The batch scheduling queue to which this task was submitted is "
                    "full; %lld requests are queued for model %s version %lld",
                    (long long)lane_jobs, job->version->model, (long long)job->version->version);
    else
        job->status =
            rt_fail(&job->err, RT_UNAVAILABLE,
                    "the server is overloaded: the queue of model %s version %lld is "
                    "full with %lld requests",
                    job->version->model, (long long)job->version->version, (long long)lane_jobs);
    answer(s, job);
}

/* ---- running ---- */

static bool is_data_error(enum rt_status st)
{
    switch (st) {
    case RT_INVALID_ARGUMENT:
    case RT_OUT_OF_RANGE:
    case RT_NOT_FOUND:
    case RT_FAILED_PRECONDITION:
    case RT_DATA_LOSS:
    case RT_UNKNOWN:
    case RT_RESOURCE_EXHAUSTED: /* a smaller run may fit */
        return true;
    default:
        return false;
    }
}

static void run_one(struct srv_job *job)
{
    struct rt_run_options options = {.deadline_ns = job->deadline_ns, .cancelled = &job->cancelled};

    job->batch_rows = (int)(job->n_rows > 0 && job->n_rows < INT32_MAX ? job->n_rows : 1);
    job->status =
        rt_callable_run(job->signature->call, job->feeds, job->fetches, &options, &job->err);
}

struct group {
    struct srv_job *first; /* by `next` */
    int n_jobs;
    int64_t rows, run_rows;
};

static enum rt_status merge_feed(struct srv_scheduler *s, const struct group *g, int i,
                                 struct rt_tensor *out, struct rt_error *err)
{
    const struct rt_tensor *like = &g->first->feeds[i], *last = like;
    enum rt_dtype dtype = (enum rt_dtype)like->dtype;
    int64_t dim[RT_MAX_RANK], inner = 1, at = 0;
    enum rt_status st;

    dim[0] = g->run_rows;
    for (int d = 1; d < like->rank; d++) {
        dim[d] = like->dim[d];
        inner *= dim[d];
    }
    st = rt_tensor_new(out, s->pool, dtype, like->rank, dim, err);
    size_t row_bytes = (size_t)inner * rt_dtype_size(dtype);
    if (!row_bytes)
        return st;
    for (const struct srv_job *j = g->first; j && !st; j = j->next) {
        last = &j->feeds[i];
        st = rt_copy_elements(dtype, (char *)out->data + (size_t)at * row_bytes, last->data,
                              j->n_rows * inner, err);
        at += j->n_rows;
    }
    for (; at < g->run_rows && !st; at++) /* padding: the last job's first row */
        st = rt_copy_elements(dtype, (char *)out->data + (size_t)at * row_bytes, last->data, inner,
                              err);
    return st;
}

/* Gives each job its rows of `all`, as views. */
static void split(const struct group *g, const struct rt_tensor *all, int n)
{
    int64_t at = 0;
    for (struct srv_job *j = g->first; j; j = j->next) {
        for (int i = 0; i < n; i++) {
            struct rt_tensor *t = &j->fetches[i];
            rt_tensor_ref(t, &all[i]);
            t->dim[0] = j->n_rows;
            if (t->data)
                t->data = (char *)t->data +
                          (size_t)at * (rt_tensor_bytes(&all[i]) / (size_t)all[i].dim[0]);
        }
        at += j->n_rows;
    }
}

enum outcome { RAN, FAILED, DOES_NOT_FOLLOW_ROWS };

/* Runs the group as one. FAILED: *err says why; no job was given anything. */
static enum outcome run_merged(struct worker *w, const struct group *g, struct rt_error *err)
{
    const struct rt_model_signature *sig = g->first->signature;
    int n_in = g->first->n_feeds, n_out = g->first->n_fetches;
    struct rt_run_options options = {.deadline_ns = 0};
    struct rt_tensor *in = rt_arena_array(w->arena, (size_t)n_in + 1, sizeof *in);
    struct rt_tensor *out = rt_arena_array(w->arena, (size_t)n_out + 1, sizeof *out);
    enum rt_status st = RT_OK;
    enum outcome outcome = RAN;

    if (!in || !out) {
        rt_fail_memory(err, "a batch", 0);
        return FAILED;
    }
    for (const struct srv_job *j = g->first; j; j = j->next)
        if (j->deadline_ns > options.deadline_ns)
            options.deadline_ns = j->deadline_ns;
    for (int i = 0; i < n_in && !st; i++)
        st = merge_feed(w->s, g, i, &in[i], err);
    if (!st)
        st = rt_callable_run(sig->call, in, out, &options, err);
    for (int i = 0; i < n_in; i++)
        rt_tensor_clear(&in[i]);
    for (int i = 0; i < n_out && !st; i++)
        st = rt_tensor_load(&out[i], err);
    if (st)
        outcome = FAILED;
    for (int i = 0; i < n_out && outcome == RAN; i++)
        if (out[i].rank < 1 || out[i].dim[0] != g->run_rows)
            outcome = DOES_NOT_FOLLOW_ROWS;
    if (outcome == RAN) {
        split(g, out, n_out);
        for (struct srv_job *j = g->first; j; j = j->next) {
            j->status = RT_OK;
            j->batch_rows = (int)(g->rows < INT32_MAX ? g->rows : INT32_MAX);
        }
    }
    for (int i = 0; i < n_out; i++)
        rt_tensor_clear(&out[i]);
    return outcome;
}

static void run_singly(const struct group *g)
{
    for (struct srv_job *j = g->first; j; j = j->next)
        run_one(j);
}

/* Runs a group that failed as a whole in halves, so that only those at fault fail. */
static void bisect(struct worker *w, struct group *g)
{
    struct group half[2] = {{.first = g->first}, {.n_jobs = 0}};
    struct srv_job **at = &half[0].first;

    for (int i = 0; i < g->n_jobs; i++) {
        struct group *h = &half[i >= g->n_jobs / 2];
        if (i == g->n_jobs / 2)
            half[1].first = *at;
        h->n_jobs++;
        h->rows += (*at)->n_rows;
        at = &(*at)->next;
    }
    at = &half[0].first;
    for (int i = 0; i < half[0].n_jobs; i++)
        at = &(*at)->next;
    *at = NULL; /* cut for now */
    for (int i = 0; i < 2; i++) {
        struct group *h = &half[i];
        struct rt_error err = {.arena = w->arena};
        h->run_rows = h->rows;
        if (h->n_jobs == 1) {
            run_one(h->first);
            continue;
        }
        switch (run_merged(w, h, &err)) {
        case RAN:
            break;
        case DOES_NOT_FOLLOW_ROWS:
            run_singly(h);
            break;
        case FAILED:
            if (is_data_error(err.code)) {
                bisect(w, h);
                break;
            }
            for (struct srv_job *j = h->first; j; j = j->next) {
                rt_error_copy(&j->err, &err);
                j->status = err.code;
            }
        }
    }
    *at = half[1].first;
}

struct verdict {
    bool learn;       /* the time says something about the cost */
    bool never_merge; /* outputs do not follow the rows */
    bool halve_limit; /* memory was too small for so many rows */
};

static struct verdict run_group(struct worker *w, struct group *g)
{
    struct rt_error err = {.arena = w ? w->arena : NULL};

    if (g->n_jobs == 1 && g->run_rows == g->rows) {
        run_one(g->first);
        return (struct verdict){.learn = g->first->status == RT_OK};
    }
    switch (run_merged(w, g, &err)) {
    case RAN:
        return (struct verdict){.learn = true};
    case DOES_NOT_FOLLOW_ROWS:
        run_singly(g);
        return (struct verdict){.never_merge = true};
    case FAILED:
        break;
    }
    if (is_data_error(err.code) && g->n_jobs > 1) {
        bisect(w, g);
        return (struct verdict){.halve_limit = err.code == RT_RESOURCE_EXHAUSTED};
    }
    for (struct srv_job *j = g->first; j; j = j->next) {
        rt_error_copy(&j->err, &err);
        j->status = err.code;
    }
    return (struct verdict){0};
}

/* The lock is held; before any job of the batch is answered, since then its lane may go. */
static void end_batch(struct srv_scheduler *s, const struct srv_core_batch *batch, int64_t run_ns,
                      const struct verdict *v) RT_REQUIRES(s->mu)
{
    struct bucket *b = (struct bucket *)batch->bucket;

    srv_core_done(&s->core, batch, run_ns, v->learn);
    if (v->halve_limit)
        b->core.max_rows = batch->rows / 2 > 1 ? batch->rows / 2 : 1;
    if (v->never_merge) {
        struct srv_lane *l = (struct srv_lane *)b->core.lane;
        l->never_merge[b->signature - l->version->loaded->signatures] = true;
        for (struct srv_core_bucket *o = l->core.buckets; o; o = o->next)
            if (((struct bucket *)o)->signature == b->signature)
                o->merges = false;
    }
}

/* A worker to signal, once the lock is open. */
static bool should_wake(struct srv_scheduler *s, int64_t now) RT_REQUIRES(s->mu)
{
    if (s->n_idle <= s->n_woken || !srv_core_is_ready(&s->core, now))
        return false;
    s->n_woken++;
    return true;
}

/* Runs what was taken and answers it. The lock is not held. worker: for the metrics. */
static void run_batch(struct srv_scheduler *s, struct worker *w, int worker,
                      const struct srv_core_batch *batch)
{
    struct srv_job *dropped = NULL;
    struct group g = {0};
    struct srv_job **end = &g.first;
    struct verdict verdict = {0};
    int64_t start = rt_now_ns(), finish;

    for (struct srv_core_job *j = batch->jobs, *next; j; j = next) {
        struct srv_job *job = job_of(j);
        next = j->next;
        job->next = NULL;
        job->started_ns = start;
        if (atomic_load_explicit(&job->cancelled, memory_order_relaxed)) {
            job->status = rt_fail(&job->err, RT_CANCELLED, "the client has gone");
            job->next = dropped;
            dropped = job;
            continue;
        }
        *end = job;
        end = &job->next;
        g.n_jobs++;
        g.rows += job->n_rows;
    }
    g.run_rows = g.n_jobs && g.rows == batch->rows ? batch->run_rows : g.rows;
    if (g.n_jobs)
        verdict = run_group(w, &g);
    finish = rt_now_ns();
    if (g.n_jobs)
        srv_metrics_batch(s->server->metrics, worker, g.first, g.n_jobs, g.rows, g.run_rows,
                          finish - start);
    if (verdict.never_merge)
        RT_LOG(RT_LOG_WARNING,
               "signature %s of model %s version %lld is not batched any more: dimension 0 of an "
               "output is not the number of rows",
               g.first->signature->def->name, g.first->version->model,
               (long long)g.first->version->version);
    rt_mutex_lock(&s->mu);
    if (g.n_jobs && g.rows != batch->rows)
        verdict.learn = false; /* another number of rows than was counted */
    end_batch(s, batch, finish - start, &verdict);
    /* Inline: what waited for this run to end needs a worker; a worker looks for itself. */
    bool wake = !w && s->core.n_jobs && should_wake(s, finish);
    rt_mutex_unlock(&s->mu);
    if (wake)
        rt_cond_signal(&s->work);
    *end = dropped;
    for (struct srv_job *job = g.first, *next; job; job = next) {
        next = job->next;
        job->finished_ns = finish;
        answer(s, job);
    }
    if (w)
        rt_arena_reset(w->arena);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct srv_scheduler *s = w->s;

    rt_mutex_lock(&s->mu);
    for (;;) {
        struct srv_core_batch batch;
        struct srv_core_job *late = NULL;
        int64_t now = rt_now_ns();
        bool got = srv_core_next(&s->core, now, 1 + s->n_idle, &batch, &late);
        if (!got && !late) {
            if (s->stopping)
                break;
            s->n_idle++;
            rt_cond_wait(&s->work, &s->mu);
            s->n_idle--;
            if (s->n_woken)
                s->n_woken--;
            continue;
        }
        /* Each worker wakes the next while there is more to run. */
        bool wake = should_wake(s, now);
        rt_mutex_unlock(&s->mu);
        if (wake)
            rt_cond_signal(&s->work);
        answer_late(s, late);
        if (got)
            run_batch(s, w, w->index, &batch);
        rt_mutex_lock(&s->mu);
    }
    rt_mutex_unlock(&s->mu);
    return NULL;
}

/* Answers what expires while all workers run, and starts batches whose waiting is over. */
static void *keep_time(void *arg)
{
    struct srv_scheduler *s = arg;

    rt_mutex_lock(&s->mu);
    while (!s->stopping) {
        int64_t now = rt_now_ns();
        struct srv_core_job *late = srv_core_expired(&s->core, now);
        bool wake = s->core.settings.timeout_ns && should_wake(s, now);
        if (late || wake) {
            rt_mutex_unlock(&s->mu);
            if (wake)
                rt_cond_signal(&s->work);
            answer_late(s, late);
            rt_mutex_lock(&s->mu);
            continue;
        }
        s->timer_ns = srv_core_next_timer(&s->core);
        if (s->timer_ns <= now) /* due, but no worker is free to take it */
            s->timer_ns = now + 1000000;
        rt_cond_wait_until(&s->time, &s->mu, s->timer_ns);
    }
    rt_mutex_unlock(&s->mu);
    return NULL;
}

/* ---- submitting ---- */

static bool may_merge(const struct srv_scheduler *s, const struct srv_lane *l,
                      const struct srv_job *job) RT_REQUIRES(s->mu)
{
    const struct rt_model_signature *sig = job->signature;
    return job->n_rows > 0 && !sig->writes && job->n_feeds > 0 && job->n_fetches > 0 &&
           (sig->rowwise || s->server->options.enable_batching) && s->core.settings.max_rows > 1 &&
           !l->never_merge[sig - l->version->loaded->signatures];
}

static struct feed_key key_of(const struct rt_tensor *t, bool has_rows)
{
    struct feed_key k = {.dtype = t->dtype, .rank = t->rank};
    for (int d = has_rows; d < t->rank; d++)
        k.inner[d] = t->dim[d];
    return k;
}

static uint64_t hash_of(const struct srv_job *job)
{
    bool has_rows = job->n_rows > 0;
    uint64_t h = (uintptr_t)job->signature ^ (uint64_t)has_rows;
    if (job->signature->writes)
        return 0;
    for (int i = 0; i < job->n_feeds; i++) {
        struct feed_key k = key_of(&job->feeds[i], has_rows);
        h = (h ^ k.dtype ^ ((uint64_t)k.rank << 8)) * UINT64_C(0x9e3779b97f4a7c15);
        for (int d = 0; d < k.rank; d++)
            h = ((h ^ (uint64_t)k.inner[d]) * UINT64_C(0x9e3779b97f4a7c15)) ^ (h >> 29);
    }
    return h;
}

static bool fits(const struct bucket *b, const struct srv_job *job)
{
    if (!b->signature)
        return job->signature->writes;
    if (b->signature != job->signature || b->has_rows != (job->n_rows > 0) ||
        b->n_feeds != job->n_feeds)
        return false;
    for (int i = 0; i < b->n_feeds; i++) {
        struct feed_key k = key_of(&job->feeds[i], b->has_rows);
        if (k.dtype != b->feeds[i].dtype || k.rank != b->feeds[i].rank ||
            memcmp(k.inner, b->feeds[i].inner, sizeof k.inner) != 0)
            return false;
    }
    return true;
}

static void forget_oldest(struct srv_lane *l)
{
    struct srv_core_bucket *oldest = NULL;
    for (struct srv_core_bucket *b = l->core.buckets; b; b = b->next)
        if (!b->head && !b->running && (!oldest || b->used_ns < oldest->used_ns))
            oldest = b;
    if (!oldest)
        return;
    srv_core_bucket_remove(oldest);
    l->n_buckets--;
    free(oldest);
}

/* The job's bucket, made if need be. NULL: out of memory. */
static struct bucket *bucket_of(struct srv_scheduler *s, struct srv_job *job) RT_REQUIRES(s->mu)
{
    struct srv_lane *l = job->version->lane;
    uint64_t hash = hash_of(job);
    int n_feeds = job->signature->writes ? 0 : job->n_feeds;

    for (struct srv_core_bucket *o = l->core.buckets; o; o = o->next) {
        struct bucket *b = (struct bucket *)o;
        if (b->hash == hash && fits(b, job))
            return b;
    }
    if (l->n_buckets >= MAX_IDLE_BUCKETS)
        forget_oldest(l);
    struct bucket *b = calloc(1, sizeof *b + (size_t)n_feeds * sizeof b->feeds[0]);
    if (!b)
        return NULL;
    srv_core_bucket_init(&b->core, &l->core, may_merge(s, l, job), job->signature->writes);
    b->hash = hash;
    b->signature = job->signature->writes ? NULL : job->signature;
    b->has_rows = job->n_rows > 0;
    b->n_feeds = n_feeds;
    for (int i = 0; i < n_feeds; i++)
        b->feeds[i] = key_of(&job->feeds[i], b->has_rows);
    l->n_buckets++;
    return b;
}

static void describe(struct srv_job *job)
{
    job->sched = (struct srv_core_job){
        .rows = job->n_rows, .bytes = job->body_bytes, .deadline_ns = job->deadline_ns};
}

bool srv_scheduler_run_inline(struct srv_scheduler *s, struct srv_job *job)
{
    int64_t max_ns = s->server->options.inline_max_us * 1000;
    struct srv_net *net = job->net;
    struct srv_core_batch batch;
    struct bucket *b;
    bool may;

    if (max_ns <= 0 || net->inline_ns >= INLINE_PER_TURN_NS || job->deadline_ns <= job->queued_ns)
        return false;
    describe(job);
    rt_mutex_lock(&s->mu);
    b = bucket_of(s, job);
    /* The second of a turn and those after it are likely to be several: merged they cost less. */
    if (b && b->core.merges && net->inline_ns > 0)
        max_ns = max_ns < TINY_NS ? max_ns : TINY_NS;
    may = b && srv_core_begin_inline(&s->core, &b->core, &job->sched, s->n_workers, max_ns, &batch);
    rt_mutex_unlock(&s->mu);
    if (!may)
        return false;
    atomic_fetch_add_explicit(&s->n_jobs, 1, memory_order_relaxed);
    int64_t start = job->queued_ns;
    run_batch(s, NULL, -1 - net->index, &batch); /* a batch of one */
    net->inline_ns += rt_now_ns() - start;
    return true;
}

void srv_scheduler_submit(struct srv_scheduler *s, struct srv_job *first)
{
    struct srv_job *refused = NULL, *next;
    struct srv_core_job *late = NULL;
    int64_t now = rt_now_ns();
    bool wake, wake_timer;

    rt_mutex_lock(&s->mu);
    for (struct srv_job *job = first; job; job = next) {
        next = job->next;
        atomic_fetch_add_explicit(&s->n_jobs, 1, memory_order_relaxed);
        describe(job);
        struct bucket *b = bucket_of(s, job);
        switch (b ? srv_core_submit(&s->core, &b->core, &job->sched, now) : SRV_CORE_FULL) {
        case SRV_CORE_QUEUED:
            break;
        case SRV_CORE_EXPIRED:
            job->sched.next = late;
            late = &job->sched;
            break;
        case SRV_CORE_FULL:
            job->sched.rows = job->version->lane->core.n_jobs; /* for the message */
            job->next = refused;
            refused = job;
            break;
        }
    }
    wake = should_wake(s, now);
    wake_timer = srv_core_next_timer(&s->core) < s->timer_ns;
    rt_mutex_unlock(&s->mu);
    if (wake)
        rt_cond_signal(&s->work);
    if (wake_timer)
        rt_cond_signal(&s->time);
    answer_late(s, late);
    for (; refused; refused = next) {
        next = refused->next;
        refuse(s, refused, refused->sched.rows);
    }
}

void srv_scheduler_refuse_all(struct srv_scheduler *s, enum rt_status code, const char *text)
{
    rt_mutex_lock(&s->mu);
    struct srv_core_job *all = srv_core_take_all(&s->core);
    rt_mutex_unlock(&s->mu);
    for (struct srv_core_job *next; all; all = next) {
        struct srv_job *job = job_of(all);
        next = all->next;
        job->status = rt_fail(&job->err, code, "%s", text);
        answer(s, job);
    }
}

int srv_lane_jobs(struct srv_lane *l)
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

/* ---- life ---- */

static struct srv_core_settings settings_of(const struct srv_options *o)
{
    return (struct srv_core_settings){
        .max_rows = o->max_batch_rows,
        .patience_ns = PATIENCE_NS,
        .max_lane_jobs = o->max_queue_jobs,
        .max_jobs = o->max_queue_jobs > INT64_MAX / TOTAL_FACTOR ? INT64_MAX
                                                                 : o->max_queue_jobs * TOTAL_FACTOR,
        .max_lane_bytes = (size_t)o->max_queue_bytes,
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
    for (int i = 0; i < n_started; i++)
        pthread_join(s->worker[i].thread, NULL);
    if (has_timer)
        pthread_join(s->timer, NULL);
    for (int i = 0; i < s->n_workers; i++)
        rt_arena_free(s->worker[i].arena);
    if (s->pool)
        rt_pool_unref(s->pool);
    rt_cond_clear(&s->work);
    rt_cond_clear(&s->time);
    rt_mutex_clear(&s->mu);
    free(s);
}

struct srv_scheduler *srv_scheduler_new(struct srv_server *server, int n_workers)
{
    struct srv_core_settings settings = settings_of(&server->options);
    struct srv_scheduler *s;
    bool ok;
    int n = 0;

    if (n_workers < 1)
        n_workers = 1;
    s = calloc(1, sizeof *s + (size_t)n_workers * sizeof s->worker[0]);
    if (!s)
        return NULL;
    s->server = server;
    s->n_workers = n_workers;
    s->timer_ns = RT_NEVER;
    rt_mutex_init(&s->mu);
    rt_cond_init(&s->work);
    rt_cond_init(&s->time);
    srv_core_init(&s->core, &settings);
    s->pool = rt_pool_new(0);
    ok = s->pool;
    for (; ok && n < n_workers; n++) {
        struct worker *w = &s->worker[n];
        *w = (struct worker){.s = s, .index = n, .arena = rt_arena_new(SIZE_MAX)};
        if (!w->arena || rt_thread_start(&w->thread, "slip-worker", work, w) != 0) {
            ok = false;
            break;
        }
    }
    const char *file = server->options.batching_parameters_file;
    if (file && *file)
        RT_LOG(RT_LOG_WARNING,
               "--batching_parameters_file=%s is not read: batches form by load, of at most "
               "--max_batch_rows=%lld rows",
               file, (long long)settings.max_rows);
    if (ok && rt_thread_start(&s->timer, "slip-timer", keep_time, s) == 0)
        return s;
    stop(s, n, false);
    return NULL;
}

void srv_scheduler_free(struct srv_scheduler *s)
{
    if (!s)
        return;
    srv_scheduler_refuse_all(s, RT_UNAVAILABLE, "the server is stopping");
    stop(s, s->n_workers, true);
}

struct srv_lane *srv_lane_new(struct srv_scheduler *s, struct srv_version *v)
{
    struct srv_lane *l = calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->never_merge = calloc((size_t)v->loaded->n_signatures + 1, sizeof *l->never_merge);
    if (!l->never_merge) {
        free(l);
        return NULL;
    }
    l->scheduler = s;
    l->version = v;
    rt_mutex_lock(&s->mu);
    srv_core_lane_init(&s->core, &l->core);
    rt_mutex_unlock(&s->mu);
    return l;
}

void srv_lane_free(struct srv_lane *l)
{
    if (!l)
        return;
    for (struct srv_core_bucket *b = l->core.buckets, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(l->never_merge);
    free(l);
}
