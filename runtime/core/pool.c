/*
 * Heap buffers and the pools that recycle them. Freed blocks of any size are kept in one list per
 * size class, because page faults, not malloc, make new memory expensive.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/heap.h"
#include "runtime/base/thread.h"
#include "runtime/core/block.h"
#include "runtime/core/load_memory.h"
#include "runtime/core/buffer.h"
#include "runtime/core/object.h"
#include "runtime/core/pool.h"
#include "runtime/core/str.h"

struct idle_list {
    struct rt_mutex mu;
    /* List of free blocks, guarded by mu. The most recently freed block comes first, because it may
     * still be in a CPU cache. */
    struct rt_block *first;
};

enum count_status { COUNTED, BEYOND_LIMIT, BEYOND_BUDGET };

enum { RESERVE_STEP = 4 << 20, RESERVE_MOST = 64 << 20, KEEP_MOST = 256 << 20, RECENT = 4 };

struct rt_pool {
    atomic_size_t refs;    /* number of references; each owner and each block in use holds one */
    atomic_size_t in_use;  /* number of bytes of blocks in use, plus charged bytes */
    atomic_size_t charged; /* number of bytes outside blocks, charged by rt_pool_charge */
    atomic_size_t idle;
    atomic_size_t peak;    /* largest total size of the blocks in use in the current run, in
                            * bytes */
    atomic_size_t most;    /* largest memory peak of the previous RECENT runs, in bytes */
    size_t recent[RECENT]; /* memory peaks of the last RECENT runs, in bytes, latest first */
    atomic_size_t keep;
    atomic_size_t limit;
    /* name of the flag that sets the limit, for error messages */
    const char *flag;
    /* number of bytes that only the pool's owner reads and writes (rt_pool_reserved) */
    size_t reserved_by_owner;
    struct rt_budget *budget; /* the budget that the pool shares, or NULL if there is none */
    /* links in the list budget->sharing; guarded by sharing_mu */
    struct rt_pool *next_sharing, **at_sharing;
    struct rt_mutex budget_mu;
    /* Number of bytes taken from the budget; changed only under budget_mu. The pool reserves more
     * bytes than are in use, so that the threads of concurrent runs seldom contend for the lock. */
    atomic_size_t reserved;
    atomic_bool is_load; /* set by rt_pool_count_as_load */
    struct idle_list list[RT_BLOCK_CLASSES];
};

/* Guards the pool lists of all budgets. */
static struct rt_mutex sharing_mu = RT_MUTEX_INIT;
/* Held while a load reserves bytes, so that loads at the same time do not exceed their part. Locked
 * before sharing_mu. */
static struct rt_mutex loads_mu = RT_MUTEX_INIT;

bool rt_budget_take(struct rt_budget *b, size_t n)
{
    if (!b)
        return true;
    size_t now = atomic_load(&b->used);
    do {
        if (now > b->limit || n > b->limit - now)
            return false;
    } while (!atomic_compare_exchange_weak(&b->used, &now, now + n));
    return true;
}

void rt_budget_give(struct rt_budget *b, size_t n)
{
    if (b)
        atomic_fetch_sub(&b->used, n);
}

struct rt_pool *rt_pool_new(size_t limit_bytes)
{
    struct rt_pool *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    atomic_init(&p->refs, 1);
    rt_pool_set_limit(p, limit_bytes, "--run_memory_limit_bytes");
    atomic_init(&p->keep, SIZE_MAX);
    for (int i = 0; i < RT_BLOCK_CLASSES; i++)
        rt_mutex_init(&p->list[i].mu);
    rt_mutex_init(&p->budget_mu);
    return p;
}

struct rt_pool *rt_pool_new_plain(size_t limit_bytes, const char *flag)
{
    struct rt_pool *p = rt_pool_new(limit_bytes);
    if (p) {
        atomic_init(&p->keep, 0); /* if `keep` is 0, pool_give frees every block */
        p->flag = flag;
    }
    return p;
}

void rt_pool_set_limit(struct rt_pool *p, size_t limit_bytes, const char *flag)
{
    atomic_store(&p->limit, limit_bytes ? limit_bytes : SIZE_MAX);
    p->flag = flag;
}

