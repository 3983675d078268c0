/* Strings of JSON and what stands in them: escapes, base64, and values as errors show them. */
#include <stdlib.h>
#include <string.h>

#include "server/json.h"
#include "server/json_number.h"
#include "server/json_parts.h"

/* ---- tokens read ---- */

static unsigned hex4(const unsigned char *p)
{
    unsigned u = 0;
    for (int i = 0; i < 4; i++)
        u = u << 4 | (unsigned)srv_json_hex(p[i]);
    return u;
}

static size_t put_utf8(char *dst, unsigned u)
{
    char b[4];
    size_t n;
    if (u < 0x80) {
        b[0] = (char)u;
        n = 1;
    } else if (u < 0x800) {
        b[0] = (char)(0xc0 | u >> 6);
        b[1] = (char)(0x80 | (u & 0x3f));
        n = 2;
    } else if (u < 0x10000) {
        b[0] = (char)(0xe0 | u >> 12);
        b[1] = (char)(0x80 | (u >> 6 & 0x3f));
        b[2] = (char)(0x80 | (u & 0x3f));
        n = 3;
    } else {
        b[0] = (char)(0xf0 | u >> 18);
        b[1] = (char)(0x80 | (u >> 12 & 0x3f));
        b[2] = (char)(0x80 | (u >> 6 & 0x3f));
        b[3] = (char)(0x80 | (u & 0x3f));
        n = 4;
    }
    if (dst)
        memcpy(dst, b, n);
    return n;
}

size_t srv_json_unquote(char *dst, struct rt_span token)
{
    const unsigned char *p = token.p + 1, *end = token.p + token.n - 1;
    size_t n = 0;
    while (p < end) {
        const unsigned char *run = memchr(p, '\\', (size_t)(end - p));
        size_t plain = (size_t)((run ? run : end) - p);
        if (dst)
            memcpy(dst + n, p, plain);
        n += plain;
        p += plain;
        if (p >= end)
            break;
        unsigned char c = p[1];
        p += 2;
        if (c == 'u') {
            unsigned u = hex4(p);
            p += 4;
            if (u >= 0xd800 && u <= 0xdbff) {
                u = 0x10000 + ((u - 0xd800) << 10) + (hex4(p + 2) - 0xdc00);
                p += 6;
            }
            n += put_utf8(dst ? dst + n : NULL, u);
            continue;
        }
        if (dst)
            dst[n] = c == 'b'   ? '\b'
                     : c == 'f' ? '\f'
                     : c == 'n' ? '\n'
                     : c == 'r' ? '\r'
                     : c == 't' ? '\t'
                                : (char)c;
        n++;
    }
    return n;
}

bool srv_json_token_is(struct rt_span token, const char *s, size_t n)
{
    size_t inside = token.n - 2;
    if (inside == n && memcmp(token.p + 1, s, n) == 0)
        return memchr(s, '\\', n) == NULL;
    /* An escape is at most six bytes for one. */
    if (inside <= n || inside > 6 * n || !memchr(token.p + 1, '\\', inside))
        return false;
    if (srv_json_unquote(NULL, token) != n)
        return false;
    char few[256], *text = n <= sizeof few ? few : malloc(n);
    if (!text)
        return false;
    srv_json_unquote(text, token);
    bool same = memcmp(text, s, n) == 0;
    if (text != few)
        free(text);
    return same;
}

bool srv_json_is_b64(struct srv_json v, struct rt_span *token)
{
    if (*v.p != '{')
        return false;
    const unsigned char *p = srv_json_first(v), *after;
    if (p >= v.end || *p != '"')
        return false;
    after = srv_json_after((struct srv_json){p, v.end});
    if (!srv_json_token_is(rt_span_of(p, (size_t)(after - p)), "b64", 3))
        return false; /* before its value is walked: instances are objects too */
    p = srv_json_space(after, v.end);
    p = srv_json_space(p < v.end ? p + 1 : p, v.end);
    if (p >= v.end || *p != '"')
        return false;
    after = srv_json_after((struct srv_json){p, v.end});
    *token = rt_span_of(p, (size_t)(after - p));
    p = srv_json_space(after, v.end);
    return p < v.end && *p == '}';
}

