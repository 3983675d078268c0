#include "server/budget.h"

bool srv_budget_take(struct srv_budget *b, size_t *own, size_t bytes)
{
    if (bytes > (size_t)b->limit) /* and so is an int64_t, whose sum with others is one */
        return false;
    int64_t n = (int64_t)bytes;
    if (atomic_fetch_add_explicit(&b->held, n, memory_order_relaxed) + n > b->limit) {
        atomic_fetch_sub_explicit(&b->held, n, memory_order_relaxed);
        return false;
    }
    *own += bytes;
    return true;
}

void srv_budget_give(struct srv_budget *b, size_t *own, size_t bytes)
{
    if (bytes)
        atomic_fetch_sub_explicit(&b->held, (int64_t)bytes, memory_order_relaxed);
    *own -= bytes;
}

size_t srv_budget_left(const struct srv_budget *b)
{
    int64_t left = b->limit - atomic_load_explicit(&b->held, memory_order_relaxed);
    return left > 0 ? (size_t)left : 0;
}

enum rt_status srv_budget_code(const struct srv_budget *b, size_t own, size_t bytes)
{
    size_t limit = (size_t)b->limit;
    return own > limit || bytes > limit - own ? RT_RESOURCE_EXHAUSTED : RT_UNAVAILABLE;
}

enum rt_status srv_budget_refused(const struct srv_budget *b, size_t own, size_t bytes,
                                  const char *what, struct rt_error *err)
{
    if (srv_budget_code(b, own, bytes) == RT_RESOURCE_EXHAUSTED)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                       "%s is larger than --max_bytes_in_flight, %lld bytes, allows: it takes at "
                       "least %zu with what the request holds",
                       what, (long long)b->limit, own + bytes);
    return rt_fail(err, RT_UNAVAILABLE,
                   "%s does not fit beside the requests in flight, %lld bytes by "
                   "--max_bytes_in_flight",
                   what, (long long)b->limit);
}

static size_t beyond(size_t room)
{
    return room > SRV_FREE_BYTES ? room - SRV_FREE_BYTES : 0;
}

bool srv_growth_take(void *arg, size_t room, size_t wanted)
{
    struct srv_growth *g = arg;
    size_t more = beyond(wanted) - beyond(room);
    bool fits = !more || srv_budget_take(g->budget, g->own, more);
    g->refused = fits ? 0 : more;
    return fits;
}

void srv_growth_give(struct srv_growth *g, size_t room)
{
    if (g)
        srv_budget_give(g->budget, g->own, beyond(room));
}

enum rt_status srv_growth_failed(const struct srv_growth *g, size_t bytes, struct rt_error *err)
{
    return g && g->refused ? srv_budget_refused(g->budget, *g->own, g->refused, "the response", err)
                           : rt_fail_memory(err, "a response", bytes);
}
