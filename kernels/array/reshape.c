/* Ops that return the same elements with a different shape: Reshape, QuantizedReshape, Squeeze,
 * ExpandDims. They return views and copy nothing. */
#include "kernels/array/array.h"
#include "kernels/entry.h"

static enum rt_status view(struct rt_run *r, enum rt_status (*infer)(struct rt_infer *))
{
    struct rt_info out;
    enum rt_status st = kn_infer_now(r, infer, &out);

    if (st)
        return st;
    return kn_view(r, 0, 0, out.shape.rank, out.shape.dim);
}

#define VIEW(op_, name_, run_)                                                                     \
    KN_KERNELS({.op = (op_), .device = "CPU", .name = (name_), .flags = RT_K_VIEWS, .run = (run_)})

/* ---- Reshape(tensor, shape) ---- */

static enum rt_status sizes_of(struct rt_infer *x, struct rt_shape *s, int *unknown)
{
    const struct rt_tensor *t = x->in[1].value;
    int64_t dims[RT_MAX_RANK];

    if (t->rank > 1) /* a scalar shape is accepted as a vector of one element */
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "sizes input must be 1-D, not %s", KN_TEXT(t));
    s->rank = kn_ints(t, dims, RT_MAX_RANK);
    if (s->rank < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Reshape: %lld dimensions, more than %d are not supported",
                       (long long)rt_tensor_count(t), RT_MAX_RANK);
    *unknown = -1;
    for (int i = 0; i < s->rank; i++) {
        s->dim[i] = dims[i];
        if (dims[i] == -1) {
            if (*unknown >= 0)
                return rt_fail(x->err, RT_INVALID_ARGUMENT,
                               "Only one input size may be -1, not both %d and %d", *unknown, i);
            *unknown = i;
            s->dim[i] = 1;
        } else if (dims[i] < 0) {
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "Size %d must be non-negative, not %lld", i,
                           (long long)dims[i]);
        }
    }
    return RT_OK;
}

static enum rt_status reshape_infer(struct rt_infer *x)
{
    struct rt_shape s = {0};
    int unknown = -1;

    if (!kn_known(x, 2))
        return RT_OK;
    enum rt_status st = sizes_of(x, &s, &unknown);
    if (st)
        return st;
    const struct rt_shape *in = &x->in[0].shape;
    const int64_t n = kn_shape_total(in);
    if (rt_count(s.rank, s.dim) < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Shape %s has too many elements", KN_TEXT(&s));
    if (unknown >= 0) {
        /* If the requested shape contains a zero, TensorFlow ignores the zeros of both shapes, and
         * computes the missing size from the other dimensions. */
        bool zero = false, in_zero = false;
        int64_t product = 1, have = 1;
        for (int i = 0; i < s.rank; i++) {
            if (s.dim[i] == 0)
                zero = true;
            else
                product *= s.dim[i];
        }
        for (int i = 0; i < in->rank; i++) {
            if (in->dim[i] > 0 || !zero)
                have *= in->dim[i];
            else
                in_zero = true;
        }
        s.dim[unknown] = have / product;
        if (!in_zero && s.dim[unknown] * product != have)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Input to reshape is a tensor with %lld values, but the requested "
                           "shape requires a multiple of %lld",
                           (long long)have, (long long)product);
    }
    const int64_t want = rt_count(s.rank, s.dim);
    if (want != n)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Input to reshape is a tensor with %lld values, but the requested shape "
                       "has %lld",
                       (long long)n, (long long)want);
    x->out[0].shape = s;
    return RT_OK;
}

static enum rt_status reshape_run(struct rt_run *r)
{
    return view(r, reshape_infer);
}

const struct kn_entry kn_reshape = {
    .op = {.name = "Reshape",
           .shape_in = 2,
           .infer = reshape_infer,
           .rows = rt_rows_reshape,
           .is_view = true},
    .kernels = VIEW("Reshape", "reshape", reshape_run),
};

/* ---- QuantizedReshape(tensor, shape, input_min, input_max) ---- */

