/*
 * Multiplies plain row-major matrices of every type that TensorFlow's MatMul accepts, and converts
 * arrays to and from float.
 *
 * float, double and complex use the serial build of OpenBLAS, which starts no threads.
 * kernels/cpu/openblas.c gives concurrent calls separate buffers. Half-precision types are computed
 * in float, and each result is rounded once. Integer overflow wraps around.
 */
#ifndef KN_MATMUL_GEMM_H
#define KN_MATMUL_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/types.h"
#include "runtime/core/op.h"

enum kn_trans { KN_AS_IS, KN_TRANS, KN_ADJOINT }; /* KN_ADJOINT means transposed and conjugated */

/* A GEMM: `C [m,n] = op(A) [m,k] op(B) [k,n]`. lda, ldb and ldc are the distances between rows in
 * memory, in elements. */
struct kn_gemm {
    enum rt_dtype dtype;
    enum kn_trans ta, tb;
    int64_t m, n, k, lda, ldb, ldc;
};

#define KN_GEMM_TYPES                                                                              \
    (KN_SET(KN_FLOATS) | KN_SET(KN_HALFS) | KN_SET(KN_COMPLEX) | RT_T(RT_I16) | RT_T(RT_I32) |     \
     RT_T(RT_I64))

/* Returns the size in bytes of the scratch memory that kn_gemm_run needs, or -1 if the size exceeds
 * the address space. */
int64_t kn_gemm_scratch(const struct kn_gemm *g);
void kn_gemm_run(const struct kn_gemm *g, const void *a, const void *b, void *c, void *scratch);
/* Adds the product of float or double matrices to C. All sizes must be at most INT32_MAX. */
void kn_gemm_add(const struct kn_gemm *g, const void *a, const void *b, void *c);
/* Multiplies as kn_gemm_run does, but splits a large multiplication into blocks, between which it
 * checks r's deadline. If `plain` is set, uses the reference loops. */
enum rt_status kn_gemm_blocks(const struct kn_gemm *g, bool plain, const void *a, const void *b,
                              void *c, void *scratch, struct rt_run *r);
/* Returns the cost of one multiplication in units of rt_run_spend, at most RT_WORK. */
int64_t kn_gemm_work(const struct kn_gemm *g);
/* Computes the GEMM with the reference loops, in any type that kn_gemm_run supports. Half-precision
 * types need no scratch memory. */
void kn_gemm_plain(const struct kn_gemm *g, const void *a, const void *b, void *c);

/* Converts n elements of any real type to floats. */
void kn_to_float(enum rt_dtype from, const void *src, float *dst, int64_t n);
/* Converts a matrix to floats. The rows of src are `stride` elements apart. r's deadline is checked
 * regularly, unless r is NULL. */
enum rt_status kn_to_float_rows(struct rt_run *r, enum rt_dtype from, const void *src,
                                int64_t stride, float *dst, int64_t rows, int64_t cols);
/* Convert floats to RT_F16, RT_BF16 or RT_F32. kn_from_float_rows writes rows that are `stride`
 * elements apart, and checks r's deadline regularly, unless r is NULL. */
void kn_from_float(enum rt_dtype to, const float *src, void *dst, int64_t n);
enum rt_status kn_from_float_rows(struct rt_run *r, enum rt_dtype to, const float *src, void *dst,
                                  int64_t stride, int64_t rows, int64_t cols);

#endif
