/*
 * The kernel of Einsum, in two files: einsum_plan.c makes a plan from an equation with its shapes,
 * and einsum_run.c runs the plan.
 *
 * Every tensor is accessed by a stride per label. Labels that only one operand has are summed while
 * the operand is copied. The rest is a batched GEMM over four groups of labels: batch, rows (only
 * in A), columns (only in B), and inner. A tensor in which each group collapses to one stride is
 * accessed in place; any other operand or result goes through a dense copy.
 *
 * Threads: the prepare function writes the plan, and runs only read it.
 */
#ifndef KN_MATMUL_EINSUM_INTERNAL_H
#define KN_MATMUL_EINSUM_INTERNAL_H

#include "kernels/matmul/einsum_equation.h"
#include "kernels/matmul/fully_connected.h"
#include "kernels/matmul/gemm.h"

/* A strided view of a tensor. Axes are ordered outermost first, and strides are in elements. */
struct kn_einsum_view {
    int n;
    int64_t dim[KN_EINSUM_MAX_LABELS], stride[KN_EINSUM_MAX_LABELS];
};

/* Returns the number of elements of a view. */
static inline int64_t kn_einsum_view_count(const struct kn_einsum_view *v)
{
    int64_t n = 1;
    for (int i = 0; i < v->n; i++)
        n *= v->dim[i];
    return n;
}

/* An operand or the result, with strides per label, both in the tensor and as the GEMM uses
 * them. */
struct kn_einsum_operand {
    /* strides in the tensor, or 0 if the tensor lacks the label or is broadcast along it */
    int64_t stride[KN_EINSUM_MAX_LABELS];
    bool has[KN_EINSUM_MAX_LABELS];
    int64_t elements;
    int64_t step[KN_EINSUM_MAX_LABELS]; /* strides that the GEMM uses */
    /* whether the GEMM uses a dense copy of the tensor, with the axes sorted by label group */
    bool dense;
    struct kn_einsum_view keep; /* the dense copy's axes, in order */
    struct kn_einsum_view sum;  /* axes that are summed while the tensor is copied */
    /* offsets in scratch memory at which the float copy of a half-precision tensor and the dense
     * copy begin */
    size_t wide_at, copy_at;
};

struct kn_einsum_plan {
    enum rt_dtype dtype, compute;
    int n_in, n_labels, group[KN_EINSUM_MAX_LABELS];
    int64_t dim[KN_EINSUM_MAX_LABELS];
    struct kn_einsum_operand in[2], out;
    bool empty;
    /* The following members are used only with two operands. */
    struct kn_einsum_view batch;
    int64_t batch_step[3][KN_EINSUM_MAX_LABELS];
    struct kn_gemm g;
    bool swapped; /* whether the GEMM computes the transpose of C, which is `B' A'` */
    bool packed;
    struct kn_fully_connected pack;
    size_t gemm_at;
};

/* The rt_kernel.prepare and .run functions of the Einsum kernel. */
enum rt_status kn_einsum_prepare(struct rt_prep *p, void **state);
enum rt_status kn_einsum_run(struct rt_run *r);

#endif
