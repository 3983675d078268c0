#include "server/replay/warmup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/prediction_log.h"
#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/regular_file.h"
#include "runtime/base/tfrecord.h"
#include "runtime/base/thread.h"
#include "server/metrics/metrics.h"
#include "server/protocol/tfs/tfs.h"
#include "server/replay/replay_request.h"

struct replay {
    const struct srv_replay *p;
    struct srv_replay_target target;
    size_t max_record;
    struct rt_mutex mu;
    struct rt_tfrecord *file; /* guarded by mu, as are all members below */
    int64_t n_read;
    bool ended; /* set when no more records are to be read */
    enum rt_status status;
    struct rt_error err; /* error of the first record that failed */
};

/* The state of a thread that replays records. All records reuse the memory of `arena`, and small
 * records that of `record`. */
struct replayer {
    struct replay *all;
    struct rt_bytes record;
    size_t charged; /* number of bytes charged to p->records for `record` */
    struct rt_arena *arena;
};

static enum srv_api api_of(enum pb_log_type type)
{
    switch (type) {
    case PB_LOG_CLASSIFY:
        return SRV_CLASSIFY;
    case PB_LOG_REGRESS:
        return SRV_REGRESS;
    case PB_LOG_MULTI_INFERENCE:
        return SRV_MULTI_INFERENCE;
    case PB_LOG_SESSION_RUN:
        return SRV_SESSION_RUN;
    case PB_LOG_PREDICT:
        return SRV_PREDICT;
    default:
        return SRV_OTHER;
    }
}

/* ---- one record ---- */

/* Writes the response, and checks it. Gives back the memory for both. */
static enum rt_status answer(const struct replay *all, const struct srv_recorded *record,
                             struct srv_inference *inf, struct rt_error *err)
{
    const struct srv_replay *p = all->p;
    const struct rt_run_options *run = &all->target.run;
    size_t own = 0;
    struct srv_growth growth = {
        p->budget, &own, {.deadline_ns = run->deadline_ns, .cancelled = run->cancelled}};
    struct rt_bytes response;

    rt_bytes_init(&response, SRV_MESSAGE_MOST);
    inf->growth = &growth;
    enum rt_status st = srv_inference_encode(inf, &response, err);
    if (!st && p->check)
        st = p->check(p->arg, record, rt_span_of(response.p, response.n), &growth, err);
    if (growth.cancellation.over)
        st = srv_cancellation_status(&growth.cancellation, err);
    rt_bytes_clear(&response);
    srv_budget_give(p->budget, &own, own);
    return st;
}

static enum rt_status perform(const struct replayer *replayer, const struct srv_recorded *record,
                              struct rt_error *err)
{
    const struct replay *all = replayer->all;
    struct srv_inference inf;
    struct srv_job job;
    enum rt_status st = srv_replay_perform(&all->target, &inf, &job, srv_tfs_steps(record->api),
                                           record->request, replayer->arena, err);

    if (!st)
        do {
            st = answer(all, record, &inf, err);
        } while (st == RT_UNAVAILABLE && (st = srv_replay_wait(&all->target, err)) == RT_OK);
    srv_inference_clear(&inf);
    return st;
}

static enum rt_status replay_record(const struct replayer *replayer, int64_t index,
                                    struct rt_error *err)
{
    const struct srv_replay *p = replayer->all->p;
    struct pb_prediction_log log;
    enum rt_status st = RT_OK;

    if (!pb_prediction_log_read(rt_span_of(replayer->record.p, replayer->record.n), &log))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Failed to parse %s record: record %lld (%zu bytes) from %s", p->what,
                       (long long)index, replayer->record.n, p->path);
    if (log.type == PB_LOG_NONE)
        return RT_OK;
    if (log.type == PB_LOG_PREDICT_STREAMED)
        return rt_fail(err, RT_UNIMPLEMENTED, "Unsupported log_type for %s: %d (record %lld of %s)",
                       p->what, (int)log.type, (long long)index, p->path);
    /* An empty request message is valid. */
    const struct srv_recorded record = {.index = index,
                                        .api = api_of(log.type),
                                        .request = log.request.p ? log.request : rt_span_str(""),
                                        .response = log.response};
    for (int64_t i = 0; i < p->n_iterations && !st; i++) {
        st = srv_replay_may_go_on(&replayer->all->target, err);
        if (!st)
            st = perform(replayer, &record, err);
    }
    if (st)
        rt_fail_prefix(err, "%s record %lld of %s: ", p->what, (long long)index, p->path);
    return st;
}

