/*
 * Loops of TensorFlow 1 that are no layers (fuse_rnn_frame.c) become loops as later versions write
 * them: a frame's condition and body are copied into graphs of their own, whose feeds are the
 * loop's variables, and one node (PL_WHILE) takes its place. Inner loops come first, and branches
 * before loops (raise.c): a body with tokens of its own stays, and so does a frame that is entered,
 * left or waited for in any other way than tf.while_loop's.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/condition.h"
#include "runtime/region.h"

enum { NONE = -1, MAX_VARIABLES = 1024 };

/* Where a node of the frame is needed. */
enum { IN_CONDITION = 1, IN_BODY = 2, OF_FRAME = 4, LIVES = 8 /* only where the body runs */ };

struct variable {
    int enter, merge, next, choice; /* the last three of what changes; choice: NONE if unread */
};

struct loop {
    struct pl_graph *g;
    int n; /* nodes of the graph as it came */
    const struct pl_conditions *all;
    int cond, at;
    struct variable v[MAX_VARIABLES];
    int n_variables, n_changing; /* those that change come first */
    uint8_t *mark;               /* per node */
    int *variable_of;            /* per node, of a Merge, a Switch or a constant Enter */
    int *copy;                   /* per node: in the region that is being made */
    int *stack;
    struct rt_error *err;
};

static const struct pl_node *node_of(const struct loop *l, int i)
{
    return &l->g->node[i];
}

/* ---- variables ---- */

static bool is_in_frame(const struct pl_node *enter, struct rt_span name)
{
    const struct rt_span own = rt_attr_str(enter->def, "frame_name");
    return own.n == name.n && memcmp(own.p, name.p, own.n) == 0;
}

static bool add_variable(struct loop *l, struct variable v)
{
    if (l->n_variables == MAX_VARIABLES)
        return false;
    const int k = l->n_variables++;
    l->v[k] = v;
    l->mark[v.enter] = OF_FRAME;
    l->variable_of[v.merge == NONE ? v.enter : v.merge] = k;
    if (v.merge != NONE)
        l->mark[v.merge] = l->mark[v.next] = OF_FRAME;
    return true;
}

/* A Merge of this frame; what else reads its Enter and its NextIteration is found later. */
static bool add_merge(struct loop *l, int i, struct rt_span name)
{
    const struct pl_node *n = node_of(l, i);
    struct variable v = {.merge = i, .choice = NONE};
    if (n->n_in != 2 || n->n_ctrl)
        return false;
    const int first = pl_is(node_of(l, n->in[0].node), "Enter") ? 0 : 1;
    v.enter = n->in[first].node;
    v.next = n->in[1 - first].node;
    if (!pl_is(node_of(l, v.enter), "Enter") || !pl_is(node_of(l, v.next), "NextIteration"))
        return false;
    return !is_in_frame(node_of(l, v.enter), name) ||
           (pl_is(n, "Merge") && !l->mark[v.enter] && !l->mark[v.next] && add_variable(l, v));
}

static bool is_entered_well(const struct loop *l, const struct pl_node *enter, bool is_constant)
{
    if (rt_attr_bool(enter->def, "is_constant") != is_constant)
        return false;
    return is_constant && pl_is(enter, "RefEnter") ? pl_is_free(node_of(l, enter->in[0].node))
                                                   : !pl_is_ref(l->g, enter->in[0]);
}

static bool find_variables(struct loop *l)
{
    const struct pl_graph *g = l->g;
    struct rt_span name = {0};
    for (int i = 0; i < l->n && !name.p; i++) {
        const struct pl_node *n = node_of(l, i), *m;
        if (!pl_is(n, "Switch") || n->in[1].node != l->cond)
            continue;
        m = node_of(l, n->in[0].node);
        for (int k = 0; pl_is(m, "Merge") && k < m->n_in; k++)
            if (pl_is(node_of(l, m->in[k].node), "Enter"))
                name = rt_attr_str(node_of(l, m->in[k].node)->def, "frame_name");
    }
    if (!name.p)
        return false;
    for (int i = 0; i < l->n; i++)
        if (pl_is_loop_merge(g, node_of(l, i)) && !add_merge(l, i, name))
            return false;
    l->n_changing = l->n_variables;
    for (int i = 0; i < l->n; i++) {
        const struct pl_node *n = node_of(l, i);
        if (!pl_is_either(n, "Enter", "RefEnter") || !is_in_frame(n, name))
            continue;
        if (!is_entered_well(l, n, l->mark[i] == 0) ||
            (!l->mark[i] && !add_variable(l, (struct variable){i, NONE, NONE, NONE})))
            return false;
    }
    for (int i = 0; i < l->n; i++) {
        const struct pl_node *n = node_of(l, i);
        if (!pl_is_switch(n) || n->in[1].node != l->cond)
            continue;
        const int k = n->in[0].out == 0 ? l->variable_of[n->in[0].node] : NONE;
        if (!pl_is(n, "Switch") || n->n_ctrl || k < 0 || k >= l->n_changing ||
            l->v[k].choice != NONE)
            return false;
        l->v[k].choice = i;
        l->variable_of[i] = k;
        l->mark[i] = OF_FRAME;
    }
    l->mark[l->cond] = OF_FRAME;
    return l->n_changing > 0;
}

