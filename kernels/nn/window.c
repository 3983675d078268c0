#include "kernels/nn/window.h"
#include "runtime/base/checked.h"

enum kn_padding kn_padding(const struct rt_node *n)
{
    const struct rt_span s = rt_attr_str(n, "padding");
    return rt_span_is(s, "SAME") ? KN_SAME : rt_span_is(s, "VALID") ? KN_VALID : KN_EXPLICIT;
}

bool kn_channels_first(const struct rt_node *n)
{
    if (!rt_attr(n, "data_format"))
        return false;
    const struct rt_span s = rt_attr_str(n, "data_format");
    return (s.n >= 2 && s.p[1] == 'C') || rt_span_is(s, "CHANNELS_FIRST");
}

enum rt_status kn_check_paddings(const struct rt_node *n, struct rt_error *err)
{
    const int64_t *pads;
    const size_t len = rt_attr_ints(n, "explicit_paddings", &pads);

    if (len != 8)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "explicit_paddings attribute must contain 8 values, but got: %zu", len);
    for (int i = 0; i < 8; i++)
        if (pads[i] < 0 || pads[i] > INT32_MAX)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "All elements of explicit_paddings must be nonnegative");
    return RT_OK;
}

enum rt_status kn_axis_check_padding(const struct kn_axis *a, int axis, struct rt_error *err)
{
    static const char *const side[2][2] = {{"Top", "Bottom"}, {"Left", "Right"}};

    for (int i = 0; i < 2; i++) {
        const int64_t pad = i ? a->hi : a->lo;
        if (pad >= a->size)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "%s padding %lld needs to be smaller than the window size %lld",
                           side[axis][i], (long long)pad, (long long)a->size);
    }
    return RT_OK;
}

int kn_spatial_axis(bool channels_first, int i)
{
    return i + (channels_first ? 2 : 1);
}

int kn_channel_axis(bool channels_first, int n_spatial)
{
    return channels_first ? 1 : n_spatial + 1;
}

enum rt_status kn_axis_solve(struct kn_axis *a, enum kn_padding padding, struct rt_error *err)
{
    int64_t reach = 0;

    if (!rt_mul(a->size - 1, a->dilation, &reach) || ++reach > INT32_MAX || a->in > INT64_MAX / 4)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "a window of %lld positions with dilation %lld is too large",
                       (long long)a->size, (long long)a->dilation);
    if (padding == KN_VALID)
        a->lo = a->hi = 0;
    if (a->in < 0 || a->size < 0) {
        a->out = -1;
        return RT_OK;
    }
    if (padding == KN_SAME) {
        a->out = (a->in + a->stride - 1) / a->stride;
        const int64_t all = (a->out - 1) * a->stride + reach - a->in;
        a->lo = all > 0 ? all / 2 : 0;
        a->hi = all > 0 ? all - a->lo : 0;
        return RT_OK;
    }
    a->out = (a->in + a->lo + a->hi - reach + a->stride) / a->stride;
    if (a->out < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Computed output size would be negative: %lld [input_size: %lld, "
                       "effective_filter_size: %lld, stride: %lld]",
                       (long long)a->out, (long long)a->in, (long long)reach, (long long)a->stride);
    return RT_OK;
}
