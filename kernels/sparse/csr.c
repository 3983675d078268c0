#include "kernels/sparse/csr.h"

#include <stdio.h>

#include "runtime/base/checked.h"
#include "runtime/core/copy.h"
#include "runtime/core/pool.h"

static void csr_free(struct rt_object *o)
{
    struct kn_csr *m = (struct kn_csr *)o;

    rt_tensor_clear(&m->starts);
    rt_tensor_clear(&m->row_starts);
    rt_tensor_clear(&m->columns);
    rt_tensor_clear(&m->values);
    rt_pool_free(m);
}

static const struct rt_object_type csr_type = {"CSR sparse matrix", csr_free};

struct rt_shape kn_csr_shape(const struct kn_csr *m)
{
    struct rt_shape s = {.rank = m->rank};

    s.dim[0] = m->n_batch;
    s.dim[m->rank - 2] = m->n_rows;
    s.dim[m->rank - 1] = m->n_columns;
    return s;
}

static enum rt_status new_vector(struct rt_run *r, struct rt_tensor *t, enum rt_dtype dtype,
                                 int64_t n)
{
    const struct rt_check check = rt_run_as_check(r);

    return rt_tensor_new_checked(t, rt_run_pool(r), dtype, 1, &n, &check, r->err);
}

static enum rt_status fail_negative(struct rt_run *r, int64_t dim)
{
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "Expected shape dimensions to be non-negative, got %lld", (long long)dim);
}

static enum rt_status check_shape(struct rt_run *r, const struct rt_shape *s)
{
    int64_t n;

    if (s->rank != 2 && s->rank != 3)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Invalid rank: %d.  Expected a known rank of either 2 or 3.", s->rank);
    n = rt_add_saturated(s->dim[s->rank - 2], 1);
    if (n < 0) /* TensorFlow's text has the length of the vector of positions, not the dimension */
        return fail_negative(r, n);
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 0)
            return fail_negative(r, s->dim[i]);
    if (s->rank == 3)
        n = rt_mul_saturated(n, s->dim[0]);
    if (n > INT32_MAX)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The csr row index size, computed based on the dense_shape, must be <= "
                       "Int32Max, but is too large. Current value is %lld",
                       (long long)n);
    return RT_OK;
}

struct kn_csr *kn_csr_new(struct rt_run *r, enum rt_dtype dtype, const struct rt_shape *s)
{
    struct kn_csr *m = check_shape(r, s) ? NULL : rt_run_alloc(r, sizeof *m);

    if (!m)
        return NULL;
    rt_object_init(&m->o, &csr_type);
    m->dtype = dtype;
    m->rank = s->rank;
    m->n_batch = s->rank == 3 ? s->dim[0] : 1;
    m->n_rows = s->dim[s->rank - 2];
    m->n_columns = s->dim[s->rank - 1];
    enum rt_status st = new_vector(r, &m->starts, RT_I32, m->n_batch + 1);
    if (!st)
        st = new_vector(r, &m->row_starts, RT_I32,
                        rt_mul_saturated(m->n_batch, rt_add_saturated(m->n_rows, 1)));
    if (!st)
        st = kn_zero_chunks(r, m->starts.data, rt_tensor_bytes(&m->starts));
    if (!st)
        st = kn_zero_chunks(r, m->row_starts.data, rt_tensor_bytes(&m->row_starts));
    if (st) {
        kn_csr_unref(m);
        return NULL;
    }
    return m;
}

enum rt_status kn_csr_check_count(struct rt_run *r, int64_t n)
{
    return n <= INT32_MAX ? RT_OK
                          : rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: more than %d values",
                                    r->node->schema->name, INT32_MAX);
}

enum rt_status kn_csr_reserve(struct rt_run *r, struct kn_csr *m, int64_t n)
{
    enum rt_status st = kn_csr_check_count(r, n);

    if (!st)
        st = new_vector(r, &m->columns, RT_I32, n);
    return st ? st : new_vector(r, &m->values, m->dtype, n);
}