/* ---- what belongs to it ---- */

static bool may_move(const struct pl_node *n)
{
    return n->kind == PL_CONST || n->region ||
           (n->kind == PL_OP && (!n->def || !pl_is_token(n->def)));
}

/* Marks what `from` needs inside the frame. */
static bool walk(struct loop *l, int from, uint8_t as)
{
    int depth = 0;
    if (from == l->cond)
        return false;
    if (pl_is_free(node_of(l, from)) || (l->mark[from] & OF_FRAME))
        return true;
    l->stack[depth++] = from;
    while (depth) {
        const int i = l->stack[--depth];
        const struct pl_node *n = node_of(l, i);
        bool waits = false;
        if (l->mark[i] & as)
            continue;
        if (!may_move(n))
            return false;
        l->mark[i] |= as;
        for (int k = 0; k < n->n_in + n->n_ctrl; k++) {
            const int in = k < n->n_in ? n->in[k].node : n->ctrl[k - n->n_in];
            if (pl_is_free(node_of(l, in)))
                continue;
            waits = true;
            if (in == l->cond)
                return false;
            if (!(l->mark[in] & (OF_FRAME | as)))
                l->stack[depth++] = in;
        }
        if (!waits) /* it stands outside of the frame */
            return false;
    }
    return true;
}

/* What a node of the frame may read of its frame. */
static bool reads_well(const struct loop *l, struct pl_edge e, uint8_t mark)
{
    const int k = l->variable_of[e.node];
    if (!(l->mark[e.node] & OF_FRAME))
        return true;
    if (k < 0)
        return false;
    if (k >= l->n_changing || e.node == l->v[k].merge)
        return e.out == 0;
    return e.out == 1 && !(mark & IN_CONDITION);
}

/* The signal that an iteration has begun, or that a variable is there: of nodes that send one in
 * every round. */
static bool waits_well(const struct loop *l, int ctrl)
{
    return !(l->mark[ctrl] & OF_FRAME) || l->variable_of[ctrl] >= 0;
}

/* Which nodes are dead in the round that ends the loop: behind output 1 of a Switch. */
static void find_living(struct loop *l)
{
    for (int at = 0; at < l->all->n_order; at++) {
        const int i = l->all->order[at];
        const struct pl_node *n = node_of(l, i);
        bool lives = false;
        if (!(l->mark[i] & (IN_BODY | IN_CONDITION)))
            continue;
        for (int k = 0; k < n->n_in; k++) {
            const int v = l->variable_of[n->in[k].node];
            lives |= (v >= 0 && n->in[k].node == l->v[v].choice && n->in[k].out == 1) ||
                     (l->mark[n->in[k].node] & LIVES);
        }
        for (int k = 0; k < n->n_ctrl; k++)
            lives |= (l->mark[n->ctrl[k]] & LIVES) != 0;
        if (lives)
            l->mark[i] |= LIVES;
    }
}

static bool has_effect(const struct pl_node *n)
{
    return (n->kind == PL_OP || n->region) && n->effect != RT_PURE;
}

/* What is needed on both sides is done on both, which only what is pure may be. An effect in the
 * body is one of the rounds that run it. */
static bool is_on_one_side(const struct loop *l, int i)
{
    const struct pl_node *n = node_of(l, i);
    const uint8_t mark = l->mark[i];
    if ((mark & IN_CONDITION) && (mark & LIVES))
        return false;
    if (!has_effect(n))
        return !n->region || (mark & (IN_CONDITION | IN_BODY)) != (IN_CONDITION | IN_BODY);
    if (mark & IN_CONDITION)
        return !(mark & IN_BODY);
    return (mark & LIVES) || n->effect == RT_READS || n->effect == RT_RANDOM;
}

