/* The lattice of all pieces of a text in a unigram model, from which the n best lists of pieces are
 * found, and lists are drawn by chance. */
#include "kernels/text/sentencepiece_encode.h"

#define NOBODY UINT32_MAX

/* A piece at its place in the text. Node 0 is the beginning of the text, and the last node its end.
 */
struct node {
    size_t begin, end;
    uint32_t id;
    uint32_t next;   /* the next node that ends at the same offset, or NOBODY */
    uint32_t before; /* the node before it on the best path, or NOBODY */
    float score;
    float best;    /* the largest sum of scores of a path from the beginning through this node */
    double weight; /* logarithm of the sum over these paths; see kn_sp_sample */
};

/* The nodes that end at an offset, and the first one that begins there. */
struct place {
    uint32_t first, last, begin;
};

struct lattice {
    struct node *nodes;
    uint32_t n;
    struct place *places;
};

/* ---- making the lattice ---- */

static bool add_node(struct kn_sp_coder *c, struct lattice *l, size_t begin, size_t end,
                     uint32_t id, float score)
{
    const struct node node = {
        .begin = begin, .end = end, .id = id, .next = NOBODY, .before = NOBODY, .score = score};
    struct place *at = &l->places[end];

    if (l->n == NOBODY - 1 || !kn_sp_add(c, &c->cells, &node, sizeof node))
        return false;
    l->nodes = (struct node *)(void *)c->cells.p;
    if (at->first == NOBODY)
        at->first = l->n;
    else
        l->nodes[at->last].next = l->n;
    at->last = l->n++;
    return true;
}

/* Adds the pieces that begin at an offset. */
static bool add_pieces(struct kn_sp_coder *c, struct lattice *l, size_t at)
{
    const struct kn_sp_model *m = c->m;
    const unsigned char *text = (const unsigned char *)c->text.p;
    const size_t size = c->text.n, length = kn_sp_char_length(text + at, text + size);
    bool has_single = false;
    size_t end = at, n_chars = 0, next_char = at;
    int64_t node = 0;
    uint32_t id;

    while (end < size && text[end]) {
        node = kn_trie_child(&m->found, node, text[end]);
        if (node == KN_NO_NODE)
            break;
        if (end == next_char) {
            n_chars++;
            next_char += kn_sp_char_length(text + end, text + size);
        }
        if (!kn_sp_tick(c, end++ - at))
            return false;
        if (!kn_trie_value(&m->found, node, &id) || m->pieces[id].type == KN_SP_UNUSED)
            continue;
        const float score = m->pieces[id].type == KN_SP_USER_DEFINED
                                ? (float)((double)((float)n_chars * m->max_score) - 0.1)
                                : m->pieces[id].score;
        if (!add_node(c, l, at, end, id, score))
            return false;
        has_single = has_single || end - at == length;
    }
    if (!kn_sp_spend(c, (int64_t)(16 + 8 * (end - at))))
        return false;
    return has_single || add_node(c, l, at, at + length, m->unknown, kn_sp_unknown_score(m));
}

/* Sets the best path through each node. */
static bool set_best(struct kn_sp_coder *c, struct lattice *l)
{
    for (uint32_t i = 1; i < l->n; i++) {
        struct node *right = &l->nodes[i];
        int64_t n = 0;
        for (uint32_t k = l->places[right->begin].first; k != NOBODY; k = l->nodes[k].next, n++) {
            const float score = l->nodes[k].best + right->score;
            if (right->before == NOBODY || score > right->best) {
                right->best = score;
                right->before = k;
            }
        }
        if (!kn_sp_spend(c, 4 * n))
            return false;
    }
    return true;
}

static bool make_lattice(struct kn_sp_coder *c, struct lattice *l)
{
    const unsigned char *text = (const unsigned char *)c->text.p;
    const size_t size = c->text.n;

    c->cells.n = 0;
    *l = (struct lattice){.places = kn_sp_array(c, &c->places, size + 1, sizeof *l->places)};
    if (!l->places)
        return false;
    for (size_t i = 0; i <= size; i++) {
        l->places[i] = (struct place){.first = NOBODY, .last = NOBODY};
        if (!kn_sp_tick(c, i))
            return false;
    }
    if (!add_node(c, l, 0, 0, 0, 0))
        return false;
    for (size_t at = 0; at < size; at += kn_sp_char_length(text + at, text + size))
        if (!add_pieces(c, l, at))
            return false;
    /* The end ends nowhere, but add_node needs a place: its place is left again. */
    const struct place last = l->places[size];
    if (!add_node(c, l, size, size, 0, 0))
        return false;
    if (last.first != NOBODY)
        l->nodes[last.last].next = NOBODY;
    l->places[size] = last;
    return set_best(c, l);
}

