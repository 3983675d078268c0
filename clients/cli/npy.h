/*
 * NumPy's files: .npy is one array, .npz a zip archive of arrays, stored or deflated. Supported are
 * numbers of both byte orders, row-major and column-major arrays, booleans, and strings of fixed
 * length (bytes, or text, which becomes UTF-8). Pickled objects are refused.
 *
 * Pure: converts bytes to tensors in the caller's arena, whose cap limits their memory. A size that
 * a file claims is first compared with the number of bytes in the file.
 */
#ifndef CL_NPY_H
#define CL_NPY_H

#include "clients/c/slipway_client.h"
#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "runtime/base/span.h"

bool cl_is_npy(struct rt_span file);
bool cl_is_npz(struct rt_span file);

/* out->name stays unchanged. INVALID_ARGUMENT: the file is not a .npy file that can be read, with
 * the reason. */
enum rt_status cl_npy_read(struct rt_span file, struct rt_arena *arena, struct slipway_tensor *out,
                           struct rt_error *err);
/* Reads each array under its name in the archive, without ".npy". `max_bytes` limits all inflated
 * arrays together. */
enum rt_status cl_npz_read(struct rt_span file, size_t max_bytes, struct rt_arena *arena,
                           struct slipway_tensor **out, int *n, struct rt_error *err);

/* Appends a .npy file. bfloat16 becomes float32; strings become bytes of the length of the
 * longest. */
enum rt_status cl_npy_write(struct rt_bytes *out, const struct slipway_tensor *t,
                            struct rt_error *err);

#endif
