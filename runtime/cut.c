#include "runtime/plan.h"

#include <stdlib.h>
#include <string.h>

int pl_add(struct pl_graph *g, struct rt_error *err)
{
    if (g->n == g->room) {
        int room = g->room ? g->room * 2 : 64;
        struct pl_node *node = realloc(g->node, (size_t)room * sizeof *node);
        if (!node) {
            rt_fail_memory(err, "a plan", (size_t)room * sizeof *node);
            return -1;
        }
        g->node = node;
        g->room = room;
    }
    g->node[g->n] = (struct pl_node){.feed = -1};
    return g->n++;
}

bool pl_add_target(struct pl_graph *g, int node)
{
    if (g->n_targets == g->target_room) {
        int room = g->target_room ? g->target_room * 2 : 16;
        int *target = realloc(g->target, (size_t)room * sizeof *target);
        if (!target)
            return false;
        g->target = target;
        g->target_room = room;
    }
    g->target[g->n_targets++] = node;
    return true;
}

/* Adds the node for `def`, its edges to be filled in later. */
static int add_def(struct pl_graph *g, const struct rt_node *def, struct rt_error *err)
{
    int i = pl_add(g, err);
    if (i < 0)
        return -1;
    struct pl_node *n = &g->node[i];
    n->kind = PL_OP;
    n->def = def;
    n->name = def->name;
    n->n_out = def->n_out;
    if (def->op && (strcmp(def->op->name, "PartitionedCall") == 0 ||
                    strcmp(def->op->name, "StatefulPartitionedCall") == 0))
        n->call = rt_attr_func(def, "f");
    n->effect = def->op ? (uint8_t)def->op->effect : RT_PURE;
    const struct rt_attr *value =
        strcmp(def->schema->name, "Const") == 0 || strcmp(def->schema->name, "HostConst") == 0
            ? rt_attr(def, "value")
            : NULL;
    if (value && value->type == RT_ATTR_TENSOR) {
        n->kind = PL_CONST; /* its control inputs stay: a frame's constant has a pivot */
        rt_tensor_ref(&n->value, value->v.tensor);
    }
    n->n_in = def->n_in;
    n->n_ctrl = def->n_ctrl;
    n->in = rt_arena_array(g->arena, (size_t)def->n_in + 1, sizeof *n->in);
    n->ctrl = rt_arena_array(g->arena, (size_t)def->n_ctrl + 1, sizeof *n->ctrl);
    if (!n->in || !n->ctrl) {
        rt_fail_memory(err, "a plan", sizeof *n->in * (size_t)(def->n_in + def->n_ctrl));
        return -1;
    }
    return i;
}

static bool has_effect(const struct rt_node *n)
{
    return n->op && n->op->effect != RT_PURE && n->op->effect != RT_READS &&
           n->op->effect != RT_RANDOM;
}

/*
 * Copies what the request reaches, walking back from fetches and targets. `made` maps nodes of the
 * graph to ours (+1); a tensor that is fed maps through `fed` first.
 */
