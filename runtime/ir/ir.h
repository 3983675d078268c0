/*
 * The compiler's graph: a copy of the part of a session's graph between feeds and fetches, which
 * the passes edit until a plan is made of it, and the edits that they share.
 *
 * Owner: a graph is its maker's, who clears it; regions are their nodes'. What the nodes point to
 * is in the arena, which becomes the plan's. Threads: that which makes the plan. Errors: on failure
 * a graph may be half edited, and is only to be cleared.
 */
#ifndef RT_IR_H
#define RT_IR_H

#include "runtime/plan/plan.h"

struct pl_graph;
struct pl_node {
    uint8_t kind;
    uint8_t effect;            /* enum rt_effect of the op */
    uint8_t effects;           /* of a node with sub-plans: bit k: an op of effect k is inside */
    uint8_t device;            /* index into the session's devices; 0 is the CPU */
    bool frozen;               /* a PL_CONST that was a variable */
    bool unfoldable;           /* folding it was tried, and is not tried again */
    const struct rt_node *def; /* attributes and types; NULL for PL_COPY and pivots */
    const char *name;          /* with the names of the calls around it */
    int depth;                 /* of the calls around it */
    int n_in, n_out, n_ctrl;
    struct pl_edge *in;
    int *ctrl;
    const struct rt_func_ref *call; /* a call not inlined yet: of this function, with its inputs */
    int call_skip;                  /* from this one on (1: it was a branch) */
    struct pl_graph *subgraph;      /* of a PL_IF or PL_WHILE that was nodes of this graph: what its
                                     sub-plans are made of */
    struct rt_tensor value;
    int feed;
    uint8_t feed_dtype; /* PL_FEED: the type of what is fed: enum rt_dtype */
    uint8_t copy_dtype; /* of PL_COPY */
    struct rt_plan **sub;
    int n_sub;
};

/*
 * What passes ask of the pipeline above them, for graphs of their own: passes/pipeline.c registers
 * it in each graph that it makes, and graphs that passes make take it over.
 */
struct pl_pipeline {
    /* One pass of simplification, as pl_simplify. */
    enum rt_status (*simplify)(struct pl_graph *g, bool *changed_calls, struct rt_error *err);
    /* The nodes of a function of node `node`'s, as they would be when a plan is made of them. *out:
     * pl_graph_clear it; on failure nothing is held. */
    enum rt_status (*look_inside)(const struct pl_graph *g, int node, const struct rt_func_ref *f,
                                  bool is_body, struct pl_graph *out, struct rt_error *err);
};

struct pl_graph {
    struct rt_session *session;
    const struct pl_pipeline *pipeline;
    struct rt_arena *arena; /* of the plan to be */
    struct pl_node *node;
    int n, capacity;
    int n_feeds, n_fetches;
    struct pl_edge *fetch; /* whether of a feed or a node */
    const uint8_t *fetch_dtype;
    int *target; /* nodes that must run */
    int n_targets, target_capacity;
    bool serving;  /* after init: reads may be frozen */
    bool mistyped; /* the model has edges of other types than their readers: runs refuse them */
    /* By pl_mark_written: */
    bool writes_fed; /* a variable whose handle is fed may be written */
    struct rt_variable *
        *handed_out; /* of a plan inside another: the fetches that are handles may be
                        handles of these, or fed; some stand there more than once */
    int n_handed_out;
    bool is_load; /* see rt_call_spec */
    int depth;    /* of sub-plans around this one */
    int64_t *nodes_left;
};

int pl_add(struct pl_graph *g, struct rt_error *err); /* index of a zeroed node, -1: no memory */
/*
 * Makes node `at` an op of the runtime's own (rt_op.own), or one of TensorFlow's whose inputs are
 * single tensors: kind, def, effect, inputs and outputs; name and depth are left alone. `attr`: all
 * of them by the schema's index, copied (what they point to is not).
 * Types and edges are copied; old control inputs stay. NOT_FOUND: no such op is registered.
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
/* The same for an identity of `from`. */
enum rt_status pl_make_identity(struct pl_graph *g, int at, enum rt_dtype dtype,
                                struct pl_edge from, struct rt_error *err);
/* Makes node[0] this op, which does what all n of them did: the others are gone. */
enum rt_status pl_replace(struct pl_graph *g, const int *node, int n,
                          const struct pl_internal_op *by, struct rt_error *err);
bool pl_add_target(struct pl_graph *g, int node);
/* Marks what fetches and targets reach; the rest is gone. Feeds stay. */
void pl_prune(struct pl_graph *g);
bool pl_is(const struct pl_node *n, const char *op); /* it is a PL_OP of this name */
void pl_graph_clear(struct pl_graph *g);
/* The same where the arena is another's: the tensors, plans and regions of the nodes, and their
 * room. */
void pl_nodes_clear(struct pl_graph *g);

#endif
