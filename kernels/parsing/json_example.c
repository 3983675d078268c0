#include "kernels/parsing/json_example.h"

#include <math.h>

#include "kernels/array/hash_set.h"
#include "kernels/string/parse.h"
#include "runtime/base/sort.h"

/* The deepest nesting of objects and arrays, as in protobuf. */
enum { MAX_DEPTH = 100 };

/* The fields of Feature. */
enum kind { BYTES = 1, FLOATS = 2, INTEGERS = 3 };

struct parser {
    const char *begin, *p, *end, *counted;
    struct rt_bytes *out, *text, *hashes;
    struct kn_reader *t;
    const struct rt_check *check;
    struct rt_error *err;
    int depth;
};

static enum rt_status fail(const struct parser *j, const char *what)
{
    return rt_fail(j->err, RT_INVALID_ARGUMENT, "Error while parsing JSON: %s (offset %lld)", what,
                   (long long)(j->p - j->begin));
}

/* Counts the text that has been read. */
static enum rt_status spend(struct parser *j)
{
    const size_t n = (size_t)(j->p - j->counted);

    j->counted = j->p;
    if (j->out->failed || j->text->failed || j->hashes->failed)
        return RT_INTERNAL;
    return kn_read_on(j->t, 4 * n) ? RT_OK : j->t->st;
}

static bool is_long(const struct parser *j)
{
    return j->p - j->counted >= KN_TEXT_CHUNK / 4;
}

/* ---- tokens ---- */

static enum rt_status skip_space(struct parser *j)
{
    enum rt_status st = RT_OK;

    while (j->p < j->end && !st &&
           (*j->p == ' ' || *j->p == '\t' || *j->p == '\n' || *j->p == '\r')) {
        j->p++;
        if (is_long(j))
            st = spend(j);
    }
    return st ? st : spend(j);
}

/* Skips white space. Sets *c to the next character, which must exist. */
static enum rt_status peek(struct parser *j, char *c)
{
    const enum rt_status st = skip_space(j);

    if (st)
        return st;
    if (j->p == j->end)
        return fail(j, "unexpected EOF");
    *c = *j->p;
    return RT_OK;
}

static enum rt_status expect(struct parser *j, char c)
{
    char next;
    enum rt_status st = peek(j, &next);

    if (st)
        return st;
    if (next != c)
        return fail(j, c == '{' ? "expected '{'" : "expected ':'");
    j->p++;
    return RT_OK;
}

/* Reads the bracket that begins an object or array. */
static enum rt_status enter(struct parser *j, char c)
{
    const enum rt_status st = expect(j, c);

    if (st)
        return st;
    return ++j->depth > MAX_DEPTH ? fail(j, "JSON content was too deeply nested") : RT_OK;
}

/* Takes the word `null` if it comes next. */
static enum rt_status take_null(struct parser *j, bool *taken)
{
    char c;
    const enum rt_status st = peek(j, &c);

    *taken = !st && j->end - j->p >= 4 && memcmp(j->p, "null", 4) == 0;
    j->p += *taken ? 4 : 0;
    return st;
}

static enum rt_status hex4(struct parser *j, uint32_t *v)
{
    *v = 0;
    if (j->end - j->p < 4)
        return fail(j, "unexpected EOF");
    for (int k = 0; k < 4; k++) {
        const char c = *j->p++;
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return fail(j, "invalid Unicode escape");
        *v = *v << 4 | (uint32_t)digit;
    }
    return RT_OK;
}

/* Reads an escape after its backslash. */
static enum rt_status escape(struct parser *j)
{
    static const char from[] = "\"\\/'bfnrt", to[] = "\"\\/'\b\f\n\r\t";
    uint32_t v, low;
    enum rt_status st;

    if (j->p == j->end)
        return fail(j, "unexpected EOF");
    const char c = *j->p++, *at = c ? strchr(from, c) : NULL;
    if (at) {
        rt_bytes_addc(j->text, to[at - from]);
        return RT_OK;
    }
    if (c != 'u')
        return fail(j, "invalid escape char");
    if ((st = hex4(j, &v)))
        return st;
    if (v >= 0xdc00 && v < 0xe000)
        return fail(j, "unpaired low surrogate");
    if (v >= 0xd800 && v < 0xdc00) {
        if (j->end - j->p < 2 || j->p[0] != '\\' || j->p[1] != 'u')
            return fail(j, "expected '\\u'");
        j->p += 2;
        if ((st = hex4(j, &low)))
            return st;
        if (low < 0xdc00 || low >= 0xe000)
            return fail(j, "invalid low surrogate");
        v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
    }
    rt_bytes_add_utf8(j->text, v);
    return RT_OK;
}

