#include "kernels/text/trie_builder.h"

#include "runtime/base/sort.h"
#include "runtime/core/copy.h"
#include "runtime/core/pool.h"

enum {
    BLOCK = 256,         /* units that are added at a time */
    WINDOW = 16 * BLOCK, /* the last units, which alone are searched for free ones */
    MAX_TRIES = 512,     /* free units at which a node's children are tried */
    NEAR = 1 << 21,      /* limit of an offset that counts single units */
    MAX_UNITS = 1 << 29, /* limit of an offset that counts blocks */
    MIN_LIMIT = 1 << 12,
    GROWTH = 8,        /* maximum number of units, and of units per byte of the keys */
    CHECKED = 1 << 14, /* steps between two checks */
};
#define NONE UINT32_MAX

/* A unit of the window while the trie is built. Free units are linked in ascending order. */
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
    const struct rt_make *make;
    const char *what;
    const struct kn_trie_key *keys;
    uint32_t *units;
    struct slot *slots; /* a ring of WINDOW slots: unit i of the window has slot i % WINDOW */
    size_t n, capacity, limit;
    uint32_t first, last; /* the linked free units */
    struct range *stack;
    size_t n_stack;
    size_t n_unchecked; /* number of steps since the last check */
};

static int compare(const void *a, const void *b)
{
    const struct rt_span x = ((const struct kn_trie_key *)a)->text,
                         y = ((const struct kn_trie_key *)b)->text;
    const int order = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);

    return order ? order : (x.n > y.n) - (x.n < y.n);
}

/* Counts n steps, and calls the check after every CHECKED steps. */
static inline enum rt_status spend(struct builder *b, size_t n)
{
    b->n_unchecked += n;
    if (b->n_unchecked < CHECKED)
        return RT_OK;
    b->n_unchecked = 0;
    return rt_check_call(b->make->check, b->make->err);
}

/* Allocates memory for n elements, and has the check look at the memory that the session now holds
 * before any of it is written. */
static enum rt_status allocate(const struct builder *b, size_t n, size_t size, void *out)
{
    void *p = rt_pool_alloc(b->make->pool, n * size, b->what, b->make->err);
    const enum rt_status st = p ? rt_check_call(b->make->check, b->make->err) : b->make->err->code;

    if (st) {
        rt_pool_free(p);
        return st;
    }
    memcpy(out, &p, sizeof p);
    return RT_OK;
}

/* ---- free units ---- */

static struct slot *slot_of(const struct builder *b, size_t at)
{
    return &b->slots[at % WINDOW];
}

static void unlink_slot(struct builder *b, uint32_t at)
{
    const struct slot s = *slot_of(b, at);

    if (s.before == NONE)
        b->first = s.next;
    else
        slot_of(b, s.before)->next = s.next;
    if (s.next == NONE)
        b->last = s.before;
    else
        slot_of(b, s.next)->before = s.before;
}

static enum rt_status resize(struct builder *b, size_t capacity)
{
    uint32_t *units;
    enum rt_status st = allocate(b, capacity, sizeof *units, &units);

    if (st)
        return st;
    if (b->n)
        st = rt_copy_elements_checked(RT_I32, units, b->units, (int64_t)b->n, b->make->check,
                                      b->make->err);
    if (st) {
        rt_pool_free(units);
        return st;
    }
    rt_pool_free(b->units);
    b->units = units;
    b->capacity = capacity;
    return RT_OK;
}

/* Adds a block of free units, and leaves the free units before the window as they are. */
static enum rt_status add_block(struct builder *b)
{
    const size_t end = b->n + BLOCK, larger = b->capacity + b->capacity / 2;

    if (end > b->limit)
        return rt_fail(b->make->err, RT_RESOURCE_EXHAUSTED, "%s needs more than %zu units", b->what,
                       b->n);
    if (end > b->capacity) {
        const size_t wanted = larger > MIN_LIMIT ? larger : MIN_LIMIT;
        const enum rt_status st = resize(b, wanted < b->limit ? wanted : b->limit);
        if (st)
            return st;
    }
    while (end > WINDOW && b->first < end - WINDOW)
        unlink_slot(b, b->first);
    for (size_t i = b->n; i < end; i++) {
        b->units[i] = KN_TRIE_IS_VALUE; /* matches no byte */
        *slot_of(b, i) = (struct slot){.next = NONE, .before = b->last};
        if (b->last == NONE)
            b->first = (uint32_t)i;
        else
            slot_of(b, b->last)->next = (uint32_t)i;
        b->last = (uint32_t)i;
    }
    b->n = end;
    return RT_OK;
}

/* Uses a unit. A free unit before the window is not linked, and never used. */
static void use(struct builder *b, uint32_t at)
{
    unlink_slot(b, at);
    slot_of(b, at)->is_used = true;
}

