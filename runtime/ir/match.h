/*
 * Pattern matching for passes: which op makes a value, which constant a value is, and which nodes
 * read a value. None of these functions changes the graph; rewrite.h has those that do.
 *
 * A model can have any op with any constant, so nothing that an edge leads to is trusted. Every
 * function checks types, ranks and lengths, and returns false or NULL for what it cannot see.
 *
 * Threads: only the thread that makes the plan; no other has its graph. Owner: pointers to nodes
 * and tensors are the graph's and are valid until pl_add; the caller frees pl_uses and pl_readers.
 */
#ifndef RT_MATCH_H
#define RT_MATCH_H

#include "runtime/ir/ir.h"

static inline bool pl_same(struct pl_edge a, struct pl_edge b)
{
    return a.node == b.node && a.out == b.out;
}

/* ---- nodes: the node of `op` with n_in inputs whose output 0 is e, or NULL ---- */

const struct pl_node *pl_op_node(const struct pl_graph *g, struct pl_edge e, const char *op,
                                 int n_in); /* may have control inputs */
const struct pl_node *pl_made_by(const struct pl_graph *g, struct pl_edge e, const char *op,
                                 int n_in); /* has no control inputs */
const struct pl_node *pl_float_by(const struct pl_graph *g, struct pl_edge e, const char *op,
                                  int n_in); /* has no control inputs; its value is float32 */
/* pl_is_add: the node is an Add or AddV2. pl_sum_node: such a node. pl_float_sum: such a node of
 * float32. */
bool pl_is_add(const struct pl_node *n);
const struct pl_node *pl_sum_node(const struct pl_graph *g, struct pl_edge e);
const struct pl_node *pl_float_sum(const struct pl_graph *g, struct pl_edge e);

/* ---- origins: back through Identity, except one that reads a variable ---- */

/* The edge carries a reference to a variable, which the readers of the edge dereference. */
bool pl_is_ref(const struct pl_graph *g, struct pl_edge e);
/* The edge that makes the value, whatever control inputs the identities have. */
struct pl_edge pl_origin(const struct pl_graph *g, struct pl_edge e);
/* The edge that may be read instead of e: no identity between them has a control input. (simplify.c
 * replaces e by it, and goes back through more ops that pass their input on.) */
struct pl_edge pl_pure_origin(const struct pl_graph *g, struct pl_edge e);

/* ---- constants ---- */

/* pl_is_constant: e is output 0 of a constant without control inputs, which may be a handle.
 * pl_constant: its tensor, which may be lazy; NULL if e is no constant, and for a handle, since the
 * resource behind it is not constant. */
bool pl_is_constant(const struct pl_graph *g, struct pl_edge e);
const struct rt_tensor *pl_constant(const struct pl_graph *g, struct pl_edge e);
/* Scalars of rank 0; integers of 32 or 64 bits. */
bool pl_float_constant(const struct pl_graph *g, struct pl_edge e, float *v);
bool pl_int_constant(const struct pl_graph *g, struct pl_edge e, int64_t *v);
/* A vector of exactly n integers. */
bool pl_ints_constant(const struct pl_graph *g, struct pl_edge e, int n, int64_t *v);
/* The integers of a scalar or a vector, at most RT_MAX_RANK of them. Returns their number; -1: e is
 * no such constant. */
int pl_some_ints(const struct pl_graph *g, struct pl_edge e, int64_t v[RT_MAX_RANK]);
/* pl_matrix_constant: a float32 matrix. pl_row_constant: a float32 tensor whose axes before the
 * last have length 1. */
const struct rt_tensor *pl_matrix_constant(const struct pl_graph *g, struct pl_edge e);
const struct rt_tensor *pl_row_constant(const struct pl_graph *g, struct pl_edge e);

/* ---- readers ---- */

/* The number of readers of each node that existed when they were counted. */
struct pl_uses {
    /* Per node: how often its outputs are read. Fetches, targets and control edges count twice, so
     * that 1 means that exactly one edge of a node reads the value. */
    int *n;
    int *user; /* per node: the reader with the greatest index */
};
enum rt_status pl_uses_count(struct pl_uses *u, const struct pl_graph *g, struct rt_error *err);
void pl_uses_free(struct pl_uses *u);

/* The readers of node i are of[first[i]] .. of[first[i + 1] - 1], in the order of nodes, one entry
 * per edge, for the nodes that existed when pl_readers was made. With `waits`, control edges are
 * listed too, behind a node's inputs. NULL: out of memory. */
struct pl_reader {
    int node, k; /* k: the reader's input, or n_in + the number of its control edge */
};
struct pl_readers {
    int *first;
    struct pl_reader *of;
};
struct pl_readers *pl_readers_new(const struct pl_graph *g, bool waits, struct rt_error *err);
void pl_readers_free(struct pl_readers *r);

/* True if no other node reads the outputs of these nodes, except those of the first. */
bool pl_is_closed(const struct pl_graph *g, const struct pl_uses *u, const int *node, int n);

/* ---- clusters ---- */

/* A cluster: the nodes of a pattern that have been matched so far. The first node makes the value
 * of the whole pattern. A pass's record of a match begins with a cluster. To try several ways to
 * match a pattern, a pass copies the record and goes back to the copy. */
enum { PL_CLUSTER_MOST = 16 };
struct pl_cluster {
    const struct pl_graph *g;
    const struct pl_uses *uses;
    int node[PL_CLUSTER_MOST], n; /* n is PL_CLUSTER_MOST + 1 for a pattern that is too large */
};
struct pl_cluster pl_cluster_from(const struct pl_graph *g, const struct pl_uses *uses, int root);
/* Adds the node that makes e, unless it is in the cluster already. */
void pl_cluster_take(struct pl_cluster *c, struct pl_edge e);
/* True if no other node reads the outputs of the cluster, except those of its first node, so that
 * the cluster may be replaced. */
bool pl_cluster_is_closed(const struct pl_cluster *c);

#endif
