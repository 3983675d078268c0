/*
 * Functionalises the branches of TensorFlow 1. The nodes between the Switches of one predicate and
 * the Merges of its two sides are moved into two subgraphs, and one node (PL_IF) replaces them. The
 * subgraphs have no tokens. Each is simplified, fused and compiled, and only the chosen side runs.
 *
 * Branches are functionalised from the innermost outwards, one depth per round. A branch's depth is
 * the number of predicates in its condition (ir/condition.h). The token executor runs graphs that
 * cannot be functionalised, such as those with a dead fetch or an edge that leaves a branch without
 * a Merge.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/ir/condition.h"
#include "runtime/passes/passes.h"
#include "runtime/ir/subgraph.h"

/* MAX_EDGES is the maximum number of edges that enter one branch from outside. One round visits
 * these edges at most MAX_VISITS * (number of nodes and edges in the graph) times. */
enum { MAX_EDGES = 4096, MAX_VISITS = 64, NONE = -1 };

struct edges {
    struct pl_edge *e;
    int n, capacity;
};

/* A branch, or several branches that are functionalised together because edges connect them. */
struct component {
    struct pl_side of;        /* The origin of the predicate. `taken` is unused. */
    struct pl_edge by;        /* the predicate: the edge that a Switch reads */
    struct pl_condition rest; /* the conditions under which the entire component is alive */
    int frame;
    int at;
    int first_merge, n_merges;
    int n_outputs;
    /* `capture` contains the outer graph's edges that the branch reads. `ctrl` contains output 0 of
     * each node that the branch waits for. */
    struct edges capture, ctrl;
};

struct work {
    struct pl_graph *g;
    int n; /* number of nodes when the current round began */
    struct pl_conditions all;
    bool *index_read; /* for each Merge, whether its output 1 (the index) is read */
    /* Union-find over the nodes in the branches of the maximum depth and their Merges. */
    int *join;
    /* for each union-find root, the component's index in w->c, or -1 if it contains no Merge */
    int *component;
    int *moved; /* for each node, its index in the subgraph, or -1 if it has not been moved */
    /* For each constant without control inputs (pl_is_free), the number of the subgraph that last
     * got a copy of the constant. The number of a subgraph is `2 * component + side`. */
    int *side_of;
    struct pl_edge (*output)[2]; /* for each Merge, the edges that replace its outputs */
    int *merge;                  /* the Merges of the maximum depth, sorted by component */
    int n_merges, depth;
    struct component *c;
    int n_components;
    int64_t visits_left;
    struct rt_error *err;
};

static const struct pl_node *node_of(const struct work *w, int i)
{
    return &w->g->node[i];
}

static int64_t count_edges(const struct work *w)
{
    int64_t edges = 0;
    for (int i = 0; i < w->n; i++)
        if (node_of(w, i)->kind != PL_GONE)
            edges += node_of(w, i)->n_in + node_of(w, i)->n_ctrl;
    return edges;
}

/* ---- components ---- */

static int root_of(struct work *w, int i)
{
    while (w->join[i] != i) {
        w->join[i] = w->join[w->join[i]];
        i = w->join[i];
    }
    return i;
}

static bool is_inside(const struct work *w, int i)
{
    return i < w->n && w->all.on[i].n == w->depth;
}

static void join_nodes(struct work *w, int a, int b)
{
    w->join[root_of(w, a)] = root_of(w, b);
}

