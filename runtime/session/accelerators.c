#include "runtime/session/accelerators.h"

#include "runtime/core/device/device_ledger.h"
#include "runtime/session/session_internal.h"

void rt_session_end_reservations(struct rt_session *s)
{
    for (int k = 0; k < s->options.accelerators.n; k++)
        rt_device_release(s->options.accelerators.device[k], &s->claim[k]);
}

void rt_session_promise(struct rt_session *s, uint64_t load)
{
    for (int k = 0; k < s->options.accelerators.n; k++)
        rt_device_promise(s->options.accelerators.device[k], &s->claim[k],
                          atomic_load(&s->accelerator_bytes[k]), load);
}
