#include "kernels/cuda/driver/stream.h"
#include "kernels/cuda/driver/copier.h"
#include "kernels/cuda/driver/watchdog.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"

enum {
    /* A larger grid would only take longer to launch. */
    MOST_BLOCKS = 1 << 16,
    LEAST_RECORDED = 4, /* minimum number of steps that are recorded as a graph */
};

/* The GPU's data for the steps of a region (rt_region_steps.recorded). */
struct recording {
    struct CUgraphExec_st *graph; /* NULL until the second run */
    /* whether the steps are never recorded, because they are few or recording has failed */
    bool is_refused;
    struct cuda_pacing pacing;
};

static cuda_address address_of(const void *p)
{
    return (cuda_address)(uintptr_t)p;
}

enum rt_status cuda_enter(struct cuda_gpu *g, struct rt_error *err)
{
    if (atomic_load_explicit(&g->device.has_failed, memory_order_relaxed))
        return rt_fail(err, RT_UNAVAILABLE, "GPU:%d has failed", g->device.index);
    const int result = g->driver->CtxSetCurrent(g->context);
    return result ? cuda_gpu_fail(g, result, "cuCtxSetCurrent", err) : RT_OK;
}

/* ---- waiting ---- */

static void pause_for(int64_t ns)
{
    if (ns)
        nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
    else
        sched_yield();
}

/* Waits until the stream has done all enqueued work, successfully or not. Fails with RT_UNAVAILABLE
 * if the GPU hangs. No thread may call a function of the driver that waits for work, because the
 * function would not return then. */
static enum rt_status await_work(struct cuda_stream *s, struct rt_error *err)
{
    const struct cuda_gpu *g = s->gpu;
    struct cuda_pacing *pacing = s->pacing;
    const int64_t begun_ns = rt_now_ns();
    int64_t busy_ns = 0;
    bool is_busy, is_hung = false;
    s->pacing = NULL;
    cuda_watch_begin(s);
    while ((is_busy = g->driver->StreamQuery(s->handle) == CUDA_NOT_READY) && !is_hung) {
        busy_ns = rt_now_ns() - begun_ns;
        pause_for(cuda_pacing_sleep(pacing, busy_ns));
        is_hung = atomic_load(&g->device.is_hung);
    }
    cuda_watch_end(s);
    if (pacing)
        cuda_pacing_add(pacing, busy_ns);
    return is_busy ? rt_fail(err, RT_UNAVAILABLE, "GPU:%d has failed: it hangs", g->device.index)
                   : RT_OK;
}

enum rt_status cuda_finish(struct cuda_stream *s, const char *what, struct rt_error *err)
{
    const enum rt_status st = await_work(s, err);
    const int result = st ? CUDA_OK : s->gpu->driver->StreamSynchronize(s->handle);
    return result ? cuda_gpu_fail(s->gpu, result, what, err) : st;
}

/* ---- copies ---- */

static int enqueue(const struct cuda_driver *d, struct CUstream_st *s, enum rt_copy_kind kind,
                   void *to, const void *from, size_t bytes)
{
    switch (kind) {
    case RT_COPY_IN:
        return d->MemcpyHtoDAsync(address_of(to), from, bytes, s);
    case RT_COPY_OUT:
        return d->MemcpyDtoHAsync(to, address_of(from), bytes, s);
    case RT_COPY_WITHIN:
        break;
    }
    return d->MemcpyDtoDAsync(address_of(to), address_of(from), bytes, s);
}

static const char *name_of(enum rt_copy_kind kind)
{
    return kind == RT_COPY_IN    ? "a copy to the GPU"
           : kind == RT_COPY_OUT ? "a copy from the GPU"
                                 : "a copy on the GPU";
}

enum rt_status cuda_enqueue_copy(struct cuda_stream *s, enum rt_copy_kind kind, void *to,
                                 const void *from, size_t bytes, struct rt_error *err)
{
    const int result = enqueue(s->gpu->driver, s->handle, kind, to, from, bytes);
    return result ? cuda_gpu_fail(s->gpu, result, name_of(kind), err) : RT_OK;
}

