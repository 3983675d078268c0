/*
 * Helpers for operations on much memory or many elements that a check may end: copies and zeroes
 * memory in pieces, and counts the steps of a loop.
 *
 * Threads: any; the functions keep no state.
 */
#ifndef RT_BASE_PIECES_H
#define RT_BASE_PIECES_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/check.h"

/* Number of bytes that are copied or zeroed between two checks. It takes about 1 ms, or some
 * milliseconds if the memory is fresh. */
enum { RT_PIECE_BYTES = 4 << 20 };
/* Number of steps of a loop between two checks. */
enum { RT_TICK_STEPS = 1 << 14 };

/* Copies n bytes between areas that do not overlap. If `check`, which may be NULL, fails, returns
 * its status. */
enum rt_status rt_copy_pieces(void *dst, const void *src, size_t n, const struct rt_check *check,
                              struct rt_error *err);
/* Sets n bytes to zero. If `check`, which may be NULL, fails, returns its status. */
enum rt_status rt_zero_pieces(void *dst, size_t n, const struct rt_check *check,
                              struct rt_error *err);
/* Calls `check`, which may be NULL, if `i`, the index of a loop with a small body, is a multiple of
 * RT_TICK_STEPS other than 0. */
static inline enum rt_status rt_check_tick(const struct rt_check *check, uint64_t i,
                                           struct rt_error *err)
{
    return i % RT_TICK_STEPS || !i ? RT_OK : rt_check_call(check, err);
}

#endif
