/*
 * The trace of one run, made on request. It lists each node that ran, with its times and the shapes
 * of its outputs. It also contains the plan's graph after functions have been inlined and constants
 * folded.
 *
 * Owner: the caller of rt_callable_run, which creates the arena for the trace and zeroes all other
 * members before the call. is_truncated is set if the arena is too small or too many nodes ran.
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
    struct rt_trace_node *next; /* next node, in the order in which the nodes completed */
    const char *name, *op;
    int device; /* 0 for the CPU, 1 for the session's accelerator */
    /* Start and end of the node's run, on CLOCK_REALTIME or, if wants_cpu is set, in the thread's
     * CPU time. */
    int64_t start_ns, end_ns;
    int n_outputs;
    struct rt_trace_output *outputs;
    /* The members below are set only if wants_kernels is set and the node has a kernel. `node`
     * belongs to the plan and is valid as long as the callable exists. */
    const struct rt_node *node;
    const char *kernel;
    int n_inputs;
    struct rt_trace_output *inputs;
};

struct rt_trace_graph_node {
    const char *name, *op;
    int device, n_inputs;
    const char **inputs; /* names of the values that the node reads, as "node" or "node:1" */
};

struct rt_trace {
    struct rt_arena *arena;
    bool wants_times, wants_graph, wants_kernels, wants_cpu;
    bool is_truncated;
    int n_nodes;
    struct rt_trace_node *first, *last;
    /* The running node, as recorded by rt_trace_kernel. Private to the runtime. */
    struct rt_trace_node *begun;
    int n_graph_nodes;
    struct rt_trace_graph_node *graph;
};

/* The runtime calls the functions below. */
struct rt_kernel;
struct rt_plan;
struct rt_plan_step;
int64_t rt_trace_now(const struct rt_trace *t);
/* Returns the name of the step's op. The string is valid until the process exits. */
const char *rt_trace_op(const struct rt_plan_step *n);
/* Records the kernel and inputs of a node that is about to run. The next rt_trace_ran adds them to
 * the node's entry. */
void rt_trace_kernel(struct rt_trace *t, const struct rt_plan_step *n, const struct rt_kernel *k,
                     const struct rt_tensor *in);
void rt_trace_ran(struct rt_trace *t, const struct rt_plan_step *n, const struct rt_tensor *out,
                  int64_t start_ns);
void rt_trace_plan(struct rt_trace *t, const struct rt_plan *p);

#endif
