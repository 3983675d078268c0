/* The ops UnicodeDecode, UnicodeDecodeWithOffsets, UnicodeEncode, UnicodeTranscode and
 * UnicodeScript. */
#include "kernels/string/each.h"
#include "kernels/string/script_table.h"
#include "kernels/string/unicode.h"

enum { COST = 8 }; /* work per character */

/* ---- attributes ---- */

struct policy { /* The treatment of malformed input and of control characters. */
    enum { REPLACE, IGNORE, STRICT } errors;
    int32_t replacement;
    bool replaces_control; /* whether characters below U+0020 are treated as malformed */
    /* whether control characters are replaced even if malformed input is an error */
    bool permits_control;
};

static enum rt_status read_policy(const struct rt_node *n, struct policy *out, struct rt_error *err)
{
    const struct rt_span errors = rt_attr_str(n, "errors");
    const int64_t replacement = rt_attr_int(n, "replacement_char");

    out->errors = rt_span_is(errors, "strict")   ? STRICT
                  : rt_span_is(errors, "ignore") ? IGNORE
                                                 : REPLACE;
    if (replacement < 0 || replacement > KN_MAX_CHAR)
        return rt_fail(err, RT_INVALID_ARGUMENT, "replacement_char out of unicode codepoint range");
    out->replacement = (int32_t)replacement;
    return RT_OK;
}

struct decoding { /* Kernel state of an op that decodes text. */
    struct kn_encoding encoding;
    struct policy policy;
    enum kn_encoding_kind to; /* output encoding of UnicodeTranscode */
};

static enum rt_status decoding_prepare(struct rt_prep *p, void **state)
{
    const struct rt_span name = rt_attr_str(p->node, "input_encoding");
    struct decoding *d = rt_prep_alloc(p, sizeof *d);

    if (!d)
        return p->err->code;
    *state = d;
    d->policy.replaces_control = rt_attr_bool(p->node, "replace_control_characters");
    const enum rt_status st = read_policy(p->node, &d->policy, p->err);
    if (st)
        return st;
    if (!kn_encoding_find(name, &d->encoding))
        return rt_fail(p->err, RT_INVALID_ARGUMENT,
                       "Could not create converter for input encoding: %.*s",
                       (int)(name.n < 200 ? name.n : 200), (const char *)name.p);
    return RT_OK;
}

static enum kn_encoding_kind output_kind(const struct rt_node *n)
{
    const struct rt_span name = rt_attr_str(n, "output_encoding");

    return rt_span_is(name, "UTF-8")       ? KN_UTF8
           : rt_span_is(name, "UTF-16-BE") ? KN_UTF16
                                           : KN_UTF32;
}

/* ---- the characters of a string ---- */

struct reader {
    struct rt_run *r;
    int64_t *left;
    const struct policy *policy;
    struct kn_encoding encoding;
    const unsigned char *begin, *p, *end;
    int64_t offset; /* offset of the character that next_char has returned */
};

static void read_string(struct reader *c, const struct rt_str *s)
{
    c->begin = c->p = (const unsigned char *)rt_str_data(s);
    c->end = c->p + s->n;
    kn_encoding_begin(&c->encoding, &c->p, c->end);
}

/* Sets *out to the next character, and returns whether there is one. Returns false with the reason
 * in *st if the run must end. */
static bool next_char(struct reader *c, int32_t *out, enum rt_status *st)
{
    const struct policy *policy = c->policy;

    while (c->p < c->end) {
        const unsigned char *next;
        int32_t v = kn_decode_char(&c->encoding, c->p, c->end, &next);
        c->offset = c->p - c->begin;
        c->p = next;
        const bool is_control = v != KN_BAD_CHAR && v < 0x20 && policy->replaces_control;
        if (policy->errors == STRICT &&
            (v == KN_BAD_CHAR || (is_control && !policy->permits_control))) {
            *st = rt_fail(c->r->err, RT_INVALID_ARGUMENT, "Invalid formatting on input string");
            return false;
        }
        if (v == KN_BAD_CHAR || is_control) {
            if (policy->errors == IGNORE) {
                *st = rt_run_spend(c->r, c->left, COST);
                if (*st)
                    return false;
                continue;
            }
            v = policy->replacement;
        }
        *out = v;
        *st = rt_run_spend(c->r, c->left, COST);
        return !*st;
    }
    return false;
}

/* ---- UnicodeDecode ---- */

