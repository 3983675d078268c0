/*
 * SparseMatrixSparseCholesky, the Cholesky factor of a permuted sparse matrix, row by row. The
 * elimination tree of the rows that are done tells which columns a row of the factor has (Davis:
 * "Direct methods for sparse linear systems", 2006, chapter 4).
 */
#include "kernels/sparse/csr.h"

#include "kernels/array/sort.h"

struct factor {
    struct rt_run *r;
    struct kn_csr *p; /* the lower triangle of the permuted matrix */
    int64_t batch, n;
    int32_t *inverse;  /* row k of the input is row inverse[k] of the permuted matrix */
    int32_t *next;     /* where the next value of each row of p goes */
    int32_t *parent;   /* the elimination tree; -1 marks a root */
    int32_t *ancestor; /* a short cut towards the root */
    int32_t *seen;     /* 1 + the last row that has each column */
    void *x;           /* the current row; its elements are zero wherever the row has no column */
};

static int by_column(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

/* ---- the permuted matrix ---- */

static enum rt_status invert(struct factor *f)
{
    const int32_t *permutation = (const int32_t *)f->r->in[1].data + f->batch * f->n;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < f->n && !st; i++) {
        f->inverse[i] = -1;
        st = rt_run_tick(f->r, i);
    }
    for (int64_t i = 0; i < f->n && !st; i++) {
        const int32_t row = permutation[i];
        if (row < 0 || row >= f->n || f->inverse[row] >= 0) /* TensorFlow writes beyond a vector */
            return rt_fail(f->r->err, RT_INVALID_ARGUMENT,
                           "%s: element %lld of the permutation is %d", f->r->node->schema->name,
                           (long long)i, (int)row);
        f->inverse[row] = (int32_t)i;
        st = rt_run_tick(f->r, i);
    }
    return st;
}

/* Calls `each` for the elements of the lower triangle of `a`. Those above it are ignored. */
static enum rt_status each_lower(struct factor *f, const struct kn_csr *a,
                                 void (*each)(struct factor *f, const struct kn_csr *a, int32_t row,
                                              int32_t column, int32_t k))
{
    const int32_t *rows = kn_csr_row_starts(a, f->batch), *columns = kn_csr_columns(a, f->batch);
    enum rt_status st = RT_OK;

    for (int64_t row = 0; row < f->n && !st; row++)
        for (int32_t k = rows[row]; k < rows[row + 1] && !st; k++) {
            if (columns[k] <= row)
                each(f, a, f->inverse[row], f->inverse[columns[k]], k);
            st = rt_run_spend(f->r, &f->r->left, 16);
        }
    return st;
}

static void count_element(struct factor *f, const struct kn_csr *a, int32_t row, int32_t column,
                          int32_t k)
{
    (void)a;
    (void)k;
    kn_csr_row_starts(f->p, f->batch)[(row > column ? row : column) + 1]++;
}

static void put_element(struct factor *f, const struct kn_csr *a, int32_t row, int32_t column,
                        int32_t k)
{
    const size_t size = rt_dtype_size(a->dtype);
    const int32_t to = f->next[row > column ? row : column]++;
    char *value = (char *)kn_csr_values(f->p, f->batch) + (size_t)to * size;

    kn_csr_columns(f->p, f->batch)[to] = row > column ? column : row;
    memcpy(value, (const char *)kn_csr_values(a, f->batch) + (size_t)k * size, size);
    if (row < column)
        kn_csr_conjugate(a->dtype, value);
}

/* Fills f->p. */
static enum rt_status permute(struct factor *f, const struct kn_csr *a)
{
    enum rt_status st = kn_csr_reserve(f->r, f->p, rt_tensor_count(&a->columns));

    for (f->batch = 0; f->batch < a->n_batch && !st; f->batch++) {
        int32_t *starts = f->p->starts.data, *rows = kn_csr_row_starts(f->p, f->batch);
        st = invert(f);
        if (!st)
            st = each_lower(f, a, count_element);
        for (int64_t i = 0; i < f->n && !st; i++) {
            f->next[i] = rows[i];
            rows[i + 1] += rows[i];
            st = rt_run_tick(f->r, i);
        }
        if (!st)
            st = each_lower(f, a, put_element);
        starts[f->batch + 1] = starts[f->batch] + rows[f->n];
    }
    return st;
}

/* ---- the pattern of the factor ---- */

/* Makes the elimination tree of a matrix of the batch. */
static enum rt_status make_tree(struct factor *f)
{
    const int32_t *rows = kn_csr_row_starts(f->p, f->batch);
    const int32_t *columns = kn_csr_columns(f->p, f->batch);
    enum rt_status st = RT_OK;

