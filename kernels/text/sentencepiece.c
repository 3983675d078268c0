/* SentencepieceOp of TensorFlow Text, which makes a model, and the ops that look pieces up. */
#include "kernels/text/sentencepiece.h"

#include "kernels/array/array.h"
#include "kernels/entry.h"

#include <stdlib.h>

struct model_object {
    struct rt_object o;
    struct kn_sp_model model;
};

static void model_free(struct rt_object *o)
{
    struct model_object *m = (struct model_object *)o;

    kn_sp_close(&m->model);
    free(m);
}

static const struct rt_object_type model_type = {"SentencePiece model", model_free};

static enum rt_status model_make(const struct rt_make *make, struct rt_object **out)
{
    struct model_object *m = calloc(1, sizeof *m);
    enum rt_status st = kn_check_container(make->node, make->err);

    if (!m && !st)
        st = rt_fail_memory(make->err, make->node->name, sizeof *m);
    if (!st)
        st = kn_sp_open(make, rt_attr_str(make->node, "model"), make->node->name, &m->model);
    if (st) {
        free(m);
        return st;
    }
    rt_object_init(&m->o, &model_type);
    *out = &m->o;
    return RT_OK;
}

const struct kn_entry kn_sentencepiece_op = {
    .op = {.name = "SentencepieceOp",
           .infer = kn_infer_scalars,
           .slot_kind = "SentencePiece model",
           .make = model_make},
};

/* ---- what the ops share ---- */

const struct kn_sp_model *kn_sp_model_of(struct rt_run *r)
{
    const struct rt_tensor *handle = &r->in[0];
    const struct rt_object *o = rt_tensor_count(handle) == 1 ? rt_tensor_handle(handle) : NULL;

    if (o && o->type == &model_type)
        return &((const struct model_object *)o)->model;
    rt_fail(r->err, RT_NOT_FOUND, "%s: the handle is not one of a SentencePiece model",
            r->node->schema->name);
    return NULL;
}

/* Finds the piece that an option adds. */
static enum rt_status find_piece(struct kn_sp_coder *c, struct rt_span piece, uint32_t *id)
{
    if (!kn_sp_id(c, piece, id))
        return c->r->err->code;
    if (c->m->pieces[*id].type == KN_SP_UNKNOWN)
        return rt_fail(c->r->err, RT_INTERNAL, "id for `%.*s` is not defined.",
                       (int)(piece.n < 64 ? piece.n : 64), (const char *)piece.p);
    return RT_OK;
}

enum rt_status kn_sp_read_options(struct kn_sp_coder *c, int first, struct kn_sp_options *out)
{
    struct rt_run *r = c->r;
    bool set[3];
    enum rt_status st = RT_OK;

    for (int k = 0; k < 3; k++) {
        const struct rt_tensor *t = &r->in[first + k];
        if (rt_tensor_count(t) != 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: input %d must be one bool, not %s",
                           r->node->schema->name, first + k, KN_TEXT(t));
        set[k] = kn_int_at(t, 0) != 0;
    }
    *out = (struct kn_sp_options){.adds_begin = set[0], .adds_end = set[1], .reverses = set[2]};
    if (set[0])
        st = find_piece(c, c->m->begin_piece, &out->begin);
    if (set[1] && !st)
        st = find_piece(c, c->m->end_piece, &out->end);
    return st;
}

enum rt_status kn_sp_fail_id(struct rt_error *err, int64_t id)
{
    return rt_fail(err, RT_OUT_OF_RANGE, "Invalid id: %lld", (long long)id);
}

/* ---- look-up ---- */

static enum rt_status size_run(struct rt_run *r)
{
    const struct kn_sp_model *m = kn_sp_model_of(r);
    int32_t *out = m ? kn_out(r, 0, 0, NULL) : NULL;

    if (!out)
        return r->err->code;
    *out = (int32_t)m->n;
    return RT_OK;
}

const struct kn_entry kn_sentencepiece_vocab_size_op = {
    .op = {.name = "SentencepieceVocabSizeOp", .effect = RT_READS, .infer = kn_infer_scalars},
    .kernels = KN_CPU("SentencepieceVocabSizeOp", "sentencepiece_size", 0, NULL, size_run),
};

static enum rt_status look_up_infer(struct rt_infer *x)
{
    x->out[0].shape = x->in[1].shape;
    return RT_OK;
}

static void look_up_rows(struct rt_rows *r)
{
    if (r->in_dep[0].kind == RT_DEP_NONE)
        r->out_dep[0] = r->in_dep[1];
}

/* TensorFlow Text reads beyond its vocabulary for an id that does not exist. */
static enum rt_status string_run(struct rt_run *r)
{
    const struct kn_sp_model *m = kn_sp_model_of(r);
    const struct rt_tensor *in = &r->in[1];
    struct rt_str *out = m ? kn_out(r, 0, in->rank, in->dim) : NULL;
    const int64_t n = rt_tensor_count(in);
    int64_t left = RT_WORK;
    enum rt_status st = out ? RT_OK : r->err->code;

    for (int64_t i = 0; i < n && !st; i++) {
        const int64_t id = kn_int_at(in, i);
        if (id < 0 || (uint64_t)id >= m->n)
            return kn_sp_fail_id(r->err, id);
        const struct rt_span text = m->pieces[id].text;
        st = kn_set_text(r, &left, &out[i], (const char *)text.p, text.n);
    }
    return st;
}

const struct kn_entry kn_sentencepiece_id_to_string_op = {
    .op = {.name = "SentencepieceIdToStringOp",
           .effect = RT_READS,
           .infer = look_up_infer,
           .rows = look_up_rows},
    .kernels = KN_CPU("SentencepieceIdToStringOp", "sentencepiece_string", 0, NULL, string_run),
};

static enum rt_status id_run(struct rt_run *r)
{
    const struct kn_sp_model *m = kn_sp_model_of(r);
    const struct rt_tensor *in = &r->in[1];
    int32_t *out = m ? kn_out(r, 0, in->rank, in->dim) : NULL;
    const int64_t n = rt_tensor_count(in);
    struct kn_sp_coder c;
    bool ok = true;

    if (!out)
        return r->err->code;
    kn_sp_begin(&c, m, r);
    for (int64_t i = 0; i < n && ok; i++) {
        const struct rt_str *s = &rt_strs(in)[i];
        uint32_t id;
        ok = kn_sp_id(&c, rt_span_of(rt_str_data(s), s->n), &id) &&
             kn_sp_spend(&c, KN_STRING_WORK + 8 * (int64_t)s->n);
        if (ok)
            out[i] = (int32_t)id;
    }
    kn_sp_end(&c);
    return ok ? RT_OK : r->err->code;
}

const struct kn_entry kn_sentencepiece_string_to_id_op = {
    .op = {.name = "SentencepieceStringToIdOp",
           .effect = RT_READS,
           .infer = look_up_infer,
           .rows = look_up_rows},
    .kernels = KN_CPU("SentencepieceStringToIdOp", "sentencepiece_id", 0, NULL, id_run),
};
