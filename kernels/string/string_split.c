/* StringSplit and StringSplitV2 split strings into a sparse matrix of substrings. */
#include "kernels/array/array.h"
#include "kernels/string/text.h"
#include "kernels/entry.h"

#include <limits.h>

struct part {
    int64_t row, column;
    const char *p;
    size_t n;
};

struct parts {
    struct rt_run *r;
    struct rt_bytes list; /* the substrings, as an array of `struct part` */
    int64_t n, n_columns, left;
};

static const struct part *part_at(const struct parts *l, int64_t i)
{
    return (const struct part *)(const void *)l->list.p + i;
}

/* Adds a substring. On failure, returns false and sets l->r->err. */
static bool add(struct parts *l, int64_t row, int64_t column, const char *p, const char *end)
{
    const struct part part = {row, column, p, (size_t)(end - p)};

    rt_bytes_add(&l->list, &part, sizeof part);
    if (l->list.failed) {
        kn_text_failed(&l->list);
        return false;
    }
    l->n++;
    if (column >= l->n_columns)
        l->n_columns = column + 1;
    return !rt_run_spend(l->r, &l->left, KN_STRING_WORK + (int64_t)part.n);
}

/* Splits a string at up to `max` runs of white space, or at all of them if `max` is -1, for
 * StringSplitV2 without a separator. After `max` splits, the rest of the string becomes the last
 * substring, even if it is empty. If `max` is 0, the string stays unchanged. */
static bool cut_space(struct parts *l, int64_t row, const char *p, const char *end, int64_t max)
{
    if (max == 0)
        return add(l, row, 0, p, end);
    for (int64_t c = 0;; c++) {
        p = kn_find_space(l->r, &l->left, p, end, false);
        if (!p)
            return false;
        if (c > 0 && c == max)
            return add(l, row, c, p, end);
        if (p == end)
            return true;
        const char *q = kn_find_space(l->r, &l->left, p, end, true);
        if (!q || !add(l, row, c, p, q))
            return false;
        p = q;
    }
}

static bool cut_text(struct parts *l, int64_t row, const char *p, const char *end,
                     struct rt_span sep, int64_t max)
{
    for (int64_t c = 0;; c++) {
        enum rt_status st = RT_OK;
        const char *q = c == max ? NULL : kn_find_text(l->r, &l->left, p, end, sep, &st);
        if (st || !add(l, row, c, p, q ? q : end))
            return false;
        if (!q)
            return true;
        p = q + sep.n;
    }
}

/* Splits a string at every delimiter byte, for StringSplit. If there are no delimiters, every byte
 * becomes a substring. */
static bool cut_set(struct parts *l, int64_t row, const char *p, const char *end,
                    const bool *is_in_set, size_t n_set, bool skip_empty)
{
    int64_t c = 0;

    if (n_set == 0) {
        for (; p < end; p++)
            if (!add(l, row, c++, p, p + 1))
                return false;
        return true;
    }
    if (p == end)
        return true; /* an empty string yields no substring, as in TensorFlow */
    for (;;) {
        const char *q = p;
        for (; q < end && !is_in_set[(unsigned char)*q]; q++)
            if ((q - p) % KN_TEXT_CHUNK == KN_TEXT_CHUNK - 1 &&
                rt_run_spend(l->r, &l->left, 2 * KN_TEXT_CHUNK))
                return false;
        if (skip_empty && q == p ? rt_run_spend(l->r, &l->left, 1) != RT_OK
                                 : !add(l, row, c++, p, q))
            return false;
        if (q == end)
            return true;
        p = q + 1;
    }
}

static enum rt_status emit(struct rt_run *r, struct parts *l)
{
    const int64_t dim[2] = {l->n, 2}, two = 2;
    int64_t *index = rt_out(r, 0, 2, dim);
    struct rt_str *value = index ? rt_out(r, 1, 1, dim) : NULL;
    int64_t *shape = value ? kn_out(r, 2, 1, &two) : NULL;

    if (!shape)
        return r->err->code;
    for (int64_t i = 0; i < l->n; i++) {
        const struct part *k = part_at(l, i);
        index[2 * i] = k->row;
        index[2 * i + 1] = k->column;
        if (kn_set_text(r, &l->left, &value[i], k->p, k->n) ||
            rt_run_spend(r, &l->left, KN_STRING_WORK))
            return r->err->code;
    }
    shape[0] = r->in[0].dim[0];
    shape[1] = l->n_columns;
    return RT_OK;
}

static enum rt_status split_run(struct rt_run *r)
{
    const bool v2 = r->node->schema->name[11] == 'V';
    const struct rt_tensor *in = &r->in[0], *sep = &r->in[1];
    struct parts l = {.r = r, .left = RT_WORK};
    bool ok = true, is_in_set[UCHAR_MAX + 1] = {false};

    if (in->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "input must be a vector, got shape: %s",
                       KN_TEXT(in));
    if (sep->rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s must be a scalar, got shape: %s",
                       v2 ? "sep" : "delimiter", KN_TEXT(sep));
    const struct rt_str *by = rt_strs(sep);
    const int64_t max = v2 ? rt_attr_int(r->node, "maxsplit") : -1;
    const bool skip = v2 ? false : rt_attr_bool(r->node, "skip_empty");
    for (size_t i = 0; i < by->n && !v2; i++) {
        is_in_set[(unsigned char)rt_str_data(by)[i]] = true;
        if (i % KN_TEXT_CHUNK == KN_TEXT_CHUNK - 1 && rt_run_check(r))
            return r->err->code;
    }
    kn_text_begin(&l.list, r);
    for (int64_t i = 0; i < in->dim[0] && ok; i++) {
        const struct rt_str *s = &rt_strs(in)[i];
        const char *p = rt_str_data(s), *end = p + s->n;
        if (!v2)
            ok = cut_set(&l, i, p, end, is_in_set, by->n, skip);
        else if (by->n == 0)
            ok = cut_space(&l, i, p, end, max);
        else
            ok = cut_text(&l, i, p, end, rt_span_of(rt_str_data(by), by->n), max);
        ok = ok && !rt_run_spend(r, &l.left, KN_STRING_WORK);
    }
    enum rt_status st = ok ? emit(r, &l) : r->err->code;
    kn_text_end(&l.list);
    return st;
}

static enum rt_status split_infer(struct rt_infer *x)
{
    kn_set_vector(&x->out[2], 2);
    return RT_OK;
}

#define SPLIT(symbol, op_)                                                                         \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = split_infer},                                               \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, split_run),                                       \
    };
SPLIT(string_split, "StringSplit")
SPLIT(string_split_v2, "StringSplitV2")
