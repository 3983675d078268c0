/*
 * Functions that the ops on batches of matrices share: checks of shapes, the row rule, deadline
 * checks, and textbook algorithms for one matrix of each type (linalg.c).
 *
 * Threads: all functions are pure, except that they write their outputs.
 */
#ifndef KN_LINALG_LINALG_H
#define KN_LINALG_LINALG_H

#include "kernels/cpu/types.h"
#include "kernels/entry.h"

#define KN_LINALG(X)    KN_FLOATS(X) KN_COMPLEX(X)
#define KN_LINALG_TYPES (KN_SET(KN_FLOATS) | KN_SET(KN_COMPLEX))

/* ---- shapes ---- */

/* Refuses a first input that is not a batch of matrices. */
enum rt_status kn_matrices(struct rt_infer *x);
/* Refuses a first input that is not a batch of square matrices, with the error message `words`. */
enum rt_status kn_square_matrices(struct rt_infer *x, const char *words);
/* Refuses the first n inputs unless they have the same rank of at least 2 and the same dimensions
 * before the last two. */
enum rt_status kn_same_batch(struct rt_infer *x, int n);
enum rt_status kn_fail_pair(struct rt_error *err, const char *words, const struct rt_shape *a,
                            const struct rt_shape *b, const char *after);
/* Marks the op as row-wise along a batch axis. Every input that does not depend on the batch must
 * lack this axis or have length 1 along it. */
void kn_rows_matrices(struct rt_rows *r);
/* The row rule of ops whose only input is a batch of matrices. Outputs that lack the batch axes
 * have a constant shape and value. */
void kn_rows_batch(struct rt_rows *r);
int64_t kn_matrix_count(const struct rt_tensor *t);

/* Infers the shape of a triangular solve, whose batch axes broadcast. The first input is square, or
 * holds the bands of a square matrix as rows. */
enum rt_status kn_infer_triangular(struct rt_infer *x, bool banded);
/* Returns the offset in operand t, in elements, of matrix `i` of the output's broadcast batch. */
int64_t kn_batch_offset(const struct rt_tensor *t, const struct rt_tensor *out, int64_t i);

/* ---- deadline checks ---- */

/* The state of deadline checks. `ended` is set once the run has been cancelled or has passed its
 * deadline. The results are then invalid. */
struct kn_ask {
    struct rt_run *r;
    int64_t left;
    bool ended;
};
static inline bool kn_ends(struct kn_ask *q, int64_t work)
{
    q->ended = q->ended || rt_run_spend(q->r, &q->left, work) != RT_OK;
    return q->ended;
}

/* ---- one matrix ---- */

enum kn_lu { KN_LU_FINE, KN_LU_SINGULAR };
/*
 * Declares these functions for each type:
 *
 *   kn_lu_          factorises A [n,n] in place, with L below the diagonal, and U on and above it.
 *                   Sets swap[i] to the row that row i was swapped with, and *even to whether the
 *                   number of swaps is even.
 *   kn_solve_       replaces B [n,m] by the solution, using the results of kn_lu_.
 *   kn_cholesky_    factorises the lower triangle of A in place, or returns false if a pivot is 0
 *                   or negative. As in TensorFlow, products are summed before the sum is
 *                   subtracted, because the order decides whether a singular matrix passes as
 *                   positive definite.
 *   kn_triangular_  replaces B [n,m] by the solution of op(A) X = B.
 *   kn_finite_      returns whether all of n elements are finite.
 *   kn_turn_        writes A [m,n] transposed, and conjugated if `conjugate` is set.
 *
 * Like TensorFlow, kn_solve_ and kn_triangular_ multiply by the reciprocals of the pivots. If the
 * magnitude of a float32 pivot exceeds 2^126, its reciprocal is subnormal and is flushed to 0.
 */
#define KN_DECLARE_MATRICES(dt, T)                                                                 \
    enum kn_lu kn_lu_##dt(struct kn_ask *q, T *a, int64_t n, int64_t *swap, bool *even);           \
    void kn_solve_##dt(struct kn_ask *q, const T *a, int64_t n, const int64_t *swap, T *b,         \
                       int64_t m);                                                                 \
    bool kn_cholesky_##dt(struct kn_ask *q, T *a, int64_t n);                                      \
    void kn_triangular_##dt(struct kn_ask *q, const T *a, int64_t n, T *b, int64_t m, bool lower,  \
                            bool adjoint);                                                         \
    bool kn_finite_##dt(struct kn_ask *q, const T *a, int64_t n);                                  \
    void kn_turn_##dt(struct kn_ask *q, const T *a, int64_t m, int64_t n, T *out, bool conjugate);
KN_LINALG(KN_DECLARE_MATRICES)

/* The elements of the results of Cholesky and Svd for a matrix that has no decomposition: NaN for
 * real matrices and 0 for complex ones, as in TensorFlow, where std::numeric_limits gives 0 as the
 * NaN of complex types. */
#define KN_NO_RESULT_RT_F32  NAN
#define KN_NO_RESULT_RT_F64  NAN
#define KN_NO_RESULT_RT_C64  0
#define KN_NO_RESULT_RT_C128 0

/* Registers an op that later versions of TensorFlow replaced by another one. Both ops have the same
 * kernel. */
#define KN_OLDER_LINALG(NAME, TF, INFER, ROWS, TYPES, PREPARE, RUN)                                \
    const struct kn_entry kn_##NAME = {                                                            \
        .op = {.name = TF, .infer = INFER, .rows = ROWS},                                          \
        .kernels = KN_CPU(TF, #NAME, TYPES, PREPARE, RUN),                                         \
    };

/* ---- scratch memory ---- */

/* Allocates buffers in scratch memory, starting at `base`. If `base` is NULL, only adds up the
 * sizes of the buffers. `used` is the total size, or SIZE_MAX if the total exceeds the address
 * space. */
struct kn_space {
    char *base;
    size_t used;
};
/* Returns the address of n elements of `size` bytes, aligned to 64 bytes, or NULL if the base is
 * NULL. */
void *kn_space_take(struct kn_space *s, int64_t n, size_t size);

#endif
