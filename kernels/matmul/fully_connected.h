/*
 * A fully connected layer is a GEMM whose right-hand matrix is constant and packed once. Types are
 * float and the half-precision types, which are computed in float. There are three packed forms:
 *
 * - Normally, the matrix is packed for the loops of packed_gemm.h.
 * - If the session enables bfloat16, a very large matrix is packed into the panels of bf16.h.
 * - oneDNN's preferred memory layout is used if the processor lacks the instructions for fast
 *   loops, if the session uses the processor's bfloat16 instructions, or if the left-hand matrix is
 *   transposed.
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
    /* If node.b is not NULL, the loops of packed_gemm.h compute the GEMM, and oneDNN is not used.
     * The GEMM is then split into blocks of rows or panels. Cores may share the blocks, and the
     * deadline is checked between blocks. */
    struct kn_fused_gemm node;
    int64_t block_rows, block_panels;
    /*
     * The oneDNN primitive that computes `rows` rows. A GEMM with more rows runs in blocks of this
     * size, between which the deadline is checked.
     */
    struct kn_dnnl dnnl;
    int64_t rows;
    /* Primitives for a GEMM that is split by rows or columns: one for a complete shard, and one for
     * the rest. */
    struct kn_dnnl shard[2];
    /* A split by rows gives each shard `shard_rows` rows. n_slots is the number of shards that run
     * concurrently, or 0 if the GEMM is not split. */
    int64_t shard_rows, n_slots;
    /* If `columns` is positive, a shard computes this many columns of all rows, at offset own_at of
     * its slot. Otherwise a shard computes all columns of some rows. */
    int64_t columns;
    size_t own_at;
    /* Each concurrent shard has a slot of slot_bytes bytes in scratch memory. The first slot begins
     * at offset slots_at. */
    size_t slots_at, slot_bytes;
    struct kn_epilogue epilogue; /* the steps of the node's epilogue that oneDNN does not compute */
    /* index of the input that oneDNN adds as bias, or 0 if there is none */
    int bias;
    bool activates;       /* whether oneDNN computes the activation */
    size_t scratch_bytes; /* size in bytes of the scratch memory that `dnnl` needs */
    /*
     * Offset, in scratch memory, of the sums to which a broadcast residual is added, or of a copy
     * of the residual.
     */
    size_t epilogue_at;
    /* The packed weights: in the layout of `panels` if panels.width is positive, otherwise in the
     * layout that `dnnl` uses. NULL if node.b holds the weights, or if a plain GEMM is run. */
    const struct rt_pack *b;
    /* Offsets, in scratch memory, of the float copies of half-precision operands a and c. a_at is
     * also the offset of a bfloat16 copy of operand a. */
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
/* Prepares *s, which the caller has zeroed. Sets *scratch to the size in bytes of the scratch
 * memory that kn_fully_connected_run needs. On failure, *s owns nothing. */
enum rt_status kn_fully_connected_prepare(struct kn_fully_connected *s, struct rt_prep *p,
                                          int input, const struct kn_gemm *g, size_t *scratch);
void kn_fully_connected_clear(struct kn_fully_connected *s);
/* Runs the GEMM. `b` is the plain matrix, which is used only if no packed form of it exists. */
enum rt_status kn_fully_connected_run(const struct kn_fully_connected *s, const void *a,
                                      const void *b, void *c, void *scratch, struct rt_run *whole);

#endif
