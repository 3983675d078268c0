/*
 * Strings are the elements of string tensors. A short string is stored in its element, and a longer
 * one is stored in a separate text that copies of the element share.
 *
 * Owner: an element owns its reference to a text; rt_str_clear drops it.
 * Threads: a text's reference count is atomic, and a text is immutable once written. An element
 * itself is plain data, which one thread at a time may change.
 */
#ifndef RT_STR_H
#define RT_STR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

struct rt_pool;

/*
 * A text holds the bytes of a string that does not fit into its element. It is immutable once
 * written. Copies of the element share the text, and the text is freed with the last of these
 * elements. The text counts against the limit of `pool`. If `pool` is NULL, the text counts against
 * no limit.
 */
struct rt_text {
    atomic_size_t refs;
    size_t capacity; /* number of bytes that the pool counts, for the header and the text */
    /* pool that counts the text; rt_text_move may change it while other threads share the text */
    _Atomic(struct rt_pool *) pool;
    char p[]; /* the string's bytes, followed by a NUL that the string's length does not include */
};

/*
 * An element of a string tensor. An all-zero element is the empty string. Up to 15 bytes are stored
 * in the element itself; for a longer string the element holds a reference to a text. Assignment
 * only moves a string, so the source must be zeroed afterwards. rt_str_copy copies a string.
 */
struct rt_str {
    union {
        char in[16];
        struct rt_text *out;
    } u;
    size_t n;
};

static inline const char *rt_str_data(const struct rt_str *s)
{
    return s->n < sizeof s->u.in ? s->u.in : s->u.out->p;
}
/* Returns the number of bytes that a string of n bytes needs in addition to its element. */
static inline size_t rt_str_counted_bytes(size_t n)
{
    return n < sizeof(struct rt_str) - sizeof(size_t) ? 0 : sizeof(struct rt_text) + n + 1;
}
/* Replaces *s with a copy of the n bytes at `p`. These bytes may be part of *s. `pool` counts the
 * memory; if `pool` is NULL, the memory is not counted. If this function returns false, *s is the
 * empty string, and err names the limit that was reached. */
bool rt_str_set(struct rt_str *s, struct rt_pool *pool, const void *p, size_t n,
                struct rt_error *err);
/* Resizes *s and returns its n uninitialised bytes. The caller must fill in these bytes before *s
 * is copied. Returns NULL if rt_str_set would fail. */
char *rt_str_resize(struct rt_str *s, struct rt_pool *pool, size_t n, struct rt_error *err);
/* Makes *dst a copy that shares the text of *src. Allocates nothing. */
void rt_str_copy(struct rt_str *dst, const struct rt_str *src);
void rt_str_clear(struct rt_str *s);

/* ---- texts by themselves ---- */

/* Makes a text of n bytes for the caller to fill in. The text has one reference. `pool` counts its
 * memory; if `pool` is NULL, nothing counts the memory. Returns NULL on failure; err names the
 * limit that is reached. */
struct rt_text *rt_text_new(struct rt_pool *pool, size_t n, struct rt_error *err);
void rt_text_unref(struct rt_text *t);
/* Moves a text to another pool, by the same rules as rt_buffer_move (buffer.h). */
enum rt_status rt_text_move(struct rt_text *t, struct rt_pool *to, size_t credit,
                            struct rt_error *err);

#endif
