/*
 * FastBertNormalize of TensorFlow Text: replaces characters by what its model maps them to, one by
 * one and without regard to their neighbours.
 *
 * Fields of the model: 0 whether letters become lower case (already part of the mapping), 1 trie
 * from characters in UTF-8 to values, 2 value of U+0000, 3 bytes of the replacements. The low 6
 * bits of a value are the length of the replacement, and the 24 bits above its offset in field 3.
 */
#include "kernels/entry.h"
#include "kernels/string/unicode.h"
#include "kernels/text/model.h"
#include "kernels/text/tokens.h"

enum { LENGTH_BITS = 6, OFFSET_BITS = 24, IS_CHANGED = 1 << 30, COST = 16, MAX_COPY = 1 << 14 };

struct normalizer {
    struct rt_run *r;
    struct kn_vector trie, pool;
    uint32_t nul; /* value of U+0000 */
    bool has_offsets;
    struct {
        bool is_known, is_same; /* whether the value is known, and whether nothing changes */
        uint32_t value;
    } ascii[128];
    struct rt_bytes text;
    struct rt_bytes offsets; /* array of int64: where each byte of all texts comes from */
    int64_t left;
};

static enum rt_status fail(struct rt_run *r, const char *why)
{
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "FastBertNormalize: the model %s", why);
}

static enum rt_status open_model(struct rt_run *r, struct normalizer *n)
{
    const struct rt_tensor *model = &r->in[1];
    struct kn_flat_table t;

    if (!kn_flat_open(rt_span_of(model->data, (size_t)rt_tensor_count(model)), &t) ||
        !kn_flat_vector(&t, 1, 4, &n->trie) || !kn_flat_number(&t, 2, 4, &n->nul) ||
        !kn_flat_vector(&t, 3, 1, &n->pool))
        return fail(r, "is malformed");
    return n->trie.n ? RT_OK : fail(r, "has no trie");
}

/* Sets *value to the value of the character at p, which ends before `end`, or to 0 if it has none,
 * and therefore does not change. */
static void look_up(const struct normalizer *n, const unsigned char *p, const unsigned char *end,
                    uint32_t *value)
{
    int64_t node = 0;

    *value = *p ? 0 : n->nul;
    if (*p == 0)
        return;
    for (; p < end && node != KN_NO_NODE; p++)
        node = *p ? kn_trie_child(&n->trie, node, *p) : KN_NO_NODE;
    if (node == KN_NO_NODE || !kn_trie_value(&n->trie, node, value))
        *value = 0;
}

/* Returns the value of the character c at p, which ends before `end`. */
static uint32_t value_of(struct normalizer *n, int32_t c, const unsigned char *p,
                         const unsigned char *end)
{
    uint32_t value = 0;

    if (c < 0 || c > 0x7f) {
        if (c != KN_BAD_CHAR)
            look_up(n, p, end, &value);
        return value;
    }
    if (!n->ascii[c].is_known) {
        look_up(n, p, end, &n->ascii[c].value);
        n->ascii[c].is_known = true;
        n->ascii[c].is_same = !(n->ascii[c].value & IS_CHANGED);
    }
    return n->ascii[c].value;
}

/* Returns the end of the ASCII characters at p that are known not to change, at most MAX_COPY. */
static const unsigned char *skip_same(const struct normalizer *n, const unsigned char *p,
                                      const unsigned char *end)
{
    if (end - p > MAX_COPY)
        end = p + MAX_COPY;
    while (p < end && *p < 0x80 && n->ascii[*p].is_same)
        p++;
    return p;
}

static void add(struct normalizer *n, const unsigned char *p, size_t n_bytes, int64_t from,
                bool is_copy)
{
    if (n_bytes)
        rt_bytes_add(&n->text, p, n_bytes);
    for (size_t i = 0; n->has_offsets && i < n_bytes; i++) {
        const int64_t at = is_copy ? from + (int64_t)i : from;
        rt_bytes_add(&n->offsets, &at, sizeof at);
    }
}

