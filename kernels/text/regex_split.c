/*
 * RegexSplitWithOffsets of TensorFlow Text: splits strings at delimiters, the first group of a
 * regular expression. A delimiter that a second expression matches becomes a token itself.
 */
#include "kernels/entry.h"
#include "kernels/string/regex_run.h"
#include "kernels/text/tokens.h"

#include <string.h>

struct splitter {
    struct kn_tokens tokens;
    struct kn_regex *delimiter, *kept;
    bool keeps;     /* whether the expression of the delimiters that are kept is not empty */
    bool is_group;  /* whether the first group of the delimiter's expression is always the match */
    bool has_group; /* whether the delimiter's expression has a group */
    /* whether the expression of the delimiters that are kept matches a byte, once this is known */
    enum { UNKNOWN, IS_KEPT, IS_DROPPED } byte[256];
};

/* ---- expressions that are a group ---- */

/* Returns the index of the last byte of the class that begins at index i, or n. */
static size_t class_end(const char *p, size_t n, size_t i)
{
    i += i + 1 < n && p[i + 1] == '^' ? 2 : 1;
    for (const size_t first = i; i < n && (p[i] != ']' || i == first); i++)
        if (p[i] == '\\') {
            i++;
        } else if (p[i] == '[' && i + 1 < n && p[i + 1] == ':') {
            const char *end = memmem(p + i + 2, n - i - 2, ":]", 2);
            if (end)
                i = (size_t)(end - p) + 1;
        }
    return i;
}

/* Returns whether a valid expression consists of a single group that captures, such as
 * (\s|[.,(]). RE2 then need not find where the group matches, which takes it longer than the
 * match. */
static bool is_one_group(const char *p, size_t n)
{
    int64_t depth = 0;

    if (n < 2 || p[0] != '(' || p[1] == '?' || memmem(p, n, "\\Q", 2))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\\')
            i++;
        else if (p[i] == '[')
            i = class_end(p, n, i);
        else if (p[i] == '(')
            depth++;
        else if (p[i] == ')' && --depth == 0)
            return i == n - 1;
    }
    return false;
}

/* ---- splitting ---- */

static bool add(struct splitter *s, const char *text, size_t begin, size_t end)
{
    const struct kn_token k = {
        .p = text + begin, .n = end - begin, .begin = (int64_t)begin, .end = (int64_t)end};
    return kn_tokens_add(&s->tokens, &k);
}

static bool fail(struct splitter *s, const char *why)
{
    rt_fail(s->tokens.r->err, RT_INVALID_ARGUMENT, "RegexSplitWithOffsets: the delimiter %s", why);
    return false;
}

/* Finds the next delimiter of a text at or after `at`. Every search begins a text of its own for
 * the expression, so '^' matches there. Sets *begin and *end to the delimiter and *next to the end
 * of the match, or *next to `at` if there is no match. On failure, returns false. TensorFlow Text
 * loops forever or crashes in the cases that are refused. */
static bool find(struct splitter *s, const char *text, size_t n, size_t at, size_t *begin,
                 size_t *end, size_t *next)
{
    struct kn_group group[2];

    *next = at;
    if (!s->has_group)
        return true; /* As in TensorFlow Text, only a group makes a delimiter. */
    if (!kn_regex_find(s->delimiter, text + at, n - at, 0, group, s->is_group ? 1 : 2)) {
        rt_fail_memory(s->tokens.r->err, "a regular expression", n);
        return false;
    }
    if (s->is_group)
        group[1] = group[0];
    if (!group[0].p)
        return true;
    if (group[0].n == 0)
        return fail(s, "matches an empty string");
    if (!group[1].p)
        return fail(s, "matches, but its first group does not");
    *begin = (size_t)(group[1].p - text);
    *end = *begin + group[1].n;
    *next = (size_t)(group[0].p - text) + group[0].n;
    return true;
}

/* Sets *out to whether the delimiter of n bytes at p becomes a token. Returns false if memory runs
 * out. */
static bool is_kept(struct splitter *s, const char *p, size_t n, bool *out)
{
    unsigned char c;

    *out = false;
    if (!s->keeps)
        return true;
    if (n != 1)
        return kn_regex_matches(s->kept, p, n, out);
    c = (unsigned char)*p;
    if (s->byte[c] == UNKNOWN) {
        if (!kn_regex_matches(s->kept, p, n, out))
            return false;
        s->byte[c] = *out ? IS_KEPT : IS_DROPPED;
    }
    *out = s->byte[c] == IS_KEPT;
    return true;
}

