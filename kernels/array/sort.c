#include "kernels/array/sort.h"

#include "runtime/base/sort.h"
#include "runtime/core/copy.h"

enum rt_status kn_sort(struct rt_run *r, void *base, int64_t n, size_t size,
                       int (*compare)(const void *a, const void *b))
{
    const struct rt_check check = rt_run_as_check(r);
    void *workspace = NULL;

    if (n > RT_SORT_RUN && !(workspace = rt_run_alloc(r, (size_t)n * size)))
        return r->err->code;
    const enum rt_status st = rt_sort(base, workspace, (size_t)n, size, compare, &check, r->err);
    rt_pool_free(workspace);
    return st;
}
