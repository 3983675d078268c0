/*
 * Definitions that all device code (*.cu) shares. Device code is written in the common subset of
 * C11 and CUDA C++: nvcc compiles it for GPUs, and the tests compile it as C and run it on the
 * host, where tests/gpu/emulation.h defines the macros below.
 */
#ifndef KC_DEVICE_CODE_H
#define KC_DEVICE_CODE_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
/* Begins the definition of a kernel whose only parameter is the struct `type`, named `args`. */
#define KC_KERNEL(name, type, args) extern "C" __global__ void name(const struct type args)
/* Likewise, for a kernel in blocks of 256 threads that must use so few registers that a
 * multiprocessor can run `n` blocks at a time. */
#define KC_KERNEL_RESIDENT(name, type, args, n)                                                    \
    extern "C" __global__ void __launch_bounds__(256, n) name(const struct type args)
/* Begins the definition of a function that kernels call. */
#define KC_DEVICE static __device__ __forceinline__
/* Every address in device memory passes through KC_ADDRESS before the kernel uses it. */
#define KC_ADDRESS(p) (p)
/* The index of the block in the one-dimensional grid, and the number of blocks in the grid. */
#define KC_BLOCK    ((int64_t)blockIdx.x)
#define KC_N_BLOCKS ((int64_t)gridDim.x)
/* The index of the thread in its block, and the number of threads in a block. */
#define KC_THREAD        ((int)threadIdx.x)
#define KC_BLOCK_THREADS ((int)blockDim.x)
/* Defines `name`, an array of n elements that the threads of a block share. */
#define KC_SHARED(type, name, n) __shared__ type name[n]
/* Stands before a loop that must be unrolled, because arrays whose index varies at run time are
 * slow. */
#define KC_UNROLL _Pragma("unroll")
/* Stands before the name of a struct whose addresses are multiples of n bytes. */
#define KC_ALIGNED(n) __align__(n)
/* Waits until all threads of the block have reached the barrier. */
#define KC_BARRIER() __syncthreads()
/* Returns the `value` of lane `lane ^ mask` of the warp, where `lane` is the caller's lane. All
 * lanes of the warp must call it. */
#define KC_SHUFFLE_XOR(value, mask) __shfl_xor_sync(0xffffffffu, value, mask)
#endif

enum { KC_WARP = 32 };

/* The index of the thread in the grid, and the number of threads in the grid. */
#define KC_INDEX (KC_BLOCK * KC_BLOCK_THREADS + KC_THREAD)
#define KC_TOTAL (KC_N_BLOCKS * KC_BLOCK_THREADS)

#endif
