/*
 * What is the same in every run becomes a constant: Const itself, and ops that make the handle of a
 * session's resource (the same key is the same resource, wherever the handle stands). A node that
 * is given such a handle where its op wants a tensor reads the variable, whatever its op.
 */
#include "runtime/match.h"

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

enum rt_status pl_resolve(struct pl_graph *g, struct rt_error *err)
{
    for (int i = 0; i < g->n; i++) {
        struct pl_node *n = &g->node[i];
        if (pl_is(n, "Const") || pl_is(n, "HostConst")) {
            n->kind = PL_CONST;
            rt_tensor_ref(&n->value, rt_attr(n->def, "value")->v.tensor);
            continue;
        }
        if (n->kind != PL_OP || !n->def || !n->def->op || !n->def->op->slot_kind)
            continue;
        struct rt_object *o;
        enum rt_status st = rt_session_slot(g->session, n->def, &o, err);
        if (st)
            return st;
        st = rt_tensor_object(&n->value, RT_RESOURCE, o, err);
        if (st) {
            rt_object_unref(o);
            return st;
        }
        n->kind = PL_CONST;
        n->effect = RT_PURE;
    }
    pl_mark_reads(g);
    return RT_OK;
}
