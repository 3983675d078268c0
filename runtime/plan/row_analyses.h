/*
 * The results of a plan's row-wise analyses. The key of a result consists of the lengths of the
 * feed dimensions that are unknown in the signature, except dimension 0. A plan may compute any
 * value from a length, so a result is valid only for the lengths in its key, and a run of merged
 * requests looks up the result for its own lengths. The last RT_ROW_ANALYSES results are kept. If
 * the lengths are different in every merged run, each of these runs analyses the plan again. That
 * takes less time than preparing kernels for the new lengths.
 *
 * `shapes` are the shapes in the signature, one per feed, with -1 for unknown dimensions, including
 * dimension 0. `feeds` may be NULL if only dimension 0 is unknown.
 *
 * Threads: none of these functions acquires a lock.
 */
#ifndef RT_ROW_ANALYSES_H
#define RT_ROW_ANALYSES_H

#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

enum { RT_ROW_ANALYSES = 32 };
enum rt_row_verdict { RT_ROWS_NOT_ANALYSED, RT_ROWS_INDEPENDENT, RT_ROWS_NOT_INDEPENDENT };

struct rt_row_analyses { /* the caller zeroes the struct before its first use */
    /* the lengths of the unknown dimensions for up to RT_ROW_ANALYSES analyses, one group of
     * lengths for each analysis */
    int64_t *length;
    int n, next; /* `next` is the index of the entry to replace when all entries are used */
    bool is_proved[RT_ROW_ANALYSES];
};
void rt_row_analyses_clear(struct rt_row_analyses *p);

/* Returns the number of unknown dimensions, not counting dimension 0. */
int rt_count_open(const struct rt_shape *shapes, int n_feeds);
/* Returns whether the feeds match the given shapes and all have the same number of rows. */
bool rt_feeds_have_rows(const struct rt_shape *shapes, const struct rt_tensor *feeds, int n_feeds);
/* Copies the shapes, and replaces unknown dimensions, except dimension 0, with the dimensions of
 * the feeds. */
void rt_close_shapes(struct rt_shape *out, const struct rt_shape *shapes,
                     const struct rt_tensor *feeds, int n_feeds);

enum rt_row_verdict rt_row_analyses_find(const struct rt_row_analyses *p,
                                         const struct rt_shape *shapes,
                                         const struct rt_tensor *feeds, int n_feeds);
/* Stores a result. Returns false if memory runs out. */
bool rt_row_analyses_put(struct rt_row_analyses *p, const struct rt_shape *shapes,
                         const struct rt_tensor *feeds, int n_feeds, bool is_proved);

#endif
