/*
 * The passes in runtime/passes, and the helpers that they share. Only pipeline.c defines the order
 * of the passes.
 *
 * Owner: a pass edits the graph that it is given; nodes that it adds are allocated in the graph's
 * arena. Threads: only the thread that makes the plan. Errors: after a pass has failed, the graph
 * must be cleared.
 */
#ifndef RT_PASSES_H
#define RT_PASSES_H

#include "runtime/ir/ir.h"

/* The request for one plan. */
struct pl_request {
    const struct rt_graph *graph;
    const struct rt_edge *feeds, *fetches;
    const int *targets;
    int n_feeds, n_fetches, n_targets;
    /* Whether the graph is a function's body, whose nodes with side effects run even if no fetch or
     * target depends on them. */
    bool is_body;
    /* For each feed, the value that it has in every run of the plan, or NULL if it varies. The
     * array may be NULL. */
    const struct rt_tensor *const *constant_feed;
    /* Number of nodes that this plan and all plans inside it may still have; NULL for the outermost
     * plan. */
    int64_t *nodes_left;
    bool is_load; /* whether the plan is for restore or init ops (rt_call_spec.is_load) */
};

/* Copies into `g` the nodes on which the fetches and targets of the request depend, and calls
 * pl_resolve_frames. */
enum rt_status pl_extract(struct pl_graph *g, const struct pl_request *q, struct rt_error *err);
/* Refuses a graph in which a node has inputs from different frames, or in which an Exit is in the
 * outermost frame. In a graph without Switch, Merge, Enter or Exit, turns each NextIteration into
 * an Identity. Runs before any pass, because folding removes edges that tie constants to frames. */
enum rt_status pl_resolve_frames(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_inline(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_resolve(struct pl_graph *g, struct rt_error *err);
/* Sets the effect of each node whose op is declared RT_PURE. The effect is RT_READS if the node
 * reads a variable through a ref input of TensorFlow 1, and otherwise RT_PURE. Called after inputs
 * have changed. */
void pl_mark_reads(struct pl_graph *g);
enum rt_status pl_simplify(struct pl_graph *g, bool *changed_calls, struct rt_error *err);
/* Removes the branches that are dead because the predicate of a Switch is a constant. Removes their
 * Switches and Merges too. */
enum rt_status pl_remove_dead_branches(struct pl_graph *g, bool *changed, struct rt_error *err);
enum rt_status pl_freeze(struct pl_graph *g, bool *changed, struct rt_error *err);
/* Marks the variables that a served plan may write as mutable, so that no plan freezes them. If the
 * plan writes through constant handles, the pass marks the variables of the handles. If a handle is
 * known only when the plan runs, all variables to which it may refer become mutable. Runs after
 * pl_sub_plans. */
enum rt_status pl_mark_written(struct pl_graph *g, struct rt_error *err);
/* Functionalises the branches whose predicates are known only when the plan runs. */
enum rt_status pl_functionalise_branches(struct pl_graph *g, bool *changed, struct rt_error *err);
/* Functionalises the loops that Enter and Exit nodes delimit. Runs only when the graph has no
 * branches left to functionalise. */
enum rt_status pl_functionalise_loops(struct pl_graph *g, bool *changed, struct rt_error *err);
enum rt_status pl_sub_plans(struct pl_graph *g, struct rt_error *err);
/* Assigns nodes to the session's accelerator. Runs before the fusion passes, which fuse only nodes
 * of the same device. */
enum rt_status pl_assign(struct pl_graph *g, struct rt_error *err);

/* ---- from a graph to a plan ---- */

/* Sets `order`, which has capacity for all nodes, to the indexes of the nodes in topological order.
 * Returns RT_INVALID_ARGUMENT if there is a cycle without a NextIteration. Cycles with a
 * NextIteration are accepted, because the token executor runs them. */
enum rt_status pl_order(const struct pl_graph *g, int *order, int *n_order, struct rt_error *err);
/* Runs the liveness analysis, which sets `last_use` and `release` of each step. */
enum rt_status pl_find_last_uses(struct rt_plan *p, struct rt_error *err);
/* Makes the plan from a graph on which all passes have run. Orders the steps, numbers the values,
 * finds their last uses, and moves the graph's nodes into the plan. */
enum rt_status pl_finish(struct pl_graph *g, struct rt_plan **out, struct rt_error *err);

/* ---- plans of functions ---- */

/* The request for the plan of a function that a node calls. pl_sub_request_clear frees `feeds` and
 * `constant_feed`. */
struct pl_sub_request {
    struct pl_request q;
    struct rt_edge *feeds;
    const struct rt_tensor **constant_feed;
};
/* Fills in the request for function `f` of node `n`. The arguments of `f` are the node's inputs,
 * starting at index `skip`. With `is_body`, nodes with side effects run even if no fetch depends
 * on them. */
enum rt_status pl_sub_request(const struct pl_graph *g, const struct pl_node *n,
                              const struct rt_func_ref *f, int skip, bool is_body,
                              struct pl_sub_request *r, struct rt_error *err);
void pl_sub_request_clear(struct pl_sub_request *r);

/* ---- analyses of a plan ---- */

/* Like rt_callable_is_rowwise, but for a plan. Only reads the plan, so other threads may run the
 * plan at the same time. */
bool rt_plan_is_rowwise(const struct rt_plan *p, const struct rt_shape *shapes,
                        struct rt_error *why);

/* ---- ops that could not run (missing.c) ---- */
struct rt_missing_list {
    struct rt_arena *arena;
    struct rt_missing *items;
    int n, capacity;
    /* the function bodies added so far, and the pairs of an op and a reason in `items` */
    struct rt_map seen;
};
enum rt_status rt_missing_find(struct rt_session *s, const struct pl_request *q,
                               struct rt_missing_list *list, struct rt_error *err);
/* Sets the error INVALID_ARGUMENT, and returns it. Called if inlining or planning `body` at `node`
 * would nest calls, branches and loops more than `most` levels deep. The message reports whether
 * `body` calls itself. `body` is NULL for nested branches and loops, because they are subgraphs,
 * not functions. */
enum rt_status pl_fail_too_deep(struct rt_session *s, const struct rt_graph *body, const char *node,
                                int most, struct rt_error *err);

#endif
