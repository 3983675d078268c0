/*
 * The results of a plan's row-wise analyses. The key of a result consists of the lengths of the
 * feed dimensions that are unknown in the signature, except dimension 0. A plan may compute any
 * value from a length, so a result is valid only for its key's lengths. A run of merged requests
 * looks up the result for its own lengths. The last RT_ROW_ANALYSES results are kept. If the
 * lengths differ in every merged run, each run analyses the plan again, which takes less time than
 * preparing kernels for the new lengths.
 *
 * `shapes` are the shapes in the signature, one per feed. Unknown dimensions, including dimension
 * 0, are -1. `feeds` may be NULL if only dimension 0 is unknown.
 *
 * Threads: none of these functions acquires a lock.
 */
#ifndef RT_ROW_ANALYSES_H
#define RT_ROW_ANALYSES_H

#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

enum { RT_ROW_ANALYSES = 32 };
enum rt_row_verdict { RT_ROWS_NOT_ANALYSED, RT_ROWS_INDEPENDENT, RT_ROWS_NOT_INDEPENDENT };

struct rt_row_analyses {
    /* The lengths of the unknown dimensions, one group for each of up to RT_ROW_ANALYSES
     * analyses. */
    int64_t *length;
    int n, next; /* `next` is the index of the entry to replace once all entries are used. */
    bool is_proved[RT_ROW_ANALYSES];
};
void rt_row_analyses_clear(struct rt_row_analyses *p);

/* Returns the number of unknown dimensions, not counting dimension 0. */
int rt_count_open(const struct rt_shape *shapes, int n_feeds);
/* Returns whether the feeds match the given shapes and all have the same number of rows. */
bool rt_feeds_have_rows(const struct rt_shape *shapes, const struct rt_tensor *feeds, int n_feeds);
/* Copies `shapes` to `out`. Each unknown dimension, except dimension 0, gets its length from
 * `feeds`. */
void rt_close_shapes(struct rt_shape *out, const struct rt_shape *shapes,
                     const struct rt_tensor *feeds, int n_feeds);

enum rt_row_verdict rt_row_analyses_find(const struct rt_row_analyses *p,
                                         const struct rt_shape *shapes,
                                         const struct rt_tensor *feeds, int n_feeds);
/* Stores a result. Returns false if memory runs out. */
bool rt_row_analyses_put(struct rt_row_analyses *p, const struct rt_shape *shapes,
                         const struct rt_tensor *feeds, int n_feeds, bool is_proved);

#endif
