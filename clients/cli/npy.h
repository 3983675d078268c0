/*
 * Reads and writes NumPy's file formats: .npy, which contains one array, and .npz, a zip archive of
 * arrays. Entries of the archive may be stored or deflated. Arrays may be in row-major or
 * column-major order. Elements may be numbers in either byte order, booleans, or strings of fixed
 * length. Byte strings are copied, and Unicode strings are converted to UTF-8. Pickled objects are
 * not supported.
 *
 * Threads: the functions are pure. Tensors are allocated in the caller's arena, whose maximum size
 * limits their memory. Before memory is allocated for a size from a file, the size is compared with
 * the length of the file.
 */
#ifndef CL_NPY_H
#define CL_NPY_H

#include "clients/c/slipway_client.h"
#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "runtime/base/span.h"

bool cl_is_npy(struct rt_span file);
bool cl_is_npz(struct rt_span file);

/* Reads a .npy file, and leaves out->name unchanged. Fails with INVALID_ARGUMENT and the reason if
 * the file is not a supported .npy file. */
enum rt_status cl_npy_read(struct rt_span file, struct rt_arena *arena, struct slipway_tensor *out,
                           struct rt_error *err);
/* Reads each array of an .npz archive as a tensor. The tensor has the name of the archive's entry,
 * without ".npy". `max_bytes` limits the total size of all inflated arrays. */
enum rt_status cl_npz_read(struct rt_span file, size_t max_bytes, struct rt_arena *arena,
                           struct slipway_tensor **out, int *n, struct rt_error *err);

/* Appends a tensor to *out as a .npy file. bfloat16 becomes float32. Strings become byte strings,
 * padded to the length of the longest string. */
enum rt_status cl_npy_write(struct rt_bytes *out, const struct slipway_tensor *t,
                            struct rt_error *err);

#endif
