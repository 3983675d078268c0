/* The spare workers of the scheduler (scheduler_internal.h). */
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "server/batching/scheduler_internal.h"

/* Returns the time from which a spare worker may take a batch for the GPU of the group, or
 * RT_NEVER. All workers of the group must have batches, and fewer batches than the group has
 * workers may have begun less than long_run_ns ago. A run of a model on a GPU may take long on
 * the CPU too. */
static int64_t spare_of_gpu_at(const struct srv_scheduler *s, int group)
{
    int64_t at = RT_NEVER;
    int n_short = 0;

    if (!s->gpus.n_jobs)
        return RT_NEVER;
    for (int i = 0; i < s->n_workers; i++)
        if (s->worker[i].group == group && !s->worker[i].batch)
            return RT_NEVER;
    for (int i = -1; i < s->n_workers; i++)
        for (const struct srv_worker *w = i < 0 ? s->spares : &s->worker[i]; w; w = w->next)
            if (w->group == group && w->batch && !w->batch->is_long) {
                n_short++;
                at = w->began_ns + s->long_run_ns < at ? w->began_ns + s->long_run_ns : at;
            }
    return n_short < s->group[group].n_workers ? 0 : at;
}

static int64_t spare_of_cpu_at(const struct srv_scheduler *s)
{
    const int most = s->cpu.settings.max_running;
    if (!s->cpu.n_jobs || (s->group[0].n_idle && (!most || s->cpu.running < most)))
        return RT_NEVER;
    /* A worker without a current batch, for example one that completes jobs, will soon take a
     * batch. */
    const int n_workers = s->group[0].n_workers;
    return s->n_busy == n_workers && srv_core_has_place(&s->cpu, n_workers)
               ? 0
               : s->taken_ns + s->spare_after_ns;
}

static int64_t spare_of_group_at(const struct srv_scheduler *s, int group)
{
    return group ? spare_of_gpu_at(s, group) : spare_of_cpu_at(s);
}

int64_t srv_scheduler_spare_at(const struct srv_scheduler *s)
{
    int64_t first = RT_NEVER;
    for (int k = 0; k < s->n_groups; k++) {
        const int64_t at = spare_of_group_at(s, k);
        first = at < first ? at : first;
    }
    return first;
}

void srv_scheduler_lower(struct srv_worker *w)
{
    rt_thread_lower(w->thread_id);
    w->is_lowered = true;
}

/* Marks the worker's run as long if it has lasted for long_run_ns. Lowers the priority of a
 * spare worker, because its run may never end. Other requests then keep most of the processor time.
 */
static void mark_if_long(struct srv_scheduler *s, struct srv_worker *w, int64_t now)
    RT_REQUIRES(s->mu)
{
    if (!w->batch || w->batch->is_long || now < w->began_ns + s->long_run_ns)
        return;
    srv_core_mark_long(s->group[w->group].core, w->batch);
    if (w->is_spare)
        srv_scheduler_lower(w);
}

static void mark_long_runs(struct srv_scheduler *s, int group, int64_t now) RT_REQUIRES(s->mu)
{
    for (int i = 0; i < s->n_workers; i++)
        if (s->worker[i].group == group)
            mark_if_long(s, &s->worker[i], now);
    for (struct srv_worker *w = s->spares; w; w = w->next)
        if (w->group == group)
            mark_if_long(s, w, now);
}

/* Looks for a batch of the group's model queues for the spare worker `w`. */
static bool take_of_group(struct srv_scheduler *s, struct srv_worker *w, int group, int64_t now,
                          struct srv_core_batch *batch, struct srv_core_job **expired)
    RT_REQUIRES(s->mu)
{
    const bool is_ample = s->n_spares - s->n_idle_spares < SRV_MAX_SPARES / 2;

    if (spare_of_group_at(s, group) == RT_NEVER)
        return false;
    mark_long_runs(s, group, now);
    if (now < spare_of_group_at(s, group))
        return false;
    w->group = group;
    if (!group)
        return srv_core_next_spare(&s->cpu, now, s->group[0].n_workers, is_ample, batch, expired);
    const struct srv_core_worker spare = {
        .group = group, .n_free = 1, .avoided = srv_scheduler_avoided(s, group)};
    return srv_core_next_beside_long(&s->gpus, now, &spare, is_ample, batch, expired);
}

