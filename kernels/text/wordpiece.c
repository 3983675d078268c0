/* WordpieceTokenizeWithOffsets of TensorFlow Text: splits words into the longest pieces that a
 * look-up table contains. */
#include "kernels/lookup/table.h"
#include "kernels/string/unicode.h"
#include "kernels/text/tokens.h"

#include <limits.h>

struct wordpiece {
    struct rt_span suffix, unknown;
    int64_t max_bytes, max_chars; /* of a word, and of a piece; max_chars is 0 if not limited */
    bool uses_unknown, splits_unknown;
    struct kn_table *table;
    struct kn_tokens tokens;
    struct rt_bytes ends; /* of the word's characters: an array of size_t */
    struct rt_text *key;  /* memory for keys of the table */
    size_t key_capacity;
};

/* ---- look-up ---- */

/* Writes the suffix indicator, unless the piece begins the word, and the n bytes at p to the memory
 * for keys. */
static bool set_key(struct wordpiece *w, bool is_first, const char *p, size_t n, size_t *prefix)
{
    struct rt_run *r = w->tokens.r;
    const size_t size = w->suffix.n + n;

    *prefix = is_first ? 0 : w->suffix.n;
    if (!w->key || size > w->key_capacity) {
        struct rt_text *larger = rt_text_new(rt_run_pool(r), size, r->err);
        if (!larger)
            return false;
        if (w->key)
            rt_text_unref(w->key);
        w->key = larger;
        w->key_capacity = size;
    }
    if (*prefix)
        memcpy(w->key->p, w->suffix.p, *prefix);
    memcpy(w->key->p + *prefix, p, n);
    return true;
}

/* Sets *is_known to whether the table contains the first n bytes of the key. As in TensorFlow Text,
 * a key whose value is -1 counts as absent. */
static enum rt_status look_up(struct wordpiece *w, size_t n, bool *is_known)
{
    struct rt_str key = {.n = n};
    int64_t at;

    /* TensorFlow Text returns this code instead of the table's FAILED_PRECONDITION. */
    if (!w->table->is_mutable && !atomic_load_explicit(&w->table->filled, memory_order_acquire))
        return rt_fail(w->tokens.r->err, RT_INVALID_ARGUMENT, "Table not initialized.");
    if (n < sizeof key.u.in)
        memcpy(key.u.in, w->key->p, n);
    else
        key.u.out = w->key;
    enum rt_status st = kn_dense_check_key(w->tokens.r, &w->tokens.left, w->table, &key);
    if (!st)
        st = kn_table_find(w->tokens.r, &w->tokens.left, w->table, &key, &at);
    *is_known = !st && at >= 0 && *(const int64_t *)kn_table_value(w->table, at) != -1;
    return st;
}

/* ---- one word ---- */

/* Finds the ends of the word's characters. */
static bool find_ends(struct wordpiece *w, const unsigned char *p, size_t n, size_t *n_chars)
{
    const unsigned char *begin = p, *end = p + n, *next;

    w->ends.n = 0;
    for (; p < end; p = next) {
        kn_decode_utf8(p, end, &next);
        const size_t at = (size_t)(next - begin);
        rt_bytes_add(&w->ends, &at, sizeof at);
        if (rt_run_spend(w->tokens.r, &w->tokens.left, 4))
            return false;
    }
    if (w->ends.failed)
        kn_text_failed(&w->ends);
    *n_chars = w->ends.n / sizeof(size_t);
    return !w->ends.failed;
}

/* Finds the longest piece that begins at character `first`. Sets *last to the number of characters
 * up to its end, or to `first` if there is none. */
static bool longest(struct wordpiece *w, const char *word, size_t first, size_t n_chars,
                    size_t *last)
{
    const size_t *ends = (const size_t *)(const void *)w->ends.p;
    const size_t begin = first ? ends[first - 1] : 0;
    const size_t max = (size_t)w->max_chars;
    size_t to = w->max_chars > 0 && n_chars - first > max ? first + max : n_chars, prefix;

    if (!set_key(w, first == 0, word + begin, ends[to - 1] - begin, &prefix))
        return false;
    for (; to > first; to--) {
        bool is_known = false;
        if (look_up(w, prefix + ends[to - 1] - begin, &is_known))
            return false;
        if (is_known)
            break;
    }
    *last = to;
    return true;
}

/* Adds the unknown token, or the n bytes at p if there is none. */
static bool add_unknown(struct wordpiece *w, const char *p, size_t n, bool has_prefix,
                        int64_t begin, int64_t end)
{
    const struct kn_token k = {.p = w->uses_unknown ? (const char *)w->unknown.p : p,
                               .n = w->uses_unknown ? w->unknown.n : n,
                               .begin = begin,
                               .end = end,
                               .has_prefix = has_prefix};
    return kn_tokens_add(&w->tokens, &k);
}

