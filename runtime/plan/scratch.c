/* The scratch memory of a context. It grows when a run needs more memory, and is charged to the
 * run's pool. */
#include <stdlib.h>
#include <sys/mman.h>

#include "runtime/exec/context.h"

enum { LARGE_PAGE = 2 << 20 };

void *rt_large_alloc(size_t bytes)
{
    void *p = NULL;
    const bool is_large = bytes >= 2 * LARGE_PAGE;
    if (posix_memalign(&p, is_large ? LARGE_PAGE : 64, bytes ? bytes : 64) != 0)
        return NULL;
    if (is_large)
        (void)madvise(p, bytes / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
    return p;
}

size_t rt_context_held(const struct rt_context *c)
{
    return c->scratch_capacity + c->extra_capacity + c->activation_capacity;
}

void rt_context_drop_scratch(struct rt_context *c)
{
    if (c->shared)
        rt_pool_discharge(c->shared->pool, rt_context_held(c));
    free(c->scratch);
    free(c->extra);
    free(c->activations);
    c->scratch = c->extra = c->activations = NULL;
    c->scratch_capacity = c->extra_capacity = c->activation_capacity = 0;
}

enum rt_status rt_context_scratch(struct rt_context *c, void **p, size_t *capacity, size_t bytes,
                                  const char *what, struct rt_error *err)
{
    const size_t want = (bytes + 63) & ~(size_t)63;
    if (bytes <= *capacity)
        return RT_OK;
    free(*p);
    *p = NULL;
    rt_pool_discharge(c->shared->pool, *capacity);
    *capacity = 0;
    if (bytes > SIZE_MAX - 64)
        return rt_fail_memory(err, what, bytes);
    const enum rt_status st = rt_pool_charge(c->shared->pool, want, what, err);
    if (st)
        return st;
    *p = rt_large_alloc(want);
    if (!*p) {
        rt_pool_discharge(c->shared->pool, want);
        return rt_fail_memory(err, what, bytes);
    }
    *capacity = want;
    return RT_OK;
}
