/* FastSentencepieceTokenize and FastSentencepieceDetokenize of TensorFlow Text. */
#include "kernels/text/fast_sentencepiece.h"

#include "kernels/entry.h"
#include "kernels/text/tokens.h"
#include "runtime/base/checked.h"

#define TOKENIZE   "TFText>FastSentencepieceTokenize"
#define DETOKENIZE "TFText>FastSentencepieceDetokenize"

static struct rt_span bytes_of(const struct rt_tensor *t)
{
    return rt_span_of(t->data, (size_t)rt_tensor_count(t));
}

/* ---- tokenizing ---- */

enum { MODEL, STRINGS, ADDS_BEGIN = 4, ADDS_END, REVERSES };

struct tokenizer {
    struct kn_fast_sp_model model;
    struct kn_sp_coder coder;
    struct rt_bytes ids, splits; /* arrays of int32_t */
    bool adds_begin, adds_end, reverses;
};

static bool add_id(struct tokenizer *t, int32_t id)
{
    return kn_sp_add(&t->coder, &t->ids, &id, sizeof id);
}

/* Adds the ids of a string. The encoder yields the last piece first. */
static bool add_row(struct tokenizer *t, const struct rt_str *s)
{
    struct kn_sp_coder *c = &t->coder;

    if (!kn_fast_sp_encode(c, &t->model, rt_span_of(rt_str_data(s), s->n)))
        return false;
    const struct kn_sp_part *p = (const struct kn_sp_part *)(const void *)c->parts.p;
    const size_t n = c->parts.n / sizeof *p;
    if (t->reverses ? t->adds_end : t->adds_begin)
        if (!add_id(t, t->reverses ? t->model.end : t->model.begin))
            return false;
    for (size_t i = 0; i < n; i++)
        if (!add_id(t, (int32_t)p[t->reverses ? i : n - 1 - i].id) || !kn_sp_tick(c, i))
            return false;
    if (t->reverses ? t->adds_begin : t->adds_end)
        if (!add_id(t, t->reverses ? t->model.begin : t->model.end))
            return false;
    const int32_t end = (int32_t)(t->ids.n / sizeof end);
    return kn_sp_add(c, &t->splits, &end, sizeof end) && kn_sp_spend(c, (int64_t)(16 + n));
}

static enum rt_status read_flag(struct rt_run *r, int k, bool *out)
{
    *out = kn_int_at(&r->in[k], 0) != 0;
    if (rt_tensor_count(&r->in[k]) == 1)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: input %d must be one bool, not %s",
                   r->node->schema->name, k, KN_TEXT(&r->in[k]));
}

static enum rt_status emit(struct rt_run *r, const struct tokenizer *t)
{
    const int64_t n = (int64_t)(t->ids.n / sizeof(int32_t)),
                  n_splits = (int64_t)(t->splits.n / sizeof(int32_t)) + 1;
    int32_t *ids = kn_out(r, 0, 1, &n), *splits = ids ? kn_out(r, 1, 1, &n_splits) : NULL;

    if (!splits)
        return r->err->code;
    enum rt_status st = n ? kn_copy_run(r, RT_I32, ids, t->ids.p, n) : RT_OK;
    splits[0] = 0;
    if (!st && n_splits > 1)
        st = kn_copy_run(r, RT_I32, splits + 1, t->splits.p, n_splits - 1);
    return st;
}

static enum rt_status tokenize_run(struct rt_run *r)
{
    const int64_t n = rt_tensor_count(&r->in[STRINGS]);
    struct tokenizer t;
    const char *why = kn_fast_sp_open(bytes_of(&r->in[MODEL]), &t.model);
    enum rt_status st = read_flag(r, ADDS_BEGIN, &t.adds_begin);

    if (!st)
        st = read_flag(r, ADDS_END, &t.adds_end);
    if (!st)
        st = read_flag(r, REVERSES, &t.reverses);
    if (!st && why && n > 0)
        st = rt_fail(r->err, RT_INTERNAL,
                     "Sentencepiece conversion failed: the model of " TOKENIZE " %s", why);
    if (!st && (r->node->out_dtype[0] != RT_I32 || r->node->out_dtype[1] != RT_I32))
        st = rt_fail(r->err, RT_UNIMPLEMENTED, TOKENIZE ": only int32 results are supported");
    if (st)
        return st;
    kn_sp_begin(&t.coder, NULL, r);
    kn_text_begin(&t.ids, r);
    kn_text_begin(&t.splits, r);
    for (int64_t i = 0; i < n && !st; i++)
        if (!add_row(&t, &rt_strs(&r->in[STRINGS])[i]))
            st = r->err->code;
    if (!st)
        st = emit(r, &t);
    kn_text_end(&t.splits);
    kn_text_end(&t.ids);
    kn_sp_end(&t.coder);
    return st;
}