void rt_pool_raise_limit(struct rt_pool *p, size_t bytes)
{
    size_t limit = atomic_load(&p->limit), more;
    do {
        if (__builtin_add_overflow(limit, bytes, &more))
            more = SIZE_MAX;
    } while (!atomic_compare_exchange_weak(&p->limit, &limit, more));
}

void rt_pool_share(struct rt_pool *p, struct rt_budget *budget)
{
    p->budget = budget;
    if (!budget)
        return;
    rt_mutex_lock(&sharing_mu);
    p->next_sharing = budget->sharing;
    p->at_sharing = &budget->sharing;
    if (p->next_sharing)
        p->next_sharing->at_sharing = &p->next_sharing;
    budget->sharing = p;
    rt_mutex_unlock(&sharing_mu);
}

static void end_sharing(struct rt_pool *p)
{
    if (!p->budget)
        return;
    rt_mutex_lock(&sharing_mu);
    *p->at_sharing = p->next_sharing;
    if (p->next_sharing)
        p->next_sharing->at_sharing = p->at_sharing;
    rt_mutex_unlock(&sharing_mu);
}

/* Sets has_surplus if the pool has reserved more than it uses. Called after in_use has decreased or
 * `reserved` has increased. reserve() clears has_surplus before it reads in_use and `reserved`.
 * Therefore, either reserve() sees the surplus, or this function sets has_surplus again. */
static void note_surplus(struct rt_pool *p)
{
    if (p->budget && atomic_load(&p->reserved) > atomic_load(&p->in_use) &&
        !atomic_load(&p->budget->has_surplus))
        atomic_store(&p->budget->has_surplus, true);
}

/* Raises the pool's reservation to at least `want` bytes, from the free bytes of the budget. */
static bool reserve_free(struct rt_pool *p, size_t want)
{
    rt_mutex_lock(&p->budget_mu);
    size_t have = atomic_load(&p->reserved), more = want > have ? want - have : 0;
    size_t step = more < RESERVE_STEP ? RESERVE_STEP : more;
    bool ok = !more || rt_budget_take(p->budget, step);
    if (!ok) {
        step = more;
        ok = rt_budget_take(p->budget, step);
    }
    if (ok && more) {
        atomic_store(&p->reserved, have + step);
        note_surplus(p);
    }
    rt_mutex_unlock(&p->budget_mu);
    return ok;
}

/* If the reservation exceeds in_use by more than `most` bytes, reduces the excess to the smaller of
 * RESERVE_STEP and `most`. Returns the freed reservation to the budget. */
static void release_reserve(struct rt_pool *p, size_t most)
{
    rt_mutex_lock(&p->budget_mu);
    size_t have = atomic_load(&p->reserved), need = atomic_load(&p->in_use);
    if (have > need && have - need > most) {
        need += most < RESERVE_STEP ? most : RESERVE_STEP;
        atomic_store(&p->reserved, need);
        /* Another thread may have counted a block since `need` was read. If the thread counted the
         * block before the store to `reserved`, this load of in_use includes the block. Otherwise,
         * the other thread reserves the bytes itself. */
        const size_t now = atomic_load(&p->in_use);
        if (now > need) {
            need = now < have ? now : have;
            atomic_store(&p->reserved, need);
        }
        rt_budget_give(p->budget, have - need);
    }
    rt_mutex_unlock(&p->budget_mu);
}

/* ---- loads ---- */

void rt_pool_count_as_load(struct rt_pool *p, bool yes)
{
    atomic_store(&p->is_load, yes);
}

static bool is_alone(struct rt_budget *b)
{
    return atomic_load(&b->n_sessions) <= 1;
}

/* Returns whether all loads together stay within their part of the budget if the pool reserves
 * `want` bytes. Takes the surplus of other loads back. The caller holds loads_mu. */
