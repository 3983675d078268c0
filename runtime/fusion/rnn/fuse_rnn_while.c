/*
 * Finds recurrent layers of TensorFlow 2. Such a layer is a While whose body is a recurrent cell or
 * a stack of cells. In each step, the body reads one element of a list and writes one element. Each
 * cell becomes a node (_RNN) that multiplies the inputs of all steps by its weights at once, and
 * passes only the state from step to step.
 *
 * The pass builds each function of the loop as the graph from which its plan would be made, matches
 * this graph, and frees it. The loop's bounds and the list's length become inputs of the node. The
 * node therefore runs the same number of steps as the loop, and fails where the loop would fail.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/fusion/rnn/rnn_loop.h"

enum { MAX_DEPTH = 8 };

/* ---- the nodes around the loop ---- */

static bool is_transpose(const struct pl_graph *g, const struct pl_node *n)
{
    int64_t perm[3];

    return pl_is(n, "Transpose") && n->n_in == 2 && n->n_ctrl == 0 &&
           pl_ints_constant(g, n->in[1], 3, perm) && perm[0] == 1 && perm[1] == 0 && perm[2] == 2;
}

/* The readers of the list that the loop writes. They must be TensorListStack nodes. */
struct readers {
    bool transposed;     /* whether all readers of the stacked list transpose it to [batch, time] */
    bool any;            /* whether any node stacks the list */
    unsigned char *mark; /* for each node, MARK_STACK, MARK_TRANSPOSE or 0 */
};
enum { MARK_STACK = 1, MARK_TRANSPOSE };

/* Returns whether node n stacks the elements of the loop's output list. `length` is the length of
 * the list, or -1 if it is not constant. */
static bool is_stack(struct pl_rnn_loop *l, const struct pl_node *n, int64_t length)
{
    const int64_t want = pl_is(n, "TensorListStack") ? rt_attr_int(n->def, "num_elements") : 0;

    return pl_is(n, "TensorListStack") && pl_is_float_list(n) && n->n_in == 2 && n->n_ctrl == 0 &&
           (want == -1 || want == length) &&
           pl_list_shape(l->g, n->in[1], pl_last_cell(l)->width, &l->y_rows);
}

/* Returns whether the edge is a loop output that the new node does not compute. */
static bool is_foreign(const struct pl_rnn_loop *l, struct pl_edge e)
{
    return e.node == l->at && (e.out >= l->n || l->role[e.out] != ROLE_STATE);
}

static bool find_stacks(struct pl_rnn_loop *l, int64_t length, struct readers *r)
{
    const struct pl_graph *g = l->g;

    for (int i = 0; i < g->n; i++)
        for (int k = 0; g->node[i].kind != PL_GONE && k < g->node[i].n_in; k++) {
            if (!is_foreign(l, g->node[i].in[k]))
                continue;
            if (l->list < 0 || g->node[i].in[k].out != l->list || k != 0 ||
                !is_stack(l, &g->node[i], length))
                return false;
            r->any = true;
            r->mark[i] = MARK_STACK;
        }
    for (int k = 0; k < g->n_fetches; k++)
        if (is_foreign(l, g->fetch[k]))
            return false;
    for (int k = 0; k < g->n_targets; k++)
        if (r->mark[g->target[k]])
            return false;
    return true;
}

static bool find_readers(struct pl_rnn_loop *l, int64_t length, struct readers *r)
{
    const struct pl_graph *g = l->g;

    r->transposed = true;
    if (!find_stacks(l, length, r))
        return false;
    for (int i = 0; i < g->n; i++) {
        const struct pl_node *n = &g->node[i];
        for (int k = 0; n->kind != PL_GONE && k < n->n_ctrl; k++)
            if (r->mark[n->ctrl[k]] == MARK_STACK)
                return false;
        for (int k = 0; n->kind != PL_GONE && k < n->n_in; k++)
            if (r->mark[n->in[k].node] == MARK_STACK) {
                r->transposed = r->transposed && k == 0 && is_transpose(g, n);
                r->mark[i] = is_transpose(g, n) ? MARK_TRANSPOSE : 0;
            }
    }
    for (int k = 0; k < g->n_fetches; k++)
        if (r->mark[g->fetch[k].node] == MARK_STACK)
            r->transposed = false;
    return true;
}

/* ---- the new node ---- */

struct redirection {
    const struct pl_rnn_loop *l;
    const struct readers *r;
};

/* Returns whether node i is the new node, or a stack or Transpose that is removed. pl_rewire leaves
 * the inputs of these nodes unchanged. */
static bool stays_wired(const void *arg, int i)
{
    const struct redirection *d = arg;
    const int mark = d->r->mark[i];
    return i == d->l->at || mark == MARK_STACK || (mark == MARK_TRANSPOSE && d->r->transposed);
}

