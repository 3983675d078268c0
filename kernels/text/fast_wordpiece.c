/* FastWordpieceTokenizeWithOffsets of TensorFlow Text: splits text into words, if its model says
 * so, and words into the longest pieces of a vocabulary. */
#include "kernels/entry.h"
#include "kernels/string/unicode.h"
#include "kernels/text/tokens.h"
#include "kernels/text/wordpiece_model.h"

/* How a character divides text into words. */
enum break_kind {
    LETTER, /* belongs to a word */
    SPACE,  /* belongs to no word */
    ALONE,  /* punctuation or a Chinese character: a word by itself */
};

/* The characters from `first` up to, but not including, the next row's `first` have this kind. */
struct break_range {
    uint32_t first;
    enum break_kind kind;
};

#include "kernels/text/break_table.inc"

enum { MAX_SKIP = 1 << 16 }; /* letters that are read between two checks of the deadline */

static enum break_kind kind_of(int32_t c)
{
    size_t least = 0, most = sizeof break_ranges / sizeof *break_ranges - 1;

    if (c < 0)
        return LETTER; /* malformed bytes */
    if (c < (int32_t)sizeof ascii_kinds)
        return (enum break_kind)ascii_kinds[c];
    while (least < most) {
        const size_t middle = (least + most + 1) / 2;
        if (break_ranges[middle].first <= (uint32_t)c)
            least = middle;
        else
            most = middle - 1;
    }
    return break_ranges[least].kind;
}

struct fast_wordpiece {
    struct kn_wordpiece_model model;
    struct kn_tokens tokens;
    const char *text, *word; /* the current string and the word in it */
};

static bool add_piece(void *arg, const struct kn_piece *p)
{
    struct fast_wordpiece *w = arg;
    const struct kn_vector *unknown = &w->model.unknown;
    const bool is_unknown = p->id == w->model.unknown_id;
    const int64_t begin = w->word - w->text + (int64_t)p->begin;
    const struct kn_token k = {.p = is_unknown ? (const char *)unknown->p : w->word + p->begin,
                               .n = is_unknown ? unknown->n : p->n,
                               .begin = begin,
                               .end = begin + (int64_t)p->n,
                               .id = p->id,
                               .has_prefix = p->is_suffix && !is_unknown};
    return kn_tokens_add(&w->tokens, &k);
}

static bool has_read(void *arg, size_t n)
{
    struct fast_wordpiece *w = arg;

    return !rt_run_spend(w->tokens.r, &w->tokens.left, (int64_t)n);
}

/* Adds the pieces of a word of n bytes at p. */
static bool split_word(struct fast_wordpiece *w, const unsigned char *p, size_t n)
{
    const size_t before = w->tokens.list.n;
    const struct kn_piece_sink to = {add_piece, has_read, w};

    w->word = (const char *)p;
    switch (kn_wordpiece_split(&w->model, p, n, &to)) {
    case KN_WORD_SPLIT:
        return true;
    case KN_WORD_UNKNOWN:
        w->tokens.list.n = before;
        return add_piece(w, &(struct kn_piece){.id = w->model.unknown_id, .n = n});
    case KN_WORD_DAMAGED:
        rt_fail(w->tokens.r->err, RT_INVALID_ARGUMENT,
                "FastWordpieceTokenizeWithOffsets: the model contradicts itself");
        return false;
    case KN_WORD_FAILED:
        break;
    }
    return false;
}

static bool split_text(struct fast_wordpiece *w, const struct rt_str *s)
{
    const unsigned char *p = (const unsigned char *)rt_str_data(s), *end = p + s->n, *next;
    const unsigned char *word = p; /* the word that p continues, or p */

    w->text = (const char *)p;
    if (!w->model.splits_text)
        return s->n == 0 || split_word(w, p, s->n);
    for (; p < end; p = next) {
        const unsigned char *const stop = end - p > MAX_SKIP ? p + MAX_SKIP : end, *const from = p;
        while (p < stop - 1 && *p < 0x80 && ascii_kinds[*p] == LETTER)
            p++;
        const enum break_kind kind = kind_of(kn_decode_utf8(p, end, &next));
        if (rt_run_spend(w->tokens.r, &w->tokens.left, 8 + (p - from)))
            return false;
        if (kind == LETTER)
            continue;
        if (word < p && !split_word(w, word, (size_t)(p - word)))
            return false;
        if (kind == ALONE && !split_word(w, p, (size_t)(next - p)))
            return false;
        word = next;
    }
    return word == end || split_word(w, word, (size_t)(end - word));
}

static enum rt_status run(struct rt_run *r)
{
    static const struct kn_token_outputs to = {
        .text = 0, .id = 1, .splits = 2, .begin = 3, .end = 4};
    const struct rt_tensor *model = &r->in[1];
    struct fast_wordpiece w;
    const char *why =
        kn_wordpiece_open(rt_span_of(model->data, (size_t)rt_tensor_count(model)), &w.model);
    int64_t n = 0;
    enum rt_status st = kn_token_strings(r, &n);

    if (st)
        return st;
    if (why)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "FastWordpieceTokenizeWithOffsets: the model %s", why);
    kn_tokens_begin(&w.tokens, r);
    w.tokens.prefix = rt_span_of(w.model.suffix.p, w.model.suffix.n);
    for (int64_t i = 0; i < n && !st; i++)
        if (!split_text(&w, &rt_strs(&r->in[0])[i]) || !kn_tokens_next(&w.tokens))
            st = r->err->code;
    if (!st)
        st = kn_tokens_emit(&w.tokens, &to);
    kn_tokens_end(&w.tokens);
    return st;
}

const struct kn_entry kn_fast_wordpiece_tokenize_with_offsets = {
    .op = {.name = "FastWordpieceTokenizeWithOffsets"},
    .kernels = KN_KERNELS({.op = "FastWordpieceTokenizeWithOffsets",
                           .device = "CPU",
                           .name = "fast_wordpiece_tokenize",
                           .run = run}),
};