static bool fits_loads(const struct rt_pool *p, size_t want)
{
    const size_t most = p->budget->limit / (size_t)(is_alone(p->budget) ? 1 : RT_LOAD_PART);
    size_t others = 0;

    rt_mutex_lock(&sharing_mu);
    for (struct rt_pool *q = p->budget->sharing; q; q = q->next_sharing) {
        if (q == p || !atomic_load(&q->is_load))
            continue;
        release_reserve(q, 0);
        others += atomic_load(&q->reserved);
    }
    rt_mutex_unlock(&sharing_mu);
    return others <= most && want <= most - others;
}

/*
 * Raises the pool's reservation to at least `want` bytes. If the budget has too few free bytes,
 * takes surplus reservations back from other pools. Otherwise the surplus of idle models could
 * starve all other models. If has_surplus is false, fails without visiting the other pools, because
 * there may be many and all runs share sharing_mu.
 */
static bool reserve_for_request(struct rt_pool *p, size_t want)
{
    if (reserve_free(p, want))
        return true;
    if (!atomic_load(&p->budget->has_surplus))
        return false;
    bool ok = false;
    rt_mutex_lock(&sharing_mu);
    atomic_store(&p->budget->has_surplus, false);
    for (struct rt_pool *q = p->budget->sharing; q && !ok; q = q->next_sharing) {
        if (atomic_load(&q->reserved) <= atomic_load(&q->in_use))
            continue;
        release_reserve(q, 0);
        ok = reserve_free(p, want);
    }
    if (ok) /* Pools that were not visited may still have a surplus. */
        atomic_store(&p->budget->has_surplus, true);
    rt_mutex_unlock(&sharing_mu);
    return ok || reserve_free(p, want);
}

static bool reserve(struct rt_pool *p, size_t want)
{
    if (!atomic_load(&p->is_load))
        return reserve_for_request(p, want);
    rt_mutex_lock(&loads_mu);
    const bool ok = fits_loads(p, want) && reserve_for_request(p, want);
    rt_mutex_unlock(&loads_mu);
    return ok;
}

size_t *rt_pool_reserved(struct rt_pool *p)
{
    return &p->reserved_by_owner;
}

void rt_pool_begin(struct rt_pool *p)
{
    size_t most = 0;
    for (int i = 0; i < RECENT; i++)
        most = p->recent[i] > most ? p->recent[i] : most;
    size_t in_use = atomic_load_explicit(&p->in_use, memory_order_relaxed);
    atomic_store_explicit(&p->most, most, memory_order_relaxed);
    atomic_store_explicit(&p->peak, in_use, memory_order_relaxed);
    atomic_store_explicit(&p->keep, SIZE_MAX, memory_order_relaxed);
}

size_t rt_pool_end(struct rt_pool *p, size_t least)
{
    size_t most = 0, second = 0;
    memmove(p->recent + 1, p->recent, (RECENT - 1) * sizeof *p->recent);
    p->recent[0] = atomic_load_explicit(&p->peak, memory_order_relaxed);
    for (int i = 0; i < RECENT; i++) {
        const size_t n = p->recent[i];
        second = n > most ? most : n > second ? n : second;
        most = n > most ? n : most;
    }
    size_t keep = second > KEEP_MOST / 2 ? KEEP_MOST : 2 * second;
    if (keep < least)
        keep = least;
    const size_t all = atomic_load(&p->idle) + atomic_load(&p->in_use);
    keep = all < keep ? all : keep;
    atomic_store_explicit(&p->keep, keep, memory_order_relaxed);
    rt_pool_trim(p, keep);
    return keep;
}

void rt_pool_set_keep(struct rt_pool *p, size_t bytes)
{
    atomic_store_explicit(&p->keep, bytes, memory_order_relaxed);
}

void rt_pool_trim(struct rt_pool *p, size_t keep_bytes)
{
    if (p->budget && atomic_load(&p->reserved) > atomic_load(&p->in_use) + RESERVE_STEP)
        release_reserve(p, RESERVE_STEP);
    /* Frees the largest size classes first, because a few calls of free() then release most
     * bytes. */
    for (int i = RT_BLOCK_CLASSES - 1; i >= 0 && atomic_load(&p->idle) > keep_bytes; i--) {
        for (;;) {
            rt_mutex_lock(&p->list[i].mu);
            struct rt_block *k = atomic_load(&p->idle) > keep_bytes ? p->list[i].first : NULL;
            if (k)
                p->list[i].first = k->next;
            rt_mutex_unlock(&p->list[i].mu);
            if (!k)
                break;
            atomic_fetch_sub(&p->idle, rt_block_footprint(k->capacity));
            rt_block_free(k);
        }
    }
}