/* Counts the characters of all strings. If `out` is not NULL, also writes them, and writes their
 * offsets unless `offset` is NULL. Element i + 1 of `splits` becomes the number of characters in
 * the first i + 1 strings. */
static enum rt_status decode(struct rt_run *r, struct rt_tensor *splits, int32_t *out,
                             int64_t *offset, int64_t *n)
{
    const struct decoding *d = r->state;
    int64_t left = RT_WORK;
    struct reader c = {.r = r, .left = &left, .policy = &d->policy, .encoding = d->encoding};
    enum rt_status st = RT_OK;

    *n = 0;
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]) && !st; i++) {
        int32_t v;
        read_string(&c, &rt_strs(&r->in[0])[i]);
        for (; next_char(&c, &v, &st); ++*n) {
            if (out)
                out[*n] = v;
            if (offset)
                offset[*n] = c.offset;
        }
        kn_put_int(splits, i + 1, *n);
        if (!st)
            st = kn_spend_string(r, &left, 0);
    }
    return st;
}

static enum rt_status decode_prepare(struct rt_prep *p, void **state)
{
    const enum rt_status st = decoding_prepare(p, state);

    if (!st)
        ((struct decoding *)*state)->policy.permits_control = true;
    return st;
}

static enum rt_status decode_run(struct rt_run *r)
{
    const int64_t n_splits = rt_tensor_count(&r->in[0]) + 1;
    int64_t n;

    if (!kn_out(r, 0, 1, &n_splits))
        return r->err->code;
    kn_put_int(&r->out[0], 0, 0);
    enum rt_status st = decode(r, &r->out[0], NULL, NULL, &n);
    if (st)
        return st;
    int32_t *chars = rt_out(r, 1, 1, &n);
    int64_t *offset = chars && r->n_out == 3 ? rt_out(r, 2, 1, &n) : NULL;
    if (!chars || (r->n_out == 3 && !offset))
        return r->err->code;
    return decode(r, &r->out[0], chars, offset, &n);
}

static enum rt_status decode_infer(struct rt_infer *x)
{
    if (!kn_known(x, 0))
        return RT_OK;
    const int64_t n = kn_shape_total(&x->in[0].shape);
    if (n >= 0 && n < INT64_MAX)
        kn_set_vector(&x->out[0], n + 1);
    return RT_OK;
}

#define DECODE(symbol, op_)                                                                        \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = decode_infer},                                              \
        .kernels = KN_KERNELS({.op = (op_),                                                        \
                               .device = "CPU",                                                    \
                               .name = #symbol,                                                    \
                               .prepare = decode_prepare,                                          \
                               .run = decode_run}),                                                \
    };
DECODE(unicode_decode, "UnicodeDecode")
DECODE(unicode_decode_with_offsets, "UnicodeDecodeWithOffsets")

/* ---- UnicodeTranscode ---- */

static enum rt_status transcode_prepare(struct rt_prep *p, void **state)
{
    const enum rt_status st = decoding_prepare(p, state);

    if (!st)
        ((struct decoding *)*state)->to = output_kind(p->node);
    return st;
}

/* Appends a character to a text whose memory grows in large steps. */
static bool put_char(struct rt_bytes *b, enum kn_encoding_kind kind, int32_t c)
{
    enum { STEP = 64 };

    if (b->capacity - b->n <= KN_MAX_UNITS && !rt_bytes_reserve(b, STEP))
        return false;
    b->n += kn_encode_char(kind, c, (unsigned char *)b->p + b->n);
    return true;
}

static enum rt_status transcode_run(struct rt_run *r)
{
    const struct decoding *d = r->state;
    int64_t left = RT_WORK;
    struct reader c = {.r = r, .left = &left, .policy = &d->policy, .encoding = d->encoding};
    struct rt_str *o = kn_out_strs(r);
    enum rt_status st = o ? RT_OK : r->err->code;
    struct rt_bytes text;

    kn_text_begin(&text, r);
    for (int64_t i = 0; o && i < rt_tensor_count(&r->in[0]) && !st; i++) {
        int32_t v;
        text.n = 0;
        read_string(&c, &rt_strs(&r->in[0])[i]);
        while (next_char(&c, &v, &st))
            if (!put_char(&text, d->to, v)) {
                st = kn_text_failed(&text);
                break;
            }
        if (!st)
            st = kn_set_text(r, &left, &o[i], text.p, text.n);
        if (!st)
            st = kn_spend_string(r, &left, 0);
    }
    kn_text_end(&text);
    return st;
}

