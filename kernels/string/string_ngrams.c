/* StringNGrams joins sequences of neighbouring words in each row of a ragged matrix. This file also
 * contains the op Fingerprint. */
#include "kernels/array/array.h"
#include "kernels/string/farmhash.h"
#include "kernels/string/each.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

#include <stdlib.h>

struct ngrams {
    struct rt_span separator, left, right;
    int64_t pad; /* the padding width, or -1 for the width of the n-gram minus 1 */
    const int64_t *width;
    size_t n_widths;
    bool keep_short;
};

static int64_t pad_of(const struct ngrams *g, int64_t width)
{
    return g->pad < 0 || g->pad > width - 1 ? width - 1 : g->pad;
}

/* Returns the number of n-grams of `width` words in a row of n words. */
static int64_t count_of(const struct ngrams *g, int64_t n, int64_t width)
{
    const int64_t pad = pad_of(g, width); /* `pad` is at most `width - 1` */
    int64_t c;

    if (!rt_add(n, pad - (width - 1 - pad), &c))
        return INT64_MAX;
    return c > 0 ? c : 0;
}

/* Returns the width of the single n-gram that preserve_short_sequences requests for a row that is
 * too short for all other n-grams. This n-gram consists of all words of the row and the pads on
 * both sides. Returns 0 if the attribute is off or the row has no words. */
static int64_t short_width(const struct ngrams *g, int64_t n)
{
    const int64_t pad = g->pad > 0 ? g->pad : 0;

    if (!g->keep_short || n == 0)
        return 0;
    return rt_add_saturated(rt_add_saturated(n, pad), pad);
}

/* One n-gram: `left` pads, `n` words starting at word `first`, and `right` pads. */
struct one {
    int64_t left, n, right, first;
};

static struct one one_of(const struct ngrams *g, int64_t k, int64_t count, int64_t width)
{
    const int64_t pad = pad_of(g, width);
    struct one o = {.left = pad - k > 0 ? pad - k : 0,
                    .right = pad - (count - k - 1) > 0 ? pad - (count - k - 1) : 0};

    o.n = width - o.left - o.right;
    o.first = o.left > 0 ? 0 : k - pad;
    return o;
}

/* Sets *n to the size of the n-gram in bytes. Returns false on overflow. */
static bool length_of(const struct ngrams *g, const struct rt_str *word, const struct one *o,
                      int64_t width, size_t *n)
{
    size_t pads[2];
    bool is_large = !rt_mul_size((size_t)(width - 1), g->separator.n, n);

    is_large |= !rt_mul_size((size_t)o->left, g->left.n, &pads[0]);
    is_large |= !rt_mul_size((size_t)o->right, g->right.n, &pads[1]);
    is_large |= !rt_add_size(*n, pads[0], n) || !rt_add_size(*n, pads[1], n);
    for (int64_t i = 0; i < o->n && !is_large; i++)
        is_large = !rt_add_size(*n, word[o->first + i].n, n);
    return !is_large;
}

/* An n-gram that is being written. Its items, which are words and pads, are joined by
 * separators. */
struct joined {
    const struct ngrams *g;
    char *p;
    bool has_item;
    int64_t *left; /* counts down to the next deadline check (rt_run_spend) */
};

static enum rt_status put_item(struct rt_run *r, struct joined *j, struct rt_span item)
{
    const struct rt_span separator = j->has_item ? j->g->separator : rt_span_of("", 0);
    enum rt_status st = kn_copy_text(r, j->left, j->p, separator.p, separator.n);

    j->has_item = true;
    j->p += separator.n;
    st = st ? st : kn_copy_text(r, j->left, j->p, item.p, item.n);
    j->p += item.n;
    return st ? st : rt_run_spend(r, j->left, KN_STRING_WORK);
}

/* Writes n pads. Does nothing if pads and separators are empty, because the memory limit does not
 * bound n in this case. */
static enum rt_status put_pads(struct rt_run *r, struct joined *j, struct rt_span pad, int64_t n)
{
    enum rt_status st = RT_OK;

