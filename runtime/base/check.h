/*
 * A check that a long operation calls regularly. The check fails if the operation must stop, for
 * example because a request was cancelled or a model is no longer needed.
 *
 * Owner: the caller of the operation. The caller must keep `arg` valid until the operation ends.
 * Threads: the thread that performs the operation.
 */
#ifndef RT_BASE_CHECK_H
#define RT_BASE_CHECK_H

#include "runtime/base/status.h"
#include "runtime/base/thread.h"

struct rt_check {
    enum rt_status (*check)(void *arg, struct rt_error *err);
    void *arg;
};
/* Calls the check. If `c` is NULL, returns RT_OK. */
static inline enum rt_status rt_check_call(const struct rt_check *c, struct rt_error *err)
{
    return c ? c->check(c->arg, err) : RT_OK;
}
/* Locks a mutex that another thread may hold for long, for example during a run. While it waits, it
 * calls the check about every millisecond. If the check fails, returns its status, and the mutex is
 * not locked. */
enum rt_status rt_check_lock(const struct rt_check *c, struct rt_mutex *mu, struct rt_error *err)
    RT_TRY_ACQUIRE(RT_OK, *mu);

#endif
