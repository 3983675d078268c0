/*
 * How a pass changes a plan's graph once match.h has told it what is there: it replaces the nodes
 * of a match by one, adds constants and nodes beside others, and redirects edges.
 *
 * Threads: that which makes the plan. Owner: what is added belongs to the graph. Pointers to nodes
 * do not survive a call that adds one.
 */
#ifndef RT_REWRITE_H
#define RT_REWRITE_H

#include "runtime/core/fused_op.h"
#include "runtime/ir/match.h"

static const struct pl_edge pl_no_edge = {-1, 0};

/* ---- nodes that replace others ---- */

/*
 * Makes node[0] this fused op, which does what all n of these nodes did: the others are gone. `in`
 * has an edge for each of the op's inputs, pl_no_edge for an OPTIONAL one that is left out, and
 * behind them, if the last one is a LIST, the rest of the list: n_in edges in all, or one less than
 * the op has inputs for an empty list. NOT_FOUND: no such op is registered. INTERNAL: it was
 * registered with another schema.
 */
enum rt_status pl_put_fused(struct pl_graph *g, const int *node, int n, struct rt_fused_op op,
                            const struct pl_edge *in, int n_in, struct rt_error *err);
/* Makes node[0] one of TensorFlow's ops, all of whose inputs, type attributes and its only output
 * are of one type; its other attributes are 0, false or empty. */
enum rt_status pl_put_op(struct pl_graph *g, const int *node, int n, const char *op,
                         enum rt_dtype dtype, const struct pl_edge *in, int n_in,
                         struct rt_error *err);
/* Node `at` gets an attribute beside those of its schema: `name` and what `value` points to must
 * live as long as the plan. */
enum rt_status pl_add_extra(struct pl_graph *g, int at, const char *name, struct rt_attr value,
                            struct rt_error *err);
/* A copy that lives as long as the plan; NULL: no memory. */
const char *pl_keep_text(struct pl_graph *g, const char *text, struct rt_error *err);

/* ---- nodes and constants beside others ---- */

/* A node of one output with the name and depth of node `like`, or without if that is -1. -1: no
 * memory. */
int pl_add_like(struct pl_graph *g, int like, struct rt_error *err);
/* A constant with its name and depth, which takes *value, whether it succeeds or not. Node -1: no
 * memory. */
struct pl_edge pl_add_constant(struct pl_graph *g, int like, struct rt_tensor *value,
                               struct rt_error *err);

/* ---- edges ---- */

/* The type of what a constant, an op or a feed hands on by this edge. */
uint8_t pl_type_of(const struct pl_graph *g, struct pl_edge e);

/* What all the readers among nodes [0, n) and the fetches read instead of each edge. */
struct pl_rewiring {
    const void *arg;
    bool (*keeps)(const void *arg, int node); /* its inputs stay as they are */
    struct pl_edge (*instead)(const void *arg, struct pl_edge e);
};
void pl_rewire(struct pl_graph *g, int n, const struct pl_rewiring *r);

#endif
