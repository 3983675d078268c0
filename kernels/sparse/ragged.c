/*
 * The ops RaggedTensorToTensor and RaggedTensorToSparse. The row partitions of a ragged tensor are
 * row splits (the end of each row) or value row ids (the row of each value).
 */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

#include <stdlib.h>

/*
 * Checks that the first dimension of the outermost row splits equals the number of splits, which is
 * true of every vector. TensorFlow does not check this. It derives the number of rows from this
 * dimension, so it may read beyond the end of the splits. As in TensorFlow, other row partitions
 * may have any rank, because their elements are read in order.
 */
static enum rt_status check_outermost(struct rt_run *r, const struct rt_tensor *t)
{
    if (t->rank && t->dim[0] == rt_tensor_count(t))
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "the outermost row splits must be a vector, got shape %s", KN_TEXT(t));
}

/* Checks row splits. They must begin with 0, must not decrease, and must end with n_values, or with
 * any number if n_values is -1. */
static enum rt_status check_splits(struct rt_run *r, const struct rt_tensor *t, int64_t n_values)
{
    const int64_t n = rt_tensor_count(t);

    if (n == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s",
                       n_values < 0 ? "Invalid row split size."
                                    : "ragged splits may not be empty.");
    if (kn_int_at(t, 0) != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "First value of ragged splits must be 0.");
    for (int64_t i = 1; i < n; i++) {
        if (kn_int_at(t, i) < kn_int_at(t, i - 1))
            return rt_fail(
                r->err, RT_INVALID_ARGUMENT,
                "Ragged splits should be non decreasing, but we got %lld followed by %lld",
                (long long)kn_int_at(t, i - 1), (long long)kn_int_at(t, i));
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    if (n_values >= 0 && kn_int_at(t, n - 1) != n_values)
        return rt_fail(
            r->err, RT_INVALID_ARGUMENT,
            "Final value of ragged splits must match the length the corresponding ragged "
            "values.");
    return RT_OK;
}

/* ---- RaggedTensorToTensor ---- */

/* Limits the number of rows, because even a short input can specify a huge number of rows. */
enum { DEEPEST = RT_MAX_RANK, MOST_ROWS = 1 << 28 };

struct levels {
    struct rt_run *r;
    int n; /* number of ragged dimensions */
    /* whether the partition consists of value row ids rather than row splits */
    bool by_rowid[DEEPEST];
    const struct rt_tensor *at[DEEPEST]; /* the row partition of each ragged dimension */
    int64_t rows;                        /* number of rows of the outermost dimension */
    const struct rt_tensor *values;
    int rank;
    int64_t dim[RT_MAX_RANK], stride[RT_MAX_RANK];
};

static enum rt_status read_levels(struct levels *v)
{
    const struct rt_attr *types = rt_attr(v->r->node, "row_partition_types");
    const struct rt_args in = rt_in_arg(v->r->node, 3);
    bool first_is_size = types->n > 0 && rt_span_is(types->v.strs[0], "FIRST_DIM_SIZE");

    for (int k = first_is_size; k < in.n; k++) {
        const struct rt_span t = types->v.strs[k];
        const bool by_rowid = rt_span_is(t, "VALUE_ROWIDS");
        if (!by_rowid && !rt_span_is(t, "ROW_SPLITS"))
            return rt_fail(v->r->err, RT_INVALID_ARGUMENT, "Unsupported row partition type: %.*s",
                           (int)t.n, (const char *)t.p);
        if (v->n == DEEPEST)
            return rt_fail(v->r->err, RT_UNIMPLEMENTED, "more than %d row partitions", DEEPEST);
        v->by_rowid[v->n] = by_rowid;
        v->at[v->n++] = &v->r->in[in.first + k];
    }
    if (v->n == 0 || (v->by_rowid[0] && !first_is_size))
        return rt_fail(v->r->err, RT_INVALID_ARGUMENT,
                       "Cannot handle a row partition that does not say how many rows there are");
    if (rt_tensor_count(&v->r->in[in.first]) == 0)
        return rt_fail(v->r->err, RT_INVALID_ARGUMENT,
                       "Invalid first partition input. Tensor requires at least one element.");
    if (!first_is_size && check_outermost(v->r, v->at[0]))
        return v->r->err->code;
    v->rows = rt_tensor_count(v->at[0]) - 1;
    if (first_is_size && !kn_single(&v->r->in[in.first], &v->rows))
        return rt_fail(v->r->err, RT_INVALID_ARGUMENT, "FIRST_DIM_SIZE must be a scalar");
    if (v->rows < 0)
        return rt_fail(v->r->err, RT_INVALID_ARGUMENT, "Dimension %lld must be >= 0",
                       (long long)v->rows);
    return RT_OK;
}

static enum rt_status check_all_splits(const struct levels *v)
{
    enum rt_status st = RT_OK;