/* ---- the whole file ---- */

/* Charges the next record before it is read. Fails with UNAVAILABLE if it does not fit in the
 * budget beside those of other threads and replays. */
static enum rt_status charge_record(const struct replay *all, struct replayer *replayer,
                                    struct rt_error *err) RT_REQUIRES(all->mu)
{
    struct srv_budget *b = all->p->records;
    const size_t n = (size_t)rt_tfrecord_next_bytes(all->file);

    if (n <= SRV_SMALL_BYTES || srv_budget_take(b, &replayer->charged, n))
        return RT_OK;
    return srv_budget_refused(b, 0, n, "the record", err);
}

static void drop_large_record(struct replayer *replayer)
{
    /* A large record is charged to the budget, unless another replay has taken the charge back. */
    if (replayer->record.n > SRV_SMALL_BYTES)
        rt_bytes_clear(&replayer->record);
    srv_replay_give(replayer->all->p->records, &replayer->charged);
}

static enum rt_status next_record(struct replay *all, struct replayer *replayer, int64_t *index,
                                  bool *at_end, struct rt_error *err) RT_REQUIRES(all->mu)
{
    const struct srv_replay *p = all->p;
    enum rt_status st = rt_tfrecord_take(all->file, &replayer->record, err);

    *at_end = st == RT_OUT_OF_RANGE;
    if (*at_end)
        return RT_OK;
    if (st == RT_DATA_LOSS) {
        const struct rt_error why = *err;
        return rt_fail(err, st, "%s: %s. Please verify your %s data is in TFRecord format.",
                       p->path, rt_error_text(&why), p->what);
    }
    if (st)
        return st;
    if (all->n_read == SRV_MAX_WARMUP_RECORDS)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Number of %s records exceeds the maximum (%d) at %s", p->what,
                       SRV_MAX_WARMUP_RECORDS, p->path);
    *index = all->n_read++;
    return RT_OK;
}

static void fail_locked(struct replay *all, const struct rt_error *err) RT_REQUIRES(all->mu)
{
    all->ended = true;
    if (all->status)
        return;
    rt_error_copy(&all->err, err);
    all->status = err->code;
}

static void fail(struct replay *all, const struct rt_error *err)
{
    rt_mutex_lock(&all->mu);
    fail_locked(all, err);
    rt_mutex_unlock(&all->mu);
}

/* Reads the next record. Waits without the lock until it fits in the budget, so that a thread whose
 * record fails can end the replay. Returns false at the end of the file, or if the replay has
 * failed. */
static bool take_record(struct replay *all, struct replayer *replayer, int64_t *index)
{
    struct rt_error err = {0};
    bool is_read = false;

    rt_mutex_lock(&all->mu);
    while (!all->ended && !is_read) {
        enum rt_status st = charge_record(all, replayer, &err);
        if (st == RT_UNAVAILABLE) {
            rt_mutex_unlock(&all->mu);
            st = srv_replay_wait(&all->target, &err);
            rt_mutex_lock(&all->mu);
            if (!st)
                continue;
        }
        if (st)
            rt_fail_prefix(&err, "%s record %lld of %s: ", all->p->what, (long long)all->n_read,
                           all->p->path);
        else
            st = next_record(all, replayer, index, &all->ended, &err);
        if (st)
            fail_locked(all, &err);
        is_read = !st && !all->ended;
    }
    rt_mutex_unlock(&all->mu);
    return is_read;
}

static void *replay_records(void *arg)
{
    struct replay *all = arg;
    struct replayer replayer = {.all = all, .arena = rt_arena_new(SIZE_MAX)};
    int64_t index = 0;

    rt_bytes_init(&replayer.record, all->max_record);
    if (!replayer.arena) {
        struct rt_error err = {0};
        rt_fail_memory(&err, "playing records", 0);
        fail(all, &err);
    }
    while (take_record(all, &replayer, &index)) {
        struct rt_error err = {0};
        struct srv_replay_held held = {.at = NULL};
        if (replayer.charged)
            srv_replay_hold(&held, all->p->records, &replayer.charged);
        if (replay_record(&replayer, index, &err))
            /* the other threads stop after their current records */
            fail(all, &err);
        srv_replay_release(&held);
        drop_large_record(&replayer);
    }
    drop_large_record(&replayer);
    rt_bytes_clear(&replayer.record);
    rt_arena_free(replayer.arena);
    return NULL;
}