/* Finds the greatest depth of branches, and the connected components of the nodes at this depth. */
static bool find_components(struct work *w)
{
    struct pl_condition rest;
    struct pl_side of;
    w->depth = 0;
    for (int i = 0; i < w->n; i++) {
        const struct pl_node *n = node_of(w, i);
        if (n->kind == PL_GONE)
            continue;
        w->depth = w->all.on[i].n > w->depth ? w->all.on[i].n : w->depth;
        if (pl_is_merge(n) && !pl_is_loop_merge(w->g, n) && w->all.on[i].n + 1 > w->depth)
            w->depth = w->all.on[i].n + 1;
    }
    if (!w->depth)
        return false;
    for (int i = 0; i < w->n; i++)
        w->join[i] = i;
    for (int i = 0; i < w->n; i++) {
        const struct pl_node *n = node_of(w, i);
        const bool ends = n->kind != PL_GONE && pl_is_merge(n) && !pl_is_loop_merge(w->g, n) &&
                          w->all.on[i].n + 1 == w->depth && pl_merged(&w->all, n, &of, &rest);
        if (ends)
            w->merge[w->n_merges++] = i;
        if (n->kind == PL_GONE || (!ends && !is_inside(w, i)))
            continue;
        for (int k = 0; k < n->n_in + n->n_ctrl; k++) {
            const int from = k < n->n_in ? n->in[k].node : n->ctrl[k - n->n_in];
            if (is_inside(w, from) && (k < n->n_in || !ends))
                join_nodes(w, from, i);
        }
    }
    return w->n_merges > 0;
}

static int by_root(const void *a, const void *b)
{
    const int *x = a, *y = b;
    return x[0] != y[0] ? (x[0] < y[0] ? -1 : 1) : x[1] - y[1];
}

static bool list_components(struct work *w)
{
    int *pair = malloc(((size_t)w->n_merges + 1) * 2 * sizeof *pair);
    w->c = calloc((size_t)w->n_merges + 1, sizeof *w->c);
    if (!pair || !w->c) {
        free(pair);
        return false;
    }
    for (int k = 0; k < w->n_merges; k++) {
        pair[2 * k] = root_of(w, w->merge[k]);
        pair[2 * k + 1] = w->merge[k];
    }
    qsort(pair, (size_t)w->n_merges, 2 * sizeof *pair, by_root);
    bool ok = true;
    for (int k = 0; k < w->n_merges && ok; k++) {
        struct pl_condition rest;
        struct pl_side of;
        const int m = w->merge[k] = pair[2 * k + 1];
        pl_merged(&w->all, node_of(w, m), &of, &rest);
        const bool joins = k && pair[2 * k] == pair[2 * k - 2];
        struct component *c = &w->c[joins ? w->n_components - 1 : w->n_components++];
        if (joins) {
            ok = pl_compare_edges(c->of.by, of.by) == 0 && pl_is_equal_condition(&c->rest, &rest);
        } else {
            *c = (struct component){.of = of,
                                    .rest = rest,
                                    .first_merge = k,
                                    .frame = w->all.frame[m],
                                    .by = {NONE, 0}};
        }
        c->n_merges++;
    }
    for (int i = 0; i < w->n; i++)
        w->component[i] = NONE;
    for (int k = 0; k < w->n_components; k++)
        w->component[root_of(w, w->merge[w->c[k].first_merge])] = k;
    free(pair);
    return ok;
}

/* ---- captures of a branch ---- */

static int by_edge(const void *a, const void *b)
{
    return pl_compare_edges(*(const struct pl_edge *)a, *(const struct pl_edge *)b);
}

static void sort_edges(struct edges *x)
{
    int kept = 0;
    if (x->n)
        qsort(x->e, (size_t)x->n, sizeof *x->e, by_edge);
    for (int k = 0; k < x->n; k++)
        if (!k || by_edge(&x->e[k], &x->e[kept - 1]) != 0)
            x->e[kept++] = x->e[k];
    x->n = kept;
}

/* Adds an edge to the set. When the array is full, duplicates are removed before it grows. */
static bool put(struct work *w, struct edges *x, struct pl_edge e)
{
    if (--w->visits_left < 0)
        return false;
    if (x->n == x->capacity) {
        sort_edges(x);
        if (x->n > MAX_EDGES)
            return false;
        if (2 * x->n >= x->capacity) {
            const int capacity = x->capacity ? x->capacity * 2 : 8;
            struct pl_edge *more = realloc(x->e, (size_t)capacity * sizeof *more);
            if (!more)
                return false;
            x->e = more;
            x->capacity = capacity;
        }
    }
    x->e[x->n++] = e;
    return true;
}

