/*
 * The ops SparseReduceSum and SparseReduceMax, whose outputs are dense, and SparseReduceSumSparse
 * and SparseReduceMaxSparse, whose outputs are sparse. The values are sorted by their indices in
 * the dimensions that remain, so that the values of each output are adjacent.
 */
#include "kernels/sparse/coo.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

struct reduce {
    struct rt_run *r;
    struct kn_coo s;
    bool is_max, keeps;
    int64_t *order; /* the remaining dimensions, followed by the reduced dimensions */
    int64_t n_kept;
    int64_t *out_dim, n_out_dim; /* the shape of the output */
    const struct kn_coo_place *place;
    int64_t left;
};

/* ---- shapes ---- */

static enum rt_status check_inputs(const struct reduce *p)
{
    struct rt_run *r = p->r;
    const struct kn_coo *s = &p->s;

    if (s->shape->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected input_shape to be a vector; got shape: %s", KN_TEXT(s->shape));
    if (r->in[3].rank > 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected reduction_axes to be a scalar or a vector; got shape: %s",
                       KN_TEXT(&r->in[3]));
    if (s->values->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "vals must be a vec, but got: %s",
                       KN_TEXT(s->values));
    if (s->n != s->values->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "indices and values rows (indexing dimension) must match. (indices = %lld, "
                       "values = %lld)",
                       (long long)s->n, (long long)s->values->dim[0]);
    if (s->indices->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "indices must be a matrix, but got: %s",
                       KN_TEXT(s->indices));
    if (s->rank != s->shape->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Order length must be SparseTensor rank.");
    return kn_coo_check_shape(r, s->dim, s->rank);
}

/* Sets the order of the dimensions and the shape of the output. The caller has allocated both
 * arrays for the rank of the input, and zeroed `order`. */
static enum rt_status read_axes(struct reduce *p)
{
    const struct rt_tensor *axes = &p->r->in[3];
    const int64_t rank = p->s.rank, n = rt_tensor_count(axes);
    int64_t at = 0;

    for (int64_t i = 0; i < n; i++) {
        const int64_t v = kn_int_at(axes, i);
        if (v < -rank || v >= rank)
            return rt_fail(p->r->err, RT_INVALID_ARGUMENT,
                           "Invalid reduction dimension %lld, for input with %lld dimensions.",
                           (long long)v, (long long)rank);
        p->order[rank + (v < 0 ? v + rank : v)] = 1;
        if (rt_run_tick(p->r, i))
            return p->r->err->code;
    }
    for (int reduced = 0; reduced < 2; reduced++) {
        for (int64_t d = 0; d < rank; d++)
            if (p->order[rank + d] == reduced)
                p->order[at++] = d;
        p->n_kept = reduced ? p->n_kept : at;
    }
    for (int64_t d = 0; d < rank; d++)
        if (!p->order[rank + d])
            p->out_dim[p->n_out_dim++] = p->s.dim[d];
        else if (p->keeps)
            p->out_dim[p->n_out_dim++] = 1;
    return RT_OK;
}

/* ---- groups ---- */

/* Returns the position after the last value of the group that begins at `from`. */
static int64_t group_end(struct reduce *p, int64_t from)
{
    int64_t i = from + 1;

    for (; i < p->s.n; i++) {
        for (int64_t k = 0; k < p->n_kept; k++)
            if (p->place[i].row[p->order[k]] != p->place[from].row[p->order[k]])
                return i;
        if (rt_run_spend(p->r, &p->left, 4 + p->n_kept))
            return -1;
    }
    return i;
}

/* Sets element `to` of dst to the sum or the maximum of the group. As in TensorFlow, the running
 * maximum is replaced by every later value that is not smaller, and by every later NaN. */
#define REDUCE(dt, T)                                                                              \
    static void sum_##dt(const struct kn_coo_place *p, int64_t n, const T *src, T *dst)            \
    {                                                                                              \
        KN_U(dt) sum = 0;                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            sum += (KN_U(dt))KN_GET(dt, src[p[i].at]);                                             \
        *dst = KN_PUT(dt, sum);                                                                    \
    }
#define LARGEST(dt, T)                                                                             \
    static void max_##dt(const struct kn_coo_place *p, int64_t n, const T *src, T *dst)            \
    {                                                                                              \
        KN_C(dt) most = KN_GET(dt, src[p[0].at]);                                                  \
        for (int64_t i = 1; i < n; i++) {                                                          \
            const KN_C(dt) v = KN_GET(dt, src[p[i].at]);                                           \
            most = most > v ? most : v;                                                            \
        }                                                                                          \
        *dst = KN_PUT(dt, most);                                                                   \
    }
KN_NUMBERS(REDUCE)
KN_REALS(LARGEST)

static enum rt_status reduce_group(struct reduce *p, int64_t from, int64_t n, void *out, int64_t to)
{
    const struct kn_coo_place *group = p->place + from;
    const void *src = p->s.values->data;
    const enum rt_dtype dtype = kn_dtype(p->s.values);

    if (p->is_max) {
        switch (dtype) {
#define CASE(dt, T)                                                                                \
    case dt:                                                                                       \
        max_##dt(group, n, src, (T *)out + to);                                                    \
        break;
            KN_REALS(CASE)
#undef CASE
        default:
            break;
        }
    } else {
        switch (dtype) {
#define CASE(dt, T)                                                                                \
    case dt:                                                                                       \
        sum_##dt(group, n, src, (T *)out + to);                                                    \
        break;
            KN_NUMBERS(CASE)
#undef CASE
        default:
            break;
        }
    }
    return rt_run_spend(p->r, &p->left, 8 * n);
}

/* Checks the inputs and sorts the values. */
static enum rt_status begin(struct reduce *p)
{
    struct rt_run *r = p->r;
    enum rt_status st;

    p->s = kn_coo_of(&r->in[0], &r->in[1], &r->in[2]);
    p->keeps = rt_attr_bool(r->node, "keep_dims");
    p->left = RT_WORK;
    st = check_inputs(p);
    if (st)
        return st;
    p->order = rt_run_alloc(r, (3 * (size_t)p->s.rank + 1) * sizeof *p->order);
    p->out_dim = p->order + 2 * p->s.rank;
    st = p->order ? read_axes(p) : r->err->code;
    p->place = st ? NULL : kn_coo_sort(r, p->s.at, p->s.n, p->s.rank, p->order);
    return p->place ? RT_OK : r->err->code;
}

/* ---- dense outputs ---- */

/* Returns the position of a group in the output. As in TensorFlow, indices are not checked one by
 * one, so the position may wrap around. */
static int64_t position(const struct reduce *p, const int64_t *row)
{
    int64_t at = 0;

    for (int64_t k = 0; k < p->n_kept; k++)
        at = rt_add_wrapped(rt_mul_wrapped(at, p->s.dim[p->order[k]]), row[p->order[k]]);
    return at;
}

static enum rt_status write_dense(struct reduce *p)
{
    struct rt_run *r = p->r;
    const enum rt_dtype dtype = kn_dtype(p->s.values);

    if (p->n_out_dim > RT_MAX_RANK)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "a rank above %d", RT_MAX_RANK);
    void *out = rt_out(r, 0, (int)p->n_out_dim, p->out_dim);
    if (!out)
        return r->err->code;
    const int64_t total = rt_count((int)p->n_out_dim, p->out_dim);
    enum rt_status st = kn_zero_chunks(r, out, (size_t)total * rt_dtype_size(dtype));
    for (int64_t i = 0, end = 0; i < p->s.n && !st; i = end) {
        const int64_t at = position(p, p->place[i].row);
        end = group_end(p, i);
        if (end < 0)
            return r->err->code;
        if (at < 0 || at >= total)
            return rt_fail(r->err, RT_INTERNAL,
                           "Obtained a write index of %lld which is outside of bounds of [0, %lld)",
                           (long long)at, (long long)total);
        st = reduce_group(p, i, end - i, out, at);
    }
    return st;
}

static enum rt_status dense_run(struct rt_run *r, bool is_max)
{
    struct reduce p = {.r = r, .is_max = is_max};
    enum rt_status st = begin(&p);

