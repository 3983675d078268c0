/* Sorting of large arrays, in a run that may have to end early. */
#ifndef KN_ARRAY_SORT_H
#define KN_ARRAY_SORT_H

#include "runtime/core/op.h"

/*
 * The number of elements that are sorted without checking the run, which takes a few milliseconds.
 */
enum { KN_SORT_RUN = 1 << 14 };

/*
 * Sorts as qsort does, but equal elements may come in any order, and the run is checked now and
 * then. More than KN_SORT_RUN elements need a second array of the same size, which counts as the
 * run's memory. Not RT_OK: the run should end, or its memory is at its limit; the elements are then
 * no permutation of the original ones.
 */
enum rt_status kn_sort(struct rt_run *r, void *base, int64_t n, size_t size,
                       int (*compare)(const void *a, const void *b));

#endif