enum rt_status pl_cut(struct pl_graph *g, const struct pl_request *q, struct rt_error *err)
{
    const struct rt_graph *from = q->graph;
    enum rt_status st = RT_OK;
    int *made = calloc((size_t)from->n_nodes + 1, sizeof *made);
    int *stack = malloc(((size_t)from->n_nodes + 1) * sizeof *stack);
    /* Per node of the graph: the first feed of one of its outputs, + 1; feeds of one node chained.
     */
    int *fed = calloc((size_t)from->n_nodes + 1, sizeof *fed);
    int *next_fed = calloc((size_t)q->n_feeds + 1, sizeof *next_fed);
    int n_stack = 0;
    if (!made || !stack || !fed || !next_fed) {
        st = rt_fail_memory(err, "a plan", (size_t)from->n_nodes * 3 * sizeof *made);
        goto end;
    }
    g->n_feeds = q->n_feeds;
    g->n_fetches = q->n_fetches;
    g->fetch = rt_arena_array(g->arena, (size_t)q->n_fetches + 1, sizeof *g->fetch);
    uint8_t *fetch_dtype = rt_arena_array(g->arena, (size_t)q->n_fetches + 1, 1);
    if (!g->fetch || !fetch_dtype) {
        st = rt_fail_memory(err, "a plan", (size_t)q->n_fetches);
        goto end;
    }
    g->fetch_dtype = fetch_dtype;
    for (int i = 0; i < q->n_feeds; i++) {
        const struct rt_node *def = &from->node[q->feeds[i].node];
        int n = pl_add(g, err);
        if (n < 0) {
            st = RT_RESOURCE_EXHAUSTED;
            goto end;
        }
        g->node[n].kind = PL_FEED;
        g->node[n].def = def;
        g->node[n].name = def->name;
        g->node[n].n_out = 1;
        g->node[n].feed = i;
        if (q->known && q->known[i]) {
            g->node[n].kind = PL_CONST;
            rt_tensor_ref(&g->node[n].value, q->known[i]);
        }
        next_fed[i] = fed[def->id];
        fed[def->id] = i + 1;
    }
    /* Feeds are the first nodes of g, so feed i is node i. */
#define REACH(id)                                                                                  \
    do {                                                                                           \
        int id_ = (id);                                                                            \
        if (!made[id_]) {                                                                          \
            int n_ = add_def(g, &from->node[id_], err);                                            \
            if (n_ < 0) {                                                                          \
                st = RT_RESOURCE_EXHAUSTED;                                                        \
                goto end;                                                                          \
            }                                                                                      \
            made[id_] = n_ + 1;                                                                    \
            stack[n_stack++] = id_;                                                                \
        }                                                                                          \
    } while (0)
#define FIND_FED(edge, feed)                                                                       \
    for (feed = fed[(edge).node]; feed && q->feeds[feed - 1].out != (edge).out;                    \
         feed = next_fed[feed - 1])                                                                \
        ;
    for (int i = 0; i < q->n_fetches; i++) {
        int feed;
        FIND_FED(q->fetches[i], feed);
        const struct rt_node *def = &from->node[q->fetches[i].node];
        fetch_dtype[i] = def->out_dtype[q->fetches[i].out];
        if (feed)
            g->fetch[i] = (struct pl_edge){feed - 1, 0};
        else {
            REACH(q->fetches[i].node);
            g->fetch[i] = (struct pl_edge){made[q->fetches[i].node] - 1, q->fetches[i].out};
        }
    }
    for (int i = 0; i < q->n_targets; i++) {
        REACH(q->targets[i]);
        if (!pl_add_target(g, made[q->targets[i]] - 1)) {
            st = rt_fail_memory(err, "a plan", 0);
            goto end;
        }
    }
    if (q->is_body)
        for (int i = 0; i < from->n_nodes; i++)
            if (has_effect(&from->node[i])) {
                REACH(i);
                if (!pl_add_target(g, made[i] - 1)) {
                    st = rt_fail_memory(err, "a plan", 0);
                    goto end;
                }
            }
    while (n_stack) {
        int id = stack[--n_stack];
        const struct rt_node *def = &from->node[id];
        for (int k = 0; k < def->n_in; k++) {
            int feed;
            FIND_FED(def->in[k], feed);
            struct pl_edge e;
            if (feed)
                e = (struct pl_edge){feed - 1, 0};
            else {
                REACH(def->in[k].node);
                e = (struct pl_edge){made[def->in[k].node] - 1, def->in[k].out};
            }
            g->node[made[id] - 1].in[k] = e;
        }
        int n_ctrl = 0;
        for (int k = 0; k < def->n_ctrl; k++) {
            /* A control input from a node that is fed as a whole is met already. */
            const struct rt_node *src = &from->node[def->ctrl[k]];
            if (fed[src->id] && src->n_out == 1)
                continue;
            REACH(def->ctrl[k]);
            g->node[made[id] - 1].ctrl[n_ctrl++] = made[def->ctrl[k]] - 1;
        }
        g->node[made[id] - 1].n_ctrl = n_ctrl;
    }
#undef REACH
#undef FIND_FED
end:
    free(made);
    free(stack);
    free(fed);
    free(next_fed);
    return st;
}

/* Marks what fetches and targets reach; the rest is gone. Feeds stay. */
void pl_prune(struct pl_graph *g)
{
    bool *live = calloc((size_t)g->n + 1, sizeof *live);
    int *stack = malloc(((size_t)g->n + 1) * sizeof *stack);
    int n_stack = 0;
    if (!live || !stack)
        goto end; /* pruning is only thrift */
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

bool pl_is_token(const struct rt_node *n)
{
    static const char *const names[] = {"Switch", "Merge",         "Enter",
                                        "Exit",   "NextIteration", "LoopCond"};
    const char *op = n->schema ? n->schema->name : "";
    if (strncmp(op, "Ref", 3) == 0)
        op += 3;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op, names[i]) == 0)
            return true;
    return false;
}
