/*
 * Rows picked by index, as the gathers do: indices looked at first, then rows of plain bytes
 * copied.
 */
#ifndef KN_ARRAY_GATHER_ROWS_H
#define KN_ARRAY_GATHER_ROWS_H

#include "runtime/core/op.h"

/* The first element of an integer tensor that is below 0 or not below the limit; -1: none. */
int64_t kn_first_outside(const struct rt_tensor *index, int64_t limit);
/* dst[i] = the row of src that element first + i of the index names, i < n; rows of `bytes`. All
 * indices are inside. *left: as rt_run_spend's. */
enum rt_status kn_gather_rows(struct rt_run *r, const struct rt_tensor *index, int64_t first,
                              int64_t n, const void *src, size_t bytes, void *dst, int64_t *left);

#endif
