/*
 * Finds recurrent layers of TensorFlow 1. Such a layer is a loop made of Enter, Merge, Switch,
 * NextIteration and Exit nodes. The loop reads one TensorArray and writes another, and its body is
 * a cell. The pass copies the body into a separate graph whose feeds are the loop's variables, and
 * matches it like the body of a While (fuse_rnn_while.c).
 *
 * A TensorArray that was only partly written cannot be gathered. Therefore, a loop is fused only if
 * its bounds show that it makes one step for each row of the input.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/plan/frame_ids.h"
#include "runtime/fusion/fuse.h"
#include "runtime/fusion/rnn/rnn_loop.h"

/* The search for loops scans the complete graph once for each frame. MAX_SCANS limits the total
 * number of visited nodes. Frames beyond the limit are not fused. */
enum { MAX_BODY_DEPTH = 64, MAX_BODY_INPUTS = 16, MAX_SCANS = 1 << 23 };

struct frame {
    struct pl_rnn_loop l;
    int cond;
    /* For each node that the plan had before the pass: the number of the frame name (rt_frame_id)
     * if the node is an Enter, otherwise 0. */
    const int *leads_to;
    int n_named; /* number of nodes that the plan had before the pass */
    /* Variables `n_variables` to `l.n - 1` belong to constant Enters. */
    int n_variables;
    int enter[PL_RNN_LOOP_VARIABLES];
    int merge[PL_RNN_LOOP_VARIABLES], next[PL_RNN_LOOP_VARIABLES], choice[PL_RNN_LOOP_VARIABLES];
    struct pl_graph check; /* the loop's condition as a graph */
    int *copy; /* for each node of the plan, its index in the graph that is being made, or -1 */
    /* whether the condition, which reads variables from Merge nodes, is being copied */
    bool in_cond;
    int n_before; /* number of nodes of the plan before the layers are added */
};

static const struct pl_node *node_of(const struct frame *f, int i)
{
    return &f->l.g->node[i];
}

static bool is_pivot_free(const struct pl_node *n)
{
    return n->kind == PL_OP && n->def && !n->call;
}

/* ---- the loop's variables ---- */

static bool has_frame(const struct frame *f, int i, int name, bool is_constant)
{
    const struct pl_node *n = node_of(f, i);
    return i < f->n_named && f->leads_to[i] == name && pl_is(n, "Enter") && n->n_in == 1 &&
           n->n_ctrl == 0 && rt_attr_bool(n->def, "is_constant") == is_constant;
}

/* Adds the loop variable that Switch i carries. */
static bool add_variable(struct frame *f, int i)
{
    const struct pl_graph *g = f->l.g;
    const struct pl_edge m = g->node[i].in[0];
    const struct pl_node *merge = &g->node[m.node];

    if (f->l.n == PL_RNN_LOOP_VARIABLES || !pl_is(merge, "Merge") || m.out != 0 ||
        merge->n_in != 2 || merge->n_ctrl || g->node[i].n_ctrl)
        return false;
    const bool first = pl_is(&g->node[merge->in[0].node], "Enter");
    const int enter = merge->in[first ? 0 : 1].node, next = merge->in[first ? 1 : 0].node;
    if (!pl_is(&g->node[enter], "Enter") || !pl_is(&g->node[next], "NextIteration") ||
        g->node[next].n_in != 1 || g->node[next].n_ctrl)
        return false;
    const int k = f->l.n++;
    f->enter[k] = enter;
    f->merge[k] = m.node;
    f->next[k] = next;
    f->choice[k] = i;
    return true;
}

static bool find_variables(struct frame *f)
{
    const struct pl_graph *g = f->l.g;

    for (int i = 0; i < g->n; i++)
        if (pl_is(&g->node[i], "Switch") && g->node[i].n_in == 2 &&
            g->node[i].in[1].node == f->cond && !add_variable(f, i))
            return false;
    f->n_variables = f->l.n;
    if (f->l.n == 0)
        return false;
    if (f->enter[0] >= f->n_named)
        return false;
    const int name = f->leads_to[f->enter[0]];
    for (int k = 0; k < f->n_variables; k++)
        if (!has_frame(f, f->enter[k], name, false))
            return false;
    for (int i = 0; i < g->n; i++)
        if (has_frame(f, i, name, true)) {
            if (f->l.n == PL_RNN_LOOP_VARIABLES)
                return false;
            f->enter[f->l.n++] = i;
        }
    for (int k = 0; k < f->l.n; k++)
        f->l.start[k] = pl_pure_origin(g, g->node[f->enter[k]].in[0]);
    return true;
}

