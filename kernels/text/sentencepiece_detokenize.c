/* SentencepieceDetokenizeOp of TensorFlow Text: joins pieces, given by ids or as strings, to text.
 */
#include "kernels/entry.h"
#include "kernels/string/unicode.h"
#include "kernels/text/sentencepiece.h"
#include "kernels/text/tokens.h"
#include "runtime/base/checked.h"

enum { HANDLE, VALUES, SPLITS, OPTIONS }; /* inputs */

struct detokenizer {
    struct kn_sp_coder coder; /* normalises the result */
    struct kn_sp_options options;
    struct rt_bytes text;
    struct rt_bytes bytes; /* of pieces that stand for bytes and follow each other */
};

/* ---- one piece ---- */

/* Appends the bytes that were collected. Bytes that are no UTF-8 become U+FFFD. */
static bool flush_bytes(struct detokenizer *d)
{
    const unsigned char *p = (const unsigned char *)d->bytes.p, *end = p, *next;

    if (d->bytes.n)
        end = p + d->bytes.n;
    for (; p < end; p = next) {
        const bool is_bad = kn_decode_utf8(p, end, &next) < 0;
        if (is_bad)
            next = p + 1;
        if (!kn_sp_add(&d->coder, &d->text, is_bad ? "\xef\xbf\xbd" : (const char *)p,
                       is_bad ? 3 : (size_t)(next - p)) ||
            !kn_sp_spend(&d->coder, 8))
            return false;
    }
    d->bytes.n = 0;
    return true;
}

/* Appends text in which KN_SP_SPACE becomes a space. */
static bool add_unescaped(struct detokenizer *d, struct rt_span text)
{
    enum { WINDOW = 1 << 20 }; /* bytes that are searched between two checks of the deadline */
    const size_t n = strlen(KN_SP_SPACE);

    while (text.n) {
        const size_t window = text.n < WINDOW ? text.n : WINDOW;
        const unsigned char *space = memmem(text.p, window, KN_SP_SPACE, n);
        /* KN_SP_SPACE may begin at the end of the window. */
        const size_t end = window < text.n ? window - (n - 1) : window;
        const size_t before = space ? (size_t)(space - text.p) : end;
        if (!kn_sp_spend(&d->coder, (int64_t)before) ||
            !kn_sp_add(&d->coder, &d->text, text.p, before) ||
            (space && !kn_sp_add(&d->coder, &d->text, " ", 1)))
            return false;
        text = rt_span_of(text.p + before + (space ? n : 0), text.n - before - (space ? n : 0));
    }
    return true;
}

static bool add_piece(struct detokenizer *d, struct rt_span piece, uint32_t id)
{
    const struct kn_sp_model *m = d->coder.m;
    const struct kn_sp_piece *known = &m->pieces[id];
    const size_t n_space = strlen(KN_SP_SPACE);

    if (!kn_sp_spend(&d->coder, 16 + (int64_t)piece.n))
        return false;
    if (known->type == KN_SP_BYTE) {
        const unsigned char byte = (unsigned char)kn_sp_byte(known->text);
        return kn_sp_add(&d->coder, &d->bytes, &byte, 1);
    }
    if (!flush_bytes(d))
        return false;
    if (known->type == KN_SP_CONTROL)
        return true;
    if (known->type == KN_SP_UNKNOWN) {
        const struct rt_span to = rt_span_eq(known->text, piece) ? m->unknown_surface : piece;
        return kn_sp_add(&d->coder, &d->text, to.p, to.n);
    }
    /* Spaces at the beginning of the text are dropped. */
    if (d->text.n == 0 && (m->rules.adds_space || m->rules.removes_spaces) && piece.n >= n_space &&
        memcmp(piece.p, KN_SP_SPACE, n_space) == 0)
        piece = rt_span_of(piece.p + n_space, piece.n - n_space);
    return add_unescaped(d, piece);
}

/* ---- one list of pieces ---- */

static bool add_value(struct detokenizer *d, int64_t i)
{
    const struct kn_sp_model *m = d->coder.m;
    const struct rt_tensor *values = &d->coder.r->in[VALUES];
    uint32_t id;

    if (values->dtype == RT_STRING) {
        const struct rt_str *s = &rt_strs(values)[i];
        const struct rt_span text = rt_span_of(rt_str_data(s), s->n);
        return kn_sp_id(&d->coder, text, &id) && add_piece(d, text, id);
    }
    const int64_t value = kn_int_at(values, i);
    if (value < 0 || (uint64_t)value >= m->n) {
        kn_sp_fail_id(d->coder.r->err, value);
        return false;
    }
    /* As in SentencePiece, the piece is looked up by its text again. */
    const struct rt_span text = m->pieces[value].text;
    return kn_sp_id(&d->coder, text, &id) && add_piece(d, text, id);
}

