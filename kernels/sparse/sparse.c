/*
 * The ops SparseToDense, SparseReshape, SparseFillEmptyRows and SparseReorder. A sparse tensor
 * consists of three tensors: int64 indices [n, rank], values [n] and shape [rank].
 */
#include "kernels/sparse/coo.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

#include <stdio.h>

/* Formats a row of indices for error messages, as "[1,-2]". */
static const char *row_text(char *buf, size_t n, const struct rt_tensor *t, int64_t row, int rank)
{
    size_t len = (size_t)snprintf(buf, n, "[");

    for (int d = 0; d < rank && len < n; d++)
        len += (size_t)snprintf(buf + len, n - len, "%s%lld", d ? "," : "",
                                (long long)kn_int_at(t, row * rank + d));
    if (len < n)
        snprintf(buf + len, n - len, "]");
    return buf;
}

/* ---- SparseToDense ---- */

static enum rt_status dense_checks(struct rt_run *r, int64_t n, int64_t rank)
{
    const struct rt_tensor *indices = &r->in[0], *shape = &r->in[1], *values = &r->in[2];

    if (indices->rank > 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "sparse_indices should be a scalar, vector, or matrix, got shape %s",
                       KN_TEXT(indices));
    if (shape->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "output_shape must be rank 1, got shape %s",
                       KN_TEXT(shape));
    if (shape->dim[0] != rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "output_shape has incorrect number of elements: %lld should be: %lld",
                       (long long)shape->dim[0], (long long)rank);
    if (rank > RT_MAX_RANK)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "rank %lld is above %d", (long long)rank,
                       RT_MAX_RANK);
    if (values->rank > 1 || (values->rank == 1 && values->dim[0] != n))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "sparse_values has incorrect shape %s, should be [] or [%lld]",
                       KN_TEXT(values), (long long)n);
    if (r->in[3].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "default_value should be a scalar.");
    return RT_OK;
}

/* Compares rows a and b of the indices in lexicographic order. */
static int compare_rows(const struct rt_tensor *t, int64_t a, int64_t b, int64_t rank)
{
    for (int64_t d = 0; d < rank; d++) {
        const int64_t x = kn_int_at(t, a * rank + d), y = kn_int_at(t, b * rank + d);
        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

static enum rt_status check_row(struct rt_run *r, int64_t i, int rank, const int64_t *dim)
{
    const struct rt_tensor *indices = &r->in[0];
    const int order = i ? compare_rows(indices, i - 1, i, rank) : -1;
    bool is_inside = true;
    char row[KN_SHAPE_TEXT];

    for (int d = 0; d < rank; d++) {
        const int64_t v = kn_int_at(indices, i * rank + d);
        is_inside &= v >= 0 && v < dim[d];
    }
    if (is_inside && order < 0)
        return RT_OK;
    row_text(row, sizeof row, indices, i, rank);
    if (!is_inside)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "indices[%lld] = %s is out of bounds: need 0 <= index < %s", (long long)i,
                       row, rt_shape_text((char[KN_SHAPE_TEXT]){0}, KN_SHAPE_TEXT, rank, dim));
    if (order > 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "indices[%lld] = %s is out of order. Many sparse ops require sorted indices."
                       "\n    Use `tf.sparse.reorder` to create a correctly ordered copy.\n\n",
                       (long long)i, row);
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "indices[%lld] = %s is repeated", (long long)i,
                   row);
}

static enum rt_status to_dense_run(struct rt_run *r)
{
    const struct rt_tensor *indices = &r->in[0], *values = &r->in[2];
    const int64_t n = indices->rank > 0 ? indices->dim[0] : 1;
    const int64_t rank = indices->rank > 1 ? indices->dim[1] : 1;
    const bool validates = rt_attr_bool(r->node, "validate_indices");
    int64_t dim[RT_MAX_RANK], stride[RT_MAX_RANK];
    enum rt_status st = dense_checks(r, n, rank);

    if (st)
        return st;
    for (int d = 0; d < rank; d++) {
        dim[d] = kn_int_at(&r->in[1], d);
        if (dim[d] < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Dimension %lld must be >= 0",
                           (long long)dim[d]);
    }
    for (int64_t i = 0; i < n && validates && !st; i++)
        st = check_row(r, i, (int)rank, dim);
    void *out = st ? NULL : rt_out(r, 0, (int)rank, dim);
    if (!out)
        return r->err->code;
    const int64_t all = rt_count((int)rank, dim);
    const enum rt_dtype dtype = kn_dtype(values);
    kn_strides((int)rank, dim, stride);
    st = all ? kn_repeat(dtype, out, r->in[3].data, all, r) : RT_OK;
    for (int64_t i = 0; i < n && !st; i++) {
        int64_t at = 0;
        for (int d = 0; d < rank; d++) {
            const int64_t v = kn_int_at(indices, i * rank + d);
            if (v < 0 || v >= dim[d])
                return rt_fail(
                    r->err, RT_INVALID_ARGUMENT,
                    "Indices are not valid (out of bounds).  Shape: %s",
                    rt_shape_text((char[KN_SHAPE_TEXT]){0}, KN_SHAPE_TEXT, (int)rank, dim));
            at += v * stride[d];
        }
        kn_coo_copy(dtype, out, at, values->data, values->rank ? i : 0);
    }
    return st;
}

