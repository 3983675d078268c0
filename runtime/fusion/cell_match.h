/*
 * The building blocks of the matchers of cells (cell_*.c). A matcher follows edges upwards from a
 * new state, and each step checks whether the node there is the one that the cell would have.
 */
#ifndef RT_CELL_MATCH_H
#define RT_CELL_MATCH_H

#include "runtime/fusion/cell.h"

struct pl_match {
    const struct pl_graph *g;
    struct pl_cell *c; /* filled while matching; undefined after a failed match */
};

/* e is output 0 of a pure float node of this op; its inputs are copied to `in`. */
bool pl_op_of(const struct pl_match *m, struct pl_edge e, const char *op, struct pl_edge *in,
              int n_in);
bool pl_sum_of(const struct pl_match *m, struct pl_edge e, struct pl_edge in[2]);
/* *of is the argument of the activation; for linear, e itself. */
enum rt_cell_act pl_act_of(const struct pl_match *m, struct pl_edge e, struct pl_edge *of);

/* A sum of up to two matrix products with constant matrices, and a bias. */
struct pl_terms {
    int n_matmuls, n_biases;
    int64_t cols;
    struct pl_edge a[2], matrix[2], bias; /* bias: node -1: none */
    int64_t rows[2];                      /* of the matrices */
};
bool pl_terms_of(const struct pl_match *m, struct pl_edge e, struct pl_terms *t);

/* The terms are the state times one matrix plus x times another, or both concatenated times one
 * matrix. Fills X, H, W, R, BIAS, depth, x_row and h_row of the cell; units and width must be
 * set. */
bool pl_x_and_state(struct pl_match *m, const struct pl_terms *t, struct pl_edge h);
/* The operands of the concatenation in the only matrix product: x, and one that should be the
 * state. */
bool pl_side_by_side(const struct pl_match *m, const struct pl_terms *t, struct pl_edge *x,
                     struct pl_edge *h);

/* As pl_x_and_state for gate g alone, with weights of its own. */
bool pl_own_gate(struct pl_match *m, struct pl_edge e, struct pl_edge h, int g);
/* As pl_own_gate for two sums, in any order: the sum of x, and the sum of the state, which has a
 * bias of its own. */
bool pl_own_sides(struct pl_match *m, const struct pl_edge side[2], struct pl_edge h, int g);
/* e is a vector of `units` floats. */
bool pl_unit_vector(const struct pl_match *m, struct pl_edge e);
/* e is *of clipped to [-v, v]; false: e is not clipped. */
bool pl_clip_of(const struct pl_match *m, struct pl_edge e, struct pl_edge *of, float *v);

/* *of is the tensor that `e` takes some columns of, by a split or a slice. */
bool pl_columns_of(const struct pl_match *m, struct pl_edge e, struct pl_edge *of);
/* True if `e` is the columns [*k, *k + 1) * units of `of`, which has `cols` columns. */
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
