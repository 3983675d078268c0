/*
 * A bump allocator with a hard cap. An arena contains everything that one request decodes, or the
 * graph and plans of one version. Freeing the arena frees everything in it.
 *
 * Owner: the request or version. Threads: the functions take no lock; an arena is used by one
 * thread at a time.
 */
#ifndef RT_BASE_ARENA_H
#define RT_BASE_ARENA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

struct rt_arena;

/* Makes an arena that allocates at most `cap` bytes, or any number of bytes if `cap` is SIZE_MAX.
 * Returns NULL if out of memory. */
struct rt_arena *rt_arena_new(size_t cap);
/* Makes *count include the bytes that the arena has allocated from the system, until the arena is
 * freed. May be called at most once for an arena. */
void rt_arena_count(struct rt_arena *a, atomic_size_t *count);
void rt_arena_free(struct rt_arena *a); /* does nothing if `a` is NULL */
/* Frees all blocks except the first block, so that the arena can serve the next request. */
void rt_arena_reset(struct rt_arena *a);

/* Returns n zeroed bytes, aligned to 16 bytes. Returns NULL if the cap is reached or memory runs
 * out; the arena stays usable. */
void *rt_arena_alloc(struct rt_arena *a, size_t n);
/* Allocates an array of n elements of `size` bytes as rt_arena_alloc does. Also returns NULL if the
 * product of n and `size` overflows. */
void *rt_arena_array(struct rt_arena *a, size_t n, size_t size);
/* Returns n bytes that are not zeroed, aligned to `align` bytes (at most 4096). */
void *rt_arena_aligned(struct rt_arena *a, size_t n, size_t align);
char *rt_arena_strdup(struct rt_arena *a, const char *s);
char *rt_arena_strndup(struct rt_arena *a, const char *s, size_t n);
char *rt_arena_printf(struct rt_arena *a, const char *fmt, ...) RT_PRINTF(2, 3);
/* Returns whether the cap, rather than a lack of memory, caused the last allocation failure.
 * Returns false if no allocation has failed since the previous call of this function. */
bool rt_arena_was_full(struct rt_arena *a);
size_t rt_arena_used(const struct rt_arena *a);

#endif