    for (int k = 0; k < v->n && !st; k++)
        st = v->by_rowid[k] ? RT_OK : check_splits(v->r, v->at[k], -1);
    return st;
}

/* Sets *most to the length of the longest row of a level. The level's splits may be invalid. */
static enum rt_status width_of(const struct levels *v, int k, int64_t *most)
{
    const struct rt_tensor *t = v->at[k];
    const int64_t n = rt_tensor_count(t);
    int64_t run = 0;

    *most = 0;
    for (int64_t i = 0; i < n; i++) {
        if (v->by_rowid[k])
            run = i && kn_int_at(t, i) == kn_int_at(t, i - 1) ? run + 1 : 1;
        else
            run = i ? rt_sub_saturated(kn_int_at(t, i), kn_int_at(t, i - 1)) : 0;
        *most = run > *most ? run : *most;
        if (rt_run_tick(v->r, i))
            return v->r->err->code;
    }
    return RT_OK;
}

/* Chooses the output shape. A dimension that the input `shape` does not determine gets the smallest
 * size that holds all values. */
static enum rt_status choose_shape(struct levels *v)
{
    const struct rt_tensor *want = &v->r->in[0], *values = v->values;

    v->rank = v->n + values->rank;
    if (v->rank > RT_MAX_RANK)
        return rt_fail(v->r->err, RT_UNIMPLEMENTED, "rank %d is above %d", v->rank, RT_MAX_RANK);
    if (want->rank == 0 ? kn_int_at(want, 0) != -1 : want->rank != 1)
        return rt_fail(v->r->err, RT_INVALID_ARGUMENT, "shape must be a vector, or -1: %s",
                       KN_TEXT(want));
    struct rt_shape asked_shape = {0};
    if (want->rank && (asked_shape.rank = kn_ints(want, asked_shape.dim, RT_MAX_RANK)) != v->rank)
        return rt_fail(v->r->err, RT_INVALID_ARGUMENT,
                       "rt_input.shape and shape=%s are incompatible: rt_input.rank = %d but "
                       "shape.rank = %lld",
                       KN_TEXT(&asked_shape), v->rank, (long long)want->dim[0]);
    for (int d = 0; d < v->rank; d++) {
        const int64_t asked = want->rank ? kn_int_at(want, d) : -1;
        const int64_t inner = d > v->n ? values->dim[d - v->n] : -1;
        if (asked < -1 || (asked >= 0 && inner >= 0 && asked != inner))
            return rt_fail(
                v->r->err, RT_INVALID_ARGUMENT,
                "rt_input.shape and shape=%s are incompatible: rt_input.shape[%d] = %lld "
                "but shape[%d] = %lld",
                KN_TEXT(&asked_shape), d, (long long)inner, d, (long long)asked);
        v->dim[d] = asked >= 0 ? asked : inner >= 0 ? inner : v->rows;
        if (asked < 0 && inner < 0 && d && width_of(v, d - 1, &v->dim[d]))
            return v->r->err->code;
    }
    if (rt_count(v->rank, v->dim) < 0)
        return rt_fail_memory(v->r->err, v->r->node->name, SIZE_MAX);
    kn_strides(v->rank, v->dim, v->stride);
    return RT_OK;
}

/* Returns the number of rows in the partition of level k. These rows are the values of the level
 * above. */
static int64_t parents_of(const struct levels *v, int k)
{
    const struct rt_tensor *t = v->at[k];
    const int64_t n = rt_tensor_count(t);

    if (!v->by_rowid[k])
        return n - 1;
    const int64_t last = n ? kn_int_at(t, n - 1) : -1;
    return last < MOST_ROWS ? last + 1 : MOST_ROWS;
}

/* Sets (*out)[i] to the output position of value i of level k, or to -1 if the value lies outside
 * the output. parent[row] is the output position of a row of level k. */
static enum rt_status place_level(const struct levels *v, int k, const int64_t *parent,
                                  int64_t n_parents, int64_t **out, int64_t *n)
{
    const struct rt_tensor *t = v->at[k];
    const int64_t width = v->dim[k + 1], stride = v->stride[k + 1];

    *n = rt_tensor_count(t);
    if (!v->by_rowid[k])
        *n = kn_int_at(t, *n - 1);
    /* As in TensorFlow, missing values are replaced by the default value. */
    if (*n > v->values->dim[0] && k == v->n - 1)
        *n = v->values->dim[0];
    /* rows that the next level's partition does not describe are empty */
    if (k + 1 < v->n && *n > parents_of(v, k + 1))
        *n = parents_of(v, k + 1);
    if (*n < 0 || *n > MOST_ROWS)
        return rt_fail_memory(v->r->err, v->r->node->name, (size_t)*n * sizeof **out);
    *out = rt_run_alloc(v->r, (size_t)*n * sizeof **out);
    if (!*out)
        return v->r->err->code;
    int64_t row = 0, column = 0;
    for (int64_t i = 0; i < *n; i++, column++) {
        if (v->by_rowid[k]) {
            const int64_t id = kn_int_at(t, i);
            if (id < 0 || id >= n_parents || (i && id < row))
                return rt_fail(v->r->err, RT_INVALID_ARGUMENT,
                               "value_rowids[%lld] = %lld is out of order, or there is no such row",
                               (long long)i, (long long)id);
            column = i == 0 || id != row ? 0 : column;
            row = id;
        } else {
            for (; kn_int_at(t, row + 1) <= i; row++) {
                column = 0;
                if (rt_run_tick(v->r, row))
                    return v->r->err->code;
            }
            if (i == kn_int_at(t, row))
                column = 0;
            if (row >= n_parents)
                return rt_fail(v->r->err, RT_INVALID_ARGUMENT, "there are more rows than parents");
        }
        (*out)[i] = parent[row] >= 0 && column < width ? parent[row] + column * stride : -1;
        if (rt_run_tick(v->r, i))
            return v->r->err->code;
    }
    return RT_OK;
}

/* Checks that the default value has fewer dimensions than `values`, and that each of its dimensions
 * is 1 or equal to the corresponding dimension of one value. As in TensorFlow, the first dimensions
 * correspond, although broadcasting aligns the last ones. */
static enum rt_status check_default(const struct levels *v)
{
    const struct rt_tensor *def = &v->r->in[2];

