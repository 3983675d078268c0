#include "proto/text_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Computes the line and column of `at`, which must not precede the position of the previous call.
 * As in protobuf, columns are counted in bytes, and a tab advances to the next column that is 1
 * plus a multiple of 8. */
static struct pb_text_place place_of(struct pb_text_parser *x, const char *at)
{
    for (; x->known < at; x->known++) {
        int64_t *column = &x->at_known.column;
        *column += *x->known == '\t' ? 8 - (*column - 1) % 8 : 1;
        if (*x->known == '\n') {
            *column = 1;
            x->at_known.line++;
        }
    }
    return x->at_known;
}

void pb_text_keep_place(struct pb_text_parser *x, const ProtobufCMessageDescriptor *d,
                        const char *at)
{
    struct pb_text_places *p = x->places;
    if (p && p->type == d && p->n < p->max)
        p->at[p->n++] = place_of(x, at);
}

enum rt_status pb_text_call_watch(struct pb_text_parser *x, const ProtobufCFieldDescriptor *f,
                                  const char *at)
{
    if (!x->watch || x->stopped)
        return x->stopped;
    const struct pb_text_place place = place_of(x, at);
    const enum rt_status st = x->watch->field(x->watch->arg, f, &place, x->err);
    return st ? rt_fail_prefix(x->err, "%lld:%lld: ", (long long)place.line,
                               (long long)place.column)
              : RT_OK;
}

/* ---- errors ---- */

enum rt_status pb_text_fail(struct pb_text_parser *x, const char *at, const char *fmt, ...)
{
    char reason[384];
    va_list ap;

    if (x->stopped)
        return x->stopped;
    if (at < x->known) {
        x->known = x->begin;
        x->at_known = (struct pb_text_place){1, 1};
    }
    struct pb_text_place place = place_of(x, at);
    va_start(ap, fmt);
    vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    return rt_fail(x->err, RT_INVALID_ARGUMENT, "%lld:%lld: %s", (long long)place.line,
                   (long long)place.column, reason);
}

enum rt_status pb_text_fail_memory(struct pb_text_parser *x)
{
    return x->stopped ? x->stopped
                      : rt_fail_memory(x->err, "a message", (size_t)(x->end - x->begin));
}

/* ---- the check ---- */

void pb_text_call_check(struct pb_text_parser *x)
{
    if (x->stopped)
        return;
    x->stopped = rt_check_call(x->check, x->err);
    if (x->stopped)
        x->end = x->p;
    x->check_at = x->end - x->p > PB_TEXT_CHECK_EVERY ? x->p + PB_TEXT_CHECK_EVERY : x->end;
}

/* ---- tokens ---- */

