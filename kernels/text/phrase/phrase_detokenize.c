/* PhraseDetokenize of TensorFlow Text: joins the phrases of each row. */
#include "kernels/entry.h"
#include "kernels/text/phrase/phrase_model.h"
#include "kernels/text/tokens.h"

#define DETOKENIZE "TFText>PhraseDetokenize"

/* Returns whether a space stands before a phrase. Where endings were split from words, they join
 * them again, and no row begins with a space. */
static bool has_space(const struct kn_joined *j, struct rt_span phrase, bool is_first)
{
    const struct kn_phrase_model *model = j->model;

    if (!model->splits_endings)
        return !is_first;
    return j->text.n > 0 && (phrase.n == 0 || kn_phrase_ending(phrase) < phrase.n);
}

/* Appends a phrase to the current row. */
static enum rt_status add(struct kn_joined *j, int32_t id, bool is_first)
{
    enum rt_status st = RT_OK;
    struct rt_span phrase;

    if (!kn_phrase_text(j->model, id, &phrase))
        return rt_fail(j->r->err, RT_INVALID_ARGUMENT,
                       DETOKENIZE ": the model has no phrase with the id %d", id);
    if (has_space(j, phrase, is_first))
        st = kn_text_add(j->r, &j->left, &j->text, " ", 1);
    return st ? st : kn_text_add(j->r, &j->left, &j->text, phrase.p, phrase.n);
}

static enum rt_status run(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[2];
    struct kn_phrase_model model;
    const char *why = kn_phrase_open(rt_span_of(in->data, (size_t)rt_tensor_count(in)), &model);

    if (why)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, DETOKENIZE ": the model %s", why);
    if (!model.has_texts && rt_tensor_count(&r->in[1]) > 1)
        return kn_fail_no_texts(r);
    return kn_join_rows(r, &model, add);
}

const struct kn_entry kn_tf_text_phrase_detokenize = {
    .op = {.name = DETOKENIZE},
    .kernels =
        KN_KERNELS({.op = DETOKENIZE, .device = "CPU", .name = "phrase_detokenize", .run = run}),
};
