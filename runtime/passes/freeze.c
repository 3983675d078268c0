/*
 * Freezes variables. Once loading has finished, reads of a variable become constants if the
 * variable has a value and no served signature writes it. Before a plan runs, pl_mark_written finds
 * the variables that the plan may write, because a frozen value is wrong after a run has written
 * the variable. If another plan has frozen one of these variables, the session's generation is
 * incremented and callables rebuild their plans.
 */
#include "runtime/ir/match.h"
#include "runtime/passes/passes.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/ir/subgraph.h"
#include "runtime/session/resource.h"

/* Returns the variable to which the constant handle `e` refers. Returns NULL if `e` is not a
 * constant handle or if the variable cannot be frozen. */
static struct rt_variable *frozen_variable(const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *from = &g->node[e.node];
    if (from->kind != PL_CONST || from->value.dtype != RT_RESOURCE)
        return NULL;
    struct rt_variable *v = rt_variable_of(&from->value);
    if (!v || rt_variable_is_mutable(v) || !rt_variable_is_initialized(v))
        return NULL;
    return v;
}

/* Replaces input k of node i with a constant that has the value of `v` and the type of the first
 * output of `like`. */
static enum rt_status put_value(struct pl_graph *g, int i, int k, struct rt_variable *v,
                                const struct rt_node *like, bool is_ref, struct rt_error *err)
{
    int c = pl_add(g, err);
    if (c < 0)
        return RT_RESOURCE_EXHAUSTED;
    struct pl_node *n = &g->node[c];
    enum rt_status st = rt_variable_freeze(v, is_ref, &n->value, err);
    if (st) {
        n->kind = PL_GONE;
        return st;
    }
    n->kind = PL_CONST;
    n->frozen = true;
    n->n_out = 1;
    n->name = g->node[g->node[i].in[k].node].name;
    n->def = like;
    g->node[i].in[k] = (struct pl_edge){c, 0};
    return RT_OK;
}

enum rt_status pl_freeze(struct pl_graph *g, bool *changed, struct rt_error *err)
{
    *changed = false;
    if (!g->serving)
        return RT_OK;
    for (int i = 0, n_before = g->n; i < n_before; i++) {
        if (g->node[i].kind != PL_OP || !g->node[i].def)
            continue;
        const struct rt_node *def = g->node[i].def;
        if (pl_is(&g->node[i], "ReadVariableOp")) {
            struct rt_variable *v = frozen_variable(g, g->node[i].in[0]);
            if (!v || rt_variable_dtype(v) != (enum rt_dtype)def->out_dtype[0])
                continue;
            struct rt_tensor t;
            enum rt_status st = rt_variable_freeze(v, false, &t, err);
            if (st)
                return st;
            g->node[i].kind = PL_CONST;
            g->node[i].n_in = 0; /* The node no longer reads the variable. */
            g->node[i].value = t;
            g->node[i].effect = RT_PURE;
            g->node[i].frozen = true;
            *changed = true;
            continue;
        }
        for (int k = 0; k < def->n_in && k < g->node[i].n_in; k++) {
            const bool takes_value = pl_takes_value(def, k);
            if (!takes_value && !pl_follows_refs(def, k))
                continue;
            struct rt_variable *v = frozen_variable(g, g->node[i].in[k]);
            if (!v || (takes_value && rt_variable_dtype(v) != (enum rt_dtype)def->out_dtype[0]))
                continue;
            const struct rt_node *like = takes_value ? def : g->node[g->node[i].in[k].node].def;
            enum rt_status st = put_value(g, i, k, v, like, !takes_value, err);
            if (st)
                return st;
            if (takes_value)
                g->node[i].effect = RT_PURE;
            *changed = true;
        }
    }
    return RT_OK;
}

/* ---- written variables ---- */

/*
 * The state of a search that follows handles backwards, from their uses to the constants and feeds
 * that may supply them. The search follows all inputs of a node, and includes handles that the
 * plans inside a node, such as a loop's body, may return. Handles pass from node to node only along
 * edges, because ops that store tensors between nodes (lists, TensorArrays, stacks, tables,
 * variables) refuse handles.
 */
struct walk {
    struct pl_graph *g;
    bool *seen; /* for each node, whether the search has reached it */
    int *stack, depth;
    /* called for each variable whose handle is found */
    void (*found)(struct pl_graph *g, struct rt_variable *v);
};

static void mark_mutable(struct pl_graph *g, struct rt_variable *v)
{
    (void)g;
    rt_variable_set_mutable(v);
}

