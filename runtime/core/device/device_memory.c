/* Implements the accounts and the cache of an accelerator's memory (device_memory.h). */
#include "runtime/core/device/device_memory.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/core/device/device_memory_internal.h"

#define MOST_CACHED ((int64_t)64 << 20)

bool rt_device_budget_begin(struct rt_device *d, size_t limit)
{
    d->budget = calloc(1, sizeof *d->budget);
    if (!d->budget)
        return false;
    rt_mutex_init(&d->budget->mu);
    rt_mutex_init(&d->budget->reserving);
    d->budget->counts.limit = limit && limit < INT64_MAX ? (int64_t)limit : INT64_MAX;
    return true;
}

void rt_device_budget_end(struct rt_device *d)
{
    rt_device_trim(d);
    rt_mutex_clear(&d->budget->reserving);
    rt_mutex_clear(&d->budget->mu);
    free(d->budget);
    d->budget = NULL;
}

struct rt_device_counts rt_device_counts(struct rt_device *d)
{
    rt_mutex_lock(&d->budget->mu);
    const struct rt_device_counts counts = d->budget->counts;
    rt_mutex_unlock(&d->budget->mu);
    return counts;
}

int64_t rt_device_left(struct rt_device *d)
{
    struct rt_device_sensors sensors = {-1, -1, -1, -1};
    const struct rt_device_counts c = rt_device_counts(d);
    int64_t left = c.limit;
    for (int k = 0; k < RT_DEVICE_USES; k++)
        left -= c.used[k];
    if (d->sense)
        d->sense(d, &sensors);
    return sensors.free_bytes >= 0 && sensors.free_bytes + c.cached < left
               ? sensors.free_bytes + c.cached
               : left;
}

bool rt_device_blocks_fit(struct rt_device *d, size_t bytes)
{
    const struct rt_device_counts c = rt_device_counts(d);

    return bytes <= (size_t)(c.limit - c.used[RT_DEVICE_WEIGHTS]) / (size_t)d->n_streams;
}

/* Returns the size class of *bytes, and rounds *bytes up to the size of the class. */
static int class_of(size_t *bytes)
{
    int bits = LEAST_BITS;
    if (*bytes <= (size_t)1 << LEAST_BITS) {
        *bytes = (size_t)1 << LEAST_BITS;
        return 0;
    }
    while (bits < 62 && *bytes > (size_t)2 << bits)
        bits++;
    const size_t step = ((size_t)1 << bits) / STEPS;
    const size_t n = (*bytes - ((size_t)1 << bits) + step - 1) / step;
    *bytes = ((size_t)1 << bits) + n * step;
    return (bits - LEAST_BITS) * STEPS + (int)n;
}

static int64_t total(const struct rt_device_counts *c)
{
    int64_t bytes = c->cached;
    for (int k = 0; k < RT_DEVICE_USES; k++)
        bytes += c->used[k];
    return bytes;
}

/* Takes memory of a size class from the cache. Returns NULL if there is none. */
static void *take_cached(struct rt_device_budget *b, int class, size_t bytes)
{
    rt_mutex_lock(&b->mu);
    struct cached *c = b->cached[class];
    if (c) {
        b->cached[class] = c->next;
        b->counts.cached -= (int64_t)bytes;
        b->counts.used[RT_DEVICE_TENSORS] += (int64_t)bytes;
    }
    rt_mutex_unlock(&b->mu);
    void *address = c ? c->address : NULL;
    free(c);
    return address;
}

/* What memory is for: its use, and the claim of its session in the ledger, or NULL. */
struct purpose {
    enum rt_device_use use;
    struct rt_device_claim *claim;
};

/* Adds `bytes` to the number of bytes counted for the use. Returns false if the limit on the sum of
 * all counts would be exceeded. */
static bool charge(struct rt_device_budget *b, enum rt_device_use use, size_t bytes)
    RT_REQUIRES(b->mu)
{
    const bool fits = bytes <= (size_t)(b->counts.limit - total(&b->counts));
    if (fits)
        b->counts.used[use] += (int64_t)bytes;
    return fits;
}

static void *alloc_counted(struct rt_device *d, struct purpose p, size_t bytes)
{
    struct rt_device_budget *b = d->budget;
    int64_t reserved = 0;
    rt_mutex_lock(&b->mu);
    const bool fits = charge(b, p.use, bytes);
    if (fits && p.claim)
        reserved = rt_device_claim_take(b, p.claim, bytes);
    rt_mutex_unlock(&b->mu);
    void *address = fits ? d->alloc(d, bytes) : NULL;
    if (address || !fits)
        return address;
    rt_mutex_lock(&b->mu);
    b->counts.used[p.use] -= (int64_t)bytes;
    if (p.claim)
        p.claim->reserved += reserved;
    rt_mutex_unlock(&b->mu);
    return NULL;
}

