/*
 * Turns two kinds of values that are equal in every run into constants: the value of a Const, and
 * the handle of a session's resource. Handles with equal keys refer to the same resource. A node
 * that expects a tensor but receives a constant handle reads the variable.
 */
#include "runtime/ir/match.h"
#include "runtime/passes/passes.h"

static bool reads_variable(const struct pl_graph *g, const struct pl_node *n)
{
    for (int k = 0; k < n->n_in && k < n->def->n_in; k++) {
        const struct pl_node *from = &g->node[n->in[k].node];
        if (!pl_follows_refs(n->def, k))
            continue;
        if (from->kind == PL_CONST ? from->value.dtype == RT_RESOURCE : pl_is_ref(g, n->in[k]))
            return true;
    }
    return false;
}

void pl_mark_reads(struct pl_graph *g)
{
    for (int i = 0; i < g->n; i++) {
        struct pl_node *n = &g->node[i];
        if (n->kind == PL_OP && n->def && n->def->op && n->def->op->effect == RT_PURE)
            n->effect = reads_variable(g, n) ? RT_READS : RT_PURE;
    }
}

/* Finds the inputs of a node that makes a resource. A resource lives as long as the session, so
 * these inputs must be constants. */
static enum rt_status constant_inputs(const struct pl_graph *g, const struct pl_node *n,
                                      struct rt_tensor **out, struct rt_error *err)
{
    struct rt_tensor *in = rt_arena_array(g->arena, (size_t)n->n_in + 1, sizeof *in);
    if (!in)
        return rt_fail_memory(err, n->name, (size_t)n->n_in * sizeof *in);
    for (int k = 0; k < n->n_in; k++) {
        const struct pl_node *from = &g->node[pl_origin(g, n->in[k]).node];
        if (from->kind != PL_CONST || from->value.dtype == RT_RESOURCE)
            return rt_fail(err, RT_UNIMPLEMENTED, "'%s': input %d of %s must be a constant",
                           n->name, k, n->def->op->name);
        in[k] = from->value;
        enum rt_status st = rt_session_load_tensor(g->session, &in[k], err);
        if (st)
            return st;
    }
    *out = in;
    return RT_OK;
}

static enum rt_status resolve_slot(struct pl_graph *g, struct pl_node *n, struct rt_error *err)
{
    struct rt_object *o;
    struct rt_tensor *in = NULL;
    enum rt_status st = constant_inputs(g, n, &in, err);
    if (!st)
        st = rt_session_slot(g->session, n->def, in, &o, err);
    if (st)
        return st;
    st = rt_tensor_object(&n->value, NULL, RT_RESOURCE, o, err);
    if (st) {
        rt_object_unref(o);
        return st;
    }
    n->kind = PL_CONST;
    n->effect = RT_PURE;
    n->n_in = 0;
    return RT_OK;
}

enum rt_status pl_resolve(struct pl_graph *g, struct rt_error *err)
{
    for (int i = 0; i < g->n; i++) {
        struct pl_node *n = &g->node[i];
        if (pl_is(n, "Const") || pl_is(n, "HostConst")) {
            n->kind = PL_CONST;
            rt_tensor_ref(&n->value, rt_attr(n->def, "value")->v.tensor);
        }
    }
    for (int i = 0; i < g->n; i++) {
        struct pl_node *n = &g->node[i];
        if (n->kind != PL_OP || !n->def || !n->def->op || !n->def->op->slot_kind)
            continue;
        const enum rt_status st = resolve_slot(g, n, err);
        if (st)
            return st;
    }
    pl_mark_reads(g);
    return RT_OK;
}
