/*
 * For which lengths of dimensions that a signature leaves open (those behind dimension 0 of the
 * feeds) a plan was proved row by row, and for which not. A proof holds for the lengths that it was
 * made with and for no others, because a plan may do anything with a length, so runs of merged rows
 * ask for theirs. The last RT_ROW_ANALYSES answers are kept: a client that sends ever new lengths
 * makes every merged run prove its own, which takes less than preparing the kernels for them.
 *
 * `shapes`: the signature's, one per feed, dimension 0 and any others open (-1). `feeds` may be
 * NULL where no other is. Threads: none of these calls lock.
 */
#ifndef RT_ROW_ANALYSES_H
#define RT_ROW_ANALYSES_H

#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

enum { RT_ROW_ANALYSES = 32 };
enum rt_row_verdict { RT_ROWS_NOT_ANALYSED, RT_ROWS_INDEPENDENT, RT_ROWS_NOT_INDEPENDENT };

struct rt_row_analyses { /* zeroed at first */
    int64_t *length;     /* RT_ROW_ANALYSES times the open lengths, in order */
    int n, next;         /* next: which is replaced when all are taken */
    bool is_proved[RT_ROW_ANALYSES];
};
void rt_row_analyses_clear(struct rt_row_analyses *p);

/* How many dimensions behind the first are open. */
int rt_count_open(const struct rt_shape *shapes, int n_feeds);
/* Whether the feeds have these shapes, and all the same number of rows. */
bool rt_feeds_have_rows(const struct rt_shape *shapes, const struct rt_tensor *feeds, int n_feeds);
/* The shapes with the feeds' lengths in place of the open ones; dimension 0 stays open. */
void rt_close_shapes(struct rt_shape *out, const struct rt_shape *shapes,
                     const struct rt_tensor *feeds, int n_feeds);

enum rt_row_verdict rt_row_analyses_find(const struct rt_row_analyses *p,
                                         const struct rt_shape *shapes,
                                         const struct rt_tensor *feeds, int n_feeds);
/* False: no memory to keep it. */
bool rt_row_analyses_put(struct rt_row_analyses *p, const struct rt_shape *shapes,
                         const struct rt_tensor *feeds, int n_feeds, bool is_proved);

#endif