struct rt_pool *rt_pool_ref(struct rt_pool *p)
{
    if (p)
        atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void rt_pool_unref(struct rt_pool *p)
{
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
        return;
    end_sharing(p);
    rt_pool_trim(p, 0);
    release_reserve(p, 0);
    for (int i = 0; i < RT_BLOCK_CLASSES; i++)
        rt_mutex_clear(&p->list[i].mu);
    rt_mutex_clear(&p->budget_mu);
    free(p);
}

size_t rt_pool_in_use(struct rt_pool *p)
{
    return atomic_load(&p->in_use);
}

/* Adds `capacity` to in_use. Fails if in_use would exceed the limit plus `credit`, or the budget.
 * Sets *now to the previous value of in_use. */
static enum count_status count(struct rt_pool *p, size_t capacity, size_t credit, size_t *now)
{
    size_t limit = atomic_load_explicit(&p->limit, memory_order_relaxed);
    if (__builtin_add_overflow(limit, credit, &limit))
        limit = SIZE_MAX;
    *now = atomic_load(&p->in_use);
    do {
        if (*now > limit || capacity > limit - *now)
            return BEYOND_LIMIT;
    } while (!atomic_compare_exchange_weak(&p->in_use, now, *now + capacity));
    if (p->budget && *now + capacity > atomic_load(&p->reserved) && !reserve(p, *now + capacity)) {
        atomic_fetch_sub(&p->in_use, capacity);
        note_surplus(p);
        return BEYOND_BUDGET;
    }
    return COUNTED;
}

static void discount(struct rt_pool *p, size_t capacity)
{
    const size_t out = atomic_fetch_sub(&p->in_use, capacity) - capacity;
    if (p->budget && atomic_load(&p->reserved) > out + RESERVE_MOST)
        release_reserve(p, RESERVE_MOST);
    note_surplus(p);
}

/* Only the run's own thread calls this function, so it needs no atomic read-modify-write. */
static void set_charged(struct rt_pool *p, size_t bytes)
{
    atomic_store_explicit(&p->charged, bytes, memory_order_relaxed);
}

void rt_pool_discharge(struct rt_pool *p, size_t bytes)
{
    set_charged(p, atomic_load_explicit(&p->charged, memory_order_relaxed) - bytes);
    if (bytes)
        discount(p, bytes);
}

bool rt_pool_has_capacity(const struct rt_pool *p, size_t bytes)
{
    const size_t now = atomic_load(&p->in_use), limit = atomic_load(&p->limit);
    return now <= limit && bytes <= limit - now;
}

/* Formats the number of counted bytes for an error message, if it exceeds the number of requested
 * bytes. The requested bytes alone might appear to be within the limit. */
static const char *as_counted(char *text, size_t size, size_t capacity, size_t bytes)
{
    text[0] = '\0';
    if (capacity > bytes)
        snprintf(text, size, " (%zu with its block)", capacity);
    return text;
}

/* Counts bytes with count(). If a limit is reached, fails with RT_RESOURCE_EXHAUSTED, and err names
 * the limit. */
static enum rt_status count_or_fail(struct rt_pool *p, size_t capacity, size_t credit, size_t bytes,
                                    const char *what, size_t *now, struct rt_error *err)
{
    char more[48];
    switch (count(p, capacity, credit, now)) {
    case BEYOND_LIMIT:
        return rt_fail(
            err, RT_RESOURCE_EXHAUSTED,
            "out of memory: %zu bytes for %s%s, with %zu in use of the limit of %zu (%s)", bytes,
            what, as_counted(more, sizeof more, capacity, bytes), *now, atomic_load(&p->limit),
            p->flag);
    case BEYOND_BUDGET:
        return rt_fail(
            err, RT_RESOURCE_EXHAUSTED,
            "out of memory: %zu bytes for %s%s, with %zu in use by all runs together of the "
            "limit of %zu%s (--run_memory_total_bytes)",
            bytes, what, as_counted(more, sizeof more, capacity, bytes),
            atomic_load(&p->budget->used), p->budget->limit,
            atomic_load(&p->is_load) && !is_alone(p->budget) ? ", of which loads may use half"
                                                             : "");
    case COUNTED:
        break;
    }
    return RT_OK;
}

enum rt_status rt_pool_charge(struct rt_pool *p, size_t bytes, const char *what,
                              struct rt_error *err)
{
    size_t before;
    const enum rt_status st = bytes ? count_or_fail(p, bytes, 0, bytes, what, &before, err) : RT_OK;
    if (!st)
        set_charged(p, atomic_load_explicit(&p->charged, memory_order_relaxed) + bytes);
    return st;
}

static bool pool_count(struct rt_pool *p, size_t capacity, size_t bytes, struct rt_error *err)
{
    size_t now;
    if (count_or_fail(p, capacity, 0, bytes, "a tensor", &now, err))
        return false;
    const size_t charged = atomic_load_explicit(&p->charged, memory_order_relaxed);
    const size_t out = now + capacity > charged ? now + capacity - charged : 0;
    size_t peak = atomic_load(&p->peak);
    while (out > peak && !atomic_compare_exchange_weak(&p->peak, &peak, out))
        ;
    return true;
}

static struct rt_block *pool_take(struct rt_pool *p, int class)
{
    struct idle_list *l = &p->list[class];
    rt_mutex_lock(&l->mu);
    struct rt_block *k = l->first;
    if (k)
        l->first = k->next;
    rt_mutex_unlock(&l->mu);
    if (k)
        atomic_fetch_sub(&p->idle, rt_block_footprint(k->capacity));
    return k;
}

static void pool_give(struct rt_pool *p, struct rt_block *k)
{
    const size_t size = rt_block_footprint(k->capacity);
    discount(p, size);
    size_t idle = atomic_fetch_add(&p->idle, size) + size;
    size_t peak = atomic_load_explicit(&p->peak, memory_order_relaxed);
    size_t most = atomic_load_explicit(&p->most, memory_order_relaxed);
    most = peak > most ? peak : most;
    if (idle / 2 > most || idle > atomic_load_explicit(&p->keep, memory_order_relaxed)) {
        atomic_fetch_sub(&p->idle, size);
        rt_block_free(k);
    } else {
        size_t ignored;
        struct idle_list *l = &p->list[rt_block_class(k->capacity, &ignored)];
        rt_mutex_lock(&l->mu);
        k->next = l->first;
        l->first = k;
        rt_mutex_unlock(&l->mu);
    }
    rt_pool_unref(p);
}

/* Frees idle blocks until the sum of in_use and the idle bytes is within the limit. */
static void trim_to_limit(struct rt_pool *p)
{
    const size_t limit = atomic_load_explicit(&p->limit, memory_order_relaxed);
    const size_t out = atomic_load(&p->in_use);
    const size_t keep = limit > out ? limit - out : 0;
    if (atomic_load(&p->idle) > keep)
        rt_pool_trim(p, keep);
}

/* Zeroes the buffer's elements in pieces and increases b->size after each piece. If the check
 * fails, the buffer can still be freed, because b->size covers only zeroed elements. */
static enum rt_status zero_elements(struct rt_buffer *b, size_t bytes, const struct rt_check *check,
                                    struct rt_error *err)
{
    char *data = atomic_load_explicit(&b->data, memory_order_relaxed);
    enum rt_status st = RT_OK;