    if (pad.n + j->g->separator.n == 0)
        return RT_OK;
    for (int64_t i = 0; i < n && !st; i++)
        st = put_item(r, j, pad);
    return st;
}

static enum rt_status join_one(struct rt_run *r, const struct ngrams *g, const struct rt_str *word,
                               const struct one *o, int64_t width, struct rt_str *out,
                               int64_t *left)
{
    size_t n;

    if (!length_of(g, word, o, width, &n))
        return rt_fail_memory(r->err, r->node->name, SIZE_MAX);
    struct joined j = {.g = g, .p = rt_str_resize(out, rt_run_pool(r), n, r->err), .left = left};
    if (!j.p || rt_run_spend(r, left, o->n + KN_STRING_WORK))
        return r->err->code;
    enum rt_status st = put_pads(r, &j, g->left, o->left);
    for (int64_t i = 0; i < o->n && !st; i++) {
        const struct rt_str *s = &word[o->first + i];
        st = put_item(r, &j, rt_span_of(rt_str_data(s), s->n));
    }
    return st ? st : put_pads(r, &j, g->right, o->right);
}

static enum rt_status emit(struct rt_run *r, const struct ngrams *g, const struct rt_str *word,
                           int64_t count, int64_t width, int64_t *at, int64_t *left)
{
    enum rt_status st = RT_OK;

    for (int64_t k = 0; k < count && !st; k++) {
        const struct one o = one_of(g, k, count, width);
        st = join_one(r, g, word, &o, width, (struct rt_str *)r->out[0].data + (*at)++, left);
    }
    return st;
}

static enum rt_status check_splits(struct rt_run *r)
{
    const struct rt_tensor *data = &r->in[0], *s = &r->in[1];
    const int64_t n = rt_tensor_count(s), words = rt_tensor_count(data);

    for (int64_t i = 0; i < n; i++) {
        const int64_t v = kn_int_at(s, i), before = i ? kn_int_at(s, i - 1) : 0;
        if (i == 0 && v != 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "First split value must be 0, got %lld",
                           (long long)v);
        if (v < before || v > words)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Invalid split value %lld, must be in [%lld, %lld]", (long long)v,
                           (long long)before, (long long)words);
    }
    if (n > 0 && kn_int_at(s, n - 1) != words)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Last split value must be data size. Expected %lld, got %lld",
                       (long long)words, (long long)kn_int_at(s, n - 1));
    return RT_OK;
}

static enum rt_status ngrams_run(struct rt_run *r)
{
    const struct rt_tensor *s = &r->in[1];
    struct ngrams g = {.separator = rt_attr_str(r->node, "separator"),
                       .left = rt_attr_str(r->node, "left_pad"),
                       .right = rt_attr_str(r->node, "right_pad"),
                       .pad = rt_attr_int(r->node, "pad_width"),
                       .keep_short = rt_attr_bool(r->node, "preserve_short_sequences")};
    const int64_t n_splits = rt_tensor_count(s);
    int64_t total = 0, at = 0, left = RT_WORK;
    enum rt_status st = check_splits(r);

