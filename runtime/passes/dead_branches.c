/*
 * Removes branches of TensorFlow 1 that no run executes. If the predicate of a Switch is a
 * constant, one output of the Switch is dead in every run. The pass removes all nodes that depend
 * on this output, up to the Merge that joins the two sides of the branch. The Switch and the Merge
 * become identities. Often no control flow is left: the predicate is typically a `training` flag
 * with a default value that a serving signature does not override.
 *
 * This pass counts a node as dead only if it is dead in every run, by the rules of the token
 * executor (exec/exec_token.c). The pass leaves the graph unchanged if its edges alone do not show
 * which nodes are dead. Examples are a dead fetch, a loop whose next iteration is dead, and a
 * control edge from a dead node to a live node.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/ir/condition.h"
#include "runtime/passes/passes.h"

enum { UNKNOWN = -1 };

struct work {
    struct pl_graph *g;
    int n;
    /* If node i is a Switch with a constant predicate, taken[i] is the output that is live.
     * Otherwise taken[i] is UNKNOWN. */
    int8_t *taken;
    bool *dead; /* for each node, whether all its outputs are dead */
    bool *busy; /* for each node, whether the node or one of its ancestors has an effect */
    /* for each Merge, the number of its leading inputs that are known to be dead */
    int *n_dead;
    struct pl_readers *readers;
    int *stack;
};

static bool is_dead(const struct work *w, struct pl_edge e)
{
    return w->dead[e.node] || (w->taken[e.node] != UNKNOWN && e.out != w->taken[e.node]);
}

/* ---- constant predicates ---- */

static bool find_taken(struct work *w)
{
    bool any = false;
    for (int i = 0; i < w->n; i++) {
        const struct pl_node *n = &w->g->node[i];
        w->taken[i] = UNKNOWN;
        if (!pl_is_switch(n))
            continue;
        const struct pl_node *by = &w->g->node[n->in[1].node];
        if (by->kind != PL_CONST || by->n_ctrl || by->value.dtype != RT_BOOL ||
            by->value.rank != 0 || !by->value.data)
            continue;
        w->taken[i] = *(const bool *)by->value.data ? 1 : 0;
        any = true;
    }
    return any;
}

static bool allocate(struct work *w)
{
    const size_t n = (size_t)w->n + 1;
    w->taken = malloc(n);
    if (!w->taken || !find_taken(w))
        return false;
    w->dead = calloc(n, sizeof *w->dead);
    w->busy = calloc(n, sizeof *w->busy);
    w->n_dead = calloc(n, sizeof *w->n_dead);
    w->readers = pl_readers_new(w->g, true, NULL);
    w->stack = malloc(2 * n * sizeof *w->stack); /* A Switch may be pushed onto the stack twice. */
    return w->dead && w->busy && w->n_dead && w->readers && w->stack;
}

static void free_work(struct work *w)
{
    free(w->taken);
    free(w->dead);
    free(w->busy);
    free(w->n_dead);
    pl_readers_free(w->readers);
    free(w->stack);
}

/* Returns whether the reader `r` is known to be dead because of the node that it reads or waits
 * for. Must be called once per edge. A Merge is dead if its input from an Enter is dead, or if all
 * its inputs are dead. The search for a live input of a Merge continues where the previous call for
 * this Merge ended. */
static bool dies(const struct work *w, struct pl_reader r)
{
    const struct pl_node *n = &w->g->node[r.node];
    if (pl_is(n, "ControlTrigger"))
        return false;
    if (r.k >= n->n_in)
        return !pl_is_merge(n) && w->dead[n->ctrl[r.k - n->n_in]];
    if (!is_dead(w, n->in[r.k]))
        return false;
    if (!pl_is_merge(n) || pl_is_either(&w->g->node[n->in[r.k].node], "Enter", "RefEnter"))
        return true;
    int *n_dead = &w->n_dead[r.node];
    while (*n_dead < n->n_in && is_dead(w, n->in[*n_dead]))
        ++*n_dead;
    return *n_dead == n->n_in;
}

static void find_dead(struct work *w)
{
    int depth = 0;
    for (int i = 0; i < w->n; i++)
        if (w->taken[i] != UNKNOWN)
            w->stack[depth++] = i;
    while (depth) {
        const int i = w->stack[--depth];
        for (int k = w->readers->first[i]; k < w->readers->first[i + 1]; k++) {
            const struct pl_reader r = w->readers->of[k];
            if (w->dead[r.node] || !dies(w, r))
                continue;
            w->dead[r.node] = true;
            w->stack[depth++] = r.node; /* Each node is pushed onto the stack only once. */
        }
    }
}

