#include "runtime/exec/parallel.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/thread.h"

enum {
    /* Time for which a thread spins before it sleeps. It is about twice the time needed to wake a
     * thread. */
    LOOK_NS = 100000,
    LOOKS = 64, /* number of spins between two readings of the clock */
    /* Bit of section.left that the caller sets before it sleeps. The caller sleeps until all other
     * bits are 0. */
    SLEEPS = 1 << 30,
    MAX_CORES = 4096,
};

/* A parallel section, allocated on its caller's stack. A helper must not access the section after
 * it has decremented `left`. */
struct section {
    void (*shard)(void *arg, int64_t i);
    void *arg;
    int64_t n;
    _Alignas(64) _Atomic int64_t next;
    _Alignas(64) atomic_int left; /* number of helpers that may still access the section */
};

/* Values of helper.job: LOOKING, ASLEEP, BUSY, or the address of the section to join. The bit
 * CALLED_UP in the address means that the helper was asleep. A helper sets BUSY before it accesses
 * the section. Until then, the caller can cancel the call. */
enum { LOOKING = 0, ASLEEP = 2, BUSY = 4, CALLED_UP = 1 };

struct helper {
    _Alignas(64) atomic_uintptr_t job;
    struct rt_parallel *p;
    pthread_t thread;
    struct rt_mutex mu;
    struct rt_cond wake; /* signalled when job is no longer ASLEEP, or when the pool stops */
};

struct rt_parallel {
    int width, n_helpers;
    /* number of free core tokens; negative if there are more runs than cores */
    _Alignas(64) atomic_int free;
    _Alignas(64) atomic_bool stopping;
    struct rt_mutex mu;
    /* Signalled when a section's `left` becomes SLEEPS. No helper can then access the section, and
     * its caller sleeps. */
    struct rt_cond done;
    struct helper helper[];
};

static _Thread_local bool inside;

static inline void pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- cores ---- */

