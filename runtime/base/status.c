#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/arena.h"

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
    else if ((size_t)n >= sizeof err->msg && err->arena) {
        char *whole = rt_arena_alloc(err->arena, (size_t)n + 1);
        if (whole) {
            vsnprintf(whole, (size_t)n + 1, fmt, again);
            err->long_msg = whole;
        }
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
