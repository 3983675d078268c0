/* Reserves the accelerators' memory for the constants of a session (session/accelerators.h). */
#include "runtime/api/callable.h"
#include "runtime/core/device/device_ledger.h"
#include "runtime/session/session_internal.h"

/* Returns the size of the constants that the plans read on accelerators. Plans share constants. */
static int64_t constant_bytes(struct rt_session *s)
{
    struct rt_map seen;
    int64_t bytes = 0;
    rt_map_init(&seen);
    rt_mutex_lock(&s->mu);
    for (size_t i = 0; i < s->callables.n; i++)
        rt_callable_add_constants(s->callables.entry[i].value, &seen, &bytes);
    rt_mutex_unlock(&s->mu);
    rt_map_clear(&seen);
    return bytes;
}

bool rt_session_reserve(struct rt_session *s, rt_no_room *no_room, void *arg)
{
    struct rt_session_accelerators *all = &s->options.accelerators;
    const int64_t bytes = all->n ? constant_bytes(s) : 0;
    const int n = all->n;
    all->n = 0;
    for (int k = 0; k < n && bytes; k++) {
        struct rt_device *d = all->device[k];
        struct rt_error why = {0};
        bool waits = false;
        const enum rt_status st =
            all->limit && (size_t)bytes > all->limit
                ? rt_fail(&why, RT_RESOURCE_EXHAUSTED,
                          "%s:%d: %lld bytes of constants exceed the model's limit of %zu bytes",
                          d->type, d->index, (long long)bytes, all->limit)
                : rt_device_reserve(d, &s->claim[all->n], all->load, bytes, &waits, &why);
        if (st && no_room)
            no_room(arg, waits, &why);
        if (st && !waits)
            continue;
        all->waits |= (uint32_t)waits << all->n;
        all->device[all->n++] = d;
    }
    if (!bytes)
        all->n = n;
    for (int k = all->n; k < n; k++)
        all->device[k] = NULL;
    if (all->n || !n)
        return false;
    atomic_fetch_add(&s->generation, 1);
    return true;
}
