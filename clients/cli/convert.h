/* Tensors of one type as another, when every value has one there. Threads: pure. */
#ifndef CL_CONVERT_H
#define CL_CONVERT_H

#include "clients/c/slipway_client.h"
#include "runtime/base/arena.h"

/*
 * Numbers and booleans only. Reals become other reals by rounding; integers become others of their
 * range, reals only when they are whole. INVALID_ARGUMENT names the value that has no other form.
 * Nothing is done when the type is already that.
 */
enum rt_status cl_convert(struct slipway_tensor *t, int dtype, struct rt_arena *arena,
                          struct rt_error *err);

/* One value, to a real and back. Integers beyond 2^53 are rounded. */
double cl_get_real(int dtype, const void *p);
/* False: `v` has no form in that type. */
bool cl_set_real(int dtype, void *p, double v);
bool cl_set_integer(int dtype, void *p, int64_t v);
bool cl_is_real(int dtype);
bool cl_is_integer(int dtype); /* booleans are none */

#endif
