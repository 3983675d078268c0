/* The ops SparseSlice, SparseConcat and SparseSplit. */
#include "kernels/sparse/coo.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

/* ---- SparseSlice ---- */

static enum rt_status slice_checks(struct rt_run *r, const struct kn_coo *s)
{
    const struct rt_tensor *start = &r->in[3], *size = &r->in[4];
    enum rt_status st = kn_coo_check(r, s);

    if (!st && start->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input start should be a vector but received shape %s", KN_TEXT(start));
    if (!st && size->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input size should be a vector but received shape %s", KN_TEXT(size));
    if (!st && start->dim[0] != s->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected start to be a vector of length %lld but got length %lld",
                       (long long)s->rank, (long long)start->dim[0]);
    if (!st && size->dim[0] != s->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected size to be a vector of length %lld but got length %lld",
                       (long long)s->rank, (long long)size->dim[0]);
    st = st ? st : kn_coo_check_shape(r, s->dim, s->rank);
    for (int64_t d = 0; d < s->rank && !st; d++)
        if (kn_int_at(size, d) < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected a non-negative size, got %lld",
                           (long long)kn_int_at(size, d));
    return st;
}

/* Returns whether a row of indices is inside the slice. As in TensorFlow, start + size may wrap
 * around. */
static bool is_inside(const int64_t *row, const int64_t *start, const int64_t *size, int64_t rank)
{
    for (int64_t d = 0; d < rank; d++)
        if (row[d] < start[d] || row[d] >= rt_add_wrapped(start[d], size[d]))
            return false;
    return true;
}

static enum rt_status slice_run(struct rt_run *r)
{
    const struct kn_coo s = kn_coo_of(&r->in[0], &r->in[1], &r->in[2]);
    const int64_t *start = r->in[3].data, *size = r->in[4].data;
    int64_t n = 0, left = RT_WORK;
    enum rt_status st = slice_checks(r, &s);
    int64_t *dim = st ? NULL : rt_out(r, 2, 1, &s.rank);

    if (!dim)
        return r->err->code;
    for (int64_t d = 0; d < s.rank; d++)
        if (start[d] >= s.dim[d])
            dim[d] = 0;
        else
            dim[d] = rt_add_saturated(start[d], size[d]) < s.dim[d] ? size[d] : s.dim[d] - start[d];
    st = kn_coo_check_shape(r, dim, s.rank);
    for (int64_t i = 0; i < s.n && !st; i++) {
        n += is_inside(s.at + i * s.rank, start, size, s.rank);
        st = rt_run_spend(r, &left, s.rank);
    }
    int64_t *out = st ? NULL : rt_out(r, 0, 2, (int64_t[]){n, s.rank});
    void *values = out ? rt_out(r, 1, 1, &n) : NULL;
    if (!values)
        return r->err->code;
    for (int64_t i = 0, to = 0; i < s.n && !st; i++) {
        const int64_t *row = s.at + i * s.rank;
        if (is_inside(row, start, size, s.rank)) {
            for (int64_t d = 0; d < s.rank; d++)
                out[to * s.rank + d] = row[d] - start[d];
            kn_coo_copy(kn_dtype(s.values), values, to++, s.values->data, i);
        }
        st = rt_run_spend(r, &left, KN_COO_WORK + s.rank);
    }
    return st;
}

const struct kn_entry kn_sparse_slice = {
    .op = {.name = "SparseSlice"},
    .kernels = KN_CPU("SparseSlice", "sparse_slice", 0, NULL, slice_run),
};

/* ---- SparseConcat ---- */

struct concat {
    struct rt_run *r;
    int n; /* number of sparse tensors */
    int64_t axis, rank, total;
};

static struct kn_coo part(const struct concat *c, int i)
{
    return kn_coo_of(&c->r->in[i], &c->r->in[c->n + i], &c->r->in[2 * c->n + i]);
}

static enum rt_status check_ranks(const struct concat *c)
{
    struct rt_run *r = c->r;

    for (int i = 0; i < c->n; i++) {
        const struct kn_coo s = part(c, i);
        if (s.indices->rank != 2)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Input indices should be a matrix but received shape %s at position %d",
                           KN_TEXT(s.indices), i);
        if (s.values->rank != 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Input values should be a vector but received shape %s at position %d",
                           KN_TEXT(s.values), i);
        if (s.shape->rank != 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Input shapes should be a vector but received shape %s at position %d",
                           KN_TEXT(s.shape), i);
    }
    return RT_OK;
}

static enum rt_status fail_overflow(const struct concat *c)
{
    return rt_fail(c->r->err, RT_INTERNAL, "Encountered overflow from large input shape.");
}

static enum rt_status check_sizes(const struct concat *c)
{
    for (int i = 0; i < c->n; i++) {
        const struct kn_coo s = part(c, i);
        int64_t total = 1;
        for (int64_t d = 0; d < s.shape->dim[0]; d++)
            if (s.dim[d] < 0 || !rt_mul(total, s.dim[d], &total))
                return fail_overflow(c);
    }
    return RT_OK;
}

static enum rt_status check_part(const struct concat *c, int i)
{
    const struct kn_coo s = part(c, i), first = part(c, 0);
    struct rt_run *r = c->r;

