#include "kernels/cpu/parallel.h"

#include <stdatomic.h>

enum {
    PART = 1 << 16, /* work of a part, at least: what takes some 20 microseconds */
    PARTS = 4,      /* per core, at most, so that a slow one does less of them */
};

struct job {
    struct rt_run *r;
    kn_rows_fn *rows;
    void *arg;
    int64_t n, per_part;
    atomic_bool failed;
};

static void part(void *arg, int64_t i)
{
    struct job *j = arg;
    const int64_t from = i * j->per_part, left = j->n - from;
    struct rt_error err = {.arena = NULL};
    struct rt_run own = *j->r;

    if (atomic_load_explicit(&j->failed, memory_order_relaxed))
        return;
    own.err = &err;
    if (j->rows(&own, j->arg, from, from + (left < j->per_part ? left : j->per_part)) &&
        !atomic_exchange(&j->failed, true))
        rt_error_copy(j->r->err, &err);
}

static enum rt_status run(struct job *j)
{
    rt_run_parallel(j->r, (j->n + j->per_part - 1) / j->per_part, part, j);
    return atomic_load(&j->failed) ? j->r->err->code : RT_OK;
}

enum rt_status kn_parallel_rows(struct rt_run *r, int64_t n, int64_t work, int64_t step,
                                kn_rows_fn *rows, void *arg)
{
    const double all = (double)n * (double)work;
    const int width = all < 2 * PART || n <= step ? 1 : rt_run_width(r);

    if (n <= 0)
        return RT_OK;
    if (width == 1)
        return rows(r, arg, 0, n);
    const int64_t most = (int64_t)width * PARTS;
    const int64_t parts = all / PART < (double)most ? (int64_t)(all / PART) : most;
    struct job j = {.r = r, .rows = rows, .arg = arg, .n = n};
    j.per_part = (n + parts - 1) / parts;
    j.per_part = (j.per_part + step - 1) / step * step;
    return run(&j);
}

enum rt_status kn_parallel_parts(struct rt_run *r, int64_t n, kn_rows_fn *rows, void *arg)
{
    struct job j = {.r = r, .rows = rows, .arg = arg, .n = n, .per_part = 1};
    return run(&j);
}