    for (int32_t i = 0; i < f->n && !st; i++) {
        f->parent[i] = f->ancestor[i] = -1;
        f->seen[i] = 0;
        for (int32_t k = rows[i]; k < rows[i + 1] && !st; k++) {
            int32_t j = columns[k];
            while (j >= 0 && j < i) {
                const int32_t next = f->ancestor[j];
                f->ancestor[j] = i;
                if (next < 0)
                    f->parent[j] = i;
                j = next;
            }
            st = rt_run_spend(f->r, &f->r->left, 32);
        }
        if (!st)
            st = rt_run_tick(f->r, i);
    }
    return st;
}

/* Counts the columns of row i of the factor. If `out` is not NULL, writes them in order; the last
 * one is i. */
static enum rt_status row_columns(struct factor *f, int32_t i, int32_t *out, int64_t *n)
{
    const int32_t *rows = kn_csr_row_starts(f->p, f->batch);
    const int32_t *columns = kn_csr_columns(f->p, f->batch);
    enum rt_status st = rt_run_spend(f->r, &f->r->left, 8);

    *n = 0;
    f->seen[i] = i + 1;
    for (int32_t k = rows[i]; k < rows[i + 1] && !st; k++)
        for (int32_t j = columns[k]; f->seen[j] != i + 1 && !st; j = f->parent[j]) {
            f->seen[j] = i + 1;
            if (out)
                out[*n] = j;
            ++*n;
            st = rt_run_spend(f->r, &f->r->left, 32);
        }
    if (out)
        out[*n] = i;
    ++*n;
    return !out || st ? st : kn_sort(f->r, out, *n - 1, sizeof *out, by_column);
}

/* ---- the values of the factor ---- */

static enum rt_status fail_factor(const struct factor *f)
{
    return rt_fail(f->r->err, RT_INVALID_ARGUMENT,
                   "Sparse Cholesky factorization failed for batch index %lld. The input might not "
                   "be valid.",
                   (long long)f->batch);
}

/* Computes row i of the factor `l`, from the rows before it. */
#define FACTOR_ROW(name, T, REAL, CONJ, SQRT)                                                      \
    static enum rt_status name(struct factor *f, const struct kn_csr *l, int32_t i)                \
    {                                                                                              \
        const int32_t *p_rows = kn_csr_row_starts(f->p, f->batch);                                 \
        const int32_t *p = kn_csr_columns(f->p, f->batch);                                         \
        const T *p_values = kn_csr_values(f->p, f->batch);                                         \
        const int32_t *rows = kn_csr_row_starts(l, f->batch);                                      \
        const int32_t *columns = kn_csr_columns(l, f->batch);                                      \
        T *values = kn_csr_values(l, f->batch), *x = f->x, d = 0;                                  \
        enum rt_status st = RT_OK;                                                                 \
        for (int32_t k = p_rows[i]; k < p_rows[i + 1]; k++) {                                      \
            if (p[k] < i)                                                                          \
                x[p[k]] += p_values[k];                                                            \
            else                                                                                   \
                d += p_values[k];                                                                  \
        }                                                                                          \
        for (int32_t k = rows[i]; k < rows[i + 1] - 1 && !st; k++) {                               \
            const int32_t j = columns[k], end = rows[j + 1] - 1;                                   \
            T sum = x[j];                                                                          \
            for (int32_t m = rows[j]; m < end; m++)                                                \
                sum -= x[columns[m]] * CONJ(values[m]);                                            \
            x[j] = values[k] = sum / REAL(values[end]);                                            \
            d -= values[k] * CONJ(values[k]);                                                      \
            st = rt_run_spend(f->r, &f->r->left, 4 * (int64_t)(end - rows[j]) + 16);               \
        }                                                                                          \
        for (int32_t k = rows[i]; k < rows[i + 1] - 1; k++)                                        \
            x[columns[k]] = 0;                                                                     \
        if (st)                                                                                    \
            return st;                                                                             \
        if (REAL(d) <= 0)                                                                          \
            return fail_factor(f);                                                                 \
        values[rows[i + 1] - 1] = SQRT(REAL(d));                                                   \
        return rt_run_spend(f->r, &f->r->left, 16 * (int64_t)(rows[i + 1] - rows[i]));             \
    }
#define SAME(x) (x)
FACTOR_ROW(factor_f32, float, SAME, SAME, sqrtf)
FACTOR_ROW(factor_f64, double, SAME, SAME, sqrt)
FACTOR_ROW(factor_c64, float _Complex, crealf, conjf, sqrtf)
FACTOR_ROW(factor_c128, double _Complex, creal, conj, sqrt)

