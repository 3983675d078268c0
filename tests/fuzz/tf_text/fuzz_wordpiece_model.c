/* Splits a word by a model of wordpieces, and reads the texts of the model's pieces. The first byte
 * is the length of the word, which follows; the rest is the model. The pieces of the word must lie
 * side by side and cover it. */
#include <stdlib.h>

#include "kernels/text/wordpiece_model.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_PARSER;

struct seen {
    size_t end, size;
};

static bool add(void *arg, const struct kn_piece *p)
{
    struct seen *s = arg;

    if (p->begin != s->end || p->n == 0 || p->n > s->size - s->end)
        abort();
    s->end += p->n;
    return true;
}

static bool has_read(void *arg, size_t n)
{
    (void)arg;
    return n <= 65536;
}

/* Reads the texts of the first pieces, and looks for ids around them. */
static void read_pieces(const struct kn_wordpiece_model *m)
{
    static volatile unsigned char sink;
    struct kn_piece_text piece;

    for (int64_t id = -1; id < 300; id++)
        if (kn_wordpiece_text(m, id, &piece))
            for (size_t i = 0; i < piece.text.n; i++)
                sink = piece.text.p[i];
    (void)sink;
}

void fuzz_one(const uint8_t *data, size_t size)
{
    struct kn_wordpiece_model m;

    if (size < 1 || data[0] == 0 || size - 1 < data[0])
        return;
    const size_t n = data[0];
    struct seen s = {.size = n};
    const struct kn_piece_sink to = {add, has_read, &s};
    if (kn_wordpiece_open(rt_span_of(data + 1 + n, size - 1 - n), &m))
        return;
    read_pieces(&m);
    if (kn_wordpiece_split(&m, data + 1, n, &to) == KN_WORD_SPLIT && s.end != n)
        abort();
}
