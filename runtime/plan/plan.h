/*
 * The runtime's plans. A plan computes one set of fetches from one set of feeds. It has steps in
 * topological order, values identified by indexes, and constants. The table of passes in
 * passes/pipeline.c makes a plan from a compiler graph (ir/ir.h). exec/run_plan.c runs a plan,
 * either one node at a time (exec/exec_node.c, with kernels from select/prepared.c and
 * select/choose.c) or with specialisations for exact shapes (specialisation.h).
 *
 * Owner: the caller that builds a plan frees it (rt_plan_free), or holds its rt_plan_box. Threads:
 * a plan is immutable and shared by any number of contexts. Only its caches of prepared kernels
 * (select/prepared.c) and idle contexts change, and these have locks.
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

/* The kinds of nodes in the compiler's graph (ir/ir.h) and of steps in a plan. */
enum pl_kind {
    PL_GONE,
    PL_OP,
    PL_CONST,
    PL_FEED,
    PL_CALL, /* calls sub[0], a function that was not inlined */
    PL_IF,   /* runs sub[0] if input 0, the condition, is true, and sub[1] otherwise */
    /* Runs the sub-plan that input 0 indexes, or the last one if the index is out of range. */
    PL_CASE,
    PL_WHILE, /* runs a loop with the condition sub[0] and the body sub[1] */
    PL_FOR,   /* runs sub[0] for each index from input 0 to input 1 in steps of input 2 (For) */
    PL_MAP,   /* runs sub[0] for each row of the first inputs (MapDefun) */
    PL_BATCH, /* runs sub[0] on the first inputs, split or padded to batches (BatchFunction) */
};

/* Index of the input of a PL_FOR that the body gets as its first argument, where the index of the
 * iteration takes its place. */
enum { PL_FOR_SKIP = 2 };

/* An output of a graph's node, or of a plan's step. */
struct pl_edge {
    int node, out; /* node is -1 if there is no edge */
};

/* Sets *truth to the truth value of a condition by TensorFlow's rules. A scalar number is true if
 * it is not zero. A scalar string, or a tensor of higher rank, is true if it is not empty. Returns
 * false for a type that has no truth value. `t` must be loaded. */
bool pl_truth(const struct rt_tensor *t, bool *truth);
/* Returns whether the node is a Switch, Merge, Enter, Exit, NextIteration or LoopCond, or the Ref
 * variant of one of these. */
bool pl_is_token(const struct rt_node *n);
/* Returns how many of the first inputs of `n` reach its function as slices: those of a MapDefun
 * that are mapped, those of a BatchFunction that are batched, and none of another op. */
int pl_n_sliced(const struct rt_node *n);
/* Returns whether the kernel of `n` receives the value of a variable, rather than a ref, if input k
 * is a ref. */
static inline bool pl_follows_refs(const struct rt_node *n, int k)
{
    return n->in_dtype[k] != RT_RESOURCE && !(k < 64 && (n->in_ref >> k & 1));
}
/* Returns whether input k of `n`, of type `dtype`, is the handle of a variable whose value `n`
 * reads when it runs. Data that outlives a run must not contain the value or its shape, because
 * both are unknown before the run. */
static inline bool pl_reads_variable(const struct rt_node *n, int k, uint8_t dtype)
{
    return dtype == RT_RESOURCE && pl_follows_refs(n, k);
}
/* Returns whether input k of `n` may be a variable's value instead of its handle. pl_freeze
 * replaces the handle with the value. */
static inline bool pl_takes_value(const struct rt_node *n, int k)
{
    return k == 0 && (strcmp(n->schema->name, "ResourceGather") == 0 ||
                      strcmp(n->schema->name, "ResourceGatherNd") == 0);
}

/* ---- the plan ---- */

/*
 * One step of a plan: a node of the compiler's graph at its position in the topological order, and
 * the kernels that may run it. A step is immutable except for `prepared`, which has a lock.
 */
