/* Sub-plans, order, value indexes and last uses: what a pl_graph becomes, and the whole building.
 */
#include "runtime/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/ir/condition.h"
#include "runtime/fusion/rnn_loop.h"
#include "runtime/ir/region.h"

/* PLAN_NODES: what a plan takes beside its nodes, in nodes. Functions of one branch each, which
 * double from level to level, made 60,000 plans of 12 KB before 300,000 nodes were reached. */
enum { MAX_SUB_DEPTH = 64, MAX_ALL_NODES = 300000, PLAN_NODES = 32 };

/* The plan of a graph that is cut out, which it takes. */
static enum rt_status build(struct pl_graph *g, struct rt_plan **out, struct rt_error *err);

/* ---- sub-plans ---- */

/* How a function of node `n` is planned; feeds and known are to be freed. */
struct sub_request {
    struct pl_request q;
    struct rt_edge *feeds;
    const struct rt_tensor **known;
};

static enum rt_status sub_request(const struct pl_graph *g, const struct pl_node *n,
                                  const struct rt_func_ref *f, int skip, bool is_body,
                                  struct sub_request *r, struct rt_error *err)
{
    const struct rt_graph *body;
    enum rt_status st = rt_library_instantiate(g->session->library, f, &body, err);
    *r = (struct sub_request){.feeds = NULL};
    if (st)
        return st;
    int n_args = n->n_in - skip;
    if (body->n_args != n_args || (is_body && body->n_rets != n->n_out))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "'%s': function '%s' takes %d arguments and returns %d, expected %d and %d",
                       n->name, body->name, body->n_args, body->n_rets, n_args, n->n_out);
    if (g->depth >= MAX_SUB_DEPTH)
        return pl_fail_too_deep(g->session, body, n->name, MAX_SUB_DEPTH, err);
    struct rt_edge *feeds = malloc(((size_t)n_args + 1) * sizeof *feeds);
    const struct rt_tensor **known = calloc((size_t)n_args + 1, sizeof *known);
    r->feeds = feeds;
    r->known = known;
    if (!feeds || !known)
        return rt_fail_memory(err, "a plan", (size_t)n_args);
    for (int i = 0; i < n_args; i++) {
        feeds[i] = (struct rt_edge){body->arg[i], 0};
        const struct pl_node *from = &g->node[n->in[i + skip].node];
        if (from->kind == PL_CONST)
            known[i] = &from->value;
    }
    if (n->kind == PL_WHILE || pl_is(n, "While") || pl_is(n, "StatelessWhile")) {
        /* Only what every iteration hands on unchanged is known inside. */
        const struct rt_graph *loop;
        st = rt_library_instantiate(g->session->library, rt_attr_func(n->def, "body"), &loop, err);
        if (st)
            return st;
        for (int i = 0; i < n_args && i < loop->n_rets && i < loop->n_args; i++) {
            struct rt_edge e = loop->ret[i];
            for (int hops = 0; hops < loop->n_nodes && e.node != loop->arg[i]; hops++) {
                const struct rt_node *via = &loop->node[e.node];
                if (!via->op || strcmp(via->op->name, "Identity") != 0)
                    break;
                e = via->in[0];
            }
            if (e.node != loop->arg[i])
                known[i] = NULL;
        }
    }
    r->q = (struct pl_request){.graph = body,
                               .feeds = feeds,
                               .n_feeds = n_args,
                               .fetches = body->ret,
                               .n_fetches = body->n_rets,
                               .targets = body->ctrl_ret,
                               .n_targets = body->n_ctrl_rets,
                               .is_body = true,
                               .known = known,
                               .nodes_left = g->nodes_left,
                               .is_load = g->is_load};
    return RT_OK;
}

static void sub_request_clear(struct sub_request *r)
{
    free(r->feeds);
    free(r->known);
}

