/* Ops from strings to strings and numbers: lengths, substrings, joins, hashes, numbers as text,
 * Base64. */
#include "kernels/array/array.h"
#include "kernels/math/elementwise.h"
#include "kernels/string/farmhash.h"
#include "kernels/string/parse.h"
#include "kernels/string/summary.h"
#include "kernels/string/text.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

/* Counts the work on one string of `bytes` bytes. */
static enum rt_status spend(struct rt_run *r, int64_t *left, size_t bytes)
{
    return rt_run_spend(r, left, KN_STRING_WORK + (int64_t)bytes);
}

static enum rt_status copy_shape(struct rt_infer *x)
{
    for (int k = 0; k < x->n_out; k++)
        x->out[k].shape = x->in[0].shape;
    return RT_OK;
}

static struct rt_str *out_strs(struct rt_run *r)
{
    return kn_out(r, 0, r->in[0].rank, r->in[0].dim);
}

/* Entry of an op that makes one value of each string; the output has the shape of the input. */
#define EACH(symbol, op_, run_)                                                                    \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = copy_shape, .rows = rt_rows_same},                          \
        .kernels = KN_KERNELS({.op = (op_), .device = "CPU", .name = #symbol, .run = (run_)}),     \
    };

static bool is_utf8_unit(const struct rt_node *n)
{
    return rt_span_is(rt_attr_str(n, "unit"), "UTF8_CHAR");
}

/* UTF-8 continuation bytes do not begin a character; every other byte does, including malformed
 * ones. */
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
        if (spend(r, &left, utf8 ? s->n : 0))
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

EACH(string_length, "StringLength", length_run)

/* ---- StringStrip ---- */

static enum rt_status strip_run(struct rt_run *r)
{
    struct rt_str *o = out_strs(r);
    int64_t left = RT_WORK;

    if (!o)
        return r->err->code;
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]); i++) {
        const char *p = rt_str_data(&rt_strs(&r->in[0])[i]);
        size_t n = rt_strs(&r->in[0])[i].n;
        if (spend(r, &left, n))
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

EACH(string_strip, "StringStrip", strip_run)

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

/* *at: offset of character `pos` of s; a negative `pos` counts from the end. False: no such
 * character. */
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
        if (!char_offset(p, s->n, pos, &from))
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
        /* a negative length means the rest of the string */
        to = len < 0 || len > n - (int64_t)from ? s->n : from + (size_t)len;
    }
    if (utf8 && len < 0)
        to = s->n;
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
            st = spend(r, &left, utf8 ? rt_strs(in)[at.a].n : to->n);
    }
    return st;
}

const struct kn_entry kn_substr = {
    .op = {.name = "Substr", .infer = substr_infer, .rows = rt_rows_each},
    .kernels = KN_CPU("Substr", "substr", 0, NULL, substr_run),
};

/* ---- StringJoin ---- */

static enum rt_status join_infer(struct rt_infer *x)
{
    const struct rt_shape *s = NULL;

    if (!kn_known(x, 0))
        return RT_OK;
    x->out[0].shape.rank = 0;
    for (int k = 0; k < x->n_in; k++) {
        const struct rt_shape *k_shape = &x->in[k].shape;
        if (k_shape->rank == 0)
            continue;
        if (s && !kn_shape_eq(s, k_shape))
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "Input shapes do not match: %s vs. %s",
                           KN_TEXT(s), KN_TEXT(k_shape));
        s = k_shape;
        x->out[0].shape = *s;
    }
    return RT_OK;
}

static enum rt_status join_run(struct rt_run *r)
{
    const struct rt_span sep = rt_attr_str(r->node, "separator");
    enum rt_status st = kn_outputs(r, join_infer);
    int64_t left = RT_WORK;

    if (st)
        return st;
    for (int64_t i = 0; i < rt_tensor_count(&r->out[0]); i++) {
        size_t n = r->n_in ? sep.n * (size_t)(r->n_in - 1) : 0;
        for (int k = 0; k < r->n_in; k++)
            n += rt_strs(&r->in[k])[r->in[k].rank ? i : 0].n;
        if (spend(r, &left, n + (size_t)r->n_in))
            return r->err->code;
        char *p = rt_str_resize((struct rt_str *)r->out[0].data + i, rt_run_pool(r), n, r->err);
        if (!p)
            return r->err->code;
        for (int k = 0; k < r->n_in; k++) {
            const struct rt_str *s = &rt_strs(&r->in[k])[r->in[k].rank ? i : 0];
            if (k && sep.n) {
                memcpy(p, sep.p, sep.n);
                p += sep.n;
            }
            memcpy(p, rt_str_data(s), s->n);
            p += s->n;
        }
    }
    return RT_OK;
}

