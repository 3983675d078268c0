/* Sorts large arrays during a run, and checks the deadline at intervals. */
#ifndef KN_ARRAY_SORT_H
#define KN_ARRAY_SORT_H

#include "runtime/core/op.h"

/*
 * Sorts as rt_sort (runtime/base/sort.h) does, and checks the run's cancellation and deadline at
 * intervals. A large array needs a workspace, which counts against the run's memory limit. Fails if
 * the run has been cancelled, or has exceeded its deadline or its memory limit. Elements of the
 * array may then be lost or duplicated.
 */
enum rt_status kn_sort(struct rt_run *r, void *base, int64_t n, size_t size,
                       int (*compare)(const void *a, const void *b));

#endif
