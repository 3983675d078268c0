/* Finds the layers of a loop and the roles of the loop's variables, and adds the nodes that replace
 * the loop (rnn_loop.h). */
#include "runtime/fusion/rnn/rnn_loop.h"

#include <string.h>

/*
 * Returns the index of the loop variable that edge `e` of the body or condition `g` reads, or -1 if
 * it reads none.
 */
static int variable(const struct pl_rnn_loop *l, const struct pl_graph *g, struct pl_edge e)
{
    return e.node < l->n && e.out == 0 &&
                   (g->node[e.node].kind == PL_FEED || g->node[e.node].kind == PL_CONST)
               ? e.node
               : -1;
}

static bool is_counter(const struct pl_rnn_loop *l, struct pl_edge e)
{
    const int k = variable(l, &l->body, e);
    return k >= 0 && l->role[k] == ROLE_COUNTER;
}

void pl_rnn_loop_init(struct pl_rnn_loop *l, struct pl_graph *g, int at)
{
    *l = (struct pl_rnn_loop){.g = g,
                              .at = at,
                              .list = -1,
                              .output = -1,
                              .x_rows = -1,
                              .y_rows = -1,
                              .mask = {.before = {-1, 0}}};
}

/* ---- the body ---- */

/* Returns whether the node reads or writes a TensorArray. TensorFlow 1's loops use TensorArrays.
 * The matchers check the inputs of these nodes. */
static bool is_array_op(const struct pl_node *n)
{
    return pl_is(n, "TensorArrayReadV3") || pl_is(n, "TensorArrayWriteV3");
}

bool pl_is_pure(const struct pl_graph *g, bool is_frame)
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

