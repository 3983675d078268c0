#include "server/json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/json_number.h"

/* ---- the check ---- */

static const char empty_text[] = "The document is empty.";
static const char value_text[] = "Invalid value.";
static const char name_text[] = "Missing a name for object member.";
static const char colon_text[] = "Missing a colon after a name of object member.";
static const char member_text[] = "Missing a comma or } after an object member.";
static const char element_text[] = "Missing a comma or ] after an array element.";
static const char hex_text[] = "Incorrect hex digit after \\u escape in string.";
static const char surrogate_text[] = "The surrogate pair in string is invalid.";
static const char escape_text[] = "Invalid escape character in string.";
static const char quote_text[] = "Missing a closing quotation mark in string.";
static const char big_text[] = "Number too big to be stored in double.";
static const char fraction_text[] = "Miss fraction part in number.";
static const char exponent_text[] = "Miss exponent in number.";

struct check {
    const unsigned char *p, *end;
    const char *why;         /* set: refused ... */
    const unsigned char *at; /* ... here */
};

static bool refuse(struct check *c, const char *why, const unsigned char *at)
{
    c->why = why;
    c->at = at;
    return false;
}

/* The byte at p; 0 at the end, as a NUL in the text ends it too. */
static unsigned char peek(const struct check *c, const unsigned char *p)
{
    return p < c->end ? *p : 0;
}

static int hex_value(unsigned char c)
{
    if ((unsigned)c - '0' < 10)
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Four hex digits at *p. */
static bool check_hex(struct check *c, const unsigned char **p, const unsigned char *escape,
                      unsigned *out)
{
    unsigned u = 0;
    for (int i = 0; i < 4; i++) {
        int h = hex_value(peek(c, *p));
        if (h < 0)
            return refuse(c, hex_text, escape);
        u = u << 4 | (unsigned)h;
        ++*p;
    }
    *out = u;
    return true;
}

/* A byte of eight that ends a run of plain string bytes: '"', '\\', or below 0x20. */
static bool has_special(uint64_t w)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    uint64_t quote = w ^ (ones * '"'), slash = w ^ (ones * '\\');
    return (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((w - ones * 0x20) & ~w)) &
           tops;
}

static const unsigned char *plain_run(const unsigned char *p, const unsigned char *end)
{
    uint64_t w;
    while (end - p >= 8) {
        memcpy(&w, p, 8);
        if (has_special(w))
            break;
        p += 8;
    }
    while (p < end && *p != '"' && *p != '\\' && *p >= 0x20)
        p++;
    return p;
}

/* c->p is at the opening quote. */
static bool check_string(struct check *c)
{
    const unsigned char *p = c->p + 1;
    for (;;) {
        p = plain_run(p, c->end);
        unsigned char ch = peek(c, p);
        if (ch == '"') {
            c->p = p + 1;
            return true;
        }
        if (ch != '\\')
            return refuse(c, ch ? escape_text : quote_text, p);
        const unsigned char *escape = p++;
        switch (peek(c, p)) {
        case '"':
        case '\\':
        case '/':
        case 'b':
        case 'f':
        case 'n':
        case 'r':
        case 't':
            p++;
            break;
        case 'u': {
            unsigned u, low;
            p++;
            if (!check_hex(c, &p, escape, &u))
                return false;
            if (u < 0xd800 || u > 0xdbff)
                break;
            if (peek(c, p) != '\\' || peek(c, p + 1) != 'u')
                return refuse(c, surrogate_text, escape);
            p += 2;
            if (!check_hex(c, &p, escape, &low))
                return false;
            if (low < 0xdc00 || low > 0xdfff)
                return refuse(c, surrogate_text, escape);
            break;
        }
        default:
            return refuse(c, escape_text, escape);
        }
    }
}

static bool is_digit(unsigned char c)
{
    return (unsigned)c - '0' < 10;
}

/* Matches `word` byte by byte; the offset of a refusal is the first that differs. */
static bool check_word(struct check *c, const char *word)
{
    const unsigned char *p = c->p;
    for (; *word; word++, p++)
        if (peek(c, p) != (unsigned char)*word)
            return refuse(c, value_text, p);
    c->p = p;
    return true;
}

