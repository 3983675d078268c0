/*
 * StringLower and StringUpper change the case of letters. With encoding "", only ASCII letters
 * change. With "utf-8", the letters of all scripts change, and malformed bytes become U+FFFD, as in
 * TensorFlow.
 */
#include "kernels/array/array.h"
#include "kernels/string/case_map.h"
#include "kernels/string/cased.h"
#include "kernels/string/text.h"
#include "kernels/entry.h"

enum { SIGMA = 0x3a3, SMALL_SIGMA = 0x3c3, FINAL_SIGMA = 0x3c2 };

static uint32_t other_case(uint32_t c, const struct step *of, size_t n)
{
    size_t low = 0;

    while (low < n) {
        const size_t mid = low + (n - low) / 2;
        const struct step *s = &of[mid];
        if (c > s->last)
            low = mid + 1;
        else if (c < s->first)
            n = mid;
        else
            return (c - s->first) % (uint32_t)s->every ? c : (uint32_t)((int32_t)c + s->to);
    }
    return c;
}

static uint32_t lower(uint32_t c)
{
    return other_case(c, to_lower, sizeof to_lower / sizeof *to_lower);
}

static uint32_t upper(uint32_t c)
{
    return other_case(c, to_upper, sizeof to_upper / sizeof *to_upper);
}

/* Returns the two or three characters that c becomes in upper case (if `up` is true) or lower case,
 * or NULL if c becomes a single character. */
