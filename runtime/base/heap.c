#include "runtime/base/heap.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/sanitizer.h"
#include "runtime/base/thread.h"

enum {
    /* Blocks of this size or more are mapped individually and unmapped when they are freed. The
     * buffers in which gRPC receives are smaller, and are reused in malloc's arenas. */
    MAPPED_BYTES = 128 << 10,
    /* Number of free bytes at the end of an arena at which malloc returns them to the system. */
    ARENA_END_BYTES = 1 << 20,
    BURST = 1 << 16,
    /* Idle blocks are kept in one list per quarter of a power of two. */
    FIRST_EXP = 16, /* RT_HEAP_LARGE is `2^16` */
    N_CLASSES = 4 * 8,
    LARGEST = 16 << 20, /* largest size in bytes of an idle block */
    /* number of blocks of a list that are tried */
    MAX_TRIES = 8,
};

/* An idle block begins with this header. */
struct idle {
    struct idle *next;
    size_t size;     /* number of bytes that malloc gave to the block */
    unsigned period; /* value of `period` when the block was freed */
};

static struct rt_mutex mu = RT_MUTEX_INIT;
/* Lists of idle blocks, guarded by mu. The most recently freed block comes first, because it may
 * still be in a CPU cache. */
static struct idle *lists[N_CLASSES];
static unsigned period; /* number of calls of rt_heap_trim, guarded by mu */
static atomic_size_t idle_bytes, bursts;

void rt_heap_set_policy(void)
{
    mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    mallopt(M_TRIM_THRESHOLD, ARENA_END_BYTES);
}

/* Returns the class of a size from RT_HEAP_LARGE to LARGEST. */
static int class_of(size_t n)
{
    const int e = 63 - __builtin_clzll((unsigned long long)n);

    return (e - FIRST_EXP) * 4 + (int)(n >> (e - 2) & 3);
}

/* AddressSanitizer does not find accesses to freed blocks that are kept. */
static bool may_keep(size_t n)
{
    return !RT_HAS_ASAN && n >= RT_HEAP_LARGE && n < LARGEST;
}

/* Removes a block of at least n bytes from the list of a class, or returns NULL. */
static void *take(int class, size_t n) RT_REQUIRES(mu)
{
    struct idle **at = &lists[class];

    for (int i = 0; *at && i < MAX_TRIES; i++, at = &(*at)->next) {
        struct idle *k = *at;
        if (k->size < n)
            continue;
        *at = k->next;
        atomic_fetch_sub_explicit(&idle_bytes, k->size, memory_order_relaxed);
        return k;
    }
    return NULL;
}

/* Returns an idle block of n to n * 3 / 2 bytes, or NULL. */
static void *take_idle(size_t n)
{
    if (!may_keep(n) || !atomic_load_explicit(&idle_bytes, memory_order_relaxed))
        return NULL;
    const int class = class_of(n);
    rt_mutex_lock(&mu);
    void *p = take(class, n);
    if (!p && class + 1 < N_CLASSES)
        p = take(class + 1, n);
    rt_mutex_unlock(&mu);
    return p;
}

void *rt_heap_alloc(size_t n)
{
    void *p = take_idle(n);

    return p ? p : malloc(n);
}

static bool keep(void *p)
{
    const size_t size = p ? malloc_usable_size(p) : 0;
    bool has_room = false;

    if (!may_keep(size))
        return false;
    rt_mutex_lock(&mu);
    has_room = atomic_load_explicit(&idle_bytes, memory_order_relaxed) <= RT_HEAP_IDLE_MOST - size;
    if (has_room) {
        struct idle *k = p, **list = &lists[class_of(size)];
        *k = (struct idle){.next = *list, .size = size, .period = period};
        *list = k;
        atomic_fetch_add_explicit(&idle_bytes, size, memory_order_relaxed);
    }
    rt_mutex_unlock(&mu);
    return has_room;
}

void rt_heap_free(void *p)
{
    if (!keep(p))
        free(p);
}

void *rt_heap_resize(void *p, size_t used, size_t n)
{
    void *to = take_idle(n);

    if (!to)
        return realloc(p, n);
    if (used)
        memcpy(to, p, used);
    rt_heap_free(p);
    return to;
}

size_t rt_heap_idle(void)
{
    return atomic_load_explicit(&idle_bytes, memory_order_relaxed);
}

/* Removes the blocks of a list that were freed before the previous period. Adds them to *old. */
static void take_old(struct idle **list, struct idle **old) RT_REQUIRES(mu)
{
    for (struct idle *k = *list; k; k = *list) {
        if (period - k->period <= 1) {
            list = &k->next;
            continue;
        }
        *list = k->next;
        atomic_fetch_sub_explicit(&idle_bytes, k->size, memory_order_relaxed);
        k->next = *old;
        *old = k;
    }
}

void rt_heap_trim(void)
{
    struct idle *old = NULL;

    rt_mutex_lock(&mu);
    period++;
    for (int i = 0; i < N_CLASSES; i++)
        take_old(&lists[i], &old);
    rt_mutex_unlock(&mu);
    for (struct idle *next; old; old = next) {
        next = old->next;
        free(old);
    }
}

size_t rt_heap_bursts(void)
{
    return atomic_load_explicit(&bursts, memory_order_relaxed);
}

void rt_heap_freed_together(size_t n)
{
    if (n >= BURST)
        atomic_fetch_add_explicit(&bursts, 1, memory_order_relaxed);
}
