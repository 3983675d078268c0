/*
 * The pipeline: the table of all passes that make a plan, and the functions that run them.
 *
 * Owner: the caller frees a plan with rt_plan_free. Threads: any; a plan is built on the caller's
 * thread, which holds no lock. Errors: the message contains the node's name and the reason why no
 * plan can be made; after an error there is nothing to free.
 */
#ifndef RT_PIPELINE_H
#define RT_PIPELINE_H

#include "runtime/passes/passes.h"

enum pl_repeat {
    PL_ONCE,
    /* Consecutive passes of this kind run one after the other, and are repeated until none of them
     * changes the graph. */
    PL_TO_FIXED_POINT,
    /* If a pass of this kind changes the graph, the PL_TO_FIXED_POINT passes run, and the passes of
     * this kind start again from the first. The repetition ends when no pass of this kind changes
     * the graph. */
    PL_FUNCTIONALISE,
};

/* Restrictions on the graphs that a pass works on; 0 means all graphs. */
enum {
    PL_ON_FUSED = 1,  /* graphs of sessions that enable fusion */
    PL_ON_SERVED = 2, /* all graphs except those of restore and init ops (rt_call_spec.is_load) */
};

struct pl_pass {
    const char *name;
    /* A pass has either `run` or `change`. `change` sets *changed if it has changed the graph. */
    enum rt_status (*run)(struct pl_graph *g, struct rt_error *err);
    enum rt_status (*change)(struct pl_graph *g, bool *changed, struct rt_error *err);
    /* Name of a pass that must have run on the graph before this one. PL_EXTRACT stands for the
     * extraction of the graph (pl_extract). */
    const char *after;
    enum pl_repeat repeat;
    unsigned graphs;
    /* Whether the pass adds nodes of the model to the graph. Their edges may have types that their
     * readers do not expect. */
    bool imports;
};

#define PL_EXTRACT "extract"

/* Returns the table of passes, in order, for tools and tests. */
const struct pl_pass *pl_passes(int *n);

/* Makes a plan for the request `q`. This is the only entry point of the compiler. */
enum rt_status rt_plan_build(struct rt_session *s, const struct pl_request *q, int depth,
                             struct rt_plan **out, struct rt_error *err);
/* Makes the plan of a graph that has been extracted. Takes ownership of the graph and its arena. */
enum rt_status pl_build_graph(struct pl_graph *g, struct rt_plan **out, struct rt_error *err);

#endif
