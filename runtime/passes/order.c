/*
 * The topological order in which a plan runs a graph's nodes. The traversal from targets and
 * fetches is depth first, so that a node runs soon after the nodes on which it depends. Import
 * allows only cycles that contain a NextIteration, and the token executor runs them.
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

/* Returns the node that makes input k of `n`. Control inputs are numbered after the data inputs. */
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
 * edges are ignored, and any other cycle is an error. With `follows_back`, cycles are accepted. */
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

/* Appends the nodes that are reachable only through back edges, which are data or control edges
 * from NextIteration nodes. The order then contains every node that a node of the plan reads or
 * waits for. */
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

/* ---- devices ---- */

/* Returns whether the node runs nothing on any device. Such a node does not end a region of the
 * accelerator. */
static bool is_transparent(const struct pl_node *n)
{
    return n->kind == PL_CONST || n->kind == PL_FEED ||
           (n->kind == PL_OP && n->def && n->def->op && n->def->op->is_view);
}

static bool has_tokens(const struct pl_graph *g)
{
    for (int i = 0; i < g->n; i++)
        if (g->node[i].kind == PL_OP && g->node[i].def && pl_is_token(g->node[i].def))
            return true;
    return false;
}

/*
 * Sets level[i] for each node, and returns the number of levels. Levels are even for nodes of the
 * host and odd for nodes of the accelerator. A node has the lowest level of its parity that is not
 * below the levels of its inputs, so data moves between the devices only when the level increases.
 * A transparent node has the highest level of its inputs.
 */
static int set_levels(const struct pl_graph *g, const int *order, int n, int *level)
{
    int n_levels = 0;
    for (int at = 0; at < n; at++) {
        const struct pl_node *node = &g->node[order[at]];
        int l = 0;
        for (int k = 0; k < node->n_in + node->n_ctrl; k++)
            l = level[input_node(node, k)] > l ? level[input_node(node, k)] : l;
        if (!is_transparent(node) && l % 2 != node->on_accelerator)
            l++;
        level[order[at]] = l;
        n_levels = l + 1 > n_levels ? l + 1 : n_levels;
    }
    return n_levels;
}

/* Sorts the nodes by level, so that the accelerator's nodes form a few long regions. Nodes of the
 * same level keep their order. */
static enum rt_status group_by_device(const struct pl_graph *g, int *order, int n,
                                      struct rt_error *err)
{
    int *level = malloc(((size_t)g->n + 1) * sizeof *level);
    int *sorted = malloc(((size_t)n + 1) * sizeof *sorted);
    const int n_levels = level && sorted ? set_levels(g, order, n, level) : 0;
    int *first = calloc((size_t)n_levels + 2, sizeof *first);
    const bool ok = level && sorted && first;
    for (int at = 0; at < n && ok; at++)
        first[level[order[at]] + 1]++;
    for (int l = 1; l <= n_levels && ok; l++)
        first[l] += first[l - 1];
    for (int at = 0; at < n && ok; at++)
        sorted[first[level[order[at]]]++] = order[at];
    if (ok)
        memcpy(order, sorted, (size_t)n * sizeof *order);
    free(level);
    free(sorted);
    free(first);
    return ok ? RT_OK : rt_fail_memory(err, "a plan", (size_t)g->n * 2 * sizeof *order);
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
    if (!st && g->session->options.accelerators.n && !has_tokens(g))
        st = group_by_device(g, order, w.n, err);
    free(w.mark);
    free(w.stack);
    return st;
}
