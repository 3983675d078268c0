/*
 * One kernel on constants, without a plan: how the compiler evaluates a node before any run.
 *
 * Owner: everything is the caller's. Threads: that of the caller, on which the kernel stays
 * (`shared->alone`). Errors: as the kernel's, or of preparing it; nothing is held then.
 */
#ifndef RT_FOLD_H
#define RT_FOLD_H

#include "runtime/plan/plan.h"

/* What is folded: an op without sub-plans and handles. */
struct rt_fold {
    const struct rt_node *def;
    const char *name; /* for texts */
    int n_in, n_out;
};

/*
 * Output k_out of it on `in`: n_in tensors in host
 * memory, borrowed. Of `n` only def, name and the numbers of inputs and outputs are read. The
 * memory that the kernel takes counts in shared->pool, and so does *out.
 */
enum rt_status rt_fold_node(struct rt_run_shared *shared, const struct rt_fold *n,
                            const struct rt_tensor *in, int k_out, struct rt_tensor *out,
                            struct rt_error *err);

#endif
