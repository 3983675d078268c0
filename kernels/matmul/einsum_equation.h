/*
 * The equation of an Einsum, parsed as in TensorFlow, with its labels matched to the shapes of the
 * inputs. Labels may repeat in an operand (which reads a diagonal) or in the result (which is
 * written on a diagonal); "..." stands for axes that broadcast. Threads: pure.
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

/* An equation with its shapes. Each distinct label has an index i, its label id[i] and its length
 * dim[i]. */
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

/* Returns the index of a label, or -1 if no input has it. */
int kn_einsum_find(const struct kn_einsum_equation *e, int id);
/* Returns whether a label repeats. */
bool kn_einsum_has_diagonal(const struct kn_einsum_labels *l);

#endif