    for (size_t n; b->size < bytes && !st; b->size += n) {
        if (b->size && check)
            st = check->check(check->arg, err);
        n = st ? 0 : bytes - b->size < RT_ZERO_PIECE ? bytes - b->size : RT_ZERO_PIECE;
        memset(data + b->size, 0, n);
    }
    return st;
}

struct rt_buffer *rt_buffer_new(struct rt_pool *pool, enum rt_dtype dtype, size_t bytes,
                                struct rt_error *err)
{
    return rt_buffer_new_checked(pool, dtype, bytes, NULL, err);
}

struct rt_buffer *rt_buffer_new_checked(struct rt_pool *pool, enum rt_dtype dtype, size_t bytes,
                                        const struct rt_check *check, struct rt_error *err)
{
    size_t capacity;
    int class = rt_block_class(bytes, &capacity);
    struct rt_block *k = NULL;

    if (class < 0) {
        rt_fail_memory(err, "a tensor", bytes);
        return NULL;
    }
    if (pool) {
        if (!pool_count(pool, rt_block_footprint(capacity), bytes, err))
            return NULL;
        k = pool_take(pool, class);
    } else {
        capacity = (bytes + RT_BLOCK_ALIGN - 1) & ~(size_t)(RT_BLOCK_ALIGN - 1);
    }
    if (!k && pool)
        trim_to_limit(pool);
    if (!k)
        k = rt_block_new(capacity);
    if (!k && pool) {
        rt_pool_trim(pool, 0);
        k = rt_block_new(capacity);
    }
    if (!k) {
        if (pool)
            discount(pool, rt_block_footprint(capacity));
        rt_fail_memory(err, "a tensor", bytes);
        return NULL;
    }
    if (pool)
        atomic_fetch_add_explicit(&pool->refs, 1, memory_order_relaxed);
    void *data = (char *)k + RT_BLOCK_HEADER;
    k->b = (struct rt_buffer){0};
    k->capacity = capacity;
    k->b.kind = RT_BUF_HEAP;
    k->b.elem = rt_dtype_is_plain(dtype) ? RT_NO_DTYPE : (uint8_t)dtype;
    k->b.size = bytes;
    atomic_init(&k->b.pool, pool);
    atomic_init(&k->b.refs, 1);
    atomic_init(&k->b.data, data);
    if (k->b.elem == RT_NO_DTYPE)
        return &k->b;
    k->b.size = 0;
    if (!zero_elements(&k->b, bytes, check, err))
        return &k->b;
    rt_buffer_unref(&k->b);
    return NULL;
}

struct rt_text *rt_text_new(struct rt_pool *pool, size_t n, struct rt_error *err)
{
    size_t capacity, before;
    if (__builtin_add_overflow(n, sizeof(struct rt_text) + 1, &capacity)) {
        rt_fail_memory(err, "a string", n);
        return NULL;
    }
    if (pool && count_or_fail(pool, capacity, 0, n, "a string", &before, err))
        return NULL;
    struct rt_text *t = malloc(capacity);
    if (!t) {
        if (pool)
            discount(pool, capacity);
        rt_fail_memory(err, "a string", n);
        return NULL;
    }
    if (pool)
        atomic_fetch_add_explicit(&pool->refs, 1, memory_order_relaxed);
    atomic_init(&t->refs, 1);
    t->capacity = capacity;
    atomic_init(&t->pool, pool);
    t->p[n] = '\0';
    return t;
}

void rt_text_unref(struct rt_text *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
        return;
    struct rt_pool *pool = atomic_load_explicit(&t->pool, memory_order_relaxed);
    if (pool) {
        discount(pool, t->capacity);
        rt_pool_unref(pool);
    }
    free(t);
}

/* ---- memory outside tensors ---- */

/* Header of an allocation made by rt_pool_alloc. The caller's bytes follow it, aligned as by
 * malloc. */
struct memory {
    _Alignas(16) size_t capacity; /* number of bytes that the pool counts for the allocation */
    struct rt_pool *pool;
};

void *rt_pool_alloc(struct rt_pool *pool, size_t n, const char *what, struct rt_error *err)
{
    size_t capacity, before;
    if (__builtin_add_overflow(n, sizeof(struct memory), &capacity)) {
        rt_fail_memory(err, what, n);
        return NULL;
    }
    if (count_or_fail(pool, capacity, 0, n, what, &before, err))
        return NULL;
    struct memory *m = calloc(1, capacity);
    if (!m) {
        discount(pool, capacity);
        rt_fail_memory(err, what, n);
        return NULL;
    }
    m->capacity = capacity;
    m->pool = rt_pool_ref(pool);
    return m + 1;
}

void rt_pool_free(void *p)
{
    struct memory *m = p ? (struct memory *)p - 1 : NULL;
    if (!m)
        return;
    discount(m->pool, m->capacity);
    rt_pool_unref(m->pool);
    free(m);
}

/* ---- state pools: counting and moving ---- */

enum rt_status rt_pool_hold(struct rt_pool *p, size_t bytes, size_t credit, const char *what,
                            struct rt_error *err)
{
    size_t before;
    return p ? count_or_fail(p, bytes, credit, bytes, what, &before, err) : RT_OK;
}

void rt_pool_release(struct rt_pool *p, size_t bytes)
{
    if (p && bytes)
        discount(p, bytes);
}

static enum rt_status move_count(_Atomic(struct rt_pool *) *from, struct rt_pool *to,
                                 size_t capacity, size_t bytes, size_t credit, const char *what,
                                 struct rt_error *err)
{
    struct rt_pool *old = atomic_load_explicit(from, memory_order_relaxed);
    size_t before;

