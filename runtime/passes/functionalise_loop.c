/*
 * Functionalises the loops of TensorFlow 1 that are not recurrent layers
 * (fusion/rnn/fuse_rnn_frame.c). The condition and the body of a frame are copied into subgraphs
 * whose feeds are the loop's variables, and one node (PL_WHILE) replaces the frame. Inner loops are
 * functionalised before outer loops, and branches before loops (functionalise.c). A frame is left
 * unchanged if its body still contains other control flow of TensorFlow 1, or if it is entered,
 * left or waited for in a way that tf.while_loop does not produce.
 *
 * A round functionalises the loops that contain no other loops. The round copies loops into
 * subgraphs, appends new nodes, and rewires readers only at its end. The time per loop is therefore
 * proportional to the size of the loop, not of the graph. MAX_VISITS limits the time that is spent
 * on frames that share nodes and cannot be functionalised.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/plan/frame_ids.h"
#include "runtime/ir/condition.h"
#include "runtime/passes/passes.h"
#include "runtime/ir/subgraph.h"

/* One round visits nodes and edges at most MAX_VISITS * (number of nodes and edges in the graph)
 * times. */
enum { NONE = -1, MAX_VARIABLES = 1024, MAX_VISITS = 64, MAX_ROUNDS = 32 };

/* Marks of a node. IN_CONDITION and IN_BODY: the condition or the body depends on the node.
 * OF_FRAME: the node is part of the loop's control flow. LIVES: the node does not run in the
 * iteration that ends the loop. */
enum { IN_CONDITION = 1, IN_BODY = 2, OF_FRAME = 4, LIVES = 8 };

struct variable {
    /* For a constant of the loop, all fields except `enter` are NONE. `choice` is the variable's
     * Switch, or NONE if it has none. */
    int enter, merge, next, choice;
};

/* An Enter, or a Merge of a loop. `frame` is the number of the node's frame name. */
struct member {
    int frame, node;
};

struct loop {
    struct pl_graph *g;
    int n; /* number of nodes when the current round began */
    struct pl_conditions all;
    struct member *member; /* sorted by frame */
    int n_members;
    int *frame; /* for each Enter, the number of its frame name (rt_frame_id) */
    struct pl_readers *readers;
    int *turn;  /* for each node, its position in the topological order */
    bool *kept; /* for each node, whether it is a target or makes a fetched value */
    /* For each node, whether it is part of a loop that this round has functionalised. */
    bool *functionalised;
    struct pl_edge *end; /* for each Exit, the edge that replaces it */
    int64_t visits_left;

    int cond, at;
    struct variable v[MAX_VARIABLES];
    /* The loop has n_variables variables and changes the first n_changing of them. */
    int n_variables, n_changing;
    uint8_t *mark;   /* for each node, bits IN_CONDITION, IN_BODY, OF_FRAME and LIVES */
    int *own, n_own; /* nodes that have a mark */
    /* The index of the variable, for each Merge and Switch of the loop and for each Enter of a
     * constant. */
    int *variable_of;
    int *copy; /* for each node, its index in the subgraph that is being made */
    /* constants without control inputs (pl_is_free) that the current subgraph has copied */
    int *used, n_used;
    int *stack;
    struct rt_error *err;
};

static const struct pl_node *node_of(const struct loop *l, int i)
{
    return &l->g->node[i];
}

static bool visit(struct loop *l, int64_t n)
{
    l->visits_left -= n;
    return l->visits_left >= 0;
}

static void set_mark(struct loop *l, int i, uint8_t as)
{
    if (!l->mark[i])
        l->own[l->n_own++] = i;
    l->mark[i] |= as;
}

/* ---- variables ---- */

static int by_frame(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    return x->frame != y->frame ? (x->frame < y->frame ? -1 : 1) : x->node - y->node;
}