static enum rt_status quantized_reshape_infer(struct rt_infer *x)
{
    for (int k = 1; k < 3; k++) {
        const struct rt_shape *s = &x->in[k + 1].shape;
        if (s->rank > 1 || (s->rank == 1 && s->dim[0] >= 0 && s->dim[0] != 1))
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "input_%s must be a scalar or a vector of 1 element",
                           k == 1 ? "min" : "max");
        x->out[k].shape.rank = 0;
    }
    return reshape_infer(x);
}

static enum rt_status quantized_reshape_run(struct rt_run *r)
{
    struct rt_info out[3];
    enum rt_status st = kn_infer_now(r, quantized_reshape_infer, out);

    for (int k = 0; !st && k < 3; k++)
        st = kn_view(r, k, k ? k + 1 : 0, out[k].shape.rank, out[k].shape.dim);
    return st;
}

const struct kn_entry kn_quantized_reshape = {
    .op = {.name = "QuantizedReshape", .shape_in = 2, .infer = quantized_reshape_infer},
    .kernels = KN_KERNELS({.op = "QuantizedReshape",
                           .device = "CPU",
                           .name = "quantized_reshape",
                           .types = RT_T(RT_QU8) | RT_T(RT_QI32),
                           .flags = RT_K_VIEWS,
                           .run = quantized_reshape_run}),
};

/* ---- ExpandDims(input, dim) ---- */

static enum rt_status expand_infer(struct rt_infer *x)
{
    if (!kn_known(x, 2))
        return RT_OK;
    const struct rt_shape *in = &x->in[0].shape;
    const struct rt_tensor *t = x->in[1].value;
    struct rt_shape *o = &x->out[0].shape;

    if (rt_tensor_count(t) != 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "'dim' must be a tensor with a single value");
    int64_t d = kn_int_at(t, 0);
    if (d < -1 - in->rank || d > in->rank)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Tried to expand dim index %lld for tensor with %d dimensions.",
                       (long long)d, in->rank);
    if (in->rank == RT_MAX_RANK)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "ExpandDims: more than %d dimensions are not supported", RT_MAX_RANK);
    if (d < 0)
        d += in->rank + 1;
    o->rank = in->rank + 1;
    for (int i = 0; i < o->rank; i++)
        o->dim[i] = i < d ? in->dim[i] : i == d ? 1 : in->dim[i - 1];
    return RT_OK;
}

static enum rt_status expand_run(struct rt_run *r)
{
    return view(r, expand_infer);
}

const struct kn_entry kn_expand_dims = {
    .op = {.name = "ExpandDims",
           .shape_in = 2,
           .infer = expand_infer,
           .rows = rt_rows_reshape,
           .is_view = true},
    .kernels = VIEW("ExpandDims", "expand_dims", expand_run),
};

/* ---- Squeeze(input), squeeze_dims ---- */

static enum rt_status squeeze_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    struct rt_shape *o = &x->out[0].shape;
    const int64_t *dims;
    const size_t n = rt_attr_ints(x->node, "squeeze_dims", &dims);
    unsigned drop = 0;

    if (!kn_shape_known(in))
        return RT_OK;
    for (size_t i = 0; i < n; i++) {
        if (dims[i] < -in->rank || dims[i] >= in->rank)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Tried to squeeze dim index %lld for tensor with %d dimensions.",
                           (long long)dims[i], in->rank);
        drop |= 1u << (dims[i] < 0 ? dims[i] + in->rank : dims[i]);
    }
    o->rank = 0;
    for (int i = 0; i < in->rank; i++) {
        if (n == 0 ? in->dim[i] == 1 : (drop >> i & 1) != 0) {
            if (in->dim[i] != 1) {
                o->rank = -1;
                return rt_fail(x->err, RT_INVALID_ARGUMENT,
                               "Can not squeeze dim[%d], expected a dimension of 1, got %lld", i,
                               (long long)in->dim[i]);
            }
            continue;
        }
        o->dim[o->rank++] = in->dim[i];
    }
    return RT_OK;
}

static enum rt_status squeeze_run(struct rt_run *r)
{
    return view(r, squeeze_infer);
}

const struct kn_entry kn_squeeze = {
    .op = {.name = "Squeeze", .infer = squeeze_infer, .rows = rt_rows_reshape, .is_view = true},
    .kernels = VIEW("Squeeze", "squeeze", squeeze_run),
};