static void find_counters(struct pl_rnn_loop *l)
{
    for (int k = 0; k < l->n; k++) {
        const struct pl_edge e = l->body.fetch[k];
        const struct pl_node *n = pl_sum_node(&l->body, e);
        int64_t one, start;
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

bool pl_takes_rows(int64_t given, int64_t cols_given, int64_t cols, int64_t *rows)
{
    if (given < 0)
        return cols_given < 0 || cols_given == cols;
    if (cols_given != cols || (*rows >= 0 && *rows != given))
        return false;
    *rows = given;
    return true;
}

bool pl_list_shape(const struct pl_graph *g, struct pl_edge e, int64_t cols, int64_t *rows)
{
    int64_t dim[2], all;

    if (pl_int_constant(g, e, &all))
        return all == -1;
    return pl_ints_constant(g, e, 2, dim) && dim[0] >= -1 && dim[1] >= -1 &&
           pl_takes_rows(dim[0], dim[1], cols, rows);
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

/*
 * Returns the index of the variable that e reads, or -1 if e reads none or the loop changes the
 * variable.
 */
static int kept(const struct pl_rnn_loop *l, struct pl_edge e)
{
    const int k = variable(l, &l->body, e);
    return k >= 0 && l->role[k] == ROLE_KEPT ? k : -1;
}

/* Returns whether e is a TensorArray of floats. Its elements may have any number of rows. */
static bool is_float_array(const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *n = pl_op_node(g, e, "TensorArrayV3", 1);
    return n && rt_attr_dtype(n->def, "dtype") == RT_F32 && n->n_ctrl == 0;
}

/* Finds the TensorArray that the loop writes with `TensorArrayWriteV3(handle, counter, new state,
 * variable)`, where `variable` is the TensorArray's flow. */
static bool find_array(struct pl_rnn_loop *l)
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

/* Finds the list that the loop writes with `TensorListSetItem(variable, index, state)`, where the
 * index is the counter or 0, and the state is the new state. */
static bool find_list(struct pl_rnn_loop *l)
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
            l->body.node[k].kind != PL_FEED || !pl_is_float_list(n) ||
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

/* Returns whether e is absent, a constant, or a variable that the loop passes on unchanged. */
static bool is_fixed(const struct pl_rnn_loop *l, struct pl_edge e)
{
    const int k = e.node < 0 ? -1 : variable(l, &l->body, e);

    return e.node < 0 || (k >= 0 ? l->role[k] == ROLE_KEPT : pl_is_constant(&l->body, e));
}

/* ---- masks ---- */

/* Returns whether the Tile node `tile` repeats a mask along the columns of the masked values, as
 * Keras does. */
static bool is_tile(const struct pl_rnn_loop *l, const struct pl_node *tile, int64_t units)
{
    int64_t times[2];

    return pl_ints_constant(&l->body, tile->in[1], 2, times) && times[0] == 1 &&
           (times[1] == 1 || units == 0 || times[1] == units);
}

/*
 * Returns whether e selects a new or an old value for each row, as `SelectV2(mask, *fresh, *old)`
 * or, in TensorFlow 1, as `Select(counter >= lengths, *old, *fresh)`. `units` is the required
 * number of columns, or 0 for any number.
 */
static bool mask_of(const struct pl_rnn_loop *l, struct pl_edge e, int64_t units,
                    struct pl_rnn_mask *mask, struct pl_edge *fresh, struct pl_edge *old)
{
    const struct pl_node *n = pl_op_node(&l->body, e, "SelectV2", 3);

    if (n) {
        const struct pl_node *tile = pl_op_node(&l->body, n->in[0], "Tile", 2);
        *mask = (struct pl_rnn_mask){.kind = RT_RNN_BY_STEP, .on = tile ? tile->in[0] : n->in[0]};
        *fresh = n->in[1];
        *old = n->in[2];
        return !tile || is_tile(l, tile, units);
    }
    n = pl_op_node(&l->body, e, "Select", 3);
    const struct pl_node *past = n ? pl_op_node(&l->body, n->in[0], "GreaterEqual", 2) : NULL;
    if (!past || !is_counter(l, past->in[0]) || kept(l, past->in[1]) < 0)
        return false;
    *mask = (struct pl_rnn_mask){.kind = RT_RNN_BY_LENGTH, .on = past->in[1]};
    *old = n->in[1];
    *fresh = n->in[2];
    return true;
}

/* Sets the loop's mask to the mask of the first variable that has a mask. */
static void find_mask(struct pl_rnn_loop *l)
{
    struct pl_edge fresh, old;

    for (int k = 0; k < l->n; k++)
        if (!l->role[k] && l->body.node[k].kind == PL_FEED &&
            mask_of(l, l->body.fetch[k], 0, &l->mask, &fresh, &old))
            return;
    l->mask.kind = RT_RNN_ALL;
}

/* Sets *fresh to the value of e in rows that are not masked, and *old to its value in masked rows.
 * Returns false if e does not use the loop's mask. If the loop has no mask, *old has node -1. */
static bool unmask(const struct pl_rnn_loop *l, struct pl_edge e, int64_t units,
                   struct pl_edge *fresh, struct pl_edge *old)
{
    struct pl_rnn_mask own;

    *fresh = e;
    *old = (struct pl_edge){-1, 0};
    return l->mask.kind == RT_RNN_ALL || (mask_of(l, e, units, &own, fresh, old) &&
                                          own.kind == l->mask.kind && pl_same(own.on, l->mask.on));
}

/* Returns whether the new value of variable k is `fresh` and, in masked rows, the old value of the
 * variable. */
static bool is_state(const struct pl_rnn_loop *l, int k, int64_t units, struct pl_edge fresh)
{
    struct pl_edge e, old;

    return k >= 0 && !l->role[k] && l->body.node[k].kind == PL_FEED &&
           unmask(l, l->body.fetch[k], units, &e, &old) && pl_same(e, fresh) &&
           (old.node < 0 || variable(l, &l->body, old) == k);
}

/* ---- layers ---- */

/* Finds the cell that computes the new state of variable k, and the variables that hold the state
 * of the cell. */
static bool find_layer(struct pl_rnn_loop *l, int k, struct pl_rnn_layer *y)
{
    struct pl_edge fresh, old;

    if (l->role[k] || l->body.node[k].kind != PL_FEED ||
        !unmask(l, l->body.fetch[k], 0, &fresh, &old) ||
        !pl_find_cell(&l->body, fresh, (struct pl_edge){k, 0}, &y->cell))
        return false;
    const struct pl_cell *c = &y->cell;
    y->state[0] = k;
    y->state[1] = -1;
    if (c->kind->n_states > 1) {
        y->state[1] = variable(l, &l->body, c->in[RT_RNN_C]);
        if (y->state[1] == k || !is_state(l, y->state[1], c->units, c->made[1]))
            return false;
        l->role[y->state[1]] = ROLE_STATE;
    }
    if (!is_state(l, k, c->width, c->made[0]))
        return false;
    l->role[k] = ROLE_STATE;
    return true;
}

/* Sorts the layers so that each layer reads the output of the layer before it. Returns false if no
 * such order exists. */
static bool sort_layers(struct pl_rnn_loop *l)
{
    for (int at = 0; at < l->n_layers; at++) {
        int next = -1;
        for (int i = at; i < l->n_layers; i++) {
            bool reads =
                at > 0 && pl_same(l->layer[i].cell.in[RT_RNN_X], l->layer[at - 1].cell.made[0]);
            if (at == 0) {
                reads = true;
                for (int j = 0; j < l->n_layers; j++)
                    reads =
                        reads && !pl_same(l->layer[i].cell.in[RT_RNN_X], l->layer[j].cell.made[0]);
            }
            if (reads && next >= 0)
                return false;
            next = reads ? i : next;
        }
        if (next < 0 || (at > 0 && l->layer[next].cell.depth != l->layer[at - 1].cell.width))
            return false;
        const struct pl_rnn_layer y = l->layer[at];
        l->layer[at] = l->layer[next];
        l->layer[next] = y;
    }
    return true;
}

static bool is_zeros(const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *n = pl_op_node(g, e, "Fill", 2);
    const struct rt_tensor *t = pl_constant(g, e);
    float v;

    if (n)
        return pl_float_constant(g, n->in[1], &v) && v == 0;
    if (!t || t->dtype != RT_F32 || !t->data || rt_tensor_is_lazy(t))
        return false;
    for (int64_t i = 0; i < rt_tensor_count(t); i++)
        if (((const float *)t->data)[i] != 0)
            return false;
    return true;
}

/* Checks that the loop writes the last layer's new state. In masked rows, the loop must write the
 * previously written value or a value that the loop does not change. */
static bool find_output(struct pl_rnn_loop *l)
{
    const struct pl_edge item = l->body.node[l->body.fetch[l->list].node].in[2];
    const struct pl_cell *c = pl_last_cell(l);
    struct pl_edge fresh, old;

    if (!unmask(l, item, c->width, &fresh, &old) || !pl_same(fresh, c->made[0]))
        return false;
    /* Keras passes the last written value to the next iteration even if no node reads it. */
    for (int k = 0; k < l->n; k++)
        if (!l->role[k] && l->body.node[k].kind == PL_FEED && pl_same(l->body.fetch[k], item)) {
            l->output = k;
            l->role[k] = ROLE_OUTPUT;
            break;
        }
    if (l->mask.kind == RT_RNN_ALL)
        return true;
    l->mask.before = old;
    const int k = variable(l, &l->body, old);
    l->mask.holds = l->output >= 0 && k == l->output;
    if (l->mask.kind == RT_RNN_BY_LENGTH)
        return kept(l, old) >= 0 && is_zeros(l->g, l->start[kept(l, old)]);
    return l->mask.holds || is_fixed(l, old);
}

static bool find_layers(struct pl_rnn_loop *l)
{
    find_mask(l);
    for (int k = 0; k < l->n; k++) {
        if (!find_layer(l, k, &l->layer[l->n_layers]))
            continue;
        if (++l->n_layers == PL_RNN_LOOP_LAYERS)
            return false;
    }
    return l->n_layers > 0 && sort_layers(l) && find_output(l);
}

/* ---- items ---- */

/* Returns whether e is `Range(0, length, 1)`, where `length` is the length of `items`. e then
 * contains the index of every item. */
static bool is_every_index(const struct pl_graph *g, struct pl_edge e, struct pl_edge items)
{
    const struct pl_node *n = pl_op_node(g, e, "Range", 3);
    int64_t first, step;

    return n && n->n_ctrl == 0 && pl_int_constant(g, n->in[0], &first) && first == 0 &&
           pl_int_constant(g, n->in[2], &step) && step == 1 && pl_is_length(g, n->in[1], items);
}

/* Returns whether the first layer reads element `counter` of a TensorArray that was filled with the
 * rows of a tensor before the loop. Sets l->items to this tensor. */
static bool find_array_items(struct pl_rnn_loop *l)
{
    const struct pl_node *n =
        pl_op_node(&l->body, pl_first_cell(l)->in[RT_RNN_X], "TensorArrayReadV3", 3);

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

/* Returns whether `e` is element `counter` of a list that was made from a tensor, *items, before
 * the loop. */
static bool list_items(const struct pl_rnn_loop *l, struct pl_edge e, enum rt_dtype dtype,
                       int64_t cols, struct pl_edge *items, int64_t *rows)
{
    const struct pl_node *n = pl_op_node(&l->body, e, "TensorListGetItem", 3);

    /* The element shape matters only for elements without a value. This list has none. */
    if (!n || rt_attr_dtype(n->def, "element_dtype") != dtype || !is_counter(l, n->in[1]) ||
        !pl_is_constant(&l->body, n->in[2]))
        return false;
    const int k = kept(l, n->in[0]);
    n = k < 0 ? NULL : pl_op_node(l->g, l->start[k], "TensorListFromTensor", 2);
    if (!n || rt_attr_dtype(n->def, "element_dtype") != dtype || n->n_ctrl ||
        !pl_list_shape(l->g, n->in[1], cols, rows))
        return false;
    *items = n->in[0];
    return true;
}

static bool find_items(struct pl_rnn_loop *l)
{
    const struct pl_cell *c = pl_first_cell(l);
    int64_t mask_rows = -1;

    if (l->mask.kind == RT_RNN_BY_LENGTH)
        l->mask.rows = l->start[kept(l, l->mask.on)];
    if (l->is_frame)
        return l->mask.kind != RT_RNN_BY_STEP && find_array_items(l);
    if (!list_items(l, c->in[RT_RNN_X], RT_F32, c->depth, &l->items, &l->x_rows))
        return false;
    return l->mask.kind != RT_RNN_BY_STEP ||
           (list_items(l, l->mask.on, RT_BOOL, 1, &l->mask.rows, &mask_rows) &&
            mask_rows == l->x_rows);
}

/* Returns how many gates have columns in the given input of _RNN. */
static int n_columns(const struct pl_cell *c, int input)
{
    const bool is_early = input == RT_RNN_R || input == RT_RNN_R_BIAS;
    return c->kind->n_gates - (is_early ? c->kind->n_reset_before : 0);
}

/* Returns whether the weights and biases of all gates are in memory, so that they can be
 * concatenated. All gates or no gate must have a bias. */
static bool is_loaded(const struct pl_rnn_loop *l, const struct pl_cell *c)
{
    for (int k = 0; k < PL_BY_GATE; k++)
        for (int g = 0; g < n_columns(c, RT_RNN_W + k); g++) {
            const bool is_bias = k >= RT_RNN_BIAS - RT_RNN_W;
            const struct pl_edge e = c->gate[k][g];
            if (is_bias && (e.node < 0) != (c->gate[k][0].node < 0))
                return false;
            if (is_bias && e.node < 0)
                continue;
            const struct rt_tensor *t = pl_constant(&l->body, e);
            if (!t || !t->data || rt_tensor_is_lazy(t))
                return false;
        }
    return true;
}

bool pl_rnn_loop_find(struct pl_rnn_loop *l)
{
    if (!pl_is_pure(&l->body, l->is_frame) || l->body.n_fetches != l->n)
        return false;
    find_counters(l);
    if (!find_list(l) || l->list < 0 || !find_layers(l) || !find_items(l))
        return false;
    for (int k = 0; k < l->n; k++)
        if (l->role[k] == ROLE_NONE)
            return false;
    for (int i = 0; i < l->n_layers; i++) {
        if (l->layer[i].cell.by_gate && !is_loaded(l, &l->layer[i].cell))
            return false;
        for (int k = RT_RNN_W; k < RT_RNN_LIMIT; k++)
            if (!is_fixed(l, l->layer[i].cell.in[k]))
                return false;
    }
    return true;
}

/* ---- the condition ---- */

/* Adds a limit of the counter if `e` is `counter < limit`. */
static bool add_limit(struct pl_rnn_loop *l, const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *n = pl_op_node(g, e, "Less", 2);

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
    /* Constants of the condition become constants of the plan. */
    struct rt_error err = {0};
    if (!pl_int_constant(g, n->in[1], &v) || v == INT64_MAX)
        return false;
    struct rt_tensor value;
    rt_tensor_ref(&value, &g->node[n->in[1].node].value);
    const struct pl_edge own = pl_add_constant(l->g, l->at, &value, &err);
    if (own.node < 0)
        return false;
    l->limit[l->n_limits++] = own;
    return true;
}

/* Because the condition has at most two limits, it has at most one LogicalAnd. */
bool pl_rnn_loop_limits(struct pl_rnn_loop *l, const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *both = pl_op_node(g, e, "LogicalAnd", 2);

    return both ? add_limit(l, g, both->in[0]) && add_limit(l, g, both->in[1]) : add_limit(l, g, e);
}

bool pl_is_longest(const struct pl_rnn_loop *l, struct pl_edge e)
{
    const struct pl_node *n = pl_made_by(l->g, e, "Max", 2);
    int64_t axis;

    return n && l->mask.kind == RT_RNN_BY_LENGTH &&
           pl_same(pl_pure_origin(l->g, n->in[0]), pl_pure_origin(l->g, l->mask.rows)) &&
           pl_ints_constant(l->g, n->in[1], 1, &axis) && axis == 0 &&
           !rt_attr_bool(n->def, "keep_dims");
}

bool pl_bounds_lengths(const struct pl_rnn_loop *l)
{
    if (l->mask.kind != RT_RNN_BY_LENGTH)
        return true;
    for (int i = 0; i < l->n_limits; i++) {
        const struct pl_node *least = pl_made_by(l->g, l->limit[i], "Minimum", 2);
        for (int k = 0; k < 2 && least; k++) {
            const struct pl_node *most = pl_made_by(l->g, least->in[k], "Maximum", 2);
            if (most && (pl_is_longest(l, most->in[0]) || pl_is_longest(l, most->in[1])))
                return true;
        }
    }
    return false;
}

/* ---- the new nodes ---- */

struct pl_edge pl_rnn_loop_state(const struct pl_rnn_loop *l, int k)
{
    for (int i = 0; i < l->n_layers; i++)
        for (int j = 0; j < 2; j++)
            if (l->layer[i].state[j] == k && k >= 0)
                return (struct pl_edge){l->layer[i].node, 1 + j};
    return (struct pl_edge){-1, 0};
}

/* Translates an edge of the body into an edge of the plan. The edge of the plan carries the initial
 * value of a loop variable or a copy of a constant of the body. */
static struct pl_edge outside(struct pl_rnn_loop *l, struct pl_edge e, struct rt_error *err)
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
    /* Copies the name, because the body's arena is freed with the body. */
    n->name = from->name ? rt_arena_printf(l->g->arena, "%s", from->name) : NULL;
    n->n_out = 1;
    rt_tensor_ref(&n->value, &from->value);
    return (struct pl_edge){c, 0};
}

static struct pl_edge nothing(struct pl_rnn_loop *l, enum rt_dtype dtype, struct rt_error *err)
{
    struct rt_tensor t = {0};

    if (rt_tensor_new(&t, NULL, dtype, 1, (int64_t[]){0}, err))
        return (struct pl_edge){-1, 0};
    return pl_add_constant(l->g, l->at, &t, err);
}

struct pl_edge pl_no_limit(struct pl_rnn_loop *l, struct rt_error *err)
{
    struct rt_tensor t = {0};

    if (rt_tensor_new(&t, NULL, RT_I64, 0, NULL, err))
        return (struct pl_edge){-1, 0};
    *(int64_t *)t.data = INT64_MAX;
    return pl_add_constant(l->g, l->at, &t, err);
}

/* Concatenates the gates' separate matrices or vectors into one, with the columns of all gates. */
static struct pl_edge side_by_side(struct pl_rnn_loop *l, const struct pl_cell *c, int input,
                                   struct rt_error *err)
{
    const struct pl_edge *gate = c->gate[input - RT_RNN_W];
    const int n = n_columns(c, input);
    struct rt_tensor t = {0};

    if (gate[0].node < 0)
        return nothing(l, RT_F32, err);
    const struct rt_tensor *first = &l->body.node[gate[0].node].value;
    int64_t dim[2] = {first->dim[0], c->units * n};
    if (first->rank == 1)
        dim[0] = dim[1];
    if (rt_tensor_new(&t, NULL, RT_F32, first->rank, dim, err))
        return (struct pl_edge){-1, 0};
    const int64_t rows = first->rank == 1 ? 1 : dim[0];
    for (int g = 0; g < n; g++) {
        const float *from = l->body.node[gate[g].node].value.data;
        for (int64_t i = 0; i < rows; i++)
            memcpy((float *)t.data + (i * n + g) * c->units, from + i * c->units,
                   (size_t)c->units * sizeof *from);
    }
    return pl_add_constant(l->g, l->at, &t, err);
}

/* Turns node `y->node` into the _RNN of layer i. The _RNN reads `p->items`. */
static enum rt_status put_layer(struct pl_rnn_loop *l, int i, const struct pl_rnn_loop_put *p,
                                enum rt_rnn_read read, struct rt_error *err)
{
    const struct pl_rnn_layer *y = &l->layer[i];
    const struct pl_cell *c = &y->cell;
    const bool masks_output = l->mask.kind != RT_RNN_ALL && i == l->n_layers - 1;
    struct pl_edge in[RT_RNN_N_IN];
    const struct rt_rnn rnn = {
        .cell = c->kind->id,
        .gate_activation = c->gate_act,
        .activation = c->act,
        .units = c->units,
        .width = c->width,
        .clip = c->clip,
        .depth = c->depth,
        .x_rows = i == 0 ? l->x_rows : -1,
        .x_listed = !l->is_frame,
        .y_rows = i == l->n_layers - 1 ? l->y_rows : -1,
        .x_row = c->x_row,
        .h_row = c->h_row,
        .order = pl_keep_text(l->g, c->order, err),
        .forget_bias = c->forget_bias,
        .x_by_time = p->by_time,
        .y_by_time = p->y_by_time,
        .keep = p->keep,
        .read = read,
        .masked = l->mask.kind,
        .holds = masks_output && l->mask.holds,
    };

    if (!rnn.order)
        return RT_RESOURCE_EXHAUSTED;
    for (int k = 0; k < RT_RNN_LIMIT; k++)
        in[k] = k >= RT_RNN_W && c->in[k].node >= 0 ? outside(l, c->in[k], err)
                                                    : (struct pl_edge){-2, 0};
    for (int k = 0; k < PL_BY_GATE && c->by_gate; k++)
        in[RT_RNN_W + k] = side_by_side(l, c, RT_RNN_W + k, err);
    in[RT_RNN_X] = p->items;
    in[RT_RNN_H] = l->start[y->state[0]];
    if (y->state[1] >= 0)
        in[RT_RNN_C] = l->start[y->state[1]];
    in[RT_RNN_LIMIT] = l->limit[0];
    in[RT_RNN_LIMIT_TOO] = l->limit[l->n_limits - 1];
    in[RT_RNN_LENGTH] = p->length;
    in[RT_RNN_MASK] = l->mask.kind != RT_RNN_ALL ? l->mask.rows : nothing(l, RT_BOOL, err);
    in[RT_RNN_BEFORE] = masks_output ? outside(l, l->mask.before, err) : (struct pl_edge){-2, 0};
    for (int k = 0; k < RT_RNN_N_IN; k++) {
        if (in[k].node == -2)
            in[k] = nothing(l, RT_F32, err);
        if (in[k].node < 0)
            return RT_RESOURCE_EXHAUSTED;
    }
    return pl_put_fused(l->g, &y->node, 1, rt_rnn_op(&rnn), in, RT_RNN_N_IN, err);
}

enum rt_status pl_rnn_loop_put(struct pl_rnn_loop *l, const struct pl_rnn_loop_put *p,
                               struct rt_error *err)
{
    const int last = l->n_layers - 1;
    struct pl_rnn_loop_put q = *p;
    enum rt_status st = RT_OK;

    for (int i = 0; i < last && !st; i++) {
        l->layer[i].node = pl_add_like(l->g, l->at, err);
        q.length = pl_no_limit(l, err);
        if (l->layer[i].node < 0 || q.length.node < 0)
            return RT_RESOURCE_EXHAUSTED;
        q.keep = RT_RNN_KEEP_EACH;
        q.y_by_time = true;
        st = put_layer(l, i, &q, RT_RNN_INNER, err);
        q.items = (struct pl_edge){l->layer[i].node, 0};
        q.by_time = true;
    }
    l->layer[last].node = l->at;
    q.keep = p->keep;
    q.length = p->length;
    q.y_by_time = p->y_by_time;
    return st ? st : put_layer(l, last, &q, p->is_read ? RT_RNN_READ : RT_RNN_UNREAD, err);
}