static bool add_variable(struct loop *l, struct variable v)
{
    if (l->n_variables == MAX_VARIABLES)
        return false;
    const int k = l->n_variables++;
    l->v[k] = v;
    set_mark(l, v.enter, OF_FRAME);
    l->variable_of[v.merge == NONE ? v.enter : v.merge] = k;
    if (v.merge != NONE) {
        set_mark(l, v.merge, OF_FRAME);
        set_mark(l, v.next, OF_FRAME);
    }
    return true;
}

/* Finds the Enter and the NextIteration that Merge i joins. */
static bool parts_of(const struct loop *l, int i, struct variable *v)
{
    const struct pl_node *n = node_of(l, i);
    *v = (struct variable){.merge = i, .choice = NONE};
    if (n->n_in != 2 || n->n_ctrl)
        return false;
    const int first = pl_is(node_of(l, n->in[0].node), "Enter") ? 0 : 1;
    v->enter = n->in[first].node;
    v->next = n->in[1 - first].node;
    return pl_is(node_of(l, v->enter), "Enter") && pl_is(node_of(l, v->next), "NextIteration");
}

/* Adds the loop variable of Merge i. Later, is_read_inside checks the other readers of the
 * variable's Enter and NextIteration. */
static bool add_merge(struct loop *l, int i)
{
    struct variable v;
    return parts_of(l, i, &v) && pl_is(node_of(l, i), "Merge") && !l->mark[v.enter] &&
           !l->mark[v.next] && add_variable(l, v);
}

static bool is_entered_well(const struct loop *l, const struct pl_node *enter, bool is_constant)
{
    if (rt_attr_bool(enter->def, "is_constant") != is_constant)
        return false;
    return is_constant && pl_is(enter, "RefEnter") ? pl_is_free(node_of(l, enter->in[0].node))
                                                   : !pl_is_ref(l->g, enter->in[0]);
}

/* Returns the index in l->member of the first member of the frame whose LoopCond is l->cond.
 * Returns n_members if there is none. */
static int find_frame(const struct loop *l)
{
    struct member sought = {.frame = NONE, .node = NONE};
    struct variable v;
    for (int k = l->readers->first[l->cond];
         k < l->readers->first[l->cond + 1] && sought.frame == NONE; k++) {
        const struct pl_node *n = node_of(l, l->readers->of[k].node);
        if (pl_is(n, "Switch") && n->in[1].node == l->cond &&
            pl_is_loop_merge(l->g, node_of(l, n->in[0].node)) && parts_of(l, n->in[0].node, &v))
            sought.frame = l->frame[v.enter];
    }
    int low = 0, high = sought.frame == NONE ? 0 : l->n_members;
    if (!high)
        return l->n_members;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (by_frame(&l->member[middle], &sought) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool find_variables(struct loop *l)
{
    const int first = find_frame(l);
    int end = first;
    while (end < l->n_members && l->member[end].frame == l->member[first].frame)
        end++;
    if (first == end ||
        !visit(l, end - first + l->readers->first[l->cond + 1] - l->readers->first[l->cond]))
        return false;
    for (int k = first; k < end; k++)
        if (pl_is_merge(node_of(l, l->member[k].node)) && !add_merge(l, l->member[k].node))
            return false;
    l->n_changing = l->n_variables;
    for (int k = first; k < end; k++) {
        const int i = l->member[k].node;
        const struct pl_node *n = node_of(l, i);
        if (pl_is_merge(n))
            continue;
        if (!is_entered_well(l, n, l->mark[i] == 0) ||
            (!l->mark[i] && !add_variable(l, (struct variable){i, NONE, NONE, NONE})))
            return false;
    }
    for (int at = l->readers->first[l->cond]; at < l->readers->first[l->cond + 1]; at++) {
        const int i = l->readers->of[at].node;
        const struct pl_node *n = node_of(l, i);
        if (!pl_is_switch(n) || n->in[1].node != l->cond)
            continue;
        const int k = n->in[0].out == 0 ? l->variable_of[n->in[0].node] : NONE;
        if (!pl_is(n, "Switch") || n->n_ctrl || k < 0 || k >= l->n_changing ||
            l->v[k].choice != NONE)
            return false;
        l->v[k].choice = i;
        l->variable_of[i] = k;
        set_mark(l, i, OF_FRAME);
    }
    set_mark(l, l->cond, OF_FRAME);
    return l->n_changing > 0;
}

/* ---- the nodes of the loop ---- */

static bool may_move(const struct pl_node *n)
{
    return n->kind == PL_CONST || n->subgraph ||
           (n->kind == PL_OP && (!n->def || !pl_is_token(n->def)));
}

/* Sets mark `as` on node `from`, and on the nodes inside the frame on which `from` depends. */
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
        if (!may_move(n) || !visit(l, 1 + n->n_in + n->n_ctrl))
            return false;
        set_mark(l, i, as);
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
        if (!waits) /* the node depends on nothing in the frame */
            return false;
    }
    return true;
}

