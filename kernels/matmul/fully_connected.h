/*
 * A fully connected layer is a GEMM whose right-hand matrix is constant and packed once. It is
 * packed for packed_gemm.h's loops or, where those do not apply (the processor multiplies bfloat16
 * or is old, or the left-hand side is transposed), in the memory layout that oneDNN prefers. Types
 * are float and the half-precision types, which are computed in float.
 *
 * Threads: after preparation the struct is only read, by any number of concurrent runs, each with
 * its own scratch memory.
 */
#ifndef KN_MATMUL_FULLY_CONNECTED_H
#define KN_MATMUL_FULLY_CONNECTED_H

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/matmul/gemm.h"
#include "kernels/matmul/fused_gemm.h"

struct kn_fully_connected {
    struct kn_gemm g;
    /* If node.b is not NULL, packed_gemm.h's loops compute the complete GEMM, and oneDNN is not
     * used. The GEMM is then split into blocks of rows or panels, which cores may share, and
     * between which the deadline is checked. */
    struct kn_fused_gemm node;
    int64_t block_rows, block_panels;
    /*
     * The primitive for `rows` rows. A large GEMM runs in blocks, between which the deadline is
     * checked.
     */
    struct kn_dnnl dnnl;
    int64_t rows;
    /* Primitives for several cores, one for `shard_rows` rows and one for the remaining rows. */
    struct kn_dnnl shard[2];
    /* n_slots is the number of concurrent executions, or 0 if only one core is used */
    int64_t shard_rows, n_slots;
    /* If positive, a shard computes `columns` columns of all rows, in the slot's memory at own_at.
     * Otherwise a shard computes all columns of some rows. */
    int64_t columns;
    size_t own_at;
    /* Each concurrent execution has a slot of slot_bytes bytes. The first slot begins at offset
     * slots_at of scratch memory. */
    size_t slots_at, slot_bytes;
    struct kn_epilogue epilogue; /* the steps of the node's epilogue that oneDNN does not compute */
    /* index of the input that oneDNN adds as bias, or 0 if there is none */
    int bias;
    bool activates;       /* whether oneDNN computes the activation */
    size_t scratch_bytes; /* number of bytes of scratch memory that `dnnl` needs */
    /*
     * Offset in scratch memory at which the sums are stored before a broadcast residual is added,
     * or at which a copy of the residual is stored.
     */
    size_t epilogue_at;
    /* the packed weights, or NULL if the runtime keeps no packed bytes and a plain GEMM runs */
    const struct rt_pack *b;
    /* Offsets in scratch memory at which float copies of half-precision operands, or a bfloat16
     * copy of operand a, begin. */
    size_t a_at, c_at;
    bool bf16; /* whether `dnnl` multiplies bfloat16 numbers */
    /* If `panels.width` is positive, b is packed into these panels, and oneDNN is not used. */
    struct kn_bf16_panels panels;
};

/* Returns whether a GEMM with this right-hand matrix may use packed weights. */
bool kn_fully_connected_likely(const struct rt_info *matrix);
/* Returns whether packing input `input` pays off for this GEMM. The input must be constant, dense
 * and neither too small nor too large. */
bool kn_fully_connected_pays(const struct rt_prep *p, int input, const struct kn_gemm *g);
/* Prepares *s, which the caller has zeroed. Sets *scratch to the number of bytes that
 * kn_fully_connected_run needs. On failure, *s owns nothing. */
enum rt_status kn_fully_connected_prepare(struct kn_fully_connected *s, struct rt_prep *p,
                                          int input, const struct kn_gemm *g, size_t *scratch);
void kn_fully_connected_clear(struct kn_fully_connected *s);
/* Runs the GEMM. `b` is the plain matrix, which is used only if no packed form of it exists. */
enum rt_status kn_fully_connected_run(const struct kn_fully_connected *s, const void *a,
                                      const void *b, void *c, void *scratch, struct rt_run *whole);

#endif