static enum rt_status build_sub(struct pl_graph *g, struct pl_node *n, const struct rt_func_ref *f,
                                int skip, bool is_body, int slot, struct rt_error *err)
{
    struct sub_request r;
    enum rt_status st = sub_request(g, n, f, skip, is_body, &r, err);
    if (!st) {
        st = rt_plan_build(g->session, &r.q, g->depth + 1, &n->sub[slot], err);
        if (st && g->depth == 0) /* nested functions may be many: the outermost is named */
            rt_fail_prefix(err, "in function '%.200s': ", r.q.graph->name);
    }
    if (!st) {
        n->n_sub = slot + 1 > n->n_sub ? slot + 1 : n->n_sub;
        n->effects |= n->sub[slot]->effects;
    }
    sub_request_clear(&r);
    return st;
}

/* The same of what was a part of this graph. */
static enum rt_status build_regions(struct pl_graph *g, struct pl_node *n, struct rt_error *err)
{
    const int skip = n->kind == PL_IF;
    if (g->depth >= MAX_SUB_DEPTH)
        return pl_fail_too_deep(g->session, NULL, n->name, MAX_SUB_DEPTH, err);
    bool *known = rt_arena_array(g->arena, (size_t)n->n_in + 1, sizeof *known);
    n->sub = rt_arena_array(g->arena, 2, sizeof *n->sub);
    if (!known || !n->sub)
        return rt_fail_memory(err, "a plan", 0);
    for (int k = 0; k + skip < n->n_in; k++) {
        const struct pl_node *from = &g->node[n->in[k + skip].node];
        known[k] = from->kind == PL_CONST && from->n_ctrl == 0;
        /* Of a loop only what every iteration hands on unchanged. */
        if (known[k] && n->kind == PL_WHILE)
            known[k] = pl_origin(&n->region[1], n->region[1].fetch[k]).node == k;
    }
    for (int slot = 0; slot < 2; slot++) {
        struct pl_graph *r = &n->region[slot];
        for (int k = 0; k < r->n_feeds; k++) {
            if (!known[k])
                continue;
            r->node[k].kind = PL_CONST;
            rt_tensor_ref(&r->node[k].value, &g->node[n->in[k + skip].node].value);
        }
        r->nodes_left = g->nodes_left;
        r->depth = g->depth + 1; /* a region inside another was made beside it */
        struct pl_graph own = *r;
        *r = (struct pl_graph){0};
        enum rt_status st = build(&own, &n->sub[slot], err);
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
        if (n->kind != PL_GONE && n->region) {
            enum rt_status st = build_regions(g, n, err);
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

/* ---- order ---- */

/* Depth first from targets and fetches, so that what belongs together runs together. A cycle is
 * left only by import's legal ones, through NextIteration, which the token executor runs. */
static enum rt_status order_nodes(const struct pl_graph *g, int *order, int *n_order,
                                  struct rt_error *err)
{
    enum { NEW, OPEN, DONE };
    unsigned char *mark = calloc((size_t)g->n + 1, 1);
    struct {
        int node, k;
    } *stack = malloc(((size_t)g->n + 1) * sizeof *stack);
    enum rt_status st = RT_OK;
    int depth = 0, n = 0;
    if (!mark || !stack) {
        st = rt_fail_memory(err, "a plan", (size_t)g->n);
        goto end;
    }
    for (int r = 0; r < g->n_targets + g->n_fetches + g->n_feeds; r++) {
        int root = r < g->n_targets                  ? g->target[r]
                   : r < g->n_targets + g->n_fetches ? g->fetch[r - g->n_targets].node
                                                     : r - g->n_targets - g->n_fetches;
        if (mark[root] != NEW)
            continue;
        mark[root] = OPEN;
        stack[depth].node = root;
        stack[depth++].k = 0;
        while (depth) {
            const struct pl_node *at = &g->node[stack[depth - 1].node];
            int k = stack[depth - 1].k;
            if (k < at->n_in + at->n_ctrl) {
                stack[depth - 1].k++;
                int from = k < at->n_in ? at->in[k].node : at->ctrl[k - at->n_in];
                bool back = at->def && g->node[from].def && pl_is_token(g->node[from].def) &&
                            strstr(g->node[from].def->schema->name, "NextIteration");
                if (mark[from] == NEW && !back) {
                    mark[from] = OPEN;
                    stack[depth].node = from;
                    stack[depth++].k = 0;
                } else if (mark[from] == OPEN && !back) {
                    st = rt_fail(err, RT_INVALID_ARGUMENT, "node '%s' is part of a cycle",
                                 g->node[from].name);
                    goto end;
                }
                continue;
            }
            mark[stack[--depth].node] = DONE;
            order[n++] = (int)(at - g->node);
        }
    }
    /* What only a back edge reaches, of data or of control: NextIteration nodes and what leads to
     * them. Every node that a node in the plan waits for has a place in it. */
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < g->n; i++) {
            if (mark[i] != DONE)
                continue;
            const struct pl_node *to = &g->node[i];
            for (int k = 0; k < to->n_in + to->n_ctrl; k++) {
                int root = k < to->n_in ? to->in[k].node : to->ctrl[k - to->n_in];
                if (mark[root] != NEW)
                    continue;
                again = true;
                mark[root] = OPEN;
                depth = 0;
                stack[depth].node = root;
                stack[depth++].k = 0;
                while (depth) {
                    const struct pl_node *at = &g->node[stack[depth - 1].node];
                    int j = stack[depth - 1].k++;
                    if (j < at->n_in + at->n_ctrl) {
                        int from = j < at->n_in ? at->in[j].node : at->ctrl[j - at->n_in];
                        if (mark[from] == NEW) {
                            mark[from] = OPEN;
                            stack[depth].node = from;
                            stack[depth++].k = 0;
                        }
                        continue;
                    }
                    mark[stack[--depth].node] = DONE;
                    order[n++] = (int)(at - g->node);
                }
            }
        }
    }
end:
    *n_order = n;
    free(mark);
    free(stack);
    return st;
}

static enum rt_status lay_out(struct rt_plan *p, struct pl_graph *g, const int *order, int *place,
                              struct rt_error *err)
{
    for (int i = 0; i < g->n; i++)
        place[i] = -1;
    for (int i = 0; i < p->n_nodes; i++) {
        p->node[i] = g->node[order[i]];
        g->node[order[i]].value = (struct rt_tensor){0}; /* ours now */
        g->node[order[i]].n_sub = 0;
        g->node[order[i]].region = NULL;
        place[order[i]] = i;
    }
    for (int i = 0; i < p->n_nodes; i++) {
        struct pl_node *n = &p->node[i];
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
        p->loops |= n->kind == PL_WHILE;
    }
    p->constant = rt_arena_array(p->arena, (size_t)p->n_values + 1, sizeof *p->constant);
    if (!p->constant)
        return rt_fail_memory(err, "a plan", 0);
    for (int i = 0; i < p->n_nodes; i++) {
        struct pl_node *n = &p->node[i];
        n->in_value = rt_arena_array(p->arena, (size_t)n->n_in + 1, sizeof *n->in_value);
        if (!n->in_value)
            return rt_fail_memory(err, "a plan", 0);
        for (int k = 0; k < n->n_in; k++) {
            struct pl_edge e = {place[n->in[k].node], n->in[k].out};
            n->in[k] = e;
            n->in_value[k] = p->node[e.node].first_value + e.out;
            const struct pl_node *from = &p->node[e.node];
            if (k < 64 && from->kind == PL_CONST &&
                !(n->def && pl_reads_variable(n->def, k, from->value.dtype)))
                n->const_in |= UINT64_C(1) << k;
        }
        for (int k = 0; k < n->n_ctrl; k++)
            n->ctrl[k] = place[n->ctrl[k]];
        /* One that waits for its control inputs may be dead. */
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
            p->feed_dtype[p->node[i].feed] = p->node[i].feed_dtype;
        }
    for (int i = 0; i < g->n_fetches; i++) {
        p->fetch_value[i] = p->node[place[g->fetch[i].node]].first_value + g->fetch[i].out;
        p->fetch_dtype[i] = g->fetch_dtype[i];
    }
    return RT_OK;
}

/* Which node reads a value last, so that its memory can go (order executor). */
static enum rt_status find_last_uses(struct rt_plan *p, struct rt_error *err)
{
    int *last = malloc(((size_t)p->n_values + 1) * sizeof *last);
    int *count = calloc((size_t)p->n_nodes + 1, sizeof *count);
    enum rt_status st = RT_OK;
    if (!last || !count) {
        st = rt_fail_memory(err, "a plan", 0);
        goto end;
    }
    enum { KEPT = -2, UNREAD = -1 };
    for (int v = 0; v < p->n_values; v++)
        last[v] = UNREAD;
    for (int i = 0; i < p->n_nodes; i++)
        for (int k = 0; k < p->node[i].n_in; k++)
            last[p->node[i].in_value[k]] = i;
    for (int k = 0; k < p->n_fetches; k++)
        last[p->fetch_value[k]] = KEPT;
    for (int v = 0; v < p->n_values; v++)
        if (p->constant[v])
            last[v] = KEPT;
    for (int i = 0; i < p->n_nodes; i++)
        for (int o = 0; o < p->node[i].n_out; o++) {
            int v = p->node[i].first_value + o;
            if (last[v] == UNREAD && p->node[i].kind != PL_FEED)
                last[v] = i; /* nobody reads it: dropped at once */
            if (last[v] >= 0)
                count[last[v]]++;
        }
    for (int i = 0; i < p->n_nodes; i++) {
        p->node[i].release = rt_arena_array(p->arena, (size_t)count[i] + 1, sizeof(int));
        if (!p->node[i].release) {
            st = rt_fail_memory(err, "a plan", 0);
            goto end;
        }
    }
    for (int v = 0; v < p->n_values; v++)
        if (last[v] >= 0) {
            struct pl_node *n = &p->node[last[v]];
            n->release[n->n_release++] = v;
        }
    for (int i = 0; i < p->n_nodes; i++) {
        struct pl_node *n = &p->node[i];
        for (int k = 0; k < n->n_in && k < 64; k++) {
            bool again = false;
            for (int j = 0; j < n->n_in; j++)
                again |= j != k && n->in_value[j] == n->in_value[k];
            if (last[n->in_value[k]] == i && !again)
                n->last_use |= UINT64_C(1) << k;
        }
    }
end:
    free(last);
    free(count);
    return st;
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
    st = order_nodes(g, order, &p->n_nodes, err);
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
        st = find_last_uses(p, err);
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
        p->arena = NULL; /* the caller's still */
        rt_plan_free(p);
    }
    return st;
}