static bool wait_for(struct work *w, struct component *c, int node)
{
    if (pl_is_free(node_of(w, node)))
        return true;
    return pl_is_within(&w->all.on[node], &c->rest) && w->all.frame[node] == c->frame &&
           put(w, &c->ctrl, (struct pl_edge){node, 0});
}

/* Finds the edge outside the branch that has the value of `e` when side `taken` runs. */
static bool source(const struct work *w, const struct component *c, int taken, struct pl_edge e,
                   struct pl_edge *out)
{
    const struct pl_node *n = node_of(w, e.node);
    struct pl_edge by;
    *out = e;
    if (pl_is_choice(w->g, n, &by) && pl_compare_edges(by, c->of.by) == 0) {
        if (e.out != taken)
            return false;
        *out = n->in[0];
        /* A Switch whose input is a ref reads the variable when the Switch runs. A RefSwitch passes
         * the ref on, but only a ref of a constant node without control inputs is accepted. */
        if (pl_is_ref(w->g, *out) && (!pl_is(n, "RefSwitch") || !pl_is_free(node_of(w, out->node))))
            return false;
    }
    struct pl_condition on;
    return pl_is_free(node_of(w, out->node)) ||
           (pl_edge_condition(&w->all, *out, &on) && pl_is_within(&on, &c->rest) &&
            w->all.frame[out->node] == c->frame && !pl_is_ref(w->g, *out));
}

static int taken_by(const struct work *w, const struct component *c, int i)
{
    const int at = pl_find_side(&w->all.on[i], c->of.by);
    return at < 0 ? NONE : w->all.on[i].on[at].taken;
}

static struct component *component_of(struct work *w, int i)
{
    const int at = w->component[root_of(w, i)];
    return at < 0 ? NULL : &w->c[at];
}

/* Captures the edge `e`, which a node on side `taken` reads. If the edge comes from a Switch of the
 * branch, the control inputs of the Switch become control inputs of the branch. */
static bool reads(struct work *w, struct component *c, int taken, struct pl_edge e)
{
    const struct pl_node *n = node_of(w, e.node);
    struct pl_edge from, by;
    if (is_inside(w, e.node))
        return true;
    if (!source(w, c, taken, e, &from))
        return false;
    if (pl_is_choice(w->g, n, &by) && pl_compare_edges(by, c->of.by) == 0) {
        for (int k = 0; k < n->n_ctrl; k++)
            if (!wait_for(w, c, n->ctrl[k]))
                return false;
        c->by = n->in[1];
    }
    return pl_is_free(node_of(w, from.node)) || put(w, &c->capture, from);
}

/* Makes the branch wait for the source of a control edge that enters it. If the source is a Switch,
 * which will be removed, the branch waits for the inputs of the Switch instead. */
static bool wait_outside(struct work *w, struct component *c, int i)
{
    const struct pl_node *from = node_of(w, i);
    struct pl_edge by;
    if (!pl_is_switch(from))
        return wait_for(w, c, i);
    /* The Switch belongs to a loop around the branch. */
    if (!pl_is_choice(w->g, from, &by))
        return false;
    for (int j = 0; j < from->n_in; j++)
        if (!wait_for(w, c, from->in[j].node))
            return false;
    for (int j = 0; j < from->n_ctrl; j++)
        if (!wait_for(w, c, from->ctrl[j]))
            return false;
    return true;
}

static bool capture_node(struct work *w, int i)
{
    const struct pl_node *n = node_of(w, i);
    struct component *c = component_of(w, i);
    const int taken = c ? taken_by(w, c, i) : NONE;
    struct pl_condition own;
    pl_copy_condition(&own, &w->all.on[i]);
    if (taken < 0 || n->kind == PL_FEED)
        return false;
    pl_remove_side(&own, pl_find_side(&own, c->of.by));
    if (!pl_is_equal_condition(&own, &c->rest))
        return false;
    for (int k = 0; k < n->n_in; k++)
        if (!reads(w, c, taken, n->in[k]))
            return false;
    for (int k = 0; k < n->n_ctrl; k++)
        if (!is_inside(w, n->ctrl[k]) && !wait_outside(w, c, n->ctrl[k]))
            return false;
    return true;
}