const struct kn_entry kn_tf_text_fast_sentencepiece_tokenize = {
    .op = {.name = TOKENIZE},
    .kernels = KN_KERNELS({.op = TOKENIZE,
                           .device = "CPU",
                           .name = "fast_sentencepiece_tokenize",
                           .run = tokenize_run}),
};

/* ---- detokenizing ---- */

enum { VALUES = 1, SPLITS };
/* Numbers of the fields in the model's table. */
enum { FIELD_VERSION, FIELD_OFFSET, FIELD_PIECES, FIELD_REMOVES_SPACE = 5 };

struct pieces {
    struct kn_flat_table table;
    struct kn_vector strings;
    uint32_t offset;    /* of the ids */
    bool removes_space; /* whether a space at the beginning of the text is removed */
};

static bool open_pieces(struct rt_span bytes, struct pieces *p)
{
    uint32_t version = 0, removes_space = 0;
    const bool ok = kn_flat_open(bytes, &p->table) &&
                    kn_flat_number(&p->table, FIELD_VERSION, 1, &version) &&
                    kn_flat_number(&p->table, FIELD_OFFSET, sizeof p->offset, &p->offset) &&
                    kn_flat_vector(&p->table, FIELD_PIECES, sizeof(uint32_t), &p->strings) &&
                    kn_flat_number(&p->table, FIELD_REMOVES_SPACE, 1, &removes_space);

    p->removes_space = removes_space != 0;
    return ok && version == 0;
}

static enum rt_status fail_piece(struct rt_run *r)
{
    return rt_fail(r->err, RT_INTERNAL, "Sentencepiece conversion failed");
}

/* Sets c->text to the text of the values from `begin` up to `end`. */
static enum rt_status join(struct kn_sp_coder *c, const struct pieces *p, int64_t begin,
                           int64_t end)
{
    struct rt_run *r = c->r;

    c->text.n = 0;
    for (int64_t i = begin; i < end; i++) {
        const uint32_t id = (uint32_t)kn_int_at(&r->in[VALUES], i) - p->offset;
        struct rt_span text;
        if (id >= p->strings.n || !kn_flat_string(&p->table, &p->strings, id, &text))
            return fail_piece(r);
        if (!kn_sp_until_nul(c, text, &text))
            return r->err->code;
        if (i == begin && p->removes_space && text.n && *text.p == ' ')
            text = rt_span_of(text.p + 1, text.n - 1);
        if (!kn_sp_add(c, &c->text, text.p, text.n) || !kn_sp_spend(c, 16 + (int64_t)text.n))
            return r->err->code;
    }
    return RT_OK;
}

/* As in TensorFlow Text, only the lengths of the rows count: the first row begins with the first
 * value. */
static enum rt_status detokenize(struct rt_run *r, const struct pieces *p, struct rt_str *out,
                                 int64_t n)
{
    const int64_t n_values = rt_tensor_count(&r->in[VALUES]);
    struct kn_sp_coder c;
    enum rt_status st = RT_OK;
    int64_t at = 0;

    kn_sp_begin(&c, NULL, r);
    for (int64_t i = 0; i < n && !st; i++) {
        const int64_t from = kn_int_at(&r->in[SPLITS], i), to = kn_int_at(&r->in[SPLITS], i + 1);
        int64_t size;
        if (!rt_sub(to, from, &size) || size < 0 || size > n_values - at) {
            st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                         DETOKENIZE ": row splits %lld and %lld do not fit %lld values",
                         (long long)from, (long long)to, (long long)n_values);
            break;
        }
        st = join(&c, p, at, at + size);
        if (!st)
            st = kn_set_text(r, &c.left, &out[i], c.text.n ? c.text.p : "", c.text.n);
        at += size;
    }
    kn_sp_end(&c);
    return st;
}

static enum rt_status detokenize_run(struct rt_run *r)
{
    const int64_t n = rt_tensor_count(&r->in[SPLITS]) - 1;
    struct pieces p = {.offset = 0};

    if (n < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, DETOKENIZE ": input_splits is empty");
    if (n > 0 && !open_pieces(bytes_of(&r->in[MODEL]), &p))
        return rt_fail(r->err, RT_INTERNAL,
                       "Sentencepiece conversion failed: the model of " DETOKENIZE
                       " is malformed or has another version");
    struct rt_str *out = kn_out(r, 0, 1, &n);
    return out ? detokenize(r, &p, out, n) : r->err->code;
}

const struct kn_entry kn_tf_text_fast_sentencepiece_detokenize = {
    .op = {.name = DETOKENIZE, .infer = kn_infer_joined},
    .kernels = KN_KERNELS({.op = DETOKENIZE,
                           .device = "CPU",
                           .name = "fast_sentencepiece_detokenize",
                           .run = detokenize_run}),
};
