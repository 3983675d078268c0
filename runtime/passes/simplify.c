/*
 * Makes the graph smaller without changing its results. Readers of an identity read its input
 * instead. Nodes with only constant inputs are folded by their own kernels. Equal nodes are merged.
 * Branches with a constant condition become calls. Only pure nodes without control inputs change.
 * In a graph with TensorFlow 1's control flow, only nodes that are alive in every run are folded,
 * and nothing else changes.
 */
#include "runtime/ir/match.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/constant_evaluation.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FOLDED_BYTES = 16 << 20 };

static bool is_pure_op(const struct pl_node *n)
{
    return n->kind == PL_OP && n->def && n->def->op && n->effect == RT_PURE && !n->call &&
           !n->def->op->slot_kind && !pl_is_token(n->def);
}

/* A node is BUSY if it has an effect or runs after a node that has one. Otherwise it is IDLE. */
enum mark { NEW, OPEN, IDLE, BUSY };

/* Returns whether the graph writes a variable. In a graph that writes a variable, a Snapshot of the
 * value of a ref variable is a copy (exec/alias.h), not an identity. */
static bool may_write(const struct pl_graph *g)
{
    for (int i = 0; i < g->n; i++)
        if (g->node[i].kind != PL_GONE && g->node[i].effect == RT_WRITES)
            return true;
    return false;
}

/* Returns whether node i passes its inputs on unchanged. A node with several outputs must also be
 * IDLE, because each of its outputs waits for all its inputs. `mark` may be NULL. */
static bool is_identity(const struct pl_graph *g, int i, const unsigned char *mark)
{
    const struct pl_node *n = &g->node[i];
    return is_pure_op(n) && n->n_ctrl == 0 &&
           (pl_is(n, "Identity") || pl_is(n, "StopGradient") || pl_is(n, "PreventGradient") ||
            (pl_is(n, "Snapshot") && !may_write(g)) ||
            (pl_is(n, "IdentityN") && (n->n_in == 1 || (mark && mark[i] == IDLE))));
}

/* Like pl_pure_origin, but also skips other ops that pass their input on unchanged. Skips an
 * identity of a ref only if its input is a plain value, because otherwise the identity reads the
 * variable. */
static struct pl_edge through_identities(struct pl_graph *g, const unsigned char *mark,
                                         const struct pl_edge from)
{
    struct pl_edge e = from, at = from;
    int hops = 0;
    for (; hops < g->n; hops++) {
        const struct pl_node *n = &g->node[e.node];
        if (!is_identity(g, e.node, mark) || pl_is_ref(g, n->in[e.out]))
            break;
        e = n->in[e.out];
    }
    /* Path compression: later calls that follow this path need only one hop. */
    while (hops-- > 0) {
        struct pl_edge *in = &g->node[at.node].in[at.out];
        at = *in;
        *in = e;
    }
    return e;
}

static void skip_identities(struct pl_graph *g, const unsigned char *mark)
{
    for (int i = 0; i < g->n; i++) {
        struct pl_node *n = &g->node[i];
        if (n->kind == PL_GONE)
            continue;
        for (int k = 0; k < n->n_in; k++)
            n->in[k] = through_identities(g, mark, n->in[k]);
    }
    for (int k = 0; k < g->n_fetches; k++)
        g->fetch[k] = through_identities(g, mark, g->fetch[k]);
}

/* Marks each node IDLE or BUSY. The caller frees the result, which is NULL if memory runs out. */
static unsigned char *mark_effects(const struct pl_graph *g)
{
    unsigned char *mark = calloc((size_t)g->n + 1, 1);
    size_t capacity = (size_t)g->n + 1; /* A node is pushed onto the stack at most once per edge. */
    for (int i = 0; i < g->n; i++)
        if (g->node[i].kind != PL_GONE)
            capacity += (size_t)(g->node[i].n_in + g->node[i].n_ctrl);
    int *stack = malloc(capacity * sizeof *stack), depth = 0;
    if (!mark || !stack) {
        free(mark);
        free(stack);
        return NULL;
    }
    for (int root = 0; root < g->n; root++) {
        if (mark[root] != NEW || g->node[root].kind == PL_GONE)
            continue;
        stack[depth++] = root;
        while (depth) {
            int i = stack[depth - 1];
            const struct pl_node *n = &g->node[i];
            if (mark[i] >= IDLE) {
                depth--;
                continue;
            }
            bool first = mark[i] == NEW;
            bool busy = (n->kind == PL_OP || n->subgraph) && n->effect != RT_PURE;
            mark[i] = OPEN;
            for (int k = 0; k < n->n_in + n->n_ctrl; k++) {
                int from = k < n->n_in ? n->in[k].node : n->ctrl[k - n->n_in];
                if (first && mark[from] == NEW)
                    stack[depth++] = from;
                busy |= mark[from] == BUSY || mark[from] == OPEN;
            }
            if (stack[depth - 1] == i) {
                mark[i] = busy ? BUSY : IDLE;
                depth--;
            }
        }
    }
    free(stack);
    return mark;
}

