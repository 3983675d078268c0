/*
 * Descriptions of nodes and plans, for tools that print them: which steps were fused into a node,
 * how much arithmetic it does, which kernel runs it and why, where its outputs lie.
 *
 * Owner: a description lies in the given arena, or belongs to the plan, and is valid while both
 * live.
 * Threads: any, beside runs; an arena belongs to one thread.
 */
#ifndef RT_DESCRIBE_H
#define RT_DESCRIBE_H

#include "runtime/base/arena.h"
#include "runtime/exec/trace.h"

/* The steps that a fused node does besides its op, or instead of it, with blanks between them: "mul
 * add relu", "Sigmoid Mul"; "" if there are none, NULL: out of memory. */
const char *rt_node_fused(const struct rt_node *n, struct rt_arena *arena);

/* Floating-point operations, where a multiplication and an addition count as two; 0: the op says
 * nothing of them (rt_op.flops), or they are not known. Inputs and outputs are as in a trace. */
double rt_node_flops(const struct rt_node *n, const struct rt_trace_output *in, int n_in,
                     const struct rt_trace_output *out, int n_out);

/* Bytes that the node reads and writes. An op that takes rows or elements out of a tensor reads
 * only those; a view reads and writes none. */
double rt_node_bytes(const struct rt_node *n, const struct rt_trace_output *in, int n_in,
                     const struct rt_trace_output *out, int n_out);

/* Bytes of a tensor; 0: its type has no fixed size, or its shape is not known. */
int64_t rt_trace_bytes(const struct rt_trace_output *t);

/* ---- plans ---- */

enum rt_where {
    RT_WHERE_UNKNOWN,  /* a node that is not compiled: its outputs are allocated as they come */
    RT_WHERE_CONSTANT, /* the plan's constant, or evaluated from the shapes */
    RT_WHERE_FEED,
    RT_WHERE_ACTIVATION, /* in the activation buffer, at `offset` */
    /* in the activation buffer, written over an input that nobody reads any more */
    RT_WHERE_IN_PLACE,
    RT_WHERE_OWN,  /* a tensor of its own */
    RT_WHERE_VIEW, /* another tensor's bytes */
};

struct rt_described_value {
    /* The giver of an input: "node" or "node:1"; for a constant that a fusion made, the step that
     * uses it, as "(mul)". */
    const char *from;
    enum rt_dtype dtype;
    struct rt_shape shape; /* rank -1: not known before a run */
    enum rt_where where;
    int feed; /* RT_WHERE_FEED: index among its plan's feeds */
    size_t offset;
};

struct rt_described_node {
    const char *name, *op, *fused;
    int depth;          /* number of loops and branches around it */
    int segment;        /* the compiled segment that it is in; -1: none */
    bool is_step;       /* a run of the plan calls a function for it */
    const char *kernel; /* NULL: it has none, or none is chosen yet */
    const char *why;    /* why this kernel was chosen; NULL: not recorded */
    const char *others; /* names of the other candidate kernels, blanks between them */
    int n_in, n_out;
    struct rt_described_value *in, *out;
    /* plain and packed bytes of the constants that are packed for it */
    size_t plain_bytes, packed_bytes, scratch_bytes;
    double flops;
};

struct rt_described_plan {
    /* the nodes are in the plan's order; the condition and body of a loop follow the loop */
    int n_nodes;
    struct rt_described_node *node;
    int n_segments;
    size_t activation_bytes; /* size of the largest segment's activation buffer */
    size_t constant_bytes;
};

/*
 * Describes the callable's plan, as compiled for the shapes that ran last. Strings belong to the
 * plan or the arena: the callable must live on.
 */
struct rt_callable;
enum rt_status rt_callable_describe(struct rt_callable *c, struct rt_arena *arena,
                                    struct rt_described_plan *out, struct rt_error *err);
/* The part of rt_callable_describe that describes a plan. */
struct rt_plan;
enum rt_status rt_plan_describe(struct rt_plan *p, struct rt_arena *arena,
                                struct rt_described_plan *out, struct rt_error *err);

#endif
