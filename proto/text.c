#include "proto/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "google/protobuf/any.pb-c.h"
#include "proto/field.h"
#include "proto/unpack.h"
#include "runtime/base/bytes.h"

struct parser {
    const char *begin, *p, *end;
    int depth;
    struct rt_error *err;
    struct pb_text_places *places;
    /* The last place that was looked up, so that many of them are one walk over the text. */
    const char *known;
    struct pb_text_place at_known;
    const char *closed; /* the last bracket that closed a name of a type */
};

/* `at` not before the one of the last call. As protobuf counts: bytes, and a tab leads to the next
 * column that is a multiple of 8, plus one. */
static struct pb_text_place place_of(struct parser *x, const char *at)
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

static void keep_place(struct parser *x, const ProtobufCMessageDescriptor *d, const char *at)
{
    struct pb_text_places *p = x->places;
    if (p && p->type == d && p->n < p->max)
        p->at[p->n++] = place_of(x, at);
}

/* ---- errors ---- */

static enum rt_status fail(struct parser *x, const char *at, const char *fmt, ...) RT_PRINTF(3, 4);
static enum rt_status fail(struct parser *x, const char *at, const char *fmt, ...)
{
    char reason[384];
    va_list ap;

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

static enum rt_status fail_memory(struct parser *x)
{
    return rt_fail_memory(x->err, "a message", (size_t)(x->end - x->begin));
}

/* ---- tokens ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void skip_space(struct parser *x)
{
    for (; x->p < x->end; x->p++) {
        if (*x->p == '#') {
            while (x->p < x->end && *x->p != '\n')
                x->p++;
            if (x->p == x->end)
                return;
        } else if (*x->p != ' ' && (*x->p < '\t' || *x->p > '\r')) {
            return;
        }
    }
}

/* The next character that is no space, 0 at the end. */
static char peek(struct parser *x)
{
    skip_space(x);
    return x->p < x->end ? *x->p : 0;
}

static bool take(struct parser *x, char c)
{
    if (c != peek(x) || x->p == x->end)
        return false;
    x->p++;
    return true;
}

/* A word or a number: all that belongs together, so that "1x" is one bad token, not two. */
static struct rt_span word(struct parser *x)
{
    skip_space(x);
    const char *from = x->p;
    bool number = from < x->end && (is_digit(*from) || *from == '.');
    while (x->p < x->end) {
        char c = *x->p;
        bool sign = number && (c == '+' || c == '-') && x->p > from && (x->p[-1] | 32) == 'e' &&
                    !(x->p - from > 1 && (from[1] | 32) == 'x');
        if (!is_letter(c) && !is_digit(c) && !(number && c == '.') && !sign)
            break;
        x->p++;
    }
    return rt_span_of(from, (size_t)(x->p - from));
}

/* What stands at `at`: a word, a number, a string with its quotes, or one character. */
static struct rt_span token_at(const struct parser *x, const char *at)
{
    struct parser y = *x;
    struct rt_span s;

