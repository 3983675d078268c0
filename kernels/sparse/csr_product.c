/* Products of CSR sparse matrices with dense and with sparse matrices. */
#include "kernels/sparse/csr.h"

#include "kernels/array/sort.h"
#include "runtime/base/checked.h"

static enum rt_status check_flags(const struct rt_node *n, struct rt_error *err)
{
    for (int k = 0; k < 2; k++) {
        static const char *const name[2][2] = {{"transpose_a", "adjoint_a"},
                                               {"transpose_b", "adjoint_b"}};
        if (rt_attr_bool(n, name[k][0]) && rt_attr_bool(n, name[k][1]))
            return rt_fail(err, RT_INVALID_ARGUMENT, "Only one of %s and %s may be true.",
                           name[k][1], name[k][0]);
    }
    return RT_OK;
}

/* ---- with a dense matrix ---- */

/* out = op(a) op(b). All loops over rows of op(b) and of the product are over adjacent elements:
 * where b or the output is transposed or conjugate, it is copied. */
struct product {
    struct rt_run *r;
    const struct kn_csr *a;
    bool transposes_a, conjugates_a, transposes_b, conjugates_b, transposes_out, conjugates_out;
    int64_t n_inner, n_rows, n_columns;
    void *b, *out; /* memory for the copies */
};

enum { COLUMNS = 1 << 16 }; /* the number of columns between two deadline checks */

#define MULTIPLY(name, T, CONJ)                                                                    \
    /* Copies a matrix. The dimensions are those of src. */                                        \
    static enum rt_status name##_copy(struct rt_run *r, const T *src, T *dst, int64_t n_rows,      \
                                      int64_t n_columns, bool transposes, bool conjugates)         \
    {                                                                                              \
        enum rt_status st = RT_OK;                                                                 \
        for (int64_t i = 0; i < n_rows && !st; i++) {                                              \
            const T *from = src + i * n_columns;                                                   \
            T *to = dst + (transposes ? i : i * n_columns);                                        \
            for (int64_t j = 0; j < n_columns; j++)                                                \
                to[transposes ? j * n_rows : j] = conjugates ? CONJ(from[j]) : from[j];            \
            st = rt_run_spend(r, &r->left, 4 * n_columns);                                         \
        }                                                                                          \
        return st;                                                                                 \
    }                                                                                              \
    /* Adds row `row` of a, times op(b), to the product. A row may have any number of values. */   \
    static enum rt_status name##_row(const struct product *p, int64_t batch, int64_t row,          \
                                     const T *restrict b, T *restrict out)                         \
    {                                                                                              \
        const int32_t *rows = kn_csr_row_starts(p->a, batch);                                      \
        const int32_t *columns = kn_csr_columns(p->a, batch);                                      \
        const T *values = kn_csr_values(p->a, batch);                                              \
        const int64_t n = p->n_columns;                                                            \
        enum rt_status st = RT_OK;                                                                 \
        for (int32_t i = rows[row]; i < rows[row + 1] && !st; i++) {                               \
            const T value = p->conjugates_a ? CONJ(values[i]) : values[i];                         \
            const T *restrict x = b + (p->transposes_a ? row : columns[i]) * n;                    \
            T *restrict o = out + (p->transposes_a ? columns[i] : row) * n;                        \
            for (int64_t j = 0; j < n && !st; j += COLUMNS) {                                      \
                const int64_t end = n - j < COLUMNS ? n : j + COLUMNS;                             \
                for (int64_t k = j; k < end; k++)                                                  \
                    o[k] += value * x[k];                                                          \
                st = rt_run_spend(p->r, &p->r->left, 2 * (end - j));                               \
            }                                                                                      \
        }                                                                                          \
        return st;                                                                                 \
    }                                                                                              \
    static enum rt_status name(const struct product *p, int64_t batch, const void *b, void *out)   \
    {                                                                                              \
        const bool copies_b = p->transposes_b || p->conjugates_b;                                  \
        const bool copies_out = p->transposes_out || p->conjugates_out;                            \
        const T *x = copies_b ? p->b : b;                                                          \
        T *o = copies_out ? p->out : out;                                                          \
        enum rt_status st =                                                                        \
            kn_zero_chunks(p->r, o, (size_t)p->n_rows * (size_t)p->n_columns * sizeof(T));         \
        if (copies_b && !st)                                                                       \
            st = name##_copy(p->r, b, p->b, p->transposes_b ? p->n_columns : p->n_inner,           \
                             p->transposes_b ? p->n_inner : p->n_columns, p->transposes_b,         \
                             p->conjugates_b);                                                     \
        for (int64_t row = 0; row < p->a->n_rows && !st; row++) {                                  \
            st = name##_row(p, batch, row, x, o);                                                  \
            if (!st)                                                                               \
                st = rt_run_spend(p->r, &p->r->left, 8);                                           \
        }                                                                                          \
        if (copies_out && !st)                                                                     \
            st = name##_copy(p->r, o, out, p->n_rows, p->n_columns, p->transposes_out,             \
                             p->conjugates_out);                                                   \
        return st;                                                                                 \
    }
