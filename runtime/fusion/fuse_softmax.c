/*
 * Finds a softmax over the last axis that a model computes in the nodes below, and replaces these
 * nodes with the op Softmax, which the attention pass recognises. Some models contain these nodes
 * because the tensor has three or more axes; the authors of others wrote the formula themselves.
 *
 *   e = Exp(x - Max(x, -1)), y = e / Sum(e, -1)        both reductions keep their axis
 *
 * The axis must be -1, because the meaning of a non-negative index depends on the rank. Softmax has
 * the same special cases as the nodes: a row becomes all NaN if it contains a NaN or if its largest
 * value is infinite, and scalars are refused. Only the error message for scalars changes.
 */
#include "runtime/fusion/fuse.h"

/* Returns whether e is the reduction of `of` by `op` along the last axis, which is kept with length
 * 1. */
static bool is_last_axis(const struct pl_graph *g, struct pl_edge e, const char *op,
                         struct pl_edge of)
{
    const struct pl_node *n = pl_float_by(g, e, op, 2);
    int64_t axis[RT_MAX_RANK];
    return n && pl_same(n->in[0], of) && rt_attr_bool(n->def, "keep_dims") &&
           pl_some_ints(g, n->in[1], axis) == 1 && axis[0] == -1;
}

static bool is_softmax(struct pl_cluster *m, struct pl_edge *x)
{
    const struct pl_graph *g = m->g;
    const struct pl_node *y = pl_float_by(g, (struct pl_edge){m->node[0], 0}, "RealDiv", 2);
    const struct pl_node *e = y ? pl_float_by(g, y->in[0], "Exp", 1) : NULL;
    const struct pl_node *centred = e ? pl_float_by(g, e->in[0], "Sub", 2) : NULL;

    if (!centred || !is_last_axis(g, y->in[1], "Sum", y->in[0]) ||
        !is_last_axis(g, centred->in[1], "Max", centred->in[0]))
        return false;
    *x = centred->in[0];
    pl_cluster_take(m, y->in[1]);
    pl_cluster_take(m, y->in[0]);
    pl_cluster_take(m, e->in[0]);
    pl_cluster_take(m, centred->in[1]);
    return pl_cluster_is_closed(m);
}

enum rt_status pl_fuse_softmaxes(struct pl_graph *g, struct rt_error *err)
{
    struct pl_uses uses;
    bool found = false;

    if (!rt_registry_op(g->session->options.registry, "Softmax"))
        return RT_OK;
    enum rt_status st = pl_uses_count(&uses, g, err);
    for (int i = 0; i < g->n && !st; i++) {
        struct pl_cluster m = pl_cluster_from(g, &uses, i);
        struct pl_edge x;
        if (!is_softmax(&m, &x))
            continue;
        st = pl_put_op(g, m.node, m.n, "Softmax", RT_F32, &x, 1, err);
        found = true;
    }
    pl_uses_free(&uses);
    if (found)
        pl_prune(g); /* Removes the constants of the axes if no node reads them any more. */
    return st;
}