const struct kn_entry kn_unicode_transcode = {
    .op = {.name = "UnicodeTranscode", .infer = kn_infer_each, .rows = rt_rows_same},
    .kernels = KN_KERNELS({.op = "UnicodeTranscode",
                           .device = "CPU",
                           .name = "unicode_transcode",
                           .prepare = transcode_prepare,
                           .run = transcode_run}),
};

/* ---- UnicodeEncode ---- */

static enum rt_status check_splits(struct rt_run *r)
{
    const struct rt_tensor *values = &r->in[0], *splits = &r->in[1];

    if (values->rank != 1 || splits->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Both the input_tensor and input_splits should be of rank 1. ");
    const int64_t n = splits->dim[0];
    if (n == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input_splits should contain elements, but given input_values has 0 "
                       "elements");
    if (kn_int_at(splits, 0) != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "First value in input_splits must be zero.");
    if (kn_int_at(splits, n - 1) != values->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Last value in input_splits must be equal to length of input_tensor.");
    for (int64_t i = 1; i < n; i++) {
        if (rt_run_tick(r, i))
            return r->err->code;
        if (kn_int_at(splits, i) < kn_int_at(splits, i - 1))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Values in input_splits must be equal or in ascending order.");
        if (kn_int_at(splits, i) > values->dim[0])
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Values in input_splits must be less than or equal to input_tensor "
                           "length.");
    }
    return RT_OK;
}

/* Appends the characters v[from], ..., v[to - 1] to the text. */
static enum rt_status encode_chars(struct rt_run *r, int64_t *left, const struct policy *policy,
                                   int64_t from, int64_t to, struct rt_bytes *text)
{
    const enum kn_encoding_kind kind = output_kind(r->node);
    const int32_t *v = r->in[0].data;

    for (int64_t i = from; i < to; i++) {
        int32_t c = v[i];
        if (c < 0 || c > KN_MAX_CHAR || kn_is_surrogate(c)) {
            if (policy->errors == STRICT)
                return rt_fail(r->err, RT_INVALID_ARGUMENT,
                               "Code point is out of range for Unicode, or is a surrogate.");
            c = policy->errors == IGNORE ? KN_BAD_CHAR : policy->replacement;
        }
        if (c != KN_BAD_CHAR && !put_char(text, kind, c))
            return kn_text_failed(text);
        if (rt_run_spend(r, left, COST))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status encode_run(struct rt_run *r)
{
    struct policy policy = {.errors = REPLACE};
    enum rt_status st = read_policy(r->node, &policy, r->err);
    struct rt_bytes text;
    int64_t left = RT_WORK;

    if (!st)
        st = check_splits(r);
    if (st)
        return st;
    const int64_t n = r->in[1].dim[0] - 1;
    struct rt_str *o = kn_out(r, 0, 1, &n);
    if (!o)
        return r->err->code;
    kn_text_begin(&text, r);
    for (int64_t i = 0; i < n && !st; i++) {
        text.n = 0;
        st = encode_chars(r, &left, &policy, kn_int_at(&r->in[1], i), kn_int_at(&r->in[1], i + 1),
                          &text);
        if (!st)
            st = kn_set_text(r, &left, &o[i], text.p, text.n);
        if (!st)
            st = kn_spend_string(r, &left, 0);
    }
    kn_text_end(&text);
    return st;
}

const struct kn_entry kn_unicode_encode = {
    .op = {.name = "UnicodeEncode"},
    .kernels = KN_KERNELS(
        {.op = "UnicodeEncode", .device = "CPU", .name = "unicode_encode", .run = encode_run}),
};

/* ---- UnicodeScript ---- */

int32_t kn_char_script(int32_t c)
{
    int least = 0, most = (int)(sizeof script_ranges / sizeof *script_ranges) - 1;

    if (c < 0 || c > KN_MAX_CHAR)
        return -1;
    while (least < most) {
        const int middle = (least + most + 1) / 2;
        if (script_ranges[middle].first <= (uint32_t)c)
            least = middle;
        else
            most = middle - 1;
    }
    return script_ranges[least].script;
}

static enum rt_status script_run(struct rt_run *r)
{
    const int32_t *in = r->in[0].data;
    int32_t *o = kn_out(r, 0, r->in[0].rank, r->in[0].dim);

    if (!o)
        return r->err->code;
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]); i++) {
        o[i] = kn_char_script(in[i]);
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

KN_EACH_STRING(unicode_script, "UnicodeScript", script_run)
