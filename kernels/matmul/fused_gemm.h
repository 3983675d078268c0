/*
 * The GEMM of packed_gemm.h with a node's epilogue: its constant operand is packed once per
 * session, and the epilogue is computed as outputs are stored.
 */
#ifndef KN_MATMUL_FUSED_GEMM_H
#define KN_MATMUL_FUSED_GEMM_H

#include "kernels/matmul/packed_gemm.h"
#include "kernels/fused/epilogue.h"

struct kn_fused_gemm {
    struct kn_packed_gemm gemm;
    struct kn_epilogue epilogue;
    const struct rt_pack *b; /* NULL: the input is no constant, so that nothing is packed */
};

/*
 * Packs input `input`, [k, n] or, if `transposed`, [n, k], for node->gemm (initialised), with the
 * scale of node->epilogue (prepared) folded in if it is constant. Floats or halves.
 */
enum rt_status kn_fused_gemm_pack(struct kn_fused_gemm *node, struct rt_prep *p, int input,
                                  bool transposed);
/* The post-ops of this run, with the activation as `finish`; the output has node->gemm.n columns.
 * If the residual is broadcast, residual and activation are left out. */
struct kn_gemm_post_ops kn_fused_gemm_post_ops(const struct kn_fused_gemm *node,
                                               const struct rt_run *r);

#endif