static bool capture_merges(struct work *w, struct component *c)
{
    for (int j = c->first_merge; j < c->first_merge + c->n_merges; j++) {
        const struct pl_node *m = node_of(w, w->merge[j]);
        struct pl_condition rest;
        struct pl_side of; /* input 0 of a Merge may come from either side of the branch */
        pl_merged(&w->all, m, &of, &rest);
        if (pl_is(m, "RefMerge") || !reads(w, c, of.taken, m->in[0]) ||
            !reads(w, c, !of.taken, m->in[1]))
            return false;
        for (int q = 0; q < m->n_ctrl; q++)
            if (!wait_for(w, c, m->ctrl[q]))
                return false;
    }
    return true;
}

/* Returns whether the new node, with its inputs and control inputs, is alive under exactly the
 * conditions of the branch. */
static bool lives_as_before(struct work *w, const struct component *c)
{
    struct pl_condition own = {.n = 0}, more;
    if (c->by.node < 0 || pl_is_ref(w->g, c->by) || !pl_edge_condition(&w->all, c->by, &more) ||
        !pl_add_condition(&own, &more))
        return false;
    for (int j = 0; j < c->capture.n; j++)
        if (!pl_edge_condition(&w->all, c->capture.e[j], &more) || !pl_add_condition(&own, &more))
            return false;
    for (int j = 0; j < c->ctrl.n; j++)
        if (!pl_add_condition(&own, &w->all.on[c->ctrl.e[j].node]))
            return false;
    return pl_is_equal_condition(&own, &c->rest);
}

/* Finds the captures and control edges of all components. Returns false if a node or an edge does
 * not fit the structure of a branch. */
static bool find_captures(struct work *w)
{
    for (int i = 0; i < w->n; i++)
        if (node_of(w, i)->kind != PL_GONE && is_inside(w, i) && !capture_node(w, i))
            return false;
    for (int k = 0; k < w->n_components; k++) {
        struct component *c = &w->c[k];
        if (!capture_merges(w, c))
            return false;
        sort_edges(&c->capture);
        sort_edges(&c->ctrl);
        if (c->capture.n > MAX_EDGES || c->ctrl.n > MAX_EDGES || !lives_as_before(w, c))
            return false;
    }
    return true;
}

static bool is_replaced(const struct work *w, int i)
{
    const struct pl_node *n = node_of(w, i);
    return is_inside(w, i) ||
           (pl_is_merge(n) && !pl_is_loop_merge(w->g, n) && w->all.on[i].n + 1 == w->depth);
}

/* The graph in which one node replaces each component. Node w->n + k replaces component k. */
struct outline {
    int *waits; /* for each node, the number of its incoming edges */
    /* The edges of node i lead to the nodes `to[first[i]]` to `to[first[i + 1] - 1]`. */
    int *first, *to;
    bool fill;
};

static int outlined(struct work *w, int i)
{
    const int at = w->component[root_of(w, i)];
    return at >= 0 && is_replaced(w, i) ? w->n + at : i;
}

/* Counts the edge, or stores it if o->fill is set. While edges are counted, first[i + 2] is the
 * number of edges of node i. After summation, first[i + 1] is the position for the next edge of
 * node i. */
static void outline_edge(struct work *w, struct outline *o, int from, int to)
{
    const int f = outlined(w, from);
    if (!o->fill) {
        o->first[f + 2]++;
        return;
    }
    o->to[o->first[f + 1]++] = to;
    o->waits[to]++;
}

