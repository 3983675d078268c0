/*
 * Loops that are recurrent layers. fuse_rnn_while.c (While) and fuse_rnn_frame.c (Enter, Merge,
 * Switch, NextIteration, Exit) find them; rnn_loop.c has what both passes share: an iteration as a
 * graph, and the new nodes. (Other loops: passes/functionalise_loop.c.)
 *
 * Threads: only the thread that makes the plan. Owner: a pl_rnn_loop belongs to its pass, which
 * clears `body` (pl_graph_clear); nodes that are put into the plan's graph belong to it.
 */
#ifndef RT_RNN_LOOP_H
#define RT_RNN_LOOP_H

#include "runtime/fusion/cell.h"

enum { PL_RNN_LOOP_VARIABLES = 32, PL_RNN_LOOP_LAYERS = 8 };

/* What an iteration does with a loop variable. */
enum pl_rnn_role {
    ROLE_NONE,    /* the role is unknown; the loop is left alone */
    ROLE_KEPT,    /* passes it on unchanged */
    ROLE_COUNTER, /* adds 1, starting from 0 */
    ROLE_LIST,    /* writes the new state into it */
    ROLE_STATE,   /* replaces the state of a layer */
    ROLE_OUTPUT,  /* replaces the value written last, which a masked step may write again */
};

/* A cell of the loop. The first layer reads the items, each other layer the output of the layer
 * before it. */
struct pl_rnn_layer {
    struct pl_cell cell;
    int node;     /* the node that replaces the layer */
    int state[2]; /* the variables of h and c; -1: none */
};

/* The mask: which rows take a step. */
struct pl_rnn_mask {
    enum rt_rnn_mask kind;
    struct pl_edge on;     /* in the body: bools of the step, or the number of steps of each row */
    struct pl_edge rows;   /* in the plan: the bools of all steps, or the lengths */
    struct pl_edge before; /* in the body: the value that a masked row writes */
    bool holds;            /* `before` is the variable `output` */
};

struct pl_rnn_loop {
    struct pl_graph *g; /* the graph of the loop; the last layer becomes its node `at` */
    int at, n;          /* n: number of variables */
    bool is_frame;      /* reads and writes TensorArrays instead of lists */
    struct pl_edge start[PL_RNN_LOOP_VARIABLES]; /* the variables before the first step */
    struct pl_graph body; /* the first n nodes are the variables, the fetches their new values */
    enum pl_rnn_role role[PL_RNN_LOOP_VARIABLES];
    struct pl_rnn_layer layer[PL_RNN_LOOP_LAYERS];
    int n_layers;
    int list;   /* the variable of the list that is written; -1: none */
    int output; /* the variable of ROLE_OUTPUT; -1: none */
    struct pl_rnn_mask mask;
    bool each;             /* each step writes an element of its own, not always the first */
    struct pl_edge items;  /* the tensor whose rows are read */
    struct pl_edge arrays; /* for a frame: the TensorArray that is read, before it is filled */
    struct pl_edge limit[2];
    int n_limits;
    /* Number of rows that the elements read and written must have; -1: any. */
    int64_t x_rows, y_rows;
};

void pl_rnn_loop_init(struct pl_rnn_loop *l, struct pl_graph *g, int at);
/* Finds the roles of all variables, the layers and the items. Returns false for a loop that is not
 * a stack of recurrent layers. */
bool pl_rnn_loop_find(struct pl_rnn_loop *l);
/* Finds the limits of the counter in the loop's condition `g`, whose first nodes are the variables
 * too. */
bool pl_rnn_loop_limits(struct pl_rnn_loop *l, const struct pl_graph *g, struct pl_edge e);
/* True if e is the number of steps of the longest row: Max(lengths, [0]) of the lengths that mask
 * the steps. */
bool pl_is_longest(const struct pl_rnn_loop *l, struct pl_edge e);
/* True unless lengths mask the steps without limiting their number too. A limit implies that the
 * lengths have one axis: with more axes their maximum would be no scalar, and the loop would not
 * end. */
bool pl_bounds_lengths(const struct pl_rnn_loop *l);
static inline const struct pl_cell *pl_first_cell(const struct pl_rnn_loop *l)
{
    return &l->layer[0].cell;
}
static inline const struct pl_cell *pl_last_cell(const struct pl_rnn_loop *l)
{
    return &l->layer[l->n_layers - 1].cell;
}
/* The output of the new nodes that replaces the final value of variable k; node -1: none. */
struct pl_edge pl_rnn_loop_state(const struct pl_rnn_loop *l, int k);

/* The elements of the list of this op are float32. */
static inline bool pl_is_float_list(const struct pl_node *n)
{
    return rt_attr_dtype(n->def, "element_dtype") == RT_F32;
}
/* True if no node of the graph has an effect. Targets must be constants by now. */
bool pl_is_pure(const struct pl_graph *g, bool is_frame);
/* True if `e` is the length of `items`: StridedSlice(Shape(items), [0], [1], [1]), one value. */
bool pl_is_length(const struct pl_graph *g, struct pl_edge e, struct pl_edge items);
/* True if matrices of a partial shape (-1: any) may have `cols` columns. *rows, -1 at first, is set
 * to the number of rows that they must have; a shape gives it only together with the columns. */
bool pl_takes_rows(int64_t given, int64_t cols_given, int64_t cols, int64_t *rows);
/* As pl_takes_rows for a constant shape of a list's elements: unknown, or two numbers. */
bool pl_list_shape(const struct pl_graph *g, struct pl_edge e, int64_t cols, int64_t *rows);
/* Node -1: out of memory. */
struct pl_edge pl_no_limit(struct pl_rnn_loop *l, struct rt_error *err);

struct pl_rnn_loop_put {
    struct pl_edge items, length;
    bool by_time, y_by_time; /* [time, batch], not [batch, time] */
    bool is_read;            /* the list is read; a list that is not read may still be too short */
    enum rt_rnn_keep keep;
};
/* Makes node l->at the last layer, and adds nodes for the layers before it. */
enum rt_status pl_rnn_loop_put(struct pl_rnn_loop *l, const struct pl_rnn_loop_put *p,
                               struct rt_error *err);

#endif