/* ---- the body as a graph ---- */

/* Returns the index of the loop variable that an edge inside the frame carries, or -1 if it carries
 * none. */
static int variable_of(const struct frame *f, struct pl_edge e)
{
    for (int k = 0; k < f->l.n; k++) {
        if (k >= f->n_variables) {
            if (e.node == f->enter[k])
                return k;
        } else if (f->in_cond ? e.node == f->merge[k] && e.out == 0
                              : e.node == f->choice[k] && e.out == 1)
            return k;
    }
    return -1;
}

/* Returns whether a control edge from node i means only that the current iteration runs. */
static bool is_pivot(const struct frame *f, int i)
{
    const struct pl_edge e = pl_origin(f->l.g, (struct pl_edge){i, 0});

    for (int k = 0; k < f->n_variables; k++)
        if (e.node == f->choice[k] || e.node == f->merge[k])
            return true;
    return false;
}

static bool place(struct frame *f, struct pl_graph *to, struct pl_edge e, int depth,
                  struct pl_edge *out);

static bool copy_node(struct frame *f, struct pl_graph *to, int i, int depth)
{
    struct rt_error err = {0};
    const struct pl_node n = *node_of(f, i);
    struct pl_edge in[MAX_BODY_INPUTS];

    if (f->copy[i] >= 0)
        return true;
    if (depth > MAX_BODY_DEPTH || n.n_in > MAX_BODY_INPUTS ||
        !(n.kind == PL_CONST || (is_pivot_free(&n) && !pl_is_token(n.def) && n.n_in > 0)))
        return false;
    for (int k = 0; k < n.n_ctrl; k++)
        if (!is_pivot(f, n.ctrl[k]))
            return false;
    for (int k = 0; k < n.n_in; k++)
        if (!place(f, to, n.in[k], depth + 1, &in[k]))
            return false;
    struct pl_edge *own = rt_arena_array(to->arena, (size_t)n.n_in + 1, sizeof *own);
    const int c = own ? pl_add(to, &err) : -1;
    if (c < 0)
        return false;
    memcpy(own, in, (size_t)n.n_in * sizeof *own);
    struct pl_node *made = &to->node[c];
    made->kind = n.kind;
    made->effect = n.effect;
    made->frozen = n.frozen;
    made->def = n.def;
    made->name = n.name;
    made->depth = n.depth;
    made->n_in = n.n_in;
    made->n_out = n.n_out;
    made->in = own;
    if (n.kind == PL_CONST)
        rt_tensor_ref(&made->value, &n.value);
    f->copy[i] = c;
    return true;
}

static bool place(struct frame *f, struct pl_graph *to, struct pl_edge e, int depth,
                  struct pl_edge *out)
{
    e = pl_pure_origin(f->l.g, e);
    const int k = variable_of(f, e);
    if (k >= 0) {
        *out = (struct pl_edge){k, 0};
        return true;
    }
    if (!copy_node(f, to, e.node, depth))
        return false;
    *out = (struct pl_edge){f->copy[e.node], e.out};
    return true;
}

static bool begin_graph(struct frame *f, struct pl_graph *to, int n_fetches)
{
    const struct pl_graph *g = f->l.g;
    struct rt_error err = {0};

    *to = (struct pl_graph){.session = g->session,
                            .pipeline = g->pipeline,
                            .serving = g->serving,
                            .depth = g->depth + 1};
    to->arena = rt_session_plan_arena(g->session);
    if (!to->arena)
        return false;
    to->n_feeds = f->l.n;
    to->n_fetches = n_fetches;
    to->fetch = rt_arena_array(to->arena, (size_t)n_fetches + 1, sizeof *to->fetch);
    for (int i = 0; i < g->n; i++)
        f->copy[i] = -1;
    for (int k = 0; k < f->l.n && to->fetch; k++) {
        const struct pl_node *from = node_of(f, f->l.start[k].node);
        const int c = pl_add(to, &err);
        if (c < 0)
            return false;
        to->node[c].kind = PL_FEED;
        to->node[c].feed = k;
        to->node[c].n_out = 1;
        to->node[c].def = node_of(f, f->enter[k])->def;
        to->node[c].feed_dtype = to->node[c].def->out_dtype[0];
        to->node[c].name = node_of(f, f->enter[k])->name;
        if (k >= f->n_variables && pl_is_constant(g, f->l.start[k])) {
            to->node[c].kind = PL_CONST;
            rt_tensor_ref(&to->node[c].value, &from->value);
        }
    }
    return to->fetch != NULL;
}

