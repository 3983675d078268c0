#include "runtime/fuse.h"

#include <stdlib.h>
#include <string.h>

enum rt_status pl_make_own(struct pl_graph *g, int at, const struct pl_own *o, struct rt_error *err)
{
    const struct rt_op *op = rt_registry_op(g->session->options.registry, o->op);
    const struct rt_schema *schema = op && op->own ? op->own : rt_schema_find(o->op);
    struct pl_node *n = &g->node[at];

    if (!op || !schema)
        return rt_fail(err, RT_NOT_FOUND, "no op '%s'", o->op);
    struct rt_node *def = rt_arena_alloc(g->arena, sizeof *def);
    struct rt_attr *attr = rt_arena_array(g->arena, (size_t)schema->n_attr + 1, sizeof *attr);
    struct pl_edge *in = rt_arena_array(g->arena, (size_t)o->n_in + 1, sizeof *in);
    uint8_t *dtype = rt_arena_array(g->arena, (size_t)(o->n_in + o->n_out) + 1, 1);
    if (!def || !attr || !in || !dtype)
        return rt_fail_memory(err, "a plan", 0);
    if (schema->n_attr)
        memcpy(attr, o->attr, schema->n_attr * sizeof *attr);
    if (o->n_in) {
        memcpy(in, o->in, (size_t)o->n_in * sizeof *in);
        memcpy(dtype, o->in_dtype, (size_t)o->n_in);
    }
    memcpy(dtype + o->n_in, o->out_dtype, (size_t)o->n_out);
    *def = (struct rt_node){.name = n->name,
                            .device = "",
                            .schema = schema,
                            .op = op,
                            .attr = attr,
                            .id = -1,
                            .n_in = o->n_in,
                            .n_out = o->n_out,
                            .in_dtype = dtype,
                            .out_dtype = dtype + o->n_in};
    n->kind = PL_OP;
    n->effect = (uint8_t)op->effect;
    n->def = def;
    n->in = in;
    n->n_in = o->n_in;
    n->n_out = o->n_out;
    n->call = NULL;
    return RT_OK;
}

enum rt_status pl_make_identity(struct pl_graph *g, int at, enum rt_dtype dtype,
                                struct pl_edge from, struct rt_error *err)
{
    const struct rt_schema *schema = rt_schema_find("Identity");
    const uint8_t type = (uint8_t)dtype;
    struct rt_attr attr[8] = {{0}};
    if (!schema || schema->n_attr > 8)
        return rt_fail(err, RT_INTERNAL, "Identity has more attributes than are known");
    for (int k = 0; k < schema->n_attr; k++) {
        attr[k].type = schema->attr[k].type;
        if (schema->attr[k].type == RT_ATTR_TYPE)
            attr[k].v.t = dtype;
    }
    const struct pl_own own = {.op = "Identity",
                               .n_in = 1,
                               .n_out = 1,
                               .in = &from,
                               .in_dtype = &type,
                               .out_dtype = &type,
                               .attr = attr};
    return pl_make_own(g, at, &own, err);
}

enum rt_status pl_replace(struct pl_graph *g, const int *node, int n, const struct pl_own *by,
                          struct rt_error *err)
{
    const enum rt_status st = pl_make_own(g, node[0], by, err);
    for (int k = 1; k < n && !st; k++)
        g->node[node[k]].kind = PL_GONE;
    return st;
}

/*
 * A function's stateful nodes must run, whoever reads them; but a lookup in a variable that is
 * frozen by now is pure, and runs anyway where a node reads it that runs.
 */
static enum rt_status drop_targets(struct pl_graph *g, struct rt_error *err)
{
    bool *is_read = calloc((size_t)g->n + 1, sizeof *is_read);
    int kept = 0;

    if (!is_read)
        return rt_fail_memory(err, "a plan", (size_t)g->n);
    pl_prune(g);
    for (int i = 0; i < g->n; i++)
        for (int k = 0; g->node[i].kind != PL_GONE && k < g->node[i].n_in; k++)
            is_read[g->node[i].in[k].node] = true;
    for (int k = 0; k < g->n_targets; k++) {
        const struct pl_node *n = &g->node[g->target[k]];
        if (n->kind != PL_OP || n->effect != RT_PURE || n->call || !is_read[g->target[k]])
            g->target[kept++] = g->target[k];
    }
    g->n_targets = kept;
    free(is_read);
    return RT_OK;
}

enum rt_status pl_fuse(struct pl_graph *g, struct rt_error *err)
{
    /* What is written out in many nodes comes before what takes single ones: first what only
     * stands in the way of the others, then attention and norms, which contain steps that a tail
     * could take, then tails, and chains, since they take every element-wise node that is left.
     * What is joined only to be read by chains shows when they are there. */
    static enum rt_status (*const passes[])(struct pl_graph *, struct rt_error *) = {
        pl_fuse_units, pl_fuse_embeds,    pl_fuse_einsums,   pl_fuse_dense, pl_fuse_pools,
        pl_fuse_masks, pl_fuse_softmaxes, pl_fuse_attention, pl_fuse_norms, pl_fuse_pads,
        pl_fuse_tails, pl_fuse_chains,    pl_fuse_joins,
    };
    enum rt_status st = drop_targets(g, err);

    for (size_t i = 0; i < sizeof passes / sizeof *passes && !st; i++) {
        st = rt_session_check(g->session, err);
        if (!st)
            st = passes[i](g, err);
    }
    return st;
}
