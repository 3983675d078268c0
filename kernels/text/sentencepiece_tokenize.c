/* SentencepieceTokenizeOp and SentencepieceTokenizeWithOffsetsOp of TensorFlow Text. */
#include "kernels/entry.h"
#include "kernels/text/sentencepiece.h"
#include "kernels/text/tokens.h"

enum { HANDLE, STRINGS, NBEST_SIZE, ALPHA, OPTIONS }; /* inputs */

struct tokenizer {
    struct kn_sp_coder coder;
    struct kn_tokens tokens;
    struct kn_sp_options options;
    /* The texts of unknown pieces. While tokens are collected, `has_prefix` marks a token whose
     * text is in this buffer, and its p is an offset. */
    struct rt_bytes unknown;
    bool has_text;
};

/* Adds a token with the text of a piece. */
static bool add_piece(struct tokenizer *t, uint32_t id, size_t begin, size_t end)
{
    const struct rt_span text = t->coder.m->pieces[id].text;
    const struct kn_token token = {.p = (const char *)text.p,
                                   .n = text.n,
                                   .begin = (int64_t)begin,
                                   .end = (int64_t)end,
                                   .id = id};

    return kn_tokens_add(&t->tokens, &token);
}

/* Adds the unknown text from `at` up to `to`. Texts that follow each other are one token. */
static bool add_unknown(struct tokenizer *t, uint32_t id, size_t at, size_t n, bool is_next,
                        size_t begin, size_t end)
{
    const struct kn_token token = {.p = (const char *)t->unknown.n,
                                   .n = n,
                                   .begin = (int64_t)begin,
                                   .end = (int64_t)end,
                                   .id = id,
                                   .has_prefix = true};

    if (t->has_text && !kn_sp_add(&t->coder, &t->unknown, t->coder.text.p + at, n))
        return false;
    if (!is_next)
        return kn_tokens_add(&t->tokens, &token);
    struct kn_token *last = (struct kn_token *)(void *)(t->tokens.list.p + t->tokens.list.n) - 1;
    last->n += n;
    last->end = (int64_t)end;
    return kn_sp_spend(&t->coder, 4);
}

/* Adds the bytes of an unknown character. The last one has the character's offsets. */
static bool add_bytes(struct tokenizer *t, size_t at, size_t n, size_t begin, size_t end)
{
    const unsigned char *text = (const unsigned char *)t->coder.text.p + at;

    for (size_t i = 0; i < n; i++)
        if (!add_piece(t, t->coder.m->byte_id[text[i]], begin, i == n - 1 ? end : begin))
            return false;
    return true;
}

static size_t origin_of(const struct tokenizer *t, size_t at)
{
    return t->coder.has_origin ? ((const size_t *)(const void *)t->coder.origin.p)[at] : 0;
}

static bool add_parts(struct tokenizer *t, const struct kn_sp_part *parts, size_t n)
{
    const struct kn_sp_model *m = t->coder.m;
    bool after_unknown = false, ok = true;
    size_t at = 0;

    for (size_t i = 0; i < n && ok; i++) {
        const uint32_t id = parts[i].id;
        const enum kn_sp_type type = m->pieces[id].type;
        if (type == KN_SP_CONTROL) {
            /* As in SentencePiece, a control piece covers no text, which is an error below. */
            after_unknown = false;
            ok = add_piece(t, id, origin_of(t, at), origin_of(t, at));
            continue;
        }
        const size_t begin = origin_of(t, at), end = origin_of(t, at + parts[i].n);
        if (type != KN_SP_UNKNOWN)
            ok = add_piece(t, id, begin, end);
        else if (m->has_bytes)
            ok = add_bytes(t, at, parts[i].n, begin, end);
        else
            ok = add_unknown(t, id, at, parts[i].n, after_unknown, begin, end);
        after_unknown = type == KN_SP_UNKNOWN;
        at += parts[i].n;
    }
    if (ok && at != t->coder.text.n) {
        rt_fail(t->tokens.r->err, RT_INTERNAL, "all normalized characters are not consumed.");
        return false;
    }
    return ok;
}