/* Returns whether a node of the loop with mark `as` may read edge e. */
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

/* Returns whether a node of the loop may wait for `ctrl`. Waiting for the Merge, Switch or Enter of
 * a variable needs no control edge in a subgraph, because a subgraph runs only when its variables
 * have values. */
static bool waits_well(const struct loop *l, int ctrl)
{
    return !(l->mark[ctrl] & OF_FRAME) || l->variable_of[ctrl] >= 0;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Sets the mark LIVES on nodes that depend on output 1 of a Switch. These nodes are dead in the
 * iteration that ends the loop. */
static void find_living(struct loop *l)
{
    for (int at = 0; at < l->n_own; at++)
        l->stack[at] = l->turn[l->own[at]];
    qsort(l->stack, (size_t)l->n_own, sizeof *l->stack, by_number);
    for (int at = 0; at < l->n_own; at++) {
        const int i = l->all.order[l->stack[at]];
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
    return (n->kind == PL_OP || n->subgraph) && n->effect != RT_PURE;
}

/*
 * Returns whether node i may be copied into each subgraph that its marks require. Only a pure node
 * without subgraphs may be copied into both the condition and the body. A node with an effect may
 * be copied into the body only if it is marked LIVES or only reads variables or random numbers.
 */
static bool is_on_one_side(const struct loop *l, int i)
{
    const struct pl_node *n = node_of(l, i);
    const uint8_t mark = l->mark[i];
    if ((mark & IN_CONDITION) && (mark & LIVES))
        return false;
    if (!has_effect(n))
        return !n->subgraph || (mark & (IN_CONDITION | IN_BODY)) != (IN_CONDITION | IN_BODY);
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

/* Returns whether only nodes of the loop, including its Exits, read node i. */
static bool is_read_inside(struct loop *l, int i)
{
    if (l->kept[i] || l->functionalised[i] ||
        !visit(l, l->readers->first[i + 1] - l->readers->first[i]))
        return false;
    for (int k = l->readers->first[i]; k < l->readers->first[i + 1]; k++)
        if (!l->mark[l->readers->of[k].node] && !is_exit(l, node_of(l, l->readers->of[k].node)))
            return false;
    return true;
}

static bool is_closed(struct loop *l)
{
    for (int at = 0; at < l->n_own; at++) {
        const int i = l->own[at];
        const struct pl_node *n = node_of(l, i);
        if (!is_read_inside(l, i))
            return false;
        if (l->mark[i] & OF_FRAME)
            continue;
        if (!is_on_one_side(l, i))
            return false;
        for (int k = 0; k < n->n_in; k++)
            if (!reads_well(l, n->in[k], l->mark[i]))
                return false;
        for (int k = 0; k < n->n_ctrl; k++)
            if (!waits_well(l, n->ctrl[k]))
                return false;
    }
    /* An Enter must not read or wait for nodes of the loop. */
    for (int k = 0; k < l->n_variables; k++) {
        const struct pl_node *enter = node_of(l, l->v[k].enter);
        if (l->mark[enter->in[0].node])
            return false;
        for (int j = 0; j < enter->n_ctrl; j++)
            if (l->mark[enter->ctrl[j]])
                return false;
    }
    return true;
}

/* Returns whether NextIteration `next` runs only if the body runs. Otherwise the NextIteration
 * would begin another iteration even after the condition has become false, and the loop would never
 * end. */
static bool is_of_body(const struct loop *l, const struct pl_node *next)
{
    const int in = next->in[0].node, v = l->variable_of[in];
    bool lives = (l->mark[in] & LIVES) || (v >= 0 && in == l->v[v].choice);
    for (int j = 0; j < next->n_ctrl; j++)
        lives |= (l->mark[next->ctrl[j]] & LIVES) != 0;
    return lives;
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
    qsort(l->own, (size_t)l->n_own, sizeof *l->own, by_number);
    find_living(l);
    for (int k = 0; k < l->n_changing; k++)
        if (!is_of_body(l, node_of(l, l->v[k].next)))
            return false;
    return reads_well(l, node_of(l, l->cond)->in[0], IN_CONDITION) && is_closed(l);
}

/* ---- functionalising ---- */

static enum rt_status place(struct loop *l, struct pl_graph *to, struct pl_edge e,
                            struct pl_edge *out)
{
    const int k = l->variable_of[e.node];
    if (k >= 0) {
        const struct pl_node *enter = node_of(l, l->v[k].enter);
        *out = (struct pl_edge){k, 0};
        if (!pl_is(enter, "RefEnter"))
            return RT_OK;
        /* For a RefEnter, the subgraph captures the variable's handle, and each reader dereferences
         * it. */
        e = enter->in[0];
    }
    if (l->copy[e.node] < 0) {
        l->copy[e.node] = pl_subgraph_copy_node(l->g, e.node, false, to, l->err);
        l->used[l->n_used++] = e.node;
    }
    *out = (struct pl_edge){l->copy[e.node], e.out};
    return l->copy[e.node] < 0 ? RT_RESOURCE_EXHAUSTED : RT_OK;
}

/* Copies the nodes that have mark `as`. A node with subgraphs is copied only once, so the subgraphs
 * move to the copy. */
static enum rt_status copy_nodes(struct loop *l, struct pl_graph *to, uint8_t as)
{
    enum rt_status st = RT_OK;
    while (l->n_used)
        l->copy[l->used[--l->n_used]] = NONE;
    for (int at = 0; at < l->n_own; at++) {
        const int i = l->own[at];
        l->copy[i] = NONE;
        if (!(l->mark[i] & as))
            continue;
        l->copy[i] = pl_subgraph_copy_node(l->g, i, l->g->node[i].subgraph != NULL, to, l->err);
        if (l->copy[i] < 0)
            return RT_RESOURCE_EXHAUSTED;
        if (has_effect(&to->node[l->copy[i]]) && !pl_add_target(to, l->copy[i]))
            return rt_fail_memory(l->err, "a plan", 0);
    }
    for (int at = 0; at < l->n_own && !st; at++) {
        const int i = l->own[at];
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

static enum rt_status fill_subgraphs(struct loop *l, const uint8_t *dtype)
{
    static const uint8_t truth[] = {RT_BOOL};
    struct pl_graph *subgraph = l->g->node[l->at].subgraph;
    const char *name = l->g->node[l->at].name;
    enum rt_status st =
        pl_subgraph_begin(l->g, &subgraph[0], l->n_variables, dtype, 1, name, l->err);
    if (!st)
        st = pl_subgraph_begin(l->g, &subgraph[1], l->n_variables, dtype, l->n_variables, name,
                               l->err);
    if (!st)
        st = copy_nodes(l, &subgraph[0], IN_CONDITION);
    if (!st)
        st = place(l, &subgraph[0], node_of(l, l->cond)->in[0], &subgraph[0].fetch[0]);
    if (!st)
        st = set_fetch_types(l, &subgraph[0], truth);
    if (!st)
        st = copy_nodes(l, &subgraph[1], IN_BODY);
    for (int k = 0; k < l->n_variables && !st; k++)
        if (k < l->n_changing)
            st = place(l, &subgraph[1], node_of(l, l->v[k].next)->in[0], &subgraph[1].fetch[k]);
        else
            subgraph[1].fetch[k] = (struct pl_edge){k, 0};
    return st ? st : set_fetch_types(l, &subgraph[1], dtype);
}

/* Adds the PL_WHILE node, which waits for the control inputs of all Enters. */
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
    const struct pl_subgraphs r = {.kind = PL_WHILE,
                                   .n_in = l->n_variables,
                                   .n_out = l->n_variables,
                                   .in = in,
                                   .in_dtype = dtype,
                                   .out_dtype = dtype};
    return pl_make_subgraphs(g, l->at, &r, l->err);
}

/* Records the edges that replace the Exits, and the nodes that the PL_WHILE replaces. These nodes
 * stay in the graph until rewire removes them at the end of the round. */
static void note_end(struct loop *l)
{
    for (int k = 0; k < l->n_changing; k++) {
        const int choice = l->v[k].choice;
        for (int j = choice < 0 ? 0 : l->readers->first[choice];
             choice >= 0 && j < l->readers->first[choice + 1]; j++)
            if (is_exit(l, node_of(l, l->readers->of[j].node)))
                l->end[l->readers->of[j].node] = (struct pl_edge){l->at, k};
    }
    for (int at = 0; at < l->n_own; at++)
        l->functionalised[l->own[at]] = true;
}

static void rewire(struct loop *l)
{
    struct pl_graph *g = l->g;
#define IS_END(i) ((i) < l->n && l->end[i].node != NONE)
    for (int i = 0; i < l->n; i++)
        if (l->functionalised[i] || IS_END(i)) {
            rt_tensor_clear(&g->node[i].value);
            g->node[i].kind = PL_GONE;
        }
    for (int i = 0; i < g->n; i++) {
        struct pl_node *n = &g->node[i];
        for (int k = 0; n->kind != PL_GONE && k < n->n_in; k++)
            if (IS_END(n->in[k].node))
                n->in[k] = l->end[n->in[k].node];
        for (int k = 0; n->kind != PL_GONE && k < n->n_ctrl; k++)
            if (IS_END(n->ctrl[k]))
                n->ctrl[k] = l->end[n->ctrl[k]].node;
    }
    for (int k = 0; k < g->n_fetches; k++)
        if (IS_END(g->fetch[k].node))
            g->fetch[k] = l->end[g->fetch[k].node];
    for (int k = 0; k < g->n_targets; k++)
        if (IS_END(g->target[k]))
            g->target[k] = l->end[g->target[k]].node;
#undef IS_END
}

static enum rt_status functionalise(struct loop *l)
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
        st = fill_subgraphs(l, dtype);
    if (!st) {
        pl_set_subgraph_effect(&l->g->node[l->at]);
        note_end(l);
    }
    free(in);
    free(dtype);
    return st;
}

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

/* ---- a round ---- */

static bool allocate(struct loop *l)
{
    const size_t n = (size_t)l->n + 2;
    l->member = malloc(n * sizeof *l->member);
    l->frame = malloc(n * sizeof *l->frame);
    l->readers = pl_readers_new(l->g, true, NULL);
    l->turn = malloc(n * sizeof *l->turn);
    l->kept = calloc(n, sizeof *l->kept);
    l->functionalised = calloc(n, sizeof *l->functionalised);
    l->end = malloc(n * sizeof *l->end);
    l->mark = calloc(n, sizeof *l->mark);
    l->own = malloc(n * sizeof *l->own);
    l->variable_of = malloc(n * sizeof *l->variable_of);
    l->copy = malloc(n * sizeof *l->copy);
    l->used = malloc(n * sizeof *l->used);

    const size_t edges = l->readers ? (size_t)l->readers->first[l->n] : 0;
    l->stack = malloc((n + edges) * sizeof *l->stack);
    l->visits_left = MAX_VISITS * ((int64_t)edges + l->n);
    return l->member && l->frame && l->readers && l->turn && l->kept && l->functionalised &&
           l->end && l->mark && l->own && l->variable_of && l->copy && l->used && l->stack;
}

static void free_loop(struct loop *l)
{
    pl_conditions_clear(&l->all);
    free(l->member);
    free(l->frame);
    pl_readers_free(l->readers);
    free(l->turn);
    free(l->kept);
    free(l->functionalised);
    free(l->end);
    free(l->mark);
    free(l->own);
    free(l->variable_of);
    free(l->copy);
    free(l->used);
    free(l->stack);
    free(l);
}

/* Sets l->frame. Returns false if memory runs out. */
static bool number_frames(struct loop *l)
{
    struct rt_frame_ids ids = {0};
    bool ok = true;
    for (int i = 0; i < l->n && ok; i++)
        if (pl_is_either(node_of(l, i), "Enter", "RefEnter")) {
            l->frame[i] = rt_frame_id(&ids, 0, rt_attr_str(node_of(l, i)->def, "frame_name"));
            ok = l->frame[i] != 0;
        }
    rt_frame_ids_clear(&ids);
    return ok;
}

/* Indexes the nodes of all loops. Returns false if a loop's Merge does not have the form that
 * tf.while_loop produces. */
static bool index_graph(struct loop *l)
{
    const struct pl_graph *g = l->g;
    struct variable v;
    for (int i = 0; i < l->n; i++) {
        const struct pl_node *n = node_of(l, i);
        l->variable_of[i] = l->copy[i] = NONE;
        l->end[i] = (struct pl_edge){NONE, 0};
        if (n->kind == PL_GONE)
            continue;
        const bool merges = pl_is_loop_merge(g, n);
        if (merges && !parts_of(l, i, &v))
            return false;
        if (merges || pl_is_either(n, "Enter", "RefEnter"))
            l->member[l->n_members++] = (struct member){l->frame[merges ? v.enter : i], i};
    }
    for (int k = 0; k < l->all.n_order; k++)
        l->turn[l->all.order[k]] = k;
    for (int k = 0; k < g->n_fetches; k++)
        l->kept[g->fetch[k].node] = true;
    for (int k = 0; k < g->n_targets; k++)
        l->kept[g->target[k]] = true;
    if (l->n_members)
        qsort(l->member, (size_t)l->n_members, sizeof *l->member, by_frame);
    return true;
}

static void forget(struct loop *l)
{
    for (; l->n_own; l->n_own--) {
        const int i = l->own[l->n_own - 1];
        l->mark[i] = 0;
        l->variable_of[i] = l->copy[i] = NONE;
    }
    while (l->n_used)
        l->copy[l->used[--l->n_used]] = NONE;
    l->n_variables = l->n_changing = 0;
}

static enum rt_status functionalise_innermost(struct pl_graph *g, bool *changed,
                                              struct rt_error *err)
{
    enum rt_status st = RT_OK;
    struct loop *l = calloc(1, sizeof *l);
    if (!l)
        return rt_fail_memory(err, "a plan", sizeof *l);
    l->g = g;
    l->n = g->n;
    l->err = err;
    if (allocate(l) && pl_conditions_find(&l->all, g) && number_frames(l) && index_graph(l))
        for (int i = 0; i < l->n && !st && l->visits_left >= 0; i++) {
            if (!pl_is(&g->node[i], "LoopCond") || g->node[i].n_in != 1)
                continue;
            l->cond = i;
            if (understood(l)) {
                *changed = true;
                st = functionalise(l);
            }
            forget(l);
        }
    if (*changed && !st) {
        rewire(l);
        pl_prune(g);
    }
    free_loop(l);
    return st;
}

enum rt_status pl_functionalise_loops(struct pl_graph *g, bool *changed, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    *changed = false;
    /* A round functionalises loops whose inner loops were functionalised in earlier rounds. */
    bool again = has_only_loops(g);
    for (int round = 0; again && !st && round < MAX_ROUNDS; round++) {
        again = false;
        st = functionalise_innermost(g, &again, err);
        *changed |= again;
    }
    return st;
}
