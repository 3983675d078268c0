/*
 * The words in which passes over a plan's graph say what they look for: which op makes a value,
 * which constant it is, and who reads it. None of them changes the graph.
 *
 * What an edge may name is not trusted further than its node: a model can have any op with any
 * constant. So every word asks for types, ranks and lengths, and says no to what it cannot see.
 *
 * Threads: that which makes the plan; nobody else has its graph. Owner: pointers to nodes are the
 * graph's and hold until pl_add, those to tensors likewise; pl_uses and pl_readers are the caller's
 * to free. rewrite.h has the words that change it.
 */
#ifndef RT_MATCH_H
#define RT_MATCH_H

#include "runtime/ir/ir.h"

static inline bool pl_same(struct pl_edge a, struct pl_edge b)
{
    return a.node == b.node && a.out == b.out;
}

/* ---- nodes: output 0 of one of this op with so many inputs, or NULL ---- */

const struct pl_node *pl_op_node(const struct pl_graph *g, struct pl_edge e, const char *op,
                                 int n_in); /* perhaps it waits for others */
const struct pl_node *pl_made_by(const struct pl_graph *g, struct pl_edge e, const char *op,
                                 int n_in); /* it has no control inputs */
const struct pl_node *pl_float_by(const struct pl_graph *g, struct pl_edge e, const char *op,
                                  int n_in); /* nor is the value anything but float32 */
/* Either of the ops that are a sum of two; a node of one of them; one of two float32. */
bool pl_is_add(const struct pl_node *n);
const struct pl_node *pl_sum_node(const struct pl_graph *g, struct pl_edge e);
const struct pl_node *pl_float_sum(const struct pl_graph *g, struct pl_edge e);

/* ---- where a value comes from: back through Identity, but for one that reads a variable ---- */

/* What the edge carries is a variable, which its readers read. */
bool pl_is_ref(const struct pl_graph *g, struct pl_edge e);
/* Which value it is: whatever the identities wait for. */
struct pl_edge pl_origin(const struct pl_graph *g, struct pl_edge e);
/* What may be read in its place: the identities wait for nothing. (simplify.c does put it in its
 * place, and goes back through other ops that hand on what they get, too.) */
struct pl_edge pl_pure_origin(const struct pl_graph *g, struct pl_edge e);

/* ---- constants ---- */

/* Output 0 of a constant without control inputs, which may be a handle; as a tensor, which may be
 * lazy: NULL if it is not, and for a handle, since what is behind it is no constant. */
bool pl_is_constant(const struct pl_graph *g, struct pl_edge e);
const struct rt_tensor *pl_constant(const struct pl_graph *g, struct pl_edge e);
/* Scalars of rank 0; integers of 32 or 64 bits. */
bool pl_float_constant(const struct pl_graph *g, struct pl_edge e, float *v);
bool pl_int_constant(const struct pl_graph *g, struct pl_edge e, int64_t *v);
/* A vector of n integers, n as given. */
bool pl_ints_constant(const struct pl_graph *g, struct pl_edge e, int n, int64_t *v);
/* Integers of a scalar or a vector, RT_MAX_RANK at most: how many, -1: it is no such thing. */
int pl_some_ints(const struct pl_graph *g, struct pl_edge e, int64_t v[RT_MAX_RANK]);
/* A float32 matrix; floats that lie along a last axis, all axes before it being 1 long. */
const struct rt_tensor *pl_matrix_constant(const struct pl_graph *g, struct pl_edge e);
const struct rt_tensor *pl_row_constant(const struct pl_graph *g, struct pl_edge e);

/* ---- readers ---- */

/* Who reads what; of the nodes that there were when it was counted. */
struct pl_uses {
    int *n;    /* per node: how often its outputs are read; fetches, targets and control edges count
                  twice, so that 1 means: by one edge, and by nothing else */
    int *user; /* the node that reads it last */
};
enum rt_status pl_uses_count(struct pl_uses *u, const struct pl_graph *g, struct rt_error *err);
void pl_uses_free(struct pl_uses *u);

/* Node i is read by of[first[i]] .. of[first[i + 1] - 1], which are in the order of nodes, each
 * once per edge; of the nodes that there were when it was made. With `waits` control edges are told
 * too, behind a node's inputs. NULL: no memory. */
struct pl_reader {
    int node, k; /* by its input k, or from n_in on by control edge k - n_in */
};
struct pl_readers {
    int *first;
    struct pl_reader *of;
};
struct pl_readers *pl_readers_new(const struct pl_graph *g, bool waits, struct rt_error *err);
void pl_readers_free(struct pl_readers *r);

/* Nobody but these nodes reads what they make, but for the first of them. */
bool pl_is_closed(const struct pl_graph *g, const struct pl_uses *u, const int *node, int n);

/* ---- clusters ---- */

/* The nodes of a pattern as far as it has been followed: first the one whose value is what all of
 * them make. A pass's own record of what it found begins with it; a copy of that is what to go back
 * to when one of several ways to read the graph has failed. */
enum { PL_CLUSTER_MOST = 16 };
struct pl_cluster {
    const struct pl_graph *g;
    const struct pl_uses *uses;
    int node[PL_CLUSTER_MOST], n; /* n is one more for a pattern that is too large */
};
struct pl_cluster pl_cluster_from(const struct pl_graph *g, const struct pl_uses *uses, int root);
/* Takes in the node that makes e, once. */
void pl_cluster_take(struct pl_cluster *c, struct pl_edge e);
/* Nobody else reads what its nodes make, but for the first: they may be replaced. */
bool pl_cluster_is_closed(const struct pl_cluster *c);

#endif
