/*
 * A float32 GEMM with a packed right-hand matrix. Constant weights are packed once; the keys and
 * values of attention are packed in each run. The GEMM computes
 *
 *   c [rows, n] = activation(a [rows, k] b [k, n] + bias + residual)
 *
 * b is packed into panels of neighbouring columns; kn_packed_gemm_offset defines the layout. The
 * packed bytes depend on k, n and the panel's width, which depends on the instruction set.
 * Therefore `panel` is part of the key of packed weights (rt_prep_pack). fused_gemm.c packs the
 * weights of products and of convolutions by GEMM, kernels/rnn/rnn.c those of recurrent layers,
 * kernels/conv/winograd.c and winograd_1d.c transformed filters, and
 * kernels/fused/fused_attention.c keys and values. k, n and rows may have any value. A GEMM with
 * few rows is nearly as efficient as one with many.
 *
 * The sum of an output element starts at bias + residual, and the products are added in the order
 * of k. The sum does not depend on the number of rows, nor on how rows, panels and k are split. A
 * NaN or infinity in an operand has the same effect as in a plain sum.
 *
 * Threads: all functions are pure, and none allocates memory. Rows of a and c may be any number of
 * floats apart; memory after the last column of the last row is not accessed.
 */
#ifndef KN_MATMUL_PACKED_GEMM_H
#define KN_MATMUL_PACKED_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kn_packed_gemm_loops;

struct kn_packed_gemm {
    int64_t k, n;
    /* set if the same packed floats will be multiplied again while they may still be in the
     * cache */
    bool reuse;
    /* kn_packed_gemm_init sets the members below */
    int64_t panel;  /* number of columns per panel */
    int64_t panels; /* number of panels, of which the last may have fewer columns */
    bool in_cache;  /* set if `reuse` is set and the packed floats fit in a core's own cache */
    const struct kn_packed_gemm_loops *loops;
};

/* Sets the other members from k, n (both may be 0) and `reuse`. Returns false if a size exceeds the
 * address space. */
bool kn_packed_gemm_init(struct kn_packed_gemm *p);
size_t kn_packed_gemm_pack_bytes(const struct kn_packed_gemm *p);
/* Packs b [k, n] or, if `transposed`, [n, k], whose rows are ldb floats apart. `scale` holds one
 * factor for each of the n columns, or is NULL. dst must be 64-byte aligned. */
void kn_packed_gemm_pack(const struct kn_packed_gemm *p, const float *b, int64_t ldb,
                         bool transposed, const float *scale, float *dst);

/* Returns the index of b[row][col] in the packed floats, for callers that read or write packed
 * floats themselves. */
static inline int64_t kn_packed_gemm_offset(const struct kn_packed_gemm *p, int64_t row,
                                            int64_t col)
{
    const int64_t in_panel = col % p->panel;
    return (col - in_panel) * p->k + row * p->panel + in_panel;
}

/* Returns whether this processor has an instruction set with which packed_gemm.c is at least as
 * fast as OpenBLAS and oneDNN. */
bool kn_packed_gemm_is_fast(void);

/* The post-ops of the GEMM: the initial value of each sum, and the steps that follow the complete
 * sum. */
struct kn_gemm_post_ops {
    const float *bias; /* n floats, or NULL if there is no bias */
    /* [rows, n], or NULL if there is no residual. The residual may be c itself if ld_residual
     * equals ldc. */
    const float *residual;
    int64_t ld_residual; /* number of floats from one row of the residual to the next */
    bool clips;          /* whether the sum is clipped to [least, most]; NaN stays NaN */
    float least, most;
    /* If not NULL, called with every block of finished outputs while they are still in the cache.
     * The block has `rows` rows and `cols` columns, and begins at row `row` and column `col` of c.
     * `at` points to its first output. */
    void (*finish)(const void *arg, float *at, int64_t row, int64_t rows, int64_t col,
                   int64_t cols);
    const void *arg;
};

/*
 * A part of a GEMM: panels [from, to) of the columns, and terms [k_from, k_to) of the sums. A
 * caller that has only some columns of `a` at a time runs the ranges of terms in order. The first
 * range (k_from 0) starts the sums, later ranges add to c, and the last range (k_to == k) finishes
 * the sums.
 */
struct kn_packed_gemm_args {
    const float *packed;
    const float *a; /* address of row 0, column k_from of a */
    int64_t lda;
    float *c; /* address of row 0, column 0 of c, even if the first panel is not panel 0 */
    int64_t ldc;
    int64_t rows;
    int64_t from, to;
    int64_t k_from, k_to;
    /* packed floats to prefetch because the caller will need them next, or NULL */
    const float *next;
};
/* Runs a part of the GEMM. If post_ops is NULL, there are no post-ops. */
void kn_packed_gemm_run(const struct kn_packed_gemm *p, const struct kn_packed_gemm_args *part,
                        const struct kn_gemm_post_ops *post_ops);

/* Returns the arguments of the complete GEMM on `a` of shape [rows, k]. The rows of `a` and of `c`
 * are contiguous. */
static inline struct kn_packed_gemm_args kn_packed_gemm_whole(const struct kn_packed_gemm *p,
                                                              const float *packed, const float *a,
                                                              float *c, int64_t rows)
{
    return (struct kn_packed_gemm_args){packed, a,         p->k, c,    p->n, rows,
                                        0,      p->panels, 0,    p->k, NULL};
}

#endif
