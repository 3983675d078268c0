#include "kernels/string/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/array/array.h"
#include "kernels/cpu/half.h"
#include "kernels/string/text.h"

void kn_float_text(char *buf, size_t n, float f)
{
    if (isnan(f)) {
        snprintf(buf, n, "nan");
        return;
    }
    snprintf(buf, n, "%.6g", (double)f);
    if (strtof(buf, NULL) != f)
        snprintf(buf, n, "%.9g", (double)f);
}

void kn_double_text(char *buf, size_t n, double d)
{
    if (isnan(d)) {
        snprintf(buf, n, "nan");
        return;
    }
    snprintf(buf, n, "%.15g", d);
    if (strtod(buf, NULL) != d)
        snprintf(buf, n, "%.17g", d);
}

static void escaped(struct rt_bytes *out, const char *p, size_t n)
{
    for (size_t i = 0; i < n && !out->failed; i++) {
        const unsigned char c = (unsigned char)p[i];
        switch (c) {
        case '\n':
            rt_bytes_adds(out, "\\n");
            break;
        case '\r':
            rt_bytes_adds(out, "\\r");
            break;
        case '\t':
            rt_bytes_adds(out, "\\t");
            break;
        case '"':
        case '\'':
        case '\\':
            rt_bytes_addc(out, '\\');
            rt_bytes_addc(out, (char)c);
            break;
        default:
            if (c < 0x20 || c == 0x7f) /* bytes above 0x7f may be UTF-8 and stay unchanged */
                rt_bytes_addf(out, "\\%03o", c);
            else
                rt_bytes_addc(out, (char)c);
        }
    }
}

static void element(struct rt_bytes *out, const struct rt_tensor *t, int64_t i)
{
    char text[40];

    switch (kn_dtype(t)) {
    case RT_F32:
        kn_float_text(text, sizeof text, ((const float *)t->data)[i]);
        break;
    case RT_F16:
        kn_float_text(text, sizeof text, kn_from_f16(((const struct kn_half *)t->data)[i]));
        break;
    case RT_BF16:
        kn_float_text(text, sizeof text, kn_from_bf16(((const struct kn_bfloat *)t->data)[i]));
        break;
    case RT_F64:
        kn_double_text(text, sizeof text, ((const double *)t->data)[i]);
        break;
    case RT_U64:
        snprintf(text, sizeof text, "%" PRIu64, ((const uint64_t *)t->data)[i]);
        break;
    case RT_I8:
    case RT_I16:
    case RT_I32:
    case RT_I64:
    case RT_U8:
    case RT_U16:
    case RT_U32:
    case RT_BOOL:
        snprintf(text, sizeof text, "%" PRId64, kn_int_at(t, i));
        break;
    case RT_STRING:
        escaped(out, rt_str_data(&rt_strs(t)[i]), rt_strs(t)[i].n);
        return;
    default:
        snprintf(text, sizeof text, "?");
    }
    rt_bytes_adds(out, text);
}

static void one_dim(struct rt_bytes *out, const struct rt_tensor *t, int dim, int64_t limit,
                    int64_t *at)
{
    if (*at >= limit)
        return;
    if (dim == t->rank - 1) {
        for (int64_t i = 0; i < t->dim[dim] && !out->failed; i++) {
            if (*at >= limit) {
                if (dim != 0)
                    rt_bytes_adds(out, "...");
                return;
            }
            if (i > 0)
                rt_bytes_addc(out, ' ');
            element(out, t, (*at)++);
        }
        return;
    }
    for (int64_t i = 0; i < t->dim[dim] && *at < limit && !out->failed; i++) {
        rt_bytes_addc(out, '[');
        one_dim(out, t, dim + 1, limit, at);
        rt_bytes_addc(out, ']');
    }
}

/* Returns the number of elements that the summary shows. */
static int64_t limit_of(const struct rt_tensor *t, int64_t max_entries)
{
    const int64_t n = rt_tensor_count(t);
    return max_entries < 0 || max_entries > n ? n : max_entries;
}

/* Returns whether TensorFlow writes no text, as for a boolean tensor of which no elements are
 * shown. */
static bool is_silent(const struct rt_tensor *t, int64_t limit)
{
    return t->dtype == RT_BOOL && limit == 0;
}

/* Returns whether TensorFlow cannot format values of the tensor's type. TensorFlow then writes a
 * row of question marks, whatever the shape. */
static bool is_opaque(const struct rt_tensor *t)
{
    const enum rt_dtype dt = kn_dtype(t);
    return dt == RT_C64 || dt == RT_C128 || dt == RT_RESOURCE || dt == RT_VARIANT;
}

/* Appends n question marks to `out`, separated by spaces. If r is NULL, the deadline is not
 * checked, so n must be small. */
