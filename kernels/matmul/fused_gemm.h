/*
 * The GEMM of packed_gemm.h with a node's epilogue. The constant operand is packed once per
 * session, and the epilogue is computed as outputs are stored.
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
 * Packs input `input`, [k, n] or, if `transposed`, [n, k], for node->gemm (already initialised). A
 * constant scale of node->epilogue (already prepared) is folded in. The input holds floats or
 * half-precision numbers.
 */
enum rt_status kn_fused_gemm_pack(struct kn_fused_gemm *node, struct rt_prep *p, int input,
                                  bool transposed);
/* Returns the post-ops of this run. Their function `finish` applies the activation. If the residual
 * is broadcast, the post-ops contain neither the residual nor the activation. The output must have
 * node->gemm.n columns. */
struct kn_gemm_post_ops kn_fused_gemm_post_ops(const struct kn_fused_gemm *node,
                                               const struct rt_run *r);

#endif
