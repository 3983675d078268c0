/*
 * The pipeline: the one table of the passes that make a plan, and who runs them.
 *
 * Owner: a plan is its caller's, to be freed by rt_plan_free. Threads: any; a build stays on its
 * thread and holds no lock. Errors: what prevents a plan, with the node's name; nothing is held
 * then.
 */
#ifndef RT_PIPELINE_H
#define RT_PIPELINE_H

#include "runtime/passes/passes.h"

enum pl_repeat {
    PL_ONCE,
    PL_TO_FIXED_POINT, /* these passes one after the other, again until none of them changes
                          anything */
    /* The first of these passes that changes the graph makes it settle again, and then they begin
     * anew, until none changes anything. */
    PL_FUNCTIONALISE,
};

/* On which graphs a pass works; 0: on all. */
enum {
    PL_ON_FUSED = 1,  /* of sessions that fuse and have no second device */
    PL_ON_SERVED = 2, /* not of restore and init (rt_call_spec.is_load) */
};

struct pl_pass {
    const char *name;
    /* One of both; `change` says whether the graph is another one now. */
    enum rt_status (*run)(struct pl_graph *g, struct rt_error *err);
    enum rt_status (*change)(struct pl_graph *g, bool *changed, struct rt_error *err);
    const char *after; /* the pass that must have run on the graph before, or the cut: PL_CUT */
    enum pl_repeat repeat;
    unsigned graphs;
    bool imports; /* it brings in nodes of the model, whose edges may be of wrong types */
};

#define PL_CUT "cut"

/* The table, in order: for tools and tests. */
const struct pl_pass *pl_passes(int *n);

/* The one entry to making a plan. */
enum rt_status rt_plan_build(struct rt_session *s, const struct pl_request *q, int depth,
                             struct rt_plan **out, struct rt_error *err);
/* The plan of a graph that is cut out, which it takes, with its arena. */
enum rt_status pl_build_graph(struct pl_graph *g, struct rt_plan **out, struct rt_error *err);

#endif
