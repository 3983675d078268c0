/*
 * A growing buffer of bytes with a limit, which must be given when it is made.
 *
 * An append that would exceed the limit, or finds no memory, sets `failed` and changes nothing
 * else. Later appends do nothing, so a writer may append a whole document and check `failed` once,
 * at the end. Threads: one at a time.
 */
#ifndef RT_BASE_BYTES_H
#define RT_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

struct rt_bytes {
    char *p; /* NULL until something is appended; then ends with a NUL, which n excludes */
    size_t n, capacity, limit;
    bool failed;
    bool no_memory; /* why it failed: true: no memory; false: the limit */
    /* Called before the memory grows from `capacity` to `wanted` bytes; false counts as out of
     * memory. It may be called again with a smaller number. NULL: none. */
    bool (*may_grow)(void *arg, size_t capacity, size_t wanted);
    void *grow_arg;
};

void rt_bytes_init(struct rt_bytes *b, size_t limit);
void rt_bytes_clear(struct rt_bytes *b); /* frees the bytes; keeps limit and may_grow */
bool rt_bytes_reserve(struct rt_bytes *b, size_t more);
/* Fails the buffer as if an append had found no memory. */
static inline void rt_bytes_no_memory(struct rt_bytes *b)
{
    b->failed = b->no_memory = true;
}
/* The error of a failed buffer: RT_RESOURCE_EXHAUSTED, naming `what`, if there was no memory; else,
 * for the limit, `code` with the formatted text. */
enum rt_status rt_bytes_fail(const struct rt_bytes *b, const char *what, struct rt_error *err,
                             enum rt_status code, const char *fmt, ...) RT_PRINTF(5, 6);
void rt_bytes_add(struct rt_bytes *b, const void *p, size_t n);
void rt_bytes_addc(struct rt_bytes *b, char c);
void rt_bytes_adds(struct rt_bytes *b, const char *s);
void rt_bytes_addf(struct rt_bytes *b, const char *fmt, ...) RT_PRINTF(2, 3);
/* Appends the character U+c in UTF-8; c is at most 0x10ffff. */
void rt_bytes_add_utf8(struct rt_bytes *b, uint32_t c);
/* Returns the bytes, for free(), and leaves b empty. NULL: b was empty or has failed. */
char *rt_bytes_take(struct rt_bytes *b, size_t *n);

#endif
