#include "server/batching/scheduler_core.h"

#include "runtime/base/clock.h"
#include "server/batching/queue_shares.h"

enum {
    /* Minimum time between two searches for jobs whose deadlines have expired. */
    SWEEP_NS = 1000000,
    SMALL_NS = 20000000, /* maximum expected duration of a short run */
    /* time after the start of a model queue's batch in which settings.long_ns restricts the long
     * batches of other model queues */
    RECENT_NS = 1000000000,
    /* Minimum number of measured runs before a job runs inline, or is dropped before its deadline.
     * The first runs of a shape are not representative. */
    ENOUGH_RUNS = 3,
};

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Returns a + b, or INT64_MAX on overflow; a and b must not be negative. */
static int64_t later(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* ---- queues ---- */

void srv_core_init(struct srv_core *c, const struct srv_core_settings *settings)
{
    *c = (struct srv_core){.settings = *settings, .soonest_ns = RT_NEVER};
}

void srv_core_model_queue_init(struct srv_core *c, struct srv_core_model_queue *mq,
                               const struct srv_core_policy *policy)
{
    *mq = (struct srv_core_model_queue){
        .policy = policy, .groups = UINT32_MAX, .virtual_ns = c->virtual_ns};
}

void srv_core_bucket_init(struct srv_core_bucket *b, struct srv_core_model_queue *mq,
                          struct srv_core_queue *queue, bool merges, bool alone)
{
    *b = (struct srv_core_bucket){.model_queue = mq,
                                  .queue = queue,
                                  .next = mq->buckets,
                                  .merges = merges && !alone,
                                  .alone = alone};
    mq->buckets = b;
}

void srv_core_bucket_remove(struct srv_core_bucket *b)
{
    struct srv_core_bucket **at = &b->model_queue->buckets;
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
}

static void activate(struct srv_core *c, struct srv_core_model_queue *mq)
{
    /* a model queue that was idle must not get priority over other model queues */
    mq->virtual_ns = max64(mq->virtual_ns, c->virtual_ns);
    mq->prev = NULL;
    mq->next = c->active;
    if (c->active)
        c->active->prev = mq;
    c->active = mq;
}

static void deactivate(struct srv_core *c, struct srv_core_model_queue *mq)
{
    if (mq->prev)
        mq->prev->next = mq->next;
    else
        c->active = mq->next;
    if (mq->next)
        mq->next->prev = mq->prev;
}

/* Returns whether `a` must run before `b`. */
static bool is_before(const struct srv_core_job *a, const struct srv_core_job *b)
{
    return a->level != b->level ? a->level < b->level : a->due_ns < b->due_ns;
}

static void insert(struct srv_core_bucket *b, struct srv_core_job *j)
{
    struct srv_core_job *after = b->tail;
    while (after && is_before(j, after))
        after = after->prev;
    j->prev = after;
    j->next = after ? after->next : b->head;
    if (j->prev)
        j->prev->next = j;
    else
        b->head = j;
    if (j->next)
        j->next->prev = j;
    else
        b->tail = j;
}

int64_t srv_core_row_limit(const struct srv_core_bucket *b)
{
    int64_t limit = max64(b->model_queue->policy->max_rows, 1);
    return b->max_rows ? min64(limit, b->max_rows) : limit;
}

/* ---- number of waiting batches: in order of arrival, each batch filled before the next ---- */

static void set_batches(struct srv_core_bucket *b, int64_t n, int64_t open_rows)
{
    if (b->queue)
        b->queue->n_batches += n - b->n_batches;
    b->n_batches = n;
    b->open_rows = open_rows;
}

static bool needs_another_batch(const struct srv_core_bucket *b, int64_t rows)
{
    return !b->n_batches || rows > srv_core_row_limit(b) - b->open_rows;
}

/* Counts a queued job in its bucket. A bucket that does not merge has no limit on batches, so its
 * batches are not counted. */
static void count_in(struct srv_core_bucket *b, int64_t rows)
{
    if (!b->merges)
        return;
    if (needs_another_batch(b, rows))
        set_batches(b, b->n_batches + 1, rows);
    else
        b->open_rows += rows;
}

/* Updates the counts of a bucket after a batch was taken from it. */
static void count_out(struct srv_core_bucket *b)
{
    if (b->n_jobs && b->n_batches > 1)
        set_batches(b, b->n_batches - 1, b->n_batches == 2 ? b->n_rows : b->open_rows);
    else if (b->n_jobs)
        b->open_rows = b->n_rows;
}

static bool has_capacity(const struct srv_core_bucket *b, int64_t rows)
{
    int64_t most = b->model_queue->policy->max_queue_batches;
    return !most || !b->queue || !b->merges || b->queue->n_batches < most ||
           !needs_another_batch(b, rows);
}

int64_t srv_core_open_batch_rows(const struct srv_core_bucket *b)
{
    return b->n_batches ? max64(srv_core_row_limit(b) - b->open_rows, 0) : 0;
}

int64_t srv_core_free_rows(const struct srv_core_bucket *b)
{
    int64_t most = b->model_queue->policy->max_queue_batches, limit = srv_core_row_limit(b);
    if (!most || !b->queue)
        return INT64_MAX;
    int64_t more = max64(most - b->queue->n_batches, 0);
    return more > (INT64_MAX - limit) / limit ? INT64_MAX
                                              : more * limit + srv_core_open_batch_rows(b);
}

/* Adds the job to what waits for its client, or removes it if `sign` is -1. */
static void count_for_client(struct srv_core_job *j, int sign)
{
    struct srv_queue_share *share = j->share;

    if (!share)
        return;
    share->n_jobs += sign;
    share->n_rows += sign * j->rows;
    share->n_bytes = sign > 0 ? share->n_bytes + j->bytes : share->n_bytes - j->bytes;
}

static void unlink_job(struct srv_core *c, struct srv_core_job *j)
{
    struct srv_core_bucket *b = j->bucket;
    struct srv_core_model_queue *mq = b->model_queue;

    if (j->prev)
        j->prev->next = j->next;
    else
        b->head = j->next;
    if (j->next)
        j->next->prev = j->prev;
    else
        b->tail = j->prev;
    j->next = j->prev = NULL;
    count_for_client(j, -1);
    b->n_jobs--;
    b->n_rows -= j->rows;
    if (b->n_jobs == 0)
        set_batches(b, 0, 0);
    mq->n_bytes -= j->bytes;
    c->n_jobs--;
    c->n_bytes -= j->bytes;
    if (--mq->n_jobs == 0)
        deactivate(c, mq);
}

enum srv_core_admission srv_core_submit(struct srv_core *c, struct srv_core_bucket *b,
                                        struct srv_core_job *j, int64_t now)
{
    const struct srv_core_settings *s = &c->settings;
    struct srv_core_model_queue *mq = b->model_queue;

    if (j->deadline_ns <= now)
        return SRV_CORE_EXPIRED;
    /* An empty queue accepts one job of any size. Otherwise a job larger than the limit could never
     * run. */
    if ((mq->n_jobs &&
         (mq->n_jobs >= s->max_model_queue_jobs || j->bytes > s->max_model_queue_bytes ||
          mq->n_bytes > s->max_model_queue_bytes - j->bytes)) ||
        (c->n_jobs && (c->n_jobs >= s->max_jobs || j->bytes > s->max_bytes ||
                       c->n_bytes > s->max_bytes - j->bytes)))
        return SRV_CORE_FULL;
    if (mq->policy->max_jobs && mq->n_jobs >= mq->policy->max_jobs)
        return SRV_CORE_FULL;
    if (!has_capacity(b, j->rows))
        return SRV_CORE_FULL_BATCHES;
    if (mq->policy->max_queued_ns)
        j->deadline_ns = min64(j->deadline_ns, later(now, mq->policy->max_queued_ns));
    if (mq->n_jobs++ == 0)
        activate(c, mq);
    j->bucket = b;
    j->queued_ns = now;
    j->due_ns = later(now, s->patience_ns);
    if (b->alone || !j->level)
        j->level = mq->policy->level ? mq->policy->level : SRV_CORE_LEVEL;
    if (!b->alone)
        j->due_ns = min64(j->due_ns, j->deadline_ns);
    insert(b, j);
    count_for_client(j, 1);
    count_in(b, j->rows);
    b->used_ns = now;
    b->n_jobs++;
    b->n_rows += j->rows;
    mq->n_bytes += j->bytes;
    c->n_jobs++;
    c->n_bytes += j->bytes;
    c->soonest_ns = min64(c->soonest_ns, j->deadline_ns);
    return SRV_CORE_QUEUED;
}

/* ---- choosing a batch ---- */

/* Returns the largest preferred size that the first jobs of the bucket make exactly, or 0. */
static int64_t preferred_rows(const struct srv_core_bucket *b)
{
    const struct srv_core_policy *p = b->model_queue->policy;
    int64_t rows = 0, best = 0;
    int k = 0;

    for (const struct srv_core_job *j = p->n_preferred && b->merges ? b->head : NULL;
         j && j->rows && k < p->n_preferred; j = j->next) {
        rows += j->rows;
        while (k < p->n_preferred && p->preferred[k] < rows)
            k++;
        if (k < p->n_preferred && p->preferred[k] == rows)
            best = rows;
    }
    return best;
}

/* Returns the earliest time at which a batch of bucket `b` may start. The bucket must have jobs. */
static int64_t ready_at(const struct srv_core *c, const struct srv_core_bucket *b)
{
    const struct srv_core_policy *p = b->model_queue->policy;
    int64_t oldest = RT_NEVER;

    if (!p->timeout_ns || c->is_flushed || b->model_queue->is_flushed || !b->merges ||
        b->n_rows >= srv_core_row_limit(b) || b->n_batches > 1 || preferred_rows(b))
        return INT64_MIN;
    for (const struct srv_core_job *j = b->head; j; j = j->next)
        oldest = min64(oldest, j->queued_ns);
    return later(oldest, p->timeout_ns);
}

/* The buckets from which a worker may take a batch. SMALL: buckets whose runs are expected to be
 * short. SMALL_OR_IDLE: also the buckets of model queues without a running batch.
 * SMALL_OR_NOT_LONG: also the buckets of model queues without a long running batch. */
enum choice { ALL, SMALL, SMALL_OR_IDLE, SMALL_OR_NOT_LONG };

/* Returns whether the bucket is small and a run of `rows` rows is expected to be short. */
static bool is_short(const struct srv_core_bucket *b, int64_t rows)
{
    return b->is_small && b->cost.runs && srv_cost_of(&b->cost, rows) <= SMALL_NS;
}

static bool may_take(const struct srv_core_bucket *b, enum choice which)
{
    return which == ALL || (which == SMALL_OR_IDLE && !b->model_queue->running) ||
           (which == SMALL_OR_NOT_LONG && !b->model_queue->long_running) ||
           (!b->model_queue->small_running && is_short(b, b->head->rows));
}

/* Returns whether settings.long_ns forbids the worker to take a batch from the bucket. */
static bool is_kept(const struct srv_core *c, const struct srv_core_bucket *b, int64_t now,
                    const struct srv_core_worker *w)
{
    const struct srv_core_recent *recent = c->recent[w->group];
    if (!c->settings.long_ns || !w->is_last ||
        srv_cost_of(&b->cost, b->merges ? min64(b->n_rows, srv_core_row_limit(b))
                                        : b->head->rows) <= c->settings.long_ns)
        return false;
    if (recent->model_queue == b->model_queue)
        recent++;
    return recent->model_queue && recent->ns > now - RECENT_NS;
}

static bool is_for(const struct srv_core_model_queue *mq, const struct srv_core_worker *w)
{
    return mq->groups >> w->group & 1 && !(mq->groups & w->avoided);
}

/* Returns whether as many batches of the model queue are running, in all or on the group, as its
 * policy allows. */
static bool is_full(const struct srv_core_model_queue *mq, int group)
{
    const struct srv_core_policy *p = mq->policy;
    return (p->max_running && mq->running >= p->max_running) ||
           (p->max_group_running && mq->group_running[group] >= p->max_group_running);
}

/* Returns whether a worker that will be free sooner may take a batch from the bucket. */
static bool is_left(const struct srv_core *c, const struct srv_core_bucket *b, int64_t now,
                    const struct srv_core_worker *w)
{
    for (int k = 0; k < w->n_sooner; k++)
        if (is_for(b->model_queue, &w->sooner[k]) && !is_full(b->model_queue, w->sooner[k].group) &&
            !is_kept(c, b, now, &w->sooner[k]))
            return true;
    return false;
}

/* Considers the buckets of model queue `l` that are ready and from which the worker may take a
 * batch. Returns the bucket whose first job must run before the first jobs of the other buckets
 * (is_before). Returns NULL if no bucket is ready, or if a running batch of `l` must end first. */
static struct srv_core_bucket *choose(const struct srv_core *c,
                                      const struct srv_core_model_queue *mq, int64_t now,
                                      enum choice which, const struct srv_core_worker *w)
{
    struct srv_core_bucket *best = NULL;

    if (mq->alone_running || is_full(mq, w->group))
        return NULL;
    for (struct srv_core_bucket *b = mq->buckets; b; b = b->next)
        if (b->head && (!best || is_before(b->head, best->head)) && may_take(b, which) &&
            ready_at(c, b) <= now && !is_kept(c, b, now, w) && !is_left(c, b, now, w))
            best = b;
    return best && best->alone && mq->running ? NULL : best;
}

/*
 * Returns whether a job will miss its deadline. This is the case if the deadline has passed, or if
 * the job has waited so long that even a run as fast as the fastest recorded run would end too
 * late. Runs of some buckets differ much, and slow runs may come first. A job whose deadline was
 * too early for the fastest recorded run already when it was queued therefore runs, and corrects
 * the record if it is faster. Otherwise its run is cancelled at its deadline. For each dropped job,
 * reduces the recorded duration by 10 %. A bucket whose recorded duration is too long would
 * otherwise drop its jobs forever. With max_queued_ns, a deadline may be only the end of the time
 * for which the job may be queued, so a run may end after it.
 */
static bool misses_deadline(struct srv_core_bucket *b, const struct srv_core_job *j, int64_t now)
{
    if (j->deadline_ns <= now)
        return true;
    const struct srv_core_policy *p = b->model_queue->policy;
    if (p->fixed || p->max_queued_ns || b->is_uneven || b->cost.runs < ENOUGH_RUNS ||
        (double)(j->deadline_ns - now) >= b->cost.fastest ||
        (double)(j->deadline_ns - j->queued_ns) < b->cost.fastest)
        return false;
    b->cost.fastest *= 0.9;
    return true;
}

static int64_t padded(const struct srv_core_policy *p, int64_t rows)
{
    for (int i = 0; i < p->n_sizes; i++)
        if (p->sizes[i] >= rows)
            return p->sizes[i];
    return rows;
}

/* Records that a batch of the model queue begins on the group. */
static void note_recent(struct srv_core *c, int group, const struct srv_core_model_queue *mq,
                        int64_t now)
{
    struct srv_core_recent *recent = c->recent[group];
    if (recent[0].model_queue != mq)
        recent[1] = recent[0];
    recent[0] = (struct srv_core_recent){mq, now};
}

static void begin(struct srv_core *c, struct srv_core_bucket *b, struct srv_core_batch *out)
{
    struct srv_core_model_queue *mq = b->model_queue;

    out->bucket = b;
    out->run_rows = b->merges && out->rows ? padded(mq->policy, out->rows) : out->rows;
    out->charged_ns = srv_cost_of(&b->cost, out->run_rows);
    out->is_short = is_short(b, out->run_rows);
    b->running++;
    mq->running++;
    mq->group_running[out->group]++;
    c->group_running[out->group]++;
    c->group_cost_ns[out->group] = later(c->group_cost_ns[out->group], out->charged_ns);
    mq->small_running += out->is_short;
    c->running++;
    mq->alone_running = b->alone;
    c->virtual_ns = max64(c->virtual_ns, mq->virtual_ns);
    mq->virtual_ns = later(mq->virtual_ns, out->charged_ns);
}

/* Returns a smaller limit if a preferred batch size leaves at most a quarter of the rows for the
 * next batch. Otherwise returns `limit`. */
static int64_t preferred(const struct srv_core_bucket *b, int64_t limit)
{
    int64_t rows = 0, best = 0;
    for (const struct srv_core_job *j = b->head; j && j->rows && rows + j->rows <= limit;
         j = j->next) {
        rows += j->rows;
        if (b->prefers(b->of, rows))
            best = rows;
    }
    return best && best < rows && best >= rows - rows / 4 ? best : limit;
}

/* Moves the jobs of the next batch from bucket `b` into the batch. */
static void take(struct srv_core *c, struct srv_core_bucket *b, int64_t now, int free_workers,
                 struct srv_core_batch *out, struct srv_core_job **expired)
{
    int64_t limit = srv_core_row_limit(b), soonest = RT_NEVER;
    bool fixed = b->model_queue->policy->fixed;
    struct srv_core_job **end = &out->jobs;
    double start, per_row;

    if (free_workers > 1 && b->cost.runs && !fixed) {
        int64_t share = (b->n_rows + free_workers - 1) / free_workers;
        srv_cost_line(&b->cost, &start, &per_row);
        if (share < limit && per_row * (double)share > start)
            limit = max64(share, 1);
    }
    const int64_t wanted = preferred_rows(b);
    if (wanted && wanted < limit)
        limit = wanted;
    if (b->prefers && b->merges && !fixed && !b->model_queue->policy->n_sizes)
        limit = preferred(b, limit);
    for (struct srv_core_job *j = b->head, *next; j; j = next) {
        next = j->next;
        if (misses_deadline(b, j, now)) {
            unlink_job(c, j);
            j->next = *expired;
            *expired = j;
            continue;
        }
        if (out->n_jobs) {
            int64_t rows = out->rows + j->rows, until = min64(soonest, j->deadline_ns);
            if (!b->merges || !out->rows || !j->rows || rows > limit ||
                (!fixed && until != RT_NEVER && later(now, srv_cost_of(&b->cost, rows)) > until))
                break;
        }
        unlink_job(c, j);
        *end = j;
        end = &j->next;
        out->n_jobs++;
        out->rows += j->rows;
        soonest = min64(soonest, j->deadline_ns);
    }
    count_out(b);
}

static bool may_start(const struct srv_core *c)
{
    return !c->settings.max_running || c->running < c->settings.max_running;
}

static bool next(struct srv_core *c, int64_t now, const struct srv_core_worker *w,
                 enum choice which, struct srv_core_batch *out, struct srv_core_job **expired)
{
    for (;;) {
        struct srv_core_bucket *best = NULL;
        for (struct srv_core_model_queue *mq = c->active; mq; mq = mq->next) {
            if (!is_for(mq, w) || (best && best->model_queue->virtual_ns <= mq->virtual_ns))
                continue;
            struct srv_core_bucket *b = choose(c, mq, now, which, w);
            if (b)
                best = b;
        }
        if (!best)
            return false;
        take(c, best, now, w->n_free, out, expired);
        if (out->n_jobs) {
            out->group = w->group;
            out->begun_ns = now;
            if (!c->group_running[w->group])
                c->group_begun_ns[w->group] = now;
            begin(c, best, out);
            note_recent(c, w->group, best->model_queue, now);
            return true;
        }
    }
}

bool srv_core_next(struct srv_core *c, int64_t now, const struct srv_core_worker *worker,
                   struct srv_core_batch *out, struct srv_core_job **expired)
{
    *out = (struct srv_core_batch){0};
    return may_start(c) && next(c, now, worker, ALL, out, expired);
}

int64_t srv_core_free_at(const struct srv_core *c, int group, int64_t now)
{
    return max64(later(c->group_begun_ns[group], c->group_cost_ns[group]), now);
}

bool srv_core_is_sooner(const struct srv_core *c, int a, int busy_a, int b, int busy_b, int64_t now)
{
    const int64_t at_a = srv_core_free_at(c, a, now), at_b = srv_core_free_at(c, b, now);
    const int64_t begun_a = c->recent[a][0].ns, begun_b = c->recent[b][0].ns;
    if (at_a != at_b)
        return at_a < at_b;
    if (busy_a != busy_b)
        return busy_a < busy_b;
    return begun_a != begun_b ? begun_a < begun_b : a < b;
}

void srv_core_mark_long(struct srv_core *c, struct srv_core_batch *batch)
{
    if (batch->is_long)
        return;
    batch->is_long = true;
    batch->bucket->model_queue->long_running++;
    c->long_running++;
}

bool srv_core_has_place(const struct srv_core *c, int n_workers)
{
    const int most = c->settings.max_running;
    return c->running - c->long_running < (most && most < n_workers ? most : n_workers);
}

bool srv_core_next_spare(struct srv_core *c, int64_t now, int n_workers, bool is_ample,
                         struct srv_core_batch *out, struct srv_core_job **expired)
{
    const struct srv_core_worker spare = {.n_free = 1};
    *out = (struct srv_core_batch){0};
    return next(c, now, &spare,
                !srv_core_has_place(c, n_workers) ? SMALL
                : is_ample                        ? SMALL_OR_NOT_LONG
                                                  : SMALL_OR_IDLE,
                out, expired);
}

bool srv_core_next_beside_long(struct srv_core *c, int64_t now, const struct srv_core_worker *spare,
                               bool is_ample, struct srv_core_batch *out,
                               struct srv_core_job **expired)
{
    *out = (struct srv_core_batch){0};
    return next(c, now, spare, is_ample ? SMALL_OR_NOT_LONG : SMALL_OR_IDLE, out, expired);
}

bool srv_core_is_ready(const struct srv_core *c, int64_t now, const struct srv_core_worker *worker)
{
    if (!may_start(c))
        return false;
    for (const struct srv_core_model_queue *mq = c->active; mq; mq = mq->next)
        if (is_for(mq, worker) && choose(c, mq, now, ALL, worker))
            return true;
    return false;
}

int64_t srv_core_long_at(const struct srv_core *c, int64_t now)
{
    int64_t at = RT_NEVER;
    for (int k = 0; k < 2 * SRV_CORE_GROUPS && c->settings.long_ns && c->active; k++) {
        const struct srv_core_recent *recent = &c->recent[k / 2][k % 2];
        const int64_t end = later(recent->ns, RECENT_NS);
        if (recent->model_queue && end > now)
            at = min64(at, end);
    }
    return at;
}

void srv_core_done(struct srv_core *c, const struct srv_core_batch *batch, int64_t run_ns,
                   bool learn)
{
    struct srv_core_bucket *b = batch->bucket;
    struct srv_core_model_queue *mq = b->model_queue;

    b->running--;
    mq->running--;
    mq->group_running[batch->group]--;
    /* The device now begins the next batch. Only the costs of running batches are expected ones, so
     * errors of the cost model do not add up. */
    c->group_begun_ns[batch->group] =
        max64(c->group_begun_ns[batch->group], later(batch->begun_ns, run_ns));
    c->group_cost_ns[batch->group] -= batch->charged_ns;
    if (--c->group_running[batch->group] == 0)
        c->group_begun_ns[batch->group] = c->group_cost_ns[batch->group] = 0;
    mq->small_running -= batch->is_short;
    mq->long_running -= batch->is_long;
    c->running--;
    c->long_running -= batch->is_long;
    if (b->alone)
        mq->alone_running = false;
    mq->virtual_ns = later(mq->virtual_ns - batch->charged_ns, max64(run_ns, 1));
    if (learn)
        srv_cost_learn(&b->cost, batch->run_rows, run_ns);
}

bool srv_core_begin_inline(struct srv_core *c, struct srv_core_bucket *b, struct srv_core_job *j,
                           int n_workers, int64_t max_ns, struct srv_core_batch *out)
{
    struct srv_core_model_queue *mq = b->model_queue;

    if (b->head || b->alone || b->has_large_outputs || !srv_core_has_place(c, n_workers) ||
        mq->alone_running || is_full(mq, 0) || b->cost.runs < ENOUGH_RUNS ||
        srv_cost_of(&b->cost, j->rows) > max_ns ||
        (b->merges && (mq->policy->timeout_ns || mq->policy->n_sizes)))
        return false;
    /* A waiting job of the same model queue that writes variables must run before job `j`. */
    for (const struct srv_core_bucket *o = mq->buckets; o; o = o->next)
        if (o->alone && o->head)
            return false;
    j->bucket = b;
    j->next = j->prev = NULL;
    *out = (struct srv_core_batch){.jobs = j, .n_jobs = 1, .rows = j->rows};
    begin(c, b, out);
    return true;
}

/* ---- deadlines and timers ---- */

struct srv_core_job *srv_core_expired(struct srv_core *c, int64_t now)
{
    struct srv_core_job *gone = NULL;

    if (c->soonest_ns > now)
        return NULL;
    c->soonest_ns = RT_NEVER;
    c->swept_ns = now;
    for (struct srv_core_model_queue *mq = c->active, *next_model_queue; mq;
         mq = next_model_queue) {
        next_model_queue = mq->next;
        for (struct srv_core_bucket *b = mq->buckets; b; b = b->next) {
            for (struct srv_core_job *j = b->head, *next; j; j = next) {
                next = j->next;
                if (j->deadline_ns > now) {
                    c->soonest_ns = min64(c->soonest_ns, j->deadline_ns);
                    continue;
                }
                unlink_job(c, j);
                j->next = gone;
                gone = j;
            }
        }
    }
    return gone;
}

int64_t srv_core_next_timer(const struct srv_core *c)
{
    int64_t at = c->soonest_ns;

    if (at != RT_NEVER)
        at = max64(at, c->swept_ns + SWEEP_NS);
    for (const struct srv_core_model_queue *mq = c->active; mq; mq = mq->next)
        for (const struct srv_core_bucket *b = mq->policy->timeout_ns ? mq->buckets : NULL; b;
             b = b->next)
            if (b->head)
                at = min64(at, ready_at(c, b));
    return at;
}

struct srv_core_job *srv_core_take_all(struct srv_core *c)
{
    struct srv_core_job *all = NULL;

    while (c->active)
        for (struct srv_core_bucket *b = c->active->buckets; b; b = b->next)
            if (b->head) {
                struct srv_core_job *j = b->head;
                unlink_job(c, j);
                j->next = all;
                all = j;
                break;
            }
    return all;
}
