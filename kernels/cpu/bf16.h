/*
 * bfloat16 as an opt-in of a session (rt_tuning.bf16): constant matrices and filters are stored in
 * bfloat16, while sums and results stay float.
 *
 * Where the processor multiplies bfloat16, oneDNN computes the matrix multiplications and
 * activations are rounded too. A matrix that is too large for any cache is, on every processor,
 * packed into bfloat16 panels of our own: the GEMM reads half the bytes of float, converts them to
 * float, and multiplies and adds in float, so that activations are not rounded.
 */
#ifndef KN_CPU_BF16_H
#define KN_CPU_BF16_H

#include "kernels/cpu/half.h"
#include "runtime/core/op.h"

/* Whether matrix multiplications in bfloat16 pay on this processor. */
bool kn_bf16_multiplies(void);
/* For tests, which try both ways on any processor: kn_bf16_multiplies returns true. Applies to the
 * whole process, to nodes that are prepared afterwards. */
void kn_bf16_pretend(bool yes);
/* y[i] = x[i], rounded to bfloat16. */
void kn_bf16_round(const float *x, struct kn_bfloat *y, int64_t n);

/* A constant matrix [k, n] packed into panels. */
struct kn_bf16_panels {
    int64_t k, n;
    int64_t width; /* columns of a panel; depends on the processor */
};
void kn_bf16_panels(struct kn_bf16_panels *p, int64_t k, int64_t n);
size_t kn_bf16_panels_bytes(const struct kn_bf16_panels *p);
/* Packs b [k, n] into panels. `transposed`: b is [n, k]. */
void kn_bf16_pack(const struct kn_bf16_panels *p, const float *b, bool transposed, void *packed);
/* GEMM: c [m, n] = a [m, k] b, with a and c dense. */
enum rt_status kn_bf16_gemm(const struct kn_bf16_panels *p, int64_t m, const float *a,
                            const void *packed, float *c, struct rt_run *r);

#endif
