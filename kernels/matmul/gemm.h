/*
 * Matrix products on plain row-major operands, for every type that TensorFlow's MatMul takes, and
 * the conversions of whole arrays that half types need around float kernels.
 *
 * float, double and complex go to OpenBLAS (the serial one: it starts no threads); halves are
 * computed in float and rounded once; integers wrap.
 */
#ifndef KN_MATMUL_GEMM_H
#define KN_MATMUL_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/types.h"
#include "runtime/core/op.h"

enum kn_trans { KN_AS_IS, KN_TRANS, KN_ADJOINT }; /* adjoint: transposed and conjugated */

/* C [m,n] = op(A) [m,k] x op(B) [k,n]; lda, ldb, ldc: elements between rows in memory. */
struct kn_gemm {
    enum rt_dtype dtype;
    enum kn_trans ta, tb;
    int64_t m, n, k, lda, ldb, ldc;
};

#define KN_GEMM_TYPES                                                                              \
    (KN_SET(KN_FLOATS) | KN_SET(KN_HALFS) | KN_SET(KN_COMPLEX) | RT_T(RT_I16) | RT_T(RT_I32) |     \
     RT_T(RT_I64))

/* Bytes of scratch that kn_gemm_run wants; -1: more than can be. */
int64_t kn_gemm_scratch(const struct kn_gemm *g);
void kn_gemm_run(const struct kn_gemm *g, const void *a, const void *b, void *c, void *scratch);
/* The same for a run that may be asked to end: in blocks when it is large. `plain`: by the obvious
 * loops. */
enum rt_status kn_gemm_blocks(const struct kn_gemm *g, bool plain, const void *a, const void *b,
                              void *c, void *scratch, struct rt_run *r);
/* What one product is to rt_run_spend; at most RT_WORK. */
int64_t kn_gemm_work(const struct kn_gemm *g);
/* The obvious loops, for the tests: any of the types above (halves too, without scratch). */
void kn_gemm_plain(const struct kn_gemm *g, const void *a, const void *b, void *c);

/* Any real type as floats. */
void kn_to_float(enum rt_dtype from, const void *src, float *dst, int64_t n);
/* The same for a matrix, `stride` elements between its rows; asks between pieces whether r should
 * end. r may be NULL: it is not asked. */
enum rt_status kn_to_float_rows(struct rt_run *r, enum rt_dtype from, const void *src,
                                int64_t stride, float *dst, int64_t rows, int64_t cols);
/* Floats as RT_F16, RT_BF16 or RT_F32; the rows of a matrix are apart in dst, and r is as above. */
void kn_from_float(enum rt_dtype to, const float *src, void *dst, int64_t n);
enum rt_status kn_from_float_rows(struct rt_run *r, enum rt_dtype to, const float *src, void *dst,
                                  int64_t stride, int64_t rows, int64_t cols);

#endif
