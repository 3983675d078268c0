/*
 * An implementation of kernels/cuda/library/dnn.h for tests on the fake driver. This implementation
 * computes convolutions with plain loops, as work on the fake driver's streams. Programs that are
 * linked with LINKER:--wrap=kc_dnn_open use it instead of cuDNN if the environment variable
 * SLIPWAY_TEST_DNN is set. The values of the variable are:
 * - all: The reference computes the convolutions for which cuDNN has precompiled engines.
 * - no_relu: Like `all`, but the reference refuses a ReLU, as if cuDNN's ReLU did not preserve NaN.
 * - bare: The reference computes only convolutions without an epilogue.
 * - none: The reference computes nothing.
 */
#ifndef TESTS_GPU_REFERENCE_DNN_H
#define TESTS_GPU_REFERENCE_DNN_H

#include "kernels/cuda/library/dnn.h"

/* Returns the number of convolutions that the reference has enqueued. */
int reference_dnn_runs(void);

enum rt_status __real_kc_dnn_open(struct kc_dnn **out, struct cuda_gpu *gpu, struct rt_error *err);
enum rt_status __wrap_kc_dnn_open(struct kc_dnn **out, struct cuda_gpu *gpu, struct rt_error *err);

#endif
