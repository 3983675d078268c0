/* Prepares and frees the resources of an accelerator (device.h). */
#include "runtime/core/device.h"

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
