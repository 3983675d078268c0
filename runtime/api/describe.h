/*
 * What there is to say of nodes and plans, for tools that print it: what was fused into a node, how
 * much arithmetic it is, which kernel runs it and why, where its outputs lie.
 *
 * Owner: what comes out lies in the arena given, or is the plan's: it is good while both live.
 * Threads: any, beside runs; an arena is one thread's.
 */
#ifndef RT_DESCRIBE_H
#define RT_DESCRIBE_H

#include "runtime/base/arena.h"
#include "runtime/exec/trace.h"

/* The steps that a node does besides, or instead of, what its op says, with blanks between: "mul
 * add relu", "Sigmoid Mul"; "" if there are none, NULL: out of memory. */
const char *rt_node_fused(const struct rt_node *n, struct rt_arena *arena);

/* Floating-point operations of convolutions, products and what is made of them, a multiplication
 * and an addition being two; 0: of no account, or not known. Inputs and outputs as in a trace. */
double rt_node_flops(const struct rt_node *n, const struct rt_trace_output *in, int n_in,
                     const struct rt_trace_output *out, int n_out);

/* Bytes that are read and written: of a table from which rows are taken those rows, of what is
 * only seen under another shape none. */
double rt_node_bytes(const struct rt_node *n, const struct rt_trace_output *in, int n_in,
                     const struct rt_trace_output *out, int n_out);

/* Bytes of a tensor; 0: of a type or shape that does not say. */
int64_t rt_trace_bytes(const struct rt_trace_output *t);

/* ---- plans ---- */

enum rt_where {
    RT_WHERE_UNKNOWN,  /* of a node that is not compiled: wherever there is room */
    RT_WHERE_CONSTANT, /* of the plan, or known from the shapes */
    RT_WHERE_FEED,
    RT_WHERE_ACTIVATION, /* at `offset` */
    RT_WHERE_IN_PLACE,   /* the same, over an input that nobody reads any more */
    RT_WHERE_OWN,        /* a tensor of its own */
    RT_WHERE_VIEW,       /* another tensor's bytes */
};

struct rt_described_value {
    /* Of an input: "node", "node:1", or of a constant that a fusion made the step that it is for,
     * as "(mul)". */
    const char *from;
    enum rt_dtype dtype;
    struct rt_shape shape; /* rank -1: not known before a run */
    enum rt_where where;
    int feed; /* RT_WHERE_FEED: which of its plan's */
    size_t offset;
};

struct rt_described_node {
    const char *name, *op, *fused;
    int depth;          /* of loops and branches around it */
    int segment;        /* that was compiled with it, -1: none */
    bool is_step;       /* a run of the plan calls something for it */
    const char *kernel; /* NULL: none, or not yet chosen */
    const char *why;    /* this kernel; NULL: not said */
    const char *others; /* kernels that could have been, by name, blanks between */
    int n_in, n_out;
    struct rt_described_value *in, *out;
    size_t plain_bytes, packed_bytes, scratch_bytes; /* of constants that are packed for it */
    double flops;
};

struct rt_described_plan {
    int n_nodes; /* in their order; a loop's condition and body behind it */
    struct rt_described_node *node;
    int n_segments;
    size_t activation_bytes; /* of the largest segment */
    size_t constant_bytes;
};

/*
 * The plan, as compiled for the shapes that were run last. Strings are the plan's or the arena's:
 * the callable must live on.
 */
struct rt_callable;
enum rt_status rt_callable_describe(struct rt_callable *c, struct rt_arena *arena,
                                    struct rt_described_plan *out, struct rt_error *err);
/* For rt_callable_describe. */
struct rt_plan;
enum rt_status rt_plan_describe(struct rt_plan *p, struct rt_arena *arena,
                                struct rt_described_plan *out, struct rt_error *err);

#endif
