/*
 * Inlines function calls. A call must run the function's returns, its control returns and every
 * node with an effect.
 *
 * Two nodes without an op represent the beginning and the end of the call. The entry takes over the
 * call's control inputs; the nodes with effects and the outputs wait for it. The exit waits for the
 * call's inputs and for all nodes that the body must run; nodes that waited for the call wait for
 * the exit instead.
 *
 * A call becomes a sub-plan instead if the body or the calling graph has TensorFlow 1's control
 * flow. In such a graph the call may be dead, but an inlined node without inputs would run.
 */
#include "runtime/ir/match.h"
#include "runtime/ir/subgraph.h"
#include "runtime/passes/passes.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NODES = 50000, MAX_DEPTH = 200 };

/* The outputs of a call that was inlined. */
struct forward {
    struct pl_edge *out;
    int exit;
};

static bool has_tokens(const struct rt_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (pl_is_token(&g->node[i]))
            return true;
    return false;
}

static bool graph_has_tokens(const struct pl_graph *g)
{
    for (int i = 0; i < g->n; i++)
        if (g->node[i].kind == PL_OP && g->node[i].def && pl_is_token(g->node[i].def))
            return true;
    return false;
}

static bool has_functions(const struct pl_node *n)
{
    static const char *const names[] = {"If",           "StatelessIf",   "While", "StatelessWhile",
                                        "Case",         "StatelessCase", "For",   "MapDefun",
                                        "BatchFunction"};
    bool yes = n->kind == PL_OP && n->call;
    for (size_t i = 0; i < sizeof names / sizeof *names && !yes; i++)
        yes = pl_is(n, names[i]);
    return yes;
}

static bool writes_refs(const struct pl_graph *g)
{
    for (int i = 0; i < g->n; i++) {
        const struct pl_node *n = &g->node[i];
        if (n->kind == PL_OP && n->def && n->effect == RT_WRITES && n->def->out_ref)
            return true;
    }
    return false;
}

/*
 * Inserts a node between call `at` and each of the following inputs. The new node reads the input
 * and waits for the call's control inputs.
 *
 *   - A ref of a variable: a function's arguments are values, never refs.
 *   - A value that may share a variable's own buffer (runtime/exec/alias.h): the call's control
 *     inputs may change the buffer, and nodes of the body without effects do not wait for them.
 */
static enum rt_status read_arguments(struct pl_graph *g, int at, struct rt_error *err)
{
    const bool waits = g->node[at].n_ctrl && writes_refs(g);

    for (int k = 0; k < g->node[at].n_in; k++) {
        const struct pl_node call = g->node[at];
        if (k >= call.def->n_in || !pl_follows_refs(call.def, k))
            continue;
        const bool is_ref = pl_is_ref(g, call.in[k]);
        if (!is_ref && !waits)
            continue;
        const int i = pl_add(g, err); /* pl_add may reallocate g->node. */
        if (i < 0)
            return RT_RESOURCE_EXHAUSTED;
        struct pl_node *read = &g->node[i];
        read->name = call.name;
        read->depth = call.depth;
        read->ctrl = rt_arena_array(g->arena, (size_t)call.n_ctrl + 1, sizeof *read->ctrl);
        if (!read->ctrl)
            return rt_fail_memory(err, "a plan", (size_t)call.n_ctrl);
        if (call.n_ctrl)
            memcpy(read->ctrl, call.ctrl, (size_t)call.n_ctrl * sizeof *read->ctrl);
        read->n_ctrl = call.n_ctrl;
        const enum rt_status st =
            pl_make_identity(g, i, (enum rt_dtype)call.def->in_dtype[k], call.in[k], err);
        if (st)
            return st;
        if (is_ref)
            read->effect = RT_READS;
        call.in[k] = (struct pl_edge){i, 0};
    }
    return RT_OK;
}

static int add_pivot(struct pl_graph *g, const char *name, int n_ctrl, struct rt_error *err)
{
    int i = pl_add(g, err);
    if (i < 0)
        return -1;
    g->node[i].kind = PL_OP;
    g->node[i].name = name;
    g->node[i].ctrl = rt_arena_array(g->arena, (size_t)n_ctrl + 1, sizeof(int));
    if (!g->node[i].ctrl) {
        rt_fail_memory(err, "a plan", (size_t)n_ctrl);
        return -1;
    }
    return i;
}

