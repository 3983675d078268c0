/* Divides a text by a model of FastSentencepieceTokenize. The first byte is the length of the text,
 * which follows; the rest is the model. The pieces, if there are any, must cover the text. */
#include <stdlib.h>

#include "kernels/text/fast_sentencepiece.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_PARSER;

void fuzz_one(const uint8_t *data, size_t size)
{
    struct kn_fast_sp_model m;
    struct kn_sp_coder c;
    size_t n = 0;

    if (size < 1 || size - 1 < data[0] ||
        kn_fast_sp_open(rt_span_of(data + 1 + data[0], size - 1 - data[0]), &m))
        return;
    kn_sp_begin(&c, NULL, NULL);
    if (kn_fast_sp_encode(&c, &m, rt_span_of(data + 1, data[0])) && c.parts.n) {
        const struct kn_sp_part *p = (const struct kn_sp_part *)(const void *)c.parts.p;
        for (size_t i = 0; i < c.parts.n / sizeof *p; i++)
            n += p[i].n;
        if (n != c.text.n)
            abort();
    }
    kn_sp_end(&c);
}
