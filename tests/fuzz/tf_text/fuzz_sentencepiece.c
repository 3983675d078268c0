/* Divides a text by a SentencePiece model, in each way that the model has. The first byte is the
 * length of the text, which follows; the rest is the model. The pieces must cover the normalised
 * text. */
#include <stdlib.h>

#include "kernels/text/sentencepiece_encode.h"
#include "runtime/core/pool.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_PARSER;

/* Checks the pieces of a list, which begins with part `at` and ends before part `end`. */
static void check(const struct kn_sp_coder *c, size_t at, size_t end)
{
    const struct kn_sp_part *p = (const struct kn_sp_part *)(const void *)c->parts.p;
    size_t n = 0;

    for (; at < end; at++) {
        if (p[at].id >= c->m->n || p[at].n == 0)
            abort();
        n += p[at].n;
    }
    if (n != c->text.n)
        abort();
}

static size_t count(const struct kn_sp_coder *c)
{
    return c->parts.n / sizeof(struct kn_sp_part);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    struct kn_sp_model m;
    struct kn_sp_coder c;
    struct rt_error err = {0};
    const struct rt_make make = {.pool = rt_pool_new_plain(SIZE_MAX, "--limit"), .err = &err};

    if (!make.pool || size < 1 || size - 1 < data[0] ||
        kn_sp_open(&make, rt_span_of(data + 1 + data[0], size - 1 - data[0]), "model", &m)) {
        rt_pool_unref(make.pool);
        return;
    }
    kn_sp_begin(&c, &m, NULL);
    c.has_origin = true;
    if (!kn_sp_normalize(&c, &m.rules, true, rt_span_of(data + 1, data[0])))
        goto done;
    if (c.text.n && c.origin.n != (c.text.n + 1) * sizeof(size_t))
        abort();
    if (kn_sp_encode(&c))
        check(&c, 0, count(&c));
    if ((m.kind == KN_SP_UNIGRAM || m.kind == KN_SP_BPE) && kn_sp_sample(&c, 0.5f))
        check(&c, 0, count(&c));
    if (m.kind == KN_SP_UNIGRAM && kn_sp_nbest(&c, 3)) {
        const struct kn_sp_list *lists = (const struct kn_sp_list *)(const void *)c.lists.p;
        for (size_t i = 0, at = 0; i < c.lists.n / sizeof *lists; at = lists[i++].end)
            check(&c, at, lists[i].end);
    }
    if (m.has_undo)
        kn_sp_normalize(&c, &m.undo, false, rt_span_of(data + 1, data[0]));
done:
    kn_sp_end(&c);
    kn_sp_close(&m);
    rt_pool_unref(make.pool);
}
