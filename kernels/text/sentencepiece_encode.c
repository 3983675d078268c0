#include "kernels/text/sentencepiece_encode.h"

static struct rt_span text_of(const struct kn_sp_coder *c)
{
    return rt_span_of(c->text.p, c->text.n);
}

bool kn_sp_add_part(struct kn_sp_coder *c, size_t n, uint32_t id)
{
    const struct kn_sp_part part = {.n = n, .id = id};

    return kn_sp_add(c, &c->parts, &part, sizeof part);
}

/* ---- unigram models: the list of pieces with the largest sum of scores ---- */

#define NOWHERE SIZE_MAX

/* The best list of pieces that ends at an offset. */
struct cell {
    size_t start; /* where its last piece begins, or NOWHERE */
    uint32_t id;  /* of its last piece */
    float score;
};

/* Offers the piece from `start` to the cell at its end. The sum is formed in double precision for
 * pieces of the vocabulary, as SentencePiece does it, so that ties are decided alike. */
static inline void offer(struct cell *to, size_t start, uint32_t id, double score)
{
    if (to->start == NOWHERE || score > (double)to->score)
        *to = (struct cell){.start = start, .id = id, .score = (float)score};
}

/* Offers all pieces that begin at offset `at`. */
static bool offer_pieces(struct kn_sp_coder *c, struct cell *cells, size_t at, size_t char_length)
{
    const struct kn_sp_model *m = c->m;
    const struct rt_span text = text_of(c);
    const double before = (double)cells[at].score;
    bool has_single = false;
    int64_t node = 0;
    size_t i = at;
    uint32_t id;

    while (i < text.n && text.p[i]) {
        node = kn_trie_child(&m->found, node, text.p[i]);
        if (node == KN_NO_NODE)
            break;
        if (!kn_sp_tick(c, i++ - at))
            return false;
        if (!kn_trie_value(&m->found, node, &id))
            continue;
        const struct kn_sp_piece *p = &m->pieces[id];
        if (p->type == KN_SP_UNUSED)
            continue;
        const double score = p->type == KN_SP_USER_DEFINED
                                 ? (double)((float)(i - at) * m->max_score) - 0.1
                                 : (double)p->score;
        offer(&cells[i], at, id, score + before);
        has_single = has_single || i - at == char_length;
    }
    if (!has_single) {
        const float score = kn_sp_unknown_score(m) + cells[at].score;
        offer(&cells[at + char_length], at, m->unknown, (double)score);
    }
    return kn_sp_spend(c, (int64_t)(8 + 8 * (i - at)));
}

bool kn_sp_reverse(struct kn_sp_coder *c)
{
    struct kn_sp_part *p = (struct kn_sp_part *)(void *)c->parts.p;
    const size_t n = c->parts.n / sizeof *p;

    for (size_t i = 0; i < n / 2; i++) {
        const struct kn_sp_part x = p[i];
        p[i] = p[n - 1 - i];
        p[n - 1 - i] = x;
        if (!kn_sp_tick(c, i))
            return false;
    }
    return kn_sp_spend(c, (int64_t)n);
}

static bool encode_unigram(struct kn_sp_coder *c)
{
    const struct rt_span text = text_of(c);
    struct cell *cells = kn_sp_array(c, &c->cells, text.n + 1, sizeof *cells);

    if (!cells)
        return false;
    for (size_t i = 0; i <= text.n; i++) {
        cells[i].start = NOWHERE;
        if (!kn_sp_tick(c, i))
            return false;
    }
    cells[0].score = 0;
    for (size_t i = 0, n; i < text.n; i += n) {
        n = kn_sp_char_length(text.p + i, text.p + text.n);
        if (!offer_pieces(c, cells, i, n))
            return false;
    }
    for (size_t end = text.n; end > 0; end = cells[end].start)
        if (!kn_sp_add_part(c, end - cells[end].start, cells[end].id) || !kn_sp_spend(c, 4))
            return false;
    return kn_sp_reverse(c);
}

/* ---- models of byte pairs: neighbours are merged, those with the largest score first ---- */

#define NOBODY UINT32_MAX

struct symbol {
    uint32_t before, after; /* neighbours */
    size_t begin, n;        /* n is 0 if the symbol has been merged into the one before it */
    bool is_fixed;          /* a symbol that the user defined, which is not merged */
};