/* The first byte from p on that is no digit. */
static const unsigned char *after_digits(const unsigned char *p, const unsigned char *end)
{
    uint64_t w;
    while (end - p >= 8) {
        memcpy(&w, p, 8);
        uint64_t odd = ((w ^ UINT64_C(0x3030303030303030)) & UINT64_C(0xf0f0f0f0f0f0f0f0)) |
                       ((w + UINT64_C(0x0606060606060606)) & UINT64_C(0x4040404040404040));
        if (!odd) {
            p += 8;
            continue;
        }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        /* No byte below the first odd one carries into it. */
        return p + (__builtin_ctzll(odd) >> 3);
#else
        break;
#endif
    }
    while (p < end && is_digit(*p))
        p++;
    return p;
}

static bool check_number(struct check *c)
{
    const unsigned char *start = c->p, *p = start, *end = c->end;
    if (p < end && *p == '-')
        p++;
    unsigned char first = peek(c, p);
    const unsigned char *digits = p;
    if (first == '0') {
        p++;
    } else if (is_digit(first)) {
        p = after_digits(p, end);
    } else if (first == 'N' || first == 'I') {
        c->p = p;
        if (first == 'N')
            return check_word(c, "NaN");
        if (!check_word(c, "Inf"))
            return false;
        return peek(c, c->p) != 'i' || check_word(c, "inity");
    } else {
        return refuse(c, value_text, p);
    }
    bool may_be_big = p - digits > 308;
    int64_t fraction = 0;
    if (p < end && *p == '.') {
        p++;
        if (!is_digit(peek(c, p)))
            return refuse(c, fraction_text, p);
        const unsigned char *from = p;
        p = after_digits(p, end);
        fraction = p - from < 17 ? p - from : 17;
    }
    if (p < end && (*p | 0x20) == 'e') {
        p++;
        bool minus = false;
        if (p < end && (*p == '+' || *p == '-'))
            minus = *p++ == '-';
        if (!is_digit(peek(c, p)))
            return refuse(c, exponent_text, p);
        int64_t exponent = 0;
        for (; p < end && is_digit(*p); p++)
            if (exponent < 1000000)
                exponent = exponent * 10 + (*p - '0');
        if (!minus && exponent > 308 + fraction)
            return refuse(c, big_text, start);
    }
    if (may_be_big) {
        double d;
        if (!srv_double_read(digits, p, &d) || d > 1.7976931348623157e308)
            return refuse(c, big_text, start);
    }
    c->p = p;
    return true;
}

/* Which containers are open: a bit each (1: object). Grows with the text, so it is bounded by it.
 */
struct nest {
    uint64_t few[8], *bits;
    size_t depth, room; /* in bits */
};

static bool nest_push(struct nest *n, bool object)
{
    if (n->depth == n->room) {
        size_t room = n->room * 2;
        uint64_t *bits = malloc(room / 8);
        if (!bits)
            return false;
        memcpy(bits, n->bits, n->room / 8);
        if (n->bits != n->few)
            free(n->bits);
        n->bits = bits;
        n->room = room;
    }
    uint64_t bit = UINT64_C(1) << (n->depth & 63), *w = &n->bits[n->depth >> 6];
    *w = object ? *w | bit : *w & ~bit;
    n->depth++;
    return true;
}

static bool nest_is_object(const struct nest *n)
{
    size_t i = n->depth - 1;
    return n->bits[i >> 6] >> (i & 63) & 1;
}

