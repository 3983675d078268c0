/*
 * The matrix product that everything here with constant weights is made of: float32
 *
 *     c [rows, n] = activation(a [rows, k] x b [k, n] + bias + residual)
 *
 * b is packed once, into panels of neighbouring columns; the packed bytes depend on k, n and the
 * panel's width, which is the instruction set's (`panel`: part of the key under which they are
 * kept). k and n are any, rows too: few of them are as right, and nearly as fast, as many.
 *
 * An output's sum is bias + residual and then one product after the other in the order of k: it
 * does not depend on the number of rows, nor on how rows, panels and k are cut. A NaN or infinity
 * of an operand goes where it would go in the plain sum.
 *
 * Threads: pure. Nothing is allocated. Rows of a and c are any number of floats apart; nothing
 * behind their last row's last column is touched.
 */
#ifndef KN_MATMUL_PACKED_GEMM_H
#define KN_MATMUL_PACKED_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kn_packed_gemm_loops;

struct kn_packed_gemm {
    int64_t k, n;
    bool reuse; /* the next product is by the same packed floats: they may still be in the cache */
    /* by kn_packed_gemm_init */
    int64_t panel;  /* columns that are packed together */
    int64_t panels; /* how many of those; the last one's columns may be fewer */
    bool in_cache;  /* small enough for that */
    const struct kn_packed_gemm_loops *loops;
};

/* Fills in the rest from k and n, which may be 0. False: sizes beyond what can be addressed. */
bool kn_packed_gemm_init(struct kn_packed_gemm *p);
size_t kn_packed_gemm_pack_bytes(const struct kn_packed_gemm *p);
/* b [k, n], or, if `turned`, [n, k], with ldb floats between rows. `scale` (NULL: none): n floats
 * by which the columns are multiplied. dst: 64-byte aligned. */
void kn_packed_gemm_pack(const struct kn_packed_gemm *p, const float *b, int64_t ldb,
                         bool transposed, const float *scale, float *dst);

/* Whether the processor has what these loops are fast with: that no library is faster. */
bool kn_packed_gemm_is_fast(void);

/* What an output's sum starts from and how it ends. */
struct kn_gemm_post_ops {
    const float *bias;     /* n floats; NULL: none */
    const float *residual; /* [rows, n]; may be c itself, with the same ldc; NULL: none */
    int64_t ld_residual;   /* floats between its rows */
    bool clips;            /* the end: no less than `least`, no more than `most`; NaN stays NaN */
    float least, most;
    /* NULL, or called with every run of finished outputs, [rows, cols] of c from row `row` and
     * column `col` on, while they are in the nearest cache; `at`: the first of them. */
    void (*finish)(const void *arg, float *at, int64_t row, int64_t rows, int64_t col,
                   int64_t cols);
    const void *arg;
};

/*
 * A part of a product: panels [from, to) of all columns, and of the sums the terms [k_from, k_to).
 * A caller who has not all of a at once runs the parts of k one after the other: the first one
 * (k_from 0) starts the sums, those behind it add to c, and the last one (k_to == k) ends them.
 */
struct kn_packed_gemm_args {
    const float *packed;
    const float *a; /* row 0, column k_from */
    int64_t lda;
    float *c; /* row 0, column 0, wherever the panels begin */
    int64_t ldc;
    int64_t rows;
    int64_t from, to;
    int64_t k_from, k_to;
    const float *next; /* packed floats that are wanted behind them, asked for ahead; NULL: none */
};
/* ends NULL: none of it. */
void kn_packed_gemm_run(const struct kn_packed_gemm *p, const struct kn_packed_gemm_args *part,
                        const struct kn_gemm_post_ops *post_ops);

/* a [rows, k] x the whole of it, all rows being neighbours. */
static inline struct kn_packed_gemm_args kn_packed_gemm_whole(const struct kn_packed_gemm *p,
                                                              const float *packed, const float *a,
                                                              float *c, int64_t rows)
{
    return (struct kn_packed_gemm_args){packed, a,         p->k, c,    p->n, rows,
                                        0,      p->panels, 0,    p->k, NULL};
}

#endif