    y.p = at;
    if (at < x->end && (*at == '"' || *at == '\'')) {
        const char *end = at + 1;
        while (end < x->end && *end != *at && *end != '\n')
            end += *end == '\\' && end + 1 < x->end ? 2 : 1;
        return rt_span_of(at, (size_t)(end < x->end ? end + 1 - at : x->end - at));
    }
    s = word(&y);
    return s.n ? s : rt_span_of(at, at < x->end);
}

/*
 * TextFormat's words for another token than the one that is wanted at `at`: `verb` is "got" for a
 * kind of token ("Expected integer, got: x"), "found" for one of its own ("Expected ":", found
 * "x"."). Its tokenizer complains of bytes that no token has before its parser does.
 */
static enum rt_status unexpected(struct parser *x, const char *what, const char *verb,
                                 const char *at)
{
    unsigned char c = at < x->end ? (unsigned char)*at : ' ';

    if (c < ' ' && (c < '\t' || c > '\r'))
        return fail(x, at, "Invalid control characters encountered in text.");
    if (c > 127)
        return fail(x, at, "Interpreting non ascii codepoint %d.", c);
    struct rt_span s = token_at(x, at);
    bool own = strcmp(verb, "found") == 0;
    /* A string may be a key that nobody should find in a log. */
    size_t limit = c == '"' || c == '\'' ? 24 : 64;
    return fail(x, at, "Expected %s, %s%s%.*s%s", what, verb, own ? " \"" : ": ",
                (int)(s.n < limit ? s.n : limit), (const char *)s.p, own ? "\"." : "");
}

static enum rt_status expected(struct parser *x, const char *what, const char *at)
{
    return unexpected(x, what, "got", at);
}

/* The token `what`, given with its quotes, must come next. */
static enum rt_status missing(struct parser *x, const char *what)
{
    skip_space(x);
    return unexpected(x, what, "found", x->p);
}

/* Where TextFormat reports what it knows of a token only after it was read: at the next one. */
static const char *next_token(struct parser *x)
{
    skip_space(x);
    return x->p;
}

/* ---- strings ---- */

/* Exactly n hexadecimal digits. */
static bool hex(struct parser *x, int n, uint32_t *out)
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

static enum rt_status unicode(struct parser *x, char kind, const char *at, struct rt_bytes *out)
{
    uint32_t c, low;

    if (!hex(x, kind == 'u' ? 4 : 8, &c))
        return fail(x, at, "Expected %d hexadecimal digits after \\%c.", kind == 'u' ? 4 : 8, kind);
    if (c >= 0xd800 && c < 0xdc00 && x->end - x->p >= 6 && x->p[0] == '\\' && x->p[1] == 'u') {
        x->p += 2;
        if (!hex(x, 4, &low) || low < 0xdc00 || low > 0xdfff)
            return fail(x, at, "Half of a surrogate pair.");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return fail(x, at, "No character: \\%c%x.", kind, (unsigned)c);
    rt_bytes_add_utf8(out, c);
    return RT_OK;
}

static enum rt_status escape(struct parser *x, struct rt_bytes *out)
{
    static const char from[] = "nrtabfv\\'\"?", to[] = "\n\r\t\a\b\f\v\\'\"?";
    const char *at = x->p;
    int value = 0, n = 0;

    if (x->p == x->end)
        return fail(x, at, "Unexpected end of string.");
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
            return fail(x, at, "Octal escape above 377.");
        rt_bytes_addc(out, (char)value);
        return RT_OK;
    }
    if (c == 'x' || c == 'X') {
        for (; n < 2 && x->p < x->end && hex_digit(*x->p) >= 0; n++)
            value = value * 16 + hex_digit(*x->p++);
        if (!n)
            return fail(x, x->p, "Expected hex digits for escape sequence.");
        rt_bytes_addc(out, (char)value);
        return RT_OK;
    }
    if (c == 'u' || c == 'U')
        return unicode(x, c, at, out);
    return fail(x, at, "Invalid escape sequence in string literal.");
}

/* One or more quoted pieces. */
static enum rt_status string(struct parser *x, struct rt_bytes *out)
{
    enum rt_status st;
    char quote = peek(x);

