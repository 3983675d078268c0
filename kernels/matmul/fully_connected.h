/*
 * Fully connected layers: a GEMM whose right-hand matrix is constant and packed once, for
 * packed_gemm.h's loops or, where those do not apply (the processor multiplies bfloat16, the
 * left-hand side is transposed, the processor is old), in the memory layout that oneDNN prefers.
 * float, and the half types, which are computed in float.
 *
 * Threads: after preparation the struct is only read, by any number of runs at a time, each with
 * scratch memory of its own.
 */
#ifndef KN_MATMUL_FULLY_CONNECTED_H
#define KN_MATMUL_FULLY_CONNECTED_H

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/matmul/gemm.h"
#include "kernels/matmul/fused_gemm.h"

struct kn_fully_connected {
    struct kn_gemm g;
    /* If node.b is not NULL, packed_gemm.h's loops compute all of it and oneDNN nothing. The GEMM
     * is then split into blocks of rows or panels, which cores may share, and between which the
     * deadline is checked. */
    struct kn_fused_gemm node;
    int64_t block_rows, block_panels;
    /*
     * The primitive for `rows` rows. A large GEMM runs in blocks, between which the deadline is
     * checked.
     */
    struct kn_dnnl dnnl;
    int64_t rows;
    /* Primitives for several cores: one of `shard_rows` rows, and one of the rows that are left. */
    struct kn_dnnl shard[2];
    int64_t shard_rows, n_slots; /* n_slots executions at a time; 0: on one core only */
    /* > 0: shards are this many columns of all rows instead, computed in the slot's memory at
     * own_at */
    int64_t columns;
    size_t own_at;
    /* offset in scratch memory of oneDNN's own, and its size for each slot */
    size_t slots_at, slot_bytes;
    struct kn_epilogue epilogue; /* the steps of the node's epilogue that oneDNN does not do */
    int bias;                    /* the input that oneDNN adds as bias; 0: none */
    bool activates;              /* oneDNN computes the activation */
    size_t scratch_bytes;        /* scratch memory that `dnnl` needs */
    /*
     * offset in scratch memory of the sums before a broadcast residual, or of a copy of the
     * residual
     */
    size_t epilogue_at;
    const struct rt_pack *b; /* NULL: the runtime keeps no packed bytes, and a plain GEMM is run */
    /* offsets in scratch memory: float copies of half operands, or a in bfloat16 */
    size_t a_at, c_at;
    bool bf16;                    /* `dnnl` multiplies bfloat16 */
    struct kn_bf16_panels panels; /* width > 0: b is packed in these, and oneDNN computes nothing */
};

/* Whether a GEMM with this right-hand matrix may be a packed one. */
bool kn_fully_connected_likely(const struct rt_info *matrix);
/* Whether packing input `input` pays for this GEMM: the input is constant, dense and neither too
 * small nor too large. */
bool kn_fully_connected_pays(const struct rt_prep *p, int input, const struct kn_gemm *g);
/* Fills *s, which is zeroed. *scratch: bytes that kn_fully_connected_run needs. On failure nothing
 * is held. */
enum rt_status kn_fully_connected_prepare(struct kn_fully_connected *s, struct rt_prep *p,
                                          int input, const struct kn_gemm *g, size_t *scratch);
void kn_fully_connected_clear(struct kn_fully_connected *s);
/* `b` is the plain matrix, used only where nothing is packed. */
enum rt_status kn_fully_connected_run(const struct kn_fully_connected *s, const void *a,
                                      const void *b, void *c, void *scratch, struct rt_run *whole);

#endif
