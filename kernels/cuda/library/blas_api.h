/*
 * The part of cuBLASLt that Slipway calls, declared here so that Slipway can be built without
 * cuBLASLt. The functions are loaded from libcublasLt.so.13 at run time (library.h).
 *
 * The names of the functions and the values are those of NVIDIA's cublasLt.h. Where cublasLt.h is
 * found, tests/gpu/check_blas_api.c compiles a call of each function with the arguments declared
 * here, and compares the constants and the structs.
 */
#ifndef KC_BLAS_API_H
#define KC_BLAS_API_H

#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct cublasLtContext;

/* Every function that returns int returns BLAS_OK or another status, for which GetStatusName
 * returns the name. */
enum blas_status { BLAS_OK = 0 };

enum blas_type { BLAS_FLOAT = 0, BLAS_HALF = 2, BLAS_BFLOAT16 = 14 };
enum blas_compute_type {
    BLAS_COMPUTE_FLOAT = 68,
    BLAS_COMPUTE_TF32 = 77, /* inputs may be rounded to TF32, and sums are float32 */
};
enum blas_transform { BLAS_PLAIN = 0, BLAS_TRANSPOSED = 1 };
/* BLAS_EPILOGUE_BIAS adds a vector to each column of D. The vector has as many elements as D has
 * rows. */
enum blas_epilogue { BLAS_EPILOGUE_NONE = 1, BLAS_EPILOGUE_BIAS = 4 };

/* attributes of a GEMM */
enum blas_product_attribute {
    BLAS_PRODUCT_TRANSFORM_A = 3, /* int32_t */
    BLAS_PRODUCT_TRANSFORM_B = 4, /* int32_t */
    BLAS_PRODUCT_EPILOGUE = 7,    /* uint32_t */
    BLAS_PRODUCT_BIAS = 8,        /* const void *: address of the vector */
};
/* Attributes of a layout. A layout describes a column-major matrix or a batch of such matrices. */
enum blas_layout_attribute {
    BLAS_LAYOUT_BATCHES = 5, /* int32_t */
    BLAS_LAYOUT_STEP = 6,    /* int64_t: distance between two matrices of the batch, in elements */
};
/* attributes of a preference, which restricts the algorithms */
enum blas_preference_attribute {
    BLAS_PREFERENCE_WORKSPACE = 1, /* uint64_t: maximum number of bytes */
    BLAS_PREFERENCE_REDUCTION = 3, /* uint32_t: allowed ways to add the parts of a split sum */
    /* uint32_t: alignment of A in bytes; the next three attributes are for B, C and D */
    BLAS_PREFERENCE_ALIGNMENT_A = 5,
    BLAS_PREFERENCE_ALIGNMENT_B = 6,
    BLAS_PREFERENCE_ALIGNMENT_C = 7,
    BLAS_PREFERENCE_ALIGNMENT_D = 8,
};
/* Parts of a sum are added in the compute type, in a fixed order. */
enum { BLAS_REDUCTION_COMPUTE_TYPE = 2 };

struct blas_algorithm {
    uint64_t data[8];
};
/* an algorithm that a heuristic proposes */
struct blas_proposal {
    struct blas_algorithm algorithm;
    size_t workspace_bytes;
    int status; /* BLAS_OK if the algorithm can be used */
    float waves;
    int reserved[4];
};

/* X(result, name without "cublasLt", parameters, arguments) for each function of the API. */
#define BLAS_FUNCTIONS(X)                                                                          \
    X(size_t, GetVersion, (void), ())                                                              \
    X(const char *, GetStatusName, (int status), (status))                                         \
    X(int, Create, (struct cublasLtContext * *handle), (handle))                                   \
    X(int, Destroy, (struct cublasLtContext * handle), (handle))                                   \
    X(int, MatmulDescCreate, (void **product, int compute_type, int scale_type),                   \
      (product, compute_type, scale_type))                                                         \
    X(int, MatmulDescDestroy, (void *product), (product))                                          \
    X(int, MatmulDescSetAttribute,                                                                 \
      (void *product, int attribute, const void *value, size_t bytes),                             \
      (product, attribute, value, bytes))                                                          \
    X(int, MatrixLayoutCreate,                                                                     \
      (void **layout, int type, uint64_t rows, uint64_t columns, int64_t column_step),             \
      (layout, type, rows, columns, column_step))                                                  \
    X(int, MatrixLayoutDestroy, (void *layout), (layout))                                          \
    X(int, MatrixLayoutSetAttribute,                                                               \
      (void *layout, int attribute, const void *value, size_t bytes),                              \
      (layout, attribute, value, bytes))                                                           \
    X(int, MatmulPreferenceCreate, (void **preference), (preference))                              \
    X(int, MatmulPreferenceDestroy, (void *preference), (preference))                              \
    X(int, MatmulPreferenceSetAttribute,                                                           \
      (void *preference, int attribute, const void *value, size_t bytes),                          \
      (preference, attribute, value, bytes))                                                       \
    X(int, MatmulAlgoGetHeuristic,                                                                 \
      (struct cublasLtContext * handle, void *product, void *a, void *b, void *c, void *d,         \
       void *preference, int capacity, struct blas_proposal *proposal, int *n),                    \
      (handle, product, a, b, c, d, preference, capacity, proposal, n))                            \
    X(int, Matmul,                                                                                 \
      (struct cublasLtContext * handle, void *product, const void *alpha, const void *a,           \
       void *a_layout, const void *b, void *b_layout, const void *beta, const void *c,             \
       void *c_layout, void *d, void *d_layout, const struct blas_algorithm *algorithm,            \
       void *workspace, size_t workspace_bytes, struct CUstream_st *stream),                       \
      (handle, product, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout,           \
       algorithm, workspace, workspace_bytes, stream))

#endif
