/* Which of a node's kernels runs it at these shapes. */
#include "runtime/plan.h"

static enum rt_status try_kernel(struct rt_prep *prep, const struct rt_kernel *k)
{
    struct rt_prepared *p = prep->self;
    p->kernel = k;
    if (!k->prepare)
        return RT_OK;
    const enum rt_status st = k->prepare(prep, &p->state);
    p->release = st ? NULL : prep->release;
    p->scratch_bytes = prep->scratch_bytes;
    return st;
}

enum rt_status rt_choose_kernel(struct rt_prep *prep, const struct rt_kernel *const *kernels, int n)
{
    const struct rt_kernel *best = NULL;
    int highest = 0;
    for (int k = 0; k < n; k++) {
        const int rank = kernels[k]->can ? kernels[k]->can(prep) : 1;
        if (rank > highest) {
            highest = rank;
            best = kernels[k];
        }
    }
    if (!best)
        return rt_fail(prep->err, RT_UNIMPLEMENTED, "no kernel of %s takes these inputs (T=%s)",
                       prep->node->op->name,
                       prep->n_in ? rt_dtype_name(prep->in[0].dtype) : "none");
    return try_kernel(prep, best);
}
