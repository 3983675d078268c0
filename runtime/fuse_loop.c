/*
 * Recurrent layers: a While whose body is an LSTM or GRU cell, reading one element of a list per
 * step and writing one, becomes one node (_LSTM, _GRU) that makes the products of all inputs at
 * once and keeps nothing but the state from step to step.
 *
 * Before the loop's functions become plans, they are made graphs of nodes as they would be then,
 * looked at, and thrown away. The loop's bounds and the list's length stay inputs of the node,
 * which counts its steps and refuses what the loop would.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/loop.h"

enum { MAX_DEPTH = 8 };

/* The loop variable that `e`, in the body or condition `g`, is; -1: none. */
static int variable(const struct pl_loop *l, const struct pl_graph *g, struct pl_edge e)
{
    return e.node < l->n && e.out == 0 &&
                   (g->node[e.node].kind == PL_FEED || g->node[e.node].kind == PL_CONST)
               ? e.node
               : -1;
}

static bool is_counter(const struct pl_loop *l, struct pl_edge e)
{
    const int k = variable(l, &l->body, e);
    return k >= 0 && l->role[k] == ROLE_COUNTER;
}

/* ---- the body ---- */

/* What a frame's loop has instead of lists; which of them there are is seen when each is found. */
static bool is_array_op(const struct pl_node *n)
{
    return pl_is(n, "TensorArrayReadV3") || pl_is(n, "TensorArrayWriteV3");
}

/* Nothing in it does more than compute; what must run beside it is constant by now. */
static bool is_pure(const struct pl_graph *g, bool is_frame)
{
    for (int k = 0; k < g->n_targets; k++) {
        const struct pl_node *n = &g->node[g->target[k]];
        if (n->kind != PL_CONST && n->kind != PL_GONE && !pl_is(n, "NoOp"))
            return false;
    }
    for (int i = 0; i < g->n; i++)
        if (g->node[i].kind == PL_OP &&
            ((g->node[i].effect != RT_PURE && !(is_frame && is_array_op(&g->node[i]))) ||
             g->node[i].n_ctrl))
            return false;
    return true;
}

static void find_counters(struct pl_loop *l)
{
    for (int k = 0; k < l->n; k++) {
        const struct pl_edge e = l->body.fetch[k];
        const struct pl_node *n = pl_op_node(&l->body, e, "AddV2", 2);
        int64_t one, start;
        if (!n)
            n = pl_op_node(&l->body, e, "Add", 2);
        if (variable(l, &l->body, e) == k)
            l->role[k] = ROLE_KEPT;
        else if (n)
            for (int j = 0; j < 2; j++)
                if (variable(l, &l->body, n->in[j]) == k && l->body.node[k].kind == PL_FEED &&
                    pl_int_constant(&l->body, n->in[1 - j], &one) && one == 1 &&
                    pl_int_constant(l->g, l->start[k], &start) && start == 0)
                    l->role[k] = ROLE_COUNTER;
    }
}

/* A constant partial shape of matrices that does not speak of their rows: unknown, [-1,-1] or
 * [-1,cols]. */
static bool is_free_shape(const struct pl_graph *g, struct pl_edge e, int64_t cols)
{
    int64_t dim[2], all;

    if (pl_int_constant(g, e, &all))
        return all == -1;
    return pl_ints_constant(g, e, 2, dim) && dim[0] == -1 && (dim[1] == -1 || dim[1] == cols);
}

static bool is_float_list(const struct pl_node *n)
{
    return rt_attr_dtype(n->def, "element_dtype") == RT_F32;
}

