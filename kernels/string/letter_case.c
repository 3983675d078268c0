/*
 * StringLower, StringUpper. Without an encoding only ASCII letters change. With "utf-8" the
 * letters of the scripts below do too; malformed bytes become U+FFFD, as in TensorFlow.
 */
#include "kernels/array/array.h"
#include "kernels/string/cased.h"
#include "kernels/string/text.h"
#include "kernels/entry.h"

/* Ranges whose capitals and small letters differ by a fixed step, or alternate. */
static const struct range {
    uint32_t first, last; /* capitals */
    int32_t step;         /* to the small letter; 1: capital and small letter alternate */
} ranges[] = {
    {0x41, 0x5a, 32},     {0xc0, 0xd6, 32},     {0xd8, 0xde, 32},       {0x100, 0x12e, 1},
    {0x132, 0x136, 1},    {0x139, 0x147, 1},    {0x14a, 0x176, 1},      {0x178, 0x178, -121},
    {0x179, 0x17d, 1},    {0x1cd, 0x1db, 1},    {0x1de, 0x1ee, 1},      {0x1f8, 0x21e, 1},
    {0x222, 0x232, 1},    {0x386, 0x386, 38},   {0x388, 0x38a, 37},     {0x38c, 0x38c, 64},
    {0x38e, 0x38f, 63},   {0x391, 0x3a1, 32},   {0x3a3, 0x3ab, 32},     {0x3d8, 0x3ee, 1},
    {0x400, 0x40f, 80},   {0x410, 0x42f, 32},   {0x460, 0x480, 1},      {0x48a, 0x4be, 1},
    {0x4c1, 0x4cd, 1},    {0x4d0, 0x52e, 1},    {0x531, 0x556, 48},     {0x10a0, 0x10c5, 7264},
    {0x1e00, 0x1e94, 1},  {0x1ea0, 0x1efe, 1},  {0x2160, 0x216f, 16},   {0x24b6, 0x24cf, 26},
    {0x2c00, 0x2c2e, 48}, {0xff21, 0xff3a, 32}, {0x10400, 0x10427, 40},
};

enum { SIGMA = 0x3a3, SMALL_SIGMA = 0x3c3, FINAL_SIGMA = 0x3c2 };

static uint32_t lower(uint32_t c)
{
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        const struct range *g = &ranges[i];
        if (c < g->first || c > g->last)
            continue;
        if (g->step != 1)
            return (uint32_t)((int32_t)c + g->step);
        return (c - g->first) % 2 == 0 ? c + 1 : c;
    }
    return c;
}

static uint32_t upper(uint32_t c)
{
    if (c == FINAL_SIGMA)
        return SIGMA;
    if (c == 0xb5)
        return 0x39c;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        const struct range *g = &ranges[i];
        const uint32_t up = (uint32_t)((int32_t)c - g->step);
        if (up < g->first || up > g->last || (g->step == 1 && (up - g->first) % 2 != 0))
            continue;
        return up;
    }
    return c;
}

/* One character of s, at least one byte; malformed: U+FFFD. */
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

enum { WORK = 64 }; /* of a character: the ranges are looked through one by one */

/* Whether the first character that is not passed over is a letter. */
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
    const size_t n = strnlen(rt_str_data(s), s->n); /* TensorFlow ends a text at its first NUL */
    const bool has_sigma = !up && memmem(p, n, "\xce\xa3", 2);
    bool after_letter = false; /* kept where a sigma asks for it */

    for (size_t i = 0, used; i < n; i += used) {
        if (rt_run_spend(b->grow_arg, left, WORK))
            return ((struct rt_run *)b->grow_arg)->err->code;
        const uint32_t c = decode(p + i, n - i, &used);
        if (up && c == 0xdf) {
            rt_bytes_adds(b, "SS");
        } else if (up && c == 0x149) {
            rt_bytes_add_utf8(b, 0x2bc);
            rt_bytes_add_utf8(b, 'N');
        } else if (!up && c == SIGMA) {
            bool is_followed = false;
            enum rt_status st =
                goes_on(b->grow_arg, left, p + i + used, n - i - used, &is_followed);
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

/* A string of ASCII letters; other bytes stay. */
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
        if (k % KN_STRING_PIECE == 0 && rt_run_spend(r, left, KN_STRING_PIECE))
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
        if (!st && !rt_str_set(&o[i], rt_run_pool(r), text.p, text.n, r->err))
            st = r->err->code;
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
