/*
 * The shapes of Conv, the convolution of tensors with any number of batch dimensions. The attribute
 * "batch_dims" and the rank of the input tell whether it has two or three spatial axes.
 */
#include "kernels/conv/conv_shape.h"

/* Checks the values of "strides" or "dilations", except their number. `name` is the attribute's
 * name in TensorFlow's error messages, and `positive` the message for a value out of range. */
static enum rt_status check_windows(const struct rt_node *n, const int64_t *v, int sp,
                                    const char *name, const char *positive, struct rt_error *err)
{
    if (v[0] != 1 || v[kn_channel_axis(kn_channels_first(n), sp)] != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Current implementation does not support %s in the batch and depth "
                       "dimensions.",
                       name);
    for (int i = 0; i < sp + 2; i++)
        if (v[i] <= 0 || v[i] > INT32_MAX)
            return rt_fail(err, RT_INVALID_ARGUMENT, "%s", positive);
    return RT_OK;
}

static enum rt_status check_strides(const struct rt_node *n, int sp, struct rt_error *err)
{
    const int64_t *v;

    if (rt_attr_ints(n, "strides", &v) != (size_t)sp + 2)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Sliding window strides field must specify %d dimensions", sp + 2);
    return check_windows(n, v, sp, "strides", "Spatial strides should be larger than 0.", err);
}

static enum rt_status check_dilations(const struct rt_node *n, int sp, struct rt_error *err)
{
    const int64_t *v;
    const size_t len = rt_attr_ints(n, "dilations", &v);

    if (len == 0)
        return RT_OK;
    if (len != (size_t)sp + 2)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Dilation rates field must specify%ddimensions",
                       sp + 2);
    return check_windows(n, v, sp, "dilation rates", "Dilated rates should be larger than 0.", err);
}

static enum rt_status check_attributes(const struct rt_node *n, int sp, struct rt_error *err)
{
    const int64_t *v;
    enum rt_status st = check_strides(n, sp, err);

    if (!st)
        st = check_dilations(n, sp, err);
    /* TensorFlow wants 10 values for three axes, and then ends the process. */
    if (!st && sp == 3 && kn_padding(n) == KN_EXPLICIT) {
        const size_t len = rt_attr_ints(n, "explicit_paddings", &v);
        return len == 10
                   ? rt_fail(err, RT_INVALID_ARGUMENT,
                             "Explicit padding not supported for 3D Convolution")
                   : rt_fail(err, RT_INVALID_ARGUMENT,
                             "explicit_paddings attribute must contain 10 values, but got: %zu",
                             len);
    }
    return st ? st : kn_conv_check_paddings(n, err);
}

/* Checks the inputs as far as their shapes are known. The rank of the input must be known. */
static enum rt_status check_inputs(const struct rt_infer *x, int sp)
{
    const struct rt_shape *in = &x->in[0].shape, *filter = &x->in[1].shape;

    if (sp != 2 && sp != 3)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "The input must have 2 or 3 spatial dimensions but got %d", sp);
    for (int i = 0; i < filter->rank; i++)
        if (filter->dim[i] == 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "filter must not have zero elements (i.e. all dimensions must be "
                           "non-zero)");
    if (filter->rank >= 0 && filter->rank != 4 && filter->rank != 5)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "The filter must be rank 4 or 5 but got %d",
                       filter->rank);
    const enum rt_status st = check_attributes(x->node, sp, x->err);
    if (st || filter->rank < 0)
        return st;
    const int first = in->rank - 1 - sp;
    const int64_t depth = in->dim[kn_channels_first(x->node) ? first : in->rank - 1];
    const int64_t filter_depth = filter->dim[filter->rank - 2];
    if (depth >= 0 && filter_depth >= 0 && depth != filter_depth)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Input depth must be equal to filter depth: %lld vs %lld", (long long)depth,
                       (long long)filter_depth);
    /* TensorFlow refuses these ranks when it makes the graph, or ends the process. */
    if (filter->rank != sp + 2)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Input tensor rank must be the same as filter rank.");
    return RT_OK;
}

enum rt_status kn_conv_infer_general(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    const int64_t batch_dims = rt_attr_int(x->node, "batch_dims");

    if (rt_attr_int(x->node, "groups") != 1)
        return rt_fail(x->err, RT_UNIMPLEMENTED,
                       "Grouped/Depthwise Convolutions are not supported yet.");
    if (batch_dims < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "batch_dims must not be negative, but got %lld",
                       (long long)batch_dims);
    if (in->rank < 0)
        return RT_OK;
    const int sp = batch_dims < RT_MAX_RANK ? in->rank - 1 - (int)batch_dims : -1;
    const enum rt_status st = check_inputs(x, sp);
    return st ? st : kn_conv_infer(x);
}

void kn_conv_rows_general(struct rt_rows *r)
{
    if (rt_attr_int(r->node, "batch_dims") >= 1)
        rt_rows_first(r);
}
