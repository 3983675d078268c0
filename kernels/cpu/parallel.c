#include "kernels/cpu/parallel.h"

#include <stdatomic.h>

enum {
    PART = 1 << 16, /* work of a part, at least: what takes some 20 microseconds */
    PARTS = 4,      /* per core, so that a slow one does less of them; or some more, where */
    EVEN = 16,      /* cores would then wait for the last one less than such a part of the time */
};

struct job {
    struct rt_run *r;
    kn_rows_fn *rows;
    void *arg;
    int64_t n, per_part;
    atomic_bool failed;
};

static void do_rows(void *arg, int64_t i)
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

/* Each part has had a countdown of its own: what they did together counts in the run's, so that a
 * kernel that comes here for each of many items asks as well. */
static enum rt_status run(struct job *j, double work)
{
    rt_run_parallel(j->r, kn_parts(j->n, j->per_part), do_rows, j);
    if (atomic_load(&j->failed))
        return j->r->err->code;
    return rt_run_spend(j->r, &j->r->left, work < RT_WORK ? (int64_t)work : RT_WORK);
}

/* Rows of a part, if so many parts of n come out nearly even on `width` cores; or of a few more. */
static int64_t even_rows(int64_t n, int64_t parts, int64_t width)
{
    const int64_t first = kn_parts(n, parts);

    for (int64_t i = parts; i <= PARTS * parts && i <= n; i++) {
        const int64_t rows = kn_parts(n, i), rounds = kn_parts(kn_parts(n, rows), width) * rows;
        if (rounds - n / width <= n / width / EVEN)
            return rows;
    }
    return first;
}

enum rt_status kn_parallel_rows(struct rt_run *r, int64_t n, int64_t work, int64_t step,
                                kn_rows_fn *rows, void *arg)
{
    const double all = (double)n * (double)work;
    const int width = all < 2 * PART || n <= step ? 1 : rt_run_width(r);

    if (n <= 0 || work <= 0)
        return RT_OK;
    if (width == 1)
        return rows(r, arg, 0, n);
    const int64_t most = (int64_t)width * PARTS;
    const int64_t parts = all / PART < (double)most ? (int64_t)(all / PART) : most;
    struct job j = {.r = r, .rows = rows, .arg = arg, .n = n};
    j.per_part = even_rows(kn_parts(n, step), parts, width) * step;
    return run(&j, all / width);
}

/* ---- parts with slots ---- */

struct parts {
    struct rt_run *r;
    kn_part_fn *part;
    void *arg;
    int64_t n;
    _Atomic int64_t next;
    atomic_bool failed;
};

/* What one core does: parts, until none is left. */
static void do_parts(void *arg, int64_t slot)
{
    struct parts *p = arg;
    struct rt_error err = {.arena = NULL};
    struct rt_run own = *p->r;
    int64_t i;

    own.err = &err;
    while (!atomic_load_explicit(&p->failed, memory_order_relaxed) &&
           (i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed)) < p->n)
        if (p->part(&own, p->arg, i, slot)) {
            if (!atomic_exchange(&p->failed, true))
                rt_error_copy(p->r->err, &err);
            return;
        }
}

enum rt_status kn_parallel_parts(struct rt_run *r, int64_t n, int64_t slots, kn_part_fn *part,
                                 void *arg)
{
    struct parts p = {.r = r, .part = part, .arg = arg, .n = n};
    rt_run_parallel(r, n < slots ? n : slots, do_parts, &p);
    return atomic_load(&p.failed) ? r->err->code : RT_OK;
}