const struct kn_entry kn_string_join = {
    .op = {.name = "StringJoin", .infer = join_infer, .rows = rt_rows_each},
    .kernels = KN_CPU("StringJoin", "string_join", 0, NULL, join_run),
};

/* ---- ReduceJoin(inputs, reduction_indices) ---- */

static enum rt_status reduce_axes(const struct rt_tensor *t, int rank, int *axis, int *n_axis,
                                  struct rt_error *err)
{
    unsigned seen = 0;

    *n_axis = 0;
    for (int64_t i = 0; i < rt_tensor_count(t); i++) {
        const int64_t a = kn_int_at(t, i);
        if (a < -rank || a >= rank)
            return rt_fail(err, RT_OUT_OF_RANGE,
                           "Invalid reduction dimension %lld for input with %d dimension(s)",
                           (long long)a, rank);
        const int at = (int)(a < 0 ? a + rank : a);
        if (seen >> at & 1)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Duplicate reduction dimension %lld",
                           (long long)a);
        seen |= 1u << at;
        axis[(*n_axis)++] = at;
    }
    return RT_OK;
}

static enum rt_status reduce_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    int axis[RT_MAX_RANK], n_axis;
    unsigned reduced = 0;

    if (!kn_known(x, 2))
        return RT_OK;
    enum rt_status st = reduce_axes(x->in[1].value, in->rank, axis, &n_axis, x->err);
    if (st)
        return st;
    for (int i = 0; i < n_axis; i++)
        reduced |= 1u << axis[i];
    x->out[0].shape.rank = 0;
    for (int i = 0; i < in->rank; i++) {
        if (!(reduced >> i & 1))
            x->out[0].shape.dim[x->out[0].shape.rank++] = in->dim[i];
        else if (rt_attr_bool(x->node, "keep_dims"))
            x->out[0].shape.dim[x->out[0].shape.rank++] = 1;
    }
    return RT_OK;
}

/* The elements that ReduceJoin joins into one string; the index of the first axis changes
 * fastest. */
struct joined {
    struct rt_span separator;
    int rank;
    int64_t n, dim[RT_MAX_RANK], stride[RT_MAX_RANK];
};

static const struct rt_str *next_joined(const struct rt_run *r, const struct joined *j,
                                        int64_t base, int64_t *in)
{
    int64_t from = base;

    for (int i = 0; i < j->rank; i++)
        from += in[i] * j->stride[i];
    for (int i = 0; i < j->rank && ++in[i] == j->dim[i]; i++)
        in[i] = 0;
    return &rt_strs(&r->in[0])[from];
}

/* Adds up the lengths first, so that the output string is allocated once. */
static enum rt_status join_one(struct rt_run *r, int64_t base, const struct joined *j,
                               struct rt_str *out, int64_t *left)
{
    int64_t in[RT_MAX_RANK] = {0};
    size_t n = 0;