/* Reads a character that is not ASCII. */
static enum rt_status wide_character(struct parser *j)
{
    unsigned char bytes[5] = {0};
    const size_t left = (size_t)(j->end - j->p);

    memcpy(bytes, j->p, left < 4 ? left : 4);
    const int n = rt_utf8_length(bytes);
    if (n <= 0)
        return fail(j, "invalid UTF-8 in string");
    rt_bytes_add(j->text, j->p, (size_t)n);
    j->p += n;
    return RT_OK;
}

/* Reads a string into j->text. Its opening quote comes next. */
static enum rt_status read_string(struct parser *j)
{
    const char quote = *j->p++;
    enum rt_status st = RT_OK;

    j->text->n = 0;
    while (!st) {
        const char *from = j->p;
        while (j->p < j->end && *j->p != quote && *j->p != '\\' && (unsigned char)*j->p < 0x80 &&
               !is_long(j))
            j->p++;
        rt_bytes_add(j->text, from, (size_t)(j->p - from));
        if (j->p == j->end)
            return fail(j, "unexpected EOF");
        if (is_long(j)) {
            st = spend(j);
        } else if (*j->p == '\\') {
            j->p++;
            st = escape(j);
        } else if (*j->p == quote) {
            j->p++;
            return spend(j);
        } else {
            st = wide_character(j);
        }
    }
    return st;
}

static bool is_word(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!first && c >= '0' && c <= '9');
}

/* Reads a key without quotes into j->text. */
static enum rt_status read_word(struct parser *j)
{
    static const char *const not [] = {"null", "true", "false"};
    const char *from = j->p;
    enum rt_status st = RT_OK;

    while (j->p < j->end && is_word(*j->p, j->p == from) && !st) {
        j->p++;
        if (is_long(j))
            st = spend(j);
    }
    const struct rt_span word = rt_span_of(from, (size_t)(j->p - from));
    bool is_key = word.n > 0;
    for (int k = 0; k < 3; k++)
        is_key = is_key && !rt_span_is(word, not [k]);
    if (!st && !is_key)
        return fail(j, "expected bare word");
    j->text->n = 0;
    rt_bytes_add(j->text, word.p, word.n);
    return st;
}

/* Advances to the value of an object's next key, which is in j->text, and sets *more; or leaves the
 * object. *more is whether this is not the first key. */
static enum rt_status next_key(struct parser *j, bool *more, bool *is_end)
{
    char c;
    enum rt_status st = peek(j, &c);

    if (!st && *more && c == ',') {
        j->p++;
        st = peek(j, &c);
    } else if (!st && *more && c != '}') {
        st = fail(j, "expected ','");
    }
    *more = true;
    *is_end = !st && c == '}';
    if (st)
        return st;
    if (*is_end) {
        j->p++;
        j->depth--;
        return RT_OK;
    }
    st = c == '"' || c == '\'' ? read_string(j) : read_word(j);
    return st ? st : expect(j, ':');
}

static bool key_is(const struct parser *j, const char *name)
{
    return rt_span_is(rt_span_of(j->text->p, j->text->n), name);
}

/* Advances over digits. Fails if there are none. */
static enum rt_status digits(struct parser *j, const char *what)
{
    const char *from = j->p;
    enum rt_status st = RT_OK;

    while (j->p < j->end && *j->p >= '0' && *j->p <= '9' && !st) {
        j->p++;
        if (is_long(j))
            st = spend(j);
    }
    return !st && j->p == from ? fail(j, what) : st;
}

/* Reads the characters of a number, and sets *n to how many there are. */
static enum rt_status number(struct parser *j, size_t *n)
{
    const char *from = j->p;

    j->p += *j->p == '-';
    const char *first = j->p;
    enum rt_status st = digits(j, "expected a number");
    if (!st && *first == '0' && j->p - first > 1)
        return fail(j, "number cannot have extraneous leading zero");
    if (!st && j->p < j->end && *j->p == '.') {
        j->p++;
        st = digits(j, "number cannot have trailing period");
    }
    if (!st && j->p < j->end && (*j->p == 'e' || *j->p == 'E')) {
        j->p++;
        j->p += j->p < j->end && (*j->p == '+' || *j->p == '-');
        st = digits(j, "invalid number");
    }
    *n = (size_t)(j->p - from);
    return st ? st : spend(j);
}

/* ---- the wire ---- */

static void put_varint(struct rt_bytes *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        rt_bytes_addc(b, (char)(v | 0x80));
    rt_bytes_addc(b, (char)v);
}

/* Begins a field that has a length. Returns where its contents begin. */
static size_t begin(struct parser *j, int field)
{
    rt_bytes_addc(j->out, (char)(field << 3 | 2));
    return j->out->n;
}

/* Writes the length before the contents. */
static enum rt_status finish(struct parser *j, size_t start)
{
    struct rt_bytes *b = j->out;