static bool copy_body(struct frame *f)
{
    struct pl_graph *to = &f->l.body;
    struct rt_error err = {0};
    bool calls;

    f->in_cond = false;
    if (!begin_graph(f, to, f->l.n))
        return false;
    for (int k = 0; k < f->l.n; k++)
        if (k >= f->n_variables)
            to->fetch[k] = (struct pl_edge){k, 0};
        else if (!place(f, to, node_of(f, f->next[k])->in[0], 0, &to->fetch[k]))
            return false;
    return to->pipeline->simplify(to, &calls, &err) == RT_OK;
}

static bool copy_condition(struct frame *f)
{
    struct pl_graph *to = &f->check;
    struct rt_error err = {0};
    bool calls;

    f->in_cond = true;
    return begin_graph(f, to, 1) && node_of(f, f->cond)->n_ctrl == 0 &&
           place(f, to, node_of(f, f->cond)->in[0], 0, &to->fetch[0]) &&
           to->pipeline->simplify(to, &calls, &err) == RT_OK;
}

/* ---- the nodes around the loop ---- */

/*
 * Returns whether e is the number of items n, or a limit with the same effect. dynamic_rnn writes
 * the limit as `Minimum(n, Maximum(1, n))` or as `Minimum(n, Maximum(1, longest))`, where `longest`
 * is the number of steps of the longest row. With `longest`, the loop's result is the same, because
 * no row takes a step after the last step of the longest row, and unwritten elements are zero.
 */
static bool is_whole_length(const struct frame *f, struct pl_edge e)
{
    const struct pl_graph *g = f->l.g;
    const struct pl_node *n = pl_op_node(g, e, "Minimum", 2);
    int64_t one;

    if (pl_is_length(g, e, f->l.items))
        return true;
    if (!n || n->n_ctrl)
        return false;
    for (int k = 0; k < 2; k++) {
        const struct pl_node *most = pl_op_node(g, n->in[k], "Maximum", 2);
        if (!most || most->n_ctrl || !pl_is_length(g, n->in[1 - k], f->l.items))
            continue;
        for (int j = 0; j < 2; j++)
            if (pl_int_constant(g, most->in[j], &one) && one == 1 &&
                (pl_is_length(g, most->in[1 - j], f->l.items) ||
                 pl_is_longest(&f->l, most->in[1 - j])))
                return true;
    }
    return false;
}

static bool takes_shape(const struct rt_shape *s, int64_t cols, int64_t *rows)
{
    return s->rank < 0 || (s->rank == 2 && pl_takes_rows(s->dim[0], s->dim[1], cols, rows));
}

/* Returns whether e is a TensorArray with as many elements as the loop has items. */
static bool is_array(const struct frame *f, struct pl_edge e, int64_t cols, int64_t *rows)
{
    const struct pl_graph *g = f->l.g;
    const struct pl_node *n = pl_op_node(g, e, "TensorArrayV3", 1);
    const struct rt_shape *s = n ? rt_attr_shape(n->def, "element_shape") : NULL;

    return s && pl_is_length(g, n->in[0], f->l.items) &&
           /* Unwritten elements can be read only if all elements have the same shape. */
           (f->l.mask.kind == RT_RNN_ALL || rt_attr_bool(n->def, "identical_element_shapes")) &&
           takes_shape(s, cols, rows);
}