static void outline_edges(struct work *w, struct outline *o)
{
    for (int i = 0; i < w->n; i++) {
        const struct pl_node *x = node_of(w, i);
        if (x->kind == PL_GONE || outlined(w, i) >= w->n)
            continue;
        for (int k = 0; k < x->n_in + x->n_ctrl; k++) {
            const int from = k < x->n_in ? x->in[k].node : x->ctrl[k - x->n_in];
            if (!pl_is_merge(x) || !pl_is_back(node_of(w, from)))
                outline_edge(w, o, from, i);
        }
    }
    for (int k = 0; k < w->n_components; k++) {
        const struct component *c = &w->c[k];
        outline_edge(w, o, c->by.node, w->n + k);
        for (int j = 0; j < c->capture.n; j++)
            outline_edge(w, o, c->capture.e[j].node, w->n + k);
        for (int j = 0; j < c->ctrl.n; j++)
            outline_edge(w, o, c->ctrl.e[j].node, w->n + k);
    }
}

/* Returns whether all n nodes can be sorted topologically. `ready` has capacity for n nodes. */
static bool has_order(struct work *w, struct outline *o, int n, int *ready)
{
    int n_ready = 0, n_done = 0, n_all = 0;
    for (int i = 0; i < n; i++) {
        if (i < w->n && (node_of(w, i)->kind == PL_GONE || outlined(w, i) != i))
            continue;
        n_all++;
        if (!o->waits[i])
            ready[n_ready++] = i;
    }
    while (n_done < n_ready) {
        const int i = ready[n_done++];
        for (int k = o->first[i]; k < o->first[i + 1]; k++)
            if (--o->waits[o->to[k]] == 0)
                ready[n_ready++] = o->to[k];
    }
    return n_done == n_all;
}

static bool stays_acyclic(struct work *w)
{
    const int n = w->n + w->n_components;
    size_t edges = (size_t)count_edges(w);
    for (int k = 0; k < w->n_components; k++)
        edges += (size_t)(w->c[k].capture.n + w->c[k].ctrl.n + 1);
    int *ready = malloc(((size_t)n + 1) * sizeof *ready);
    struct outline o = {.waits = calloc((size_t)n + 1, sizeof *o.waits),
                        .first = calloc((size_t)n + 2, sizeof *o.first),
                        .to = malloc((edges + 1) * sizeof *o.to)};
    bool ok = ready && o.waits && o.first && o.to;
    if (ok) {
        outline_edges(w, &o);
        for (int i = 0; i < n; i++)
            o.first[i + 2] += o.first[i + 1];
        o.fill = true;
        outline_edges(w, &o);
        ok = has_order(w, &o, n, ready);
    }
    free(o.waits);
    free(o.first);
    free(o.to);
    free(ready);
    return ok;
}

static bool is_reached_from_outside(const struct work *w)
{
    for (int k = 0; k < w->g->n_fetches; k++) {
        const struct pl_edge e = w->g->fetch[k];
        struct pl_condition on;
        if (!pl_edge_condition(&w->all, e, &on) || on.n)
            return true;
    }
    for (int k = 0; k < w->g->n_targets; k++)
        if (is_inside(w, w->g->target[k]))
            return true;
    return false;
}

/* ---- functionalising ---- */

static enum rt_status out_of_memory(struct work *w)
{
    return rt_fail_memory(w->err, "a plan", 0);
}

/* Finds the edge to which edge `e` of the outer graph corresponds in a subgraph. The subgraph is
 * that of component `of` for side `taken`. */