static bool is_exit(const struct loop *l, const struct pl_node *n)
{
    const int k = pl_is(n, "Exit") && n->n_in == 1 ? l->variable_of[n->in[0].node] : NONE;
    return k >= 0 && k < l->n_changing && n->in[0].node == l->v[k].choice && n->in[0].out == 0 &&
           n->n_ctrl == 0;
}

static bool is_closed(const struct loop *l)
{
    for (int i = 0; i < l->n; i++) {
        const struct pl_node *n = node_of(l, i);
        if (n->kind == PL_GONE || (l->mark[i] & OF_FRAME) || is_exit(l, n))
            continue;
        if (l->mark[i]) {
            if (!is_on_one_side(l, i))
                return false;
            for (int k = 0; k < n->n_in; k++)
                if (!reads_well(l, n->in[k], l->mark[i]))
                    return false;
            for (int k = 0; k < n->n_ctrl; k++)
                if (!waits_well(l, n->ctrl[k]))
                    return false;
            continue;
        }
        for (int k = 0; k < n->n_in; k++)
            if (l->mark[n->in[k].node])
                return false;
        for (int k = 0; k < n->n_ctrl; k++)
            if (l->mark[n->ctrl[k]])
                return false;
    }
    for (int k = 0; k < l->n_variables; k++) { /* each is read by its own alone */
        const struct pl_node *enter = node_of(l, l->v[k].enter);
        if (l->mark[enter->in[0].node])
            return false;
        for (int j = 0; j < enter->n_ctrl; j++)
            if (l->mark[enter->ctrl[j]])
                return false;
    }
    for (int k = 0; k < l->g->n_fetches; k++)
        if (l->mark[l->g->fetch[k].node])
            return false;
    for (int k = 0; k < l->g->n_targets; k++)
        if (l->mark[l->g->target[k]])
            return false;
    return true;
}

static bool understood(struct loop *l)
{
    if (!find_variables(l) || node_of(l, l->cond)->n_ctrl ||
        !walk(l, node_of(l, l->cond)->in[0].node, IN_CONDITION))
        return false;
    for (int k = 0; k < l->n_changing; k++) {
        const struct pl_node *next = node_of(l, l->v[k].next);
        if (!walk(l, next->in[0].node, IN_BODY) || !reads_well(l, next->in[0], IN_BODY))
            return false;
        for (int j = 0; j < next->n_ctrl; j++)
            if (!walk(l, next->ctrl[j], IN_BODY) || !waits_well(l, next->ctrl[j]))
                return false;
    }
    find_living(l);
    return reads_well(l, node_of(l, l->cond)->in[0], IN_CONDITION) && is_closed(l);
}

/* ---- raising ---- */

static enum rt_status place(struct loop *l, struct pl_graph *to, struct pl_edge e,
                            struct pl_edge *out)
{
    const int k = l->variable_of[e.node];
    if (k >= 0) {
        const struct pl_node *enter = node_of(l, l->v[k].enter);
        *out = (struct pl_edge){k, 0};
        if (!pl_is(enter, "RefEnter"))
            return RT_OK;
        e = enter->in[0]; /* a handle, of which the readers know what to do with it */
    }
    if (l->copy[e.node] < 0) /* a free constant */
        l->copy[e.node] = pl_region_node(l->g, e.node, false, to, l->err);
    *out = (struct pl_edge){l->copy[e.node], e.out};
    return l->copy[e.node] < 0 ? RT_RESOURCE_EXHAUSTED : RT_OK;
}

