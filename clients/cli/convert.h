/* Converts tensors to another data type, if every value can be represented in it. Threads: pure. */
#ifndef CL_CONVERT_H
#define CL_CONVERT_H

#include "clients/c/slipway_client.h"
#include "runtime/base/arena.h"

/*
 * Converts numbers and booleans to the type `dtype`. Reals are rounded to other real types.
 * Integers must be in the range of the type, and reals must be whole numbers to become integers.
 * INVALID_ARGUMENT names the value that cannot be converted. A tensor that has the type already
 * stays unchanged.
 */
enum rt_status cl_convert(struct slipway_tensor *t, int dtype, struct rt_arena *arena,
                          struct rt_error *err);

/* Reads one value as a real. Integers beyond 2^53 are rounded. */
double cl_get_real(int dtype, const void *p);
/* Writes `v` as one value. False: the type cannot represent `v`. */
bool cl_set_real(int dtype, void *p, double v);
bool cl_set_integer(int dtype, void *p, int64_t v);
bool cl_is_real(int dtype);
bool cl_is_integer(int dtype); /* false for booleans */

#endif