    if (b->failed)
        return RT_INTERNAL;
    const size_t n = b->n - start;
    put_varint(b, n);
    if (b->failed)
        return RT_INTERNAL;
    char length[10];
    const size_t more = b->n - start - n;
    memcpy(length, b->p + start + n, more);
    memmove(b->p + start + more, b->p + start, n);
    memcpy(b->p + start, length, more);
    return kn_read_on(j->t, n) ? RT_OK : j->t->st;
}

/* ---- values ---- */

static enum rt_status put_base64(struct parser *j)
{
    const char *p = j->text->p;
    size_t n = j->text->n;
    uint32_t v = 0;

    if (n % 4 == 0 && n && p[n - 1] == '=')
        n -= p[n - 2] == '=' ? 2 : 1;
    if (n % 4 == 1)
        return fail(j, "corrupt base64");
    rt_bytes_addc(j->out, 0x0a);
    put_varint(j->out, n / 4 * 3 + (n % 4 ? n % 4 - 1 : 0));
    for (size_t i = 0; i < n; i++) {
        const char c = p[i];
        const int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                          : c >= 'a' && c <= 'z' ? c - 'a' + 26
                          : c >= '0' && c <= '9' ? c - '0' + 52
                          : c == '+' || c == '-' ? 62
                          : c == '/' || c == '_' ? 63
                                                 : -1;
        if (digit < 0)
            return fail(j, "corrupt base64");
        v = v << 6 | (uint32_t)digit;
        if (i % 4)
            rt_bytes_addc(j->out, (char)(v >> (6 - 2 * (i % 4))));
        if (i % KN_TEXT_CHUNK == KN_TEXT_CHUNK - 1 && !kn_read_on(j->t, 8 * KN_TEXT_CHUNK))
            return j->t->st;
    }
    return RT_OK;
}

static enum rt_status put_float(struct parser *j, const char *p, size_t n, bool is_quoted)
{
    unsigned char bytes[4];
    double d;

    if (!kn_parse_double(p, n, &d) || (!is_quoted && !isfinite(d)))
        return fail(j, is_quoted ? "non-number characters in quoted number" : "invalid number");
    const float f = (float)d;
    if (isfinite(d) && !isfinite(f))
        return fail(j, "float out of range");
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    for (int k = 0; k < 4; k++)
        bytes[k] = (unsigned char)(bits >> 8 * k);
    rt_bytes_addc(j->out, 0x0d);
    rt_bytes_add(j->out, bytes, sizeof bytes);
    return RT_OK;
}

static enum rt_status put_integer(struct parser *j, const char *p, size_t n, bool is_quoted)
{
    const double most = 9007199254740992.0; /* 2^53 */
    int64_t v;
    double d;

    for (size_t i = 0; i < n && is_quoted; i++)
        if (p[i] == ' ' || (p[i] >= '\t' && p[i] <= '\r'))
            return fail(j, "non-number characters in quoted number");
    if (!kn_parse_i64(p, n, &v)) {
        if (!kn_parse_double(p, n, &d) || !isfinite(d))
            return fail(j, "invalid number");
        if (d != floor(d))
            return fail(j, "expected integer, but JSON number had fractional part");
        if (fabs(d) > most)
            return fail(j, "JSON number out of range for int");
        v = (int64_t)d;
    }
    rt_bytes_addc(j->out, 0x08);
    put_varint(j->out, (uint64_t)v);
    return RT_OK;
}

static enum rt_status value(struct parser *j, enum kind kind)
{
    bool is_null;
    char c;
    size_t n;
    enum rt_status st = take_null(j, &is_null);

    if (!st && !is_null)
        st = peek(j, &c);
    if (st)
        return st;
    j->text->n = 0;
    if (!is_null && (c == '"' || c == '\'')) {
        if ((st = read_string(j)))
            return st;
        return kind == BYTES    ? put_base64(j)
               : kind == FLOATS ? put_float(j, j->text->p, j->text->n, true)
                                : put_integer(j, j->text->p, j->text->n, true);
    }
    if (kind == BYTES)
        return is_null ? put_base64(j) : fail(j, "expected '\"'");
    const char *from = is_null ? "0" : j->p;
    n = 1;
    if (!is_null && (st = number(j, &n)))
        return st;
    return kind == FLOATS ? put_float(j, from, n, false) : put_integer(j, from, n, false);
}

/* Reads one value, or an array of values and arrays. */
static enum rt_status values(struct parser *j, enum kind kind)
{
    const int outer = j->depth;
    bool is_after = false; /* whether a value or array has ended, and a comma or bracket follows */
    enum rt_status st = RT_OK;
    char c;