bool pb_text_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool pb_text_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int hex_digit(char c)
{
    if (pb_text_is_digit(c))
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void pb_text_skip_space(struct pb_text_parser *x)
{
    for (pb_text_check(x); x->p < x->end; x->p++, pb_text_check(x)) {
        if (*x->p == '#') {
            const char *line_end = memchr(x->p, '\n', (size_t)(x->end - x->p));
            x->p = line_end ? line_end : x->end;
            if (x->p == x->end)
                return;
        } else if (*x->p != ' ' && (*x->p < '\t' || *x->p > '\r')) {
            return;
        }
    }
}

char pb_text_peek(struct pb_text_parser *x)
{
    pb_text_skip_space(x);
    return x->p < x->end ? *x->p : 0;
}

bool pb_text_take(struct pb_text_parser *x, char c)
{
    if (c != pb_text_peek(x) || x->p == x->end)
        return false;
    x->p++;
    return true;
}

/* Consumes a word or a number. A number may also contain a decimal point, and a sign after the "e"
 * of the exponent. */
struct rt_span pb_text_word(struct pb_text_parser *x)
{
    pb_text_skip_space(x);
    const char *from = x->p;
    bool number = from < x->end && (pb_text_is_digit(*from) || *from == '.');
    while (x->p < x->end) {
        char c = *x->p;
        bool sign = number && (c == '+' || c == '-') && x->p > from && (x->p[-1] | 32) == 'e' &&
                    !(x->p - from > 1 && (from[1] | 32) == 'x');
        if (!pb_text_is_letter(c) && !pb_text_is_digit(c) && !(number && c == '.') && !sign)
            break;
        x->p++;
        pb_text_check(x);
    }
    return rt_span_of(from, (size_t)(x->p - from));
}

/* Returns the token at position `at`: a word, a number, a string with its quotes, or a single
 * character. */
static struct rt_span token_at(const struct pb_text_parser *x, const char *at)
{
    struct pb_text_parser y = *x;
    struct rt_span s;

    y.p = at;
    if (at < x->end && (*at == '"' || *at == '\'')) {
        const char *end = at + 1;
        while (end < x->end && *end != *at && *end != '\n')
            end += *end == '\\' && end + 1 < x->end ? 2 : 1;
        return rt_span_of(at, (size_t)(end < x->end ? end + 1 - at : x->end - at));
    }
    s = pb_text_word(&y);
    return s.n ? s : rt_span_of(at, at < x->end);
}

/*
 * Fails because of an unexpected token, with TextFormat's error message. `verb` is "got" if any
 * token of a kind was expected ("Expected integer, got: x"), and "found" if a specific token was
 * expected ("Expected ":", found "x"."). If a byte cannot belong to any token, reports this byte
 * instead, as TextFormat's tokenizer does.
 */
static enum rt_status unexpected(struct pb_text_parser *x, const char *what, const char *verb,
                                 const char *at)
{
    unsigned char c = at < x->end ? (unsigned char)*at : ' ';

    if (c < ' ' && (c < '\t' || c > '\r'))
        return pb_text_fail(x, at, "Invalid control characters encountered in text.");
    if (c > 127)
        return pb_text_fail(x, at, "Interpreting non ascii codepoint %d.", c);
    struct rt_span s = token_at(x, at);
    bool own = strcmp(verb, "found") == 0;
    /* Error messages contain only the first bytes of a string, because it may be a secret. */
    size_t limit = c == '"' || c == '\'' ? 24 : 64;
    return pb_text_fail(x, at, "Expected %s, %s%s%.*s%s", what, verb, own ? " \"" : ": ",
                        (int)(s.n < limit ? s.n : limit), (const char *)s.p, own ? "\"." : "");
}

enum rt_status pb_text_expected(struct pb_text_parser *x, const char *what, const char *at)
{
    return unexpected(x, what, "got", at);
}

enum rt_status pb_text_missing(struct pb_text_parser *x, const char *what)
{
    pb_text_skip_space(x);
    return unexpected(x, what, "found", x->p);
}

const char *pb_text_next_token(struct pb_text_parser *x)
{
    pb_text_skip_space(x);
    return x->p;
}

/* ---- strings ---- */

/* Parses exactly n hexadecimal digits. */
static bool hex(struct pb_text_parser *x, int n, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < n; i++) {
        int d = x->p < x->end ? hex_digit(*x->p) : -1;
        if (d < 0)
            return false;
        *out = *out << 4 | (uint32_t)d;
        x->p++;
    }
    return true;
}

static enum rt_status unicode(struct pb_text_parser *x, char kind, const char *at,
                              struct rt_bytes *out)
{
    uint32_t c, low;

    if (!hex(x, kind == 'u' ? 4 : 8, &c))
        return pb_text_fail(x, at, "Expected %d hexadecimal digits after \\%c.",
                            kind == 'u' ? 4 : 8, kind);
    if (c >= 0xd800 && c < 0xdc00 && x->end - x->p >= 6 && x->p[0] == '\\' && x->p[1] == 'u') {
        x->p += 2;
        if (!hex(x, 4, &low) || low < 0xdc00 || low > 0xdfff)
            return pb_text_fail(x, at, "Half of a surrogate pair.");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return pb_text_fail(x, at, "No character: \\%c%x.", kind, (unsigned)c);
    rt_bytes_add_utf8(out, c);
    return RT_OK;
}

static enum rt_status escape(struct pb_text_parser *x, struct rt_bytes *out)
{
    static const char from[] = "nrtabfv\\'\"?", to[] = "\n\r\t\a\b\f\v\\'\"?";
    const char *at = x->p;
    int value = 0, n = 0;

