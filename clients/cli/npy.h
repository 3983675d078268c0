/*
 * NumPy's files: .npy, one array; .npz, a zip of them, stored or deflated. Numbers of either byte
 * order and in either order of dimensions, booleans, and strings of fixed length (bytes, or text,
 * which becomes UTF-8). Pickled objects are refused.
 *
 * Pure: from bytes to tensors in the caller's arena, whose cap bounds what they may take. What a
 * file claims is compared with the bytes that are there first.
 */
#ifndef CL_NPY_H
#define CL_NPY_H

#include "clients/c/slipway_client.h"
#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "runtime/base/span.h"

bool cl_is_npy(struct rt_span file);
bool cl_is_npz(struct rt_span file);

/* out->name is left as it is. INVALID_ARGUMENT: not such a file, and why. */
enum rt_status cl_npy_read(struct rt_span file, struct rt_arena *arena, struct slipway_tensor *out,
                           struct rt_error *err);
/* Each array under its name in the archive, without ".npy". `max_bytes`: of all, inflated. */
enum rt_status cl_npz_read(struct rt_span file, size_t max_bytes, struct rt_arena *arena,
                           struct slipway_tensor **out, int *n, struct rt_error *err);

/* Appends the file. bfloat16 becomes float32; strings become the bytes of the longest. */
enum rt_status cl_npy_write(struct rt_bytes *out, const struct slipway_tensor *t,
                            struct rt_error *err);

#endif
