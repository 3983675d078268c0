/*
 * The GPU kernels. Each kernel is a struct rt_kernel (runtime/core/kernel.h) whose device is "GPU".
 * Its `run` launches device kernels on rt_run.stream (gpu.h).
 */
#ifndef KC_TABLE_H
#define KC_TABLE_H

#include "runtime/core/kernel.h"

/* Returns the array of all GPU kernels, and sets *n to the number of kernels. */
const struct rt_kernel *kc_kernels(int *n);

/* Declares the functions of each module for rt_kernel.can, .prepare and .run
 * (runtime/core/kernel.h). MODULE.c defines the functions. */
#define KC_FUNCTIONS(X)                                                                            \
    X(attention)                                                                                   \
    X(conv)                                                                                        \
    X(conv_dnn)                                                                                    \
    X(copy)                                                                                        \
    X(depthwise)                                                                                   \
    X(elementwise) X(gather) X(matmul) X(matmul_blas) X(norm) X(pool) X(reduce) X(rnn) X(softmax)
#define X(module)                                                                                  \
    int kc_##module##_can(const struct rt_prep *p);                                                \
    enum rt_status kc_##module##_prepare(struct rt_prep *p, void **state);                         \
    enum rt_status kc_##module##_run(struct rt_run *r);
KC_FUNCTIONS(X)
#undef X
/* the rt_kernel.explain function of the gather kernels */
enum rt_status kc_gather_explain(const struct rt_run *r, int64_t position, int64_t value,
                                 struct rt_error *err);

#endif