    if (quote != '"' && quote != '\'')
        return expected(x, "string", x->p);
    for (; quote == '"' || quote == '\''; quote = peek(x)) {
        x->p++;
        for (;;) {
            if (x->p == x->end)
                return fail(x, x->p, "Unexpected end of string.");
            if (*x->p == '\n')
                return fail(x, x->p, "String literals cannot cross line boundaries.");
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
    return out->failed ? fail_memory(x) : RT_OK;
}

/* ---- numbers ---- */

/* Decimal, 0x hexadecimal or 0 octal; false when it is none or above `max`. */
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

static enum rt_status integer(struct parser *x, bool is_signed, int bits, uint64_t *out)
{
    uint64_t max = is_signed ? (UINT64_C(1) << (bits - 1)) - 1
                             : (bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1);
    bool negative = take(x, '-');
    if (negative && !is_signed)
        return fail(x, x->p - 1, "Expected integer, got: -");
    skip_space(x);
    const char *at = x->p;
    struct rt_span s = word(x);
    if (!s.n || !is_digit((char)s.p[0]) || memchr(s.p, '.', s.n))
        return expected(x, "integer", at);
    if (!to_unsigned(s, negative ? max + 1 : max, out))
        return fail(x, at, "Integer out of range (%.*s)", (int)(s.n < 64 ? s.n : 64),
                    (const char *)s.p);
    if (negative)
        *out = 0 - *out;
    return RT_OK;
}

static bool same_word(struct rt_span s, const char *w)
{
    return s.n == strlen(w) && strncasecmp((const char *)s.p, w, s.n) == 0;
}

static enum rt_status floating(struct parser *x, double *out)
{
    bool negative = take(x, '-');
    skip_space(x);
    const char *at = x->p;
    struct rt_span s = word(x);
    char room[320], *end = room;
    double v;

    if (same_word(s, "inf") || same_word(s, "infinity")) {
        v = (double)INFINITY;
    } else if (same_word(s, "nan")) {
        v = (double)NAN;
    } else {
        size_t n = s.n;
        if (n > 1 && (s.p[n - 1] | 32) == 'f')
            n--;
        if (!n || n >= sizeof room || !(is_digit((char)s.p[0]) || s.p[0] == '.'))
            return expected(x, "double", at);
        memcpy(room, s.p, n);
        room[n] = 0;
        /* strtod knows more forms than the text format. */
        bool octal = n > 1 && room[0] == '0' && is_digit(room[1]);
        if (!octal && strspn(room, "0123456789.eE+-") == n)
            v = strtod(room, &end);
        else
            v = 0;
        if (end != room + n)
            return expected(x, "double", at);
    }
    *out = negative ? -v : v;
    return RT_OK;
}

static enum rt_status boolean(struct parser *x, protobuf_c_boolean *out)
{
    skip_space(x);
    const char *at = x->p;
    struct rt_span s = word(x);
    uint64_t v;

    if (rt_span_is(s, "true") || rt_span_is(s, "True") || rt_span_is(s, "t"))
        *out = 1;
    else if (rt_span_is(s, "false") || rt_span_is(s, "False") || rt_span_is(s, "f"))
        *out = 0;
    else if (s.n && is_digit((char)s.p[0]) && to_unsigned(s, 1, &v))
        *out = (protobuf_c_boolean)v;
    else
        return expected(x, "\"true\" or \"false\"", at);
    return RT_OK;
}

static enum rt_status enumeration(struct parser *x, const ProtobufCFieldDescriptor *f, int32_t *out)
{
    const ProtobufCEnumDescriptor *d = f->descriptor;
    char name[128];
    uint64_t v;
    enum rt_status st;
    char c = peek(x);

    if (c == '-' || is_digit(c)) {
        st = integer(x, true, 32, &v);
        if (!st)
            *out = (int32_t)(int64_t)v;
        return st;
    }
    const char *at = x->p;
    struct rt_span s = word(x);
    if (!s.n)
        return expected(x, "integer or identifier", at);
    const ProtobufCEnumValue *value = NULL;
    if (s.n < sizeof name) {
        memcpy(name, s.p, s.n);
        name[s.n] = 0;
        value = protobuf_c_enum_descriptor_get_value_by_name(d, name);
    }
    if (!value)
        return fail(x, next_token(x), "Unknown enumeration value of \"%.*s\" for field \"%s\".",
                    (int)(s.n < 64 ? s.n : 64), (const char *)s.p, f->name);
    *out = value->value;
    return RT_OK;
}

/* ---- fields ---- */

static enum rt_status body(struct parser *x, ProtobufCMessage *m, char close);

static size_t element_size(ProtobufCType t)
{
    switch (t) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

/* One more, zeroed. The array's room is the power of two that holds its count. */
static void *append(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    size_t *n = (size_t *)(void *)((char *)m + f->quantifier_offset);
    void **array = (void **)(void *)((char *)m + f->offset);
    size_t size = element_size(f->type);

    if ((*n & (*n - 1)) == 0) {
        size_t room = *n ? *n * 2 : 1;
        void *more = room <= SIZE_MAX / 2 / size ? realloc(*array, room * size) : NULL;
        if (!more)
            return NULL;
        *array = more;
    }
    void *slot = (char *)*array + *n * size;
    memset(slot, 0, size);
    ++*n;
    return slot;
}

/* Where the value of `f` goes. A singular one is marked as there. */
static void *slot_of(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return append(m, f);
    void *quantifier = (char *)m + f->quantifier_offset;
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        *(uint32_t *)quantifier = f->id;
    else if (f->label == PROTOBUF_C_LABEL_OPTIONAL && f->type != PROTOBUF_C_TYPE_STRING &&
             f->type != PROTOBUF_C_TYPE_MESSAGE)
        *(protobuf_c_boolean *)quantifier = 1;
    return (char *)m + f->offset;
}

static enum rt_status open_body(struct parser *x, char *close)
{
    if (take(x, '{'))
        *close = '}';
    else if (take(x, '<'))
        *close = '>';
    else
        return missing(x, "\"{\"");
    if (x->depth == PB_MAX_DEPTH)
        return fail(x, x->p - 1,
                    "Message is too deep, the parser exceeded the configured recursion "
                    "limit of %d.",
                    PB_MAX_DEPTH);
    return RT_OK;
}

static enum rt_status message_value(struct parser *x, ProtobufCMessage *m,
                                    const ProtobufCFieldDescriptor *f)
{
    const ProtobufCMessageDescriptor *d = f->descriptor;
    char close;
    enum rt_status st = open_body(x, &close);

    if (st)
        return st;
    keep_place(x, d, x->p - 1);
    ProtobufCMessage *inner = calloc(1, d->sizeof_message);
    ProtobufCMessage **slot = inner ? slot_of(m, f) : NULL;
    if (!slot) {
        free(inner);
        return fail_memory(x);
    }
    d->message_init(inner);
    *slot = inner;
    x->depth++;
    st = body(x, inner, close);
    x->depth--;
    return st;
}

/* Takes the text. An empty one may have been there: it counts as none, and goes. */
static void put_string(void *slot, const ProtobufCFieldDescriptor *f, struct rt_bytes *text)
{
    size_t n = 0;
    char *p = rt_bytes_take(text, &n);
    bool may_replace =
        f->label == PROTOBUF_C_LABEL_NONE && !(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF);

    if (f->type == PROTOBUF_C_TYPE_STRING) {
        char **to = slot;
        if (may_replace && *to != f->default_value)
            free(*to);
        *to = p;
    } else {
        ProtobufCBinaryData *to = slot;
        if (may_replace)
            free(to->data);
        to->len = n;
        to->data = (uint8_t *)p;
    }
}

static enum rt_status string_value(struct parser *x, ProtobufCMessage *m,
                                   const ProtobufCFieldDescriptor *f)
{
    struct rt_bytes b;

    rt_bytes_init(&b, (size_t)(x->end - x->begin) * 4 + 16);
    skip_space(x);
    const char *at = x->p;
    enum rt_status st = string(x, &b);
    if (!st && f->type == PROTOBUF_C_TYPE_STRING && memchr(b.p ? b.p : "", 0, b.n))
        st = fail(x, at, "Field \"%s\" holds a NUL.", f->name);
    if (!st) {
        rt_bytes_add(&b, "", 0);
        void *slot = b.failed ? NULL : slot_of(m, f);
        if (!slot)
            st = fail_memory(x);
        else
            put_string(slot, f, &b);
    }
    rt_bytes_clear(&b);
    return st;
}

static enum rt_status value(struct parser *x, ProtobufCMessage *m,
                            const ProtobufCFieldDescriptor *f)
{
    union {
        uint64_t u64;
        uint32_t u32;
        int32_t i32;
        float f32;
        double f64;
        protobuf_c_boolean b;
    } v = {0};
    double number;
    enum rt_status st;

    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return message_value(x, m, f);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return string_value(x, m, f);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        st = integer(x, f->type != PROTOBUF_C_TYPE_UINT32 && f->type != PROTOBUF_C_TYPE_FIXED32, 32,
                     &v.u64);
        v.u32 = (uint32_t)v.u64;
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        st = integer(x, f->type != PROTOBUF_C_TYPE_UINT64 && f->type != PROTOBUF_C_TYPE_FIXED64, 64,
                     &v.u64);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        st = floating(x, &number);
        v.f32 = (float)(st ? 0 : number);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        st = floating(x, &v.f64);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        st = boolean(x, &v.b);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        st = enumeration(x, f, &v.i32);
        break;
    default:
        return fail(x, x->p, "Field \"%s\" has an unknown type.", f->name);
    }
    if (st)
        return st;
    void *slot = slot_of(m, f);
    if (!slot)
        return fail_memory(x);
    memcpy(slot, &v, element_size(f->type));
    return RT_OK;
}

static enum rt_status list(struct parser *x, ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    enum rt_status st;

    if (take(x, ']'))
        return RT_OK;
    for (;;) {
        st = value(x, m, f);
        if (st)
            return st;
        if (take(x, ']'))
            return RT_OK;
        if (!take(x, ','))
            return missing(x, "\",\"");
    }
}

/* A singular field must not have a value yet, nor another member of its oneof. A zero given to a
 * field without presence does not count: protobuf itself cannot tell it from none. */
static enum rt_status check_once(struct parser *x, ProtobufCMessage *m,
                                 const ProtobufCFieldDescriptor *f)
{
    const char *at = next_token(x);

    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return RT_OK;
    if (pb_field_is_set(m, f))
        return fail(x, at, "Non-repeated field \"%s\" is specified multiple times.", f->name);
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        uint32_t other = *(uint32_t *)(void *)((char *)m + f->quantifier_offset);
        const ProtobufCFieldDescriptor *o =
            other ? protobuf_c_message_descriptor_get_field(m->descriptor, other) : NULL;
        if (o)
            return fail(x, at,
                        "Field \"%s\" is specified along with field \"%s\", another member of the "
                        "same oneof.",
                        f->name, o->name);
    }
    return RT_OK;
}

/* ---- what stands in brackets ---- */

/* "[a.b/c.D]": the text between, without spaces and comments. The "[" is taken already. */
static enum rt_status bracketed(struct parser *x, char *out, size_t room, const char *at)
{
    size_t n = 0;

