/*
 * What the matchers of cells (cell_*.c) are made of: edges are followed upwards from a new state,
 * and each step says whether the node there is what a cell would have.
 */
#ifndef RT_CELL_MATCH_H
#define RT_CELL_MATCH_H

#include "runtime/fusion/cell.h"

struct pl_match {
    const struct pl_graph *g;
    struct pl_cell *c; /* filled on the way; of no use where the matcher says no */
};

/* Output 0 of a pure float node of this op; its inputs are copied. */
bool pl_op_of(const struct pl_match *m, struct pl_edge e, const char *op, struct pl_edge *in,
              int n_in);
bool pl_sum_of(const struct pl_match *m, struct pl_edge e, struct pl_edge in[2]);
/* *of: what an activation is applied to; linear: e itself. */
enum rt_cell_act pl_act_of(const struct pl_match *m, struct pl_edge e, struct pl_edge *of);

/* A sum of up to two products with constant matrices, and a bias. */
struct pl_terms {
    int n_matmuls, n_biases;
    int64_t cols;
    struct pl_edge a[2], matrix[2], bias; /* bias: node -1: none */
    int64_t rows[2];                      /* of the matrices */
};
bool pl_terms_of(const struct pl_match *m, struct pl_edge e, struct pl_terms *t);

/* The state times one matrix plus x times another, or both side by side times one: fills X, H, W,
 * R, BIAS, depth and rows of the cell, whose units and width are known. */
bool pl_x_and_state(struct pl_match *m, const struct pl_terms *t, struct pl_edge h);
/* What is side by side in the only product: x, and something as wide as the state. */
bool pl_side_by_side(const struct pl_match *m, const struct pl_terms *t, struct pl_edge *x,
                     struct pl_edge *h);

/* The same for gate g alone, with weights of its own. */
bool pl_own_gate(struct pl_match *m, struct pl_edge e, struct pl_edge h, int g);
/* The same of two sums, in any order: that of x, and that of the state, with a bias of its own. */
bool pl_own_sides(struct pl_match *m, const struct pl_edge side[2], struct pl_edge h, int g);
/* A vector of units floats. */
bool pl_unit_vector(const struct pl_match *m, struct pl_edge e);
/* *of: what is kept between -v and v; false: nothing is. */
bool pl_clip_of(const struct pl_match *m, struct pl_edge e, struct pl_edge *of, float *v);

/* What `e` may be some columns of, by a split or a slice. */
bool pl_columns_of(const struct pl_match *m, struct pl_edge e, struct pl_edge *of);
/* Whether `e` is columns [*k, *k + 1) * units of `of`, which has `cols`. */
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
