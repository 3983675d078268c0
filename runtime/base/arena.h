/*
 * A bump allocator with a hard cap. One arena holds all that a request decodes, or all of a
 * version's graph and plans, and frees it together.
 *
 * Owner: the request or version. Threads: none of these functions lock; one thread at a time uses
 * an arena.
 */
#ifndef RT_BASE_ARENA_H
#define RT_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

struct rt_arena;

/* `cap`: the most bytes that the arena may take; SIZE_MAX: no limit. NULL: out of memory. */
struct rt_arena *rt_arena_new(size_t cap);
void rt_arena_free(struct rt_arena *a); /* NULL is fine */
/* Frees all blocks but the first, so that the arena can serve the next request. */
void rt_arena_reset(struct rt_arena *a);

/* n zeroed bytes, 16-byte aligned. NULL: the cap is reached, or out of memory; the arena stays
 * usable. */
void *rt_arena_alloc(struct rt_arena *a, size_t n);
/* As rt_arena_alloc, n * size bytes. NULL also if the product overflows. */
void *rt_arena_array(struct rt_arena *a, size_t n, size_t size);
void *rt_arena_aligned(struct rt_arena *a, size_t n, size_t align); /* not zeroed; align <= 4096 */
char *rt_arena_strdup(struct rt_arena *a, const char *s);
char *rt_arena_strndup(struct rt_arena *a, const char *s, size_t n); /* adds a NUL */
char *rt_arena_printf(struct rt_arena *a, const char *fmt, ...) RT_PRINTF(2, 3);
/* Whether the last refusal since the previous call of this function was because of the cap, not for
 * lack of memory. */
bool rt_arena_was_full(struct rt_arena *a);
size_t rt_arena_used(const struct rt_arena *a); /* bytes taken from the system */

#endif
