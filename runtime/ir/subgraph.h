/*
 * Subgraphs are parts of a compiler graph that have become separate graphs, from which sub-plans
 * are made. They are the two sides of a TensorFlow 1 branch (passes/functionalise.c), or the
 * condition and the body of a loop (passes/functionalise_loop.c).
 *
 * Threads: only the thread that makes the plan. Owner: a subgraph belongs to its node and is
 * cleared with it; the sub-plan takes over its arena.
 */
#ifndef RT_SUBGRAPH_H
#define RT_SUBGRAPH_H

#include "runtime/ir/ir.h"

/* Makes a subgraph whose first n_feeds nodes are its feeds; the caller fills in the fetches. The
 * caller clears the subgraph, even after a failure, unless it belongs to a node. */
enum rt_status pl_subgraph_begin(const struct pl_graph *g, struct pl_graph *to, int n_feeds,
                                 const uint8_t *dtype, int n_fetches, const char *name,
                                 struct rt_error *err);
/* Copies node i of `g` to `to` without its edges. The copy shares the node's value or, if `moves`
 * is true, takes its value and subgraphs. Returns -1 if memory runs out. */
int pl_subgraph_copy_node(struct pl_graph *g, int i, bool moves, struct pl_graph *to,
                          struct rt_error *err);

/* Makes node `at` a PL_WHILE, or a PL_IF whose first input is its condition. The node gets two
 * empty subgraphs. */
struct pl_subgraphs {
    enum pl_kind kind;
    int n_in, n_out;
    const struct pl_edge *in;
    const uint8_t *in_dtype, *out_dtype;
};
enum rt_status pl_make_subgraphs(struct pl_graph *g, int at, const struct pl_subgraphs *r,
                                 struct rt_error *err);
/* Sets the node's effect from its subgraphs, which must be complete. */
void pl_set_subgraph_effect(struct pl_node *n);

enum rt_dtype pl_edge_dtype(const struct pl_graph *g, struct pl_edge e);

#endif