static const uint32_t *several(uint32_t c, bool up)
{
    const struct several *of = up ? to_several_upper : to_several_lower;
    size_t low = 0,
           n = up ? sizeof to_several_upper / sizeof *of : sizeof to_several_lower / sizeof *of;

    while (low < n) {
        const size_t mid = low + (n - low) / 2;
        if (c == of[mid].c)
            return of[mid].to;
        if (c < of[mid].c)
            n = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

/* Decodes one character of s, which has at least one byte. Malformed bytes become U+FFFD. */
static uint32_t decode(const unsigned char *s, size_t n, size_t *used)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char c = s[0];
    const size_t len = c < 0x80                ? 1
                       : c >= 0xc2 && c < 0xe0 ? 2
                       : (c & 0xf0) == 0xe0    ? 3
                       : c >= 0xf0 && c < 0xf5 ? 4
                                               : 0;
    uint32_t v = len == 1 ? c : len ? c & (0x7fu >> len) : 0;

    *used = 1;
    if (len == 0)
        return 0xfffd;
    for (size_t i = 1; i < len; i++) {
        if (i >= n || (s[i] & 0xc0) != 0x80)
            return 0xfffd;
        /* A second byte that makes the character invalid does not belong to it: *used stays 1, and
         * decoding continues at that byte. */
        if (i == 1 && ((c == 0xe0 && s[1] < 0xa0) || (c == 0xed && s[1] >= 0xa0) ||
                       (c == 0xf0 && s[1] < 0x90) || (c == 0xf4 && s[1] >= 0x90)))
            return 0xfffd;
        v = v << 6 | (s[i] & 0x3f);
        if (i + 1 < len)
            *used = i + 1;
    }
    if (v < least[len] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) {
        *used = 1;
        return 0xfffd;
    }
    *used = len;
    return v;
}

static bool is_in(uint32_t c, const struct letters *of, size_t n)
{
    size_t low = 0;

    while (low < n) {
        const size_t mid = low + (n - low) / 2;
        if (c >= of[mid].first && c <= of[mid].last)
            return true;
        if (c < of[mid].first)
            n = mid;
        else
            low = mid + 1;
    }
    return false;
}

static bool has_case(uint32_t c)
{
    return is_in(c, with_case, sizeof with_case / sizeof *with_case);
}

static bool is_passed_over(uint32_t c)
{
    return is_in(c, passed_over, sizeof passed_over / sizeof *passed_over);
}

/* the cost of looking up one character in the tables, in units of rt_run_spend */
enum { WORK = 64 };

/* Finds the first character of p that is not in the table passed_over (cased.h), and sets
 * *is_letter to whether this character has a case. Sets *is_letter to false if there is no such
 * character. */
static enum rt_status goes_on(struct rt_run *r, int64_t *left, const unsigned char *p, size_t n,
                              bool *is_letter)
{
    uint32_t c = 0;
    size_t used;

    *is_letter = false;
    for (size_t i = 0; i < n; i += used) {
        if (rt_run_spend(r, left, WORK))
            return r->err->code;
        c = decode(p + i, n - i, &used);
        if (!is_passed_over(c)) {
            *is_letter = has_case(c);
            break;
        }
    }
    return RT_OK;
}

static enum rt_status change(struct rt_bytes *b, const struct rt_str *s, bool up, int64_t *left)
{
    const unsigned char *p = (const unsigned char *)rt_str_data(s);
    struct rt_run *r = b->grow_arg;
    enum rt_status st = RT_OK;
    /* As in TensorFlow, the string ends at its first NUL. */
    const char *nul =
        kn_find_text(r, left, rt_str_data(s), rt_str_data(s) + s->n, rt_span_of("", 1), &st);
    const size_t n = nul ? (size_t)(nul - rt_str_data(s)) : s->n;
    const bool has_sigma =
        !st && !up &&
        kn_find_text(r, left, rt_str_data(s), rt_str_data(s) + n, rt_span_of("\xce\xa3", 2), &st);
    bool after_letter = false; /* updated only if the string contains a capital sigma */

    for (size_t i = 0, used; i < n; i += used) {
        st = st ? st : rt_run_spend(r, left, WORK);
        if (st)
            return st;
        const uint32_t c = decode(p + i, n - i, &used);
        const uint32_t *many = c < 0x80 ? NULL : several(c, up);
        if (many) {
            for (int k = 0; k < 3 && many[k]; k++)
                rt_bytes_add_utf8(b, many[k]);
        } else if (!up && c == SIGMA) {
            bool is_followed = false;
            st = goes_on(r, left, p + i + used, n - i - used, &is_followed);
            if (st)
                return st;
            rt_bytes_add_utf8(b, after_letter && !is_followed ? FINAL_SIGMA : SMALL_SIGMA);
        } else {
            rt_bytes_add_utf8(b, up ? upper(c) : lower(c));
        }
        if (has_sigma && !is_passed_over(c))
            after_letter = has_case(c);
    }
    return b->failed ? kn_text_failed(b) : RT_OK;
}

/* Changes the case of ASCII letters. Other bytes stay unchanged. */
static enum rt_status change_ascii(struct rt_run *r, const struct rt_str *s, bool up,
                                   struct rt_str *out, int64_t *left)
{
    char *q = rt_str_resize(out, rt_run_pool(r), s->n, r->err);

    if (!q)
        return r->err->code;
    for (size_t k = 0; k < s->n; k++) {
        const char c = rt_str_data(s)[k];
        q[k] = up ? (c >= 'a' && c <= 'z' ? (char)(c - 32) : c)
                  : (c >= 'A' && c <= 'Z' ? (char)(c + 32) : c);
        if (k % KN_TEXT_CHUNK == 0 && rt_run_spend(r, left, KN_TEXT_CHUNK))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status case_run(struct rt_run *r)
{
    const bool up = r->node->schema->name[6] == 'U';
    const struct rt_span encoding = rt_attr_str(r->node, "encoding");
    const struct rt_tensor *t = &r->in[0];
    struct rt_bytes text;
    enum rt_status st = RT_OK;
    int64_t left = RT_WORK;

    if (encoding.n && !rt_span_is(encoding, "utf-8"))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "only utf-8 or '' (no encoding) is supported, received %.*s",
                       (int)encoding.n, (const char *)encoding.p);
    struct rt_str *o = kn_out(r, 0, t->rank, t->dim);
    if (!o)
        return r->err->code;
    kn_text_begin(&text, r);
    for (int64_t i = 0; i < rt_tensor_count(t) && !st; i++) {
        const struct rt_str *s = &rt_strs(t)[i];
        st = rt_run_spend(r, &left, KN_STRING_WORK);
        if (st)
            break;
        if (!encoding.n) {
            st = change_ascii(r, s, up, &o[i], &left);
            continue;
        }
        text.n = 0;
        st = change(&text, s, up, &left);
        if (!st)
            st = kn_set_text(r, &left, &o[i], text.p, text.n);
    }
    kn_text_end(&text);
    return st;
}

#define CASE(symbol, op_)                                                                          \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = kn_infer_copy, .rows = rt_rows_same},                       \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, case_run),                                        \
    };
CASE(string_lower, "StringLower")
CASE(string_upper, "StringUpper")
