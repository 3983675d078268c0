/*
 * The contract of ops and kernels. An op is described in three parts:
 *
 *   schema  (schema.h) names and types, generated from TensorFlow's registry
 *   op      struct rt_op, the device-independent part: effect, check, infer and row rule (infer.h)
 *   kernel  (kernel.h) struct rt_kernel: prepare and run, for one device and a set of types
 *
 * An op and its kernels are in one file under kernels/ and have one row in kernels/table.inc. This
 * header includes all three parts, because the file of an op needs them.
 *
 * Owner: an op is static data. Threads: `check`, `infer`, `rows` and `epilogue` are pure functions.
 */
#ifndef RT_OP_H
#define RT_OP_H

#include "runtime/core/infer.h"
#include "runtime/core/kernel.h"
#include "runtime/core/registry.h"

enum rt_effect {
    /* The outputs depend only on the inputs. The node may be folded, merged, or dropped if
     * unused. */
    RT_PURE,
    /* The node reads a resource. It may be dropped if unused, or merged with an equal node if no
     * write comes between the two. */
    RT_READS,
    /* The node changes a resource. It always runs, in order, and signatures that contain it are not
     * batched. */
    RT_WRITES,
    /* The node draws random numbers. It is dropped if unused, but never folded or merged. */
    RT_RANDOM,
    /* The node uses a resource on which runs wait for each other, such as a queue. It always runs,
     * in order, and may call rt_run_wait. Signatures that contain it are not batched. */
    RT_BLOCKS,
    RT_IO, /* The node reads files, asserts or prints. It is never folded, merged or dropped. */
};

enum { RT_FLOPS_INPUTS = 3 }; /* maximum number of inputs whose shapes are passed to rt_op.flops */

/* What rt_op.make needs to make a resource. */
struct rt_make {
    const struct rt_node *node;
    /* the node's inputs, which are loaded constants; NULL for a resource that a run asks for by the
     * name of its node (rt_run_resource) */
    const struct rt_tensor *in;
    /* The pool of the session's state. Memory whose size the node's attributes or inputs decide
     * comes from this pool, so that it counts towards the limits of the load and of the state. */
    struct rt_pool *pool;
    /* Called before and during work that may take long: fails if the session ends, or if it holds
     * more memory than its load may have. */
    const struct rt_check *check;
    struct rt_error *err;
};

struct rt_op {
    const char *name;
    enum rt_effect effect;
    /* bit k is set if `infer` reads the value of input k (small integers in host memory) */
    uint64_t shape_in;
    /* Refuses combinations of attributes that every run would refuse. Called at import. May be
     * NULL. */
    enum rt_status (*check)(const struct rt_node *n, struct rt_error *err);
    /*
     * Infers output shapes from input shapes and known values. Dimensions that cannot be inferred
     * stay unknown. Refuses only inputs that every run would refuse, with TensorFlow's error
     * message. `infer` is called with exact shapes before the first run with these shapes. If a
     * shape is unknown even then, `run` must allocate the output (rt_out). If `infer` is NULL, no
     * output shape is known before the node has run.
     */
    enum rt_status (*infer)(struct rt_infer *x);
    void (*rows)(struct rt_rows *r); /* row rule; if NULL, all outputs are RT_DEP_MIXED */
    /*
     * If this node accepts an epilogue for output 0 (runtime/fusion/epilogue.h), returns the length
     * of the output's last axis and sets *rank to the output's rank. Otherwise returns 0. Only
     * constants in `in` have a shape. `epilogue` is NULL if the op's CPU kernels cannot apply an
     * epilogue.
     */
    int64_t (*epilogue)(const struct rt_node *n, const struct rt_info *in, int *rank);
    /*
     * `slot_kind` and `make` are set for ops that make the handle of a session's resource
     * (VarHandleOp, HashTableV2, VariableV2). These ops have no kernel. The session calls `make`
     * for each key (slot_kind, container, shared_name or node name) that it does not have yet, and
     * the compiler folds the handle to a constant. The caller of `make` owns the reference in *out.
     */
    const char *slot_kind;
    enum rt_status (*make)(const struct rt_make *make, struct rt_object **out);
    /* Refuses an existing resource whose properties differ from the node's attributes. Called for
     * each node that shares the resource. May be NULL. */
    enum rt_status (*matches)(const struct rt_node *n, const struct rt_object *o,
                              struct rt_error *err);
    /* Whether `infer` also reads the value of the last input (ConcatV2's axis). The index of that
     * input depends on the number of inputs. */
    bool shape_in_last;
    /* Whether output 0 always has the bytes of input 0, with a shape that `infer` finds from exact
     * input shapes (Reshape, Identity, Squeeze). A specialisation does not run such a node. */
    bool is_view;
    /* Whether the op reads only those elements of input 0 that it outputs (GatherV2, Slice). */
    bool is_gather;
    /*
     * Returns the number of floating-point operations of a run, or 0 if it is not known; a
     * multiplication and an addition count as two. `in` contains the shapes of the first n_in
     * inputs, where n_in is at least 2 and at most RT_FLOPS_INPUTS. `out` is the shape of output 0.
     * A rank may be -1. `flops` is NULL for ops whose time is not spent in arithmetic.
     */
    double (*flops)(const struct rt_node *n, const struct rt_shape *in, int n_in,
                    const struct rt_shape *out);
    /* The schema of an internal op, made by RT_FUSED_OP (fused_op.h), or NULL if the schema is
     * TensorFlow's. The name of an internal op begins with '_', and no file may use it. */
    const struct rt_schema *internal_schema;
};
/* Returns whether `infer` reads the value of input k, according to shape_in and shape_in_last.
 * Callers use this function instead of reading the members. */
static inline bool rt_op_reads_value(const struct rt_op *op, int k, int n_in)
{
    return (k < 64 && (op->shape_in >> k & 1)) || (op->shape_in_last && k == n_in - 1);
}
/* Returns the number of elements of a shape as a double, for rt_op.flops, or 0 if the rank is
 * unknown. */
static inline double rt_shape_elements(const struct rt_shape *s)
{
    double n = 1;
    for (int d = 0; d < s->rank; d++)
        n *= (double)s->dim[d];
    return s->rank < 0 ? 0 : n;
}

#endif