    if (st)
        return st;
    g.n_widths = rt_attr_ints(r->node, "ngram_widths", &g.width);
    for (size_t w = 0; w < g.n_widths; w++)
        if (g.width[w] < 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "ngram_widths must contain positive values");
    if (!rt_out(r, 1, s->rank, s->dim))
        return r->err->code;
    /* If there are no rows or no words, TensorFlow returns empty strings in the shape of the words,
     * without pads. */
    if (n_splits == 0 || rt_tensor_count(&r->in[0]) == 0) {
        for (int64_t i = 0; i < n_splits; i++)
            kn_put_int(&r->out[1], i, 0);
        return rt_out(r, 0, r->in[0].rank, r->in[0].dim) ? RT_OK : r->err->code;
    }
    for (int64_t i = 0; i < n_splits; i++) {
        kn_put_int(&r->out[1], i, total);
        if (i + 1 == n_splits)
            break;
        const int64_t n = kn_int_at(s, i + 1) - kn_int_at(s, i), before = total;
        if (rt_run_spend(r, &left, (int64_t)g.n_widths))
            return r->err->code;
        for (size_t w = 0; w < g.n_widths; w++)
            if (!rt_add(total, count_of(&g, n, g.width[w]), &total))
                return rt_fail(r->err, RT_INVALID_ARGUMENT, "StringNGrams: too many");
        if (total == before && short_width(&g, n))
            total++;
    }
    if (!rt_out(r, 0, 1, &total))
        return r->err->code;
    for (int64_t i = 0; i + 1 < n_splits && !st; i++) {
        const struct rt_str *word = rt_strs(&r->in[0]) + kn_int_at(s, i);
        const int64_t n = kn_int_at(s, i + 1) - kn_int_at(s, i), before = at;
        st = rt_run_spend(r, &left, (int64_t)g.n_widths);
        for (size_t w = 0; w < g.n_widths && !st; w++)
            st = emit(r, &g, word, count_of(&g, n, g.width[w]), g.width[w], &at, &left);
        if (!st && at == before && short_width(&g, n))
            st = emit(r, &g, word, 1, short_width(&g, n), &at, &left);
    }
    return st;
}

const struct kn_entry kn_string_n_grams = {
    .op = {.name = "StringNGrams"},
    .kernels = KN_CPU("StringNGrams", "string_n_grams", 0, NULL, ngrams_run),
};

/* ---- Fingerprint(data, method): eight bytes per row ---- */

static enum rt_status print_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;

    if (!kn_shape_known(in) || in->rank < 1)
        return RT_OK;
    const int64_t dim[2] = {in->dim[0], 8};
    kn_set_shape(&x->out[0], 2, dim);
    return RT_OK;
}

static enum rt_status print_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0], *method = &r->in[1];
    const struct rt_str *name = rt_strs(method);

    if (method->rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "`method` should be a scalar string: %s",
                       KN_TEXT(method));
    if (name->n != 10 || memcmp(rt_str_data(name), "farmhash64", 10) != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Unsupported fingerprint method: %.*s",
                       (int)(name->n < 100 ? name->n : 100), rt_str_data(name));
    if (t->rank < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "`data` should have at least one dimension: %s",
                       KN_TEXT(t));
    const int64_t dim[2] = {t->dim[0], 8};
    unsigned char *o = kn_out(r, 0, 2, dim);
    if (!o)
        return r->err->code;
    const int64_t each = t->dim[0] ? rt_tensor_count(t) / t->dim[0] : 0;
    uint64_t *parts = rt_scratch(r, (size_t)each * sizeof *parts + 1);
    if (!parts)
        return r->err->code;
    int64_t left = RT_WORK;
    struct kn_reader read = {.r = r, .left = &left};
    for (int64_t i = 0; i < t->dim[0]; i++) {
        uint64_t h;
        if (t->dtype != RT_STRING) {
            const size_t bytes = (size_t)each * rt_dtype_size(kn_dtype(t));
            if (kn_spend_string(r, &left, bytes))
                return r->err->code;
            h = kn_fingerprint64(kn_at(t, i * each), bytes, &read);
        } else {
            for (int64_t k = 0; k < each; k++) {
                const struct rt_str *s = &rt_strs(t)[i * each + k];
                if (kn_spend_string(r, &left, s->n))
                    return r->err->code;
                parts[k] = kn_fingerprint64(rt_str_data(s), s->n, &read);
            }
            /* The fingerprint of a row with one string is the string's hash. The fingerprint of a
             * longer row is the hash of the strings' hashes. */
            h = each == 1 ? parts[0]
                          : kn_fingerprint64((const char *)parts, (size_t)each * 8, &read);
        }
        if (read.st)
            return read.st;
        for (int k = 0; k < 8; k++)
            o[i * 8 + k] = (unsigned char)(h >> (8 * k));
    }
    return RT_OK;
}

const struct kn_entry kn_fingerprint = {
    .op = {.name = "Fingerprint", .infer = print_infer, .rows = rt_rows_first},
    .kernels = KN_CPU("Fingerprint", "fingerprint", 0, NULL, print_run),
};