    for (int64_t i = 0; i < j->n; i++) {
        n += next_joined(r, j, base, in)->n + (i ? j->separator.n : 0);
        if (rt_run_spend(r, left, KN_STRING_WORK))
            return r->err->code;
    }
    char *p = rt_str_resize(out, rt_run_pool(r), n, r->err);
    if (!p)
        return r->err->code;
    for (int64_t i = 0; i < j->n; i++) {
        const struct rt_str *s = next_joined(r, j, base, in);
        if (i && j->separator.n) {
            memcpy(p, j->separator.p, j->separator.n);
            p += j->separator.n;
        }
        memcpy(p, rt_str_data(s), s->n);
        p += s->n;
        if (spend(r, left, s->n))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status reduce_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    struct joined j = {.separator = rt_attr_str(r->node, "separator"), .n = 1};
    int axis[RT_MAX_RANK], n_axis, kept[RT_MAX_RANK], n_kept = 0;
    int64_t stride[RT_MAX_RANK], at[RT_MAX_RANK] = {0};
    unsigned reduced = 0;
    int64_t left = RT_WORK;
    enum rt_status st = reduce_axes(&r->in[1], t->rank, axis, &n_axis, r->err);

    if (st || (st = kn_outputs(r, reduce_infer)))
        return st;
    kn_strides(t->rank, t->dim, stride);
    for (int i = 0; i < n_axis; i++) {
        reduced |= 1u << axis[i];
        j.dim[i] = t->dim[axis[i]];
        j.stride[i] = stride[axis[i]];
        if (!rt_mul(j.n, j.dim[i], &j.n))
            j.n = 0; /* the input exists, so another of its dimensions is 0 */
    }
    j.rank = n_axis;
    for (int i = 0; i < t->rank; i++)
        if (!(reduced >> i & 1))
            kept[n_kept++] = i;
    if (rt_tensor_count(t) == 0) /* the strings of the output, if any, stay empty */
        return RT_OK;
    for (int64_t k = 0; k < rt_tensor_count(&r->out[0]) && !st; k++) {
        int64_t base = 0;
        for (int i = 0; i < n_kept; i++)
            base += at[i] * stride[kept[i]];
        st = join_one(r, base, &j, (struct rt_str *)r->out[0].data + k, &left);
        for (int i = n_kept - 1; i >= 0 && ++at[i] == t->dim[kept[i]]; i--)
            at[i] = 0;
    }
    return st;
}

static void reduce_rows(struct rt_rows *r)
{
    int axis[RT_MAX_RANK], n_axis, out = r->in_dep[0].axis;

    if (kn_rows_independent(r) || r->in_dep[0].kind != RT_DEP_ROWS || !kn_rows_free(r, 1) ||
        !r->in[1].value || r->in[0].shape.rank < 0 ||
        reduce_axes(r->in[1].value, r->in[0].shape.rank, axis, &n_axis, NULL))
        return;
    for (int i = 0; i < n_axis; i++) {
        if (axis[i] == r->in_dep[0].axis)
            return;
        out -= axis[i] < r->in_dep[0].axis && !rt_attr_bool(r->node, "keep_dims");
    }
    kn_rows_set(r, RT_DEP_ROWS, out);
}

const struct kn_entry kn_reduce_join = {
    .op = {.name = "ReduceJoin", .shape_in = 2, .infer = reduce_infer, .rows = reduce_rows},
    .kernels = KN_CPU("ReduceJoin", "reduce_join", 0, NULL, reduce_run),
};

/* ---- hashes into buckets ---- */

static enum rt_status buckets(struct rt_run *r, int kind)
{
    const uint64_t n = (uint64_t)rt_attr_int(r->node, "num_buckets");
    int64_t *o = kn_out(r, 0, r->in[0].rank, r->in[0].dim);
    uint64_t key[2] = {0, 0};
    const int64_t *v;
    int64_t left = RT_WORK;

    if (!o)
        return r->err->code;
    if (n == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "num_buckets must be positive");
    if (kind == 2) {
        if (rt_attr_ints(r->node, "key", &v) != 2)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Key must have 2 elements");
        key[0] = (uint64_t)v[0];
        key[1] = (uint64_t)v[1];
    }
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]); i++) {
        const struct rt_str *s = &rt_strs(&r->in[0])[i];
        const char *p = rt_str_data(s);
        if (spend(r, &left, s->n))
            return r->err->code;
        const uint64_t h = kind == 0   ? kn_fingerprint64(p, s->n)
                           : kind == 1 ? kn_murmur64(p, s->n, UINT64_C(0xDECAFCAFFE))
                                       : kn_sip_hash(key, p, s->n);
        o[i] = (int64_t)(h % n);
    }
    return RT_OK;
}

static enum rt_status fast_run(struct rt_run *r)
{
    return buckets(r, 0);
}

static enum rt_status old_run(struct rt_run *r)
{
    return buckets(r, 1);
}

static enum rt_status strong_run(struct rt_run *r)
{
    return buckets(r, 2);
}

EACH(string_to_hash_bucket_fast, "StringToHashBucketFast", fast_run)
EACH(string_to_hash_bucket, "StringToHashBucket", old_run)
EACH(string_to_hash_bucket_strong, "StringToHashBucketStrong", strong_run)

/* ---- StringToNumber ---- */

static bool to_number(const struct rt_str *s, struct rt_tensor *o, int64_t i)
{
    const char *p = rt_str_data(s);
    int64_t v;

    switch (kn_dtype(o)) {
    case RT_F32:
        return kn_parse_float(p, s->n, (float *)o->data + i);
    case RT_F64:
        return kn_parse_double(p, s->n, (double *)o->data + i);
    case RT_U64:
        return kn_parse_u64(p, s->n, (uint64_t *)o->data + i);
    case RT_I64:
        return kn_parse_i64(p, s->n, (int64_t *)o->data + i);
    case RT_U32:
        if (!kn_parse_i64(p, s->n, &v) || v < 0 || v > UINT32_MAX)
            return false;
        ((uint32_t *)o->data)[i] = (uint32_t)v;
        return true;
    default:
        if (!kn_parse_i64(p, s->n, &v) || v != (int32_t)v)
            return false;
        ((int32_t *)o->data)[i] = (int32_t)v;
        return true;
    }
}