static void discharge(struct rt_device_budget *b, struct purpose p, size_t bytes)
{
    rt_mutex_lock(&b->mu);
    b->counts.used[p.use] -= (int64_t)bytes;
    if (p.claim)
        rt_device_claim_freed(b, p.claim, bytes);
    rt_mutex_unlock(&b->mu);
}

static enum rt_status alloc_for(struct rt_device *d, struct purpose p, size_t bytes,
                                const char *what, struct rt_device_memory *out,
                                struct rt_error *err)
{
    const size_t asked = bytes;
    void *address = NULL;
    if (bytes > INT64_MAX / 2) {
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "%s:%d has no memory for %zu bytes of %s",
                       d->type, d->index, asked, what);
    }
    if (p.use == RT_DEVICE_TENSORS) {
        const int class = class_of(&bytes);
        address = take_cached(d->budget, class, bytes);
    }
    if (!address)
        address = alloc_counted(d, p, bytes ? bytes : 1);
    if (!address) {
        rt_device_trim(d);
        address = alloc_counted(d, p, bytes ? bytes : 1);
    }
    if (!address) {
        const struct rt_device_counts counts = rt_device_counts(d);
        if (counts.limit == INT64_MAX)
            return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                           "%s:%d has no memory for %zu bytes of %s; %lld bytes are in use",
                           d->type, d->index, asked, what, (long long)total(&counts));
        return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                       "%s:%d has no memory for %zu bytes of %s; %lld of %lld bytes are in use",
                       d->type, d->index, asked, what, (long long)total(&counts),
                       (long long)counts.limit);
    }
    *out = (struct rt_device_memory){address, bytes ? bytes : 1};
    return RT_OK;
}

enum rt_status rt_device_alloc(struct rt_device *d, enum rt_device_use use, size_t bytes,
                               const char *what, struct rt_device_memory *out, struct rt_error *err)
{
    return alloc_for(d, (struct purpose){use, NULL}, bytes, what, out, err);
}

enum rt_status rt_device_alloc_constant(struct rt_device *d, struct rt_device_claim *c,
                                        size_t bytes, const char *what,
                                        struct rt_device_memory *out, struct rt_error *err)
{
    return alloc_for(d, (struct purpose){RT_DEVICE_WEIGHTS, c}, bytes, what, out, err);
}

/* Puts a tensor's memory into the cache. Returns false if the cache is full. */
static bool put_cached(struct rt_device_budget *b, const struct rt_device_memory *m)
{
    size_t bytes = m->bytes;
    const int class = class_of(&bytes);
    struct cached *c = malloc(sizeof *c);
    if (!c)
        return false;
    rt_mutex_lock(&b->mu);
    const bool fits = b->counts.cached + (int64_t)m->bytes <= MOST_CACHED;
    if (fits) {
        *c = (struct cached){b->cached[class], m->address};
        b->cached[class] = c;
        b->counts.cached += (int64_t)m->bytes;
        b->counts.used[RT_DEVICE_TENSORS] -= (int64_t)m->bytes;
    }
    rt_mutex_unlock(&b->mu);
    if (!fits)
        free(c);
    return fits;
}

static void free_for(struct rt_device *d, struct purpose p, struct rt_device_memory *m)
{
    if (!m->address)
        return;
    if (p.use != RT_DEVICE_TENSORS || !put_cached(d->budget, m)) {
        d->free(d, m->address);
        discharge(d->budget, p, m->bytes);
    }
    m->address = NULL;
    m->bytes = 0;
}

void rt_device_free(struct rt_device *d, enum rt_device_use use, struct rt_device_memory *m)
{
    free_for(d, (struct purpose){use, NULL}, m);
}

void rt_device_free_constant(struct rt_device *d, struct rt_device_claim *c,
                             struct rt_device_memory *m)
{
    free_for(d, (struct purpose){RT_DEVICE_WEIGHTS, c}, m);
}

void rt_device_trim(struct rt_device *d)
{
    struct rt_device_budget *b = d->budget;
    struct cached *all[N_CLASSES];
    rt_mutex_lock(&b->mu);
    memcpy(all, b->cached, sizeof all);
    memset(b->cached, 0, sizeof b->cached);
    const int64_t bytes = b->counts.cached;
    rt_mutex_unlock(&b->mu);
    for (int k = 0; k < N_CLASSES; k++)
        for (struct cached *c = all[k], *next; c; c = next) {
            next = c->next;
            d->free(d, c->address);
            free(c);
        }
    rt_mutex_lock(&b->mu);
    b->counts.cached -= bytes;
    rt_mutex_unlock(&b->mu);
}
