#include "runtime/base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/heap.h"

enum { FIRST_BLOCK = 4096, MAX_BLOCK = 1 << 20 };

struct block {
    struct block *next; /* the block that was filled before this one */
    size_t size, used;  /* `size` is the capacity of `data`, and `used` the number of bytes in
                         * use. */
    _Alignas(16) unsigned char data[];
};

struct rt_arena {
    struct block *last, *first;
    size_t cap, total;
    atomic_size_t *count; /* counter to which `total` is added, or NULL if there is none */
    bool is_full;
};

static void set_total(struct rt_arena *a, size_t total)
{
    if (a->count)
        atomic_fetch_add(a->count, total - a->total);
    a->total = total;
}

static struct block *add_block(struct rt_arena *a, size_t need)
{
    size_t size = a->last ? a->last->size * 2 : FIRST_BLOCK;
    if (size > MAX_BLOCK)
        size = MAX_BLOCK;
    if (size < need)
        size = need;
    if (size > a->cap - a->total) {
        size = need;
        if (size > a->cap - a->total) {
            a->is_full = true;
            return NULL;
        }
    }
    if (size > SIZE_MAX - sizeof(struct block))
        return NULL;
    struct block *b = rt_heap_alloc(sizeof *b + size);
    if (!b) {
        a->is_full = false;
        return NULL;
    }
    b->next = a->last;
    b->size = size;
    b->used = 0;
    set_total(a, a->total + size);
    a->last = b;
    if (!a->first)
        a->first = b;
    return b;
}

struct rt_arena *rt_arena_new(size_t cap)
{
    struct rt_arena *a = calloc(1, sizeof *a);
    if (a)
        a->cap = cap;
    return a;
}

void rt_arena_count(struct rt_arena *a, atomic_size_t *count)
{
    atomic_fetch_add(count, a->total);
    a->count = count;
}

void rt_arena_free(struct rt_arena *a)
{
    if (!a)
        return;
    set_total(a, 0);
    for (struct block *b = a->last, *next; b; b = next) {
        next = b->next;
        rt_heap_free(b);
    }
    free(a);
}

void rt_arena_reset(struct rt_arena *a)
{
    for (struct block *b = a->last, *next; b && b != a->first; b = next) {
        next = b->next;
        rt_heap_free(b);
    }
    a->last = a->first;
    a->is_full = false;
    if (a->first)
        a->first->used = 0;
    set_total(a, a->first ? a->first->size : 0);
}

void *rt_arena_aligned(struct rt_arena *a, size_t n, size_t align)
{
    if (align < 16)
        align = 16;
    if (n > SIZE_MAX - align - 16)
        return NULL;
    struct block *b = a->last;
    for (int tries = 0; tries < 2; tries++) {
        if (b) {
            uintptr_t at = (uintptr_t)b->data + b->used;
            size_t skip = (size_t)(-at & (align - 1));
            if (skip <= b->size - b->used && n <= b->size - b->used - skip) {
                b->used += skip + n;
                return (void *)(at + skip);
            }
        }
        b = add_block(a, n + align);
        if (!b)
            return NULL;
    }
    return NULL;
}

void *rt_arena_alloc(struct rt_arena *a, size_t n)
{
    void *p = rt_arena_aligned(a, n, 16);
    if (p)
        memset(p, 0, n);
    return p;
}

void *rt_arena_array(struct rt_arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        return NULL;
    return rt_arena_alloc(a, bytes);
}

char *rt_arena_strndup(struct rt_arena *a, const char *s, size_t n)
{
    if (n == SIZE_MAX)
        return NULL;
    char *p = rt_arena_aligned(a, n + 1, 16);
    if (!p)
        return NULL;
    if (n)
        memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

char *rt_arena_strdup(struct rt_arena *a, const char *s)
{
    return rt_arena_strndup(a, s, strlen(s));
}

char *rt_arena_printf(struct rt_arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : rt_arena_aligned(a, (size_t)n + 1, 16);
    if (p)
        vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

size_t rt_arena_used(const struct rt_arena *a)
{
    return a->total;
}

bool rt_arena_was_full(struct rt_arena *a)
{
    const bool was = a->is_full;
    a->is_full = false;
    return was;
}
