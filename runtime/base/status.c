#include "runtime/base/status.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/arena.h"

/* Removes the last character of a truncated text of n bytes if it is a UTF-8 character of several
 * bytes, because truncation may have cut it. */
static void end_at_character(char *text, size_t n)
{
    size_t last = n;
    while (last && n - last < 4 && ((unsigned char)text[last - 1] & 0xc0) == 0x80)
        last--;
    if (last && ((unsigned char)text[last - 1] & 0xc0) == 0xc0)
        text[last - 1] = '\0';
}

enum rt_status rt_vfail(struct rt_error *err, enum rt_status code, const char *fmt, va_list ap)
{
    if (!err)
        return code;
    va_list again;
    va_copy(again, ap);
    err->code = code;
    err->long_msg = NULL;
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    if (n < 0)
        err->msg[0] = '\0';
    else if ((size_t)n >= sizeof err->msg) {
        const size_t size = n < RT_MAX_ERROR_BYTES ? (size_t)n + 1 : RT_MAX_ERROR_BYTES;
        char *whole = err->arena ? rt_arena_alloc(err->arena, size) : NULL;
        if (whole) {
            vsnprintf(whole, size, fmt, again);
            if ((size_t)n >= size)
                end_at_character(whole, size - 1);
            err->long_msg = whole;
        }
        end_at_character(err->msg, sizeof err->msg - 1);
    }
    va_end(again);
    return code;
}

enum rt_status rt_fail(struct rt_error *err, enum rt_status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    rt_vfail(err, code, fmt, ap);
    va_end(ap);
    return code;
}

enum rt_status rt_fail_prefix(struct rt_error *err, const char *fmt, ...)
{
    if (!err)
        return RT_UNKNOWN;
    char prefix[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, ap);
    va_end(ap);
    struct rt_error old = *err;
    return rt_fail(err, old.code, "%s%s", prefix, rt_error_text(&old));
}

enum rt_status rt_fail_memory(struct rt_error *err, const char *what, size_t bytes)
{
    return rt_fail(err, RT_RESOURCE_EXHAUSTED, "out of memory: %zu bytes for %s", bytes, what);
}

void rt_error_copy(struct rt_error *dst, const struct rt_error *src)
{
    if (dst)
        rt_fail(dst, src->code, "%s", rt_error_text(src));
}

const char *rt_error_text(const struct rt_error *err)
{
    return err->long_msg ? err->long_msg : err->msg;
}

struct rt_span rt_error_name(const struct rt_error *err, struct rt_span name)
{
    size_t at = 0, n_nul = 0;

    if (name.n > RT_MAX_ERROR_BYTES)
        name.n = RT_MAX_ERROR_BYTES;
    for (size_t i = 0; i < name.n; i++)
        n_nul += name.p[i] == 0;
    char *copy = n_nul && err && err->arena ? rt_arena_alloc(err->arena, name.n + n_nul) : NULL;
    if (!copy)
        return name;
    for (size_t i = 0; i < name.n; i++) {
        if (!name.p[i])
            copy[at++] = '\xc0';
        copy[at++] = name.p[i] ? (char)name.p[i] : '\x80';
    }
    return rt_span_of(copy, at);
}

size_t rt_error_decode(char *dst, size_t capacity, const char *text)
{
    size_t n = 0;

    for (const char *p = text; *p; p++, n++) {
        const bool is_nul = p[0] == '\xc0' && p[1] == '\x80';
        if (n < capacity)
            dst[n] = is_nul ? '\0' : *p;
        p += is_nul;
    }
    return n;
}

const char *rt_status_name(enum rt_status s)
{
    switch (s) {
#define X(name, grpc, http, text)                                                                  \
    case name:                                                                                     \
        return text;
        RT_STATUS_LIST(X)
#undef X
    }
    return "UNKNOWN";
}

int rt_status_http(enum rt_status s)
{
    switch (s) {
#define X(name, grpc, http, text)                                                                  \
    case name:                                                                                     \
        return http;
        RT_STATUS_LIST(X)
#undef X
    }
    return 500;
}