    st = st ? st : write_dense(&p);
    rt_pool_free(p.order);
    return st;
}

/* ---- sparse outputs ---- */

static void write_row(const struct reduce *p, const int64_t *row, int64_t *out)
{
    int64_t k = 0;

    for (int64_t d = 0; d < p->s.rank; d++) {
        const bool stays = k < p->n_kept && p->order[k] == d;
        if (stays || p->keeps)
            *out++ = stays ? row[d] : 0;
        k += stays;
    }
}

static enum rt_status write_sparse(struct reduce *p)
{
    struct rt_run *r = p->r;
    int64_t n = 0;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < p->s.n; n++) {
        i = group_end(p, i);
        if (i < 0)
            return r->err->code;
    }
    int64_t *index = rt_out(r, 0, 2, (int64_t[]){n, p->n_out_dim});
    void *values = index ? rt_out(r, 1, 1, &n) : NULL;
    int64_t *dim = values ? rt_out(r, 2, 1, &p->n_out_dim) : NULL;
    if (!dim)
        return r->err->code;
    if (p->n_out_dim)
        memcpy(dim, p->out_dim, (size_t)p->n_out_dim * sizeof *dim);
    for (int64_t i = 0, end = 0, to = 0; i < p->s.n && !st; i = end, to++) {
        end = group_end(p, i);
        if (end < 0)
            return r->err->code;
        write_row(p, p->place[i].row, index + to * p->n_out_dim);
        st = reduce_group(p, i, end - i, values, to);
    }
    return st;
}

static enum rt_status sparse_run(struct rt_run *r, bool is_max)
{
    struct reduce p = {.r = r, .is_max = is_max};
    enum rt_status st = begin(&p);

    st = st ? st : write_sparse(&p);
    rt_pool_free(p.order);
    return st;
}

/* ---- ops ---- */

#define REDUCE_OP(symbol, op_, types_, how, is_max)                                                \
    static enum rt_status symbol##_run(struct rt_run *r)                                           \
    {                                                                                              \
        return how(r, is_max);                                                                     \
    }                                                                                              \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_)},                                                                     \
        .kernels = KN_CPU(op_, #symbol, KN_SET(types_), NULL, symbol##_run),                       \
    };
REDUCE_OP(sparse_reduce_sum, "SparseReduceSum", KN_NUMBERS, dense_run, false)
REDUCE_OP(sparse_reduce_max, "SparseReduceMax", KN_REALS, dense_run, true)
REDUCE_OP(sparse_reduce_sum_sparse, "SparseReduceSumSparse", KN_NUMBERS, sparse_run, false)
REDUCE_OP(sparse_reduce_max_sparse, "SparseReduceMaxSparse", KN_REALS, sparse_run, true)