/* Replaces *out, an output of an inlined call, with an Identity that waits for `entry`. Used for an
 * output that a pure node makes or that is an argument of the call. */
static enum rt_status wait_for(struct pl_graph *g, int entry, const char *name, int depth,
                               enum rt_dtype dtype, struct pl_edge *out, struct rt_error *err)
{
    const int i = add_pivot(g, name, 1, err);
    if (i < 0)
        return RT_RESOURCE_EXHAUSTED;
    g->node[i].depth = depth;
    g->node[i].ctrl[0] = entry;
    g->node[i].n_ctrl = 1;
    const enum rt_status st = pl_make_identity(g, i, dtype, *out, err);
    *out = (struct pl_edge){i, 0};
    return st;
}

struct inlining {
    struct pl_graph *g;
    struct pl_node call;
    struct pl_graph body; /* graph of the function's body, with the call's arguments as feeds */
    int n_args;
    int base;  /* Node k of the body, unless it is a feed, becomes node base + k of `g`. */
    int entry; /* the entry node, or -1 if the call has no control inputs */
};

/* Makes the graph of the function's body, with the arguments as its feeds. */
static enum rt_status extract_body(struct inlining *x, const struct rt_graph *body,
                                   struct rt_error *err)
{
    struct rt_edge *feeds = malloc(((size_t)x->n_args + 1) * sizeof *feeds);
    if (!feeds)
        return rt_fail_memory(err, "a plan", (size_t)x->n_args);
    for (int i = 0; i < x->n_args; i++)
        feeds[i] = (struct rt_edge){body->arg[i], 0};
    struct pl_request q = {.graph = body,
                           .feeds = feeds,
                           .n_feeds = x->n_args,
                           .fetches = body->ret,
                           .n_fetches = body->n_rets,
                           .targets = body->ctrl_ret,
                           .n_targets = body->n_ctrl_rets,
                           .is_body = true};
    enum rt_status st = pl_extract(&x->body, &q, err);
    free(feeds);
    if (st)
        return st;
    pl_mark_reads(&x->body);
    if (x->g->n + x->body.n > 2 * MAX_NODES)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "more than %d nodes after inlining", MAX_NODES);
    return RT_OK;
}

static enum rt_status add_entry(struct inlining *x, struct rt_error *err)
{
    const struct pl_node *call = &x->call;
    x->entry = add_pivot(x->g, call->name, call->n_ctrl, err);
    if (x->entry < 0)
        return RT_RESOURCE_EXHAUSTED;
    memcpy(x->g->node[x->entry].ctrl, call->ctrl, (size_t)call->n_ctrl * sizeof(int));
    x->g->node[x->entry].n_ctrl = call->n_ctrl;
    return RT_OK;
}

/* Returns the edge of `g` that corresponds to edge `e` of the body. */
static struct pl_edge inlined_edge(const struct inlining *x, struct pl_edge e)
{
    return e.node < x->n_args ? x->call.in[e.node + x->call.call_skip]
                              : (struct pl_edge){x->base + e.node, e.out};
}

static enum rt_status wait_for_entry(struct inlining *x, struct pl_node *n, struct rt_error *err)
{
    int *ctrl = rt_arena_array(x->g->arena, (size_t)n->n_ctrl + 1, sizeof *ctrl);
    if (!ctrl)
        return rt_fail_memory(err, "a plan", 0);
    if (n->n_ctrl)
        memcpy(ctrl, n->ctrl, (size_t)n->n_ctrl * sizeof *ctrl);
    ctrl[n->n_ctrl] = x->entry;
    n->ctrl = ctrl;
    n->n_ctrl++;
    return RT_OK;
}