const struct kn_csr *kn_csr_input(struct rt_run *r, int k)
{
    const struct rt_tensor *t = &r->in[k];
    const struct rt_object *o = t->rank == 0 ? rt_tensor_handle(t) : NULL;

    if (!o || o->type != &csr_type) {
        rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: input %d is not a CSR sparse matrix",
                r->node->schema->name, k);
        return NULL;
    }
    const struct kn_csr *m = (const struct kn_csr *)o;
    if (m->n_batch == 0) { /* as in TensorFlow */
        rt_fail(r->err, RT_INVALID_ARGUMENT, "Variant input %d is not valid.", k);
        return NULL;
    }
    return m;
}

enum rt_status kn_csr_output(struct rt_run *r, struct kn_csr *m, enum rt_status st)
{
    if (st) {
        kn_csr_unref(m);
        return st;
    }
    return rt_out_object(r, 0, &m->o);
}

/* ---- from coordinates ---- */

/* Describes row i of `indices`, such as "[0, 2]". */
static const char *tuple_text(const struct rt_tensor *indices, int64_t i, char *buf, size_t n)
{
    const int64_t *x = (const int64_t *)indices->data + i * indices->dim[1];

    if (indices->dim[1] == 2)
        snprintf(buf, n, "[%lld, %lld]", (long long)x[0], (long long)x[1]);
    else
        snprintf(buf, n, "[%lld, %lld, %lld]", (long long)x[0], (long long)x[1], (long long)x[2]);
    return buf;
}

static enum rt_status check_index(struct rt_run *r, const struct rt_tensor *indices, int64_t i,
                                  const struct rt_shape *s, bool is_dense)
{
    const int64_t *x = (const int64_t *)indices->data + i * s->rank;
    bool is_inside = true;
    char text[80];

    for (int k = 0; k < s->rank; k++)
        is_inside &= x[k] >= 0 && x[k] < s->dim[k];
    if (is_inside && x[s->rank - 1] <= INT32_MAX)
        return RT_OK;
    tuple_text(indices, i, text, sizeof text);
    return is_dense ? rt_fail(r->err, RT_INVALID_ARGUMENT,
                              "indices[%lld] = %s does not index into param shape %s, node name: "
                              "%s",
                              (long long)i, text, KN_TEXT(s), r->node->name)
                    : rt_fail(r->err, RT_INVALID_ARGUMENT,
                              "Sparse index tuple indices[%lld, :] = %s is out of bounds",
                              (long long)i, text);
}

/* Turns n counts, of which count i stands at v[i + 1], into positions. */
static enum rt_status add_up(struct rt_run *r, int32_t *v, int64_t n)
{
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st; i++) {
        v[i + 1] += v[i];
        st = rt_run_tick(r, i);
    }
    return st;
}

/*
 * Fills m from the elements that `indices` names, in their order. As in TensorFlow, the columns
 * and values of a matrix stay in this order, even if it is not the order of rows. If the batches
 * are out of order, TensorFlow's positions are wrong; here each element belongs to its batch.
 */
static enum rt_status fill(struct rt_run *r, struct kn_csr *m, const struct rt_tensor *indices,
                           const struct rt_tensor *values, const struct rt_tensor *dense)
{
    const struct rt_shape s = kn_csr_shape(m);
    const int64_t n = indices->dim[0], *x = indices->data;
    const size_t size = rt_dtype_size(m->dtype);
    int32_t *starts = m->starts.data,
            *next = rt_scratch(r, ((size_t)m->n_batch + 1) * sizeof *next);
    enum rt_status st = next ? kn_csr_reserve(r, m, n) : r->err->code;

    for (int64_t i = 0; i < n && !st; i++) {
        st = check_index(r, indices, i, &s, dense != NULL);
        const int64_t b = s.rank == 3 ? x[i * s.rank] : 0;
        if (!st) {
            kn_csr_row_starts(m, b)[x[i * s.rank + s.rank - 2] + 1]++;
            starts[b + 1]++;
            st = rt_run_spend(r, &r->left, 16);
        }
    }
    if (!st)
        st = add_up(r, starts, m->n_batch);
    for (int64_t b = 0; b < m->n_batch && !st; b++) {
        next[b] = starts[b];
        st = add_up(r, kn_csr_row_starts(m, b), m->n_rows);
        if (!st)
            st = rt_run_spend(r, &r->left, m->n_rows);
    }
    for (int64_t i = 0; i < n && !st; i++) {
        const int64_t b = s.rank == 3 ? x[i * s.rank] : 0, column = x[i * s.rank + s.rank - 1];
        const int32_t to = next[b]++;
        const int64_t from =
            dense ? (b * m->n_rows + x[i * s.rank + s.rank - 2]) * m->n_columns + column : i;
        ((int32_t *)m->columns.data)[to] = (int32_t)column;
        memcpy(kn_at_mut(&m->values, to), kn_at(dense ? dense : values, from), size);
        st = rt_run_spend(r, &r->left, 16);
    }
    return st;
}

