/*
 * Bump allocator with a hard cap: what one request decodes, or what one version's graph and plans
 * hold, lives and dies together.
 *
 * Threads: none of these calls lock; an arena belongs to whoever holds its request or version.
 */
#ifndef RT_BASE_ARENA_H
#define RT_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

struct rt_arena;

/* `cap`: the most bytes it will ever hold, SIZE_MAX for no limit. NULL: out of memory. */
struct rt_arena *rt_arena_new(size_t cap);
void rt_arena_free(struct rt_arena *a); /* NULL is fine */
/* Gives everything back but the first block, so that it can serve the next request. */
void rt_arena_reset(struct rt_arena *a);

/* 16-byte aligned, zeroed. NULL when the cap is reached or memory is out; it stays usable. */
void *rt_arena_alloc(struct rt_arena *a, size_t n);
/* n * size, NULL also when the product overflows. */
void *rt_arena_array(struct rt_arena *a, size_t n, size_t size);
void *rt_arena_aligned(struct rt_arena *a, size_t n, size_t align); /* not zeroed; align <= 4096 */
char *rt_arena_strdup(struct rt_arena *a, const char *s);
char *rt_arena_strndup(struct rt_arena *a, const char *s, size_t n); /* ends in NUL */
char *rt_arena_printf(struct rt_arena *a, const char *fmt, ...) RT_PRINTF(2, 3);
/* Whether something was refused because of the cap since the last call, and nothing after it for
 * want of memory. */
bool rt_arena_was_full(struct rt_arena *a);
size_t rt_arena_used(const struct rt_arena *a); /* bytes taken from the system */

#endif