static enum rt_status number_run(struct rt_run *r)
{
    int64_t left = RT_WORK;

    if (!kn_out(r, 0, r->in[0].rank, r->in[0].dim))
        return r->err->code;
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]); i++) {
        const struct rt_str *s = &rt_strs(&r->in[0])[i];
        if (spend(r, &left, s->n))
            return r->err->code;
        if (!to_number(s, &r->out[0], i))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "StringToNumberOp could not correctly convert string: %.*s",
                           (int)(s->n < 300 ? s->n : 300), rt_str_data(s));
    }
    return RT_OK;
}

EACH(string_to_number, "StringToNumber", number_run)

/* ---- AsString ---- */

struct as_string {
    char format[16]; /* "%-10.3f", without length modifiers */
    int precision, width;
};

static enum rt_status format_of(struct rt_run *r, struct as_string *f)
{
    const enum rt_dtype dt = kn_dtype(&r->in[0]);
    const int64_t precision = rt_attr_int(r->node, "precision");
    const int64_t width = rt_attr_int(r->node, "width");
    const bool sci = rt_attr_bool(r->node, "scientific");
    const bool shortest = rt_attr_bool(r->node, "shortest");
    const struct rt_span fill = rt_attr_str(r->node, "fill");
    /* For strings the precision is the limit of bytes written, as in printf. */
    const bool has_precision =
        dt == RT_STRING || (KN_SET(KN_FLOATS) | KN_SET(KN_HALFS) | KN_SET(KN_COMPLEX)) >> dt & 1;

    if (fill.n > 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Fill string must be one or fewer characters");
    if (fill.n && !memchr(" +-0#", fill.p[0], 5)) /* strchr would find a NUL */
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Fill argument not supported: \"%c\"",
                       fill.p[0]);
    if (sci && shortest)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Cannot select both scientific and shortest notation");
    if (!has_precision && (sci || shortest))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "scientific and shortest format not supported for datatype %s",
                       rt_dtype_name(dt));
    if (!has_precision && precision > -1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "precision not supported for datatype %s",
                       rt_dtype_name(dt));
    if (precision > 1000 || width > 10000)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "AsString: precision or width is too large");
    f->precision = (int)(precision > -1 ? precision : -1);
    f->width = (int)(width > -1 ? width : 0);
    snprintf(f->format, sizeof f->format, "%%%.*s*.*%c", (int)fill.n,
             fill.n ? (const char *)fill.p : "",
             sci        ? 'e'
             : shortest ? 'g'
                        : 'f');
    return RT_OK;
}

/* Writes one value with the flags of f->format. Returns the length of the text, which may exceed
 * n. */
static int put_integer(char *buf, size_t n, const struct as_string *f, char flag, int64_t i,
                       uint64_t u, bool is_unsigned)
{
    switch (flag) {
    case '-':
        return is_unsigned ? snprintf(buf, n, "%-*" PRIu64, f->width, u)
                           : snprintf(buf, n, "%-*" PRId64, f->width, i);
    case '+':
        return is_unsigned ? snprintf(buf, n, "%*" PRIu64, f->width, u)
                           : snprintf(buf, n, "%+*" PRId64, f->width, i);
    case '0':
        return is_unsigned ? snprintf(buf, n, "%0*" PRIu64, f->width, u)
                           : snprintf(buf, n, "%0*" PRId64, f->width, i);
    case ' ':
        return is_unsigned ? snprintf(buf, n, "%*" PRIu64, f->width, u)
                           : snprintf(buf, n, "% *" PRId64, f->width, i);
    default:
        return is_unsigned ? snprintf(buf, n, "%*" PRIu64, f->width, u)
                           : snprintf(buf, n, "%*" PRId64, f->width, i);
    }
}

