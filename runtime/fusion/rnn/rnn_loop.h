/*
 * Loops that are recurrent layers. fuse_rnn_while.c finds them in While nodes, and fuse_rnn_frame.c
 * in frames (Enter, Merge, Switch, NextIteration, Exit). rnn_loop.c has the functions that both
 * passes share. The passes match one iteration as a graph and add the nodes that replace the loop.
 * passes/functionalise_loop.c handles all other frames.
 *
 * Threads: only the thread that makes the plan. Owner: a pl_rnn_loop belongs to its pass, which
 * clears `body` (pl_graph_clear); nodes that a pass adds to the plan's graph belong to that graph.
 */
#ifndef RT_RNN_LOOP_H
#define RT_RNN_LOOP_H

#include "runtime/fusion/rnn/cell.h"

enum { PL_RNN_LOOP_VARIABLES = 32, PL_RNN_LOOP_LAYERS = 8 };

/* What an iteration does with a loop variable. */
enum pl_rnn_role {
    ROLE_NONE,    /* the role is unknown, so the loop is left unchanged */
    ROLE_KEPT,    /* each iteration passes the variable on unchanged */
    ROLE_COUNTER, /* the variable starts at 0 and is incremented by 1 */
    ROLE_LIST,    /* the variable is a list to which the new state is written */
    ROLE_STATE,   /* the variable is the state of a layer */
    ROLE_OUTPUT,  /* the variable is the previous output, which a masked step may write again */
};

/* A layer of the loop. The first layer reads the items. Every other layer reads the output of the
 * layer before it. */
struct pl_rnn_layer {
    struct pl_cell cell;
    int node;
    int state[2]; /* indexes of the variables for h and c; -1 for a state that the cell lacks */
};

/* Selects the rows that take a step. */
struct pl_rnn_mask {
    enum rt_rnn_mask kind;
    /* mask in the body: the bools of the current step, or the number of steps of each row */
    struct pl_edge on;
    /* mask in the plan: the bools of all steps, or the number of steps of each row */
    struct pl_edge rows;
    struct pl_edge before; /* edge in the body with the value that masked rows write */
    bool holds;            /* whether `before` is the loop variable pl_rnn_loop.output */
};

struct pl_rnn_loop {
    /* Graph that contains the loop. The last layer replaces node `at` of this graph. */
    struct pl_graph *g;
    int at, n;     /* `n` is the number of loop variables */
    bool is_frame; /* whether the loop reads and writes TensorArrays instead of lists */
    /* Values of the loop variables before the first step. */
    struct pl_edge start[PL_RNN_LOOP_VARIABLES];
    /* The first `n` nodes are the loop variables, and the fetches are their new values. */
    struct pl_graph body;
    enum pl_rnn_role role[PL_RNN_LOOP_VARIABLES];
    struct pl_rnn_layer layer[PL_RNN_LOOP_LAYERS];
    int n_layers;
    int list;   /* index of the variable with ROLE_LIST, or -1 */
    int output; /* index of the variable with ROLE_OUTPUT, or -1 */
    struct pl_rnn_mask mask;
    /* True if step t writes element t of the list, false if every step writes element 0. */
    bool each;
    struct pl_edge items; /* tensor whose rows the loop reads as items */
    /* In a frame, the handle of the TensorArray that the loop reads. */
    struct pl_edge arrays;
    struct pl_edge limit[2];
    int n_limits;
    /* Number of rows that each element must have: x_rows for the list that the loop reads, y_rows
     * for the list that it writes. -1 allows any number. */
    int64_t x_rows, y_rows;
};

void pl_rnn_loop_init(struct pl_rnn_loop *l, struct pl_graph *g, int at);
/* Finds the roles of all variables, the layers and the items. Returns false for a loop that is not
 * a stack of recurrent layers. */
bool pl_rnn_loop_find(struct pl_rnn_loop *l);
/* Finds the limits of the counter in `e`, the loop's condition. `e` is an edge of `g`, whose first
 * nodes are the loop variables. */
bool pl_rnn_loop_limits(struct pl_rnn_loop *l, const struct pl_graph *g, struct pl_edge e);
/* Returns whether the mask is RT_RNN_BY_LENGTH and e is the number of steps of the longest row,
 * `Max(lengths, [0])`. */
bool pl_is_longest(const struct pl_rnn_loop *l, struct pl_edge e);
/* Returns whether a limit of the loop has the form `Minimum(n, Maximum(k, longest))`, where
 * `longest` is the number of steps of the longest row (pl_is_longest). A limit is a scalar, so this
 * form shows that the lengths have one axis. Returns true for masks other than RT_RNN_BY_LENGTH. */
bool pl_bounds_lengths(const struct pl_rnn_loop *l);
static inline const struct pl_cell *pl_first_cell(const struct pl_rnn_loop *l)
{
    return &l->layer[0].cell;
}
static inline const struct pl_cell *pl_last_cell(const struct pl_rnn_loop *l)
{
    return &l->layer[l->n_layers - 1].cell;
}
/* Returns the edge that replaces the final value of variable k: an output of a new node, or {-1, 0}
 * if the variable is not the state of a layer. */
struct pl_edge pl_rnn_loop_state(const struct pl_rnn_loop *l, int k);

/* Returns whether the elements of the list that node `n` makes, reads or writes are float32. */
static inline bool pl_is_float_list(const struct pl_node *n)
{
    return rt_attr_dtype(n->def, "element_dtype") == RT_F32;
}
/* Returns whether no node of the graph has an effect or a control input, and every target is a
 * constant or a NoOp. If is_frame is true, nodes may also read and write TensorArrays. */
bool pl_is_pure(const struct pl_graph *g, bool is_frame);
/* Returns whether `e` is the length of `items` as a scalar, `StridedSlice(Shape(items), [0], [1],
 * [1])`. */
bool pl_is_length(const struct pl_graph *g, struct pl_edge e, struct pl_edge items);
/* Returns whether a matrix with *rows rows and `cols` columns may have the shape
 * [given, cols_given]. A number of -1 is unknown. If `given` is known, `cols_given` must equal
 * `cols`, and *rows is set to `given`. */
bool pl_takes_rows(int64_t given, int64_t cols_given, int64_t cols, int64_t *rows);
/* Returns whether the constant `e`, as the element shape of a list, allows matrices with `cols`
 * columns. `e` must be -1, which allows any matrix, or a shape that pl_takes_rows accepts. */
bool pl_list_shape(const struct pl_graph *g, struct pl_edge e, int64_t cols, int64_t *rows);
/* Adds the constant INT64_MAX. As a limit or a length, it stands for the number of items. The
 * result's node is -1 if memory runs out. */
struct pl_edge pl_no_limit(struct pl_rnn_loop *l, struct rt_error *err);

struct pl_rnn_loop_put {
    struct pl_edge items, length;
    /* whether x and y are [time, batch, ..] instead of [batch, time, ..] */
    bool by_time, y_by_time;
    /* Whether some node reads the written list. Even if none does, the loop fails if the list is
     * too short. */
    bool is_read;
    enum rt_rnn_keep keep;
};
/* Makes node l->at the last layer, and adds nodes for the layers before it. */
enum rt_status pl_rnn_loop_put(struct pl_rnn_loop *l, const struct pl_rnn_loop_put *p,
                               struct rt_error *err);

#endif
