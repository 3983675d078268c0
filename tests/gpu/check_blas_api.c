/*
 * Compares the declarations of kernels/cuda/library/blas_api.h with cublasLt.h. Compiling this file
 * is the test. The calls below compile only if each function accepts arguments of the types that
 * blas_api.h declares.
 */
#include <cublasLt.h>

#include "kernels/cuda/library/blas_api.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(BLAS_OK, CUBLAS_STATUS_SUCCESS);
SAME(BLAS_FLOAT, CUDA_R_32F);
SAME(BLAS_HALF, CUDA_R_16F);
SAME(BLAS_BFLOAT16, CUDA_R_16BF);
SAME(BLAS_COMPUTE_FLOAT, CUBLAS_COMPUTE_32F);
SAME(BLAS_COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(BLAS_PLAIN, CUBLAS_OP_N);
SAME(BLAS_TRANSPOSED, CUBLAS_OP_T);
SAME(BLAS_EPILOGUE_NONE, CUBLASLT_EPILOGUE_DEFAULT);
SAME(BLAS_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(BLAS_PRODUCT_TRANSFORM_A, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(BLAS_PRODUCT_TRANSFORM_B, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(BLAS_PRODUCT_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(BLAS_PRODUCT_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(BLAS_LAYOUT_BATCHES, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(BLAS_LAYOUT_STEP, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(BLAS_PREFERENCE_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(BLAS_PREFERENCE_REDUCTION, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(BLAS_PREFERENCE_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(BLAS_PREFERENCE_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(BLAS_PREFERENCE_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(BLAS_PREFERENCE_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(BLAS_REDUCTION_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);

/* The structures in cublasLt.h have the same members but different names. */
#define LIKE(ours, theirs)                                                                         \
    SAME(offsetof(struct blas_proposal, ours), offsetof(cublasLtMatmulHeuristicResult_t, theirs))
_Static_assert(sizeof(struct blas_algorithm) == sizeof(cublasLtMatmulAlgo_t), "algorithm");
_Static_assert(sizeof(struct blas_proposal) == sizeof(cublasLtMatmulHeuristicResult_t), "result");
LIKE(algorithm, algo);
LIKE(workspace_bytes, workspaceSize);
LIKE(status, state);
LIKE(waves, wavesCount);
LIKE(reserved, reserved);

#define cublasLtGetStatusName(status) cublasLtGetStatusName((cublasStatus_t)(status))
#define cublasLtMatmulDescCreate(product, compute_type, scale_type)                                \
    cublasLtMatmulDescCreate((cublasLtMatmulDesc_t *)(product),                                    \
                             (cublasComputeType_t)(compute_type), (cudaDataType)(scale_type))
#define cublasLtMatmulDescSetAttribute(product, attribute, value, bytes)                           \
    cublasLtMatmulDescSetAttribute(product, (cublasLtMatmulDescAttributes_t)(attribute), value,    \
                                   bytes)
#define cublasLtMatrixLayoutCreate(layout, type, rows, columns, step)                              \
    cublasLtMatrixLayoutCreate((cublasLtMatrixLayout_t *)(layout), (cudaDataType)(type), rows,     \
                               columns, step)
#define cublasLtMatrixLayoutSetAttribute(layout, attribute, value, bytes)                          \
    cublasLtMatrixLayoutSetAttribute(layout, (cublasLtMatrixLayoutAttribute_t)(attribute), value,  \
                                     bytes)
#define cublasLtMatmulPreferenceCreate(preference)                                                 \
    cublasLtMatmulPreferenceCreate((cublasLtMatmulPreference_t *)(preference))
#define cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, bytes)                  \
    cublasLtMatmulPreferenceSetAttribute(                                                          \
        preference, (cublasLtMatmulPreferenceAttributes_t)(attribute), value, bytes)
#define cublasLtMatmulAlgoGetHeuristic(handle, product, a, b, c, d, preference, capacity,          \
                                       proposal, n)                                                \
    cublasLtMatmulAlgoGetHeuristic(handle, product, a, b, c, d, preference, capacity,              \
                                   (cublasLtMatmulHeuristicResult_t *)(void *)(proposal), n)
#define cublasLtMatmul(handle, product, alpha, a, al, b, bl, beta, c, cl, d, dl, algorithm,        \
                       workspace, bytes, stream)                                                   \
    cublasLtMatmul(handle, product, alpha, a, al, b, bl, beta, c, cl, d, dl,                       \
                   (const cublasLtMatmulAlgo_t *)(const void *)(algorithm), workspace, bytes,      \
                   stream)

#define X(result, name, params, args)                                                              \
    result call_##name params;                                                                     \
    result call_##name params                                                                      \
    {                                                                                              \
        return (result)cublasLt##name args;                                                        \
    }
BLAS_FUNCTIONS(X)
#undef X
