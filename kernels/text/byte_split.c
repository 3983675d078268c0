/* ByteSplitWithOffsets of TensorFlow Text splits strings into their bytes, and ByteSplitByOffsets
 * cuts pieces at given offsets out of them. */
#include "kernels/entry.h"
#include "kernels/text/tokens.h"

/* ---- ByteSplitWithOffsets ---- */

static enum rt_status split_bytes(struct rt_run *r)
{
    const struct rt_str *in = rt_strs(&r->in[0]);
    const int64_t n = rt_tensor_count(&r->in[0]), n_splits = n + 1;
    int64_t *splits = rt_out(r, 1, 1, &n_splits), total = 0, left = RT_WORK;

    if (!splits)
        return r->err->code;
    splits[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        total += (int64_t)in[i].n;
        splits[i + 1] = total;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    uint8_t *bytes = rt_out(r, 0, 1, &total);
    int32_t *begin = bytes ? rt_out(r, 2, 1, &total) : NULL;
    int32_t *end = begin ? rt_out(r, 3, 1, &total) : NULL;
    if (!end)
        return r->err->code;
    for (int64_t i = 0, at = 0; i < n; i++) {
        const char *p = rt_str_data(&in[i]);
        for (size_t k = 0; k < in[i].n; k++, at++) {
            bytes[at] = (uint8_t)p[k];
            begin[at] = (int32_t)k;
            end[at] = (int32_t)k + 1;
            if (rt_run_spend(r, &left, 1))
                return r->err->code;
        }
    }
    return RT_OK;
}

const struct kn_entry kn_tf_text_byte_split_with_offsets = {
    .op = {.name = "TFText>ByteSplitWithOffsets"},
    .kernels = KN_KERNELS({.op = "TFText>ByteSplitWithOffsets",
                           .device = "CPU",
                           .name = "byte_split",
                           .run = split_bytes}),
};

/* ---- ByteSplitByOffsets ---- */

/* Adds the pieces first, ..., last - 1 of a string. */
static bool add_pieces(struct kn_tokens *t, const struct rt_str *s, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        const int64_t begin = kn_int_at(&t->r->in[1], i), end = kn_int_at(&t->r->in[2], i);
        const int64_t n = (int64_t)s->n;
        const char *why = begin < 0 || begin > n ? "Start offsets out of range."
                          : end < 0 || end > n   ? "End offsets out of range."
                          : begin > end          ? "Start offset after end offset."
                                                 : NULL;
        if (why) {
            rt_fail(t->r->err, RT_INVALID_ARGUMENT, "%s", why);
            return false;
        }
        if (!kn_tokens_add(
                t, &(struct kn_token){.p = rt_str_data(s) + begin, .n = (size_t)(end - begin)}))
            return false;
    }
    return kn_tokens_next(t);
}

/* Checks the number of row splits. TensorFlow Text reads beyond its tensors in the cases that are
 * refused here and in `cut`. */
static enum rt_status check_splits(struct rt_run *r)
{
    if (rt_tensor_count(&r->in[3]) > rt_tensor_count(&r->in[0]))
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "%s: there are %lld row splits for %lld strings, which need one more than that",
                   r->node->schema->name, (long long)rt_tensor_count(&r->in[3]),
                   (long long)rt_tensor_count(&r->in[0]));
}

static enum rt_status cut(struct rt_run *r, struct kn_tokens *t)
{
    const int64_t *splits = r->in[3].data, n = rt_tensor_count(&r->in[0]);
    const int64_t n_begin = rt_tensor_count(&r->in[1]), n_end = rt_tensor_count(&r->in[2]);
    const int64_t most = n_begin < n_end ? n_begin : n_end;

    for (int64_t i = 0; i < n; i++) {
        if (splits[i] < splits[i + 1] && (splits[i] < 0 || splits[i + 1] > most))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "%s: a row from %lld to %lld, but there are %lld pairs of offsets",
                           r->node->schema->name, (long long)splits[i], (long long)splits[i + 1],
                           (long long)most);
        if (!add_pieces(t, &rt_strs(&r->in[0])[i], splits[i], splits[i + 1]))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status run_cut(struct rt_run *r)
{
    static const struct kn_token_outputs to = {
        .text = 0, .id = -1, .splits = 1, .begin = -1, .end = -1};
    struct kn_tokens t;
    enum rt_status st = check_splits(r);

    if (st)
        return st;
    kn_tokens_begin(&t, r);
    st = cut(r, &t);
    if (!st)
        st = kn_tokens_emit(&t, &to);
    kn_tokens_end(&t);
    return st;
}

const struct kn_entry kn_tf_text_byte_split_by_offsets = {
    .op = {.name = "TFText>ByteSplitByOffsets"},
    .kernels = KN_KERNELS({.op = "TFText>ByteSplitByOffsets",
                           .device = "CPU",
                           .name = "byte_split_by_offsets",
                           .run = run_cut}),
};
