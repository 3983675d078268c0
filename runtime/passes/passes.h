/*
 * The passes of runtime/passes, and what they share. Their order stands in pipeline.c alone.
 *
 * Owner: a pass edits the graph that it is given; what it makes is in the graph's arena. Threads:
 * that which makes the plan. Errors: after a failure the graph is only to be cleared.
 */
#ifndef RT_PASSES_H
#define RT_PASSES_H

#include "runtime/ir/ir.h"

/* What a plan is made for. */
struct pl_request {
    const struct rt_graph *graph;
    const struct rt_edge *feeds, *fetches;
    const int *targets;
    int n_feeds, n_fetches, n_targets;
    /* A function's body: nodes with effects run though nothing reaches them. */
    bool is_body;
    /* Per feed: a value that is known whenever the plan runs, or NULL. May be NULL itself. */
    const struct rt_tensor *const *constant_feed;
    int64_t *nodes_left; /* of this plan and all inside it; NULL: the outermost */
    bool is_load;        /* see rt_call_spec */
};

enum rt_status pl_extract(struct pl_graph *g, const struct pl_request *q, struct rt_error *err);
enum rt_status pl_inline(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_resolve(struct pl_graph *g, struct rt_error *err);
/* Sets the effect of nodes whose ops have none: RT_READS where an input is a variable (a ref of
 * TensorFlow 1) whose value the node reads, RT_PURE elsewhere. For after inputs have changed. */
void pl_mark_reads(struct pl_graph *g);
enum rt_status pl_simplify(struct pl_graph *g, bool *changed_calls, struct rt_error *err);
/* Switch and Merge whose predicate is a constant. */
enum rt_status pl_remove_dead_branches(struct pl_graph *g, bool *changed, struct rt_error *err);
enum rt_status pl_freeze(struct pl_graph *g, bool *changed, struct rt_error *err);
/* What is served and writes makes its variables mutable, so nobody freezes them: those whose
 * handles are known, and where it is known in the run only, all that it may be. After
 * pl_sub_plans. */
enum rt_status pl_mark_written(struct pl_graph *g, struct rt_error *err);
/* Switch and Merge whose predicate is known only in the run. */
enum rt_status pl_functionalise_branches(struct pl_graph *g, bool *changed, struct rt_error *err);
/* The loops of frames, where no such Switch is left. */
enum rt_status pl_functionalise_loops(struct pl_graph *g, bool *changed, struct rt_error *err);
enum rt_status pl_sub_plans(struct pl_graph *g, struct rt_error *err);
enum rt_status pl_place(struct pl_graph *g, struct rt_error *err);

/* ---- from a graph to a plan ---- */

/* Indexes of nodes, each behind what it reads; INVALID_ARGUMENT: there is a cycle. A cycle through
 * NextIteration is legal: the token executor runs it. `order` has room for all nodes. */
enum rt_status pl_order(const struct pl_graph *g, int *order, int *n_order, struct rt_error *err);
/* Sets last_use and release of the nodes. */
enum rt_status pl_find_last_uses(struct rt_plan *p, struct rt_error *err);
/* The plan that a pl_graph has become: order, value indexes, last uses. Takes g's nodes. */
enum rt_status pl_finish(struct pl_graph *g, struct rt_plan **out, struct rt_error *err);

/* ---- plans of functions ---- */

/* How a function of node `n` is planned; feeds and known are to be freed. */
struct pl_sub_request {
    struct pl_request q;
    struct rt_edge *feeds;
    const struct rt_tensor **constant_feed;
};
/* As from input `skip` on; is_body: what has effects runs though nothing reaches it. */
enum rt_status pl_sub_request(const struct pl_graph *g, const struct pl_node *n,
                              const struct rt_func_ref *f, int skip, bool is_body,
                              struct pl_sub_request *r, struct rt_error *err);
void pl_sub_request_clear(struct pl_sub_request *r);

/* ---- what is found out of a plan ---- */

/* As rt_callable_is_rowwise. Only reads the plan; beside runs of it. */
bool rt_plan_is_rowwise(const struct rt_plan *p, const struct rt_shape *shapes,
                        struct rt_error *why);

/* ---- what could not run (missing.c) ---- */
struct rt_missing_list {
    struct rt_arena *arena;
    struct rt_missing *items;
    int n, capacity;
    struct rt_map seen; /* bodies and (op, reason) pairs */
};
enum rt_status rt_missing_find(struct rt_session *s, const struct pl_request *q,
                               struct rt_missing_list *list, struct rt_error *err);
/* INVALID_ARGUMENT, for calls, branches and loops at `node` that are nested more than `most` deep
 * where `body` is to be put: the text says whether `body` calls itself. */
enum rt_status pl_fail_too_deep(struct rt_session *s, const struct rt_graph *body, const char *node,
                                int most, struct rt_error *err);

#endif
