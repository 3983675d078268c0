/*
 * Conditions in a TensorFlow 1 graph. The condition of a node is a set of predicates, each with a
 * side: the value, true or false, that the predicate must have. If a predicate has the other value,
 * the node is dead. The condition of a node is the union of its inputs' conditions; a Switch adds
 * one predicate, and a Merge removes one.
 *
 * Threads: only the thread that makes the plan. Owner: the caller clears a pl_conditions; a
 * pl_condition is plain data. A pl_conditions describes the graph at the time of
 * pl_conditions_find.
 */
#ifndef RT_CONDITION_H
#define RT_CONDITION_H

#include "runtime/ir/match.h"

/* ---- nodes that move tokens, and their Ref forms ---- */

bool pl_is_either(const struct pl_node *n, const char *plain, const char *ref);
bool pl_is_switch(const struct pl_node *n);
bool pl_is_merge(const struct pl_node *n);
bool pl_is_back(const struct pl_node *n);
bool pl_is_loop_merge(const struct pl_graph *g, const struct pl_node *n);
/* Returns whether the node is a Switch that belongs to a branch, not to a loop. Sets *by to the
 * origin of its predicate (pl_origin). */
bool pl_is_choice(const struct pl_graph *g, const struct pl_node *n, struct pl_edge *by);
/* Returns whether the node is a constant without control inputs. Such a constant is available in
 * every frame. */
bool pl_is_free(const struct pl_node *n);
static inline int pl_compare_edges(struct pl_edge a, struct pl_edge b)
{
    return a.node != b.node ? (a.node < b.node ? -1 : 1) : a.out - b.out;
}

/* ---- conditions ---- */

/* The maximum number of predicates in a condition. A tf.case with n branches makes conditions with
 * up to n predicates. */
enum { PL_MAX_CONDITION = 48 };

struct pl_side {
    struct pl_edge by; /* edge that is the origin of the predicate (pl_origin) */
    int taken;
};

struct pl_condition {
    int n;
    /* the predicates with their sides, sorted by predicate */
    struct pl_side on[PL_MAX_CONDITION];
};

/* Adds all predicates of `from`, with their sides, to `to`. Returns false if the conditions exclude
 * each other, or if `to` would have too many predicates. */
bool pl_add_condition(struct pl_condition *to, const struct pl_condition *from);
void pl_copy_condition(struct pl_condition *to, const struct pl_condition *from);
int pl_find_side(const struct pl_condition *c, struct pl_edge by);
void pl_remove_side(struct pl_condition *c, int at);
/* Returns whether `of` contains every predicate of `a`, each with the same side as in `a`. */
bool pl_is_within(const struct pl_condition *a, const struct pl_condition *of);
bool pl_is_equal_condition(const struct pl_condition *a, const struct pl_condition *b);

struct pl_conditions {
    const struct pl_graph *g;
    int n;      /* number of nodes in the graph when the conditions were found */
    int *order; /* topological order of the nodes, without regard to the back edges of loops */
    int n_order;
    struct pl_condition *on;
    int *frame; /* for each node, the number of loops that enclose its outputs */
};

/* Finds the conditions of all nodes. Returns false if conditions contradict each other or memory
 * runs out. The caller clears *w in either case. */
bool pl_conditions_find(struct pl_conditions *w, const struct pl_graph *g);
void pl_conditions_clear(struct pl_conditions *w);
/* Sets *out to the condition of the value that the edge carries. */
bool pl_edge_condition(const struct pl_conditions *w, struct pl_edge e, struct pl_condition *out);
/* Finds the predicate that Merge `n` removes. Sets *of to this predicate, with the side on which
 * input 0 is alive. Sets *rest to the remaining condition, which is the same for both inputs. */
bool pl_merged(const struct pl_conditions *w, const struct pl_node *n, struct pl_side *of,
               struct pl_condition *rest);

#endif