/* Moves node k of the body to the end of `g`. */
static enum rt_status move_node(struct inlining *x, int k, struct rt_error *err)
{
    const int i = pl_add(x->g, err);
    if (i < 0)
        return RT_RESOURCE_EXHAUSTED;
    struct pl_node *n = &x->g->node[i];
    *n = x->body.node[k];
    x->body.node[k] = (struct pl_node){0}; /* `g` now owns the node's contents. */
    n->depth = x->call.depth + 1;
    n->name = rt_arena_printf(x->g->arena, "%s/%s", x->call.name, n->name);
    if (!n->name)
        return rt_fail_memory(err, "a plan", 0);
    for (int j = 0; j < n->n_in; j++)
        n->in[j] = inlined_edge(x, n->in[j]);
    for (int j = 0; j < n->n_ctrl; j++)
        n->ctrl[j] += x->base;
    return x->entry >= 0 && n->effect != RT_PURE ? wait_for_entry(x, n, err) : RT_OK;
}

/* Makes the exit node. The exit node waits for the nodes that the body must run, for the entry, and
 * for the call's inputs. */
static enum rt_status add_exit(struct inlining *x, int *exit, struct rt_error *err)
{
    struct pl_graph *g = x->g;
    const struct pl_node *call = &x->call;
    const int n_targets = x->body.n_targets;

    *exit = add_pivot(g, call->name, n_targets + call->n_in + 1, err);
    if (*exit < 0)
        return rt_fail_memory(err, "a plan", 0);
    for (int k = 0; k < n_targets; k++) {
        g->node[*exit].ctrl[k] = x->base + x->body.target[k];
        if (!pl_add_target(g, x->base + x->body.target[k]))
            return rt_fail_memory(err, "a plan", 0);
    }
    struct pl_node *n = &g->node[*exit];
    n->n_ctrl = n_targets;
    if (x->entry >= 0)
        n->ctrl[n->n_ctrl++] = x->entry;
    for (int k = 0; k < call->n_in; k++)
        if (g->node[call->in[k].node].kind != PL_FEED)
            n->ctrl[n->n_ctrl++] = call->in[k].node;
    return RT_OK;
}

static enum rt_status forward_outputs(struct inlining *x, struct pl_edge *out, struct rt_error *err)
{
    const struct pl_node *call = &x->call;
    enum rt_status st = RT_OK;

    for (int k = 0; k < call->n_out && !st; k++) {
        const struct pl_edge from = x->body.fetch[k];
        out[k] = inlined_edge(x, from);
        if (x->entry >= 0 && (from.node < x->n_args || x->g->node[out[k].node].effect == RT_PURE))
            st = wait_for(x->g, x->entry, call->name, call->depth,
                          (enum rt_dtype)call->def->out_dtype[k], &out[k], err);
    }
    return st;
}

/* Returns the type of an edge, or 0 if it is unknown. */
static enum rt_dtype edge_dtype(const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *n = &g->node[e.node];

    return n->kind == PL_FEED ? (enum rt_dtype)n->feed_dtype : pl_edge_dtype(g, e);
}

static enum rt_status check_type(const struct pl_node *call, const char *what, int k,
                                 enum rt_dtype is, enum rt_dtype wanted, struct rt_error *err)
{
    return is == wanted || !is
               ? RT_OK
               : rt_fail(err, RT_INVALID_ARGUMENT, "%s %d of call '%s' is %s, expected %s", what, k,
                         call->name, rt_dtype_name(is), rt_dtype_name(wanted));
}

/* Checks that the values that enter the body and leave it have the types that the body and the
 * call declare. A call that is not inlined is checked by the sub-plan's run. Later passes copy the
 * types of producers, so a fused node would read other bytes than there are. */
static enum rt_status check_types(const struct inlining *x, const struct rt_graph *body,
                                  struct rt_error *err)
{
    const struct pl_node *call = &x->call;
    enum rt_status st = RT_OK;

    for (int k = 0; k < x->n_args && !st; k++)
        st = check_type(call, "argument", k, edge_dtype(x->g, call->in[k + call->call_skip]),
                        (enum rt_dtype)body->node[body->arg[k]].out_dtype[0], err);
    for (int k = 0; k < call->n_out && !st; k++)
        st = check_type(call, "result", k,
                        (enum rt_dtype)body->node[body->ret[k].node].out_dtype[body->ret[k].out],
                        (enum rt_dtype)call->def->out_dtype[k], err);
    return st;
}