/* Returns whether node n gathers all elements of the written array in order. */
static bool is_gather(struct frame *f, const struct pl_node *n, struct pl_edge array)
{
    const struct pl_graph *g = f->l.g;
    int64_t first, step;

    if (!pl_is(n, "TensorArrayGatherV3") || n->n_in != 3 || n->n_ctrl ||
        n->in[0].node != array.node || n->in[0].out != 0)
        return false;
    const struct rt_shape *s = rt_attr_shape(n->def, "element_shape");
    if (!s || !takes_shape(s, pl_last_cell(&f->l)->width, &f->l.y_rows))
        return false;
    n = pl_op_node(g, n->in[1], "Range", 3);
    return n && n->n_ctrl == 0 && pl_int_constant(g, n->in[0], &first) && first == 0 &&
           pl_int_constant(g, n->in[2], &step) && step == 1 &&
           pl_is_length(g, n->in[1], f->l.items);
}

/* Returns whether node i is an Enter, Merge, Switch or NextIteration of the loop, or its
 * LoopCond. */
static bool is_inside(const struct frame *f, int i)
{
    for (int k = 0; k < f->l.n; k++)
        if (i == f->enter[k] ||
            (k < f->n_variables && (i == f->merge[k] || i == f->next[k] || i == f->choice[k])))
            return true;
    return i == f->cond;
}

/* kinds of values that a node may pass out of the loop */
enum { NOT_OF_LOOP, FOREIGN, ARRAY, STATE }; /* The new nodes do not compute FOREIGN values. */

/* Returns the kind of value that `node` passes out of the loop. For STATE, sets *k to the variable
 * of the final state. */
static int leaves(const struct frame *f, int node, int *k)
{
    const struct pl_node *n = node_of(f, node);
    const struct pl_rnn_loop *l = &f->l;

    if (pl_is(n, "TensorArrayGatherV3") && l->list >= 0) {
        const struct pl_node *flow = node_of(f, n->in[2].node);
        return pl_is(flow, "Exit") && flow->in[0].node == f->choice[l->list] ? ARRAY : NOT_OF_LOOP;
    }
    if (!pl_is(n, "Exit"))
        return NOT_OF_LOOP;
    for (*k = 0; *k < f->n_variables; (*k)++)
        if (n->in[0].node == f->choice[*k])
            return l->role[*k] == ROLE_STATE ? STATE : FOREIGN;
    return NOT_OF_LOOP;
}

/* Checks the nodes that read the loop's values and arrays. Returns whether the new nodes compute
 * every value that is read. */
static bool find_readers(struct frame *f, struct pl_edge array)
{
    const struct pl_graph *g = f->l.g;
    const struct pl_rnn_loop *l = &f->l;
    int state;

    for (int i = 0; i < g->n; i++) {
        const struct pl_node *n = &g->node[i];
        if (n->kind == PL_GONE || pl_is(n, "TensorArrayWriteV3") || is_inside(f, i))
            continue;
        const bool gathers = leaves(f, i, &state) == ARRAY;
        if (gathers && !is_gather(f, n, array))
            return false;
        for (int k = 0; k < n->n_in; k++) {
            const int from = n->in[k].node;
            if (!gathers && (leaves(f, from, &state) == FOREIGN || from == array.node))
                return false;
            if (from == l->arrays.node && !pl_is(n, "TensorArrayScatterV3"))
                return false;
        }
        for (int k = 0; k < n->n_ctrl; k++)
            if (leaves(f, n->ctrl[k], &state) != NOT_OF_LOOP)
                return false;
    }
    for (int k = 0; k < g->n_fetches; k++)
        if (leaves(f, g->fetch[k].node, &state) == FOREIGN)
            return false;
    for (int k = 0; k < g->n_targets; k++)
        if (leaves(f, g->target[k], &state) != NOT_OF_LOOP || is_inside(f, g->target[k]))
            return false;
    return true;
}

/* ---- the new node ---- */

/* Returns the edge that replaces output 0 of node i. Its node is -1 if no new node computes this
 * value. */
static struct pl_edge instead_of(const struct frame *f, int i)
{
    int k;

    switch (leaves(f, i, &k)) {
    case ARRAY:
        return (struct pl_edge){f->l.at, 0};
    case STATE:
        return pl_rnn_loop_state(&f->l, k);
    default:
        return (struct pl_edge){-1, 0};
    }
}

/* Returns whether pl_rewire must leave the inputs of node i unchanged. A gather must read the
 * loop's Exit until the gather's own readers have been rewired. */
static bool stays_wired(const void *arg, int i)
{
    return instead_of(arg, i).node >= 0;
}