    for (;;) {
        char c = peek(x);
        if (x->p == x->end)
            return missing(x, "\"]\"");
        x->closed = x->p++;
        if (c == ']')
            break;
        if (!is_letter(c) && !is_digit(c) && !strchr("./-", c))
            return expected(x, "identifier", x->p - 1);
        if (n + 1 == room)
            return fail(x, at, "The name of a type or extension is too long.");
        out[n++] = c;
    }
    out[n] = 0;
    return n ? RT_OK : expected(x, "identifier", x->p - 1);
}

static enum rt_status pack_into(struct parser *x, Google__Protobuf__Any *any, const char *url,
                                const ProtobufCMessage *inner)
{
    size_t n = protobuf_c_message_get_packed_size(inner);
    uint8_t *bytes = n < SIZE_MAX ? malloc(n + 1) : NULL;
    char *copy = strdup(url);

    if (!bytes || !copy) {
        free(bytes);
        free(copy);
        return fail_memory(x);
    }
    any->value.len = protobuf_c_message_pack(inner, bytes);
    any->value.data = bytes;
    any->type_url = copy;
    return RT_OK;
}

/* An Any written as what it holds: "[type.googleapis.com/a.B] { ... }". */
static enum rt_status expanded_any(struct parser *x, Google__Protobuf__Any *any, const char *url)
{
    const char *at = next_token(x);
    const char *slash = strrchr(url, '/');
    const ProtobufCMessageDescriptor *d = slash ? pb_any_type(rt_span_str(slash + 1)) : NULL;
    char close;