static const signed char digit64[256] = {
    /* value + 1; 0: not in the alphabet. The last two have another form that URLs can hold. */
    ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,
    ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16,
    ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24,
    ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32,
    ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
    ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48,
    ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
    ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63, ['/'] = 64,
    ['-'] = 63, ['_'] = 64,
};

/* The next byte of a string token, escapes resolved (only ASCII ones matter here); -1: its end. */
static int token_byte(const unsigned char **p, const unsigned char *end)
{
    if (*p >= end)
        return -1;
    unsigned char c = *(*p)++;
    if (c != '\\')
        return c;
    c = *(*p)++;
    if (c == 'u') {
        unsigned u = hex4(*p);
        *p += 4;
        return u < 0x80 ? (int)u : 0xff;
    }
    return c == 'n' || c == 'r' || c == 't' || c == 'f' ? ' ' : c == 'b' ? 0xff : c;
}

bool srv_json_unbase64(char *dst, size_t *n, struct rt_span token)
{
    const unsigned char *p = token.p + 1, *end = token.p + token.n - 1;
    size_t out = 0;
    unsigned bits = 0;
    int have = 0, pads = 0;
    for (;;) {
        while (have == 0 && pads == 0 && end - p >= 4) { /* whole groups of plain digits */
            int a = digit64[p[0]], b = digit64[p[1]], c = digit64[p[2]], d = digit64[p[3]];
            if (!a || !b || !c || !d)
                break;
            unsigned w = (unsigned)(a - 1) << 18 | (unsigned)(b - 1) << 12 |
                         (unsigned)(c - 1) << 6 | (unsigned)(d - 1);
            if (dst) {
                dst[out] = (char)(w >> 16);
                dst[out + 1] = (char)(w >> 8);
                dst[out + 2] = (char)w;
            }
            out += 3;
            p += 4;
        }
        int c = token_byte(&p, end);
        if (c < 0)
            break;
        if (c == ' ' || (c >= '\t' && c <= '\r'))
            continue;
        if (c == '=') {
            if (++pads > 2)
                return false;
            continue;
        }
        int v = digit64[c];
        if (!v || pads)
            return false;
        bits = bits << 6 | (unsigned)(v - 1);
        if (++have == 4) {
            if (dst) {
                dst[out] = (char)(bits >> 16);
                dst[out + 1] = (char)(bits >> 8);
                dst[out + 2] = (char)bits;
            }
            out += 3;
            have = 0;
            bits = 0;
        }
    }
    if (have == 1 || (pads && pads != (have ? 4 - have : 0)))
        return false;
    if (have >= 2) {
        if (dst)
            dst[out] = (char)(bits >> (have == 2 ? 4 : 10));
        out++;
    }
    if (have == 3) {
        if (dst)
            dst[out] = (char)(bits >> 2);
        out++;
    }
    *n = out;
    return true;
}

/* ---- texts written ---- */

static void show_add(struct rt_bytes *out, const void *p, size_t n)
{
    size_t left = out->limit - out->n;
    rt_bytes_add(out, p, n < left ? n : left);
}

static void show_line(struct rt_bytes *out, int depth)
{
    show_add(out, "\n", 1);
    for (int i = 0; i < depth && out->n < out->limit; i++)
        show_add(out, "    ", 4);
}

/* Stops when `out` is full; depth is then bounded by it too (each level takes bytes). */
static void show_value(struct rt_bytes *out, struct srv_json v, int depth)
{
    if (out->n >= out->limit)
        return;
    bool object = *v.p == '{';
    if (!object && *v.p != '[') {
        const unsigned char *after = srv_json_after(v);
        struct srv_number number;
        char text[SRV_NUMBER_ROOM];
        if (srv_json_type(v) == SRV_JSON_NUMBER && srv_number_read(v.p, v.end, &number) != v.p &&
            number.kind == SRV_NUMBER_DOUBLE)
            show_add(out, text,
                     number.d >= -3.4028234e38 && number.d <= 3.4028234e38
                         ? srv_float_write(text, (float)number.d)
                         : srv_double_write(text, number.d));
        else
            show_add(out, v.p, (size_t)(after - v.p));
        return;
    }
    const unsigned char *at = srv_json_first(v);
    struct srv_json value;
    struct rt_span key;
    bool any = false;
    show_add(out, v.p, 1);
    while (out->n < out->limit && (object ? srv_json_member(&at, v.end, &key, &value)
                                          : srv_json_next(&at, v.end, &value))) {
        if (any)
            show_add(out, ",", 1);
        any = true;
        show_line(out, depth + 1);
        if (object) {
            show_add(out, key.p, key.n);
            show_add(out, ": ", 2);
        }
        show_value(out, value, depth + 1);
    }
    if (any)
        show_line(out, depth);
    show_add(out, object ? "}" : "]", 1);
}

