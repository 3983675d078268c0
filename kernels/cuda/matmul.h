/* Declarations shared by the GPU kernels for matrix products. */
#ifndef KC_HOST_MATMUL_H
#define KC_HOST_MATMUL_H

#include "kernels/cuda/device/matmul.h"
#include "runtime/core/op.h"

/* Fills in the parameter of the plain kernel for a MatMul, BatchMatMul or BatchMatMulV2 node,
 * except for the addresses of the tensors and the epilogue. Returns false if the batch has too many
 * axes. */
bool kc_matmul_fill(const struct rt_prep *p, struct kc_matmul *m);

#endif
