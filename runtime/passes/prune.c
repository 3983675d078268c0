#include "runtime/passes/passes.h"

#include <stdlib.h>
#include <string.h>

/* Adds the node for `def`. The edges of the node are filled in later. */
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
        /* Control inputs are kept, because they tie a constant in a frame to an iteration. */
        n->kind = PL_CONST;
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

struct extraction {
    struct pl_graph *g;
    const struct pl_request *q;
    int *made;  /* for each node of the request's graph, 1 + the index of its copy */
    int *stack; /* nodes whose edges are to be filled in */
    int n_stack;
    /* fed[i] is 1 + the index of a feed of node i, or 0 if no output of node i is fed. next_fed[f]
     * is 1 + the index of the next feed of the node that feed f replaces, or 0 if there is none. */
    int *fed, *next_fed;
    struct rt_error *err;
};

static enum rt_status add_feeds(struct extraction *c)
{
    const struct pl_request *q = c->q;
    for (int i = 0; i < q->n_feeds; i++) {
        const struct rt_node *def = &q->graph->node[q->feeds[i].node];
        const int n = pl_add(c->g, c->err);
        if (n < 0)
            return RT_RESOURCE_EXHAUSTED;
        struct pl_node *feed = &c->g->node[n];
        feed->kind = PL_FEED;
        feed->def = def;
        feed->name = def->name;
        feed->n_out = 1;
        feed->feed = i;
        feed->feed_dtype = def->out_dtype[q->feeds[i].out];
        if (q->constant_feed && q->constant_feed[i]) {
            feed->kind = PL_CONST;
            rt_tensor_ref(&feed->value, q->constant_feed[i]);
        }
        c->next_fed[i] = c->fed[def->id];
        c->fed[def->id] = i + 1;
    }
    return RT_OK;
}

static enum rt_status reach(struct extraction *c, int id)
{
    if (c->made[id])
        return RT_OK;
    const int n = add_def(c->g, &c->q->graph->node[id], c->err);
    if (n < 0)
        return RT_RESOURCE_EXHAUSTED;
    c->made[id] = n + 1;
    c->stack[c->n_stack++] = id;
    return RT_OK;
}

/* Translates an edge of the request's graph into an edge of g. Feeds are the first nodes of g, so
 * feed i is node i. */
static enum rt_status reach_edge(struct extraction *c, struct rt_edge e, struct pl_edge *out)
{
    int feed = c->fed[e.node];
    while (feed && c->q->feeds[feed - 1].out != e.out)
        feed = c->next_fed[feed - 1];
    if (feed) {
        *out = (struct pl_edge){feed - 1, 0};
        return RT_OK;
    }
    const enum rt_status st = reach(c, e.node);
    if (!st)
        *out = (struct pl_edge){c->made[e.node] - 1, e.out};
    return st;
}

static enum rt_status reach_target(struct extraction *c, int id)
{
    const enum rt_status st = reach(c, id);
    if (!st && !pl_add_target(c->g, c->made[id] - 1))
        return rt_fail_memory(c->err, "a plan", 0);
    return st;
}

/* Adds the fetches and targets of the request to the graph. If the request is for a function body,
 * each node with an effect also becomes a target. */
static enum rt_status add_ends(struct extraction *c, uint8_t *fetch_dtype)
{
    const struct pl_request *q = c->q;
    enum rt_status st = RT_OK;
    for (int i = 0; i < q->n_fetches && !st; i++) {
        fetch_dtype[i] = q->graph->node[q->fetches[i].node].out_dtype[q->fetches[i].out];
        st = reach_edge(c, q->fetches[i], &c->g->fetch[i]);
    }
    for (int i = 0; i < q->n_targets && !st; i++)
        st = reach_target(c, q->targets[i]);
    for (int i = 0; q->is_body && i < q->graph->n_nodes && !st; i++)
        if (has_effect(&q->graph->node[i]))
            st = reach_target(c, i);
    return st;
}

static enum rt_status follow(struct extraction *c, int id)
{
    const struct rt_node *node = c->q->graph->node, *def = &node[id];
    const int at = c->made[id] - 1;
    enum rt_status st = RT_OK;
    for (int k = 0; k < def->n_in && !st; k++) {
        struct pl_edge e = {-1, 0};
        st = reach_edge(c, def->in[k], &e); /* reach_edge may reallocate g->node. */
        c->g->node[at].in[k] = e;
    }
    int n_ctrl = 0;
    for (int k = 0; k < def->n_ctrl && !st; k++) {
        /* A node whose only output is fed does not run, so no node waits for it. */
        const struct rt_node *src = &node[def->ctrl[k]];
        if (c->fed[src->id] && src->n_out == 1)
            continue;
        st = reach(c, def->ctrl[k]);
        if (!st)
            c->g->node[at].ctrl[n_ctrl++] = c->made[def->ctrl[k]] - 1;
    }
    c->g->node[at].n_ctrl = n_ctrl;
    return st;
}

enum rt_status pl_extract(struct pl_graph *g, const struct pl_request *q, struct rt_error *err)
{
    const size_t n = (size_t)q->graph->n_nodes + 1;
    struct extraction c = {.g = g,
                           .q = q,
                           .made = calloc(n, sizeof *c.made),
                           .stack = malloc(n * sizeof *c.stack),
                           .fed = calloc(n, sizeof *c.fed),
                           .next_fed = calloc((size_t)q->n_feeds + 1, sizeof *c.next_fed),
                           .err = err};
    enum rt_status st = RT_OK;

    g->n_feeds = q->n_feeds;
    g->n_fetches = q->n_fetches;
    g->fetch = rt_arena_array(g->arena, (size_t)q->n_fetches + 1, sizeof *g->fetch);
    uint8_t *fetch_dtype = rt_arena_array(g->arena, (size_t)q->n_fetches + 1, 1);
    g->fetch_dtype = fetch_dtype;
    if (!c.made || !c.stack || !c.fed || !c.next_fed || !g->fetch || !fetch_dtype)
        st = rt_fail_memory(err, "a plan", n * 3 * sizeof *c.made);
    if (!st)
        st = add_feeds(&c);
    if (!st)
        st = add_ends(&c, fetch_dtype);
    while (!st && c.n_stack)
        st = follow(&c, c.stack[--c.n_stack]);
    if (!st)
        st = pl_resolve_frames(g, err);
    free(c.made);
    free(c.stack);
    free(c.fed);
    free(c.next_fed);
    return st;
}
