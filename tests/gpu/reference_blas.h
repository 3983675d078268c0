/*
 * An implementation of kernels/cuda/library/blas.h for tests on the fake driver. This
 * implementation multiplies matrices with plain loops, as work on the fake driver's streams.
 * Programs that are linked with LINKER:--wrap=kc_blas_open use it instead of cuBLASLt if the
 * environment variable SLIPWAY_TEST_BLAS is set. The values of the variable are:
 * - all: The reference computes all GEMMs.
 * - bare: The reference computes only GEMMs without an epilogue.
 * - none: The reference computes nothing.
 */
#ifndef TESTS_GPU_REFERENCE_BLAS_H
#define TESTS_GPU_REFERENCE_BLAS_H

#include "kernels/cuda/library/blas.h"

/* Returns the number of GEMMs that the reference has enqueued. A batched GEMM counts as one. */
int reference_blas_runs(void);

enum rt_status __real_kc_blas_open(struct kc_blas **out, struct cuda_gpu *gpu,
                                   struct rt_error *err);
enum rt_status __wrap_kc_blas_open(struct kc_blas **out, struct cuda_gpu *gpu,
                                   struct rt_error *err);

#endif