static enum rt_status place(struct work *w, int of, int taken, struct pl_edge e,
                            struct pl_edge *out)
{
    struct component *c = &w->c[of];
    struct pl_graph *to = &w->g->node[c->at].subgraph[!taken];
    struct pl_edge from;
    if (is_inside(w, e.node)) {
        *out = (struct pl_edge){w->moved[e.node], e.out};
        return RT_OK;
    }
    if (!source(w, c, taken, e, &from))
        return rt_fail(w->err, RT_INTERNAL, "'%s' is on no side", node_of(w, e.node)->name);
    if (!pl_is_free(node_of(w, from.node))) {
        const struct edges *x = &c->capture;
        const struct pl_edge *at =
            x->n ? bsearch(&from, x->e, (size_t)x->n, sizeof from, by_edge) : NULL;
        if (!at)
            return rt_fail(w->err, RT_INTERNAL, "'%s' is not captured",
                           node_of(w, from.node)->name);
        *out = (struct pl_edge){(int)(at - x->e), 0};
        return RT_OK;
    }
    if (w->moved[from.node] < 0 || w->side_of[from.node] != 2 * of + taken) {
        w->moved[from.node] = pl_subgraph_copy_node(w->g, from.node, false, to, w->err);
        w->side_of[from.node] = 2 * of + taken;
        if (w->moved[from.node] < 0)
            return RT_RESOURCE_EXHAUSTED;
    }
    *out = (struct pl_edge){w->moved[from.node], 0};
    return RT_OK;
}

static enum rt_status add_node(struct work *w, struct component *c)
{
    struct pl_graph *g = w->g;
    const int n_in = c->capture.n + 1;
    struct pl_edge *in = calloc((size_t)n_in, sizeof *in);
    uint8_t *dtype = calloc((size_t)n_in + 2 * (size_t)c->n_merges, 1), *out = NULL;
    int *ctrl = rt_arena_array(g->arena, (size_t)c->ctrl.n + 1, sizeof *ctrl);
    const int at = in && dtype && ctrl ? pl_add(g, w->err) : -1;
    enum rt_status st = at < 0 ? out_of_memory(w) : RT_OK;
    if (!st) {
        out = dtype + n_in;
        in[0] = c->by;
        for (int k = 0; k < c->capture.n; k++)
            in[k + 1] = c->capture.e[k];
        for (int k = 0; k < n_in; k++)
            dtype[k] = (uint8_t)pl_edge_dtype(g, in[k]);
        for (int j = c->first_merge; j < c->first_merge + c->n_merges; j++) {
            const int m = w->merge[j];
            w->output[m][0] = (struct pl_edge){at, c->n_outputs};
            out[c->n_outputs++] = g->node[m].def->out_dtype[0];
            if (!w->index_read[m])
                continue;
            w->output[m][1] = (struct pl_edge){at, c->n_outputs};
            out[c->n_outputs++] = RT_I32;
        }
        struct pl_node *n = &g->node[at];
        n->name = g->node[w->merge[c->first_merge]].name;
        n->depth = g->node[w->merge[c->first_merge]].depth;
        for (int k = 0; k < c->ctrl.n; k++)
            ctrl[k] = c->ctrl.e[k].node;
        n->ctrl = ctrl;
        n->n_ctrl = c->ctrl.n;
        c->at = at;
        const struct pl_subgraphs r = {.kind = PL_IF,
                                       .n_in = n_in,
                                       .n_out = c->n_outputs,
                                       .in = in,
                                       .in_dtype = dtype,
                                       .out_dtype = out};
        st = pl_make_subgraphs(g, at, &r, w->err);
    }
    for (int b = 0; b < 2 && !st; b++)
        st = pl_subgraph_begin(g, &g->node[at].subgraph[b], c->capture.n, dtype + 1, c->n_outputs,
                               g->node[at].name, w->err);
    free(in);
    free(dtype);
    return st;
}

