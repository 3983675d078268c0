/*
 * A device has a name, for which kernels are registered, and functions for the memory of its
 * tensors. The CPU is defined in device.c; other devices are modules, and tests define a device.
 *
 * On an asynchronous device a kernel's `run` only enqueues work, and `sync` reports the errors of
 * that work.
 * Threads: alloc, free and the copy functions may be called on any thread.
 */
#ifndef RT_DEVICE_H
#define RT_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

struct rt_stream; /* an ordered queue of a device's work; NULL on the CPU */

struct rt_device {
    /* type of the device, such as "CPU"; kernels name it, and a graph's device strings end in
     * "CPU:0" */
    const char *type;
    int index;
    /* whether tensors are in host memory, so that nothing is copied to or from the CPU */
    bool is_host;
    void *state;
    /* If one of these functions is NULL, the device behaves like the host in this respect. */
    /* returns device memory, or NULL if there is not enough */
    void *(*alloc)(struct rt_device *d, struct rt_stream *s, size_t bytes);
    /* frees the memory at `p` once the work in stream `s` has ended */
    void (*free)(struct rt_device *d, struct rt_stream *s, void *p);
    enum rt_status (*copy_in)(struct rt_device *d, struct rt_stream *s, void *dst, const void *host,
                              size_t bytes, struct rt_error *err);
    enum rt_status (*copy_out)(struct rt_device *d, struct rt_stream *s, void *host,
                               const void *src, size_t bytes, struct rt_error *err);
    struct rt_stream *(*stream_new)(struct rt_device *d);
    void (*stream_free)(struct rt_device *d, struct rt_stream *s);
    enum rt_status (*sync)(struct rt_device *d, struct rt_stream *s, struct rt_error *err);
};

extern struct rt_device rt_cpu;

#endif
