/*
 * bfloat16 as an opt-in of a session (rt_tuning.bf16): constant matrices and filters are kept in
 * it, sums and results stay float.
 *
 * Where the processor multiplies bfloat16, oneDNN does the products; activations are rounded too.
 * A matrix too large for any cache is, everywhere, kept in panels of its own: its product reads
 * them at half the bytes, and sums in float what the activations are exactly.
 */
#ifndef KN_CPU_BF16_H
#define KN_CPU_BF16_H

#include "kernels/cpu/half.h"
#include "runtime/core/op.h"

/* Whether products of bfloat16 pay here. */
bool kn_bf16_multiplies(void);
/* A seam for tests, which try both ways on any processor: as if they did. Of the whole process, and
 * asked when nodes are prepared. */
void kn_bf16_pretend(bool yes);
/* y[i] = x[i], rounded. */
void kn_bf16_round(const float *x, struct kn_bfloat *y, int64_t n);

/* A constant matrix [k, n] in panels. */
struct kn_bf16_panels {
    int64_t k, n;
    int64_t width; /* columns of a panel; of this processor */
};
void kn_bf16_panels(struct kn_bf16_panels *p, int64_t k, int64_t n);
size_t kn_bf16_panels_bytes(const struct kn_bf16_panels *p);
/* `turned`: b is [n, k]. */
void kn_bf16_pack(const struct kn_bf16_panels *p, const float *b, bool transposed, void *packed);
/* c [m, n] = a [m, k] b, both dense. */
enum rt_status kn_bf16_gemm(const struct kn_bf16_panels *p, int64_t m, const float *a,
                            const void *packed, float *c, struct rt_run *r);

#endif
