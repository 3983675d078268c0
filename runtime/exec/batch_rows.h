/*
 * What the ops that batch have in common: the checks of a batch's tensors, and the rows that pad a
 * batch to an allowed size. BatchFunction (exec_rows.c) and the kernels of Batch use it.
 *
 * Threads: any; the functions are pure, except for the memory that they fill.
 */
#ifndef RT_BATCH_ROWS_H
#define RT_BATCH_ROWS_H

#include "runtime/base/check.h"
#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

/* Checks that the attribute allowed_batch_sizes is sorted. */
enum rt_status rt_batch_check_sizes(const struct rt_attr *allowed, struct rt_error *err);
/* Checks that the n tensors have as many rows as each other, and at most `most` rows if `most` is
 * positive. */
enum rt_status rt_batch_check_rows(const struct rt_tensor *in, int n, int64_t most,
                                   struct rt_error *err);
/* Returns the smallest allowed batch size that is at least n, or n if there is none. */
int64_t rt_batch_padded_size(const struct rt_attr *allowed, int64_t n);
/* Returns the number of elements of a row. */
int64_t rt_batch_row_elements(const struct rt_tensor *t);
/* Fills `to`, which has at least as many rows as `rows`, with the rows of `rows` and then with
 * copies of its first row. */
enum rt_status rt_batch_pad(const struct rt_tensor *to, const struct rt_tensor *rows,
                            const struct rt_check *check, struct rt_error *err);

#endif