#define SAME(x) (x)
MULTIPLY(multiply_f32, float, SAME)
MULTIPLY(multiply_f64, double, SAME)
MULTIPLY(multiply_c64, float _Complex, conjf)
MULTIPLY(multiply_c128, double _Complex, conj)

static enum rt_status multiply(const struct product *p, int64_t batch, const void *b, void *out)
{
    switch (p->a->dtype) {
    case RT_F32:
        return multiply_f32(p, batch, b, out);
    case RT_F64:
        return multiply_f64(p, batch, b, out);
    case RT_C64:
        return multiply_c64(p, batch, b, out);
    default:
        return multiply_c128(p, batch, b, out);
    }
}

static enum rt_status check_product(struct rt_run *r, const struct product *p)
{
    const struct rt_tensor *b = &r->in[1];
    const struct rt_shape s = kn_csr_shape(p->a);

    if (p->a->dtype != kn_dtype(b))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input types don't match.  a.dtype == %s vs. b.dtype == %s",
                       rt_dtype_name(p->a->dtype), rt_dtype_name(kn_dtype(b)));
    if (b->rank != s.rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "a and b must have the same rank, saw: %d vs. %d.", s.rank, b->rank);
    if (s.rank == 3 && s.dim[0] != b->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Batch sizes of a and b must match, saw: %lld vs. %lld.",
                       (long long)s.dim[0], (long long)b->dim[0]);
    return RT_OK;
}

/* Makes memory for the copies of b and of the output. */
static enum rt_status reserve_copies(struct product *p)
{
    const size_t size = rt_dtype_size(p->a->dtype);
    const size_t b = (size_t)p->n_inner * (size_t)p->n_columns * size;
    const size_t out = (size_t)p->n_rows * (size_t)p->n_columns * size;
    const bool copies_b = p->transposes_b || p->conjugates_b;
    const bool copies_out = p->transposes_out || p->conjugates_out;

    if (!copies_b && !copies_out)
        return RT_OK;
    p->b = rt_scratch(p->r, (copies_b ? b : 0) + (copies_out ? out : 0) + 1);
    if (!p->b)
        return p->r->err->code;
    p->out = (char *)p->b + (copies_b ? b : 0);
    return RT_OK;
}

static enum rt_status product_run(struct rt_run *r)
{
    const struct rt_tensor *b = &r->in[1];
    struct product p = {
        .r = r,
        .a = kn_csr_input(r, 0),
        .conjugates_a = rt_attr_bool(r->node, "adjoint_a"),
        .conjugates_b = rt_attr_bool(r->node, "adjoint_b"),
        .conjugates_out = rt_attr_bool(r->node, "conjugate_output"),
        .transposes_out = rt_attr_bool(r->node, "transpose_output"),
    };
    enum rt_status st = p.a ? check_product(r, &p) : r->err->code;

    if (st)
        return st;
    const int64_t *dim = b->dim + b->rank - 2;
    p.transposes_a = p.conjugates_a || rt_attr_bool(r->node, "transpose_a");
    p.transposes_b = p.conjugates_b || rt_attr_bool(r->node, "transpose_b");
    p.n_rows = p.transposes_a ? p.a->n_columns : p.a->n_rows;
    p.n_inner = p.transposes_a ? p.a->n_rows : p.a->n_columns;
    p.n_columns = dim[p.transposes_b ? 0 : 1];
    if (p.n_inner != dim[p.transposes_b ? 1 : 0]) {
        const struct rt_shape s = kn_csr_shape(p.a);
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Inner product dimensions of A and B do not agree. Shapes are: %s vs. %s",
                       KN_TEXT(&s), KN_TEXT(b));
    }
    int64_t out[3] = {p.a->n_batch};
    out[b->rank - 2] = p.transposes_out ? p.n_columns : p.n_rows;
    out[b->rank - 1] = p.transposes_out ? p.n_rows : p.n_columns;
    if (!rt_out(r, 0, b->rank, out))
        return r->err->code;
    st = reserve_copies(&p);
    for (int64_t k = 0; k < p.a->n_batch && p.n_rows && p.n_columns && !st; k++) {
        st = multiply(&p, k, kn_at(b, k * p.n_inner * p.n_columns),
                      kn_at_mut(&r->out[0], k * p.n_rows * p.n_columns));
        if (!st)
            st = rt_run_spend(r, &r->left, KN_CSR_WORK);
    }
    return st;
}