bool pl_is_length(const struct pl_graph *g, struct pl_edge e, struct pl_edge items)
{
    const struct pl_node *n = pl_op_node(g, e, "StridedSlice", 4);
    int64_t begin, end, step;

    if (!n || n->n_ctrl || !pl_ints_constant(g, n->in[1], 1, &begin) || begin != 0 ||
        !pl_ints_constant(g, n->in[2], 1, &end) || end != 1 ||
        !pl_ints_constant(g, n->in[3], 1, &step) || step != 1 ||
        rt_attr_int(n->def, "shrink_axis_mask") != 1 || rt_attr_int(n->def, "new_axis_mask") ||
        rt_attr_int(n->def, "ellipsis_mask"))
        return false;
    const struct pl_node *shape = pl_op_node(g, n->in[0], "Shape", 1);
    return shape && shape->n_ctrl == 0 && shape->in[0].node == items.node &&
           shape->in[0].out == items.out;
}

/* Variable k, which stays as it is; -1: it is something else. */
static int kept(const struct pl_loop *l, struct pl_edge e)
{
    const int k = variable(l, &l->body, e);
    return k >= 0 && l->role[k] == ROLE_KEPT ? k : -1;
}

/* A TensorArray of floats, whose elements say nothing of their rows. */
static bool is_float_array(const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *n = pl_op_node(g, e, "TensorArrayV3", 1);
    return n && rt_attr_dtype(n->def, "dtype") == RT_F32 && n->n_ctrl == 0;
}

/* TensorArrayWriteV3(kept, counter, new state, variable): the flow is the variable. */
static bool find_array(struct pl_loop *l)
{
    for (int k = 0; k < l->n; k++) {
        const struct pl_node *n = pl_op_node(&l->body, l->body.fetch[k], "TensorArrayWriteV3", 4);
        if (!n || l->role[k])
            continue;
        const int array = kept(l, n->in[0]);
        if (l->list >= 0 || variable(l, &l->body, n->in[3]) != k || array < 0 ||
            !is_counter(l, n->in[1]) || !is_float_array(l->g, l->start[array]) ||
            l->start[k].node != l->start[array].node || l->start[k].out != 1)
            return false;
        l->list = k;
        l->role[k] = ROLE_LIST;
        l->each = true;
    }
    return true;
}

/* The list that is written: TensorListSetItem(variable, counter or 0, new state). */
static bool find_list(struct pl_loop *l)
{
    l->list = -1;
    if (l->is_frame)
        return find_array(l);
    for (int k = 0; k < l->n; k++) {
        const struct pl_node *n = pl_op_node(&l->body, l->body.fetch[k], "TensorListSetItem", 3);
        int64_t first;
        if (!n || l->role[k])
            continue;
        if (l->list >= 0 || variable(l, &l->body, n->in[0]) != k ||
            l->body.node[k].kind != PL_FEED || !is_float_list(n) ||
            rt_attr_bool(n->def, "resize_if_index_out_of_bounds"))
            return false;
        l->each = is_counter(l, n->in[1]);
        if (!l->each && (!pl_int_constant(&l->body, n->in[1], &first) || first != 0))
            return false;
        l->list = k;
        l->role[k] = ROLE_LIST;
    }
    return true;
}

/*
 * What variable k becomes where a step is not masked: SelectV2(mask, *e, k). True too where there
 * is no mask. All masks of a loop are the same; Keras tiles each as often as the values are wide.
 */
static bool unmask(struct pl_loop *l, struct pl_edge *e, int k, int64_t units)
{
    const struct pl_node *n = pl_op_node(&l->body, *e, "SelectV2", 3);
    int64_t times[2];

    if (!n)
        return l->is_on.node < 0;
    if (variable(l, &l->body, n->in[2]) != k || l->body.node[k].kind != PL_FEED)
        return false;
    const struct pl_node *tile = pl_op_node(&l->body, n->in[0], "Tile", 2);
    if (tile && (!pl_ints_constant(&l->body, tile->in[1], 2, times) || times[0] != 1 ||
                 (times[1] != 1 && units && times[1] != units)))
        return false;
    const struct pl_edge on = tile ? tile->in[0] : n->in[0];
    if (l->is_on.node >= 0 && (on.node != l->is_on.node || on.out != l->is_on.out))
        return false;
    l->is_on = on;
    *e = n->in[1];
    return true;
}

