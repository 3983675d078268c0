/*
 * Measures in numbers how far two responses of one model differ.
 *
 * Threads: pure functions, any thread.
 */
#ifndef SRV_DIFFERENCE_H
#define SRV_DIFFERENCE_H

#include "runtime/core/tensor.h"

struct srv_difference {
    int64_t n, n_differ; /* number of elements, and of elements whose values differ */
    double largest;      /* largest finite magnitude in the reference */
    /* maximum and mean absolute difference; infinite where unequal elements are not both finite */
    double most, mean;
    /* Along the last axis, when it is longer than 1: number of rows, and of rows whose largest
     * element has the same index in both tensors. `rows` is 0 when there is no such axis. */
    int64_t rows, rows_agree;
};

/* Compares two tensors. INVALID_ARGUMENT: type or shape differ. Elements that are not real numbers,
 * such as strings, count in n_differ only. */
enum rt_status srv_difference(const struct rt_tensor *want, const struct rt_tensor *got,
                              struct srv_difference *out, struct rt_error *err);

#endif
