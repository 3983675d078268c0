/*
 * Reads and writes NumPy's file formats: .npy holds one array, .npz is a zip archive of arrays,
 * stored or deflated. Supported elements are numbers of both byte orders, booleans, and strings of
 * fixed length (bytes, or Unicode, which becomes UTF-8), in row-major or column-major order.
 * Pickled objects are refused.
 *
 * Threads: pure functions. Tensors are allocated in the caller's arena, whose maximum size limits
 * their memory. Before memory is allocated according to a size in a file, the size is compared with
 * the number of bytes in the file.
 */
#ifndef CL_NPY_H
#define CL_NPY_H

#include "clients/c/slipway_client.h"
#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "runtime/base/span.h"

bool cl_is_npy(struct rt_span file);
bool cl_is_npz(struct rt_span file);

/* Reads a .npy file and leaves out->name unchanged. Returns INVALID_ARGUMENT with the reason if the
 * file is not a supported .npy file. */
enum rt_status cl_npy_read(struct rt_span file, struct rt_arena *arena, struct slipway_tensor *out,
                           struct rt_error *err);
/* Reads each array of an .npz archive as a tensor named like the archive's entry without ".npy".
 * `max_bytes` limits the total size of all inflated arrays. */
enum rt_status cl_npz_read(struct rt_span file, size_t max_bytes, struct rt_arena *arena,
                           struct slipway_tensor **out, int *n, struct rt_error *err);

/* Appends a tensor to *out as a .npy file. bfloat16 is written as float32, and strings are written
 * as byte strings of the length of the longest string. */
enum rt_status cl_npy_write(struct rt_bytes *out, const struct slipway_tensor *t,
                            struct rt_error *err);

#endif
