/*
 * Declarations that pool_grad.c and pool_grad_run.c share for the gradients of pooling ops.
 * pool_grad.c checks and infers the shapes, and pool_grad_run.c computes the windows.
 */
#ifndef KN_NN_POOL_GRAD_H
#define KN_NN_POOL_GRAD_H

#include "kernels/nn/window.h"

enum kn_pool_grad_how {
    /* The gradient of a window goes to its first maximum, which is found in the input. */
    KN_POOL_GRAD_FIRST,
    /* The gradient of a window goes to all input elements that equal the window's output. */
    KN_POOL_GRAD_EQUAL,
    /* The gradient of the gradient: a window's output is the gradient at the first element of the
     * input that equals the window's maximum. */
    KN_POOL_GRAD_PICK,
    /* The gradient of a window is divided equally among its elements. */
    KN_POOL_GRAD_SPREAD,
    /* The gradient of a window goes to the element whose index is given by input 2. */
    KN_POOL_GRAD_INDEX,
};

struct kn_pool_grad_op {
    const char *name;
    enum kn_pool_grad_how how;
    int n_spatial;
    const char *depth;  /* the error if windows or strides span channels */
    const char *format; /* the error if channels precede the spatial axes */
};

struct kn_pool_grad {
    const struct kn_pool_grad_op *op;
    enum rt_dtype dtype;
    /* number of channels of the input and of the pooling's output; they differ if a window spans
     * channels */
    int64_t batch, channels, channels_out;
    struct kn_axis axis[KN_MAX_SPATIAL]; /* missing leading axes have length 1 */
};

/* The rt_kernel.run functions. The state is a struct kn_pool_grad. */
enum rt_status kn_pool_grad_run(struct rt_run *r);
enum rt_status kn_pool_grad_index_run(struct rt_run *r);

#endif