static enum rt_status enqueue_copy(struct rt_device *d, int stream, enum rt_copy_kind kind,
                                   void *to, const void *from, size_t bytes, struct rt_error *err)
{
    struct cuda_gpu *g = d->state;
    struct cuda_stream *s = &g->stream[stream];
    enum rt_status st = cuda_enter(g, err);
    /* The driver waits for the stream before it copies to memory whose pages are not locked. */
    if (!st && kind == RT_COPY_OUT)
        st = await_work(s, err);
    return st ? st : cuda_enqueue_copy(s, kind, to, from, bytes, err);
}

/* ---- kernels ---- */

enum rt_status cuda_launch(const struct cuda_stream *s, enum kc_module module, int64_t blocks,
                           void *args, struct rt_error *err)
{
    const struct cuda_driver *d = s->gpu->driver;
    void *params[] = {args};
    if (blocks <= 0)
        return RT_OK;
    const int result = d->LaunchKernel(s->gpu->kernel[module],
                                       (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), 1,
                                       1, KC_THREADS, 1, 1, 0, s->handle, params, NULL);
    return result ? cuda_gpu_fail(s->gpu, result, "cuLaunchKernel", err) : RT_OK;
}

static enum rt_status launch_steps(struct cuda_stream *s, struct rt_region_steps *steps,
                                   const struct rt_region_step **failed)
{
    enum rt_status st = RT_OK;
    for (int k = 0; k < steps->n && !st; k++) {
        steps->step[k].run.stream = s;
        s->step = k + 1;
        st = steps->step[k].kernel->run(&steps->step[k].run);
        if (st)
            *failed = &steps->step[k];
    }
    return st;
}

/* Records the launches of the steps as a graph. If the driver refuses, logs the reason and leaves
 * `*graph` NULL. The steps can then still be launched one by one. */
static enum rt_status record(struct cuda_stream *s, struct rt_region_steps *steps,
                             struct CUgraphExec_st **graph, const struct rt_region_step **failed)
{
    const struct cuda_driver *d = s->gpu->driver;
    struct CUgraph_st *recorded = NULL;
    struct rt_error err = {0};
    int result = d->StreamBeginCapture(s->handle, CUDA_CAPTURE_THREAD_LOCAL);
    const enum rt_status st = result ? RT_OK : launch_steps(s, steps, failed);
    if (!result)
        result = d->StreamEndCapture(s->handle, &recorded);
    if (!result && !st)
        result = d->GraphInstantiateWithFlags(graph, recorded, 0);
    if (recorded)
        d->GraphDestroy(recorded);
    if (result && !st) {
        cuda_gpu_fail(s->gpu, result, "recording a region", &err);
        RT_LOG(RT_LOG_WARNING, "GPU:%d: %s; its %d kernels are launched one by one",
               s->gpu->device.index, rt_error_text(&err), steps->n);
        *graph = NULL;
    }
    return st;
}

/* ---- faults ---- */

static bool may_find_faults(const struct rt_region_steps *steps)
{
    for (int k = 0; k < steps->n; k++)
        if (steps->step[k].kernel->explain)
            return true;
    return false;
}

static int clear_fault(struct cuda_stream *s)
{
    static const struct kc_fault none;
    return s->gpu->driver->MemcpyHtoDAsync(address_of(s->fault), &none, sizeof none, s->handle);
}

/* Enqueues the copy to s->found after the steps. */
static enum rt_status read_fault(struct cuda_stream *s, const struct rt_region_steps *steps,
                                 struct rt_error *err)
{
    const enum rt_status st = await_work(s, err);
    if (st)
        return st;
    const int result = s->gpu->driver->MemcpyDtoHAsync(&s->found, address_of(s->fault),
                                                       sizeof s->found, s->handle);
    if (result)
        return cuda_gpu_fail(s->gpu, result, "a copy of the fault", err);
    s->checked = steps;
    return RT_OK;
}

/* Reports the fault that the steps have found, if any. */
static enum rt_status explain(struct cuda_stream *s, const struct rt_region_step **failed,
                              struct rt_error *err)
{
    const struct rt_region_steps *steps = s->checked;
    const int64_t k = s->found.step - 1;
    s->checked = NULL;
    if (!steps || k < 0 || k >= steps->n || !steps->step[k].kernel->explain)
        return RT_OK;
    *failed = &steps->step[k];
    return (*failed)->kernel->explain(&(*failed)->run, s->found.position, s->found.value, err);
}

/* ---- regions ---- */

