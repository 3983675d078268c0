#include "kernels/quant/uniform.h"

#include <stdio.h>

enum { NAME_BYTES = 64 };

/* Writes the name of an attribute, `prefix` followed by `name`, to `full` and returns it. */
static const char *attr_name(char full[NAME_BYTES], const char *prefix, const char *name)
{
    snprintf(full, NAME_BYTES, "%s%s", prefix, name);
    return full;
}

int64_t kn_u_axis(const struct rt_node *n, const char *prefix)
{
    char full[NAME_BYTES];

    return rt_attr_int(n, attr_name(full, prefix, "quantization_axis"));
}

enum rt_status kn_u_read(struct rt_run *r, int k, int64_t axis, const struct rt_tensor *t,
                         struct kn_uniform *u)
{
    const struct rt_tensor *scale = &r->in[k], *zero = &r->in[k + 1];

    *u = (struct kn_uniform){.scale = scale->data, .zero = zero->data, .n = 1, .inner = 1};
    if (axis < -1 || axis >= t->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "quantization_axis must be -1 or in range [0, input.rank), but given %lld",
                       (long long)axis);
    if (scale->rank != zero->rank || rt_tensor_count(scale) != rt_tensor_count(zero))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "scales and zero_points shape must be same, but given scales shape %s and "
                       "zero_points shape %s",
                       KN_TEXT(scale), KN_TEXT(zero));
    if (axis < 0 && scale->rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "If quantization_axis is -1, scales and zero_points must be scalar tensors, "
                       "but given scales shape %s and zero_points shape %s",
                       KN_TEXT(scale), KN_TEXT(zero));
    if (axis >= 0 && (scale->rank != 1 || scale->dim[0] != t->dim[axis]))
        return rt_fail(
            r->err, RT_INVALID_ARGUMENT,
            "If quantization_axis is not -1, scales and zero_points must be a tensor of "
            "rank 1 and the size must be equal to the input.dim_size(quantization_axis), "
            "but given quantization_axis %lld, scales shape %s and zero_points shape %s",
            (long long)axis, KN_TEXT(scale), KN_TEXT(zero));
    if (axis >= 0) {
        u->n = t->dim[axis];
        for (int d = (int)axis + 1; d < t->rank; d++)
            u->inner *= t->dim[d];
    }
    return RT_OK;
}

enum rt_status kn_u_read_range(struct rt_run *r, const char *prefix, struct kn_uniform *u)
{
    static const char *const names[] = {"quantization_min_val", "quantization_max_val"};
    int32_t *const to[] = {&u->min, &u->max};

    for (int k = 0; k < 2; k++) {
        char full[NAME_BYTES];
        const int64_t v = rt_attr_int(r->node, attr_name(full, prefix, names[k]));
        if (kn_check_i32(full, v, r->err))
            return r->err->code;
        *to[k] = (int32_t)v;
    }
    return RT_OK;
}

enum rt_status kn_u_check_scales(struct rt_run *r, int k, const char *which)
{
    const float *scale = r->in[k].data;
    const int64_t n = rt_tensor_count(&r->in[k]);

    for (int64_t i = 0; i < n; i++) {
        if (!(scale[i] > 0))
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s scales elements must be all positive.",
                           which);
        if (rt_run_spend(r, &r->left, 1))
            return r->err->code;
    }
    return RT_OK;
}

struct kn_u_factor kn_u_factor_of(double v)
{
    struct kn_u_factor f = {0, 0};
    const double fraction = frexp(v, &f.shift);

    f.m = (int64_t)round(fraction * 0x1p31);
    if (f.m == INT64_C(1) << 31) {
        f.m /= 2;
        f.shift++;
    }
    if (f.shift < -31)
        f = (struct kn_u_factor){0, 0};
    if (f.shift > 30)
        f = (struct kn_u_factor){INT32_MAX, 30};
    return f;
}

enum rt_status kn_u_check_factor(struct rt_run *r, double v, struct kn_u_factor *f)
{
    if (!(v > 0) || isinf(v))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "double_multiplier must be a poisitive finite number. Given %g",
                       isnan(v) ? (double)NAN : v);
    *f = kn_u_factor_of(v);
    return RT_OK;
}

enum rt_status kn_u_product_factor(struct rt_run *r, const struct kn_uniform *left,
                                   const struct kn_uniform *right, const struct kn_uniform *to,
                                   int64_t at, struct kn_u_factor *f)
{
    const double a = (double)left->scale[0], b = (double)right->scale[right->n == 1 ? 0 : at];

    return kn_u_check_factor(r, a * b / (double)to->scale[to->n == 1 ? 0 : at], f);
}

/* Returns the integer of 0 for a range, from that bound whose integer has the smaller error. */
static int32_t zero_of(double min, double max, double scale)
{
    const double below = INT8_MIN - min / scale, above = INT8_MAX - max / scale;
    const double zero =
        -(double)INT8_MIN + fabs(min / scale) < INT8_MAX + fabs(max / scale) ? below : above;

    if (isnan(zero))
        return 0;
    return zero < INT8_MIN ? INT8_MIN : zero > INT8_MAX ? INT8_MAX : (int32_t)rint(zero);
}

enum rt_status kn_u_dynamic_of(struct rt_run *r, const float *x, int64_t blocks, int64_t n,
                               int64_t step, struct kn_u_dynamic *d)
{
    float min = blocks && n ? x[0] : 0, max = min;

    for (int64_t b = 0; b < blocks; b++)
        for (int64_t i = b * step; i < b * step + n; i++) {
            min = min < x[i] ? min : x[i]; /* a NaN is replaced by the number after it */
            max = x[i] < max ? max : x[i];
            if (rt_run_spend(r, &r->left, 1))
                return r->err->code;
        }
    min = min < 0 ? min : 0;
    max = max > 0 ? max : 0;
    const double width = (double)max - (double)min, scale = width / UINT8_MAX;
    *d = (struct kn_u_dynamic){.scale = (float)scale};
    if (width > 0) {
        d->inverse = (float)(1 / scale);
        d->zero = zero_of((double)min, (double)max, (double)d->scale);
    }
    return RT_OK;
}