void pl_nodes_clear(struct pl_graph *g)
{
    for (int i = 0; i < g->n; i++) {
        rt_tensor_clear(&g->node[i].value);
        for (int k = 0; k < g->node[i].n_sub; k++)
            rt_plan_free(g->node[i].sub[k]);
        for (int k = 0; g->node[i].region && k < 2; k++)
            pl_graph_clear(&g->node[i].region[k]);
    }
    free(g->node);
    free(g->target);
}

/* The nodes of a request, before anything is fused or planned inside them. */
static enum rt_status settle(struct pl_graph *g, struct rt_error *err)
{
    bool again = true, frozen = false;
    enum rt_status st = RT_OK;

    /* Inlining shows reads of variables, these are constants, constants choose branches, and a
     * branch that is chosen is a call again. */
    for (int round = 0; !st && again && round < 32; round++) {
        bool calls = false, dropped = false;
        st = pl_inline(g, err);
        if (!st)
            st = pl_resolve(g, err);
        if (!st)
            st = pl_simplify(g, &calls, err);
        if (!st)
            st = pl_drop_untaken(g, &dropped, err);
        if (!st)
            st = pl_freeze(g, &frozen, err);
        again = calls || dropped || frozen;
    }
    return st;
}

/* Control flow of TensorFlow 1, and loops that are layers. A plan without tokens left is one that
 * can be simplified, and what is known then may be more. */