/* Notes the value of a top-level member that somebody will ask for. */
static struct srv_json *member_slot(struct srv_json_doc *doc, struct rt_span token)
{
    static const struct {
        const char *name;
        size_t n, offset;
    } keys[] = {
        {"signature_name", 14, offsetof(struct srv_json_doc, signature_name)},
        {"instances", 9, offsetof(struct srv_json_doc, instances)},
        {"inputs", 6, offsetof(struct srv_json_doc, inputs)},
        {"examples", 8, offsetof(struct srv_json_doc, examples)},
        {"context", 7, offsetof(struct srv_json_doc, context)},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (srv_json_token_is(token, keys[i].name, keys[i].n)) {
            void *slot = (char *)doc + keys[i].offset;
            return slot;
        }
    return NULL;
}

/* 1: passed, 0: refused, -1: out of memory */
static int check_document(struct check *c, struct srv_json_doc *doc)
{
    struct nest nest = {.room = 512};
    nest.bits = nest.few;
    int64_t count = 0;     /* elements of the array at depth 2 */
    bool counting = false; /* ... which is `instances` */
    int result = 0;

    c->p = srv_json_space(c->p, c->end);
    doc->top = (struct srv_json){c->p, c->end};
    unsigned char ch = peek(c, c->p);
    if (ch == 0 || ch == ',' || ch == ':' || ch == ']' || ch == '}') {
        refuse(c, empty_text, c->p);
        goto out;
    }

value:
    ch = peek(c, c->p);
    switch (ch) {
    case '{':
        if (!nest_push(&nest, true)) {
            result = -1;
            goto out;
        }
        c->p = srv_json_space(c->p + 1, c->end);
        if (peek(c, c->p) == '}')
            goto close;
        goto name;
    case '[':
        if (!nest_push(&nest, false)) {
            result = -1;
            goto out;
        }
        c->p = srv_json_space(c->p + 1, c->end);
        if (nest.depth == 2)
            count = 0;
        if (peek(c, c->p) == ']')
            goto close;
        if (nest.depth == 2)
            count = 1;
        goto value;
    case '"':
        if (!check_string(c))
            goto out;
        break;
    case 't':
        if (!check_word(c, "true"))
            goto out;
        break;
    case 'f':
        if (!check_word(c, "false"))
            goto out;
        break;
    case 'n':
        if (!check_word(c, "null"))
            goto out;
        break;
    default:
        if (!check_number(c))
            goto out;
    }

after_value:
    if (nest.depth == 0) {
        result = 1;
        goto out;
    }
    c->p = srv_json_space(c->p, c->end);
    ch = peek(c, c->p);
    if (nest_is_object(&nest)) {
        if (ch == '}')
            goto close;
        if (ch != ',') {
            refuse(c, member_text, c->p);
            goto out;
        }
        c->p = srv_json_space(c->p + 1, c->end);
        goto name;
    }
    if (ch == ']')
        goto close;
    if (ch != ',') {
        refuse(c, element_text, c->p);
        goto out;
    }
    count += nest.depth == 2;
    c->p = srv_json_space(c->p + 1, c->end);
    goto value;

close:
    c->p++;
    if (nest.depth == 2 && counting) {
        doc->n_instances = count;
        counting = false;
    }
    nest.depth--;
    goto after_value;

name:
    if (peek(c, c->p) != '"') {
        refuse(c, name_text, c->p);
        goto out;
    }
    {
        const unsigned char *from = c->p;
        if (!check_string(c))
            goto out;
        struct rt_span token = rt_span_of(from, (size_t)(c->p - from));
        c->p = srv_json_space(c->p, c->end);
        if (peek(c, c->p) != ':') {
            refuse(c, colon_text, c->p);
            goto out;
        }
        c->p = srv_json_space(c->p + 1, c->end);
        if (nest.depth == 1) {
            struct srv_json *slot = member_slot(doc, token);
            if (slot && !slot->p) {
                *slot = (struct srv_json){c->p, c->end};
                counting = slot == &doc->instances && peek(c, c->p) == '[';
            }
        }
    }
    goto value;

out:
    if (nest.bits != nest.few)
        free(nest.bits);
    return result;
}

enum rt_status srv_json_check(struct srv_json_doc *doc, struct rt_span text, struct rt_error *err)
{
    memset(doc, 0, sizeof *doc);
    if (text.n == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "JSON Parse error: The document is empty");
    struct check c = {.p = text.p, .end = text.p + text.n};
    if (text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0)
        c.p += 3;
    int passed = check_document(&c, doc);
    if (passed < 0)
        return rt_fail_memory(err, "the nesting of a JSON text", text.n / 8);
    if (!passed)
        return rt_fail(err, RT_INVALID_ARGUMENT, "JSON Parse error: %s at offset: %zu", c.why,
                       (size_t)(c.at - text.p));
    if (*doc->top.p != '{') {
        char shown[SRV_JSON_SHOWN];
        return rt_fail(err, RT_INVALID_ARGUMENT, "JSON Value: %s Is not object",
                       srv_json_show(shown, sizeof shown, doc->top));
    }
    return RT_OK;
}

/* ---- walking checked text ---- */

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

/* p is at the opening quote: the byte after the closing one. */
static const unsigned char *after_string(const unsigned char *p, const unsigned char *end)
{
    p++;
    for (;;) {
        p = plain_run(p, end);
        if (p >= end)
            return end;
        if (*p == '"')
            return p + 1;
        p += *p == '\\' && end - p > 1 ? 2 : 1;
    }
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

/* The first bracket or quote from p on. */
static const unsigned char *next_bracket(const unsigned char *p, const unsigned char *end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7, low = ~tops;
    uint64_t w;
    while (end - p >= 8) {
        memcpy(&w, p, 8);
        /* '[' and '{', ']' and '}' differ in one bit. A zero byte is what was looked for. */
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

const unsigned char *srv_json_after(struct srv_json v)
{
    const unsigned char *p = v.p;
    if (*p == '"')
        return after_string(p, v.end);
    if (*p != '{' && *p != '[')
        return after_scalar(p, v.end);
    size_t depth = 0; /* the text is balanced: brackets need not be told apart */
    while ((p = next_bracket(p, v.end)) < v.end) {
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
    return v.end;
}

const unsigned char *srv_json_first(struct srv_json v)
{
    return srv_json_space(v.p + 1, v.end);
}

/* Leaves *at behind the comma or at the closing bracket. */
static void step(const unsigned char **at, const unsigned char *end)
{
    const unsigned char *p = srv_json_space(*at, end);
    if (p < end && *p == ',')
        p = srv_json_space(p + 1, end);
    *at = p;
}

bool srv_json_next(const unsigned char **at, const unsigned char *end, struct srv_json *value)
{
    const unsigned char *p = *at;
    if (p >= end || *p == ']')
        return false;
    *value = (struct srv_json){p, end};
    *at = srv_json_after(*value);
    step(at, end);
    return true;
}

bool srv_json_member(const unsigned char **at, const unsigned char *end, struct rt_span *key,
                     struct srv_json *value)
{
    const unsigned char *p = *at;
    if (p >= end || *p != '"')
        return false;
    const unsigned char *after = after_string(p, end);
    *key = rt_span_of(p, (size_t)(after - p));
    p = srv_json_space(after, end);
    p = srv_json_space(p < end ? p + 1 : p, end);
    if (p >= end)
        return false;
    *value = (struct srv_json){p, end};
    *at = srv_json_after(*value);
    step(at, end);
    return true;
}

/* Commas in [p, p + n), eight bytes at a time. */
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
    /* A list of plain values, the usual one: its commas tell. */
    if (*v.p == '[' && at < v.end && *at != '[' && *at != '{' && *at != '"' && *at != ']' &&
        (stop = memchr(at, ']', (size_t)(v.end - at))) != NULL) {
        size_t length = (size_t)(stop - at);
        if (!memchr(at, '"', length) && !memchr(at, '[', length) && !memchr(at, '{', length))
            return count_commas(at, length) + 1;
    }
    if (*v.p == '{')
        while (srv_json_member(&at, v.end, &key, &value))
            n++;
    else
        while (srv_json_next(&at, v.end, &value))
            n++;
    return n;
}

struct srv_json srv_json_get(struct srv_json object, const char *key)
{
    const unsigned char *at = srv_json_first(object);
    struct srv_json value;
    struct rt_span token;
    size_t n = strlen(key);
    while (srv_json_member(&at, object.end, &token, &value))
        if (srv_json_token_is(token, key, n))
            return value;
    return (struct srv_json){NULL, NULL};
}

struct rt_span srv_json_token(struct srv_json string)
{
    return rt_span_of(string.p, (size_t)(after_string(string.p, string.end) - string.p));
}

static unsigned hex4(const unsigned char *p)
{
    unsigned u = 0;
    for (int i = 0; i < 4; i++)
        u = u << 4 | (unsigned)hex_value(p[i]);
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
    after = after_string(p, v.end);
    if (!srv_json_token_is(rt_span_of(p, (size_t)(after - p)), "b64", 3))
        return false; /* before its value is walked: instances are objects too */
    p = srv_json_space(after, v.end);
    p = srv_json_space(p < v.end ? p + 1 : p, v.end);
    if (p >= v.end || *p != '"')
        return false;
    after = after_string(p, v.end);
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

/* ---- texts ---- */

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
        const unsigned char *run = plain_run(p, end);
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
