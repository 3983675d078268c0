/*
 * Plans, inside the runtime. A plan computes one set of fetches from one set of feeds: steps in
 * topological order, values by index, constants in place. The table of passes in passes/pipeline.c
 * makes a plan out of a compiler graph (ir/ir.h). exec/run_plan.c runs a plan, either node by node
 * (exec/exec_node.c, with the kernels of select/prepared.c and select/choose.c) or by
 * specialisations for exact shapes (specialisation.h).
 *
 * Owner: who builds a plan frees it (rt_plan_free), or holds its rt_plan_box. Threads: a plan is
 * immutable and shared by any number of contexts, except its caches of prepared kernels
 * (select/prepared.c) and of idle contexts, which have locks.
 */
#ifndef RT_PLAN_H
#define RT_PLAN_H

#include <string.h>

#include "runtime/base/arena.h"
#include "runtime/base/thread.h"
#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"
#include "runtime/plan/row_analyses.h"
#include "runtime/session/idle_cache.h"

struct rt_context;
struct rt_kernel;
struct rt_plan;
struct rt_prepared_cache;
struct rt_segment;
struct rt_session;
struct rt_token_plan;

/* The kinds of nodes of the compiler's graph (ir/ir.h) and of steps of a plan. */
enum pl_kind {
    PL_GONE, /* removed by a pass; makes no step */
    PL_OP,
    PL_CONST, /* a constant: `value` */
    PL_FEED,  /* output 0 is feed number `feed` */
    PL_CALL,  /* calls a function that is too large to inline: sub[0] */
    PL_IF,    /* sub[0] when true, sub[1] when false; input 0 is the condition */
    PL_CASE,  /* sub[input 0], the last one when the index is out of range */
    PL_WHILE, /* sub[0] is the condition, sub[1] the body */
    PL_COPY,  /* copies input 0 to another device */
};

/* An output of a node of a graph, or of a step of a plan. */
struct pl_edge {
    int node, out; /* node -1: no edge */
};

/* A condition's truth as TensorFlow sees it: scalars by value, strings and other tensors by whether
 * they have any content. Returns false for a type that has no truth. `t` must be loaded. */
bool pl_truth(const struct rt_tensor *t, bool *truth);
/* The node is a Switch, Merge, Enter, Exit, NextIteration or LoopCond, or its Ref form. */
bool pl_is_token(const struct rt_node *n);
/* Input k of `n` needs the value that a ref points to, when the input is given a ref. */
static inline bool pl_follows_refs(const struct rt_node *n, int k)
{
    return n->in_dtype[k] != RT_RESOURCE && !(k < 64 && (n->in_ref >> k & 1));
}
/* Input k of `n`, a tensor of type `dtype`, is the handle of a variable whose value `n` reads when
 * it runs. Neither the value nor its shape is known before the run, so nothing that outlives a run
 * may hold either. */
static inline bool pl_reads_variable(const struct rt_node *n, int k, uint8_t dtype)
{
    return dtype == RT_RESOURCE && pl_follows_refs(n, k);
}
/* Input k of `n` may be a variable's value instead of its handle; pl_freeze puts the value
 * there. */
static inline bool pl_takes_value(const struct rt_node *n, int k)
{
    return k == 0 && (strcmp(n->schema->name, "ResourceGather") == 0 ||
                      strcmp(n->schema->name, "ResourceGatherNd") == 0);
}

/* ---- the plan ---- */

/*
 * One step of a plan: a node of the compiler's graph, in its place in the topological order, with
 * the kernels that may run it. A step is immutable, except `prepared`, which has a lock.
 */
struct rt_plan_step {
    uint8_t kind;    /* enum pl_kind */
    uint8_t effect;  /* enum rt_effect of the op */
    uint8_t effects; /* for a step with sub-plans: bit k is set if an op of effect k is inside */
    uint8_t device;  /* index into the session's devices; 0 is the CPU */
    bool was_switch; /* a PL_IF or PL_WHILE that was functionalised from Switch or loop nodes */
    const struct rt_node *def; /* attributes and types; NULL for PL_COPY and for steps without an op
                                  that only order others */
    const char *name;          /* prefixed by the names of the calls around the node */
    int n_in, n_out, n_ctrl;
    struct pl_edge *in; /* outputs of other steps */
    int *ctrl;          /* indexes of the steps that must run before this one */
    int call_skip;      /* PL_CALL: the inputs from this index on are the function's arguments */
    struct rt_tensor value; /* of a PL_CONST */
    int feed;               /* of a PL_FEED */
    struct rt_plan **sub;
    int n_sub;
    int first_value;   /* the value index of output 0 */
    int *in_value;     /* the value index of each input */
    uint64_t last_use; /* bit k: no later step reads input k (order executor) */
    int n_release;     /* number of values that no step reads after this one */
    int *release;
    const struct rt_kernel **kernels; /* candidates for the step's device and types */
    int n_kernels;
    bool lazy; /* every candidate accepts lazy inputs without loading them */
    /* Bit k: input k is the same in every run. It is a PL_CONST, and not the handle of a variable
     * that the step reads. */
    uint64_t const_in;
    struct rt_prepared_cache *prepared;
};

struct rt_plan {
    struct rt_session *session;
    struct rt_arena *arena;
    int n_nodes; /* the steps are in topological order (token plans: in any order) */
    struct rt_plan_step *node;
    int n_values;
    const struct rt_tensor **constant; /* per value: its constant tensor, or NULL */
    int n_feeds, n_fetches;
    int *feed_value;  /* value index of each feed; -1: no step reads the feed */
    int *fetch_value; /* value index of each fetch */
    uint8_t *feed_dtype, *fetch_dtype;
    uint8_t effects; /* bit k: a step of enum rt_effect k is inside */
    bool tokens;     /* has Switch, Merge, Enter, Exit or NextIteration: exec_token.c runs it */
    struct rt_token_plan *token; /* exec_token.c's plan, if `tokens` is set */
    int max_in, max_out;
    /* Per node, and one more: the segment that begins at the node, if one does
     * (exec/specialisation_cache.c). The array is NULL when no segment of this plan is ever
     * compiled. Each pointer is set once, atomically; the session's spec_mu guards the segment that
     * it points to. */
    _Atomic(struct rt_segment *) *segment;
    _Atomic uint64_t *compiled; /* for a callable's plan: one bit per number of rows of its feeds */
    bool loops;                 /* a PL_WHILE is inside */
    bool writes_fed;            /* this field and the next two are copied from pl_graph */
    struct rt_variable **handed_out;
    int n_handed_out;
    struct rt_mutex mu;
    struct rt_context *idle;           /* the most recently used first; guarded by mu */
    struct rt_cache_owner cache_owner; /* owns the idle contexts in the session's idle cache */
};

/* A plan in use. It is freed when it is retired and no run uses it any more. */
struct rt_plan_box {
    struct rt_plan *plan;
    int generation;
    /* The callable's mu guards both fields. */
    struct rt_row_analyses row_analyses;
    /* The earliest time of the next row-wise analysis, after one that failed for lack of memory; 0:
     * an analysis may begin at once. */
    int64_t analyse_again_ns;
    atomic_int refs;
};
struct rt_plan_box *rt_plan_box_ref(struct rt_plan_box *b);
void rt_plan_box_unref(struct rt_plan_box *b); /* NULL is fine */

void rt_plan_free(struct rt_plan *p);

#endif
