#include "server/metrics/last_errors.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/thread.h"

struct srv_last_errors {
    struct rt_mutex mu;
    uint64_t n; /* number of errors that were added; guarded by mu */
    /* Error k, counted from 0, is at k % SRV_LAST_ERRORS; guarded by mu. */
    struct srv_last_error of[SRV_LAST_ERRORS];
};

static void drop(struct srv_last_errors *l, atomic_size_t *bytes)
{
    rt_mutex_clear(&l->mu);
    free(l);
    atomic_fetch_sub(bytes, sizeof *l);
}

/* Returns the errors, which are allocated if they fit into the bound and memory does not run out.
 * Otherwise returns NULL. */
static struct srv_last_errors *errors_at(_Atomic(struct srv_last_errors *) *at,
                                         atomic_size_t *bytes)
{
    struct srv_last_errors *l = atomic_load_explicit(at, memory_order_acquire), *none = NULL;

    if (l)
        return l;
    const bool fits = atomic_fetch_add(bytes, sizeof *l) + sizeof *l <= SRV_ERRORS_BYTES;
    l = fits ? calloc(1, sizeof *l) : NULL;
    if (!l) {
        atomic_fetch_sub(bytes, sizeof *l);
        return NULL;
    }
    rt_mutex_init(&l->mu);
    if (atomic_compare_exchange_strong(at, &none, l))
        return l;
    drop(l, bytes); /* another thread was first */
    return none;
}

static void shorten(char out[SRV_ERROR_TEXT], const char *text)
{
    static const char more[] = "...";
    const size_t n = strnlen(text, SRV_ERROR_TEXT);

    if (n < SRV_ERROR_TEXT) {
        memcpy(out, text, n + 1);
        return;
    }
    memcpy(out, text, SRV_ERROR_TEXT - sizeof more);
    memcpy(out + SRV_ERROR_TEXT - sizeof more, more, sizeof more);
}

void srv_last_errors_add(_Atomic(struct srv_last_errors *) *at, atomic_size_t *bytes,
                         struct srv_last_error *e, const char *text)
{
    struct srv_last_errors *l = errors_at(at, bytes);

    if (!l)
        return;
    shorten(e->text, text);
    rt_mutex_lock(&l->mu);
    l->of[l->n++ % SRV_LAST_ERRORS] = *e;
    rt_mutex_unlock(&l->mu);
}

int srv_last_errors_copy(const _Atomic(struct srv_last_errors *) *at,
                         struct srv_last_error out[SRV_LAST_ERRORS])
{
    struct srv_last_errors *l = atomic_load_explicit(at, memory_order_acquire);
    int n = 0;

    if (!l)
        return 0;
    rt_mutex_lock(&l->mu);
    for (; n < SRV_LAST_ERRORS && (uint64_t)n < l->n; n++)
        out[n] = l->of[(l->n - 1 - (uint64_t)n) % SRV_LAST_ERRORS];
    rt_mutex_unlock(&l->mu);
    return n;
}

uint64_t srv_last_errors_count(const _Atomic(struct srv_last_errors *) *at)
{
    struct srv_last_errors *l = atomic_load_explicit(at, memory_order_acquire);

    if (!l)
        return 0;
    rt_mutex_lock(&l->mu);
    const uint64_t n = l->n;
    rt_mutex_unlock(&l->mu);
    return n;
}

void srv_last_errors_free(_Atomic(struct srv_last_errors *) *at, atomic_size_t *bytes)
{
    struct srv_last_errors *l = atomic_load(at);

    if (l)
        drop(l, bytes);
    atomic_store(at, NULL);
}
