/*
 * Strings are the elements of string tensors. A short string is stored in its element. A longer
 * string is stored in a text (struct rt_text), which copies of the element share.
 *
 * Owner: an element owns its reference to a text; rt_str_clear drops it.
 * Threads: a text's reference count is atomic, and a text is immutable once written. An element
 * itself is plain data, and must not be changed while another thread uses it.
 */
#ifndef RT_STR_H
#define RT_STR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

struct rt_pool;

/*
 * A text stores the bytes of a string that does not fit into its element. A text is immutable once
 * written. Copies of the element share the text, which is freed when no element refers to it any
 * more. If `pool` is not NULL, the text counts against the pool's limit.
 */
struct rt_text {
    atomic_size_t refs;
    size_t capacity; /* number of bytes that the pool counts, including the header */
    /* Pool that counts the text. rt_text_move may change the pool while other threads share the
     * text. */
    _Atomic(struct rt_pool *) pool;
    char p[]; /* the string's bytes, followed by a NUL that the string's length does not include */
};

/*
 * An element of a string tensor. An all-zero element is the empty string. Up to 15 bytes are stored
 * in the element itself. A longer string is stored in a struct rt_text, and the element owns a
 * reference to it. Assignment only moves a string, so the source must be zeroed afterwards.
 * rt_str_copy copies a string.
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
/* Resizes *s and returns its n uninitialised bytes, which the caller must fill in before *s is
 * copied. On failure, returns NULL and sets *s and err as rt_str_set does. */
char *rt_str_resize(struct rt_str *s, struct rt_pool *pool, size_t n, struct rt_error *err);
/* Copies *src to *dst without allocating memory. A long string's struct rt_text is shared. */
void rt_str_copy(struct rt_str *dst, const struct rt_str *src);
void rt_str_clear(struct rt_str *s);

/* ---- texts by themselves ---- */

/* Makes a struct rt_text with n bytes and one reference. The caller fills in the bytes. `pool`
 * counts the memory; if `pool` is NULL, the memory is not counted. Returns NULL on failure; err
 * then names the limit that was reached. */
struct rt_text *rt_text_new(struct rt_pool *pool, size_t n, struct rt_error *err);
void rt_text_unref(struct rt_text *t);
/* Moves a text to another pool, by the same rules as rt_buffer_move (buffer.h). */
enum rt_status rt_text_move(struct rt_text *t, struct rt_pool *to, size_t credit,
                            struct rt_error *err);

#endif