static enum rt_status inline_call(struct pl_graph *g, int at, const struct rt_graph *body,
                                  struct forward *f, struct rt_error *err)
{
    struct inlining x = {.g = g, .call = g->node[at], .entry = -1};
    const struct pl_node *call = &x.call;
    enum rt_status st;

    x.body = (struct pl_graph){.session = g->session, .arena = g->arena};
    x.n_args = call->n_in - call->call_skip;
    if (x.n_args != body->n_args || call->n_out != body->n_rets)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "call '%s': function '%s' takes %d arguments and returns %d, the call has "
                       "%d and %d",
                       call->name, body->name, body->n_args, body->n_rets, x.n_args, call->n_out);
    if (call->depth >= MAX_DEPTH)
        return pl_fail_too_deep(g->session, body, call->name, MAX_DEPTH, err);
    st = check_types(&x, body, err);
    if (!st)
        st = extract_body(&x, body, err);
    if (!st && call->n_ctrl)
        st = add_entry(&x, err);
    x.base = g->n - x.n_args;
    for (int k = x.n_args; k < x.body.n && !st; k++)
        st = move_node(&x, k, err);
    if (!st)
        st = add_exit(&x, &f->exit, err);
    if (!st && !(f->out = rt_arena_array(g->arena, (size_t)call->n_out + 1, sizeof *f->out)))
        st = rt_fail_memory(err, "a plan", 0);
    if (!st)
        st = forward_outputs(&x, f->out, err);
    if (!st) {
        g->node[at].kind = PL_GONE;
        g->node[at].call = NULL;
    }
    pl_nodes_clear(&x.body);
    return st;
}

static struct pl_edge follow(const struct forward *f, struct pl_edge e)
{
    while (f[e.node].out)
        e = f[e.node].out[e.out];
    return e;
}

static int follow_ctrl(const struct forward *f, int n)
{
    while (f[n].out)
        n = f[n].exit;
    return n;
}

enum rt_status pl_inline(struct pl_graph *g, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    struct forward *f = NULL;
    int capacity = 0;
    bool any = false;
    for (int i = 0, n = g->n; i < n && !st; i++)
        if (has_functions(&g->node[i]))
            st = read_arguments(g, i, err);
    if (st || graph_has_tokens(g))
        return st;
    for (int i = 0; i < g->n; i++) {
        if (!g->node[i].call || g->node[i].kind != PL_OP)
            continue;
        const struct rt_graph *body;
        st = rt_library_instantiate(g->session->library, g->node[i].call, &body, err);
        if (st)
            goto end;
        if (g->n > MAX_NODES || has_tokens(body))
            continue;
        while (capacity <= i) {
            int more = capacity ? capacity * 2 : 256;
            struct forward *p = realloc(f, (size_t)more * sizeof *f);
            if (!p) {
                st = rt_fail_memory(err, "a plan", (size_t)more * sizeof *f);
                goto end;
            }
            memset(p + capacity, 0, (size_t)(more - capacity) * sizeof *f);
            f = p;
            capacity = more;
        }
        st = inline_call(g, i, body, &f[i], err);
        if (st)
            goto end;
        any = true;
    }
    if (!any)
        goto end;
    struct forward *p = realloc(f, ((size_t)g->n + 1) * sizeof *f);
    if (!p) {
        st = rt_fail_memory(err, "a plan", (size_t)g->n * sizeof *f);
        goto end;
    }
    f = p;
    if (capacity < g->n)
        memset(f + capacity, 0, (size_t)(g->n - capacity) * sizeof *f);
    for (int i = 0; i < g->n; i++) {
        struct pl_node *n = &g->node[i];
        if (n->kind == PL_GONE)
            continue;
        for (int k = 0; k < n->n_in; k++)
            n->in[k] = follow(f, n->in[k]);
        for (int k = 0; k < n->n_ctrl; k++)
            n->ctrl[k] = follow_ctrl(f, n->ctrl[k]);
    }
    for (int k = 0; k < g->n_fetches; k++)
        g->fetch[k] = follow(f, g->fetch[k]);
    for (int k = 0; k < g->n_targets; k++)
        g->target[k] = follow_ctrl(f, g->target[k]);
end:
    free(f);
    return st;
}
