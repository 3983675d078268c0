/* GenerateVocabRemapping, which finds where the words of a new vocabulary stood in an old one. */
#include "kernels/array/array.h"
#include "kernels/io/lines.h"
#include "kernels/lookup/table.h"
#include "kernels/string/text.h"

static enum rt_status check_name(struct rt_run *r, int k, const char *input, struct rt_span *out)
{
    const struct rt_tensor *t = &r->in[k];

    if (t->rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s should be a single string, but got %s",
                       input, KN_TEXT(t));
    *out = rt_span_of(rt_str_data(rt_strs(t)), rt_strs(t)->n);
    if (out->n == 0) /* TensorFlow names the new file in both cases */
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "new vocab filename cannot be empty.");
    return RT_OK;
}

/* Reads the whole new vocabulary. Appends the words from line `offset` to line offset + n - 1, each
 * after its length, an int64. */
static enum rt_status read_new(struct rt_run *r, struct rt_span path, int64_t offset, int64_t n,
                               struct rt_bytes *words)
{
    struct kn_lines l;
    bool any = true;
    enum rt_status st = kn_lines_open(&l, r, path);

    if (st)
        return st;
    while (!st && !(st = kn_lines_next(&l, &any)) && any) {
        const int64_t length = (int64_t)l.line.n;
        if (length == 0) {
            st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                         "Invalid content in %s: empty line found at position %lld.", l.path,
                         (long long)ftell(l.file));
        } else if (l.n - 1 >= offset && l.n - 1 - offset < n) {
            rt_bytes_add(words, &length, sizeof length);
            rt_bytes_add(words, l.line.p, l.line.n);
            st = words->failed ? kn_text_failed(words) : RT_OK;
        }
    }
    if (!st && l.n == 0)
        st =
            rt_fail(r->err, RT_OUT_OF_RANGE, "Read less bytes than requested: %s is empty", l.path);
    if (!st && (offset > l.n || n > l.n - offset))
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "lookup table size must be larger than last new vocab entry's line");
    kn_lines_close(&l);
    return st;
}

/* Sets *line to the line number of a word in the old vocabulary, or to -1 if it is not there. */
static enum rt_status find_word(struct rt_run *r, const struct kn_table *old, const char *word,
                                size_t n, int64_t *line)
{
    struct rt_str key = {0};
    int64_t item = -1;
    enum rt_status st = kn_set_text(r, &r->left, &key, word, n);

    if (!st)
        st = kn_table_find(r, &r->left, old, &key, &item);
    kn_table_drop(RT_STRING, &key, 1);
    *line = st || item < 0 ? -1 : *(const int64_t *)kn_table_value(old, item);
    return st;
}

static enum rt_status remap(struct rt_run *r, const struct kn_table *old,
                            const struct rt_bytes *words, int64_t n)
{
    int64_t *o = rt_out(r, 0, 1, &n);
    int32_t *n_found = o ? rt_out(r, 1, 0, NULL) : NULL;
    const char *p = words->p;
    enum rt_status st = RT_OK;

    if (!n_found)
        return r->err->code;
    *n_found = 0;
    for (int64_t i = 0; i < n && !st; i++) {
        int64_t length;
        memcpy(&length, p, sizeof length);
        st = find_word(r, old, p + sizeof length, (size_t)length, &o[i]);
        p += sizeof length + (size_t)length;
        *n_found += o[i] >= 0;
    }
    return st;
}

static enum rt_status remapping_run(struct rt_run *r)
{
    struct kn_table types = {.key_type = RT_STRING, .value_type = RT_I64, .n_key = 1, .n_value = 1};
    const int64_t n = rt_attr_int(r->node, "num_new_vocab");
    const int64_t offset = rt_attr_int(r->node, "new_vocab_offset");
    struct kn_table old;
    struct rt_span path;
    struct rt_bytes words;
    enum rt_status st = check_name(r, 0, "new_vocab_file", &path);

    if (st)
        return st;
    kn_text_begin(&words, r);
    st = kn_table_fresh(r, &types, &old);
    if (!st)
        st = read_new(r, path, offset, n, &words);
    if (!st)
        st = check_name(r, 1, "old_vocab_file", &path);
    if (!st)
        st = kn_table_read_words(r, &old, path, rt_attr_int(r->node, "old_vocab_size"));
    if (!st)
        st = remap(r, &old, &words, n);
    kn_table_fresh_end(&old);
    kn_text_end(&words);
    return st;
}

const struct kn_entry kn_generate_vocab_remapping = {
    .op = {.name = "GenerateVocabRemapping", .effect = RT_IO},
    .kernels = KN_CPU("GenerateVocabRemapping", "generate_vocab_remapping", 0, NULL, remapping_run),
};
