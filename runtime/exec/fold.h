/*
 * Folds one node with constant inputs: runs the node's kernel without a plan, before any run.
 *
 * Owner: the caller owns all arguments. Threads: the kernel runs only on the caller's thread
 * (`shared->alone`). Errors: those of the kernel or of its preparation; after an error, the caller
 * has nothing to free.
 */
#ifndef RT_FOLD_H
#define RT_FOLD_H

#include "runtime/core/graph.h"
#include "runtime/core/tensor.h"

struct rt_run_shared;

/* The node to fold. It must be an op without sub-plans and without handles. */
struct rt_fold {
    const struct rt_node *def;
    const char *name; /* name of the node, for error messages */
    int n_in, n_out;
};

/*
 * Computes output k_out of the node on `in`, n_in borrowed tensors in host memory. Only def, name,
 * n_in and n_out of the node are read. shared->pool counts the memory of *out and all other memory
 * that the kernel allocates.
 */
enum rt_status rt_fold_node(struct rt_run_shared *shared, const struct rt_fold *n,
                            const struct rt_tensor *in, int k_out, struct rt_tensor *out,
                            struct rt_error *err);

#endif
