/*
 * The topological order in which a plan runs a graph's nodes. The traversal is depth first from
 * targets and fetches, so that nodes that depend on each other run close together. Import allows
 * only cycles that contain a NextIteration, and the token executor runs them.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/passes/passes.h"

enum { NEW, OPEN, DONE };

struct walk {
    const struct pl_graph *g;
    unsigned char *mark; /* for each node, NEW, OPEN or DONE */
    struct {
        int node, k; /* `k` is the index of the input to visit next */
    } * stack;       /* stack of the OPEN nodes */
    int *order, n;   /* the DONE nodes in topological order */
};

/* Returns the node of input k, where control inputs are counted after the data inputs. */
static int input_node(const struct pl_node *n, int k)
{
    return k < n->n_in ? n->in[k].node : n->ctrl[k - n->n_in];
}

static bool is_back_edge(const struct pl_node *from, const struct pl_node *to)
{
    return to->def && from->def && pl_is_token(from->def) &&
           strstr(from->def->schema->name, "NextIteration");
}

/* Appends the NEW node `root` after the nodes that it depends on. Without `follows_back`, back
 * edges are ignored, and a cycle of other edges is an error. With `follows_back`, cycles are
 * accepted. */
static enum rt_status walk_from(struct walk *w, int root, bool follows_back, struct rt_error *err)
{
    const struct pl_graph *g = w->g;
    int depth = 0;

    w->mark[root] = OPEN;
    w->stack[depth].node = root;
    w->stack[depth++].k = 0;
    while (depth) {
        const struct pl_node *at = &g->node[w->stack[depth - 1].node];
        const int k = w->stack[depth - 1].k;
        if (k == at->n_in + at->n_ctrl) {
            w->mark[w->stack[--depth].node] = DONE;
            w->order[w->n++] = (int)(at - g->node);
            continue;
        }
        w->stack[depth - 1].k++;
        const int from = input_node(at, k);
        if (w->mark[from] == DONE || (!follows_back && is_back_edge(&g->node[from], at)))
            continue;
        if (w->mark[from] == NEW) {
            w->mark[from] = OPEN;
            w->stack[depth].node = from;
            w->stack[depth++].k = 0;
        } else if (!follows_back) {
            return rt_fail(err, RT_INVALID_ARGUMENT, "node '%s' is part of a cycle",
                           g->node[from].name);
        }
    }
    return RT_OK;
}

/* Appends the nodes that other nodes wait for only through back edges (data or control edges).
 * These are NextIteration nodes and their ancestors. The order then contains every node that a node
 * in the plan waits for. */
static enum rt_status walk_back_edges(struct walk *w, struct rt_error *err)
{
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < w->g->n; i++) {
            const struct pl_node *to = &w->g->node[i];
            if (w->mark[i] != DONE)
                continue;
            for (int k = 0; k < to->n_in + to->n_ctrl; k++) {
                const int root = input_node(to, k);
                if (w->mark[root] != NEW)
                    continue;
                again = true;
                const enum rt_status st = walk_from(w, root, true, err);
                if (st)
                    return st;
            }
        }
    }
    return RT_OK;
}

enum rt_status pl_order(const struct pl_graph *g, int *order, int *n_order, struct rt_error *err)
{
    struct walk w = {.g = g, .order = order};
    enum rt_status st = RT_OK;

    w.mark = calloc((size_t)g->n + 1, 1);
    w.stack = malloc(((size_t)g->n + 1) * sizeof *w.stack);
    if (!w.mark || !w.stack)
        st = rt_fail_memory(err, "a plan", (size_t)g->n);
    for (int r = 0; r < g->n_targets + g->n_fetches + g->n_feeds && !st; r++) {
        const int root = r < g->n_targets                  ? g->target[r]
                         : r < g->n_targets + g->n_fetches ? g->fetch[r - g->n_targets].node
                                                           : r - g->n_targets - g->n_fetches;
        if (w.mark[root] == NEW)
            st = walk_from(&w, root, false, err);
    }
    if (!st)
        st = walk_back_edges(&w, err);
    *n_order = w.n;
    free(w.mark);
    free(w.stack);
    return st;
}