/* Removes control edges from nodes that have no effect and no ancestor with an effect, because
 * these edges order nothing. */
static void drop_idle_control(struct pl_graph *g, const unsigned char *mark)
{
    for (int i = 0; mark && i < g->n; i++) {
        struct pl_node *n = &g->node[i];
        int kept = 0;
        for (int k = 0; n->kind != PL_GONE && k < n->n_ctrl; k++)
            if (mark[n->ctrl[k]] != IDLE)
                n->ctrl[kept++] = n->ctrl[k];
        if (n->kind != PL_GONE)
            n->n_ctrl = kept;
    }
}

static bool all_constant(const struct pl_graph *g, const struct pl_node *n)
{
    size_t bytes = 0;
    for (int k = 0; k < n->n_in; k++) {
        const struct pl_node *from = &g->node[n->in[k].node];
        if (from->kind != PL_CONST || from->n_ctrl || from->value.dtype == RT_VARIANT ||
            from->value.dtype == RT_RESOURCE)
            return false;
        bytes += rt_tensor_bytes(&from->value);
    }
    return bytes <= MAX_FOLDED_BYTES;
}

/* Computes output k of the node from its constant inputs. Returns false if that fails; the output
 * is then computed in each run instead. */
static bool fold(struct pl_graph *g, int i, int k, struct rt_tensor *out)
{
    struct pl_node *n = &g->node[i];
    struct rt_tensor *in = calloc((size_t)n->n_in + 1, sizeof *in);
    struct rt_error err = {0};
    bool ok = false;

    *out = (struct rt_tensor){0};
    if (!in)
        return false;
    for (int j = 0; j < n->n_in; j++)
        in[j] = g->node[n->in[j].node].value;
    ok = rt_plan_fold(g->session, n, in, k, out, &err) == RT_OK &&
         rt_tensor_bytes(out) <= MAX_FOLDED_BYTES;
    if (!ok)
        rt_tensor_clear(out);
    n->unfoldable = !ok && err.code != RT_CANCELLED;
    free(in);
    return ok;
}

static bool fold_node(struct pl_graph *g, int i)
{
    struct rt_tensor out;

    if (!fold(g, i, 0, &out))
        return false;
    g->node[i].kind = PL_CONST;
    g->node[i].value = out;
    g->node[i].n_in = 0;
    return true;
}

/* Folds a node with several outputs. Each output that is read becomes a separate constant. */
static bool fold_outputs(struct pl_graph *g, int i)
{
    enum { MOST = 8 };
    int made[MOST] = {0}, n_out = g->node[i].n_out;
    bool any = false;

    if (n_out > MOST)
        return false;
    for (int j = 0, n = g->n; j < n; j++)
        for (int k = 0; g->node[j].kind != PL_GONE && k < g->node[j].n_in; k++) {
            const struct pl_edge e = g->node[j].in[k];
            struct rt_tensor out;
            if (e.node != i || made[e.out] < 0)
                continue;
            if (!made[e.out]) {
                struct rt_error err = {0};
                made[e.out] = -1;
                if (!fold(g, i, e.out, &out))
                    continue;
                const int c = pl_add(g, &err); /* pl_add may reallocate g->node. */
                if (c < 0) {
                    rt_tensor_clear(&out);
                    return any;
                }
                g->node[c].kind = PL_CONST;
                g->node[c].name = g->node[i].name;
                g->node[c].depth = g->node[i].depth;
                g->node[c].n_out = 1;
                g->node[c].value = out;
                made[e.out] = c;
                any = true;
            }
            g->node[j].in[k] = (struct pl_edge){made[e.out], 0};
        }
    return any;
}

static bool fold_all(struct pl_graph *g)
{
    bool any = false, again = true;
    /* The traversal starts at the end, because pl_extract usually puts a node before the nodes that
     * it reads. Nodes that cannot be folded yet are folded in the next round. */
    for (int round = 0; again && round < 8; round++) {
        again = false;
        for (int i = g->n - 1; i >= 0; i--) {
            struct pl_node *n = &g->node[i];
            if (!is_pure_op(n) || n->unfoldable || n->n_ctrl || n->n_out < 1 || n->n_in == 0 ||
                n->n_sub || !all_constant(g, n))
                continue;
            if (n->n_out == 1 ? fold_node(g, i) : fold_outputs(g, i))
                again = any = true;
        }
    }
    return any;
}