/* Waits until the spare worker has a batch, jobs have missed their deadlines, or the scheduler
 * stops. Returns whether the spare worker has a batch. */
static bool lead(struct srv_scheduler *s, struct srv_worker *w, struct srv_core_batch *batch,
                 struct srv_core_job **expired) RT_REQUIRES(s->mu)
{
    while (!s->stopping) {
        const int64_t now = rt_now_ns();
        for (int k = 0; k < s->n_groups; k++) {
            if (take_of_group(s, w, k, now, batch, expired))
                return true;
            if (*expired)
                return false;
        }
        const int64_t at = srv_scheduler_spare_at(s);
        s->spare_ns = now >= at ? now + s->spare_after_ns : at;
        rt_cond_wait_until(&s->spare, &s->mu, s->spare_ns);
        s->spare_ns = 0;
    }
    return false;
}

static void remove_spare(struct srv_scheduler *s, const struct srv_worker *w) RT_REQUIRES(s->mu)
{
    struct srv_worker **at = &s->spares;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    s->n_spares--;
    s->n_idle_spares--;
}

/*
 * The thread of a spare worker. Without spare workers, small requests would wait for seconds while
 * large requests or slow models occupy all workers. Models whose runs never end could even block
 * all other models.
 */
static void *spare_main(void *arg)
{
    struct srv_worker *w = arg;
    struct srv_scheduler *s = w->s;

    rt_mutex_lock(&s->mu);
    w->thread_id = rt_thread_id();
    while (!s->stopping && !w->is_lowered) {
        struct srv_core_batch batch;
        struct srv_core_job *expired = NULL;
        if (s->has_leader) {
            rt_cond_wait(&s->follower, &s->mu);
            continue;
        }
        s->has_leader = true;
        const bool got = lead(s, w, &batch, &expired);
        s->has_leader = false;
        if (got) {
            srv_scheduler_set_batch(s, w, &batch, rt_now_ns());
            s->n_idle_spares--;
        }
        const bool lacks_spare = srv_scheduler_lacks_spare(s);
        rt_mutex_unlock(&s->mu);
        if (lacks_spare)
            rt_cond_signal(&s->time);
        else
            rt_cond_signal(&s->follower);
        srv_scheduler_complete_expired(s, expired);
        if (got && srv_scheduler_run_batch(s, w, w->index, &batch) == SRV_RUN_WAITED)
            return NULL;
        rt_mutex_lock(&s->mu);
        s->n_idle_spares += got;
    }
    remove_spare(s, w);
    const bool lacks_spare = srv_scheduler_lacks_spare(s);
    rt_arena_free(w->arena);
    free(w);
    if (lacks_spare && !s->stopping)
        rt_cond_signal(&s->time);
    srv_scheduler_end_thread(s);
    rt_mutex_unlock(&s->mu);
    return NULL;
}

bool srv_scheduler_lacks_spare(const struct srv_scheduler *s)
{
    return !s->n_idle_spares && s->n_spares < SRV_MAX_SPARES;
}

bool srv_scheduler_start_spare(struct srv_scheduler *s)
{
    struct srv_worker *w = calloc(1, sizeof *w);
    if (!w)
        return false;
    *w = (struct srv_worker){.s = s,
                             .index = s->n_workers,
                             .name = "slip-spare",
                             .main = spare_main,
                             .arena = rt_arena_new(SIZE_MAX),
                             .is_spare = true};
    rt_mutex_lock(&s->mu);
    const bool ok = w->arena && srv_scheduler_start_thread(s, w);
    if (ok) {
        w->next = s->spares;
        s->spares = w;
        s->n_spares++;
        s->n_idle_spares++;
    }
    rt_mutex_unlock(&s->mu);
    if (!ok) {
        RT_LOG(RT_LOG_WARNING, "a spare worker could not be started");
        rt_arena_free(w->arena);
        free(w);
    }
    return ok;
}
