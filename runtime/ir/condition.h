/*
 * Conditions in a graph of TensorFlow 1: the predicates, each with a side, without which a node is
 * dead. A node's is the sum of its inputs'; a Switch adds one, a Merge takes one away.
 *
 * Threads: that which makes the plan. Owner: a pl_conditions is its caller's, and true of the graph
 * as it was when it was made; a pl_condition is plain data.
 */
#ifndef RT_CONDITION_H
#define RT_CONDITION_H

#include "runtime/ir/match.h"

/* ---- nodes that move tokens, and their Ref forms ---- */

bool pl_is_either(const struct pl_node *n, const char *plain, const char *ref);
bool pl_is_switch(const struct pl_node *n);
bool pl_is_merge(const struct pl_node *n);
bool pl_is_back(const struct pl_node *n); /* NextIteration */
bool pl_is_loop_merge(const struct pl_graph *g, const struct pl_node *n);
/* A Switch of a branch, not of a loop. *by: its predicate, through identities. */
bool pl_is_choice(const struct pl_graph *g, const struct pl_node *n, struct pl_edge *by);
/* A constant that waits for nothing, and so is in every frame. */
bool pl_is_free(const struct pl_node *n);
static inline int pl_compare_edges(struct pl_edge a, struct pl_edge b)
{
    return a.node != b.node ? (a.node < b.node ? -1 : 1) : a.out - b.out;
}

/* ---- conditions ---- */

enum { PL_MAX_CONDITION = 48 }; /* tf.case of so many is one inside the other */

struct pl_side {
    struct pl_edge by; /* the predicate, through identities */
    int taken;
};

struct pl_condition {
    int n;
    struct pl_side on[PL_MAX_CONDITION]; /* in the order of predicates */
};

/* False: the two exclude each other, or are too many. */
bool pl_add_condition(struct pl_condition *to, const struct pl_condition *from);
void pl_copy_condition(struct pl_condition *to, const struct pl_condition *from);
int pl_find_side(const struct pl_condition *c, struct pl_edge by); /* -1: it is not there */
void pl_remove_side(struct pl_condition *c, int at);
/* What `of` demands is all that `a` does, or more. */
bool pl_is_within(const struct pl_condition *a, const struct pl_condition *of);
bool pl_is_equal_condition(const struct pl_condition *a, const struct pl_condition *b);

struct pl_conditions {
    const struct pl_graph *g;
    int n;      /* nodes, when it was made */
    int *order; /* a node stands behind what it reads, but for loops */
    int n_order;
    struct pl_condition *on;
    int *frame; /* per node: how many loops are around its outputs */
};

/* False: they do not add up, or there is no memory. To be cleared in any case. */
bool pl_conditions_find(struct pl_conditions *w, const struct pl_graph *g);
void pl_conditions_clear(struct pl_conditions *w);
/* Of what an edge carries. */
bool pl_edge_condition(const struct pl_conditions *w, struct pl_edge e, struct pl_condition *out);
/* What Merge `n` joins: the side of its input 0, and what both sides demand else. */
bool pl_merged(const struct pl_conditions *w, const struct pl_node *n, struct pl_side *of,
               struct pl_condition *rest);

#endif