static void *replay_thread(void *arg)
{
    rt_thread_low_priority();
    return replay_records(arg);
}

static void replay_in_threads(struct replay *all)
{
    pthread_t threads[SRV_MAX_WARMUP_THREADS];
    int n = 0;

    /* The calling thread counts as one of n_threads. */
    while (n < SRV_MAX_WARMUP_THREADS && n + 1 < all->p->n_threads &&
           !rt_thread_start(&threads[n], "warmup", replay_thread, all))
        n++;
    replay_records(all);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

enum rt_status srv_replay_run(const struct srv_replay *p, int64_t *n_records, struct rt_error *err)
{
    /* A record contains a request of up to max_body_bytes bytes and a response, so a record may
     * have 2 * max_body_bytes bytes. */
    size_t limit = (size_t)p->options->max_body_bytes;
    struct replay all = {
        .p = p,
        .target = {.version = p->version,
                   .options = p->options,
                   .budget = p->budget,
                   .run = {.deadline_ns = rt_now_ns() + SRV_REPLAY_LIMIT_S * INT64_C(1000000000),
                           .cancelled = p->cancelled}},
        .max_record = limit > SIZE_MAX / 4 ? SIZE_MAX / 2 : 2 * limit};
    enum rt_status st = rt_tfrecord_open(&all.file, p->path, all.max_record, err);

    *n_records = 0;
    if (st)
        return st;
    rt_mutex_init(&all.mu);
    replay_in_threads(&all);
    rt_mutex_clear(&all.mu);
    rt_tfrecord_close(all.file);
    *n_records = all.n_read;
    if (all.status)
        rt_error_copy(err, &all.err);
    return all.status;
}

enum rt_status srv_replay_find(const char *dir, const char *name, char **path, struct rt_error *err)
{
    size_t n = strlen(dir) + strlen(name) + 2;
    struct stat s;

    *path = malloc(n);
    if (!*path)
        return rt_fail_memory(err, "a path", n);
    snprintf(*path, n, "%s/%s", dir, name);
    if (stat(*path, &s) == 0)
        return RT_OK;
    int reason = errno;
    if (!rt_errno_is_absence(reason))
        rt_fail(err, RT_UNAVAILABLE, "%s: %s", *path, strerror(reason));
    free(*path);
    *path = NULL;
    return rt_errno_is_absence(reason) ? RT_OK : RT_UNAVAILABLE;
}

/* ---- a version's own warm-up ---- */

bool srv_warmup_is_there(const char *dir)
{
    char *path;
    bool is = srv_replay_find(dir, SRV_WARMUP_FILE, &path, NULL) || path;
    free(path);
    return is;
}

enum rt_status srv_warmup_run(struct srv_server *s, struct srv_version *v, const char *dir,
                              const _Atomic bool *cancelled, struct rt_error *err)
{
    const struct srv_options *o = &s->options;
    int64_t start = rt_now_ns(), n = 0;
    char *path = NULL;
    enum rt_status st = RT_OK;

    if (o->enable_model_warmup)
        st = srv_replay_find(dir, SRV_WARMUP_FILE, &path, err);
    if (!path)
        return st;
    const struct srv_replay p = {
        .path = path,
        .what = "warmup",
        .version = v,
        .options = o,
        .cancelled = cancelled,
        .budget = &s->replays,
        .records = &s->replayed_records,
        .n_threads = o->num_model_warmup_threads,
        .n_iterations =
            o->num_request_iterations_for_warmup > 0 ? o->num_request_iterations_for_warmup : 1,
    };
    st = srv_replay_run(&p, &n, err);
    int64_t ns = rt_now_ns() - start;
    srv_metrics_warmup(s->metrics, dir, st, n, ns);
    if (!st)
        RT_LOG(RT_LOG_INFO, "model %s version %lld: warmed up with %lld records in %.1f ms",
               v->model, (long long)v->version, (long long)n, (double)ns / 1e6);
    free(path);
    return st;
}