static enum rt_status raise(struct pl_graph *g, struct rt_error *err)
{
    bool again = true;
    enum rt_status st = RT_OK;

    for (int round = 0; !st && again && round < 32; round++) {
        st = rt_session_check(g->session, err);
        if (!st)
            st = pl_raise_branches(g, &again, err);
        if (!st && !again)
            st = pl_fuse_rnn_frames(g, &again, err);
        if (!st && !again)
            st = pl_raise_loops(g, &again, err);
        if (!st && again)
            st = settle(g, err);
    }
    return st ? st : pl_fuse_rnn_whiles(g, err);
}

enum rt_status pl_look_inside(const struct pl_graph *g, int node, const struct rt_func_ref *f,
                              bool is_body, struct pl_graph *out, struct rt_error *err)
{
    int64_t nodes_left = *g->nodes_left;
    struct sub_request r;
    enum rt_status st = sub_request(g, &g->node[node], f, 0, is_body, &r, err);

    *out = (struct pl_graph){.session = g->session,
                             .serving = g->serving,
                             .depth = g->depth + 1,
                             .is_load = g->is_load,
                             .nodes_left = &nodes_left};
    if (!st && !(out->arena = rt_arena_new((size_t)1 << 31)))
        st = rt_fail_memory(err, "a plan", 0);
    if (!st)
        st = pl_cut(out, &r.q, err);
    if (!st)
        st = settle(out, err);
    out->nodes_left = NULL;
    sub_request_clear(&r);
    if (st)
        pl_graph_clear(out);
    return st;
}