static struct pl_edge redirected(const void *arg, struct pl_edge e)
{
    const struct frame *f = arg;
    const struct pl_edge own = e.node < f->n_before ? instead_of(f, e.node) : pl_no_edge;
    return own.node >= 0 ? own : e;
}

static enum rt_status replace(struct frame *f, struct rt_error *err)
{
    struct pl_rnn_loop *l = &f->l;
    struct pl_graph *g = l->g;
    const int n = g->n;

    f->n_before = n;
    l->at = pl_add_like(g, f->cond, err);
    if (l->at < 0)
        return RT_RESOURCE_EXHAUSTED;
    const struct pl_edge all = pl_no_limit(l, err);
    l->limit[0] = l->limit[1] = all;
    const struct pl_rnn_loop_put p = {.items = l->items,
                                      .length = all,
                                      .by_time = true,
                                      .y_by_time = true,
                                      .is_read = true,
                                      .keep = RT_RNN_KEEP_EACH};
    const enum rt_status st = all.node < 0 ? RT_RESOURCE_EXHAUSTED : pl_rnn_loop_put(l, &p, err);
    if (!st)
        pl_rewire(g, n, &(struct pl_rewiring){f, stays_wired, redirected});
    return st;
}

static bool understood(struct frame *f)
{
    struct pl_rnn_loop *l = &f->l;

    if (!find_variables(f) || !copy_body(f) || !pl_rnn_loop_find(l) || l->list < 0 ||
        !copy_condition(f) || !pl_rnn_loop_limits(l, &f->check, f->check.fetch[0]) ||
        !pl_bounds_lengths(l))
        return false;
    for (int k = 0; k < l->n_limits; k++)
        if (!is_whole_length(f, l->limit[k]))
            return false;
    const struct pl_edge array = {l->start[l->list].node, 0};
    return array.node != l->arrays.node && is_array(f, array, pl_last_cell(l)->width, &l->y_rows) &&
           is_array(f, l->arrays, pl_first_cell(l)->depth, &l->x_rows) && find_readers(f, array);
}

static bool has_arrays(const struct pl_graph *g)
{
    for (int i = 0; i < g->n; i++)
        if (pl_is(&g->node[i], "TensorArrayV3"))
            return true;
    return false;
}

/* Returns the array `leads_to` of struct frame. Returns NULL if memory runs out. */
static int *name_frames(const struct pl_graph *g)
{
    struct rt_frame_ids ids = {0};
    int *leads_to = calloc((size_t)g->n + 1, sizeof *leads_to);
    for (int i = 0; leads_to && i < g->n; i++)
        if (pl_is(&g->node[i], "Enter")) {
            leads_to[i] = rt_frame_id(&ids, 0, rt_attr_str(g->node[i].def, "frame_name"));
            if (!leads_to[i]) {
                free(leads_to);
                leads_to = NULL;
            }
        }
    rt_frame_ids_clear(&ids);
    return leads_to;
}

enum rt_status pl_fuse_rnn_frames(struct pl_graph *g, bool *changed, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    int64_t scans_left = MAX_SCANS;

    *changed = false;
    if (!has_arrays(g))
        return RT_OK;
    const int n = g->n;
    int *leads_to = name_frames(g);
    if (!leads_to)
        return rt_fail_memory(err, "a plan", (size_t)n * sizeof *leads_to);
    for (int i = 0; i < n && !st; i++) {
        if (!pl_is(&g->node[i], "LoopCond") || g->node[i].n_in != 1)
            continue;
        scans_left -= g->n;
        if (scans_left < 0)
            break;
        struct frame *f = calloc(1, sizeof *f);
        int *copy = calloc((size_t)g->n + 1, sizeof *copy);
        if (f && copy) {
            *f = (struct frame){.cond = i, .copy = copy, .leads_to = leads_to, .n_named = n};
            pl_rnn_loop_init(&f->l, g, -1);
            f->l.is_frame = true;
            if (understood(f)) {
                st = replace(f, err);
                *changed = true;
            }
            pl_graph_clear(&f->l.body);
            pl_graph_clear(&f->check);
        } else
            st = rt_fail_memory(err, "a plan", (size_t)g->n * sizeof *copy);
        free(f);
        free(copy);
        if (*changed && !st)
            pl_prune(g);
    }
    free(leads_to);
    return st;
}
