/*
 * The trace of one run, made on request: each node that ran, with its times and its outputs'
 * shapes, and the plan's own graph, in which functions are inlined and constants folded.
 *
 * Owner: the caller of rt_callable_run, which makes the arena and zeroes the rest. Everything here
 * is copied into that arena; is_truncated is set when the arena is too small.
 * Threads: a trace belongs to one run, and only that run's thread writes it until rt_callable_run
 * returns.
 */
#ifndef RT_TRACE_H
#define RT_TRACE_H

#include "runtime/core/graph.h"

struct rt_trace_output {
    enum rt_dtype dtype;
    struct rt_shape shape;
};

struct rt_trace_node {
    struct rt_trace_node *next; /* the nodes are listed in the order in which they ended */
    const char *name, *op;
    int device;               /* index into the session's devices: 0 is the CPU */
    int64_t start_ns, end_ns; /* CLOCK_REALTIME, or the thread's processor time (wants_cpu) */
    int n_outputs;
    struct rt_trace_output *outputs;
    /* Set with wants_kernels only, for nodes that have a kernel. `node` belongs to the plan, which
     * lives as long as the callable. */
    const struct rt_node *node;
    const char *kernel;
    int n_inputs;
    struct rt_trace_output *inputs;
};

struct rt_trace_graph_node {
    const char *name, *op;
    int device, n_inputs;
    const char **inputs; /* names of the values read, as "node" or "node:1" */
};

struct rt_trace {
    struct rt_arena *arena;
    bool wants_times, wants_graph, wants_kernels, wants_cpu;
    bool is_truncated;
    int n_nodes;
    struct rt_trace_node *first, *last;
    /* used by the runtime: the node that runs now, as rt_trace_kernel has noted it */
    struct rt_trace_node *begun;
    int n_graph_nodes;
    struct rt_trace_graph_node *graph;
};

/* The functions that the runtime calls. */
struct rt_kernel;
struct rt_plan;
struct rt_plan_step;
int64_t rt_trace_now(const struct rt_trace *t);
/* the op's name, which lives as long as the process */
const char *rt_trace_op(const struct rt_plan_step *n);
/* Notes the kernel and inputs of a node before it runs, for the next rt_trace_ran. */
void rt_trace_kernel(struct rt_trace *t, const struct rt_plan_step *n, const struct rt_kernel *k,
                     const struct rt_tensor *in);
void rt_trace_ran(struct rt_trace *t, const struct rt_plan_step *n, const struct rt_tensor *out,
                  int64_t start_ns);
void rt_trace_plan(struct rt_trace *t, const struct rt_plan *p);

#endif
