/*
 * Tensors in the memory of a device other than the host (core/device.c).
 *
 * Owner: the tensor's buffer, which returns the memory to the device. Threads: see device.h.
 */
#ifndef RT_DEVICE_TENSOR_H
#define RT_DEVICE_TENSOR_H

#include "runtime/core/device.h"
#include "runtime/core/tensor.h"

/* Makes a tensor in the memory of device `d`. The device must not be the host. */
enum rt_status rt_device_tensor(struct rt_device *d, struct rt_stream *s, struct rt_tensor *t,
                                enum rt_dtype dtype, int rank, const int64_t *dim,
                                struct rt_error *err);

#endif
