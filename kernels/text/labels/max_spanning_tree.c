/*
 * MaxSpanningTree of TensorFlow Text finds the tree, or the forest, with the largest sum of scores
 * in a digraph (Chu-Liu/Edmonds): scores[t][s] is the score of the arc from source s to t, and
 * scores[t][t] that of t as a root.
 *
 * For each node in turn, the best arc into it is chosen. Where chosen arcs form a cycle, its nodes
 * become a new node; an arc into it replaces the chosen one of its target, whose score is
 * subtracted from its own. At the end the cycles are opened, the last one first. That takes time
 * and memory of the square of the number of nodes.
 */
#include <math.h>

#include "kernels/entry.h"
#include "kernels/text/tokens.h"

enum { COST = 6, NONE = -1 };

/* An arc. The root arc of a node comes from the source n. */
struct arc {
    double score;
    int32_t n_roots; /* root arcs in the place of others; trees have as few as possible */
    int32_t source, target;
};

/* A node of the digraph, or one that consists of a cycle. */
struct node {
    struct arc best;         /* the arc that was chosen */
    struct arc *in;          /* the best arc from each source; target is NONE if there is none */
    int32_t parent;          /* the node that consists of a cycle with this one, or NONE */
    int32_t members, next;   /* the first member, and the next member of the parent, or NONE */
    bool is_chosen, is_last; /* is_last: of the cycle that is found now */
};

struct digraph {
    struct rt_run *r;
    int64_t *left;
    int32_t n;         /* nodes, without those that consist of cycles */
    int32_t n_all;     /* nodes */
    struct node *node; /* room for 2 n */
    int32_t *top;      /* of each node, the outermost node that it belongs to */
    struct arc *arcs;
    bool is_forest;
};

static enum rt_status infeasible(const struct digraph *g)
{
    return rt_fail(g->r->err, RT_FAILED_PRECONDITION, "Infeasible digraph");
}

/* Of equal arcs, the later one is better. */
static bool is_better(const struct arc *a, const struct arc *b)
{
    if (b->target == NONE)
        return true;
    return a->n_roots != b->n_roots ? a->n_roots < b->n_roots : a->score >= b->score;
}

/* Chooses the best arc into node c, trying the root arc first. */
static enum rt_status choose(struct digraph *g, int32_t c)
{
    struct node *to = &g->node[c];

    to->best = to->in[g->n];
    for (int32_t s = 0; s < g->n; s++)
        if (to->in[s].target != NONE && g->top[s] != c && is_better(&to->in[s], &to->best))
            to->best = to->in[s];
    to->is_chosen = true;
    if (to->best.target == NONE)
        return infeasible(g);
    return rt_run_spend(g->r, g->left, (int64_t)COST * g->n);
}

/* Returns the node that the chosen arc into node c comes from, or NONE. */
static int32_t before(const struct digraph *g, int32_t c)
{
    const int32_t s = g->node[c].best.source;

    return s == g->n || !g->node[g->top[s]].is_chosen ? NONE : g->top[s];
}

/* Lets `to` have the better ones of its arcs and those of node k, relative to k's chosen arc. */
static void merge(const struct digraph *g, struct arc *to, int32_t k)
{
    const struct node *from = &g->node[k];

    for (int32_t s = 0; s <= g->n; s++) {
        struct arc a = from->in[s];
        if (a.target == NONE)
            continue;
        a.score -= from->best.score;
        a.n_roots -= from->best.n_roots;
        if (to == from->in || is_better(&a, &to[s]))
            to[s] = a;
    }
}

/* If the chosen arcs form a cycle with node c, makes a node of it and sets *made to that, and
 * otherwise to NONE. */
static enum rt_status contract(struct digraph *g, int32_t c, int32_t *made)
{
    int32_t x = before(g, c);

