#include "runtime/core/device/device_ledger.h"

#include "runtime/core/device/device_memory_internal.h"

/* How often a reservation asks the driver again because sessions have allocated memory meanwhile.
 * Afterwards, memory that was allocated meanwhile may count twice. */
enum { MOST_TRIES = 8 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t reserved_bytes(const struct rt_device_budget *b) RT_REQUIRES(b->mu)
{
    int64_t bytes = 0;
    for (const struct rt_device_claim *c = b->claims; c; c = c->next)
        bytes += c->reserved;
    return bytes;
}

static int64_t promised_to(const struct rt_device_budget *b, uint64_t load) RT_REQUIRES(b->mu)
{
    int64_t bytes = 0;
    for (const struct rt_device_claim *c = b->claims; c && load; c = c->next)
        bytes += c->heir == load ? c->promised : 0;
    return bytes;
}

/* Returns how many bytes of the device, which has the budget, are neither used nor reserved. */
static int64_t unreserved_bytes(struct rt_device *d, struct rt_device_budget *b)
    RT_REQUIRES(b->reserving)
{
    int64_t reserved, used, left;
    bool has_changed = true;
    for (int k = 0; k < MOST_TRIES && has_changed; k++) {
        rt_mutex_lock(&b->mu);
        reserved = reserved_bytes(b);
        used = b->counts.used[RT_DEVICE_WEIGHTS];
        rt_mutex_unlock(&b->mu);
        left = rt_device_left(d) - reserved;
        rt_mutex_lock(&b->mu);
        has_changed = reserved != reserved_bytes(b) || used != b->counts.used[RT_DEVICE_WEIGHTS];
        rt_mutex_unlock(&b->mu);
    }
    return left;
}

static void list(struct rt_device_budget *b, struct rt_device_claim *c) RT_REQUIRES(b->mu)
{
    c->is_listed = true;
    c->next = b->claims;
    b->claims = c;
}

enum rt_status rt_device_reserve(struct rt_device *d, struct rt_device_claim *c, uint64_t load,
                                 int64_t bytes, bool *waits, struct rt_error *err)
{
    struct rt_device_budget *b = d->budget;
    rt_mutex_lock(&b->reserving);
    const int64_t left = unreserved_bytes(d, b);
    rt_mutex_lock(&b->mu);
    const int64_t promised = least(promised_to(b, load), bytes), now = bytes - promised;
    const int64_t reserved = reserved_bytes(b);
    *waits = bytes > left && promised && now <= left;
    const bool fits = bytes <= left;
    if (fits || *waits) {
        c->load = load;
        c->reserved = *waits ? now : bytes;
        c->missing = bytes - c->reserved;
        list(b, c);
    }
    rt_mutex_unlock(&b->mu);
    rt_mutex_unlock(&b->reserving);
    if (fits)
        return RT_OK;
    return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                   "%s:%d has no memory for %lld bytes of constants; %lld are left, beside %lld "
                   "that other loads have reserved",
                   d->type, d->index, (long long)bytes, (long long)(left > 0 ? left : 0),
                   (long long)reserved);
}

bool rt_device_claim_is_complete(struct rt_device *d, struct rt_device_claim *c)
{
    struct rt_device_budget *b = d->budget;
    rt_mutex_lock(&b->mu);
    bool is_complete = !c->missing;
    rt_mutex_unlock(&b->mu);
    if (is_complete)
        return true;
    rt_mutex_lock(&b->reserving);
    const int64_t left = unreserved_bytes(d, b);
    rt_mutex_lock(&b->mu);
    is_complete = c->missing <= left;
    if (is_complete) {
        c->reserved += c->missing;
        c->missing = 0;
    }
    rt_mutex_unlock(&b->mu);
    rt_mutex_unlock(&b->reserving);
    return is_complete;
}

void rt_device_release(struct rt_device *d, struct rt_device_claim *c)
{
    rt_mutex_lock(&d->budget->mu);
    if (!c->missing)
        c->reserved = 0;
    rt_mutex_unlock(&d->budget->mu);
}

/* ---- promises ---- */

void rt_device_promise(struct rt_device *d, struct rt_device_claim *c, int64_t bytes, uint64_t load)
{
    rt_mutex_lock(&d->budget->mu);
    if (c->is_listed && !c->heir) {
        c->heir = load;
        c->promised = bytes;
    }
    rt_mutex_unlock(&d->budget->mu);
}

static void end_promises(struct rt_device_budget *b, uint64_t load) RT_REQUIRES(b->mu)
{
    for (struct rt_device_claim *c = b->claims; c; c = c->next)
        if (c->load == load && c->missing) {
            c->has_ended = true;
            return;
        }
    for (struct rt_device_claim *c = b->claims; c; c = c->next)
        if (c->heir == load) {
            c->heir = 0;
            c->promised = 0;
        }
}

void rt_device_end_promises(struct rt_device *d, uint64_t load)
{
    rt_mutex_lock(&d->budget->mu);
    end_promises(d->budget, load);
    rt_mutex_unlock(&d->budget->mu);
}

void rt_device_claim_end(struct rt_device *d, struct rt_device_claim *c)
{
    struct rt_device_budget *b = d->budget;
    if (!c->is_listed)
        return;
    rt_mutex_lock(&b->mu);
    struct rt_device_claim **at = &b->claims;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    if (c->has_ended)
        end_promises(b, c->load);
    *c = (struct rt_device_claim){0};
    rt_mutex_unlock(&b->mu);
}

int64_t rt_device_claim_take(struct rt_device_budget *b, struct rt_device_claim *c, size_t bytes)
{
    (void)b;
    const int64_t taken = least(c->reserved, (int64_t)bytes);
    c->reserved -= taken;
    return taken;
}

void rt_device_claim_freed(struct rt_device_budget *b, struct rt_device_claim *c, size_t bytes)
{
    int64_t freed = least(c->promised, (int64_t)bytes);
    c->promised -= freed;
    for (struct rt_device_claim *heir = b->claims; heir; heir = heir->next)
        if (heir->load == c->heir && heir->missing) {
            freed = least(heir->missing, freed);
            heir->missing -= freed;
            heir->reserved += freed;
            return;
        }
}
