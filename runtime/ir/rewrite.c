#include "runtime/ir/rewrite.h"

#include <string.h>

/* ---- nodes that replace others ---- */

/* Returns whether two schemas describe the same op. The kernel has one schema and the pass another,
 * both compiled from the op's header. The two schemas differ if one of them was compiled from
 * another version of the header. */
static bool is_same_schema(const struct rt_schema *a, const struct rt_schema *b)
{
    bool same = a->n_in == b->n_in && a->n_out == b->n_out && a->n_attr == b->n_attr;
    for (int k = 0; same && k < a->n_in; k++)
        same = strcmp(a->in[k].name, b->in[k].name) == 0;
    for (int k = 0; same && k < a->n_attr; k++)
        same = strcmp(a->attr[k].name, b->attr[k].name) == 0 && a->attr[k].type == b->attr[k].type;
    return same;
}

enum rt_status pl_put_fused(struct pl_graph *g, const int *node, int n, struct rt_fused_op op,
                            const struct pl_edge *in, int n_in, struct rt_error *err)
{
    const struct rt_schema *schema = op.schema;
    const struct rt_op *constant_feed = rt_registry_op(g->session->options.registry, schema->name);
    struct pl_edge edge[RT_FUSED_MOST_INPUTS];
    uint8_t in_dtype[RT_FUSED_MOST_INPUTS], out_dtype[RT_FUSED_MOST_INPUTS];
    uint64_t there = 0;
    int n_edges = 0;

    if (constant_feed && (!constant_feed->internal_schema ||
                          !is_same_schema(constant_feed->internal_schema, schema)))
        return rt_fail(err, RT_INTERNAL, "op '%s' was registered with another schema",
                       schema->name);
    if (n_in > RT_FUSED_MOST_INPUTS || n_in < schema->n_in - op.has_list ||
        (n_in > schema->n_in && !op.has_list))
        return rt_fail(err, RT_INTERNAL, "op '%s' cannot have %d inputs", schema->name, n_in);
    for (int k = 0; k < n_in; k++) {
        if (in[k].node < 0 && k < schema->n_in && (op.optional >> k & 1))
            continue;
        if (in[k].node < 0)
            return rt_fail(err, RT_INTERNAL, "op '%s': input %d is missing", schema->name, k);
        there |= k < schema->n_in ? UINT64_C(1) << k : 0;
        in_dtype[n_edges] = pl_type_of(g, in[k]);
        edge[n_edges++] = in[k];
    }
    op.attr[schema->n_attr - 1].v.i = (int64_t)there;
    memset(out_dtype, RT_F32, sizeof out_dtype);
    const struct pl_internal_op own = {.op = schema->name,
                                       .n_in = n_edges,
                                       .n_out = schema->n_out,
                                       .in = edge,
                                       .in_dtype = in_dtype,
                                       .out_dtype = out_dtype,
                                       .attr = op.attr};
    return pl_replace(g, node, n, &own, err);
}

enum rt_status pl_put_op(struct pl_graph *g, const int *node, int n, const char *op,
                         enum rt_dtype dtype, const struct pl_edge *in, int n_in,
                         struct rt_error *err)
{
    const struct rt_schema *schema = rt_schema_find(op);
    struct rt_attr attr[RT_FUSED_MOST_ATTRS] = {{0}};
    uint8_t types[RT_FUSED_MOST_INPUTS];

    if (!schema || schema->n_attr > RT_FUSED_MOST_ATTRS || n_in >= RT_FUSED_MOST_INPUTS)
        return rt_fail(err, RT_INTERNAL, "op '%s' cannot be put into a plan", op);
    for (int k = 0; k < schema->n_attr; k++) {
        attr[k].type = schema->attr[k].type;
        if (schema->attr[k].type == RT_ATTR_TYPE)
            attr[k].v.t = dtype;
    }
    memset(types, (int)dtype, sizeof types);
    const struct pl_internal_op own = {.op = op,
                                       .n_in = n_in,
                                       .n_out = 1,
                                       .in = in,
                                       .in_dtype = types,
                                       .out_dtype = types,
                                       .attr = attr};
    return pl_replace(g, node, n, &own, err);
}

enum rt_status pl_add_extra(struct pl_graph *g, int at, const char *name, struct rt_attr value,
                            struct rt_error *err)
{
    const struct rt_node *old = g->node[at].def;
    struct rt_node *def = rt_arena_alloc(g->arena, sizeof *def);
    struct rt_named_attr *extra = rt_arena_array(g->arena, (size_t)old->n_extra + 1, sizeof *extra);

    if (!def || !extra)
        return rt_fail_memory(err, "a plan", 0);
    if (old->n_extra)
        memcpy(extra, old->extra, (size_t)old->n_extra * sizeof *extra);
    extra[old->n_extra] = (struct rt_named_attr){.name = name, .value = value};
    *def = *old;
    def->extra = extra;
    def->n_extra++;
    g->node[at].def = def;
    return RT_OK;
}

const char *pl_keep_text(struct pl_graph *g, const char *text, struct rt_error *err)
{
    const char *kept = rt_arena_printf(g->arena, "%s", text);
    if (!kept)
        rt_fail_memory(err, "a plan", strlen(text) + 1);
    return kept;
}

/* ---- additional nodes and constants ---- */

int pl_add_like(struct pl_graph *g, int like, struct rt_error *err)
{
    const int i = pl_add(g, err);
    if (i < 0)
        return i;
    g->node[i].n_out = 1;
    if (like >= 0) {
        g->node[i].name = g->node[like].name;
        g->node[i].depth = g->node[like].depth;
        g->node[i].on_accelerator = g->node[like].on_accelerator;
    }
    return i;
}

struct pl_edge pl_add_constant(struct pl_graph *g, int like, struct rt_tensor *value,
                               struct rt_error *err)
{
    const int i = pl_add_like(g, like, err);
    if (i < 0) {
        rt_tensor_clear(value);
        return pl_no_edge;
    }
    g->node[i].kind = PL_CONST;
    g->node[i].value = *value;
    *value = (struct rt_tensor){0};
    return (struct pl_edge){i, 0};
}

/* ---- edges ---- */

uint8_t pl_type_of(const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *n = &g->node[e.node];
    return n->kind == PL_CONST  ? n->value.dtype
           : n->kind == PL_FEED ? n->feed_dtype
                                : n->def->out_dtype[e.out];
}

void pl_rewire(struct pl_graph *g, int n, const struct pl_rewiring *r)
{
    for (int i = 0; i < n; i++) {
        if (g->node[i].kind == PL_GONE || r->keeps(r->arg, i))
            continue;
        for (int k = 0; k < g->node[i].n_in; k++)
            g->node[i].in[k] = r->instead(r->arg, g->node[i].in[k]);
    }
    for (int k = 0; k < g->n_fetches; k++)
        g->fetch[k] = r->instead(r->arg, g->fetch[k]);
}