/* What is written is the new state, or where a step is masked what was written before. */
static bool find_output(struct pl_loop *l, struct pl_edge h_new)
{
    const struct pl_node *write = &l->body.node[l->body.fetch[l->list].node];
    struct pl_edge item = write->in[2];

    if (l->is_on.node < 0)
        return pl_same(item, h_new);
    for (int k = 0; k < l->n; k++)
        if (!l->role[k] && pl_same(l->body.fetch[k], item)) {
            l->output = k;
            l->role[k] = ROLE_OUTPUT;
            return unmask(l, &item, k, l->cell.units) && item.node == h_new.node &&
                   item.out == h_new.out;
        }
    return false;
}

/* The variables of the state and the cell between them. */
static bool find_state(struct pl_loop *l)
{
    for (int k = 0; k < l->n; k++) {
        const struct pl_edge h = {k, 0};
        struct pl_edge e = l->body.fetch[k];
        l->is_on.node = -1;
        if (l->role[k] || l->body.node[k].kind != PL_FEED || !unmask(l, &e, k, 0) ||
            !pl_find_cell(&l->body, e, h, &l->cell))
            continue;
        l->h = k;
        l->role[k] = ROLE_H;
        struct pl_edge again = l->body.fetch[k];
        if (!unmask(l, &again, k, l->cell.units) || (l->list >= 0 && !find_output(l, e)))
            return false;
        if (l->cell.kind != PL_LSTM)
            return true;
        l->c = variable(l, &l->body, l->cell.c);
        if (l->c < 0 || l->role[l->c] || l->body.node[l->c].kind != PL_FEED)
            return false;
        struct pl_edge c = l->body.fetch[l->c];
        const bool masked = l->is_on.node >= 0;
        if (!unmask(l, &c, l->c, l->cell.units) || masked != (c.node != l->body.fetch[l->c].node) ||
            c.node != l->cell.c_new.node || c.out != l->cell.c_new.out)
            return false;
        l->role[l->c] = ROLE_C;
        return true;
    }
    return false;
}

/* Range(0, the length of `items`, 1): an array's every index. */
static bool is_every_index(const struct pl_graph *g, struct pl_edge e, struct pl_edge items)
{
    const struct pl_node *n = pl_op_node(g, e, "Range", 3);
    int64_t first, step;

    return n && n->n_ctrl == 0 && pl_int_constant(g, n->in[0], &first) && first == 0 &&
           pl_int_constant(g, n->in[2], &step) && step == 1 && pl_is_length(g, n->in[1], items);
}

/* x is the counter's element of a TensorArray that got a tensor's rows before the loop. */
static bool find_array_items(struct pl_loop *l)
{
    const struct pl_node *n = pl_op_node(&l->body, l->cell.x, "TensorArrayReadV3", 3);

    if (!n || !is_counter(l, n->in[1]))
        return false;
    const int array = kept(l, n->in[0]), flow = kept(l, n->in[2]);
    if (array < 0 || flow < 0 || !is_float_array(l->g, l->start[array]))
        return false;
    n = pl_op_node(l->g, l->start[flow], "TensorArrayScatterV3", 4);
    if (!n || n->n_ctrl || n->in[0].node != l->start[array].node || n->in[0].out != 0 ||
        n->in[3].node != l->start[array].node || n->in[3].out != 1 ||
        !is_every_index(l->g, n->in[1], n->in[2]))
        return false;
    l->items = n->in[2];
    l->arrays = l->start[array];
    return true;
}

/* `e` is the counter's element of a list that is made of a tensor, *items, before the loop. */
static bool list_items(const struct pl_loop *l, struct pl_edge e, enum rt_dtype dtype, int64_t cols,
                       struct pl_edge *items)
{
    const struct pl_node *n = pl_op_node(&l->body, e, "TensorListGetItem", 3);