    if (x->p == x->end)
        return pb_text_fail(x, at, "Unexpected end of string.");
    char c = *x->p++;
    const char *known = memchr(from, c, sizeof from - 1);
    if (known) {
        rt_bytes_addc(out, to[known - from]);
        return RT_OK;
    }
    if (c >= '0' && c <= '7') {
        for (x->p--; n < 3 && x->p < x->end && *x->p >= '0' && *x->p <= '7'; n++)
            value = value * 8 + (*x->p++ - '0');
        if (value > 255)
            return pb_text_fail(x, at, "Octal escape above 377.");
        rt_bytes_addc(out, (char)value);
        return RT_OK;
    }
    if (c == 'x' || c == 'X') {
        for (; n < 2 && x->p < x->end && hex_digit(*x->p) >= 0; n++)
            value = value * 16 + hex_digit(*x->p++);
        if (!n)
            return pb_text_fail(x, x->p, "Expected hex digits for escape sequence.");
        rt_bytes_addc(out, (char)value);
        return RT_OK;
    }
    if (c == 'u' || c == 'U')
        return unicode(x, c, at, out);
    return pb_text_fail(x, at, "Invalid escape sequence in string literal.");
}

enum rt_status pb_text_string(struct pb_text_parser *x, struct rt_bytes *out)
{
    enum rt_status st;
    char quote = pb_text_peek(x);

    if (quote != '"' && quote != '\'')
        return pb_text_expected(x, "string", x->p);
    for (; quote == '"' || quote == '\''; quote = pb_text_peek(x)) {
        x->p++;
        for (;;) {
            pb_text_check(x);
            if (x->p == x->end)
                return pb_text_fail(x, x->p, "Unexpected end of string.");
            if (*x->p == '\n')
                return pb_text_fail(x, x->p, "String literals cannot cross line boundaries.");
            char c = *x->p++;
            if (c == quote)
                break;
            if (c != '\\') {
                rt_bytes_addc(out, c);
                continue;
            }
            st = escape(x, out);
            if (st)
                return st;
        }
    }
    return out->failed ? pb_text_fail_memory(x) : RT_OK;
}

/* ---- numbers ---- */

/* Parses a decimal, hexadecimal (0x) or octal (0) number. Returns false if s is not a number or
 * exceeds `max`. */
static bool to_unsigned(struct rt_span s, uint64_t max, uint64_t *out)
{
    unsigned base = 10;
    size_t i = 0;
    uint64_t v = 0;

    if (s.n > 1 && s.p[0] == '0') {
        base = (s.p[1] | 32) == 'x' ? 16 : 8;
        i = base == 16 ? 2 : 1;
    }
    if (i == s.n)
        return false;
    for (; i < s.n; i++) {
        int d = hex_digit((char)s.p[i]);
        if (d < 0 || (unsigned)d >= base || (unsigned)d > max || v > (max - (unsigned)d) / base)
            return false;
        v = v * base + (unsigned)d;
    }
    *out = v;
    return true;
}

enum rt_status pb_text_integer(struct pb_text_parser *x, bool is_signed, int bits, uint64_t *out)
{
    uint64_t max = is_signed ? (UINT64_C(1) << (bits - 1)) - 1
                             : (bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1);
    bool negative = pb_text_take(x, '-');
    if (negative && !is_signed)
        return pb_text_fail(x, x->p - 1, "Expected integer, got: -");
    pb_text_skip_space(x);
    const char *at = x->p;
    struct rt_span s = pb_text_word(x);
    if (!s.n || !pb_text_is_digit((char)s.p[0]) || memchr(s.p, '.', s.n))
        return pb_text_expected(x, "integer", at);
    if (!to_unsigned(s, negative ? max + 1 : max, out))
        return pb_text_fail(x, at, "Integer out of range (%.*s)", (int)(s.n < 64 ? s.n : 64),
                            (const char *)s.p);
    if (negative)
        *out = 0 - *out;
    return RT_OK;
}

static bool same_word(struct rt_span s, const char *w)
{
    return s.n == strlen(w) && strncasecmp((const char *)s.p, w, s.n) == 0;
}

enum rt_status pb_text_floating(struct pb_text_parser *x, double *out)
{
    bool negative = pb_text_take(x, '-');
    pb_text_skip_space(x);
    const char *at = x->p;
    struct rt_span s = pb_text_word(x);
    char buffer[320], *end = buffer;
    double v;

