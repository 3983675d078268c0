/* Checks that a text is valid JSON, and finds the first error. */
#include <stdlib.h>
#include <string.h>

#include "server/json/json.h"
#include "server/json/json_number.h"
#include "server/base/hex.h"
#include "server/json/json_internal.h"

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
    struct srv_cancellation *cancellation;
    const char *why;
    const unsigned char *at; /* position of the error in the text */
};

/* Calls srv_should_continue. The loop over the tokens is faster if this code is not part of it. */
__attribute__((noinline)) static bool go_on(struct srv_cancellation *cancellation, size_t bytes)
{
    return srv_should_continue(cancellation, bytes);
}

static bool refuse(struct check *c, const char *why, const unsigned char *at)
{
    c->why = why;
    c->at = at;
    return false;
}

/* Returns the byte at p, or 0 at the end of the text. A NUL byte also counts as the end. */
static unsigned char peek(const struct check *c, const unsigned char *p)
{
    return p < c->end ? *p : 0;
}

/* Reads four hex digits at *p and advances *p past them. */
static bool check_hex(struct check *c, const unsigned char **p, const unsigned char *escape,
                      unsigned *out)
{
    unsigned u = 0;
    for (int i = 0; i < 4; i++) {
        int h = srv_hex_digit(peek(c, *p));
        if (h < 0)
            return refuse(c, hex_text, escape);
        u = u << 4 | (unsigned)h;
        ++*p;
    }
    *out = u;
    return true;
}

