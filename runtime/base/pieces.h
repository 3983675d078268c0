/*
 * Functions that copy or zero memory in pieces, or count the steps of a loop, and call a check at
 * intervals. A failed check stops the operation.
 *
 * Threads: any.
 */
#ifndef RT_BASE_PIECES_H
#define RT_BASE_PIECES_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/check.h"

/* Number of bytes that are copied or zeroed between two checks. Processing them takes about 1 ms,
 * or a few milliseconds in newly allocated memory. */
enum { RT_PIECE_BYTES = 4 << 20 };
/* Number of steps of a loop between two checks. */
enum { RT_TICK_STEPS = 1 << 14 };

/* Copies n bytes between areas that do not overlap. If `check` fails, returns its status. `check`
 * may be NULL. */
enum rt_status rt_copy_pieces(void *dst, const void *src, size_t n, const struct rt_check *check,
                              struct rt_error *err);
/* Sets n bytes to zero. If `check` fails, returns its status. `check` may be NULL. */
enum rt_status rt_zero_pieces(void *dst, size_t n, const struct rt_check *check,
                              struct rt_error *err);
/* Calls `check` every RT_TICK_STEPS iterations of a loop with a small body, but not in the first
 * iteration. `i` is the loop's index. `check` may be NULL. */
static inline enum rt_status rt_check_tick(const struct rt_check *check, uint64_t i,
                                           struct rt_error *err)
{
    return i % RT_TICK_STEPS || !i ? RT_OK : rt_check_call(check, err);
}

#endif
