/*
 * GEMMs on a GPU by a library. The library is cuBLASLt (blas.c). cuBLASLt does not run without a
 * GPU, so the tests without a GPU replace it by tests/gpu/reference_blas.h.
 *
 * Owner: the caller of kc_blas_open, which closes the library after freeing all its plans. Threads:
 * any. `run` may be called on several threads at the same time, with different streams.
 */
#ifndef KC_BLAS_H
#define KC_BLAS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/cuda/precision.h"
#include "runtime/base/status.h"

struct cuda_gpu;
struct cuda_stream;

/*
 * A batch of GEMMs with an epilogue. Each GEMM is C [m, n] = A [m, k] B [k, n] + residual [m, n] +
 * bias [n]. All matrices are row-major. The matrices C of the batch are contiguous in memory, and
 * so are the matrices of the residual. A step of 0 means that all GEMMs of the batch share one
 * matrix A or one matrix B. All tensors have the type of the precision, and begin at multiples of
 * 64 bytes.
 */
struct kc_product {
    int64_t m, n, k;
    bool a_transposed, b_transposed; /* whether A is in memory as [k, m], or B as [n, k] */
    int64_t batches;
    int64_t a_step, b_step; /* number of elements between two matrices of the batch */
    bool has_residual, has_bias;
    enum kc_precision precision;
};

enum kc_product_tensor {
    KC_PRODUCT_A,
    KC_PRODUCT_B,
    KC_PRODUCT_C,
    KC_PRODUCT_RESIDUAL,
    KC_PRODUCT_BIAS,
    KC_PRODUCT_N_TENSORS
};

struct kc_blas_plan {
    struct kc_blas *blas;
    /* Size of the workspace. The caller of `run` provides the workspace, whose address must be a
     * multiple of 256. */
    size_t workspace_bytes;
};

struct kc_blas {
    struct cuda_gpu *gpu;
    /* Makes a plan. Fails with RT_FAILED_PRECONDITION if the library cannot compute the GEMM
     * with float32 sums and at most KC_BLAS_MOST_WORKSPACE bytes of workspace. */
    enum rt_status (*plan)(struct kc_blas *b, const struct kc_product *product,
                           struct kc_blas_plan **out, struct rt_error *err);
    void (*free_plan)(struct kc_blas_plan *p);
    /* Enqueues the GEMM on the stream. `address` contains the addresses of the tensors in the
     * GPU's memory. The addresses of tensors that the GEMM lacks are not read. C may share the
     * memory of the residual. */
    enum rt_status (*run)(const struct kc_blas_plan *p, const struct cuda_stream *stream,
                          void *const address[KC_PRODUCT_N_TENSORS], void *workspace,
                          struct rt_error *err);
    void (*close)(struct kc_blas *b);
};

enum { KC_BLAS_MOST_WORKSPACE = 32 << 20 };

/* Loads libcublasLt.so.13 for a GPU. Fails with RT_NOT_FOUND if the library is missing, and with
 * another status if it cannot be used. */
enum rt_status kc_blas_open(struct kc_blas **out, struct cuda_gpu *gpu, struct rt_error *err);

#endif