struct pair {
    float score;
    uint32_t left, right;
    size_t n; /* sum of the lengths of both symbols */
};

static bool is_better(const struct pair *a, const struct pair *b)
{
    return a->score > b->score || (a->score == b->score && a->left < b->left);
}

/* The pairs form a heap, whose first element is the best. */
static bool push_pair(struct kn_sp_coder *c, const struct pair *p)
{
    if (!kn_sp_add(c, &c->pairs, p, sizeof *p))
        return false;
    struct pair *heap = (struct pair *)(void *)c->pairs.p;
    size_t at = c->pairs.n / sizeof *p - 1;
    for (; at > 0 && is_better(p, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = *p;
    return true;
}

static struct pair pop_pair(struct kn_sp_coder *c)
{
    struct pair *heap = (struct pair *)(void *)c->pairs.p;
    const size_t n = c->pairs.n / sizeof *heap - 1;
    const struct pair best = heap[0], moved = heap[n];
    size_t at = 0, child;

    for (; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && is_better(&heap[child + 1], &heap[child]);
        if (!is_better(&heap[child], &moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
    c->pairs.n = n * sizeof *heap;
    return best;
}

/* Adds the pair of two neighbours if it is a piece. */
static bool offer_pair(struct kn_sp_coder *c, const struct symbol *symbols, uint32_t left,
                       uint32_t right)
{
    uint32_t id;

    if (left == NOBODY || right == NOBODY || symbols[left].is_fixed || symbols[right].is_fixed)
        return true;
    const struct pair p = {.left = left, .right = right, .n = symbols[left].n + symbols[right].n};
    const struct rt_span text = rt_span_of(c->text.p + symbols[left].begin, p.n);
    if (!kn_sp_spend(c, (int64_t)(8 + 3 * p.n)) || !kn_sp_find(c, &c->m->found, text, &id))
        return false;
    if (id == KN_SP_NO_ID)
        return true;
    if (c->splits.n && c->m->pieces[id].type == KN_SP_UNUSED)
        memcpy(c->splits.p + id * sizeof(size_t), &symbols[left].n, sizeof(size_t));
    struct pair scored = p;
    scored.score = c->m->pieces[id].score;
    return push_pair(c, &scored);
}

/* Divides the text into characters and symbols that the user defined. Returns their number, or
 * NOBODY on failure. */
static uint32_t make_symbols(struct kn_sp_coder *c)
{
    const struct rt_span text = text_of(c);
    uint32_t n = 0;

    c->cells.n = 0;
    for (size_t at = 0; at < text.n; n++) {
        struct symbol s = {.before = n - 1, .after = n + 1, .begin = at};
        uint32_t id;
        if (!kn_sp_longest(c, &c->m->symbols, text.p + at, text.p + text.n, &s.n, &id))
            return NOBODY;
        s.is_fixed = s.n > 0;
        if (!s.is_fixed)
            s.n = kn_sp_char_length(text.p + at, text.p + text.n);
        at += s.n;
        if (at == text.n)
            s.after = NOBODY;
        if (n == NOBODY - 1 || !kn_sp_add(c, &c->cells, &s, sizeof s) ||
            !kn_sp_spend(c, (int64_t)(8 + s.n)))
            return NOBODY;
    }
    return n;
}

/* Adds the piece from `begin`. An unused piece is divided again into the pieces from which it was
 * merged; c->splits has the length of the first of them by the id. */
static bool add_merged(struct kn_sp_coder *c, size_t begin, size_t n)
{
    struct item {
        size_t begin, n;
    } item = {begin, n};

    c->pending.n = 0;
    if (!kn_sp_add(c, &c->pending, &item, sizeof item))
        return false;
    while (c->pending.n) {
        c->pending.n -= sizeof item;
        memcpy(&item, c->pending.p + c->pending.n, sizeof item);
        uint32_t id;
        size_t first = 0;
        if (!kn_sp_id(c, rt_span_of(c->text.p + item.begin, item.n), &id) ||
            !kn_sp_spend(c, (int64_t)(8 + 2 * item.n)))
            return false;
        if (c->splits.n && c->m->pieces[id].type == KN_SP_UNUSED)
            memcpy(&first, c->splits.p + id * sizeof first, sizeof first);
        if (first == 0 || first >= item.n) {
            if (!kn_sp_add_part(c, item.n, id))
                return false;
            continue;
        }
        const struct item left = {item.begin, first}, right = {item.begin + first, item.n - first};
        if (!kn_sp_add(c, &c->pending, &right, sizeof right) ||
            !kn_sp_add(c, &c->pending, &left, sizeof left))
            return false;
    }
    return true;
}

/* Makes room for the lengths that add_merged needs, if the model has unused pieces. */
static bool make_splits(struct kn_sp_coder *c)
{
    if (!c->m->has_unused || c->splits.n)
        return true;
    size_t *lengths = kn_sp_array(c, &c->splits, c->m->n, sizeof *lengths);
    for (size_t i = 0; i < c->m->n && lengths; i++) {
        lengths[i] = 0;
        if (!kn_sp_tick(c, i))
            return false;
    }
    if (lengths)
        c->splits.n = c->m->n * sizeof *lengths;
    return lengths != NULL;
}

bool kn_sp_merge(struct kn_sp_coder *c, float skip)
{
    const uint32_t n = make_symbols(c);
    struct symbol *s = (struct symbol *)(void *)c->cells.p;

    c->pairs.n = 0;
    if (n == NOBODY || !make_splits(c))
        return false;
    for (uint32_t i = 1; i < n; i++)
        if (!offer_pair(c, s, i - 1, i))
            return false;
    while (c->pairs.n) {
        const struct pair p = pop_pair(c);
        struct symbol *left = &s[p.left], *right = &s[p.right];
        if (!kn_sp_spend(c, 32))
            return false;
        if (left->n == 0 || right->n == 0 || left->n + right->n != p.n)
            continue; /* one of the two has been merged since */
        if (skip > 0 && kn_single_double(&c->random) < (double)skip)
            continue;
        left->n = p.n;
        left->after = right->after;
        right->n = 0;
        if (right->after != NOBODY)
            s[right->after].before = p.left;
        if (!offer_pair(c, s, left->before, p.left) || !offer_pair(c, s, p.left, left->after))
            return false;
    }
    for (uint32_t i = 0; i < n; i = s[i].after) {
        if (!add_merged(c, s[i].begin, s[i].n))
            return false;
        if (s[i].after == NOBODY)
            break;
    }
    return true;
}

/* ---- models of words and of characters ---- */

static bool encode_words(struct kn_sp_coder *c)
{
    const struct rt_span text = text_of(c);
    const size_t n_space = strlen(KN_SP_SPACE);
    size_t n_chars = 0;
    uint32_t id;

    for (size_t begin = 0, end, n; begin < text.n; begin = end) {
        for (end = begin; end < text.n; end += n) {
            n = kn_sp_char_length(text.p + end, text.p + text.n);
            if (end > begin && n == n_space && memcmp(text.p + end, KN_SP_SPACE, n) == 0)
                break;
            if (!kn_sp_tick(c, n_chars++))
                return false;
        }
        n = end - begin;
        if (!kn_sp_id(c, rt_span_of(text.p + begin, n), &id) || !kn_sp_add_part(c, n, id) ||
            !kn_sp_spend(c, (int64_t)(8 + 8 * n)))
            return false;
    }
    return true;
}

static bool encode_chars(struct kn_sp_coder *c)
{
    const struct rt_span text = text_of(c);

    for (size_t at = 0, n; at < text.n; at += n) {
        uint32_t id;
        if (!kn_sp_longest(c, &c->m->symbols, text.p + at, text.p + text.n, &n, &id))
            return false;
        if (n == 0)
            n = kn_sp_char_length(text.p + at, text.p + text.n);
        if (!kn_sp_id(c, rt_span_of(text.p + at, n), &id) || !kn_sp_add_part(c, n, id) ||
            !kn_sp_spend(c, (int64_t)(8 + 8 * n)))
            return false;
    }
    return true;
}

bool kn_sp_encode(struct kn_sp_coder *c)
{
    c->parts.n = 0;
    switch (c->m->kind) {
    case KN_SP_UNIGRAM:
        return encode_unigram(c);
    case KN_SP_BPE:
        return kn_sp_merge(c, 0);
    case KN_SP_WORD:
        return encode_words(c);
    case KN_SP_CHAR:
        break;
    }
    return encode_chars(c);
}
