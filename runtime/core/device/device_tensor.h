/*
 * Tensors in the memory of an accelerator. Such a tensor is lazy: when code on the host calls
 * rt_tensor_load, the bytes are copied to the host, once. A region reads the bytes in the
 * accelerator's memory.
 *
 * Owner: the tensor's buffer, which returns the memory to the accelerator. Threads: as in tensor.h.
 */
#ifndef RT_DEVICE_TENSOR_H
#define RT_DEVICE_TENSOR_H

#include "runtime/core/device.h"
#include "runtime/core/tensor.h"

/* Makes a tensor of a plain type in the memory of `d`. Its bytes are undefined. `pool` counts the
 * bytes of a host copy, and may be NULL. A tensor without elements is made in host memory.
 * Overwrites *t. */
enum rt_status rt_device_tensor(struct rt_device *d, struct rt_pool *pool, struct rt_tensor *t,
                                enum rt_dtype dtype, int rank, const int64_t *dim,
                                struct rt_error *err);
/* Makes a tensor of the same type and shape as `from`, with a copy of its bytes in the memory of
 * `d`. The host can still read the bytes of `from` through the tensor. `from` must be loaded and
 * must have a buffer that covers exactly its elements. Overwrites *t. */
enum rt_status rt_device_tensor_copy(struct rt_device *d, struct rt_tensor *t,
                                     const struct rt_tensor *from, struct rt_error *err);
/* Enqueues a copy of the tensor's bytes to the host on stream `stream`. The bytes are read
 * from `from`, an address in the accelerator's memory, and must equal the tensor's bytes there.
 * rt_device_tensor must have made the tensor in the accelerator's memory, and no other thread may
 * use it yet. After the wait for the stream, rt_device_tensor_loaded makes the bytes available to
 * the host. */
enum rt_status rt_device_tensor_enqueue_load(const struct rt_tensor *t, int stream,
                                             const void *from, struct rt_error *err);
void rt_device_tensor_loaded(struct rt_tensor *t);
/* Returns the address of the tensor's bytes in the memory of `d`. Returns NULL if the tensor has no
 * bytes there, or is only a part of a tensor that has bytes there. */
void *rt_device_address(const struct rt_device *d, const struct rt_tensor *t);

#endif