/* Copies what is marked `as`. A region inside it belongs to one of the two. */
static enum rt_status copy_nodes(struct loop *l, struct pl_graph *to, uint8_t as)
{
    enum rt_status st = RT_OK;
    for (int i = 0; i < l->n; i++) {
        l->copy[i] = NONE;
        if (!(l->mark[i] & as))
            continue;
        l->copy[i] = pl_region_node(l->g, i, l->g->node[i].region != NULL, to, l->err);
        if (l->copy[i] < 0)
            return RT_RESOURCE_EXHAUSTED;
        if (has_effect(&to->node[l->copy[i]]) && !pl_add_target(to, l->copy[i]))
            return rt_fail_memory(l->err, "a plan", 0);
    }
    for (int i = 0; i < l->n && !st; i++) {
        if (!(l->mark[i] & as))
            continue;
        const struct pl_node *old = node_of(l, i);
        struct pl_edge *in = rt_arena_array(l->g->arena, (size_t)old->n_in + 1, sizeof *in);
        int *ctrl = rt_arena_array(l->g->arena, (size_t)old->n_ctrl + 1, sizeof *ctrl), n_ctrl = 0;
        if (!in || !ctrl)
            return rt_fail_memory(l->err, "a plan", 0);
        for (int k = 0; k < old->n_in && !st; k++)
            st = place(l, to, old->in[k], &in[k]);
        for (int k = 0; k < old->n_ctrl; k++)
            if (l->mark[old->ctrl[k]] & as)
                ctrl[n_ctrl++] = l->copy[old->ctrl[k]];
        struct pl_node *n = &to->node[l->copy[i]];
        n->in = in;
        n->n_in = old->n_in;
        n->ctrl = ctrl;
        n->n_ctrl = n_ctrl;
    }
    return st;
}

static enum rt_status set_fetch_types(struct loop *l, struct pl_graph *to, const uint8_t *dtype)
{
    uint8_t *own = rt_arena_array(to->arena, (size_t)to->n_fetches + 1, 1);
    if (!own)
        return rt_fail_memory(l->err, "a plan", 0);
    memcpy(own, dtype, (size_t)to->n_fetches);
    to->fetch_dtype = own;
    return RT_OK;
}

static enum rt_status fill_regions(struct loop *l, const uint8_t *dtype)
{
    static const uint8_t truth[] = {RT_BOOL};
    struct pl_graph *region = l->g->node[l->at].region;
    const char *name = l->g->node[l->at].name;
    enum rt_status st = pl_region_begin(l->g, &region[0], l->n_variables, dtype, 1, name, l->err);
    if (!st)
        st = pl_region_begin(l->g, &region[1], l->n_variables, dtype, l->n_variables, name, l->err);
    if (!st)
        st = copy_nodes(l, &region[0], IN_CONDITION);
    if (!st)
        st = place(l, &region[0], node_of(l, l->cond)->in[0], &region[0].fetch[0]);
    if (!st)
        st = set_fetch_types(l, &region[0], truth);
    if (!st)
        st = copy_nodes(l, &region[1], IN_BODY);
    for (int k = 0; k < l->n_variables && !st; k++)
        if (k < l->n_changing)
            st = place(l, &region[1], node_of(l, l->v[k].next)->in[0], &region[1].fetch[k]);
        else
            region[1].fetch[k] = (struct pl_edge){k, 0};
    return st ? st : set_fetch_types(l, &region[1], dtype);
}

/* The new node waits for whatever an Enter waits for. */
static enum rt_status add_node(struct loop *l, const struct pl_edge *in, const uint8_t *dtype)
{
    struct pl_graph *g = l->g;
    int n_ctrl = 0;
    for (int k = 0; k < l->n_variables; k++)
        n_ctrl += g->node[l->v[k].enter].n_ctrl;
    int *ctrl = rt_arena_array(g->arena, (size_t)n_ctrl + 1, sizeof *ctrl);
    l->at = ctrl ? pl_add(g, l->err) : NONE;
    if (l->at < 0)
        return rt_fail_memory(l->err, "a plan", 0);
    struct pl_node *n = &g->node[l->at];
    n->name = g->node[l->cond].name;
    n->depth = g->node[l->cond].depth;
    for (int k = 0; k < l->n_variables; k++) {
        const struct pl_node *enter = &g->node[l->v[k].enter];
        for (int j = 0; j < enter->n_ctrl; j++)
            ctrl[n->n_ctrl++] = enter->ctrl[j];
    }
    n->ctrl = ctrl;
    const struct pl_regions r = {.kind = PL_WHILE,
                                 .n_in = l->n_variables,
                                 .n_out = l->n_variables,
                                 .in = in,
                                 .in_dtype = dtype,
                                 .out_dtype = dtype};
    return pl_make_regions(g, l->at, &r, l->err);
}

