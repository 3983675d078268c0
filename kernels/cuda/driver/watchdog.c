#include "kernels/cuda/driver/watchdog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/thread.h"

#define SECOND INT64_C(1000000000)
/* A wait is too long only if it takes at least FACTOR times as long as the longest earlier wait on
 * the GPU. */
enum { FACTOR = 20 };

struct cuda_watchdog {
    struct rt_mutex mu;
    struct rt_cond stop;
    bool is_stopping; /* guarded by mu */
    pthread_t thread;
    int64_t hang_ns;
    int n;
    struct cuda_gpu *gpu[RT_MAX_ACCELERATORS];
};

void cuda_watch_begin(struct cuda_stream *s)
{
    atomic_store_explicit(&s->waiting_since_ns, rt_now_ns(), memory_order_relaxed);
}

void cuda_watch_end(struct cuda_stream *s)
{
    const int64_t since = atomic_exchange_explicit(&s->waiting_since_ns, 0, memory_order_relaxed);
    const int64_t ns = rt_now_ns() - since;
    if (ns > atomic_load_explicit(&s->gpu->longest_ns, memory_order_relaxed))
        atomic_store_explicit(&s->gpu->longest_ns, ns, memory_order_relaxed);
}

/* Marks the GPU as failed if a thread has waited for the stream for `limit_ns`. */
static void look_at(struct cuda_gpu *g, const struct cuda_stream *s, const char *what,
                    int64_t limit_ns)
{
    const int64_t since = atomic_load_explicit(&s->waiting_since_ns, memory_order_relaxed);
    const int64_t waited_ns = rt_now_ns() - since;
    if (!since || waited_ns < limit_ns)
        return;
    char reason[100];
    snprintf(reason, sizeof reason, "%s has been running for %.1f s", what,
             (double)waited_ns / (double)SECOND);
    rt_device_fail(&g->device, reason);
    atomic_store(&g->device.is_hung, true);
}

static void look_at_gpu(const struct cuda_watchdog *w, struct cuda_gpu *g)
{
    const int64_t longest = atomic_load_explicit(&g->longest_ns, memory_order_relaxed);
    const int64_t limit_ns = longest > w->hang_ns / FACTOR
                                 ? (longest > INT64_MAX / FACTOR ? INT64_MAX : longest * FACTOR)
                                 : w->hang_ns;
    for (int k = 0; k < g->device.n_streams; k++)
        look_at(g, &g->stream[k], "a batch", limit_ns);
    for (int k = 0; k < CUDA_COPIERS; k++)
        look_at(g, &g->copier[k].stream, "a copy", limit_ns);
    look_at(g, &g->trial, "the trial of a plan", limit_ns);
}

static void *watch(void *arg)
{
    struct cuda_watchdog *w = arg;
    rt_mutex_lock(&w->mu);
    while (!w->is_stopping) {
        rt_cond_wait_until(&w->stop, &w->mu, rt_now_ns() + SECOND);
        for (int k = 0; k < w->n && !w->is_stopping; k++)
            look_at_gpu(w, w->gpu[k]);
    }
    rt_mutex_unlock(&w->mu);
    return NULL;
}

struct cuda_watchdog *cuda_watchdog_start(struct cuda_gpu *const *gpu, int n, int64_t hang_ns)
{
    struct cuda_watchdog *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->hang_ns = hang_ns;
    w->n = n;
    for (int k = 0; k < n; k++)
        w->gpu[k] = gpu[k];
    rt_mutex_init(&w->mu);
    rt_cond_init(&w->stop);
    if (rt_thread_start(&w->thread, "gpu-watchdog", watch, w) == 0)
        return w;
    rt_cond_clear(&w->stop);
    rt_mutex_clear(&w->mu);
    free(w);
    return NULL;
}

void cuda_watchdog_stop(struct cuda_watchdog *w)
{
    if (!w)
        return;
    rt_mutex_lock(&w->mu);
    w->is_stopping = true;
    rt_mutex_unlock(&w->mu);
    rt_cond_signal(&w->stop);
    pthread_join(w->thread, NULL);
    rt_cond_clear(&w->stop);
    rt_mutex_clear(&w->mu);
    free(w);
}