    if (!n || rt_attr_dtype(n->def, "element_dtype") != dtype || !is_counter(l, n->in[1]) ||
        !is_free_shape(&l->body, n->in[2], cols))
        return false;
    const int k = kept(l, n->in[0]);
    n = k < 0 ? NULL : pl_op_node(l->g, l->start[k], "TensorListFromTensor", 2);
    if (!n || rt_attr_dtype(n->def, "element_dtype") != dtype || n->n_ctrl ||
        !is_free_shape(l->g, n->in[1], cols))
        return false;
    *items = n->in[0];
    return true;
}

static bool find_items(struct pl_loop *l)
{
    if (l->is_frame)
        return l->is_on.node < 0 && find_array_items(l);
    return list_items(l, l->cell.x, RT_F32, l->cell.depth, &l->items) &&
           (l->is_on.node < 0 || list_items(l, l->is_on, RT_BOOL, 1, &l->masks));
}

/* None, a constant, or a variable that stays as it is. */
static bool is_fixed(const struct pl_loop *l, struct pl_edge e)
{
    const int k = e.node < 0 ? -1 : variable(l, &l->body, e);

    return e.node < 0 || (k >= 0 ? l->role[k] == ROLE_KEPT : pl_is_constant(&l->body, e));
}

bool pl_loop_find(struct pl_loop *l)
{
    if (!is_pure(&l->body, l->is_frame) || l->body.n_fetches != l->n)
        return false;
    find_counters(l);
    if (!find_list(l) || !find_state(l) || !find_items(l))
        return false;
    for (int k = 0; k < l->n; k++)
        if (l->role[k] == ROLE_NONE)
            return false;
    const struct pl_cell *c = &l->cell;
    return is_fixed(l, c->w) && is_fixed(l, c->r) && is_fixed(l, c->r_new) &&
           is_fixed(l, c->bias) && is_fixed(l, c->r_bias);
}

/* ---- the condition ---- */

bool pl_loop_limits(struct pl_loop *l, const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *n = pl_op_node(g, e, "LogicalAnd", 2);

    if (n)
        return pl_loop_limits(l, g, n->in[0]) && pl_loop_limits(l, g, n->in[1]);
    n = pl_op_node(g, e, "Less", 2);
    if (!n || l->n_limits == 2 || !is_counter(l, n->in[0]))
        return false;
    const int k = variable(l, g, n->in[1]);
    int64_t v;
    if (k >= 0) {
        if (l->role[k] != ROLE_KEPT)
            return false;
        l->limit[l->n_limits++] = l->start[k];
        return true;
    }
    /* A constant of the condition's own becomes one of the plan. */
    struct rt_error err = {0};
    if (!pl_int_constant(g, n->in[1], &v) || v == INT64_MAX)
        return false;
    const int c = pl_add(l->g, &err);
    if (c < 0)
        return false;
    struct pl_node *own = &l->g->node[c];
    own->kind = PL_CONST;
    own->name = l->g->node[l->at].name;
    own->n_out = 1;
    rt_tensor_ref(&own->value, &g->node[n->in[1].node].value);
    l->limit[l->n_limits++] = (struct pl_edge){c, 0};
    return true;
}

/* ---- what stands around the loop ---- */

static bool is_turn(const struct pl_graph *g, const struct pl_node *n)
{
    int64_t perm[3];

    return pl_is(n, "Transpose") && n->n_in == 2 && n->n_ctrl == 0 &&
           pl_ints_constant(g, n->in[1], 3, perm) && perm[0] == 1 && perm[1] == 0 && perm[2] == 2;
}

/* Who reads the list that is written: TensorListStack alone. */
struct readers {
    bool turned;         /* all that reads the stack is a Transpose to [batch, time] */
    bool any;            /* there is a stack */
    unsigned char *mark; /* per node: */
};
enum { MARK_STACK = 1, MARK_TURN };

