/*
 * Loops of kernels over idle cores: a range of rows (of whatever) cut into parts. What is small
 * stays in one piece, on this thread. A row's result must not depend on where the cuts are.
 */
#ifndef KN_CPU_PARALLEL_H
#define KN_CPU_PARALLEL_H

#include "runtime/core/op.h"

enum {
    KN_SHARD_MACS = 2000000, /* products that are worth another core */
    /* With so many rows for each core, weights that all of them read cost less than rows that they
     * fetch from where another core has just written them. */
    KN_SHARD_ROWS = 64,
    /* Products between two questions whether to go on, as many as a core does in some milliseconds
     * where its loops are the fastest. */
    KN_CHECK_MACS = 400000000,
};

static inline int64_t kn_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Parts of `size` that n falls into, the last one perhaps smaller. */
static inline int64_t kn_div_up(int64_t n, int64_t size)
{
    return n > 0 ? (n - 1) / size + 1 : 0;
}

static inline int64_t kn_round_up(int64_t n, int64_t step)
{
    return kn_div_up(n, step) * step;
}

/* Bytes rounded up to whole cache lines: what one core writes is not on another's. */
static inline size_t kn_padded(size_t n)
{
    return (n + 63) / 64 * 64;
}

/* So many bytes into scratch memory, which is NULL where a node wants none. */
static inline char *kn_offset(void *workspace, size_t bytes)
{
    return bytes ? (char *)workspace + bytes : workspace;
}

/*
 * The size of parts that n falls into: none larger than `most`, all nearly the same, and where they
 * are more than `width` cores a like number for each.
 */
static inline int64_t kn_even_size(int64_t n, int64_t most, int64_t width)
{
    int64_t shards = n > most ? kn_div_up(n, most > 1 ? most : 1) : 1;
    if (shards > width && width > 1)
        shards = kn_round_up(shards, width);
    return n > 0 ? kn_div_up(n, shards) : 1;
}

/*
 * Does rows [from, to). `r` is the part's own: its errors and its questions whether to go on are;
 * not for what belongs to the whole run (rt_out*, rt_take, rt_scratch).
 */
typedef enum rt_status kn_rows_fn(struct rt_run *r, void *arg, int64_t from, int64_t to);

/*
 * rows for all of [0, n), cut at multiples of `step`; `work`: elements of one row that are read or
 * written, an arithmetic step more costing as much. After the first failure rows are left out. Rows
 * without elements (work 0) are none, however many there are.
 */
enum rt_status kn_parallel_rows(struct rt_run *r, int64_t n, int64_t work, int64_t step,
                                kn_rows_fn *rows, void *arg);
/*
 * Parts that the caller has cut: part(r, arg, i, slot) for each i below n, at most `slots` at a
 * time, each of them with a slot below that to itself (scratch, for one).
 */
typedef enum rt_status kn_shard_fn(struct rt_run *r, void *arg, int64_t i, int64_t slot);
enum rt_status kn_parallel_shards(struct rt_run *r, int64_t n, int64_t slots, kn_shard_fn *shard,
                                  void *arg);

#endif