    *made = NONE;
    for (int32_t i = 0; x != NONE && x != c; i++) {
        x = before(g, x);
        if (rt_run_tick(g->r, i))
            return g->r->err->code;
    }
    if (x == NONE)
        return RT_OK;
    do {
        g->node[x].is_last = true;
        x = before(g, x);
    } while (x != c);
    const int32_t m = g->n_all++;
    struct node *to = &g->node[m];
    *to = (struct node){.parent = NONE, .members = NONE, .next = NONE};
    int32_t *link = &to->members;
    for (int32_t k = 0; k < m; k++) {
        struct node *member = &g->node[k];
        if (!member->is_last)
            continue;
        member->is_last = false;
        member->parent = m;
        *link = k;
        link = &member->next;
        to->in = to->in ? to->in : member->in;
        merge(g, to->in, k);
        if (rt_run_spend(g->r, g->left, (int64_t)COST * g->n))
            return g->r->err->code;
    }
    for (int32_t i = 0; i < g->n; i++)
        if (g->node[g->top[i]].parent == m)
            g->top[i] = m;
    *made = m;
    return rt_run_spend(g->r, g->left, (int64_t)COST * g->n);
}

/* Gives the members of all cycles the arcs that open them. */
static enum rt_status open_cycles(struct digraph *g)
{
    for (int32_t m = g->n_all - 1; m >= g->n; m--) {
        const struct arc *a = &g->node[m].best;
        int32_t x = a->target;
        while (g->node[x].parent != m) {
            x = g->node[x].parent;
            if (rt_run_spend(g->r, g->left, 1))
                return g->r->err->code;
        }
        g->node[x].best = *a;
    }
    return RT_OK;
}

/* ---- tensors ---- */

/* Reads element i of a tensor of scores. */
static double score_at(const struct rt_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case RT_F32:
        return (double)((const float *)t->data)[i];
    case RT_F64:
        return ((const double *)t->data)[i];
    default:
        return (double)((const int32_t *)t->data)[i];
    }
}

/* Reads the arcs between the first g->n nodes of a digraph. */
static enum rt_status read_digraph(struct digraph *g, int64_t first, int64_t width)
{
    for (int32_t t = 0; t < g->n; t++) {
        struct arc *in = g->arcs + (int64_t)t * (g->n + 1);
        g->node[t] = (struct node){.in = in, .parent = NONE, .members = NONE, .next = NONE};
        g->top[t] = t;
        for (int32_t s = 0; s <= g->n; s++) {
            const bool is_root = s == g->n || s == t;
            const double v = score_at(&g->r->in[1], first + t * width + (s < g->n ? s : t));
            if (isinf(v) && v > 0)
                return infeasible(g);
            in[s] = (struct arc){.score = v,
                                 .n_roots = is_root && !g->is_forest,
                                 .source = s,
                                 .target = s == t || !(v > -INFINITY) ? NONE : t};
        }
        if (rt_run_spend(g->r, g->left, (int64_t)COST * g->n))
            return g->r->err->code;
    }
    g->n_all = g->n;
    return RT_OK;
}

static enum rt_status solve(struct digraph *g)
{
    for (int32_t i = 0; i < g->n; i++) {
        int32_t c = i;
        while (c != NONE) {
            enum rt_status st = choose(g, c);
            if (!st)
                st = contract(g, c, &c);
            if (st)
                return st;
        }
    }
    return open_cycles(g);
}

/* Writes the sources of a digraph, and the sum of their scores, which wraps around for int32. */
static enum rt_status emit(const struct digraph *g, int64_t i, int64_t width, int32_t *sources)
{
    const struct rt_tensor *in = &g->r->in[1];
    void *sum = g->r->out[0].data;
    int64_t n_roots = 0;