    while (!st && !(is_after && j->depth == outer)) {
        if ((st = peek(j, &c)))
            break;
        if (!is_after && c == '[') {
            st = enter(j, '[');
        } else if (c == ']' && j->depth > outer) {
            j->p++;
            j->depth--;
            is_after = true;
        } else if (!is_after) {
            st = value(j, kind);
            is_after = true;
        } else if (c == ',') {
            j->p++;
            is_after = false;
        } else {
            st = fail(j, "expected ','");
        }
    }
    return st;
}

/* ---- messages ---- */

static enum rt_status list(struct parser *j, enum kind kind)
{
    bool more = false, is_end = false, is_null;
    enum rt_status st = enter(j, '{');

    while (!st && !(st = next_key(j, &more, &is_end)) && !is_end) {
        if (!key_is(j, "value"))
            return fail(j, "no such field");
        if (!(st = take_null(j, &is_null)) && !is_null)
            st = values(j, kind);
    }
    return st;
}

static enum rt_status feature(struct parser *j)
{
    static const char *const names[][2] = {{"", ""},
                                           {"bytesList", "bytes_list"},
                                           {"floatList", "float_list"},
                                           {"int64List", "int64_list"}};
    bool more = false, is_end = false, is_null, is_set = false;
    enum rt_status st = enter(j, '{');

    while (!st && !(st = next_key(j, &more, &is_end)) && !is_end) {
        int k = INTEGERS;
        while (k && !key_is(j, names[k][0]) && !key_is(j, names[k][1]))
            k--;
        if (!k)
            return fail(j, "no such field");
        if ((st = take_null(j, &is_null)) || is_null)
            continue;
        if (is_set)
            return fail(j, "two values of one feature");
        is_set = true;
        const size_t at = begin(j, k);
        if (!(st = list(j, (enum kind)k)))
            st = finish(j, at);
    }
    return st;
}

static int order(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Refuses a map with two equal keys. The hashes of its keys are in j->hashes. They have a random
 * key, so that different keys do not have equal hashes. */
static enum rt_status check_keys(struct parser *j)
{
    const size_t n = j->hashes->n / sizeof(uint64_t);
    uint64_t *h = (void *)j->hashes->p;
    const enum rt_status st =
        n > 1 ? rt_sort_alloc(h, n, sizeof *h, order, "the keys of an Example", j->check, j->err)
              : RT_OK;

    for (size_t i = 1; i < n && !st; i++)
        if (h[i] == h[i - 1])
            return fail(j, "got unexpectedly-repeated repeated map key");
    return st;
}

static enum rt_status map(struct parser *j)
{
    bool more = false, is_end = false, is_null;
    enum rt_status st = enter(j, '{');

    j->hashes->n = 0;
    while (!st && !(st = next_key(j, &more, &is_end)) && !is_end) {
        const uint64_t hash = kn_hash_elements(RT_U8, j->text->p, (int64_t)j->text->n, j->t);
        rt_bytes_add(j->hashes, &hash, sizeof hash);
        const size_t entry = begin(j, 1), key = begin(j, 1);
        rt_bytes_add(j->out, j->text->p, j->text->n);
        if ((st = finish(j, key)) || (st = take_null(j, &is_null)))
            return st;
        if (!is_null) {
            const size_t at = begin(j, 2);
            if ((st = feature(j)) || (st = finish(j, at)))
                return st;
        }
        st = finish(j, entry);
    }
    return st ? st : check_keys(j);
}

/* Reads an Example, or Features, whose only field has this name and this reader. */
static enum rt_status one_field(struct parser *j, const char *name,
                                enum rt_status (*read)(struct parser *j))
{
    bool more = false, is_end = false, is_null;
    enum rt_status st = enter(j, '{');

    while (!st && !(st = next_key(j, &more, &is_end)) && !is_end) {
        if (!key_is(j, name))
            return fail(j, "no such field");
        if (!(st = take_null(j, &is_null)) && !is_null)
            st = read(j);
    }
    return st;
}

static enum rt_status features(struct parser *j)
{
    const size_t at = begin(j, 1);
    const enum rt_status st = one_field(j, "feature", map);

    return st ? st : finish(j, at);
}

enum rt_status kn_example_from_json(struct rt_span json, const struct kn_json_buffers *b,
                                    struct kn_reader *t, const struct rt_check *check,
                                    struct rt_error *err)
{
    const char *p = (const char *)json.p;
    struct parser j = {.begin = p,
                       .p = p,
                       .end = p + json.n,
                       .counted = p,
                       .out = b->out,
                       .text = b->text,
                       .hashes = b->hashes,
                       .t = t,
                       .check = check,
                       .err = err};
    enum rt_status st = one_field(&j, "features", features);

    if (!st)
        st = skip_space(&j);
    if (!st && j.p < j.end)
        return fail(&j, "extraneous characters after end of JSON object");
    return st;
}