static bool has_effect(const struct pl_node *n)
{
    return (n->kind == PL_OP || n->subgraph) && n->effect != RT_PURE && n->effect != RT_READS &&
           n->effect != RT_RANDOM;
}

static void find_busy(struct work *w)
{
    int depth = 0;
    for (int i = 0; i < w->n; i++)
        if (has_effect(&w->g->node[i])) {
            w->busy[i] = true;
            w->stack[depth++] = i;
        }
    while (depth) {
        const int i = w->stack[--depth];
        for (int k = w->readers->first[i]; k < w->readers->first[i + 1]; k++)
            if (!w->busy[w->readers->of[k].node]) {
                w->busy[w->readers->of[k].node] = true;
                w->stack[depth++] = w->readers->of[k].node;
            }
    }
}

/* ---- checking that the dead nodes can be removed ---- */

/* Returns the only live input of a Merge, or -1 if it has none or several. */
static int only_live(const struct work *w, const struct pl_node *n)
{
    int live = -1;
    for (int k = 0; k < n->n_in; k++) {
        if (is_dead(w, n->in[k]))
            continue;
        if (live >= 0)
            return -1;
        live = k;
    }
    return live;
}

static bool has_dead_input(const struct work *w, const struct pl_node *n)
{
    for (int k = 0; k < n->n_in; k++)
        if (is_dead(w, n->in[k]))
            return true;
    return false;
}

static bool is_waited_for(const struct work *w, int i)
{
    for (int k = w->readers->first[i]; k < w->readers->first[i + 1]; k++)
        if (w->readers->of[k].k >= w->g->node[w->readers->of[k].node].n_in)
            return true;
    return false;
}

/* Returns whether node i has no control inputs and no node waits for it. Called for nodes that
 * output a reference to a variable. If the result is true, the node is replaced by the node that
 * created the reference. The node cannot become an Identity, because an Identity would read the
 * variable. */
static bool is_plain_ref(const struct work *w, int i)
{
    const struct pl_node *n = &w->g->node[i];
    return n->n_ctrl == 0 && !is_waited_for(w, i);
}

static bool is_ref(const struct pl_node *n)
{
    return n->def->out_ref != 0;
}

static bool may_stay(const struct work *w, int i)
{
    const struct pl_node *n = &w->g->node[i];
    if (n->kind == PL_GONE || w->dead[i])
        return true;
    for (int k = 0; k < n->n_ctrl; k++)
        if (w->dead[n->ctrl[k]])
            return false;
    if (w->taken[i] != UNKNOWN)
        return !is_ref(n) || is_plain_ref(w, i);
    if (!pl_is_merge(n) || !has_dead_input(w, n))
        return true;
    const int live = only_live(w, n);
    return live >= 0 && n->n_ctrl == 0 && n->n_out == 2 &&
           !pl_is_either(&w->g->node[n->in[live].node], "Enter", "RefEnter") &&
           !pl_is_either(&w->g->node[n->in[live].node], "NextIteration", "RefNextIteration") &&
           (!is_ref(n) || is_plain_ref(w, i));
}

static bool is_possible(const struct work *w)
{
    for (int k = 0; k < w->g->n_fetches; k++)
        if (is_dead(w, w->g->fetch[k]))
            return false;
    for (int i = 0; i < w->n; i++)
        if (!may_stay(w, i))
            return false;
    return true;
}

/* ---- removing the dead nodes ---- */

/* Adds a constant, the index of the live input, to replace output 1 of Merge i. A control edge
 * from the Merge makes the constant alive in the same runs as the Merge. Returns -1 if memory
 * runs out. */
static int add_index(struct pl_graph *g, int i, int index, struct rt_error *err)
{
    struct rt_tensor t = {0};
    if (rt_tensor_new(&t, NULL, RT_I32, 0, NULL, err))
        return -1;
    *(int32_t *)t.data = index;
    const int c = pl_add(g, err); /* pl_add may reallocate g->node. */
    int *ctrl = c < 0 ? NULL : rt_arena_array(g->arena, 1, sizeof *ctrl);
    if (!ctrl) {
        rt_tensor_clear(&t);
        return -1;
    }
    *ctrl = i;
    struct pl_node *n = &g->node[c];
    n->kind = PL_CONST;
    n->name = g->node[i].name;
    n->depth = g->node[i].depth;
    n->n_out = 1;
    n->n_ctrl = 1;
    n->ctrl = ctrl;
    n->value = t;
    return c;
}

/* The edges that replace the outputs of a Switch or Merge. */
struct place {
    /* For a Switch or Merge of handles, the edge that replaces the handle. Any other Switch or
     * Merge has {-1, 0} here, because it becomes an identity whose output 0 is read instead. */
    struct pl_edge value;
    int index; /* The constant that add_index made for a Merge, or -1 if there is none. */
};

