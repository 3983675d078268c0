/*
 * Parts of a plan's graph that have become graphs of their own, of which plans are made: what lies
 * on the sides of TensorFlow 1's branches (raise.c) and in its loops (raise_loop.c).
 *
 * Threads: that which makes the plan. Owner: a region is its node's, cleared with it; its arena is
 * the plan's.
 */
#ifndef RT_SUBGRAPH_H
#define RT_SUBGRAPH_H

#include "runtime/ir/ir.h"

/* Its first n_feeds nodes are its feeds; fetches are to be filled in. On failure too it is to be
 * cleared, or belongs to a node by then. */
enum rt_status pl_subgraph_begin(const struct pl_graph *g, struct pl_graph *to, int n_feeds,
                                 const uint8_t *dtype, int n_fetches, const char *name,
                                 struct rt_error *err);
/* A copy of node i of `g`, but for its edges; what it holds is shared, or moves. -1: no memory. */
int pl_subgraph_copy_node(struct pl_graph *g, int i, bool moves, struct pl_graph *to,
                          struct rt_error *err);

/* Node `at` becomes one of `kind` (PL_IF: its first input is the condition) with two empty regions,
 * in the order of its sub-plans. */
struct pl_subgraphs {
    enum pl_kind kind;
    int n_in, n_out;
    const struct pl_edge *in;
    const uint8_t *in_dtype, *out_dtype;
};
enum rt_status pl_make_subgraphs(struct pl_graph *g, int at, const struct pl_subgraphs *r,
                                 struct rt_error *err);
/* After its regions are filled: whether it has an effect. */
void pl_set_subgraph_effect(struct pl_node *n);

enum rt_dtype pl_edge_dtype(const struct pl_graph *g, struct pl_edge e);

#endif