static bool split_word(struct wordpiece *w, const struct rt_str *s)
{
    const char *word = rt_str_data(s);
    const size_t before = w->tokens.list.n;
    size_t n_chars;

    /* As in TensorFlow Text, the unknown token of a word that is too long ends at its own length.
     */
    if ((int64_t)s->n > w->max_bytes)
        return add_unknown(w, word, s->n, false, 0,
                           (int64_t)(w->uses_unknown ? w->unknown.n : s->n));
    if (!find_ends(w, (const unsigned char *)word, s->n, &n_chars))
        return false;
    for (size_t i = 0, last; i < n_chars; i = last) {
        if (!longest(w, word, i, n_chars, &last))
            return false;
        if (last == i && !w->splits_unknown) {
            w->tokens.list.n = before;
            return add_unknown(w, word, s->n, false, 0, (int64_t)s->n);
        }
        const bool is_known = last > i;
        last = is_known ? last : i + 1;
        const size_t *ends = (const size_t *)(const void *)w->ends.p;
        const size_t begin = i ? ends[i - 1] : 0, n = ends[last - 1] - begin;
        const struct kn_token k = {.p = word + begin,
                                   .n = n,
                                   .begin = (int64_t)begin,
                                   .end = (int64_t)(begin + n),
                                   .has_prefix = i > 0};
        if (!(is_known ? kn_tokens_add(&w->tokens, &k)
                       : add_unknown(w, k.p, n, k.has_prefix, k.begin, k.end)))
            return false;
    }
    return true;
}

/* ---- the op ---- */

static enum rt_status check_table(struct rt_run *r, const struct kn_table *t)
{
    if (t->key_type != RT_STRING || t->value_type != RT_I64 || t->key_shape.rank ||
        t->value_shape.rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "%s: the vocabulary is a table from %s to %s, not from string to int64",
                       r->node->schema->name, rt_dtype_name(t->key_type),
                       rt_dtype_name(t->value_type));
    return RT_OK;
}

static enum rt_status split_all(struct rt_run *r, struct wordpiece *w)
{
    const int64_t n = rt_tensor_count(&r->in[0]);

    for (int64_t i = 0; i < n; i++)
        if (!split_word(w, &rt_strs(&r->in[0])[i]) || !kn_tokens_next(&w->tokens))
            return r->err->code;
    return RT_OK;
}

static enum rt_status run(struct rt_run *r)
{
    const struct kn_token_outputs to = {
        .text = 0,
        .id = -1,
        .splits = 1,
        .begin = 2,
        .end = 3,
        .has_lengths =
            rt_span_is(rt_attr_str(r->node, "output_row_partition_type"), "row_lengths")};
    struct wordpiece w = {.suffix = rt_attr_str(r->node, "suffix_indicator"),
                          .unknown = rt_attr_str(r->node, "unknown_token"),
                          .max_bytes = rt_attr_int(r->node, "max_bytes_per_word"),
                          .max_chars = rt_attr_int(r->node, "max_chars_per_token"),
                          .uses_unknown = rt_attr_bool(r->node, "use_unknown_token"),
                          .splits_unknown = rt_attr_bool(r->node, "split_unknown_characters")};
    struct rt_run input = *r; /* kn_table_of reads input 0, and the table is input 1 */

    input.in = &r->in[1];
    w.table = kn_table_of(&input);
    enum rt_status st = w.table ? check_table(r, w.table) : r->err->code;
    if (!st && w.table->is_mutable)
        st = kn_table_lock(r, w.table);
    if (st)
        return st;
    kn_tokens_begin(&w.tokens, r);
    w.tokens.prefix = w.suffix;
    kn_text_begin(&w.ends, r);
    st = split_all(r, &w);
    if (w.table->is_mutable)
        st = kn_table_unlock(w.table, st);
    if (!st)
        st = kn_tokens_emit(&w.tokens, &to);
    kn_text_end(&w.ends);
    kn_tokens_end(&w.tokens);
    if (w.key)
        rt_text_unref(w.key);
    return st;
}

const struct kn_entry kn_wordpiece_tokenize_with_offsets = {
    .op = {.name = "WordpieceTokenizeWithOffsets", .effect = RT_READS},
    .kernels = KN_KERNELS({.op = "WordpieceTokenizeWithOffsets",
                           .device = "CPU",
                           .name = "wordpiece_tokenize",
                           .run = run}),
};
