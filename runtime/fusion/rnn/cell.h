/*
 * Finds recurrent cells in a graph. A cell consists of the nodes that compute a new state from an
 * input and the old state, in a form that Keras or TensorFlow 1 generates. recurrent.h has the
 * table of cells. Each cell has a matcher in cell_*.c. A matcher returns the edges that it has
 * found; the caller checks that the loop uses them as required.
 */
#ifndef RT_CELL_H
#define RT_CELL_H

#include "runtime/fusion/fuse.h"
#include "runtime/fusion/rnn/recurrent.h"

enum { PL_BY_GATE = RT_RNN_R_BIAS - RT_RNN_W + 1 };

struct pl_cell {
    const struct rt_cell *kind;
    /* The edges of the cell's graph that become inputs of _RNN. The node of an absent edge is -1. X
     * is the input, which is multiplied by W, and H and C are the old states. Weights are constant
     * matrices and vectors. W and R may be the same matrix. */
    struct pl_edge in[RT_RNN_LIMIT];
    struct pl_edge made[2]; /* the new states h and c */
    /* Whether each gate has its own weights. If so, `gate` contains W, R and the biases of each
     * gate, and the corresponding elements of `in` are unused. */
    bool by_gate;
    /* For each gate, the edges that become the inputs RT_RNN_W to RT_RNN_R_BIAS of _RNN. The node
     * of an absent edge is -1. */
    struct pl_edge gate[PL_BY_GATE][4];
    int64_t units, width, depth, x_row, h_row; /* `width` is the number of columns of h */
    char order[8];
    enum rt_cell_act gate_act, act;
    float forget_bias, clip;
};

/* If a cell computes `h_new` from the old state `h`, fills in *c and returns true. All nodes
 * between `h` and `h_new` must be pure. */
bool pl_find_cell(const struct pl_graph *g, struct pl_edge h_new, struct pl_edge h,
                  struct pl_cell *c);

#endif