/* A text that was cut at n: without the half of a character. */
static size_t whole_characters(const char *p, size_t n)
{
    size_t i = n;
    while (i > 0 && n - i < 3 && ((unsigned char)p[i - 1] & 0xc0) == 0x80)
        i--;
    if (i == 0 || (unsigned char)p[i - 1] < 0xc0)
        return n;
    unsigned char lead = (unsigned char)p[i - 1];
    size_t need = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    return i - 1 + need > n ? i - 1 : n;
}

const char *srv_json_show(char *text, size_t room, struct srv_json v)
{
    enum { LOOK = 16384 }; /* no more of a large value is walked for so short a text */
    struct rt_bytes out;
    rt_bytes_init(&out, room - 1);
    if (v.end - v.p > LOOK)
        v.end = v.p + LOOK;
    show_value(&out, v, 0);
    size_t n = out.p && !out.failed ? out.n : 0;
    if (n == room - 1)
        n = whole_characters(out.p, n);
    if (n)
        memcpy(text, out.p, n);
    text[n] = '\0';
    rt_bytes_clear(&out);
    return text;
}

void srv_json_quote(struct rt_bytes *out, const void *s, size_t n)
{
    static const char hex[] = "0123456789ABCDEF";
    const unsigned char *p = s, *end = p + n;
    if (!rt_bytes_reserve(out, n + 2))
        return;
    rt_bytes_addc(out, '"');
    while (p < end) {
        const unsigned char *run = srv_json_plain(p, end);
        rt_bytes_add(out, p, (size_t)(run - p));
        p = run;
        if (p >= end)
            break;
        char e[6] = {'\\', 0, '0', '0', 0, 0};
        size_t len = 2;
        switch (*p) {
        case '"':
        case '\\':
            e[1] = (char)*p;
            break;
        case '\b':
            e[1] = 'b';
            break;
        case '\f':
            e[1] = 'f';
            break;
        case '\n':
            e[1] = 'n';
            break;
        case '\r':
            e[1] = 'r';
            break;
        case '\t':
            e[1] = 't';
            break;
        default:
            e[1] = 'u';
            e[4] = hex[*p >> 4];
            e[5] = hex[*p & 15];
            len = 6;
        }
        rt_bytes_add(out, e, len);
        p++;
    }
    rt_bytes_addc(out, '"');
}

void srv_json_base64(struct rt_bytes *out, const void *s, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = s;
    if (n > out->limit / 2 || !rt_bytes_reserve(out, (n + 2) / 3 * 4 + 2)) {
        out->failed = true;
        return;
    }
    char *to = out->p + out->n;
    *to++ = '"';
    for (; n >= 3; n -= 3, p += 3) {
        *to++ = digits[p[0] >> 2];
        *to++ = digits[(p[0] & 3) << 4 | p[1] >> 4];
        *to++ = digits[(p[1] & 15) << 2 | p[2] >> 6];
        *to++ = digits[p[2] & 63];
    }
    if (n) {
        unsigned b = n == 2 ? p[1] : 0;
        *to++ = digits[p[0] >> 2];
        *to++ = digits[(p[0] & 3) << 4 | b >> 4];
        *to++ = n == 2 ? digits[(b & 15) << 2] : '=';
        *to++ = '=';
    }
    *to++ = '"';
    out->n = (size_t)(to - out->p);
    *to = '\0';
}
