/*
 * The product of product.h as a node's: its constant operand packed once per session, its tail
 * done at the store.
 */
#ifndef KN_MATMUL_FUSED_GEMM_H
#define KN_MATMUL_FUSED_GEMM_H

#include "kernels/matmul/packed_gemm.h"
#include "kernels/fused/epilogue.h"

struct kn_fused_gemm {
    struct kn_packed_gemm gemm;
    struct kn_epilogue epilogue;
    const struct rt_pack *b; /* NULL: the input is no constant, there is nothing to multiply with */
};

/*
 * Packs input `input`, [k, n] or, if `turned`, [n, k], for node->product (solved) with the scale of
 * node->tail (read), if that is a constant. Floats or halves.
 */
enum rt_status kn_fused_gemm_pack(struct kn_fused_gemm *node, struct rt_prep *p, int input,
                                  bool transposed);
/* How the outputs begin and end in this run, with the node's own activation as `finish`; the output
 * has node->product.n columns. Of an odd tail: without the residual and what is behind it. */
struct kn_gemm_post_ops kn_fused_gemm_post_ops(const struct kn_fused_gemm *node,
                                               const struct rt_run *r);

#endif
