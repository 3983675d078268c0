/*
 * Recurrent cells in a graph: the nodes that make a new state of an input and the old state, as
 * Keras and TensorFlow 1 write them. recurrent.h has the table of cells; each has a matcher in
 * cell_*.c. Says what it has found; whether the edges are what a loop must have there is for the
 * caller to check.
 */
#ifndef RT_CELL_H
#define RT_CELL_H

#include "runtime/fusion/fuse.h"
#include "runtime/fusion/recurrent.h"

enum { PL_BY_GATE = RT_RNN_R_BIAS - RT_RNN_W + 1 };

struct pl_cell {
    const struct rt_cell *kind;
    /* What _RNN will have there, in the graph of the cell; node -1: nothing. X: what is multiplied;
     * H, C: the old states; weights are constant matrices and vectors, W and R perhaps the same. */
    struct pl_edge in[RT_RNN_LIMIT];
    struct pl_edge made[2]; /* the new states: h, c */
    /* Where each gate has weights of its own: those of W, R and biases gate by gate instead. */
    bool by_gate;
    struct pl_edge gate[PL_BY_GATE][4];        /* from RT_RNN_W on; node -1: nothing */
    int64_t units, width, depth, x_row, h_row; /* width: of h */
    char order[8];
    enum rt_cell_act gate_act, act;
    float forget_bias, clip;
};

/* Whether `h_new` is made of the old state `h` by a cell. All nodes in between are pure. */
bool pl_find_cell(const struct pl_graph *g, struct pl_edge h_new, struct pl_edge h,
                  struct pl_cell *c);

#endif