static enum rt_status normalize(struct normalizer *n, const struct rt_str *s)
{
    const unsigned char *begin = (const unsigned char *)rt_str_data(s), *end = begin + s->n, *next;
    const unsigned char *same = begin; /* bytes from here to p do not change, and must be copied */

    n->text.n = 0;
    for (const unsigned char *p = begin; p < end; p = next) {
        uint32_t value = 0;
        next = skip_same(n, p, end);
        if (next == p) {
            const int32_t c = kn_decode_utf8(p, end, &next);
            value = value_of(n, c, p, next);
        }
        const size_t length = value & ((1u << LENGTH_BITS) - 1);
        const size_t at = value >> LENGTH_BITS & ((1u << OFFSET_BITS) - 1);
        if (rt_run_spend(n->r, &n->left, COST + (next - p) * (n->has_offsets ? COST : 1)))
            return n->r->err->code;
        if (!(value & IS_CHANGED) && next - same < MAX_COPY)
            continue;
        if (!(value & IS_CHANGED)) {
            add(n, same, (size_t)(next - same), same - begin, true);
            same = next;
            continue;
        }
        if (at > n->pool.n || length > n->pool.n - at)
            return fail(n->r, "has a replacement outside its text");
        add(n, same, (size_t)(p - same), same - begin, true);
        add(n, n->pool.p + at, length, p - begin, false);
        same = next;
    }
    add(n, same, (size_t)(end - same), same - begin, true);
    const int64_t size = (int64_t)s->n;
    if (n->has_offsets)
        rt_bytes_add(&n->offsets, &size, sizeof size);
    if (n->text.failed || n->offsets.failed)
        return kn_text_failed(n->text.failed ? &n->text : &n->offsets);
    return RT_OK;
}

static enum rt_status emit_offsets(struct normalizer *n)
{
    const int64_t count = (int64_t)(n->offsets.n / sizeof(int64_t));
    int64_t *o = rt_out(n->r, 1, 1, &count);

    if (!o)
        return n->r->err->code;
    return kn_copy_run(n->r, RT_I64, o, n->offsets.p, count);
}

static enum rt_status run(struct rt_run *r)
{
    struct normalizer n = {
        .r = r, .left = RT_WORK, .has_offsets = rt_attr_bool(r->node, "get_offsets")};
    int64_t count = 0;
    enum rt_status st = kn_token_strings(r, &count);

    if (!st)
        st = open_model(r, &n);
    if (st)
        return st;
    const int64_t n_splits = count + 1;
    struct rt_str *o = kn_out(r, 0, r->in[0].rank, r->in[0].dim);
    int64_t *splits = o ? kn_out(r, 2, 1, &n_splits) : NULL;
    if (!splits)
        return r->err->code;
    kn_text_begin(&n.text, r);
    kn_text_begin(&n.offsets, r);
    splits[0] = 0;
    for (int64_t i = 0; i < count && !st; i++) {
        st = normalize(&n, &rt_strs(&r->in[0])[i]);
        if (!st)
            st = kn_set_text(r, &n.left, &o[i], n.text.p, n.text.n);
        splits[i + 1] = (int64_t)(n.offsets.n / sizeof(int64_t));
    }
    if (!st)
        st = emit_offsets(&n);
    kn_text_end(&n.text);
    kn_text_end(&n.offsets);
    return st;
}

static enum rt_status infer(struct rt_infer *x)
{
    x->out[0].shape = x->in[0].shape;
    return RT_OK;
}

/* Rows of the texts are independent. The offsets are those of all texts together. */
static void rows(struct rt_rows *r)
{
    if (r->in[0].shape.rank == 1)
        rt_rows_first(r);
    r->out_dep[1] = r->out_dep[2] = (struct rt_dep){RT_DEP_MIXED, 0};
}

const struct kn_entry kn_fast_bert_normalize = {
    .op = {.name = "FastBertNormalize", .infer = infer, .rows = rows},
    .kernels = KN_KERNELS(
        {.op = "FastBertNormalize", .device = "CPU", .name = "fast_bert_normalize", .run = run}),
};