/* Adds a row: the pieces, and what the options ask for. */
static bool add_row(struct tokenizer *t, const struct kn_sp_part *parts, size_t n)
{
    const struct kn_sp_options *o = &t->options;
    const size_t before = t->tokens.list.n;

    if ((o->adds_begin && !add_piece(t, o->begin, 0, 0)) || !add_parts(t, parts, n) ||
        (o->adds_end && !add_piece(t, o->end, 0, 0)))
        return false;
    if (o->reverses) {
        struct kn_token *tokens = (struct kn_token *)(void *)t->tokens.list.p;
        size_t first = before / sizeof *tokens, end = t->tokens.list.n / sizeof *tokens;
        for (; first + 1 < end; first++, end--) {
            const struct kn_token x = tokens[first];
            tokens[first] = tokens[end - 1];
            tokens[end - 1] = x;
            if (!kn_sp_spend(&t->coder, 4))
                return false;
        }
    }
    return kn_tokens_next(&t->tokens);
}

/* Adds list i of several as a row. */
static bool add_list(struct tokenizer *t, size_t i)
{
    const struct kn_sp_list *lists = (const struct kn_sp_list *)(const void *)t->coder.lists.p;
    const struct kn_sp_part *parts = (const struct kn_sp_part *)(const void *)t->coder.parts.p;
    const size_t at = i ? lists[i - 1].end : 0, n = lists[i].end - at;

    return add_row(t, n ? parts + at : NULL, n); /* Without any piece, there is no array. */
}

/* Adds the pieces of the coder as a row. */
static bool add_all(struct tokenizer *t)
{
    return add_row(t, (const struct kn_sp_part *)(const void *)t->coder.parts.p,
                   t->coder.parts.n / sizeof(struct kn_sp_part));
}

/* ---- drawing by chance ---- */

/* Draws one of the lists, in proportion to exp(alpha * score). Returns its index. */
static size_t draw_list(struct kn_sp_coder *c, double alpha)
{
    const struct kn_sp_list *lists = (const struct kn_sp_list *)(const void *)c->lists.p;
    const size_t n = c->lists.n / sizeof *lists;
    double most = alpha * (double)lists[0].score, total = 0;

    for (size_t i = 1; i < n; i++)
        most = fmax(most, alpha * (double)lists[i].score);
    for (size_t i = 0; i < n; i++)
        total += exp(alpha * (double)lists[i].score - most);
    double rest = kn_single_double(&c->random) * total;
    for (size_t i = 0; i < n; i++) {
        rest -= exp(alpha * (double)lists[i].score - most);
        if (rest < 0)
            return i;
    }
    return 0;
}

/* Adds a row that is drawn among the n best lists, or among all of them if n is negative. */
static bool sample(struct tokenizer *t, int64_t n, float alpha)
{
    struct kn_sp_coder *c = &t->coder;
    const enum kn_sp_kind kind = c->m->kind;

    if (n > KN_SP_MAX_SAMPLE) {
        rt_fail(c->r->err, RT_INTERNAL, "nbest_size must be nbest_size <= %d", KN_SP_MAX_SAMPLE);
        return false;
    }
    if (kind != KN_SP_UNIGRAM && kind != KN_SP_BPE) {
        rt_fail(c->r->err, RT_INTERNAL, "SampleEncode is not available for the current model.");
        return false;
    }
    if (kind == KN_SP_BPE || n < 0)
        return kn_sp_sample(c, alpha) && add_all(t);
    return kn_sp_nbest(c, n) && add_list(t, draw_list(c, (double)alpha));
}

/* ---- the ops ---- */

/* Returns the index of string i's element in an input with one element, or one for each string. */
static int64_t index_of(const struct rt_tensor *t, int64_t i)
{
    return t->rank == 1 ? i : 0;
}

static enum rt_status check_count(struct rt_run *r, int k, int64_t n_strings)
{
    const struct rt_tensor *t = &r->in[k];

    if (t->rank == 1 ? rt_tensor_count(t) >= n_strings : rt_tensor_count(t) == 1)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "%s: input %d must have one element or one for each string, not shape %s",
                   r->node->schema->name, k, KN_TEXT(t));
}

