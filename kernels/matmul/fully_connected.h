/*
 * A product with a constant right-hand matrix, packed once: for product.h's loops or, where those
 * do not do it (bfloat16 that the processor multiplies, a transposed left-hand side, old
 * processors), into the layout that oneDNN likes best. float and, computed in float, the halves.
 * Threads: once prepared it is only read, by as many runs at a time as there are, each with scratch
 * memory of its own.
 */
#ifndef KN_MATMUL_FULLY_CONNECTED_H
#define KN_MATMUL_FULLY_CONNECTED_H

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/matmul/gemm.h"
#include "kernels/matmul/fused_gemm.h"

struct kn_fully_connected {
    struct kn_gemm g;
    /* The loops' share of it: all if node.b, then nothing is dnnl's. In pieces, of rows or of
     * panels, between which it is asked whether to go on, and which cores may share. */
    struct kn_fused_gemm node;
    int64_t block_rows, block_panels;
    struct kn_dnnl dnnl; /* of `rows` rows: a large product runs in blocks, to be asked between them
                            whether it should go on */
    int64_t rows;
    /* The same for several cores: of `shard_rows` rows, and of those that are left. */
    struct kn_dnnl shard[2];
    int64_t shard_rows, n_slots; /* n_slots executions at a time; 0: on one core only */
    int64_t columns; /* > 0: of all rows so many columns, into memory of the slot, from own_at */
    size_t own_at;
    size_t slots_at, slot_bytes;  /* in scratch: oneDNN's, for each of them */
    struct kn_epilogue epilogue;  /* what oneDNN does not do of the node's */
    int bias;                     /* input that oneDNN adds; 0: none */
    bool activates;               /* oneDNN does the activation */
    size_t scratch_bytes;         /* of oneDNN */
    size_t epilogue_at;           /* in scratch: what an odd tail starts from, or a residual */
    const struct rt_pack *b;      /* NULL: the runtime keeps none; the product is a plain one */
    size_t a_at, c_at;            /* float copies of half operands in scratch; a in bfloat16 */
    bool bf16;                    /* dnnl multiplies bfloat16 */
    struct kn_bf16_panels panels; /* width > 0: b is in these, nothing is dnnl's */
};

/* Whether a product by such a matrix may be a packed one. */
bool kn_fully_connected_likely(const struct rt_info *matrix);
/* Whether packing input `input` pays for this product: it is constant, dense and of a good size. */
bool kn_fully_connected_pays(const struct rt_prep *p, int input, const struct kn_gemm *g);
/* Fills *s (zeroed memory). *scratch: what kn_fully_connected_run wants. On failure nothing is
 * held. */
enum rt_status kn_fully_connected_prepare(struct kn_fully_connected *s, struct rt_prep *p,
                                          int input, const struct kn_gemm *g, size_t *scratch);
void kn_fully_connected_clear(struct kn_fully_connected *s);
/* `b`: the plain matrix, used only where there is no pack. */
enum rt_status kn_fully_connected_run(const struct kn_fully_connected *s, const void *a,
                                      const void *b, void *c, void *scratch, struct rt_run *whole);

#endif
