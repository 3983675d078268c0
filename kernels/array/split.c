/* Split divides a tensor into equal parts, and SplitV into parts of given sizes. */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

static enum rt_status split_axis(const struct rt_tensor *t, bool any_shape, int rank, int *axis,
                                 struct rt_error *err)
{
    int64_t a;

    /* TensorFlow's Split requires a scalar axis, while its SplitV accepts one element in any
     * shape. */
    if (!(any_shape ? kn_single(t, &a) : kn_scalar(t, &a)))
        return rt_fail(err, RT_INVALID_ARGUMENT, "split_dim must be a scalar but has rank %d",
                       t->rank);
    *axis = rt_axis_of(a, rank);
    if (*axis < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "-input rank(-%d) <= split_dim < input rank (%d), but got %lld", rank, rank,
                       (long long)a);
    return RT_OK;
}

/* Makes output k, whose shape is already set, a view of input `in`, starting at element `first`. */
static enum rt_status share(struct rt_run *r, int k, int in, int64_t first)
{
    const struct rt_tensor o = r->out[k];

    return kn_out_slice(r, k, in, first, o.rank, o.dim);
}

/* Splits input `in` along `axis` into all outputs, whose shapes the caller has set. */
static enum rt_status cut(struct rt_run *r, int in, int axis)
{
    const struct rt_tensor *t = &r->in[in];
    const enum rt_dtype dt = kn_dtype(t);
    int64_t outer = 1, inner = 1, at = 0;

    for (int i = 0; i < t->rank; i++)
        *(i < axis ? &outer : &inner) *= t->dim[i];
    if (outer * inner == 0)
        return RT_OK;
    const int64_t unit = inner / t->dim[axis];
    /* whether TensorFlow shares the input's buffer instead of copying it */
    const bool shares = t->alias_of && (r->n_out == 1 || (axis == 0 && kn_is_aligned(dt, unit)));
    for (int k = 0; k < r->n_out; k++) {
        const int64_t len = unit * r->out[k].dim[axis];
        const struct kn_walk w = {
            .rank = 2, .dim = {outer, len}, .dst = {len, 1}, .src = {inner, 1}};
        enum rt_status st = RT_OK;
        if (len && shares)
            st = share(r, k, in, at);
        else if (len)
            st = kn_walk_copy(dt, &w, r->out[k].data, kn_at(t, at), r);
        if (st)
            return st;
        at += len;
    }
    return RT_OK;
}

static enum rt_status split_run_at(struct rt_run *r, int in, int axis_in,
                                   enum rt_status (*infer)(struct rt_infer *))
{
    int axis = 0;
    enum rt_status st = kn_outputs(r, infer);

    if (st || (st = split_axis(&r->in[axis_in], axis_in == 2, r->in[in].rank, &axis, r->err)))
        return st;
    return cut(r, in, axis);
}

static void split_rows_at(struct rt_rows *r, int in, int axis_in)
{
    if (kn_rows_independent(r))
        return;
    const struct rt_tensor *a = r->in[axis_in].value;
    if (r->in_dep[in].kind != RT_DEP_ROWS || !a)
        return;
    int64_t axis = kn_int_at(a, 0);
    if (axis < 0)
        axis += r->in[in].shape.rank;
    if (axis != r->in_dep[in].axis)
        kn_rows_set(r, RT_DEP_ROWS, r->in_dep[in].axis);
}

/* ---- Split(split_dim, value) ---- */

static enum rt_status split_infer(struct rt_infer *x)
{
    int axis = 0;

    if (!kn_known(x, 1))
        return RT_OK;
    const struct rt_shape *in = &x->in[1].shape;
    enum rt_status st = split_axis(x->in[0].value, false, in->rank, &axis, x->err);
    if (st)
        return st;
    if (in->dim[axis] % x->n_out != 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Number of ways to split should evenly divide the split dimension, but "
                       "got split_dim %d (size = %lld) and num_split %d",
                       axis, (long long)in->dim[axis], x->n_out);
    for (int k = 0; k < x->n_out; k++) {
        x->out[k].shape = *in;
        x->out[k].shape.dim[axis] /= x->n_out;
    }
    return RT_OK;
}

static enum rt_status split_run(struct rt_run *r)
{
    return split_run_at(r, 1, 0, split_infer);
}

static void split_rows(struct rt_rows *r)
{
    split_rows_at(r, 1, 0);
}

const struct kn_entry kn_split = {
    .op = {.name = "Split", .shape_in = 1, .infer = split_infer, .rows = split_rows},
    .kernels = KN_CPU("Split", "split", 0, NULL, split_run),
};

/* ---- SplitV(value, size_splits, split_dim) ---- */

static enum rt_status split_v_infer(struct rt_infer *x)
{
    int axis, open = -1;
    int64_t sum = 0;

    if (!kn_known(x, 6))
        return RT_OK;
    const struct rt_shape *in = &x->in[0].shape;
    const struct rt_tensor *sizes = x->in[1].value;
    enum rt_status st = split_axis(x->in[2].value, true, in->rank, &axis, x->err);
    if (st)
        return st;
    if (sizes->rank != 1 || sizes->dim[0] != x->n_out)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "size of the split_tensor must be 1-D and have the same elements as "
                       "outputs got %d -D and %lld elements",
                       sizes->rank, (long long)rt_tensor_count(sizes));
    const int64_t have = in->dim[axis];
    if (x->n_out == 1 && kn_int_at(sizes, 0) != have)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "If there is only one output, it must have the same size as the input. "
                       "Input size: %lld output size: %lld",
                       (long long)have, (long long)kn_int_at(sizes, 0));
    for (int k = 0; k < x->n_out; k++) {
        const int64_t n = kn_int_at(sizes, k);
        if (n == -1) {
            if (open >= 0)
                return rt_fail(x->err, RT_INVALID_ARGUMENT,
                               "There can only be one -1 in the input.");
            open = k;
        } else if (n < 0) {
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Split size at index %d must be >= 0. Got: %lld", k, (long long)n);
        } else if (!rt_add(sum, n, &sum)) {
            sum = INT64_MAX;
        }
    }
    if (open < 0 ? sum != have : sum > have)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Determined shape must either match input shape along split_dim exactly if "
                       "fully specified, or be less than the size of the input along split_dim if "
                       "not fully specified.  Got: %lld",
                       (long long)sum);
    for (int k = 0; k < x->n_out; k++) {
        x->out[k].shape = *in;
        x->out[k].shape.dim[axis] = k == open ? have - sum : kn_int_at(sizes, k);
    }
    return RT_OK;
}

static enum rt_status split_v_run(struct rt_run *r)
{
    return split_run_at(r, 0, 2, split_v_infer);
}

static void split_v_rows(struct rt_rows *r)
{
    split_rows_at(r, 0, 2);
}

const struct kn_entry kn_split_v = {
    .op = {.name = "SplitV", .shape_in = 6, .infer = split_v_infer, .rows = split_v_rows},
    .kernels = KN_CPU("SplitV", "split_v", 0, NULL, split_v_run),
};
