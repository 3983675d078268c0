/*
 * Tails (see rt_op.tail): steps on a product's or convolution's output, as oneDNN's post-ops or by
 * a loop over one row at a time.
 */
#ifndef KN_CPU_TAIL_H
#define KN_CPU_TAIL_H

#include "kernels/cpu/dnnl.h"
#include "runtime/op.h"

enum kn_tail_op { KN_TAIL_MUL, KN_TAIL_ADD, KN_TAIL_RELU, KN_TAIL_RELU6 };
enum { KN_TAIL_STEPS = 4 };

struct kn_tail {
    int n;
    struct {
        enum kn_tail_op op;
        int input; /* of mul and add */
    } step[KN_TAIL_STEPS];
};

/*
 * Activations do not become post-ops: oneDNN's make 0 of NaN, TensorFlow's keep it. An activation
 * is always the last step; kn_tail_finish does it, in a pass of its own.
 */
void kn_tail_read(struct kn_tail *t, const struct rt_node *n);
/* y [rows, cols] in place. */
void kn_tail_apply(const struct kn_tail *t, const struct rt_run *r, float *y, int64_t rows,
                   int64_t cols);
/* The activation alone, on n elements. */
void kn_tail_finish(const struct kn_tail *t, float *y, int64_t n);
/* Attributes with the steps, but for the activation, as post-ops on an output of this rank (in
 * oneDNN's order, where axis 1 has the channels); *out must be destroyed. */
dnnl_status_t kn_tail_attr(const struct kn_tail *t, int rank, int64_t channels,
                           dnnl_primitive_attr_t *out);
/* Appends the steps' operands to the primitive's arguments. */
void kn_tail_args(const struct kn_tail *t, int rank, int64_t channels, struct kn_dnnl *d);
/* Their bytes, in the same order; returns how many. */
int kn_tail_data(const struct kn_tail *t, const struct rt_run *r, const void **data);

#endif
