/* Makes the plans of the functions that a graph still calls after inlining, and of the subgraphs of
 * functionalised nodes. */
#include <stdlib.h>

#include "runtime/files/import.h"
#include "runtime/ir/match.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/pipeline.h"

enum { MAX_SUB_DEPTH = 64 };

/* Removes the constants of inputs that an iteration of the loop body `loop` may change: only an
 * input that every iteration passes on unchanged is a constant inside a loop. Argument `first` + k
 * of the body has the value that the previous iteration returned as result k. */
static void keep_invariants(const struct rt_graph *loop, int first, int n_args,
                            const struct rt_tensor **constant_feed)
{
    for (int i = first; i < n_args && i - first < loop->n_rets && i < loop->n_args; i++) {
        struct rt_edge e = loop->ret[i - first];
        for (int hops = 0; hops < loop->n_nodes && e.node != loop->arg[i]; hops++) {
            const struct rt_node *via = &loop->node[e.node];
            if (!via->op || strcmp(via->op->name, "Identity") != 0)
                break;
            e = via->in[0];
        }
        if (e.node != loop->arg[i])
            constant_feed[i] = NULL;
    }
}

enum rt_status pl_sub_request(const struct pl_graph *g, const struct pl_node *n,
                              const struct rt_func_ref *f, int skip, bool is_body,
                              struct pl_sub_request *r, struct rt_error *err)
{
    const struct rt_graph *body;
    enum rt_status st = rt_library_instantiate(g->session->library, f, &body, err);
    *r = (struct pl_sub_request){.feeds = NULL};
    if (st)
        return st;
    const int n_args = n->n_in - skip, n_sliced = pl_n_sliced(n->def);
    if (body->n_args != n_args || (is_body && body->n_rets != n->n_out))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "'%s': function '%s' takes %d arguments and returns %d, expected %d and %d",
                       n->name, body->name, body->n_args, body->n_rets, n_args, n->n_out);
    if (g->depth >= MAX_SUB_DEPTH)
        return pl_fail_too_deep(g->session, body, n->name, MAX_SUB_DEPTH, err);
    struct rt_edge *feeds = malloc(((size_t)n_args + 1) * sizeof *feeds);
    const struct rt_tensor **constant_feed = calloc((size_t)n_args + 1, sizeof *constant_feed);
    r->feeds = feeds;
    r->constant_feed = constant_feed;
    if (!feeds || !constant_feed)
        return rt_fail_memory(err, "a plan", (size_t)n_args);
    for (int i = 0; i < n_args; i++) {
        feeds[i] = (struct rt_edge){body->arg[i], 0};
        const struct pl_node *from = &g->node[n->in[i + skip].node];
        if (from->kind == PL_CONST && i >= n_sliced)
            constant_feed[i] = &from->value;
    }
    if (n->kind == PL_FOR) {
        constant_feed[0] = NULL; /* the index of the iteration */
        keep_invariants(body, 1, n_args, constant_feed);
    } else if (n->kind == PL_WHILE || pl_is(n, "While") || pl_is(n, "StatelessWhile")) {
        const struct rt_graph *loop;
        st = rt_library_instantiate(g->session->library, rt_attr_func(n->def, "body"), &loop, err);
        if (st)
            return st;
        keep_invariants(loop, 0, n_args, constant_feed);
    }
    r->q = (struct pl_request){.graph = body,
                               .feeds = feeds,
                               .n_feeds = n_args,
                               .fetches = body->ret,
                               .n_fetches = body->n_rets,
                               .targets = body->ctrl_ret,
                               .n_targets = body->n_ctrl_rets,
                               .is_body = true,
                               .constant_feed = constant_feed,
                               .nodes_left = g->nodes_left,
                               .is_load = g->is_load};
    return RT_OK;
}

void pl_sub_request_clear(struct pl_sub_request *r)
{
    free(r->feeds);
    free(r->constant_feed);
}

static enum rt_status build_sub(struct pl_graph *g, struct pl_node *n, const struct rt_func_ref *f,
                                int skip, bool is_body, int slot, struct rt_error *err)
{
    struct pl_sub_request r;
    enum rt_status st = pl_sub_request(g, n, f, skip, is_body, &r, err);
    if (!st) {
        st = rt_plan_build(g->session, &r.q, g->depth + 1, &n->sub[slot], err);
        /* Functions may be nested deeply. The error names only the outermost one. */
        if (st && g->depth == 0)
            rt_fail_prefix(err, "in function '%.200s': ", r.q.graph->name);
    }
    if (!st) {
        n->n_sub = slot + 1 > n->n_sub ? slot + 1 : n->n_sub;
        n->effects |= n->sub[slot]->effects;
    }
    pl_sub_request_clear(&r);
    return st;
}

