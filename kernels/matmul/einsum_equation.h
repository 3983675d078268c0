/*
 * The equation of an Einsum, parsed as in TensorFlow. Its labels are matched to the shapes of the
 * inputs. If a label repeats in an operand, a diagonal of the operand is read. If it repeats in the
 * result, a diagonal of the result is written. "..." stands for axes that are broadcast.
 *
 * Threads: all functions are pure.
 */
#ifndef KN_MATMUL_EINSUM_EQUATION_H
#define KN_MATMUL_EINSUM_EQUATION_H

#include "runtime/core/op.h"

/* A label is a character or, for an axis of "...", KN_EINSUM_ELLIPSIS plus the axis's position from
 * the right. */
enum { KN_EINSUM_MAX_LABELS = 2 * RT_MAX_RANK, KN_EINSUM_ELLIPSIS = 256 };

/* The labels of the axes of an operand or of the result. */
struct kn_einsum_labels {
    int n;
    int id[RT_MAX_RANK];
};

/* An equation and the lengths of its labels. The distinct label with index i is id[i], and its
 * length is dim[i]. */
struct kn_einsum_equation {
    int n_in, n_labels;
    int id[KN_EINSUM_MAX_LABELS];
    int64_t dim[KN_EINSUM_MAX_LABELS];
    struct kn_einsum_labels in[2], out;
};

/* Checks the node's equation before shapes are known (rt_op.check). */
enum rt_status kn_einsum_check(const struct rt_node *n, struct rt_error *err);
/* Matches the equation to the inputs' shapes, which must be exact. err is NULL if the caller needs
 * only the status. */
enum rt_status kn_einsum_solve(const struct rt_node *n, const struct rt_info *in,
                               struct kn_einsum_equation *e, struct rt_error *err);

/* Returns the index of label `id` among the labels of all inputs, or -1 if no input has it. */
int kn_einsum_find(const struct kn_einsum_equation *e, int id);
/* Returns whether a label occurs more than once in `l`. */
bool kn_einsum_has_diagonal(const struct kn_einsum_labels *l);

#endif
