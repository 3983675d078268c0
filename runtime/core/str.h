/*
 * Strings: the elements of string tensors. A short string lies in its element, a longer one in a
 * text that copies of the element share.
 *
 * Owner: an element owns its reference to a text; rt_str_clear drops it.
 * Threads: a text's reference count is atomic, and a text is immutable once written. An element
 * itself is plain data, which one thread changes at a time.
 */
#ifndef RT_STR_H
#define RT_STR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

struct rt_pool;

/*
 * A text: the bytes of a string that does not fit into its element. A text is immutable once
 * written. Copies of the element share it, and it is freed with the last of them. It counts against
 * the limit of its pool (NULL: no limit).
 */
struct rt_text {
    atomic_size_t refs;
    size_t capacity;                /* bytes that the pool counts: the header and the text */
    _Atomic(struct rt_pool *) pool; /* rt_text_move changes it while others share the text */
    char p[]; /* ends with a NUL, which the string's length does not include */
};

/*
 * An element of a string tensor. All zero is the empty string. Up to 15 bytes are stored in the
 * element itself; a longer string holds a reference to its text. Assignment only moves a string:
 * the source must be zeroed. rt_str_copy copies.
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
/* The bytes that a string of n bytes takes in addition to its element. */
static inline size_t rt_str_counted_bytes(size_t n)
{
    return n < sizeof(struct rt_str) - sizeof(size_t) ? 0 : sizeof(struct rt_text) + n + 1;
}
/* Replaces *s by a copy of n bytes at `p`, which may lie in *s itself. The memory counts in `pool`
 * (NULL: no limit). False: *s is the empty string, and err says which limit was reached. */
bool rt_str_set(struct rt_str *s, struct rt_pool *pool, const void *p, size_t n,
                struct rt_error *err);
/* As rt_str_set, but returns n uninitialised bytes, which the caller fills in before *s is copied.
 * NULL: where rt_str_set returns false. */
char *rt_str_resize(struct rt_str *s, struct rt_pool *pool, size_t n, struct rt_error *err);
/* *dst becomes a copy that shares the text of *src: nothing is allocated. */
void rt_str_copy(struct rt_str *dst, const struct rt_str *src);
void rt_str_clear(struct rt_str *s);

/* ---- texts by themselves ---- */

/* A text of n bytes, which the caller fills in; with one reference, counted in `pool` (NULL: not).
 * NULL: err says which limit is reached. */
struct rt_text *rt_text_new(struct rt_pool *pool, size_t n, struct rt_error *err);
void rt_text_unref(struct rt_text *t);
/* Moves a text to another pool, as rt_buffer_move (buffer.h) moves a buffer. */
enum rt_status rt_text_move(struct rt_text *t, struct rt_pool *to, size_t credit,
                            struct rt_error *err);

#endif
