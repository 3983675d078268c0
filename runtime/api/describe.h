/*
 * Descriptions of nodes and plans, for tools that print them. A description reports which steps
 * were fused into a node, how many operations it performs, which kernel runs it and why, and where
 * its outputs are stored.
 *
 * Owner: a description is in the given arena, except for the names of ops and kernels, which belong
 * to the session's registry. It may outlive the plan, which may be replaced while it is read.
 * Threads: any, also during runs; an arena is used by one thread.
 */
#ifndef RT_DESCRIBE_H
#define RT_DESCRIBE_H

#include "runtime/base/arena.h"
#include "runtime/exec/trace.h"

/* Returns the names of the steps that were fused into a node, separated by spaces, for example "mul
 * add relu" or "Sigmoid Mul". Returns "" if there are none, and NULL if memory runs out. */
const char *rt_node_fused(const struct rt_node *n, struct rt_arena *arena);

/* Returns the number of floating-point operations of the node. A multiplication and an addition
 * count as two. Returns 0 if the op does not report them (rt_op.flops) or the shapes are not known.
 * `in` and `out` describe the inputs and outputs as in a trace. */
double rt_node_flops(const struct rt_node *n, const struct rt_trace_output *in, int n_in,
                     const struct rt_trace_output *out, int n_out);

/* Returns the number of bytes that the node reads and writes. If the op gathers rows or elements of
 * a tensor, only the bytes of those rows or elements are counted. A view reads and writes no
 * bytes. */
double rt_node_bytes(const struct rt_node *n, const struct rt_trace_output *in, int n_in,
                     const struct rt_trace_output *out, int n_out);

/* Returns the size of a tensor in bytes, or 0 if its type has no fixed size or its shape is not
 * known. */
int64_t rt_trace_bytes(const struct rt_trace_output *t);

/* ---- plans ---- */

enum rt_where {
    /* location not known, because the node is not compiled and each run allocates its outputs */
    RT_WHERE_UNKNOWN,
    RT_WHERE_CONSTANT, /* a constant of the plan, or a value computed from shapes alone */
    RT_WHERE_FEED,
    RT_WHERE_ACTIVATION, /* in the activation buffer, at `offset` */
    /* in the activation buffer, in the place of an input that no later node reads */
    RT_WHERE_IN_PLACE,
    RT_WHERE_OWN, /* in a tensor with its own memory */
    RT_WHERE_VIEW,
    /* in the block of a region's stream on the accelerator, at `offset` */
    RT_WHERE_DEVICE,
};

struct rt_described_value {
    /* Name of the input's producer, for example "node" or "node:1". A constant that a fusion made
     * has the name of the step that uses it, for example "(mul)". */
    const char *from;
    enum rt_dtype dtype;
    /* the rank is -1 if the shape is not known before a run */
    struct rt_shape shape;
    enum rt_where where;
    int feed; /* index of the feed in its plan; set for RT_WHERE_FEED */
    size_t offset;
};

struct rt_described_node {
    const char *name, *op, *fused;
    int depth;           /* number of loops and branches that enclose the node */
    int segment;         /* index of the node's compiled segment, or -1 if it has none */
    bool is_step;        /* whether a run executes code for the node */
    bool on_accelerator; /* whether the kernel runs in a region of the accelerator */
    /* why the CPU runs the node although the session has an accelerator; otherwise NULL */
    const char *why_on_cpu;
    /* NULL if the node has no kernel or none has been chosen yet */
    const char *kernel;
    const char *why; /* why this kernel was chosen, or NULL if the reason is not recorded */
    const char *others;
    int n_in, n_out;
    struct rt_described_value *in, *out;
    /* sizes in bytes of the constants packed for the node, before and after packing */
    size_t plain_bytes, packed_bytes, scratch_bytes;
    double flops;
};

struct rt_described_plan {
    /* The nodes are in the plan's order. The nodes of a loop's condition and body follow the loop's
     * own node. */
    int n_nodes;
    struct rt_described_node *node;
    int n_segments;
    size_t activation_bytes; /* size in bytes of the largest activation buffer of a segment */
    size_t constant_bytes;
};

/*
 * Describes the callable's plan, as compiled for the shapes of its last run.
 */
struct rt_callable;
enum rt_status rt_callable_describe(struct rt_callable *c, struct rt_arena *arena,
                                    struct rt_described_plan *out, struct rt_error *err);
/* Describes a plan as rt_callable_describe does. */
struct rt_plan;
enum rt_status rt_plan_describe(struct rt_plan *p, struct rt_arena *arena,
                                struct rt_described_plan *out, struct rt_error *err);

#endif
