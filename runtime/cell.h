/*
 * Recurrent cells in a graph: the nodes that make a new state of an input and the old state, as
 * Keras and TensorFlow 1 write LSTM and GRU. Says what it has found; whether the edges are what a
 * loop must have there is for the caller to check.
 */
#ifndef RT_CELL_H
#define RT_CELL_H

#include "runtime/fuse.h"

enum pl_cell_kind { PL_LSTM, PL_GRU, PL_GRU_BEFORE };

struct pl_cell {
    enum pl_cell_kind kind;
    struct pl_edge x, h, c; /* what is multiplied and scaled; c: PL_LSTM */
    struct pl_edge w, r;    /* constant matrices, the same one when x and h were joined */
    struct pl_edge r_new;   /* PL_GRU_BEFORE: of the new state, where r is of update and reset */
    struct pl_edge bias, r_bias; /* node -1: none */
    struct pl_edge c_new;
    int64_t units, depth, x_row, h_row; /* rows of w and r from which on they are used */
    char order[5];                      /* which gates the columns hold: "ifgo", "zrn" */
    float forget_bias;
};

/* Whether `h_new` is made of the old state `h` by a cell. All nodes in between are pure. */
bool pl_find_cell(const struct pl_graph *g, struct pl_edge h_new, struct pl_edge h,
                  struct pl_cell *c);

#endif
