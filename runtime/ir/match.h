/*
 * Pattern matching for passes. These functions find the op or the constant that makes a value, and
 * the nodes that read a value. These functions do not change the graph; rewrite.h declares the
 * functions that change it.
 *
 * A model can combine any op with any constant, so nothing is assumed about the source of an edge.
 * Every function checks types, ranks and lengths, and returns false or NULL for a value that it
 * cannot determine.
 *
 * Threads: only the thread that makes the plan; no other thread has access to its graph. Owner:
 * pointers to nodes and tensors belong to the graph and are valid until the next pl_add; the caller
 * frees pl_uses and pl_readers.
 */
#ifndef RT_MATCH_H
#define RT_MATCH_H

#include "runtime/ir/ir.h"

static inline bool pl_same(struct pl_edge a, struct pl_edge b)
{
    return a.node == b.node && a.out == b.out;
}

/* ---- nodes ---- */

/*
 * pl_op_node, pl_made_by and pl_float_by return the node whose output 0 is e, or NULL if that
 * node's op is not `op` or its number of inputs is not n_in. pl_made_by and pl_float_by also
 * require that the node has no control inputs. pl_float_by also requires that output 0 is float32.
 */
const struct pl_node *pl_op_node(const struct pl_graph *g, struct pl_edge e, const char *op,
                                 int n_in);
const struct pl_node *pl_made_by(const struct pl_graph *g, struct pl_edge e, const char *op,
                                 int n_in);
const struct pl_node *pl_float_by(const struct pl_graph *g, struct pl_edge e, const char *op,
                                  int n_in);
/* pl_is_add returns whether the node is an Add or AddV2. pl_sum_node returns the Add or AddV2 that
 * makes e, or NULL. pl_float_sum returns that node if its sum is float32, otherwise NULL. */
bool pl_is_add(const struct pl_node *n);
const struct pl_node *pl_sum_node(const struct pl_graph *g, struct pl_edge e);
const struct pl_node *pl_float_sum(const struct pl_graph *g, struct pl_edge e);

/* ---- origins: skip Identity nodes, except one that reads a variable ---- */

/* Returns whether the edge carries a reference to a variable. The edge's readers dereference this
 * reference. */
bool pl_is_ref(const struct pl_graph *g, struct pl_edge e);
/* Skips all identities before e, including those with control inputs. Returns the edge where the
 * value of e originates. */
struct pl_edge pl_origin(const struct pl_graph *g, struct pl_edge e);
/* Skips the identities before e that have no control inputs, and returns an edge that may be read
 * instead of e. simplify.c replaces e with this edge after skipping more ops that pass their input
 * on. */
struct pl_edge pl_pure_origin(const struct pl_graph *g, struct pl_edge e);

/* ---- constants ---- */

/* pl_is_constant returns whether e is output 0 of a constant without control inputs; the constant
 * may be a handle. pl_constant returns the constant's tensor, which may be lazy. pl_constant
 * returns NULL if e is not a constant, or is a handle, because the resource to which a handle
 * points is not constant. */
bool pl_is_constant(const struct pl_graph *g, struct pl_edge e);
const struct rt_tensor *pl_constant(const struct pl_graph *g, struct pl_edge e);
/* pl_float_constant and pl_int_constant read constants of rank 0. pl_int_constant accepts 32-bit
 * and 64-bit integers. */
bool pl_float_constant(const struct pl_graph *g, struct pl_edge e, float *v);
bool pl_int_constant(const struct pl_graph *g, struct pl_edge e, int64_t *v);
/* Reads a constant vector of exactly n integers. */
bool pl_ints_constant(const struct pl_graph *g, struct pl_edge e, int n, int64_t *v);
/* Reads the integers of a constant scalar or vector, at most RT_MAX_RANK of them. Returns their
 * number, or -1 if e is not such a constant. */
int pl_some_ints(const struct pl_graph *g, struct pl_edge e, int64_t v[RT_MAX_RANK]);
/* pl_matrix_constant returns a constant float32 matrix. pl_row_constant returns a constant float32
 * tensor whose axes before the last have length 1. Both return NULL if e is not such a constant. */
const struct rt_tensor *pl_matrix_constant(const struct pl_graph *g, struct pl_edge e);
const struct rt_tensor *pl_row_constant(const struct pl_graph *g, struct pl_edge e);

/* ---- readers ---- */

/* The number of uses of each node at the time of pl_uses_count. */
struct pl_uses {
    /* For each node, the number of inputs that read its outputs. A fetch, a target and a control
     * edge each count as two, so 1 means that exactly one input reads the node. */
    int *n;
    int *user; /* for each node, the reader with the greatest index */
};
enum rt_status pl_uses_count(struct pl_uses *u, const struct pl_graph *g, struct rt_error *err);
void pl_uses_free(struct pl_uses *u);

/*
 * The readers of each node at the time of pl_readers_new. The readers of node i are `of[first[i]]`
 * to `of[first[i + 1] - 1]`, in node order, with one entry per edge. If `waits` is set, control
 * edges are listed too, after a node's inputs. pl_readers_new returns NULL if memory runs out.
 */
struct pl_reader {
    /* `k` is the index of the reader's input, or `n_in` plus the index of its control edge */
    int node, k;
};
struct pl_readers {
    int *first;
    struct pl_reader *of;
};
struct pl_readers *pl_readers_new(const struct pl_graph *g, bool waits, struct rt_error *err);
void pl_readers_free(struct pl_readers *r);

/* Returns whether one node may replace the n nodes in the array `node`. Nodes outside the array
 * must read only outputs of node[0], and all n nodes must be assigned to the same device. */
bool pl_is_closed(const struct pl_graph *g, const struct pl_uses *u, const int *node, int n);

/* ---- clusters ---- */

/* A cluster contains the nodes of a pattern that have been matched so far. Its first node computes
 * the value of the entire pattern. The struct in which a pass records a match begins with a
 * cluster. To try several ways to match a pattern, a pass copies the struct and restores the
 * copy. */
enum { PL_CLUSTER_MOST = 16 };
struct pl_cluster {
    const struct pl_graph *g;
    const struct pl_uses *uses;
    int node[PL_CLUSTER_MOST], n; /* `n` is PL_CLUSTER_MOST + 1 if the pattern is too large */
};
struct pl_cluster pl_cluster_from(const struct pl_graph *g, const struct pl_uses *uses, int root);
/* Adds the node that makes e to the cluster, unless the cluster already contains it. */
void pl_cluster_take(struct pl_cluster *c, struct pl_edge e);
/* Returns whether one node may replace the nodes of the cluster (pl_is_closed). */
bool pl_cluster_is_closed(const struct pl_cluster *c);

#endif
