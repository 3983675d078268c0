/* Gathers, by index, rows whose elements own no memory. kn_first_outside checks the indices, and
 * kn_gather_rows copies the rows. */
#ifndef KN_ARRAY_GATHER_ROWS_H
#define KN_ARRAY_GATHER_ROWS_H

#include "runtime/core/op.h"

/* Returns the position of the first element of an integer tensor that is outside [0, limit), or -1
 * if there is none. */
int64_t kn_first_outside(const struct rt_tensor *index, int64_t limit);
/* Copies row index[first + i] of src to row i of dst, for i < n. A row has `bytes` bytes. All
 * indices must be in bounds. *left counts down to the next deadline check (rt_run_spend). */
enum rt_status kn_gather_rows(struct rt_run *r, const struct rt_tensor *index, int64_t first,
                              int64_t n, const void *src, size_t bytes, void *dst, int64_t *left);

#endif
