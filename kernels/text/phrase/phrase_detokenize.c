/* PhraseDetokenize of TensorFlow Text: joins the phrases of each row. */
#include "kernels/entry.h"
#include "kernels/text/phrase/phrase_model.h"
#include "kernels/text/tokens.h"

#define DETOKENIZE "TFText>PhraseDetokenize"

struct detokenizer {
    struct rt_run *r;
    struct kn_phrase_model model;
    struct rt_bytes text;
    int64_t left;
};

/* Returns whether a space stands before a phrase. Where endings were split from words, they join
 * them again, and no row begins with a space. */
static bool has_space(const struct detokenizer *d, struct rt_span phrase, bool is_first)
{
    if (!d->model.splits_endings)
        return !is_first;
    return d->text.n > 0 && (phrase.n == 0 || kn_phrase_ending(phrase) < phrase.n);
}

/* Appends a phrase to the current row. */
static enum rt_status add(struct detokenizer *d, int32_t id, bool is_first)
{
    enum rt_status st = RT_OK;
    struct rt_span phrase;

    if (!kn_phrase_text(&d->model, id, &phrase))
        return rt_fail(d->r->err, RT_INVALID_ARGUMENT,
                       DETOKENIZE ": the model has no phrase with the id %d", id);
    if (has_space(d, phrase, is_first))
        st = kn_text_add(d->r, &d->left, &d->text, " ", 1);
    return st ? st : kn_text_add(d->r, &d->left, &d->text, phrase.p, phrase.n);
}

/* Joins the phrases of row i. */
static enum rt_status join(struct detokenizer *d, int64_t i)
{
    int64_t begin = 0, end = 0;
    enum rt_status st = kn_token_row(d->r, i, &begin, &end);

    d->text.n = 0;
    for (int64_t k = begin; k < end && !st; k++)
        st = add(d, ((const int32_t *)d->r->in[0].data)[k], k == begin);
    if (st)
        return st;
    st = kn_set_text(d->r, &d->left, (struct rt_str *)d->r->out[0].data + i, d->text.p, d->text.n);
    return st ? st : rt_run_spend(d->r, &d->left, KN_STRING_WORK);
}

static enum rt_status run(struct rt_run *r)
{
    struct detokenizer d = {.r = r, .left = RT_WORK};
    const struct rt_tensor *model = &r->in[2];
    const char *why =
        kn_phrase_open(rt_span_of(model->data, (size_t)rt_tensor_count(model)), &d.model);
    const int64_t n_splits = rt_tensor_count(&r->in[1]), n = n_splits > 0 ? n_splits - 1 : 0;

    if (why)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, DETOKENIZE ": the model %s", why);
    if (!d.model.has_texts && n > 0)
        return kn_fail_no_texts(r);
    enum rt_status st = kn_out(r, 0, 1, &n) ? RT_OK : r->err->code;
    kn_text_begin(&d.text, r);
    for (int64_t i = 0; i < n && !st; i++)
        st = join(&d, i);
    kn_text_end(&d.text);
    return st;
}

const struct kn_entry kn_tf_text_phrase_detokenize = {
    .op = {.name = DETOKENIZE},
    .kernels =
        KN_KERNELS({.op = DETOKENIZE, .device = "CPU", .name = "phrase_detokenize", .run = run}),
};
