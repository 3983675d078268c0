#include "runtime/ir/condition.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = -1 };

static const struct pl_node *node_of(const struct pl_conditions *w, int i)
{
    return &w->g->node[i];
}

bool pl_is_either(const struct pl_node *n, const char *plain, const char *ref)
{
    return pl_is(n, plain) || pl_is(n, ref);
}

bool pl_is_merge(const struct pl_node *n)
{
    return pl_is_either(n, "Merge", "RefMerge");
}

bool pl_is_back(const struct pl_node *n)
{
    return pl_is_either(n, "NextIteration", "RefNextIteration");
}

bool pl_is_loop_merge(const struct pl_graph *g, const struct pl_node *n)
{
    for (int k = 0; pl_is_merge(n) && k < n->n_in; k++)
        if (pl_is_back(&g->node[n->in[k].node]))
            return true;
    return false;
}

bool pl_is_switch(const struct pl_node *n)
{
    return pl_is_either(n, "Switch", "RefSwitch") && n->n_in == 2 && n->n_out == 2;
}

bool pl_is_choice(const struct pl_graph *g, const struct pl_node *n, struct pl_edge *by)
{
    if (!pl_is_switch(n))
        return false;
    *by = pl_origin(g, n->in[1]);
    return !pl_is(&g->node[by->node], "LoopCond");
}

bool pl_is_free(const struct pl_node *n)
{
    return n->kind == PL_CONST && n->n_ctrl == 0;
}

/* ---- topological order ---- */

static bool find_order(struct pl_conditions *w)
{
    enum { NEW, OPEN, DONE };
    unsigned char *mark = calloc((size_t)w->n + 1, 1);
    struct {
        int node, k;
    } *stack = malloc(((size_t)w->n + 1) * sizeof *stack);
    bool ok = mark && stack;
    for (int root = 0; root < w->n && ok; root++) {
        int depth = 0;
        if (mark[root] != NEW || node_of(w, root)->kind == PL_GONE)
            continue;
        mark[root] = OPEN;
        stack[depth].node = root;
        stack[depth++].k = 0;
        while (depth && ok) {
            const int i = stack[depth - 1].node, k = stack[depth - 1].k++;
            const struct pl_node *n = node_of(w, i);
            if (k == n->n_in + n->n_ctrl) {
                mark[i] = DONE;
                w->order[w->n_order++] = i;
                depth--;
                continue;
            }
            const int from = k < n->n_in ? n->in[k].node : n->ctrl[k - n->n_in];
            if (pl_is_back(node_of(w, from)) && pl_is_merge(n))
                continue;
            ok = mark[from] != OPEN;
            if (ok && mark[from] == NEW) {
                mark[from] = OPEN;
                stack[depth].node = from;
                stack[depth++].k = 0;
            }
        }
    }
    free(mark);
    free(stack);
    return ok;
}

/* ---- conditions ---- */

/* Returns the index of the first predicate, at or after index `at`, that is not less than `by`.
 * Returns c->n if there is none. */
static int seek(const struct pl_condition *c, int at, struct pl_edge by)
{
    while (at < c->n && pl_compare_edges(c->on[at].by, by) < 0)
        at++;
    return at;
}

static bool is_at(const struct pl_condition *c, int at, struct pl_edge by)
{
    return at < c->n && pl_compare_edges(c->on[at].by, by) == 0;
}

/* Inserts `s` at the index that `seek` found, unless the condition already contains it. Returns
 * false if the condition is full or contains the predicate with the opposite side. */
static bool add_side(struct pl_condition *to, int at, struct pl_side s)
{
    if (is_at(to, at, s.by))
        return to->on[at].taken == s.taken;
    if (to->n == PL_MAX_CONDITION)
        return false;
    memmove(&to->on[at + 1], &to->on[at], (size_t)(to->n - at) * sizeof *to->on);
    to->on[at] = s;
    to->n++;
    return true;
}

bool pl_add_condition(struct pl_condition *to, const struct pl_condition *from)
{
    for (int k = 0, at = 0; k < from->n; k++) {
        at = seek(to, at, from->on[k].by);
        if (!add_side(to, at, from->on[k]))
            return false;
    }
    return true;
}

void pl_copy_condition(struct pl_condition *to, const struct pl_condition *from)
{
    to->n = from->n;
    memcpy(to->on, from->on, (size_t)from->n * sizeof *to->on);
}

int pl_find_side(const struct pl_condition *c, struct pl_edge by)
{
    const int at = seek(c, 0, by);
    return is_at(c, at, by) ? at : NONE;
}