/* Reserves memory for the text of long strings, because memory that grows later would be copied
 * without a check of the deadline. */
static bool reserve(struct detokenizer *d, int64_t begin, int64_t end)
{
    const struct rt_tensor *values = &d->coder.r->in[VALUES];
    size_t n = 0;

    for (int64_t i = begin; i < end && values->dtype == RT_STRING; i++)
        if (!kn_sp_spend(&d->coder, 1))
            return false;
        else if (!rt_add_size(n, rt_strs(values)[i].n, &n))
            n = SIZE_MAX; /* which is refused */
    return kn_sp_reserve(&d->coder, &d->text, n);
}

/* Sets d->text to the text of the values from `begin` up to `end`. */
static bool join(struct detokenizer *d, int64_t begin, int64_t end)
{
    const struct kn_sp_options *o = &d->options;
    const struct kn_sp_model *m = d->coder.m;

    d->text.n = d->bytes.n = 0;
    bool ok = reserve(d, begin, end);
    if (!ok)
        return false;
    if (o->reverses ? o->adds_end : o->adds_begin)
        ok = o->reverses ? add_piece(d, m->end_piece, o->end)
                         : add_piece(d, m->begin_piece, o->begin);
    for (int64_t i = begin; i < end && ok; i++)
        ok = add_value(d, o->reverses ? end - 1 - (i - begin) : i);
    if (ok && (o->reverses ? o->adds_begin : o->adds_end))
        ok = o->reverses ? add_piece(d, m->begin_piece, o->begin)
                         : add_piece(d, m->end_piece, o->end);
    return ok && flush_bytes(d);
}

static bool detokenize(struct detokenizer *d, int64_t begin, int64_t end, struct rt_str *out)
{
    struct rt_run *r = d->coder.r;
    const struct rt_bytes *text = &d->text;

    if (!join(d, begin, end))
        return false;
    if (d->coder.m->has_undo) {
        if (!kn_sp_normalize(&d->coder, &d->coder.m->undo, false, rt_span_of(text->p, text->n)))
            return false;
        text = &d->coder.text;
    }
    return kn_set_text(r, &d->coder.left, out, text->n ? text->p : "", text->n) == RT_OK;
}

/* ---- the op ---- */

static enum rt_status check_splits(struct rt_run *r, int64_t i)
{
    const int64_t from = kn_int_at(&r->in[SPLITS], i), to = kn_int_at(&r->in[SPLITS], i + 1);
    const int64_t n = rt_tensor_count(&r->in[VALUES]);

    if (from > n)
        return rt_fail(r->err, RT_OUT_OF_RANGE,
                       "Splits and values do not match; split %lldbut values size is %lld",
                       (long long)from, (long long)n);
    if (from < 0 || to < from || to > n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "%s: row splits %lld and %lld do not fit %lld values", r->node->schema->name,
                       (long long)from, (long long)to, (long long)n);
    return RT_OK;
}

static enum rt_status detokenize_run(struct rt_run *r)
{
    const struct kn_sp_model *m = kn_sp_model_of(r);
    const int64_t n = rt_tensor_count(&r->in[SPLITS]) - 1;
    struct detokenizer d;
    enum rt_status st;

    if (!m)
        return r->err->code;
    kn_sp_begin(&d.coder, m, r);
    st = kn_sp_read_options(&d.coder, OPTIONS, &d.options);
    if (!st && n < 0)
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: input_splits must not be empty",
                     r->node->schema->name);
    struct rt_str *out = st ? NULL : kn_out(r, 0, 1, &n);
    if (!out)
        st = r->err->code;
    kn_text_begin(&d.text, r);
    kn_text_begin(&d.bytes, r);
    for (int64_t i = 0; i < n && !st; i++) {
        st = check_splits(r, i);
        if (!st && !detokenize(&d, kn_int_at(&r->in[SPLITS], i), kn_int_at(&r->in[SPLITS], i + 1),
                               &out[i]))
            st = r->err->code;
    }
    kn_text_end(&d.bytes);
    kn_text_end(&d.text);
    kn_sp_end(&d.coder);
    return st;
}

const struct kn_entry kn_sentencepiece_detokenize_op = {
    .op = {.name = "SentencepieceDetokenizeOp", .effect = RT_READS, .infer = kn_infer_joined},
    .kernels = KN_KERNELS({.op = "SentencepieceDetokenizeOp",
                           .device = "CPU",
                           .name = "sentencepiece_detokenize",
                           .run = detokenize_run}),
};
