/*
 * Finds why the values of a request do not fit their tensor. Error messages are TensorFlow
 * Serving's. All functions are pure.
 */
#ifndef SRV_JSON_REFUSAL_H
#define SRV_JSON_REFUSAL_H

#include "runtime/core/tensor.h"
#include "server/json/json.h"
#include "server/json/json_number.h"

/* Returns whether the number is an integer that a tensor of this integer type accepts. */
bool srv_json_is_integer_of(enum rt_dtype dtype, const struct srv_number *n);

/*
 * Finds the error in a value that has an unexpected shape or type. Makes the checks in TensorFlow
 * Serving's order. `dim` has the `rank` dimensions that are expected, and `level` is 0. Adds to *n
 * the number of values that are not lists. Returns RT_OK if there is no error.
 */
enum rt_status srv_json_explain(struct srv_json v, int level, int rank, const int64_t *dim,
                                enum rt_dtype dtype, int64_t *n, struct rt_error *err);

#endif