static void hand_out(struct pl_graph *g, struct rt_variable *v)
{
    g->handed_out[g->n_handed_out++] = v;
}

static void push(struct walk *w, int node)
{
    w->seen[node] = true;
    w->stack[w->depth++] = node; /* Each node is pushed onto the stack once. */
}

static void follow_edge(struct walk *w, struct pl_edge e)
{
    const struct pl_node *from = &w->g->node[e.node];
    struct rt_variable *v;

    if (w->seen[e.node] || (pl_edge_dtype(w->g, e) != RT_RESOURCE && !pl_is_ref(w->g, e)))
        return;
    if (from->kind == PL_CONST) {
        w->seen[e.node] = true;
        if (from->value.dtype == RT_RESOURCE && (v = rt_variable_of(&from->value)))
            w->found(w->g, v);
    } else
        push(w, e.node);
}

/* Follows the handles of all nodes on the stack. A plan inside a node can return only handles that
 * the plan itself makes or that are inputs of the node. */
static void follow_all(struct walk *w)
{
    while (w->depth) {
        const struct pl_node *at = &w->g->node[w->stack[--w->depth]];
        if (at->kind == PL_FEED && w->found == mark_mutable)
            w->g->writes_fed = true;
        for (int k = 0; k < at->n_in; k++)
            follow_edge(w, at->in[k]);
        for (int k = 0; k < at->n_sub; k++)
            for (int j = 0; j < at->sub[k]->n_handed_out; j++)
                w->found(w->g, at->sub[k]->handed_out[j]);
    }
}

/* Finds the variables that node `node` may write through their handles. */
static void follow_written(struct walk *w, int node)
{
    const struct pl_node *n = &w->g->node[node];
    bool writes_inputs = false;

    for (int k = 0; k < n->n_sub; k++)
        writes_inputs |= n->sub[k]->writes_fed;
    /* The search includes the plans inside the node, because an iteration of a loop may receive a
     * handle that the previous iteration made. */
    if (writes_inputs && !w->seen[node])
        push(w, node);
    if (n->kind == PL_OP && n->def && n->def->op && n->def->op->effect == RT_WRITES)
        for (int k = 0; k < n->n_in; k++)
            if (!pl_follows_refs(n->def, k))
                follow_edge(w, n->in[k]);
    follow_all(w);
}

/* Finds the variables whose handles this sub-plan may return. */
static enum rt_status find_handed_out(struct walk *w, struct rt_error *err)
{
    struct pl_graph *g = w->g;
    size_t most = 0;

    memset(w->seen, 0, (size_t)g->n * sizeof *w->seen);
    w->found = hand_out;
    for (int i = 0; i < g->n; i++) {
        const struct pl_node *n = &g->node[i];
        most += n->kind == PL_CONST && n->value.dtype == RT_RESOURCE;
        for (int k = 0; k < n->n_sub; k++)
            most += (size_t)n->sub[k]->n_handed_out;
    }
    g->handed_out = rt_arena_array(g->arena, most + 1, sizeof(*g->handed_out));
    if (!g->handed_out)
        return rt_fail_memory(err, "a plan", most);
    for (int k = 0; k < g->n_fetches; k++)
        follow_edge(w, g->fetch[k]);
    follow_all(w);
    return RT_OK;
}

/* Makes all variables mutable, because a caller may feed any handle that it has fetched. */
static void mark_all_mutable(struct rt_session *s)
{
    rt_mutex_lock(&s->mu);
    for (size_t i = 0; i < s->slots.n; i++) {
        struct rt_object *o = s->slots.entry[i].value;
        if (o->type == &rt_variable_type)
            rt_variable_set_mutable((struct rt_variable *)o);
    }
    rt_mutex_unlock(&s->mu);
}

enum rt_status pl_mark_written(struct pl_graph *g, struct rt_error *err)
{
    struct walk w = {.g = g,
                     .seen = calloc((size_t)g->n + 1, sizeof *w.seen),
                     .stack = malloc(((size_t)g->n + 1) * sizeof *w.stack),
                     .found = mark_mutable};
    enum rt_status st = RT_OK;

    if (!w.seen || !w.stack)
        st = rt_fail_memory(err, "a plan", (size_t)g->n);
    for (int i = 0; i < g->n && !st; i++)
        if (g->node[i].kind != PL_GONE)
            follow_written(&w, i);
    if (!st && g->depth)
        st = find_handed_out(&w, err);
    else if (!st && g->writes_fed)
        mark_all_mutable(g->session);
    free(w.seen);
    free(w.stack);
    return st;
}