    if (def->rank >= v->values->rank)
        return rt_fail(v->r->err, RT_INVALID_ARGUMENT,
                       "default_value.shape=%s and rt_input.flat_values.shape=%s are incompatible: "
                       "default_value.rank = %d  must be less than rt_input.flat_values.rank = %d",
                       KN_TEXT(def), KN_TEXT(v->values), def->rank, v->values->rank);
    for (int d = 0; d < def->rank; d++)
        if (def->dim[d] != 1 && def->dim[d] != v->values->dim[d + 1])
            return rt_fail(v->r->err, RT_INVALID_ARGUMENT,
                           "default_value.shape=%s and rt_input.flat_values.shape=%s are "
                           "incompatible: default_value.shape[%d] = %lld but "
                           "rt_input.flat_values.shape[%d] = %lld",
                           KN_TEXT(def), KN_TEXT(v->values), d - def->rank, (long long)def->dim[d],
                           d - def->rank, (long long)v->values->dim[d + 1]);
    return RT_OK;
}

/* Fills the output, which must not be empty, with the default value, broadcast to the shape of one
 * value. As in TensorFlow, a default value with as many elements as one value is used as if it had
 * that shape. */
static enum rt_status fill(struct levels *v, void *out)
{
    const struct rt_tensor *def = &v->r->in[2];
    const enum rt_dtype dtype = kn_dtype(def);
    const int inner = v->values->rank - 1;
    const bool whole = rt_tensor_count(def) == rt_count(inner, v->values->dim + 1);
    const int rank = whole ? inner : def->rank;
    const int64_t *dim = whole ? v->values->dim + 1 : def->dim;
    struct kn_walk w = {.rank = v->rank};
    int64_t stride[RT_MAX_RANK];