const struct kn_entry kn_sparse_to_dense = {
    .op = {.name = "SparseToDense"},
    .kernels = KN_CPU("SparseToDense", "sparse_to_dense", 0, NULL, to_dense_run),
};

/* ---- SparseReshape ---- */

/* Computes the new shape. If one of its dimensions is given as -1, infers that dimension. */
static enum rt_status new_shape(struct rt_run *r, const struct rt_shape *from, int64_t total,
                                int64_t *to, int rank)
{
    const struct rt_tensor *want = &r->in[2];
    int64_t known = 1;
    int unknown = -1;

    for (int d = 0; d < rank; d++) {
        to[d] = kn_int_at(want, d);
        if (to[d] == -1) {
            if (unknown >= 0)
                return rt_fail(r->err, RT_INVALID_ARGUMENT,
                               "only one output dimension may be -1, not both %d and %d", unknown,
                               d);
            unknown = d;
            to[d] = 1;
        } else if (to[d] < 0) {
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "size %d must be non-negative, not %lld", d,
                           (long long)to[d]);
        }
        if (!rt_mul(known, to[d], &known))
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "the product of shape %s is too large",
                           rt_shape_text((char[KN_SHAPE_TEXT]){0}, KN_SHAPE_TEXT, d + 1, to));
    }
    if (unknown >= 0) {
        if (known <= 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "reshape cannot infer the missing input size for an empty tensor unless "
                           "all specified input sizes are non-zero");
        to[unknown] = total / known;
        if (to[unknown] * known != total)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Input to reshape is a SparseTensor with %lld dense values, but the "
                           "requested shape requires a multiple of %lld. input_shape=%s "
                           "output_shape=%s",
                           (long long)total, (long long)known, KN_TEXT(from),
                           rt_shape_text((char[KN_SHAPE_TEXT]){0}, KN_SHAPE_TEXT, rank, to));
        known = total;
    }
    if (known != total)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input to reshape is a tensor with %lld dense values, but the requested "
                       "shape has %lld. input_shape=%s output_shape=%s",
                       (long long)total, (long long)known, KN_TEXT(from),
                       rt_shape_text((char[KN_SHAPE_TEXT]){0}, KN_SHAPE_TEXT, rank, to));
    return RT_OK;
}

static enum rt_status reshape_checks(struct rt_run *r)
{
    const struct rt_tensor *indices = &r->in[0], *shape = &r->in[1], *want = &r->in[2];

