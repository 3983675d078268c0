#include "kernels/text/trie_builder.h"

#include "runtime/base/sort.h"

#include <stdlib.h>

enum {
    BLOCK = 256,         /* units that are added at a time */
    WINDOW = 16 * BLOCK, /* the last units, which alone are searched for free ones */
    MAX_TRIES = 512,     /* free units at which a node's children are tried */
    NEAR = 1 << 21,      /* limit of an offset that counts single units */
    MAX_UNITS = 1 << 29, /* limit of an offset that counts blocks */
    MIN_LIMIT = 1 << 12,
    GROWTH = 8 /* maximum number of units, and of units per byte of the keys */
};
#define NONE UINT32_MAX

/* A unit while the trie is built. Free units of the window are linked in ascending order. */
struct slot {
    uint32_t next, before;
    bool is_used;
    bool is_base; /* whether the children of a node are found from this unit */
};

/* The keys from `begin` up to `end`, which agree in their first `depth` bytes, and their node. */
struct range {
    size_t begin, end, depth;
    uint32_t node;
};

struct builder {
    const struct kn_trie_key *keys;
    uint32_t *units;
    struct slot *slots;
    size_t n, capacity, limit;
    uint32_t first, last; /* the linked free units */
    struct range *stack;
    size_t n_stack;
};

static int compare(const void *a, const void *b)
{
    const struct rt_span x = ((const struct kn_trie_key *)a)->text,
                         y = ((const struct kn_trie_key *)b)->text;
    const int order = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);

    return order ? order : (x.n > y.n) - (x.n < y.n);
}

/* ---- free units ---- */

static void unlink_slot(struct builder *b, uint32_t at)
{
    const struct slot s = b->slots[at];

    if (s.before == NONE)
        b->first = s.next;
    else
        b->slots[s.before].next = s.next;
    if (s.next == NONE)
        b->last = s.before;
    else
        b->slots[s.next].before = s.before;
}

static bool grow(struct builder *b)
{
    const size_t capacity = b->capacity ? b->capacity * 2 : MIN_LIMIT;
    uint32_t *units = realloc(b->units, capacity * sizeof *units);

    if (units)
        b->units = units;
    struct slot *slots = units ? realloc(b->slots, capacity * sizeof *slots) : NULL;
    if (!slots)
        return false;
    b->slots = slots;
    b->capacity = capacity;
    return true;
}

/* Adds a block of free units, and leaves the free units before the window as they are. */
static bool add_block(struct builder *b)
{
    if (b->n + BLOCK > b->capacity && !grow(b))
        return false;
    for (size_t i = b->n; i < b->n + BLOCK; i++) {
        b->units[i] = KN_TRIE_IS_VALUE; /* matches no byte */
        b->slots[i] = (struct slot){.next = NONE, .before = b->last};
        if (b->last == NONE)
            b->first = (uint32_t)i;
        else
            b->slots[b->last].next = (uint32_t)i;
        b->last = (uint32_t)i;
    }
    b->n += BLOCK;
    while (b->n > WINDOW && b->first < b->n - WINDOW)
        unlink_slot(b, b->first);
    return true;
}

/* Uses a unit. A free unit before the window is not linked, and never used. */
static void use(struct builder *b, uint32_t at)
{
    unlink_slot(b, at);
    b->slots[at].is_used = true;
}

/* Returns whether a node's children with these labels may be found from the unit `base`. */
static bool fits(const struct builder *b, uint32_t node, uint32_t base, const unsigned char *labels,
                 size_t n)
{
    const uint32_t offset = base ^ node;

    if (b->slots[base].is_base || (offset >= NEAR && offset % BLOCK))
        return false;
    for (size_t i = 0; i < n; i++)
        if (b->slots[base ^ labels[i]].is_used)
            return false;
    return true;
}

/* Finds a base for a node's children, and makes their units used. Returns NONE if the limit of
 * units is reached or memory runs out. */