static enum rt_status enqueue_kernels(struct rt_device *d, int stream,
                                      struct rt_region_steps *steps,
                                      const struct rt_region_step **failed, struct rt_error *err)
{
    struct cuda_gpu *g = d->state;
    struct cuda_stream *s = &g->stream[stream];
    enum rt_status st = cuda_enter(g, err);
    struct recording *r = steps->recorded;
    if (st)
        return st;
    if (!r) {
        /* If calloc fails, no graph is recorded. */
        r = steps->recorded = calloc(1, sizeof *r);
        if (r)
            r->is_refused = steps->n < LEAST_RECORDED;
        return launch_steps(s, steps, failed);
    }
    s->pacing = &r->pacing;
    if (!r->graph && !r->is_refused) {
        st = record(s, steps, &r->graph, failed);
        r->is_refused = !r->graph && !st;
        atomic_fetch_add_explicit(&d->totals.recorded, r->graph != NULL, memory_order_relaxed);
    }
    if (st || !r->graph)
        return st ? st : launch_steps(s, steps, failed);
    const int result = g->driver->GraphLaunch(r->graph, s->handle);
    return result ? cuda_gpu_fail(g, result, "cuGraphLaunch", err) : RT_OK;
}

static enum rt_status enqueue_steps(struct rt_device *d, int stream, struct rt_region_steps *steps,
                                    const struct rt_region_step **failed, struct rt_error *err)
{
    struct cuda_gpu *g = d->state;
    struct cuda_stream *s = &g->stream[stream];
    const bool checks = may_find_faults(steps);
    enum rt_status st = cuda_enter(g, err);
    s->pacing = NULL;
    const int result = st || !checks ? CUDA_OK : clear_fault(s);
    if (result)
        return cuda_gpu_fail(g, result, "a copy of the fault", err);
    if (!st)
        st = enqueue_kernels(d, stream, steps, failed, err);
    return st || !checks ? st : read_fault(s, steps, err);
}

static void forget(struct rt_device *d, struct rt_region_steps *steps)
{
    struct cuda_gpu *g = d->state;
    struct recording *r = steps->recorded;
    struct rt_error err = {0};
    if (r && r->graph && !cuda_enter(g, &err))
        g->driver->GraphExecDestroy(r->graph);
    free(r);
    steps->recorded = NULL;
}

/* Waits even if the GPU has failed, unless it hangs, because work that is still running may access
 * memory of the host. */
static enum rt_status wait(struct rt_device *d, int stream, const struct rt_region_step **failed,
                           struct rt_error *err)
{
    struct cuda_gpu *g = d->state;
    struct cuda_stream *s = &g->stream[stream];
    const int result = g->driver->CtxSetCurrent(g->context);
    const enum rt_status st = result ? cuda_gpu_fail(g, result, "cuCtxSetCurrent", err)
                                     : cuda_finish(s, "a region on the GPU", err);
    if (!st)
        return explain(s, failed, err);
    s->checked = NULL;
    return st;
}

/* ---- opening and closing ---- */

enum rt_status cuda_streams_begin(struct cuda_gpu *g, struct rt_error *err)
{
    cuda_address fault;
    g->trial.gpu = g;
    int result = g->driver->StreamCreate(&g->trial.handle, CUDA_STREAM_NON_BLOCKING);
    for (int k = 0; k < g->device.n_streams && !result; k++) {
        g->stream[k].gpu = g;
        result = g->driver->StreamCreate(&g->stream[k].handle, CUDA_STREAM_NON_BLOCKING);
        if (!result && !(result = g->driver->MemAlloc(&fault, sizeof(struct kc_fault))))
            g->stream[k].fault = (struct kc_fault *)(uintptr_t)fault;
    }
    return result ? cuda_gpu_fail(g, result, "cuStreamCreate", err) : RT_OK;
}

void cuda_streams_end(struct cuda_gpu *g)
{
    for (int k = 0; k < g->device.n_streams; k++) {
        if (g->stream[k].handle)
            g->driver->StreamDestroy(g->stream[k].handle);
        if (g->stream[k].fault)
            g->driver->MemFree(address_of(g->stream[k].fault));
    }
    if (g->trial.handle)
        g->driver->StreamDestroy(g->trial.handle);
}

void cuda_stream_functions(struct rt_device *d)
{
    d->copy = cuda_copy;
    d->enqueue_copy = enqueue_copy;
    d->enqueue_steps = enqueue_steps;
    d->wait = wait;
    d->forget = forget;
}
