#include "kernels/cuda/driver/copier.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/driver/stream.h"

/* Size and alignment of a copier's buffer. Copying a chunk takes much longer than enqueuing it. */
enum { CHUNK_BYTES = 4 << 20, PAGE_BYTES = 4096 };

static struct cuda_copier *take(struct cuda_gpu *g)
{
    struct cuda_copier *found = NULL;
    rt_mutex_lock(&g->copier_mu);
    while (!found) {
        for (int k = 0; k < CUDA_COPIERS && !found; k++)
            if (!g->copier[k].is_taken)
                found = &g->copier[k];
        if (!found)
            rt_cond_wait(&g->copier_free, &g->copier_mu);
    }
    found->is_taken = true;
    rt_mutex_unlock(&g->copier_mu);
    return found;
}

static void give_back(struct cuda_copier *c)
{
    struct cuda_gpu *g = c->stream.gpu;
    rt_mutex_lock(&g->copier_mu);
    c->is_taken = false;
    rt_cond_signal(&g->copier_free);
    rt_mutex_unlock(&g->copier_mu);
}

/* Makes the copier's buffer if it has none. If its pages cannot be locked, copies are slower. */
static enum rt_status prepare(struct cuda_copier *c, struct rt_error *err)
{
    if (c->buffer)
        return RT_OK;
    c->buffer = aligned_alloc(PAGE_BYTES, CHUNK_BYTES);
    if (!c->buffer)
        return rt_fail_memory(err, "a copy to the GPU", CHUNK_BYTES);
    c->is_locked = c->stream.gpu->driver->MemHostRegister(c->buffer, CHUNK_BYTES,
                                                          CUDA_PIN_PORTABLE) == CUDA_OK;
    return RT_OK;
}

/* Copies at most CHUNK_BYTES bytes. If the GPU hangs, it may still copy from or to the buffer,
 * which is then neither used nor freed any more. */
static enum rt_status copy_chunk(struct cuda_copier *c, enum rt_copy_kind kind, void *to,
                                 const void *from, size_t n, struct rt_error *err)
{
    struct cuda_stream *s = &c->stream;
    enum rt_status st = cuda_enter(s->gpu, err); /* fails if another thread's copy has hung */
    if (st)
        return st;
    if (kind == RT_COPY_IN)
        memcpy(c->buffer, from, n);
    st = cuda_enqueue_copy(s, kind, kind == RT_COPY_OUT ? c->buffer : to,
                           kind == RT_COPY_IN ? c->buffer : from, n, err);
    if (!st)
        st = cuda_finish(s, "a copy", err);
    if (!st && kind == RT_COPY_OUT)
        memcpy(to, c->buffer, n);
    return st;
}

enum rt_status cuda_copy(struct rt_device *d, enum rt_copy_kind kind, void *to, const void *from,
                         size_t bytes, struct rt_error *err)
{
    struct cuda_gpu *g = d->state;
    enum rt_status st = cuda_enter(g, err);
    if (st)
        return st;
    struct cuda_copier *c = take(g);
    if (kind != RT_COPY_WITHIN)
        st = prepare(c, err);
    for (size_t at = 0; at < bytes && !st; at += CHUNK_BYTES) {
        const size_t n = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        st = copy_chunk(c, kind, (char *)to + at, (const char *)from + at, n, err);
    }
    give_back(c);
    return st;
}

enum rt_status cuda_copiers_begin(struct cuda_gpu *g, struct rt_error *err)
{
    int result = CUDA_OK;
    rt_mutex_init(&g->copier_mu);
    rt_cond_init(&g->copier_free);
    g->has_copiers = true;
    for (int k = 0; k < CUDA_COPIERS && !result; k++) {
        g->copier[k].stream.gpu = g;
        result = g->driver->StreamCreate(&g->copier[k].stream.handle, CUDA_STREAM_NON_BLOCKING);
    }
    return result ? cuda_gpu_fail(g, result, "cuStreamCreate", err) : RT_OK;
}

void cuda_copiers_end(struct cuda_gpu *g)
{
    for (int k = 0; k < CUDA_COPIERS; k++) {
        struct cuda_copier *c = &g->copier[k];
        if (c->stream.handle)
            g->driver->StreamDestroy(c->stream.handle);
        if (c->is_locked)
            g->driver->MemHostUnregister(c->buffer);
        free(c->buffer);
    }
    if (!g->has_copiers)
        return;
    rt_cond_clear(&g->copier_free);
    rt_mutex_clear(&g->copier_mu);
}