/* ---- the best lists ---- */

/* A path from a node to the end of the text. `total` is its score with the best path from the
 * beginning to the node, which is the score of the best list that contains the path. */
struct path {
    float total, score;
    uint32_t node, next; /* `next` is the path without this node */
};

enum { MAX_AGENDA = 100000, MIN_AGENDA = 512, AGENDA_FOR_EACH = 10 };

/*
 * The agenda is a binary heap of the indices of paths, whose first element has the largest total.
 * Elements move as in the heaps of the C++ standard library that TensorFlow is built with, because
 * the order of equal totals decides which of two equally good lists comes first.
 */
static void sift_up(const struct path *paths, uint32_t *heap, size_t at, uint32_t x)
{
    for (; at > 0 && paths[heap[(at - 1) / 2]].total < paths[x].total; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = x;
}

static uint32_t pop(const struct path *paths, uint32_t *heap, size_t *n)
{
    const uint32_t top = heap[0], moved = heap[--*n];
    size_t at = 0, child;

    for (; (child = 2 * at + 2) < *n; at = child) {
        child -= paths[heap[child]].total < paths[heap[child - 1]].total;
        heap[at] = heap[child];
    }
    if (child == *n) {
        heap[at] = heap[child - 1];
        at = child - 1;
    }
    sift_up(paths, heap, at, moved);
    return top;
}

static bool push_path(struct kn_sp_coder *c, const struct path *p)
{
    const uint32_t at = (uint32_t)(c->pairs.n / sizeof *p);

    if (at == NOBODY || !kn_sp_add(c, &c->pairs, p, sizeof *p) ||
        !kn_sp_add(c, &c->agenda, &at, sizeof at))
        return false;
    sift_up((const struct path *)(void *)c->pairs.p, (uint32_t *)(void *)c->agenda.p,
            c->agenda.n / sizeof at - 1, at);
    return true;
}

/* Keeps only the best paths of an agenda that has become too large. */
static bool shrink_agenda(struct kn_sp_coder *c, int64_t n_best)
{
    const int64_t wanted = n_best * AGENDA_FOR_EACH;
    const size_t n_kept = (size_t)(wanted < MIN_AGENDA ? wanted : MIN_AGENDA);
    const struct path *paths = (const struct path *)(void *)c->pairs.p;
    uint32_t kept[MIN_AGENDA];
    size_t n = c->agenda.n / sizeof *kept;

    for (size_t i = 0; i < n_kept; i++)
        kept[i] = pop(paths, (uint32_t *)(void *)c->agenda.p, &n);
    c->agenda.n = 0;
    return kn_sp_add(c, &c->agenda, kept, n_kept * sizeof *kept);
}

static bool add_list(struct kn_sp_coder *c, const struct lattice *l, uint32_t at)
{
    const struct path *paths = (const struct path *)(void *)c->pairs.p;
    struct kn_sp_list list = {.score = paths[at].total};

    for (uint32_t k = paths[at].next; paths[k].next != NOBODY; k = paths[k].next) {
        const struct node *node = &l->nodes[paths[k].node];
        if (!kn_sp_add_part(c, node->end - node->begin, node->id) || !kn_sp_spend(c, 16))
            return false;
    }
    list.end = c->parts.n / sizeof(struct kn_sp_part);
    return kn_sp_add(c, &c->lists, &list, sizeof list);
}

/* Extends a path by each node that ends where the path begins. */
static bool extend(struct kn_sp_coder *c, const struct lattice *l, uint32_t at, int64_t n_best)
{
    const struct path from = ((const struct path *)(void *)c->pairs.p)[at];
    const size_t begin = l->nodes[from.node].begin;

    for (uint32_t k = l->places[begin].first; k != NOBODY; k = l->nodes[k].next) {
        const struct path p = {.total = l->nodes[k].best + from.score,
                               .score = l->nodes[k].score + from.score,
                               .node = k,
                               .next = at};
        if (!push_path(c, &p) || !kn_sp_spend(c, 64))
            return false;
    }
    return c->agenda.n / sizeof(uint32_t) < MAX_AGENDA || shrink_agenda(c, n_best);
}

/* Adds the best list, which may differ from that of kn_sp_encode if there are several: sums are
 * rounded to single precision here before they are compared. */
static bool add_best(struct kn_sp_coder *c, const struct lattice *l)
{
    struct kn_sp_list list = {.score = l->n ? l->nodes[l->n - 1].best : 0};

    for (uint32_t k = l->n ? l->nodes[l->n - 1].before : 0; k != 0 && k != NOBODY;
         k = l->nodes[k].before)
        if (!kn_sp_add_part(c, l->nodes[k].end - l->nodes[k].begin, l->nodes[k].id) ||
            !kn_sp_spend(c, 4))
            return false;
    if (!kn_sp_reverse(c))
        return false;
    list.end = c->parts.n / sizeof(struct kn_sp_part);
    return kn_sp_add(c, &c->lists, &list, sizeof list);
}

bool kn_sp_nbest(struct kn_sp_coder *c, int64_t n)
{
    struct lattice l = {.n = 0};

    c->parts.n = c->lists.n = c->pairs.n = c->agenda.n = 0;
    if (c->text.n && !make_lattice(c, &l))
        return false;
    if (n <= 1 || c->text.n == 0)
        return add_best(c, &l);
    const struct path end = {.node = l.n - 1, .next = NOBODY};
    if (!push_path(c, &end))
        return false;
    while (c->agenda.n) {
        size_t size = c->agenda.n / sizeof(uint32_t);
        const uint32_t at =
            pop((const struct path *)(void *)c->pairs.p, (uint32_t *)(void *)c->agenda.p, &size);
        c->agenda.n = size * sizeof(uint32_t);
        if (((const struct path *)(void *)c->pairs.p)[at].node != 0) {
            if (!extend(c, &l, at, n))
                return false;
            continue;
        }
        if (!add_list(c, &l, at))
            return false;
        if ((int64_t)(c->lists.n / sizeof(struct kn_sp_list)) == n)
            break;
    }
    return true;
}

/* ---- drawing by chance ---- */

/* Returns the logarithm of exp(a) + exp(b). */
static double log_sum(double a, double b)
{
    const double high = a > b ? a : b, low = a > b ? b : a;

    return isfinite(low) ? high + log1p(exp(low - high)) : high;
}

/* Sets *out to a node that is drawn among those that end at an offset, in proportion to their
 * weights. */
static bool draw(struct kn_sp_coder *c, const struct lattice *l, size_t at, double alpha,
                 double total, uint32_t *out)
{
    double rest = kn_single_double(&c->random);

    *out = l->places[at].first;
    for (uint32_t k = *out; k != NOBODY; k = l->nodes[k].next) {
        *out = k;
        rest -= exp(l->nodes[k].weight + alpha * (double)l->nodes[k].score - total);
        if (rest < 0)
            break;
        if (!kn_sp_spend(c, 64))
            return false;
    }
    return true;
}

static bool sample_unigram(struct kn_sp_coder *c, double alpha)
{
    struct lattice l;

    if (c->text.n == 0)
        return true;
    if (!make_lattice(c, &l))
        return false;
    for (uint32_t i = 1; i < l.n; i++) {
        struct node *right = &l.nodes[i];
        right->weight = -INFINITY;
        for (uint32_t k = l.places[right->begin].first; k != NOBODY; k = l.nodes[k].next) {
            right->weight =
                log_sum(right->weight, l.nodes[k].weight + alpha * (double)l.nodes[k].score);
            if (!kn_sp_spend(c, 64))
                return false;
        }
    }
    for (uint32_t at = l.n - 1;;) {
        if (!draw(c, &l, l.nodes[at].begin, alpha, l.nodes[at].weight, &at))
            return false;
        if (at == 0 || at == NOBODY)
            break;
        if (!kn_sp_add_part(c, l.nodes[at].end - l.nodes[at].begin, l.nodes[at].id) ||
            !kn_sp_spend(c, 16))
            return false;
    }
    return kn_sp_reverse(c);
}

bool kn_sp_sample(struct kn_sp_coder *c, float alpha)
{
    c->parts.n = 0;
    return c->m->kind == KN_SP_BPE ? kn_sp_merge(c, alpha) : sample_unigram(c, (double)alpha);
}