void pl_graph_clear(struct pl_graph *g)
{
    pl_nodes_clear(g);
    if (g->arena)
        rt_arena_free(g->arena);
    *g = (struct pl_graph){0};
}

static enum rt_status build(struct pl_graph *g, struct rt_plan **out, struct rt_error *err)
{
    struct rt_session *s = g->session;
    const bool fuses = s->n_devices <= 1 && !s->options.tuning.no_fusion;
    enum rt_status st = rt_session_check(s, err);

    if (!st)
        st = settle(g, err);
    *g->nodes_left -= g->n + PLAN_NODES;
    if (!st && *g->nodes_left < 0)
        st = rt_fail(err, RT_RESOURCE_EXHAUSTED, "more than %d nodes with all functions in place",
                     MAX_ALL_NODES);
    if (!st && fuses)
        st = raise(g, err);
    if (!st)
        st = pl_sub_plans(g, err);
    if (!st) {
        pl_prune(g);
        if (!g->is_load)
            st = pl_mark_written(g, err);
        if (!st && fuses)
            st = pl_fuse(g, err);
    }
    if (!st) {
        pl_mark_reads(g);
        pl_prune(g);
        st = pl_place(g, err);
    }
    if (!st)
        st = pl_finish(g, out, err);
    if (!st) {
        (*out)->writes_fed = g->writes_fed;
        (*out)->handed_out = g->handed_out;
        (*out)->n_handed_out = g->n_handed_out;
    }
    /* Copies between devices, and what runs once, are left to tier 0. */
    if (!st && !(*out)->tokens && s->n_devices <= 1 && !g->is_load &&
        !s->options.tuning.no_specialise)
        (*out)->segment = rt_arena_array(g->arena, (size_t)(*out)->n_nodes + 1,
                                         sizeof *(*out)->segment); /* NULL: never compiled */
    pl_nodes_clear(g);
    if (st)
        rt_arena_free(g->arena);
    return st;
}

enum rt_status rt_plan_build(struct rt_session *s, const struct pl_request *q, int depth,
                             struct rt_plan **out, struct rt_error *err)
{
    int64_t nodes_left = MAX_ALL_NODES;
    struct pl_graph g = {.session = s,
                         .arena = rt_arena_new((size_t)1 << 31),
                         .serving = s->serving,
                         .depth = depth,
                         .is_load = q->is_load,
                         .nodes_left = q->nodes_left ? q->nodes_left : &nodes_left};
    enum rt_status st;
    if (!g.arena)
        return rt_fail_memory(err, "a plan", 0);
    st = pl_cut(&g, q, err);
    if (!st)
        return build(&g, out, err);
    pl_graph_clear(&g);
    return st;
}
