/*
 * WhitespaceTokenizeWithOffsetsV2 of TensorFlow Text. The second input is a bitmap: bit c % 8 of
 * byte c / 8 is set if character c is white space.
 */
#include "kernels/entry.h"
#include "kernels/string/unicode.h"
#include "kernels/text/tokens.h"

static bool is_space(struct rt_span map, int32_t c)
{
    return c >= 0 && (size_t)c / 8 < map.n && (map.p[c / 8] >> (c % 8) & 1);
}

/* Splits a string. As in TensorFlow Text, a token that white space ends reaches up to the last byte
 * of that white space, so it contains the first bytes of a character that is longer than a byte. */
static bool split(struct kn_tokens *t, struct rt_span map, const struct rt_str *s)
{
    const unsigned char *begin = (const unsigned char *)rt_str_data(s), *end = begin + s->n;
    const unsigned char *token = NULL, *next;

    for (const unsigned char *p = begin; p < end; p = next) {
        const bool space = is_space(map, kn_decode_utf8(p, end, &next));
        if (rt_run_spend(t->r, &t->left, 4))
            return false;
        if (!space && !token)
            token = p;
        if (!token || (!space && next < end))
            continue;
        const unsigned char *to = space ? next - 1 : end;
        const struct kn_token k = {.p = (const char *)token,
                                   .n = (size_t)(to - token),
                                   .begin = token - begin,
                                   .end = to - begin};
        if (!kn_tokens_add(t, &k))
            return false;
        token = NULL;
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
