/*
 * Recurrent cells in a graph: the nodes that compute a new state from an input and the old state,
 * as Keras and TensorFlow 1 write them. recurrent.h has the table of cells; each has a matcher in
 * cell_*.c. A matcher reports which edges it found; the caller checks that they are what a loop
 * must have there.
 */
#ifndef RT_CELL_H
#define RT_CELL_H

#include "runtime/fusion/fuse.h"
#include "runtime/fusion/recurrent.h"

enum { PL_BY_GATE = RT_RNN_R_BIAS - RT_RNN_W + 1 };

struct pl_cell {
    const struct rt_cell *kind;
    /* The edges that become the inputs of _RNN, in the graph of the cell; node -1: none. X is what
     * the input weights multiply; H, C: the old states; weights are constant matrices and vectors;
     * W and R may be the same matrix. */
    struct pl_edge in[RT_RNN_LIMIT];
    struct pl_edge made[2]; /* the new states: h, c */
    /* Each gate has weights of its own: `gate` has those of W, R and the biases, gate by gate, in
     * place of `in`. */
    bool by_gate;
    /* inputs from RT_RNN_W on, gate by gate; node -1: none */
    struct pl_edge gate[PL_BY_GATE][4];
    int64_t units, width, depth, x_row, h_row; /* width: of h */
    char order[8];
    enum rt_cell_act gate_act, act;
    float forget_bias, clip;
};

/* True if a cell computes `h_new` from the old state `h`. All nodes in between are pure. */
bool pl_find_cell(const struct pl_graph *g, struct pl_edge h_new, struct pl_edge h,
                  struct pl_cell *c);

#endif
