#include "runtime/base/check.h"

#include "runtime/base/clock.h"

enum { TRY_NS = 1000000 }; /* time between two calls of the check */

RT_NO_ANALYSIS
enum rt_status rt_check_lock(const struct rt_check *c, struct rt_mutex *mu, struct rt_error *err)
{
    enum rt_status st = RT_OK;

    /* A mutex that is free is locked without a look at the clock. */
    if (rt_mutex_lock_until(mu, 0))
        return RT_OK;
    while (!st && !rt_mutex_lock_until(mu, rt_now_ns() + TRY_NS))
        st = rt_check_call(c, err);
    return st;
}