    if (s.shape->dim[0] != c->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Ranks of all input tensors must match: expected %lld but got %lld at "
                       "position %d",
                       (long long)c->rank, (long long)s.shape->dim[0], i);
    for (int64_t d = 0; d < c->rank; d++)
        if (d != c->axis && s.dim[d] != first.dim[d])
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Input shapes must match: expected %lld for dimension %lld but got "
                           "%lld at position %d",
                           (long long)first.dim[d], (long long)d, (long long)s.dim[d], i);
    if (s.indices->dim[0] != s.values->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "indices and values rows (indexing dimension) must match. (indices = %lld, "
                       "values = %lld)",
                       (long long)s.indices->dim[0], (long long)s.values->dim[0]);
    if (s.indices->dim[1] != c->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Order length must be SparseTensor rank.");
    return RT_OK;
}

/* Checks the inputs and writes the output's shape to `dim`. */
static enum rt_status concat_shape(const struct concat *c, int64_t *dim)
{
    const struct kn_coo first = part(c, 0);
    int64_t all = 1;
    enum rt_status st = RT_OK;

    for (int64_t d = 0; d < c->rank; d++)
        dim[d] = d == c->axis ? 0 : first.dim[d];
    for (int i = 0; i < c->n && !st; i++) {
        st = check_part(c, i);
        if (!st && !rt_add(dim[c->axis], part(c, i).dim[c->axis], &dim[c->axis]))
            st = fail_overflow(c);
    }
    for (int64_t d = 0; d < c->rank && !st; d++)
        if (!rt_mul(all, dim[d], &all))
            st = fail_overflow(c);
    return st;
}

/* Writes the indices of all parts to `at`, one part after the other. */
static enum rt_status concat_indices(const struct concat *c, int64_t *at)
{
    int64_t offset = 0, left = RT_WORK;

    for (int i = 0; i < c->n; i++) {
        const struct kn_coo s = part(c, i);
        for (int64_t k = 0; k < s.n; k++, at += c->rank) {
            memcpy(at, s.at + k * c->rank, (size_t)c->rank * sizeof *at);
            at[c->axis] = rt_add_wrapped(at[c->axis], offset);
            if (rt_run_spend(c->r, &left, c->rank))
                return c->r->err->code;
        }
        offset += s.dim[c->axis];
    }
    return RT_OK;
}

static enum rt_status concat_write(const struct concat *c, const struct kn_coo_place *place,
                                   int64_t *out, void *values)
{
    struct rt_run *r = c->r;
    int64_t *rank_of = rt_run_alloc(r, ((size_t)c->total + 1) * sizeof *rank_of);
    int64_t left = RT_WORK, from = 0;
    enum rt_status st = rank_of ? RT_OK : r->err->code;

    for (int64_t i = 0; i < c->total && !st; i++) {
        memcpy(out + i * c->rank, place[i].row, (size_t)c->rank * sizeof *out);
        rank_of[place[i].at] = i;
        st = rt_run_spend(r, &left, c->rank);
    }
    for (int i = 0; i < c->n && !st; i++) {
        const struct kn_coo s = part(c, i);
        for (int64_t k = 0; k < s.n && !st; k++) {
            kn_coo_copy(kn_dtype(s.values), values, rank_of[from++], s.values->data, k);
            st = rt_run_spend(r, &left, KN_COO_WORK);
        }
    }
    rt_pool_free(rank_of);
    return st;
}

static enum rt_status concat_run(struct rt_run *r)
{
    struct concat c = {.r = r, .n = (int)rt_attr_int(r->node, "N")};
    const int64_t axis = rt_attr_int(r->node, "concat_dim");
    enum rt_status st = check_ranks(&c);

    if (st)
        return st;
    if (check_sizes(&c))
        return r->err->code;
    c.rank = part(&c, 0).shape->dim[0];
    c.axis = axis < 0 ? axis + c.rank : axis;
    if (c.axis < 0 || c.axis >= c.rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Concat dimension must be in range [%lld, %lld), got %lld",
                       (long long)-c.rank, (long long)c.rank, (long long)axis);
    int64_t *dim = rt_out(r, 2, 1, &c.rank);
    if (!dim || concat_shape(&c, dim))
        return r->err->code;
    for (int i = 0; i < c.n; i++)
        if (!rt_add(c.total, part(&c, i).n, &c.total))
            return rt_fail_memory(r->err, r->node->name, SIZE_MAX);
    int64_t *out = rt_out(r, 0, 2, (int64_t[]){c.total, c.rank});
    void *values = out ? rt_out(r, 1, 1, &c.total) : NULL;
    if (!values)
        return r->err->code;
    int64_t *at = rt_run_alloc(r, (size_t)(c.total * c.rank + 1) * sizeof *at);
    st = at ? concat_indices(&c, at) : r->err->code;
    struct kn_coo_place *place = st ? NULL : kn_coo_sort(r, at, c.total, c.rank, NULL);
    st = place ? concat_write(&c, place, out, values) : r->err->code;
    rt_pool_free(at);
    return st;
}

const struct kn_entry kn_sparse_concat = {
    .op = {.name = "SparseConcat"},
    .kernels = KN_CPU("SparseConcat", "sparse_concat", 0, NULL, concat_run),
};

/* ---- SparseSplit ---- */

struct split {
    struct kn_coo s;
    int n;
    int64_t axis;
    /* The first `longer` slices have size + 1 indices along the axis. The other slices have `size`
     * indices. */
    int64_t size, longer;
};

static int64_t slice_of(const struct split *p, int64_t at)
{
    const int64_t boundary = p->longer * (p->size + 1);

    return at < boundary ? at / (p->size + 1) : p->longer + (at - boundary) / p->size;
}

static int64_t slice_start(const struct split *p, int64_t slice)
{
    return slice * p->size + (slice < p->longer ? slice : p->longer);
}

static enum rt_status split_checks(struct rt_run *r, struct split *p)
{
    int64_t axis = 0;
    enum rt_status st;

