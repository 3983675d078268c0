/*
 * A growing byte buffer. Its size limit is set when the buffer is made.
 *
 * An append fails if it would exceed the limit or if memory runs out. A failed append sets `failed`
 * and changes nothing else. Later appends do nothing, so a writer may append a complete document
 * and check `failed` once, at the end. Threads: a buffer is used by one thread at a time.
 */
#ifndef RT_BASE_BYTES_H
#define RT_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

struct rt_bytes {
    /* n bytes and a terminating NUL; NULL until something is appended */
    char *p;
    size_t n, capacity, limit;
    bool failed;
    bool no_memory; /* whether a lack of memory, not the limit, caused the failure */
    /* If not NULL, this function is called before the buffer grows from `capacity` to `wanted`
     * bytes, and returns whether the buffer may grow. After a refusal, it may be called again with
     * a smaller `wanted`. If it refuses all sizes, the buffer fails as if memory had run out. */
    bool (*may_grow)(void *arg, size_t capacity, size_t wanted);
    void *grow_arg;
};

void rt_bytes_init(struct rt_bytes *b, size_t limit);
void rt_bytes_clear(struct rt_bytes *b); /* frees the bytes; limit and may_grow stay unchanged */
bool rt_bytes_reserve(struct rt_bytes *b, size_t more);
static inline void rt_bytes_no_memory(struct rt_bytes *b)
{
    b->failed = b->no_memory = true;
}
/* Sets *err to the reason why a buffer has failed. If memory ran out, the error is
 * RT_RESOURCE_EXHAUSTED and names `what`. If the limit was reached, the error has the given code
 * and text. */
enum rt_status rt_bytes_fail(const struct rt_bytes *b, const char *what, struct rt_error *err,
                             enum rt_status code, const char *fmt, ...) RT_PRINTF(5, 6);
void rt_bytes_add(struct rt_bytes *b, const void *p, size_t n);
void rt_bytes_addc(struct rt_bytes *b, char c);
void rt_bytes_adds(struct rt_bytes *b, const char *s);
void rt_bytes_addf(struct rt_bytes *b, const char *fmt, ...) RT_PRINTF(2, 3);
/* Appends the character U+c as UTF-8; c is at most 0x10ffff. */
void rt_bytes_add_utf8(struct rt_bytes *b, uint32_t c);
/* Appends v as a varint of protocol buffers: 7 bits per byte, the low bits first. */
void rt_bytes_add_varint(struct rt_bytes *b, uint64_t v);
/* Returns the length in bytes of the UTF-8 character at p in a NUL-terminated string, or 0 if the
 * character is invalid. */
int rt_utf8_length(const unsigned char *p);
/* Returns whether a NUL-terminated string is valid UTF-8. */
bool rt_utf8_is_valid(const char *text);
/* Replaces each invalid byte with U+FFFD, beginning at offset `from`. A byte is invalid if it is
 * not part of a valid UTF-8 character. */
void rt_bytes_make_utf8(struct rt_bytes *b, size_t from);
/* Makes `p` the contents of an empty buffer. `p` has n bytes and was allocated with malloc. */
static inline void rt_bytes_own(struct rt_bytes *b, void *p, size_t n)
{
    b->p = p;
    b->n = b->capacity = n;
}
/* Returns the contents of `b` and leaves `b` empty. The caller must free the contents. Returns NULL
 * if `b` was empty or has failed. */
char *rt_bytes_take(struct rt_bytes *b, size_t *n);

#endif
