/* FastWordpieceDetokenize of TensorFlow Text: joins the wordpieces of each row. A piece that is no
 * suffix begins a new word. */
#include "kernels/entry.h"
#include "kernels/text/tokens.h"
#include "kernels/text/wordpiece_model.h"

/* Appends a piece to the current row. */
static enum rt_status add(struct kn_joined *j, int32_t id, bool is_first)
{
    const struct kn_wordpiece_model *model = j->model;
    const struct kn_vector *suffix = &model->suffix;
    struct kn_piece_text piece;

    if (!kn_wordpiece_text(model, id, &piece))
        return rt_fail(j->r->err, RT_INVALID_ARGUMENT,
                       "%s: the model has no wordpiece with the id %d", j->r->node->schema->name,
                       id);
    if (piece.is_suffix && is_first && suffix->n)
        rt_bytes_add(&j->text, suffix->p, suffix->n);
    if (!piece.is_suffix && !is_first)
        rt_bytes_addc(&j->text, ' ');
    if (piece.text.n)
        rt_bytes_add(&j->text, piece.text.p, piece.text.n);
    if (j->text.failed)
        return kn_text_failed(&j->text);
    return rt_run_spend(j->r, &j->left, 16 + (int64_t)piece.text.n);
}

static enum rt_status run(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[2];
    struct kn_wordpiece_model model;
    const char *why = kn_wordpiece_open(rt_span_of(in->data, (size_t)rt_tensor_count(in)), &model);

    if (why)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: the model %s", r->node->schema->name, why);
    if (!model.has_pieces)
        return kn_fail_no_texts(r);
    return kn_join_rows(r, &model, add);
}

const struct kn_entry kn_tf_text_fast_wordpiece_detokenize = {
    .op = {.name = "TFText>FastWordpieceDetokenize"},
    .kernels = KN_KERNELS({.op = "TFText>FastWordpieceDetokenize",
                           .device = "CPU",
                           .name = "fast_wordpiece_detokenize",
                           .run = run}),
};
