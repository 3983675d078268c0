/* Divides a text into phrases by a model of PhraseTokenize, and reads the texts of the model's ids.
 * The first byte is the length of the text, which follows; the rest is the model. The words of the
 * phrases must lie in the text, one behind the other, and each belongs to one phrase. */
#include <stdlib.h>

#include "kernels/text/phrase/phrase_model.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_PARSER;

/* Reads the texts of the first ids, and looks for ids around them. */
static void read_texts(const struct kn_phrase_model *m)
{
    static volatile unsigned char sink;
    struct rt_span text;

    for (int64_t id = -1; id < 300; id++)
        if (kn_phrase_text(m, id, &text))
            for (size_t i = 0; i < text.n; i++)
                sink = text.p[i];
    (void)sink;
}

/* Checks the words of a phrase. *at is the end of the word before them. */
static void check(const struct kn_phrase *f, struct rt_span text, const unsigned char **at)
{
    if (f->n_words == 0 || (f->is_unknown && f->n_words != 1))
        abort();
    for (size_t i = 0; i < f->n_words; i++) {
        const struct rt_span word = f->words[i];
        if (word.p < *at || word.n > (size_t)(text.p + text.n - word.p))
            abort();
        *at = word.p + word.n;
    }
}

void fuzz_one(const uint8_t *data, size_t size)
{
    struct kn_phrase_model m;
    struct kn_phrases p = {.m = &m};
    struct kn_phrase phrase;

    if (size < 1 || size - 1 < data[0])
        return;
    const struct rt_span text = rt_span_of(data + 1, data[0]);
    const unsigned char *at = text.p;
    if (kn_phrase_open(rt_span_of(data + 1 + text.n, size - 1 - text.n), &m))
        return;
    read_texts(&m);
    rt_bytes_init(&p.words, 1 << 20);
    if (!kn_phrases_begin(&p, text))
        abort();
    for (size_t n = 0; kn_phrases_more(&p); n += phrase.n_words)
        if (!kn_phrases_next(&p, &phrase) || p.at != n + phrase.n_words)
            abort();
        else
            check(&phrase, text, &at);
    rt_bytes_clear(&p.words);
}
