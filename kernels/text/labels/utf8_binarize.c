/* Utf8Binarize of TensorFlow Text writes the lowest bits of the first characters of each string as
 * numbers, 0 or 1. Characters that a shorter string lacks are zeros. */
#include "kernels/entry.h"
#include "kernels/string/unicode.h"
#include "kernels/text/tokens.h"

struct binarizer {
    struct rt_run *r;
    int64_t word_length, bits_per_char;
    int32_t replacement; /* for malformed sequences of bytes */
    int64_t left;
};

/* Writes the bits of a character, the lowest one first. The sign is repeated above bit 31. */
static enum rt_status put_char(struct binarizer *b, int32_t c, float *to)
{
    for (int64_t i = 0; i < b->bits_per_char; i++) {
        to[i] = (float)(c >> (i < 31 ? i : 31) & 1);
        if (rt_run_spend(b->r, &b->left, 1))
            return b->r->err->code;
    }
    return RT_OK;
}

static enum rt_status put_word(struct binarizer *b, const struct rt_str *s, float *to)
{
    const unsigned char *p = (const unsigned char *)rt_str_data(s), *end = p + s->n;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < b->word_length && !st; i++, to += b->bits_per_char) {
        const int32_t c = p < end ? kn_decode_utf8(p, end, &p) : 0;
        st = put_char(b, c == KN_BAD_CHAR ? b->replacement : c, to);
        if (!st)
            st = rt_run_spend(b->r, &b->left, 4);
    }
    return st;
}

static enum rt_status run(struct rt_run *r)
{
    struct binarizer b = {.r = r,
                          .word_length = rt_attr_int(r->node, "word_length"),
                          .bits_per_char = rt_attr_int(r->node, "bits_per_char"),
                          .replacement = (int32_t)rt_attr_int(r->node, "replacement_char"),
                          .left = RT_WORK};
    int64_t dim[2];

    if (b.word_length < 0 || b.bits_per_char < 0 || b.word_length > INT32_MAX ||
        b.bits_per_char > INT32_MAX)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "%s: word_length and bits_per_char must be from 0 to 2^31-1, not %lld and "
                       "%lld",
                       r->node->schema->name, (long long)b.word_length, (long long)b.bits_per_char);
    enum rt_status st = kn_token_strings(r, &dim[0]);
    dim[1] = b.word_length * b.bits_per_char;
    float *to = st ? NULL : kn_out(r, 0, 2, dim);
    if (!to)
        return r->err->code;
    for (int64_t i = 0; i < dim[0] && dim[1] > 0 && !st; i++)
        st = put_word(&b, &rt_strs(&r->in[0])[i], to + i * dim[1]);
    return st;
}

const struct kn_entry kn_tf_text_utf8_binarize = {
    .op = {.name = "TFText>Utf8Binarize"},
    .kernels = KN_KERNELS(
        {.op = "TFText>Utf8Binarize", .device = "CPU", .name = "utf8_binarize", .run = run}),
};
