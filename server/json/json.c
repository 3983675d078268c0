/* Iterates over JSON text that srv_json_check has accepted. */
#include "server/json/json.h"

#include <string.h>

#include "server/json/json_internal.h"

enum srv_json_type srv_json_type(struct srv_json v)
{
    switch (*v.p) {
    case '{':
        return SRV_JSON_OBJECT;
    case '[':
        return SRV_JSON_ARRAY;
    case '"':
        return SRV_JSON_STRING;
    case 'n':
        return SRV_JSON_NULL;
    case 't':
        return SRV_JSON_TRUE;
    case 'f':
        return SRV_JSON_FALSE;
    default:
        return SRV_JSON_NUMBER;
    }
}

const char *srv_json_type_name(struct srv_json v)
{
    static const char *const names[] = {"Null",  "False",  "True",  "Object",
                                        "Array", "String", "Number"};
    return names[srv_json_type(v)];
}

/* Returns the address of the byte after a string whose opening quote is at p. */
static const unsigned char *after_string(const unsigned char *p, const unsigned char *end)
{
    p++;
    for (;;) {
        p = srv_json_plain(p, end);
        if (p >= end)
            return end;
        if (*p == '"')
            return p + 1;
        p += *p == '\\' && end - p > 1 ? 2 : 1;
    }
}

/* Number of bytes that are skipped between two checks for cancellation. */
enum { PIECE = 1 << 20 };

/* Returns whether reading should continue at `p`. The last check for cancellation was at *since. */
static bool go_on(struct srv_json v, const unsigned char *p, const unsigned char **since)
{
    const size_t n = (size_t)(p - *since);
    if (n < PIECE)
        return true;
    *since = p;
    return srv_should_continue(v.cancellation, n);
}

static bool ends_scalar(unsigned char c)
{
    return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static const unsigned char *after_scalar(const unsigned char *p, const unsigned char *end)
{
    while (p < end && !ends_scalar(*p))
        p++;
    return p;
}

/* Returns the address of the first bracket or quote at or after p. */
static const unsigned char *next_bracket(const unsigned char *p, const unsigned char *end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7, low = ~tops;
    uint64_t w;
    while (end - p >= 8) {
        memcpy(&w, p, 8);
        /* The bit 0x20 changes '[' to '{' and ']' to '}'. A zero byte in `open`, `close` or `quote`
         * then marks a bracket or a quote. */
        uint64_t fold = w | ones * 0x20;
        uint64_t open = fold ^ (ones * '{'), close = fold ^ (ones * '}'), quote = w ^ (ones * '"');
        uint64_t hit = ~((((open & low) + low) | open) & (((close & low) + low) | close) &
                         (((quote & low) + low) | quote)) &
                       tops;
        if (!hit) {
            p += 8;
            continue;
        }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        return p + (__builtin_ctzll(hit) >> 3);
#else
        break;
#endif
    }
    while (p < end && *p != '[' && *p != ']' && *p != '{' && *p != '}' && *p != '"')
        p++;
    return p;
}

/* Returns the number of bytes in `tops` that are 0x80. All other bytes must be zero. */
static size_t count_tops(uint64_t tops)
{
    return (size_t)((tops >> 7) * UINT64_C(0x0101010101010101) >> 56);
}

/*
 * Skips nested arrays of plain values, eight bytes at a time, and counts their brackets in *depth.
 * Stops at eight bytes with a quote, or with a bracket that may close the outermost array.
 */
static const unsigned char *skip_nested(const unsigned char *p, const unsigned char *end,
                                        size_t *depth)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7, low = ~tops;
    size_t d = *depth;
    uint64_t w;
    for (; end - p >= 8; p += 8) {
        memcpy(&w, p, 8);
        /* the bit 0x20 changes '[' to '{' and ']' to '}' */
        const uint64_t fold = w | ones * 0x20;
        const uint64_t open = fold ^ (ones * '{'), close = fold ^ (ones * '}');
        const uint64_t quote = w ^ (ones * '"');
        if ((((quote & low) + low) | quote | low) != ~UINT64_C(0))
            break;
        const size_t n_close = count_tops(~(((close & low) + low) | close) & tops);
        if (n_close >= d)
            break;
        d += count_tops(~(((open & low) + low) | open) & tops) - n_close;
    }
    *depth = d;
    return p;
}

