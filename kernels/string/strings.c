/* The ops StringLength, StringStrip and Substr, which compute lengths, remove white space and
 * extract substrings. */
#include "kernels/string/each.h"
#include "kernels/math/elementwise.h"

#include <ctype.h>

static bool is_utf8_unit(const struct rt_node *n)
{
    return rt_span_is(rt_attr_str(n, "unit"), "UTF8_CHAR");
}

/* Returns whether a byte begins a character. Every byte does, even a malformed one, except UTF-8
 * continuation bytes. */
static bool begins_char(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
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
        if (kn_spend_string(r, &left, utf8 ? s->n : 0))
            return r->err->code;
        o[i] = (int32_t)s->n;
        if (utf8) {
            o[i] = 0;
            for (size_t k = 0; k < s->n; k++)
                o[i] += begins_char(rt_str_data(s)[k]);
        }
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
        if (kn_spend_string(r, &left, n))
            return r->err->code;
        while (n && isspace((unsigned char)*p)) {
            p++;
            n--;
        }
        while (n && isspace((unsigned char)p[n - 1]))
            n--;
        if (!rt_str_set(&o[i], rt_run_pool(r), p, n, r->err))
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

/* Sets *at to the offset of character `pos` of s. A negative `pos` counts from the end. Returns
 * false if there is no such character. */
static bool char_offset(const char *s, size_t n, int64_t pos, size_t *at)
{
    if (pos < 0) {
        int64_t count = 0;
        for (size_t i = 0; i < n; i++)
            count += begins_char(s[i]);
        pos += count;
        if (pos < 0)
            return false;
    }
    size_t i = 0;
    for (; pos > 0; pos--) {
        if (i >= n)
            return false;
        do
            i++;
        while (i < n && !begins_char(s[i]));
    }
    *at = i;
    return true;
}

static enum rt_status substr_one(struct rt_run *r, const struct rt_str *s, int64_t pos, int64_t len,
                                 bool utf8, int64_t i, struct rt_str *out)
{
    const char *p = rt_str_data(s);
    const int64_t n = (int64_t)s->n;
    size_t from = 0, to = 0;

    if (utf8) {
        /* With UTF-8, but not with bytes, TensorFlow selects nothing if the length is negative, and
         * refuses a negative length with a negative position. */
        if ((pos < 0 && len < 0) || !char_offset(p, s->n, pos, &from))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "pos %lld out of range for string at index %lld", (long long)pos,
                           (long long)i);
        to = from;
        if (len > 0 && !char_offset(p + from, s->n - from, len, &to))
            to = s->n;
        else if (len > 0)
            to += from;
    } else {
        if (pos > n || pos < -n)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "pos %lld out of range for string b'%.*s' at index %lld", (long long)pos,
                           (int)(n < 200 ? n : 200), p, (long long)i);
        from = (size_t)(pos < 0 ? pos + n : pos);
        /* A negative length selects the rest of the string. */
        to = len < 0 || len > n - (int64_t)from ? s->n : from + (size_t)len;
    }
    return rt_str_set(out, rt_run_pool(r), p + from, to - from, r->err) ? RT_OK : r->err->code;
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
                        utf8, k, to);
        if (!st)
            st = kn_spend_string(r, &left, utf8 ? rt_strs(in)[at.a].n : to->n);
    }
    return st;
}

const struct kn_entry kn_substr = {
    .op = {.name = "Substr", .infer = substr_infer, .rows = rt_rows_each},
    .kernels = KN_CPU("Substr", "substr", 0, NULL, substr_run),
};
