/* Makes a plan from a graph: orders the steps topologically, numbers the values and finds the
 * kernels. */
#include <stdlib.h>

#include "runtime/passes/passes.h"
#include "runtime/exec/executor.h"
#include "runtime/select/choose.h"

/* Makes a step from a node and takes ownership of everything that the node owns. The edges of the
 * step still have the node numbers of the graph. */
static void take_node(struct rt_plan_step *to, struct pl_node *from)
{
    *to = (struct rt_plan_step){.kind = from->kind,
                                .effect = from->effect,
                                .effects = from->effects,
                                .on_accelerator = from->on_accelerator,
                                .was_switch = from->subgraph != NULL,
                                .def = from->def,
                                .name = from->name,
                                .n_in = from->n_in,
                                .n_out = from->n_out,
                                .n_ctrl = from->n_ctrl,
                                .in = from->in,
                                .ctrl = from->ctrl,
                                .call_skip = from->call_skip,
                                .value = from->value,
                                .feed = from->feed,
                                .sub = from->sub,
                                .n_sub = from->n_sub};
    from->value = (struct rt_tensor){0};
    from->n_sub = 0;
    from->subgraph = NULL;
}

static enum rt_status lay_out(struct rt_plan *p, struct pl_graph *g, const int *order, int *place,
                              struct rt_error *err)
{
    for (int i = 0; i < g->n; i++)
        place[i] = -1;
    for (int i = 0; i < p->n_nodes; i++) {
        take_node(&p->node[i], &g->node[order[i]]);
        place[order[i]] = i;
    }
    for (int i = 0; i < p->n_nodes; i++) {
        struct rt_plan_step *n = &p->node[i];
        n->first_value = p->n_values;
        p->n_values += n->n_out;
        p->max_in = n->n_in > p->max_in ? n->n_in : p->max_in;
        p->max_out = n->n_out > p->max_out ? n->n_out : p->max_out;
        if (n->n_sub)
            p->effects |= n->effects;
        else if (n->kind == PL_OP)
            p->effects |= (uint8_t)(1u << n->effect);
        if (n->kind == PL_OP && n->def && pl_is_token(n->def))
            p->tokens = true;
        p->loops |=
            n->kind == PL_WHILE || n->kind == PL_FOR || n->kind == PL_MAP || n->kind == PL_BATCH;
    }
    p->constant = rt_arena_array(p->arena, (size_t)p->n_values + 1, sizeof *p->constant);
    if (!p->constant)
        return rt_fail_memory(err, "a plan", 0);
    for (int i = 0; i < p->n_nodes; i++) {
        struct rt_plan_step *n = &p->node[i];
        n->in_value = rt_arena_array(p->arena, (size_t)n->n_in + 1, sizeof *n->in_value);
        if (!n->in_value)
            return rt_fail_memory(err, "a plan", 0);
        for (int k = 0; k < n->n_in; k++) {
            struct pl_edge e = {place[n->in[k].node], n->in[k].out};
            n->in[k] = e;
            n->in_value[k] = p->node[e.node].first_value + e.out;
            const struct rt_plan_step *from = &p->node[e.node];
            if (k < 64 && from->kind == PL_CONST &&
                !(n->def && pl_reads_variable(n->def, k, from->value.dtype)))
                n->const_in |= UINT64_C(1) << k;
        }
        for (int k = 0; k < n->n_ctrl; k++)
            n->ctrl[k] = place[n->ctrl[k]];
        /* A constant with control inputs may be dead. */
        if (n->kind == PL_CONST && !(p->tokens && n->n_ctrl))
            p->constant[n->first_value] = &n->value;
    }
    p->feed_value = rt_arena_array(p->arena, (size_t)g->n_feeds + 1, sizeof(int));
    p->feed_dtype = rt_arena_array(p->arena, (size_t)g->n_feeds + 1, 1);
    p->fetch_value = rt_arena_array(p->arena, (size_t)g->n_fetches + 1, sizeof(int));
    p->fetch_dtype = rt_arena_array(p->arena, (size_t)g->n_fetches + 1, 1);
    if (!p->feed_value || !p->feed_dtype || !p->fetch_value || !p->fetch_dtype)
        return rt_fail_memory(err, "a plan", 0);
    p->n_feeds = g->n_feeds;
    p->n_fetches = g->n_fetches;
    for (int i = 0; i < g->n_feeds; i++)
        p->feed_value[i] = -1;
    for (int i = 0; i < p->n_nodes; i++)
        if (p->node[i].kind == PL_FEED) {
            p->feed_value[p->node[i].feed] = p->node[i].first_value;
            p->feed_dtype[p->node[i].feed] = g->node[order[i]].feed_dtype;
        }
    for (int i = 0; i < g->n_fetches; i++) {
        p->fetch_value[i] = p->node[place[g->fetch[i].node]].first_value + g->fetch[i].out;
        p->fetch_dtype[i] = g->fetch_dtype[i];
    }
    return RT_OK;
}

enum rt_status pl_finish(struct pl_graph *g, struct rt_plan **out, struct rt_error *err)
{
    struct rt_plan *p = calloc(1, sizeof *p);
    int *order = malloc(((size_t)g->n + 1) * sizeof *order);
    int *place = malloc(((size_t)g->n + 1) * sizeof *place);
    enum rt_status st;
    if (!p || !order || !place) {
        free(p);
        p = NULL;
        st = rt_fail_memory(err, "a plan", sizeof *p);
        goto fail;
    }
    p->session = g->session;
    rt_contexts_begin(p);
    p->arena = g->arena;
    st = pl_order(g, order, &p->n_nodes, err);
    if (st) {
        p->n_nodes = 0;
        goto fail;
    }
    p->node = rt_arena_array(p->arena, (size_t)p->n_nodes + 1, sizeof *p->node);
    if (!p->node) {
        p->n_nodes = 0;
        st = rt_fail_memory(err, "a plan", 0);
        goto fail;
    }
    st = lay_out(p, g, order, place, err);
    if (!st)
        st = pl_find_last_uses(p, err);
    if (!st && p->tokens)
        st = rt_token_prepare(p, err);
    for (int i = 0; i < p->n_nodes && !st; i++) {
        st = pl_find_kernels(p->session, p->arena, &p->node[i], err);
        if (st)
            rt_fail_prefix(err, "node '%s': ", p->node[i].name);
    }
    if (st)
        goto fail;
    free(order);
    free(place);
    *out = p;
    return RT_OK;
fail:
    free(order);
    free(place);
    if (p) {
        p->arena = NULL; /* On failure, the caller remains the owner of the arena. */
        rt_plan_free(p);
    }
    return st;
}
