/*
 * Stops the reading of a request or the writing of its response when the request's deadline has
 * passed or its client has disconnected. Readers and writers report how many bytes they have read
 * or written. Both conditions are checked every SRV_CANCELLATION_CHECK_BYTES bytes, which is about
 * every ten milliseconds. A cancelled request stays cancelled, and what was already read or written
 * must be discarded.
 *
 * Threads: only one thread at a time, which reads or writes, uses a cancellation.
 */
#ifndef SRV_CANCELLATION_H
#define SRV_CANCELLATION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

enum { SRV_CANCELLATION_CHECK_BYTES = 4 << 20 };

struct srv_cancellation {
    int64_t deadline_ns; /* time on CLOCK_MONOTONIC, or RT_NEVER if there is no deadline */
    /* set when the client disconnects; NULL if the request has no client */
    const _Atomic bool *cancelled;
    size_t spent;        /* number of bytes read or written since the last check */
    enum rt_status over; /* reason for the cancellation, or RT_OK */
};

/* Records that `bytes` more bytes have been read or written. Slow work counts as more bytes.
 * Returns whether the reader or writer should continue. If `w` is NULL, always returns true. */
static inline bool srv_should_continue(struct srv_cancellation *w, size_t bytes)
{
    if (!w || (!w->over && (w->spent += bytes) < SRV_CANCELLATION_CHECK_BYTES))
        return true;
    w->spent = 0;
    if (!w->over && w->cancelled && atomic_load_explicit(w->cancelled, memory_order_relaxed))
        w->over = RT_CANCELLED;
    else if (!w->over && w->deadline_ns != RT_NEVER && rt_now_ns() >= w->deadline_ns)
        w->over = RT_DEADLINE_EXCEEDED;
    return !w->over;
}

static inline enum rt_status srv_cancellation_status(const struct srv_cancellation *w,
                                                     struct rt_error *err)
{
    if (!w || !w->over)
        return RT_OK;
    return rt_fail(err, w->over,
                   w->over == RT_CANCELLED
                       ? "the request was cancelled"
                       : "the deadline passed while the request was read or its answer written");
}

#endif
