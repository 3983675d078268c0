/*
 * Measures how much two responses of a model differ numerically.
 *
 * Threads: the functions are pure, so any thread may call them.
 */
#ifndef SRV_DIFFERENCE_H
#define SRV_DIFFERENCE_H

#include "runtime/core/tensor.h"

struct srv_difference {
    /* number of elements, and number of elements that differ */
    int64_t n, n_differ;
    double largest; /* largest finite magnitude in the reference */
    /* Maximum and mean of the absolute differences. Both are infinite if two elements differ and
     * one of them is not finite. */
    double most, mean;
    /* `rows` is the number of rows along the last axis, or 0 if the axis has fewer than two
     * elements. rows_agree is the number of rows whose largest element has the same index in both
     * tensors. */
    int64_t rows, rows_agree;
};

/* Compares two tensors. Fails with INVALID_ARGUMENT if their types or shapes differ. If the
 * elements are not real numbers, for example strings, only `n` and n_differ are computed. */
enum rt_status srv_difference(const struct rt_tensor *want, const struct rt_tensor *got,
                              struct srv_difference *out, struct rt_error *err);

#endif