    if (rt_tensor_count(def) == 1)
        return kn_repeat(dtype, out, def->data, rt_count(v->rank, v->dim), v->r);
    kn_strides(rank, dim, stride);
    for (int d = 0; d < v->rank; d++) {
        const int at = d - (v->rank - rank);
        const bool repeated = at < 0 || dim[at] == 1;
        if (!repeated && dim[at] != v->dim[d])
            return rt_fail(v->r->err, RT_INVALID_ARGUMENT, "Error broadcasting default_value");
        w.dim[d] = v->dim[d];
        w.dst[d] = v->stride[d];
        w.src[d] = repeated ? 0 : stride[at];
    }
    return kn_walk_copy(dtype, &w, out, def->data, v->r);
}

static enum rt_status place_values(struct levels *v, void *out)
{
    const enum rt_dtype dtype = kn_dtype(v->values);
    const int64_t block = rt_count(v->values->rank - 1, v->values->dim + 1);
    int64_t n = v->rows < parents_of(v, 0) ? v->rows : parents_of(v, 0), *next = NULL;
    int64_t left = RT_WORK;

    if (n < 0 || n > MOST_ROWS)
        return rt_fail_memory(v->r->err, v->r->node->name, (size_t)n * sizeof *next);
    int64_t *at = rt_run_alloc(v->r, (size_t)n * sizeof *at);
    enum rt_status st = at ? RT_OK : v->r->err->code;

    for (int64_t i = 0; i < n && !st; i++) {
        at[i] = i < v->dim[0] ? i * v->stride[0] : -1;
        st = rt_run_tick(v->r, i);
    }
    for (int k = 0; k < v->n && !st; k++) {
        next = NULL;
        st = place_level(v, k, at, n, &next, &n);
        rt_pool_free(at);
        at = next;
    }
    const int64_t work = rt_dtype_is_plain(dtype) ? block : rt_mul_saturated(block, 128);
    for (int64_t i = 0; i < n && !st; i++) {
        if (at[i] >= 0 && block)
            st = kn_copy_run(v->r, dtype, (char *)out + (size_t)at[i] * rt_dtype_size(dtype),
                             kn_at(v->values, i * block), block);
        st = st ? st : rt_run_spend(v->r, &left, work + 16);
    }
    rt_pool_free(at);
    return st;
}

static enum rt_status to_tensor_run(struct rt_run *r)
{
    struct levels v = {.r = r, .values = &r->in[1]};
    enum rt_status st = read_levels(&v);

    st = st ? st : check_default(&v);
    st = st ? st : choose_shape(&v);
    void *out = st ? NULL : rt_out(r, 0, v.rank, v.dim);
    if (!out)
        return r->err->code;
    /* As in TensorFlow, if the output is empty, neither the splits nor the broadcast of the default
     * value is checked. */
    if (rt_count(v.rank, v.dim) == 0)
        return RT_OK;
    st = fill(&v, out);
    st = st ? st : check_all_splits(&v);
    return st ? st : place_values(&v, out);
}

static enum rt_status check_partitions(const struct rt_node *n, struct rt_error *err)
{
    const struct rt_attr *types = rt_attr(n, "row_partition_types");
    const struct rt_args in = rt_in_arg(n, 3);

