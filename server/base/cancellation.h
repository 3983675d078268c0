/*
 * Whether an answer that is being written is still wanted: its deadline has not passed and its
 * client has not gone. Writers tell what they have written, and every SRV_CANCELLATION_CHECK_BYTES
 * of it, some ten milliseconds, the two are looked at. An answer that is not wanted stays so, and
 * what was written of it is of no use.
 *
 * Threads: the writer's alone.
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
    int64_t deadline_ns;           /* CLOCK_MONOTONIC; RT_NEVER */
    const _Atomic bool *cancelled; /* NULL: nobody can go */
    size_t spent;                  /* since it was looked at */
    enum rt_status over;           /* why it is not wanted any more; RT_OK: it is */
};

/* `bytes` more were written; what costs more than a copy counts as more. `w` NULL: it is wanted
 * in any case, here and below. */
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

/* RT_OK, or why it is not wanted any more. */
static inline enum rt_status srv_cancellation_status(const struct srv_cancellation *w,
                                                     struct rt_error *err)
{
    if (!w || !w->over)
        return RT_OK;
    return rt_fail(err, w->over,
                   w->over == RT_CANCELLED ? "the request was cancelled"
                                           : "the deadline passed while the answer was written");
}

#endif
