/* Prepares and frees the resources of an accelerator (device.h). */
#include "runtime/core/device.h"

#include <stdlib.h>

#include "runtime/core/buffer.h"
#include "runtime/core/device/device_memory.h"
#include "runtime/core/device/device_stream.h"

bool rt_device_begin(struct rt_device *d, size_t limit)
{
    if (!rt_device_budget_begin(d, limit))
        return false;
    if (rt_device_streams_begin(d))
        return true;
    rt_device_budget_end(d);
    return false;
}

void rt_device_end(struct rt_device *d)
{
    rt_device_streams_end(d);
    rt_device_budget_end(d);
}

void rt_device_fail(struct rt_device *d, const char *reason)
{
    if (!atomic_exchange(&d->has_failed, true) && d->on_failure)
        d->on_failure(d, reason, d->on_failure_arg);
}

/* The list keeps the buffers reachable, so that they are not reported as leaks. */
struct rt_kept_buffer {
    struct rt_kept_buffer *next;
    struct rt_buffer *buffer;
};

void rt_device_keep(struct rt_device *d, struct rt_buffer *b)
{
    struct rt_kept_buffer *k = malloc(sizeof *k);
    rt_buffer_ref(b);
    if (!k)
        return;
    *k = (struct rt_kept_buffer){.next = atomic_load(&d->kept), .buffer = b};
    while (!atomic_compare_exchange_weak(&d->kept, &k->next, k))
        ;
}