bool pl_is_within(const struct pl_condition *a, const struct pl_condition *of)
{
    for (int k = 0, at = 0; k < a->n; k++) {
        at = seek(of, at, a->on[k].by);
        if (!is_at(of, at, a->on[k].by) || of->on[at].taken != a->on[k].taken)
            return false;
    }
    return true;
}

bool pl_is_equal_condition(const struct pl_condition *a, const struct pl_condition *b)
{
    return a->n == b->n && pl_is_within(a, b);
}

void pl_remove_side(struct pl_condition *c, int at)
{
    c->n--;
    memmove(&c->on[at], &c->on[at + 1], (size_t)(c->n - at) * sizeof *c->on);
}

bool pl_edge_condition(const struct pl_conditions *w, struct pl_edge e, struct pl_condition *out)
{
    struct pl_side s = {.taken = e.out};
    pl_copy_condition(out, &w->on[e.node]);
    return !pl_is_choice(w->g, node_of(w, e.node), &s.by) || add_side(out, seek(out, 0, s.by), s);
}

/* The conditions of a Merge's two inputs contain the predicate that the Merge removes, with
 * opposite sides, and are otherwise equal. */
bool pl_merged(const struct pl_conditions *w, const struct pl_node *n, struct pl_side *of,
               struct pl_condition *rest)
{
    struct pl_condition a, b;
    if (n->n_in != 2 || n->n_out != 2 || !pl_edge_condition(w, n->in[0], &a) ||
        !pl_edge_condition(w, n->in[1], &b) || a.n != b.n)
        return false;
    for (int k = 0; k < a.n; k++) {
        const int at = pl_find_side(&b, a.on[k].by);
        if (at < 0)
            return false;
        if (b.on[at].taken == a.on[k].taken)
            continue;
        *of = a.on[k];
        pl_remove_side(&a, k);
        pl_remove_side(&b, at);
        pl_copy_condition(rest, &a);
        return pl_is_equal_condition(&a, &b);
    }
    return false;
}

/* Sets the frame of node i. Returns false if the node's inputs and control inputs, except constants
 * and back edges, are in different frames. */
static bool set_frame(struct pl_conditions *w, int i)
{
    const struct pl_node *n = node_of(w, i);
    int frame = NONE;
    for (int k = 0; k < n->n_in + n->n_ctrl; k++) {
        const int from = k < n->n_in ? n->in[k].node : n->ctrl[k - n->n_in];
        if (pl_is_free(node_of(w, from)) || (pl_is_merge(n) && pl_is_back(node_of(w, from))))
            continue;
        if (frame != NONE && frame != w->frame[from])
            return false;
        frame = w->frame[from];
    }
    frame = frame == NONE ? 0 : frame;
    w->frame[i] = frame + pl_is_either(n, "Enter", "RefEnter") - pl_is_either(n, "Exit", "RefExit");
    return w->frame[i] >= 0;
}

static bool set_condition(struct pl_conditions *w, int i)
{
    const struct pl_node *n = node_of(w, i);
    struct pl_condition *on = &w->on[i], more;
    struct pl_side of;
    on->n = 0;
    if (pl_is_loop_merge(w->g, n)) {
        for (int k = 0; k < n->n_in; k++)
            if (!pl_is_back(node_of(w, n->in[k].node)) &&
                (!pl_edge_condition(w, n->in[k], &more) || !pl_add_condition(on, &more)))
                return false;
        return n->n_ctrl == 0;
    }
    if (pl_is_merge(n)) {
        if (!pl_merged(w, n, &of, on))
            return false;
        for (int k = 0; k < n->n_ctrl; k++)
            if (!pl_is_within(&w->on[n->ctrl[k]], on))
                return false;
        return true;
    }
    for (int k = 0; k < n->n_in; k++)
        if (!pl_edge_condition(w, n->in[k], &more) || !pl_add_condition(on, &more))
            return false;
    for (int k = 0; k < n->n_ctrl; k++)
        if (!pl_add_condition(on, &w->on[n->ctrl[k]]))
            return false;
    return on->n == 0 || !pl_is(n, "ControlTrigger");
}

bool pl_conditions_find(struct pl_conditions *w, const struct pl_graph *g)
{
    *w = (struct pl_conditions){.g = g, .n = g->n};
    w->order = malloc(((size_t)g->n + 1) * sizeof *w->order);
    w->on = calloc((size_t)g->n + 1, sizeof *w->on);
    w->frame = calloc((size_t)g->n + 1, sizeof *w->frame);
    if (!w->order || !w->on || !w->frame || !find_order(w))
        return false;
    for (int k = 0; k < w->n_order; k++)
        if (!set_frame(w, w->order[k]) || !set_condition(w, w->order[k]))
            return false;
    return true;
}

void pl_conditions_clear(struct pl_conditions *w)
{
    free(w->order);
    free(w->on);
    free(w->frame);
}
