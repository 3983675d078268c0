/*
 * SplitMergeTokenizeWithOffsets and TokenizerFromLogits of TensorFlow Text: a label, or a pair of
 * logits, tells for each character whether a token begins there. White space belongs to no token,
 * also within one.
 *
 * TensorFlow Text counts 3 bytes for a malformed sequence, so it reads beyond the end of a string
 * that has one. Here the sequence has its own length.
 */
#include "kernels/entry.h"
#include "kernels/string/unicode.h"
#include "kernels/text/tokens.h"

enum { COST = 16 };

struct splitter {
    struct kn_tokens tokens;
    bool ends_at_space;   /* whether white space ends a token whatever the labels are */
    const int32_t *label; /* a label for each character of the current string, or NULL */
    const float *logit;   /* two logits for each character of the current string, if there is no
                             label */
    int64_t n_labels;
    char *text; /* memory for the text of the next token */
};

static bool begins_token(const struct splitter *s, int64_t i)
{
    return s->label ? s->label[i] == 0 : s->logit[2 * i] > s->logit[2 * i + 1];
}

static bool fail_labels(struct splitter *s, const struct rt_str *str)
{
    const int n = str->n > 200 ? 200 : (int)str->n;

    rt_fail(s->tokens.r->err, RT_INVALID_ARGUMENT,
            s->label ? "Number of labels %lld is insufficient for text %.*s"
                     : "Number of logits, %lld, is insufficient for text \"%.*s\"",
            (long long)s->n_labels, n, rt_str_data(str));
    return false;
}

static bool split(struct splitter *s, const struct rt_str *str)
{
    const unsigned char *begin = (const unsigned char *)rt_str_data(str), *end = begin + str->n;
    const unsigned char *next;
    struct kn_token token = {.p = NULL};
    int64_t i = 0;

    for (const unsigned char *p = begin; p < end; p = next, i++) {
        const int32_t c = kn_decode_utf8(p, end, &next);
        const bool is_space = kn_char_is_space(c);
        if (rt_run_spend(s->tokens.r, &s->tokens.left, COST))
            return false;
        if (i == s->n_labels)
            return fail_labels(s, str);
        if (token.p && (is_space ? s->ends_at_space : begins_token(s, i))) {
            if (!kn_tokens_add(&s->tokens, &token))
                return false;
            token.p = NULL;
        }
        if (is_space)
            continue;
        if (!token.p)
            token = (struct kn_token){.p = s->text, .begin = p - begin};
        memcpy(s->text, p, (size_t)(next - p));
        s->text += next - p;
        token.n += (size_t)(next - p);
        token.end = next - begin;
    }
    return (!token.p || kn_tokens_add(&s->tokens, &token)) && kn_tokens_next(&s->tokens);
}

/* Allocates memory for the text of all tokens. */
static enum rt_status begin(struct splitter *s, struct rt_run *r)
{
    const struct rt_str *str = rt_strs(&r->in[0]);
    size_t n = 1;

    if (r->in[0].rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: the strings must be a vector, not %s",
                       r->node->schema->name, KN_TEXT(&r->in[0]));
    for (int64_t i = 0; i < r->in[0].dim[0]; i++) {
        n += str[i].n;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    s->text = rt_scratch(r, n);
    if (!s->text)
        return r->err->code;
    kn_tokens_begin(&s->tokens, r);
    return RT_OK;
}

static enum rt_status end(struct splitter *s, enum rt_status st)
{
    static const struct kn_token_outputs to = {
        .text = 0, .id = -1, .splits = 1, .begin = 2, .end = 3};

    if (!st)
        st = kn_tokens_emit(&s->tokens, &to);
    kn_tokens_end(&s->tokens);
    return st;
}

/* ---- labels ---- */

/* Sets the labels of string i. */
static enum rt_status set_labels(struct splitter *s, int64_t i)
{
    struct rt_run *r = s->tokens.r;
    const int32_t *splits = r->in[2].data;
    const int64_t from = splits[i], to = splits[i + 1];

    if (from < 0 || from > to || to > rt_tensor_count(&r->in[1]))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "%s: string %lld has the labels from %lld to %lld of %lld",
                       r->node->schema->name, (long long)i, (long long)from, (long long)to,
                       (long long)rt_tensor_count(&r->in[1]));
    s->label = (const int32_t *)r->in[1].data + from;
    s->n_labels = to - from;
    return RT_OK;
}

static enum rt_status labels_run(struct rt_run *r)
{
    struct splitter s = {.ends_at_space = rt_attr_bool(r->node, "force_split_at_break_character")};
    enum rt_status st = begin(&s, r);

    if (st)
        return st;
    const int64_t n = r->in[0].dim[0], n_splits = rt_tensor_count(&r->in[2]);
    if (r->in[1].rank != 1 || r->in[2].rank != 1)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: labels and row_splits must be vectors",
                     r->node->schema->name);
    else if (n_splits != n + 1)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "Expecting row_splits have %lld elements, got %lld", (long long)n + 1,
                     (long long)n_splits);
    for (int64_t i = 0; i < n && !st; i++) {
        st = set_labels(&s, i);
        if (!st && !split(&s, &rt_strs(&r->in[0])[i]))
            st = r->err->code;
    }
    return end(&s, st);
}

const struct kn_entry kn_split_merge_tokenize_with_offsets = {
    .op = {.name = "SplitMergeTokenizeWithOffsets"},
    .kernels = KN_KERNELS({.op = "SplitMergeTokenizeWithOffsets",
                           .device = "CPU",
                           .name = "split_merge_tokenize",
                           .run = labels_run}),
};

/* ---- logits ---- */

static enum rt_status check_logits(struct rt_run *r)
{
    const struct rt_tensor *logits = &r->in[1];

    if (logits->rank != 3 || r->in[2].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "%s: logits must have rank 3, not %d, and force_split_at_break_character "
                       "must be a scalar",
                       r->node->schema->name, logits->rank);
    if (logits->dim[0] != r->in[0].dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expecting logits to have %lld rows, got %lld",
                       (long long)r->in[0].dim[0], (long long)logits->dim[0]);
    if (logits->dim[2] != 2)
        return rt_fail(r->err, RT_INTERNAL, "Bad logits dimension #2: %lld != 2",
                       (long long)logits->dim[2]);
    return RT_OK;
}

static enum rt_status logits_run(struct rt_run *r)
{
    struct splitter s = {.label = NULL};
    enum rt_status st = begin(&s, r);

    if (st)
        return st;
    st = check_logits(r);
    if (!st) {
        s.ends_at_space = *(const bool *)r->in[2].data;
        s.n_labels = r->in[1].dim[1];
    }
    for (int64_t i = 0; i < r->in[0].dim[0] && !st; i++) {
        s.logit = (const float *)r->in[1].data + i * s.n_labels * 2;
        if (!split(&s, &rt_strs(&r->in[0])[i]))
            st = r->err->code;
    }
    return end(&s, st);
}

const struct kn_entry kn_tokenizer_from_logits = {
    .op = {.name = "TokenizerFromLogits"},
    .kernels = KN_KERNELS({.op = "TokenizerFromLogits",
                           .device = "CPU",
                           .name = "tokenizer_from_logits",
                           .run = logits_run}),
};