struct rt_plan_step {
    uint8_t kind;   /* an enum pl_kind */
    uint8_t effect; /* enum rt_effect */
    /* bit k is set if a sub-plan of the step contains an op whose effect is k */
    uint8_t effects;
    /* Whether a specialisation should run the step on the session's accelerator. A run without a
     * specialisation runs every step on the CPU. */
    bool on_accelerator;
    /* Whether the step is a PL_IF or PL_WHILE that was functionalised from Switch or loop nodes. */
    bool was_switch;
    /* Attributes and types of the node. NULL for a step without an op, which only orders other
     * steps. */
    const struct rt_node *def;
    const char *name; /* name of the node, prefixed by the names of the calls around it */
    int n_in, n_out, n_ctrl;
    struct pl_edge *in;
    int *ctrl; /* indexes of steps that must run before this one */
    /* in a PL_CALL, the index of the first input that is an argument of the function */
    int call_skip;
    struct rt_tensor value; /* tensor of a PL_CONST */
    int feed;
    struct rt_plan **sub;
    int n_sub;
    int first_value; /* index of the value of output 0 */
    int *in_value;
    uint64_t last_use; /* Bit k is set if no later step reads input k. Used by the order
                        * executor. */
    int n_release;     /* number of values that no step reads after this one */
    int *release;
    const struct rt_kernel **kernels; /* candidate kernels on the CPU for the step's types */
    int n_kernels;
    /* candidate kernels on the accelerator; not empty if on_accelerator is set */
    const struct rt_kernel **device_kernels;
    int n_device_kernels;
    bool lazy; /* whether every kernel in `kernels` accepts lazy inputs without loading them */
    /* Bit k is set if input k is the same in every run: it is a PL_CONST, and is not the handle of
     * a variable that the step reads. */
    uint64_t const_in;
    struct rt_prepared_cache *prepared;
};

struct rt_plan {
    struct rt_session *session;
    struct rt_arena *arena;
    int n_nodes; /* number of steps; the steps are in topological order unless `tokens` is set */
    struct rt_plan_step *node;
    int n_values;
    /* for each value, its constant tensor, or NULL if it is not constant */
    const struct rt_tensor **constant;
    int n_feeds, n_fetches;
    /* for each feed, the index of its value, or -1 if the feed was replaced by a constant */
    int *feed_value;
    int *fetch_value;
    uint8_t *feed_dtype, *fetch_dtype;
    /* bit k is set if a step of the plan, or of a plan inside it, has effect k (enum rt_effect) */
    uint8_t effects;
    /* Whether the plan contains a Switch, Merge, Enter, Exit or NextIteration. If so, exec_token.c
     * runs the plan. */
    bool tokens;
    /* data of the token executor (exec_token.c) if `tokens` is set; otherwise NULL */
    struct rt_token_plan *token;
    int max_in, max_out;
    /* An array of n_nodes + 1 pointers. Element i is the segment that begins at step i, or NULL
     * (exec/specialisation_cache.c). The array is NULL if this plan's segments are never compiled.
     * Each pointer is set once, atomically. The session's spec_mu guards the segments. */
    _Atomic(struct rt_segment *) *segment;
    /* In a callable's plan, bit n is set if the plan is compiled for n rows. */
    _Atomic uint64_t *compiled;
    bool loops;      /* whether the plan has a PL_WHILE, PL_FOR, PL_MAP or PL_BATCH */
    bool writes_fed; /* writes_fed, handed_out and n_handed_out are copied from pl_graph */
    struct rt_variable **handed_out;
    int n_handed_out;
    struct rt_mutex mu;
    /* Idle contexts, the most recently used first; guarded by mu. */
    struct rt_context *idle;
    /* owner of the contexts in `idle`, for the session's idle cache */
    struct rt_cache_owner cache_owner;
};

/* A plan and its reference count. The plan is freed when it has been retired and no run uses it. */
struct rt_plan_box {
    struct rt_plan *plan;
    int generation;
    /* The callable's mu guards row_analyses and analyse_again_ns. */
    struct rt_row_analyses row_analyses;
    /* If memory ran out in the last row-wise analysis, the earliest time of the next analysis;
     * otherwise 0. */
    int64_t analyse_again_ns;
    atomic_int refs;
};
struct rt_plan_box *rt_plan_box_ref(struct rt_plan_box *b);
void rt_plan_box_unref(struct rt_plan_box *b); /* does nothing if `b` is NULL */

void rt_plan_free(struct rt_plan *p);

#endif