/* Makes the plans of the subgraphs of a functionalised node, as build_sub does for functions. */
static enum rt_status build_subgraphs(struct pl_graph *g, struct pl_node *n, struct rt_error *err)
{
    const int skip = n->kind == PL_IF;
    if (g->depth >= MAX_SUB_DEPTH)
        return pl_fail_too_deep(g->session, NULL, n->name, MAX_SUB_DEPTH, err);
    bool *constant_feed = rt_arena_array(g->arena, (size_t)n->n_in + 1, sizeof *constant_feed);
    n->sub = rt_arena_array(g->arena, 2, sizeof *n->sub);
    if (!constant_feed || !n->sub)
        return rt_fail_memory(err, "a plan", 0);
    for (int k = 0; k + skip < n->n_in; k++) {
        const struct pl_node *from = &g->node[n->in[k + skip].node];
        constant_feed[k] = from->kind == PL_CONST && from->n_ctrl == 0;
        if (constant_feed[k] && n->kind == PL_WHILE)
            constant_feed[k] = pl_origin(&n->subgraph[1], n->subgraph[1].fetch[k]).node == k;
    }
    for (int slot = 0; slot < 2; slot++) {
        struct pl_graph *r = &n->subgraph[slot];
        for (int k = 0; k < r->n_feeds; k++) {
            if (!constant_feed[k])
                continue;
            r->node[k].kind = PL_CONST;
            rt_tensor_ref(&r->node[k].value, &g->node[n->in[k + skip].node].value);
        }
        r->nodes_left = g->nodes_left;
        /* The subgraph's depth was set when its node was made, possibly in another graph. */
        r->depth = g->depth + 1;
        struct pl_graph own = *r;
        *r = (struct pl_graph){0};
        enum rt_status st = pl_build_graph(&own, &n->sub[slot], err);
        if (st)
            return st;
        n->n_sub = slot + 1;
        n->effects |= n->sub[slot]->effects;
    }
    return RT_OK;
}

enum rt_status pl_sub_plans(struct pl_graph *g, struct rt_error *err)
{
    for (int i = 0; i < g->n; i++) {
        struct pl_node *n = &g->node[i];
        if (n->kind != PL_GONE && n->subgraph) {
            enum rt_status st = build_subgraphs(g, n, err);
            if (st)
                return st;
            continue;
        }
        if (n->kind != PL_OP || !n->def || !n->def->op)
            continue;
        const struct rt_func_ref *refs[2] = {NULL, NULL}, *many = NULL;
        int n_sub = 0, skip = 0;
        if (n->call) {
            n->kind = PL_CALL;
            refs[0] = n->call;
            skip = n->call_skip;
            n_sub = 1;
        } else if (pl_is(n, "If") || pl_is(n, "StatelessIf")) {
            refs[0] = rt_attr_func(n->def, "then_branch");
            refs[1] = rt_attr_func(n->def, "else_branch");
            n->kind = PL_IF;
            skip = 1;
            n_sub = 2;
        } else if (pl_is(n, "Case") || pl_is(n, "StatelessCase")) {
            const struct rt_attr *a = rt_attr(n->def, "branches");
            many = a->v.funcs;
            n_sub = (int)a->n;
            n->kind = PL_CASE;
            skip = 1;
            if (n_sub < 1)
                return rt_fail(err, RT_INVALID_ARGUMENT, "'%s': Case without branches", n->name);
        } else if (pl_is(n, "While") || pl_is(n, "StatelessWhile")) {
            refs[0] = rt_attr_func(n->def, "cond");
            refs[1] = rt_attr_func(n->def, "body");
            n->kind = PL_WHILE;
            n_sub = 2;
        } else if (pl_is(n, "For")) {
            refs[0] = rt_attr_func(n->def, "body");
            n->kind = PL_FOR;
            n_sub = 1;
            skip = PL_FOR_SKIP;
        } else if (pl_is(n, "MapDefun") || pl_is(n, "BatchFunction")) {
            refs[0] = rt_attr_func(n->def, "f");
            n->kind = pl_is(n, "MapDefun") ? PL_MAP : PL_BATCH;
            n_sub = 1;
        } else
            continue;
        n->sub = rt_arena_array(g->arena, (size_t)n_sub, sizeof *n->sub);
        if (!n->sub)
            return rt_fail_memory(err, "a plan", sizeof *n->sub * (size_t)n_sub);
        for (int k = 0; k < n_sub; k++) {
            bool is_body = !(n->kind == PL_WHILE && k == 0);
            enum rt_status st = build_sub(g, n, many ? &many[k] : refs[k], skip, is_body, k, err);
            if (st)
                return st;
        }
    }
    return RT_OK;
}
