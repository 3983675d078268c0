/* RegexReplace and RegexFullMatch, and their static forms, whose pattern is an attribute. */
#include "kernels/string/each.h"
#include "kernels/string/regex_run.h"

enum rt_status kn_regex_compile(struct kn_regex **out, struct rt_span pattern, struct rt_error *err)
{
    char why[256];

    *out = kn_regex_get((const char *)pattern.p, pattern.n, why, sizeof why);
    if (*out)
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT, "Invalid pattern: %.*s, error: %s",
                   (int)(pattern.n < 512 ? pattern.n : 512), (const char *)pattern.p, why);
}

/* ---- the expression of a node ---- */

struct expression {
    struct kn_regex *re;
};

static void release(void *state)
{
    kn_regex_drop(((struct expression *)state)->re);
}

static enum rt_status static_prepare(struct rt_prep *p, void **state)
{
    struct expression *e = rt_prep_alloc(p, sizeof *e);

    if (!e)
        return p->err->code;
    *state = e;
    p->release = release;
    return kn_regex_compile(&e->re, rt_attr_str(p->node, "pattern"), p->err);
}

/* Compiles the pattern in input 1 and calls `each` with the expression. The maximum memory of an
 * expression counts against the run's memory limit. */
static enum rt_status with_pattern(struct rt_run *r,
                                   enum rt_status (*each)(struct rt_run *r, struct kn_regex *re))
{
    const struct rt_str *pattern = rt_strs(&r->in[1]);
    struct kn_regex *re = NULL;
    enum rt_status st =
        rt_pool_charge(rt_run_pool(r), KN_REGEX_MEMORY, "a regular expression", r->err);

    if (st)
        return st;
    st = kn_regex_compile(&re, rt_span_of(rt_str_data(pattern), pattern->n), r->err);
    if (!st)
        st = each(r, re);
    kn_regex_drop(re);
    rt_pool_discharge(rt_run_pool(r), KN_REGEX_MEMORY);
    return st;
}

enum rt_status kn_regex_check_scalar(struct rt_run *r, int k, const char *what)
{
    if (r->in[k].rank == 0)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s must be scalar, but received %s", what,
                   KN_TEXT(&r->in[k]));
}

enum rt_status kn_regex_check_work(struct rt_run *r, const struct kn_regex *re, size_t n)
{
    enum { LEAST = 16 }; /* limits a text to 8 MiB */
    const int64_t size = kn_regex_size(re) < LEAST ? LEAST : kn_regex_size(re);

    if ((int64_t)n <= KN_REGEX_MAX_WORK / size)
        return RT_OK;
    return rt_fail(r->err, RT_RESOURCE_EXHAUSTED,
                   "a text of %zu bytes is too long for a regular expression of %lld instructions; "
                   "their product may be at most %lld",
                   n, (long long)size, (long long)KN_REGEX_MAX_WORK);
}

int64_t kn_regex_work(const struct kn_regex *re, size_t n)
{
    enum { MATCH = 64 };

    return MATCH + (int64_t)n * kn_regex_size(re);
}

/* ---- RegexFullMatch ---- */

static enum rt_status match_all(struct rt_run *r, struct kn_regex *re)
{
    bool *o = kn_out(r, 0, r->in[0].rank, r->in[0].dim);
    int64_t left = RT_WORK;

    if (!o)
        return r->err->code;
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]); i++) {
        const struct rt_str *s = &rt_strs(&r->in[0])[i];
        if (kn_regex_check_work(r, re, s->n) || rt_run_spend(r, &left, kn_regex_work(re, s->n)))
            return r->err->code;
        if (!kn_regex_matches(re, rt_str_data(s), s->n, &o[i]))
            return rt_fail_memory(r->err, "a regular expression", s->n);
    }
    return RT_OK;
}

static enum rt_status full_match_run(struct rt_run *r)
{
    const enum rt_status st = kn_regex_check_scalar(r, 1, "Pattern");

    return st ? st : with_pattern(r, match_all);
}

static enum rt_status static_full_match_run(struct rt_run *r)
{
    return match_all(r, ((struct expression *)r->state)->re);
}

/* ---- RegexReplace ---- */

/* Returns the length of the character at p if it is valid UTF-8, and otherwise 1. RE2 counts
 * surrogates as valid. */
static size_t char_length(const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;
    const size_t want = u[0] < 0xc2 ? 1 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : u[0] < 0xf5 ? 4 : 1;

    if (want > n)
        return 1;
    for (size_t i = 1; i < want; i++)
        if ((u[i] & 0xc0) != 0x80)
            return 1;
    const bool is_overlong = (u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xf0 && u[1] < 0x90);
    return is_overlong || (u[0] == 0xf4 && u[1] > 0x8f) ? 1 : want;
}

/* Appends the rewrite of a match. A backslash must be followed by another backslash or by the
 * number of a group, a digit. Otherwise the function appends only the text before the backslash and
 * returns false, as RE2 does. */
