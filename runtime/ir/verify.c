#include "runtime/ir/verify.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/ir/subgraph.h"

enum mark { NEW, OPEN, DONE };

struct frame {
    int node, k;
};

struct walk {
    const struct pl_graph *g;
    unsigned char *mark;
    struct frame *stack;
    bool types;
    struct rt_error *err;
};

static int n_edges(const struct pl_node *n)
{
    return n->n_in + n->n_ctrl;
}

static struct pl_edge edge_at(const struct pl_node *n, int k)
{
    return k < n->n_in ? n->in[k] : (struct pl_edge){n->ctrl[k - n->n_in], -1};
}

/* Checks edge k of the reader with the name `who`. e.out is -1 for a control edge. */
static enum rt_status check_edge(const struct walk *w, struct pl_edge e, const char *who, int k)
{
    if (e.node < 0 || e.node >= w->g->n)
        return rt_fail(w->err, RT_INTERNAL, "edge %d of '%s' is from node %d of %d", k, who, e.node,
                       w->g->n);
    const struct pl_node *from = &w->g->node[e.node];
    if (from->kind == PL_GONE)
        return rt_fail(w->err, RT_INTERNAL, "edge %d of '%s' is from node %d, which was removed", k,
                       who, e.node);
    if (e.out >= from->n_out || e.out < -1)
        return rt_fail(w->err, RT_INTERNAL, "edge %d of '%s' is output %d of '%s', which has %d", k,
                       who, e.out, from->name, from->n_out);
    return RT_OK;
}

/* Returns the type of the value that an edge carries, or 0 if it is unknown. */
static uint8_t type_of(const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *n = &g->node[e.node];
    switch ((enum pl_kind)n->kind) {
    case PL_FEED:
        return n->feed_dtype;
    default:
        return (uint8_t)pl_edge_dtype(g, e);
    }
}

/* Checks the type of input k of `n`. Accepts the handle of a variable where the variable's value,
 * or a reference to the variable, is expected. */
static enum rt_status check_type(const struct walk *w, const struct pl_node *n, int k)
{
    if (!n->def || k >= n->def->n_in || n->kind == PL_CONST || n->kind == PL_FEED)
        return RT_OK;
    const uint8_t is = type_of(w->g, n->in[k]), wants = n->def->in_dtype[k];
    if (!is || !wants || is == wants || is == RT_RESOURCE || pl_takes_value(n->def, k))
        return RT_OK;
    return rt_fail(w->err, RT_INTERNAL, "input %d of '%s' is %s, expected %s", k, n->name,
                   rt_dtype_name((enum rt_dtype)is), rt_dtype_name((enum rt_dtype)wants));
}

static enum rt_status check_node(const struct walk *w, int i)
{
    const struct pl_node *n = &w->g->node[i];
    enum rt_status st = RT_OK;

    if (n->kind == PL_FEED && (n->feed < 0 || n->feed >= w->g->n_feeds))
        return rt_fail(w->err, RT_INTERNAL, "'%s' is feed %d of %d", n->name, n->feed,
                       w->g->n_feeds);
    for (int k = 0; k < n->n_sub; k++)
        if (!n->sub[k])
            return rt_fail(w->err, RT_INTERNAL, "'%s' has no sub-plan %d", n->name, k);
    for (int k = 0; k < n_edges(n) && !st; k++) {
        st = check_edge(w, edge_at(n, k), n->name, k);
        if (!st && k < n->n_in && w->types)
            st = check_type(w, n, k);
    }
    return st;
}

/* Returns whether the node is a NextIteration, the only node that may close a cycle. */
static bool is_back(const struct pl_node *from)
{
    return from->def && pl_is_token(from->def) && strstr(from->def->schema->name, "NextIteration");
}

/* Visits the nodes on which `root` depends, depth first. */
static enum rt_status walk_from(struct walk *w, int root)
{
    const struct pl_graph *g = w->g;
    enum rt_status st = RT_OK;
    int depth = 0;

    if (w->mark[root] != NEW)
        return RT_OK;
    st = check_node(w, root);
    w->mark[root] = OPEN;
    w->stack[depth++] = (struct frame){root, 0};
    while (depth && !st) {
        struct frame *at = &w->stack[depth - 1];
        const struct pl_node *n = &g->node[at->node];
        if (at->k == n_edges(n)) {
            w->mark[at->node] = DONE;
            depth--;
            continue;
        }
        const int from = edge_at(n, at->k++).node;
        if (is_back(&g->node[from]))
            continue;
        if (w->mark[from] == OPEN)
            st = rt_fail(w->err, RT_INTERNAL, "node '%s' is part of a cycle", g->node[from].name);
        if (w->mark[from] != NEW)
            continue;
        st = check_node(w, from);
        w->mark[from] = OPEN;
        w->stack[depth++] = (struct frame){from, 0};
    }
    return st;
}

/* Visits the nodes that are reachable only through back edges. */
static enum rt_status walk_back_edges(struct walk *w)
{
    const struct pl_graph *g = w->g;
    enum rt_status st = RT_OK;
    for (bool again = true; again && !st;) {
        again = false;
        for (int i = 0; i < g->n && !st; i++)
            for (int k = 0; w->mark[i] == DONE && k < n_edges(&g->node[i]) && !st; k++) {
                const int from = edge_at(&g->node[i], k).node;
                if (w->mark[from] != NEW)
                    continue;
                again = true;
                st = walk_from(w, from);
            }
    }
    return st;
}

static enum rt_status walk_all(struct walk *w)
{
    const struct pl_graph *g = w->g;
    enum rt_status st = RT_OK;

    for (int k = 0; k < g->n_fetches && !st; k++) {
        st = check_edge(w, g->fetch[k], "a fetch", k);
        if (!st)
            st = walk_from(w, g->fetch[k].node);
    }
    for (int k = 0; k < g->n_targets && !st; k++) {
        st = check_edge(w, (struct pl_edge){g->target[k], -1}, "a target", k);
        if (!st)
            st = walk_from(w, g->target[k]);
    }
    return st ? st : walk_back_edges(w);
}

enum rt_status pl_verify(const struct pl_graph *g, bool types, struct rt_error *err)
{
    struct walk w = {.g = g,
                     .mark = calloc((size_t)g->n + 1, 1),
                     .stack = malloc(((size_t)g->n + 1) * sizeof *w.stack),
                     .types = types,
                     .err = err};
    const enum rt_status st = w.mark && w.stack ? walk_all(&w) : RT_OK;
    free(w.mark);
    free(w.stack);
    return st;
}