    if (types->n != (size_t)in.n)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Expected one row partition per type, got %d and %zu", in.n, types->n);
    return RT_OK;
}

const struct kn_entry kn_ragged_tensor_to_tensor = {
    .op = {.name = "RaggedTensorToTensor", .check = check_partitions},
    .kernels = KN_CPU("RaggedTensorToTensor", "ragged_tensor_to_tensor", 0, NULL, to_tensor_run),
};

/* ---- RaggedTensorToSparse ---- */

static enum rt_status to_sparse_run(struct rt_run *r)
{
    const int levels = r->n_in - 1;
    const struct rt_tensor *values = &r->in[levels];
    enum rt_status st = RT_OK;

    if (values->rank < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "values have shape %s", KN_TEXT(values));
    if (levels + values->rank > RT_MAX_RANK)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: more than %d dimensions are not supported",
                       r->node->schema->name, RT_MAX_RANK);
    st = check_outermost(r, &r->in[0]);
    for (int k = 0; k < levels && !st; k++)
        st = check_splits(r, &r->in[k],
                          k + 1 < levels ? rt_tensor_count(&r->in[k + 1]) - 1 : values->dim[0]);
    if (st)
        return st;
    const int64_t block = rt_count(values->rank - 1, values->dim + 1);
    const int64_t total = rt_tensor_count(values), rank = levels + values->rank;
    int64_t *index = rt_out(r, 0, 2, (int64_t[]){total, rank});
    void *out = index ? rt_out(r, 1, 1, &total) : NULL;
    int64_t *shape = out ? rt_out(r, 2, 1, &rank) : NULL;
    if (!shape)
        return r->err->code;
    shape[0] = r->in[0].dim[0] - 1;
    for (int k = 0; k < levels; k++) {
        const int64_t n_splits = rt_tensor_count(&r->in[k]);
        shape[k + 1] = 0;
        for (int64_t i = 1; i < n_splits; i++) {
            const int64_t n = kn_int_at(&r->in[k], i) - kn_int_at(&r->in[k], i - 1);
            shape[k + 1] = n > shape[k + 1] ? n : shape[k + 1];
            if (rt_run_tick(r, i))
                return r->err->code;
        }
    }
    for (int d = 1; d < values->rank; d++)
        shape[levels + d] = values->dim[d];
    /* row[k] is the index of the row of level k that contains value i. row[k] never decreases as i
     * increases. */
    int64_t row[RT_MAX_RANK] = {0}, inner[RT_MAX_RANK], left = RT_WORK;
    kn_strides(values->rank, values->dim, inner);
    for (int64_t i = 0; i < values->dim[0]; i++) {
        int64_t at = i, head[RT_MAX_RANK];
        for (int k = levels - 1; k >= 0; k--) {
            for (; kn_int_at(&r->in[k], row[k] + 1) <= at; row[k]++)
                if (rt_run_tick(r, row[k]))
                    return r->err->code;
            head[k + 1] = at - kn_int_at(&r->in[k], row[k]);
            at = row[k];
        }
        head[0] = at;
        for (int64_t j = 0; j < block; j++) {
            int64_t rest = j;
            for (int d = 0; d <= levels; d++)
                *index++ = head[d];
            for (int d = 1; d < values->rank; d++) {
                *index++ = rest / inner[d];
                rest %= inner[d];
            }
            /* Each dimension takes a division and a write to newly allocated memory. Together they
             * count as 8 units of work. */
            if (rt_run_spend(r, &left, 8 * rank))
                return r->err->code;
        }
        if (rt_run_spend(r, &left, 4 * levels))
            return r->err->code;
    }
    return kn_copy_run(r, kn_dtype(values), out, values->data, total);
}

const struct kn_entry kn_ragged_tensor_to_sparse = {
    .op = {.name = "RaggedTensorToSparse"},
    .kernels = KN_CPU("RaggedTensorToSparse", "ragged_tensor_to_sparse", 0, NULL, to_sparse_run),
};