static enum rt_status question_marks(struct rt_run *r, struct rt_bytes *out, int64_t n)
{
    for (int64_t i = 0; i < n && !out->failed; i++) {
        rt_bytes_adds(out, i > 0 ? " ?" : "?");
        if (r && rt_run_spend(r, &r->left, 8))
            return r->err->code;
    }
    return RT_OK;
}

void kn_summarize(struct rt_bytes *out, const struct rt_tensor *t, int64_t max_entries)
{
    const int64_t n = rt_tensor_count(t), limit = limit_of(t, max_entries);
    int64_t at = 0;

    if (is_silent(t, limit))
        return;
    if (is_opaque(t))
        question_marks(NULL, out, limit);
    else if (t->rank > 0)
        one_dim(out, t, 0, limit, &at);
    else if (limit > 0)
        element(out, t, 0);
    if (n > limit)
        rt_bytes_adds(out, "...");
}

/* The state of kn_summarize_v2. `edge` is the number of items shown at both ends of each dimension.
 * If `edge` is negative, all items are shown. */
struct summary {
    struct rt_run *r;
    struct rt_bytes *out;
    const struct rt_tensor *t;
    int64_t edge;
};

/* Appends a string, enclosed in quotes. */
static enum rt_status quoted(struct summary *s, const struct rt_str *text)
{
    /* CHUNK is the number of bytes between two calls of rt_run_spend. COST is the work per byte. */
    enum { CHUNK = 1 << 16, COST = 16 };

    rt_bytes_addc(s->out, '"');
    for (size_t i = 0; i < text->n && !s->out->failed; i += CHUNK) {
        const size_t some = text->n - i < CHUNK ? text->n - i : CHUNK;
        escaped(s->out, rt_str_data(text) + i, some);
        if (rt_run_spend(s->r, &s->r->left, COST * (int64_t)some))
            return s->r->err->code;
    }
    rt_bytes_addc(s->out, '"');
    return RT_OK;
}

static enum rt_status edges(struct summary *s, int dim, int64_t per_item, int64_t at)
{
    struct rt_bytes *out = s->out;
    const struct rt_tensor *t = s->t;
    const int64_t edge = s->edge;

    if (dim == t->rank) {
        enum rt_status st = RT_OK;
        if (t->dtype == RT_STRING)
            st = quoted(s, &rt_strs(t)[at]);
        else
            element(out, t, at);
        if (!st && out->failed)
            st = kn_text_failed(out);
        return st ? st : rt_run_spend(s->r, &s->r->left, 128);
    }
    const int64_t n = t->dim[dim], step = n ? per_item / n : 0;
    rt_bytes_addc(out, '[');
    for (int64_t i = 0; i < n; i++) {
        if (edge >= 0 && i == edge && n - edge > edge) {
            if (dim == t->rank - 1) {
                rt_bytes_adds(out, " ...");
            } else {
                for (int k = dim; k < t->rank - 1; k++)
                    rt_bytes_addc(out, '\n');
                for (int k = 0; k <= dim; k++)
                    rt_bytes_addc(out, ' ');
                rt_bytes_adds(out, "...");
            }
            i = n - edge;
            if (i == n)
                break;
        }
        if (i > 0) {
            if (dim == t->rank - 1) {
                rt_bytes_addc(out, ' ');
            } else {
                for (int k = dim; k < t->rank - 1; k++)
                    rt_bytes_addc(out, '\n');
                for (int k = 0; k <= dim; k++)
                    rt_bytes_addc(out, ' ');
            }
        }
        enum rt_status st = edges(s, dim + 1, step, at + i * step);
        if (st)
            return st;
    }
    rt_bytes_addc(out, ']');
    return out->failed ? kn_text_failed(out) : rt_run_spend(s->r, &s->r->left, KN_STRING_WORK);
}

enum rt_status kn_summarize_v2(struct rt_run *r, struct rt_bytes *out, const struct rt_tensor *t,
                               int64_t edge)
{
    const int64_t n = rt_tensor_count(t), limit = limit_of(t, edge);
    /* For an empty tensor, TensorFlow shows no items and no inner brackets. */
    struct summary s = {.r = r, .out = out, .t = t, .edge = n ? edge : 0};

    if (is_silent(t, limit))
        return RT_OK;
    if (is_opaque(t)) {
        rt_bytes_adds(out, t->rank > 0 ? "[" : "");
        enum rt_status st = question_marks(r, out, limit);
        rt_bytes_adds(out, n > limit ? "..." : "");
        rt_bytes_adds(out, t->rank > 0 ? "]" : "");
        return !st && out->failed ? kn_text_failed(out) : st;
    }
    if (t->rank > 0 || edge != 0)
        return edges(&s, 0, n, 0);
    rt_bytes_adds(out, "...");
    return out->failed ? kn_text_failed(out) : RT_OK;
}
