/*
 * OffsetsToBoiseTags and BoiseTagsToOffsets of TensorFlow Text convert between spans of text and a
 * tag for each token: B, I and E for the beginning, inside and end of a span, S for a token that is
 * a span, each followed by '-' and the type of the span; O for a token outside of all spans. Tokens
 * and spans are ranges of offsets, in rows.
 */
#include "kernels/entry.h"
#include "kernels/text/tokens.h"

enum { COST = 8 };

/* A ragged matrix of ranges: inputs with the offsets of beginnings and ends. */
struct ranges {
    const int32_t *begin, *end;
    const int64_t *splits;
    int64_t n, n_rows;
};

static struct ranges ranges_of(const struct rt_run *r, int begin, int splits)
{
    const int64_t n_splits = rt_tensor_count(&r->in[splits]);

    return (struct ranges){.begin = r->in[begin].data,
                           .end = r->in[begin + 1].data,
                           .splits = r->in[splits].data,
                           .n = rt_tensor_count(&r->in[begin]),
                           .n_rows = n_splits > 0 ? n_splits - 1 : 0};
}

/* Checks the row splits. TensorFlow Text does not, and reads beyond its tensors. */
static enum rt_status check_rows(struct rt_run *r, const struct ranges *a)
{
    for (int64_t i = 0; i < a->n_rows; i++) {
        if (a->splits[i] < 0 || a->splits[i + 1] < a->splits[i] || a->splits[i + 1] > a->n)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "%s: a row from %lld to %lld, but there are %lld values",
                           r->node->schema->name, (long long)a->splits[i],
                           (long long)a->splits[i + 1], (long long)a->n);
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- OffsetsToBoiseTags ---- */

/* What a span means for a token that overlaps with it. */
struct match {
    char letter;  /* of the token's tag; 'O' in strict mode if a bound of one lies in the other */
    bool is_last; /* whether later spans do not change the tag */
    bool is_done; /* whether the span is of no use for the next token */
};

/* Compares a token with a span that overlaps with it. Spans within a token replace each other's
 * tags, and where they end with their token, they are compared with the next token too. */
static struct match compare(int32_t token_begin, int32_t token_end, int32_t begin, int32_t end,
                            bool is_strict)
{
    struct match m = {.letter = 'I', .is_last = end >= token_end, .is_done = end < token_end};

    if (is_strict &&
        ((begin > token_begin && end >= token_end) || (begin <= token_begin && end < token_end)))
        return (struct match){.letter = 'O', .is_last = true, .is_done = end < token_end};
    if (begin == token_begin && end == token_end)
        m.letter = 'S';
    else if (begin <= token_begin && end < token_end)
        m.letter = 'E';
    else if (begin >= token_begin)
        m.letter = 'B';
    else if (end <= token_end)
        m.letter = 'E';
    m.is_done = m.is_done || m.letter == 'S' || m.letter == 'E';
    return m;
}

static enum rt_status put_tag(struct rt_run *r, int64_t *left, struct rt_str *to, char letter,
                              const struct rt_str *type)
{
    if (letter == 'O')
        return kn_set_text(r, left, to, "O", 1);
    char *p = rt_str_resize(to, rt_run_pool(r), type->n + 2, r->err);
    if (!p)
        return r->err->code;
    p[0] = letter;
    p[1] = '-';
    return kn_copy_text(r, left, p + 2, rt_str_data(type), type->n);
}

/* Writes the tags of row i. */
static enum rt_status tag_row(struct rt_run *r, const struct ranges *token,
                              const struct ranges *span, int64_t i, bool is_strict, int64_t *left,
                              struct rt_str *to)
{
    const struct rt_str *types = rt_strs(&r->in[4]);
    int64_t s = i < span->n_rows ? span->splits[i] : 0;
    const int64_t last = i < span->n_rows ? span->splits[i + 1] : 0;
    enum rt_status st = RT_OK;

    for (int64_t t = token->splits[i]; t < token->splits[i + 1] && !st; t++, to++) {
        struct match m = {.letter = 'O'};
        char letter = 'O';
        int64_t of = 0;
        while (s < last && !m.is_last && span->begin[s] < token->end[t]) {
            const int64_t at = s;
            m.is_done = true;
            if (span->end[s] > token->begin[t]) {
                m = compare(token->begin[t], token->end[t], span->begin[s], span->end[s],
                            is_strict);
                if (m.letter != 'O') {
                    letter = m.letter;
                    of = s;
                }
            }
            s = m.is_done ? at + 1 : at;
            if (rt_run_spend(r, left, COST))
                return r->err->code;
        }
        st = put_tag(r, left, to, letter, &types[of]);
        if (!st)
            st = rt_run_spend(r, left, KN_STRING_WORK);
    }
    return st;
}

static enum rt_status tag_run(struct rt_run *r)
{
    const struct ranges token = ranges_of(r, 0, 5), span = ranges_of(r, 2, 7);
    long long n[5];
    int64_t left = RT_WORK, total = 0;