static enum rt_status check_coordinates(struct rt_run *r, int rank)
{
    const struct rt_tensor *indices = &r->in[rank ? 1 : 0], *values = &r->in[1];

    if (indices->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "indices must be a matrix; but its rank is not 2: %d", indices->rank);
    if (!rank && values->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "values must be a vector, got shape %s",
                       KN_TEXT(values));
    if (!rank && r->in[2].rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "dense_shape must be a vector, got shape %s",
                       KN_TEXT(&r->in[2]));
    if (!rank && values->dim[0] != indices->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Number of elements in index (%lld) and values (%lld) do not match.",
                       (long long)indices->dim[0], (long long)values->dim[0]);
    const int64_t want = rank ? rank : r->in[2].dim[0];
    if (indices->dim[1] != want)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Index rank (%lld) and shape rank (%lld) do not match.",
                       (long long)indices->dim[1], (long long)want);
    return RT_OK;
}

static enum rt_status from_sparse_run(struct rt_run *r)
{
    struct rt_shape s = {0};
    enum rt_status st = check_coordinates(r, 0);

    if (st)
        return st;
    s.rank = r->in[2].dim[0] > RT_MAX_RANK ? RT_MAX_RANK : kn_ints(&r->in[2], s.dim, RT_MAX_RANK);
    struct kn_csr *m = kn_csr_new(r, kn_dtype(&r->in[1]), &s);
    return m ? kn_csr_output(r, m, fill(r, m, &r->in[0], &r->in[1], NULL)) : r->err->code;
}

static enum rt_status from_dense_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    struct rt_shape s = {.rank = t->rank};

    if (t->rank != 2 && t->rank != 3)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Invalid rank of dense: %d.  Expected a known rank of either 2 or 3.",
                       t->rank);
    const enum rt_status st = check_coordinates(r, t->rank);
    if (st)
        return st;
    memcpy(s.dim, t->dim, (size_t)t->rank * sizeof *s.dim);
    struct kn_csr *m = kn_csr_new(r, kn_dtype(t), &s);
    return m ? kn_csr_output(r, m, fill(r, m, &r->in[1], NULL, t)) : r->err->code;
}

/* ---- transposition ---- */

void kn_csr_conjugate(enum rt_dtype dtype, void *p)
{
    if (dtype == RT_C64)
        ((float *)p)[1] = -((float *)p)[1];
    else if (dtype == RT_C128)
        ((double *)p)[1] = -((double *)p)[1];
}

static enum rt_status transpose(struct rt_run *r, const struct kn_csr *m, struct kn_csr *out,
                                int64_t b, int32_t *next, bool conjugates)
{
    const int32_t *rows = kn_csr_row_starts(m, b), *columns = kn_csr_columns(m, b);
    const int32_t n = rows[m->n_rows];
    int32_t *starts = kn_csr_row_starts(out, b);
    const size_t size = rt_dtype_size(m->dtype);
    enum rt_status st = RT_OK;

    for (int32_t i = 0; i < n && !st; i++) {
        starts[columns[i] + 1]++;
        st = rt_run_tick(r, i);
    }
    if (!st)
        st = add_up(r, starts, out->n_rows);
    if (!st)
        st = rt_copy_elements_checked(RT_I32, next, starts, out->n_rows,
                                      &(struct rt_check){rt_run_check_of, r}, r->err);
    for (int64_t row = 0; row < m->n_rows && !st; row++) {
        for (int32_t i = rows[row]; i < rows[row + 1]; i++) {
            const int32_t to = next[columns[i]]++;
            char *value = (char *)kn_csr_values(out, b) + (size_t)to * size;
            kn_csr_columns(out, b)[to] = (int32_t)row;
            memcpy(value, (const char *)kn_csr_values(m, b) + (size_t)i * size, size);
            if (conjugates)
                kn_csr_conjugate(m->dtype, value);
        }
        st = rt_run_spend(r, &r->left, 16 * (int64_t)(rows[row + 1] - rows[row]));
    }
    return st;
}

