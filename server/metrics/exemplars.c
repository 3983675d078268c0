#include "server/metrics/exemplars.h"

#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/thread.h"

struct srv_exemplars {
    struct rt_mutex mu;
    struct srv_exemplar of[]; /* guarded by mu */
};

void srv_exemplars_set(_Atomic(struct srv_exemplars *) *at, int n, int bucket, int64_t value_ns,
                       const struct srv_request_span *s)
{
    struct srv_exemplars *e = atomic_load_explicit(at, memory_order_acquire);

    if (!e) {
        e = calloc(1, sizeof *e + (size_t)n * sizeof *e->of);
        if (!e)
            return;
        rt_mutex_init(&e->mu);
        atomic_store_explicit(at, e, memory_order_release);
    }
    const struct srv_exemplar x = {.context = s->context,
                                   .value_ns = value_ns > 0 ? value_ns : 0,
                                   .at_ms = rt_wall_ns() / 1000000};
    rt_mutex_lock(&e->mu);
    e->of[bucket] = x;
    rt_mutex_unlock(&e->mu);
}

void srv_exemplars_add(struct srv_exemplar *to, int n, const _Atomic(struct srv_exemplars *) *at)
{
    struct srv_exemplars *e = atomic_load_explicit(at, memory_order_acquire);

    if (!e)
        return;
    rt_mutex_lock(&e->mu);
    for (int i = 0; i < n; i++)
        if (e->of[i].at_ms > to[i].at_ms)
            to[i] = e->of[i];
    rt_mutex_unlock(&e->mu);
}

void srv_exemplars_free(_Atomic(struct srv_exemplars *) *at)
{
    struct srv_exemplars *e = atomic_load(at);

    if (e)
        rt_mutex_clear(&e->mu);
    free(e);
    atomic_store(at, NULL);
}