static bool tokenize(struct tokenizer *t, int64_t i, bool has_all)
{
    struct rt_run *r = t->tokens.r;
    const struct rt_str *s = &rt_strs(&r->in[STRINGS])[i];
    const int64_t n_best = kn_int_at(&r->in[NBEST_SIZE], index_of(&r->in[NBEST_SIZE], i));
    struct kn_sp_coder *c = &t->coder;

    if (!kn_sp_normalize(c, &c->m->rules, true, rt_span_of(rt_str_data(s), s->n)))
        return false;
    if (has_all) {
        if (c->m->kind != KN_SP_UNIGRAM) {
            rt_fail(r->err, RT_INTERNAL, "NBestEncode is not available for the current model.");
            return false;
        }
        bool ok = kn_sp_nbest(c, n_best < KN_SP_MAX_BEST ? n_best : KN_SP_MAX_BEST);
        for (size_t k = 0; ok && k < c->lists.n / sizeof(struct kn_sp_list); k++)
            ok = add_list(t, k);
        return ok;
    }
    if (n_best != 0 && n_best != 1)
        return sample(t, n_best, ((const float *)r->in[ALPHA].data)[index_of(&r->in[ALPHA], i)]);
    return kn_sp_encode(c) && add_all(t);
}

static enum rt_status check_inputs(struct rt_run *r, int64_t n, bool has_all)
{
    const struct rt_tensor *size = &r->in[NBEST_SIZE];

    if (has_all && size->rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "When return_nbest is true nbest_size must be a scalar; got%sinstead",
                       KN_TEXT(size));
    if (has_all && kn_int_at(size, 0) < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "When return_nbest is true nbest_size must be >= 1; got %lld",
                       (long long)kn_int_at(size, 0));
    const enum rt_status st = check_count(r, NBEST_SIZE, n);
    return st ? st : check_count(r, ALPHA, n);
}

static bool set_unknown_texts(struct tokenizer *t)
{
    struct kn_token *k = (struct kn_token *)(void *)t->tokens.list.p;

    for (int64_t i = 0; i < kn_tokens_count(&t->tokens) && t->has_text; i++) {
        if (k[i].has_prefix) {
            k[i].p = t->unknown.p + (uintptr_t)k[i].p;
            k[i].has_prefix = false;
        }
        if (!kn_sp_tick(&t->coder, (size_t)i))
            return false;
    }
    return true;
}

static enum rt_status tokenize_run(struct rt_run *r)
{
    const bool has_all = rt_attr_bool(r->node, "return_nbest");
    const struct kn_sp_model *m = kn_sp_model_of(r);
    const int64_t n = rt_tensor_count(&r->in[STRINGS]);
    struct tokenizer t = {.has_text = r->node->out_dtype[0] == RT_STRING};
    const struct kn_token_outputs to = {.text = t.has_text ? 0 : -1,
                                        .id = t.has_text ? -1 : 0,
                                        .splits = 1,
                                        .begin = r->n_out > 2 ? 2 : -1,
                                        .end = r->n_out > 2 ? 3 : -1};
    enum rt_status st;

    if (!m)
        return r->err->code;
    kn_sp_begin(&t.coder, m, r);
    st = kn_sp_read_options(&t.coder, OPTIONS, &t.options);
    if (!st)
        st = check_inputs(r, n, has_all);
    kn_tokens_begin(&t.tokens, r);
    kn_text_begin(&t.unknown, r);
    t.coder.has_origin = r->n_out > 2;
    const uint64_t seed = rt_run_entropy(r);
    memcpy(t.coder.random.philox.key, &seed, sizeof seed);
    for (int64_t i = 0; i < n && !st; i++)
        if (!tokenize(&t, i, has_all))
            st = r->err->code;
    if (!st)
        st = set_unknown_texts(&t) ? kn_tokens_emit(&t.tokens, &to) : r->err->code;
    kn_text_end(&t.unknown);
    kn_tokens_end(&t.tokens);
    kn_sp_end(&t.coder);
    return st;
}

#define TOKENIZE(symbol, op_)                                                                      \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_RANDOM},                                                \
        .kernels = KN_KERNELS({.op = (op_),                                                        \
                               .device = "CPU",                                                    \
                               .name = "sentencepiece_tokenize",                                   \
                               .run = tokenize_run}),                                              \
    };
TOKENIZE(sentencepiece_tokenize_op, "SentencepieceTokenizeOp")
TOKENIZE(sentencepiece_tokenize_with_offsets_op, "SentencepieceTokenizeWithOffsetsOp")
