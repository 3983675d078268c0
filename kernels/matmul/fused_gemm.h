/*
 * A GEMM of packed_gemm.h that also computes a node's epilogue. The constant operand is packed once
 * per session, and the epilogue is computed when outputs are stored.
 */
#ifndef KN_MATMUL_FUSED_GEMM_H
#define KN_MATMUL_FUSED_GEMM_H

#include "kernels/matmul/packed_gemm.h"
#include "kernels/fused/epilogue.h"

struct kn_fused_gemm {
    struct kn_packed_gemm gemm;
    struct kn_epilogue epilogue;
    const struct rt_pack *b; /* the packed input, or NULL if the input is not constant */
};

/*
 * Packs input `input` for node->gemm, which must be initialised. The input is [k, n] or, if
 * `transposed`, [n, k], and holds floats or half-precision numbers. A constant scale of
 * node->epilogue, which must be prepared, is folded in.
 */
enum rt_status kn_fused_gemm_pack(struct kn_fused_gemm *node, struct rt_prep *p, int input,
                                  bool transposed);
/* Returns the post-ops of this run. Their member `finish` applies the activation, unless it only
 * clips. If the residual is broadcast, the post-ops contain neither the residual nor the
 * activation. The output must have node->gemm.n columns. */
struct kn_gemm_post_ops kn_fused_gemm_post_ops(const struct kn_fused_gemm *node,
                                               const struct rt_run *r);

#endif
