/* A span is a view of bytes that it does not own. The bytes must outlive the span. */
#ifndef RT_BASE_SPAN_H
#define RT_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct rt_span {
    const unsigned char *p;
    size_t n;
};

static inline struct rt_span rt_span_of(const void *p, size_t n)
{
    return (struct rt_span){.p = p, .n = n};
}

static inline struct rt_span rt_span_str(const char *s)
{
    return rt_span_of(s, strlen(s));
}

static inline bool rt_span_eq(struct rt_span a, struct rt_span b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool rt_span_is(struct rt_span a, const char *s)
{
    return rt_span_eq(a, rt_span_str(s));
}

#endif
