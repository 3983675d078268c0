/* Edits of a compiler graph that several passes use: adding, replacing and pruning nodes. */
#include <stdlib.h>
#include <string.h>

#include "runtime/ir/ir.h"

int pl_add(struct pl_graph *g, struct rt_error *err)
{
    if (g->n == g->capacity) {
        int capacity = g->capacity ? g->capacity * 2 : 64;
        struct pl_node *node = realloc(g->node, (size_t)capacity * sizeof *node);
        if (!node) {
            rt_fail_memory(err, "a plan", (size_t)capacity * sizeof *node);
            return -1;
        }
        g->node = node;
        g->capacity = capacity;
    }
    g->node[g->n] = (struct pl_node){.feed = -1};
    return g->n++;
}

bool pl_add_target(struct pl_graph *g, int node)
{
    if (g->n_targets == g->target_capacity) {
        int capacity = g->target_capacity ? g->target_capacity * 2 : 16;
        int *target = realloc(g->target, (size_t)capacity * sizeof *target);
        if (!target)
            return false;
        g->target = target;
        g->target_capacity = capacity;
    }
    g->target[g->n_targets++] = node;
    return true;
}

enum rt_status pl_make_internal_op(struct pl_graph *g, int at, const struct pl_internal_op *o,
                                   struct rt_error *err)
{
    const struct rt_op *op = rt_registry_op(g->session->options.registry, o->op);
    const struct rt_schema *schema =
        op && op->internal_schema ? op->internal_schema : rt_schema_find(o->op);
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
    const struct pl_internal_op own = {.op = "Identity",
                                       .n_in = 1,
                                       .n_out = 1,
                                       .in = &from,
                                       .in_dtype = &type,
                                       .out_dtype = &type,
                                       .attr = attr};
    return pl_make_internal_op(g, at, &own, err);
}

enum rt_status pl_replace(struct pl_graph *g, const int *node, int n,
                          const struct pl_internal_op *by, struct rt_error *err)
{
    const enum rt_status st = pl_make_internal_op(g, node[0], by, err);
    for (int k = 1; k < n && !st; k++)
        g->node[node[k]].kind = PL_GONE;
    return st;
}

void pl_prune(struct pl_graph *g)
{
    bool *live = calloc((size_t)g->n + 1, sizeof *live);
    int *stack = malloc(((size_t)g->n + 1) * sizeof *stack);
    int n_stack = 0;
    if (!live || !stack)
        goto end; /* If memory runs out, the graph is not pruned but remains correct. */
    for (int i = 0; i < g->n_fetches + g->n_targets; i++) {
        int n = i < g->n_fetches ? g->fetch[i].node : g->target[i - g->n_fetches];
        if (!live[n]) {
            live[n] = true;
            stack[n_stack++] = n;
        }
    }
    while (n_stack) {
        const struct pl_node *n = &g->node[stack[--n_stack]];
        for (int k = 0; k < n->n_in + n->n_ctrl; k++) {
            int from = k < n->n_in ? n->in[k].node : n->ctrl[k - n->n_in];
            if (!live[from]) {
                live[from] = true;
                stack[n_stack++] = from;
            }
        }
    }
    for (int i = 0; i < g->n; i++)
        if (!live[i] && g->node[i].kind != PL_FEED) {
            rt_tensor_clear(&g->node[i].value);
            g->node[i].kind = PL_GONE;
        }
end:
    free(live);
    free(stack);
}

bool pl_is(const struct pl_node *n, const char *op)
{
    return n->kind == PL_OP && n->def && n->def->op && strcmp(n->def->op->name, op) == 0;
}

void pl_nodes_clear(struct pl_graph *g)
{
    for (int i = 0; i < g->n; i++) {
        rt_tensor_clear(&g->node[i].value);
        for (int k = 0; k < g->node[i].n_sub; k++)
            rt_plan_free(g->node[i].sub[k]);
        for (int k = 0; g->node[i].subgraph && k < 2; k++)
            pl_graph_clear(&g->node[i].subgraph[k]);
    }
    free(g->node);
    free(g->target);
}

void pl_graph_clear(struct pl_graph *g)
{
    pl_nodes_clear(g);
    if (g->arena)
        rt_arena_free(g->arena);
    *g = (struct pl_graph){0};
}
