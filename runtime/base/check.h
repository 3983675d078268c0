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

struct rt_check {
    enum rt_status (*check)(void *arg, struct rt_error *err);
    void *arg;
};
/* Calls the check. If `c` is NULL, returns RT_OK. */
static inline enum rt_status rt_check_call(const struct rt_check *c, struct rt_error *err)
{
    return c ? c->check(c->arg, err) : RT_OK;
}

#endif