static enum rt_status move_nodes(struct work *w)
{
    struct pl_graph *g = w->g;
    for (int k = 0; k < w->all.n_order; k++) {
        const int i = w->all.order[k];
        if (!is_inside(w, i))
            continue;
        struct component *c = component_of(w, i);
        const int taken = taken_by(w, c, i);
        struct pl_graph *to = &g->node[c->at].subgraph[!taken];
        w->moved[i] = pl_subgraph_copy_node(g, i, true, to, w->err);
        if (w->moved[i] < 0)
            return RT_RESOURCE_EXHAUSTED;
        const struct pl_node *n = &to->node[w->moved[i]];
        if ((n->kind == PL_OP || n->subgraph) && n->effect != RT_PURE &&
            !pl_add_target(to, w->moved[i]))
            return out_of_memory(w);
    }
    /* Nodes of a loop may read nodes that come later in the topological order. */
    for (int k = 0; k < w->all.n_order; k++) {
        const int i = w->all.order[k];
        if (!is_inside(w, i))
            continue;
        const int of = w->component[root_of(w, i)];
        const int taken = taken_by(w, &w->c[of], i);
        struct pl_graph *to = &g->node[w->c[of].at].subgraph[!taken];
        const struct pl_node *old = &g->node[i];
        struct pl_edge *in = rt_arena_array(g->arena, (size_t)old->n_in + 1, sizeof *in);
        int *ctrl = rt_arena_array(g->arena, (size_t)old->n_ctrl + 1, sizeof *ctrl), n_ctrl = 0;
        enum rt_status st = in && ctrl ? RT_OK : out_of_memory(w);
        for (int j = 0; j < old->n_in && !st; j++)
            st = place(w, of, taken, old->in[j], &in[j]);
        if (st)
            return st;
        for (int j = 0; j < old->n_ctrl; j++)
            if (is_inside(w, old->ctrl[j]))
                ctrl[n_ctrl++] = w->moved[old->ctrl[j]];
        struct pl_node *n = &to->node[w->moved[i]];
        n->in = in;
        n->n_in = old->n_in;
        n->ctrl = ctrl;
        n->n_ctrl = n_ctrl;
    }
    return RT_OK;
}

static enum rt_status put_index(struct work *w, struct pl_graph *to, int value, struct pl_edge *out)
{
    struct rt_tensor t = {0};
    enum rt_status st = rt_tensor_new(&t, NULL, RT_I32, 0, NULL, w->err);
    if (st)
        return st;
    *(int32_t *)t.data = value;
    const int c = pl_add(to, w->err);
    if (c < 0) {
        rt_tensor_clear(&t);
        return RT_RESOURCE_EXHAUSTED;
    }
    to->node[c].kind = PL_CONST;
    to->node[c].name = "";
    to->node[c].n_out = 1;
    to->node[c].value = t;
    *out = (struct pl_edge){c, 0};
    return RT_OK;
}

static enum rt_status put_outputs(struct work *w, int of)
{
    const struct component *c = &w->c[of];
    for (int j = c->first_merge; j < c->first_merge + c->n_merges; j++) {
        const int m = w->merge[j];
        struct pl_condition rest;
        struct pl_side first;
        pl_merged(&w->all, node_of(w, m), &first, &rest);
        for (int k = 0; k < 2; k++) {
            const int taken = k ? !first.taken : first.taken;
            struct pl_graph *to = &w->g->node[c->at].subgraph[!taken];
            enum rt_status st =
                place(w, of, taken, w->g->node[m].in[k], &to->fetch[w->output[m][0].out]);
            if (!st && w->index_read[m])
                st = put_index(w, to, k, &to->fetch[w->output[m][1].out]);
            if (st)
                return st;
        }
    }
    for (int b = 0; b < 2; b++) {
        struct pl_graph *to = &w->g->node[c->at].subgraph[b];
        uint8_t *dtype = rt_arena_array(to->arena, (size_t)to->n_fetches + 1, 1);
        if (!dtype)
            return out_of_memory(w);
        for (int k = 0; k < to->n_fetches; k++)
            dtype[k] = w->g->node[c->at].def->out_dtype[k];
        to->fetch_dtype = dtype;
    }
    pl_set_subgraph_effect(&w->g->node[c->at]);
    return RT_OK;
}

