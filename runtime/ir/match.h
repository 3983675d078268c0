/*
 * Pattern matching for passes. These functions find the op that makes a value, the constant that a
 * value is, and the nodes that read a value. None of these functions changes the graph; rewrite.h
 * declares those that do.
 *
 * A model can combine any op with any constant, so nothing to which an edge leads is trusted. Every
 * function checks types, ranks and lengths, and returns false or NULL for a value that it cannot
 * determine.
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

/* pl_op_node, pl_made_by and pl_float_by return the node whose output 0 is e, or NULL if its op is
 * not `op` or it does not have n_in inputs. For pl_made_by and pl_float_by the node must have no
 * control inputs. For pl_float_by its output must also be float32. */
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

/* Returns whether the edge carries a reference to a variable. The edge's readers dereference it. */
bool pl_is_ref(const struct pl_graph *g, struct pl_edge e);
/* Returns the edge where the value of e originates, by skipping all identities before e, including
 * those with control inputs. */
struct pl_edge pl_origin(const struct pl_graph *g, struct pl_edge e);
/* Returns an edge that may be read instead of e, by skipping the identities before e that have no
 * control inputs. (simplify.c replaces e with such an edge, and also skips other ops that pass
 * their input on.) */
struct pl_edge pl_pure_origin(const struct pl_graph *g, struct pl_edge e);

/* ---- constants ---- */

/* pl_is_constant returns whether e is output 0 of a constant without control inputs; the constant
 * may be a handle. pl_constant returns the tensor of the constant; the tensor may be lazy.
 * pl_constant returns NULL if e is not a constant or is a handle, because the resource that a
 * handle points to is not constant. */
bool pl_is_constant(const struct pl_graph *g, struct pl_edge e);
const struct rt_tensor *pl_constant(const struct pl_graph *g, struct pl_edge e);
/* pl_float_constant and pl_int_constant read constant scalars of rank 0. pl_int_constant accepts
 * integers of 32 or 64 bits. */
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

/* For each node that existed when pl_uses_count was called, the number of its readers. */
struct pl_uses {
    /* For each node, the number of times that its outputs are read. Fetches, targets and control
     * edges are counted twice, so that 1 means that exactly one edge of a node reads the value. */
    int *n;
    int *user; /* for each node, the reader with the greatest index */
};
enum rt_status pl_uses_count(struct pl_uses *u, const struct pl_graph *g, struct rt_error *err);
void pl_uses_free(struct pl_uses *u);

/* For each node that existed when pl_readers was made, the readers of the node. The readers of node
 * i are `of[first[i]]` to `of[first[i + 1] - 1]`, in node order, one entry per edge. With `waits`,
 * control edges are listed too, after a node's inputs. pl_readers_new returns NULL if memory runs
 * out. */
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

/* Returns whether nodes outside the array `node` read no outputs of its n nodes except those of the
 * first node. */
bool pl_is_closed(const struct pl_graph *g, const struct pl_uses *u, const int *node, int n);

/* ---- clusters ---- */

/* A cluster holds the nodes of a pattern that have been matched so far. Its first node makes the
 * value of the entire pattern. A pass's record of a match begins with a cluster. To try several
 * ways to match a pattern, a pass copies the record and restores the copy. */
enum { PL_CLUSTER_MOST = 16 };
struct pl_cluster {
    const struct pl_graph *g;
    const struct pl_uses *uses;
    int node[PL_CLUSTER_MOST], n; /* `n` is PL_CLUSTER_MOST + 1 for a pattern that is too large */
};
struct pl_cluster pl_cluster_from(const struct pl_graph *g, const struct pl_uses *uses, int root);
/* Adds the node that makes e to the cluster, unless the cluster contains it already. */
void pl_cluster_take(struct pl_cluster *c, struct pl_edge e);
/* Returns whether nodes outside the cluster read only outputs of the cluster's first node, so that
 * the cluster may be replaced. */
bool pl_cluster_is_closed(const struct pl_cluster *c);

#endif
