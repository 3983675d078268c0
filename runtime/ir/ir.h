/*
 * The compiler's graph is a copy of the nodes of a session's graph that lie between feeds and
 * fetches. Passes edit it until a plan is made from it. This header also declares the edits that
 * passes share.
 *
 * Owner: the creator of a graph clears it; a subgraph belongs to its node. The nodes point into the
 * arena, which the plan takes over. Threads: only the thread that makes the plan. Errors: after a
 * failure, a graph may be partly edited and must be cleared.
 */
#ifndef RT_IR_H
#define RT_IR_H

#include "runtime/core/op.h"
#include "runtime/plan/plan.h"
#include "runtime/session/session_internal.h"

struct pl_graph;
struct pl_node {
    uint8_t kind;
    uint8_t effect; /* enum rt_effect */
    /* bit k is set if the sub-plans of the node contain an op whose effect is k */
    uint8_t effects;
    bool on_accelerator;
    bool frozen;     /* whether the node is a PL_CONST that replaced a frozen variable */
    bool unfoldable; /* whether folding has failed; the node is then not folded again */
    /* The node's attributes and types. NULL for a node without an op, which only orders other
     * nodes. */
    const struct rt_node *def;
    const char *name; /* name of the node, prefixed by the names of the calls that enclose it */
    int depth;        /* number of calls that enclose the node */
    int n_in, n_out, n_ctrl;
    struct pl_edge *in;
    int *ctrl;
    const struct rt_func_ref *call; /* the function that the node calls, if it is not inlined */
    /* Index of the first input that is an argument of `call`. The index is 1 if the node was an If,
     * because input 0 of an If is the condition. Otherwise it is 0. */
    int call_skip;
    /* The two graphs from which the sub-plans of a functionalised PL_IF or PL_WHILE are made. */
    struct pl_graph *subgraph;
    struct rt_tensor value;
    int feed;
    uint8_t feed_dtype; /* type of the feed (enum rt_dtype) if the node is a PL_FEED */
    struct rt_plan **sub;
    int n_sub;
};

/*
 * Functions of the pipeline for passes that make their own graphs. passes/pipeline.c sets them in
 * each graph that it makes; passes copy them to their graphs.
 */
struct pl_pipeline {
    /* pl_simplify, which runs the simplification pass once */
    enum rt_status (*simplify)(struct pl_graph *g, bool *changed_calls, struct rt_error *err);
    /* Makes the graph from which the plan of function `f` would be made. Node `node` calls the
     * function. On RT_OK, the caller clears *out with pl_graph_clear. */
    enum rt_status (*look_inside)(const struct pl_graph *g, int node, const struct rt_func_ref *f,
                                  bool is_body, struct pl_graph *out, struct rt_error *err);
};

struct pl_graph {
    struct rt_session *session;
    const struct pl_pipeline *pipeline;
    struct rt_arena *arena; /* arena of the nodes; the plan takes it over */
    struct pl_node *node;
    int n, capacity;
    int n_feeds, n_fetches;
    struct pl_edge *fetch; /* A fetch may be the output of a PL_FEED node. */
    const uint8_t *fetch_dtype;
    int *target; /* nodes that must run even if nothing reads them */
    int n_targets, target_capacity;
    bool serving; /* whether loading has finished, as freezing variables requires */
    /* Whether the model has edges whose types their readers do not expect. These readers fail when
     * they run. */
    bool mistyped;
    /* pl_mark_written sets the next two members. */
    bool writes_fed; /* whether the plan may write a variable whose handle is fed */
    /* For a sub-plan, the variables whose handles may be fetched, except handles that are fed. A
     * variable may be listed more than once. */
    struct rt_variable **handed_out;
    int n_handed_out;
    bool is_load; /* whether the plan is for restore or init ops (rt_call_spec.is_load) */
    int depth;    /* number of sub-plans that enclose this graph */
    int64_t *nodes_left;
};

/* Adds a zeroed node and returns its index, or -1 if memory runs out. */
int pl_add(struct pl_graph *g, struct rt_error *err);
/*
 * Makes node `at` an internal op of the runtime (rt_op.internal_schema), or a TensorFlow op whose
 * inputs are single tensors. Sets kind, def, effect, inputs and outputs. Does not change the name,
 * depth and control inputs. `attr` contains all attributes, in the order of the schema. The
 * attributes, types and edges are copied, but not the data that attributes point to. Returns
 * RT_NOT_FOUND if the op is not registered.
 */
struct pl_internal_op {
    const char *op;
    int n_in, n_out;
    const struct pl_edge *in;
    const uint8_t *in_dtype, *out_dtype;
    const struct rt_attr *attr;
};
enum rt_status pl_make_internal_op(struct pl_graph *g, int at, const struct pl_internal_op *o,
                                   struct rt_error *err);
/* Makes node `at` an Identity of `from` (pl_make_internal_op). */
enum rt_status pl_make_identity(struct pl_graph *g, int at, enum rt_dtype dtype,
                                struct pl_edge from, struct rt_error *err);
/* Replaces the n nodes with the op `by`. node[0] becomes this op; the other nodes are removed. */
enum rt_status pl_replace(struct pl_graph *g, const int *node, int n,
                          const struct pl_internal_op *by, struct rt_error *err);
bool pl_add_target(struct pl_graph *g, int node);
/* Removes the nodes on which no fetch or target depends, except feeds. */
void pl_prune(struct pl_graph *g);
/* Returns whether the node is a PL_OP whose op has the name `op`. */
bool pl_is(const struct pl_node *n, const char *op);
void pl_graph_clear(struct pl_graph *g);
/* Clears a graph whose arena belongs to another graph. Clears the tensors, plans and subgraphs of
 * the nodes, and frees the array of nodes. */
void pl_nodes_clear(struct pl_graph *g);

#endif
