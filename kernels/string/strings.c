/* The ops StringLength, StringStrip and Substr, which compute lengths, remove white space and
 * extract substrings. */
#include "kernels/string/each.h"
#include "kernels/math/elementwise.h"

static bool is_utf8_unit(const struct rt_node *n)
{
    return rt_span_is(rt_attr_str(n, "unit"), "UTF8_CHAR");
}

/* Returns whether a byte begins a character. Every byte but a UTF-8 continuation byte does, even if
 * it is malformed. */
static bool begins_char(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

/* Adds the number of characters that begin in the n bytes at `s` to *count. */
static enum rt_status count_chars(struct rt_run *r, int64_t *left, const char *s, size_t n,
                                  int64_t *count)
{
    enum rt_status st = RT_OK;

    for (size_t some; n && !st; n -= some, s += some) {
        some = kn_text_chunk(n);
        for (size_t i = 0; i < some; i++)
            *count += begins_char(s[i]);
        st = rt_run_spend(r, left, (int64_t)some);
    }
    return st;
}

/* ---- StringLength ---- */

static enum rt_status length_run(struct rt_run *r)
{
    const bool utf8 = is_utf8_unit(r->node);
    int32_t *o = kn_out(r, 0, r->in[0].rank, r->in[0].dim);

    int64_t left = RT_WORK;

    if (!o)
        return r->err->code;
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]); i++) {
        const struct rt_str *s = &rt_strs(&r->in[0])[i];
        int64_t n = 0;
        if (kn_spend_string(r, &left, 0) ||
            (utf8 && count_chars(r, &left, rt_str_data(s), s->n, &n)))
            return r->err->code;
        o[i] = (int32_t)(utf8 ? (size_t)n : s->n);
    }
    return RT_OK;
}

KN_EACH_STRING(string_length, "StringLength", length_run)

/* ---- StringStrip ---- */

static enum rt_status strip_run(struct rt_run *r)
{
    struct rt_str *o = kn_out_strs(r);
    int64_t left = RT_WORK;

    if (!o)
        return r->err->code;
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]); i++) {
        const char *p = rt_str_data(&rt_strs(&r->in[0])[i]);
        size_t n = rt_strs(&r->in[0])[i].n;
        if (kn_spend_string(r, &left, 0) || kn_strip(r, &left, &p, &n) ||
            kn_set_text(r, &left, &o[i], p, n))
            return r->err->code;
    }
    return RT_OK;
}

KN_EACH_STRING(string_strip, "StringStrip", strip_run)

/* ---- Substr(input, pos, len) ---- */

static enum rt_status substr_infer(struct rt_infer *x)
{
    if (!kn_known(x, 0))
        return RT_OK;
    const struct rt_shape *p = &x->in[1].shape, *l = &x->in[2].shape;
    if (!kn_shape_eq(p, l))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "pos and len should have the same shape, got: %s vs. %s", KN_TEXT(p),
                       KN_TEXT(l));
    return kn_broadcast(&x->out[0].shape, &x->in[0].shape, p, x->err);
}

/* Sets *at to the offset of character `pos` of s, or to SIZE_MAX if there is no such character. A
 * negative `pos` counts from the end. */
static enum rt_status char_offset(struct rt_run *r, int64_t *left, const char *s, size_t n,
                                  int64_t pos, size_t *at)
{
    enum rt_status st = RT_OK;
    size_t i = 0;

    *at = SIZE_MAX;
    if (pos < 0) {
        int64_t count = 0;
        st = count_chars(r, left, s, n, &count);
        pos += count;
        if (st || pos < 0)
            return st;
    }
    for (; pos > 0; pos--) {
        if (i >= n)
            return RT_OK;
        do
            if (++i % KN_TEXT_CHUNK == 0 && (st = rt_run_spend(r, left, 2 * KN_TEXT_CHUNK)))
                return st;
        while (i < n && !begins_char(s[i]));
    }
    *at = i;
    return RT_OK;
}

static enum rt_status substr_one(struct rt_run *r, const struct rt_str *s, int64_t pos, int64_t len,
                                 bool utf8, int64_t i, struct rt_str *out, int64_t *left)
{
    const char *p = rt_str_data(s);
    const int64_t n = (int64_t)s->n;
    size_t from = 0, to = 0;

    if (utf8) {
        /* As in TensorFlow, a negative length in UTF-8 characters selects an empty string, or is an
         * error if the position is also negative. */
        const bool is_refused = pos < 0 && len < 0;
        enum rt_status st = is_refused ? RT_OK : char_offset(r, left, p, s->n, pos, &from);
        if (st)
            return st;
        if (is_refused || from == SIZE_MAX)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "pos %lld out of range for string at index %lld", (long long)pos,
                           (long long)i);
        if (len > 0) {
            st = char_offset(r, left, p + from, s->n - from, len, &to);
            if (st)
                return st;
            to = to == SIZE_MAX ? s->n : from + to;
        } else {
            to = from;
        }
    } else {
        if (pos > n || pos < -n)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "pos %lld out of range for string b'%.*s' at index %lld", (long long)pos,
                           (int)(n < 200 ? n : 200), p, (long long)i);
        from = (size_t)(pos < 0 ? pos + n : pos);
        /* A negative length selects the rest of the string. */
        to = len < 0 || len > n - (int64_t)from ? s->n : from + (size_t)len;
    }
    return kn_set_text(r, left, out, p + from, to - from);
}

static enum rt_status substr_run(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[0], *pos = &r->in[1];
    const bool utf8 = is_utf8_unit(r->node);
    enum rt_status st = kn_outputs(r, substr_infer);
    struct kn_pairs at;
    int64_t left = RT_WORK;

    if (st)
        return st;
    struct rt_tensor *o = &r->out[0];
    const int64_t n = rt_tensor_count(o);
    kn_pairs_begin(&at, o, in, pos);
    for (int64_t k = 0; k < n && !st; k++, kn_pairs_next(&at)) {
        struct rt_str *to = (struct rt_str *)o->data + k;
        st = substr_one(r, &rt_strs(in)[at.a], kn_int_at(pos, at.b), kn_int_at(&r->in[2], at.b),
                        utf8, k, to, &left);
        if (!st)
            st = kn_spend_string(r, &left, utf8 ? rt_strs(in)[at.a].n : 0);
    }
    return st;
}

const struct kn_entry kn_substr = {
    .op = {.name = "Substr", .infer = substr_infer, .rows = rt_rows_each},
    .kernels = KN_CPU("Substr", "substr", 0, NULL, substr_run),
};

/* ---- Fact ---- */

static enum rt_status fact_infer(struct rt_infer *x)
{
    x->out[0].shape.rank = 0;
    return RT_OK;
}

/* Writes the text that TensorFlow's op returns on every processor. */
static enum rt_status fact_run(struct rt_run *r)
{
    static const char text[] = "0! == 1";
    struct rt_str *to = kn_out(r, 0, 0, NULL);

    return to && rt_str_set(to, rt_run_pool(r), text, sizeof text - 1, r->err) ? RT_OK
                                                                               : r->err->code;
}

const struct kn_entry kn_fact = {
    .op = {.name = "Fact", .infer = fact_infer},
    .kernels = KN_CPU("Fact", "fact", 0, NULL, fact_run),
};