/* put_double's format is built in format_of from a fixed set of letters. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static int put_double(char *buf, size_t n, const struct as_string *f, double d)
{
    return snprintf(buf, n, f->format, f->width, f->precision, d);
}
#pragma GCC diagnostic pop

static int put_element(char *buf, size_t n, const struct as_string *f, char flag,
                       const struct rt_tensor *t, int64_t i)
{
    switch (kn_dtype(t)) {
    case RT_BOOL:
        return snprintf(buf, n, "%s", ((const uint8_t *)t->data)[i] ? "true" : "false");
    case RT_F32:
        return put_double(buf, n, f, (double)((const float *)t->data)[i]);
    case RT_F64:
        return put_double(buf, n, f, ((const double *)t->data)[i]);
    case RT_F16:
        return put_double(buf, n, f, (double)kn_from_f16(((const struct kn_half *)t->data)[i]));
    case RT_BF16:
        return put_double(buf, n, f, (double)kn_from_bf16(((const struct kn_bfloat *)t->data)[i]));
    case RT_U64:
        return put_integer(buf, n, f, flag, 0, ((const uint64_t *)t->data)[i], true);
    case RT_U8:
    case RT_U16:
    case RT_U32:
        return put_integer(buf, n, f, flag, 0, (uint64_t)kn_int_at(t, i), true);
    default:
        return put_integer(buf, n, f, flag, kn_int_at(t, i), 0, false);
    }
}

enum { AS_STRING_CAPACITY = 12000 }; /* bytes for the widest value with the widest padding */

static enum rt_status as_string_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    const enum rt_dtype dt = kn_dtype(t);
    const struct rt_span fill = rt_attr_str(r->node, "fill");
    struct as_string f;
    enum rt_status st = format_of(r, &f);
    struct rt_str *o = st ? NULL : out_strs(r);
    char *buf = o ? rt_scratch(r, 2 * AS_STRING_CAPACITY) : NULL;

    if (!buf)
        return r->err->code;
    const char flag = fill.n ? (char)fill.p[0] : '\0';
    int64_t left = RT_WORK;
    for (int64_t i = 0; i < rt_tensor_count(t); i++) {
        int n;
        /* Writing a number takes a few hundred nanoseconds, and more for each character of its
         * width. */
        if (spend(r, &left,
                  256 + 4 * (size_t)(f.width + (f.precision > 0 ? f.precision : 0)) +
                      (dt == RT_STRING ? rt_strs(t)[i].n : 0)))
            return r->err->code;
        if (dt == RT_STRING) {
            const struct rt_str *s = &rt_strs(t)[i];
            const bool is_cut = f.width > 0 && f.precision >= 0 && (size_t)f.precision < s->n;
            const size_t shown = is_cut ? (size_t)f.precision : s->n;
            const size_t pad = (size_t)f.width > shown ? (size_t)f.width - shown : 0;
            char *p = rt_str_resize(&o[i], rt_run_pool(r), shown + pad, r->err);
            if (!p)
                return r->err->code;
            memset(p, ' ', shown + pad);
            memcpy(p + (flag == '-' ? 0 : pad), rt_str_data(s), shown);
            continue;
        }
        if (dt == RT_C64 || dt == RT_C128) {
            const double a = dt == RT_C64 ? (double)((const float *)t->data)[2 * i]
                                          : ((const double *)t->data)[2 * i];
            const double b = dt == RT_C64 ? (double)((const float *)t->data)[2 * i + 1]
                                          : ((const double *)t->data)[2 * i + 1];
            char *p = buf;
            *p++ = '(';
            p += put_double(p, AS_STRING_CAPACITY - 3, &f, a);
            *p++ = ',';
            p += put_double(p, AS_STRING_CAPACITY - 3, &f, b);
            *p++ = ')';
            n = (int)(p - buf);
        } else {
            n = put_element(buf, AS_STRING_CAPACITY, &f, flag, t, i);
        }
        if (!rt_str_set(&o[i], rt_run_pool(r), buf, (size_t)n, r->err))
            return r->err->code;
    }
    return RT_OK;
}

EACH(as_string, "AsString", as_string_run)