/* Returns the edge that replaces `e`. An edge from the loop, or from a removed stack or Transpose,
 * is replaced by an edge from a new node. Any other edge is unchanged. */
static struct pl_edge redirected(const void *arg, struct pl_edge e)
{
    const struct redirection *d = arg;
    const int mark = e.node < 0 ? 0 : d->r->mark[e.node];

    if (mark == MARK_STACK || (mark == MARK_TRANSPOSE && d->r->transposed))
        return (struct pl_edge){d->l->at, 0};
    return e.node == d->l->at ? pl_rnn_loop_state(d->l, e.out) : e;
}

/* ---- the pass ---- */

/* Returns whether a TensorListReserve makes the list that the loop writes. Sets *length to the edge
 * that carries the list's length, and *n to the length, or to -1 if it is not constant. */
static bool find_length(struct pl_rnn_loop *l, struct pl_edge *length, int64_t *n)
{
    const struct pl_node *list =
        l->list < 0 ? NULL : pl_op_node(l->g, l->start[l->list], "TensorListReserve", 2);

    if (!list || !pl_is_float_list(list) || list->n_ctrl ||
        !pl_list_shape(l->g, list->in[0], pl_last_cell(l)->width, &l->y_rows))
        return false;
    *length = list->in[1];
    if (!pl_int_constant(l->g, *length, n))
        *n = -1;
    return true;
}

static enum rt_status replace(struct pl_rnn_loop *l, struct pl_edge length, const struct readers *r,
                              struct rt_error *err)
{
    const int n = l->g->n;
    const struct pl_edge all = pl_no_limit(l, err);

    if (all.node < 0)
        return RT_RESOURCE_EXHAUSTED;
    for (int k = 0; k < l->n_limits; k++)
        if (pl_is_length(l->g, l->limit[k], l->items))
            l->limit[k] = all;
    if (pl_is_length(l->g, length, l->items))
        length = all;
    const struct pl_node *from = &l->g->node[l->items.node];
    const bool by_batch = l->items.out == 0 && is_transpose(l->g, from);
    const struct pl_rnn_loop_put p = {.items = by_batch ? from->in[0] : l->items,
                                      .length = length,
                                      .by_time = !by_batch,
                                      .y_by_time = !r->transposed,
                                      .is_read = r->any,
                                      .keep = l->each ? RT_RNN_KEEP_EACH : RT_RNN_KEEP_LAST};
    const enum rt_status st = pl_rnn_loop_put(l, &p, err);
    if (st)
        return st;
    const struct redirection d = {l, r};
    pl_rewire(l->g, n, &(struct pl_rewiring){&d, stays_wired, redirected});
    for (int i = 0; i < n; i++)
        if (r->mark[i] == MARK_STACK)
            l->g->node[i].kind = PL_GONE;
    return RT_OK;
}

/* Matches and fuses the loop of node `at`. A loop that does not match stays unchanged. */
static enum rt_status fuse(struct pl_graph *g, int at, struct rt_error *err)
{
    struct pl_rnn_loop l;
    struct pl_graph cond = {0};
    struct readers r = {0};
    struct pl_edge length;
    struct rt_error why = {0};
    enum rt_status st = RT_OK;
    int64_t n;

    pl_rnn_loop_init(&l, g, at);
    l.n = g->node[at].n_in;
    if (l.n > PL_RNN_LOOP_VARIABLES || g->node[at].n_out != l.n ||
        g->pipeline->look_inside(g, at, rt_attr_func(g->node[at].def, "body"), true, &l.body, &why))
        return RT_OK;
    memcpy(l.start, g->node[at].in, (size_t)l.n * sizeof *l.start);
    if (!pl_rnn_loop_find(&l) ||
        g->pipeline->look_inside(g, at, rt_attr_func(g->node[at].def, "cond"), false, &cond, &why))
        goto end;
    if (cond.n_fetches != 1 || !pl_is_pure(&cond, false) ||
        !pl_rnn_loop_limits(&l, &cond, cond.fetch[0]) || !pl_bounds_lengths(&l) ||
        !find_length(&l, &length, &n))
        goto end;
    r.mark = calloc((size_t)g->n + 1, 1);
    if (!r.mark)
        st = rt_fail_memory(err, "a plan", (size_t)g->n);
    else if (find_readers(&l, n, &r))
        st = replace(&l, length, &r, err);
end:
    free(r.mark);
    pl_graph_clear(&l.body);
    pl_graph_clear(&cond);
    return st;
}

enum rt_status pl_fuse_rnn_whiles(struct pl_graph *g, struct rt_error *err)
{
    enum rt_status st = RT_OK;

    for (int i = 0, n = g->n; i < n && !st && g->depth < MAX_DEPTH; i++)
        if ((pl_is(&g->node[i], "While") || pl_is(&g->node[i], "StatelessWhile")) &&
            !g->node[i].call)
            st = fuse(g, i, err);
    return st;
}