/* length: the list's, -1 when it is not a constant. */
static bool is_stack(const struct pl_loop *l, const struct pl_node *n, int64_t length)
{
    const int64_t want = pl_is(n, "TensorListStack") ? rt_attr_int(n->def, "num_elements") : 0;

    return pl_is(n, "TensorListStack") && is_float_list(n) && n->n_in == 2 && n->n_ctrl == 0 &&
           (want == -1 || want == length) && is_free_shape(l->g, n->in[1], l->cell.units);
}

/* Reads an output of the loop that the new node does not have. */
static bool is_foreign(const struct pl_loop *l, struct pl_edge e)
{
    return e.node == l->at && e.out != l->h && e.out != l->c;
}

static bool find_stacks(const struct pl_loop *l, int64_t length, struct readers *r)
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

static bool find_readers(const struct pl_loop *l, int64_t length, struct readers *r)
{
    const struct pl_graph *g = l->g;

    r->turned = true;
    if (!find_stacks(l, length, r))
        return false;
    for (int i = 0; i < g->n; i++) {
        const struct pl_node *n = &g->node[i];
        for (int k = 0; n->kind != PL_GONE && k < n->n_ctrl; k++)
            if (r->mark[n->ctrl[k]] == MARK_STACK)
                return false;
        for (int k = 0; n->kind != PL_GONE && k < n->n_in; k++)
            if (r->mark[n->in[k].node] == MARK_STACK) {
                r->turned = r->turned && k == 0 && is_turn(g, n);
                r->mark[i] = is_turn(g, n) ? MARK_TURN : 0;
            }
    }
    for (int k = 0; k < g->n_fetches; k++)
        if (r->mark[g->fetch[k].node] == MARK_STACK)
            r->turned = false;
    return true;
}

/* ---- the new node ---- */

/* An edge of the body as one of the plan: what a variable was given, or the same constant. */
static struct pl_edge outside(struct pl_loop *l, struct pl_edge e, struct rt_error *err)
{
    const int k = variable(l, &l->body, e);

    if (k >= 0)
        return l->start[k];
    const int c = pl_add(l->g, err);
    if (c < 0)
        return (struct pl_edge){-1, 0};
    struct pl_node *n = &l->g->node[c], *from = &l->body.node[e.node];
    n->kind = PL_CONST;
    n->frozen = from->frozen;
    n->def = from->frozen ? from->def : NULL;
    n->name = l->g->node[l->at].name;
    n->n_out = 1;
    rt_tensor_ref(&n->value, &from->value);
    return (struct pl_edge){c, 0};
}

static struct pl_edge constant(struct pl_loop *l, struct rt_tensor *t, struct rt_error *err)
{
    const int c = pl_add(l->g, err);

    if (c < 0) {
        rt_tensor_clear(t);
        return (struct pl_edge){-1, 0};
    }
    l->g->node[c].kind = PL_CONST;
    l->g->node[c].name = l->g->node[l->at].name;
    l->g->node[c].n_out = 1;
    l->g->node[c].value = *t;
    return (struct pl_edge){c, 0};
}

static struct pl_edge no_bias(struct pl_loop *l, int64_t n, struct rt_error *err)
{
    struct rt_tensor t = {0};

    if (rt_tensor_new(&t, NULL, RT_F32, 1, &n, err))
        return (struct pl_edge){-1, 0};
    memset(t.data, 0, rt_tensor_bytes(&t));
    return constant(l, &t, err);
}

/* An input that is not there: no steps are masked. */
static struct pl_edge nothing(struct pl_loop *l, enum rt_dtype dtype, struct rt_error *err)
{
    struct rt_tensor t = {0};

    if (rt_tensor_new(&t, NULL, dtype, 1, (int64_t[]){0}, err))
        return (struct pl_edge){-1, 0};
    return constant(l, &t, err);
}

/* The limit that says: as many as there are. */
struct pl_edge pl_no_limit(struct pl_loop *l, struct rt_error *err)
{
    struct rt_tensor t = {0};

