#include "runtime/ir/subgraph.h"

#include <string.h>

enum rt_dtype pl_edge_dtype(const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *n = &g->node[e.node];
    if (n->kind == PL_CONST)
        return (enum rt_dtype)n->value.dtype;
    return n->def && e.out < n->def->n_out ? (enum rt_dtype)n->def->out_dtype[e.out]
                                           : (enum rt_dtype)0;
}

enum rt_status pl_subgraph_begin(const struct pl_graph *g, struct pl_graph *to, int n_feeds,
                                 const uint8_t *dtype, int n_fetches, const char *name,
                                 struct rt_error *err)
{
    static const struct rt_attr attr[8];
    enum rt_status st = RT_OK;

    *to = (struct pl_graph){.session = g->session,
                            .pipeline = g->pipeline,
                            .arena = rt_session_plan_arena(g->session),
                            .serving = g->serving,
                            .is_load = g->is_load,
                            .depth = g->depth + 1,
                            .n_feeds = n_feeds,
                            .n_fetches = n_fetches};
    if (to->arena)
        to->fetch = rt_arena_array(to->arena, (size_t)n_fetches + 1, sizeof *to->fetch);
    if (!to->fetch)
        return rt_fail_memory(err, "a plan", 0);
    for (int k = 0; k < n_feeds && !st; k++) {
        const struct pl_internal_op own = {
            .op = "_Arg", .n_out = 1, .out_dtype = &dtype[k], .attr = attr};
        const int c = pl_add(to, err);
        if (c < 0)
            return RT_RESOURCE_EXHAUSTED;
        to->node[c].name = name;
        st = pl_make_internal_op(to, c, &own, err);
        to->node[c].kind = PL_FEED;
        to->node[c].feed = k;
        to->node[c].feed_dtype = dtype[k];
    }
    return st;
}

int pl_subgraph_copy_node(struct pl_graph *g, int i, bool moves, struct pl_graph *to,
                          struct rt_error *err)
{
    const int c = pl_add(to, err);
    if (c < 0)
        return -1;
    struct pl_node *made = &to->node[c], *from = &g->node[i];
    *made = *from;
    made->n_in = made->n_ctrl = 0;
    if (moves) {
        from->value = (struct rt_tensor){0};
        from->subgraph = NULL;
    } else {
        made->value = (struct rt_tensor){0};
        if (from->kind == PL_CONST)
            rt_tensor_ref(&made->value, &from->value);
    }
    return c;
}

enum rt_status pl_make_subgraphs(struct pl_graph *g, int at, const struct pl_subgraphs *r,
                                 struct rt_error *err)
{
    static const struct rt_attr attr[16];
    const struct pl_internal_op own = {.op = r->kind == PL_IF ? "StatelessIf" : "StatelessWhile",
                                       .n_in = r->n_in,
                                       .n_out = r->n_out,
                                       .in = r->in,
                                       .in_dtype = r->in_dtype,
                                       .out_dtype = r->out_dtype,
                                       .attr = attr};
    enum rt_status st = pl_make_internal_op(g, at, &own, err);
    if (st)
        return st;
    g->node[at].kind = (uint8_t)r->kind;
    g->node[at].subgraph = rt_arena_array(g->arena, 2, sizeof *g->node[at].subgraph);
    return g->node[at].subgraph ? RT_OK : rt_fail_memory(err, "a plan", 0);
}

void pl_set_subgraph_effect(struct pl_node *n)
{
    n->effect = RT_PURE;
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < n->subgraph[b].n; i++) {
            const struct pl_node *x = &n->subgraph[b].node[i];
            if ((x->kind == PL_OP || x->subgraph) && x->effect != RT_PURE)
                n->effect = RT_IO;
        }
}
