/* Implements the streams, graphs and kernels of the fake CUDA driver (fake_driver.h). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda/device/attention.h"
#include "kernels/cuda/device/conv.h"
#include "kernels/cuda/device/copy.h"
#include "kernels/cuda/device/depthwise.h"
#include "kernels/cuda/device/elementwise.h"
#include "kernels/cuda/device/finish.h"
#include "kernels/cuda/device/gather.h"
#include "kernels/cuda/device/matmul.h"
#include "kernels/cuda/device/norm.h"
#include "kernels/cuda/device/pool.h"
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/device/rnn.h"
#include "kernels/cuda/device/softmax.h"
#include "kernels/cuda/driver/gpu.h"
#include "tests/gpu/emulation.h"
#include "tests/gpu/fake_internal.h"

enum { MOST_ARGS_BYTES = 4096 };

/* ---- streams ---- */

/* A copy if `kernel` is NULL, otherwise a launch. The addresses of a copy are those at which the
 * host can access the bytes. */
struct work {
    struct work *next;
    const struct CUfunc_st *kernel;
    int64_t n_blocks;
    int n_threads; /* of a block */
    void *to;
    const void *from;
    size_t bytes;
    char args[MOST_ARGS_BYTES];
};

struct CUgraph_st {
    struct work *first, *last;
};

struct CUgraphExec_st {
    struct CUgraph_st graph;
    struct CUstream_st *stream; /* the stream on which the graph was launched last */
    struct CUgraphExec_st *next;
};
/* All graphs that can be launched. After a GPU has failed, a program does not destroy its graphs.
 * This list keeps them reachable, so they are not reported as leaks. */
static struct CUgraphExec_st *execs;
static pthread_mutex_t execs_lock = PTHREAD_MUTEX_INITIALIZER;

struct CUstream_st {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct work *first, *last;
    bool is_working, is_hung;
    _Atomic bool is_ending;
    struct fake_capture capture;
    struct CUgraph_st *captured; /* the captured work, or NULL if the stream is not captured */
};

static void do_work(const struct work *w)
{
    if (!w->kernel) {
        memmove(w->to, w->from, w->bytes);
        return;
    }
    emulated_launch(w->kernel->call, w->args, w->n_blocks, w->n_threads, w->kernel->is_cooperative);
}

bool fake_hangs(void)
{
    static _Atomic long long n_done;
    const char *nth = getenv("FAKE_CUDA_HANG");
    return nth && atomic_fetch_add(&n_done, 1) + 1 == strtoll(nth, NULL, 0);
}

/* Returns whether FAKE_CUDA_HANG stops the stream before its next operation. */
static bool is_hanging(struct CUstream_st *s)
{
    if (s->is_ending)
        return false;
    if (!s->is_hung)
        s->is_hung = fake_hangs();
    return s->is_hung;
}

static void *run_stream(void *arg)
{
    struct CUstream_st *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->is_ending || s->first) {
        struct work *w = s->first;
        if (!w) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        s->first = w->next;
        s->is_working = true;
        pthread_mutex_unlock(&s->lock);
        usleep(50); /* lets the program continue before the work is done */
        while (is_hanging(s))
            usleep(1000);
        do_work(w);
        free(w);
        pthread_mutex_lock(&s->lock);
        s->is_working = false;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    emulated_end();
    return NULL;
}

int cuStreamCreate(struct CUstream_st **stream, unsigned flags)
{
    const int result = fake_count(CALL_StreamCreate);
    if (result || !fake_current_device() || flags != CUDA_STREAM_NON_BLOCKING)
        return result ? result : FAKE_INVALID_VALUE;
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (!s)
        return CUDA_NO_MEMORY;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&s->thread, NULL, run_stream, s) != 0) {
        free(s);
        return CUDA_NO_MEMORY;
    }
    *stream = s;
    return CUDA_OK;
}

int cuStreamDestroy(struct CUstream_st *s)
{
    const int result = fake_count(CALL_StreamDestroy);
    if (result)
        return result;
    pthread_mutex_lock(&s->lock);
    s->is_ending = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
    return CUDA_OK;
}

int cuStreamQuery(struct CUstream_st *s)
{
    const int result = fake_count(CALL_StreamQuery);
    if (result || !fake_current_device())
        return result ? result : FAKE_INVALID_CONTEXT;
    pthread_mutex_lock(&s->lock);
    const bool is_busy = s->first || s->is_working;
    pthread_mutex_unlock(&s->lock);
    return is_busy ? CUDA_NOT_READY : CUDA_OK;
}

