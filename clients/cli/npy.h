/*
 * Reads and writes NumPy's file formats: .npy, which holds one array, and .npz, a zip archive of
 * stored or deflated arrays. Arrays may be in row-major or column-major order. Their elements may
 * be numbers in either byte order, booleans, or strings of fixed length (bytes, or Unicode, which
 * becomes UTF-8). Pickled objects are not supported.
 *
 * Threads: pure functions. Tensors are allocated in the caller's arena, whose maximum size limits
 * their memory. Every size in a file is checked against the length of the file before memory of
 * that size is allocated.
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
/* Reads each array of an .npz archive as a tensor, whose name is that of the archive's entry
 * without ".npy". `max_bytes` limits the total size of all arrays after decompression. */
enum rt_status cl_npz_read(struct rt_span file, size_t max_bytes, struct rt_arena *arena,
                           struct slipway_tensor **out, int *n, struct rt_error *err);

/* Appends a tensor to *out as a .npy file. bfloat16 is written as float32. Strings are written as
 * byte strings, padded to the length of the longest. */
enum rt_status cl_npy_write(struct rt_bytes *out, const struct slipway_tensor *t,
                            struct rt_error *err);

#endif
