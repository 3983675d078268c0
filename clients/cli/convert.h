/* Converts the elements of tensors to a different data type. Threads: pure functions. */
#ifndef CL_CONVERT_H
#define CL_CONVERT_H

#include "clients/c/slipway_client.h"
#include "runtime/base/arena.h"

/*
 * Converts numbers and booleans to the type `dtype`. Conversion to a floating-point type rounds.
 * Integers must be in the range of the type. Floating-point values must be integral to become
 * integers. If a value cannot be converted, fails with INVALID_ARGUMENT, and the error names the
 * value. A tensor that already has the type stays unchanged.
 */
enum rt_status cl_convert(struct slipway_tensor *t, int dtype, struct rt_arena *arena,
                          struct rt_error *err);

/* Returns one element of a tensor as a double. An integer whose magnitude exceeds 2^53 may
 * be rounded. */
double cl_get_real(int dtype, const void *p);
/* Writes `v` as an element of a tensor. Returns false if the tensor's type cannot represent `v`. */
bool cl_set_real(int dtype, void *p, double v);
bool cl_set_integer(int dtype, void *p, int64_t v);
bool cl_is_real(int dtype);
bool cl_is_integer(int dtype); /* false for booleans */

#endif
