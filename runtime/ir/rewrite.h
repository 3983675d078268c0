/*
 * Graph rewriting for passes. These functions replace the nodes found by match.h with one node, add
 * constants and other nodes, and redirect edges.
 *
 * Threads: only the thread that makes the plan. Owner: added nodes belong to the graph. A call that
 * adds a node invalidates pointers to nodes.
 */
#ifndef RT_REWRITE_H
#define RT_REWRITE_H

#include "runtime/core/fused_op.h"
#include "runtime/ir/match.h"

static const struct pl_edge pl_no_edge = {-1, 0};

/* ---- nodes that replace others ---- */

/*
 * Replaces the n nodes with this fused op. node[0] becomes the op; the other nodes are removed.
 * `in` has one edge for each of the op's inputs, or pl_no_edge for an omitted OPTIONAL input. If
 * the last input is a LIST, its elements follow the other inputs; with an empty list, n_in is one
 * less than the number of the op's inputs. Returns RT_NOT_FOUND if the op is not registered, and
 * RT_INTERNAL if it was registered with another schema.
 */
enum rt_status pl_put_fused(struct pl_graph *g, const int *node, int n, struct rt_fused_op op,
                            const struct pl_edge *in, int n_in, struct rt_error *err);
/* Replaces the n nodes with a TensorFlow op. Its inputs, its only output and its type attributes
 * have type `dtype`. All other attributes are 0, false or empty. */
enum rt_status pl_put_op(struct pl_graph *g, const int *node, int n, const char *op,
                         enum rt_dtype dtype, const struct pl_edge *in, int n_in,
                         struct rt_error *err);
/* Adds to node `at` an attribute that the node's schema lacks. `name` and the data that `value`
 * points to must live as long as the plan. */
enum rt_status pl_add_extra(struct pl_graph *g, int at, const char *name, struct rt_attr value,
                            struct rt_error *err);
/* Returns a copy of `text`, or NULL if memory runs out. The copy lives as long as the plan. */
const char *pl_keep_text(struct pl_graph *g, const char *text, struct rt_error *err);

/* ---- additional nodes and constants ---- */

/* Adds a node with one output and with the name and depth of node `like`, or without a name if
 * `like` is -1. Returns -1 if memory runs out. */
int pl_add_like(struct pl_graph *g, int like, struct rt_error *err);
/* Adds a constant with the name and depth of node `like`. Takes ownership of *value, even on
 * failure. The result's node is -1 if memory runs out. */
struct pl_edge pl_add_constant(struct pl_graph *g, int like, struct rt_tensor *value,
                               struct rt_error *err);

/* ---- edges ---- */

/* Returns the type of an edge's value. The node that makes the value must be a constant, an op or a
 * feed. */
uint8_t pl_type_of(const struct pl_graph *g, struct pl_edge e);

/* How edges are replaced. `instead` returns the edge that replaces `e`. pl_rewire replaces the
 * inputs of nodes [0, n) and the fetches. */
struct pl_rewiring {
    const void *arg;
    /* returns whether pl_rewire must leave the node's inputs unchanged */
    bool (*keeps)(const void *arg, int node);
    struct pl_edge (*instead)(const void *arg, struct pl_edge e);
};
void pl_rewire(struct pl_graph *g, int n, const struct pl_rewiring *r);

#endif