static enum rt_status factor_row(struct factor *f, const struct kn_csr *l, int32_t i)
{
    switch (l->dtype) {
    case RT_F32:
        return factor_f32(f, l, i);
    case RT_F64:
        return factor_f64(f, l, i);
    case RT_C64:
        return factor_c64(f, l, i);
    default:
        return factor_c128(f, l, i);
    }
}

static enum rt_status count_factor(struct factor *f, struct kn_csr *l, int64_t *total)
{
    int32_t *rows = kn_csr_row_starts(l, f->batch);
    int64_t n;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < f->n && !st; i++) {
        st = row_columns(f, (int32_t)i, NULL, &n);
        *total += n;
        if (!st)
            st = kn_csr_check_count(f->r, *total);
        if (!st)
            rows[i + 1] = rows[i] + (int32_t)n;
    }
    if (!st)
        ((int32_t *)l->starts.data)[f->batch + 1] = (int32_t)*total;
    return st;
}

static enum rt_status fill_factor(struct factor *f, struct kn_csr *l)
{
    const int32_t *rows = kn_csr_row_starts(l, f->batch);
    int64_t n;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < f->n && !st; i++) {
        st = row_columns(f, (int32_t)i, kn_csr_columns(l, f->batch) + rows[i], &n);
        if (!st)
            st = factor_row(f, l, (int32_t)i);
    }
    return st;
}

static enum rt_status factorise(struct factor *f, const struct kn_csr *a, struct kn_csr *l)
{
    int64_t total = 0;
    enum rt_status st = permute(f, a);

    for (f->batch = 0; f->batch < l->n_batch && !st; f->batch++) {
        st = make_tree(f);
        if (!st)
            st = count_factor(f, l, &total);
    }
    if (!st)
        st = kn_csr_reserve(f->r, l, total);
    if (!st)
        st = kn_zero_chunks(f->r, f->x, (size_t)f->n * rt_dtype_size(l->dtype));
    for (f->batch = 0; f->batch < l->n_batch && !st; f->batch++) {
        st = make_tree(f);
        if (!st)
            st = fill_factor(f, l);
    }
    return st;
}

static enum rt_status check_cholesky(struct rt_run *r, const struct kn_csr *a)
{
    const struct rt_tensor *p = &r->in[1];
    const enum rt_dtype type = rt_attr_dtype(r->node, "type");

    if (a->dtype != type)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Asked for a CSRSparseMatrix of type %s but saw dtype: %s",
                       rt_dtype_name(type), rt_dtype_name(a->dtype));
    if (a->n_rows != a->n_columns)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "sparse matrix must be square; got: %lld != %lld", (long long)a->n_rows,
                       (long long)a->n_columns);
    if (p->rank + 1 != a->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "sparse matrix must have the same rank as permutation; got: %d != %d + 1.",
                       a->rank, p->rank);
    if (p->dim[p->rank - 1] != a->n_rows)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "permutation must have the same number of elements in each batch as the "
                       "number of rows in sparse matrix; got: %lld != %lld",
                       (long long)p->dim[p->rank - 1], (long long)a->n_rows);
    if (a->rank == 3 && p->dim[0] != a->n_batch)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "permutation must have the same batch size as sparse matrix; got: %lld != "
                       "%lld",
                       (long long)p->dim[0], (long long)a->n_batch);
    return RT_OK;
}

static enum rt_status cholesky_run(struct rt_run *r)
{
    const struct kn_csr *a = kn_csr_input(r, 0);
    enum rt_status st = a ? check_cholesky(r, a) : r->err->code;

    if (st)
        return st;
    const size_t n = (size_t)a->n_rows, size = rt_dtype_size(a->dtype);
    const struct rt_shape s = kn_csr_shape(a);
    char *scratch = rt_scratch(r, (n + 1) * (size + 5 * sizeof(int32_t)));
    if (!scratch)
        return r->err->code;
    struct kn_csr *p = kn_csr_new(r, a->dtype, &s);
    struct kn_csr *l = p ? kn_csr_new(r, a->dtype, &s) : NULL;
    int32_t *vectors = (int32_t *)(void *)(scratch + n * size);
    struct factor f = {.r = r,
                       .p = p,
                       .n = a->n_rows,
                       .inverse = vectors,
                       .next = vectors + n,
                       .parent = vectors + 2 * n,
                       .ancestor = vectors + 3 * n,
                       .seen = vectors + 4 * n,
                       .x = scratch};
    st = l ? factorise(&f, a, l) : r->err->code;
    kn_csr_unref(p);
    return kn_csr_output(r, l, st);
}

KN_CSR_OP(sparse_matrix_sparse_cholesky, "SparseMatrixSparseCholesky", NULL, kn_infer_scalars,
          cholesky_run)
