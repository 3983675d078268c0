/*
 * The pipeline: the one table of the passes that make a plan, and the functions that run them.
 *
 * Owner: the caller frees a plan by rt_plan_free. Threads: any; a build stays on its thread and
 * holds no lock. Errors: the reason why no plan can be made, with the node's name; nothing is held
 * then.
 */
#ifndef RT_PIPELINE_H
#define RT_PIPELINE_H

#include "runtime/passes/passes.h"

enum pl_repeat {
    PL_ONCE,
    /* Consecutive passes of this kind run one after the other, and again until none of them changes
     * the graph. */
    PL_TO_FIXED_POINT,
    /* The first of these passes that changes the graph makes the PL_TO_FIXED_POINT passes run
     * again. Then these passes begin anew, until none of them changes the graph. */
    PL_FUNCTIONALISE,
};

/* The graphs that a pass works on; 0: all graphs. */
enum {
    PL_ON_FUSED = 1,  /* only in sessions that fuse and have no second device */
    PL_ON_SERVED = 2, /* not on restore and init (rt_call_spec.is_load) */
};

struct pl_pass {
    const char *name;
    /* A pass has one of both functions. `change` sets *changed if it changed the graph. */
    enum rt_status (*run)(struct pl_graph *g, struct rt_error *err);
    enum rt_status (*change)(struct pl_graph *g, bool *changed, struct rt_error *err);
    /* The pass that must have run on the graph before, or PL_EXTRACT: the extraction of the graph
     * (pl_extract). */
    const char *after;
    enum pl_repeat repeat;
    unsigned graphs;
    /* The pass brings in nodes of the model, whose edges may have other types than their readers
     * expect. */
    bool imports;
};

#define PL_EXTRACT "extract"

/* The table, in order, for tools and tests. */
const struct pl_pass *pl_passes(int *n);

/* The one entry to making a plan. */
enum rt_status rt_plan_build(struct rt_session *s, const struct pl_request *q, int depth,
                             struct rt_plan **out, struct rt_error *err);
/* Makes the plan of a graph that has been extracted. Takes the graph with its arena. */
enum rt_status pl_build_graph(struct pl_graph *g, struct rt_plan **out, struct rt_error *err);

#endif