    if (rt_tensor_new(&t, NULL, RT_I64, 0, NULL, err))
        return (struct pl_edge){-1, 0};
    *(int64_t *)t.data = INT64_MAX;
    return constant(l, &t, err);
}

static uint8_t dtype_of(const struct pl_loop *l, struct pl_edge e)
{
    const struct pl_node *n = &l->g->node[e.node];
    return n->kind == PL_CONST ? n->value.dtype : n->def->out_dtype[e.out];
}

enum rt_status pl_loop_put(struct pl_loop *l, const struct pl_loop_put *p, struct rt_error *err)
{
    const struct pl_cell *c = &l->cell;
    const bool is_lstm = c->kind == PL_LSTM;
    const int64_t cols = c->units * (is_lstm ? 4 : 3);
    char *order = rt_arena_printf(l->g->arena, "%s", c->order);
    struct pl_edge in[11];
    uint8_t in_dtype[11];
    int n = 0;

    if (!order)
        return rt_fail_memory(err, "a plan", 0);
    const struct rt_attr attr[] = {
        {.type = RT_ATTR_INT, .v.i = c->units},
        {.type = RT_ATTR_INT, .v.i = c->depth},
        {.type = RT_ATTR_INT, .v.i = c->x_row},
        {.type = RT_ATTR_INT, .v.i = c->h_row},
        {.type = RT_ATTR_STRING, .n = strlen(order), .v.s = order},
        {.type = RT_ATTR_BOOL, .v.b = p->by_time},
        {.type = RT_ATTR_BOOL, .v.b = p->y_by_time},
        {.type = RT_ATTR_INT, .v.i = p->keep},
        {.type = RT_ATTR_FLOAT, .v.f = c->forget_bias},
        {.type = RT_ATTR_BOOL, .v.b = c->kind == PL_GRU},
        {.type = RT_ATTR_BOOL, .v.b = p->is_read},
        {.type = RT_ATTR_BOOL, .v.b = l->is_on.node >= 0},
    };
    in[n++] = p->items;
    in[n++] = l->start[l->h];
    if (is_lstm)
        in[n++] = l->start[l->c];
    in[n++] = outside(l, c->w, err);
    in[n++] = outside(l, c->r, err);
    in[n++] = c->bias.node >= 0 ? outside(l, c->bias, err) : no_bias(l, cols, err);
    if (c->kind == PL_GRU)
        in[n++] = c->r_bias.node >= 0 ? outside(l, c->r_bias, err) : no_bias(l, cols, err);
    else if (c->kind == PL_GRU_BEFORE)
        in[n++] = outside(l, c->r_new, err);
    in[n++] = l->limit[0];
    in[n++] = l->limit[l->n_limits - 1];
    in[n++] = p->length;
    in[n++] = l->is_on.node >= 0 ? l->masks : nothing(l, RT_BOOL, err);
    in[n++] = l->output >= 0 ? l->start[l->output] : nothing(l, RT_F32, err);
    for (int k = 0; k < n; k++) {
        if (in[k].node < 0)
            return RT_RESOURCE_EXHAUSTED;
        in_dtype[k] = dtype_of(l, in[k]);
    }
    static const uint8_t out_dtype[3] = {RT_F32, RT_F32, RT_F32};
    return pl_make_own(l->g, l->at,
                       &(struct pl_own){.op = is_lstm ? "_LSTM" : "_GRU",
                                        .n_in = n,
                                        .n_out = is_lstm ? 3 : 2,
                                        .in = in,
                                        .in_dtype = in_dtype,
                                        .out_dtype = out_dtype,
                                        .attr = attr},
                       err);
}

/* An edge from the loop, or from what only hands its list on, comes from the new node. */
static struct pl_edge redirected(const struct pl_loop *l, const struct readers *r, struct pl_edge e)
{
    const int mark = e.node < 0 ? 0 : r->mark[e.node];

