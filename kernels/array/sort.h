/* Sorts large arrays, and checks the deadline at intervals. */
#ifndef KN_ARRAY_SORT_H
#define KN_ARRAY_SORT_H

#include "runtime/core/op.h"

/*
 * The number of elements that are sorted without a deadline check. Sorting them takes a few
 * milliseconds.
 */
enum { KN_SORT_RUN = 1 << 14 };

/*
 * Sorts like qsort, with deadline checks in between. The order of equal elements is unspecified.
 * More than KN_SORT_RUN elements need a second array of the same size, which counts towards the
 * run's memory limit. Fails if the run has been cancelled, or has exceeded its deadline or its
 * memory limit. Elements of the array may then be lost or duplicated.
 */
enum rt_status kn_sort(struct rt_run *r, void *base, int64_t n, size_t size,
                       int (*compare)(const void *a, const void *b));

#endif