    if (!slash)
        return fail(x, x->closed, "Expected \"/\", found \"]\".");
    if (!d)
        return fail(x, at, "Could not find type \"%s\" stored in google.protobuf.Any.", url);
    if (*any->type_url || any->value.len)
        return fail(x, at, "Non-repeated Any specified multiple times.");
    take(x, ':');
    enum rt_status st = open_body(x, &close);
    if (st)
        return st;
    ProtobufCMessage *inner = calloc(1, d->sizeof_message);
    if (!inner)
        return fail_memory(x);
    d->message_init(inner);
    x->depth++;
    st = body(x, inner, close);
    x->depth--;
    if (!st)
        st = pack_into(x, any, url, inner);
    pb_free(inner);
    return st;
}

static enum rt_status bracket_field(struct parser *x, ProtobufCMessage *m)
{
    char name[256];
    const char *at = x->p++;
    enum rt_status st = bracketed(x, name, sizeof name, at);

    if (st)
        return st;
    if (m->descriptor == &google__protobuf__any__descriptor)
        return expanded_any(x, (Google__Protobuf__Any *)m, name);
    return fail(x, next_token(x),
                "Extension \"%s\" is not defined or is not an extension of \"%s\".", name,
                m->descriptor->name);
}

/* ---- fields of a message ---- */

static enum rt_status end_of_field(struct parser *x)
{
    if (!take(x, ','))
        take(x, ';');
    return RT_OK;
}

static enum rt_status field(struct parser *x, ProtobufCMessage *m)
{
    char name[128];
    const ProtobufCMessageDescriptor *d = m->descriptor;
    const ProtobufCFieldDescriptor *f = NULL;
    enum rt_status st;

