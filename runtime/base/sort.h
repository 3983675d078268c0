/*
 * Sorts large arrays, and calls a check at intervals.
 *
 * Owner: the caller owns the array and the workspace. Threads: any.
 */
#ifndef RT_BASE_SORT_H
#define RT_BASE_SORT_H

#include <stddef.h>

#include "runtime/base/check.h"

/* The number of elements that are sorted or merged between two checks. Sorting or merging this
 * number of elements takes a few milliseconds. */
enum { RT_SORT_RUN = 1 << 14 };

/*
 * Sorts like qsort, but calls `check` after every RT_SORT_RUN elements. `check` may be NULL. The
 * order of equal elements is unspecified. `workspace` has the size of the array; it may be NULL if
 * n is at most RT_SORT_RUN. If the check fails, returns its status; elements of the array may then
 * be lost or duplicated.
 */
enum rt_status rt_sort(void *base, void *workspace, size_t n, size_t size,
                       int (*compare)(const void *a, const void *b), const struct rt_check *check,
                       struct rt_error *err);
/* Sorts as rt_sort does, but allocates the workspace. `what` names the array in the error message
 * if memory runs out. */
enum rt_status rt_sort_alloc(void *base, size_t n, size_t size,
                             int (*compare)(const void *a, const void *b), const char *what,
                             const struct rt_check *check, struct rt_error *err);

#endif
