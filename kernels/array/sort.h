/* Sorting what may be large, in a run that may have to end. */
#ifndef KN_ARRAY_SORT_H
#define KN_ARRAY_SORT_H

#include "runtime/core/op.h"

/* Elements that are sorted without asking the run: a few milliseconds. */
enum { KN_SORT_RUN = 1 << 14 };

/*
 * As qsort, but equal elements may come in any order and the run is asked now and then. More than
 * KN_SORT_RUN elements take as much memory again, which counts as the run's. Not RT_OK: the run
 * should end, or its limit; the elements are then no permutation of what they were.
 */
enum rt_status kn_sort(struct rt_run *r, void *base, int64_t n, size_t size,
                       int (*compare)(const void *a, const void *b));

#endif
