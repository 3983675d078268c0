/*
 * Reads of variables become constants once loading is over, when the variable has a value and no
 * served signature writes it. A write that reaches one after all raises the session's generation,
 * and callables make their plans again.
 */
#include "runtime/match.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/region.h"
#include "runtime/resource.h"

/* The variable of a constant handle, when it may be frozen; NULL otherwise. */
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

/* Input k of node i becomes the value of `v`, as a constant of type `like`'s first output. */
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
            g->node[i].n_in = 0; /* the variable itself is not read any more */
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

/* ---- what is written ---- */

struct walk {
    struct pl_graph *g;
    bool *seen; /* per node: its handles were followed */
    int *stack, depth;
};

/* The variable that the edge is a handle of becomes mutable, or the node that hands it on is looked
 * at later. */
static void follow_handle(struct walk *w, struct pl_edge e)
{
    const struct pl_node *from = &w->g->node[e.node];
    struct rt_variable *v;

    if (w->seen[e.node] || (pl_edge_dtype(w->g, e) != RT_RESOURCE && !pl_is_ref(w->g, e)))
        return;
    w->seen[e.node] = true;
    if (from->kind == PL_FEED)
        w->g->writes_fed = true;
    else if (from->kind != PL_CONST)
        w->stack[w->depth++] = e.node; /* once per node */
    else if (from->value.dtype == RT_RESOURCE && (v = rt_variable_of(&from->value)))
        rt_variable_set_mutable(v);
}

/* Whether a plan inside the node writes what it is fed. */
static bool writes_inputs(const struct pl_node *n)
{
    bool yes = n->kind == PL_OP && n->def && n->def->op && n->def->op->effect == RT_WRITES;

    for (int k = 0; k < n->n_sub; k++)
        yes |= n->sub[k]->writes_fed;
    return yes;
}

enum rt_status pl_mark_written(struct pl_graph *g, struct rt_error *err)
{
    struct walk w = {.g = g,
                     .seen = calloc((size_t)g->n + 1, sizeof *w.seen),
                     .stack = malloc(((size_t)g->n + 1) * sizeof *w.stack)};
    enum rt_status st = RT_OK;

    if (!w.seen || !w.stack)
        st = rt_fail_memory(err, "a plan", (size_t)g->n);
    for (int i = 0; i < g->n && !st; i++) {
        const struct pl_node *n = &g->node[i];
        if (n->kind == PL_GONE || !writes_inputs(n))
            continue;
        for (int k = 0; k < n->n_in; k++)
            if (n->kind != PL_OP || !pl_follows_refs(n->def, k))
                follow_handle(&w, n->in[k]);
        while (w.depth) {
            const struct pl_node *at = &g->node[w.stack[--w.depth]];
            for (int k = 0; k < at->n_in; k++)
                follow_handle(&w, at->in[k]);
        }
    }
    free(w.seen);
    free(w.stack);
    return st;
}