    if (indices->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input must be a matrix.");
    if (shape->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input shape must be a vector.");
    if (want->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Target shape should be a vector but received shape %s", KN_TEXT(want));
    if (indices->dim[1] != shape->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input tensor rank must match input shape length.");
    if (shape->dim[0] > RT_MAX_RANK || want->dim[0] > RT_MAX_RANK)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "a rank above %d", RT_MAX_RANK);
    return RT_OK;
}

static enum rt_status reshape_run(struct rt_run *r)
{
    const struct rt_tensor *indices = &r->in[0], *shape = &r->in[1];
    struct rt_shape from = {0};
    int64_t to[RT_MAX_RANK], from_stride[RT_MAX_RANK], to_stride[RT_MAX_RANK];
    enum rt_status st = reshape_checks(r);

    if (st)
        return st;
    const int rank = (int)shape->dim[0], new_rank = (int)r->in[2].dim[0];
    from.rank = rank;
    for (int d = 0; d < rank; d++)
        from.dim[d] = kn_int_at(shape, d);
    const int64_t total = rt_count(rank, from.dim);
    if (total < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input shape %s is not valid",
                       rt_shape_text((char[KN_SHAPE_TEXT]){0}, KN_SHAPE_TEXT, rank, from.dim));
    st = new_shape(r, &from, total, to, new_rank);
    const int64_t n = indices->dim[0], dim[2] = {n, new_rank}, out_rank = new_rank;
    int64_t *out = st ? NULL : rt_out(r, 0, 2, dim);
    int64_t *out_shape = out ? rt_out(r, 1, 1, &out_rank) : NULL;
    if (!out_shape)
        return r->err->code;
    if (new_rank)
        memcpy(out_shape, to, (size_t)new_rank * sizeof *to);
    kn_strides(rank, from.dim, from_stride);
    kn_strides(new_rank, to, to_stride);
    const int64_t *in = indices->data;
    /* If both ranks are 0, the indices have no elements, however large n is. */
    for (int64_t i = 0; i < n && rank + new_rank; i++) {
        int64_t at = 0;
        if (rt_run_tick(r, i))
            return r->err->code;
        for (int d = 0; d < rank; d++) {
            const int64_t v = in[i * rank + d];
            if (v < 0 || v >= from.dim[d]) /* the index lies outside the old shape */
                return rt_fail(
                    r->err, RT_INVALID_ARGUMENT,
                    "indices[%lld] is out of bounds: need 0 <= index < %s", (long long)i,
                    rt_shape_text((char[KN_SHAPE_TEXT]){0}, KN_SHAPE_TEXT, rank, from.dim));
            at += v * from_stride[d];
        }
        for (int d = 0; d < new_rank; d++) {
            out[i * new_rank + d] = to_stride[d] ? at / to_stride[d] : 0;
            at = to_stride[d] ? at % to_stride[d] : 0;
        }
    }
    return RT_OK;
}

const struct kn_entry kn_sparse_reshape = {
    .op = {.name = "SparseReshape"},
    .kernels = KN_CPU("SparseReshape", "sparse_reshape", 0, NULL, reshape_run),
};

/* ---- SparseFillEmptyRows ---- */

static enum rt_status fill_checks(struct rt_run *r)
{
    const struct rt_tensor *indices = &r->in[0], *values = &r->in[1], *shape = &r->in[2];

    if (shape->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "dense_shape must be a vector, saw: %s",
                       KN_TEXT(shape));
    if (indices->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "indices must be a matrix, saw: %s",
                       KN_TEXT(indices));
    if (values->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "values must be a vector, saw: %s",
                       KN_TEXT(values));
    if (values->dim[0] != indices->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The length of `values` (%lld) must match the first dimension of `indices` "
                       "(%lld).",
                       (long long)values->dim[0], (long long)indices->dim[0]);
    if (indices->dim[1] != shape->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The length of `dense_shape` (%lld) must match the second dimension of "
                       "`indices` (%lld).",
                       (long long)shape->dim[0], (long long)indices->dim[1]);
    if (r->in[3].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "default_value must be a scalar, saw: %s",
                       KN_TEXT(&r->in[3]));
    if (shape->dim[0] == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Dense shape cannot be empty.");
    if (kn_int_at(shape, 0) < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "dense_shape[0] must not be negative: %lld",
                       (long long)kn_int_at(shape, 0));
    if (kn_int_at(shape, 0) == 0 && indices->dim[0] > 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = %lld",
                       (long long)indices->dim[0]);
    return RT_OK;
}

/* For each row, sets start[row] to the position at which the row begins in the output. Sets
 * start[rows] to the length of the output. */
static enum rt_status place_rows(struct rt_run *r, int64_t rows, int64_t *start, bool *empty)
{
    const struct rt_tensor *indices = &r->in[0];
    const int64_t n = indices->dim[0], rank = indices->rank == 2 ? indices->dim[1] : 1;
    const int64_t *in = indices->data;

    if (kn_zero_chunks(r, start, (size_t)(rows + 1) * sizeof *start))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = in[i * rank];
        if (row < 0 || row >= rows)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "indices(%lld, 0) is invalid: %lld >= %lld",
                           (long long)i, (long long)row, (long long)rows);
        start[row + 1]++;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    for (int64_t row = 0; row < rows; row++) {
        empty[row] = start[row + 1] == 0;
        start[row + 1] += start[row] + empty[row];
        if (rt_run_tick(r, row))
            return r->err->code;
    }
    return RT_OK;
}

/* Fills the empty rows of a tensor that has `rows` rows. The op is SparseFillEmptyRows or
 * RaggedFillEmptyRows. The indices of RaggedFillEmptyRows are a vector of rows. */
static enum rt_status fill_rows(struct rt_run *r, int64_t rows)
{
    enum { ROW_WORK = 128 }; /* a value may be a string, and copying a string takes about 50 ns */
    const struct rt_tensor *indices = &r->in[0], *values = &r->in[1];
    const enum rt_dtype dtype = kn_dtype(values);
    const int64_t n = indices->dim[0], rank = indices->rank == 2 ? indices->dim[1] : 1;
    const int64_t *in = indices->data;
    bool *empty = rt_out(r, 2, 1, &rows);
    int64_t *map = empty ? rt_out(r, 3, 1, &n) : NULL;
    if (!map)
        return r->err->code;
    if (rows >= INT64_MAX / 16)
        return rt_fail_memory(r->err, r->node->name, SIZE_MAX);
    int64_t *start = rt_scratch(r, (size_t)(rows + 1) * sizeof *start);
    if (!start || place_rows(r, rows, start, empty))
        return r->err->code;
    const int64_t dim[2] = {start[rows], rank};
    /* If there are no rows, the indices of the output are a matrix, as in TensorFlow. */
    int64_t *out = rt_out(r, 0, rows ? indices->rank : 2, dim);
    void *out_values = out ? rt_out(r, 1, 1, dim) : NULL;
    if (!out_values)
        return r->err->code;
    int64_t left = RT_WORK;
    for (int64_t row = 0; row < rows; row++) {
        if (rt_run_spend(r, &left, empty[row] ? ROW_WORK + rank : 1))
            return r->err->code;
        if (empty[row]) {
            int64_t *to = out + start[row] * rank;
            memset(to, 0, (size_t)rank * sizeof *to);
            *to = row;
            kn_coo_copy(dtype, out_values, start[row], r->in[3].data, 0);
        }
    }
    for (int64_t i = 0; i < n; i++) {
        if (rt_run_spend(r, &left, ROW_WORK + rank))
            return r->err->code;
        map[i] = start[in[i * rank]]++;
        memcpy(out + map[i] * rank, in + i * rank, (size_t)rank * sizeof *in);
        kn_coo_copy(dtype, out_values, map[i], values->data, i);
    }
    return RT_OK;
}

static enum rt_status fill_run(struct rt_run *r)
{
    const enum rt_status st = fill_checks(r);

    return st ? st : fill_rows(r, kn_int_at(&r->in[2], 0));
}

const struct kn_entry kn_sparse_fill_empty_rows = {
    .op = {.name = "SparseFillEmptyRows"},
    .kernels = KN_CPU("SparseFillEmptyRows", "sparse_fill_empty_rows", 0, NULL, fill_run),
};

static enum rt_status ragged_fill_run(struct rt_run *r)
{
    const struct rt_tensor *ids = &r->in[0], *values = &r->in[1];

    if (r->in[2].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "nrows must be a scalar, saw: %s",
                       KN_TEXT(&r->in[2]));
    if (ids->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "value_rowids must be a vector, saw: %s",
                       KN_TEXT(ids));
    if (values->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "values must be a vector, saw: %s",
                       KN_TEXT(values));
    if (values->dim[0] != ids->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The length of `values` (%lld) must match the first dimension of "
                       "`value_rowids` (%lld).",
                       (long long)values->dim[0], (long long)ids->dim[0]);
    if (r->in[3].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "default_value must be a scalar, saw: %s",
                       KN_TEXT(&r->in[3]));
    const int64_t rows = kn_int_at(&r->in[2], 0);
    if (rows < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected shape dimensions to be non-negative, got %lld", (long long)rows);
    if (rows == 0 && ids->dim[0] > 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = %lld",
                       (long long)ids->dim[0]);
    return fill_rows(r, rows);
}

const struct kn_entry kn_ragged_fill_empty_rows = {
    .op = {.name = "RaggedFillEmptyRows"},
    .kernels = KN_CPU("RaggedFillEmptyRows", "ragged_fill_empty_rows", 0, NULL, ragged_fill_run),
};

/* ---- SparseReorder ---- */

static enum rt_status reorder_run(struct rt_run *r)
{
    const struct rt_tensor *indices = &r->in[0], *values = &r->in[1], *shape = &r->in[2];

    if (indices->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Sparse indices must be rank 2 but is rank %d",
                       indices->rank);
    if (values->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Sparse values must be rank 1 but is rank %d",
                       values->rank);
    if (shape->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Sparse shape must be rank 1 but is rank %d",
                       shape->rank);
    if (shape->dim[0] != indices->dim[1] || values->dim[0] != indices->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "indices %s, values %s and shape %s do not go together", KN_TEXT(indices),
                       KN_TEXT(values), KN_TEXT(shape));
    const int64_t n = indices->dim[0], rank = indices->dim[1];
    const int64_t *in = indices->data;
    int64_t *out = rt_out(r, 0, 2, indices->dim);
    void *out_values = out ? rt_out(r, 1, 1, &n) : NULL;
    struct kn_coo_place *place = out_values ? kn_coo_sort(r, in, n, rank, NULL) : NULL;
    if (!place)
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        memcpy(out + i * rank, place[i].row, (size_t)rank * sizeof *in);
        kn_coo_copy(kn_dtype(values), out_values, i, values->data, place[i].at);
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

const struct kn_entry kn_sparse_reorder = {
    .op = {.name = "SparseReorder"},
    .kernels = KN_CPU("SparseReorder", "sparse_reorder", 0, NULL, reorder_run),
};
