#include "runtime/core/pinned.h"

#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/thread.h"

enum { PAGE = 4096, WAIT_US = 1000 };

struct region {
    void *base;
    size_t bytes;
    bool is_used, is_pinned;
    struct region *next;
};

static struct rt_mutex mu = RT_MUTEX_INIT;
static _Atomic(struct rt_device *) device; /* written under mu */
static atomic_size_t n_regions;            /* written under mu */
static struct region *regions;             /* guarded by mu, most recently freed first */
static size_t most_bytes, n_bytes;         /* guarded by mu */
/* Number of threads that call the driver to lock or unlock pages, guarded by mu. The driver takes
 * milliseconds for large regions, and forever if the accelerator hangs, so no thread calls it under
 * mu. */
static int n_calling;

static struct region **find(const void *base)
{
    struct region **at = &regions;
    while (*at && (*at)->base != base)
        at = &(*at)->next;
    return at;
}

static void insert(struct region *r)
{
    r->next = regions;
    regions = r;
    n_bytes += r->bytes;
    atomic_fetch_add(&n_regions, 1);
}

/* Removes the region from the list. */
static struct region *take_out(struct region **at)
{
    struct region *r = *at;
    *at = r->next;
    n_bytes -= r->bytes;
    atomic_fetch_sub(&n_regions, 1);
    return r;
}

static void unpin(struct rt_device *d, struct region *r)
{
    /* The driver of an accelerator that has failed may never return. */
    if (r->is_pinned && d && !atomic_load(&d->has_failed))
        d->unpin(d, r->base);
    r->is_pinned = false;
}

static void destroy(struct rt_device *d, struct region *r)
{
    unpin(d, r);
    free(r->base);
    free(r);
}

/* Takes an unused region of n bytes, or of at most a quarter more. */
static void *take_idle(size_t n)
{
    for (struct region *r = regions; r; r = r->next)
        if (!r->is_used && r->is_pinned && r->bytes >= n && r->bytes - n <= n / 4) {
            r->is_used = true;
            return r->base;
        }
    return NULL;
}

/* Takes unused regions out of the list until n more bytes are within the limit, and adds them to
 * *gone. Returns false if too many bytes are in use. */
static bool make_room(size_t n, struct region **gone)
{
    if (n > most_bytes)
        return false;
    for (struct region **at = &regions; *at && n_bytes > most_bytes - n;)
        if ((*at)->is_used) {
            at = &(*at)->next;
        } else {
            struct region *r = take_out(at);
            r->next = *gone;
            *gone = r;
        }
    return n_bytes <= most_bytes - n;
}

static void destroy_all(struct rt_device *d, struct region *gone)
{
    for (struct region *next; gone; gone = next) {
        next = gone->next;
        destroy(d, gone);
    }
}

/* Adds a region of n bytes to the list, where its bytes are counted. Its pages are not yet
 * locked. */
static struct region *add(size_t n)
{
    struct region *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    if (posix_memalign(&r->base, PAGE, n)) {
        free(r);
        return NULL;
    }
    r->bytes = n;
    r->is_used = true;
    insert(r);
    return r;
}

/* Makes a region. Releases mu while it calls the driver. rt_pinned_end waits for the calls. */
static void *make(struct rt_device *d, size_t n) RT_REQUIRES(mu)
{
    struct region *gone = NULL, *r = make_room(n, &gone) ? add(n) : NULL;
    bool is_pinned = false;

    if (!r && !gone)
        return NULL;
    n_calling++;
    rt_mutex_unlock(&mu);
    destroy_all(d, gone);
    if (r)
        is_pinned = d->pin(d, r->base, n);
    rt_mutex_lock(&mu);
    n_calling--;
    if (is_pinned) {
        r->is_pinned = true;
        return r->base;
    }
    if (r)
        destroy(NULL, take_out(find(r->base)));
    return NULL;
}

void rt_pinned_begin(struct rt_device *d, size_t limit)
{
    rt_mutex_lock(&mu);
    if (!atomic_load(&device) && d->pin && limit) {
        most_bytes = limit;
        atomic_store(&device, d);
    }
    rt_mutex_unlock(&mu);
}

void rt_pinned_end(struct rt_device *d)
{
    rt_mutex_lock(&mu);
    if (atomic_load(&device) == d) {
        atomic_store(&device, NULL); /* no new calls begin */
        while (n_calling && !atomic_load(&d->has_failed)) {
            rt_mutex_unlock(&mu);
            usleep(WAIT_US);
            rt_mutex_lock(&mu);
        }
        for (struct region **at = &regions; *at;) {
            if ((*at)->is_used) {
                unpin(d, *at);
                at = &(*at)->next;
            } else {
                destroy(d, take_out(at));
            }
        }
    }
    rt_mutex_unlock(&mu);
}

void *rt_pinned_alloc(size_t n)
{
    void *base = NULL;
    if (!atomic_load_explicit(&device, memory_order_relaxed) || n > SIZE_MAX - PAGE)
        return NULL;
    n = (n + PAGE - 1) & ~(size_t)(PAGE - 1);
    rt_mutex_lock(&mu);
    struct rt_device *d = atomic_load(&device);
    if (d && !atomic_load(&d->has_failed)) {
        base = take_idle(n);
        if (!base)
            base = make(d, n);
    }
    rt_mutex_unlock(&mu);
    return base;
}

bool rt_pinned_free(void *region)
{
    if (!atomic_load_explicit(&n_regions, memory_order_relaxed))
        return false;
    rt_mutex_lock(&mu);
    struct region **at = find(region), *r = *at;
    if (r) {
        *at = r->next;
        r->next = regions;
        regions = r;
        r->is_used = false;
        if (!r->is_pinned || !atomic_load(&device))
            destroy(NULL, take_out(&regions));
    }
    rt_mutex_unlock(&mu);
    return r != NULL;
}