    if (same_word(s, "inf") || same_word(s, "infinity")) {
        v = (double)INFINITY;
    } else if (same_word(s, "nan")) {
        v = (double)NAN;
    } else {
        size_t n = s.n;
        if (n > 1 && (s.p[n - 1] | 32) == 'f')
            n--;
        if (!n || n >= sizeof buffer || !(pb_text_is_digit((char)s.p[0]) || s.p[0] == '.'))
            return pb_text_expected(x, "double", at);
        memcpy(buffer, s.p, n);
        buffer[n] = 0;
        /* strtod also accepts formats that protobuf's text format does not have */
        bool octal = n > 1 && buffer[0] == '0' && pb_text_is_digit(buffer[1]);
        if (!octal && strspn(buffer, "0123456789.eE+-") == n)
            v = strtod(buffer, &end);
        else
            v = 0;
        if (end != buffer + n)
            return pb_text_expected(x, "double", at);
    }
    *out = negative ? -v : v;
    return RT_OK;
}

enum rt_status pb_text_boolean(struct pb_text_parser *x, protobuf_c_boolean *out)
{
    pb_text_skip_space(x);
    const char *at = x->p;
    struct rt_span s = pb_text_word(x);
    uint64_t v;

    if (rt_span_is(s, "true") || rt_span_is(s, "True") || rt_span_is(s, "t"))
        *out = 1;
    else if (rt_span_is(s, "false") || rt_span_is(s, "False") || rt_span_is(s, "f"))
        *out = 0;
    else if (s.n && pb_text_is_digit((char)s.p[0]) && to_unsigned(s, 1, &v))
        *out = (protobuf_c_boolean)v;
    else
        return pb_text_expected(x, "\"true\" or \"false\"", at);
    return RT_OK;
}

enum rt_status pb_text_enumeration(struct pb_text_parser *x, const ProtobufCFieldDescriptor *f,
                                   int32_t *out)
{
    const ProtobufCEnumDescriptor *d = f->descriptor;
    char name[128];
    uint64_t v;
    enum rt_status st;
    char c = pb_text_peek(x);

    if (c == '-' || pb_text_is_digit(c)) {
        st = pb_text_integer(x, true, 32, &v);
        if (!st)
            *out = (int32_t)(int64_t)v;
        return st;
    }
    const char *at = x->p;
    struct rt_span s = pb_text_word(x);
    if (!s.n)
        return pb_text_expected(x, "integer or identifier", at);
    const ProtobufCEnumValue *value = NULL;
    if (s.n < sizeof name) {
        memcpy(name, s.p, s.n);
        name[s.n] = 0;
        value = protobuf_c_enum_descriptor_get_value_by_name(d, name);
    }
    if (!value)
        return pb_text_fail(x, pb_text_next_token(x),
                            "Unknown enumeration value of \"%.*s\" for field \"%s\".",
                            (int)(s.n < 64 ? s.n : 64), (const char *)s.p, f->name);
    *out = value->value;
    return RT_OK;
}
