#include "runtime/base/heap.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "runtime/base/machine.h"
#include "runtime/base/sanitizer.h"
#include "runtime/base/thread.h"

enum {
    /* Blocks of this size or more are mapped individually and unmapped when they are freed. The
     * buffers in which gRPC receives are smaller, and are reused in malloc's arenas. */
    MAPPED_BYTES = 128 << 10,
    /* Number of free bytes at the end of an arena at which malloc returns them to the system. */
    ARENA_END_BYTES = 1 << 20,
    /* Idle blocks are kept in one list per quarter of a power of two. */
    FIRST_EXP = 16, /* RT_HEAP_LARGE is `2^16` */
    N_CLASSES = 4 * 8,
    LARGEST = 16 << 20, /* largest size in bytes of an idle block */
    /* number of blocks of a list that are tried */
    MAX_TRIES = 8,
    /* A process is quiet if it uses less than a tenth of a core. */
    QUIET_PART = 10,
    /* While the process is not quiet, malloc's free memory is returned after this time at most. */
    BUSY_RETURN_S = 10,
    RETURN_BYTES = 4 << 20, /* growth of malloc's free memory after which it is returned */
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
static atomic_size_t idle_bytes;

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

/* Frees the blocks that were freed before the previous period. */
static void free_old(void)
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

/* Returns the resident bytes that are in no allocated block. They are malloc's free memory and
 * what was not allocated from malloc, such as the program itself and mapped files. Only changes of
 * the result are meaningful. */
static int64_t unallocated(void)
{
    const struct mallinfo2 info = mallinfo2();

    return rt_machine_resident() - (int64_t)info.uordblks - (int64_t)info.hblkhd;
}

void rt_heap_trim(struct rt_heap_trims *t, bool at_once)
{
    const int64_t now = rt_now_ns(), cpu_ns = rt_process_cpu_ns();
    const bool is_quiet = cpu_ns - t->cpu_ns < (now - t->at) / QUIET_PART;

    t->at = now;
    t->cpu_ns = cpu_ns;
    free_old();
    if (!at_once && !is_quiet && now - t->returned_at < BUSY_RETURN_S * INT64_C(1000000000))
        return;
    const int64_t bytes = unallocated();
    if (!at_once && bytes < t->least + RETURN_BYTES) {
        t->least = bytes < t->least ? bytes : t->least;
        return;
    }
    malloc_trim(0);
    t->least = unallocated();
    t->returned_at = now;
}