/* Splits a string. As in TensorFlow Text, the string ends at its first NUL. */
static bool split(struct splitter *s, const struct rt_str *str)
{
    const char *text = rt_str_data(str);
    const size_t n = strnlen(text, str->n);
    struct rt_run *r = s->tokens.r;
    size_t at = 0, next;

    if (kn_regex_check_work(r, s->delimiter, n) || kn_regex_check_work(r, s->kept, n))
        return false;
    for (;; at = next) {
        size_t begin = 0, end = 0;
        bool keep;
        if (rt_run_spend(r, &s->tokens.left, kn_regex_work(s->delimiter, n - at)) ||
            !find(s, text, n, at, &begin, &end, &next) ||
            rt_run_spend(r, &s->tokens.left, 4 * (int64_t)(next - at)))
            return false;
        if (next == at)
            break;
        if (!is_kept(s, text + begin, end - begin, &keep)) {
            rt_fail_memory(r->err, "a regular expression", n);
            return false;
        }
        if ((begin > at && !add(s, text, at, begin)) || (keep && !add(s, text, begin, end)))
            return false;
    }
    return (at == n || add(s, text, at, n)) && kn_tokens_next(&s->tokens);
}

static enum rt_status compile(const struct rt_tensor *in, struct kn_regex **out,
                              struct rt_error *err)
{
    const struct rt_str *pattern = rt_strs(in);

    return kn_regex_compile(out, rt_span_of(rt_str_data(pattern), pattern->n), err);
}

/* Kernel state: keeps the expressions of constant patterns, so that kn_regex_get finds them. */
struct patterns {
    struct kn_regex *re[2];
};

static void release(void *state)
{
    struct patterns *s = state;

    kn_regex_drop(s->re[0]);
    kn_regex_drop(s->re[1]);
}

static enum rt_status prepare(struct rt_prep *p, void **state)
{
    struct patterns *s = rt_prep_alloc(p, sizeof *s);
    struct rt_error refusal = {0};

    if (!s)
        return p->err->code;
    *state = s;
    p->release = release;
    for (int k = 0; k < 2; k++) {
        const struct rt_tensor *value = p->in[k + 1].value;
        /* A pattern that RE2 refuses is an error of the run. */
        if (value && value->rank == 0)
            compile(value, &s->re[k], &refusal);
    }
    return RT_OK;
}

static enum rt_status run(struct rt_run *r)
{
    static const struct kn_token_outputs to = {
        .text = 0, .id = -1, .splits = 3, .begin = 1, .end = 2};
    const struct rt_str *pattern = rt_strs(&r->in[1]);
    struct splitter s = {.delimiter = NULL};
    enum rt_status st = kn_regex_check_scalar(r, 1, "Pattern");

    if (!st)
        st = kn_regex_check_scalar(r, 2, "Pattern");
    if (!st)
        st = rt_pool_charge(rt_run_pool(r), 2 * KN_REGEX_MEMORY, "regular expressions", r->err);
    if (st)
        return st;
    kn_tokens_begin(&s.tokens, r);
    s.keeps = rt_strs(&r->in[2])->n > 0;
    st = compile(&r->in[1], &s.delimiter, r->err);
    if (!st)
        st = compile(&r->in[2], &s.kept, r->err);
    if (!st) {
        s.has_group = kn_regex_groups(s.delimiter) > 0;
        s.is_group = s.has_group && is_one_group(rt_str_data(pattern), pattern->n);
    }
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]) && !st; i++)
        if (!split(&s, &rt_strs(&r->in[0])[i]))
            st = r->err->code;
    if (!st)
        st = kn_tokens_emit(&s.tokens, &to);
    kn_tokens_end(&s.tokens);
    kn_regex_drop(s.delimiter);
    kn_regex_drop(s.kept);
    rt_pool_discharge(rt_run_pool(r), 2 * KN_REGEX_MEMORY);
    return st;
}

const struct kn_entry kn_regex_split_with_offsets = {
    .op = {.name = "RegexSplitWithOffsets", .shape_in = 1u << 1 | 1u << 2},
    .kernels = KN_KERNELS({.op = "RegexSplitWithOffsets",
                           .device = "CPU",
                           .name = "regex_split",
                           .prepare = prepare,
                           .run = run}),
};
