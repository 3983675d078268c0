/*
 * Sparse matrices in compressed rows (CSR), which graphs hold in scalar variants. A matrix has rank
 * 2, or rank 3 with a batch of matrices of the same shape. It never changes once an op has returned
 * it.
 *
 * Threads: a matrix that is being made belongs to a single run; afterwards any.
 */
#ifndef KN_SPARSE_CSR_H
#define KN_SPARSE_CSR_H

#include <complex.h>
#include <math.h>

#include "kernels/array/array.h"
#include "kernels/entry.h"

/* The cost of beginning and ending a matrix of a batch, in units of rt_run_spend. */
enum { KN_CSR_WORK = 128 };

struct kn_csr {
    struct rt_object o;
    enum rt_dtype dtype; /* float32, float64, complex64 or complex128 */
    int rank;
    int64_t n_batch, n_rows, n_columns;
    /* int32 vectors: n_batch + 1 positions in `columns` and `values`; for each matrix, n_rows + 1
     * positions relative to the start of the matrix */
    struct rt_tensor starts, row_starts;
    struct rt_tensor columns; /* int32: the column of each value */
    struct rt_tensor values;
};

/* The shape of the whole, with `rank` dimensions. */
struct rt_shape kn_csr_shape(const struct kn_csr *m);
/* Returns a matrix of zero positions and without memory for values, or NULL, with the reason in
 * r->err. */
struct kn_csr *kn_csr_new(struct rt_run *r, enum rt_dtype dtype, const struct rt_shape *shape);
/* Refuses more values than int32 positions can name. */
enum rt_status kn_csr_check_count(struct rt_run *r, int64_t n);
/* Makes memory for n columns and values, which are not initialised. */
enum rt_status kn_csr_reserve(struct rt_run *r, struct kn_csr *m, int64_t n);
/* Returns the matrix in input k, or NULL, with the reason in r->err. */
const struct kn_csr *kn_csr_input(struct rt_run *r, int k);
/* Returns a new reference to the transposed matrix, with conjugate values if `conjugates` is
 * true, or NULL, with the reason in r->err. */
struct kn_csr *kn_csr_transposed(struct rt_run *r, const struct kn_csr *m, bool conjugates);
/* Replaces the value at p by its conjugate. */
void kn_csr_conjugate(enum rt_dtype dtype, void *p);
/* Makes output 0 the matrix if `st` is RT_OK. Takes over the reference in any case. */
enum rt_status kn_csr_output(struct rt_run *r, struct kn_csr *m, enum rt_status st);
static inline void kn_csr_unref(struct kn_csr *m)
{
    rt_object_unref(m ? &m->o : NULL);
}

/* ---- matrix b of the batch ---- */

static inline int32_t kn_csr_start(const struct kn_csr *m, int64_t b)
{
    return ((const int32_t *)m->starts.data)[b];
}
static inline int32_t *kn_csr_row_starts(const struct kn_csr *m, int64_t b)
{
    return (int32_t *)m->row_starts.data + b * (m->n_rows + 1);
}
static inline int32_t *kn_csr_columns(const struct kn_csr *m, int64_t b)
{
    return (int32_t *)m->columns.data + kn_csr_start(m, b);
}
static inline void *kn_csr_values(const struct kn_csr *m, int64_t b)
{
    return kn_at_mut(&m->values, kn_csr_start(m, b));
}

/* Implements rt_op.rows: a matrix cannot be split into rows of the batch. */
static inline void kn_csr_rows_rule(struct rt_rows *rows)
{
    kn_rows_independent(rows);
}

#define KN_CSR_OP(symbol, op_, check_, infer_, run_)                                               \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .check = (check_), .infer = (infer_), .rows = kn_csr_rows_rule},     \
        .kernels = KN_KERNELS(                                                                     \
            {.op = (op_), .device = "CPU", .name = #symbol, .flags = RT_K_VIEWS, .run = (run_)}),  \
    };

#endif
