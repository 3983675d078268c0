/* WhitespaceTokenizeWithOffsetsV2 of TensorFlow Text. The second input is the bitmap of white
 * space. */
#include "kernels/text/whitespace.h"

#include "kernels/entry.h"
#include "kernels/string/unicode.h"
#include "kernels/text/tokens.h"

enum { MAX_READ = 1 << 16 }; /* bytes that one call of kn_words_next reads */

static bool is_space(struct rt_span map, int32_t c)
{
    return c >= 0 && (size_t)c / 8 < map.n && (map.p[c / 8] >> (c % 8) & 1);
}

bool kn_words_next(struct kn_words *w, struct rt_span *out)
{
    const unsigned char *const end = w->end;
    const unsigned char *const stop = end - w->p > MAX_READ ? w->p + MAX_READ : end;

    for (const unsigned char *p = w->p, *next; p < stop; p = next) {
        const bool space = is_space(w->spaces, kn_decode_utf8(p, end, &next));
        w->p = next;
        if (!space && !w->word)
            w->word = p;
        if (!w->word || (!space && next < end))
            continue;
        *out = rt_span_of(w->word, (size_t)((space ? next - 1 : end) - w->word));
        w->word = NULL;
        return true;
    }
    return false;
}

static bool split(struct kn_tokens *t, struct rt_span map, const struct rt_str *s)
{
    const unsigned char *begin = (const unsigned char *)rt_str_data(s), *from;
    struct kn_words words = {.spaces = map, .p = begin, .end = begin + s->n};
    struct rt_span word;

    while ((from = words.p) < words.end) {
        const bool found = kn_words_next(&words, &word);
        if (rt_run_spend(t->r, &t->left, 4 * (words.p - from)))
            return false;
        if (!found)
            continue;
        const int64_t at = word.p - begin;
        const struct kn_token k = {
            .p = (const char *)word.p, .n = word.n, .begin = at, .end = at + (int64_t)word.n};
        if (!kn_tokens_add(t, &k))
            return false;
    }
    return kn_tokens_next(t);
}

static enum rt_status run(struct rt_run *r)
{
    static const struct kn_token_outputs to = {
        .text = 0, .id = -1, .splits = 1, .begin = 2, .end = 3};
    struct kn_tokens t;
    int64_t n = 0;
    enum rt_status st = kn_token_strings(r, &n);

    if (!st && rt_tensor_count(&r->in[1]) != 1)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: input_config must be one string, not %s",
                     r->node->schema->name, KN_TEXT(&r->in[1]));
    if (st)
        return st;
    const struct rt_str *config = rt_strs(&r->in[1]);
    kn_tokens_begin(&t, r);
    for (int64_t i = 0; i < n && !st; i++)
        if (!split(&t, rt_span_of(rt_str_data(config), config->n), &rt_strs(&r->in[0])[i]))
            st = r->err->code;
    if (!st)
        st = kn_tokens_emit(&t, &to);
    kn_tokens_end(&t);
    return st;
}

const struct kn_entry kn_tf_text_whitespace_tokenize_with_offsets_v2 = {
    .op = {.name = "TFText>WhitespaceTokenizeWithOffsetsV2"},
    .kernels = KN_KERNELS({.op = "TFText>WhitespaceTokenizeWithOffsetsV2",
                           .device = "CPU",
                           .name = "whitespace_tokenize",
                           .run = run}),
};
