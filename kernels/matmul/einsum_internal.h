/*
 * The kernel of Einsum, in two files: einsum_plan.c makes a plan from an equation with its shapes,
 * and einsum_run.c runs the plan.
 *
 * Every tensor has one stride per label. Labels that occur in only one operand and not in the
 * result are summed while that operand is copied. The other labels form the four groups of a
 * batched GEMM: batch, rows (only in A and the result), columns (only in B and the result) and
 * inner (not in the result). If a single stride can replace the strides of each group, the GEMM
 * accesses the tensor in place. Otherwise it uses a dense copy.
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

static inline int64_t kn_einsum_view_count(const struct kn_einsum_view *v)
{
    int64_t n = 1;
    for (int i = 0; i < v->n; i++)
        n *= v->dim[i];
    return n;
}

/* An operand or the result of the einsum. For each label, it has two strides: the stride in the
 * tensor and the stride that the GEMM uses. */
struct kn_einsum_operand {
    /* for each label, the stride in the tensor, or 0 if the tensor lacks the label or is broadcast
     * along it */
    int64_t stride[KN_EINSUM_MAX_LABELS];
    bool has[KN_EINSUM_MAX_LABELS];
    int64_t elements;
    int64_t step[KN_EINSUM_MAX_LABELS]; /* for each label, the stride that the GEMM uses */
    /* whether the GEMM uses a dense copy of the tensor, with the axes sorted by label group */
    bool dense;
    struct kn_einsum_view keep; /* axes of the dense copy, outermost first */
    struct kn_einsum_view sum;  /* axes that are summed while the tensor is copied */
    /* offsets, in scratch memory, of the float copy of a half-precision tensor and of the dense
     * copy */
    size_t wide_at, copy_at;
};

struct kn_einsum_plan {
    enum rt_dtype dtype, compute;
    int n_in, n_labels, group[KN_EINSUM_MAX_LABELS];
    int64_t dim[KN_EINSUM_MAX_LABELS];
    struct kn_einsum_operand in[2], out;
    bool empty;
    /* The members below are used only with two operands. */
    struct kn_einsum_view batch;
    int64_t batch_step[3][KN_EINSUM_MAX_LABELS];
    struct kn_gemm g;
    /* whether the GEMM computes the transpose of C as the product of the transposed B and A */
    bool swapped;
    bool packed;
    struct kn_fully_connected pack;
    size_t gemm_at;
};

/* The rt_kernel.prepare and .run functions of the Einsum kernel. */
enum rt_status kn_einsum_prepare(struct rt_prep *p, void **state);
enum rt_status kn_einsum_run(struct rt_run *r);

#endif