/* ---- EncodeBase64, DecodeBase64: the URL-safe alphabet ---- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static enum rt_status encode_run(struct rt_run *r)
{
    const bool pad = rt_attr_bool(r->node, "pad");
    struct rt_str *o = out_strs(r);
    int64_t left = RT_WORK;

    if (!o)
        return r->err->code;
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]); i++) {
        const struct rt_str *s = &rt_strs(&r->in[0])[i];
        const unsigned char *p = (const unsigned char *)rt_str_data(s);
        const size_t rest = s->n % 3;
        const size_t n = s->n / 3 * 4 + (rest ? (pad ? 4 : rest + 1) : 0);
        char *q = rt_str_resize(&o[i], rt_run_pool(r), n, r->err);
        if (!q)
            return r->err->code;
        if (spend(r, &left, 0))
            return r->err->code;
        for (size_t k = 0; k < s->n; k += 3) {
            const size_t more = s->n - k;
            const uint32_t v = (uint32_t)p[k] << 16 | (more > 1 ? (uint32_t)p[k + 1] << 8 : 0) |
                               (more > 2 ? (uint32_t)p[k + 2] : 0);
            *q++ = alphabet[v >> 18];
            *q++ = alphabet[v >> 12 & 63];
            if (more > 1 || pad)
                *q++ = more > 1 ? alphabet[v >> 6 & 63] : '=';
            if (more > 2 || pad)
                *q++ = more > 2 ? alphabet[v & 63] : '=';
            if (k % KN_STRING_CHUNK < 3 && rt_run_spend(r, &left, 4 * KN_STRING_CHUNK))
                return r->err->code;
        }
    }
    return RT_OK;
}

EACH(encode_base64, "EncodeBase64", encode_run)

static enum rt_status decode_one(struct rt_run *r, const struct rt_str *s, struct rt_str *out,
                                 int64_t *left)
{
    const char *p = rt_str_data(s);
    size_t n = s->n;

    if (n % 4 == 0 && n && p[n - 1] == '=')
        n -= p[n - 2] == '=' ? 2 : 1;
    if (n % 4 == 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Base64 string length cannot be 1 modulo 4.");
    char *q = rt_str_resize(out, rt_run_pool(r), n / 4 * 3 + (n % 4 ? n % 4 - 1 : 0), r->err);
    if (!q)
        return r->err->code;
    uint32_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (i % KN_STRING_CHUNK == 0 && rt_run_spend(r, left, 4 * KN_STRING_CHUNK))
            return r->err->code;
        const char *c = p[i] ? strchr(alphabet, p[i]) : NULL;
        if (!c)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Invalid character found in base64.");
        v = v << 6 | (uint32_t)(c - alphabet);
        if (i % 4 == 1)
            *q++ = (char)(v >> 4);
        else if (i % 4 == 2)
            *q++ = (char)(v >> 2);
        else if (i % 4 == 3)
            *q++ = (char)v;
    }
    return RT_OK;
}

static enum rt_status decode_run(struct rt_run *r)
{
    struct rt_str *o = out_strs(r);
    int64_t left = RT_WORK;

    if (!o)
        return r->err->code;
    for (int64_t i = 0; i < rt_tensor_count(&r->in[0]); i++) {
        enum rt_status st = spend(r, &left, 0);
        if (!st)
            st = decode_one(r, &rt_strs(&r->in[0])[i], &o[i], &left);
        if (st)
            return st;
    }
    return RT_OK;
}

EACH(decode_base64, "DecodeBase64", decode_run)

/* ---- StringFormat(inputs...) ---- */

static enum rt_status format_run(struct rt_run *r)
{
    const struct rt_span text = rt_attr_str(r->node, "template");
    const struct rt_span hole = rt_attr_str(r->node, "placeholder");
    struct rt_bytes out;
    enum rt_status st = RT_OK;
    int64_t n_holes = 0, k = 0;

    for (size_t i = 0; hole.n && i + hole.n <= text.n; i++)
        if (memcmp(text.p + i, hole.p, hole.n) == 0) {
            n_holes++;
            i += hole.n - 1;
        }
    if (n_holes != r->n_in)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "num placeholders in template and num inputs must match: %lld vs. %d",
                       (long long)n_holes, r->n_in);
    kn_text_begin(&out, r);
    for (size_t i = 0; i < text.n && !st; i++) {
        if (hole.n && i + hole.n <= text.n && memcmp(text.p + i, hole.p, hole.n) == 0) {
            st = kn_summarize_v2(r, &out, &r->in[k++], rt_attr_int(r->node, "summarize"));
            i += hole.n - 1;
        } else {
            rt_bytes_addc(&out, (char)text.p[i]);
        }
    }
    if (!st && out.failed)
        st = kn_text_failed(&out);
    struct rt_str *o = st ? NULL : kn_out(r, 0, 0, NULL);
    if (!st && (!o || !rt_str_set(o, rt_run_pool(r), out.p, out.n, r->err)))
        st = r->err->code;
    kn_text_end(&out);
    return st;
}

const struct kn_entry kn_string_format = {
    .op = {.name = "StringFormat", .infer = kn_infer_scalars},
    .kernels = KN_CPU("StringFormat", "string_format", 0, NULL, format_run),
};