    if (mark == MARK_STACK || (mark == MARK_TURN && r->turned))
        return (struct pl_edge){l->at, 0};
    if (e.node == l->at)
        e.out = e.out == l->h ? 1 : 2;
    return e;
}

/* n: the nodes that there were before the new constants. */
static void rewire(const struct pl_loop *l, const struct readers *r, int n)
{
    struct pl_graph *g = l->g;

    for (int i = 0; i < n; i++) {
        const bool is_going = r->mark[i] == MARK_STACK || (r->mark[i] == MARK_TURN && r->turned);
        for (int k = 0; !is_going && i != l->at && k < g->node[i].n_in; k++)
            g->node[i].in[k] = redirected(l, r, g->node[i].in[k]);
    }
    for (int k = 0; k < g->n_fetches; k++)
        g->fetch[k] = redirected(l, r, g->fetch[k]);
    for (int i = 0; i < n; i++)
        if (r->mark[i] == MARK_STACK)
            g->node[i].kind = PL_GONE;
}

/* ---- the pass ---- */

/* The list that is written was made just for the loop; *length: how long, *n its value or -1. */
static bool find_length(const struct pl_loop *l, struct pl_edge *length, int64_t *n)
{
    const struct pl_node *list =
        l->list < 0 ? NULL : pl_op_node(l->g, l->start[l->list], "TensorListReserve", 2);

    if (!list || !is_float_list(list) || list->n_ctrl ||
        !is_free_shape(l->g, list->in[0], l->cell.units))
        return false;
    *length = list->in[1];
    if (!pl_int_constant(l->g, *length, n))
        *n = -1;
    return true;
}

static enum rt_status replace(struct pl_loop *l, struct pl_edge length, const struct readers *r,
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
    const bool by_batch = l->items.out == 0 && is_turn(l->g, from);
    const struct pl_loop_put p = {.items = by_batch ? from->in[0] : l->items,
                                  .length = length,
                                  .by_time = !by_batch,
                                  .y_by_time = !r->turned,
                                  .is_read = r->any,
                                  .keep = l->each ? PL_KEEP_EACH : PL_KEEP_LAST};
    const enum rt_status st = pl_loop_put(l, &p, err);
    if (!st)
        rewire(l, r, n);
    return st;
}

/* Looks at the loop of node `at`; one that is not understood is left as it is. */
static enum rt_status fuse(struct pl_graph *g, int at, struct rt_error *err)
{
    struct pl_loop l = {.g = g,
                        .at = at,
                        .n = g->node[at].n_in,
                        .h = -1,
                        .c = -1,
                        .list = -1,
                        .output = -1,
                        .is_on = {-1, 0}};
    struct pl_graph cond = {0};
    struct readers r = {0};
    struct pl_edge length;
    struct rt_error why = {0};
    enum rt_status st = RT_OK;
    int64_t n;

    if (l.n > PL_LOOP_VARIABLES || g->node[at].n_out != l.n ||
        pl_look_inside(g, at, rt_attr_func(g->node[at].def, "body"), true, &l.body, &why))
        return RT_OK;
    memcpy(l.start, g->node[at].in, (size_t)l.n * sizeof *l.start);
    if (!pl_loop_find(&l) ||
        pl_look_inside(g, at, rt_attr_func(g->node[at].def, "cond"), false, &cond, &why))
        goto end;
    if (cond.n_fetches != 1 || !is_pure(&cond, false) ||
        !pl_loop_limits(&l, &cond, cond.fetch[0]) || !find_length(&l, &length, &n))
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

enum rt_status pl_fuse_loops(struct pl_graph *g, struct rt_error *err)
{
    enum rt_status st = RT_OK;

    for (int i = 0, n = g->n; i < n && !st && g->depth < MAX_DEPTH; i++)
        if ((pl_is(&g->node[i], "While") || pl_is(&g->node[i], "StatelessWhile")) &&
            !g->node[i].call)
            st = fuse(g, i, err);
    return st;
}