/* ---- with a sparse matrix ---- */

/* Gustavson's algorithm (1978): a row of the product is a sum of rows of b. */
struct sparse_product {
    struct rt_run *r;
    const struct kn_csr *a, *b;
    struct kn_csr *out;
    int64_t *seen; /* 1 + the last row of the product that has each column */
    void *sum;     /* the sum in each column */
    int64_t n_rows_done;
};

/* Counts the values of a row of the product. If `columns` is not NULL, writes their columns. */
static enum rt_status row_columns(struct sparse_product *x, int64_t batch, int64_t row,
                                  int32_t *columns, int64_t *n)
{
    const int32_t *a_rows = kn_csr_row_starts(x->a, batch), *a = kn_csr_columns(x->a, batch);
    const int32_t *b_rows = kn_csr_row_starts(x->b, batch), *b = kn_csr_columns(x->b, batch);
    const int64_t mark = ++x->n_rows_done;
    enum rt_status st = RT_OK;

    *n = 0;
    for (int32_t i = a_rows[row]; i < a_rows[row + 1] && !st; i++) {
        const int32_t from = b_rows[a[i]], to = b_rows[a[i] + 1];
        for (int32_t k = from; k < to; k++) {
            if (x->seen[b[k]] == mark)
                continue;
            x->seen[b[k]] = mark;
            if (columns)
                columns[*n] = b[k];
            ++*n;
        }
        st = rt_run_spend(x->r, &x->r->left, 4 * (int64_t)(to - from) + 8);
    }
    return st ? st : rt_run_spend(x->r, &x->r->left, 8);
}

#define ADD_ROWS(name, T)                                                                          \
    static enum rt_status name(struct sparse_product *x, int64_t batch, int64_t row,               \
                               const int32_t *columns, int32_t n, void *values)                    \
    {                                                                                              \
        const int32_t *a_rows = kn_csr_row_starts(x->a, batch), *a = kn_csr_columns(x->a, batch);  \
        const int32_t *b_rows = kn_csr_row_starts(x->b, batch), *b = kn_csr_columns(x->b, batch);  \
        const T *a_values = kn_csr_values(x->a, batch), *b_values = kn_csr_values(x->b, batch);    \
        T *sum = x->sum, *out = values;                                                            \
        enum rt_status st = RT_OK;                                                                 \
        for (int32_t i = 0; i < n; i++)                                                            \
            sum[columns[i]] = 0;                                                                   \
        for (int32_t i = a_rows[row]; i < a_rows[row + 1] && !st; i++) {                           \
            const int32_t from = b_rows[a[i]], to = b_rows[a[i] + 1];                              \
            for (int32_t k = from; k < to; k++)                                                    \
                sum[b[k]] += a_values[i] * b_values[k];                                            \
            st = rt_run_spend(x->r, &x->r->left, 4 * (int64_t)(to - from) + 8);                    \
        }                                                                                          \
        for (int32_t i = 0; i < n; i++)                                                            \
            out[i] = sum[columns[i]];                                                              \
        return st;                                                                                 \
    }
ADD_ROWS(add_rows_f32, float)
ADD_ROWS(add_rows_f64, double)
ADD_ROWS(add_rows_c64, float _Complex)
ADD_ROWS(add_rows_c128, double _Complex)

static enum rt_status add_rows(struct sparse_product *x, int64_t batch, int64_t row,
                               const int32_t *columns, int32_t n, void *values)
{
    switch (x->out->dtype) {
    case RT_F32:
        return add_rows_f32(x, batch, row, columns, n, values);
    case RT_F64:
        return add_rows_f64(x, batch, row, columns, n, values);
    case RT_C64:
        return add_rows_c64(x, batch, row, columns, n, values);
    default:
        return add_rows_c128(x, batch, row, columns, n, values);
    }
}