static uint32_t place(struct builder *b, uint32_t node, const unsigned char *labels, size_t n)
{
    uint32_t base = NONE, at = b->first;

    for (int tries = 0; at != NONE && tries < MAX_TRIES; at = b->slots[at].next, tries++)
        if (fits(b, node, at ^ labels[0], labels, n)) {
            base = at ^ labels[0];
            break;
        }
    if (base == NONE) {
        if (b->n + BLOCK > b->limit || !add_block(b))
            return NONE;
        base = (uint32_t)(b->n - BLOCK) ^ node % BLOCK;
    }
    b->slots[base].is_base = true;
    for (size_t i = 0; i < n; i++)
        use(b, base ^ labels[i]);
    return base;
}

/* ---- nodes ---- */

/* Makes the children of a node, and pushes those that have children themselves. */
static bool expand(struct builder *b, struct range x)
{
    unsigned char labels[BLOCK];
    size_t n = 0, end = x.begin;
    const bool has_value = b->keys[x.begin].text.n == x.depth;

    if (has_value)
        labels[n++] = 0;
    for (size_t i = x.begin + has_value; i < x.end; i++)
        if (n == 0 || labels[n - 1] != b->keys[i].text.p[x.depth])
            labels[n++] = b->keys[i].text.p[x.depth];
    const uint32_t base = place(b, x.node, labels, n);
    if (base == NONE)
        return false;
    const uint32_t offset = base ^ x.node;
    b->units[x.node] |=
        offset < NEAR ? offset << KN_TRIE_OFFSET_SHIFT
                      : (offset >> KN_TRIE_FAR_SHIFT) << KN_TRIE_OFFSET_SHIFT | KN_TRIE_IS_FAR;
    if (has_value) {
        b->units[x.node] |= KN_TRIE_HAS_VALUE;
        b->units[base] = KN_TRIE_IS_VALUE | b->keys[x.begin].value;
        end++;
    }
    for (size_t i = has_value; i < n; i++) {
        const size_t begin = end;
        while (end < x.end && b->keys[end].text.p[x.depth] == labels[i])
            end++;
        b->units[base ^ labels[i]] = labels[i];
        b->stack[b->n_stack++] = (struct range){begin, end, x.depth + 1, base ^ labels[i]};
    }
    return true;
}

enum rt_status kn_trie_build(struct kn_trie_key *keys, size_t n, const char *what,
                             struct kn_vector *out, struct rt_error *err)
{
    struct builder b = {.keys = keys, .first = NONE, .last = NONE};
    size_t bytes = 0;
    enum rt_status st = RT_OK;

    *out = (struct kn_vector){.size = sizeof *b.units};
    if (n == 0)
        return RT_OK;
    st = rt_sort_alloc(keys, n, sizeof *keys, compare, what, NULL, err);
    if (st)
        return st;
    for (size_t i = 0; i < n; i++) {
        bytes += keys[i].text.n;
        if (i > 0 && rt_span_eq(keys[i - 1].text, keys[i].text))
            return rt_fail(err, RT_INTERNAL, "%s: %.*s is already defined.", what,
                           (int)(keys[i].text.n < 64 ? keys[i].text.n : 64),
                           (const char *)keys[i].text.p);
    }
    b.limit = bytes < (MAX_UNITS - MIN_LIMIT) / GROWTH ? MIN_LIMIT + GROWTH * bytes : MAX_UNITS;
    /* The ranges on the stack are disjoint, so there are at most n of them. */
    b.stack = malloc(n * sizeof *b.stack);
    if (!b.stack || !add_block(&b)) {
        st = rt_fail_memory(err, what, n * sizeof *b.stack);
        goto done;
    }
    use(&b, 0);
    b.units[0] = 0;
    b.stack[b.n_stack++] = (struct range){.end = n};
    while (b.n_stack && !st)
        if (!expand(&b, b.stack[--b.n_stack]))
            st = rt_fail(err, RT_RESOURCE_EXHAUSTED, "%s needs more than %zu units", what, b.n);
    if (!st) {
        out->p = (unsigned char *)b.units;
        out->n = b.n;
        b.units = NULL;
    }
done:
    free(b.stack);
    free(b.slots);
    free(b.units);
    return st;
}
