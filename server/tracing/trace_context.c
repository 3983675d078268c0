#include "server/tracing/trace_context.h"

enum {
    TRACEPARENT_BYTES = SRV_TRACEPARENT_TEXT - 1,
    /* the positions of the fields in a traceparent header */
    TRACE_ID_AT = 3,
    SPAN_ID_AT = 36,
    FLAGS_AT = 53,
    MAX_MEMBERS = 32, /* maximum number of members of a tracestate header */
    MAX_KEY = 256,
    MAX_TENANT = 241, /* maximum length of the part of a key before "@" */
    MAX_SYSTEM = 14,  /* maximum length of the part of a key after "@" */
    MAX_VALUE = 256,
};

/* ---- traceparent ---- */

/* Returns the value of a lower-case hexadecimal digit, or -1. Trace Context does not permit
 * upper-case digits. */
static int digit(unsigned char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads n bytes, written as 2 * n digits. Sets *any to whether a byte differs from 0. */
static bool read_bytes(const unsigned char *p, size_t n, unsigned char *out, bool *any)
{
    *any = false;
    for (size_t i = 0; i < n; i++) {
        const int high = digit(p[2 * i]), low = digit(p[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (unsigned char)(high * 16 + low);
        *any = *any || out[i];
    }
    return true;
}

bool srv_traceparent_parse(struct rt_span value, struct srv_trace_context *out)
{
    struct srv_trace_context c;
    const unsigned char *p = value.p;
    unsigned char version;
    bool any, has_trace, has_span;

    if (value.n < TRACEPARENT_BYTES || p[TRACE_ID_AT - 1] != '-' || p[SPAN_ID_AT - 1] != '-' ||
        p[FLAGS_AT - 1] != '-' || !read_bytes(p, 1, &version, &any) || version == 0xff ||
        !read_bytes(p + TRACE_ID_AT, SRV_TRACE_ID_BYTES, c.trace_id, &has_trace) || !has_trace ||
        !read_bytes(p + SPAN_ID_AT, SRV_SPAN_ID_BYTES, c.span_id, &has_span) || !has_span ||
        !read_bytes(p + FLAGS_AT, 1, &c.flags, &any))
        return false;
    if (value.n > TRACEPARENT_BYTES && (!version || p[TRACEPARENT_BYTES] != '-'))
        return false;
    *out = c;
    return true;
}

static char *write_bytes(char *to, const unsigned char *p, size_t n)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        *to++ = digits[p[i] >> 4];
        *to++ = digits[p[i] & 15];
    }
    return to;
}

void srv_traceparent_write(const struct srv_trace_context *c, char out[SRV_TRACEPARENT_TEXT])
{
    static const unsigned char version = 0;

    char *at = write_bytes(out, &version, 1);
    *at++ = '-';
    at = write_bytes(at, c->trace_id, SRV_TRACE_ID_BYTES);
    *at++ = '-';
    at = write_bytes(at, c->span_id, SRV_SPAN_ID_BYTES);
    *at++ = '-';
    *write_bytes(at, &c->flags, 1) = '\0';
}

void srv_trace_id_write(const struct srv_trace_context *c, char out[SRV_TRACE_ID_TEXT])
{
    *write_bytes(out, c->trace_id, SRV_TRACE_ID_BYTES) = '\0';
}

/* ---- tracestate ---- */

static bool is_lower(unsigned char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_decimal(unsigned char c)
{
    return c >= '0' && c <= '9';
}

/* Returns whether the bytes are a key or one of the two parts of a key. */
static bool is_name(struct rt_span s, size_t most, bool may_begin_with_digit)
{
    if (!s.n || s.n > most || !(is_lower(s.p[0]) || (may_begin_with_digit && is_decimal(s.p[0]))))
        return false;
    for (size_t i = 1; i < s.n; i++)
        if (!is_lower(s.p[i]) && !is_decimal(s.p[i]) && !memchr("_-*/", s.p[i], 4))
            return false;
    return true;
}

static bool is_key(struct rt_span s)
{
    const unsigned char *at = s.n ? memchr(s.p, '@', s.n) : NULL;

    if (!at)
        return is_name(s, MAX_KEY, false);
    const size_t n = (size_t)(at - s.p);
    return is_name(rt_span_of(s.p, n), MAX_TENANT, true) &&
           is_name(rt_span_of(at + 1, s.n - n - 1), MAX_SYSTEM, false);
}

static bool is_value(struct rt_span s)
{
    if (!s.n || s.n > MAX_VALUE || s.p[s.n - 1] == ' ')
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < ' ' || s.p[i] > '~' || s.p[i] == ',' || s.p[i] == '=')
            return false;
    return true;
}

struct rt_span srv_without_blanks(struct rt_span s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t')) {
        s.p++;
        s.n--;
    }
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

static bool is_member(struct rt_span s)
{
    const unsigned char *equals = memchr(s.p, '=', s.n);

    if (!equals)
        return false;
    const size_t n = (size_t)(equals - s.p);
    return is_key(rt_span_of(s.p, n)) && is_value(rt_span_of(equals + 1, s.n - n - 1));
}

bool srv_tracestate_is_valid(struct rt_span value)
{
    int n_members = 0;

    if (!value.n || value.n > SRV_TRACESTATE_MOST)
        return false;
    for (size_t at = 0; at <= value.n;) {
        const struct rt_span rest = rt_span_of(value.p + at, value.n - at);
        const unsigned char *comma = rest.n ? memchr(rest.p, ',', rest.n) : NULL;
        const size_t n = comma ? (size_t)(comma - rest.p) : rest.n;
        const struct rt_span member = srv_without_blanks(rt_span_of(rest.p, n));
        if (member.n && (++n_members > MAX_MEMBERS || !is_member(member)))
            return false;
        at += n + 1;
    }
    return n_members > 0;
}
