/*
 * UnicodeScriptTokenizeWithOffsets and WhitespaceTokenizeWithOffsets of TensorFlow Text split rows
 * of characters. The latter drops white space and splits there. The former splits rows of
 * characters where the script changes. If the attribute keep_whitespace is set, it also splits
 * between white space and other characters. Otherwise white space is dropped. As in TensorFlow
 * Text, it then ends a token only by its script: "! ?" is one token, because '!', '?' and the space
 * have the script Common.
 */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/string/unicode.h"

enum { COST = 16 };

/* Characters from `first` to `last` that TensorFlow's UnicodeScript does not know yet. */
struct late_script {
    int32_t first, last;
    uint8_t script;
};

#include "kernels/text/script_table.inc"

enum { UNKNOWN_SCRIPT = 103 };

/* Returns the script of a character. The version of Unicode is the one of TensorFlow Text, which is
 * later than that of TensorFlow. */
static int32_t script_of(int32_t c)
{
    const int32_t script = kn_char_script(c);
    size_t least = 0, most = sizeof late_scripts / sizeof *late_scripts;

    if (script != UNKNOWN_SCRIPT)
        return script;
    while (least < most) {
        const size_t middle = (least + most) / 2;
        if (late_scripts[middle].last < c)
            least = middle + 1;
        else
            most = middle;
    }
    return least < sizeof late_scripts / sizeof *late_scripts && late_scripts[least].first <= c
               ? late_scripts[least].script
               : script;
}

struct rows {
    struct rt_run *r;
    const int32_t *chars;
    const struct rt_tensor *splits;
    int64_t n_chars, n_rows;
    int64_t n_tokens, n_kept; /* tokens, and characters in them */
    bool by_script;           /* whether tokens end where the script changes */
    bool by_space;            /* whether tokens end where white space begins or ends */
    bool keeps_space;         /* whether tokens contain white space */
    int64_t left;
};

/* Sets *begin and *end to the characters of row i. */
static enum rt_status row(struct rows *w, int64_t i, int64_t *begin, int64_t *end)
{
    *begin = kn_int_at(w->splits, i);
    *end = kn_int_at(w->splits, i + 1);
    if (*begin < 0 || *begin > *end || *end > w->n_chars)
        return rt_fail(w->r->err, RT_INVALID_ARGUMENT,
                       "%s: row %lld has the splits %lld and %lld, but there are %lld values",
                       w->r->node->schema->name, (long long)i, (long long)*begin, (long long)*end,
                       (long long)w->n_chars);
    return RT_OK;
}

/* Adds the character at `at`, which is in row i and begins a token if is_first is set. */
static void add(struct rows *w, int64_t at, int64_t begin, bool is_first, bool is_count)
{
    struct rt_tensor *const out = w->r->out;

    w->n_tokens += is_first;
    w->n_kept++;
    if (is_count)
        return;
    ((int32_t *)out[0].data)[w->n_kept - 1] = w->chars[at];
    if (is_first)
        ((int64_t *)out[2].data)[w->n_tokens - 1] = at - begin;
    ((int64_t *)out[3].data)[w->n_tokens - 1] = at + 1 - begin;
    kn_put_int(&out[1], w->n_tokens, w->n_kept);
}

/* Finds the tokens of row i, and writes them unless `is_count` is set. */
static enum rt_status split(struct rows *w, int64_t i, bool is_count)
{
    int64_t begin, end;
    int32_t last_script = 0;
    bool last_is_space = false, has_token = false;
    enum rt_status st = row(w, i, &begin, &end);

    for (int64_t at = begin; at < end && !st; at++) {
        const int32_t c = w->chars[at], script = w->by_script ? script_of(c) : 0;
        const bool is_space = kn_char_is_space(c);
        if (script != last_script || (w->by_space && is_space != last_is_space))
            has_token = false;
        last_script = script;
        last_is_space = is_space;
        if (w->keeps_space || !is_space) {
            add(w, at, begin, !has_token, is_count);
            has_token = true;
        }
        st = rt_run_spend(w->r, &w->left, COST);
    }
    if (!st && !is_count)
        kn_put_int(&w->r->out[4], i + 1, w->n_tokens);
    return st;
}

static enum rt_status split_all(struct rows *w, bool is_count)
{
    enum rt_status st = RT_OK;

    w->n_tokens = w->n_kept = 0;
    for (int64_t i = 0; i < w->n_rows && !st; i++) {
        st = split(w, i, is_count);
        if (!st)
            st = rt_run_spend(w->r, &w->left, COST);
    }
    return st;
}

/* Tokenizes as w.by_script, w.by_space and w.keeps_space say. */
static enum rt_status tokenize(struct rt_run *r, struct rows w)
{
    w.r = r;
    w.chars = r->in[0].data;
    w.splits = &r->in[1];
    w.left = RT_WORK;
    /* TensorFlow Text reads before a tensor of splits that is empty. */
    if (r->in[0].rank != 1 || r->in[1].rank != 1 || r->in[1].dim[0] == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "%s: input_values and input_splits must be vectors, the latter not empty",
                       r->node->schema->name);
    w.n_chars = r->in[0].dim[0];
    w.n_rows = r->in[1].dim[0] - 1;
    enum rt_status st = split_all(&w, true);
    if (st)
        return st;
    const int64_t n_inner = w.n_tokens + 1, n_outer = w.n_rows + 1;
    if (!kn_out(r, 0, 1, &w.n_kept) || !kn_out(r, 1, 1, &n_inner) ||
        !kn_out(r, 2, 1, &w.n_tokens) || !kn_out(r, 3, 1, &w.n_tokens) ||
        !kn_out(r, 4, 1, &n_outer))
        return r->err->code;
    kn_put_int(&r->out[1], 0, 0);
    kn_put_int(&r->out[4], 0, 0);
    return split_all(&w, false);
}

static enum rt_status run_script(struct rt_run *r)
{
    const bool keeps_space = rt_attr_bool(r->node, "keep_whitespace");

    return tokenize(
        r, (struct rows){.by_script = true, .by_space = keeps_space, .keeps_space = keeps_space});
}

static enum rt_status run_space(struct rt_run *r)
{
    return tokenize(r, (struct rows){.by_space = true});
}

const struct kn_entry kn_whitespace_tokenize_with_offsets = {
    .op = {.name = "WhitespaceTokenizeWithOffsets"},
    .kernels = KN_KERNELS({.op = "WhitespaceTokenizeWithOffsets",
                           .device = "CPU",
                           .name = "whitespace_tokenize_characters",
                           .run = run_space}),
};

const struct kn_entry kn_unicode_script_tokenize_with_offsets = {
    .op = {.name = "UnicodeScriptTokenizeWithOffsets"},
    .kernels = KN_KERNELS({.op = "UnicodeScriptTokenizeWithOffsets",
                           .device = "CPU",
                           .name = "unicode_script_tokenize",
                           .run = run_script}),
};