static bool add_rewrite(struct rt_bytes *b, struct rt_span rewrite, const struct kn_group *group,
                        int n_groups)
{
    const char *p = (const char *)rewrite.p, *end = p + rewrite.n;

    while (p < end) {
        const char *q = memchr(p, '\\', (size_t)(end - p));
        rt_bytes_add(b, p, (size_t)((q ? q : end) - p));
        if (!q)
            return true;
        p = q + 1;
        const int digit = p < end && *p >= '0' && *p <= '9' ? *p - '0' : -1;
        if (digit >= 0 && digit < n_groups) {
            if (group[digit].n)
                rt_bytes_add(b, group[digit].p, group[digit].n);
        } else if (p < end && *p == '\\') {
            rt_bytes_addc(b, '\\');
        } else {
            return false;
        }
        p++;
    }
    return true;
}

struct rewriting {
    struct kn_regex *re;
    struct rt_span rewrite;
    bool is_global;
    int n_groups;     /* 1 plus the largest group number in the rewrite */
    bool is_possible; /* whether the expression has all groups of the rewrite */
    struct rt_bytes text;
    int64_t left;
};

/* Replaces the matches in the text, and writes the result to w->text. Sets *is_same if nothing is
 * replaced. */
static enum rt_status replace(struct rt_run *r, struct rewriting *w, const char *s, size_t n,
                              bool *is_same)
{
    size_t at = 0, last_end = SIZE_MAX;
    struct kn_group group[KN_REGEX_GROUPS];

    *is_same = true;
    w->text.n = 0;
    while (at <= n && (*is_same || w->is_global)) {
        if (rt_run_spend(r, &w->left, kn_regex_work(w->re, n - at)))
            return r->err->code;
        if (!kn_regex_find(w->re, s, n, at, group, w->n_groups))
            return rt_fail_memory(r->err, "a regular expression", n);
        if (!group[0].p)
            break;
        const size_t from = (size_t)(group[0].p - s), to = from + group[0].n;
        rt_bytes_add(&w->text, s + at, from - at);
        if (from == last_end && to == from) {
            /* As in RE2, an empty match directly after the previous match is ignored. */
            const size_t some = at < n ? char_length(s + at, n - at) : 1;
            rt_bytes_add(&w->text, s + at, at < n ? some : 0);
            at += some;
            continue;
        }
        const bool is_good = add_rewrite(&w->text, w->rewrite, group, w->n_groups);
        if (w->text.failed)
            return kn_text_failed(&w->text);
        if (!is_good && !w->is_global)
            return RT_OK;
        *is_same = false;
        at = last_end = to;
    }
    if (at < n)
        rt_bytes_add(&w->text, s + at, n - at);
    return w->text.failed ? kn_text_failed(&w->text) : RT_OK;
}

static enum rt_status replace_all(struct rt_run *r, struct rewriting *w)
{
    struct rt_str *o = kn_out_strs(r);
    enum rt_status st = o ? RT_OK : r->err->code;

    w->left = RT_WORK;
    w->is_global = rt_attr_bool(r->node, "replace_global");
    w->n_groups = 1;
    for (size_t i = 0; i + 1 < w->rewrite.n; i++)
        if (w->rewrite.p[i] == '\\') {
            const int digit = w->rewrite.p[++i] - '0';
            if (digit >= w->n_groups && digit <= 9)
                w->n_groups = digit + 1;
        }
    w->is_possible = w->n_groups <= 1 + kn_regex_groups(w->re);
    kn_text_begin(&w->text, r);
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]) && !st; i++) {
        const struct rt_str *s = &rt_strs(&r->in[0])[i];
        bool is_same = !w->is_possible;
        st = kn_regex_check_work(r, w->re, s->n);
        if (!st && w->is_possible)
            st = replace(r, w, rt_str_data(s), s->n, &is_same);
        if (st)
            break;
        if (is_same)
            rt_str_copy(&o[i], s);
        else
            st = kn_set_text(r, &w->left, &o[i], w->text.p, w->text.n);
    }
    kn_text_end(&w->text);
    return st;
}

static enum rt_status replace_dynamic(struct rt_run *r, struct kn_regex *re)
{
    const struct rt_str *rewrite = rt_strs(&r->in[2]);
    struct rewriting w = {.re = re, .rewrite = rt_span_of(rt_str_data(rewrite), rewrite->n)};

    return replace_all(r, &w);
}

static enum rt_status replace_run(struct rt_run *r)
{
    enum rt_status st = kn_regex_check_scalar(r, 1, "Pattern");

    if (!st)
        st = kn_regex_check_scalar(r, 2, "Rewrite");
    return st ? st : with_pattern(r, replace_dynamic);
}

static enum rt_status static_replace_run(struct rt_run *r)
{
    struct rewriting w = {.re = ((struct expression *)r->state)->re,
                          .rewrite = rt_attr_str(r->node, "rewrite")};

    return replace_all(r, &w);
}

#define REGEX(symbol, op_, prepare_, run_)                                                         \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = kn_infer_each, .rows = rt_rows_same},                       \
        .kernels = KN_CPU(op_, #symbol, 0, prepare_, run_),                                        \
    };
REGEX(regex_full_match, "RegexFullMatch", NULL, full_match_run)
REGEX(regex_replace, "RegexReplace", NULL, replace_run)
REGEX(static_regex_full_match, "StaticRegexFullMatch", static_prepare, static_full_match_run)
REGEX(static_regex_replace, "StaticRegexReplace", static_prepare, static_replace_run)
