/*
 * A device is a table of functions for memory in which tensors live, and a name for which kernels
 * are registered. The CPU is in device.c; other devices come as modules, and tests define one.
 *
 * On an asynchronous device a kernel's `run` only enqueues work; `sync` reports its errors.
 * Threads: alloc, free and the copies may be called on any thread.
 */
#ifndef RT_DEVICE_H
#define RT_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

struct rt_stream; /* an ordered queue of work; NULL on the CPU */

struct rt_device {
    const char *type; /* "CPU": kernels name it, device strings of graphs end in "CPU:0" */
    int index;
    bool is_host; /* tensors lie in ordinary memory: no copies from and to the CPU */
    void *state;
    /* A member that is NULL stands for what the host does. */
    void *(*alloc)(struct rt_device *d, struct rt_stream *s, size_t bytes); /* NULL: none left */
    /* frees the memory after the work in s */
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
