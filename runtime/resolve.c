/* Ops that make the handle of a session's resource become constants that hold it: the same key is
 * the same resource, wherever the handle stands. */
#include "runtime/plan.h"

enum rt_status pl_resolve(struct pl_graph *g, struct rt_error *err)
{
    for (int i = 0; i < g->n; i++) {
        struct pl_node *n = &g->node[i];
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
    return RT_OK;
}