const unsigned char *srv_json_after(struct srv_json v)
{
    const unsigned char *p = v.p;
    if (*p == '"')
        return after_string(p, v.end);
    if (*p != '{' && *p != '[')
        return after_scalar(p, v.end);
    size_t depth = 0; /* the brackets are balanced, so one counter suffices for both kinds */
    const unsigned char *since = p;
    for (;;) {
        const unsigned char *end = v.end - p > PIECE ? p + PIECE : v.end;
        p = next_bracket(skip_nested(p, end, &depth), end);
        if (p >= v.end || !go_on(v, p, &since))
            return v.end;
        if (p >= end)
            continue;
        if (*p == '"') {
            p = after_string(p, v.end);
            continue;
        }
        if (*p == '{' || *p == '[')
            depth++;
        else if (--depth == 0)
            return p + 1;
        p++;
    }
}

const unsigned char *srv_json_first(struct srv_json v)
{
    return srv_json_space(v.p + 1, v.end);
}

/* Moves *at past the next comma, or to the closing bracket if no comma follows. */
static void step(const unsigned char **at, const unsigned char *end)
{
    const unsigned char *p = srv_json_space(*at, end);
    if (p < end && *p == ',')
        p = srv_json_space(p + 1, end);
    *at = p;
}

bool srv_json_next(const unsigned char **at, struct srv_json v, struct srv_json *value)
{
    const unsigned char *p = *at;
    if (p >= v.end || *p == ']')
        return false;
    *value = (struct srv_json){p, v.end, v.cancellation};
    *at = srv_json_after(*value);
    step(at, v.end);
    return srv_should_continue(v.cancellation, (size_t)(*at - p));
}

bool srv_json_member(const unsigned char **at, struct srv_json v, struct rt_span *key,
                     struct srv_json *value)
{
    const unsigned char *p = *at, *start = p, *end = v.end;
    if (p >= end || *p != '"')
        return false;
    const unsigned char *after = after_string(p, end);
    *key = rt_span_of(p, (size_t)(after - p));
    p = srv_json_space(after, end);
    p = srv_json_space(p < end ? p + 1 : p, end);
    if (p >= end)
        return false;
    *value = (struct srv_json){p, end, v.cancellation};
    *at = srv_json_after(*value);
    step(at, end);
    return srv_should_continue(v.cancellation, (size_t)(*at - start));
}

/* Counts the commas in the n bytes at p, eight bytes at a time. */
static int64_t count_commas(const unsigned char *p, size_t n)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), low = ones * 0x7f;
    int64_t count = 0;
    uint64_t w;
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&w, p, 8);
        w ^= ones * ',';
        count += __builtin_popcountll(~(((w & low) + low) | w) & ~low);
    }
    for (; n; p++, n--)
        count += *p == ',';
    return count;
}

int64_t srv_json_count(struct srv_json v)
{
    int64_t n = 0;
    const unsigned char *at = srv_json_first(v), *stop;
    struct srv_json value;
    struct rt_span key;
    /* A list of plain values, the common case, has one more element than it has commas. */
    if (*v.p == '[' && at < v.end && *at != '[' && *at != '{' && *at != '"' && *at != ']' &&
        (stop = memchr(at, ']', (size_t)(v.end - at))) != NULL) {
        size_t length = (size_t)(stop - at);
        if (!memchr(at, '"', length) && !memchr(at, '[', length) && !memchr(at, '{', length))
            return count_commas(at, length) + 1;
    }
    if (*v.p == '{')
        while (srv_json_member(&at, v, &key, &value))
            n++;
    else
        while (srv_json_next(&at, v, &value))
            n++;
    return n;
}

struct rt_span srv_json_token(struct srv_json string)
{
    return rt_span_of(string.p, (size_t)(after_string(string.p, string.end) - string.p));
}
