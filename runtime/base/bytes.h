/*
 * A growing run of bytes that cannot be made without saying how large it may get.
 *
 * Appending past the limit, or out of memory, sets `failed` and changes nothing else; later calls
 * do nothing, so that a writer can append a whole document and ask once at the end.
 * Threads: whoever holds it.
 */
#ifndef RT_BASE_BYTES_H
#define RT_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

struct rt_bytes {
    char *p; /* always ends in a NUL that n does not count, once anything was appended */
    size_t n, capacity, limit;
    bool failed;
    bool no_memory; /* why: there was none; else the limit */
    /* NULL, or asked before the memory grows from `room` to `wanted` bytes: false is as out of
     * memory. It may be asked again with less. */
    bool (*may_grow)(void *arg, size_t capacity, size_t wanted);
    void *grow_arg;
};

void rt_bytes_init(struct rt_bytes *b, size_t limit);
void rt_bytes_clear(struct rt_bytes *b); /* frees; keeps the limit and may_grow */
bool rt_bytes_reserve(struct rt_bytes *b, size_t more);
/* As if an appending call had found no memory. */
static inline void rt_bytes_no_memory(struct rt_bytes *b)
{
    b->failed = b->no_memory = true;
}
/* The status of what has failed: RESOURCE_EXHAUSTED for want of memory for `what`, else `code`,
 * said by the format. */
enum rt_status rt_bytes_fail(const struct rt_bytes *b, const char *what, struct rt_error *err,
                             enum rt_status code, const char *fmt, ...) RT_PRINTF(5, 6);
void rt_bytes_add(struct rt_bytes *b, const void *p, size_t n);
void rt_bytes_addc(struct rt_bytes *b, char c);
void rt_bytes_adds(struct rt_bytes *b, const char *s);
void rt_bytes_addf(struct rt_bytes *b, const char *fmt, ...) RT_PRINTF(2, 3);
/* The character U+c in UTF-8; c is at most 0x10ffff. */
void rt_bytes_add_utf8(struct rt_bytes *b, uint32_t c);
/* The bytes, for free(); b is empty afterwards. NULL when empty or failed. */
char *rt_bytes_take(struct rt_bytes *b, size_t *n);

#endif