    if (r->in[0].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input axis should be a scalar but received shape %s", KN_TEXT(&r->in[0]));
    if (p->s.indices->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input indices should be a matrix but received shape %s",
                       KN_TEXT(p->s.indices));
    if (p->s.values->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input values should be a vector but received shape %s",
                       KN_TEXT(p->s.values));
    if (p->s.shape->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input shape should be a vector but received shape %s", KN_TEXT(p->s.shape));
    axis = kn_int_at(&r->in[0], 0);
    p->axis = axis < 0 ? rt_add_wrapped(axis, p->s.shape->dim[0]) : axis;
    if (p->axis < 0 || p->axis >= p->s.shape->dim[0])
        return rt_fail(
            r->err, RT_INVALID_ARGUMENT, "Input axis should be in range [%lld, %lld), got %lld",
            (long long)-p->s.shape->dim[0], (long long)p->s.shape->dim[0], (long long)axis);
    st = kn_coo_check(r, &p->s);
    st = st ? st : kn_coo_check_inside(r, &p->s);
    st = st ? st : kn_coo_check_shape(r, p->s.dim, p->s.rank);
    if (!st && (p->n < 1 || p->n > p->s.dim[p->axis]))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input num_split should be between 1 and the splitting dimension size "
                       "(%lld), got %d",
                       (long long)p->s.dim[p->axis], p->n);
    return st;
}

/* Allocates the outputs. Writes the addresses of the outputs' indices to `out`, and the addresses
 * of their values to `values`. */
static enum rt_status split_outputs(struct rt_run *r, const struct split *p, const int64_t *count,
                                    int64_t **out, void **values)
{
    const int64_t rank = p->s.rank;

    for (int k = 0; k < p->n; k++) {
        int64_t *dim = rt_out(r, 2 * p->n + k, 1, &rank);
        if (!dim)
            return r->err->code;
        memcpy(dim, p->s.dim, (size_t)rank * sizeof *dim);
        dim[p->axis] = p->size + (k < p->longer);
        out[k] = rt_out(r, k, 2, (int64_t[]){count[k], rank});
        values[k] = out[k] ? rt_out(r, p->n + k, 1, &count[k]) : NULL;
        if (!values[k] || rt_run_tick(r, k))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status split_run(struct rt_run *r)
{
    struct split p = {.s = kn_coo_of(&r->in[1], &r->in[2], &r->in[3]),
                      .n = (int)rt_attr_int(r->node, "num_split")};
    enum rt_status st = split_checks(r, &p);
    const int64_t rank = p.s.rank;
    int64_t left = RT_WORK;

    if (st)
        return st;
    p.size = p.s.dim[p.axis] / p.n;
    p.longer = p.s.dim[p.axis] % p.n;
    int64_t *count =
        rt_scratch(r, (size_t)p.n * (sizeof *count + sizeof(int64_t *) + sizeof(void *)));
    if (!count)
        return r->err->code;
    int64_t **out = (int64_t **)(count + p.n);
    void **values = (void **)(out + p.n);
    memset(count, 0, (size_t)p.n * sizeof *count);
    for (int64_t i = 0; i < p.s.n && !st; i++) {
        count[slice_of(&p, p.s.at[i * rank + p.axis])]++;
        st = rt_run_tick(r, i);
    }
    st = st ? st : split_outputs(r, &p, count, out, values);
    memset(count, 0, (size_t)p.n * sizeof *count);
    for (int64_t i = 0; i < p.s.n && !st; i++) {
        const int64_t *row = p.s.at + i * rank, k = slice_of(&p, row[p.axis]), to = count[k]++;
        memcpy(out[k] + to * rank, row, (size_t)rank * sizeof *row);
        out[k][to * rank + p.axis] -= slice_start(&p, k);
        kn_coo_copy(kn_dtype(p.s.values), values[k], to, p.s.values->data, i);
        st = rt_run_spend(r, &left, KN_COO_WORK + rank);
    }
    return st;
}

const struct kn_entry kn_sparse_split = {
    .op = {.name = "SparseSplit"},
    .kernels = KN_CPU("SparseSplit", "sparse_split", 0, NULL, split_run),
};