struct kn_csr *kn_csr_transposed(struct rt_run *r, const struct kn_csr *m, bool conjugates)
{
    struct rt_shape s = kn_csr_shape(m);

    s.dim[s.rank - 2] = m->n_columns;
    s.dim[s.rank - 1] = m->n_rows;
    struct kn_csr *out = kn_csr_new(r, m->dtype, &s);
    if (!out)
        return NULL;
    int32_t *next = rt_run_alloc(r, ((size_t)out->n_rows + 1) * sizeof *next);
    enum rt_status st = next ? kn_csr_reserve(r, out, rt_tensor_count(&m->columns)) : r->err->code;
    if (!st)
        memcpy(out->starts.data, m->starts.data, rt_tensor_bytes(&m->starts));
    for (int64_t b = 0; b < m->n_batch && !st; b++) {
        st = transpose(r, m, out, b, next, conjugates);
        if (!st)
            st = rt_run_spend(r, &r->left, KN_CSR_WORK);
    }
    rt_pool_free(next);
    if (st) {
        kn_csr_unref(out);
        return NULL;
    }
    return out;
}

static enum rt_status check_type(struct rt_run *r, const struct kn_csr *m)
{
    const enum rt_dtype want = rt_attr_dtype(r->node, "type");

    return m->dtype == want ? RT_OK
                            : rt_fail(r->err, RT_INVALID_ARGUMENT,
                                      "dtype of input is not equal to 'type': %s vs. %s",
                                      rt_dtype_name(m->dtype), rt_dtype_name(want));
}

static enum rt_status transpose_run(struct rt_run *r)
{
    const struct kn_csr *m = kn_csr_input(r, 0);
    enum rt_status st = m ? check_type(r, m) : r->err->code;
    struct kn_csr *out = st ? NULL : kn_csr_transposed(r, m, rt_attr_bool(r->node, "conjugate"));

    return out ? kn_csr_output(r, out, RT_OK) : r->err->code;
}

/* ---- to tensors ---- */

/* Calls `each` for row after row of all matrices. */
static enum rt_status each_row(struct rt_run *r, const struct kn_csr *m,
                               void (*each)(struct rt_run *r, const struct kn_csr *m, int64_t b,
                                            int64_t row))
{
    enum rt_status st = RT_OK;

    for (int64_t b = 0; b < m->n_batch && !st; b++) {
        const int32_t *rows = kn_csr_row_starts(m, b);
        for (int64_t row = 0; row < m->n_rows && !st; row++) {
            each(r, m, b, row);
            st = rt_run_spend(r, &r->left, 8 * (int64_t)(rows[row + 1] - rows[row]));
        }
    }
    return st;
}

static void put_dense(struct rt_run *r, const struct kn_csr *m, int64_t b, int64_t row)
{
    const int32_t *rows = kn_csr_row_starts(m, b), *columns = kn_csr_columns(m, b);
    const size_t size = rt_dtype_size(m->dtype);
    char *out = kn_at_mut(&r->out[0], (b * m->n_rows + row) * m->n_columns);

    for (int32_t i = rows[row]; i < rows[row + 1]; i++)
        memcpy(out + (size_t)columns[i] * size,
               (const char *)kn_csr_values(m, b) + (size_t)i * size, size);
}

/* Returns the input. If it does not have the type of the attribute, fails with the words that
 * TensorFlow uses in this op, and returns NULL. */
static const struct kn_csr *typed_input(struct rt_run *r, const char *wanted, const char *found)
{
    const struct kn_csr *m = kn_csr_input(r, 0);
    const enum rt_dtype want = rt_attr_dtype(r->node, "type");

    if (!m || m->dtype == want)
        return m;
    rt_fail(r->err, RT_INVALID_ARGUMENT, "%s a CSRSparseMatrix of type %s but saw %s: %s", wanted,
            rt_dtype_name(want), found, rt_dtype_name(m->dtype));
    return NULL;
}

static enum rt_status to_dense_run(struct rt_run *r)
{
    const struct kn_csr *m = typed_input(r, "Asked for", "dtype");