static void rewire(struct loop *l)
{
    struct pl_graph *g = l->g;
    for (int i = 0; i < l->n; i++) { /* an Exit: in `copy` which variable it is */
        const bool leaves = g->node[i].kind != PL_GONE && is_exit(l, &g->node[i]);
        l->copy[i] = leaves ? l->variable_of[g->node[i].in[0].node] : NONE;
    }
    for (int i = 0; i < g->n; i++) {
        struct pl_node *n = &g->node[i];
        for (int k = 0; n->kind != PL_GONE && k < n->n_in; k++)
            if (n->in[k].node < l->n && l->copy[n->in[k].node] != NONE)
                n->in[k] = (struct pl_edge){l->at, l->copy[n->in[k].node]};
        for (int k = 0; n->kind != PL_GONE && k < n->n_ctrl; k++)
            if (n->ctrl[k] < l->n && l->copy[n->ctrl[k]] != NONE)
                n->ctrl[k] = l->at;
    }
    for (int k = 0; k < g->n_fetches; k++)
        if (g->fetch[k].node < l->n && l->copy[g->fetch[k].node] != NONE)
            g->fetch[k] = (struct pl_edge){l->at, l->copy[g->fetch[k].node]};
    for (int k = 0; k < g->n_targets; k++)
        if (g->target[k] < l->n && l->copy[g->target[k]] != NONE)
            g->target[k] = l->at;
    for (int i = 0; i < l->n; i++)
        if (l->mark[i] || l->copy[i] != NONE) {
            rt_tensor_clear(&g->node[i].value);
            g->node[i].kind = PL_GONE;
        }
}

static enum rt_status raise(struct loop *l)
{
    struct pl_edge *in = calloc((size_t)l->n_variables + 1, sizeof *in);
    uint8_t *dtype = calloc((size_t)l->n_variables + 1, 1);
    enum rt_status st = in && dtype ? RT_OK : rt_fail_memory(l->err, "a plan", 0);
    for (int k = 0; k < l->n_variables && !st; k++) {
        in[k] = node_of(l, l->v[k].enter)->in[0];
        dtype[k] = node_of(l, l->v[k].enter)->def->out_dtype[0];
    }
    if (!st)
        st = add_node(l, in, dtype);
    if (!st)
        st = fill_regions(l, dtype);
    if (!st) {
        pl_set_region_effect(&l->g->node[l->at]);
        rewire(l);
        pl_prune(l->g);
    }
    free(in);
    free(dtype);
    return st;
}

/* Whether there are loops, and no branches besides. */
static bool has_only_loops(const struct pl_graph *g)
{
    struct pl_edge by;
    bool any = false;
    for (int i = 0; i < g->n; i++) {
        any |= pl_is(&g->node[i], "LoopCond");
        if (pl_is_choice(g, &g->node[i], &by))
            return false;
    }
    return any;
}

static enum rt_status try_loop(struct pl_graph *g, const struct pl_conditions *all, int cond,
                               bool *changed, struct rt_error *err)
{
    const size_t n = (size_t)g->n + 1;
    size_t edges = n;
    enum rt_status st = RT_OK;
    for (int i = 0; i < g->n; i++)
        if (g->node[i].kind != PL_GONE)
            edges += (size_t)(g->node[i].n_in + g->node[i].n_ctrl);
    struct loop *l = calloc(1, sizeof *l);
    if (!l)
        return rt_fail_memory(err, "a plan", sizeof *l);
    l->g = g;
    l->n = g->n;
    l->all = all;
    l->cond = cond;
    l->err = err;
    l->mark = calloc(n, sizeof *l->mark);
    l->variable_of = malloc(n * sizeof *l->variable_of);
    l->copy = malloc(n * sizeof *l->copy);
    l->stack = malloc(edges * sizeof *l->stack);
    if (l->mark && l->variable_of && l->copy && l->stack) {
        for (int i = 0; i < l->n; i++)
            l->variable_of[i] = NONE;
        if (understood(l)) {
            *changed = true;
            st = raise(l);
        }
    }
    free(l->mark);
    free(l->variable_of);
    free(l->copy);
    free(l->stack);
    free(l);
    return st;
}

enum rt_status pl_raise_loops(struct pl_graph *g, bool *changed, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    *changed = false;
    for (bool again = has_only_loops(g); again && !st;) { /* what is around a loop comes after it */
        struct pl_conditions all;
        again = false;
        if (pl_conditions_find(&all, g))
            for (int i = 0; i < all.n && !st && !again; i++)
                if (pl_is(&g->node[i], "LoopCond") && g->node[i].n_in == 1)
                    st = try_loop(g, &all, i, &again, err);
        pl_conditions_clear(&all);
        *changed |= again;
    }
    return st;
}
