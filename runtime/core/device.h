/*
 * A device: where tensors live and kernels run. A small table of functions; the CPU's is in
 * device.c, others come as modules or, in the tests, as a device of their own.
 *
 * `run` of a kernel on an asynchronous device means enqueued; its errors arrive at `sync`.
 * Threads: alloc, free and copies may be called from any thread.
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
    bool is_host; /* tensors are ordinary memory: no copies to and from the CPU */
    void *state;
    /* NULL members mean: as the host does. */
    void *(*alloc)(struct rt_device *d, struct rt_stream *s, size_t bytes); /* NULL: none left */
    void (*free)(struct rt_device *d, struct rt_stream *s, void *p);        /* after s's work */
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
