/*
 * The results of row-wise analyses of a plan, by the lengths of the dimensions that the signature
 * leaves open behind dimension 0 of the feeds. A result is valid only for the lengths of its
 * analysis, because a plan may compute anything from a length; a run of merged rows therefore looks
 * up its own lengths. The last RT_ROW_ANALYSES results are kept. A client that always sends new
 * lengths makes every merged run analyse the plan again, which takes less time than preparing the
 * kernels for the new lengths.
 *
 * `shapes` are the signature's, one per feed, with dimension 0 and any others open (-1). `feeds`
 * may be NULL if only dimension 0 is open. Threads: none of these calls lock.
 */
#ifndef RT_ROW_ANALYSES_H
#define RT_ROW_ANALYSES_H

#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

enum { RT_ROW_ANALYSES = 32 };
enum rt_row_verdict { RT_ROWS_NOT_ANALYSED, RT_ROWS_INDEPENDENT, RT_ROWS_NOT_INDEPENDENT };

struct rt_row_analyses { /* zeroed before first use */
    int64_t *length;     /* RT_ROW_ANALYSES times the open lengths, in order */
    int n, next;         /* next: the entry to replace when all are used */
    bool is_proved[RT_ROW_ANALYSES];
};
void rt_row_analyses_clear(struct rt_row_analyses *p);

/* The number of open dimensions behind the first. */
int rt_count_open(const struct rt_shape *shapes, int n_feeds);
/* True if the feeds have these shapes, and all have the same number of rows. */
bool rt_feeds_have_rows(const struct rt_shape *shapes, const struct rt_tensor *feeds, int n_feeds);
/* Copies the shapes with the feeds' lengths in place of the open ones; dimension 0 stays open. */
void rt_close_shapes(struct rt_shape *out, const struct rt_shape *shapes,
                     const struct rt_tensor *feeds, int n_feeds);

enum rt_row_verdict rt_row_analyses_find(const struct rt_row_analyses *p,
                                         const struct rt_shape *shapes,
                                         const struct rt_tensor *feeds, int n_feeds);
/* Returns false if there is no memory to keep the result. */
bool rt_row_analyses_put(struct rt_row_analyses *p, const struct rt_shape *shapes,
                         const struct rt_tensor *feeds, int n_feeds, bool is_proved);

#endif
