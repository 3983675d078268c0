/*
 * Runs that wait for other runs (scheduler_internal.h). When a run waits for the first time, the
 * scheduler counts its batch as ended, so that other batches of the version may start. A new thread
 * then becomes the worker. The thread of the run keeps the run's memory. After waiting, this thread
 * finishes the run, completes the jobs and ends. Waiting runs thus occupy no worker.
 * --max_waiting_runs limits their number, because each occupies a thread.
 *
 * Many runs may stop waiting at the same time, and some may then compute without end. So that they
 * do not take the cores from the workers, the timer lowers their priority.
 */
#include "runtime/base/clock.h"
#include "server/batching/scheduler_internal.h"

bool srv_scheduler_start_thread(struct srv_scheduler *s, struct srv_worker *w)
{
    pthread_t thread;

    if (rt_thread_start(&thread, w->name, w->main, w) != 0)
        return false;
    /* The scheduler does not know which thread is the last one of a worker. Therefore it counts the
     * threads instead of joining them. */
    pthread_detach(thread);
    s->n_threads++;
    return true;
}

void srv_scheduler_end_thread(struct srv_scheduler *s)
{
    if (--s->n_threads == 0)
        rt_cond_broadcast(&s->no_threads);
}

/* Starts another thread as the worker, so that this thread can wait. */
static enum rt_status replace_worker(struct srv_scheduler *s, struct srv_run *run,
                                     struct rt_arena *arena, struct rt_error *err)
    RT_REQUIRES(s->mu)
{
    struct srv_worker *w = run->worker;
    const int most = (int)s->server->options.max_waiting_runs;

    if (s->n_waiting >= most)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                       "%d runs wait for other runs already (--max_waiting_runs)", most);
    run->arena = w->arena;
    w->arena = arena; /* the new thread locks mu before it reads `arena` */
    if (!srv_scheduler_start_thread(s, w)) {
        w->arena = run->arena;
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "no thread could be started for a waiting run");
    }
    srv_scheduler_set_batch(s, w, NULL, 0);
    s->n_idle_spares += w->is_spare;
    s->n_waiting++;
    run->waits = true;
    run->thread_id = rt_thread_id();
    pthread_getcpuclockid(pthread_self(), &run->cpu_clock);
    run->next = s->waited;
    run->link = &s->waited;
    if (run->next)
        run->next->link = &run->next;
    else
        rt_cond_signal(&s->time);
    s->waited = run;
    return RT_OK;
}

void srv_scheduler_end_waited(struct srv_scheduler *s, struct srv_run *run)
{
    rt_mutex_lock(&s->mu);
    *run->link = run->next;
    if (run->next)
        run->next->link = run->link;
    s->n_waiting--;
    srv_scheduler_end_thread(s);
    rt_mutex_unlock(&s->mu);
}

/* Returns the CPU time for which the run has computed since its last wait, or 0 while it waits. */
static int64_t computed_ns(const struct srv_run *run)
{
    const int64_t since = atomic_load_explicit(&run->computes_since_ns, memory_order_relaxed);
    struct timespec t;

    if (!since || clock_gettime(run->cpu_clock, &t))
        return 0;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - since;
}

int64_t srv_scheduler_lower_waited(struct srv_scheduler *s, int64_t now)
{
    enum { LOOK_NS = 20000000, SHORT_NS = 20000000 };
    int n = 0;

    for (struct srv_run *run = s->waited; run; run = run->next) {
        const int64_t ns = run->is_lowered ? 0 : computed_ns(run);
        if (ns < SHORT_NS || (ns < s->long_run_ns && ++n <= s->group[0].n_workers))
            continue;
        rt_thread_make_idle(run->thread_id);
        run->is_lowered = true;
    }
    return s->waited ? now + LOOK_NS : RT_NEVER;
}

enum rt_status srv_scheduler_begin_waiting(void *arg, struct rt_error *err)
{
    struct srv_run *run = arg;
    struct srv_scheduler *s = run->s;
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    const struct srv_batch_verdict none = {.learn = false};
    uint32_t wake = 0;

    if (!arena)
        return rt_fail_memory(err, "a worker", 0);
    rt_mutex_lock(&s->mu);
    const enum rt_status st = replace_worker(s, run, arena, err);
    if (!st) {
        const int64_t now = rt_now_ns();
        srv_scheduler_end_batch(s, run->batch, now - run->start_ns, &none);
        wake = srv_scheduler_groups_to_wake(s, now);
    }
    rt_mutex_unlock(&s->mu);
    srv_scheduler_wake(s, wake);
    if (st)
        rt_arena_free(arena);
    return st;
}
