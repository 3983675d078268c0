/*
 * Checks the slices in which a checkpoint stores one tensor. Slices that do not overlap, and whose
 * elements are as many as those of the tensor, hold each element of the tensor exactly once.
 */
#ifndef RT_SLICE_SET_H
#define RT_SLICE_SET_H

#include "runtime/core/slice.h"

/*
 * Returns RT_INTERNAL, with TensorFlow's message, unless each of the n slices lies inside the
 * tensor, and no two slices overlap. Each slice must have the tensor's rank. In a dimension that
 * one of two slices covers completely, the two overlap even if the other is empty there, as in
 * TensorFlow. Calls `check` regularly, and returns its status if it fails. `check` may be NULL.
 * Needs RT_SLICE_SET_BYTES bytes of memory for each slice. The time is proportional to n log n if
 * the slices divide one dimension, and to the square of n at worst.
 */
enum { RT_SLICE_SET_BYTES = 48 };
enum rt_status rt_slice_set_check(const struct rt_slice *slices, size_t n, int rank,
                                  const int64_t *dim, const struct rt_check *check,
                                  struct rt_error *err);

#endif
