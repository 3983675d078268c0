/*
 * bfloat16 arithmetic, which a session can enable (rt_tuning.bf16). Constant matrices and filters
 * are stored in bfloat16. Sums and results stay float.
 *
 * On processors with bfloat16 instructions, oneDNN computes the matrix multiplications, and
 * activations are rounded too.
 *
 * On every processor, a matrix that is too large for any cache is packed into Slipway's own
 * bfloat16 panels. The GEMM reads half as many bytes as with float weights, converts them to float,
 * and computes in float. Activations are not rounded.
 */
#ifndef KN_CPU_BF16_H
#define KN_CPU_BF16_H

#include "kernels/cpu/half.h"
#include "runtime/core/op.h"

/* Returns whether matrix multiplications in bfloat16 pay off on this processor. */
bool kn_bf16_multiplies(void);
/* Makes kn_bf16_multiplies return `yes`, for tests that cover both cases on any processor. Affects
 * nodes that the process prepares afterwards. */
void kn_bf16_pretend(bool yes);
/* Sets y[i] to x[i], rounded to bfloat16. */
void kn_bf16_round(const float *x, struct kn_bfloat *y, int64_t n);

/* A constant matrix [k, n] in packed form, as panels of columns. */
struct kn_bf16_panels {
    int64_t k, n;
    int64_t width; /* number of columns per panel, which depends on the processor */
};
void kn_bf16_panels(struct kn_bf16_panels *p, int64_t k, int64_t n);
size_t kn_bf16_panels_bytes(const struct kn_bf16_panels *p);
/* Packs matrix b [k, n], or [n, k] if `transposed`, into panels. */
void kn_bf16_pack(const struct kn_bf16_panels *p, const float *b, bool transposed, void *packed);
/* Computes `c [m, n] = a [m, k] b`, where b is the packed matrix, and a and c are dense. */
enum rt_status kn_bf16_gemm(const struct kn_bf16_panels *p, int64_t m, const float *a,
                            const void *packed, float *c, struct rt_run *r);

#endif