    for (int k = 0; k < 5; k++)
        n[k] = (long long)rt_tensor_count(&r->in[k]);
    if (n[0] != n[1] || n[2] != n[3] || n[2] != n[4])
        return rt_fail(
            r->err, RT_INVALID_ARGUMENT,
            "Token begin/end offsets must have the same size. Span begin/end offsets and span type "
            "must have the same size. Token begin offsets shape: %lld Token end offsets shape: "
            "%lld Span begin offsets shape: %lld Span end offsets shape: %lld Span type shape: "
            "%lld",
            n[0], n[1], n[2], n[3], n[4]);
    if (rt_tensor_count(&r->in[10]) < 1 || span.n_rows < token.n_rows)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "%s: there must be a mode, and spans for each row of tokens",
                       r->node->schema->name);
    const bool is_strict = *(const bool *)r->in[10].data;
    enum rt_status st = check_rows(r, &token);
    if (!st)
        st = check_rows(r, &span);
    for (int64_t i = 0; i < token.n_rows && !st; i++)
        total += token.splits[i + 1] - token.splits[i];
    struct rt_str *to = st ? NULL : kn_out(r, 0, 1, &total);
    if (!to)
        return r->err->code;
    for (int64_t i = 0; i < token.n_rows && !st; i++) {
        st = tag_row(r, &token, &span, i, is_strict, &left, to);
        to += token.splits[i + 1] - token.splits[i];
        if (!st)
            st = rt_run_spend(r, &left, COST);
    }
    return st;
}

const struct kn_entry kn_tf_text_offsets_to_boise_tags = {
    .op = {.name = "TFText>OffsetsToBoiseTags"},
    .kernels = KN_KERNELS({.op = "TFText>OffsetsToBoiseTags",
                           .device = "CPU",
                           .name = "offsets_to_boise_tags",
                           .run = tag_run}),
};

/* ---- BoiseTagsToOffsets ---- */

/* The span that a row's tags are in. */
struct open_span {
    bool is_open;
    struct kn_token span;
};

static bool end_span(struct kn_tokens *t, struct open_span *o, int64_t end)
{
    const bool was_open = o->is_open;

    o->is_open = false;
    o->span.end = end;
    return !was_open || kn_tokens_add(t, &o->span);
}

/* Reads the tag of token i. */
static bool read_tag(struct kn_tokens *t, struct open_span *o, const struct ranges *token,
                     int64_t i, int64_t previous_end, const struct rt_str *tag)
{
    const char *p = rt_str_data(tag), letter = tag->n ? p[0] : 0;

    if (letter == 'O')
        return end_span(t, o, previous_end);
    if (tag->n < 2 || p[1] != '-' || !letter || !strchr("BISE", letter))
        return true; /* No tag: it neither begins nor ends a span. */
    if (!o->is_open)
        o->span.begin = token->begin[i];
    o->is_open = true;
    o->span.p = p + 2;
    o->span.n = tag->n - 2;
    return letter == 'B' || letter == 'I' || end_span(t, o, token->end[i]);
}

static bool read_row(struct kn_tokens *t, const struct ranges *token, int64_t row)
{
    struct open_span o = {.is_open = false};
    int64_t end = 0;

    for (int64_t i = token->splits[row]; i < token->splits[row + 1]; i++) {
        if (!read_tag(t, &o, token, i, end, &rt_strs(&t->r->in[2])[i]) ||
            rt_run_spend(t->r, &t->left, COST))
            return false;
        end = token->end[i];
    }
    return end_span(t, &o, end) && kn_tokens_next(t);
}

static enum rt_status offsets_run(struct rt_run *r)
{
    static const struct kn_token_outputs to = {
        .text = 2, .id = -1, .splits = 3, .begin = 0, .end = 1};
    const struct ranges token = ranges_of(r, 0, 3);
    struct kn_tokens t;
    long long n[6];

    for (int k = 0; k < 6; k++)
        n[k] = (long long)rt_tensor_count(&r->in[k]);
    if (n[0] != n[1] || n[0] != n[2])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Token begin/end offsets and boise tags must have the same size.  Token "
                       "begin offsets shape: %lld Token end offsets shape: %lld BOISE tags shape: "
                       "%lld",
                       n[0], n[1], n[2]);
    if (n[3] != n[4] || n[3] != n[5])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Row splits must have the same size for token begin/end offsets and BOISE "
                       "tags.  Token begin row splits shape: %lld Token end row splits shape: %lld "
                       "BOISE tags row splits shape: %lld",
                       n[3], n[4], n[5]);
    enum rt_status st = check_rows(r, &token);
    if (st)
        return st;
    kn_tokens_begin(&t, r);
    for (int64_t i = 0; i < token.n_rows && !st; i++)
        if (!read_row(&t, &token, i))
            st = r->err->code;
    if (!st)
        st = kn_tokens_emit(&t, &to);
    kn_tokens_end(&t);
    return st;
}

const struct kn_entry kn_tf_text_boise_tags_to_offsets = {
    .op = {.name = "TFText>BoiseTagsToOffsets"},
    .kernels = KN_KERNELS({.op = "TFText>BoiseTagsToOffsets",
                           .device = "CPU",
                           .name = "boise_tags_to_offsets",
                           .run = offsets_run}),
};
