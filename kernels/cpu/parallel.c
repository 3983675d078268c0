#include "kernels/cpu/parallel.h"

#include <stdatomic.h>

enum {
    MIN_SHARD_WORK = 1 << 16, /* minimum work per shard, which takes about 20 microseconds */
    /* number of shards per core. With several shards per core, a slow core can compute fewer
     * shards than the other cores. */
    SHARDS_PER_CORE = 4,
    /* The shards count as even if the cores wait for the last shard for at most 1/EVEN of their
     * working time. */
    EVEN = 16,
};

struct job {
    struct rt_run *r;
    kn_rows_fn *rows;
    void *arg;
    int64_t n, per_shard;
    atomic_bool failed;
};

static void do_rows(void *arg, int64_t i)
{
    struct job *j = arg;
    const int64_t from = i * j->per_shard, left = j->n - from;
    struct rt_error err = {.arena = NULL};
    struct rt_run own = *j->r;

    if (atomic_load_explicit(&j->failed, memory_order_relaxed))
        return;
    own.err = &err;
    if (j->rows(&own, j->arg, from, from + (left < j->per_shard ? left : j->per_shard)) &&
        !atomic_exchange(&j->failed, true))
        rt_error_copy(j->r->err, &err);
}

/* Each shard counts its own work between deadline checks. The work of all shards is also added to
 * the run's count, so that the deadline is checked even if a kernel starts a parallel loop for each
 * of many small items. */
static enum rt_status parallel_run(struct job *j, double work)
{
    rt_run_parallel(j->r, kn_div_up(j->n, j->per_shard), do_rows, j);
    if (atomic_load(&j->failed))
        return j->r->err->code;
    return rt_run_spend(j->r, &j->r->left, work < RT_WORK ? (int64_t)work : RT_WORK);
}

/* Returns the number of rows per shard. Tries `shards` shards first, then more, until the shards
 * divide n nearly evenly among `width` cores. If no such number of shards is found, returns n /
 * shards, rounded up. */
static int64_t even_rows(int64_t n, int64_t shards, int64_t width)
{
    const int64_t first = kn_div_up(n, shards);

    for (int64_t i = shards; i <= SHARDS_PER_CORE * shards && i <= n; i++) {
        const int64_t rows = kn_div_up(n, i), rounds = kn_div_up(kn_div_up(n, rows), width) * rows;
        if (rounds - n / width <= n / width / EVEN)
            return rows;
    }
    return first;
}

enum rt_status kn_parallel_rows(struct rt_run *r, int64_t n, int64_t work, int64_t step,
                                kn_rows_fn *rows, void *arg)
{
    const double all = (double)n * (double)work;
    const int width = all < 2 * MIN_SHARD_WORK || n <= step ? 1 : rt_run_width(r);

    if (n <= 0 || work <= 0)
        return RT_OK;
    if (width == 1)
        return rows(r, arg, 0, n);
    const int64_t most = (int64_t)width * SHARDS_PER_CORE;
    const int64_t shards =
        all / MIN_SHARD_WORK < (double)most ? (int64_t)(all / MIN_SHARD_WORK) : most;
    struct job j = {.r = r, .rows = rows, .arg = arg, .n = n};
    j.per_shard = even_rows(kn_div_up(n, step), shards, width) * step;
    return parallel_run(&j, all / width);
}

/* ---- shards with slots ---- */

struct shards {
    struct rt_run *r;
    kn_shard_fn *shard;
    void *arg;
    int64_t n;
    _Atomic int64_t next;
    atomic_bool failed;
};

/* Runs on each core and computes shards until none is left. */
static void do_shards(void *arg, int64_t slot)
{
    struct shards *p = arg;
    struct rt_error err = {.arena = NULL};
    struct rt_run own = *p->r;
    int64_t i;

    own.err = &err;
    while (!atomic_load_explicit(&p->failed, memory_order_relaxed) &&
           (i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed)) < p->n)
        if (p->shard(&own, p->arg, i, slot)) {
            if (!atomic_exchange(&p->failed, true))
                rt_error_copy(p->r->err, &err);
            return;
        }
}

enum rt_status kn_parallel_shards(struct rt_run *r, int64_t n, int64_t slots, kn_shard_fn *shard,
                                  void *arg)
{
    struct shards p = {.r = r, .shard = shard, .arg = arg, .n = n};
    rt_run_parallel(r, n < slots ? n : slots, do_shards, &p);
    return atomic_load(&p.failed) ? r->err->code : RT_OK;
}