static bool take_core(struct rt_parallel *p)
{
    int n = atomic_load_explicit(&p->free, memory_order_relaxed);
    while (n > 0)
        if (atomic_compare_exchange_weak_explicit(&p->free, &n, n - 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

static void give_core(struct rt_parallel *p)
{
    atomic_fetch_add_explicit(&p->free, 1, memory_order_relaxed);
}

/* Passes the caller's core token to a run that has none. Returns false if every run has one. */
static bool yield_core(struct rt_parallel *p)
{
    int n = atomic_load_explicit(&p->free, memory_order_relaxed);
    while (n < 0)
        if (atomic_compare_exchange_weak_explicit(&p->free, &n, n + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

void rt_parallel_enter(struct rt_parallel *p)
{
    if (p)
        atomic_fetch_sub_explicit(&p->free, 1, memory_order_relaxed);
}

void rt_parallel_leave(struct rt_parallel *p)
{
    if (p)
        give_core(p);
}

/* ---- a helper ---- */

/* Runs the next shard. Returns false if none is left. */
static bool do_shard(struct section *s)
{
    const int64_t i = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
    if (i < s->n)
        s->shard(s->arg, i);
    return i < s->n;
}

/* Runs shards until none is left or another run needs the core. Returns whether the helper still
 * has its core token. */
static bool help(struct rt_parallel *p, struct section *s, bool has_core)
{
    for (;;) {
        if (has_core ? yield_core(p) : atomic_load_explicit(&p->free, memory_order_relaxed) < 0)
            return false;
        if (!do_shard(s))
            return has_core;
    }
}

static void leave_section(struct rt_parallel *p, struct section *s)
{
    if (atomic_fetch_sub_explicit(&s->left, 1, memory_order_acq_rel) != (SLEEPS | 1))
        return;
    rt_mutex_lock(&p->mu);
    rt_mutex_unlock(&p->mu);
    rt_cond_broadcast(&p->done);
}

static uintptr_t job_of(struct helper *h)
{
    return atomic_load_explicit(&h->job, memory_order_acquire);
}

static bool change_job(struct helper *h, uintptr_t from, uintptr_t to)
{
    return atomic_compare_exchange_strong_explicit(&h->job, &from, to, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

/* Spins until a call arrives. Returns false if none arrives within LOOK_NS, or if the helper has
 * passed its core token to another run. */
static bool look(struct helper *h, bool *has_core)
{
    const int64_t until = rt_now_ns() + LOOK_NS;
    for (int i = 1; job_of(h) == LOOKING; i++) {
        if (yield_core(h->p)) {
            *has_core = false;
            return false;
        }
        if (i % LOOKS == 0 && rt_now_ns() > until)
            return false;
        pause_core();
    }
    return true;
}

/* Sleeps until a call arrives. A sleeping helper has no core token; the caller of the section takes
 * a token for the helper. Returns false if the pool is being stopped. */
static bool sleep_on(struct helper *h)
{
    rt_mutex_lock(&h->mu);
    while (job_of(h) == ASLEEP && !atomic_load_explicit(&h->p->stopping, memory_order_relaxed))
        rt_cond_wait(&h->wake, &h->mu);
    rt_mutex_unlock(&h->mu);
    return job_of(h) != ASLEEP || !atomic_load_explicit(&h->p->stopping, memory_order_relaxed);
}

/* Accepts the call to the helper and returns its section. Returns NULL if there is no call, or if
 * it was cancelled. */
static struct section *take_call(struct helper *h, bool *has_core)
{
    const uintptr_t job = job_of(h);
    if (job == LOOKING || job == ASLEEP || !change_job(h, job, BUSY))
        return NULL;
    if (job & CALLED_UP)
        *has_core = true;
    return (struct section *)(job & ~(uintptr_t)CALLED_UP);
}

static void *helper_main(void *arg)
{
    struct helper *h = arg;
    struct rt_parallel *p = h->p;
    bool has_core = false;

    inside = true;
#if defined(__x86_64__)
    /* Helpers flush subnormals to zero, like the thread that runs the plan (context.c). */
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040u);
#endif
    while (job_of(h) != ASLEEP || sleep_on(h)) {
        struct section *s = take_call(h, &has_core);
        if (s) {
            has_core = help(p, s, has_core);
            atomic_store_explicit(&h->job, has_core ? LOOKING : ASLEEP, memory_order_release);
            leave_section(p, s);
        } else if (job_of(h) == LOOKING && !look(h, &has_core) && change_job(h, LOOKING, ASLEEP)) {
            if (has_core)
                give_core(p);
            has_core = false;
        }
    }
    return NULL;
}

/* ---- a section ---- */

static bool call(struct helper *h, uintptr_t from, struct section *s)
{
    atomic_fetch_add_explicit(&s->left, 1, memory_order_relaxed);
    if (change_job(h, from, (uintptr_t)s | (from == ASLEEP ? CALLED_UP : 0)))
        return true;
    atomic_fetch_sub_explicit(&s->left, 1, memory_order_relaxed);
    return false;
}

/* Calls at most `pending` helpers, as long as core tokens are free. Helpers that spin are called
 * before helpers that sleep. Returns the number of helpers called. */
static int call_helpers(struct rt_parallel *p, struct section *s, int pending)
{
    int n = 0;
    for (int i = 0; i < p->n_helpers && n < pending; i++)
        if (job_of(&p->helper[i]) == LOOKING && call(&p->helper[i], LOOKING, s))
            n++;
    for (int i = 0; i < p->n_helpers && n < pending; i++) {
        struct helper *h = &p->helper[i];
        if (job_of(h) != ASLEEP)
            continue;
        if (!take_core(p))
            break;
        if (!call(h, ASLEEP, s)) {
            give_core(p);
            continue;
        }
        rt_mutex_lock(&h->mu);
        rt_mutex_unlock(&h->mu);
        rt_cond_signal(&h->wake);
        n++;
    }
    return n;
}

/* Cancels the calls that helpers have not accepted yet. No shards are left for these helpers, and
 * the helpers may be waiting for cores that other threads occupy. */
static void call_off(struct rt_parallel *p, struct section *s)
{
    for (int i = 0; i < p->n_helpers; i++) {
        struct helper *h = &p->helper[i];
        if (!atomic_load_explicit(&s->left, memory_order_relaxed))
            return;
        if (change_job(h, (uintptr_t)s, LOOKING)) {
            atomic_fetch_sub_explicit(&s->left, 1, memory_order_relaxed);
        } else if (change_job(h, (uintptr_t)s | CALLED_UP, ASLEEP)) {
            give_core(p);
            atomic_fetch_sub_explicit(&s->left, 1, memory_order_relaxed);
        }
    }
}

static void wait_for_helpers(struct rt_parallel *p, struct section *s)
{
    int64_t until = 0;
    for (int i = 1; atomic_load_explicit(&s->left, memory_order_acquire); i++) {
        pause_core();
        if (i % LOOKS)
            continue;
        const int64_t now = rt_now_ns();
        if (!until)
            until = now + LOOK_NS;
        if (now < until && atomic_load_explicit(&p->free, memory_order_relaxed) >= 0)
            continue;
        if (atomic_fetch_or_explicit(&s->left, SLEEPS, memory_order_acq_rel) == 0)
            return;
        rt_mutex_lock(&p->mu);
        while (atomic_load_explicit(&s->left, memory_order_acquire) != SLEEPS)
            rt_cond_wait(&p->done, &p->mu);
        rt_mutex_unlock(&p->mu);
        return;
    }
}

void rt_parallel_run(struct rt_parallel *p, int64_t n, void (*shard)(void *arg, int64_t i),
                     void *arg)
{
    struct section s = {.shard = shard, .arg = arg, .n = n};
    const int most = p && !inside ? p->width : 1;
    const int pending = n < most ? (int)n - 1 : most - 1;

    if (pending < 1 || !call_helpers(p, &s, pending)) {
        for (int64_t i = 0; i < n; i++)
            shard(arg, i);
        return;
    }
    inside = true;
    while (do_shard(&s))
        ;
    inside = false;
    call_off(p, &s);
    wait_for_helpers(p, &s);
}

/* ---- width ---- */

int rt_parallel_width(const struct rt_parallel *p)
{
    return p ? p->width : 1;
}

int rt_parallel_free_width(struct rt_parallel *p)
{
    if (!p || inside || p->width == 1)
        return 1;
    int n = atomic_load_explicit(&p->free, memory_order_relaxed);
    if (n < 0)
        n = 0;
    for (int i = 0; i < p->n_helpers && n < p->width - 1; i++)
        n += atomic_load_explicit(&p->helper[i].job, memory_order_relaxed) == LOOKING;
    return n < p->width ? n + 1 : p->width;
}

/* ---- life ---- */

struct rt_parallel *rt_parallel_new(int cores, int width)
{
    if (cores > MAX_CORES)
        cores = MAX_CORES;
    if (width > cores)
        width = cores;
    const int n = width > 1 ? cores - 1 : 0;
    const size_t size = sizeof(struct rt_parallel) + (size_t)n * sizeof(struct helper);
    struct rt_parallel *p = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!p)
        return NULL;
    memset(p, 0, size);
    p->width = width;
    atomic_init(&p->free, cores);
    atomic_init(&p->stopping, false);
    rt_mutex_init(&p->mu);
    rt_cond_init(&p->done);
    for (; p->n_helpers < n; p->n_helpers++) {
        struct helper *h = &p->helper[p->n_helpers];
        h->p = p;
        atomic_init(&h->job, ASLEEP);
        rt_mutex_init(&h->mu);
        rt_cond_init(&h->wake);
        if (rt_thread_start(&h->thread, "slip-helper", helper_main, h)) {
            rt_cond_clear(&h->wake);
            rt_mutex_clear(&h->mu);
            rt_parallel_free(p);
            return NULL;
        }
    }
    return p;
}

void rt_parallel_free(struct rt_parallel *p)
{
    if (!p)
        return;
    atomic_store(&p->stopping, true);
    for (int i = 0; i < p->n_helpers; i++) {
        struct helper *h = &p->helper[i];
        rt_mutex_lock(&h->mu);
        rt_mutex_unlock(&h->mu);
        rt_cond_signal(&h->wake);
        pthread_join(h->thread, NULL);
        rt_cond_clear(&h->wake);
        rt_mutex_clear(&h->mu);
    }
    rt_cond_clear(&p->done);
    rt_mutex_clear(&p->mu);
    free(p);
}
