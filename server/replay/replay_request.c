#include "server/replay/replay_request.h"

#include <time.h>

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/thread.h"
#include "runtime/core/run.h"

/* time in nanoseconds after which bytes that did not fit in the budget are charged again */
enum { WAIT_NS = 10000000 };

enum rt_status srv_replay_may_go_on(const struct srv_replay_target *t, struct rt_error *err)
{
    const _Atomic bool *cancelled = t->run.cancelled;

    if (cancelled && atomic_load_explicit(cancelled, memory_order_relaxed))
        return rt_fail(err, RT_CANCELLED, "it was cancelled");
    if (rt_now_ns() >= t->run.deadline_ns)
        return rt_fail(err, RT_DEADLINE_EXCEEDED, "all of them took more than %d s",
                       SRV_REPLAY_LIMIT_S);
    return RT_OK;
}

/* ---- bytes that are held for long ---- */

static struct rt_mutex held_mu = RT_MUTEX_INIT;
static struct srv_replay_held *all_held; /* guarded by held_mu */
static _Atomic int n_waiting;            /* number of threads in srv_replay_wait */

void srv_replay_hold(struct srv_replay_held *h, struct srv_budget *budget, size_t *own)
{
    rt_mutex_lock(&held_mu);
    *h = (struct srv_replay_held){budget, own, rt_now_ns(), all_held, &all_held};
    if (h->next)
        h->next->at = &h->next;
    all_held = h;
    rt_mutex_unlock(&held_mu);
}

void srv_replay_release(struct srv_replay_held *h)
{
    if (!h->at)
        return;
    rt_mutex_lock(&held_mu);
    *h->at = h->next;
    if (h->next)
        h->next->at = h->at;
    rt_mutex_unlock(&held_mu);
}

static void give_back_locked(struct srv_replay_held *h) RT_REQUIRES(held_mu)
{
    srv_budget_give(h->budget, h->own, *h->own);
}

static void give_back_old(void)
{
    const int64_t old_ns = rt_now_ns() - SRV_REPLAY_HOLD_S * INT64_C(1000000000);

    rt_mutex_lock(&held_mu);
    for (struct srv_replay_held *h = all_held; h; h = h->next)
        if (h->since_ns <= old_ns)
            give_back_locked(h);
    rt_mutex_unlock(&held_mu);
}

enum rt_status srv_replay_wait(const struct srv_replay_target *t, struct rt_error *err)
{
    atomic_fetch_add(&n_waiting, 1);
    give_back_old();
    nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    atomic_fetch_sub(&n_waiting, 1);
    *err = (struct rt_error){0};
    return srv_replay_may_go_on(t, err);
}

void srv_replay_give(struct srv_budget *budget, size_t *own)
{
    const bool is_large = *own > SRV_SMALL_BYTES;

    srv_budget_give(budget, own, *own);
    if (is_large && atomic_load(&n_waiting))
        nanosleep(&(struct timespec){.tv_nsec = 2 * WAIT_NS}, NULL);
}

/* Decodes the request. Holds the `own` bytes of the budget afterwards, unless t->charged is set. */
static enum rt_status decode(const struct srv_replay_target *t, struct srv_inference *inf,
                             struct rt_span request, size_t *own, struct rt_error *err)
{
    inf->allowance = (struct srv_allowance){.left = (size_t)t->options->max_body_bytes * 2,
                                            .budget = t->charged ? NULL : t->budget,
                                            .own = own,
                                            .what = "the request as tensors"};
    return srv_inference_decode(inf, srv_cursor_of(&request, request.n), t->version, err);
}

/* The begin of an rt_wait_hook. Gives the bytes that the run's feeds hold back. */
static enum rt_status begin_waiting(void *arg, struct rt_error *err)
{
    (void)err;
    rt_mutex_lock(&held_mu);
    give_back_locked(arg);
    rt_mutex_unlock(&held_mu);
    return RT_OK;
}

static void free_elements(struct rt_tensor *t)
{
    rt_buffer_unref(t->buf);
    t->buf = NULL;
    t->data = NULL;
}

enum rt_status srv_replay_perform(const struct srv_replay_target *t, struct srv_inference *inf,
                                  struct srv_job *job, const struct srv_inference_steps *steps,
                                  struct rt_span request, struct rt_arena *arena,
                                  struct rt_error *err)
{
    enum rt_status st;
    size_t own = 0;
    struct srv_replay_held held = {.at = NULL};
    const struct rt_wait_hook on_wait = {.begin = begin_waiting, .arg = &held};
    struct rt_run_options run = t->run;

    run.on_wait = &on_wait;
    for (;;) {
        rt_arena_reset(arena);
        srv_inference_init(inf, steps, t->options, arena, job);
        st = decode(t, inf, request, &own, err);
        if (st != RT_UNAVAILABLE)
            break;
        srv_inference_clear(inf);
        srv_budget_give(t->budget, &own, own);
        st = srv_replay_wait(t, err);
        if (st)
            break;
    }
    if (!st) {
        srv_replay_hold(&held, t->budget, t->charged ? t->charged : &own);
        st = srv_inference_run(inf, &run, err);
        srv_replay_release(&held);
    }
    if (!st)
        st = srv_inference_finish(inf, err);
    for (int i = 0; job->feeds && i < job->n_feeds; i++)
        free_elements(&job->feeds[i]);
    inf->allowance = (struct srv_allowance){.left = 0};
    srv_replay_give(t->budget, &own);
    return st;
}