static int by_column(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

static enum rt_status sparse_multiply(struct sparse_product *x)
{
    struct kn_csr *out = x->out;
    struct rt_run *r = x->r;
    int64_t total = 0, n;
    enum rt_status st = RT_OK;

    for (int64_t k = 0; k < out->n_batch && !st; k++) {
        int32_t *rows = kn_csr_row_starts(out, k);
        for (int64_t row = 0; row < out->n_rows && !st; row++) {
            st = row_columns(x, k, row, NULL, &n);
            total += n;
            if (!st)
                st = kn_csr_check_count(r, total);
            if (!st)
                rows[row + 1] = rows[row] + (int32_t)n;
        }
        if (!st)
            ((int32_t *)out->starts.data)[k + 1] = (int32_t)total;
    }
    if (!st)
        st = kn_csr_reserve(r, out, total);
    for (int64_t k = 0; k < out->n_batch && !st; k++) {
        const int32_t *rows = kn_csr_row_starts(out, k);
        for (int64_t row = 0; row < out->n_rows && !st; row++) {
            int32_t *columns = kn_csr_columns(out, k) + rows[row];
            char *values =
                (char *)kn_csr_values(out, k) + (size_t)rows[row] * rt_dtype_size(out->dtype);
            st = row_columns(x, k, row, columns, &n);
            if (!st)
                st = kn_sort(r, columns, n, sizeof *columns, by_column);
            if (!st)
                st = add_rows(x, k, row, columns, (int32_t)n, values);
        }
    }
    return st;
}

static enum rt_status check_sparse(struct rt_run *r, const struct kn_csr *a, const struct kn_csr *b)
{
    const enum rt_dtype type = rt_attr_dtype(r->node, "type");
    const struct kn_csr *m[2] = {a, b};

    for (int k = 0; k < 2; k++)
        if (m[k]->dtype != type)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "dtype of %c is not equal to 'type': %s vs. %s", "ab"[k],
                           rt_dtype_name(m[k]->dtype), rt_dtype_name(type));
    if (a->rank != b->rank) /* TensorFlow reads beyond a matrix */
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Ranks of A and B are not compatible.  Ranks are: %d vs. %d", a->rank,
                       b->rank);
    if (a->n_batch != b->n_batch)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Batch sizes of A and B are not compatible.  Batch sizes are: %lld vs. %lld",
                       (long long)a->n_batch, (long long)b->n_batch);
    return RT_OK;
}

/* Sets *out to a reference to op(m), where m is input k. */
static enum rt_status operand(struct rt_run *r, const struct kn_csr *m, const char *transpose,
                              const char *adjoint, struct kn_csr **out)
{
    const bool conjugates = rt_attr_bool(r->node, adjoint);

    if (conjugates || rt_attr_bool(r->node, transpose))
        *out = kn_csr_transposed(r, m, conjugates);
    else
        *out = (struct kn_csr *)rt_object_ref((struct rt_object *)(uintptr_t)m);
    return *out ? RT_OK : r->err->code;
}

static enum rt_status multiply_operands(struct rt_run *r, const struct kn_csr *a,
                                        const struct kn_csr *b)
{
    struct rt_shape s = kn_csr_shape(a);
    struct sparse_product x = {.r = r, .a = a, .b = b};

    if (a->n_columns != b->n_rows) {
        const struct rt_shape t = kn_csr_shape(b);
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Inner product dimensions of A and B do not agree.  Shapes are: %s vs. %s",
                       KN_TEXT(&s), KN_TEXT(&t));
    }
    s.dim[s.rank - 1] = b->n_columns;
    const size_t each = sizeof *x.seen + rt_dtype_size(a->dtype);
    size_t bytes;
    if (!rt_mul_size((size_t)b->n_columns, each, &bytes) || !rt_add_size(bytes, each, &bytes))
        return rt_fail_memory(r->err, r->node->name, SIZE_MAX);
    char *scratch = rt_scratch(r, bytes);
    x.out = scratch ? kn_csr_new(r, a->dtype, &s) : NULL;
    if (!x.out)
        return r->err->code;
    x.seen = (int64_t *)(void *)scratch;
    x.sum = scratch + (size_t)b->n_columns * sizeof *x.seen;
    enum rt_status st = kn_zero_chunks(r, x.seen, (size_t)b->n_columns * sizeof *x.seen);
    return kn_csr_output(r, x.out, st ? st : sparse_multiply(&x));
}

static enum rt_status sparse_product_run(struct rt_run *r)
{
    const struct kn_csr *in_a = kn_csr_input(r, 0), *in_b = in_a ? kn_csr_input(r, 1) : NULL;
    struct kn_csr *a = NULL, *b = NULL;
    enum rt_status st = in_b ? check_sparse(r, in_a, in_b) : r->err->code;

    if (!st)
        st = operand(r, in_a, "transpose_a", "adjoint_a", &a);
    if (!st)
        st = operand(r, in_b, "transpose_b", "adjoint_b", &b);
    if (!st)
        st = multiply_operands(r, a, b);
    kn_csr_unref(a);
    kn_csr_unref(b);
    return st;
}

KN_CSR_OP(sparse_matrix_mat_mul, "SparseMatrixMatMul", check_flags, NULL, product_run)
KN_CSR_OP(sparse_matrix_sparse_mat_mul, "SparseMatrixSparseMatMul", check_flags, kn_infer_scalars,
          sparse_product_run)