/* If the call fails, the work that has not begun is dropped. After the return, no work of the
 * stream accesses memory of the program. */
int cuStreamSynchronize(struct CUstream_st *s)
{
    const int result = fake_count(CALL_StreamSynchronize);
    if (!fake_current_device())
        return FAKE_INVALID_CONTEXT;
    if (result == FAKE_CAPTURE_UNSUPPORTED)
        return result;
    pthread_mutex_lock(&s->lock);
    for (struct work *w = result ? s->first : NULL, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    if (result)
        s->first = s->last = NULL;
    while (s->first || s->is_working)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return result;
}

static void append(struct work **first, struct work **last, struct work *w)
{
    w->next = NULL;
    if (*first)
        (*last)->next = w;
    else
        *first = w;
    *last = w;
}

static int add_work(struct CUstream_st *s, const struct work *work)
{
    struct work *w = malloc(sizeof *w);
    if (!w)
        return CUDA_NO_MEMORY;
    *w = *work;
    pthread_mutex_lock(&s->lock);
    if (s->captured)
        append(&s->captured->first, &s->captured->last, w);
    else
        append(&s->first, &s->last, w);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return CUDA_OK;
}

static int add_copy(struct CUstream_st *s, void *to, const void *from, size_t bytes)
{
    const struct work w = {.to = to, .from = from, .bytes = bytes};
    return add_work(s, &w);
}

int cuMemcpyDtoDAsync(cuda_address to, cuda_address from, size_t bytes, struct CUstream_st *stream)
{
    const int result = fake_count(CALL_MemcpyDtoDAsync);
    if (result || !fake_current_device())
        return result ? result : FAKE_INVALID_CONTEXT;
    if (!fake_is_allocated(to, bytes) || !fake_is_allocated(from, bytes))
        return FAKE_INVALID_VALUE;
    return add_copy(stream, fake_on_host(to), fake_on_host(from), bytes);
}

int cuMemcpyHtoDAsync(cuda_address to, const void *host, size_t bytes, struct CUstream_st *stream)
{
    const int result = fake_count(CALL_MemcpyHtoDAsync);
    if (result || !fake_current_device())
        return result ? result : FAKE_INVALID_CONTEXT;
    if (!fake_is_allocated(to, bytes))
        return FAKE_INVALID_VALUE;
    return add_copy(stream, fake_on_host(to), host, bytes);
}

int cuMemcpyDtoHAsync(void *host, cuda_address from, size_t bytes, struct CUstream_st *stream)
{
    const int result = fake_count(CALL_MemcpyDtoHAsync);
    if (result || !fake_current_device())
        return result ? result : FAKE_INVALID_CONTEXT;
    if (!fake_is_allocated(from, bytes))
        return FAKE_INVALID_VALUE;
    return add_copy(stream, host, fake_on_host(from), bytes);
}

/* ---- graphs ---- */

int cuStreamBeginCapture(struct CUstream_st *s, int mode)
{
    const int result = fake_count(CALL_StreamBeginCapture);
    if (result || fake_capture || s->captured || mode != CUDA_CAPTURE_THREAD_LOCAL)
        return result ? result : FAKE_INVALID_VALUE;
    s->captured = calloc(1, sizeof *s->captured);
    if (!s->captured)
        return CUDA_NO_MEMORY;
    s->capture.is_invalid = false;
    fake_capture = &s->capture;
    return CUDA_OK;
}

int cuGraphDestroy(struct CUgraph_st *graph)
{
    const int result = fake_count(CALL_GraphDestroy);
    for (struct work *w = graph->first, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    free(graph);
    return result;
}

int cuStreamEndCapture(struct CUstream_st *s, struct CUgraph_st **graph)
{
    const int result = fake_count(CALL_StreamEndCapture);
    *graph = NULL;
    if (!s->captured || fake_capture != &s->capture)
        return FAKE_INVALID_VALUE;
    struct CUgraph_st *captured = s->captured;
    fake_capture = NULL;
    s->captured = NULL;
    if (!result && !s->capture.is_invalid) {
        *graph = captured;
        return CUDA_OK;
    }
    cuGraphDestroy(captured);
    return result ? result : FAKE_CAPTURE_INVALIDATED;
}

int cuGraphInstantiateWithFlags(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
                                unsigned long long flags)
{
    const int result = fake_count(CALL_GraphInstantiateWithFlags);
    if (result || flags)
        return result ? result : FAKE_INVALID_VALUE;
    struct CUgraphExec_st *e = calloc(1, sizeof *e);
    if (!e)
        return CUDA_NO_MEMORY;
    for (const struct work *w = graph->first; w; w = w->next) {
        struct work *copy = malloc(sizeof *copy);
        if (!copy)
            abort();
        *copy = *w;
        append(&e->graph.first, &e->graph.last, copy);
    }
    pthread_mutex_lock(&execs_lock);
    e->next = execs;
    execs = e;
    pthread_mutex_unlock(&execs_lock);
    *exec = e;
    return CUDA_OK;
}

/* The real driver runs a graph on one stream at a time and makes other streams wait. The fake
 * driver refuses to launch a graph on a second stream, because the wait would silently cost
 * speed. */
int cuGraphLaunch(struct CUgraphExec_st *exec, struct CUstream_st *stream)
{
    const int result = fake_count(CALL_GraphLaunch);
    if (result || !fake_current_device())
        return result ? result : FAKE_INVALID_CONTEXT;
    if (exec->stream && exec->stream != stream)
        return FAKE_INVALID_VALUE;
    exec->stream = stream;
    int added = CUDA_OK;
    for (const struct work *w = exec->graph.first; w && !added; w = w->next)
        added = add_work(stream, w);
    return added;
}

int cuGraphExecDestroy(struct CUgraphExec_st *exec)
{
    const int result = fake_count(CALL_GraphExecDestroy);
    pthread_mutex_lock(&execs_lock);
    struct CUgraphExec_st **at = &execs;
    while (*at && *at != exec)
        at = &(*at)->next;
    if (*at)
        *at = exec->next;
    pthread_mutex_unlock(&execs_lock);
    for (struct work *w = exec->graph.first, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    free(exec);
    return result;
}

/* ---- modules and launches ---- */

#define X(module, is_cooperative)                                                                  \
    void kc_##module(struct kc_##module args);                                                     \
    static void call_##module(const void *args)                                                    \
    {                                                                                              \
        struct kc_##module copy;                                                                   \
        memcpy(&copy, args, sizeof copy);                                                          \
        kc_##module(copy);                                                                         \
    }                                                                                              \
    _Static_assert(sizeof(struct kc_##module) <= MOST_ARGS_BYTES, "the parameter of " #module);
KC_MODULES(X)
#undef X

static struct CUfunc_st kernels[KC_N_MODULES] = {
#define X(module, is_cooperative)                                                                  \
    {"kc_" #module, sizeof(struct kc_##module), call_##module, is_cooperative},
    KC_MODULES(X)
#undef X
};

struct CUmod_st {
    const void *image;
};

int cuModuleLoadData(struct CUmod_st **module, const void *image)
{
    const int result = fake_count(CALL_ModuleLoadData);
    if (result || !fake_current_device() || !image)
        return result ? result : FAKE_INVALID_VALUE;
    *module = malloc(sizeof **module);
    if (!*module)
        return CUDA_NO_MEMORY;
    (*module)->image = image;
    return CUDA_OK;
}

int cuModuleUnload(struct CUmod_st *module)
{
    const int result = fake_count(CALL_ModuleUnload);
    free(module);
    return result;
}

int cuModuleGetFunction(struct CUfunc_st **function, struct CUmod_st *module, const char *name)
{
    const int result = fake_count(CALL_ModuleGetFunction);
    if (result || !module)
        return result ? result : FAKE_INVALID_HANDLE;
    for (int k = 0; k < KC_N_MODULES; k++)
        if (strcmp(kernels[k].name, name) == 0) {
            *function = &kernels[k];
            return CUDA_OK;
        }
    return FAKE_NOT_FOUND;
}

int cuLaunchKernel(struct CUfunc_st *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   struct CUstream_st *stream, void **params, void **extra)
{
    const int result = fake_count(CALL_LaunchKernel);
    if (result || !fake_current_device())
        return result ? result : FAKE_INVALID_CONTEXT;
    if (!grid_x || grid_y != 1 || grid_z != 1 || !block_x || block_x > 1024 || block_y != 1 ||
        block_z != 1 || shared_bytes || !stream || extra)
        return FAKE_INVALID_VALUE;
    struct work w = {.kernel = function, .n_blocks = grid_x, .n_threads = (int)block_x};
    memcpy(w.args, params[0], function->args_bytes);
    return add_work(stream, &w);
}