    for (int64_t t = 0; t < width; t++) {
        sources[t] = NONE;
        if (t >= g->n)
            continue;
        const int32_t s = g->node[t].best.source;
        sources[t] = s < g->n ? s : (int32_t)t;
        n_roots += s == g->n;
        const int64_t at = (i * width + t) * width + sources[t];
        if (in->dtype == RT_F32)
            ((float *)sum)[i] = (t ? ((float *)sum)[i] : 0) + ((const float *)in->data)[at];
        else if (in->dtype == RT_F64)
            ((double *)sum)[i] = (t ? ((double *)sum)[i] : 0) + ((const double *)in->data)[at];
        else
            ((uint32_t *)sum)[i] =
                (t ? ((uint32_t *)sum)[i] : 0) + ((const uint32_t *)in->data)[at];
        if (rt_run_tick(g->r, t))
            return g->r->err->code;
    }
    return n_roots > 1 && !g->is_forest ? infeasible(g) : RT_OK;
}

static enum rt_status check(struct rt_run *r)
{
    const struct rt_tensor *n = &r->in[0], *scores = &r->in[1];

    if (n->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "num_nodes must be a vector, got shape %s",
                       KN_TEXT(n));
    if (scores->rank != 3 || scores->dim[1] != scores->dim[2])
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: scores must be square matrices, not %s",
                       r->node->schema->name, KN_TEXT(scores));
    if (n->dim[0] != scores->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "num_nodes misshapen: got %s but expected [%lld]", KN_TEXT(n),
                       (long long)scores->dim[0]);
    for (int64_t i = 0; i < n->dim[0]; i++) {
        const int64_t k = kn_int_at(n, i);
        if (k > scores->dim[1])
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "number of nodes in digraph %lld overflows input dimension: got %lld "
                           "but expected <= %lld",
                           (long long)i, (long long)k, (long long)scores->dim[1]);
        if (k >= UINT16_MAX || k < 0) /* TensorFlow Text keeps 16 bits of it. */
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Too many nodes: %lld",
                           (long long)(k & UINT16_MAX));
        if (k == 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Non-positive number of nodes: 0");
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

/* Makes room for a digraph of n nodes in `memory`. */
static enum rt_status reserve(struct digraph *g, struct rt_bytes *memory, int64_t n)
{
    const size_t arcs = (size_t)n * ((size_t)n + 1) * sizeof(struct arc);
    const size_t nodes = 2 * (size_t)n * sizeof(struct node);

    memory->n = 0;
    if (!rt_bytes_reserve(memory, arcs + nodes + (size_t)n * sizeof(int32_t)))
        return kn_text_failed(memory);
    g->n = (int32_t)n;
    g->arcs = (struct arc *)(void *)memory->p;
    g->node = (struct node *)(void *)(memory->p + arcs);
    g->top = (int32_t *)(void *)(memory->p + arcs + nodes);
    return RT_OK;
}

static enum rt_status run(struct rt_run *r)
{
    int64_t left = RT_WORK;
    struct digraph g = {.r = r, .left = &left, .is_forest = rt_attr_bool(r->node, "forest")};
    struct rt_bytes memory;
    enum rt_status st = check(r);

    if (st)
        return st;
    const int64_t dim[] = {r->in[1].dim[0], r->in[1].dim[1]};
    if (!kn_out(r, 0, 1, dim) || !kn_out(r, 1, 2, dim))
        return r->err->code;
    kn_text_begin(&memory, r);
    for (int64_t i = 0; i < dim[0] && !st; i++) {
        st = reserve(&g, &memory, kn_int_at(&r->in[0], i));
        if (!st)
            st = read_digraph(&g, i * dim[1] * dim[1], dim[1]);
        if (!st)
            st = solve(&g);
        if (!st)
            st = emit(&g, i, dim[1], (int32_t *)r->out[1].data + i * dim[1]);
        if (!st)
            st = rt_run_spend(r, &left, KN_STRING_WORK);
    }
    kn_text_end(&memory);
    return st;
}

const struct kn_entry kn_max_spanning_tree = {
    .op = {.name = "MaxSpanningTree"},
    .kernels = KN_CPU("MaxSpanningTree", "max_spanning_tree",
                      RT_T(RT_I32) | RT_T(RT_F32) | RT_T(RT_F64), NULL, run),
};
