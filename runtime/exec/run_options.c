/* Checks whether a run must end because it was cancelled or its deadline has passed. */
#include "runtime/session/session.h"

#include "runtime/base/clock.h"

static bool is_cancelled(const struct rt_run_options *o)
{
    if (o->cancelled && atomic_load_explicit(o->cancelled, memory_order_relaxed))
        return true;
    for (int i = 0; i < o->n_all_cancelled; i++)
        if (!atomic_load_explicit(o->all_cancelled[i], memory_order_relaxed))
            return false;
    return o->n_all_cancelled > 0;
}

enum rt_status rt_run_options_check(const struct rt_run_options *o, struct rt_error *err)
{
    if (is_cancelled(o))
        return rt_fail(err, RT_CANCELLED, "the request was cancelled");
    if (o->deadline_ns && o->deadline_ns != RT_NEVER && rt_now_ns() > o->deadline_ns)
        return rt_fail(err, RT_DEADLINE_EXCEEDED, "the deadline passed while the model ran");
    return RT_OK;
}
