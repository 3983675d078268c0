#include "kernels/text/wordpiece_model.h"

/* Numbers of the fields in the model's table. */
enum {
    TRIE,
    FAILURES,
    POPS,
    SUFFIX_ROOT,
    MAX_BYTES,
    SUFFIX,
    UNKNOWN,
    UNKNOWN_ID,
    SUFFIX_PIECES,
    PUNCTUATION,
    SPLITS_TEXT,
    HAS_PIECES,
    PIECES,
    SUFFIX_MARKS,
};

const char *kn_wordpiece_open(struct rt_span bytes, struct kn_wordpiece_model *out)
{
    struct kn_wordpiece_model m;
    struct kn_flat_table t;
    uint32_t max_bytes = 0, splits_text = 0, has_pieces = 0;

    if (!kn_flat_open(bytes, &t) || !kn_flat_vector(&t, TRIE, 4, &m.trie) ||
        !kn_flat_vector(&t, FAILURES, 8, &m.failures) || !kn_flat_vector(&t, POPS, 4, &m.pops) ||
        !kn_flat_number(&t, SUFFIX_ROOT, 4, &m.suffix_root) ||
        !kn_flat_number(&t, MAX_BYTES, 4, &max_bytes) ||
        !kn_flat_vector(&t, SUFFIX, 1, &m.suffix) || !kn_flat_vector(&t, UNKNOWN, 1, &m.unknown) ||
        !kn_flat_number(&t, UNKNOWN_ID, 4, &m.unknown_id) ||
        !kn_flat_vector(&t, SUFFIX_PIECES, 4, &m.suffix_pieces) ||
        !kn_flat_number(&t, PUNCTUATION, 4, &m.punctuation) ||
        !kn_flat_number(&t, SPLITS_TEXT, 1, &splits_text) ||
        !kn_flat_number(&t, HAS_PIECES, 1, &has_pieces) ||
        !kn_flat_vector(&t, PIECES, sizeof(uint32_t), &m.pieces) ||
        !kn_flat_vector(&t, SUFFIX_MARKS, 1, &m.suffix_marks))
        return "is malformed";
    if (m.trie.n == 0 || m.failures.n < m.trie.n)
        return "has no trie, or nodes without a failure link";
    m.max_bytes = (int32_t)max_bytes;
    m.splits_text = splits_text != 0;
    m.has_pieces = has_pieces != 0;
    m.table = t;
    *out = m;
    return NULL;
}

bool kn_wordpiece_text(const struct kn_wordpiece_model *m, int64_t id, struct kn_piece_text *out)
{
    if (id < 0 || (size_t)id >= m->pieces.n || (size_t)id >= m->suffix_marks.n)
        return false;
    out->is_suffix = m->suffix_marks.p[id] != 0;
    return kn_flat_string(&m->table, &m->pieces, (size_t)id, &out->text);
}

/* ---- a walk ---- */

enum { LENGTH_BITS = 8, ID_BITS = 22, IS_SUFFIX = 1 << 30, READ_BYTES = 1 << 16 };
#define NOTHING UINT32_MAX /* the failure link, or the range of pops, of a node that has none */

static uint32_t id_of(uint32_t code)
{
    return code >> LENGTH_BITS & ((1u << ID_BITS) - 1);
}

struct walk {
    const struct kn_wordpiece_model *m;
    size_t n_read, n_done; /* bytes of the word that were read, and that have become pieces */
    int64_t node;
    const struct kn_piece_sink *to;
};

/* Adds the pieces at, ..., at + n - 1 of a vector. A suffix that begins a word, because the word
 * begins with the suffix indicator, contains the indicator. */
static enum kn_word_result add_pieces(struct walk *w, const struct kn_vector *from, size_t at,
                                      size_t n)
{
    if (at > from->n || n > from->n - at)
        return KN_WORD_DAMAGED;
    for (size_t i = at; i < at + n; i++) {
        const uint32_t code = kn_vector_u32(from, i, 0);
        const bool is_suffix = code & IS_SUFFIX, is_first = w->n_done == 0;
        const struct kn_piece piece = {.id = id_of(code),
                                       .is_suffix = is_suffix && !is_first,
                                       .begin = w->n_done,
                                       .n = (code & ((1u << LENGTH_BITS) - 1)) + 1 +
                                            (is_suffix && is_first ? w->m->suffix.n : 0)};
        if (piece.n > w->n_read - w->n_done)
            return KN_WORD_DAMAGED;
        if (!w->to->add(w->to->arg, &piece))
            return KN_WORD_FAILED;
        w->n_done += piece.n;
    }
    return KN_WORD_SPLIT;
}

/* Follows the failure link of the current node. */
static enum kn_word_result fall_back(struct walk *w)
{
    const uint32_t link = kn_vector_u32(&w->m->failures, (size_t)w->node, 0);
    const uint32_t range = kn_vector_u32(&w->m->failures, (size_t)w->node, 1);

    if (link == NOTHING)
        return KN_WORD_UNKNOWN;
    if (link >= w->m->trie.n || range == NOTHING)
        return KN_WORD_DAMAGED;
    w->node = link;
    return add_pieces(w, &w->m->pops, range >> LENGTH_BITS,
                      (range & ((1u << LENGTH_BITS) - 1)) + 1);
}

static bool is_end(const struct walk *w)
{
    return (w->node == w->m->suffix_root || w->node == w->m->punctuation) && w->n_done == w->n_read;
}

enum kn_word_result kn_wordpiece_split(const struct kn_wordpiece_model *m,
                                       const unsigned char *word, size_t n,
                                       const struct kn_piece_sink *to)
{
    struct walk w = {.m = m, .to = to};

    if ((int64_t)n > m->max_bytes)
        return KN_WORD_UNKNOWN;
    if (n == m->suffix.n && memcmp(word, m->suffix.p, n) == 0) {
        /* The unknown token, which stands for the whole word, is longer or shorter than it. */
        if (m->suffix_pieces.n == 1 &&
            id_of(kn_vector_u32(&m->suffix_pieces, 0, 0)) == m->unknown_id)
            return KN_WORD_UNKNOWN;
        w.n_read = n;
        const enum kn_word_result st = add_pieces(&w, &m->suffix_pieces, 0, m->suffix_pieces.n);
        return st || w.n_done == n ? st : KN_WORD_DAMAGED;
    }
    const struct kn_vector trie = m->trie;
    int64_t node = 0, child;
    for (size_t i = 0; i < n; i++, node = child) {
        if (i % READ_BYTES == READ_BYTES - 1 && !to->has_read(to->arg, READ_BYTES))
            return KN_WORD_FAILED;
        if (word[i] == 0)
            return KN_WORD_UNKNOWN;
        while ((child = kn_trie_child(&trie, node, word[i])) == KN_NO_NODE) {
            w.n_read = i;
            w.node = node;
            const enum kn_word_result st = fall_back(&w);
            if (st)
                return st;
            node = w.node;
        }
    }
    if (!to->has_read(to->arg, n % READ_BYTES))
        return KN_WORD_FAILED;
    w.n_read = n;
    w.node = node;
    while (!is_end(&w)) {
        const enum kn_word_result st = fall_back(&w);
        if (st)
            return st;
    }
    return KN_WORD_SPLIT;
}
