/* Implements the streams of an accelerator (device_stream.h). */
#include "runtime/core/device/device_stream.h"

#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/thread.h"
#include "runtime/core/device/device_memory.h"

/* interval, in nanoseconds, at which a run that waits for a stream calls its check */
#define CHECK_NS (10 * INT64_C(1000000))

struct stream_state {
    struct rt_device_memory block;
    bool is_taken;
};

struct rt_device_streams {
    struct rt_mutex mu;
    struct rt_cond given; /* signalled when a stream is given back */
    /* `is_taken` is guarded by mu. Only the run that has taken a stream uses its block. */
    struct stream_state stream[RT_MAX_STREAMS];
};

bool rt_device_streams_begin(struct rt_device *d)
{
    d->streams = calloc(1, sizeof *d->streams);
    if (!d->streams)
        return false;
    rt_mutex_init(&d->streams->mu);
    rt_cond_init(&d->streams->given);
    return true;
}

void rt_device_streams_end(struct rt_device *d)
{
    struct rt_device_streams *s = d->streams;
    for (int k = 0; k < d->n_streams; k++)
        rt_device_free(d, RT_DEVICE_BLOCKS, &s->stream[k].block);
    rt_cond_clear(&s->given);
    rt_mutex_clear(&s->mu);
    free(s);
    d->streams = NULL;
}

/* Returns the index of a free stream, or -1 if none is free. Prefers a stream whose block is large
 * enough. Called under mu. */
static int find_free(const struct rt_device *d, size_t bytes)
{
    const struct stream_state *s = d->streams->stream;
    int found = -1;
    for (int k = 0; k < d->n_streams; k++)
        if (!s[k].is_taken && (found < 0 || s[found].block.bytes < bytes))
            found = k;
    return found;
}

static enum rt_status grow(struct rt_device *d, struct stream_state *s, size_t bytes,
                           struct rt_error *err)
{
    if (bytes <= s->block.bytes)
        return RT_OK;
    rt_device_free(d, RT_DEVICE_BLOCKS, &s->block);
    return rt_device_alloc(d, RT_DEVICE_BLOCKS, bytes, "activations", &s->block, err);
}

enum rt_status rt_stream_take(struct rt_device *d, size_t bytes, const struct rt_check *check,
                              struct rt_stream *out, struct rt_error *err)
{
    struct rt_device_streams *s = d->streams;
    const int64_t begun_ns = rt_now_ns();
    enum rt_status st = RT_OK;
    int k;
    rt_mutex_lock(&s->mu);
    while ((k = find_free(d, bytes)) < 0 && !st) {
        rt_cond_wait_until(&s->given, &s->mu, rt_now_ns() + CHECK_NS);
        st = check->check(check->arg, err);
    }
    if (!st)
        s->stream[k].is_taken = true;
    rt_mutex_unlock(&s->mu);
    const int64_t taken_ns = rt_now_ns();
    atomic_fetch_add_explicit(&d->totals.waiting_ns, taken_ns - begun_ns, memory_order_relaxed);
    if (st)
        return st;
    st = grow(d, &s->stream[k], bytes, err);
    *out = (struct rt_stream){k, s->stream[k].block.address, taken_ns};
    if (st)
        rt_stream_give(d, out);
    return st;
}

void rt_stream_give(struct rt_device *d, const struct rt_stream *stream)
{
    struct rt_device_streams *s = d->streams;
    atomic_fetch_add_explicit(&d->totals.busy_ns, rt_now_ns() - stream->taken_ns,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&d->totals.regions, 1, memory_order_relaxed);
    rt_mutex_lock(&s->mu);
    s->stream[stream->index].is_taken = false;
    rt_cond_signal(&s->given);
    rt_mutex_unlock(&s->mu);
}