/* Makes the readers of Merges read the new nodes, and removes the nodes that were moved. */
static void rewire(struct work *w)
{
    struct pl_graph *g = w->g;
    for (int i = 0; i < g->n; i++) {
        struct pl_node *n = &g->node[i];
        if (n->kind == PL_GONE || (i < w->n && is_inside(w, i)))
            continue;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k].node < w->n && w->output[n->in[k].node][0].node != NONE)
                n->in[k] = w->output[n->in[k].node][n->in[k].out];
        for (int k = 0; k < n->n_ctrl; k++)
            if (n->ctrl[k] < w->n && w->output[n->ctrl[k]][0].node != NONE)
                n->ctrl[k] = w->output[n->ctrl[k]][0].node;
    }
    for (int k = 0; k < g->n_fetches; k++)
        if (g->fetch[k].node < w->n && w->output[g->fetch[k].node][0].node != NONE)
            g->fetch[k] = w->output[g->fetch[k].node][g->fetch[k].out];
    for (int k = 0; k < g->n_targets; k++)
        if (g->target[k] < w->n && w->output[g->target[k]][0].node != NONE)
            g->target[k] = w->output[g->target[k]][0].node;
    for (int i = 0; i < w->n; i++)
        if (w->output[i][0].node != NONE || is_inside(w, i))
            g->node[i].kind = PL_GONE;
}

static enum rt_status functionalise(struct work *w)
{
    enum rt_status st = RT_OK;
    for (int i = 0; i < w->n; i++) {
        w->moved[i] = w->side_of[i] = NONE;
        w->output[i][0] = w->output[i][1] = (struct pl_edge){NONE, 0};
    }
    for (int k = 0; k < w->n_components && !st; k++)
        st = add_node(w, &w->c[k]);
    if (!st)
        st = move_nodes(w);
    for (int k = 0; k < w->n_components && !st; k++)
        st = put_outputs(w, k);
    if (!st)
        rewire(w);
    return st;
}

/* ---- the pass ---- */

static bool allocate(struct work *w)
{
    const size_t n = (size_t)w->n + 1;
    w->index_read = calloc(n, sizeof *w->index_read);
    w->join = malloc(n * sizeof *w->join);
    w->component = malloc(n * sizeof *w->component);
    w->moved = malloc(n * sizeof *w->moved);
    w->side_of = malloc(n * sizeof *w->side_of);
    w->output = malloc(n * sizeof *w->output);
    w->merge = malloc(n * sizeof *w->merge);
    return w->index_read && w->join && w->component && w->moved && w->side_of && w->output &&
           w->merge;
}

static void free_work(struct work *w)
{
    for (int k = 0; k < w->n_components; k++) {
        free(w->c[k].capture.e);
        free(w->c[k].ctrl.e);
    }
    free(w->c);
    pl_conditions_clear(&w->all);
    free(w->index_read);
    free(w->join);
    free(w->component);
    free(w->moved);
    free(w->side_of);
    free(w->output);
    free(w->merge);
}

static bool understood(struct work *w)
{
    w->visits_left = MAX_VISITS * (count_edges(w) + w->n);
    if (!pl_conditions_find(&w->all, w->g))
        return false;
    for (int i = 0; i < w->n; i++)
        for (int k = 0; node_of(w, i)->kind != PL_GONE && k < node_of(w, i)->n_in; k++)
            w->index_read[node_of(w, i)->in[k].node] |= node_of(w, i)->in[k].out == 1;
    for (int k = 0; k < w->g->n_fetches; k++)
        w->index_read[w->g->fetch[k].node] |= w->g->fetch[k].out == 1;
    return find_components(w) && !is_reached_from_outside(w) && list_components(w) &&
           find_captures(w) && stays_acyclic(w);
}

static bool has_merges(const struct pl_graph *g)
{
    for (int i = 0; i < g->n; i++)
        if (pl_is_merge(&g->node[i]))
            return true;
    return false;
}

enum rt_status pl_functionalise_branches(struct pl_graph *g, bool *changed, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    bool again = has_merges(g);
    *changed = false;
    while (again && !st) { /* Each round removes the branches of the maximum depth. */
        struct work w = {.g = g, .n = g->n, .err = err};
        again = allocate(&w) && understood(&w);
        if (again) {
            st = functionalise(&w);
            *changed = true;
            if (!st)
                pl_prune(g);
        }
        free_work(&w);
    }
    return st;
}
