/*
 * The gradients of poolings: their windows, and what each op does in a window. pool_grad.c checks
 * and infers the shapes, pool_grad_run.c walks through the windows.
 */
#ifndef KN_NN_POOL_GRAD_H
#define KN_NN_POOL_GRAD_H

#include "kernels/nn/window.h"

enum kn_pool_grad_how {
    /* The gradient of a window goes to its first maximum, which is searched in the input. */
    KN_POOL_GRAD_FIRST,
    /* The gradient of a window goes to all elements of the input that are as large as its output.
     */
    KN_POOL_GRAD_EQUAL,
    /* A window's output is the gradient at the first element of the input that equals the window's
     * maximum (the gradient of the gradient). */
    KN_POOL_GRAD_PICK,
    /* The gradient of a window is spread over its elements. */
    KN_POOL_GRAD_SPREAD,
    /* The gradient of a window goes to the index that is an input. */
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
    /* channels of the input and of the pooling's output, which differ if a window spans channels */
    int64_t batch, channels, channels_out;
    struct kn_axis axis[KN_MAX_SPATIAL]; /* missing leading axes have length 1 */
};

/* The rt_kernel.run functions. The state is a struct kn_pool_grad. */
enum rt_status kn_pool_grad_run(struct rt_run *r);
enum rt_status kn_pool_grad_index_run(struct rt_run *r);

#endif