/* Adds control edges from the nodes that make the node's inputs, because the function body that
 * replaces the node might not read all of them. */
static enum rt_status wait_for_inputs(struct pl_graph *g, struct pl_node *n, struct rt_error *err)
{
    int *ctrl = rt_arena_array(g->arena, (size_t)n->n_ctrl + (size_t)n->n_in + 1, sizeof *ctrl);
    if (!ctrl)
        return rt_fail_memory(err, "a plan", (size_t)n->n_in);
    if (n->n_ctrl)
        memcpy(ctrl, n->ctrl, (size_t)n->n_ctrl * sizeof *ctrl);
    for (int k = 0; k < n->n_in; k++)
        if (g->node[n->in[k].node].kind != PL_FEED)
            ctrl[n->n_ctrl++] = n->in[k].node;
    n->ctrl = ctrl;
    return RT_OK;
}

/* Turns each branch with a constant condition into a call of the function of the chosen side. */
static enum rt_status take_branches(struct pl_graph *g, bool *any, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    for (int i = 0; i < g->n && !st; i++) {
        struct pl_node *n = &g->node[i];
        bool yes;
        if (!(pl_is(n, "If") || pl_is(n, "StatelessIf")) || n->call)
            continue;
        const struct pl_node *from = &g->node[n->in[0].node];
        if (from->kind != PL_CONST || !from->value.data || !pl_truth(&from->value, &yes))
            continue;
        n->call = rt_attr_func(n->def, yes ? "then_branch" : "else_branch");
        n->call_skip = 1;
        *any = true;
        st = wait_for_inputs(g, n, err);
    }
    return st;
}

struct seen {
    uint64_t hash;
    int node;
};

static uint64_t node_hash(const struct pl_node *n)
{
    uint64_t h = rt_hash(&n->def, sizeof n->def);
    for (int k = 0; k < n->n_in; k++)
        h = h * 31 + rt_hash(&n->in[k], sizeof n->in[k]);
    return h;
}

static int by_hash(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    return x->hash != y->hash ? (x->hash < y->hash ? -1 : 1) : x->node - y->node;
}

/* Merges pure nodes that were made from the same node of the model and have the same inputs. Most
 * of them come from bodies that were inlined twice. */
static void merge_equal(struct pl_graph *g)
{
    struct seen *s = malloc(((size_t)g->n + 1) * sizeof *s);
    int *same = malloc(((size_t)g->n + 1) * sizeof *same), n_seen = 0;
    if (!s || !same)
        goto end;
    for (int i = 0; i < g->n; i++) {
        same[i] = i;
        if (is_pure_op(&g->node[i]) && !g->node[i].n_ctrl && !g->node[i].n_sub)
            s[n_seen++] = (struct seen){node_hash(&g->node[i]), i};
    }
    qsort(s, (size_t)n_seen, sizeof *s, by_hash);
    bool any = false;
    for (int k = 1; k < n_seen; k++) {
        const struct pl_node *a = &g->node[s[k - 1].node], *b = &g->node[s[k].node];
        if (s[k].hash != s[k - 1].hash || a->def != b->def || a->n_in != b->n_in ||
            memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in) != 0)
            continue;
        same[s[k].node] = same[s[k - 1].node];
        any = true;
    }
    if (any) {
        for (int i = 0; i < g->n; i++)
            for (int k = 0; g->node[i].kind != PL_GONE && k < g->node[i].n_in; k++)
                g->node[i].in[k].node = same[g->node[i].in[k].node];
        for (int k = 0; k < g->n_fetches; k++)
            g->fetch[k].node = same[g->fetch[k].node];
    }
end:
    free(s);
    free(same);
}

enum rt_status pl_simplify(struct pl_graph *g, bool *changed_calls, struct rt_error *err)
{
    *changed_calls = false;
    for (int i = 0; i < g->n; i++)
        if (g->node[i].kind == PL_OP && g->node[i].def && pl_is_token(g->node[i].def)) {
            fold_all(g);
            return RT_OK;
        }
    unsigned char *mark = mark_effects(g);
    drop_idle_control(g, mark);
    skip_identities(g, mark);
    free(mark);
    pl_prune(g);
    merge_equal(g);
    fold_all(g);
    const enum rt_status st = take_branches(g, changed_calls, err);
    pl_prune(g);
    return st;
}
