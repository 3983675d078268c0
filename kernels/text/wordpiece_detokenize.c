/* FastWordpieceDetokenize of TensorFlow Text: joins the wordpieces of each row. A piece that is no
 * suffix begins a new word. */
#include "kernels/entry.h"
#include "kernels/text/tokens.h"
#include "kernels/text/wordpiece_model.h"

struct detokenizer {
    struct rt_run *r;
    struct kn_wordpiece_model model;
    struct rt_bytes text;
    int64_t left;
};

static enum rt_status fail(const struct detokenizer *d, const char *why)
{
    return rt_fail(d->r->err, RT_INVALID_ARGUMENT, "%s: the model %s", d->r->node->schema->name,
                   why);
}

/* Appends a piece to the current row. */
static enum rt_status add(struct detokenizer *d, int32_t id, bool is_first)
{
    const struct kn_vector *suffix = &d->model.suffix;
    struct kn_piece_text piece;

    if (!kn_wordpiece_text(&d->model, id, &piece))
        return rt_fail(d->r->err, RT_INVALID_ARGUMENT,
                       "%s: the model has no wordpiece with the id %d", d->r->node->schema->name,
                       id);
    if (piece.is_suffix && is_first && suffix->n)
        rt_bytes_add(&d->text, suffix->p, suffix->n);
    if (!piece.is_suffix && !is_first)
        rt_bytes_addc(&d->text, ' ');
    if (piece.text.n)
        rt_bytes_add(&d->text, piece.text.p, piece.text.n);
    if (d->text.failed)
        return kn_text_failed(&d->text);
    return rt_run_spend(d->r, &d->left, 16 + (int64_t)piece.text.n);
}

/* Joins the pieces of row i. */
static enum rt_status join(struct detokenizer *d, int64_t i)
{
    int64_t begin = 0, end = 0;
    enum rt_status st = kn_token_row(d->r, i, &begin, &end);

    if (st)
        return st;
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
        kn_wordpiece_open(rt_span_of(model->data, (size_t)rt_tensor_count(model)), &d.model);
    const int64_t n_splits = rt_tensor_count(&r->in[1]), n = n_splits > 0 ? n_splits - 1 : 0;

    if (why)
        return fail(&d, why);
    if (!d.model.has_pieces)
        return kn_fail_no_texts(r);
    enum rt_status st = kn_out(r, 0, 1, &n) ? RT_OK : r->err->code;
    kn_text_begin(&d.text, r);
    for (int64_t i = 0; i < n && !st; i++)
        st = join(&d, i);
    kn_text_end(&d.text);
    return st;
}

const struct kn_entry kn_tf_text_fast_wordpiece_detokenize = {
    .op = {.name = "TFText>FastWordpieceDetokenize"},
    .kernels = KN_KERNELS({.op = "TFText>FastWordpieceDetokenize",
                           .device = "CPU",
                           .name = "fast_wordpiece_detokenize",
                           .run = run}),
};
