/*
 * The compiler's graph: a copy of the part of a session's graph between feeds and fetches. The
 * passes edit it until a plan is made from it. This header also has the edits that passes share.
 *
 * Owner: who makes a graph clears it; subgraphs belong to their nodes. The nodes point into the
 * arena, which becomes the plan's. Threads: only the thread that makes the plan. Errors: after a
 * failure a graph may be half edited, and may only be cleared.
 */
#ifndef RT_IR_H
#define RT_IR_H

#include "runtime/core/op.h"
#include "runtime/plan/plan.h"
#include "runtime/session/session_internal.h"

struct pl_graph;
struct pl_node {
    uint8_t kind;
    uint8_t effect;  /* enum rt_effect of the op */
    uint8_t effects; /* for a node with sub-plans: bit k is set if an op of effect k is inside */
    uint8_t device;  /* index into the session's devices; 0 is the CPU */
    bool frozen;     /* a PL_CONST that was a variable */
    bool unfoldable; /* folding failed once, and is not tried again */
    /* Attributes and types. NULL for PL_COPY and for nodes without an op that only order others. */
    const struct rt_node *def;
    const char *name; /* prefixed by the names of the calls around the node */
    int depth;        /* number of calls around the node */
    int n_in, n_out, n_ctrl;
    struct pl_edge *in;
    int *ctrl;
    const struct rt_func_ref *call; /* the function of a call that is not inlined yet */
    int call_skip; /* the first input that is an argument of `call` (1: the node was a branch) */
    /* Of a PL_IF or PL_WHILE that was functionalised: the two graphs that its sub-plans are made
     * from. */
    struct pl_graph *subgraph;
    struct rt_tensor value;
    int feed;
    uint8_t feed_dtype; /* PL_FEED: the type of the feed: enum rt_dtype */
    uint8_t copy_dtype; /* PL_COPY: the type of the tensor */
    struct rt_plan **sub;
    int n_sub;
};

/*
 * Services of the pipeline for passes that work on graphs of their own. passes/pipeline.c registers
 * them in each graph that it makes, and passes copy them to the graphs that they make.
 */
struct pl_pipeline {
    /* Runs one pass of simplification, as pl_simplify. */
    enum rt_status (*simplify)(struct pl_graph *g, bool *changed_calls, struct rt_error *err);
    /* Makes the graph of a function `f` of node `node`, as it would be when its plan is made. The
     * caller clears *out by pl_graph_clear; on failure nothing is held. */
    enum rt_status (*look_inside)(const struct pl_graph *g, int node, const struct rt_func_ref *f,
                                  bool is_body, struct pl_graph *out, struct rt_error *err);
};

struct pl_graph {
    struct rt_session *session;
    const struct pl_pipeline *pipeline;
    struct rt_arena *arena; /* becomes the plan's */
    struct pl_node *node;
    int n, capacity;
    int n_feeds, n_fetches;
    struct pl_edge *fetch; /* a fetch may be an output of a feed */
    const uint8_t *fetch_dtype;
    int *target; /* nodes that must run */
    int n_targets, target_capacity;
    bool serving; /* the session has run init: variables may be frozen */
    /* Edges of the model have other types than their readers expect; the runs refuse them. */
    bool mistyped;
    /* Set by pl_mark_written: */
    bool writes_fed; /* the plan may write a variable whose handle is fed */
    struct rt_variable *
        *handed_out; /* of a plan inside another: variables whose handles the fetches may be, if
                        the handles are not fed; a variable may be listed more than once */
    int n_handed_out;
    bool is_load; /* see rt_call_spec */
    int depth;    /* number of sub-plans around this graph */
    int64_t *nodes_left;
};

/* Returns the index of a zeroed node; -1: out of memory. */
int pl_add(struct pl_graph *g, struct rt_error *err);
/*
 * Makes node `at` an internal op of the runtime (rt_op.internal_schema), or one of TensorFlow's ops
 * whose inputs are single tensors: sets kind, def, effect, inputs and outputs; keeps name, depth
 * and control inputs. `attr` has all attributes, by the schema's index, and is copied (what the
 * attributes point to is not). Types and edges are copied. NOT_FOUND: no such op is registered.
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
/* As pl_make_internal_op, for an Identity of `from`. */
enum rt_status pl_make_identity(struct pl_graph *g, int at, enum rt_dtype dtype,
                                struct pl_edge from, struct rt_error *err);
/* Makes node[0] this op, which replaces all n nodes; the others are removed. */
enum rt_status pl_replace(struct pl_graph *g, const int *node, int n,
                          const struct pl_internal_op *by, struct rt_error *err);
bool pl_add_target(struct pl_graph *g, int node);
/* Removes the nodes that neither fetches nor targets reach. Feeds stay. */
void pl_prune(struct pl_graph *g);
bool pl_is(const struct pl_node *n, const char *op); /* true for a PL_OP of this name */
void pl_graph_clear(struct pl_graph *g);
/* As pl_graph_clear for a graph in another's arena: clears the tensors, plans and subgraphs of the
 * nodes, and frees the array of nodes. */
void pl_nodes_clear(struct pl_graph *g);

#endif