    char c = peek(x);
    const char *at = x->p;
    if (c == '[') {
        st = bracket_field(x, m);
        return st ? st : end_of_field(x);
    }
    if (!is_letter(c))
        return expected(x, "identifier", at);
    struct rt_span s = word(x);
    if (s.n < sizeof name) {
        memcpy(name, s.p, s.n);
        name[s.n] = 0;
        f = protobuf_c_message_descriptor_get_field_by_name(d, name);
    }
    if (!f)
        return fail(x, next_token(x), "Message type \"%s\" has no field named \"%.*s\".", d->name,
                    (int)(s.n < 64 ? s.n : 64), (const char *)s.p);
    st = check_once(x, m, f);
    if (st)
        return st;
    bool colon = take(x, ':');
    c = peek(x);
    bool is_list = c == '[' && f->label == PROTOBUF_C_LABEL_REPEATED;
    if (!colon && f->type != PROTOBUF_C_TYPE_MESSAGE)
        return missing(x, "\":\"");
    if (is_list) {
        x->p++;
        st = list(x, m, f);
    } else {
        st = value(x, m, f);
    }
    return st ? st : end_of_field(x);
}

/* Fields up to `close`, 0: up to the end of the text. */
static enum rt_status body(struct parser *x, ProtobufCMessage *m, char close)
{
    enum rt_status st = RT_OK;

    while (!st) {
        char c = peek(x);
        if (x->p == x->end && !close)
            return RT_OK;
        if (close && c == close) {
            x->p++;
            return RT_OK;
        }
        if (close && (c == '}' || c == '>'))
            return missing(x, close == '}' ? "\"}\"" : "\">\"");
        st = field(x, m);
    }
    return st;
}

enum rt_status pb_text_parse(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                             struct rt_span text, struct rt_error *err)
{
    return pb_text_parse_placed(out, d, text, NULL, err);
}

enum rt_status pb_text_parse_placed(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                                    struct rt_span text, struct pb_text_places *places,
                                    struct rt_error *err)
{
    const char *begin = text.n ? (const char *)text.p : "";
    struct parser x = {.end = begin + text.n, .depth = 1, .err = err, .places = places};
    if (text.n >= 3 && memcmp(begin, "\xef\xbb\xbf", 3) == 0)
        begin += 3; /* editors put a mark before UTF-8 */
    x.begin = x.p = x.known = begin;
    x.at_known = (struct pb_text_place){1, 1};
    ProtobufCMessage *m = calloc(1, d->sizeof_message);
    enum rt_status st;

    if (!m)
        return rt_fail_memory(err, "a message", d->sizeof_message);
    d->message_init(m);
    st = body(&x, m, 0);
    if (st)
        pb_free(m);
    else
        *out = m;
    return st;
}
