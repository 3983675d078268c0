/*
 * Functions that the matchers of recurrent cells (cell_*.c) share. A matcher follows edges from a
 * new state to its producers, and checks each node that it reaches against the cell. A matching
 * function returns whether `e` has the form given in the function's comment.
 */
#ifndef RT_CELL_MATCH_H
#define RT_CELL_MATCH_H

#include "runtime/fusion/rnn/cell.h"

struct pl_match {
    const struct pl_graph *g;
    struct pl_cell *c; /* Filled in by matching. Undefined after a failed match. */
};

/* Matches output 0 of a pure float node with op `op`. Copies the node's inputs to `in`. */
bool pl_op_of(const struct pl_match *m, struct pl_edge e, const char *op, struct pl_edge *in,
              int n_in);
bool pl_sum_of(const struct pl_match *m, struct pl_edge e, struct pl_edge in[2]);
/* Returns the activation that computes `e`, and sets *of to its argument. If there is none, returns
 * the linear activation and sets *of to `e`. */
enum rt_cell_act pl_act_of(const struct pl_match *m, struct pl_edge e, struct pl_edge *of);

/* A sum of one or two matmuls with constant matrices, and an optional bias. */
struct pl_terms {
    int n_matmuls, n_biases;
    int64_t cols;
    /* operand and matrix of each matmul, and the bias; bias.node is -1 if there is no bias */
    struct pl_edge a[2], matrix[2], bias;
    int64_t rows[2]; /* rows[k] is the number of rows of matrix[k] */
};
bool pl_terms_of(const struct pl_match *m, struct pl_edge e, struct pl_terms *t);

/* Matches the sum of a matmul of x and a matmul of the state, or a single matmul of the
 * concatenation of x and the state. Fills in X, H, W, R, BIAS, depth, x_row and h_row of the cell.
 * The cell's units and width must be set. */
bool pl_x_and_state(struct pl_match *m, const struct pl_terms *t, struct pl_edge h);
/* Matches a sum with a single matmul, whose operand is a concatenation. Sets *x and *h to the
 * operands of the concatenation; the caller must check that *h is the state. */
bool pl_side_by_side(const struct pl_match *m, const struct pl_terms *t, struct pl_edge *x,
                     struct pl_edge *h);

/* Matches gate g if it has its own weights. For shared weights, pl_x_and_state matches all
 * gates. */
bool pl_own_gate(struct pl_match *m, struct pl_edge e, struct pl_edge h, int g);
/* Matches gate g if it has its own weights and biases. The gate is the sum of side[0] and side[1]:
 * one is x multiplied by its weights, and the other is the state multiplied by its weights. */
bool pl_own_sides(struct pl_match *m, const struct pl_edge side[2], struct pl_edge h, int g);
bool pl_unit_vector(const struct pl_match *m, struct pl_edge e);
/* Matches `e = clip(*of, -v, v)` with a scalar constant v. */
bool pl_clip_of(const struct pl_match *m, struct pl_edge e, struct pl_edge *of, float *v);

/* Matches a split or slice that selects columns of a tensor, and sets *of to the tensor. */
bool pl_columns_of(const struct pl_match *m, struct pl_edge e, struct pl_edge *of);
/* Matches a column block of `of`, a tensor with `cols` columns. Sets *k to the index of the block,
 * which consists of columns `k * units` to `(k + 1) * units - 1`. */
bool pl_is_column(const struct pl_match *m, struct pl_edge e, struct pl_edge of, int64_t cols,
                  int64_t units, int *k);

static inline void pl_swap(struct pl_edge in[2])
{
    const struct pl_edge t = in[0];
    in[0] = in[1];
    in[1] = t;
}

#define X(name, ...)                                                                               \
    bool pl_match_##name(struct pl_match *m, struct pl_edge h_new, struct pl_edge h);
RT_CELLS(X)
#undef X

#endif
