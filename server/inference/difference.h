/*
 * How far two answers of one model are from each other, in numbers.
 *
 * Threads: pure.
 */
#ifndef SRV_DIFFERENCE_H
#define SRV_DIFFERENCE_H

#include "runtime/core/tensor.h"

struct srv_difference {
    int64_t n, n_differ; /* elements; those that are not the same value */
    double largest;      /* finite magnitude in what is compared with */
    double most, mean;   /* absolute differences; infinite where one alone is no finite number */
    /* Along the last axis, where that is longer than 1: in how many rows the largest element stands
     * at the same place. 0 rows: there is no such axis. */
    int64_t rows, rows_agree;
};

/* INVALID_ARGUMENT: they have not one type and shape. Strings and all that is no number only
 * differ or not. */
enum rt_status srv_difference(const struct rt_tensor *want, const struct rt_tensor *got,
                              struct srv_difference *out, struct rt_error *err);

#endif
