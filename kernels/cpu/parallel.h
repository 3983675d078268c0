/*
 * Runs the loops of kernels in parallel on idle cores. A range, such as a range of rows, is split
 * into shards. A small range is not split and runs on the calling thread. A row's result must not
 * depend on where the range is split.
 */
#ifndef KN_CPU_PARALLEL_H
#define KN_CPU_PARALLEL_H

#include "runtime/core/op.h"

enum {
    KN_SHARD_MACS = 2000000, /* number of multiply-adds that justifies using another core */
    /* With at least KN_SHARD_ROWS rows per core, splitting rows is cheaper than splitting columns,
     * because reading weights that all cores share costs less than fetching rows from the core that
     * has just written them. */
    KN_SHARD_ROWS = 64,
    /* The number of multiply-adds between two deadline checks. One core takes a few milliseconds
     * for them in the fastest loops. */
    KN_CHECK_MACS = 400000000,
};

static inline int64_t kn_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns the number of shards of size `size` into which n items are split. The last shard may be
 * smaller. */
static inline int64_t kn_div_up(int64_t n, int64_t size)
{
    return n > 0 ? (n - 1) / size + 1 : 0;
}

static inline int64_t kn_round_up(int64_t n, int64_t step)
{
    return kn_div_up(n, step) * step;
}

/* Rounds the size n up to a multiple of 64, the size of a cache line in bytes. If the buffers of
 * different cores have rounded sizes, no two cores write to the same cache line. */
static inline size_t kn_padded(size_t n)
{
    return (n + 63) / 64 * 64;
}

/* Returns the address at offset `bytes` in scratch memory, or NULL if the node needs no scratch
 * memory. */
static inline char *kn_offset(void *workspace, size_t bytes)
{
    return bytes ? (char *)workspace + bytes : workspace;
}

/*
 * Returns the shard size, at most `most`, that divides n nearly evenly. If there are more shards
 * than cores (`width`), the number of shards is a multiple of `width`.
 */
static inline int64_t kn_even_size(int64_t n, int64_t most, int64_t width)
{
    int64_t shards = n > most ? kn_div_up(n, most > 1 ? most : 1) : 1;
    if (shards > width && width > 1)
        shards = kn_round_up(shards, width);
    return n > 0 ? kn_div_up(n, shards) : 1;
}

/*
 * Computes rows [from, to). `r` is the shard's own copy of the run, with its own err and its own
 * count of work between deadline checks. Functions that act on the complete run (rt_out*, rt_take,
 * rt_scratch) must not be called with the copy.
 */
typedef enum rt_status kn_rows_fn(struct rt_run *r, void *arg, int64_t from, int64_t to);

/*
 * Calls `rows` for all of [0, n), split at multiples of `step`. `work` is the number of elements
 * that one row reads or writes, plus an allowance for costly arithmetic. If `work` is 0, rows have
 * no elements, and `rows` is not called. After the first failure, the remaining shards are skipped.
 */
enum rt_status kn_parallel_rows(struct rt_run *r, int64_t n, int64_t work, int64_t step,
                                kn_rows_fn *rows, void *arg);
/* Runs shards that the caller has defined, by calling shard(r, arg, i, slot) for each i below n,
 * with at most `slots` calls at a time. Concurrent calls have different slot numbers below `slots`,
 * so that each can use its own slot of scratch memory. */
typedef enum rt_status kn_shard_fn(struct rt_run *r, void *arg, int64_t i, int64_t slot);
enum rt_status kn_parallel_shards(struct rt_run *r, int64_t n, int64_t slots, kn_shard_fn *shard,
                                  void *arg);

#endif
