#include "server/base/budget.h"

/* Returns the limit on the bytes that all requests together may hold after a charge. `own` is the
 * number of bytes that the charged request then holds. */
static int64_t limit_for(const struct srv_budget *b, size_t own)
{
    enum { MEBI = 1 << 20, RESERVE_PART = 16 };
    return own > SRV_SMALL_BYTES ? b->limit - b->limit / RESERVE_PART / MEBI * MEBI : b->limit;
}

bool srv_budget_take(struct srv_budget *b, size_t *own, size_t bytes)
{
    if (bytes > (size_t)b->limit) /* ensures that `bytes` fits into an int64_t */
        return false;
    int64_t n = (int64_t)bytes;
    if (atomic_fetch_add_explicit(&b->held, n, memory_order_relaxed) + n >
        limit_for(b, *own + bytes)) {
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
    const int64_t held = atomic_load_explicit(&b->held, memory_order_relaxed);
    const int64_t large = limit_for(b, SIZE_MAX) - held;
    int64_t left = b->limit - held;

    if (left > SRV_SMALL_BYTES)
        left = large > SRV_SMALL_BYTES ? large : SRV_SMALL_BYTES;
    return left > 0 ? (size_t)left : 0;
}

enum rt_status srv_budget_code(const struct srv_budget *b, size_t own, size_t bytes)
{
    const size_t limit = (size_t)limit_for(b, bytes > SIZE_MAX - own ? SIZE_MAX : own + bytes);
    return own > limit || bytes > limit - own ? RT_RESOURCE_EXHAUSTED : RT_UNAVAILABLE;
}

enum rt_status srv_budget_refused(const struct srv_budget *b, size_t own, size_t bytes,
                                  const char *what, struct rt_error *err)
{
    if (srv_budget_code(b, own, bytes) == RT_RESOURCE_EXHAUSTED)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                       "%s is larger than --max_bytes_in_flight, %lld bytes, allows: it takes at "
                       "least %zu with what the request holds",
                       what, (long long)limit_for(b, SIZE_MAX), own + bytes);
    return rt_fail(err, RT_UNAVAILABLE,
                   "%s does not fit beside the requests in flight, %lld bytes by "
                   "--max_bytes_in_flight",
                   what, (long long)b->limit);
}

enum rt_status srv_name_arena_limit(struct rt_arena *arena, size_t limit, const char *what,
                                    enum rt_status code, struct rt_error *err)
{
    if (code != RT_RESOURCE_EXHAUSTED || !rt_arena_was_full(arena))
        return code;
    return rt_fail(err, code,
                   "the request takes more memory beside its tensors, for names and other fields, "
                   "than the %zu MiB that %s may take",
                   limit >> 20, what);
}

static bool charge(struct srv_allowance *allowance, size_t bytes)
{
    if (allowance->budget && !srv_budget_take(allowance->budget, allowance->own, bytes))
        return false;
    allowance->charged += bytes;
    return true;
}

enum rt_status srv_allowance_take(struct srv_allowance *allowance, size_t bytes,
                                  struct rt_error *err)
{
    const size_t ahead = allowance->charged - allowance->taken;

    if (bytes > ahead) {
        const size_t need = bytes - ahead;
        const size_t step = allowance->taken < SRV_SMALL_BYTES ? allowance->taken : SRV_SMALL_BYTES;
        if (!(step > need && charge(allowance, step)) && !charge(allowance, need))
            return srv_budget_refused(allowance->budget, *allowance->own, need, allowance->what,
                                      err);
    }
    allowance->taken += bytes;
    allowance->left -= bytes;
    return RT_OK;
}

void srv_allowance_give(struct srv_allowance *allowance, size_t bytes)
{
    if (allowance->budget)
        srv_budget_give(allowance->budget, allowance->own, bytes);
    allowance->charged -= bytes;
    allowance->taken -= bytes;
    allowance->left += bytes;
}

enum rt_status srv_allowance_settle(struct srv_allowance *allowance, size_t bytes,
                                    struct rt_error *err)
{
    if (bytes > allowance->charged && !charge(allowance, bytes - allowance->charged))
        return srv_budget_refused(allowance->budget, *allowance->own, bytes - allowance->charged,
                                  allowance->what, err);
    allowance->taken = bytes;
    if (allowance->charged > bytes && allowance->budget)
        srv_budget_give(allowance->budget, allowance->own, allowance->charged - bytes);
    allowance->charged = bytes;
    return RT_OK;
}

enum rt_status srv_growth_take(struct srv_growth *g, size_t bytes, struct rt_error *err)
{
    enum rt_status st = g ? srv_cancellation_status(&g->cancellation, err) : RT_OK;
    const size_t more = bytes > SRV_FREE_BYTES ? bytes - SRV_FREE_BYTES : 0;

    if (st)
        return st;
    if (bytes > SRV_MESSAGE_MOST)
        return rt_fail(
            err, RT_RESOURCE_EXHAUSTED,
            "the response takes more than %d bytes, the most that a protobuf message may",
            SRV_MESSAGE_MOST);
    if (g && more && !srv_budget_take(g->budget, g->own, more))
        return srv_budget_refused(g->budget, *g->own, more, "the response", err);
    return RT_OK;
}

enum rt_status srv_growth_failed(const struct srv_growth *g, size_t bytes, struct rt_error *err)
{
    enum rt_status st = g ? srv_cancellation_status(&g->cancellation, err) : RT_OK;
    return st ? st : rt_fail_memory(err, "a response", bytes);
}

enum rt_status srv_growth_open(struct srv_growth *g, struct rt_bytes *b, size_t bytes,
                               struct rt_error *err)
{
    enum rt_status st = srv_growth_take(g, bytes, err);

    rt_bytes_init(b, SRV_MESSAGE_MOST);
    return st || rt_bytes_reserve(b, bytes) ? st : srv_growth_failed(g, bytes, err);
}

enum rt_status srv_growth_close(const struct srv_growth *g, struct rt_bytes *b, unsigned char **out,
                                size_t *n, struct rt_error *err)
{
    const bool failed = b->failed || (g && g->cancellation.over);
    const size_t bytes = b->n;

    *out = failed ? NULL : (unsigned char *)rt_bytes_take(b, n);
    rt_bytes_clear(b);
    return failed ? srv_growth_failed(g, bytes, err) : RT_OK;
}
