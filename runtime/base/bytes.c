#include "runtime/base/bytes.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/heap.h"

void rt_bytes_init(struct rt_bytes *b, size_t limit)
{
    *b = (struct rt_bytes){.limit = limit < SIZE_MAX / 2 ? limit : SIZE_MAX / 2};
}

void rt_bytes_clear(struct rt_bytes *b)
{
    rt_heap_free(b->p);
    b->p = NULL;
    b->n = b->capacity = 0;
    b->failed = b->no_memory = false;
}

enum rt_status rt_bytes_fail(const struct rt_bytes *b, const char *what, struct rt_error *err,
                             enum rt_status code, const char *fmt, ...)
{
    va_list ap;
    if (b->no_memory)
        return rt_fail_memory(err, what, b->n);
    va_start(ap, fmt);
    rt_vfail(err, code, fmt, ap);
    va_end(ap);
    return code;
}

/*
 * Chooses the new capacity: `need` bytes plus spare space. The spare space starts at the current
 * capacity, and is halved each time may_grow refuses. The buffer therefore gets at least half of
 * the spare space that may_grow permits, and is rarely moved.
 */
static bool choose_capacity(const struct rt_bytes *b, size_t need, size_t *capacity)
{
    for (size_t spare = b->capacity > 64 ? b->capacity : 64;; spare /= 2) {
        *capacity = spare > b->limit + 1 - need ? b->limit + 1 : need + spare;
        if (!b->may_grow || b->may_grow(b->grow_arg, b->capacity, *capacity))
            return true;
        if (!spare)
            return false;
    }
}

bool rt_bytes_reserve(struct rt_bytes *b, size_t more)
{
    size_t capacity;

    if (b->failed)
        return false;
    if (b->p && more < b->capacity - b->n)
        return true;
    if (more > b->limit - b->n) {
        b->failed = true;
        return false;
    }
    const size_t used = b->p ? b->n + 1 : 0;
    char *p = choose_capacity(b, b->n + more + 1, &capacity) ? rt_heap_resize(b->p, used, capacity)
                                                             : NULL;
    if (!p) {
        b->failed = b->no_memory = true;
        return false;
    }
    b->p = p;
    b->capacity = capacity;
    return true;
}

void rt_bytes_add(struct rt_bytes *b, const void *p, size_t n)
{
    if (!rt_bytes_reserve(b, n))
        return;
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = '\0';
}

void rt_bytes_addc(struct rt_bytes *b, char c)
{
    rt_bytes_add(b, &c, 1);
}

void rt_bytes_adds(struct rt_bytes *b, const char *s)
{
    rt_bytes_add(b, s, strlen(s));
}

void rt_bytes_addf(struct rt_bytes *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        b->failed = true;
    else if (rt_bytes_reserve(b, (size_t)n)) {
        vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
}

void rt_bytes_add_varint(struct rt_bytes *b, uint64_t v)
{
    char bytes[10];
    size_t n = 0;

    for (; v > 0x7f; v >>= 7)
        bytes[n++] = (char)(v | 0x80);
    bytes[n++] = (char)v;
    rt_bytes_add(b, bytes, n);
}

void rt_bytes_add_utf8(struct rt_bytes *b, uint32_t c)
{
    if (c < 0x80) {
        rt_bytes_addc(b, (char)c);
    } else if (c < 0x800) {
        rt_bytes_addc(b, (char)(0xc0 | c >> 6));
        rt_bytes_addc(b, (char)(0x80 | (c & 63)));
    } else if (c < 0x10000) {
        rt_bytes_addc(b, (char)(0xe0 | c >> 12));
        rt_bytes_addc(b, (char)(0x80 | (c >> 6 & 63)));
        rt_bytes_addc(b, (char)(0x80 | (c & 63)));
    } else {
        rt_bytes_addc(b, (char)(0xf0 | c >> 18));
        rt_bytes_addc(b, (char)(0x80 | (c >> 12 & 63)));
        rt_bytes_addc(b, (char)(0x80 | (c >> 6 & 63)));
        rt_bytes_addc(b, (char)(0x80 | (c & 63)));
    }
}

int rt_utf8_length(const unsigned char *p)
{
    int n = p[0] < 0x80   ? 1
            : p[0] < 0xc2 ? 0
            : p[0] < 0xe0 ? 2
            : p[0] < 0xf0 ? 3
            : p[0] < 0xf5 ? 4
                          : 0;

    for (int i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) /* the NUL at the end of the text also stops the loop */
            return 0;
    /* Refuses overlong UTF-8 sequences, surrogates and code points above U+10FFFF. */
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

bool rt_utf8_is_valid(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;

    for (int n; *p; p += n) {
        n = rt_utf8_length(p);
        if (!n)
            return false;
    }
    return true;
}

void rt_bytes_make_utf8(struct rt_bytes *b, size_t from)
{
    static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
    const size_t n = b->n - from;
    size_t n_invalid = 0;

    for (size_t at = from, length; at < b->n; at += length ? length : 1) {
        length = (size_t)rt_utf8_length((const unsigned char *)b->p + at);
        n_invalid += length == 0;
    }
    if (!n_invalid || !rt_bytes_reserve(b, 2 * n_invalid))
        return;
    /* Moves the text to the end of the enlarged buffer, so that the output, which is written from
     * the beginning, overwrites no unread byte. */
    char *dst = b->p + from, *src = dst + 2 * n_invalid, *end = src + n;
    memmove(src, dst, n + 1);
    while (src < end) {
        const size_t length = (size_t)rt_utf8_length((const unsigned char *)src);
        memmove(dst, length ? src : replacement, length ? length : 3);
        dst += length ? length : 3;
        src += length ? length : 1;
    }
    b->n += 2 * n_invalid;
}

char *rt_bytes_take(struct rt_bytes *b, size_t *n)
{
    if (b->failed || !b->p)
        return NULL;
    char *p = b->p;
    if (n)
        *n = b->n;
    b->p = NULL;
    b->n = b->capacity = 0;
    return p;
}