    if (!m)
        return r->err->code;
    const struct rt_shape s = kn_csr_shape(m);
    if (!rt_out(r, 0, s.rank, s.dim))
        return r->err->code;
    const enum rt_status st = kn_zero_chunks(r, r->out[0].data, rt_tensor_bytes(&r->out[0]));
    return st ? st : each_row(r, m, put_dense);
}

static void put_indices(struct rt_run *r, const struct kn_csr *m, int64_t b, int64_t row)
{
    const int32_t *rows = kn_csr_row_starts(m, b), *columns = kn_csr_columns(m, b);
    int64_t *x = (int64_t *)r->out[0].data + (kn_csr_start(m, b) + rows[row]) * m->rank;

    for (int32_t i = rows[row]; i < rows[row + 1]; i++) {
        if (m->rank == 3)
            *x++ = b;
        *x++ = row;
        *x++ = columns[i];
    }
}

static enum rt_status to_sparse_run(struct rt_run *r)
{
    const struct kn_csr *m = typed_input(r, "Expected", "type");

    if (!m)
        return r->err->code;
    const struct rt_shape s = kn_csr_shape(m);
    const int64_t rank = s.rank, dim[2] = {rt_tensor_count(&m->values), rank};
    int64_t *shape = rt_out(r, 0, 2, dim) ? rt_out(r, 2, 1, &rank) : NULL;
    if (!shape)
        return r->err->code;
    rt_out_tensor(r, 1, &m->values);
    memcpy(shape, s.dim, (size_t)rank * sizeof *shape);
    return each_row(r, m, put_indices);
}

static enum rt_status components_run(struct rt_run *r)
{
    const struct kn_csr *m = kn_csr_input(r, 0);
    int64_t b;

    if (!m)
        return r->err->code;
    enum rt_status st = check_type(r, m);
    if (st)
        return st;
    if (!kn_scalar(&r->in[1], &b))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "index should be a scalar, got shape %s",
                       KN_TEXT(&r->in[1]));
    if (b < 0 || b >= m->n_batch)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "index (%lld) not in [0, %lld)", (long long)b,
                       (long long)m->n_batch);
    const int64_t n_rows = m->n_rows + 1, n = kn_csr_start(m, b + 1) - kn_csr_start(m, b);
    void *rows = rt_out(r, 0, 1, &n_rows);
    void *columns = rows ? rt_out(r, 1, 1, &n) : NULL,
         *values = columns ? rt_out(r, 2, 1, &n) : NULL;
    if (!values)
        return r->err->code;
    st = kn_copy_run(r, RT_I32, rows, kn_csr_row_starts(m, b), n_rows);
    if (!st && n)
        st = kn_copy_run(r, RT_I32, columns, kn_csr_columns(m, b), n);
    return st || !n ? st : kn_copy_run(r, m->dtype, values, kn_csr_values(m, b), n);
}

static enum rt_status count_run(struct rt_run *r)
{
    const struct kn_csr *m = kn_csr_input(r, 0);
    int32_t *o = m ? rt_out(r, 0, m->rank - 2, &m->n_batch) : NULL;
    enum rt_status st = o ? RT_OK : r->err->code;

    for (int64_t b = 0; !st && b < m->n_batch; b++) {
        o[b] = kn_csr_start(m, b + 1) - kn_csr_start(m, b);
        st = rt_run_tick(r, b);
    }
    return st;
}

KN_CSR_OP(sparse_tensor_to_csr_sparse_matrix, "SparseTensorToCSRSparseMatrix", NULL,
          kn_infer_scalars, from_sparse_run)
KN_CSR_OP(dense_to_csr_sparse_matrix, "DenseToCSRSparseMatrix", NULL, kn_infer_scalars,
          from_dense_run)
KN_CSR_OP(csr_sparse_matrix_components, "CSRSparseMatrixComponents", NULL, NULL, components_run)
KN_CSR_OP(csr_sparse_matrix_to_dense, "CSRSparseMatrixToDense", NULL, NULL, to_dense_run)
KN_CSR_OP(csr_sparse_matrix_to_sparse_tensor, "CSRSparseMatrixToSparseTensor", NULL, NULL,
          to_sparse_run)
KN_CSR_OP(sparse_matrix_nnz, "SparseMatrixNNZ", NULL, NULL, count_run)
KN_CSR_OP(sparse_matrix_transpose, "SparseMatrixTranspose", NULL, kn_infer_scalars, transpose_run)