/* Checks a string whose opening quote is at c->p. */
static bool check_string(struct check *c)
{
    enum { PIECE = 1 << 20 }; /* number of bytes between two checks for cancellation */
    const unsigned char *p = c->p + 1, *check = p + PIECE;
    for (;;) {
        p = srv_json_plain(p, c->end);
        unsigned char ch = peek(c, p);
        if (ch == '"') {
            c->p = p + 1;
            return true;
        }
        if (ch != '\\')
            return refuse(c, ch ? escape_text : quote_text, p);
        if (p >= check) {
            if (!go_on(c->cancellation, PIECE))
                return false;
            check = p + PIECE;
        }
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

/* Checks that the text at c->p begins with `word`. The position of an error is the first byte that
 * differs. */
static bool check_word(struct check *c, const char *word)
{
    const unsigned char *p = c->p;
    for (; *word; word++, p++)
        if (peek(c, p) != (unsigned char)*word)
            return refuse(c, value_text, p);
    c->p = p;
    return true;
}

/* Returns the address of the first byte at or after p that is not a digit. */
static const unsigned char *after_digits(const unsigned char *p, const unsigned char *end)
{
    uint64_t w;
    while (end - p >= 8) {
        memcpy(&w, p, 8);
        uint64_t non_digits = ((w ^ UINT64_C(0x3030303030303030)) & UINT64_C(0xf0f0f0f0f0f0f0f0)) |
                              ((w + UINT64_C(0x0606060606060606)) & UINT64_C(0x4040404040404040));
        if (!non_digits) {
            p += 8;
            continue;
        }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        /* The lowest set bit marks the first byte that is not a digit. The digits before it cause
         * no carry. */
        return p + (__builtin_ctzll(non_digits) >> 3);
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

/* A stack with one bit per open container: 1 for an object, 0 for an array. Its depth cannot exceed
 * the length of the text. */
struct nest {
    uint64_t few[8], *bits;
    size_t depth, capacity; /* in bits */
};

static bool nest_push(struct nest *n, bool object)
{
    if (n->depth == n->capacity) {
        size_t capacity = n->capacity * 2;
        uint64_t *bits = malloc(capacity / 8);
        if (!bits)
            return false;
        memcpy(bits, n->bits, n->capacity / 8);
        if (n->bits != n->few)
            free(n->bits);
        n->bits = bits;
        n->capacity = capacity;
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

/* Returns the member of *doc for the value of a top-level key, or NULL if no API uses the key. */
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

/* ---- the document ---- */

struct document {
    struct srv_json_doc *doc;
    struct nest nest;
    int64_t count; /* number of elements in the current array at nesting depth 2 */
    bool counting; /* whether the array at nesting depth 2 is `instances` */
    bool no_memory;
};

/* The kind of token that is expected next, after white space. */
enum place {
    AT_VALUE,
    AT_NAME,
    AT_CLOSE, /* the closing bracket of the innermost open container */
    BEHIND_VALUE,
    AT_END,
    REFUSED,
};

static void skip(struct check *c, size_t n)
{
    c->p = srv_json_space(c->p + n, c->end);
}

static enum place refuse_place(struct check *c, const char *why)
{
    refuse(c, why, c->p);
    return REFUSED;
}

static enum place open_container(struct document *d, struct check *c, bool is_object)
{
    if (!nest_push(&d->nest, is_object)) {
        d->no_memory = true;
        return REFUSED;
    }
    skip(c, 1);
    bool is_empty = peek(c, c->p) == (is_object ? '}' : ']');
    if (!is_object && d->nest.depth == 2)
        d->count = !is_empty;
    return is_empty ? AT_CLOSE : is_object ? AT_NAME : AT_VALUE;
}

static enum place take_value(struct document *d, struct check *c)
{
    bool passes;
    switch (peek(c, c->p)) {
    case '{':
        return open_container(d, c, true);
    case '[':
        return open_container(d, c, false);
    case '"':
        passes = check_string(c);
        break;
    case 't':
        passes = check_word(c, "true");
        break;
    case 'f':
        passes = check_word(c, "false");
        break;
    case 'n':
        passes = check_word(c, "null");
        break;
    default:
        passes = check_number(c);
    }
    return passes ? BEHIND_VALUE : REFUSED;
}

static enum place after_value(struct document *d, struct check *c)
{
    if (d->nest.depth == 0)
        return AT_END;
    skip(c, 0);
    unsigned char ch = peek(c, c->p);
    bool in_object = nest_is_object(&d->nest);
    if (ch == (in_object ? '}' : ']'))
        return AT_CLOSE;
    if (ch != ',')
        return refuse_place(c, in_object ? member_text : element_text);
    d->count += !in_object && d->nest.depth == 2;
    skip(c, 1);
    return in_object ? AT_NAME : AT_VALUE;
}

static enum place close_container(struct document *d, struct check *c)
{
    c->p++;
    if (d->nest.depth == 2 && d->counting) {
        d->doc->n_instances = d->count;
        d->counting = false;
    }
    d->nest.depth--;
    return BEHIND_VALUE;
}

static enum place take_name(struct document *d, struct check *c)
{
    const unsigned char *from = c->p;
    if (peek(c, from) != '"')
        return refuse_place(c, name_text);
    if (!check_string(c))
        return REFUSED;
    struct rt_span token = rt_span_of(from, (size_t)(c->p - from));
    skip(c, 0);
    if (peek(c, c->p) != ':')
        return refuse_place(c, colon_text);
    skip(c, 1);
    struct srv_json *slot = d->nest.depth == 1 ? member_slot(d->doc, token) : NULL;
    if (slot && !slot->p) {
        *slot = (struct srv_json){c->p, c->end, c->cancellation};
        d->counting = slot == &d->doc->instances && peek(c, c->p) == '[';
    }
    return AT_VALUE;
}

/* Checks the complete document. Returns false if it has an error, memory runs out, or the request
 * is cancelled. */
static bool check_document(struct document *d, struct check *c)
{
    enum { TOKENS = 8192 }; /* number of tokens between two checks for cancellation */
    enum place place = AT_VALUE;
    skip(c, 0);
    d->doc->top = (struct srv_json){c->p, c->end, c->cancellation};
    unsigned char ch = peek(c, c->p);
    if (ch == 0 || ch == ',' || ch == ':' || ch == ']' || ch == '}')
        place = refuse_place(c, empty_text);
    while (place < AT_END) {
        const unsigned char *from = c->p;
        for (int left = TOKENS; left && place < AT_END; left--) {
            if (place == AT_VALUE)
                place = take_value(d, c);
            else if (place == AT_NAME)
                place = take_name(d, c);
            if (place == AT_CLOSE)
                place = close_container(d, c);
            if (place == BEHIND_VALUE)
                place = after_value(d, c);
        }
        if (!go_on(c->cancellation, (size_t)(c->p - from)))
            return false;
    }
    return place == AT_END;
}

enum rt_status srv_json_check(struct srv_json_doc *doc, struct rt_span text,
                              struct srv_cancellation *cancellation, struct rt_error *err)
{
    memset(doc, 0, sizeof *doc);
    if (text.n == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "JSON Parse error: The document is empty");
    struct check c = {.p = text.p, .end = text.p + text.n, .cancellation = cancellation};
    struct document d = {.doc = doc, .nest = {.capacity = 512}};
    d.nest.bits = d.nest.few;
    if (text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0)
        c.p += 3;
    bool passed = check_document(&d, &c);
    if (d.nest.bits != d.nest.few)
        free(d.nest.bits);
    if (d.no_memory)
        return rt_fail_memory(err, "the nesting of a JSON text", text.n / 8);
    if (cancellation && cancellation->over)
        return srv_cancellation_status(cancellation, err);
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
