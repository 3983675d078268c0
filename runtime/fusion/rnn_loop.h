/*
 * Loops that are recurrent layers, between the passes that find them: fuse_rnn_while.c (While) and
 * fuse_rnn_frame.c (Enter, Merge, Switch, NextIteration, Exit). rnn_loop.c is what both have in
 * common: an iteration as a graph, and the new nodes. (Other loops: raise_loop.c.)
 *
 * Threads: that which makes the plan. Owner: a pl_rnn_loop is its pass's, which clears `body`
 * (pl_graph_clear); what is put into the plan is the plan's.
 */
#ifndef RT_RNN_LOOP_H
#define RT_RNN_LOOP_H

#include "runtime/fusion/cell.h"

enum { PL_RNN_LOOP_VARIABLES = 32, PL_RNN_LOOP_LAYERS = 8 };

/* What an iteration does with a loop variable. */
enum pl_rnn_role {
    ROLE_NONE,    /* nothing that is understood */
    ROLE_KEPT,    /* hands it on */
    ROLE_COUNTER, /* adds 1; it began at 0 */
    ROLE_LIST,    /* writes the new state into it */
    ROLE_STATE,   /* of a layer */
    ROLE_OUTPUT,  /* what was written last: a step that is masked may write it again */
};

/* A cell of the loop; the first reads the items, each other one what the one before it makes. */
struct pl_rnn_layer {
    struct pl_cell cell;
    int node;     /* that replaces it */
    int state[2]; /* variables: h, c; -1: none */
};

/* Which rows take a step. */
struct pl_rnn_mask {
    enum rt_rnn_mask kind;
    struct pl_edge on;     /* in the body: bools of the step; or how many steps each row takes */
    struct pl_edge rows;   /* in the plan: all steps' bools; the lengths */
    struct pl_edge before; /* in the body: what is written instead */
    bool holds;            /* that is the variable `output` */
};

struct pl_rnn_loop {
    struct pl_graph *g; /* of the loop; the new node is node `at` of it */
    int at, n;          /* n variables */
    bool is_frame;      /* reads and writes TensorArrays instead of lists */
    struct pl_edge start[PL_RNN_LOOP_VARIABLES]; /* what they are before the first step */
    struct pl_graph
        body; /* its first n nodes are the variables, its fetches what becomes of them */
    enum pl_rnn_role role[PL_RNN_LOOP_VARIABLES];
    struct pl_rnn_layer layer[PL_RNN_LOOP_LAYERS];
    int n_layers;
    int list;   /* the variable that is written; -1: none */
    int output; /* ROLE_OUTPUT's; -1: none */
    struct pl_rnn_mask mask;
    bool each;             /* at every step another element, not always the first */
    struct pl_edge items;  /* the tensor whose rows are read */
    struct pl_edge arrays; /* of a frame: the TensorArray that is read, before it is filled */
    struct pl_edge limit[2];
    int n_limits;
    int64_t x_rows, y_rows; /* how many rows elements that are read and written have; -1: any */
};

void pl_rnn_loop_init(struct pl_rnn_loop *l, struct pl_graph *g, int at);
/* Finds every variable's role, the layers and the items. False: not understood. */
bool pl_rnn_loop_find(struct pl_rnn_loop *l);
/* The loop's bounds in its condition `g`, whose first nodes are the variables too. */
bool pl_rnn_loop_limits(struct pl_rnn_loop *l, const struct pl_graph *g, struct pl_edge e);
/* How many steps the longest row takes: Max(lengths, [0]), of the lengths that mask the steps. */
bool pl_is_longest(const struct pl_rnn_loop *l, struct pl_edge e);
/* Lengths that mask steps, if there are any, bound them too. So they have one axis: of more, their
 * maximum would be no number, and the loop would have no end. */
bool pl_bounds_lengths(const struct pl_rnn_loop *l);
static inline const struct pl_cell *pl_first_cell(const struct pl_rnn_loop *l)
{
    return &l->layer[0].cell;
}
static inline const struct pl_cell *pl_last_cell(const struct pl_rnn_loop *l)
{
    return &l->layer[l->n_layers - 1].cell;
}
/* The edge of the new nodes that variable k leaves the loop with; node -1: none. */
struct pl_edge pl_rnn_loop_state(const struct pl_rnn_loop *l, int k);

/* Of a list's op: its elements are float32. */
static inline bool pl_is_float_list(const struct pl_node *n)
{
    return rt_attr_dtype(n->def, "element_dtype") == RT_F32;
}
/* Nothing in it does more than compute; what must run beside it is constant by now. */
bool pl_is_pure(const struct pl_graph *g, bool is_frame);
/* Whether `e` is the length of `items`: StridedSlice(Shape(items), [0], [1], [1]), one value. */
bool pl_is_length(const struct pl_graph *g, struct pl_edge e, struct pl_edge items);
/* Whether matrices of a partial shape (-1: any) may have `cols` columns; *rows, -1 at first, is how
 * many rows they must have: that is said of them only together with their columns. */
bool pl_takes_rows(int64_t given, int64_t cols_given, int64_t cols, int64_t *rows);
/* The same of a constant shape of a list's elements: unknown, or two numbers. */
bool pl_list_shape(const struct pl_graph *g, struct pl_edge e, int64_t cols, int64_t *rows);
struct pl_edge pl_no_limit(struct pl_rnn_loop *l, struct rt_error *err); /* node -1: no memory */

struct pl_rnn_loop_put {
    struct pl_edge items, length;
    bool by_time, y_by_time; /* [time, batch], not [batch, time] */
    bool is_read;            /* the list is; one that is not may still be too short */
    enum rt_rnn_keep keep;
};
/* Makes node l->at the last layer, and adds nodes for those before it. */
enum rt_status pl_rnn_loop_put(struct pl_rnn_loop *l, const struct pl_rnn_loop_put *p,
                               struct rt_error *err);

#endif
