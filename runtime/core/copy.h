/*
 * Copies large tensors, and calls a check that may stop the copy. Copying a gigabyte into newly
 * allocated memory takes up to a second.
 *
 * Owner: the caller owns the copy. Threads: as for tensors (tensor.h).
 */
#ifndef RT_CORE_COPY_H
#define RT_CORE_COPY_H

#include "runtime/base/check.h"
#include "runtime/core/run.h"
#include "runtime/core/tensor.h"

/* Copies n elements as rt_copy_elements does, but calls `check` regularly. If `check` fails,
 * returns its status; some elements may have been copied. `check` may be NULL. */
enum rt_status rt_copy_elements_checked(enum rt_dtype dtype, void *dst, const void *src, int64_t n,
                                        const struct rt_check *check, struct rt_error *err);
/* Copies `src` as rt_tensor_copy does, but fails if `check` fails while `src` is loaded or
 * copied. */
enum rt_status rt_tensor_copy_checked(struct rt_tensor *dst, const struct rt_tensor *src,
                                      struct rt_pool *pool, const struct rt_check *check,
                                      struct rt_error *err);

/* Calls rt_run_check. `run` points to a struct rt_run. rt_run_check sets only the error of the run,
 * so this function copies that error to *err. */
static inline enum rt_status rt_run_check_of(void *run, struct rt_error *err)
{
    struct rt_run *r = run;
    const enum rt_status st = rt_run_check(r);

    if (st && err && err != r->err)
        rt_error_copy(err, r->err);
    return st;
}
static inline struct rt_check rt_run_as_check(struct rt_run *r)
{
    return (struct rt_check){rt_run_check_of, r};
}

#endif