    if (old == to)
        return RT_OK;
    const enum rt_status st = count_or_fail(to, capacity, credit, bytes, what, &before, err);
    if (st)
        return st;
    rt_pool_ref(to);
    while (!atomic_compare_exchange_weak(from, &old, to))
        if (old == to) { /* Another thread has already moved the memory. */
            discount(to, capacity);
            rt_pool_unref(to);
            return RT_OK;
        }
    if (old) {
        discount(old, capacity);
        rt_pool_unref(old);
    }
    return RT_OK;
}

enum rt_status rt_buffer_move(struct rt_buffer *b, struct rt_pool *to, size_t credit,
                              struct rt_error *err)
{
    return move_count(&b->pool, to, rt_buffer_counted_bytes(b), b->size, credit, "a tensor", err);
}

enum rt_status rt_text_move(struct rt_text *t, struct rt_pool *to, size_t credit,
                            struct rt_error *err)
{
    return move_count(&t->pool, to, t->capacity, t->capacity - sizeof *t - 1, credit, "a string",
                      err);
}

size_t rt_buffer_counted_bytes(const struct rt_buffer *b)
{
    return rt_block_footprint(((const struct rt_block *)b)->capacity);
}

struct rt_buffer *rt_buffer_foreign(void *data, size_t bytes, void *owner,
                                    void (*release)(struct rt_buffer *b))
{
    struct rt_buffer *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->kind = RT_BUF_FOREIGN;
    b->elem = RT_NO_DTYPE;
    b->size = bytes;
    b->owner = owner;
    b->release = release;
    atomic_init(&b->refs, 1);
    atomic_init(&b->data, data);
    return b;
}

struct rt_buffer *rt_buffer_ref(struct rt_buffer *b)
{
    if (b)
        atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

static void free_elements(struct rt_buffer *b)
{
    void *data = atomic_load(&b->data);
    if (!data)
        return;
    if (b->elem == RT_STRING) {
        struct rt_str *s = data;
        for (size_t i = 0; i < b->size / sizeof *s; i++)
            if (s[i].n >= sizeof s[i].u.in)
                rt_text_unref(s[i].u.out);
    } else if (b->elem == RT_RESOURCE || b->elem == RT_VARIANT) {
        struct rt_object **o = data;
        for (size_t i = 0; i < b->size / sizeof *o; i++)
            rt_object_unref(o[i]);
    }
}

void rt_buffer_unref(struct rt_buffer *b)
{
    struct rt_pool *pool;
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (b->elem != RT_NO_DTYPE)
        free_elements(b);
    if (b->kind != RT_BUF_HEAP) {
        if (b->release)
            b->release(b);
        free(b);
    } else if ((pool = atomic_load_explicit(&b->pool, memory_order_relaxed))) {
        pool_give(pool, (struct rt_block *)b);
    } else {
        rt_block_free((struct rt_block *)b);
    }
}