/* Returns the edge that replaces `e`. Follows a chain of replacements to its end, and shortens it
 * for later calls (path compression). */
static struct pl_edge now_at(const struct work *w, struct place *p, struct pl_edge e)
{
    struct pl_edge *before = NULL;
    while (e.node < w->n && (w->taken[e.node] != UNKNOWN || p[e.node].index != -1)) {
        if (w->taken[e.node] == UNKNOWN && e.out == 1)
            return (struct pl_edge){p[e.node].index, 0};
        struct pl_edge *from = &p[e.node].value;
        if (from->node < 0)
            return (struct pl_edge){e.node, 0};
        if (before)
            *before = *from;
        before = from;
        e = *from;
    }
    return e;
}

static enum rt_status rewrite(struct work *w, struct place *p, struct rt_error *err)
{
    struct pl_graph *g = w->g;
    enum rt_status st = RT_OK;
    for (int i = 0; i < w->n && !st; i++) {
        p[i] = (struct place){{-1, 0}, -1};
        if (g->node[i].kind == PL_GONE || w->dead[i])
            continue;
        const bool merges = pl_is_merge(&g->node[i]) && has_dead_input(w, &g->node[i]);
        if (!merges && w->taken[i] == UNKNOWN)
            continue;
        const int live = merges ? only_live(w, &g->node[i]) : 0;
        const struct pl_edge from = g->node[i].in[live];
        if (merges && (p[i].index = add_index(g, i, live, err)) < 0)
            return RT_RESOURCE_EXHAUSTED;
        if (is_ref(&g->node[i])) {
            p[i].value = from;
            /* The constant that replaces output 1 has a control edge from this Merge, so the Merge
             * may stay in the graph. The live input therefore replaces the dead inputs of the
             * Merge. */
            for (int k = 0; merges && k < g->node[i].n_in; k++)
                if (w->dead[g->node[i].in[k].node])
                    g->node[i].in[k] = from;
        } else
            st = pl_make_identity(g, i, (enum rt_dtype)g->node[i].def->out_dtype[0], from, err);
    }
    for (int i = 0; i < w->n && !st; i++)
        for (int k = 0; g->node[i].kind != PL_GONE && !w->dead[i] && k < g->node[i].n_in; k++)
            g->node[i].in[k] = now_at(w, p, g->node[i].in[k]);
    for (int k = 0; k < g->n_fetches && !st; k++)
        g->fetch[k] = now_at(w, p, g->fetch[k]);
    return st;
}

/* Keeps the effects of live nodes on which dead nodes depended. Suppose that a dead node reads or
 * waits for a live node, and the live node or one of its ancestors has an effect. The live node
 * then becomes a target, so that it still runs. */
static bool keep_effects(struct work *w)
{
    struct pl_graph *g = w->g;
    int kept = 0;
    for (int k = 0; k < g->n_targets; k++)
        if (!w->dead[g->target[k]])
            g->target[kept++] = g->target[k];
    g->n_targets = kept;
    for (int i = 0; i < w->n; i++) {
        const struct pl_node *n = &g->node[i];
        for (int k = 0; w->dead[i] && k < n->n_in + n->n_ctrl; k++) {
            const int from = k < n->n_in ? n->in[k].node : n->ctrl[k - n->n_in];
            if (w->dead[from] || !w->busy[from])
                continue;
            if (!pl_add_target(g, from))
                return false;
            w->busy[from] = false;
        }
    }
    return true;
}

enum rt_status pl_remove_dead_branches(struct pl_graph *g, bool *changed, struct rt_error *err)
{
    struct work w = {.g = g, .n = g->n};
    struct place *p = NULL;
    enum rt_status st = RT_OK;

    *changed = false;
    if (!allocate(&w))
        goto end; /* The plan is only slower without this pass, so running out of memory is no
                   * error. */
    find_dead(&w);
    if (!is_possible(&w))
        goto end;
    find_busy(&w);
    p = malloc(((size_t)w.n + 1) * sizeof *p);
    if (!p || !keep_effects(&w)) {
        st = rt_fail_memory(err, "a plan", (size_t)w.n * sizeof *p);
        goto end;
    }
    st = rewrite(&w, p, err);
    for (int i = 0; i < w.n && !st; i++)
        if (w.dead[i]) {
            rt_tensor_clear(&g->node[i].value);
            g->node[i].kind = PL_GONE;
        }
    *changed = true;
    if (!st)
        pl_prune(g);
end:
    free(p);
    free_work(&w);
    return st;
}