/* Returns whether a node's children with these labels may be found from the unit `base`. */
static bool fits(const struct builder *b, uint32_t node, uint32_t base, const unsigned char *labels,
                 size_t n)
{
    const uint32_t offset = base ^ node;

    if (slot_of(b, base)->is_base || (offset >= NEAR && offset % BLOCK))
        return false;
    for (size_t i = 0; i < n; i++)
        if (slot_of(b, base ^ labels[i])->is_used)
            return false;
    return true;
}

/* Finds a base for a node's children, and makes their units used. */
static enum rt_status place(struct builder *b, uint32_t node, const unsigned char *labels, size_t n,
                            uint32_t *out)
{
    uint32_t base = NONE, at = b->first;
    int tries = 0;
    enum rt_status st = RT_OK;

    for (; at != NONE && tries < MAX_TRIES; at = slot_of(b, at)->next, tries++)
        if (fits(b, node, at ^ labels[0], labels, n)) {
            base = at ^ labels[0];
            break;
        }
    if (base == NONE) {
        st = add_block(b);
        if (st)
            return st;
        base = (uint32_t)(b->n - BLOCK) ^ node % BLOCK;
    }
    slot_of(b, base)->is_base = true;
    for (size_t i = 0; i < n; i++)
        use(b, base ^ labels[i]);
    *out = base;
    return spend(b, (size_t)tries + n);
}

/* ---- nodes ---- */

/* Makes the children of a node, and pushes those that have children themselves. */
static enum rt_status expand(struct builder *b, struct range x)
{
    unsigned char labels[BLOCK];
    size_t n = 0, end = x.begin;
    uint32_t base;
    const bool has_value = b->keys[x.begin].text.n == x.depth;
    enum rt_status st = RT_OK;

    if (has_value)
        labels[n++] = 0;
    for (size_t i = x.begin + has_value; i < x.end && !st; i++) {
        if (n == 0 || labels[n - 1] != b->keys[i].text.p[x.depth])
            labels[n++] = b->keys[i].text.p[x.depth];
        st = spend(b, 1);
    }
    if (!st)
        st = place(b, x.node, labels, n, &base);
    if (st)
        return st;
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
        for (; end < x.end && b->keys[end].text.p[x.depth] == labels[i]; end++)
            if ((st = spend(b, 1)) != RT_OK)
                return st;
        b->units[base ^ labels[i]] = labels[i];
        b->stack[b->n_stack++] = (struct range){begin, end, x.depth + 1, base ^ labels[i]};
    }
    return RT_OK;
}

/* Sorts the keys, refuses keys that are equal, and sets the limit of units. */
static enum rt_status sort_keys(struct builder *b, struct kn_trie_key *keys, size_t n)
{
    struct rt_error *err = b->make->err;
    struct kn_trie_key *workspace = NULL;
    size_t bytes = 0;
    enum rt_status st = n > RT_SORT_RUN ? allocate(b, n, sizeof *keys, &workspace) : RT_OK;

    if (!st)
        st = rt_sort(keys, workspace, n, sizeof *keys, compare, b->make->check, err);
    rt_pool_free(workspace);
    for (size_t i = 0; i < n && !st; i++) {
        bytes += keys[i].text.n;
        st = spend(b, 1);
        if (!st && i > 0 && rt_span_eq(keys[i - 1].text, keys[i].text))
            st = rt_fail(err, RT_INTERNAL, "%s: %.*s is already defined.", b->what,
                         (int)(keys[i].text.n < 64 ? keys[i].text.n : 64),
                         (const char *)keys[i].text.p);
    }
    b->limit = bytes < (MAX_UNITS - MIN_LIMIT) / GROWTH ? MIN_LIMIT + GROWTH * bytes : MAX_UNITS;
    return st;
}

enum rt_status kn_trie_build(const struct rt_make *make, struct kn_trie_key *keys, size_t n,
                             const char *what, struct kn_vector *out)
{
    struct builder b = {.make = make, .what = what, .keys = keys, .first = NONE, .last = NONE};
    enum rt_status st = RT_OK;

    *out = (struct kn_vector){.size = sizeof *b.units};
    if (n == 0)
        return RT_OK;
    st = sort_keys(&b, keys, n);
    if (!st)
        st = allocate(&b, WINDOW, sizeof *b.slots, &b.slots);
    /* The ranges on the stack are disjoint, so there are at most n of them. */
    if (!st)
        st = allocate(&b, n, sizeof *b.stack, &b.stack);
    if (!st)
        st = add_block(&b);
    if (!st) {
        use(&b, 0);
        b.units[0] = 0;
        b.stack[b.n_stack++] = (struct range){.end = n};
    }
    while (b.n_stack && !st)
        st = expand(&b, b.stack[--b.n_stack]);
    if (!st && b.capacity - b.n > b.n / 8)
        st = resize(&b, b.n);
    if (!st) {
        out->p = (unsigned char *)b.units;
        out->n = b.n;
        b.units = NULL;
    }
    rt_pool_free(b.stack);
    rt_pool_free(b.slots);
    rt_pool_free(b.units);
    return st;
}
