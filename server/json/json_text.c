/* JSON strings and their contents: escapes, base64, and values in error messages. */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base64.h"
#include "server/json/json.h"
#include "server/json/json_number.h"
#include "server/base/hex.h"
#include "server/json/json_internal.h"

/* ---- reading tokens ---- */

static unsigned hex4(const unsigned char *p)
{
    unsigned u = 0;
    for (int i = 0; i < 4; i++)
        u = u << 4 | (unsigned)srv_hex_digit(p[i]);
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

/* Number of bytes that are read or written between two checks of `cancellation`. It is a multiple
 * of 3, so that base64 needs padding only at the end. */
enum { PIECE = 3 << 18 };

size_t srv_json_unquote_long(char *dst, struct rt_span token, struct srv_cancellation *cancellation)
{
    const unsigned char *p = token.p + 1, *end = token.p + token.n - 1, *check = p + PIECE;
    size_t n = 0;
    if (cancellation && cancellation->over)
        return 0;
    while (p < end) {
        if (p >= check) {
            if (!srv_should_continue(cancellation, PIECE))
                return n;
            check = p + PIECE;
        }
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

size_t srv_json_unquote(char *dst, struct rt_span token)
{
    return srv_json_unquote_long(dst, token, NULL);
}

bool srv_json_token_is(struct rt_span token, const char *s, size_t n)
{
    size_t inside = token.n - 2;
    if (inside == n && memcmp(token.p + 1, s, n) == 0)
        return memchr(s, '\\', n) == NULL;
    /* A byte of the decoded text takes at most six bytes in the token, as a Unicode escape. */
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
    after = srv_json_after((struct srv_json){p, v.end, v.cancellation});
    if (!srv_json_token_is(rt_span_of(p, (size_t)(after - p)), "b64", 3))
        /* the object's other members are not read, because they may be very large */
        return false;
    p = srv_json_space(after, v.end);
    p = srv_json_space(p < v.end ? p + 1 : p, v.end);
    if (p >= v.end || *p != '"')
        return false;
    after = srv_json_after((struct srv_json){p, v.end, v.cancellation});
    *token = rt_span_of(p, (size_t)(after - p));
    p = srv_json_space(after, v.end);
    return p < v.end && *p == '}';
}

bool srv_json_unbase64(char *dst, size_t *n, struct rt_span token)
{
    struct rt_span inside = rt_span_of(token.p + 1, token.n - 2);
    if (!inside.n || !memchr(inside.p, '\\', inside.n))
        return rt_base64_read(dst, n, inside);
    /* Base64 text may contain slashes, which some writers escape. Escapes are therefore decoded
     * first. */
    char *text = malloc(inside.n);
    bool ok = text && rt_base64_read(dst, n, rt_span_of(text, srv_json_unquote(text, token)));
    free(text);
    return ok;
}

/* ---- writing text ---- */

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

/* Writes a value until `out` is full. The size limit of `out` also bounds the recursion, because
 * each level writes bytes. */
static void show_value(struct rt_bytes *out, struct srv_json v, int depth)
{
    if (out->n >= out->limit)
        return;
    bool object = *v.p == '{';
    if (!object && *v.p != '[') {
        const unsigned char *after = srv_json_after(v);
        struct srv_number number;
        char text[SRV_NUMBER_BYTES];
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
    while (out->n < out->limit &&
           (object ? srv_json_member(&at, v, &key, &value) : srv_json_next(&at, v, &value))) {
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

/* Returns the greatest length, at most n, at which the text does not end in an incomplete UTF-8
 * character. */
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

const char *srv_json_show(char *text, size_t capacity, struct srv_json v)
{
    enum { LOOK = 16384 }; /* maximum number of bytes of the value that are read */
    struct rt_bytes out;
    rt_bytes_init(&out, capacity - 1);
    if (v.end - v.p > LOOK)
        v.end = v.p + LOOK;
    show_value(&out, v, 0);
    size_t n = out.p && !out.failed ? out.n : 0;
    if (n == capacity - 1)
        n = whole_characters(out.p, n);
    if (n)
        memcpy(text, out.p, n);
    text[n] = '\0';
    rt_bytes_clear(&out);
    return text;
}

/* Reports to `cancellation` how many bytes `out` has gained since its size was `before`.
 * Returns false if `out` has failed or the response is cancelled. */
static bool go_on(struct rt_bytes *out, size_t before, struct srv_cancellation *cancellation)
{
    if (!out->failed && !srv_should_continue(cancellation, out->n - before))
        out->failed = true;
    return !out->failed;
}

static void escape(struct rt_bytes *out, const unsigned char *p, const unsigned char *end)
{
    static const char hex[] = "0123456789ABCDEF";
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
}

void srv_json_quote_long(struct rt_bytes *out, const void *s, size_t n,
                         struct srv_cancellation *cancellation)
{
    const unsigned char *p = s, *end = p + n;
    size_t before = out->n;
    if (!rt_bytes_reserve(out, n + 2))
        return;
    rt_bytes_addc(out, '"');
    while (p < end && go_on(out, before, cancellation)) {
        const size_t some = (size_t)(end - p) < PIECE ? (size_t)(end - p) : PIECE;
        before = out->n;
        escape(out, p, p + some);
        p += some;
    }
    rt_bytes_addc(out, '"');
    go_on(out, before, cancellation);
}

void srv_json_quote(struct rt_bytes *out, const void *s, size_t n)
{
    const size_t before = out->n;
    srv_json_quote_long(out, s, n, NULL);
    rt_bytes_make_utf8(out, before);
}

void srv_json_base64_long(struct rt_bytes *out, const void *s, size_t n,
                          struct srv_cancellation *cancellation)
{
    const char *p = s;
    size_t before = out->n;
    rt_bytes_addc(out, '"');
    for (size_t some; n && go_on(out, before, cancellation); p += some, n -= some) {
        some = n < PIECE ? n : PIECE;
        before = out->n;
        rt_base64_write(out, p, some);
    }
    rt_bytes_addc(out, '"');
    go_on(out, before, cancellation);
}

void srv_json_base64(struct rt_bytes *out, const void *s, size_t n)
{
    srv_json_base64_long(out, s, n, NULL);
}
